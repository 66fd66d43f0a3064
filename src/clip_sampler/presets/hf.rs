//! Reproduces the video sampling of Hugging Face Transformers, one clip per video; `fps` uses the
//! average rate. Formulas: huggingface/transformers, `video_processing_utils.py`
//! (`BaseVideoProcessor.sample_frames`) and `video_utils.py` (`default_sample_indices_fn`).

use serde::Deserialize;

use super::arithmetic::{arange_count, torch_arange_f32};
use super::formula::{Formula, Shape, checked_length, require_fps, require_in_range};
use super::options::{Count, Positive, only_for};
use crate::clip_sampler::{ClipIndices, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// Which of the two functions to reproduce.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Function {
    /// `BaseVideoProcessor.sample_frames`: `torch.arange(0, N, N / num_frames).int()`.
    SampleFrames,
    /// `default_sample_indices_fn`, which `load_video` uses: `numpy.arange(0, N, N / num_frames,
    /// dtype=int)`. NumPy truncates the step to an integer, so the frames do not reach the end of
    /// the video.
    DefaultSampleIndicesFn,
}

/// Release of Transformers.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
enum Version {
    /// The two functions differ.
    #[serde(rename = "4.57")]
    V4_57,
    /// And later: both functions return `i * N // num_frames`, and at least one frame at `fps`.
    #[serde(rename = "5.23")]
    V5_23,
}

/// Frames evenly spread over the video: `num_frames`, as many as it has at `fps`, or all.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleFrames {
    num_frames: Option<Count>,
    fps: Option<Positive>,
    function: Function,
    version: Version,
}

impl SampleFrames {
    fn num_frames(&self, video: &dyn VideoTiming) -> Result<f64> {
        let total = f64::from(video.num_frames());
        let (frames, may_exceed) = match (self.num_frames, self.fps) {
            (Some(frames), _) => (
                frames.f64(),
                (self.version, self.function) == (Version::V4_57, Function::DefaultSampleIndicesFn),
            ),
            (None, Some(fps)) => {
                let frames = (total / require_fps("hf", video)? * fps.0).trunc();
                (
                    frames.max(if self.version == Version::V5_23 {
                        1.0
                    } else {
                        0.0
                    }),
                    false,
                )
            }
            (None, None) => (total, false),
        };
        if frames > total && !may_exceed {
            return Err(Error::Argument(format!(
                "num_frames must be at most the {total} frames of the video, got {frames}; request fewer, or omit it"
            )));
        }
        checked_length(frames).map(f64::from)
    }
}

impl Formula for SampleFrames {
    fn check(&self) -> Result<()> {
        if self.num_frames.is_some() {
            return only_for(
                "sampling without num_frames",
                &[("fps", self.fps.is_some())],
            );
        }
        if self.fps.is_none()
            && (self.version, self.function) == (Version::V4_57, Function::SampleFrames)
        {
            return Err(Error::Argument(
                "num_frames or fps must be given, got neither; the original fails without".into(),
            ));
        }
        Ok(())
    }

    /// NumPy may return one frame more.
    fn shape(&self) -> Shape {
        let is_exact = self.version == Version::V5_23 || self.function == Function::SampleFrames;
        let length = self.num_frames.filter(|_| is_exact).map(|frames| frames.0);
        Shape {
            clips: Some(1),
            length,
            draws_together: false,
        }
    }

    /// `torch.arange` may return one value too many, equal to the number of frames. It is dropped,
    /// as the readers that decode a file frame by frame do.
    fn frames(
        &self,
        video: &dyn VideoTiming,
        _: u64,
        _: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        let (total, frames) = (video.num_frames(), self.num_frames(video)?);
        let step = f64::from(total) / frames;
        let values = arange_count(0.0, f64::from(total), step);
        let positions: Vec<i64> = match (self.version, self.function) {
            (Version::V5_23, _) => (0..frames as i64)
                .map(|i| i * i64::from(total) / frames as i64)
                .collect(),
            (_, Function::SampleFrames) => (0..values.min(frames as u64))
                .map(|i| torch_arange_f32(0.0, step, values, i) as i64)
                .collect(),
            (_, Function::DefaultSampleIndicesFn) => {
                (0..values).map(|i| i as i64 * step as i64).collect()
            }
        };
        require_in_range(positions, total)
    }

    fn min_length_hint(&self) -> String {
        self.num_frames.map_or("1 frame".to_owned(), |frames| {
            format!("{} frames", frames.0)
        })
    }
}
