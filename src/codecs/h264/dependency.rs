//! Finds H.264 packets that hold exactly one non-reference frame and nothing that affects later
//! packets. `nal_ref_idc` 0 affects no frame number, picture order count or reference list (H.264
//! 7.4.3, 8.2). Fields, and streams whose output order libavcodec has to guess, have no disposable
//! pictures.

mod frame_num;

pub(crate) use frame_num::FrameNumTracker;

use std::collections::BTreeMap;

use crate::codecs::codec::PacketDependencyParser;
use crate::codecs::h264::H264;
use crate::codecs::nal::{BitReader, Framing, parse_sei_messages, split_nal_units, unescape_rbsp};
use crate::codecs::nal::{CROPPED_LEFT_OR_TOP, config_nal_units};
use crate::codecs::picture_info::Dependency;
use crate::codecs::sample_aspect::parse_vui;

/// Fields of a sequence parameter set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct H264Sps {
    frame_num_bits: u32,
    separate_planes: bool,
    frames_only: bool,
    /// It has a crop offset on the left or top.
    crops_left_or_top: bool,
    /// Macroblocks of its frames may be of frames or fields (MBAFF), in a profile with more than 8
    /// bits or 4:2:2.
    mbaff_above_high: bool,
    /// `gaps_in_frame_num_value_allowed_flag`: frames may already be missing, and how a decoder
    /// conceals them depends on the pictures it has decoded.
    gaps: bool,
    /// Output order equals decode order, or the stream declares its reorder depth. Otherwise
    /// libavcodec infers the depth from the pictures it decodes, and would output too early if some
    /// were omitted.
    reorder_depth_declared: bool,
    sample_aspect: Option<(u32, u32)>,
}

pub(crate) struct H264DependencyParser {
    framing: Framing,
    sps_by_id: BTreeMap<u32, H264Sps>,
    /// Picture parameter set id → sequence parameter set id.
    sps_id_by_pps: BTreeMap<u32, u32>,
    /// Decoders are given the reorder depth, regardless of what the stream declares.
    reorder_depth_known: bool,
}

impl H264DependencyParser {
    pub(super) fn new(extradata: &[u8], reorder_depth_known: bool) -> Self {
        let framing = Framing::detect(&H264, extradata);
        let mut this = Self {
            framing,
            sps_by_id: BTreeMap::new(),
            sps_id_by_pps: BTreeMap::new(),
            reorder_depth_known,
        };
        for unit in config_nal_units(&H264, framing, extradata) {
            this.insert_if_parameter_set(unit);
        }
        this
    }

    /// Whether there is at least one known sequence and all of them declare their reorder depth.
    pub(super) fn declares_reorder_depth(&self) -> bool {
        !self.sps_by_id.is_empty() && self.sps_by_id.values().all(|s| s.reorder_depth_declared)
    }

    /// Whether there is at least one known sequence and all of them consist of frames.
    pub(super) fn declares_frames_only(&self) -> bool {
        !self.sps_by_id.is_empty() && self.sps_by_id.values().all(|s| s.frames_only)
    }

    fn allows_skipping(&self, sequence: &H264Sps) -> bool {
        (sequence.reorder_depth_declared || self.reorder_depth_known) && !sequence.gaps
    }

    /// First macroblock of a slice, if it belongs to a frame of a stream that allows omitting
    /// pictures.
    fn first_mb_of_frame(&self, unit: &[u8]) -> Option<u32> {
        let mut bits = BitReader::new(unit.get(1..)?);
        let first_mb = bits.ue()?;
        let _slice_type = bits.ue()?;
        let sequence = self.sps_by_id.get(self.sps_id_by_pps.get(&bits.ue()?)?)?;
        if !self.allows_skipping(sequence) {
            return None;
        }
        if !sequence.frames_only {
            bits.skip(if sequence.separate_planes { 2 } else { 0 })?;
            bits.skip(sequence.frame_num_bits)?;
            if bits.bit()? == 1 {
                return None; // a field
            }
        }
        Some(first_mb)
    }

    /// Records a NAL unit if it is a parameter set; returns whether it is one.
    fn insert_if_parameter_set(&mut self, unit: &[u8]) -> bool {
        match unit.first().map(|b| b & 31) {
            Some(7) => {
                match parse_sps(&unit[1..]) {
                    Some((number, sequence)) => drop(self.sps_by_id.insert(number, sequence)),
                    None => self.sps_by_id.clear(), // which set it replaces is unknown
                }
                true
            }
            Some(8) => {
                let mut bits = BitReader::new(&unit[1..]);
                match bits.ue().zip(bits.ue()) {
                    Some((number, sequence)) => drop(self.sps_id_by_pps.insert(number, sequence)),
                    None => self.sps_id_by_pps.clear(),
                }
                true
            }
            _ => false,
        }
    }
}

impl PacketDependencyParser for H264DependencyParser {
    fn parse(&mut self, data: &[u8]) -> Option<Dependency> {
        let units = split_nal_units(self.framing, data);
        // Parameter sets first: a slice may refer to one in its own packet.
        let sets = units
            .iter()
            .filter(|unit| self.insert_if_parameter_set(unit))
            .count();
        if sets > 0 {
            return None;
        }
        let (mut references, mut next_mb) = (0, None);
        for unit in units {
            match unit[0] & 31 {
                1 => {
                    references += u32::from(unit[0] >> 5 & 3 != 0);
                    let first_mb = self.first_mb_of_frame(unit)?;
                    // Slices in order, starting at macroblock 0: exactly one picture, with its
                    // beginning.
                    if next_mb.map_or(first_mb != 0, |least| first_mb < least) {
                        return None;
                    }
                    next_mb = Some(first_mb + 1);
                }
                6 if is_persistent_sei(unit) => return None,
                6 | 9 | 12 => {}
                _ => return None,
            }
        }
        next_mb?;
        Some(if references > 0 {
            Dependency::Reference { layer: 0 }
        } else {
            Dependency::Disposable { layer: 0 }
        })
    }

    fn may_have_disposable(&self) -> bool {
        self.sps_by_id.is_empty() || self.sps_by_id.values().any(|s| self.allows_skipping(s))
    }
}

/// If a NAL unit is an SPS: why NVDEC must not be given its pictures. MBAFF: Blackwell decodes these
/// profiles without it (Video Codec SDK 13.0), which its capabilities do not tell; earlier GPUs do not
/// decode these profiles.
pub(crate) fn sps_nvdec_exclusion(unit: &[u8]) -> Option<&'static str> {
    unit.first().filter(|&head| head & 31 == 7)?;
    let (_, sequence) = parse_sps(&unit[1..])?;
    if sequence.crops_left_or_top {
        return Some(CROPPED_LEFT_OR_TOP);
    }
    sequence
        .mbaff_above_high
        .then_some("MBAFF in a profile with 10 bit or 4:2:2: NVDEC does not decode it")
}

/// The sample aspect ratio that a NAL unit states if it is an SPS.
pub(crate) fn sps_sample_aspect(unit: &[u8]) -> Option<(u32, u32)> {
    let is_set = unit.first().is_some_and(|head| head & 31 == 7);
    parse_sps(unit.get(1..).filter(|_| is_set)?)?
        .1
        .sample_aspect
}

/// Whether an SEI message affects later pictures: a recovery point, from which libavcodec outputs
/// pictures. libavcodec discards all other messages with their packet.
fn is_persistent_sei(unit: &[u8]) -> bool {
    parse_sei_messages(&unescape_rbsp(unit))
        .iter()
        .any(|(kind, _)| *kind == 6)
}

/// Parses the id and the fields of a sequence parameter set (H.264 7.3.2.1.1, E.1.1).
fn parse_sps(body: &[u8]) -> Option<(u32, H264Sps)> {
    const WITH_CHROMA: [u32; 13] = [100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135];
    const HIGH_10: u32 = 110;
    const HIGH_422: u32 = 122;
    let mut bits = BitReader::new(body);
    let profile = bits.take(8)?;
    bits.skip(16)?;
    let number = bits.ue()?;
    let mut separate_planes = false;
    let mut is_above_high = matches!(profile, HIGH_10 | HIGH_422);
    if WITH_CHROMA.contains(&profile) {
        let chroma = bits.ue()?;
        separate_planes = chroma == 3 && bits.bit()? == 1;
        let (luma_depth, chroma_depth) = (bits.ue()?, bits.ue()?);
        is_above_high |= chroma == 2 || luma_depth > 0 || chroma_depth > 0;
        bits.bit()?;
        if bits.bit()? == 1 {
            for list in 0..if chroma == 3 { 12 } else { 8 } {
                if bits.bit()? == 1 {
                    skip_scaling_list(&mut bits, if list < 6 { 16 } else { 64 })?;
                }
            }
        }
    }
    let frame_num_bits = bits.ue()?.checked_add(4).filter(|n| *n <= 16)?;
    let order_type = bits.ue()?;
    match order_type {
        0 => drop(bits.ue()?),
        1 => {
            bits.bit()?;
            bits.ue()?; // signed numbers have the same length as unsigned ones
            bits.ue()?;
            for _ in 0..bits.ue()?.min(255) {
                bits.ue()?;
            }
        }
        _ => {}
    }
    bits.ue()?; // reference frames
    let gaps = bits.bit()? == 1;
    bits.ue()?; // width
    bits.ue()?; // and height
    let frames_only = bits.bit()? == 1;
    let mbaff_above_high = !frames_only && bits.bit()? == 1 && is_above_high;
    bits.bit()?;
    let mut crops_left_or_top = false;
    if bits.bit()? == 1 {
        let [left, _right, top, _bottom] = [bits.ue()?, bits.ue()?, bits.ue()?, bits.ue()?];
        crops_left_or_top = (left, top) != (0, 0);
    }
    let sample_aspect = parse_vui(&mut bits.clone());
    let reorder_depth_declared =
        order_type == 2 || (bits.bit()? == 1 && declares_reorder_depth(&mut bits)?);
    let sequence = H264Sps {
        frame_num_bits,
        separate_planes,
        frames_only,
        crops_left_or_top,
        mbaff_above_high,
        gaps,
        reorder_depth_declared,
        sample_aspect,
    };
    Some((number, sequence))
}

fn skip_scaling_list(bits: &mut BitReader, size: u32) -> Option<()> {
    let (mut last, mut next) = (8i64, 8i64);
    for _ in 0..size {
        if next != 0 {
            let code = i64::from(bits.ue()?);
            let delta = if code & 1 == 1 {
                (code + 1) / 2
            } else {
                -(code / 2)
            };
            next = (last + delta).rem_euclid(256);
        }
        if next != 0 {
            last = next;
        }
    }
    Some(())
}

/// Reads `bitstream_restriction_flag` of the VUI parameters.
fn declares_reorder_depth(bits: &mut BitReader) -> Option<bool> {
    const EXTENDED_ASPECT: u32 = 255;
    if bits.bit()? == 1 && bits.take(8)? == EXTENDED_ASPECT {
        bits.skip(32)?;
    }
    if bits.bit()? == 1 {
        bits.bit()?; // overscan
    }
    if bits.bit()? == 1 {
        bits.skip(4)?; // video signal
        if bits.bit()? == 1 {
            bits.skip(24)?;
        }
    }
    if bits.bit()? == 1 {
        bits.ue()?; // chroma location
        bits.ue()?;
    }
    if bits.bit()? == 1 {
        bits.skip(65)?; // timing
    }
    let mut buffers = 0;
    for _ in 0..2 {
        let present = bits.bit()?;
        buffers += present;
        if present == 1 {
            let count = bits.ue()?.min(31) + 1;
            bits.skip(8)?;
            for _ in 0..count {
                bits.ue()?;
                bits.ue()?;
                bits.bit()?;
            }
            bits.skip(20)?;
        }
    }
    if buffers > 0 {
        bits.bit()?;
    }
    bits.bit()?; // pic_struct_present
    Some(bits.bit()? == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codecs::nal::test_headers::{bits, ue};

    /// Fields of the sequence parameter set in these tests.
    #[derive(Clone, Copy)]
    pub(super) struct Says {
        pub frames_only: bool,
        pub gaps: bool,
        pub reorder_depth_declared: bool,
        /// The cropping flag, followed by left, right, top and bottom.
        pub crop: &'static str,
    }

    pub(super) const PLAIN: Says = Says {
        frames_only: true,
        gaps: false,
        reorder_depth_declared: true,
        crop: "0",
    };

    /// High profile with a scaling list, order type 0, 64x64, and VUI parameters with timing and
    /// HRD parameters.
    pub(super) fn sequence_set(says: Says) -> Vec<u8> {
        let chroma = ["010 1 1 0 1", "1", &ue(3), &"1".repeat(15), "0000000"].concat();
        let size = [
            ue(0),
            ue(0),
            ue(2),
            ue(4),
            u8::from(says.gaps).to_string(),
            ue(3),
            ue(3),
        ]
        .concat();
        let frames = if says.frames_only { "1" } else { "01" };
        let buffers = [
            "1",
            &ue(0),
            "00000000",
            &ue(5),
            &ue(6),
            "0",
            &"0".repeat(20),
        ]
        .concat();
        let usage = [
            "1",
            "1 11111111",
            &"0".repeat(32),
            "0 0 0",
            "1",
            &"0".repeat(65),
        ]
        .concat();
        let restriction = if says.reorder_depth_declared {
            "1"
        } else {
            "0"
        };
        let body = [
            &chroma,
            &size,
            frames,
            "1",
            says.crop,
            &usage,
            &buffers,
            "0 0 0",
            restriction,
            "1111111 1",
        ]
        .concat();
        let body = bits(&["01100100", &"0".repeat(16), &ue(0), &body].concat());
        [
            &[0, 0, 1, 0x67],
            &escaped(&body)[..],
            &[0, 0, 1, 0x68],
            &bits(&[ue(0), ue(0)].concat()),
        ]
        .concat()
    }

    fn escaped(body: &[u8]) -> Vec<u8> {
        let mut out: Vec<u8> = Vec::new();
        for &byte in body {
            if byte <= 3 && out.ends_with(&[0, 0]) {
                out.push(3);
            }
            out.push(byte);
        }
        out
    }

    /// A slice of a non-reference picture (`first_mb`, type 1, PPS id 0, frame number 1 in four
    /// bits, …).
    pub(super) fn slice(first_mb: u32, head: u8, field: bool) -> Vec<u8> {
        let field = if field { "11" } else { "01" };
        let body = bits(&[&ue(first_mb), &ue(1), &ue(0), "0001", field, "11111111"].concat());
        [&[0, 0, 1, head], &body[..]].concat()
    }

    fn dependency(says: Says, packet: &[Vec<u8>]) -> Option<Dependency> {
        H264DependencyParser::new(&sequence_set(says), false).parse(&packet.concat())
    }

    const DISPOSABLE: Option<Dependency> = Some(Dependency::Disposable { layer: 0 });
    const REFERENCE: Option<Dependency> = Some(Dependency::Reference { layer: 0 });

    #[test]
    fn mbaff_in_profiles_above_high_is_excluded_from_nvdec() {
        let frames_only = |frames_only| {
            sequence_set(Says {
                frames_only,
                ..PLAIN
            })
        };
        let excluded = |mut packet: Vec<u8>, profile: u8| {
            packet[4] = profile;
            let units = split_nal_units(Framing::AnnexB, &packet);
            units.into_iter().find_map(sps_nvdec_exclusion)
        };
        for (profile, is_excluded) in [(100, false), (110, true), (122, true)] {
            assert_eq!(excluded(frames_only(true), profile), None, "{profile}");
            let reason = excluded(frames_only(false), profile);
            assert_eq!(
                reason.is_some_and(|r| r.contains("MBAFF")),
                is_excluded,
                "{profile}"
            );
        }
    }

    #[test]
    fn left_and_right_crops_are_distinguished() {
        for (crop, begin) in [
            ("1 1 010 1 010", false),
            ("1 010 1 1 1", true),
            ("1 1 1 011 1", true),
        ] {
            let parser = H264DependencyParser::new(&sequence_set(Says { crop, ..PLAIN }), false);
            assert_eq!(
                (
                    parser.sps_by_id[&0].crops_left_or_top,
                    parser.declares_reorder_depth()
                ),
                (begin, true),
                "{crop}"
            );
        }
    }

    #[test]
    fn sps_is_read_to_its_last_flag() {
        for says in [
            PLAIN,
            Says {
                reorder_depth_declared: false,
                ..PLAIN
            },
            Says {
                frames_only: false,
                ..PLAIN
            },
        ] {
            let set = sequence_set(says);
            let parser = H264DependencyParser::new(&set, false);
            let read = parser.sps_by_id[&0];
            assert_eq!(
                (read.frames_only, read.reorder_depth_declared),
                (says.frames_only, says.reorder_depth_declared)
            );
            assert_eq!(
                (read.frame_num_bits, read.gaps, read.separate_planes),
                (4, false, false)
            );
        }
    }

    #[test]
    fn unreferenced_frame_is_disposable() {
        assert_eq!(dependency(PLAIN, &[slice(0, 0x01, false)]), DISPOSABLE);
        assert_eq!(
            dependency(
                PLAIN,
                &[
                    vec![0, 0, 1, 9, 0xf0],
                    slice(0, 1, false),
                    slice(8, 1, false)
                ]
            ),
            DISPOSABLE
        );
        assert_eq!(dependency(PLAIN, &[slice(0, 0x21, false)]), REFERENCE);
        assert_eq!(
            dependency(PLAIN, &[slice(0, 0x01, false), slice(8, 0x41, false)]),
            REFERENCE
        );
        assert_eq!(
            dependency(
                Says {
                    frames_only: false,
                    ..PLAIN
                },
                &[slice(0, 0x01, false)]
            ),
            DISPOSABLE
        );
    }

    #[test]
    fn packet_of_several_frames_is_not_disposable() {
        assert_eq!(
            dependency(
                Says {
                    frames_only: false,
                    ..PLAIN
                },
                &[slice(0, 0x01, true)]
            ),
            None,
            "a field"
        );
        for (why, packet) in [
            ("an IDR picture", vec![slice(0, 0x65, false)]),
            ("data partitions", vec![slice(0, 0x02, false)]),
            (
                "another view",
                vec![slice(0, 0x01, false), slice(0, 0x14, false)],
            ),
            (
                "an end of sequence",
                vec![slice(0, 0x01, false), vec![0, 0, 1, 10]],
            ),
            (
                "two pictures",
                vec![slice(0, 0x01, false), slice(0, 0x01, false)],
            ),
            ("no first slice", vec![slice(8, 0x01, false)]),
            ("no slice", vec![vec![0, 0, 1, 9, 0xf0]]),
            (
                "a recovery point",
                vec![vec![0, 0, 1, 6, 6, 1, 0xc4, 0x80], slice(0, 0x01, false)],
            ),
            (
                "a parameter set",
                vec![vec![0, 0, 1, 0x68, 0xc0], slice(0, 0x01, false)],
            ),
        ] {
            assert_eq!(dependency(PLAIN, &packet), None, "{why}");
        }
    }

    #[test]
    fn guessed_output_order_or_gaps_drop_nothing() {
        for says in [
            Says {
                reorder_depth_declared: false,
                ..PLAIN
            },
            Says {
                gaps: true,
                ..PLAIN
            },
        ] {
            let mut parser = H264DependencyParser::new(&sequence_set(says), false);
            assert!(!parser.may_have_disposable());
            assert_eq!(parser.parse(&slice(0, 0x01, false)), None);
        }
        let silent = sequence_set(Says {
            reorder_depth_declared: false,
            ..PLAIN
        });
        let mut given = H264DependencyParser::new(&silent, true);
        assert!(given.may_have_disposable() && !given.declares_reorder_depth());
        assert_eq!(given.parse(&slice(0, 0x01, false)), DISPOSABLE);
    }

    #[test]
    fn in_band_parameter_sets_are_recorded() {
        let mut parser = H264DependencyParser::new(&[], false);
        assert!(parser.may_have_disposable());
        assert_eq!(parser.parse(&slice(0, 0x01, false)), None);
        assert_eq!(parser.parse(&sequence_set(PLAIN)), None);
        assert_eq!(parser.parse(&slice(0, 0x01, false)), DISPOSABLE);
        // A set that cannot be parsed may have replaced the one in force.
        assert_eq!(parser.parse(&[0, 0, 1, 0x67, 100]), None);
        assert_eq!(parser.parse(&slice(0, 0x01, false)), None);
    }
}
