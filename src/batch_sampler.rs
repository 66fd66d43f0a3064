//! Maps (epoch, batch number) to the clips that one rank delivers in that batch, with random
//! access. The result is a pure function of the configuration, epoch and batch number; state kept
//! between calls is only a cache.

pub mod buffer_shuffle;
mod choice;
pub mod config;
mod draws;
pub mod grouped_shuffle;
pub mod mix;
mod nodes;
mod order;
pub mod permutation;
pub mod shuffle_quality;
pub mod shuffled_index;
pub mod split;

use crate::error::Result;
use crate::rng::RngKey;

pub use config::{BatchSamplerConfig, LastBatchPolicy, Shuffle};
pub use grouped_shuffle::WeightConfig;
pub use mix::MixConfig;
pub use order::GroupedConfig;

use order::Order;
use split::Split;

/// One clip of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SampledClip {
    /// Index of the clip in the dataset.
    pub clip: u64,
    /// How many times the clip was delivered earlier in this epoch, so that a repeated clip gets
    /// different random crops. With a [`MixConfig`] it is the pass over its dataset or, with
    /// replacement, the number of the draw.
    pub occurrence: u32,
    /// The number of the repeat: repeats have the same frames and different random transforms.
    pub repeat: u32,
    /// Whether the clip only equalizes the ranks or fills a batch; the same clip is also delivered
    /// as a real one.
    pub padding: bool,
}

impl SampledClip {
    /// The random numbers that select the frames of `clip`: this one, or its replacement.
    pub fn sampling_key(&self, seed: u64, epoch: u64, clip: u64) -> RngKey {
        RngKey {
            seed,
            epoch,
            clip,
            occurrence: self.occurrence.into(),
        }
    }

    /// The random numbers of the transforms of `clip`: this one, or its replacement.
    pub fn transform_key(&self, seed: u64, epoch: u64, clip: u64) -> RngKey {
        let occurrence = u64::from(self.repeat) << 32 | u64::from(self.occurrence);
        RngKey {
            seed,
            epoch,
            clip,
            occurrence,
        }
    }
}

/// The sequence of batches that one rank delivers.
///
/// Over all ranks and their workers, the slots that are not padding hold every clip exactly once
/// per epoch (with [`LastBatchPolicy::Drop`] at most once, with a [`MixConfig`] or a
/// [`WeightConfig`] by weight). All ranks have the same number of batches, of the same lengths.
///
/// An order states which clip is at each position of an epoch, a split which positions are in each
/// batch of the rank:
///
/// - All ranks share one order of all clips and split each global batch, so a different number of
///   ranks gives the same global batches. With `num_nodes`, this holds for the ranks of a machine.
/// - With `stick_to_shard` each rank has the order of its own shard of the dataset, cut into
///   batches. All ranks have the batches of the longest shard (with [`LastBatchPolicy::Drop`] of the
///   shortest); a shorter one is padded from its own beginning.
#[derive(Debug)]
pub struct BatchSampler {
    config: BatchSamplerConfig,
    order: Box<dyn Order>,
    split: Split,
}

impl BatchSampler {
    /// Checks the configuration and prepares what all epochs share.
    pub fn new(config: BatchSamplerConfig) -> Result<Self> {
        config.check()?;
        let order = choice::of_config(&config)?;
        let split = Split::new(&config, &*order);
        Ok(Self {
            config,
            order,
            split,
        })
    }

    /// The configuration of this batch sampler.
    pub fn config(&self) -> &BatchSamplerConfig {
        &self.config
    }

    /// The parameters of the grouped shuffle; `None` if the clips are not grouped.
    pub fn grouped(&self) -> Option<GroupedConfig> {
        self.order.grouped()
    }

    /// The configuration, with the parameters of the grouped shuffle that it left open.
    pub fn resolved_config(&self) -> BatchSamplerConfig {
        let mut config = self.config.clone();
        if let (Shuffle::Grouped(options), Some(grouped)) = (&mut config.shuffle, self.grouped()) {
            options.fix(grouped);
        }
        config
    }

    /// Number of clip requests that a loader of this worker must see ahead to find the clips that
    /// share decoding.
    pub fn lookahead_clips(&self) -> u64 {
        let repeats = self.slots_per_unit();
        let BatchSamplerConfig {
            num_shards,
            num_nodes,
            num_workers,
            batch_size,
            ..
        } = self.config;
        let consumers = u64::from((num_shards / num_nodes).max(1)) * u64::from(num_workers.max(1));
        self.grouped().map_or(0, |grouped| {
            (grouped.block_size / consumers)
                .saturating_add(batch_size.into())
                .saturating_mul(repeats)
        })
    }

    /// Prepares an epoch in the background, where its first batch would take long otherwise.
    pub fn prepare_epoch(&self, epoch: u64) {
        self.order.prepare(epoch);
    }

    /// Batches per epoch of this worker; the same on all ranks and in all epochs.
    pub fn len_batches(&self) -> u64 {
        let BatchSamplerConfig {
            worker_id,
            num_workers,
            ..
        } = self.config;
        self.split
            .len_batches()
            .saturating_sub(u64::from(worker_id))
            .div_ceil(u64::from(num_workers.max(1)))
    }

    /// Slots per epoch of this worker, including padding and repeats; the same on all ranks and in
    /// all epochs.
    pub fn num_samples(&self) -> u64 {
        let (batches, slots) = (self.split.len_batches(), self.split.num_samples());
        let Some(last) = self.len_batches().checked_sub(1) else {
            return 0;
        };
        let each = u64::from(self.config.batch_size);
        let length = if self.rank_batch_number(last) == Some(batches - 1) {
            slots - (batches - 1) * each
        } else {
            each
        };
        (last * each + length).saturating_mul(self.slots_per_unit())
    }

    /// The slots of batch `batch` of an epoch, real clips first, the repeats of a clip (of a group)
    /// one after another. Empty past the last batch.
    pub fn batch(&self, epoch: u64, batch: u64) -> Vec<SampledClip> {
        let units = self.clips(epoch, batch);
        let BatchSamplerConfig {
            repeats,
            clips_per_group,
            ..
        } = self.config;
        if repeats <= 1 && clips_per_group <= 1 {
            return units;
        }
        let repeated = |slot| (0..repeats).map(move |repeat| SampledClip { repeat, ..slot });
        let members = |unit: SampledClip| {
            let first = unit.clip * u64::from(clips_per_group);
            (first..first + u64::from(clips_per_group))
                .map(move |clip| SampledClip { clip, ..unit })
        };
        units
            .into_iter()
            .flat_map(repeated)
            .flat_map(members)
            .collect()
    }

    /// The clips of a batch, each once.
    fn clips(&self, epoch: u64, batch: u64) -> Vec<SampledClip> {
        let Some(batch) = self.rank_batch_number(batch) else {
            return Vec::new();
        };
        let batch = self.split.batch(batch);
        let clips = self
            .order
            .clips(epoch, &mut batch.positions.iter().copied());
        let slot = |(n, (clip, occurrence))| SampledClip {
            clip,
            occurrence,
            repeat: 0,
            padding: n >= batch.num_real,
        };
        clips.into_iter().enumerate().map(slot).collect()
    }

    /// Slots that one entry of the order takes.
    fn slots_per_unit(&self) -> u64 {
        u64::from(self.config.repeats) * u64::from(self.config.clips_per_group)
    }

    /// Converts a batch number of this worker to a batch number of the rank.
    fn rank_batch_number(&self, batch: u64) -> Option<u64> {
        let BatchSamplerConfig {
            worker_id,
            num_workers,
            ..
        } = self.config;
        batch
            .checked_mul(u64::from(num_workers))?
            .checked_add(u64::from(worker_id))
    }
}

#[cfg(test)]
mod tests;
