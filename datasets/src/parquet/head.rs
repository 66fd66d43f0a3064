//! In: a stretch of a file that begins with a struct in Thrift's compact protocol: the head of a page.
//! Out: its numbers, and those of the structs right inside it; and where it ends.
//! Never: reads what else it holds, or leaves the stretch.

use framespool::error::Result;

use crate::blocks::Blocks;
use crate::proto::{Fields, Stretch};

/// Structs, lists and maps inside each other.
const DEEPEST: u32 = 16;
/// What a field is of that lies deeper than is asked for.
const DEEPER: u64 = u64::MAX;
/// Most numbers of a head, and the longest one: a page has a dozen, and statistics of some kilobytes.
const MOST_NUMBERS: usize = 256;
const LONGEST: u64 = 16 << 20;

/// Numbers of a struct by field, and by field of a struct in it; a flag is 0 or 1.
#[derive(Default)]
pub struct Head {
    numbers: Vec<((u64, u64), i64)>,
    /// Structs in it.
    structs: Vec<u64>,
    /// One past its last byte.
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

    /// The number of a field of the struct itself.
    pub fn number(&self, field: u64) -> Option<i64> {
        self.inner(0, field)
    }

    /// The number of a field of a struct in it.
    pub fn inner(&self, outer: u64, field: u64) -> Option<i64> {
        self.numbers.iter().find(|(at, _)| *at == (outer, field)).map(|&(_, number)| number)
    }

    /// Whether the field is a struct that is there.
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
    /// Fields up to the end of a struct; `outer` is the field that the struct is, 0 for the one itself.
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
                // Whoever reads it otherwise would take the other one.
                if self.head.inner(outer, field).is_some() {
                    return Err(self.blocks.damaged(begin, format!("field {field} is there twice")));
                }
                if self.head.numbers.len() == MOST_NUMBERS {
                    return Err(self.blocks.damaged(begin, format!("more than {MOST_NUMBERS} numbers")));
                }
                self.head.numbers.push(((outer, field), number));
            }
        }
    }

    /// A value, if it is a number; anything else is passed over. `at`: the field that it is of, if it is of one.
    fn value(&mut self, kind: u8, at: Option<(u64, u64)>, depth: u32) -> Result<Option<i64>> {
        let begin = self.bytes.place();
        if depth > DEEPEST {
            return Err(self.blocks.damaged(begin, "structs too deep inside each other"));
        }
        match (kind, at) {
            // A flag of a field is its kind; one in a list has a byte.
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

    /// A number with a sign, which is its lowest bit.
    fn number(&mut self) -> Result<i64> {
        let number = self.bytes.number(self.blocks)?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }
}
