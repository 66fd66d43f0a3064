//! Mixes several datasets by weight and keeps the clips of each video together: every dataset has a
//! grouped shuffle of its own with the same streams, and in each stream the datasets take turns by
//! weight.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use super::super::grouped_shuffle::{GroupedEpoch, GroupedShuffle, VideoClips};
use super::super::order::{GroupedConfig, Order};
use super::MixConfig;
use super::interleave::{EpochDraws, WeightedInterleave};
use crate::error::{Result, invalid_argument};
use crate::rng::RngKey;

/// Length of a block of turns in a stream, unless a weight is too small for it.
const MIN_BLOCK_LEN: u64 = 16;

/// Passes over a dataset whose orders are kept: a loader reads the start of the next epoch before
/// the current one has ended, and the streams of a dataset do not end a pass together.
const MAX_CACHED_PASSES: usize = 4;

/// A mix of grouped shuffles.
#[derive(Debug)]
pub(in super::super) struct GroupedMixSampler {
    config: GroupedConfig,
    seed: u64,
    epoch_clips: u64,
    /// The turns of streams that are one place longer than the others, and of the others.
    interleaves: [WeightedInterleave; 2],
    datasets: Vec<GroupedDataset>,
}

#[derive(Debug)]
struct GroupedDataset {
    first_clip: u64,
    shuffle: Arc<GroupedShuffle>,
    /// The most recent passes, by epoch and number.
    passes: Mutex<VecDeque<((u64, u64), GroupedEpoch)>>,
}

impl GroupedMixSampler {
    /// # Errors
    /// `Argument` if a dataset ends within a video.
    pub(crate) fn new(
        mix: &MixConfig,
        clips: &VideoClips,
        config: GroupedConfig,
        seed: u64,
    ) -> Result<Self> {
        let num_streams = u64::from(config.num_streams);
        let epoch_clips = mix.clips_per_epoch();
        let interleave = |len| WeightedInterleave::with_min_block(&mix.weights, len, MIN_BLOCK_LEN);
        let sum: f64 = mix.weights.iter().sum();
        let whole = config.block_size / 2 >= clips.num_clips();
        let mut first_clip = 0;
        let mut datasets = Vec::with_capacity(mix.sizes.len());
        for (number, (&size, weight)) in mix.sizes.iter().zip(&mix.weights).enumerate() {
            let Some(own) = clips.part(first_clip..first_clip + size) else {
                return invalid_argument(format!(
                    "clips_per_video must have a video that ends with dataset {number} of the mix, at clip {}; give the \
                     number of each video",
                    first_clip + size
                ));
            };
            // Its clips are as far apart in the mix as those of a single dataset.
            let block_size = match whole {
                true => own.num_clips().saturating_mul(2),
                false => (config.block_size as f64 * weight / sum) as u64,
            };
            let shuffle = Arc::new(GroupedShuffle::new(
                own,
                GroupedConfig {
                    block_size,
                    ..config
                },
            )?);
            datasets.push(GroupedDataset {
                first_clip,
                shuffle,
                passes: Mutex::default(),
            });
            first_clip += size;
        }
        let shorter = epoch_clips / num_streams;
        let interleaves = [interleave(shorter + 1)?, interleave(shorter.max(1))?];
        Ok(Self {
            config,
            seed,
            epoch_clips,
            interleaves,
            datasets,
        })
    }

    /// Whether every chunk is a single clip.
    pub(crate) fn is_ungrouped(&self) -> bool {
        self.datasets
            .iter()
            .all(|dataset| dataset.shuffle.is_ungrouped())
    }
}

impl Order for GroupedMixSampler {
    fn num_clips(&self) -> u64 {
        self.epoch_clips
    }

    fn clips(&self, epoch: u64, positions: &mut dyn Iterator<Item = u64>) -> Vec<(u64, u32)> {
        let num_streams = u64::from(self.config.num_streams);
        let mut draws: HashMap<u64, EpochDraws<'_>> = HashMap::new();
        let clip = |position: u64| {
            let position = position % self.epoch_clips.max(1);
            let (stream, place) = (position % num_streams, position / num_streams);
            let longer = stream < self.epoch_clips % num_streams;
            let interleave = &self.interleaves[usize::from(!longer)];
            let draws = draws
                .entry(stream)
                .or_insert_with(|| interleave.draws_of_stream(self.seed, epoch, stream as u32));
            let draw = draws.at(place);
            self.datasets[draw.dataset].clip(
                self.seed,
                epoch,
                draw.dataset as u32,
                stream,
                draw.index,
            )
        };
        positions.map(clip).collect()
    }

    fn grouped(&self) -> Option<GroupedConfig> {
        Some(self.config)
    }
}

impl GroupedDataset {
    /// The `index`-th clip of a stream in an epoch, counted over all passes, and the number of the
    /// pass.
    fn clip(&self, seed: u64, epoch: u64, dataset: u32, stream: u64, index: u64) -> (u64, u32) {
        // The streams of the shuffle differ in length by one clip. If each stream of the mix had the
        // same one in every pass, it would be ahead of others by more with every pass.
        let position = index * self.shuffle.num_streams() + stream;
        let num_clips = self.shuffle.num_clips();
        let (pass, position) = (position / num_clips, position % num_clips);
        let mut passes = self.passes.lock().unwrap_or_else(PoisonError::into_inner);
        let found = passes.iter().position(|(key, _)| *key == (epoch, pass));
        let at = found.unwrap_or_else(|| {
            if passes.len() == MAX_CACHED_PASSES {
                passes.pop_front();
            }
            let key = RngKey {
                seed,
                epoch,
                clip: pass,
                occurrence: u64::from(dataset),
            };
            passes.push_back(((epoch, pass), self.shuffle.order(key)));
            passes.len() - 1
        });
        (self.first_clip + passes[at].1.clip(position), pass as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler(
        mix: &MixConfig,
        clips: &VideoClips,
        num_streams: u32,
        block_size: u64,
    ) -> GroupedMixSampler {
        let config = GroupedConfig {
            num_streams,
            block_size,
            max_chunk: 64,
        };
        GroupedMixSampler::new(mix, clips, config, 3).unwrap()
    }

    fn mix(sizes: &[u64], weights: &[f64], epoch_clips: u64) -> MixConfig {
        MixConfig {
            sizes: sizes.to_vec(),
            weights: weights.to_vec(),
            replacement: false,
            epoch_clips: Some(epoch_clips),
        }
    }

    fn epoch(sampler: &GroupedMixSampler, number: u64) -> Vec<(u64, u32)> {
        sampler.clips(number, &mut (0..sampler.epoch_clips))
    }

    #[test]
    fn shares_follow_the_weights_and_passes_are_complete() {
        let clips = VideoClips::Equal {
            videos: 300,
            clips: 8,
        };
        for (sizes, weights, streams) in [
            ([1600_u64, 640, 160], [1.0, 1.0, 1.0], 8_u32),
            ([1600, 640, 160], [5.0, 4.0, 0.2], 4),
            ([2384, 8, 8], [1.0, 1.0, 1.0], 16),
        ] {
            let mix = mix(&sizes, &weights, 3000);
            let sampler = sampler(&mix, &clips, streams, 200);
            for number in 0..2 {
                let order = epoch(&sampler, number);
                let starts = [0, sizes[0], sizes[0] + sizes[1], 2400];
                for (dataset, weight) in weights.iter().enumerate() {
                    let own = |clip: u64| (starts[dataset]..starts[dataset + 1]).contains(&clip);
                    let quota = |count: usize| weight / weights.iter().sum::<f64>() * count as f64;
                    for count in [750, 1500, 3000] {
                        let found = order[..count].iter().filter(|(clip, _)| own(*clip)).count();
                        // Within one clip for each stream, and the turns of an incomplete block.
                        let most = f64::from(streams) * 4.0;
                        assert!(
                            (found as f64 - quota(count)).abs() <= most,
                            "{dataset} {count} {found}"
                        );
                    }
                    let mut seen = HashMap::new();
                    for (clip, pass) in order.iter().filter(|(clip, _)| own(*clip)) {
                        *seen.entry((*clip, *pass)).or_insert(0) += 1;
                    }
                    assert!(
                        seen.values().all(|&count| count == 1),
                        "a clip comes twice in a pass"
                    );
                }
            }
            assert_ne!(epoch(&sampler, 0), epoch(&sampler, 1));
        }
    }

    #[test]
    fn clips_of_a_video_stay_in_its_stream_and_window() {
        let clips = VideoClips::Equal {
            videos: 300,
            clips: 8,
        };
        let mix = mix(&[1600, 800], &[1.0, 3.0], 1600);
        let (streams, block) = (4, 160);
        let sampler = sampler(&mix, &clips, streams, block);
        let mut places: HashMap<(u64, u32), Vec<u64>> = HashMap::new();
        for (position, (clip, pass)) in (0..).zip(epoch(&sampler, 0)) {
            places.entry((clip / 8, pass)).or_default().push(position);
        }
        let (mut in_two, mut apart) = (0, 0);
        for found in places.values() {
            let streams_of: Vec<u64> = found.iter().map(|p| p % u64::from(streams)).collect();
            in_two += usize::from(streams_of.iter().any(|s| s != &streams_of[0]));
            for stream in 0..u64::from(streams) {
                let own: Vec<_> = found
                    .iter()
                    .filter(|p| *p % u64::from(streams) == stream)
                    .collect();
                if let (Some(first), Some(last)) = (own.first(), own.last()) {
                    // The window, the chunk, and turns of the other dataset in a block.
                    apart += usize::from(*last - *first > 2 * block + 16 * u64::from(streams));
                }
            }
        }
        // A stream of a dataset cuts one chunk where it rotates, in each pass.
        assert!(apart <= 12, "{apart}");
        // Each stream of each dataset ends within a chunk, in each pass.
        assert!(in_two <= 12, "{in_two}");
    }

    #[test]
    fn clips_of_a_dataset_come_equally_often() {
        // Streams of one and two clips, of about seven, and equally long ones.
        for (sizes, streams, most) in [
            ([600_u64, 24], 16_u32, 3),
            ([600, 120], 16, 2),
            ([1024, 128], 16, 2),
        ] {
            let clips = VideoClips::Equal {
                videos: (sizes[0] + sizes[1]) / 8,
                clips: 8,
            };
            let mix = mix(&sizes, &[1.0, 1.0], 3001);
            let sampler = sampler(&mix, &clips, streams, 200);
            for number in 0..8 {
                let mut counts = vec![0_u64; (sizes[0] + sizes[1]) as usize];
                for (clip, _) in epoch(&sampler, number) {
                    counts[clip as usize] += 1;
                }
                for own in [&counts[..sizes[0] as usize], &counts[sizes[0] as usize..]] {
                    let (least, largest) = (own.iter().min().unwrap(), own.iter().max().unwrap());
                    assert!(
                        largest - least <= most,
                        "{sizes:?} {number}: {least} to {largest}"
                    );
                }
            }
        }
    }

    #[test]
    fn any_position_is_the_same_however_it_is_reached() {
        let clips = VideoClips::Offsets([0, 5, 6, 30, 90, 100].into());
        let mix = mix(&[30, 70], &[1.0, 1.0], 260);
        let whole = epoch(&sampler(&mix, &clips, 3, 50), 2);
        for position in [0, 7, 100, 133, 259] {
            let entered = sampler(&mix, &clips, 3, 50);
            assert_eq!(
                entered.clips(2, &mut [position].into_iter()),
                [whole[position as usize]]
            );
        }
    }

    #[test]
    fn dataset_that_ends_within_a_video_is_rejected() {
        let clips = VideoClips::Offsets([0, 5, 6, 30].into());
        let config = GroupedConfig {
            num_streams: 1,
            block_size: 9,
            max_chunk: 64,
        };
        let error =
            GroupedMixSampler::new(&mix(&[4, 26], &[1.0, 1.0], 9), &clips, config, 0).unwrap_err();
        assert!(error.to_string().contains("ends with dataset 0"), "{error}");
    }
}
