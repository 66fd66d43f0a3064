//! Reproduces the exact clip order of DALI's readers with `pad_last_batch=True`, divided into
//! epochs. The order is computed from numbers alone; no clip is read.

pub mod libstdcxx_random;
pub mod reader_replay;

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::shard::{ContiguousBatches, shard_range};
use super::{BatchSamplerConfig, SampledClip, Shuffle};
use crate::error::Result;

use reader_replay::{DaliReaderReplay, ReplayCursor};

/// Maps the epochs of a DALI reader to epochs of a batch sampler.
///
/// Epoch `e` is the reader's epoch `e` with `pad_last_batch=True`: the clips of shard `shard_id +
/// e`, modulo `num_shards` (of shard `shard_id` with `stick_to_shard`), then the last clip repeated
/// and marked as padding. [`super::LastBatchPolicy::Fill`] repeats it up to a full batch, as the
/// reader does. [`super::LastBatchPolicy::Partial`] repeats it up to `num_clips / num_shards`,
/// rounded up, on every rank. [`super::LastBatchPolicy::Drop`] keeps the full batches of the
/// `Partial` sequence.
///
/// Only the low 32 bits of the seed are used, as in DALI; seeds 0 to 2^32 - 1 correspond to DALI's
/// seeds.
///
/// Without shuffling, any batch has random access. With shuffling, construction shuffles the list
/// of all samples; consecutive batches then cost one step per clip. Any other position of an epoch
/// is reached by steps from the cursor or from the beginning of the epoch, a later epoch by
/// generating the random numbers of the epochs in between, and an earlier epoch by generating them
/// again from the first epoch on. With ten million clips this takes half a second for the list,
/// about 20 ns per step, and 8 ns per clip of a skipped epoch (`examples/batch_sampler_cost.rs`).
#[derive(Debug)]
pub(super) struct DaliSampler {
    shards: DaliShards,
    batches: ContiguousBatches,
    shuffled: Option<(DaliReaderReplay, Mutex<ReplayCursor>)>,
}

impl DaliSampler {
    pub fn new(config: &BatchSamplerConfig) -> Result<Self> {
        let shards = DaliShards::new(config);
        let batches =
            ContiguousBatches::new(shards.max_shard_len(), config.batch_size, config.last_batch);
        let shuffled = match config.shuffle {
            Shuffle::Buffer { initial_fill } => {
                let reader = DaliReaderReplay::new(shards, config.seed, initial_fill)?;
                let cursor = Mutex::new(reader.start());
                Some((reader, cursor))
            }
            Shuffle::Off | Shuffle::Full | Shuffle::Grouped(_) => None,
        };
        Ok(Self {
            shards,
            batches,
            shuffled,
        })
    }

    pub fn batches(&self) -> &ContiguousBatches {
        &self.batches
    }

    pub fn batch(&self, epoch: u64, batch: u64) -> Vec<SampledClip> {
        let Some(positions) = self.batches.positions(batch) else {
            return Vec::new();
        };
        let clips = self.shards.epoch_range(epoch);
        let last = (clips.end - clips.start).saturating_sub(1);
        let slot = |position: u64, clip| SampledClip {
            clip,
            occurrence: 0,
            repeat: 0,
            padding: position > last,
        };
        match &self.shuffled {
            None => positions
                .map(|position| slot(position, clips.start + position.min(last)))
                .collect(),
            Some((reader, cursor)) => {
                let mut cursor = cursor.lock().unwrap_or_else(PoisonError::into_inner);
                let first = positions.start.min(last);
                let real = reader.read(&mut cursor, epoch, first..positions.end.min(last + 1));
                positions
                    .map(|position| {
                        slot(
                            position,
                            u64::from(real[(position.min(last) - first) as usize]),
                        )
                    })
                    .collect()
            }
        }
    }
}

/// The part of the dataset that a rank reads in each epoch.
#[derive(Clone, Copy, Debug)]
pub struct DaliShards {
    num_clips: u64,
    num_shards: u32,
    shard_id: u32,
    stick_to_shard: bool,
}

impl DaliShards {
    /// The shards of a configuration.
    pub fn new(config: &BatchSamplerConfig) -> Self {
        let &BatchSamplerConfig {
            num_clips,
            num_shards,
            shard_id,
            stick_to_shard,
            ..
        } = config;
        Self {
            num_clips,
            num_shards: num_shards.max(1),
            shard_id,
            stick_to_shard,
        }
    }

    /// Number of clips of all shards.
    pub fn num_clips(&self) -> u64 {
        self.num_clips
    }

    /// Number of clips of the longest shard.
    pub fn max_shard_len(&self) -> u64 {
        self.num_clips.div_ceil(u64::from(self.num_shards))
    }

    /// The range of the dataset that is read in an epoch.
    pub fn epoch_range(&self, epoch: u64) -> Range<u64> {
        let shards = u64::from(self.num_shards);
        let on = if self.stick_to_shard {
            0
        } else {
            epoch % shards
        };
        shard_range(
            self.num_clips,
            self.num_shards,
            ((u64::from(self.shard_id) + on) % shards) as u32,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ClipOrder, LastBatchPolicy};
    use super::*;

    /// num_samples, batch_size, shard_id, num_shards, stick_to_shard, pad_last_batch, initial_fill
    /// (0: no random_shuffle), seed, and the samples in the order delivered, batches concatenated.
    type Recorded = (u64, u32, u32, u32, bool, bool, u32, u64, &'static [u64]);

    // Recorded from nvidia-dali 2.4.0, fn.readers.file on the CPU; tests/engine/dali_order.rs has
    // more.
    #[rustfmt::skip]
    const RECORDED: [Recorded; 12] = [
        (7, 3, 0, 3, false, false, 4, 11, &[0, 3, 2, 4, 6, 5, 1, 0, 3, 2, 4, 5, 6, 1, 0, 3, 2, 4, 1, 6, 5, 0, 3, 4, 2, 1, 5, 6, 3, 0]),
        (7, 1, 0, 3, false, true, 4, 11, &[0, 3, 3, 2, 4, 4, 6, 5, 1, 0, 3, 3, 2, 4, 4, 5, 6, 1, 0, 3, 3, 2, 4, 4]),
        (7, 3, 1, 3, false, false, 1024, 12, &[2, 4, 1, 5, 6, 0, 3, 2, 4, 6, 5, 1, 3, 0, 2, 4, 6, 5, 1, 0, 3, 2, 4, 6, 5, 1, 0, 3, 4, 2]),
        (7, 3, 1, 2, true, true, 1024, 12, &[5, 4, 6, 1, 1, 1, 6, 4, 1, 5, 5, 5, 1, 6, 5, 4, 4, 4, 4, 1, 5, 6, 6, 6, 6, 4, 5, 1, 1, 1]),
        (7, 3, 0, 1, true, false, 1024, 11, &[1, 6, 2, 0, 4, 5, 3, 5, 4, 0, 6, 3, 2, 1, 5, 6, 4, 3, 1, 0, 2, 6, 0, 1, 4, 2, 5, 3, 0, 4]),
        (7, 1, 0, 1, true, true, 1024, 11, &[1, 6, 2, 0, 4, 5, 3, 5, 4, 0, 6, 3, 2, 1, 5, 6, 4, 3, 1, 0, 2, 6, 0, 1]),
        (7, 3, 2, 3, true, false, 1024, 13, &[1, 5, 6, 5, 1, 6, 6, 1, 5, 6, 1, 5, 1, 6, 5, 6, 1, 5, 1, 5, 6, 1, 5, 6, 5, 6, 1, 5, 6, 1]),
        (7, 3, 0, 3, true, true, 1024, 11, &[0, 3, 3, 3, 0, 0, 0, 3, 3, 3, 0, 0, 3, 0, 0, 0, 3, 3, 0, 3, 3, 0, 3, 3, 3, 0, 0, 3, 0, 0]),
        (7, 3, 2, 3, true, true, 1024, 13, &[1, 5, 6, 5, 1, 6, 6, 1, 5, 6, 1, 5, 1, 6, 5, 6, 1, 5, 1, 5, 6, 1, 5, 6, 5, 6, 1, 5, 6, 1]),
        (7, 1, 0, 3, false, true, 1024, 11, &[0, 3, 3, 2, 4, 4, 6, 5, 1, 0, 3, 3, 2, 4, 4, 5, 6, 1, 0, 3, 3, 2, 4, 4]),
        (7, 3, 2, 3, true, false, 4, 13, &[1, 5, 6, 5, 1, 6, 6, 1, 5, 6, 1, 5, 1, 6, 5, 6, 1, 5, 1, 5, 6, 1, 5, 6, 5, 6, 1, 5, 6, 1]),
        (7, 3, 0, 3, false, true, 0, 11, &[0, 1, 1, 2, 3, 3, 4, 5, 6, 0, 1, 1, 2, 3, 3, 4, 5, 6, 0, 1, 1, 2, 3, 3, 4, 5, 6, 0, 1, 1]),
    ];

    fn config(recorded: &Recorded, last_batch: LastBatchPolicy) -> BatchSamplerConfig {
        let &(num_clips, batch_size, shard_id, num_shards, stick_to_shard, _, fill, seed, _) =
            recorded;
        let shuffle = if fill == 0 {
            Shuffle::Off
        } else {
            Shuffle::Buffer { initial_fill: fill }
        };
        let base = BatchSamplerConfig {
            clip_order: ClipOrder::Dali,
            num_clips,
            batch_size,
            shard_id,
            num_shards,
            ..Default::default()
        };
        BatchSamplerConfig {
            stick_to_shard,
            shuffle,
            seed,
            last_batch,
            ..base
        }
    }

    fn epoch(dali: &DaliSampler, epoch: u64) -> Vec<SampledClip> {
        (0..dali.batches.len_batches())
            .flat_map(|batch| dali.batch(epoch, batch))
            .collect()
    }

    #[test]
    fn epochs_follow_each_other_as_recorded() {
        for recorded in &RECORDED {
            let &(.., pad, _, _, expected) = recorded;
            let dali = DaliSampler::new(&config(recorded, LastBatchPolicy::Fill)).unwrap();
            let slots = (0..)
                .flat_map(|e| epoch(&dali, e))
                .filter(|slot| pad || !slot.padding);
            let found: Vec<u64> = slots.map(|slot| slot.clip).take(expected.len()).collect();
            assert_eq!(found, expected, "{recorded:?}");
        }
    }

    #[test]
    fn padding_repeats_the_last_clip() {
        let recorded = RECORDED[1]; // 0 3 (3) | 2 4 (4) | 6 5 1
        let slots = |policy, batch_size| {
            let dali = DaliSampler::new(&BatchSamplerConfig {
                batch_size,
                ..config(&recorded, policy)
            })
            .unwrap();
            [0, 1, 2].map(|e| {
                epoch(&dali, e)
                    .iter()
                    .map(|s| (s.clip, s.padding))
                    .collect::<Vec<_>>()
            })
        };
        let (real, pad) = (|clip| (clip, false), |clip| (clip, true));
        let partial = [
            [real(0), real(3), pad(3)],
            [real(2), real(4), pad(4)],
            [real(6), real(5), real(1)],
        ];
        assert_eq!(slots(LastBatchPolicy::Partial, 2), partial);
        assert_eq!(
            slots(LastBatchPolicy::Drop, 2),
            [[real(0), real(3)], [real(2), real(4)], [real(6), real(5)]]
        );
        let fill = partial.map(|epoch| [epoch[0], epoch[1], epoch[2], pad(epoch[2].0)]);
        assert_eq!(slots(LastBatchPolicy::Fill, 2), fill);
    }

    #[test]
    fn without_shuffling_shards_are_read_in_turn() {
        for stick_to_shard in [false, true] {
            let base = config(&RECORDED[11], LastBatchPolicy::Partial);
            let dali = DaliSampler::new(&BatchSamplerConfig {
                shard_id: 1,
                stick_to_shard,
                ..base
            })
            .unwrap();
            let clips = |e| epoch(&dali, e).iter().map(|s| s.clip).collect::<Vec<_>>();
            let (second, third, first) = (vec![2, 3, 3], vec![4, 5, 6], vec![0, 1, 1]);
            let expected = if stick_to_shard {
                [&second, &second, &second]
            } else {
                [&second, &third, &first]
            };
            assert_eq!(
                [clips(0), clips(4), clips(2)].iter().collect::<Vec<_>>(),
                expected
            );
        }
    }
}
