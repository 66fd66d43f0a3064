//! Parses a branch or leaf page of an LMDB tree into its nodes: keys and what they refer to.
//! Layout: a 16-byte header, the offsets of the nodes in key order, free space, the nodes.
//! An offset or length that exceeds the page is an error.

/// Size of a page header with 64-bit page numbers.
pub(crate) const PAGE_HEADER_BYTES: usize = 16;
/// Size of a tree record (`MDB_db`).
pub(crate) const TREE_RECORD_BYTES: usize = 48;

/// Page flags.
const P_BRANCH: u16 = 0x01;
const P_LEAF: u16 = 0x02;
const P_OVERFLOW: u16 = 0x04;
const P_LEAF2: u16 = 0x20;
/// Node flags.
const F_BIGDATA: u16 = 0x01;
const F_SUBDATA: u16 = 0x02;
const F_DUPDATA: u16 = 0x04;
/// Size of a node header, which precedes the key.
const NODE_HEADER_BYTES: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageKind {
    Branch,
    Leaf,
}

impl PageKind {
    /// Its name in LMDB's documentation.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Branch => "branch",
            Self::Leaf => "leaf",
        }
    }
}

/// A page of a tree.
pub(super) struct Page {
    pub number: u64,
    pub kind: PageKind,
    bytes: Vec<u8>,
    nodes: usize,
    /// Start offset of the nodes.
    upper: usize,
}

/// What a key in a leaf refers to.
pub(crate) enum NodeData {
    /// A value in the page itself: its offset in the page, and its length.
    Inline(usize, u64),
    /// A value on overflow pages: the first page number, and its length.
    Overflow(u64, u64),
    /// The record of a named tree.
    Tree([u8; TREE_RECORD_BYTES]),
    /// Several values (`MDB_DUPSORT`).
    Duplicates,
}

impl Page {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let flags = read_le(&bytes[10..12]) as u16;
        let kind = match flags & (P_BRANCH | P_LEAF | P_OVERFLOW | P_LEAF2) {
            P_BRANCH => PageKind::Branch,
            P_LEAF => PageKind::Leaf,
            _ => return Err(format!("is not a page of a tree: its flags are {flags:#x}")),
        };
        let (lower, upper) = (
            read_le(&bytes[12..14]) as usize,
            read_le(&bytes[14..16]) as usize,
        );
        if lower < PAGE_HEADER_BYTES || lower % 2 != 0 || upper < lower || upper > bytes.len() {
            return Err(format!("is damaged: its free space is {lower}..{upper}"));
        }
        let number = read_le(&bytes[..8]);
        Ok(Self {
            number,
            kind,
            bytes: bytes.to_vec(),
            nodes: (lower - PAGE_HEADER_BYTES) / 2,
            upper,
        })
    }

    /// Number of nodes.
    pub(super) fn len(&self) -> usize {
        self.nodes
    }

    /// The offset of a node in the page, its key, and the end of the key.
    fn node(&self, number: usize) -> Result<(usize, &[u8], usize), String> {
        let pointer = PAGE_HEADER_BYTES + 2 * number;
        let at = read_le(&self.bytes[pointer..pointer + 2]) as usize;
        let wrong = || format!("node {number} at byte {at} of the page is outside the page");
        if at < self.upper || at + NODE_HEADER_BYTES > self.bytes.len() {
            return Err(wrong());
        }
        let end = at + NODE_HEADER_BYTES + read_le(&self.bytes[at + 6..at + 8]) as usize;
        let key = self
            .bytes
            .get(at + NODE_HEADER_BYTES..end)
            .ok_or_else(wrong)?;
        Ok((at, key, end))
    }

    /// The child page of a node in a branch.
    pub(super) fn child(&self, number: usize) -> Result<u64, String> {
        let (at, ..) = self.node(number)?;
        Ok(read_le(&self.bytes[at..at + 6]))
    }

    /// The key of a node in a leaf, and what it refers to.
    pub(crate) fn leaf_node(&self, number: usize) -> Result<(&[u8], NodeData), String> {
        let (at, key, begin) = self.node(number)?;
        let len = read_le(&self.bytes[at..at + 4]);
        let flags = read_le(&self.bytes[at + 4..at + 6]) as u16;
        let node_bytes = if flags & F_BIGDATA != 0 { 8 } else { len };
        let inside = usize::try_from(node_bytes)
            .ok()
            .and_then(|node_bytes| self.bytes.get(begin..begin.checked_add(node_bytes)?));
        let Some(inside) = inside else {
            return Err(format!(
                "node {number} of {node_bytes} bytes exceeds the page"
            ));
        };
        let data =
            match flags {
                0 => NodeData::Inline(begin, len),
                F_BIGDATA => NodeData::Overflow(read_le(inside), len),
                F_SUBDATA => NodeData::Tree(inside.try_into().map_err(|_| {
                    format!("node {number} has {len} bytes instead of a tree header")
                })?),
                _ if flags & !(F_SUBDATA | F_DUPDATA) == 0 => NodeData::Duplicates,
                _ => return Err(format!("node {number} has unknown flags {flags:#x}")),
            };
        Ok((key, data))
    }
}

/// If the header is that of the overflow page `number`, the first one of a value: the number of its
/// overflow pages.
pub(crate) fn overflow_page_count(head: &[u8; PAGE_HEADER_BYTES], number: u64) -> Option<u64> {
    let flags = read_le(&head[10..12]) as u16;
    (read_le(&head[..8]) == number && flags & P_OVERFLOW != 0).then(|| read_le(&head[12..16]))
}

/// A little-endian number of up to eight bytes.
pub(crate) fn read_le(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}
