//! Finds the earlier AV1 temporal units that each one depends on, through the eight reference
//! slots. A packet counts as one picture here, even if it holds several frames. Several spatial
//! layers and sequence changes are not supported.

use crate::codecs::av1::{FrameHeader, SequenceHeader, config_obus, obu_type, parse_obus};
use crate::codecs::codec::ReferenceParser;
use crate::codecs::picture_info::PictureReferences;

pub(crate) struct Av1ReferenceParser {
    sequence: Option<(Vec<u8>, SequenceHeader)>,
    /// Index of the packet that filled each slot, and whether with a key frame.
    slots: [Option<(usize, bool)>; 8],
}

impl Av1ReferenceParser {
    pub(super) fn new(extradata: &[u8]) -> Self {
        let mut this = Self {
            sequence: None,
            slots: [None; 8],
        };
        for unit in parse_obus(config_obus(extradata)).unwrap_or_default() {
            if unit.kind == obu_type::SEQUENCE_HEADER {
                this.sequence =
                    SequenceHeader::parse(unit.payload).map(|s| (unit.payload.to_vec(), s));
            }
        }
        this
    }
}

impl ReferenceParser for Av1ReferenceParser {
    /// After a packet that is not understood, no later packet can be followed either.
    fn parse(&mut self, place: usize, data: &[u8]) -> Option<PictureReferences> {
        let mut picture = PictureReferences::default();
        let mut frames = 0;
        for unit in parse_obus(data)? {
            match unit.kind {
                obu_type::SEQUENCE_HEADER => {
                    self.take_sequence(place, unit.payload, &mut picture)?
                }
                obu_type::FRAME_HEADER | obu_type::FRAME => {
                    let (_, sequence) = self.sequence.as_ref()?;
                    if !sequence.decodes_layers(unit.layers) {
                        return None;
                    }
                    let frame = sequence
                        .parse_frame_header(unit.payload, unit.layers.unwrap_or_default())?;
                    self.take_frame(place, frame, &mut picture)?;
                    frames += 1;
                }
                obu_type::TILE_GROUP | obu_type::REDUNDANT_FRAME_HEADER if frames > 0 => {}
                // Metadata does not affect decoding.
                obu_type::TEMPORAL_DELIMITER | obu_type::METADATA | obu_type::PADDING => {}
                _ => return None,
            }
        }
        picture.affects_later |= frames == 0;
        Some(picture)
    }
}

impl Av1ReferenceParser {
    fn take_sequence(
        &mut self,
        place: usize,
        header: &[u8],
        picture: &mut PictureReferences,
    ) -> Option<()> {
        picture.affects_later = true;
        if self
            .sequence
            .as_ref()
            .is_some_and(|(known, _)| known == header)
        {
            return Some(());
        }
        // A decoder discards all state when the sequence changes.
        if place > 0 {
            return None;
        }
        self.sequence = Some((header.to_vec(), SequenceHeader::parse(header)?));
        Some(())
    }

    fn take_frame(
        &mut self,
        place: usize,
        frame: FrameHeader,
        picture: &mut PictureReferences,
    ) -> Option<()> {
        let (key, refresh_mask, reference_mask) = match frame {
            FrameHeader::ShowExisting { slot } => {
                let key = self.slots[slot as usize].is_some_and(|(_, key)| key);
                (key, if key { 0xff } else { 0 }, 1 << slot)
            }
            FrameHeader::New {
                key,
                refresh_mask,
                reference_mask,
            } => (key, refresh_mask, reference_mask?),
        };
        for slot in (0..8).filter(|slot| reference_mask >> slot & 1 == 1) {
            match self.slots[slot] {
                Some((filler, _)) if filler == place || picture.references.contains(&filler) => {}
                Some((filler, _)) => picture.references.push(filler),
                None => picture.unresolved = true,
            }
        }
        for slot in (0..8).filter(|slot| refresh_mask >> slot & 1 == 1) {
            self.slots[slot] = Some((place, key));
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use crate::codecs::av1::test_headers::{again, frame, key, sequence_header, unit};
    use crate::codecs::references::ReferenceGraph;
    use crate::media::CodecParams;

    fn needed(packets: &[Vec<u8>], wanted: usize) -> Option<Vec<usize>> {
        let mut graph = ReferenceGraph::new(&CodecParams::synthetic(
            "av1",
            &[&[0x81, 0, 0, 0], &sequence_header(false, false)[..]].concat(),
        ))?;
        packets.iter().for_each(|packet| graph.push(packet));
        let needed = graph.required_for(&[wanted])?;
        Some((0..needed.len()).filter(|&n| needed[n]).collect())
    }

    fn inter(refresh_mask: u8, of: u8) -> Vec<u8> {
        frame(false, refresh_mask, [of; 7])
    }

    #[test]
    fn only_frames_in_referenced_slots_are_needed() {
        let packets = [
            key(),
            inter(1 << 1, 0),
            inter(1 << 2, 1),
            frame(false, 0, [0, 0, 0, 0, 2, 0, 0]),
            inter(1 << 1, 0), // slot 1 holds another picture from here on
            inter(0, 1),
        ];
        assert_eq!(needed(&packets, 2), Some(vec![0, 1, 2]));
        assert_eq!(needed(&packets, 3), Some(vec![0, 1, 2, 3]));
        assert_eq!(needed(&packets, 5), Some(vec![0, 4, 5]));
    }

    #[test]
    fn frames_of_one_packet_belong_together() {
        let pair = [inter(1 << 3, 2), inter(0, 3)].concat();
        let packets = [key(), inter(1 << 2, 0), pair, inter(0, 3)];
        assert_eq!(needed(&packets, 3), Some(vec![0, 1, 2, 3]));
        assert_eq!(needed(&packets, 2), Some(vec![0, 1, 2]));
    }

    #[test]
    fn repeated_frame_needs_its_slot() {
        let hidden_key = unit(6, &[0b0000_1000, 0b0000_0001, 0b0000_0100, 0]); // fills slot 2
        let packets = [
            key(),
            inter(1 << 1, 0),
            again(1),
            hidden_key,
            again(2),
            inter(0, 7),
        ];
        assert_eq!(needed(&packets, 2), Some(vec![0, 1, 2]));
        assert_eq!(needed(&packets, 4), Some(vec![0, 3, 4]));
        assert_eq!(needed(&packets, 5), Some(vec![0, 3, 4, 5]));
    }

    #[test]
    fn repeated_sequence_header_is_needed() {
        let same = [sequence_header(false, false), inter(1, 0)].concat();
        assert_eq!(
            needed(&[key(), same, inter(2, 7), inter(0, 1)], 2),
            Some(vec![0, 1, 2])
        );
        let other = [sequence_header(true, false), key()].concat();
        assert_eq!(needed(&[key(), other.clone(), inter(0, 0)], 0), None);
        assert_eq!(
            needed(&[other, frame(true, 0, [0; 7])], 1),
            Some(vec![0, 1])
        );
    }

    #[test]
    fn unusual_or_truncated_data_gives_no_answer() {
        let cut = |mut data: Vec<u8>| {
            data.pop();
            data
        };
        for (why, data) in [
            ("tiles without a frame", unit(4, &[0])),
            ("a tile list", [inter(1, 0), unit(8, &[0])].concat()),
            ("a reserved unit", [inter(1, 0), unit(9, &[0])].concat()),
            (
                "a second spatial layer",
                [&[6 << 3 | 4 | 2, 1 << 3][..], &inter(1, 0)[1..]].concat(),
            ),
            ("cut", cut(inter(1, 0))),
        ] {
            assert_eq!(needed(&[key(), data], 0), None, "{why}");
        }
        assert_eq!(needed(&[inter(1, 0), inter(0, 0)], 1), None, "empty slots");
        assert_eq!(
            needed(&[key(), unit(2, &[]), inter(0, 0)], 2),
            Some(vec![0, 1, 2]),
            "a packet without a frame"
        );
    }
}
