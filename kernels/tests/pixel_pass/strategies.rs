//! Proptest strategies for frame formats and geometries that the pass accepts.

use framespool_kernels::*;
use proptest::prelude::*;

use crate::support::{Format, PlaneLayout};

pub fn formats() -> BoxedStrategy<Format> {
    let plane_layout = prop_oneof![
        Just(PlaneLayout::Gray),
        Just(PlaneLayout::Planar),
        Just(PlaneLayout::Planar),
        Just(PlaneLayout::SemiPlanar),
        Just(PlaneLayout::PlanarRgb),
        (3u8..=6).prop_map(PlaneLayout::PackedRgb),
    ];
    let matrix = proptest::sample::select(&MatrixCoefficients::ALL_YUV[..]);
    let depth = prop_oneof![3 => Just(8u8), 1 => Just(10u8), 1 => Just(12u8), 1 => 9u8..=16];
    let range = prop_oneof![Just(ColorRange::Limited), Just(ColorRange::Full)];
    (
        1u32..80,
        1u32..60,
        plane_layout,
        (0u8..=2, 0u8..=2),
        depth,
        0u8..=8,
        0usize..40,
        matrix,
        range,
    )
        .prop_map(
            |(width, height, plane_layout, log2_chroma, depth, shift, padding, matrix, range)| {
                let depth_bits = if matches!(plane_layout, PlaneLayout::PackedRgb(_)) {
                    8
                } else {
                    depth
                };
                let shift = if depth_bits == 8 {
                    0
                } else {
                    shift.min(16 - depth_bits)
                };
                let padding_bytes = if depth_bits == 8 {
                    padding
                } else {
                    padding & !1
                };
                let color = Colorimetry { matrix, range };
                Format {
                    width,
                    height,
                    plane_layout,
                    log2_chroma,
                    depth_bits,
                    shift,
                    padding_bytes,
                    color,
                }
            },
        )
        .boxed()
}

pub fn deinterlaces() -> BoxedStrategy<Deinterlace> {
    let method = prop_oneof![
        Just(DeinterlaceMethod::Bob),
        Just(DeinterlaceMethod::Linear)
    ];
    let kept = prop_oneof![Just(Field::Top), Just(Field::Bottom)];
    (method, kept)
        .prop_map(|(method, kept)| Deinterlace { method, kept })
        .boxed()
}

/// Start and length of a part of a side.
fn part(side: u32) -> BoxedStrategy<(u32, u32)> {
    prop_oneof![
        1 => Just((0, side)),
        2 => (0..side).prop_flat_map(move |start| (Just(start), 1..=side - start)),
    ]
    .boxed()
}

pub fn rect(width: u32, height: u32) -> BoxedStrategy<Rect> {
    (part(width), part(height))
        .prop_map(|((x, width), (y, height))| Rect {
            x,
            y,
            width,
            height,
        })
        .boxed()
}

/// The values of one side of a request: grid, crop, resized, window.
#[derive(Clone, Copy, Debug)]
struct Side {
    grid: u32,
    crop: (u32, u32),
    resized: u32,
    window: (u32, u32),
}

pub const FILTERS: [Filter; 5] = [
    Filter::Triangle,
    Filter::Cubic,
    Filter::Bilinear,
    Filter::Bicubic,
    Filter::Nearest,
];

pub fn filters() -> BoxedStrategy<Filter> {
    proptest::sample::select(&FILTERS[..]).boxed()
}

fn side(length: u32) -> BoxedStrategy<Side> {
    let grid = prop_oneof![4 => Just(1u32), 1 => 2u32..=4, 2 => 1u32..=300];
    grid.prop_flat_map(move |grid| {
        let whole_pixels = part(length).prop_map(move |(start, n)| (start * grid, n * grid));
        // An integer length with any start: nothing is scaled, but pixels are mixed.
        let shifted = (1..=length).prop_flat_map(move |n| {
            (0..=(length - n) * grid).prop_map(move |start| (start, n * grid))
        });
        let crop = prop_oneof![part(length * grid), whole_pixels, shifted];
        (Just(grid), crop)
    })
    .prop_flat_map(|(grid, crop)| {
        let own = (crop.1 / grid).max(1);
        let resized = prop_oneof![2 => Just(own), 1 => 1..=own, 1 => 1u32..120];
        (Just((grid, crop)), resized)
    })
    .prop_flat_map(|((grid, crop), resized)| {
        part(resized).prop_map(move |window| Side {
            grid,
            crop,
            resized,
            window,
        })
    })
    .boxed()
}

/// All except the placement. `whole` frames are displayed with this width and height before
/// rotation.
fn geometries(width: u32, height: u32) -> BoxedStrategy<Geometry> {
    let orientation = (any::<bool>(), 0u8..=5).prop_map(|(mirror, quarter_turns_cw)| Orientation {
        mirror,
        quarter_turns_cw,
    });
    (orientation, filters(), any::<bool>(), any::<bool>())
        .prop_flat_map(
            move |(orientation, filter, flip_horizontal, flip_vertical)| {
                let odd = orientation.quarter_turns_cw % 2 == 1;
                let (width, height) = if odd {
                    (height, width)
                } else {
                    (width, height)
                };
                (side(width), side(height)).prop_map(move |(x, y)| Geometry {
                    orientation,
                    crop: Rect {
                        x: x.crop.0,
                        y: y.crop.0,
                        width: x.crop.1,
                        height: y.crop.1,
                    },
                    crop_subpixels: (x.grid, y.grid),
                    resized: (x.resized, y.resized),
                    window: Rect {
                        x: x.window.0,
                        y: y.window.0,
                        width: x.window.1,
                        height: y.window.1,
                    },
                    flip_horizontal,
                    flip_vertical,
                    filter,
                    placement: Placement::Identity,
                })
            },
        )
        .boxed()
}

/// This format, and a geometry for it that ends with the window.
pub fn whole(format: Format) -> BoxedStrategy<(Format, Geometry)> {
    (Just(format), geometries(format.width, format.height)).boxed()
}

/// As [`whole`], on a canvas.
pub fn canvased(format: Format) -> BoxedStrategy<(Format, Geometry)> {
    (
        Just(format),
        geometries(format.width, format.height).prop_flat_map(canvases),
    )
        .boxed()
}

/// As [`whole`], through an affine map.
pub fn warped(format: Format) -> BoxedStrategy<(Format, Geometry)> {
    (
        Just(format),
        geometries(format.width, format.height).prop_flat_map(warps),
    )
        .boxed()
}

/// With any placement.
pub fn placed(format: Format) -> BoxedStrategy<(Format, Geometry)> {
    prop_oneof![2 => whole(format), 1 => canvased(format), 1 => warped(format)].boxed()
}

fn canvases(geometry: Geometry) -> BoxedStrategy<Geometry> {
    let Rect { width, height, .. } = geometry.window;
    let border = || prop_oneof![1 => Just(0u32), 2 => 0u32..20];
    (border(), border(), border(), border())
        .prop_map(move |(x, y, right, bottom)| {
            let size = (x + width + right, y + height + bottom);
            Geometry {
                placement: Placement::Canvas { size, x, y },
                ..geometry
            }
        })
        .boxed()
}

fn warps(geometry: Geometry) -> BoxedStrategy<Geometry> {
    let Rect { width, height, .. } = geometry.window;
    let size =
        prop_oneof![3 => Just((width, height)), 3 => (1u32..50, 1u32..50), 1 => Just((1, 1))];
    let interpolation =
        prop_oneof![1 => Just(Interpolation::Nearest), 2 => Just(Interpolation::Bilinear)];
    let map = prop_oneof![
        4 => drawn(width, height),
        2 => halves(width, height),
        2 => edges(width, height),
        1 => wild(),
    ];
    (size, interpolation, map)
        .prop_map(move |(size, interpolation, (to_x, to_y))| Geometry {
            placement: Placement::Warp(Warp {
                size,
                to_x,
                to_y,
                interpolation,
            }),
            ..geometry
        })
        .boxed()
}

type Map = ([i64; 3], [i64; 3]);

const ONE: f64 = (1u64 << WARP_FRACTION_BITS) as f64;

/// Rotated, scaled and sheared about the center, then moved.
fn drawn(width: u32, height: u32) -> BoxedStrategy<Map> {
    let scale = || (-2.5f64..2.5).prop_map(f64::exp2);
    (
        0.0f64..6.3,
        scale(),
        scale(),
        -1.0f64..1.0,
        (-1.0f64..1.0, -1.0f64..1.0),
    )
        .prop_map(move |(angle, sx, sy, shear, moved)| {
            let (sin, cos) = angle.sin_cos();
            let (a, b, c, d) = (
                sx * cos,
                sy * (shear * cos - sin),
                sx * sin,
                sy * (shear * sin + cos),
            );
            let (x, y) = (f64::from(width - 1) / 2.0, f64::from(height - 1) / 2.0);
            let to_x = [a, b, x - a * x - b * y + moved.0 * x];
            let to_y = [c, d, y - c * x - d * y + moved.1 * y];
            let fixed = |v: f64| (v * ONE).round() as i64;
            (to_x.map(fixed), to_y.map(fixed))
        })
        .boxed()
}

/// Steps of half pixels: positions on pixels, on borders, and on the very edge.
fn halves(width: u32, height: u32) -> BoxedStrategy<Map> {
    let half = 1i64 << (WARP_FRACTION_BITS - 1);
    let map = move |length: u32| {
        (-3i64..=3, -3i64..=3, -4..=2 * i64::from(length) + 4)
            .prop_map(move |to| [to.0, to.1, to.2].map(|v| v * half))
    };
    (map(width), map(height)).boxed()
}

/// Slow steps around the first and the last pixel.
fn edges(width: u32, height: u32) -> BoxedStrategy<Map> {
    let small = || {
        prop_oneof![
            Just(0i64),
            -3i64..=3,
            -(1i64 << 15)..1 << 15,
            -(1i64 << 27)..1 << 27
        ]
    };
    let map = move |length: u32| {
        let edge = prop_oneof![
            Just(-1),
            Just(0),
            Just(i64::from(length) - 1),
            Just(i64::from(length))
        ];
        (small(), small(), edge, small())
            .prop_map(|(a, b, edge, off)| [a, b, (edge << WARP_FRACTION_BITS) + off])
    };
    (map(width), map(height)).boxed()
}

/// Any numbers close enough to be accepted.
fn wild() -> BoxedStrategy<Map> {
    let within = |bits: u32| (any::<i64>(), 64 - bits..64).prop_map(|(v, shift)| v >> shift);
    let map = move || (within(44), within(44), within(60)).prop_map(|to| [to.0, to.1, to.2]);
    (map(), map()).boxed()
}
