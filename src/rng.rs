//! Random number streams, each a pure function of (seed, epoch, clip, occurrence, purpose).
//! All randomness of clip order, clip sampling and augmentation comes from here.
//! The streams do not depend on workers, threads, ranks, time or the operating system.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// What a random stream is used for. Streams of different purposes are independent, so that, for
/// example, a new augmentation does not change the sampled clips.
///
/// The values are part of the compatibility contract: changing one changes every order and every
/// clip of every user. They have four bits, since the step and the frame of a transform are in the
/// others (see [`RngKey::transform_rng`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Purpose {
    /// The order of the clips.
    Shuffle = 0,
    /// The frames of a clip.
    Sampling = 1,
    /// The transforms of a clip.
    Transforms = 2,
    /// The clips that replace a clip that cannot be produced.
    Replacement = 3,
    /// The block offset of a local shuffle.
    BufferShuffleOffset = 4,
    /// Each block of the inner layer of a local shuffle, the layer applied last in a lookup.
    BufferShuffleInner = 5,
    /// Each block of the outer layer of a local shuffle, which is offset from the inner one by half
    /// a block.
    BufferShuffleOuter = 6,
    /// How the shares of mixed datasets are rounded in one epoch.
    MixRounding = 7,
    /// Which dataset is at which position of a block of a mix.
    MixBlock = 8,
    /// The order of one dataset of a mix, for each pass over it.
    MixPass = 9,
    /// Clips of one dataset of a mix that are sampled with replacement.
    MixDraw = 10,
    /// The order of the chunks of a grouped shuffle.
    GroupedChunks = 11,
    /// The order of the clips of a chunk, and how they are spread over a window, in a grouped
    /// shuffle.
    GroupedSpread = 12,
    /// Which videos an epoch has, if videos have weights.
    GroupedWeights = 13,
    /// Which videos are on which machine, if each has its own.
    NodeVideos = 14,
    /// The seeds of the orders of the machines.
    Nodes = 15,
}

impl Purpose {
    const BITS: u32 = 4;

    const fn stream(self) -> u32 {
        let stream = self as u32;
        assert!(stream < 1 << Self::BITS, "a purpose has four bits");
        stream
    }
}

/// Limit of the number of transforms in a list: the bits that the stream of a transform has for its
/// step.
pub const MAX_STEPS: usize = 1 << 8;
/// Limit of the number of frames of a clip whose transforms draw per frame: the remaining bits.
pub const MAX_FRAMES: usize = 1 << 20;

const _: () = assert!((1 << Purpose::BITS) * MAX_STEPS * MAX_FRAMES == 1 << 32);

/// Identifies the owner of random numbers. Use clip 0 for a whole epoch.
///
/// Clip orders store other numbers in the last two fields and therefore have purposes of their own:
/// `clip` is the block of a local shuffle or of a mix, the pass over a dataset, or the number of a
/// draw; `occurrence` is the shard if each rank shuffles its own clips, or the dataset of a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RngKey {
    /// The user's seed.
    pub seed: u64,
    /// The epoch.
    pub epoch: u64,
    /// The clip: its index in the dataset, not its position in the order.
    pub clip: u64,
    /// How many times the clip was delivered earlier in this epoch, nonzero only if datasets are
    /// mixed by weight; in the upper 32 bits the number of the repeat, for its transforms.
    pub occurrence: u64,
}

/// Identifies the layout of the key material; any other layout must use another value.
const KEY_FORMAT: [u8; 4] = *b"fsp1";

impl RngKey {
    /// The stream of this key for one purpose: ChaCha with 8 rounds.
    ///
    /// The 32 bytes of the ChaCha key are, little-endian: seed (8), epoch (8), clip (8), stream
    /// (4), "fsp1" (4). Nothing is hashed, so different keys never share a stream, and ChaCha makes
    /// the streams of similar keys unrelated. The occurrence is ChaCha's stream number.
    pub fn rng(self, purpose: Purpose) -> Rng {
        self.stream(purpose.stream())
    }

    /// The stream of one step of the transforms; of one frame, if the step draws per frame. Frame 0
    /// is the stream of a step that draws once.
    ///
    /// # Panics
    /// If `step` is not below [`MAX_STEPS`] or `frame` not below [`MAX_FRAMES`]: another step would
    /// draw the same numbers.
    pub fn transform_rng(self, step: usize, frame: usize) -> Rng {
        assert!(
            step < MAX_STEPS && frame < MAX_FRAMES,
            "step {step}, frame {frame}"
        );
        let number = (frame * MAX_STEPS + step) as u32;
        self.stream((number << Purpose::BITS) + Purpose::Transforms.stream())
    }

    /// The stream of the random parameters of a clip's audio: the second of the sampling purpose, as
    /// all purposes are taken.
    pub fn audio_rng(self) -> Rng {
        self.stream((1 << Purpose::BITS) + Purpose::Sampling.stream())
    }

    fn stream(self, stream: u32) -> Rng {
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
    /// Returns the high half of a 128-bit product and rejects the few low halves that would bias
    /// the result (Lemire, "Fast random integer generation in an interval", 2019).
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

/// A source of random numbers: a stream, or in tests a list.
pub trait RandomSource {
    /// Uniform in `0..n`, without bias; 0 if `n` is 0.
    fn next_below(&mut self, n: u64) -> u64;
    /// Uniform in `[0, 1)`.
    fn next_f64(&mut self) -> f64;
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

    const KEY: RngKey = RngKey {
        seed: 7,
        epoch: 2,
        clip: 11,
        occurrence: 0,
    };

    // Expected values computed by an independent Python implementation of ChaCha with 8 rounds.
    const GOLDEN_BITS: [u64; 2] = [10891074727489239763, 4022933865469881180];
    const GOLDEN_BELOW: [u64; 3] = [590, 218, 242];
    const GOLDEN_UNIT: f64 = 0.14197848221471;

    #[test]
    fn streams_never_change_between_releases() {
        let mut rng = KEY.rng(Purpose::Sampling);
        assert_eq!([rng.next_u64(), rng.next_u64()], GOLDEN_BITS);
        let mut rng = KEY.rng(Purpose::Sampling);
        assert_eq!(
            [
                rng.next_below(1000),
                rng.next_below(1000),
                rng.next_below(1000)
            ],
            GOLDEN_BELOW
        );
        assert_eq!(rng.next_f64(), GOLDEN_UNIT);
    }

    #[test]
    fn every_part_of_the_key_matters() {
        let first = |key: RngKey, purpose| key.rng(purpose).next_u64();
        let base = first(KEY, Purpose::Shuffle);
        assert_ne!(base, first(RngKey { seed: 8, ..KEY }, Purpose::Shuffle));
        assert_ne!(base, first(RngKey { epoch: 3, ..KEY }, Purpose::Shuffle));
        assert_ne!(base, first(RngKey { clip: 12, ..KEY }, Purpose::Shuffle));
        assert_ne!(base, first(KEY, Purpose::Sampling));
        assert_ne!(
            base,
            first(
                RngKey {
                    occurrence: 1,
                    ..KEY
                },
                Purpose::Shuffle
            )
        );
        // The stream is not a function of sums or xors of the fields.
        assert_ne!(
            first(
                RngKey {
                    seed: 1,
                    epoch: 2,
                    clip: 3,
                    occurrence: 0
                },
                Purpose::Shuffle
            ),
            first(
                RngKey {
                    seed: 2,
                    epoch: 1,
                    clip: 3,
                    occurrence: 0
                },
                Purpose::Shuffle
            )
        );
    }

    #[test]
    fn below_is_uniform_and_stays_below() {
        let mut rng = KEY.rng(Purpose::Shuffle);
        let mut counts = [0u32; 6];
        for _ in 0..60_000 {
            counts[rng.next_below(6) as usize] += 1;
        }
        // The standard deviation is 91; the limit is five of them.
        assert!(
            counts.iter().all(|c| c.abs_diff(10_000) < 460),
            "{counts:?}"
        );
        assert_eq!((rng.next_below(0), rng.next_below(1)), (0, 0));
        let n = (1 << 63) + 1; // nearly half of all outputs are rejected
        assert!((0..1000).all(|_| rng.next_below(n) < n));
    }

    #[test]
    fn unit_f64_is_in_the_half_open_interval() {
        let mut rng = KEY.rng(Purpose::Shuffle);
        let draws: Vec<f64> = (0..10_000).map(|_| rng.next_f64()).collect();
        assert!(draws.iter().all(|d| (0.0..1.0).contains(d)));
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        assert!((mean - 0.5).abs() < 0.015, "{mean}");
    }

    #[test]
    fn transforms_draw_from_streams_of_their_own() {
        // The layout of the stream number is part of the compatibility contract.
        for (step, frame, stream) in [(0, 0, 2), (1, 0, 18), (0, 1, 4098), (255, 1, 8178)] {
            let mut expected = KEY.stream(stream);
            let drawn = KEY.transform_rng(step, frame).next_u64();
            assert_eq!(drawn, expected.next_u64(), "step {step}, frame {frame}");
        }
    }
}
