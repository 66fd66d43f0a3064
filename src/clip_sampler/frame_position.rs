//! Resolves a frame number or a timestamp to a frame of the video, or reports that it is out of
//! range. How an out-of-range frame is padded is decided elsewhere.

use super::VideoTiming;

/// The position of one frame of a clip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FramePosition {
    /// This frame of the video.
    InRange(u32),
    /// Before the first frame or past the last one.
    OutOfRange(OutOfRange),
}

/// A position that has no frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OutOfRange {
    /// A frame number, counted from the first frame.
    Frame(i64),
    /// A timestamp of the video, in seconds.
    Seconds(f64),
}

impl FramePosition {
    /// The position with frame number `at`.
    pub(crate) fn at_frame(video: &dyn VideoTiming, at: i64) -> Self {
        match u32::try_from(at).ok().filter(|&at| at < video.num_frames()) {
            Some(at) => FramePosition::InRange(at),
            None => FramePosition::OutOfRange(OutOfRange::Frame(at)),
        }
    }

    /// The frame on screen at `seconds`: frame *i* is on screen from its own timestamp to the next
    /// frame's, each less the video's slack. A frame is on screen at its own timestamp even if the
    /// video ends at that time.
    pub(crate) fn at_seconds(video: &dyn VideoTiming, seconds: f64) -> Self {
        let frames = video.num_frames();
        let outside = FramePosition::OutOfRange(OutOfRange::Seconds(seconds));
        let Some(at) = video.num_frames_until(seconds).checked_sub(1) else {
            return outside;
        };
        let over = seconds > video.pts_seconds(at) + video.pts_tolerance_seconds()
            && seconds + video.pts_tolerance_seconds() >= video.pts_seconds(frames);
        if at + 1 == frames && over {
            return outside;
        }
        FramePosition::InRange(at)
    }

    /// Whether the position has a frame.
    pub(crate) fn is_in_range(self) -> bool {
        matches!(self, FramePosition::InRange(_))
    }
}

impl OutOfRange {
    /// The nearest frame of the video.
    pub fn nearest(self, video: &dyn VideoTiming) -> u32 {
        let before = match self {
            OutOfRange::Frame(at) => at < 0,
            OutOfRange::Seconds(seconds) => seconds < video.pts_seconds(0),
        };
        if before {
            0
        } else {
            video.num_frames().saturating_sub(1)
        }
    }

    /// The frame at this position if the video is played in a loop.
    pub fn wrapped(self, video: &dyn VideoTiming) -> u32 {
        match self {
            // The result is below the number of frames.
            OutOfRange::Frame(at) => at.rem_euclid(i64::from(video.num_frames().max(1))) as u32,
            OutOfRange::Seconds(seconds) => {
                let (begin, whole) = (video.pts_seconds(0), video.duration_seconds());
                let into = (seconds - begin).rem_euclid(whole);
                // A rounding error just before the end counts as the beginning.
                let into = if into + video.pts_tolerance_seconds() < whole {
                    into
                } else {
                    0.0
                };
                video.num_frames_until(begin + into).saturating_sub(1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::video_timing::{ConstantFrameRate, FrameTimestamps};
    use super::*;

    #[test]
    fn time_shows_the_latest_frame() {
        let video = FrameTimestamps::new(vec![1.0, 1.5, 3.0], 4.0).unwrap();
        let at = |t| FramePosition::at_seconds(&video, t);
        assert_eq!(
            [1.0, 1.49, 1.5, 2.9, 3.0, 3.99].map(at),
            [0, 0, 1, 1, 2, 2].map(FramePosition::InRange)
        );
        assert_eq!(at(0.5), FramePosition::OutOfRange(OutOfRange::Seconds(0.5)));
        assert_eq!(at(4.0), FramePosition::OutOfRange(OutOfRange::Seconds(4.0)));
        assert_eq!(
            [0.5, 4.0].map(|t| OutOfRange::Seconds(t).nearest(&video)),
            [0, 2]
        );
        // The video lasts 3 seconds: 4.6 wraps to 1.6, 0.5 to 3.5.
        assert_eq!(
            [4.6, 0.5, 7.0, 4.0 - 1e-9].map(|t| OutOfRange::Seconds(t).wrapped(&video)),
            [1, 2, 0, 0]
        );
    }

    #[test]
    fn zero_duration_frame_is_shown_at_its_time() {
        let video = FrameTimestamps::new(vec![2.0], 2.0).unwrap();
        assert_eq!(
            FramePosition::at_seconds(&video, 2.0),
            FramePosition::InRange(0)
        );
        assert_eq!(
            FramePosition::at_seconds(&video, 2.1),
            FramePosition::OutOfRange(OutOfRange::Seconds(2.1))
        );
        assert_eq!(OutOfRange::Seconds(2.1).wrapped(&video), 0);
    }

    #[test]
    fn extreme_numbers_are_accepted() {
        for video in [
            ConstantFrameRate {
                num_frames: 0,
                fps: 25.0,
            },
            ConstantFrameRate {
                num_frames: 3,
                fps: 25.0,
            },
        ] {
            for t in [
                f64::NAN,
                f64::INFINITY,
                f64::NEG_INFINITY,
                f64::MAX,
                f64::MIN,
            ] {
                assert!(!FramePosition::at_seconds(&video, t).is_in_range());
                assert!(
                    OutOfRange::Seconds(t).wrapped(&video) < 3
                        && OutOfRange::Seconds(t).nearest(&video) < 3
                );
            }
            for at in [i64::MIN, -1, i64::MAX] {
                assert!(!FramePosition::at_frame(&video, at).is_in_range());
                assert!(
                    OutOfRange::Frame(at).wrapped(&video) < 3
                        && OutOfRange::Frame(at).nearest(&video) < 3
                );
            }
        }
        assert_eq!(
            OutOfRange::Frame(-1).wrapped(&ConstantFrameRate {
                num_frames: 3,
                fps: 25.0
            }),
            2
        );
    }
}
