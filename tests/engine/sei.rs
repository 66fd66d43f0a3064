//! Tests SEI messages with an effect on later pictures: frames do not depend on how they are
//! accessed.

use std::sync::Arc;

use crate::common::sei::{HLG, film_grain, with_sei};
use crate::timestamps::{decoded, index_of, memory, read};
use framespool::decode::{PacketReader, SoftwareDecoder, plan};
use framespool::source::ByteSource;
use framespool::units::PresentationIndex;

/// Raw streams with two random access points or more; of the later ones, that of HEVC is open.
const STREAMS: [(&str, bool); 2] = [
    ("video/codecs/h264_320x240.h264", false),
    ("video/codecs/hevc_176x144.h265", true),
];

#[test]
fn film_grain_of_sei_messages_is_not_added() {
    for (path, is_hevc) in STREAMS {
        let expected = decoded(memory(path, read(path))).hashes;
        let message = film_grain(is_hevc);
        for (what, every) in [("first picture", false), ("every picture", true)] {
            let bytes = with_sei(&read(path), is_hevc, &message, |n| n == 0 || every);
            let got = decoded(memory(path, bytes)).hashes;
            assert!(got == expected, "{path}, {what}");
        }
    }
}

/// The transfer functions of these frames, each of which is decoded alone by the same decoder.
fn transfers(source: &Arc<dyn ByteSource>, wanted: &[u32]) -> Vec<u8> {
    let index = index_of(source).unwrap();
    let mut reader = PacketReader::new(source.clone(), index.clone());
    let mut decoder = SoftwareDecoder::new();
    let mut found = Vec::new();
    for &frame in wanted {
        for range in plan::plan_decode_ranges(&index, &[PresentationIndex(frame)]) {
            decoder
                .run(&mut reader, &range, |_, frame| {
                    found.push(index.color_of_frame(frame.color()).transfer);
                    Ok(())
                })
                .unwrap();
        }
    }
    found
}

#[test]
fn transfer_function_of_an_sei_message_applies_to_all_frames_or_none() {
    for (path, is_hevc) in STREAMS {
        let stream = read(path);
        let plain = memory(path, stream.clone());
        let last = index_of(&plain).unwrap().num_frames() - 1;
        let own = transfers(&plain, &[0])[0];
        assert!(own != HLG[2]);
        let first = memory(path, with_sei(&stream, is_hevc, &HLG, |n| n == 0));
        assert_eq!(transfers(&first, &[last, 0, last]), [HLG[2]; 3], "{path}");
        let later = memory(path, with_sei(&stream, is_hevc, &HLG, |n| n > 0));
        assert_eq!(transfers(&later, &[0, last, 0]), [own; 3], "{path}");
    }
}
