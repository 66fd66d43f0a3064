//! Reproduces PyTorchVideo's clip samplers, with exact times as in the original, which uses
//! fractions. Formulas: facebookresearch/pytorchvideo, `data/clip_sampling.py`,
//! `data/encoded_video_pyav.py` (the frames in a clip), `transforms/functional.py`
//! (`uniform_temporal_subsample`).

use std::fmt;

use num_rational::BigRational;
use num_traits::{Signed, ToPrimitive, Zero};
use serde::Deserialize;

use super::arithmetic::torch_linspace;
use super::formula::{Formula, Shape, checked_length};
use super::options::{Count, MAX_COUNT, needed, only_for};
use crate::clip_sampler::clip_spec::partition_point;
use crate::clip_sampler::video_timing::Timestamp;
use crate::clip_sampler::{ClipIndices, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// Tolerance within which the original considers two times equal (`eps`), in seconds.
const EPSILON: f64 = 1e-6;

/// A number of seconds as the user gave it. Python code that uses `Fraction` computes exactly with
/// integers and fractions, and switches to floats when an operand is a float.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged, expecting = "a float, an int or a fractions.Fraction")]
enum Seconds {
    Int(i64),
    Ratio(i64, i64),
    Float(f64),
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Seconds::Int(value) => value.fmt(f),
            Seconds::Ratio(numerator, denominator) => write!(f, "{numerator}/{denominator}"),
            Seconds::Float(value) => write!(f, "{value:?}"), // with a point: 1.0
        }
    }
}

impl Seconds {
    /// The exact value; 0, which no option may be, for a denominator of 0.
    fn exact(self) -> BigRational {
        match self {
            Seconds::Int(value) => BigRational::from_integer(value.into()),
            Seconds::Ratio(_, 0) => BigRational::zero(),
            Seconds::Ratio(numerator, denominator) => {
                BigRational::new(numerator.into(), denominator.into())
            }
            Seconds::Float(value) => exact(value),
        }
    }

    fn check(self, name: &str) -> Result<()> {
        let (least, most) = (1e-3, 1e6);
        if (least..=most).contains(&float(&self.exact())) {
            return Ok(());
        }
        Err(Error::Argument(format!(
            "{name} must be from {least} to {most} seconds, got {self}; give a float or a fraction"
        )))
    }
}

/// The exact value of a float, which is finite.
fn exact(value: f64) -> BigRational {
    BigRational::from_float(value).unwrap_or_else(BigRational::zero)
}

/// The nearest float.
fn float(value: &BigRational) -> f64 {
    value.to_f64().unwrap_or(f64::NAN)
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum SamplingType {
    /// `RandomClipSampler`
    Random,
    /// `RandomMultiClipSampler`; the original returns all clips in one item.
    RandomMulti,
    /// `UniformClipSampler`: consecutive clips. The original computes each start from the end of
    /// the previous clip: exactly, or in float64 if the stride is a float.
    Uniform,
    /// `ConstantClipsPerVideoSampler`: evenly spread clips, each repeated `augs_per_clip` times.
    ConstantClipsPerVideo,
}

/// Clips of a given duration: the frames whose timestamps are inside, or `num_samples` evenly
/// spread ones of them. A float stands for each random clip, as in `random.uniform(0, longest)`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabeledVideoClips {
    sampling_type: SamplingType,
    clip_duration: Seconds,
    num_samples: Option<Count>,
    num_clips: Option<Count>,
    stride: Option<Seconds>,
    backpad_last: Option<bool>,
    clips_per_video: Option<Count>,
    augs_per_clip: Option<Count>,
}

impl LabeledVideoClips {
    /// Starts of consecutive clips in an infinitely long video, for a float stride.
    fn float_starts(&self, stride: f64) -> impl Iterator<Item = f64> {
        let duration = self.clip_duration.exact();
        let rounded = float(&duration);
        let delta = stride - rounded;
        // The end of a clip is a sum of floats if its duration is a float.
        let is_float = exact(rounded) == duration;
        let end = move |begin: f64| match is_float {
            true => begin + rounded,
            false => float(&(exact(begin) + &duration)),
        };
        std::iter::successors(Some(0.0), move |&begin| Some(end(begin) + delta))
            .take(MAX_COUNT as usize)
    }

    /// The start of consecutive clip `number`.
    fn uniform_start(&self, number: u64) -> BigRational {
        match self.stride {
            Some(Seconds::Float(stride)) => exact(
                self.float_starts(stride)
                    .nth(number as usize)
                    .unwrap_or(0.0),
            ),
            stride => {
                stride.unwrap_or(self.clip_duration).exact()
                    * BigRational::from_integer(number.into())
            }
        }
    }

    /// Number of consecutive clips that begin at `latest` or before; at most [`MAX_COUNT`].
    fn num_starts_until(&self, latest: &BigRational) -> u64 {
        match self.stride {
            Some(Seconds::Float(stride)) => {
                let near = float(latest) - EPSILON; // only the last starts need exact comparison
                let is_early = |&begin: &f64| begin < near || exact(begin) <= *latest;
                self.float_starts(stride).take_while(is_early).count() as u64
            }
            _ if latest.is_negative() => 0,
            stride => {
                let last = (latest / stride.unwrap_or(self.clip_duration).exact()).to_integer();
                last.to_u64()
                    .unwrap_or(u64::MAX)
                    .min(u64::from(MAX_COUNT) - 1)
                    + 1
            }
        }
    }

    /// Number of consecutive clips in a video; at least one, even if the video is shorter than a
    /// clip.
    fn num_uniform(&self, video: &dyn VideoTiming) -> u64 {
        let (epsilon, latest) = (exact(EPSILON), duration(video) - self.clip_duration.exact());
        if self.backpad_last != Some(true) {
            // A clip is the last one if the next one would end after the video.
            return self.num_starts_until(&(latest + epsilon)).max(1);
        }
        match self.num_starts_until(&latest) {
            0 => 1,
            whole => whole + u64::from(latest - self.uniform_start(whole - 1) >= epsilon),
        }
    }

    /// The start of a clip, relative to the first frame's timestamp.
    fn start(&self, video: &dyn VideoTiming, clip: u64, rng: &mut dyn RandomSource) -> BigRational {
        let latest = duration(video) - self.clip_duration.exact();
        let longest = if latest.is_negative() {
            BigRational::zero()
        } else {
            latest
        };
        match self.sampling_type {
            SamplingType::Random => exact(float(&longest) * rng.next_f64()),
            SamplingType::RandomMulti => {
                let drawn: Vec<f64> = (0..self.num_clips.map_or(0, Count::u64))
                    .map(|_| rng.next_f64())
                    .collect();
                exact(float(&longest) * drawn[clip as usize])
            }
            SamplingType::Uniform => {
                let start = self.uniform_start(clip);
                if self.backpad_last == Some(true) {
                    start.min(longest)
                } else {
                    start
                }
            }
            SamplingType::ConstantClipsPerVideo => {
                let clip = clip / self.augs_per_clip.map_or(1, Count::u64);
                let intervals = self
                    .clips_per_video
                    .map_or(1, Count::u64)
                    .saturating_sub(1)
                    .max(1);
                longest * BigRational::new(clip.into(), intervals.into())
            }
        }
    }
}

/// The exact timestamp of a frame.
fn frame_pts(video: &dyn VideoTiming, frame: u32) -> BigRational {
    match video.timestamp(frame) {
        Timestamp::Seconds(seconds) => exact(seconds),
        Timestamp::Frames(frames, fps) => match exact(fps) {
            fps if fps.is_zero() => fps,
            fps => BigRational::from_integer(frames.into()) / fps,
        },
        Timestamp::Ticks(ticks, base) => {
            let numerator = i128::from(ticks) * i128::from(base.num());
            BigRational::new(numerator.into(), base.den().into())
        }
    }
}

/// The exact time from the first frame's timestamp to the end of the last frame.
fn duration(video: &dyn VideoTiming) -> BigRational {
    frame_pts(video, video.num_frames()) - frame_pts(video, 0)
}

impl Formula for LabeledVideoClips {
    fn check(&self) -> Result<()> {
        self.clip_duration.check("clip_duration")?;
        self.stride
            .map_or(Ok(()), |stride| stride.check("stride"))?;
        use SamplingType::{ConstantClipsPerVideo, RandomMulti, Uniform};
        let own = |owner, name, is_given| (name, is_given && self.sampling_type != owner);
        only_for(
            "another sampling_type",
            &[
                own(RandomMulti, "num_clips", self.num_clips.is_some()),
                own(Uniform, "stride", self.stride.is_some()),
                own(Uniform, "backpad_last", self.backpad_last.is_some()),
                own(
                    ConstantClipsPerVideo,
                    "clips_per_video",
                    self.clips_per_video.is_some(),
                ),
                own(
                    ConstantClipsPerVideo,
                    "augs_per_clip",
                    self.augs_per_clip.is_some(),
                ),
            ],
        )?;
        match self.sampling_type {
            RandomMulti => needed(
                "num_clips",
                "sampling_type=\"random_multi\"",
                self.num_clips,
            )
            .map(drop),
            ConstantClipsPerVideo => {
                let form = "sampling_type=\"constant_clips_per_video\"";
                needed("clips_per_video", form, self.clips_per_video).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn shape(&self) -> Shape {
        Shape {
            clips: match self.sampling_type {
                SamplingType::Random => Some(1),
                SamplingType::RandomMulti => self.num_clips.map(Count::u64),
                SamplingType::Uniform => None,
                SamplingType::ConstantClipsPerVideo => self
                    .clips_per_video
                    .map(|clips| clips.u64() * self.augs_per_clip.map_or(1, Count::u64)),
            },
            length: self.num_samples.map(|samples| samples.0),
            draws_together: self.sampling_type == SamplingType::RandomMulti,
        }
    }

    fn clips(&self, video: &dyn VideoTiming) -> u64 {
        self.shape()
            .clips
            .unwrap_or_else(|| self.num_uniform(video))
    }

    fn frames(
        &self,
        video: &dyn VideoTiming,
        clip: u64,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        let start = self.start(video, clip, rng) + frame_pts(video, 0);
        let end = &start + self.clip_duration.exact();
        let before =
            |moment| partition_point(video.num_frames(), |frame| frame_pts(video, frame) < moment);
        let (first, past) = (before(start.clone()), before(end.clone()));
        let Some(last) = (past - first).checked_sub(1) else {
            return Err(Error::Argument(format!(
                "no frame appears from second {} to {}, where the original continues with another video; use a longer \
                 clip_duration, or leave this video out",
                float(&start),
                float(&end)
            )));
        };
        Ok(ClipIndices::unpadded(match self.num_samples {
            None => (first..first + checked_length(f64::from(last) + 1.0)?).collect(),
            Some(samples) => torch_linspace(0.0, last.into(), samples.0)
                .into_iter()
                .map(|at| first + (at.max(0.0) as u32).min(last))
                .collect(),
        }))
    }
}
