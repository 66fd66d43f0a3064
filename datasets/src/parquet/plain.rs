//! Locates each value in a page of byte arrays that is neither compressed nor encoded, without reading the
//! values. Layout: levels, which mark missing values, then the values, each preceded by its length.

use framespool::error::Result;
use framespool::limits::reserve;

use super::delta::varint;
use super::pages::{Holds, Levels, PageAt};
use crate::blocks::Blocks;
use crate::proto::Stretch;

/// Encodings: plain values; levels as runs (RLE).
pub const PLAIN: i64 = 0;
const RUNS: i64 = 3;
/// Maximum size of levels: one byte for each value of a large page.
const MAX_LEVELS: u64 = 1 << 26;

/// Offset and length of each value, `None` where it is missing.
pub type Places = Vec<Option<(u64, u64)>>;

/// Offset and length of each value; `Ok(None)` if the page has to be decoded to find them. `deepest` is the
/// definition level of a value that is present.
pub fn places(blocks: &mut Blocks, page: &PageAt, deepest: i16) -> Result<Option<Places>> {
    let Holds::Values { count, encoding: PLAIN, levels } = page.holds else { return Ok(None) };
    let end = page.data + page.stored;
    let (levels, mut at) = match levels {
        _ if deepest == 0 => (None, page.data),
        Levels::Inside { encoding: RUNS } => {
            let len = u64::from(number(blocks, (page.data, end))?);
            let begin = page.data + 4;
            (Some((begin, begin + len)), begin + len)
        }
        Levels::Inside { .. } => return Ok(None),
        Levels::Ahead { repetitions, definitions } => {
            let begin = page.data.saturating_add(repetitions);
            let end = begin.saturating_add(definitions);
            (Some((begin, end)), end)
        }
    };
    if at > end || levels.is_some_and(|(begin, end)| end - begin > MAX_LEVELS) {
        return Err(blocks.damaged(page.head, "a page whose levels go beyond its end"));
    }
    let there = match levels {
        Some(stretch) => runs(blocks, stretch, deepest, count)?,
        None => vec![],
    };
    let mut found = Vec::new();
    // A row without a value may take a bit of the file or less, so the number of rows is not bounded by the
    // file size.
    reserve(&blocks.site(page.head), &mut found, usize::try_from(count).unwrap_or(usize::MAX))?;
    for row in 0..count {
        if levels.is_some() && !there.get(row as usize).copied().unwrap_or(false) {
            found.push(None);
            continue;
        }
        let len = u64::from(number(blocks, (at, end))?);
        let begin = at + 4;
        if len > end - begin {
            let reason = format!(
                "value {row} of the page is said to have {len} bytes, and the page has {} more",
                end - begin
            );
            return Err(blocks.damaged(at, reason));
        }
        found.push(Some((begin, len)));
        at = begin + len;
    }
    Ok(Some(found))
}

/// A little-endian 32-bit number.
fn number(blocks: &mut Blocks, (at, end): Stretch) -> Result<u32> {
    if end.saturating_sub(at) < 4 {
        return Err(blocks.damaged(at, "a page ends where a length is wanted"));
    }
    Ok(u32::from_le_bytes(blocks.array(at)?))
}

/// Which of `count` levels equal `deepest`. Levels are runs of one level and bit-packed groups.
fn runs(blocks: &mut Blocks, (begin, end): Stretch, deepest: i16, count: u64) -> Result<Vec<bool>> {
    let bytes = blocks.get(begin, (end - begin) as usize)?.to_vec();
    let width = 16 - deepest.leading_zeros();
    let mut there = Vec::new();
    reserve(&blocks.site(begin), &mut there, usize::try_from(count).unwrap_or(usize::MAX))?;
    let mut rest = &bytes[..];
    let short = || "a page whose levels end before its values do";
    while (there.len() as u64) < count {
        let left = (count - there.len() as u64) as usize;
        let head = varint(&mut rest).ok_or_else(|| blocks.damaged(begin, short()))?;
        if head & 1 == 0 {
            let level =
                rest.split_off(..width.div_ceil(8) as usize).ok_or_else(|| blocks.damaged(begin, short()))?;
            let level = level.iter().rev().fold(0, |sum, &byte| sum << 8 | i32::from(byte));
            let run = usize::try_from(head >> 1).unwrap_or(usize::MAX).min(left);
            if run == 0 {
                return Err(blocks.damaged(begin, "a run of no levels"));
            }
            there.resize(there.len() + run, level == i32::from(deepest));
        } else {
            let bits = usize::try_from(head >> 1).unwrap_or(usize::MAX).saturating_mul(8);
            let packed = rest.len().min(bits.saturating_mul(width as usize).div_ceil(8));
            let packed = rest.split_off(..packed).unwrap_or_default();
            let whole = (packed.len() * 8 / width as usize).min(bits).min(left);
            if whole == 0 {
                return Err(blocks.damaged(begin, short()));
            }
            for at in 0..whole {
                let bit = |place: usize| u32::from(packed[place / 8] >> (place % 8) & 1);
                let level = (0..width as usize).fold(0, |sum, n| sum | bit(at * width as usize + n) << n);
                there.push(level == deepest as u32);
            }
        }
    }
    Ok(there)
}
