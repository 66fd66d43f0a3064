//! In: a place in a RecordIO file. Out: the record there: where its parts lie, and where the next one begins.
//! A record has several parts where its data held the magic number, which stood between them.
//! Never: reads a record's data.

use framespool::error::Result;

use crate::blocks::Blocks;

/// What every part begins with.
pub const MAGIC: [u8; 4] = 0xced7_230a_u32.to_le_bytes();
/// Parts and their filling end at a multiple of this.
const STEP: u64 = 4;

/// A record.
#[derive(Debug, PartialEq, Eq)]
pub struct Record {
    /// Its first byte.
    pub begin: u64,
    /// First byte and length of each part's data.
    pub parts: Vec<(u64, u64)>,
    /// Where the next record begins.
    pub end: u64,
}

/// Of which kind a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Whole,
    First,
    Middle,
    Last,
}

impl Record {
    /// # Errors
    /// `Malformed` or `Truncated`, with the byte.
    pub fn at(blocks: &mut Blocks, begin: u64) -> Result<Self> {
        let (mut at, mut parts) = (begin, Vec::new());
        loop {
            let head: [u8; 8] = blocks.array(at)?;
            let (magic, word) = head.split_at(4);
            if magic != MAGIC {
                let [a, b, c, d] = MAGIC;
                return Err(blocks.damaged(
                    at,
                    format!("no record begins here: {magic:02x?} stand where {:02x?} should", [a, b, c, d]),
                ));
            }
            let word = word.iter().rev().fold(0u32, |sum, &byte| sum << 8 | u32::from(byte));
            let piece = match word >> 29 {
                0 => Piece::Whole,
                1 => Piece::First,
                2 => Piece::Middle,
                3 => Piece::Last,
                kind => return Err(blocks.damaged(at, format!("a part of unknown kind {kind}"))),
            };
            let begun = !parts.is_empty();
            if begun != matches!(piece, Piece::Middle | Piece::Last) {
                let reason = match begun {
                    true => "the record before has no end",
                    false => "a part without the beginning of its record",
                };
                return Err(blocks.damaged(at, reason));
            }
            let (data, len) = (at + 8, u64::from(word & 0x1fff_ffff));
            blocks.check(data, len.next_multiple_of(STEP))?;
            parts.push((data, len));
            at = data + len.next_multiple_of(STEP);
            if matches!(piece, Piece::Whole | Piece::Last) {
                return Ok(Self { begin, parts, end: at });
            }
        }
    }
}

/// A packed picture's own header.
pub struct Head {
    /// The label, where there is one only.
    pub label: f32,
    /// What the packer calls the picture by.
    pub id: u64,
    /// How many labels stand behind the header instead.
    count: u32,
}

impl Head {
    pub fn parse(bytes: &[u8; super::OWN_HEAD as usize]) -> Self {
        let [a, b, c, d, e, f, g, h, id @ .., _, _, _, _, _, _, _, _] = *bytes;
        let (count, label) = (u32::from_le_bytes([a, b, c, d]), f32::from_le_bytes([e, f, g, h]));
        Self { count, label, id: u64::from_le_bytes(id) }
    }

    /// Bytes of the labels behind the header.
    pub fn labels_bytes(&self) -> u64 {
        u64::from(self.count) * 4
    }
}
