//! Reads TFRecord files of `tf.train.Example`, or of `SequenceExample`, of which only the context
//! is used. Produces the byte range of the encoded video or image of each record, and its label.
//! Copies no payload. A record length is used only if its checksum is correct.

mod example;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use framespool::error::{Error, Result};
use framespool::source::{ArchiveMember, check_interrupt, display_name};

use crate::NO_LABEL;
use crate::archive::{ArchiveListing, ArchiveSample, ErrorPolicy, SampleLocation, read_files};
use crate::range_reader::RangeReader;
use example::{Feature, find_feature};

/// Bytes before the data of a record: its length, and the checksum of the length.
const HEADER_BYTES: u64 = 12;
/// Bytes after the data of a record: the checksum of the data.
const FOOTER_BYTES: u64 = 4;
/// Bytes that are read at a time to compute a checksum.
const CHECKSUM_READ_BYTES: u64 = 1 << 20;

/// Which features of an example are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TfRecordOptions {
    /// Name of the feature with the bytes of a video or an image.
    pub source: String,
    /// Name of the feature with the label, if there is one.
    pub label: Option<String>,
    /// Also verify the checksum of the data, which requires reading all of it.
    pub check: bool,
}

/// Reads files.
///
/// # Errors
/// `Malformed` or `Truncated` for a damaged file, with the offset; `Argument` for a record in which
/// a feature is missing or has another type. With `Skip` these are counted: damage to the framing
/// loses the rest of the file, and any other damage loses only its record.
pub fn tfrecord(
    files: &[PathBuf],
    options: &TfRecordOptions,
    on_error: ErrorPolicy,
    threads: u32,
) -> Result<ArchiveListing> {
    let nothing = format!("looked for records with a feature '{}'", options.source);
    read_files(files, threads, &nothing, |path| {
        read(path, options, on_error)
    })
}

fn read(
    path: &Arc<Path>,
    options: &TfRecordOptions,
    on_error: ErrorPolicy,
) -> Result<ArchiveListing> {
    let mut found = ArchiveListing::default();
    let mut reader = match RangeReader::open(path) {
        Ok(reader) => reader,
        Err(error) => {
            found.handle_error(error, on_error)?;
            return Ok(found);
        }
    };
    let (mut at, mut number) = (0, 0u64);
    while at < reader.len() {
        check_interrupt()?;
        let len = match read_length(&mut reader, at) {
            Ok(len) => len,
            Err(error) => {
                found.handle_error(error, on_error)?;
                break; // the start of the next record is unknown
            }
        };
        let data = at + HEADER_BYTES;
        let verified = match options.check {
            true => verify_checksum(&mut reader, at, data, len),
            false => Ok(()),
        };
        match verified
            .and_then(|()| sample(&mut reader, path, options, (at, number), (data, data + len)))
        {
            Ok(sample) => found.samples.push(sample),
            Err(error) => found.handle_error(error, on_error)?,
        }
        (at, number) = (data + len + FOOTER_BYTES, number + 1);
    }
    Ok(found)
}

/// The length of the record at an offset, after checking its checksum and that the file contains
/// all of the record.
fn read_length(reader: &mut RangeReader, at: u64) -> Result<u64> {
    let header: [u8; HEADER_BYTES as usize] = reader.read_array(at)?;
    let (len, sum) = header.split_at(8);
    if masked_crc(crc32c::crc32c(len)) != read_le(sum) {
        let reason = match header {
            [0x1f, 0x8b, ..] => {
                "starts like a gzip file, whose records cannot be read in place; unpack it"
            }
            [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..] if at == 0 => {
                "starts like a zlib stream, whose records cannot be read in place; unpack it"
            }
            _ => "the checksum of the record's length is wrong",
        };
        return Err(reader.malformed(at, reason));
    }
    let len = len
        .iter()
        .rev()
        .fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    reader.check(at + HEADER_BYTES, len.saturating_add(FOOTER_BYTES))?;
    Ok(len)
}

/// Verifies the checksum of a record's data.
fn verify_checksum(reader: &mut RangeReader, at: u64, data: u64, len: u64) -> Result<()> {
    let mut sum = 0;
    for begin in (0..len).step_by(CHECKSUM_READ_BYTES as usize) {
        check_interrupt()?;
        let chunk = reader.get(data + begin, CHECKSUM_READ_BYTES.min(len - begin) as usize)?;
        sum = crc32c::crc32c_append(sum, chunk);
    }
    let footer: [u8; FOOTER_BYTES as usize] = reader.read_array(data + len)?;
    match masked_crc(sum) == read_le(&footer) {
        true => Ok(()),
        false => Err(reader.malformed(at, "the checksum of the record's data is wrong")),
    }
}

/// Converts the record with data in `begin..end` into a sample.
fn sample(
    reader: &mut RangeReader,
    path: &Arc<Path>,
    options: &TfRecordOptions,
    (at, number): (u64, u64),
    (begin, end): (u64, u64),
) -> Result<ArchiveSample> {
    let file = display_name(path);
    let wrong = |reason: String| {
        Error::Argument(format!(
            "{file}, record {number} at byte {at}: {reason}; on_error=\"skip\" skips such records"
        ))
    };
    let kind = |feature: &Feature| match feature {
        Feature::Absent => "is missing".to_owned(),
        Feature::Bytes { count, .. } => format!("holds {count} strings of bytes"),
        Feature::Int64 { count, .. } => format!("holds {count} integers"),
        Feature::Float => "holds floats".to_owned(),
    };
    let label = match &options.label {
        None => NO_LABEL,
        Some(name) => match find_feature(reader, (begin, end), name)? {
            Feature::Int64 { count: 1, value } => value,
            other => {
                let reason = format!(
                    "feature '{name}' {}, expected one integer as the label; give its name as label=, or None",
                    kind(&other)
                );
                return Err(wrong(reason));
            }
        },
    };
    match find_feature(reader, (begin, end), &options.source)? {
        Feature::Bytes {
            count: 1,
            begin,
            end,
        } => {
            let name = Some(format!("record {number}").into());
            let member = ArchiveMember {
                file: path.clone(),
                offset: begin,
                len: end - begin,
                name,
            };
            Ok(ArchiveSample::new(SampleLocation::Member(member), label))
        }
        other => Err(wrong(format!(
            "feature '{}' {}, expected the bytes of one video or image; give its name as source=",
            options.source,
            kind(&other)
        ))),
    }
}

/// The masked form in which TFRecord stores a CRC, because a CRC of data that contains CRCs is
/// weak.
fn masked_crc(sum: u32) -> u32 {
    sum.rotate_right(15).wrapping_add(0xa282_ead8)
}

fn read_le(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .rev()
        .fold(0, |sum, &byte| sum << 8 | u32::from(byte))
}

#[cfg(test)]
mod tests;
