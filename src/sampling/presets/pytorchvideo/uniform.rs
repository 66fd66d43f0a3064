//! In: clip duration, stride and whether the last clip is padded from the back. Out: begins of clips, one after another.
//! The original computes each from the end of the one before: exactly, or in float64 where the stride is a float.
//! Never: goes on for ever: a video yields at most [`MOST`](super::super::shared::MOST) clips.

use crate::sampling::presets::exact::{Exact, Seconds};
use crate::sampling::presets::shared::MOST;

/// Where the original takes two times for the same (`eps`), seconds.
const EPSILON: f64 = 1e-6;

/// `UniformClipSampler`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Uniform {
    clip_duration: Exact,
    stride: Stride,
    backpad_last: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stride {
    /// From one begin to the next.
    Exact(Exact),
    /// From the end of a clip to the begin of the next, in float64.
    Delta {
        delta: f64,
        /// The clip's duration where that is a float: then the end of a clip is a sum of floats.
        duration: Option<f64>,
    },
}

impl Uniform {
    /// `None` where the stride is not finite.
    pub fn new(clip_duration: Exact, stride: Option<Seconds>, backpad_last: bool) -> Option<Self> {
        let stride = match stride {
            None => Stride::Exact(clip_duration),
            Some(exact @ Seconds::Ratio(..)) => Stride::Exact(exact.exact()?),
            Some(Seconds::Float(stride)) => {
                let rounded = clip_duration.to_f64();
                let duration = (Exact::of(rounded)? == clip_duration).then_some(rounded);
                Stride::Delta { delta: stride - rounded, duration }
            }
        };
        Some(Self { clip_duration, stride, backpad_last })
    }

    /// The begins in a video without end, where the stride is a float.
    fn floats(&self, delta: f64, duration: Option<f64>) -> impl Iterator<Item = f64> + '_ {
        let end = move |begin: f64| match duration {
            Some(duration) => Some(begin + duration),
            None => Some(Exact::of(begin)?.plus(self.clip_duration)?.to_f64()),
        };
        std::iter::successors(Some(0.0), move |&begin| Some(end(begin)? + delta)).take(MOST as usize + 1)
    }

    /// Begin of clip `number` in a video without end.
    fn begin(&self, number: u64) -> Option<Exact> {
        match self.stride {
            Stride::Exact(stride) => stride.times(number.into(), 1),
            Stride::Delta { delta, duration } => {
                Exact::of(self.floats(delta, duration).nth(usize::try_from(number).ok()?)?)
            }
        }
    }

    /// Number of clips that begin no more than `slack` after `latest`, at most [`MOST`].
    fn up_to(&self, latest: Exact, slack: Exact) -> Option<u64> {
        let within = |begin: Exact| begin.minus(latest).is_some_and(|late| late <= slack);
        let all = match self.stride {
            Stride::Exact(stride) => {
                let past = latest.floor_div(stride)?.max(-1) + 1;
                let one_more = within(stride.times(past, 1)?);
                u64::try_from(past).unwrap_or(u64::MAX - 1) + u64::from(one_more)
            }
            Stride::Delta { delta, duration } => {
                let near = latest.to_f64() - EPSILON;
                let early = |&begin: &f64| begin < near || Exact::of(begin).is_some_and(within);
                self.floats(delta, duration).take_while(early).count() as u64
            }
        };
        Some(all.min(u64::from(MOST)))
    }

    /// Number of clips in a video of `video_duration`: at least one, however short it is.
    pub fn clips_in(&self, video_duration: Exact) -> Option<u64> {
        let (epsilon, latest) = (Exact::of(EPSILON)?, video_duration.minus(self.clip_duration)?);
        if !self.backpad_last {
            // A clip is the last one if the next would end later than the video.
            return Some(self.up_to(latest, epsilon)?.max(1));
        }
        let whole = self.up_to(latest, Exact::ZERO)?;
        let Some(last) = whole.checked_sub(1) else { return Some(1) };
        let left = latest.minus(self.begin(last)?)?;
        Some(whole + u64::from(left >= epsilon))
    }

    /// Begin of clip `number`, which is below [`clips_in`](Self::clips_in).
    pub fn start(&self, video_duration: Exact, number: u64) -> Option<Exact> {
        let begin = self.begin(number)?;
        if !self.backpad_last {
            return Some(begin);
        }
        let latest = video_duration.minus(self.clip_duration)?;
        Some(begin.min(latest).max(Exact::ZERO))
    }
}
