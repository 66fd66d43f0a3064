//! Reads the encryption that a Matroska file declares.

use std::ops::Range;

use crate::error::Result;
use crate::source::ByteSource;

/// One EBML element: its ID with the length marker, and the range of its content; an unknown size
/// reaches to `end`.
fn element(source: &dyn ByteSource, at: u64, end: u64) -> Result<Option<(u32, Range<u64>)>> {
    let mut head = [0; 12];
    let got = source.read_at(at, &mut head)?;
    let number = |at: usize, most: usize| {
        let &first = head[..got].get(at)?;
        let len = first.leading_zeros() as usize + 1;
        let bytes = head[..got].get(at..at + len).filter(|_| len <= most)?;
        Some((
            bytes
                .iter()
                .fold(0u64, |value, &byte| value << 8 | u64::from(byte)),
            len,
        ))
    };
    let parsed = number(0, 4).and_then(|(id, id_len)| {
        let (size, size_len) = number(id_len, 8)?;
        let begin = at + (id_len + size_len) as u64;
        let unknown = (1 << (7 * size_len)) - 1;
        let size = size & unknown;
        let until = if size == unknown {
            end
        } else {
            begin.saturating_add(size).min(end)
        };
        Some((u32::try_from(id).ok()?, begin..until))
    });
    Ok(parsed.filter(|(_, content)| content.start <= content.end && content.end <= end))
}

/// The elements with this ID inside a range, up to one with an ID at which to stop.
fn elements(
    source: &dyn ByteSource,
    inside: &Range<u64>,
    id: u32,
    stop: Option<u32>,
) -> Result<Vec<Range<u64>>> {
    const MAX_ELEMENTS: usize = 1 << 12;
    let (mut at, mut found) = (inside.start, Vec::new());
    for _ in 0..MAX_ELEMENTS {
        let Some((kind, content)) = element(source, at, inside.end)? else {
            break;
        };
        if Some(kind) == stop {
            break;
        }
        at = content.end;
        if kind == id {
            found.push(content);
        }
    }
    Ok(found)
}

/// An unsigned number with this ID inside a range.
fn number(source: &dyn ByteSource, inside: &Range<u64>, id: u32) -> Result<Option<u64>> {
    let Some(content) = elements(source, inside, id, None)?.into_iter().next() else {
        return Ok(None);
    };
    let mut bytes = [0; 8];
    let len = (content.end - content.start).min(8) as usize;
    let got = source.read_at(content.start, &mut bytes[..len])?;
    Ok(Some(
        bytes[..got]
            .iter()
            .fold(0, |value, &byte| value << 8 | u64::from(byte)),
    ))
}

/// Encryption of a video track, the one with number `video` (RFC 9559 5.1.4.1.31).
pub(super) fn stream_encryption(source: &dyn ByteSource, video: usize) -> Result<Option<String>> {
    const SEGMENT: u32 = 0x1853_8067;
    const CLUSTER: u32 = 0x1f43_b675;
    const TRACKS: u32 = 0x1654_ae6b;
    const TRACK_ENTRY: u32 = 0xae;
    const TRACK_TYPE: u32 = 0x83;
    const CONTENT_ENCODINGS: u32 = 0x6d80;
    const CONTENT_ENCODING: u32 = 0x6240;
    const CONTENT_ENCODING_TYPE: u32 = 0x5033;
    const CONTENT_ENCRYPTION: u32 = 0x5035;
    const ALGORITHM: u32 = 0x47e1;
    const ALGORITHMS: [&str; 6] = [
        "unknown algorithm",
        "DES",
        "3DES",
        "Twofish",
        "Blowfish",
        "AES",
    ];
    let file = 0..source.len();
    let Some(segment) = elements(source, &file, SEGMENT, Some(CLUSTER))?
        .into_iter()
        .next()
    else {
        return Ok(None);
    };
    let mut tracks = elements(source, &segment, TRACKS, Some(CLUSTER))?;
    if tracks.is_empty() {
        tracks = elements(source, &segment, TRACKS, None)?; // behind the packets
    }
    let mut videos = 0;
    for tracks in tracks {
        for track in elements(source, &tracks, TRACK_ENTRY, None)? {
            if number(source, &track, TRACK_TYPE)? != Some(1) {
                continue;
            }
            videos += 1;
            if videos != video + 1 {
                continue;
            }
            for encodings in elements(source, &track, CONTENT_ENCODINGS, None)? {
                for encoding in elements(source, &encodings, CONTENT_ENCODING, None)? {
                    if number(source, &encoding, CONTENT_ENCODING_TYPE)? != Some(1) {
                        continue;
                    }
                    let mut algorithm = None;
                    for encryption in elements(source, &encoding, CONTENT_ENCRYPTION, None)? {
                        algorithm = number(source, &encryption, ALGORITHM)?;
                    }
                    let name =
                        algorithm.and_then(|number| ALGORITHMS.get(usize::try_from(number).ok()?));
                    return Ok(Some(format!(
                        "ContentEncryption, {}",
                        name.unwrap_or(&ALGORITHMS[0])
                    )));
                }
            }
        }
    }
    Ok(None)
}
