//! What an epoch draws from: each clip once, or groups of videos by weight.
//!
//! A group with a weight is a dataset of a [`MixConfig`] or a single video of a [`WeightConfig`].
//! Both are orders of their own, since each algorithm determines epochs of existing checkpoints,
//! and since they promise different things. A mix interleaves its groups, so every part of an epoch
//! has their shares, and needs memory for each group only ([`super::mix`]). Weights of videos choose
//! how many copies an epoch has of each, and the copies are shuffled, so the shares hold for the
//! epoch, for millions of groups ([`super::grouped_shuffle::weighted`]).

use super::config::{BatchSamplerConfig, Shuffle};
use super::grouped_shuffle::WeightConfig;
use super::mix::MixConfig;
use crate::error::{Result, invalid_argument};

/// The source of the clips of an epoch.
#[derive(Clone, Copy, Debug)]
pub(super) enum Draws<'a> {
    Once,
    Datasets(&'a MixConfig),
    Videos(&'a WeightConfig),
}

impl<'a> Draws<'a> {
    /// A mix and weights exclude each other.
    pub fn of(config: &'a BatchSamplerConfig) -> Self {
        match (&config.mix, &config.weights) {
            (Some(mix), _) => Self::Datasets(mix),
            (None, Some(weights)) => Self::Videos(weights),
            (None, None) => Self::Once,
        }
    }

    /// Rejects what no weights of groups can be combined with.
    pub fn check(&self, config: &BatchSamplerConfig) -> Result<()> {
        let (what, sources, why) = match self {
            Self::Once => return Ok(()),
            Self::Datasets(_) => (
                "a mix",
                "datasets",
                "its datasets take turns in a random order",
            ),
            Self::Videos(_) => ("weights", "videos", "other orders deliver each clip once"),
        };
        if !matches!(config.shuffle, Shuffle::Full | Shuffle::Grouped(_)) {
            return invalid_argument(format!(
                "shuffle must be \"full\" or \"grouped\" with {what}; {why}"
            ));
        }
        if config.stick_to_shard {
            return invalid_argument(format!(
                "stick_to_shard must be False with {what}, got True; all ranks draw from all {sources}"
            ));
        }
        match self {
            Self::Once => Ok(()),
            Self::Datasets(mix) => {
                if mix.replacement && matches!(config.shuffle, Shuffle::Grouped(_)) {
                    return invalid_argument(
                        "shuffle must be \"full\" with replacement=True, got \"grouped\"; draws with replacement are independent",
                    );
                }
                mix.check(config.num_clips)
            }
            Self::Videos(weights) => {
                let videos = config.videos();
                config.check_video_clips(&videos)?;
                weights.check(videos.num_videos())
            }
        }
    }
}
