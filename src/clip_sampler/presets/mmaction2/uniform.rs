//! Reproduces `UniformSample`: one frame from each of `clip_len` equal parts of the video; short videos
//! repeat frames.
//! The parts are those of PySlowFast's Something-Something V2; the two differ in test.

use super::super::common::{check_count, clamp_positions, clips_unless_empty};
use super::super::numpy_compat::{int, round};
use crate::clip_sampler::common::check_clip_index;
use crate::clip_sampler::{ClipIndices, ClipSampler, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// `UniformSample`: in training one clip with a random frame of each part, in test `num_clips` clips whose
/// frames are at even distances within the parts.
///
/// Random numbers in training: `next_below(end - start + 1)` for each frame, in order. The original does not
/// support several clips in training (its next transforms fail on them).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmactionUniformSample {
    clip_len: u32,
    num_clips: u32,
    test_mode: bool,
}

impl MmactionUniformSample {
    /// Checks the options.
    pub fn new(clip_len: u32, num_clips: u32, test_mode: bool) -> Result<Self> {
        check_count("clip_len", clip_len)?;
        check_count("num_clips", num_clips)?;
        if !test_mode && num_clips != 1 {
            return Err(Error::Argument(format!(
                "num_clips must be 1 in training, got {num_clips}; set test_mode for several clips"
            )));
        }
        Ok(Self { clip_len, num_clips, test_mode })
    }
}

impl ClipSampler for MmactionUniformSample {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        clips_unless_empty(video, self.num_clips)
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        Some(u64::from(self.num_clips))
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(self.clip_len)
    }

    fn shares_rng_per_video(&self) -> bool {
        true
    }

    fn clip(&self, video: &dyn VideoTiming, number: u64, rng: &mut dyn RandomSource) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
        let frames = video.num_frames();
        let part = f64::from(frames.saturating_sub(1)) / f64::from(self.clip_len);
        let bound = |i: u32| int(round(part * f64::from(i)));
        let within = int(part / (f64::from(self.num_clips) + 1.0) * (number as f64 + 1.0));
        let positions = (0..self.clip_len).map(|i| match self.test_mode {
            true => bound(i) + within,
            false => bound(i) + rng.next_below((bound(i + 1) - bound(i)) as u64 + 1) as i64,
        });
        Ok(clamp_positions(positions, frames))
    }

    fn min_length_hint(&self) -> String {
        "1 frame".to_owned()
    }
}
