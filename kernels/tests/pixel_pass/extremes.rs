//! Checks that extreme values are refused or give the same result as smaller ones, and never
//! overflow.

use framespool_kernels::*;

use crate::support::{Format, PlaneLayout, TestFrame, gray, hash, noise, run_u8, run_with_spec};

#[test]
fn overflowing_color_matrix_product_is_refused() {
    let color = ColorMap::linear([[f64::MAX, -f64::MAX, 0.0]; 3]);
    let spec = OutputSpec {
        color,
        ..OutputSpec::new(Dtype::U8)
    };
    let picture = noise(
        Format {
            plane_layout: PlaneLayout::Gray,
            ..Format::i420(4, 4)
        },
        1,
    );
    let whole = Geometry::identity(4, 4);
    assert!(reference::integer(&picture.view(), &whole, &spec).is_err());
    let got = run_with_spec(&picture.view(), &whole, &spec, Backend::detect());
    assert!(
        matches!(
            got,
            Err(PassError::ColorGainTooLarge { .. } | PassError::InvalidColorValue { .. })
        ),
        "{got:?}"
    );
}

#[test]
fn numbers_beyond_a_million_are_refused() {
    for beyond in [1.1e6, 1e25, f64::INFINITY] {
        let map = ColorMap {
            offset: [beyond; 3],
            ..ColorMap::IDENTITY
        };
        let fill = Fill {
            base: [0.0; 3],
            mean: [[-beyond; 3]; 3],
        };
        for spec in [
            OutputSpec {
                color: map,
                ..OutputSpec::new(Dtype::U8)
            },
            OutputSpec {
                fill,
                ..OutputSpec::new(Dtype::U8)
            },
        ] {
            let refused = PixelPass::new(Geometry::identity(2, 2), spec).unwrap_err();
            assert!(
                matches!(refused, PassError::InvalidColorValue { .. }),
                "{refused}"
            );
        }
    }
}

#[test]
fn windows_too_large_to_keep_are_refused() {
    let geometry = Geometry {
        resized: (60_000, 60_000),
        window: Rect::from_size(60_000, 60_000),
        ..Geometry::identity(2, 2)
    };
    let warp = Warp {
        size: (1, 1),
        to_x: [0; 3],
        to_y: [0; 3],
        interpolation: Interpolation::Nearest,
    };
    let geometry = Geometry {
        placement: Placement::Warp(warp),
        ..geometry
    };
    let mut pass = PixelPass::new(geometry, OutputSpec::new(Dtype::U8)).unwrap();
    let refused = pass.run(
        &gray(2, 2, &[1; 4]).view(),
        &mut OutputSlot::hwc(&mut [0; 3], 1),
        &mut Scratch::new(),
    );
    assert_eq!(
        refused,
        Err(PassError::WindowTooLarge {
            width: 60_000,
            height: 60_000
        })
    );
}

#[test]
fn a_std_that_makes_black_infinite_is_refused() {
    let normalize = Normalize {
        mean: [0.0; 3],
        std: [1e-42; 3],
    };
    let spec = OutputSpec::new(Dtype::F32).normalized(normalize);
    assert!(PixelPass::new(Geometry::identity(2, 2), spec).is_err());
}

/// A single column of pixels, whose column stride is therefore unused.
fn run_column(column_stride: usize, geometry: Geometry) -> Vec<u8> {
    let mut data = vec![0; 6];
    let mut out = OutputSlot {
        data: &mut data,
        channel_stride: 1,
        row_stride: 3,
        column_stride,
    };
    let mut pass = PixelPass::new(geometry, OutputSpec::new(Dtype::U8)).unwrap();
    pass.run(&gray(1, 2, &[50, 60]).view(), &mut out, &mut Scratch::new())
        .unwrap();
    data
}

#[test]
fn strides_of_single_elements_may_be_anything() {
    let flipped = Geometry {
        flip_horizontal: true,
        ..Geometry::identity(1, 2)
    };
    for geometry in [Geometry::identity(1, 2), flipped] {
        for stride in [0, 7, usize::MAX, isize::MAX as usize, 1 << 63] {
            assert_eq!(run_column(stride, geometry), [50, 50, 50, 60, 60, 60]);
        }
    }
}

#[test]
fn strides_of_single_elements_are_never_multiplied() {
    let place = Placement::Canvas {
        size: (1, 2),
        x: 0,
        y: 0,
    };
    assert_eq!(
        run_column(
            usize::MAX,
            Geometry {
                placement: place,
                ..Geometry::identity(1, 2)
            }
        ),
        [50, 50, 50, 60, 60, 60]
    );
}

#[test]
fn window_errors_name_the_window() {
    for (window, what) in [
        (Rect::from_size(0, 4), "window"),
        (Rect::from_size(70_000, 4), "window"),
    ] {
        let refused = PixelPass::new(
            Geometry {
                window,
                ..Geometry::identity(4, 4)
            },
            OutputSpec::new(Dtype::U8),
        )
        .unwrap_err();
        assert!(refused.to_string().starts_with(what), "{refused}");
    }
}

/// A black and a white half, side by side or one above the other, at twice the size.
#[test]
fn cubic_overshoot_is_clamped_to_black_and_white() {
    // Distances of 1/4 to 7/4 with a = -1/2: white counts -0.07, 0.20, 0.80 and 1.07 next to the
    // edge.
    let expected = [0, 0, 0, 0, 0, 52, 203, 255, 255, 255, 255, 255];
    for (depth_bits, range) in [8, 10, 16]
        .into_iter()
        .flat_map(|d| [(d, ColorRange::Full), (d, ColorRange::Limited)])
    {
        let color = Colorimetry {
            matrix: MatrixCoefficients::Bt709,
            range,
        };
        let (black, white) = match range {
            ColorRange::Full => (0, (1 << depth_bits) - 1),
            ColorRange::Limited => (16 << (depth_bits - 8), 235 << (depth_bits - 8)),
        };
        for across in [true, false] {
            let format = Format {
                plane_layout: PlaneLayout::Gray,
                depth_bits,
                color,
                ..Format::i420(6, 6)
            };
            let picture = TestFrame::new(format, |_, column, row| {
                if (if across { column } else { row }) < 3 {
                    black
                } else {
                    white
                }
            });
            let window = Rect::from_size(12, 12);
            let geometry = Geometry {
                resized: (12, 12),
                window,
                filter: Filter::Cubic,
                ..Geometry::identity(6, 6)
            };
            for backend in Backend::available() {
                let image = run_u8(&picture.view(), geometry, backend);
                for at in 0..12 {
                    let (x, y) = if across { (at, 5) } else { (5, at) };
                    assert_eq!(
                        image.at(x, y),
                        [expected[at as usize]; 3],
                        "{} {format:?} {at}",
                        backend.name()
                    );
                }
            }
        }
    }
}

#[test]
fn words_above_the_depth_count_as_white() {
    let format = Format {
        depth_bits: 10,
        ..Format::i420(67, 9)
    };
    let word = |component: usize, column: u32, row: u32| {
        hash(7, component as u64, column.into(), row.into()) as u16
    };
    let damaged = TestFrame::new(format, |component, column, row| {
        word(component, column, row).into()
    });
    let limited = TestFrame::new(format, |component, column, row| {
        word(component, column, row).min(1023).into()
    });
    let geometry = Geometry {
        resized: (50, 7),
        window: Rect::from_size(50, 7),
        ..Geometry::identity(67, 9)
    };
    for backend in Backend::available() {
        let expected = run_u8(&limited.view(), geometry, backend);
        assert_eq!(
            run_u8(&damaged.view(), geometry, backend),
            expected,
            "{}",
            backend.name()
        );
    }
}
