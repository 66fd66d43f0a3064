//! Clip samplers of a list of samples whose parts have different ones, such as datasets of
//! different frame rates.

use super::{ClipIndices, ClipSampler, ClipSamplerRef, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// A clip sampler for each range of consecutive samples. Without a sample it acts as the first one.
#[derive(Debug)]
pub struct PerSample {
    /// The first sample after each range, and the sampler of the range.
    ranges: Vec<(u32, ClipSamplerRef)>,
}

impl PerSample {
    /// `parts`: numbers of consecutive samples, and their sampler.
    ///
    /// # Errors
    /// `Argument` if there is no part, or if parts differ in more than where they place frames.
    pub fn new(parts: Vec<(u32, ClipSamplerRef)>) -> Result<Self> {
        let mut end = 0u32;
        let ranges: Vec<_> = parts
            .into_iter()
            .map(|(count, sampler)| {
                end = end.saturating_add(count);
                (end, sampler)
            })
            .collect();
        let kind = |(_, sampler): &(u32, ClipSamplerRef)| {
            let length = sampler.sequence_length();
            let (shares, zeros) = (sampler.shares_rng_per_video(), sampler.pads_with_zeros());
            (length, shares, zeros)
        };
        let Some(first) = ranges.first().map(kind) else {
            return Err(Error::Argument("a list of clip samplers is empty".into()));
        };
        match ranges.iter().map(kind).find(|other| *other != first) {
            None => Ok(Self { ranges }),
            Some(other) => Err(Error::Argument(format!(
                "clips of all samples must have equally many frames, got {:?} and {:?}",
                first.0, other.0
            ))),
        }
    }

    fn first(&self) -> &dyn ClipSampler {
        &*self.ranges[0].1 // `new` refuses an empty list
    }
}

impl ClipSampler for PerSample {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        self.first().num_clips(video)
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        let first = self.first().fixed_num_clips();
        let same = |(_, sampler): &(u32, ClipSamplerRef)| sampler.fixed_num_clips() == first;
        first.filter(|_| self.ranges.iter().all(same))
    }

    fn sequence_length(&self) -> Option<u32> {
        self.first().sequence_length()
    }

    fn shares_rng_per_video(&self) -> bool {
        self.first().shares_rng_per_video()
    }

    fn clip(
        &self,
        video: &dyn VideoTiming,
        clip: u64,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        self.first().clip(video, clip, rng)
    }

    fn pads_with_zeros(&self) -> bool {
        self.first().pads_with_zeros()
    }

    fn min_length_hint(&self) -> String {
        self.first().min_length_hint()
    }

    fn for_sample(&self, sample: u32) -> Option<&ClipSamplerRef> {
        let at = self.ranges.partition_point(|(end, _)| *end <= sample);
        self.ranges.get(at).map(|(_, sampler)| sampler)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::tests::{ScriptedRng, video};
    use super::super::{PaddingPolicy, Spacing, Uniform};
    use super::*;

    fn uniform(frames: u32, stride: u32, clips: u32) -> ClipSamplerRef {
        let spacing = Spacing::Stride(stride);
        Arc::new(Uniform::new(frames, spacing, clips, PaddingPolicy::Repeat).unwrap())
    }

    #[test]
    fn each_sample_has_the_sampler_of_its_range() {
        let parts = vec![
            (2, uniform(3, 1, 1)),
            (0, uniform(3, 7, 1)),
            (1, uniform(3, 5, 1)),
        ];
        let sampler = PerSample::new(parts).unwrap();
        let steps: Vec<Option<u32>> = (0..4)
            .map(|sample| {
                let own = sampler.for_sample(sample)?;
                let clip = own.clip(&video(50), 0, &mut ScriptedRng(&[])).unwrap();
                Some(clip.indices[1] - clip.indices[0])
            })
            .collect();
        assert_eq!(steps, [Some(1), Some(1), Some(5), None]);
        assert_eq!(sampler.fixed_num_clips(), Some(1));
    }

    #[test]
    fn samplers_must_agree() {
        assert!(PerSample::new(Vec::new()).is_err());
        let error = PerSample::new(vec![(1, uniform(3, 1, 1)), (1, uniform(4, 1, 1))]);
        assert!(
            error
                .unwrap_err()
                .to_string()
                .contains("equally many frames, got Some(3) and Some(4)")
        );
        let mixed = PerSample::new(vec![(1, uniform(3, 1, 1)), (1, uniform(3, 1, 2))]).unwrap();
        assert_eq!(mixed.fixed_num_clips(), None);
    }
}
