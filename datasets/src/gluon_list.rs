//! Reads a text file with `path duration label` on each line; the durations become a column.
//! Lines are parsed from the right, so names may contain spaces. Opens no video, so durations are not
//! checked.

use std::path::Path;

use framespool::error::Result;

use crate::column_value::{shortened, Column};
use crate::file_list::{not_empty, resolve_path, root_of};
use crate::lines::for_each_line;
use crate::{Dataset, Sample};

/// Reads `path duration label` per line, the format of GluonCV, of VideoMAE's pretraining and of TSN for
/// video files.
///
/// The duration, in any unit, becomes the column `duration`. `extension` is appended to names that have none.
/// Blank lines and lines that begin with `#` are skipped. Relative paths are relative to `root`, or else to
/// the folder of the list.
pub fn gluon_list(path: impl AsRef<Path>, root: Option<&Path>, extension: Option<&str>) -> Result<Dataset> {
    let path = path.as_ref();
    let root = root_of(path, root);
    let extension = extension.map(|e| e.trim_start_matches('.'));
    let (mut dataset, mut durations) = (Dataset::default(), Vec::new());
    for_each_line(path, true, |_, line| {
        let shape = "write: path duration label";
        let cut = |text: &str| {
            text.rsplit_once(char::is_whitespace).map(|(a, b)| (a.trim_end().to_owned(), b.to_owned()))
        };
        let (head, label) = cut(line).ok_or_else(|| format!("has one field only; {shape}"))?;
        let (mut name, duration) = cut(&head).ok_or_else(|| format!("has two fields only; {shape}"))?;
        let label =
            label.parse().map_err(|_| format!("label '{}' is not an integer; {shape}", shortened(&label)))?;
        if !duration.parse().is_ok_and(|seconds: f64| seconds.is_finite()) {
            return Err(format!("duration '{}' is not a number; {shape}", shortened(&duration)));
        }
        if let (Some(extension), None) = (extension, Path::new(&name).extension()) {
            name = format!("{name}.{extension}");
        }
        dataset.samples.push(Sample::new(resolve_path(root, name), label));
        durations.push(duration);
        Ok(())
    })?;
    dataset.columns.push(Column::of_fields("duration", &durations));
    not_empty(path, dataset, "path duration label")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column_value::Value;
    use crate::tests::TempFolder;

    fn read(text: &str, extension: Option<&str>) -> Result<Dataset> {
        let folder = TempFolder::new();
        gluon_list(folder.write("list.txt", text), Some(Path::new("/r")), extension)
    }

    #[test]
    fn names_may_lack_their_extension() {
        let dataset = read("a/v1 300 2\nmy video.avi\t250  -1\n", Some(".mp4")).unwrap();
        let rows: Vec<_> = dataset.samples.iter().map(|e| (e.path.to_str().unwrap(), e.label)).collect();
        assert_eq!(rows, [("/r/a/v1.mp4", 2), ("/r/my video.avi", -1)]);
        assert_eq!(dataset.columns[0].values, [Value::Integer(300), Value::Integer(250)]);
        assert_eq!(read("v 10.5 0\n", None).unwrap().columns[0].values, [Value::Float(10.5)]);
        assert_eq!(read("v 10.5 0\n", None).unwrap().samples[0].path, Path::new("/r/v"));
    }

    #[test]
    fn errors_name_file_and_line() {
        for (line, part) in [
            ("v.mp4", "one field"),
            ("v.mp4 3", "two fields"),
            ("v.mp4 300 x", "label 'x'"),
            ("v.mp4 long 3", "duration 'long'"),
            ("v.mp4 inf 3", "duration 'inf'"),
        ] {
            let text = read(&format!("ok 1 1\n{line}\n"), None).unwrap_err().to_string();
            assert!(text.contains("list.txt, line 2: ") && text.contains(part), "{line}: {text}");
        }
    }
}
