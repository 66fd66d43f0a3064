//! Clips as long as a video permits: the first of several clip samplers that finds a clip in it.

use super::{ClipIndices, ClipSampler, ClipSamplerRef, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// Uses, for each video, the first clip sampler that takes a clip from it, else the last one.
#[derive(Clone, Debug)]
pub struct LongestFit {
    /// All but the last one omit videos that are too short for them.
    candidates: Vec<ClipSamplerRef>,
    last: ClipSamplerRef,
}

impl LongestFit {
    /// `clip_samplers`: the one with the longest clips first.
    ///
    /// # Errors
    /// `Argument` if there is none.
    pub fn new(mut clip_samplers: Vec<ClipSamplerRef>) -> Result<Self> {
        let last = clip_samplers.pop().ok_or_else(|| {
            Error::Argument("give at least one clip sampler, of which one is used".into())
        })?;
        Ok(Self {
            candidates: clip_samplers,
            last,
        })
    }

    fn fitting(&self, video: &dyn VideoTiming) -> &ClipSamplerRef {
        // A clip of an image by time would be the same frame again and again, as long as it is shown.
        let is_image = video.num_frames() == 1;
        let fits = |sampler: &&ClipSamplerRef| {
            sampler.num_clips(video) > 0 && (!is_image || sampler.sequence_length() == Some(1))
        };
        self.candidates.iter().find(fits).unwrap_or(&self.last)
    }
}

impl ClipSampler for LongestFit {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        self.fitting(video).num_clips(video)
    }

    /// That of the last one: those before differ from it in the length of clips only.
    fn fixed_num_clips(&self) -> Option<u64> {
        self.last.fixed_num_clips()
    }

    fn sequence_length(&self) -> Option<u32> {
        match self.candidates.is_empty() {
            true => self.last.sequence_length(),
            false => None,
        }
    }

    fn shares_rng_per_video(&self) -> bool {
        self.last.shares_rng_per_video()
    }

    fn clip(
        &self,
        video: &dyn VideoTiming,
        clip: u64,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        self.fitting(video).clip(video, clip, rng)
    }

    fn pads_with_zeros(&self) -> bool {
        self.last.pads_with_zeros()
    }

    fn min_length_hint(&self) -> String {
        self.last.min_length_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::tests::{ScriptedRng, video};
    use super::super::video_timing::ConstantFrameRate;
    use super::super::{PaddingPolicy, Random, Spacing};
    use super::*;

    fn random(length: u32, padding: PaddingPolicy) -> ClipSamplerRef {
        Arc::new(Random::new(length, 2, 1, padding).unwrap())
    }

    #[test]
    fn an_image_is_a_clip_of_one_frame_at_any_rate() {
        let at_rate = |length, padding| -> ClipSamplerRef {
            Arc::new(Random::new(length, Spacing::Fps(16.0), 1, padding).unwrap())
        };
        let image = ConstantFrameRate {
            num_frames: 1,
            fps: 1.0,
        };
        let sampler = LongestFit::new(vec![
            at_rate(9, PaddingPolicy::Drop),
            at_rate(1, PaddingPolicy::Drop),
        ])
        .unwrap();
        let clip = sampler.clip(&image, 0, &mut ScriptedRng(&[0])).unwrap();
        assert_eq!(clip.indices, [0]);
    }

    #[test]
    fn the_longest_clip_that_fits_is_taken() {
        for (padding, shortest) in [(PaddingPolicy::Drop, 0), (PaddingPolicy::Edge, 1)] {
            let sampler = LongestFit::new(vec![
                random(81, PaddingPolicy::Drop),
                random(33, PaddingPolicy::Drop),
                random(17, padding),
            ])
            .unwrap();
            // A clip of n frames, two apart, spans 2 n - 1 frames.
            for (frames, length) in [(161, 81), (160, 33), (65, 33), (64, 17), (33, 17)] {
                let clip = sampler
                    .clip(&video(frames), 0, &mut ScriptedRng(&[0]))
                    .unwrap();
                assert_eq!(clip.indices.len(), length, "{frames}");
                assert_eq!(sampler.num_clips(&video(frames)), 1);
            }
            assert_eq!(sampler.num_clips(&video(32)), shortest);
            assert_eq!(sampler.fixed_num_clips(), (shortest > 0).then_some(1));
            assert_eq!(sampler.sequence_length(), None);
        }
        assert!(LongestFit::new(Vec::new()).is_err());
    }
}
