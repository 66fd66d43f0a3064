//! MPEG-4 part 2 (ISO/IEC 14496-2 6.2.3, 6.2.5): picture types, and pictures that are packed into
//! earlier packets. Its pictures are never disposable: a packet may hold several, whose times
//! depend on each other.

use std::collections::VecDeque;

use framespool_nvdec::session;

use super::codec::{
    Codec, ConfigurationBox, INEXACT, OrderRule, PacketFlags, PictureParser, SampleEntry,
};
use super::configuration::{
    ConfigurationTracker, StartCodeTracker, Syntax, Unit, holds_configuration,
};
use super::nal::{BitReader, find_start_code, holds_only_headers};
use super::picture_info::{PictureInfo, RandomAccessPoint};
use super::sample_aspect::parse_mpeg4;
use crate::media::CodecParams;

/// A damaged picture changes the layout of the video object layer in its decoder unnoticed, so no
/// decoder is used again.
pub(crate) struct Mpeg4;

/// Visual object sequence, visual object, video object, video object layer, user data (ISO/IEC
/// 14496-2 6.2.2). User data name the encoder whose errors the decoder works around.
static CONFIGURATION: Syntax = Syntax {
    unit: |code, _| match code {
        0xb0 => Unit::Header(0),
        0xb5 => Unit::Header(1),
        0x00..=0x1f => Unit::Header(2),
        0x20..=0x2f => Unit::Header(VIDEO_OBJECT_LAYER),
        0xb2 => Unit::Header(4),
        0xb3 | 0xb6 => Unit::Picture,
        _ => Unit::Other,
    },
    required: &[VIDEO_OBJECT_LAYER],
    accumulates: true,
    ignored_if_present: None,
};
const VIDEO_OBJECT_LAYER: usize = 3;

impl Codec for Mpeg4 {
    fn picture_parser(&self) -> Box<dyn PictureParser> {
        Box::new(VopTracker::default())
    }

    fn parses_random_access_points(&self) -> bool {
        true
    }

    /// Packets may be empty placeholders.
    fn needs_every_packet(&self) -> bool {
        true
    }

    fn configuration_tracker(&self, extradata: &[u8]) -> Option<Box<dyn ConfigurationTracker>> {
        Some(Box::new(StartCodeTracker::new(&CONFIGURATION, extradata)))
    }

    fn replaces_configuration(&self, data: &[u8]) -> bool {
        holds_configuration(&CONFIGURATION, data)
    }

    fn required_headers(&self) -> Option<&'static str> {
        Some("video object layer header")
    }

    fn sample_aspect(&self, params: &CodecParams, first_packet: &[u8]) -> Option<(u32, u32)> {
        sample_aspect(&params.extradata).or_else(|| sample_aspect(first_packet))
    }

    fn order_rule(&self, _extradata: &[u8]) -> OrderRule {
        OrderRule::PictureTypes
    }

    fn packs_pictures(&self) -> bool {
        true
    }

    fn writes_every_block(&self) -> bool {
        true
    }

    /// Bidirectional pictures in a stream that denies them: they change the order of output, which
    /// is not used.
    fn harmless_messages(&self) -> &'static [&'static str] {
        &["low_delay flag set incorrectly"]
    }

    fn sample_entries(&self) -> &'static [SampleEntry] {
        const OBJECT_TYPE: u8 = 0x20;
        const {
            &[SampleEntry::new(
                *b"mp4v",
                ConfigurationBox::Esds(OBJECT_TYPE),
            )]
        }
    }

    fn nvdec(&self) -> Result<session::Codec, &'static str> {
        Err(INEXACT)
    }
}

/// Tracks the packed pictures of a stream.
#[derive(Default)]
struct VopTracker {
    /// Bits of `vop_time_increment`; 0 before the first VOL header.
    increment_bits: u32,
    /// Pictures packed with an earlier one ("packed bitstream"), which are decoded when the next
    /// packet, usually an empty placeholder, arrives.
    packed: VecDeque<Vop>,
    /// The encoder packs pictures.
    is_packed: bool,
    /// A packet before this one is damaged, and only B pictures and no placeholder follow it.
    after_damage: bool,
}

/// `vop_coding_type`: 0 intra, 1 predicted, 2 bidirectional, 3 sprite.
type Vop = u32;

impl VopTracker {
    fn parse_vol(&mut self, data: &[u8]) {
        let resolution = vol(data).and_then(|mut bits| Self::time_resolution(&mut bits));
        if let Some(resolution) = resolution {
            self.increment_bits = (32 - resolution.saturating_sub(1).leading_zeros()).max(1);
        }
    }

    fn time_resolution(bits: &mut BitReader) -> Option<u32> {
        let version = parse_version(bits)?;
        parse_mpeg4(bits)?;
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
        const MAX_PLACEHOLDER_BYTES: usize = 19;
        self.parse_vol(data);
        self.is_packed |= declares_packing(data);
        let aligned = self.packed.is_empty();
        let (mut rest, mut has_vop) = (data, false);
        while let Some(at) = find_start_code(rest, 0xb6..=0xb6) {
            has_vop = true;
            rest = &rest[at..];
            let mut bits = BitReader::new(rest);
            let kind = bits.take(2).unwrap_or(1);
            if self.is_coded(&mut bits).unwrap_or(true) {
                self.packed.push_back(kind);
                self.after_damage &= kind == BIDIRECTIONAL;
            }
        }
        let Some(kind) = self.packed.pop_front() else {
            // A placeholder after a packed picture is a VOP that is not coded, or one byte.
            let is_placeholder = has_vop || data.len() == 1;
            // A damaged packet before it held one more picture.
            let is_lost = is_placeholder && self.is_packed && self.after_damage;
            if is_lost || !is_placeholder && !holds_only_headers(data) {
                self.after_damage = !is_placeholder;
                return PictureInfo::damaged();
            }
            return PictureInfo {
                shown: false,
                ..PictureInfo::default()
            };
        };
        // The packed picture is intact, but not the one that this packet held.
        let is_damaged =
            !has_vop && data.len() > MAX_PLACEHOLDER_BYTES && !holds_only_headers(data);
        self.after_damage |= is_damaged;
        PictureInfo {
            is_damaged,
            random_access: if kind == INTRA && aligned {
                RandomAccessPoint::Open
            } else {
                RandomAccessPoint::None
            },
            is_b_picture: kind == BIDIRECTIONAL,
            ..PictureInfo::default()
        }
    }

    /// `vop_coded`. `None` if the position of that bit is unknown: without a VOL header, and where a
    /// marker bit of 0 shows that the one in force is damaged. The decoder then searches for the
    /// position at which the picture is coded.
    fn is_coded(&self, bits: &mut BitReader) -> Option<bool> {
        if self.increment_bits == 0 {
            return None;
        }
        while bits.bit()? == 1 {}
        bits.bit()?;
        bits.take(self.increment_bits)?;
        let marker = bits.bit()?;
        (marker == 1).then_some(bits.bit()? == 1)
    }
}

impl PictureParser for VopTracker {
    fn set_extradata(&mut self, extradata: &[u8]) {
        self.parse_vol(extradata);
    }

    fn parse(&mut self, data: &[u8], _flags: PacketFlags) -> PictureInfo {
        self.parse(data)
    }
}

/// Whether user data states that pictures are packed, as encoders of DivX and Xvid do:
/// "DivX503b1393p".
fn declares_packing(data: &[u8]) -> bool {
    const SEARCHED_BYTES: usize = 1024; // before the picture
    let data = &data[..data.len().min(SEARCHED_BYTES)];
    let text = find_start_code(data, 0xb2..=0xb2)
        .and_then(|at| data.get(at..))
        .unwrap_or(&[]);
    let end = text
        .iter()
        .position(|&byte| !byte.is_ascii_graphic())
        .unwrap_or(text.len());
    text.starts_with(b"DivX") && text[..end].ends_with(b"p")
}

/// The first VOL header of `data`, after its start code.
fn vol(data: &[u8]) -> Option<BitReader<'_>> {
    find_start_code(data, 0x20..=0x2f).map(|at| BitReader::new(&data[at..]))
}

/// Reads the beginning of a VOL header, up to `video_object_layer_verid`.
fn parse_version(bits: &mut BitReader) -> Option<u32> {
    bits.take(1 + 8)?;
    if bits.bit()? == 0 {
        return Some(1);
    }
    let version = bits.take(4)?;
    bits.take(3)?;
    Some(version)
}

/// The sample aspect ratio of the first VOL header of `data`.
fn sample_aspect(data: &[u8]) -> Option<(u32, u32)> {
    let mut bits = vol(data)?;
    parse_version(&mut bits)?;
    parse_mpeg4(&mut bits)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_picture_belongs_to_the_next_packet() {
        // One VOL with a time resolution of 25 (5 bits); then I, P packed with B, the empty
        // placeholder, P.
        let vop = |kind: u8, coded: bool| {
            // type 2 bits, modulo_time_base '0', marker '1', increment 5 bits, marker '1', coded 1
            // bit
            let bits = u16::from(kind) << 14 | 1 << 12 | 1 << 6 | u16::from(coded) << 5;
            [&[0, 0, 1, 0xb6][..], &bits.to_be_bytes(), &[0xff]].concat()
        };
        let mut mpeg4 = VopTracker {
            increment_bits: 5,
            ..VopTracker::default()
        };
        let packets = [
            vop(0, true),
            [vop(1, true), vop(2, true)].concat(),
            vop(1, false),
            vop(1, true),
            vop(1, false),
        ];
        let looks: Vec<_> = packets
            .iter()
            .map(|p| mpeg4.parse(p))
            .map(|l| (l.shown, l.is_b_picture))
            .collect();
        assert_eq!(
            looks,
            [
                (true, false),
                (true, false),
                (true, true),
                (true, false),
                (false, false)
            ]
        );
    }

    #[test]
    fn a_picture_after_a_damaged_vol_header_counts() {
        // The time increment has 5 bits, 0; then come marker and `vop_coded`. Where a header says 4
        // bits, the marker would be the last of them.
        let packet = [0, 0, 1, 0xb6, 1 << 4, 0x60, 0xff];
        let shown = [5, 4].map(|increment_bits| {
            let mut mpeg4 = VopTracker {
                increment_bits,
                ..VopTracker::default()
            };
            mpeg4.parse(&packet).shown
        });
        assert_eq!(shown, [true; 2]);
    }

    #[test]
    fn damaged_packet_loses_the_picture_of_its_placeholder() {
        let vop = |kind: u8, coded: bool| {
            let bits = u16::from(kind) << 14 | 1 << 12 | 1 << 6 | u16::from(coded) << 5;
            [&[0, 0, 1, 0xb6][..], &bits.to_be_bytes(), &[0xff]].concat()
        };
        let mut mpeg4 = VopTracker {
            increment_bits: 5,
            ..VopTracker::default()
        };
        let (pair, placeholder) = ([vop(1, true), vop(2, true)].concat(), vop(1, false));
        let first = [&[0, 0, 1, 0xb2][..], b"DivX503b1393p", &vop(0, true)].concat();
        let (b, zeros) = (vop(2, true), vec![0; 40]);
        let packets = [
            &[
                &first,
                &pair,
                &placeholder,
                &zeros,
                &placeholder,
                &placeholder,
            ][..],
            &[
                &zeros,
                &b,
                &placeholder,
                &pair,
                &zeros,
                &placeholder,
                &pair,
                &vec![0; 6],
                &pair,
            ],
        ];
        let packets = packets.concat();
        let looks: Vec<_> = packets
            .iter()
            .map(|p| mpeg4.parse(p))
            .map(|l| (l.shown, l.is_damaged))
            .collect();
        let (intact, damaged, nothing) = ((true, false), (true, true), (false, false));
        let (first_of_three, second_of_three) =
            ([damaged, intact, damaged], [intact, damaged, damaged]);
        assert_eq!(
            looks[..6],
            [intact, intact, intact, damaged, damaged, nothing]
        );
        assert_eq!(looks[6..9], first_of_three);
        assert_eq!(looks[9..12], second_of_three);
        assert_eq!(looks[12..], [intact; 3], "a placeholder");
    }

    #[test]
    fn packet_without_a_vop_is_damaged() {
        let mut mpeg4 = VopTracker {
            increment_bits: 5,
            ..VopTracker::default()
        };
        assert_eq!(mpeg4.parse(&[0; 40]), PictureInfo::damaged());
        assert_eq!(mpeg4.parse(&[0xff; 2]), PictureInfo::damaged());
        let nothing = PictureInfo {
            shown: false,
            ..PictureInfo::default()
        };
        assert_eq!(mpeg4.parse(&[0x7f]), nothing, "a dropped frame of DivX");
        assert_eq!(
            mpeg4.parse(&[0, 0, 1, 0xb0, 1, 0, 0, 1, 0xb5, 9]),
            nothing,
            "headers"
        );
        assert_eq!(
            mpeg4.parse(&[&[0, 0, 1, 0xb0][..], &[0; 2000]].concat()),
            PictureInfo::damaged()
        );
    }
}
