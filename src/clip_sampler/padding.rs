//! Replaces out-of-range frames of a clip by frames of the video and marks them in the mask.
//! All clip samplers share these policies. Frames inside the video never change.

use serde::Deserialize;

use super::frame_position::{FramePosition, OutOfRange};
use super::{ClipIndices, VideoTiming};
use crate::error::{Error, Result};

/// How to pad frames past the end of the video (or before its beginning, if the clip sampler allows
/// such positions).
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum PaddingPolicy {
    /// Repeats the last real frame that precedes it in the clip (`repeat_last` of torchcodec, the
    /// default of mmaction2). With a stride this need not be the last frame of the video. Without a
    /// preceding real frame, the same as [`Edge`](Self::Edge).
    #[default]
    Repeat,
    /// Restarts the video: frame number modulo number of frames, or timestamp modulo duration
    /// (`loop` of mmaction2).
    Loop,
    /// Restarts the clip: entry *i* is real frame number *i* mod *R* of the clip's *R* real frames
    /// (`wrap` of torchcodec). Without real frames, the same as [`Edge`](Self::Edge).
    Wrap,
    /// The video's last frame (the first one for positions before the beginning).
    Edge,
    /// Blank: the engine sets the pixels to zero. The index is that of [`Repeat`](Self::Repeat).
    Blank,
    /// Videos that are too short for a clip yield no clips.
    Drop,
    /// Returns an error.
    Error,
}

impl PaddingPolicy {
    /// Number of clips of a video that yields `clips` if it is long enough.
    pub(super) fn num_clips(
        self,
        video: &dyn VideoTiming,
        clips: u64,
        fits: impl FnOnce() -> bool,
    ) -> u64 {
        match self {
            _ if video.num_frames() == 0 => 0,
            PaddingPolicy::Drop if !fits() => 0,
            _ => clips,
        }
    }

    /// The number of clips of all videos, if it is the same for all.
    pub(super) fn fixed_num_clips(self, clips: u64) -> Option<u64> {
        (self != PaddingPolicy::Drop).then_some(clips)
    }

    /// What a video must have: `whole` if a complete clip is required, otherwise one frame.
    pub(super) fn min_length_hint(self, whole: String) -> String {
        match self {
            PaddingPolicy::Error | PaddingPolicy::Drop => whole,
            _ => "1 frame".to_owned(),
        }
    }

    /// The frames of a clip. `error` makes the error for the first out-of-range frame.
    pub(super) fn fill(
        self,
        video: &dyn VideoTiming,
        positions: &[FramePosition],
        error: impl FnOnce(OutOfRange) -> Error,
    ) -> Result<ClipIndices> {
        let outside = positions.iter().find_map(|&position| match position {
            FramePosition::OutOfRange(outside) => Some(outside),
            FramePosition::InRange(_) => None,
        });
        if let (PaddingPolicy::Error, Some(outside)) = (self, outside) {
            return Err(error(outside));
        }
        let real: Vec<u32> = match self {
            PaddingPolicy::Wrap if outside.is_some() => positions
                .iter()
                .filter_map(|position| match position {
                    FramePosition::InRange(frame) => Some(*frame),
                    FramePosition::OutOfRange(_) => None,
                })
                .collect(),
            _ => Vec::new(),
        };
        let mut last = None;
        let (indices, mask) = positions
            .iter()
            .enumerate()
            .map(|(i, &position)| match (position, self) {
                (FramePosition::InRange(frame), _) => {
                    last = Some(frame);
                    (frame, true)
                }
                // With `Drop`, clip samplers whose clips pass the end even of long videos continue
                // from the beginning.
                (FramePosition::OutOfRange(outside), PaddingPolicy::Loop | PaddingPolicy::Drop) => {
                    (outside.wrapped(video), false)
                }
                (FramePosition::OutOfRange(_), PaddingPolicy::Wrap) if !real.is_empty() => {
                    (real[i % real.len()], false)
                }
                (FramePosition::OutOfRange(outside), PaddingPolicy::Wrap | PaddingPolicy::Edge) => {
                    (outside.nearest(video), false)
                }
                (FramePosition::OutOfRange(outside), _) => {
                    (last.unwrap_or_else(|| outside.nearest(video)), false)
                }
            })
            .unzip();
        Ok(ClipIndices { indices, mask })
    }
}

/// The length of a video for messages: "10 frames (0.4 s)".
pub(super) fn length_of(video: &dyn VideoTiming) -> String {
    format!(
        "{} frames ({} s)",
        video.num_frames(),
        seconds(video.duration_seconds())
    )
}

/// Seconds in readable form, without trailing zeros.
pub(super) fn seconds(seconds: f64) -> String {
    let text = format!("{seconds:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::tests::video;
    use super::*;

    fn filled(policy: PaddingPolicy, frames: u32, at: &[i64]) -> (Vec<u32>, Vec<bool>) {
        let video = &video(frames);
        let positions: Vec<FramePosition> = at
            .iter()
            .map(|&at| FramePosition::at_frame(video, at))
            .collect();
        let sample = policy
            .fill(video, &positions, |outside| {
                Error::Argument(format!("{outside:?}"))
            })
            .unwrap();
        (sample.indices, sample.mask)
    }

    #[test]
    fn each_policy_shows_its_own_frames_past_the_end() {
        let real = vec![true, true, true, false, false];
        let at = [1, 4, 7, 10, 13];
        for (policy, expected) in [
            (PaddingPolicy::Repeat, [1, 4, 7, 7, 7]),
            (PaddingPolicy::Blank, [1, 4, 7, 7, 7]),
            (PaddingPolicy::Loop, [1, 4, 7, 2, 5]),
            (PaddingPolicy::Wrap, [1, 4, 7, 1, 4]),
            (PaddingPolicy::Edge, [1, 4, 7, 7, 7]),
        ] {
            assert_eq!(
                filled(policy, 8, &at),
                (expected.to_vec(), real.clone()),
                "{policy:?}"
            );
        }
        assert_eq!(filled(PaddingPolicy::Edge, 9, &at).0, [1, 4, 7, 8, 8]);
    }

    #[test]
    fn out_of_range_entries_are_replaced() {
        let at = [-2, 9, 3, 1, 20];
        assert_eq!(filled(PaddingPolicy::Repeat, 5, &at).0, [0, 4, 3, 1, 1]);
        assert_eq!(filled(PaddingPolicy::Edge, 5, &at).0, [0, 4, 3, 1, 4]);
        assert_eq!(filled(PaddingPolicy::Loop, 5, &at).0, [3, 4, 3, 1, 0]);
        assert_eq!(
            filled(PaddingPolicy::Wrap, 5, &at),
            (vec![3, 1, 3, 1, 3], vec![false, false, true, true, false])
        );
        assert_eq!(filled(PaddingPolicy::Wrap, 5, &[7, -1]).0, [4, 0]);
    }

    #[test]
    fn error_names_the_first_entry_without_a_frame() {
        let video = &video(5);
        let positions: Vec<FramePosition> = [0, 9, -1]
            .iter()
            .map(|&at| FramePosition::at_frame(video, at))
            .collect();
        let refused = PaddingPolicy::Error.fill(video, &positions, |outside| {
            Error::Argument(format!("{outside:?}"))
        });
        assert_eq!(refused.unwrap_err().to_string(), "Frame(9)");
    }
}
