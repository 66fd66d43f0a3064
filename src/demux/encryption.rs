//! Recognizes encrypted video in files that libavformat reads. Their packets look like any others.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, Result, Site};
use crate::ffmpeg::Packet;
use crate::source::{ByteSource, Identity};

/// An error for a file whose video is encrypted in this way.
pub(crate) fn encrypted(site: &Site, scheme: &str) -> Error {
    Error::Unsupported {
        site: site.clone(),
        what: format!("encrypted video (scheme {scheme})"),
    }
}

/// Checks the headers of a file. `video` is the number of the selected stream among the video
/// streams.
///
/// # Errors
/// `Unsupported` if they declare that the stream is encrypted.
pub(super) fn check_headers(source: &dyn ByteSource, container: &str, video: usize) -> Result<()> {
    let scheme = match container {
        "matroska,webm" => matroska_scheme(source, video)?,
        "asf" => asf_scheme(source)?,
        _ => None,
    };
    scheme.map_or(Ok(()), |scheme| {
        Err(encrypted(&Site::file(source.name()), &scheme))
    })
}

/// Checks what the container states about a packet.
///
/// # Errors
/// `Unsupported` if it declares that the packet is encrypted.
pub(super) fn check_packet(
    source: &dyn ByteSource,
    container: &str,
    packet: &Packet,
) -> Result<()> {
    const VIDEO_TAG: u8 = 9;
    const FILTER: u8 = 0x20;
    if let Some(scheme) = packet.encryption_scheme() {
        return Err(encrypted(&Site::file(source.name()), &scheme));
    }
    let Some(at) = packet.position() else {
        return Ok(());
    };
    let mut head = [0; 7];
    let scheme = match container {
        "flv"
            if source.read_at(at, &mut head[..1])? == 1 && head[0] & 0x3f == FILTER | VIDEO_TAG =>
        {
            "FLV encryption filter"
        }
        "mpeg" if source.read_at(at, &mut head)? == 7 && is_scrambled_pes(&head) => {
            "PES scrambling"
        }
        _ => return Ok(()),
    };
    Err(encrypted(&Site::file(source.name()), scheme))
}

/// Whether a PES packet (ISO/IEC 13818-1 2.4.3.6) with video has a scrambled payload.
fn is_scrambled_pes(head: &[u8]) -> bool {
    head.starts_with(&[0, 0, 1])
        && matches!(head.get(3), Some(0xe0..=0xef))
        && head
            .get(6)
            .is_some_and(|flags| flags & 0xc0 == 0x80 && flags & 0x30 != 0)
}

// ---- Matroska ----

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

/// Encryption of a video track (RFC 9559 5.1.4.1.31).
fn matroska_scheme(source: &dyn ByteSource, video: usize) -> Result<Option<String>> {
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

// ---- ASF ----

/// Encryption of a file, from the objects in its header (ASF specification 3.14, 3.15, 10.8).
fn asf_scheme(source: &dyn ByteSource) -> Result<Option<String>> {
    const HEADER_BYTES: u64 = 30;
    const MAX_OBJECTS: u32 = 1 << 10;
    const SCHEMES: [(&str, [u8; 16]); 3] = [
        (
            "ASF Content Encryption",
            *b"\xfb\xb3\x11\x22\x23\xbd\xd2\x11\xb4\xb7\x00\xa0\xc9\x55\xfc\x6e",
        ),
        (
            "ASF Extended Content Encryption",
            *b"\x14\xe6\x8a\x29\x22\x26\x17\x4c\xb9\x35\xda\xe0\x7e\xe9\x28\x9c",
        ),
        (
            "ASF Advanced Content Encryption",
            *b"\x33\x85\x05\x43\x81\x69\xe6\x49\x9b\x74\xad\x12\xcb\x86\xd5\x8c",
        ),
    ];
    let object = |at: u64| -> Result<Option<([u8; 16], u64)>> {
        let mut head = [0; 24];
        let got = source.read_at(at, &mut head)?;
        let (id, size) = head.split_at(16);
        let size = size
            .iter()
            .rev()
            .fold(0u64, |size, &byte| size << 8 | u64::from(byte));
        let next = at.checked_add(size).filter(|_| got == 24 && size >= 24);
        Ok(next.map(|next| (id.try_into().expect("16 bytes"), next)))
    };
    let Some((_, end)) = object(0)? else {
        return Ok(None);
    };
    let mut at = HEADER_BYTES;
    for _ in 0..MAX_OBJECTS {
        let Some((id, next)) = object(at)?.filter(|_| at < end) else {
            break;
        };
        if let Some((name, _)) = SCHEMES.iter().find(|scheme| scheme.1 == id) {
            return Ok(Some((*name).to_owned()));
        }
        at = next;
    }
    Ok(None)
}

// ---- MPEG-TS ----

/// Passes reads on, and records which streams of an MPEG transport stream are scrambled:
/// libavformat returns no packets for these.
pub(super) struct ScramblingMonitor {
    source: Arc<dyn ByteSource>,
    seen: Mutex<ScrambledStreams>,
}

impl ScramblingMonitor {
    pub(super) fn new(source: Arc<dyn ByteSource>) -> Self {
        Self {
            source,
            seen: Mutex::default(),
        }
    }

    /// Whether the stream with this ID or, without an ID, any stream is scrambled.
    pub(crate) fn is_scrambled(&self, id: Option<i32>) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let reaches = |run: &u8| *run >= MIN_SCRAMBLED_PACKETS;
        match id {
            Some(id) => usize::try_from(id)
                .ok()
                .and_then(|id| seen.runs.get(id))
                .is_some_and(reaches),
            None => seen.runs.iter().any(reaches),
        }
    }
}

impl ByteSource for ScramblingMonitor {
    fn name(&self) -> &Arc<str> {
        self.source.name()
    }

    fn len(&self) -> u64 {
        self.source.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let got = self.source.read_at(offset, buffer)?;
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .observe(offset, &buffer[..got]);
        Ok(got)
    }

    fn identity(&self) -> Identity {
        self.source.identity()
    }
}

/// Scrambled packets of a stream in a row that are not damage.
const MIN_SCRAMBLED_PACKETS: u8 = 8;

#[derive(Default)]
struct ScrambledStreams {
    /// Length of a packet, and where the first one begins.
    layout: Option<(u64, u64)>,
    /// For each stream ID, the scrambled packets in a row, up to [`MIN_SCRAMBLED_PACKETS`]; empty
    /// if the file is not a transport stream.
    runs: Vec<u8>,
}

impl ScrambledStreams {
    fn observe(&mut self, offset: u64, data: &[u8]) {
        const STREAMS: usize = 1 << 13;
        if self.layout.is_none() && offset == 0 {
            self.layout = layout(data);
            self.runs = vec![0; if self.layout.is_some() { STREAMS } else { 0 }];
        }
        let Some((size, first)) = self.layout else {
            return;
        };
        let lead = (first + size - offset % size) % size;
        for packet in data
            .get(lead as usize..)
            .unwrap_or(&[])
            .chunks(size as usize)
        {
            // One that continues in the next read is not needed.
            let [0x47, high, low, flags, body @ ..] = packet else {
                continue;
            };
            let (id, has_payload) = (
                usize::from(high & 0x1f) << 8 | usize::from(*low),
                flags & 0x10 != 0,
            );
            let skipped = if flags & 0x20 == 0 {
                0
            } else {
                1 + usize::from(body.first().copied().unwrap_or(0))
            };
            let begins_pes = high & 0x40 != 0;
            let pes = || body.get(skipped..).is_some_and(is_scrambled_pes);
            let run = &mut self.runs[id];
            if has_payload && *run < MIN_SCRAMBLED_PACKETS {
                let is_scrambled = flags & 0xc0 != 0 || begins_pes && pes();
                // The packets between two headers of PES packets do not show whether their payload
                // is scrambled.
                *run = if is_scrambled {
                    *run + 1
                } else if begins_pes || *run == 0 {
                    0
                } else {
                    *run
                };
            }
        }
    }
}

/// Length of the packets of a transport stream, and where the first one begins in `data`.
fn layout(data: &[u8]) -> Option<(u64, u64)> {
    const PACKETS: usize = 8;
    let fits =
        |size: usize, first: usize| (0..PACKETS).all(|n| data.get(first + n * size) == Some(&0x47));
    [188, 192, 204].into_iter().find_map(|size: usize| {
        (0..size)
            .find(|&first| fits(size, first))
            .map(|first| (size as u64, first as u64))
    })
}
