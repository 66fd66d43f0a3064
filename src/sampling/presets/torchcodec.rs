//! In: the options of torchcodec's samplers, by their own names. Out: rules that give the frames of their clips.
//! Formulas: pytorch/torchcodec, `torchcodec/samplers/_index_based.py`, `_time_based.py` and `_common.py`.
//! Never: decides a default; those are stated where the options are.

mod indices;
mod timestamps;

use crate::error::{Error, Result};
use crate::sampling::Sample;

pub use indices::{Indices, IndicesOptions};
pub use timestamps::{Starts, Timestamps, TimestampsOptions};

/// What a clip shows past the end of the video.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Its last frame that exists, again and again.
    #[default]
    RepeatLast,
    /// The clip from its beginning.
    Wrap,
    /// An error.
    Error,
}

impl Policy {
    /// A clip of `length` frames of which those of `exist` (at least one) exist.
    fn fill(self, exist: Vec<u32>, length: u32) -> Result<Sample> {
        let (found, length) = (exist.len(), length as usize);
        let Some(&last) = exist.last() else {
            return Err(Error::Argument(
                "a clip must begin inside the video; move sampling_range_start".into(),
            ));
        };
        if found < length && self == Policy::Error {
            return Err(Error::Argument(format!(
                "policy must be \"repeat_last\" or \"wrap\" for a clip with {found} of {length} frames inside the video, \
                 got \"error\"; or leave sampling_range_end out"
            )));
        }
        let stand_in = |i: usize| match self {
            Policy::Wrap => exist[i % found],
            Policy::RepeatLast | Policy::Error => last,
        };
        let indices = (0..length).map(|i| if i < found { exist[i] } else { stand_in(i) }).collect();
        Ok(Sample { indices, mask: (0..length).map(|i| i < found).collect() })
    }
}
