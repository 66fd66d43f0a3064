//! Lists of paths with labels, durations and numbers of frames.

use super::*;
use crate::tests::TempFolder;

fn frames() -> ImageSequencePattern {
    ImageSequencePattern {
        pattern: "img_{:05}.jpg".to_owned(),
        first: 1,
        count: None,
        fps: (30, 1),
    }
}

fn options<'a>(
    columns: &'a [AnnotationColumn],
    delimiter: Option<&'a str>,
) -> AnnotationOptions<'a> {
    AnnotationOptions {
        root: Some(Path::new("/r")),
        columns,
        delimiter,
        ..Default::default()
    }
}

fn read(text: &str, columns: &[AnnotationColumn], delimiter: Option<&str>) -> Result<Dataset> {
    let folder = TempFolder::new();
    let frames = frames();
    let options = AnnotationOptions {
        frames: Some(&frames),
        ..options(columns, delimiter)
    };
    annotation_file(folder.write("list.txt", text), &options)
}

/// Path, label, (first, count).
type Row<'a> = (&'a str, i64, Option<(u32, Option<u32>)>);

fn rows(dataset: &Dataset) -> Vec<Row<'_>> {
    let frames = |e: &Sample| e.image_sequence.as_ref().map(|f| (f.first, f.count));
    dataset
        .samples
        .iter()
        .map(|e| (e.path.to_str().unwrap(), e.label, frames(e)))
        .collect()
}

/// Paths and labels of a list of `path label`.
fn labeled(text: &str, delimiter: Option<&str>) -> Vec<(String, i64)> {
    let dataset = read(text, &[Label], delimiter).unwrap();
    assert!(dataset.classes.is_empty() && dataset.columns.is_empty());
    rows(&dataset)
        .into_iter()
        .map(|(path, label, _)| (path.to_owned(), label))
        .collect()
}

fn owned<const N: usize>(samples: [(&str, i64); N]) -> Vec<(String, i64)> {
    samples
        .map(|(path, label)| (path.to_owned(), label))
        .to_vec()
}

#[test]
fn paths_may_contain_spaces_and_labels_may_be_missing() {
    let text = "a.mp4 3\nmy video.mp4\t4\nmy video.mp4\nb.mp4\nc.mp4 -1\nframes/clip 7\n";
    let expected = [
        ("/r/a.mp4", 3),
        ("/r/my video.mp4", 4),
        ("/r/my video.mp4", -1),
        ("/r/b.mp4", -1),
        ("/r/c.mp4", -1),
        ("/r/frames/clip", 7),
    ];
    assert_eq!(labeled(text, None), owned(expected));
}

#[test]
fn comments_and_blank_lines_are_skipped() {
    let text = "\u{feff}# path label\r\n\r\n  a.mp4   1  \r\n   # more\r\nb#2.mp4 2";
    assert_eq!(
        labeled(text, None),
        owned([("/r/a.mp4", 1), ("/r/b#2.mp4", 2)])
    );
}

#[test]
fn a_delimiter_replaces_white_space() {
    let text = "a b.mp4,3\nc, d.mp4 , 4\ne.mp4,\nf.mp4";
    let expected = [
        ("/r/a b.mp4", 3),
        ("/r/c, d.mp4", 4),
        ("/r/e.mp4", -1),
        ("/r/f.mp4", -1),
    ];
    assert_eq!(labeled(text, Some(",")), owned(expected));
    assert_eq!(
        labeled("a 1.mp4::5", Some("::")),
        owned([("/r/a 1.mp4", 5)])
    );
    let dataset = read("a b.mp4, 10.5, 3\n", &[Duration, Label], Some(",")).unwrap();
    assert_eq!(rows(&dataset), [("/r/a b.mp4", 3, None)]);
}

#[test]
fn relative_paths_are_relative_to_the_list() {
    let folder = TempFolder::new();
    let list = folder.write("lists/train.txt", "v/a.mp4 0\n/data/b.mp4 1\n");
    let dataset = annotation_file(list, &AnnotationOptions::default()).unwrap();
    assert_eq!(dataset.samples[0].path, folder.0.join("lists/v/a.mp4"));
    assert_eq!(dataset.samples[1].path, Path::new("/data/b.mp4"));
}

#[test]
fn urls_are_used_unchanged() {
    let dataset = read("s3://bucket/v.mp4 0 -1\n", &[Start, Total], None).unwrap();
    assert_eq!(rows(&dataset), [("s3://bucket/v.mp4", -1, None)]);
}

#[test]
fn a_list_may_have_paths_only() {
    let dataset = read("clip 7\na.mp4\n", &[], None).unwrap();
    assert_eq!(
        rows(&dataset),
        [("/r/clip 7", -1, None), ("/r/a.mp4", -1, None)]
    );
}

#[test]
fn a_folder_may_be_named_like_a_video() {
    assert_eq!(
        labeled("old.mp4 files/clip 2", None),
        owned([("/r/old.mp4 files/clip", 2)])
    );
}

#[test]
fn all_integers_at_the_end_are_labels() {
    let check = |text: &str, delimiter, expected: &[(&str, &[i64])]| {
        let dataset = read(text, &[Labels], delimiter).unwrap();
        let lists: Vec<_> = expected
            .iter()
            .map(|(_, labels)| Value::integers(labels.iter().copied()))
            .collect();
        assert_eq!(
            dataset.columns,
            [Column {
                name: "labels".to_owned(),
                values: lists
            }]
        );
        let paths: Vec<_> = expected
            .iter()
            .map(|(path, _)| (*path, NO_LABEL, None))
            .collect();
        assert_eq!(rows(&dataset), paths);
    };
    check(
        "a.mp4 3 5\nmy video.mp4  0\tb.mp4\nclip 7 1 2\nd.mp4\n12 3\n",
        None,
        &[
            ("/r/a.mp4", &[3, 5]),
            ("/r/my video.mp4  0\tb.mp4", &[]),
            ("/r/clip", &[7, 1, 2]),
            ("/r/d.mp4", &[]),
            ("/r/12", &[3]),
        ],
    );
    let text = "a 1.mp4,3,5\nb.mp4,\nclip 7, 1 ,-1";
    check(
        text,
        Some(","),
        &[
            ("/r/a 1.mp4", &[3, 5]),
            ("/r/b.mp4", &[]),
            ("/r/clip 7", &[1, -1]),
        ],
    );
    check("a b.mp4::4::5", Some("::"), &[("/r/a b.mp4", &[4, 5])]);
}

#[test]
fn folders_have_frames_and_labels() {
    let dataset = read(
        "# list\na/v 1 58 3\nmy clip  29\t-1\n/abs/v 300 0\r\n",
        &[Total, Label],
        None,
    )
    .unwrap();
    let expected = [
        ("/r/a/v 1", 3, Some((1, Some(58)))),
        ("/r/my clip", -1, Some((1, Some(29)))),
        ("/abs/v", 0, Some((1, Some(300)))),
    ];
    assert_eq!(rows(&dataset), expected);
    let frames = dataset.samples[0].image_sequence.as_ref().unwrap();
    assert_eq!(
        (frames.pattern.as_str(), frames.fps),
        ("img_{:05}.jpg", (30, 1))
    );
    let dataset = read("v 10 3 4\nw 20 5\n", &[Total, Labels], None).unwrap();
    assert_eq!(
        rows(&dataset),
        [
            ("/r/v", -1, Some((1, Some(10)))),
            ("/r/w", -1, Some((1, Some(20))))
        ]
    );
    assert_eq!(
        dataset.columns[0].values,
        [Value::integers([3, 4]), Value::integers([5])]
    );
}

#[test]
fn lists_of_frames_may_have_offsets_and_video_files() {
    let dataset = read(
        "v.mp4 0 -1\nframes/v 9601 300\nframes/w 0 29\n",
        &[Start, Total],
        None,
    )
    .unwrap();
    let expected = [
        ("/r/v.mp4", -1, None),
        ("/r/frames/v", -1, Some((9601, Some(300)))),
        ("/r/frames/w", -1, Some((0, Some(29)))),
    ];
    assert_eq!(rows(&dataset), expected);
    let dataset = read("v 100 50 7\n", &[Offset, Total, Label], None).unwrap();
    assert_eq!(rows(&dataset), [("/r/v", 7, Some((101, Some(50))))]);
}

#[test]
fn names_may_lack_their_extension() {
    let folder = TempFolder::new();
    let list = folder.write("list.txt", "a/v1 300 2\nmy video.avi\t250  -1\n");
    let how = AnnotationOptions {
        extension: Some(".mp4"),
        ..options(&[Duration, Label], None)
    };
    let dataset = annotation_file(list, &how).unwrap();
    assert_eq!(
        rows(&dataset),
        [("/r/a/v1.mp4", 2, None), ("/r/my video.avi", -1, None)]
    );
    assert_eq!(
        dataset.columns[0].values,
        [Value::Integer(300), Value::Integer(250)]
    );
    let dataset = read("v 10.5 0 4\n", &[Duration, Labels], None).unwrap();
    assert_eq!(dataset.columns[0].values, [Value::Float(10.5)]);
    assert_eq!(dataset.columns[1].values, [Value::integers([0, 4])]);
    assert_eq!(dataset.samples[0].path, Path::new("/r/v"));
}

#[test]
fn errors_name_file_and_line() {
    for (line, columns, delimiter, part) in [
        ("a.mp4 x7", &[Label][..], None, "'x7'"), // mistyped
        ("a.mp4 1.5", &[Label], None, "'1.5'"),   // not an integer
        (
            "a.mp4 99999999999999999999",
            &[Label],
            None,
            "'99999999999999999999'",
        ), // beyond 64 bits
        ("a.mp4 3 5", &[Label], None, "'3'"),     // two labels
        ("a.mp4 0 1.0 2.0", &[Label], None, "'0 1.0 2.0'"), // DALI's list with times
        (
            "a.mp4,x",
            &[Label],
            Some(","),
            "label 'x' is not an integer; write: path,label",
        ),
        ("a.mp4,3,5", &[Label], Some(","), "'3'"),
        (",5", &[Label], Some(","), "no path before '5'"),
        ("a.mp4 1 x7", &[Labels], None, "'1 x7'"),
        ("a.mp4 1 2.5 3", &[Labels], None, "'1 2.5'"),
        ("a.mp4,x,1", &[Labels], Some(","), "'x'"),
        (",1,2", &[Labels], Some(","), "no path before '1,2'"),
        (
            "v.mp4",
            &[Duration, Label],
            None,
            "has 0 of 2 fields after the path 'v.mp4'; write: path duration label",
        ),
        ("v.mp4 3", &[Duration, Label], None, "has 1 of 2 fields"),
        (
            "v.mp4 300 x",
            &[Duration, Label],
            None,
            "label 'x' is not an integer",
        ),
        (
            "v.mp4 long 3",
            &[Duration, Label],
            None,
            "duration 'long' is not a number",
        ),
        ("v.mp4 inf 3", &[Duration, Label], None, "duration 'inf'"),
        (
            "v.mp4 1 300 2",
            &[Duration, Label],
            None,
            "'1' after the name of the video",
        ),
        (
            "v.mp4,,2",
            &[Duration, Label],
            Some(","),
            "duration '' is not a number",
        ),
        (
            "v 10",
            &[Total, Label],
            None,
            "has 1 of 2 fields after the path 'v'",
        ),
        (
            "v ten 3",
            &[Total, Label],
            None,
            "total 'ten' is not an integer",
        ),
        ("10 3", &[Total, Label], None, "write: path total label"),
        ("v 10", &[Total, Labels], None, "write: path total labels"),
        ("v 0 3", &[Total, Label], None, "0 frames from number "),
        ("v -5 3", &[Total, Label], None, "-5 frames from number "),
        (
            "v 3 -1",
            &[Start, Total],
            None,
            "-1 frames from number 3 on",
        ),
        ("v -2 5", &[Start, Total], None, "from number -2 on"),
        ("v 4294967295 1", &[Start, Total], None, "4294967295"),
        (
            "v 9223372036854775807 1 0",
            &[Offset, Total, Label],
            None,
            "9223372036854775807",
        ),
        (
            "v 99999999999999999999 1",
            &[Total, Label],
            None,
            "total '99999999999999999999'",
        ),
    ] {
        let text = read(&format!("# first\n\n{line}\n"), columns, delimiter)
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("list.txt, line 3: ") && text.contains(part),
            "{line}: {text}"
        );
    }
}

#[test]
fn ambiguous_columns_are_rejected() {
    for columns in [
        &[Total, Total][..],
        &[Labels, Total],
        &[Start, Offset, Total],
        &[Start, Label],
        &[Total, Label, Labels],
    ] {
        let text = read("v 1 1 1\n", columns, None).unwrap_err().to_string();
        assert!(text.contains("columns must be different"), "{text}");
    }
    assert!(
        AnnotationColumn::parse("length")
            .unwrap_err()
            .to_string()
            .contains("'length'")
    );
    assert_eq!(AnnotationColumn::parse("offset").unwrap(), Offset);
    let without = annotation_file("list.txt", &options(&[Total], None)).unwrap_err();
    assert!(without.to_string().contains("pattern"), "{without}");
}

#[test]
fn a_missing_empty_or_unreadable_list_is_named() {
    let folder = TempFolder::new();
    let list = |path: &Path| annotation_file(path, &AnnotationOptions::default()).unwrap_err();
    let missing = list(&folder.0.join("none.txt"));
    assert!(matches!(missing, Error::NotFound { .. }) && missing.to_string().contains("none.txt"));
    assert!(matches!(list(&folder.0), Error::Io { .. }));
    assert!(
        read("# nothing\n", &[Label], None)
            .unwrap_err()
            .to_string()
            .contains("lists no videos")
    );
    assert!(
        read("\n", &[Total], None)
            .unwrap_err()
            .to_string()
            .contains("path total")
    );
    assert!(
        read("a.mp4 1\n", &[Label], Some(""))
            .unwrap_err()
            .to_string()
            .contains("delimiter")
    );
    let binary = folder.write("binary.txt", b"a.mp4 1\n\xff\xfe\n");
    assert!(list(&binary).to_string().contains("line 2: is not UTF-8"));
}
