//! Converts a sampling rule (a name and its arguments) from Python to the engine's sampler, and samples clips
//! with it. The Python package chooses the defaults.

mod args;
mod calls;
mod custom;
mod draws;
mod presets;
mod rules;

use framespool::batch_sampler::rng::{purpose, Key};
use framespool::clip_sampler::video_timing::{ConstantFrameRate, FrameTimestamps};
use framespool::clip_sampler::{RandomSource, Sampling, VideoTiming};
use framespool::{Error, Result};
use pyo3::prelude::*;

use crate::errors::OrRaise;
use args::Args;
pub use args::Callable;
pub use calls::with_cause;
pub use custom::Info;
use draws::Script;

/// A sampling rule: its name, and its arguments by name.
pub type SamplerArgs = Args;

/// Returns the engine's sampler for a rule.
pub fn sampling(args: &SamplerArgs) -> Result<Sampling> {
    if let Some(name) = args.rule().strip_prefix("preset:") {
        return presets::preset(name, args);
    }
    rules::rule(args)
}

/// The timing of a video: a number of frames at a constant rate, or the presentation time of every frame and
/// the end of the video, in seconds.
#[derive(FromPyObject)]
pub enum Known {
    ConstantFrameRate(u32, f64),
    FrameTimestamps(Vec<f64>, f64),
}

impl Known {
    fn footage(self) -> Result<Box<dyn VideoTiming>> {
        Ok(match self {
            Known::ConstantFrameRate(_, fps) if !(fps.is_finite() && fps > 0.0) => {
                return Err(Error::Argument(format!("fps must be a number greater than 0, got {fps}")));
            }
            Known::ConstantFrameRate(num_frames, fps) => Box::new(ConstantFrameRate { num_frames, fps }),
            Known::FrameTimestamps(begins, end) => Box::new(FrameTimestamps::new(begins, end)?),
        })
    }
}

#[pyfunction]
pub fn clips_in(py: Python<'_>, rule: SamplerArgs, video: Known) -> PyResult<u64> {
    let count = || Ok(sampling(&rule)?.clips_in(&*video.footage()?));
    count().or_raise(py)
}

/// Returns the frame numbers and the mask of one clip of a video. The sampler uses the random numbers in
/// `draws`, in this order, or, if there are none, those that a dataset whose first video is this one has for
/// `key`, which is (seed, epoch).
#[pyfunction]
pub fn sample(
    py: Python<'_>,
    rule: SamplerArgs,
    video: Known,
    clip: u64,
    draws: Option<Vec<draws::SampledParams>>,
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
                let clip_id = if rule.shares_rng_per_video() { 0 } else { clip };
                let key = Key { seed: key.0, epoch: key.1, clip: clip_id, occurrence: 0 };
                rule.clip(&*video, clip, &mut key.rng(purpose::SAMPLING) as &mut dyn RandomSource)?
            }
        };
        Ok((sample.indices, sample.mask))
    };
    with_cause(py, || sample().or_raise(py))
}
