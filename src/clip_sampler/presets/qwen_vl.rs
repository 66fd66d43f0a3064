//! Reproduces the video sampling of qwen-vl-utils, one clip per video. Formulas: QwenLM/Qwen3-VL,
//! `qwen_vl_utils/vision_process.py`: `smart_nframes`, `calculate_video_frame_range`. Converts seconds to
//! frames by the average rate, as the original does.

use super::common::{check_range, checked_length, clips_unless_empty, require_fps, require_in_range};
use super::numpy_compat::{round, torch_linspace};
use crate::clip_sampler::common::check_clip_index;
use crate::clip_sampler::{ClipIndices, ClipSampler, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// The number of frames is a multiple of this (`FRAME_FACTOR`).
const FRAME_FACTOR: f64 = 2.0;
/// Default maximum number of frames (`FPS_MAX_FRAMES`).
const FPS_MAX_FRAMES: f64 = 768.0;

/// The number of frames of a clip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FrameCount {
    /// This number, rounded to an even number (`nframes`).
    Number(u32),
    /// As many frames as the video has at a rate.
    Rate {
        /// Frames per second.
        fps: f64,
        /// Minimum, rounded up to an even number.
        min_frames: u32,
        /// Maximum, rounded down to an even number; `None`: 768, or all frames if the video has fewer.
        max_frames: Option<u32>,
    },
}

/// Frames evenly spread over the video or a part of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QwenVl {
    frames: FrameCount,
    video_start: Option<f64>,
    video_end: Option<f64>,
}

fn down_to_factor(frames: f64) -> f64 {
    (frames / FRAME_FACTOR).floor() * FRAME_FACTOR
}

impl QwenVl {
    /// `video_start`, `video_end`: the part of the video, in seconds from its first frame.
    pub fn new(frames: FrameCount, video_start: Option<f64>, video_end: Option<f64>) -> Result<Self> {
        if let FrameCount::Rate { fps, .. } = frames {
            check_range("fps", fps)?;
        }
        let sampler = Self { frames, video_start, video_end };
        if let FrameCount::Number(_) = frames {
            checked_length(sampler.number().unwrap_or(0.0))?;
        }
        Ok(sampler)
    }

    /// The number of frames, if it is the same for all videos.
    fn number(&self) -> Option<f64> {
        match self.frames {
            FrameCount::Number(frames) => Some(round(f64::from(frames) / FRAME_FACTOR) * FRAME_FACTOR),
            FrameCount::Rate { .. } => None,
        }
    }

    /// First and last frame of the sampled part.
    fn range(&self, total_frames: f64, video_fps: f64) -> Result<(f64, f64)> {
        if self.video_start.is_none() && self.video_end.is_none() {
            return Ok((0.0, total_frames - 1.0));
        }
        let within = |seconds: f64| seconds.min(total_frames / video_fps).max(0.0);
        let start = self.video_start.map_or(0.0, |start| (within(start) * video_fps).ceil());
        let last = total_frames - 1.0;
        let end = self.video_end.map_or(last, |end| (within(end) * video_fps).floor().min(last));
        if start < end {
            return Ok((start, end));
        }
        Err(Error::Argument(format!(
            "video_start must be before video_end and inside the video, got frames {start} and {end} of \
             {total_frames}; choose another range, or leave this video out"
        )))
    }

    fn nframes(&self, total_frames: f64, video_fps: f64) -> Result<f64> {
        let nframes = match self.frames {
            FrameCount::Number(_) => self.number().unwrap_or(0.0),
            FrameCount::Rate { fps, min_frames, max_frames } => {
                let least = (f64::from(min_frames) / FRAME_FACTOR).ceil() * FRAME_FACTOR;
                let most = down_to_factor(max_frames.map_or(FPS_MAX_FRAMES.min(total_frames), f64::from));
                down_to_factor((total_frames / video_fps * fps).max(least).min(most).min(total_frames))
            }
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

impl ClipSampler for QwenVl {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        clips_unless_empty(video, 1)
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        Some(1)
    }

    fn sequence_length(&self) -> Option<u32> {
        self.number().map(|frames| frames as u32)
    }

    fn clip(&self, video: &dyn VideoTiming, number: u64, _: &mut dyn RandomSource) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
        let fps = require_fps("qwen_vl", video)?;
        let (start, end) = self.range(f64::from(video.num_frames()), fps)?;
        let frames = checked_length(self.nframes(end - start + 1.0, fps)?)?;
        let positions = torch_linspace(start, end, frames).into_iter().map(|at| round(at.into()) as i64);
        require_in_range(positions, video.num_frames())
    }

    fn min_length_hint(&self) -> String {
        format!("{} frames", self.number().unwrap_or(FRAME_FACTOR))
    }
}
