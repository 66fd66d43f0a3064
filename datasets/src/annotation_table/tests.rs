//! Descriptions of one layout each. `tests/python/test_annotations.py` tests the published
//! datasets.

use serde_json::json;

use super::*;
use crate::SegmentBounds;
use crate::tests::TempFolder;

const DEFAULTS: &str = r#"{
    "layout": {"delimiter": ",", "split": "quoted", "names": null, "min_fields": 0, "json": null},
    "file_column": null, "types": [], "infer_lists": true, "group": null, "path": "path", "templates": [],
    "template_columns": [], "frames": null, "missing": null, "label": null, "segment": null, "filters": [],
    "keep": null, "drop": [], "arguments": []
}"#;

/// A description with these fields, and defaults.
fn table(fields: serde_json::Value) -> TableDescription {
    let mut all: serde_json::Value = serde_json::from_str(DEFAULTS).unwrap();
    for (name, value) in fields.as_object().unwrap() {
        match value.as_object().filter(|_| name == "layout") {
            Some(layout) => layout
                .iter()
                .for_each(|(name, value)| all["layout"][name] = value.clone()),
            None => all[name] = value.clone(),
        }
    }
    serde_json::from_value(all).unwrap()
}

fn read(text: &str, description: &TableDescription) -> Result<Dataset> {
    let folder = TempFolder::new();
    annotation_table(
        &[folder.write("t.csv", text)],
        Some(Path::new("/v")),
        description,
    )
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
        assert!(
            error.contains("t.csv") && error.contains(part),
            "{text:?}: {error}"
        );
    }
}

#[test]
fn fields_may_be_quoted() {
    let text =
        "\u{feff}path,\"the label\", n \r\n a ,\"one, \"\"two\"\"\n3\",1\r\n , , \r\n\r\né,,2";
    let csv = table(json!({}));
    assert_eq!(
        shown(&read(text, &csv).unwrap()),
        ["path 'a' 'é'", "the label 'one, \"two\"\n3' null", "n 1 2"]
    );
    check_errors(
        &csv,
        &[
            (
                "path,x\r\n\"a\r\n\",1\r\n\r\nb,\"c\r\n",
                "line 5: has a quotation mark that is not closed",
            ),
            (
                "path,x\na,\"b\nc,d\"e\nf,g\n",
                "line 2: has text behind a quotation mark that ends several lines",
            ),
            (
                "path,x\na,b,c\n",
                "line 2: has 3 fields where the header has 2",
            ),
            ("path,x,path\n", "line 1: two columns are named 'path'"),
            (
                "path,column 3,\n",
                "line 1: two columns are named 'column 3'",
            ),
            (
                "name,x\n1,2\n",
                "has no column 'path'; it has 'name', 'x'; datasets.csv reads",
            ),
            ("path\n", "has no rows; expected the columns 'path'"),
            ("", "has no rows; expected a header"),
            ("path\na\0\n", "line 2: contains a zero byte"),
            (
                "path\nok\nftp://host/a\n",
                "line 3, column 'path': 'ftp://host/a' is not on a disk",
            ),
        ],
    );
    assert!(read(text, &table(json!({"layout": {"delimiter": "é"}}))).is_err());
    let lenient = "path,x\na,\"b\nc, \"\"d\"\"\" \n\"\"e\"\",\"f\"g\n";
    assert_eq!(
        shown(&read(lenient, &csv).unwrap()),
        ["path 'a' 'e\"\"'", "x 'b\nc, \"d\"' 'fg'"]
    );
}

#[test]
fn lines_are_split_from_either_end() {
    let with = |delimiter: Option<char>, split: &str, least: usize| {
        let names = ["path", "n"];
        table(
            json!({"layout": {"delimiter": delimiter, "split": split, "names": names, "min_fields": least}}),
        )
    };
    let right = read("a b.avi  3 \nc 7 d.avi\r\n\n", &with(None, "right", 1)).unwrap();
    assert_eq!(shown(&right), ["path 'a b.avi' 'c 7 d.avi'", "n 3 null"]);
    let left = with(Some(';'), "left", 1);
    assert_eq!(
        shown(&read("a;b; c\nd", &left).unwrap()),
        ["path 'a' 'd'", "n 'b; c' null"]
    );
    check_errors(&left, &[("a;b\rc", "line 1: has a carriage return inside")]);
    check_errors(
        &with(None, "left", 2),
        &[("a", "line 1: has 1 fields; write: path n")],
    );
}

#[test]
fn labels_are_names_or_numbers() {
    let with = |content: &str, classes: Option<[&str; 2]>| {
        let label = json!({
            "column": "label", "content": content, "remove": "", "classes": classes, "class_file": null,
            "number": null
        });
        table(json!({"label": label, "drop": ["path"]}))
    };
    let labels = |rows: &str, content| {
        let dataset = read(&format!("path,label\n{rows}"), &with(content, None)).unwrap();
        (
            dataset
                .samples
                .iter()
                .map(|sample| sample.label)
                .collect::<Vec<_>>(),
            dataset.classes.join(","),
        )
    };
    assert_eq!(
        labels("a,b\nb,10\nc,\nd,Z\n", "names"),
        (vec![2, 0, NO_LABEL, 1], "10,Z,b".to_owned())
    );
    assert_eq!(
        labels("a,3\nb,\nc,4.0\n", "numbers"),
        (vec![3, NO_LABEL, 4], String::new())
    );
    assert_eq!(
        labels("a,y/1\nb,x/1\n", "folder"),
        (vec![1, 0], "x,y".to_owned())
    );
    assert_eq!(
        labels("a,3\nb,\n", "names_or_numbers"),
        (vec![3, NO_LABEL], String::new())
    );
    assert_eq!(
        labels("a,3\nb,x\n", "names_or_numbers"),
        (vec![0, 1], "3,x".to_owned())
    );
    // Data frames write a column of integers with a missing value like this.
    assert_eq!(
        labels("a,3.0\nb,\nc,10.0\n", "names_or_numbers"),
        (vec![3, NO_LABEL, 10], String::new())
    );
    assert_eq!(
        labels("a,2\nb,010\n", "names_or_numbers"),
        (vec![1, 0], "010,2".to_owned())
    );
    assert_eq!(
        labels("a,3\nb,0.5\n", "names_or_numbers"),
        (vec![NO_LABEL, NO_LABEL], String::new())
    );
    let given = with("names_or_numbers", Some(["7", "3"]));
    assert_eq!(
        read("path,label\na,3\nb,7\n", &given).unwrap().samples[0].label,
        1
    );
    for (description, rows, part) in [
        (
            &given,
            "a,3\nb,x\n",
            "line 3, column 'label': 'x' is not one of the 2 classes",
        ),
        (
            &given,
            "a,1\nb,2\n",
            "line 3, column 'label': 2 is not the number of one",
        ),
        (
            &with("folder", None),
            "a,b\n",
            "line 2, column 'label': 'b' has no class folder",
        ),
        (
            &with("numbers", None),
            "a,1.5\n",
            "line 2, column 'label': '1.5' is not an integer",
        ),
    ] {
        check_errors(description, &[(&format!("path,label\n{rows}"), part)]);
    }
}

#[test]
fn labels_do_not_depend_on_the_name_of_their_column() {
    let label = json!({
        "column": "class_id", "content": "names_or_numbers", "remove": "", "classes": null, "class_file": null,
        "number": null
    });
    let description = table(json!({"label": label, "drop": ["path", "class_id"]}));
    let integers = read("path,class_id\na,0\nb,10\nc,2\n", &description).unwrap();
    let labels: Vec<i64> = integers.samples.iter().map(|sample| sample.label).collect();
    assert_eq!((labels, integers.classes.len()), (vec![0, 10, 2], 0));
    let numbers = read("path,class_id\na,3\nb,0.5\n", &description).unwrap();
    assert_eq!(shown(&numbers), ["class_id 3.0 0.5"]);
}

#[test]
fn segments_have_units() {
    let with = |unit: &str, skip_empty: bool| {
        let segment = json!({
            "start": "start", "end": "end", "unit": unit, "required": true, "skip_empty": skip_empty,
            "around": null
        });
        table(json!({ "segment": segment }))
    };
    let frames = |start, end| {
        Some(SegmentBounds::Frames {
            start,
            end: Some(end),
        })
    };
    let seconds = |start, end| {
        Some(SegmentBounds::Seconds {
            start: Some(start),
            end,
        })
    };
    for (unit, bounds, expected) in [
        ("seconds", "1.5,", Ok(seconds(1.5, None))),
        (
            "clock",
            "00:00:00.5,01:01:03.25",
            Ok(seconds(0.5, Some(3663.25))),
        ),
        ("frames", "3,9", Ok(frames(3, 9))),
        ("frames_from1", "8,202.0", Ok(frames(7, 202))),
        ("frames_from1", "0,1", Ok(frames(0, 1))),
        (
            "seconds",
            "x,2",
            Err("column 'start': 'x' is not a number of seconds"),
        ),
        (
            "seconds",
            "2,2",
            Err("column 'end': 2 is not after 'start', which is 2"),
        ),
        ("seconds", ",", Err("column 'start': is empty")),
        (
            "clock",
            "00:00:05,00:61:00",
            Err("column 'end': '00:61:00' is not a time"),
        ),
        ("clock", "00:00:05,00:00:-6", Err("'00:00:-6'")),
        (
            "frames",
            "-1,2",
            Err("column 'start': '-1' is not the number of a frame"),
        ),
        (
            "frames_from1",
            ",2",
            Err("column 'start': is empty; write the number of a frame"),
        ),
    ] {
        let found = read(&format!("path,start,end\na,{bounds}\n"), &with(unit, false));
        match (found.map(|dataset| dataset.samples[0].segment), expected) {
            (Err(error), Err(part)) => {
                let error = error.to_string();
                assert!(
                    error.contains("t.csv, line 2, ") && error.contains(part),
                    "{bounds}: {error}"
                );
            }
            (found, expected) => {
                assert_eq!(
                    found.map_err(|error| error.to_string()),
                    expected.map_err(str::to_owned)
                )
            }
        }
    }
    let dataset = read(
        "path,start,end\na,1,1\nb,2,1\nc,1,2\n",
        &with("seconds", true),
    )
    .unwrap();
    assert_eq!(shown(&dataset)[0], "path 'c'");
    assert!(
        dataset.notes[0].contains("2 segments") && dataset.notes[0].ends_with("first is line 2")
    );
}

#[test]
fn the_first_template_with_a_file_is_taken() {
    let root = TempFolder::new();
    ["a_000002.mp4", "air_drumming/b_000003.mp4", "k/t.csv"]
        .iter()
        .for_each(|name| drop(root.write(name, "")));
    let templates = ["{path}_{n:06}.mp4", "{label:_}/{path}_{n:06}.mp4"];
    let with = |missing: Option<&str>| {
        let columns = ["path", "n", "label"];
        table(
            json!({"path": null, "templates": templates, "template_columns": columns, "missing": missing}),
        )
    };
    let list = root.write(
        "t.csv",
        "path,n,label\na,2.0,\nb,3,air drumming\nc,4,x\nc,4,..\n",
    );
    let error = annotation_table(std::slice::from_ref(&list), Some(&root.0), &with(None))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("t.csv, line 4: no file c_000004.mp4 or x/c_000004.mp4 in "),
        "{error}"
    );
    assert!(error.contains("2 of 4 files are missing"), "{error}");
    let skip = with(Some("skip"));
    let dataset = annotation_table(&[list], Some(&root.0), &skip).unwrap();
    let below = |sample: &Sample| sample.path.strip_prefix(&root.0).unwrap().to_owned();
    let paths: Vec<PathBuf> = dataset.samples.iter().map(below).collect();
    assert_eq!(
        paths,
        [
            Path::new("a_000002.mp4"),
            Path::new("air_drumming/b_000003.mp4")
        ]
    );
    // A value of the list must not lead out of the root.
    let outside = root.write("u.csv", "path,n,label\na,2,..\n");
    let error = annotation_table(&[outside], Some(&root.0.join("k")), &skip)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("none of 1 files exists, check root"),
        "{error}"
    );
    check_errors(
        &skip,
        &[
            (
                "path,n,label\n../a,2,x\n",
                "line 2, column 'path': '../a' cannot be part of a file's name",
            ),
            (
                "path,n,label\na,1.5,x\n",
                "line 2, column 'n': '1.5' is not an integer of at least 0",
            ),
        ],
    );
}

#[test]
fn filters_keep_rows_and_name_what_exists() {
    let with = |column: &str, value: serde_json::Value| {
        let filter = json!({"argument": "where", "column": column, "values": [value]});
        table(json!({"filters": [filter], "keep": ["n", "path"]}))
    };
    let text = "path,n,split\na,1,train\nb,2,val\n";
    let kept = |column, value| shown(&read(text, &with(column, value)).unwrap());
    assert_eq!(kept("split", json!("val")), ["n 2", "path 'b'"]);
    assert_eq!(kept("n", json!(1.0)), kept("n", json!("1")));
    check_errors(
        &with("n", json!(3)),
        &[(text, "no row with 3 in the column 'n'; it has 1, 2")],
    );
    check_errors(
        &with("part", json!(null)),
        &[(text, "where: "), (text, "has no column 'part'")],
    );
}

#[test]
fn rows_of_a_group_are_one_sample() {
    let columns = ["path", "second", "x", "y", "who"];
    let table = table(json!({
        "layout": {"names": columns, "min_fields": 2},
        "types": [["second", "number"], ["x", "number"], ["y", "number"], ["who", "integer"]],
        "group": {"by": ["path", "second"], "lists": [["box", ["x", "y"], null], ["who", ["who"], -1]]},
    }));
    let dataset = read("a,0902,1,2,7\na,902,3,4\nb,902\n", &table).unwrap();
    assert_eq!(
        dataset.columns[1].values,
        [Value::Float(902.0), Value::Float(902.0)]
    );
    let pair = |x, y| Value::List(vec![Value::Float(x), Value::Float(y)]);
    let boxes = Value::List(vec![pair(1.0, 2.0), pair(3.0, 4.0)]);
    assert_eq!(dataset.columns[2].values, [boxes, Value::integers([])]);
    assert_eq!(dataset.columns[3].values[0], Value::integers([7, -1]));
    check_errors(
        &table,
        &[
            (
                "ok,1\na,soon,1,2\n",
                "line 2, column 'second': 'soon' is not a number",
            ),
            (
                "ok,1\na,1,1,left\n",
                "line 2, column 'y': 'left' is not a number",
            ),
            ("ok,1\na,1,1\n", "line 2, column 'y': is empty"),
            (
                "ok,1\na,1,1,2,x\n",
                "line 2, column 'who': 'x' is not an integer",
            ),
            (
                "ok,1\na\n",
                "line 2: has 1 fields; write: path,second,x,y,who",
            ),
        ],
    );
}

#[test]
fn parts_of_json_records_are_samples() {
    let table = table(json!({"layout": {"json": {
        "record": "video", "at": "database", "keyed": true, "id": "path", "value": null,
        "parts": ["annotations", "annotation"]
    }}}));
    let text = r#"{"database": {"z": {"n": 1, "annotations": [{"n": 2, "x": [3]}, {}]}, "a": {"annotations": []}}}"#;
    assert_eq!(
        shown(&read(text, &table).unwrap()),
        [
            "path 'z' 'z' 'a'",
            "n 1 1 null",
            "annotation_n 2 null null",
            "x a list of 1 null null"
        ]
    );
    let folder = TempFolder::new();
    let files = [
        folder.write("1.json", text),
        folder.write("2.json", r#"{"database": {"b": {"y": 4, "n": 5}}}"#),
    ];
    let both = annotation_table(&files, None, &table).unwrap();
    assert_eq!(
        shown(&both),
        [
            "path 'z' 'z' 'a' 'b'",
            "n 1 1 null 5",
            "annotation_n 2 null null null",
            "x a list of 1 null null null",
            "y null null null 4"
        ]
    );
    assert_eq!(both.samples[3].path, folder.0.join("b"));
    folder.write("2.json", r#"{"database": {"b": 3}}"#);
    let error = annotation_table(&files, None, &table).unwrap_err();
    assert!(error.to_string().contains("2.json, video 0 (id b): is 3"));
    for (text, part) in [
        (
            r#"{"videos": {}}"#,
            "t.csv has no \"database\" that is an object",
        ),
        (r#"{"database": {}}"#, "has no rows; expected videos"),
        (
            r#"{"database": {"a": {}, "b": {}, "a": {}}}"#,
            "line 1: is not JSON: key \"a\" appears twice",
        ),
        ("{\"database\": {\"a\": 3},\n}", "line 2: is not JSON: "),
        (
            r#"{"database": {"a": 3}}"#,
            "t.csv, video 0 (id a): is 3, not an object",
        ),
        (
            r#"{"database": {"a": {"annotations": 3}}}"#,
            "video 0 (id a), \"annotations\": is 3, not a list",
        ),
        (
            r#"{"database": {"a": {"annotations": [3]}}}"#,
            "video 0 (id a), annotation 0: is 3, not an object",
        ),
    ] {
        check_errors(&table, &[(text, part)]);
    }
}
