//! Reads an MXNet RecordIO file of packed images (`.rec`), with or without its index file (`.idx`).
//! Produces for each record its labels and the byte range of its image (the bytes if not
//! contiguous). Never searches for a record: it must be where the previous one ends or at an offset
//! in the index file.

mod index;
mod record;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use framespool::error::{Error, Result};
use framespool::limits::{Limits, reserve};
use framespool::source::{ArchiveMember, check_interrupt, display_name};

use crate::archive::{ArchiveListing, ArchiveSample, ErrorPolicy, SampleLocation, read_files};
use crate::column_value::Value;
use crate::range_reader::RangeReader;
use record::{ImageHeader, Record};

/// Bytes of the image header: the number of labels, one label, and two numbers that identify the
/// image.
const IMAGE_HEADER_BYTES: u64 = 24;
/// Maximum size of a list of labels: enough for thousands of boxes.
const MAX_LABELS_BYTES: u64 = 1 << 20;

/// Reads a file, in the order of its records or in the order of the index file.
///
/// # Errors
/// `Malformed` or `Truncated` for a damaged file, with the offset; `Argument` for an index file
/// that is damaged or belongs to another file, with the line, and for a label that is not an
/// integer. With `Skip` these are counted; without an index file, everything after a damaged record
/// is lost.
pub fn recordio(
    file: &Path,
    index: Option<&Path>,
    on_error: ErrorPolicy,
) -> Result<ArchiveListing> {
    let index_lines = index.map(index::read).transpose()?;
    let nothing = "looked for images packed by MXNet's im2rec or recordio.pack";
    read_files(&[PathBuf::from(file)], 1, nothing, |path| {
        let mut found = ArchiveListing::default();
        let mut reader = match RangeReader::open(path) {
            Ok(reader) => reader,
            Err(error) => {
                found.handle_error(error, on_error)?;
                return Ok(found);
            }
        };
        match &index_lines {
            Some(index_lines) => {
                for line in index_lines {
                    check_interrupt()?;
                    let read = Record::read(&mut reader, line.offset)
                        .map_err(|error| line.with_index_line(error));
                    match read.and_then(|record| {
                        sample(&mut reader, path, &record, &format!("key {}", line.key))
                    }) {
                        Ok(sample) => found.samples.push(sample),
                        Err(error) => found.handle_error(error, on_error)?,
                    }
                }
            }
            None => {
                let (mut at, mut number) = (0, 0u64);
                while at < reader.len() {
                    check_interrupt()?;
                    let record = match Record::read(&mut reader, at) {
                        Ok(record) => record,
                        Err(error) => {
                            found.handle_error(error, on_error)?;
                            break; // the start of the next record is unknown
                        }
                    };
                    match sample(&mut reader, path, &record, &format!("record {number}")) {
                        Ok(sample) => found.samples.push(sample),
                        Err(error) => found.handle_error(error, on_error)?,
                    }
                    (at, number) = (record.end, number + 1);
                }
            }
        }
        Ok(found)
    })
}

/// Converts a record into a sample.
fn sample(
    reader: &mut RangeReader,
    path: &Arc<Path>,
    record: &Record,
    name: &str,
) -> Result<ArchiveSample> {
    let at = record.begin;
    let wrong = |reason: String| {
        Error::Argument(format!(
            "{}, {name} at byte {at}: {reason}; on_error=\"skip\" skips such records",
            display_name(path)
        ))
    };
    let short = || wrong("is too short for an image with its labels".to_owned());
    let (location, header, labels) = match &record.parts[..] {
        [] => return Err(short()),
        &[(offset, len)] => {
            let header = if len < IMAGE_HEADER_BYTES {
                return Err(short());
            } else {
                ImageHeader::parse(&reader.read_array(offset)?)
            };
            let labels = header.labels_bytes();
            let rest = (len - IMAGE_HEADER_BYTES)
                .checked_sub(labels)
                .filter(|&rest| rest > 0)
                .ok_or_else(short)?;
            Limits::check(
                &reader.site(at),
                "bytes of labels",
                labels,
                MAX_LABELS_BYTES,
            )?;
            let values = floats(reader.get(offset + IMAGE_HEADER_BYTES, labels as usize)?);
            let member = ArchiveMember {
                file: path.clone(),
                offset: offset + IMAGE_HEADER_BYTES + labels,
                len: rest,
                name: Some(name.into()),
            };
            (SampleLocation::Member(member), header, values)
        }
        // The writer split the data at each occurrence of the magic number, so it is not contiguous
        // in the file.
        parts => {
            let len = parts.iter().map(|&(_, len)| len + 4).sum::<u64>() - 4;
            Limits::check(
                &reader.site(at),
                "bytes of a record",
                len,
                Limits::default().packet_bytes,
            )?;
            let mut joined = Vec::new();
            for (number, &(offset, len)) in parts.iter().enumerate() {
                if number > 0 {
                    joined.extend(record::MAGIC);
                }
                reserve(&reader.site(offset), &mut joined, len as usize)?;
                joined.extend(reader.get(offset, len as usize)?);
            }
            let header = joined
                .first_chunk()
                .map(ImageHeader::parse)
                .ok_or_else(short)?;
            let mut rest = joined.split_off(IMAGE_HEADER_BYTES as usize);
            let labels = usize::try_from(header.labels_bytes()).unwrap_or(usize::MAX);
            if rest.len() <= labels {
                return Err(short());
            }
            let picture = rest.split_off(labels);
            (SampleLocation::Memory(picture), header, floats(&rest))
        }
    };
    let label = labels.first().copied().unwrap_or(header.label);
    if label.fract() != 0.0 || label.abs() > 16_777_216.0 {
        return Err(wrong(format!("label {label} is not an integer")));
    }
    let mut column_values = vec![(
        "id".to_owned(),
        i64::try_from(header.id).map_or(Value::Unsigned(header.id), Value::Integer),
    )];
    if !labels.is_empty() {
        let labels = labels
            .into_iter()
            .map(|label| Value::Float(f64::from(label)));
        column_values.push(("labels".to_owned(), Value::List(labels.collect())));
    }
    Ok(ArchiveSample {
        column_values,
        ..ArchiveSample::new(location, label as i64)
    })
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|&four| f32::from_le_bytes(four))
        .collect()
}

#[cfg(test)]
mod tests;
