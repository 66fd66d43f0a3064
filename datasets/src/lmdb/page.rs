//! In: the bytes of one page of a tree. Out: its nodes: keys with what they lead to.
//! Layout: a head of 16 bytes, the places of the nodes in the order of their keys, free space, the nodes.
//! Never: believes a place or a length that leads out of the page.

use super::file::{PAGE_HEAD, TREE};

/// Flags of pages.
const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
const OVERFLOW: u16 = 0x04;
const FIXED: u16 = 0x20;
/// Flags of nodes.
const ON_PAGES: u16 = 0x01;
const TREE_BELOW: u16 = 0x02;
const DUPLICATES: u16 = 0x04;
/// Bytes of a node before its key.
const NODE_HEAD: usize = 8;

/// What a page is.
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
    /// Where nodes begin.
    upper: usize,
}

/// What a key of a leaf leads to.
pub enum Held {
    /// A value, in the page itself: its first byte there, and how long it is.
    Here(usize, u64),
    /// A value on pages of its own, from this one on.
    OnPages(u64, u64),
    /// A tree with a name.
    Tree([u8; TREE]),
    /// Several values.
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

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes
    }

    /// First byte of a node in the page, its key, and where that ends.
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

    /// The page below a node of a branch.
    pub fn below(&self, number: usize) -> Result<u64, String> {
        let (at, ..) = self.node(number)?;
        Ok(little(&self.bytes[at..at + 6]))
    }

    /// Key of a leaf's node, and what it leads to.
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

/// Whether the head of a page says that it is the first of some that hold one value; and of how many.
pub fn overflow(head: &[u8; PAGE_HEAD], number: u64) -> Option<u64> {
    let flags = little(&head[10..12]) as u16;
    (little(&head[..8]) == number && flags & OVERFLOW != 0).then(|| little(&head[12..16]))
}

/// A number of up to eight bytes, the lowest first.
pub fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}
