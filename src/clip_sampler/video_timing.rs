//! The timing information of a video, or of a part of it, that a clip sampler can use.
//! Frames are counted from the first frame of the part; timestamps are those of the whole video.

use std::fmt::Debug;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::index::VideoIndex;
use crate::units::{PresentationIndex, TimeBase};

/// Timestamps that differ by less than this, in seconds, are equal: less than a tick of any usual
/// time base, more than the rounding error of a sum of seconds.
pub(crate) const PTS_EPSILON_SECONDS: f64 = 1e-6;

/// Maximum slack for the coarse clock of a container.
const MAX_PTS_TOLERANCE_SECONDS: f64 = 1e-3;

/// A timestamp in the most exact form available.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timestamp {
    /// In seconds, rounded.
    Seconds(f64),
    /// In ticks of the video's time base.
    Ticks(i64, TimeBase),
    /// A number of frames after 0, at a rate in frames per second.
    Frames(u32, f64),
}

/// The timing of a video, or of the part of it that a dataset entry selects.
pub trait VideoTiming {
    /// Number of frames.
    fn num_frames(&self) -> u32;

    /// Frames per second over the whole video; 0 if unknown.
    fn average_fps(&self) -> f64;

    /// The timestamp of frame `frame`, in seconds. For `frame >= num_frames`: when the last frame
    /// ends.
    fn pts_seconds(&self, frame: u32) -> f64;

    /// The same timestamp before any rounding.
    fn timestamp(&self, frame: u32) -> Timestamp {
        Timestamp::Seconds(self.pts_seconds(frame))
    }

    /// The tolerance, in seconds, by which a frame counts as on screen before its timestamp.
    fn pts_tolerance_seconds(&self) -> f64 {
        PTS_EPSILON_SECONDS
    }

    /// An owned copy, for a clip sampler that passes the timing on.
    fn clone_box(&self) -> Box<dyn VideoTiming + Send + Sync>;

    /// From the first frame's timestamp to the end of the last one, in seconds.
    fn duration_seconds(&self) -> f64 {
        self.pts_seconds(self.num_frames()) - self.pts_seconds(0)
    }

    /// Number of frames with a timestamp of at most `seconds` plus
    /// [`pts_tolerance_seconds`](Self::pts_tolerance_seconds). The frame on screen is the last of
    /// them; 0 before the first frame.
    fn num_frames_until(&self, seconds: f64) -> u32 {
        let (mut low, mut high) = (0, self.num_frames());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.pts_seconds(middle) <= seconds + self.pts_tolerance_seconds() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// Frames at a constant rate, the first at 0 seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConstantFrameRate {
    /// Number of frames.
    pub num_frames: u32,
    /// Frames per second.
    pub fps: f64,
}

impl VideoTiming for ConstantFrameRate {
    fn num_frames(&self) -> u32 {
        self.num_frames
    }

    fn clone_box(&self) -> Box<dyn VideoTiming + Send + Sync> {
        Box::new(*self)
    }

    fn average_fps(&self) -> f64 {
        self.fps
    }

    fn pts_seconds(&self, frame: u32) -> f64 {
        f64::from(frame.min(self.num_frames)) / self.fps
    }

    fn timestamp(&self, frame: u32) -> Timestamp {
        Timestamp::Frames(frame.min(self.num_frames), self.fps)
    }
}

/// Frames at given timestamps.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameTimestamps {
    pts: Vec<f64>,
    end: f64,
}

impl FrameTimestamps {
    /// The timestamp of each frame, ascending, and the end of the last one; in seconds.
    pub fn new(pts: Vec<f64>, end: f64) -> Result<Self> {
        let all = || pts.iter().copied().chain([end]);
        if all().any(|t| !t.is_finite()) || all().zip(all().skip(1)).any(|(a, b)| a > b) {
            return Err(Error::Argument(
                "frame times must be finite and ascending; the last one is the end of the video"
                    .into(),
            ));
        }
        Ok(Self { pts, end })
    }
}

impl VideoTiming for FrameTimestamps {
    fn num_frames(&self) -> u32 {
        self.pts.len() as u32
    }

    fn clone_box(&self) -> Box<dyn VideoTiming + Send + Sync> {
        Box::new(self.clone())
    }

    fn average_fps(&self) -> f64 {
        match self.duration_seconds() {
            seconds if seconds > 0.0 => f64::from(self.num_frames()) / seconds,
            _ => 0.0,
        }
    }

    fn pts_seconds(&self, frame: u32) -> f64 {
        self.pts.get(frame as usize).copied().unwrap_or(self.end)
    }
}

/// The frames of a video that a dataset entry selects.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum SegmentRange {
    /// All frames.
    #[default]
    Full,
    /// From frame `.0`, up to and excluding frame `.1` (or to the end).
    Frames(u32, Option<u32>),
    /// The frames that appear at or after second `.0` and before second `.1` (or to the end).
    Seconds(f64, Option<f64>),
}

impl std::fmt::Display for SegmentRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let end = |f: &mut std::fmt::Formatter<'_>, end: Option<String>| match end {
            Some(end) => write!(f, " up to {end}"),
            None => write!(f, " to the end"),
        };
        match self {
            SegmentRange::Full => write!(f, "that is all"),
            SegmentRange::Frames(first, last) => {
                write!(f, "from frame {first}")?;
                end(f, last.map(|last| last.to_string()))
            }
            SegmentRange::Seconds(first, last) => {
                write!(f, "from {} s", first.max(0.0))?;
                end(f, last.map(|last| format!("{last} s")))
            }
        }
    }
}

/// A video, or the part of it that a dataset entry selects.
#[derive(Clone, Debug)]
pub struct VideoSegment {
    index: Arc<VideoIndex>,
    first: u32,
    end: u32,
}

impl VideoSegment {
    /// An end past the video's end is clamped to it; a part that begins past the end has no frames.
    pub fn new(index: Arc<VideoIndex>, range: SegmentRange) -> Self {
        let frames = index.num_frames();
        let whole = Self {
            index,
            first: 0,
            end: frames,
        };
        let num_frames_before =
            |seconds: f64| whole.num_frames_until(seconds - 2.0 * whole.pts_tolerance_seconds());
        let (first, end) = match range {
            SegmentRange::Full => (0, frames),
            SegmentRange::Frames(first, end) => (first, end.unwrap_or(frames)),
            SegmentRange::Seconds(begin, end) => (
                num_frames_before(begin),
                end.map_or(frames, num_frames_before),
            ),
        };
        let end = end.min(frames);
        Self {
            first: first.min(end),
            end,
            ..whole
        }
    }

    /// The presentation index in the video of a frame of the part.
    pub(crate) fn display_index(&self, frame: u32) -> PresentationIndex {
        PresentationIndex(self.first + frame)
    }
}

impl VideoTiming for VideoSegment {
    fn num_frames(&self) -> u32 {
        self.end - self.first
    }

    /// One tick, because containers round timestamps to ticks, both of the clip's start and of the
    /// frame: at 30 frames per second Matroska stores 0.033 and 0.067 s. At most one millisecond,
    /// for time bases in which a tick is as long as a frame.
    fn pts_tolerance_seconds(&self) -> f64 {
        self.index
            .info
            .time_base
            .seconds(1)
            .clamp(PTS_EPSILON_SECONDS, MAX_PTS_TOLERANCE_SECONDS)
    }

    fn clone_box(&self) -> Box<dyn VideoTiming + Send + Sync> {
        Box::new(self.clone())
    }

    fn average_fps(&self) -> f64 {
        self.index.average_fps()
    }

    fn pts_seconds(&self, frame: u32) -> f64 {
        let at = self.first.saturating_add(frame).min(self.end);
        match at < self.index.num_frames() {
            true => self.index.pts_seconds(PresentationIndex(at)),
            false => self.index.end_seconds(),
        }
    }

    fn timestamp(&self, frame: u32) -> Timestamp {
        let at = self.first.saturating_add(frame).min(self.end);
        let ticks = match at < self.index.num_frames() {
            true => self.index.pts(PresentationIndex(at)),
            false => self.index.end_pts,
        };
        Timestamp::Ticks(ticks, self.index.info.time_base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displayed_frame_is_robust_to_rounding() {
        for fps in [24.0, 25.0, 30.0, 30_000.0 / 1001.0, 60.0] {
            let video = ConstantFrameRate {
                num_frames: 1000,
                fps,
            };
            for frame in 0..1000 {
                let (begin, next) = (video.pts_seconds(frame), video.pts_seconds(frame + 1));
                assert_eq!(video.num_frames_until(begin), frame + 1);
                assert_eq!(
                    video.num_frames_until(begin - 1e-9),
                    frame + 1,
                    "{fps} {frame}"
                );
                assert_eq!(video.num_frames_until((begin + next) / 2.0), frame + 1);
                assert_eq!(video.num_frames_until(begin - 1e-4), frame);
            }
        }
    }

    #[test]
    fn descending_times_are_rejected() {
        assert!(FrameTimestamps::new(vec![0.0, 0.5, 0.4], 1.0).is_err());
        assert!(FrameTimestamps::new(vec![0.0, 0.5], 0.4).is_err());
        assert!(FrameTimestamps::new(vec![0.0, f64::NAN], 1.0).is_err());
        let video = FrameTimestamps::new(vec![1.0, 1.5, 3.0], 4.0).unwrap();
        assert_eq!(
            (
                video.num_frames(),
                video.average_fps(),
                video.duration_seconds()
            ),
            (3, 1.0, 3.0)
        );
        assert_eq!(
            (
                video.pts_seconds(2),
                video.pts_seconds(3),
                video.pts_seconds(9)
            ),
            (3.0, 4.0, 4.0)
        );
        assert_eq!(
            [0.0, 1.0, 2.9, 3.0, 9.0].map(|t| video.num_frames_until(t)),
            [0, 1, 2, 3, 3]
        );
    }
}
