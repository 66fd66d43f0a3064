//! Reproduces the sampling of vLLM's video loader for models without a loader of their own, one
//! clip per video. Formulas: vllm-project/vllm, `vllm/multimodal/video.py`, `VideoBackend`.

use serde::Deserialize;

use super::arithmetic::linspace;
use super::formula::{Formula, Shape, checked_length, require_fps, require_in_range};
use super::options::{Count, Positive};
use crate::clip_sampler::{ClipIndices, RandomSource, VideoTiming};
use crate::error::Result;

/// `numpy.linspace(0, N - 1, n, dtype=int)`, at most `num_frames` and at most `fps` per second.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VideoBackend {
    num_frames: Option<Count>,
    fps: Option<Positive>,
}

impl Formula for VideoBackend {
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
        let total = f64::from(video.num_frames());
        let mut frames = self.num_frames.map_or(total, |most| most.f64().min(total));
        if let Some(fps) = self.fps {
            frames = frames.min((total / require_fps("vllm", video)? * fps.0).floor());
        }
        let positions = linspace(0.0, total - 1.0, checked_length(frames.max(1.0))?)
            .into_iter()
            .map(|at| at as i64);
        require_in_range(positions, video.num_frames())
    }
}
