//! Reads an annotation table of AVA (persons and their actions at key seconds): a segment of a video per key
//! second. All rows of the same second of a video form one sample, whose actions are a column and not its
//! label.

use std::collections::HashMap;
use std::path::Path;

use framespool::error::{Error, Result};

use crate::column_value::{shortened, Column, Value};
use crate::csv::CsvLineParser;
use crate::file_lookup::{FileLookup, MissingFilePolicy, MissingFiles};
use crate::lines::{for_each_line, not_empty};
use crate::path_pattern::PathPattern;
use crate::{Dataset, Sample, SegmentBounds, NO_LABEL};

/// Over a century: longer times are typing errors.
const MAX_SECONDS: f64 = 4e9;

/// Where the videos of AVA are stored, and how long the segments are.
#[derive(Clone, Copy, Debug)]
pub struct AvaOptions<'a> {
    /// The folder of the videos.
    pub root: &'a Path,
    /// Path of a video below `root`, with `{video_id}`. If it ends in `.*`, the folder is listed to find the
    /// extension.
    pub file: &'a str,
    /// Length of a segment, with the key second in its middle.
    pub span_seconds: f64,
    /// The second of the movie at which the file begins.
    pub begin_seconds: f64,
    /// How to handle videos that do not exist.
    pub missing: MissingFilePolicy,
}

/// A key second with the values of its rows.
struct KeySecond {
    line: u64,
    video: String,
    second: f64,
    boxes: Vec<Value>,
    actions: Vec<i64>,
    persons: Vec<i64>,
}

/// Reads `video_id,second,x1,y1,x2,y2,action_id[,person_id]` per line, without a header.
///
/// Rows with the same video and second form one sample, in the order of their first rows; its label is -1. The
/// columns are `video_id`, `second`, and, with one item per row, `boxes` (lists of x1, y1, x2, y2 in 0..1),
/// `actions` and `persons`. A row that ends after the second, or has only empty fields there, is a key second
/// without boxes.
pub fn ava(annotations: impl AsRef<Path>, options: &AvaOptions<'_>) -> Result<Dataset> {
    let path = annotations.as_ref();
    let pattern = PathPattern::parse(options.file, &["video_id"])?;
    for (name, value, fits) in [
        ("span_seconds", options.span_seconds, options.span_seconds > 0.0),
        ("begin_seconds", options.begin_seconds, true),
    ] {
        if !(fits && value.is_finite()) {
            return Err(Error::Argument(format!("{name} must be a number of seconds, got {value}")));
        }
    }
    let keys = keys(path)?;
    let (mut dataset, mut lookup, mut missing_files) =
        (Dataset::default(), FileLookup::default(), MissingFiles::default());
    let mut kept = Vec::new();
    for key in keys {
        let wrong = |reason: String| crate::lines::line_error(path, key.line, &reason);
        let name = pattern.expand(|_| Some(key.video.clone())).map_err(wrong)?;
        let Some(file) = pattern.resolve(options.root, &name, &mut lookup)? else {
            missing_files.add(Some(key.line), || pattern.not_found_message(options.root, &name));
            continue;
        };
        let middle = key.second - options.begin_seconds;
        let (start, end) = (middle - options.span_seconds / 2.0, middle + options.span_seconds / 2.0);
        if end <= 0.0 {
            return Err(wrong(format!(
                "second {} is before the start of the file at second {}; correct begin_seconds",
                key.second, options.begin_seconds
            )));
        }
        let segment = Some(SegmentBounds::Seconds { start: Some(start.max(0.0)), end: Some(end) });
        dataset.samples.push(Sample { segment, ..Sample::new(file, NO_LABEL) });
        kept.push(key);
    }
    dataset.notes.extend(missing_files.report(path, options.missing, dataset.samples.len())?);
    let mut column = |name: &str, value: fn(&mut KeySecond) -> Value| {
        dataset.columns.push(Column { name: name.to_owned(), values: kept.iter_mut().map(value).collect() });
    };
    column("video_id", |key| Value::Text(std::mem::take(&mut key.video)));
    column("second", |key| Value::Float(key.second));
    column("boxes", |key| Value::List(std::mem::take(&mut key.boxes)));
    column("actions", |key| Value::integers(std::mem::take(&mut key.actions)));
    column("persons", |key| Value::integers(std::mem::take(&mut key.persons)));
    not_empty(path, dataset, "video_id,second,x1,y1,x2,y2,action_id,person_id")
}

fn keys(path: &Path) -> Result<Vec<KeySecond>> {
    let (mut parser, mut keys) = (CsvLineParser::new(b','), Vec::<KeySecond>::new());
    let mut key_index: HashMap<(String, u64), usize> = HashMap::new();
    for_each_line(path, false, |line, text| {
        let found = parser.parse(text)?;
        let [video, second, rest @ ..] = &found[..] else {
            return Err("has one field; write: video_id,second,x1,y1,x2,y2,action_id,person_id".to_owned());
        };
        // For larger times, adding half a span would have no effect.
        let second = number("second", second)?;
        if second.abs() > MAX_SECONDS {
            return Err(format!("second {second} is out of range; at most {MAX_SECONDS} is accepted"));
        }
        let index = *key_index.entry((video.clone(), second.to_bits())).or_insert_with(|| {
            let (boxes, actions, persons) = (Vec::new(), Vec::new(), Vec::new());
            keys.push(KeySecond { line, video: video.clone(), second, boxes, actions, persons });
            keys.len() - 1
        });
        let key = &mut keys[index];
        match rest {
            rest if rest.iter().all(String::is_empty) => {}
            [x1, y1, x2, y2, action, person @ ..] if person.len() <= 1 => {
                let corners = [("x1", x1), ("y1", y1), ("x2", x2), ("y2", y2)];
                let corners = corners.into_iter().map(|(name, text)| number(name, text).map(Value::Float));
                key.boxes.push(Value::List(corners.collect::<Result<_, _>>()?));
                key.actions.push(integer("action_id", action)?);
                key.persons.push(person.first().map_or(Ok(-1), |person| integer("person_id", person))?);
            }
            _ => return Err(format!("has {} fields; expected 2, 7 or 8", found.len())),
        }
        Ok(())
    })?;
    Ok(keys)
}

fn number(name: &str, text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| format!("{name} '{}' is not a number", shortened(text)))
}

fn integer(name: &str, text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| format!("{name} '{}' is not an integer", shortened(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::TempFolder;

    fn options(root: &Path) -> AvaOptions<'_> {
        AvaOptions {
            root,
            file: "{video_id}.mp4",
            span_seconds: 3.0,
            begin_seconds: 0.0,
            missing: MissingFilePolicy::Error,
        }
    }

    fn read(text: &str, options: &AvaOptions<'_>) -> Result<Dataset> {
        let folder = TempFolder::new();
        ava(folder.write("t.csv", text), options)
    }

    const ROWS: &str = "-5K,0902,0.077,0.151,0.283,0.811,80,1\n-5K,0902,0.077,0.151,0.283,0.811,9,1\nz,903,,,,,\n-5K,0903,0.1,0.2,0.3,0.4,80\n";

    #[test]
    fn rows_of_a_key_second_are_one_part_around_it() {
        let dataset = read(ROWS, &options(Path::new("/v"))).unwrap();
        let rows: Vec<_> =
            dataset.samples.iter().map(|e| (e.path.to_str().unwrap(), e.label, e.segment)).collect();
        let segment = |start, end| Some(SegmentBounds::Seconds { start: Some(start), end: Some(end) });
        let expected = [
            ("/v/-5K.mp4", NO_LABEL, segment(900.5, 903.5)),
            ("/v/z.mp4", NO_LABEL, segment(901.5, 904.5)),
            ("/v/-5K.mp4", NO_LABEL, segment(901.5, 904.5)),
        ];
        assert_eq!(rows, expected);
        let names: Vec<&str> = dataset.columns.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["video_id", "second", "boxes", "actions", "persons"]);
        let corners = Value::List([0.077, 0.151, 0.283, 0.811].map(Value::Float).to_vec());
        assert_eq!(dataset.columns[2].values[0], Value::List(vec![corners.clone(), corners]));
        assert_eq!(
            dataset.columns[3].values,
            [Value::integers([80, 9]), Value::integers([]), Value::integers([80])]
        );
        assert_eq!(dataset.columns[4].values[2], Value::integers([-1]));
        assert_eq!(dataset.columns[1].values[0], Value::Float(902.0));
    }

    #[test]
    fn trimmed_files_start_later() {
        let cut = AvaOptions { span_seconds: 2.0, begin_seconds: 901.5, ..options(Path::new("/v")) };
        let dataset = read(ROWS, &cut).unwrap();
        assert_eq!(
            dataset.samples[0].segment,
            Some(SegmentBounds::Seconds { start: Some(0.0), end: Some(1.5) })
        );
        let late = AvaOptions { begin_seconds: 904.0, ..cut };
        assert!(read(ROWS, &late).unwrap_err().to_string().contains("line 1: second 902 is before"), "begin");
        let wrong = AvaOptions { span_seconds: 0.0, ..cut };
        assert!(read(ROWS, &wrong).unwrap_err().to_string().contains("span_seconds"));
    }

    #[test]
    fn missing_videos_are_an_error_or_noted() {
        let root = TempFolder::new();
        root.write("z.mkv", "");
        let any = AvaOptions { file: "{video_id}.*", ..options(&root.0) };
        let error = read(ROWS, &any).unwrap_err().to_string();
        assert!(error.contains("t.csv, line 1: no video") && error.contains("2 of 3 are missing"), "{error}");
        let dataset = read(ROWS, &AvaOptions { missing: MissingFilePolicy::Skip, ..any }).unwrap();
        assert_eq!((dataset.samples.len(), dataset.columns[0].values.len(), dataset.notes.len()), (1, 1, 1));
        assert_eq!(dataset.samples[0].path, root.0.join("z.mkv"));
    }

    #[test]
    fn errors_name_file_and_line() {
        for (row, part) in [
            ("a", "has one field"),
            ("a,902,0.1,0.2", "has 4 fields"),
            ("a,902,0.1,0.2,0.3,0.4,80,1,2", "has 9 fields"),
            ("a,999999999999999999990902,0.1,0.2,0.3,0.4,80", "is out of range"),
            ("a,soon,0.1,0.2,0.3,0.4,80", "second 'soon'"),
            ("a,902,0.1,0.2,left,0.4,80", "x2 'left'"),
            ("a,902,0.1,0.2,0.3,0.4,walk", "action_id 'walk'"),
            ("a/b,902,0.1,0.2,0.3,0.4,8", "video_id 'a/b'"),
        ] {
            let error = read(&format!("ok,902\n{row}\n"), &options(Path::new("/v"))).unwrap_err().to_string();
            assert!(error.contains("t.csv, line 2: ") && error.contains(part), "{row}: {error}");
        }
        assert!(read("", &options(Path::new("/v"))).unwrap_err().to_string().contains("lists no videos"));
    }
}
