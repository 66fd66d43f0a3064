//! Reads a text file with a frame folder, a frame count and a label on each line. Does not access the
//! folders. Lines are parsed from the right, so names of folders may contain spaces.

use std::path::Path;

use framespool::error::{Error, Result};

use crate::column_value::{shortened, Column, Value};
use crate::file_list::{not_empty, resolve_path, root_of};
use crate::lines::for_each_line;
use crate::{Dataset, ImageSequencePattern, Sample, NO_LABEL};

/// The meaning of a field after the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawframesField {
    /// The number in the file name of the first frame.
    Start,
    /// An offset to the number of the first frame that applies to the whole list.
    Offset,
    /// Number of frames; -1 for a video file in place of a folder.
    Total,
    /// The label.
    Label,
    /// One or more labels; must be the last field.
    Labels,
}

impl RawframesField {
    /// The field with this name.
    pub fn parse(name: &str) -> Result<Self> {
        Ok(match name {
            "start" => Self::Start,
            "offset" => Self::Offset,
            "total" => Self::Total,
            "label" => Self::Label,
            "labels" => Self::Labels,
            _ => {
                return Err(Error::Argument(format!(
                    "columns must be among start, offset, total, label and labels, got '{name}'"
                )))
            }
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Offset => "offset",
            Self::Total => "total",
            Self::Label => "label",
            Self::Labels => "labels",
        }
    }
}

/// Reads `dir field field …` per line. The `fields` are integers: [`RawframesField::Total`] and others.
///
/// - The lists of mmaction2 have total and label; offset, total and label; or total and labels. Those of
///   VideoMAEv2 for pretraining have start and total, where `path 0 -1` is a whole video file.
/// - `frames` has the pattern of the file names, and the number of the first frame where the line does not
///   give it.
/// - Several labels become the column `labels`, with a list per sample, and the sample's own label is -1.
/// - Blank lines and lines that begin with `#` are skipped. Relative paths are relative to `root`, or else to
///   the folder of the list.
pub fn rawframes(
    path: impl AsRef<Path>,
    root: Option<&Path>,
    frames: &ImageSequencePattern,
    fields: &[RawframesField],
) -> Result<Dataset> {
    let path = path.as_ref();
    check(fields)?;
    let several = fields.last() == Some(&RawframesField::Labels);
    let root = root_of(path, root);
    let (mut dataset, mut lists) = (Dataset::default(), Vec::new());
    for_each_line(path, true, |_, line| {
        let (name, numbers) = split(line, fields, several)?;
        let mut sample = Sample::new(resolve_path(root, name), NO_LABEL);
        sample.label = number(fields, &numbers, RawframesField::Label).unwrap_or(NO_LABEL);
        sample.image_sequence = frames_of(frames, fields, &numbers)?;
        dataset.samples.push(sample);
        lists.push(Value::integers(numbers[fields.len() - usize::from(several)..].iter().copied()));
        Ok(())
    })?;
    if several {
        dataset.columns.push(Column { name: "labels".to_owned(), values: lists });
    }
    not_empty(path, dataset, &shape(fields))
}

fn check(fields: &[RawframesField]) -> Result<()> {
    let times = |field| fields.iter().filter(|f| **f == field).count();
    let clear = fields.iter().all(|f| times(*f) == 1)
        && times(RawframesField::Total) == 1
        && times(RawframesField::Start) + times(RawframesField::Offset) <= 1
        && times(RawframesField::Label) + times(RawframesField::Labels) <= 1
        && (times(RawframesField::Labels) == 0 || fields.last() == Some(&RawframesField::Labels));
    if clear {
        return Ok(());
    }
    Err(Error::Argument(format!(
        "columns must have total, at most one of start and offset, and at most one of label and labels (which comes \
         last), got {:?}",
        fields.iter().map(|f| f.name()).collect::<Vec<_>>()
    )))
}

/// An example line for error messages.
fn shape(fields: &[RawframesField]) -> String {
    fields.iter().fold("path".to_owned(), |text, field| format!("{text} {}", field.name()))
}

/// Splits a line into the name and the numbers after it.
fn split<'a>(line: &'a str, fields: &[RawframesField], several: bool) -> Result<(&'a str, Vec<i64>), String> {
    let (mut name, mut numbers) = (line, Vec::new());
    while several || numbers.len() < fields.len() {
        let Some((head, tail)) = name.rsplit_once(char::is_whitespace) else { break };
        let Ok(number) = tail.parse() else { break };
        numbers.push(number);
        name = head.trim_end();
    }
    numbers.reverse();
    if numbers.len() < fields.len() {
        let last = name.rsplit(char::is_whitespace).next().unwrap_or(name);
        return Err(format!(
            "has {} integers at its end, after '{}', expected {}; write: {}",
            numbers.len(),
            shortened(last),
            fields.len(),
            shape(fields)
        ));
    }
    Ok((name, numbers))
}

fn number(fields: &[RawframesField], numbers: &[i64], field: RawframesField) -> Option<i64> {
    fields.iter().position(|f| *f == field).map(|place| numbers[place])
}

/// The frames that a line selects; `None` for a video file.
fn frames_of(
    frames: &ImageSequencePattern,
    fields: &[RawframesField],
    numbers: &[i64],
) -> Result<Option<ImageSequencePattern>, String> {
    let total = number(fields, numbers, RawframesField::Total).unwrap_or_default();
    let start = number(fields, numbers, RawframesField::Start);
    let offset = number(fields, numbers, RawframesField::Offset);
    if total == -1 && start.or(offset).unwrap_or_default() == 0 {
        return Ok(None);
    }
    let first = start.unwrap_or(i64::from(frames.first).saturating_add(offset.unwrap_or_default()));
    let count = u32::try_from(total).ok().filter(|count| *count > 0);
    let first_frame = u32::try_from(first).ok();
    match (first_frame, count) {
        (Some(first), Some(count)) if first.checked_add(count).is_some() => {
            Ok(Some(ImageSequencePattern { first, count: Some(count), ..frames.clone() }))
        }
        _ => Err(format!(
            "{total} frames from number {first} on are not a valid range; write a first number of at least \
             0 and at least one frame, or 0 -1 for a video file"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::TempFolder;
    use RawframesField::{Label, Labels, Offset, Start, Total};

    fn read(text: &str, fields: &[RawframesField]) -> Result<Dataset> {
        let folder = TempFolder::new();
        let frames =
            ImageSequencePattern { pattern: "img_{:05}.jpg".to_owned(), first: 1, count: None, fps: (30, 1) };
        rawframes(folder.write("list.txt", text), Some(Path::new("/r")), &frames, fields)
    }

    /// Path, label, (first, count).
    type Row<'a> = (&'a str, i64, Option<(u32, Option<u32>)>);

    fn rows(dataset: &Dataset) -> Vec<Row<'_>> {
        let frames = |e: &Sample| e.image_sequence.as_ref().map(|f| (f.first, f.count));
        dataset.samples.iter().map(|e| (e.path.to_str().unwrap(), e.label, frames(e))).collect()
    }

    #[test]
    fn urls_stay_what_they_are() {
        let dataset = read("s3://bucket/v.mp4 0 -1\n", &[Start, Total]).unwrap();
        assert_eq!(rows(&dataset), [("s3://bucket/v.mp4", -1, None)]);
    }

    #[test]
    fn folders_come_with_their_frames_and_labels() {
        let dataset = read("# list\na/v 1 58 3\nmy clip  29\t-1\n/abs/v 300 0\r\n", &[Total, Label]).unwrap();
        let expected = [
            ("/r/a/v 1", 3, Some((1, Some(58)))),
            ("/r/my clip", -1, Some((1, Some(29)))),
            ("/abs/v", 0, Some((1, Some(300)))),
        ];
        assert_eq!(rows(&dataset), expected);
        let frames = dataset.samples[0].image_sequence.as_ref().unwrap();
        assert_eq!((frames.pattern.as_str(), frames.fps), ("img_{:05}.jpg", (30, 1)));
    }

    #[test]
    fn lists_may_have_offsets_and_video_files() {
        let dataset = read("v.mp4 0 -1\nframes/v 9601 300\nframes/w 0 29\n", &[Start, Total]).unwrap();
        let expected = [
            ("/r/v.mp4", -1, None),
            ("/r/frames/v", -1, Some((9601, Some(300)))),
            ("/r/frames/w", -1, Some((0, Some(29)))),
        ];
        assert_eq!(rows(&dataset), expected);
        let dataset = read("v 100 50 7\n", &[Offset, Total, Label]).unwrap();
        assert_eq!(rows(&dataset), [("/r/v", 7, Some((101, Some(50))))]);
    }

    #[test]
    fn several_labels_become_a_column() {
        let dataset = read("v 10 3 4\nw 20 5\n", &[Total, Labels]).unwrap();
        assert_eq!(rows(&dataset), [("/r/v", -1, Some((1, Some(10)))), ("/r/w", -1, Some((1, Some(20))))]);
        assert_eq!(dataset.columns[0].values, [Value::integers([3, 4]), Value::integers([5])]);
        assert!(read("v 10\n", &[Total, Labels]).unwrap_err().to_string().contains("path total labels"));
    }

    #[test]
    fn errors_name_file_and_line() {
        for (line, fields, part) in [
            ("v 10", &[Total, Label][..], "has 1 integers at its end, after 'v', expected 2"),
            ("v ten 3", &[Total, Label], "after 'ten'"),
            ("10 3", &[Total, Label], "write: path total label"),
            ("v 0 3", &[Total, Label], "0 frames from number "),
            ("v -5 3", &[Total, Label], "-5 frames from number "),
            ("v 3 -1", &[Start, Total], "-1 frames from number 3 on"),
            ("v -2 5", &[Start, Total], "from number -2 on"),
            ("v 4294967295 1", &[Start, Total], "4294967295"),
            ("v 9223372036854775807 1 0", &[Offset, Total, Label], "9223372036854775807"),
            ("v 99999999999999999999 1", &[Total, Label], "after '99999999999999999999'"),
        ] {
            let text = read(&format!("ok 1 1 1\n\n{line}\n"), fields).unwrap_err().to_string();
            assert!(text.contains("list.txt, line 3: ") && text.contains(part), "{line}: {text}");
        }
    }

    #[test]
    fn ambiguous_columns_are_rejected() {
        for fields in [
            &[Label][..],
            &[Total, Total],
            &[Labels, Total],
            &[Start, Offset, Total],
            &[Total, Label, Labels],
            &[],
        ] {
            let text = read("v 1 1 1\n", fields).unwrap_err().to_string();
            assert!(text.contains("columns must have total"), "{text}");
        }
        assert!(RawframesField::parse("length").unwrap_err().to_string().contains("'length'"));
        assert!(read("\n", &[Total]).unwrap_err().to_string().contains("path total"));
    }
}
