//! Checks the distance from the exact result for frames within RGB, with every filter, fractional
//! crops, padding, affine maps and color maps: at most 1, and with a color map at most 1 plus half
//! its gain.

use framespool_kernels::*;
use proptest::prelude::*;

use crate::accuracy::{distance, formats, low_contrast_frame};
use crate::strategies::{FILTERS, formats as formats_of_any_kind, placed};
use crate::support::{Format, TestFrame, config, run_with_spec};

/// A subset of formats that covers every arrangement, depth, matrix, range and subsampling: the
/// reference is slow in debug builds.
fn pictures(width: u32, height: u32) -> impl Iterator<Item = (u64, Format, TestFrame)> {
    let some = formats(width, height).into_iter().enumerate().step_by(7);
    some.map(|(seed, format)| (seed as u64, format, low_contrast_frame(format, seed as u64)))
}

/// The largest difference from the exact result.
fn farthest(picture: &TestFrame, geometry: &Geometry, spec: &OutputSpec) -> u8 {
    let exact = reference::exact(&picture.view(), geometry, spec).unwrap();
    let got = run_with_spec(&picture.view(), geometry, spec, Backend::detect()).unwrap();
    distance(&got, &exact).max
}

fn filled() -> OutputSpec {
    OutputSpec {
        fill: Fill::constant([10.0, 120.0, 250.0]),
        ..OutputSpec::new(Dtype::U8)
    }
}

/// Rotated about the center of the window and of the output.
fn turned(
    window: (u32, u32),
    size: (u32, u32),
    degrees: f64,
    scale: f64,
    interpolation: Interpolation,
) -> Placement {
    let (sin, cos) = degrees.to_radians().sin_cos();
    let (a, b) = (cos / scale, sin / scale);
    let middle =
        |(width, height): (u32, u32)| (f64::from(width - 1) / 2.0, f64::from(height - 1) / 2.0);
    let ((x, y), (u, v)) = (middle(window), middle(size));
    let fixed = |value: f64| (value * f64::from(1u32 << WARP_FRACTION_BITS)).round() as i64;
    Placement::Warp(Warp {
        size,
        to_x: [a, -b, x - a * u + b * v].map(fixed),
        to_y: [b, a, y - b * u - a * v].map(fixed),
        interpolation,
    })
}

#[test]
fn every_filter_is_within_1_with_fractional_crops() {
    let (width, height) = (97, 61);
    let fine = Rect {
        x: 10,
        y: 3,
        width: width * 7 - 31,
        height: height * 5 - 9,
    };
    for (_, format, picture) in pictures(width, height) {
        for filter in FILTERS {
            for (grid, crop) in [((1, 1), Rect::from_size(width, height)), ((7, 5), fine)] {
                for resized in [(width, height), (33, 21), (131, 83), (94, 59)] {
                    let window = Rect::from_size(resized.0, resized.1);
                    let geometry = Geometry {
                        crop_subpixels: grid,
                        crop,
                        resized,
                        window,
                        filter,
                        ..Geometry::identity(1, 1)
                    };
                    let max = farthest(&picture, &geometry, &filled());
                    assert!(max <= 1, "{max} {format:?} {geometry:?}");
                }
            }
        }
    }
}

#[test]
fn affine_maps_are_within_1_with_and_without_resize() {
    let (width, height) = (97, 61);
    for (seed, format, picture) in pictures(width, height) {
        for interpolation in [Interpolation::Nearest, Interpolation::Bilinear] {
            for scale in [0.4, 1.0, 2.7] {
                for resized in [(width, height), (40, 33)] {
                    let place = turned(resized, (80, 70), 33.3 * seed as f64, scale, interpolation);
                    let window = Rect::from_size(resized.0, resized.1);
                    let geometry = Geometry {
                        resized,
                        window,
                        placement: place,
                        ..Geometry::identity(width, height)
                    };
                    let max = farthest(&picture, &geometry, &filled());
                    assert!(max <= 1, "{max} {format:?} {geometry:?}");
                }
            }
        }
    }
}

#[test]
fn color_maps_are_within_1_and_half_their_gain() {
    // The exact result starts from 8 bits: the half unit lost there is multiplied by the gain.
    let (width, height) = (97, 61);
    let gray = [[0.299, 0.587, 0.114]; 3];
    for (seed, format, picture) in pictures(width, height) {
        for strength in [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 8.0] {
            let scaled = ColorMap::IDENTITY
                .matrix
                .map(|row| row.map(|one| strength * one));
            let rest = gray.map(|row| row.map(|weight| (1.0 - strength) * weight));
            let contrast = ColorMap {
                matrix: scaled,
                mean: rest,
                offset: [0.0; 3],
            };
            let saturation =
                ColorMap::linear([0, 1, 2].map(|r| [0, 1, 2].map(|k| scaled[r][k] + rest[r][k])));
            let place = turned(
                (width, height),
                (80, 70),
                33.3 * seed as f64,
                1.1,
                Interpolation::Bilinear,
            );
            for color in [contrast, saturation, contrast.then(&saturation)] {
                let rows = color
                    .matrix
                    .iter()
                    .map(|row| row.iter().map(|v| v.abs()).sum::<f64>());
                let bound = 1.0 + rows.fold(0.0, f64::max) / 2.0;
                for place in [Placement::Identity, place] {
                    let geometry = Geometry {
                        placement: place,
                        ..Geometry::identity(width, height)
                    };
                    let max = farthest(&picture, &geometry, &OutputSpec { color, ..filled() });
                    assert!(
                        f64::from(max) <= bound,
                        "{max} {bound} {format:?} {color:?} {geometry:?}"
                    );
                }
            }
        }
    }
}

/// Any geometry whose exact result depends on no tie: nearest pixels are searched in stored
/// direction.
fn untied() -> BoxedStrategy<(Format, Geometry)> {
    let untie = |(format, mut geometry): (Format, Geometry)| {
        if geometry.filter == Filter::Nearest {
            geometry.filter = Filter::Bilinear;
        }
        if let Placement::Warp(warp) = &mut geometry.placement {
            warp.interpolation = Interpolation::Bilinear;
        }
        (format, geometry)
    };
    formats_of_any_kind()
        .prop_flat_map(placed)
        .prop_map(untie)
        .boxed()
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn any_geometry_is_within_1((format, geometry) in untied(), seed in 0u64..1000) {
        let max = farthest(&low_contrast_frame(format, seed), &geometry, &filled());
        prop_assert!(max <= 1, "{}", max);
    }
}
