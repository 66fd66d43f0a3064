//! Reproduces PyTorchVideo's clip samplers, with exact times as in the original, which uses fractions.
//! Formulas: facebookresearch/pytorchvideo, `data/clip_sampling.py`, `data/encoded_video_pyav.py` (the frames
//! in a clip), `transforms/functional.py` (`uniform_temporal_subsample`).

mod uniform;

use super::common::{check_count, checked_length, clips_unless_empty, frame_partition_point};
use super::fraction::{Fraction, Seconds};
use super::numpy_compat::torch_linspace;
use crate::clip_sampler::common::check_clip_index;
use crate::clip_sampler::video_timing::Timestamp;
use crate::clip_sampler::{ClipIndices, ClipSampler, RandomSource, VideoTiming};
use crate::error::{Error, Result};
use uniform::Uniform;

/// Shortest and longest clip and stride, in seconds.
const DURATION_RANGE_SECONDS: (f64, f64) = (1e-3, 1e6);

/// How the clip starts are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ClipSamplerKind {
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
        /// Number of consecutive repetitions of each clip.
        augs_per_clip: u32,
    },
}

/// Clips of a given duration and the frames whose timestamps are inside them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LabeledVideoClips {
    sampler: ClipSamplerKind,
    uniform: Option<Uniform>,
    clip_duration: Fraction,
    num_samples: Option<u32>,
}

fn seconds(name: &str, value: Seconds) -> Result<Fraction> {
    let exact = value.to_fraction();
    let Some(exact) =
        exact.filter(|e| (DURATION_RANGE_SECONDS.0..=DURATION_RANGE_SECONDS.1).contains(&e.to_f64()))
    else {
        return Err(Error::Argument(format!(
            "{name} must be from {} to {} seconds, got {value}; give a float or a fraction",
            DURATION_RANGE_SECONDS.0, DURATION_RANGE_SECONDS.1
        )));
    };
    Ok(exact)
}

fn unknown_timestamps_error() -> Error {
    Error::Argument(
        "clip_duration and stride must be simpler numbers: exact times need more than 127 bits".into(),
    )
}

impl LabeledVideoClips {
    /// `num_samples`: how many frames of a clip are kept, evenly spread (`UniformTemporalSubsample`); `None`:
    /// all.
    pub fn new(sampler: ClipSamplerKind, clip_duration: Seconds, num_samples: Option<u32>) -> Result<Self> {
        let duration = seconds("clip_duration", clip_duration)?;
        let mut uniform = None;
        match sampler {
            ClipSamplerKind::Random => {}
            ClipSamplerKind::RandomMulti { num_clips } => drop(check_count("num_clips", num_clips)?),
            ClipSamplerKind::Uniform { stride, backpad_last } => {
                stride.map_or(Ok(duration), |stride| seconds("stride", stride))?;
                uniform =
                    Some(Uniform::new(duration, stride, backpad_last).ok_or_else(unknown_timestamps_error)?);
            }
            ClipSamplerKind::ConstantClipsPerVideo { clips_per_video, augs_per_clip } => {
                check_count("clips_per_video", clips_per_video)?;
                check_count("augs_per_clip", augs_per_clip)?;
            }
        }
        num_samples.map_or(Ok(1), |samples| check_count("num_samples", samples))?;
        Ok(Self { sampler, uniform, clip_duration: duration, num_samples })
    }

    /// The start of clip `number`, relative to the first frame's timestamp.
    fn start(&self, video_duration: Fraction, number: u64, rng: &mut dyn RandomSource) -> Option<Fraction> {
        let longest = video_duration.checked_sub(self.clip_duration)?.max(Fraction::ZERO);
        match self.sampler {
            ClipSamplerKind::Random => Fraction::from_f64(longest.to_f64() * rng.next_f64()),
            ClipSamplerKind::RandomMulti { num_clips } => {
                // All numbers are generated, as in the original, although one is used.
                let all: Vec<f64> = (0..num_clips).map(|_| rng.next_f64()).collect();
                Fraction::from_f64(longest.to_f64() * all.get(number as usize)?)
            }
            ClipSamplerKind::Uniform { .. } => self.uniform?.start(video_duration, number),
            ClipSamplerKind::ConstantClipsPerVideo { clips_per_video, augs_per_clip } => {
                let clip = number / u64::from(augs_per_clip);
                longest.checked_mul_ratio(clip.into(), clips_per_video.saturating_sub(1).max(1).into())
            }
        }
    }
}

/// The exact timestamp of frame `frame`.
fn frame_pts(video: &dyn VideoTiming, frame: u32) -> Option<Fraction> {
    match video.timestamp(frame) {
        Timestamp::Seconds(seconds) => Fraction::from_f64(seconds),
        Timestamp::Frames(frames, fps) => {
            Fraction::new(frames.into(), 1)?.checked_div(Fraction::from_f64(fps)?)
        }
        Timestamp::Ticks(ticks, base) => {
            Fraction::new(i128::from(ticks) * i128::from(base.num()), base.den().into())
        }
    }
}

/// The exact time from the first frame's timestamp to the end of the last frame.
fn duration(video: &dyn VideoTiming) -> Option<Fraction> {
    frame_pts(video, video.num_frames())?.checked_sub(frame_pts(video, 0)?)
}

impl ClipSampler for LabeledVideoClips {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        match self.sampler {
            ClipSamplerKind::Random => clips_unless_empty(video, 1),
            ClipSamplerKind::RandomMulti { num_clips } => clips_unless_empty(video, num_clips),
            ClipSamplerKind::Uniform { .. } if video.num_frames() == 0 => 0,
            ClipSamplerKind::Uniform { .. } => {
                let clips = || self.uniform?.num_clips(duration(video)?);
                clips().unwrap_or(0)
            }
            ClipSamplerKind::ConstantClipsPerVideo { clips_per_video, augs_per_clip } => {
                clips_unless_empty(video, clips_per_video) * u64::from(augs_per_clip)
            }
        }
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        match self.sampler {
            ClipSamplerKind::Random => Some(1),
            ClipSamplerKind::RandomMulti { num_clips } => Some(num_clips.into()),
            ClipSamplerKind::Uniform { .. } => None,
            ClipSamplerKind::ConstantClipsPerVideo { clips_per_video, augs_per_clip } => {
                Some(u64::from(clips_per_video) * u64::from(augs_per_clip))
            }
        }
    }

    fn sequence_length(&self) -> Option<u32> {
        self.num_samples
    }

    fn shares_rng_per_video(&self) -> bool {
        matches!(self.sampler, ClipSamplerKind::RandomMulti { .. })
    }

    /// The random samplers use random numbers as `random.uniform(0, longest)` does: one float per clip, in
    /// order.
    fn clip(&self, video: &dyn VideoTiming, number: u64, rng: &mut dyn RandomSource) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
        let begin = frame_pts(video, 0).ok_or_else(unknown_timestamps_error)?;
        let start = duration(video).and_then(|duration| self.start(duration, number, rng));
        let start = start.and_then(|start| start.checked_add(begin)).ok_or_else(unknown_timestamps_error)?;
        let end = start.checked_add(self.clip_duration).ok_or_else(unknown_timestamps_error)?;
        let before = |moment: Fraction| {
            frame_partition_point(video, |frame| frame_pts(video, frame).is_some_and(|at| at < moment))
        };
        let (first, past) = (before(start), before(end));
        let frames = past - first;
        if frames == 0 {
            return Err(Error::Argument(format!(
                "no frame appears from second {} to {}, where the original continues with another video; use a longer \
                 clip_duration, or leave this video out",
                start.to_f64(),
                end.to_f64()
            )));
        }
        let last = frames - 1;
        let indices = match self.num_samples {
            None => (first..first + checked_length(frames.into())?).collect(),
            Some(samples) => torch_linspace(0.0, last.into(), samples)
                .into_iter()
                .map(|at| first + (at.max(0.0) as u32).min(last))
                .collect(),
        };
        Ok(ClipIndices::unpadded(indices))
    }

    fn min_length_hint(&self) -> String {
        "1 frame".to_owned()
    }
}
