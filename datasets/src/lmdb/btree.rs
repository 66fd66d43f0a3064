//! Walks a tree of an LMDB file and returns its keys in order, with the byte range of each value.
//! Errors name the damaged page, and the caller decides whether the walk continues with the other
//! pages. Visits at most as many pages as the file has, even if pages refer to each other in a
//! cycle.

use std::cmp::Ordering;

use framespool::error::{Error, Result};
use framespool::source::check_interrupt;

use super::file::{LmdbFile, Tree};
use super::page::{
    NodeData, PAGE_HEADER_BYTES, Page, PageKind, TREE_RECORD_BYTES, overflow_page_count, read_le,
};

/// Tree flags.
const MDB_REVERSEKEY: u16 = 0x02;
const MDB_DUPSORT: u16 = 0x04;
const MDB_INTEGERKEY: u16 = 0x08;

/// What a key refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemData {
    /// A value, stored contiguously.
    Value { offset: u64, len: u64 },
    /// The record of a named tree.
    Tree([u8; TREE_RECORD_BYTES]),
}

/// A key and what it refers to.
pub(crate) struct TreeItem {
    pub key: Vec<u8>,
    pub data: ItemData,
}

impl Tree {
    /// Whether keys are native integers, which sort by value.
    pub(crate) fn has_integer_keys(&self) -> bool {
        self.flags & MDB_INTEGERKEY != 0
    }

    fn compare(&self, one: &[u8], other: &[u8]) -> Ordering {
        match self.flags {
            flags if flags & MDB_INTEGERKEY != 0 => one.len().cmp(&other.len()).then_with(|| {
                one.iter().rev().cmp(other.iter().rev()) // little-endian: compare from the highest byte
            }),
            flags if flags & MDB_REVERSEKEY != 0 => one.iter().rev().cmp(other.iter().rev()),
            _ => one.cmp(other),
        }
    }
}

/// Reads the items of a tree. `check` also compares the first overflow page of each long value with
/// the node that refers to it. `fail` handles each error: if it returns `Ok`, the walk continues
/// with what the error does not affect.
pub(crate) fn traverse(
    file: &mut LmdbFile,
    tree: &Tree,
    check: bool,
    mut fail: impl FnMut(Error) -> Result<()>,
) -> Result<Vec<TreeItem>> {
    if tree.flags & MDB_DUPSORT != 0 {
        return Err(Error::Unsupported {
            site: file
                .reader
                .site(tree.root.map_or(0, |root| file.page_offset(root))),
            what: "an LMDB database whose keys have several values each (MDB_DUPSORT)".to_owned(),
        });
    }
    let Some(root) = tree.root else {
        return Ok(Vec::new());
    };
    // Page ranges in use, of the tree and of overflow values. No page may be used twice.
    let mut used: Vec<(u64, u64)> = Vec::new();
    let mut items: Vec<TreeItem> = Vec::new();
    let mut intact = true;
    // Number of pages that the file contains; its meta page may claim far more.
    let page_count = file.end.min(file.reader.len().div_ceil(file.page_bytes));
    let mut visits = 0;
    // Branches from the root down, each with the index of its next node. All leaves are at the same
    // depth.
    let mut path: Vec<(Page, usize)> = Vec::new();
    let mut next = Some(root);
    loop {
        check_interrupt()?;
        if let Some(number) = next.take() {
            if visits >= page_count {
                let reason =
                    "pages refer to each other in a cycle; the remaining entries are not read";
                fail(file.reader.malformed(file.page_offset(number), reason))?;
                return Ok(items);
            }
            visits += u64::from(number < page_count);
            used.push((number, 1));
            let leaf = path.len() + 1 == usize::from(tree.depth);
            let page = file.page(number).and_then(|page| match (page.kind, leaf) {
                (PageKind::Leaf, true) | (PageKind::Branch, false) => Ok(page),
                (kind, _) => {
                    let (kind, level) = (kind.name(), path.len() + 1);
                    let reason = format!("is a {kind} page on level {level} of {}", tree.depth);
                    Err(file.reader.malformed(file.page_offset(number), reason))
                }
            });
            let read = page.and_then(|page| match leaf {
                true => leaf_items(file, tree, &page, check, &mut items, &mut used),
                false => {
                    path.push((page, 0));
                    Ok(())
                }
            });
            if let Err(error) = read {
                intact = false;
                fail(error)?;
            }
            continue;
        }
        let Some((branch, at)) = path.last_mut() else {
            break;
        };
        if *at == branch.len() {
            path.pop();
            continue;
        }
        let child = branch
            .child(*at)
            .map_err(|reason| (file.page_offset(branch.number), reason));
        *at += 1;
        match child {
            Ok(child) => next = Some(child),
            Err((page_offset, reason)) => {
                intact = false;
                fail(file.reader.malformed(page_offset, reason))?;
            }
        }
    }
    // If damage was reported, totals cannot match; otherwise check them against the tree record.
    if intact {
        if items.len() as u64 != tree.entries {
            let reason = format!(
                "a database of {} entries, but {} were found",
                tree.entries,
                items.len()
            );
            fail(file.reader.malformed(file.page_offset(root), reason))?;
        }
        used.sort_unstable();
        if let Some(pair) = used
            .windows(2)
            .find(|pair| pair[0].0.saturating_add(pair[0].1) > pair[1].0)
        {
            let reason = format!(
                "page {} is referenced twice: a page that refers to it is damaged",
                pair[1].0
            );
            fail(file.reader.malformed(file.page_offset(pair[1].0), reason))?;
        }
    }
    Ok(items)
}

/// Appends the items of a leaf, or none if one of them is damaged.
fn leaf_items(
    file: &mut LmdbFile,
    tree: &Tree,
    page: &Page,
    check: bool,
    items: &mut Vec<TreeItem>,
    used: &mut Vec<(u64, u64)>,
) -> Result<()> {
    let page_offset = file.page_offset(page.number);
    let (before, used_before) = (items.len(), used.len());
    let mut read = || {
        for number in 0..page.len() {
            let (key, data) = page
                .leaf_node(number)
                .map_err(|reason| file.reader.malformed(page_offset, reason))?;
            if items
                .last()
                .is_some_and(|last| tree.compare(&last.key, key) != Ordering::Less)
            {
                let reason =
                    format!("the key of node {number} does not come after the one before it");
                return Err(file.reader.malformed(page_offset, reason));
            }
            let item_data = match data {
                NodeData::Inline(at, len) => ItemData::Value {
                    offset: page_offset + at as u64,
                    len,
                },
                NodeData::Tree(tree) => ItemData::Tree(tree),
                NodeData::Overflow(first, len) => {
                    let (offset, pages) = overflow_range(file, first, len, check)?;
                    used.push((first, pages));
                    ItemData::Value { offset, len }
                }
                NodeData::Duplicates => {
                    return Err(Error::Unsupported {
                        site: file.reader.site(page_offset),
                        what: "an LMDB key that has several values".to_owned(),
                    });
                }
            };
            items.push(TreeItem {
                key: key.to_vec(),
                data: item_data,
            });
        }
        Ok(())
    };
    let read = read();
    if read.is_err() {
        items.truncate(before);
        used.truncate(used_before);
    }
    read
}

/// The offset of a value on overflow pages, and the number of these pages.
fn overflow_range(file: &mut LmdbFile, first: u64, len: u64, check: bool) -> Result<(u64, u64)> {
    let page_offset = file.page_offset(first);
    let offset = page_offset.saturating_add(PAGE_HEADER_BYTES as u64);
    let pages = (PAGE_HEADER_BYTES as u64 + len).div_ceil(file.page_bytes);
    if first.saturating_add(pages) > file.end {
        let reason = format!(
            "a value of {len} bytes starts at page {first} of {}",
            file.end
        );
        return Err(file.reader.malformed(page_offset, reason));
    }
    file.reader.check(offset, len)?;
    if check {
        let head = file.reader.read_array(page_offset)?;
        if overflow_page_count(&head, first).is_none_or(|count| count < pages) {
            let reason = format!("is not the first of {pages} overflow pages, as its node states");
            return Err(file.reader.malformed(page_offset, reason));
        }
    }
    Ok((offset, pages))
}

/// A key as an integer, for a tree with integer keys.
pub(crate) fn integer_key(key: &[u8]) -> Option<u64> {
    (key.len() <= 8).then(|| read_le(key))
}
