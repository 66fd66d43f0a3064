//! In: number of clips, seed, epoch, shard and batch size. Out: which clips this rank delivers in which batch.
//! Any batch of any epoch is computed at once, from a handful of integers: resuming costs nothing.
//! Never: keeps state, or depends on anything but these numbers.

pub mod permutation;
pub mod rng;
pub mod shard;

use crate::error::{Error, Result};

use permutation::Permutation;
use shard::Split;

/// Whether the order is shuffled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shuffle {
    /// As in the dataset.
    #[default]
    Off,
    /// A new permutation of all clips for every epoch, the same on all ranks.
    Full,
}

/// What becomes of the last batch; see [`Split`] for the exact rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LastBatch {
    /// It is shorter.
    #[default]
    Partial,
    /// Only full batches: the remaining clips, fewer than `batch_size * num_shards`, are left out of this epoch.
    Drop,
    /// It is filled up to `batch_size` with clips from the head of the order.
    Fill,
}

/// What an order is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderConfig {
    /// Number of clips of the whole dataset.
    pub num_clips: u64,
    /// Whether to shuffle.
    pub shuffle: Shuffle,
    /// Seed of the shuffle.
    pub seed: u64,
    /// This rank.
    pub shard_id: u32,
    /// Number of ranks.
    pub num_shards: u32,
    /// Clips per batch of one rank.
    pub batch_size: u32,
    /// What becomes of the last batch.
    pub last_batch: LastBatch,
}

/// One clip of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Number of the clip in the dataset.
    pub clip: u64,
    /// Which time in this epoch it comes, from 0.
    pub visit: u32,
    /// It only makes ranks equal or fills a batch; this clip is also delivered as a real one.
    pub padding: bool,
}

/// The sequence in which one rank delivers clips.
///
/// Over all ranks, the slots that are not padding hold every clip exactly once per epoch (with [`LastBatch::Drop`] at
/// most once), and all ranks have the same number of batches, of the same lengths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    config: OrderConfig,
    split: Split,
}

impl Order {
    /// Checks the numbers.
    pub fn new(config: OrderConfig) -> Result<Self> {
        let OrderConfig { num_clips, shard_id, num_shards, batch_size, last_batch, .. } = config;
        let refuse = |text| Err(Error::Argument(text));
        if batch_size == 0 {
            return refuse(
                "batch_size must be at least 1, got 0; it counts the clips of one batch".to_owned(),
            );
        }
        if num_shards == 0 {
            return refuse("num_shards must be at least 1, got 0; use 1 when there is one rank".to_owned());
        }
        if shard_id >= num_shards {
            return refuse(format!(
                "shard_id must be below num_shards={num_shards}, got {shard_id}; ranks count from 0"
            ));
        }
        Ok(Self { split: Split { num_clips, batch_size, num_shards, last_batch }, config })
    }

    /// What it was made of.
    pub fn config(&self) -> &OrderConfig {
        &self.config
    }

    /// Batches per epoch, the same on all ranks and in all epochs.
    pub fn len_batches(&self) -> u64 {
        self.split.len_batches()
    }

    /// Slots per epoch of this rank, padding included; the same on all ranks and in all epochs.
    pub fn len_slots(&self) -> u64 {
        self.split.len_slots()
    }

    /// The slots of batch `batch` of an epoch, real clips first. Empty past the last batch.
    pub fn batch(&self, epoch: u64, batch: u64) -> Vec<Slot> {
        let Some(share) = self.split.share(batch, self.config.shard_id) else { return Vec::new() };
        let places = self.places(epoch);
        let clips = (share.first..share.first + share.clips).map(|at| (at, false));
        let padding = (share.padding_first..share.padding_first + share.padding).map(|at| (at, true));
        clips.chain(padding).map(|(at, padding)| Slot { clip: places.clip(at), visit: 0, padding }).collect()
    }

    /// The clip at each place of the global order of an epoch, the same on all ranks.
    pub fn places(&self, epoch: u64) -> Places {
        let OrderConfig { num_clips, seed, .. } = self.config;
        let permutation = match self.config.shuffle {
            Shuffle::Off => None,
            Shuffle::Full => Some(Permutation::new(seed, epoch, num_clips)),
        };
        Places { num_clips, permutation }
    }
}

/// The global order of one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    num_clips: u64,
    permutation: Option<Permutation>,
}

impl Places {
    /// The clip at a place; past the end the order begins anew.
    pub fn clip(&self, place: u64) -> u64 {
        let place = place % self.num_clips.max(1);
        self.permutation.as_ref().map_or(place, |p| p.get(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICIES: [LastBatch; 3] = [LastBatch::Partial, LastBatch::Drop, LastBatch::Fill];

    /// All ranks of one order.
    fn ranks(num_clips: u64, num_shards: u32, batch_size: u32, last_batch: LastBatch) -> Vec<Order> {
        let (shuffle, seed) = (Shuffle::Full, 3);
        let config =
            |shard_id| OrderConfig { num_clips, shuffle, seed, shard_id, num_shards, batch_size, last_batch };
        (0..num_shards).map(|rank| Order::new(config(rank)).unwrap()).collect()
    }

    /// All batches of one rank, and the proof that `len_batches` and `len_slots` are true.
    fn batches(order: &Order, epoch: u64) -> Vec<Vec<Slot>> {
        let batches: Vec<_> = (0..order.len_batches()).map(|b| order.batch(epoch, b)).collect();
        assert!(batches.iter().all(|b| !b.is_empty()) && order.batch(epoch, order.len_batches()).is_empty());
        assert_eq!(batches.iter().map(Vec::len).sum::<usize>() as u64, order.len_slots());
        batches
    }

    fn real(batches: &[Vec<Slot>]) -> Vec<u64> {
        batches.iter().flatten().filter(|s| !s.padding).map(|s| s.clip).collect()
    }

    #[test]
    fn every_clip_comes_once_and_all_ranks_are_equally_long() {
        for policy in POLICIES {
            for (clips, shards, batch) in (0..=40)
                .flat_map(|n| (1..=6).flat_map(move |s| [1, 2, 3, 8].into_iter().map(move |b| (n, s, b))))
            {
                let what = format!("{clips} clips, {shards} ranks, batches of {batch}, {policy:?}");
                let all: Vec<_> = ranks(clips, shards, batch, policy).iter().map(|o| batches(o, 1)).collect();
                let lengths = |rank: &Vec<Vec<Slot>>| rank.iter().map(Vec::len).collect::<Vec<_>>();
                let expected = lengths(&all[0]);
                assert!(all.iter().all(|rank| lengths(rank) == expected), "{what}");
                let full = expected.iter().filter(|&&length| length == batch as usize).count();
                let short_last = policy == LastBatch::Partial && expected.last() != Some(&(batch as usize));
                assert_eq!(full + usize::from(short_last && clips > 0), expected.len(), "{what}");

                let mut seen: Vec<u64> = all.iter().flat_map(|rank| real(rank)).collect();
                let delivered = seen.len() as u64;
                seen.sort_unstable();
                seen.dedup();
                assert_eq!(seen.len() as u64, delivered, "{what}: a clip comes twice");
                let global = u64::from(shards) * u64::from(batch);
                match policy {
                    LastBatch::Drop => assert_eq!(delivered, clips / global * global, "{what}"),
                    _ => assert_eq!(delivered, clips, "{what}"),
                }
                let counts: Vec<_> = all.iter().map(|rank| real(rank).len()).collect();
                let spread = counts.iter().max().unwrap() - counts.iter().min().unwrap();
                assert!(spread <= 1, "{what}: unbalanced {counts:?}");
                let slots = all[0].iter().flatten().count() as u64;
                match policy {
                    LastBatch::Partial => assert_eq!(slots, clips.div_ceil(u64::from(shards)), "{what}"),
                    LastBatch::Drop => assert_eq!(slots, clips / global * u64::from(batch), "{what}"),
                    LastBatch::Fill => assert_eq!(slots, clips.div_ceil(global) * u64::from(batch), "{what}"),
                }
            }
        }
    }

    #[test]
    fn another_number_of_ranks_delivers_the_same_global_batches() {
        for policy in POLICIES {
            for clips in [0, 5, 12, 24, 29, 100] {
                let global = |shards: u32| -> Vec<Vec<u64>> {
                    let ranks = ranks(clips, shards, 12 / shards, policy);
                    let of = |b| ranks.iter().flat_map(move |o| o.batch(4, b));
                    let len = ranks[0].len_batches();
                    (0..len).map(|b| of(b).filter(|s| !s.padding).map(|s| s.clip).collect()).collect()
                };
                assert!([2, 3, 4, 6, 12].iter().all(|&s| global(s) == global(1)), "{clips} {policy:?}");
            }
        }
    }

    #[test]
    fn padding_is_taken_from_the_head_of_the_order() {
        let slots = |last_batch| -> Vec<Vec<(u64, bool)>> {
            let unshuffled =
                |o: Order| Order::new(OrderConfig { shuffle: Shuffle::Off, ..o.config }).unwrap();
            let of = |o: Order| unshuffled(o).batch(0, 1).iter().map(|s| (s.clip, s.padding)).collect();
            ranks(9, 2, 3, last_batch).into_iter().map(of).collect()
        };
        let (real, padding) = (|clip| (clip, false), |clip| (clip, true));
        assert_eq!(slots(LastBatch::Partial), [[real(6), real(7)], [real(8), padding(0)]]);
        let fill = [[real(6), real(7), padding(0)], [real(8), padding(1), padding(2)]];
        assert_eq!(slots(LastBatch::Fill), fill);
        assert!(slots(LastBatch::Drop).iter().all(Vec::is_empty));
    }

    #[test]
    fn epochs_are_shuffled_anew_and_seeds_differ_unless_shuffling_is_off() {
        let order = &ranks(100, 1, 10, LastBatch::Partial)[0];
        assert_ne!(real(&batches(order, 0)), real(&batches(order, 1)));
        let other = Order::new(OrderConfig { seed: 4, ..order.config.clone() }).unwrap();
        assert_ne!(real(&batches(order, 0)), real(&batches(&other, 0)));
        let off = Order::new(OrderConfig { shuffle: Shuffle::Off, ..order.config.clone() }).unwrap();
        assert_eq!(real(&batches(&off, 5)), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_wrong_number_is_repeated_back() {
        let good = ranks(10, 2, 2, LastBatch::Partial)[0].config.clone();
        for (config, part) in [
            (OrderConfig { batch_size: 0, ..good.clone() }, "batch_size must be at least 1, got 0"),
            (OrderConfig { num_shards: 0, ..good.clone() }, "num_shards must be at least 1, got 0"),
            (OrderConfig { shard_id: 2, ..good }, "below num_shards=2, got 2"),
        ] {
            let text = Order::new(config).unwrap_err().to_string();
            assert!(text.contains(part), "{text}");
        }
    }
}
