//! Tracks the parameter sets in force at each random access point of a stream of NAL units. A point
//! without sets of its own needs the in-band sets before it. Of the sets, only the ids are parsed.

use std::collections::BTreeMap;

use super::nal::{Framing, NalSyntax, ParameterSetId, config_nal_units, split_nal_units};
use crate::media::CodecParams;

/// Whether a packet replaces a parameter set of its stream's configuration, which a decoder that
/// has seen it then uses. Only for streams with length prefixes: for others the index has seen
/// every packet.
pub(crate) fn replaces_parameter_sets(params: &CodecParams, data: &[u8]) -> bool {
    let Some(syntax) = super::of(&params.codec).nal_syntax() else {
        return false;
    };
    let framing = Framing::detect(syntax, &params.extradata);
    let units = split_nal_units(framing, data);
    if framing == Framing::AnnexB || !units.iter().any(|unit| syntax.is_parameter_set(unit)) {
        return false;
    }
    let mut sets = ParameterSetTracker::new(syntax, &params.extradata);
    sets.observe(data);
    sets.changed()
}

/// The parameter sets of changed extradata in the framing of the stream's packets, to be sent with
/// the packet from which they apply; empty for codecs without parameter sets.
pub(crate) fn parameter_sets_in_band(params: &CodecParams) -> Vec<u8> {
    let Some(syntax) = super::of(&params.codec).nal_syntax() else {
        return Vec::new();
    };
    let framing = Framing::detect(syntax, &params.extradata);
    config_nal_units(syntax, framing, &params.extradata)
        .into_iter()
        .flat_map(|set| framing.wrap(set))
        .collect()
}

/// Parameter sets in force at the current packet of a stream.
pub(crate) struct ParameterSetTracker {
    syntax: &'static dyn NalSyntax,
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
    /// For a stream with this configuration.
    pub(crate) fn new(syntax: &'static dyn NalSyntax, extradata: &[u8]) -> Self {
        let framing = Framing::detect(syntax, extradata);
        let (configured, current) = (BTreeMap::new(), BTreeMap::new());
        let mut this = Self {
            syntax,
            framing,
            configured,
            current,
            changed: false,
            in_band: false,
            has_slices: false,
            late: false,
        };
        for unit in config_nal_units(syntax, framing, extradata) {
            if let Some(name) = syntax.id_of(unit) {
                this.configured.insert(name, unit.to_vec());
            }
        }
        this.current = this.configured.clone();
        this
    }

    /// Returns the sets in force before the next packet that the configuration does not contain.
    pub(crate) fn not_in_config(&self) -> Vec<u8> {
        let unsaid = self
            .current
            .iter()
            .filter(|(name, unit)| self.configured.get(name) != Some(unit));
        unsaid
            .flat_map(|(_, unit)| self.framing.wrap(unit))
            .collect()
    }

    /// Records the sets in a packet.
    pub(crate) fn observe(&mut self, data: &[u8]) {
        for unit in split_nal_units(self.framing, data) {
            let Some(name) = self.syntax.id_of(unit) else {
                let used = self.syntax.set_of_slice(unit);
                self.has_slices |= used.is_some();
                self.in_band |= used.is_some_and(|name| !self.current.contains_key(&name));
                continue;
            };
            let counts = !self.syntax.is_transient(name);
            self.in_band |= counts;
            match self.current.get(&name) {
                Some(known) if known == unit => {}
                known => {
                    self.changed |= counts && known.is_some();
                    self.late |= counts && self.has_slices;
                    self.current.insert(name, unit.to_vec());
                }
            }
        }
    }

    /// Whether a set was replaced by a different one with the same id: then the sets that a decoder
    /// keeps from elsewhere in the stream are wrong here.
    pub(crate) fn changed(&self) -> bool {
        self.changed
    }

    /// Whether the sets that a decoder keeps depend on which part of the stream it has decoded.
    pub(crate) fn is_changing(&self) -> bool {
        self.changed || self.late
    }

    /// Whether any packet contained a set, or refers to one that only a packet not seen here can
    /// contain.
    pub(crate) fn has_in_band(&self) -> bool {
        self.in_band
    }

    /// Whether there is a set of each kind that decoding a slice requires.
    pub(crate) fn is_complete(&self) -> bool {
        let needed = self.syntax.required_sets();
        needed
            .iter()
            .all(|kind| self.current.keys().any(|name| name.0 == *kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codecs::h264::H264;

    /// An avcC with one SPS (id 0) and one PPS (id 0), and four-byte lengths.
    const AVCC: [u8; 18] = [
        1, 100, 0, 31, 0xff, 0xe1, 0, 5, 0x67, 100, 0, 31, 0x80, 1, 0, 2, 0x68, 0x80,
    ];

    #[test]
    fn configured_sets_need_not_be_repeated() {
        let mut sets = ParameterSetTracker::new(&H264, &AVCC);
        sets.observe(&[
            0, 0, 0, 5, 0x67, 100, 0, 31, 0x80, 0, 0, 0, 2, 0x68, 0x80, 0, 0, 0, 2, 0x65, 1,
        ]);
        assert!(sets.not_in_config().is_empty() && !sets.changed());
    }

    #[test]
    fn changed_set_applies_from_the_next_packet() {
        let mut sets = ParameterSetTracker::new(&H264, &AVCC);
        sets.observe(&[0, 0, 0, 2, 0x68, 0xc0, 0, 0, 0, 2, 0x65, 1]);
        assert_eq!(sets.not_in_config(), [0, 0, 0, 2, 0x68, 0xc0]);
        assert!(sets.changed());
    }

    #[test]
    fn slice_with_unknown_set_reveals_in_band_sets() {
        // First macroblock 0 ('1'), type 7 ('0001000'), then PPS id 0 ('1') or 1 ('010').
        let mut sets = ParameterSetTracker::new(&H264, &AVCC);
        sets.observe(&[0, 0, 0, 3, 0x65, 0b1000_1000, 0b1100_0000]);
        assert!(!sets.has_in_band());
        sets.observe(&[0, 0, 0, 3, 0x65, 0b1000_1000, 0b0101_0000]);
        assert!(sets.has_in_band() && !sets.changed());
    }

    #[test]
    fn slice_needs_an_sps_and_a_pps() {
        assert!(ParameterSetTracker::new(&H264, &AVCC).is_complete());
        let mut sets = ParameterSetTracker::new(&H264, &[]);
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
        let mut sets = ParameterSetTracker::new(&H264, &[]);
        sets.observe(&[&picture_set[..], &slice].concat());
        assert!(!sets.is_changing());
        sets.observe(&[0, 0, 1, 0x68, 0x80]);
        assert!(sets.is_changing() && !sets.changed());
    }

    #[test]
    fn sets_that_only_come_in_band_are_no_change() {
        let mut sets = ParameterSetTracker::new(&H264, &[]);
        sets.observe(&[0, 0, 1, 0x68, 0x80, 0, 0, 1, 0x65, 1]);
        assert_eq!(sets.not_in_config(), [0, 0, 0, 1, 0x68, 0x80]);
        assert!(!sets.changed());
    }
}
