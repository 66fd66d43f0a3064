//! Plans which ranges of packets to decode so that the wanted frames come out exactly.
//! Each range starts at a random access point and ends at its last wanted picture.
//! Reads only the index: it opens no decoder and reads no payload.

use crate::codecs;
use crate::index::VideoIndex;
use crate::units::{DecodeIndex, PresentationIndex};

/// A decode range of fewer packets than this is extended into the group of pictures that directly
/// follows it. A longer range ends there, so that the most urgent range can be decoded first; for a
/// short range, the pause between two ranges would cost more than that is worth.
const MAX_BRIDGED_PACKETS: u32 = 64;

/// One decoding pass: a range of packets that begins at a random access point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeRange {
    /// First packet to send to the decoder: a random access point.
    pub start: DecodeIndex,
    /// Last packet to send to the decoder.
    pub end: DecodeIndex,
    /// Packets whose pictures are wanted, in ascending order without duplicates.
    pub wanted: Vec<DecodeIndex>,
}

impl DecodeRange {
    /// Returns the part of `range` that yields only these of its wanted packets.
    pub fn remaining(range: &DecodeRange, wanted: Vec<DecodeIndex>, index: &VideoIndex) -> Self {
        let end = wanted
            .iter()
            .map(|&at| index.last_packet_of_picture(at))
            .max()
            .unwrap_or(range.end);
        Self {
            start: range.start,
            end,
            wanted,
        }
    }

    /// Number of packets in the range.
    pub fn packets(&self) -> u32 {
        self.end.0 - self.start.0 + 1
    }
}

/// Returns the decode ranges that yield `frames`, in decode order. The order of `frames` and
/// duplicates do not matter.
pub fn plan_decode_ranges(index: &VideoIndex, frames: &[PresentationIndex]) -> Vec<DecodeRange> {
    // Each frame needs the packets from its random access point to the last packet of its own
    // picture. A leading picture of a random access point is decoded from an earlier one, so the
    // ends are not in the order of the starts.
    let mut needs: Vec<(DecodeIndex, DecodeIndex, DecodeIndex)> = frames
        .iter()
        .map(|&f| {
            let packet = index.frames[f.as_usize()].packet;
            (
                index.sync_point_for(f),
                index.last_packet_of_picture(packet),
                packet,
            )
        })
        .collect();
    needs.sort_unstable();
    needs.dedup();
    let keeps_state = codecs::of(&index.info.params.codec).keeps_state_over_sync();
    let mut ranges: Vec<DecodeRange> = Vec::new();
    for (start, end, packet) in needs {
        // A range cannot continue across missing packets: a start after a gap needs a range of its
        // own. So does one with other extradata, with which a decoder must be opened.
        let behind_gap = index.packets[start.as_usize()].is_after_gap();
        let continues = |range: &&mut DecodeRange| {
            range.start == start
                || !keeps_state
                    && !behind_gap
                    && index.extradata_changes(range.start) == index.extradata_changes(start)
        };
        match ranges.last_mut().filter(continues) {
            // The start lies within the range, or directly after a short range: extend it instead
            // of starting a new one.
            Some(range)
                if start <= range.end
                    || (start.0 == range.end.0 + 1 && range.packets() < MAX_BRIDGED_PACKETS) =>
            {
                range.end = range.end.max(end);
                range.wanted.push(packet);
            }
            _ => ranges.push(DecodeRange {
                start,
                end,
                wanted: vec![packet],
            }),
        }
    }
    for range in &mut ranges {
        range.wanted.sort_unstable();
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames(numbers: &[u32]) -> Vec<PresentationIndex> {
        numbers.iter().copied().map(PresentationIndex).collect()
    }

    fn summary(ranges: &[DecodeRange]) -> Vec<(u32, u32, Vec<u32>)> {
        ranges
            .iter()
            .map(|r| (r.start.0, r.end.0, r.wanted.iter().map(|w| w.0).collect()))
            .collect()
    }

    /// Two closed groups of four pictures each, with decode order equal to presentation order.
    fn closed_gops() -> VideoIndex {
        let packets: Vec<_> = (0..8).map(|n| (n, n % 4 == 0, true)).collect();
        VideoIndex::synthetic(&packets)
    }

    #[test]
    fn gop_is_entered_once_up_to_the_last_needed_frame() {
        let ranges = plan_decode_ranges(&closed_gops(), &frames(&[2, 1, 2, 1]));
        assert_eq!(summary(&ranges), [(0, 2, vec![1, 2])]);
    }

    #[test]
    fn a_decoder_that_keeps_state_decodes_one_gop() {
        let mut index = closed_gops();
        index.info.params.codec.name = "cinepak".into();
        let ranges = plan_decode_ranges(&index, &frames(&[3, 4]));
        assert_eq!(summary(&ranges), [(0, 3, vec![3]), (4, 4, vec![4])]);
    }

    #[test]
    fn gops_between_needed_frames_are_skipped() {
        let ranges = plan_decode_ranges(&closed_gops(), &frames(&[5, 0]));
        assert_eq!(summary(&ranges), [(0, 0, vec![0]), (4, 5, vec![5])]);
    }

    #[test]
    fn leading_picture_starts_at_the_previous_gop() {
        // I0 P3 B1 B2 | I6 B4 B5 P7: frame 6 alone is decoded from its own I picture; together with
        // its leading picture 4 it is not.
        let packets = [0, 3, 1, 2, 6, 4, 5, 7].map(|order| (order, order % 6 == 0, true));
        let index = VideoIndex::synthetic(&packets);
        assert_eq!(
            summary(&plan_decode_ranges(&index, &frames(&[6]))),
            [(4, 4, vec![4])]
        );
        assert_eq!(
            summary(&plan_decode_ranges(&index, &frames(&[6, 4]))),
            [(0, 5, vec![4, 5])]
        );
    }

    #[test]
    fn keyframe_after_a_gap_starts_a_range() {
        let all = frames(&[3, 4, 5]);
        assert_eq!(
            summary(&plan_decode_ranges(&closed_gops(), &all)),
            [(0, 5, vec![3, 4, 5])]
        );
        let index = closed_gops().with_gap_before(4);
        assert_eq!(
            summary(&plan_decode_ranges(&index, &all)),
            [(0, 3, vec![3]), (4, 5, vec![4, 5])]
        );
        // I0 P3 B1 B2 | I6 B4 B5 P7: the leading picture of the random access point needs the
        // missing packets.
        let packets = [0, 3, 1, 2, 6, 4, 5, 7].map(|order| (order, order % 6 == 0, true));
        let index = VideoIndex::synthetic(&packets).with_gap_before(4);
        assert_eq!(
            summary(&plan_decode_ranges(&index, &frames(&[6, 4]))),
            [(0, 5, vec![5]), (4, 4, vec![4])]
        );
    }

    #[test]
    fn keyframe_with_other_extradata_starts_a_range() {
        let all = frames(&[3, 4, 5]);
        let index = VideoIndex {
            new_extradata: vec![(4, vec![1])],
            ..closed_gops()
        };
        assert_eq!(
            summary(&plan_decode_ranges(&index, &all)),
            [(0, 3, vec![3]), (4, 5, vec![4, 5])]
        );
    }

    #[test]
    fn short_gops_are_merged_long_gops_are_not() {
        let packets = |group: i64| {
            (0..2 * group)
                .map(|n| (n, n % group == 0, true))
                .collect::<Vec<_>>()
        };
        let all = |index: &VideoIndex| {
            plan_decode_ranges(index, &frames(&(0..index.num_frames()).collect::<Vec<_>>()))
        };
        assert_eq!(all(&VideoIndex::synthetic(&packets(8))).len(), 1);
        let long = all(&VideoIndex::synthetic(&packets(100)));
        assert_eq!(
            long.iter()
                .map(|r| (r.start.0, r.end.0))
                .collect::<Vec<_>>(),
            [(0, 99), (100, 199)]
        );
    }

    #[test]
    fn gops_are_long_from_64_packets_on() {
        // The last frame of the third group of pictures and the first frame of the fourth.
        let neighbours = |group: i64| {
            let packets: Vec<_> = (0..4 * group).map(|n| (n, n % group == 0, true)).collect();
            let wanted = [3 * group - 1, 3 * group].map(|n| n as u32);
            plan_decode_ranges(&VideoIndex::synthetic(&packets), &frames(&wanted))
        };
        assert_eq!(summary(&neighbours(63)), [(126, 189, vec![188, 189])]);
        let apart = neighbours(64);
        assert_eq!(
            summary(&apart),
            [(128, 191, vec![191]), (192, 192, vec![192])]
        );
        assert_eq!(
            apart.iter().map(DecodeRange::packets).collect::<Vec<_>>(),
            [64, 1]
        );
    }

    proptest! {
        #[test]
        fn every_needed_frame_is_in_one_range(
            groups in proptest::collection::vec(1u32..9, 1..8),
            picks in proptest::collection::vec(any::<u32>(), 1..20),
        ) {
            let mut packets = Vec::new();
            for group in groups {
                let first = packets.len() as i64;
                packets.extend((0..i64::from(group)).map(|n| (first + n, n == 0, true)));
            }
            let index = VideoIndex::synthetic(&packets);
            let wanted: Vec<_> = picks.iter().map(|p| PresentationIndex(p % index.num_frames())).collect();
            let ranges = plan_decode_ranges(&index, &wanted);
            for &frame in &wanted {
                let packet = index.frames[frame.as_usize()].packet;
                let holding: Vec<_> = ranges.iter().filter(|r| r.wanted.contains(&packet)).collect();
                prop_assert_eq!(holding.len(), 1);
                prop_assert!(holding[0].start <= index.sync_point_for(frame) && packet <= holding[0].end);
                prop_assert!(index.packets[holding[0].start.as_usize()].is_sync());
            }
            prop_assert!(ranges.windows(2).all(|r| r[0].end < r[1].start));
        }
    }
}
