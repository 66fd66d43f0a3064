//! Writes small Parquet files of common kinds, with the crate `parquet`.

use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

const ROWS: usize = 12;
const SCHEMA: &str = "message rows {
    OPTIONAL BYTE_ARRAY video;
    OPTIONAL GROUP image { OPTIONAL BYTE_ARRAY bytes; OPTIONAL BYTE_ARRAY path (STRING); }
    REQUIRED BYTE_ARRAY path (STRING);
    OPTIONAL INT64 label;
    OPTIONAL DOUBLE start;
    OPTIONAL DOUBLE end;
    REQUIRED INT64 number;
}";

/// Each file with the option that reads one of its sources.
pub fn written() -> Vec<Vec<u8>> {
    let packings = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(ZstdLevel::default()),
        Compression::LZ4_RAW,
        Compression::GZIP(parquet::basic::GzipLevel::default()),
    ];
    let mut all = Vec::new();
    for (number, packing) in packings.into_iter().enumerate() {
        for (dictionary, version) in [
            (true, WriterVersion::PARQUET_1_0),
            (false, WriterVersion::PARQUET_1_0),
            (false, WriterVersion::PARQUET_2_0),
        ] {
            let properties = WriterProperties::builder()
                .set_compression(packing)
                .set_dictionary_enabled(dictionary)
                .set_writer_version(version)
                .set_data_page_row_count_limit(5)
                .set_write_batch_size(2)
                .build();
            let file = file(properties);
            all.extend((0..3).map(|source| [&[source | (number as u8) << 2][..], &file].concat()));
        }
    }
    all
}

fn file(properties: WriterProperties) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(SCHEMA).expect("a schema"));
    let mut out = Vec::new();
    let mut writer =
        SerializedFileWriter::new(&mut out, schema, Arc::new(properties)).expect("a writer");
    for group in 0..2 {
        let mut group_writer = writer.next_row_group().expect("a group");
        let mut column = 0;
        // Every fourth value of a nullable column is null.
        let there: Vec<usize> = (0..ROWS).filter(|row| row % 4 != 3).collect();
        let texts = |rows: &[usize], text: fn(usize) -> Vec<u8>| -> Vec<ByteArray> {
            rows.iter().map(|&row| ByteArray::from(text(row))).collect()
        };
        while let Some(mut next) = group_writer.next_column().expect("a column") {
            let one: Vec<i16> = (0..ROWS).map(|row| i16::from(row % 4 != 3)).collect();
            let two: Vec<i16> = one.iter().map(|level| level * 2).collect();
            let all: Vec<usize> = (0..ROWS).collect();
            let bytes = |row: usize| vec![row as u8; 20 + row];
            let name = |row: usize| format!("clips/{row}.mp4").into_bytes();
            let done = match column {
                0 => next.typed::<ByteArrayType>().write_batch(
                    &texts(&there, bytes),
                    Some(&one),
                    None,
                ),
                1 => next.typed::<ByteArrayType>().write_batch(
                    &texts(&there, bytes),
                    Some(&two),
                    None,
                ),
                2 => next.typed::<ByteArrayType>().write_batch(
                    &texts(&there, name),
                    Some(&two),
                    None,
                ),
                3 => next
                    .typed::<ByteArrayType>()
                    .write_batch(&texts(&all, name), None, None),
                4 => {
                    let labels: Vec<i64> = there.iter().map(|&row| row as i64 % 3).collect();
                    next.typed::<Int64Type>()
                        .write_batch(&labels, Some(&one), None)
                }
                5 | 6 => {
                    let times: Vec<f64> = there
                        .iter()
                        .map(|&row| (row + column) as f64 / 4.0)
                        .collect();
                    next.typed::<DoubleType>()
                        .write_batch(&times, Some(&one), None)
                }
                _ => {
                    let numbers: Vec<i64> =
                        all.iter().map(|&row| (row + group * ROWS) as i64).collect();
                    next.typed::<Int64Type>().write_batch(&numbers, None, None)
                }
            };
            done.expect("values of the column");
            next.close().expect("a column");
            column += 1;
        }
        group_writer.close().expect("a group");
    }
    writer.close().expect("a file");
    out
}
