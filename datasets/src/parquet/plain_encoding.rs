//! Locates each value in a page of byte arrays that is neither compressed nor encoded, without
//! reading the values. Layout: levels, which mark missing values, then the values, each preceded by
//! its length.

use framespool::error::Result;
use framespool::limits::reserve;

use super::delta_encoding::varint;
use super::page_scan::{Levels, PageContents, PageLocation};
use crate::protobuf::ByteRange;
use crate::range_reader::RangeReader;

/// Encodings: plain values; levels as runs (RLE).
pub(super) const PLAIN: i64 = 0;
const RLE: i64 = 3;
/// Maximum size of levels: one byte for each value of a large page.
const MAX_LEVELS_BYTES: u64 = 1 << 26;

/// Offset and length of each value, `None` where it is missing.
pub(crate) type ValueRanges = Vec<Option<(u64, u64)>>;

/// Offset and length of each value; `Ok(None)` if the page has to be decoded to find them.
/// `max_def_level` is the definition level of a value that is present.
pub(crate) fn value_ranges(
    reader: &mut RangeReader,
    page: &PageLocation,
    max_def_level: i16,
) -> Result<Option<ValueRanges>> {
    let PageContents::Values {
        count,
        encoding: PLAIN,
        levels,
    } = page.contents
    else {
        return Ok(None);
    };
    let end = page.data_offset + page.compressed_size;
    let (levels, mut at) = match levels {
        _ if max_def_level == 0 => (None, page.data_offset),
        Levels::V1 { encoding: RLE } => {
            let len = u64::from(read_length(reader, (page.data_offset, end))?);
            let begin = page.data_offset + 4;
            (Some((begin, begin + len)), begin + len)
        }
        Levels::V1 { .. } => return Ok(None),
        Levels::V2 {
            repetitions,
            definitions,
        } => {
            let begin = page.data_offset.saturating_add(repetitions);
            let end = begin.saturating_add(definitions);
            (Some((begin, end)), end)
        }
    };
    if at > end || levels.is_some_and(|(begin, end)| end - begin > MAX_LEVELS_BYTES) {
        return Err(reader.malformed(page.header_offset, "a page whose levels go beyond its end"));
    }
    let present = match levels {
        Some(range) => decode_levels(reader, range, max_def_level, count)?,
        None => vec![],
    };
    let mut found = Vec::new();
    // A row without a value may take a bit of the file or less, so the number of rows is not
    // bounded by the file size.
    reserve(
        &reader.site(page.header_offset),
        &mut found,
        usize::try_from(count).unwrap_or(usize::MAX),
    )?;
    for row in 0..count {
        if levels.is_some() && !present.get(row as usize).copied().unwrap_or(false) {
            found.push(None);
            continue;
        }
        let len = u64::from(read_length(reader, (at, end))?);
        let begin = at + 4;
        if len > end - begin {
            let reason = format!(
                "value {row} of the page has {len} bytes, but only {} bytes of the page remain",
                end - begin
            );
            return Err(reader.malformed(at, reason));
        }
        found.push(Some((begin, len)));
        at = begin + len;
    }
    Ok(Some(found))
}

/// A little-endian 32-bit number.
fn read_length(reader: &mut RangeReader, (at, end): ByteRange) -> Result<u32> {
    if end.saturating_sub(at) < 4 {
        return Err(reader.malformed(at, "a page ends where a length is expected"));
    }
    Ok(u32::from_le_bytes(reader.read_array(at)?))
}

/// Which of `count` levels equal `max_def_level`. Levels are runs of one level and bit-packed
/// groups.
fn decode_levels(
    reader: &mut RangeReader,
    (begin, end): ByteRange,
    max_def_level: i16,
    count: u64,
) -> Result<Vec<bool>> {
    let bytes = reader.get(begin, (end - begin) as usize)?.to_vec();
    let width = 16 - max_def_level.leading_zeros();
    let mut present = Vec::new();
    reserve(
        &reader.site(begin),
        &mut present,
        usize::try_from(count).unwrap_or(usize::MAX),
    )?;
    let mut rest = &bytes[..];
    let short = || "a page whose levels end before its values do";
    while (present.len() as u64) < count {
        let left = (count - present.len() as u64) as usize;
        let head = varint(&mut rest).ok_or_else(|| reader.malformed(begin, short()))?;
        if head & 1 == 0 {
            let level = rest
                .split_off(..width.div_ceil(8) as usize)
                .ok_or_else(|| reader.malformed(begin, short()))?;
            let level = level
                .iter()
                .rev()
                .fold(0, |sum, &byte| sum << 8 | i32::from(byte));
            let run = usize::try_from(head >> 1).unwrap_or(usize::MAX).min(left);
            if run == 0 {
                return Err(reader.malformed(begin, "an empty run of levels"));
            }
            present.resize(present.len() + run, level == i32::from(max_def_level));
        } else {
            let bits = usize::try_from(head >> 1)
                .unwrap_or(usize::MAX)
                .saturating_mul(8);
            let packed = rest
                .len()
                .min(bits.saturating_mul(width as usize).div_ceil(8));
            let packed = rest.split_off(..packed).unwrap_or_default();
            let whole = (packed.len() * 8 / width as usize).min(bits).min(left);
            if whole == 0 {
                return Err(reader.malformed(begin, short()));
            }
            for at in 0..whole {
                let bit = |position: usize| u32::from(packed[position / 8] >> (position % 8) & 1);
                let level =
                    (0..width as usize).fold(0, |sum, n| sum | bit(at * width as usize + n) << n);
                present.push(level == max_def_level as u32);
            }
        }
    }
    Ok(present)
}
