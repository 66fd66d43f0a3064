//! Reads a text file with `path label` or `path label label …` on each line, in the order of the lines.
//! Lines are parsed from the right, as [`file_list`](crate::file_list) does.

use std::path::Path;

use framespool::error::Result;

use crate::column_value::{Column, Value};
use crate::file_list::{check_delimiter, file_list, not_empty, resolve_path, root_of, text_after_video_name};
use crate::lines::for_each_line;
use crate::{Dataset, Sample, NO_LABEL};

/// Reads the lists of mmaction2, PySlowFast, VideoMAE, V-JEPA 2 and PyTorchVideo: `path label`.
///
/// With `multi_label`, every integer at the end of a line is a label. The column `labels` has a list per
/// sample, and the sample's own label is -1. Without it, this is [`file_list`](crate::file_list), whose rules
/// for delimiters, names with spaces, comments and relative paths apply in both cases. Does not check that
/// the videos exist.
pub fn annotation_file(
    path: impl AsRef<Path>,
    root: Option<&Path>,
    delimiter: Option<&str>,
    multi_label: bool,
) -> Result<Dataset> {
    if !multi_label {
        return file_list(path, root, delimiter);
    }
    let path = path.as_ref();
    check_delimiter(delimiter)?;
    let root = root_of(path, root);
    let (mut dataset, mut lists) = (Dataset::default(), Vec::new());
    for_each_line(path, true, |_, line| {
        let (name, labels) = parse(line, delimiter)?;
        dataset.samples.push(Sample::new(resolve_path(root, name), NO_LABEL));
        lists.push(Value::integers(labels));
        Ok(())
    })?;
    dataset.columns.push(Column { name: "labels".to_owned(), values: lists });
    not_empty(path, dataset, "path label label …")
}

/// Parses one trimmed line into name and labels.
fn parse<'a>(line: &'a str, delimiter: Option<&str>) -> Result<(&'a str, Vec<i64>), String> {
    let split = |text: &'a str| match delimiter {
        Some(delimiter) => text.rsplit_once(delimiter),
        None => text.rsplit_once(char::is_whitespace),
    };
    let (mut name, mut labels) = (line, Vec::new());
    while let Some((head, tail)) = split(name) {
        match tail.trim() {
            "" => {}
            text => match text.parse() {
                Ok(label) => labels.push(label),
                Err(_) => break,
            },
        }
        name = head.trim_end();
    }
    labels.reverse();
    if name.is_empty() {
        return Err(format!("no path before the labels {labels:?}; write the path first"));
    }
    match text_after_video_name(name, delimiter) {
        Some(text) => Err(format!("'{text}' after the name of the video is not a label; write integers")),
        None => Ok((name, labels)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::TempFolder;

    fn read(text: &str, delimiter: Option<&str>) -> Result<Vec<(String, Vec<i64>)>> {
        let folder = TempFolder::new();
        let dataset =
            annotation_file(folder.write("list.txt", text), Some(Path::new("/r")), delimiter, true)?;
        assert!(dataset.samples.iter().all(|e| e.label == NO_LABEL));
        let integer = |value: &Value| match value {
            Value::Integer(label) => *label,
            other => panic!("{other:?}"),
        };
        let labels = |value: &Value| match value {
            Value::List(items) => items.iter().map(integer).collect(),
            other => panic!("{other:?}"),
        };
        let names = dataset.samples.iter().map(|e| e.path.to_str().unwrap().to_owned());
        Ok(names.zip(dataset.columns[0].values.iter().map(labels)).collect())
    }

    fn owned<const N: usize>(samples: [(&str, &[i64]); N]) -> Vec<(String, Vec<i64>)> {
        samples.map(|(path, labels)| (path.to_owned(), labels.to_vec())).to_vec()
    }

    #[test]
    fn all_numbers_at_the_end_are_labels() {
        let text = "a.mp4 3 5\nmy video.mp4  0\tb.mp4\nclip 7 1 2\nd.mp4\n12 3\n";
        let expected = owned([
            ("/r/a.mp4", &[3, 5]),
            ("/r/my video.mp4  0\tb.mp4", &[]),
            ("/r/clip", &[7, 1, 2]),
            ("/r/d.mp4", &[]),
            ("/r/12", &[3]),
        ]);
        assert_eq!(read(text, None).unwrap(), expected);
        let text = "a 1.mp4,3,5\nb.mp4,\nclip 7, 1 ,-1";
        let expected = owned([("/r/a 1.mp4", &[3, 5]), ("/r/b.mp4", &[]), ("/r/clip 7", &[1, -1])]);
        assert_eq!(read(text, Some(",")).unwrap(), expected);
        assert_eq!(read("a b.mp4::4::5", Some("::")).unwrap(), owned([("/r/a b.mp4", &[4, 5])]));
    }

    #[test]
    fn errors_name_file_and_line() {
        for (line, delimiter, part) in [
            ("a.mp4 1 x7", None, "'1 x7'"),
            ("a.mp4 1 2.5 3", None, "'1 2.5'"),
            ("a.mp4,x,1", Some(","), "'x'"),
            (",1,2", Some(","), "no path before the labels [1, 2]"),
        ] {
            let text = read(&format!("# first\nok.mp4 1\n{line}\n"), delimiter).unwrap_err().to_string();
            assert!(text.contains("list.txt, line 3: ") && text.contains(part), "{line}: {text}");
        }
        assert!(read("\n", None).unwrap_err().to_string().contains("lists no videos"));
    }

    #[test]
    fn without_several_labels_it_is_a_plain_list() {
        let folder = TempFolder::new();
        let list = folder.write("list.txt", "a.mp4 3\n");
        assert_eq!(annotation_file(&list, None, None, false).unwrap(), file_list(&list, None, None).unwrap());
    }
}
