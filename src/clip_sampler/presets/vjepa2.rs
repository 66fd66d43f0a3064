//! Reproduces the frame indices of V-JEPA 2's dataset (facebookresearch/vjepa2,
//! src/datasets/video_dataset.py). One clip is one of the original's `num_clips`, which it returns
//! as a list. There is no filter by file size (`filter_long_videos`), and no video is replaced by
//! another.

use serde::Deserialize;

use super::arithmetic::linspace;
use super::formula::{Formula, Shape, draw, require_fps, with_padding};
use super::options::{Count, Positive};
use super::videomae::{padded, window};
use crate::clip_sampler::{ClipIndices, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// `VideoDataset`: a window of each of `num_clips` equal parts of the video. The distance between
/// frames is `frame_step`; or the video's rate, rounded up, divided by `fps`; or that of a clip of
/// `duration` seconds.
///
/// Random numbers with `random_clip_sampling`, shared by all clips of a video: `next_below(part -
/// clip)` for each part, in order, where a clip is `frames_per_clip` steps; none if parts are no
/// longer than that.
///
/// A video whose rate is below `fps`, or whose step is 0 for another reason, is an error, as in the
/// original.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VideoDataset {
    frames_per_clip: Count,
    fps: Option<Count>,
    duration: Option<Positive>,
    frame_step: Option<Count>,
    num_clips: Count,
    random_clip_sampling: bool,
    /// If parts are shorter than a clip, clips overlap instead of repeating frames.
    allow_clip_overlap: bool,
    /// Videos shorter than one clip yield no clips.
    filter_short_videos: bool,
}

impl VideoDataset {
    /// Distance between frames of a clip.
    fn step(&self, video: &dyn VideoTiming) -> Result<u32> {
        let fps = || require_fps("vjepa2", video).map(f64::ceil);
        let (step, option) = match (self.frame_step, self.fps, self.duration) {
            (Some(step), ..) => return Ok(step.0),
            (None, Some(wanted), _) => (fps()? as i64 / wanted.i64(), format!("fps={}", wanted.0)),
            (None, None, seconds) => {
                let seconds = seconds.map_or(0.0, |seconds| seconds.0);
                (
                    (seconds * fps()? / self.frames_per_clip.f64()) as i64,
                    format!("duration={seconds}"),
                )
            }
        };
        if step > 0 {
            return Ok(u32::try_from(step).unwrap_or(u32::MAX)); // longer than any video in both cases
        }
        Err(Error::Argument(format!(
            "fps or duration must leave at least one frame between two of a clip, got {option} for a video of {} frames per second; \
             use a lower fps, a longer duration, or leave this video out",
            video.average_fps()
        )))
    }

    /// Frames that a clip spans.
    fn span(&self, video: &dyn VideoTiming) -> Result<u64> {
        Ok(self.frames_per_clip.u64() * u64::from(self.step(video)?))
    }

    /// A clip that overlaps with others.
    fn overlapping_clip(&self, num_frames: u32, step: u32, number: u64) -> ClipIndices {
        let (count, frames) = (self.frames_per_clip.0, i64::from(num_frames));
        let span = i64::from(count) * i64::from(step);
        let length = span.min(frames) - 1;
        let between = (frames - span).max(0) / (self.num_clips.i64() - 1).max(1);
        let real = (length / i64::from(step)) as u32; // below `count`
        let at = |at: i64| match at.min(length - 1) + number as i64 * between {
            // For a clip of one frame the original requests frame -1, which is the last frame in
            // decord.
            ..0 => num_frames - 1,
            at => at as u32,
        };
        let spread = linspace(0.0, length as f64, real)
            .into_iter()
            .map(|value| at(value as i64));
        with_padding(
            spread,
            std::iter::repeat_n(at(length), (count - real) as usize),
        )
    }
}

impl Formula for VideoDataset {
    fn check(&self) -> Result<()> {
        let given = [
            self.fps.is_some(),
            self.duration.is_some(),
            self.frame_step.is_some(),
        ];
        match given.into_iter().filter(|is_given| *is_given).count() {
            1 => Ok(()),
            given => Err(Error::Argument(format!(
                "exactly one of fps, duration and frame_step must be given, got {given}; frame_step is 4 \
                 unless frame_step=None is given along with another one"
            ))),
        }
    }

    fn shape(&self) -> Shape {
        Shape {
            clips: (!self.filter_short_videos).then_some(self.num_clips.u64()),
            length: Some(self.frames_per_clip.0),
            draws_together: true,
        }
    }

    fn clips(&self, video: &dyn VideoTiming) -> u64 {
        let is_short = self
            .span(video)
            .is_ok_and(|span| u64::from(video.num_frames()) < span);
        match self.filter_short_videos && is_short {
            true => 0,
            false => self.num_clips.u64(),
        }
    }

    fn frames(
        &self,
        video: &dyn VideoTiming,
        clip: u64,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        let (frames, step, span) = (video.num_frames(), self.step(video)?, self.span(video)?);
        let part = frames / self.num_clips.0;
        let first = clip * u64::from(part);
        Ok(match u64::from(part).checked_sub(span) {
            Some(room) if room > 0 => {
                let start = match self.random_clip_sampling {
                    true => draw(rng, room, self.num_clips.u64())[clip as usize],
                    false => 0,
                };
                let shown = window(start, start + span, self.frames_per_clip);
                ClipIndices::unpadded(shown.map(|at| (first + at) as u32).collect())
            }
            _ if self.allow_clip_overlap => self.overlapping_clip(frames, step, clip),
            _ => padded(first, part, step, (self.frames_per_clip, frames)),
        })
    }

    fn min_length_hint(&self) -> String {
        let frames = self.frames_per_clip.u64();
        match (
            self.filter_short_videos,
            self.frame_step,
            self.fps,
            self.duration,
        ) {
            (true, Some(step), ..) => format!("{} frames", frames * step.u64()),
            (true, _, Some(fps), _) => format!("{frames} frames at {} per second", fps.0),
            (true, .., Some(seconds)) => format!("{} seconds", seconds.0),
            _ => "1 frame".to_owned(),
        }
    }
}
