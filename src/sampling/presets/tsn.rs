//! In: the options of TSN's dataset (yjxiong/tsn-pytorch, dataset.py; TSM's ops/dataset.py has the same). Out: its frame
//! indices: `new_length` frames in a row from each of `num_segments` parts of the video.
//! Never: one segment alone; the network takes all of them at once, and so they are one clip here.

use super::arithmetic::int;
use super::shared::{clamped, count, draws, of_each, together};
use crate::error::Result;
use crate::sampling::common::known_clip;
use crate::sampling::{Draw, Footage, Rule, Sample};

/// `TSNDataSet`: a random place in each part in training (`random_shift`), its middle otherwise.
///
/// Draws in training: `below(part)` for each segment; where parts would be empty and the video has more frames than
/// segments, `below(frames - new_length + 1)` for each segment, sorted (as TSM has it; tsn-pytorch fails there);
/// otherwise none, and all segments begin at frame 0. So do those of a video shorter than `new_length`, where the
/// original fails. Frames past the end repeat the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    num_segments: u32,
    new_length: u32,
    random_shift: bool,
    test_mode: bool,
}

impl Segments {
    /// Checks the options. (For RGB differences the original makes `new_length` one more by itself.)
    pub fn new(num_segments: u32, new_length: u32, random_shift: bool, test_mode: bool) -> Result<Self> {
        count("num_segments", num_segments)?;
        count("new_length", new_length)?;
        together("num_segments * new_length", &[num_segments, new_length])?;
        Ok(Self { num_segments, new_length, random_shift, test_mode })
    }

    fn random_starts(&self, frames: i64, rng: &mut dyn Draw) -> Vec<i64> {
        let segments = i64::from(self.num_segments);
        let starts = frames - i64::from(self.new_length) + 1;
        let part = starts.div_euclid(segments);
        if part > 0 {
            return (0..segments).map(|i| i * part + rng.below(part as u64) as i64).collect();
        }
        if frames > segments && starts > 0 {
            let mut drawn = draws(rng, starts as u64, segments as u64);
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

impl Rule for Segments {
    fn clips_in(&self, video: &dyn Footage) -> u64 {
        of_each(video, 1)
    }

    fn clips_each(&self) -> Option<u64> {
        Some(1)
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(self.num_segments * self.new_length) // at most MOST_TOGETHER
    }

    fn clip(&self, video: &dyn Footage, number: u64, rng: &mut dyn Draw) -> Result<Sample> {
        known_clip(number, self.clips_in(video), video)?;
        let frames = i64::from(video.num_frames());
        let starts = match self.random_shift && !self.test_mode {
            true => self.random_starts(frames, rng),
            false => self.middle_starts(frames),
        };
        let length = i64::from(self.new_length);
        let positions = starts.into_iter().flat_map(|start| (0..length).map(move |i| start + i));
        Ok(clamped(positions, video.num_frames()))
    }

    fn needs(&self) -> String {
        "1 frame".to_owned()
    }
}
