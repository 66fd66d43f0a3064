//! The order that a configuration calls for.

use super::config::{BatchSamplerConfig, Shuffle};
use super::draws::Draws;
use super::grouped_shuffle::weighted::{Unit, WeightedVideos};
use super::grouped_shuffle::{
    Consumers, GroupedOptions, GroupedSampler, GroupedShuffle, VideoClips,
};
use super::mix::MixSampler;
use super::mix::grouped::GroupedMixSampler;
use super::nodes::NodeOrder;
use super::order::{GroupedConfig, Order};
use super::shuffled_index::ShuffledRange;
use crate::error::{Result, invalid_argument};

/// Largest number of copies of videos in a weighted epoch, where they must be listed: 64 MiB.
const MAX_LISTED_COPIES: u128 = 8 << 20;

/// The order that a valid configuration calls for.
pub(super) fn of_config(config: &BatchSamplerConfig) -> Result<Box<dyn Order>> {
    if config.num_nodes > 1 {
        return Ok(Box::new(NodeOrder::new(config, &of_config)?));
    }
    let draws = Draws::of(config.mix.as_ref(), config.weights.as_ref());
    if let (Shuffle::Grouped(options), Some(clips)) = (config.shuffle, &config.video_clips)
        && let Some(grouped) = grouped(config, options, clips, draws)?
    {
        return Ok(grouped);
    }
    Ok(match draws {
        Draws::Once => Box::new(ShuffledRange::new(config)),
        Draws::Datasets(mix) => Box::new(MixSampler::new(mix, config.seed)?),
        Draws::Videos(weights) => {
            // A full shuffle is one stream of chunks of one clip.
            let videos = WeightedVideos::new(config.videos(), weights, Unit::Clip)?;
            let each = VideoClips::Equal {
                videos: config.num_clips,
                clips: 1,
            };
            let single = GroupedConfig {
                num_streams: 1,
                block_size: 0,
                max_chunk: 1,
            };
            let shuffle = GroupedShuffle::with_weights(each, single, Some(videos))?;
            Box::new(GroupedSampler::new(shuffle, single, config.seed))
        }
    })
}

/// A grouped shuffle; `None` if every chunk is a single clip, which a full shuffle mixes better at
/// the same cost.
fn grouped(
    config: &BatchSamplerConfig,
    options: GroupedOptions,
    clips: &VideoClips,
    draws: Draws<'_>,
) -> Result<Option<Box<dyn Order>>> {
    let consumers = Consumers {
        num_shards: config.num_shards,
        num_workers: config.num_workers,
        batch_size: config.batch_size,
    };
    let weights = match draws {
        Draws::Once => None,
        Draws::Datasets(mix) => {
            let grouped = GroupedConfig::derive(options, clips, consumers);
            let sampler = GroupedMixSampler::new(mix, clips, grouped, config.seed)?;
            return Ok((!sampler.is_ungrouped()).then(|| Box::new(sampler) as _));
        }
        Draws::Videos(weights) => {
            check_copies(weights.epoch_clips.unwrap_or(config.num_clips), clips)?;
            Some(WeightedVideos::new(clips.clone(), weights, Unit::Video)?)
        }
    };
    let grouped = GroupedConfig::derive_weighted(options, clips, consumers, weights.as_ref());
    let shuffle = GroupedShuffle::with_weights(clips.clone(), grouped, weights)?;
    Ok((!shuffle.is_ungrouped())
        .then(|| Box::new(GroupedSampler::new(shuffle, grouped, config.seed)) as _))
}

/// Copies of videos of different lengths are listed for each epoch.
fn check_copies(epoch_clips: u64, clips: &VideoClips) -> Result<()> {
    let VideoClips::Offsets(ends) = clips else {
        return Ok(());
    };
    let copies =
        u128::from(epoch_clips) * ends.len() as u128 / u128::from(clips.num_clips().max(1));
    if copies > MAX_LISTED_COPIES {
        return invalid_argument(format!(
            "epoch_clips={epoch_clips} are about {copies} copies of videos of different lengths, of which an epoch may \
             have {MAX_LISTED_COPIES}; use fewer epoch_clips, or shuffle=\"full\""
        ));
    }
    Ok(())
}
