//! In: the options of VideoMAE's datasets (MCG-NJU/VideoMAE: kinetics.py, ssv2.py; OpenGVLab/VideoMAEv2:
//! dataset/datasets.py, dataset/pretrain_datasets.py). Out: their frame indices.
//! Never: crops; each temporal view of a test is shown through `test_num_crop` crops there (ThreeCrop).

mod finetune;
mod pretrain;
mod ssv2;

use super::arithmetic::{int, linspace};
use crate::error::{Error, Result};
use crate::sampling::Sample;

pub use finetune::{Finetune, FinetuneOptions};
pub use pretrain::Pretrain;
pub use ssv2::{Ssv2, Ssv2Options};

/// What a dataset is made for (`mode`).
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
pub enum Version {
    /// MCG-NJU/VideoMAE
    #[default]
    One,
    /// OpenGVLab/VideoMAEv2
    Two,
}

/// Refuses a single view where views are spread from first to last.
fn at_least_two_views(views: u32) -> Result<()> {
    if views >= 2 {
        return Ok(());
    }
    Err(Error::Argument(format!(
        "test_num_segment must be at least 2, got {views}; the original divides by test_num_segment - 1"
    )))
}

/// `count` frames of `start..end`, by `linspace` over both ends with the last one moved back inside: the mean distance
/// is a little more than `(end - start) / count`. V-JEPA 2 has the same.
pub(super) fn window(start: i64, end: i64, count: u32) -> Vec<i64> {
    let moved = linspace(start as f64, end as f64, count).into_iter().map(|at| int(at.min((end - 1) as f64)));
    moved.collect()
}

/// A part of `length` frames from frame `first` of the video, shorter than a clip: `length / step` frames by the same
/// `linspace`, then its last one as often as is missing from `count`. Of an empty part the original asks for frame -1,
/// the video's last one for decord.
pub(super) fn padded(first: i64, length: u32, step: u32, (count, num_frames): (u32, u32)) -> Sample {
    let last = match length {
        0 => i64::from(num_frames) - 1,
        _ => first + i64::from(length) - 1,
    };
    let real = (length / step.max(1)).min(count);
    let spread = linspace(0.0, f64::from(length), real).into_iter().map(|at| (first + int(at)).min(last));
    let all = spread.chain(std::iter::repeat_n(last, (count - real) as usize));
    Sample {
        indices: all.map(|at| at.max(0) as u32).collect(), // inside the part
        mask: (0..count).map(|i| i < real).collect(),
    }
}
