//! Reproduces `DenseSampleFrames`: clips that start at even distances within a short range of frames.
//! The range is at a random position in training and at several fixed positions in test. Starts past the end
//! wrap.

use super::super::common::{count, of_each, together};
use super::super::numpy_compat::{int, linspace};
use super::{jitter, OutOfBound};
use crate::clip_sampler::common::known_clip;
use crate::clip_sampler::{ClipIndices, ClipSampler, RandomSource, VideoTiming};
use crate::error::Result;

/// Options of mmaction2's `DenseSampleFrames`, with its names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DenseOptions {
    /// Frames of a clip.
    pub clip_len: u32,
    /// Distance between frames of a clip.
    pub frame_interval: u32,
    /// Clips of a range.
    pub num_clips: u32,
    /// Frames of the range in which clips start.
    pub sample_range: u32,
    /// Number of positions of the range in test.
    pub num_sample_positions: u32,
    /// Adds a random part of the interval to each frame.
    pub temporal_jitter: bool,
    /// How to pad positions past the end.
    pub out_of_bound_opt: OutOfBound,
    /// Test or validation instead of training.
    pub test_mode: bool,
}

/// `DenseSampleFrames`: `num_clips` clips in training, `num_sample_positions * num_clips` in test, position
/// by position.
///
/// Random numbers, shared by all clips of a video: in training, for a video longer than `sample_range`, one
/// start of the range (`below(frames - sample_range)`); then with `temporal_jitter` `below(frame_interval)`
/// for each frame of each clip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dense(DenseOptions);

impl Dense {
    /// Checks the options.
    pub fn new(options: DenseOptions) -> Result<Self> {
        count("clip_len", options.clip_len)?;
        count("frame_interval", options.frame_interval)?;
        count("num_clips", options.num_clips)?;
        count("sample_range", options.sample_range)?;
        count("num_sample_positions", options.num_sample_positions)?;
        let all = [options.clip_len, options.num_clips, options.num_sample_positions];
        together("clip_len * num_clips * num_sample_positions", &all)?;
        Ok(Self(options))
    }

    fn clips(&self) -> u64 {
        let places = if self.0.test_mode { self.0.num_sample_positions } else { 1 };
        u64::from(places) * u64::from(self.0.num_clips)
    }

    /// The start of a clip's range.
    fn range_start(&self, num_frames: u32, clip: u64, rng: &mut dyn RandomSource) -> u64 {
        let last = num_frames.saturating_sub(self.0.sample_range);
        if self.0.test_mode {
            let places = linspace(0.0, f64::from(last), self.0.num_sample_positions);
            return int(places[(clip / u64::from(self.0.num_clips)) as usize]) as u64;
        }
        match last {
            0 => 0,
            _ => rng.below(u64::from(last)), // never the last one: the original's bound is exclusive
        }
    }
}

impl ClipSampler for Dense {
    fn clips_in(&self, video: &dyn VideoTiming) -> u64 {
        of_each(video, 1) * self.clips()
    }

    fn clips_each(&self) -> Option<u64> {
        Some(self.clips())
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(self.0.clip_len)
    }

    fn shares_rng_per_video(&self) -> bool {
        true
    }

    fn clip(&self, video: &dyn VideoTiming, number: u64, rng: &mut dyn RandomSource) -> Result<ClipIndices> {
        known_clip(number, self.clips_in(video), video)?;
        let options = &self.0;
        let range = self.range_start(video.num_frames(), number, rng);
        let distance = u64::from(options.sample_range / options.num_clips);
        let within = number % u64::from(options.num_clips) * distance;
        let start = (range + within) % u64::from(video.num_frames().max(1));
        let step = u64::from(options.frame_interval);
        let mut positions: Vec<f64> =
            (0..u64::from(options.clip_len)).map(|i| (start + i * step) as f64).collect();
        if options.temporal_jitter {
            jitter(&mut positions, options.frame_interval, (number, self.clips()), rng);
        }
        Ok(options.out_of_bound_opt.settle(&positions, video.num_frames()))
    }

    fn needs(&self) -> String {
        "1 frame".to_owned()
    }
}
