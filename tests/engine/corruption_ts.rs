//! Tests MPEG transport streams with packets that are missing or repeated.

use crate::common::named;
use crate::corruption::{
    TestRng, check_delivered_frames, check_frames_and_times, delivered, index_of,
};
use framespool::decode::SoftwareDecoder;

#[test]
fn lost_transport_stream_packet_is_detected() {
    for path in [
        "video/derived/hevc_open_gop_640x360.ts",
        "video/codecs/hevc_single_keyframe.ts",
        "video/derived/ts_start_10h_640x360.ts",
        "video/codecs/mpeg2_open_gop_720x405.ts",
        "video/derived/mpeg2_interlaced_720x576.ts",
        "video/codecs/mpeg2_closed_gop_interlaced.ts",
    ] {
        let entry = named(path);
        let intact = std::fs::read(entry.root.join(&entry.path)).expect("readable");
        const PACKET: usize = 188;
        const VIDEO_PID: u16 = 0x100; // the first one of FFmpeg's muxer
        let count = intact.len() / PACKET;
        let mut rng = TestRng(11);
        // Single packets, and runs that contain whole pictures.
        let lost: Vec<(usize, usize)> = (0..24)
            .map(|n| {
                (
                    count / 8 + rng.next_below(count - count / 8),
                    [1, 1, 7, count / 16][n % 4],
                )
            })
            .collect();
        let without = |(n, run): (usize, usize)| {
            [
                &intact[..n * PACKET],
                &intact[((n + run) * PACKET).min(intact.len())..],
            ]
            .concat()
        };
        let (index, frames) = delivered(&intact, &mut SoftwareDecoder::new()).expect("intact");
        let times = frames
            .into_iter()
            .map(|(n, hash)| (hash, index.frames[n as usize].pts))
            .collect();
        let noticed = check_frames_and_times(path, Some(&times), lost.iter().copied().map(without));
        println!("{path}: {noticed} of 24 losses leave a frame out");
        assert!(noticed >= 12, "{path}: {noticed}");
        for n in lost
            .into_iter()
            .filter(|lost| lost.1 == 1)
            .map(|lost| lost.0)
        {
            // The last packet before the end leaves no gap in the continuity counter.
            let at = n * PACKET;
            let pid = |packet: &[u8]| u16::from_be_bytes([packet[1], packet[2]]) & 0x1fff;
            let is_followed = intact[at + PACKET..]
                .chunks(PACKET)
                .any(|p| pid(p) == pid(&intact[at..]));
            if pid(&intact[at..]) == VIDEO_PID && is_followed {
                assert!(
                    index_of(without((n, 1))).damaged_units > 0,
                    "{path}: lost packet {n} is not counted"
                );
            }
        }
        assert_eq!(index_of(intact).damaged_units, 0, "{path}");
    }
}

/// A transport packet may be sent twice (ISO/IEC 13818-1, 2.4.3.3).
#[test]
fn transport_stream_packet_sent_twice_is_ignored() {
    for path in [
        "video/derived/hevc_open_gop_640x360.ts",
        "video/codecs/mpeg2_open_gop_720x405.ts",
    ] {
        let entry = named(path);
        let intact = std::fs::read(entry.root.join(&entry.path)).expect("readable");
        let twice: Vec<u8> = intact
            .chunks(188)
            .enumerate()
            .flat_map(|(n, packet)| packet.repeat(if n % 7 == 3 { 2 } else { 1 }))
            .collect();
        let (index, frames) = delivered(&twice, &mut SoftwareDecoder::new()).expect("valid");
        let (_, right) = delivered(&intact, &mut SoftwareDecoder::new()).expect("valid");
        assert_eq!((index.damaged_units, frames), (0, right), "{path}");
    }
}

#[test]
fn damaged_first_picture_of_a_transport_stream_is_detected() {
    for path in [
        "video/codecs/mpeg2_open_gop_720x405.ts",
        "video/derived/hevc_open_gop_640x360.ts",
    ] {
        let entry = named(path);
        let intact = std::fs::read(entry.root.join(&entry.path)).expect("readable");
        // The first packets are tables and the headers of the stream.
        let noticed = check_delivered_frames(
            path,
            (6..16).map(|n| [&intact[..n * 188], &intact[(n + 1) * 188..]].concat()),
        );
        assert!(noticed > 5, "{path}: {noticed}");
    }
}
