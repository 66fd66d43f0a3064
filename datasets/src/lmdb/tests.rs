//! Databases are written here page by page, both valid and damaged; tests/python/test_lmdb.py reads
//! what LMDB wrote.

use std::cell::Cell;

use super::*;
use crate::tests::TempFolder;

const PAGE: usize = 512;

fn page(number: u64, flags: u16, lower: u16, upper: u16) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes[10..12].copy_from_slice(&flags.to_le_bytes());
    bytes[12..14].copy_from_slice(&lower.to_le_bytes());
    bytes[14..16].copy_from_slice(&upper.to_le_bytes());
    bytes
}

/// A branch (child pages) or a leaf (values) with these keys.
fn tree_page(number: u64, nodes: &[(&str, Node)]) -> Vec<u8> {
    let leaf = !matches!(nodes.first(), Some((_, Node::Child(_))));
    let (mut bytes, mut upper) = (
        page(
            number,
            if leaf { 2 } else { 1 },
            16 + 2 * nodes.len() as u16,
            0,
        ),
        PAGE,
    );
    for (position, (key, node)) in nodes.iter().enumerate() {
        let (head, data) = match node {
            Node::Child(page) => (page.to_le_bytes()[..6].to_vec(), vec![]),
            Node::Value(value) => (
                [&(value.len() as u32).to_le_bytes()[..], &[0, 0]].concat(),
                value.to_vec(),
            ),
            Node::Overflow(page, len) => (
                [&len.to_le_bytes()[..], &[1, 0]].concat(),
                page.to_le_bytes().to_vec(),
            ),
        };
        let node = [
            &head[..],
            &(key.len() as u16).to_le_bytes(),
            key.as_bytes(),
            &data,
        ]
        .concat();
        upper -= node.len().next_multiple_of(2);
        bytes[upper..upper + node.len()].copy_from_slice(&node);
        bytes[16 + 2 * position..18 + 2 * position].copy_from_slice(&(upper as u16).to_le_bytes());
    }
    bytes[14..16].copy_from_slice(&(upper as u16).to_le_bytes());
    bytes
}

enum Node {
    Child(u64),
    Value(&'static [u8]),
    Overflow(u64, u32),
}

/// A meta page: flags, depth, pages, entries and root of the main tree, the last page and the
/// transaction.
fn meta(
    number: u64,
    depth: u16,
    pages: u64,
    entries: u64,
    root: u64,
    last: u64,
    transaction: u64,
) -> Vec<u8> {
    let mut bytes = page(number, 8, 0, 0);
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(16, &0xbeef_c0de_u32.to_le_bytes());
    put(20, &1u32.to_le_bytes());
    put(40, &(PAGE as u32).to_le_bytes());
    put(94, &depth.to_le_bytes());
    put(104, &pages.to_le_bytes());
    put(120, &entries.to_le_bytes());
    put(128, &root.to_le_bytes());
    put(136, &last.to_le_bytes());
    put(144, &transaction.to_le_bytes());
    bytes
}

/// A file with two levels: a branch on page 2 over these pages, which begin at 3.
fn file(children: &[(&str, Node)], pages: &[Vec<u8>], entries: u64) -> Vec<u8> {
    let last = 2 + pages.len() as u64;
    let mut bytes = meta(0, 1, 1, 0, u64::MAX - 1, 2, 1);
    bytes.extend(meta(1, 2, 1 + children.len() as u64, entries, 2, last, 2));
    bytes.extend(tree_page(2, children));
    pages.iter().for_each(|page| bytes.extend(page));
    bytes
}

fn options(check: bool) -> LmdbOptions {
    LmdbOptions {
        database: None,
        layout: LmdbLayout::Plain {
            key: "{}".to_owned(),
            label: None,
        },
        check,
    }
}

/// Far more steps than a walk over the largest file of these tests takes.
const MAX_STEPS: u32 = 10_000;

/// Reads a file; a walk without an end is interrupted.
fn read(bytes: &[u8], check: bool, on_error: ErrorPolicy) -> Result<ArchiveListing> {
    let root = TempFolder::new();
    let steps = Cell::new(0);
    let interrupt = move || {
        steps.set(steps.get() + 1);
        match steps.get() > MAX_STEPS {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    };
    let _scope = framespool::source::interrupt_scope(interrupt, None);
    lmdb(&[root.write("a.mdb", bytes)], &options(check), on_error, 1)
}

fn keys(packed: Result<ArchiveListing>) -> Vec<String> {
    let text = |sample: &ArchiveSample| match &sample.column_values[0].1 {
        Value::Text(text) => text.clone(),
        other => other.shown(),
    };
    packed.unwrap().samples.iter().map(text).collect()
}

fn leaf(number: u64, first: &'static str, second: &'static str) -> Vec<u8> {
    tree_page(
        number,
        &[(first, Node::Value(b"v")), (second, Node::Value(b"w"))],
    )
}

#[test]
fn values_are_in_leaves_and_overflow_pages() {
    let long = tree_page(
        4,
        &[("c", Node::Value(b"v")), ("d", Node::Overflow(5, 600))],
    );
    let pages = [leaf(3, "a", "b"), long, page(5, 4, 2, 0), vec![7; PAGE]];
    let bytes = file(&[("", Node::Child(3)), ("c", Node::Child(4))], &pages, 4);
    for check in [false, true] {
        let packed = read(&bytes, check, ErrorPolicy::Raise).unwrap();
        let SampleLocation::Member(last) = &packed.samples[3].location else {
            panic!()
        };
        assert_eq!(
            (last.offset, last.len, last.name.as_deref()),
            (5 * PAGE as u64 + 16, 600, Some("d"))
        );
        assert_eq!(packed.samples.len(), 4);
    }
    // The number of overflow pages is checked only on request.
    let mut short = bytes.clone();
    short[5 * PAGE + 12] = 1;
    assert!(read(&short, false, ErrorPolicy::Raise).is_ok());
    let error = read(&short, true, ErrorPolicy::Raise)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(&format!(
            "a.mdb, byte {}: is not the first of 2 overflow pages",
            5 * PAGE
        )),
        "{error}"
    );
}

#[test]
fn damaged_page_is_named_and_the_rest_is_read() {
    let children = |second: u64| {
        [
            ("", Node::Child(3)),
            ("c", Node::Child(second)),
            ("e", Node::Child(5)),
        ]
    };
    let pages = |second: Vec<u8>| [leaf(3, "a", "b"), second, leaf(5, "e", "f")];
    assert_eq!(
        keys(read(
            &file(&children(4), &pages(leaf(4, "c", "d")), 6),
            false,
            ErrorPolicy::Raise
        ))
        .len(),
        6
    );
    let branch = tree_page(4, &[("c", Node::Child(3))]);
    for (bytes, position, reason) in [
        (
            file(&children(3), &pages(leaf(4, "c", "d")), 6),
            3,
            "does not come after",
        ),
        (
            file(&children(2), &pages(leaf(4, "c", "d")), 6),
            2,
            "is a branch page on level 2 of 2",
        ),
        (
            file(&children(99), &pages(leaf(4, "c", "d")), 6),
            99,
            "needs bytes",
        ),
        (
            file(&children(1), &pages(leaf(4, "c", "d")), 6),
            1,
            "is not a page of a tree",
        ),
        (
            file(&children(4), &pages(branch), 6),
            4,
            "is a branch page on level 2",
        ),
        (
            file(&children(4), &pages(leaf(9, "c", "d")), 6),
            4,
            "is numbered page 9",
        ),
        (
            file(&children(4), &pages(leaf(4, "d", "c")), 6),
            4,
            "does not come after",
        ),
        (
            file(&children(4), &pages(page(4, 2, 20, 10)), 6),
            4,
            "free space is 20..10",
        ),
        (
            file(&children(4), &pages(page(4, 2, 18, 512)), 6),
            4,
            "node 0 at byte 0",
        ),
    ] {
        let error = read(&bytes, false, ErrorPolicy::Raise)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(&format!("a.mdb, byte {}: ", position * PAGE)) && error.contains(reason),
            "{error}"
        );
        let left = read(&bytes, false, ErrorPolicy::Skip).unwrap();
        assert_eq!(left.skipped, 1, "{reason}");
        assert_eq!(keys(Ok(left)), ["a", "b", "e", "f"], "{reason}");
    }
}

#[test]
fn cycles_and_shared_pages_are_reported() {
    // Every node refers to the page above it: without a bound this would be 30 levels of 20 pages
    // each.
    let names: Vec<String> = (0..20).map(|n| format!("{n:02}")).collect();
    let around: Vec<(&str, Node)> = names
        .iter()
        .map(|name| (name.as_str(), Node::Child(2)))
        .collect();
    let mut bytes = meta(0, 1, 1, 0, u64::MAX - 1, 2, 1);
    bytes.extend(meta(1, 30, 40, 9, 2, 60, 2));
    bytes.extend(tree_page(2, &around));
    bytes.resize(61 * PAGE, 0);
    let error = read(&bytes, false, ErrorPolicy::Skip)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("nothing to load") && error.contains("(32 skipped"),
        "{error}"
    );
    // The file may claim 10^12 pages; the limit is the number of pages that it contains.
    let mut more = meta(0, 1, 1, 0, u64::MAX - 1, 2, 1);
    more.extend(meta(1, 30, 1 << 40, 9, 2, 1 << 40, 2));
    more.extend(tree_page(2, &around));
    let error = read(&more, false, ErrorPolicy::Skip)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("nothing to load") && error.contains("in a cycle"),
        "{error}"
    );
    // Two values on the same pages, and fewer entries than the tree record claims.
    let twice = tree_page(
        4,
        &[("c", Node::Overflow(5, 600)), ("d", Node::Overflow(6, 100))],
    );
    let pages = [leaf(3, "a", "b"), twice, page(5, 4, 2, 0), vec![0; PAGE]];
    let children = [("", Node::Child(3)), ("c", Node::Child(4))];
    let error = read(&file(&children, &pages, 4), false, ErrorPolicy::Raise)
        .unwrap_err()
        .to_string();
    assert!(error.contains("page 6 is referenced twice"), "{error}");
    let error = read(&file(&children, &pages, 5), false, ErrorPolicy::Raise)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("a database of 5 entries, but 4 were found"),
        "{error}"
    );
}

#[test]
fn patterns_match_differing_keys() {
    let pattern = KeyPattern::parse("key", "image-{}.jpg").unwrap();
    for (key, part) in [
        ("image-7.jpg", Some("7")),
        ("image-.jpg", Some("")),
        ("image-7.png", None),
        ("image.jpg", None),
    ] {
        assert_eq!(
            pattern.captured(key.as_bytes()),
            part.map(str::as_bytes),
            "{key}"
        );
    }
    for text in ["", "image", "{}{}"] {
        assert!(KeyPattern::parse("key", text).is_err(), "{text}");
    }
}
