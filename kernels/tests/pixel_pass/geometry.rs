//! Checks padding and affine maps on frames small enough to read.

use framespool_kernels::reference::Image;
use framespool_kernels::*;

use crate::support::{
    Format, PlaneLayout, TestFrame, gray, noise, red, red_with_spec, run_u8, run_with_spec,
};

const ONE: i64 = 1 << WARP_FRACTION_BITS;

/// A map whose numbers are in pixels.
fn map(
    size: (u32, u32),
    to_x: [i64; 3],
    to_y: [i64; 3],
    interpolation: Interpolation,
) -> Placement {
    Placement::Warp(Warp {
        size,
        to_x: to_x.map(|v| v * ONE),
        to_y: to_y.map(|v| v * ONE),
        interpolation,
    })
}

fn filled(value: u8) -> OutputSpec {
    OutputSpec {
        fill: Fill::constant([f64::from(value); 3]),
        ..OutputSpec::new(Dtype::U8)
    }
}

fn with_fill(picture: &TestFrame, geometry: Geometry) -> Image {
    let fill = Fill::constant([40.0, 50.0, 60.0]);
    let spec = OutputSpec {
        fill,
        ..OutputSpec::new(Dtype::U8)
    };
    run_with_spec(&picture.view(), &geometry, &spec, Backend::detect()).unwrap()
}

#[test]
fn a_canvas_pads() {
    let place = Placement::Canvas {
        size: (4, 3),
        x: 1,
        y: 2,
    };
    let padded = red_with_spec(
        &gray(2, 1, &[7, 8]),
        Geometry {
            placement: place,
            ..Geometry::identity(2, 1)
        },
        &filled(99),
    );
    assert_eq!(padded, [99, 99, 99, 99, 99, 99, 99, 99, 99, 7, 8, 99]);
}

#[test]
fn canvas_corner_refers_to_the_displayed_frame() {
    let geometry = Geometry {
        orientation: Orientation {
            mirror: false,
            quarter_turns_cw: 1,
        },
        placement: Placement::Canvas {
            size: (3, 3),
            x: 2,
            y: 0,
        },
        ..Geometry::identity(1, 2)
    };
    assert_eq!(
        red_with_spec(&gray(2, 1, &[7, 8]), geometry, &filled(0)),
        [0, 0, 7, 0, 0, 8, 0, 0, 0]
    );
}

#[test]
fn a_map_to_the_same_place_changes_nothing() {
    let picture = noise(Format::i420(15, 9), 3);
    let whole = Geometry::identity(15, 9);
    for interpolation in [Interpolation::Nearest, Interpolation::Bilinear] {
        let place = map((15, 9), [1, 0, 0], [0, 1, 0], interpolation);
        let [plain, mapped] = [
            whole,
            Geometry {
                placement: place,
                ..whole
            },
        ]
        .map(|geometry| run_u8(&picture.view(), geometry, Backend::detect()));
        assert_eq!(plain, mapped);
    }
}

#[test]
fn a_half_turn_is_both_flips() {
    let picture = noise(
        Format {
            plane_layout: PlaneLayout::SemiPlanar,
            ..Format::i420(15, 8)
        },
        4,
    );
    let whole = Geometry::identity(15, 8);
    for interpolation in [Interpolation::Nearest, Interpolation::Bilinear] {
        let place = map((15, 8), [-1, 0, 14], [0, -1, 7], interpolation);
        let flipped = Geometry {
            flip_horizontal: true,
            flip_vertical: true,
            ..whole
        };
        let [flipped, turned] = [
            flipped,
            Geometry {
                placement: place,
                ..whole
            },
        ]
        .map(|geometry| run_u8(&picture.view(), geometry, Backend::detect()));
        assert_eq!(flipped, turned);
    }
}

#[test]
fn a_quarter_turn_is_that_of_the_orientation() {
    let picture = noise(Format::i420(12, 7), 5);
    let turned = Geometry {
        orientation: Orientation {
            mirror: false,
            quarter_turns_cw: 1,
        },
        ..Geometry::identity(7, 12)
    };
    for interpolation in [Interpolation::Nearest, Interpolation::Bilinear] {
        // Displayed (x, y) is stored (y, 6 - x).
        let place = map((7, 12), [0, 1, 0], [-1, 0, 6], interpolation);
        let [turned, mapped] = [
            turned,
            Geometry {
                placement: place,
                ..Geometry::identity(12, 7)
            },
        ]
        .map(|geometry| run_u8(&picture.view(), geometry, Backend::detect()));
        assert_eq!(turned, mapped);
    }
}

#[test]
fn a_map_that_only_moves_is_a_canvas() {
    let picture = noise(Format::i420(9, 6), 6);
    let canvas = Placement::Canvas {
        size: (20, 14),
        x: 5,
        y: 3,
    };
    for interpolation in [Interpolation::Nearest, Interpolation::Bilinear] {
        let moved = map((20, 14), [1, 0, -5], [0, 1, -3], interpolation);
        let [canvas, moved] = [canvas, moved].map(|place| {
            with_fill(
                &picture,
                Geometry {
                    placement: place,
                    ..Geometry::identity(9, 6)
                },
            )
        });
        assert_eq!(canvas, moved);
        assert_eq!(canvas.at(0, 0), [40, 50, 60]);
    }
}

#[test]
fn map_reads_the_flipped_window_after_rotation() {
    // Stored 1 2 3 4, rotated by half a turn 4 3 2 1, window 3 2, flipped 2 3, read from the second
    // on.
    let geometry = Geometry {
        orientation: Orientation {
            mirror: false,
            quarter_turns_cw: 2,
        },
        window: Rect {
            x: 1,
            y: 0,
            width: 2,
            height: 1,
        },
        flip_horizontal: true,
        placement: map((3, 1), [1, 0, 1], [0, 1, 0], Interpolation::Nearest),
        ..Geometry::identity(4, 1)
    };
    assert_eq!(
        red_with_spec(&gray(4, 1, &[1, 2, 3, 4]), geometry, &filled(9)),
        [3, 9, 9]
    );
}

#[test]
fn between_pixels_bilinear_mixes_and_nearest_chooses() {
    // A quarter of a pixel to the right.
    let place = |interpolation| {
        let (to_x, to_y) = ([ONE, 0, ONE / 4], [0, ONE, 0]);
        Placement::Warp(Warp {
            size: (3, 1),
            to_x,
            to_y,
            interpolation,
        })
    };
    let run = |interpolation| {
        let geometry = Geometry {
            placement: place(interpolation),
            ..Geometry::identity(3, 1)
        };
        red_with_spec(&gray(3, 1, &[100, 200, 60]), geometry, &filled(20))
    };
    assert_eq!(run(Interpolation::Nearest), [100, 200, 60]);
    assert_eq!(run(Interpolation::Bilinear), [125, 165, 50]); // the last mixes with fill
}

#[test]
fn a_map_makes_no_new_labels() {
    let values: Vec<u8> = (0..100)
        .map(|i| [0, 17, 130, 255][(i * 7 / 3) % 4])
        .collect();
    for step in 0..40 {
        // Rotated and sheared increasingly.
        let (a, b) = (ONE - step * ONE / 50, step * ONE / 37);
        let (to_x, to_y) = ([a, b, -3 * ONE], [-b, a, 2 * ONE]);
        let place = Placement::Warp(Warp {
            size: (12, 12),
            to_x,
            to_y,
            interpolation: Interpolation::Nearest,
        });
        let geometry = Geometry {
            placement: place,
            ..Geometry::identity(10, 10)
        };
        let labels = red_with_spec(&gray(10, 10, &values), geometry, &filled(99));
        assert!(labels.iter().all(|v| [0, 17, 130, 255, 99].contains(v)));
    }
}

#[test]
fn pixels_outside_the_window_have_no_influence_on_a_map() {
    let geometry = Geometry {
        window: Rect {
            x: 1,
            y: 0,
            width: 2,
            height: 1,
        },
        placement: Placement::Warp(Warp {
            size: (9, 1),
            to_x: [ONE / 2, 0, -ONE],
            to_y: [0, ONE, 0],
            interpolation: Interpolation::Bilinear,
        }),
        ..Geometry::identity(4, 1)
    };
    assert_eq!(
        red(&gray(4, 1, &[0, 80, 160, 0]), geometry),
        red(&gray(4, 1, &[255, 80, 160, 255]), geometry)
    );
}
