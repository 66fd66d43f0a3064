//! Reads the lines of a text file with their numbers, its whole text, or the value of a JSON file.
//! Names in a list become paths. Errors name the file and the line. Lines and documents are limited
//! in length, and the encoding must be UTF-8.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use framespool::error::{Error, Result, Site};
use framespool::source::{self, as_url, display_name};

use crate::Dataset;
use crate::column_value::Value;
use crate::range_reader::{SourceReader, from_io_error};

/// Maximum length of a line. A record with a long conversation has hundreds of KiB.
const MAX_LINE_BYTES: u64 = 16 << 20;
/// Maximum size of a document that is read into memory. Those of large datasets have about 100 MiB.
const MAX_DOCUMENT_BYTES: u64 = 2 << 30;
const BYTE_ORDER_MARK: char = '\u{feff}';

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

/// The dataset, or an error if it is empty; `line` is an example of a valid line.
pub(crate) fn not_empty(path: &Path, dataset: Dataset, line: &str) -> Result<Dataset> {
    if dataset.samples.is_empty() {
        let notes = dataset
            .notes
            .iter()
            .map(|note| format!(" ({note})"))
            .collect::<String>();
        let text = format!(
            "{} lists no videos{notes}; write one per line: {line}",
            path.display()
        );
        return Err(Error::Argument(text));
    }
    Ok(dataset)
}

/// Calls `read` with the number, from 1, and the trimmed text of each line that is not blank. With
/// `comments`, lines that begin with `#` are skipped. An error from `read` becomes an error that
/// names the line.
pub(crate) fn for_each_line(
    path: &Path,
    comments: bool,
    mut read: impl FnMut(u64, &str) -> Result<(), String>,
) -> Result<()> {
    let site = site(path);
    let mut file = BufReader::new(open_reader(path)?);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let length = file
            .by_ref()
            .take(MAX_LINE_BYTES + 1)
            .read_until(b'\n', &mut line);
        if length.map_err(|e| from_io_error(&site, e))? == 0 {
            break;
        }
        if line.len() as u64 > MAX_LINE_BYTES {
            let reason = format!(
                "is longer than {} MiB; give a list with one entry per line",
                MAX_LINE_BYTES >> 20
            );
            return Err(line_error(path, number, &reason));
        }
        let text =
            decode_utf8(&line, number == 1).map_err(|reason| line_error(path, number, &reason))?;
        let text = text.trim();
        if text.is_empty() || (comments && text.starts_with('#')) {
            continue;
        }
        if text.contains('\r') {
            let reason =
                "has a carriage return inside; save the list with LF or CRLF at the ends of lines";
            return Err(line_error(path, number, reason));
        }
        read(number, text).map_err(|reason| line_error(path, number, &reason))?;
    }
    Ok(())
}

/// Opens a file, a named pipe, or a URL.
fn open_reader(path: &Path) -> Result<Box<dyn Read>> {
    match as_url(path) {
        Some(_) => Ok(Box::new(SourceReader::new(source::open(path)?, 0))),
        None => Ok(Box::new(
            File::open(path).map_err(|e| Error::io(&site(path), e))?,
        )),
    }
}

/// The value in a JSON file.
pub(crate) fn read_json(path: &Path) -> Result<Value> {
    parse_json(path, &read_text(path)?)
}

/// The value in the text of a JSON file.
pub(crate) fn parse_json(path: &Path, text: &str) -> Result<Value> {
    serde_json::from_str(text)
        .map_err(|error| line_error(path, error.line() as u64, &json_error(&error)))
}

/// The text of a file at a path or URL, without a byte order mark.
///
/// # Errors
/// `Argument` if it is no UTF-8 text, or larger than 2 GiB.
pub fn read_text(path: &Path) -> Result<String> {
    let site = site(path);
    let mut bytes = Vec::new();
    let file = open_reader(path)?;
    file.take(MAX_DOCUMENT_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| from_io_error(&site, e))?;
    if bytes.len() as u64 > MAX_DOCUMENT_BYTES {
        let text = format!(
            "{} is larger than {} GiB; split it",
            display_name(path),
            MAX_DOCUMENT_BYTES >> 30
        );
        return Err(Error::Argument(text));
    }
    let text = decode_utf8(&bytes, true).map_err(|reason| {
        let valid = std::str::from_utf8(&bytes)
            .map_or_else(|e| e.valid_up_to(), |text| text.find('\0').unwrap_or(0));
        line_error(
            path,
            1 + bytes[..valid].iter().filter(|b| **b == b'\n').count() as u64,
            &reason,
        )
    })?;
    Ok(text.to_owned())
}

/// The message for a JSON error, without the line number.
pub(crate) fn json_error(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let reason = text.split(" at line ").next().unwrap_or(&text);
    format!(
        "is not JSON: {reason} at column {}; correct it, or create the file again",
        error.column()
    )
}

/// The error for a line of a list.
pub(crate) fn line_error(path: &Path, line: u64, reason: &str) -> Error {
    Error::Argument(format!("{}, line {line}: {reason}", display_name(path)))
}

pub(crate) fn site(path: &Path) -> Site {
    Site::file(&display_name(path))
}

/// Decodes bytes as UTF-8 text, without the byte order mark that some editors write at the start of
/// a file.
fn decode_utf8(bytes: &[u8], first: bool) -> Result<&str, String> {
    if first && (bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff")) {
        return Err(
            "is UTF-16 text; save the file as UTF-8, e.g. iconv -f UTF-16 -t UTF-8".to_owned(),
        );
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        // From 0xA0 on, Windows-1252 and ISO 8859-1 agree.
        let shown = match bytes[at] {
            byte @ 0xa0.. => format!(", which is '{}' in Windows-1252 and ISO 8859-1", char::from(byte)),
            _ => String::new(),
        };
        let since_break = at - bytes[..at].iter().rposition(|b| *b == b'\n').map_or(0, |p| p + 1);
        format!(
            "is not UTF-8 text: byte {} of the line is 0x{:02X}{shown}; save the file as UTF-8, e.g. iconv -f \
             WINDOWS-1252 -t UTF-8",
            since_break + 1,
            bytes[at]
        )
    })?;
    if text.contains('\0') {
        return Err(
            "contains a zero byte: it is UTF-16, or not text; save the file as UTF-8 text"
                .to_owned(),
        );
    }
    Ok(if first {
        text.trim_start_matches(BYTE_ORDER_MARK)
    } else {
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::TempFolder;

    fn lines(content: &[u8]) -> Result<Vec<(u64, String)>> {
        let folder = TempFolder::new();
        let mut found = Vec::new();
        for_each_line(&folder.write("list.txt", content), true, |number, text| {
            found.push((number, text.to_owned()));
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn lines_have_numbers_without_bom_and_comments() {
        let found = lines(b"\xef\xbb\xbfa\r\n\r\n# b\n  c d \t\r\ne").unwrap();
        assert_eq!(
            found,
            [
                (1, "a".to_owned()),
                (4, "c d".to_owned()),
                (5, "e".to_owned())
            ]
        );
        assert_eq!(lines(b"").unwrap(), []);
    }

    #[test]
    fn other_encodings_are_named_with_line_and_byte() {
        for (content, parts) in [
            (
                &b"ok\ncaf\xe9.mp4 1\n"[..],
                ["line 2", "byte 4 of the line is 0xE9", "'é'"],
            ),
            (b"ok\n\x80\n", ["line 2", "0x80", "iconv"]),
            (b"\xff\xfea\0 \x001\0", ["line 1", "UTF-16", "UTF-8"]),
            (b"ok\na\0b\n", ["line 2", "zero byte", "UTF-8"]),
            (b"a 1\rb 2\r", ["line 1", "carriage return", "LF"]),
        ] {
            let error = lines(content).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
    }

    #[test]
    fn endless_line_is_rejected_early() {
        let error = lines(&vec![b'a'; (MAX_LINE_BYTES + 2) as usize])
            .unwrap_err()
            .to_string();
        assert!(error.contains("line 1: is longer than 16 MiB"), "{error}");
        assert_eq!(
            lines(&vec![b'a'; MAX_LINE_BYTES as usize]).unwrap().len(),
            1
        );
    }

    #[test]
    fn invalid_json_names_its_line() {
        let folder = TempFolder::new();
        let error = |content: &[u8]| {
            read_json(&folder.write("a.json", content))
                .unwrap_err()
                .to_string()
        };
        assert!(
            error(b"[1,\n 2,\n]").contains("a.json, line 3: is not JSON"),
            "{}",
            error(b"[1,\n 2,\n]")
        );
        assert!(error(b"[1,\n \"\xe9\"]").contains("line 2: is not UTF-8 text: byte 3"));
        assert!(
            error(b"{\"a\": 1,\n\"a\": 2}").contains("line 2"),
            "{}",
            error(b"{\"a\": 1,\n\"a\": 2}")
        );
        let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
        assert!(error(&deep).contains("recursion limit"), "{}", error(&deep));
        assert_eq!(
            read_json(&folder.write("b.json", b"\xef\xbb\xbf 3")).unwrap(),
            Value::Integer(3)
        );
    }
}
