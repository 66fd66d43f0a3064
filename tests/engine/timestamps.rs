//! Tests files whose tables and headers are contradictory or incomplete: times, sync flags, empty packets and
//! parameter sets. Each is derived from a generated video, whose recorded frames are the expected ones, or
//! written by hand.

use std::collections::HashMap;
use std::sync::Arc;

use crate::common::mp4::{Mp4, Sample};
use crate::common::{hash, named, Entry};
use framespool::decode::plan;
use framespool::decode::PacketReader;
use framespool::decode::SoftwareDecoder;
use framespool::index::{build, VideoIndex};
use framespool::limits::Limits;
use framespool::source::{ByteSource, MemorySource};
use framespool::units::{DecodeIndex, PresentationIndex};
use framespool::{Error, Result};

/// A file and its frames, decoded in sequence on one thread.
struct Decoded {
    source: Arc<dyn ByteSource>,
    index: Arc<VideoIndex>,
    /// The hash of each frame, in presentation order.
    hashes: Vec<String>,
}

fn index_of(source: &Arc<dyn ByteSource>) -> Result<Arc<VideoIndex>> {
    build(source, &Limits::default(), &|| Ok(())).map(Arc::new)
}

/// Returns the hashes of frames, in the order requested.
fn frames(
    source: &Arc<dyn ByteSource>,
    index: &Arc<VideoIndex>,
    decoder: &mut SoftwareDecoder,
    wanted: &[u32],
) -> Result<Vec<String>> {
    let frames: Vec<PresentationIndex> = wanted.iter().copied().map(PresentationIndex).collect();
    let mut reader = PacketReader::new(source.clone(), index.clone());
    let mut got: HashMap<DecodeIndex, String> = HashMap::new();
    for run in plan::plan_decode_ranges(index, &frames) {
        decoder.run(&mut reader, &run, &|| Ok(()), |packet, frame| {
            got.insert(packet, hash(frame));
            Ok(())
        })?;
    }
    Ok(frames.iter().map(|frame| got[&index.frames[frame.as_usize()].packet].clone()).collect())
}

/// Decodes a file in sequence, and checks that the same frames result when they are requested alone, from the
/// last to the first, on one thread, and in clips with strides on four threads.
fn decoded(source: Arc<dyn ByteSource>) -> Decoded {
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
        assert_eq!(index.frame_at(index.pts_seconds(frame)).ok(), Some(frame), "times must grow");
    }
    Decoded { source, index, hashes }
}

impl Decoded {
    fn times(&self) -> Vec<i64> {
        self.index.frames.iter().map(|frame| frame.pts).collect()
    }
}

fn recorded(entry: &Entry) -> Vec<String> {
    entry.hashes().into_iter().map(|frame| frame.1).collect()
}

fn read(path: &str) -> Vec<u8> {
    let entry = named(path);
    std::fs::read(entry.root.join(&entry.path)).expect("readable")
}

fn memory(name: &str, bytes: Vec<u8>) -> Arc<dyn ByteSource> {
    Arc::new(MemorySource::new(name, bytes))
}

/// The files whose tables are changed: codec, sample entry, video. All except those of MPEG-4 and AV1 have
/// more than one GOP, and all have B pictures if the codec has them.
const VIDEOS: [(&str, &[u8; 4], &str); 6] = [
    ("h264", b"avc1", "video/codecs/h264_b_pyramid.mp4"),
    ("hevc", b"hvc1", "video/derived/hevc_main_open_gop_640x360.mp4"),
    ("vp8", b"vp08", "video/derived/vp8_640x360.webm"),
    ("vp9", b"vp09", "video/derived/odd_333x251_vp9.webm"),
    ("av1", b"av01", "video/derived/av1_640x360.mp4"),
    ("mpeg4", b"mp4v", "video/derived/mpeg4_qpel_480x270.avi"),
];

/// Keeps the first `count` samples.
fn first(mut mp4: Mp4, count: usize) -> Mp4 {
    mp4.samples.truncate(count);
    mp4
}

/// Returns a shortened file, and its frames when it is not changed otherwise.
fn video(entry: &[u8; 4], path: &str, count: usize) -> (Mp4, Decoded) {
    let mp4 = first(Mp4::of(&named(path), entry), count);
    let intact = decoded(mp4.source("intact.mp4"));
    let recorded = recorded(&named(path));
    assert!(intact.hashes.iter().all(|hash| recorded.contains(hash)), "{path}: frames that are not recorded");
    (mp4, intact)
}

#[test]
fn zero_duration_sample_keeps_other_frames_times() {
    for (codec, entry, path) in VIDEOS {
        let (mut mp4, intact) = video(entry, path, 45);
        mp4.samples[20].ticks = 0;
        let changed = decoded(mp4.source("zero_duration.mp4"));
        assert_eq!(changed.hashes, intact.hashes, "{codec}: the frames and their order");
        // The presentation time of each frame by the tables, without hidden packets.
        let said = mp4.times();
        // A tick in the MPEG-4 file is as long as a frame, so no tick is free between two frames and ticks
        // are subdivided.
        let parts = i64::from(changed.index.info.time_base.den() / mp4.timescale);
        assert_eq!(parts > 1, codec == "mpeg4", "{codec}: ticks are divided by {parts}");
        let of_frames: Vec<i64> =
            changed.index.frames.iter().map(|f| parts * said[f.packet.as_usize()]).collect();
        let moved: Vec<usize> =
            (0..of_frames.len()).filter(|&n| changed.times()[n] != of_frames[n]).collect();
        assert!(moved.len() <= 3, "{codec}: {moved:?} of {} frames have other times", of_frames.len());
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
        let (early, late) = (intact.index.frames[21].packet, intact.index.frames[22].packet);
        let times = mp4.times();
        mp4.samples[late.as_usize()].shift -= (times[late.as_usize()] - times[early.as_usize()]) as i32;
        let changed = decoded(mp4.source("equal_times.mp4"));
        assert_eq!(changed.hashes, intact.hashes, "{codec}");
        let parts = i64::from(changed.index.info.time_base.den() / mp4.timescale);
        let mut expected: Vec<i64> = intact.times().iter().map(|time| parts * time).collect();
        expected[22] = expected[21] + 1;
        assert_eq!(changed.times(), expected, "{codec}");
    }
}

/// FFmpeg remuxes AVI to MP4 this way: the times follow the order of packets, whatever the order of pictures
/// is.
#[test]
fn times_in_packet_order_use_the_codecs_order() {
    for (codec, entry, path) in VIDEOS.into_iter().filter(|video| ["h264", "mpeg4"].contains(&video.0)) {
        let (mut mp4, intact) = video(entry, path, 45);
        mp4.samples.iter_mut().for_each(|sample| sample.shift = 0);
        let changed = decoded(mp4.source("no_ctts.mp4"));
        assert_eq!(changed.hashes, intact.hashes, "{codec}");
        assert_eq!(changed.times().len(), 45, "{codec}");
    }
}

#[test]
fn missing_sync_table_uses_packet_headers() {
    for (codec, entry, path) in VIDEOS {
        let (mut mp4, intact) = video(entry, path, 60);
        mp4.lists_keys = false;
        let changed = decoded(mp4.source("no_stss.mp4"));
        assert_eq!(changed.hashes, intact.hashes, "{codec}");
        assert_eq!(changed.times(), intact.times(), "{codec}");
        assert_eq!(changed.index.sync_points, intact.index.sync_points, "{codec}");
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
            changed.index.sync_points.iter().all(|start| intact.index.sync_points.contains(start)),
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
    let [first, rest @ ..] = &intact.index.sync_points[..] else { panic!("it has key samples") };
    assert!(*first == 0 && !rest.is_empty());
    mp4.samples[0].key = false;
    let changed = decoded(mp4.source("first_is_no_key.3gp"));
    assert_eq!((&changed.hashes, &changed.index.sync_points), (&intact.hashes, &intact.index.sync_points));
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
        let lie =
            (start + 2..).find(|at| !intact.index.sync_points.contains(at)).expect("a predicted picture");
        let mut index = (*intact.index).clone();
        index.sync_points = vec![start, lie];
        let index = Arc::new(index);
        let last = intact.hashes.len() as u32 - 1;
        assert_eq!(index.sync_point_for(PresentationIndex(last)).0, lie, "{codec}");
        for threads in [1, 4] {
            let mut decoder = SoftwareDecoder::with_threads(threads);
            let got = frames(&mp4.source("lie.mp4"), &index, &mut decoder, &[last]).unwrap();
            assert_eq!(got, intact.hashes[last as usize..], "{codec}, {threads} threads");
            assert!(decoder.stats.ranges_repeated > 0, "{codec}, {threads} threads: it was noticed");
        }
    }
}

#[test]
fn fully_corrupt_file_is_not_searched() {
    let mut mp4 = Mp4::of(&named("video/derived/prores_422.mov"), b"apco");
    while mp4.samples.len() < 60 {
        mp4.samples.extend_from_within(..);
    }
    mp4.samples.iter_mut().for_each(|sample| sample.data.fill(0));
    let source = mp4.source("zeros.mov");
    let index = index_of(&source).expect("valid tables");
    assert!(index.sync_points.len() >= 60);
    let mut decoder = SoftwareDecoder::new();
    frames(&source, &index, &mut decoder, &[index.num_frames() - 1]).expect_err("nothing can be decoded");
    assert!(decoder.stats.ranges_repeated <= 5, "{}", decoder.stats.ranges_repeated);
}

#[test]
fn empty_samples_repeat_the_previous_frame() {
    for (codec, entry, path) in VIDEOS {
        let (mp4, intact) = video(entry, path, 45);
        let length = mp4.samples[10].ticks;
        let empty = Sample { data: Vec::new(), ticks: length, shift: 0, key: false };
        let mut changed = mp4.clone();
        changed.samples.push(empty.clone());
        changed.samples.push(empty.clone());
        let trailing = decoded(changed.source("empty_at_the_end.mp4"));
        assert_eq!((&trailing.hashes, trailing.times()), (&intact.hashes, intact.times()), "{codec}");
        assert_eq!(trailing.index.end_pts, intact.index.end_pts + 2 * i64::from(length), "{codec}");
        // In the middle, with a duration of 0, so that no other time changes.
        let mut changed = mp4.clone();
        let empty = Sample { ticks: 0, ..empty };
        changed.samples.insert(30, empty.clone());
        changed.samples.insert(7, Sample { key: true, ..empty });
        let inside = decoded(changed.source("empty_inside.mp4"));
        assert_eq!((&inside.hashes, inside.times()), (&intact.hashes, intact.times()), "{codec}");
    }
}

// ---- MPEG-1 and MPEG-2 ----

#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    used: u32,
}

impl Bits {
    fn put(&mut self, digits: &str) {
        for digit in digits.bytes().filter(u8::is_ascii_digit) {
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
            }
            if digit == b'1' {
                *self.bytes.last_mut().unwrap() |= 0x80 >> (self.used % 8);
            }
            self.used += 1;
        }
    }

    fn number(&mut self, value: u32, bits: usize) {
        self.put(&format!("{value:0bits$b}"));
    }

    fn code(&mut self, code: u8) {
        self.used = self.bytes.len() as u32 * 8;
        self.bytes.extend([0, 0, 1, code]);
        self.used += 32;
    }
}

const CLOSED_GOP: u32 = 2;
const BROKEN_LINK: u32 = 1;

/// Returns one access unit per picture. Pictures have one macroblock. A group has an I picture of its own
/// brightness, two B pictures shown before it that repeat it, and a P picture with two B pictures that repeat
/// that one. The stream is MPEG-1, or MPEG-2 with field pairs as in interlaced recordings, where an I picture
/// is an I field and a P field.
fn mpeg_units(flags: &[u32], fields: bool) -> Vec<Vec<u8>> {
    let mut units = Vec::new();
    for (group, &flags) in flags.iter().enumerate() {
        // Picture type and temporal reference: B pictures refer to the next picture in presentation order.
        for (n, (kind, place)) in [(1, 2), (3, 0), (3, 1), (2, 5), (3, 3), (3, 4)].into_iter().enumerate() {
            let mut bits = Bits::default();
            if n == 0 {
                bits.code(0xb3);
                let height = if fields { 32 } else { 16 };
                bits.put(&format!(
                    "{:012b} {height:012b} 0001 0011 {:018b} 1 {:010b} 0 0 0",
                    16, 100_000, 20
                ));
                if fields {
                    bits.code(0xb5);
                    bits.put("0001 01001000 0 01 00 00 000000000000 1 00000000 0 00 00000");
                }
                bits.code(0xb8);
                bits.number(1 << 12, 25);
                bits.number(flags, 2);
            }
            let brightness = 8 + (group as u32 * 2 + u32::from(kind == 2)) % 8;
            for field in 0..1 + u32::from(fields) {
                let kind = if kind == 1 && field == 1 { 2 } else { kind };
                mpeg_picture(&mut bits, kind, place, brightness, fields.then_some(field));
            }
            units.push(bits.bytes);
        }
    }
    units
}

/// Writes a picture of type 1 (I), 2 (P) or 3 (B). `field` is given for MPEG-2 field pictures; 0 is the top
/// field.
fn mpeg_picture(bits: &mut Bits, kind: u32, place: u32, brightness: u32, field: Option<u32>) {
    bits.code(0);
    bits.number(place, 10);
    bits.number(kind, 3);
    bits.number(0xffff, 16);
    // Ranges of motion vectors: MPEG-2 stores them in the extension.
    bits.put(match (kind, field) {
        (1, _) => "0",
        (2, None) => "0 001 0",
        (2, Some(_)) => "0 111 0",
        (_, None) => "0 001 0 001 0",
        (_, Some(_)) => "0 111 0 111 0",
    });
    if let Some(field) = field {
        bits.code(0xb5);
        bits.put("1000 0001 0001 0001 0001 00");
        bits.number(1 + field, 2);
        bits.put("0 0 0 0 0 0 0 0 0 0");
    }
    bits.code(1);
    bits.put("00001 0 1"); // quantizer scale, no extra information, macroblock address increment 1
    if kind == 3 {
        bits.put("010"); // backward prediction, not coded
        if let Some(field) = field {
            bits.put("01"); // field prediction
            bits.number(field, 1);
        }
        bits.put("1 1"); // zero motion vector
        return;
    }
    // Macroblock type: intra.
    bits.put(if kind == 1 { "1" } else { "00011" });
    // Brightness: the DC difference in steps of 8 from 128, as its size of four bits and a value from 8 to
    // 15.
    bits.put("110");
    bits.number(brightness, 4);
    bits.put("10 100 10 100 10 100 10 00 10 00 10");
}

/// Writes an MPEG-1 program stream with one packet per access unit; `times` are presentation and decode time
/// of each, in units of 1/90000 s.
fn program_stream(units: &[Vec<u8>], times: &[Option<(u64, u64)>]) -> Vec<u8> {
    let stamp = |prefix: u8, t: u64| -> [u8; 5] {
        let part = |shift: u32, bits: u32| (t >> shift & ((1 << bits) - 1)) as u8;
        [
            prefix << 4 | part(30, 3) << 1 | 1,
            part(22, 8),
            part(15, 7) << 1 | 1,
            part(7, 8),
            part(0, 7) << 1 | 1,
        ]
    };
    let mut out = Vec::new();
    for (unit, time) in units.iter().zip(times) {
        out.extend([0, 0, 1, 0xba]);
        out.extend(stamp(2, 1000));
        out.extend([0x80, 0x10, 0x01]);
        let head = match time {
            Some((pts, dts)) if pts != dts => [stamp(3, *pts), stamp(1, *dts)].concat(),
            Some((pts, _)) => stamp(2, *pts).to_vec(),
            None => vec![0x0f],
        };
        out.extend([0, 0, 1, 0xe0]);
        out.extend(((head.len() + unit.len()) as u16).to_be_bytes());
        out.extend(head);
        out.extend(unit);
    }
    out.extend([0, 0, 1, 0xb9]);
    out
}

/// Returns the packet of each frame, numbered in file order.
fn packets_of(decoded: &Decoded) -> Vec<u32> {
    decoded.index.frames.iter().map(|frame| frame.packet.0).collect()
}

#[test]
fn leading_pictures_of_closed_mpeg_gop_are_decoded() {
    for fields in [false, true] {
        closed_groups(fields);
    }
}

fn closed_groups(fields: bool) {
    let groups = mpeg_units(&[CLOSED_GOP, 0, CLOSED_GOP, CLOSED_GOP], fields);
    let stream = decoded(memory(if fields { "closed.m2v" } else { "closed.m1v" }, groups.concat()));
    let order = |group: u32| [1, 2, 0, 4, 5, 3].map(|n| 6 * group + n);
    assert_eq!(packets_of(&stream), (0..4).flat_map(order).collect::<Vec<_>>());
    for group in 0..4usize {
        let hashes = &stream.hashes[6 * group..][..6];
        assert!(hashes[0] == hashes[2] && hashes[1] == hashes[2] && hashes[2] != hashes[5], "group {group}");
    }
    let step = stream.times()[1];
    assert_eq!(stream.times(), (0..24).map(|n| n * step).collect::<Vec<_>>(), "a raw stream begins at 0");
    let starts: Vec<u32> =
        (0..24).map(|frame| stream.index.sync_point_for(PresentationIndex(frame)).0).collect();
    assert_eq!(starts[..6], [0; 6]);
    assert_eq!(starts[6..12], [0, 0, 6, 6, 6, 6], "an open group");
    assert_eq!(starts[12..18], [12; 6], "a closed one is not decoded from the previous one");
    let mut decoder = SoftwareDecoder::new();
    frames(&stream.source, &stream.index, &mut decoder, &[12]).unwrap();
    assert_eq!(decoder.stats.frames_decoded, 2, "the I picture and the B picture");
}

#[test]
fn open_gop_leading_frames_drop_after_broken_links() {
    let groups = mpeg_units(&[0, 0, BROKEN_LINK, 0], false);
    let stream = decoded(memory("open.m1v", groups.concat()));
    let order = |group: u32| [1, 2, 0, 4, 5, 3].map(|n| 6 * group + n);
    let expected: Vec<u32> = (0..4).flat_map(order).filter(|n| ![1, 2, 13, 14].contains(n)).collect();
    assert_eq!(packets_of(&stream), expected);
}

#[test]
fn missing_program_stream_times_are_derived() {
    let units = mpeg_units(&[CLOSED_GOP; 4], false);
    // 25 frames per second from 0.5 s on; decoding begins one frame earlier.
    let place = |n: usize| n / 6 * 6 + [2, 0, 1, 5, 3, 4][n % 6];
    let stamp = |n: usize| (45_000 + 3600 * (place(n) as u64 + 1), 45_000 + 3600 * n as u64);
    let given = |has: &dyn Fn(usize) -> bool| {
        let times: Vec<_> = (0..units.len()).map(|n| has(n).then(|| stamp(n))).collect();
        decoded(memory("times.mpg", program_stream(&units, &times))).times()
    };
    let expected: Vec<i64> = (0..24).map(|n| 45_000 + 3600 * (n + 1)).collect();
    assert_eq!(given(&|_| true), expected);
    assert_eq!(given(&|n| n % 6 == 0), expected, "one time in each group");
    assert_eq!(given(&|n| n % 6 == 0 && n != 12), expected, "none in one of them");
    assert_eq!(given(&|n| n == 0), expected, "one in all");
    assert_eq!(given(&|n| n % 6 == 3), expected, "of P pictures");
    assert_eq!(given(&|n| n % 6 == 4), expected, "of B pictures");
    assert_eq!(given(&|n| n == 23), expected, "only at the end");
}

// ---- Empty packets of Theora ----

/// Returns the serial number of an Ogg stream, and its packets as (granule position of the page, payload).
fn ogg_packets(bytes: &[u8]) -> (u32, Vec<(u64, Vec<u8>)>) {
    let (mut at, mut packets, mut open, mut serial) = (0, Vec::new(), Vec::new(), 0);
    while let Some(page) = bytes.get(at..).filter(|page| page.starts_with(b"OggS")) {
        let granule = u64::from_le_bytes(page[6..14].try_into().unwrap());
        serial = u32::from_le_bytes(page[14..18].try_into().unwrap());
        let count = usize::from(page[26]);
        let mut place = 27 + count;
        for &size in &page[27..27 + count] {
            open.extend_from_slice(&page[place..place + usize::from(size)]);
            place += usize::from(size);
            if size < 255 {
                packets.push((granule, std::mem::take(&mut open)));
            }
        }
        at += place;
    }
    (serial, packets)
}

fn ogg(serial: u32, packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (n, (granule, data)) in packets.iter().enumerate() {
        let mut page = b"OggS\0".to_vec();
        page.push(if n == 0 {
            2
        } else if n + 1 == packets.len() {
            4
        } else {
            0
        });
        page.extend(granule.to_le_bytes());
        page.extend(serial.to_le_bytes());
        page.extend((n as u32).to_le_bytes());
        page.extend([0; 4]);
        let segments = data.len() / 255 + 1;
        assert!(segments < 256, "a packet for a page");
        page.push(segments as u8);
        page.extend(std::iter::repeat_n(255, segments - 1));
        page.push((data.len() % 255) as u8);
        page.extend(data);
        let crc = page.iter().fold(0u32, |crc, &byte| {
            (0..8).fold(crc ^ u32::from(byte) << 24, |crc, _| {
                crc << 1 ^ if crc >> 31 == 1 { 0x04c1_1db7 } else { 0 }
            })
        });
        page[22..26].copy_from_slice(&crc.to_le_bytes());
        out.extend(page);
    }
    out
}

#[test]
fn empty_theora_packets_repeat_the_previous_frame() {
    let entry = named("video/codecs/theora_400x300.ogv");
    let (serial, packets) = ogg_packets(&read(&entry.path));
    let (headers, frames) = packets.split_at(3);
    // This many bits of the granule position count the frames since the last keyframe (Theora specification,
    // 6.2).
    let shift = u16::from_be_bytes([headers[0].1[40], headers[0].1[41]]) >> 5 & 31;
    let mut written = headers.to_vec();
    written.iter_mut().for_each(|header| header.0 = 0);
    let (mut key, mut behind, mut expected) = (0u64, 0u64, Vec::new());
    for (n, (_, data)) in frames.iter().take(40).enumerate() {
        let repeats = match n {
            5 | 6 => 1,
            20 => 2,
            _ => 0,
        };
        (key, behind) = if data[0] & 0x40 == 0 { (key + behind + 1, 0) } else { (key, behind + 1) };
        written.push((key << shift | behind, data.clone()));
        expected.push((key + behind) as i64 - 1);
        for _ in 0..repeats {
            behind += 1;
            written.push((key << shift | behind, Vec::new()));
        }
    }
    let stream = decoded(memory("repeats.ogv", ogg(serial, &written)));
    assert_eq!(stream.hashes, recorded(&entry)[..40]);
    assert_eq!(stream.times(), expected);
}

// ---- Parameter sets ----

#[test]
fn missing_parameter_sets_are_named_in_the_error() {
    // NAL units of an unspecified type replace the parameter sets.
    let without = |path: &str, heads: &[u8], other: u8| {
        let mut bytes = read(path);
        for at in 0..bytes.len() - 4 {
            if bytes[at..at + 3] == [0, 0, 1] && heads.contains(&bytes[at + 3]) {
                bytes[at + 3] = other;
            }
        }
        bytes
    };
    let (h264, hevc) = ([0x67, 0x68, 0x27, 0x28], [0x40, 0x42, 0x44]);
    for (name, bytes) in [
        ("h264.ts", without("video/odd/ts_base.ts", &h264, 31)),
        ("hevc.ts", without("video/derived/hevc_open_gop_640x360.ts", &hevc, 63 << 1)),
    ] {
        let error = index_of(&memory(name, bytes)).map(|index| index.num_frames()).expect_err(name);
        assert!(matches!(error, Error::Malformed { .. }), "{name}: {error}");
        let text = error.to_string();
        assert!(text.contains(name) && text.contains("parameter sets"), "{text}");
    }
    // Raw streams are recognized by their parameter sets.
    for (name, bytes) in [
        ("bare.h264", without("video/codecs/h264_320x240.h264", &h264, 31)),
        ("bare.h265", without("video/codecs/hevc_176x144.h265", &hevc, 63 << 1)),
    ] {
        let error = index_of(&memory(name, bytes)).map(|index| index.num_frames()).expect_err(name);
        assert!(matches!(error, Error::Malformed { .. }) && error.to_string().contains(name), "{error}");
    }
}

/// Returns the bits of a NAL unit after its header byte, without emulation prevention bytes.
fn unescaped_bits(unit: &[u8]) -> Vec<bool> {
    let mut bytes = Vec::new();
    let mut zeros = 0;
    for &byte in &unit[1..] {
        if zeros >= 2 && byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        bytes.push(byte);
    }
    bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte >> (7 - bit) & 1 == 1)).collect()
}

/// Returns a NAL unit of this header byte and these bits, which end with the stop bit and alignment zeros.
fn unit(head: u8, mut bits: Vec<bool>) -> Vec<u8> {
    while bits.last() == Some(&false) {
        bits.pop();
    }
    let mut out = vec![head];
    let mut zeros = 0;
    for byte in bits.chunks(8) {
        let byte = byte.iter().enumerate().fold(0u8, |byte, (n, &bit)| byte | u8::from(bit) << (7 - n));
        if zeros >= 2 && byte <= 3 {
            out.push(3);
            zeros = 0;
        }
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        out.push(byte);
    }
    out
}

/// Returns the index after the Exp-Golomb number at `at`.
fn skip_exp_golomb(bits: &[bool], at: usize) -> usize {
    let zeros = bits[at..].iter().position(|&bit| bit).expect("a number");
    at + 2 * zeros + 1
}

/// Returns the NAL unit with parameter set id 1 ('010') instead of 0 ('1'). Works for CAVLC only, because the
/// remaining bits move by two.
fn renumbered(of: &[u8]) -> Vec<u8> {
    let mut bits = unescaped_bits(of);
    let one = [false, true, false];
    match of[0] & 31 {
        7 => drop(bits.splice(24..25, one)),
        8 => drop(bits.splice(0..2, [one, one].concat())),
        _ => {
            let at = skip_exp_golomb(&bits, skip_exp_golomb(&bits, 0));
            assert!(bits[at], "a slice that uses set 0");
            bits.splice(at..=at, one);
        }
    }
    unit(of[0], bits)
}

/// Returns a picture parameter set with another `chroma_qp_index_offset`: colors change, and no decoder error
/// results.
fn with_other_color(of: &[u8]) -> Vec<u8> {
    let mut bits = unescaped_bits(of);
    let mut at = skip_exp_golomb(&bits, skip_exp_golomb(&bits, 0)) + 2; // ids, entropy coding, picture order
    for _ in 0..3 {
        at = skip_exp_golomb(&bits, at); // slice groups, reference counts
    }
    at = skip_exp_golomb(&bits, skip_exp_golomb(&bits, at + 3)); // weighting, quantizers
    let end = skip_exp_golomb(&bits, at);
    bits.splice(at..end, [0, 0, 0, 0, 1, 0, 1, 0, 0].map(|bit| bit == 1)); // +10
    unit(of[0], bits)
}

#[test]
fn in_band_parameter_sets_apply_to_later_starts() {
    let entry = named("video/action/cars_768x432.mp4");
    let avc = Mp4::of(&entry, b"avc3");
    let prefixed = |unit: &[u8]| [&(unit.len() as u32).to_be_bytes()[..], unit].concat();
    let slices = |sample: &Sample| -> Vec<Vec<u8>> {
        let (mut rest, mut out) = (&sample.data[..], Vec::new());
        while let Some((length, tail)) = rest.split_first_chunk::<4>() {
            let (unit, tail) = tail.split_at(u32::from_be_bytes(*length) as usize);
            if [1, 5].contains(&(unit[0] & 31)) {
                out.push(unit.to_vec());
            }
            rest = tail;
        }
        out
    };
    // avcC: six bytes, the length of the SPS, the SPS, a count, the length of the PPS, the PPS.
    let avcc = &avc.config[8..];
    let set_at = |at: usize| {
        let length = usize::from(u16::from_be_bytes([avcc[at], avcc[at + 1]]));
        (avcc[at + 2..at + 2 + length].to_vec(), at + 2 + length)
    };
    let (sequence, end) = set_at(6);
    let (picture, _) = set_at(end + 1);
    // Twelve pictures that use the configured parameter sets (id 0), and the same pictures with id 1.
    let group = |by_one: bool| -> Vec<Sample> {
        let of = |sample: &Sample| {
            let units = slices(sample);
            let units = units.iter().map(|unit| if by_one { renumbered(unit) } else { unit.clone() });
            Sample { data: units.flat_map(|unit| prefixed(&unit)).collect(), ..sample.clone() }
        };
        avc.samples[..12].iter().map(of).collect()
    };
    let plain = renumbered(&picture);
    let sets = [[renumbered(&sequence), plain.clone()], [renumbered(&sequence), with_other_color(&plain)]];
    for kind in [b"avc3", b"avc1"] {
        let mut samples = Vec::new();
        for [sequence, picture] in &sets {
            let mut configured = group(false);
            // Before a P picture that uses the configured parameter sets.
            let brought = [prefixed(sequence), prefixed(picture), configured[5].data.clone()].concat();
            configured[5].data = brought;
            samples.extend(configured);
            samples.extend(group(true));
        }
        let mp4 = Mp4 { entry: *kind, samples, ..avc.clone() };
        let name = format!("sets_{}.mp4", String::from_utf8_lossy(kind));
        let changed = decoded(mp4.source(&name));
        let groups: Vec<&[String]> = changed.hashes.chunks(12).collect();
        assert_eq!(groups.len(), 4, "{name}");
        assert_eq!((groups[0], groups[0]), (groups[1], groups[2]), "{name}: the same pictures by other sets");
        assert_ne!(groups[3], groups[0], "{name}: other colors");
        assert!(changed.index.changes_parameters, "{name}");
    }
}

#[test]
fn in_band_sets_in_avc1_fail_later_pictures() {
    let mp4 = Mp4::of(&named("video/action/cars_768x432.mp4"), b"avc1");
    let intact = decoded(mp4.source("intact.mp4"));
    let sets = &mp4.config[8..];
    let length = |at: usize| usize::from(u16::from_be_bytes([sets[at], sets[at + 1]]));
    let at = 6 + 2 + length(6) + 1;
    let other = with_other_color(&sets[at + 2..at + 2 + length(at)]);
    let mut samples: Vec<Sample> = [&mp4.samples[..12], &mp4.samples[..12]].concat();
    for number in [5, 7] {
        samples[number].data =
            [&(other.len() as u32).to_be_bytes()[..], &other, &mp4.samples[number].data].concat();
    }
    let source = Mp4 { samples, ..mp4 }.source("misplaced.mp4");
    let index = index_of(&source).expect("valid tables");
    assert_eq!(index.sync_points, [0, 12]);
    let mut errors = 0;
    for frame in 0..24 {
        let packet = index.frames[frame as usize].packet.0;
        match frames(&source, &index, &mut SoftwareDecoder::new(), &[frame]) {
            Ok(hashes) => {
                assert!(!(5..12).contains(&packet), "frame {frame} of packet {packet}");
                assert!(intact.hashes.contains(&hashes[0]), "frame {frame}");
            }
            Err(error) => {
                assert!((5..12).contains(&packet), "frame {frame} of packet {packet}: {error}");
                assert!(error.to_string().contains("avc3"), "{error}");
                errors += 1;
            }
        }
    }
    assert_eq!(errors, 7);
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
    // A block's time, relative to its cluster's, is stored two bytes before its flags, which precede the
    // payload.
    let (early, late) = (intact.index.frames[10].packet, intact.index.frames[11].packet);
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
