//! Reproduces torchcodec's clip samplers, with the options named as there. Formulas:
//! pytorch/torchcodec, `torchcodec/samplers/_index_based.py`, `_time_based.py` and `_common.py`.

use serde::Deserialize;

use super::arithmetic::{arange_count, torch_arange_f64, torch_linspace_int_at};
use super::formula::{Formula, Shape, draw, require_fps, require_in_range, with_padding};
use super::options::{Count, Positive, needed};
use crate::clip_sampler::clip_spec::partition_point;
use crate::clip_sampler::{ClipIndices, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// How to pad a clip past the end of the video.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Policy {
    /// Repeats the clip's last real frame.
    RepeatLast,
    /// Restarts the clip.
    Wrap,
    /// Returns an error.
    Error,
}

impl Policy {
    /// A clip of `length` frames of which those in `exist` (at least one) are real.
    fn fill(self, exist: Vec<u32>, length: Count) -> Result<ClipIndices> {
        let found = exist.len();
        let Some(&last) = exist.last() else {
            return Err(Error::Argument(
                "a clip must start inside the video; move sampling_range_start".into(),
            ));
        };
        let missing = length.0 as usize - found;
        if missing > 0 && self == Policy::Error {
            return Err(Error::Argument(format!(
                "policy must be \"repeat_last\" or \"wrap\" for a clip with {found} of {} frames inside the video, \
                 got \"error\"; or omit sampling_range_end",
                length.0
            )));
        }
        Ok(match self {
            Policy::Wrap => with_padding(exist.clone(), exist.into_iter().cycle().take(missing)),
            _ => with_padding(exist, std::iter::repeat_n(last, missing)),
        })
    }
}

/// `clips_at_random_indices`, `clips_at_regular_indices`: a clip begins at a random or evenly
/// spread frame of a range and takes frames at a constant distance. Ends of the range below 0 count
/// from the end of the video. Reproduced from the original: before the video's first frame, which
/// such a start may be, come its last frames.
///
/// Random clips use random numbers as `torch.randint(sampling_range_start, sampling_range_end,
/// (num_clips,))` does: the start of each clip, in order, below the length of the range.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Indices<const RANDOM: bool> {
    num_clips: Count,
    num_frames_per_clip: Count,
    num_indices_between_frames: Count,
    sampling_range_start: i64,
    sampling_range_end: Option<i64>,
    policy: Policy,
}

impl<const RANDOM: bool> Indices<RANDOM> {
    /// The range of starts: the first one, and the end (exclusive).
    fn range(&self, num_frames: u32) -> Result<(i64, i64)> {
        let frames = i64::from(num_frames);
        let span = self.num_indices_between_frames.i64() * (self.num_frames_per_clip.i64() - 1) + 1;
        let from_end = |at: i64| {
            if at < 0 {
                frames.saturating_add(at)
            } else {
                at
            }
        };
        let start = from_end(self.sampling_range_start);
        let end = self
            .sampling_range_end
            .map_or((frames - span + 1).max(1), |end| from_end(end).min(frames));
        // Also keeps differences and sums of positions within 64 bits.
        if (-i64::from(u32::MAX)..frames).contains(&start) && start < end {
            return Ok((start, end));
        }
        Err(Error::Argument(format!(
            "sampling_range_start must be inside the video and below sampling_range_end, got {start} and {end} \
             with {frames} frames; choose another range, or leave this video out"
        )))
    }
}

impl<const RANDOM: bool> Formula for Indices<RANDOM> {
    fn shape(&self) -> Shape {
        Shape {
            clips: Some(self.num_clips.u64()),
            length: Some(self.num_frames_per_clip.0),
            draws_together: RANDOM,
        }
    }

    fn frames(
        &self,
        video: &dyn VideoTiming,
        clip: u64,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        let frames = video.num_frames();
        let (start, end) = self.range(frames)?;
        let begin = match RANDOM {
            true => {
                start + draw(rng, (end - start) as u64, self.num_clips.u64())[clip as usize] as i64
            }
            false => torch_linspace_int_at(start, end - 1, self.num_clips.0, clip as u32),
        };
        let positions = (0..self.num_frames_per_clip.i64())
            .map(|i| begin.saturating_add(i * self.num_indices_between_frames.i64()));
        // A range may begin before the video. torchcodec's decoder counts such frames from the end.
        let frame = |at: i64| match at {
            ..0 => at.saturating_add(frames.into()),
            _ => at,
        };
        let exist = require_in_range(
            positions
                .take_while(|&at| at < i64::from(frames))
                .map(frame),
            frames,
        )?;
        self.policy.fill(exist.indices, self.num_frames_per_clip)
    }
}

/// `clips_at_random_timestamps` if `num_clips` is given, `clips_at_regular_timestamps` if
/// `seconds_between_clip_starts` is: the frames on screen at a sequence of timestamps. Float64
/// results are bit-exact, so a rounding error selects the previous frame wherever it does in the
/// original. `None`: frames at the average rate; clips begin from the first frame's timestamp to
/// where they fit into the video.
///
/// Random clips use random numbers as `torch.rand(num_clips, dtype=torch.float64)` does: one float
/// each, in order.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timestamps {
    num_clips: Option<Count>,
    seconds_between_clip_starts: Option<Positive>,
    num_frames_per_clip: Count,
    seconds_between_frames: Option<Positive>,
    sampling_range_start: Option<f64>,
    sampling_range_end: Option<f64>,
    policy: Policy,
}

/// The options resolved for one video, in seconds.
struct Range {
    start: f64,
    end: f64,
    between_frames: f64,
    end_of_video: f64,
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

impl Timestamps {
    fn range(&self, video: &dyn VideoTiming) -> Result<Range> {
        let (begin, end_of_video) = (video.pts_seconds(0), video.pts_seconds(video.num_frames()));
        let between_frames = match self.seconds_between_frames {
            Some(seconds) => seconds.0,
            // torchcodec's average rate: the number of frames divided by the difference of two
            // rounded times.
            None if end_of_video > begin => {
                1.0 / (f64::from(video.num_frames()) / (end_of_video - begin))
            }
            None => 1.0 / require_fps("torchcodec", video)?,
        };
        let last = (self.num_frames_per_clip.f64() - 1.0) * between_frames;
        let start = self.sampling_range_start.unwrap_or(begin);
        let end = self.sampling_range_end.unwrap_or(end_of_video - last);
        if start >= begin && start < end_of_video && end > begin && start < end {
            return Ok(Range {
                start,
                end: end.min(end_of_video),
                between_frames,
                end_of_video,
            });
        }
        Err(Error::Argument(format!(
            "sampling_range_start must be inside the video and below sampling_range_end, got {start} and {end} \
             in a video from {begin} to {end_of_video} seconds; choose another range, or leave this video out"
        )))
    }
}

impl Formula for Timestamps {
    fn check(&self) -> Result<()> {
        if self.num_clips.is_some() {
            return Ok(());
        }
        needed(
            "seconds_between_clip_starts",
            "regular clips",
            self.seconds_between_clip_starts,
        )
        .map(drop)
    }

    fn shape(&self) -> Shape {
        Shape {
            clips: self.num_clips.map(Count::u64),
            length: Some(self.num_frames_per_clip.0),
            draws_together: self.num_clips.is_some(),
        }
    }

    fn clips(&self, video: &dyn VideoTiming) -> u64 {
        match (self.num_clips, self.seconds_between_clip_starts) {
            (None, Some(seconds)) => self
                .range(video)
                .map_or(0, |range| range.regular(seconds.0).0),
            (clips, _) => clips.map_or(0, Count::u64),
        }
    }

    fn frames(
        &self,
        video: &dyn VideoTiming,
        clip: u64,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        let range = self.range(video)?;
        let begin = match (self.num_clips, self.seconds_between_clip_starts) {
            (None, Some(seconds)) => range.regular(seconds.0).1(clip),
            (clips, _) => {
                // All numbers are generated, as in torch, although one is used.
                let drawn: Vec<f64> = (0..clips.map_or(0, Count::u64))
                    .map(|_| rng.next_f64())
                    .collect();
                drawn[clip as usize] * (range.end - range.start) + range.start
            }
        };
        let moments =
            (0..self.num_frames_per_clip.0).map(|i| begin + f64::from(i) * range.between_frames);
        let on_screen = |at: f64| {
            partition_point(video.num_frames(), |frame| {
                video.pts_seconds(frame + 1) <= at
            })
        };
        let exist = moments
            .take_while(|&at| at < range.end_of_video)
            .map(on_screen)
            .collect();
        self.policy.fill(exist, self.num_frames_per_clip)
    }

    fn min_length_hint(&self) -> String {
        match self.seconds_between_frames {
            Some(seconds) => {
                format!(
                    "more than {} seconds",
                    (self.num_frames_per_clip.f64() - 1.0) * seconds.0
                )
            }
            None => format!("{} frames", self.num_frames_per_clip.0),
        }
    }
}
