//! Reproduces `UntrimmedSampleFrames`: clips around centers at even distances, as many as the video holds.
//! Positions outside the video repeat its first or last frame. Uses no random numbers.

use super::super::common::{check_count, clamp_positions};
use crate::clip_sampler::common::check_clip_index;
use crate::clip_sampler::{ClipIndices, ClipSampler, RandomSource, VideoTiming};
use crate::error::Result;

/// `UntrimmedSampleFrames`: clips around frame `clip_interval / 2` and every `clip_interval` frames after it.
/// A video too short for the first center yields no clips, where the original fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UntrimmedSampleFrames {
    clip_len: u32,
    clip_interval: u32,
    frame_interval: u32,
}

impl UntrimmedSampleFrames {
    /// Checks the options.
    pub fn new(clip_len: u32, clip_interval: u32, frame_interval: u32) -> Result<Self> {
        check_count("clip_len", clip_len)?;
        check_count("clip_interval", clip_interval)?;
        check_count("frame_interval", frame_interval)?;
        Ok(Self { clip_len, clip_interval, frame_interval })
    }
}

impl ClipSampler for UntrimmedSampleFrames {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        let after_first = video.num_frames().saturating_sub(self.clip_interval / 2);
        u64::from(after_first.div_ceil(self.clip_interval))
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(self.clip_len)
    }

    fn clip(&self, video: &dyn VideoTiming, number: u64, _: &mut dyn RandomSource) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
        let [length, interval] = [self.clip_len, self.frame_interval].map(i64::from);
        // Below the number of frames, otherwise check_clip_index returns an error.
        let centre = i64::from(self.clip_interval / 2) + number as i64 * i64::from(self.clip_interval);
        let positions = (0..length).map(|i| centre + (i - length / 2) * interval);
        Ok(clamp_positions(positions, video.num_frames()))
    }

    fn min_length_hint(&self) -> String {
        format!("{} frames", self.clip_interval / 2 + 1)
    }
}
