//! Reproduces the sampling of LLaVA-Video, one clip per video. Formulas: LLaVA-VL/LLaVA-NeXT,
//! `llava/utils.py`, `process_video_with_decord`.

use serde::Deserialize;

use super::arithmetic::linspace;
use super::formula::{Formula, Shape, checked_length, require_fps, require_in_range};
use super::options::{Count, Positive};
use crate::clip_sampler::{ClipIndices, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// Frames at a constant step of about `1 / video_fps` seconds; `frames_upbound` evenly spread ones
/// instead if those are more, or with `force_sample`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LlavaVideo {
    video_fps: Positive,
    frames_upbound: Option<Count>,
    force_sample: bool,
}

impl Formula for LlavaVideo {
    fn shape(&self) -> Shape {
        Shape {
            clips: Some(1),
            length: self
                .frames_upbound
                .filter(|_| self.force_sample)
                .map(|frames| frames.0),
            draws_together: false,
        }
    }

    fn frames(
        &self,
        video: &dyn VideoTiming,
        _: u64,
        _: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        let total = video.num_frames();
        let fps = require_fps("llava_video", video)?;
        let step = (fps / self.video_fps.0).round_ties_even();
        if step < 1.0 {
            return Err(Error::Argument(format!(
                "video_fps must be less than twice the {fps} frames per second of the video, got {}; choose a lower \
                 rate, or leave this video out",
                self.video_fps.0
            )));
        }
        let frames = (f64::from(total) / step).ceil();
        let positions: Vec<i64> = match self.frames_upbound {
            Some(most) if frames > most.f64() || self.force_sample => {
                linspace(0.0, f64::from(total) - 1.0, most.0)
                    .into_iter()
                    .map(|at| at as i64)
                    .collect()
            }
            _ => (0..i64::from(checked_length(frames)?))
                .map(|i| (i as f64 * step) as i64)
                .collect(),
        };
        require_in_range(positions, total)
    }
}
