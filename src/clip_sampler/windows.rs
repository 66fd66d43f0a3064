//! All windows of a video, in order, as DALI enumerates them; uses no random numbers. Windows begin
//! at 0, step, 2·step, …, in frames or in seconds; incomplete windows are skipped or padded.

use serde::Deserialize;

use super::clip_spec::{ClipSpec, Spacing, partition_point};
use super::common::{check_clip_index, check_nonzero};
use super::frame_position::{FramePosition, OutOfRange};
use super::video_timing::PTS_EPSILON_SECONDS;
use super::{ClipIndices, ClipSampler, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// How to handle windows that begin inside the video and end past it.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum PadMode {
    /// They are skipped: only full windows.
    #[default]
    Drop,
    /// Missing frames are blank: the mask is false, the index is the last frame, and the engine
    /// sets the pixels to zero.
    Blank,
    /// Missing frames repeat the last frame of the video.
    Edge,
    /// The video is mirrored without repeating its last frame: 0 1 2 3 | 2 1 0 1 … With seconds,
    /// time reverses at the timestamp of the last frame.
    #[serde(rename = "reflect_101")]
    Reflect101,
    /// The video is mirrored and its last frame is repeated ("symmetric"): 0 1 2 3 | 3 2 1 0 0 1 …
    /// With seconds, time reverses at the end of the last frame.
    #[serde(rename = "reflect_1001")]
    Reflect1001,
}

/// Distance between the starts of windows.
#[derive(Clone, Copy, Debug, PartialEq)]
enum WindowStep {
    Frames(u64),
    Seconds(f64),
}

/// All windows of a video.
///
/// With [`PadMode::Drop`] a window needs `(sequence_length - 1) * stride + 1` frames or, with
/// seconds, a frame on screen at the timestamp of its last frame. With any other mode every start
/// inside the video yields a window, even with few real frames, as in DALI since 2.5 (2.4 produced
/// only one incomplete window).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Windows {
    spec: ClipSpec,
    step: WindowStep,
    pad_mode: PadMode,
}

impl Windows {
    /// Windows by frame. `step` is the distance between their starts; `None` is `sequence_length *
    /// stride`, as in DALI.
    pub fn new(
        sequence_length: u32,
        stride: u32,
        step: Option<u32>,
        pad_mode: PadMode,
    ) -> Result<Self> {
        let spec = ClipSpec::new(sequence_length, stride)?;
        let step = match step {
            Some(step) => {
                let hint =
                    "omit it for windows that do not overlap, use 1 for a window at every frame";
                u64::from(check_nonzero("step", step, hint)?)
            }
            None => u64::from(sequence_length) * u64::from(stride),
        };
        Ok(Self {
            spec,
            step: WindowStep::Frames(step),
            pad_mode,
        })
    }

    /// Windows by second: window *w* starts `w * step_seconds` after the first frame's timestamp,
    /// and its frame *i* is the one on screen `i / fps` later. A `step_seconds` of `None` is
    /// `sequence_length / fps`: windows that do not overlap.
    pub fn by_seconds(
        sequence_length: u32,
        fps: f64,
        step_seconds: Option<f64>,
        pad_mode: PadMode,
    ) -> Result<Self> {
        let spec = ClipSpec::new(sequence_length, Spacing::Fps(fps))?;
        let step = step_seconds.unwrap_or(f64::from(sequence_length) / fps);
        if !(step.is_finite() && step >= PTS_EPSILON_SECONDS) {
            return Err(Error::Argument(format!(
                "step_seconds must be at least {PTS_EPSILON_SECONDS}, got {step}; omit it for windows that \
                 do not overlap"
            )));
        }
        Ok(Self {
            spec,
            step: WindowStep::Seconds(step),
            pad_mode,
        })
    }

    /// The frame that replaces an out-of-range frame.
    fn padding_frame(&self, outside: OutOfRange, video: &dyn VideoTiming) -> u32 {
        let last = i64::from(video.num_frames().saturating_sub(1));
        match (self.pad_mode, outside) {
            (PadMode::Drop | PadMode::Blank | PadMode::Edge, _) => outside.nearest(video),
            // Repeated mirroring at both ends: once forward and once backward is one period.
            (PadMode::Reflect101, OutOfRange::Frame(at)) => {
                let there = at.rem_euclid((2 * last).max(1));
                there.min(2 * last - there) as u32 // at most `last`
            }
            (PadMode::Reflect1001, OutOfRange::Frame(at)) => {
                let there = at.rem_euclid(2 * (last + 1));
                there.min(2 * last + 1 - there) as u32
            }
            (PadMode::Reflect101, OutOfRange::Seconds(at)) => {
                let begin = video.pts_seconds(0);
                let length_seconds = video.pts_seconds(last as u32) - begin;
                let there = (at - begin).rem_euclid(2.0 * length_seconds);
                video
                    .num_frames_until(begin + there.min(2.0 * length_seconds - there))
                    .saturating_sub(1)
            }
            (PadMode::Reflect1001, OutOfRange::Seconds(at)) => {
                let (begin, length_seconds) = (video.pts_seconds(0), video.duration_seconds());
                let there = (at - begin).rem_euclid(2.0 * length_seconds);
                let shown = match there + video.pts_tolerance_seconds() < length_seconds {
                    true => video.num_frames_until(begin + there),
                    // In reverse, a frame is on screen up to and excluding its timestamp.
                    false => video.num_frames_until(
                        begin + (2.0 * length_seconds - there)
                            - 2.0 * video.pts_tolerance_seconds(),
                    ),
                };
                shown.saturating_sub(1)
            }
        }
    }

    /// Whether window `number`, of those that start every `step` seconds, exists.
    fn window_exists(&self, video: &dyn VideoTiming, step: f64, number: u32, fps: f64) -> bool {
        let begin = video.pts_seconds(0) + f64::from(number) * step;
        let last = match self.pad_mode {
            PadMode::Drop => f64::from(self.spec.sequence_length() - 1) / fps,
            _ => 0.0,
        };
        FramePosition::at_seconds(video, begin + last).is_in_range()
    }
}

impl ClipSampler for Windows {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        match (self.step, self.spec.spacing(), self.pad_mode) {
            (WindowStep::Frames(step), _, PadMode::Drop) => {
                self.spec.num_starts(video).div_ceil(step)
            }
            (WindowStep::Seconds(step), Spacing::Fps(fps), _) => {
                u64::from(partition_point(u32::MAX, |number| {
                    self.window_exists(video, step, number, fps)
                }))
            }
            (WindowStep::Frames(step), ..) => u64::from(video.num_frames()).div_ceil(step),
            (WindowStep::Seconds(_), Spacing::Stride(_), _) => 0,
        }
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
        let positions = match self.step {
            // The start is below the number of frames, otherwise check_clip_index returns an error.
            WindowStep::Frames(step) => self.spec.positions(video, (number * step) as u32, rng)?,
            WindowStep::Seconds(step) => self.spec.positions_from_seconds(
                video,
                video.pts_seconds(0) + number as f64 * step,
                rng,
            )?,
        };
        let shown = positions.iter().map(|&position| match position {
            FramePosition::InRange(frame) => (frame, true),
            FramePosition::OutOfRange(outside) => (self.padding_frame(outside, video), false),
        });
        let (indices, mask) = shown.unzip();
        Ok(ClipIndices { indices, mask })
    }

    fn pads_with_zeros(&self) -> bool {
        self.pad_mode == PadMode::Blank
    }

    fn min_length_hint(&self) -> String {
        self.spec.min_length_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ScriptedRng, video};
    use super::super::video_timing::FrameTimestamps;
    use super::*;

    fn frames(sampler: &Windows, frames: u32, number: u64) -> ClipIndices {
        sampler
            .clip(&video(frames), number, &mut ScriptedRng(&[]))
            .unwrap()
    }

    fn all(frames: u32, sampler: (u32, u32, Option<u32>, PadMode)) -> Vec<Vec<u32>> {
        let sampler = Windows::new(sampler.0, sampler.1, sampler.2, sampler.3).unwrap();
        (0..sampler.num_clips(&video(frames)))
            .map(|c| self::frames(&sampler, frames, c).indices)
            .collect()
    }

    #[test]
    fn windows_do_not_overlap_by_default() {
        assert_eq!(
            all(9, (4, 1, None, PadMode::Drop)),
            [[0, 1, 2, 3], [4, 5, 6, 7]]
        );
        assert_eq!(
            all(6, (4, 1, Some(1), PadMode::Drop)),
            [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5]]
        );
        assert_eq!(
            all(16, (4, 2, None, PadMode::Drop)),
            [[0, 2, 4, 6], [8, 10, 12, 14]]
        );
        assert_eq!(all(9, (1, 1, Some(4), PadMode::Drop)), [[0], [4], [8]]);
    }

    #[test]
    fn window_needs_exactly_its_span() {
        // DALI 2.4 required stride - 1 more frames and found 3 windows here.
        assert_eq!(
            Windows::new(4, 2, None, PadMode::Drop)
                .unwrap()
                .num_clips(&video(31)),
            4
        );
        let sampler = Windows::new(4, 3, None, PadMode::Drop).unwrap();
        assert_eq!(
            (
                sampler.min_length_hint(),
                sampler.num_clips(&video(9)),
                sampler.num_clips(&video(10))
            ),
            ("10 frames".into(), 0, 1)
        );
    }

    #[test]
    fn a_video_without_frames_yields_no_window() {
        for pad in [
            PadMode::Drop,
            PadMode::Blank,
            PadMode::Edge,
            PadMode::Reflect101,
            PadMode::Reflect1001,
        ] {
            assert_eq!(
                Windows::new(4, 1, Some(2), pad)
                    .unwrap()
                    .num_clips(&video(0)),
                0
            );
        }
    }

    #[test]
    fn padding_keeps_every_start_inside_the_video() {
        assert_eq!(
            all(6, (4, 1, Some(2), PadMode::Edge)),
            [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 5, 5]]
        );
        assert_eq!(
            all(4, (3, 1, Some(1), PadMode::Edge)).last().unwrap(),
            &[3, 3, 3]
        );
    }

    #[test]
    fn each_pad_mode_shows_its_own_frames() {
        let tail = |pad| all(4, (7, 1, None, pad)).remove(0);
        assert_eq!(tail(PadMode::Blank), [0, 1, 2, 3, 3, 3, 3]);
        assert_eq!(tail(PadMode::Edge), [0, 1, 2, 3, 3, 3, 3]);
        assert_eq!(tail(PadMode::Reflect101), [0, 1, 2, 3, 2, 1, 0]);
        assert_eq!(tail(PadMode::Reflect1001), [0, 1, 2, 3, 3, 2, 1]);
    }

    #[test]
    fn mirrors_reflect_as_often_as_needed() {
        assert_eq!(
            all(3, (12, 1, None, PadMode::Reflect101))[0],
            [0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1]
        );
        assert_eq!(
            all(3, (12, 1, None, PadMode::Reflect1001))[0],
            [0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0]
        );
        assert_eq!(all(1, (4, 3, None, PadMode::Reflect101))[0], [0; 4]);
        assert_eq!(all(1, (4, 3, None, PadMode::Reflect1001))[0], [0; 4]);
    }

    #[test]
    fn mask_marks_real_frames() {
        let sample = frames(
            &Windows::new(4, 2, None, PadMode::Reflect101).unwrap(),
            6,
            0,
        );
        assert_eq!(sample.indices, [0, 2, 4, 4]);
        assert_eq!(sample.mask, [true, true, true, false]);
    }

    #[test]
    fn zero_is_named_in_the_error() {
        for (length, stride, step, name) in [
            (0, 1, None, "sequence_length"),
            (1, 0, None, "stride"),
            (1, 1, Some(0), "step"),
        ] {
            let text = Windows::new(length, stride, step, PadMode::Drop)
                .unwrap_err()
                .to_string();
            assert!(
                text.starts_with(&format!("{name} must be at least 1, got 0; ")),
                "{text}"
            );
        }
    }

    fn all_by_seconds(
        video: &dyn VideoTiming,
        sampler: (u32, f64, Option<f64>, PadMode),
    ) -> Vec<Vec<u32>> {
        let sampler = Windows::by_seconds(sampler.0, sampler.1, sampler.2, sampler.3).unwrap();
        let clip = |c| {
            sampler
                .clip(video, c, &mut ScriptedRng(&[]))
                .unwrap()
                .indices
        };
        (0..sampler.num_clips(video)).map(clip).collect()
    }

    #[test]
    fn timed_windows_start_every_step_seconds() {
        // The video lasts 2.5 seconds. Windows start at 5.0 (5, 5.5), at 6.0 (6, 6.5) and at 7.0 (7
        // and 7.5, which is past the end).
        let times = vec![5.0, 5.5, 5.6, 5.7, 6.5, 7.0];
        let video = &FrameTimestamps::new(times, 7.5).unwrap();
        assert_eq!(
            all_by_seconds(video, (2, 2.0, None, PadMode::Drop)),
            [[0, 1], [3, 4]]
        );
        assert_eq!(
            all_by_seconds(video, (2, 2.0, None, PadMode::Edge)),
            [[0, 1], [3, 4], [5, 5]]
        );
        assert_eq!(
            all_by_seconds(video, (1, 2.0, Some(0.6), PadMode::Drop)),
            [[0], [2], [3], [4], [5]]
        );
    }

    #[test]
    fn timed_reflection_turns_at_last_frame_or_end() {
        let times = vec![0.0, 1.0, 1.5, 3.0];
        let video = &FrameTimestamps::new(times, 4.0).unwrap();
        let tail = |pad| all_by_seconds(video, (10, 2.0, Some(2.5), pad)).remove(1);
        // The window has the timestamps 2.5, 3, …, 7. 4 s maps to 2 s, 4.5 s to 1.5 s, 5 s to 1 s,
        // 5.5 and 6 s to earlier ones; 6.5 and 7 s go forward again.
        assert_eq!(tail(PadMode::Reflect101), [2, 3, 3, 2, 2, 1, 0, 0, 0, 1]);
        // 4 s and 4.5 s show the last half of frame 3, 5 s the time just before 3 s, 6.5 s the time
        // just before 1.5 s.
        assert_eq!(tail(PadMode::Reflect1001), [2, 3, 3, 3, 3, 2, 2, 2, 1, 0]);
    }

    #[test]
    fn pad_modes_agree_by_frame_and_by_second() {
        for pad in [
            PadMode::Drop,
            PadMode::Blank,
            PadMode::Edge,
            PadMode::Reflect101,
            PadMode::Reflect1001,
        ] {
            for frames in 0..14 {
                for (length, step) in [(1, 1), (3, 2), (9, 4), (30, 5)] {
                    let by_frame = all(frames, (length, 1, Some(step), pad));
                    let seconds = Some(f64::from(step) / 25.0);
                    let by_second = all_by_seconds(&video(frames), (length, 25.0, seconds, pad));
                    assert_eq!(by_frame, by_second, "{pad:?} {frames} {length} {step}");
                }
            }
        }
    }

    #[test]
    fn indistinguishable_steps_are_rejected() {
        for step in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-9] {
            let text = Windows::by_seconds(4, 8.0, Some(step), PadMode::Drop)
                .unwrap_err()
                .to_string();
            assert!(text.starts_with("step_seconds must be at least"), "{text}");
        }
    }
}
