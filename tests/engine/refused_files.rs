//! Tests files that are refused when they are opened: encrypted video, and containers that are not
//! read.

use crate::common::mp4::{Mp4, boxed};
use crate::common::named;
use crate::timestamps::{decoded, index_of, memory, read};
use framespool::error::Error;

/// Checks that a file is refused as unsupported with this reason.
fn assert_refused(name: &str, bytes: Vec<u8>, reason: &str) {
    let error = index_of(&memory(name, bytes))
        .err()
        .unwrap_or_else(|| panic!("{name} is read"));
    assert!(
        matches!(error, Error::Unsupported { .. }),
        "{name}: {error}"
    );
    assert!(
        error.to_string().contains(name) && error.to_string().contains(reason),
        "{name}: {error}"
    );
}

#[test]
fn encrypted_mp4_names_its_scheme() {
    let mut mp4 = Mp4::of(&named("video/derived/faststart_640x360.mp4"), b"avc1");
    mp4.samples.truncate(5);
    mp4.entry = *b"encv";
    let clear = mp4.config.clone();
    let schm = boxed(b"schm", b"\0\0\0\0cbcs\0\x01\0\0");
    let sinf = boxed(b"sinf", &[boxed(b"frma", b"avc1"), schm].concat());
    mp4.config = [clear.clone(), sinf].concat();
    assert_refused("cbcs.mp4", mp4.written(), "encrypted video (scheme cbcs)");
    mp4.config = clear;
    assert_refused(
        "unknown.mp4",
        mp4.written(),
        "encrypted video (scheme encv)",
    );
    mp4.entry = *b"drmi";
    assert_refused("drmi.mp4", mp4.written(), "encrypted video (scheme drmi)");
}

/// Inserts `child` at the end of the element that begins at `at`, and extends the size of each
/// element in `around`.
fn with_child(
    mut bytes: Vec<u8>,
    around: &[usize],
    at: usize,
    id_len: usize,
    child: &[u8],
) -> Vec<u8> {
    let size_at = |at: usize, id_len: usize, bytes: &[u8]| {
        let len = bytes[at + id_len].leading_zeros() as usize + 1;
        let field = &bytes[at + id_len..][..len];
        let value = field
            .iter()
            .fold(0u64, |value, &byte| value << 8 | u64::from(byte));
        (len, value & ((1 << (7 * len)) - 1))
    };
    let (len, size) = size_at(at, id_len, &bytes);
    let end = at + id_len + len + size as usize;
    for &element in [at].iter().chain(around) {
        let id_len = bytes[element].leading_zeros() as usize + 1;
        let (len, size) = size_at(element, id_len, &bytes);
        if size != (1 << (7 * len)) - 1 {
            let marked = 1u64 << (7 * len) | (size + child.len() as u64);
            bytes[element + id_len..][..len].copy_from_slice(&marked.to_be_bytes()[8 - len..]);
        }
    }
    bytes.splice(end..end, child.iter().copied());
    bytes
}

#[test]
fn encrypted_matroska_is_refused() {
    let bytes = read("video/derived/live_no_cues_640x360.mkv");
    let find = |id: &[u8], from: usize| {
        from + bytes[from..]
            .windows(id.len())
            .position(|w| w == id)
            .expect("an element")
    };
    let segment = find(&[0x18, 0x53, 0x80, 0x67], 0);
    // The IDs with the first bytes of their sizes: another element refers to the first ID.
    let tracks = find(&[0x16, 0x54, 0xae, 0x6b, 0x40], segment);
    let track = find(&[0xae, 0x01, 0x00], tracks);
    let encoding = |kind: u8, parts: &[u8]| {
        let parts = [&[0x50, 0x33, 0x81, kind][..], parts].concat();
        let encoding = [&[0x62, 0x40, 0x80 | parts.len() as u8][..], &parts].concat();
        [&[0x6d, 0x80, 0x80 | encoding.len() as u8][..], &encoding].concat()
    };
    let aes = [0x47, 0xe1, 0x81, 5];
    let key = [0x47, 0xe2, 0x82, 7, 8];
    for (name, parts) in [
        ("keyless.mkv", aes.to_vec()),
        ("with_key.mkv", [&aes[..], &key].concat()),
    ] {
        let encryption = [&[0x50, 0x35, 0x80 | parts.len() as u8][..], &parts].concat();
        let changed = with_child(
            bytes.clone(),
            &[segment, tracks],
            track,
            1,
            &encoding(1, &encryption),
        );
        assert_refused(
            name,
            changed,
            "encrypted video (scheme ContentEncryption, AES)",
        );
    }
}

#[test]
fn encrypted_asf_is_refused() {
    const CODEC_LIST: [u8; 16] =
        *b"\x40\x52\xd1\x86\x1d\x31\xd0\x11\xa3\xa4\x00\xa0\xc9\x03\x48\xf6";
    const ADVANCED: [u8; 16] = *b"\x33\x85\x05\x43\x81\x69\xe6\x49\x9b\x74\xad\x12\xcb\x86\xd5\x8c";
    let mut bytes = read("video/codecs/wmv2_640x360.wmv");
    let at = bytes
        .windows(16)
        .position(|w| w == CODEC_LIST)
        .expect("a codec list");
    bytes[at..at + 16].copy_from_slice(&ADVANCED);
    assert_refused(
        "drm.wmv",
        bytes,
        "encrypted video (scheme ASF Advanced Content Encryption)",
    );
}

#[test]
fn encrypted_flv_is_refused() {
    let mut bytes = read("video/codecs/h264_480x360.flv");
    let (mut at, mut tags) = (13, 0);
    while let Some(&[kind, a, b, c]) = bytes.get(at..at + 4).and_then(|head| head.first_chunk()) {
        if kind == 9 && tags > 20 {
            bytes[at] |= 0x20;
        }
        tags += 1;
        at += 15 + u32::from_be_bytes([0, a, b, c]) as usize;
    }
    assert_refused(
        "filter.flv",
        bytes,
        "encrypted video (scheme FLV encryption filter)",
    );
}

#[test]
fn scrambled_transport_and_program_streams_are_refused() {
    const VIDEO_PID: u16 = 0x100;
    let intact = read("video/odd/ts_base.ts");
    let scrambled = |from: usize, count: usize| {
        let mut bytes = intact.clone();
        let video = bytes
            .chunks_mut(188)
            .filter(|p| u16::from_be_bytes([p[1], p[2]]) & 0x1fff == VIDEO_PID);
        for packet in video.skip(from).take(count) {
            packet[3] |= 0x80;
            let head = if packet[3] & 0x20 == 0 {
                4
            } else {
                5 + usize::from(packet[4])
            };
            packet[head..].iter_mut().for_each(|byte| *byte ^= 0x5a);
        }
        bytes
    };
    for from in [0, 200] {
        assert_refused(
            "scrambled.ts",
            scrambled(from, usize::MAX),
            "encrypted video (scheme transport stream",
        );
    }
    // A few damaged packets do not make a file encrypted.
    index_of(&memory("damaged.ts", scrambled(200, 3))).expect("damaged, not encrypted");
    let mut bytes = read("video/codecs/mpeg1_352x240.mpg");
    let plain = read("video/codecs/mpeg2_closed_gop.mpg");
    index_of(&memory("plain.mpg", bytes.clone())).expect("not encrypted");
    bytes = plain;
    let mut at = 0;
    while let Some(found) = memchr::memmem::find(&bytes[at..], &[0, 0, 1, 0xe0]) {
        at += found + 4;
        if bytes[at + 2] & 0xc0 == 0x80 {
            bytes[at + 2] |= 0x10;
        }
    }
    assert_refused("css.mpg", bytes, "encrypted video (scheme PES scrambling)");
}

#[test]
fn raw_stream_in_another_container_is_refused() {
    let raw = read("video/codecs/mpeg2_raw.m2v");
    let jpeg = read("video/codecs/mjpeg_320x240.avi");
    let image = memchr::memmem::find(&jpeg, &[0xff, 0xd8, 0xff]).expect("an image");
    for (name, head) in [
        ("NUT", &b"nut/multimedia container\0"[..]),
        (
            "MXF",
            b"\x06\x0e\x2b\x34\x02\x05\x01\x01\x0d\x01\x02\x01\x01\x02\x04\x00",
        ),
        ("GXF", b"\0\0\0\0\x01\xbc\0\0\0\x80\0\0\0\0\xe1\xe2"),
        ("DHAV", b"DHAV\xfd\0\0\0"),
    ] {
        assert_refused(name, [head, &raw].concat(), name);
        assert_refused(name, [head, &jpeg[image..]].concat(), name);
    }
    let error = index_of(&memory("other.bin", [&b"other"[..], &raw].concat())).unwrap_err();
    assert!(
        matches!(error, Error::Malformed { .. }) && error.to_string().contains("00 00 01"),
        "{error}"
    );
    assert_eq!(
        decoded(memory("zeros.m2v", [&[0; 7][..], &raw].concat()))
            .hashes
            .len(),
        40,
        "leading zeros"
    );
}
