//! In: a stretch of a file that holds a message of Protocol Buffers.
//! Out: its fields, one after another; of those with a length, where they lie.
//! Never: reads what a field holds, or leaves the stretch.

use framespool::error::Result;

use crate::blocks::Blocks;

/// A stretch of a file: first byte, and the one behind the last.
pub type Stretch = (u64, u64);

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// A message, a string, or numbers one after another.
    Bytes(Stretch),
    /// A number of fixed length, which nothing here asks for.
    Fixed,
}

/// The fields of a message, read as far as they are asked for.
pub struct Fields {
    at: u64,
    end: u64,
}

impl Fields {
    pub fn of((at, end): Stretch) -> Self {
        Self { at, end }
    }

    /// The byte that is next.
    pub fn place(&self) -> u64 {
        self.at
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.at == self.end
    }

    /// Number and value of the next field; `None` behind the last one.
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

    /// A number of as many bytes as it needs: seven bits in each, the lowest first.
    pub fn number(&mut self, blocks: &mut Blocks) -> Result<u64> {
        let begin = self.at;
        let mut number = 0;
        for shift in (0..70).step_by(7) {
            if self.is_empty() {
                return Err(blocks.damaged(begin, "the record ends inside a number"));
            }
            let [byte] = blocks.array(self.at)?;
            self.at += 1;
            // Of the tenth byte one bit is left; the rest is what negative numbers repeat, or damage.
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(blocks.damaged(begin, "a number of more than ten bytes"))
    }

    /// The next `len` bytes, which are passed over.
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
