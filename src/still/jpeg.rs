//! Reads size, components, coding and orientation from the segments of a JPEG file before its picture.
//! Follows libjpeg's rules, so that both interpret the file alike.

use super::head::Head;
use super::{exif, Coding, Format, Header, Kind};
use crate::error::{Error, Result, Site};

/// EXIF data beyond this size, sixteen segments, is ignored.
const EXIF_BYTES: usize = 1 << 20;

#[derive(Default)]
struct Seen {
    frame: Option<Frame>,
    jfif: bool,
    /// Adobe's color transform.
    adobe: Option<u8>,
    exif: Vec<u8>,
}

struct Frame {
    coding: Coding,
    sample_bits: u8,
    width: u32,
    height: u32,
    /// Identifier, sampling factors.
    components: Vec<(u8, u8, u8)>,
}

/// Reads everything up to the first scan.
pub(super) fn header(head: &mut Head<'_>) -> Result<Header> {
    let mut seen = Seen::default();
    let mut offset = 2;
    loop {
        let (marker, at) = next_marker(head, offset)?;
        match marker {
            0x01 | 0xd0..=0xd7 => {
                offset = at; // no content
                continue;
            }
            0xd8 => return Err(malformed(head, at, "a second start of a picture")),
            0xd9 => return Err(malformed(head, at, "the end, before any picture")),
            0xda => return finish(head, at, seen),
            _ => {}
        }
        let len = head.number::<2>(at)? as usize;
        if len < 2 {
            return Err(malformed(head, at, "a segment shorter than its own length"));
        }
        let (content, len) = (at + 2, len - 2);
        match marker {
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                if seen.frame.is_some() {
                    return Err(malformed(head, at, "a second frame header"));
                }
                seen.frame = Some(frame(head, marker, content, len)?);
            }
            0xe0 => seen.jfif |= len >= 14 && head.exactly(content, 5)? == b"JFIF\0",
            0xe1 => read_exif(head, content, len, &mut seen.exif)?,
            0xee if len >= 12 => {
                let adobe = head.up_to(content, 12)?;
                if adobe.len() == 12 && adobe.starts_with(b"Adobe") {
                    seen.adobe = Some(adobe[11]);
                }
            }
            _ => {}
        }
        offset = content + len as u64;
    }
}

/// Number of bytes between two segments beyond which a file is not treated as a JPEG.
const STRAY_BYTES: u64 = 1 << 16;

/// The next marker and the offset after it. Bytes before it are skipped, as in libjpeg.
fn next_marker(head: &mut Head<'_>, mut offset: u64) -> Result<(u8, u64)> {
    let begin = offset;
    loop {
        while head.number::<1>(offset)? != 0xff {
            offset += 1;
            if offset - begin > STRAY_BYTES {
                return Err(malformed(head, begin, "nothing that could be a segment"));
            }
        }
        while head.number::<1>(offset)? == 0xff {
            offset += 1;
        }
        let code = head.number::<1>(offset)? as u8;
        offset += 1;
        if code != 0 {
            return Ok((code, offset));
        }
    }
}

fn read_exif(head: &mut Head<'_>, at: u64, len: usize, exif: &mut Vec<u8>) -> Result<()> {
    const NAME: &[u8] = b"Exif\0\0";
    if len >= NAME.len() && head.up_to(at, NAME.len())? == NAME && exif.len() + len <= EXIF_BYTES {
        // Data that does not fit into one segment continues in the next.
        exif.extend_from_slice(head.up_to(at + NAME.len() as u64, len - NAME.len())?);
    }
    Ok(())
}

fn frame(head: &mut Head<'_>, marker: u8, at: u64, len: usize) -> Result<Frame> {
    let coding = match marker {
        0xc0 => Coding::Baseline,
        0xc1 => Coding::Extended,
        0xc2 => Coding::Progressive,
        0xc9 | 0xca => Coding::Arithmetic,
        0xc3 | 0xcb => Coding::Lossless,
        _ => Coding::Hierarchical,
    };
    let bytes = head.exactly(at, len)?;
    let number = |at: usize| u32::from(bytes[at]) << 8 | u32::from(bytes[at + 1]);
    if len < 6 || len != 6 + 3 * usize::from(bytes[5]) || bytes[5] == 0 {
        return Err(malformed(head, at, "a frame header of the wrong length"));
    }
    Ok(Frame {
        coding,
        sample_bits: bytes[0],
        height: number(1),
        width: number(3),
        components: bytes[6..].chunks_exact(3).map(|c| (c[0], c[1] >> 4, c[1] & 15)).collect(),
    })
}

fn finish(head: &Head<'_>, at: u64, seen: Seen) -> Result<Header> {
    let Some(frame) = &seen.frame else {
        return Err(malformed(head, at, "a scan without a frame header"));
    };
    Ok(Header {
        format: Format::Jpeg,
        width: frame.width,
        height: frame.height,
        turn: exif::turn(&seen.exif),
        kind: kind(frame, &seen),
        coding: frame.coding,
        sample_bits: frame.sample_bits,
    })
}

/// libjpeg's rules for the meaning of components: JFIF's segment, Adobe's segment, then their identifiers.
fn kind(frame: &Frame, seen: &Seen) -> Kind {
    let ycc = |c: &[(u8, u8, u8)]| Kind::Ycc([(c[0].1, c[0].2), (c[1].1, c[1].2), (c[2].1, c[2].2)]);
    match &frame.components[..] {
        [_] => Kind::Gray,
        three @ [a, b, c] => match (seen.jfif, seen.adobe, [a.0, b.0, c.0]) {
            (false, Some(0), _) | (false, None, [b'R', b'G', b'B']) => Kind::Rgb,
            _ => ycc(three),
        },
        [_, _, _, _] if seen.adobe.is_none_or(|transform| transform == 0) => Kind::Cmyk,
        [_, _, _, _] => Kind::Ycck,
        other => Kind::Unknown(other.len() as u8),
    }
}

/// Returns an error that names the variant for JPEGs that are not supported.
pub(super) fn refuse(site: &Site, header: &Header) -> Result<()> {
    let bits = header.sample_bits;
    let what = match (header.coding, header.kind) {
        (Coding::Lossless, _) => format!("lossless JPEG ({bits} bits)"),
        (Coding::Hierarchical, _) => "hierarchical JPEG".to_owned(),
        _ if bits != 8 => format!("JPEG of {bits} bits a sample"),
        (_, Kind::Unknown(count)) => format!("JPEG of {count} components"),
        _ => return Ok(()),
    };
    Err(Error::Unsupported { site: site.clone(), what })
}

fn malformed(head: &Head<'_>, at: u64, what: &str) -> Error {
    Error::malformed(head.site(), format!("JPEG with {what} at byte {at}"))
}
