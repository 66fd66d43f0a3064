//! Reproduces PySlowFast's `Ssv2` dataset (slowfast/datasets/ssv2.py): one frame from each of `num_frames`
//! equal parts of the video, a random one in training, the middle one otherwise. There is one view: the views
//! of the original's test show the same frames through other crops (ThreeCrop).

use super::super::common::{check_count, clamp_positions, clips_unless_empty};
use super::super::numpy_compat::{int, round};
use crate::clip_sampler::common::check_clip_index;
use crate::clip_sampler::{ClipIndices, ClipSampler, RandomSource, VideoTiming};
use crate::error::Result;

/// The `Ssv2` dataset. Random numbers in training: `next_below(end - start + 1)` for each frame, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ssv2 {
    num_frames: u32,
    random: bool,
}

impl Ssv2 {
    /// Checks the settings; `random` in mode `train`.
    pub fn new(num_frames: u32, random: bool) -> Result<Self> {
        Ok(Self { num_frames: check_count("num_frames", num_frames)?, random })
    }
}

impl ClipSampler for Ssv2 {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        clips_unless_empty(video, 1)
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        Some(1)
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(self.num_frames)
    }

    fn clip(&self, video: &dyn VideoTiming, number: u64, rng: &mut dyn RandomSource) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
        let part = f64::from(video.num_frames().saturating_sub(1)) / f64::from(self.num_frames);
        let positions = (0..self.num_frames).map(|i| {
            let [start, end] = [i, i + 1].map(|bound| int(round(part * f64::from(bound))));
            match self.random {
                true => start + rng.next_below((end - start) as u64 + 1) as i64,
                false => (start + end) / 2,
            }
        });
        Ok(clamp_positions(positions, video.num_frames()))
    }

    fn min_length_hint(&self) -> String {
        "1 frame".to_owned()
    }
}
