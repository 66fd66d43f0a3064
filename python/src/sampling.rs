//! In: a sampling rule as the Python package hands it down: its name and its arguments.
//! Out: the engine's rule, and what it makes of one video.
//! Never: decides a default; the Python package states them all.

mod args;
mod calls;
mod custom;
mod draws;
mod presets;
mod rules;

use framespool::order::rng::{purpose, Key};
use framespool::sampling::footage::{Steady, Timed};
use framespool::sampling::{Draw, Footage, Sampling};
use framespool::{Error, Result};
use pyo3::prelude::*;

use crate::errors::OrRaise;
use args::Args;
pub use args::Callable;
pub use calls::with_cause;
pub use custom::Info;
use draws::Script;

/// A rule: its name, and its arguments by name.
pub type Rule = Args;

/// The engine's rule.
pub fn sampling(args: &Rule) -> Result<Sampling> {
    if let Some(name) = args.rule().strip_prefix("preset:") {
        return presets::preset(name, args);
    }
    rules::rule(args)
}

/// What is known of a video: so many frames at a rate, or the times of its frames in seconds and its end.
#[derive(FromPyObject)]
pub enum Known {
    Steady(u32, f64),
    Timed(Vec<f64>, f64),
}

impl Known {
    fn footage(self) -> Result<Box<dyn Footage>> {
        Ok(match self {
            Known::Steady(_, fps) if !(fps.is_finite() && fps > 0.0) => {
                return Err(Error::Argument(format!("fps must be a number greater than 0, got {fps}")));
            }
            Known::Steady(num_frames, fps) => Box::new(Steady { num_frames, fps }),
            Known::Timed(begins, end) => Box::new(Timed::new(begins, end)?),
        })
    }
}

#[pyfunction]
pub fn clips_in(py: Python<'_>, rule: Rule, video: Known) -> PyResult<u64> {
    let count = || Ok(sampling(&rule)?.clips_in(&*video.footage()?));
    count().or_raise(py)
}

/// Frames and mask of one clip of a video: with the numbers in `draws`, in this order, or with those that belong to
/// (seed, epoch) where the video is the first of its dataset.
#[pyfunction]
pub fn sample(
    py: Python<'_>,
    rule: Rule,
    video: Known,
    clip: u64,
    draws: Option<Vec<draws::Drawn>>,
    key: (u64, u64),
) -> PyResult<(Vec<u32>, Vec<bool>)> {
    let sample = || {
        let (rule, video) = (sampling(&rule)?, video.footage()?);
        let sample = match draws {
            Some(draws) => {
                let mut script = Script::new(draws);
                let sample = rule.clip(&*video, clip, &mut script);
                script.verdict()?;
                sample?
            }
            None => {
                let clip_id = if rule.draws_together() { 0 } else { clip };
                let key = Key { seed: key.0, epoch: key.1, clip: clip_id, visit: 0 };
                rule.clip(&*video, clip, &mut key.rng(purpose::SAMPLING) as &mut dyn Draw)?
            }
        };
        Ok((sample.indices, sample.mask))
    };
    with_cause(py, || sample().or_raise(py))
}
