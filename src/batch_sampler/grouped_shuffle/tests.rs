use super::*;
use proptest::prelude::*;

fn offsets(lengths: &[u64]) -> VideoClips {
    let mut sum = 0;
    let mut offsets = vec![0];
    offsets.extend(lengths.iter().map(|length| {
        sum += length;
        sum
    }));
    VideoClips::Offsets(offsets.into())
}

fn shuffle(
    clips: &VideoClips,
    num_streams: u32,
    block_size: u64,
    max_chunk: u32,
) -> Arc<GroupedShuffle> {
    let config = GroupedConfig {
        num_streams,
        block_size,
        max_chunk,
    };
    Arc::new(GroupedShuffle::new(clips.clone(), config).unwrap())
}

fn order(shuffle: &Arc<GroupedShuffle>, seed: u64, epoch: u64) -> Vec<u64> {
    let mut order = shuffle.epoch(seed, epoch);
    (0..shuffle.num_clips())
        .map(|position| order.clip(position))
        .collect()
}

/// The order by its definition: all keys of a stream, sorted. Also returns the parts of chunks in
/// each stream.
fn by_definition(shuffle: &Arc<GroupedShuffle>, seed: u64, epoch: u64) -> (Vec<u64>, usize) {
    let state = shuffle.epoch(seed, epoch);
    let mut list = Vec::new();
    for chunk in (0..shuffle.num_chunks()).map(|at| shuffle.chunks.get(state.permutation.get(at))) {
        let start = list.len() as u64;
        let mut ranked: Vec<_> = (start..start + chunk.end - chunk.start)
            .map(|x| (mix(x, state.clip_key), x))
            .collect();
        ranked.sort_unstable();
        let places = ranked.iter().map(|&(_, x)| x);
        let mut clips: Vec<(u64, u64)> = places.zip(chunk.clone()).collect();
        clips.sort_unstable();
        list.extend(clips.into_iter().map(|(_, clip)| (clip, chunk.clone())));
    }
    let (mut streams, mut num_parts) = (Vec::new(), 0);
    for stream in 0..shuffle.num_streams {
        let mut keys = Vec::new();
        for segment in state.segments(stream) {
            let before = keys.len() as u64;
            let mut part = segment.start;
            for x in segment.clone() {
                let (clip, chunk) = &list[x as usize];
                if x > segment.start && list[x as usize - 1].1 != *chunk {
                    part = x;
                }
                num_parts += usize::from(part == x);
                let end = (part..segment.end)
                    .find(|&y| list[y as usize].1 != *chunk)
                    .unwrap_or(segment.end);
                let u = u128::from(mix(x, state.spread_key) >> 44);
                let spread = u128::from(shuffle.spread) * (u128::from(x - part) * (1 << 20) + u);
                let start = u128::from(before + part - segment.start) * (1 << 20);
                let spread_key = start + spread / u128::from(end - part);
                let key = if shuffle.uniform {
                    u128::from(mix(x, state.spread_key))
                } else {
                    spread_key
                };
                keys.push((key, before + x - segment.start, *clip));
            }
        }
        keys.sort_unstable();
        streams.push(keys);
    }
    let position =
        |p: u64| streams[(p % shuffle.num_streams) as usize][(p / shuffle.num_streams) as usize].2;
    ((0..shuffle.num_clips()).map(position).collect(), num_parts)
}

// Expected values computed by an independent Python implementation
// (tests/python/grouped_oracle.py).
const GOLDEN_EQUAL: [u64; 18] = [7, 4, 11, 16, 9, 3, 10, 17, 14, 15, 13, 2, 12, 1, 6, 0, 8, 5];
const GOLDEN_UNEQUAL: [u64; 16] = [9, 1, 7, 2, 8, 15, 12, 14, 4, 0, 11, 10, 6, 13, 5, 3];

#[test]
fn order_never_changes_between_releases() {
    let equal = shuffle(
        &VideoClips::Equal {
            videos: 6,
            clips: 3,
        },
        2,
        8,
        4,
    );
    assert_eq!(order(&equal, 5, 1), GOLDEN_EQUAL);
    assert_eq!(
        order(&shuffle(&offsets(&[3; 6]), 2, 8, 4), 5, 1),
        GOLDEN_EQUAL
    );
    assert_eq!(
        order(&shuffle(&offsets(&[1, 9, 0, 4, 2]), 2, 8, 4), 5, 1),
        GOLDEN_UNEQUAL
    );
}

fn datasets() -> impl Strategy<Value = VideoClips> {
    prop_oneof![
        (0_u64..60, 1_u64..40).prop_map(|(videos, clips)| VideoClips::Equal { videos, clips }),
        proptest::collection::vec(0_u64..30, 0..50).prop_map(|lengths| offsets(&lengths)),
        proptest::collection::vec(prop_oneof![Just(1_u64), Just(400)], 1..8)
            .prop_map(|lengths| offsets(&lengths)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn order_is_the_definition(
        clips in datasets(), streams in 1_u32..20, block in 0_u64..2000, max_chunk in 1_u32..70, seed: u64,
    ) {
        let shuffle = shuffle(&clips, streams, block, max_chunk);
        let found = order(&shuffle, seed, 3);
        let (expected, num_parts) = by_definition(&shuffle, seed, 3);
        prop_assert_eq!(&found, &expected);
        let mut sorted = found;
        sorted.sort_unstable();
        prop_assert!(sorted.into_iter().eq(0..clips.num_clips()));
        // A stream cuts a chunk where it begins, and another one where it rotates.
        let cuts = u64::from(streams) * if shuffle.rotates { 2 } else { 1 };
        prop_assert!((num_parts as u64) < shuffle.num_chunks() + cuts);
    }

    #[test]
    fn any_position_is_the_same_however_it_is_reached(
        clips in datasets(), streams in 1_u32..9, block in 0_u64..500, positions in proptest::collection::vec(any::<u64>(), 1..20),
    ) {
        let shuffle = shuffle(&clips, streams, block, 16);
        prop_assume!(shuffle.num_clips() > 0);
        let whole = order(&shuffle, 5, 1);
        let mut entered = shuffle.epoch(5, 1);
        for position in positions {
            let position = position % shuffle.num_clips();
            prop_assert_eq!(entered.clip(position), whole[position as usize]);
            prop_assert_eq!(shuffle.epoch(5, 1).clip(position), whole[position as usize]);
        }
    }

    #[test]
    fn clips_of_a_chunk_stay_within_a_window(
        clips in datasets(), streams in 1_u32..9, block in 0_u64..2000, max_chunk in 1_u32..70, seed: u64,
    ) {
        let shuffle = shuffle(&clips, streams, block, max_chunk);
        prop_assume!(!shuffle.uniform);
        let state = shuffle.epoch(seed, 1);
        let first_of = |clip: u64| (0..shuffle.num_chunks()).map(|n| shuffle.chunks.get(n)).find(|c| c.contains(&clip));
        let mut of_part = HashMap::<(u64, u64, bool), (u64, u64)>::new();
        let chunk_of: HashMap<u64, u64> =
            (0..shuffle.num_clips()).map(|clip| (clip, first_of(clip).map_or(0, |chunk| chunk.start))).collect();
        for (position, clip) in (0..).zip(order(&shuffle, seed, 1)) {
            let (stream, place) = (position % shuffle.num_streams, position / shuffle.num_streams);
            // The part of the chunk that a rotation moves to the end of the stream is far from the
            // rest.
            let [_, moved] = state.segments(stream);
            let late = place > shuffle.stream_len(stream) / 2 && !moved.is_empty();
            of_part.entry((stream, chunk_of[&clip], late)).or_insert((place, place)).1 = place;
        }
        // The keys of a part span less than the spread. The random parts of the keys between move
        // places by the standard deviation of at most `spread` coins, of which the limit is four.
        let reach = shuffle.spread + shuffle.chunks.max_len + 4 * (shuffle.spread / 4).isqrt();
        for ((stream, chunk, _), (first, last)) in of_part {
            prop_assert!(last - first <= reach, "chunk at {} in stream {}: {} > {}", chunk, stream, last - first, reach);
        }
    }
}

/// Largest number of clips that a rank holds if it makes all clips of a chunk with the first of
/// them.
fn most_held(shuffle: &Arc<GroupedShuffle>, ranks: u64, positions: Range<u64>) -> u64 {
    let mut order = shuffle.epoch(3, 0);
    let clips: Vec<u64> = positions
        .filter(|position| position % ranks == 0)
        .map(|position| order.clip(position))
        .collect();
    let chunk_of = |clip: u64| clip / shuffle.chunks.equal_len.unwrap();
    let mut left = HashMap::<u64, u64>::new();
    clips
        .iter()
        .for_each(|&clip| *left.entry(chunk_of(clip)).or_default() += 1);
    let (mut held, mut most, mut seen) = (0, 0, std::collections::HashSet::new());
    for clip in clips {
        held = if seen.insert(chunk_of(clip)) {
            held + left[&chunk_of(clip)] - 1
        } else {
            held - 1
        };
        most = most.max(held);
    }
    most
}

#[test]
fn streams_of_equal_chunks_do_not_begin_them_together() {
    let (ranks, cached) = (8, 890);
    // (clips per video, clips per batch, workers): with 51,200 videos, every stream begins with a
    // whole chunk.
    for (clips, batch_size, num_workers) in
        [(64, 8, 2), (16, 32, 2), (64, 32, 4), (64, 8, 1), (16, 8, 1)]
    {
        let videos = VideoClips::Equal {
            videos: 51_200,
            clips,
        };
        let consumers = Consumers {
            num_shards: ranks,
            num_workers,
            batch_size,
        };
        let options = GroupedOptions {
            cached_clips: cached,
            ..GroupedOptions::default()
        };
        let config = GroupedConfig::derive(options, &videos, consumers);
        let shuffle = Arc::new(GroupedShuffle::new(videos, config).unwrap());
        // One worker has the streams of every `num_workers`-th batch. Its streams alone are those
        // of a rank of as many.
        let consumers = u64::from(ranks * num_workers);
        let streams = u64::from(config.num_streams) / consumers;
        let positions = 0..30_000 * consumers;
        let held = most_held(&shuffle, consumers, positions);
        assert!(
            held <= cached,
            "{clips} clips per video, {streams} streams per worker: {held} > {cached}, {config:?}"
        );
    }
}

#[test]
fn number_of_ranks_does_not_change_the_order() {
    let shuffle = shuffle(
        &VideoClips::Equal {
            videos: 50,
            clips: 12,
        },
        24,
        300,
        64,
    );
    let whole = order(&shuffle, 1, 2);
    let video_of = |clip: u64| clip / 12;
    for ranks in [1, 2, 3, 4, 6, 8, 12, 24] {
        let mut merged = vec![0; whole.len()];
        let mut owners = HashMap::<u64, Vec<usize>>::new();
        for rank in 0..ranks {
            let mut own = shuffle.epoch(1, 2);
            for position in (rank..whole.len()).step_by(ranks) {
                merged[position] = own.clip(position as u64);
                owners
                    .entry(video_of(merged[position]))
                    .or_default()
                    .push(rank);
            }
        }
        assert_eq!(merged, whole);
        // Only the chunks that a stream's end cuts have clips on two ranks.
        let shared = owners
            .values_mut()
            .filter(|own| own.iter().any(|rank| *rank != own[0]))
            .count();
        assert!(
            shared < 24,
            "{ranks} ranks: {shared} videos on several ranks"
        );
    }
}

#[test]
fn every_clip_is_equally_likely_at_every_place() {
    let (videos, clips, epochs, bins) = (50, 4, 2000_u64, 10);
    let shuffle = shuffle(&VideoClips::Equal { videos, clips }, 4, 60, 64);
    let n = videos * clips;
    let mut counts = vec![[0_f64; 10]; n as usize];
    let mut before = vec![0_u32; n as usize];
    for epoch in 0..epochs {
        let mut places = vec![0; n as usize];
        for (position, clip) in order(&shuffle, 9, epoch).into_iter().enumerate() {
            places[clip as usize] = position;
            counts[clip as usize][position * bins / n as usize] += 1.0;
        }
        for clip in 1..n as usize {
            before[clip] += u32::from(places[clip - 1] < places[clip]);
        }
    }
    let expected = epochs as f64 / bins as f64;
    let chi = counts.iter().map(|c| {
        c.iter()
            .map(|c| (c - expected).powi(2) / expected)
            .sum::<f64>()
    });
    let mean = chi.sum::<f64>() / n as f64;
    // Nine degrees of freedom: the mean is 9, its standard deviation over 200 clips sqrt(18 / 200)
    // = 0.3.
    assert!((mean - 9.0).abs() < 1.2, "{mean}");
    // A fair coin over 2000 epochs has a standard deviation of 22; the limit is five of them.
    assert!(
        before[1..].iter().all(|b| b.abs_diff(1000) < 112),
        "{before:?}"
    );
}

#[test]
fn long_datasets_are_entered_at_any_position() {
    let clips = VideoClips::Equal {
        videos: 10_000_000_000,
        clips: 16,
    };
    let shuffle = shuffle(&clips, 4096 * 8, 1_400_000 * 4096, 64);
    let mut order = shuffle.epoch(0, 0);
    for position in [0, 1, 80_000_000_003, clips.num_clips() - 1] {
        assert!(order.clip(position) < clips.num_clips());
    }
    let few = shuffle.clone();
    assert_eq!(
        few.epoch(0, 0).clip(80_000_000_003),
        order.clip(80_000_000_003)
    );
}

#[test]
fn next_epoch_is_prepared_in_the_background() {
    let lengths: Vec<u64> = (0..PREPARED_CHUNKS).map(|n| 1 + n % 3).collect();
    let config = GroupedConfig {
        num_streams: 4,
        block_size: 900,
        max_chunk: 64,
    };
    let make = || {
        let shuffle = GroupedShuffle::new(offsets(&lengths), config).unwrap();
        GroupedSampler::new(shuffle, config, 7)
    };
    let read = |sampler: &GroupedSampler, epoch| sampler.clips(epoch, &mut (500..600));
    let (prepared, plain) = (make(), make());
    assert_eq!(read(&prepared, 0), read(&plain, 0));
    prepared
        .prepare_on_thread(1)
        .expect("a thread")
        .join()
        .unwrap();
    let known = |epoch| {
        prepared
            .cached
            .lock()
            .unwrap()
            .iter()
            .any(|(number, _)| *number == epoch)
    };
    assert!(known(0) && known(1));
    assert_eq!(read(&prepared, 1), read(&plain, 1));
    // Small datasets are not prepared: their pass takes less than a thread.
    let few = GroupedSampler::new(
        GroupedShuffle::new(offsets(&[1, 2, 3]), config).unwrap(),
        config,
        7,
    );
    assert!(few.prepare_on_thread(1).is_none());
}

#[test]
fn empty_and_tiny_datasets_have_an_order() {
    assert_eq!(
        order(
            &shuffle(
                &VideoClips::Equal {
                    videos: 0,
                    clips: 3
                },
                4,
                9,
                2
            ),
            0,
            0
        ),
        [0; 0]
    );
    assert_eq!(order(&shuffle(&offsets(&[]), 4, 9, 2), 0, 0), [0; 0]);
    assert_eq!(order(&shuffle(&offsets(&[0, 0, 1, 0]), 4, 9, 2), 0, 0), [0]);
    let one_video = order(&shuffle(&offsets(&[9]), 2, u64::MAX, 64), 0, 0);
    assert_eq!(one_video.iter().sum::<u64>(), 36);
    let config = GroupedConfig {
        num_streams: 0,
        block_size: 1,
        max_chunk: 1,
    };
    assert!(
        GroupedShuffle::new(offsets(&[1]), config)
            .unwrap_err()
            .to_string()
            .contains("num_streams")
    );
    let config = GroupedConfig {
        num_streams: 1,
        block_size: 1,
        max_chunk: 0,
    };
    assert!(
        GroupedShuffle::new(offsets(&[1]), config)
            .unwrap_err()
            .to_string()
            .contains("max_chunk")
    );
}
