//! In: weights, the length of an epoch and a place in it. Out: whose turn it is there, and which turn of its own.
//! Counts follow the weights exactly, block by block; within a block a keyed permutation decides.
//! Never: adds up what came before: every count is one product.

use super::super::config::refuse;
use super::super::permutation::Permutation;
use super::super::rng::{purpose, Key};
use crate::error::Result;

/// Places of a block, unless a weight is too small for it.
const BLOCK: u64 = 1024;

/// 1 in the unit of shares, which are kept in 2^-64.
const WHOLE: u128 = 1 << 64;

/// The least share: below it, blocks would be longer than any epoch.
const LEAST_SHARE: u128 = WHOLE >> 40;

/// How many turns each dataset has had at any place.
///
/// With `W(d)` the share of datasets `0..=d` and `u` a number from 0 to 1 that is drawn for each epoch, datasets
/// `0..=d` have had `floor(W(d) t + u)` turns before place `t`, where `t` begins a block. So each dataset has had its
/// share of `t` to within less than 1, and all together `t`. Blocks are equally long to within one place, at least 1024
/// places and at least 1 / the smallest share, which makes the counts of every dataset grow from block to block.
/// Shorter epochs are one block. What is too small a share for one epoch comes in some of them, as `u` decides.
#[derive(Clone, Debug)]
pub struct Quotas {
    /// Share of this dataset and those before it.
    ends: Vec<u128>,
    places: u64,
    blocks: u64,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Number of the dataset.
    pub dataset: usize,
    /// Turns that it has had in this epoch before.
    pub draw: u64,
}

impl Quotas {
    /// Quotas of an epoch of `places` by these weights.
    pub fn new(weights: &[f64], places: u64) -> Result<Self> {
        if let Some(bad) = weights.iter().find(|&&w| !(w.is_finite() && w > 0.0)) {
            return refuse(format!(
                "weights must be finite and greater than 0, got {bad}; leave out what is not wanted"
            ));
        }
        let greatest = weights.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let sum: f64 = weights.iter().map(|w| w / greatest).sum();
        let mut before = 0.0;
        let mut ends: Vec<u128> = weights
            .iter()
            .map(|w| {
                before += w / greatest;
                (before / sum * WHOLE as f64) as u128
            })
            .collect();
        if let Some(last) = ends.last_mut() {
            *last = WHOLE;
        }
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let least = ends.iter().zip(starts).map(|(&end, start)| end.saturating_sub(start)).min();
        let least = least.unwrap_or(WHOLE);
        if least < LEAST_SHARE {
            return refuse(format!(
                "weights must be at least 2^-40 of their sum, got {weights:?}; leave out the smallest, or raise them"
            ));
        }
        let block = BLOCK.max(WHOLE.div_ceil(least) as u64);
        Ok(Self { ends, places, blocks: (places / block).max(1) })
    }

    /// The turns of one epoch.
    pub fn turns(&self, seed: u64, epoch: u64) -> Turns<'_> {
        let key = Key { seed, epoch, clip: 0, visit: 0 };
        // Near 0 and 1, shares that come out whole would be rounded wrongly: their sums are off by some 2^-50.
        let rounding = (key.rng(purpose::MIX_ROUNDING).below((1 << 16) - 1) + 1) << 48;
        Turns { quotas: self, key, rounding, block: None }
    }

    /// First place of a block.
    fn begin(&self, block: u64) -> u64 {
        (u128::from(self.places) * u128::from(block) / u128::from(self.blocks)) as u64
    }

    /// The block that a place lies in.
    fn block_of(&self, place: u64) -> u64 {
        ((u128::from(place + 1) * u128::from(self.blocks) - 1) / u128::from(self.places)) as u64
    }
}

/// The turns of one epoch, which share a block where they can.
#[derive(Debug)]
pub struct Turns<'a> {
    quotas: &'a Quotas,
    key: Key,
    /// `u` in 2^-64.
    rounding: u64,
    block: Option<Block>,
}

#[derive(Debug)]
struct Block {
    begin: u64,
    end: u64,
    permutation: Permutation,
}

impl Turns<'_> {
    /// Whose turn it is at a place; past the end the epoch begins anew.
    pub fn at(&mut self, place: u64) -> Turn {
        let place = place % self.quotas.places.max(1);
        let block = match self.block.take().filter(|b| (b.begin..b.end).contains(&place)) {
            Some(same) => same,
            None => self.open(place),
        };
        let at = block.permutation.get(place - block.begin);
        // Turns of datasets 0..=d within the block: it is the first dataset's that has more than `at`.
        let within = |end: u128| self.count(end, block.end) - self.count(end, block.begin);
        let ends = &self.quotas.ends;
        let dataset = ends.partition_point(|&end| within(end) <= at).min(ends.len() - 1);
        let start = dataset.checked_sub(1).map_or(0, |before| ends[before]);
        let had = self.count(ends[dataset], block.begin) - self.count(start, block.begin);
        let turn = Turn { dataset, draw: had + at - within(start) };
        self.block = Some(block);
        turn
    }

    fn open(&self, place: u64) -> Block {
        let number = self.quotas.block_of(place);
        let (begin, end) = (self.quotas.begin(number), self.quotas.begin(number + 1));
        let key = Key { clip: number, ..self.key };
        Block { begin, end, permutation: Permutation::keyed(key, purpose::MIX_BLOCK, end - begin) }
    }

    /// Turns before place `before` of the datasets whose share is `share`.
    fn count(&self, share: u128, before: u64) -> u64 {
        ((share * u128::from(before) + u128::from(self.rounding)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(weights: &[f64], places: u64, epoch: u64) -> Vec<Turn> {
        let quotas = Quotas::new(weights, places).unwrap();
        let mut turns = quotas.turns(7, epoch);
        (0..places).map(|place| turns.at(place)).collect()
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
    fn counts_follow_the_weights_within_one_at_the_end_of_every_block() {
        for weights in WEIGHTS {
            let sum: f64 = weights.iter().sum();
            for (places, epoch) in [(1, 0), (100, 1), (5000, 2), (60_000, 3)] {
                let quotas = Quotas::new(weights, places).unwrap();
                let ends: Vec<u64> = (1..=quotas.blocks).map(|block| quotas.begin(block)).collect();
                assert_eq!(ends.last(), Some(&places));
                let mut counts = vec![0u64; weights.len()];
                for (turn, place) in turns(weights, places, epoch).into_iter().zip(1..) {
                    counts[turn.dataset] += 1;
                    if ends.contains(&place) {
                        for (&count, weight) in counts.iter().zip(weights) {
                            let quota = weight / sum * place as f64;
                            assert!(
                                (count as f64 - quota).abs() < 1.0,
                                "{weights:?}, {place}: {count} for {quota}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_turn_comes_once_and_blocks_are_short_where_weights_allow() {
        for weights in WEIGHTS {
            let all = turns(weights, 50_000, 1);
            let mut next = vec![Vec::new(); weights.len()];
            all.iter().for_each(|turn| next[turn.dataset].push(turn.draw));
            for draws in next {
                let mut sorted = draws.clone();
                sorted.sort_unstable();
                assert!(sorted.iter().copied().eq(0..draws.len() as u64));
                // A turn comes no more than a block's worth of its own turns early or late.
                let most = if weights.len() == 4 { u64::MAX } else { 2 * 1024 };
                assert!(draws.iter().zip(0..).all(|(draw, at)| draw.abs_diff(at) < most));
            }
        }
    }

    #[test]
    fn places_are_found_in_any_order() {
        let all = turns(WEIGHTS[0], 9000, 4);
        let quotas = Quotas::new(WEIGHTS[0], 9000).unwrap();
        let mut turns = quotas.turns(7, 4);
        for place in (0..9000).rev().step_by(13).chain([0, 8999, 1024, 1023, 0]) {
            assert_eq!(turns.at(place), all[place as usize]);
        }
        assert_eq!(turns.at(9005), all[5]);
    }

    #[test]
    fn datasets_are_mixed_within_a_block() {
        // Of two equal datasets, each place of a block is either's; over 2,000 epochs the standard deviation is 22.
        for place in [0, 1, 511, 1023] {
            let quotas = Quotas::new(&[1.0, 1.0], 1024).unwrap();
            let first = (0..2000).filter(|&epoch| quotas.turns(3, epoch).at(place).dataset == 0).count();
            assert!(first.abs_diff(1000) < 112, "place {place}: {first}");
        }
        let longest = turns(&[1.0, 1.0], 10_240, 0);
        let run = longest.chunk_by(|a, b| a.dataset == b.dataset).map(<[_]>::len).max();
        assert!(run < Some(30), "{run:?} of one dataset in a row");
    }

    #[test]
    fn a_share_below_one_place_comes_in_some_epochs() {
        let quotas = Quotas::new(&[99.0, 1.0], 10).unwrap();
        let comes = |epoch| (0..10).any(|place| quotas.turns(1, epoch).at(place).dataset == 1);
        let epochs = (0..2000).filter(|&epoch| comes(epoch)).count();
        // A tenth of them; the standard deviation is 13.
        assert!(epochs.abs_diff(200) < 67, "{epochs} of 2000");
    }

    #[test]
    fn the_longest_epochs_do_not_overflow() {
        let quotas = Quotas::new(&[1.0, 1e-11, 2.0], u64::MAX).unwrap();
        let mut turns = quotas.turns(1, u64::MAX);
        for place in [0, 1, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
            assert!(turns.at(place).dataset < 3);
        }
    }
}
