//! Finds HEVC packets' temporal layers, and whether pictures of the same layer may refer to them
//! (7.4.2.2). H.265: sub-layer non-reference pictures have even types below 16 and anchor no order
//! counts (8.3.1). Random access points, and packets with more than one picture or layer, are never
//! disposable.

use crate::codecs::codec::PacketDependencyParser;
use crate::codecs::hevc::{Hevc, HevcAccessUnit};
use crate::codecs::nal::Framing;
use crate::codecs::nal::config_nal_units;
use crate::codecs::picture_info::Dependency;

/// NAL unit types from this one on are random access points.
const FIRST_IRAP_TYPE: u8 = 16;

pub(crate) struct HevcDependencyParser {
    framing: Framing,
    /// Maximum over all sequence parameter sets seen; `None` before the first.
    highest_layer: Option<u8>,
}

impl HevcDependencyParser {
    pub(super) fn new(extradata: &[u8]) -> Self {
        let framing = Framing::detect(&Hevc, extradata);
        let mut this = Self {
            framing,
            highest_layer: None,
        };
        for unit in config_nal_units(&Hevc, framing, extradata) {
            this.record_layers(unit);
        }
        this
    }

    /// Records `sps_max_sub_layers_minus1` of the base layer.
    fn record_layers(&mut self, unit: &[u8]) {
        const SEQUENCE: u8 = 33;
        if let &[first, second, set, ..] = unit
            && first >> 1 == SEQUENCE
            && first & 1 == 0
            && second >> 3 == 0
        {
            self.highest_layer = self.highest_layer.max(Some(set >> 1 & 7));
        }
    }
}

impl PacketDependencyParser for HevcDependencyParser {
    fn highest_layer(&self) -> u8 {
        self.highest_layer.unwrap_or(0)
    }

    fn parse(&mut self, data: &[u8]) -> Option<Dependency> {
        let access_unit = HevcAccessUnit::parse(self.framing, data);
        for set in &access_unit.parameter_sets {
            self.record_layers(set);
        }
        let usual = access_unit.plain
            && access_unit.parameter_sets.is_empty()
            && !access_unit.has_persistent_sei
            && access_unit.nal_type < FIRST_IRAP_TYPE;
        if !usual || self.highest_layer.is_none() {
            return None;
        }
        let layer = access_unit.temporal_id;
        Some(if access_unit.nal_type.is_multiple_of(2) {
            Dependency::Disposable { layer }
        } else {
            Dependency::Reference { layer }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Dependency::{Disposable, Reference};

    /// SPS with two temporal layers: sps_max_sub_layers_minus1 is 1.
    const SEQUENCE: [u8; 6] = [0, 0, 1, 66, 1, 0b0000_0011];

    /// A packet of NAL units: (type, layer, temporal id, first byte of the payload).
    fn packet(units: &[(u8, u8, u8, u8)]) -> Vec<u8> {
        let unit = |&(kind, layer, temporal, body): &(u8, u8, u8, u8)| {
            [
                0,
                0,
                1,
                kind << 1 | layer >> 5,
                layer << 3 | (temporal + 1),
                body,
                0x80,
            ]
        };
        units.iter().flat_map(unit).collect()
    }

    fn dependency(units: &[(u8, u8, u8, u8)]) -> Option<Dependency> {
        HevcDependencyParser::new(&SEQUENCE).parse(&packet(units))
    }

    #[test]
    fn even_nal_types_are_sublayer_non_references() {
        assert_eq!(HevcDependencyParser::new(&SEQUENCE).highest_layer(), 1);
        assert_eq!(
            dependency(&[(0, 0, 0, 0x80)]),
            Some(Disposable { layer: 0 })
        );
        assert_eq!(
            dependency(&[(2, 0, 1, 0x80), (2, 0, 1, 0)]),
            Some(Disposable { layer: 1 })
        ); // two slices
        assert_eq!(
            dependency(&[(35, 0, 0, 0), (8, 0, 0, 0x80), (62, 0, 0, 0)]),
            Some(Disposable { layer: 0 })
        );
        assert_eq!(dependency(&[(1, 0, 0, 0x80)]), Some(Reference { layer: 0 }));
        assert_eq!(dependency(&[(3, 0, 1, 0x80)]), Some(Reference { layer: 1 }));
    }

    #[test]
    fn packet_of_several_pictures_is_not_disposable() {
        for (why, units) in [
            ("an IDR picture", &[(19, 0, 0, 0x80)][..]),
            ("a CRA picture", &[(21, 0, 0, 0x80)]),
            ("a parameter set", &[(34, 0, 0, 0), (0, 0, 0, 0x80)]),
            ("an end of sequence", &[(0, 0, 0, 0x80), (36, 0, 0, 0)]),
            ("a second layer", &[(0, 0, 0, 0x80), (0, 1, 0, 0x80)]),
            ("two pictures", &[(0, 0, 0, 0x80), (0, 0, 0, 0x80)]),
            ("slices of two kinds", &[(0, 0, 0, 0x80), (1, 0, 0, 0)]),
            ("no first slice", &[(0, 0, 0, 0)]),
            ("no slice", &[(35, 0, 0, 0)]),
        ] {
            assert_eq!(dependency(units), None, "{why}");
        }
    }

    #[test]
    fn nothing_is_reported_before_an_sps() {
        let mut parser = HevcDependencyParser::new(&[]);
        let leaf = packet(&[(0, 0, 0, 0x80)]);
        assert_eq!(parser.parse(&leaf), None);
        assert_eq!(parser.parse(&SEQUENCE), None);
        assert_eq!(parser.parse(&leaf), Some(Disposable { layer: 0 }));
    }

    #[test]
    fn recovery_point_is_not_disposable() {
        let leaf = |message: [u8; 6]| {
            let mut data = vec![0, 0, 1, 39 << 1, 1];
            data.extend(message);
            data.extend(packet(&[(0, 0, 0, 0x80)]));
            HevcDependencyParser::new(&SEQUENCE).parse(&data)
        };
        assert_eq!(leaf([6, 3, 0x10, 0x20, 0x30, 0x80]), None);
        for other in [1, 4, 19] {
            // Picture timing, user data such as HDR10+, film grain.
            assert_eq!(
                leaf([other, 3, 0xb5, 0x00, 0x3c, 0x80]),
                Some(Disposable { layer: 0 })
            );
        }
    }
}
