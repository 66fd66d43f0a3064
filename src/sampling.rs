//! In: a sampling rule and what is known of one video. Out: how many clips it yields, and the frames of each.
//! A new rule is a file with a type that implements [`Rule`].
//! Never: opens a video, keeps state, or draws a random number that its caller did not key.

pub mod footage;
pub mod presets;
mod random;
mod windows;

use std::fmt::Debug;
use std::sync::Arc;

use crate::error::Result;

pub use footage::Footage;
pub use random::{Random, Short};
pub use windows::{Pad, Windows};

/// The rule that makes clips out of videos.
pub type Sampling = Arc<dyn Rule>;

/// Makes clips out of videos. Pure: the same footage, clip and draws give the same frames.
pub trait Rule: Debug + Send + Sync {
    /// Number of clips that a video yields. One that is too short yields 0: no error.
    fn clips_in(&self, video: &dyn Footage) -> u64;

    /// The number of clips, where that is the same for all videos that have a frame: then none needs to be opened to
    /// count them.
    fn clips_each(&self) -> Option<u64> {
        None
    }

    /// Frames per clip; `None` where that depends on the video.
    fn sequence_length(&self) -> Option<u32>;

    /// Whether clips of one video are drawn together: then `rng` is the same stream for all of them, keyed by the
    /// video, and each call draws for all clips and keeps one. Otherwise each clip has a stream of its own.
    fn draws_together(&self) -> bool {
        false
    }

    /// The frames of clip `clip`, below [`clips_in`](Self::clips_in).
    fn clip(&self, video: &dyn Footage, clip: u64, rng: &mut dyn Draw) -> Result<Sample>;

    /// Whether frames past the end are blank (where [`Sample::mask`] is false) rather than others repeated.
    fn leaves_blank(&self) -> bool {
        false
    }

    /// What a video must have to yield a clip, for messages: "61 frames", "2.5 seconds".
    fn needs(&self) -> String;
}

/// The frames of one clip.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Frame numbers, each below the number of frames of the footage, in the order of the clip.
    pub indices: Vec<u32>,
    /// As long as `indices`: true for a real frame, false for one that stands in for a frame past the end.
    pub mask: Vec<bool>,
}

impl Sample {
    /// Real frames only.
    pub fn real(indices: Vec<u32>) -> Self {
        Self { mask: vec![true; indices.len()], indices }
    }
}

/// Where random numbers come from. `order` implements it by streams keyed by (seed, epoch, clip); it is stated here
/// because imports go from `order` to `sampling`, never back.
pub trait Draw {
    /// Uniform in `0..n`, without bias; 0 if `n` is 0.
    fn below(&mut self, n: u64) -> u64;
    /// Uniform in `[0, 1)`.
    fn unit_f64(&mut self) -> f64;
}

/// What every rule checks and counts the same way.
mod common {
    use super::{Footage, Sample};
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
    pub fn known_clip(clip: u64, clips: u64, video: &dyn Footage) -> Result<()> {
        if clip < clips {
            return Ok(());
        }
        Err(Error::Argument(format!(
            "clip {clip} asked for, but a video of {} frames yields {clips} clips; ask for clips below that",
            video.num_frames()
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
    use super::footage::Steady;
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

    /// A video of so many frames, 25 a second.
    pub(super) fn video(num_frames: u32) -> Steady {
        Steady { num_frames, fps: 25.0 }
    }

    #[test]
    fn every_clip_of_every_rule_has_its_length_and_stays_inside_the_video() {
        let mut rules: Vec<Sampling> = Vec::new();
        for (length, stride) in [(1, 1), (4, 1), (4, 3), (7, 2)] {
            for pad in [Pad::None, Pad::Constant, Pad::Edge, Pad::Reflect101, Pad::Reflect1001] {
                for step in [None, Some(1), Some(5)] {
                    rules.push(Arc::new(Windows::new(length, stride, step, pad).unwrap()));
                }
            }
            for short in [Short::Repeat, Short::Loop] {
                rules.push(Arc::new(Random::new(length, stride, 3, short).unwrap()));
            }
        }
        for rule in rules {
            for frames in 0..40 {
                let video = &video(frames);
                for clip in 0..rule.clips_in(video) {
                    let sample = rule.clip(video, clip, &mut Script(&[0])).unwrap();
                    assert_eq!(Some(sample.indices.len() as u32), rule.sequence_length());
                    assert_eq!(sample.mask.len(), sample.indices.len());
                    assert!(sample.indices.iter().all(|&i| i < frames), "{rule:?} {frames} {sample:?}");
                    assert!(sample.mask[0], "a clip begins with a real frame: {rule:?} {frames}");
                }
                assert!(rule.clips_each().is_none_or(|n| frames == 0 || n == rule.clips_in(video)));
                let beyond = rule.clips_in(video);
                assert!(rule.clip(video, beyond, &mut Script(&[0])).is_err());
            }
        }
    }

    #[test]
    fn the_span_of_the_largest_clip_does_not_overflow() {
        let rule = Windows::new(u32::MAX, u32::MAX, None, Pad::None).unwrap();
        assert_eq!(rule.span(), u64::from(u32::MAX - 1) * u64::from(u32::MAX) + 1);
        assert_eq!(rule.clips_in(&video(u32::MAX)), 0);
    }
}
