//! Reproduces the sampling of single video processors of Hugging Face Transformers, one clip per
//! video; `fps` uses the average rate. Formulas: huggingface/transformers,
//! `models/*/video_processing_*.py`, `sample_frames`.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::arithmetic::{arange_count, linspace, torch_arange_f32};
use super::formula::{Formula, Shape, checked_length, clamp, require_fps, require_in_range};
use super::options::{Count, Positive, only_for};
use crate::clip_sampler::{ClipIndices, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// What one clip per video has in common.
fn one_clip(length: Option<u32>) -> Shape {
    Shape {
        clips: Some(1),
        length,
        draws_together: false,
    }
}

/// `num_frames` and `fps` exclude each other, and one of them is given.
fn check_one_of(num_frames: Option<Count>, fps: Option<Positive>) -> Result<()> {
    match (num_frames, fps) {
        (Some(_), _) => only_for("sampling without num_frames", &[("fps", fps.is_some())]),
        (None, Some(_)) => Ok(()),
        (None, None) => Err(Error::Argument(
            "num_frames or fps must be given, got neither".into(),
        )),
    }
}

/// An error if a video has fewer frames than requested.
fn check_total(frames: f64, total: f64) -> Result<()> {
    if frames <= total {
        return Ok(());
    }
    Err(Error::Argument(format!(
        "num_frames must be at most the {total} frames of the video, got {frames}; request fewer, or leave this video out"
    )))
}

/// `torch.arange(start, total, total / frames).int()`.
fn torch_spread(start: f64, total: f64, frames: u32) -> Vec<i64> {
    let step = total / f64::from(frames);
    let count = arange_count(start, total, step);
    (0..count)
        .map(|i| torch_arange_f32(start, step, count, i) as i64)
        .collect()
}

/// `Qwen2VLVideoProcessor`, also that of Qwen2.5-VL.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Qwen2Vl {
    fps: Option<Positive>,
    num_frames: Option<Count>,
    min_frames: Count,
    max_frames: Count,
    temporal_patch_size: Count,
}

impl Formula for Qwen2Vl {
    fn check(&self) -> Result<()> {
        check_one_of(self.num_frames, self.fps)
    }

    /// `torch.arange` may return one value more.
    fn shape(&self) -> Shape {
        one_clip(None)
    }

    /// A value too many equals the number of frames. Transformers then fails; vLLM shows the last
    /// frame again.
    fn frames(
        &self,
        video: &dyn VideoTiming,
        _: u64,
        _: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        let (total, patch) = (
            f64::from(video.num_frames()),
            self.temporal_patch_size.f64(),
        );
        let whole = |frames: f64| (frames / patch).floor() * patch;
        let frames = match (self.num_frames, self.fps) {
            (None, Some(fps)) => {
                let most = whole(self.max_frames.f64().min(total));
                let wanted = total / require_fps("hf_qwen2_vl", video)? * fps.0;
                whole(wanted.max(self.min_frames.f64()).min(most))
            }
            (frames, _) => frames.map_or(0.0, |frames| {
                (frames.f64() / patch).round_ties_even() * patch
            }),
        };
        check_total(frames, total)?;
        let positions = torch_spread(0.0, total, checked_length(frames)?);
        Ok(clamp(positions, video.num_frames()))
    }

    fn min_length_hint(&self) -> String {
        format!("{} frames", self.temporal_patch_size.0)
    }
}

/// `Qwen3VLVideoProcessor`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Qwen3Vl {
    fps: Option<Positive>,
    num_frames: Option<Count>,
    min_frames: Count,
    max_frames: Count,
}

impl Formula for Qwen3Vl {
    fn check(&self) -> Result<()> {
        check_one_of(self.num_frames, self.fps)
    }

    fn shape(&self) -> Shape {
        one_clip(self.num_frames.map(|frames| frames.0))
    }

    fn frames(
        &self,
        video: &dyn VideoTiming,
        _: u64,
        _: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        let total = f64::from(video.num_frames());
        let frames = match (self.num_frames, self.fps) {
            (None, Some(fps)) => (total / require_fps("hf_qwen3_vl", video)? * fps.0)
                .trunc()
                .max(self.min_frames.f64())
                .min(self.max_frames.f64())
                .min(total),
            (frames, _) => frames.map_or(0.0, Count::f64),
        };
        let positions = linspace(0.0, total - 1.0, checked_length(frames)?)
            .into_iter()
            .map(|at| at.round_ties_even() as i64);
        require_in_range(positions, video.num_frames())
    }
}

/// The position of the first frame of [`Internvl`].
#[derive(Clone, Copy, Debug)]
enum InitialShift {
    /// Half the distance of two frames.
    Middle,
    Frames(f64),
}

impl<'de> Deserialize<'de> for InitialShift {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Bool(true) => Ok(Self::Middle),
            Value::Bool(false) => Ok(Self::Frames(0.0)),
            value => match value.as_f64() {
                Some(shift) if (0.0..=1e9).contains(&shift) => Ok(Self::Frames(shift)),
                _ => Err(D::Error::custom("a bool or a number from 0 to 1000000000")),
            },
        }
    }
}

/// `InternVLVideoProcessor`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Internvl {
    num_frames: Option<Count>,
    fps: Option<Positive>,
    initial_shift: InitialShift,
}

impl Formula for Internvl {
    fn check(&self) -> Result<()> {
        check_one_of(self.num_frames, self.fps)
    }

    /// A large shift leaves fewer frames.
    fn shape(&self) -> Shape {
        one_clip(match self.initial_shift {
            InitialShift::Middle => self.num_frames.map(|frames| frames.0),
            InitialShift::Frames(_) => None,
        })
    }

    fn frames(
        &self,
        video: &dyn VideoTiming,
        _: u64,
        _: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        let total = f64::from(video.num_frames());
        let frames = match (self.num_frames, self.fps) {
            (None, Some(fps)) => (total / require_fps("hf_internvl", video)? * fps.0).trunc(),
            (frames, _) => frames.map_or(0.0, Count::f64),
        };
        check_total(frames, total)?;
        let start = match self.initial_shift {
            InitialShift::Middle => total / frames / 2.0,
            InitialShift::Frames(shift) => shift,
        };
        let positions = torch_spread(start, total, checked_length(frames)?);
        checked_length(positions.len() as f64)?;
        require_in_range(positions, video.num_frames())
    }

    fn min_length_hint(&self) -> String {
        self.num_frames.map_or("1 frame".to_owned(), |frames| {
            format!("{} frames", frames.0)
        })
    }
}

/// `SmolVLMVideoProcessor`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Smolvlm {
    num_frames: Count,
    fps: Positive,
    skip_secs: f64,
}

impl Formula for Smolvlm {
    fn check(&self) -> Result<()> {
        if (0.0..=1e9).contains(&self.skip_secs) {
            return Ok(());
        }
        Err(Error::Argument(format!(
            "skip_secs must be a number from 0 to 1000000000, got {}",
            self.skip_secs
        )))
    }

    fn shape(&self) -> Shape {
        one_clip(None)
    }

    fn frames(
        &self,
        video: &dyn VideoTiming,
        _: u64,
        _: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        let (total, duration) = (f64::from(video.num_frames()), video.duration_seconds());
        let (frames, last) = (self.num_frames.f64(), total - 1.0);
        let wanted = (self.fps.0 * duration)
            .round_ties_even()
            .min(frames)
            .max(1.0);
        let (mut start, mut end) = (0.0, last);
        if self.skip_secs > 0.0 && duration - 2.0 * self.skip_secs > frames * self.fps.0 {
            let skipped = self.skip_secs * require_fps("hf_smolvlm", video)?;
            (start, end) = (skipped.trunc(), (total - skipped).trunc().min(last));
        }
        if start >= end {
            (start, end) = (0.0, last);
        }
        let mut positions: Vec<i64> = linspace(start, end, checked_length(wanted)?)
            .into_iter()
            .map(|at| at as i64)
            .collect();
        positions.dedup();
        require_in_range(positions, video.num_frames())
    }
}
