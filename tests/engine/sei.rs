//! Tests SEI messages with an effect on later pictures: frames do not depend on how they are
//! accessed.

use crate::common::sei::{film_grain, with_sei};
use crate::timestamps::{decoded, memory, read};

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
