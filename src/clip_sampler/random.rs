//! Clips at random starts. Every start at which the whole clip fits is equally likely, in the whole
//! video or in the clip's own part of it.

use serde::Deserialize;

use super::clip_spec::{ClipSpec, Spacing};
use super::common::{check_clip_index, check_nonzero};
use super::{ClipIndices, ClipSampler, PaddingPolicy, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// The set of starts that a clip can have.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum StartSampling {
    /// All starts, independent of the other clips of the video.
    #[default]
    Independent,
    /// The starts of the clip's own part: clip *c* of *C* starts at or after `floor(c * F / C)` and
    /// before `floor((c + 1) * F / C)` of the *F* starts, or at the former if that range is empty.
    #[serde(rename = "partitioned")]
    Stratified,
}

/// Clips at random starts, `clips_per_video` from every video.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Random {
    spec: ClipSpec,
    clips_per_video: u32,
    start_sampling: StartSampling,
    padding: PaddingPolicy,
    /// Lowest and highest factor of the distance between frames.
    speed: Option<(f64, f64)>,
    /// Probability that a clip is reversed.
    reverse: f64,
}

impl Random {
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
            "use 1 for one clip of each video per epoch",
        )?;
        let start_sampling = StartSampling::Independent;
        Ok(Self {
            spec,
            clips_per_video,
            start_sampling,
            padding,
            speed: None,
            reverse: 0.0,
        })
    }

    /// The same with another set of starts.
    #[must_use]
    pub fn with_start_sampling(self, start_sampling: StartSampling) -> Self {
        Self {
            start_sampling,
            ..self
        }
    }

    /// The same with frame jitter; see [`ClipSpec::with_jitter`].
    #[must_use]
    pub fn with_frame_jitter(self, jitter: bool) -> Self {
        Self {
            spec: self.spec.with_jitter(jitter),
            ..self
        }
    }

    /// The same with a random factor of the distance between frames for each clip.
    ///
    /// # Errors
    /// `Argument` unless `0 < low <= high`.
    pub fn with_speed(self, (low, high): (f64, f64)) -> Result<Self> {
        if low > 0.0 && low <= high && high.is_finite() {
            return Ok(Self {
                speed: Some((low, high)),
                ..self
            });
        }
        Err(Error::Argument(format!(
            "speed must be (low, high) with 0 < low <= high, got ({low}, {high})"
        )))
    }

    /// The same with clips whose frames are in reverse order, with this probability.
    ///
    /// # Errors
    /// `Argument` unless it is from 0 to 1.
    pub fn with_reverse(self, reverse: f64) -> Result<Self> {
        if (0.0..=1.0).contains(&reverse) {
            return Ok(Self { reverse, ..self });
        }
        Err(Error::Argument(format!(
            "reverse must be a probability from 0 to 1, got {reverse}"
        )))
    }

    /// The clips that need the longest video.
    fn longest_spec(&self) -> ClipSpec {
        self.speed
            .map_or(self.spec, |(_, high)| self.spec.at_speed(high))
    }
}

/// The start of part `part` of `parts` equal parts of `starts` starts: `floor(part * starts /
/// parts)`.
pub(super) fn part_start(starts: u64, part: u64, parts: u64) -> u64 {
    (u128::from(part) * u128::from(starts) / u128::from(parts.max(1))) as u64 // at most `starts`
}

/// A random start of part `number`, or its first one if the part is empty. Takes one random number.
pub(super) fn random_in_part(
    starts: u64,
    number: u64,
    parts: u64,
    rng: &mut dyn RandomSource,
) -> u64 {
    let (first, end) = (
        part_start(starts, number, parts),
        part_start(starts, number + 1, parts),
    );
    first + rng.next_below((end - first).max(1))
}

impl ClipSampler for Random {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        self.padding
            .num_clips(video, u64::from(self.clips_per_video), || {
                self.longest_spec().num_starts(video) > 0
            })
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        self.padding
            .fixed_num_clips(u64::from(self.clips_per_video))
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(self.spec.sequence_length())
    }

    /// With a speed, takes one float for it. Then takes one random number below the number of
    /// possible starts if the video is long enough; in shorter videos clips start at frame 0.
    /// Jitter then takes random numbers as in [`ClipSpec::positions`], and a probability to reverse
    /// the clip takes one float.
    fn clip(
        &self,
        video: &dyn VideoTiming,
        number: u64,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
        let spec = match self.speed {
            Some((low, high)) => self.spec.at_speed(low + (high - low) * rng.next_f64()),
            None => self.spec,
        };
        let start = match (spec.num_starts(video), self.start_sampling) {
            (0, _) if self.padding == PaddingPolicy::Error => {
                return Err(spec.too_short_error(video));
            }
            (0, _) => 0,
            (starts, StartSampling::Independent) => rng.next_below(starts),
            (starts, StartSampling::Stratified) => {
                random_in_part(starts, number, u64::from(self.clips_per_video), rng)
            }
        };
        let mut clip = spec.clip(video, start as u32, self.padding, rng)?; // below the number of frames
        if self.reverse > 0.0 && rng.next_f64() < self.reverse {
            clip.indices.reverse();
            clip.mask.reverse();
        }
        Ok(clip)
    }

    fn pads_with_zeros(&self) -> bool {
        self.padding == PaddingPolicy::Blank
    }

    fn min_length_hint(&self) -> String {
        self.padding
            .min_length_hint(self.longest_spec().min_length_hint())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ScriptedRng, video};
    use super::*;

    fn frames(
        frames: u32,
        sampler: (u32, u32, PaddingPolicy),
        drawn: &[u64],
    ) -> (Vec<u32>, Vec<bool>) {
        let sampler = Random::new(sampler.0, sampler.1, 1, sampler.2).unwrap();
        let sample = sampler
            .clip(&video(frames), 0, &mut ScriptedRng(drawn))
            .unwrap();
        (sample.indices, sample.mask)
    }

    #[test]
    fn first_and_last_start_can_be_drawn() {
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
    fn short_video_repeats_its_last_frame_or_loops() {
        let real = vec![true, true, true, false, false];
        assert_eq!(
            frames(6, (5, 2, PaddingPolicy::Repeat), &[]),
            (vec![0, 2, 4, 4, 4], real.clone())
        );
        assert_eq!(
            frames(6, (5, 2, PaddingPolicy::Loop), &[]),
            (vec![0, 2, 4, 0, 2], real)
        );
        assert_eq!(frames(1, (3, 4, PaddingPolicy::Loop), &[]).0, [0; 3]);
    }

    #[test]
    fn short_video_is_an_error_only_on_request() {
        let sampler = Random::new(4, 2, 1, PaddingPolicy::Error).unwrap();
        let text = sampler
            .clip(&video(6), 0, &mut ScriptedRng(&[]))
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("needs 7 frames") && text.contains("has 6"),
            "{text}"
        );
        assert!(sampler.clip(&video(7), 0, &mut ScriptedRng(&[0])).is_ok());
    }

    #[test]
    fn empty_video_yields_no_clips() {
        let sampler = Random::new(16, 4, 3, PaddingPolicy::Error).unwrap();
        assert_eq!(
            [0, 1, 1000].map(|frames| sampler.num_clips(&video(frames))),
            [0, 3, 3]
        );
        assert!(
            Random::new(16, 4, 0, PaddingPolicy::Repeat)
                .unwrap_err()
                .to_string()
                .contains("clips_per_video")
        );
    }

    #[test]
    fn each_clip_starts_in_its_own_segment() {
        // 10 frames, clips of 3: starts 0..=7 in three parts, 0..2, 2..5 and 5..8.
        let sampler = Random::new(3, 1, 3, PaddingPolicy::Repeat)
            .unwrap()
            .with_start_sampling(StartSampling::Stratified);
        let start = |clip, drawn| {
            sampler
                .clip(&video(10), clip, &mut ScriptedRng(&[drawn]))
                .unwrap()
                .indices[0]
        };
        assert_eq!(
            [
                start(0, 0),
                start(0, 1),
                start(1, 0),
                start(1, 2),
                start(2, 0),
                start(2, 2)
            ],
            [0, 1, 2, 4, 5, 7]
        );
        // With two starts for three clips, the clips start at 0, 0 and 1.
        let start = |clip| {
            sampler
                .clip(&video(4), clip, &mut ScriptedRng(&[0]))
                .unwrap()
                .indices[0]
        };
        assert_eq!([0, 1, 2].map(start), [0, 0, 1]);
    }

    #[test]
    fn the_largest_numbers_divide_without_overflow() {
        let most = u64::from(u32::MAX);
        assert_eq!(part_start(most, most - 1, most), most - 1);
        assert_eq!(
            (
                part_start(most, 1, 2),
                part_start(7, 3, 3),
                part_start(0, 5, 9)
            ),
            (most / 2, 7, 0)
        );
    }

    #[test]
    fn timed_clip_starts_where_it_fits() {
        // Frames 0.1 s apart in a video with frames of 0.04 s: four need 8 frames, so 10 frames
        // have three starts.
        let sampler = Random::new(4, Spacing::Fps(10.0), 1, PaddingPolicy::Repeat).unwrap();
        let at = |frames, drawn| {
            sampler
                .clip(&video(frames), 0, &mut ScriptedRng(drawn))
                .unwrap()
        };
        assert_eq!(at(10, &[2]).indices, [2, 4, 7, 9]);
        let clipped = at(6, &[]);
        assert_eq!(
            (clipped.indices, clipped.mask),
            (vec![0, 2, 5, 5], vec![true, true, true, false])
        );
    }

    #[test]
    fn dropped_short_videos_yield_no_clip() {
        let sampler = Random::new(4, 2, 3, PaddingPolicy::Drop).unwrap();
        assert_eq!(
            (
                [6, 7].map(|n| sampler.num_clips(&video(n))),
                sampler.fixed_num_clips()
            ),
            ([0, 3], None)
        );
        assert!(sampler.clip(&video(6), 0, &mut ScriptedRng(&[])).is_err());
        assert_eq!(sampler.min_length_hint(), "7 frames");
    }
}
