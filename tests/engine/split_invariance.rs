//! Tests that a frame depends on nothing but the request for it: not on the requests before it,
//! other files that the decoder decoded, or the number of threads. The files change their headers
//! in the middle, which a decoder keeps.

use std::sync::Arc;

use crate::common::loaders::{config, deliver, shorter_side};
use crate::common::{Entry, entries, hash, media};
use crate::timestamps::{index_of, recorded};
use framespool::clip_sampler::video_timing::SegmentRange;
use framespool::clip_sampler::{ClipSamplerRef, PadMode, Windows};
use framespool::dataset::{MediaLocation, Sample};
use framespool::decode::{PacketReader, SoftwareDecoder, Step, plan};
use framespool::index::VideoIndex;
use framespool::loader::{LOOK_AHEAD, LoaderConfig, LoaderOptions, MEMORY_BUDGET, OnError};
use framespool::rng::{Purpose, Rng, RngKey};
use framespool::source::ByteSource;
use framespool::units::PresentationIndex;

/// The joined files, and the parts of which they are made: some have the extradata of a joined
/// file.
fn changing_files() -> Vec<Entry> {
    let files = entries(media(), "video/changes/");
    assert!(files.len() >= 30, "{} files", files.len());
    files
}

struct File {
    name: String,
    source: Arc<dyn ByteSource>,
    index: Arc<VideoIndex>,
    /// The hash of each frame.
    hashes: Vec<String>,
}

fn opened(files: Vec<Entry>) -> Vec<File> {
    let open = |entry: Entry| {
        let source = entry.source().expect("readable");
        let index = index_of(&source).expect("a valid video");
        let hashes = recorded(&entry);
        assert_eq!(index.num_frames() as usize, hashes.len(), "{}", entry.path);
        File {
            name: entry.path,
            source,
            index,
            hashes,
        }
    };
    files.into_iter().map(open).collect()
}

fn rng(requests: u64) -> Rng {
    RngKey {
        seed: 5,
        epoch: 0,
        clip: requests,
        occurrence: 0,
    }
    .rng(Purpose::Sampling)
}

/// Decodes random frames of random files with one decoder, and abandons one decode range of four.
fn check_random_requests(files: &[File], decoder: &mut SoftwareDecoder, requests: u64) {
    let mut rng = rng(requests);
    for request in 0..requests {
        let file = &files[rng.next_below(files.len() as u64) as usize];
        let frames = u64::from(file.index.num_frames());
        let wanted: Vec<PresentationIndex> = (0..=rng.next_below(3))
            .map(|_| PresentationIndex(rng.next_below(frames) as u32))
            .collect();
        let mut reader = PacketReader::new(file.source.clone(), file.index.clone());
        for range in plan::plan_decode_ranges(&file.index, &wanted) {
            let most = if rng.next_below(4) == 0 {
                1 + rng.next_below(8)
            } else {
                u64::MAX
            };
            decoder.begin(&file.index, range).expect("a decoder");
            for _ in 0..most {
                let step = decoder.step(&mut reader, &mut |at, frame| {
                    let shown = file
                        .index
                        .frames
                        .iter()
                        .position(|frame| frame.packet == at)
                        .expect("a frame");
                    assert_eq!(
                        hash(frame),
                        file.hashes[shown],
                        "{}: frame {shown}, request {request}",
                        file.name
                    );
                    Ok(())
                });
                if step.unwrap_or_else(|error| panic!("{}: {error}, request {request}", file.name))
                    == Step::Done
                {
                    break;
                }
            }
        }
    }
}

#[test]
fn frames_are_independent_of_earlier_requests() {
    let files = opened(changing_files());
    for threads in [1, 3] {
        check_random_requests(&files, &mut SoftwareDecoder::with_threads(threads), 100);
        // One file after the other, so that the decoder stays open between the ranges of a file.
        for file in files.chunks(1) {
            check_random_requests(file, &mut SoftwareDecoder::with_threads(threads), 8);
        }
    }
}

#[test]
fn a_range_that_ends_between_two_fields_changes_no_later_frame() {
    let files = opened(entries(media(), "video/odd/mpeg2_fields.avi"));
    let [file] = &files[..] else {
        panic!("one file")
    };
    let mut reader = PacketReader::new(file.source.clone(), file.index.clone());
    let mut decoder = SoftwareDecoder::new();
    let range =
        |frame| plan::plan_decode_ranges(&file.index, &[PresentationIndex(frame)]).remove(0);
    let mut delivered = 0;
    for frame in 1..file.index.num_frames() {
        decoder
            .begin(&file.index, range(frame - 1))
            .expect("a decoder");
        let step = decoder.step(&mut reader, &mut |_, _| panic!("one field is no frame"));
        assert_eq!(step.expect("a field"), Step::More);
        decoder
            .run(&mut reader, &range(frame), |_, decoded| {
                assert_eq!(hash(decoded), file.hashes[frame as usize], "frame {frame}");
                delivered += 1;
                Ok(())
            })
            .expect("a frame");
    }
    assert_eq!(delivered, file.index.num_frames() - 1);
}

#[test]
fn headers_that_stay_the_same_are_no_change() {
    for file in opened(changing_files()) {
        let is_joined = !file.name.contains("/parts/") && file.hashes.len() == 24;
        let is_repeated = file.name.ends_with("repeated_header.flv");
        if is_repeated {
            let keyframes: Vec<u32> = file
                .index
                .key_frames()
                .iter()
                .map(|frame| frame.0)
                .collect();
            assert_eq!(keyframes, [0, 6]);
        }
        let changes = file.index.new_extradata.len();
        assert_eq!(changes, usize::from(is_joined), "{}", file.name);
    }
}

#[test]
fn clips_are_independent_of_other_files_of_the_loader() {
    let item = |entry: Entry| Sample {
        location: MediaLocation::Path(entry.root.join(&entry.path)),
        label: 0,
        extent: SegmentRange::Full,
    };
    let items: Vec<Sample> = changing_files().into_iter().map(item).collect();
    let windows: ClipSamplerRef =
        Arc::new(Windows::new(5, 1, None, PadMode::Blank).expect("a clip sampler"));
    let pipeline = shorter_side();
    // One clip per batch, so that each line names its clip.
    let lines = |memory_budget, lookahead_clips, threads| {
        let mut config = config(&items, &windows, &pipeline, OnError::Raise);
        config.order.batch_size = 1;
        deliver(LoaderConfig {
            options: LoaderOptions {
                memory_budget,
                lookahead_clips,
                num_threads: threads,
                ..config.options
            },
            ..config
        })
        .0
    };
    let one = lines(0, 0, 1);
    assert!(
        one.len() > 100 && one.iter().all(|line| line.starts_with('[')),
        "{one:?}"
    );
    assert_eq!(lines(MEMORY_BUDGET, LOOK_AHEAD, 1), one);
    assert_eq!(lines(100_000, 40, 3), one);
}
