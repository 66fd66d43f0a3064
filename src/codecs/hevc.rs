//! Parses HEVC packets: their picture, parameter sets and SEI messages with lasting effect (ITU-T
//! H.265 7.3.1, 7.4.2.2). Units of layers above the base layer, such as the second view of MV-HEVC,
//! are removed before decoders and skip analysis. Packets with such units or with several pictures
//! are not plain.

mod dependency;
mod parameter_sets;
mod references;
mod slice_header;

use framespool_nvdec::session;

use dependency::HevcDependencyParser;
use parameter_sets::{ParameterSets, parse_sps_id, sps_nvdec_exclusion, sps_sample_aspect};
use references::HevcReferenceParser;

use super::codec::{
    Codec, ConfigurationBox, OrderRule, PacketDependencyParser, PacketFlags, PictureParser,
    ReferenceParser, Reordering, SampleEntry,
};
use super::nal::{
    BitReader, Framing, NalSyntax, has_persistent_sei, split_nal_units, valid_nal_units,
};
use super::nal::{ParameterSetId, config_nal_units, take_units};
use super::picture_info::{PictureInfo, RandomAccessPoint};
use crate::media::CodecParams;

pub(crate) struct Hevc;

/// NAL unit types (table 7-1).
const VPS: u8 = 32;
const SPS: u8 = 33;
const PPS: u8 = 34;

const HEVC_CONFIGURATION: ConfigurationBox = ConfigurationBox::Of(*b"hvcC");

impl Codec for Hevc {
    fn picture_parser(&self) -> Box<dyn PictureParser> {
        Box::new(HevcPictureParser {
            framing: Framing::AnnexB,
        })
    }

    fn parses_random_access_points(&self) -> bool {
        true
    }

    fn nal_syntax(&self) -> Option<&'static dyn NalSyntax> {
        Some(&Hevc)
    }

    fn required_headers(&self) -> Option<&'static str> {
        Some("parameter sets (SPS and PPS)")
    }

    fn order_rule(&self, _extradata: &[u8]) -> OrderRule {
        OrderRule::PictureOrderCounts
    }

    fn reordering(&self, extradata: &[u8]) -> Reordering {
        let mut sets = ParameterSets::default();
        for unit in config_nal_units(&Hevc, Framing::detect(&Hevc, extradata), extradata) {
            sets.insert(unit);
        }
        match sets.excludes_reordering() {
            true => Reordering::AsTimestamps,
            false => Reordering::Possible,
        }
    }

    fn is_parsed_by_libavcodec(&self) -> bool {
        true
    }

    /// As decodable (RADL) or skipped after random access (RASL).
    fn marks_leading_pictures(&self) -> bool {
        true
    }

    fn dependency_parser(&self, params: &CodecParams) -> Option<Box<dyn PacketDependencyParser>> {
        Some(Box::new(HevcDependencyParser::new(&params.extradata)))
    }

    fn reference_parser(&self, extradata: &[u8]) -> Option<Box<dyn ReferenceParser>> {
        Some(Box::new(HevcReferenceParser::new(extradata)))
    }

    fn is_reset_at_sync(&self, _params: &CodecParams) -> bool {
        true
    }

    fn reports_damage_with_threads(&self) -> bool {
        true
    }

    fn detects_truncated_pictures(&self) -> bool {
        true
    }

    fn writes_every_block(&self) -> bool {
        cfg!(ffmpeg_patched)
    }

    fn outputs_fields(&self) -> bool {
        true
    }

    fn harmless_messages(&self) -> &'static [&'static str] {
        &[
            // Supplemental enhancement information, the rest of which is ignored.
            "num_sps_ids_minus1 ",
            "active_parameter_set_id ",
            // The video parameter set describes further layers; the base layer is decoded. A
            // sequence parameter set whose video parameter set is missing causes another message
            // too.
            "VPS has ",
            "Scalability type ",
            "Overread VPS by",
            // Metadata of Dolby Vision, or another use of NAL unit type 62, which is unspecified.
            "RPU ",
            "Profile ",
            "Uncompressed RPUs ",
            "Unknown previous RPU ",
            "Dynamic metadata compression ",
            "Nonzero DM metadata ",
        ]
    }

    fn nvdec(&self) -> Result<session::Codec, &'static str> {
        Ok(session::Codec::Hevc)
    }

    fn sample_entries(&self) -> &'static [SampleEntry] {
        const {
            &[
                SampleEntry::new(*b"hvc1", HEVC_CONFIGURATION),
                SampleEntry::new(*b"hev1", HEVC_CONFIGURATION).with_in_band_sets(),
            ]
        }
    }
}

impl NalSyntax for Hevc {
    /// hvcC (ISO/IEC 14496-15 8.3.3.1).
    fn length_bytes(&self, record: &[u8]) -> Option<u8> {
        record.get(21).map(|byte| (byte & 3) + 1)
    }

    fn record_units<'a>(&self, record: &'a [u8]) -> Option<Vec<&'a [u8]>> {
        let mut units = Vec::new();
        let (&num_arrays, mut rest) = record.get(22..)?.split_first()?;
        for _ in 0..num_arrays {
            let (&[_kind, high, low], tail) = rest.split_first_chunk::<3>()?;
            rest = tail;
            take_units(
                &mut rest,
                u16::from_be_bytes([high, low]).into(),
                &mut units,
            )?;
        }
        Some(units)
    }

    fn is_slice(&self, unit: &[u8]) -> bool {
        unit[0] >> 1 & 63 < VPS
    }

    fn is_parameter_set(&self, unit: &[u8]) -> bool {
        matches!(unit[0] >> 1 & 63, VPS..=PPS) && layer(unit) == 0
    }

    fn id_of(&self, unit: &[u8]) -> Option<ParameterSetId> {
        let kind = unit.first().filter(|_| layer(unit) == 0)? >> 1 & 63;
        let mut bits = BitReader::new(unit.get(2..)?);
        let number = match kind {
            VPS => bits.take(4)?,
            SPS => parse_sps_id(&mut bits)?,
            PPS => bits.ue()?,
            _ => return None,
        };
        Some((kind, number))
    }

    /// The PPS (7.3.6.1).
    fn set_of_slice(&self, unit: &[u8]) -> Option<ParameterSetId> {
        let kind = unit.first().filter(|_| layer(unit) == 0)? >> 1 & 63;
        let mut bits = BitReader::new(unit.get(2..).filter(|_| kind < VPS)?);
        bits.bit()?; // first_slice_segment_in_pic_flag
        if (16..24).contains(&kind) {
            bits.bit()?;
        }
        Some((PPS, bits.ue()?))
    }

    fn required_sets(&self) -> &'static [u8] {
        &[SPS, PPS]
    }

    fn sps_sample_aspect(&self, unit: &[u8]) -> Option<(u32, u32)> {
        sps_sample_aspect(unit)
    }

    fn sei_header_bytes(&self, unit: &[u8]) -> Option<usize> {
        (matches!(unit[0] >> 1 & 63, 39 | 40) && layer(unit) == 0).then_some(2)
    }

    fn sps_nvdec_exclusion(&self, unit: &[u8]) -> Option<&'static str> {
        sps_nvdec_exclusion(unit)
    }

    fn is_of_higher_layer(&self, unit: &[u8]) -> bool {
        layer(unit) > 0
    }
}

struct HevcPictureParser {
    framing: Framing,
}

impl PictureParser for HevcPictureParser {
    fn set_extradata(&mut self, extradata: &[u8]) {
        self.framing = Framing::detect(&Hevc, extradata);
    }

    fn parse(&mut self, data: &[u8], _flags: PacketFlags) -> PictureInfo {
        picture_info(self.framing, data)
    }
}

/// `nuh_layer_id`; 0: the base layer.
fn layer(unit: &[u8]) -> u8 {
    match *unit {
        [head, second, ..] => (head & 1) << 5 | second >> 3,
        _ => 0,
    }
}

/// Reads a packet's picture from the type of its first NAL unit of the base layer.
fn picture_info(framing: Framing, data: &[u8]) -> PictureInfo {
    let Some(units) = valid_nal_units(framing, data) else {
        return PictureInfo::damaged();
    };
    for unit in units {
        let kind = unit[0] >> 1 & 63;
        if kind >= 32 || layer(unit) > 0 {
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
    PictureInfo {
        shown: false,
        ..PictureInfo::default()
    }
}

/// Contents of a packet.
#[derive(Debug, Default)]
pub(crate) struct HevcAccessUnit<'a> {
    /// First slice segment of the picture, as a NAL unit; `None` if the packet has no slice.
    pub slice: Option<&'a [u8]>,
    /// NAL unit type of all slices.
    pub nal_type: u8,
    pub temporal_id: u8,
    /// It holds exactly one whole picture of the base layer, and no NAL unit types that are not
    /// understood.
    pub plain: bool,
    /// Parameter sets of the base layer.
    pub parameter_sets: Vec<&'a [u8]>,
    /// It holds an SEI message that changes later pictures.
    pub has_persistent_sei: bool,
}

impl<'a> HevcAccessUnit<'a> {
    pub(crate) fn parse(framing: Framing, data: &'a [u8]) -> Self {
        let mut this = Self {
            plain: true,
            ..Self::default()
        };
        for unit in split_nal_units(framing, data) {
            if this.add_unit(unit).is_none() {
                this.plain = false;
            }
        }
        this.plain &= this.slice.is_some();
        this
    }

    /// Returns `None` if the unit makes the packet unusual.
    fn add_unit(&mut self, unit: &'a [u8]) -> Option<()> {
        let (head, body) = unit.split_at_checked(2)?;
        let kind = head[0] >> 1 & 63;
        let temporal = (head[1] & 7).checked_sub(1)?;
        if layer(unit) > 0 {
            return None; // decoders are not given it
        }
        match kind {
            0..=31 => {
                let begins = body.first()? >> 7 == 1;
                if self.slice.is_none() {
                    (self.slice, self.nal_type, self.temporal_id) = (Some(unit), kind, temporal);
                    return begins.then_some(());
                }
                return ((self.nal_type, self.temporal_id) == (kind, temporal) && !begins)
                    .then_some(());
            }
            32..=34 => self.parameter_sets.push(unit),
            39 | 40 => self.has_persistent_sei |= has_persistent_sei(unit),
            // Delimiters, filler data, and Dolby Vision metadata, which does not affect decoding.
            35 | 38 | 62 => {}
            _ => return None,
        }
        Some(())
    }
}

/// Builds parameter sets and slices for tests.
#[cfg(test)]
pub(crate) mod test_headers {
    use super::super::nal::test_headers::{bits, ue};

    fn unit(kind: u8, temporal: u8, text: &str) -> Vec<u8> {
        [&[kind << 1, temporal + 1], &bits(text)[..]].concat()
    }

    /// A packet of units with two-byte length prefixes.
    pub(crate) fn packet(units: &[Vec<u8>]) -> Vec<u8> {
        units
            .iter()
            .flat_map(|u| [&(u.len() as u16).to_be_bytes(), &u[..]].concat())
            .collect()
    }

    /// An hvcC with those parameter sets.
    pub(crate) fn configuration(sets: &[Vec<u8>]) -> Vec<u8> {
        let mut out = vec![1; 23];
        out[22] = sets.len() as u8;
        for set in sets {
            out.extend([set[0] >> 1, 0, 1]);
            out.extend((set.len() as u16).to_be_bytes());
            out.extend(set);
        }
        out
    }

    /// An SPS with 4-bit picture order counts and those reference picture sets (as text); `long`:
    /// with long-term references.
    pub(crate) fn sequence(reference_sets: &[&str], long: bool) -> Vec<u8> {
        sequence_with_chroma(1, reference_sets, long)
    }

    /// The same with this `chroma_format_idc`.
    pub(crate) fn sequence_with_chroma(
        chroma: u32,
        reference_sets: &[&str],
        long: bool,
    ) -> Vec<u8> {
        let coded = ["1", &ue(0).repeat(16)].concat();
        let predicted = ["0", &ue(0)].concat().repeat(5 + 6 + 6 + 2);
        let text = [
            "0000 000 1", // one temporal layer
            &"1".repeat(96),
            &[ue(0), ue(chroma), ue(63), ue(63)].concat(),
            "0",
            &[ue(0), ue(0), ue(0)].concat(), // depths, bits of order counts
            "1",
            &[ue(4), ue(2), ue(0)].concat(),
            &[ue(0), ue(2), ue(0), ue(2), ue(1), ue(1)].concat(),
            "1 1",
            &coded,
            &predicted,
            "1 1 0",
            &ue(reference_sets.len() as u32),
            &reference_sets.concat(),
            if long { "1" } else { "0" },
            &ue(0),
            "0 0 0 1",
        ];
        unit(33, 0, &text.concat())
    }

    /// A PPS; slice headers carry `extra` additional bits.
    pub(crate) fn picture_set(extra: u32) -> Vec<u8> {
        unit(
            34,
            0,
            &[&ue(0), &ue(0), "0 1", &format!("{extra:03b}"), "1"].concat(),
        )
    }

    /// First slice of a picture. `references`: the bits after the picture order count, as text.
    pub(crate) fn slice(kind: u8, temporal: u8, lsb: u32, references: &str) -> Vec<u8> {
        let random_access = if kind >= 16 { "0" } else { "" };
        let order = if kind == 19 {
            String::new()
        } else {
            format!("{lsb:04b} {references}")
        };
        // Extra bits, slice type, pic_output_flag.
        let text = [
            "1",
            random_access,
            &ue(0),
            "11",
            &ue(1),
            "1",
            &order,
            "1 1111 1111",
        ];
        unit(kind, temporal, &text.concat())
    }

    /// A reference picture set: distances before and after, each with whether the picture itself
    /// uses it.
    pub(crate) fn set(first: bool, before: &[(u32, bool)], after: &[(u32, bool)]) -> String {
        let mut text = if first { String::new() } else { "0".into() };
        text += &ue(before.len() as u32);
        text += &ue(after.len() as u32);
        for side in [before, after] {
            let mut at = 0;
            for &(distance, used) in side {
                text += &ue(distance - at - 1);
                text += if used { "1" } else { "0" };
                at = distance;
            }
        }
        text
    }
}
