//! Clips at evenly spread starts, for evaluation; uses no random numbers. The first clip starts
//! with the video and the last one ends with it; a single clip is in the middle.

use super::clip_spec::{ClipSpec, Spacing};
use super::common::{check_clip_index, check_nonzero};
use super::{ClipIndices, ClipSampler, PaddingPolicy, RandomSource, VideoTiming};
use crate::error::Result;

/// Views of a video: `clips_per_video` clips spread evenly from its beginning to its end.
///
/// With starts 0 to *L* (all frames at which a whole clip fits), clip *c* of *C* starts at *c·L /
/// (C − 1)*, rounded to the nearest, halves up: `floor((2·c·L + C − 1) / (2·(C − 1)))`. A single
/// clip starts at `floor(L / 2)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Uniform {
    spec: ClipSpec,
    clips_per_video: u32,
    padding: PaddingPolicy,
}

impl Uniform {
    /// Checks the arguments.
    pub fn new(
        sequence_length: u32,
        spacing: impl Into<Spacing>,
        clips_per_video: u32,
        padding: PaddingPolicy,
    ) -> Result<Self> {
        let spec = ClipSpec::new(sequence_length, spacing)?;
        check_nonzero(
            "clips_per_video",
            clips_per_video,
            "use 1 for the middle of each video",
        )?;
        Ok(Self {
            spec,
            clips_per_video,
            padding,
        })
    }
}

/// Number `number` of `count` numbers that are spread evenly from 0 to `last`.
pub(super) fn evenly_spaced(last: u64, number: u64, count: u64) -> u64 {
    let [last, number, gaps] = [last, number, count.saturating_sub(1)].map(u128::from);
    match gaps {
        0 => (last / 2) as u64,
        _ => ((2 * number * last + gaps) / (2 * gaps)) as u64, // at most `last`
    }
}

impl ClipSampler for Uniform {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        self.padding
            .num_clips(video, u64::from(self.clips_per_video), || {
                self.spec.num_starts(video) > 0
            })
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        self.padding
            .fixed_num_clips(u64::from(self.clips_per_video))
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(self.spec.sequence_length())
    }

    fn clip(
        &self,
        video: &dyn VideoTiming,
        number: u64,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
        let last = self.spec.num_starts(video).saturating_sub(1);
        let start = evenly_spaced(last, number, u64::from(self.clips_per_video));
        self.spec.clip(video, start as u32, self.padding, rng) // below the number of frames
    }

    fn pads_with_zeros(&self) -> bool {
        self.padding == PaddingPolicy::Blank
    }

    fn min_length_hint(&self) -> String {
        self.padding.min_length_hint(self.spec.min_length_hint())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ScriptedRng, video};
    use super::super::video_timing::FrameTimestamps;
    use super::*;

    fn starts(frames: u32, length: u32, stride: u32, clips: u32) -> Vec<u32> {
        let sampler = Uniform::new(length, stride, clips, PaddingPolicy::Repeat).unwrap();
        let start = |c| {
            sampler
                .clip(&video(frames), c, &mut ScriptedRng(&[]))
                .unwrap()
                .indices[0]
        };
        (0..sampler.num_clips(&video(frames))).map(start).collect()
    }

    #[test]
    fn views_reach_from_the_first_start_to_the_last() {
        assert_eq!(starts(100, 4, 3, 3), [0, 45, 90]); // L = 90
        assert_eq!(starts(17, 8, 1, 4), [0, 3, 6, 9]);
        assert_eq!(starts(14, 8, 1, 5), [0, 2, 3, 5, 6]); // 1.5 and 4.5 round up
        assert_eq!(starts(8, 8, 1, 3), [0, 0, 0]);
    }

    #[test]
    fn single_view_is_in_the_middle() {
        assert_eq!(
            (starts(11, 4, 1, 1), starts(10, 4, 1, 1), starts(4, 4, 1, 1)),
            (vec![3], vec![3], vec![0])
        );
    }

    #[test]
    fn timed_views_use_presentation_times() {
        let times = vec![0.0, 0.5, 0.6, 0.7, 0.8, 2.0, 2.5];
        let video = FrameTimestamps::new(times, 3.0).unwrap();
        // Two frames one second apart: they fit at starts 0 to 4 (0.8 + 1 s); from frame 5 the
        // second would be at the end, 3 s.
        let sampler = Uniform::new(2, Spacing::Fps(1.0), 3, PaddingPolicy::Repeat).unwrap();
        let views = [0, 1, 2].map(|c| {
            sampler
                .clip(&video, c, &mut ScriptedRng(&[]))
                .unwrap()
                .indices
        });
        assert_eq!(views, [[0, 4], [2, 4], [4, 4]]);
    }

    #[test]
    fn the_largest_numbers_spread_without_overflow() {
        let most = u64::from(u32::MAX);
        assert_eq!(
            (
                evenly_spaced(most, most - 1, most),
                evenly_spaced(most, 0, most),
                evenly_spaced(most, 1, 3)
            ),
            (most, 0, most / 2 + 1)
        );
    }
}
