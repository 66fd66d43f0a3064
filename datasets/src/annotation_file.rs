//! Reads a text file with a path and other fields on each line, in the order of the lines, without
//! opening the videos. Lines are parsed from the right, so paths may contain spaces. A field that
//! cannot be parsed is an error and does not become part of a path.

use std::path::Path;

use framespool::error::{Error, Result};
use framespool::source::as_url;

use crate::column_value::{Column, Value, shortened};
use crate::lines::{for_each_line, not_empty, resolve_path, root_of};
use crate::{Dataset, ImageSequencePattern, NO_LABEL, Sample, VIDEO_EXTENSIONS, has_extension};

/// The reader of tables with a header, for error messages.
const TABLE_READER: &str = "datasets.csv";

/// The meaning of a field after the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnotationColumn {
    /// The number in the file name of the first frame.
    Start,
    /// An offset to the number of the first frame that applies to the whole list.
    Offset,
    /// Number of frames in a folder; -1 for a video file in place of a folder.
    Total,
    /// A duration in any unit. It becomes a column and is not used.
    Duration,
    Label,
    /// Labels; must be the last field.
    Labels,
}

use AnnotationColumn::{Duration, Label, Labels, Offset, Start, Total};

impl AnnotationColumn {
    /// The column with this name.
    pub fn parse(name: &str) -> Result<Self> {
        let all = [Start, Offset, Total, Duration, Label, Labels];
        all.into_iter()
            .find(|column| column.name() == name)
            .ok_or_else(|| {
                let names: Vec<_> = all.iter().map(|column| column.name()).collect();
                Error::Argument(format!(
                    "columns must be among {}, got '{name}'",
                    names.join(", ")
                ))
            })
    }

    fn name(self) -> &'static str {
        match self {
            Start => "start",
            Offset => "offset",
            Total => "total",
            Duration => "duration",
            Label => "label",
            Labels => "labels",
        }
    }
}

/// How the lines of a list are read.
pub struct AnnotationOptions<'a> {
    /// Folder or URL to which paths are relative; by default the folder of the list.
    pub root: Option<&'a Path>,
    /// The fields after the path.
    pub columns: &'a [AnnotationColumn],
    /// Separates the fields; by default white space.
    pub delimiter: Option<&'a str>,
    /// Is appended to names of files that have no extension.
    pub extension: Option<&'a str>,
    /// File names of frames, for lists with [`AnnotationColumn::Total`], and the number of the
    /// first one where the line does not give it.
    pub frames: Option<&'a ImageSequencePattern>,
}

impl Default for AnnotationOptions<'_> {
    /// `path label`, separated by white space.
    fn default() -> Self {
        Self {
            root: None,
            columns: &[Label],
            delimiter: None,
            extension: None,
            frames: None,
        }
    }
}

/// Reads `path field field …` per line.
///
/// - A line may lack its only field if that is a label (then -1) or labels (then none).
/// - With [`AnnotationColumn::Labels`] every integer at the end of the line is a label. The column
///   `labels` has a list per sample, and the sample's own label is -1.
/// - With [`AnnotationColumn::Total`] a path is a folder of images.
/// - With a delimiter, the text after the last one must be a field, or empty.
/// - Relative paths are relative to the root. URLs are used unchanged.
/// - Blank lines and lines that begin with `#` are skipped.
/// - A line that is a row of a table with other separators is an error, unless a file has its name.
/// - A line in which text that is no field follows the name of a video is an error, with its
///   number.
///
/// Does not check that the videos exist, which would take minutes for a large list on a network
/// disk.
pub fn annotation_file(path: impl AsRef<Path>, options: &AnnotationOptions<'_>) -> Result<Dataset> {
    let path = path.as_ref();
    let columns = options.columns;
    check(options)?;
    let root = root_of(path, options.root);
    let extension = options
        .extension
        .map(|extension| extension.trim_start_matches('.'));
    let position = |column| columns.iter().position(|c| *c == column);
    let (mut dataset, mut labels, mut durations) = (Dataset::default(), Vec::new(), Vec::new());
    let mut add_line = |line: &str| {
        let (name, fields) = split(line, options)?;
        let integer = |column| match position(column).and_then(|n| fields.get(n)) {
            Some(text) => parse_integer(column, text, options).map(Some),
            None => Ok(None),
        };
        let label = integer(Label)?.unwrap_or(NO_LABEL);
        let frames = match (options.frames, integer(Total)?) {
            (Some(frames), Some(total)) => {
                frames_of(frames, total, integer(Start)?, integer(Offset)?)?
            }
            _ => None,
        };
        if let Some(n) = position(Duration) {
            let duration = fields[n];
            if !duration
                .parse()
                .is_ok_and(|seconds: f64| seconds.is_finite())
            {
                return Err(field_error(Duration, duration, "a number", options));
            }
            durations.push(duration.to_owned());
        }
        if let Some(n) = position(Labels) {
            let numbers = fields
                .iter()
                .skip(n)
                .map(|text| parse_integer(Labels, text, options));
            labels.push(Value::integers(numbers.collect::<Result<Vec<_>, _>>()?));
        }
        let mut sample = Sample::new(resolve_path(root, name), label);
        if frames.is_none() {
            if let Some(text) = text_after_video_name(name, options.delimiter) {
                return Err(format!(
                    "'{text}' after the name of the video is not a field of this list; write: {}",
                    shape(options)
                ));
            }
            if let (Some(extension), None) = (extension, Path::new(name).extension()) {
                sample.path = resolve_path(root, format!("{name}.{extension}"));
            } else if options.delimiter.is_none() && is_row_of_table(name) && !sample.path.exists()
            {
                return Err(format!(
                    "'{}' has several fields and is no file; pass delimiter=, or read a table with a header \
                     with {TABLE_READER}",
                    shortened(name)
                ));
            }
        }
        sample.image_sequence = frames;
        dataset.samples.push(sample);
        Ok(())
    };
    let mut is_first = true;
    for_each_line(path, true, |_, line| {
        let is_header = std::mem::take(&mut is_first) && line.contains([',', ';', '\t']);
        add_line(line).map_err(|reason| match is_header && !reason.contains(TABLE_READER) {
            true => format!("{reason}; a table with a header is read with {TABLE_READER}"),
            false => reason,
        })
    })?;
    if position(Duration).is_some() {
        dataset.columns.push(Column::of_fields(
            "duration",
            durations.iter().map(String::as_str),
            true,
        ));
    }
    if position(Labels).is_some() {
        dataset.columns.push(Column {
            name: "labels".to_owned(),
            values: labels,
        });
    }
    not_empty(path, dataset, &shape(options))
}

/// Whether a name is more likely several fields of a table than the name of a file, which has an
/// extension.
fn is_row_of_table(name: &str) -> bool {
    let extension = Path::new(name)
        .extension()
        .map_or("".into(), |extension| extension.to_string_lossy());
    let is_extension = extension.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && extension.parse::<u64>().is_err();
    name.contains([',', ';'])
        && as_url(Path::new(name)).is_none()
        && (extension.is_empty() || !is_extension)
}

fn check(options: &AnnotationOptions<'_>) -> Result<()> {
    if options.delimiter == Some("") {
        let text =
            "delimiter must not be empty, got \"\"; omit it to separate fields by white space";
        return Err(Error::Argument(text.to_owned()));
    }
    let columns = options.columns;
    let count = |column| columns.iter().filter(|c| **c == column).count();
    let valid = columns.iter().all(|column| count(*column) == 1)
        && count(Start) + count(Offset) <= count(Total)
        && count(Label) + count(Labels) <= 1
        && (count(Labels) == 0 || columns.last() == Some(&Labels));
    if !valid {
        let names = columns
            .iter()
            .map(|column| column.name())
            .collect::<Vec<_>>();
        return Err(Error::Argument(format!(
            "columns must be different, with start or offset only if total is one of them, and at most one of label and labels \
             (which comes last), got {names:?}"
        )));
    }
    if count(Total) == 1 && options.frames.is_none() {
        return Err(Error::Argument(
            "columns with total need the pattern of the frames' file names".to_owned(),
        ));
    }
    Ok(())
}

/// The form of a line, for error messages.
fn shape(options: &AnnotationOptions<'_>) -> String {
    let delimiter = options.delimiter.unwrap_or(" ");
    options
        .columns
        .iter()
        .fold("path".to_owned(), |text, column| {
            text + delimiter + column.name()
        })
}

/// Splits a trimmed line into the path and the fields after it.
fn split<'a>(
    line: &'a str,
    options: &AnnotationOptions<'_>,
) -> Result<(&'a str, Vec<&'a str>), String> {
    let (columns, delimiter) = (options.columns, options.delimiter);
    let several = columns.last() == Some(&Labels);
    let optional = matches!(columns, [Label] | [Labels]);
    // A label that may be missing, and the number of several labels, can be found only by what is a
    // number. "my video.mp4" is a path with a space; `text_after_video_name` detects "video.mp4
    // x7".
    let only_numbers = several || (optional && delimiter.is_none());
    let is_number = |text: &str| {
        text.parse::<i64>().is_ok()
            || (columns.contains(&Duration) && text.parse::<f64>().is_ok_and(f64::is_finite))
    };
    let (mut name, mut fields) = (line, Vec::new());
    while several || fields.len() < columns.len() {
        let last = match delimiter {
            Some(delimiter) => name.rsplit_once(delimiter),
            None => name.rsplit_once(char::is_whitespace),
        };
        let Some((head, field)) = last.map(|(head, field)| (head.trim_end(), field.trim())) else {
            break;
        };
        if optional && field.is_empty() {
            name = head;
            if several {
                continue;
            }
            break;
        }
        if only_numbers && !is_number(field) {
            break;
        }
        fields.push(field);
        name = head;
    }
    fields.reverse();
    if !optional && fields.len() < columns.len() {
        return Err(format!(
            "has {} of {} fields after the path '{}'; write: {}",
            fields.len(),
            columns.len(),
            shortened(name),
            shape(options)
        ));
    }
    if name.is_empty() {
        let found = fields.join(delimiter.unwrap_or(" "));
        return Err(format!(
            "no path before '{}'; write: {}",
            shortened(&found),
            shape(options)
        ));
    }
    Ok((name, fields))
}

fn parse_integer(
    column: AnnotationColumn,
    text: &str,
    options: &AnnotationOptions<'_>,
) -> Result<i64, String> {
    text.parse()
        .map_err(|_| field_error(column, text, "an integer", options))
}

fn field_error(
    column: AnnotationColumn,
    text: &str,
    expected: &str,
    options: &AnnotationOptions<'_>,
) -> String {
    format!(
        "{} '{}' is not {expected}; write: {}",
        column.name(),
        shortened(text),
        shape(options)
    )
}

/// The frames that a line selects; `None` for a video file.
fn frames_of(
    frames: &ImageSequencePattern,
    total: i64,
    start: Option<i64>,
    offset: Option<i64>,
) -> Result<Option<ImageSequencePattern>, String> {
    if total == -1 && start.or(offset).unwrap_or_default() == 0 {
        return Ok(None);
    }
    let first = start.unwrap_or(i64::from(frames.first).saturating_add(offset.unwrap_or_default()));
    let count = u32::try_from(total).ok().filter(|count| *count > 0);
    let first_frame = u32::try_from(first).ok();
    match (first_frame, count) {
        (Some(first), Some(count)) if first.checked_add(count).is_some() => {
            Ok(Some(ImageSequencePattern {
                first,
                count: Some(count),
                ..frames.clone()
            }))
        }
        _ => Err(format!(
            "{total} frames from number {first} on are not a valid range; write a first number of at least 0 and at \
             least one frame, or 0 -1 for a video file"
        )),
    }
}

/// The text after a video file name and a separator in `name`, unless `name` itself is that of a
/// video.
fn text_after_video_name<'a>(name: &'a str, delimiter: Option<&str>) -> Option<&'a str> {
    let is_video = |name: &str| has_extension(Path::new(name.trim()), &VIDEO_EXTENSIONS);
    if is_video(name) {
        return None;
    }
    let cut = |(at, separator): (usize, &str)| (&name[..at], &name[at + separator.len()..]);
    let cuts: Vec<(&str, &str)> = match delimiter {
        Some(delimiter) => name.match_indices(delimiter).map(cut).collect(),
        None => name.match_indices(char::is_whitespace).map(cut).collect(),
    };
    // If a slash follows, it is a folder with a name like that of a video.
    let found = cuts
        .into_iter()
        .find(|(head, tail)| is_video(head) && !tail.contains(['/', '\\']));
    found.map(|(_, tail)| tail.trim())
}

#[cfg(test)]
mod tests;
