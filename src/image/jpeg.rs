//! Reads size, components, coding and orientation from the segments of a JPEG file before its
//! picture. Follows libjpeg's rules, so that both interpret the file the same way.

use super::header_reader::HeaderReader;
use super::{CodingProcess, ColorModel, ImageFormat, ImageHeader, exif};
use crate::error::{Error, Result, Site};

/// EXIF data beyond this size, sixteen segments, is ignored.
const MAX_EXIF_BYTES: usize = 1 << 20;

#[derive(Default)]
struct ParsedSegments {
    frame: Option<Frame>,
    jfif: bool,
    /// Adobe's color transform.
    adobe: Option<u8>,
    exif: Vec<u8>,
}

struct Frame {
    coding: CodingProcess,
    sample_bits: u8,
    width: u32,
    height: u32,
    /// Identifier, sampling factors.
    components: Vec<(u8, u8, u8)>,
}

/// Reads everything up to the first scan.
pub(super) fn header(reader: &mut HeaderReader<'_>) -> Result<ImageHeader> {
    let mut segments = ParsedSegments::default();
    let mut offset = 2;
    loop {
        let (marker, at) = next_marker(reader, offset)?;
        match marker {
            0x01 | 0xd0..=0xd7 => {
                offset = at; // no content
                continue;
            }
            0xd8 => return Err(malformed(reader, at, "a second start of an image")),
            0xd9 => return Err(malformed(reader, at, "the end before any image data")),
            0xda => return finish(reader, at, segments),
            _ => {}
        }
        let len = reader.read_be::<2>(at)? as usize;
        if len < 2 {
            return Err(malformed(
                reader,
                at,
                "a segment shorter than its own length",
            ));
        }
        let (content, len) = (at + 2, len - 2);
        match marker {
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                if segments.frame.is_some() {
                    return Err(malformed(reader, at, "a second frame header"));
                }
                segments.frame = Some(frame(reader, marker, content, len)?);
            }
            0xe0 => segments.jfif |= len >= 14 && reader.read_exact(content, 5)? == b"JFIF\0",
            0xe1 => read_exif(reader, content, len, &mut segments.exif)?,
            0xee if len >= 12 => {
                let adobe = reader.read_up_to(content, 12)?;
                if adobe.len() == 12 && adobe.starts_with(b"Adobe") {
                    segments.adobe = Some(adobe[11]);
                }
            }
            _ => {}
        }
        offset = content + len as u64;
    }
}

/// Number of bytes between two segments beyond which a file is not treated as a JPEG.
const MAX_STRAY_BYTES: u64 = 1 << 16;

/// The next marker and the offset after it. Bytes before it are skipped, as in libjpeg.
fn next_marker(reader: &mut HeaderReader<'_>, mut offset: u64) -> Result<(u8, u64)> {
    let begin = offset;
    loop {
        while reader.read_be::<1>(offset)? != 0xff {
            offset += 1;
            if offset - begin > MAX_STRAY_BYTES {
                return Err(malformed(reader, begin, "an invalid segment"));
            }
        }
        while reader.read_be::<1>(offset)? == 0xff {
            offset += 1;
        }
        let code = reader.read_be::<1>(offset)? as u8;
        offset += 1;
        if code != 0 {
            return Ok((code, offset));
        }
    }
}

fn read_exif(reader: &mut HeaderReader<'_>, at: u64, len: usize, exif: &mut Vec<u8>) -> Result<()> {
    const NAME: &[u8] = b"Exif\0\0";
    if len >= NAME.len()
        && reader.read_up_to(at, NAME.len())? == NAME
        && exif.len() + len <= MAX_EXIF_BYTES
    {
        // Data that does not fit into one segment continues in the next.
        exif.extend_from_slice(reader.read_up_to(at + NAME.len() as u64, len - NAME.len())?);
    }
    Ok(())
}

fn frame(reader: &mut HeaderReader<'_>, marker: u8, at: u64, len: usize) -> Result<Frame> {
    let coding = match marker {
        0xc0 => CodingProcess::Baseline,
        0xc1 => CodingProcess::Extended,
        0xc2 => CodingProcess::Progressive,
        0xc9 | 0xca => CodingProcess::Arithmetic,
        0xc3 | 0xcb => CodingProcess::Lossless,
        _ => CodingProcess::Hierarchical,
    };
    let bytes = reader.read_exact(at, len)?;
    let number = |at: usize| u32::from(bytes[at]) << 8 | u32::from(bytes[at + 1]);
    if len < 6 || len != 6 + 3 * usize::from(bytes[5]) || bytes[5] == 0 {
        return Err(malformed(reader, at, "a frame header of the wrong length"));
    }
    Ok(Frame {
        coding,
        sample_bits: bytes[0],
        height: number(1),
        width: number(3),
        components: bytes[6..]
            .chunks_exact(3)
            .map(|c| (c[0], c[1] >> 4, c[1] & 15))
            .collect(),
    })
}

fn finish(reader: &HeaderReader<'_>, at: u64, segments: ParsedSegments) -> Result<ImageHeader> {
    let Some(frame) = &segments.frame else {
        return Err(malformed(reader, at, "a scan without a frame header"));
    };
    Ok(ImageHeader {
        format: ImageFormat::Jpeg,
        width: frame.width,
        height: frame.height,
        orientation: exif::orientation(&segments.exif),
        color_model: color_model(frame, &segments),
        coding: frame.coding,
        sample_bits: frame.sample_bits,
    })
}

/// libjpeg's rules for the meaning of components: JFIF's segment, Adobe's segment, then their
/// identifiers.
fn color_model(frame: &Frame, segments: &ParsedSegments) -> ColorModel {
    let ycc = |c: &[(u8, u8, u8)]| {
        ColorModel::Ycc([(c[0].1, c[0].2), (c[1].1, c[1].2), (c[2].1, c[2].2)])
    };
    match &frame.components[..] {
        [_] => ColorModel::Gray,
        three @ [a, b, c] => match (segments.jfif, segments.adobe, [a.0, b.0, c.0]) {
            (false, Some(0), _) | (false, None, [b'R', b'G', b'B']) => ColorModel::Rgb,
            _ => ycc(three),
        },
        [_, _, _, _] if segments.adobe.is_none_or(|transform| transform == 0) => ColorModel::Cmyk,
        [_, _, _, _] => ColorModel::Ycck,
        other => ColorModel::Unknown(other.len() as u8),
    }
}

/// Returns an error that names the variant for JPEGs that are not supported.
pub(super) fn check_supported(site: &Site, header: &ImageHeader) -> Result<()> {
    let bits = header.sample_bits;
    let what = match (header.coding, header.color_model) {
        (CodingProcess::Lossless, _) => format!("lossless JPEG ({bits} bits)"),
        (CodingProcess::Hierarchical, _) => "hierarchical JPEG".to_owned(),
        _ if bits != 8 => format!("JPEG of {bits} bits a sample"),
        (_, ColorModel::Unknown(count)) => format!("JPEG of {count} components"),
        _ => return Ok(()),
    };
    Err(Error::Unsupported {
        site: site.clone(),
        what,
    })
}

fn malformed(reader: &HeaderReader<'_>, at: u64, what: &str) -> Error {
    Error::malformed(reader.site(), format!("JPEG with {what} at byte {at}"))
}
