//! References for a [`PixelPass`](crate::PixelPass) with the same frame, geometry and output spec,
//! which share no arithmetic with it.
//!
//! [`integer()`] and [`elements()`] (and the same for 16-bit colors) are the contract as plain
//! loops: the pass must equal them byte for byte. [`exact()`] is the exact
//! result in `f64`, to which the pass must be close, and [`exact_full_size`] is its first half.
//! [`codes`] states what precedes the pass where a frame is deinterlaced.

mod color;
mod elements;
mod exact;
mod integer;

pub use elements::elements;
pub use exact::{exact, exact_full_size};
pub use integer::integer;

use elements::elements_u16;
use integer::integer_u16;

use crate::deinterlace::{Deinterlace, DeinterlaceMethod, Field};
use crate::error::PassError;
use crate::frame::{FrameView, Planes};
use crate::geometry::{Geometry, Orientation};
use crate::output_spec::OutputSpec;

/// An R, G, B image, of 8 bits unless stated otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image<Code = u8> {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Pixels row by row.
    pub pixels: Vec<[Code; 3]>,
}

impl<Code: Copy> Image<Code> {
    /// One pixel.
    pub fn at(&self, x: u32, y: u32) -> [Code; 3] {
        self.pixels[y as usize * self.width as usize + x as usize]
    }

    fn from_fn(width: u32, height: u32, mut pixel: impl FnMut(u32, u32) -> [Code; 3]) -> Self {
        let pixels = (0..height)
            .flat_map(|y| (0..width).map(move |x| (x, y)))
            .map(|(x, y)| pixel(x, y))
            .collect();
        Self {
            width,
            height,
            pixels,
        }
    }

    /// Applies the orientation step by step.
    pub fn oriented(&self, orientation: Orientation) -> Self {
        let mut image = self.clone();
        if orientation.mirror {
            image = Self::from_fn(self.width, self.height, |x, y| {
                self.at(self.width - 1 - x, y)
            });
        }
        for _ in 0..orientation.quarter_turns_cw % 4 {
            let before = image;
            image = Self::from_fn(before.height, before.width, |x, y| {
                before.at(y, before.height - 1 - x)
            });
        }
        image
    }
}

/// The bytes of every element, as [`elements()`] computes them, with the color depth that the
/// output spec needs for such a frame.
///
/// # Errors
/// Those of the pass.
pub fn expected_elements(
    frame: &FrameView<'_>,
    geometry: &Geometry,
    spec: &OutputSpec,
) -> Result<Vec<Vec<u8>>, PassError> {
    // The result of tone mapping has 15 bits.
    if spec.dtype.uses_16_bit(if spec.tone.is_some() {
        15
    } else {
        frame.depth_bits
    }) {
        return Ok(elements_u16(&integer_u16(frame, geometry, spec)?, spec));
    }
    Ok(elements(&integer(frame, geometry, spec)?, spec))
}

/// The codes of a component, row by row in its own resolution, after step 0 of SPEC.md if the frame
/// is deinterlaced.
pub fn codes(
    frame: &FrameView<'_>,
    deinterlace: Option<Deinterlace>,
    component: usize,
) -> Vec<Vec<u32>> {
    let (log2_w, log2_h) = log2_subsampling(frame, component);
    let (columns, rows) = (
        frame.width.div_ceil(1 << log2_w),
        frame.height.div_ceil(1 << log2_h),
    );
    let stored: Vec<Vec<u32>> = (0..rows)
        .map(|row| {
            (0..columns)
                .map(|column| code(frame, component, column, row))
                .collect()
        })
        .collect();
    let Some(Deinterlace { method, kept }) = deinterlace else {
        return stored;
    };
    let is_kept =
        |row: &usize| *row < stored.len() && row % 2 == usize::from(kept == Field::Bottom);
    let deinterlaced = |row: usize| {
        let (above, below) = (
            row.checked_sub(1).filter(is_kept),
            Some(row + 1).filter(is_kept),
        );
        match (above, below) {
            // A line of the kept field, or the only line of the plane.
            (None, None) => stored[row].clone(),
            (Some(only), None) | (None, Some(only)) => stored[only].clone(),
            (Some(above), Some(below)) => match method {
                DeinterlaceMethod::Bob if kept == Field::Top => stored[above].clone(),
                DeinterlaceMethod::Bob => stored[below].clone(),
                DeinterlaceMethod::Linear => stored[above]
                    .iter()
                    .zip(&stored[below])
                    .map(|(a, b)| (a + b + 1) >> 1)
                    .collect(),
            },
        }
    };
    (0..stored.len()).map(deinterlaced).collect()
}

fn log2_subsampling(frame: &FrameView<'_>, component: usize) -> (u8, u8) {
    match frame.planes {
        Planes::Yuv {
            log2_chroma_w,
            log2_chroma_h,
            ..
        }
        | Planes::SemiPlanar {
            log2_chroma_w,
            log2_chroma_h,
            ..
        } if component > 0 => (log2_chroma_w, log2_chroma_h),
        _ => (0, 0),
    }
}

/// The code value of a component at a luma position, chroma repeated.
fn sample(frame: &FrameView<'_>, component: usize, x: u32, y: u32) -> u32 {
    let (log2_w, log2_h) = log2_subsampling(frame, component);
    code(frame, component, x >> log2_w, y >> log2_h)
}

/// The code value of a component at a position in its own resolution.
fn code(frame: &FrameView<'_>, component: usize, column: u32, row: u32) -> u32 {
    let (plane, column) = match frame.planes {
        Planes::Gray(plane) => (plane, column),
        Planes::PlanarRgb(planes) | Planes::Yuv { planes, .. } => (planes[component], column),
        Planes::PackedRgb {
            plane,
            pixel_bytes,
            offsets,
        } => (
            plane,
            column * u32::from(pixel_bytes) + u32::from(offsets[component]),
        ),
        Planes::SemiPlanar { luma, .. } if component == 0 => (luma, column),
        Planes::SemiPlanar { chroma, .. } => (chroma, column * 2 + component as u32 - 1),
    };
    let (row, column) = (row as usize * plane.stride_bytes, column as usize);
    if frame.depth_bits == 8 {
        return u32::from(plane.data[row + column]);
    }
    let word =
        u32::from(plane.data[row + 2 * column]) + 256 * u32::from(plane.data[row + 2 * column + 1]);
    (word >> frame.shift).min((1 << frame.depth_bits) - 1)
}

/// Number of components in the planes.
fn components(frame: &FrameView<'_>) -> usize {
    if matches!(frame.planes, Planes::Gray(_)) {
        1
    } else {
        3
    }
}

fn is_yuv(frame: &FrameView<'_>) -> bool {
    matches!(frame.planes, Planes::Yuv { .. } | Planes::SemiPlanar { .. })
}

/// Rejects requests that the pass would reject, so the loops may index freely.
fn check(frame: &FrameView<'_>, geometry: &Geometry, spec: &OutputSpec) -> Result<(), PassError> {
    frame.check()?;
    geometry.check()?;
    spec.check(geometry.output_size())?;
    let (width, height) = match geometry.orientation.quarter_turns_cw % 2 {
        0 => (frame.width, frame.height),
        _ => (frame.height, frame.width),
    };
    geometry.crop.check_inside(
        "crop",
        (
            width * geometry.crop_subpixels.0,
            height * geometry.crop_subpixels.1,
        ),
    )
}
