//! Tests streams whose presentation order only their picture headers tell, and streams that begin
//! without a key frame. They are written by hand.

use std::sync::Arc;

use crate::common::mp4::{Mp4, Sample, boxed};
use crate::timestamps::{decoded, index_of, memory, read};
use framespool::index::VideoIndex;

/// An MP4 with picture headers as samples, whose presentation times follow decode order as in
/// Smooth Streaming.
fn in_decode_order(entry: &[u8; 4], config: &[u8], headers: &[&[u8]]) -> Arc<VideoIndex> {
    let sample = |(n, header): (usize, &&[u8])| Sample {
        data: [header, &[0x55; 40][..]].concat(),
        ticks: 40,
        shift: 0,
        key: n == 0,
    };
    let samples = headers.iter().enumerate().map(sample).collect();
    let config = boxed(b"glbl", config);
    let mp4 = Mp4 {
        entry: *entry,
        config,
        size: (64, 48),
        timescale: 1000,
        samples,
        lists_keys: true,
    };
    index_of(&mp4.source("headers.mov")).unwrap()
}

fn order(index: &VideoIndex) -> Vec<(u32, i64)> {
    index
        .frames
        .iter()
        .map(|frame| (frame.packet.0, frame.pts))
        .collect()
}

#[test]
fn vc1_is_shown_in_the_order_of_its_picture_types() {
    // The advanced profile, 64x48, progressive; then an entry point.
    let advanced = [
        0, 0, 1, 0x0f, 0xc2, 0, 1, 0xf0, 0x17, 0x08, 0x80, 0, 0, 1, 0x0e, 0x40, 0, 0, 0,
    ];
    let (i, p, b) = (
        [0, 0, 1, 0x0d, 0xc0],
        [0, 0, 1, 0x0d, 0x00],
        [0, 0, 1, 0x0d, 0x80],
    );
    // I P B B P B, in which the last P has no B before it.
    let headers: [&[u8]; 7] = [&i, &p, &b, &b, &p, &b, &p];
    let expected = [
        (0, 0),
        (2, 40),
        (3, 80),
        (1, 120),
        (5, 160),
        (4, 200),
        (6, 240),
    ];
    assert_eq!(
        order(&in_decode_order(b"WVC1", &advanced, &headers)),
        expected
    );
    // The main profile with B pictures: two bits of frame count, then 01 I, 1 P, 00 B.
    let main = [0x40, 0x09, 0xca, 0x31, 0, 0];
    let (i, p, b) = ([0x10], [0x20], [0x00]);
    let headers: [&[u8]; 7] = [&i, &p, &b, &b, &p, &b, &p];
    assert_eq!(order(&in_decode_order(b"WMV3", &main, &headers)), expected);
}

/// Bits of a VP9 header, most significant first.
struct Bits {
    digits: Vec<u8>,
    at: usize,
}

impl Bits {
    fn of(bytes: &[u8]) -> Self {
        Self {
            digits: bytes
                .iter()
                .flat_map(|byte| (0..8).rev().map(move |n| byte >> n & 1))
                .collect(),
            at: 0,
        }
    }

    fn take(&mut self, count: usize) -> usize {
        self.at += count;
        self.digits[self.at - count..self.at]
            .iter()
            .fold(0, |value, &bit| value << 1 | usize::from(bit))
    }
}

/// Converts a VP9 key frame of profile 0 to a packet with a hidden intra-only frame that refreshes
/// all references, and a frame that shows it (VP9 bitstream specification, 6.2).
fn as_intra_only(key: &[u8]) -> Vec<u8> {
    let mut bits = Bits::of(&key[..key.len().min(64)]);
    assert_eq!(bits.take(7), 0b100_0001, "a shown key frame of profile 0");
    let resilient = bits.take(1);
    assert_eq!(bits.take(24), 0x49_83_42);
    bits.take(4); // color
    let size = bits.at;
    let width = bits.take(16) + 1;
    bits.take(16);
    if bits.take(1) == 1 {
        bits.take(32);
    }
    bits.take(if resilient == 0 { 2 } else { 0 });
    bits.take(2 + 6 + 3);
    if bits.take(1) == 1 && bits.take(1) == 1 {
        for _ in 0..6 {
            if bits.take(1) == 1 {
                bits.take(7);
            }
        }
    }
    bits.take(8);
    for _ in 0..3 {
        if bits.take(1) == 1 {
            bits.take(5);
        }
    }
    assert_eq!(bits.take(1), 0, "no segmentation");
    let columns = width.div_ceil(64);
    let (mut most, mut least) = (1, 0);
    while columns >> most >= 4 {
        most += 1;
    }
    most -= 1;
    while 64 << least < columns {
        least += 1;
    }
    while least < most && bits.take(1) == 1 {
        least += 1;
    }
    if bits.take(1) == 1 {
        bits.take(1);
    }
    bits.take(16);
    let (end, rest) = (bits.at, bits.at.div_ceil(8));
    // Marker, profile 0, not shown again, not a key frame, hidden; intra-only; all contexts are
    // reset.
    let mut digits = vec![1, 0, 0, 0, 0, 1, 0, resilient as u8, 1];
    digits.extend(if resilient == 0 { vec![1, 1] } else { vec![] });
    digits.extend(&Bits::of(&[0x49, 0x83, 0x42, 0xff]).digits);
    digits.extend(&bits.digits[size..end]);
    let header = digits.chunks(8).map(|c| {
        c.iter()
            .enumerate()
            .fold(0, |byte, (n, bit)| byte | bit << (7 - n))
    });
    let hidden: Vec<u8> = header.chain(key[rest..].iter().copied()).collect();
    let [low, high, ..] = (hidden.len() as u32).to_le_bytes();
    let marker = 0b1100_1001; // two frames, sizes of two bytes
    [&hidden[..], &[0x88], &[marker, low, high, 1, 0, marker]].concat()
}

#[test]
fn vp9_may_begin_with_an_intra_only_frame() {
    let bytes = read("video/codecs/vp9_352x288.ivf");
    let intact = decoded(memory("intact.ivf", bytes.clone()));
    let size = u32::from_le_bytes(*bytes[32..].first_chunk().unwrap()) as usize;
    let first = as_intra_only(&bytes[44..44 + size]);
    let head = [
        &bytes[..32],
        &(first.len() as u32).to_le_bytes(),
        &bytes[36..44],
    ]
    .concat();
    let changed = decoded(memory(
        "intra_only.ivf",
        [&head, &first, &bytes[44 + size..]].concat(),
    ));
    assert!(!changed.index.packets[0].is_closed_sync() && changed.index.packets[0].is_sync());
    assert_eq!(changed.hashes, intact.hashes);
    assert_eq!(changed.times(), intact.times());
}
