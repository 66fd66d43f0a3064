//! Reproduces PySlowFast's frame indices for the code path that decodes the whole video and then
//! samples it. Formulas: facebookresearch/SlowFast, slowfast/datasets/decoder.py, kinetics.py and
//! ssv2.py. The original shows each temporal view through `NUM_SPATIAL_CROPS` crops (ThreeCrop).

use serde::Deserialize;

use super::arithmetic::torch_linspace;
use super::formula::{Formula, Shape, clamp, require_fps};
use super::options::{Count, Positive};
use crate::clip_sampler::{ClipIndices, RandomSource, VideoTiming};
use crate::error::{Error, Result};

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Train,
    Val,
    Test,
}

/// The `Kinetics` dataset: one random clip in modes `train` and `val`, evenly spread views in
/// `test`. A clip spans `sampling_rate * num_frames / target_fps` seconds; its frames are those of
/// `torch.linspace` in float32, truncated. Frames past the end of a short video repeat its last
/// one.
///
/// Random numbers of a random clip: in mode `train`, `next_f64` for the rate if `train_jitter_fps`
/// is above 0; then `next_f64` for the start, even for a short video.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kinetics {
    mode: Mode,
    num_frames: Count,
    sampling_rate: Count,
    target_fps: Positive,
    train_jitter_fps: f64,
    use_offset_sampling: bool,
    num_ensemble_views: Count,
}

impl Kinetics {
    /// The start of view `view` within a range of `delta` frames.
    fn view_start(&self, delta: f64, view: u64) -> f64 {
        let (view, views) = (view as f64, self.num_ensemble_views.f64());
        match self.use_offset_sampling {
            false => delta * view / views,
            true if views == 1.0 => (delta / 2.0).floor(),
            true => view * (delta / (views - 1.0)).floor(),
        }
    }
}

impl Formula for Kinetics {
    fn check(&self) -> Result<()> {
        if (0.0..=1e9).contains(&self.train_jitter_fps) {
            return Ok(());
        }
        Err(Error::Argument(format!(
            "train_jitter_fps must be from 0 to 1000000000, got {}; use 0 for a fixed rate",
            self.train_jitter_fps
        )))
    }

    fn shape(&self) -> Shape {
        Shape {
            clips: Some(if self.mode == Mode::Test {
                self.num_ensemble_views.u64()
            } else {
                1
            }),
            length: Some(self.num_frames.0),
            draws_together: false,
        }
    }

    fn frames(
        &self,
        video: &dyn VideoTiming,
        clip: u64,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        let fps = require_fps("slowfast", video)?;
        let jitter = match self.mode == Mode::Train && self.train_jitter_fps > 0.0 {
            true => self.train_jitter_fps * rng.next_f64(),
            false => 0.0,
        };
        let span =
            self.sampling_rate.f64() * self.num_frames.f64() / (self.target_fps.0 + jitter) * fps;
        let span = span.max(1.0);
        let delta = (f64::from(video.num_frames()) - span).max(0.0);
        let start = match self.mode {
            Mode::Test => self.view_start(delta, clip),
            Mode::Train | Mode::Val => delta * rng.next_f64(),
        };
        let positions = torch_linspace(start, start + span - 1.0, self.num_frames.0);
        Ok(clamp(
            positions.into_iter().map(|at| at as i64),
            video.num_frames(),
        ))
    }
}

/// The `Ssv2` dataset: one frame from each of `num_frames` equal parts of the video, a random one
/// in mode `train` (`next_below(end - start + 1)` for each), the middle one otherwise. There is one
/// view: the views of the original's test show the same frames through other crops (ThreeCrop).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ssv2 {
    mode: Mode,
    num_frames: Count,
}

impl Formula for Ssv2 {
    fn shape(&self) -> Shape {
        Shape {
            clips: Some(1),
            length: Some(self.num_frames.0),
            draws_together: false,
        }
    }

    fn frames(
        &self,
        video: &dyn VideoTiming,
        _: u64,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        let part = f64::from(video.num_frames() - 1) / self.num_frames.f64();
        let positions = (0..self.num_frames.0).map(|i| {
            let [start, end] =
                [i, i + 1].map(|bound| (part * f64::from(bound)).round_ties_even() as i64);
            match self.mode {
                Mode::Train => start + rng.next_below((end - start) as u64 + 1) as i64,
                Mode::Val | Mode::Test => (start + end) / 2,
            }
        });
        Ok(clamp(positions, video.num_frames()))
    }
}
