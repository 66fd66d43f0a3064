//! In: small real files, damaged at random places by a fixed sequence.
//! Out: proof that damage ends in frames or typed errors: no panic, no hang, no memory out of proportion.
//! Never: judges whether a damaged frame looks right; tests/engine/corpus.rs does, on files whose originals are known.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{named, videos};
use framespool::error::Error;
use framespool::order::rng::Key;
use framespool::pixels::transform::{Size, Target, Transform};
use framespool::pixels::{Dtype, Layout, Recipe};
use framespool::source::{ByteSource, MemorySource};
use framespool::units::DisplayIndex;
use framespool::video::{GrowingCanvas, Video, Workbench};

const KEY: Key = Key { seed: 0, epoch: 0, clip: 0, visit: 0 };

/// SplitMix64: a sequence that never changes.
struct Sequence(u64);

impl Sequence {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

fn damage(bytes: &mut Vec<u8>, sequence: &mut Sequence) {
    // Headers lie at either end and are where numbers size things.
    let head = bytes.len().min(4096);
    match sequence.below(5) {
        0 => bytes.truncate(sequence.below(bytes.len())),
        1 => {
            let at = sequence.below(bytes.len());
            let end = (at + 1 + sequence.below(300)).min(bytes.len());
            bytes[at..end].fill(0);
        }
        2 => {
            let at = sequence.below(head.saturating_sub(4));
            let end = (at + 4).min(bytes.len());
            bytes[at..end].fill(0xff);
        }
        kind => {
            for _ in 0..1 + sequence.below(12) {
                let from = if kind == 3 { 0 } else { bytes.len().saturating_sub(4096) };
                let reach = if sequence.below(2) == 0 { head } else { bytes.len() };
                let at = (from + sequence.below(reach)).min(bytes.len().saturating_sub(1));
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << sequence.below(8);
                }
            }
        }
    }
}

/// Opens a damaged video and asks for some of its frames.
fn use_it(bytes: Vec<u8>, bench: &mut Workbench, deadline: Instant) -> Result<usize, Error> {
    let watch = move || if Instant::now() > deadline { Err(Error::Interrupted) } else { Ok(()) };
    let source: Arc<dyn ByteSource> = Arc::new(MemorySource::new("damaged", bytes));
    let video = Video::open(source, &watch)?;
    let last = video.index().num_frames() - 1;
    let mut frames = 0;
    for wanted in [0, last / 2, last] {
        let mut canvas = GrowingCanvas::default();
        bench.make(&mut video.reader(), &[DisplayIndex(wanted)], KEY, &mut canvas, &watch)?;
        frames += 1;
    }
    Ok(frames)
}

#[test]
fn random_damage_ends_in_frames_or_typed_errors() {
    let target = Target::Exact(Size { height: 16, width: 16 });
    let resize = Transform::Resize { target, filter: framespool_kernels::Filter::Triangle };
    let recipe = Recipe::new(vec![resize], Dtype::U8, Layout::Nthwc).unwrap();
    let mut bench = Workbench::new(recipe);
    let mut sequence = Sequence(1);
    let (mut tried, mut whole, mut refused) = (0, 0, 0);
    for entry in videos() {
        if entry.facts["bytes"].as_u64().is_none_or(|b| b > 250_000) {
            continue;
        }
        let intact = std::fs::read(entry.root.join(&entry.path)).expect("readable");
        for round in 0..6 {
            let mut bytes = intact.clone();
            damage(&mut bytes, &mut sequence);
            tried += 1;
            let begun = Instant::now();
            match use_it(bytes, &mut bench, begun + Duration::from_secs(60)) {
                Ok(_) => whole += 1,
                Err(Error::Internal { .. } | Error::Argument(_)) => panic!("{}, round {round}", entry.path),
                Err(Error::Interrupted) => panic!("{}, round {round}: no end in sight", entry.path),
                Err(error) => {
                    assert!(
                        error.to_string().contains("damaged"),
                        "an error without the file's name: {error}"
                    );
                    refused += 1;
                }
            }
        }
    }
    println!("random damage: {tried} files, {whole} gave their frames, {refused} an error");
    assert!(tried > 500 && whole > 50 && refused > 100, "{tried} tried, {whole} decoded, {refused} refused");
}

/// An IVF file says of each frame when it is shown, in 64 bits.
#[test]
fn times_further_apart_than_a_number_can_say_are_an_error() {
    let entry = named("video/codecs/av1_film_grain.ivf");
    let intact = std::fs::read(entry.root.join(&entry.path)).expect("readable");
    let mut places = Vec::new();
    let mut at = 32;
    while let Some(size) = intact.get(at..).and_then(<[u8]>::first_chunk).map(|b| u32::from_le_bytes(*b)) {
        places.push(at + 4);
        at += 12 + size as usize;
    }
    let index = |first: i64, last: i64| {
        let mut bytes = intact.clone();
        for (place, time) in [(places[0], first), (places[places.len() - 1], last)] {
            bytes[place..place + 8].copy_from_slice(&time.to_le_bytes());
        }
        let source: Arc<dyn ByteSource> = Arc::new(MemorySource::new("apart.ivf", bytes));
        framespool::index::build(&source, &framespool::limits::Limits::default(), &|| Ok(()))
    };
    let wide = index(-1000, 1 << 60).expect("far apart, and still to be said");
    assert!(wide.duration_seconds(DisplayIndex(0)) > 0.0 && wide.average_fps() > 0.0);
    let error = index(i64::MIN + 1000, i64::MAX - 1000).expect_err("further apart than can be said");
    assert!(matches!(error, Error::Malformed { .. }), "{error}");
    assert!(error.to_string().contains("apart.ivf"), "{error}");
}
