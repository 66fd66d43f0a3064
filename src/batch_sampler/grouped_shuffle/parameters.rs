//! The parameters of a grouped shuffle, and how those that are left open follow from the others.

use serde::Deserialize;

use super::super::order::GroupedConfig;
use super::chunks::Chunks;
use super::video_clips::VideoClips;
use super::weighted::WeightedVideos;

/// Maximum number of places of a stream over which a chunk is spread: some multiples of it are held
/// in memory.
pub(super) const MAX_SPREAD: u64 = 1 << 18;

/// How to choose the parameters of a grouped shuffle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupedOptions {
    /// See [`GroupedConfig::num_streams`]; `None` derives it.
    pub num_streams: Option<u32>,
    /// See [`GroupedConfig::block_size`]; `None` derives it.
    pub block_size: Option<u64>,
    /// See [`GroupedConfig::max_chunk`].
    pub max_chunk: u32,
    /// Number of finished clips that one worker of a rank can hold before they are delivered.
    #[serde(skip_deserializing, default = "default_cached_clips")]
    pub cached_clips: u64,
}

/// Default of [`GroupedOptions::max_chunk`].
pub const DEFAULT_MAX_CHUNK: u32 = 64;

/// Default of [`GroupedOptions::cached_clips`]: 2 GiB of clips of 16 RGB frames of 224 x 224.
pub const DEFAULT_CACHED_CLIPS: u64 = (2 << 30) / (16 * 3 * 224 * 224);

fn default_cached_clips() -> u64 {
    DEFAULT_CACHED_CLIPS
}

impl Default for GroupedOptions {
    fn default() -> Self {
        Self {
            num_streams: None,
            block_size: None,
            max_chunk: DEFAULT_MAX_CHUNK,
            cached_clips: DEFAULT_CACHED_CLIPS,
        }
    }
}

impl GroupedOptions {
    /// Leaves nothing open: the shuffle has these parameters.
    pub(crate) fn fix(&mut self, grouped: GroupedConfig) {
        self.num_streams = Some(grouped.num_streams);
        self.block_size = Some(grouped.block_size);
        self.max_chunk = grouped.max_chunk;
    }
}

/// Who takes the clips of a grouped shuffle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consumers {
    /// Number of ranks.
    pub num_shards: u32,
    /// Number of workers of each rank.
    pub num_workers: u32,
    /// Clips per batch of one rank.
    pub batch_size: u32,
}

impl GroupedConfig {
    /// Derives what `options` leaves open, from the arguments alone.
    ///
    /// With `k` the mean length of the chunk of a clip, a rank holds about
    /// `(block_size / ranks) (k - 1) / 2k` clips. The block is chosen so that 0.8 of the cached clips suffice; the rest is
    /// for chunks that start at the same time. If all clips of a rank fit, its streams are shuffled
    /// fully. Each rank has up to eight streams, as far as they divide the batch, few enough that
    /// the chunks that start together fit (`streams * k <= cached_clips / 8`) and that few chunks
    /// are cut (16 chunks per stream).
    ///
    /// The workers of a rank have caches of their own. With as many streams as all workers of all
    /// ranks have clip slots in a batch, each slot of each worker has a stream of its own, so that
    /// no video is decoded by two workers. If that left less than two chunks per stream, workers
    /// share streams. A stream holds half of a chunk even if the chunk is not spread at all, so
    /// chunks are shortened until `streams * k` is at most 1.6 times the cached clips.
    pub fn derive(options: GroupedOptions, clips: &VideoClips, consumers: Consumers) -> Self {
        Self::derive_weighted(options, clips, consumers, None)
    }

    /// See [`Self::derive`]; with weights for videos, numbers of clips and chunks are those
    /// expected of an epoch.
    pub(in super::super) fn derive_weighted(
        options: GroupedOptions,
        clips: &VideoClips,
        consumers: Consumers,
        weights: Option<&WeightedVideos>,
    ) -> Self {
        let Consumers {
            num_shards,
            num_workers,
            batch_size,
        } = consumers;
        // The number of chunks, and the sum of the squares of their lengths.
        let chunks_of = |max_chunk| {
            let chunks = Chunks::new(clips.clone(), max_chunk);
            match weights {
                None => (chunks.num_chunks, chunks.sum_of_squares()),
                Some(weights) => chunks.expected(weights.expected_clips()),
            }
        };
        let (num_chunks, mut squares) = chunks_of(options.max_chunk);
        let epoch_clips = weights.map_or_else(|| clips.num_clips(), |weights| weights.epoch_clips);
        let num_clips = u128::from(epoch_clips);
        let cached =
            u128::from(options.cached_clips).saturating_mul(u128::from(num_workers.max(1)));
        let ranks = u128::from(num_shards.max(1));
        let num_streams = options.num_streams.unwrap_or_else(|| {
            let slots = num_shards
                .checked_mul(num_workers)
                .and_then(|n| n.checked_mul(batch_size));
            if let Some(slots) =
                slots.filter(|&n| num_workers > 1 && 2 * u64::from(n) <= num_chunks)
            {
                return slots;
            }
            let fits = |streams: u32| {
                batch_size.is_multiple_of(streams)
                    && 8 * u128::from(streams) * squares <= cached.saturating_mul(num_clips)
                    && 16 * ranks * u128::from(streams) <= u128::from(num_chunks)
            };
            let streams = [8, 4, 2]
                .into_iter()
                .find(|&streams| fits(streams))
                .unwrap_or(1);
            num_shards.max(1).saturating_mul(streams)
        });
        let mut max_chunk = options.max_chunk;
        if options.num_streams.is_none()
            && options.block_size.is_none()
            && cached.saturating_mul(ranks) < num_clips
        {
            let fitting = cached.saturating_mul(16 * ranks) / (10 * u128::from(num_streams.max(1)));
            if squares > fitting.saturating_mul(num_clips) {
                // At least 2: chunks of one clip would be a full shuffle.
                max_chunk = max_chunk.min(u32::try_from(fitting).unwrap_or(u32::MAX).max(2));
                squares = chunks_of(max_chunk).1;
            }
        }
        let block_size = options.block_size.unwrap_or_else(|| {
            let most = u128::from(MAX_SPREAD) * u128::from(num_streams);
            if cached.saturating_mul(ranks) >= num_clips && num_clips <= most {
                return epoch_clips.saturating_mul(2);
            }
            let block = match squares.checked_sub(num_clips) {
                None | Some(0) => num_clips,
                // 0.8 cached ranks 2k / (k - 1), where k = squares / num_clips.
                Some(shared) => {
                    cached.saturating_mul(16 * ranks).saturating_mul(squares) / (10 * shared)
                }
            };
            u64::try_from(block.min(num_clips).min(most)).unwrap_or(u64::MAX)
        });
        Self {
            num_streams,
            block_size,
            max_chunk,
        }
    }
}
