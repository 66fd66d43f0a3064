//! Measures how far a shuffle moves clips and how many different videos a batch contains.
//! Inspects a sample of the epoch's batches and compares them with a full shuffle.

use std::collections::HashSet;

use super::config::invalid_argument;
use super::{BatchSampler, BatchSamplerConfig, ClipOrder, Shuffle};
use crate::error::Result;

/// Approximate limit on the number of inspected positions of an epoch.
pub const MAX_POSITIONS: u64 = 100_000;

/// How well a batch sampler mixes clips, and what a full shuffle of the same clips would give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShuffleQuality {
    /// The measured batch sampler.
    pub measured: ShuffleStats,
    /// A full shuffle with the same seed, ranks and batches.
    pub full: ShuffleStats,
}

/// How mixed the batches of one rank are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ShuffleStats {
    /// Mean distance, in clips, between the delivered clip and the clip at the same position without
    /// shuffling.
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
    /// Mean number of different videos in a batch, excluding padding.
    pub videos_per_batch: f64,
}

/// Measures an epoch of a batch sampler; `video_of` maps a clip to its video.
///
/// If the epoch has more than [`MAX_POSITIONS`] positions, only whole batches at even distances are inspected. A
/// batch sampler with a mix is rejected: its clips have no unshuffled position.
pub fn measure_shuffle(
    order: &BatchSampler,
    epoch: u64,
    video_of: &dyn Fn(u64) -> u64,
) -> Result<ShuffleQuality> {
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
        measured: shuffle_stats(order, &unshuffled, epoch, video_of),
        full: shuffle_stats(&full, &full_unshuffled, epoch, video_of),
    })
}

/// Compares a batch sampler with its unshuffled counterpart, position by position.
fn shuffle_stats(
    order: &BatchSampler,
    unshuffled: &BatchSampler,
    epoch: u64,
    video_of: &dyn Fn(u64) -> u64,
) -> ShuffleStats {
    let batches = order.len_batches();
    let num_inspected =
        (MAX_POSITIONS / u64::from(order.config().batch_size).max(1)).clamp(1, batches.max(1));
    let mut distances = Vec::new();
    let (mut videos, mut filled) = (0, 0_u64);
    for n in 0..num_inspected {
        let batch = (u128::from(batches) * u128::from(n) / u128::from(num_inspected)) as u64;
        let (moved, unmoved) = (order.batch(epoch, batch), unshuffled.batch(epoch, batch));
        let real = || moved.iter().zip(&unmoved).filter(|(slot, _)| !slot.padding);
        distances.extend(real().map(|(slot, at)| slot.clip.abs_diff(at.clip)));
        let different: HashSet<u64> = real().map(|(slot, _)| video_of(slot.clip)).collect();
        videos += different.len();
        filled += u64::from(!different.is_empty());
    }
    distances.sort_unstable();
    let Some(&max_clips) = distances.last() else { return ShuffleStats::default() };
    let count = distances.len();
    let mean_clips = distances.iter().map(|&d| d as f64).sum::<f64>() / count as f64;
    let median_clips = (distances[(count - 1) / 2] as f64 + distances[count / 2] as f64) / 2.0;
    let share = |clips: f64| clips / order.config().num_clips.max(1) as f64;
    ShuffleStats {
        mean_clips,
        median_clips,
        max_clips,
        mean_share: share(mean_clips),
        median_share: share(median_clips),
        max_share: share(max_clips as f64),
        videos_per_batch: videos as f64 / filled.max(1) as f64,
    }
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

    /// Expected number of different videos among `batch` clips sampled from `videos` videos of `each` clips:
    /// videos * (1 - C(n - each, batch) / C(n, batch)).
    fn expected_videos(videos: u64, each: u64, batch: u64) -> f64 {
        let n = (videos * each) as f64;
        let none = (0..batch).map(|k| (n - each as f64 - k as f64) / (n - k as f64)).product::<f64>();
        videos as f64 * (1.0 - none)
    }

    #[test]
    fn full_shuffle_moves_clips_by_a_third() {
        let found = measure_shuffle(&order(18_000, Shuffle::Full), 3, &|clip| clip / 18).unwrap();
        assert_eq!(found.measured, found.full);
        // Two positions sampled from n have a mean distance of (n² - 1) / 3n and a median distance of n (1 -
        // sqrt(1/2)).
        assert!((found.measured.mean_share - 1.0 / 3.0).abs() < 0.01, "{found:?}");
        assert!((found.measured.median_share - 0.2929).abs() < 0.01, "{found:?}");
        assert!((0.95..1.0).contains(&found.measured.max_share), "{found:?}");
        let videos = expected_videos(1000, 18, 32);
        assert!((found.measured.videos_per_batch - videos).abs() < 0.2, "{found:?}, {videos}");
    }

    #[test]
    fn no_shuffle_moves_nothing() {
        let found = measure_shuffle(&order(320, Shuffle::Off), 0, &|clip| clip / 16).unwrap();
        assert_eq!(found.measured, ShuffleStats { videos_per_batch: 2.0, ..ShuffleStats::default() });
        assert!(found.full.mean_share > 0.25);
    }

    #[test]
    fn a_buffer_moves_clips_by_half_its_size() {
        let shuffle = Shuffle::Buffer { initial_fill: 256 };
        let found = measure_shuffle(&order(50_000, shuffle), 1, &|clip| clip).unwrap().measured;
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
            let found = measure_shuffle(&BatchSampler::new(fill).unwrap(), 1, &|_| 5).unwrap();
            assert_eq!(
                (found.measured.max_clips, found.measured.videos_per_batch),
                (0, 1.0),
                "{clip_order:?}"
            );
        }
    }

    #[test]
    fn sampled_epoch_has_the_same_statistics() {
        let found = measure_shuffle(&order(1 << 40, Shuffle::Full), 0, &|clip| clip / 1000).unwrap();
        assert!((found.measured.mean_share - 1.0 / 3.0).abs() < 0.01, "{found:?}");
        assert_eq!(found.measured.videos_per_batch, 32.0);
    }

    #[test]
    fn mix_is_rejected_and_empty_epoch_is_accepted() {
        let mix =
            Some(MixConfig { sizes: vec![3], weights: vec![1.0], replacement: false, epoch_clips: None });
        let config =
            BatchSamplerConfig { num_clips: 3, shuffle: Shuffle::Full, mix, ..BatchSamplerConfig::default() };
        let text = measure_shuffle(&BatchSampler::new(config).unwrap(), 0, &|_| 0).unwrap_err().to_string();
        assert!(text.contains("without a mix"), "{text}");
        assert_eq!(
            measure_shuffle(&order(0, Shuffle::Full), 0, &|_| 0).unwrap().measured,
            ShuffleStats::default()
        );
    }
}
