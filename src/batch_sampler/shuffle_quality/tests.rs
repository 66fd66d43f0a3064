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
    VideoClips::Equal {
        videos: num_clips / clips,
        clips,
    }
}

fn grouped(
    videos: u64,
    clips: u64,
    batch_size: u32,
    cached_clips: u64,
) -> (BatchSampler, VideoClips) {
    let video_clips = VideoClips::Equal { videos, clips };
    let options = GroupedOptions {
        cached_clips,
        ..GroupedOptions::default()
    };
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
    // Repeats, median gap and mixing of a simulation of the definition, with 8 ranks and 890 cached
    // clips.
    for (videos, clips, batch_size, repeats, gap, mixing) in [
        (80_000, 4, 8, 0.0, 58.0, 1.0),
        (20_000, 16, 8, 0.07, 11.5, 0.90),
        (20_000, 16, 32, 4.5, 2.9, 0.36),
        (5_000, 64, 8, 1.4, 2.8, 0.31),
    ] {
        let (order, video_clips) = grouped(videos, clips, batch_size, 890);
        let found = measure_shuffle(&order, 0, &video_clips).unwrap();
        let measured = found.measured;
        assert!(
            (measured.mixing - mixing).abs() < 0.03,
            "{clips} {batch_size} {measured:?}"
        );
        assert!(
            (measured.repeats_per_batch - repeats).abs() < 0.1 * repeats + 0.03,
            "{clips} {measured:?}"
        );
        let found_gap = measured.median_gap_batches.unwrap();
        assert!(
            (found_gap - gap).abs() < 0.1 * gap + 0.5,
            "{clips} {measured:?}"
        );
        assert!((found.full.mixing - 1.0).abs() < 0.005, "{found:?}");
    }
}

#[test]
fn more_cached_clips_mix_better() {
    let (order, clips) = grouped(10_000, 16, 32, 890);
    let cached = cached_clips_for_mixing(order.config(), &clips, 0.9, 20_000)
        .unwrap()
        .unwrap();
    // Simulated: 0.92 with 4 times 890.
    assert!((2 * 890..=4 * 890).contains(&cached), "{cached}");
    let (enough, _) = grouped(10_000, 16, 32, cached);
    assert!(measure_mixing(&enough, 3, &clips, MAX_POSITIONS).unwrap() > 0.88);
}

#[test]
fn neighbors_of_an_unshuffled_order_do_not_mix() {
    let found = measure_shuffle(&order(3200, Shuffle::Off), 0, &equal(3200, 16))
        .unwrap()
        .measured;
    // 10 batches of 32 clips have 20 of 200 videos; 87 % of all in a full shuffle.
    assert!(
        (found.mixing - 20.0 / expected_videos(&equal(3200, 16), 320)).abs() < 0.01,
        "{found:?}"
    );
    assert_eq!(
        (found.repeats_per_batch, found.median_gap_batches),
        (30.0, Some(0.0))
    );
}

#[test]
fn full_shuffle_moves_clips_by_a_third() {
    let found = measure_shuffle(&order(18_000, Shuffle::Full), 3, &equal(18_000, 18)).unwrap();
    assert_eq!(found.measured, found.full);
    // Two positions sampled from n have a mean distance of (n² - 1) / 3n and a median distance of n
    // (1 - sqrt(1/2)).
    assert!(
        (found.measured.mean_share - 1.0 / 3.0).abs() < 0.01,
        "{found:?}"
    );
    assert!(
        (found.measured.median_share - 0.2929).abs() < 0.01,
        "{found:?}"
    );
    assert!((0.95..1.0).contains(&found.measured.max_share), "{found:?}");
    let videos = expected_videos(&equal(18_000, 18), 32);
    assert!(
        (found.measured.videos_per_batch - videos).abs() < 0.2,
        "{found:?}, {videos}"
    );
}

#[test]
fn no_shuffle_moves_nothing() {
    let found = measure_shuffle(&order(320, Shuffle::Off), 0, &equal(320, 16)).unwrap();
    assert_eq!(
        (found.measured.max_clips, found.measured.videos_per_batch),
        (0.0, 2.0)
    );
    assert!(found.full.mean_share > 0.25);
}

#[test]
fn a_buffer_moves_clips_by_half_its_size() {
    let shuffle = Shuffle::Buffer { initial_fill: 256 };
    let found = measure_shuffle(&order(50_000, shuffle), 1, &equal(50_000, 1))
        .unwrap()
        .measured;
    // The mean is (1/2 + 1/24) * size: the mean distance of two independent uniform numbers, one
    // from 0 to 1 and one from -1/2 to 3/2.
    assert!(
        (found.mean_clips - 256.0 * 13.0 / 24.0).abs() < 2.0,
        "{found:?}"
    );
    assert!(
        found.max_clips < 384.0 && found.max_clips > 320.0,
        "{found:?}"
    );
    assert_eq!(found.mean_share, found.mean_clips / 50_000.0);
}

#[test]
fn padding_is_not_counted() {
    let fill = BatchSamplerConfig {
        num_clips: 10,
        batch_size: 4,
        num_shards: 3,
        last_batch: super::super::LastBatchPolicy::Fill,
        ..BatchSamplerConfig::default()
    };
    let found = measure_shuffle(&BatchSampler::new(fill).unwrap(), 1, &equal(10, 10)).unwrap();
    assert_eq!(
        (found.measured.max_clips, found.measured.videos_per_batch),
        (0.0, 1.0)
    );
}

#[test]
fn sampled_epoch_has_the_same_statistics() {
    let found =
        measure_shuffle(&order(1 << 40, Shuffle::Full), 0, &equal(1 << 40, 1 << 10)).unwrap();
    assert!(
        (found.measured.mean_share - 1.0 / 3.0).abs() < 0.01,
        "{found:?}"
    );
    assert_eq!(found.measured.videos_per_batch, 32.0);
}

#[test]
fn mix_is_compared_with_a_full_shuffle_of_its_datasets() {
    let clips = VideoClips::Offsets(
        (0..=100)
            .map(|n| n * 16)
            .chain((1..=400).map(|n| 1600 + n * 4))
            .collect(),
    );
    let mix = |replacement| MixConfig {
        sizes: vec![1600, 1600],
        weights: vec![1.0, 3.0],
        replacement,
        epoch_clips: Some(2400),
    };
    let config = BatchSamplerConfig {
        num_clips: 3200,
        batch_size: 8,
        num_shards: 2,
        video_clips: Some(clips.clone()),
        mix: Some(mix(false)),
        ..BatchSamplerConfig::default()
    };
    let with = |shuffle| {
        BatchSampler::new(BatchSamplerConfig {
            shuffle,
            ..config.clone()
        })
        .unwrap()
    };
    let grouped = |cached_clips| {
        with(Shuffle::Grouped(GroupedOptions {
            cached_clips,
            ..GroupedOptions::default()
        }))
    };
    let full = measure_shuffle(&with(Shuffle::Full), 0, &clips).unwrap();
    assert!(
        (full.measured.mixing - 1.0).abs() < 0.03 && full.measured.mean_clips.is_nan(),
        "{full:?}"
    );
    let found = [20, 100, 4000].map(|cached| measure_shuffle(&grouped(cached), 0, &clips).unwrap());
    let mixing = found.map(|quality| quality.measured.mixing);
    assert!(
        mixing[0] < 0.6 && mixing[0] < mixing[1] && mixing[1] < mixing[2] && mixing[2] > 0.95,
        "{mixing:?}"
    );
    assert_eq!(
        found.map(|quality| quality.full.mixing),
        [full.measured.mixing; 3]
    );
    let wrong = measure_shuffle(&with(Shuffle::Full), 0, &equal(3200, 64)).unwrap();
    assert!(wrong.measured.mixing > 0.9);
    let text = measure_shuffle(&with(Shuffle::Full), 0, &equal(3200, 3))
        .unwrap_err()
        .to_string();
    assert!(text.contains("ends at clip 1600"), "{text}");
}

#[test]
fn empty_epoch_has_no_statistics() {
    assert_eq!(
        measure_shuffle(&order(0, Shuffle::Full), 0, &equal(0, 1))
            .unwrap()
            .measured,
        ShuffleStats::default()
    );
}
