//! Expands the sample tables of an `stbl` box into one record per sample: offset, size, times and
//! sync flag. Returns `None` where tables contradict each other. Tables are not copied: their
//! counts allocate memory only for samples.

use super::boxes::find;
use super::read_u32_be;
use crate::error::{Result, Site};
use crate::limits::{Limits, reserve};

/// A sample in media time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mp4Sample {
    pub offset: u64,
    pub size: u32,
    pub dts: i64,
    pub cts: i64,
    pub duration: i64,
    pub key: bool,
}

/// The entries of a table, each of `N` 32-bit numbers.
#[derive(Clone, Copy)]
struct TableBox<'a, const N: usize>(&'a [[[u8; 4]; N]]);

impl<'a, const N: usize> TableBox<'a, N> {
    /// The entries after version, flags and count; `None` if the box is too short for its count.
    fn parse(body: &'a [u8]) -> Option<Self> {
        let count = read_u32_be(body, 4)? as usize;
        let (numbers, _) = body.get(8..)?.as_chunks::<4>();
        let (entries, _) = numbers.as_chunks::<N>();
        entries.get(..count).map(Self)
    }

    fn iter(self) -> impl Iterator<Item = [u32; N]> + 'a {
        self.0.iter().map(|entry| entry.map(u32::from_be_bytes))
    }
}

/// A table of `stbl`, if there is one; `None` if it is damaged.
fn table<'a, const N: usize>(stbl: &'a [u8], kind: &[u8; 4]) -> Option<Option<TableBox<'a, N>>> {
    match find(stbl, kind) {
        None => Some(None),
        Some(body) => TableBox::parse(body).map(Some),
    }
}

/// All samples of a track, in decode order. `Ok(None)`: left to libavformat.
pub(super) fn samples(stbl: &[u8], site: &Site, limits: &Limits) -> Result<Option<Vec<Mp4Sample>>> {
    let Some(sizes) = SampleSizes::parse(stbl) else {
        return Ok(None);
    };
    let count = Limits::check(
        site,
        "number of samples",
        sizes.len().into(),
        limits.packets,
    )? as usize;
    let mut samples = Vec::new();
    reserve(site, &mut samples, count)?;
    Ok(expand(stbl, &sizes, &mut samples).map(|()| samples))
}

/// Number of samples that a track claims to have, as far as a reader allocates memory for each of
/// them. `is_audio`: by its handler, as for libavformat.
pub(super) fn claimed_samples(stbl: &[u8], is_audio: bool) -> u64 {
    let count = find(stbl, b"stsz")
        .or(find(stbl, b"stz2"))
        .and_then(|sizes| read_u32_be(sizes, 8))
        .unwrap_or(0);
    // Uncompressed audio: each sample is one number, and libavformat stores whole chunks.
    let times = table::<2>(stbl, b"stts").flatten();
    let is_raw =
        times.is_some_and(|times| times.0.len() == 1 && times.iter().all(|[_, delta]| delta == 1));
    if is_audio && is_raw { 0 } else { count.into() }
}

enum SampleSizes<'a> {
    Constant { count: u32, size: u32 },
    PerSample(TableBox<'a, 1>),
}

impl<'a> SampleSizes<'a> {
    fn parse(stbl: &'a [u8]) -> Option<Self> {
        let body = find(stbl, b"stsz")?;
        let (size, count) = (read_u32_be(body, 4)?, read_u32_be(body, 8)?);
        if size > 0 {
            return Some(SampleSizes::Constant { count, size });
        }
        // Its count is stored 4 bytes later than in other tables.
        TableBox::parse(body.get(4..)?).map(Self::PerSample)
    }

    fn len(&self) -> u32 {
        match self {
            SampleSizes::Constant { count, .. } => *count,
            SampleSizes::PerSample(sizes) => sizes.0.len() as u32, // its count has 32 bits
        }
    }

    fn get(&self, i: usize) -> u32 {
        match self {
            SampleSizes::Constant { size, .. } => *size,
            SampleSizes::PerSample(sizes) => u32::from_be_bytes(sizes.0[i][0]),
        }
    }
}

/// Fills `out`, which has capacity for all samples.
fn expand(stbl: &[u8], sizes: &SampleSizes<'_>, out: &mut Vec<Mp4Sample>) -> Option<()> {
    let count = sizes.len() as usize;
    let stts = table::<2>(stbl, b"stts")??;
    let ctts = table::<2>(stbl, b"ctts")?;
    let stss = table::<1>(stbl, b"stss")?;
    let stsc = table::<3>(stbl, b"stsc")??;
    let short = table::<1>(stbl, b"stco")?;
    let long = if short.is_none() {
        Some(table::<2>(stbl, b"co64")??)
    } else {
        None
    };
    let short = short
        .into_iter()
        .flat_map(TableBox::iter)
        .map(|[offset]| u64::from(offset));
    let long = long
        .into_iter()
        .flat_map(TableBox::iter)
        .map(|[high, low]| u64::from(high) << 32 | u64::from(low));
    // If the table ends early, its last duration continues, as in libavformat.
    let continued = stts
        .iter()
        .last()
        .map(|[_, delta]| delta)
        .into_iter()
        .flat_map(std::iter::repeat);
    let deltas = stts
        .iter()
        .flat_map(|[count, delta]| std::iter::repeat_n(delta, count as usize));
    let mut deltas = deltas.chain(continued);
    let mut shifts = ctts
        .into_iter()
        .flat_map(TableBox::iter)
        .flat_map(|[count, shift]| {
            // Version 0 is specified as unsigned, but writers store negative numbers; every reader
            // takes them as signed.
            std::iter::repeat_n(i64::from(shift as i32), count as usize)
        });
    let mut keys = stss.map(|t| t.iter().map(|[number]| number as usize).peekable());
    let mut dts = 0i64;
    let mut spans = stsc.iter().peekable();
    let (mut per_chunk, mut description) = (0u32, 1u32);
    for (chunk, start) in short.chain(long).enumerate() {
        while let Some([_, samples, entry]) = spans.next_if(|s| u64::from(s[0]) <= chunk as u64 + 1)
        {
            (per_chunk, description) = (samples, entry);
        }
        let mut offset = start;
        for _ in 0..per_chunk {
            let number = out.len();
            if number == count {
                break;
            }
            if description != 1 {
                return None;
            }
            let key = match &mut keys {
                None => true,
                Some(keys) => {
                    while keys.next_if(|&k| k < number + 1).is_some() {}
                    keys.next_if(|&k| k == number + 1).is_some()
                }
            };
            // A value beyond 31 bits is a negative number or damage, which libavformat corrects by
            // rules of its own.
            let delta = i64::from(i32::try_from(deltas.next()?).ok()?);
            let size = sizes.get(number);
            let cts = dts.checked_add(shifts.next().unwrap_or(0))?;
            out.push(Mp4Sample {
                offset,
                size,
                dts,
                cts,
                duration: delta,
                key,
            });
            offset = offset.checked_add(u64::from(size))?;
            dts = dts.checked_add(delta)?;
        }
    }
    (out.len() == count).then_some(())
}
