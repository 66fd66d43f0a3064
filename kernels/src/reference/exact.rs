//! The exact RGB of a frame (chroma repeated, rounded once to 8 bits), then resized, placed and
//! recolored in `f64`. It does not resample YUV: this is the result that torchvision computes.

use super::{Image, check, components, is_yuv, sample};
use crate::colorimetry::{ColorRange, MatrixCoefficients};
use crate::error::PassError;
use crate::frame::FrameView;
use crate::geometry::{Filter, Geometry, Interpolation, Placement, WARP_FRACTION_BITS};
use crate::output_spec::OutputSpec;

/// Full-size RGB as stored (not rotated): the formula in `f64`, rounded to nearest and clamped.
pub fn exact_full_size(frame: &FrameView<'_>) -> Result<Image, PassError> {
    frame.check()?;
    Ok(Image::from_fn(frame.width, frame.height, |x, y| {
        pixel(frame, x, y)
    }))
}

fn pixel(frame: &FrameView<'_>, x: u32, y: u32) -> [u8; 3] {
    let depth = i32::from(frame.depth_bits);
    let scale = 2f64.powi(depth - 8);
    let (black, luma_span, chroma_span) = match frame.color.range {
        ColorRange::Limited => (16.0 * scale, 219.0 * scale, 224.0 * scale),
        ColorRange::Full => (0.0, 2f64.powi(depth) - 1.0, 2f64.powi(depth) - 1.0),
    };
    let code = |component| f64::from(sample(frame, component, x, y));
    let light = |component| (code(component) - black) / luma_span;
    let rgb = if is_yuv(frame) {
        let zero = 2f64.powi(depth - 1);
        let span = if frame.color.matrix == MatrixCoefficients::YCgCo {
            luma_span
        } else {
            chroma_span
        };
        let (y, pb, pr) = (light(0), (code(1) - zero) / span, (code(2) - zero) / span);
        match frame.color.matrix.luma_weights() {
            Some((kr, kb)) => {
                let r = y + 2.0 * (1.0 - kr) * pr;
                let b = y + 2.0 * (1.0 - kb) * pb;
                [r, (y - kr * r - kb * b) / (1.0 - kr - kb), b]
            }
            None if frame.color.matrix == MatrixCoefficients::Luma => [y; 3],
            // YCgCo: t is the mean of red and blue.
            None => {
                let t = y - pb;
                [t + pr, y + pb, t - pr]
            }
        }
    } else if components(frame) == 1 {
        [light(0); 3]
    } else {
        [light(0), light(1), light(2)]
    };
    rgb.map(|value| (value * 255.0).round().clamp(0.0, 255.0) as u8)
}

/// Applies all of geometry and colors to [`exact_full_size`], as torchvision and PIL do, but in
/// `f64` and rounded once. Masks, normalization and dtype are not applied.
pub fn exact(
    frame: &FrameView<'_>,
    geometry: &Geometry,
    spec: &OutputSpec,
) -> Result<Image, PassError> {
    check(frame, geometry, spec)?;
    let window = ResizedWindow::new(
        &exact_full_size(frame)?.oriented(geometry.orientation),
        geometry,
    );
    let mean = window.mean();
    let add = |a: [f64; 3], b: [f64; 3]| [0, 1, 2].map(|r| a[r] + b[r]);
    let mean_dependent = add(spec.color.offset, apply(&spec.color.mean, mean));
    let fill = add(spec.fill.base, apply(&spec.fill.mean, mean));
    let at = |x: i64, y: i64| match window.at(x, y) {
        Some(rgb) => add(apply(&spec.color.matrix, rgb), mean_dependent),
        None => fill,
    };
    let (width, height) = geometry.output_size();
    Ok(Image::from_fn(width, height, |x, y| {
        let (x, y) = (i64::from(x), i64::from(y));
        let rgb = match geometry.placement {
            Placement::Identity => at(x, y),
            Placement::Canvas {
                x: left, y: top, ..
            } => at(x - i64::from(left), y - i64::from(top)),
            Placement::Warp(warp) => {
                let position = |to: [i64; 3]| to[0] * x + to[1] * y + to[2];
                let (x, y) = (position(warp.to_x), position(warp.to_y));
                let one = 1 << WARP_FRACTION_BITS;
                match warp.interpolation {
                    Interpolation::Nearest => {
                        at((x + one / 2).div_euclid(one), (y + one / 2).div_euclid(one))
                    }
                    Interpolation::Bilinear => {
                        let (column, row) = (x.div_euclid(one), y.div_euclid(one));
                        let [f, g] = [x, y].map(|v| v.rem_euclid(one) as f64 / one as f64);
                        let mix = |a: [f64; 3], b: [f64; 3], f: f64| {
                            [0, 1, 2].map(|c| a[c] * (1.0 - f) + b[c] * f)
                        };
                        let above = mix(at(column, row), at(column + 1, row), f);
                        mix(
                            above,
                            mix(at(column, row + 1), at(column + 1, row + 1), f),
                            g,
                        )
                    }
                }
            }
        };
        rgb.map(|value| value.round().clamp(0.0, 255.0) as u8)
    }))
}

fn apply(matrix: &[[f64; 3]; 3], rgb: [f64; 3]) -> [f64; 3] {
    matrix.map(|row| row[0] * rgb[0] + row[1] * rgb[1] + row[2] * rgb[2])
}

/// The window of the resized picture, flipped, before any rounding.
struct ResizedWindow {
    width: i64,
    height: i64,
    pixels: Vec<[f64; 3]>,
}

impl ResizedWindow {
    fn new(picture: &Image, geometry: &Geometry) -> Self {
        let Geometry {
            crop,
            crop_subpixels,
            resized,
            window,
            filter,
            ..
        } = *geometry;
        let columns: Vec<_> = (window.x..window.x + window.width)
            .map(|x| taps(filter, (crop.x, crop.width, crop_subpixels.0), resized.0, x))
            .collect();
        let mut pixels = Vec::new();
        for y in 0..window.height {
            let y = if geometry.flip_vertical {
                window.height - 1 - y
            } else {
                y
            };
            let rows = taps(
                filter,
                (crop.y, crop.height, crop_subpixels.1),
                resized.1,
                window.y + y,
            );
            let filtered: Vec<_> = (0..picture.width)
                .map(|x| weighted(&rows, |y| picture.at(x, y).map(f64::from)))
                .collect();
            let row = columns
                .iter()
                .map(|taps| weighted(taps, |x| filtered[x as usize]));
            let start = pixels.len();
            pixels.extend(row);
            if geometry.flip_horizontal {
                pixels[start..].reverse();
            }
        }
        Self {
            width: i64::from(window.width),
            height: i64::from(window.height),
            pixels,
        }
    }

    fn at(&self, x: i64, y: i64) -> Option<[f64; 3]> {
        let inside = (0..self.width).contains(&x) && (0..self.height).contains(&y);
        inside.then(|| self.pixels[(y * self.width + x) as usize])
    }

    fn mean(&self) -> [f64; 3] {
        [0, 1, 2]
            .map(|c| self.pixels.iter().map(|rgb| rgb[c]).sum::<f64>() / self.pixels.len() as f64)
    }
}

fn weighted(taps: &[(u32, f64)], pixel: impl Fn(u32) -> [f64; 3]) -> [f64; 3] {
    let mut sums = [0.0; 3];
    for &(at, weight) in taps {
        for (sum, value) in sums.iter_mut().zip(pixel(at)) {
            *sum += weight * value;
        }
    }
    sums
}

/// The cubic convolution kernel with parameter `a`.
fn cubic(t: f64, a: f64) -> f64 {
    if t <= 1.0 {
        ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0
    } else if t < 2.0 {
        a * (((t - 5.0) * t + 8.0) * t - 4.0)
    } else {
        0.0
    }
}

/// The pixels with a weight for a position: those that overlap the crop (start and length in units
/// of 1 / grid pixel) and are within the kernel's reach.
fn taps(
    filter: Filter,
    (start, length, crop_subpixels): (u32, u32, u32),
    resized: u32,
    position: u32,
) -> Vec<(u32, f64)> {
    let [start, length, crop_subpixels, resized] =
        [start, length, crop_subpixels, resized].map(f64::from);
    let scale = length / crop_subpixels / resized;
    // Integers divided once, so that a center on the border of two pixels is exactly there.
    let centre = (2.0 * start * resized + (2.0 * f64::from(position) + 1.0) * length)
        / (2.0 * resized * crop_subpixels);
    let support = match filter {
        Filter::Triangle | Filter::Cubic => scale.max(1.0),
        Filter::Bilinear | Filter::Bicubic => 1.0,
        Filter::Nearest => return vec![(centre as u32, 1.0)],
    };
    let kernel = |x: f64| {
        let t = ((x + 0.5 - centre) / support).abs();
        match filter {
            Filter::Cubic => cubic(t, -0.5),
            Filter::Bicubic => cubic(t, -0.75),
            _ => (1.0 - t).max(0.0),
        }
    };
    let first = (start / crop_subpixels).floor();
    let last = ((start + length) / crop_subpixels).ceil() - 1.0;
    // `Bicubic` repeats the crop's edge.
    let beyond = if filter == Filter::Bicubic { 3 } else { 0 };
    let raw: Vec<_> = (first as i64 - beyond..=last as i64 + beyond)
        .map(|x| ((x as f64).clamp(first, last) as u32, kernel(x as f64)))
        .filter(|&(_, weight)| weight != 0.0)
        .collect();
    let total: f64 = raw.iter().map(|&(_, weight)| weight).sum();
    raw.into_iter()
        .map(|(x, weight)| (x, weight / total))
        .collect()
}
