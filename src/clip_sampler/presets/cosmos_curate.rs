//! Reproduces the frames of Cosmos-Curate's `decode_video_cpu`, one clip per video, including
//! repeated frames. Formulas: nvidia-cosmos/cosmos-curate,
//! `pipelines/video/utils/decoder_utils.py`: `sample_closest`, `find_closest_indices`, with NumPy
//! 2's float32.

use serde::Deserialize;

use super::arithmetic::arange_count;
use super::formula::{Formula, Shape, checked_length};
use super::options::Positive;
use crate::clip_sampler::clip_spec::partition_point;
use crate::clip_sampler::{ClipIndices, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// The nearest frame to each timestamp of a sequence at a constant rate. `start`, `stop`: seconds
/// of the video; `None`: the timestamps of the first and the last frame.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleClosest {
    sample_rate_fps: Positive,
    start: Option<f64>,
    stop: Option<f64>,
    endpoint: bool,
}

/// A scalar with NumPy 2's type promotion: a Python float combined with a float32 gives a float32.
#[derive(Clone, Copy)]
enum Scalar {
    Python(f64),
    Single(f32),
}

impl Scalar {
    fn sub(self, other: Self) -> Self {
        match (self, other) {
            (Scalar::Python(a), Scalar::Python(b)) => Scalar::Python(a - b),
            (a, b) => Scalar::Single(a.to_f32() - b.to_f32()),
        }
    }

    fn add(self, other: f64) -> Self {
        match self {
            Scalar::Python(a) => Scalar::Python(a + other),
            Scalar::Single(a) => Scalar::Single(a + other as f32),
        }
    }

    fn div(self, other: f64) -> f64 {
        match self {
            Scalar::Python(a) => a / other,
            Scalar::Single(a) => f64::from(a / other as f32),
        }
    }

    fn to_f32(self) -> f32 {
        match self {
            Scalar::Python(a) => a as f32,
            Scalar::Single(a) => a,
        }
    }

    /// `numpy.isclose(value, self)`.
    fn is_close(self, value: f32) -> bool {
        let tolerance = match self {
            Scalar::Python(a) => (1e-8 + 1e-5 * a.abs()) as f32,
            Scalar::Single(a) => 1e-8 + 1e-5 * a.abs(),
        };
        (value - self.to_f32()).abs() <= tolerance
    }
}

impl SampleClosest {
    /// `numpy.arange(start, stop, 1 / rate, dtype=float32)`.
    fn times(&self, first: f32, last: f32) -> Result<Vec<f32>> {
        let interval = 1.0 / self.sample_rate_fps.0;
        let start = self.start.map_or(Scalar::Single(first), Scalar::Python);
        let stop = self.stop.map_or(Scalar::Single(last), Scalar::Python);
        let stop = if self.endpoint {
            stop.add(interval * 0.5)
        } else {
            stop
        };
        let values = checked_length(arange_count(0.0, stop.sub(start).div(interval), 1.0) as f64)?;
        let (start, next) = (start.to_f32(), start.add(interval).to_f32());
        let mut times: Vec<f32> = (0..values)
            .map(|i| start + i as f32 * (next - start))
            .collect();
        if let [_, second, ..] = &mut times[..] {
            *second = next;
        }
        if !self.endpoint && times.last().is_some_and(|&last| stop.is_close(last)) {
            times.pop();
        }
        Ok(times)
    }
}

impl Formula for SampleClosest {
    fn shape(&self) -> Shape {
        Shape {
            clips: Some(1),
            length: None,
            draws_together: false,
        }
    }

    fn frames(
        &self,
        video: &dyn VideoTiming,
        _: u64,
        _: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        let last = video.num_frames() - 1;
        let begins = |frame: u32| video.pts_seconds(frame) as f32;
        let times = self.times(begins(0), begins(last))?;
        if times.is_empty() {
            return Err(Error::Argument(
                "stop must be after start with at least one sample between them; got none".into(),
            ));
        }
        let closest = |&time: &f32| {
            if time >= begins(last) {
                return last;
            }
            let right = partition_point(last + 1, |frame| begins(frame) < time)
                .max(1)
                .min(last);
            let left = right.saturating_sub(1);
            match (begins(right) - time).abs() < (begins(left) - time).abs() {
                true => right,
                false => left,
            }
        };
        Ok(ClipIndices::unpadded(times.iter().map(closest).collect()))
    }
}
