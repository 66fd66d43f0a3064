//! Streams are written by the library, with columns of every type between the wanted ones.
//! tests/python/test_arrow.py reads damaged files and what pyarrow wrote.

use arrow_array::builder::{
    BinaryViewBuilder, ListBuilder, MapBuilder, StringBuilder, UInt8Builder,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, Int64Array, LargeBinaryArray, NullArray, RecordBatch,
    StringArray, StringViewArray, StructArray,
};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{Field, Schema};

use super::*;
use crate::SampleKeys;
use crate::archive::SampleLocation;
use crate::column_value::Value;
use crate::tests::TempFolder;

/// Values of three rows; the second is missing where the type allows it.
fn columns() -> Vec<(&'static str, ArrayRef)> {
    let mut tags = ListBuilder::new(ListBuilder::new(StringBuilder::new()));
    let mut map = MapBuilder::new(None, StringBuilder::new(), UInt8Builder::new());
    let mut views = BinaryViewBuilder::new();
    for row in 0..3u8 {
        tags.values().values().append_value(format!("t{row}"));
        tags.values().append(true);
        tags.append(row != 1);
        map.keys().append_value("k");
        map.values().append_value(row);
        map.append(true).unwrap();
        let long = format!("a value that is too long for its view, {row}");
        views.append_value(if row == 1 {
            b"short".to_vec()
        } else {
            long.into_bytes()
        });
    }
    let bytes: [Option<&[u8]>; 3] = [Some(b"one"), None, Some(b"three")];
    let text = StringArray::from(vec![Some("a"), None, Some("c")]);
    let number = Int64Array::from(vec![Some(1), None, Some(3)]);
    let pair: Vec<(Arc<Field>, ArrayRef)> = vec![
        (
            Arc::new(Field::new("bytes", arrow_schema::DataType::Binary, true)),
            Arc::new(BinaryArray::from(bytes.to_vec())),
        ),
        (
            Arc::new(Field::new("path", arrow_schema::DataType::Utf8, true)),
            Arc::new(text.clone()),
        ),
    ];
    let inner = StructArray::from(pair);
    let outer = StructArray::from(vec![(
        Arc::new(Field::new("inner", inner.data_type().clone(), true)),
        Arc::new(inner.clone()) as ArrayRef,
    )]);
    vec![
        ("number", Arc::new(number)),
        ("text", Arc::new(text)),
        (
            "view",
            Arc::new(StringViewArray::from(vec![
                Some("a text of more than twelve bytes"),
                None,
                Some("c"),
            ])),
        ),
        ("binary", Arc::new(BinaryArray::from(bytes.to_vec()))),
        ("large", Arc::new(LargeBinaryArray::from(bytes.to_vec()))),
        ("views", Arc::new(views.finish())),
        ("null", Arc::new(NullArray::new(3))),
        ("tags", Arc::new(tags.finish())),
        ("map", Arc::new(map.finish())),
        ("image", Arc::new(inner)),
        ("outer", Arc::new(outer)),
    ]
}

/// A file with the columns in this order.
fn written(root: &TempFolder, order: &[usize], stream: bool) -> PathBuf {
    let all = columns();
    let columns: Vec<_> = order.iter().map(|&n| all[n].clone()).collect();
    let fields: Vec<_> = columns
        .iter()
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), true))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(
        schema.clone(),
        columns.into_iter().map(|(_, array)| array).collect(),
    )
    .unwrap();
    let mut bytes = Vec::new();
    if stream {
        let mut writer = StreamWriter::try_new(&mut bytes, &schema).unwrap();
        (0..2).for_each(|_| writer.write(&batch).unwrap());
        writer.finish().unwrap();
    } else {
        let mut writer = FileWriter::try_new(&mut bytes, &schema).unwrap();
        (0..2).for_each(|_| writer.write(&batch).unwrap());
        writer.finish().unwrap();
    }
    root.write("a.arrow", bytes)
}

fn read(path: &Path, source: &str, others: &[&str]) -> Result<ArchiveListing> {
    let [label, start, end] = ["label", "start", "end"].map(str::to_owned);
    let keys = SampleKeys {
        source: source.to_owned(),
        label: Some(label),
        start,
        end,
        in_frames: false,
    };
    let others = Some(others.iter().map(|name| (*name).to_owned()).collect());
    let options = TableOptions {
        keys,
        classes: None,
        others,
        root: None,
    };
    arrow(&[path.to_owned()], &options, ErrorPolicy::Skip, 1).map(|(packed, _)| packed)
}

#[test]
fn values_are_found_behind_any_columns() {
    let root = TempFolder::new();
    let count = columns().len();
    for turn in 0..count {
        // Each column comes first, last, and after each other one.
        let order: Vec<usize> = (0..count).map(|n| (n + turn) % count).collect();
        let path = written(&root, &order, turn % 2 == 0);
        for (source, wanted) in [
            ("binary", [Some("one"), None, Some("three")]),
            ("large", [Some("one"), None, Some("three")]),
            ("image", [Some("one"), None, Some("three")]),
            ("outer.inner.bytes", [Some("one"), None, Some("three")]),
            (
                "views",
                [
                    Some("a value that is too long for its view, 0"),
                    Some("short"),
                    Some("a value that is too long for its view, 2"),
                ],
            ),
        ] {
            let packed = read(
                &path,
                source,
                &["number", "text", "view", "null", "outer.inner.path", "tags"],
            )
            .unwrap();
            let present: Vec<(usize, &str)> = wanted
                .iter()
                .enumerate()
                .filter_map(|(row, value)| Some((row, (*value)?)))
                .collect();
            assert_eq!(packed.samples.len(), 2 * present.len(), "{source}");
            let file = std::fs::read(&path).unwrap();
            for (sample, (row, value)) in packed.samples.iter().zip(present.iter().chain(&present))
            {
                let SampleLocation::Member(member) = &sample.location else {
                    panic!("{sample:?}")
                };
                let bytes = &file[member.offset as usize..(member.offset + member.len) as usize];
                assert_eq!(bytes, value.as_bytes(), "{source}, row {row}");
                let text = |text: &str| Value::Text(text.to_owned());
                let present = |value: Value| if *row == 1 { Value::Null } else { value };
                let letter = if *row == 0 { "a" } else { "c" };
                let long = if *row == 0 {
                    "a text of more than twelve bytes"
                } else {
                    "c"
                };
                let tags = Value::List(vec![Value::List(vec![text(&format!("t{row}"))])]);
                let tags = if *row == 0 {
                    tags
                } else {
                    Value::List(vec![Value::List(vec![text("t2")])])
                };
                let column_values = [
                    ("number", present(Value::Integer(*row as i64 + 1))),
                    ("text", present(text(letter))),
                    ("view", present(text(long))),
                    ("null", Value::Null),
                    ("outer.inner.path", present(text(letter))),
                    ("tags", present(tags)),
                ];
                for (name, value) in column_values {
                    let found = sample
                        .column_values
                        .iter()
                        .find(|(known, _)| known == name)
                        .map(|(_, value)| value.clone());
                    assert_eq!(
                        found.unwrap_or(Value::Null),
                        value,
                        "{source}, row {row}, {name}"
                    );
                }
            }
        }
        let error = read(&path, "binary", &["map"]).unwrap_err().to_string();
        assert!(error.contains("column 'map' of type"), "{error}");
    }
}

#[test]
fn invalid_lengths_are_errors_with_their_offset() {
    let root = TempFolder::new();
    let path = written(&root, &[3, 0], true);
    let intact = std::fs::read(&path).unwrap();
    for (at, bytes, reason) in [
        (
            0,
            &b"\x00\x00\x00\x00"[..],
            "does not start like an Arrow file or stream",
        ),
        (4, b"\xff\xff\xff\x7f", "above the limit"),
        (4, b"\xff\xff\xff\x0f", "needs bytes"),
        (8, b"\xff\xff\xff\xff", "an invalid message"),
    ] {
        let mut damaged = intact.clone();
        damaged[at..at + bytes.len()].copy_from_slice(bytes);
        let error = read(&root.write("b.arrow", damaged), "binary", &[])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(reason) && error.contains("b.arrow, byte"),
            "{error}"
        );
    }
    for cut in 0..intact.len() {
        let read = read(&root.write("c.arrow", &intact[..cut]), "binary", &[]);
        assert!(
            read.is_err() || matches!(read.unwrap().samples.len(), 2 | 4),
            "{cut}"
        );
    }
}
