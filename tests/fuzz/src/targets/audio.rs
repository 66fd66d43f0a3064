//! Damaged files with audio, indexed and read: any window gives as many samples as requested, the same
//! each time, or an error.

use std::sync::Arc;

use framespool::audio::{AudioFormat, AudioTrack};
use framespool::index::audio::build;
use framespool::source::{ByteSource, MemorySource};

use super::index::limits;
use super::{MIB, Target, USUAL, check_error};

pub const AUDIO: Target = Target {
    name: "audio",
    about: "files with audio, indexed and decoded",
    seeds: |seeds| seeds.audio(60_000, 40),
    run,
    longest: 60_000,
    memory_bytes: 256 * MIB,
    resident_bytes: Some(1024 * MIB),
    seconds: 60,
    replayed: 100,
    ..USUAL
};

const FORMAT: AudioFormat = AudioFormat {
    sample_rate: Some(16_000),
    channels: Some(1),
};

fn run(input: &[u8]) {
    let source: Arc<dyn ByteSource> = Arc::new(MemorySource::new("fuzzed", input.to_vec()));
    let Ok(index) = check_error(build(&source, None, &limits())) else {
        return;
    };
    assert!(index.packets.len() <= input.len());
    let mut end = 0;
    for packet in &index.packets {
        assert!(packet.position >= end, "{packet:?} begins before {end}");
        end = packet.position + i64::from(packet.kept);
    }
    assert_eq!(end, index.len);
    let track = AudioTrack::new(source, Arc::new(index));
    let begin = track.index().begin_seconds;
    for start in [
        begin - 0.1,
        begin,
        begin + 0.3,
        track.index().end_seconds() - 0.1,
    ] {
        let read = || check_error(track.reader().read(start, 0.25, FORMAT)).ok();
        let window = read();
        if let Some(window) = &window {
            assert_eq!(window.samples.len(), 4000);
            assert!(window.valid.iter().all(|span| span.end <= 4000));
        }
        let bits = |window: Option<framespool::audio::AudioWindow>| {
            let samples = window.map(|window| window.samples);
            samples.map(|samples| samples.into_iter().map(f32::to_bits).collect::<Vec<_>>())
        };
        assert_eq!(bits(window), bits(read()), "other samples the second time");
    }
}
