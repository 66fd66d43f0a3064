//! An order: which clip is at each position of each epoch. Which of these positions a rank delivers
//! is the matter of [`super::split`].

use std::fmt::Debug;

/// The parameters of a grouped shuffle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupedConfig {
    /// Number of streams. A number of ranks that divides it gives each video to one rank.
    pub num_streams: u32,
    /// Number of positions of the order over which the clips of a chunk are spread. From twice the
    /// number of clips on, each stream is shuffled fully.
    pub block_size: u64,
    /// Maximum number of clips of a chunk.
    pub max_chunk: u32,
}

/// The clips of every epoch, with random access to any position.
pub(super) trait Order: Debug + Send + Sync {
    /// Positions of an epoch.
    fn num_clips(&self) -> u64;

    /// Positions from which the number of batches follows. Where ranks or machines have parts of
    /// their own, they are those of the longest part, with [`super::LastBatchPolicy::Drop`] of the
    /// shortest.
    fn required_clips(&self) -> u64 {
        self.num_clips()
    }

    /// The clip at each of these positions, and how many times it came earlier in the epoch (see
    /// [`super::SampledClip::occurrence`]). Positions past the end wrap around.
    fn clips(&self, epoch: u64, positions: &mut dyn Iterator<Item = u64>) -> Vec<(u64, u32)>;

    /// The parameters of a grouped shuffle; `None` if the clips are not grouped.
    fn grouped(&self) -> Option<GroupedConfig> {
        None
    }

    /// Prepares an epoch in the background, where its first batch would take long otherwise.
    fn prepare(&self, _epoch: u64) {}
}
