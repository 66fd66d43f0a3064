//! In: number of clips, seed, epoch, shard and batch size. Out: which clips this rank delivers in which batch.
//! Any batch of any epoch at once, from a handful of integers; orders of other libraries are replayed, on numbers only.
//! Never: depends on anything but these numbers; what is kept between calls only saves time.

pub mod config;
pub mod dali;
pub mod local;
pub mod mix;
pub mod permutation;
pub mod places;
pub mod quality;
pub mod rng;
pub mod shard;
pub mod torch;

use crate::error::Result;

pub use config::{Kind, LastBatch, OrderConfig, Shuffle};
pub use mix::Mix;

use dali::Dali;
use mix::Mixed;
use places::Places;
use rng::Key;
use shard::{stretch, Chunks, Split};
use torch::Torch;

/// One clip of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Number of the clip in the dataset.
    pub clip: u64,
    /// Which time in this epoch it comes, from 0, so that a clip that comes again is cropped anew. With a [`Mix`] it is
    /// the pass over its dataset or, with replacement, the number of the draw.
    pub visit: u32,
    /// It only makes ranks equal or fills a batch; this clip is also delivered as a real one.
    pub padding: bool,
}

/// The sequence in which one rank delivers clips.
///
/// Over all ranks and their workers, the slots that are not padding hold every clip exactly once per epoch (with
/// [`LastBatch::Drop`] at most once, with a [`Mix`] by weight), and all ranks have the same number of batches, of the
/// same lengths.
///
/// A rank's batches are made of places in an order, and which these are is one of two things:
///
/// - all ranks share the order of all clips, global batch by global batch ([`Split`]), so that another number of ranks
///   gives the same global batches;
/// - each rank has a list of its own, cut into batches ([`Chunks`]): with `stick_to_shard` the order of its [`stretch`]
///   of the dataset, with [`Kind::Torch`] and [`Kind::Dali`] what they say. Lists are as long as the longest rank's has
///   clips (with [`LastBatch::Drop`] the shortest rank's); what a list lacks is taken from its own head.
#[derive(Debug)]
pub struct Order {
    config: OrderConfig,
    road: Road,
}

/// How places become batches.
#[derive(Debug)]
enum Road {
    Shared(Split),
    Own(Chunks),
    Mixed(Split, Mixed),
    Torch(Torch),
    Dali(Dali),
}

impl Order {
    /// Checks the configuration, and makes ready what is shared by all epochs.
    pub fn new(config: OrderConfig) -> Result<Self> {
        config.check()?;
        let &OrderConfig { num_clips, num_shards, batch_size, last_batch, .. } = &config;
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

    /// What it was made of.
    pub fn config(&self) -> &OrderConfig {
        &self.config
    }

    /// Batches per epoch of this worker, the same on all ranks and in all epochs.
    pub fn len_batches(&self) -> u64 {
        let OrderConfig { worker_id, num_workers, .. } = self.config;
        self.rank_len().0.saturating_sub(u64::from(worker_id)).div_ceil(u64::from(num_workers.max(1)))
    }

    /// Slots per epoch of this worker, padding included; the same on all ranks and in all epochs.
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
    /// With [`Kind::Torch`] the first call for an epoch shuffles it; with [`Kind::Dali`] and a buffer, batches are
    /// cheap in ascending order. Other threads wait meanwhile.
    pub fn batch(&self, epoch: u64, batch: u64) -> Vec<Slot> {
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
                let OrderConfig { num_clips, num_shards, shard_id, .. } = self.config;
                let own = stretch(num_clips, num_shards, shard_id);
                let length = own.end - own.start;
                let mut places = self.places(epoch, shard_id, own);
                let slot = |at| Slot { clip: places.clip(at), visit: 0, padding: at >= length };
                chunks.places(batch).map_or_else(Vec::new, |own| own.map(slot).collect())
            }
            Road::Torch(torch) => torch.batch(epoch, batch),
            Road::Dali(dali) => dali.batch(epoch, batch),
        }
    }

    /// What this rank takes of a global batch, where `clip` tells the clip and the visit at a place.
    fn shared(&self, split: &Split, batch: u64, mut clip: impl FnMut(u64) -> (u64, u32)) -> Vec<Slot> {
        let Some(share) = split.share(batch, self.config.shard_id) else { return Vec::new() };
        let clips = (share.first..share.first + share.clips).map(|at| (at, false));
        let padding = (share.padding_first..share.padding_first + share.padding).map(|at| (at, true));
        let slot = |(at, padding)| {
            let (clip, visit) = clip(at);
            Slot { clip, visit, padding }
        };
        clips.chain(padding).map(slot).collect()
    }

    /// The order of a stretch of the dataset, which `shard` shuffles by itself; 0 where all ranks do together.
    fn places(&self, epoch: u64, shard: u32, clips: std::ops::Range<u64>) -> Places {
        let key = Key { seed: self.config.seed, epoch, clip: 0, visit: shard };
        Places::new(self.config.shuffle, key, clips)
    }

    /// Number among the rank's batches of a batch of this worker.
    fn rank_batch(&self, batch: u64) -> Option<u64> {
        let OrderConfig { worker_id, num_workers, .. } = self.config;
        batch.checked_mul(u64::from(num_workers))?.checked_add(u64::from(worker_id))
    }

    /// Batches and slots of all workers of this rank.
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
