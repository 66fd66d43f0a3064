//! In: a hardware decoder's surface.
//! Out: the kernels' view of its displayed part and its colour.
//! Never: touches device memory.

use framespool_kernels::{DeviceFrame, DevicePlane, DevicePlanes};
use framespool_nvdec::session::{Chroma, Surface};

use super::view::{colour, Assumed};
use crate::error::{Error, Result, Site};
use crate::media::ColourTags;

/// Matrix "unspecified" of ITU-T H.273.
const UNSPECIFIED: u8 = 2;

/// Matrix "the planes are green, blue and red".
const RGB: u8 = 0;

/// Size of the displayed part.
pub(super) fn size(surface: &Surface) -> (u32, u32) {
    let shown = surface.display;
    (shown.right.saturating_sub(shown.left), shown.bottom.saturating_sub(shown.top))
}

/// The displayed part as the kernels see it. `container` says what the stream leaves open.
pub(super) fn frame(
    site: &Site,
    surface: &Surface,
    container: ColourTags,
    assumed: Assumed,
) -> Result<DeviceFrame> {
    let unsupported = |what: String| Error::Unsupported { site: site.clone(), what };
    let shown = surface.display;
    let (width, height) = size(surface);
    let (log2_w, log2_h) = match surface.chroma {
        Chroma::Gray | Chroma::C420 => (1, 1),
        Chroma::C422 => (1, 0),
        Chroma::C444 => (0, 0),
    };
    // A crop of half a chroma sample cannot be said by an address.
    if !(shown.left.is_multiple_of(1 << log2_w) && shown.top.is_multiple_of(1 << log2_h)) {
        return Err(unsupported(format!("a picture that begins at ({}, {})", shown.left, shown.top)));
    }
    let bytes = u64::from(surface.depth_bits > 8) + 1;
    let pitch = surface.pitch_bytes as u64;
    let (left, top) = (u64::from(shown.left), u64::from(shown.top));
    let plane = |address: u64| DevicePlane { address, stride_bytes: surface.pitch_bytes };
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
        unsupported("full range by the container alone, which this stream may contradict".into())
    })?;
    if tags.matrix == RGB && surface.chroma == Chroma::C444 {
        return Err(unsupported("planes of red, green and blue".into()));
    }
    let colour = colour(site, false, tags, assumed)?;
    Ok(DeviceFrame { width, height, depth_bits: surface.depth_bits, shift: surface.shift, planes, colour })
}

/// The stream's description, and the container's of what the stream leaves open. `None` where it cannot be told which of them
/// counts: the parser does not say whether a stream that is not of full range says so.
pub(super) fn tags(surface: &Surface, container: ColourTags) -> Option<ColourTags> {
    let Surface { matrix, primaries, transfer, .. } = *surface;
    let silent = [matrix, primaries, transfer].iter().all(|&tag| tag == UNSPECIFIED);
    let said = if silent { container } else { ColourTags { matrix, primaries, transfer, full_range: None } };
    match (surface.full_range, container.full_range) {
        (Some(true), _) => Some(ColourTags { full_range: Some(true), ..said }),
        (_, Some(true)) => None,
        (_, range) => Some(ColourTags { full_range: range, ..said }),
    }
}
