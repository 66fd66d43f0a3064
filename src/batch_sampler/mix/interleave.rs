//! Assigns each position of an epoch to a dataset by weight and counts the draws of each dataset.
//! Counts follow the weights exactly at block borders; within a block a keyed permutation decides.
//! Any position has random access.

use super::super::permutation::Permutation;
use crate::error::{Result, invalid_argument};
use crate::rng::{Purpose, RngKey};

/// Length of a block, unless a weight is too small for it.
const MIN_BLOCK_LEN: u64 = 1024;

/// The fractional part of the golden ratio, in units of 2^-64.
const GOLDEN_RATIO: u64 = 0x9E37_79B9_7F4A_7C15;

/// The share 1 in fixed-point representation; shares are stored in units of 2^-64.
const SHARE_ONE: u128 = 1 << 64;

/// The smallest share: below it, blocks would be longer than any epoch.
const MIN_SHARE: u128 = SHARE_ONE >> 40;

/// How many draws (positions assigned to it) each dataset has had before any position.
///
/// Let `W(d)` be the cumulative share of datasets `0..=d` and `u` a number between 0 and 1 that is
/// sampled for each epoch. Datasets `0..=d` have had `floor(W(d) t + u)` draws before position `t`,
/// where `t` begins a block. So each dataset has had its share of `t` to within less than 1, and
/// all together have had `t`. Blocks have equal lengths to within one position: at least 1024
/// positions and at least 1 / the smallest share, so that the count of every dataset grows from
/// block to block. Shorter epochs are one block. A dataset whose share is too small for one draw
/// per epoch occurs in some of the epochs, depending on `u`.
#[derive(Clone, Debug)]
pub struct WeightedInterleave {
    /// Cumulative share of each dataset and those before it.
    ends: Vec<u128>,
    epoch_len: u64,
    blocks: u64,
}

/// The dataset of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetDraw {
    /// Index of the dataset.
    pub dataset: usize,
    /// Number of earlier draws of this dataset in the epoch.
    pub index: u64,
}

impl WeightedInterleave {
    /// The interleave of an epoch of `epoch_len` positions by these weights.
    pub fn new(weights: &[f64], epoch_len: u64) -> Result<Self> {
        Self::with_min_block(weights, epoch_len, MIN_BLOCK_LEN)
    }

    /// The interleave with blocks of at least this length.
    pub fn with_min_block(weights: &[f64], epoch_len: u64, min_block: u64) -> Result<Self> {
        if let Some(bad) = weights.iter().find(|&&w| !(w.is_finite() && w > 0.0)) {
            return invalid_argument(format!(
                "weights must be finite and greater than 0, got {bad}; omit unused datasets"
            ));
        }
        let max_weight = weights.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let sum: f64 = weights.iter().map(|w| w / max_weight).sum();
        let mut before = 0.0;
        let mut ends: Vec<u128> = weights
            .iter()
            .map(|w| {
                before += w / max_weight;
                (before / sum * SHARE_ONE as f64) as u128
            })
            .collect();
        if let Some(last) = ends.last_mut() {
            *last = SHARE_ONE;
        }
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let min_share = ends
            .iter()
            .zip(starts)
            .map(|(&end, start)| end.saturating_sub(start))
            .min();
        let min_share = min_share.unwrap_or(SHARE_ONE);
        if min_share < MIN_SHARE {
            return invalid_argument(format!(
                "weights must be at least 2^-40 of their sum, got {weights:?}; omit the smallest, or raise them"
            ));
        }
        let block = min_block.max(SHARE_ONE.div_ceil(min_share) as u64);
        Ok(Self {
            ends,
            epoch_len,
            blocks: (epoch_len / block).max(1),
        })
    }

    /// Number of draws of an epoch.
    pub fn epoch_len(&self) -> u64 {
        self.epoch_len
    }

    /// The draws of one epoch.
    pub fn draws(&self, seed: u64, epoch: u64) -> EpochDraws<'_> {
        let key = RngKey {
            seed,
            epoch,
            clip: 0,
            occurrence: 0,
        };
        // Keeps `u` at least 2^-16 away from 0 and 1: cumulative shares have rounding errors of
        // about 2^-50, and products that are integers would otherwise be rounded wrongly.
        let rounding = (key.rng(Purpose::MixRounding).next_below((1 << 16) - 1) + 1) << 48;
        EpochDraws {
            interleave: self,
            key,
            rounding,
            block: None,
        }
    }

    /// The draws of one of several streams of an epoch. The roundings of consecutive streams differ
    /// by the golden ratio, so that they are evenly distributed and all streams together follow the
    /// weights.
    pub fn draws_of_stream(&self, seed: u64, epoch: u64, stream: u32) -> EpochDraws<'_> {
        let draws = self.draws(seed, epoch);
        let rounding = draws
            .rounding
            .wrapping_add(u64::from(stream).wrapping_mul(GOLDEN_RATIO));
        let rounding = rounding.clamp(1 << 48, u64::MAX - (1 << 48));
        EpochDraws {
            key: RngKey {
                occurrence: u64::from(stream),
                ..draws.key
            },
            rounding,
            ..draws
        }
    }

    /// First position of a block.
    fn begin(&self, block: u64) -> u64 {
        (u128::from(self.epoch_len) * u128::from(block) / u128::from(self.blocks)) as u64
    }

    /// The block that contains a position.
    fn block_of(&self, position: u64) -> u64 {
        ((u128::from(position + 1) * u128::from(self.blocks) - 1) / u128::from(self.epoch_len))
            as u64
    }
}

/// The draws of one epoch; consecutive lookups in the same block share it.
#[derive(Debug)]
pub struct EpochDraws<'a> {
    interleave: &'a WeightedInterleave,
    key: RngKey,
    /// `u` in units of 2^-64.
    rounding: u64,
    block: Option<InterleaveBlock>,
}

#[derive(Debug)]
struct InterleaveBlock {
    begin: u64,
    end: u64,
    permutation: Permutation,
}

impl EpochDraws<'_> {
    /// The dataset at a position; positions past the end wrap around.
    pub fn at(&mut self, position: u64) -> DatasetDraw {
        let position = position % self.interleave.epoch_len.max(1);
        let block = match self
            .block
            .take()
            .filter(|b| (b.begin..b.end).contains(&position))
        {
            Some(same) => same,
            None => self.open(position),
        };
        let at = block.permutation.get(position - block.begin);
        // Draws of datasets 0..=d within the block; the draw belongs to the first dataset with more
        // than `at`.
        let within = |end: u128| self.count(end, block.end) - self.count(end, block.begin);
        let ends = &self.interleave.ends;
        let dataset = ends
            .partition_point(|&end| within(end) <= at)
            .min(ends.len() - 1);
        let start = dataset.checked_sub(1).map_or(0, |before| ends[before]);
        let had = self.count(ends[dataset], block.begin) - self.count(start, block.begin);
        let draw = DatasetDraw {
            dataset,
            index: had + at - within(start),
        };
        self.block = Some(block);
        draw
    }

    fn open(&self, position: u64) -> InterleaveBlock {
        let number = self.interleave.block_of(position);
        let (begin, end) = (
            self.interleave.begin(number),
            self.interleave.begin(number + 1),
        );
        let key = RngKey {
            clip: number,
            ..self.key
        };
        InterleaveBlock {
            begin,
            end,
            permutation: Permutation::keyed(key, Purpose::MixBlock, end - begin),
        }
    }

    /// Number of draws before position `before` of the datasets with cumulative share `share`.
    fn count(&self, share: u128, before: u64) -> u64 {
        ((share * u128::from(before) + u128::from(self.rounding)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(weights: &[f64], epoch_len: u64, epoch: u64) -> Vec<DatasetDraw> {
        let interleave = WeightedInterleave::new(weights, epoch_len).unwrap();
        let mut draws = interleave.draws(7, epoch);
        (0..epoch_len).map(|position| draws.at(position)).collect()
    }

    const WEIGHTS: [&[f64]; 6] = [
        &[0.335, 0.1, 0.565],
        &[1.0],
        &[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
        &[1000.0, 1.0],
        &[1.0, 20_000.0, 3.0, 1e-2 * 300.0],
        &[5.0, 1.0, 1.0, 1.0, 1.0, 3.0, 1.0],
    ];

    #[test]
    fn block_counts_follow_the_weights_within_one() {
        for weights in WEIGHTS {
            let sum: f64 = weights.iter().sum();
            for (epoch_len, epoch) in [(1, 0), (100, 1), (5000, 2), (60_000, 3)] {
                let interleave = WeightedInterleave::new(weights, epoch_len).unwrap();
                let ends: Vec<u64> = (1..=interleave.blocks)
                    .map(|block| interleave.begin(block))
                    .collect();
                assert_eq!(ends.last(), Some(&epoch_len));
                let mut counts = vec![0u64; weights.len()];
                for (draw, position) in draws(weights, epoch_len, epoch).into_iter().zip(1..) {
                    counts[draw.dataset] += 1;
                    if ends.contains(&position) {
                        for (&count, weight) in counts.iter().zip(weights) {
                            let quota = weight / sum * position as f64;
                            assert!(
                                (count as f64 - quota).abs() < 1.0,
                                "{weights:?}, {position}: {count} for {quota}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_draw_comes_once_in_short_blocks() {
        for weights in WEIGHTS {
            let all = draws(weights, 50_000, 1);
            let mut next = vec![Vec::new(); weights.len()];
            all.iter()
                .for_each(|draw| next[draw.dataset].push(draw.index));
            for draws in next {
                let mut sorted = draws.clone();
                sorted.sort_unstable();
                assert!(sorted.iter().copied().eq(0..draws.len() as u64));
                // A draw is early or late by at most about the number of its dataset's draws in a
                // block.
                let most = if weights.len() == 4 {
                    u64::MAX
                } else {
                    2 * 1024
                };
                assert!(
                    draws
                        .iter()
                        .zip(0..)
                        .all(|(draw, at)| draw.abs_diff(at) < most)
                );
            }
        }
    }

    #[test]
    fn positions_are_computed_in_any_order() {
        let all = draws(WEIGHTS[0], 9000, 4);
        let interleave = WeightedInterleave::new(WEIGHTS[0], 9000).unwrap();
        let mut draws = interleave.draws(7, 4);
        for position in (0..9000).rev().step_by(13).chain([0, 8999, 1024, 1023, 0]) {
            assert_eq!(draws.at(position), all[position as usize]);
        }
        assert_eq!(draws.at(9005), all[5]);
    }

    #[test]
    fn datasets_are_mixed_within_a_block() {
        // With two equal datasets, each position of a block has either one with probability 1/2;
        // over 2,000 epochs the standard deviation is 22.
        for position in [0, 1, 511, 1023] {
            let interleave = WeightedInterleave::new(&[1.0, 1.0], 1024).unwrap();
            let first = (0..2000)
                .filter(|&epoch| interleave.draws(3, epoch).at(position).dataset == 0)
                .count();
            assert!(first.abs_diff(1000) < 112, "place {position}: {first}");
        }
        let longest = draws(&[1.0, 1.0], 10_240, 0);
        let run = longest
            .chunk_by(|a, b| a.dataset == b.dataset)
            .map(<[_]>::len)
            .max();
        assert!(run < Some(30), "{run:?} of one dataset in a row");
    }

    #[test]
    fn share_below_one_clip_comes_in_some_epochs() {
        let interleave = WeightedInterleave::new(&[99.0, 1.0], 10).unwrap();
        let comes =
            |epoch| (0..10).any(|position| interleave.draws(1, epoch).at(position).dataset == 1);
        let epochs = (0..2000).filter(|&epoch| comes(epoch)).count();
        // A tenth of the epochs; the standard deviation is 13.
        assert!(epochs.abs_diff(200) < 67, "{epochs} of 2000");
    }

    #[test]
    fn the_longest_epochs_do_not_overflow() {
        let interleave = WeightedInterleave::new(&[1.0, 1e-11, 2.0], u64::MAX).unwrap();
        let mut draws = interleave.draws(1, u64::MAX);
        for position in [0, 1, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
            assert!(draws.at(position).dataset < 3);
        }
    }
}
