//! Builds the kernels' view of a decoded frame: its planes and its color.
//! Copies pixels only to look up a palette.

use framespool_kernels::{ColorRange, Colorimetry, FrameView, MatrixCoefficients, Plane, Planes};

use super::{Frame, PixelLayout};
use crate::error::{Error, Result, Site};
use crate::limits::reserve;
use crate::media::ColorTags;

/// Overrides the interpretation of code values that the stream states.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ColorOverride {
    /// Matrix from YUV to RGB; planes that are already RGB are not affected.
    pub matrix: Option<MatrixCoefficients>,
    /// Code values of black and white.
    pub range: Option<ColorRange>,
}

/// Calls `f` with the view of a frame.
pub fn with_view<R>(
    site: &Site,
    frame: &Frame,
    assumed: ColorOverride,
    f: impl FnOnce(&FrameView<'_>) -> Result<R>,
) -> Result<R> {
    let layout = frame
        .layout()
        .ok_or_else(|| unsupported(site, "an unknown pixel format"))?;
    let tags = frame.color();
    if layout.palette {
        let rgb = look_up(site, frame)?;
        let width = frame.width() as usize;
        let plane = Plane {
            data: &rgb,
            stride_bytes: width * 3,
        };
        let planes = Planes::PackedRgb {
            plane,
            pixel_bytes: 3,
            offsets: [0, 1, 2],
        };
        return f(&view(
            frame,
            8,
            0,
            planes,
            Colorimetry {
                matrix: MatrixCoefficients::Rgb,
                range: ColorRange::Full,
            },
        ));
    }
    let planes = planes(site, frame, &layout)?;
    let shift = layout.components[0].shift;
    f(&view(
        frame,
        layout.depth,
        shift,
        planes,
        color(site, layout.rgb, tags, assumed)?,
    ))
}

fn unsupported(site: &Site, what: &str) -> Error {
    Error::Unsupported {
        site: site.clone(),
        what: what.to_owned(),
    }
}

fn view<'a>(
    frame: &Frame,
    depth_bits: u8,
    shift: u8,
    planes: Planes<'a>,
    color: Colorimetry,
) -> FrameView<'a> {
    FrameView {
        width: frame.width(),
        height: frame.height(),
        depth_bits,
        shift,
        planes,
        color,
    }
}

/// The planes of a frame, without a copy.
///
/// # Errors
/// `Unsupported` for layouts that the kernels do not read.
pub fn planes<'a>(site: &Site, frame: &'a Frame, layout: &PixelLayout) -> Result<Planes<'a>> {
    let refuse = || unsupported(site, &format!("pixel format '{}'", layout.name));
    if layout.exotic {
        return Err(refuse());
    }
    let plane = |n: usize| {
        let (data, stride_bytes) = frame.plane(n).ok_or_else(refuse)?;
        Ok::<_, Error>(Plane { data, stride_bytes })
    };
    let bytes = usize::from(layout.depth > 8) + 1;
    let c = &layout.components;
    let (log2_chroma_w, log2_chroma_h) = (layout.log2_chroma_w, layout.log2_chroma_h);
    match (c.len(), layout.rgb) {
        (1 | 2, false) if c[0].step == bytes && c[0].offset == 0 => {
            Ok(Planes::Gray(plane(c[0].plane)?))
        }
        (3 | 4, rgb) if c[..3].iter().all(|c| c.step == bytes && c.offset == 0) => {
            let planes = [plane(c[0].plane)?, plane(c[1].plane)?, plane(c[2].plane)?];
            Ok(if rgb {
                Planes::PlanarRgb(planes)
            } else {
                Planes::Yuv {
                    planes,
                    log2_chroma_w,
                    log2_chroma_h,
                }
            })
        }
        (3, false)
            if c[1].plane == c[2].plane
                && c[0].step == bytes
                && c[1].step == 2 * bytes
                && c[1].offset == 0 =>
        {
            let (luma, chroma) = (plane(c[0].plane)?, plane(c[1].plane)?);
            Ok(Planes::SemiPlanar {
                luma,
                chroma,
                log2_chroma_w,
                log2_chroma_h,
            })
        }
        (3 | 4, true) if bytes == 1 && c[..3].iter().all(|c| c.plane == 0) => {
            Ok(Planes::PackedRgb {
                plane: plane(0)?,
                pixel_bytes: c[0].step as u8,
                offsets: [c[0].offset as u8, c[1].offset as u8, c[2].offset as u8],
            })
        }
        _ => Err(refuse()),
    }
}

/// Matrix and range of a frame: from the stream, else from the container (libavcodec has merged
/// them), else BT.601 limited range. libswscale assumes the same, at any height, and so do readers
/// that convert with it (decord, torchvision): models were trained on these colors. A rule by
/// height would differ from them, and guess.
pub fn color(
    site: &Site,
    rgb: bool,
    tags: ColorTags,
    assumed: ColorOverride,
) -> Result<Colorimetry> {
    if rgb {
        return Ok(Colorimetry {
            matrix: MatrixCoefficients::Rgb,
            range: assumed.range.unwrap_or(ColorRange::Full),
        });
    }
    let full = tags.full_range.unwrap_or(false);
    let range = assumed.range.unwrap_or(if full {
        ColorRange::Full
    } else {
        ColorRange::Limited
    });
    if let Some(matrix) = assumed.matrix {
        return Ok(Colorimetry { matrix, range });
    }
    // ITU-T H.273 table 4.
    let matrix = match tags.matrix {
        1 => MatrixCoefficients::Bt709,
        // 0 means that the planes are R, G, B, which YUV planes cannot be: a wrong tag, treated as
        // unspecified.
        0 | 2 | 5 | 6 => MatrixCoefficients::Bt601,
        4 => MatrixCoefficients::Fcc,
        7 => MatrixCoefficients::Smpte240m,
        8 => MatrixCoefficients::YCgCo,
        9 => MatrixCoefficients::Bt2020Ncl,
        other => {
            let name = ColorTags {
                matrix: other,
                ..tags
            }
            .matrix_name()
            .unwrap_or_default();
            return Err(unsupported(
                site,
                &format!(
                    "color matrix {name} (MatrixCoefficients {other} of ITU-T H.273; where that is a wrong tag, \
                     transforms.AssumeColor(matrix=...) overrides it)"
                ),
            ));
        }
    };
    Ok(Colorimetry { matrix, range })
}

/// Converts a palette frame to packed RGB.
fn look_up(site: &Site, frame: &Frame) -> Result<Vec<u8>> {
    let refuse = || unsupported(site, "a palette image without its palette");
    let (indices, stride) = frame.plane(0).ok_or_else(refuse)?;
    let (palette, _) = frame.plane(1).ok_or_else(refuse)?;
    let width = frame.width() as usize;
    let mut rgb = Vec::new();
    reserve(site, &mut rgb, width * frame.height() as usize * 3)?;
    for row in indices.chunks(stride) {
        for &index in &row[..width.min(row.len())] {
            // Entries are native-endian 0xAARRGGBB.
            let at = usize::from(index) * 4;
            let argb = u32::from_ne_bytes([
                palette[at],
                palette[at + 1],
                palette[at + 2],
                palette[at + 3],
            ]);
            rgb.extend([(argb >> 16) as u8, (argb >> 8) as u8, argb as u8]);
        }
    }
    Ok(rgb)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_matrix_is_supported_or_rejected_by_name() {
        let site = Site::file(&"a.mp4".into());
        let of = |matrix| {
            let tags = ColorTags {
                matrix,
                ..ColorTags::default()
            };
            color(&site, false, tags, ColorOverride::default()).map(|color| color.matrix)
        };
        let known = [
            (0, MatrixCoefficients::Bt601), // contradicts the planes, so it is treated as unspecified
            (1, MatrixCoefficients::Bt709),
            (2, MatrixCoefficients::Bt601),
            (4, MatrixCoefficients::Fcc),
            (5, MatrixCoefficients::Bt601),
            (6, MatrixCoefficients::Bt601),
            (7, MatrixCoefficients::Smpte240m),
            (8, MatrixCoefficients::YCgCo),
            (9, MatrixCoefficients::Bt2020Ncl),
        ];
        for tag in 0..=255 {
            let found = of(tag);
            match known.iter().find(|(known, _)| *known == tag) {
                Some((_, matrix)) => assert_eq!(found.unwrap(), *matrix),
                None => {
                    let said = found.unwrap_err().to_string();
                    assert!(
                        said.contains("AssumeColor")
                            && said.contains(&format!("MatrixCoefficients {tag} ")),
                        "{said}"
                    );
                }
            }
        }
        for (tag, name) in [
            (3, "reserved (3)"),
            (10, "bt2020c"),
            (12, "chroma-derived-nc"),
            (14, "ictcp"),
            (99, "reserved (99)"),
        ] {
            let said = of(tag).unwrap_err().to_string();
            assert!(said.contains(name), "{said}");
        }
    }
}
