//! Crops, resizes, flips and maps combined into one geometry.

use super::*;

fn draft(width: u32, height: u32) -> GeometryBuilder {
    GeometryBuilder::new((width, height), Orientation::default())
}

fn size(height: u32, width: u32) -> Size {
    Size { height, width }
}

fn rect((x, y): (u32, u32), (width, height): (u32, u32)) -> Rect {
    Rect {
        x,
        y,
        width,
        height,
    }
}

fn canvas(size: (u32, u32), (x, y): (u32, u32)) -> Placement {
    Placement::Canvas { size, x, y }
}

#[test]
fn map_to_the_output_follows_each_step() {
    let mut d = draft(400, 300);
    d.crop(100, 50, size(100, 200));
    d.resize(100, 200, Filter::Triangle);
    d.flip(Flip::Horizontal);
    d.pad(Padding {
        left: 3,
        top: 4,
        right: 5,
        bottom: 6,
    })
    .unwrap();
    assert_eq!(d.to_output(), [[-0.5, 0.0, 153.0], [0.0, 2.0, -96.0]]);
    // A quarter turn to the left: what was at the top right is at the top left.
    d.warp(
        &[[0.0, -1.0, 108.0], [1.0, 0.0, 0.0]],
        (210, 108),
        Interpolation::Nearest,
    );
    assert_eq!(d.to_output(), [[0.0, 2.0, -96.0], [0.5, 0.0, -45.0]]);
    d.flip(Flip::Vertical);
    assert_eq!(d.to_output(), [[0.0, 2.0, -96.0], [-0.5, 0.0, 153.0]]);
}

#[test]
fn crop_before_resize_is_the_source_rectangle() {
    let mut d = draft(400, 300);
    d.crop(100, 100, size(100, 200));
    d.resize(50, 50, Filter::Triangle);
    let g = d.finish(false);
    assert_eq!(g.crop, rect((100, 100), (200, 100)));
    assert_eq!(
        (g.crop_subpixels, g.resized, g.window),
        ((1, 1), (50, 50), Rect::from_size(50, 50))
    );
    assert_eq!(g.placement, Placement::Identity);
}

#[test]
fn resize_crop_resize_is_one_resize() {
    let mut d = draft(1920, 1080);
    d.resize(455, 256, Filter::Triangle);
    d.crop(10, 20, size(100, 150));
    d.resize(224, 224, Filter::Triangle);
    let g = d.finish(false);
    // Column 10 of 455 is column 10 * 1920 / 455 = 3840 / 91 of 1920.
    assert_eq!(
        (g.crop.x, g.crop.width, g.crop_subpixels.0),
        (3840, 150 * 384, 91)
    );
    assert_eq!(
        (g.crop.y, g.crop.height, g.crop_subpixels.1),
        (675, 3375, 8)
    );
    assert_eq!(
        (g.resized, g.window),
        ((224, 224), Rect::from_size(224, 224))
    );
}

#[test]
fn a_crop_after_a_flip_counts_from_the_other_side() {
    let mut d = draft(100, 50);
    d.flip(Flip::Horizontal);
    d.crop(10, 5, size(20, 30));
    let g = d.finish(false);
    assert!(g.flip_horizontal);
    assert_eq!(g.window, rect((60, 5), (30, 20)));
}

#[test]
fn what_was_cropped_away_is_fill_when_padded_again() {
    let mut d = draft(100, 50);
    d.crop(40, 10, size(20, 20));
    d.pad(Padding {
        left: 3,
        top: 4,
        right: 5,
        bottom: 6,
    })
    .unwrap();
    let g = d.finish(false);
    assert_eq!(g.window, rect((40, 10), (20, 20)));
    assert_eq!(g.placement, canvas((28, 30), (3, 4)));
}

#[test]
fn a_crop_of_nothing_but_padding_is_all_fill() {
    let mut d = draft(10, 10);
    d.pad(Padding {
        left: 50,
        ..Padding::default()
    })
    .unwrap();
    d.crop(0, 0, size(10, 20));
    let g = d.finish(false);
    let Placement::Warp(warp) = g.placement else {
        panic!("{g:?}")
    };
    assert!(
        warp.size == (20, 10) && warp.to_x[2] > 20 << WARP_FRACTION_BITS,
        "{warp:?}"
    );
}

#[test]
fn a_resize_after_a_rotation_happens_before_it() {
    let (sin, cos) = 30f64.to_radians().sin_cos();
    let resized = |filter| {
        let mut d = draft(1000, 800);
        d.warp(
            &[[cos, -sin, 200.0], [sin, cos, -100.0]],
            (1000, 800),
            Interpolation::Bilinear,
        );
        d.resize(250, 200, filter);
        d.finish(true)
    };
    let g = resized(Filter::Triangle);
    assert_eq!(g.resized, (250, 200));
    // The map itself has no other filter than bilinear and nearest.
    assert_eq!(
        resized(Filter::Cubic),
        Geometry {
            filter: Filter::Cubic,
            ..g
        }
    );
    assert_eq!(
        resized(Filter::Bicubic),
        Geometry {
            filter: Filter::Bicubic,
            ..g
        }
    );
    assert_eq!(resized(Filter::Bilinear).resized, (1000, 800));
    let Placement::Warp(warp) = g.placement else {
        panic!("{g:?}")
    };
    let unit = f64::from(1u32 << WARP_FRACTION_BITS);
    assert!(
        (warp.to_x[0] as f64 / unit - cos).abs() < 1e-6
            && (warp.to_x[1] as f64 / unit + sin).abs() < 1e-6
    );
    // The center of the first pixel: (cos / 2 - sin / 2) - 1 / 2 + 200 / 4.
    assert!((warp.to_x[2] as f64 / unit - (cos / 2.0 - sin / 2.0 - 0.5 + 50.0)).abs() < 1e-6);
}

#[test]
fn padded_frame_is_resized_then_moved() {
    let mut d = draft(32, 32);
    d.pad(Padding {
        left: 4,
        top: 4,
        right: 4,
        bottom: 4,
    })
    .unwrap();
    d.crop(0, 5, size(32, 32));
    d.resize(224, 224, Filter::Cubic);
    let g = d.finish(false);
    assert_eq!(g.filter, Filter::Cubic);
    let Placement::Warp(warp) = g.placement else {
        panic!("{g:?}")
    };
    let unit = 1i64 << WARP_FRACTION_BITS;
    // Exactly seven times as large: no pixel is blended with the padding.
    assert_eq!(
        (warp.to_x[0], warp.to_x[1], warp.to_x[2] % unit),
        (unit, 0, 0)
    );
    assert_eq!(
        (warp.to_y[0], warp.to_y[1], warp.to_y[2] % unit),
        (0, unit, 0)
    );
    assert_eq!((g.resized.0 % 7, g.resized.1 % 7), (0, 0));
}

#[test]
fn affine_map_reads_only_what_it_reaches() {
    let mut d = draft(1000, 800);
    d.warp(
        &[[1.0, 0.0, 0.25], [0.0, 1.0, 0.0]],
        (1000, 800),
        Interpolation::Bilinear,
    );
    d.crop(500, 400, size(10, 20));
    let g = d.finish(false);
    assert_eq!(g.window, rect((498, 398), (25, 14)));
    let Placement::Warp(warp) = g.placement else {
        panic!("{g:?}")
    };
    assert_eq!(
        (
            warp.to_x[2] >> (WARP_FRACTION_BITS - 2),
            warp.to_y[2] >> WARP_FRACTION_BITS
        ),
        (9, 2)
    );
}

#[test]
fn what_a_crop_left_out_stays_out_when_a_crop_grows() {
    let mut d = draft(10, 10);
    d.crop(3, 3, size(4, 4));
    d.crop(-3, -3, size(10, 10));
    let g = d.finish(false);
    assert_eq!(g.window, rect((3, 3), (4, 4)));
    assert_eq!(g.placement, canvas((10, 10), (3, 3)));
}

#[test]
fn fill_only_output_stays_fill() {
    let mut d = draft(10, 10);
    d.pad(Padding {
        left: 50,
        ..Padding::default()
    })
    .unwrap();
    d.crop(0, 0, size(10, 20));
    d.pad(Padding {
        left: 60,
        right: 60,
        top: 60,
        bottom: 60,
    })
    .unwrap();
    d.resize(70, 65, Filter::Triangle);
    let Placement::Warp(warp) = d.finish(false).placement else {
        panic!("a map to nowhere")
    };
    assert!(warp.size == (70, 65) && warp.to_x[2] > 1000 << WARP_FRACTION_BITS);
}

#[test]
fn rotated_frame_grows_only_if_not_cropped() {
    let (sin, cos) = 30f64.to_radians().sin_cos();
    let back = [[cos, -sin, 30.0], [sin, cos, -20.0]];
    let mut d = draft(100, 80);
    d.warp(&back, (100, 80), Interpolation::Bilinear);
    d.crop(10, 10, size(50, 50)); // a smaller crop is allowed
    assert!(!d.may_grow() && !d.may_crop(-1, 0, size(50, 50)) && d.may_crop(1, 0, size(49, 49)));
    let mut d = draft(100, 80);
    d.pad(Padding {
        left: 100,
        right: 100,
        top: 100,
        bottom: 100,
    })
    .unwrap();
    d.warp(&back, (300, 280), Interpolation::Bilinear);
    assert!(d.may_grow());
    d.pad(Padding {
        left: 1,
        ..Padding::default()
    })
    .unwrap();
}
