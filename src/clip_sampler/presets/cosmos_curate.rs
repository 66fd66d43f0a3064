//! Reproduces the frames of Cosmos-Curate's `decode_video_cpu`, one clip per video, including repeated
//! frames. Formulas: nvidia-cosmos/cosmos-curate, `pipelines/video/utils/decoder_utils.py`: `sample_closest`,
//! `find_closest_indices`, with NumPy 2's float32.

use super::common::{check_range, checked_length, clips_unless_empty, frame_partition_point};
use super::numpy_compat::arange_count;
use crate::clip_sampler::common::check_clip_index;
use crate::clip_sampler::{ClipIndices, ClipSampler, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// The nearest frame to each timestamp of a sequence at a constant rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleClosest {
    sample_rate_fps: f64,
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
    /// `start`, `stop`: seconds of the video; `None`: the timestamps of the first and the last frame.
    pub fn new(sample_rate_fps: f64, start: Option<f64>, stop: Option<f64>, endpoint: bool) -> Result<Self> {
        check_range("sample_rate_fps", sample_rate_fps)?;
        Ok(Self { sample_rate_fps, start, stop, endpoint })
    }

    /// `numpy.arange(start, stop, 1 / rate, dtype=float32)`.
    fn times(&self, first: f32, last: f32) -> Result<Vec<f32>> {
        let interval = 1.0 / self.sample_rate_fps;
        let start = self.start.map_or(Scalar::Single(first), Scalar::Python);
        let stop = self.stop.map_or(Scalar::Single(last), Scalar::Python);
        let stop = if self.endpoint { stop.add(interval * 0.5) } else { stop };
        let values = checked_length(arange_count(0.0, stop.sub(start).div(interval), 1.0) as f64)?;
        let (start, next) = (start.to_f32(), start.add(interval).to_f32());
        let mut times: Vec<f32> = (0..values).map(|i| start + i as f32 * (next - start)).collect();
        if let [_, second, ..] = &mut times[..] {
            *second = next;
        }
        if !self.endpoint && times.last().is_some_and(|&last| stop.is_close(last)) {
            times.pop();
        }
        Ok(times)
    }
}

impl ClipSampler for SampleClosest {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        clips_unless_empty(video, 1)
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        Some(1)
    }

    fn sequence_length(&self) -> Option<u32> {
        None
    }

    fn clip(&self, video: &dyn VideoTiming, number: u64, _: &mut dyn RandomSource) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
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
            let right = frame_partition_point(video, |frame| begins(frame) < time).max(1).min(last);
            let left = right.saturating_sub(1);
            match (begins(right) - time).abs() < (begins(left) - time).abs() {
                true => right,
                false => left,
            }
        };
        Ok(ClipIndices::unpadded(times.iter().map(closest).collect()))
    }

    fn min_length_hint(&self) -> String {
        "1 frame".to_owned()
    }
}
