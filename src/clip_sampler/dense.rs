//! Dense sampling, as in mmaction2's `DenseSampleFrames`: several clips with close starts around
//! one position. Uses at most one random number per video.

use super::clip_spec::ClipSpec;
use super::common::{check_clip_index, check_nonzero};
use super::random::part_start;
use super::uniform::evenly_spaced;
use super::{ClipIndices, ClipSampler, PaddingPolicy, RandomSource, VideoTiming};
use crate::error::Result;

/// `clips_per_video` clips with starts spread evenly over a range of frames, for each of one or
/// more positions of the range.
///
/// The range has *R* frames and begins at frame *p*; the starts are `(p + floor(c·R / C)) mod N`,
/// so they wrap around at the end of the video. A random *p* is uniform in 0 to *N − R* (0 if the
/// video has at most *R* frames) and the same for all clips of a video. Fixed positions are spread
/// evenly from 0 to *N − R*, like the starts of [`Uniform`](super::Uniform); clip number *q·C + c*
/// is clip *c* at position *q*.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dense {
    spec: ClipSpec,
    clips_per_video: u32,
    sample_range: u32,
    num_positions: Option<u32>,
    padding: PaddingPolicy,
}

impl Dense {
    /// Checks the arguments. `num_positions`: `None` for one random position.
    pub fn new(
        (sequence_length, stride): (u32, u32),
        clips_per_video: u32,
        sample_range: u32,
        num_positions: Option<u32>,
        padding: PaddingPolicy,
    ) -> Result<Self> {
        let spec = ClipSpec::new(sequence_length, stride)?;
        check_nonzero(
            "clips_per_video",
            clips_per_video,
            "it is the number of clips within the range",
        )?;
        check_nonzero(
            "sample_range",
            sample_range,
            "it is the number of frames that starts are spread over",
        )?;
        if let Some(positions) = num_positions {
            check_nonzero(
                "num_positions",
                positions,
                "omit it for one random position",
            )?;
        }
        Ok(Self {
            spec,
            clips_per_video,
            sample_range,
            num_positions,
            padding,
        })
    }

    fn clips(&self) -> u64 {
        u64::from(self.clips_per_video) * u64::from(self.num_positions.unwrap_or(1))
    }
}

impl ClipSampler for Dense {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        self.padding
            .num_clips(video, self.clips(), || self.spec.num_starts(video) > 0)
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        self.padding.fixed_num_clips(self.clips())
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(self.spec.sequence_length())
    }

    fn shares_rng_per_video(&self) -> bool {
        self.num_positions.is_none()
    }

    /// With a random position: takes one random number below *N − R* + 1 if the video has more than
    /// *R* frames.
    fn clip(
        &self,
        video: &dyn VideoTiming,
        number: u64,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
        let frames = u64::from(video.num_frames());
        let last = frames.saturating_sub(u64::from(self.sample_range));
        let clips = u64::from(self.clips_per_video);
        let position = match self.num_positions {
            None if last == 0 => 0,
            None => rng.next_below(last + 1),
            Some(positions) => evenly_spaced(last, number / clips, u64::from(positions)),
        };
        let start = position + part_start(u64::from(self.sample_range), number % clips, clips);
        // Below the number of frames, which is not 0 because check_clip_index rejects videos
        // without frames.
        self.spec
            .clip(video, (start % frames) as u32, self.padding, rng)
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
    use super::*;

    fn all(sampler: &Dense, frames: u32, drawn: &[u64]) -> Vec<Vec<u32>> {
        let clip = |c| {
            sampler
                .clip(&video(frames), c, &mut ScriptedRng(drawn))
                .unwrap()
                .indices
        };
        (0..sampler.num_clips(&video(frames))).map(clip).collect()
    }

    #[test]
    fn clips_share_one_position_and_spread_over_the_range() {
        let sampler = Dense::new((2, 3), 4, 10, None, PaddingPolicy::Loop).unwrap();
        assert!(sampler.shares_rng_per_video());
        // The offsets are 0, 2, 5 and 7.
        assert_eq!(all(&sampler, 30, &[0]), [[0, 3], [2, 5], [5, 8], [7, 10]]);
        assert_eq!(
            all(&sampler, 30, &[20]),
            [[20, 23], [22, 25], [25, 28], [27, 0]]
        );
    }

    #[test]
    fn starts_wrap_around_a_video_shorter_than_the_range() {
        let sampler = Dense::new((2, 1), 4, 16, None, PaddingPolicy::Loop).unwrap();
        assert_eq!(all(&sampler, 6, &[]), [[0, 1], [4, 5], [2, 3], [0, 1]]); // 0, 4, 8, 12
        assert_eq!(all(&sampler, 16, &[]), [[0, 1], [4, 5], [8, 9], [12, 13]]);
    }

    #[test]
    fn fixed_positions_reach_from_the_first_to_the_last() {
        let sampler = Dense::new((1, 1), 2, 8, Some(3), PaddingPolicy::Loop).unwrap();
        assert!(!sampler.shares_rng_per_video());
        // N - R = 13: positions 0, 7 (6.5 rounds up) and 13, each with offsets 0 and 4.
        assert_eq!(all(&sampler, 21, &[]), [[0], [4], [7], [11], [13], [17]]);
        assert_eq!(sampler.fixed_num_clips(), Some(6));
    }

    #[test]
    fn only_videos_shorter_than_a_clip_are_dropped() {
        let sampler = Dense::new((3, 2), 2, 6, None, PaddingPolicy::Drop).unwrap();
        assert_eq!([0, 4, 5].map(|n| sampler.num_clips(&video(n))), [0, 0, 2]);
        assert_eq!(all(&sampler, 5, &[]), [[0, 2, 4], [3, 0, 2]]);
    }
}
