//! Tests H.266: each container gives the frames that another FFmpeg release decodes, each frame is
//! the same however it is accessed, and pictures that it does not need are skipped. The streams are
//! committed (`tests/media/vvc/README.md`), because no package of the tests encodes H.266.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use framespool::decode::plan::plan_decode_ranges;
use framespool::decode::{PacketReader, SoftwareDecoder};
use framespool::index::{VideoIndex, build};
use framespool::limits::Limits;
use framespool::source::{ByteSource, FileSource, MemorySource};
use framespool::units::{DecodeIndex, PresentationIndex};

use crate::common::hash;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/media/vvc")
}

/// The recorded frames of a stream.
fn recorded(stream: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder().join(stream).with_extension("txt"));
    text.expect("recorded").lines().map(str::to_owned).collect()
}

fn open(file: &str) -> (Arc<VideoIndex>, PacketReader) {
    let source = FileSource::open(&folder().join(file)).expect("committed");
    read(Arc::new(source))
}

fn read(source: Arc<dyn ByteSource>) -> (Arc<VideoIndex>, PacketReader) {
    let index = Arc::new(build(&source, &Limits::default()).expect("a video"));
    let reader = PacketReader::new(source, index.clone());
    (index, reader)
}

/// Hashes of frames in the order of `wanted`.
fn decode(decoder: &mut SoftwareDecoder, reader: &mut PacketReader, wanted: &[u32]) -> Vec<String> {
    let index = reader.index().clone();
    let wanted: Vec<PresentationIndex> = wanted.iter().copied().map(PresentationIndex).collect();
    let mut found: Vec<(DecodeIndex, String)> = Vec::new();
    for range in plan_decode_ranges(&index, &wanted) {
        let take = |at, frame: &framespool::ffmpeg::Frame| {
            found.push((at, hash(frame)));
            Ok(())
        };
        decoder.run(reader, &range, take).expect("decodes");
    }
    let of = |frame: &PresentationIndex| {
        let packet = index.frames[frame.as_usize()].packet;
        let found = found.iter().find(|(at, _)| *at == packet);
        found.expect("delivered").1.clone()
    };
    wanted.iter().map(of).collect()
}

#[test]
fn each_container_gives_the_recorded_frames() {
    for (file, stream) in [
        ("cra.266", "cra"),
        ("cra.mp4", "cra"),
        ("cra.mkv", "cra"),
        ("cra.ts", "cra"),
        ("cra_decode_order.mp4", "cra"),
        ("idr.266", "idr"),
    ] {
        let (index, mut reader) = open(file);
        let frames = recorded(stream);
        assert_eq!(index.info.params.codec.name, "vvc", "{file}");
        assert_eq!(index.num_frames() as usize, frames.len(), "{file}");
        let starts: Vec<u32> = index.key_frames().iter().map(|frame| frame.0).collect();
        assert_eq!(starts, [15, 31, 47], "{file}");
        let all: Vec<u32> = (0..index.num_frames()).collect();
        let decoded = decode(&mut SoftwareDecoder::new(), &mut reader, &all);
        assert_eq!(decoded, frames, "{file}");
    }
}

#[test]
fn random_access_gives_the_same_frames_and_skips_pictures() {
    for (file, stream) in [("cra.mp4", "cra"), ("cra.ts", "cra"), ("idr.266", "idr")] {
        let (index, mut reader) = open(file);
        let frames = recorded(stream);
        let mut decoder = SoftwareDecoder::new();
        let count = index.num_frames();
        for n in (0..count).map(|n| n * 29 % count) {
            let alone = decode(&mut decoder, &mut reader, &[n]);
            assert_eq!(alone, [frames[n as usize].clone()], "{file} {n}");
        }
        // Layers of wanted pictures are read ahead only where packets are read directly.
        assert!(decoder.stats.packets_skipped > 0 || !index.direct, "{file}");
        assert_eq!(decoder.stats.ranges_repeated, 0, "{file}");
    }
}

#[test]
fn stream_that_begins_at_a_cra_picture_has_no_undecodable_frames() {
    let data = std::fs::read(folder().join("cra.266")).expect("committed");
    // The second sequence parameter set, before the first CRA picture.
    let sets: Vec<usize> = (0..data.len() - 6)
        .filter(|&at| data[at..].starts_with(&[0, 0, 0, 1, 0, 15 << 3 | 1]))
        .collect();
    let tail: Arc<dyn ByteSource> = Arc::new(MemorySource::new("cut", data[sets[1]..].to_vec()));
    let (index, mut reader) = read(tail);
    let frames = recorded("cra");
    let all: Vec<u32> = (0..index.num_frames()).collect();
    let decoded = decode(&mut SoftwareDecoder::new(), &mut reader, &all);
    // Frame 31 is the CRA picture; its leading pictures refer to pictures before the file.
    assert_eq!(decoded, frames[31..]);
}

#[test]
fn lost_reference_is_an_error_and_never_a_frame() {
    let (index, _) = open("cra.mp4");
    let packet = index.packets[18];
    let mut data = std::fs::read(folder().join("cra.mp4")).expect("committed");
    let begin = packet.offset as usize;
    let end = begin + packet.size as usize;
    data[begin + 4..end].fill(0xff);
    let (index, mut reader) = read(Arc::new(MemorySource::new("damaged", data)));
    let frames = recorded("cra");
    let mut errors = 0;
    for n in (0..index.num_frames()).map(PresentationIndex) {
        for range in plan_decode_ranges(&index, &[n]) {
            let mut decoded = None;
            let outcome = SoftwareDecoder::new().run(&mut reader, &range, |_, frame| {
                decoded = Some(hash(frame));
                Ok(())
            });
            match outcome {
                Ok(()) => assert_eq!(decoded.as_ref(), frames.get(n.as_usize()), "{n:?}"),
                Err(_) => errors += 1,
            }
        }
    }
    assert!(errors > 0);
}
