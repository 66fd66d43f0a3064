//! Finds the packets needed to decode pictures exactly, by following the references in slice and
//! frame headers. Packets that are damaged, unusual or not understood give no result; the caller
//! then uses `Dependency`.

use super::codec::ReferenceParser;
use super::picture_info::PictureReferences;
use crate::media::CodecParams;

/// Records which pictures each picture in a range of packets refers to.
pub struct ReferenceGraph {
    parser: Box<dyn ReferenceParser>,
    /// `None` once a packet was not understood.
    pictures: Option<Vec<PictureReferences>>,
}

impl ReferenceGraph {
    /// Returns `None` for codecs whose references are not parsed.
    pub fn new(params: &CodecParams) -> Option<Self> {
        Some(Self {
            parser: super::of(&params.codec).reference_parser(&params.extradata)?,
            pictures: Some(Vec::new()),
        })
    }

    /// Records the next packet of the range in decode order; the first one is the start packet.
    pub fn push(&mut self, data: &[u8]) {
        let Some(pictures) = &mut self.pictures else {
            return;
        };
        let place = pictures.len();
        match self.parser.parse(place, data) {
            Some(picture) => pictures.push(picture),
            None => self.pictures = None,
        }
    }

    /// Returns which of the recorded packets must be decoded so that `wanted` (indices in the
    /// range) are exact. Returns `None` if a packet was not understood: then use `Dependency`.
    pub fn required_for(&self, wanted: &[usize]) -> Option<Vec<bool>> {
        let pictures = self.pictures.as_deref().filter(|p| !p.is_empty())?;
        let lasting = (0..pictures.len()).filter(|&place| pictures[place].affects_later);
        let mut open: Vec<usize> = wanted.iter().copied().chain([0]).chain(lasting).collect();
        let mut needed = vec![false; pictures.len()];
        while !open.is_empty() {
            while let Some(place) = open.pop() {
                let picture = pictures.get(place)?;
                if !std::mem::replace(&mut needed[place], true) {
                    if picture.unresolved {
                        return None;
                    }
                    open.extend(&picture.references);
                }
            }
            open = missing_poc_anchors(pictures, &needed);
        }
        Some(needed)
    }
}

/// The count nearest to `anchor` whose transmitted bits equal `sent` (H.265 8.3.1).
pub(super) fn derive_poc(anchor: i64, sent: i64, range: i64) -> i64 {
    let low = anchor.rem_euclid(range);
    let high = anchor - low;
    if sent < low && low - sent >= range / 2 {
        high + range + sent
    } else if sent > low && sent - low > range / 2 {
        high - range + sent
    } else {
        high + sent
    }
}

/// Pictures that must also be decoded, because a decoder would derive wrong order counts without
/// them.
fn missing_poc_anchors(pictures: &[PictureReferences], needed: &[bool]) -> Vec<usize> {
    let mut missing = Vec::new();
    // The count of the last anchor that the decoder sees, and the index of the last anchor in the
    // stream.
    let (mut decoded, mut last) = (0, 0);
    for (place, picture) in pictures.iter().enumerate() {
        let Some(count) = picture.poc else { continue };
        if needed[place] && !count.is_reset {
            let sent = count.order.rem_euclid(count.range);
            if derive_poc(decoded, sent, count.range) != count.order {
                missing.push(last);
                decoded = pictures[last].poc.map_or(decoded, |c| c.order);
            }
        }
        if count.is_anchor {
            last = place;
            if needed[place] {
                decoded = count.order;
            }
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn other_codecs_have_no_reference_graph() {
        for name in ["h264", "vp8", "vp9", "mpeg4", "mpeg2video", "mjpeg"] {
            assert!(
                ReferenceGraph::new(&CodecParams::synthetic(name, &[])).is_none(),
                "{name}"
            );
        }
    }

    #[test]
    fn empty_range_and_outside_frames_give_no_answer() {
        let mut graph = ReferenceGraph::new(&CodecParams::synthetic("av1", &[])).expect("read");
        assert_eq!(graph.required_for(&[]), None);
        graph.pictures = Some(vec![PictureReferences::default()]);
        assert_eq!(graph.required_for(&[0]), Some(vec![true]));
        assert_eq!(graph.required_for(&[1]), None);
    }

    #[test]
    fn references_are_followed_transitively() {
        let mut graph = ReferenceGraph::new(&CodecParams::synthetic("av1", &[])).expect("read");
        let references = |places: &[usize]| PictureReferences {
            references: places.to_vec(),
            ..PictureReferences::default()
        };
        let affects_later = PictureReferences {
            affects_later: true,
            ..references(&[3])
        };
        graph.pictures = Some(vec![
            references(&[]),
            references(&[0]),
            references(&[1]),
            references(&[0]),
            affects_later,
            references(&[2]),
        ]);
        assert_eq!(
            graph.required_for(&[2]).expect("understood"),
            [true, true, true, true, true, false]
        );
        let unresolved = PictureReferences {
            unresolved: true,
            ..PictureReferences::default()
        };
        graph.pictures = Some(vec![
            references(&[]),
            unresolved,
            references(&[1]),
            references(&[0]),
        ]);
        assert_eq!(
            graph.required_for(&[3]).expect("not concerned"),
            [true, false, false, true]
        );
        assert_eq!(graph.required_for(&[2]), None);
    }

    #[test]
    fn counts_are_the_nearest_with_the_sent_low_bits() {
        for (anchor, sent, count) in [
            (0, 7, 7),
            (0, 8, 8),
            (0, 9, -7),
            (15, 0, 16),
            (15, 7, 23),
            (15, 6, 22),
            (24, 1, 17),
        ] {
            assert_eq!(derive_poc(anchor, sent, 16), count, "{anchor} {sent}");
        }
    }

    proptest! {
        #[test]
        fn damaged_data_never_panics(
            name in prop::sample::select(vec!["hevc", "av1"]),
            extradata in prop::collection::vec(prop::num::u8::ANY, 0..64),
            packets in prop::collection::vec(prop::collection::vec(prop::num::u8::ANY, 0..64), 0..4),
        ) {
            let mut graph = ReferenceGraph::new(&CodecParams::synthetic(name, &extradata)).expect("read");
            for packet in packets {
                graph.push(&packet);
                graph.push(&[&[0, 0, 1], &packet[..]].concat());
            }
            graph.required_for(&[0, 1]);
        }
    }
}
