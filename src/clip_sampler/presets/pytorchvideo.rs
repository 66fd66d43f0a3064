//! Reproduces PyTorchVideo's clip samplers, with exact times as in the original, which uses fractions.
//! Formulas: facebookresearch/pytorchvideo, `data/clip_sampling.py`, `data/encoded_video_pyav.py` (the frames
//! in a clip), `transforms/functional.py` (`uniform_temporal_subsample`).

mod uniform;

use super::common::{count, count_while, length, of_each};
use super::fraction::{Fraction, Seconds};
use super::numpy_compat::torch_linspace;
use crate::clip_sampler::common::known_clip;
use crate::clip_sampler::video_timing::Timestamp;
use crate::clip_sampler::{ClipIndices, ClipSampler, RandomSource, VideoTiming};
use crate::error::{Error, Result};
use uniform::Uniform;

/// Shortest and longest clip and stride, in seconds.
const SECONDS: (f64, f64) = (1e-3, 1e6);

/// How the clip starts are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sampler {
    /// One clip at a random time (`RandomClipSampler`).
    Random,
    /// Several clips at random times (`RandomMultiClipSampler`; the original returns all in one item).
    RandomMulti {
        /// Clips of each video.
        num_clips: u32,
    },
    /// Consecutive clips (`UniformClipSampler`).
    Uniform {
        /// Seconds from one start to the next; `None`: the clip's duration.
        stride: Option<Seconds>,
        /// Whether an incomplete last clip begins earlier, so that it ends with the video, instead of being
        /// skipped.
        backpad_last: bool,
    },
    /// Clips evenly spread (`ConstantClipsPerVideoSampler`).
    ConstantClipsPerVideo {
        /// Different clips of each video.
        clips_per_video: u32,
        /// How often each clip is repeated, consecutively.
        augs_per_clip: u32,
    },
}

/// Clips of a given duration and the frames whose timestamps are inside them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clips {
    sampler: Sampler,
    uniform: Option<Uniform>,
    clip_duration: Fraction,
    num_samples: Option<u32>,
}

fn seconds(name: &str, value: Seconds) -> Result<Fraction> {
    let exact = value.exact();
    let Some(exact) = exact.filter(|e| (SECONDS.0..=SECONDS.1).contains(&e.to_f64())) else {
        return Err(Error::Argument(format!(
            "{name} must be from {} to {} seconds, got {value:?}; give a float or a fraction",
            SECONDS.0, SECONDS.1
        )));
    };
    Ok(exact)
}

fn no_times() -> Error {
    Error::Argument(
        "clip_duration and stride must be simpler numbers: exact times need more than 127 bits".into(),
    )
}

impl Clips {
    /// `num_samples`: how many frames of a clip are kept, evenly spread (`UniformTemporalSubsample`); `None`:
    /// all.
    pub fn new(sampler: Sampler, clip_duration: Seconds, num_samples: Option<u32>) -> Result<Self> {
        let duration = seconds("clip_duration", clip_duration)?;
        let mut uniform = None;
        match sampler {
            Sampler::Random => {}
            Sampler::RandomMulti { num_clips } => drop(count("num_clips", num_clips)?),
            Sampler::Uniform { stride, backpad_last } => {
                stride.map_or(Ok(duration), |stride| seconds("stride", stride))?;
                uniform = Some(Uniform::new(duration, stride, backpad_last).ok_or_else(no_times)?);
            }
            Sampler::ConstantClipsPerVideo { clips_per_video, augs_per_clip } => {
                count("clips_per_video", clips_per_video)?;
                count("augs_per_clip", augs_per_clip)?;
            }
        }
        num_samples.map_or(Ok(1), |samples| count("num_samples", samples))?;
        Ok(Self { sampler, uniform, clip_duration: duration, num_samples })
    }

    /// The start of clip `number`, relative to the first frame's timestamp.
    fn start(&self, video_duration: Fraction, number: u64, rng: &mut dyn RandomSource) -> Option<Fraction> {
        let longest = video_duration.minus(self.clip_duration)?.max(Fraction::ZERO);
        match self.sampler {
            Sampler::Random => Fraction::of(longest.to_f64() * rng.unit_f64()),
            Sampler::RandomMulti { num_clips } => {
                // All numbers are generated, as in the original, although one is used.
                let all: Vec<f64> = (0..num_clips).map(|_| rng.unit_f64()).collect();
                Fraction::of(longest.to_f64() * all.get(number as usize)?)
            }
            Sampler::Uniform { .. } => self.uniform?.start(video_duration, number),
            Sampler::ConstantClipsPerVideo { clips_per_video, augs_per_clip } => {
                let clip = number / u64::from(augs_per_clip);
                longest.times(clip.into(), clips_per_video.saturating_sub(1).max(1).into())
            }
        }
    }
}

/// The exact timestamp of frame `frame`.
fn appears(video: &dyn VideoTiming, frame: u32) -> Option<Fraction> {
    match video.moment(frame) {
        Timestamp::Seconds(seconds) => Fraction::of(seconds),
        Timestamp::Frames(frames, fps) => Fraction::new(frames.into(), 1)?.over(Fraction::of(fps)?),
        Timestamp::Ticks(ticks, base) => {
            Fraction::new(i128::from(ticks) * i128::from(base.num()), base.den().into())
        }
    }
}

/// The exact time from the first frame's timestamp to the end of the last frame.
fn duration(video: &dyn VideoTiming) -> Option<Fraction> {
    appears(video, video.num_frames())?.minus(appears(video, 0)?)
}

impl ClipSampler for Clips {
    fn clips_in(&self, video: &dyn VideoTiming) -> u64 {
        match self.sampler {
            Sampler::Random => of_each(video, 1),
            Sampler::RandomMulti { num_clips } => of_each(video, num_clips),
            Sampler::Uniform { .. } if video.num_frames() == 0 => 0,
            Sampler::Uniform { .. } => {
                let clips = || self.uniform?.clips_in(duration(video)?);
                clips().unwrap_or(0)
            }
            Sampler::ConstantClipsPerVideo { clips_per_video, augs_per_clip } => {
                of_each(video, clips_per_video) * u64::from(augs_per_clip)
            }
        }
    }

    fn clips_each(&self) -> Option<u64> {
        match self.sampler {
            Sampler::Random => Some(1),
            Sampler::RandomMulti { num_clips } => Some(num_clips.into()),
            Sampler::Uniform { .. } => None,
            Sampler::ConstantClipsPerVideo { clips_per_video, augs_per_clip } => {
                Some(u64::from(clips_per_video) * u64::from(augs_per_clip))
            }
        }
    }

    fn sequence_length(&self) -> Option<u32> {
        self.num_samples
    }

    fn shares_rng_per_video(&self) -> bool {
        matches!(self.sampler, Sampler::RandomMulti { .. })
    }

    /// The random samplers use random numbers as `random.uniform(0, longest)` does: one float per clip, in
    /// order.
    fn clip(&self, video: &dyn VideoTiming, number: u64, rng: &mut dyn RandomSource) -> Result<ClipIndices> {
        known_clip(number, self.clips_in(video), video)?;
        let begin = appears(video, 0).ok_or_else(no_times)?;
        let start = duration(video).and_then(|duration| self.start(duration, number, rng));
        let start = start.and_then(|start| start.plus(begin)).ok_or_else(no_times)?;
        let end = start.plus(self.clip_duration).ok_or_else(no_times)?;
        let before = |moment: Fraction| {
            count_while(video, |frame| appears(video, frame).is_some_and(|at| at < moment))
        };
        let (first, past) = (before(start), before(end));
        let frames = past - first;
        if frames == 0 {
            return Err(Error::Argument(format!(
                "no frame appears from second {} to {}, where the original goes on to another video; use a longer \
                 clip_duration, or leave this video out",
                start.to_f64(),
                end.to_f64()
            )));
        }
        let last = frames - 1;
        let indices = match self.num_samples {
            None => (first..first + length(frames.into())?).collect(),
            Some(samples) => torch_linspace(0.0, last.into(), samples)
                .into_iter()
                .map(|at| first + (at.max(0.0) as u32).min(last))
                .collect(),
        };
        Ok(ClipIndices::real(indices))
    }

    fn needs(&self) -> String {
        "1 frame".to_owned()
    }
}
