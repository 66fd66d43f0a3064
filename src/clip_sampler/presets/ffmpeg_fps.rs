//! Reproduces the frames that FFmpeg's filter `fps` outputs, one clip per video. Source:
//! `libavfilter/vf_fps.c`: a frame's time is rounded to the output's time base, and each output
//! time shows the last frame that is not later.

use serde::Deserialize;

use super::formula::{Formula, Shape, checked_length};
use super::options::Positive;
use crate::clip_sampler::clip_spec::partition_point;
use crate::clip_sampler::video_timing::Timestamp;
use crate::clip_sampler::{ClipIndices, RandomSource, VideoTiming};
use crate::error::Result;

/// How times are rounded; the names are FFmpeg's.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Rounding {
    /// Toward 0, which is the same as down for times after the first frame.
    Zero,
    /// Away from 0, the same as up.
    Inf,
    Down,
    Up,
    /// To the nearest; halves away from 0.
    Near,
}

/// How the end of the video is rounded: as the times, or up.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EofAction {
    Round,
    Pass,
}

/// The frames of `-vf fps=...`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FfmpegFps {
    fps: Positive,
    round: Rounding,
    eof_action: EofAction,
}

impl FfmpegFps {
    /// The time of a frame in periods of the output, after the first frame's.
    fn periods(&self, video: &dyn VideoTiming, frame: u32, rounding: Rounding) -> f64 {
        let exact = match (video.timestamp(frame), video.timestamp(0)) {
            (Timestamp::Ticks(at, base), Timestamp::Ticks(first, _)) => {
                (at - first) as f64 * f64::from(base.num()) * self.fps.0 / f64::from(base.den())
            }
            (Timestamp::Frames(at, rate), Timestamp::Frames(first, _)) => {
                f64::from(at - first) * self.fps.0 / rate
            }
            _ => (video.pts_seconds(frame) - video.pts_seconds(0)) * self.fps.0,
        };
        match rounding {
            Rounding::Zero | Rounding::Down => exact.floor(),
            Rounding::Inf | Rounding::Up => exact.ceil(),
            Rounding::Near => (exact + 0.5).floor(),
        }
    }

    fn num_periods(&self, video: &dyn VideoTiming) -> f64 {
        let rounding = match self.eof_action {
            EofAction::Round => self.round,
            EofAction::Pass => Rounding::Up,
        };
        self.periods(video, video.num_frames(), rounding)
    }
}

impl Formula for FfmpegFps {
    fn shape(&self) -> Shape {
        Shape {
            clips: None,
            length: None,
            draws_together: false,
        }
    }

    fn clips(&self, video: &dyn VideoTiming) -> u64 {
        u64::from(self.num_periods(video) >= 1.0)
    }

    fn frames(
        &self,
        video: &dyn VideoTiming,
        _: u64,
        _: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        let frame = |period: u32| {
            let is_shown = |frame| self.periods(video, frame, self.round) <= f64::from(period);
            partition_point(video.num_frames(), is_shown).saturating_sub(1)
        };
        Ok(ClipIndices::unpadded(
            (0..checked_length(self.num_periods(video))?)
                .map(frame)
                .collect(),
        ))
    }

    fn min_length_hint(&self) -> String {
        format!(
            "the frames of half a period of {} frames per second",
            self.fps.0
        )
    }
}
