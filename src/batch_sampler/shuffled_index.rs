//! The orders that deliver each clip of a range of the dataset once: sequential, a permutation, or
//! a buffer shuffle. Any position has random access; lookups at consecutive positions share cached
//! blocks.

use std::ops::Range;

use super::buffer_shuffle::BufferShuffle;
use super::order::Order;
use super::permutation::Permutation;
use super::split::shard_range;
use super::{BatchSamplerConfig, LastBatchPolicy, Shuffle};
use crate::rng::{Purpose, RngKey};

/// The order of a range of the dataset: of all clips, or with `stick_to_shard` of one rank's shard.
#[derive(Clone, Debug)]
pub(super) struct ShuffledRange {
    shuffle: Shuffle,
    seed: u64,
    /// Selects the random stream: the rank if each rank shuffles its own range, 0 if all ranks
    /// share the order.
    stream: u32,
    clips: Range<u64>,
    /// Clips of the longest or the shortest shard.
    required_clips: u64,
}

impl ShuffledRange {
    pub(super) fn new(config: &BatchSamplerConfig) -> Self {
        let (shards, stream) = match config.stick_to_shard {
            true => (config.num_shards, config.shard_id),
            false => (1, 0),
        };
        Self {
            shuffle: config.shuffle,
            seed: config.seed,
            stream,
            clips: shard_range(config.num_clips, shards, stream),
            required_clips: match config.last_batch {
                LastBatchPolicy::Drop => config.num_clips / u64::from(shards),
                LastBatchPolicy::Partial | LastBatchPolicy::Fill => {
                    config.num_clips.div_ceil(u64::from(shards))
                }
            },
        }
    }
}

impl Order for ShuffledRange {
    fn num_clips(&self) -> u64 {
        self.clips.end - self.clips.start
    }

    fn required_clips(&self) -> u64 {
        self.required_clips
    }

    fn clips(&self, epoch: u64, positions: &mut dyn Iterator<Item = u64>) -> Vec<(u64, u32)> {
        let key = RngKey {
            seed: self.seed,
            epoch,
            clip: 0,
            occurrence: self.stream.into(),
        };
        let mut shuffled = ShuffledIndex::new(self.shuffle, key, self.clips.clone());
        positions
            .map(|position| (shuffled.clip(position), 0))
            .collect()
    }
}

/// The order of a range of the dataset in one epoch.
#[derive(Clone, Debug)]
pub struct ShuffledIndex {
    clips: Range<u64>,
    mapping: IndexMapping,
}

#[derive(Clone, Debug)]
enum IndexMapping {
    Identity,
    Buffer(Box<BufferShuffle>),
    Full(Permutation),
}

impl ShuffledIndex {
    /// The order of `clips` under a key whose `clip` must be 0.
    pub fn new(shuffle: Shuffle, key: RngKey, clips: Range<u64>) -> Self {
        let n = clips.end.saturating_sub(clips.start);
        let full = || IndexMapping::Full(Permutation::keyed(key, Purpose::Shuffle, n));
        let mapping = match shuffle {
            Shuffle::Off
            | Shuffle::Buffer {
                initial_fill: 0 | 1,
            } => IndexMapping::Identity,
            Shuffle::Buffer { initial_fill } => BufferShuffle::new(key, n, initial_fill)
                .map_or_else(full, |buffer| IndexMapping::Buffer(Box::new(buffer))),
            // Groups need the clips of each video, which only `BatchSampler` knows.
            Shuffle::Full | Shuffle::Grouped(_) => full(),
        };
        Self { clips, mapping }
    }

    /// The clip at a position; positions past the end wrap around.
    pub fn clip(&mut self, position: u64) -> u64 {
        let position = position % self.clips.end.saturating_sub(self.clips.start).max(1);
        self.clips.start
            + match &mut self.mapping {
                IndexMapping::Identity => position,
                IndexMapping::Buffer(buffer) => buffer.get(position),
                IndexMapping::Full(permutation) => permutation.get(position),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: RngKey = RngKey {
        seed: 3,
        epoch: 1,
        clip: 0,
        occurrence: 0,
    };

    fn list(shuffle: Shuffle, clips: Range<u64>) -> Vec<u64> {
        let n = clips.end - clips.start;
        let mut places = ShuffledIndex::new(shuffle, KEY, clips);
        (0..n).map(|position| places.clip(position)).collect()
    }

    fn buffer(initial_fill: u32) -> Shuffle {
        Shuffle::Buffer { initial_fill }
    }

    #[test]
    fn buffer_of_one_or_all_clips() {
        assert_eq!(list(buffer(1), 0..9), list(Shuffle::Off, 0..9));
        for fill in [9, 10, u32::MAX] {
            assert_eq!(list(buffer(fill), 0..9), list(Shuffle::Full, 0..9));
        }
        assert_ne!(list(buffer(8), 0..9), list(Shuffle::Full, 0..9));
    }

    #[test]
    fn shard_range_wraps_at_its_end() {
        for shuffle in [Shuffle::Off, buffer(3), Shuffle::Full] {
            let order = list(shuffle, 5..12);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (5..12).collect::<Vec<_>>());
            let mut places = ShuffledIndex::new(shuffle, KEY, 5..12);
            assert_eq!(
                (7..21).map(|at| places.clip(at)).collect::<Vec<_>>(),
                [&order[..], &order[..]].concat()
            );
        }
        assert_eq!(ShuffledIndex::new(Shuffle::Full, KEY, 0..0).clip(4), 0);
    }
}
