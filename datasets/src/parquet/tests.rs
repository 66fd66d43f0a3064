//! Headers, levels and pages are written here by the format's description;
//! tests/python/test_tables.py reads what pyarrow wrote.

use super::page_scan::{Levels, PageContents, PageLocation, scan_pages};
use super::plain_encoding::value_ranges;
use super::*;
use crate::tests::TempFolder;

/// The blocks of a file with these bytes.
fn reader(bytes: &[u8]) -> (TempFolder, RangeReader) {
    let root = TempFolder::new();
    let reader = RangeReader::open(&root.write("a", bytes)).unwrap();
    (root, reader)
}

/// A header of a page of values. Sizes are below 64, so each number is one byte. Has statistics,
/// which are skipped.
fn head(compressed_size: u8, count: u8) -> Vec<u8> {
    let number = |value: u8| value << 1;
    vec![
        0x15,
        number(0), // 1: kind
        0x15,
        number(compressed_size), // 2: unpacked
        0x15,
        number(compressed_size), // 3: stored
        0x2c,                    // 5: a struct
        0x15,
        number(count),
        0x15,
        number(0),
        0x15,
        number(3),
        0x15,
        number(3), // its 1 to 4
        0x1c,
        0x18,
        2,
        b'x',
        b'y',
        0x19,
        0x18,
        1,
        b'z',
        0, // 5: a struct with bytes and a list
        0,
        0,
    ]
}

#[test]
fn header_sizes_are_read_and_the_rest_skipped() {
    let bytes = [head(3, 9), vec![1, 2, 3], head(1, 5), vec![4]].concat();
    let (_root, mut reader) = reader(&bytes);
    let found = scan_pages(&mut reader, (0, bytes.len() as u64)).unwrap();
    let len = head(0, 0).len() as u64;
    let contents = |count| PageContents::Values {
        count,
        encoding: 0,
        levels: Levels::V1 { encoding: 3 },
    };
    let second = len + 3;
    let expected = [
        PageLocation {
            header_offset: 0,
            data_offset: len,
            compressed_size: 3,
            uncompressed_size: 3,
            contents: contents(9),
        },
        PageLocation {
            header_offset: second,
            data_offset: second + len,
            compressed_size: 1,
            uncompressed_size: 1,
            contents: contents(5),
        },
    ];
    assert_eq!(found, expected);
}

#[test]
fn invalid_headers_are_errors_with_their_offset() {
    let deep = [vec![0x1c; 40], vec![0; 60]].concat();
    let twice = [head(3, 9)[..6].to_vec(), vec![0x05, 6, 8, 0]].concat(); // field 3 with its number written out
    let structs = vec![0x5c, 0, 0x0c, 10, 0, 0];
    let many = [[0x15, 0].repeat(300), vec![0]].concat();
    let mut negative = head(3, 9);
    negative[5] = 1;
    for (bytes, reason) in [
        (head(3, 9), "a page of 3 bytes where its column has 0 more"),
        (vec![0], "a page header without sizes"),
        (vec![0x15], "ends inside a number"),
        (vec![0x1f, 0], "unknown kind 15"),
        (vec![0x18, 90], "a field of 90 bytes"),
        (vec![0x19, 0xf8, 0xff, 0xff, 0xff, 0x7f, 1, 1], "the record"),
        (deep, "too deep"),
        (negative, "a page header without sizes"),
        (twice, "field 3 appears twice"),
        (structs, "field 5 appears twice"),
        (many, "more than 256 numbers"),
        (
            vec![0x25, 0x80, 0x80, 0x80, 0x80, 0x10, 0x15, 2, 0],
            "above the limit",
        ),
        (vec![], ""),
    ] {
        let (_root, mut reader) = reader(&bytes);
        let found = scan_pages(&mut reader, (0, bytes.len() as u64));
        match found {
            Ok(found) => assert!(reason.is_empty() && found.is_empty(), "{bytes:?}"),
            Err(error) => {
                assert!(
                    error.to_string().contains(reason) && !reason.is_empty(),
                    "{bytes:?}: {error}"
                )
            }
        }
    }
}

/// A page with these levels, then three values.
fn page(levels: &[u8], count: u64) -> (Vec<u8>, PageLocation) {
    let mut bytes = vec![];
    if !levels.is_empty() {
        bytes.extend((levels.len() as u32).to_le_bytes());
        bytes.extend(levels);
    }
    for value in [&b"one"[..], b"", b"three"] {
        bytes.extend((value.len() as u32).to_le_bytes());
        bytes.extend(value);
    }
    let contents = PageContents::Values {
        count,
        encoding: 0,
        levels: Levels::V1 { encoding: 3 },
    };
    let compressed_size = bytes.len() as u64;
    (
        bytes,
        PageLocation {
            header_offset: 0,
            data_offset: 0,
            compressed_size,
            uncompressed_size: compressed_size,
            contents,
        },
    )
}

fn found(levels: &[u8], count: u64, max_def_level: i16) -> Result<Vec<Option<String>>> {
    let (bytes, at) = page(levels, count);
    let (_root, mut reader) = reader(&bytes);
    let ranges = value_ranges(&mut reader, &at, max_def_level)?.unwrap();
    let text = |(offset, len): (u64, u64)| {
        String::from_utf8(bytes[offset as usize..][..len as usize].to_vec()).unwrap()
    };
    Ok(ranges.into_iter().map(|range| range.map(text)).collect())
}

#[test]
fn levels_mark_missing_values() {
    let there = |text: &str| Some(text.to_owned());
    let all = vec![there("one"), there(""), there("three")];
    assert_eq!(found(&[], 3, 0).unwrap(), all);
    assert_eq!(found(&[6, 1], 3, 1).unwrap(), all); // a run of three
    let holes = vec![None, there("one"), None, None, there(""), there("three")];
    assert_eq!(found(&[3, 0b110010], 6, 1).unwrap(), holes); // eight bit-packed levels, six of which count
    // Two bits: a struct may lack its bytes.
    assert_eq!(
        found(&[3, 0b10_00_01_10, 0b10], 5, 2).unwrap(),
        [there("one"), None, None, there(""), there("three")]
    );
    let mixed = [2, 0, 3, 0b111, 0]; // one missing, then bit-packed
    assert_eq!(
        found(&mixed, 4, 1).unwrap(),
        [None, there("one"), there(""), there("three")]
    );
}

#[test]
fn levels_and_values_beyond_a_page_are_errors() {
    for (levels, count, max_def_level, reason) in [
        (&[][..], 4, 0, "a page ends where a length is expected"),
        (&[6, 1], 4, 1, "levels end before its values do"),
        (&[6], 3, 1, "levels end before its values do"),
        (&[0, 1], 3, 1, "an empty run of levels"),
        (&[3], 3, 1, "levels end before its values do"),
        (&[0xff; 20], 3, 1, "levels end before its values do"),
        (&[8, 1], 4, 1, "a page ends where a length is expected"),
    ] {
        let error = found(levels, count, max_def_level).unwrap_err().to_string();
        assert!(error.contains(reason), "{levels:?}: {error}");
    }
    let (mut bytes, at) = page(&[], 3);
    bytes[0] = 200;
    let (_root, mut long) = reader(&bytes);
    let error = value_ranges(&mut long, &at, 0).unwrap_err().to_string();
    assert!(
        error.contains("value 0 of the page has 200 bytes, but only"),
        "{error}"
    );
    let (bytes, at) = page(&[0xff; 4], 3);
    let far = [&[0xff, 0xff, 0xff, 0x7f][..], &bytes[4..]].concat();
    let (_root, mut far) = reader(&far);
    let error = value_ranges(&mut far, &at, 1).unwrap_err().to_string();
    assert!(error.contains("levels go beyond its end"), "{error}");
}
