//! Divides the videos among machines, once for all epochs, so that the clips of a video are always
//! delivered by ranks of the same machine.
//!
//! A keyed permutation of the videos (none without a shuffle) is cut into `num_nodes` consecutive
//! parts, whose numbers of clips differ by at most those of one video. Each part has an order of
//! its own, which the ranks of its machine share. Parts with fewer clips are padded to the length
//! of the longest one; with [`LastBatchPolicy::Drop`] all have the batches of the shortest one.
//!
//! The parts have one block of a grouped shuffle, so that a checkpoint of any rank fits all ranks.

use std::ops::Range;
use std::sync::Arc;

use super::grouped_shuffle::{Consumers, VideoClips};
use super::order::{GroupedConfig, Order};
use super::permutation::Permutation;
use super::{BatchSamplerConfig, LastBatchPolicy, Shuffle};
use crate::error::{Result, invalid_argument};
use crate::rng::{Purpose, RngKey};

/// The order of the clips of one machine.
#[derive(Debug)]
pub(super) struct NodeOrder {
    /// The order of its clips, which are numbered from 0.
    order: Box<dyn Order>,
    clips: NodeClips,
    /// Clips of the longest or the shortest part.
    required_clips: u64,
    /// The parameters of the grouped shuffle, the same for all machines; `None` if the clips of no
    /// machine are grouped.
    grouped: Option<GroupedConfig>,
}

/// The clips of a part.
#[derive(Debug)]
enum NodeClips {
    /// Videos with equally many clips, at these places of the permutation.
    Equal {
        permutation: Option<Permutation>,
        videos: Range<u64>,
        clips: u64,
    },
    /// The first clip of each video in the dataset, and in the part; then the number of all clips
    /// of the part.
    Listed {
        firsts: Vec<u64>,
        starts: Arc<[u64]>,
    },
}

impl NodeOrder {
    /// `order_of` makes the order of a part.
    ///
    /// # Errors
    /// `Argument` if a machine has no clip.
    pub(super) fn new(
        config: &BatchSamplerConfig,
        order_of: &dyn Fn(&BatchSamplerConfig) -> Result<Box<dyn Order>>,
    ) -> Result<Self> {
        let &BatchSamplerConfig {
            num_nodes,
            num_shards,
            shard_id,
            last_batch,
            seed,
            ..
        } = config;
        let ranks = num_shards / num_nodes;
        let node = shard_id / ranks;
        let parts = Parts::new(config);
        let lengths = parts.lengths();
        if let Some(empty) = lengths.iter().position(|&length| length == 0) {
            return invalid_argument(format!(
                "num_nodes={num_nodes} parts of {} videos leave part {empty} without clips; use a smaller num_nodes",
                parts.videos.num_videos()
            ));
        }
        let length = match last_batch {
            LastBatchPolicy::Drop => lengths.iter().min(),
            LastBatchPolicy::Partial | LastBatchPolicy::Fill => lengths.iter().max(),
        };
        let clips = parts.clips(node as usize);
        let mut shuffle = config.shuffle;
        let mut grouped = None;
        if let (Shuffle::Grouped(options), Some(videos)) = (&mut shuffle, &config.video_clips) {
            let consumers = Consumers {
                num_shards: ranks,
                // The block derives from the ranks alone.
                num_workers: 1,
                batch_size: config.batch_size,
            };
            let longest = (0..lengths.len()).max_by_key(|&part| lengths[part]);
            let longest = parts.clips(longest.unwrap_or(0)).video_clips();
            let derived = GroupedConfig::derive(*options, &longest, consumers);
            options.fix(derived);
            grouped = (videos.max_clips() > 1 && derived.max_chunk > 1).then_some(derived);
        }
        let mut own_seed = RngKey {
            seed,
            epoch: 0,
            clip: 0,
            occurrence: node.into(),
        }
        .rng(Purpose::Nodes);
        let order = order_of(&BatchSamplerConfig {
            num_clips: lengths[node as usize],
            seed: own_seed.next_u64(),
            num_shards: ranks,
            num_nodes: 1,
            num_workers: 1,
            shuffle,
            video_clips: config.video_clips.as_ref().map(|_| clips.video_clips()),
            ..config.clone()
        })?;
        Ok(Self {
            order,
            clips,
            required_clips: length.copied().unwrap_or(0),
            grouped,
        })
    }
}

impl Order for NodeOrder {
    fn num_clips(&self) -> u64 {
        self.order.num_clips()
    }

    fn required_clips(&self) -> u64 {
        self.required_clips
    }

    fn clips(&self, epoch: u64, positions: &mut dyn Iterator<Item = u64>) -> Vec<(u64, u32)> {
        let mut clips = self.order.clips(epoch, positions);
        for (clip, _) in &mut clips {
            *clip = self.clips.in_dataset(*clip);
        }
        clips
    }

    fn grouped(&self) -> Option<GroupedConfig> {
        self.grouped
    }

    fn prepare(&self, epoch: u64) {
        self.order.prepare(epoch);
    }
}

/// The videos of all parts.
struct Parts {
    videos: VideoClips,
    /// Order of the videos; `None` for that of the dataset.
    permutation: Option<Permutation>,
    /// Places of the videos of each part in that order.
    places: Vec<Range<u64>>,
}

impl Parts {
    fn new(config: &BatchSamplerConfig) -> Self {
        let videos = config.videos();
        let (count, parts) = (videos.num_videos(), u64::from(config.num_nodes));
        let key = RngKey {
            seed: config.seed,
            epoch: 0,
            clip: 0,
            occurrence: 0,
        };
        let permutation = (config.shuffle != Shuffle::Off)
            .then(|| Permutation::keyed(key, Purpose::NodeVideos, count));
        let share = |total: u64, part: u64| {
            (u128::from(total) * u128::from(part) / u128::from(parts)) as u64
        };
        let ends: Vec<u64> = match &videos {
            VideoClips::Equal { .. } => (1..=parts).map(|part| share(count, part)).collect(),
            VideoClips::Offsets(_) => {
                // A part ends with the video with which its share is reached.
                let (total, mut ends, mut sum) = (videos.num_clips(), Vec::new(), 0);
                for place in 0..count {
                    while ends.len() as u64 + 1 < parts
                        && sum >= share(total, ends.len() as u64 + 1)
                    {
                        ends.push(place);
                    }
                    let clips =
                        videos.clips_of(permutation.as_ref().map_or(place, |p| p.get(place)));
                    sum += clips.end - clips.start;
                }
                ends.resize(parts as usize, count);
                ends
            }
        };
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let places = starts.zip(&ends).map(|(start, &end)| start..end).collect();
        Self {
            videos,
            permutation,
            places,
        }
    }

    fn video(&self, place: u64) -> u64 {
        self.permutation
            .as_ref()
            .map_or(place, |permutation| permutation.get(place))
    }

    fn lengths(&self) -> Vec<u64> {
        let of_part = |places: &Range<u64>| match &self.videos {
            VideoClips::Equal { clips, .. } => (places.end - places.start).saturating_mul(*clips),
            VideoClips::Offsets(_) => places
                .clone()
                .map(|place| self.videos.clips_of(self.video(place)))
                .map(|c| c.end - c.start)
                .sum(),
        };
        self.places.iter().map(of_part).collect()
    }

    fn clips(&self, part: usize) -> NodeClips {
        let places = self.places[part].clone();
        match &self.videos {
            VideoClips::Equal { clips, .. } => NodeClips::Equal {
                permutation: self.permutation.clone(),
                videos: places,
                clips: *clips,
            },
            VideoClips::Offsets(_) => {
                let ranges: Vec<_> = places
                    .map(|place| self.videos.clips_of(self.video(place)))
                    .collect();
                let mut sum = 0;
                let ends = ranges.iter().map(|clips| {
                    sum += clips.end - clips.start;
                    sum
                });
                let starts = std::iter::once(0).chain(ends.collect::<Vec<_>>()).collect();
                NodeClips::Listed {
                    firsts: ranges.iter().map(|clips| clips.start).collect(),
                    starts,
                }
            }
        }
    }
}

impl NodeClips {
    fn video_clips(&self) -> VideoClips {
        match self {
            Self::Equal { videos, clips, .. } => VideoClips::Equal {
                videos: videos.end - videos.start,
                clips: *clips,
            },
            Self::Listed { starts, .. } => VideoClips::Offsets(starts.clone()),
        }
    }

    /// The number in the dataset of a clip of the part.
    fn in_dataset(&self, clip: u64) -> u64 {
        match self {
            Self::Equal {
                permutation,
                videos,
                clips,
            } => {
                let place = videos.start + clip / clips;
                permutation.as_ref().map_or(place, |p| p.get(place)) * clips + clip % clips
            }
            Self::Listed { firsts, starts } => {
                let video = starts
                    .partition_point(|&start| start <= clip)
                    .saturating_sub(1);
                firsts[video] + (clip - starts[video])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::super::grouped_shuffle::GroupedOptions;
    use super::super::{BatchSampler, SampledClip};
    use super::*;

    const POLICIES: [LastBatchPolicy; 3] = [
        LastBatchPolicy::Partial,
        LastBatchPolicy::Drop,
        LastBatchPolicy::Fill,
    ];

    fn listed(lengths: impl IntoIterator<Item = u64>) -> VideoClips {
        let ends = lengths.into_iter().scan(0, |end, length| {
            *end += length;
            Some(*end)
        });
        VideoClips::Offsets(std::iter::once(0).chain(ends).collect())
    }

    fn shuffles() -> [Shuffle; 4] {
        let grouped = GroupedOptions {
            cached_clips: 20,
            max_chunk: 4,
            ..GroupedOptions::default()
        };
        [
            Shuffle::Off,
            Shuffle::Full,
            Shuffle::Buffer { initial_fill: 5 },
            Shuffle::Grouped(grouped),
        ]
    }

    /// All batches of each rank.
    fn epoch(base: &BatchSamplerConfig, epoch: u64) -> Vec<Vec<Vec<SampledClip>>> {
        let of_rank = |shard_id| {
            let order = BatchSampler::new(BatchSamplerConfig {
                shard_id,
                ..base.clone()
            })
            .unwrap();
            let batches: Vec<_> = (0..order.len_batches())
                .map(|batch| order.batch(epoch, batch))
                .collect();
            assert_eq!(
                batches.iter().map(Vec::len).sum::<usize>() as u64,
                order.num_samples()
            );
            batches
        };
        (0..base.num_shards).map(of_rank).collect()
    }

    #[test]
    fn each_clip_comes_once_on_the_machine_of_its_video() {
        let lengths = [3, 0, 1, 5, 2, 2, 7, 1, 0, 4, 6, 2, 1, 1, 3];
        for videos in [
            listed(lengths),
            VideoClips::Equal {
                videos: 19,
                clips: 2,
            },
        ] {
            for (shuffle, last_batch) in shuffles()
                .into_iter()
                .flat_map(|s| POLICIES.map(|p| (s, p)))
            {
                for (num_nodes, each) in [(2, 1), (2, 3), (3, 2), (4, 1)] {
                    let base = BatchSamplerConfig {
                        num_clips: videos.num_clips(),
                        video_clips: Some(videos.clone()),
                        shuffle,
                        seed: 8,
                        num_nodes,
                        num_shards: num_nodes * each,
                        batch_size: 2,
                        last_batch,
                        ..BatchSamplerConfig::default()
                    };
                    let mut node_of: HashMap<u64, usize> = HashMap::new();
                    for number in 0..3 {
                        let ranks = epoch(&base, number);
                        let sizes = |rank: &Vec<Vec<SampledClip>>| {
                            rank.iter().map(Vec::len).collect::<Vec<_>>()
                        };
                        assert!(
                            ranks.iter().all(|rank| sizes(rank) == sizes(&ranks[0])),
                            "{base:?}"
                        );
                        let mut seen = HashSet::new();
                        for (rank, batches) in ranks.iter().enumerate() {
                            for slot in batches.iter().flatten() {
                                assert!(slot.padding || seen.insert(slot.clip), "{base:?}");
                                let node = rank / each as usize;
                                assert_eq!(
                                    *node_of.entry(videos.video_of(slot.clip)).or_insert(node),
                                    node
                                );
                            }
                        }
                        let expected = match last_batch {
                            LastBatchPolicy::Drop => {
                                (base.num_shards as usize) * 2 * ranks[0].len()
                            }
                            _ => videos.num_clips() as usize,
                        };
                        assert_eq!(seen.len(), expected, "{base:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_checkpoint_of_any_rank_fits_all_ranks() {
        for videos in [
            listed((0..101).map(|video| video % 7)),
            // The longest part has single clips only.
            listed([1; 40].into_iter().chain([9])),
            VideoClips::Equal {
                videos: 101,
                clips: 6,
            },
        ] {
            for (cached_clips, num_nodes, max_chunk) in
                [(20, 2, 64), (1 << 20, 3, 64), (3, 2, 64), (20, 2, 1)]
            {
                let base = BatchSamplerConfig {
                    num_clips: videos.num_clips(),
                    video_clips: Some(videos.clone()),
                    shuffle: Shuffle::Grouped(GroupedOptions {
                        cached_clips,
                        max_chunk,
                        ..GroupedOptions::default()
                    }),
                    num_nodes,
                    num_shards: 2 * num_nodes,
                    batch_size: 4,
                    ..BatchSamplerConfig::default()
                };
                let of_rank = |config: &BatchSamplerConfig, shard_id| {
                    BatchSampler::new(BatchSamplerConfig {
                        shard_id,
                        ..config.clone()
                    })
                    .unwrap()
                };
                let grouped = of_rank(&base, 0).grouped();
                assert_eq!(grouped.is_some(), max_chunk > 1, "{base:?}");
                let whole = epoch(&base, 1);
                for rank in 0..base.num_shards {
                    let written = of_rank(&base, rank);
                    assert_eq!(written.grouped(), grouped, "{base:?}");
                    // What a checkpoint has, on all ranks.
                    let resumed = BatchSamplerConfig {
                        shuffle: written.resolved_config().shuffle,
                        ..base.clone()
                    };
                    assert!(epoch(&resumed, 1) == whole, "{base:?}");
                }
            }
        }
    }

    #[test]
    fn parts_are_equally_long_and_random() {
        let videos = listed((0..1000).map(|video| video % 7 + 1));
        let base = BatchSamplerConfig {
            num_clips: videos.num_clips(),
            video_clips: Some(videos.clone()),
            shuffle: Shuffle::Full,
            num_nodes: 4,
            num_shards: 4,
            ..BatchSamplerConfig::default()
        };
        let parts = Parts::new(&base);
        let lengths = parts.lengths();
        assert!(
            lengths
                .iter()
                .all(|length| length.abs_diff(videos.num_clips() / 4) <= 7),
            "{lengths:?}"
        );
        for part in &parts.places {
            let early = part
                .clone()
                .filter(|&place| parts.video(place) < 500)
                .count();
            assert!(
                (90..160).contains(&early),
                "{early} of 250 videos are from the first half"
            );
        }
        let other = Parts::new(&BatchSamplerConfig { seed: 1, ..base });
        assert_ne!(other.video(0), parts.video(0));
    }

    #[test]
    fn more_ranks_with_smaller_batches_give_the_same_global_batches() {
        let of = |num_shards, batch_size| {
            let base = BatchSamplerConfig {
                num_clips: 100,
                shuffle: Shuffle::Full,
                num_nodes: 2,
                num_shards,
                batch_size,
                ..BatchSamplerConfig::default()
            };
            let ranks = epoch(&base, 4);
            let global = |batch: usize| {
                let clips = ranks
                    .iter()
                    .flat_map(|rank| &rank[batch])
                    .filter(|slot| !slot.padding);
                let mut clips: Vec<_> = clips.map(|slot| slot.clip).collect();
                clips.sort_unstable();
                clips
            };
            (0..ranks[0].len()).map(global).collect::<Vec<_>>()
        };
        assert_eq!(of(2, 6), of(4, 3));
        assert_eq!(of(2, 6), of(12, 1));
    }

    #[test]
    fn what_has_no_parts_is_refused() {
        let base = BatchSamplerConfig {
            num_clips: 9,
            num_shards: 4,
            num_nodes: 2,
            ..Default::default()
        };
        let refused =
            |config: BatchSamplerConfig| BatchSampler::new(config).unwrap_err().to_string();
        assert_eq!(
            refused(BatchSamplerConfig {
                num_nodes: 3,
                ..base.clone()
            }),
            "num_nodes must divide num_shards=4, got 3; it is the number of machines, each with as many ranks"
        );
        assert!(
            refused(BatchSamplerConfig {
                stick_to_shard: true,
                ..base.clone()
            })
            .starts_with("num_nodes must be 1 with")
        );
        assert_eq!(
            refused(BatchSamplerConfig {
                num_clips: 1,
                ..base
            }),
            "num_nodes=2 parts of 1 videos leave part 0 without clips; use a smaller num_nodes"
        );
    }
}
