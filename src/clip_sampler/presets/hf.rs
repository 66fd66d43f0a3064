//! Reproduces the video sampling of Hugging Face Transformers, one clip per video; `fps` uses the average
//! rate. Formulas: huggingface/transformers, `video_processing_utils.py` (`BaseVideoProcessor.sample_frames`)
//! and `video_utils.py` (`default_sample_indices_fn`).

use super::common::{count, inside, known_fps, length, of_each, positive};
use super::numpy_compat::{arange_count, torch_arange_f32};
use crate::clip_sampler::common::known_clip;
use crate::clip_sampler::{ClipIndices, ClipSampler, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// Which of the two functions to reproduce.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Function {
    /// `BaseVideoProcessor.sample_frames`: `torch.arange(0, N, N / num_frames).int()`.
    #[default]
    SampleFrames,
    /// `default_sample_indices_fn`, which `load_video` uses: `numpy.arange(0, N, N / num_frames, dtype=int)`.
    /// NumPy truncates the step to an integer, so the frames do not reach the end of the video.
    DefaultSampleIndicesFn,
}

/// The number of frames to sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Frames {
    /// All frames.
    All,
    /// This number of frames.
    Number(u32),
    /// As many frames as the video has at this rate, in frames per second.
    Rate(f64),
}

/// Frames evenly spread over the video.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleFrames {
    function: Function,
    frames: Frames,
}

impl SampleFrames {
    /// Checks the options.
    pub fn new(function: Function, frames: Frames) -> Result<Self> {
        match frames {
            Frames::All if function == Function::SampleFrames => Err(Error::Argument(
                "num_frames or fps must be given, got neither; the original fails without".into(),
            )),
            Frames::All => Ok(()),
            Frames::Number(frames) => count("num_frames", frames).map(drop),
            Frames::Rate(fps) => positive("fps", fps).map(drop),
        }?;
        Ok(Self { function, frames })
    }

    fn num_frames(&self, video: &dyn VideoTiming) -> Result<f64> {
        let total = f64::from(video.num_frames());
        let (frames, may_exceed) = match self.frames {
            Frames::All => (total, false),
            Frames::Number(frames) => (f64::from(frames), self.function == Function::DefaultSampleIndicesFn),
            Frames::Rate(fps) => ((total / known_fps("hf", video)? * fps).trunc(), false),
        };
        if frames > total && !may_exceed {
            return Err(Error::Argument(format!(
                "num_frames must be at most the {total} frames of the video, got {frames}; ask for fewer, or leave it out"
            )));
        }
        length(frames).map(f64::from)
    }
}

impl ClipSampler for SampleFrames {
    fn clips_in(&self, video: &dyn VideoTiming) -> u64 {
        of_each(video, 1)
    }

    fn clips_each(&self) -> Option<u64> {
        Some(1)
    }

    fn sequence_length(&self) -> Option<u32> {
        match (self.function, self.frames) {
            (Function::SampleFrames, Frames::Number(frames)) => Some(frames),
            // NumPy may return one frame more.
            _ => None,
        }
    }

    /// `torch.arange` may return one value too many, equal to the number of frames. It is dropped, as the
    /// readers that decode a file frame by frame do.
    fn clip(&self, video: &dyn VideoTiming, number: u64, _: &mut dyn RandomSource) -> Result<ClipIndices> {
        known_clip(number, self.clips_in(video), video)?;
        let (total, frames) = (f64::from(video.num_frames()), self.num_frames(video)?);
        let step = total / frames;
        let values = arange_count(0.0, total, step);
        let position = |i: u64| match self.function {
            Function::SampleFrames => torch_arange_f32(0.0, step, values, i) as i64,
            Function::DefaultSampleIndicesFn => i as i64 * step as i64,
        };
        let kept = match self.function {
            Function::SampleFrames => values.min(frames as u64),
            Function::DefaultSampleIndicesFn => values,
        };
        inside((0..kept).map(position), video.num_frames())
    }

    fn needs(&self) -> String {
        match self.frames {
            Frames::Number(frames) => format!("{frames} frames"),
            _ => "1 frame".to_owned(),
        }
    }
}
