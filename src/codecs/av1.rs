//! Parses AV1 temporal units: which of the eight reference slots each frame fills and depends on.
//! These slots hold all state that outlives a frame (AV1 specification 7.20).
//! Frame headers are parsed only up to their references (5.5, 5.9.2).

mod dependency;
mod references;

use framespool_nvdec::session;

use dependency::Av1DependencyParser;
use references::Av1ReferenceParser;

use super::codec::{
    Codec, ConfigurationBox, OrderRule, PacketDependencyParser, PacketFlags, PictureParser,
    ReferenceParser, SampleEntry,
};
use super::nal::BitReader;
use super::picture_info::{PictureInfo, RandomAccessPoint, SequenceColor};
use crate::media::{CodecParams, ColorTags};

pub(crate) struct Av1;

impl Codec for Av1 {
    fn picture_parser(&self) -> Box<dyn PictureParser> {
        Box::new(|data: &[u8], flags: PacketFlags| picture_info(data, flags.container_key))
    }

    fn parses_random_access_points(&self) -> bool {
        true
    }

    /// Metadata may precede the frame.
    fn is_header_missing(&self, picture: &PictureInfo, container_key: bool) -> bool {
        container_key && picture.random_access == RandomAccessPoint::None
    }

    /// The sequence header.
    fn configured_header(&self, extradata: &[u8]) -> Option<Vec<u8>> {
        sequence_header(config_obus(extradata))
    }

    fn packet_header(&self, data: &[u8]) -> Option<Vec<u8>> {
        sequence_header(data)
    }

    fn order_rule(&self, _extradata: &[u8]) -> OrderRule {
        OrderRule::DecodeOrder
    }

    fn dependency_parser(&self, params: &CodecParams) -> Option<Box<dyn PacketDependencyParser>> {
        Some(Box::new(Av1DependencyParser::new(&params.extradata)))
    }

    fn reference_parser(&self, extradata: &[u8]) -> Option<Box<dyn ReferenceParser>> {
        Some(Box::new(Av1ReferenceParser::new(extradata)))
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

    /// If the type of a frame's unit is damaged.
    fn loses_frames(&self) -> bool {
        true
    }

    /// Decoders must ignore reserved types (6.2.2 and 6.7.1). `RangeState::collect` detects a frame
    /// that is lost because its type is damaged.
    fn harmless_messages(&self) -> &'static [&'static str] {
        &[
            "Unknown OBU type ",
            "Unknown Metadata OBU type ",
            "Malformed ITU-T T.35 metadata ",
        ]
    }

    fn nvdec(&self) -> Result<session::Codec, &'static str> {
        Ok(session::Codec::Av1)
    }

    fn sample_entries(&self) -> &'static [SampleEntry] {
        const { &[SampleEntry::new(*b"av01", ConfigurationBox::Of(*b"av1C"))] }
    }
}

/// Types of OBUs (6.2.2).
pub(crate) mod obu_type {
    pub(crate) const SEQUENCE_HEADER: u8 = 1;
    pub(crate) const TEMPORAL_DELIMITER: u8 = 2;
    pub(crate) const FRAME_HEADER: u8 = 3;
    pub(crate) const TILE_GROUP: u8 = 4;
    pub(crate) const METADATA: u8 = 5;
    pub(crate) const FRAME: u8 = 6;
    pub(crate) const REDUNDANT_FRAME_HEADER: u8 = 7;
    pub(crate) const PADDING: u8 = 15;
}

/// Reads a packet's picture from its first frame header.
fn picture_info(data: &[u8], container_key: bool) -> PictureInfo {
    use obu_type::{FRAME, FRAME_HEADER, SEQUENCE_HEADER};
    let mut rest = data;
    let (mut sequence, mut has_frame, mut random_access) = (false, false, RandomAccessPoint::None);
    while let Some((&head, mut body)) = rest.split_first() {
        let kind = head >> 3 & 15;
        if head & 4 != 0 {
            body = body.get(1..).unwrap_or(&[]);
        }
        let mut size = body.len();
        if head & 2 != 0 {
            let Some((value, used)) = read_leb128(body) else {
                break;
            };
            body = &body[used..];
            size = value.min(body.len());
        }
        match kind {
            SEQUENCE_HEADER => sequence = true,
            FRAME_HEADER | FRAME => {
                has_frame = true;
                // show_existing_frame, frame_type, show_frame: a shown key frame resets all decoder
                // state.
                let bits = body.first().copied().unwrap_or(0xff);
                if bits >> 7 == 0 && bits >> 5 & 3 == 0 && bits >> 4 & 1 == 1 {
                    // Without a sequence header here, the container's configuration must hold one,
                    // which key flags imply.
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
    match has_frame {
        true => PictureInfo {
            random_access,
            ..PictureInfo::default()
        },
        false => PictureInfo::damaged(),
    }
}

fn read_leb128(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0usize;
    for (i, &byte) in bytes.iter().take(8).enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return Some((value, i + 1));
        }
    }
    None
}

/// Reads the sequence header in an AV1 temporal unit or configuration.
pub(crate) fn sequence_color(unit: &[u8]) -> Option<SequenceColor> {
    let list = parse_obus(unit)?;
    let header = list
        .iter()
        .find(|obu| obu.kind == obu_type::SEQUENCE_HEADER)?;
    Some(SequenceColor {
        color: parse_sequence_end(header.payload)?.color,
        is_resized: false,
    })
}

/// The first sequence header of a packet or configuration, as an OBU that states its size. The
/// packet may be cut.
fn sequence_header(data: &[u8]) -> Option<Vec<u8>> {
    let mut rest = data;
    while let Some((&head, mut body)) = rest.split_first() {
        if head & 4 != 0 {
            body = body.get(1..)?;
        }
        let mut size = body.len();
        if head & 2 != 0 {
            let (value, used) = read_leb128(body)?;
            (size, body) = (value, &body[used..]);
        }
        let payload = body.get(..size)?;
        if head >> 3 & 15 == obu_type::SEQUENCE_HEADER {
            // A size of two bytes; a longer header does not exist.
            let size = u16::try_from(size).ok().filter(|&size| size < 1 << 14)?;
            let head = [
                obu_type::SEQUENCE_HEADER << 3 | 2,
                size as u8 & 0x7f | 0x80,
                (size >> 7) as u8,
            ];
            return Some([&head[..], payload].concat());
        }
        rest = &body[size..];
    }
    None
}

/// One OBU of a packet.
pub(crate) struct Obu<'a> {
    pub kind: u8,
    /// Temporal and spatial layer, if the OBU has an extension header.
    pub layers: Option<(u32, u32)>,
    pub payload: &'a [u8],
}

/// Returns the OBUs of a packet; `None` if one extends past its end.
pub(crate) fn parse_obus(data: &[u8]) -> Option<Vec<Obu<'_>>> {
    let mut out = Vec::new();
    let mut rest = data;
    while let Some((&head, mut body)) = rest.split_first() {
        let mut layers = None;
        if head & 4 != 0 {
            let (&extension, tail) = body.split_first()?;
            layers = Some((u32::from(extension >> 5), u32::from(extension >> 3 & 3)));
            body = tail;
        }
        let mut size = body.len();
        if head & 2 != 0 {
            let (value, used) = read_leb128(body)?;
            body = body.get(used..)?;
            size = value;
        }
        out.push(Obu {
            kind: head >> 3 & 15,
            layers,
            payload: body.get(..size)?,
        });
        rest = &body[size..];
    }
    Some(out)
}

/// Whether a temporal unit has a single frame, which is decoded and shown: no hidden frame, and none
/// that is shown again. False if an OBU is of a layer or of a type that is not understood.
pub(crate) fn is_single_new_frame(units: &[Obu<'_>]) -> bool {
    let mut frames = 0;
    for unit in units {
        match unit.kind {
            obu_type::FRAME | obu_type::FRAME_HEADER => {
                // show_existing_frame, frame_type, show_frame (5.9.2).
                let bits = unit.payload.first().copied().unwrap_or(0xff);
                if unit.layers.is_some() || bits >> 7 == 1 || bits >> 4 & 1 == 0 {
                    return false;
                }
                frames += 1;
            }
            obu_type::SEQUENCE_HEADER
            | obu_type::TEMPORAL_DELIMITER
            | obu_type::TILE_GROUP
            | obu_type::METADATA
            | obu_type::REDUNDANT_FRAME_HEADER
            | obu_type::PADDING => {}
            _ => return false,
        }
    }
    frames == 1
}

/// Returns the OBUs of an `av1C` record or of a bare configuration.
pub(crate) fn config_obus(extradata: &[u8]) -> &[u8] {
    // av1C: marker and version, three more bytes, then OBUs.
    let config = if extradata.first() == Some(&0x81) {
        extradata.get(4..)
    } else {
        Some(extradata)
    };
    config.unwrap_or_default()
}

/// Fields of a frame header. Reference slots are bits of a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameHeader {
    /// Shows the frame in a slot again; a key frame then fills all slots.
    ShowExisting { slot: u32 },
    /// A new picture.
    New {
        /// A key frame, shown now or later.
        key: bool,
        /// Reference slots that it fills.
        refresh_mask: u8,
        /// Reference slots that its decoding depends on; `None` if the header is truncated before
        /// them.
        reference_mask: Option<u8>,
    },
}

/// Fields of a sequence header that frame headers depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SequenceHeader {
    /// Bits of `frame_presentation_time`, if shown frames have one.
    presentation_bits: u32,
    model: Option<DecoderModel>,
    /// 0 or 1 for the whole sequence; 2: signaled in each frame.
    screen_content: u32,
    integer_vectors: u32,
    order_bits: u32,
    /// Layers of the first operating point, which is the one decoded: temporal layers from bit 0,
    /// spatial layers from bit 8; 0: no layers.
    decoded_layers: u32,
}

/// Decoder model: bits of `buffer_removal_time`, and the layers of each operating point that has a
/// model.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DecoderModel {
    removal_bits: u32,
    points: Vec<u32>,
}

const ALL_SLOTS: u8 = 0xff;

/// Fields at the end of a sequence header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequenceEnd {
    pub color: ColorTags,
    /// `film_grain_params_present`.
    pub film_grain: bool,
}

/// Parses the end of a sequence header (5.5.1, 5.5.2); `None` if that fails.
pub(crate) fn parse_sequence_end(header: &[u8]) -> Option<SequenceEnd> {
    const SRGB: (u32, u32, u32) = (1, 13, 0);
    let mut bits = BitReader::plain(header);
    let profile = BitReader::plain(header).take(3)?;
    SequenceHeader::parse_prefix(&mut bits)?;
    bits.skip(3)?; // superres, cdef, restoration
    let high_depth = bits.bit()? == 1;
    let twelve = profile == 2 && high_depth && bits.bit()? == 1;
    let gray = profile != 1 && bits.bit()? == 1;
    let described = bits.bit()? == 1;
    let color = if described {
        (bits.take(8)?, bits.take(8)?, bits.take(8)?)
    } else {
        (2, 2, 2)
    };
    let full_range = (!gray && color == SRGB) || bits.bit()? == 1;
    if !gray && color == SRGB {
        bits.bit()?; // separate_uv_delta_q
    } else if !gray {
        let (mut half_width, mut half_height) = (profile == 0, profile == 0);
        if profile == 2 {
            half_width = !twelve || bits.bit()? == 1;
            half_height = twelve && half_width && bits.bit()? == 1;
        }
        if half_width && half_height {
            bits.skip(2)?; // chroma_sample_position
        }
        bits.bit()?; // separate_uv_delta_q
    }
    let (primaries, transfer, matrix) = (color.0 as u8, color.1 as u8, color.2 as u8);
    let color = ColorTags {
        primaries,
        transfer,
        matrix,
        full_range: Some(full_range),
    };
    Some(SequenceEnd {
        color,
        film_grain: bits.bit()? == 1,
    })
}

impl SequenceHeader {
    /// Returns `None` for sequences that are not handled here: still pictures, and streams with
    /// frame ids.
    pub(crate) fn parse(header: &[u8]) -> Option<Self> {
        Self::parse_prefix(&mut BitReader::plain(header))
    }

    /// Parses a sequence header up to `order_hint_bits`.
    fn parse_prefix(bits: &mut BitReader<'_>) -> Option<Self> {
        bits.skip(3 + 1)?;
        if bits.bit()? == 1 {
            return None; // reduced_still_picture_header
        }
        let (mut presentation_bits, mut model_bits, mut model) = (0, 0, None);
        if bits.bit()? == 1 {
            bits.skip(32 + 32)?;
            let equal_interval = bits.bit()? == 1;
            if equal_interval {
                bits.ue()?;
            }
            if bits.bit()? == 1 {
                model_bits = bits.take(5)? + 1;
                bits.skip(32)?;
                model = Some(DecoderModel {
                    removal_bits: bits.take(5)? + 1,
                    points: Vec::new(),
                });
                let time_bits = bits.take(5)? + 1;
                presentation_bits = if equal_interval { 0 } else { time_bits };
            }
        }
        let display_delay = bits.bit()? == 1;
        let mut decoded_layers = 0;
        for point in 0..=bits.take(5)? {
            let layers = bits.take(12)?;
            if point == 0 {
                decoded_layers = layers;
            }
            if bits.take(5)? > 7 {
                bits.bit()?;
            }
            if let Some(model) = &mut model
                && bits.bit()? == 1
            {
                model.points.push(layers);
                bits.skip(2 * model_bits + 1)?;
            }
            if display_delay && bits.bit()? == 1 {
                bits.skip(4)?;
            }
        }
        let sides = bits.take(4)? + bits.take(4)? + 2;
        bits.skip(sides)?;
        if bits.bit()? == 1 {
            return None; // frame_id_numbers_present_flag
        }
        bits.skip(3 + 4)?; // tools
        let ordered = bits.bit()? == 1;
        if ordered {
            bits.skip(2)?;
        }
        let screen_content = if bits.bit()? == 1 { 2 } else { bits.bit()? };
        let integer_vectors = if screen_content == 0 || bits.bit()? == 1 {
            2
        } else {
            bits.bit()?
        };
        let order_bits = if ordered { bits.take(3)? + 1 } else { 0 };
        Some(Self {
            presentation_bits,
            model,
            screen_content,
            integer_vectors,
            order_bits,
            decoded_layers,
        })
    }

    /// Whether a decoder of the first operating point decodes a unit of these layers, independently
    /// of other units: with several spatial layers, which one is shown depends on the layers
    /// present.
    pub(crate) fn decodes_layers(&self, layers: Option<(u32, u32)>) -> bool {
        let (temporal, spatial) = layers.unwrap_or((0, 0));
        let chosen = self.decoded_layers;
        spatial == 0 && (chosen == 0 || (chosen >> 8 == 1 && chosen >> temporal & 1 == 1))
    }

    /// Parses a frame header up to its references. `layers`: (temporal, spatial).
    pub(crate) fn parse_frame_header(
        &self,
        header: &[u8],
        layers: (u32, u32),
    ) -> Option<FrameHeader> {
        const KEY: u32 = 0;
        const INTRA_ONLY: u32 = 2;
        const SWITCH: u32 = 3;
        let mut bits = BitReader::plain(header);
        if bits.bit()? == 1 {
            return Some(FrameHeader::ShowExisting {
                slot: bits.take(3)?,
            });
        }
        let (kind, shown) = (bits.take(2)?, bits.bit()? == 1);
        let key = kind == KEY;
        if key && shown {
            return Some(FrameHeader::New {
                key,
                refresh_mask: ALL_SLOTS,
                reference_mask: Some(0),
            });
        }
        if kind == SWITCH {
            return Some(FrameHeader::New {
                key,
                refresh_mask: ALL_SLOTS,
                reference_mask: Some(ALL_SLOTS),
            });
        }
        if shown {
            bits.skip(self.presentation_bits)?;
        } else {
            bits.bit()?; // showable_frame
        }
        let resilient = bits.bit()? == 1;
        bits.bit()?; // disable_cdf_update
        let screen_content = if self.screen_content == 2 {
            bits.bit()?
        } else {
            self.screen_content
        };
        if screen_content == 1 && self.integer_vectors == 2 {
            bits.bit()?;
        }
        bits.bit()?; // frame_size_override_flag
        bits.skip(self.order_bits)?;
        let intra = key || kind == INTRA_ONLY;
        if !intra && !resilient {
            bits.skip(3)?; // primary_ref_frame: which reference provides CDFs, segmentation and filter levels
        }
        if let Some(model) = &self.model
            && bits.bit()? == 1
        {
            for &point in &model.points {
                let inside = point >> layers.0 & 1 == 1 && point >> (layers.1 + 8) & 1 == 1;
                if point == 0 || inside {
                    bits.skip(model.removal_bits)?;
                }
            }
        }
        let refresh_mask = bits.take(8)? as u8;
        let reference_mask =
            if resilient && self.order_bits > 0 && (!intra || refresh_mask != ALL_SLOTS) {
                Some(ALL_SLOTS) // it signals the order hint expected in each slot
            } else if intra {
                Some(0)
            } else {
                self.references(&mut bits)
            };
        Some(FrameHeader::New {
            key,
            refresh_mask,
            reference_mask,
        })
    }

    /// `ref_frame_idx`. Motion vectors, segments, film grain and all other inherited state come
    /// only from these frames.
    fn references(&self, bits: &mut BitReader) -> Option<u8> {
        if self.order_bits > 0 && bits.bit()? == 1 {
            return Some(ALL_SLOTS); // frame_refs_short_signaling: derived from the order hints of all slots
        }
        (0..7).try_fold(0, |mask, _| Some(mask | 1 << bits.take(3)?))
    }
}

/// Builds sequence headers and frames for tests.
#[cfg(test)]
pub(crate) mod test_headers {
    use super::super::nal::test_headers::bits;

    pub(crate) fn unit(kind: u8, payload: &[u8]) -> Vec<u8> {
        [&[kind << 3 | 2, payload.len() as u8], payload].concat()
    }

    /// A sequence header with 7-bit order hints; `timing`: with a decoder model and presentation
    /// times.
    pub(crate) fn sequence_header(timing: bool, numbered: bool) -> Vec<u8> {
        let model = [
            "1",
            &"0".repeat(64),
            "0",
            "1 00111",
            &"0".repeat(32),
            "00011 00100",
        ]
        .concat();
        let point = if timing {
            ["1", &"0".repeat(17)].concat()
        } else {
            String::new()
        };
        let text = [
            "000 0 0",
            if timing { &model } else { "0" },
            "0 00000 000000000000 00100",
            &point,
            "0001 0001 01 01",
            if numbered { "1 0010 001" } else { "0" },
            "000 0000 1 11 1 1 110",
        ];
        unit(1, &bits(&text.concat()))
    }

    /// A shown inter frame of that sequence that fills the slots `refresh_mask` and refers to the
    /// slots `of`.
    pub(crate) fn frame(timing: bool, refresh_mask: u8, of: [u8; 7]) -> Vec<u8> {
        let time = if timing { "00000" } else { "" };
        let removal = if timing { "1 0000" } else { "" };
        let refresh_mask = format!("{refresh_mask:08b}");
        let of = of.map(|slot| format!("{slot:03b}")).concat();
        let text = [
            "0 01 1",
            time,
            "0 0 0 0 0000001 010",
            removal,
            &refresh_mask,
            "0",
            &of,
            "111",
        ];
        unit(6, &bits(&text.concat()))
    }

    /// A shown key frame.
    pub(crate) fn key() -> Vec<u8> {
        unit(6, &bits("0 00 1 0 0 0 0"))
    }

    /// Shows the frame in a slot again.
    pub(crate) fn again(slot: u8) -> Vec<u8> {
        unit(3, &bits(&format!("1 {slot:03b}")))
    }
}

#[cfg(test)]
mod tests {
    use super::super::nal::test_headers::bits;
    use super::test_headers::{again, frame, key, sequence_header, unit};
    use super::*;

    fn sequence() -> SequenceHeader {
        let header = test_headers::sequence_header(false, false);
        SequenceHeader::parse(&header[2..]).expect("a plain sequence")
    }

    fn read(text: &str) -> Option<FrameHeader> {
        sequence().parse_frame_header(&bits(text), (0, 0))
    }

    #[test]
    fn only_units_of_one_new_frame_are_single() {
        let is_single = |packet: &[Vec<u8>]| {
            let packet = packet.concat();
            is_single_new_frame(&parse_obus(&packet).expect("whole OBUs"))
        };
        let shown = key();
        let hidden = unit(6, &bits("0 01 0 0 0 0 0"));
        assert!(is_single(&[sequence_header(false, false), shown.clone()]));
        assert!(is_single(&[unit(2, &[]), frame(false, 1, [0; 7])]));
        assert!(!is_single(&[hidden, shown.clone()]));
        assert!(!is_single(&[again(0)]));
        assert!(!is_single(&[shown, unit(8, &[0])]), "a tile list");
        assert!(!is_single(&[]));
    }

    #[test]
    fn packet_without_a_frame_header_is_damaged() {
        for data in [&[0; 40][..], &[0x12, 0]] {
            assert_eq!(picture_info(data, true), PictureInfo::damaged(), "{data:?}");
        }
        assert_eq!(
            picture_info(&[0x30, 0x10], false),
            PictureInfo::default(),
            "a frame"
        );
    }

    #[test]
    fn frame_reads_and_refreshes_its_named_slots() {
        let header = test_headers::frame(false, 0b0001_0010, [0, 1, 1, 2, 5, 5, 0]);
        let frame = FrameHeader::New {
            key: false,
            refresh_mask: 0b0001_0010,
            reference_mask: Some(0b0010_0111),
        };
        assert_eq!(
            sequence().parse_frame_header(&header[2..], (0, 0)),
            Some(frame)
        );
        assert_eq!(read("1 101"), Some(FrameHeader::ShowExisting { slot: 5 }));
    }

    #[test]
    fn frame_refs_short_signaling_reads_all_slots() {
        let all = |refresh_mask| {
            Some(FrameHeader::New {
                key: false,
                refresh_mask,
                reference_mask: Some(0xff),
            })
        };
        assert_eq!(read("0 11 1"), all(0xff), "a switch frame");
        assert_eq!(
            read("0 01 1 1 0 0 0 0000001 00000010"),
            all(2),
            "error resilient"
        );
        assert_eq!(
            read("0 01 1 0 0 0 0 0000001 010 00000010 1 000 000"),
            all(2),
            "short signalling"
        );
    }

    #[test]
    fn intra_frames_read_no_slots() {
        let none = |key, refresh_mask| {
            Some(FrameHeader::New {
                key,
                refresh_mask,
                reference_mask: Some(0),
            })
        };
        assert_eq!(read("0 00 1"), none(true, 0xff));
        assert_eq!(
            read("0 00 0 1 0 0 0 0 0000001 00000100"),
            none(true, 4),
            "a key frame that is shown later"
        );
        assert_eq!(
            read("0 10 1 0 0 0 0 0000001 00000100"),
            none(false, 4),
            "an intra-only frame"
        );
    }

    #[test]
    fn truncated_header_reports_refreshed_slots_only() {
        let cut = Some(FrameHeader::New {
            key: false,
            refresh_mask: 2,
            reference_mask: None,
        });
        assert_eq!(read("0 01 1 0 0 0 0 0000001 010 00000010 0 000 001"), cut);
    }

    #[test]
    fn only_layers_that_are_always_decoded_are_plain() {
        let with = |decoded_layers| SequenceHeader {
            decoded_layers,
            ..sequence()
        };
        assert!(with(0).decodes_layers(None) && with(0).decodes_layers(Some((1, 0))));
        assert!(with(0x103).decodes_layers(Some((1, 0))));
        assert!(
            !with(0x101).decodes_layers(Some((1, 0))),
            "a temporal layer that is omitted"
        );
        assert!(
            !with(0x301).decodes_layers(Some((0, 0))),
            "two spatial layers"
        );
        assert!(!with(0).decodes_layers(Some((0, 1))));
    }
}
