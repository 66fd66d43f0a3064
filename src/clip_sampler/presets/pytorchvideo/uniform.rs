//! Computes the starts of the consecutive clips of `UniformClipSampler`; a video yields at most [`MAX_COUNT`]
//! clips. The original computes each start from the end of the previous clip: exactly, or in float64 if the
//! stride is a float.

use crate::clip_sampler::presets::common::MAX_COUNT;
use crate::clip_sampler::presets::fraction::{Fraction, Seconds};

/// Tolerance within which the original considers two times equal (`eps`), in seconds.
const EPSILON: f64 = 1e-6;

/// `UniformClipSampler`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Uniform {
    clip_duration: Fraction,
    stride: Stride,
    backpad_last: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stride {
    /// From one start to the next.
    Fraction(Fraction),
    /// From the end of a clip to the start of the next, in float64.
    Delta {
        delta: f64,
        /// The clip's duration if it is a float: then the end of a clip is a sum of floats.
        duration: Option<f64>,
    },
}

impl Uniform {
    /// `None` if the stride is not finite.
    pub fn new(clip_duration: Fraction, stride: Option<Seconds>, backpad_last: bool) -> Option<Self> {
        let stride = match stride {
            None => Stride::Fraction(clip_duration),
            Some(exact @ Seconds::Ratio(..)) => Stride::Fraction(exact.to_fraction()?),
            Some(Seconds::Float(stride)) => {
                let rounded = clip_duration.to_f64();
                let duration = (Fraction::from_f64(rounded)? == clip_duration).then_some(rounded);
                Stride::Delta { delta: stride - rounded, duration }
            }
        };
        Some(Self { clip_duration, stride, backpad_last })
    }

    /// The starts in an infinitely long video, for a float stride.
    fn floats(&self, delta: f64, duration: Option<f64>) -> impl Iterator<Item = f64> + '_ {
        let end = move |begin: f64| match duration {
            Some(duration) => Some(begin + duration),
            None => Some(Fraction::from_f64(begin)?.checked_add(self.clip_duration)?.to_f64()),
        };
        std::iter::successors(Some(0.0), move |&begin| Some(end(begin)? + delta)).take(MAX_COUNT as usize + 1)
    }

    /// The start of clip `number` in an infinitely long video.
    fn begin(&self, number: u64) -> Option<Fraction> {
        match self.stride {
            Stride::Fraction(stride) => stride.checked_mul_ratio(number.into(), 1),
            Stride::Delta { delta, duration } => {
                Fraction::from_f64(self.floats(delta, duration).nth(usize::try_from(number).ok()?)?)
            }
        }
    }

    /// Number of clips that begin at most `slack` after `latest`; at most [`MAX_COUNT`].
    fn num_starts_until(&self, latest: Fraction, slack: Fraction) -> Option<u64> {
        let within = |begin: Fraction| begin.checked_sub(latest).is_some_and(|late| late <= slack);
        let all = match self.stride {
            Stride::Fraction(stride) => {
                let past = latest.floor_div(stride)?.max(-1) + 1;
                let one_more = within(stride.checked_mul_ratio(past, 1)?);
                u64::try_from(past).unwrap_or(u64::MAX - 1) + u64::from(one_more)
            }
            Stride::Delta { delta, duration } => {
                let near = latest.to_f64() - EPSILON;
                let early = |&begin: &f64| begin < near || Fraction::from_f64(begin).is_some_and(within);
                self.floats(delta, duration).take_while(early).count() as u64
            }
        };
        Some(all.min(u64::from(MAX_COUNT)))
    }

    /// Number of clips in a video of `video_duration`; at least one, even if the video is shorter than a
    /// clip.
    pub fn num_clips(&self, video_duration: Fraction) -> Option<u64> {
        let (epsilon, latest) =
            (Fraction::from_f64(EPSILON)?, video_duration.checked_sub(self.clip_duration)?);
        if !self.backpad_last {
            // A clip is the last one if the next one would end after the video.
            return Some(self.num_starts_until(latest, epsilon)?.max(1));
        }
        let whole = self.num_starts_until(latest, Fraction::ZERO)?;
        let Some(last) = whole.checked_sub(1) else { return Some(1) };
        let left = latest.checked_sub(self.begin(last)?)?;
        Some(whole + u64::from(left >= epsilon))
    }

    /// The start of clip `number`, which must be below [`num_clips`](Self::num_clips).
    pub fn start(&self, video_duration: Fraction, number: u64) -> Option<Fraction> {
        let begin = self.begin(number)?;
        if !self.backpad_last {
            return Some(begin);
        }
        let latest = video_duration.checked_sub(self.clip_duration)?;
        Some(begin.min(latest).max(Fraction::ZERO))
    }
}
