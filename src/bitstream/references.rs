//! Finds the packets needed to decode pictures exactly, by following the references in slice and
//! frame headers. Packets that are damaged, unusual or not understood give no result; the caller
//! then uses `Dependency`.

use super::av1::references::Av1ReferenceParser;
use super::hevc::references::{self as hevc, HevcReferenceParser};
use super::picture_info::PictureReferences;
use crate::media::{CodecKind, CodecParams};

/// Records which pictures each picture in a range of packets refers to.
///
/// H.264 is excluded on purpose: libavcodec treats a missing reference picture as a gap in
/// `frame_num`.
pub struct ReferenceGraph {
    parser: CodecReferenceParser,
    /// `None` once a packet was not understood.
    pictures: Option<Vec<PictureReferences>>,
}

enum CodecReferenceParser {
    Hevc(Box<HevcReferenceParser>),
    Av1(Av1ReferenceParser),
}

impl ReferenceGraph {
    /// Returns `None` for codecs whose references are not parsed.
    pub fn new(params: &CodecParams) -> Option<Self> {
        let parser = match params.codec.kind {
            CodecKind::Hevc => {
                CodecReferenceParser::Hevc(Box::new(HevcReferenceParser::new(&params.extradata)))
            }
            CodecKind::Av1 => CodecReferenceParser::Av1(Av1ReferenceParser::new(&params.extradata)),
            _ => return None,
        };
        Some(Self {
            parser,
            pictures: Some(Vec::new()),
        })
    }

    /// Records the next packet of the range in decode order; the first one is the start packet.
    pub fn push(&mut self, data: &[u8]) {
        let Some(pictures) = &mut self.pictures else {
            return;
        };
        let place = pictures.len();
        let picture = match &mut self.parser {
            CodecReferenceParser::Hevc(parser) => parser.parse(place, data),
            CodecReferenceParser::Av1(parser) => parser.parse(place, data),
        };
        match picture {
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
            open = hevc::missing_poc_anchors(pictures, &needed);
        }
        Some(needed)
    }
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
