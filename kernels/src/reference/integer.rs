//! SPEC.md up to step 5, one output pixel at a time, without the pass's tables, folded chroma or
//! spans.

use super::color::ColorTransform;
use super::{Image, check, components, sample};
use crate::error::PassError;
use crate::frame::FrameView;
use crate::geometry::{Filter, Geometry, Interpolation, Orientation, Placement, Warp};
use crate::output_spec::OutputSpec;
use crate::tone_map::ToneTables;
use crate::types::Rect;

/// The contract in plain loops. Its pixels are the 8-bit colors of the output in display order,
/// before masks, dtype and layout.
pub fn integer(
    frame: &FrameView<'_>,
    geometry: &Geometry,
    spec: &OutputSpec,
) -> Result<Image, PassError> {
    each(
        frame,
        geometry,
        spec,
        |color_transform, values, coverage, mean| color_transform.color(values, coverage, mean),
    )
}

/// The same in 16-bit colors.
pub(crate) fn integer_u16(
    frame: &FrameView<'_>,
    geometry: &Geometry,
    spec: &OutputSpec,
) -> Result<Image<u16>, PassError> {
    each(
        frame,
        geometry,
        spec,
        |color_transform, values, coverage, mean| color_transform.color_u16(values, coverage, mean),
    )
}

fn each<Code: Copy>(
    frame: &FrameView<'_>,
    geometry: &Geometry,
    spec: &OutputSpec,
    color: impl Fn(&ColorTransform, [i64; 3], i64, [i64; 3]) -> [Code; 3],
) -> Result<Image<Code>, PassError> {
    check(frame, geometry, spec)?;
    let color_transform = ColorTransform::new(frame, spec)?;
    let mut window = WindowComponents::new(frame, geometry);
    if let Some(tone) = spec.tone {
        let (tone, plain) = (tone.tables()?, OutputSpec::new(spec.dtype));
        let source = ColorTransform::new(frame, &plain)?;
        for values in &mut window.values {
            *values = tone_map_pixel(&tone, source.color_u16(*values, 1 << 14, [0; 3]));
        }
    }
    let mean = window.mean();
    let (width, height) = geometry.output_size();
    Ok(Image::from_fn(width, height, |x, y| {
        let (values, coverage) = components_at(
            geometry,
            &window,
            color_transform.zero,
            (i64::from(x), i64::from(y)),
        );
        color(&color_transform, values, coverage, mean)
    }))
}

/// Tone mapping of SPEC.md: 16-bit codes of R, G, B to components.
fn tone_map_pixel(tone: &ToneTables, codes: [u16; 3]) -> [i64; 3] {
    let light = codes.map(|code| {
        let (n, part) = (usize::from(code) / 16, i128::from(code % 16));
        (i128::from(tone.light[n]) * (16 - part) + i128::from(tone.light[n + 1]) * part + 8) / 16
    });
    let weighed = |factors: [i128; 3], values: [i128; 3]| {
        (0..3).map(|k| factors[k] * values[k]).sum::<i128>()
    };
    let luminance = weighed(tone.weights.map(i128::from), light) >> 14;
    let gain = interpolate_table(&tone.gain, luminance);
    let light = light.map(|light| (light * gain / (1 << 24)).min(1 << 30));
    tone.gamut.map(|row| {
        let light = ((weighed(row.map(i128::from), light) + (1 << 23)) >> 24).clamp(0, 1 << 24);
        interpolate_table(&tone.code, light) as i64
    })
}

/// Entries are at all numbers below 256, then at 128 numbers of each power of two.
fn interpolate_table(table: &[u32], value: i128) -> i128 {
    let (mut place, mut step) = (value, 1i128);
    while place >= 256 {
        (place, step) = (place / 2, step * 2);
    }
    let octave = i128::from(step.ilog2());
    let at = (128 * octave + place) as usize;
    let (a, b) = (i128::from(table[at]), i128::from(table[at + 1]));
    a + ((b - a) * (value - place * step)).div_euclid(step)
}

/// The stored position of a displayed position, by the table of the contract; `far` is the stored
/// frame's last position on each axis.
fn to_stored_position(orientation: Orientation, (x, y): (i64, i64), far: (i64, i64)) -> (i64, i64) {
    let (x, y) = match orientation.quarter_turns_cw % 4 {
        0 => (x, y),
        1 => (y, far.1 - x),
        2 => (far.0 - x, far.1 - y),
        _ => (far.0 - y, x),
    };
    (if orientation.mirror { far.0 - x } else { x }, y)
}

/// Swaps width and height for odd quarter turns.
fn to_stored_size(orientation: Orientation, (width, height): (u32, u32)) -> (i64, i64) {
    let (width, height) = (i64::from(width), i64::from(height));
    if orientation.quarter_turns_cw % 2 == 1 {
        (height, width)
    } else {
        (width, height)
    }
}

/// Corner and size of a displayed rectangle in a stored frame of this size: from its two opposite
/// corners.
fn to_stored_rect(
    orientation: Orientation,
    rect: Rect,
    size: (i64, i64),
) -> ((i64, i64), (i64, i64)) {
    let [x, y, width, height] = [rect.x, rect.y, rect.width, rect.height].map(i64::from);
    let far = (size.0 - 1, size.1 - 1);
    let one = to_stored_position(orientation, (x, y), far);
    let other = to_stored_position(orientation, (x + width - 1, y + height - 1), far);
    let corner = (one.0.min(other.0), one.1.min(other.1));
    (
        corner,
        (
            one.0.max(other.0) - corner.0 + 1,
            one.1.max(other.1) - corner.1 + 1,
        ),
    )
}

/// The components of the window in stored axes: steps 1 to 3.
struct WindowComponents {
    width: i64,
    height: i64,
    values: Vec<[i64; 3]>,
}

impl WindowComponents {
    fn new(frame: &FrameView<'_>, geometry: &Geometry) -> Self {
        let turned = geometry.orientation;
        let crop_subpixels = to_stored_size(turned, geometry.crop_subpixels);
        let fine = (
            i64::from(frame.width) * crop_subpixels.0,
            i64::from(frame.height) * crop_subpixels.1,
        );
        let resized = to_stored_size(turned, geometry.resized);
        let (crop, crop_size) = to_stored_rect(turned, geometry.crop, fine);
        let (corner, (width, height)) = to_stored_rect(turned, geometry.window, resized);
        let columns: Vec<_> = (corner.0..corner.0 + width)
            .map(|r| {
                weights(
                    geometry.filter,
                    crop.0,
                    crop_size.0,
                    crop_subpixels.0,
                    resized.0,
                    r,
                )
            })
            .collect();
        let mut needed = vec![false; frame.width as usize];
        for &(column, _) in columns.iter().flatten() {
            needed[column as usize] = true;
        }
        let mut values = Vec::new();
        for r in corner.1..corner.1 + height {
            let rows = weights(
                geometry.filter,
                crop.1,
                crop_size.1,
                crop_subpixels.1,
                resized.1,
                r,
            );
            let filtered: Vec<[i64; 3]> = (0..frame.width)
                .map(|column| {
                    if needed[column as usize] {
                        vertical_sum(frame, column, &rows)
                    } else {
                        [0; 3]
                    }
                })
                .collect();
            for taps in &columns {
                let mut sums = [1 << 13; 3];
                for &(column, weight) in taps {
                    for (sum, value) in sums.iter_mut().zip(filtered[column as usize]) {
                        *sum += weight * value;
                    }
                }
                values.push(sums.map(|sum| (sum >> 14).clamp(0, 32_767))); // step 3
            }
        }
        Self {
            width,
            height,
            values,
        }
    }

    fn at(&self, x: i64, y: i64) -> Option<[i64; 3]> {
        let inside = (0..self.width).contains(&x) && (0..self.height).contains(&y);
        inside.then(|| self.values[(y * self.width + x) as usize])
    }

    fn mean(&self) -> [i64; 3] {
        let count = self.width * self.height;
        [0, 1, 2].map(|k| {
            let sum: i64 = self.values.iter().map(|value| value[k]).sum();
            (2 * sum + count) / (2 * count)
        })
    }
}

/// Step 2 of one column of luma pixels, chroma repeated.
fn vertical_sum(frame: &FrameView<'_>, column: u32, rows: &[(u32, i64)]) -> [i64; 3] {
    let mut values = [0; 3];
    let d = frame.depth_bits;
    for (component, value) in values.iter_mut().enumerate().take(components(frame)) {
        let sum: i64 = rows
            .iter()
            .map(|&(row, weight)| weight * i64::from(sample(frame, component, column, row)))
            .sum();
        *value = ((sum + (1 << (d - 2))) >> (d - 1)).clamp(0, 32_767);
    }
    values
}

/// Step 1: the pixels with a weight for position r, with 14-bit weights.
fn weights(filter: Filter, a: i64, n: i64, g: i64, m: i64, r: i64) -> Vec<(u32, i64)> {
    if filter == Filter::Nearest {
        return vec![(
            ((2 * a * m + (2 * r + 1) * n) / (2 * m * g)) as u32,
            1 << 14,
        )];
    }
    let scale = match filter {
        Filter::Bilinear | Filter::Bicubic => 2 * m * g,
        _ => 2 * n.max(m * g),
    };
    let pixels = a / g..(a + n + g - 1) / g;
    let raw = |x: i64| {
        let distance = ((2 * x + 1) * m * g - 2 * a * m - (2 * r + 1) * n).abs();
        match filter {
            Filter::Cubic => cubic_weight(distance, scale, 2),
            Filter::Bicubic => cubic_weight(distance, scale, 3),
            _ => i128::from((scale - distance).max(0)),
        }
    };
    // The pixels that a pixel stands for: at the crop's edge of `bicubic`, those outside that are
    // near enough.
    let beyond = if filter == Filter::Bicubic { 3 } else { 0 };
    let covered = |x: i64| {
        let first = if x == pixels.start { x - beyond } else { x };
        let last = if x == pixels.end - 1 { x + beyond } else { x };
        (first..=last).map(raw).sum::<i128>()
    };
    let total: i128 = pixels.clone().map(covered).sum();
    let round = |sum: i128| (2 * sum * (1 << 14) + total).div_euclid(2 * total) as i64;
    let (mut before, mut list) = (0, Vec::new());
    for x in pixels.clone() {
        let up_to = before + covered(x);
        list.push((x as u32, round(up_to) - round(before)));
        before = up_to;
    }
    list.retain(|&(_, weight)| weight != 0);
    list
}

/// The cubic weight of step 1.
fn cubic_weight(distance: i64, scale: i64, k: i128) -> i128 {
    let (one, u) = (
        1i128 << 16,
        i128::from(distance) * (1 << 16) / i128::from(scale),
    );
    let sum = if u <= one {
        (8 - k) * u.pow(3) - (12 - k) * one * u.pow(2) + 4 * one.pow(3)
    } else if u < 2 * one {
        k * (5 * one * u.pow(2) - u.pow(3) - 8 * one.pow(2) * u + 4 * one.pow(3))
    } else {
        0
    };
    sum.div_euclid(1 << 20)
}

/// Step 4: components and coverage of output pixel (x, y).
fn components_at(
    geometry: &Geometry,
    window: &WindowComponents,
    zero: [i64; 3],
    (x, y): (i64, i64),
) -> ([i64; 3], i64) {
    let whole = |pixel: Option<[i64; 3]>| pixel.map_or((zero, 0), |values| (values, 1 << 14));
    let (x, y) = match geometry.placement {
        Placement::Identity => (x, y),
        Placement::Canvas {
            x: left, y: top, ..
        } => (x - i64::from(left), y - i64::from(top)),
        Placement::Warp(Warp {
            to_x,
            to_y,
            interpolation,
            ..
        }) => {
            let position = |to: [i64; 3]| to[0] * x + to[1] * y + to[2];
            let (x, y) =
                to_stored_window(geometry, window, (position(to_x), position(to_y)), 1 << 28);
            return match interpolation {
                Interpolation::Nearest => {
                    whole(window.at((x + (1 << 27)) >> 28, (y + (1 << 27)) >> 28))
                }
                Interpolation::Bilinear => bilinear(window, zero, x, y),
            };
        }
    };
    let (x, y) = to_stored_window(geometry, window, (x, y), 1);
    whole(window.at(x, y))
}

/// Converts a position in the flipped, displayed window to the stored one; `unit` is the distance
/// of two pixels.
fn to_stored_window(
    geometry: &Geometry,
    window: &WindowComponents,
    (x, y): (i64, i64),
    unit: i64,
) -> (i64, i64) {
    let shown = geometry.window;
    let x = if geometry.flip_horizontal {
        i64::from(shown.width - 1) * unit - x
    } else {
        x
    };
    let y = if geometry.flip_vertical {
        i64::from(shown.height - 1) * unit - y
    } else {
        y
    };
    to_stored_position(
        geometry.orientation,
        (x, y),
        ((window.width - 1) * unit, (window.height - 1) * unit),
    )
}

/// The bilinear interpolation of step 4.
fn bilinear(window: &WindowComponents, zero: [i64; 3], x: i64, y: i64) -> ([i64; 3], i64) {
    let (x0, y0) = (x >> 28, y >> 28);
    let (f, g) = ((x >> 14) & 16_383, (y >> 14) & 16_383);
    let mix = |a: i64, b: i64, f: i64| (a * (16_384 - f) + b * f + 8192) >> 14;
    let tap = |x, y, k: usize| window.at(x, y).map_or(zero[k], |values| values[k]);
    let values = [0, 1, 2].map(|k| {
        let above = mix(tap(x0, y0, k), tap(x0 + 1, y0, k), f);
        let below = mix(tap(x0, y0 + 1, k), tap(x0 + 1, y0 + 1, k), f);
        mix(above, below, g)
    });
    let inside = |at: i64, length: i64| i64::from((0..length).contains(&at));
    let across = inside(x0, window.width) * (16_384 - f) + inside(x0 + 1, window.width) * f;
    let down = inside(y0, window.height) * (16_384 - g) + inside(y0 + 1, window.height) * g;
    (values, (across * down + 8192) >> 14)
}
