//! Reproduces the frame indices of V-JEPA 2's dataset (facebookresearch/vjepa2,
//! src/datasets/video_dataset.py). One clip is one of the original's `num_clips`, which it returns as a list.
//! There is no filter by file size (`filter_long_videos`), and no video is replaced by another.

use super::common::{check_count, check_range, clips_unless_empty, require_fps, sample_integers};
use super::numpy_compat::{int, linspace};
use super::videomae::{padded, window};
use crate::clip_sampler::common::check_clip_index;
use crate::clip_sampler::{ClipIndices, ClipSampler, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// The distance between the frames of a clip, given by one of three options.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FrameStepOption {
    /// `fps`: the distance is the video's rate, rounded up, divided by this and rounded down.
    Fps(u32),
    /// `duration`: a clip spans about this number of seconds.
    Duration(f64),
    /// `frame_step`: the distance in frames.
    FrameStep(u32),
}

/// Options of `VideoDataset`, with its names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VideoDatasetOptions {
    /// Frames of a clip.
    pub frames_per_clip: u32,
    /// `fps`, `duration` or `frame_step`.
    pub frame_step: FrameStepOption,
    /// Clips of a video, each from its own part.
    pub num_clips: u32,
    /// A random window of each part instead of the first.
    pub random_clip_sampling: bool,
    /// If parts are shorter than a clip, clips overlap instead of repeating frames.
    pub allow_clip_overlap: bool,
    /// Videos shorter than one clip yield no clips.
    pub filter_short_videos: bool,
}

/// `VideoDataset`: a window of each of `num_clips` equal parts of the video.
///
/// Random numbers with `random_clip_sampling`, shared by all clips of a video: `next_below(part - clip)` for each
/// part, in order, where a clip is `frames_per_clip` steps; none if parts are no longer than that.
///
/// A video whose rate is below `fps`, or whose step is 0 for another reason, is an error, as in the original.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VideoDataset(VideoDatasetOptions);

impl VideoDataset {
    /// Checks the options.
    pub fn new(options: VideoDatasetOptions) -> Result<Self> {
        check_count("frames_per_clip", options.frames_per_clip)?;
        check_count("num_clips", options.num_clips)?;
        match options.frame_step {
            FrameStepOption::Fps(fps) => check_count("fps", fps).map(drop)?,
            FrameStepOption::FrameStep(step) => check_count("frame_step", step).map(drop)?,
            FrameStepOption::Duration(seconds) => check_range("duration", seconds).map(drop)?,
        }
        Ok(Self(options))
    }

    /// Distance between frames of a clip.
    fn step(&self, video: &dyn VideoTiming) -> Result<u32> {
        let fps = || require_fps("vjepa2", video).map(f64::ceil);
        let step = match self.0.frame_step {
            FrameStepOption::FrameStep(step) => i64::from(step),
            FrameStepOption::Fps(wanted) => int(fps()?) / i64::from(wanted),
            FrameStepOption::Duration(seconds) => int(seconds * fps()? / f64::from(self.0.frames_per_clip)),
        };
        let step = u32::try_from(step).unwrap_or(u32::MAX); // longer than any video in both cases
        if step > 0 {
            return Ok(step);
        }
        Err(Error::Argument(format!(
            "fps or duration must leave at least one frame between two of a clip, got {} for a video of {} frames per second; \
             use a lower fps, a longer duration, or leave this video out",
            match self.0.frame_step {
                FrameStepOption::Fps(fps) => format!("fps={fps}"),
                FrameStepOption::Duration(seconds) => format!("duration={seconds}"),
                FrameStepOption::FrameStep(step) => format!("frame_step={step}"),
            },
            video.average_fps()
        )))
    }

    /// Frames that a clip spans.
    fn span(&self, video: &dyn VideoTiming) -> Result<u64> {
        Ok(u64::from(self.0.frames_per_clip) * u64::from(self.step(video)?))
    }

    /// A clip of a part that is longer than the clip; `room` is positive.
    fn window_clip(&self, part: u32, room: u64, number: u64, rng: &mut dyn RandomSource) -> ClipIndices {
        let start = match self.0.random_clip_sampling {
            true => sample_integers(rng, room, u64::from(self.0.num_clips))[number as usize],
            false => 0,
        };
        let (start, end) = (start as i64, (start + u64::from(part) - room) as i64);
        let first = number as i64 * i64::from(part);
        let frames = window(start, end, self.0.frames_per_clip);
        ClipIndices::unpadded(frames.into_iter().map(|at| (first + at) as u32).collect())
    }

    /// A clip that overlaps with others.
    fn overlapping_clip(&self, num_frames: u32, step: u32, number: u64) -> ClipIndices {
        let count = self.0.frames_per_clip;
        let span = i64::from(count) * i64::from(step);
        let frames = i64::from(num_frames);
        let length = span.min(frames) - 1;
        let between = match frames > span {
            true => (frames - span) / i64::from(self.0.num_clips - 1).max(1),
            false => 0,
        };
        let real = (length / i64::from(step)) as u32; // below `count`
        let spread = linspace(0.0, length as f64, real).into_iter().map(int);
        let all = spread.chain(std::iter::repeat_n(length, (count - real) as usize));
        // For a clip of one frame the original requests frame -1, which is the last frame in decord.
        let at = all.map(|at| at.min(length - 1) + number as i64 * between);
        ClipIndices {
            indices: at.map(|at| if at < 0 { frames - 1 } else { at } as u32).collect(),
            mask: (0..count).map(|i| i < real).collect(),
        }
    }
}

impl ClipSampler for VideoDataset {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        let too_short = self.0.filter_short_videos
            && self.span(video).is_ok_and(|span| u64::from(video.num_frames()) < span);
        if too_short {
            0
        } else {
            clips_unless_empty(video, self.0.num_clips)
        }
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        (!self.0.filter_short_videos).then_some(u64::from(self.0.num_clips))
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(self.0.frames_per_clip)
    }

    fn shares_rng_per_video(&self) -> bool {
        true
    }

    fn clip(&self, video: &dyn VideoTiming, number: u64, rng: &mut dyn RandomSource) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
        let (step, span) = (self.step(video)?, self.span(video)?);
        let frames = video.num_frames();
        let part = frames / self.0.num_clips;
        Ok(match u64::from(part).checked_sub(span) {
            Some(room) if room > 0 => self.window_clip(part, room, number, rng),
            _ if self.0.allow_clip_overlap => self.overlapping_clip(frames, step, number),
            _ => {
                let first = number as i64 * i64::from(part);
                padded(first, part, step, (self.0.frames_per_clip, frames))
            }
        })
    }

    fn min_length_hint(&self) -> String {
        match (self.0.filter_short_videos, self.0.frame_step) {
            (false, _) => "1 frame".to_owned(),
            (true, FrameStepOption::Duration(seconds)) => format!("{seconds} seconds"),
            (true, FrameStepOption::Fps(fps)) => {
                format!("{} frames at {fps} per second", self.0.frames_per_clip)
            }
            (true, FrameStepOption::FrameStep(step)) => {
                format!("{} frames", u64::from(self.0.frames_per_clip) * u64::from(step))
            }
        }
    }
}
