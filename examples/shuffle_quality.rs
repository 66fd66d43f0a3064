//! How well orders mix, for each size of the buffer: the table of the documentation.
//!
//!     cargo run --release --example shuffle_quality [videos] [clips_per_video] [batch_size]
//!
//! "moved" is how far a clip is from the one that comes unshuffled, in the mean and at most, as a
//! share of the dataset; "from last" is how far the place of a clip is from its place an epoch
//! before, in the mean; "videos" is the mean number of different videos in a batch; "mixing" is the
//! number of different videos in 10 batches, as a share of those expected of a full shuffle. Means
//! are over five epochs.

use framespool::batch_sampler::grouped_shuffle::{GroupedOptions, VideoClips};
use framespool::batch_sampler::shuffle_quality::measure_shuffle;
use framespool::batch_sampler::{BatchSampler, BatchSamplerConfig, Shuffle};

const EPOCHS: u64 = 5;

fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .map(|n| n.parse::<u64>().expect("a number"));
    let mut number = |otherwise| numbers.next().unwrap_or(otherwise);
    let (videos, each, batch_size) = (number(1000), number(18), number(32) as u32);
    let clips = videos * each;
    let video_clips = VideoClips::Equal {
        videos,
        clips: each,
    };
    println!("{videos} videos of {each} clips, batches of {batch_size}\n");
    println!(
        "{:36} {:>10} {:>10} {:>10} {:>8} {:>8}",
        "", "moved", "at most", "from last", "videos", "mixing"
    );
    let sizes = [1, 16, 64, 256, 1024, 4096, clips as u32];
    let buffers = sizes.map(|initial_fill| Shuffle::Buffer { initial_fill });
    let grouped = [128, 512, 2048].map(|cached_clips| {
        Shuffle::Grouped(GroupedOptions {
            cached_clips,
            ..GroupedOptions::default()
        })
    });
    let others = [Shuffle::Off, Shuffle::Full];
    for shuffle in buffers.into_iter().chain(grouped).chain(others) {
        let config = BatchSamplerConfig {
            num_clips: clips,
            shuffle,
            batch_size,
            seed: 1,
            video_clips: Some(video_clips.clone()),
            ..BatchSamplerConfig::default()
        };
        let order = BatchSampler::new(config).expect("a valid order");
        let (mut moved, mut most, mut mixed, mut mixing, mut since) = (0.0, 0.0_f64, 0.0, 0.0, 0.0);
        for epoch in 0..EPOCHS {
            let found = measure_shuffle(&order, epoch, &video_clips)
                .expect("not a mix")
                .measured;
            moved += found.mean_share / EPOCHS as f64;
            most = most.max(found.max_share);
            mixed += found.videos_per_batch / EPOCHS as f64;
            mixing += found.mixing / EPOCHS as f64;
        }
        for epoch in 0..EPOCHS {
            let (before, after) = (places(&order, epoch), places(&order, epoch + 1));
            let apart = before
                .iter()
                .zip(&after)
                .map(|(a, b)| a.abs_diff(*b) as f64)
                .sum::<f64>();
            since += apart / (clips * clips * EPOCHS) as f64;
        }
        let percent = |share: f64| format!("{:.2} %", share * 100.0);
        let name = match shuffle {
            Shuffle::Buffer { initial_fill } => format!("buffer of {initial_fill}"),
            Shuffle::Grouped(options) => format!("grouped, {} cached clips", options.cached_clips),
            other => format!("{other:?}"),
        };
        println!(
            "{name:36} {:>10} {:>10} {:>10} {mixed:>8.1} {mixing:>8.2}",
            percent(moved),
            percent(most),
            percent(since)
        );
    }
}

/// The place of each clip in an epoch.
fn places(order: &BatchSampler, epoch: u64) -> Vec<u64> {
    let mut places = vec![0; order.config().num_clips as usize];
    let slots = (0..order.len_batches()).flat_map(|batch| order.batch(epoch, batch));
    slots
        .zip(0..)
        .for_each(|(slot, place)| places[slot.clip as usize] = place);
    places
}
