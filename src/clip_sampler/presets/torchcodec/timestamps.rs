//! Reproduces `clips_at_random_timestamps` and `clips_at_regular_timestamps` of torchcodec. A clip is a
//! sequence of timestamps; each shows the frame on screen at that time. Float64 results are bit-exact, so a
//! rounding error selects the previous frame wherever it does in the original.

use super::Policy;
use crate::clip_sampler::common::check_clip_index;
use crate::clip_sampler::presets::common::{
    check_count, check_range, clips_unless_empty, frame_partition_point, require_fps,
};
use crate::clip_sampler::presets::numpy_compat::{arange_count, torch_arange_f64};
use crate::clip_sampler::{ClipIndices, ClipSampler, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// Where clips begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ClipStarts {
    /// This number of clips at random timestamps (`num_clips`).
    Random(u32),
    /// Clips at a constant distance in seconds (`seconds_between_clip_starts`).
    Regular(f64),
}

/// The options, with torchcodec's names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimestampsOptions {
    /// Where clips begin.
    pub starts: ClipStarts,
    /// Frames per clip.
    pub num_frames_per_clip: u32,
    /// Seconds from one frame of a clip to the next; `None`: the frame distance at the average rate.
    pub seconds_between_frames: Option<f64>,
    /// The earliest clip start, as a timestamp of the video in seconds; `None`: the first frame's timestamp.
    pub sampling_range_start: Option<f64>,
    /// Clips begin before this timestamp; `None`: clips must fit into the video.
    pub sampling_range_end: Option<f64>,
    /// How to pad clips past the end.
    pub policy: Policy,
}

/// Clips by timestamp.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timestamps {
    options: TimestampsOptions,
}

/// The options resolved for one video, in seconds.
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
            ClipStarts::Random(clips) => f64::from(check_count("num_clips", clips)?),
            ClipStarts::Regular(seconds) => check_range("seconds_between_clip_starts", seconds)?,
        };
        check_count("num_frames_per_clip", options.num_frames_per_clip)?;
        options
            .seconds_between_frames
            .map_or(Ok(1.0), |seconds| check_range("seconds_between_frames", seconds))?;
        Ok(Self { options })
    }

    fn range(&self, video: &dyn VideoTiming) -> Result<Range> {
        let options = &self.options;
        let (begin, end_of_video) = (video.pts_seconds(0), video.pts_seconds(video.num_frames()));
        let between_frames = match options.seconds_between_frames {
            Some(seconds) => seconds,
            // torchcodec's average rate: the number of frames divided by the difference of two rounded times.
            None if end_of_video > begin => 1.0 / (f64::from(video.num_frames()) / (end_of_video - begin)),
            None => 1.0 / require_fps("torchcodec", video)?,
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
    /// The values of `torch.arange(start, end, seconds)`, and how many of them are before the end.
    fn regular(&self, seconds: f64) -> (u64, impl Fn(u64) -> f64) {
        let (all, start) = (arange_count(self.start, self.end, seconds), self.start);
        let at = move |clip| torch_arange_f64(start, seconds, all, clip);
        let beyond = all > 0 && at(all - 1) >= self.end;
        (all - u64::from(beyond), at)
    }
}

impl ClipSampler for Timestamps {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        match self.options.starts {
            ClipStarts::Random(clips) => clips_unless_empty(video, clips),
            ClipStarts::Regular(_) if video.num_frames() == 0 => 0,
            ClipStarts::Regular(seconds) => self.range(video).map_or(0, |range| range.regular(seconds).0),
        }
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        match self.options.starts {
            ClipStarts::Random(clips) => Some(u64::from(clips)),
            ClipStarts::Regular(_) => None,
        }
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(self.options.num_frames_per_clip)
    }

    fn shares_rng_per_video(&self) -> bool {
        matches!(self.options.starts, ClipStarts::Random(_))
    }

    /// Random clips use random numbers as `torch.rand(num_clips, dtype=torch.float64)` does: one float each,
    /// in order.
    fn clip(&self, video: &dyn VideoTiming, number: u64, rng: &mut dyn RandomSource) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
        let range = self.range(video)?;
        let begin = match self.options.starts {
            ClipStarts::Random(clips) => {
                // All numbers are generated, as in torch, although one is used.
                let all: Vec<f64> = (0..clips).map(|_| rng.next_f64()).collect();
                all[number as usize] * (range.end - range.start) + range.start
            }
            ClipStarts::Regular(seconds) => range.regular(seconds).1(number),
        };
        let length = self.options.num_frames_per_clip;
        let moments = (0..length).map(|i| begin + f64::from(i) * range.between_frames);
        let on_screen = |at: f64| frame_partition_point(video, |frame| video.pts_seconds(frame + 1) <= at);
        let exist = moments.take_while(|&at| at < range.end_of_video).map(on_screen).collect();
        self.options.policy.fill(exist, length)
    }

    fn min_length_hint(&self) -> String {
        match self.options.seconds_between_frames {
            Some(seconds) => {
                format!("more than {} seconds", f64::from(self.options.num_frames_per_clip - 1) * seconds)
            }
            None => format!("{} frames", self.options.num_frames_per_clip),
        }
    }
}
