//! Reads a file with one JSON object per line: a video each, with all further keys as columns.
//! Labels are numbers, or names that are sorted and numbered.

use std::borrow::Cow;
use std::path::Path;

use framespool::error::{Error, Result};
use framespool::source::URL_SCHEMES;

use crate::classes::Classes;
use crate::column_value::{ColumnsBuilder, Value, shortened};
use crate::lines::{for_each_line, json_error, line_error, not_empty, resolve_path, root_of};
use crate::{Dataset, NO_LABEL, Sample, SegmentBounds};

/// The keys with a special role.
#[derive(Clone, Debug)]
pub struct SampleKeys {
    /// The path, or `file:` URI, of the video.
    pub source: String,
    /// The label: a number, a name, or a list of numbers. `None`: there are no labels.
    pub label: Option<String>,
    /// The start of the segment.
    pub start: String,
    /// The end of the segment.
    pub end: String,
    /// Start and end are frame numbers, not seconds.
    pub in_frames: bool,
}

/// Reads one object per line.
///
/// - Every object needs its source. Other keys may be missing or `null`: the label is then -1, and
///   the segment the whole video.
/// - Labels are integers or names. With names, the classes are `classes`, or else the sorted names.
///   A list of integers becomes a column under that key, and the sample's own label is -1.
/// - A segment is half open, `start..end`, in seconds or, with `in_frames`, in frames from 0.
/// - All other keys become columns, with missing values for objects that lack them.
/// - Blank lines are skipped. Relative paths are relative to `root`, or else to the folder of the
///   file.
pub fn json_lines(
    path: impl AsRef<Path>,
    root: Option<&Path>,
    keys: &SampleKeys,
    classes: Option<&[String]>,
) -> Result<Dataset> {
    let path = path.as_ref();
    keys.check()?;
    let root = root_of(path, root);
    let (mut dataset, mut columns) = (Dataset::default(), ColumnsBuilder::default());
    let (mut lines, mut first_label) = (Vec::new(), None);
    for_each_line(path, false, |line, text| {
        let object: Value = serde_json::from_str(text).map_err(|error| json_error(&error))?;
        let Value::Map(items) = &object else {
            return Err(format!(
                "is {}, not an object with a \"{}\"",
                object.shown(),
                keys.source
            ));
        };
        let file = match object.get(&keys.source) {
            Some(Value::Text(file)) if !file.is_empty() => local_path(file)?,
            Some(other) => {
                return Err(format!(
                    "\"{}\" is {}, expected the path of a video",
                    keys.source,
                    other.shown()
                ));
            }
            None => {
                let names = items
                    .iter()
                    .map(|(name, _)| format!("\"{name}\""))
                    .collect::<Vec<_>>()
                    .join(", ");
                let names = if names.is_empty() {
                    "none".to_owned()
                } else {
                    shortened(&names)
                };
                return Err(format!(
                    "\"{}\" is missing or null; the line has the keys {names}: give that of the path as source=",
                    keys.source
                ));
            }
        };
        let mut sample = Sample::new(resolve_path(root, &*file), NO_LABEL);
        (sample.label, sample.label_name) = keys.label(&object)?;
        sample.segment = keys.segment(&object)?;
        for (name, value) in items {
            if keys.is_column(name, value)? {
                columns.set(lines.len(), name, value.clone())?;
            }
        }
        if let Some(label) = keys.label.as_ref().and_then(|label| object.get(label)) {
            let kind = std::mem::discriminant(label);
            let (first, first_kind) = *first_label.get_or_insert((line, kind));
            if first_kind != kind {
                return Err(format!(
                    "labels must be numbers, names or lists on all lines: line {first} has another kind"
                ));
            }
        }
        dataset.samples.push(sample);
        lines.push(line);
        Ok(())
    })?;
    let names = || {
        dataset
            .samples
            .iter()
            .filter_map(|sample| sample.label_name.as_deref())
    };
    let classes = match names().next() {
        Some(_) => Classes::given_or(classes, names())?,
        None => Classes::numbered(Vec::new()),
    };
    for (sample, line) in dataset.samples.iter_mut().zip(&lines) {
        if let Some(name) = &sample.label_name {
            sample.label = classes
                .label(name)
                .map_err(|reason| line_error(path, *line, &reason))?;
        }
    }
    dataset.classes = classes.names;
    dataset.columns = columns.finish(dataset.samples.len());
    not_empty(
        path,
        dataset,
        &format!("{{\"{}\": \"a.mp4\"}}", keys.source),
    )
}

impl SampleKeys {
    /// # Errors
    /// `Argument` if two roles have the same key.
    pub(crate) fn check(&self) -> Result<()> {
        let names: Vec<&String> = self.names().collect();
        for (number, name) in names.iter().enumerate() {
            if names[..number].contains(name) {
                return Err(Error::Argument(format!(
                    "source, label, start and end must differ, got \"{name}\" twice"
                )));
            }
        }
        Ok(())
    }

    /// The keys that have a role.
    fn names(&self) -> impl Iterator<Item = &String> {
        let label = self.label.as_ref();
        let roles = [
            Some(&self.source),
            label,
            Some(&self.start),
            Some(&self.end),
        ];
        roles.into_iter().flatten()
    }

    /// The label of an object: a number, or a name.
    pub(crate) fn label(&self, object: &Value) -> Result<(i64, Option<String>), String> {
        let Some(label) = &self.label else {
            return Ok((NO_LABEL, None));
        };
        match object.get(label) {
            None | Some(Value::List(_)) => Ok((NO_LABEL, None)),
            Some(Value::Integer(label)) => Ok((*label, None)),
            Some(Value::Text(name)) => Ok((NO_LABEL, Some(name.clone()))),
            Some(other) => Err(format!(
                "\"{label}\" is {}, expected an integer, a name or a list of integers",
                other.shown()
            )),
        }
    }

    /// Whether an item of an object belongs in a column: all except source, label and segment, but
    /// including a list of labels.
    pub(crate) fn is_column(&self, name: &str, value: &Value) -> Result<bool, String> {
        if self.label.as_deref() == Some(name) && matches!(value, Value::List(_)) {
            return match value {
                Value::List(items) if items.iter().all(|i| matches!(i, Value::Integer(_))) => {
                    Ok(true)
                }
                _ => Err(format!(
                    "\"{name}\" is a list with values that are not integers"
                )),
            };
        }
        Ok(!self.names().any(|key| key == name))
    }

    /// The segment of the video that an object selects.
    pub(crate) fn segment(&self, object: &Value) -> Result<Option<SegmentBounds>, String> {
        let (start, end) = (object.get(&self.start), object.get(&self.end));
        if start.is_none() && end.is_none() {
            return Ok(None);
        }
        let bounds = if self.in_frames {
            let frame = |name: &str, value: Option<&Value>| match value {
                None => Ok(None),
                Some(Value::Integer(frame)) if (0..=i64::from(u32::MAX)).contains(frame) => {
                    Ok(Some(*frame))
                }
                Some(other) => Err(format!(
                    "\"{name}\" is {}, expected a frame index of at least 0",
                    other.shown()
                )),
            };
            let (start, end) = (
                frame(&self.start, start)?.unwrap_or(0),
                frame(&self.end, end)?,
            );
            (
                end.is_none_or(|end| start < end),
                SegmentBounds::Frames { start, end },
            )
        } else {
            let seconds = |name: &str, value: Option<&Value>| match value
                .map(|value| (value.as_f64(), value))
            {
                None => Ok(None),
                Some((Some(seconds), _)) if seconds.is_finite() => Ok(Some(seconds)),
                Some((_, other)) => Err(format!(
                    "\"{name}\" is {}, expected a number of seconds",
                    other.shown()
                )),
            };
            let (start, end) = (seconds(&self.start, start)?, seconds(&self.end, end)?);
            let ordered = start.zip(end).is_none_or(|(start, end)| start < end);
            (ordered, SegmentBounds::Seconds { start, end })
        };
        match bounds {
            (true, bounds) => Ok(Some(bounds)),
            (false, _) => {
                let shown = |value: Option<&Value>| value.map_or("0".to_owned(), Value::shown);
                Err(format!(
                    "\"{}\" {} is not before \"{}\" {}",
                    self.start,
                    shown(start),
                    self.end,
                    shown(end)
                ))
            }
        }
    }
}

/// Returns a path or a supported URL unchanged, and the path of a `file:` URI.
pub(crate) fn local_path(text: &str) -> Result<Cow<'_, str>, String> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Ok(Cow::Borrowed(text));
    };
    if !scheme
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    {
        return Ok(Cow::Borrowed(text));
    }
    if URL_SCHEMES
        .iter()
        .any(|read| scheme.eq_ignore_ascii_case(read))
    {
        return Ok(Cow::Borrowed(text));
    }
    let host_and_path = rest
        .split_once('/')
        .map(|(host, path)| (host, format!("/{path}")));
    match host_and_path {
        Some(("" | "localhost", path)) if scheme.eq_ignore_ascii_case("file") => {
            percent_decoded(&path).map(Cow::Owned)
        }
        _ => Err(format!(
            "'{}' is not on a disk of this machine; copy the file and write its path",
            shortened(text)
        )),
    }
}

/// Decodes the percent-encoding in the path of a URI.
fn percent_decoded(path: &str) -> Result<String, String> {
    let mut pieces = path.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let code = piece
            .get(..2)
            .filter(|code| code.bytes().all(|b| b.is_ascii_hexdigit()));
        let byte = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(byte.ok_or_else(|| {
            format!(
                "'{}' has a % without two hexadecimal digits after it",
                shortened(path)
            )
        })?);
        bytes.extend(&piece.as_bytes()[2..]);
    }
    String::from_utf8(bytes)
        .map_err(|_| format!("'{}' does not decode to UTF-8 text", shortened(path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::TempFolder;

    fn keys(in_frames: bool) -> SampleKeys {
        let [source, label, start, end] = ["uri", "label", "start", "end"].map(str::to_owned);
        SampleKeys {
            source,
            label: Some(label),
            start,
            end,
            in_frames,
        }
    }

    fn read(text: &str, in_frames: bool) -> Result<Dataset> {
        let folder = TempFolder::new();
        json_lines(
            folder.write("list.jsonl", text),
            Some(Path::new("/r")),
            &keys(in_frames),
            None,
        )
    }

    #[test]
    fn other_keys_of_an_object_are_columns() {
        let text = concat!(
            "{\"uri\": \"a.mp4\", \"label\": 3, \"caption\": \"é\", \"score\": 0.5}\r\n\r\n",
            "{\"start\": 1.5, \"uri\": \"/b.mp4\", \"end\": 2, \"meta\": {\"k\": [1, null]}}\n",
            "{\"uri\": \"file:///c%20d.mp4\", \"label\": null, \"end\": 7.25, \"caption\": null}\n",
        );
        let dataset = read(text, false).unwrap();
        let rows: Vec<_> = dataset
            .samples
            .iter()
            .map(|e| (e.path.to_str().unwrap(), e.label, e.segment))
            .collect();
        let seconds = |start, end| {
            Some(SegmentBounds::Seconds {
                start,
                end: Some(end),
            })
        };
        let expected = [
            ("/r/a.mp4", 3, None),
            ("/b.mp4", NO_LABEL, seconds(Some(1.5), 2.0)),
            ("/c d.mp4", NO_LABEL, seconds(None, 7.25)),
        ];
        assert_eq!(rows, expected);
        let names: Vec<&str> = dataset.columns.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["caption", "score", "meta"]);
        assert_eq!(
            dataset.columns[0].values,
            [Value::Text("é".to_owned()), Value::Null, Value::Null]
        );
        let meta = Value::Map(vec![(
            "k".to_owned(),
            Value::List(vec![Value::Integer(1), Value::Null]),
        )]);
        assert_eq!(dataset.columns[2].values, [Value::Null, meta, Value::Null]);
    }

    #[test]
    fn labels_may_be_names_or_lists() {
        let dataset = read(
            "{\"uri\":\"a\",\"label\":\"run\"}\n{\"uri\":\"b\"}\n{\"uri\":\"c\",\"label\":\"jump\"}",
            false,
        )
        .unwrap();
        assert_eq!(dataset.classes, ["jump", "run"]);
        assert_eq!(
            dataset.samples.iter().map(|e| e.label).collect::<Vec<_>>(),
            [1, NO_LABEL, 0]
        );
        let dataset = read(
            "{\"uri\":\"a\",\"label\":[3,4]}\n{\"uri\":\"b\",\"label\":[]}",
            false,
        )
        .unwrap();
        assert_eq!(
            (dataset.samples[0].label, dataset.columns[0].name.as_str()),
            (NO_LABEL, "label")
        );
        assert_eq!(
            dataset.columns[0].values,
            [Value::integers([3, 4]), Value::integers([])]
        );
    }

    #[test]
    fn segments_may_be_in_frames() {
        let dataset = read(
            "{\"uri\":\"a\",\"start\":3}\n{\"uri\":\"a\",\"end\":9}",
            true,
        )
        .unwrap();
        let parts: Vec<_> = dataset.samples.iter().map(|e| e.segment).collect();
        let frames = |start, end| Some(SegmentBounds::Frames { start, end });
        assert_eq!(parts, [frames(3, None), frames(0, Some(9))]);
    }

    #[test]
    fn non_numeric_bounds_are_rejected() {
        for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for key in ["start", "end"] {
                let object = Value::Map(vec![(key.to_owned(), Value::Float(wrong))]);
                let error = keys(false).segment(&object).unwrap_err();
                assert!(
                    error.contains(&format!("\"{key}\" is ")) && error.contains("seconds"),
                    "{error}"
                );
            }
        }
    }

    #[test]
    fn errors_name_file_and_line() {
        for (line, in_frames, part) in [
            ("[1]", false, "is a list of 1, not an object with a \"uri\""),
            (
                "{\"path\": \"a\"}",
                false,
                "\"uri\" is missing or null; the line has the keys \"path\": give",
            ),
            ("{\"uri\": 3}", false, "\"uri\" is 3"),
            ("{\"uri\": \"a\"", false, "is not JSON"),
            ("{\"uri\": \"a\"} {\"uri\": \"b\"}", false, "is not JSON"),
            (
                "{\"uri\": \"ftp://host/a.mp4\"}",
                false,
                "'ftp://host/a.mp4' is not on a disk",
            ),
            (
                "{\"uri\": \"file://host/a.mp4\"}",
                false,
                "is not on a disk",
            ),
            ("{\"uri\": \"file:///a%2\"}", false, "hexadecimal"),
            (
                "{\"uri\": \"a\", \"label\": 1.5}",
                false,
                "\"label\" is 1.5, expected an integer, a name",
            ),
            (
                "{\"uri\": \"a\", \"label\": [1.5]}",
                false,
                "a list with values that are not integers",
            ),
            (
                "{\"uri\": \"a\", \"label\": \"run\"}",
                false,
                "line 1 has another kind",
            ),
            (
                "{\"uri\": \"a\", \"label\": [1]}",
                false,
                "line 1 has another kind",
            ),
            (
                "{\"uri\": \"a\", \"start\": \"1\"}",
                false,
                "\"start\" is '1'",
            ),
            (
                "{\"uri\": \"a\", \"start\": 2, \"end\": 2}",
                false,
                "\"start\" 2 is not before \"end\" 2",
            ),
            ("{\"uri\": \"a\", \"end\": 1e999}", false, "is not JSON"),
            (
                "{\"uri\": \"a\", \"start\": 1.5}",
                true,
                "\"start\" is 1.5, expected a frame index",
            ),
            (
                "{\"uri\": \"a\", \"end\": 0}",
                true,
                "\"start\" 0 is not before \"end\" 0",
            ),
            ("{\"uri\": \"a\", \"end\": -1}", true, "\"end\" is -1"),
        ] {
            let error = read(
                &format!("{{\"uri\": \"ok\", \"label\": 1}}\n\n{line}\n"),
                in_frames,
            )
            .unwrap_err()
            .to_string();
            assert!(
                error.contains("list.jsonl, line 3: ") && error.contains(part),
                "{line}: {error}"
            );
        }
        let twice = SampleKeys {
            end: "start".to_owned(),
            ..keys(false)
        };
        assert!(
            json_lines("x", None, &twice, None)
                .unwrap_err()
                .to_string()
                .contains("\"start\" twice")
        );
    }
}
