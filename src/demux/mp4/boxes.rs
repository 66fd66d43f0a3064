//! Finds the boxes of an MP4 file; reads `moov` and the `moof` boxes into memory.
//! Never follows a size beyond the end of the data.

use crate::error::{Result, Site};
use crate::limits::{Limits, resize};
use crate::source::ByteSource;

/// Top-level boxes of a file.
pub(super) struct TopLevelBoxes {
    pub moov: Vec<u8>,
    /// Offset and bytes of each `moof` box, header included.
    pub moofs: Vec<(u64, Vec<u8>)>,
    /// Whether there are boxes outside `moov` from which libavformat may create streams.
    pub has_outer_metadata: bool,
}

const FIRST_BOX_TYPES: [&[u8; 4]; 14] = [
    b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"styp", b"sidx", b"uuid",
    b"PICT", b"moof", b"udta", b"prfl",
];

impl TopLevelBoxes {
    /// `None` if this is not an MP4 file, has no `moov`, or has boxes that are left to libavformat.
    pub(super) fn scan(
        source: &dyn ByteSource,
        site: &Site,
        limits: &Limits,
    ) -> Result<Option<Self>> {
        let (mut at, len) = (0u64, source.len());
        let mut moov = None;
        let mut moofs = Vec::new();
        let mut header_bytes = 0u64;
        let mut has_outer_metadata = false;
        // A box may claim to end at the largest integer.
        while at.checked_add(8).is_some_and(|head| head <= len) {
            let mut head = [0u8; 16];
            let got = source.read_at(at, &mut head)?;
            let Some((kind, header, size)) = header(&head[..got]) else {
                break;
            };
            if at == 0 && !FIRST_BOX_TYPES.contains(&&kind) {
                return Ok(None);
            }
            let size = if size == 0 { len - at } else { size };
            let end = at.saturating_add(size);
            has_outer_metadata |= [b"meta", b"udta", b"trak"].contains(&&kind);
            if &kind == b"moov" || &kind == b"moof" {
                if size < header || end > len {
                    return Ok(None);
                }
                header_bytes += size;
                Limits::check(
                    site,
                    "size of the header boxes",
                    header_bytes,
                    limits.table_bytes,
                )?;
                let skip = if &kind == b"moov" { header } else { 0 };
                let mut bytes = Vec::new();
                resize(site, &mut bytes, (size - skip) as usize)?;
                source.read_exact_at(site, at + skip, &mut bytes)?;
                if &kind == b"moof" {
                    moofs.push((at, bytes));
                } else if moov.replace(bytes).is_some() {
                    return Ok(None);
                }
            }
            if size < header {
                break;
            }
            at = end;
        }
        Ok(moov.map(|moov| Self {
            moov,
            moofs,
            has_outer_metadata,
        }))
    }
}

/// Type, header length and total length (0: up to the end) of a box.
fn header(bytes: &[u8]) -> Option<([u8; 4], u64, u64)> {
    let size = u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?);
    let kind: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
    match size {
        1 => Some((
            kind,
            16,
            u64::from_be_bytes(bytes.get(8..16)?.try_into().ok()?),
        )),
        _ => Some((kind, 8, u64::from(size))),
    }
}

/// The boxes inside `body`, in order; a box that claims more bytes than there are is truncated.
pub(crate) fn children(mut body: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    std::iter::from_fn(move || {
        let (kind, header, size) = header(body)?;
        let size = if size == 0 { body.len() as u64 } else { size };
        if size < header || header > body.len() as u64 {
            return None;
        }
        let end = usize::try_from(size).unwrap_or(usize::MAX).min(body.len());
        let inner = &body[header as usize..end];
        body = &body[end..];
        Some((kind, inner))
    })
}

/// The first box of type `kind` inside `body`.
pub(crate) fn find<'a>(body: &'a [u8], kind: &[u8; 4]) -> Option<&'a [u8]> {
    children(body)
        .find(|(k, _)| k == kind)
        .map(|(_, inner)| inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn box_that_overflows_ends_the_file() {
        let endless = [&[0, 0, 0, 1][..], b"free", &u64::MAX.to_be_bytes()].concat();
        let file = [&[0, 0, 0, 8][..], b"ftyp", &endless].concat();
        let source = crate::source::MemorySource::new("m", file);
        let site = Site::file(source.name());
        assert!(
            TopLevelBoxes::scan(&source, &site, &Limits::default())
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn boxes_with_wrong_sizes_are_clamped() {
        let long = [0, 0, 0, 99, b'a', b'b', b'c', b'd', 1, 2];
        assert_eq!(
            children(&long).collect::<Vec<_>>(),
            [(*b"abcd", &long[8..])]
        );
        let short = [0, 0, 0, 4, b'a', b'b', b'c', b'd'];
        assert_eq!(children(&short).count(), 0);
    }
}
