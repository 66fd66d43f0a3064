//! A keyed pseudo-random permutation of `0..n` with random access in O(1) memory. Uses a keyed
//! Feistel network over the bits of `n` with cycle walking: it is repeated until the value is
//! inside `0..n`.

use crate::rng::{Purpose, RngKey};

/// With these two constants, 3 million seeds show no bias among the orders of 2 to 7 clips
/// (chi-square within two standard deviations). Narrower networks are biased for any number of
/// rounds: they produce only even permutations, which is measurable for few values. The tests
/// repeat the measurement with fewer seeds.
const ROUNDS: usize = 12;
const MIN_BITS: u32 = 8;

/// A permutation of `0..n`; a pure function of its key, its purpose and `n`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permutation {
    n: u64,
    /// Bits of the upper and the lower half; they differ by at most one.
    upper_bits: u32,
    lower_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The permutation of `0..n` for this seed and epoch.
    pub fn new(seed: u64, epoch: u64, n: u64) -> Self {
        Self::keyed(
            RngKey {
                seed,
                epoch,
                clip: 0,
                occurrence: 0,
            },
            Purpose::Shuffle,
            n,
        )
    }

    /// The permutation of `0..n` for this key and purpose.
    pub fn keyed(key: RngKey, purpose: Purpose, n: u64) -> Self {
        let mut rng = key.rng(purpose);
        let bits = (u64::BITS - n.saturating_sub(1).leading_zeros()).max(MIN_BITS);
        let keys = std::array::from_fn(|_| rng.next_u64());
        Self {
            n,
            upper_bits: bits.div_ceil(2),
            lower_bits: bits / 2,
            keys,
        }
    }

    /// The value at position `i`, which must be below `n`; any other `i` is returned unchanged.
    ///
    /// The network permutes `0..2^bits`, and above 128 clips `2^bits < 2n`. Applying it repeatedly
    /// to a value inside `0..n` until the result is inside again is a permutation of `0..n` and
    /// takes less than two steps on average (256 / n for fewer clips).
    pub fn get(&self, i: u64) -> u64 {
        if i >= self.n {
            return i;
        }
        let mut at = self.network(i);
        while at >= self.n {
            at = self.network(at);
        }
        at
    }

    /// Each round changes one half by a keyed function of the other half, so it is invertible.
    fn network(&self, value: u64) -> u64 {
        let (mut upper, mut lower) = self.split(value);
        for pair in self.keys.chunks_exact(2) {
            lower ^= mix(upper, pair[0]) & mask(self.lower_bits);
            upper ^= mix(lower, pair[1]) & mask(self.upper_bits);
        }
        self.join(upper, lower)
    }

    fn split(&self, value: u64) -> (u64, u64) {
        (value >> self.lower_bits, value & mask(self.lower_bits))
    }

    fn join(&self, upper: u64, lower: u64) -> u64 {
        upper << self.lower_bits | lower
    }
}

/// The lowest `bits` bits; halves have at most 32 bits.
fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014) on value plus key: each output bit depends
/// on all input bits.
pub(super) fn mix(value: u64, key: u64) -> u64 {
    let z = value.wrapping_add(key);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Permutation {
        /// The inverse of `get`: the position that `get` maps to `value`.
        fn place_of(&self, value: u64) -> u64 {
            let back = |value| {
                let (mut upper, mut lower) = self.split(value);
                for pair in self.keys.chunks_exact(2).rev() {
                    upper ^= mix(lower, pair[1]) & mask(self.upper_bits);
                    lower ^= mix(upper, pair[0]) & mask(self.lower_bits);
                }
                self.join(upper, lower)
            };
            let mut at = back(value);
            while at >= self.n {
                at = back(at);
            }
            at
        }
    }

    fn list(seed: u64, epoch: u64, n: u64) -> Vec<u64> {
        let permutation = Permutation::new(seed, epoch, n);
        (0..n).map(|i| permutation.get(i)).collect()
    }

    #[test]
    fn everything_comes_exactly_once() {
        for n in (0..=600).chain([1023, 1024, 1025, 100_003, 1 << 17]) {
            let mut seen = vec![false; n as usize];
            for value in list(n, 3, n) {
                assert!(
                    !std::mem::replace(&mut seen[value as usize], true),
                    "n = {n}: {value} comes twice"
                );
            }
        }
    }

    #[test]
    fn huge_permutations_are_invertible() {
        let mut rng = RngKey {
            seed: 1,
            epoch: 0,
            clip: 0,
            occurrence: 0,
        }
        .rng(Purpose::Sampling);
        for n in [1 << 32, (1 << 40) + 1, (1 << 62) + 12345, 1 << 63, u64::MAX] {
            let permutation = Permutation::new(5, 6, n);
            for _ in 0..2000 {
                let i = rng.next_below(n);
                let value = permutation.get(i);
                assert!(value < n);
                assert_eq!(permutation.place_of(value), i);
            }
        }
    }

    // Expected values computed by an independent Python implementation.
    const GOLDEN_TEN: [u64; 10] = [6, 3, 0, 2, 1, 5, 7, 9, 8, 4];
    const GOLDEN_HUGE: [u64; 3] = [448630701732, 700652974423, 261023120806];

    #[test]
    fn the_order_never_changes_between_releases() {
        assert_eq!(list(0, 0, 10), GOLDEN_TEN);
        let huge = Permutation::new(42, 7, 1 << 40);
        assert_eq!(
            [huge.get(0), huge.get(1), huge.get((1 << 40) - 1)],
            GOLDEN_HUGE
        );
    }

    #[test]
    fn epochs_and_seeds_differ() {
        let base = list(0, 0, 100);
        for other in [list(0, 1, 100), list(1, 0, 100), list(1, 1, 100)] {
            let same = base.iter().zip(&other).filter(|(a, b)| a == b).count();
            assert!(same < 10, "{same} of 100 places are the same");
        }
    }

    /// Sum over all cells of (count - expected)² / expected; its expected value is about the number
    /// of cells.
    fn chi_square(counts: &[u32]) -> f64 {
        let expected = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
        counts
            .iter()
            .map(|&c| (f64::from(c) - expected).powi(2) / expected)
            .sum()
    }

    #[test]
    fn all_orders_of_few_clips_are_equally_likely() {
        for (n, orders, seeds) in [
            (2, 2, 10_000),
            (3, 6, 10_000),
            (4, 24, 20_000),
            (5, 120, 60_000),
        ] {
            let mut counts = std::collections::BTreeMap::new();
            for seed in 0..seeds {
                *counts.entry(list(seed, seed % 3, n)).or_insert(0u32) += 1;
            }
            let counts: Vec<u32> = counts.into_values().collect();
            assert_eq!(counts.len(), orders);
            // The mean is orders - 1, the standard deviation sqrt(2 (orders - 1)); the limit is
            // four standard deviations.
            let (mean, chi) = (orders as f64 - 1.0, chi_square(&counts));
            assert!(chi < mean + 4.0 * (2.0 * mean).sqrt(), "n = {n}: {chi}");
        }
    }

    #[test]
    fn positions_and_neighbors_are_uniform() {
        for n in [7u64, 16, 30] {
            let mut places = vec![0u32; (n * n) as usize];
            let mut followers = vec![0u32; (n * n) as usize];
            for seed in 0..10_000 {
                let order = list(seed, 0, n);
                order
                    .iter()
                    .zip(0..)
                    .for_each(|(value, at)| places[(at * n + value) as usize] += 1);
                order
                    .windows(2)
                    .for_each(|pair| followers[(pair[0] * n + pair[1]) as usize] += 1);
            }
            let followers: Vec<u32> = (0..n * n)
                .filter(|at| at / n != at % n)
                .map(|at| followers[at as usize])
                .collect();
            for counts in [places, followers] {
                let (mean, chi) = (counts.len() as f64, chi_square(&counts));
                assert!(
                    (chi - mean).abs() < 6.0 * (2.0 * mean).sqrt(),
                    "n = {n}: {chi} for {mean} cells"
                );
            }
        }
    }
}
