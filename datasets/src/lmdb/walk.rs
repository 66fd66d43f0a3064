//! In: a tree of an LMDB file. Out: its keys in their order, and where the value of each lies.
//! What is damaged is told with its page, and the pages beside it are read on, if the caller likes.
//! Never: visits more pages than the file has, whatever leads where.

use std::cmp::Ordering;

use framespool::error::{Error, Result};

use super::file::{LmdbFile, Tree, PAGE_HEAD, TREE};
use super::page::{little, overflow, Held, Kind, Page};
use crate::packed::Watch;

/// Flags of trees.
const REVERSE_KEYS: u16 = 0x02;
const SEVERAL_VALUES: u16 = 0x04;
const INTEGER_KEYS: u16 = 0x08;

/// What a key has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A value, in one piece.
    Value { offset: u64, len: u64 },
    /// It is the name of a tree.
    Tree([u8; TREE]),
}

/// A key and what it has.
pub struct Item {
    pub key: Vec<u8>,
    pub found: Found,
}

impl Tree {
    /// Whether keys are numbers of this machine's kind, which sort as such.
    pub fn has_integer_keys(&self) -> bool {
        self.flags & INTEGER_KEYS != 0
    }

    fn compare(&self, one: &[u8], other: &[u8]) -> Ordering {
        match self.flags {
            flags if flags & INTEGER_KEYS != 0 => one.len().cmp(&other.len()).then_with(|| {
                one.iter().rev().cmp(other.iter().rev()) // the lowest byte first
            }),
            flags if flags & REVERSE_KEYS != 0 => one.iter().rev().cmp(other.iter().rev()),
            _ => one.cmp(other),
        }
    }
}

/// Reads the items of a tree; `check` holds the first page of values that have pages of their own against what leads
/// there. `fail` decides what becomes of an error: if it has none, what the error does not concern is read on.
pub fn walk(
    file: &mut LmdbFile,
    tree: &Tree,
    check: bool,
    go_on: Watch,
    mut fail: impl FnMut(Error) -> Result<()>,
) -> Result<Vec<Item>> {
    if tree.flags & SEVERAL_VALUES != 0 {
        return Err(Error::Unsupported {
            site: file.blocks.site(tree.root.map_or(0, |root| file.place(root))),
            what: "an LMDB database whose keys have several values each (MDB_DUPSORT)".to_owned(),
        });
    }
    let Some(root) = tree.root else { return Ok(Vec::new()) };
    // What is used by whom: pages of the tree, and those of long values. No page may be used twice.
    let mut used: Vec<(u64, u64)> = Vec::new();
    let mut items: Vec<Item> = Vec::new();
    let mut intact = true;
    // Pages that the file has: it may say that it has far more.
    let there = file.end.min(file.blocks.len().div_ceil(file.page_bytes));
    let mut visits = 0;
    // Branches from the root down, each with the node that is next. Leaves are all at the same depth.
    let mut path: Vec<(Page, usize)> = Vec::new();
    let mut next = Some(root);
    loop {
        go_on()?;
        if let Some(number) = next.take() {
            if visits >= there {
                let reason = "pages lead to each other in circles; what is left is not read";
                fail(file.blocks.damaged(file.place(number), reason))?;
                return Ok(items);
            }
            visits += u64::from(number < there);
            used.push((number, 1));
            let leaf = path.len() + 1 == usize::from(tree.depth);
            let page = file.page(number).and_then(|page| match (page.kind, leaf) {
                (Kind::Leaf, true) | (Kind::Branch, false) => Ok(page),
                (kind, _) => {
                    let reason = format!("is a {kind:?} on level {} of {}", path.len() + 1, tree.depth);
                    Err(file.blocks.damaged(file.place(number), reason))
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
        let Some((branch, at)) = path.last_mut() else { break };
        if *at == branch.len() {
            path.pop();
            continue;
        }
        let below = branch.below(*at).map_err(|reason| (file.place(branch.number), reason));
        *at += 1;
        match below {
            Ok(below) => next = Some(below),
            Err((place, reason)) => {
                intact = false;
                fail(file.blocks.damaged(place, reason))?;
            }
        }
    }
    // What was damaged was told; else the whole must be what is said of it.
    if intact {
        if items.len() as u64 != tree.entries {
            let reason = format!("a database of {} entries has {} here", tree.entries, items.len());
            fail(file.blocks.damaged(file.place(root), reason))?;
        }
        used.sort_unstable();
        if let Some(pair) = used.windows(2).find(|pair| pair[0].0.saturating_add(pair[0].1) > pair[1].0) {
            let reason = format!("page {} is used twice: what leads here is damaged", pair[1].0);
            fail(file.blocks.damaged(file.place(pair[1].0), reason))?;
        }
    }
    Ok(items)
}

/// The items of a leaf; none where one of them is damaged.
fn leaf_items(
    file: &mut LmdbFile,
    tree: &Tree,
    page: &Page,
    check: bool,
    items: &mut Vec<Item>,
    used: &mut Vec<(u64, u64)>,
) -> Result<()> {
    let place = file.place(page.number);
    let (before, used_before) = (items.len(), used.len());
    let mut read = || {
        for number in 0..page.len() {
            let (key, held) = page.entry(number).map_err(|reason| file.blocks.damaged(place, reason))?;
            if items.last().is_some_and(|last| tree.compare(&last.key, key) != Ordering::Less) {
                let reason = format!("the key of node {number} does not come after the one before it");
                return Err(file.blocks.damaged(place, reason));
            }
            let found = match held {
                Held::Here(at, len) => Found::Value { offset: place + at as u64, len },
                Held::Tree(tree) => Found::Tree(tree),
                Held::OnPages(first, len) => {
                    let (offset, pages) = on_pages(file, first, len, check)?;
                    used.push((first, pages));
                    Found::Value { offset, len }
                }
                Held::Several => {
                    return Err(Error::Unsupported {
                        site: file.blocks.site(place),
                        what: "an LMDB key that has several values".to_owned(),
                    })
                }
            };
            items.push(Item { key: key.to_vec(), found });
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

/// Where a value on pages of its own lies, and how many these are.
fn on_pages(file: &mut LmdbFile, first: u64, len: u64, check: bool) -> Result<(u64, u64)> {
    let place = file.place(first);
    let offset = place.saturating_add(PAGE_HEAD as u64);
    let pages = (PAGE_HEAD as u64 + len).div_ceil(file.page_bytes);
    if first.saturating_add(pages) > file.end {
        let reason = format!("a value of {len} bytes is said to begin at page {first} of {}", file.end);
        return Err(file.blocks.damaged(place, reason));
    }
    file.blocks.check(offset, len)?;
    if check {
        let head = file.blocks.array(place)?;
        if overflow(&head, first).is_none_or(|there| there < pages) {
            let reason = format!("does not begin the {pages} pages of a value, which it is said to do");
            return Err(file.blocks.damaged(place, reason));
        }
    }
    Ok((offset, pages))
}

/// A key as a number, where the tree's keys are numbers.
pub fn integer(key: &[u8]) -> Option<u64> {
    (key.len() <= 8).then(|| little(key))
}
