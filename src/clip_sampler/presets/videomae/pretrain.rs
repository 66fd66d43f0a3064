//! Reproduces VideoMAE's pre-training dataset (`VideoMAE`, the same in both repositories): `new_length`
//! frames from a random position of each of `num_segments` parts of the video. Short videos are not replaced
//! by another video; a step that would leave the video is skipped.

use super::super::common::{check_count, check_product, clips_unless_empty, sample_integers};
use crate::clip_sampler::common::check_clip_index;
use crate::clip_sampler::{ClipIndices, ClipSampler, RandomSource, VideoTiming};
use crate::error::Result;

/// `VideoMAE`: one clip is one of the original's `num_segments` (which is 1: its views hold one segment).
///
/// Random numbers, shared by all clips of a video: `next_below(part)` for each part; or `next_below(frames - new_length
/// * new_step + 1)` for each, sorted, if parts would be empty; or none for a short video. Then with
/// `temporal_jitter` `next_below(new_step)` for each frame of a clip, the same for all clips.
///
/// Reproduced from the original: stepping stops one frame early, so the last frame of the video is shown only
/// by jitter or as a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pretrain {
    num_segments: u32,
    new_length: u32,
    new_step: u32,
    temporal_jitter: bool,
}

impl Pretrain {
    /// Checks the options.
    pub fn new(num_segments: u32, new_length: u32, new_step: u32, temporal_jitter: bool) -> Result<Self> {
        check_count("num_segments", num_segments)?;
        check_count("new_length", new_length)?;
        check_count("new_step", new_step)?;
        check_product("num_segments * new_length", &[num_segments, new_length])?;
        Ok(Self { num_segments, new_length, new_step, temporal_jitter })
    }

    /// The start of each clip.
    fn starts(&self, frames: i64, rng: &mut dyn RandomSource) -> Vec<i64> {
        let segments = i64::from(self.num_segments);
        let span = i64::from(self.new_length) * i64::from(self.new_step);
        let starts = frames - span + 1;
        let part = starts.div_euclid(segments);
        if part > 0 {
            return (0..segments).map(|i| i * part + rng.next_below(part as u64) as i64).collect();
        }
        if frames > segments.max(span) {
            let mut drawn = sample_integers(rng, starts as u64, segments as u64);
            drawn.sort_unstable();
            return drawn.into_iter().map(|start| start as i64).collect();
        }
        vec![0; self.num_segments as usize]
    }
}

impl ClipSampler for Pretrain {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        clips_unless_empty(video, self.num_segments)
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        Some(u64::from(self.num_segments))
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(self.new_length)
    }

    fn shares_rng_per_video(&self) -> bool {
        true
    }

    fn clip(&self, video: &dyn VideoTiming, number: u64, rng: &mut dyn RandomSource) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
        let (frames, step) = (i64::from(video.num_frames()), i64::from(self.new_step));
        let start = self.starts(frames, rng)[number as usize];
        let jitter = match self.temporal_jitter {
            true => sample_integers(rng, u64::from(self.new_step), u64::from(self.new_length)),
            false => vec![0; self.new_length as usize],
        };
        let mut at = start;
        let mut sample = ClipIndices::default();
        for (i, jitter) in (0..).zip(jitter) {
            let jittered = at + jitter as i64;
            sample.indices.push(if jittered < frames { jittered } else { at } as u32);
            sample.mask.push(start + i * step < frames);
            if at + 1 + step < frames {
                at += step;
            }
        }
        Ok(sample)
    }

    fn min_length_hint(&self) -> String {
        "1 frame".to_owned()
    }
}
