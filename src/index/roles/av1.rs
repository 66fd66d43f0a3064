//! In: AV1 temporal units. Out: whether any of their frames is kept for later ones (`refresh_frame_flags`).
//! Everything that outlives a frame lies in the eight reference slots: a frame that fills none leaves no trace.
//! Never: reads a frame header beyond those flags (AV1 specification 5.5, 5.9.2).

use super::Role;
use crate::index::look::leb128;
use crate::index::nal::Bits;

/// What frame headers depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sequence {
    /// Bits of `frame_presentation_time`, where shown frames have one.
    presentation_bits: u32,
    model: Option<Model>,
    /// 0 or 1 as in the sequence, 2: each frame says.
    screen_content: u32,
    integer_vectors: u32,
    order_bits: u32,
}

/// Decoder model: bits of `buffer_removal_time`, and the layers of each operating point that has one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Model {
    removal_bits: u32,
    points: Vec<u32>,
}

pub(super) struct Reader {
    sequence: Option<Sequence>,
}

impl Reader {
    pub fn new(extradata: &[u8]) -> Self {
        let mut this = Self { sequence: None };
        // av1C: marker and version, three bytes more, then OBUs.
        let config = if extradata.first() == Some(&0x81) { extradata.get(4..) } else { Some(extradata) };
        this.role(config.unwrap_or_default());
        this
    }

    pub fn role(&mut self, data: &[u8]) -> Option<Role> {
        const SEQUENCE_HEADER: u8 = 1;
        const FRAME_HEADER: u8 = 3;
        const FRAME: u8 = 6;
        let mut rest = data;
        let (mut frames, mut kept, mut usual) = (0, false, true);
        while let Some((&head, mut body)) = rest.split_first() {
            let mut layers = (0, 0);
            if head & 4 != 0 {
                let (&extension, tail) = body.split_first()?;
                layers = (u32::from(extension >> 5), u32::from(extension >> 3 & 3));
                body = tail;
            }
            let mut size = body.len();
            if head & 2 != 0 {
                let (value, used) = leb128(body)?;
                body = body.get(used..)?;
                size = value;
            }
            let payload = body.get(..size)?;
            rest = &body[size..];
            match head >> 3 & 15 {
                SEQUENCE_HEADER => {
                    self.sequence = sequence(payload);
                    usual = false;
                }
                FRAME_HEADER | FRAME => {
                    frames += 1;
                    kept |= self.sequence.as_ref()?.keeps(payload, layers)?;
                }
                // Delimiters, tiles, metadata (which touches no picture), repeated headers, padding.
                2 | 4 | 5 | 7 | 15 => {}
                _ => usual = false,
            }
        }
        if !usual || frames == 0 {
            return None;
        }
        Some(if kept { Role::Reference { layer: 0 } } else { Role::Leaf { layer: 0 } })
    }
}

impl Sequence {
    /// Whether a frame is kept for later ones. `layers`: (temporal, spatial).
    fn keeps(&self, header: &[u8], layers: (u32, u32)) -> Option<bool> {
        const KEY: u32 = 0;
        const INTRA_ONLY: u32 = 2;
        const SWITCH: u32 = 3;
        let mut bits = Bits::plain(header);
        if bits.bit()? == 1 {
            return Some(true); // shows an older frame; if that is a key frame, all slots are filled
        }
        let (kind, shown) = (bits.take(2)?, bits.bit()? == 1);
        if kind == SWITCH || (kind == KEY && shown) {
            return Some(true);
        }
        if shown {
            bits.skip(self.presentation_bits)?;
        } else {
            bits.bit()?; // showable_frame
        }
        let resilient = bits.bit()? == 1;
        bits.bit()?; // disable_cdf_update
        let screen_content = if self.screen_content == 2 { bits.bit()? } else { self.screen_content };
        if screen_content == 1 && self.integer_vectors == 2 {
            bits.bit()?;
        }
        bits.bit()?; // frame_size_override_flag
        bits.skip(self.order_bits)?;
        if !(kind == KEY || kind == INTRA_ONLY || resilient) {
            bits.skip(3)?; // primary_ref_frame
        }
        if let Some(model) = &self.model {
            if bits.bit()? == 1 {
                for &point in &model.points {
                    let inside = point >> layers.0 & 1 == 1 && point >> (layers.1 + 8) & 1 == 1;
                    if point == 0 || inside {
                        bits.skip(model.removal_bits)?;
                    }
                }
            }
        }
        Some(bits.take(8)? != 0)
    }
}

/// `None` for what is not read here: still pictures, and streams whose frames are numbered.
fn sequence(header: &[u8]) -> Option<Sequence> {
    let mut bits = Bits::plain(header);
    bits.skip(3 + 1)?;
    if bits.bit()? == 1 {
        return None; // reduced_still_picture_header
    }
    let (mut presentation_bits, mut model_bits, mut model) = (0, 0, None);
    if bits.bit()? == 1 {
        bits.skip(32 + 32)?;
        let equal_interval = bits.bit()? == 1;
        if equal_interval {
            bits.ue()?;
        }
        if bits.bit()? == 1 {
            model_bits = bits.take(5)? + 1;
            bits.skip(32)?;
            model = Some(Model { removal_bits: bits.take(5)? + 1, points: Vec::new() });
            let time_bits = bits.take(5)? + 1;
            presentation_bits = if equal_interval { 0 } else { time_bits };
        }
    }
    let display_delay = bits.bit()? == 1;
    for _ in 0..=bits.take(5)? {
        let layers = bits.take(12)?;
        if bits.take(5)? > 7 {
            bits.bit()?;
        }
        if let Some(model) = &mut model {
            if bits.bit()? == 1 {
                model.points.push(layers);
                bits.skip(2 * model_bits + 1)?;
            }
        }
        if display_delay && bits.bit()? == 1 {
            bits.skip(4)?;
        }
    }
    let sides = bits.take(4)? + bits.take(4)? + 2;
    bits.skip(sides)?;
    if bits.bit()? == 1 {
        return None; // frame_id_numbers_present_flag
    }
    bits.skip(3 + 4)?; // tools
    let ordered = bits.bit()? == 1;
    if ordered {
        bits.skip(2)?;
    }
    let screen_content = if bits.bit()? == 1 { 2 } else { bits.bit()? };
    let integer_vectors = if screen_content == 0 || bits.bit()? == 1 { 2 } else { bits.bit()? };
    let order_bits = if ordered { bits.take(3)? + 1 } else { 0 };
    Some(Sequence { presentation_bits, model, screen_content, integer_vectors, order_bits })
}

#[cfg(test)]
mod tests {
    use super::super::by_hand::bits;
    use super::*;

    fn unit(kind: u8, payload: &[u8]) -> Vec<u8> {
        [&[kind << 3 | 2, payload.len() as u8], payload].concat()
    }

    /// A sequence header with order hints of seven bits; `timing`: with a decoder model and presentation times.
    fn sequence_header(timing: bool, numbered: bool) -> Vec<u8> {
        let model = ["1", &"0".repeat(64), "0", "1 00111", &"0".repeat(32), "00011 00100"].concat();
        let point = if timing { ["1", &"0".repeat(17)].concat() } else { String::new() };
        let text = [
            "000 0 0",
            if timing { &model } else { "0" },
            "0 00000 000000000000 00100",
            &point,
            "0001 0001 01 01",
            if numbered { "1 0010 001" } else { "0" },
            "000 0000 1 11 1 1 110",
        ];
        unit(1, &bits(&text.concat()))
    }

    /// An inter frame of that sequence: shown, and kept in the slots `refresh`.
    fn frame(timing: bool, refresh: u8) -> Vec<u8> {
        let time = if timing { "00000" } else { "" };
        let removal = if timing { "1 0000" } else { "" };
        let refresh = format!("{refresh:08b}");
        let text = ["0 01 1", time, "0 0 0 0 0000001 010", removal, &refresh, "111"];
        unit(6, &bits(&text.concat()))
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
        assert_eq!(reader.role(&unit(6, &bits("0 00 1 0 0 0 0"))), REFERENCE);
        assert_eq!(reader.role(&unit(3, &bits("1 010"))), REFERENCE);
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
