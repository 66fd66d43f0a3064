//! Finds VVC packets' temporal layers, and whether other pictures may refer to them
//! (`ph_non_ref_pic_flag`). An adaptation parameter set applies to later pictures of its own and
//! higher layers (ITU-T H.266 7.4.2.2), so its packet counts as a reference. Random access points,
//! and packets with more than one picture or layer, are never disposable.

use super::headers::HeaderSets;
use super::{NalHeader, Vvc, nal_type};
use crate::codecs::codec::PacketDependencyParser;
use crate::codecs::nal::config_nal_units;
use crate::codecs::nal::{Framing, NalSyntax, has_persistent_sei, split_nal_units};
use crate::codecs::picture_info::Dependency;

pub(super) struct VvcDependencyParser {
    framing: Framing,
    sets: HeaderSets,
    /// Maximum over all sequence parameter sets seen; `None` before the first.
    highest_layer: Option<u8>,
}

impl VvcDependencyParser {
    pub(super) fn new(extradata: &[u8]) -> Self {
        let framing = Framing::detect(&Vvc, extradata);
        let mut this = Self {
            framing,
            sets: HeaderSets::default(),
            highest_layer: None,
        };
        for unit in config_nal_units(&Vvc, framing, extradata) {
            this.insert(unit);
        }
        this
    }

    /// Records a parameter set.
    fn insert(&mut self, unit: &[u8]) {
        self.sets.insert(unit);
        // sps_max_sublayers_minus1 follows two ids of four bits.
        if let (Some(nal), Some(byte)) = (NalHeader::parse(unit), unit.get(3))
            && nal.kind == nal_type::SPS
            && nal.layer == 0
        {
            self.highest_layer = self.highest_layer.max(Some(byte >> 5));
        }
    }
}

impl PacketDependencyParser for VvcDependencyParser {
    fn parse(&mut self, data: &[u8]) -> Option<Dependency> {
        let units = split_nal_units(self.framing, data);
        let sets = units.iter().filter(|unit| Vvc.is_parameter_set(unit));
        let num_sets = sets.map(|unit| self.insert(unit)).count();
        if num_sets > 0 {
            return None;
        }
        let (mut header, mut slice, mut has_lasting_set) = (None, None, false);
        for unit in units {
            let nal = NalHeader::parse(unit).filter(|nal| nal.layer == 0)?;
            match nal.kind {
                0..=nal_type::RASL => {
                    let same = (nal.kind, nal.temporal_id);
                    // A picture header in a slice header means that it is the only slice.
                    let own = self.sets.picture_header(unit);
                    if *slice.get_or_insert(same) != same || own.is_some() && header.is_some() {
                        return None;
                    }
                    header = header.or(own);
                }
                nal_type::PICTURE_HEADER => {
                    if header.is_some() || slice.is_some() {
                        return None;
                    }
                    header = self.sets.picture_header(unit);
                }
                nal_type::PREFIX_APS | nal_type::SUFFIX_APS => has_lasting_set = true,
                nal_type::PREFIX_SEI | nal_type::SUFFIX_SEI if has_persistent_sei(unit) => {
                    return None;
                }
                nal_type::PREFIX_SEI
                | nal_type::SUFFIX_SEI
                | nal_type::DELIMITER
                | nal_type::FILLER => {}
                _ => return None,
            }
        }
        self.highest_layer?;
        let (_, layer) = slice?;
        Some(match header?.is_non_reference && !has_lasting_set {
            true => Dependency::Disposable { layer },
            false => Dependency::Reference { layer },
        })
    }

    fn highest_layer(&self) -> u8 {
        self.highest_layer.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codecs::vvc::test_headers::{packet, picture_set, sequence, slice, unit};

    fn parser() -> VvcDependencyParser {
        VvcDependencyParser::new(&packet(&[sequence(2, 4), picture_set()]))
    }

    #[test]
    fn pictures_that_are_no_reference_are_disposable() {
        let of = |non_reference, temporal, extra: &[Vec<u8>]| {
            let units = [extra, &[slice(0, temporal, non_reference, 5)]].concat();
            parser().parse(&packet(&units))
        };
        assert_eq!(parser().highest_layer(), 2);
        assert_eq!(of(true, 1, &[]), Some(Dependency::Disposable { layer: 1 }));
        assert_eq!(of(false, 2, &[]), Some(Dependency::Reference { layer: 2 }));
        let aps = unit(nal_type::PREFIX_APS, 1, "000 00001 1");
        assert_eq!(
            of(true, 1, &[aps]),
            Some(Dependency::Reference { layer: 1 }),
            "later pictures may use the adaptation parameter set"
        );
    }

    #[test]
    fn unusual_packets_are_not_disposable() {
        let picture = || slice(0, 1, true, 5);
        for (why, units) in [
            ("a random access point", vec![slice(9, 0, true, 5)]),
            ("two pictures", vec![picture(), picture()]),
            ("a parameter set", vec![picture_set(), picture()]),
            ("the end of a sequence", vec![picture(), unit(21, 0, "1")]),
            ("no picture", vec![unit(20, 0, "1")]),
        ] {
            assert_eq!(parser().parse(&packet(&units)), None, "{why}");
        }
        let other_layer = [&[0, 0, 1, 1][..], &picture()[1..]].concat();
        assert_eq!(parser().parse(&other_layer), None);
        let mut without_sets = VvcDependencyParser::new(&[]);
        assert_eq!(without_sets.parse(&packet(&[picture()])), None);
    }
}
