//! Descriptions of one layout each. `tests/python/test_annotations.py` tests the published datasets.

use super::*;
use crate::tests::TempFolder;
use crate::SegmentBounds;

fn layout() -> TableLayout {
    TableLayout { delimiter: Some(','), split: Split::Quoted, names: None, min_fields: 0, json: None }
}

fn description(layout: TableLayout) -> TableDescription {
    TableDescription {
        layout,
        file_column: None,
        types: Vec::new(),
        infer_lists: true,
        group: None,
        path: Some("path".to_owned()),
        templates: Vec::new(),
        template_columns: Vec::new(),
        frames: None,
        missing: None,
        label: None,
        segment: None,
        filters: Vec::new(),
        keep: None,
        drop: Vec::new(),
        arguments: Vec::new(),
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn fixed(delimiter: Option<char>, split: Split, columns: &[&str], min_fields: usize) -> TableDescription {
    description(TableLayout { delimiter, split, names: Some(names(columns)), min_fields, json: None })
}

fn read(text: &str, description: &TableDescription) -> Result<Dataset> {
    let folder = TempFolder::new();
    annotation_table(&[folder.write("t.csv", text)], Some(Path::new("/v")), description)
}

fn shown(dataset: &Dataset) -> Vec<String> {
    let column = |column: &Column| {
        let values: Vec<String> = column.values.iter().map(Value::shown).collect();
        format!("{} {}", column.name, values.join(" "))
    };
    dataset.columns.iter().map(column).collect()
}

fn check_errors(description: &TableDescription, cases: &[(&str, &str)]) {
    for (text, part) in cases {
        let error = read(text, description).unwrap_err().to_string();
        assert!(error.contains("t.csv") && error.contains(part), "{text:?}: {error}");
    }
}

#[test]
fn fields_may_be_quoted() {
    let text = "\u{feff}path,\"the label\", n \r\n a ,\"one, \"\"two\"\"\n3\",1\r\n , , \r\n\r\né,,2";
    let dataset = read(text, &description(layout())).unwrap();
    assert_eq!(shown(&dataset), ["path 'a' 'é'", "the label 'one, \"two\"\n3' null", "n 1 2"]);
    check_errors(
        &description(layout()),
        &[
            ("path,x\r\n\"a\r\n\",1\r\n\r\nb,\"c\r\n", "line 5: has a quotation mark that is not closed"),
            ("path,x\na,b,c\n", "line 2: has 3 fields where the header has 2"),
            ("path,x,path\n", "line 1: two columns are named 'path'"),
            ("name,x\n1,2\n", "has no column 'path'; it has 'name', 'x'; datasets.csv reads"),
            ("path\n", "has no rows; expected the columns 'path'"),
            ("", "has no rows; expected a header"),
            ("path\na\0\n", "line 2: contains a zero byte"),
            ("path\nok\nftp://host/a\n", "line 3, column 'path': 'ftp://host/a' is not on a disk"),
        ],
    );
    assert!(read(text, &description(TableLayout { delimiter: Some('é'), ..layout() })).is_err());
}

#[test]
fn lines_are_split_from_either_end() {
    let right = fixed(None, Split::Right, &["path", "n"], 1);
    let dataset = read("a b.avi  3 \nc 7 d.avi\r\n\n", &right).unwrap();
    assert_eq!(shown(&dataset), ["path 'a b.avi' 'c 7 d.avi'", "n 3 null"]);
    let left = fixed(Some(';'), Split::Left, &["path", "text"], 1);
    assert_eq!(shown(&read("a;b; c\nd", &left).unwrap()), ["path 'a' 'd'", "text 'b; c' null"]);
    check_errors(&left, &[("a;b\rc", "line 1: has a carriage return inside")]);
    check_errors(
        &fixed(None, Split::Left, &["path", "n"], 2),
        &[("a", "line 1: has 1 fields; write: path n")],
    );
}

#[test]
fn labels_are_names_or_numbers() {
    let label = |content| Label {
        column: "label".to_owned(),
        content,
        remove: String::new(),
        classes: None,
        class_file: None,
        number: None,
    };
    let with = |label: Label| TableDescription {
        label: Some(label),
        drop: names(&["path"]),
        ..description(layout())
    };
    let labels = |text: &str, content| {
        let dataset = read(&format!("path,label\n{text}"), &with(label(content))).unwrap();
        (dataset.samples.iter().map(|sample| sample.label).collect::<Vec<_>>(), dataset.classes.join(","))
    };
    use LabelContent::{Folder, Names, NamesOrNumbers, Numbers};
    assert_eq!(labels("a,b\nb,10\nc,\nd,Z\n", Names), (vec![2, 0, NO_LABEL, 1], "10,Z,b".to_owned()));
    assert_eq!(labels("a,3\nb,\nc,4.0\n", Numbers), (vec![3, NO_LABEL, 4], String::new()));
    assert_eq!(labels("a,y/1\nb,x/1\n", Folder), (vec![1, 0], "x,y".to_owned()));
    assert_eq!(labels("a,3\nb,\n", NamesOrNumbers), (vec![3, NO_LABEL], String::new()));
    assert_eq!(labels("a,3\nb,x\n", NamesOrNumbers), (vec![0, 1], "3,x".to_owned()));
    assert_eq!(labels("a,3\nb,0.5\n", NamesOrNumbers), (vec![NO_LABEL, NO_LABEL], String::new()));
    let given = with(Label { classes: Some(names(&["7", "3"])), ..label(NamesOrNumbers) });
    assert_eq!(read("path,label\na,3\nb,7\n", &given).unwrap().samples[0].label, 1);
    check_errors(
        &given,
        &[("path,label\na,3\nb,x\n", "line 3, column 'label': 'x' is not one of the 2 classes")],
    );
    check_errors(&given, &[("path,label\na,3\nb,2\n", "line 3, column 'label': 2 is not the number of one")]);
    check_errors(
        &with(label(Folder)),
        &[("path,label\na,b\n", "line 2, column 'label': 'b' has no class folder")],
    );
    check_errors(
        &with(label(Numbers)),
        &[("path,label\na,1.5\n", "line 2, column 'label': '1.5' is not an")],
    );
}

#[test]
fn segments_have_units() {
    let with = |unit, skip_empty| {
        let (start, end) = ("start".to_owned(), "end".to_owned());
        let segment = Segment { start, end, required: true, unit, skip_empty, around: None };
        TableDescription { segment: Some(segment), ..description(layout()) }
    };
    let segment = |unit, bounds: &str| read(&format!("path,start,end\na,{bounds}\n"), &with(unit, false));
    let frames = |start, end| Some(SegmentBounds::Frames { start, end: Some(end) });
    let seconds = |start, end| Some(SegmentBounds::Seconds { start: Some(start), end });
    for (unit, bounds, expected) in [
        (SegmentUnit::Seconds, "1.5,", seconds(1.5, None)),
        (SegmentUnit::Clock, "00:00:00.5,01:01:03.25", seconds(0.5, Some(3663.25))),
        (SegmentUnit::Frames, "3,9", frames(3, 9)),
        (SegmentUnit::FramesFrom1, "8,202.0", frames(7, 202)),
        (SegmentUnit::FramesFrom1, "0,1", frames(0, 1)),
    ] {
        assert_eq!(segment(unit, bounds).unwrap().samples[0].segment, expected, "{bounds}");
    }
    for (unit, bounds, part) in [
        (SegmentUnit::Seconds, "x,2", "column 'start': 'x' is not a number of seconds"),
        (SegmentUnit::Seconds, "2,2", "column 'end': 2 is not after 'start', which is 2"),
        (SegmentUnit::Seconds, ",", "column 'start': is empty"),
        (SegmentUnit::Clock, "00:00:05,00:61:00", "column 'end': '00:61:00' is not a time"),
        (SegmentUnit::Clock, "00:00:05,00:00:-6", "'00:00:-6'"),
        (SegmentUnit::Frames, "-1,2", "column 'start': '-1' is not the number of a frame"),
        (SegmentUnit::FramesFrom1, ",2", "column 'start': is empty; write the number of a frame"),
    ] {
        let error = segment(unit, bounds).unwrap_err().to_string();
        assert!(error.contains("t.csv, line 2, ") && error.contains(part), "{bounds}: {error}");
    }
    let dataset = read("path,start,end\na,1,1\nb,2,1\nc,1,2\n", &with(SegmentUnit::Seconds, true)).unwrap();
    assert_eq!(shown(&dataset)[0], "path 'c'");
    assert!(dataset.notes[0].contains("2 segments") && dataset.notes[0].ends_with("first is line 2"));
}

#[test]
fn the_first_template_with_a_file_is_taken() {
    let root = TempFolder::new();
    ["a_000002.mp4", "air_drumming/b_000003.mp4", "k/t.csv"]
        .iter()
        .for_each(|name| drop(root.write(name, "")));
    let templates = names(&["{path}_{n:06}.mp4", "{label:_}/{path}_{n:06}.mp4"]);
    let template_columns = names(&["path", "n", "label"]);
    let mut table = TableDescription { path: None, templates, template_columns, ..description(layout()) };
    let list = root.write("t.csv", "path,n,label\na,2.0,\nb,3,air drumming\nc,4,x\nc,4,..\n");
    let error = annotation_table(&[list.clone()], Some(&root.0), &table).unwrap_err().to_string();
    assert!(error.contains("t.csv, line 4: no file c_000004.mp4 or x/c_000004.mp4 in "), "{error}");
    assert!(error.contains("2 of 4 files are missing"), "{error}");
    table.missing = Some(crate::MissingFilePolicy::Skip);
    let dataset = annotation_table(&[list], Some(&root.0), &table).unwrap();
    let paths: Vec<_> =
        dataset.samples.iter().map(|sample| sample.path.strip_prefix(&root.0).unwrap()).collect();
    assert_eq!(paths, [Path::new("a_000002.mp4"), Path::new("air_drumming/b_000003.mp4")]);
    // A value of the list must not lead out of the root.
    let outside = root.write("u.csv", "path,n,label\na,2,..\n");
    let error = annotation_table(&[outside], Some(&root.0.join("k")), &table).unwrap_err().to_string();
    assert!(error.contains("none of 1 files exists, check root"), "{error}");
    check_errors(
        &table,
        &[
            ("path,n,label\n../a,2,x\n", "line 2, column 'path': '../a' cannot be part of a file's name"),
            ("path,n,label\na,1.5,x\n", "line 2, column 'n': '1.5' is not an integer of at least 0"),
        ],
    );
}

#[test]
fn filters_keep_rows_and_name_what_exists() {
    let with = |column: &str, value: Value| {
        let filter = Filter { argument: "where".into(), column: column.into(), values: vec![value] };
        TableDescription { filters: vec![filter], keep: Some(names(&["n", "path"])), ..description(layout()) }
    };
    let text = "path,n,split\na,1,train\nb,2,val\n";
    let kept = |column, value| shown(&read(text, &with(column, value)).unwrap());
    assert_eq!(kept("split", Value::Text("val".into())), ["n 2", "path 'b'"]);
    assert_eq!(kept("n", Value::Float(1.0)), kept("n", Value::Text("1".into())));
    check_errors(
        &with("n", Value::Integer(3)),
        &[(text, "where: "), (text, "no row with 3 in the column 'n'; it has 1, 2")],
    );
    check_errors(
        &with("part", Value::Null),
        &[(text, "where: "), (text, "has no column 'part'; it has 'path',")],
    );
}

#[test]
fn rows_of_a_group_are_one_sample() {
    let number = |name: &str| (name.to_owned(), ColumnType::Number);
    let table = TableDescription {
        types: vec![number("second"), number("x"), number("y"), ("who".to_owned(), ColumnType::Integer)],
        group: Some(Group {
            by: names(&["path", "second"]),
            lists: vec![
                ("box".to_owned(), names(&["x", "y"]), None),
                ("who".to_owned(), names(&["who"]), Some(-1)),
            ],
        }),
        ..fixed(Some(','), Split::Quoted, &["path", "second", "x", "y", "who"], 2)
    };
    let dataset = read("a,0902,1,2,7\na,902,3,4\nb,902\n", &table).unwrap();
    assert_eq!(dataset.columns[1].values, [Value::Float(902.0), Value::Float(902.0)]);
    let pair = |x, y| Value::List(vec![Value::Float(x), Value::Float(y)]);
    assert_eq!(
        dataset.columns[2].values,
        [Value::List(vec![pair(1.0, 2.0), pair(3.0, 4.0)]), Value::integers([])]
    );
    assert_eq!(dataset.columns[3].values[0], Value::integers([7, -1]));
    check_errors(
        &table,
        &[
            ("ok,1\na,soon,1,2\n", "line 2, column 'second': 'soon' is not a number"),
            ("ok,1\na,1,1,left\n", "line 2, column 'y': 'left' is not a number"),
            ("ok,1\na,1,1\n", "line 2, column 'y': is empty"),
            ("ok,1\na,1,1,2,x\n", "line 2, column 'who': 'x' is not an integer"),
            ("ok,1\na\n", "line 2: has 1 fields; write: path,second,x,y,who"),
        ],
    );
}

#[test]
fn parts_of_json_records_are_samples() {
    let json = JsonLayout {
        record: "video".to_owned(),
        at: Some("database".to_owned()),
        keyed: true,
        id: "path".to_owned(),
        value: None,
        parts: Some(("annotations".to_owned(), "annotation".to_owned())),
    };
    let table = description(TableLayout { json: Some(json), ..layout() });
    let text =
        r#"{"database": {"z": {"n": 1, "annotations": [{"n": 2, "x": [3]}, {}]}, "a": {"annotations": []}}}"#;
    let dataset = read(text, &table).unwrap();
    assert_eq!(
        shown(&dataset),
        ["path 'z' 'z' 'a'", "n 1 1 null", "annotation_n 2 null null", "x a list of 1 null null"]
    );
    check_errors(
        &table,
        &[
            (r#"{"videos": {}}"#, "has no \"database\" that is an object"),
            (r#"{"database": {}}"#, "has no rows; expected videos"),
            (r#"{"database": {"a": 3}}"#, "video 0 (id a): is 3, not an object"),
            (
                r#"{"database": {"a": {"annotations": 3}}}"#,
                "video 0 (id a), \"annotations\": is 3, not a list",
            ),
            (
                r#"{"database": {"a": {"annotations": [3]}}}"#,
                "video 0 (id a), annotation 0: is 3, not an object",
            ),
        ],
    );
}
