//! Reproduces the frame indices of InternVideo2: one clip over the whole video. Formulas:
//! OpenGVLab/InternVideo, InternVideo2/multi_modality/dataset/video_utils.py, `get_frame_indices`.
//! The readers of the original differ only in decoding.

use serde::Deserialize;

use super::arithmetic::{arange, linspace};
use super::formula::{Formula, Shape, require_fps, with_padding};
use super::options::{Count, MAX_COUNT, MAX_PRODUCT};
use crate::clip_sampler::{ClipIndices, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// Which frames to sample.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
enum Sample {
    /// `rand`: a random frame of each of `num_frames` intervals.
    Rand,
    /// `middle`: the middle frame of each interval, or its first frame plus `fix_start` if that is
    /// given.
    Middle,
    /// `fps0.5` and similar: this number of frames per second; the total number of frames varies.
    Fps(f64),
}

impl TryFrom<String> for Sample {
    type Error = &'static str;

    fn try_from(word: String) -> std::result::Result<Self, Self::Error> {
        match (
            word.as_str(),
            word.strip_prefix("fps").and_then(|rate| rate.parse().ok()),
        ) {
            ("rand", _) => Ok(Self::Rand),
            ("middle", _) => Ok(Self::Middle),
            (_, Some(fps)) if (1e-6..=1e9).contains(&fps) => Ok(Self::Fps(fps)),
            _ => Err(
                "\"rand\", \"middle\" or \"fps\" and a number from 0.000001 to 1000000000, such as \"fps1\"",
            ),
        }
    }
}

/// `read_frames_decord`. A video of fewer than `num_frames` frames shows all frames, then repeats
/// its last one.
///
/// Random numbers of `rand`: `next_below(length - 1)` for each interval (the last frame of an
/// interval is never taken). If any interval has a single frame, the original fails at that and
/// takes a random subset instead: `next_below(i)` for i from the number of frames down to 2, the
/// swaps of NumPy's `permutation`.
///
/// With `fix_start` a frame past the end is an error. With a rate, a video too short for one frame
/// yields no clip, and the first `max_num_frames` frames are kept, or all if that is 0 or less.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadFrames {
    num_frames: Count,
    sample: Sample,
    fix_start: Option<u32>,
    max_num_frames: i64,
    trimmed30: bool,
}

impl ReadFrames {
    /// Number of frames of a video that are sampled from.
    fn total(&self, video: &dyn VideoTiming) -> Result<u32> {
        if !self.trimmed30 {
            return Ok(video.num_frames());
        }
        let fps = require_fps("internvideo2", video)?;
        match f64::from(video.num_frames()) / fps > 30.0 {
            true => Ok((30.0 * fps) as u32),
            false => Ok(video.num_frames()),
        }
    }

    /// Number and positions of the frames at a rate, including positions outside the video.
    fn at_rate(
        &self,
        video: &dyn VideoTiming,
        output_fps: f64,
    ) -> Result<(u64, impl Fn(u64) -> i64)> {
        let input_fps = require_fps("internvideo2", video)?;
        let (duration, delta) = (f64::from(self.total(video)?) / input_fps, 1.0 / output_fps);
        let (count, second) = arange(delta / 2.0, duration + delta / 2.0, delta);
        Ok((count, move |i| {
            (second(i) * input_fps).round_ties_even() as i64
        }))
    }

    fn by_rate(&self, video: &dyn VideoTiming, output_fps: f64) -> Result<ClipIndices> {
        let total = i64::from(self.total(video)?);
        let (count, frame) = self.at_rate(video, output_fps)?;
        if count > MAX_PRODUCT {
            return Err(Error::Argument(format!(
                "sample must be at most {MAX_PRODUCT} frames of a video, got \"fps{output_fps}\" and {count} frames; use a lower rate"
            )));
        }
        let most = if self.max_num_frames > 0 {
            self.max_num_frames as usize
        } else {
            usize::MAX
        };
        let inside = (0..count).map(frame).filter(|&at| at < total);
        Ok(ClipIndices::unpadded(
            inside.take(most).map(|at| at as u32).collect(),
        ))
    }

    /// One frame of each interval.
    fn by_interval(&self, total: u32, rng: &mut dyn RandomSource) -> Result<Vec<u32>> {
        let bounds = linspace(0.0, f64::from(total), self.num_frames.0.min(total) + 1);
        let bounds: Vec<u32> = bounds.into_iter().map(|at| at as u32).collect();
        let mut intervals = bounds.iter().zip(&bounds[1..]);
        match (self.sample, self.fix_start) {
            (Sample::Rand, _) if intervals.clone().all(|(begin, end)| end - begin > 1) => Ok(intervals
                .map(|(begin, end)| begin + rng.next_below(u64::from(end - begin - 1)) as u32)
                .collect()),
            (Sample::Rand, _) => Ok(subset(total, bounds.len() - 1, rng)),
            (_, None) => Ok(intervals
                .map(|(begin, end)| ((u64::from(*begin) + u64::from(*end) - 1) / 2) as u32)
                .collect()),
            (_, Some(start)) => intervals
                .try_fold(Vec::new(), |mut fixed, (begin, _)| {
                    fixed.push(begin.checked_add(start).filter(|&at| at < total)?);
                    Some(fixed)
                })
                .ok_or_else(|| {
                    Error::Argument(format!(
                        "fix_start must leave every frame inside the video, got {start} for {total} frames; use a \
                         smaller one, or omit it"
                    ))
                }),
        }
    }
}

/// The first `count` frames of a random permutation of all frames, sorted.
fn subset(total: u32, count: usize, rng: &mut dyn RandomSource) -> Vec<u32> {
    let mut order: Vec<u32> = (0..total).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, rng.next_below(i as u64 + 1) as usize);
    }
    order.truncate(count);
    order.sort_unstable();
    order
}

impl Formula for ReadFrames {
    fn check(&self) -> Result<()> {
        for (name, value) in [
            ("fix_start", self.fix_start.map_or(0, i64::from)),
            ("max_num_frames", self.max_num_frames),
        ] {
            if value > i64::from(MAX_COUNT) {
                return Err(Error::Argument(format!(
                    "{name} must be at most {MAX_COUNT}, got {value}; use a smaller one"
                )));
            }
        }
        Ok(())
    }

    fn shape(&self) -> Shape {
        let length = (!matches!(self.sample, Sample::Fps(_))).then_some(self.num_frames.0);
        Shape {
            clips: length.map(|_| 1),
            length,
            draws_together: false,
        }
    }

    fn clips(&self, video: &dyn VideoTiming) -> u64 {
        let Sample::Fps(output_fps) = self.sample else {
            return 1;
        };
        let has_frames = || {
            let (count, frame) = self.at_rate(video, output_fps).ok()?;
            Some(count > 0 && frame(0) < i64::from(self.total(video).ok()?))
        };
        u64::from(has_frames() != Some(false)) // with an unknown rate the clip fails
    }

    fn frames(
        &self,
        video: &dyn VideoTiming,
        _: u64,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        if let Sample::Fps(output_fps) = self.sample {
            return self.by_rate(video, output_fps);
        }
        let real = self.by_interval(self.total(video)?, rng)?;
        let last = real.last().copied().unwrap_or(0);
        let missing = (self.num_frames.0 as usize).saturating_sub(real.len());
        Ok(with_padding(real, std::iter::repeat_n(last, missing)))
    }

    fn min_length_hint(&self) -> String {
        match self.sample {
            Sample::Fps(fps) => format!("{} seconds", 0.5 / fps),
            Sample::Rand | Sample::Middle => "1 frame".to_owned(),
        }
    }
}
