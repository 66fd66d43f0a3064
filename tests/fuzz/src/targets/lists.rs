//! Text lists, annotations and patterns: the same dataset each time, with columns of its length, or
//! an error that names the file. Listed files are not opened.

use std::path::Path;

use framespool::Result;
use framespool::source::{ByteSource, ImageSequence, ImageSequenceSource};
use framespool_datasets::{
    AnnotationColumn, AnnotationOptions, DaliUnit, Dataset, ImageSequencePattern, SampleKeys,
    SegmentBounds, TableDescription, annotation_file, annotation_table, dali_file_list, json_lines,
};
use serde_json::{Value, json};

use super::{Target, USUAL, check_error};
use crate::fuzz_input::FuzzInput;
use crate::scratch;

pub const LISTS: Target = Target {
    name: "lists",
    about: "lists of paths of eight kinds",
    options: 2,
    seeds: |_| {
        SEEDS
            .iter()
            .map(|(kind, text)| [&[*kind, 0], text.as_bytes()].concat())
            .collect()
    },
    run: |input| {
        let Some((&[kind, option], text)) = input.split_first_chunk::<2>() else {
            return;
        };
        let path = scratch::write("fuzzed.txt", text);
        same_twice(&path, || listed(kind, option, &path));
    },
    longest: 16 << 10,
    replayed: 10_000,
    ..USUAL
};

pub const TABLES: Target = Target {
    name: "annotation_tables",
    about: "annotation tables, CSV and JSON, by descriptions",
    options: 3,
    seeds: |_| {
        TABLE_SEEDS
            .iter()
            .map(|(options, text)| [&options[..], text.as_bytes()].concat())
            .collect()
    },
    run: |input| {
        let Some((&options, text)) = input.split_first_chunk::<3>() else {
            return;
        };
        let path = scratch::write("fuzzed.csv", text);
        let description = description(options);
        same_twice(&path, || {
            annotation_table(
                std::slice::from_ref(&path),
                Some(Path::new("/nowhere")),
                &description,
            )
        });
    },
    longest: 16 << 10,
    replayed: 10_000,
    ..USUAL
};

pub const JSON_LINES: Target = Target {
    name: "json_lines",
    about: "JSON lines",
    options: 1,
    seeds: |_| {
        JSON.iter()
            .map(|text| [&[0], text.as_bytes()].concat())
            .collect()
    },
    run: |input| {
        let Some((&option, text)) = input.split_first() else {
            return;
        };
        let path = scratch::write("fuzzed.jsonl", text);
        let keys = SampleKeys {
            source: "video".into(),
            label: Some("label".into()),
            start: "start".into(),
            end: "end".into(),
            in_frames: option & 1 == 1,
        };
        same_twice(&path, || json_lines(&path, None, &keys, None));
    },
    longest: 16 << 10,
    replayed: 10_000,
    ..USUAL
};

pub const FRAMES: Target = Target {
    name: "frames",
    about: "patterns and numbers of frames in folders",
    seeds: |_| {
        let seeds = [
            "img_{:05}.jpg",
            "img_%05d.jpg",
            "{}.jpg",
            "%d.png",
            "{:3d}",
            "a{:020}b",
        ];
        seeds
            .iter()
            .map(|pattern| [b"\x01\x01\x02\x0a\x0a", pattern.as_bytes()].concat())
            .collect()
    },
    run: frames,
    longest: 300,
    replayed: 10_000,
    ..USUAL
};

const SEEDS: [(u8, &str); 8] = [
    (0, "a.mp4 1\nb c.mp4 2\n# no\nd.mp4\n"),
    (1, "a.mp4,1\nb.mp4,\n"),
    (2, "a.mp4 0 3 10\nb.mp4 1 -5 -1\nc.mp4 2\n"),
    (3, "a.mp4 0 0.5 1.25\nb.mp4 1 2\n"),
    (4, "folder/a 30 1\nb 12 0 2\n"),
    (5, "a 1\nb 2 3\n"),
    (6, "a.mp4 120 3\nb 80 1\n"),
    (7, "a.mp4;0;x\n\u{feff}b.mp4;1\n"),
];

/// Options of `description`, and a text.
const TABLE_SEEDS: [([u8; 3], &str); 9] = [
    (
        [0, 0, 0],
        "path,label,start,end,split\na.mp4,\"open, close\",0.5,1.5,train\r\nb.mp4,walk,,,val\n",
    ),
    (
        [8, 3, 16],
        "path,label,start,end\n\"a\n.mp4\",0.5,1,9\n\nb.mp4,2,3,\n",
    ),
    (
        [16, 2, 1],
        "path,label,start,end\na,3,00:00:01.089,00:01:02.629\nb,4,00:00:05,00:00:05\n",
    ),
    ([1, 0, 4], "-5K,0902,0.077,0.151\n-5K,0902,0.5,9\nx,903,,\n"),
    ([2, 2, 0], "Archery/a b.avi 2\nArchery/c.avi\n"),
    ([3, 0, 1], "34870;Drumming Fingers\n9;Swiping Left\n10\n"),
    (
        [4, 0, 1],
        "[{\"path\": \"78687\", \"label\": \"Holding [something]\", \"more\": [\"potato\"]}, {\"path\": 7}]",
    ),
    (
        [5, 0, 40],
        "{\"database\": {\"v1\": {\"split\": \"train\", \"annotations\": [{\"start\": 0.5, \"end\": 2, \"label\": \"jump\"}]}, \"v2\": {\"annotations\": []}}}",
    ),
    ([0, 1, 2], "\u{feff}path,label,label\na,\"b\n"),
];

const JSON: [&str; 4] = [
    "{\"video\": \"a.mp4\", \"label\": 1, \"start\": 0.5, \"end\": 2}\n{\"video\": \"b.mp4\"}\n",
    "{\"video\": \"file:///data/a%20b.mp4\", \"label\": \"run\", \"end\": 3, \"more\": {\"deep\": [1, 2.5, null, \"x\"]}}\n",
    "{\"video\": \"s3://bucket/a.mp4\", \"label\": [1, 2]}\n\n{\"video\": \"x\", \"label\": [], \"n\": 18446744073709551615}\n",
    "{\"video\": \"https://host/a.mp4?sig=1\", \"start\": 3, \"end\": 9, \"id\": \"007\"}\n",
];

/// Reads a list twice.
fn same_twice(path: &Path, read: impl Fn() -> Result<Dataset>) {
    let first = check_error(read());
    match (&first, check_error(read())) {
        // NaN values are not equal to themselves, but readers reject them.
        (Ok(first), Ok(second)) => assert_eq!(*first, second),
        (Err(first), Err(second)) => assert_eq!(first.to_string(), second.to_string()),
        (first, second) => panic!("first {first:?}, then {second:?}"),
    }
    let Ok(dataset) = first else { return };
    let (entries, classes) = (dataset.samples.len(), dataset.classes.len() as i64);
    assert!(
        entries > 0,
        "{} lists nothing without an error",
        path.display()
    );
    assert!(
        dataset
            .columns
            .iter()
            .all(|column| column.values.len() == entries)
    );
    for sample in &dataset.samples {
        if sample.label_name.is_some() && classes > 0 {
            assert!(
                (0..classes).contains(&sample.label),
                "label {} of {classes}",
                sample.label
            );
        }
        match sample.segment {
            Some(SegmentBounds::Seconds { start, end }) => {
                let finite = start.is_none_or(f64::is_finite) && end.is_none_or(f64::is_finite);
                assert!(
                    finite && start.zip(end).is_none_or(|(start, end)| start < end),
                    "{sample:?}"
                );
            }
            Some(SegmentBounds::Frames {
                start,
                end: Some(end),
            }) if start >= 0 && end >= 0 => {
                assert!(start < end, "{sample:?}");
            }
            _ => {}
        }
    }
}

fn listed(kind: u8, option: u8, path: &Path) -> Result<Dataset> {
    use AnnotationColumn::{Duration, Label, Labels, Start, Total};
    let root = Path::new("/nowhere");
    let frames = || ImageSequencePattern {
        pattern: "img_{:05}.jpg".into(),
        first: 1,
        count: None,
        fps: (30, 1),
    };
    let odd = option & 1 == 1;
    let list = |columns: &[AnnotationColumn], delimiter: Option<&str>| {
        let extension = (option & 2 == 2).then_some("mp4");
        let frames = Some(&frames());
        annotation_file(
            path,
            &AnnotationOptions {
                root: Some(root),
                columns,
                delimiter,
                extension,
                frames,
            },
        )
    };
    match kind % 8 {
        0 => annotation_file(path, &AnnotationOptions::default()),
        1 => list(&[Label], Some(",")),
        2 => dali_file_list(path, None, DaliUnit::Frames),
        3 if odd => {
            let (start_up, end_up) = (option & 2 == 2, option & 4 == 4);
            dali_file_list(
                path,
                None,
                DaliUnit::Rounded {
                    start_up,
                    end_up,
                    fps: (30000, 1001),
                },
            )
        }
        3 => dali_file_list(path, None, DaliUnit::Seconds),
        4 if odd => list(&[Total, Label], None),
        4 => list(&[Start, Total, Label], None),
        5 => list(if odd { &[Labels] } else { &[Total, Labels] }, None),
        6 => list(&[Duration, Label], odd.then_some("::")),
        _ => list(&[Label], Some(if odd { ";" } else { "\t" })),
    }
}

/// A description: the layout and the unit of segments, the content of labels, and flags.
fn description([layout, content, flags]: [u8; 3]) -> TableDescription {
    let has = |bit: u8| flags & bit == bit;
    let no = Value::Null;
    let json = |at: Option<&str>, parts: Option<[&str; 2]>| json!({"record": "video", "at": at, "keyed": at.is_some(), "id": "path", "value": no, "parts": parts});
    let (delimiter, split, names, json) = match layout % 6 {
        0 => (Some(","), "quoted", no.clone(), no.clone()),
        1 => (
            Some(","),
            "quoted",
            json!(["path", "start", "end", "label"]),
            no.clone(),
        ),
        2 => (None, "right", json!(["path", "label"]), no.clone()),
        3 => (Some(";"), "left", json!(["path", "label"]), no.clone()),
        4 => (None, "left", no.clone(), json(None, None)),
        _ => (
            None,
            "left",
            no.clone(),
            json(Some("database"), Some(["annotations", "annotation"])),
        ),
    };
    let templates = if has(8) {
        json!(["{path}.mp4", "{label:_}/{path}.mp4"])
    } else {
        json!(["{path:06}.*"])
    };
    let group = json!({"by": ["path", "start"], "lists": [["ends", ["end", "label"], has(8).then_some(-1)]]});
    let contents = ["names", "numbers", "folder", "names_or_numbers"];
    let units = ["seconds", "frames", "clock", "frames_from1"];
    let label = json!({
        "column": "label", "remove": "[]", "classes": (content & 8 == 8).then_some(["walk", "run"]),
        "content": contents[usize::from(content % 4)],
        "class_file": no, "number": no,
    });
    let segment = json!({
        "start": "start", "end": if has(1) { "start" } else { "end" }, "required": has(2), "skip_empty": has(1),
        "unit": units[usize::from(layout / 8 % 4)],
        "around": has(4).then_some([3.0, 900.0]),
    });
    let filters = [json!({"argument": "where", "column": "split", "values": ["train", 1]})];
    let types = if has(4) {
        json!([["start", "number"]])
    } else {
        json!([])
    };
    let table = json!({
        "layout": {
            "delimiter": delimiter, "split": split, "names": names, "min_fields": 1 + u8::from(has(2)),
            "json": json,
        },
        "file_column": has(32).then_some(["file", ".csv"]), "types": types, "infer_lists": has(16),
        "group": has(4).then_some(group), "path": (!has(32)).then_some("path"), "templates": templates,
        "template_columns": ["path", "label"], "missing": has(128).then_some("skip"), "label": label,
        "frames": has(64).then_some(json!(["img_{:05}.jpg", 1, no, [30, 1]])),
        "segment": (content & 4 == 0).then_some(segment),
        "filters": &filters[usize::from(content & 16 == 0)..], "keep": (content & 32 == 32).then_some(json!([])),
        "drop": ["path"], "arguments": [],
    });
    serde_json::from_value(table).expect("a description")
}

fn frames(input: &[u8]) {
    let mut case = FuzzInput::new(input);
    let folder = scratch::folder().join("frames");
    if !folder.exists() {
        std::fs::create_dir_all(&folder).expect("room for a folder");
        for name in [
            "img_00001.jpg",
            "img_00002.jpg",
            "1.jpg",
            "2.jpg",
            "10.png",
            "0000000000000000000001",
        ] {
            std::fs::write(folder.join(name), name).expect("room for a file");
        }
    }
    let frames = ImageSequence {
        folder,
        first: case.count(),
        count: case.maybe(FuzzInput::count),
        fps: (case.count(), case.count()),
        pattern: case.maybe(|case| case.text(255)),
    };
    let Ok(source) = check_error(ImageSequenceSource::open(&frames)) else {
        return;
    };
    let parts: Vec<(u64, u64)> = source.file_spans().collect();
    assert!(
        !parts.is_empty() && parts.len() <= 6,
        "{} frames of 6 files",
        parts.len()
    );
    assert!(
        frames
            .count
            .is_none_or(|count| frames.pattern.is_none() || count as usize == parts.len())
    );
    let mut end = 0;
    for &(begin, len) in &parts {
        assert_eq!(begin, end);
        end += len;
    }
    assert_eq!(end, source.len());
    let mut bytes = vec![0; end as usize];
    assert_eq!(
        source.read_at(0, &mut bytes).expect("files that are there"),
        bytes.len()
    );
}
