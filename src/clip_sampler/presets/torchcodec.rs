//! Reproduces torchcodec's clip samplers, with the options named as there and without defaults.
//! Formulas: pytorch/torchcodec, `torchcodec/samplers/_index_based.py`, `_time_based.py` and `_common.py`.

mod indices;
mod timestamps;

use crate::clip_sampler::ClipIndices;
use crate::error::{Error, Result};

pub use indices::{Indices, IndicesOptions};
pub use timestamps::{ClipStarts, Timestamps, TimestampsOptions};

/// How to pad a clip past the end of the video.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Repeats the clip's last real frame.
    #[default]
    RepeatLast,
    /// Restarts the clip.
    Wrap,
    /// Returns an error.
    Error,
}

impl Policy {
    /// A clip of `length` frames of which those in `exist` (at least one) are real.
    fn fill(self, exist: Vec<u32>, length: u32) -> Result<ClipIndices> {
        let (found, length) = (exist.len(), length as usize);
        let Some(&last) = exist.last() else {
            return Err(Error::Argument(
                "a clip must start inside the video; move sampling_range_start".into(),
            ));
        };
        if found < length && self == Policy::Error {
            return Err(Error::Argument(format!(
                "policy must be \"repeat_last\" or \"wrap\" for a clip with {found} of {length} frames inside the video, \
                 got \"error\"; or omit sampling_range_end"
            )));
        }
        let padding_frame = |i: usize| match self {
            Policy::Wrap => exist[i % found],
            Policy::RepeatLast | Policy::Error => last,
        };
        let indices = (0..length).map(|i| if i < found { exist[i] } else { padding_frame(i) }).collect();
        Ok(ClipIndices { indices, mask: (0..length).map(|i| i < found).collect() })
    }
}
