//! Small tables are written by the crate, then their page headers are changed to false claims.
//! Reading must fail before memory is allocated for them. tests/python/test_tables.py reads what
//! pyarrow wrote.

use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;
use parquet::basic::{Compression, Encoding};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::super::*;
use super::*;
use crate::SampleKeys;
use crate::archive::SampleLocation;
use crate::tests::TempFolder;

/// Values of a column without levels.
enum Cells<'a> {
    Bytes(Vec<&'a [u8]>),
    Integers(Vec<i64>),
    Numbers(Vec<f64>),
    /// All of them in one row.
    OneList(Vec<&'a [u8]>),
}

fn table(schema: &str, properties: WriterPropertiesBuilder, columns: &[Cells]) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(&format!("message m {{ {schema} }}")).unwrap());
    let mut bytes = Vec::new();
    let mut writer =
        SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties.build())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for cells in columns {
        let mut column = group.next_column().unwrap().unwrap();
        match cells {
            Cells::Bytes(values) => {
                let values: Vec<ByteArray> =
                    values.iter().map(|value| value.to_vec().into()).collect();
                column
                    .typed::<ByteArrayType>()
                    .write_batch(&values, None, None)
            }
            Cells::OneList(values) => {
                let repeated: Vec<i16> = (0..values.len())
                    .map(|place| i16::from(place > 0))
                    .collect();
                let there = vec![1; values.len()];
                let values: Vec<ByteArray> =
                    values.iter().map(|value| value.to_vec().into()).collect();
                column
                    .typed::<ByteArrayType>()
                    .write_batch(&values, Some(&there), Some(&repeated))
            }
            Cells::Integers(values) => column.typed::<Int64Type>().write_batch(values, None, None),
            Cells::Numbers(values) => column.typed::<DoubleType>().write_batch(values, None, None),
        }
        .unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

fn plain() -> WriterPropertiesBuilder {
    WriterProperties::builder().set_dictionary_enabled(false)
}

fn options(source: &str) -> TableOptions {
    let [label, start, end] = ["label", "start", "end"].map(str::to_owned);
    let keys = SampleKeys {
        source: source.to_owned(),
        label: Some(label),
        start,
        end,
        in_frames: false,
    };
    TableOptions {
        keys,
        classes: None,
        others: None,
        root: None,
    }
}

fn list(files: &[PathBuf], source: &str) -> Result<(ArchiveListing, Vec<String>)> {
    parquet(files, &options(source), ErrorPolicy::Raise, 1)
}

/// The errors of listing a table with these bytes, and of opening its first cell.
fn reason(bytes: &[u8], source: &str) -> String {
    let root = TempFolder::new();
    let path = root.write("a.parquet", bytes);
    match list(std::slice::from_ref(&path), source) {
        Err(error) => error.to_string(),
        Ok(_) => cell(&path, source, 0).map_or_else(|error| error.to_string(), |_| String::new()),
    }
}

fn cell(path: &Path, column: &str, row: u64) -> Result<Vec<u8>> {
    let source = CellReader::default()
        .cell(path, column.into(), row)
        .open()?;
    let mut bytes = vec![0; source.len() as usize];
    source.read_exact_at(&Site::file(source.name()), 0, &mut bytes)?;
    Ok(bytes)
}

/// The bytes with one sequence, which must occur, overwritten by another.
fn patched(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let at = bytes
        .windows(from.len())
        .position(|window| window == from)
        .unwrap();
    [&bytes[..at], to, &bytes[at + from.len()..]].concat()
}

const IMAGES: &str = "required binary image;";
const TEXTS: &str = "required binary uri (UTF8);";

#[test]
fn all_encodings_and_compressions_are_read() {
    let words: Vec<String> = (0..300).map(|n| format!("word {}", n / 7)).collect();
    let cells = [Cells::Bytes(
        words.iter().map(|word| word.as_bytes()).collect(),
    )];
    for compression in [
        Compression::UNCOMPRESSED,
        Compression::GZIP(Default::default()),
        Compression::LZ4,
    ] {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let made = || {
                plain()
                    .set_compression(compression)
                    .set_writer_version(version)
            };
            for properties in [
                made().set_encoding(Encoding::PLAIN),
                made().set_encoding(Encoding::DELTA_LENGTH_BYTE_ARRAY),
                made().set_encoding(Encoding::DELTA_BYTE_ARRAY),
                made().set_dictionary_enabled(true),
            ] {
                let root = TempFolder::new();
                let path = root.write("a.parquet", table(IMAGES, properties.clone(), &cells));
                for row in [0, 1, 150, 299] {
                    assert_eq!(
                        cell(&path, "image", row).unwrap(),
                        words[row as usize].as_bytes()
                    );
                }
                let path = root.write("b.parquet", table(TEXTS, properties, &cells));
                let (packed, _) = list(&[path], "uri").unwrap();
                let SampleLocation::Path(last) = &packed.samples[299].location else {
                    panic!()
                };
                assert!(last.ends_with("word 42") && packed.samples.len() == 300);
            }
        }
    }
}

#[test]
fn a_page_of_lengths_has_no_more_of_them_than_values() {
    let cells = [Cells::Bytes(vec![b"ab"; 300])];
    // 300 lengths in blocks of 128 with four miniblocks, the first one 2; below, the count becomes
    // 16383.
    let head = [0x80, 1, 4, 0xac, 2, 4];
    for encoding in [
        Encoding::DELTA_LENGTH_BYTE_ARRAY,
        Encoding::DELTA_BYTE_ARRAY,
    ] {
        for (schema, source) in [(IMAGES, "image"), (TEXTS, "uri")] {
            let intact = table(schema, plain().set_encoding(encoding), &cells);
            assert_eq!(reason(&intact, source), "");
            let at = match encoding {
                Encoding::DELTA_BYTE_ARRAY => [0x80, 1, 4, 0xac, 2, 0], // no prefix for the first one
                _ => head,
            };
            let lie = patched(&intact, &at[..5], &[0x80, 1, 4, 0xff, 0x7f]);
            let text = reason(&lie, source);
            assert!(
                text.contains("16383 lengths for at most 300 values"),
                "{encoding} {text}"
            );
        }
    }
    let intact = table(
        IMAGES,
        plain().set_encoding(Encoding::DELTA_BYTE_ARRAY),
        &cells,
    );
    let first = intact
        .windows(5)
        .position(|bytes| bytes == &head[..5])
        .unwrap();
    let lie = [
        &intact[..first + 5],
        &patched(&intact[first + 5..], &head[..5], &[0x80, 1, 4, 0xff, 0x7f]),
    ]
    .concat();
    assert!(
        reason(&lie, "image").contains("16383 lengths"),
        "of what comes behind beginnings"
    );
}

#[test]
fn a_dictionary_has_no_more_values_than_bytes() {
    let cells = [Cells::Bytes(
        (0..300)
            .map(|n| if n % 2 == 0 { &b"even"[..] } else { b"odd" })
            .collect(),
    )];
    for (schema, source) in [(IMAGES, "image"), (TEXTS, "uri")] {
        let intact = table(schema, WriterProperties::builder(), &cells);
        assert_eq!(reason(&intact, source), "");
        // The last field of the header, 7, is a struct: two values, plain, not sorted; here the
        // count becomes 60.
        let lie = patched(&intact, &[0x4c, 0x15, 4], &[0x4c, 0x15, 120]);
        let text = reason(&lie, source);
        assert!(
            text.contains("a dictionary of 60 values in 15 bytes"),
            "{text}"
        );
        // The count does not exceed the number of bytes, but each value takes four for its length.
        let text = reason(
            &patched(&intact, &[0x4c, 0x15, 4], &[0x4c, 0x15, 8]),
            source,
        );
        assert!(
            text.contains("a page with a dictionary of 4 values in 15 bytes"),
            "{text}"
        );
    }
}

#[test]
fn gzip_is_decompressed_up_to_a_limit() {
    let mut zipped = GzEncoder::new(vec![b'l'; 3], flate2::Compression::default());
    zipped.write_all(&[7; 1000]).unwrap();
    let zipped: Bytes = zipped.finish().unwrap().into();
    let page = |buf: Bytes| Page::DictionaryPage {
        buf,
        num_values: 1,
        encoding: Encoding::PLAIN,
        is_sorted: false,
    };
    let behind = |is_compressed| Page::DataPageV2 {
        buf: zipped.clone(),
        num_values: 1,
        encoding: Encoding::PLAIN,
        num_nulls: 0,
        num_rows: 1,
        def_levels_byte_len: 1,
        rep_levels_byte_len: 2,
        is_compressed,
        statistics: None,
    };
    assert_eq!(
        decompress_gzip(page(zipped.slice(3..)), 1000)
            .unwrap()
            .buffer(),
        &Bytes::from(vec![7; 1000])
    );
    let levels = [&b"lll"[..], &[7; 1000]].concat();
    assert_eq!(
        decompress_gzip(behind(true), 2000).unwrap().buffer(),
        &Bytes::from(levels)
    );
    assert_eq!(
        decompress_gzip(behind(false), 2000).unwrap().buffer(),
        &zipped
    );
    for (page, max_bytes, reason) in [
        (
            page(zipped.slice(3..)),
            999,
            "gzip decompresses to more than 999 bytes",
        ),
        (
            behind(true),
            1002,
            "gzip decompresses to more than 1002 bytes",
        ),
        (
            page(zipped.slice(3..zipped.len() - 9)),
            2000,
            "gzip cannot decompress",
        ),
        (page(zipped.clone()), 2000, "gzip cannot decompress"),
    ] {
        let error = decompress_gzip(page, max_bytes).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn gzip_output_is_bounded_by_the_header() {
    // The header of the first page: its type, and 50 values of 4 + 2 bytes, which make 300.
    let cells = [Cells::Bytes(vec![b"ab"; 50])];
    for (schema, source) in [(IMAGES, "image"), (TEXTS, "uri")] {
        let intact = table(
            schema,
            plain().set_compression(Compression::GZIP(Default::default())),
            &cells,
        );
        assert_eq!(reason(&intact, source), "");
        let text = reason(
            &patched(
                &intact,
                &[0x15, 0, 0x15, 0xd8, 4],
                &[0x15, 0, 0x15, 0xd6, 4],
            ),
            source,
        );
        assert!(
            text.contains("gzip decompresses to more than 299 bytes"),
            "{text}"
        );
    }
}

#[test]
fn a_path_that_leads_to_two_columns_is_an_error() {
    let schema = "required binary a.bytes; required group a { required binary bytes; }";
    let cells = [Cells::Bytes(vec![b"one"]), Cells::Bytes(vec![b"two"])];
    let bytes = table(schema, plain(), &cells);
    let text = reason(&bytes, "a.bytes");
    assert!(
        text.contains("a.parquet has two columns 'a.bytes'"),
        "{text}"
    );
    let root = TempFolder::new();
    let error = cell(&root.write("a.parquet", bytes), "a.bytes", 0)
        .unwrap_err()
        .to_string();
    assert!(error.contains("two columns 'a.bytes'"), "{error}");
}

#[test]
fn labels_are_of_one_kind_in_all_files() {
    let root = TempFolder::new();
    let numbers = [Cells::Bytes(vec![b"a.mp4"]), Cells::Integers(vec![3])];
    let names = [Cells::Bytes(vec![b"b.mp4"]), Cells::Bytes(vec![b"dog"])];
    let schema = format!("{TEXTS} required int64 label;");
    let one = root.write("one.parquet", table(&schema, plain(), &numbers));
    let schema = format!("{TEXTS} required binary label (UTF8);");
    let two = root.write("two.parquet", table(&schema, plain(), &names));
    for files in [[one.clone(), two.clone()], [two.clone(), one.clone()]] {
        let error = list(&files, "uri").unwrap_err().to_string();
        for part in [
            "numbers in ",
            "one.parquet and names in ",
            "two.parquet: 'label'",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }
    assert_eq!(list(&[two.clone(), two], "uri").unwrap().1, ["dog"]);
    assert_eq!(
        list(&[one.clone(), one], "uri").unwrap().0.samples[1].label,
        3
    );
}

#[test]
fn bounds_are_finite_numbers() {
    let schema = format!("{TEXTS} required double start;");
    for (wrong, shown) in [
        (f64::NAN, "NaN"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
    ] {
        let cells = [
            Cells::Bytes(vec![b"a.mp4"; 2]),
            Cells::Numbers(vec![1.0, wrong]),
        ];
        let text = reason(&table(&schema, plain(), &cells), "uri");
        assert!(
            text.contains(&format!(
                "row 1: \"start\" is {shown}, expected a number of seconds"
            )),
            "{text}"
        );
    }
}

#[test]
fn list_and_column_count_errors_suggest_a_fix() {
    let nested = "required group im (LIST) { repeated group list { required binary element; } }";
    let text = reason(
        &table(nested, plain(), &[Cells::OneList(vec![b"a", b"b"])]),
        "im.list.element",
    );
    assert!(
        text.contains(
            "column 'im.list.element' contains lists; source= must be a column with one video"
        ),
        "{text}"
    );
    let more: String = (0..1100)
        .map(|n| format!(" required int64 c{n};"))
        .collect();
    let mut cells = vec![Cells::Bytes(vec![b"a.mp4"])];
    cells.extend((0..1100).map(|n| Cells::Integers(vec![n])));
    let text = reason(&table(&format!("{TEXTS}{more}"), plain(), &cells), "uri");
    assert!(
        text.contains("has 1101 columns of numbers") && text.contains("with columns="),
        "{text}"
    );
}
