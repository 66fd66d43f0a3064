//! Reproduces LeRobot's `delta_timestamps`: one clip at each frame; a frame beyond the tolerance is
//! an error. Formulas: huggingface/lerobot, `datasets/feature_utils.py` (`check_delta_timestamps`,
//! `get_delta_indices`), `dataset_reader.py`, `video_utils.py` (`decode_video_frames_torchcodec`).

use serde::Deserialize;

use super::formula::{Formula, Shape, require_fps};
use super::options::Positive;
use crate::clip_sampler::{ClipIndices, RandomSource, VideoTiming};
use crate::error::{Error, Result};

/// Maximum number of frames of a clip: each one is compared with all others.
const MAX_DELTAS: usize = 4096;

/// Frames at given time offsets in seconds from each frame of a video (an episode). `fps`: the
/// dataset's rate; `None`: the video's average rate. `tolerance_s`: the maximum deviation of a
/// frame or an offset from the grid of that rate.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeltaTimestamps {
    delta_timestamps: Vec<f64>,
    fps: Option<Positive>,
    tolerance_s: f64,
}

impl DeltaTimestamps {
    /// The time offsets in frames.
    fn delta_indices(&self, fps: f64) -> Result<Vec<i64>> {
        let index = |&delta: &f64| {
            let at = delta * fps;
            match (at - at.round_ties_even()).abs() / fps <= self.tolerance_s {
                true => Ok(at.round_ties_even() as i64),
                false => Err(Error::Argument(format!(
                    "delta_timestamps must be multiples of 1/{fps} second to within tolerance_s, got {delta}; move it, or raise tolerance_s"
                ))),
            }
        };
        self.delta_timestamps.iter().map(index).collect()
    }
}

impl Formula for DeltaTimestamps {
    fn check(&self) -> Result<()> {
        let deltas = &self.delta_timestamps;
        if deltas.is_empty() || deltas.len() > MAX_DELTAS {
            return Err(Error::Argument(format!(
                "delta_timestamps must have from 1 to {MAX_DELTAS} entries, got {}; use [0.0] for the frame itself",
                deltas.len()
            )));
        }
        if let Some(far) = deltas.iter().find(|delta| delta.abs() > 1e6) {
            return Err(Error::Argument(format!(
                "delta_timestamps must be from -1000000 to 1000000, got {far}; they are seconds from the clip's frame"
            )));
        }
        if self.tolerance_s < 0.0 {
            return Err(Error::Argument(format!(
                "tolerance_s must be at least 0, got {}",
                self.tolerance_s
            )));
        }
        self.fps
            .map_or(Ok(()), |fps| self.delta_indices(fps.0).map(drop))
    }

    fn shape(&self) -> Shape {
        Shape {
            clips: None,
            length: Some(self.delta_timestamps.len() as u32),
            draws_together: false,
        }
    }

    fn clips(&self, video: &dyn VideoTiming) -> u64 {
        video.num_frames().into()
    }

    fn frames(
        &self,
        video: &dyn VideoTiming,
        clip: u64,
        _: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        let average_fps = require_fps("lerobot", video)?;
        let fps = self.fps.map_or(average_fps, |fps| fps.0);
        let last = i64::from(video.num_frames()) - 1;
        let wanted: Vec<i64> = self
            .delta_indices(fps)?
            .into_iter()
            .map(|d| (clip as i64).saturating_add(d))
            .collect();
        let mask = wanted.iter().map(|at| (0..=last).contains(at)).collect();
        // Timestamps of the file, as in the original: an episode may begin in the middle of a file.
        let begin = video.pts_seconds(0);
        let first = (begin * average_fps).round_ties_even();
        let times: Vec<f64> = wanted
            .iter()
            .map(|&at| begin + at.clamp(0, last) as f64 / fps)
            .collect();
        let loaded = times.iter().map(|time| {
            let at = (time * average_fps).round_ties_even() - first;
            let frame = (0.0..=last as f64).contains(&at).then_some(at as u32);
            frame
                .map(|frame| (frame, video.pts_seconds(frame)))
                .ok_or_else(|| beyond(*time, video))
        });
        let loaded: Vec<(u32, f64)> = loaded.collect::<Result<_>>()?;
        let nearest = |&time: &f64| {
            let distance = |(_, begins): &&(u32, f64)| (begins - time).abs();
            // The first of equally near frames, as argmin returns.
            let near = loaded
                .iter()
                .min_by(|a, b| distance(a).total_cmp(&distance(b)));
            near.filter(|near| distance(near) <= self.tolerance_s)
                .map(|near| near.0)
                .ok_or_else(|| beyond(time, video))
        };
        Ok(ClipIndices {
            indices: times.iter().map(nearest).collect::<Result<_>>()?,
            mask,
        })
    }
}

fn beyond(time: f64, video: &dyn VideoTiming) -> Error {
    Error::Argument(format!(
        "no frame appears within tolerance_s of {time} seconds in a video of {} frames; its frames are not at the \
         dataset's rate: set fps, raise tolerance_s, or omit it",
        video.num_frames()
    ))
}
