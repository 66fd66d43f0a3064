//! Clips at random starts.
//! Every start at which the whole clip fits is equally likely, in the whole video or in the clip's own part
//! of it.

use super::clip_spec::{ClipSpec, Spacing};
use super::common::{at_least_one, known_clip};
use super::{ClipIndices, ClipSampler, PaddingPolicy, RandomSource, VideoTiming};
use crate::error::Result;

/// The set of starts that a clip can have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Group {
    /// All starts, independent of the other clips of the video.
    #[default]
    Independent,
    /// The starts of the clip's own part: clip *c* of *C* starts at or after `floor(c * F / C)` and before
    /// `floor((c + 1) * F / C)` of the *F* starts, or at the former if that range is empty.
    Partitioned,
}

/// Clips at random starts, `clips_per_video` from every video.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Random {
    grid: ClipSpec,
    clips_per_video: u32,
    group: Group,
    short: PaddingPolicy,
}

impl Random {
    /// Checks the arguments.
    pub fn new(
        sequence_length: u32,
        spacing: impl Into<Spacing>,
        clips_per_video: u32,
        short: PaddingPolicy,
    ) -> Result<Self> {
        let grid = ClipSpec::new(sequence_length, spacing)?;
        at_least_one("clips_per_video", clips_per_video, "use 1 for one clip of each video per epoch")?;
        Ok(Self { grid, clips_per_video, group: Group::Independent, short })
    }

    /// The same with another set of starts.
    #[must_use]
    pub fn with_group(self, group: Group) -> Self {
        Self { group, ..self }
    }

    /// The same with frame jitter; see [`ClipSpec::jittered`].
    #[must_use]
    pub fn with_frame_jitter(self, jitter: bool) -> Self {
        Self { grid: self.grid.jittered(jitter), ..self }
    }
}

/// The start of part `part` of `parts` equal parts of `starts` starts: `floor(part * starts / parts)`.
pub(super) fn part(starts: u64, part: u64, parts: u64) -> u64 {
    (u128::from(part) * u128::from(starts) / u128::from(parts.max(1))) as u64 // at most `starts`
}

/// A random start of part `number`, or its first one if the part is empty. Takes one random number.
pub(super) fn within_part(starts: u64, number: u64, parts: u64, rng: &mut dyn RandomSource) -> u64 {
    let (first, end) = (part(starts, number, parts), part(starts, number + 1, parts));
    first + rng.below((end - first).max(1))
}

impl ClipSampler for Random {
    fn clips_in(&self, video: &dyn VideoTiming) -> u64 {
        self.short.clips(video, u64::from(self.clips_per_video), || self.grid.starts(video) > 0)
    }

    fn clips_each(&self) -> Option<u64> {
        self.short.clips_each(u64::from(self.clips_per_video))
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(self.grid.sequence_length())
    }

    /// Takes one random number below the number of possible starts if the video is long enough; in shorter
    /// videos clips start at frame 0. Jitter then takes random numbers as in [`ClipSpec::spots`].
    fn clip(&self, video: &dyn VideoTiming, number: u64, rng: &mut dyn RandomSource) -> Result<ClipIndices> {
        known_clip(number, self.clips_in(video), video)?;
        let start = match (self.grid.starts(video), self.group) {
            (0, _) if self.short == PaddingPolicy::Error => return Err(self.grid.too_short(video)),
            (0, _) => 0,
            (starts, Group::Independent) => rng.below(starts),
            (starts, Group::Partitioned) => within_part(starts, number, u64::from(self.clips_per_video), rng),
        };
        self.grid.clip(video, start as u32, self.short, rng) // below the number of frames
    }

    fn pads_with_zeros(&self) -> bool {
        self.short == PaddingPolicy::Blank
    }

    fn needs(&self) -> String {
        self.short.needs(self.grid.needs())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{video, Script};
    use super::*;

    fn frames(frames: u32, rule: (u32, u32, PaddingPolicy), drawn: &[u64]) -> (Vec<u32>, Vec<bool>) {
        let rule = Random::new(rule.0, rule.1, 1, rule.2).unwrap();
        let sample = rule.clip(&video(frames), 0, &mut Script(drawn)).unwrap();
        (sample.indices, sample.mask)
    }

    #[test]
    fn the_first_and_the_last_possible_start_can_both_be_drawn() {
        // The range is 0..=3: Script panics if a number is outside of the requested range.
        assert_eq!(frames(10, (3, 3, PaddingPolicy::Repeat), &[0]).0, [0, 3, 6]);
        assert_eq!(frames(10, (3, 3, PaddingPolicy::Repeat), &[3]).0, [3, 6, 9]);
        assert_eq!(frames(7, (3, 3, PaddingPolicy::Repeat), &[0]).0, [0, 3, 6]);
    }

    #[test]
    fn a_clip_that_fits_is_all_real_frames() {
        assert_eq!(frames(10, (3, 3, PaddingPolicy::Loop), &[2]).1, [true; 3]);
    }

    #[test]
    fn a_short_video_repeats_the_last_frame_of_the_clip_or_loops() {
        let real = vec![true, true, true, false, false];
        assert_eq!(frames(6, (5, 2, PaddingPolicy::Repeat), &[]), (vec![0, 2, 4, 4, 4], real.clone()));
        assert_eq!(frames(6, (5, 2, PaddingPolicy::Loop), &[]), (vec![0, 2, 4, 0, 2], real));
        assert_eq!(frames(1, (3, 4, PaddingPolicy::Loop), &[]).0, [0; 3]);
    }

    #[test]
    fn a_short_video_is_an_error_only_when_asked_for() {
        let rule = Random::new(4, 2, 1, PaddingPolicy::Error).unwrap();
        let text = rule.clip(&video(6), 0, &mut Script(&[])).unwrap_err().to_string();
        assert!(text.contains("needs 7 frames") && text.contains("has 6"), "{text}");
        assert!(rule.clip(&video(7), 0, &mut Script(&[0])).is_ok());
    }

    #[test]
    fn every_video_yields_its_clips_but_an_empty_one_yields_none() {
        let rule = Random::new(16, 4, 3, PaddingPolicy::Error).unwrap();
        assert_eq!([0, 1, 1000].map(|frames| rule.clips_in(&video(frames))), [0, 3, 3]);
        assert!(Random::new(16, 4, 0, PaddingPolicy::Repeat)
            .unwrap_err()
            .to_string()
            .contains("clips_per_video"));
    }

    #[test]
    fn parts_divide_the_starts_and_each_clip_keeps_to_its_own() {
        // 10 frames, clips of 3: starts 0..=7 in three parts, 0..2, 2..5 and 5..8.
        let rule = Random::new(3, 1, 3, PaddingPolicy::Repeat).unwrap().with_group(Group::Partitioned);
        let start = |clip, drawn| rule.clip(&video(10), clip, &mut Script(&[drawn])).unwrap().indices[0];
        assert_eq!(
            [start(0, 0), start(0, 1), start(1, 0), start(1, 2), start(2, 0), start(2, 2)],
            [0, 1, 2, 4, 5, 7]
        );
        // With two starts for three clips, the clips start at 0, 0 and 1.
        let start = |clip| rule.clip(&video(4), clip, &mut Script(&[0])).unwrap().indices[0];
        assert_eq!([0, 1, 2].map(start), [0, 0, 1]);
    }

    #[test]
    fn the_largest_numbers_divide_without_overflow() {
        let most = u64::from(u32::MAX);
        assert_eq!(part(most, most - 1, most), most - 1);
        assert_eq!((part(most, 1, 2), part(7, 3, 3), part(0, 5, 9)), (most / 2, 7, 0));
    }

    #[test]
    fn a_clip_by_the_second_starts_with_a_frame_from_which_all_of_it_fits() {
        // Frames 0.1 s apart in a video with frames of 0.04 s: four need 8 frames, so 10 frames have three
        // starts.
        let rule = Random::new(4, Spacing::Fps(10.0), 1, PaddingPolicy::Repeat).unwrap();
        let at = |frames, drawn| rule.clip(&video(frames), 0, &mut Script(drawn)).unwrap();
        assert_eq!(at(10, &[2]).indices, [2, 4, 7, 9]);
        let short = at(6, &[]);
        assert_eq!((short.indices, short.mask), (vec![0, 2, 5, 5], vec![true, true, true, false]));
    }

    #[test]
    fn short_videos_yield_no_clip_where_they_are_dropped() {
        let rule = Random::new(4, 2, 3, PaddingPolicy::Drop).unwrap();
        assert_eq!(([6, 7].map(|n| rule.clips_in(&video(n))), rule.clips_each()), ([0, 3], None));
        assert!(rule.clip(&video(6), 0, &mut Script(&[])).is_err());
        assert_eq!(rule.needs(), "7 frames");
    }
}
