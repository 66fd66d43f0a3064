//! Tests MPEG-1 and MPEG-2 streams written by hand: closed and open groups, and program streams
//! without times.

use crate::common::mp4::{Mp4, Sample};
use crate::timestamps::{Decoded, decoded, frames, index_of, memory};
use framespool::decode::SoftwareDecoder;
use framespool::units::PresentationIndex;

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

/// Returns one access unit per picture. Pictures have one macroblock. A group has an I picture of
/// its own brightness, two B pictures shown before it that repeat it, and a P picture with two B
/// pictures that repeat that one. The stream is MPEG-1, or MPEG-2 with field pairs as in interlaced
/// recordings, where an I picture is an I field and a P field.
fn mpeg_units(flags: &[u32], fields: bool) -> Vec<Vec<u8>> {
    let mut units = Vec::new();
    for (group, &flags) in flags.iter().enumerate() {
        // Picture type and temporal reference: B pictures refer to the next picture in presentation
        // order.
        for (n, (kind, place)) in [(1, 2), (3, 0), (3, 1), (2, 5), (3, 3), (3, 4)]
            .into_iter()
            .enumerate()
        {
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

/// Writes a picture of type 1 (I), 2 (P) or 3 (B). `field` is given for MPEG-2 field pictures; 0 is
/// the top field.
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
    // Brightness: the DC difference in steps of 8 from 128, as its size of four bits and a value
    // from 8 to 15.
    bits.put("110");
    bits.number(brightness, 4);
    bits.put("10 100 10 100 10 100 10 00 10 00 10");
}

/// Writes an MPEG-1 program stream with one packet per access unit; `times` are presentation and
/// decode time of each, in units of 1/90000 s.
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
    decoded
        .index
        .frames
        .iter()
        .map(|frame| frame.packet.0)
        .collect()
}

#[test]
fn leading_pictures_of_closed_mpeg_gop_are_decoded() {
    for fields in [false, true] {
        closed_groups(fields);
    }
}

fn closed_groups(fields: bool) {
    let groups = mpeg_units(&[CLOSED_GOP, 0, CLOSED_GOP, CLOSED_GOP], fields);
    let stream = decoded(memory(
        if fields { "closed.m2v" } else { "closed.m1v" },
        groups.concat(),
    ));
    let order = |group: u32| [1, 2, 0, 4, 5, 3].map(|n| 6 * group + n);
    assert_eq!(
        packets_of(&stream),
        (0..4).flat_map(order).collect::<Vec<_>>()
    );
    for group in 0..4usize {
        let hashes = &stream.hashes[6 * group..][..6];
        assert!(
            hashes[0] == hashes[2] && hashes[1] == hashes[2] && hashes[2] != hashes[5],
            "group {group}"
        );
    }
    let step = stream.times()[1];
    assert_eq!(
        stream.times(),
        (0..24).map(|n| n * step).collect::<Vec<_>>(),
        "a raw stream begins at 0"
    );
    let starts: Vec<u32> = (0..24)
        .map(|frame| stream.index.sync_point_for(PresentationIndex(frame)).0)
        .collect();
    assert_eq!(starts[..6], [0; 6]);
    assert_eq!(starts[6..12], [0, 0, 6, 6, 6, 6], "an open group");
    assert_eq!(
        starts[12..18],
        [12; 6],
        "a closed one is not decoded from the previous one"
    );
    let mut decoder = SoftwareDecoder::new();
    frames(&stream.source, &stream.index, &mut decoder, &[12]).unwrap();
    assert_eq!(
        decoder.stats.frames_decoded, 2,
        "the I picture and the B picture"
    );
}

/// Splits an access unit of two fields before the second one.
fn split_fields(unit: &[u8]) -> [Vec<u8>; 2] {
    let second = memchr::memmem::rfind(unit, &[0, 0, 1, 0]).expect("a picture");
    [unit[..second].to_vec(), unit[second..].to_vec()]
}

#[test]
fn two_packets_with_one_field_each_are_one_frame() {
    let units = mpeg_units(&[CLOSED_GOP, 0, 0], true);
    let whole = decoded(memory("whole.m2v", units.concat()));
    let fields = units.iter().flat_map(|unit| split_fields(unit));
    let samples: Vec<Sample> = fields
        .enumerate()
        .map(|(n, data)| Sample {
            data,
            ticks: 20,
            shift: 0,
            key: n % 12 == 0,
        })
        .collect();
    let mut mov = Mp4 {
        entry: *b"m2v1",
        config: Vec::new(),
        size: (16, 32),
        timescale: 1000,
        samples,
        lists_keys: true,
    };
    let split = decoded(mov.source("fields.mov"));
    assert_eq!(
        split.index.packets.len(),
        2 * units.len(),
        "libavformat does not join them"
    );
    assert_eq!(split.hashes, whole.hashes);
    let halved: Vec<u32> = packets_of(&split).iter().map(|packet| packet / 2).collect();
    assert_eq!(halved, packets_of(&whole));
    // A missing field makes one frame undecodable and moves no frame of other groups.
    mov.samples.remove(2 * 7);
    let index = index_of(&mov.source("missing.mov")).unwrap();
    assert_eq!(index.num_frames() as usize, units.len());
}

#[test]
fn sequence_end_between_fields_makes_no_frame() {
    const SEQUENCE_END: [u8; 4] = [0, 0, 1, 0xb7];
    let units = mpeg_units(&[CLOSED_GOP, CLOSED_GOP], true);
    let intact = decoded(memory(
        "intact.mpg",
        program_stream(&units, &vec![None; units.len()]),
    ));
    let mut ended = units.clone();
    let last = ended.pop().expect("units");
    ended.push(
        split_fields(&last)
            .iter()
            .flat_map(|field| [&field[..], &SEQUENCE_END].concat())
            .collect(),
    );
    let changed = decoded(memory(
        "ended.mpg",
        program_stream(&ended, &vec![None; units.len()]),
    ));
    assert_eq!(
        changed.index.packets.len(),
        units.len() + 1,
        "the parser splits the last pair"
    );
    assert_eq!(changed.hashes, intact.hashes);
}

#[test]
fn open_gop_leading_frames_drop_after_broken_links() {
    let groups = mpeg_units(&[0, 0, BROKEN_LINK, 0], false);
    let stream = decoded(memory("open.m1v", groups.concat()));
    let order = |group: u32| [1, 2, 0, 4, 5, 3].map(|n| 6 * group + n);
    let expected: Vec<u32> = (0..4)
        .flat_map(order)
        .filter(|n| ![1, 2, 13, 14].contains(n))
        .collect();
    assert_eq!(packets_of(&stream), expected);
}

#[test]
fn missing_program_stream_times_are_derived() {
    let units = mpeg_units(&[CLOSED_GOP; 4], false);
    // 25 frames per second from 0.5 s on; decoding begins one frame earlier.
    let place = |n: usize| n / 6 * 6 + [2, 0, 1, 5, 3, 4][n % 6];
    let stamp = |n: usize| {
        (
            45_000 + 3600 * (place(n) as u64 + 1),
            45_000 + 3600 * n as u64,
        )
    };
    let given = |has: &dyn Fn(usize) -> bool| {
        let times: Vec<_> = (0..units.len()).map(|n| has(n).then(|| stamp(n))).collect();
        decoded(memory("times.mpg", program_stream(&units, &times))).times()
    };
    let expected: Vec<i64> = (0..24).map(|n| 45_000 + 3600 * (n + 1)).collect();
    assert_eq!(given(&|_| true), expected);
    assert_eq!(given(&|n| n % 6 == 0), expected, "one time in each group");
    assert_eq!(
        given(&|n| n % 6 == 0 && n != 12),
        expected,
        "none in one of them"
    );
    assert_eq!(given(&|n| n == 0), expected, "one in all");
    assert_eq!(given(&|n| n % 6 == 3), expected, "of P pictures");
    assert_eq!(given(&|n| n % 6 == 4), expected, "of B pictures");
    assert_eq!(given(&|n| n == 23), expected, "only at the end");
}
