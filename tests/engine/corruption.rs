//! Damages small real files at pseudorandom positions from a fixed sequence, and checks that each
//! ends in frames or a typed error, without a panic, a hang or disproportionate memory. Also checks
//! that truncation and lost packets are detected where the container and the codec allow it.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common::frame_dependency::hash as quick_hash;
use crate::common::mp4::Mp4;
use crate::common::{Entry, hash, named, videos};
use framespool::decode::SoftwareDecoder;
use framespool::decode::plan;
use framespool::error::Error;
use framespool::ffmpeg::Frame;
use framespool::index::VideoIndex;
use framespool::rng::RngKey;
use framespool::source::{ByteSource, MemorySource, interrupt_scope};
use framespool::transforms::transform::{Size, Target, Transform};
use framespool::transforms::{Dtype, Layout, TransformPipeline};
use framespool::units::PresentationIndex;
use framespool::video::{ClipDecoder, FrameStream, LazyClipOutput, Video};

const KEY: RngKey = RngKey {
    seed: 0,
    epoch: 0,
    clip: 0,
    occurrence: 0,
};

/// SplitMix64, a pseudorandom generator with a fixed sequence.
pub(crate) struct TestRng(pub u64);

impl TestRng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn next_below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

fn damage(bytes: &mut Vec<u8>, rng: &mut TestRng) {
    // Headers are stored at either end of a file, and contain the numbers that determine sizes.
    let head = bytes.len().min(4096);
    match rng.next_below(5) {
        0 => bytes.truncate(rng.next_below(bytes.len())),
        1 => {
            let at = rng.next_below(bytes.len());
            let end = (at + 1 + rng.next_below(300)).min(bytes.len());
            bytes[at..end].fill(0);
        }
        2 => {
            let at = rng.next_below(head.saturating_sub(4));
            let end = (at + 4).min(bytes.len());
            bytes[at..end].fill(0xff);
        }
        kind => {
            for _ in 0..1 + rng.next_below(12) {
                let from = if kind == 3 {
                    0
                } else {
                    bytes.len().saturating_sub(4096)
                };
                let reach = if rng.next_below(2) == 0 {
                    head
                } else {
                    bytes.len()
                };
                let at = (from + rng.next_below(reach)).min(bytes.len().saturating_sub(1));
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << rng.next_below(8);
                }
            }
        }
    }
}

/// Far more checks for an interrupt than decoding some frames of a small file takes.
const MAX_CHECKS: u32 = 1_000_000;

/// Opens a damaged video and requests some of its frames; work without an end is interrupted.
fn decode_all(bytes: Vec<u8>, clip_decoder: &mut ClipDecoder) -> Result<usize, Error> {
    let checks = Cell::new(0);
    let interrupt = move || {
        checks.set(checks.get() + 1);
        if checks.get() > MAX_CHECKS {
            Err(Error::Interrupted)
        } else {
            Ok(())
        }
    };
    let _scope = interrupt_scope(interrupt, None);
    let source: Arc<dyn ByteSource> = Arc::new(MemorySource::new("damaged", bytes));
    let video = Video::open(source)?;
    let last = video.index().num_frames() - 1;
    let mut frames = 0;
    for wanted in [0, last / 2, last] {
        let mut output = LazyClipOutput::default();
        clip_decoder.decode_clip(
            &mut video.reader(),
            &[PresentationIndex(wanted)],
            KEY,
            &mut output,
        )?;
        frames += 1;
    }
    Ok(frames)
}

#[test]
fn random_damage_ends_in_frames_or_typed_errors() {
    let target = Target::Exact(Size {
        height: 16,
        width: 16,
    });
    let resize = Transform::Resize {
        target,
        filter: framespool_kernels::Filter::Triangle,
        display_aspect: false,
    };
    let pipeline = TransformPipeline::new(vec![resize], Dtype::U8, Layout::Nthwc).unwrap();
    let mut clip_decoder = ClipDecoder::new(pipeline);
    let mut rng = TestRng(1);
    let (mut tried, mut whole, mut refused) = (0, 0, 0);
    for entry in videos() {
        if entry.properties["bytes"]
            .as_u64()
            .is_none_or(|b| b > 250_000)
        {
            continue;
        }
        let intact = std::fs::read(entry.root.join(&entry.path)).expect("readable");
        for round in 0..3 {
            let mut bytes = intact.clone();
            damage(&mut bytes, &mut rng);
            tried += 1;
            match decode_all(bytes, &mut clip_decoder) {
                Ok(_) => whole += 1,
                Err(Error::Internal { .. } | Error::Argument(_)) => {
                    panic!("{}, round {round}", entry.path)
                }
                Err(Error::Interrupted) => panic!("{}, round {round}: it does not end", entry.path),
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
    assert!(
        tried > 500 && whole > 50 && refused > 100,
        "{tried} tried, {whole} decoded, {refused} refused"
    );
}

/// Reads files from a generator, which makes different ones for each seed; meant for sanitizer
/// builds.
#[test]
#[ignore = "reads the folder that FRAMESPOOL_ODD_FILES names; scripts/dynamic_analysis.sh asan makes one"]
fn odd_files_end_in_frames_or_typed_errors() {
    let folder = std::env::var_os("FRAMESPOOL_ODD_FILES")
        .expect("FRAMESPOOL_ODD_FILES names a folder of videos");
    let mut clip_decoder = ClipDecoder::new(
        TransformPipeline::new(Vec::<Transform>::new(), Dtype::U8, Layout::Nthwc).unwrap(),
    );
    let (mut whole, mut refused) = (0, 0);
    for file in std::fs::read_dir(folder).expect("a folder") {
        let path = file.expect("an entry").path();
        let bytes = std::fs::read(&path).expect("readable");
        match decode_all(bytes, &mut clip_decoder) {
            Ok(_) => whole += 1,
            Err(error @ (Error::Internal { .. } | Error::Argument(_) | Error::Interrupted)) => {
                panic!("{}: {error}", path.display())
            }
            Err(_) => refused += 1,
        }
    }
    println!("odd files: {whole} gave their frames, {refused} an error");
    assert!(
        whole > 0 && refused > 0,
        "{whole} decoded, {refused} refused"
    );
}

/// IVF stores a 64-bit presentation time for each frame.
#[test]
fn times_beyond_the_integer_range_are_an_error() {
    let entry = named("video/codecs/av1_film_grain.ivf");
    let intact = std::fs::read(entry.root.join(&entry.path)).expect("readable");
    let mut places = Vec::new();
    let mut at = 32;
    while let Some(size) = intact
        .get(at..)
        .and_then(<[u8]>::first_chunk)
        .map(|b| u32::from_le_bytes(*b))
    {
        places.push(at + 4);
        at += 12 + size as usize;
    }
    let index = |first: i64, last: i64| {
        let mut bytes = intact.clone();
        for (place, time) in [(places[0], first), (places[places.len() - 1], last)] {
            bytes[place..place + 8].copy_from_slice(&time.to_le_bytes());
        }
        let source: Arc<dyn ByteSource> = Arc::new(MemorySource::new("apart.ivf", bytes));
        framespool::index::build(&source, &framespool::limits::Limits::default())
    };
    let wide = index(-1000, 1 << 60).expect("far apart, but representable");
    assert!(wide.duration_seconds(PresentationIndex(0)) > 0.0 && wide.average_fps() > 0.0);
    let error =
        index(i64::MIN + 1000, i64::MAX - 1000).expect_err("too far apart to be represented");
    assert!(matches!(error, Error::Malformed { .. }), "{error}");
    assert!(error.to_string().contains("apart.ivf"), "{error}");
}

/// Returns the presentation index and the hash of each frame that could be decoded; a decode range
/// that fails loses the frames after the error.
pub(crate) fn delivered(
    bytes: &[u8],
    decoder: &mut SoftwareDecoder,
) -> Result<(VideoIndex, Vec<(u32, u64)>), Error> {
    delivered_hashes(bytes.to_vec(), decoder, quick_hash)
}

fn delivered_hashes<H: Ord>(
    bytes: Vec<u8>,
    decoder: &mut SoftwareDecoder,
    hash: impl Fn(&Frame) -> H,
) -> Result<(VideoIndex, Vec<(u32, H)>), Error> {
    let source: Arc<dyn ByteSource> = Arc::new(MemorySource::new("damaged", bytes));
    let video = Video::open(source)?;
    let index = video.index().clone();
    let all: Vec<PresentationIndex> = (0..index.num_frames()).map(PresentationIndex).collect();
    let mut reader = video.reader();
    let mut frames = Vec::new();
    for run in plan::plan_decode_ranges(&index, &all) {
        // Frames lost to an error are missing; other tests check the error itself.
        let _ = decoder.run(&mut reader, &run, |packet, frame| {
            let display = index
                .frames
                .iter()
                .position(|f| f.packet == packet)
                .expect("a frame of the index");
            frames.push((display as u32, hash(frame)));
            Ok(())
        });
    }
    frames.sort();
    Ok(((*index).clone(), frames))
}

pub(crate) fn index_of(bytes: Vec<u8>) -> VideoIndex {
    let source: Arc<dyn ByteSource> = Arc::new(MemorySource::new("damaged", bytes));
    framespool::index::build(&source, &framespool::limits::Limits::default()).expect("an index")
}

/// The hashes of the frames of an intact file, which are compared with its record here, so that the
/// many damaged variants of it need no MD5, which takes as long as decoding.
fn recorded_frames(entry: &Entry) -> BTreeSet<u64> {
    let recorded: BTreeSet<String> = entry.hashes().into_iter().map(|(_, hash)| hash).collect();
    let intact = std::fs::read(entry.root.join(&entry.path)).expect("readable");
    let both = |frame: &Frame| (quick_hash(frame), hash(frame));
    let (_, frames) =
        delivered_hashes(intact, &mut SoftwareDecoder::new(), both).expect("an intact file");
    assert!(
        frames.iter().all(|(_, (_, hash))| recorded.contains(hash)),
        "{}: not as recorded",
        entry.path
    );
    frames.into_iter().map(|(_, (quick, _))| quick).collect()
}

/// Decodes damaged variants of a file and checks that every frame delivered is one of the intact
/// file, for every third variant also by a decoder with threads that has decoded another file
/// before. Returns how many variants lost a frame that their index lists.
pub(crate) fn check_delivered_frames(path: &str, damaged: impl Iterator<Item = Vec<u8>>) -> usize {
    check_frames_and_times(path, None, damaged)
}

/// Like [`check_delivered_frames`]. `times`: pairs of hash and time, of which each delivered frame
/// must be one.
pub(crate) fn check_frames_and_times(
    path: &str,
    times: Option<&BTreeSet<(u64, i64)>>,
    damaged: impl Iterator<Item = Vec<u8>>,
) -> usize {
    let entry = named(path);
    let right = recorded_frames(&entry);
    let other = named("video/derived/hevc_main_open_gop_640x360.mp4")
        .source()
        .expect("readable");
    let other = Video::open(other).expect("valid");
    let first_frames: Vec<PresentationIndex> = (0..6).map(PresentationIndex).collect();
    let mut noticed = 0;
    for (n, bytes) in damaged.enumerate() {
        let mut fresh = SoftwareDecoder::new();
        let Ok((index, first)) = delivered(&bytes, &mut fresh) else {
            continue;
        };
        for (display, hash) in &first {
            assert!(
                right.contains(hash),
                "{path}, case {n}: frame {display} is not a frame of the intact file"
            );
            let time = index.frames[*display as usize].pts;
            assert!(
                times.is_none_or(|times| times.contains(&(*hash, time))),
                "{path}, case {n}: frame {display} has time {time}"
            );
        }
        noticed += usize::from(first.len() < index.num_frames() as usize);
        if n % 3 != 0 {
            continue;
        }
        let mut used = SoftwareDecoder::with_threads(4);
        for run in plan::plan_decode_ranges(other.index(), &first_frames) {
            used.run(&mut other.reader(), &run, |_, _| Ok(()))
                .expect("valid");
        }
        let (_, second) = delivered(&bytes, &mut used).expect("as before");
        let shared: Vec<_> = second
            .iter()
            .filter(|frame| first.iter().any(|f| f.0 == frame.0))
            .collect();
        assert!(
            shared.into_iter().all(|frame| first.contains(frame)),
            "{path}, case {n}: differs from the first time"
        );
        assert!(
            second.iter().all(|(_, hash)| right.contains(hash)),
            "{path}, case {n}: wrong with threads"
        );
    }
    noticed
}

#[test]
fn truncated_picture_is_not_delivered() {
    let mut noticed = 0;
    for path in [
        "video/codecs/hevc_176x144.h265",
        "video/derived/hevc_open_gop_640x360.ts",
        "video/codecs/hevc_single_keyframe.ts",
        "video/codecs/h264_320x240.h264",
        "video/derived/ts_start_10h_640x360.ts",
        "video/codecs/vp8_640x360.ivf",
        "video/codecs/vp8_640x360.avi",
        "video/codecs/vp9_352x288.ivf",
        "video/codecs/vp9_352x288.avi",
        "video/codecs/mpeg2_raw.m2v",
        "video/codecs/msmpeg4v3.avi",
        "video/codecs/mjpeg_320x240.avi",
    ] {
        let entry = named(path);
        let intact = std::fs::read(entry.root.join(&entry.path)).expect("readable");
        let mut rng = TestRng(7);
        let cuts = (0..12).map(|_| intact.len() / 2 + rng.next_below(intact.len() / 2));
        let cuts: Vec<usize> = cuts.chain((1..6).map(|n| intact.len() - 29 * n)).collect();
        let of_file =
            check_delivered_frames(path, cuts.into_iter().map(|end| intact[..end].to_vec()));
        println!("{path}: {of_file} of 17 cuts leave a frame out");
        noticed += of_file;
    }
    assert!(noticed > 40, "{noticed}");
}

/// The last packet of a truncated file is an error even if its decoder conceals what is missing, as
/// VP8's and VP9's do.
#[test]
fn truncated_packet_is_counted_and_not_delivered() {
    for path in [
        "video/codecs/vp8_640x360.ivf",
        "video/codecs/vp8_640x360.avi",
        "video/codecs/vp9_352x288.ivf",
        "video/codecs/vp9_352x288.avi",
        "video/codecs/av1_film_grain.ivf",
        "video/codecs/mjpeg_320x240.avi",
        "video/codecs/msmpeg4v3.avi",
    ] {
        let entry = named(path);
        let intact = std::fs::read(entry.root.join(&entry.path)).expect("readable");
        let whole = index_of(intact.clone());
        assert!(whole.direct && whole.damaged_units == 0, "{path}");
        let count = whole.packets.len();
        for n in [count / 3, count / 2, count - 2, count - 1] {
            let (begin, size) = (
                whole.packets[n].offset as usize,
                whole.packets[n].size as usize,
            );
            for cut in [size / 4, size / 2, size - 1]
                .into_iter()
                .filter(|&cut| cut > 0)
            {
                let (index, frames) =
                    delivered(&intact[..begin + cut], &mut SoftwareDecoder::new())
                        .expect("earlier frames");
                let before = whole
                    .frames
                    .iter()
                    .filter(|frame| frame.packet.as_usize() < n)
                    .count();
                assert_eq!(
                    frames.len(),
                    before,
                    "{path}: {cut} of {size} bytes of packet {n}"
                );
                // A demuxer may drop such a packet instead of marking it.
                let is_listed = index.packets.len() > n;
                assert_eq!(
                    index.damaged_units,
                    u32::from(is_listed),
                    "{path}: packet {n} cut to {cut}"
                );
            }
        }
        check_delivered_frames(
            path,
            (1..4).map(|n| intact[..intact.len() - 41 * n].to_vec()),
        );
    }
}

#[test]
fn missing_reference_picture_is_detected() {
    for (path, entry) in [
        ("video/codecs/h264_b_pyramid.mp4", b"avc1"),
        ("video/derived/h264_open_gop_720p.mp4", b"avc1"),
        ("video/derived/hevc_main_open_gop_640x360.mp4", b"hvc1"),
    ] {
        let mut intact = Mp4::of(&named(path), entry);
        intact.samples.truncate(40);
        let without = |n: usize| {
            let mut mp4 = intact.clone();
            let lost = mp4.samples.remove(n);
            mp4.samples[n - 1].ticks += lost.ticks;
            mp4.written()
        };
        let repeated = |n: usize| {
            let mut mp4 = intact.clone();
            mp4.samples[n].data = mp4.samples[n - 1].data.clone();
            mp4.written()
        };
        let noticed = check_delivered_frames(
            path,
            (1..intact.samples.len()).flat_map(|n| [without(n), repeated(n)]),
        );
        println!(
            "{path}: {noticed} of {} losses leave a frame out",
            2 * intact.samples.len() - 2
        );
        assert!(noticed > 15, "{path}: {noticed}");
    }
}

#[test]
fn skipped_flv_tag_is_detected() {
    let path = "video/codecs/h264_480x360.flv";
    let entry = named(path);
    let intact = std::fs::read(entry.root.join(&entry.path)).expect("readable");
    let mut tags = Vec::new();
    let mut at = 13; // behind the header and the size of a tag that does not exist
    while let Some(size) = intact.get(at + 1..at + 4) {
        tags.push((at, intact[at]));
        at += 15 + u32::from_be_bytes([0, size[0], size[1], size[2]]) as usize;
    }
    const VIDEO: u8 = 9;
    let damaged = tags
        .iter()
        .filter(|tag| tag.1 == VIDEO)
        .skip(1)
        .step_by(6)
        .map(|&(at, _)| {
            let mut bytes = intact.clone();
            bytes[at + 3] ^= 0x40; // the lowest byte of its size
            bytes
        });
    let noticed = check_delivered_frames(path, damaged);
    assert!(noticed > 5, "{noticed}");
}

#[test]
fn data_that_does_not_begin_with_an_image_is_not_mjpeg() {
    let path = "video/codecs/mjpeg_320x240.avi";
    let mut mp4 = Mp4::of(&named(path), b"jpeg");
    mp4.samples.truncate(20);
    let intact = mp4.written();
    assert_eq!(
        check_delivered_frames(path, [intact.clone()].into_iter()),
        0
    );
    // Each sample begins 35 bytes early, as with a wrong chunk offset.
    let at = intact
        .windows(4)
        .position(|w| w == b"stco")
        .expect("a table of chunk offsets")
        + 12;
    let mut early = intact;
    let offset = u32::from_be_bytes(early[at..at + 4].try_into().expect("4 bytes")) - 35;
    early[at..at + 4].copy_from_slice(&offset.to_be_bytes());
    let (_, frames) = delivered(&early, &mut SoftwareDecoder::new()).expect("an index");
    assert_eq!(frames, [], "no sample is an image");
}

#[test]
fn lost_ogg_page_is_detected() {
    let path = "video/codecs/theora_400x300.ogv";
    let entry = named(path);
    let intact = std::fs::read(entry.root.join(&entry.path)).expect("readable");
    let pages: Vec<usize> = (0..intact.len() - 4)
        .filter(|&at| intact[at..].starts_with(b"OggS"))
        .collect();
    let count = pages.len() - 3;
    assert!(count > 10, "{count}");
    // A page is removed, or a byte of it contradicts the page's checksum.
    let without = |n: usize| [&intact[..pages[n]], &intact[pages[n + 1]..]].concat();
    let changed = |n: usize| {
        let mut bytes = intact.clone();
        bytes[pages[n + 1] - 1] ^= 0x55;
        bytes
    };
    let noticed = check_delivered_frames(
        path,
        (2..2 + count).flat_map(|n| [without(n), changed(n)].into_iter()),
    );
    // Most of the other pages precede a keyframe.
    assert!(noticed > count / 2, "{noticed} of {}", 2 * count);
}

/// The packets of an IVF file, header of the file first.
fn ivf_packets(bytes: &[u8]) -> Vec<&[u8]> {
    let mut packets = vec![&bytes[..32]];
    let mut at = 32;
    while at < bytes.len() {
        let end =
            at + 12 + u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes")) as usize;
        packets.push(&bytes[at..end]);
        at = end;
    }
    packets
}

#[test]
fn frame_result_does_not_depend_on_the_request() {
    let entry = named("video/codecs/av1_film_grain.ivf");
    let intact = std::fs::read(entry.root.join(&entry.path)).expect("readable");
    let packets = ivf_packets(&intact);
    let mut behind_damage = 0;
    let pipeline = || {
        TransformPipeline::new(Vec::<Transform>::new(), Dtype::U8, Layout::Nthwc).expect("valid")
    };
    for n in 1..packets.len() - 1 {
        let mut swapped = packets.clone();
        swapped.swap(n, n + 1);
        let source: Arc<dyn ByteSource> = Arc::new(MemorySource::new("damaged", swapped.concat()));
        let Ok(video) = Video::open(source) else {
            continue;
        };
        let mut clip_decoder = ClipDecoder::new(pipeline());
        let mut decode = |frames: &[PresentationIndex]| {
            let mut output = LazyClipOutput::default();
            clip_decoder
                .decode_clip(&mut video.reader(), frames, KEY, &mut output)
                .map(|()| {
                    output
                        .into_clip()
                        .expect("on the CPU")
                        .expect("not empty")
                        .0
                        .bytes()
                        .expect("on the host")
                        .to_vec()
                })
        };
        let all: Vec<PresentationIndex> = (0..video.index().num_frames())
            .map(PresentationIndex)
            .collect();
        let alone: Vec<Option<Vec<u8>>> = all.iter().map(|&frame| decode(&[frame]).ok()).collect();
        let good: Vec<PresentationIndex> = all
            .iter()
            .copied()
            .filter(|f| alone[f.as_usize()].is_some())
            .collect();
        if good.is_empty() {
            continue;
        }
        let together = decode(&good).expect("each of them comes alone");
        let one_by_one: Vec<u8> = good
            .iter()
            .flat_map(|f| alone[f.as_usize()].clone().expect("good"))
            .collect();
        assert!(together == one_by_one, "packets {n} and {} swapped", n + 1);

        let mut stream =
            FrameStream::start(&video, ClipDecoder::new(pipeline())).expect("a thread");
        let mut delivered = 0;
        while let Some(Ok(_)) = stream.next() {
            delivered += 1;
        }
        let first_refused = alone.iter().position(Option::is_none).unwrap_or(all.len());
        assert_eq!(
            delivered,
            first_refused,
            "packets {n} and {} swapped",
            n + 1
        );
        behind_damage += good.iter().filter(|f| f.as_usize() > first_refused).count();
    }
    assert!(
        behind_damage > 0,
        "no swap leaves a decodable frame after a damaged one"
    );
}
