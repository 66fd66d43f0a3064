//! Tests that several threads decode a damaged file to the same frames, with as many errors, as one
//! thread.

use std::collections::BTreeMap;
use std::time::Duration;

use framespool::decode::SoftwareDecoder;
use framespool::decode::plan;
use framespool::source::interrupt_scope;
use framespool::units::PresentationIndex;
use framespool::video::Video;

/// Returns the hashes of the frames that could be decoded, and how many decode ranges failed.
/// `delay` is a pause before each packet, during which decoder threads can report damage before the
/// next check.
fn decode(video: &Video, threads: u32, delay: Duration) -> (BTreeMap<u32, String>, usize) {
    let mut decoder = SoftwareDecoder::with_threads(threads);
    let index = video.index().clone();
    let mut reader = video.reader();
    let all: Vec<_> = (0..index.num_frames()).map(PresentationIndex).collect();
    let (mut frames, mut errors) = (BTreeMap::new(), 0);
    let pause = move || {
        std::thread::sleep(delay);
        Ok(())
    };
    let _scope = interrupt_scope(pause, None);
    for run in plan::plan_decode_ranges(&index, &all) {
        let done = decoder.run(&mut reader, &run, |at, frame| {
            frames.insert(at.0, crate::common::hash(frame));
            Ok(())
        });
        errors += usize::from(done.is_err());
    }
    (frames, errors)
}

/// Returns how many decoders are opened for two requests to each of some videos with the same
/// parameters, one after the other.
fn opened(path: &str, videos: u32) -> u64 {
    let entry = crate::common::named(path);
    let mut decoder = SoftwareDecoder::new();
    let open = || Video::open(entry.source().expect("readable")).expect("a valid video");
    for video in (0..videos).flat_map(|_| std::iter::repeat_n(open(), 2)) {
        let index = video.index().clone();
        for run in plan::plan_decode_ranges(&index, &[PresentationIndex(0), PresentationIndex(1)]) {
            decoder
                .run(&mut video.reader(), &run, |_, _| Ok(()))
                .expect("valid frames");
        }
    }
    decoder.stats.decoders_opened
}

#[test]
fn decoders_are_reused_where_they_keep_no_state() {
    // Motion JPEG from cameras omits the Huffman tables, other files contain their own: a decoder
    // that keeps the tables of one picture would break the next.
    for (path, videos, expected) in [
        ("video/codecs/mjpeg_320x240.avi", 1, 2),
        ("video/derived/base_640x360.mp4", 1, 1),
        ("video/derived/base_640x360.mp4", 2, 2),
    ] {
        assert_eq!(opened(path, videos), expected, "{videos} times {path}");
    }
}

#[test]
fn several_threads_detect_the_same_damage_as_one() {
    let mut different = Vec::new();
    let mut files = 0;
    for entry in crate::common::videos()
        .into_iter()
        .filter(crate::common::Entry::is_corrupt)
    {
        let Ok(video) = entry.source().and_then(Video::open) else {
            continue;
        };
        let decode = |threads, delay| {
            let (mut frames, errors) = decode(&video, threads, delay);
            if entry.damage_is_unreported() {
                // The pixels depend on the state of the decoder.
                frames.values_mut().for_each(String::clear);
            }
            (frames, errors)
        };
        let one = decode(1, Duration::ZERO);
        for delay in [Duration::ZERO, Duration::from_millis(1)] {
            if decode(4, delay) != one {
                different.push(format!("{} with pauses of {delay:?}", entry.path));
            }
        }
        files += 1;
    }
    assert!(files >= 15, "{files} files");
    assert!(
        different.is_empty(),
        "{files} files, of which differ: {}",
        different.join(", ")
    );
}
