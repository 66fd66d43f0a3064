//! Computes sizes, crops, affine maps and grids as torchvision and DALI do, and composes maps and
//! crops. The functions do not depend on a transform pipeline or on earlier steps.

use framespool_kernels::{MAX_SIDE, MaskGrid, Rect};

use super::transform::{CropPositions, Size, Target, UniformRange};
use crate::error::{Error, Result};
use crate::rng::Rng;

/// An affine map between frames whose pixels are unit squares: (x, y) maps to (a x + b y + c, d x +
/// e y + f).
pub type Map = [[f64; 3]; 2];

/// The map that changes nothing.
pub(super) const IDENTITY: Map = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]];

/// Half of `spare`, rounded half to even, as torchvision's `center_crop` does.
pub(super) fn center(spare: u32) -> u32 {
    spare / 2 + u32::from(spare % 4 == 3)
}

/// Largest ratio of the sides for `Target::Multiple`.
const MAX_RATIO: u32 = 200;

/// The size whose ratio of the sides differs least, by its factor, from that of a frame of this size;
/// the first one of several.
pub(super) fn nearest_in_shape((width, height): (u32, u32), sizes: &[Size]) -> Result<Size> {
    // The factor between two ratios, as a fraction of at least 1.
    let factor = |size: &Size| {
        let products = (
            u128::from(width) * u128::from(size.height),
            u128::from(height) * u128::from(size.width),
        );
        (products.0.max(products.1), products.0.min(products.1))
    };
    let by_factor = |a: &&Size, b: &&Size| {
        let ((above, below), (other_above, other_below)) = (factor(a), factor(b));
        (above * other_below).cmp(&(other_above * below))
    };
    let nearest = sizes.iter().min_by(by_factor);
    nearest
        .copied()
        .ok_or_else(|| Error::Argument("ResizeToNearest: give at least one size".into()))
}

/// (width, height) of a frame of this size after a resize; it is one of `frames` of a clip.
pub(super) fn resized(
    target: Target,
    (width, height): (u32, u32),
    frames: usize,
) -> Result<(u32, u32)> {
    let follow = |size: u32, side: u32, base: u32| {
        ((u64::from(size) * u64::from(side)) / u64::from(base)).max(1)
    };
    let (w, h) = match target {
        Target::Exact(size) => (u64::from(size.width), u64::from(size.height)),
        Target::Cover(size) if is_wider((width, height), size) => (
            proportion(width, size.height, height).max(size.width.into()),
            size.height.into(),
        ),
        Target::Cover(size) => (
            size.width.into(),
            proportion(height, size.width, width).max(size.height.into()),
        ),
        Target::Multiple {
            factor,
            min_pixels,
            max_pixels,
            total_pixels,
        } => {
            let (long, short) = (width.max(height), width.min(height));
            if u64::from(long) > u64::from(short) * u64::from(MAX_RATIO) {
                return Err(Error::Argument(format!(
                    "SmartResize: a frame of {width}x{height} is too narrow: the sides may differ by a factor of at \
                     most {MAX_RATIO}"
                )));
            }
            let most = match total_pixels {
                Some(total) => {
                    let share = total as f64 / frames.max(1) as f64 * 2.0;
                    share
                        .max((min_pixels as f64 * 1.05).trunc())
                        .min(max_pixels as f64)
                }
                None => max_pixels as f64,
            };
            multiple((width, height), factor, min_pixels as f64, most)
        }
        Target::Longer(size) if width >= height => (u64::from(size), follow(size, height, width)),
        Target::Longer(size) => (follow(size, width, height), u64::from(size)),
        Target::Shorter { size, longest } => {
            let (short, long) = (width.min(height), width.max(height));
            let (mut new_short, mut new_long) = (u64::from(size), follow(size, long, short));
            if let Some(longest) = longest.map(u64::from).filter(|&longest| new_long > longest) {
                (new_short, new_long) = ((longest * new_short / new_long).max(1), longest);
            }
            if width <= height {
                (new_short, new_long)
            } else {
                (new_long, new_short)
            }
        }
    };
    let side = |v: u64| u32::try_from(v).ok().filter(|&v| v <= MAX_SIDE);
    side(w).zip(side(h)).ok_or_else(|| {
        let way_out = if matches!(target, Target::Cover(_)) { "crop the frame before it" } else { "use max_size" };
        Error::Argument(format!(
            "Resize makes {w}x{h} of a frame of {width}x{height}: a side may be at most {MAX_SIDE} pixels; {way_out}"
        ))
    })
}

/// `side * to / from`, rounded, at least 1: the length of one side if the other one, of length
/// `from`, becomes `to`.
pub(super) fn proportion(side: u32, to: u32, from: u32) -> u64 {
    let from = u64::from(from);
    ((u64::from(side) * u64::from(to) * 2 + from) / (2 * from)).max(1)
}

/// Whether a frame is at least as wide as this size, in proportion to the height.
pub(super) fn is_wider((width, height): (u32, u32), size: Size) -> bool {
    u64::from(width) * u64::from(size.height) >= u64::from(height) * u64::from(size.width)
}

/// Sides that are multiples of `factor`, of about the same ratio, with `least` to `most` pixels:
/// `smart_resize` of qwen-vl-utils and of the image processors of transformers.
fn multiple((width, height): (u32, u32), factor: u32, least: f64, most: f64) -> (u64, u64) {
    let factor = f64::from(factor);
    let sides = [f64::from(width), f64::from(height)];
    let area = sides[0] * sides[1];
    let nearest = sides.map(|side| ((side / factor).round_ties_even() * factor).max(factor));
    let pixels = nearest[0] * nearest[1];
    let [w, h] = if pixels > most {
        let beta = (area / most).sqrt();
        sides.map(|side| ((side / beta / factor).floor() * factor).max(factor))
    } else if pixels < least {
        let beta = (least / area).sqrt();
        sides.map(|side| (side * beta / factor).ceil() * factor)
    } else {
        nearest
    };
    (w as u64, h as u64)
}

pub(super) fn uniform(span: UniformRange, rng: &mut Rng) -> f64 {
    span.low + (span.high - span.low) * rng.next_f64()
}

pub(super) fn log_uniform(span: UniformRange, rng: &mut Rng) -> f64 {
    uniform(UniformRange::new(span.low.ln(), span.high.ln()), rng).exp()
}

/// torchvision's `RandomResizedCrop.get_params`: ten tries, then the center crop with the nearest
/// allowed ratio.
pub(super) fn part_of(
    (width, height): (u32, u32),
    scale: UniformRange,
    ratio: UniformRange,
    rng: &mut Rng,
) -> Rect {
    let area = f64::from(width) * f64::from(height);
    for _ in 0..10 {
        let target = area * uniform(scale, rng);
        let aspect = log_uniform(ratio, rng);
        let w = (target * aspect).sqrt().round_ties_even();
        let h = (target / aspect).sqrt().round_ties_even();
        if (1.0..=f64::from(width)).contains(&w) && (1.0..=f64::from(height)).contains(&h) {
            let (w, h) = (w as u32, h as u32);
            let y = rng.next_below(u64::from(height - h) + 1) as u32;
            let x = rng.next_below(u64::from(width - w) + 1) as u32;
            return Rect {
                x,
                y,
                width: w,
                height: h,
            };
        }
    }
    let own = f64::from(width) / f64::from(height);
    let (w, h) = if own < ratio.low {
        (
            width,
            (f64::from(width) / ratio.low).round_ties_even() as u32,
        )
    } else if own > ratio.high {
        (
            (f64::from(height) * ratio.high).round_ties_even() as u32,
            height,
        )
    } else {
        (width, height)
    };
    let (w, h) = (w.clamp(1, width), h.clamp(1, height));
    Rect {
        x: (width - w) / 2,
        y: (height - h) / 2,
        width: w,
        height: h,
    }
}

/// The part that the multi-scale crop of TSN (Wang et al., "Temporal Segment Networks", 2016) takes
/// of a frame: both sides are products of the shorter side with a scale each, and a side that is
/// less than 3 pixels off the result's becomes equal to it, if the frame has it.
pub(super) fn multi_scale_part(
    (width, height): (u32, u32),
    size: Size,
    scales: &[f64],
    max_distort: u32,
    positions: CropPositions,
    rng: &mut Rng,
) -> Rect {
    let shorter = width.min(height);
    let pairs = || {
        let all =
            (0..scales.len()).flat_map(|down| (0..scales.len()).map(move |across| (down, across)));
        all.filter(|(down, across)| down.abs_diff(*across) <= max_distort as usize)
    };
    let drawn = rng.next_below(pairs().count() as u64) as usize;
    let (down, across) = pairs()
        .nth(drawn)
        .expect("equal positions are a pair, and one was counted");
    let side = |scale: f64, wanted: u32, most: u32| {
        let length = ((f64::from(shorter) * scale) as u32).clamp(1, most);
        if length.abs_diff(wanted) < 3 && wanted <= most {
            wanted
        } else {
            length
        }
    };
    let (h, w) = (
        side(scales[down], size.height, height),
        side(scales[across], size.width, width),
    );
    let (right, bottom) = (width - w, height - h);
    // Multiples of a quarter of the free space, across and down.
    const QUARTERS: [(u32, u32); 13] = [
        (0, 0),
        (4, 0),
        (0, 4),
        (4, 4),
        (2, 2),
        (0, 2),
        (4, 2),
        (2, 4),
        (2, 0),
        (1, 1),
        (3, 1),
        (1, 3),
        (3, 3),
    ];
    let (x, y) = match positions {
        CropPositions::Any => {
            let x = rng.next_below(u64::from(right) + 1) as u32;
            (x, rng.next_below(u64::from(bottom) + 1) as u32)
        }
        fixed => {
            let count = if fixed == CropPositions::Five {
                5
            } else {
                QUARTERS.len() as u64
            };
            let (across, down) = QUARTERS[rng.next_below(count) as usize];
            (right / 4 * across, bottom / 4 * down)
        }
    };
    Rect {
        x,
        y,
        width: w,
        height: h,
    }
}

/// The map from the new frame back to the old one, for shear, scale and rotation (clockwise as
/// displayed) about a center, then a translation: torchvision's `_get_inverse_affine_matrix`.
pub(super) fn inverse_affine(
    degrees: f64,
    scale: f64,
    (shear_x, shear_y): (f64, f64),
    (shift_x, shift_y): (f64, f64),
    (centre_x, centre_y): (f64, f64),
) -> Map {
    let (turn, sx, sy) = (
        degrees.to_radians(),
        shear_x.to_radians(),
        shear_y.to_radians(),
    );
    let a = (turn - sy).cos() / sy.cos();
    let b = -(turn - sy).cos() * sx.tan() / sy.cos() - turn.sin();
    let c = (turn - sy).sin() / sy.cos();
    let d = -(turn - sy).sin() * sx.tan() / sy.cos() + turn.cos();
    // The forward map is scale * [a b; c d], with determinant scale^2.
    [[d, -b, centre_x], [-c, a, centre_y]].map(|[p, q, center]| {
        let (p, q) = (p / scale, q / scale);
        [
            p,
            q,
            center - p * (centre_x + shift_x) - q * (centre_y + shift_y),
        ]
    })
}

/// Width and height that hold the whole frame after a rotation by the inverse of `back`. As in
/// torchvision, the position of either side is rounded outward, except after a quarter turn: the
/// sides change places.
pub(super) fn expanded(back: &Map, (width, height): (f64, f64)) -> (u32, u32) {
    let [[p, q, _], [r, s, _]] = *back;
    // cos(90 degrees) in `f64`, scaled to any frame, is far below this.
    if p.abs().max(s.abs()) < 1e-12 {
        return (height as u32, width as u32);
    }
    let determinant = p * s - q * r;
    // Half the extent of the corners about the center, in the forward direction.
    let reach = |a: f64, b: f64| ((a * width).abs() + (b * height).abs()) / 2.0;
    // First truncated to four digits, as in torchvision, so that right angles do not enlarge the
    // frame by rounding. torchvision computes this in `f32`, which hides the last digits of values
    // next to an integer.
    let cut = |place: f64| (place * 1e4 + 1e-6).trunc() / 1e4;
    let side = |length: f64, reach: f64| {
        let (first, end) = (
            cut(length / 2.0 - reach).floor(),
            cut(length / 2.0 + reach).ceil(),
        );
        (end - first).clamp(1.0, f64::from(MAX_SIDE)) as u32
    };
    (
        side(width, reach(s / determinant, q / determinant)),
        side(height, reach(r / determinant, p / determinant)),
    )
}

/// DALI's `grid_mask`, with shifts in tiles: pixel (x, y) is covered where both `(x cos - y sin) /
/// tile - shift_x` and `(x sin + y cos) / tile - shift_y` have a fraction below `ratio`. Phases are
/// in units of 2^-32 tile.
pub(super) fn grid(
    tile: f64,
    ratio: f64,
    degrees: f64,
    (shift_x, shift_y): (f64, f64),
) -> MaskGrid {
    let (sin, cos) = degrees.to_radians().sin_cos();
    let turn = 4_294_967_296.0;
    // Steps and phases wrap around, so only their fractions matter.
    let phase = |tiles: f64| (tiles.rem_euclid(1.0) * turn).round() as u64 as u32;
    // Steps are rounded, and 65535 of them across and down are off by up to 2^16. This offset makes
    // a pixel whose phase should be whole, or exactly at the ratio, count as such.
    let exact = 1 << 17;
    MaskGrid {
        step_x: [phase(cos / tile), phase(-sin / tile)],
        step_y: [phase(sin / tile), phase(cos / tile)],
        start: [
            phase(-shift_x).wrapping_add(exact),
            phase(-shift_y).wrapping_add(exact),
        ],
        limit: (ratio.clamp(0.0, 1.0) * turn).round() as u64,
    }
}

/// The map that applies `second`, and then `first` to its result.
pub(super) fn after(first: &Map, second: &Map) -> Map {
    first.map(|[a, b, c]| {
        let column = |k: usize| a * second[0][k] + b * second[1][k];
        [column(0), column(1), column(2) + c]
    })
}

/// The inverse of a map whose determinant is not 0.
pub(super) fn inverse([[a, b, c], [d, e, f]]: &Map) -> Map {
    let determinant = a * e - b * d;
    let [[a, b], [d, e]] = [
        [e / determinant, -b / determinant],
        [-d / determinant, a / determinant],
    ];
    [[a, b, -(a * c + b * f)], [d, e, -(d * c + e * f)]]
}

/// The part of `0..length` that a range from `start` with length `stretch` covers: (start, length).
pub(super) fn part(start: i64, stretch: u32, length: u32) -> Option<(u32, u32)> {
    let first = start.max(0);
    let end = (start + i64::from(stretch)).min(i64::from(length));
    (first < end).then(|| (first as u32, (end - first) as u32))
}

/// The window (`start`, `length`) of a crop that is resized to `resized`, as a crop in a grid that
/// is as fine as necessary: (start, length, grid).
pub(super) fn finer(
    crop_start: u32,
    crop: u32,
    grid: u32,
    resized: u32,
    start: u32,
    length: u32,
) -> (u32, u32, u32) {
    if (start, length) == (0, resized) {
        return (crop_start, crop, grid);
    }
    let wide = u128::from;
    let (x, width, units) = (
        wide(crop_start) * wide(resized) + wide(start) * wide(crop),
        wide(length) * wide(crop),
        wide(grid) * wide(resized),
    );
    let common = gcd(gcd(x, width), units);
    let (x, width, units) = (x / common, width / common, units / common);
    if units <= wide(MAX_SIDE) {
        return (x as u32, width as u32, units as u32);
    }
    // The grid would be finer than 1/65535 of a pixel: the ends move to the nearest position in
    // that grid.
    let most = wide(MAX_SIDE);
    let rounded = |v: u128| (v * most + units / 2) / units;
    let (from, to) = (rounded(x), rounded(x + width));
    (from as u32, (to - from).max(1) as u32, MAX_SIDE)
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a.max(1) } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, RngKey};

    const KEY: RngKey = RngKey {
        seed: 3,
        epoch: 1,
        clip: 4,
        occurrence: 0,
    };

    #[test]
    fn sizes_equal_torchvision() {
        let shorter = |size, longest| Target::Shorter { size, longest };
        assert_eq!(
            resized(shorter(256, None), (1920, 1080), 1).unwrap(),
            (455, 256)
        ); // int(256 * 1920 / 1080)
        assert_eq!(
            resized(shorter(90, None), (1080, 1920), 1).unwrap(),
            (90, 160)
        );
        assert_eq!(
            resized(shorter(256, Some(300)), (1920, 1080), 1).unwrap(),
            (300, 168)
        ); // int(300 * 256 / 455)
        assert_eq!(
            resized(Target::Longer(224), (1920, 1080), 1).unwrap(),
            (224, 126)
        );
        let cover = |height, width| Target::Cover(Size { height, width });
        assert_eq!(
            resized(cover(100, 200), (1920, 1080), 1).unwrap(),
            (200, 113)
        ); // 200 * 1080 / 1920 = 112.5
        assert_eq!(
            resized(cover(200, 100), (1080, 1920), 1).unwrap(),
            (113, 200)
        );
        assert_eq!(resized(cover(90, 160), (320, 180), 1).unwrap(), (160, 90));
        assert!(
            resized(cover(9, 65_535), (1, 9), 1)
                .unwrap_err()
                .to_string()
                .contains("crop the frame")
        );
        assert_eq!(
            (center(3), center(5), center(231), center(32)),
            (2, 2, 116, 16)
        );
        // round(1.5), round(2.5), ...
    }

    #[test]
    fn random_crop_has_requested_area_and_ratio() {
        let mut rng = KEY.rng(Purpose::Transforms);
        let (scale, ratio) = (
            UniformRange::new(0.08, 1.0),
            UniformRange::new(0.75, 4.0 / 3.0),
        );
        let mut areas = Vec::new();
        for _ in 0..2000 {
            let part = part_of((400, 300), scale, ratio, &mut rng);
            assert!(part.x + part.width <= 400 && part.y + part.height <= 300);
            let (w, h) = (f64::from(part.width), f64::from(part.height));
            assert!((0.7..1.4).contains(&(w / h)), "{part:?}");
            areas.push(w * h / 120_000.0);
        }
        let mean = areas.iter().sum::<f64>() / 2000.0;
        assert!(
            areas.iter().all(|a| (0.075..=1.0).contains(a)) && (0.42..0.45).contains(&mean),
            "{mean}"
        );
    }

    #[test]
    fn multi_scale_crop_has_tsn_sizes_and_positions() {
        let (scales, size) = (
            [1.0, 0.875, 0.75, 0.66],
            Size {
                height: 224,
                width: 224,
            },
        );
        let mut rng = KEY.rng(Purpose::Transforms);
        let mut drawn = |max_distort, positions| {
            let mut draw =
                || multi_scale_part((340, 256), size, &scales, max_distort, positions, &mut rng);
            let parts: Vec<Rect> = (0..2000).map(|_| draw()).collect();
            let of = |what: fn(&Rect) -> (u32, u32)| -> std::collections::BTreeSet<(u32, u32)> {
                parts.iter().map(what).collect()
            };
            let squares = |part: &&Rect| part.width == 224 && part.height == 224;
            let places: std::collections::BTreeSet<_> =
                parts.iter().filter(squares).map(|p| (p.x, p.y)).collect();
            (of(|part| (part.width, part.height)), places)
        };
        let (sizes, places) = drawn(1, CropPositions::Thirteen);
        // int(256 * 0.66) is 168; neighbors in the list may be combined.
        let lengths = [256, 224, 192, 168];
        let expected = (0..4usize).flat_map(|a| (0..4usize).map(move |b| (a, b)));
        let expected = expected
            .filter(|(a, b)| a.abs_diff(*b) <= 1)
            .map(|(a, b)| (lengths[a], lengths[b]));
        assert_eq!(sizes, expected.collect());
        // Quarters of 116 and 32 free pixels.
        let at = [(0, 0), (4, 0), (0, 4), (4, 4), (2, 2)];
        let more = [
            (0, 2),
            (4, 2),
            (2, 4),
            (2, 0),
            (1, 1),
            (3, 1),
            (1, 3),
            (3, 3),
        ];
        let pixels = |(across, down): &(u32, u32)| (29 * across, 8 * down);
        assert_eq!(places, at.iter().chain(&more).map(pixels).collect());
        let (sizes, places) = drawn(0, CropPositions::Five);
        assert_eq!(sizes, lengths.map(|length| (length, length)).into());
        assert_eq!(places, at.iter().map(pixels).collect());
        assert!(drawn(0, CropPositions::Any).1.len() > 100);
        // A side that is nearly the result's becomes equal to it, if the frame has it.
        let near = Size {
            height: 226,
            width: 255,
        };
        let mut part =
            || multi_scale_part((340, 224), near, &[1.0], 0, CropPositions::Five, &mut rng);
        assert_eq!((part().width, part().height), (224, 224));
    }

    #[test]
    fn impossible_random_crop_is_the_center() {
        let part = part_of(
            (1000, 10),
            UniformRange::only(1.0),
            UniformRange::new(0.75, 4.0 / 3.0),
            &mut KEY.rng(Purpose::Transforms),
        );
        assert_eq!(
            part,
            Rect {
                x: 493,
                y: 0,
                width: 13,
                height: 10
            }
        );
    }

    #[test]
    fn quarter_turn_moves_right_column_to_top() {
        // Counterclockwise by 90 degrees: the top left of the new frame was the top right of the
        // old one.
        let back = inverse_affine(-90.0, 1.0, (0.0, 0.0), (0.0, 0.0), (50.0, 50.0));
        let at = |x: f64, y: f64| back.map(|[a, b, c]| (a * x + b * y + c).round());
        assert_eq!(at(0.0, 0.0), [100.0, 0.0]);
        assert_eq!(expanded(&back, (100.0, 40.0)), (40, 100));
        assert_eq!(
            expanded(&back, (101.0, 40.0)),
            (40, 101),
            "sides of different parity"
        );
        // torchvision's sizes.
        let size = |degrees: f64| {
            expanded(
                &inverse_affine(-degrees, 1.0, (0.0, 0.0), (0.0, 0.0), (0.0, 0.0)),
                (320.0, 240.0),
            )
        };
        assert_eq!((size(0.5), size(-200.0)), ((324, 244), (384, 336)));
    }

    #[test]
    fn grid_mask_covers_ratio_squared_of_the_frame() {
        let g = grid(20.0, 0.5, 30.0, (0.3, 0.7));
        let masked = (0..400u32)
            .flat_map(|y| (0..400u32).map(move |x| (x, y)))
            .filter(|&(x, y)| {
                let phase = |step: [u32; 2], start: u32| {
                    start
                        .wrapping_add(step[0].wrapping_mul(x))
                        .wrapping_add(step[1].wrapping_mul(y))
                };
                u64::from(phase(g.step_x, g.start[0])) < g.limit
                    && u64::from(phase(g.step_y, g.start[1])) < g.limit
            });
        let share = masked.count() as f64 / 160_000.0;
        assert!((share - 0.25).abs() < 0.01, "{share}");
    }

    #[test]
    fn squares_of_a_straight_grid_are_whole_pixels() {
        for tile in [3u32, 7, 40, 100] {
            let g = grid(f64::from(tile), 1.0 / f64::from(tile), 0.0, (0.0, 0.0));
            for x in 0..65_536u32 {
                let phase = g.start[0].wrapping_add(g.step_x[0].wrapping_mul(x));
                assert_eq!(u64::from(phase) < g.limit, x % tile == 0, "{tile} {x}");
            }
        }
    }
}
