//! Splits the text of an annotation file into records and fields. Quoted fields may contain
//! delimiters and line breaks. Fields are trimmed, and records without values are skipped.

use std::path::Path;

use csv_core::{ReadRecordResult, ReaderBuilder};
use framespool::error::{Error, Result};

use super::description::{Split, TableLayout};
use super::records::{Cells, Position, Records, TextCells};
use crate::column_value::{MAX_COLUMNS, shortened};
use crate::lines::{line_error, read_text};

/// Appends the records of a file.
pub(super) fn read(path: &Path, layout: &TableLayout, records: &mut Records) -> Result<()> {
    let text = read_text(path)?;
    let mut header = None;
    let mut add = |line: u64, fields: &[&str]| {
        let wrong = |reason: String| line_error(path, line, &reason);
        if fields.iter().all(|field| field.is_empty()) {
            return Ok(());
        }
        let Some(count) = header.or(layout.names.as_ref().map(Vec::len)) else {
            header = Some(fields.len());
            let names = check_header(fields).map_err(wrong)?;
            if !records.names.is_empty() && records.names != names {
                return Err(wrong(format!(
                    "the header differs from that of {}",
                    records.source()
                )));
            }
            set_names(records, names);
            return Ok(());
        };
        let least = header.unwrap_or(layout.min_fields);
        if !(least..=count).contains(&fields.len()) {
            let delimiter = layout
                .delimiter
                .map_or("white space".to_owned(), |delimiter| {
                    format!("'{delimiter}'")
                });
            let expected = match &layout.names {
                Some(names) => {
                    format!(
                        "; write: {}",
                        names.join(&layout.delimiter.unwrap_or(' ').to_string())
                    )
                }
                None => {
                    format!(" where the header has {count}; quote fields that contain {delimiter}")
                }
            };
            return Err(wrong(format!("has {} fields{expected}", fields.len())));
        }
        let padded = fields.iter().copied().chain(std::iter::repeat(""));
        for (cells, field) in records.columns.iter_mut().take(count).zip(padded) {
            if let Cells::Text(cells) = cells {
                cells.push(field);
            }
        }
        records.positions.push(Position {
            file: records.files.len() as u32,
            number: line,
            part: None,
        });
        Ok(())
    };
    if let (Split::Quoted, delimiter) = (layout.split, layout.delimiter) {
        let delimiter = delimiter
            .filter(char::is_ascii)
            .and_then(|delimiter| u8::try_from(delimiter).ok());
        let delimiter = delimiter.ok_or_else(|| {
            let text = format!(
                "delimiter must be an ASCII character, got {:?}",
                layout.delimiter
            );
            Error::Argument(text)
        })?;
        quoted_records(path, &text, delimiter, add)?;
    } else {
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.contains('\r') {
                let reason = "has a carriage return inside; save the list with LF or CRLF at the ends of lines";
                return Err(line_error(path, number, reason));
            }
            add(number, &unquoted_fields(line, layout))?;
        }
    }
    Ok(())
}

/// Starts columns with these names.
pub(super) fn set_names(records: &mut Records, names: Vec<String>) {
    if records.names.is_empty() {
        records.columns = names
            .iter()
            .map(|_| Cells::Text(TextCells::default()))
            .collect();
        records.names = names;
    }
}

fn check_header(fields: &[&str]) -> Result<Vec<String>, String> {
    if fields.len() > MAX_COLUMNS {
        return Err(format!(
            "has {} columns; at most {MAX_COLUMNS} are accepted",
            fields.len()
        ));
    }
    let mut names: Vec<String> = Vec::with_capacity(fields.len());
    for (number, field) in (1..).zip(fields) {
        // Data frames are saved with a column of row numbers that has no name.
        let name = if field.is_empty() {
            format!("column {number}")
        } else {
            (*field).to_owned()
        };
        if names.contains(&name) {
            return Err(format!(
                "two columns are named '{}'; rename one",
                shortened(&name)
            ));
        }
        names.push(name);
    }
    Ok(names)
}

fn quoted_records(
    path: &Path,
    text: &str,
    delimiter: u8,
    mut add: impl FnMut(u64, &[&str]) -> Result<()>,
) -> Result<()> {
    let count_lines = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
    let mut reader = ReaderBuilder::new().delimiter(delimiter).build();
    let (mut buffer, mut ends) = (vec![0; 256], vec![0; 16]);
    let (mut rest, mut line) = (text.as_bytes(), 1);
    loop {
        let blank = rest
            .iter()
            .take_while(|byte| b"\r\n".contains(byte))
            .count();
        line += count_lines(&rest[..blank]);
        rest = &rest[blank..];
        if rest.is_empty() {
            return Ok(());
        }
        let (begin, first) = (line, rest);
        let (mut written, mut ended, mut is_closed) = (0, 0, false);
        loop {
            // The last line may have no line break.
            let input = if rest.is_empty() { b"\n" } else { rest };
            let (state, read, bytes, fields) =
                reader.read_record(input, &mut buffer[written..], &mut ends[ended..]);
            (written, ended) = (written + bytes, ended + fields);
            if rest.is_empty() {
                is_closed = true;
            } else {
                line += count_lines(&rest[..read]);
                rest = &rest[read..];
            }
            match state {
                ReadRecordResult::Record => break,
                ReadRecordResult::OutputFull => buffer.resize(buffer.len() * 2, 0),
                ReadRecordResult::OutputEndsFull => ends.resize(ends.len() * 2, 0),
                ReadRecordResult::InputEmpty | ReadRecordResult::End if is_closed => {
                    let reason = "has a quotation mark that is not closed; close it, or double it if it is part of the text";
                    return Err(line_error(path, begin, reason));
                }
                ReadRecordResult::InputEmpty | ReadRecordResult::End => {}
            }
        }
        // Text after a closing quotation mark belongs to the field in many files. After a line break
        // in quotes it means that a mark was not closed, and that other records are in the field.
        let raw = first[..first.len() - rest.len()].trim_ascii_end();
        if raw.contains(&b'\n') && has_text_after_lines(raw, delimiter) {
            let reason = "has text behind a quotation mark that ends several lines; double the marks that are part of the \
                          text, and close the others";
            return Err(line_error(path, begin, reason));
        }
        let record = std::str::from_utf8(&buffer[..written]).ok();
        let mut start = 0;
        let fields = ends[..ended]
            .iter()
            .map(|end| record?.get(std::mem::replace(&mut start, *end)..*end));
        let fields: Option<Vec<&str>> = fields.map(|field| field.map(str::trim)).collect();
        add(
            begin,
            &fields.ok_or_else(|| {
                line_error(path, begin, "has a field that ends inside a character")
            })?,
        )?;
    }
}

/// Whether a quoted field with line breaks is followed by text in place of a delimiter.
fn has_text_after_lines(record: &[u8], delimiter: u8) -> bool {
    let mut rest = record;
    while let Some(&byte) = rest.first() {
        let mut has_lines = false;
        if byte == b'"' {
            let mut at = 1;
            while let Some(&byte) = rest.get(at) {
                if byte == b'"' {
                    if rest.get(at + 1) != Some(&b'"') {
                        break;
                    }
                    at += 1;
                }
                has_lines |= byte == b'\n';
                at += 1;
            }
            rest = rest.get(at + 1..).unwrap_or_default();
        }
        let end = rest.iter().position(|byte| *byte == delimiter);
        let (tail, behind) = rest.split_at(end.unwrap_or(rest.len()));
        if has_lines && !tail.trim_ascii().is_empty() {
            return true;
        }
        rest = behind.get(1..).unwrap_or_default();
    }
    false
}

/// The fields of a line, of which the first or the last one may contain delimiters.
fn unquoted_fields<'a>(line: &'a str, layout: &TableLayout) -> Vec<&'a str> {
    let count = layout.names.as_ref().map_or(1, Vec::len);
    let is_delimiter = |c: char| {
        layout
            .delimiter
            .map_or(c.is_whitespace(), |delimiter| c == delimiter)
    };
    let is_right = layout.split == Split::Right;
    let (mut rest, mut fields) = (line, Vec::with_capacity(count));
    while fields.len() + 1 < count {
        let cut = match is_right {
            true => rest
                .rsplit_once(is_delimiter)
                .map(|(head, field)| (field, head)),
            false => rest.split_once(is_delimiter),
        };
        let Some((field, others)) = cut else { break };
        // A path with a space, without the number that may follow it.
        if is_right && layout.min_fields < count && !field.bytes().all(|byte| byte.is_ascii_digit())
        {
            break;
        }
        fields.push(field.trim());
        rest = others.trim();
    }
    fields.push(rest);
    if is_right {
        fields.reverse();
    }
    fields
}
