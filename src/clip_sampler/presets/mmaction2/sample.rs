//! Reproduces `SampleFrames` in training and in test, including its documented deviations.
//! Starts are floats throughout, as they are in the original if `target_fps` or `keep_tail_frames` is set.

use super::super::common::{check_count, check_product, check_range, clips_unless_empty, sample_integers};
use super::super::numpy_compat::{floor_div, int, linspace, round};
use super::{jitter, OutOfBound};
use crate::clip_sampler::common::check_clip_index;
use crate::clip_sampler::{ClipIndices, ClipSampler, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// Options of mmaction2's `SampleFrames`, with its names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleFramesOptions {
    /// Frames of a clip.
    pub clip_len: u32,
    /// Distance between frames of a clip.
    pub frame_interval: u32,
    /// Clips of a video.
    pub num_clips: u32,
    /// Adds a random part of the interval to each frame.
    pub temporal_jitter: bool,
    /// In test, twice as many clips.
    pub twice_sample: bool,
    /// How to pad positions past the end.
    pub out_of_bound_opt: OutOfBound,
    /// Test or validation instead of training.
    pub test_mode: bool,
    /// In training, samples starts from the whole range instead of from parts of integer length.
    pub keep_tail_frames: bool,
    /// Spans `clip_len * frame_interval` frames of a video of this rate, independent of the video's own rate.
    pub target_fps: Option<f64>,
}

/// `SampleFrames`: clips from equal parts of the video, at a random position of each in training, evenly
/// spread in test.
///
/// Random numbers in training, shared by all clips of a video: one start per clip (`next_below(part)`, or
/// `next_below(starts)` and sorted if parts would be empty; `next_f64` with `keep_tail_frames`; none if the video
/// is too short), then with `temporal_jitter` `next_below(frame_interval)` for each frame of each clip. In test
/// only the jitter is random.
///
/// Reproduced from the original: with `twice_sample` and more than one frame per clip, the second half of the
/// clips continues past the end of the video (the step is that of `num_clips`). With `target_fps` the jitter
/// is one number per clip, which NumPy adds to all frames of a single clip, or to the columns if there are as
/// many clips as frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleFrames(SampleFramesOptions);

impl SampleFrames {
    /// Checks the options; those with which the original fails on every video are rejected.
    pub fn new(options: SampleFramesOptions) -> Result<Self> {
        check_count("clip_len", options.clip_len)?;
        check_count("frame_interval", options.frame_interval)?;
        check_count("num_clips", options.num_clips)?;
        check_product("clip_len * num_clips", &[options.clip_len, options.num_clips])?;
        if let Some(fps) = options.target_fps {
            check_range("target_fps", fps)?;
        }
        let sampler = Self(options);
        if options.test_mode && options.twice_sample && options.clip_len > 1 && options.num_clips == 1 {
            return Err(Error::Argument(
                "num_clips must be at least 2 with twice_sample and clip_len above 1, got 1; the original divides by num_clips - 1"
                    .into(),
            ));
        }
        let columns = [1, u64::from(options.clip_len)].contains(&sampler.clips());
        if options.temporal_jitter && options.target_fps.is_some() && !columns {
            return Err(Error::Argument(format!(
                "num_clips must be 1 or clip_len={} with temporal_jitter and target_fps, got {}; the original cannot add its jitter",
                options.clip_len,
                sampler.clips()
            )));
        }
        Ok(sampler)
    }

    fn clips(&self) -> u64 {
        u64::from(self.0.num_clips) << u32::from(self.0.test_mode && self.0.twice_sample)
    }

    /// Frames that a clip spans, as a float.
    fn clip_span(&self, video: &dyn VideoTiming) -> f64 {
        let (length, interval) = (f64::from(self.0.clip_len), f64::from(self.0.frame_interval));
        match self.0.target_fps {
            Some(target) => match video.average_fps() {
                fps if fps > 0.0 => (length * interval * (fps / target)).max(1.0),
                _ => length * interval, // an unknown rate is assumed to be the target rate
            },
            None if self.0.test_mode => (length - 1.0) * interval + 1.0,
            None => length * interval,
        }
    }

    fn training_starts(&self, frames: f64, span: f64, rng: &mut dyn RandomSource) -> Vec<f64> {
        let clips = f64::from(self.0.num_clips);
        let number = || (0..self.0.num_clips).map(f64::from);
        let starts = frames - span + 1.0;
        if self.0.keep_tail_frames {
            let part = starts / clips;
            if frames > span - 1.0 {
                return number().map(|i| (i * part + part * rng.next_f64()).trunc()).collect();
            }
            return vec![0.0; self.0.num_clips as usize];
        }
        let part = floor_div(starts, clips);
        if part > 0.0 {
            return number().map(|i| i * part + rng.next_below(int(part) as u64) as f64).collect();
        }
        if frames > clips.max(span) {
            let mut drawn = sample_integers(rng, int(starts) as u64, u64::from(self.0.num_clips));
            drawn.sort_unstable();
            return drawn.into_iter().map(|start| start as f64).collect();
        }
        if part == 0.0 {
            return number().map(|i| round(i * (starts / clips))).collect();
        }
        vec![0.0; self.0.num_clips as usize]
    }

    fn test_start(&self, frames: f64, span: f64, clip: u64) -> f64 {
        let clips = f64::from(self.0.num_clips);
        if self.0.clip_len == 1 {
            let part = frames / clips;
            return match clip.checked_sub(u64::from(self.0.num_clips)) {
                None => clip as f64 * part + part / 2.0,
                Some(second) => second as f64 * part,
            };
        }
        let most = (frames - span).max(0.0);
        match self.0.target_fps {
            _ if self.clips() == 1 => floor_div(most, 2.0),
            Some(_) => clip as f64 * (most / (clips - 1.0)).floor(),
            None => round(clip as f64 * (most / (clips - 1.0))),
        }
    }

    fn start(&self, video: &dyn VideoTiming, span: f64, clip: u64, rng: &mut dyn RandomSource) -> f64 {
        let frames = f64::from(video.num_frames());
        match self.0.test_mode {
            true => self.test_start(frames, span, clip),
            false => self.training_starts(frames, span, rng)[clip as usize],
        }
    }
}

impl ClipSampler for SampleFrames {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        clips_unless_empty(video, 1) * self.clips()
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        Some(self.clips())
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(self.0.clip_len)
    }

    fn shares_rng_per_video(&self) -> bool {
        true
    }

    fn clip(&self, video: &dyn VideoTiming, number: u64, rng: &mut dyn RandomSource) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
        let SampleFramesOptions { clip_len, frame_interval, .. } = self.0;
        let span = self.clip_span(video);
        let start = self.start(video, span, number, rng);
        let mut positions: Vec<f64> = match self.0.target_fps {
            Some(_) => linspace(0.0, span - 1.0, clip_len).into_iter().map(|at| start + at.trunc()).collect(),
            None => (0..clip_len).map(|i| start + f64::from(i) * f64::from(frame_interval)).collect(),
        };
        if self.0.temporal_jitter {
            match self.0.target_fps {
                Some(_) => {
                    let drawn = sample_integers(rng, u64::from(frame_interval), self.clips());
                    let repeated = drawn.iter().cycle();
                    positions.iter_mut().zip(repeated).for_each(|(at, &add)| *at += add as f64);
                }
                None => jitter(&mut positions, frame_interval, (number, self.clips()), rng),
            }
        }
        Ok(self.0.out_of_bound_opt.resolve(&positions, video.num_frames()))
    }

    fn min_length_hint(&self) -> String {
        "1 frame".to_owned()
    }
}
