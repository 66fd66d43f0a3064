//! Tests packets whose payload is overwritten with zeros: they cause an error, and every other
//! frame keeps its index and its time.

use std::collections::HashMap;

use crate::common::{hash, named};
use crate::timestamps::{index_of, memory, read};
use framespool::decode::{PacketReader, SoftwareDecoder, plan};
use framespool::error::Error;
use framespool::index::VideoIndex;
use framespool::units::{DecodeIndex, PresentationIndex};

/// Files with B pictures, field pictures, packed pictures, hidden pictures, superframes and empty packets.
const FILES: [&str; 15] = [
    "video/derived/mpeg4_qpel_480x270.avi",
    "video/derived/xvid_bframes_480x270.avi",
    "video/codecs/mpeg4_176x144.3gp",
    "video/codecs/vp8_640x360.avi",
    "video/derived/vp8_640x360.webm",
    "video/codecs/vp8_640x360.ivf",
    "video/action/vp9_512x288.webm",
    "video/codecs/vp9_352x288.ivf",
    "video/codecs/h264_b_pyramid.mp4",
    "video/odd/mpeg2_fields.avi",
    "video/derived/h264_in_avi_bframes_640x360.avi",
    "video/derived/hevc_main_open_gop_640x360.mp4",
    "video/codecs/hevc_main10.mkv",
    "video/derived/av1_640x360.mp4",
    "video/codecs/av1_film_grain.ivf",
];

fn overwritten(bytes: &[u8], index: &VideoIndex, packet: usize) -> Vec<u8> {
    let record = &index.packets[packet];
    let mut bytes = bytes.to_vec();
    bytes[record.offset as usize..][..record.size as usize].fill(0);
    bytes
}

fn times(index: &VideoIndex) -> Vec<i64> {
    index.frames.iter().map(|frame| frame.pts).collect()
}

#[test]
fn overwritten_packet_moves_no_other_frame() {
    for path in FILES {
        let bytes = read(path);
        let intact = index_of(&memory("intact", bytes.clone())).unwrap();
        assert!(intact.direct && intact.damaged_units == 0, "{path}");
        let is_mpeg4 = intact.info.params.codec.name == "mpeg4";
        let count = intact.packets.len();
        let is_key = |n: usize| intact.packets[n].is_sync();
        for packet in (0..count).filter(|&n| n < 8 || n % 7 == 0 || n + 2 >= count || is_key(n)) {
            // A placeholder in a packed stream: its picture is in the packet before it.
            if is_mpeg4 && intact.packets[packet].size < 20 {
                continue;
            }
            let changed =
                index_of(&memory("overwritten", overwritten(&bytes, &intact, packet))).unwrap();
            assert_eq!(times(&changed), times(&intact), "{path}, packet {packet}");
            // Sample tables are read without the packets between key frames: these packets only
            // fail when they are requested.
            let is_read = is_mpeg4 || intact.container != "mov,mp4";
            assert!(
                !is_read || changed.damaged_units > 0,
                "{path}, packet {packet}"
            );
            assert!(
                !is_read || changed.packets[packet].is_corrupt(),
                "{path}, packet {packet}"
            );
            // Other frames that could be elsewhere are marked.
            for (n, (frame, before)) in changed.frames.iter().zip(&intact.frames).enumerate() {
                let is_marked = |at: DecodeIndex| {
                    let record = &changed.packets[at.as_usize()];
                    at.as_usize() >= packet || record.is_corrupt() || record.is_unplaced()
                };
                assert!(
                    frame.packet == before.packet
                        || is_marked(frame.packet) && is_marked(before.packet),
                    "{path}, packet {packet}: frame {n}"
                );
            }
        }
    }
}

#[test]
fn overwritten_packet_is_named_and_no_frame_is_wrong() {
    for path in [
        "video/derived/mpeg4_qpel_480x270.avi",
        "video/derived/vp8_640x360.webm",
        "video/codecs/vp9_352x288.ivf",
    ] {
        let bytes = read(path);
        let intact = index_of(&memory("intact", bytes.clone())).unwrap();
        let recorded = named(path).hashes();
        for packet in [1, 2, 4] {
            let source = memory("overwritten", overwritten(&bytes, &intact, packet));
            let index = index_of(&source).unwrap();
            let first: Vec<_> = (0..16.min(index.num_frames()))
                .map(PresentationIndex)
                .collect();
            let place: HashMap<_, _> = first
                .iter()
                .map(|f| (index.frames[f.as_usize()].packet, f.as_usize()))
                .collect();
            let mut reader = PacketReader::new(source, index.clone());
            let (mut delivered, mut errors) = (0, Vec::new());
            for frame in &first {
                for range in plan::plan_decode_ranges(&index, &[*frame]) {
                    let outcome = SoftwareDecoder::new().run(&mut reader, &range, |at, frame| {
                        delivered += 1;
                        assert_eq!(
                            hash(frame),
                            recorded[place[&at]].1,
                            "{path}, packet {packet}"
                        );
                        Ok(())
                    });
                    errors.extend(outcome.err());
                }
            }
            assert!(
                delivered > 0,
                "{path}, packet {packet}: the frames before it"
            );
            let named = format!("packet {packet} ");
            assert!(
                errors
                    .iter()
                    .any(|e| matches!(e, Error::Decode { .. }) && e.to_string().contains(&named)),
                "{path}, packet {packet}: {errors:?}"
            );
        }
    }
}
