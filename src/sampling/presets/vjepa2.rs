//! In: the options of V-JEPA 2's dataset (facebookresearch/vjepa2, src/datasets/video_dataset.py). Out: its frame
//! indices. One clip here is one of the original's `num_clips`, which it hands on as a list.
//! Never: filters by file size (`filter_long_videos`), or takes another video in place of one.

use super::arithmetic::{int, linspace};
use super::shared::{count, draws, known_fps, of_each, positive};
use super::videomae::{padded, window};
use crate::error::{Error, Result};
use crate::sampling::common::known_clip;
use crate::sampling::{Draw, Footage, Rule, Sample};

/// How far apart the frames of a clip are: the one of three options that is given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// `fps`: the video's rate, rounded up, divided by this and rounded down.
    Fps(u32),
    /// `duration`: a clip spans about so many seconds.
    Duration(f64),
    /// `frame_step`: frames.
    FrameStep(u32),
}

/// Options of `VideoDataset`, by its names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VideoDatasetOptions {
    /// Frames of a clip.
    pub frames_per_clip: u32,
    /// `fps`, `duration` or `frame_step`.
    pub pace: Pace,
    /// Clips of a video, each from a part of its own.
    pub num_clips: u32,
    /// A random window of each part rather than the first.
    pub random_clip_sampling: bool,
    /// Where parts are shorter than a clip, clips overlap rather than repeat frames.
    pub allow_clip_overlap: bool,
    /// Videos shorter than one clip yield none.
    pub filter_short_videos: bool,
}

/// `VideoDataset`: a window of each of `num_clips` equal parts of the video.
///
/// Draws with `random_clip_sampling`, for all clips of a video together: `below(part - clip)` for each part, in order,
/// where a clip is `frames_per_clip` steps; none where parts are no longer than that.
///
/// A video whose rate is below `fps`, or whose step comes out as 0 otherwise, is an error, as it is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VideoDataset(VideoDatasetOptions);

impl VideoDataset {
    /// Checks the options.
    pub fn new(options: VideoDatasetOptions) -> Result<Self> {
        count("frames_per_clip", options.frames_per_clip)?;
        count("num_clips", options.num_clips)?;
        match options.pace {
            Pace::Fps(fps) => count("fps", fps).map(drop)?,
            Pace::FrameStep(step) => count("frame_step", step).map(drop)?,
            Pace::Duration(seconds) => positive("duration", seconds).map(drop)?,
        }
        Ok(Self(options))
    }

    /// Distance between frames of a clip.
    fn step(&self, video: &dyn Footage) -> Result<u32> {
        let fps = || known_fps("vjepa2", video).map(f64::ceil);
        let step = match self.0.pace {
            Pace::FrameStep(step) => i64::from(step),
            Pace::Fps(wanted) => int(fps()?) / i64::from(wanted),
            Pace::Duration(seconds) => int(seconds * fps()? / f64::from(self.0.frames_per_clip)),
        };
        let step = u32::try_from(step).unwrap_or(u32::MAX); // longer than any video either way
        if step > 0 {
            return Ok(step);
        }
        Err(Error::Argument(format!(
            "fps or duration must leave at least one frame between two of a clip, got {} for a video of {} frames per second; \
             use a lower fps, a longer duration, or leave this video out",
            match self.0.pace {
                Pace::Fps(fps) => format!("fps={fps}"),
                Pace::Duration(seconds) => format!("duration={seconds}"),
                Pace::FrameStep(step) => format!("frame_step={step}"),
            },
            video.average_fps()
        )))
    }

    /// Frames that a clip spans.
    fn span(&self, video: &dyn Footage) -> Result<u64> {
        Ok(u64::from(self.0.frames_per_clip) * u64::from(self.step(video)?))
    }

    /// A clip of a part that has room for it; `room` is above 0.
    fn placed(&self, part: u32, room: u64, number: u64, rng: &mut dyn Draw) -> Sample {
        let start = match self.0.random_clip_sampling {
            true => draws(rng, room, u64::from(self.0.num_clips))[number as usize],
            false => 0,
        };
        let (start, end) = (start as i64, (start + u64::from(part) - room) as i64);
        let first = number as i64 * i64::from(part);
        let frames = window(start, end, self.0.frames_per_clip);
        Sample::real(frames.into_iter().map(|at| (first + at) as u32).collect())
    }

    /// A clip that overlaps with others.
    fn overlapping(&self, num_frames: u32, step: u32, number: u64) -> Sample {
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
        // Of a clip of one frame the original asks for frame -1: decord's last one.
        let at = all.map(|at| at.min(length - 1) + number as i64 * between);
        Sample {
            indices: at.map(|at| if at < 0 { frames - 1 } else { at } as u32).collect(),
            mask: (0..count).map(|i| i < real).collect(),
        }
    }
}

impl Rule for VideoDataset {
    fn clips_in(&self, video: &dyn Footage) -> u64 {
        let too_short = self.0.filter_short_videos
            && self.span(video).is_ok_and(|span| u64::from(video.num_frames()) < span);
        if too_short {
            0
        } else {
            of_each(video, self.0.num_clips)
        }
    }

    fn clips_each(&self) -> Option<u64> {
        (!self.0.filter_short_videos).then_some(u64::from(self.0.num_clips))
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(self.0.frames_per_clip)
    }

    fn draws_together(&self) -> bool {
        true
    }

    fn clip(&self, video: &dyn Footage, number: u64, rng: &mut dyn Draw) -> Result<Sample> {
        known_clip(number, self.clips_in(video), video)?;
        let (step, span) = (self.step(video)?, self.span(video)?);
        let frames = video.num_frames();
        let part = frames / self.0.num_clips;
        Ok(match u64::from(part).checked_sub(span) {
            Some(room) if room > 0 => self.placed(part, room, number, rng),
            _ if self.0.allow_clip_overlap => self.overlapping(frames, step, number),
            _ => {
                let first = number as i64 * i64::from(part);
                padded(first, part, step, (self.0.frames_per_clip, frames))
            }
        })
    }

    fn needs(&self) -> String {
        match (self.0.filter_short_videos, self.0.pace) {
            (false, _) => "1 frame".to_owned(),
            (true, Pace::Duration(seconds)) => format!("{seconds} seconds"),
            (true, Pace::Fps(fps)) => format!("{} frames at {fps} per second", self.0.frames_per_clip),
            (true, Pace::FrameStep(step)) => {
                format!("{} frames", u64::from(self.0.frames_per_clip) * u64::from(step))
            }
        }
    }
}
