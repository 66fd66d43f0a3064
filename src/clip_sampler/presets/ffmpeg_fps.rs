//! Reproduces the frames that FFmpeg's filter `fps` outputs, one clip per video. Source: `libavfilter/vf_fps.c`: a frame's
//! time is rounded to the output's time base, and each output time shows the last frame that is not later.

use super::common::{check_range, checked_length};
use crate::clip_sampler::common::check_clip_index;
use crate::clip_sampler::video_timing::Timestamp;
use crate::clip_sampler::{ClipIndices, ClipSampler, RandomSource, VideoTiming};
use crate::error::Result;

/// How times are rounded; the names are FFmpeg's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Toward 0 or toward minus infinity, which are the same for times after the first frame.
    Down,
    /// Away from 0.
    Up,
    /// To the nearest; halves away from 0.
    Near,
}

/// The frames of `-vf fps=...`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FfmpegFps {
    fps: f64,
    rounding: Rounding,
    /// How the end of the video is rounded.
    end: Rounding,
}

impl FfmpegFps {
    /// `pass_end`: the option `eof_action=pass`.
    pub fn new(fps: f64, rounding: Rounding, pass_end: bool) -> Result<Self> {
        check_range("fps", fps)?;
        Ok(Self { fps, rounding, end: if pass_end { Rounding::Up } else { rounding } })
    }

    /// The time of a frame in periods of the output, after the first frame's.
    fn periods(&self, video: &dyn VideoTiming, frame: u32, rounding: Rounding) -> f64 {
        let exact = match (video.timestamp(frame), video.timestamp(0)) {
            (Timestamp::Ticks(at, base), Timestamp::Ticks(first, _)) => {
                (at - first) as f64 * f64::from(base.num()) * self.fps / f64::from(base.den())
            }
            (Timestamp::Frames(at, rate), Timestamp::Frames(first, _)) => {
                f64::from(at - first) * self.fps / rate
            }
            _ => (video.pts_seconds(frame) - video.pts_seconds(0)) * self.fps,
        };
        match rounding {
            Rounding::Down => exact.floor(),
            Rounding::Up => exact.ceil(),
            Rounding::Near => (exact + 0.5).floor(),
        }
    }

    fn length(&self, video: &dyn VideoTiming) -> f64 {
        self.periods(video, video.num_frames(), self.end)
    }
}

impl ClipSampler for FfmpegFps {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        u64::from(video.num_frames() > 0 && self.length(video) >= 1.0)
    }

    fn sequence_length(&self) -> Option<u32> {
        None
    }

    fn clip(&self, video: &dyn VideoTiming, number: u64, _: &mut dyn RandomSource) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
        let length = checked_length(self.length(video))?;
        let mut indices = Vec::with_capacity(length as usize);
        let mut shown = 0;
        for at in 0..length {
            while shown + 1 < video.num_frames()
                && self.periods(video, shown + 1, self.rounding) <= f64::from(at)
            {
                shown += 1;
            }
            indices.push(shown);
        }
        Ok(ClipIndices::unpadded(indices))
    }

    fn min_length_hint(&self) -> String {
        format!("the frames of half a period of {} frames per second", self.fps)
    }
}
