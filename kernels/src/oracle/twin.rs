//! In: a frame and a geometry.
//! Out: what CONTRACT.md says, one output pixel at a time.
//! Never: looks at how the pass does it: no tables, no folded chroma, no axes carried back.

use super::{check, components, is_yuv, sample, Image};
use crate::colour::{Matrix, Range};
use crate::error::PassError;
use crate::geometry::Geometry;
use crate::view::FrameView;

/// The contract, naively. Its pixels are the 8-bit result of the pass in display order, before dtype and layout.
pub fn twin(frame: &FrameView<'_>, geometry: &Geometry) -> Result<Image, PassError> {
    check(frame, geometry)?;
    // Step 1: the displayed picture as a map of stored positions; what follows happens in stored axes.
    let turns = geometry.orientation.quarter_turns_cw % 4;
    let (crop, resized, window) = (geometry.crop, geometry.resized, geometry.window);
    let unturn = |(x, y): (u32, u32), (stored_width, stored_height): (u32, u32)| {
        let (x, y) = match turns {
            0 => (x, y),
            1 => (y, stored_height - 1 - x),
            2 => (stored_width - 1 - x, stored_height - 1 - y),
            _ => (stored_width - 1 - y, x),
        };
        (if geometry.orientation.mirror { stored_width - 1 - x } else { x }, y)
    };
    let swap = |(width, height): (u32, u32)| if turns % 2 == 1 { (height, width) } else { (width, height) };
    // Stored top-left corner and size of the crop: from its two opposite corners.
    let size = (frame.width, frame.height);
    let one = unturn((crop.x, crop.y), size);
    let other = unturn((crop.x + crop.width - 1, crop.y + crop.height - 1), size);
    let corner = (one.0.min(other.0), one.1.min(other.1));
    let crop_size = swap((crop.width, crop.height));
    let resized_size = swap(resized);
    Ok(Image::from_fn(window.width, window.height, |x, y| {
        let x = if geometry.flip_horizontal { window.width - 1 - x } else { x };
        let y = if geometry.flip_vertical { window.height - 1 - y } else { y };
        let (i, j) = unturn((window.x + x, window.y + y), resized_size);
        let columns = weights(crop_size.0, resized_size.0, i);
        let rows = weights(crop_size.1, resized_size.1, j);
        let mut values = [0i64; 3];
        for (component, value) in values.iter_mut().enumerate().take(components(frame)) {
            let mut across = 0;
            for &(column, column_weight) in &columns {
                let mut down = 0;
                for &(row, row_weight) in &rows {
                    down +=
                        row_weight * i64::from(sample(frame, component, corner.0 + column, corner.1 + row));
                }
                // Step 2: 14 bits of weight, depth bits of sample, to 15 bits.
                let shift = frame.depth_bits - 1;
                across += column_weight * ((down + (1 << (shift - 1))) >> shift).min(32_767);
            }
            // Step 3.
            *value = (across + (1 << 13)) >> 14;
        }
        colour(frame, values)
    }))
}

/// Luma positions inside the crop that matter to a position, with 14-bit weights.
fn weights(length: u32, resized: u32, position: u32) -> Vec<(u32, i64)> {
    let (n, m, position) = (i64::from(length), i64::from(resized), i64::from(position));
    let raw = |x: i64| (2 * n.max(m) - ((2 * x + 1) * m - (2 * position + 1) * n).abs()).max(0);
    let total: i64 = (0..n).map(raw).sum();
    let (mut sum, mut list) = (0, Vec::new());
    for x in 0..n {
        let before = (2 * sum * 16_384 + total).div_euclid(2 * total);
        sum += raw(x);
        let weight = (2 * sum * 16_384 + total).div_euclid(2 * total) - before;
        if weight > 0 {
            list.push((x as u32, weight));
        }
    }
    list
}

/// Step 4: three 15-bit components to three 8-bit colours.
fn colour(frame: &FrameView<'_>, [first, second, third]: [i64; 3]) -> [u8; 3] {
    let (kr, kb): (f64, f64) = match frame.colour.matrix {
        Matrix::Bt601 => (0.299, 0.114),
        Matrix::Bt709 => (0.2126, 0.0722),
        Matrix::Bt2020Ncl => (0.2627, 0.0593),
        Matrix::Rgb => (0.0, 0.0),
    };
    let kg = 1.0 - kr - kb;
    let codes = 2f64.powi(i32::from(frame.depth_bits));
    let full = 255.0 / 256.0 * codes / (codes - 1.0);
    let (black, luma, chroma) = match frame.colour.range {
        Range::Limited => (2048, 255.0 / 219.0, 255.0 / 224.0),
        Range::Full => (0, full, full),
    };
    let fixed = |value: f64| (value * 8192.0).round() as i64;
    let finish = |sum: i64| ((sum + (1 << 19)) >> 20).clamp(0, 255) as u8;
    let light = |value: i64| (value - black) * fixed(luma);
    if is_yuv(frame) {
        let (y, u, v) = (light(first), second - 16_384, third - 16_384);
        [
            finish(y + v * fixed(chroma * 2.0 * (1.0 - kr))),
            finish(
                y + u * fixed(-chroma * 2.0 * (1.0 - kb) * kb / kg)
                    + v * fixed(-chroma * 2.0 * (1.0 - kr) * kr / kg),
            ),
            finish(y + u * fixed(chroma * 2.0 * (1.0 - kb))),
        ]
    } else if components(frame) == 1 {
        [finish(light(first)); 3]
    } else {
        [first, second, third].map(|value| finish(light(value)))
    }
}
