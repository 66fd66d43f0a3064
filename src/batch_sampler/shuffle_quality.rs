//! Measures how far a shuffle moves clips and how many different videos its batches contain.
//! Inspects a sample of the epoch's batches and compares them with a full shuffle.

use std::collections::{HashMap, HashSet};

use super::grouped_shuffle::weighted::{Unit, WeightedVideos};
use super::grouped_shuffle::{GroupedOptions, VideoClips};
use super::{BatchSampler, BatchSamplerConfig, Shuffle};
use crate::error::{Result, invalid_argument};

/// Approximate limit on the number of inspected positions of an epoch.
pub const MAX_POSITIONS: u64 = 100_000;

/// Consecutive batches whose videos [`ShuffleStats::mixing`] counts: an optimizer with momentum 0.9
/// averages over `1 / (1 - 0.9)` batches.
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
    /// Mean distance, in clips, between the delivered clip and the clip at the same position
    /// without shuffling, on the batch sampler's rank. The distances are NaN with a mix or weights:
    /// clips have no such position.
    pub mean_clips: f64,
    /// Median of these distances.
    pub median_clips: f64,
    /// Largest of these distances.
    pub max_clips: f64,
    /// [`Self::mean_clips`] as a share of the dataset.
    pub mean_share: f64,
    /// [`Self::median_clips`] as a share of the dataset.
    pub median_share: f64,
    /// [`Self::max_clips`] as a share of the dataset.
    pub max_share: f64,
    /// Mean number of different videos in a batch of the rank, excluding padding.
    pub videos_per_batch: f64,
    /// Mean number of clips in a batch of all ranks whose video has another clip before them in the
    /// batch, excluding padding.
    pub repeats_per_batch: f64,
    /// Median distance, in batches, between a clip and the next clip of its video on any rank;
    /// `None` if most are farther apart than the inspected batches, or if not all ranks are
    /// inspected.
    pub median_gap_batches: Option<f64>,
    /// Different videos in [`MIXING_BATCHES`] consecutive batches of all ranks, divided by the
    /// number that a random permutation of all clips is expected to have: 1 is as good as a full
    /// shuffle.
    pub mixing: f64,
}

/// Measures an epoch of a batch sampler; `clips` states which clips are of one video.
///
/// If the epoch has more than [`MAX_POSITIONS`] positions, only batches at even distances are
/// inspected, and of more than [`MAX_RANKS`] ranks only the first.
///
/// # Errors
/// `Argument` if a dataset of a mix ends within a video.
pub fn measure_shuffle(
    order: &BatchSampler,
    epoch: u64,
    clips: &VideoClips,
) -> Result<ShuffleQuality> {
    let config = order.config();
    let plain = BatchSamplerConfig {
        stick_to_shard: false,
        ..config.clone()
    };
    let full = BatchSampler::new(BatchSamplerConfig {
        shuffle: Shuffle::Full,
        ..plain.clone()
    })?;
    // With a mix or weights, clips have no unshuffled position.
    let unshuffled = |config: &BatchSamplerConfig| match (&config.mix, &config.weights) {
        (None, None) => BatchSampler::new(BatchSamplerConfig {
            shuffle: Shuffle::Off,
            ..config.clone()
        })
        .map(Some),
        _ => Ok(None),
    };
    Ok(ShuffleQuality {
        measured: shuffle_stats(order, unshuffled(config)?.as_ref(), epoch, clips)?,
        full: shuffle_stats(&full, unshuffled(&plain)?.as_ref(), epoch, clips)?,
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

/// The number of cached clips with which a grouped shuffle reaches a [`ShuffleStats::mixing`] of at
/// least `target`, to within an eighth; `None` if more cached clips do not change it.
///
/// # Errors
/// `Argument` as for [`BatchSampler::new`].
pub fn cached_clips_for_mixing(
    config: &BatchSamplerConfig,
    clips: &VideoClips,
    target: f64,
    max_positions: u64,
) -> Result<Option<u64>> {
    let Shuffle::Grouped(options) = config.shuffle else {
        return Ok(None);
    };
    if options.block_size.is_some() {
        return Ok(None);
    }
    let reaches = |cached_clips: u64| -> Result<bool> {
        let shuffle = Shuffle::Grouped(GroupedOptions {
            cached_clips,
            ..options
        });
        let order = BatchSampler::new(BatchSamplerConfig {
            shuffle,
            ..config.clone()
        })?;
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
    unshuffled: Option<&BatchSampler>,
    epoch: u64,
    clips: &VideoClips,
) -> Result<ShuffleStats> {
    let batches = order.len_batches();
    let num_inspected =
        (MAX_POSITIONS / u64::from(order.config().batch_size).max(1)).clamp(1, batches.max(1));
    let mut distances = Vec::new();
    let (mut videos, mut filled) = (0, 0_u64);
    for batch in evenly_spaced(batches, num_inspected) {
        let moved = order.batch(epoch, batch);
        let real = || moved.iter().filter(|slot| !slot.padding);
        if let Some(unshuffled) = unshuffled {
            let unmoved = unshuffled.batch(epoch, batch);
            distances.extend(
                real()
                    .zip(&unmoved)
                    .map(|(slot, at)| slot.clip.abs_diff(at.clip)),
            );
        }
        let different: HashSet<u64> = real().map(|slot| clips.video_of(slot.clip)).collect();
        videos += different.len();
        filled += u64::from(!different.is_empty());
    }
    distances.sort_unstable();
    if filled == 0 {
        return Ok(ShuffleStats::default());
    }
    let count = distances.len();
    let mean_clips = distances.iter().map(|&d| d as f64).sum::<f64>() / count as f64;
    let at = |n: usize| {
        distances
            .get(n)
            .map_or(f64::NAN, |&distance| distance as f64)
    };
    let median_clips = (at(count.saturating_sub(1) / 2) + at(count / 2)) / 2.0;
    let max_clips = at(count.wrapping_sub(1));
    let share = |clips: f64| clips / order.config().num_clips.max(1) as f64;
    let all_ranks = AllRanks::new(order, epoch, clips)?;
    let (repeats_per_batch, median_gap_batches) = all_ranks.repeats_and_gap();
    Ok(ShuffleStats {
        mean_clips,
        median_clips,
        max_clips,
        mean_share: share(mean_clips),
        median_share: share(median_clips),
        max_share: share(max_clips),
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
struct AllRanks {
    clips: VideoClips,
    epoch: u64,
    /// The batch samplers of the inspected ranks.
    ranks: Vec<BatchSampler>,
    num_shards: u32,
    /// Whether no video is on two ranks, so that one rank represents all.
    disjoint: bool,
    /// The clips of each dataset of a mix, and its share of the epoch.
    datasets: Vec<(VideoClips, f64)>,
    /// Expected number of delivered clips of each video, if videos have weights, and of all.
    expected_clips: Option<(Vec<f64>, u64)>,
}

impl AllRanks {
    fn new(order: &BatchSampler, epoch: u64, clips: &VideoClips) -> Result<Self> {
        let config = BatchSamplerConfig {
            worker_id: 0,
            num_workers: 1,
            repeats: 1,
            ..order.resolved_config()
        };
        let num_shards = config.num_shards;
        let grouped = order
            .grouped()
            .is_some_and(|g| g.num_streams.is_multiple_of(num_shards));
        // Copies of a video may be on several ranks.
        let disjoint = config.weights.is_none() && (grouped || config.stick_to_shard);
        let inspected = if disjoint {
            config.shard_id..config.shard_id + 1
        } else {
            0..num_shards.min(MAX_RANKS)
        };
        let ranks = inspected
            .map(|shard_id| {
                BatchSampler::new(BatchSamplerConfig {
                    shard_id,
                    ..config.clone()
                })
            })
            .collect::<Result<_>>()?;
        let mut datasets = vec![(clips.clone(), 1.0)];
        if let Some(mix) = &config.mix {
            let (sum, mut first) = (mix.weights.iter().sum::<f64>(), 0);
            datasets.clear();
            for (&size, weight) in mix.sizes.iter().zip(&mix.weights) {
                let Some(own) = clips.part(first..first + size) else {
                    return invalid_argument(format!(
                        "clips_per_video must have a video that ends with each dataset of the mix, got none that ends at \
                         clip {}; give the number of each video",
                        first + size
                    ));
                };
                datasets.push((own, weight / sum));
                first += size;
            }
        }
        let mut clips = clips.clone();
        let mut expected_clips = None;
        if let Some(weights) = &config.weights {
            clips = config.videos();
            let videos = WeightedVideos::new(clips.clone(), weights, Unit::Video)?;
            expected_clips = Some((videos.expected_clips().collect(), videos.epoch_clips));
        }
        Ok(Self {
            clips,
            epoch,
            ranks,
            num_shards,
            disjoint,
            datasets,
            expected_clips,
        })
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
        let slots = self
            .ranks
            .iter()
            .flat_map(move |rank| rank.batch(self.epoch, batch));
        slots
            .filter(|slot| !slot.padding)
            .map(|slot| self.clips.video_of(slot.clip))
    }

    /// Expected number of different videos among `count` clips of a full shuffle.
    fn expected_videos(&self, count: u64) -> f64 {
        if let Some((clips, sum)) = &self.expected_clips {
            let absent = 1.0 - (count as f64 / (*sum).max(1) as f64).min(1.0);
            return clips.iter().map(|clips| 1.0 - absent.powf(*clips)).sum();
        }
        let share = |share: f64| (share * count as f64).round() as u64;
        self.datasets
            .iter()
            .map(|(clips, weight)| expected_videos(clips, share(*weight)))
            .sum()
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
            let ranks = if self.disjoint {
                u64::from(self.num_shards)
            } else {
                1
            };
            found += (different.len() as u64 * ranks) as f64;
            expected += self.expected_videos(count * ranks);
        }
        if expected > 0.0 {
            found / expected
        } else {
            1.0
        }
    }

    /// Mean number of repeated videos in a batch, and the median distance between clips of one
    /// video in batches.
    fn repeats_and_gap(&self) -> (f64, Option<f64>) {
        let batches = self.len_batches();
        let length = (MAX_POSITIONS / self.positions_per_batch().max(1)).clamp(1, batches.max(1));
        let first = (batches - length.min(batches)) / 2;
        let (mut repeats, mut counted) = (0_u64, 0_u64);
        // Only the first half of a part of the epoch counts: the next clip of a video may come
        // after its end.
        let end = if length == batches {
            batches
        } else {
            first + length / 2
        };
        let mut latest: HashMap<u64, u64> = HashMap::new();
        let mut gaps = Vec::new();
        for batch in first..(first + length).min(batches) {
            for video in self.videos(batch) {
                counted += u64::from(batch < end);
                let Some(earlier) = latest.insert(video, batch) else {
                    continue;
                };
                repeats += u64::from(earlier == batch);
                if earlier < end {
                    gaps.push(batch - earlier);
                }
            }
        }
        let scale = if self.disjoint {
            f64::from(self.num_shards)
        } else {
            1.0
        };
        let repeats = scale * repeats as f64 / length.max(1) as f64;
        if self.ranks.len() < self.num_shards as usize && !self.disjoint {
            return (repeats, None);
        }
        // All clips but the last of each video are followed by another one.
        let followed = 1.0 - self.clips.num_videos() as f64 / self.clips.num_clips().max(1) as f64;
        let count = if length == batches {
            gaps.len() as f64
        } else {
            counted as f64 * followed
        };
        gaps.sort_unstable();
        (
            repeats,
            gaps.get((count / 2.0) as usize).map(|&gap| gap as f64),
        )
    }
}

/// Expected number of different videos among `count` clips drawn without replacement: a video of
/// `k` of `n` clips is missing with the hypergeometric probability `prod_{j < k} (n - count - j) /
/// (n - j)`.
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
    clips
        .lengths()
        .into_iter()
        .map(|(k, videos)| videos as f64 * (1.0 - missing(k)))
        .sum()
}

#[cfg(test)]
mod tests;
