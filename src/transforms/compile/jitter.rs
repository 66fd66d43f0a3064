//! Draws and applies random changes of color in a random order.

use framespool_kernels::{ColorMap, RgbOperation};

use super::super::color_matrix;
use super::super::params::uniform;
use super::super::transform::UniformRange;
use super::Compiler;
use crate::rng::Rng;

/// Factors of brightness, contrast and saturation, and the shift of hue, that change nothing.
const NEUTRAL: [f64; 4] = [1.0, 1.0, 1.0, 0.0];

impl Compiler {
    /// torchvision's `ColorJitter`: the order and the factors are drawn.
    pub(super) fn jitter(
        &mut self,
        [brightness, contrast, saturation, hue]: [Option<UniformRange>; 4],
        rng: &mut Rng,
        record: &mut dyn FnMut(&'static str, &[f64]),
    ) {
        let mut order = [0usize, 1, 2, 3];
        for i in (1..4).rev() {
            order.swap(i, rng.next_below(i as u64 + 1) as usize);
        }
        record("order", &order.map(|i| i as f64));
        // Always draws four numbers, so that disabling one factor does not change the others.
        let spans = [brightness, contrast, saturation, hue];
        let factors =
            [0, 1, 2, 3].map(|i| uniform(spans[i].unwrap_or(UniformRange::only(NEUTRAL[i])), rng));
        for i in order {
            if spans[i].is_none() {
                continue;
            }
            self.adjust(i, factors[i]);
        }
        record_factors(factors, record);
    }

    /// torchvision's `RandomPhotometricDistort`: each change is applied with probability `p`,
    /// contrast after brightness or after hue.
    pub(super) fn distort(
        &mut self,
        spans: [UniformRange; 4],
        p: f64,
        rng: &mut Rng,
        record: &mut dyn FnMut(&'static str, &[f64]),
    ) {
        // Always draws all numbers, so that one change does not change the others.
        let factors = [0, 1, 2, 3].map(|i| {
            let (applied, factor) = (rng.next_f64() < p, uniform(spans[i], rng));
            if applied { factor } else { NEUTRAL[i] }
        });
        let contrast_first = rng.next_f64() < 0.5;
        let permuted = rng.next_f64() < p;
        let mut channels = [0usize, 1, 2];
        for i in (1..3).rev() {
            channels.swap(i, rng.next_below(i as u64 + 1) as usize);
        }
        if !permuted {
            channels = [0, 1, 2];
        }
        let order = if contrast_first {
            [0, 1, 2, 3]
        } else {
            [0, 2, 3, 1]
        };
        for i in order {
            if factors[i] != NEUTRAL[i] {
                self.adjust(i, factors[i]);
            }
        }
        if channels != [0, 1, 2] {
            let row = |from: usize| [0, 1, 2].map(|channel| f64::from(u8::from(channel == from)));
            self.change(&ColorMap::linear(channels.map(row)));
        }
        record_factors(factors, record);
        record("contrast_first", &[f64::from(u8::from(contrast_first))]);
        record("channels", &channels.map(|channel| channel as f64));
    }

    /// One change: 0 brightness, 1 contrast, 2 saturation, 3 hue.
    fn adjust(&mut self, number: usize, factor: f64) {
        match number {
            0 => self.change(&color_matrix::brightness(factor)),
            1 => self.change(&color_matrix::contrast(factor)),
            2 => self.change(&color_matrix::saturation(factor)),
            _ => self.operate(RgbOperation::hue(factor)),
        }
    }
}

fn record_factors(factors: [f64; 4], record: &mut dyn FnMut(&'static str, &[f64])) {
    for (name, factor) in ["brightness", "contrast", "saturation", "hue"]
        .into_iter()
        .zip(factors)
    {
        record(name, &[factor]);
    }
}
