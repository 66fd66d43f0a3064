//! Reproduces TSN's dataset: `new_length` consecutive frames from each of `num_segments` parts of
//! the video. Formulas: yjxiong/tsn-pytorch, dataset.py; TSM's ops/dataset.py has the same. All
//! segments form one clip, since the network takes all of them at once.

use serde::Deserialize;

use super::formula::{Formula, Shape, clamp, draw_sorted};
use super::options::{Count, check_product};
use crate::clip_sampler::{ClipIndices, RandomSource, VideoTiming};
use crate::error::Result;

/// `TSNDataSet`: a random position in each part in training (`random_shift`), its middle otherwise.
/// (For RGB differences the original itself increases `new_length` by one.)
///
/// Random numbers in training: `next_below(part)` for each segment. If parts would be empty and the
/// video has more frames than segments: `next_below(frames - new_length + 1)` for each segment,
/// sorted. Otherwise none, and all segments begin at frame 0,
/// as do those of a video shorter than `new_length`, where the original fails. Frames past the end
/// repeat the last one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TsnDataSet {
    num_segments: Count,
    new_length: Count,
    random_shift: bool,
    test_mode: bool,
}

impl TsnDataSet {
    fn starts(&self, frames: i64, rng: &mut dyn RandomSource) -> Vec<i64> {
        let [segments, length] = [self.num_segments, self.new_length].map(Count::i64);
        let starts = frames - length + 1;
        if self.test_mode || !self.random_shift {
            let fits = self.test_mode || frames >= segments + length;
            let tick = if fits {
                starts as f64 / segments as f64
            } else {
                0.0
            };
            return (0..segments)
                .map(|i| ((tick / 2.0 + tick * i as f64) as i64).max(0))
                .collect();
        }
        let part = starts.div_euclid(segments);
        if part > 0 {
            return (0..segments)
                .map(|i| i * part + rng.next_below(part as u64) as i64)
                .collect();
        }
        if frames > segments && starts > 0 {
            return draw_sorted(rng, starts as u64, segments as u64)
                .into_iter()
                .map(|start| start as i64)
                .collect();
        }
        vec![0; segments as usize]
    }
}

impl Formula for TsnDataSet {
    fn check(&self) -> Result<()> {
        check_product(
            "num_segments * new_length",
            &[self.num_segments, self.new_length],
        )
    }

    fn shape(&self) -> Shape {
        let length = self.num_segments.0 * self.new_length.0; // at most MAX_PRODUCT
        Shape {
            clips: Some(1),
            length: Some(length),
            draws_together: false,
        }
    }

    fn frames(
        &self,
        video: &dyn VideoTiming,
        _: u64,
        rng: &mut dyn RandomSource,
    ) -> Result<ClipIndices> {
        let starts = self.starts(video.num_frames().into(), rng);
        let positions = starts
            .into_iter()
            .flat_map(|start| (0..self.new_length.i64()).map(move |i| start + i));
        Ok(clamp(positions, video.num_frames()))
    }
}
