//! Reproduces torchvision's `VideoClips` and its samplers; resampling uses the ratio of two rates,
//! not timestamps. Formulas: pytorch/vision, `torchvision/datasets/video_utils.py` and
//! `torchvision/datasets/samplers/clip_sampler.py`.

use std::collections::HashMap;

use serde::Deserialize;

use super::arithmetic::torch_linspace_at;
use super::formula::{Formula, Shape, require_in_range};
use super::options::{Count, Positive, needed, only_for};
use crate::clip_sampler::{ClipIndices, RandomSource, VideoTiming};
use crate::error::Result;

/// Which windows become clips.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Sampler {
    /// `num_clips_per_video` windows, evenly spread, some repeated if there are fewer
    /// (`UniformClipSampler`). torchvision counts windows through the whole dataset in float32;
    /// this clip sampler counts them in each video, as torchvision does for its first video.
    Uniform,
    /// At most `max_clips_per_video` windows, at random without replacement (`RandomClipSampler`;
    /// the batch sampler determines the order of clips).
    Random,
}

/// Windows of a video, optionally resampled to another rate. Without a `sampler`, every window in
/// order (`VideoClips` itself).
///
/// The random sampler uses random numbers as the first entries of `torch.randperm(windows)` do: for
/// each clip in order, below the number of windows, then one less, and so on (the last of all
/// windows needs no random number).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VideoClips {
    clip_length_in_frames: Count,
    frames_between_clips: Count,
    frame_rate: Option<Positive>,
    sampler: Option<Sampler>,
    num_clips_per_video: Option<Count>,
    max_clips_per_video: Option<Count>,
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
    fn resampled(&self, video: &dyn VideoTiming) -> Resampled {
        // An unknown rate counts as 1, as in torchvision.
        let fps = Some(video.average_fps())
            .filter(|fps| fps.is_finite() && *fps > 0.0)
            .unwrap_or(1.0);
        let rate = self.frame_rate.map_or(fps, |rate| rate.0);
        let (frames, step) = (f64::from(video.num_frames()), fps / rate);
        let frames = match step.fract() == 0.0 && step >= 1.0 {
            true => (frames / step).ceil(), // a slice: the count depends only on the step
            false => (frames * rate / fps).floor(),
        };
        Resampled {
            frames: frames as u64,
            step,
        }
    }

    fn windows(&self, resampled: &Resampled) -> u64 {
        let last = resampled
            .frames
            .checked_sub(self.clip_length_in_frames.u64());
        last.map_or(0, |last| last / self.frames_between_clips.u64() + 1)
    }

    /// Clips of a video with this number of windows.
    fn num_clips(&self, windows: u64) -> u64 {
        match self.sampler {
            None => windows,
            Some(Sampler::Uniform) if windows > 0 => self.num_clips_per_video.map_or(0, Count::u64),
            Some(Sampler::Uniform) => 0,
            Some(Sampler::Random) => windows.min(self.max_clips_per_video.map_or(0, Count::u64)),
        }
    }
}

/// Entry `wanted` of `torch.randperm(n)[:kept]`, which the first steps of a Fisher-Yates shuffle
/// determine. Entries that no step has moved are not stored.
fn permuted(n: u64, kept: u64, wanted: u64, rng: &mut dyn RandomSource) -> u64 {
    let mut moved: HashMap<u64, u64> = HashMap::new();
    for place in 0..kept.min(n.saturating_sub(1)) {
        let other = place + rng.next_below(n - place);
        let (a, b) = (
            *moved.get(&place).unwrap_or(&place),
            *moved.get(&other).unwrap_or(&other),
        );
        moved.insert(other, a);
        moved.insert(place, b);
    }
    *moved.get(&wanted).unwrap_or(&wanted)
}

impl Formula for VideoClips {
    fn check(&self) -> Result<()> {
        let (uniform, random) = (
            self.sampler == Some(Sampler::Uniform),
            self.sampler == Some(Sampler::Random),
        );
        only_for(
            "another sampler",
            &[
                (
                    "num_clips_per_video",
                    self.num_clips_per_video.is_some() && !uniform,
                ),
                (
                    "max_clips_per_video",
                    self.max_clips_per_video.is_some() && !random,
                ),
            ],
        )?;
        match self.sampler {
            None => Ok(()),
            Some(Sampler::Uniform) => needed(
                "num_clips_per_video",
                "sampler=\"uniform\"",
                self.num_clips_per_video,
            )
            .map(drop),
            Some(Sampler::Random) => needed(
                "max_clips_per_video",
                "sampler=\"random\"",
                self.max_clips_per_video,
            )
            .map(drop),
        }
    }

    fn shape(&self) -> Shape {
        Shape {
            clips: None,
            length: Some(self.clip_length_in_frames.0),
            draws_together: self.sampler == Some(Sampler::Random),
        }
    }

    fn clips(&self, video: &dyn VideoTiming) -> u64 {
        self.num_clips(self.windows(&self.resampled(video)))
    }

    fn frames(
        &self,
        video: &dyn VideoTiming,
        clip: u64,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        let resampled = self.resampled(video);
        let windows = self.windows(&resampled);
        let window = match (self.sampler, self.num_clips_per_video) {
            (Some(Sampler::Uniform), Some(clips)) => {
                torch_linspace_at(0.0, (windows - 1) as f64, clips.0, clip as u32).floor() as u64
            }
            (Some(Sampler::Random), _) => permuted(windows, self.num_clips(windows), clip, rng),
            _ => clip,
        };
        let start = window.saturating_mul(self.frames_between_clips.u64());
        let frames =
            (0..self.clip_length_in_frames.u64()).map(|i| resampled.frame(start.saturating_add(i)));
        require_in_range(frames, video.num_frames())
    }

    fn min_length_hint(&self) -> String {
        let frames = self.clip_length_in_frames.0;
        match self.frame_rate {
            Some(rate) => format!("{frames} frames at {} frames per second", rate.0),
            None => format!("{frames} frames"),
        }
    }
}
