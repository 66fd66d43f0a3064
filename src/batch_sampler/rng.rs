//! Random number streams, each a pure function of (seed, epoch, clip, occurrence, purpose).
//! All randomness of clip order, clip sampling and augmentation comes from here.
//! The streams do not depend on workers, threads, ranks, time or the operating system.

use rand_chacha::rand_core::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::clip_sampler::RandomSource;

/// What a random stream is used for. Streams of different purposes are independent, so that, for example, a
/// new augmentation does not change the sampled clips.
///
/// The values are part of the compatibility contract: changing one changes every order and every clip of
/// every user.
pub mod purpose {
    /// The order of the clips.
    pub const SHUFFLE: u32 = 0;
    /// The frames of a clip.
    pub const SAMPLING: u32 = 1;
    /// The transforms of a clip.
    pub const TRANSFORMS: u32 = 2;
    /// The clips that replace a clip that cannot be produced.
    pub const REPLACEMENT: u32 = 3;
    /// The block offset of a local shuffle.
    pub const BUFFER_SHUFFLE_OFFSET: u32 = 4;
    /// Each block of the inner layer of a local shuffle, the layer applied last in a lookup.
    pub const BUFFER_SHUFFLE_INNER: u32 = 5;
    /// Each block of the outer layer of a local shuffle, which is offset from the inner one by half a block.
    pub const BUFFER_SHUFFLE_OUTER: u32 = 6;
    /// How the shares of mixed datasets are rounded in one epoch.
    pub const MIX_ROUNDING: u32 = 7;
    /// Which dataset is at which position of a block of a mix.
    pub const MIX_BLOCK: u32 = 8;
    /// The order of one dataset of a mix, for each pass over it.
    pub const MIX_PASS: u32 = 9;
    /// Clips of one dataset of a mix that are sampled with replacement.
    pub const MIX_DRAW: u32 = 10;
    /// The order of the chunks of a grouped shuffle.
    pub const GROUPED_CHUNKS: u32 = 11;
    /// The order of the clips of a chunk, and how they are spread over a window, in a grouped shuffle.
    pub const GROUPED_SPREAD: u32 = 12;
    /// Which videos an epoch has, if videos have weights.
    pub const GROUPED_WEIGHTS: u32 = 13;
    /// Which videos are on which machine, if each has its own.
    pub const NODE_VIDEOS: u32 = 14;
    /// The seeds of the orders of the machines.
    pub const NODES: u32 = 15;
}

/// Identifies the owner of random numbers. Use clip 0 for a whole epoch.
///
/// Clip orders store other numbers in the last two fields and therefore have purposes of their own: `clip` is
/// the block of a local shuffle or of a mix, the pass over a dataset, or the number of a draw; `occurrence`
/// is the shard if each rank shuffles its own clips, or the dataset of a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RngKey {
    /// The user's seed.
    pub seed: u64,
    /// The epoch.
    pub epoch: u64,
    /// The clip: its index in the dataset, not its position in the order.
    pub clip: u64,
    /// How many times the clip was delivered earlier in this epoch, nonzero only if datasets are mixed by weight; in
    /// the upper 32 bits the number of the repeat, for its transforms.
    pub occurrence: u64,
}

/// Identifies the layout of the key material; any other layout must use another value.
const KEY_FORMAT: [u8; 4] = *b"fsp1";

impl RngKey {
    /// The stream of this key for one purpose (see [`purpose`]): ChaCha with 8 rounds.
    ///
    /// The 32 bytes of the ChaCha key are, little-endian: seed (8), epoch (8), clip (8), stream (4), "fsp1"
    /// (4). Nothing is hashed, so different keys never share a stream, and ChaCha makes the streams of
    /// similar keys unrelated. The occurrence is ChaCha's stream number.
    pub fn rng(self, stream: u32) -> Rng {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&self.seed.to_le_bytes());
        key[8..16].copy_from_slice(&self.epoch.to_le_bytes());
        key[16..24].copy_from_slice(&self.clip.to_le_bytes());
        key[24..28].copy_from_slice(&stream.to_le_bytes());
        key[28..].copy_from_slice(&KEY_FORMAT);
        let mut rng = ChaCha8Rng::from_seed(key);
        rng.set_stream(self.occurrence);
        Rng(rng)
    }
}

/// A stream of random numbers; created only by [`RngKey::rng`].
#[derive(Clone, Debug)]
pub struct Rng(ChaCha8Rng);

impl Rng {
    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `0..n`, without bias; 0 if `n` is 0.
    ///
    /// Returns the high half of a 128-bit product and rejects the few low halves that would bias the result
    /// (Lemire, "Fast random integer generation in an interval", 2019).
    pub fn next_below(&mut self, n: u64) -> u64 {
        if n == 0 {
            return 0;
        }
        let reject_below = n.wrapping_neg() % n; // 2^64 mod n
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            if product as u64 >= reject_below {
                return (product >> 64) as u64;
            }
        }
    }

    /// Uniform in `[0, 1)`: a multiple of 2^-53, each equally likely.
    pub fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

impl RandomSource for Rng {
    fn next_below(&mut self, n: u64) -> u64 {
        Rng::next_below(self, n)
    }

    fn next_f64(&mut self) -> f64 {
        Rng::next_f64(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: RngKey = RngKey { seed: 7, epoch: 2, clip: 11, occurrence: 0 };

    // Expected values computed by an independent Python implementation of ChaCha with 8 rounds.
    const GOLDEN_BITS: [u64; 2] = [10891074727489239763, 4022933865469881180];
    const GOLDEN_BELOW: [u64; 3] = [590, 218, 242];
    const GOLDEN_UNIT: f64 = 0.14197848221471;

    #[test]
    fn streams_never_change_between_releases() {
        let mut rng = KEY.rng(purpose::SAMPLING);
        assert_eq!([rng.next_u64(), rng.next_u64()], GOLDEN_BITS);
        let mut rng = KEY.rng(purpose::SAMPLING);
        assert_eq!([rng.next_below(1000), rng.next_below(1000), rng.next_below(1000)], GOLDEN_BELOW);
        assert_eq!(rng.next_f64(), GOLDEN_UNIT);
    }

    #[test]
    fn every_part_of_the_key_matters() {
        let first = |key: RngKey, stream| key.rng(stream).next_u64();
        let base = first(KEY, 0);
        assert_ne!(base, first(RngKey { seed: 8, ..KEY }, 0));
        assert_ne!(base, first(RngKey { epoch: 3, ..KEY }, 0));
        assert_ne!(base, first(RngKey { clip: 12, ..KEY }, 0));
        assert_ne!(base, first(KEY, 1));
        assert_ne!(base, first(RngKey { occurrence: 1, ..KEY }, 0));
        // The stream is not a function of sums or xors of the fields.
        assert_ne!(
            first(RngKey { seed: 1, epoch: 2, clip: 3, occurrence: 0 }, 0),
            first(RngKey { seed: 2, epoch: 1, clip: 3, occurrence: 0 }, 0)
        );
    }

    #[test]
    fn below_is_uniform_and_stays_below() {
        let mut rng = KEY.rng(0);
        let mut counts = [0u32; 6];
        for _ in 0..60_000 {
            counts[rng.next_below(6) as usize] += 1;
        }
        // The standard deviation is 91; the limit is five of them.
        assert!(counts.iter().all(|c| c.abs_diff(10_000) < 460), "{counts:?}");
        assert_eq!((rng.next_below(0), rng.next_below(1)), (0, 0));
        let n = (1 << 63) + 1; // nearly half of all outputs are rejected
        assert!((0..1000).all(|_| rng.next_below(n) < n));
    }

    #[test]
    fn unit_f64_is_in_the_half_open_interval() {
        let mut rng = KEY.rng(0);
        let draws: Vec<f64> = (0..10_000).map(|_| rng.next_f64()).collect();
        assert!(draws.iter().all(|d| (0.0..1.0).contains(d)));
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        assert!((mean - 0.5).abs() < 0.015, "{mean}");
    }
}
