//! Reproduces the video sampling of qwen-vl-utils, one clip per video. Formulas: QwenLM/Qwen3-VL,
//! `qwen_vl_utils/vision_process.py`: `smart_nframes`, `calculate_video_frame_range`. Converts
//! seconds to frames by the average rate, as the original does. SGLang's version:
//! sgl-project/sglang, `multimodal/processors/qwen_vl.py`, `preprocess_video`.

use serde::Deserialize;

use super::arithmetic::{linspace, torch_linspace};
use super::formula::{Formula, Shape, checked_length, require_fps, require_in_range};
use super::options::{Positive, needed, only_for};
use crate::clip_sampler::{ClipIndices, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// The number of frames is a multiple of this (`FRAME_FACTOR`).
const FRAME_FACTOR: f64 = 2.0;

/// Whose version of the formula.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Version {
    /// `torch.linspace(…).round()`.
    QwenVlUtils,
    /// `numpy.linspace(…, dtype=int)`, which truncates.
    Sglang,
}

/// Frames evenly spread over the video or a part of it: `nframes`, or as many as it has at `fps`,
/// rounded to an even number. `video_start`, `video_end`: the part, in seconds from the first
/// frame.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QwenVl {
    fps: Option<Positive>,
    nframes: Option<u32>,
    min_frames: Option<u32>,
    max_frames: Option<u32>,
    video_start: Option<f64>,
    video_end: Option<f64>,
    version: Version,
}

fn down_to_factor(frames: f64) -> f64 {
    (frames / FRAME_FACTOR).floor() * FRAME_FACTOR
}

impl QwenVl {
    /// The number of frames, if it is the same for all videos.
    fn number(&self) -> Option<f64> {
        self.nframes
            .map(|frames| (f64::from(frames) / FRAME_FACTOR).round_ties_even() * FRAME_FACTOR)
    }

    /// First and last frame of the sampled part.
    fn range(&self, total_frames: f64, video_fps: f64) -> Result<(f64, f64)> {
        if self.video_start.is_none() && self.video_end.is_none() {
            return Ok((0.0, total_frames - 1.0));
        }
        let within = |seconds: f64| seconds.min(total_frames / video_fps).max(0.0);
        let start = self
            .video_start
            .map_or(0.0, |start| (within(start) * video_fps).ceil());
        let last = total_frames - 1.0;
        let end = self
            .video_end
            .map_or(last, |end| (within(end) * video_fps).floor().min(last));
        if start < end {
            return Ok((start, end));
        }
        Err(Error::Argument(format!(
            "video_start must be before video_end and inside the video, got frames {start} and {end} of \
             {total_frames}; choose another range, or leave this video out"
        )))
    }

    fn nframes(&self, total_frames: f64, video_fps: f64) -> Result<f64> {
        let nframes = match (self.number(), self.fps, self.min_frames, self.max_frames) {
            (None, Some(fps), Some(least), Some(most)) => {
                let least = (f64::from(least) / FRAME_FACTOR).ceil() * FRAME_FACTOR;
                let most = down_to_factor(most.into());
                down_to_factor(
                    (total_frames / video_fps * fps.0)
                        .max(least)
                        .min(most)
                        .min(total_frames),
                )
            }
            (number, ..) => number.unwrap_or(0.0),
        };
        if (FRAME_FACTOR..=total_frames).contains(&nframes) {
            return Ok(nframes);
        }
        Err(Error::Argument(format!(
            "the number of frames must be from {FRAME_FACTOR} to {total_frames}, got {nframes}; choose another fps or \
             nframes, or leave this video out"
        )))
    }
}

impl Formula for QwenVl {
    fn check(&self) -> Result<()> {
        if self.version == Version::Sglang {
            let segment = [
                ("video_start", self.video_start.is_some()),
                ("video_end", self.video_end.is_some()),
            ];
            only_for("version=\"qwen_vl_utils\"", &segment)?;
        }
        let Some(number) = self.number() else {
            needed("fps", "nframes=None", self.fps)?;
            needed("min_frames", "nframes=None", self.min_frames)?;
            return needed("max_frames", "nframes=None", self.max_frames).map(drop);
        };
        let others = [
            ("fps", self.fps.is_some()),
            ("min_frames", self.min_frames.is_some()),
            ("max_frames", self.max_frames.is_some()),
        ];
        only_for("sampling by fps, without nframes", &others)?;
        checked_length(number).map(drop)
    }

    fn shape(&self) -> Shape {
        Shape {
            clips: Some(1),
            length: self.number().map(|frames| frames as u32),
            draws_together: false,
        }
    }

    fn frames(
        &self,
        video: &dyn VideoTiming,
        _: u64,
        _: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        // The original reads images elsewhere. In a list of samples an image is a video of one frame.
        if video.num_frames() == 1 && self.number().is_none() {
            return require_in_range(std::iter::once(0), 1);
        }
        let fps = require_fps("qwen_vl", video)?;
        let (start, end) = self.range(f64::from(video.num_frames()), fps)?;
        let frames = checked_length(self.nframes(end - start + 1.0, fps)?)?;
        let positions: Vec<i64> = match self.version {
            Version::QwenVlUtils => torch_linspace(start, end, frames)
                .into_iter()
                .map(|at| f64::from(at).round_ties_even() as i64)
                .collect(),
            Version::Sglang => linspace(start, end, frames)
                .into_iter()
                .map(|at| at as i64)
                .collect(),
        };
        require_in_range(positions, video.num_frames())
    }

    fn min_length_hint(&self) -> String {
        format!("{} frames", self.number().unwrap_or(FRAME_FACTOR))
    }
}
