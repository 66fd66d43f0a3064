//! What a preset computes, and the clip sampler made of it. A position is the frame number that a
//! formula yields. It may be outside the video; the frames of a clip are not.

use std::fmt::Debug;
use std::sync::Arc;

use super::options::MAX_COUNT;
use crate::clip_sampler::common::check_clip_index;
use crate::clip_sampler::{ClipIndices, ClipSampler, ClipSamplerRef, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// What all clips of a preset have in common.
pub(super) struct Shape {
    /// Clips of every video with frames; `None` if videos differ.
    pub clips: Option<u64>,
    /// Frames of every clip; `None` if clips differ.
    pub length: Option<u32>,
    /// Whether the original draws for all clips of a video together. Then each clip makes all of
    /// these draws.
    pub draws_together: bool,
}

/// The rule of a preset, implemented by the struct of its options. The default of each method is
/// what most presets have.
pub(crate) trait Formula: Debug + Send + Sync + Sized + 'static {
    /// Checks what the types of the options do not express.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// What does not depend on the video.
    fn shape(&self) -> Shape;

    /// Clips of a video with frames.
    fn clips(&self, _video: &dyn VideoTiming) -> u64 {
        self.shape().clips.unwrap_or(0)
    }

    /// The frames of clip `clip`, which exists. The video has frames.
    fn frames(
        &self,
        video: &dyn VideoTiming,
        clip: u64,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices>;

    /// Whether frames past the end are blank.
    fn pads_with_zeros(&self) -> bool {
        false
    }

    /// What a video must have to yield a clip, for messages.
    fn min_length_hint(&self) -> String {
        "1 frame".to_owned()
    }

    /// Returns the clip sampler.
    fn build(self) -> Result<ClipSamplerRef> {
        self.check()?;
        Ok(Arc::new(PresetSampler(self)))
    }
}

#[derive(Debug)]
struct PresetSampler<F>(F);

impl<F: Formula> ClipSampler for PresetSampler<F> {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        match video.num_frames() {
            0 => 0,
            _ => self.0.clips(video),
        }
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        self.0.shape().clips
    }

    fn sequence_length(&self) -> Option<u32> {
        self.0.shape().length
    }

    fn shares_rng_per_video(&self) -> bool {
        self.0.shape().draws_together
    }

    fn clip(
        &self,
        video: &dyn VideoTiming,
        clip: u64,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        check_clip_index(clip, self.num_clips(video), video)?;
        self.0.frames(video, clip, rng)
    }

    fn pads_with_zeros(&self) -> bool {
        self.0.pads_with_zeros()
    }

    fn min_length_hint(&self) -> String {
        self.0.min_length_hint()
    }
}

/// Frames per second of a video, for formulas that need it; an error if unknown.
pub(crate) fn require_fps(preset: &str, video: &dyn VideoTiming) -> Result<f64> {
    let fps = video.average_fps();
    if fps.is_finite() && fps > 0.0 {
        return Ok(fps);
    }
    Err(Error::Argument(format!(
        "average_fps must be known for the preset {preset:?}, got {fps}; leave this video out"
    )))
}

/// `count` random numbers below `n`.
pub(super) fn draw(rng: &mut dyn RandomSource, n: u64, count: u64) -> Vec<u64> {
    (0..count).map(|_| rng.next_below(n)).collect()
}

/// The same in ascending order.
pub(crate) fn draw_sorted(rng: &mut dyn RandomSource, n: u64, count: u64) -> Vec<u64> {
    let mut drawn = draw(rng, n, count);
    drawn.sort_unstable();
    drawn
}

/// Real frames at the first positions, then replacements of frames past the end.
pub(crate) fn with_padding(
    real: impl IntoIterator<Item = u32>,
    padding: impl IntoIterator<Item = u32>,
) -> ClipIndices {
    let mut indices: Vec<u32> = real.into_iter().collect();
    let found = indices.len();
    indices.extend(padding);
    ClipIndices {
        mask: (0..indices.len()).map(|i| i < found).collect(),
        indices,
    }
}

/// The frame at each position, or the nearest one if the position is outside the video.
pub(super) fn clamp(positions: impl IntoIterator<Item = i64>, num_frames: u32) -> ClipIndices {
    let last = i64::from(num_frames) - 1;
    let shown = positions
        .into_iter()
        .map(|at| (at.clamp(0, last) as u32, (0..=last).contains(&at)));
    let (indices, mask) = shown.unzip();
    ClipIndices { indices, mask }
}

/// Real frames at these positions, all of which must be inside the video.
pub(crate) fn require_in_range(
    positions: impl IntoIterator<Item = i64>,
    num_frames: u32,
) -> Result<ClipIndices> {
    let frame = |at: i64| {
        u32::try_from(at).ok().filter(|&frame| frame < num_frames).ok_or_else(|| {
            Error::Argument(format!(
                "the formula requests frame {at} of {num_frames}, where the original fails too; leave this video out"
            ))
        })
    };
    Ok(ClipIndices::unpadded(
        positions.into_iter().map(frame).collect::<Result<_>>()?,
    ))
}

/// Converts the number of frames of a clip computed by a formula; at most [`MAX_COUNT`].
pub(crate) fn checked_length(frames: f64) -> Result<u32> {
    if (1.0..=f64::from(MAX_COUNT)).contains(&frames) {
        return Ok(frames as u32);
    }
    Err(Error::Argument(format!(
        "a clip must have from 1 to {MAX_COUNT} frames, got {frames}; choose another rate or number of frames"
    )))
}
