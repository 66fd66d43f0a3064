//! Finds AV1 temporal units none of whose frames is kept for later ones (`refresh_frame_flags`).
//! The reference slots hold all state that outlives a frame: one that fills none has no lasting effect.
//! A packet that holds anything unusual besides frames is never disposable.

use super::Role;
use crate::index::av1::{configured, kind, obus, Frame, Sequence};

pub(super) struct Reader {
    sequence: Option<Sequence>,
}

impl Reader {
    pub fn new(extradata: &[u8]) -> Self {
        let mut this = Self { sequence: None };
        this.role(configured(extradata));
        this
    }

    pub fn role(&mut self, data: &[u8]) -> Option<Role> {
        let (mut frames, mut kept, mut usual) = (0, false, true);
        let Some(units) = obus(data) else {
            self.sequence = None; // the truncated unit may have been a new sequence header
            return None;
        };
        for unit in units {
            match unit.kind {
                kind::SEQUENCE_HEADER => {
                    self.sequence = Sequence::read(unit.payload);
                    usual = false;
                }
                kind::FRAME_HEADER | kind::FRAME => {
                    frames += 1;
                    let layers = unit.layers.unwrap_or_default();
                    kept |= match self.sequence.as_ref()?.frame(unit.payload, layers)? {
                        Frame::Again { .. } => true, // a key frame would fill all slots
                        Frame::New { fills, .. } => fills != 0,
                    };
                }
                // Metadata does not affect decoding.
                kind::DELIMITER | kind::TILES | kind::METADATA | kind::HEADER_AGAIN | kind::PADDING => {}
                _ => usual = false,
            }
        }
        if !usual || frames == 0 {
            return None;
        }
        Some(if kept { Role::Reference { layer: 0 } } else { Role::Leaf { layer: 0 } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::av1::by_hand::{again, frame as inter, key, sequence_header, unit};

    fn frame(timing: bool, fills: u8) -> Vec<u8> {
        inter(timing, fills, [0; 7])
    }

    fn reader(sequence: &[u8]) -> Reader {
        Reader::new(&[&[0x81, 0, 0, 0], sequence].concat())
    }

    const LEAF: Option<Role> = Some(Role::Leaf { layer: 0 });
    const REFERENCE: Option<Role> = Some(Role::Reference { layer: 0 });

    #[test]
    fn a_frame_that_fills_no_slot_is_a_leaf() {
        for timing in [false, true] {
            let mut reader = reader(&sequence_header(timing, false));
            let delimiter = unit(2, &[]);
            assert_eq!(reader.role(&[&delimiter[..], &frame(timing, 0)].concat()), LEAF);
            assert_eq!(reader.role(&frame(timing, 1)), REFERENCE);
            assert_eq!(reader.role(&frame(timing, 0x80)), REFERENCE);
            assert_eq!(reader.role(&[frame(timing, 4), frame(timing, 0)].concat()), REFERENCE);
            assert_eq!(reader.role(&[frame(timing, 0), frame(timing, 0)].concat()), LEAF);
        }
    }

    #[test]
    fn key_frames_and_older_frames_shown_again_are_no_leaves() {
        let mut reader = reader(&sequence_header(false, false));
        assert_eq!(reader.role(&key()), REFERENCE);
        assert_eq!(reader.role(&again(2)), REFERENCE);
    }

    #[test]
    fn what_is_unusual_or_cut_is_needed() {
        assert_eq!(Reader::new(&[]).role(&frame(false, 0)), None, "no sequence header");
        let mut numbered = reader(&sequence_header(false, true));
        assert_eq!(numbered.role(&frame(false, 0)), None, "numbered frames");
        let mut reader = reader(&sequence_header(false, false));
        assert_eq!(reader.role(&[sequence_header(false, false), frame(false, 0)].concat()), None);
        assert_eq!(reader.role(&[frame(false, 0), unit(8, &[0])].concat()), None, "a tile list");
        assert_eq!(reader.role(&[]), None);
        let whole = frame(false, 0);
        assert_eq!(reader.role(&whole[..whole.len() - 1]), None);
    }
}
