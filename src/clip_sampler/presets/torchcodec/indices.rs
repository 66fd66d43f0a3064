//! Reproduces `clips_at_random_indices` and `clips_at_regular_indices` of torchcodec.
//! A clip begins at a random or evenly spread frame of a range and takes frames at a constant distance.

use super::Policy;
use crate::clip_sampler::common::check_clip_index;
use crate::clip_sampler::presets::common::{check_count, clips_unless_empty};
use crate::clip_sampler::presets::numpy_compat::torch_linspace_int_at;
use crate::clip_sampler::{ClipIndices, ClipSampler, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// The options, with torchcodec's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndicesOptions {
    /// Clips begin at random frames instead of regular ones.
    pub random: bool,
    /// Clips of each video.
    pub num_clips: u32,
    /// Frames per clip.
    pub num_frames_per_clip: u32,
    /// Distance between frames of a clip; 1 for consecutive frames.
    pub num_indices_between_frames: u32,
    /// First frame at which a clip may begin; counted from the end if negative.
    pub sampling_range_start: i64,
    /// Clips begin before this frame, which is counted from the end if negative. `None`: clips must fit into
    /// the video.
    pub sampling_range_end: Option<i64>,
    /// How to pad clips past the end.
    pub policy: Policy,
}

/// Clips by frame number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Indices {
    options: IndicesOptions,
}

impl Indices {
    /// Checks the options.
    pub fn new(options: IndicesOptions) -> Result<Self> {
        check_count("num_clips", options.num_clips)?;
        check_count("num_frames_per_clip", options.num_frames_per_clip)?;
        check_count("num_indices_between_frames", options.num_indices_between_frames)?;
        Ok(Self { options })
    }

    /// The range of starts: the first one, and the end (exclusive).
    fn range(&self, num_frames: u32) -> Result<(i64, i64)> {
        let options = &self.options;
        let (frames, span) = (i64::from(num_frames), self.span());
        let from_end = |at: i64| if at < 0 { frames.saturating_add(at) } else { at };
        let start = from_end(options.sampling_range_start);
        let end =
            options.sampling_range_end.map_or((frames - span + 1).max(1), |end| from_end(end).min(frames));
        if (0..frames).contains(&start) && start < end {
            return Ok((start, end));
        }
        Err(Error::Argument(format!(
            "sampling_range_start must be inside the video and below sampling_range_end, got {start} and {end} \
             with {frames} frames; choose another range, or leave this video out"
        )))
    }

    /// Frames from the first to the last frame of a clip, inclusive.
    fn span(&self) -> i64 {
        let options = &self.options;
        i64::from(options.num_indices_between_frames) * (i64::from(options.num_frames_per_clip) - 1) + 1
    }
}

impl ClipSampler for Indices {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        clips_unless_empty(video, self.options.num_clips)
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        Some(u64::from(self.options.num_clips))
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(self.options.num_frames_per_clip)
    }

    fn shares_rng_per_video(&self) -> bool {
        self.options.random
    }

    /// Random clips use random numbers as `torch.randint(sampling_range_start, sampling_range_end,
    /// (num_clips,))` does: the start of each clip, in order, below the length of the range.
    fn clip(&self, video: &dyn VideoTiming, number: u64, rng: &mut dyn RandomSource) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
        let options = &self.options;
        let frames = video.num_frames();
        let (start, end) = self.range(frames)?;
        let begin = match options.random {
            true => {
                let drawn = (0..u64::from(options.num_clips)).map(|_| rng.next_below((end - start) as u64));
                // All numbers are generated, as in torch, although one is used.
                let all: Vec<u64> = drawn.collect();
                start + all[number as usize] as i64
            }
            false => torch_linspace_int_at(start, end - 1, options.num_clips, number as u32),
        };
        let (length, apart) = (options.num_frames_per_clip, i64::from(options.num_indices_between_frames));
        let positions = (0..i64::from(length)).map(|i| begin + i * apart);
        let exist = positions.take_while(|&at| at < i64::from(frames)).map(|at| at as u32).collect();
        options.policy.fill(exist, length)
    }

    fn min_length_hint(&self) -> String {
        "1 frame".to_owned()
    }
}
