//! Parses the record at an offset of a RecordIO file: the ranges of its parts, and the next
//! record's offset. A record has several parts if its data contains the magic number, which is not
//! stored between the parts. Does not read the data of a record.

use framespool::error::Result;

use crate::range_reader::RangeReader;

/// The first bytes of every part.
pub(super) const MAGIC: [u8; 4] = 0xced7_230a_u32.to_le_bytes();
/// Parts are padded to a multiple of this.
const ALIGNMENT: u64 = 4;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Offset of its first byte.
    pub begin: u64,
    /// Offset and length of the data of each part.
    pub parts: Vec<(u64, u64)>,
    /// Offset of the next record.
    pub end: u64,
}

/// The position of a part within its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContinuationFlag {
    Full,
    First,
    Middle,
    Last,
}

impl Record {
    /// # Errors
    /// `Malformed` or `Truncated`, with the offset.
    pub(super) fn read(reader: &mut RangeReader, begin: u64) -> Result<Self> {
        let (mut at, mut parts) = (begin, Vec::new());
        loop {
            let header: [u8; 8] = reader.read_array(at)?;
            let (magic, word) = header.split_at(4);
            if magic != MAGIC {
                let [a, b, c, d] = MAGIC;
                return Err(reader.malformed(
                    at,
                    format!(
                        "no record starts here: found {magic:02x?}, expected {:02x?}",
                        [a, b, c, d]
                    ),
                ));
            }
            let word = word
                .iter()
                .rev()
                .fold(0u32, |sum, &byte| sum << 8 | u32::from(byte));
            let flag = match word >> 29 {
                0 => ContinuationFlag::Full,
                1 => ContinuationFlag::First,
                2 => ContinuationFlag::Middle,
                3 => ContinuationFlag::Last,
                kind => return Err(reader.malformed(at, format!("a part of unknown kind {kind}"))),
            };
            let begun = !parts.is_empty();
            if begun != matches!(flag, ContinuationFlag::Middle | ContinuationFlag::Last) {
                let reason = match begun {
                    true => "the previous record has no end",
                    false => "a part without the start of its record",
                };
                return Err(reader.malformed(at, reason));
            }
            let (data, len) = (at + 8, u64::from(word & 0x1fff_ffff));
            reader.check(data, len.next_multiple_of(ALIGNMENT))?;
            parts.push((data, len));
            at = data + len.next_multiple_of(ALIGNMENT);
            if matches!(flag, ContinuationFlag::Full | ContinuationFlag::Last) {
                return Ok(Self {
                    begin,
                    parts,
                    end: at,
                });
            }
        }
    }
}

/// The header of a packed image.
pub(super) struct ImageHeader {
    /// The label, if there is exactly one.
    pub label: f32,
    /// The number by which the writer identifies the image.
    pub id: u64,
    /// Number of labels after the header; 0 if the label is in the header.
    count: u32,
}

impl ImageHeader {
    pub(super) fn parse(bytes: &[u8; super::IMAGE_HEADER_BYTES as usize]) -> Self {
        let [a, b, c, d, e, f, g, h, id @ .., _, _, _, _, _, _, _, _] = *bytes;
        let (count, label) = (
            u32::from_le_bytes([a, b, c, d]),
            f32::from_le_bytes([e, f, g, h]),
        );
        Self {
            count,
            label,
            id: u64::from_le_bytes(id),
        }
    }

    /// Number of bytes of the labels after the header.
    pub(crate) fn labels_bytes(&self) -> u64 {
        u64::from(self.count) * 4
    }
}
