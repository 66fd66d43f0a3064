//! In: where the entries of a clip fall, some of them outside of the video. Out: frames, and which of them are real.
//! One vocabulary for all rules.
//! Never: touches an entry that falls on a frame.

use super::screen::{Outside, Spot};
use super::{Footage, Sample};
use crate::error::{Error, Result};

/// What stands for frames that a clip wants past the end of the video (or before its beginning, where a rule can ask
/// for that).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Short {
    /// The clip's own last real frame before it (torchcodec's `repeat_last`, mmaction2's). With a stride this need not
    /// be the last frame of the video. Where the clip has none before it, as [`Clamp`](Self::Clamp).
    #[default]
    Repeat,
    /// The video from its beginning: position modulo number of frames, or moment modulo duration (mmaction2's `loop`).
    Loop,
    /// The clip from its beginning: entry *i* shows real frame number *i* mod *R* of the clip's *R* (torchcodec's
    /// `wrap`). Where the clip has none, as [`Clamp`](Self::Clamp).
    Wrap,
    /// The video's last frame (its first one, for entries before the beginning).
    Clamp,
    /// Blank: the engine zeroes the pixels. The index is that of [`Repeat`](Self::Repeat).
    Blank,
    /// Videos that are too short for a clip yield none.
    Drop,
    /// An error.
    Error,
}

impl Short {
    /// Clips of a video that yields `clips` if it is long enough.
    pub(super) fn clips(self, video: &dyn Footage, clips: u64, fits: impl FnOnce() -> bool) -> u64 {
        match self {
            _ if video.num_frames() == 0 => 0,
            Short::Drop if !fits() => 0,
            _ => clips,
        }
    }

    /// The number of clips of all videos, where it is the same for them.
    pub(super) fn clips_each(self, clips: u64) -> Option<u64> {
        (self != Short::Drop).then_some(clips)
    }

    /// What a video must have: `whole`, for a whole clip, or anything.
    pub(super) fn needs(self, whole: String) -> String {
        match self {
            Short::Error | Short::Drop => whole,
            _ => "1 frame".to_owned(),
        }
    }

    /// The frames of a clip. `refusal` says what is wrong with the first entry that has no frame.
    pub(super) fn fill(
        self,
        video: &dyn Footage,
        spots: &[Spot],
        refusal: impl FnOnce(Outside) -> Error,
    ) -> Result<Sample> {
        let outside = spots.iter().find_map(|&spot| match spot {
            Spot::Outside(outside) => Some(outside),
            Spot::Real(_) => None,
        });
        if let (Short::Error, Some(outside)) = (self, outside) {
            return Err(refusal(outside));
        }
        let real: Vec<u32> = match self {
            Short::Wrap if outside.is_some() => spots
                .iter()
                .filter_map(|spot| match spot {
                    Spot::Real(frame) => Some(*frame),
                    Spot::Outside(_) => None,
                })
                .collect(),
            _ => Vec::new(),
        };
        let mut last = None;
        let (indices, mask) = spots
            .iter()
            .enumerate()
            .map(|(i, &spot)| match (spot, self) {
                (Spot::Real(frame), _) => {
                    last = Some(frame);
                    (frame, true)
                }
                // A rule whose clips run past the end of long videos too goes on from the beginning.
                (Spot::Outside(outside), Short::Loop | Short::Drop) => (outside.looped(video), false),
                (Spot::Outside(_), Short::Wrap) if !real.is_empty() => (real[i % real.len()], false),
                (Spot::Outside(outside), Short::Wrap | Short::Clamp) => (outside.nearest(video), false),
                (Spot::Outside(outside), _) => (last.unwrap_or_else(|| outside.nearest(video)), false),
            })
            .unzip();
        Ok(Sample { indices, mask })
    }
}

/// "10 frames (0.4 s)".
pub(super) fn length_of(video: &dyn Footage) -> String {
    format!("{} frames ({} s)", video.num_frames(), seconds(video.duration_seconds()))
}

/// Seconds as people read them.
pub(super) fn seconds(seconds: f64) -> String {
    let text = format!("{seconds:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::tests::video;
    use super::*;

    fn filled(short: Short, frames: u32, at: &[i64]) -> (Vec<u32>, Vec<bool>) {
        let video = &video(frames);
        let spots: Vec<Spot> = at.iter().map(|&at| Spot::frame(video, at)).collect();
        let sample = short.fill(video, &spots, |outside| Error::Argument(format!("{outside:?}"))).unwrap();
        (sample.indices, sample.mask)
    }

    #[test]
    fn each_policy_shows_its_own_frames_past_the_end() {
        let real = vec![true, true, true, false, false];
        let at = [1, 4, 7, 10, 13];
        for (short, expected) in [
            (Short::Repeat, [1, 4, 7, 7, 7]),
            (Short::Blank, [1, 4, 7, 7, 7]),
            (Short::Loop, [1, 4, 7, 2, 5]),
            (Short::Wrap, [1, 4, 7, 1, 4]),
            (Short::Clamp, [1, 4, 7, 7, 7]),
        ] {
            assert_eq!(filled(short, 8, &at), (expected.to_vec(), real.clone()), "{short:?}");
        }
        assert_eq!(filled(Short::Clamp, 9, &at).0, [1, 4, 7, 8, 8]);
    }

    #[test]
    fn entries_in_any_order_and_before_the_beginning_have_a_stand_in() {
        let at = [-2, 9, 3, 1, 20];
        assert_eq!(filled(Short::Repeat, 5, &at).0, [0, 4, 3, 1, 1]);
        assert_eq!(filled(Short::Clamp, 5, &at).0, [0, 4, 3, 1, 4]);
        assert_eq!(filled(Short::Loop, 5, &at).0, [3, 4, 3, 1, 0]);
        assert_eq!(filled(Short::Wrap, 5, &at), (vec![3, 1, 3, 1, 3], vec![false, false, true, true, false]));
        assert_eq!(filled(Short::Wrap, 5, &[7, -1]).0, [4, 0]);
    }

    #[test]
    fn an_error_speaks_of_the_first_entry_that_has_no_frame() {
        let video = &video(5);
        let spots: Vec<Spot> = [0, 9, -1].iter().map(|&at| Spot::frame(video, at)).collect();
        let refused = Short::Error.fill(video, &spots, |outside| Error::Argument(format!("{outside:?}")));
        assert_eq!(refused.unwrap_err().to_string(), "Frame(9)");
    }
}
