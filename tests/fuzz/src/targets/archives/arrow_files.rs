//! Writes small Arrow files and streams of common kinds, with the crate `arrow-ipc`.

use std::sync::Arc;

use arrow_array::builder::{BinaryViewBuilder, ListBuilder, StringBuilder};
use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, BinaryArray, DictionaryArray, Float64Array, Int64Array, LargeBinaryArray,
    RecordBatch, StringArray, StructArray,
};
use arrow_ipc::writer::{FileWriter, StreamWriter};

const ROWS: usize = 6;

/// Each file with the option that reads one of its sources.
pub fn written() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for kind in 0..3 {
        let batch = batch(kind);
        let (mut file, mut stream) = (Vec::new(), Vec::new());
        let mut files = FileWriter::try_new(&mut file, &batch.schema()).expect("a file");
        let mut streams = StreamWriter::try_new(&mut stream, &batch.schema()).expect("a stream");
        for _ in 0..2 {
            files.write(&batch).expect("rows of the file");
            streams.write(&batch).expect("rows of the stream");
        }
        files.finish().expect("the file's end");
        streams.finish().expect("the stream's end");
        drop((files, streams));
        for bytes in [&file, &stream] {
            all.extend((0..3).map(|source| [&[source | kind << 4][..], bytes].concat()));
        }
    }
    all
}

/// Rows whose bytes have one of three types, between other columns. Every fourth value of a
/// nullable column is null.
fn batch(kind: u8) -> RecordBatch {
    let there = |row: usize| row % 4 != 3;
    let bytes: Vec<Option<Vec<u8>>> = (0..ROWS)
        .map(|row| there(row).then(|| vec![row as u8; 8 + 3 * row]))
        .collect();
    let bytes: Vec<Option<&[u8]>> = bytes.iter().map(Option::as_deref).collect();
    let video: ArrayRef = match kind {
        0 => Arc::new(BinaryArray::from(bytes.clone())),
        1 => Arc::new(LargeBinaryArray::from(bytes.clone())),
        _ => {
            let mut views = BinaryViewBuilder::new();
            bytes.iter().for_each(|value| views.append_option(*value));
            Arc::new(views.finish())
        }
    };
    let names: Vec<String> = (0..ROWS).map(|row| format!("clips/{row}.mp4")).collect();
    let path: ArrayRef = Arc::new(StringArray::from_iter_values(&names));
    let image: ArrayRef = Arc::new(
        StructArray::try_from(vec![("bytes", video.clone()), ("path", path.clone())])
            .expect("a struct"),
    );
    let label: ArrayRef = match kind {
        0 => Arc::new(
            (0..ROWS)
                .map(|row| ["run", "jump"][row % 2])
                .collect::<DictionaryArray<Int8Type>>(),
        ),
        _ => Arc::new(
            (0..ROWS as i64)
                .map(|row| (row % 4 != 3).then_some(row))
                .collect::<Int64Array>(),
        ),
    };
    let mut tags = ListBuilder::new(StringBuilder::new());
    for (row, name) in names.iter().enumerate() {
        tags.values().append_value(name);
        tags.append(there(row));
    }
    let start: ArrayRef = Arc::new(
        (0..ROWS)
            .map(|row| there(row).then_some(row as f64 / 4.0))
            .collect::<Float64Array>(),
    );
    let number: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
    let columns = [
        ("tags", Arc::new(tags.finish()) as ArrayRef),
        ("video", video),
        ("image", image),
        ("path", path),
        ("label", label),
        ("start", start),
        ("number", number),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
        .expect("columns of one length")
}
