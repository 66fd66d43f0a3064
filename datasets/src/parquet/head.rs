//! Parses a page header, a struct in Thrift's compact protocol: its numbers, those of the structs directly
//! inside it, and where it ends. Other values are skipped. Nothing outside the given range is read.

use framespool::error::Result;

use crate::blocks::Blocks;
use crate::proto::{Fields, Stretch};

/// Maximum nesting depth of structs, lists and maps.
const DEEPEST: u32 = 16;
/// Stands for the field number of structs that are nested deeper than callers need.
const DEEPER: u64 = u64::MAX;
/// Maximum count of numbers in a header, and its maximum length. A page has a dozen, and kilobytes of
/// statistics.
const MAX_NUMBERS: usize = 256;
const LONGEST: u64 = 16 << 20;

/// The numbers of a struct by field, and those of its nested structs by field and inner field. A bool is 0 or
/// 1.
#[derive(Default)]
pub struct Head {
    numbers: Vec<((u64, u64), i64)>,
    /// The fields that are structs.
    structs: Vec<u64>,
    /// One past the last byte.
    pub end: u64,
}

impl Head {
    pub fn read(blocks: &mut Blocks, (begin, end): Stretch) -> Result<Self> {
        let stretch = (begin, end.min(begin.saturating_add(LONGEST)));
        let mut reader = Reader { blocks, bytes: Fields::of(stretch), head: Head::default() };
        reader.fields(0, 0)?;
        let end = reader.bytes.place();
        Ok(Self { end, ..reader.head })
    }

    /// The number in a field of the struct itself.
    pub fn number(&self, field: u64) -> Option<i64> {
        self.inner(0, field)
    }

    /// The number in a field of a nested struct.
    pub fn inner(&self, outer: u64, field: u64) -> Option<i64> {
        self.numbers.iter().find(|(at, _)| *at == (outer, field)).map(|&(_, number)| number)
    }

    /// Whether the field is present and a struct.
    pub fn has(&self, field: u64) -> bool {
        self.structs.contains(&field)
    }
}

struct Reader<'a> {
    blocks: &'a mut Blocks,
    bytes: Fields,
    head: Head,
}

impl Reader<'_> {
    /// Reads fields up to the end of a struct; `outer` is the field that contains the struct, 0 for the
    /// outermost.
    fn fields(&mut self, outer: u64, depth: u32) -> Result<()> {
        let mut last = 0i64;
        loop {
            let begin = self.bytes.place();
            let byte = self.byte()?;
            if byte == 0 {
                return Ok(());
            }
            last = match byte >> 4 {
                0 => self.number()?,
                step => last.saturating_add(i64::from(step)),
            };
            let field = u64::try_from(last)
                .map_err(|_| self.blocks.damaged(begin, format!("a field with the number {last}")))?;
            let number = self.value(byte & 15, Some((outer, field)), depth)?;
            if let Some(number) = number.filter(|_| outer != DEEPER) {
                // Another reader might use the other value.
                if self.head.inner(outer, field).is_some() {
                    return Err(self.blocks.damaged(begin, format!("field {field} is there twice")));
                }
                if self.head.numbers.len() == MAX_NUMBERS {
                    return Err(self.blocks.damaged(begin, format!("more than {MAX_NUMBERS} numbers")));
                }
                self.head.numbers.push(((outer, field), number));
            }
        }
    }

    /// Reads a value and returns it if it is a number. `at` is its field, `None` for elements of lists and
    /// maps.
    fn value(&mut self, kind: u8, at: Option<(u64, u64)>, depth: u32) -> Result<Option<i64>> {
        let begin = self.bytes.place();
        if depth > DEEPEST {
            return Err(self.blocks.damaged(begin, "structs too deep inside each other"));
        }
        match (kind, at) {
            // The type of a bool field is its value; a bool in a list has a byte.
            (1 | 2, Some(_)) => return Ok(Some(i64::from(kind == 1))),
            (1..=3, _) => return Ok(Some(i64::from(self.byte()?))),
            (4..=6, _) => return self.number().map(Some),
            (7, _) => self.pass(8)?,
            (8, _) => {
                let len = self.bytes.number(self.blocks)?;
                self.pass(len)?;
            }
            (9 | 10, _) => {
                let byte = self.byte()?;
                let count = match byte >> 4 {
                    15 => self.bytes.number(self.blocks)?,
                    few => u64::from(few),
                };
                for _ in 0..count {
                    self.value(byte & 15, None, depth + 1)?;
                }
            }
            (11, _) => {
                let count = self.bytes.number(self.blocks)?;
                let kinds = if count > 0 { self.byte()? } else { 0 };
                for _ in 0..count {
                    self.value(kinds >> 4, None, depth + 1)?;
                    self.value(kinds & 15, None, depth + 1)?;
                }
            }
            (12, Some((0, field))) => {
                if self.head.has(field) {
                    return Err(self.blocks.damaged(begin, format!("field {field} is there twice")));
                }
                self.head.structs.push(field);
                self.fields(field, depth + 1)?;
            }
            (12, _) => self.fields(DEEPER, depth + 1)?,
            (13, _) => self.pass(16)?,
            _ => return Err(self.blocks.damaged(begin, format!("a value of unknown kind {kind}"))),
        }
        Ok(None)
    }

    fn byte(&mut self) -> Result<u8> {
        let (at, _) = self.bytes.pass(self.blocks, self.bytes.place(), 1)?;
        self.blocks.array(at).map(|[byte]| byte)
    }

    fn pass(&mut self, len: u64) -> Result<()> {
        self.bytes.pass(self.blocks, self.bytes.place(), len).map(drop)
    }

    /// A zigzag-encoded varint.
    fn number(&mut self) -> Result<i64> {
        let number = self.bytes.number(self.blocks)?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }
}
