//! Reproduces the frame indices of mmaction2's sampling transforms (open-mmlab/mmaction2, version 1,
//! mmaction/datasets/transforms/loading.py). One clip is one of the original's `num_clips`, which it returns
//! in one item; a test has these clips times the crops of a transform (ThreeCrop).

mod dense;
mod sample;
mod uniform;
mod untrimmed;

use super::common::sample_integers;
use crate::clip_sampler::{ClipIndices, RandomSource};

pub use dense::{DenseSampleFrames, DenseSampleFramesOptions};
pub use sample::{SampleFrames, SampleFramesOptions};
pub use uniform::MmactionUniformSample;
pub use untrimmed::UntrimmedSampleFrames;

/// How to pad positions past the end of the video (`out_of_bound_opt`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutOfBound {
    /// Restarts the video: position modulo number of frames.
    #[default]
    Loop,
    /// The latest frame of the clip that is inside the video; frame 0 if there is none.
    RepeatLast,
}

impl OutOfBound {
    /// The frames at `positions`, which must not be negative. They are truncated to integers last, as in the
    /// original.
    fn resolve(self, positions: &[f64], num_frames: u32) -> ClipIndices {
        let end = f64::from(num_frames);
        let inside = |at: &f64| *at < end;
        let last = positions.iter().copied().filter(|at| inside(at)).fold(0.0, f64::max);
        let shown = |at: &f64| match self {
            _ if inside(at) => *at,
            OutOfBound::Loop => at % end,
            OutOfBound::RepeatLast => last,
        };
        ClipIndices {
            indices: positions.iter().map(|at| shown(at) as u32).collect(),
            mask: positions.iter().map(inside).collect(),
        }
    }
}

/// `temporal_jitter`: samples a number below `frame_interval` for each frame of each clip and adds those of
/// one clip.
fn jitter(positions: &mut [f64], frame_interval: u32, (clip, clips): (u64, u64), rng: &mut dyn RandomSource) {
    let frames = positions.len() as u64;
    let drawn = sample_integers(rng, u64::from(frame_interval), frames * clips);
    for (at, add) in positions.iter_mut().zip(drawn.iter().skip((clip * frames) as usize)) {
        *at += *add as f64;
    }
}
