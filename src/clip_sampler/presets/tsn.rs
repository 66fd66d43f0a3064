//! Reproduces TSN's dataset: `new_length` consecutive frames from each of `num_segments` parts of the video.
//! Formulas: yjxiong/tsn-pytorch, dataset.py; TSM's ops/dataset.py has the same.
//! All segments form one clip, since the network takes all of them at once.

use super::common::{check_count, check_product, clamp_positions, clips_unless_empty, sample_integers};
use super::numpy_compat::int;
use crate::clip_sampler::common::check_clip_index;
use crate::clip_sampler::{ClipIndices, ClipSampler, RandomSource, VideoTiming};
use crate::error::Result;

/// `TSNDataSet`: a random position in each part in training (`random_shift`), its middle otherwise.
///
/// Random numbers in training: `next_below(part)` for each segment. If parts would be empty and the video has more
/// frames than segments: `next_below(frames - new_length + 1)` for each segment, sorted (as in TSM; tsn-pytorch
/// fails there). Otherwise none, and all segments begin at frame 0, as do those of a video shorter than
/// `new_length`, where the original fails. Frames past the end repeat the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TsnDataSet {
    num_segments: u32,
    new_length: u32,
    random_shift: bool,
    test_mode: bool,
}

impl TsnDataSet {
    /// Checks the options. (For RGB differences the original itself increases `new_length` by one.)
    pub fn new(num_segments: u32, new_length: u32, random_shift: bool, test_mode: bool) -> Result<Self> {
        check_count("num_segments", num_segments)?;
        check_count("new_length", new_length)?;
        check_product("num_segments * new_length", &[num_segments, new_length])?;
        Ok(Self { num_segments, new_length, random_shift, test_mode })
    }

    fn random_starts(&self, frames: i64, rng: &mut dyn RandomSource) -> Vec<i64> {
        let segments = i64::from(self.num_segments);
        let starts = frames - i64::from(self.new_length) + 1;
        let part = starts.div_euclid(segments);
        if part > 0 {
            return (0..segments).map(|i| i * part + rng.next_below(part as u64) as i64).collect();
        }
        if frames > segments && starts > 0 {
            let mut drawn = sample_integers(rng, starts as u64, segments as u64);
            drawn.sort_unstable();
            return drawn.into_iter().map(|start| start as i64).collect();
        }
        vec![0; self.num_segments as usize]
    }

    fn middle_starts(&self, frames: i64) -> Vec<i64> {
        let [segments, length] = [self.num_segments, self.new_length].map(i64::from);
        if !self.test_mode && frames < segments + length {
            return vec![0; self.num_segments as usize];
        }
        let tick = (frames - length + 1) as f64 / f64::from(self.num_segments);
        (0..self.num_segments).map(|i| int(tick / 2.0 + tick * f64::from(i)).max(0)).collect()
    }
}

impl ClipSampler for TsnDataSet {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        clips_unless_empty(video, 1)
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        Some(1)
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(self.num_segments * self.new_length) // at most MAX_PRODUCT
    }

    fn clip(&self, video: &dyn VideoTiming, number: u64, rng: &mut dyn RandomSource) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
        let frames = i64::from(video.num_frames());
        let starts = match self.random_shift && !self.test_mode {
            true => self.random_starts(frames, rng),
            false => self.middle_starts(frames),
        };
        let length = i64::from(self.new_length);
        let positions = starts.into_iter().flat_map(|start| (0..length).map(move |i| start + i));
        Ok(clamp_positions(positions, video.num_frames()))
    }

    fn min_length_hint(&self) -> String {
        "1 frame".to_owned()
    }
}
