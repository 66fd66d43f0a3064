//! A local shuffle: a keyed permutation of `0..n` that moves each clip by less than 1.5 times the
//! buffer size. Any position has random access in constant time, with at most four shuffled blocks
//! in memory.

use super::permutation::Permutation;
use crate::rng::{Purpose, RngKey};

/// Blocks up to this length are stored as lists, because evaluating a keyed permutation of so few
/// values takes many steps.
const MAX_TABLE_LEN: u64 = 128;

/// A local shuffle of `0..n`: a clip's position and its index differ by less than 1.5 times `size`.
///
/// The lookup of a position has two steps. The block of the outer layer that contains the position
/// maps it to another position of the block; the block of the inner layer that contains this second
/// position maps it to the clip. The two layers are offset by half a block, so that clips also
/// cross the block borders of each layer. All blocks have `size` positions, except the first and
/// the last, which hold the remainder and are shuffled within themselves; the block offset is
/// sampled for each epoch. Within a layer a clip moves by less than `size`. Both steps together
/// move it by at most `2 * size - size / 2 - 1`, since an outer block is in two inner blocks that
/// extend half a block beyond it.
///
/// Each epoch is an exact permutation, which does not depend on the order of the lookups, and every
/// position costs the same. If `size` reaches `n` there is a single block, which is the permutation
/// of [`super::Shuffle::Full`].
#[derive(Clone, Debug)]
pub struct BufferShuffle {
    inner: ShuffleLayer,
    outer: ShuffleLayer,
}

impl BufferShuffle {
    /// The shuffle of `0..n` for this key, whose `clip` field is replaced by the block number.
    /// `None` if there is nothing to shuffle or if one block holds everything.
    pub fn new(key: RngKey, n: u64, size: u32) -> Option<Self> {
        let size = u64::from(size);
        if size < 2 || size >= n {
            return None;
        }
        let first = key.rng(Purpose::BufferShuffleOffset).next_below(size);
        let layer = |first, purpose| ShuffleLayer {
            key,
            purpose,
            n,
            size,
            first,
            cached: [None, None],
        };
        Some(Self {
            inner: layer(first, Purpose::BufferShuffleInner),
            outer: layer((first + size / 2) % size, Purpose::BufferShuffleOuter),
        })
    }

    /// The value at position `i`, which must be below `n`.
    pub fn get(&mut self, i: u64) -> u64 {
        let between = self.outer.get(i);
        self.inner.get(between)
    }
}

/// Consecutive blocks, each shuffled independently.
#[derive(Clone, Debug)]
struct ShuffleLayer {
    key: RngKey,
    purpose: Purpose,
    n: u64,
    size: u64,
    /// Length of block 0.
    first: u64,
    /// The latest block with an even and the latest with an odd number: consecutive positions
    /// alternate between two neighboring blocks.
    cached: [Option<(u64, ShuffleBlock)>; 2],
}

/// The shuffle of one block.
#[derive(Clone, Debug)]
enum ShuffleBlock {
    Table(Vec<u8>),
    Permutation(Permutation),
}

impl ShuffleBlock {
    /// Blocks of up to [`MAX_TABLE_LEN`] positions are shuffled by Fisher-Yates from the front and
    /// stored as a list.
    fn new(key: RngKey, purpose: Purpose, length: u64) -> Self {
        if length > MAX_TABLE_LEN {
            return Self::Permutation(Permutation::keyed(key, purpose, length));
        }
        let mut rng = key.rng(purpose);
        let mut list: Vec<u8> = (0..length as u8).collect();
        for i in 0..list.len().saturating_sub(1) {
            list.swap(i, i + rng.next_below(length - i as u64) as usize);
        }
        Self::Table(list)
    }

    fn get(&self, i: u64) -> u64 {
        match self {
            Self::Table(list) => list.get(i as usize).map_or(i, |&at| u64::from(at)),
            Self::Permutation(permutation) => permutation.get(i),
        }
    }
}

impl ShuffleLayer {
    fn get(&mut self, i: u64) -> u64 {
        let (block, begin) = match i.checked_sub(self.first) {
            None => (0, 0),
            Some(beyond) => (beyond / self.size + 1, i - beyond % self.size),
        };
        let end = if block == 0 {
            self.first
        } else {
            begin.saturating_add(self.size).min(self.n)
        };
        let cached = &mut self.cached[(block % 2) as usize];
        if cached.as_ref().is_none_or(|(of, _)| *of != block) {
            let key = RngKey {
                clip: block,
                ..self.key
            };
            *cached = Some((block, ShuffleBlock::new(key, self.purpose, end - begin)));
        }
        cached
            .as_ref()
            .map_or(i, |(_, block)| begin + block.get(i - begin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(seed: u64, epoch: u64) -> RngKey {
        RngKey {
            seed,
            epoch,
            clip: 0,
            occurrence: 0,
        }
    }

    fn list(key: RngKey, n: u64, size: u32) -> Vec<u64> {
        let mut local = BufferShuffle::new(key, n, size).unwrap();
        (0..n).map(|i| local.get(i)).collect()
    }

    // Expected values computed by an independent Python implementation.
    const GOLDEN_EVEN: [u64; 20] = [
        1, 0, 4, 3, 5, 2, 6, 9, 12, 7, 8, 10, 13, 16, 11, 15, 17, 19, 14, 18,
    ];
    const GOLDEN_ODD: [u64; 20] = [
        4, 0, 5, 10, 3, 2, 6, 1, 12, 7, 9, 15, 8, 17, 14, 13, 11, 19, 18, 16,
    ];
    const GOLDEN_SHARD_1: [u64; 12] = [1, 5, 3, 0, 2, 9, 8, 6, 4, 11, 7, 10];
    /// For 5000 clips: size, and the clips at positions 0, 2500 and 4999.
    const GOLDEN_LONG: [(u32, [u64; 3]); 3] = [
        (128, [39, 2467, 4998]),
        (129, [36, 2529, 4864]),
        (300, [189, 2631, 4922]),
    ];

    #[test]
    fn the_order_never_changes_between_releases() {
        assert_eq!(list(key(3, 1), 20, 4), GOLDEN_EVEN);
        assert_eq!(list(key(3, 2), 20, 5), GOLDEN_ODD);
        assert_eq!(
            list(
                RngKey {
                    occurrence: 1,
                    ..key(3, 0)
                },
                12,
                5
            ),
            GOLDEN_SHARD_1
        );
        for (size, clips) in GOLDEN_LONG {
            let mut local = BufferShuffle::new(key(9, 4), 5000, size).unwrap();
            assert_eq!(
                [0, 2500, 4999].map(|place| local.get(place)),
                clips,
                "size {size}"
            );
        }
    }

    #[test]
    fn clips_come_once_and_move_at_most_1_5_buffer_sizes() {
        for (n, epochs) in [(3, 30), (10, 30), (64, 20), (999, 5), (20_000, 1)] {
            for size in [2, 3, 4, 7, 8, 33, 100, 501, 4096]
                .into_iter()
                .filter(|&size| size < n as u32)
            {
                let mut farthest = 0;
                for epoch in 0..epochs {
                    let order = list(key(n, epoch), n, size);
                    let mut seen = vec![false; n as usize];
                    order.iter().for_each(|&clip| seen[clip as usize] = true);
                    assert!(
                        seen.iter().all(|&seen| seen),
                        "{n} clips, size {size}: one is missing"
                    );
                    farthest = order
                        .iter()
                        .zip(0..)
                        .map(|(c, i)| c.abs_diff(i))
                        .max()
                        .max(Some(farthest))
                        .unwrap();
                }
                assert!(
                    farthest <= u64::from(2 * size - size / 2 - 1),
                    "{n} clips, size {size}: {farthest}"
                );
                assert!(
                    n < 1000 || farthest >= u64::from(size),
                    "{n} clips, size {size}: {farthest} only"
                );
            }
        }
    }

    #[test]
    fn any_position_is_computed_directly() {
        let whole = list(key(1, 1), 1000, 24);
        let mut local = BufferShuffle::new(key(1, 1), 1000, 24).unwrap();
        for i in (0..1000).rev().step_by(7).chain([3, 999, 3, 500, 12]) {
            assert_eq!(local.get(i), whole[i as usize]);
        }
        let n = u64::MAX;
        let mut huge = BufferShuffle::new(key(1, 1), n, u32::MAX).unwrap();
        for i in [0, 1, n / 2, n - 1] {
            assert!(huge.get(i).abs_diff(i) < 3 << 31 && huge.get(i) < n);
        }
    }

    /// Sum over all cells of (count - expected)² / expected; its expected value is about the number
    /// of cells.
    fn chi_square(counts: &[u32], expected: &[f64]) -> f64 {
        counts
            .iter()
            .zip(expected)
            .map(|(&c, e)| (f64::from(c) - e).powi(2) / e)
            .sum()
    }

    /// With blocks of 8 at a random offset, a position lies anywhere in its outer block (8
    /// positions) and its clip anywhere in the two inner blocks that contain this outer block (16
    /// positions, starting 4 before): 128 equally likely pairs.
    #[test]
    fn distances_have_the_expected_distribution() {
        const SEEDS: u64 = 40_000;
        let mut pairs = [0u32; 23];
        (0..8).for_each(|place| (0..16).for_each(|clip| pairs[clip + 7 - place] += 1));
        let expected = pairs.map(|count| f64::from(count) * SEEDS as f64 / 128.0);
        for place in [40, 41] {
            let mut counts = [0u32; 23];
            for seed in 0..SEEDS {
                let clip = BufferShuffle::new(key(seed, seed % 3), 100, 8)
                    .unwrap()
                    .get(place);
                counts[(clip + 11 - place) as usize] += 1;
            }
            let (mean, chi) = (22.0, chi_square(&counts, &expected));
            assert!(
                chi < mean + 4.0 * (2.0_f64 * mean).sqrt(),
                "place {place}: {chi}"
            );
        }
    }

    #[test]
    fn neighbors_are_reordered_and_separated() {
        const SEEDS: u64 = 10_000;
        let (mut swapped, mut together) = (0u32, 0u32);
        for seed in 0..SEEDS {
            let order = list(key(seed, 0), 64, 16);
            let place = |clip| order.iter().position(|&c| c == clip).unwrap();
            let (first, second) = (place(31), place(32));
            swapped += u32::from(first > second);
            together += u32::from(first.abs_diff(second) == 1);
        }
        // With 15 of 16 block offsets both clips are in one inner block and are swapped with
        // probability 1/2. With the remaining one a border separates them: with probability 1/4
        // they meet in one outer block and are swapped with probability 1/2; otherwise they stay in
        // order. The total is 15/32 + 1/128 = 0.477; the standard deviation is 50 of 10,000.
        assert!(
            (4_516..5_016).contains(&swapped),
            "{swapped} of {SEEDS} swapped"
        );
        assert!(together < 1_600, "{together} of {SEEDS} still side by side");
    }
}
