//! Measures batch samplers: time to the first batch at the start and at the end of an epoch, time
//! per clip, memory.
//!
//!     cargo run --release --example batch_sampler_cost [clips] [batch_size]
//!
//! Each figure is the minimum of five runs, each with a new batch sampler. "at the end" requests
//! the epoch's last batch first, as a resumed run does; "epoch 10" requests the first batch of
//! epoch 10 first. The time per clip is that of sequential batches. Memory is the growth of the
//! process's resident size.

use std::time::Instant;

use framespool::batch_sampler::{BatchSampler, BatchSamplerConfig, MixConfig, Shuffle};

/// Tickets that are timed one after another.
const CLIP_REQUESTS: u64 = 500_000;

/// The least of so many times is given: others use the machine too.
const REPEATS: usize = 5;

fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .map(|n| n.parse::<u64>().expect("a number"));
    let clips = numbers.next().unwrap_or(10_000_000);
    let batch_size = numbers.next().unwrap_or(32) as u32;
    let buffer = |initial_fill| Shuffle::Buffer { initial_fill };
    let halves = || {
        Some(MixConfig {
            sizes: vec![clips / 2, clips - clips / 2],
            weights: vec![1.0, 2.0],
            replacement: false,
            epoch_clips: None,
        })
    };
    println!("{clips} clips, batches of {batch_size}\n");
    println!(
        "{:34} {:>12} {:>12} {:>12} {:>11} {:>10}",
        "", "first batch", "at the end", "epoch 10", "ns/ticket", "memory"
    );
    for (name, shuffle, mix) in [
        ("unshuffled", Shuffle::Off, None),
        ("full", Shuffle::Full, None),
        ("buffer of 1024", buffer(1024), None),
        ("buffer of 16", buffer(16), None),
        ("mix of two", Shuffle::Full, halves()),
    ] {
        let config = BatchSamplerConfig {
            num_clips: clips,
            shuffle,
            mix,
            batch_size,
            seed: 1,
            ..BatchSamplerConfig::default()
        };
        let made = || BatchSampler::new(config.clone()).expect("a valid order");
        let first = |epoch, last: bool| {
            least(|| {
                let begun = Instant::now();
                let order = made();
                let batch = order.batch(epoch, if last { order.len_batches() - 1 } else { 0 });
                assert!(!batch.is_empty());
                begun.elapsed().as_secs_f64()
            })
        };
        let times = [first(0, false), first(0, true), first(10, false)];
        let before = resident_bytes();
        let order = made();
        order.batch(0, 0);
        let memory = resident_bytes().saturating_sub(before);
        let batches =
            (CLIP_REQUESTS / u64::from(batch_size)).clamp(1, order.len_batches() / REPEATS as u64);
        let mut next = 0..;
        let each = least(|| {
            let begun = Instant::now();
            let tickets: usize = next
                .by_ref()
                .take(batches as usize)
                .map(|batch| order.batch(0, batch).len())
                .sum();
            begun.elapsed().as_secs_f64() / tickets as f64 * 1e9
        });
        let [start, end, tenth] = times.map(seconds);
        println!(
            "{name:34} {start:>12} {end:>12} {tenth:>12} {each:>11.0} {:>7} MB",
            memory / 1_000_000
        );
    }
}

fn least(mut run: impl FnMut() -> f64) -> f64 {
    (0..REPEATS).map(|_| run()).fold(f64::INFINITY, f64::min)
}

fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

/// Resident memory of this process; 0 where the system does not tell.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok())
        .unwrap_or(0)
        * 1024
}
