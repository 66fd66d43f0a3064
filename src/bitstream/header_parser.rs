//! Parses a packet's headers to find random access points and shown pictures, because container key flags are
//! unreliable.
//! Reads no further than the first slice; for most codecs the first bytes of the packet suffice.

use std::collections::VecDeque;

use super::nal::{split_nal_units, BitReader, Framing};
use crate::media::CodecKind;

/// Whether decoding may start at a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RandomAccessPoint {
    /// Decoding cannot start here.
    None,
    /// Decoding from here is not exact, but a decoder starts to output pictures; used only before the first
    /// exact start.
    Inexact,
    /// Decoding from here is exact for every picture shown at or after this one; leading pictures may need
    /// earlier pictures.
    Open,
    /// Decoding from here is exact, and no later packet refers to anything before it.
    Closed,
}

/// Properties found in a packet's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PictureInfo {
    /// Whether decoding may start here.
    pub random_access: RandomAccessPoint,
    /// A picture of this packet is shown (VP8 and VP9 have hidden frames, MPEG-4 has empty packets).
    pub shown: bool,
    /// It refers to pictures before the preceding random access point (HEVC RASL) and cannot be decoded from
    /// there.
    pub is_rasl: bool,
    /// A random access point whose leading pictures are never shown, even in sequential decoding: the RASL
    /// pictures of an HEVC BLA picture, the B pictures after an MPEG-1/2 `broken_link`.
    pub is_broken_link: bool,
    /// It is a B picture. In MPEG-1/2/4 it is shown as soon as it is decoded. In H.264 this describes the
    /// first slice and means that presentation order may differ from decode order.
    pub is_b_picture: bool,
}

impl Default for PictureInfo {
    fn default() -> Self {
        Self {
            random_access: RandomAccessPoint::None,
            shown: true,
            is_rasl: false,
            is_broken_link: false,
            is_b_picture: false,
        }
    }
}

/// Parses the packet headers of one stream and keeps the state that later headers depend on.
pub struct HeaderParser {
    kind: CodecKind,
    framing: Framing,
    mpeg4: Mpeg4,
}

impl HeaderParser {
    /// For a stream with this codec and configuration.
    pub fn new(kind: CodecKind, extradata: &[u8]) -> Self {
        let mut mpeg4 = Mpeg4::default();
        mpeg4.parse_vol(extradata);
        Self { kind, framing: Framing::detect(kind == CodecKind::Hevc, extradata), mpeg4 }
    }

    /// The stream's codec.
    pub fn kind(&self) -> CodecKind {
        self.kind
    }

    /// Parses one packet. `container_key` is the container's key flag, trusted for codecs that are not parsed
    /// here.
    pub fn parse(&mut self, data: &[u8], container_key: bool) -> PictureInfo {
        // Like FFmpeg's command-line tool, which sends no empty packet to a decoder: the previous picture
        // stays on screen.
        if data.is_empty() {
            return PictureInfo { shown: false, ..PictureInfo::default() };
        }
        match self.kind {
            CodecKind::H264 => parse_h264(self.framing, data),
            CodecKind::Hevc => parse_hevc(self.framing, data),
            CodecKind::Vp8 => parse_vp8(data),
            CodecKind::Vp9 => parse_vp9(data),
            CodecKind::Av1 => parse_av1(data, container_key),
            CodecKind::Mpeg4 => self.mpeg4.parse(data),
            CodecKind::Mpeg12 => parse_mpeg12(data),
            CodecKind::Other | CodecKind::Image => PictureInfo {
                // Leading pictures are possible (VC-1 has B pictures), so `Open` is the safe choice.
                random_access: if container_key { RandomAccessPoint::Open } else { RandomAccessPoint::None },
                ..PictureInfo::default()
            },
        }
    }

    /// Returns x264's user data SEI message from the first packet of an H.264 stream, in the stream's
    /// framing. libavcodec's workarounds for old x264 versions depend on it, wherever decoding starts.
    pub fn x264_sei(&self, first: &[u8]) -> Vec<u8> {
        if self.kind != CodecKind::H264 {
            return Vec::new();
        }
        let Some(note) = split_nal_units(self.framing, first).into_iter().find(|u| is_x264_sei(u)) else {
            return Vec::new();
        };
        self.framing.wrap(note)
    }
}

/// H.264 SEI messages of a NAL unit: (type, payload).
pub(crate) fn parse_sei_messages(unit: &[u8]) -> Vec<(u32, &[u8])> {
    let mut out = Vec::new();
    let mut rest = unit.get(1..).unwrap_or(&[]);
    // Types and sizes below 255 are assumed to contain no emulation prevention bytes; readers handle those in
    // payloads.
    while rest.len() > 2 {
        let number = |rest: &mut &[u8]| {
            let mut value = 0u32;
            while let Some((&byte, tail)) = rest.split_first() {
                *rest = tail;
                value += u32::from(byte);
                if byte != 255 {
                    break;
                }
            }
            value
        };
        let kind = number(&mut rest);
        let size = number(&mut rest) as usize;
        out.push((kind, &rest[..size.min(rest.len())]));
        rest = rest.get(size..).unwrap_or(&[]);
    }
    out
}

fn is_x264_sei(unit: &[u8]) -> bool {
    const USER_DATA_UNREGISTERED: u32 = 5;
    unit.first().is_some_and(|b| b & 31 == 6)
        && parse_sei_messages(unit).iter().any(|(kind, body)| {
            *kind == USER_DATA_UNREGISTERED
                && body.get(16..).is_some_and(|text| text.starts_with(b"x264 - core"))
        })
}

fn parse_h264(framing: Framing, data: &[u8]) -> PictureInfo {
    let mut recovery = None;
    let (mut random_access, mut is_b_picture) = (RandomAccessPoint::None, false);
    let units = split_nal_units(framing, data);
    // A packet of parameter sets alone shows nothing. A packet without any unit is damaged: it counts as a
    // frame, so that requesting that frame is an error and the video is not one frame shorter.
    let mut shown = units.is_empty() && !data.is_empty();
    for unit in units {
        match unit[0] & 31 {
            6 => {
                for (kind, body) in parse_sei_messages(unit) {
                    if kind == 6 {
                        let mut bits = BitReader::new(body);
                        recovery = bits.ue().zip(bits.bit());
                    }
                }
            }
            5 => {
                (random_access, shown) = (RandomAccessPoint::Closed, true);
                break;
            }
            1 | 2 => {
                shown = true;
                let mut bits = BitReader::new(&unit[1..]);
                let kind = bits.ue().and_then(|_first_mb| bits.ue()).map(|kind| kind % 5);
                let intra = kind == Some(2) || kind == Some(4);
                is_b_picture = kind == Some(1);
                // Immediate and exact recovery: all pictures shown from this one on are correct (H.264
                // D.2.8).
                random_access = match recovery {
                    Some((0, 1)) if intra => RandomAccessPoint::Open,
                    Some(_) => RandomAccessPoint::Inexact,
                    None if intra => RandomAccessPoint::Inexact,
                    None => RandomAccessPoint::None,
                };
                break;
            }
            _ => {}
        }
    }
    PictureInfo { random_access, shown, is_b_picture, ..PictureInfo::default() }
}

fn parse_hevc(framing: Framing, data: &[u8]) -> PictureInfo {
    let units = split_nal_units(framing, data);
    let damaged = units.is_empty() && !data.is_empty();
    for unit in units {
        let kind = unit[0] >> 1 & 63;
        // Layers above the base layer are not decoded.
        let layer = u32::from(unit[0] & 1) << 5 | unit.get(1).map_or(0, |b| u32::from(b >> 3));
        if kind >= 32 || layer != 0 {
            continue;
        }
        return PictureInfo {
            random_access: match kind {
                18..=20 => RandomAccessPoint::Closed,
                16 | 17 | 21 => RandomAccessPoint::Open,
                _ => RandomAccessPoint::None,
            },
            shown: true,
            is_rasl: kind == 8 || kind == 9,
            is_broken_link: (16..=18).contains(&kind),
            ..PictureInfo::default()
        };
    }
    PictureInfo { shown: damaged, ..PictureInfo::default() }
}

fn parse_vp8(data: &[u8]) -> PictureInfo {
    // RFC 6386 9.1: bit 0 is clear for keyframes, bit 4 is set for shown frames.
    let Some(&tag) = data.first() else { return PictureInfo { shown: false, ..PictureInfo::default() } };
    PictureInfo {
        random_access: if tag & 1 == 0 { RandomAccessPoint::Closed } else { RandomAccessPoint::None },
        shown: tag & 16 != 0,
        ..PictureInfo::default()
    }
}

fn parse_vp9(data: &[u8]) -> PictureInfo {
    let frames = split_vp9_superframe(data);
    let shown = frames.iter().any(|f| parse_vp9_frame(f).is_some_and(|(_, shown)| shown));
    let key = frames.first().and_then(|f| parse_vp9_frame(f)).is_some_and(|(key, _)| key);
    PictureInfo {
        random_access: if key { RandomAccessPoint::Closed } else { RandomAccessPoint::None },
        shown,
        ..PictureInfo::default()
    }
}

/// Frames of a VP9 packet: a superframe with an index at its end, or a single frame (VP9 specification, annex
/// B).
fn split_vp9_superframe(data: &[u8]) -> Vec<&[u8]> {
    let whole = || vec![data];
    let Some(&marker) = data.last() else { return Vec::new() };
    if marker & 0xe0 != 0xc0 {
        return whole();
    }
    let (frames, bytes) = (usize::from(marker & 7) + 1, usize::from(marker >> 3 & 3) + 1);
    let index = 2 + frames * bytes;
    if data.len() < index || data[data.len() - index] != marker {
        return whole();
    }
    let sizes = &data[data.len() - index + 1..data.len() - 1];
    let mut rest = &data[..data.len() - index];
    let mut out = Vec::new();
    for size in sizes.chunks(bytes) {
        let size = size.iter().rev().fold(0usize, |n, &b| n << 8 | usize::from(b));
        let Some(frame) = rest.get(..size) else { return whole() };
        out.push(frame);
        rest = &rest[size..];
    }
    out
}

/// Reads the frame marker of a VP9 frame and returns its profile (6.2).
pub(crate) fn parse_vp9_profile(bits: &mut BitReader<'_>) -> Option<u32> {
    if bits.take(2)? != 2 {
        return None;
    }
    let profile = bits.bit()? | bits.bit()? << 1;
    if profile == 3 {
        bits.bit()?;
    }
    Some(profile)
}

/// (key, shown) of a VP9 frame.
fn parse_vp9_frame(frame: &[u8]) -> Option<(bool, bool)> {
    let mut bits = BitReader::new(frame.get(..frame.len().min(4))?);
    parse_vp9_profile(&mut bits)?;
    if bits.bit()? == 1 {
        return Some((false, true)); // show_existing_frame
    }
    let key = bits.bit()? == 0;
    Some((key, bits.bit()? == 1))
}

fn parse_av1(data: &[u8], container_key: bool) -> PictureInfo {
    const SEQUENCE_HEADER: u8 = 1;
    const FRAME_HEADER: u8 = 3;
    const FRAME: u8 = 6;
    let mut rest = data;
    let (mut sequence, mut random_access) = (false, RandomAccessPoint::None);
    while let Some((&head, mut body)) = rest.split_first() {
        let kind = head >> 3 & 15;
        if head & 4 != 0 {
            body = body.get(1..).unwrap_or(&[]);
        }
        let mut size = body.len();
        if head & 2 != 0 {
            let Some((value, used)) = read_leb128(body) else { break };
            body = &body[used..];
            size = value.min(body.len());
        }
        match kind {
            SEQUENCE_HEADER => sequence = true,
            FRAME_HEADER | FRAME => {
                // show_existing_frame, frame_type, show_frame: a shown key frame resets all decoder state.
                let bits = body.first().copied().unwrap_or(0xff);
                if bits >> 7 == 0 && bits >> 5 & 3 == 0 && bits >> 4 & 1 == 1 {
                    // Without a sequence header here, the container's configuration must hold one, which key
                    // flags imply.
                    random_access = if sequence || container_key {
                        RandomAccessPoint::Closed
                    } else {
                        RandomAccessPoint::None
                    };
                }
                break;
            }
            _ => {}
        }
        rest = &body[size..];
    }
    // A temporal unit shows exactly one frame (AV1 specification 7.5).
    PictureInfo { random_access, ..PictureInfo::default() }
}

pub(crate) fn read_leb128(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0usize;
    for (i, &byte) in bytes.iter().take(8).enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return Some((value, i + 1));
        }
    }
    None
}

fn find_start_code(data: &[u8], codes: std::ops::RangeInclusive<u8>) -> Option<usize> {
    data.windows(4).position(|w| w[..3] == [0, 0, 1] && codes.contains(&w[3])).map(|i| i + 4)
}

/// MPEG-1 and MPEG-2 (ISO/IEC 13818-2 6.2.2 to 6.2.3).
fn parse_mpeg12(data: &[u8]) -> PictureInfo {
    const INTRA: u8 = 1;
    const BIDIRECTIONAL: u8 = 3;
    const CLOSED: u8 = 0x40;
    const BROKEN: u8 = 0x20;
    let picture = find_start_code(data, 0..=0);
    let kind = picture.and_then(|at| data.get(at + 1)).map_or(0, |b| b >> 3 & 7);
    // Sequence and group headers precede the picture that they begin with.
    let before = &data[..picture.unwrap_or(data.len())];
    let sequence = find_start_code(before, 0xb3..=0xb3).is_some();
    // 25 bits of time code, then the two flags.
    let group = find_start_code(before, 0xb8..=0xb8).and_then(|at| before.get(at + 3)).copied().unwrap_or(0);
    let random_access = match (sequence, kind == INTRA) {
        (true, true) if group & CLOSED != 0 => RandomAccessPoint::Closed,
        (true, true) => RandomAccessPoint::Open,
        (false, true) => RandomAccessPoint::Inexact,
        _ => RandomAccessPoint::None,
    };
    PictureInfo {
        random_access,
        is_b_picture: kind == BIDIRECTIONAL,
        is_broken_link: kind == INTRA && group & (CLOSED | BROKEN) == BROKEN,
        ..PictureInfo::default()
    }
}

/// MPEG-4 part 2 (ISO/IEC 14496-2 6.2.3, 6.2.5).
#[derive(Default)]
struct Mpeg4 {
    /// Bits of `vop_time_increment`; 0 before the first VOL header.
    increment_bits: u32,
    /// Pictures packed with an earlier one ("packed bitstream"), which are decoded when the next packet,
    /// usually an empty placeholder, arrives.
    packed: VecDeque<Vop>,
}

/// `vop_coding_type`: 0 intra, 1 predicted, 2 bidirectional, 3 sprite.
type Vop = u32;

impl Mpeg4 {
    fn parse_vol(&mut self, data: &[u8]) {
        let Some(at) = find_start_code(data, 0x20..=0x2f) else { return };
        let mut bits = BitReader::new(&data[at..]);
        if let Some(resolution) = Self::time_resolution(&mut bits) {
            self.increment_bits = (32 - resolution.saturating_sub(1).leading_zeros()).max(1);
        }
    }

    fn time_resolution(bits: &mut BitReader) -> Option<u32> {
        bits.take(1 + 8)?;
        let mut version = 1;
        if bits.bit()? == 1 {
            version = bits.take(4)?;
            bits.take(3)?;
        }
        if bits.take(4)? == 15 {
            bits.take(16)?;
        }
        if bits.bit()? == 1 {
            bits.take(3)?;
            if bits.bit()? == 1 {
                bits.take(31)?;
                bits.take(32)?;
                bits.take(16)?;
            }
        }
        let shape = bits.take(2)?;
        if shape == 3 && version != 1 {
            bits.take(4)?;
        }
        bits.bit()?;
        bits.take(16)
    }

    fn parse(&mut self, data: &[u8]) -> PictureInfo {
        const INTRA: Vop = 0;
        const BIDIRECTIONAL: Vop = 2;
        self.parse_vol(data);
        let aligned = self.packed.is_empty();
        let mut rest = data;
        while let Some(at) = find_start_code(rest, 0xb6..=0xb6) {
            rest = &rest[at..];
            let mut bits = BitReader::new(rest);
            let kind = bits.take(2).unwrap_or(1);
            if self.is_coded(&mut bits).unwrap_or(true) {
                self.packed.push_back(kind);
            }
        }
        let Some(kind) = self.packed.pop_front() else {
            return PictureInfo { shown: false, ..PictureInfo::default() };
        };
        PictureInfo {
            random_access: if kind == INTRA && aligned {
                RandomAccessPoint::Open
            } else {
                RandomAccessPoint::None
            },
            is_b_picture: kind == BIDIRECTIONAL,
            ..PictureInfo::default()
        }
    }

    fn is_coded(&self, bits: &mut BitReader) -> Option<bool> {
        if self.increment_bits == 0 {
            return None;
        }
        while bits.bit()? == 1 {}
        bits.bit()?;
        bits.take(self.increment_bits)?;
        bits.bit()?;
        Some(bits.bit()? == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h264_idr_and_recovery_points_are_distinguished() {
        let look = |data: &[u8]| parse_h264(Framing::AnnexB, data).random_access;
        assert_eq!(look(&[0, 0, 1, 0x65, 0x88]), RandomAccessPoint::Closed);
        // SEI 6, size 1: recovery_frame_cnt 0 ('1'), exact_match '1'; then an I slice (first_mb '1', type 7
        // '0001000').
        assert_eq!(
            look(&[0, 0, 1, 6, 6, 1, 0b1100_0100, 0x80, 0, 0, 1, 0x61, 0b1000_1000]),
            RandomAccessPoint::Open
        );
        // recovery_frame_cnt 1 ('010'): recovery is not immediate.
        assert_eq!(
            look(&[0, 0, 1, 6, 6, 1, 0b0101_0010, 0x80, 0, 0, 1, 0x61, 0b1000_1000]),
            RandomAccessPoint::Inexact
        );
        assert_eq!(look(&[0, 0, 1, 0x41, 0b1001_1000]), RandomAccessPoint::None);
    }

    #[test]
    fn mpeg_gop_header_has_closed_gop_flag() {
        let look = |flags: u8, kind: u8| {
            let group = [0, 0, 1, 0xb3, 1, 2, 0, 0, 1, 0xb8, 0, 8, 0, flags];
            parse_mpeg12(&[&group[..], &[0, 0, 1, 0, 0, kind << 3, 0, 0]].concat())
        };
        assert_eq!((look(0, 1).random_access, look(0, 1).is_broken_link), (RandomAccessPoint::Open, false));
        assert_eq!(
            (look(0x40, 1).random_access, look(0x40, 1).is_broken_link),
            (RandomAccessPoint::Closed, false)
        );
        assert_eq!(
            (look(0x20, 1).random_access, look(0x20, 1).is_broken_link),
            (RandomAccessPoint::Open, true)
        );
        assert_eq!(
            (look(0x60, 1).random_access, look(0x60, 1).is_broken_link),
            (RandomAccessPoint::Closed, false),
            "nothing is missing"
        );
        assert_eq!(look(0x40, 2).random_access, RandomAccessPoint::None, "a P picture");
        assert_eq!(
            parse_mpeg12(&[0, 0, 1, 0xb8, 0, 8, 0, 0x40, 0, 0, 1, 0, 0, 8, 0]).random_access,
            RandomAccessPoint::Inexact,
            "no sequence"
        );
        assert_eq!(
            parse_mpeg12(&[0, 0, 1, 0xb3, 0, 0, 1, 0xb8]).random_access,
            RandomAccessPoint::None,
            "cut"
        );
    }

    #[test]
    fn empty_packet_shows_nothing_and_is_no_keyframe() {
        for name in ["h264", "hevc", "vp8", "vp9", "av1", "mpeg4", "mpeg2video", "theora"] {
            let look = HeaderParser::new(CodecKind::from_name(name), &[]).parse(&[], true);
            assert_eq!(look, PictureInfo { shown: false, ..PictureInfo::default() }, "{name}");
        }
    }

    #[test]
    fn vp8_hidden_frames_are_seen() {
        assert!(!parse_vp8(&[0b0000_0001]).shown);
        assert!(parse_vp8(&[0b0001_0000]).shown);
        assert_eq!(parse_vp8(&[0b0001_0000]).random_access, RandomAccessPoint::Closed);
    }

    #[test]
    fn a_vp9_superframe_shows_what_its_last_frame_shows() {
        // Two one-byte frames: a hidden inter frame (10 00 0 1 0 0) and a shown one (10 00 0 1 1 0), with
        // one-byte sizes.
        let packet = [0b1000_0100, 0b1000_0110, 0b1100_0001, 1, 1, 0b1100_0001];
        assert!(parse_vp9(&packet).shown);
        let hidden = [0b1000_0100, 0b1000_0100, 0b1100_0001, 1, 1, 0b1100_0001];
        assert!(!parse_vp9(&hidden).shown);
    }

    #[test]
    fn packed_picture_belongs_to_the_next_packet() {
        // One VOL with a time resolution of 25 (5 bits); then I, P packed with B, the empty placeholder, P.
        let vop = |kind: u8, coded: bool| {
            // type 2 bits, modulo_time_base '0', marker '1', increment 5 bits, marker '1', coded 1 bit
            let bits = u16::from(kind) << 14 | 1 << 12 | 1 << 6 | u16::from(coded) << 5;
            [&[0, 0, 1, 0xb6][..], &bits.to_be_bytes(), &[0xff]].concat()
        };
        let mut mpeg4 = Mpeg4 { increment_bits: 5, ..Mpeg4::default() };
        let packets =
            [vop(0, true), [vop(1, true), vop(2, true)].concat(), vop(1, false), vop(1, true), vop(1, false)];
        let looks: Vec<_> =
            packets.iter().map(|p| mpeg4.parse(p)).map(|l| (l.shown, l.is_b_picture)).collect();
        assert_eq!(looks, [(true, false), (true, false), (true, true), (true, false), (false, false)]);
    }

    #[test]
    fn damaged_headers_are_no_keyframes_and_no_panic() {
        for kind in [
            CodecKind::H264,
            CodecKind::Hevc,
            CodecKind::Vp8,
            CodecKind::Vp9,
            CodecKind::Av1,
            CodecKind::Mpeg4,
            CodecKind::Mpeg12,
        ] {
            for data in
                [&[][..], &[0xff; 7], &[0; 9], &[0, 0, 1], &[0, 0, 1, 6, 255, 255, 255], &[0, 0, 1, 0xb6]]
            {
                HeaderParser::new(kind, &[1, 2, 3]).parse(data, false);
            }
        }
    }
}
