//! Parses a branch or leaf page of an LMDB tree into its nodes: keys and what they refer to.
//! Layout: a 16-byte header, the offsets of the nodes in key order, free space, the nodes.
//! An offset or length that exceeds the page is an error.

use super::file::{PAGE_HEAD, TREE};

/// Page flags.
const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
const OVERFLOW: u16 = 0x04;
const FIXED: u16 = 0x20;
/// Node flags.
const ON_PAGES: u16 = 0x01;
const TREE_BELOW: u16 = 0x02;
const DUPLICATES: u16 = 0x04;
/// Size of a node header, which precedes the key.
const NODE_HEAD: usize = 8;

/// The kind of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Branch,
    Leaf,
}

/// A page of a tree.
pub struct Page {
    pub number: u64,
    pub kind: Kind,
    bytes: Vec<u8>,
    nodes: usize,
    /// Start offset of the nodes.
    upper: usize,
}

/// What a key in a leaf refers to.
pub enum Held {
    /// A value in the page itself: its offset in the page, and its length.
    Here(usize, u64),
    /// A value on overflow pages: the first page number, and its length.
    OnPages(u64, u64),
    /// The record of a named tree.
    Tree([u8; TREE]),
    /// Several values (`MDB_DUPSORT`).
    Several,
}

impl Page {
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let flags = little(&bytes[10..12]) as u16;
        let kind = match flags & (BRANCH | LEAF | OVERFLOW | FIXED) {
            BRANCH => Kind::Branch,
            LEAF => Kind::Leaf,
            _ => return Err(format!("is no page of a tree: its flags are {flags:#x}")),
        };
        let (lower, upper) = (little(&bytes[12..14]) as usize, little(&bytes[14..16]) as usize);
        if lower < PAGE_HEAD || lower % 2 != 0 || upper < lower || upper > bytes.len() {
            return Err(format!("is damaged: its free space is said to be {lower}..{upper}"));
        }
        let number = little(&bytes[..8]);
        Ok(Self { number, kind, bytes: bytes.to_vec(), nodes: (lower - PAGE_HEAD) / 2, upper })
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.nodes
    }

    /// The offset of a node in the page, its key, and the end of the key.
    fn node(&self, number: usize) -> Result<(usize, &[u8], usize), String> {
        let place = PAGE_HEAD + 2 * number;
        let at = little(&self.bytes[place..place + 2]) as usize;
        let wrong = || format!("node {number} is said to lie at byte {at} of the page and leaves it");
        if at < self.upper || at + NODE_HEAD > self.bytes.len() {
            return Err(wrong());
        }
        let end = at + NODE_HEAD + little(&self.bytes[at + 6..at + 8]) as usize;
        let key = self.bytes.get(at + NODE_HEAD..end).ok_or_else(wrong)?;
        Ok((at, key, end))
    }

    /// The child page of a node in a branch.
    pub fn below(&self, number: usize) -> Result<u64, String> {
        let (at, ..) = self.node(number)?;
        Ok(little(&self.bytes[at..at + 6]))
    }

    /// The key of a node in a leaf, and what it refers to.
    pub fn entry(&self, number: usize) -> Result<(&[u8], Held), String> {
        let (at, key, begin) = self.node(number)?;
        let len = little(&self.bytes[at..at + 4]);
        let flags = little(&self.bytes[at + 4..at + 6]) as u16;
        let kept = if flags & ON_PAGES != 0 { 8 } else { len };
        let inside =
            usize::try_from(kept).ok().and_then(|kept| self.bytes.get(begin..begin.checked_add(kept)?));
        let Some(inside) = inside else {
            return Err(format!("node {number} is said to hold {kept} bytes and leaves the page"));
        };
        let held = match flags {
            0 => Held::Here(begin, len),
            ON_PAGES => Held::OnPages(little(inside), len),
            TREE_BELOW => Held::Tree(
                inside
                    .try_into()
                    .map_err(|_| format!("node {number} says nothing of its tree: {len} bytes"))?,
            ),
            _ if flags & !(TREE_BELOW | DUPLICATES) == 0 => Held::Several,
            _ => return Err(format!("node {number} has flags {flags:#x}, which mean nothing")),
        };
        Ok((key, held))
    }
}

/// If the header is that of the overflow page `number`, the first one of a value: the number of its overflow
/// pages.
pub fn overflow(head: &[u8; PAGE_HEAD], number: u64) -> Option<u64> {
    let flags = little(&head[10..12]) as u16;
    (little(&head[..8]) == number && flags & OVERFLOW != 0).then(|| little(&head[12..16]))
}

/// A little-endian number of up to eight bytes.
pub fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}
