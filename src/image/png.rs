//! Reads PNG headers, and decodes PNG images into planes for the kernels.
//! Does not apply gamma, profiles or alpha.

use std::io::Cursor;

use framespool_kernels::{ColorRange, Colorimetry, FrameView, MatrixCoefficients, Plane, Planes};
use png::{ColorType, Decoder, DecodingError, Reader};

use super::header_reader::HeaderReader;
use super::plane_buffer::PlaneBuffer;
use super::{CodingProcess, ColorModel, ImageFormat, ImageHeader, exif};
use crate::error::{Error, Result, Site};
use crate::media::DisplayOrientation;

/// Signature of every PNG.
pub(super) const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";

/// EXIF data beyond this size is ignored.
const MAX_EXIF_BYTES: usize = 1 << 16;
/// Deflate encodes at most 258 bytes in two bits.
const MAX_DEFLATE_RATIO: u64 = 258 * 8 / 2;
/// Memory that the decoder may use in addition to the picture: rows, and chunks that it keeps.
const MAX_DECODER_BYTES: usize = 64 << 20;

/// Reads everything before the picture. EXIF data after it, where the third edition of the standard
/// forbids it, is ignored: finding it would take reading the whole file.
pub(super) fn header(reader: &mut HeaderReader<'_>) -> Result<ImageHeader> {
    let mut header = None;
    let mut orientation = DisplayOrientation::default();
    let mut offset = SIGNATURE.len() as u64;
    loop {
        let len = reader.read_be::<4>(offset)?;
        let name = <[u8; 4]>::try_from(reader.read_exact(offset + 4, 4)?).expect("four bytes");
        let content = offset + 8;
        match (&name, &header) {
            (b"CgBI", None) => {
                let what = "Apple's variant of PNG (CgBI)".to_owned();
                return Err(Error::Unsupported {
                    site: reader.site().clone(),
                    what,
                });
            }
            (b"IHDR", None) => header = Some(ihdr(reader, content, len)?),
            (_, None) => {
                return Err(malformed(
                    reader,
                    offset,
                    "another chunk where IHDR should be",
                ));
            }
            (b"IDAT", Some(header)) => {
                return Ok(ImageHeader {
                    orientation,
                    ..header.clone()
                });
            }
            (b"IEND", _) => return Err(malformed(reader, offset, "its end before its image data")),
            (b"eXIf", _) if len as usize <= MAX_EXIF_BYTES => {
                orientation = exif::orientation(reader.read_up_to(content, len as usize)?);
            }
            _ => {}
        }
        offset = content + u64::from(len) + 4; // plus a checksum
    }
}

fn ihdr(reader: &mut HeaderReader<'_>, at: u64, len: u32) -> Result<ImageHeader> {
    if len != 13 {
        return Err(malformed(reader, at, "an IHDR of the wrong length"));
    }
    let (width, height) = (reader.read_be::<4>(at)?, reader.read_be::<4>(at + 4)?);
    let rest = reader.read_exact(at + 8, 5)?;
    let color_model = match (rest[1], rest[0]) {
        (0, 1 | 2 | 4 | 8 | 16) => ColorModel::Gray,
        (2, 8 | 16) => ColorModel::Rgb,
        (3, 1 | 2 | 4 | 8) => ColorModel::Palette,
        (4, 8 | 16) => ColorModel::GrayAlpha,
        (6, 8 | 16) => ColorModel::Rgba,
        (colors, bits) => {
            let what = format!("an invalid color type {colors} with {bits} bits");
            return Err(malformed(reader, at, &what));
        }
    };
    let coding = if rest[4] == 0 {
        CodingProcess::Deflate
    } else {
        CodingProcess::DeflateInterlaced
    };
    let sample_bits = rest[0];
    Ok(ImageHeader {
        format: ImageFormat::Png,
        width,
        height,
        orientation: DisplayOrientation::default(),
        color_model,
        coding,
        sample_bits,
    })
}

/// Checks, before anything is allocated for the picture, that the file can hold it.
pub(super) fn check_size(reader: &HeaderReader<'_>, header: &ImageHeader) -> Result<()> {
    let components = match header.color_model {
        ColorModel::Rgb => 3,
        ColorModel::Rgba => 4,
        ColorModel::GrayAlpha => 2,
        _ => 1,
    };
    let row_bits = u64::from(header.width) * components * u64::from(header.sample_bits);
    let needed = u128::from(row_bits.div_ceil(8)) * u128::from(header.height);
    let held = reader.source_len();
    if needed > u128::from(held) * u128::from(MAX_DEFLATE_RATIO) {
        let (width, height) = (header.width, header.height);
        return Err(Error::malformed(
            reader.site(),
            format!(
                "PNG of {width}x{height} pixels, {needed} bytes, but {held} compressed bytes can hold at most \
                 {MAX_DEFLATE_RATIO} each"
            ),
        ));
    }
    Ok(())
}

fn malformed(reader: &HeaderReader<'_>, at: u64, what: &str) -> Error {
    Error::malformed(reader.site(), format!("PNG with {what} at byte {at}"))
}

/// Decodes the picture of a whole file.
pub(super) fn decode<'a>(
    site: &Site,
    header: &ImageHeader,
    bytes: &[u8],
    labels: bool,
    memory: &'a mut PlaneBuffer,
) -> Result<FrameView<'a>> {
    let critical;
    let mut reader = match read_info(bytes) {
        // Invalid values in an ancillary chunk (cICP, mDCV, cLLI, bKGD); none of them affects these
        // pixels.
        Err(DecodingError::IoError(error)) if error.kind() == std::io::ErrorKind::InvalidData => {
            critical = critical_chunks(bytes);
            read_info(&critical)
        }
        read => read,
    }
    .map_err(|error| decode_error(site, error))?;
    let info = reader.info();
    // The memory allocated below was checked against the limits when the header was read, for this
    // size only.
    if (info.width, info.height) != (header.width, header.height)
        || info.bit_depth as u8 != header.sample_bits
        || color_model_of(info.color_type) != header.color_model
    {
        return Err(Error::malformed(
            site,
            "the image does not match its header",
        ));
    }
    frame(site, header, &mut reader, labels, memory)
}

fn read_info(bytes: &[u8]) -> std::result::Result<Reader<Cursor<&[u8]>>, DecodingError> {
    let limits = png::Limits {
        bytes: MAX_DECODER_BYTES,
    };
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.ignore_checksums(false);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder.read_info()
}

/// Copies a file without its ancillary chunks, whose names begin with a lowercase letter.
fn critical_chunks(bytes: &[u8]) -> Vec<u8> {
    let (signature, mut rest) = bytes.split_at(SIGNATURE.len().min(bytes.len()));
    let mut out = signature.to_vec();
    while let Some((len, name)) = rest.first_chunk::<4>().zip(rest.get(4)) {
        let whole = (u32::from_be_bytes(*len) as usize)
            .saturating_add(12)
            .min(rest.len());
        let (chunk, behind) = rest.split_at(whole);
        if name.is_ascii_uppercase() {
            out.extend_from_slice(chunk);
        }
        rest = behind;
    }
    out
}

fn color_model_of(colors: ColorType) -> ColorModel {
    match colors {
        ColorType::Grayscale => ColorModel::Gray,
        ColorType::Rgb => ColorModel::Rgb,
        ColorType::Indexed => ColorModel::Palette,
        ColorType::GrayscaleAlpha => ColorModel::GrayAlpha,
        ColorType::Rgba => ColorModel::Rgba,
    }
}

fn frame<'a>(
    site: &Site,
    header: &ImageHeader,
    reader: &mut Reader<Cursor<&[u8]>>,
    labels: bool,
    memory: &'a mut PlaneBuffer,
) -> Result<FrameView<'a>> {
    let (width, height) = (header.width as usize, header.height as usize);
    let pixels = width * height;
    let wide = header.sample_bits == 16;
    let coded_bytes = reader
        .output_buffer_size()
        .ok_or_else(|| Error::malformed(site, "the image does not fit into memory"))?;
    // Bytes of a second copy of the samples, where the kernels cannot read them as decoded.
    let converted_bytes = match (header.color_model, header.sample_bits) {
        (ColorModel::Gray, 8 | 16) | (ColorModel::Rgb | ColorModel::Rgba, 8) => 0,
        (ColorModel::Palette, _) if labels => pixels,
        (ColorModel::Gray | ColorModel::GrayAlpha, _) => pixels * if wide { 2 } else { 1 },
        _ => pixels * if wide { 6 } else { 3 },
    };
    let [samples, converted, _] = memory.reserve(site, [coded_bytes, converted_bytes, 0])?;
    if header.coding == CodingProcess::DeflateInterlaced && header.sample_bits < 8 {
        samples.fill(0); // the crate combines such pixels with the previous content
    }
    reader
        .next_frame(samples)
        .map_err(|error| decode_error(site, error))?;

    let color = |matrix| Colorimetry {
        matrix,
        range: ColorRange::Full,
    };
    let (gray, rgb) = (
        color(MatrixCoefficients::Bt601),
        color(MatrixCoefficients::Rgb),
    );
    let (planes, color) = match (header.color_model, header.sample_bits) {
        (ColorModel::Gray, 8) => (
            Planes::Gray(Plane {
                data: samples,
                stride_bytes: width,
            }),
            gray,
        ),
        (ColorModel::Gray, 16) => {
            samples
                .chunks_exact_mut(2)
                .for_each(|sample| sample.swap(0, 1));
            (
                Planes::Gray(Plane {
                    data: samples,
                    stride_bytes: width * 2,
                }),
                gray,
            )
        }
        (ColorModel::Gray, bits) => {
            let scale = if labels {
                1
            } else {
                255 / ((1u16 << bits) - 1) as u8
            };
            unpack(
                samples,
                bits,
                width,
                converted,
                |value, out: &mut [u8; 1]| out[0] = value * scale,
            );
            (
                Planes::Gray(Plane {
                    data: converted,
                    stride_bytes: width,
                }),
                gray,
            )
        }
        (ColorModel::GrayAlpha, 8) => {
            converted
                .iter_mut()
                .zip(samples.chunks_exact(2))
                .for_each(|(out, pair)| *out = pair[0]);
            (
                Planes::Gray(Plane {
                    data: converted,
                    stride_bytes: width,
                }),
                gray,
            )
        }
        (ColorModel::GrayAlpha, _) => {
            copy_component_swapped(samples, 4, 0, converted);
            (
                Planes::Gray(Plane {
                    data: converted,
                    stride_bytes: width * 2,
                }),
                gray,
            )
        }
        (ColorModel::Palette, bits) if labels => {
            unpack(
                samples,
                bits,
                width,
                converted,
                |index, out: &mut [u8; 1]| out[0] = index,
            );
            (
                Planes::Gray(Plane {
                    data: converted,
                    stride_bytes: width,
                }),
                gray,
            )
        }
        (ColorModel::Palette, bits) => {
            apply_palette(site, reader, samples, bits, width, converted)?;
            (packed(converted, width, 3), rgb)
        }
        (kind, 8) => (
            packed(samples, width, if kind == ColorModel::Rgba { 4 } else { 3 }),
            rgb,
        ),
        (kind, _) => {
            let step = if kind == ColorModel::Rgba { 8 } else { 6 };
            for (c, plane) in converted.chunks_exact_mut(pixels * 2).enumerate() {
                copy_component_swapped(samples, step, c * 2, plane);
            }
            let plane = |c: usize| Plane {
                data: &converted[c * pixels * 2..][..pixels * 2],
                stride_bytes: width * 2,
            };
            (Planes::PlanarRgb([plane(0), plane(1), plane(2)]), rgb)
        }
    };
    let depth_bits = if wide { 16 } else { 8 };
    Ok(FrameView {
        width: header.width,
        height: header.height,
        depth_bits,
        shift: 0,
        planes,
        color,
    })
}

fn packed(data: &[u8], width: usize, pixel_bytes: u8) -> Planes<'_> {
    let plane = Plane {
        data,
        stride_bytes: width * usize::from(pixel_bytes),
    };
    Planes::PackedRgb {
        plane,
        pixel_bytes,
        offsets: [0, 1, 2],
    }
}

/// Copies one component of 16-bit pixels, `step` bytes apart, from PNG's byte order to the
/// kernels'.
fn copy_component_swapped(samples: &[u8], step: usize, offset: usize, plane: &mut [u8]) {
    for (out, pixel) in plane.chunks_exact_mut(2).zip(samples.chunks_exact(step)) {
        out.copy_from_slice(&[pixel[offset + 1], pixel[offset]]);
    }
}

/// Expands values of 1, 2, 4 or 8 bits, in rows that begin on whole bytes, to `N` bytes each by
/// `f`.
fn unpack<const N: usize>(
    samples: &[u8],
    bits: u8,
    width: usize,
    converted: &mut [u8],
    mut f: impl FnMut(u8, &mut [u8; N]),
) {
    let per_byte = 8 / usize::from(bits);
    let mask = ((1u16 << bits) - 1) as u8;
    let rows = converted
        .chunks_exact_mut(width * N)
        .zip(samples.chunks_exact(width.div_ceil(per_byte)));
    for (out, row) in rows {
        for (x, out) in out.chunks_exact_mut(N).enumerate() {
            // The leftmost pixel is in the most significant bits.
            let shift = 8 - usize::from(bits) * (x % per_byte + 1);
            f(
                row[x / per_byte] >> shift & mask,
                out.try_into().expect("N bytes"),
            );
        }
    }
}

fn apply_palette(
    site: &Site,
    reader: &Reader<Cursor<&[u8]>>,
    samples: &[u8],
    bits: u8,
    width: usize,
    converted: &mut [u8],
) -> Result<()> {
    let palette = reader.info().palette.as_deref().unwrap_or_default();
    let mut colors = [[0; 3]; 256];
    for (color, entry) in colors.iter_mut().zip(palette.chunks_exact(3)) {
        color.copy_from_slice(entry);
    }
    let mut highest = 0;
    unpack(
        samples,
        bits,
        width,
        converted,
        |index, out: &mut [u8; 3]| {
            highest = highest.max(index);
            *out = colors[usize::from(index)];
        },
    );
    let entries = palette.len() / 3;
    if usize::from(highest) >= entries {
        let reason = format!("a pixel has color {highest} of a palette of {entries}");
        return Err(Error::Decode {
            site: site.clone(),
            reason,
        });
    }
    Ok(())
}

fn decode_error(site: &Site, error: DecodingError) -> Error {
    let site = site.clone();
    match error {
        DecodingError::LimitsExceeded => {
            let cap = MAX_DECODER_BYTES as u64;
            Error::Limit {
                site,
                what: "the memory that the PNG decoder requests, in bytes,",
                value: cap + 1,
                cap,
            }
        }
        DecodingError::Parameter(error) => Error::Internal {
            site,
            reason: error.to_string(),
        },
        DecodingError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Error::Decode {
                site,
                reason: "the file ends inside the image".to_owned(),
            }
        }
        DecodingError::IoError(error) => Error::io(&site, error),
        DecodingError::Format(error) => Error::Decode {
            site,
            reason: format!("the PNG decoder reports: {error}"),
        },
    }
}
