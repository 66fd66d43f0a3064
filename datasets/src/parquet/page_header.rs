//! Parses a page header, a struct in Thrift's compact protocol: its numbers, those of the structs
//! directly inside it, and where it ends. Other values are skipped. Nothing outside the given range
//! is read.

use framespool::error::Result;

use crate::protobuf::{ByteRange, ProtobufReader};
use crate::range_reader::RangeReader;

/// Maximum nesting depth of structs, lists and maps.
const MAX_DEPTH: u32 = 16;
/// Stands for the field number of structs that are nested deeper than callers need.
const DEEPLY_NESTED: u64 = u64::MAX;
/// Maximum count of numbers in a header, and its maximum length. A page has a dozen, and kilobytes
/// of statistics.
const MAX_INTEGERS: usize = 256;
const MAX_HEADER_BYTES: u64 = 16 << 20;

/// The numbers of a struct by field, and those of its nested structs by field and inner field. A
/// bool is 0 or 1.
#[derive(Default)]
pub(crate) struct PageHeader {
    integers: Vec<((u64, u64), i64)>,
    /// The fields that are structs.
    structs: Vec<u64>,
    /// One past the last byte.
    pub end: u64,
}

impl PageHeader {
    pub(super) fn read(reader: &mut RangeReader, (begin, end): ByteRange) -> Result<Self> {
        let range = (begin, end.min(begin.saturating_add(MAX_HEADER_BYTES)));
        let mut thrift = ThriftReader {
            reader,
            cursor: ProtobufReader::new(range),
            header: PageHeader::default(),
        };
        thrift.fields(0, 0)?;
        let end = thrift.cursor.position();
        Ok(Self {
            end,
            ..thrift.header
        })
    }

    /// The number in a field of the struct itself.
    pub(super) fn integer(&self, field: u64) -> Option<i64> {
        self.inner(0, field)
    }

    /// The number in a field of a nested struct.
    pub(super) fn inner(&self, outer: u64, field: u64) -> Option<i64> {
        self.integers
            .iter()
            .find(|(at, _)| *at == (outer, field))
            .map(|&(_, number)| number)
    }

    /// Whether the field is present and a struct.
    pub(crate) fn has_struct(&self, field: u64) -> bool {
        self.structs.contains(&field)
    }
}

struct ThriftReader<'a> {
    reader: &'a mut RangeReader,
    cursor: ProtobufReader,
    header: PageHeader,
}

impl ThriftReader<'_> {
    /// Reads fields up to the end of a struct; `outer` is the field that contains the struct, 0 for
    /// the outermost.
    fn fields(&mut self, outer: u64, depth: u32) -> Result<()> {
        let mut last = 0i64;
        loop {
            let begin = self.cursor.position();
            let byte = self.byte()?;
            if byte == 0 {
                return Ok(());
            }
            last = match byte >> 4 {
                0 => self.zigzag()?,
                step => last.saturating_add(i64::from(step)),
            };
            let field = u64::try_from(last).map_err(|_| {
                self.reader
                    .malformed(begin, format!("a field with the number {last}"))
            })?;
            let number = self.value(byte & 15, Some((outer, field)), depth)?;
            if let Some(number) = number.filter(|_| outer != DEEPLY_NESTED) {
                // Another reader might use the other value.
                if self.header.inner(outer, field).is_some() {
                    return Err(self
                        .reader
                        .malformed(begin, format!("field {field} appears twice")));
                }
                if self.header.integers.len() == MAX_INTEGERS {
                    return Err(self
                        .reader
                        .malformed(begin, format!("more than {MAX_INTEGERS} numbers")));
                }
                self.header.integers.push(((outer, field), number));
            }
        }
    }

    /// Reads a value and returns it if it is a number. `at` is its field, `None` for elements of
    /// lists and maps.
    fn value(&mut self, kind: u8, at: Option<(u64, u64)>, depth: u32) -> Result<Option<i64>> {
        let begin = self.cursor.position();
        if depth > MAX_DEPTH {
            return Err(self.reader.malformed(begin, "structs nested too deeply"));
        }
        match (kind, at) {
            // The type of a bool field is its value; a bool in a list has a byte.
            (1 | 2, Some(_)) => return Ok(Some(i64::from(kind == 1))),
            (1..=3, _) => return Ok(Some(i64::from(self.byte()?))),
            (4..=6, _) => return self.zigzag().map(Some),
            (7, _) => self.skip(8)?,
            (8, _) => {
                let len = self.cursor.varint(self.reader)?;
                self.skip(len)?;
            }
            (9 | 10, _) => {
                let byte = self.byte()?;
                let count = match byte >> 4 {
                    15 => self.cursor.varint(self.reader)?,
                    few => u64::from(few),
                };
                for _ in 0..count {
                    self.value(byte & 15, None, depth + 1)?;
                }
            }
            (11, _) => {
                let count = self.cursor.varint(self.reader)?;
                let kinds = if count > 0 { self.byte()? } else { 0 };
                for _ in 0..count {
                    self.value(kinds >> 4, None, depth + 1)?;
                    self.value(kinds & 15, None, depth + 1)?;
                }
            }
            (12, Some((0, field))) => {
                if self.header.has_struct(field) {
                    return Err(self
                        .reader
                        .malformed(begin, format!("field {field} appears twice")));
                }
                self.header.structs.push(field);
                self.fields(field, depth + 1)?;
            }
            (12, _) => self.fields(DEEPLY_NESTED, depth + 1)?,
            (13, _) => self.skip(16)?,
            _ => {
                return Err(self
                    .reader
                    .malformed(begin, format!("a value of unknown kind {kind}")));
            }
        }
        Ok(None)
    }

    fn byte(&mut self) -> Result<u8> {
        let (at, _) = self.cursor.skip(self.reader, self.cursor.position(), 1)?;
        self.reader.read_array(at).map(|[byte]| byte)
    }

    fn skip(&mut self, len: u64) -> Result<()> {
        self.cursor
            .skip(self.reader, self.cursor.position(), len)
            .map(drop)
    }

    /// A zigzag-encoded varint.
    fn zigzag(&mut self) -> Result<i64> {
        let number = self.cursor.varint(self.reader)?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }
}
