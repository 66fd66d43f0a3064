//! Reproduces the frame indices of mmaction2's sampling transforms (open-mmlab/mmaction2, version
//! 1, mmaction/datasets/transforms/loading.py). One clip is one of the original's `num_clips`,
//! which it returns in one item; a test has these clips times the crops of a transform (ThreeCrop).

use serde::Deserialize;

use super::arithmetic::{floor_div, linspace};
use super::formula::{Formula, Shape, clamp, draw, draw_sorted};
use super::options::{Count, Positive, check_product};
use crate::clip_sampler::{ClipIndices, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// How to pad positions past the end of the video.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OutOfBound {
    /// Restarts the video: position modulo number of frames.
    Loop,
    /// The latest frame of the clip that is inside the video; frame 0 if there is none.
    RepeatLast,
}

impl OutOfBound {
    /// The frames at `positions`, which must not be negative. They are truncated to integers last,
    /// as in the original.
    fn resolve(self, positions: &[f64], num_frames: u32) -> ClipIndices {
        let end = f64::from(num_frames);
        let inside = |at: &f64| *at < end;
        let last = positions
            .iter()
            .copied()
            .filter(|at| inside(at))
            .fold(0.0, f64::max);
        let shown = |at: &f64| match self {
            _ if inside(at) => *at,
            OutOfBound::Loop => at % end,
            OutOfBound::RepeatLast => last,
        };
        ClipIndices {
            indices: positions.iter().map(|at| shown(at) as u32).collect(),
            mask: positions.iter().map(inside).collect(),
        }
    }
}

/// `temporal_jitter`: samples a number below `frame_interval` for each frame of each clip and adds
/// those of one clip.
fn jitter(
    positions: &mut [f64],
    interval: Count,
    (clip, clips): (u64, u64),
    rng: &mut dyn RandomSource,
) {
    let frames = positions.len() as u64;
    let drawn = draw(rng, interval.u64(), frames * clips);
    for (at, add) in positions
        .iter_mut()
        .zip(drawn.iter().skip((clip * frames) as usize))
    {
        *at += *add as f64;
    }
}

/// `SampleFrames`: clips from equal parts of the video, at a random position of each in training,
/// evenly spread in test. Starts are floats, as they are in the original if `target_fps` or
/// `keep_tail_frames` is set.
///
/// Random numbers in training: one start per clip (`next_below(part)`, or `next_below(starts)` and
/// sorted if parts would be empty; `next_f64` with `keep_tail_frames`; none if the video is too
/// short), then with `temporal_jitter` `next_below(frame_interval)` for each frame of each clip. In
/// test only the jitter is random.
///
/// Reproduced from the original: with `twice_sample` and more than one frame per clip, the second
/// half of the clips continues past the end of the video (the step is that of `num_clips`). With
/// `target_fps` the jitter is one number per clip, which NumPy adds to all frames of a single clip,
/// or to the columns if there are as many clips as frames.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleFrames {
    clip_len: Count,
    frame_interval: Count,
    num_clips: Count,
    temporal_jitter: bool,
    twice_sample: bool,
    out_of_bound_opt: OutOfBound,
    test_mode: bool,
    keep_tail_frames: bool,
    target_fps: Option<Positive>,
}

impl SampleFrames {
    fn total_clips(&self) -> u64 {
        self.num_clips.u64() << u32::from(self.test_mode && self.twice_sample)
    }

    /// Frames that a clip spans, as a float.
    fn span(&self, video: &dyn VideoTiming) -> f64 {
        let (length, interval) = (self.clip_len.f64(), self.frame_interval.f64());
        match self.target_fps {
            Some(target) => match video.average_fps() {
                fps if fps > 0.0 => (length * interval * (fps / target.0)).max(1.0),
                _ => length * interval, // an unknown rate is assumed to be the target rate
            },
            None if self.test_mode => (length - 1.0) * interval + 1.0,
            None => length * interval,
        }
    }

    fn training_starts(&self, frames: f64, span: f64, rng: &mut dyn RandomSource) -> Vec<f64> {
        let clips = self.num_clips.f64();
        let number = || (0..self.num_clips.0).map(f64::from);
        let starts = frames - span + 1.0;
        let part = if self.keep_tail_frames {
            starts / clips
        } else {
            floor_div(starts, clips)
        };
        if self.keep_tail_frames && frames > span - 1.0 {
            return number()
                .map(|i| (i * part + part * rng.next_f64()).trunc())
                .collect();
        }
        if self.keep_tail_frames {
            return number().map(|_| 0.0).collect();
        }
        if part > 0.0 {
            return number()
                .map(|i| i * part + rng.next_below(part as u64) as f64)
                .collect();
        }
        if frames > clips.max(span) {
            let drawn = draw_sorted(rng, starts as u64, self.num_clips.u64());
            return drawn.into_iter().map(|start| start as f64).collect();
        }
        let apart = if part == 0.0 { starts / clips } else { 0.0 };
        number().map(|i| (i * apart).round_ties_even()).collect()
    }

    fn test_start(&self, frames: f64, span: f64, clip: u64) -> f64 {
        let clips = self.num_clips.f64();
        if self.clip_len.0 == 1 {
            let part = frames / clips;
            return match clip.checked_sub(self.num_clips.u64()) {
                None => clip as f64 * part + part / 2.0,
                Some(second) => second as f64 * part,
            };
        }
        let most = (frames - span).max(0.0);
        match self.target_fps {
            _ if self.total_clips() == 1 => floor_div(most, 2.0),
            Some(_) => clip as f64 * (most / (clips - 1.0)).floor(),
            None => (clip as f64 * (most / (clips - 1.0))).round_ties_even(),
        }
    }
}

impl Formula for SampleFrames {
    /// Rejects options with which the original fails on every video.
    fn check(&self) -> Result<()> {
        check_product("clip_len * num_clips", &[self.clip_len, self.num_clips])?;
        if self.test_mode && self.twice_sample && self.clip_len.0 > 1 && self.num_clips.0 == 1 {
            return Err(Error::Argument(
                "num_clips must be at least 2 with twice_sample and clip_len above 1, got 1; the original divides by num_clips - 1"
                    .into(),
            ));
        }
        let has_columns = [1, self.clip_len.u64()].contains(&self.total_clips());
        if self.temporal_jitter && self.target_fps.is_some() && !has_columns {
            return Err(Error::Argument(format!(
                "num_clips must be 1 or clip_len={} with temporal_jitter and target_fps, got {}; the original cannot add its jitter",
                self.clip_len.0,
                self.total_clips()
            )));
        }
        Ok(())
    }

    fn shape(&self) -> Shape {
        Shape {
            clips: Some(self.total_clips()),
            length: Some(self.clip_len.0),
            draws_together: true,
        }
    }

    fn frames(
        &self,
        video: &dyn VideoTiming,
        clip: u64,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        let (frames, span) = (f64::from(video.num_frames()), self.span(video));
        let start = match self.test_mode {
            true => self.test_start(frames, span, clip),
            false => self.training_starts(frames, span, rng)[clip as usize],
        };
        let interval = self.frame_interval;
        let mut positions: Vec<f64> = match self.target_fps {
            Some(_) => linspace(0.0, span - 1.0, self.clip_len.0)
                .into_iter()
                .map(|at| start + at.trunc())
                .collect(),
            None => (0..self.clip_len.0)
                .map(|i| start + f64::from(i) * interval.f64())
                .collect(),
        };
        if self.temporal_jitter && self.target_fps.is_some() {
            let drawn = draw(rng, interval.u64(), self.total_clips());
            positions
                .iter_mut()
                .zip(drawn.iter().cycle())
                .for_each(|(at, &add)| *at += add as f64);
        } else if self.temporal_jitter {
            jitter(&mut positions, interval, (clip, self.total_clips()), rng);
        }
        Ok(self
            .out_of_bound_opt
            .resolve(&positions, video.num_frames()))
    }
}

/// `DenseSampleFrames`: clips that start at even distances within a range of `sample_range` frames.
/// `num_clips` clips in training, `num_sample_positions * num_clips` in test, position by position.
/// Starts past the end wrap.
///
/// Random numbers: in training, for a video longer than `sample_range`, one start of the range
/// (`next_below(frames - sample_range)`); then with `temporal_jitter` `next_below(frame_interval)`
/// for each frame of each clip.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DenseSampleFrames {
    clip_len: Count,
    frame_interval: Count,
    num_clips: Count,
    sample_range: Count,
    num_sample_positions: Count,
    temporal_jitter: bool,
    out_of_bound_opt: OutOfBound,
    test_mode: bool,
}

impl DenseSampleFrames {
    fn total_clips(&self) -> u64 {
        self.num_clips.u64()
            * if self.test_mode {
                self.num_sample_positions.u64()
            } else {
                1
            }
    }
}

impl Formula for DenseSampleFrames {
    fn check(&self) -> Result<()> {
        let all = [self.clip_len, self.num_clips, self.num_sample_positions];
        check_product("clip_len * num_clips * num_sample_positions", &all)
    }

    fn shape(&self) -> Shape {
        Shape {
            clips: Some(self.total_clips()),
            length: Some(self.clip_len.0),
            draws_together: true,
        }
    }

    fn frames(
        &self,
        video: &dyn VideoTiming,
        clip: u64,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        let (frames, clips) = (video.num_frames(), self.num_clips.u64());
        let range = match frames.saturating_sub(self.sample_range.0) {
            last if self.test_mode => {
                let ranges = linspace(0.0, f64::from(last), self.num_sample_positions.0);
                ranges[(clip / clips) as usize] as u64
            }
            0 => 0,
            last => rng.next_below(u64::from(last)), // never the last one: the original's bound is exclusive
        };
        let within = clip % clips * u64::from(self.sample_range.0 / self.num_clips.0);
        let start = (range + within) % u64::from(frames);
        let mut positions: Vec<f64> = (0..self.clip_len.u64())
            .map(|i| (start + i * self.frame_interval.u64()) as f64)
            .collect();
        if self.temporal_jitter {
            jitter(
                &mut positions,
                self.frame_interval,
                (clip, self.total_clips()),
                rng,
            );
        }
        Ok(self.out_of_bound_opt.resolve(&positions, frames))
    }
}

/// `UniformSample`: one frame from each of `clip_len` equal parts of the video; short videos repeat
/// frames. In training one clip with a random frame of each part, in test `num_clips` clips whose
/// frames are at even distances within the parts, which are those of PySlowFast's
/// Something-Something V2.
///
/// Random numbers in training: `next_below(end - start + 1)` for each frame, in order. The original
/// does not support several clips in training (its next transforms fail on them).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UniformSample {
    clip_len: Count,
    num_clips: Count,
    test_mode: bool,
}

impl Formula for UniformSample {
    fn check(&self) -> Result<()> {
        if self.test_mode || self.num_clips.0 == 1 {
            return Ok(());
        }
        Err(Error::Argument(format!(
            "num_clips must be 1 in training, got {}; set test_mode for several clips",
            self.num_clips.0
        )))
    }

    fn shape(&self) -> Shape {
        Shape {
            clips: Some(self.num_clips.u64()),
            length: Some(self.clip_len.0),
            draws_together: true,
        }
    }

    fn frames(
        &self,
        video: &dyn VideoTiming,
        clip: u64,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        let part = f64::from(video.num_frames() - 1) / self.clip_len.f64();
        let bound = |i: u32| (part * f64::from(i)).round_ties_even() as i64;
        let within = (part / (self.num_clips.f64() + 1.0) * (clip as f64 + 1.0)) as i64;
        let positions = (0..self.clip_len.0).map(|i| match self.test_mode {
            true => bound(i) + within,
            false => bound(i) + rng.next_below((bound(i + 1) - bound(i)) as u64 + 1) as i64,
        });
        Ok(clamp(positions, video.num_frames()))
    }
}

/// `UntrimmedSampleFrames`: clips around frame `clip_interval / 2` and every `clip_interval` frames
/// after it; frames outside repeat the first or the last one. A video too short for the first
/// center yields no clips, where the original fails.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UntrimmedSampleFrames {
    clip_len: Count,
    clip_interval: Count,
    frame_interval: Count,
}

impl Formula for UntrimmedSampleFrames {
    fn shape(&self) -> Shape {
        Shape {
            clips: None,
            length: Some(self.clip_len.0),
            draws_together: false,
        }
    }

    fn clips(&self, video: &dyn VideoTiming) -> u64 {
        let after_first = video.num_frames().saturating_sub(self.clip_interval.0 / 2);
        after_first.div_ceil(self.clip_interval.0).into()
    }

    fn frames(
        &self,
        video: &dyn VideoTiming,
        clip: u64,
        _: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        let (length, interval) = (self.clip_len.i64(), self.clip_interval.i64());
        let center = interval / 2 + clip as i64 * interval; // inside the video
        let positions = (0..length).map(|i| center + (i - length / 2) * self.frame_interval.i64());
        Ok(clamp(positions, video.num_frames()))
    }

    fn min_length_hint(&self) -> String {
        format!("{} frames", self.clip_interval.0 / 2 + 1)
    }
}
