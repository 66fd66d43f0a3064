//! Argument checks and helpers shared by several presets.
//! A position is the frame number that a formula yields. It may be outside the video; the frames of a clip
//! are not.

use crate::clip_sampler::{ClipIndices, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// Maximum number of frames of a clip and of clips of a video: a larger option is a mistake and would exhaust
/// memory.
pub const MAX_COUNT: u32 = 1 << 20;
/// Maximum count of numbers that one call may sample or compute.
pub const MAX_PRODUCT: u64 = 1 << 24;

/// Checks that a count is from 1 to [`MAX_COUNT`].
pub fn check_count(name: &str, value: u32) -> Result<u32> {
    match value {
        1..=MAX_COUNT => Ok(value),
        0 => Err(Error::Argument(format!("{name} must be at least 1, got 0; the original divides by it"))),
        _ => Err(Error::Argument(format!(
            "{name} must be at most {MAX_COUNT}, got {value}; use a smaller one"
        ))),
    }
}

/// Rejects numbers whose product exceeds [`MAX_PRODUCT`].
pub fn check_product(names: &str, values: &[u32]) -> Result<()> {
    let product = values.iter().fold(1u64, |all, &value| all.saturating_mul(u64::from(value)));
    if product <= MAX_PRODUCT {
        return Ok(());
    }
    Err(Error::Argument(format!(
        "{names} must be at most {MAX_PRODUCT}, got {product}; use fewer clips or frames"
    )))
}

/// Checks a rate or a duration: positive and in a range that keeps sums finite.
pub fn check_range(name: &str, value: f64) -> Result<f64> {
    if (1e-6..=1e9).contains(&value) {
        return Ok(value);
    }
    Err(Error::Argument(format!(
        "{name} must be from 0.000001 to 1000000000, got {value}; use a positive number"
    )))
}

/// Frames per second of a video, for formulas that need it; an error if unknown.
pub fn require_fps(preset: &str, video: &dyn VideoTiming) -> Result<f64> {
    let fps = video.average_fps();
    if fps.is_finite() && fps > 0.0 {
        return Ok(fps);
    }
    Err(Error::Argument(format!(
        "average_fps must be known for the preset {preset:?}, got {fps}; leave this video out"
    )))
}

/// `clips` for a video that has frames, 0 for a video without frames.
pub fn clips_unless_empty(video: &dyn VideoTiming, clips: u32) -> u64 {
    match video.num_frames() {
        0 => 0,
        _ => u64::from(clips),
    }
}

/// `count` random numbers below `n`.
pub fn sample_integers(rng: &mut dyn RandomSource, n: u64, count: u64) -> Vec<u64> {
    (0..count).map(|_| rng.next_below(n)).collect()
}

/// The frame at each position, or the nearest one if the position is outside the video.
pub fn clamp_positions(positions: impl IntoIterator<Item = i64>, num_frames: u32) -> ClipIndices {
    let last = i64::from(num_frames) - 1;
    let shown = positions.into_iter().map(|at| (at.clamp(0, last.max(0)) as u32, (0..=last).contains(&at)));
    let (indices, mask) = shown.unzip();
    ClipIndices { indices, mask }
}

/// Converts the number of frames of a clip computed by a formula; at most [`MAX_COUNT`].
pub fn checked_length(frames: f64) -> Result<u32> {
    match frames {
        n if n >= 1.0 && n <= f64::from(MAX_COUNT) => Ok(n as u32),
        n => Err(Error::Argument(format!(
            "a clip must have from 1 to {MAX_COUNT} frames, got {n}; choose another rate or number of frames"
        ))),
    }
}

/// Real frames at these positions, all of which must be inside the video.
pub fn require_in_range(positions: impl IntoIterator<Item = i64>, num_frames: u32) -> Result<ClipIndices> {
    let frame = |at: i64| {
        match u32::try_from(at) {
        Ok(frame) if frame < num_frames => Ok(frame),
        _ => Err(Error::Argument(format!(
            "the formula requests frame {at} of {num_frames}, where the original fails too; leave this video out"
        ))),
    }
    };
    Ok(ClipIndices::unpadded(positions.into_iter().map(frame).collect::<Result<_>>()?))
}

/// Number of frames for which `passed` holds; it must hold first and then fail.
pub fn frame_partition_point(video: &dyn VideoTiming, passed: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, video.num_frames());
    while low < high {
        let middle = low + (high - low) / 2;
        match passed(middle) {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}
