//! Reproduces `DenseSampleFrames`: clips that start at even distances within a short range of frames.
//! The range is at a random position in training and at several fixed positions in test. Starts past the end
//! wrap.

use super::super::common::{check_count, check_product, clips_unless_empty};
use super::super::numpy_compat::{int, linspace};
use super::{jitter, OutOfBound};
use crate::clip_sampler::common::check_clip_index;
use crate::clip_sampler::{ClipIndices, ClipSampler, RandomSource, VideoTiming};
use crate::error::Result;

/// Options of mmaction2's `DenseSampleFrames`, with its names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DenseSampleFramesOptions {
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
/// start of the range (`next_below(frames - sample_range)`); then with `temporal_jitter` `next_below(frame_interval)`
/// for each frame of each clip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DenseSampleFrames(DenseSampleFramesOptions);

impl DenseSampleFrames {
    /// Checks the options.
    pub fn new(options: DenseSampleFramesOptions) -> Result<Self> {
        check_count("clip_len", options.clip_len)?;
        check_count("frame_interval", options.frame_interval)?;
        check_count("num_clips", options.num_clips)?;
        check_count("sample_range", options.sample_range)?;
        check_count("num_sample_positions", options.num_sample_positions)?;
        let all = [options.clip_len, options.num_clips, options.num_sample_positions];
        check_product("clip_len * num_clips * num_sample_positions", &all)?;
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
            _ => rng.next_below(u64::from(last)), // never the last one: the original's bound is exclusive
        }
    }
}

impl ClipSampler for DenseSampleFrames {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        clips_unless_empty(video, 1) * self.clips()
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        Some(self.clips())
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(self.0.clip_len)
    }

    fn shares_rng_per_video(&self) -> bool {
        true
    }

    fn clip(&self, video: &dyn VideoTiming, number: u64, rng: &mut dyn RandomSource) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
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
        Ok(options.out_of_bound_opt.resolve(&positions, video.num_frames()))
    }

    fn min_length_hint(&self) -> String {
        "1 frame".to_owned()
    }
}
