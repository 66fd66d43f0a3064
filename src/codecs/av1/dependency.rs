//! Finds AV1 temporal units none of whose frames is kept for later ones (`refresh_frame_flags`).
//! The reference slots hold all state that outlives a frame: one that fills none has no lasting
//! effect. A packet that holds anything unusual besides frames is never disposable.

use crate::codecs::av1::{FrameHeader, SequenceHeader, config_obus, obu_type, parse_obus};
use crate::codecs::codec::PacketDependencyParser;
use crate::codecs::picture_info::Dependency;

pub(crate) struct Av1DependencyParser {
    sequence: Option<SequenceHeader>,
}

impl Av1DependencyParser {
    pub(super) fn new(extradata: &[u8]) -> Self {
        let mut this = Self { sequence: None };
        this.parse(config_obus(extradata));
        this
    }
}

impl PacketDependencyParser for Av1DependencyParser {
    fn parse(&mut self, data: &[u8]) -> Option<Dependency> {
        let (mut frames, mut kept, mut usual) = (0, false, true);
        let Some(units) = parse_obus(data) else {
            self.sequence = None; // the truncated unit may have been a new sequence header
            return None;
        };
        for unit in units {
            match unit.kind {
                obu_type::SEQUENCE_HEADER => {
                    self.sequence = SequenceHeader::parse(unit.payload);
                    usual = false;
                }
                obu_type::FRAME_HEADER | obu_type::FRAME => {
                    frames += 1;
                    let layers = unit.layers.unwrap_or_default();
                    kept |= match self
                        .sequence
                        .as_ref()?
                        .parse_frame_header(unit.payload, layers)?
                    {
                        FrameHeader::ShowExisting { .. } => true, // a key frame would fill all slots
                        FrameHeader::New { refresh_mask, .. } => refresh_mask != 0,
                    };
                }
                // Metadata does not affect decoding.
                obu_type::TEMPORAL_DELIMITER
                | obu_type::TILE_GROUP
                | obu_type::METADATA
                | obu_type::REDUNDANT_FRAME_HEADER
                | obu_type::PADDING => {}
                _ => usual = false,
            }
        }
        if !usual || frames == 0 {
            return None;
        }
        Some(if kept {
            Dependency::Reference { layer: 0 }
        } else {
            Dependency::Disposable { layer: 0 }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codecs::av1::test_headers::{again, frame as inter, key, sequence_header, unit};

    fn frame(timing: bool, refresh_mask: u8) -> Vec<u8> {
        inter(timing, refresh_mask, [0; 7])
    }

    fn parser(sequence: &[u8]) -> Av1DependencyParser {
        Av1DependencyParser::new(&[&[0x81, 0, 0, 0], sequence].concat())
    }

    const DISPOSABLE: Option<Dependency> = Some(Dependency::Disposable { layer: 0 });
    const REFERENCE: Option<Dependency> = Some(Dependency::Reference { layer: 0 });

    #[test]
    fn frame_that_refreshes_no_slot_is_disposable() {
        for timing in [false, true] {
            let mut parser = parser(&sequence_header(timing, false));
            let delimiter = unit(2, &[]);
            assert_eq!(
                parser.parse(&[&delimiter[..], &frame(timing, 0)].concat()),
                DISPOSABLE
            );
            assert_eq!(parser.parse(&frame(timing, 1)), REFERENCE);
            assert_eq!(parser.parse(&frame(timing, 0x80)), REFERENCE);
            assert_eq!(
                parser.parse(&[frame(timing, 4), frame(timing, 0)].concat()),
                REFERENCE
            );
            assert_eq!(
                parser.parse(&[frame(timing, 0), frame(timing, 0)].concat()),
                DISPOSABLE
            );
        }
    }

    #[test]
    fn key_and_repeated_frames_are_not_disposable() {
        let mut parser = parser(&sequence_header(false, false));
        assert_eq!(parser.parse(&key()), REFERENCE);
        assert_eq!(parser.parse(&again(2)), REFERENCE);
    }

    #[test]
    fn unusual_or_truncated_data_is_not_disposable() {
        assert_eq!(
            Av1DependencyParser::new(&[]).parse(&frame(false, 0)),
            None,
            "no sequence header"
        );
        let mut numbered = parser(&sequence_header(false, true));
        assert_eq!(numbered.parse(&frame(false, 0)), None, "numbered frames");
        let mut parser = parser(&sequence_header(false, false));
        assert_eq!(
            parser.parse(&[sequence_header(false, false), frame(false, 0)].concat()),
            None
        );
        assert_eq!(
            parser.parse(&[frame(false, 0), unit(8, &[0])].concat()),
            None,
            "a tile list"
        );
        assert_eq!(parser.parse(&[]), None);
        let whole = frame(false, 0);
        assert_eq!(parser.parse(&whole[..whole.len() - 1]), None);
    }
}
