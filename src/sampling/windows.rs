//! In: sequence length, stride, step and pad mode. Out: the windows of a video, in order, as DALI enumerates them.
//! Windows begin at frames 0, step, 2·step, …; the ones that do not fit are left out or padded, as asked.
//! Never: draws a random number.

use super::common::{at_least_one, clip, known_clip, span};
use super::{Draw, Footage, Rule, Sample};
use crate::error::Result;

/// What becomes of windows that begin inside the video and end past it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pad {
    /// They are left out: only full windows.
    #[default]
    None,
    /// Missing frames are blank: the mask is false, the index is the last frame, the engine zeroes the pixels.
    Constant,
    /// Missing frames repeat the last frame of the video.
    Edge,
    /// The video is mirrored, its last frame not repeated: 0 1 2 3 | 2 1 0 1 …
    Reflect101,
    /// The video is mirrored, its last frame repeated ("symmetric"): 0 1 2 3 | 3 2 1 0 0 1 …
    Reflect1001,
}

/// All windows of a video.
///
/// With [`Pad::None`] a window needs `(sequence_length - 1) * stride + 1` frames. With any other mode every start
/// `0, step, 2·step, …` below the number of frames yields a window, however few real frames it has: what DALI does
/// since 2.5 (2.4 emitted one tail window only).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    sequence_length: u32,
    stride: u32,
    step: u64,
    pad: Pad,
}

impl Windows {
    /// `step` is the distance between the starts of windows; `None` is `sequence_length * stride`, as in DALI.
    pub fn new(sequence_length: u32, stride: u32, step: Option<u32>, pad: Pad) -> Result<Self> {
        at_least_one("sequence_length", sequence_length, "it is the number of frames of a clip")?;
        at_least_one("stride", stride, "use 1 for consecutive frames")?;
        let step = match step {
            Some(step) => {
                let hint = "leave it out for windows that do not overlap, use 1 for a window at every frame";
                u64::from(at_least_one("step", step, hint)?)
            }
            None => u64::from(sequence_length) * u64::from(stride),
        };
        Ok(Self { sequence_length, stride, step, pad })
    }

    /// Distance between frames of a clip.
    pub fn stride(&self) -> u32 {
        self.stride
    }

    /// Distance between the starts of windows.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// What becomes of windows that end past the video.
    pub fn pad(&self) -> Pad {
        self.pad
    }

    /// Frames from the first to the last of a clip, both counted.
    pub fn span(&self) -> u64 {
        span(self.sequence_length, self.stride)
    }

    /// The frame shown for position `at`, past the end.
    fn stand_in(&self, at: u64, num_frames: u32) -> u32 {
        let frames = u64::from(num_frames);
        let last = frames.saturating_sub(1);
        let index = match self.pad {
            Pad::None | Pad::Constant | Pad::Edge => last,
            // A mirror between two mirrors: there and back again makes one period.
            Pad::Reflect101 => {
                let there = at % (2 * last).max(1);
                there.min(2 * last - there)
            }
            Pad::Reflect1001 => {
                let there = at % (2 * frames).max(1);
                there.min((2 * frames).saturating_sub(there + 1))
            }
        };
        index as u32 // at most `last`
    }
}

impl Rule for Windows {
    fn clips_in(&self, video: &dyn Footage) -> u64 {
        let frames = u64::from(video.num_frames());
        match self.pad {
            Pad::None => frames.checked_sub(self.span()).map_or(0, |last_start| last_start / self.step + 1),
            _ => frames.div_ceil(self.step),
        }
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(self.sequence_length)
    }

    fn clip(&self, video: &dyn Footage, number: u64, _: &mut dyn Draw) -> Result<Sample> {
        known_clip(number, self.clips_in(video), video)?;
        let frames = video.num_frames();
        // Below `frames`, or known_clip would have refused.
        let start = number * self.step;
        Ok(clip(start, (self.sequence_length, self.stride), frames, |at| self.stand_in(at, frames)))
    }

    fn leaves_blank(&self) -> bool {
        self.pad == Pad::Constant
    }

    fn needs(&self) -> String {
        format!("{} frames", self.span())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{video, Script};
    use super::*;

    fn frames(rule: &Windows, frames: u32, number: u64) -> Sample {
        rule.clip(&video(frames), number, &mut Script(&[])).unwrap()
    }

    fn all(frames: u32, rule: (u32, u32, Option<u32>, Pad)) -> Vec<Vec<u32>> {
        let rule = Windows::new(rule.0, rule.1, rule.2, rule.3).unwrap();
        (0..rule.clips_in(&video(frames))).map(|c| self::frames(&rule, frames, c).indices).collect()
    }

    #[test]
    fn windows_follow_each_other_without_overlap_unless_a_step_is_given() {
        assert_eq!(all(9, (4, 1, None, Pad::None)), [[0, 1, 2, 3], [4, 5, 6, 7]]);
        assert_eq!(all(6, (4, 1, Some(1), Pad::None)), [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5]]);
        assert_eq!(all(16, (4, 2, None, Pad::None)), [[0, 2, 4, 6], [8, 10, 12, 14]]);
        assert_eq!(all(9, (1, 1, Some(4), Pad::None)), [[0], [4], [8]]);
    }

    #[test]
    fn a_window_needs_its_span_and_no_surplus() {
        // DALI 2.4 asked for stride - 1 frames more and found 3 windows here.
        assert_eq!(Windows::new(4, 2, None, Pad::None).unwrap().clips_in(&video(31)), 4);
        let rule = Windows::new(4, 3, None, Pad::None).unwrap();
        assert_eq!((rule.span(), rule.clips_in(&video(9)), rule.clips_in(&video(10))), (10, 0, 1));
    }

    #[test]
    fn a_video_without_frames_yields_no_window() {
        for pad in [Pad::None, Pad::Constant, Pad::Edge, Pad::Reflect101, Pad::Reflect1001] {
            assert_eq!(Windows::new(4, 1, Some(2), pad).unwrap().clips_in(&video(0)), 0);
        }
    }

    #[test]
    fn padding_keeps_every_start_inside_the_video() {
        assert_eq!(all(6, (4, 1, Some(2), Pad::Edge)), [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 5, 5]]);
        assert_eq!(all(4, (3, 1, Some(1), Pad::Edge)).last().unwrap(), &[3, 3, 3]);
    }

    #[test]
    fn each_pad_mode_shows_its_own_frames() {
        let tail = |pad| all(4, (7, 1, None, pad)).remove(0);
        assert_eq!(tail(Pad::Constant), [0, 1, 2, 3, 3, 3, 3]);
        assert_eq!(tail(Pad::Edge), [0, 1, 2, 3, 3, 3, 3]);
        assert_eq!(tail(Pad::Reflect101), [0, 1, 2, 3, 2, 1, 0]);
        assert_eq!(tail(Pad::Reflect1001), [0, 1, 2, 3, 3, 2, 1]);
    }

    #[test]
    fn mirrors_reflect_as_often_as_needed() {
        assert_eq!(all(3, (12, 1, None, Pad::Reflect101))[0], [0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1]);
        assert_eq!(all(3, (12, 1, None, Pad::Reflect1001))[0], [0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0]);
        assert_eq!(all(1, (4, 3, None, Pad::Reflect101))[0], [0; 4]);
        assert_eq!(all(1, (4, 3, None, Pad::Reflect1001))[0], [0; 4]);
    }

    #[test]
    fn the_mask_tells_real_frames_from_padding() {
        let sample = frames(&Windows::new(4, 2, None, Pad::Reflect101).unwrap(), 6, 0);
        assert_eq!(sample.indices, [0, 2, 4, 4]);
        assert_eq!(sample.mask, [true, true, true, false]);
    }

    #[test]
    fn a_zero_is_repeated_back() {
        for (length, stride, step, name) in
            [(0, 1, None, "sequence_length"), (1, 0, None, "stride"), (1, 1, Some(0), "step")]
        {
            let text = Windows::new(length, stride, step, Pad::None).unwrap_err().to_string();
            assert!(text.starts_with(&format!("{name} must be at least 1, got 0; ")), "{text}");
        }
    }
}
