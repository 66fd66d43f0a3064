//! In: the options of `UntrimmedSampleFrames`. Out: clips around centres at even distances, as many as the video holds.
//! Frames before the first and after the last one of the video repeat these.
//! Never: draws a random number.

use super::super::shared::{clamped, count};
use crate::error::Result;
use crate::sampling::common::known_clip;
use crate::sampling::{Draw, Footage, Rule, Sample};

/// `UntrimmedSampleFrames`: clips around frames `clip_interval / 2`, and each `clip_interval` further. A video shorter
/// than that yields none, where the original fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Untrimmed {
    clip_len: u32,
    clip_interval: u32,
    frame_interval: u32,
}

impl Untrimmed {
    /// Checks the options.
    pub fn new(clip_len: u32, clip_interval: u32, frame_interval: u32) -> Result<Self> {
        count("clip_len", clip_len)?;
        count("clip_interval", clip_interval)?;
        count("frame_interval", frame_interval)?;
        Ok(Self { clip_len, clip_interval, frame_interval })
    }
}

impl Rule for Untrimmed {
    fn clips_in(&self, video: &dyn Footage) -> u64 {
        let after_first = video.num_frames().saturating_sub(self.clip_interval / 2);
        u64::from(after_first.div_ceil(self.clip_interval))
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(self.clip_len)
    }

    fn clip(&self, video: &dyn Footage, number: u64, _: &mut dyn Draw) -> Result<Sample> {
        known_clip(number, self.clips_in(video), video)?;
        let [length, interval] = [self.clip_len, self.frame_interval].map(i64::from);
        // Below the number of frames, or known_clip would have refused.
        let centre = i64::from(self.clip_interval / 2) + number as i64 * i64::from(self.clip_interval);
        let positions = (0..length).map(|i| centre + (i - length / 2) * interval);
        Ok(clamped(positions, video.num_frames()))
    }

    fn needs(&self) -> String {
        format!("{} frames", self.clip_interval / 2 + 1)
    }
}
