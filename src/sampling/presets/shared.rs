//! In: options, positions and draws of several presets. Out: checked numbers, and samples.
//! A position is the frame that a formula means; it may lie outside the video, a sample's frames do not.
//! Never: a formula of one codebase.

use crate::error::{Error, Result};
use crate::sampling::{Draw, Footage, Sample};

/// No clip has more frames and no video more clips: an option beyond that is a mistake, and would take all memory.
pub const MOST: u32 = 1 << 20;
/// Numbers that one call may draw or compute.
pub const MOST_TOGETHER: u64 = 1 << 24;

/// From 1 to [`MOST`].
pub fn count(name: &str, value: u32) -> Result<u32> {
    match value {
        1..=MOST => Ok(value),
        0 => Err(Error::Argument(format!("{name} must be at least 1, got 0; the original divides by it"))),
        _ => Err(Error::Argument(format!("{name} must be at most {MOST}, got {value}; use a smaller one"))),
    }
}

/// Refuses numbers whose product is beyond [`MOST_TOGETHER`].
pub fn together(names: &str, values: &[u32]) -> Result<()> {
    let product = values.iter().fold(1u64, |all, &value| all.saturating_mul(u64::from(value)));
    if product <= MOST_TOGETHER {
        return Ok(());
    }
    Err(Error::Argument(format!(
        "{names} must be at most {MOST_TOGETHER}, got {product}; use fewer clips or frames"
    )))
}

/// A rate or a time: above 0, and of a size that leaves sums finite.
pub fn positive(name: &str, value: f64) -> Result<f64> {
    if (1e-6..=1e9).contains(&value) {
        return Ok(value);
    }
    Err(Error::Argument(format!(
        "{name} must be from 0.000001 to 1000000000, got {value}; use a positive number"
    )))
}

/// Frames per second of a video, where a formula needs it.
pub fn known_fps(preset: &str, video: &dyn Footage) -> Result<f64> {
    let fps = video.average_fps();
    if fps.is_finite() && fps > 0.0 {
        return Ok(fps);
    }
    Err(Error::Argument(format!(
        "average_fps must be known for the preset {preset:?}, got {fps}; leave this video out"
    )))
}

/// A number of clips for a video that has frames, none for one without.
pub fn of_each(video: &dyn Footage, clips: u32) -> u64 {
    match video.num_frames() {
        0 => 0,
        _ => u64::from(clips),
    }
}

/// So many draws below `n`.
pub fn draws(rng: &mut dyn Draw, n: u64, count: u64) -> Vec<u64> {
    (0..count).map(|_| rng.below(n)).collect()
}

/// Each position's frame, or the nearest one where it lies outside the video.
pub fn clamped(positions: impl IntoIterator<Item = i64>, num_frames: u32) -> Sample {
    let last = i64::from(num_frames) - 1;
    let shown = positions.into_iter().map(|at| (at.clamp(0, last.max(0)) as u32, (0..=last).contains(&at)));
    let (indices, mask) = shown.unzip();
    Sample { indices, mask }
}

/// Number of frames in a clip that a formula sizes, at most [`MOST`].
pub fn length(frames: f64) -> Result<u32> {
    match frames {
        n if n >= 1.0 && n <= f64::from(MOST) => Ok(n as u32),
        n => Err(Error::Argument(format!(
            "a clip must have from 1 to {MOST} frames, got {n}; choose another rate or number of frames"
        ))),
    }
}

/// Real frames at these positions, all of which must lie inside the video.
pub fn inside(positions: impl IntoIterator<Item = i64>, num_frames: u32) -> Result<Sample> {
    let frame = |at: i64| {
        match u32::try_from(at) {
        Ok(frame) if frame < num_frames => Ok(frame),
        _ => Err(Error::Argument(format!(
            "the formula asks for frame {at} of {num_frames}, where the original fails too; leave this video out"
        ))),
    }
    };
    Ok(Sample::real(positions.into_iter().map(frame).collect::<Result<_>>()?))
}

/// How many frames `passed` holds for, which first holds and then does not.
pub fn count_while(video: &dyn Footage, passed: impl Fn(u32) -> bool) -> u32 {
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
