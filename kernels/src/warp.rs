//! Computes a row of an affine map from the components of the window, and which of its pixels are
//! fill or at the window's edge. It never reads outside the window.

use std::ops::Range;

use crate::color::FULL_COVERAGE;
use crate::geometry::{Interpolation, WARP_FRACTION_BITS};

/// The components of a window, row by row without gaps.
#[derive(Clone, Copy)]
pub(crate) struct WindowPlanes<'a> {
    pub planes: [&'a [i16]; 3],
    pub width: usize,
    pub height: usize,
}

/// Positions of one output row in the window: pixel i reads at (x + i dx, y + i dy), in 2^-28
/// pixel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WarpRow {
    pub x: i64,
    pub y: i64,
    pub dx: i64,
    pub dy: i64,
}

/// Pixel ranges of an output row: `touched` reads at least one pixel of the window; `inner`, a part
/// of it, reads only the window.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WarpSpans {
    pub touched: Range<usize>,
    pub inner: Range<usize>,
}

const ONE_PIXEL: i64 = 1 << WARP_FRACTION_BITS;
/// Bits of a position below the 14 that are used for interpolation.
const FRACTION_SHIFT: u32 = WARP_FRACTION_BITS - 14;

impl WarpRow {
    /// The row of the map for output row j.
    pub(crate) fn new(to_x: [i64; 3], to_y: [i64; 3], j: usize) -> Self {
        let at = |to: [i64; 3]| to[1] * j as i64 + to[2];
        Self {
            x: at(to_x),
            y: at(to_y),
            dx: to_x[0],
            dy: to_y[0],
        }
    }

    /// The same positions with the rounding of nearest pixels added.
    fn rounded(self) -> Self {
        Self {
            x: self.x + ONE_PIXEL / 2,
            y: self.y + ONE_PIXEL / 2,
            ..self
        }
    }

    pub(crate) fn at(&self, i: usize) -> (i64, i64) {
        (self.x + self.dx * i as i64, self.y + self.dy * i as i64)
    }

    /// Classifies `length` pixels.
    pub(crate) fn spans(
        &self,
        interpolation: Interpolation,
        length: usize,
        window: &WindowPlanes<'_>,
    ) -> WarpSpans {
        let (width, height) = (
            window.width as i64 * ONE_PIXEL,
            window.height as i64 * ONE_PIXEL,
        );
        match interpolation {
            Interpolation::Nearest => {
                let line = self.rounded();
                let all = indices_within(line.x, line.dx, 0, width, length);
                let touched = intersect(all, indices_within(line.y, line.dy, 0, height, length));
                WarpSpans {
                    inner: touched.clone(),
                    touched,
                }
            }
            Interpolation::Bilinear => {
                let touched = intersect(
                    indices_within(self.x, self.dx, -ONE_PIXEL, width, length),
                    indices_within(self.y, self.dy, -ONE_PIXEL, height, length),
                );
                let inner = intersect(
                    indices_within(self.x, self.dx, 0, width - ONE_PIXEL, length),
                    indices_within(self.y, self.dy, 0, height - ONE_PIXEL, length),
                );
                let inner = if inner.is_empty() {
                    touched.start..touched.start
                } else {
                    inner
                };
                WarpSpans { touched, inner }
            }
        }
    }
}

/// The i below `length` for which `least <= start + i step < end`. They form one range, because
/// positions are monotonic.
fn indices_within(start: i64, step: i64, least: i64, end: i64, length: usize) -> Range<usize> {
    let clamped = |i: i64| i.clamp(0, length as i64) as usize;
    let (first, stop) = match step {
        0 if (least..end).contains(&start) => (0, length),
        0 => (0, 0),
        // The first i at or above a bound: the quotient rounded up.
        1.. => {
            let reaching = |bound: i64| -(start - bound).div_euclid(step);
            (clamped(reaching(least)), clamped(reaching(end)))
        }
        // The first i below a bound: one more than the quotient rounded down.
        _ => {
            let below = |bound: i64| (start - bound).div_euclid(-step) + 1;
            (clamped(below(end)), clamped(below(least)))
        }
    };
    first..stop.max(first)
}

fn intersect(a: Range<usize>, b: Range<usize>) -> Range<usize> {
    let (start, end) = (a.start.max(b.start), a.end.min(b.end));
    start..end.max(start)
}

/// Reads `out[0].len()` pixels from pixel `first` of a row, all of them inside the window.
#[inline(always)]
pub(crate) fn nearest_row(
    out: [&mut [i16]; 3],
    window: &WindowPlanes<'_>,
    line: &WarpRow,
    first: usize,
    components: usize,
) {
    let line = line.rounded();
    for (c, out) in out.into_iter().enumerate().take(components) {
        let plane = window.planes[c];
        let (mut x, mut y) = line.at(first);
        for out in out {
            *out = plane[(y >> WARP_FRACTION_BITS) as usize * window.width
                + (x >> WARP_FRACTION_BITS) as usize];
            x += line.dx;
            y += line.dy;
        }
    }
}

/// Like [`nearest_row`], but bilinear between four pixels.
#[inline(always)]
pub(crate) fn bilinear_row(
    out: [&mut [i16]; 3],
    window: &WindowPlanes<'_>,
    line: &WarpRow,
    first: usize,
    components: usize,
) {
    for (c, out) in out.into_iter().enumerate().take(components) {
        let plane = window.planes[c];
        let (mut x, mut y) = line.at(first);
        for out in out {
            let (column, row, f, g) = split(x, y);
            let at = row * window.width + column;
            let (above, below) = (&plane[at..at + 2], &plane[at + window.width..][..2]);
            *out = lerp(lerp(above[0], above[1], f), lerp(below[0], below[1], f), g);
            x += line.dx;
            y += line.dy;
        }
    }
}

/// Column and row of the pixel above and to the left of a position inside the window, and the
/// fraction from there, of 2^14.
#[inline(always)]
pub(crate) fn split(x: i64, y: i64) -> (usize, usize, i32, i32) {
    (
        (x >> WARP_FRACTION_BITS) as usize,
        (y >> WARP_FRACTION_BITS) as usize,
        fraction(x),
        fraction(y),
    )
}

/// The fraction of a position between two pixels, of 2^14.
#[inline(always)]
fn fraction(position: i64) -> i32 {
    (position >> FRACTION_SHIFT) as i32 & (FULL_COVERAGE - 1)
}

#[inline(always)]
fn lerp(a: i16, b: i16, f: i32) -> i16 {
    ((i32::from(a) * (FULL_COVERAGE - f) + i32::from(b) * f + FULL_COVERAGE / 2) >> 14) as i16
}

/// One pixel of a row near the window's edge: its components, with `zero` for pixels outside, and
/// its coverage.
pub(crate) fn edge_pixel(
    window: &WindowPlanes<'_>,
    line: &WarpRow,
    i: usize,
    zero: [i16; 3],
) -> ([i16; 3], i32) {
    let (x, y) = line.at(i);
    let (f, g) = (fraction(x), fraction(y));
    let (x0, y0) = (x >> WARP_FRACTION_BITS, y >> WARP_FRACTION_BITS);
    let column = |x: i64| usize::try_from(x).ok().filter(|&x| x < window.width);
    let row = |y: i64| usize::try_from(y).ok().filter(|&y| y < window.height);
    let components = [0, 1, 2].map(|c| {
        let tap = |x: i64, y: i64| match (column(x), row(y)) {
            (Some(x), Some(y)) => window.planes[c][y * window.width + x],
            _ => zero[c],
        };
        let (above, below) = (
            lerp(tap(x0, y0), tap(x0 + 1, y0), f),
            lerp(tap(x0, y0 + 1), tap(x0 + 1, y0 + 1), f),
        );
        lerp(above, below, g)
    });
    let share = |first: bool, second: bool, f: i32| {
        i32::from(first) * (FULL_COVERAGE - f) + i32::from(second) * f
    };
    let across = share(column(x0).is_some(), column(x0 + 1).is_some(), f);
    let down = share(row(y0).is_some(), row(y0 + 1).is_some(), g);
    (components, (across * down + FULL_COVERAGE / 2) >> 14)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_match_the_positions() {
        for start in [-7i64, -1, 0, 3, 10, 25] {
            for step in [-9i64, -3, -1, 0, 1, 2, 7] {
                for (least, end) in [(0, 10), (-4, 4), (5, 5), (0, 1)] {
                    let got: Vec<usize> = indices_within(start, step, least, end, 12).collect();
                    let expected: Vec<usize> = (0..12)
                        .filter(|&i| (least..end).contains(&(start + step * i as i64)))
                        .collect();
                    assert_eq!(got, expected, "{start} {step} {least} {end}");
                }
            }
        }
    }
}
