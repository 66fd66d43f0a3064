//! What an epoch draws from: each clip once, or groups of videos by weight.
//!
//! A group with a weight is a dataset of a [`MixConfig`] or a single video of a [`WeightConfig`].
//! Both are orders of their own, since each algorithm determines epochs of existing checkpoints,
//! and since they promise different things. A mix interleaves its groups, so every part of an epoch
//! has their shares, and needs memory for each group only ([`super::mix`]). Weights of videos choose
//! how many copies an epoch has of each, and the copies are shuffled, so the shares hold for the
//! epoch, for millions of groups ([`super::grouped_shuffle::weighted`]).

use super::grouped_shuffle::WeightConfig;
use super::mix::MixConfig;

/// The source of the clips of an epoch.
#[derive(Clone, Copy, Debug)]
pub(super) enum Draws<'a> {
    Once,
    Datasets(&'a MixConfig),
    Videos(&'a WeightConfig),
}

impl<'a> Draws<'a> {
    /// A mix and weights exclude each other.
    pub(super) fn of(mix: Option<&'a MixConfig>, weights: Option<&'a WeightConfig>) -> Self {
        match (mix, weights) {
            (Some(mix), _) => Self::Datasets(mix),
            (None, Some(weights)) => Self::Videos(weights),
            (None, None) => Self::Once,
        }
    }
}
