//! Iterates over the fields of a Protocol Buffers message in a range of a file. Length-delimited
//! fields are reported as ranges and not read. Nothing outside the message's range is read.

use framespool::error::Result;

use crate::range_reader::RangeReader;

/// A range of a file: the first byte, and one past the last.
pub(crate) type ByteRange = (u64, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValue {
    Varint(u64),
    /// A message, a string, or packed numbers.
    Bytes(ByteRange),
    /// A fixed-size number, which no caller needs.
    Fixed,
}

/// An iterator over the fields of a message, which reads on demand.
pub(crate) struct ProtobufReader {
    at: u64,
    end: u64,
}

impl ProtobufReader {
    pub(crate) fn new((at, end): ByteRange) -> Self {
        Self { at, end }
    }

    /// Offset of the next byte.
    pub(crate) fn position(&self) -> u64 {
        self.at
    }

    /// Whether the range is consumed.
    pub(crate) fn is_empty(&self) -> bool {
        self.at == self.end
    }

    /// Number and value of the next field; `None` after the last one.
    pub(crate) fn next(&mut self, reader: &mut RangeReader) -> Result<Option<(u64, FieldValue)>> {
        if self.is_empty() {
            return Ok(None);
        }
        let begin = self.at;
        let tag = self.varint(reader)?;
        let value = match tag & 7 {
            0 => FieldValue::Varint(self.varint(reader)?),
            1 => self.skip(reader, begin, 8).map(|_| FieldValue::Fixed)?,
            2 => {
                let len = self.varint(reader)?;
                FieldValue::Bytes(self.skip(reader, begin, len)?)
            }
            5 => self.skip(reader, begin, 4).map(|_| FieldValue::Fixed)?,
            kind => {
                return Err(reader.malformed(
                    begin,
                    format!("field {} is of unknown kind {kind}", tag >> 3),
                ));
            }
        };
        Ok(Some((tag >> 3, value)))
    }

    /// A varint: seven bits per byte, the lowest first.
    pub(crate) fn varint(&mut self, reader: &mut RangeReader) -> Result<u64> {
        let begin = self.at;
        let mut number = 0;
        for shift in (0..70).step_by(7) {
            if self.is_empty() {
                return Err(reader.malformed(begin, "the record ends inside a number"));
            }
            let [byte] = reader.read_array(self.at)?;
            self.at += 1;
            // Only one bit of the tenth byte fits; the others are sign extension or damage, and are
            // dropped.
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(reader.malformed(begin, "a number of more than ten bytes"))
    }

    /// Skips `len` bytes and returns their range.
    pub(crate) fn skip(&mut self, reader: &RangeReader, begin: u64, len: u64) -> Result<ByteRange> {
        let from = self.at;
        let end = from.checked_add(len).filter(|&end| end <= self.end);
        self.at = end.ok_or_else(|| {
            let left = self.end - from;
            reader.malformed(
                begin,
                format!("a field of {len} bytes where the record has {left} more"),
            )
        })?;
        Ok((from, self.at))
    }
}
