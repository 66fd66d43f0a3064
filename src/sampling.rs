//! In: a sampling rule and the length of one video. Out: how many clips it yields, and the frames of each.
//! A rule is a plain enum: a new rule is a file with `clips_in` and `frames`, one variant and two match arms.
//! Never: opens a video, keeps state, or draws a random number that its caller did not key.

mod random;
mod windows;

use crate::error::Result;

pub use random::{Random, Short};
pub use windows::{Pad, Windows};

/// The rule that makes clips out of videos.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// Every window of a video.
    Windows(Windows),
    /// Windows at random places.
    Random(Random),
}

/// The frames of one clip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Display indices, each below the number of frames of the video, in the order of the clip.
    pub indices: Vec<u32>,
    /// As long as `indices`: true for a real frame, false for one that stands in for a frame past the end.
    pub mask: Vec<bool>,
}

/// Where random numbers come from. `order` implements it by streams keyed by (seed, epoch, clip); it is stated here
/// because imports go from `order` to `sampling`, never back.
pub trait Draw {
    /// Uniform in `0..n`, without bias; 0 if `n` is 0.
    fn below(&mut self, n: u64) -> u64;
    /// Uniform in `[0, 1)`.
    fn unit_f64(&mut self) -> f64;
}

impl Sampling {
    /// Number of clips that a video of `num_frames` frames yields. A video that is too short yields 0: no error.
    pub fn clips_in(&self, num_frames: u32) -> u64 {
        match self {
            Sampling::Windows(rule) => rule.clips_in(num_frames),
            Sampling::Random(rule) => rule.clips_in(num_frames),
        }
    }

    /// The frames of clip `clip_in_video` (below [`clips_in`](Self::clips_in)) of a video of `num_frames` frames.
    /// `rng` must be keyed by the clip; rules without randomness leave it alone.
    pub fn frames(&self, num_frames: u32, clip_in_video: u64, rng: &mut impl Draw) -> Result<Sample> {
        match self {
            Sampling::Windows(rule) => rule.frames(num_frames, clip_in_video),
            Sampling::Random(rule) => rule.frames(num_frames, clip_in_video, rng),
        }
    }

    /// Whether frames past the end are blank rather than others repeated.
    pub fn leaves_blank(&self) -> bool {
        matches!(self, Sampling::Windows(rule) if rule.pad() == Pad::Constant)
    }

    /// Frames per clip.
    pub fn sequence_length(&self) -> u32 {
        match self {
            Sampling::Windows(rule) => rule.sequence_length(),
            Sampling::Random(rule) => rule.sequence_length(),
        }
    }

    /// Frames from the first to the last of a clip, both counted.
    pub fn span(&self) -> u64 {
        match self {
            Sampling::Windows(rule) => rule.span(),
            Sampling::Random(rule) => rule.span(),
        }
    }
}

/// What every rule checks and counts the same way.
mod common {
    use super::Sample;
    use crate::error::{Error, Result};

    /// Frames from the first to the last of `sequence_length` frames that are `stride` apart, both counted.
    pub fn span(sequence_length: u32, stride: u32) -> u64 {
        u64::from(sequence_length.saturating_sub(1)) * u64::from(stride) + 1
    }

    /// Refuses a count of zero.
    pub fn at_least_one(name: &str, value: u32, hint: &str) -> Result<u32> {
        if value == 0 {
            return Err(Error::Argument(format!("{name} must be at least 1, got 0; {hint}")));
        }
        Ok(value)
    }

    /// Refuses a clip that the video does not have.
    pub fn known_clip(clip: u64, clips: u64, num_frames: u32) -> Result<()> {
        if clip < clips {
            return Ok(());
        }
        Err(Error::Argument(format!(
            "clip {clip} asked for, but a video of {num_frames} frames yields {clips} clips; \
             ask for clips below clips_in({num_frames})"
        )))
    }

    /// The clip that begins at frame `start`. `stand_in` names the frame shown for a position past the end.
    pub fn clip(
        start: u64,
        (sequence_length, stride): (u32, u32),
        num_frames: u32,
        stand_in: impl Fn(u64) -> u32,
    ) -> Sample {
        let positions = (0..u64::from(sequence_length)).map(|i| start.saturating_add(i * u64::from(stride)));
        let (indices, mask) = positions
            .map(|at| match u32::try_from(at).ok().filter(|&at| at < num_frames) {
                Some(frame) => (frame, true),
                None => (stand_in(at), false),
            })
            .unzip();
        Sample { indices, mask }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives the numbers of a script, so that a test says what was drawn.
    pub(super) struct Script<'a>(pub &'a [u64]);

    impl Draw for Script<'_> {
        fn below(&mut self, n: u64) -> u64 {
            let (&first, rest) = self.0.split_first().expect("drew more often than the test expects");
            self.0 = rest;
            assert!(first < n, "the test draws {first}, the rule asks for 0..{n}");
            first
        }

        fn unit_f64(&mut self) -> f64 {
            unreachable!("no rule draws a float")
        }
    }

    #[test]
    fn every_clip_of_every_rule_has_its_length_and_stays_inside_the_video() {
        let mut rules = Vec::new();
        for (length, stride) in [(1, 1), (4, 1), (4, 3), (7, 2)] {
            for pad in [Pad::None, Pad::Constant, Pad::Edge, Pad::Reflect101, Pad::Reflect1001] {
                for step in [None, Some(1), Some(5)] {
                    rules.push(Sampling::Windows(Windows::new(length, stride, step, pad).unwrap()));
                }
            }
            for short in [Short::Repeat, Short::Loop] {
                rules.push(Sampling::Random(Random::new(length, stride, 3, short).unwrap()));
            }
        }
        for rule in rules {
            for frames in 0..40 {
                for clip in 0..rule.clips_in(frames) {
                    let sample = rule.frames(frames, clip, &mut Script(&[0])).unwrap();
                    assert_eq!(sample.indices.len(), rule.sequence_length() as usize);
                    assert_eq!(sample.mask.len(), sample.indices.len());
                    assert!(sample.indices.iter().all(|&i| i < frames), "{rule:?} {frames} {sample:?}");
                    assert!(sample.mask[0], "a clip begins with a real frame: {rule:?} {frames}");
                }
                let beyond = rule.clips_in(frames);
                assert!(rule.frames(frames, beyond, &mut Script(&[0])).is_err());
            }
        }
    }

    #[test]
    fn the_span_of_the_largest_clip_does_not_overflow() {
        let rule = Windows::new(u32::MAX, u32::MAX, None, Pad::None).unwrap();
        assert_eq!(rule.span(), u64::from(u32::MAX - 1) * u64::from(u32::MAX) + 1);
        assert_eq!(rule.clips_in(u32::MAX), 0);
    }
}
