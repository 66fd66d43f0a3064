//! What a loader reports about its shuffle: mixing, decoding cost, and clips that take more memory
//! than it assumes.

use std::sync::Arc;

use super::Loader;
use super::cost_estimate::{CostModel, DiskCacheCost};
use crate::batch_sampler::grouped_shuffle::GroupedOptions;
use crate::batch_sampler::shuffle_quality::{cached_clips_for_mixing, measure_mixing};
use crate::batch_sampler::{BatchSampler, BatchSamplerConfig, Shuffle};
use crate::error::{Error, Result};
use crate::index::VideoIndex;
use crate::rng::RngKey;

/// How well a grouped shuffle mixes videos.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShuffleMixing {
    /// See [`ShuffleStats::mixing`](crate::batch_sampler::shuffle_quality::ShuffleStats::mixing).
    pub mixing: f64,
    /// Whether the same videos recur so soon that the user is to be warned: a mixing of less than
    /// 0.5.
    pub is_poor: bool,
    /// If it is poor: the memory budget that gives 0.9, if one does.
    pub memory_budget: Option<u64>,
}

/// Clips in the clip cache that take more memory than a derived grouped shuffle assumes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LargeCachedClips {
    /// Bytes of a cached clip of 8-bit codes.
    pub expected_bytes: u64,
    /// Bytes of a cached clip of output elements.
    pub bytes: u64,
    /// The block size with which these clips fit.
    pub block_size: u64,
}

/// What is processed for a clip on average: packets, by shuffle; frames, in the loader's own order.
#[derive(Clone, Debug, PartialEq)]
pub struct CostEstimate {
    /// Each clip decoded by itself.
    pub single: f64,
    /// [`Shuffle::Full`].
    pub full: f64,
    /// [`Shuffle::Grouped`].
    pub grouped: f64,
    /// The mixing of the grouped shuffle; see [`ShuffleMixing`].
    pub mixing: f64,
    /// Frames decoded per clip in the loader's own order, without a disk cache.
    pub frames_per_clip: f64,
    /// With the loader's own disk cache, or with some if it has none.
    pub disk_caches: Vec<DiskCacheCost>,
}

/// Epochs of the disk caches that are estimated for a loader without one.
const DISK_CACHE_EPOCHS: [u32; 3] = [4, 8, 16];

/// See [`ShuffleMixing`].
const MIN_MIXING: f64 = 0.5;
const GOOD_MIXING: f64 = 0.9;

/// Number of positions of the order that are inspected for [`Loader::shuffle_mixing`]: takes some
/// milliseconds.
const MIXING_POSITIONS: u64 = 20_000;

/// Number of videos whose groups of pictures [`Loader::gop_without_disk_cache`] considers.
const MAX_INSPECTED_VIDEOS: usize = 64;

impl Loader {
    /// Mean number of packets from a random access point to the next one, if a disk cache would
    /// save decoding: every video has one clip in an epoch, and its frames or its transforms are
    /// random. It inspects indices in memory and opens no file. `is_random`: the clip sampler is
    /// known to be random.
    pub fn gop_without_disk_cache(&self, is_random: bool) -> Option<f64> {
        let config = &self.config;
        let is_single =
            self.catalog.clips.video_clips(None).num_videos() == self.catalog.clips.num_clips();
        if !is_single
            || config.options.clip_store.is_some()
            || config.options.gpu.device.is_some()
            || config.options.images
        {
            return None;
        }
        let indices = self.catalog.files.indices_in_memory(MAX_INSPECTED_VIDEOS);
        let draws = |(sample, index): &(u32, Arc<VideoIndex>)| {
            // The number of a clip is that of its sample.
            let key = RngKey {
                seed: config.order.seed,
                epoch: 0,
                clip: u64::from(*sample),
                occurrence: 0,
            };
            self.catalog
                .sample_watched(index, key)
                .is_ok_and(|(_, is_fixed)| !is_fixed)
        };
        if !is_random && !config.has_random_transforms() && !indices.first().is_some_and(draws) {
            return None;
        }
        let sum = |count: fn(&VideoIndex) -> usize| {
            indices.iter().map(|(_, index)| count(index)).sum::<usize>()
        };
        let groups = sum(|index| index.sync_points.len());
        (groups > 0).then(|| sum(|index| index.packets.len()) as f64 / groups as f64)
    }

    /// How well a grouped shuffle mixes videos; `None` if the clips are not grouped.
    ///
    /// # Errors
    /// `Argument` if a batch sampler with more cached clips cannot be created.
    pub fn shuffle_mixing(&self) -> Result<Option<ShuffleMixing>> {
        let config = self.order.config();
        let Some(clips) = config
            .video_clips
            .as_ref()
            .filter(|_| self.order.grouped().is_some())
        else {
            return Ok(None);
        };
        let mixing = measure_mixing(&self.order, 0, clips, MIXING_POSITIONS)?;
        let cached_clips = match mixing < MIN_MIXING {
            true => cached_clips_for_mixing(config, clips, GOOD_MIXING, MIXING_POSITIONS)?,
            false => None,
        };
        let memory_budget =
            cached_clips.map(|n| n.saturating_mul(self.config.cached_bytes_with_repeats()));
        Ok(Some(ShuffleMixing {
            mixing,
            is_poor: mixing < MIN_MIXING,
            memory_budget,
        }))
    }

    /// Reports once that clips of videos with more than 8 bits are in the clip cache of a grouped
    /// shuffle whose block was derived for 8-bit codes. The depth is known only once a video is
    /// decoded, and ranks must not derive different orders, so the block stays as it is and clips
    /// are decoded again.
    pub fn take_large_cached_clips(&mut self) -> Option<LargeCachedClips> {
        let Shuffle::Grouped(options) = self.order.config().shuffle else {
            return None;
        };
        if self.large_clips_reported || options.block_size.is_some() || self.grouped().is_none() {
            return None;
        }
        if self.stats.read().clips_cached_over_8_bits == 0 {
            return None;
        }
        self.large_clips_reported = true;
        let (expected_bytes, bytes) = (
            self.config.cached_clip_bytes(),
            self.config.cached_element_bytes()?,
        );
        let cached_clips = options.cached_clips * expected_bytes / bytes.max(1);
        let shuffle = Shuffle::Grouped(GroupedOptions {
            cached_clips,
            ..options
        });
        let order = BatchSampler::new(BatchSamplerConfig {
            shuffle,
            ..self.order.config().clone()
        })
        .ok()?;
        let block_size = order.grouped()?.block_size;
        // With the same block, all clips fit.
        (Some(block_size) != self.grouped().map(|grouped| grouped.block_size)).then_some(
            LargeCachedClips {
                expected_bytes,
                bytes,
                block_size,
            },
        )
    }

    /// Estimates the decoding cost of shuffles of this dataset, with this clip cache, from some of
    /// its videos.
    ///
    /// # Errors
    /// `Argument` with a shard of the dataset; the error of a video if none of those that are opened
    /// can be read; that of an interrupt.
    pub fn estimate_cost(&self) -> Result<CostEstimate> {
        self.check_process()?;
        let config = self.order.config();
        if config.stick_to_shard {
            return Err(Error::Argument(
                "costs can be estimated only without stick_to_shard".into(),
            ));
        }
        let cached_clips = self.config.cached_clips();
        let video_clips = match config.weights {
            Some(_) => self.catalog.clips.sample_clips(),
            None => self.catalog.clips.video_clips(self.config.mixture.as_ref()),
        };
        let lookahead_clips = u64::from(self.config.options.lookahead_clips / config.repeats);
        let model = |cached_clips| CostModel {
            catalog: &self.catalog,
            stats: &self.stats,
            seed: config.seed,
            cached_clips,
            lookahead_clips,
        };
        let with = |shuffle| BatchSamplerConfig {
            shuffle,
            video_clips: Some(video_clips.clone()),
            ..config.clone()
        };
        let full = BatchSampler::new(with(Shuffle::Full))?;
        let options = match config.shuffle {
            Shuffle::Grouped(options) => options,
            _ => GroupedOptions {
                cached_clips,
                ..GroupedOptions::default()
            },
        };
        // Draws with replacement are not grouped.
        let replaces = config.mix.as_ref().is_some_and(|mix| mix.replacement);
        let shuffle = if replaces {
            Shuffle::Full
        } else {
            Shuffle::Grouped(options)
        };
        let grouped = BatchSampler::new(with(shuffle))?;
        let own_epochs = self
            .config
            .options
            .clip_store
            .as_ref()
            .map(|store| [store.epochs]);
        let epochs = own_epochs
            .as_ref()
            .map_or(&DISK_CACHE_EPOCHS[..], |own| own);
        let frames = model(cached_clips).decoded_frames(&self.order, &self.config, epochs)?;
        Ok(CostEstimate {
            single: model(0).packets_per_clip(&full)?,
            full: model(cached_clips).packets_per_clip(&full)?,
            grouped: model(cached_clips).packets_per_clip(&grouped)?,
            mixing: measure_mixing(&grouped, 0, &video_clips, MIXING_POSITIONS)?,
            frames_per_clip: frames.frames_per_clip,
            disk_caches: frames.disk_caches,
        })
    }
}
