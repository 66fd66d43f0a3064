//! Reads an MXNet RecordIO file of packed images (`.rec`), with or without its index file (`.idx`).
//! Produces for each record its labels and the byte range of its image (the bytes if not contiguous).
//! Never searches for a record: it must be where the previous one ends or at an offset in the index file.

mod index;
mod record;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use framespool::error::{Error, Result};
use framespool::limits::{reserve, Limits};
use framespool::source::{name_of, Member};

use crate::blocks::Blocks;
use crate::packed::{read_all, OnError, Packed, PackedEntry, Stored, Watch};
use crate::value::Value;
use record::{Head, Record};

/// Bytes of the image header: the number of labels, one label, and two numbers that identify the image.
const OWN_HEAD: u64 = 24;
/// Maximum size of a list of labels: enough for thousands of boxes.
const LONGEST_LABELS: u64 = 1 << 20;

/// Reads a file, in the order of its records or in the order of the index file.
///
/// # Errors
/// `Malformed` or `Truncated` for a damaged file, with the offset; `Argument` for an index file that is
/// damaged or belongs to another file, with the line, and for a label that is not an integer. With `Skip`
/// these are counted; without an index file, everything after a damaged record is lost.
pub fn recordio(file: &Path, index: Option<&Path>, on_error: OnError, interrupt: Watch) -> Result<Packed> {
    let listed = index.map(index::read).transpose()?;
    let nothing = "looked for pictures packed by MXNet's im2rec or recordio.pack";
    read_all(&[PathBuf::from(file)], 1, interrupt, nothing, |path, go_on| {
        let mut found = Packed::default();
        let mut blocks = match Blocks::open(path) {
            Ok(blocks) => blocks,
            Err(error) => {
                found.fail(error, on_error)?;
                return Ok(found);
            }
        };
        match &listed {
            Some(listed) => {
                for place in listed {
                    go_on()?;
                    let read = Record::at(&mut blocks, place.offset).map_err(|error| place.blame(error));
                    match read
                        .and_then(|record| entry(&mut blocks, path, &record, &format!("key {}", place.key)))
                    {
                        Ok(entry) => found.entries.push(entry),
                        Err(error) => found.fail(error, on_error)?,
                    }
                }
            }
            None => {
                let (mut at, mut number) = (0, 0u64);
                while at < blocks.len() {
                    go_on()?;
                    let record = match Record::at(&mut blocks, at) {
                        Ok(record) => record,
                        Err(error) => {
                            found.fail(error, on_error)?;
                            break; // the start of the next record is unknown
                        }
                    };
                    match entry(&mut blocks, path, &record, &format!("record {number}")) {
                        Ok(entry) => found.entries.push(entry),
                        Err(error) => found.fail(error, on_error)?,
                    }
                    (at, number) = (record.end, number + 1);
                }
            }
        }
        Ok(found)
    })
}

/// Converts a record into an entry.
fn entry(blocks: &mut Blocks, path: &Arc<Path>, record: &Record, name: &str) -> Result<PackedEntry> {
    let at = record.begin;
    let wrong = |reason: String| {
        Error::Argument(format!(
            "{}, {name} at byte {at}: {reason}; on_error=\"skip\" leaves out such records",
            name_of(path)
        ))
    };
    let short = || wrong("is too short for a picture with its labels".to_owned());
    let (stored, head, labels) = match &record.parts[..] {
        [] => return Err(short()),
        &[(offset, len)] => {
            let head = if len < OWN_HEAD { return Err(short()) } else { Head::parse(&blocks.array(offset)?) };
            let labels = head.labels_bytes();
            let rest = (len - OWN_HEAD).checked_sub(labels).filter(|&rest| rest > 0).ok_or_else(short)?;
            Limits::check(&blocks.site(at), "bytes of labels", labels, LONGEST_LABELS)?;
            let values = floats(blocks.get(offset + OWN_HEAD, labels as usize)?);
            let member = Member {
                file: path.clone(),
                offset: offset + OWN_HEAD + labels,
                len: rest,
                name: Some(name.into()),
            };
            (Stored::Member(member), head, values)
        }
        // The writer split the data at each occurrence of the magic number, so it is not contiguous in the
        // file.
        parts => {
            let len = parts.iter().map(|&(_, len)| len + 4).sum::<u64>() - 4;
            Limits::check(&blocks.site(at), "bytes of a record", len, Limits::default().packet_bytes)?;
            let mut joined = Vec::new();
            for (number, &(offset, len)) in parts.iter().enumerate() {
                if number > 0 {
                    joined.extend(record::MAGIC);
                }
                reserve(&blocks.site(offset), &mut joined, len as usize)?;
                joined.extend(blocks.get(offset, len as usize)?);
            }
            let head = joined.first_chunk().map(Head::parse).ok_or_else(short)?;
            let mut rest = joined.split_off(OWN_HEAD as usize);
            let labels = usize::try_from(head.labels_bytes()).unwrap_or(usize::MAX);
            if rest.len() <= labels {
                return Err(short());
            }
            let picture = rest.split_off(labels);
            (Stored::Joined(picture), head, floats(&rest))
        }
    };
    let label = labels.first().copied().unwrap_or(head.label);
    if label.fract() != 0.0 || label.abs() > 16_777_216.0 {
        return Err(wrong(format!("label {label} is no integer")));
    }
    let mut facts =
        vec![("id".to_owned(), i64::try_from(head.id).map_or(Value::Large(head.id), Value::Integer))];
    if !labels.is_empty() {
        let labels = labels.into_iter().map(|label| Value::Number(f64::from(label)));
        facts.push(("labels".to_owned(), Value::List(labels.collect())));
    }
    Ok(PackedEntry { facts, ..PackedEntry::new(stored, label as i64) })
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|&four| f32::from_le_bytes(four)).collect()
}

#[cfg(test)]
mod tests;
