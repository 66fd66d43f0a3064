//! Reproduces the frame indices of VideoMAE's datasets (MCG-NJU/VideoMAE: kinetics.py, ssv2.py;
//! OpenGVLab/VideoMAEv2: dataset/datasets.py, dataset/pretrain_datasets.py). The original shows each temporal
//! view of a test through `test_num_crop` crops (ThreeCrop).

mod finetune;
mod pretrain;
mod ssv2;

use super::numpy_compat::{int, linspace};
use crate::clip_sampler::ClipIndices;
use crate::error::{Error, Result};

pub use finetune::{Finetune, FinetuneOptions};
pub use pretrain::Pretrain;
pub use ssv2::{Ssv2, Ssv2Options};

/// The purpose of a dataset (`mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// `train`
    #[default]
    Train,
    /// `validation`
    Validation,
    /// `test`
    Test,
}

/// Which of the two repositories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VideoMaeVersion {
    /// MCG-NJU/VideoMAE
    #[default]
    One,
    /// OpenGVLab/VideoMAEv2
    Two,
}

/// Rejects a single view if views are spread from the first to the last position.
fn at_least_two_views(views: u32) -> Result<()> {
    if views >= 2 {
        return Ok(());
    }
    Err(Error::Argument(format!(
        "test_num_segment must be at least 2, got {views}; the original divides by test_num_segment - 1"
    )))
}

/// `count` frames of `start..end`, by `linspace` over both ends with the last one moved back inside: the mean
/// distance is slightly more than `(end - start) / count`. V-JEPA 2 does the same.
pub(super) fn window(start: i64, end: i64, count: u32) -> Vec<i64> {
    let moved = linspace(start as f64, end as f64, count).into_iter().map(|at| int(at.min((end - 1) as f64)));
    moved.collect()
}

/// A part of `length` frames from frame `first` of the video that is shorter than a clip: `length / step`
/// frames by the same `linspace`, then its last frame repeated up to `count`. For an empty part the original
/// requests frame -1, which is the video's last frame in decord.
pub(super) fn padded(first: i64, length: u32, step: u32, (count, num_frames): (u32, u32)) -> ClipIndices {
    let last = match length {
        0 => i64::from(num_frames) - 1,
        _ => first + i64::from(length) - 1,
    };
    let real = (length / step.max(1)).min(count);
    let spread = linspace(0.0, f64::from(length), real).into_iter().map(|at| (first + int(at)).min(last));
    let all = spread.chain(std::iter::repeat_n(last, (count - real) as usize));
    ClipIndices {
        indices: all.map(|at| at.max(0) as u32).collect(), // inside the part
        mask: (0..count).map(|i| i < real).collect(),
    }
}
