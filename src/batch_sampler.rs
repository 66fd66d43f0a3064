//! Maps (epoch, batch number) to the clips that one rank delivers in that batch, with random
//! access. The result is a pure function of the configuration, epoch and batch number; state kept
//! between calls is only a cache.

pub mod buffer_shuffle;
pub mod config;
pub mod dali;
pub mod grouped_shuffle;
pub mod mix;
mod nodes;
pub mod permutation;
pub mod shard;
pub mod shuffle_quality;
pub mod shuffled_index;
pub mod torch;

use crate::error::{Result, invalid_argument};

pub use config::{BatchSamplerConfig, ClipOrder, LastBatchPolicy, Shuffle};
pub use grouped_shuffle::WeightConfig;
pub use mix::MixConfig;

use crate::rng::RngKey;
use dali::DaliSampler;
use grouped_shuffle::weighted::{Unit, WeightedVideos};
use grouped_shuffle::{Consumers, GroupedConfig, GroupedSampler, GroupedShuffle, VideoClips};
use mix::MixSampler;
use mix::grouped::GroupedMixSampler;
use nodes::NodeSampler;
use shard::{ContiguousBatches, GlobalBatchSplit, shard_range};
use shuffled_index::ShuffledIndex;
use torch::TorchSampler;

/// Largest number of copies of videos in a weighted epoch, where they must be listed: 64 MiB.
const MAX_LISTED_COPIES: u128 = 8 << 20;

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
/// The batches of a rank are positions in an order of clips, assigned in one of two ways:
///
/// - All ranks share one order of all clips and split each global batch ([`GlobalBatchSplit`]), so
///   a different number of ranks gives the same global batches. With `num_nodes`, this holds for
///   the ranks of a machine.
/// - Each rank has its own list, cut into batches ([`ContiguousBatches`]): with `stick_to_shard`
///   the order of its [`shard_range`] of the dataset, with [`ClipOrder::Torch`] and
///   [`ClipOrder::Dali`] the order of that library. All lists have the length of the longest rank's
///   list (with [`LastBatchPolicy::Drop`], except for [`ClipOrder::Dali`], of the shortest). With
///   `stick_to_shard` a shorter list is padded from its own beginning, otherwise as that library
///   does.
#[derive(Debug)]
pub struct BatchSampler {
    config: BatchSamplerConfig,
    strategy: ShardingStrategy,
}

/// How positions in the order become batches.
#[derive(Debug)]
enum ShardingStrategy {
    GlobalBatches(GlobalBatchSplit),
    Nodes(NodeSampler),
    Grouped(GlobalBatchSplit, GroupedSampler),
    Weighted(GlobalBatchSplit, GroupedSampler),
    PerRank(ContiguousBatches),
    Mix(GlobalBatchSplit, MixSampler),
    GroupedMix(GlobalBatchSplit, GroupedMixSampler),
    Torch(TorchSampler),
    Dali(DaliSampler),
}

impl BatchSampler {
    /// Checks the configuration and prepares what all epochs share.
    pub fn new(config: BatchSamplerConfig) -> Result<Self> {
        config.check()?;
        let &BatchSamplerConfig {
            num_clips,
            num_shards,
            batch_size,
            last_batch,
            ..
        } = &config;
        let split = |num_clips| GlobalBatchSplit {
            num_clips,
            batch_size,
            num_shards,
            last_batch,
        };
        let consumers = Consumers {
            num_shards,
            num_workers: config.num_workers,
            batch_size,
        };
        let strategy = match (config.clip_order, &config.mix) {
            (ClipOrder::Torch, _) => ShardingStrategy::Torch(TorchSampler::new(&config)?),
            (ClipOrder::Dali, _) => ShardingStrategy::Dali(DaliSampler::new(&config)?),
            (ClipOrder::Framespool, Some(mix)) => match (config.shuffle, &config.video_clips) {
                (Shuffle::Grouped(options), Some(clips)) => {
                    let grouped = GroupedConfig::derive(options, clips, consumers);
                    let sampler = GroupedMixSampler::new(mix, clips, grouped, config.seed)?;
                    if sampler.is_ungrouped() {
                        ShardingStrategy::Mix(split(mix.clips_per_epoch()), MixSampler::new(mix)?)
                    } else {
                        ShardingStrategy::GroupedMix(split(mix.clips_per_epoch()), sampler)
                    }
                }
                _ => ShardingStrategy::Mix(split(mix.clips_per_epoch()), MixSampler::new(mix)?),
            },
            (ClipOrder::Framespool, None) if config.num_nodes > 1 => {
                ShardingStrategy::Nodes(NodeSampler::new(&config)?)
            }
            (ClipOrder::Framespool, None) if config.stick_to_shard => {
                let ranks = u64::from(num_shards);
                let length = match last_batch {
                    LastBatchPolicy::Drop => num_clips / ranks,
                    LastBatchPolicy::Partial | LastBatchPolicy::Fill => num_clips.div_ceil(ranks),
                };
                ShardingStrategy::PerRank(ContiguousBatches::new(length, batch_size, last_batch))
            }
            (ClipOrder::Framespool, None) => match (config.shuffle, &config.video_clips) {
                (shuffle, _) if config.weights.is_some() => weighted(&config, shuffle, consumers)?,
                (Shuffle::Grouped(options), Some(clips)) => {
                    let grouped = GroupedConfig::derive(options, clips, consumers);
                    let shuffle = GroupedShuffle::new(clips.clone(), grouped)?;
                    let sampler = GroupedSampler::new(shuffle, grouped, config.seed);
                    if sampler.is_ungrouped() {
                        ShardingStrategy::GlobalBatches(split(num_clips))
                    } else {
                        ShardingStrategy::Grouped(split(num_clips), sampler)
                    }
                }
                _ => ShardingStrategy::GlobalBatches(split(num_clips)),
            },
        };
        Ok(Self { config, strategy })
    }

    /// The configuration of this batch sampler.
    pub fn config(&self) -> &BatchSamplerConfig {
        &self.config
    }

    /// The parameters of the grouped shuffle; `None` if the clips are not grouped.
    pub fn grouped(&self) -> Option<GroupedConfig> {
        match &self.strategy {
            ShardingStrategy::Grouped(_, sampler) => Some(sampler.config),
            ShardingStrategy::GroupedMix(_, sampler) => Some(sampler.config),
            ShardingStrategy::Nodes(sampler) => sampler.grouped(),
            _ => None,
        }
    }

    /// The configuration, with the parameters of the grouped shuffle that it left open.
    pub fn resolved_config(&self) -> BatchSamplerConfig {
        let mut config = self.config.clone();
        if let (Shuffle::Grouped(options), Some(grouped)) = (&mut config.shuffle, self.grouped()) {
            options.num_streams = Some(grouped.num_streams);
            options.block_size = Some(grouped.block_size);
            options.max_chunk = grouped.max_chunk;
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
        match &self.strategy {
            ShardingStrategy::Grouped(_, sampler) | ShardingStrategy::Weighted(_, sampler) => {
                sampler.prepare(epoch);
            }
            ShardingStrategy::Nodes(sampler) => sampler.prepare_epoch(epoch),
            _ => {}
        }
    }

    /// Batches per epoch of this worker; the same on all ranks and in all epochs.
    pub fn len_batches(&self) -> u64 {
        let BatchSamplerConfig {
            worker_id,
            num_workers,
            ..
        } = self.config;
        self.rank_len()
            .0
            .saturating_sub(u64::from(worker_id))
            .div_ceil(u64::from(num_workers.max(1)))
    }

    /// Slots per epoch of this worker, including padding and repeats; the same on all ranks and in
    /// all epochs.
    pub fn num_samples(&self) -> u64 {
        let (batches, slots) = self.rank_len();
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
    ///
    /// With [`ClipOrder::Torch`] the first call for an epoch shuffles the whole epoch. With
    /// [`ClipOrder::Dali`] and a shuffle buffer, batches are cheap in ascending order. Concurrent
    /// calls from other threads block in these two cases.
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
        match &self.strategy {
            ShardingStrategy::GlobalBatches(split) => {
                let mut shuffled = self.shuffled_index(epoch, 0, 0..self.config.num_clips);
                self.rank_clips(split, batch, |at| (shuffled.clip(at), 0))
            }
            ShardingStrategy::Nodes(sampler) => sampler.batch(epoch, batch),
            ShardingStrategy::Grouped(split, sampler) => {
                let Some((clips, positions)) = self.strided_positions(split, batch) else {
                    return Vec::new();
                };
                let slot = |n, clip, occurrence| SampledClip {
                    clip,
                    occurrence,
                    repeat: 0,
                    padding: n as u64 >= clips,
                };
                sampler.clips(epoch, positions, slot)
            }
            ShardingStrategy::Weighted(split, sampler) => self.rank_clips(split, batch, |at| {
                sampler.clips(epoch, std::iter::once(at), |_, clip, occurrence| {
                    (clip, occurrence)
                })[0]
            }),
            ShardingStrategy::GroupedMix(split, sampler) => {
                let Some((clips, positions)) = self.strided_positions(split, batch) else {
                    return Vec::new();
                };
                let slot = |n, clip, occurrence| SampledClip {
                    clip,
                    occurrence,
                    repeat: 0,
                    padding: n as u64 >= clips,
                };
                sampler.clips(epoch, positions, slot)
            }
            ShardingStrategy::Mix(split, mixed) => {
                let mut draws = mixed.epoch(self.config.seed, epoch);
                self.rank_clips(split, batch, |at| draws.clip(at))
            }
            ShardingStrategy::PerRank(chunks) => {
                let BatchSamplerConfig {
                    num_clips,
                    num_shards,
                    shard_id,
                    ..
                } = self.config;
                let own = shard_range(num_clips, num_shards, shard_id);
                let length = own.end - own.start;
                let mut shuffled = self.shuffled_index(epoch, shard_id, own);
                let slot = |at| SampledClip {
                    clip: shuffled.clip(at),
                    occurrence: 0,
                    repeat: 0,
                    padding: at >= length,
                };
                chunks
                    .positions(batch)
                    .map_or_else(Vec::new, |own| own.map(slot).collect())
            }
            ShardingStrategy::Torch(torch) => torch.batch(epoch, batch),
            ShardingStrategy::Dali(dali) => dali.batch(epoch, batch),
        }
    }

    /// The number of real clips of this rank in a global batch, and the positions of these and of
    /// the padding. Rank r has the positions that leave the remainder r: all places of its own
    /// streams.
    fn strided_positions(
        &self,
        split: &GlobalBatchSplit,
        batch: u64,
    ) -> Option<(u64, impl Iterator<Item = u64> + use<>)> {
        let BatchSamplerConfig {
            shard_id,
            num_shards,
            batch_size,
            ..
        } = self.config;
        let share = split.rank_slice(batch, shard_id)?;
        let ranks = u64::from(num_shards);
        let first = batch * u64::from(batch_size) * ranks + u64::from(shard_id);
        let clips = (0..share.clips).map(move |n| first + n * ranks);
        Some((
            share.clips,
            clips.chain(share.padding_first..share.padding_first + share.padding),
        ))
    }

    /// This rank's share of a global batch; `clip` returns the clip and its occurrence at a
    /// position.
    fn rank_clips(
        &self,
        split: &GlobalBatchSplit,
        batch: u64,
        mut clip: impl FnMut(u64) -> (u64, u32),
    ) -> Vec<SampledClip> {
        let Some(share) = split.rank_slice(batch, self.config.shard_id) else {
            return Vec::new();
        };
        let clips = (share.first..share.first + share.clips).map(|at| (at, false));
        let padding =
            (share.padding_first..share.padding_first + share.padding).map(|at| (at, true));
        let slot = |(at, padding)| {
            let (clip, occurrence) = clip(at);
            SampledClip {
                clip,
                occurrence,
                repeat: 0,
                padding,
            }
        };
        clips.chain(padding).map(slot).collect()
    }

    /// The order of a range of the dataset. `shard` selects the random stream: the rank if each
    /// rank shuffles its own range, 0 if all ranks share the order.
    fn shuffled_index(&self, epoch: u64, shard: u32, clips: std::ops::Range<u64>) -> ShuffledIndex {
        let key = RngKey {
            seed: self.config.seed,
            epoch,
            clip: 0,
            occurrence: shard.into(),
        };
        ShuffledIndex::new(self.config.shuffle, key, clips)
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

    /// Number of batches and slots of all workers of this rank.
    fn rank_len(&self) -> (u64, u64) {
        let split = |split: &GlobalBatchSplit| (split.len_batches(), split.num_samples());
        let chunks = |chunks: &ContiguousBatches| (chunks.len_batches(), chunks.num_samples());
        match &self.strategy {
            ShardingStrategy::GlobalBatches(shared)
            | ShardingStrategy::Grouped(shared, _)
            | ShardingStrategy::Weighted(shared, _)
            | ShardingStrategy::GroupedMix(shared, _)
            | ShardingStrategy::Mix(shared, _) => split(shared),
            ShardingStrategy::Nodes(sampler) => split(sampler.split()),
            ShardingStrategy::PerRank(own) => chunks(own),
            ShardingStrategy::Torch(torch) => chunks(torch.batches()),
            ShardingStrategy::Dali(dali) => chunks(dali.batches()),
        }
    }
}

/// Videos, or with a full shuffle clips, that come as often as their weights call for.
fn weighted(
    config: &BatchSamplerConfig,
    shuffle: Shuffle,
    consumers: Consumers,
) -> Result<ShardingStrategy> {
    let Some(weights) = &config.weights else {
        unreachable!("called with weights")
    };
    let clips = config.videos();
    let &BatchSamplerConfig {
        num_clips,
        num_shards,
        batch_size,
        last_batch,
        seed,
        ..
    } = config;
    let num_clips = weights.epoch_clips.unwrap_or(num_clips);
    if let (Shuffle::Grouped(_), VideoClips::Offsets(ends)) = (shuffle, &clips) {
        // Copies of videos of different lengths are listed for each epoch.
        let copies =
            u128::from(num_clips) * ends.len() as u128 / u128::from(clips.num_clips().max(1));
        if copies > MAX_LISTED_COPIES {
            return invalid_argument(format!(
                "epoch_clips={num_clips} are about {copies} copies of videos of different lengths, of which an epoch may \
                 have {MAX_LISTED_COPIES}; use fewer epoch_clips, or shuffle=\"full\""
            ));
        }
    }
    let split = GlobalBatchSplit {
        num_clips,
        batch_size,
        num_shards,
        last_batch,
    };
    if let Shuffle::Grouped(options) = shuffle {
        let videos = WeightedVideos::new(clips.clone(), weights, Unit::Video)?;
        let grouped = GroupedConfig::derive_weighted(options, &clips, consumers, Some(&videos));
        let shuffle = GroupedShuffle::weighted(clips.clone(), grouped, videos)?;
        if !shuffle.is_ungrouped() {
            return Ok(ShardingStrategy::Grouped(
                split,
                GroupedSampler::new(shuffle, grouped, seed),
            ));
        }
    }
    // A full shuffle is one stream of chunks of one clip.
    let single = GroupedConfig {
        num_streams: 1,
        block_size: 0,
        max_chunk: 1,
    };
    let each = VideoClips::Equal {
        videos: clips.num_clips(),
        clips: 1,
    };
    let videos = WeightedVideos::new(clips, weights, Unit::Clip)?;
    let shuffle = GroupedShuffle::weighted(each, single, videos)?;
    Ok(ShardingStrategy::Weighted(
        split,
        GroupedSampler::new(shuffle, single, seed),
    ))
}

#[cfg(test)]
mod tests;
