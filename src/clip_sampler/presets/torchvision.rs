//! Reproduces torchvision's `VideoClips` and its samplers; resampling uses the ratio of two rates, not
//! timestamps. Formulas: pytorch/vision, `torchvision/datasets/video_utils.py` and
//! `torchvision/datasets/samplers/clip_sampler.py`.

use std::collections::HashMap;

use super::common::{check_count, check_range, require_in_range};
use super::numpy_compat::torch_linspace_at;
use crate::clip_sampler::common::check_clip_index;
use crate::clip_sampler::{ClipIndices, ClipSampler, RandomSource, VideoTiming};
use crate::error::Result;

/// Which windows become clips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClipSelection {
    /// Every window, in order (`VideoClips` itself).
    All,
    /// This number of windows, evenly spread, some repeated if there are fewer (`UniformClipSampler`).
    /// torchvision counts windows through the whole dataset in float32; this clip sampler counts them in each
    /// video, as torchvision does for its first video.
    Uniform(u32),
    /// At most this number of windows, at random without replacement (`RandomClipSampler`; the batch sampler
    /// determines the order of clips).
    Random(u32),
}

/// Windows of a video, optionally resampled to another rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VideoClips {
    clip_length_in_frames: u32,
    frames_between_clips: u32,
    frame_rate: Option<f64>,
    sampler: ClipSelection,
}

/// The frames that remain after resampling.
struct Resampled {
    /// Number of frames.
    frames: u64,
    /// Distance between them, in frames of the video.
    step: f64,
}

impl Resampled {
    fn frame(&self, at: u64) -> i64 {
        match self.step.fract() == 0.0 {
            true => (at as f64 * self.step) as i64,
            // torch.arange in float32 times a number is float32 as well.
            false => (at as f32 * self.step as f32).floor() as i64,
        }
    }
}

impl VideoClips {
    /// `frame_rate`: frames per second to resample to.
    pub fn new(
        clip_length_in_frames: u32,
        frames_between_clips: u32,
        frame_rate: Option<f64>,
        sampler: ClipSelection,
    ) -> Result<Self> {
        check_count("clip_length_in_frames", clip_length_in_frames)?;
        check_count("frames_between_clips", frames_between_clips)?;
        frame_rate.map_or(Ok(1.0), |rate| check_range("frame_rate", rate))?;
        match sampler {
            ClipSelection::All => 1,
            ClipSelection::Uniform(clips) => check_count("num_clips_per_video", clips)?,
            ClipSelection::Random(clips) => check_count("max_clips_per_video", clips)?,
        };
        Ok(Self { clip_length_in_frames, frames_between_clips, frame_rate, sampler })
    }

    fn resampled(&self, video: &dyn VideoTiming) -> Resampled {
        // An unknown rate counts as 1, as in torchvision.
        let fps = Some(video.average_fps()).filter(|fps| fps.is_finite() && *fps > 0.0).unwrap_or(1.0);
        let rate = self.frame_rate.unwrap_or(fps);
        let (frames, step) = (f64::from(video.num_frames()), fps / rate);
        let frames = match step.fract() == 0.0 && step >= 1.0 {
            true => (frames / step).ceil(), // a slice: the count depends only on the step
            false => (frames * rate / fps).floor(),
        };
        Resampled { frames: frames as u64, step }
    }

    fn windows(&self, resampled: &Resampled) -> u64 {
        let last = resampled.frames.checked_sub(u64::from(self.clip_length_in_frames));
        last.map_or(0, |last| last / u64::from(self.frames_between_clips) + 1)
    }
}

/// Entry `wanted` of `torch.randperm(n)[:kept]`, which the first steps of a Fisher-Yates shuffle determine.
/// Entries that no step has moved are not stored.
fn permuted(n: u64, kept: u64, wanted: u64, rng: &mut dyn RandomSource) -> u64 {
    let mut moved: HashMap<u64, u64> = HashMap::new();
    for place in 0..kept.min(n.saturating_sub(1)) {
        let other = place + rng.next_below(n - place);
        let (a, b) = (*moved.get(&place).unwrap_or(&place), *moved.get(&other).unwrap_or(&other));
        moved.insert(other, a);
        moved.insert(place, b);
    }
    *moved.get(&wanted).unwrap_or(&wanted)
}

impl ClipSampler for VideoClips {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        let windows = self.windows(&self.resampled(video));
        match self.sampler {
            ClipSelection::All => windows,
            ClipSelection::Uniform(clips) if windows > 0 => u64::from(clips),
            ClipSelection::Uniform(_) => 0,
            ClipSelection::Random(most) => windows.min(u64::from(most)),
        }
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(self.clip_length_in_frames)
    }

    fn shares_rng_per_video(&self) -> bool {
        matches!(self.sampler, ClipSelection::Random(_))
    }

    /// The random sampler uses random numbers as the first entries of `torch.randperm(windows)` do: for each
    /// clip in order, below the number of windows, then one less, and so on (the last of all windows needs no
    /// random number).
    fn clip(&self, video: &dyn VideoTiming, number: u64, rng: &mut dyn RandomSource) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
        let resampled = self.resampled(video);
        let windows = self.windows(&resampled);
        let window = match self.sampler {
            ClipSelection::All => number,
            ClipSelection::Uniform(clips) => {
                torch_linspace_at(0.0, (windows - 1) as f64, clips, number as u32).floor() as u64
            }
            ClipSelection::Random(most) => permuted(windows, windows.min(u64::from(most)), number, rng),
        };
        let start = window.saturating_mul(u64::from(self.frames_between_clips));
        let frames =
            (0..u64::from(self.clip_length_in_frames)).map(|i| resampled.frame(start.saturating_add(i)));
        require_in_range(frames, video.num_frames())
    }

    fn min_length_hint(&self) -> String {
        match self.frame_rate {
            Some(rate) => format!("{} frames at {rate} frames per second", self.clip_length_in_frames),
            None => format!("{} frames", self.clip_length_in_frames),
        }
    }
}
