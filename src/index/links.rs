//! In: the packets of a stretch, in decode order. Out: those that must be decoded so that wanted ones come out exactly.
//! From the references that pictures name in their headers, followed all the way back.
//! Never: guesses. What is damaged, unusual or not understood gives no answer, and the roles decide.

mod av1;
mod hevc;

use crate::media::{CodecKind, CodecParams};

/// Follows which pictures each picture of a stretch of packets refers to.
///
/// H.264 is left out on purpose: where a reference picture is missing, libavcodec sees a gap in `frame_num`.
pub struct Links {
    reader: Reader,
    /// `None` once something was not understood.
    pictures: Option<Vec<Picture>>,
}

enum Reader {
    Hevc(Box<hevc::Reader>),
    Av1(av1::Reader),
}

/// What one packet depends on. Places count from the beginning of the stretch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Picture {
    refers: Vec<usize>,
    /// Something in it outlasts it, whoever refers to its picture.
    lasts: bool,
    /// It refers to what the stretch does not hold, or in a way that is not followed.
    unsound: bool,
    /// Where order counts are derived from those of earlier pictures.
    count: Option<hevc::Count>,
}

impl Links {
    /// `None` for codecs (or configurations) whose references are not read.
    pub fn new(params: &CodecParams) -> Option<Self> {
        let reader = match params.codec.kind {
            CodecKind::Hevc => Reader::Hevc(Box::new(hevc::Reader::new(&params.extradata))),
            CodecKind::Av1 => Reader::Av1(av1::Reader::new(&params.extradata)),
            _ => return None,
        };
        Some(Self { reader, pictures: Some(Vec::new()) })
    }

    /// Takes note of the next packet of the stretch, in decode order, beginning with the start packet.
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

    /// Which of the noted packets must be decoded so that `wanted` (places in the stretch) come out exactly. `None` if
    /// anything was not understood: then decode by roles.
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
