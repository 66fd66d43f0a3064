//! Checks that contradictory frames, geometries and slots give a typed error and leave the slot
//! unchanged.

use framespool_kernels::*;

use crate::support::{Format, TestFrame};

fn picture() -> TestFrame {
    TestFrame::new(
        Format {
            padding_bytes: 0,
            ..Format::i420(16, 8)
        },
        |_, _, _| 100,
    )
}

fn error(frame: &FrameView<'_>, geometry: Geometry, slot_bytes: usize) -> PassError {
    let mut data = vec![7; slot_bytes];
    let mut pass = PixelPass::new(geometry, OutputSpec::new(Dtype::U8)).unwrap();
    let (width, _) = pass.output_size();
    let refused = pass.run(
        frame,
        &mut OutputSlot::hwc(&mut data, width as usize),
        &mut Scratch::new(),
    );
    assert!(
        data.iter().all(|&byte| byte == 7),
        "nothing may be written before a refusal"
    );
    refused.unwrap_err()
}

#[test]
fn truncated_plane_is_refused_with_both_lengths() {
    let picture = picture();
    let mut view = picture.view();
    let Planes::Yuv { planes, .. } = &mut view.planes else {
        unreachable!()
    };
    planes[2].data = &planes[2].data[..31];
    let refused = error(&view, Geometry::identity(16, 8), 16 * 8 * 3);
    assert_eq!(
        refused,
        PassError::PlaneTooShort {
            plane: 2,
            have_bytes: 31,
            need_bytes: 32
        }
    );
    assert_eq!(refused.to_string(), "plane 2 needs 32 bytes, got 31");
}

#[test]
fn strides_that_overlap_or_overflow_are_refused() {
    let picture = picture();
    let mut view = picture.view();
    let Planes::Yuv { planes, .. } = &mut view.planes else {
        unreachable!()
    };
    planes[0].stride_bytes = 15;
    let refused = error(&view, Geometry::identity(16, 8), 16 * 8 * 3);
    assert_eq!(
        refused,
        PassError::StrideTooShort {
            plane: 0,
            stride_bytes: 15,
            row_bytes: 16
        }
    );
    let Planes::Yuv { planes, .. } = &mut view.planes else {
        unreachable!()
    };
    planes[0].stride_bytes = usize::MAX;
    let refused = error(&view, Geometry::identity(16, 8), 16 * 8 * 3);
    assert_eq!(
        refused,
        PassError::PlaneTooShort {
            plane: 0,
            have_bytes: 128,
            need_bytes: u64::MAX
        }
    );
}

#[test]
fn frames_of_unknown_kind_are_refused() {
    let picture = picture();
    let view = picture.view();
    let whole = Geometry::identity(16, 8);
    for (depth_bits, shift) in [(7, 0), (17, 0), (8, 1), (10, 7), (0, 0)] {
        let refused = error(
            &FrameView {
                depth_bits,
                shift,
                ..view
            },
            whole,
            384,
        );
        assert_eq!(refused, PassError::UnsupportedDepth { depth_bits, shift });
    }
    let empty = error(&FrameView { width: 0, ..view }, whole, 384);
    assert_eq!(
        empty,
        PassError::Empty {
            what: "frame",
            width: 0,
            height: 8
        }
    );
    let huge = error(
        &FrameView {
            height: u32::MAX,
            ..view
        },
        whole,
        384,
    );
    assert_eq!(
        huge,
        PassError::TooLarge {
            what: "frame",
            width: 16,
            height: u32::MAX
        }
    );
    let rgb = Colorimetry {
        matrix: MatrixCoefficients::Rgb,
        range: ColorRange::Full,
    };
    assert_eq!(
        error(&FrameView { color: rgb, ..view }, whole, 384),
        PassError::MatrixNeedsRgbPlanes
    );
    let Planes::Yuv { planes, .. } = view.planes else {
        unreachable!()
    };
    let odd = Planes::Yuv {
        planes,
        log2_chroma_w: 3,
        log2_chroma_h: 0,
    };
    assert_eq!(
        error(
            &FrameView {
                planes: odd,
                ..view
            },
            whole,
            384
        ),
        PassError::UnsupportedSubsampling {
            log2_chroma_w: 3,
            log2_chroma_h: 0
        }
    );
    let packed = Planes::PackedRgb {
        plane: planes[0],
        pixel_bytes: 3,
        offsets: [0, 1, 3],
    };
    assert_eq!(
        error(
            &FrameView {
                planes: packed,
                ..view
            },
            whole,
            384
        ),
        PassError::InvalidPacking {
            pixel_bytes: 3,
            offsets: [0, 1, 3]
        }
    );
}

#[test]
fn rectangles_outside_their_picture_are_refused() {
    let picture = picture();
    let crop = Rect {
        x: 1,
        y: 0,
        width: 16,
        height: 8,
    };
    let refused = error(
        &picture.view(),
        Geometry {
            crop,
            ..Geometry::identity(16, 8)
        },
        384,
    );
    assert_eq!(
        refused,
        PassError::RectOutOfBounds {
            what: "crop",
            rect: crop,
            width: 16,
            height: 8
        }
    );
    let window = Rect {
        x: u32::MAX,
        y: 0,
        width: 2,
        height: 8,
    };
    let refused = PixelPass::new(
        Geometry {
            window,
            ..Geometry::identity(16, 8)
        },
        OutputSpec::new(Dtype::U8),
    )
    .unwrap_err();
    assert_eq!(
        refused,
        PassError::RectOutOfBounds {
            what: "window",
            rect: window,
            width: 16,
            height: 8
        }
    );
    for resized in [(0, 4), (70_000, 4)] {
        assert!(
            PixelPass::new(
                Geometry {
                    resized,
                    ..Geometry::identity(16, 8)
                },
                OutputSpec::new(Dtype::U8)
            )
            .is_err()
        );
    }
}

#[test]
fn short_or_overlapping_slots_are_refused() {
    let picture = picture();
    let refused = error(&picture.view(), Geometry::identity(16, 8), 383);
    assert_eq!(
        refused,
        PassError::SlotTooShort {
            have_bytes: 383,
            need_bytes: 384
        }
    );
    let mut pass = PixelPass::new(Geometry::identity(16, 8), OutputSpec::new(Dtype::U8)).unwrap();
    let mut data = vec![0; 10_000];
    for (channel_stride, row_stride, column_stride) in
        [(1, 16, 3), (0, 48, 3), (1, 48, 1), (127, 16, 1)]
    {
        let mut out = OutputSlot {
            data: &mut data,
            channel_stride,
            row_stride,
            column_stride,
        };
        let refused = pass.run(&picture.view(), &mut out, &mut Scratch::new());
        assert_eq!(
            refused,
            Err(PassError::SlotOverlaps {
                channel_stride,
                row_stride,
                column_stride
            })
        );
    }
    let mut out = OutputSlot {
        data: &mut data,
        channel_stride: usize::MAX,
        row_stride: 16,
        column_stride: 1,
    };
    let refused = pass.run(&picture.view(), &mut out, &mut Scratch::new());
    assert_eq!(
        refused,
        Err(PassError::SlotTooShort {
            have_bytes: 10_000,
            need_bytes: u64::MAX
        })
    );
}

/// The error of compiling this.
fn refused(geometry: Geometry, spec: OutputSpec) -> PassError {
    PixelPass::new(geometry, spec).unwrap_err()
}

fn plain() -> OutputSpec {
    OutputSpec::new(Dtype::U8)
}

#[test]
fn sizes_without_pixels_or_beyond_16_bits_are_refused() {
    let whole = Geometry::identity(16, 8);
    let canvas = |width, height| Placement::Canvas {
        size: (width, height),
        x: 0,
        y: 0,
    };
    for (geometry, what, width, height) in [
        (
            Geometry {
                crop_subpixels: (0, 1),
                ..whole
            },
            "grid",
            0,
            1,
        ),
        (
            Geometry {
                resized: (16, 0),
                ..whole
            },
            "resized",
            16,
            0,
        ),
        (
            Geometry {
                placement: canvas(0, 8),
                ..whole
            },
            "output",
            0,
            8,
        ),
        (
            Geometry {
                crop: Rect::from_size(0, 8),
                ..whole
            },
            "crop",
            0,
            8,
        ),
        (
            Geometry {
                window: Rect::from_size(16, 0),
                placement: canvas(16, 8),
                ..whole
            },
            "window",
            16,
            0,
        ),
    ] {
        assert_eq!(
            refused(geometry, plain()),
            PassError::Empty {
                what,
                width,
                height
            }
        );
    }
    for (geometry, what, width, height) in [
        (
            Geometry {
                crop_subpixels: (1, 65_536),
                ..whole
            },
            "grid",
            1,
            65_536,
        ),
        (
            Geometry {
                resized: (u32::MAX, 8),
                ..whole
            },
            "resized",
            u32::MAX,
            8,
        ),
        (
            Geometry {
                placement: canvas(16, 65_536),
                ..whole
            },
            "output",
            16,
            65_536,
        ),
    ] {
        assert_eq!(
            refused(geometry, plain()),
            PassError::TooLarge {
                what,
                width,
                height
            }
        );
    }
}

#[test]
fn fractional_crop_must_be_inside_the_frame() {
    let picture = picture();
    let geometry = |x| Geometry {
        crop_subpixels: (10, 3),
        crop: Rect {
            x,
            y: 0,
            width: 20,
            height: 24,
        },
        ..Geometry::identity(16, 8)
    };
    let mut data = vec![0; 384];
    let mut run = |x| {
        let mut pass = PixelPass::new(geometry(x), plain()).unwrap();
        pass.run(
            &picture.view(),
            &mut OutputSlot::hwc(&mut data, 16),
            &mut Scratch::new(),
        )
    };
    assert_eq!(run(140), Ok(()));
    let rect = Rect {
        x: 141,
        y: 0,
        width: 20,
        height: 24,
    };
    assert_eq!(
        run(141),
        Err(PassError::RectOutOfBounds {
            what: "crop",
            rect,
            width: 160,
            height: 24
        })
    );
}

#[test]
fn a_window_outside_its_canvas_is_refused() {
    let place = Placement::Canvas {
        size: (20, 8),
        x: 5,
        y: 0,
    };
    let rect = Rect {
        x: 5,
        y: 0,
        width: 16,
        height: 8,
    };
    assert_eq!(
        refused(
            Geometry {
                placement: place,
                ..Geometry::identity(16, 8)
            },
            plain()
        ),
        PassError::RectOutOfBounds {
            what: "canvas",
            rect,
            width: 20,
            height: 8
        }
    );
}

#[test]
fn affine_maps_that_lead_too_far_are_refused() {
    let whole = Geometry::identity(16, 8);
    let warp = |to_x, to_y| {
        let place = Placement::Warp(Warp {
            size: (4, 4),
            to_x,
            to_y,
            interpolation: Interpolation::Bilinear,
        });
        PixelPass::new(
            Geometry {
                placement: place,
                ..whole
            },
            plain(),
        )
        .map(|_| ())
    };
    let near = [0, 0, (1 << 61) - 1];
    assert_eq!(warp(near, near.map(|v| -v)), Ok(()));
    for to in [
        [0, 0, 1 << 61],
        [0, 0, -1 << 61],
        [1, -1, near[2]],
        [i64::MAX; 3],
        [i64::MIN, 0, 0],
    ] {
        assert_eq!(warp(to, near), Err(PassError::WarpOutOfRange { to }));
        assert_eq!(warp(near, to), Err(PassError::WarpOutOfRange { to }));
    }
}

#[test]
fn colors_that_are_not_numbers_are_refused() {
    let whole = Geometry::identity(16, 8);
    let infinite = f64::INFINITY;
    let mut map = ColorMap::IDENTITY;
    map.mean[2][1] = infinite;
    let fill = Fill::constant([0.0, -infinite, 0.0]);
    for (spec, value) in [
        (
            OutputSpec {
                color: map,
                ..plain()
            },
            infinite,
        ),
        (OutputSpec { fill, ..plain() }, -infinite),
    ] {
        assert_eq!(refused(whole, spec), PassError::InvalidColorValue { value });
    }
    let nan = ColorMap {
        offset: [f64::NAN; 3],
        ..ColorMap::IDENTITY
    };
    assert!(matches!(
        refused(
            whole,
            OutputSpec {
                color: nan,
                ..plain()
            }
        ),
        PassError::InvalidColorValue { .. }
    ));
}

#[test]
fn color_maps_with_too_large_gain_are_refused() {
    let picture = picture();
    let run = |gain: f64| {
        let color = ColorMap::linear(
            ColorMap::IDENTITY
                .matrix
                .map(|row| row.map(|one| one * gain)),
        );
        let mut pass =
            PixelPass::new(Geometry::identity(16, 8), OutputSpec { color, ..plain() }).unwrap();
        let mut data = vec![7; 384];
        let done = pass.run(
            &picture.view(),
            &mut OutputSlot::hwc(&mut data, 16),
            &mut Scratch::new(),
        );
        assert!(
            done.is_ok() || data.iter().all(|&byte| byte == 7),
            "nothing may be written before a refusal"
        );
        done
    };
    assert_eq!(run(9_000.0), Ok(()));
    let Err(PassError::ColorGainTooLarge { gain }) = run(20_000.0) else {
        panic!("not refused")
    };
    assert!(gain > 20_000.0 && gain < 80_000.0);
}

#[test]
fn masks_outside_the_output_or_limit_are_refused() {
    let place = Placement::Canvas {
        size: (30, 10),
        x: 0,
        y: 0,
    };
    let geometry = Geometry {
        placement: place,
        ..Geometry::identity(16, 8)
    };
    let run = |region| {
        let masks = vec![Mask {
            region,
            fill: MaskFill::Noise(1),
        }];
        PixelPass::new(geometry, OutputSpec { masks, ..plain() }).map(|_| ())
    };
    assert_eq!(
        run(MaskRegion::Rect(Rect {
            x: 20,
            y: 0,
            width: 10,
            height: 10
        })),
        Ok(())
    );
    let rect = Rect {
        x: 20,
        y: 1,
        width: 10,
        height: 10,
    };
    let outside = PassError::RectOutOfBounds {
        what: "mask",
        rect,
        width: 30,
        height: 10,
    };
    assert_eq!(run(MaskRegion::Rect(rect)), Err(outside));
    let empty = PassError::Empty {
        what: "mask",
        width: 0,
        height: 1,
    };
    assert_eq!(run(MaskRegion::Rect(Rect::from_size(0, 1))), Err(empty));
    let limit = (1 << 32) + 1;
    let grid = MaskGrid {
        step_x: [0; 2],
        step_y: [0; 2],
        start: [0; 2],
        limit,
    };
    assert_eq!(
        run(MaskRegion::Grid(grid)),
        Err(PassError::InvalidMaskGrid { limit })
    );
}

#[test]
fn elements_and_normalization_need_a_float_dtype() {
    let whole = Geometry::identity(16, 8);
    let fill = MaskFill::Element([0.0; 3]);
    let masks = vec![Mask {
        region: MaskRegion::Rect(Rect::from_size(1, 1)),
        fill,
    }];
    assert_eq!(
        refused(whole, OutputSpec { masks, ..plain() }),
        PassError::MaskElementNeedsFloat
    );
    let normalize = Normalize {
        mean: [0.0; 3],
        std: [1.0; 3],
    };
    assert_eq!(
        refused(whole, plain().normalized(normalize)),
        PassError::NormalizeNeedsFloat
    );
    for dtype in [Dtype::F16, Dtype::BF16, Dtype::F32] {
        let normalize = Normalize {
            mean: [f32::NAN; 3],
            ..normalize
        };
        let refused = refused(whole, OutputSpec::new(dtype).normalized(normalize));
        assert!(matches!(
            refused,
            PassError::InvalidNormalize { channel: 0, .. }
        ));
    }
}
