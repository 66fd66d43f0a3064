//! Reproduces PySlowFast's frame indices for the code path that decodes the whole video and then samples it.
//! Formulas: facebookresearch/SlowFast, slowfast/datasets/decoder.py and kinetics.py. The original shows each
//! temporal view through `NUM_SPATIAL_CROPS` crops (ThreeCrop).

mod ssv2;

use super::common::{check_count, check_range, clamp_positions, clips_unless_empty, require_fps};
use super::numpy_compat::torch_linspace;
use crate::clip_sampler::common::check_clip_index;
use crate::clip_sampler::{ClipIndices, ClipSampler, RandomSource, VideoTiming};
use crate::error::{Error, Result};

pub use ssv2::Ssv2;

/// Settings of a PySlowFast dataset, with their names in lower case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KineticsOptions {
    /// Random clips (modes `train` and `val`) instead of evenly spread views (`test`).
    pub random: bool,
    /// Frames of a clip.
    pub num_frames: u32,
    /// Distance between frames of a clip, at `target_fps`.
    pub sampling_rate: u32,
    /// The frame rate to which `sampling_rate` refers.
    pub target_fps: f64,
    /// Maximum random increase of the frame rate, in frames per second (mode `train`).
    pub train_jitter_fps: f64,
    /// Views in test begin at integer frames, and the last one reaches the end.
    pub use_offset_sampling: bool,
    /// Views of a video in test.
    pub num_ensemble_views: u32,
}

/// The `Kinetics` dataset: one random clip in training, evenly spread views in test. A clip spans
/// `sampling_rate * num_frames / target_fps` seconds; its frames are those of `torch.linspace` in float32,
/// truncated. Frames past the end of a short video repeat its last one.
///
/// Random numbers of a random clip: `next_f64` for the rate if `train_jitter_fps` is above 0, then `next_f64`
/// for the start, even for a short video.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kinetics(KineticsOptions);

impl Kinetics {
    /// Checks the settings.
    pub fn new(options: KineticsOptions) -> Result<Self> {
        check_count("num_frames", options.num_frames)?;
        check_count("sampling_rate", options.sampling_rate)?;
        check_count("num_ensemble_views", options.num_ensemble_views)?;
        check_range("target_fps", options.target_fps)?;
        if !(0.0..=1e9).contains(&options.train_jitter_fps) {
            return Err(Error::Argument(format!(
                "train_jitter_fps must be from 0 to 1000000000, got {}; use 0 for a fixed rate",
                options.train_jitter_fps
            )));
        }
        Ok(Self(options))
    }

    fn clips(&self) -> u32 {
        if self.0.random {
            1
        } else {
            self.0.num_ensemble_views
        }
    }

    /// The start of view `view` within a range of `delta` frames.
    fn view_start(&self, delta: f64, view: u64) -> f64 {
        let (view, views) = (view as f64, f64::from(self.0.num_ensemble_views));
        match self.0.use_offset_sampling {
            false => delta * view / views,
            true if self.0.num_ensemble_views == 1 => (delta / 2.0).floor(),
            true => view * (delta / (views - 1.0)).floor(),
        }
    }
}

impl ClipSampler for Kinetics {
    fn num_clips(&self, video: &dyn VideoTiming) -> u64 {
        clips_unless_empty(video, self.clips())
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        Some(u64::from(self.clips()))
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(self.0.num_frames)
    }

    fn clip(&self, video: &dyn VideoTiming, number: u64, rng: &mut dyn RandomSource) -> Result<ClipIndices> {
        check_clip_index(number, self.num_clips(video), video)?;
        let fps = require_fps("slowfast", video)?;
        let options = &self.0;
        let target = match options.random && options.train_jitter_fps > 0.0 {
            true => options.target_fps + options.train_jitter_fps * rng.next_f64(),
            false => options.target_fps,
        };
        let span = f64::from(options.sampling_rate) * f64::from(options.num_frames) / target * fps;
        let span = span.max(1.0);
        let delta = (f64::from(video.num_frames()) - span).max(0.0);
        let start = match options.random {
            true => delta * rng.next_f64(),
            false => self.view_start(delta, number),
        };
        let positions = torch_linspace(start, start + span - 1.0, options.num_frames);
        Ok(clamp_positions(positions.into_iter().map(|at| at as i64), video.num_frames()))
    }

    fn min_length_hint(&self) -> String {
        "1 frame".to_owned()
    }
}
