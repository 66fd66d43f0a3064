//! Arguments of batch samplers: clips, ranks, workers, sizes, weights, most of them invalid.
//! Batches must have the reported lengths and every clip once over all ranks, or an error results.
//! Batch sizes are limited to some thousand clips.

use std::collections::HashSet;

use framespool::batch_sampler::grouped_shuffle::{GroupedOptions, VideoClips, WeightConfig};
use framespool::batch_sampler::{
    BatchSampler, BatchSamplerConfig, LastBatchPolicy, MixConfig, Shuffle,
};

use super::{MIB, Target, USUAL, check_error};
use crate::fuzz_input::FuzzInput;

pub const ORDER: Target = Target {
    name: "order",
    about: "batch sampler arguments: clips, ranks, workers, batches, weights",
    seeds: |_| {
        (0..32u8)
            .map(|n| {
                (0..40u8)
                    .map(|at| at.wrapping_mul(37).wrapping_add(n.wrapping_mul(11)))
                    .collect()
            })
            .collect()
    },
    run,
    longest: 200,
    memory_bytes: 256 * MIB,
    replayed: 10_000,
    ..USUAL
};

/// Maximum number of clips of a batch, and of an epoch, that are checked completely.
const MAX_CLIPS: u64 = 4096;

fn run(input: &[u8]) {
    let mut case = FuzzInput::new(input);
    let config = config(&mut case);
    let Ok(order) = check_error(BatchSampler::new(config.clone())) else {
        return;
    };
    let (batches, slots) = (order.len_batches(), order.num_samples());
    let group = u64::from(config.clips_per_group);
    let num_clips = config.num_clips * group;
    let most = u64::from(config.batch_size)
        .saturating_mul(u64::from(config.repeats))
        .saturating_mul(group);
    assert!(u128::from(slots) <= u128::from(batches) * u128::from(most));
    assert!(order.batch(0, batches).is_empty() && order.batch(1, u64::MAX).is_empty());
    if most > MAX_CLIPS {
        return;
    }
    let epoch = case.long();
    let mix = config.mix.as_ref();
    for batch in [
        0,
        1,
        batches / 2,
        batches.saturating_sub(2),
        batches.saturating_sub(1),
    ] {
        let found = order.batch(epoch, batch);
        assert_eq!(
            found.is_empty(),
            batch >= batches,
            "batch {batch} of {batches}"
        );
        assert!(found.len() as u64 <= most);
        assert!(found.iter().all(|slot| slot.clip < num_clips), "{found:?}");
        assert!(
            found.is_sorted_by_key(|slot| slot.padding),
            "real clips come first"
        );
        assert_eq!(
            found,
            order.batch(epoch, batch),
            "different clips the second time"
        );
    }
    if batches.saturating_mul(most) > MAX_CLIPS || config.num_shards > 8 || num_clips > MAX_CLIPS {
        return;
    }
    let mine: u64 = (0..batches)
        .map(|batch| order.batch(epoch, batch).len() as u64)
        .sum();
    assert_eq!(mine, slots, "the reported number of slots");
    if mix.is_some() || config.num_workers > 4 || config.repeats != 1 {
        return;
    }
    let mut seen = vec![0u32; num_clips as usize];
    let mut visits = HashSet::new();
    for shard_id in 0..config.num_shards {
        for worker_id in 0..config.num_workers {
            let other = BatchSampler::new(BatchSamplerConfig {
                shard_id,
                worker_id,
                ..config.clone()
            })
            .expect("another rank");
            assert!(
                worker_id != config.worker_id || other.len_batches() == batches,
                "ranks of different lengths"
            );
            for batch in 0..other.len_batches() {
                for slot in other
                    .batch(epoch, batch)
                    .iter()
                    .filter(|slot| !slot.padding)
                {
                    seen[slot.clip as usize] += 1;
                    assert!(
                        visits.insert((slot.clip, slot.occurrence)),
                        "a visit twice in an epoch: {slot:?}"
                    );
                }
            }
        }
    }
    let all = config.last_batch != LastBatchPolicy::Drop;
    if let Some(weights) = &config.weights {
        let expected = weights.epoch_clips.unwrap_or(config.num_clips) * group;
        assert!(visits.len() as u64 == expected || !all && (visits.len() as u64) < expected);
        return;
    }
    assert!(
        seen.iter().all(|&times| times <= 1),
        "a clip twice in an epoch: {seen:?}"
    );
    assert!(
        !all || seen.iter().all(|&times| times == 1),
        "a clip is missing: {seen:?}"
    );
}

fn config(case: &mut FuzzInput<'_>) -> BatchSamplerConfig {
    let sizes = case.maybe(|case| case.some(6, FuzzInput::long));
    // Of a grouped mix: every video has as many clips.
    let each = case
        .maybe(|case| u64::from(case.count() % 8 + 1))
        .filter(|_| sizes.is_some());
    let sizes = sizes.map(|sizes| match each {
        Some(each) => sizes
            .into_iter()
            .map(|size| size % (1 << 20) * each)
            .collect(),
        None => sizes,
    });
    let mix = sizes.map(|sizes| MixConfig {
        weights: if case.flag() {
            vec![1.0; sizes.len()]
        } else {
            sizes.iter().map(|_| case.number()).collect()
        },
        replacement: case.flag(),
        epoch_clips: case.maybe(FuzzInput::long),
        sizes,
    });
    // Consistent combinations are rare by chance.
    let whole = mix.as_ref().filter(|_| !case.byte().is_multiple_of(8));
    let sum = whole.map(|mix| {
        mix.sizes
            .iter()
            .fold(0u64, |sum, &size| sum.saturating_add(size))
    });
    let num_shards = case.count();
    let num_workers = case.count();
    let lengths = case
        .maybe(|case| case.some(12, |case| u64::from(case.count() % 100)))
        .filter(|_| mix.is_none());
    let video_clips = lengths.map(|lengths| {
        let ends = lengths.iter().scan(0, |end, length| {
            *end += length;
            Some(*end)
        });
        VideoClips::Offsets(std::iter::once(0).chain(ends).collect())
    });
    let total = sum.filter(|_| each.is_some());
    let video_clips = video_clips.or_else(|| {
        let clips = each?;
        Some(VideoClips::Equal {
            videos: total? / clips,
            clips,
        })
    });
    let sum = sum.or(video_clips.as_ref().map(VideoClips::num_clips));
    let num_videos = video_clips.as_ref().map_or(0, VideoClips::num_videos);
    let weights = case.maybe(|case| WeightConfig {
        weights: match case.flag() {
            true => (0..num_videos.min(100))
                .map(|_| f64::from(case.count() % 5))
                .collect(),
            false => case.some(12, FuzzInput::number).into(),
        },
        replacement: case.flag(),
        // Copies of videos of different lengths are listed for each epoch.
        epoch_clips: case.maybe(|case| u64::from(case.count()) << (case.next_below(8) * 3)),
    });
    BatchSamplerConfig {
        num_clips: sum.unwrap_or_else(|| case.long()),
        shuffle: match case.next_below(3) {
            0 if mix.is_some() => Shuffle::Full,
            _ if video_clips.is_some() => Shuffle::Grouped(GroupedOptions {
                num_streams: case.maybe(|case| case.count() % 40),
                block_size: case.maybe(FuzzInput::long),
                max_chunk: case.count() % 70,
                cached_clips: case.long(),
            }),
            0 => Shuffle::Off,
            1 => Shuffle::Full,
            _ => Shuffle::Buffer {
                initial_fill: case.count(),
            },
        },
        repeats: if case.flag() { 1 } else { case.count() },
        seed: case.long(),
        shard_id: if !case.byte().is_multiple_of(8) {
            case.count() % num_shards.max(1)
        } else {
            case.count()
        },
        num_shards,
        stick_to_shard: mix.is_none() && case.flag(),
        num_nodes: if case.flag() { 1 } else { case.count() % 5 },
        worker_id: if !case.byte().is_multiple_of(8) {
            case.count() % num_workers.max(1)
        } else {
            case.count()
        },
        num_workers,
        batch_size: case.count(),
        last_batch: case.one_of(&[
            LastBatchPolicy::Partial,
            LastBatchPolicy::Drop,
            LastBatchPolicy::Fill,
        ]),
        mix,
        video_clips,
        weights: weights.filter(|_| !case.flag()),
        clips_per_group: if case.flag() { 1 } else { 1 + case.count() % 4 },
    }
}
