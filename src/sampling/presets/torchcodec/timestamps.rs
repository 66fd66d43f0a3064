//! In: the options of `clips_at_random_timestamps` and `clips_at_regular_timestamps`. Out: a rule with their frames.
//! A clip is a row of moments; each shows the frame that is on screen then, to the last bit of float64.
//! Never: forgives a rounding: the frame before is shown where the original shows it.

use super::Policy;
use crate::error::{Error, Result};
use crate::sampling::common::known_clip;
use crate::sampling::presets::arithmetic::{arange_count, torch_arange_f64};
use crate::sampling::presets::shared::{count, count_while, known_fps, of_each, positive};
use crate::sampling::{Draw, Footage, Rule, Sample};

/// Where clips begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Starts {
    /// So many clips at random moments (`num_clips`).
    Random(u32),
    /// One clip after so many seconds each (`seconds_between_clip_starts`).
    Regular(f64),
}

/// The options, with torchcodec's names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimestampsOptions {
    /// Where clips begin.
    pub starts: Starts,
    /// Frames per clip.
    pub num_frames_per_clip: u32,
    /// Seconds from one frame of a clip to the next; `None`: one by the average rate.
    pub seconds_between_frames: Option<f64>,
    /// When the first clip may begin, in the video's seconds; `None`: with the first frame.
    pub sampling_range_start: Option<f64>,
    /// Clips begin before this second; `None`: where they still fit.
    pub sampling_range_end: Option<f64>,
    /// What clips show past the end.
    pub policy: Policy,
}

/// Clips by seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timestamps {
    options: TimestampsOptions,
}

/// What one video makes of the options; seconds.
struct Range {
    start: f64,
    end: f64,
    between_frames: f64,
    end_of_video: f64,
}

impl Timestamps {
    /// Checks the options.
    pub fn new(options: TimestampsOptions) -> Result<Self> {
        match options.starts {
            Starts::Random(clips) => f64::from(count("num_clips", clips)?),
            Starts::Regular(seconds) => positive("seconds_between_clip_starts", seconds)?,
        };
        count("num_frames_per_clip", options.num_frames_per_clip)?;
        options
            .seconds_between_frames
            .map_or(Ok(1.0), |seconds| positive("seconds_between_frames", seconds))?;
        Ok(Self { options })
    }

    fn range(&self, video: &dyn Footage) -> Result<Range> {
        let options = &self.options;
        let (begin, end_of_video) = (video.begins_at(0), video.begins_at(video.num_frames()));
        let between_frames = match options.seconds_between_frames {
            Some(seconds) => seconds,
            // torchcodec's average rate: frames by the difference of two rounded times.
            None if end_of_video > begin => 1.0 / (f64::from(video.num_frames()) / (end_of_video - begin)),
            None => 1.0 / known_fps("torchcodec", video)?,
        };
        let last = f64::from(options.num_frames_per_clip - 1) * between_frames;
        let start = options.sampling_range_start.unwrap_or(begin);
        let end = options.sampling_range_end.unwrap_or(end_of_video - last);
        let fits = start >= begin && start < end_of_video && end > begin && start < end;
        if !fits {
            return Err(Error::Argument(format!(
                "sampling_range_start must be inside the video and below sampling_range_end, got {start} and {end} \
                 in a video from {begin} to {end_of_video} seconds; choose another range, or leave this video out"
            )));
        }
        Ok(Range { start, end: end.min(end_of_video), between_frames, end_of_video })
    }
}

impl Range {
    /// `torch.arange(start, end, seconds)`, and how many of its values lie before the end.
    fn regular(&self, seconds: f64) -> (u64, impl Fn(u64) -> f64) {
        let (all, start) = (arange_count(self.start, self.end, seconds), self.start);
        let at = move |clip| torch_arange_f64(start, seconds, all, clip);
        let beyond = all > 0 && at(all - 1) >= self.end;
        (all - u64::from(beyond), at)
    }
}

impl Rule for Timestamps {
    fn clips_in(&self, video: &dyn Footage) -> u64 {
        match self.options.starts {
            Starts::Random(clips) => of_each(video, clips),
            Starts::Regular(_) if video.num_frames() == 0 => 0,
            Starts::Regular(seconds) => self.range(video).map_or(0, |range| range.regular(seconds).0),
        }
    }

    fn clips_each(&self) -> Option<u64> {
        match self.options.starts {
            Starts::Random(clips) => Some(u64::from(clips)),
            Starts::Regular(_) => None,
        }
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(self.options.num_frames_per_clip)
    }

    fn draws_together(&self) -> bool {
        matches!(self.options.starts, Starts::Random(_))
    }

    /// Random clips draw as `torch.rand(num_clips, dtype=torch.float64)` does: one float each, in their order.
    fn clip(&self, video: &dyn Footage, number: u64, rng: &mut dyn Draw) -> Result<Sample> {
        known_clip(number, self.clips_in(video), video)?;
        let range = self.range(video)?;
        let begin = match self.options.starts {
            Starts::Random(clips) => {
                // All are drawn, as torch draws them, whichever is kept.
                let all: Vec<f64> = (0..clips).map(|_| rng.unit_f64()).collect();
                all[number as usize] * (range.end - range.start) + range.start
            }
            Starts::Regular(seconds) => range.regular(seconds).1(number),
        };
        let length = self.options.num_frames_per_clip;
        let moments = (0..length).map(|i| begin + f64::from(i) * range.between_frames);
        let on_screen = |at: f64| count_while(video, |frame| video.begins_at(frame + 1) <= at);
        let exist = moments.take_while(|&at| at < range.end_of_video).map(on_screen).collect();
        self.options.policy.fill(exist, length)
    }

    fn needs(&self) -> String {
        match self.options.seconds_between_frames {
            Some(seconds) => {
                format!("more than {} seconds", f64::from(self.options.num_frames_per_clip - 1) * seconds)
            }
            None => format!("{} frames", self.options.num_frames_per_clip),
        }
    }
}
