//! Maps (epoch, batch number) to the clips that one rank delivers in that batch, with random access.
//! The result is a pure function of the configuration, epoch and batch number; state kept between calls is
//! only a cache.

pub mod buffer_shuffle;
pub mod config;
pub mod dali;
pub mod mix;
pub mod permutation;
pub mod rng;
pub mod shard;
pub mod shuffle_quality;
pub mod shuffled_index;
pub mod torch;

use crate::error::Result;

pub use config::{BatchSamplerConfig, Kind, LastBatch, Shuffle};
pub use mix::Mix;

use dali::Dali;
use mix::Mixed;
use rng::Key;
use shard::{stretch, Chunks, Split};
use shuffled_index::ShuffledIndex;
use torch::Torch;

/// One clip of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SampledClip {
    /// Index of the clip in the dataset.
    pub clip: u64,
    /// How many times the clip was delivered earlier in this epoch, so that a repeated clip gets different
    /// random crops. With a [`Mix`] it is the pass over its dataset or, with replacement, the number of the
    /// draw.
    pub occurrence: u32,
    /// Whether the clip only equalizes the ranks or fills a batch; the same clip is also delivered as a real
    /// one.
    pub padding: bool,
}

/// The sequence of batches that one rank delivers.
///
/// Over all ranks and their workers, the slots that are not padding hold every clip exactly once per epoch
/// (with [`LastBatch::Drop`] at most once, with a [`Mix`] by weight). All ranks have the same number of
/// batches, of the same lengths.
///
/// The batches of a rank are positions in an order of clips, assigned in one of two ways:
///
/// - All ranks share one order of all clips and split each global batch ([`Split`]), so a different number of
///   ranks gives the same global batches.
/// - Each rank has its own list, cut into batches ([`Chunks`]): with `stick_to_shard` the order of its
///   [`stretch`] of the dataset, with [`Kind::Torch`] and [`Kind::Dali`] the order of that library. All lists
///   have the length of the longest rank's list (with [`LastBatch::Drop`], except for [`Kind::Dali`], of the
///   shortest). With `stick_to_shard` a shorter list is padded from its own beginning, otherwise as that
///   library does.
#[derive(Debug)]
pub struct BatchSampler {
    config: BatchSamplerConfig,
    road: Road,
}

/// How positions in the order become batches.
#[derive(Debug)]
enum Road {
    Shared(Split),
    Own(Chunks),
    Mixed(Split, Mixed),
    Torch(Torch),
    Dali(Dali),
}

impl BatchSampler {
    /// Checks the configuration and prepares what all epochs share.
    pub fn new(config: BatchSamplerConfig) -> Result<Self> {
        config.check()?;
        let &BatchSamplerConfig { num_clips, num_shards, batch_size, last_batch, .. } = &config;
        let split = |num_clips| Split { num_clips, batch_size, num_shards, last_batch };
        let road = match (config.kind, &config.mix) {
            (Kind::Torch, _) => Road::Torch(Torch::new(&config)?),
            (Kind::Dali, _) => Road::Dali(Dali::new(&config)?),
            (Kind::Framespool, Some(mix)) => Road::Mixed(split(mix.places()), Mixed::new(mix)?),
            (Kind::Framespool, None) if config.stick_to_shard => {
                let ranks = u64::from(num_shards);
                let length = match last_batch {
                    LastBatch::Drop => num_clips / ranks,
                    LastBatch::Partial | LastBatch::Fill => num_clips.div_ceil(ranks),
                };
                Road::Own(Chunks::new(length, batch_size, last_batch))
            }
            (Kind::Framespool, None) => Road::Shared(split(num_clips)),
        };
        Ok(Self { config, road })
    }

    /// The configuration of this batch sampler.
    pub fn config(&self) -> &BatchSamplerConfig {
        &self.config
    }

    /// Batches per epoch of this worker; the same on all ranks and in all epochs.
    pub fn len_batches(&self) -> u64 {
        let BatchSamplerConfig { worker_id, num_workers, .. } = self.config;
        self.rank_len().0.saturating_sub(u64::from(worker_id)).div_ceil(u64::from(num_workers.max(1)))
    }

    /// Slots per epoch of this worker, including padding; the same on all ranks and in all epochs.
    pub fn len_slots(&self) -> u64 {
        let (batches, slots) = self.rank_len();
        let Some(last) = self.len_batches().checked_sub(1) else { return 0 };
        let each = u64::from(self.config.batch_size);
        let length =
            if self.rank_batch(last) == Some(batches - 1) { slots - (batches - 1) * each } else { each };
        last * each + length
    }

    /// The slots of batch `batch` of an epoch, real clips first. Empty past the last batch.
    ///
    /// With [`Kind::Torch`] the first call for an epoch shuffles the whole epoch. With [`Kind::Dali`] and a
    /// shuffle buffer, batches are cheap in ascending order. Concurrent calls from other threads block in
    /// these two cases.
    pub fn batch(&self, epoch: u64, batch: u64) -> Vec<SampledClip> {
        let Some(batch) = self.rank_batch(batch) else { return Vec::new() };
        match &self.road {
            Road::Shared(split) => {
                let mut places = self.places(epoch, 0, 0..self.config.num_clips);
                self.shared(split, batch, |at| (places.clip(at), 0))
            }
            Road::Mixed(split, mixed) => {
                let mut draws = mixed.epoch(self.config.seed, epoch);
                self.shared(split, batch, |at| draws.clip(at))
            }
            Road::Own(chunks) => {
                let BatchSamplerConfig { num_clips, num_shards, shard_id, .. } = self.config;
                let own = stretch(num_clips, num_shards, shard_id);
                let length = own.end - own.start;
                let mut places = self.places(epoch, shard_id, own);
                let slot = |at| SampledClip { clip: places.clip(at), occurrence: 0, padding: at >= length };
                chunks.places(batch).map_or_else(Vec::new, |own| own.map(slot).collect())
            }
            Road::Torch(torch) => torch.batch(epoch, batch),
            Road::Dali(dali) => dali.batch(epoch, batch),
        }
    }

    /// This rank's share of a global batch; `clip` returns the clip and its occurrence at a position.
    fn shared(&self, split: &Split, batch: u64, mut clip: impl FnMut(u64) -> (u64, u32)) -> Vec<SampledClip> {
        let Some(share) = split.share(batch, self.config.shard_id) else { return Vec::new() };
        let clips = (share.first..share.first + share.clips).map(|at| (at, false));
        let padding = (share.padding_first..share.padding_first + share.padding).map(|at| (at, true));
        let slot = |(at, padding)| {
            let (clip, occurrence) = clip(at);
            SampledClip { clip, occurrence, padding }
        };
        clips.chain(padding).map(slot).collect()
    }

    /// The order of a range of the dataset. `shard` selects the random stream: the rank if each rank shuffles
    /// its own range, 0 if all ranks share the order.
    fn places(&self, epoch: u64, shard: u32, clips: std::ops::Range<u64>) -> ShuffledIndex {
        let key = Key { seed: self.config.seed, epoch, clip: 0, occurrence: shard };
        ShuffledIndex::new(self.config.shuffle, key, clips)
    }

    /// Converts a batch number of this worker to a batch number of the rank.
    fn rank_batch(&self, batch: u64) -> Option<u64> {
        let BatchSamplerConfig { worker_id, num_workers, .. } = self.config;
        batch.checked_mul(u64::from(num_workers))?.checked_add(u64::from(worker_id))
    }

    /// Number of batches and slots of all workers of this rank.
    fn rank_len(&self) -> (u64, u64) {
        let split = |split: &Split| (split.len_batches(), split.len_slots());
        let chunks = |chunks: &Chunks| (chunks.len_batches(), chunks.len_slots());
        match &self.road {
            Road::Shared(shared) | Road::Mixed(shared, _) => split(shared),
            Road::Own(own) => chunks(own),
            Road::Torch(torch) => chunks(torch.chunks()),
            Road::Dali(dali) => chunks(dali.chunks()),
        }
    }
}

#[cfg(test)]
mod tests;
