//! Reads the color (ITU-T H.273 code points) and the display size flag from VP8 and VP9 frames and AV1
//! sequence headers, because hardware parsers report little or nothing of these.

use super::av1::{obu_type, parse_obus, parse_sequence_end};
use super::header_parser::parse_vp9_profile;
use super::nal::BitReader;
use crate::media::ColorTags;

/// What a frame signals for itself and later frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequenceColor {
    pub color: ColorTags,
    /// Its display size differs from its coded size; libavcodec ignores this.
    pub is_resized: bool,
}

fn tags(matrix: u8, full_range: bool) -> ColorTags {
    ColorTags { matrix, full_range: Some(full_range), ..ColorTags::default() }
}

/// Reads a VP8 key frame (RFC 6386 9.1, 9.2). Its only defined color space is BT.601; libavcodec interprets
/// "no clamping needed" as full range.
pub(crate) fn vp8(frame: &[u8]) -> Option<SequenceColor> {
    const HEADER: usize = 10;
    let (head, partition) = frame.split_at_checked(HEADER)?;
    if head[0] & 1 != 0 || head[3..6] != [0x9d, 0x01, 0x2a] {
        return None;
    }
    // The first two flags of the arithmetic code (7.3), each with probability 1/2.
    let &[first, second, ..] = partition else { return None };
    let value = u32::from(first) << 8 | u32::from(second);
    let no_clamping = match value.checked_sub(128 << 8) {
        None => value >= 64 << 8,
        Some(rest) => rest << 1 >= 127 << 8,
    };
    Some(SequenceColor { color: tags(5, no_clamping), is_resized: false })
}

/// Reads a VP9 frame that signals its color (VP9 specification 7.2, 6.2): a key frame or an intra-only frame.
pub(crate) fn vp9(frame: &[u8]) -> Option<SequenceColor> {
    const SYNC: u32 = 0x49_83_42;
    let mut bits = BitReader::plain(frame);
    let profile = parse_vp9_profile(&mut bits)?;
    if bits.bit()? == 1 {
        return None; // shows a frame again
    }
    let (inter, shown, resilient) = (bits.bit()? == 1, bits.bit()? == 1, bits.bit()? == 1);
    if inter {
        let intra_only = !shown && bits.bit()? == 1;
        if !resilient {
            bits.skip(2)?; // reset_frame_context
        }
        if !intra_only {
            return None;
        }
    }
    if bits.take(24)? != SYNC {
        return None;
    }
    let color = if inter && profile == 0 { tags(5, false) } else { vp9_color(&mut bits, profile)? };
    if inter {
        bits.skip(8)?; // refresh_frame_flags
    }
    bits.skip(16 + 16)?; // size
    Some(SequenceColor { color, is_resized: bits.bit()? == 1 })
}

/// Reads `color_config`.
fn vp9_color(bits: &mut BitReader<'_>, profile: u32) -> Option<ColorTags> {
    const MATRIX: [u8; 8] = [2, 5, 1, 6, 7, 9, 3, 0];
    const RGB: u32 = 7;
    if profile >= 2 {
        bits.bit()?; // 10 or 12 bit
    }
    let space = bits.take(3)?;
    let full_range = space == RGB || bits.bit()? == 1;
    if profile & 1 == 1 {
        bits.skip(if space == RGB { 1 } else { 3 })?; // subsampling and a reserved bit
    }
    Some(tags(MATRIX[space as usize], full_range))
}

/// Reads the sequence header in an AV1 temporal unit or configuration.
pub(crate) fn av1(unit: &[u8]) -> Option<SequenceColor> {
    let list = parse_obus(unit)?;
    let header = list.iter().find(|obu| obu.kind == obu_type::SEQUENCE_HEADER)?;
    Some(SequenceColor { color: parse_sequence_end(header.payload)?.color, is_resized: false })
}

#[cfg(test)]
mod tests {
    use super::super::disposable::test_headers::bits;
    use super::*;

    fn color(stated: Option<SequenceColor>) -> Option<(u8, Option<bool>)> {
        stated.map(|stated| (stated.color.matrix, stated.color.full_range))
    }

    #[test]
    fn only_vp9_key_frames_state_their_color() {
        let sync = "01001001 10000011 01000010";
        let size = "0000000000000001 0000000000000001";
        let of = |head: &str, tail: &str| vp9(&bits(&[head, sync, tail].concat()));
        let key = of("10 0 0 0 0 1 0", &["010 0", size, "0"].concat());
        assert_eq!((color(key), key.map(|k| k.is_resized)), (Some((1, Some(false))), Some(false)));
        let is_resized = of("10 0 0 0 0 1 0", &["010 1", size, "1"].concat());
        assert_eq!(
            (color(is_resized), is_resized.map(|k| k.is_resized)),
            (Some((1, Some(true))), Some(true))
        );
        let deep = of("10 0 1 0 0 1 0", &["1 101 0", size, "0"].concat());
        assert_eq!(color(deep), Some((9, Some(false))), "profile 2 says 10 or 12 bit first");
        let rgb = of("10 1 0 0 0 1 0", &["111 0", size, "0"].concat());
        assert_eq!(color(rgb), Some((0, Some(true))));
        let intra = of("10 0 0 0 1 0 0 1 00", &["00000001", size, "0"].concat());
        assert_eq!(color(intra), Some((5, Some(false))), "an intra-only frame of profile 0 is BT.601");
        assert_eq!(of("10 0 0 0 1 1 0 00", size), None, "an inter frame");
        assert_eq!(vp9(&bits("10 0 0 1 000")), None, "a frame shown again");
        assert_eq!(of("10 0 0 0 0 1 0", "010"), None, "cut short");
    }

    #[test]
    fn key_frames_of_vp8_state_their_range() {
        let key = |tag: u8, first: u8| vp8(&[tag, 0, 0, 0x9d, 1, 0x2a, 0, 1, 0, 1, first, 0, 0]);
        assert_eq!(color(key(0x10, 0)), Some((5, Some(false))));
        assert_eq!(color(key(0x10, 0x40)), Some((5, Some(true))));
        // With the color space flag set, decoding continues with twice the remainder.
        assert_eq!(color(key(0x10, 0x80)), Some((5, Some(false))));
        assert_eq!(color(key(0x10, 0xc0)), Some((5, Some(true))));
        assert_eq!(key(0x11, 0), None, "an inter frame");
        assert_eq!(vp8(&[0x10, 0, 0, 0x9d, 1, 0x2a, 0, 1, 0, 1]), None, "cut short");
    }
}
