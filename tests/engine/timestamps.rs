//! Tests files whose tables are contradictory or incomplete: times, sync flags, empty packets. Each
//! is derived from a generated video, whose recorded frames are the expected ones, or written by
//! hand.

use std::collections::HashMap;
use std::sync::Arc;

use crate::common::mp4::{Mp4, Sample};
use crate::common::{Entry, hash, named};
use framespool::Result;
use framespool::decode::PacketReader;
use framespool::decode::SoftwareDecoder;
use framespool::decode::plan;
use framespool::index::{VideoIndex, build};
use framespool::limits::Limits;
use framespool::source::{ByteSource, MemorySource};
use framespool::units::{DecodeIndex, PresentationIndex};

/// A file and its frames, decoded in sequence on one thread.
pub(crate) struct Decoded {
    pub source: Arc<dyn ByteSource>,
    pub index: Arc<VideoIndex>,
    /// The hash of each frame, in presentation order.
    pub hashes: Vec<String>,
}

pub(crate) fn index_of(source: &Arc<dyn ByteSource>) -> Result<Arc<VideoIndex>> {
    build(source, &Limits::default()).map(Arc::new)
}

/// Returns the hashes of frames, in the order requested.
pub(crate) fn frames(
    source: &Arc<dyn ByteSource>,
    index: &Arc<VideoIndex>,
    decoder: &mut SoftwareDecoder,
    wanted: &[u32],
) -> Result<Vec<String>> {
    let frames: Vec<PresentationIndex> = wanted.iter().copied().map(PresentationIndex).collect();
    let mut reader = PacketReader::new(source.clone(), index.clone());
    let mut got: HashMap<DecodeIndex, String> = HashMap::new();
    for run in plan::plan_decode_ranges(index, &frames) {
        decoder.run(&mut reader, &run, |packet, frame| {
            got.insert(packet, hash(frame));
            Ok(())
        })?;
    }
    Ok(frames
        .iter()
        .map(|frame| got[&index.frames[frame.as_usize()].packet].clone())
        .collect())
}

/// Decodes a file in sequence, and checks that the same frames result when they are requested
/// alone, from the last to the first, on one thread, and in clips with strides on four threads.
pub(crate) fn decoded(source: Arc<dyn ByteSource>) -> Decoded {
    let index = index_of(&source).unwrap();
    let count = index.num_frames();
    let all: Vec<u32> = (0..count).collect();
    let hashes = frames(&source, &index, &mut SoftwareDecoder::new(), &all).unwrap();
    let mut alone = SoftwareDecoder::new();
    for &frame in all.iter().rev().step_by(if count > 24 { 3 } else { 1 }) {
        let got = frames(&source, &index, &mut alone, &[frame]).unwrap();
        assert_eq!(got[0], hashes[frame as usize], "frame {frame} alone");
    }
    let mut threaded = SoftwareDecoder::with_threads(4);
    for stride in [2, 7] {
        let clip: Vec<u32> = all.iter().copied().step_by(stride).collect();
        let got = frames(&source, &index, &mut threaded, &clip).unwrap();
        let expected: Vec<String> = clip.iter().map(|&n| hashes[n as usize].clone()).collect();
        assert_eq!(got, expected, "stride {stride}, four threads");
    }
    for frame in all {
        let frame = PresentationIndex(frame);
        assert_eq!(
            index.frame_at(index.pts_seconds(frame)).ok(),
            Some(frame),
            "times must grow"
        );
    }
    Decoded {
        source,
        index,
        hashes,
    }
}

impl Decoded {
    pub fn times(&self) -> Vec<i64> {
        self.index.frames.iter().map(|frame| frame.pts).collect()
    }
}

pub(crate) fn recorded(entry: &Entry) -> Vec<String> {
    entry.hashes().into_iter().map(|frame| frame.1).collect()
}

pub(crate) fn read(path: &str) -> Vec<u8> {
    let entry = named(path);
    std::fs::read(entry.root.join(&entry.path)).expect("readable")
}

pub(crate) fn memory(name: &str, bytes: Vec<u8>) -> Arc<dyn ByteSource> {
    Arc::new(MemorySource::new(name, bytes))
}

/// The files whose tables are changed: codec, sample entry, video. All except those of MPEG-4 and
/// AV1 have more than one GOP, and all have B pictures if the codec has them.
const VIDEOS: [(&str, &[u8; 4], &str); 6] = [
    ("h264", b"avc1", "video/codecs/h264_b_pyramid.mp4"),
    (
        "hevc",
        b"hvc1",
        "video/derived/hevc_main_open_gop_640x360.mp4",
    ),
    ("vp8", b"vp08", "video/derived/vp8_640x360.webm"),
    ("vp9", b"vp09", "video/derived/odd_333x251_vp9.webm"),
    ("av1", b"av01", "video/derived/av1_640x360.mp4"),
    ("mpeg4", b"mp4v", "video/derived/mpeg4_qpel_480x270.avi"),
];

/// Keeps the first `count` samples.
pub(crate) fn first(mut mp4: Mp4, count: usize) -> Mp4 {
    mp4.samples.truncate(count);
    mp4
}

/// Returns a shortened file, and its frames when it is not changed otherwise.
pub(crate) fn video(entry: &[u8; 4], path: &str, count: usize) -> (Mp4, Decoded) {
    let mp4 = first(Mp4::of(&named(path), entry), count);
    let intact = decoded(mp4.source("intact.mp4"));
    let recorded = recorded(&named(path));
    assert!(
        intact.hashes.iter().all(|hash| recorded.contains(hash)),
        "{path}: frames that are not recorded"
    );
    (mp4, intact)
}

#[test]
fn zero_duration_sample_keeps_other_frames_times() {
    for (codec, entry, path) in VIDEOS {
        let (mut mp4, intact) = video(entry, path, 45);
        mp4.samples[20].ticks = 0;
        let changed = decoded(mp4.source("zero_duration.mp4"));
        assert_eq!(
            changed.hashes, intact.hashes,
            "{codec}: the frames and their order"
        );
        // The presentation time of each frame by the tables, without hidden packets.
        let said = mp4.times();
        // A tick in the MPEG-4 file is as long as a frame, so no tick is free between two frames
        // and ticks are subdivided.
        let parts = i64::from(changed.index.info.time_base.den() / mp4.timescale);
        assert_eq!(
            parts > 1,
            codec == "mpeg4",
            "{codec}: ticks are divided by {parts}"
        );
        let of_frames: Vec<i64> = changed
            .index
            .frames
            .iter()
            .map(|f| parts * said[f.packet.as_usize()])
            .collect();
        let moved: Vec<usize> = (0..of_frames.len())
            .filter(|&n| changed.times()[n] != of_frames[n])
            .collect();
        assert!(
            moved.len() <= 3,
            "{codec}: {moved:?} of {} frames have other times",
            of_frames.len()
        );
        for n in moved {
            assert_eq!(
                changed.times()[n],
                changed.times()[n - 1] + 1,
                "{codec}: one tick after the equal time"
            );
        }
    }
}

#[test]
fn equal_times_use_the_codecs_order() {
    for (codec, entry, path) in VIDEOS {
        let (mut mp4, intact) = video(entry, path, 45);
        // Gives a frame the presentation time of the frame before it.
        let (early, late) = (
            intact.index.frames[21].packet,
            intact.index.frames[22].packet,
        );
        let times = mp4.times();
        mp4.samples[late.as_usize()].shift -=
            (times[late.as_usize()] - times[early.as_usize()]) as i32;
        let changed = decoded(mp4.source("equal_times.mp4"));
        assert_eq!(changed.hashes, intact.hashes, "{codec}");
        let parts = i64::from(changed.index.info.time_base.den() / mp4.timescale);
        let mut expected: Vec<i64> = intact.times().iter().map(|time| parts * time).collect();
        expected[22] = expected[21] + 1;
        assert_eq!(changed.times(), expected, "{codec}");
    }
}

/// FFmpeg remuxes AVI to MP4 this way: the times follow the order of packets, for any order of
/// pictures.
#[test]
fn times_in_packet_order_use_the_codecs_order() {
    for (codec, entry, path) in VIDEOS
        .into_iter()
        .filter(|video| ["h264", "mpeg4"].contains(&video.0))
    {
        let (mut mp4, intact) = video(entry, path, 45);
        mp4.samples.iter_mut().for_each(|sample| sample.shift = 0);
        let changed = decoded(mp4.source("no_ctts.mp4"));
        assert_eq!(changed.hashes, intact.hashes, "{codec}");
        assert_eq!(changed.times().len(), 45, "{codec}");
    }
}

#[test]
fn time_that_contradicts_random_access_points_is_replaced() {
    for (codec, entry, path) in &VIDEOS[..2] {
        let (mut mp4, intact) = video(entry, path, 120);
        assert!(
            intact.index.sync_points.len() > 2,
            "{codec}: the random access point after it shows the error"
        );
        let second = intact.index.sync_points[1] as usize;
        let said = mp4.times();
        mp4.samples[second].shift += 1 << 24;
        let changed = decoded(mp4.source("far.mp4"));
        assert_eq!(
            changed.hashes, intact.hashes,
            "{codec}: the frames and their order"
        );
        let others: Vec<i64> = changed
            .times()
            .into_iter()
            .filter(|time| *time != said[second])
            .collect();
        let expected: Vec<i64> = intact
            .times()
            .into_iter()
            .filter(|time| *time != said[second])
            .collect();
        assert_eq!(others, expected, "{codec}: the times of the other frames");
    }
}

#[test]
fn number_of_edits_follows_from_the_size_of_the_list() {
    let mut bytes = read("video/derived/base_640x360.mp4");
    let intact = decoded(memory("intact.mp4", bytes.clone()));
    let count = bytes
        .windows(4)
        .position(|w| w == b"elst")
        .expect("an edit list")
        + 8;
    for stated in [0u32, 7, u32::MAX] {
        bytes[count..count + 4].copy_from_slice(&stated.to_be_bytes());
        let changed = decoded(memory("edits.mp4", bytes.clone()));
        assert_eq!(changed.times(), intact.times(), "{stated}");
        assert_eq!(changed.hashes, intact.hashes, "{stated}");
    }
}

#[test]
fn frames_before_the_end_of_a_gradual_refresh_are_hidden() {
    let path = "video/derived/h264_intra_refresh_640x360.mp4";
    let mut mp4 = Mp4::of(&named(path), b"avc1");
    let recorded = recorded(&named(path));
    // Behind the IDR picture, the file has recovery points only.
    let recovers = |sample: &Sample| sample.data.windows(3).any(|w| w[0] & 31 == 6 && w[1] == 6);
    let first = (1..mp4.samples.len())
        .find(|&n| recovers(&mp4.samples[n]))
        .expect("a recovery point");
    mp4.samples.drain(..first);
    let late = decoded(mp4.source("late.mp4"));
    let hidden = mp4.samples.len() - late.hashes.len();
    println!("{hidden} of {} frames are hidden", mp4.samples.len());
    assert!(hidden > 0, "recovery is not immediate");
    assert_eq!(
        late.hashes,
        recorded[first + hidden..first + mp4.samples.len()]
    );
}

#[test]
fn cinepak_frames_do_not_depend_on_the_request() {
    let mut mp4 = Mp4::of(&named("video/codecs/cinepak_160x120.avi"), b"cvid");
    mp4.samples.remove(0); // the first frames now refer to one that is missing
    decoded(mp4.source("late.mov"));
}

#[test]
fn missing_sync_table_uses_packet_headers() {
    for (codec, entry, path) in VIDEOS {
        let (mut mp4, intact) = video(entry, path, 60);
        mp4.lists_keys = false;
        let changed = decoded(mp4.source("no_stss.mp4"));
        assert_eq!(changed.hashes, intact.hashes, "{codec}");
        assert_eq!(changed.times(), intact.times(), "{codec}");
        assert_eq!(
            changed.index.sync_points, intact.index.sync_points,
            "{codec}"
        );
    }
}

#[test]
fn wrong_sync_sample_table_is_not_trusted() {
    for (codec, entry, path) in VIDEOS {
        let (mut mp4, intact) = video(entry, path, 60);
        for sample in &mut mp4.samples {
            sample.key = false;
        }
        for other in [3, 17, 18, 40] {
            mp4.samples[other].key = true;
        }
        let changed = decoded(mp4.source("other_stss.mp4"));
        assert_eq!(changed.hashes, intact.hashes, "{codec}");
        assert_eq!(changed.times(), intact.times(), "{codec}");
        assert!(
            changed
                .index
                .sync_points
                .iter()
                .all(|start| intact.index.sync_points.contains(start)),
            "{codec}"
        );
    }
}

#[test]
fn unparsed_codec_starts_at_first_sample() {
    let entry = named("video/codecs/h263_176x144.3gp");
    let mut mp4 = Mp4::of(&entry, b"s263");
    let intact = decoded(mp4.source("intact.3gp"));
    assert_eq!(intact.hashes, recorded(&entry));
    let [first, rest @ ..] = &intact.index.sync_points[..] else {
        panic!("it has key samples")
    };
    assert!(*first == 0 && !rest.is_empty());
    mp4.samples[0].key = false;
    let changed = decoded(mp4.source("first_is_no_key.3gp"));
    assert_eq!(
        (&changed.hashes, &changed.index.sync_points),
        (&intact.hashes, &intact.index.sync_points)
    );
}

#[test]
fn every_intra_only_picture_is_a_random_access_point() {
    let entry = named("video/derived/prores_422.mov");
    let mut mp4 = Mp4::of(&entry, b"apco");
    for (n, sample) in mp4.samples.iter_mut().enumerate() {
        sample.key = n == 3;
    }
    let changed = decoded(mp4.source("prores.mov"));
    assert_eq!(changed.hashes, recorded(&entry));
    assert_eq!(changed.index.sync_points.len(), changed.hashes.len());
}

#[test]
fn false_random_access_point_falls_back_to_an_earlier() {
    for (codec, entry, path) in VIDEOS {
        let (mp4, intact) = video(entry, path, 45);
        // Marks a predicted picture as a random access point.
        let start = intact.index.sync_points[0];
        let lie = (start + 2..)
            .find(|at| !intact.index.sync_points.contains(at))
            .expect("a predicted picture");
        let mut index = (*intact.index).clone();
        index.sync_points = vec![start, lie];
        let index = Arc::new(index);
        let last = intact.hashes.len() as u32 - 1;
        assert_eq!(
            index.sync_point_for(PresentationIndex(last)).0,
            lie,
            "{codec}"
        );
        for threads in [1, 4] {
            let mut decoder = SoftwareDecoder::with_threads(threads);
            let got = frames(&mp4.source("lie.mp4"), &index, &mut decoder, &[last]).unwrap();
            assert_eq!(
                got,
                intact.hashes[last as usize..],
                "{codec}, {threads} threads"
            );
            assert!(
                decoder.stats.ranges_repeated > 0,
                "{codec}, {threads} threads: it was noticed"
            );
        }
    }
}

#[test]
fn fully_corrupt_file_is_not_searched() {
    let mut mp4 = Mp4::of(&named("video/derived/prores_422.mov"), b"apco");
    while mp4.samples.len() < 60 {
        mp4.samples.extend_from_within(..);
    }
    mp4.samples
        .iter_mut()
        .for_each(|sample| sample.data.fill(0));
    let source = mp4.source("zeros.mov");
    let index = index_of(&source).expect("valid tables");
    assert!(index.sync_points.len() >= 60);
    let mut decoder = SoftwareDecoder::new();
    frames(&source, &index, &mut decoder, &[index.num_frames() - 1])
        .expect_err("nothing can be decoded");
    assert!(
        decoder.stats.ranges_repeated <= 5,
        "{}",
        decoder.stats.ranges_repeated
    );
}

#[test]
fn empty_samples_repeat_the_previous_frame() {
    for (codec, entry, path) in VIDEOS {
        let (mp4, intact) = video(entry, path, 45);
        let length = mp4.samples[10].ticks;
        let empty = Sample {
            data: Vec::new(),
            ticks: length,
            shift: 0,
            key: false,
        };
        let mut changed = mp4.clone();
        changed.samples.push(empty.clone());
        changed.samples.push(empty.clone());
        let trailing = decoded(changed.source("empty_at_the_end.mp4"));
        assert_eq!(
            (&trailing.hashes, trailing.times()),
            (&intact.hashes, intact.times()),
            "{codec}"
        );
        assert_eq!(
            trailing.index.end_pts,
            intact.index.end_pts + 2 * i64::from(length),
            "{codec}"
        );
        // In the middle, with a duration of 0, so that no other time changes.
        let mut changed = mp4.clone();
        let empty = Sample { ticks: 0, ..empty };
        changed.samples.insert(30, empty.clone());
        changed.samples.insert(7, Sample { key: true, ..empty });
        let inside = decoded(changed.source("empty_inside.mp4"));
        assert_eq!(
            (&inside.hashes, inside.times()),
            (&intact.hashes, intact.times()),
            "{codec}"
        );
    }
}

// ---- Other containers ----

#[test]
fn appended_recording_continues_the_times() {
    let part = read("video/odd/ts_base.ts");
    let one = decoded(memory("one.ts", part.clone()));
    let two = decoded(memory("two.ts", [&part[..], &part].concat()));
    assert_eq!(two.hashes, [&one.hashes[..], &one.hashes].concat());
    let step = one.times()[1] - one.times()[0];
    let length = one.times()[one.times().len() - 1] - one.times()[0] + step;
    let second: Vec<i64> = one.times().iter().map(|time| time + length).collect();
    assert_eq!(two.times(), [one.times(), second].concat());
}

#[test]
fn equal_matroska_times_are_separated() {
    let entry = named("video/action/words/again.mkv");
    let mut bytes = read(&entry.path);
    let intact = decoded(memory("intact.mkv", bytes.clone()));
    // A block's time, relative to its cluster's, is stored two bytes before its flags, which
    // precede the payload.
    let (early, late) = (
        intact.index.frames[10].packet,
        intact.index.frames[11].packet,
    );
    let place = |at: DecodeIndex| intact.index.packets[at.as_usize()].offset as usize - 3;
    let time = |bytes: &[u8], at: usize| i16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let apart = (intact.times()[11] - intact.times()[10]) as i16;
    let moved = time(&bytes, place(late)) - apart;
    bytes[place(late)..place(late) + 2].copy_from_slice(&moved.to_be_bytes());
    let changed = decoded(memory("equal.mkv", bytes));
    assert_ne!(early, late);
    assert_eq!(changed.hashes, intact.hashes);
    let mut expected = intact.times();
    expected[11] = expected[10] + 1;
    assert_eq!(changed.times(), expected);
}
