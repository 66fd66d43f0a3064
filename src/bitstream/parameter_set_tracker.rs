//! Tracks the H.264/HEVC parameter sets in force at each random access point. A point without sets
//! of its own needs the in-band sets before it. Of the sets, only the ids are parsed.

use std::collections::BTreeMap;

use super::nal::{BitReader, Framing, split_nal_units};
use crate::media::{CodecKind, CodecParams};

/// (NAL unit type, parameter set id). Its order puts sets before those that refer to them.
type ParameterSetId = (u8, u32);

/// Whether a packet replaces a parameter set of its stream's configuration, which a decoder that
/// has seen it then uses. Only for streams with length prefixes: for others the index has seen
/// every packet.
pub(crate) fn replaces_parameter_sets(params: &CodecParams, data: &[u8]) -> bool {
    let hevc = match params.codec.kind {
        CodecKind::H264 => false,
        CodecKind::Hevc => true,
        _ => return false,
    };
    let framing = Framing::detect(hevc, &params.extradata);
    let is_set = |unit: &&[u8]| match hevc {
        true => matches!(unit[0] >> 1 & 63, 32..=34),
        false => matches!(unit[0] & 31, 7 | 8),
    };
    if framing == Framing::AnnexB || !split_nal_units(framing, data).iter().any(is_set) {
        return false;
    }
    let Some(mut sets) = ParameterSetTracker::new(params.codec.kind, &params.extradata) else {
        return false;
    };
    sets.observe(data);
    sets.changed()
}

/// Parameter sets in force at the current packet of a stream.
pub(crate) struct ParameterSetTracker {
    hevc: bool,
    framing: Framing,
    configured: BTreeMap<ParameterSetId, Vec<u8>>,
    current: BTreeMap<ParameterSetId, Vec<u8>>,
    changed: bool,
    in_band: bool,
    /// A packet contained a slice.
    has_slices: bool,
    /// A set came after the first slice that decoding from an earlier packet does not know.
    late: bool,
}

impl ParameterSetTracker {
    /// Returns `None` for codecs without parameter sets.
    pub fn new(kind: CodecKind, extradata: &[u8]) -> Option<Self> {
        let hevc = match kind {
            CodecKind::H264 => false,
            CodecKind::Hevc => true,
            _ => return None,
        };
        let framing = Framing::detect(hevc, extradata);
        let (configured, current) = (BTreeMap::new(), BTreeMap::new());
        let mut this = Self {
            hevc,
            framing,
            configured,
            current,
            changed: false,
            in_band: false,
            has_slices: false,
            late: false,
        };
        for unit in config_nal_units(hevc, framing, extradata) {
            if let Some(name) = this.id_of(unit) {
                this.configured.insert(name, unit.to_vec());
            }
        }
        this.current = this.configured.clone();
        Some(this)
    }

    /// Returns the sets in force before the next packet that the configuration does not contain.
    pub fn not_in_config(&self) -> Vec<u8> {
        let unsaid = self
            .current
            .iter()
            .filter(|(name, unit)| self.configured.get(name) != Some(unit));
        unsaid
            .flat_map(|(_, unit)| self.framing.wrap(unit))
            .collect()
    }

    /// Records the sets in a packet.
    pub fn observe(&mut self, data: &[u8]) {
        for unit in split_nal_units(self.framing, data) {
            let Some(name) = self.id_of(unit) else {
                let used = self.pps_of_slice(unit);
                self.has_slices |= used.is_some();
                self.in_band |= used.is_some_and(|name| !self.current.contains_key(&name));
                continue;
            };
            self.in_band = true;
            match self.current.get(&name) {
                Some(known) if known == unit => {}
                known => {
                    self.changed |= known.is_some();
                    self.late |= self.has_slices;
                    self.current.insert(name, unit.to_vec());
                }
            }
        }
    }

    /// Whether a set was replaced by a different one with the same id: then the sets that a decoder
    /// keeps from elsewhere in the stream are wrong here.
    pub fn changed(&self) -> bool {
        self.changed
    }

    /// Whether the sets that a decoder keeps depend on which part of the stream it has decoded.
    pub fn is_changing(&self) -> bool {
        self.changed || self.late
    }

    /// Whether any packet contained a set, or refers to one that only a packet not seen here can
    /// contain.
    pub fn has_in_band(&self) -> bool {
        self.in_band
    }

    /// Whether there is a set of each kind that decoding a slice requires: an SPS and a PPS.
    pub fn is_complete(&self) -> bool {
        let needed = if self.hevc { [33, 34] } else { [7, 8] };
        needed
            .iter()
            .all(|kind| self.current.keys().any(|name| name.0 == *kind))
    }

    /// The PPS that a slice refers to (H.264 7.3.3, HEVC 7.3.6.1).
    fn pps_of_slice(&self, unit: &[u8]) -> Option<ParameterSetId> {
        let first = *unit.first()?;
        if self.hevc {
            let kind = first >> 1 & 63;
            let mut bits = BitReader::new(unit.get(2..).filter(|_| kind < 32)?);
            bits.bit()?; // first_slice_segment_in_pic_flag
            if (16..24).contains(&kind) {
                bits.bit()?;
            }
            return Some((34, bits.ue()?));
        }
        let mut bits = BitReader::new(
            unit.get(1..)
                .filter(|_| [1, 2, 5].contains(&(first & 31)))?,
        );
        bits.ue()?; // first_mb_in_slice
        bits.ue()?; // slice_type
        Some((8, bits.ue()?))
    }

    fn id_of(&self, unit: &[u8]) -> Option<ParameterSetId> {
        let first = *unit.first()?;
        if self.hevc {
            let kind = first >> 1 & 63;
            let mut bits = BitReader::new(unit.get(2..)?);
            let number = match kind {
                32 => bits.take(4)?,
                33 => parse_sps_id(&mut bits)?,
                34 => bits.ue()?,
                _ => return None,
            };
            return Some((kind, number));
        }
        let kind = first & 31;
        let number = match kind {
            7 => {
                let mut bits = BitReader::new(unit.get(4..)?);
                bits.ue()?
            }
            8 => BitReader::new(unit.get(1..)?).ue()?,
            _ => return None,
        };
        Some((kind, number))
    }
}

/// `sps_seq_parameter_set_id`, which follows `profile_tier_level` (ITU-T H.265 7.3.2.2, 7.3.3).
/// `bits` begin after the NAL unit header.
pub(crate) fn parse_sps_id(bits: &mut BitReader) -> Option<u32> {
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

/// The NAL units of a configuration in either form.
pub(crate) fn config_nal_units(hevc: bool, framing: Framing, extradata: &[u8]) -> Vec<&[u8]> {
    match framing {
        Framing::AnnexB => split_nal_units(framing, extradata),
        Framing::LengthPrefixed(_) => parse_config_record(hevc, extradata).unwrap_or_default(),
    }
}

/// The sets in an avcC (ISO/IEC 14496-15 5.3.3.1) or hvcC (8.3.3.1) record.
fn parse_config_record(hevc: bool, record: &[u8]) -> Option<Vec<&[u8]>> {
    let mut out = Vec::new();
    let mut rest = record.get(if hevc { 22 } else { 5 }..)?;
    let mut take = |n: usize| {
        let (head, tail) = rest.split_at_checked(n)?;
        rest = tail;
        Some(head)
    };
    let arrays = if hevc { take(1)?[0] } else { 2 };
    for array in 0..arrays {
        let count = if hevc {
            take(1)?;
            let count = take(2)?;
            usize::from(u16::from_be_bytes([count[0], count[1]]))
        } else {
            let count = take(1)?[0];
            usize::from(if array == 0 { count & 31 } else { count })
        };
        for _ in 0..count {
            let len = take(2)?;
            out.push(take(usize::from(u16::from_be_bytes([len[0], len[1]])))?);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An avcC with one SPS (id 0) and one PPS (id 0), and four-byte lengths.
    const AVCC: [u8; 18] = [
        1, 100, 0, 31, 0xff, 0xe1, 0, 5, 0x67, 100, 0, 31, 0x80, 1, 0, 2, 0x68, 0x80,
    ];

    #[test]
    fn configured_sets_need_not_be_repeated() {
        let mut sets = ParameterSetTracker::new(CodecKind::H264, &AVCC).unwrap();
        sets.observe(&[
            0, 0, 0, 5, 0x67, 100, 0, 31, 0x80, 0, 0, 0, 2, 0x68, 0x80, 0, 0, 0, 2, 0x65, 1,
        ]);
        assert!(sets.not_in_config().is_empty() && !sets.changed());
    }

    #[test]
    fn changed_set_applies_from_the_next_packet() {
        let mut sets = ParameterSetTracker::new(CodecKind::H264, &AVCC).unwrap();
        sets.observe(&[0, 0, 0, 2, 0x68, 0xc0, 0, 0, 0, 2, 0x65, 1]);
        assert_eq!(sets.not_in_config(), [0, 0, 0, 2, 0x68, 0xc0]);
        assert!(sets.changed());
    }

    #[test]
    fn slice_with_unknown_set_reveals_in_band_sets() {
        // First macroblock 0 ('1'), type 7 ('0001000'), then PPS id 0 ('1') or 1 ('010').
        let mut sets = ParameterSetTracker::new(CodecKind::H264, &AVCC).unwrap();
        sets.observe(&[0, 0, 0, 3, 0x65, 0b1000_1000, 0b1100_0000]);
        assert!(!sets.has_in_band());
        sets.observe(&[0, 0, 0, 3, 0x65, 0b1000_1000, 0b0101_0000]);
        assert!(sets.has_in_band() && !sets.changed());
    }

    #[test]
    fn slice_needs_an_sps_and_a_pps() {
        assert!(
            ParameterSetTracker::new(CodecKind::H264, &AVCC)
                .unwrap()
                .is_complete()
        );
        let mut sets = ParameterSetTracker::new(CodecKind::H264, &[]).unwrap();
        sets.observe(&[0, 0, 1, 0x65, 1]);
        assert!(!sets.is_complete() && !sets.has_in_band());
        sets.observe(&[0, 0, 1, 0x68, 0x80]);
        assert!(!sets.is_complete() && sets.has_in_band());
        sets.observe(&[0, 0, 1, 0x67, 100, 0, 31, 0x80]);
        assert!(sets.is_complete());
    }

    #[test]
    fn set_after_the_first_slice_is_a_change() {
        // PPS 1 ('010'), then a slice that uses it.
        let (picture_set, slice) = (
            [0, 0, 1, 0x68, 0b0101_0000],
            [0, 0, 1, 0x65, 0b1000_1000, 0b0101_0000],
        );
        let mut sets = ParameterSetTracker::new(CodecKind::H264, &[]).unwrap();
        sets.observe(&[&picture_set[..], &slice].concat());
        assert!(!sets.is_changing());
        sets.observe(&[0, 0, 1, 0x68, 0x80]);
        assert!(sets.is_changing() && !sets.changed());
    }

    #[test]
    fn sets_that_only_come_in_band_are_no_change() {
        let mut sets = ParameterSetTracker::new(CodecKind::H264, &[]).unwrap();
        sets.observe(&[0, 0, 1, 0x68, 0x80, 0, 0, 1, 0x65, 1]);
        assert_eq!(sets.not_in_config(), [0, 0, 0, 1, 0x68, 0x80]);
        assert!(!sets.changed());
    }
}
