//! Parses the fields of HEVC parameter sets that are needed to read slice headers up to their
//! references (ITU-T H.265 7.3.2.2, 7.3.2.3, 7.3.4, 7.3.7).

use std::collections::BTreeMap;

use crate::codecs::nal::{BitReader, CROPPED_LEFT_OR_TOP};
use crate::codecs::sample_aspect::parse_vui;

/// A short-term reference picture set: distances in picture order count, first those before in
/// order of distance, then those after; and whether the picture itself may refer to each.
pub(crate) type ReferenceSet = Vec<(i32, bool)>;

/// Maximum number of pictures in a set (7.4.8, A.4.2).
const MAX_REFERENCE_SET: u32 = 16;

/// All parameter sets seen so far.
#[derive(Debug, Default)]
pub(crate) struct ParameterSets {
    sequences: BTreeMap<u32, HevcSps>,
    pictures: BTreeMap<u32, HevcPps>,
}

/// Fields of a sequence parameter set.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HevcSps {
    pub separate_color_planes: bool,
    /// It has a crop offset on the left or top.
    pub crops_left_or_top: bool,
    /// `chroma_format_idc` is 0.
    pub is_gray: bool,
    /// Pictures may precede earlier-decoded ones in presentation order: `sps_max_num_reorder_pics`
    /// is not 0.
    pub reorders: bool,
    /// Number of bits of the order count in a slice header.
    pub poc_lsb_bits: u32,
    pub reference_sets: Vec<ReferenceSet>,
    pub long_term: bool,
    /// It lists long-term pictures that slices may select by index.
    pub long_term_listed: bool,
    pub sample_aspect: Option<(u32, u32)>,
}

/// Fields of a picture parameter set.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HevcPps {
    sequence: u32,
    pub output_flag_present: bool,
    pub extra_slice_header_bits: u32,
}

impl ParameterSets {
    /// Records a NAL unit. A set that cannot be parsed is unknown from then on.
    pub(super) fn insert(&mut self, unit: &[u8]) {
        let Some((head, body)) = unit.split_at_checked(2) else {
            return;
        };
        match head[0] >> 1 & 63 {
            33 => {
                let mut bits = BitReader::new(body);
                let Some(number) = parse_sps_id(&mut bits) else {
                    return self.sequences.clear();
                };
                let layers = u32::from(body[0] >> 1 & 7);
                match parse_sps(&mut bits, layers) {
                    Some(sequence) => drop(self.sequences.insert(number, sequence)),
                    None => drop(self.sequences.remove(&number)),
                }
            }
            34 => {
                let mut bits = BitReader::new(body);
                let Some(number) = bits.ue() else {
                    return self.pictures.clear();
                };
                match parse_pps(&mut bits) {
                    Some(picture) => drop(self.pictures.insert(number, picture)),
                    None => drop(self.pictures.remove(&number)),
                }
            }
            _ => {}
        }
    }

    /// Whether there is at least one known SPS and none of them allows reordering.
    pub(super) fn excludes_reordering(&self) -> bool {
        !self.sequences.is_empty() && self.sequences.values().all(|s| !s.reorders)
    }

    /// Returns the sets that a slice with this `slice_pic_parameter_set_id` refers to.
    pub(super) fn for_slice(&self, number: u32) -> Option<(&HevcSps, &HevcPps)> {
        let picture = self.pictures.get(&number)?;
        Some((self.sequences.get(&picture.sequence)?, picture))
    }
}

fn parse_pps(bits: &mut BitReader) -> Option<HevcPps> {
    let sequence = bits.ue()?;
    bits.bit()?; // dependent_slice_segments_enabled_flag
    Some(HevcPps {
        sequence,
        output_flag_present: bits.bit()? == 1,
        extra_slice_header_bits: bits.take(3)?,
    })
}

/// Parses an SPS after `sps_seq_parameter_set_id`, for a sequence with `layers + 1` temporal
/// layers.
fn parse_sps(bits: &mut BitReader, layers: u32) -> Option<HevcSps> {
    let chroma = bits.ue()?;
    let separate_color_planes = chroma == 3 && bits.bit()? == 1;
    skip_ue_values(bits, 2)?; // size
    let mut crops_left_or_top = false;
    if bits.bit()? == 1 {
        // The conformance window.
        let [left, _right, top, _bottom] = [bits.ue()?, bits.ue()?, bits.ue()?, bits.ue()?];
        crops_left_or_top = (left, top) != (0, 0);
    }
    skip_ue_values(bits, 2)?; // depths
    let poc_lsb_bits = bits.ue()? + 4;
    if poc_lsb_bits > 16 {
        return None;
    }
    let described = if bits.bit()? == 1 { layers + 1 } else { 1 };
    let mut reorders = false;
    for _ in 0..described {
        let [_buffers, reordered, _latency] = [bits.ue()?, bits.ue()?, bits.ue()?];
        reorders |= reordered > 0;
    }
    skip_ue_values(bits, 6)?; // block sizes and depths
    if bits.bit()? == 1 && bits.bit()? == 1 {
        skip_scaling_lists(bits)?;
    }
    bits.skip(2)?;
    if bits.bit()? == 1 {
        bits.skip(4 + 4)?; // PCM
        skip_ue_values(bits, 2)?;
        bits.bit()?;
    }
    let mut reference_sets = Vec::new();
    let count = bits.ue()?;
    if count > 64 {
        return None;
    }
    for _ in 0..count {
        reference_sets.push(parse_reference_set(bits, &reference_sets, false)?);
    }
    let long_term = bits.bit()? == 1;
    let long_term_count = if long_term { bits.ue()? } else { 0 };
    let long_term_listed = long_term_count > 0;
    let sample_aspect = parse_sample_aspect(bits, long_term_count, poc_lsb_bits);
    Some(HevcSps {
        separate_color_planes,
        crops_left_or_top,
        is_gray: chroma == 0,
        reorders,
        poc_lsb_bits,
        reference_sets,
        long_term,
        long_term_listed,
        sample_aspect,
    })
}

/// Parses what follows the number of long-term pictures. `None` too if it cannot be parsed: no
/// slice header needs it.
fn parse_sample_aspect(
    bits: &mut BitReader,
    long_term_count: u32,
    poc_lsb_bits: u32,
) -> Option<(u32, u32)> {
    if long_term_count > 32 {
        return None;
    }
    bits.skip(long_term_count * (poc_lsb_bits + 1))?;
    bits.skip(2)?; // temporal motion vector prediction, smoothing
    parse_vui(bits)
}

/// The sample aspect ratio that a NAL unit states if it is an SPS of the base layer.
pub(crate) fn sps_sample_aspect(unit: &[u8]) -> Option<(u32, u32)> {
    base_layer_sps(unit)?.sample_aspect
}

/// If a NAL unit is an SPS of the base layer: why NVDEC must not be given its pictures. Monochrome:
/// Blackwell decodes the 4:2:2 profiles without it (Video Codec SDK 13.0), which its capabilities do
/// not tell; earlier GPUs do not decode these profiles.
pub(crate) fn sps_nvdec_exclusion(unit: &[u8]) -> Option<&'static str> {
    let sequence = base_layer_sps(unit)?;
    if sequence.crops_left_or_top {
        return Some(CROPPED_LEFT_OR_TOP);
    }
    (sequence.is_gray && is_422_profile(&unit[2..])?)
        .then_some("monochrome pictures in a 4:2:2 profile: NVDEC does not decode it")
}

fn base_layer_sps(unit: &[u8]) -> Option<HevcSps> {
    let (head, body) = unit.split_at_checked(2)?;
    if head[0] >> 1 & 63 != 33 || super::layer(unit) > 0 {
        return None;
    }
    let mut bits = BitReader::new(body);
    parse_sps_id(&mut bits)?;
    parse_sps(&mut bits, u32::from(body[0] >> 1 & 7))
}

/// Whether an SPS has a profile that allows 4:2:2 but not 4:4:4 (A.3.5: `max_422chroma` is set,
/// `max_420chroma` is not). `body`: the NAL unit after its header.
fn is_422_profile(body: &[u8]) -> Option<bool> {
    const RANGE_EXTENSIONS: u32 = 4;
    let mut bits = BitReader::new(body);
    bits.skip(8 + 3)?; // ids and layers; space and tier
    let profile = bits.take(5)?;
    let compatible = bits.take(32)? >> (31 - RANGE_EXTENSIONS) & 1 == 1;
    bits.skip(4 + 3)?; // how pictures are scanned; 12, 10 and 8 bits
    let (max_422, max_420) = (bits.bit()?, bits.bit()?);
    Some((profile == RANGE_EXTENSIONS || compatible) && (max_422, max_420) == (1, 0))
}

/// Skips `n` Exp-Golomb numbers.
fn skip_ue_values(bits: &mut BitReader, n: u32) -> Option<()> {
    (0..n).try_for_each(|_| bits.ue().map(drop))
}

fn skip_scaling_lists(bits: &mut BitReader) -> Option<()> {
    for size in 0..4u32 {
        for _ in 0..if size == 3 { 2 } else { 6 } {
            if bits.bit()? == 0 {
                bits.ue()?; // copied from another list
            } else {
                let level = u32::from(size > 1);
                skip_ue_values(bits, level + (1 << (4 + 2 * size)).min(64))?;
            }
        }
    }
    Some(())
}

/// Parses `st_ref_pic_set`: the one after those `known`, or a slice's own.
pub(crate) fn parse_reference_set(
    bits: &mut BitReader,
    known: &[ReferenceSet],
    in_slice: bool,
) -> Option<ReferenceSet> {
    if !known.is_empty() && bits.bit()? == 1 {
        return parse_predicted_set(bits, known, in_slice);
    }
    let (before, after) = (bits.ue()?, bits.ue()?);
    if before > MAX_REFERENCE_SET || after > MAX_REFERENCE_SET {
        return None;
    }
    let mut out = Vec::new();
    for (count, sign) in [(before, -1), (after, 1)] {
        let mut distance = 0i32;
        for _ in 0..count {
            distance = distance
                .checked_add(i32::try_from(bits.ue()?).ok()?)?
                .checked_add(1)?;
            out.push((sign * distance, bits.bit()? == 1));
        }
    }
    (out.len() <= MAX_REFERENCE_SET as usize).then_some(out)
}

/// Parses a set that is predicted from another one (7-61, 7-62).
fn parse_predicted_set(
    bits: &mut BitReader,
    known: &[ReferenceSet],
    in_slice: bool,
) -> Option<ReferenceSet> {
    let back = if in_slice {
        bits.ue()?.checked_add(1)? as usize
    } else {
        1
    };
    let from = &known[known.len().checked_sub(back)?];
    let negative = bits.bit()? == 1;
    let distance = i32::try_from(bits.ue()?).ok()?.checked_add(1)?;
    let moved = if negative { -distance } else { distance };
    let mut out = Vec::new();
    for distance in from.iter().map(|entry| entry.0).chain([0]) {
        let used = bits.bit()? == 1;
        let kept = used || bits.bit()? == 1;
        let distance = distance.checked_add(moved)?;
        if kept && distance != 0 {
            out.push((distance, used));
        }
    }
    out.sort_by_key(|&(distance, _)| (distance > 0, distance.unsigned_abs()));
    (out.len() <= MAX_REFERENCE_SET as usize).then_some(out)
}

/// `sps_seq_parameter_set_id`, which follows `profile_tier_level` (ITU-T H.265 7.3.2.2, 7.3.3).
/// `bits` begin after the NAL unit header.
pub(super) fn parse_sps_id(bits: &mut BitReader) -> Option<u32> {
    const PROFILE: u32 = 88;
    const LEVEL: u32 = 8;
    bits.take(4)?;
    let layers = bits.take(3)?;
    bits.bit()?;
    bits.skip(PROFILE + LEVEL)?;
    let mut present = Vec::new();
    for _ in 0..layers {
        present.push((bits.bit()?, bits.bit()?));
    }
    if layers > 0 {
        bits.skip(2 * (8 - layers))?;
    }
    for (profile, level) in present {
        bits.skip(profile * PROFILE + level * LEVEL)?;
    }
    bits.ue()
}

#[cfg(test)]
mod tests {
    use super::super::test_headers::{picture_set, sequence as sps, sequence_with_chroma, set};
    use super::*;
    use crate::codecs::nal::test_headers::{bits, ue};

    fn read(reference_sets: &[&str]) -> Option<Vec<ReferenceSet>> {
        let mut sets = ParameterSets::default();
        sets.insert(&sps(reference_sets, true));
        sets.insert(&picture_set(2));
        let (sequence, picture) = sets.for_slice(0)?;
        assert_eq!(
            (
                sequence.poc_lsb_bits,
                sequence.long_term,
                sequence.separate_color_planes
            ),
            (4, true, false)
        );
        assert!(sequence.reorders, "the second number of sps() is 2");
        assert_eq!(
            (picture.extra_slice_header_bits, picture.output_flag_present),
            (2, true)
        );
        Some(sequence.reference_sets.clone())
    }

    #[test]
    fn monochrome_in_a_422_profile_is_excluded_from_nvdec() {
        // Range extensions; of the limits on chroma, those of 4:2:2 or of 4:0:0.
        let excluded = |chroma, max_420: u8| {
            let mut unit = sequence_with_chroma(chroma, &[], false);
            (unit[3], unit[9]) = (4, max_420 << 7);
            sps_nvdec_exclusion(&unit)
        };
        assert!(excluded(0, 0).is_some_and(|reason| reason.contains("monochrome")));
        assert_eq!(excluded(0, 1), None, "a monochrome profile");
        assert_eq!(excluded(1, 0), None, "4:2:0");
        let of_second_layer = |mut unit: Vec<u8>| {
            unit[1] |= 1 << 3;
            unit
        };
        let unit = of_second_layer(sequence_with_chroma(0, &[], false));
        assert_eq!(
            (sps_nvdec_exclusion(&unit), sps_sample_aspect(&unit)),
            (None, None)
        );
    }

    #[test]
    fn sps_after_scaling_lists_is_parsed() {
        let first = set(true, &[(1, true), (3, false)], &[(2, true)]);
        let second = set(false, &[(8, true)], &[]);
        let expected = [vec![(-1, true), (-3, false), (2, true)], vec![(-8, true)]];
        assert_eq!(read(&[&first, &second]).expect("read"), expected);
        assert!(read(&[]).expect("read").is_empty());
    }

    #[test]
    fn reference_set_may_be_predicted() {
        let first = set(true, &[(1, true), (3, true)], &[(2, true)]);
        // Shifted by -1: -2, -4, 1 and -1 itself; of these -4 is kept for other pictures only, 1 is
        // dropped.
        let moved = ["1 1", &ue(0), "1", "0 1", "0 0", "1"].concat();
        let expected = vec![(-1, true), (-2, true), (-4, false)];
        assert_eq!(read(&[&first, &moved]).expect("read")[1], expected);
        // Shifted by 1, an entry at the picture itself is dropped. In a slice, predicted from the
        // set before the last.
        let known = [vec![(-1, true), (-3, true)], vec![]];
        let data = bits(&["1", &ue(1), "0", &ue(0), "1 1 1"].concat());
        assert_eq!(
            parse_reference_set(&mut BitReader::new(&data), &known, true),
            Some(vec![(-2, true), (1, true)])
        );
    }

    #[test]
    fn out_of_bounds_values_are_not_read() {
        assert_eq!(
            read(&[&set(
                true,
                &(1..=17).map(|n| (n, true)).collect::<Vec<_>>(),
                &[]
            )]),
            None
        );
        let beyond = bits(&["1", &ue(5), "0", &ue(0), "1"].concat());
        assert_eq!(
            parse_reference_set(&mut BitReader::new(&beyond), &[vec![]], true),
            None
        );
        assert_eq!(
            parse_reference_set(&mut BitReader::new(&[0, 0]), &[], false),
            None
        );
    }
}
