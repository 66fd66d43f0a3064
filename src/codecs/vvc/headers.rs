//! Parses VVC parameter sets and picture headers up to the picture order count (ITU-T H.266 7.3.2.4,
//! 7.3.2.5, 7.3.2.8).

use std::collections::BTreeMap;

use super::{NalHeader, nal_type};
use crate::codecs::nal::BitReader;

/// Fields of a sequence parameter set on which picture headers depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sps {
    poc_lsb_bits: u32,
    /// Bits of `ph_poc_msb_cycle_val`; `None` if it does not occur.
    poc_msb_cycle_bits: Option<u32>,
    num_extra_bits: u32,
}

/// Parameter sets by id.
#[derive(Default)]
pub(super) struct HeaderSets {
    sps_by_id: BTreeMap<u32, Sps>,
    sps_id_by_pps: BTreeMap<u32, u32>,
}

/// Fields of a picture header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PictureHeader {
    pub is_non_reference: bool,
    pub poc_lsb: u32,
    pub poc_lsb_bits: u32,
    pub poc_msb_cycle: Option<u32>,
    /// `ph_recovery_poc_cnt`.
    pub recovery_count: u32,
}

impl HeaderSets {
    /// Records a parameter set.
    pub(super) fn insert(&mut self, unit: &[u8]) {
        let Some(header) = NalHeader::parse(unit) else {
            return;
        };
        let mut bits = BitReader::new(&unit[2..]);
        match header.kind {
            nal_type::SPS => {
                if let Some(id) = bits.take(4) {
                    match parse_sps(&mut bits) {
                        Some(sps) => drop(self.sps_by_id.insert(id, sps)),
                        None => drop(self.sps_by_id.remove(&id)),
                    }
                }
            }
            nal_type::PPS => {
                if let Some((pps, sps)) = bits.take(6).zip(bits.take(4)) {
                    self.sps_id_by_pps.insert(pps, sps);
                }
            }
            _ => {}
        }
    }

    /// The picture header in a unit: one of its own, or in a slice header.
    pub(super) fn picture_header(&self, unit: &[u8]) -> Option<PictureHeader> {
        let mut bits = picture_header_bits(unit)?;
        let beginning = skip_to_pps_id(&mut bits)?;
        let sps = self
            .sps_by_id
            .get(self.sps_id_by_pps.get(&beginning.pps_id)?)?;
        let poc_lsb = bits.take(sps.poc_lsb_bits)?;
        let recovery_count = match beginning.is_gdr {
            true => bits.ue()?,
            false => 0,
        };
        bits.skip(sps.num_extra_bits)?;
        let poc_msb_cycle = match sps.poc_msb_cycle_bits {
            Some(length) if bits.bit()? == 1 => Some(bits.take(length)?),
            _ => None,
        };
        Some(PictureHeader {
            is_non_reference: beginning.is_non_reference,
            poc_lsb,
            poc_lsb_bits: sps.poc_lsb_bits,
            poc_msb_cycle,
            recovery_count,
        })
    }
}

/// The picture header in a unit, if it has one.
pub(super) fn picture_header_bits(unit: &[u8]) -> Option<BitReader<'_>> {
    let header = NalHeader::parse(unit)?;
    let mut bits = BitReader::new(&unit[2..]);
    if header.kind == nal_type::PICTURE_HEADER {
        return Some(bits);
    }
    // sh_picture_header_in_slice_header_flag
    (header.is_slice() && bits.bit()? == 1).then_some(bits)
}

/// Beginning of a picture header.
pub(super) struct Beginning {
    is_gdr: bool,
    pub is_non_reference: bool,
    pub pps_id: u32,
}

/// Reads a picture header up to `ph_pic_parameter_set_id`.
pub(super) fn skip_to_pps_id(bits: &mut BitReader) -> Option<Beginning> {
    let is_random_access = bits.bit()? == 1;
    let is_non_reference = bits.bit()? == 1;
    let is_gdr = is_random_access && bits.bit()? == 1;
    if bits.bit()? == 1 {
        bits.bit()?; // ph_intra_slice_allowed_flag
    }
    Some(Beginning {
        is_gdr,
        is_non_reference,
        pps_id: bits.ue()?,
    })
}

/// Parses an SPS after its id. Returns `None` if it is damaged.
fn parse_sps(bits: &mut BitReader) -> Option<Sps> {
    bits.skip(4)?; // sps_video_parameter_set_id
    let max_sublayers = bits.take(3)? + 1;
    bits.skip(2)?; // sps_chroma_format_idc
    let log2_ctu = bits.take(2)? + 5;
    if bits.bit()? == 1 {
        skip_profile_tier_level(bits, max_sublayers)?;
    }
    bits.bit()?; // sps_gdr_enabled_flag
    if bits.bit()? == 1 {
        bits.bit()?; // sps_res_change_in_clvs_allowed_flag
    }
    let (width, height) = (bits.ue()?, bits.ue()?);
    if bits.bit()? == 1 {
        for _window in 0..4 {
            bits.ue()?;
        }
    }
    if bits.bit()? == 1 {
        skip_subpictures(bits, (width, height), log2_ctu)?;
    }
    bits.ue()?; // sps_bitdepth_minus8
    bits.skip(1 + 1)?; // sps_entropy_coding_sync_enabled_flag, sps_entry_point_offsets_present_flag
    let poc_lsb_bits = bits.take(4)? + 4;
    if poc_lsb_bits > 16 {
        return None;
    }
    let poc_msb_cycle_bits = match bits.bit()? {
        1 => Some(bits.ue()?.checked_add(1).filter(|&length| length <= 28)?),
        _ => None,
    };
    let mut num_extra_bits = 0;
    for _byte in 0..bits.take(2)? {
        num_extra_bits += bits.take(8)?.count_ones();
    }
    Some(Sps {
        poc_lsb_bits,
        poc_msb_cycle_bits,
        num_extra_bits,
    })
}

/// `profile_tier_level` (7.3.3.1), which begins at a byte.
fn skip_profile_tier_level(bits: &mut BitReader, max_sublayers: u32) -> Option<()> {
    bits.skip(7 + 1 + 8 + 1 + 1)?; // profile, tier, level, frame only, multilayer
    // general_constraints_info: 71 flags, and those reserved for later versions.
    let mut used = 18 + 1;
    if bits.bit()? == 1 {
        bits.skip(71)?;
        let reserved = bits.take(8)?;
        bits.skip(reserved)?;
        used += 71 + 8 + reserved;
    }
    bits.skip((8 - used % 8) % 8)?;
    let sublayers = max_sublayers - 1;
    let mut levels = 0;
    for _sublayer in 0..sublayers {
        levels += bits.bit()?;
    }
    bits.skip((8 - sublayers % 8) % 8)?;
    bits.skip(8 * levels)?;
    let sub_profiles = bits.take(8)?;
    bits.skip(32 * sub_profiles)
}

/// The layout of subpictures (7.3.2.4), after `sps_subpic_info_present_flag`.
fn skip_subpictures(bits: &mut BitReader, size: (u32, u32), log2_ctu: u32) -> Option<()> {
    const MAX_SUBPICTURES: u32 = 1 << 16;
    let count = bits
        .ue()?
        .checked_add(1)
        .filter(|&n| n <= MAX_SUBPICTURES)?;
    if count > 1 {
        let independent = bits.bit()? == 1;
        let same_size = bits.bit()? == 1;
        let ctu = 1u32 << log2_ctu;
        // Bits of a position, or none if there is only one.
        let position = |side: u32| match side > ctu {
            true => u32::BITS - (side.div_ceil(ctu) - 1).leading_zeros(),
            false => 0,
        };
        let (across, down) = (position(size.0), position(size.1));
        for n in 0..count {
            if n == 0 || !same_size {
                if n > 0 {
                    bits.skip(across + down)?;
                }
                if n + 1 < count {
                    bits.skip(across + down)?;
                }
            }
            if !independent {
                bits.skip(2)?;
            }
        }
    }
    let id_bits = bits.ue()?.checked_add(1).filter(|&length| length <= 16)?;
    if bits.bit()? == 1 && bits.bit()? == 1 {
        for _subpicture in 0..count {
            bits.skip(id_bits)?;
        }
    }
    Some(())
}
