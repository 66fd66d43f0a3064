//! Iterates over the fields of a Protocol Buffers message in a range of a file.
//! Length-delimited fields are reported as ranges and not read. Nothing outside the message's range is read.

use framespool::error::Result;

use crate::blocks::Blocks;

/// A range of a file: the first byte, and one past the last.
pub type Stretch = (u64, u64);

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A varint.
    Number(u64),
    /// A message, a string, or packed numbers.
    Bytes(Stretch),
    /// A fixed-size number, which no caller needs.
    Fixed,
}

/// An iterator over the fields of a message, which reads on demand.
pub struct Fields {
    at: u64,
    end: u64,
}

impl Fields {
    pub fn of((at, end): Stretch) -> Self {
        Self { at, end }
    }

    /// Offset of the next byte.
    pub fn place(&self) -> u64 {
        self.at
    }

    /// Whether the range is consumed.
    pub fn is_empty(&self) -> bool {
        self.at == self.end
    }

    /// Number and value of the next field; `None` after the last one.
    pub fn next(&mut self, blocks: &mut Blocks) -> Result<Option<(u64, Value)>> {
        if self.is_empty() {
            return Ok(None);
        }
        let begin = self.at;
        let tag = self.number(blocks)?;
        let value = match tag & 7 {
            0 => Value::Number(self.number(blocks)?),
            1 => self.pass(blocks, begin, 8).map(|_| Value::Fixed)?,
            2 => {
                let len = self.number(blocks)?;
                Value::Bytes(self.pass(blocks, begin, len)?)
            }
            5 => self.pass(blocks, begin, 4).map(|_| Value::Fixed)?,
            kind => {
                return Err(blocks.damaged(begin, format!("field {} is of unknown kind {kind}", tag >> 3)))
            }
        };
        Ok(Some((tag >> 3, value)))
    }

    /// A varint: seven bits per byte, the lowest first.
    pub fn number(&mut self, blocks: &mut Blocks) -> Result<u64> {
        let begin = self.at;
        let mut number = 0;
        for shift in (0..70).step_by(7) {
            if self.is_empty() {
                return Err(blocks.damaged(begin, "the record ends inside a number"));
            }
            let [byte] = blocks.array(self.at)?;
            self.at += 1;
            // Only one bit of the tenth byte fits; the others are sign extension or damage, and are dropped.
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(blocks.damaged(begin, "a number of more than ten bytes"))
    }

    /// Skips `len` bytes and returns their range.
    pub fn pass(&mut self, blocks: &Blocks, begin: u64, len: u64) -> Result<Stretch> {
        let from = self.at;
        let end = from.checked_add(len).filter(|&end| end <= self.end);
        self.at = end.ok_or_else(|| {
            let left = self.end - from;
            blocks.damaged(begin, format!("a field of {len} bytes where the record has {left} more"))
        })?;
        Ok((from, self.at))
    }
}
