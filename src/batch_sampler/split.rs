//! A split: which positions of an order one rank delivers in one batch, and which of them are
//! padding.

use std::ops::Range;

use super::order::Order;
use super::{BatchSamplerConfig, LastBatchPolicy};

/// How the positions of an order become the batches of one rank.
///
/// The ranks that share the order divide its global batches: all of them, those of a machine, or a
/// single one that sticks to its shard.
#[derive(Debug)]
pub(super) struct Split {
    rank: u32,
    own: GlobalBatchSplit,
    /// The batches that all orders must have: those of another part, or the own ones.
    required: GlobalBatchSplit,
    /// Whether a rank has the positions that leave its number as the remainder, and so all places
    /// of its own streams of a grouped shuffle, in place of consecutive positions.
    strided: bool,
}

/// The positions of a batch: those of real clips, then padding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BatchPositions {
    pub positions: Vec<u64>,
    /// How many of them are real clips.
    pub num_real: usize,
}

impl Split {
    /// The split of an order for the rank of a configuration.
    pub(super) fn new(config: &BatchSamplerConfig, order: &dyn Order) -> Self {
        let ranks = match config.stick_to_shard {
            true => 1,
            false => config.num_shards / config.num_nodes,
        };
        let split = |num_clips| GlobalBatchSplit {
            num_clips,
            batch_size: config.batch_size,
            num_shards: ranks,
            last_batch: config.last_batch,
        };
        Self {
            rank: config.shard_id % ranks,
            own: split(order.num_clips()),
            required: split(order.required_clips()),
            strided: order.grouped().is_some(),
        }
    }

    /// Number of batches of the rank.
    pub(super) fn len_batches(&self) -> u64 {
        self.required.len_batches()
    }

    /// Number of slots in all batches of the rank, including padding.
    pub(super) fn num_samples(&self) -> u64 {
        self.required.num_samples()
    }

    /// The positions of a batch of the rank; none past the last batch.
    pub(super) fn batch(&self, batch: u64) -> BatchPositions {
        let Some(share) = self.required.rank_slice(batch, self.rank) else {
            return BatchPositions::default();
        };
        let of_own = |batch| self.own.positions(batch, self.rank, self.strided);
        let length = (share.clips + share.padding) as usize;
        let mut found = of_own(batch);
        found.positions.truncate(length);
        found.num_real = found.num_real.min(length);
        // The own part has fewer clips than another one: its first batches follow again.
        let mut again = (0..self.own.len_batches()).cycle();
        while found.positions.len() < length
            && let Some(first) = again.next()
        {
            let missing = length - found.positions.len();
            found
                .positions
                .extend(of_own(first).positions.iter().take(missing));
        }
        found
    }
}

/// Divides the positions of the global order into batches of each rank.
///
/// With `G = batch_size * num_shards`, global batch `b` is the positions `b*G .. min((b+1)*G,
/// num_clips)`. It is cut into `num_shards` consecutive ranges, rank 0 first, whose lengths differ
/// by at most one, the longer ones first. A full global batch thus gives rank *r* the positions
/// `b*G + r*batch_size ..`, and only the last one can be uneven. Padding then makes all ranks
/// equally long:
///
/// - [`LastBatchPolicy::Partial`]: up to the longest range, so a rank gets at most one padding
///   clip;
/// - [`LastBatchPolicy::Fill`]: up to `batch_size`;
/// - [`LastBatchPolicy::Drop`]: no padding; a last global batch that is not full is skipped.
///
/// Padding clips are taken consecutively from the beginning of the global order, rank after rank,
/// wrapping around if there are fewer clips than padding. The clips of a global batch, and the
/// number of batches, depend on `G` alone: a run can resume with a different number of ranks if `G`
/// is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalBatchSplit {
    /// Number of clips of all ranks.
    pub num_clips: u64,
    /// Clips per batch of one rank, at least 1.
    pub batch_size: u32,
    /// Number of ranks, at least 1.
    pub num_shards: u32,
    /// How to handle the last global batch.
    pub last_batch: LastBatchPolicy,
}

/// The part of a global batch that one rank delivers: the real clips, then the padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankSlice {
    /// First position in the global order.
    pub first: u64,
    /// Number of clips from there.
    pub clips: u64,
    /// First position of the padding, counted from the beginning of the global order, modulo the
    /// number of clips.
    pub padding_first: u64,
    /// Number of padding clips.
    pub padding: u64,
}

impl GlobalBatchSplit {
    /// Number of batches; the same on all ranks.
    pub fn len_batches(&self) -> u64 {
        match self.last_batch {
            LastBatchPolicy::Partial | LastBatchPolicy::Fill => {
                self.num_clips.div_ceil(self.global_batch())
            }
            LastBatchPolicy::Drop => self.num_clips / self.global_batch(),
        }
    }

    /// The share of rank `shard_id` in global batch `batch`; `None` past the last batch.
    pub fn rank_slice(&self, batch: u64, shard_id: u32) -> Option<RankSlice> {
        if batch >= self.len_batches() || shard_id >= self.num_shards {
            return None;
        }
        let (ranks, rank) = (u64::from(self.num_shards), u64::from(shard_id));
        let begin = batch * self.global_batch();
        let there = (self.num_clips - begin).min(self.global_batch());
        let (each, longer) = (there / ranks, there % ranks);
        let before = rank * each + rank.min(longer);
        let clips = each + u64::from(rank < longer);
        let length = match self.last_batch {
            LastBatchPolicy::Fill => u64::from(self.batch_size),
            LastBatchPolicy::Partial | LastBatchPolicy::Drop => there.div_ceil(ranks),
        };
        Some(RankSlice {
            first: begin + before,
            clips,
            padding_first: rank * length - before,
            padding: length - clips,
        })
    }

    /// The positions of a rank's batch, consecutive or strided; none past the last batch.
    fn positions(&self, batch: u64, rank: u32, strided: bool) -> BatchPositions {
        let Some(share) = self.rank_slice(batch, rank) else {
            return BatchPositions::default();
        };
        let (first, step) = match strided {
            true => (
                batch * self.global_batch() + u64::from(rank),
                u64::from(self.num_shards),
            ),
            false => (share.first, 1),
        };
        let clips = (0..share.clips).map(|n| first + n * step);
        let padding = share.padding_first..share.padding_first + share.padding;
        BatchPositions {
            positions: clips.chain(padding).collect(),
            num_real: share.clips as usize,
        }
    }

    /// Number of slots in all batches of one rank, including padding; the same on all ranks.
    pub fn num_samples(&self) -> u64 {
        let last = self.len_batches().checked_sub(1);
        last.map_or(0, |last| {
            let share = self
                .rank_slice(last, 0)
                .map_or(0, |share| share.clips + share.padding);
            // The padding may exceed the range of u64.
            last.saturating_mul(self.batch_size.into())
                .saturating_add(share)
        })
    }

    /// Clips of one batch over all ranks.
    fn global_batch(&self) -> u64 {
        u64::from(self.batch_size.max(1)) * u64::from(self.num_shards.max(1))
    }
}

/// The range of the dataset that belongs to a shard: shard `i` begins at `floor(num_clips * i /
/// num_shards)`.
///
/// Shard sizes differ by at most one clip: the largest is `num_clips / num_shards` rounded up, the
/// smallest is it rounded down.
pub fn shard_range(num_clips: u64, num_shards: u32, shard: u32) -> Range<u64> {
    let shards = u128::from(num_shards.max(1));
    let begin = |shard: u64| (u128::from(num_clips) * u128::from(shard) / shards) as u64;
    begin(u64::from(shard))..begin(u64::from(shard) + 1).min(num_clips)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shard_ranges_differ_by_at_most_one_clip() {
        // floor(10 i / 4) = 0 2 5 7 10
        assert_eq!(
            (0..4).map(|i| shard_range(10, 4, i)).collect::<Vec<_>>(),
            [0..2, 2..5, 5..7, 7..10]
        );
        for (clips, shards) in [(7, 3), (3, 3), (1, 1), (u64::MAX, u32::MAX)] {
            let last = shard_range(clips, shards, shards - 1);
            assert_eq!((shard_range(clips, shards, 0).start, last.end), (0, clips));
            let each = clips / u64::from(shards);
            assert!((each..=each + 1).contains(&(last.end - last.start)));
        }
    }

    fn shares(
        num_clips: u64,
        batch_size: u32,
        num_shards: u32,
        last_batch: LastBatchPolicy,
    ) -> Vec<Vec<[u64; 4]>> {
        let split = GlobalBatchSplit {
            num_clips,
            batch_size,
            num_shards,
            last_batch,
        };
        let share = |b, r| {
            split
                .rank_slice(b, r)
                .map(|s| [s.first, s.clips, s.padding_first, s.padding])
                .unwrap()
        };
        (0..split.len_batches())
            .map(|b| (0..num_shards).map(|r| share(b, r)).collect())
            .collect()
    }

    #[test]
    fn global_batches_are_split_into_contiguous_ranges() {
        assert_eq!(
            shares(8, 2, 2, LastBatchPolicy::Drop),
            [[[0, 2, 0, 0], [2, 2, 0, 0]], [[4, 2, 0, 0], [6, 2, 0, 0]]]
        );
    }

    #[test]
    fn the_last_global_batch_is_split_evenly() {
        // 5 clips over 4 ranks: 2 1 1 1; the three shorter ranks are padded by the clips at
        // positions 0, 1, 2.
        let partial = [[0, 2, 0, 0], [2, 1, 0, 1], [3, 1, 1, 1], [4, 1, 2, 1]];
        assert_eq!(shares(5, 3, 4, LastBatchPolicy::Partial), [partial]);
        let fill = [[0, 2, 0, 1], [2, 1, 1, 2], [3, 1, 3, 2], [4, 1, 5, 2]];
        assert_eq!(shares(5, 3, 4, LastBatchPolicy::Fill), [fill]);
        assert!(shares(5, 3, 4, LastBatchPolicy::Drop).is_empty());
    }

    #[test]
    fn excess_ranks_get_padding() {
        assert_eq!(
            shares(1, 2, 3, LastBatchPolicy::Partial),
            [[[0, 1, 0, 0], [1, 0, 0, 1], [1, 0, 1, 1]]]
        );
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        for last_batch in [
            LastBatchPolicy::Partial,
            LastBatchPolicy::Fill,
            LastBatchPolicy::Drop,
        ] {
            let (batch_size, num_shards) = (u32::MAX, u32::MAX);
            let split = GlobalBatchSplit {
                num_clips: u64::MAX,
                batch_size,
                num_shards,
                last_batch,
            };
            let last = split.len_batches() - 1;
            let share = split.rank_slice(last, num_shards - 1).unwrap();
            assert!(share.first.checked_add(share.clips).is_some());
            assert!(
                split.rank_slice(last + 1, 0).is_none()
                    && split.rank_slice(0, num_shards).is_none()
            );
            assert!(split.num_samples() > 0);
        }
        // Six slots of padding would overflow u64.
        let filled = GlobalBatchSplit {
            num_clips: u64::MAX,
            batch_size: 7,
            num_shards: 1,
            last_batch: LastBatchPolicy::Fill,
        };
        assert_eq!(filled.num_samples(), u64::MAX);
    }
}
