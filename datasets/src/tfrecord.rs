//! Reads TFRecord files of `tf.train.Example`, or of `SequenceExample`, of which only the context is used.
//! Produces the byte range of the encoded video or image of each record, and its label. Copies no payload.
//! A record length is used only if its checksum is correct.

mod example;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use framespool::error::{Error, Result};
use framespool::source::{name_of, Member};

use crate::blocks::Blocks;
use crate::packed::{read_all, OnError, Packed, PackedEntry, Stored, Watch};
use crate::NO_LABEL;
use example::{feature, Feature};

/// Bytes before the data of a record: its length, and the checksum of the length.
const HEAD: u64 = 12;
/// Bytes after the data of a record: the checksum of the data.
const FOOT: u64 = 4;
/// Bytes that are read at a time to compute a checksum.
const PIECE: u64 = 1 << 20;

/// Which features of an example are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
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
/// `Malformed` or `Truncated` for a damaged file, with the offset; `Argument` for a record in which a feature
/// is missing or has another type. With `Skip` these are counted: damage to the framing loses the rest of the
/// file, and any other damage loses only its record.
pub fn tfrecord(
    files: &[PathBuf],
    wanted: &Features,
    on_error: OnError,
    threads: u32,
    interrupt: Watch,
) -> Result<Packed> {
    let nothing = format!("looked for records with a feature '{}'", wanted.source);
    read_all(files, threads, interrupt, &nothing, |path, go_on| read(path, wanted, on_error, go_on))
}

fn read(path: &Arc<Path>, wanted: &Features, on_error: OnError, go_on: Watch) -> Result<Packed> {
    let mut found = Packed::default();
    let mut blocks = match Blocks::open(path) {
        Ok(blocks) => blocks,
        Err(error) => {
            found.fail(error, on_error)?;
            return Ok(found);
        }
    };
    let (mut at, mut number) = (0, 0u64);
    while at < blocks.len() {
        go_on()?;
        let len = match framed(&mut blocks, at) {
            Ok(len) => len,
            Err(error) => {
                found.fail(error, on_error)?;
                break; // the start of the next record is unknown
            }
        };
        let data = at + HEAD;
        let sound = match wanted.check {
            true => checked(&mut blocks, at, data, len, go_on),
            false => Ok(()),
        };
        match sound.and_then(|()| entry(&mut blocks, path, wanted, (at, number), (data, data + len))) {
            Ok(entry) => found.entries.push(entry),
            Err(error) => found.fail(error, on_error)?,
        }
        (at, number) = (data + len + FOOT, number + 1);
    }
    Ok(found)
}

/// The length of the record at an offset, after checking its checksum and that the file contains all of the
/// record.
fn framed(blocks: &mut Blocks, at: u64) -> Result<u64> {
    let head: [u8; HEAD as usize] = blocks.array(at)?;
    let (len, sum) = head.split_at(8);
    if masked(crc32c::crc32c(len)) != little(sum) {
        let reason = match head {
            [0x1f, 0x8b, ..] => {
                "begins like a gzip file: records have no place of their own in it, unpack it"
            }
            [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..] if at == 0 => {
                "begins like a zlib stream: records have no place of their own in it, unpack it"
            }
            _ => "the checksum of the record's length is wrong",
        };
        return Err(blocks.damaged(at, reason));
    }
    let len = len.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    blocks.check(at + HEAD, len.saturating_add(FOOT))?;
    Ok(len)
}

/// Verifies the checksum of a record's data.
fn checked(blocks: &mut Blocks, at: u64, data: u64, len: u64, go_on: Watch) -> Result<()> {
    let mut sum = 0;
    for begin in (0..len).step_by(PIECE as usize) {
        go_on()?;
        let piece = blocks.get(data + begin, PIECE.min(len - begin) as usize)?;
        sum = crc32c::crc32c_append(sum, piece);
    }
    let foot: [u8; FOOT as usize] = blocks.array(data + len)?;
    match masked(sum) == little(&foot) {
        true => Ok(()),
        false => Err(blocks.damaged(at, "the checksum of the record's data is wrong")),
    }
}

/// Converts the record with data in `begin..end` into an entry.
fn entry(
    blocks: &mut Blocks,
    path: &Arc<Path>,
    wanted: &Features,
    (at, number): (u64, u64),
    (begin, end): (u64, u64),
) -> Result<PackedEntry> {
    let file = name_of(path);
    let wrong = |reason: String| {
        Error::Argument(format!(
            "{file}, record {number} at byte {at}: {reason}; on_error=\"skip\" leaves out such records"
        ))
    };
    let kind = |feature: &Feature| match feature {
        Feature::Missing => "is not there".to_owned(),
        Feature::Bytes { count, .. } => format!("holds {count} strings of bytes"),
        Feature::Whole { count, .. } => format!("holds {count} integers"),
        Feature::Real => "holds floats".to_owned(),
    };
    let label = match &wanted.label {
        None => NO_LABEL,
        Some(name) => match feature(blocks, (begin, end), name)? {
            Feature::Whole { count: 1, value } => value,
            other => {
                let reason = format!(
                    "feature '{name}' {}, one integer is wanted as the label; give its name as label=, or None",
                    kind(&other)
                );
                return Err(wrong(reason));
            }
        },
    };
    match feature(blocks, (begin, end), &wanted.source)? {
        Feature::Bytes { count: 1, begin, end } => {
            let name = Some(format!("record {number}").into());
            let member = Member { file: path.clone(), offset: begin, len: end - begin, name };
            Ok(PackedEntry::new(Stored::Member(member), label))
        }
        other => Err(wrong(format!(
            "feature '{}' {}, the bytes of one video or picture are wanted; give its name as source=",
            wanted.source,
            kind(&other)
        ))),
    }
}

/// The masked form in which TFRecord stores a CRC, because a CRC of data that contains CRCs is weak.
fn masked(sum: u32) -> u32 {
    sum.rotate_right(15).wrapping_add(0xa282_ead8)
}

fn little(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u32::from(byte))
}

#[cfg(test)]
mod tests;
