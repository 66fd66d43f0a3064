//! Checks each documented behavior on frames small enough to read.

use framespool_kernels::*;

use crate::strategies::FILTERS;
use crate::support::{Format, PlaneLayout, TestFrame, gray, noise, red, run_u8};

#[test]
fn one_clockwise_turn_moves_top_left_to_top_right() {
    let picture = gray(3, 2, &[1, 2, 3, 4, 5, 6]);
    let orientation = Orientation {
        mirror: false,
        quarter_turns_cw: 1,
    };
    assert_eq!(
        red(
            &picture,
            Geometry {
                orientation,
                ..Geometry::identity(2, 3)
            }
        ),
        [4, 1, 5, 2, 6, 3]
    );
}

#[test]
fn the_mirror_comes_before_the_turn() {
    let picture = gray(3, 2, &[1, 2, 3, 4, 5, 6]);
    let orientation = Orientation {
        mirror: true,
        quarter_turns_cw: 1,
    };
    assert_eq!(
        red(
            &picture,
            Geometry {
                orientation,
                ..Geometry::identity(2, 3)
            }
        ),
        [6, 3, 5, 2, 4, 1]
    );
}

#[test]
fn crop_and_window_are_taken_before_the_flip() {
    let picture = gray(4, 1, &[1, 2, 3, 4]);
    let geometry = Geometry {
        crop: Rect {
            x: 1,
            y: 0,
            width: 3,
            height: 1,
        },
        resized: (3, 1),
        window: Rect {
            x: 1,
            y: 0,
            width: 2,
            height: 1,
        },
        flip_horizontal: true,
        ..Geometry::identity(4, 1)
    };
    assert_eq!(red(&picture, geometry), [4, 3]);
}

#[test]
fn pixels_outside_the_crop_have_no_influence() {
    let geometry = Geometry {
        crop: Rect {
            x: 2,
            y: 0,
            width: 4,
            height: 1,
        },
        resized: (2, 1),
        window: Rect::from_size(2, 1),
        ..Geometry::identity(8, 1)
    };
    let inside = [9, 9, 40, 80, 120, 160, 9, 9];
    let outside = [255, 0, 40, 80, 120, 160, 255, 0];
    assert_eq!(
        red(&gray(8, 1, &inside), geometry),
        red(&gray(8, 1, &outside), geometry)
    );
}

#[test]
fn a_one_pixel_picture_fills_any_size() {
    let geometry = Geometry {
        resized: (50, 40),
        window: Rect::from_size(50, 40),
        ..Geometry::identity(1, 1)
    };
    assert_eq!(red(&gray(1, 1, &[77]), geometry), [77; 2000]);
    for log2_chroma in [(0, 0), (1, 1), (2, 2)] {
        let picture = TestFrame::new(
            Format {
                log2_chroma,
                ..Format::i420(1, 1)
            },
            |component, _, _| [235, 128, 128][component],
        );
        assert_eq!(red(&picture, geometry), [255; 2000]);
    }
}

#[test]
fn a_flat_picture_stays_flat_at_any_scale() {
    for depth_bits in [8, 10, 16] {
        for resized in [(1, 1), (3, 500), (200, 2), (333, 77)] {
            let format = Format {
                depth_bits,
                padding_bytes: 0,
                ..Format::i420(331, 79)
            };
            let picture = TestFrame::new(format, |component, _, _| {
                [150, 90, 170][component] << (depth_bits - 8)
            });
            let full = run_u8(
                &picture.view(),
                Geometry::identity(331, 79),
                Backend::detect(),
            );
            let geometry = Geometry {
                resized,
                window: Rect::from_size(resized.0, resized.1),
                ..Geometry::identity(331, 79)
            };
            let small = run_u8(&picture.view(), geometry, Backend::detect());
            assert!(
                small.pixels.iter().all(|&pixel| pixel == full.pixels[0]),
                "{depth_bits} {resized:?}"
            );
        }
    }
}

#[test]
fn pass_and_scratch_accept_changing_formats() {
    let geometry = Geometry {
        crop: Rect::from_size(20, 20),
        resized: (9, 9),
        window: Rect::from_size(9, 9),
        ..Geometry::identity(20, 20)
    };
    let mut pass = PixelPass::new(geometry, OutputSpec::new(Dtype::U8)).unwrap();
    let mut scratch = Scratch::new();
    let small = TestFrame::new(Format::i420(21, 23), |c, x, y| {
        (c as u32 * 40 + x * 5 + y * 3) % 256
    });
    let other = Format {
        plane_layout: PlaneLayout::SemiPlanar,
        log2_chroma: (1, 0),
        ..Format::i420(400, 30)
    };
    let large = TestFrame::new(other, |c, x, y| (c as u32 * 70 + x * 3 + y * 7) % 256);
    for picture in [&small, &large, &small] {
        let mut data = vec![0; 9 * 9 * 3];
        pass.run(
            &picture.view(),
            &mut OutputSlot::hwc(&mut data, 9),
            &mut scratch,
        )
        .unwrap();
        let expected =
            reference::integer(&picture.view(), &geometry, &OutputSpec::new(Dtype::U8)).unwrap();
        assert_eq!(data, expected.pixels.concat());
    }
}

#[test]
fn nv12_and_i420_of_the_same_picture_agree() {
    let sample = |c: usize, x: u32, y: u32| (c as u32 * 50 + x * 7 + y * 11) % 256;
    let planar = TestFrame::new(Format::i420(33, 17), sample);
    let semi = TestFrame::new(
        Format {
            plane_layout: PlaneLayout::SemiPlanar,
            ..Format::i420(33, 17)
        },
        sample,
    );
    let geometry = Geometry {
        resized: (15, 9),
        window: Rect::from_size(15, 9),
        ..Geometry::identity(33, 17)
    };
    for geometry in [geometry, Geometry::identity(33, 17)] {
        assert_eq!(
            run_u8(&planar.view(), geometry, Backend::detect()),
            run_u8(&semi.view(), geometry, Backend::detect())
        );
    }
}

#[test]
fn crop_on_grid_units_equals_crop_in_pixels() {
    let picture = noise(Format::i420(21, 17), 1);
    for filter in FILTERS {
        for resized in [(9, 8), (5, 3), (40, 40)] {
            let plain = Geometry {
                crop: Rect {
                    x: 3,
                    y: 1,
                    width: 9,
                    height: 8,
                },
                resized,
                window: Rect::from_size(resized.0, resized.1),
                filter,
                ..Geometry::identity(21, 17)
            };
            let crop = Rect {
                x: 3 * 10,
                y: 7,
                width: 9 * 10,
                height: 8 * 7,
            };
            let fine = Geometry {
                crop_subpixels: (10, 7),
                crop,
                ..plain
            };
            let [plain, fine] =
                [plain, fine].map(|geometry| run_u8(&picture.view(), geometry, Backend::detect()));
            assert_eq!(plain, fine);
        }
    }
}

#[test]
fn crop_between_pixels_mixes_neighbors() {
    // From 1/4 to 2 1/4: each output pixel is three parts of one pixel and one of the next.
    let geometry = Geometry {
        crop_subpixels: (4, 1),
        crop: Rect {
            x: 1,
            y: 0,
            width: 8,
            height: 1,
        },
        resized: (2, 1),
        window: Rect::from_size(2, 1),
        ..Geometry::identity(3, 1)
    };
    assert_eq!(red(&gray(3, 1, &[100, 200, 0]), geometry), [125, 150]);
}

#[test]
fn nearest_takes_the_pixel_under_the_center() {
    let geometry = |resized: u32| Geometry {
        resized: (resized, 1),
        window: Rect::from_size(resized, 1),
        filter: Filter::Nearest,
        ..Geometry::identity(6, 1)
    };
    let labels = gray(6, 1, &[1, 250, 3, 40, 5, 60]);
    assert_eq!(red(&labels, geometry(2)), [250, 5]);
    assert_eq!(red(&labels, geometry(3)), [250, 40, 60]); // on a border, the pixel after it
    assert_eq!(
        red(&labels, geometry(9)),
        [1, 250, 250, 3, 40, 40, 5, 60, 60]
    );
    for resized in 1..100 {
        assert!(
            red(&labels, geometry(resized))
                .iter()
                .all(|v| [1, 250, 3, 40, 5, 60].contains(v))
        );
    }
}

#[test]
fn bilinear_reads_two_pixels_at_any_scale() {
    let geometry = Geometry {
        resized: (2, 1),
        window: Rect::from_size(2, 1),
        filter: Filter::Bilinear,
        ..Geometry::identity(8, 1)
    };
    assert_eq!(
        red(&gray(8, 1, &[255, 10, 30, 255, 255, 50, 90, 255]), geometry),
        [20, 70]
    );
}

#[test]
fn bicubic_reads_four_pixels_at_any_scale() {
    let geometry = |filter| Geometry {
        resized: (2, 1),
        window: Rect::from_size(2, 1),
        filter,
        ..Geometry::identity(8, 1)
    };
    // At distances 1/2 and 3/2: (-3 * 10 + 19 * 20 + 19 * 40 - 3 * 60) / 32 = 29.06.
    let picture = gray(8, 1, &[10, 20, 40, 60, 90, 120, 80, 50]);
    assert_eq!(red(&picture, geometry(Filter::Bicubic)), [29, 106]);
    assert_ne!(red(&picture, geometry(Filter::Cubic)), [29, 106]);
}
