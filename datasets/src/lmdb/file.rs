//! Opens an LMDB file and reads its meta pages and single pages. A page is accepted only if it
//! contains its own page number. The file is read and not mapped, so that missing data is an error
//! of one read and does not crash the process.

use std::path::Path;

use framespool::error::{Error, Result};

use super::page::{PAGE_HEADER_BYTES, Page, TREE_RECORD_BYTES, read_le};
use crate::range_reader::RangeReader;

/// The magic number of a meta page, and the format version.
const MAGIC: u32 = 0xbeef_c0de;
const VERSION: u32 = 1;
/// Size of a page header with 32-bit page numbers.
const PAGE_HEADER_BYTES_32: usize = 12;
/// Bytes of a meta page that are read.
const META_BYTES: usize = 152;
/// Page flag of a meta page.
const P_META: u64 = 0x08;
/// Maximum depth of a tree in LMDB.
const MAX_DEPTH: u16 = 32;
/// The root page number of an empty tree.
const P_INVALID: u64 = u64::MAX;

/// The record of a tree (`MDB_db`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    pub flags: u16,
    /// Number of levels, including the leaves.
    pub depth: u16,
    /// Number of branch and leaf pages.
    pub pages: u64,
    pub entries: u64,
    /// `None` for an empty tree.
    pub root: Option<u64>,
}

impl Tree {
    /// Parses a tree record; `end` is one past the last page in use.
    pub(super) fn parse(bytes: &[u8; TREE_RECORD_BYTES], end: u64) -> Result<Self, String> {
        let number = |at: usize| read_le(&bytes[at..at + 8]);
        let (flags, depth) = (read_le(&bytes[4..6]) as u16, read_le(&bytes[6..8]) as u16);
        let pages = number(8).saturating_add(number(16));
        let root = Some(number(40)).filter(|&root| root != P_INVALID);
        match root {
            _ if depth > MAX_DEPTH => Err(format!("a tree claims {depth} levels")),
            Some(root) if root >= end => Err(format!("a tree starts at page {root} of {end}")),
            Some(_) if depth == 0 || pages < u64::from(depth) || pages > end => Err(format!(
                "a tree claims {depth} levels and {pages} of {end} pages"
            )),
            None if depth > 0 || number(32) > 0 => Err(format!(
                "a tree of {} entries claims to have no page",
                number(32)
            )),
            root => Ok(Self {
                flags,
                depth,
                pages,
                entries: number(32),
                root,
            }),
        }
    }
}

/// An open LMDB file.
pub(crate) struct LmdbFile {
    pub reader: RangeReader,
    pub page_bytes: u64,
    /// One past the number of the last page in use.
    pub end: u64,
    /// The unnamed tree, which also lists the named trees.
    pub main: Tree,
}

/// The contents of a meta page.
struct MetaPage {
    page_bytes: u64,
    main: [u8; TREE_RECORD_BYTES],
    end: u64,
    transaction: u64,
}

impl LmdbFile {
    /// # Errors
    /// `Malformed` for a file that LMDB did not write, `Unsupported` for its other formats,
    /// `Truncated`.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let mut reader = RangeReader::open(path)?;
        let first = read_meta(&mut reader, 0)?;
        let second = read_meta(&mut reader, first.page_bytes)?;
        if first.page_bytes != second.page_bytes {
            return Err(reader.malformed(
                first.page_bytes + PAGE_HEADER_BYTES as u64 + 24,
                format!(
                    "pages have {} bytes here and {} at byte 0",
                    second.page_bytes, first.page_bytes
                ),
            ));
        }
        let (at, newer) = match second.transaction > first.transaction {
            true => (first.page_bytes, second),
            false => (0, first),
        };
        let main =
            Tree::parse(&newer.main, newer.end).map_err(|reason| reader.malformed(at, reason))?;
        Ok(Self {
            reader,
            page_bytes: newer.page_bytes,
            end: newer.end,
            main,
        })
    }

    pub(crate) fn page_offset(&self, page: u64) -> u64 {
        page.saturating_mul(self.page_bytes)
    }

    /// Reads a page of a tree.
    pub(super) fn page(&mut self, number: u64) -> Result<Page> {
        let at = self.page_offset(number);
        let page = Page::parse(self.reader.get(at, self.page_bytes as usize)?);
        page.and_then(|page| match page.number == number && number < self.end {
            true => Ok(page),
            false => Err(format!(
                "is numbered page {}, but is at the offset of page {number}",
                page.number
            )),
        })
        .map_err(|reason| self.reader.malformed(at, reason))
    }
}

/// Reads the meta page at an offset.
fn read_meta(reader: &mut RangeReader, at: u64) -> Result<MetaPage> {
    let bytes: [u8; META_BYTES] = reader.read_array(at)?;
    let number = |from: usize, len: usize| read_le(&bytes[from..from + len]);
    if number(PAGE_HEADER_BYTES, 4) != u64::from(MAGIC) {
        let elsewhere = |what: &str| Error::Unsupported {
            site: reader.site(at),
            what: format!("an LMDB file {what} (copy it with mdb_dump there and mdb_load here)"),
        };
        return Err(
            if bytes[PAGE_HEADER_BYTES..PAGE_HEADER_BYTES + 4] == MAGIC.to_be_bytes() {
                elsewhere("of a big-endian machine")
            } else if number(PAGE_HEADER_BYTES_32, 4) == u64::from(MAGIC) {
                elsewhere("of a 32-bit machine")
            } else {
                reader.malformed(at, "is not a meta page of LMDB")
            },
        );
    }
    let version = number(PAGE_HEADER_BYTES + 4, 4);
    if version != u64::from(VERSION) {
        let what = format!(
            "version {version} of LMDB's format (copy it with its mdb_dump and the mdb_load of LMDB 0.9)"
        );
        return Err(Error::Unsupported {
            site: reader.site(at),
            what,
        });
    }
    // The record of the free-page tree comes first, and its unused padding field holds the page
    // size.
    let page_bytes = number(40, 4);
    if !(512..=32768).contains(&page_bytes)
        || !page_bytes.is_power_of_two()
        || number(10, 2) & P_META == 0
    {
        return Err(reader.malformed(
            at,
            format!("is not a meta page of LMDB: pages of {page_bytes} bytes"),
        ));
    }
    let mut main = [0; TREE_RECORD_BYTES];
    main.copy_from_slice(&bytes[88..88 + TREE_RECORD_BYTES]);
    let last = number(136, 8);
    Ok(MetaPage {
        page_bytes,
        main,
        end: last.saturating_add(1),
        transaction: number(144, 8),
    })
}
