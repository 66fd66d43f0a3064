//! VVC (ITU-T H.266 7.3.1, 7.3.2, 7.4.2.2, 8.3.1): random access points, parameter sets, picture
//! order counts and dependencies.

mod dependency;
mod headers;

use dependency::VvcDependencyParser;
use headers::{HeaderSets, PictureHeader};

use super::codec::{
    Codec, OrderRule, PacketDependencyParser, PacketFlags, PictureParser, Reordering,
};
use super::nal::{Framing, NalSyntax, valid_nal_units};
use super::nal::{ParameterSetId, config_nal_units, take_units};
use super::picture_info::{PictureInfo, RandomAccessPoint};
use super::references::derive_poc;
use crate::media::CodecParams;

/// libavcodec's decoder. A range gets a decoder of its own: one that was flushed during a gradual
/// refresh waits for the end of it in the next range.
pub(crate) struct Vvc;

/// NAL unit types (table 5).
mod nal_type {
    pub(super) const RADL: u8 = 2;
    pub(super) const RASL: u8 = 3;
    pub(super) const IDR_W_RADL: u8 = 7;
    pub(super) const IDR_N_LP: u8 = 8;
    pub(super) const CRA: u8 = 9;
    pub(super) const GDR: u8 = 10;
    pub(super) const LAST_VCL: u8 = 11;
    pub(super) const OPI: u8 = 12;
    pub(super) const DCI: u8 = 13;
    pub(super) const VPS: u8 = 14;
    pub(super) const SPS: u8 = 15;
    pub(super) const PPS: u8 = 16;
    pub(super) const PREFIX_APS: u8 = 17;
    pub(super) const SUFFIX_APS: u8 = 18;
    pub(super) const PICTURE_HEADER: u8 = 19;
    pub(super) const DELIMITER: u8 = 20;
    pub(super) const END_OF_SEQUENCE: u8 = 21;
    pub(super) const END_OF_BITSTREAM: u8 = 22;
    pub(super) const PREFIX_SEI: u8 = 23;
    pub(super) const SUFFIX_SEI: u8 = 24;
    pub(super) const FILLER: u8 = 25;
}

/// Fields of a NAL unit header.
#[derive(Clone, Copy)]
struct NalHeader {
    kind: u8,
    layer: u8,
    temporal_id: u8,
}

impl NalHeader {
    fn parse(unit: &[u8]) -> Option<Self> {
        let &[first, second, ..] = unit else {
            return None;
        };
        Some(Self {
            kind: second >> 3,
            layer: first & 63,
            temporal_id: (second & 7).checked_sub(1)?,
        })
    }

    fn is_slice(self) -> bool {
        self.kind <= nal_type::LAST_VCL
    }
}

impl Codec for Vvc {
    fn picture_parser(&self) -> Box<dyn PictureParser> {
        Box::new(VvcPictureParser {
            framing: Framing::AnnexB,
            sets: HeaderSets::default(),
            anchor: 0,
            begins_sequence: true,
            recovery_count: None,
        })
    }

    fn parses_random_access_points(&self) -> bool {
        true
    }

    fn nal_syntax(&self) -> Option<&'static dyn NalSyntax> {
        Some(&Vvc)
    }

    fn required_headers(&self) -> Option<&'static str> {
        Some("parameter sets (SPS and PPS)")
    }

    fn order_rule(&self, _extradata: &[u8]) -> OrderRule {
        OrderRule::PictureOrderCounts
    }

    fn reordering(&self, _extradata: &[u8]) -> Reordering {
        Reordering::Possible
    }

    /// As decodable (RADL) or skipped after random access (RASL).
    fn marks_leading_pictures(&self) -> bool {
        true
    }

    fn dependency_parser(&self, params: &CodecParams) -> Option<Box<dyn PacketDependencyParser>> {
        Some(Box::new(VvcDependencyParser::new(&params.extradata)))
    }

    /// It decodes several pictures at the same time, even with one thread.
    fn needs_low_delay(&self) -> bool {
        true
    }

    fn outputs_fields(&self) -> bool {
        true
    }
}

impl NalSyntax for Vvc {
    /// vvcC without the header of its box (ISO/IEC 14496-15 11.2.4.2).
    fn length_bytes(&self, record: &[u8]) -> Option<u8> {
        record.first().map(|byte| (byte >> 1 & 3) + 1)
    }

    fn record_units<'a>(&self, record: &'a [u8]) -> Option<Vec<&'a [u8]>> {
        let (&first, mut rest) = record.split_first()?;
        if first & 1 == 1 {
            rest = after_profile(rest)?;
        }
        let mut units = Vec::new();
        let (&num_arrays, mut rest) = rest.split_first()?;
        for _ in 0..num_arrays {
            let (&kind, tail) = rest.split_first()?;
            rest = tail;
            // There is one of these each, and no number of them.
            let is_single = [nal_type::DCI, nal_type::OPI].contains(&(kind & 31));
            let mut count = 1;
            if !is_single {
                let (&number, tail) = rest.split_first_chunk::<2>()?;
                (count, rest) = (u16::from_be_bytes(number).into(), tail);
            }
            take_units(&mut rest, count, &mut units)?;
        }
        Some(units)
    }

    fn is_slice(&self, unit: &[u8]) -> bool {
        NalHeader::parse(unit).is_some_and(NalHeader::is_slice)
    }

    fn is_parameter_set(&self, unit: &[u8]) -> bool {
        let header = NalHeader::parse(unit);
        header.is_some_and(|header| (nal_type::VPS..=nal_type::PPS).contains(&header.kind))
    }

    /// Prefix and suffix APSs of the same type share their ids.
    fn id_of(&self, unit: &[u8]) -> Option<ParameterSetId> {
        let header = NalHeader::parse(unit)?;
        let &first = unit.get(2)?;
        Some(match header.kind {
            nal_type::VPS | nal_type::SPS => (header.kind, u32::from(first >> 4)),
            nal_type::PPS => (header.kind, u32::from(first >> 2)),
            nal_type::PREFIX_APS | nal_type::SUFFIX_APS => (nal_type::PREFIX_APS, u32::from(first)),
            _ => return None,
        })
    }

    /// The PPS, which the picture header names.
    fn set_of_slice(&self, unit: &[u8]) -> Option<ParameterSetId> {
        let mut bits = headers::picture_header_bits(unit)?;
        Some((nal_type::PPS, headers::skip_to_pps_id(&mut bits)?.pps_id))
    }

    fn required_sets(&self) -> &'static [u8] {
        &[nal_type::SPS, nal_type::PPS]
    }

    fn is_transient(&self, (kind, _): ParameterSetId) -> bool {
        kind == nal_type::PREFIX_APS
    }

    /// Not read.
    fn sps_sample_aspect(&self, _unit: &[u8]) -> Option<(u32, u32)> {
        None
    }

    /// Only for NVDEC.
    fn sps_nvdec_exclusion(&self, _unit: &[u8]) -> Option<&'static str> {
        None
    }
}

/// What follows `VvcPTLRecord` and the picture size in a configuration record.
fn after_profile(record: &[u8]) -> Option<&[u8]> {
    // 9 bits ols_idx, 3 num_sublayers, 2 constant_frame_rate, 2 chroma_format_idc, 8 bit depth.
    let (&[_, sublayers, _, constraints], rest) = record.split_first_chunk::<4>()?;
    let sublayers = sublayers >> 4 & 7;
    // general_profile_idc and tier, general_level_idc, constraint flags.
    let rest = rest.get(2 + usize::from(constraints & 63)..)?;
    let mut levels = 0;
    let mut rest = rest;
    if sublayers > 1 {
        let (&present, tail) = rest.split_first()?;
        (levels, rest) = (present.count_ones() as usize, tail);
    }
    let (&sub_profiles, rest) = rest.get(levels..)?.split_first()?;
    // Width, height and average frame rate.
    rest.get(4 * usize::from(sub_profiles) + 6..)
}

/// Reads pictures, and derives their order counts.
struct VvcPictureParser {
    framing: Framing,
    sets: HeaderSets,
    /// Order count from which the next one is derived.
    anchor: i64,
    /// The next picture is the first one of the stream, or follows the end of a sequence.
    begins_sequence: bool,
    /// Order count at which a gradual refresh that began the sequence is complete: pictures before
    /// it are not output.
    recovery_count: Option<i64>,
}

impl PictureParser for VvcPictureParser {
    fn set_extradata(&mut self, extradata: &[u8]) {
        self.framing = Framing::detect(&Vvc, extradata);
        for unit in config_nal_units(&Vvc, self.framing, extradata) {
            self.sets.insert(unit);
        }
    }

    fn parse(&mut self, data: &[u8], _flags: PacketFlags) -> PictureInfo {
        let Some(units) = valid_nal_units(self.framing, data) else {
            return PictureInfo::damaged();
        };
        let mut ends_sequence = false;
        let mut header = None;
        let mut slice = None;
        for &unit in &units {
            let Some(nal) = NalHeader::parse(unit).filter(|nal| nal.layer == 0) else {
                continue; // layers above the base layer are not decoded
            };
            match nal.kind {
                nal_type::SPS | nal_type::PPS if slice.is_none() => self.sets.insert(unit),
                nal_type::END_OF_SEQUENCE | nal_type::END_OF_BITSTREAM => match slice {
                    None => self.begins_sequence = true,
                    Some(_) => ends_sequence = true,
                },
                _ => {}
            }
            if slice.is_none() {
                header = header.or_else(|| self.sets.picture_header(unit));
                slice = nal.is_slice().then_some(nal);
            }
        }
        let Some(slice) = slice else {
            return PictureInfo {
                shown: false,
                ..PictureInfo::default()
            };
        };
        let begins = std::mem::replace(&mut self.begins_sequence, ends_sequence);
        self.picture(slice, header, begins)
    }
}

impl VvcPictureParser {
    fn picture(
        &mut self,
        slice: NalHeader,
        header: Option<PictureHeader>,
        begins: bool,
    ) -> PictureInfo {
        let is_idr = [nal_type::IDR_W_RADL, nal_type::IDR_N_LP].contains(&slice.kind);
        let is_gdr = slice.kind == nal_type::GDR;
        let leads = [nal_type::RADL, nal_type::RASL].contains(&slice.kind);
        let restarts = is_idr || begins && (is_gdr || slice.kind == nal_type::CRA);
        let count = header.as_ref().map(|header| {
            let range = 1i64 << header.poc_lsb_bits;
            let lsb = i64::from(header.poc_lsb);
            match header.poc_msb_cycle {
                Some(cycle) => i64::from(cycle) * range + lsb,
                None if restarts => lsb,
                None => derive_poc(self.anchor, lsb, range),
            }
        });
        if let (Some(header), Some(count)) = (&header, count) {
            if slice.temporal_id == 0 && !leads && !header.is_non_reference {
                self.anchor = count;
            }
            if restarts {
                self.recovery_count = is_gdr.then_some(count + i64::from(header.recovery_count));
            }
        }
        let recovers = count
            .zip(self.recovery_count)
            .is_some_and(|(count, recovered)| count < recovered);
        if !recovers {
            self.recovery_count = None;
        }
        PictureInfo {
            random_access: match slice.kind {
                nal_type::IDR_W_RADL | nal_type::IDR_N_LP => RandomAccessPoint::Closed,
                nal_type::CRA => RandomAccessPoint::Open,
                nal_type::GDR if header.is_some_and(|header| header.recovery_count == 0) => {
                    RandomAccessPoint::Open
                }
                nal_type::GDR => RandomAccessPoint::Inexact,
                _ => RandomAccessPoint::None,
            },
            shown: !recovers,
            is_rasl: slice.kind == nal_type::RASL,
            is_broken_link: begins && [nal_type::CRA, nal_type::GDR].contains(&slice.kind),
            order_count: count.and_then(|count| i32::try_from(count).ok()),
            ..PictureInfo::default()
        }
    }
}

/// Builds parameter sets and slices for tests.
#[cfg(test)]
mod test_headers {
    use crate::codecs::nal::test_headers::{bits, ue};

    pub(super) fn unit(kind: u8, temporal: u8, text: &str) -> Vec<u8> {
        [&[0, kind << 3 | (temporal + 1)], &bits(text)[..]].concat()
    }

    /// A packet of units with start codes.
    pub(super) fn packet(units: &[Vec<u8>]) -> Vec<u8> {
        let started = |unit: &Vec<u8>| [&[0, 0, 1], &unit[..]].concat();
        units.iter().flat_map(started).collect()
    }

    /// An SPS with that highest temporal layer and order counts of `poc_bits` bits.
    pub(super) fn sequence(highest_layer: u8, poc_bits: u32) -> Vec<u8> {
        let text = [
            "0000 0000",
            &format!("{highest_layer:03b}"),
            "01 10 0 0 0", // 4:2:0, CTU of 128, no profile
            &[ue(96), ue(80)].concat(),
            "0 0",
            &ue(0),
            "0 0",
            &format!("{:04b}", poc_bits - 4),
            "0 00 1",
        ];
        unit(15, 0, &text.concat())
    }

    /// A PPS with id 0 for the SPS with id 0.
    pub(super) fn picture_set() -> Vec<u8> {
        unit(16, 0, "000000 0000 1")
    }

    /// The only slice of a picture, with order counts of four bits.
    pub(super) fn slice(kind: u8, temporal: u8, non_reference: bool, lsb: u32) -> Vec<u8> {
        let random_access = (7..=10).contains(&kind);
        let text = [
            "1", // the picture header is here
            if random_access { "1" } else { "0" },
            if non_reference { "1" } else { "0" },
            match (random_access, kind == 10) {
                (true, true) => "1",
                (true, false) => "0",
                _ => "",
            },
            "0",
            &ue(0),
            &format!("{lsb:04b}"),
            if kind == 10 { "011" } else { "" }, // recovery after two
            "1 1111",
        ];
        unit(kind, temporal, &text.concat())
    }
}

#[cfg(test)]
mod tests {
    use super::test_headers::{packet, picture_set, sequence, slice, unit};
    use super::*;

    fn pictures(slices: &[Vec<u8>]) -> Vec<PictureInfo> {
        let mut parser = Vvc.picture_parser();
        parser.set_extradata(&packet(&[sequence(0, 4), picture_set()]));
        let flags = PacketFlags {
            container_key: false,
            is_first: false,
        };
        let packets = slices
            .iter()
            .map(|slice| packet(std::slice::from_ref(slice)));
        packets.map(|data| parser.parse(&data, flags)).collect()
    }

    fn counts(slices: &[Vec<u8>]) -> Vec<Option<i32>> {
        pictures(slices).iter().map(|p| p.order_count).collect()
    }

    #[test]
    fn order_counts_follow_the_last_anchor_and_restart_at_idr() {
        let plain = |lsb| slice(0, 0, false, lsb);
        let decoded = [
            slice(8, 0, false, 0),
            plain(8),
            slice(0, 1, false, 4),
            slice(0, 0, true, 14), // not an anchor
            plain(0),
            slice(3, 0, false, 12),
            slice(7, 0, false, 0),
        ];
        let expected = [0, 8, 4, 14, 16, 12, 0].map(Some);
        assert_eq!(counts(&decoded), expected);
    }

    #[test]
    fn random_access_points_are_distinguished() {
        let kinds = [7, 9, 10, 0, 3, 2];
        let slices = kinds.map(|kind| slice(kind, 0, false, 4));
        let found = pictures(&slices);
        let points: Vec<_> = found.iter().map(|p| p.random_access).collect();
        use RandomAccessPoint::{Closed, Inexact, None, Open};
        assert_eq!(points, [Closed, Open, Inexact, None, None, None]);
        let rasl: Vec<_> = found.iter().map(|p| p.is_rasl).collect();
        assert_eq!(rasl, [false, false, false, false, true, false]);
    }

    #[test]
    fn pictures_before_the_recovery_point_are_not_shown() {
        let slices =
            [(10, 0), (0, 1), (0, 2), (0, 3)].map(|(kind, lsb)| slice(kind, 0, false, lsb));
        let shown: Vec<_> = pictures(&slices).iter().map(|p| p.shown).collect();
        assert_eq!(shown, [false, false, true, true]);
    }

    #[test]
    fn end_of_sequence_breaks_the_link() {
        let ended = [slice(0, 0, false, 3), unit(21, 0, "1")];
        let mut parser = Vvc.picture_parser();
        parser.set_extradata(&packet(&[sequence(0, 4), picture_set()]));
        let flags = PacketFlags {
            container_key: false,
            is_first: false,
        };
        let mut parse = |units: &[Vec<u8>]| parser.parse(&packet(units), flags);
        assert!(parse(&[slice(9, 0, false, 0)]).is_broken_link, "the first");
        parse(&ended);
        assert!(parse(&[slice(9, 0, false, 7)]).is_broken_link);
        assert!(!parse(&[slice(9, 0, false, 9)]).is_broken_link);
    }

    #[test]
    fn configuration_record_is_read() {
        let (sps, pps) = (sequence(0, 4), picture_set());
        let array = |kind: u8, set: &[u8]| {
            let len = (set.len() as u16).to_be_bytes();
            [&[0x80 | kind, 0, 1][..], &len, set].concat()
        };
        let profile = [
            &[0, 0x10 | 0x05, 0, 1][..], // one sublayer
            &[2, 51, 0],                 // profile, level, a byte of constraints
            &[1, 9, 9, 9, 9],            // a sub-profile
            &[0, 96, 0, 80, 0, 0],
        ]
        .concat();
        for (first, profile) in [(0xfe, &[][..]), (0xff, &profile[..])] {
            let record = [&[first], profile, &[2], &array(15, &sps), &array(16, &pps)].concat();
            assert_eq!(
                Framing::detect(&Vvc, &record),
                Framing::LengthPrefixed(4),
                "{first}"
            );
            assert_eq!(Vvc.record_units(&record), Some(vec![&sps[..], &pps]));
            for len in 0..record.len() {
                Vvc.record_units(&record[..len]);
            }
        }
    }

    #[test]
    fn adaptation_parameter_sets_are_kept_and_change_nothing() {
        use crate::codecs::parameter_sets::ParameterSetTracker;
        let aps = |content: &str| unit(17, 0, &format!("000 00001 {content}"));
        let sets = packet(&[sequence(0, 4), picture_set()]);
        let mut tracker = ParameterSetTracker::new(&Vvc, &sets);
        tracker.observe(&packet(&[aps("01"), slice(8, 0, false, 0)]));
        tracker.observe(&packet(&[aps("11"), slice(0, 0, false, 1)]));
        assert!(!tracker.is_changing() && !tracker.has_in_band());
        let kept = [&[0, 0, 0, 1], &aps("11")[..]].concat();
        assert_eq!(tracker.not_in_config(), kept);
    }
}
