//! Mixes several datasets by weight: maps a position in the epoch to a clip. [`WeightedInterleave`]
//! selects the dataset and the draw, keyed permutations select the clip. Memory does not grow with
//! the epoch.

pub mod grouped;
pub mod interleave;

use serde::Deserialize;

use super::order::Order;
use super::permutation::Permutation;
use crate::error::{Result, invalid_argument};
use crate::rng::{Purpose, RngKey};

use interleave::{EpochDraws, WeightedInterleave};

/// Several datasets, concatenated in the numbering of clips, from which an epoch is sampled by
/// weight.
///
/// The share of each dataset in the clips of an epoch follows its weight (see
/// [`WeightedInterleave`]). Without replacement, all clips of a dataset are delivered in a random
/// order before any of them repeats; each further pass uses a new random order. With replacement
/// every draw is independent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixConfig {
    /// Number of clips of each dataset, in the order of the concatenation.
    pub sizes: Vec<u64>,
    /// Share of each dataset in the epoch, in any unit.
    pub weights: Vec<f64>,
    /// Whether a clip may repeat before all other clips of its dataset were delivered.
    pub replacement: bool,
    /// Clips per epoch; by default the number of clips of all datasets.
    pub epoch_clips: Option<u64>,
}

impl MixConfig {
    /// Clips per epoch.
    pub fn clips_per_epoch(&self) -> u64 {
        self.epoch_clips.unwrap_or_else(|| {
            self.sizes
                .iter()
                .fold(0, |sum, &size| sum.saturating_add(size))
        })
    }

    pub(super) fn check(&self, num_clips: u64) -> Result<()> {
        let (sizes, weights) = (&self.sizes, &self.weights);
        if sizes.is_empty() {
            return invalid_argument(
                "mix must have at least one dataset, got no sizes; omit mix for a single dataset",
            );
        }
        if sizes.len() != weights.len() || u32::try_from(sizes.len()).is_err() {
            return invalid_argument(format!(
                "weights must be one for each dataset, got {} for {} sizes; give one weight per dataset",
                weights.len(),
                sizes.len()
            ));
        }
        if let Some(empty) = sizes.iter().position(|&size| size == 0) {
            return invalid_argument(format!(
                "sizes must be at least 1, got 0 for dataset {empty}; leave empty datasets out"
            ));
        }
        let sum = sizes
            .iter()
            .try_fold(0_u64, |sum, &size| sum.checked_add(size));
        if sum != Some(num_clips) {
            let sum = sum.map_or_else(|| "more than 2^64".to_owned(), |sum| sum.to_string());
            return invalid_argument(format!(
                "sizes must add up to num_clips={num_clips}, got {sum}; give all datasets"
            ));
        }
        if self.epoch_clips == Some(0) {
            return invalid_argument(
                "epoch_clips must be at least 1, got 0; omit it for the number of all clips",
            );
        }
        WeightedInterleave::new(weights, self.clips_per_epoch()).map(drop)
    }
}

/// A [`MixConfig`] prepared for lookups.
#[derive(Clone, Debug)]
pub(super) struct MixSampler {
    datasets: Vec<DatasetRange>,
    interleave: WeightedInterleave,
    replacement: bool,
    seed: u64,
}

#[derive(Clone, Copy, Debug)]
struct DatasetRange {
    first: u64,
    size: u64,
}

impl MixSampler {
    pub(super) fn new(mix: &MixConfig, seed: u64) -> Result<Self> {
        let mut end = 0_u64;
        let datasets = mix.sizes.iter().map(|&size| {
            let first = end;
            end = end.saturating_add(size);
            DatasetRange { first, size }
        });
        let datasets = datasets.collect();
        Ok(Self {
            datasets,
            interleave: WeightedInterleave::new(&mix.weights, mix.clips_per_epoch())?,
            replacement: mix.replacement,
            seed,
        })
    }

    fn epoch(&self, epoch: u64) -> MixEpoch<'_> {
        MixEpoch {
            sampler: self,
            key: RngKey {
                seed: self.seed,
                epoch,
                clip: 0,
                occurrence: 0,
            },
            draws: self.interleave.draws(self.seed, epoch),
        }
    }
}

impl Order for MixSampler {
    fn num_clips(&self) -> u64 {
        self.interleave.epoch_len()
    }

    fn clips(&self, epoch: u64, positions: &mut dyn Iterator<Item = u64>) -> Vec<(u64, u32)> {
        let mut draws = self.epoch(epoch);
        positions.map(|position| draws.clip(position)).collect()
    }
}

/// The clips of one epoch of a mix.
#[derive(Debug)]
struct MixEpoch<'a> {
    sampler: &'a MixSampler,
    key: RngKey,
    draws: EpochDraws<'a>,
}

impl MixEpoch<'_> {
    /// The clip at a position and its occurrence in this epoch, counted from 0; positions past the
    /// end wrap around.
    fn clip(&mut self, position: u64) -> (u64, u32) {
        let draw = self.draws.at(position);
        let DatasetRange { first, size } = self.sampler.datasets[draw.dataset];
        let occurrence = draw.dataset as u64;
        if self.sampler.replacement {
            let key = RngKey {
                clip: draw.index,
                occurrence,
                ..self.key
            };
            return (
                first + key.rng(Purpose::MixDraw).next_below(size),
                draw.index as u32,
            );
        }
        let (pass, at) = (draw.index / size, draw.index % size);
        let key = RngKey {
            clip: pass,
            occurrence,
            ..self.key
        };
        (
            first + Permutation::keyed(key, Purpose::MixPass, size).get(at),
            pass as u32,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mix(
        sizes: &[u64],
        weights: &[f64],
        replacement: bool,
        epoch_clips: Option<u64>,
    ) -> MixConfig {
        MixConfig {
            sizes: sizes.to_vec(),
            weights: weights.to_vec(),
            replacement,
            epoch_clips,
        }
    }

    fn list(mix: &MixConfig, seed: u64, epoch: u64) -> Vec<(u64, u32)> {
        mix.check(mix.sizes.iter().sum()).unwrap();
        let sampler = MixSampler::new(mix, seed).unwrap();
        sampler.clips(epoch, &mut (0..mix.clips_per_epoch()))
    }

    // Expected values computed by an independent Python implementation with exact fractions.
    #[rustfmt::skip]
    const GOLDEN: [(u64, u32); 16] = [
        (6, 0), (3, 0), (9, 0), (0, 1), (8, 0), (9, 1), (0, 0), (4, 0),
        (5, 0), (5, 1), (1, 0), (8, 1), (2, 0), (7, 1), (7, 0), (6, 1),
    ];
    const GOLDEN_REPLACEMENT: [(u64, u32); 10] = [
        (4, 4),
        (5, 3),
        (0, 2),
        (3, 0),
        (1, 1),
        (5, 2),
        (2, 0),
        (8, 0),
        (7, 1),
        (8, 1),
    ];
    #[rustfmt::skip]
    const GOLDEN_LONG: [(usize, (u64, u32)); 6] = [
        (0, (2263, 0)), (1023, (1475, 0)), (1024, (357, 0)), (2499, (579, 0)), (2500, (642, 1)), (4999, (551, 1)),
    ];

    #[test]
    fn the_order_never_changes_between_releases() {
        let (sizes, weights) = ([3, 5, 2], [1.0, 2.0, 1.0]);
        assert_eq!(list(&mix(&sizes, &weights, false, Some(16)), 5, 1), GOLDEN);
        assert_eq!(
            list(&mix(&sizes, &weights, true, None), 5, 1),
            GOLDEN_REPLACEMENT
        );
        let long = list(
            &mix(&[700, 300, 2000], &[0.335, 0.1, 0.565], false, Some(5000)),
            5,
            2,
        );
        assert!(GOLDEN_LONG.iter().all(|&(at, clip)| long[at] == clip));
    }

    #[test]
    fn no_clip_comes_again_before_its_dataset_is_passed() {
        for (sizes, weights, length) in [
            (&[3, 50, 7][..], &[1.0, 1.0, 1.0][..], 400),
            (&[1, 2000], &[0.999, 0.001], 5000),
            (&[40], &[0.1], 130),
            (&[5, 5, 5, 5], &[1e-6, 1.0, 3.0, 1e6], 2000),
        ] {
            for epoch in 0..3 {
                let order = list(&mix(sizes, weights, false, Some(length)), 1, epoch);
                let mut counts = vec![0u32; sizes.iter().sum::<u64>() as usize];
                let mut pairs = order.clone();
                order
                    .iter()
                    .for_each(|&(clip, _)| counts[clip as usize] += 1);
                pairs.sort_unstable();
                pairs.dedup();
                assert_eq!(
                    pairs.len() as u64,
                    length,
                    "a clip comes twice in the same pass"
                );
                let mut first = 0;
                for &size in sizes {
                    // All passes but the last are complete: the counts of a dataset's clips differ
                    // by at most one, and a clip that occurs `n` times occurs in the passes 0 to
                    // `n - 1`.
                    let of = &counts[first..first + size as usize];
                    assert!(
                        of.iter().max().unwrap() - of.iter().min().unwrap() <= 1,
                        "{of:?}"
                    );
                    first += size as usize;
                }
                for (clip, occurrence) in pairs {
                    assert!(occurrence < counts[clip as usize]);
                }
            }
        }
    }

    #[test]
    fn size_weights_yield_all_clips_exactly_once() {
        for sizes in [
            &[1, 1][..],
            &[7],
            &[3, 5, 2],
            &[1000, 1, 10],
            &[123_457, 3, 99_991],
        ] {
            let weights: Vec<f64> = sizes.iter().map(|&size| size as f64 * 0.1).collect();
            for epoch in 0..20 {
                let mut clips: Vec<u64> = list(&mix(sizes, &weights, false, None), 3, epoch)
                    .iter()
                    .map(|&(clip, _)| clip)
                    .collect();
                clips.sort_unstable();
                assert!(clips.iter().copied().eq(0..sizes.iter().sum()), "{sizes:?}");
                if clips.len() > 10_000 && epoch == 2 {
                    break;
                }
            }
        }
    }

    #[test]
    fn replacement_draws_are_uniform_and_epochs_differ() {
        let replaced = mix(&[4, 6], &[1.0, 1.0], true, Some(40_000));
        let order = list(&replaced, 8, 0);
        let mut counts = [0u32; 10];
        order
            .iter()
            .for_each(|&(clip, _)| counts[clip as usize] += 1);
        // 20,000 draws over 4 and over 6 clips; the standard deviations are 61 and 53, and the
        // limit is five of them.
        assert!(
            counts[..4].iter().all(|c| c.abs_diff(5000) < 307),
            "{counts:?}"
        );
        assert!(
            counts[4..].iter().all(|c| c.abs_diff(3333) < 264),
            "{counts:?}"
        );
        let mut pairs = order.clone();
        pairs.sort_unstable();
        pairs.dedup();
        assert_eq!(pairs.len(), order.len(), "a draw's number comes twice");
        assert_ne!(order, list(&replaced, 8, 1));
        assert_eq!(order, list(&replaced, 8, 0));
    }

    #[test]
    fn invalid_mix_is_named_in_the_error() {
        let half = f64::MIN_POSITIVE;
        for (mix, part) in [
            (mix(&[], &[], false, None), "at least one dataset"),
            (
                mix(&[4, 6], &[1.0], false, None),
                "weights must be one for each dataset, got 1 for 2 sizes",
            ),
            (
                mix(&[10, 0], &[1.0, 1.0], false, None),
                "sizes must be at least 1, got 0 for dataset 1",
            ),
            (
                mix(&[4, 5], &[1.0, 1.0], false, None),
                "sizes must add up to num_clips=10, got 9",
            ),
            (
                mix(&[u64::MAX, 11], &[1.0, 1.0], false, None),
                "got more than 2^64",
            ),
            (
                mix(&[4, 6], &[1.0, 0.0], false, None),
                "weights must be finite and greater than 0, got 0",
            ),
            (mix(&[4, 6], &[1.0, f64::NAN], false, None), "got NaN"),
            (mix(&[4, 6], &[1.0, f64::INFINITY], false, None), "got inf"),
            (
                mix(&[4, 6], &[1.0, half], false, None),
                "weights must be at least 2^-40 of their sum",
            ),
            (
                mix(&[4, 6], &[1.0, 1.0], false, Some(0)),
                "epoch_clips must be at least 1, got 0",
            ),
        ] {
            let text = mix.check(10).unwrap_err().to_string();
            assert!(text.contains(part), "{text}");
        }
        mix(&[4, 6], &[f64::MAX, f64::MAX], false, None)
            .check(10)
            .unwrap();
    }
}
