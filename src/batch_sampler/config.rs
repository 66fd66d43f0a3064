//! Configuration of a batch sampler and its validation.
//! Each rejected combination gives an error that says what to change.

use serde::Deserialize;

use super::draws::Draws;
use super::grouped_shuffle::{GroupedOptions, VideoClips, WeightConfig};
use super::mix::MixConfig;
use crate::error::{Result, invalid_argument};

/// How the clips are shuffled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shuffle {
    /// Not shuffled: dataset order.
    #[default]
    Off,
    /// A local shuffle that differs in every epoch and moves each clip a limited distance; see
    /// [`super::buffer_shuffle`].
    Buffer {
        /// Size of the shuffle buffer, in clips.
        initial_fill: u32,
    },
    /// A permutation of all clips that differs in every epoch and is the same on all ranks.
    Full,
    /// A shuffle of all videos that keeps the clips of a video on one rank and within a window; see
    /// [`super::grouped_shuffle`]. If every video has one clip it is [`Self::Full`].
    Grouped(GroupedOptions),
}

/// How to handle the last batch; see [`super::split`] for the exact rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LastBatchPolicy {
    /// The last batch may be shorter.
    #[default]
    Partial,
    /// Only full batches: the remaining clips, fewer than `batch_size * num_shards`, are skipped in
    /// this epoch.
    Drop,
    /// The last batch is filled to `batch_size` with clips from the beginning of the order.
    Fill,
}

/// The parameters of a batch sampler.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchSamplerConfig {
    /// Number of clips of the whole dataset; of groups of clips, if `clips_per_group` is greater
    /// than 1.
    pub num_clips: u64,
    /// How to shuffle.
    pub shuffle: Shuffle,
    /// Seed of the shuffle.
    pub seed: u64,
    /// Index of this rank.
    pub shard_id: u32,
    /// Number of ranks.
    pub num_shards: u32,
    /// Whether each rank reads only its own shard of the dataset.
    pub stick_to_shard: bool,
    /// Number of parts into which the videos are divided for all epochs, one for each machine. The
    /// ranks of a machine are consecutive, and equally many.
    pub num_nodes: u32,
    /// Index of this worker of the rank.
    pub worker_id: u32,
    /// Number of workers of each rank. Worker `w` delivers the rank's batches `w`, `w +
    /// num_workers`, and so on, so that taking one batch from each worker in turn gives the order
    /// of a single worker.
    pub num_workers: u32,
    /// Clips per batch of one rank.
    pub batch_size: u32,
    /// How many times each clip of a batch is delivered, with the same frames and other random
    /// transforms.
    pub repeats: u32,
    /// Number of successive clips that are one unit of the order, such as all clips of a video.
    pub clips_per_group: u32,
    /// How to handle the last batch.
    pub last_batch: LastBatchPolicy,
    /// Datasets to mix by weight.
    pub mix: Option<MixConfig>,
    /// The clips of each video, for [`Shuffle::Grouped`], for weights and for several machines.
    /// Without them, every clip is a video of its own.
    pub video_clips: Option<VideoClips>,
    /// The weight of each video; of each clip, if `video_clips` is not given.
    pub weights: Option<WeightConfig>,
}

impl Default for BatchSamplerConfig {
    /// No clips, no shuffling, one rank, one worker, batches of one clip.
    fn default() -> Self {
        Self {
            num_clips: 0,
            shuffle: Shuffle::default(),
            seed: 0,
            shard_id: 0,
            num_shards: 1,
            stick_to_shard: false,
            num_nodes: 1,
            worker_id: 0,
            num_workers: 1,
            batch_size: 1,
            repeats: 1,
            clips_per_group: 1,
            last_batch: LastBatchPolicy::default(),
            mix: None,
            video_clips: None,
            weights: None,
        }
    }
}

impl BatchSamplerConfig {
    /// Rejects configurations that no batch sampler supports.
    pub(super) fn check(&self) -> Result<()> {
        self.check_ranges()?;
        self.check_combinations()
    }

    fn check_ranges(&self) -> Result<()> {
        let &Self {
            shard_id,
            num_shards,
            worker_id,
            num_workers,
            ..
        } = self;
        if self.batch_size == 0 {
            return invalid_argument(
                "batch_size must be at least 1, got 0; it is the number of clips per batch",
            );
        }
        if self.repeats == 0 {
            return invalid_argument(
                "repeats must be at least 1, got 0; 1 delivers each clip once",
            );
        }
        if self.clips_per_group == 0 {
            return invalid_argument(
                "clips_per_group must be at least 1, got 0; 1 makes each clip a unit of its own",
            );
        }
        if self
            .num_clips
            .checked_mul(self.clips_per_group.into())
            .is_none()
        {
            return invalid_argument(format!(
                "{} groups of {} clips are more clips than can be numbered",
                self.num_clips, self.clips_per_group
            ));
        }
        if num_shards == 0 {
            return invalid_argument(
                "num_shards must be at least 1, got 0; use 1 when there is one rank",
            );
        }
        if shard_id >= num_shards {
            return invalid_argument(format!(
                "shard_id must be below num_shards={num_shards}, got {shard_id}; ranks count from 0"
            ));
        }
        if self.num_nodes == 0 || !num_shards.is_multiple_of(self.num_nodes) {
            return invalid_argument(format!(
                "num_nodes must divide num_shards={num_shards}, got {}; it is the number of machines, each with as many ranks",
                self.num_nodes
            ));
        }
        if num_workers == 0 {
            return invalid_argument(
                "num_workers must be at least 1, got 0; use 1 when one worker makes all batches",
            );
        }
        if worker_id >= num_workers {
            return invalid_argument(format!(
                "worker_id must be below num_workers={num_workers}, got {worker_id}; workers count from 0"
            ));
        }
        if self.shuffle == (Shuffle::Buffer { initial_fill: 0 }) {
            return invalid_argument(
                "initial_fill must be at least 1, got 0; it is the number of clips in the shuffle buffer",
            );
        }
        Ok(())
    }

    fn check_combinations(&self) -> Result<()> {
        let &Self {
            num_clips,
            num_shards,
            ..
        } = self;
        if matches!(self.shuffle, Shuffle::Grouped(_)) {
            self.check_grouped()?;
        }
        if self.mix.is_some() && self.weights.is_some() {
            return invalid_argument(
                "weights cannot be combined with a mix; give each dataset of the mix a weight, or each video one",
            );
        }
        if self.num_nodes > 1 {
            self.check_nodes()?;
        }
        if self.stick_to_shard && num_clips < u64::from(num_shards) {
            return invalid_argument(format!(
                "num_clips must be at least num_shards={num_shards} with stick_to_shard, got {num_clips}; every rank \
                 needs at least one clip, use fewer ranks"
            ));
        }
        self.check_draws(Draws::of(self.mix.as_ref(), self.weights.as_ref()))
    }
}

impl BatchSamplerConfig {
    /// The clips of each video; without them, every clip is a video of its own.
    pub(super) fn videos(&self) -> VideoClips {
        self.video_clips.clone().unwrap_or(VideoClips::Equal {
            videos: self.num_clips,
            clips: 1,
        })
    }

    fn check_nodes(&self) -> Result<()> {
        let refused = |reason: &str| {
            invalid_argument(format!(
                "num_nodes must be 1 {reason}, got {}",
                self.num_nodes
            ))
        };
        if self.stick_to_shard {
            return refused(
                "with stick_to_shard=True, which keeps the videos of each rank, and so of each machine",
            );
        }
        if self.mix.is_some() || self.weights.is_some() {
            return refused("with a mix or weights, which are drawn from all videos");
        }
        self.check_video_clips(&self.videos())
    }

    fn check_grouped(&self) -> Result<()> {
        if self.stick_to_shard {
            return invalid_argument(
                "stick_to_shard must be False with shuffle=\"grouped\", got True; each video is on one rank anyway",
            );
        }
        let Some(clips) = &self.video_clips else {
            return invalid_argument(
                "clips_per_video must be given with shuffle=\"grouped\", got None; it states which clips are of one video",
            );
        };
        self.check_video_clips(clips)
    }

    pub(super) fn check_video_clips(&self, clips: &VideoClips) -> Result<()> {
        if clips.num_clips() != self.num_clips {
            return invalid_argument(format!(
                "clips_per_video must add up to num_clips={}, got {}; give the number of each video",
                self.num_clips,
                clips.num_clips()
            ));
        }
        Ok(())
    }

    /// Rejects what no weights of groups can be combined with.
    fn check_draws(&self, draws: Draws<'_>) -> Result<()> {
        let (what, sources, why) = match draws {
            Draws::Once => return Ok(()),
            Draws::Datasets(_) => (
                "a mix",
                "datasets",
                "its datasets take turns in a random order",
            ),
            Draws::Videos(_) => ("weights", "videos", "other orders deliver each clip once"),
        };
        if !matches!(self.shuffle, Shuffle::Full | Shuffle::Grouped(_)) {
            return invalid_argument(format!(
                "shuffle must be \"full\" or \"grouped\" with {what}; {why}"
            ));
        }
        if self.stick_to_shard {
            return invalid_argument(format!(
                "stick_to_shard must be False with {what}, got True; all ranks draw from all {sources}"
            ));
        }
        match draws {
            Draws::Once => Ok(()),
            Draws::Datasets(mix) => {
                if mix.replacement && matches!(self.shuffle, Shuffle::Grouped(_)) {
                    return invalid_argument(
                        "shuffle must be \"full\" with replacement=True, got \"grouped\"; draws with replacement are independent",
                    );
                }
                mix.check(self.num_clips)
            }
            Draws::Videos(weights) => {
                let videos = self.videos();
                self.check_video_clips(&videos)?;
                weights.check(videos.num_videos())
            }
        }
    }
}
