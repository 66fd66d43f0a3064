//! In: an index and the frames that are wanted. Out: runs: stretches of packets to decode, each from an exact start.
//! Each group of pictures is entered once, decoding stops at the last wanted picture and jumps over what lies between.
//! Never: touches a decoder or a byte of payload.

use crate::index::VideoIndex;
use crate::units::{DecodeIndex, DisplayIndex};

/// Packets up to which neighbouring groups of pictures are decoded in one go. Longer ones are runs of their own, so that
/// the most urgent can be decoded first; for short ones the pause between two runs would cost more than it is worth.
const SHORT: u32 = 64;

/// One start-at-a-key-packet decoding pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// First packet to feed: an exact start.
    pub start: DecodeIndex,
    /// Last packet to feed.
    pub end: DecodeIndex,
    /// Packets whose pictures are wanted, ascending, each once.
    pub wanted: Vec<DecodeIndex>,
}

impl Run {
    /// The part of a run that yields only these of its wanted packets.
    pub fn rest_of(run: &Run, wanted: Vec<DecodeIndex>, index: &VideoIndex) -> Self {
        let end = wanted.iter().map(|&at| index.last_part_of(at)).max().unwrap_or(run.end);
        Self { start: run.start, end, wanted }
    }

    /// Packets that will be fed.
    pub fn packets(&self) -> u32 {
        self.end.0 - self.start.0 + 1
    }
}

/// The runs that yield `frames`, in file order, whatever the order and the repeats of `frames`.
pub fn runs(index: &VideoIndex, frames: &[DisplayIndex]) -> Vec<Run> {
    // What each frame needs: from its start to its own last packet. A frame that leads a key packet on screen starts
    // before that packet, so ends are not in the order of starts.
    let mut needs: Vec<(DecodeIndex, DecodeIndex, DecodeIndex)> = frames
        .iter()
        .map(|&f| {
            let packet = index.frames[f.at()].packet;
            (index.start_of(f), index.last_part_of(packet), packet)
        })
        .collect();
    needs.sort_unstable();
    needs.dedup();
    let mut runs: Vec<Run> = Vec::new();
    for (start, end, packet) in needs {
        // Behind a gap only what begins there can be decoded.
        let behind_gap = index.packets[start.at()].is_after_gap();
        match runs.last_mut().filter(|run| run.start == start || !behind_gap) {
            // The start lies within what is decoded anyway, or right behind little of it: read on rather than begin anew.
            Some(run) if start <= run.end || (start.0 == run.end.0 + 1 && run.packets() < SHORT) => {
                run.end = run.end.max(end);
                run.wanted.push(packet);
            }
            _ => runs.push(Run { start, end, wanted: vec![packet] }),
        }
    }
    for run in &mut runs {
        run.wanted.sort_unstable();
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames(numbers: &[u32]) -> Vec<DisplayIndex> {
        numbers.iter().copied().map(DisplayIndex).collect()
    }

    fn summary(runs: &[Run]) -> Vec<(u32, u32, Vec<u32>)> {
        runs.iter().map(|r| (r.start.0, r.end.0, r.wanted.iter().map(|w| w.0).collect())).collect()
    }

    /// Two closed groups of four pictures each, shown as stored.
    fn closed_gops() -> VideoIndex {
        let packets: Vec<_> = (0..8).map(|n| (n, n % 4 == 0, true)).collect();
        VideoIndex::sketch(&packets)
    }

    #[test]
    fn a_group_is_entered_once_and_left_at_its_last_wanted_picture() {
        let runs = runs(&closed_gops(), &frames(&[2, 1, 2, 1]));
        assert_eq!(summary(&runs), [(0, 2, vec![1, 2])]);
    }

    #[test]
    fn what_lies_between_two_wanted_groups_is_jumped_over() {
        let runs = runs(&closed_gops(), &frames(&[5, 0]));
        assert_eq!(summary(&runs), [(0, 0, vec![0]), (4, 5, vec![5])]);
    }

    #[test]
    fn a_leading_picture_begins_its_run_at_the_group_before() {
        // I0 P3 B1 B2 | I6 B4 B5 P7: frame 6 alone starts at its own I, together with its leading frame 4 it cannot.
        let packets = [0, 3, 1, 2, 6, 4, 5, 7].map(|order| (order, order % 6 == 0, true));
        let index = VideoIndex::sketch(&packets);
        assert_eq!(summary(&runs(&index, &frames(&[6]))), [(4, 4, vec![4])]);
        assert_eq!(summary(&runs(&index, &frames(&[6, 4]))), [(0, 5, vec![4, 5])]);
    }

    #[test]
    fn a_start_behind_a_gap_begins_a_run_of_its_own() {
        let all = frames(&[3, 4, 5]);
        assert_eq!(summary(&runs(&closed_gops(), &all)), [(0, 5, vec![3, 4, 5])]);
        let index = closed_gops().with_gap_before(4);
        assert_eq!(summary(&runs(&index, &all)), [(0, 3, vec![3]), (4, 5, vec![4, 5])]);
        // I0 P3 B1 B2 | I6 B4 B5 P7: what leads the start on screen needs what is missing.
        let packets = [0, 3, 1, 2, 6, 4, 5, 7].map(|order| (order, order % 6 == 0, true));
        let index = VideoIndex::sketch(&packets).with_gap_before(4);
        assert_eq!(summary(&runs(&index, &frames(&[6, 4]))), [(0, 5, vec![5]), (4, 4, vec![4])]);
    }

    #[test]
    fn short_groups_are_read_on_into_long_ones_are_runs_of_their_own() {
        let packets = |group: i64| (0..2 * group).map(|n| (n, n % group == 0, true)).collect::<Vec<_>>();
        let all = |index: &VideoIndex| runs(index, &frames(&(0..index.num_frames()).collect::<Vec<_>>()));
        assert_eq!(all(&VideoIndex::sketch(&packets(8))).len(), 1);
        let long = all(&VideoIndex::sketch(&packets(100)));
        assert_eq!(long.iter().map(|r| (r.start.0, r.end.0)).collect::<Vec<_>>(), [(0, 99), (100, 199)]);
    }

    #[test]
    fn groups_are_long_from_64_packets_on_wherever_they_lie() {
        // The last frame of the third group and the first of the fourth.
        let neighbours = |group: i64| {
            let packets: Vec<_> = (0..4 * group).map(|n| (n, n % group == 0, true)).collect();
            let wanted = [3 * group - 1, 3 * group].map(|n| n as u32);
            runs(&VideoIndex::sketch(&packets), &frames(&wanted))
        };
        assert_eq!(summary(&neighbours(63)), [(126, 189, vec![188, 189])]);
        let apart = neighbours(64);
        assert_eq!(summary(&apart), [(128, 191, vec![191]), (192, 192, vec![192])]);
        assert_eq!(apart.iter().map(Run::packets).collect::<Vec<_>>(), [64, 1]);
    }

    proptest! {
        #[test]
        fn every_wanted_frame_is_in_one_run_that_starts_early_enough(
            groups in proptest::collection::vec(1u32..9, 1..8),
            picks in proptest::collection::vec(any::<u32>(), 1..20),
        ) {
            let mut packets = Vec::new();
            for group in groups {
                let first = packets.len() as i64;
                packets.extend((0..i64::from(group)).map(|n| (first + n, n == 0, true)));
            }
            let index = VideoIndex::sketch(&packets);
            let wanted: Vec<_> = picks.iter().map(|p| DisplayIndex(p % index.num_frames())).collect();
            let runs = runs(&index, &wanted);
            for &frame in &wanted {
                let packet = index.frames[frame.at()].packet;
                let holding: Vec<_> = runs.iter().filter(|r| r.wanted.contains(&packet)).collect();
                prop_assert_eq!(holding.len(), 1);
                prop_assert!(holding[0].start <= index.start_of(frame) && packet <= holding[0].end);
                prop_assert!(index.packets[holding[0].start.at()].is_start());
            }
            prop_assert!(runs.windows(2).all(|r| r[0].end < r[1].start));
        }
    }
}
