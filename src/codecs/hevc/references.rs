//! Finds the pictures in the reference picture set of each HEVC picture (ITU-T H.265 8.3.1, 8.3.2).
//! This includes pictures kept only for later ones, because libavcodec requires the whole set.
//! Long-term references, broken links and end of sequence NAL units are not followed.

use std::collections::HashMap;

use crate::codecs::codec::ReferenceParser;
use crate::codecs::hevc::parameter_sets::ParameterSets;
use crate::codecs::hevc::slice_header::{is_idr, parse_slice_header};
use crate::codecs::hevc::{Hevc, HevcAccessUnit};
use crate::codecs::nal::Framing;
use crate::codecs::nal::config_nal_units;
use crate::codecs::parameter_sets::ParameterSetTracker;
use crate::codecs::picture_info::{PictureOrderCount, PictureReferences};
use crate::codecs::references::derive_poc;

pub(crate) struct HevcReferenceParser {
    framing: Framing,
    sets: ParameterSets,
    changes: ParameterSetTracker,
    /// Indices of the pictures since the last IDR picture, by order count.
    index_by_poc: HashMap<i64, usize>,
    /// Order count from which the next one is derived.
    anchor: i64,
}

impl HevcReferenceParser {
    pub(super) fn new(extradata: &[u8]) -> Self {
        let framing = Framing::detect(&Hevc, extradata);
        let mut sets = ParameterSets::default();
        config_nal_units(&Hevc, framing, extradata)
            .into_iter()
            .for_each(|unit| sets.insert(unit));
        let changes = ParameterSetTracker::new(&Hevc, extradata);
        Self {
            framing,
            sets,
            changes,
            index_by_poc: HashMap::new(),
            anchor: 0,
        }
    }
}

impl ReferenceParser for HevcReferenceParser {
    /// After a packet that is not understood, no later packet can be followed either.
    fn parse(&mut self, place: usize, data: &[u8]) -> Option<PictureReferences> {
        let access_unit = HevcAccessUnit::parse(self.framing, data);
        let slice = access_unit.slice.filter(|_| access_unit.plain)?;
        if !access_unit.parameter_sets.is_empty() {
            self.changes.observe(data);
            if self.changes.changed() {
                return None;
            }
            access_unit
                .parameter_sets
                .iter()
                .for_each(|set| self.sets.insert(set));
        }
        let begins = place == 0;
        match access_unit.nal_type {
            0..=9 | 19..=21 => {}
            16..=18 if begins => {}
            _ => return None, // a broken link after the first packet, or a reserved type
        }
        let head = parse_slice_header(slice, &self.sets)?;
        let (idr, range) = (is_idr(access_unit.nal_type), 1i64 << head.poc_lsb_bits);
        if head.no_output_of_prior_pics && !begins {
            return None; // which pictures are shown depends on when the decoder outputs them
        }
        if idr {
            self.index_by_poc.clear();
        }
        let is_reset = idr || begins;
        let order = if is_reset {
            head.poc_lsb.into()
        } else {
            derive_poc(self.anchor, head.poc_lsb.into(), range)
        };
        // 8.3.1: sub-layer non-reference pictures and leading pictures are not anchors.
        let leads = (6..=9).contains(&access_unit.nal_type);
        let is_anchor = access_unit.temporal_id == 0
            && !leads
            && !(access_unit.nal_type < 16 && access_unit.nal_type.is_multiple_of(2));
        if is_anchor {
            self.anchor = order;
        }
        let mut picture = PictureReferences {
            affects_later: access_unit.has_persistent_sei || !access_unit.parameter_sets.is_empty(),
            unresolved: head.long_term,
            poc: Some(PictureOrderCount {
                order,
                range,
                is_anchor,
                is_reset,
            }),
            ..PictureReferences::default()
        };
        for &(distance, used) in head.references.iter().filter(|_| !begins) {
            match self.index_by_poc.get(&(order + i64::from(distance))) {
                Some(&at) => picture.references.push(at),
                // Pictures kept only for others may be missing (8.3.2).
                None => picture.unresolved |= used,
            }
        }
        if self.index_by_poc.insert(order, place).is_some() {
            return None; // two pictures with the same order count
        }
        Some(picture)
    }
}

#[cfg(test)]
mod tests {
    use crate::codecs::hevc::test_headers::{
        configuration, packet, picture_set, sequence, set, slice,
    };
    use crate::codecs::references::ReferenceGraph;
    use crate::media::CodecParams;

    const IDR: u8 = 19;
    const CRA: u8 = 21;

    /// A picture that refers to the pictures with order counts `used`, and keeps those with order
    /// counts `kept`.
    fn picture(kind: u8, order: i32, used: &[i32], kept: &[i32]) -> Vec<u8> {
        let mut all: Vec<(i32, bool)> = used.iter().map(|&o| (o - order, true)).collect();
        all.extend(kept.iter().map(|&o| (o - order, false)));
        all.sort_by_key(|(distance, _)| distance.abs());
        let side = |sign: i32| -> Vec<(u32, bool)> {
            let side = all.iter().filter(|(distance, _)| distance.signum() == sign);
            side.map(|&(distance, used)| (distance.unsigned_abs(), used))
                .collect()
        };
        let own = ["0", &set(true, &side(-1), &side(1)), "1"].concat();
        packet(&[slice(kind, 0, order.rem_euclid(16) as u32, &own)])
    }

    fn needed(packets: &[Vec<u8>], wanted: usize) -> Option<Vec<usize>> {
        let mut graph = ReferenceGraph::new(&CodecParams::synthetic(
            "hevc",
            &configuration(&[sequence(&[], false), picture_set(2)]),
        ))?;
        packets.iter().for_each(|packet| graph.push(packet));
        let needed = graph.required_for(&[wanted])?;
        Some((0..needed.len()).filter(|&n| needed[n]).collect())
    }

    #[test]
    fn whole_reference_picture_set_is_needed() {
        let packets = [
            picture(IDR, 0, &[], &[]),
            picture(1, 4, &[0], &[]),
            picture(1, 2, &[0, 4], &[]),
            picture(0, 1, &[0, 2], &[4]),
            picture(0, 3, &[4], &[0]),
            picture(1, 8, &[4], &[]),
        ];
        assert_eq!(needed(&packets, 2), Some(vec![0, 1, 2]));
        assert_eq!(needed(&packets, 3), Some(vec![0, 1, 2, 3]));
        assert_eq!(needed(&packets, 4), Some(vec![0, 1, 4]));
        assert_eq!(needed(&packets, 5), Some(vec![0, 1, 5]));
        assert_eq!(needed(&packets, 0), Some(vec![0]));
    }

    #[test]
    fn picture_order_count_restarts_at_idr() {
        let packets = [
            picture(IDR, 0, &[], &[]),
            picture(1, 1, &[0], &[]),
            picture(IDR, 0, &[], &[]),
            picture(1, 1, &[0], &[]),
            picture(1, 2, &[1], &[]),
        ];
        assert_eq!(needed(&packets, 4), Some(vec![0, 2, 3, 4]));
    }

    #[test]
    fn counts_before_idr_do_not_matter_after_it() {
        let mut packets = vec![picture(IDR, 0, &[], &[])];
        packets.extend((1..=3).map(|n| picture(1, 4 * n, &[4 * n - 4], &[])));
        packets.extend([picture(IDR, 0, &[], &[]), picture(1, 1, &[0], &[])]);
        assert_eq!(needed(&packets, 5), Some(vec![0, 4, 5]));
    }

    #[test]
    fn count_anchors_are_decoded_in_wide_gaps() {
        // Counts are transmitted with four bits; each picture refers to the first and keeps nothing
        // else.
        let mut packets = vec![picture(IDR, 0, &[], &[])];
        packets.extend((1..=5).map(|n| picture(1, 4 * n, &[0], &[])));
        assert_eq!(needed(&packets, 2), Some(vec![0, 2]));
        assert_eq!(
            needed(&packets, 3),
            Some(vec![0, 2, 3]),
            "12 could as well be -4"
        );
        assert_eq!(needed(&packets, 5), Some(vec![0, 2, 3, 4, 5]));
        // Pictures that are not anchors do not help.
        packets[2] = picture(0, 8, &[0], &[]);
        assert_eq!(needed(&packets, 3), Some(vec![0, 1, 3]));
    }

    #[test]
    fn leading_pictures_of_later_starts_are_followed() {
        let packets = [
            picture(CRA, 8, &[], &[4]),
            picture(8, 6, &[4, 8], &[]),
            picture(1, 12, &[8], &[]),
            picture(CRA, 16, &[], &[12]),
            picture(8, 14, &[12, 16], &[]),
            picture(1, 20, &[16], &[]),
        ];
        assert_eq!(needed(&packets, 1), None);
        assert_eq!(needed(&packets, 4), Some(vec![0, 2, 3, 4]));
        assert_eq!(needed(&packets[..3], 2), Some(vec![0, 2]));
    }

    #[test]
    fn repeated_sets_are_needed_changed_sets_end_it() {
        let with = |set: Vec<u8>| {
            let mut data = packet(&[set]);
            data.extend(picture(1, 1, &[0], &[]));
            [picture(IDR, 0, &[], &[]), data, picture(1, 2, &[0], &[])]
        };
        assert_eq!(needed(&with(picture_set(2)), 2), Some(vec![0, 1, 2]));
        assert_eq!(needed(&with(picture_set(1)), 2), None);
    }

    #[test]
    fn unusual_data_gives_no_answer() {
        let idr = || picture(IDR, 0, &[], &[]);
        let mut drops = idr();
        drops[4] |= 0x40;
        for (why, data) in [
            ("a broken link", picture(16, 4, &[], &[])),
            ("a reserved type", picture(10, 4, &[0], &[])),
            ("an IDR picture that drops what is not shown yet", drops),
            ("the order of another", picture(1, 0, &[], &[])),
            (
                "an end of sequence",
                [picture(1, 1, &[0], &[]), packet(&[vec![36 << 1, 1]])].concat(),
            ),
            (
                "a second layer",
                [
                    picture(1, 1, &[0], &[]),
                    packet(&[vec![1 << 1, 1 << 3 | 1, 0x80]]),
                ]
                .concat(),
            ),
            ("no image", packet(&[vec![35 << 1, 1, 0x50]])),
            ("cut", picture(1, 1, &[0], &[])[..5].to_vec()),
        ] {
            assert_eq!(needed(&[idr(), data], 0), None, "{why}");
        }
        let lost = picture(1, 4, &[2], &[]);
        assert_eq!(
            needed(&[idr(), lost.clone()], 1),
            None,
            "a reference that is not there"
        );
        assert_eq!(
            needed(&[idr(), lost], 0),
            Some(vec![0]),
            "which does not concern others"
        );
        assert_eq!(
            needed(&[idr(), picture(1, 4, &[0], &[2])], 1),
            Some(vec![0, 1]),
            "kept, but missing"
        );
    }
}
