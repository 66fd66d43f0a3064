//! Reproduces the exact clip order of PyTorch's `DistributedSampler` with a `DataLoader`. Shuffles
//! the whole epoch at once, as PyTorch does, and keeps the list of the latest epoch only (4 bytes
//! per clip).

use std::sync::{Mutex, PoisonError};

use rand_mt::Mt;

use super::shard::ContiguousBatches;
use super::{BatchSamplerConfig, LastBatchPolicy, SampledClip, Shuffle};
use crate::error::{Result, invalid_argument};

/// From this length on, PyTorch uses a 64-bit random number per clip (`randperm_cpu` in
/// aten/src/ATen/native/TensorFactories.cpp).
const MIN_64BIT_LEN: usize = (u32::MAX / 20) as usize;

/// What `DistributedSampler(shuffle=, seed=, drop_last=)` with `set_epoch(epoch)` and a
/// `DataLoader` over it deliver.
///
/// Clips are assigned to ranks round-robin: position `j` of the list of rank `r` is position `j *
/// num_shards + r` of the shuffled dataset, wrapping around at its end.
/// [`LastBatchPolicy::Partial`] is `drop_last=False` for both. [`LastBatchPolicy::Drop`] is
/// `drop_last=True` for both: each rank has `num_clips / num_shards` clips, rounded down, and
/// delivers only full batches. [`LastBatchPolicy::Fill`], which PyTorch does not have, is `Partial`
/// with the last batch filled from the beginning of the rank's list. Without shuffling no list is
/// stored.
#[derive(Debug)]
pub(super) struct TorchSampler {
    num_clips: u64,
    shuffled: bool,
    seed: u64,
    ranks: u64,
    rank: u64,
    /// Length of a rank's list.
    length: u64,
    batches: ContiguousBatches,
    cached: Mutex<CachedPermutation>,
}

#[derive(Debug, Default)]
struct CachedPermutation {
    epoch: Option<u64>,
    clips: Vec<u32>,
}

impl TorchSampler {
    pub fn new(config: &BatchSamplerConfig) -> Result<Self> {
        let &BatchSamplerConfig {
            num_clips,
            seed,
            batch_size,
            last_batch,
            ..
        } = config;
        let ranks = u64::from(config.num_shards.max(1));
        let length = match last_batch {
            LastBatchPolicy::Drop => num_clips / ranks,
            LastBatchPolicy::Partial | LastBatchPolicy::Fill => num_clips.div_ceil(ranks),
        };
        let shuffled = config.shuffle != Shuffle::Off;
        let mut cached = CachedPermutation::default();
        if shuffled && cached.clips.try_reserve_exact(num_clips as usize).is_err() {
            return invalid_argument(format!(
                "num_clips must fit into memory with TorchOrder, which needs 4 bytes per clip, got \
                 {num_clips}; an order of framespool needs none"
            ));
        }
        let batches = ContiguousBatches::new(length, batch_size, last_batch);
        let (rank, cached) = (u64::from(config.shard_id), Mutex::new(cached));
        Ok(Self {
            num_clips,
            shuffled,
            seed,
            ranks,
            rank,
            length,
            batches,
            cached,
        })
    }

    pub fn batches(&self) -> &ContiguousBatches {
        &self.batches
    }

    pub fn batch(&self, epoch: u64, batch: u64) -> Vec<SampledClip> {
        let Some(positions) = self.batches.positions(batch) else {
            return Vec::new();
        };
        if !self.shuffled {
            return positions
                .map(|position| self.slot(position, |at| at))
                .collect();
        }
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.epoch != Some(epoch) {
            cached.epoch = None;
            randperm(
                &mut cached.clips,
                self.num_clips as usize,
                self.seed.wrapping_add(epoch),
            );
            cached.epoch = Some(epoch);
        }
        let clips = &cached.clips;
        positions
            .map(|position| self.slot(position, |at| u64::from(clips[at as usize])))
            .collect()
    }

    /// The slot at position `position` of this rank's list; `clip` returns the clip at a position
    /// of the shuffled dataset.
    fn slot(&self, position: u64, clip: impl Fn(u64) -> u64) -> SampledClip {
        let dealt = u128::from(position % self.length.max(1)) * u128::from(self.ranks)
            + u128::from(self.rank);
        let there = u64::try_from(dealt).ok().filter(|&at| at < self.num_clips);
        let at = there.unwrap_or_else(|| (dealt % u128::from(self.num_clips.max(1))) as u64);
        SampledClip {
            clip: clip(at),
            occurrence: 0,
            repeat: 0,
            padding: position >= self.length || there.is_none(),
        }
    }
}

/// `torch.randperm(n, generator=g)` on the CPU after `g.manual_seed(seed)`, which uses only the low
/// 32 bits of the seed.
///
/// Below [`MIN_64BIT_LEN`] clips this is the Fisher-Yates shuffle from the front, with 32-bit
/// MT19937 outputs reduced modulo the range. From [`MIN_64BIT_LEN`] on it is the inside-out variant
/// with 64-bit outputs, of which the first 32-bit output is the high half
/// (`CPUGeneratorImpl::random64`).
fn randperm(list: &mut Vec<u32>, n: usize, seed: u64) {
    let mut random = Mt::new(seed as u32);
    list.clear();
    if n < MIN_64BIT_LEN {
        fisher_yates_forward(list, n, &mut random);
    } else {
        fisher_yates_inside_out(list, n, &mut random);
    }
}

fn fisher_yates_forward(list: &mut Vec<u32>, n: usize, random: &mut Mt) {
    list.extend(0..n as u32);
    for i in 0..n.saturating_sub(1) {
        let ahead = random.next_u32() as usize % (n - i);
        list.swap(i, i + ahead);
    }
}

fn fisher_yates_inside_out(list: &mut Vec<u32>, n: usize, random: &mut Mt) {
    for i in 0..n {
        let (high, low) = (random.next_u32(), random.next_u32());
        let at = ((u64::from(high) << 32 | u64::from(low)) % (i as u64 + 1)) as usize;
        list.push(i as u32);
        list.swap(at, i);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Expected values computed by torch 2.15.0: torch.randperm(n,
    // generator=torch.Generator().manual_seed(seed)).
    const TEN: [[u32; 10]; 2] = [
        [4, 1, 7, 5, 3, 9, 0, 8, 6, 2],
        [5, 6, 1, 2, 0, 8, 9, 3, 7, 4],
    ];
    const SEED_BEYOND_32_BITS: [u32; 16] = [10, 9, 5, 6, 8, 11, 3, 1, 13, 7, 14, 12, 4, 15, 0, 2]; // 2^32 + 3
    const SEED_BEYOND_63_BITS: [u32; 12] = [11, 0, 9, 6, 10, 3, 4, 5, 8, 7, 1, 2]; // 2^63 + 5

    fn permutation(n: usize, seed: u64) -> Vec<u32> {
        let mut list = Vec::new();
        randperm(&mut list, n, seed);
        list
    }

    fn checksum(list: &[u32]) -> u64 {
        list.iter().fold(0, |sum: u64, &n| {
            sum.wrapping_mul(6364136223846793005)
                .wrapping_add(u64::from(n))
        })
    }

    #[test]
    fn randperm_equals_torch() {
        assert_eq!([0, 1].map(|seed| permutation(10, seed)), TEN);
        assert_eq!(permutation(16, (1 << 32) + 3), SEED_BEYOND_32_BITS);
        assert_eq!(permutation(12, (1 << 63) + 5), SEED_BEYOND_63_BITS);
        assert_eq!((permutation(0, 1), permutation(1, 0)), (vec![], vec![0]));
        assert_eq!(
            (permutation(2, 0), permutation(2, 1)),
            (vec![0, 1], vec![1, 0])
        );
        assert_eq!(checksum(&permutation(1000, 123)), 16761080154843813968);
        assert_eq!(checksum(&permutation(100_000, 7)), 8023667447378198044);
    }

    // Expected values computed by NumPy's MT19937 and a Python loop.
    // benches/record/2026-11-22-orders.txt compares with torch itself, on both sides of the length
    // from which this variant is used.
    #[test]
    fn long_lists_are_shuffled_inside_out() {
        let fisher_yates_inside_out = |n, seed| {
            let mut list = Vec::new();
            fisher_yates_inside_out(&mut list, n, &mut Mt::new(seed));
            list
        };
        assert_eq!(
            fisher_yates_inside_out(12, 3),
            [8, 5, 1, 2, 10, 7, 6, 3, 4, 0, 11, 9]
        );
        assert_eq!(
            checksum(&fisher_yates_inside_out(5000, 4)),
            55534982487738688
        );
        assert_eq!(MIN_64BIT_LEN, 214_748_364);
    }

    type Ranks = [Vec<Vec<u64>>];

    fn ranks(
        (num_clips, num_shards, batch_size): (u64, u32, u32),
        (seed, epoch): (u64, u64),
        (shuffle, last_batch): (Shuffle, LastBatchPolicy),
    ) -> Vec<Vec<Vec<SampledClip>>> {
        let config = BatchSamplerConfig {
            num_clips,
            num_shards,
            batch_size,
            seed,
            shuffle,
            last_batch,
            ..BatchSamplerConfig::default()
        };
        let rank = |shard_id| {
            let torch = TorchSampler::new(&BatchSamplerConfig {
                shard_id,
                ..config.clone()
            })
            .unwrap();
            (0..torch.batches.len_batches())
                .map(|b| torch.batch(epoch, b))
                .collect()
        };
        (0..num_shards).map(rank).collect()
    }

    fn clips(ranks: &[Vec<Vec<SampledClip>>]) -> Vec<Vec<Vec<u64>>> {
        let of = |batch: &Vec<SampledClip>| batch.iter().map(|slot| slot.clip).collect();
        ranks
            .iter()
            .map(|rank| rank.iter().map(of).collect())
            .collect()
    }

    fn padding(ranks: &[Vec<Vec<SampledClip>>]) -> usize {
        ranks
            .iter()
            .flatten()
            .flatten()
            .filter(|slot| slot.padding)
            .count()
    }

    // Expected values computed by torch 2.15.0: DistributedSampler(…, drop_last=…), set_epoch,
    // DataLoader(…, drop_last=…).
    #[test]
    fn ranks_equal_distributed_sampler() {
        let check = |size, key, last_batch, expected: &Ranks, padded| {
            let found = ranks(size, key, (Shuffle::Full, last_batch));
            assert_eq!(
                (&clips(&found)[..], padding(&found)),
                (expected, padded),
                "{size:?} {last_batch:?}"
            );
        };
        let partial = [
            vec![vec![0, 8], vec![4]],
            vec![vec![7, 3], vec![6]],
            vec![vec![5, 9], vec![0]],
            vec![vec![1, 2], vec![7]],
        ];
        check((10, 4, 2), (5, 1), LastBatchPolicy::Partial, &partial, 2);
        let dropped = [
            vec![vec![0, 8]],
            vec![vec![7, 3]],
            vec![vec![5, 9]],
            vec![vec![1, 2]],
        ];
        check((10, 4, 2), (5, 1), LastBatchPolicy::Drop, &dropped, 0);
        let few = [
            vec![vec![2]],
            vec![vec![0]],
            vec![vec![1]],
            vec![vec![2]],
            vec![vec![0]],
        ];
        check((3, 5, 2), (0, 0), LastBatchPolicy::Partial, &few, 2);
        let two = [
            vec![vec![10, 3, 0, 1], vec![9, 5]],
            vec![vec![4, 8, 7, 6], vec![2, 10]],
        ];
        check((11, 2, 4), (9, 3), LastBatchPolicy::Partial, &two, 1);
        let two_dropped = [vec![vec![10, 3, 0, 1]], vec![vec![4, 8, 7, 6]]];
        check((11, 2, 4), (9, 3), LastBatchPolicy::Drop, &two_dropped, 0);
        // The last batches are filled from the beginning of each rank's list.
        let filled = [
            vec![vec![10, 3, 0, 1], vec![9, 5, 10, 3]],
            vec![vec![4, 8, 7, 6], vec![2, 10, 4, 8]],
        ];
        check((11, 2, 4), (9, 3), LastBatchPolicy::Fill, &filled, 5);
    }

    #[test]
    fn unshuffled_clips_are_assigned_round_robin() {
        let found = ranks((7, 2, 3), (0, 0), (Shuffle::Off, LastBatchPolicy::Partial));
        assert_eq!(
            clips(&found),
            [[vec![0, 2, 4], vec![6]], [vec![1, 3, 5], vec![0]]]
        );
    }

    #[test]
    fn epochs_do_not_depend_on_access_order() {
        let config = BatchSamplerConfig {
            num_clips: 50,
            batch_size: 7,
            shuffle: Shuffle::Full,
            ..BatchSamplerConfig::default()
        };
        let torch = TorchSampler::new(&config).unwrap();
        for epoch in [0, 3, 3, 1, 0, u64::MAX] {
            let expected = permutation(50, epoch);
            let all = (0..8)
                .flat_map(|b| torch.batch(epoch, b))
                .map(|slot| slot.clip as u32);
            assert_eq!(all.collect::<Vec<_>>(), expected);
        }
        assert!(torch.batch(0, 8).is_empty());
    }
}
