//! VP9: superframes, key frames, hidden frames and color (VP9 bitstream specification 6.1, 6.2,
//! 7.2, annex B).

use framespool_nvdec::session;

use super::codec::{Codec, ConfigurationBox, OrderRule, PacketFlags, PictureParser, SampleEntry};
use super::nal::BitReader;
use super::picture_info::{PictureInfo, RandomAccessPoint, SequenceColor, tags};
use crate::media::{CodecParams, ColorTags};

/// Its pictures are never disposable: entropy coder state, segmentation and filter levels carry over
/// even from frames without references to them.
pub(crate) struct Vp9;

impl Codec for Vp9 {
    fn picture_parser(&self) -> Box<dyn PictureParser> {
        Box::new(|data: &[u8], _: PacketFlags| picture_info(data))
    }

    fn parses_random_access_points(&self) -> bool {
        true
    }

    fn has_trailing_index(&self) -> bool {
        true
    }

    fn order_rule(&self, _extradata: &[u8]) -> OrderRule {
        OrderRule::DecodeOrder
    }

    fn is_reset_at_sync(&self, _params: &CodecParams) -> bool {
        true
    }

    fn reports_damage_with_threads(&self) -> bool {
        true
    }

    fn writes_every_block(&self) -> bool {
        true
    }

    /// It splits superframes.
    fn drops_packet_tags(&self) -> bool {
        true
    }

    fn nvdec(&self) -> Result<session::Codec, &'static str> {
        Ok(session::Codec::Vp9)
    }

    fn sample_entries(&self) -> &'static [SampleEntry] {
        const { &[SampleEntry::new(*b"vp09", ConfigurationBox::None)] }
    }
}

/// Reads a packet's picture from the headers of its frames.
fn picture_info(data: &[u8]) -> PictureInfo {
    let frames = split_superframe(data);
    let frames: Option<Vec<_>> = frames
        .into_iter()
        .filter(|frame| !frame.is_empty())
        .map(parse_frame)
        .collect();
    let Some(frames) = frames.filter(|frames| !frames.is_empty()) else {
        return PictureInfo::damaged();
    };
    PictureInfo {
        random_access: match frames[0].kind {
            FrameKind::Key => RandomAccessPoint::Closed,
            // A decoder may start here; frames that refer to other pictures before this one cannot
            // be decoded.
            FrameKind::IntraOnly => RandomAccessPoint::Inexact,
            FrameKind::Inter | FrameKind::ShownAgain => RandomAccessPoint::None,
        },
        shown: frames.iter().any(|frame| frame.shown),
        shows_again: frames
            .iter()
            .any(|frame| frame.kind == FrameKind::ShownAgain),
        ..PictureInfo::default()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameKind {
    Key,
    IntraOnly,
    Inter,
    /// A picture that was decoded before.
    ShownAgain,
}

/// Beginning of a frame header.
struct FrameHeader {
    kind: FrameKind,
    shown: bool,
}

/// Frames of a VP9 packet: a superframe with an index at its end, or a single frame (VP9
/// specification, annex B).
fn split_superframe(data: &[u8]) -> Vec<&[u8]> {
    let whole = || vec![data];
    let Some(&marker) = data.last() else {
        return Vec::new();
    };
    if marker & 0xe0 != 0xc0 {
        return whole();
    }
    let (frames, bytes) = (
        usize::from(marker & 7) + 1,
        usize::from(marker >> 3 & 3) + 1,
    );
    let index = 2 + frames * bytes;
    if data.len() < index || data[data.len() - index] != marker {
        return whole();
    }
    let sizes = &data[data.len() - index + 1..data.len() - 1];
    let mut rest = &data[..data.len() - index];
    let mut out = Vec::new();
    for size in sizes.chunks(bytes) {
        let size = size
            .iter()
            .rev()
            .fold(0usize, |n, &b| n << 8 | usize::from(b));
        let Some(frame) = rest.get(..size) else {
            return whole();
        };
        out.push(frame);
        rest = &rest[size..];
    }
    out
}

/// Reads the frame marker of a VP9 frame and returns its profile (6.2).
fn parse_profile(bits: &mut BitReader<'_>) -> Option<u32> {
    if bits.take(2)? != 2 {
        return None;
    }
    let profile = bits.bit()? | bits.bit()? << 1;
    if profile == 3 {
        bits.bit()?;
    }
    Some(profile)
}

/// Reads the beginning of a frame header; `None` if it is not one.
fn parse_frame(frame: &[u8]) -> Option<FrameHeader> {
    let mut bits = BitReader::new(frame.get(..frame.len().min(4))?);
    parse_profile(&mut bits)?;
    if bits.bit()? == 1 {
        return Some(FrameHeader {
            kind: FrameKind::ShownAgain,
            shown: true,
        });
    }
    let (inter, shown) = (bits.bit()? == 1, bits.bit()? == 1);
    // The flag is followed by error_resilient_mode and, in a hidden frame, intra_only.
    let intra_only = inter && !shown && bits.skip(1).and_then(|()| bits.bit()) == Some(1);
    let kind = match inter {
        false => FrameKind::Key,
        true if intra_only => FrameKind::IntraOnly,
        true => FrameKind::Inter,
    };
    Some(FrameHeader { kind, shown })
}

/// Reads a VP9 frame that signals its color (VP9 specification 7.2, 6.2): a key frame or an
/// intra-only frame.
pub(crate) fn sequence_color(frame: &[u8]) -> Option<SequenceColor> {
    const SYNC: u32 = 0x49_83_42;
    let mut bits = BitReader::plain(frame);
    let profile = parse_profile(&mut bits)?;
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
    let color = if inter && profile == 0 {
        tags(5, false)
    } else {
        color_config(&mut bits, profile)?
    };
    if inter {
        bits.skip(8)?; // refresh_frame_flags
    }
    bits.skip(16 + 16)?; // size
    Some(SequenceColor {
        color,
        is_resized: bits.bit()? == 1,
    })
}

/// Reads `color_config`.
fn color_config(bits: &mut BitReader<'_>, profile: u32) -> Option<ColorTags> {
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

#[cfg(test)]
mod tests {
    use super::super::nal::test_headers::bits;
    use super::*;

    #[test]
    fn a_vp9_superframe_shows_what_its_last_frame_shows() {
        // Two one-byte frames: a hidden inter frame (10 00 0 1 0 0) and a shown one (10 00 0 1 1
        // 0), with one-byte sizes.
        let packet = [0b1000_0100, 0b1000_0110, 0b1100_0001, 1, 1, 0b1100_0001];
        assert!(picture_info(&packet).shown);
        let hidden = [0b1000_0100, 0b1000_0100, 0b1100_0001, 1, 1, 0b1100_0001];
        assert!(!picture_info(&hidden).shown);
    }

    #[test]
    fn intra_only_frame_is_an_inexact_start() {
        let start = |head: &str| picture_info(&bits(head)).random_access;
        assert_eq!(
            start("10 00 0 0 1 0"),
            RandomAccessPoint::Closed,
            "a key frame"
        );
        assert_eq!(
            start("10 00 0 1 0 1 1 0000000"),
            RandomAccessPoint::Inexact,
            "intra-only"
        );
        assert_eq!(
            start("10 00 0 1 0 0 0 0000000"),
            RandomAccessPoint::None,
            "a hidden inter frame"
        );
        assert_eq!(
            start("10 00 0 1 1 1 1 0000000"),
            RandomAccessPoint::None,
            "a shown frame has no such flag"
        );
    }

    #[test]
    fn packet_without_a_vp9_header_is_damaged() {
        let index = [0b1100_0001, 1, 1, 0b1100_0001];
        let second = [&[0b1000_0100, 0][..], &index].concat();
        for data in [&[0; 40][..], &[0xff; 9], &second] {
            assert_eq!(picture_info(data), PictureInfo::damaged(), "{data:?}");
        }
    }

    fn color(stated: Option<SequenceColor>) -> Option<(u8, Option<bool>)> {
        stated.map(|stated| (stated.color.matrix, stated.color.full_range))
    }

    #[test]
    fn only_vp9_key_frames_state_their_color() {
        let sync = "01001001 10000011 01000010";
        let size = "0000000000000001 0000000000000001";
        let of = |head: &str, tail: &str| sequence_color(&bits(&[head, sync, tail].concat()));
        let key = of("10 0 0 0 0 1 0", &["010 0", size, "0"].concat());
        assert_eq!(
            (color(key), key.map(|k| k.is_resized)),
            (Some((1, Some(false))), Some(false))
        );
        let is_resized = of("10 0 0 0 0 1 0", &["010 1", size, "1"].concat());
        assert_eq!(
            (color(is_resized), is_resized.map(|k| k.is_resized)),
            (Some((1, Some(true))), Some(true))
        );
        let deep = of("10 0 1 0 0 1 0", &["1 101 0", size, "0"].concat());
        assert_eq!(
            color(deep),
            Some((9, Some(false))),
            "profile 2 says 10 or 12 bit first"
        );
        let rgb = of("10 1 0 0 0 1 0", &["111 0", size, "0"].concat());
        assert_eq!(color(rgb), Some((0, Some(true))));
        let intra = of("10 0 0 0 1 0 0 1 00", &["00000001", size, "0"].concat());
        assert_eq!(
            color(intra),
            Some((5, Some(false))),
            "an intra-only frame of profile 0 is BT.601"
        );
        assert_eq!(of("10 0 0 0 1 1 0 00", size), None, "an inter frame");
        assert_eq!(
            sequence_color(&bits("10 0 0 1 000")),
            None,
            "a frame shown again"
        );
        assert_eq!(of("10 0 0 0 0 1 0", "010"), None, "truncated");
    }
}
