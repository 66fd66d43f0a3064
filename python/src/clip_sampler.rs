//! Converts a clip sampler (a name and its arguments) from Python to the engine's sampler, and
//! samples clips with it. The Python package chooses the defaults.

mod callback_guard;
mod callback_sampler;
mod scripted_rng;
mod spec;

use framespool::clip_sampler::video_timing::{ConstantFrameRate, FrameTimestamps};
use framespool::clip_sampler::{RandomSource, VideoTiming};
use framespool::rng::{Purpose, RngKey};
use framespool::{Error, Result};
use pyo3::prelude::*;

use crate::errors::OrRaise;
pub(crate) use callback_guard::with_cause;
pub(crate) use callback_sampler::{Callable, ClipInfo};
use scripted_rng::ScriptedRng;
pub(crate) use spec::SamplerArg;

/// The timing of a video: a number of frames at a constant rate, or the presentation time of every
/// frame and the end of the video, in seconds.
#[derive(FromPyObject)]
pub(crate) enum VideoTimingArg {
    ConstantFrameRate(u32, f64),
    FrameTimestamps(Vec<f64>, f64),
}

impl VideoTimingArg {
    fn into_timing(self) -> Result<Box<dyn VideoTiming>> {
        Ok(match self {
            VideoTimingArg::ConstantFrameRate(_, fps) if !(fps.is_finite() && fps > 0.0) => {
                return Err(Error::Argument(format!(
                    "fps must be a number greater than 0, got {fps}"
                )));
            }
            VideoTimingArg::ConstantFrameRate(num_frames, fps) => {
                Box::new(ConstantFrameRate { num_frames, fps })
            }
            VideoTimingArg::FrameTimestamps(pts, end) => Box::new(FrameTimestamps::new(pts, end)?),
        })
    }
}

#[pyfunction]
pub(crate) fn num_clips_of(
    py: Python<'_>,
    clip_sampler: SamplerArg,
    video: VideoTimingArg,
) -> PyResult<u64> {
    let count = || Ok(clip_sampler.sampler.num_clips(&*video.into_timing()?));
    count().or_raise(py)
}

/// Returns the frame numbers and the mask of one clip of a video. The sampler uses the random
/// numbers in `draws`, in this order, or, if there are none, those that a dataset whose first video
/// is this one has for `key`, which is (seed, epoch).
#[pyfunction]
pub(crate) fn sample(
    py: Python<'_>,
    clip_sampler: SamplerArg,
    video: VideoTimingArg,
    clip: u64,
    draws: Option<Vec<scripted_rng::RandomValue>>,
    key: (u64, u64),
) -> PyResult<(Vec<u32>, Vec<bool>)> {
    let sample = || {
        let (clip_sampler, video) = (clip_sampler.sampler, video.into_timing()?);
        let sample = match draws {
            Some(draws) => {
                let mut script = ScriptedRng::new(draws);
                let sample = clip_sampler.clip(&*video, clip, &mut script);
                script.finish()?;
                sample?
            }
            None => {
                let clip_id = if clip_sampler.shares_rng_per_video() {
                    0
                } else {
                    clip
                };
                let key = RngKey {
                    seed: key.0,
                    epoch: key.1,
                    clip: clip_id,
                    occurrence: 0,
                };
                clip_sampler.clip(
                    &*video,
                    clip,
                    &mut key.rng(Purpose::Sampling) as &mut dyn RandomSource,
                )?
            }
        };
        Ok((sample.indices, sample.mask))
    };
    with_cause(py, || sample().or_raise(py))
}
