//! Reads a text file with `path label` on each line, in the order of the lines, without opening the videos.
//! Lines are parsed from the right, so names may contain spaces; the label may be missing.
//! A mistyped label is an error and does not become part of a name.

use std::path::{Path, PathBuf};

use framespool::error::{Error, Result};
use framespool::source::as_url;

use crate::lines::for_each_line;
use crate::{has_extension, Dataset, Sample, NO_LABEL, VIDEO_EXTENSIONS};

/// Reads `path label` per line.
///
/// - The label is the last field, an integer; a line without one has label -1. Fields are separated by white
///   space, or by `delimiter` if one is given; then the text after the last delimiter must be a label, or
///   empty.
/// - Relative paths are relative to `root`, which may be a URL, or else to the folder of the list. URLs are
///   used unchanged.
/// - Blank lines and lines that begin with `#` are skipped.
/// - A line in which anything but one label follows the name of a video is an error, with its number.
///
/// Does not check that the videos exist, which would take minutes for a large list on a network disk.
pub fn file_list(path: impl AsRef<Path>, root: Option<&Path>, delimiter: Option<&str>) -> Result<Dataset> {
    let path = path.as_ref();
    check_delimiter(delimiter)?;
    let root = root_of(path, root);
    let mut dataset = Dataset::default();
    for_each_line(path, true, |_, line| {
        let (name, label) = parse(line, delimiter)?;
        dataset.samples.push(Sample::new(resolve_path(root, name), label));
        Ok(())
    })?;
    not_empty(path, dataset, "path label")
}

/// The path for a name in a list. A URL is returned unchanged.
pub(crate) fn resolve_path(root: &Path, name: impl AsRef<Path>) -> PathBuf {
    match as_url(name.as_ref()) {
        Some(url) => url.into(),
        None => root.join(name),
    }
}

/// The folder to which the paths of a list are relative.
pub(crate) fn root_of<'a>(list: &'a Path, root: Option<&'a Path>) -> &'a Path {
    root.or_else(|| list.parent()).unwrap_or(Path::new(""))
}

/// Rejects an empty delimiter.
pub(crate) fn check_delimiter(delimiter: Option<&str>) -> Result<()> {
    if delimiter == Some("") {
        let text = "delimiter must not be empty, got \"\"; omit it to separate fields by white space";
        return Err(Error::Argument(text.to_owned()));
    }
    Ok(())
}

/// The dataset, or an error if it is empty; `line` is an example of a valid line.
pub(crate) fn not_empty(path: &Path, dataset: Dataset, line: &str) -> Result<Dataset> {
    if dataset.samples.is_empty() {
        let notes = dataset.notes.iter().map(|note| format!(" ({note})")).collect::<String>();
        let text = format!("{} lists no videos{notes}; write one per line: {line}", path.display());
        return Err(Error::Argument(text));
    }
    Ok(dataset)
}

/// Parses one trimmed line into name and label.
fn parse<'a>(line: &'a str, delimiter: Option<&str>) -> Result<(&'a str, i64), String> {
    let fields = match delimiter {
        Some(delimiter) => line.rsplit_once(delimiter),
        None => line.rsplit_once(char::is_whitespace),
    };
    let fields = fields.map(|(name, label)| (name.trim(), label.trim()));
    let (name, label) = match fields {
        None => (line, NO_LABEL),
        Some((name, "")) => (name, NO_LABEL),
        Some((name, text)) => match text.parse() {
            Ok(label) => (name, label),
            // "my video.mp4" is a name with a space; the check below detects "video.mp4 x7".
            Err(_) if delimiter.is_none() => (line, NO_LABEL),
            Err(_) => {
                return Err(format!(
                    "label '{text}' is not an integer; write: path{} label",
                    delimiter.unwrap_or(" ")
                ))
            }
        },
    };
    if name.is_empty() {
        return Err(format!("no path before label {label}; write the path first"));
    }
    match text_after_video_name(name, delimiter) {
        Some(text) => Err(format!(
            "'{text}' after the name of the video is not a label; write the path and at most one integer"
        )),
        None => Ok((name, label)),
    }
}

/// The text after a video file name and a separator in `name`, unless `name` itself is that of a video.
pub(crate) fn text_after_video_name<'a>(name: &'a str, delimiter: Option<&str>) -> Option<&'a str> {
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
    let found = cuts.into_iter().find(|(head, tail)| is_video(head) && !tail.contains(['/', '\\']));
    found.map(|(_, tail)| tail.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::TempFolder;

    fn read(text: &str, delimiter: Option<&str>) -> Result<Vec<(String, i64)>> {
        let folder = TempFolder::new();
        let dataset = file_list(folder.write("list.txt", text), Some(Path::new("/r")), delimiter)?;
        assert!(dataset.classes.is_empty());
        Ok(dataset.samples.into_iter().map(|e| (e.path.to_str().unwrap().to_owned(), e.label)).collect())
    }

    fn owned<const N: usize>(samples: [(&str, i64); N]) -> Vec<(String, i64)> {
        samples.map(|(path, label)| (path.to_owned(), label)).to_vec()
    }

    #[test]
    fn names_may_hold_spaces_and_labels_may_be_missing() {
        let text = "a.mp4 3\nmy video.mp4\t4\nmy video.mp4\nb.mp4\nc.mp4 -1\nframes/clip 7\n";
        let expected = [
            ("/r/a.mp4", 3),
            ("/r/my video.mp4", 4),
            ("/r/my video.mp4", -1),
            ("/r/b.mp4", -1),
            ("/r/c.mp4", -1),
            ("/r/frames/clip", 7),
        ];
        assert_eq!(read(text, None).unwrap(), owned(expected));
    }

    #[test]
    fn comments_and_blank_lines_are_skipped() {
        let text = "\u{feff}# path label\r\n\r\n  a.mp4   1  \r\n   # more\r\nb#2.mp4 2";
        assert_eq!(read(text, None).unwrap(), owned([("/r/a.mp4", 1), ("/r/b#2.mp4", 2)]));
    }

    #[test]
    fn a_delimiter_replaces_white_space() {
        let text = "a b.mp4,3\nc, d.mp4 , 4\ne.mp4,\nf.mp4";
        let expected = [("/r/a b.mp4", 3), ("/r/c, d.mp4", 4), ("/r/e.mp4", -1), ("/r/f.mp4", -1)];
        assert_eq!(read(text, Some(",")).unwrap(), owned(expected));
        assert_eq!(read("a 1.mp4::5", Some("::")).unwrap(), owned([("/r/a 1.mp4", 5)]));
    }

    #[test]
    fn relative_paths_are_relative_to_the_list() {
        let folder = TempFolder::new();
        let list = folder.write("lists/train.txt", "v/a.mp4 0\n/data/b.mp4 1\n");
        let dataset = file_list(list, None, None).unwrap();
        assert_eq!(dataset.samples[0].path, folder.0.join("lists/v/a.mp4"));
        assert_eq!(dataset.samples[1].path, Path::new("/data/b.mp4"));
    }

    #[test]
    fn errors_name_file_and_line() {
        for (line, delimiter, part) in [
            ("a.mp4 x7", None, "'x7'"),                                     // mistyped
            ("a.mp4 1.5", None, "'1.5'"),                                   // not an integer
            ("a.mp4 99999999999999999999", None, "'99999999999999999999'"), // beyond 64 bits
            ("a.mp4 3 5", None, "'3'"),                                     // two labels
            ("a.mp4 0 1.0 2.0", None, "'0 1.0 2.0'"),                       // DALI's list with times
            ("a.mp4,x", Some(","), "'x'"),
            ("a.mp4,3,5", Some(","), "'3'"),
            (",5", Some(","), "no path before label 5"),
        ] {
            let text = read(&format!("# first\nok.mp4\n{line}\n"), delimiter).unwrap_err().to_string();
            assert!(text.contains("list.txt, line 3: ") && text.contains(part), "{line}: {text}");
        }
    }

    #[test]
    fn a_folder_may_be_called_like_a_video() {
        assert_eq!(read("old.mp4 files/clip 2", None).unwrap(), owned([("/r/old.mp4 files/clip", 2)]));
    }

    #[test]
    fn a_missing_empty_or_unreadable_list_is_named() {
        let folder = TempFolder::new();
        let missing = file_list(folder.0.join("none.txt"), None, None).unwrap_err();
        assert!(matches!(missing, Error::NotFound { .. }) && missing.to_string().contains("none.txt"));
        assert!(matches!(file_list(&folder.0, None, None).unwrap_err(), Error::Io { .. }));
        assert!(read("# nothing\n", None).unwrap_err().to_string().contains("lists no videos"));
        assert!(read("a.mp4 1\n", Some("")).unwrap_err().to_string().contains("delimiter"));
        let binary = folder.write("binary.txt", b"a.mp4 1\n\xff\xfe\n");
        assert!(file_list(binary, None, None).unwrap_err().to_string().contains("line 2: is not UTF-8"));
    }
}
