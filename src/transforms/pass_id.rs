//! Identifies a compiled pass, of which a device has its own copy.

use framespool_kernels as kernels;

use crate::media::DisplayGeometry;
use crate::rng::RngKey;

/// What a compiled pass depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CompileKey {
    pub size: (u32, u32),
    pub display: DisplayGeometry,
    pub key: RngKey,
    pub t: u32,
    /// Number of frames of the clip, where the result depends on it; otherwise 0.
    pub frames: usize,
    pub tone: Option<kernels::ToneMap>,
    /// The decoder may output a smaller image.
    pub may_scale: bool,
}

/// Identifies one pass among those of all executors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PassId {
    pub executor: u64,
    pub compiled: CompileKey,
    pub view: usize,
    /// Number of the stage.
    pub stage: usize,
}
