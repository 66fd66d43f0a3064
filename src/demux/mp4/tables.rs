//! In: the `stbl` box.
//! Out: one record per sample: where, how long, when, key or not.
//! Never: more samples than `stsz` sizes, nor a guess where tables contradict each other (`None` instead).

use mp4_atom::{Atom, Co64, Ctts, Stco, Stsc, Stss, Stsz, StszSamples, Stts};

use super::boxes::find;
use crate::error::{Result, Site};
use crate::limits::Limits;

/// A sample in media time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub offset: u64,
    pub size: u32,
    pub dts: i64,
    pub cts: i64,
    pub duration: i64,
    pub key: bool,
}

fn table<T: Atom>(stbl: &[u8], kind: &[u8; 4]) -> Option<Option<T>> {
    match find(stbl, kind) {
        None => Some(None),
        Some(mut body) => T::decode_body(&mut body).ok().map(Some),
    }
}

/// All samples of a track, in decode order. `Ok(None)`: let libavformat judge.
pub(super) fn samples(
    stbl: &[u8],
    site: &Site,
    limits: &Limits,
    source_len: u64,
) -> Result<Option<Vec<Sample>>> {
    let Some(sizes) = sizes(stbl) else { return Ok(None) };
    Limits::check(site, "number of samples", sizes.len() as u64, most_samples(limits, source_len))?;
    Ok(expand(stbl, &sizes))
}

/// A sample has at least a byte, so a file cannot hold more samples than bytes, whatever its tables say.
pub(super) fn most_samples(limits: &Limits, source_len: u64) -> u64 {
    limits.packets.min(source_len)
}

enum Sizes {
    All { count: u32, size: u32 },
    Each(Vec<u32>),
}

impl Sizes {
    fn len(&self) -> usize {
        match self {
            Sizes::All { count, .. } => *count as usize,
            Sizes::Each(sizes) => sizes.len(),
        }
    }

    fn get(&self, i: usize) -> u32 {
        match self {
            Sizes::All { size, .. } => *size,
            Sizes::Each(sizes) => sizes[i],
        }
    }
}

fn sizes(stbl: &[u8]) -> Option<Sizes> {
    Some(match table::<Stsz>(stbl, b"stsz")??.samples {
        StszSamples::Identical { count, size } => Sizes::All { count, size },
        StszSamples::Different { sizes } => Sizes::Each(sizes),
    })
}

fn expand(stbl: &[u8], sizes: &Sizes) -> Option<Vec<Sample>> {
    let count = sizes.len();
    let stts = table::<Stts>(stbl, b"stts")??;
    let ctts = table::<Ctts>(stbl, b"ctts")?;
    let stss = table::<Stss>(stbl, b"stss")?;
    let stsc = table::<Stsc>(stbl, b"stsc")??;
    let chunks: Vec<u64> = match table::<Stco>(stbl, b"stco")? {
        Some(stco) => stco.entries.into_iter().map(u64::from).collect(),
        None => table::<Co64>(stbl, b"co64")??.entries,
    };
    // A lying count must not size anything: the tables below are what bounds the loop.
    let mut out: Vec<Sample> = Vec::with_capacity(count.min(1 << 16));
    let mut deltas =
        stts.entries.iter().flat_map(|e| std::iter::repeat_n(e.sample_delta, e.sample_count as usize));
    let mut shifts = ctts.iter().flat_map(|t| &t.entries).flat_map(|e| {
        // Version 0 says unsigned, but writers put negative numbers there; every reader takes them as signed.
        std::iter::repeat_n(i64::from(e.sample_offset as i32), e.sample_count as usize)
    });
    let mut keys = stss.as_ref().map(|t| t.entries.iter().peekable());
    let mut dts = 0i64;
    let mut spans = stsc.entries.iter().peekable();
    let (mut per_chunk, mut description) = (0u32, 1u32);
    for (chunk, &start) in chunks.iter().enumerate() {
        while let Some(span) = spans.next_if(|s| u64::from(s.first_chunk) <= chunk as u64 + 1) {
            (per_chunk, description) = (span.samples_per_chunk, span.sample_description_index);
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
                    while keys.next_if(|&&k| (k as usize) < number + 1).is_some() {}
                    keys.next_if(|&&k| k as usize == number + 1).is_some()
                }
            };
            // Beyond 31 bits it is a negative number or damage, which libavformat mends in ways of its own.
            let delta = i64::from(i32::try_from(deltas.next()?).ok()?);
            let size = sizes.get(number);
            let cts = dts.checked_add(shifts.next().unwrap_or(0))?;
            out.push(Sample { offset, size, dts, cts, duration: delta, key });
            offset = offset.checked_add(u64::from(size))?;
            dts = dts.checked_add(delta)?;
        }
    }
    (out.len() == count).then_some(out)
}
