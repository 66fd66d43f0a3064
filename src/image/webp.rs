//! Reads WebP headers, and decodes WebP images to R, G, B, or lossy ones to planes as stored. Only
//! this module calls `image-webp`. Of an animation it decodes the first frame. Alpha is not
//! applied.

use std::io::Cursor;

use framespool_kernels::{ColorRange, Colorimetry, FrameView, MatrixCoefficients, Plane, Planes};
use image_webp::{DecodingError, WebPDecoder};

use super::header_reader::HeaderReader;
use super::keyframe::KeyframeDecoder;
use super::plane_buffer::PlaneBuffer;
use super::{CodingProcess, ColorModel, ImageFormat, ImageHeader, exif};
use crate::error::{Error, Result, Site};
use crate::limits::resize;
use crate::media::{ColorTags, DisplayOrientation};

/// Offset of the first chunk: after "RIFF", the size and "WEBP".
const FIRST_CHUNK: u64 = 12;
/// EXIF data beyond this size is ignored.
const MAX_EXIF_BYTES: u32 = 1 << 16;
/// Bits of the flags of a VP8X chunk.
const EXIF_FLAG: u8 = 0x08;
const ALPHA_FLAG: u8 = 0x10;
/// Flag of a frame of an animation: it replaces what is below it. libwebp never blends the first
/// frame, so that its colors remain where alpha is 0; `image-webp` would blend it with transparent
/// black.
const OVERWRITE: u8 = 0x02;

/// Whether a file begins like a WebP.
pub(super) fn is_webp(head: &[u8]) -> bool {
    head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP")
}

/// Properties of the picture, from its own header.
struct Picture {
    width: u32,
    height: u32,
    has_alpha: bool,
    coding: CodingProcess,
}

/// Reads the header. EXIF data is stored after the picture; the sizes of the chunks lead there, so
/// that little of the file is read.
pub(super) fn header(reader: &mut HeaderReader<'_>) -> Result<ImageHeader> {
    let mut orientation = DisplayOrientation::default();
    let (kind, content, _) = chunk(reader, FIRST_CHUNK)?;
    let picture = match &kind {
        b"VP8 " => lossy(reader, content)?,
        b"VP8L" => lossless(reader, content)?,
        b"VP8X" => extended(reader, content, &mut orientation)?,
        _ => return Err(malformed(reader, FIRST_CHUNK, "an unknown first chunk")),
    };
    Ok(ImageHeader {
        format: ImageFormat::WebP,
        width: picture.width,
        height: picture.height,
        orientation,
        color_model: if picture.has_alpha {
            ColorModel::Rgba
        } else {
            ColorModel::Rgb
        },
        coding: picture.coding,
        sample_bits: 8,
    })
}

/// Type of a chunk, offset of its content, and offset of the next chunk.
fn chunk(reader: &mut HeaderReader<'_>, at: u64) -> Result<([u8; 4], u64, u64)> {
    let head = reader.read_exact(at, 8)?;
    let kind = head[..4].try_into().expect("four bytes");
    let len = u64::from(u32::from_le_bytes(
        head[4..].try_into().expect("four bytes"),
    ));
    Ok((kind, at + 8, at + 8 + len.next_multiple_of(2)))
}

/// A VP8 chunk: RFC 6386, 9.1.
fn lossy(reader: &mut HeaderReader<'_>, at: u64) -> Result<Picture> {
    let head = reader.read_exact(at, 10)?;
    if head[0] & 1 != 0 || head[3..6] != [0x9d, 0x01, 0x2a] {
        return Err(malformed(reader, at, "a VP8 chunk that is no keyframe"));
    }
    let side = |n: usize| u32::from(u16::from_le_bytes([head[n], head[n + 1]]) & 0x3fff);
    Ok(Picture {
        width: side(6),
        height: side(8),
        has_alpha: false,
        coding: CodingProcess::Vp8,
    })
}

/// A VP8L chunk: RFC 9649, 3.4.
fn lossless(reader: &mut HeaderReader<'_>, at: u64) -> Result<Picture> {
    let head = reader.read_exact(at, 5)?;
    if head[0] != 0x2f {
        return Err(malformed(reader, at, "a VP8L chunk without its signature"));
    }
    let bits = u32::from_le_bytes(head[1..].try_into().expect("four bytes"));
    Ok(Picture {
        width: (bits & 0x3fff) + 1,
        height: (bits >> 14 & 0x3fff) + 1,
        has_alpha: bits >> 28 & 1 == 1,
        coding: CodingProcess::Vp8Lossless,
    })
}

/// A VP8X chunk, and what it announces: RFC 9649, 2.7.
fn extended(
    reader: &mut HeaderReader<'_>,
    at: u64,
    orientation: &mut DisplayOrientation,
) -> Result<Picture> {
    let head = reader.read_exact(at, 10)?;
    let flags = head[0];
    let side = |n: usize| 1 + u32::from_le_bytes([head[n], head[n + 1], head[n + 2], 0]);
    let (width, height) = (side(4), side(7));
    let (_, _, mut at) = chunk(reader, FIRST_CHUNK)?;
    let mut coding = None;
    let mut wants_exif = flags & EXIF_FLAG != 0;
    while coding.is_none() || wants_exif {
        let (kind, content, next) = chunk(reader, at)?;
        match &kind {
            b"ANMF" if coding.is_none() => {
                // The picture follows the frame's own header of 16 bytes.
                let (kind, ..) = chunk(reader, content + 16)?;
                coding = Some(if &kind == b"VP8L" {
                    CodingProcess::Vp8Lossless
                } else {
                    CodingProcess::Vp8
                });
            }
            b"VP8 " => coding = coding.or(Some(CodingProcess::Vp8)),
            b"VP8L" => coding = coding.or(Some(CodingProcess::Vp8Lossless)),
            b"EXIF" if wants_exif => {
                wants_exif = false;
                let len = next - content;
                if len <= u64::from(MAX_EXIF_BYTES) {
                    let data = reader.read_up_to(content, len as usize)?;
                    *orientation =
                        exif::orientation(data.strip_prefix(b"Exif\0\0").unwrap_or(data));
                }
            }
            _ => {}
        }
        at = next;
    }
    let coding = coding.expect("the loop ends after the picture");
    Ok(Picture {
        width,
        height,
        has_alpha: flags & ALPHA_FLAG != 0,
        coding,
    })
}

fn malformed(reader: &HeaderReader<'_>, at: u64, what: &str) -> Error {
    Error::malformed(reader.site(), format!("WebP with {what} at byte {at}"))
}

/// Y, Cb and Cr of WebP: SMPTE 170M, limited range (RFC 9649, 2.5).
const COLOR: ColorTags = ColorTags {
    primaries: 2,
    transfer: 2,
    matrix: 6,
    full_range: Some(false),
};

/// Decodes the picture of a lossy file to planes as stored. `None` for other files.
pub(super) fn decode_planes<'a>(
    decoder: &'a mut KeyframeDecoder,
    site: &Site,
    header: &ImageHeader,
    bytes: &[u8],
) -> Result<Option<FrameView<'a>>> {
    let Some(data) = lossy_data(bytes) else {
        return Ok(None);
    };
    let (width, height) = (header.width, header.height);
    decoder.decode(site, &[data], (width, height))?;
    let (planes, depth_bits, color) = decoder.planes(site, Some(COLOR))?;
    Ok(Some(FrameView {
        width,
        height,
        depth_bits,
        shift: 0,
        planes,
        color,
    }))
}

/// The complete VP8 chunk of a file that is not animated.
fn lossy_data(bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = bytes.get(FIRST_CHUNK as usize..)?;
    loop {
        let (head, content) = rest.split_first_chunk::<8>()?;
        let len = u32::from_le_bytes(head[4..].try_into().expect("four bytes")) as usize;
        match &head[..4] {
            b"VP8 " => return content.get(..len),
            b"VP8L" | b"ANMF" => return None,
            _ => rest = content.get(len.checked_next_multiple_of(2)?..)?,
        }
    }
}

/// Offset of the flags of an animation's first frame.
fn first_frame_flags(bytes: &[u8]) -> Option<usize> {
    let mut at = FIRST_CHUNK as usize;
    loop {
        let head = bytes.get(at..at + 8)?;
        let len = u32::from_le_bytes(head[4..].try_into().expect("four bytes")) as usize;
        if head.starts_with(b"ANMF") {
            return Some(at + 8 + 15).filter(|&flags| flags < bytes.len());
        }
        at = at
            .checked_add(8)?
            .checked_add(len.checked_next_multiple_of(2)?)?;
    }
}

/// Decodes the picture of a whole file: the values of libwebp, which interpolates chroma.
pub(super) fn decode<'a>(
    site: &Site,
    header: &ImageHeader,
    bytes: &[u8],
    memory: &'a mut PlaneBuffer,
) -> Result<FrameView<'a>> {
    let mut copy = Vec::new();
    let mut bytes = bytes;
    if let Some(at) = first_frame_flags(bytes) {
        resize(site, &mut copy, bytes.len())?;
        copy.copy_from_slice(bytes);
        copy[at] |= OVERWRITE;
        bytes = &copy;
    }
    let mut decoder =
        WebPDecoder::new(Cursor::new(bytes)).map_err(|error| decode_error(site, error))?;
    // The memory allocated below was checked against the limits when the header was read, for this
    // size only.
    if decoder.dimensions() != (header.width, header.height)
        || decoder.has_alpha() != (header.color_model == ColorModel::Rgba)
    {
        return Err(Error::malformed(
            site,
            "the image does not match its header",
        ));
    }
    let pixel_bytes = if decoder.has_alpha() { 4 } else { 3 };
    let stride_bytes = header.width as usize * pixel_bytes;
    let [samples, ..] = memory.reserve(site, [stride_bytes * header.height as usize, 0, 0])?;
    decoder
        .read_image(samples)
        .map_err(|error| decode_error(site, error))?;
    let plane = Plane {
        data: samples,
        stride_bytes,
    };
    let planes = Planes::PackedRgb {
        plane,
        pixel_bytes: pixel_bytes as u8,
        offsets: [0, 1, 2],
    };
    let color = Colorimetry {
        matrix: MatrixCoefficients::Rgb,
        range: ColorRange::Full,
    };
    Ok(FrameView {
        width: header.width,
        height: header.height,
        depth_bits: 8,
        shift: 0,
        planes,
        color,
    })
}

fn decode_error(site: &Site, error: DecodingError) -> Error {
    let site = site.clone();
    match error {
        DecodingError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Error::Decode {
                site,
                reason: "the file ends inside the image".to_owned(),
            }
        }
        DecodingError::UnsupportedFeature(what) => Error::Unsupported {
            site,
            what: format!("WebP with {what}"),
        },
        error => Error::Decode {
            site,
            reason: format!("the WebP decoder reports: {error}"),
        },
    }
}
