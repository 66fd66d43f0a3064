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

fn shuffle(clips: &VideoClips, num_streams: u32, block_size: u64, max_chunk: u32) -> Arc<GroupedShuffle> {
    let config = GroupedConfig { num_streams, block_size, max_chunk };
    Arc::new(GroupedShuffle::new(clips.clone(), config).unwrap())
}

fn order(shuffle: &Arc<GroupedShuffle>, seed: u64, epoch: u64) -> Vec<u64> {
    let mut order = shuffle.epoch(seed, epoch);
    (0..shuffle.num_clips()).map(|position| order.clip(position)).collect()
}

/// The order by its definition: all keys of a stream, sorted. Also returns the parts of chunks in each stream.
fn by_definition(shuffle: &Arc<GroupedShuffle>, seed: u64, epoch: u64) -> (Vec<u64>, usize) {
    let state = shuffle.epoch(seed, epoch);
    let mut list = Vec::new();
    for chunk in (0..shuffle.num_chunks()).map(|at| shuffle.chunks.get(state.permutation.get(at))) {
        let start = list.len() as u64;
        let mut ranked: Vec<_> =
            (start..start + chunk.end - chunk.start).map(|x| (mix(x, state.clip_key), x)).collect();
        ranked.sort_unstable();
        let places = ranked.iter().map(|&(_, x)| x);
        let mut clips: Vec<(u64, u64)> = places.zip(chunk.clone()).collect();
        clips.sort_unstable();
        list.extend(clips.into_iter().map(|(_, clip)| (clip, chunk.clone())));
    }
    let (mut streams, mut num_parts) = (Vec::new(), 0);
    for stream in (0..shuffle.num_streams).map(|stream| shuffle.stream(stream)) {
        let mut keys = Vec::new();
        let mut part = stream.start;
        for x in stream.clone() {
            let (clip, chunk) = &list[x as usize];
            if x > stream.start && list[x as usize - 1].1 != *chunk {
                part = x;
            }
            num_parts += usize::from(part == x);
            let end = (part..stream.end).find(|&y| list[y as usize].1 != *chunk).unwrap_or(stream.end);
            let u = u128::from(mix(x, state.spread_key) >> 44);
            let spread = u128::from(shuffle.spread) * (u128::from(x - part) * (1 << 20) + u);
            let spread_key = u128::from(part - stream.start) * (1 << 20) + spread / u128::from(end - part);
            let key = if shuffle.uniform { u128::from(mix(x, state.spread_key)) } else { spread_key };
            keys.push((key, x, *clip));
        }
        keys.sort_unstable();
        streams.push(keys);
    }
    let position = |p: u64| streams[(p % shuffle.num_streams) as usize][(p / shuffle.num_streams) as usize].2;
    ((0..shuffle.num_clips()).map(position).collect(), num_parts)
}

// Expected values computed by an independent Python implementation (tests/python/grouped_oracle.py).
const GOLDEN_EQUAL: [u64; 18] = [6, 5, 8, 4, 7, 3, 11, 16, 9, 17, 10, 15, 14, 2, 13, 1, 12, 0];
const GOLDEN_UNEQUAL: [u64; 16] = [4, 10, 6, 13, 5, 3, 9, 1, 7, 2, 8, 15, 12, 14, 11, 0];

#[test]
fn order_never_changes_between_releases() {
    let equal = shuffle(&VideoClips::Equal { videos: 6, clips: 3 }, 2, 8, 4);
    assert_eq!(order(&equal, 5, 1), GOLDEN_EQUAL);
    assert_eq!(order(&shuffle(&offsets(&[3; 6]), 2, 8, 4), 5, 1), GOLDEN_EQUAL);
    assert_eq!(order(&shuffle(&offsets(&[1, 9, 0, 4, 2]), 2, 8, 4), 5, 1), GOLDEN_UNEQUAL);
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
        prop_assert!((num_parts as u64) < shuffle.num_chunks() + u64::from(streams));
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

}

#[test]
fn clips_of_a_chunk_stay_within_a_window() {
    for (lengths, streams, block, max_chunk) in [
        (vec![16; 400], 4_u64, 2000, 64),
        (vec![4; 1500], 8, 3000, 64),
        ((1..90).collect(), 3, 900, 32),
        (vec![3000, 1, 1, 2, 500, 1], 2, 700, 16),
    ] {
        let shuffle = shuffle(&offsets(&lengths), streams as u32, block, max_chunk);
        let mut of_part = HashMap::<(u64, u64), (u64, u64)>::new();
        let chunk_of: HashMap<u64, u64> = (0..shuffle.num_chunks())
            .flat_map(|n| shuffle.chunks.get(n).map(move |clip| (clip, n)))
            .collect();
        for (position, clip) in (0..).zip(order(&shuffle, 0, 0)) {
            let place = position / streams;
            of_part.entry((position % streams, chunk_of[&clip])).or_insert((place, place)).1 = place;
        }
        // The keys of a part span less than the spread; the random part of each key moves places a little more.
        let reach = shuffle.spread + shuffle.spread / 10 + shuffle.chunks.max_len;
        let longest = of_part.values().map(|(first, last)| last - first).max();
        assert!(longest.is_some_and(|longest| longest <= reach), "{lengths:?}: {longest:?} > {reach}");
    }
}

#[test]
fn number_of_ranks_does_not_change_the_order() {
    let shuffle = shuffle(&VideoClips::Equal { videos: 50, clips: 12 }, 24, 300, 64);
    let whole = order(&shuffle, 1, 2);
    let video_of = |clip: u64| clip / 12;
    for ranks in [1, 2, 3, 4, 6, 8, 12, 24] {
        let mut merged = vec![0; whole.len()];
        let mut owners = HashMap::<u64, Vec<usize>>::new();
        for rank in 0..ranks {
            let mut own = shuffle.epoch(1, 2);
            for position in (rank..whole.len()).step_by(ranks) {
                merged[position] = own.clip(position as u64);
                owners.entry(video_of(merged[position])).or_default().push(rank);
            }
        }
        assert_eq!(merged, whole);
        // Only the chunks that a stream's end cuts have clips on two ranks.
        let shared = owners.values_mut().filter(|own| own.iter().any(|rank| *rank != own[0])).count();
        assert!(shared < 24, "{ranks} ranks: {shared} videos on several ranks");
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
    let chi = counts.iter().map(|c| c.iter().map(|c| (c - expected).powi(2) / expected).sum::<f64>());
    let mean = chi.sum::<f64>() / n as f64;
    // Nine degrees of freedom: the mean is 9, its standard deviation over 200 clips sqrt(18 / 200) = 0.3.
    assert!((mean - 9.0).abs() < 1.2, "{mean}");
    // A fair coin over 2000 epochs has a standard deviation of 22; the limit is five of them.
    assert!(before[1..].iter().all(|b| b.abs_diff(1000) < 112), "{before:?}");
}

#[test]
fn long_datasets_are_entered_at_any_position() {
    let clips = VideoClips::Equal { videos: 10_000_000_000, clips: 16 };
    let shuffle = shuffle(&clips, 4096 * 8, 1_400_000 * 4096, 64);
    let mut order = shuffle.epoch(0, 0);
    for position in [0, 1, 80_000_000_003, clips.num_clips() - 1] {
        assert!(order.clip(position) < clips.num_clips());
    }
    let few = shuffle.clone();
    assert_eq!(few.epoch(0, 0).clip(80_000_000_003), order.clip(80_000_000_003));
}

#[test]
fn empty_and_tiny_datasets_have_an_order() {
    assert_eq!(order(&shuffle(&VideoClips::Equal { videos: 0, clips: 3 }, 4, 9, 2), 0, 0), [0; 0]);
    assert_eq!(order(&shuffle(&offsets(&[]), 4, 9, 2), 0, 0), [0; 0]);
    assert_eq!(order(&shuffle(&offsets(&[0, 0, 1, 0]), 4, 9, 2), 0, 0), [0]);
    let one_video = order(&shuffle(&offsets(&[9]), 2, u64::MAX, 64), 0, 0);
    assert_eq!(one_video.iter().sum::<u64>(), 36);
    let config = GroupedConfig { num_streams: 0, block_size: 1, max_chunk: 1 };
    assert!(GroupedShuffle::new(offsets(&[1]), config).unwrap_err().to_string().contains("num_streams"));
    let config = GroupedConfig { num_streams: 1, block_size: 1, max_chunk: 0 };
    assert!(GroupedShuffle::new(offsets(&[1]), config).unwrap_err().to_string().contains("max_chunk"));
}
