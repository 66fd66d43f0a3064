//! Measures how far a shuffle moves clips and how many different videos its batches contain.
//! Inspects a sample of the epoch's batches and compares them with a full shuffle.

use std::collections::{HashMap, HashSet};

use super::config::invalid_argument;
use super::grouped_shuffle::{GroupedOptions, VideoClips};
use super::{BatchSampler, BatchSamplerConfig, ClipOrder, Shuffle};
use crate::error::Result;

/// Approximate limit on the number of inspected positions of an epoch.
pub const MAX_POSITIONS: u64 = 100_000;

/// Consecutive batches whose videos [`ShuffleStats::mixing`] counts: an optimizer with momentum 0.9 averages over
/// `1 / (1 - 0.9)` batches.
pub const MIXING_BATCHES: u64 = 10;

/// Limit on the number of ranks that are inspected together.
const MAX_RANKS: u32 = 64;

/// How well a batch sampler mixes clips, and what a full shuffle of the same clips would give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShuffleQuality {
    /// The measured batch sampler.
    pub measured: ShuffleStats,
    /// A full shuffle with the same seed, ranks and batches.
    pub full: ShuffleStats,
}

/// How mixed the batches are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ShuffleStats {
    /// Mean distance, in clips, between the delivered clip and the clip at the same position without
    /// shuffling, on the batch sampler's rank.
    pub mean_clips: f64,
    /// Median of these distances.
    pub median_clips: f64,
    /// Largest of these distances.
    pub max_clips: u64,
    /// [`Self::mean_clips`] as a share of the dataset.
    pub mean_share: f64,
    /// [`Self::median_clips`] as a share of the dataset.
    pub median_share: f64,
    /// [`Self::max_clips`] as a share of the dataset.
    pub max_share: f64,
    /// Mean number of different videos in a batch of the rank, excluding padding.
    pub videos_per_batch: f64,
    /// Mean number of clips in a batch of all ranks whose video has another clip before them in the batch, excluding
    /// padding.
    pub repeats_per_batch: f64,
    /// Median distance, in batches, between a clip and the next clip of its video on any rank; `None` if most are
    /// farther apart than the inspected batches, or if not all ranks are inspected.
    pub median_gap_batches: Option<f64>,
    /// Different videos in [`MIXING_BATCHES`] consecutive batches of all ranks, divided by the number that a random
    /// permutation of all clips is expected to have: 1 is as good as a full shuffle.
    pub mixing: f64,
}

/// Measures an epoch of a batch sampler; `clips` states which clips are of one video.
///
/// If the epoch has more than [`MAX_POSITIONS`] positions, only batches at even distances are inspected, and of more
/// than [`MAX_RANKS`] ranks only the first; of the orders of other libraries, only the batch sampler's rank. A batch
/// sampler with a mix is rejected: its clips have no unshuffled position.
pub fn measure_shuffle(order: &BatchSampler, epoch: u64, clips: &VideoClips) -> Result<ShuffleQuality> {
    let config = order.config();
    if config.mix.is_some() {
        return invalid_argument(
            "shuffle quality is defined without a mix only, got one; measure each dataset separately",
        );
    }
    let unshuffled = BatchSampler::new(BatchSamplerConfig { shuffle: Shuffle::Off, ..config.clone() })?;
    let plain =
        BatchSamplerConfig { clip_order: ClipOrder::Framespool, stick_to_shard: false, ..config.clone() };
    let full = BatchSampler::new(BatchSamplerConfig { shuffle: Shuffle::Full, ..plain.clone() })?;
    let full_unshuffled = BatchSampler::new(BatchSamplerConfig { shuffle: Shuffle::Off, ..plain })?;
    Ok(ShuffleQuality {
        measured: shuffle_stats(order, &unshuffled, epoch, clips)?,
        full: shuffle_stats(&full, &full_unshuffled, epoch, clips)?,
    })
}

/// [`ShuffleStats::mixing`] of an epoch alone, from at most about `max_positions` positions.
pub fn measure_mixing(
    order: &BatchSampler,
    epoch: u64,
    clips: &VideoClips,
    max_positions: u64,
) -> Result<f64> {
    Ok(AllRanks::new(order, epoch, clips)?.mixing(max_positions))
}

/// The number of cached clips with which a grouped shuffle reaches a [`ShuffleStats::mixing`] of at least `target`,
/// to within an eighth; `None` if more cached clips do not change it.
///
/// # Errors
/// `Argument` as for [`BatchSampler::new`].
pub fn cached_clips_for_mixing(
    config: &BatchSamplerConfig,
    clips: &VideoClips,
    target: f64,
    max_positions: u64,
) -> Result<Option<u64>> {
    let Shuffle::Grouped(options) = config.shuffle else { return Ok(None) };
    if options.block_size.is_some() {
        return Ok(None);
    }
    let reaches = |cached_clips: u64| -> Result<bool> {
        let shuffle = Shuffle::Grouped(GroupedOptions { cached_clips, ..options });
        let order = BatchSampler::new(BatchSamplerConfig { shuffle, ..config.clone() })?;
        Ok(measure_mixing(&order, 0, clips, max_positions)? >= target)
    };
    let mut low = options.cached_clips.max(1);
    let mut high = low.saturating_mul(2);
    while !reaches(high)? {
        // A cache of all clips of a rank is never full.
        if high >= config.num_clips {
            return Ok(None);
        }
        (low, high) = (high, high.saturating_mul(2));
    }
    while high - low > high / 8 {
        let middle = low + (high - low) / 2;
        if reaches(middle)? {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok(Some(high))
}

/// Compares a batch sampler with its unshuffled counterpart, position by position.
fn shuffle_stats(
    order: &BatchSampler,
    unshuffled: &BatchSampler,
    epoch: u64,
    clips: &VideoClips,
) -> Result<ShuffleStats> {
    let batches = order.len_batches();
    let num_inspected =
        (MAX_POSITIONS / u64::from(order.config().batch_size).max(1)).clamp(1, batches.max(1));
    let mut distances = Vec::new();
    let (mut videos, mut filled) = (0, 0_u64);
    for batch in evenly_spaced(batches, num_inspected) {
        let (moved, unmoved) = (order.batch(epoch, batch), unshuffled.batch(epoch, batch));
        let real = || moved.iter().zip(&unmoved).filter(|(slot, _)| !slot.padding);
        distances.extend(real().map(|(slot, at)| slot.clip.abs_diff(at.clip)));
        let different: HashSet<u64> = real().map(|(slot, _)| clips.video_of(slot.clip)).collect();
        videos += different.len();
        filled += u64::from(!different.is_empty());
    }
    distances.sort_unstable();
    let Some(&max_clips) = distances.last() else { return Ok(ShuffleStats::default()) };
    let count = distances.len();
    let mean_clips = distances.iter().map(|&d| d as f64).sum::<f64>() / count as f64;
    let median_clips = (distances[(count - 1) / 2] as f64 + distances[count / 2] as f64) / 2.0;
    let share = |clips: f64| clips / order.config().num_clips.max(1) as f64;
    let all_ranks = AllRanks::new(order, epoch, clips)?;
    let (repeats_per_batch, median_gap_batches) = all_ranks.repeats_and_gap();
    Ok(ShuffleStats {
        mean_clips,
        median_clips,
        max_clips,
        mean_share: share(mean_clips),
        median_share: share(median_clips),
        max_share: share(max_clips as f64),
        videos_per_batch: videos as f64 / filled.max(1) as f64,
        repeats_per_batch,
        median_gap_batches,
        mixing: all_ranks.mixing(MAX_POSITIONS),
    })
}

/// `count` of `len` numbers, at even distances.
fn evenly_spaced(len: u64, count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |n| (u128::from(len) * u128::from(n) / u128::from(count.max(1))) as u64)
}

/// The batches of all ranks together.
struct AllRanks<'a> {
    clips: &'a VideoClips,
    epoch: u64,
    /// The batch samplers of the inspected ranks.
    ranks: Vec<BatchSampler>,
    num_shards: u32,
    /// Whether no video is on two ranks, so that one rank represents all.
    disjoint: bool,
}

impl<'a> AllRanks<'a> {
    fn new(order: &BatchSampler, epoch: u64, clips: &'a VideoClips) -> Result<Self> {
        let config =
            BatchSamplerConfig { worker_id: 0, num_workers: 1, repeats: 1, ..order.resolved_config() };
        let num_shards = config.num_shards;
        let own = config.clip_order == ClipOrder::Framespool;
        let grouped = order.grouped().is_some_and(|g| g.num_streams.is_multiple_of(num_shards));
        let disjoint = grouped || (own && config.stick_to_shard);
        // The orders of other libraries keep a table of all clips for each rank.
        let inspected = if disjoint || !own {
            config.shard_id..config.shard_id + 1
        } else {
            0..num_shards.min(MAX_RANKS)
        };
        let ranks = inspected
            .map(|shard_id| BatchSampler::new(BatchSamplerConfig { shard_id, ..config.clone() }))
            .collect::<Result<_>>()?;
        Ok(Self { clips, epoch, ranks, num_shards, disjoint })
    }

    fn len_batches(&self) -> u64 {
        self.ranks[0].len_batches()
    }

    /// The clips of the inspected ranks in one batch.
    fn positions_per_batch(&self) -> u64 {
        u64::from(self.ranks[0].config().batch_size) * self.ranks.len() as u64
    }

    /// The videos of a batch, without padding.
    fn videos(&self, batch: u64) -> impl Iterator<Item = u64> + '_ {
        let slots = self.ranks.iter().flat_map(move |rank| rank.batch(self.epoch, batch));
        slots.filter(|slot| !slot.padding).map(|slot| self.clips.video_of(slot.clip))
    }

    fn mixing(&self, max_positions: u64) -> f64 {
        let batches = self.len_batches();
        let length = MIXING_BATCHES.min(batches);
        let windows = (max_positions / (self.positions_per_batch() * length).max(1))
            .clamp(1, (batches / length.max(1)).max(1));
        let (mut found, mut expected) = (0.0, 0.0);
        for first in evenly_spaced(batches - length + 1, windows) {
            let (mut different, mut count) = (HashSet::new(), 0_u64);
            for video in (first..first + length).flat_map(|batch| self.videos(batch)) {
                different.insert(video);
                count += 1;
            }
            let ranks = if self.disjoint { u64::from(self.num_shards) } else { 1 };
            found += (different.len() as u64 * ranks) as f64;
            expected += expected_videos(self.clips, count * ranks);
        }
        if expected > 0.0 {
            found / expected
        } else {
            1.0
        }
    }

    /// Mean number of repeated videos in a batch, and the median distance between clips of one video in batches.
    fn repeats_and_gap(&self) -> (f64, Option<f64>) {
        let batches = self.len_batches();
        let length = (MAX_POSITIONS / self.positions_per_batch().max(1)).clamp(1, batches.max(1));
        let first = (batches - length.min(batches)) / 2;
        let (mut repeats, mut counted) = (0_u64, 0_u64);
        // Only the first half of a part of the epoch counts: the next clip of a video may come after its end.
        let end = if length == batches { batches } else { first + length / 2 };
        let mut latest: HashMap<u64, u64> = HashMap::new();
        let mut gaps = Vec::new();
        for batch in first..(first + length).min(batches) {
            for video in self.videos(batch) {
                counted += u64::from(batch < end);
                let Some(earlier) = latest.insert(video, batch) else { continue };
                repeats += u64::from(earlier == batch);
                if earlier < end {
                    gaps.push(batch - earlier);
                }
            }
        }
        let scale = if self.disjoint { f64::from(self.num_shards) } else { 1.0 };
        let repeats = scale * repeats as f64 / length.max(1) as f64;
        if self.ranks.len() < self.num_shards as usize && !self.disjoint {
            return (repeats, None);
        }
        // All clips but the last of each video are followed by another one.
        let followed = 1.0 - self.clips.num_videos() as f64 / self.clips.num_clips().max(1) as f64;
        let count = if length == batches { gaps.len() as f64 } else { counted as f64 * followed };
        gaps.sort_unstable();
        (repeats, gaps.get((count / 2.0) as usize).map(|&gap| gap as f64))
    }
}

/// Expected number of different videos among `count` clips drawn without replacement: a video of `k` of `n` clips is
/// missing with the hypergeometric probability `prod_{j < k} (n - count - j) / (n - j)`.
fn expected_videos(clips: &VideoClips, count: u64) -> f64 {
    let n = clips.num_clips();
    let missing = |k: u64| {
        let mut product = 1.0;
        for j in 0..k {
            if j + count >= n || product < 1e-12 {
                return 0.0;
            }
            product *= (n - count - j) as f64 / (n - j) as f64;
        }
        product
    };
    clips.lengths().into_iter().map(|(k, videos)| videos as f64 * (1.0 - missing(k))).sum()
}

#[cfg(test)]
mod tests {
    use super::super::MixConfig;
    use super::*;

    fn order(num_clips: u64, shuffle: Shuffle) -> BatchSampler {
        BatchSampler::new(BatchSamplerConfig {
            num_clips,
            shuffle,
            batch_size: 32,
            ..BatchSamplerConfig::default()
        })
        .unwrap()
    }

    fn equal(num_clips: u64, clips: u64) -> VideoClips {
        VideoClips::Equal { videos: num_clips / clips, clips }
    }

    fn grouped(videos: u64, clips: u64, batch_size: u32, cached_clips: u64) -> (BatchSampler, VideoClips) {
        let video_clips = VideoClips::Equal { videos, clips };
        let options = GroupedOptions { cached_clips, ..GroupedOptions::default() };
        let config = BatchSamplerConfig {
            num_clips: videos * clips,
            shuffle: Shuffle::Grouped(options),
            batch_size,
            num_shards: 8,
            video_clips: Some(video_clips.clone()),
            ..BatchSamplerConfig::default()
        };
        (BatchSampler::new(config).unwrap(), video_clips)
    }

    #[test]
    fn grouped_shuffle_mixes_as_simulated() {
        // Repeats, median gap and mixing of a simulation of the definition, with 8 ranks and 890 cached clips.
        for (videos, clips, batch_size, repeats, gap, mixing) in [
            (80_000, 4, 8, 0.0, 58.0, 1.0),
            (20_000, 16, 8, 0.07, 11.5, 0.90),
            (20_000, 16, 32, 4.5, 2.9, 0.36),
            (5_000, 64, 8, 1.4, 2.8, 0.31),
        ] {
            let (order, video_clips) = grouped(videos, clips, batch_size, 890);
            let found = measure_shuffle(&order, 0, &video_clips).unwrap();
            let measured = found.measured;
            assert!((measured.mixing - mixing).abs() < 0.03, "{clips} {batch_size} {measured:?}");
            assert!(
                (measured.repeats_per_batch - repeats).abs() < 0.1 * repeats + 0.03,
                "{clips} {measured:?}"
            );
            let found_gap = measured.median_gap_batches.unwrap();
            assert!((found_gap - gap).abs() < 0.1 * gap + 0.5, "{clips} {measured:?}");
            assert!((found.full.mixing - 1.0).abs() < 0.005, "{found:?}");
        }
    }

    #[test]
    fn more_cached_clips_mix_better() {
        let (order, clips) = grouped(10_000, 16, 32, 890);
        let cached = cached_clips_for_mixing(order.config(), &clips, 0.9, 20_000).unwrap().unwrap();
        // Simulated: 0.92 with 4 times 890.
        assert!((2 * 890..=4 * 890).contains(&cached), "{cached}");
        let (enough, _) = grouped(10_000, 16, 32, cached);
        assert!(measure_mixing(&enough, 3, &clips, MAX_POSITIONS).unwrap() > 0.88);
    }

    #[test]
    fn neighbors_of_an_unshuffled_order_do_not_mix() {
        let found = measure_shuffle(&order(3200, Shuffle::Off), 0, &equal(3200, 16)).unwrap().measured;
        // 10 batches of 32 clips have 20 of 200 videos; 87 % of all in a full shuffle.
        assert!((found.mixing - 20.0 / expected_videos(&equal(3200, 16), 320)).abs() < 0.01, "{found:?}");
        assert_eq!((found.repeats_per_batch, found.median_gap_batches), (30.0, Some(0.0)));
    }

    #[test]
    fn full_shuffle_moves_clips_by_a_third() {
        let found = measure_shuffle(&order(18_000, Shuffle::Full), 3, &equal(18_000, 18)).unwrap();
        assert_eq!(found.measured, found.full);
        // Two positions sampled from n have a mean distance of (n² - 1) / 3n and a median distance of n (1 -
        // sqrt(1/2)).
        assert!((found.measured.mean_share - 1.0 / 3.0).abs() < 0.01, "{found:?}");
        assert!((found.measured.median_share - 0.2929).abs() < 0.01, "{found:?}");
        assert!((0.95..1.0).contains(&found.measured.max_share), "{found:?}");
        let videos = expected_videos(&equal(18_000, 18), 32);
        assert!((found.measured.videos_per_batch - videos).abs() < 0.2, "{found:?}, {videos}");
    }

    #[test]
    fn no_shuffle_moves_nothing() {
        let found = measure_shuffle(&order(320, Shuffle::Off), 0, &equal(320, 16)).unwrap();
        assert_eq!((found.measured.max_clips, found.measured.videos_per_batch), (0, 2.0));
        assert!(found.full.mean_share > 0.25);
    }

    #[test]
    fn a_buffer_moves_clips_by_half_its_size() {
        let shuffle = Shuffle::Buffer { initial_fill: 256 };
        let found = measure_shuffle(&order(50_000, shuffle), 1, &equal(50_000, 1)).unwrap().measured;
        // The mean is (1/2 + 1/24) * size: the mean distance of two independent uniform numbers, one from 0
        // to 1 and one from -1/2 to 3/2.
        assert!((found.mean_clips - 256.0 * 13.0 / 24.0).abs() < 2.0, "{found:?}");
        assert!(found.max_clips < 384 && found.max_clips > 320, "{found:?}");
        assert_eq!(found.mean_share, found.mean_clips / 50_000.0);
    }

    #[test]
    fn padding_is_not_counted() {
        for clip_order in [ClipOrder::Dali, ClipOrder::Torch, ClipOrder::Framespool] {
            let config = BatchSamplerConfig {
                clip_order,
                num_clips: 10,
                batch_size: 4,
                num_shards: 3,
                ..BatchSamplerConfig::default()
            };
            let fill = BatchSamplerConfig { last_batch: super::super::LastBatchPolicy::Fill, ..config };
            let found = measure_shuffle(&BatchSampler::new(fill).unwrap(), 1, &equal(10, 10)).unwrap();
            assert_eq!(
                (found.measured.max_clips, found.measured.videos_per_batch),
                (0, 1.0),
                "{clip_order:?}"
            );
        }
    }

    #[test]
    fn sampled_epoch_has_the_same_statistics() {
        let found = measure_shuffle(&order(1 << 40, Shuffle::Full), 0, &equal(1 << 40, 1 << 10)).unwrap();
        assert!((found.measured.mean_share - 1.0 / 3.0).abs() < 0.01, "{found:?}");
        assert_eq!(found.measured.videos_per_batch, 32.0);
    }

    #[test]
    fn mix_is_rejected_and_empty_epoch_is_accepted() {
        let mix =
            Some(MixConfig { sizes: vec![3], weights: vec![1.0], replacement: false, epoch_clips: None });
        let config =
            BatchSamplerConfig { num_clips: 3, shuffle: Shuffle::Full, mix, ..BatchSamplerConfig::default() };
        let text =
            measure_shuffle(&BatchSampler::new(config).unwrap(), 0, &equal(0, 1)).unwrap_err().to_string();
        assert!(text.contains("without a mix"), "{text}");
        assert_eq!(
            measure_shuffle(&order(0, Shuffle::Full), 0, &equal(0, 1)).unwrap().measured,
            ShuffleStats::default()
        );
    }
}
