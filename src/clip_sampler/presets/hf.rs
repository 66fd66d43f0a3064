//! Reproduces the video sampling of Hugging Face Transformers, one clip per video; `fps` uses the average
//! rate. Formulas: huggingface/transformers, `video_processing_utils.py` (`BaseVideoProcessor.sample_frames`)
//! and `video_utils.py` (`default_sample_indices_fn`).

use super::common::{
    check_count, check_range, checked_length, clips_unless_empty, require_fps, require_in_range,
};
use super::numpy_compat::{arange_count, torch_arange_f32};
use crate::clip_sampler::common::check_clip_index;
use crate::clip_sampler::{ClipIndices, ClipSampler, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// Which of the two functions to reproduce.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SampleFunction {
    /// `BaseVideoProcessor.sample_frames`: `torch.arange(0, N, N / num_frames).int()`.
    #[default]
    SampleFrames,
    /// `default_sample_indices_fn`, which `load_video` uses: `numpy.arange(0, N, N / num_frames, dtype=int)`.
    /// NumPy truncates the step to an integer, so the frames do not reach the end of the video.
    DefaultSampleIndicesFn,
}

/// Release of Transformers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransformersVersion {
    /// 4.57: the two functions differ.
    V4_57,
    /// 5.23 and later: both functions return `i * N // num_frames`, and at least one frame at `fps`.
    V5_23,
}

/// The number of frames to sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FrameSelection {
    /// All frames.
    All,
    /// This number of frames.
    Number(u32),
    /// As many frames as the video has at this rate, in frames per second.
    Rate(f64),
}

/// Frames evenly spread over the video.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HfSampleFrames {
    function: SampleFunction,
    frames: FrameSelection,
    version: TransformersVersion,
}

impl HfSampleFrames {
    /// Checks the options.
    pub fn new(
        function: SampleFunction,
        frames: FrameSelection,
        version: TransformersVersion,
    ) -> Result<Self> {
        let needs_number = function == SampleFunction::SampleFrames && version == TransformersVersion::V4_57;
        match frames {
            FrameSelection::All if needs_number => Err(Error::Argument(
                "num_frames or fps must be given, got neither; the original fails without".into(),
            )),
            FrameSelection::All => Ok(()),
            FrameSelection::Number(frames) => check_count("num_frames", frames).map(drop),
            FrameSelection::Rate(fps) => check_range("fps", fps).map(drop),
        }?;
        Ok(Self { function, frames, version })
    }

    fn num_frames(&self, video: &dyn VideoTiming) -> Result<f64> {
        let total = f64::from(video.num_frames());
        let (frames, may_exceed) = match self.frames {
            FrameSelection::All => (total, false),
            FrameSelection::Number(frames) => {
                let may_exceed = self.version == TransformersVersion::V4_57
                    && self.function == SampleFunction::DefaultSampleIndicesFn;
                (f64::from(frames), may_exceed)
            }
            FrameSelection::Rate(fps) => {
                let frames = (total / require_fps("hf", video)? * fps).trunc();
                let fewest = if self.version == TransformersVersion::V5_23 { 1.0 } else { 0.0 };
                (frames.max(fewest), false)
            }
        };
        if frames > total && !may_exceed {
            return Err(Error::Argument(format!(
                "num_frames must be at most the {total} frames of the video, got {frames}; request fewer, or omit it"
            )));
        }
        checked_length(frames).map(f64::from)
    }
}

impl ClipSampler for HfSampleFrames {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        clips_unless_empty(video, 1)
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        Some(1)
    }

    fn sequence_length(&self) -> Option<u32> {
        match (self.function, self.frames, self.version) {
            (SampleFunction::SampleFrames, FrameSelection::Number(frames), _)
            | (_, FrameSelection::Number(frames), TransformersVersion::V5_23) => Some(frames),
            // NumPy may return one frame more.
            _ => None,
        }
    }

    /// `torch.arange` may return one value too many, equal to the number of frames. It is dropped, as the
    /// readers that decode a file frame by frame do.
    fn clip(&self, video: &dyn VideoTiming, number: u64, _: &mut dyn RandomSource) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
        let (total, frames) = (f64::from(video.num_frames()), self.num_frames(video)?);
        if self.version == TransformersVersion::V5_23 {
            let (total, frames) = (u64::from(video.num_frames()), frames as u64);
            return require_in_range((0..frames).map(|i| (i * total / frames) as i64), video.num_frames());
        }
        let step = total / frames;
        let values = arange_count(0.0, total, step);
        let position = |i: u64| match self.function {
            SampleFunction::SampleFrames => torch_arange_f32(0.0, step, values, i) as i64,
            SampleFunction::DefaultSampleIndicesFn => i as i64 * step as i64,
        };
        let kept = match self.function {
            SampleFunction::SampleFrames => values.min(frames as u64),
            SampleFunction::DefaultSampleIndicesFn => values,
        };
        require_in_range((0..kept).map(position), video.num_frames())
    }

    fn min_length_hint(&self) -> String {
        match self.frames {
            FrameSelection::Number(frames) => format!("{frames} frames"),
            _ => "1 frame".to_owned(),
        }
    }
}
