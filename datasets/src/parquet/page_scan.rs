//! Reads the page headers of a column chunk: what each page contains, and where.
//! Pages are not read. Sizes that exceed the chunk or a limit are errors.

use framespool::error::Result;
use framespool::limits::Limits;
use framespool::source::check_interrupt;

use super::page_header::PageHeader;
use crate::protobuf::ByteRange;
use crate::range_reader::RangeReader;

/// Maximum size of a decompressed page, since a page is always decompressed whole.
pub(crate) const MAX_PAGE_BYTES: u64 = 1 << 30;
/// Maximum number of values of a dictionary: memory is allocated for all of them before any is
/// read.
const MAX_DICTIONARY_VALUES: u64 = 1 << 24;
/// Fields of a page header that are structs.
const DATA_PAGE_HEADER: u64 = 5;
const DICTIONARY_PAGE_HEADER: u64 = 7;
const DATA_PAGE_HEADER_V2: u64 = 8;

/// A page of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageLocation {
    pub header_offset: u64,
    pub data_offset: u64,
    /// Size of its data in the file.
    pub compressed_size: u64,
    /// Size of its data after decompression, according to its header.
    pub uncompressed_size: u64,
    pub contents: PageContents,
}

impl PageLocation {
    /// Number of values, including missing ones.
    pub(super) fn count(&self) -> u64 {
        match self.contents {
            PageContents::Values { count, .. } => count,
            PageContents::Dictionary | PageContents::Other => 0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageContents {
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
pub(crate) enum Levels {
    /// Part of the page data, preceded by their length, in this encoding.
    V1 { encoding: i64 },
    /// Before the page data: the sizes of repetition and of definition levels, in bytes.
    V2 { repetitions: u64, definitions: u64 },
}

/// The consecutive pages in a range.
pub(crate) fn scan_pages(
    reader: &mut RangeReader,
    (begin, end): ByteRange,
) -> Result<Vec<PageLocation>> {
    let (mut at, mut found) = (begin, Vec::new());
    while at < end {
        check_interrupt()?;
        let page = scan_page(reader, (at, end))?;
        at = page.data_offset + page.compressed_size;
        found.push(page);
    }
    Ok(found)
}

fn scan_page(reader: &mut RangeReader, (at, end): ByteRange) -> Result<PageLocation> {
    let header = PageHeader::read(reader, (at, end))?;
    let whole = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
    let (Some(uncompressed_size), Some(compressed_size)) =
        (whole(header.integer(2)), whole(header.integer(3)))
    else {
        return Err(reader.malformed(at, "a page header without sizes"));
    };
    Limits::check(
        &reader.site(at),
        "bytes of a decompressed page",
        uncompressed_size,
        MAX_PAGE_BYTES,
    )?;
    if compressed_size > end - header.end {
        let reason = format!(
            "a page of {compressed_size} bytes where its column has {} more",
            end - header.end
        );
        return Err(reader.malformed(at, reason));
    }
    let counted = |outer: u64| {
        whole(header.inner(outer, 1))
            .ok_or_else(|| reader.malformed(at, "a page header without a number of values"))
    };
    let contents = if header.has_struct(DATA_PAGE_HEADER) {
        let levels = Levels::V1 {
            encoding: header.inner(DATA_PAGE_HEADER, 3).unwrap_or(-1),
        };
        PageContents::Values {
            count: counted(DATA_PAGE_HEADER)?,
            encoding: header.inner(DATA_PAGE_HEADER, 2).unwrap_or(-1),
            levels,
        }
    } else if header.has_struct(DATA_PAGE_HEADER_V2) {
        let bytes = |field| whole(header.inner(DATA_PAGE_HEADER_V2, field)).unwrap_or(u64::MAX);
        let levels = Levels::V2 {
            repetitions: bytes(6),
            definitions: bytes(5),
        };
        PageContents::Values {
            count: counted(DATA_PAGE_HEADER_V2)?,
            encoding: header.inner(DATA_PAGE_HEADER_V2, 4).unwrap_or(-1),
            levels,
        }
    } else if header.has_struct(DICTIONARY_PAGE_HEADER) {
        let count = counted(DICTIONARY_PAGE_HEADER)?;
        Limits::check(
            &reader.site(at),
            "values of a dictionary",
            count,
            MAX_DICTIONARY_VALUES,
        )?;
        if count > uncompressed_size {
            let reason = format!("a dictionary of {count} values in {uncompressed_size} bytes");
            return Err(reader.malformed(at, reason));
        }
        PageContents::Dictionary
    } else {
        PageContents::Other
    };
    Ok(PageLocation {
        header_offset: at,
        data_offset: header.end,
        compressed_size,
        uncompressed_size,
        contents,
    })
}
