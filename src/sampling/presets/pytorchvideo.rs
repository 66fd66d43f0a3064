//! In: the options of PyTorchVideo's clip samplers. Out: a rule that gives the frames of their clips.
//! Formulas: facebookresearch/pytorchvideo, `data/clip_sampling.py`, `data/encoded_video_pyav.py` (which frames lie in a
//! clip), `transforms/functional.py` (`uniform_temporal_subsample`). Never: rounds a time: the original has fractions.

mod uniform;

use super::arithmetic::torch_linspace;
use super::exact::{Exact, Seconds};
use super::shared::{count, count_while, length, of_each};
use crate::error::{Error, Result};
use crate::sampling::common::known_clip;
use crate::sampling::footage::Moment;
use crate::sampling::{Draw, Footage, Rule, Sample};
use uniform::Uniform;

/// Shortest and longest clip and stride, in seconds.
const SECONDS: (f64, f64) = (1e-3, 1e6);

/// Where clips lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sampler {
    /// One clip at a random time (`RandomClipSampler`).
    Random,
    /// So many of these (`RandomMultiClipSampler`; one item of the original has them all).
    RandomMulti {
        /// Clips of each video.
        num_clips: u32,
    },
    /// Clips one after the other (`UniformClipSampler`).
    Uniform {
        /// Seconds from one start to the next; `None`: the clip's duration.
        stride: Option<Seconds>,
        /// Whether a last clip ends with the video and begins earlier, rather than being left out.
        backpad_last: bool,
    },
    /// Clips evenly spread (`ConstantClipsPerVideoSampler`).
    ConstantClipsPerVideo {
        /// Different clips of each video.
        clips_per_video: u32,
        /// How often each comes, one after the other.
        augs_per_clip: u32,
    },
}

/// Clips of so many seconds, and the frames that appear in them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clips {
    sampler: Sampler,
    uniform: Option<Uniform>,
    clip_duration: Exact,
    num_samples: Option<u32>,
}

fn seconds(name: &str, value: Seconds) -> Result<Exact> {
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
    /// `num_samples`: how many of a clip's frames are kept, evenly spread (`UniformTemporalSubsample`); `None`: all.
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

    /// Begin of clip `number`, from the first frame's appearance.
    fn start(&self, video_duration: Exact, number: u64, rng: &mut dyn Draw) -> Option<Exact> {
        let longest = video_duration.minus(self.clip_duration)?.max(Exact::ZERO);
        match self.sampler {
            Sampler::Random => Exact::of(longest.to_f64() * rng.unit_f64()),
            Sampler::RandomMulti { num_clips } => {
                // All are drawn, as the original does, whichever is kept.
                let all: Vec<f64> = (0..num_clips).map(|_| rng.unit_f64()).collect();
                Exact::of(longest.to_f64() * all.get(number as usize)?)
            }
            Sampler::Uniform { .. } => self.uniform?.start(video_duration, number),
            Sampler::ConstantClipsPerVideo { clips_per_video, augs_per_clip } => {
                let clip = number / u64::from(augs_per_clip);
                longest.times(clip.into(), clips_per_video.saturating_sub(1).max(1).into())
            }
        }
    }
}

/// When frame `frame` appears, exactly.
fn appears(video: &dyn Footage, frame: u32) -> Option<Exact> {
    match video.moment(frame) {
        Moment::Seconds(seconds) => Exact::of(seconds),
        Moment::Frames(frames, fps) => Exact::new(frames.into(), 1)?.over(Exact::of(fps)?),
        Moment::Ticks(ticks, base) => {
            Exact::new(i128::from(ticks) * i128::from(base.num()), base.den().into())
        }
    }
}

/// From the first frame's appearance to the last one's end, exactly.
fn duration(video: &dyn Footage) -> Option<Exact> {
    appears(video, video.num_frames())?.minus(appears(video, 0)?)
}

impl Rule for Clips {
    fn clips_in(&self, video: &dyn Footage) -> u64 {
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

    fn draws_together(&self) -> bool {
        matches!(self.sampler, Sampler::RandomMulti { .. })
    }

    /// The random samplers draw as `random.uniform(0, longest)` does: a float for each clip, in their order.
    fn clip(&self, video: &dyn Footage, number: u64, rng: &mut dyn Draw) -> Result<Sample> {
        known_clip(number, self.clips_in(video), video)?;
        let begin = appears(video, 0).ok_or_else(no_times)?;
        let start = duration(video).and_then(|duration| self.start(duration, number, rng));
        let start = start.and_then(|start| start.plus(begin)).ok_or_else(no_times)?;
        let end = start.plus(self.clip_duration).ok_or_else(no_times)?;
        let before =
            |moment: Exact| count_while(video, |frame| appears(video, frame).is_some_and(|at| at < moment));
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
        Ok(Sample::real(indices))
    }

    fn needs(&self) -> String {
        "1 frame".to_owned()
    }
}
