//! Compares writing frames into the ring of page-locked memory with writing them into ordinary
//! memory, and checks what arrives on the device. Exit status 1 if a byte differs or the ring is
//! slower than 0.95 of the plain copy.
//!
//! Only the host's side is timed: lending the bytes and writing them, while the device is idle.
//! With the simulated driver this says nothing about a GPU.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use framespool_nvdec::cuda::{Device, Stream, UploadRing};
use framespool_nvdec::{Error, Result};

const FRAMES: [(&str, usize); 3] = [
    ("224x224 uint8", 224 * 224 * 3),
    ("224x224 float32", 224 * 224 * 12),
    ("1920x1080 uint8", 1920 * 1080 * 3),
];

/// Frames that are written in turns, so that reading them is the same for both.
const SOURCES: usize = 8;
const ROUNDS: usize = 31;
const BYTES_PER_ROUND: usize = 64 << 20;

/// The time to write frames into memory that is used in turns, as the ring's segments are.
fn plain(sources: &[Vec<u8>], frames: usize, segments: &mut [Vec<u8>]) -> Duration {
    let len = sources[0].len();
    let per_segment = segments[0].len() / len;
    let mut spent = Duration::ZERO;
    for frame in 0..frames {
        let (segment, place) = (frame / per_segment % segments.len(), frame % per_segment);
        let begun = Instant::now();
        segments[segment][place * len..][..len].copy_from_slice(&sources[frame % sources.len()]);
        spent += begun.elapsed();
    }
    spent
}

/// The same by the ring, without the time that the simulated driver takes for the copies.
fn ringed(
    sources: &[Vec<u8>],
    frames: usize,
    ring: &mut UploadRing,
    (stream, to): (&Arc<Stream>, u64),
) -> Result<Duration> {
    let len = sources[0].len();
    let mut spent = Duration::ZERO;
    for frame in 0..frames {
        stream.synchronize()?;
        let source = &sources[frame % sources.len()];
        let begun = Instant::now();
        ring.reserve(len)?.copy_from_slice(source);
        spent += begun.elapsed();
        ring.upload(to + (frame % sources.len() * len) as u64, 0..len)?;
    }
    stream.synchronize()?;
    Ok(spent)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn compare(name: &str, len: usize, device: &Arc<Device>) -> Result<bool> {
    let sources: Vec<Vec<u8>> = (0..SOURCES)
        .map(|n| (0..len).map(|i| (i * (n + 3) / 7) as u8).collect())
        .collect();
    let stream = device.create_stream()?;
    let memory = device.allocate(len * SOURCES)?;
    let mut ring = UploadRing::new(stream.clone());
    ring.reserve(len)?;
    let mut segments = vec![vec![0; ring.bytes() / 2]; 2];
    let frames = BYTES_PER_ROUND / len;
    let (mut plain_rates, mut ring_rates, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // In turns, and each first in every second round.
        let (a, b) = if round % 2 == 0 {
            let a = plain(&sources, frames, &mut segments);
            (
                a,
                ringed(&sources, frames, &mut ring, (&stream, memory.address()))?,
            )
        } else {
            let b = ringed(&sources, frames, &mut ring, (&stream, memory.address()))?;
            (plain(&sources, frames, &mut segments), b)
        };
        let rate = |time: Duration| (frames * len) as f64 / time.as_secs_f64() / 1e9;
        plain_rates.push(rate(a));
        ring_rates.push(rate(b));
        ratios.push(rate(b) / rate(a));
    }
    let mut got = vec![0; len * SOURCES];
    stream.download(&mut got, memory.address())?;
    let same = got == sources.concat();
    let ratio = median(ratios);
    let bytes = if same { "equal" } else { "DIFFERENT" };
    println!(
        "{name:16} {:8.2} GB/s {:8.2} GB/s {ratio:8.3}   {bytes}",
        median(plain_rates),
        median(ring_rates)
    );
    Ok(same && ratio >= 0.95)
}

fn main() -> ExitCode {
    let device = match Device::open(0) {
        Ok(device) => device,
        Err(error @ Error::NoDriver { .. }) => {
            println!("{error}; see tests/simulated_gpu/build.sh for a simulated one");
            return ExitCode::from(3);
        }
        Err(error) => panic!("{error}"),
    };
    println!(
        "{device:?}\n{:16} {:>13} {:>13} {:>8}   bytes",
        "frame", "plain copy", "ring", "ratio"
    );
    let results =
        FRAMES.map(|(name, len)| compare(name, len, &device).expect("the device responds"));
    ExitCode::from(u8::from(!results.iter().all(|&good| good)))
}
