//! Reads a RecordIO index file: lines of a key, a tab and the offset of a record, in the order of
//! the lines. Does not check that the records exist.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use framespool::error::{Error, Result, Site};

/// Maximum length of a line.
const MAX_LINE_BYTES: usize = 256;

/// A line of the index file.
#[derive(Debug)]
pub(crate) struct IndexLine {
    pub key: u64,
    pub offset: u64,
    list: Arc<str>,
    line: u64,
}

impl IndexLine {
    /// Adds the line of the index file to an error of the record, since the line may be wrong.
    pub(crate) fn with_index_line(&self, error: Error) -> Error {
        match error {
            Error::Malformed { site, reason } => {
                let reason = format!("{reason} (listed in {}, line {})", self.list, self.line);
                Error::Malformed { site, reason }
            }
            other => other,
        }
    }
}

/// # Errors
/// `Argument` with the line; `NotFound` or `Io` for the index file itself.
pub(super) fn read(path: &Path) -> Result<Vec<IndexLine>> {
    let list: Arc<str> = path.to_string_lossy().into();
    let failed = |error| Error::io(&Site::file(&list), error);
    let mut reader = BufReader::new(File::open(path).map_err(failed)?);
    let (mut index_lines, mut text) = (Vec::new(), Vec::new());
    for line in 1.. {
        text.clear();
        let most = MAX_LINE_BYTES as u64 + 1;
        if reader
            .by_ref()
            .take(most)
            .read_until(b'\n', &mut text)
            .map_err(failed)?
            == 0
        {
            break;
        }
        if text.len() <= MAX_LINE_BYTES && text.trim_ascii().is_empty() {
            continue;
        }
        let fields = std::str::from_utf8(&text)
            .ok()
            .filter(|text| text.len() <= MAX_LINE_BYTES);
        let mut fields = fields
            .unwrap_or_default()
            .split_whitespace()
            .map(|field| field.parse().ok());
        match (fields.next(), fields.next(), fields.next()) {
            (Some(Some(key)), Some(Some(offset)), None) => {
                index_lines.push(IndexLine {
                    key,
                    offset,
                    list: list.clone(),
                    line,
                });
            }
            _ => {
                let shown: String = String::from_utf8_lossy(&text)
                    .trim()
                    .chars()
                    .take(40)
                    .collect();
                return Err(Error::Argument(format!(
                    "{list}, line {line}: expected two integers, a key and a byte offset, got '{shown}'; \
                     omit idx= to read the records in file order"
                )));
            }
        }
    }
    Ok(index_lines)
}
