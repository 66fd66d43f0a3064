//! VP8: key frames, hidden frames and color (RFC 6386 9.1, 9.2).

use framespool_nvdec::session;

use super::codec::{Codec, ConfigurationBox, OrderRule, PacketFlags, PictureParser, SampleEntry};
use super::picture_info::{PictureInfo, RandomAccessPoint, SequenceColor, tags};
use crate::media::CodecParams;

/// Its pictures are never disposable: entropy coder state, segmentation and filter levels carry over
/// even from frames without references to them.
pub(crate) struct Vp8;

impl Codec for Vp8 {
    fn picture_parser(&self) -> Box<dyn PictureParser> {
        Box::new(|data: &[u8], _: PacketFlags| picture_info(data))
    }

    fn parses_random_access_points(&self) -> bool {
        true
    }

    /// Frames may be hidden.
    fn needs_every_packet(&self) -> bool {
        true
    }

    fn order_rule(&self, _extradata: &[u8]) -> OrderRule {
        OrderRule::DecodeOrder
    }

    fn hides_pictures(&self) -> bool {
        true
    }

    fn is_reset_at_sync(&self, _params: &CodecParams) -> bool {
        true
    }

    fn nvdec(&self) -> Result<session::Codec, &'static str> {
        Ok(session::Codec::Vp8)
    }

    fn sample_entries(&self) -> &'static [SampleEntry] {
        const { &[SampleEntry::new(*b"vp08", ConfigurationBox::None)] }
    }
}

/// Reads a packet's picture from its frame tag.
fn picture_info(data: &[u8]) -> PictureInfo {
    // RFC 6386 9.1: bit 0 is clear for keyframes, bit 4 is set for shown frames.
    const KEY_START_CODE: [u8; 3] = [0x9d, 0x01, 0x2a];
    let &[tag, _, _, ref rest @ ..] = data else {
        return PictureInfo::damaged();
    };
    if tag & 1 == 0 && !rest.starts_with(&KEY_START_CODE) {
        return PictureInfo::damaged();
    }
    PictureInfo {
        random_access: if tag & 1 == 0 {
            RandomAccessPoint::Closed
        } else {
            RandomAccessPoint::None
        },
        shown: tag & 16 != 0,
        ..PictureInfo::default()
    }
}

/// Reads a VP8 key frame (RFC 6386 9.1, 9.2). Its only defined color space is BT.601; libavcodec
/// interprets "no clamping needed" as full range.
pub(crate) fn sequence_color(frame: &[u8]) -> Option<SequenceColor> {
    const HEADER: usize = 10;
    let (head, partition) = frame.split_at_checked(HEADER)?;
    if head[0] & 1 != 0 || head[3..6] != [0x9d, 0x01, 0x2a] {
        return None;
    }
    // The first two flags of the arithmetic code (7.3), each with probability 1/2.
    let &[first, second, ..] = partition else {
        return None;
    };
    let value = u32::from(first) << 8 | u32::from(second);
    let no_clamping = match value.checked_sub(128 << 8) {
        None => value >= 64 << 8,
        Some(rest) => rest << 1 >= 127 << 8,
    };
    Some(SequenceColor {
        color: tags(5, no_clamping),
        is_resized: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vp8_hidden_frames_are_seen() {
        assert!(!picture_info(&[0b0000_0001, 0, 0]).shown);
        let key = [0b0001_0000, 0, 0, 0x9d, 0x01, 0x2a];
        assert!(picture_info(&key).shown);
        assert_eq!(picture_info(&key).random_access, RandomAccessPoint::Closed);
    }

    #[test]
    fn packet_without_a_vp8_header_is_damaged() {
        for data in [&[0; 40][..], &[1, 0], &[0b0001_0000, 0, 0, 0x9d, 0x01, 0]] {
            assert_eq!(picture_info(data), PictureInfo::damaged(), "{data:?}");
        }
    }

    fn color(stated: Option<SequenceColor>) -> Option<(u8, Option<bool>)> {
        stated.map(|stated| (stated.color.matrix, stated.color.full_range))
    }

    #[test]
    fn key_frames_of_vp8_state_their_range() {
        let key = |tag: u8, first: u8| {
            sequence_color(&[tag, 0, 0, 0x9d, 1, 0x2a, 0, 1, 0, 1, first, 0, 0])
        };
        assert_eq!(color(key(0x10, 0)), Some((5, Some(false))));
        assert_eq!(color(key(0x10, 0x40)), Some((5, Some(true))));
        // With the color space flag set, decoding continues with twice the remainder.
        assert_eq!(color(key(0x10, 0x80)), Some((5, Some(false))));
        assert_eq!(color(key(0x10, 0xc0)), Some((5, Some(true))));
        assert_eq!(key(0x11, 0), None, "an inter frame");
        assert_eq!(
            sequence_color(&[0x10, 0, 0, 0x9d, 1, 0x2a, 0, 1, 0, 1]),
            None,
            "truncated"
        );
    }
}
