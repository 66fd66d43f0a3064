//! In: sequence length, stride, clips per video and what to do with short videos. Out: windows at random starts.
//! Every start at which the whole clip fits is equally likely, and each clip draws its own.
//! Never: keeps a random state of its own; the caller's stream, keyed by the clip, is all there is.

use super::common::{at_least_one, clip, known_clip, span};
use super::{Draw, Footage, Rule, Sample};
use crate::error::{Error, Result};

/// What a video that is shorter than one clip shows past its end. Its clips begin at frame 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Short {
    /// The last real frame of the clip, again and again (as torchcodec and mmaction2 do). With a stride this need
    /// not be the last frame of the video.
    #[default]
    Repeat,
    /// The video from its beginning: position modulo number of frames (mmaction2's `loop`).
    Loop,
    /// An error.
    Error,
}

/// Clips at random places, `clips_per_video` of every video.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Random {
    sequence_length: u32,
    stride: u32,
    clips_per_video: u32,
    short: Short,
}

impl Random {
    /// Checks the numbers.
    pub fn new(sequence_length: u32, stride: u32, clips_per_video: u32, short: Short) -> Result<Self> {
        at_least_one("sequence_length", sequence_length, "it is the number of frames of a clip")?;
        at_least_one("stride", stride, "use 1 for consecutive frames")?;
        at_least_one("clips_per_video", clips_per_video, "use 1 for one clip of each video per epoch")?;
        Ok(Self { sequence_length, stride, clips_per_video, short })
    }

    /// Distance between frames of a clip.
    pub fn stride(&self) -> u32 {
        self.stride
    }

    /// Clips that each video yields.
    pub fn clips_per_video(&self) -> u32 {
        self.clips_per_video
    }

    /// What short videos show past their end.
    pub fn short(&self) -> Short {
        self.short
    }

    /// Frames from the first to the last of a clip, both counted.
    pub fn span(&self) -> u64 {
        span(self.sequence_length, self.stride)
    }

    /// The frame shown for position `at`, past the end, in a clip that begins at frame 0.
    fn stand_in(&self, at: u64, num_frames: u32) -> u32 {
        match self.short {
            Short::Loop => (at % u64::from(num_frames.max(1))) as u32, // below num_frames
            Short::Repeat | Short::Error => num_frames.saturating_sub(1) / self.stride * self.stride,
        }
    }

    fn too_short(&self, num_frames: u32) -> Error {
        Error::Argument(format!(
            "a clip needs {} frames (sequence_length={}, stride={}) but the video has {num_frames}; \
             allow short videos with short=\"repeat\" or \"loop\", or leave this one out",
            self.span(),
            self.sequence_length,
            self.stride
        ))
    }
}

impl Rule for Random {
    fn clips_in(&self, video: &dyn Footage) -> u64 {
        match video.num_frames() {
            0 => 0,
            _ => u64::from(self.clips_per_video),
        }
    }

    fn clips_each(&self) -> Option<u64> {
        Some(u64::from(self.clips_per_video))
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(self.sequence_length)
    }

    /// Draws once if the video is long enough, otherwise not at all.
    fn clip(&self, video: &dyn Footage, number: u64, rng: &mut dyn Draw) -> Result<Sample> {
        known_clip(number, self.clips_in(video), video)?;
        let frames = video.num_frames();
        let start = match u64::from(frames).checked_sub(self.span()) {
            Some(last_start) => rng.below(last_start + 1),
            None if self.short == Short::Error => return Err(self.too_short(frames)),
            None => 0,
        };
        Ok(clip(start, (self.sequence_length, self.stride), frames, |at| self.stand_in(at, frames)))
    }

    fn needs(&self) -> String {
        match self.short {
            Short::Error => format!("{} frames", self.span()),
            _ => "1 frame".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{video, Script};
    use super::*;

    fn frames(frames: u32, rule: (u32, u32, Short), drawn: &[u64]) -> (Vec<u32>, Vec<bool>) {
        let rule = Random::new(rule.0, rule.1, 1, rule.2).unwrap();
        let sample = rule.clip(&video(frames), 0, &mut Script(drawn)).unwrap();
        (sample.indices, sample.mask)
    }

    #[test]
    fn the_first_and_the_last_possible_start_can_both_be_drawn() {
        // 0..=3: Script refuses a draw outside of what the rule asks for.
        assert_eq!(frames(10, (3, 3, Short::Repeat), &[0]).0, [0, 3, 6]);
        assert_eq!(frames(10, (3, 3, Short::Repeat), &[3]).0, [3, 6, 9]);
        assert_eq!(frames(7, (3, 3, Short::Repeat), &[0]).0, [0, 3, 6]);
    }

    #[test]
    fn a_clip_that_fits_is_all_real_frames() {
        assert_eq!(frames(10, (3, 3, Short::Loop), &[2]).1, [true; 3]);
    }

    #[test]
    fn a_short_video_repeats_the_last_frame_of_the_clip_or_loops() {
        let real = vec![true, true, true, false, false];
        assert_eq!(frames(6, (5, 2, Short::Repeat), &[]), (vec![0, 2, 4, 4, 4], real.clone()));
        assert_eq!(frames(6, (5, 2, Short::Loop), &[]), (vec![0, 2, 4, 0, 2], real));
        assert_eq!(frames(1, (3, 4, Short::Loop), &[]).0, [0; 3]);
    }

    #[test]
    fn a_short_video_is_an_error_only_when_asked_for() {
        let rule = Random::new(4, 2, 1, Short::Error).unwrap();
        let text = rule.clip(&video(6), 0, &mut Script(&[])).unwrap_err().to_string();
        assert!(text.contains("needs 7 frames") && text.contains("has 6"), "{text}");
        assert!(rule.clip(&video(7), 0, &mut Script(&[0])).is_ok());
    }

    #[test]
    fn every_video_yields_its_clips_but_an_empty_one_yields_none() {
        let rule = Random::new(16, 4, 3, Short::Error).unwrap();
        assert_eq!([0, 1, 1000].map(|frames| rule.clips_in(&video(frames))), [0, 3, 3]);
        assert!(Random::new(16, 4, 0, Short::Repeat).unwrap_err().to_string().contains("clips_per_video"));
    }
}
