//! H.264: random access points and picture types (ITU-T H.264 7.3.1 to 7.3.3, D.2.8).

mod dependency;

use framespool_nvdec::session;

pub(crate) use dependency::FrameNumTracker;
use dependency::{H264DependencyParser, sps_nvdec_exclusion, sps_sample_aspect};

use super::codec::{
    Codec, ConfigurationBox, OrderRule, PacketDependencyParser, PacketFlags, PictureParser,
    Reordering, SampleEntry,
};
use super::nal::{
    BitReader, Framing, NalSyntax, parse_sei_messages, split_nal_units, valid_nal_units,
};
use super::nal::{ParameterSetId, take_units};
use super::picture_info::{PictureInfo, RandomAccessPoint};
use crate::media::CodecParams;

pub(crate) struct H264;

/// NAL unit types (table 7-1).
const SPS: u8 = 7;
const PPS: u8 = 8;

const AVC_CONFIGURATION: ConfigurationBox = ConfigurationBox::Of(*b"avcC");

impl Codec for H264 {
    fn picture_parser(&self) -> Box<dyn PictureParser> {
        Box::new(H264PictureParser {
            framing: Framing::AnnexB,
        })
    }

    fn parses_random_access_points(&self) -> bool {
        true
    }

    fn may_have_field_packets(&self, extradata: &[u8], first: &[u8]) -> bool {
        let mut parser = H264DependencyParser::new(extradata, false);
        parser.parse(first);
        !parser.declares_frames_only()
    }

    fn nal_syntax(&self) -> Option<&'static dyn NalSyntax> {
        Some(&H264)
    }

    fn required_headers(&self) -> Option<&'static str> {
        Some("parameter sets (SPS and PPS)")
    }

    fn order_rule(&self, _extradata: &[u8]) -> OrderRule {
        OrderRule::PictureOrderCounts
    }

    fn reordering(&self, _extradata: &[u8]) -> Reordering {
        Reordering::ByPictureType
    }

    fn declares_reorder_depth(&self, extradata: &[u8]) -> bool {
        H264DependencyParser::new(extradata, false).declares_reorder_depth()
    }

    /// An IDR picture outputs all pictures before it (C.4.4).
    fn closed_points_have_no_leading_pictures(&self) -> bool {
        true
    }

    fn is_parsed_by_libavcodec(&self) -> bool {
        true
    }

    fn parser_reports_fields(&self) -> bool {
        true
    }

    fn dependency_parser(&self, params: &CodecParams) -> Option<Box<dyn PacketDependencyParser>> {
        Some(Box::new(H264DependencyParser::new(
            &params.extradata,
            params.reorder.is_some(),
        )))
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

    fn harmless_messages(&self) -> &'static [&'static str] {
        &[
            // Decoding starts at a random access point other than the first one, and commands that
            // mark reference pictures name pictures before it.
            "mmco: unref short failure",
            "number of reference frames",
            "reference count overflow",
            // Supplemental enhancement information, the rest of which is ignored. Without its
            // recovery point, the decoder marks the frames or does not output them.
            "SEI type ",
            "Picture timing SEI payload too large",
            "recovery_frame_cnt ",
            "non-existing SPS ",
            "Error processing a picture timing SEI",
            // Video usability information.
            "time_scale/num_units_in_tick invalid",
        ]
    }

    fn nvdec(&self) -> Result<session::Codec, &'static str> {
        Ok(session::Codec::H264)
    }

    fn uses_container_color(&self) -> bool {
        true
    }

    fn sample_entries(&self) -> &'static [SampleEntry] {
        const {
            &[
                SampleEntry::new(*b"avc1", AVC_CONFIGURATION),
                SampleEntry::new(*b"avc3", AVC_CONFIGURATION).with_in_band_sets(),
            ]
        }
    }
}

impl NalSyntax for H264 {
    /// avcC (ISO/IEC 14496-15 5.3.3.1).
    fn length_bytes(&self, record: &[u8]) -> Option<u8> {
        record.get(4).map(|byte| (byte & 3) + 1)
    }

    fn record_units<'a>(&self, record: &'a [u8]) -> Option<Vec<&'a [u8]>> {
        let mut units = Vec::new();
        let (&num_sps, mut rest) = record.get(5..)?.split_first()?;
        take_units(&mut rest, usize::from(num_sps & 31), &mut units)?;
        let (&num_pps, mut rest) = rest.split_first()?;
        take_units(&mut rest, usize::from(num_pps), &mut units)?;
        Some(units)
    }

    fn is_slice(&self, unit: &[u8]) -> bool {
        matches!(unit[0] & 31, 1..=5)
    }

    fn is_parameter_set(&self, unit: &[u8]) -> bool {
        matches!(unit[0] & 31, SPS | PPS)
    }

    fn id_of(&self, unit: &[u8]) -> Option<ParameterSetId> {
        let kind = unit.first()? & 31;
        let before_id = match kind {
            SPS => 4,
            PPS => 1,
            _ => return None,
        };
        Some((kind, BitReader::new(unit.get(before_id..)?).ue()?))
    }

    /// The PPS (7.3.3).
    fn set_of_slice(&self, unit: &[u8]) -> Option<ParameterSetId> {
        let is_slice = [1, 2, 5].contains(&(unit.first()? & 31));
        let mut bits = BitReader::new(unit.get(1..).filter(|_| is_slice)?);
        bits.ue()?; // first_mb_in_slice
        bits.ue()?; // slice_type
        Some((PPS, bits.ue()?))
    }

    fn required_sets(&self) -> &'static [u8] {
        &[SPS, PPS]
    }

    fn sps_sample_aspect(&self, unit: &[u8]) -> Option<(u32, u32)> {
        sps_sample_aspect(unit)
    }

    fn sei_header_bytes(&self, unit: &[u8]) -> Option<usize> {
        (unit[0] & 31 == 6).then_some(1)
    }

    fn sps_nvdec_exclusion(&self, unit: &[u8]) -> Option<&'static str> {
        sps_nvdec_exclusion(unit)
    }
}

struct H264PictureParser {
    framing: Framing,
}

impl PictureParser for H264PictureParser {
    fn set_extradata(&mut self, extradata: &[u8]) {
        self.framing = Framing::detect(&H264, extradata);
    }

    fn parse(&mut self, data: &[u8], _flags: PacketFlags) -> PictureInfo {
        picture_info(self.framing, data)
    }

    /// x264's user data SEI message: libavcodec's workarounds for old x264 versions depend on it.
    fn first_packet_headers(&self, first: &[u8]) -> Vec<u8> {
        x264_sei(self.framing, first)
    }
}

/// Reads a packet's picture from its first slice and the SEI messages before it.
fn picture_info(framing: Framing, data: &[u8]) -> PictureInfo {
    let mut recovery = None;
    let (mut random_access, mut is_b_picture) = (RandomAccessPoint::None, false);
    let Some(units) = valid_nal_units(framing, data) else {
        return PictureInfo::damaged();
    };
    // A packet of parameter sets alone shows nothing.
    let mut shown = false;
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
                let kind = bits
                    .ue()
                    .and_then(|_first_mb| bits.ue())
                    .map(|kind| kind % 5);
                let intra = kind == Some(2) || kind == Some(4);
                is_b_picture = kind == Some(1);
                // Immediate and exact recovery: all pictures shown from this one on are correct
                // (H.264 D.2.8).
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
    let recovery_frames = recovery.map_or(0, |(frames, _)| frames);
    PictureInfo {
        random_access,
        shown,
        is_b_picture,
        recovery_frames,
        ..PictureInfo::default()
    }
}

/// The user data SEI message of x264 in a packet, in the stream's framing; empty without one.
fn x264_sei(framing: Framing, data: &[u8]) -> Vec<u8> {
    let note = split_nal_units(framing, data)
        .into_iter()
        .find(|unit| is_x264_sei(unit));
    note.map(|note| framing.wrap(note)).unwrap_or_default()
}

fn is_x264_sei(unit: &[u8]) -> bool {
    const USER_DATA_UNREGISTERED: u32 = 5;
    unit.first().is_some_and(|b| b & 31 == 6)
        && parse_sei_messages(unit).iter().any(|(kind, body)| {
            *kind == USER_DATA_UNREGISTERED
                && body
                    .get(16..)
                    .is_some_and(|text| text.starts_with(b"x264 - core"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h264_idr_and_recovery_points_are_distinguished() {
        let look = |data: &[u8]| picture_info(Framing::AnnexB, data).random_access;
        assert_eq!(look(&[0, 0, 1, 0x65, 0x88]), RandomAccessPoint::Closed);
        // SEI 6, size 1: recovery_frame_cnt 0 ('1'), exact_match '1'; then an I slice (first_mb
        // '1', type 7 '0001000').
        assert_eq!(
            look(&[
                0,
                0,
                1,
                6,
                6,
                1,
                0b1100_0100,
                0x80,
                0,
                0,
                1,
                0x61,
                0b1000_1000
            ]),
            RandomAccessPoint::Open
        );
        // recovery_frame_cnt 1 ('010'): recovery is not immediate.
        assert_eq!(
            look(&[
                0,
                0,
                1,
                6,
                6,
                1,
                0b0101_0010,
                0x80,
                0,
                0,
                1,
                0x61,
                0b1000_1000
            ]),
            RandomAccessPoint::Inexact
        );
        assert_eq!(look(&[0, 0, 1, 0x41, 0b1001_1000]), RandomAccessPoint::None);
    }
}
