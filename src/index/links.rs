//! Finds the packets needed to decode pictures exactly, by following the references in slice and frame
//! headers.
//! Packets that are damaged, unusual or not understood give no result; then the caller uses the roles.

mod av1;
mod hevc;

use crate::media::{CodecKind, CodecParams};

/// Records which pictures each picture in a range of packets refers to.
///
/// H.264 is excluded on purpose: libavcodec treats a missing reference picture as a gap in `frame_num`.
pub struct Links {
    reader: Reader,
    /// `None` once a packet was not understood.
    pictures: Option<Vec<Picture>>,
}

enum Reader {
    Hevc(Box<hevc::Reader>),
    Av1(av1::Reader),
}

/// Dependencies of one packet. Indices count from the beginning of the range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Picture {
    refers: Vec<usize>,
    /// Something in it affects later packets, even if none refers to its picture.
    lasts: bool,
    /// It refers to a picture outside the range, or in a way that is not followed.
    unsound: bool,
    /// Picture order count, for codecs that derive it from those of earlier pictures.
    count: Option<hevc::Count>,
}

impl Links {
    /// Returns `None` for codecs whose references are not parsed.
    pub fn new(params: &CodecParams) -> Option<Self> {
        let reader = match params.codec.kind {
            CodecKind::Hevc => Reader::Hevc(Box::new(hevc::Reader::new(&params.extradata))),
            CodecKind::Av1 => Reader::Av1(av1::Reader::new(&params.extradata)),
            _ => return None,
        };
        Some(Self { reader, pictures: Some(Vec::new()) })
    }

    /// Records the next packet of the range in decode order; the first one is the start packet.
    pub fn note(&mut self, data: &[u8]) {
        let Some(pictures) = &mut self.pictures else { return };
        let place = pictures.len();
        let picture = match &mut self.reader {
            Reader::Hevc(reader) => reader.picture(place, data),
            Reader::Av1(reader) => reader.picture(place, data),
        };
        match picture {
            Some(picture) => pictures.push(picture),
            None => self.pictures = None,
        }
    }

    /// Returns which of the recorded packets must be decoded so that `wanted` (indices in the range) are
    /// exact. Returns `None` if a packet was not understood: then decode by roles.
    pub fn needed(&self, wanted: &[usize]) -> Option<Vec<bool>> {
        let pictures = self.pictures.as_deref().filter(|p| !p.is_empty())?;
        let lasting = (0..pictures.len()).filter(|&place| pictures[place].lasts);
        let mut open: Vec<usize> = wanted.iter().copied().chain([0]).chain(lasting).collect();
        let mut needed = vec![false; pictures.len()];
        while !open.is_empty() {
            while let Some(place) = open.pop() {
                let picture = pictures.get(place)?;
                if !std::mem::replace(&mut needed[place], true) {
                    if picture.unsound {
                        return None;
                    }
                    open.extend(&picture.refers);
                }
            }
            open = hevc::lost_counts(pictures, &needed);
        }
        Some(needed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn other_codecs_are_left_to_their_roles() {
        for name in ["h264", "vp8", "vp9", "mpeg4", "mpeg2video", "mjpeg"] {
            assert!(Links::new(&CodecParams::sketch(name, &[])).is_none(), "{name}");
        }
    }

    #[test]
    fn a_stretch_without_packets_and_places_beyond_it_give_no_answer() {
        let mut links = Links::new(&CodecParams::sketch("av1", &[])).expect("read");
        assert_eq!(links.needed(&[]), None);
        links.pictures = Some(vec![Picture::default()]);
        assert_eq!(links.needed(&[0]), Some(vec![true]));
        assert_eq!(links.needed(&[1]), None);
    }

    #[test]
    fn references_are_followed_all_the_way_and_what_lasts_is_needed_with_its_own() {
        let mut links = Links::new(&CodecParams::sketch("av1", &[])).expect("read");
        let refers = |places: &[usize]| Picture { refers: places.to_vec(), ..Picture::default() };
        let lasts = Picture { lasts: true, ..refers(&[3]) };
        links.pictures =
            Some(vec![refers(&[]), refers(&[0]), refers(&[1]), refers(&[0]), lasts, refers(&[2])]);
        assert_eq!(links.needed(&[2]).expect("understood"), [true, true, true, true, true, false]);
        let unsound = Picture { unsound: true, ..Picture::default() };
        links.pictures = Some(vec![refers(&[]), unsound, refers(&[1]), refers(&[0])]);
        assert_eq!(links.needed(&[3]).expect("not concerned"), [true, false, false, true]);
        assert_eq!(links.needed(&[2]), None);
    }

    proptest! {
        #[test]
        fn damaged_data_never_panics(
            name in prop::sample::select(vec!["hevc", "av1"]),
            extradata in prop::collection::vec(prop::num::u8::ANY, 0..64),
            packets in prop::collection::vec(prop::collection::vec(prop::num::u8::ANY, 0..64), 0..4),
        ) {
            let mut links = Links::new(&CodecParams::sketch(name, &extradata)).expect("read");
            for packet in packets {
                links.note(&packet);
                links.note(&[&[0, 0, 1], &packet[..]].concat());
            }
            links.needed(&[0, 1]);
        }
    }
}
