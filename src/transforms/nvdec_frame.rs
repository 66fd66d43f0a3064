//! Builds the kernels' view of a hardware decoder's surface: its displayed part and its color.
//! Does not access device memory.

use framespool_kernels::{DeviceFrame, DevicePlane, DevicePlanes};
use framespool_nvdec::session::{Chroma, Surface};

use crate::error::{Error, Result, Site};
use crate::ffmpeg::frame_view::{ColorOverride, color};
use crate::media::ColorTags;

/// Matrix coefficients "unspecified" (ITU-T H.273).
const UNSPECIFIED: u8 = 2;

/// Matrix coefficients for planes of green, blue and red.
const RGB: u8 = 0;

/// (width, height) of the displayed part.
pub(super) fn size(surface: &Surface) -> (u32, u32) {
    let shown = surface.display_area;
    (
        shown.right.saturating_sub(shown.left),
        shown.bottom.saturating_sub(shown.top),
    )
}

/// The displayed part as the kernels read it. `container` supplies what the stream leaves
/// unspecified.
pub(super) fn frame(
    site: &Site,
    surface: &Surface,
    container: ColorTags,
    assumed: ColorOverride,
) -> Result<DeviceFrame> {
    let unsupported = |what: String| Error::Unsupported {
        site: site.clone(),
        what,
    };
    let shown = surface.display_area;
    let (width, height) = size(surface);
    let (log2_w, log2_h) = match surface.chroma {
        Chroma::Gray | Chroma::C420 => (1, 1),
        Chroma::C422 => (1, 0),
        Chroma::C444 => (0, 0),
    };
    // An address cannot express a crop of half a chroma sample.
    if !(shown.left.is_multiple_of(1 << log2_w) && shown.top.is_multiple_of(1 << log2_h)) {
        return Err(unsupported(format!(
            "a frame that starts at ({}, {})",
            shown.left, shown.top
        )));
    }
    let bytes = u64::from(surface.depth_bits > 8) + 1;
    let pitch = surface.pitch_bytes as u64;
    let (left, top) = (u64::from(shown.left), u64::from(shown.top));
    let plane = |address: u64| DevicePlane {
        address,
        stride_bytes: surface.pitch_bytes,
    };
    let luma = plane(surface.address + top * pitch + left * bytes);
    let chroma_at = |address: u64, samples: u64| {
        plane(address + (top >> log2_h) * pitch + (left >> log2_w) * bytes * samples)
    };
    let [first, second] = surface.chroma_address;
    let planes = match (surface.chroma, first, second) {
        (Chroma::Gray, ..) => DevicePlanes::Gray(luma),
        (_, 0, _) => return Err(unsupported("a surface without chroma".into())),
        (_, interleaved, 0) => DevicePlanes::SemiPlanar {
            luma,
            chroma: chroma_at(interleaved, 2),
            log2_chroma_w: log2_w,
            log2_chroma_h: log2_h,
        },
        (_, blue, red) => DevicePlanes::Yuv {
            planes: [luma, chroma_at(blue, 1), chroma_at(red, 1)],
            log2_chroma_w: log2_w,
            log2_chroma_h: log2_h,
        },
    };
    let tags = tags(surface, container).ok_or_else(|| {
        unsupported(
            "full range that only the container declares and the stream may contradict".into(),
        )
    })?;
    if tags.matrix == RGB && surface.chroma == Chroma::C444 {
        return Err(unsupported("RGB planes".into()));
    }
    let color = color(site, false, tags, assumed)?;
    Ok(DeviceFrame {
        width,
        height,
        depth_bits: surface.depth_bits,
        shift: surface.shift,
        planes,
        color,
    })
}

/// The color description of the stream, completed from the container where the stream leaves it
/// unspecified. `None` if it is unknown which of them applies: the parser does not report whether a
/// limited-range stream states its range.
pub(super) fn tags(surface: &Surface, container: ColorTags) -> Option<ColorTags> {
    let Surface {
        matrix,
        primaries,
        transfer,
        ..
    } = *surface;
    let silent = [matrix, primaries, transfer]
        .iter()
        .all(|&tag| tag == UNSPECIFIED);
    let said = if silent {
        container
    } else {
        ColorTags {
            matrix,
            primaries,
            transfer,
            full_range: None,
        }
    };
    match (surface.full_range, container.full_range) {
        (Some(true), _) => Some(ColorTags {
            full_range: Some(true),
            ..said
        }),
        (_, Some(true)) => None,
        (_, range) => Some(ColorTags {
            full_range: range,
            ..said
        }),
    }
}
