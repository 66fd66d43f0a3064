//! Reads the page headers of a column chunk: what each page contains, and where.
//! Pages are not read. Sizes that exceed the chunk or a limit are errors.

use framespool::error::Result;
use framespool::limits::Limits;

use super::head::Head;
use crate::blocks::Blocks;
use crate::packed::Watch;
use crate::proto::Stretch;

/// Maximum size of a decompressed page, since a page is always decompressed whole.
pub const LARGEST_PAGE: u64 = 1 << 30;
/// Maximum number of values of a dictionary: memory is allocated for all of them before any is read.
const MAX_DICTIONARY: u64 = 1 << 24;
/// Fields of a page header that are structs.
const VALUES: u64 = 5;
const DICTIONARY: u64 = 7;
const VALUES_2: u64 = 8;

/// A page of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageAt {
    /// Offset of its header.
    pub head: u64,
    /// Offset of its data.
    pub data: u64,
    /// Size of its data in the file.
    pub stored: u64,
    /// Size of its data after decompression, according to its header.
    pub unpacked: u64,
    pub holds: Holds,
}

impl PageAt {
    /// Number of values, including missing ones.
    pub fn count(&self) -> u64 {
        match self.holds {
            Holds::Values { count, .. } => count,
            Holds::Dictionary | Holds::Other => 0,
        }
    }
}

/// The contents of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    Dictionary,
    /// Encoded values, preceded by their levels.
    Values {
        count: u64,
        encoding: i64,
        levels: Levels,
    },
    /// Contents that no caller needs.
    Other,
}

/// How a page stores its levels, which mark missing values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Levels {
    /// Part of the page data, preceded by their length, in this encoding.
    Inside { encoding: i64 },
    /// Before the page data: the sizes of repetition and of definition levels, in bytes.
    Ahead { repetitions: u64, definitions: u64 },
}

/// The consecutive pages in a range.
pub fn pages(blocks: &mut Blocks, (begin, end): Stretch, go_on: Watch) -> Result<Vec<PageAt>> {
    let (mut at, mut found) = (begin, Vec::new());
    while at < end {
        go_on()?;
        let page = page(blocks, (at, end))?;
        at = page.data + page.stored;
        found.push(page);
    }
    Ok(found)
}

fn page(blocks: &mut Blocks, (at, end): Stretch) -> Result<PageAt> {
    let head = Head::read(blocks, (at, end))?;
    let whole = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
    let (Some(unpacked), Some(stored)) = (whole(head.number(2)), whole(head.number(3))) else {
        return Err(blocks.damaged(at, "the head of a page that tells no sizes"));
    };
    Limits::check(&blocks.site(at), "bytes of an unpacked page", unpacked, LARGEST_PAGE)?;
    if stored > end - head.end {
        let reason = format!("a page of {stored} bytes where its column has {} more", end - head.end);
        return Err(blocks.damaged(at, reason));
    }
    let counted = |outer: u64| {
        whole(head.inner(outer, 1))
            .ok_or_else(|| blocks.damaged(at, "a page that does not tell how many values it has"))
    };
    let holds = if head.has(VALUES) {
        let levels = Levels::Inside { encoding: head.inner(VALUES, 3).unwrap_or(-1) };
        Holds::Values { count: counted(VALUES)?, encoding: head.inner(VALUES, 2).unwrap_or(-1), levels }
    } else if head.has(VALUES_2) {
        let bytes = |field| whole(head.inner(VALUES_2, field)).unwrap_or(u64::MAX);
        let levels = Levels::Ahead { repetitions: bytes(6), definitions: bytes(5) };
        Holds::Values { count: counted(VALUES_2)?, encoding: head.inner(VALUES_2, 4).unwrap_or(-1), levels }
    } else if head.has(DICTIONARY) {
        let count = counted(DICTIONARY)?;
        Limits::check(&blocks.site(at), "values of a dictionary", count, MAX_DICTIONARY)?;
        if count > unpacked {
            let reason = format!("a dictionary of {count} values in {unpacked} bytes");
            return Err(blocks.damaged(at, reason));
        }
        Holds::Dictionary
    } else {
        Holds::Other
    };
    Ok(PageAt { head: at, data: head.end, stored, unpacked, holds })
}
