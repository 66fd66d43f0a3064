//! In: a frame and a geometry.
//! Out: the exact RGB of the frame (chroma repeated, rounded once to 8 bits), and its antialiased resize in `f64`.
//! Never: resamples YUV; this is the picture that users of torchvision would get.

use super::{check, components, is_yuv, sample, Image};
use crate::colour::Range;
use crate::error::PassError;
use crate::geometry::Geometry;
use crate::view::FrameView;

/// Full-size RGB as stored (unturned): the formula in `f64`, rounded to nearest and clamped.
pub fn full_size(frame: &FrameView<'_>) -> Result<Image, PassError> {
    frame.check()?;
    Ok(Image::from_fn(frame.width, frame.height, |x, y| pixel(frame, x, y)))
}

fn pixel(frame: &FrameView<'_>, x: u32, y: u32) -> [u8; 3] {
    let depth = i32::from(frame.depth_bits);
    let scale = 2f64.powi(depth - 8);
    let (black, luma_span, chroma_span) = match frame.colour.range {
        Range::Limited => (16.0 * scale, 219.0 * scale, 224.0 * scale),
        Range::Full => (0.0, 2f64.powi(depth) - 1.0, 2f64.powi(depth) - 1.0),
    };
    let code = |component| f64::from(sample(frame, component, x, y));
    let light = |component| (code(component) - black) / luma_span;
    let rgb = if is_yuv(frame) {
        let (kr, kb) = frame.colour.matrix.luma_weights();
        let zero = 2f64.powi(depth - 1);
        let (y, pb, pr) = (light(0), (code(1) - zero) / chroma_span, (code(2) - zero) / chroma_span);
        let r = y + 2.0 * (1.0 - kr) * pr;
        let b = y + 2.0 * (1.0 - kb) * pb;
        [r, (y - kr * r - kb * b) / (1.0 - kr - kb), b]
    } else if components(frame) == 1 {
        [light(0); 3]
    } else {
        [light(0), light(1), light(2)]
    };
    rgb.map(|value| (value * 255.0).round().clamp(0.0, 255.0) as u8)
}

/// The whole geometry on [`full_size`], as torchvision and PIL would do it, but in `f64` and rounded once.
pub fn reference(frame: &FrameView<'_>, geometry: &Geometry) -> Result<Image, PassError> {
    check(frame, geometry)?;
    let picture = full_size(frame)?.oriented(geometry.orientation);
    let columns = triangle(geometry.crop.width, geometry.resized.0);
    let rows = triangle(geometry.crop.height, geometry.resized.1);
    let crop = geometry.crop;
    let window = geometry.window;
    // Rows of the window, at every column of the crop.
    let mut tall = Vec::new();
    for y in window.y..window.y + window.height {
        let (first, weights) = &rows[y as usize];
        for x in 0..crop.width {
            let mut sums = [0.0; 3];
            for (tap, weight) in (*first..).zip(weights) {
                let pixel = picture.at(crop.x + x, crop.y + tap);
                for c in 0..3 {
                    sums[c] += weight * f64::from(pixel[c]);
                }
            }
            tall.push(sums);
        }
    }
    Ok(Image::from_fn(window.width, window.height, |x, y| {
        let x = if geometry.flip_horizontal { window.width - 1 - x } else { x };
        let y = if geometry.flip_vertical { window.height - 1 - y } else { y };
        let (first, weights) = &columns[(window.x + x) as usize];
        let mut sums = [0.0; 3];
        for (tap, weight) in (*first..).zip(weights) {
            let pixel: [f64; 3] = tall[y as usize * crop.width as usize + tap as usize];
            for c in 0..3 {
                sums[c] += weight * pixel[c];
            }
        }
        sums.map(|value| value.round().clamp(0.0, 255.0) as u8)
    }))
}

/// First tap and weights of every output position, as PIL's `precompute_coeffs` lays them down.
fn triangle(length: u32, resized: u32) -> Vec<(u32, Vec<f64>)> {
    let scale = f64::from(length) / f64::from(resized);
    let support = scale.max(1.0);
    (0..resized)
        .map(|position| {
            let centre = (f64::from(position) + 0.5) * scale;
            let first = (centre - support + 0.5).max(0.0) as u32;
            let end = ((centre + support + 0.5) as u32).min(length);
            let raw: Vec<_> = (first..end)
                .map(|x| (1.0 - ((f64::from(x) + 0.5 - centre) / support).abs()).max(0.0))
                .collect();
            let total: f64 = raw.iter().sum();
            (first, raw.into_iter().map(|weight| weight / total).collect())
        })
        .collect()
}
