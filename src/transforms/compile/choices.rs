//! Draws one of several lists of transforms, and applies it.

use super::super::transform::{Step, Transform, count_steps};
use super::{Compiler, Numbers, SampledParams};
use crate::error::Result;
use crate::rng::Rng;

impl Compiler {
    /// Applies one of the lists of a transform, whose steps have the places from `place` on.
    /// Returns what was drawn for it; `None` for a transform without lists.
    pub(super) fn choose(
        &mut self,
        transform: &Transform,
        mut place: usize,
        rng: &mut Rng,
        numbers: &mut Numbers,
    ) -> Result<Option<Vec<SampledParams>>> {
        let choices = transform.choices();
        if choices.is_empty() {
            return Ok(None);
        }
        let drawn = draw(&choices, rng);
        numbers.push(match transform {
            Transform::RandomApply { .. } => ("applied", vec![f64::from(u8::from(drawn == 0))]),
            _ => ("choice", vec![drawn as f64]),
        });
        // Every list has places of its own, so that one does not change the parameters of the
        // others.
        place += choices[..drawn]
            .iter()
            .map(|(_, steps)| count_steps(steps))
            .sum::<usize>();
        self.steps(choices[drawn].1, place).map(Some)
    }
}

/// The index of a list, drawn by weight.
fn draw(choices: &[(f64, &[Step])], rng: &mut Rng) -> usize {
    let mut left = rng.next_f64() * choices.iter().map(|(weight, _)| weight).sum::<f64>();
    let mut last = 0;
    for (number, (weight, _)) in choices
        .iter()
        .enumerate()
        .filter(|(_, (weight, _))| *weight > 0.0)
    {
        if left < *weight {
            return number;
        }
        left -= weight;
        last = number; // the sum may be rounded up
    }
    last
}
