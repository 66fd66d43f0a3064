//! Reproduces the frame indices of InternVideo2: one clip over the whole video. Formulas:
//! OpenGVLab/InternVideo, InternVideo2/multi_modality/dataset/video_utils.py, `get_frame_indices`. The
//! readers of the original differ only in decoding.

use super::common::{check_count, check_range, require_fps, MAX_PRODUCT};
use super::numpy_compat::{arange, int, linspace, round};
use crate::clip_sampler::common::check_clip_index;
use crate::clip_sampler::{ClipIndices, ClipSampler, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// Which frames to sample (`sample`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SampleMode {
    /// `rand`: a random frame of each of `num_frames` intervals.
    Rand,
    /// `middle`: the middle frame of each interval, or its first frame plus `fix_start` if that is given.
    Middle,
    /// `fps0.5` and similar: this number of frames per second; the total number of frames varies.
    Fps(f64),
}

impl SampleMode {
    /// Parses the option string of the original.
    pub fn parse(word: &str) -> Result<Self> {
        match (word, word.strip_prefix("fps").map(str::parse::<f64>)) {
            ("rand", _) => Ok(Self::Rand),
            ("middle", _) => Ok(Self::Middle),
            (_, Some(Ok(fps))) => check_range("sample's frames per second", fps).map(Self::Fps),
            _ => Err(Error::Argument(format!(
                "sample must be \"rand\", \"middle\" or \"fps\" and a number, got {word:?}; use \"fps1\" for one frame per second"
            ))),
        }
    }
}

/// Options of `read_frames_decord`, with its names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadFramesOptions {
    /// Frames of a clip; ignored with [`SampleMode::Fps`].
    pub num_frames: u32,
    /// Which frames to sample (`sample`).
    pub sample: SampleMode,
    /// With [`SampleMode::Middle`]: distance in frames from the start of an interval.
    pub fix_start: Option<u32>,
    /// With [`SampleMode::Fps`]: the maximum number of frames; the first ones are kept. `None` (-1 in the original)
    /// for all.
    pub max_num_frames: Option<u32>,
    /// Only the first 30 seconds.
    pub trimmed30: bool,
}

/// `get_frame_indices`: one clip. A video of fewer than `num_frames` frames shows all frames, then repeats
/// its last one.
///
/// Random numbers of `rand`: `next_below(length - 1)` for each interval (the last frame of an interval is never
/// taken). If any interval has a single frame, the original fails at that and takes a random subset instead:
/// `next_below(i)` for i from the number of frames down to 2, the swaps of NumPy's `permutation`.
///
/// With `fix_start` a frame past the end is an error. With a rate, a video too short for one frame yields no
/// clip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadFrames(ReadFramesOptions);

impl ReadFrames {
    /// Checks the options.
    pub fn new(options: ReadFramesOptions) -> Result<Self> {
        check_count("num_frames", options.num_frames)?;
        options.fix_start.map_or(Ok(()), |start| match start {
            0 => Ok(()),
            _ => check_count("fix_start", start).map(drop),
        })?;
        if let Some(most) = options.max_num_frames {
            check_count("max_num_frames", most)?;
        }
        Ok(Self(options))
    }

    /// Number of frames of a non-empty video that are sampled from.
    fn frames(&self, video: &dyn VideoTiming) -> Result<u32> {
        let frames = video.num_frames();
        if !self.0.trimmed30 {
            return Ok(frames);
        }
        let fps = require_fps("internvideo2", video)?;
        match f64::from(frames) / fps > 30.0 {
            true => Ok((30.0 * fps) as u32),
            false => Ok(frames),
        }
    }

    /// Number and positions of the frames at a rate, including positions outside the video.
    fn at_rate(frames: u32, input_fps: f64, output_fps: f64) -> (u64, impl Fn(u64) -> i64) {
        let (duration, delta) = (f64::from(frames) / input_fps, 1.0 / output_fps);
        let (count, second) = arange(delta / 2.0, duration + delta / 2.0, delta);
        (count, move |i| int(round(second(i) * input_fps)))
    }

    fn by_rate(&self, video: &dyn VideoTiming, frames: u32, output_fps: f64) -> Result<ClipIndices> {
        let (count, frame) = Self::at_rate(frames, require_fps("internvideo2", video)?, output_fps);
        if count > MAX_PRODUCT {
            return Err(Error::Argument(format!(
                "sample must be at most {MAX_PRODUCT} frames of a video, got \"fps{output_fps}\" and {count} frames; use a lower rate"
            )));
        }
        let inside = (0..count).map(frame).filter(|&at| at < i64::from(frames));
        let most = self.0.max_num_frames.map_or(usize::MAX, |most| most as usize);
        Ok(ClipIndices::unpadded(inside.take(most).map(|at| at as u32).collect()))
    }

    /// One frame of each interval.
    fn by_interval(&self, frames: u32, rng: &mut dyn RandomSource) -> Result<Vec<u32>> {
        let bounds = linspace(0.0, f64::from(frames), self.0.num_frames.min(frames) + 1);
        let bounds: Vec<u32> = bounds.into_iter().map(|at| at as u32).collect();
        let mut intervals = bounds.iter().zip(bounds.iter().skip(1));
        if self.0.sample == SampleMode::Rand {
            return Ok(match intervals.clone().all(|(begin, end)| end - begin > 1) {
                true => intervals
                    .map(|(begin, end)| begin + rng.next_below(u64::from(end - begin - 1)) as u32)
                    .collect(),
                false => subset(frames, bounds.len() - 1, rng),
            });
        }
        let Some(start) = self.0.fix_start else {
            return Ok(intervals
                .map(|(begin, end)| ((u64::from(*begin) + u64::from(*end) - 1) / 2) as u32)
                .collect());
        };
        let fixed: Vec<u64> =
            intervals.by_ref().map(|(begin, _)| u64::from(*begin) + u64::from(start)).collect();
        match fixed.last() {
            Some(&last) if last >= u64::from(frames) => Err(Error::Argument(format!(
                "fix_start must leave every frame inside the video, got {start} for {frames} frames; use a \
                 smaller one, or omit it"
            ))),
            _ => Ok(fixed.into_iter().map(|at| at as u32).collect()),
        }
    }
}

/// The first `count` frames of a random permutation of all frames, sorted.
fn subset(frames: u32, count: usize, rng: &mut dyn RandomSource) -> Vec<u32> {
    let mut order: Vec<u32> = (0..frames).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, rng.next_below(i as u64 + 1) as usize);
    }
    order.truncate(count);
    order.sort_unstable();
    order
}

impl ClipSampler for ReadFrames {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        let first = |output_fps| {
            let frames = self.frames(video).ok()?;
            let (count, frame) = Self::at_rate(frames, require_fps("internvideo2", video).ok()?, output_fps);
            Some(count > 0 && frame(0) < i64::from(frames))
        };
        match self.0.sample {
            _ if video.num_frames() == 0 => 0,
            SampleMode::Fps(output_fps) => u64::from(first(output_fps) != Some(false)), // unknown rate: clip fails
            SampleMode::Rand | SampleMode::Middle => 1,
        }
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        (!matches!(self.0.sample, SampleMode::Fps(_))).then_some(1)
    }

    fn sequence_length(&self) -> Option<u32> {
        (!matches!(self.0.sample, SampleMode::Fps(_))).then_some(self.0.num_frames)
    }

    fn clip(&self, video: &dyn VideoTiming, number: u64, rng: &mut dyn RandomSource) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
        let frames = self.frames(video)?;
        if let SampleMode::Fps(output_fps) = self.0.sample {
            return self.by_rate(video, frames, output_fps);
        }
        let mut indices = self.by_interval(frames, rng)?;
        let (real, wanted) = (indices.len(), self.0.num_frames as usize);
        indices.resize(wanted.max(real), indices.last().copied().unwrap_or(0));
        Ok(ClipIndices { mask: (0..indices.len()).map(|i| i < real).collect(), indices })
    }

    fn min_length_hint(&self) -> String {
        match self.0.sample {
            SampleMode::Fps(fps) => format!("{} seconds", 0.5 / fps),
            SampleMode::Rand | SampleMode::Middle => "1 frame".to_owned(),
        }
    }
}
