//! In: frames, geometries and slots that contradict themselves.
//! Out: the typed error that says so, and an untouched slot.
//! Never: a panic.

use framespool_kernels::*;

use crate::support::{Format, Picture};

fn picture() -> Picture {
    Picture::new(Format { padding_bytes: 0, ..Format::i420(16, 8) }, |_, _, _| 100)
}

fn error(frame: &FrameView<'_>, geometry: Geometry, slot_bytes: usize) -> PassError {
    let mut data = vec![7; slot_bytes];
    let mut pass = PixelPass::new(geometry, Finish::plain(Dtype::U8)).unwrap();
    let (width, _) = pass.output_size();
    let refused = pass.run(frame, &mut OutSlot::hwc(&mut data, width as usize), &mut Scratch::new());
    assert!(data.iter().all(|&byte| byte == 7), "nothing may be written before a refusal");
    refused.unwrap_err()
}

#[test]
fn a_plane_that_ends_early_is_refused_with_both_lengths() {
    let picture = picture();
    let mut view = picture.view();
    let Planes::Yuv { planes, .. } = &mut view.planes else { unreachable!() };
    planes[2].data = &planes[2].data[..31];
    let refused = error(&view, Geometry::whole(16, 8), 16 * 8 * 3);
    assert_eq!(refused, PassError::PlaneShort { plane: 2, have_bytes: 31, need_bytes: 32 });
    assert_eq!(refused.to_string(), "plane 2 needs 32 bytes, got 31");
}

#[test]
fn strides_that_overlap_or_overflow_are_refused() {
    let picture = picture();
    let mut view = picture.view();
    let Planes::Yuv { planes, .. } = &mut view.planes else { unreachable!() };
    planes[0].stride_bytes = 15;
    let refused = error(&view, Geometry::whole(16, 8), 16 * 8 * 3);
    assert_eq!(refused, PassError::StrideShort { plane: 0, stride_bytes: 15, row_bytes: 16 });
    let Planes::Yuv { planes, .. } = &mut view.planes else { unreachable!() };
    planes[0].stride_bytes = usize::MAX;
    let refused = error(&view, Geometry::whole(16, 8), 16 * 8 * 3);
    assert_eq!(refused, PassError::PlaneShort { plane: 0, have_bytes: 128, need_bytes: u64::MAX });
}

#[test]
fn frames_of_unknown_kind_are_refused() {
    let picture = picture();
    let view = picture.view();
    let whole = Geometry::whole(16, 8);
    for (depth_bits, shift) in [(7, 0), (17, 0), (8, 1), (10, 7), (0, 0)] {
        let refused = error(&FrameView { depth_bits, shift, ..view }, whole, 384);
        assert_eq!(refused, PassError::UnsupportedDepth { depth_bits, shift });
    }
    let empty = error(&FrameView { width: 0, ..view }, whole, 384);
    assert_eq!(empty, PassError::Empty { what: "frame", width: 0, height: 8 });
    let huge = error(&FrameView { height: u32::MAX, ..view }, whole, 384);
    assert_eq!(huge, PassError::TooLarge { what: "frame", width: 16, height: u32::MAX });
    let rgb = Color { matrix: Matrix::Rgb, range: Range::Full };
    assert_eq!(error(&FrameView { color: rgb, ..view }, whole, 384), PassError::MatrixNeedsRgbPlanes);
    let Planes::Yuv { planes, .. } = view.planes else { unreachable!() };
    let odd = Planes::Yuv { planes, log2_chroma_w: 3, log2_chroma_h: 0 };
    assert_eq!(
        error(&FrameView { planes: odd, ..view }, whole, 384),
        PassError::UnsupportedSubsampling { log2_chroma_w: 3, log2_chroma_h: 0 }
    );
    let packed = Planes::PackedRgb { plane: planes[0], pixel_bytes: 3, offsets: [0, 1, 3] };
    assert_eq!(
        error(&FrameView { planes: packed, ..view }, whole, 384),
        PassError::BadPacking { pixel_bytes: 3, offsets: [0, 1, 3] }
    );
}

#[test]
fn rectangles_outside_their_picture_are_refused() {
    let picture = picture();
    let crop = Rect { x: 1, y: 0, width: 16, height: 8 };
    let refused = error(&picture.view(), Geometry { crop, ..Geometry::whole(16, 8) }, 384);
    assert_eq!(refused, PassError::RectOutside { what: "crop", rect: crop, width: 16, height: 8 });
    let window = Rect { x: u32::MAX, y: 0, width: 2, height: 8 };
    let refused =
        PixelPass::new(Geometry { window, ..Geometry::whole(16, 8) }, Finish::plain(Dtype::U8)).unwrap_err();
    assert_eq!(refused, PassError::RectOutside { what: "window", rect: window, width: 16, height: 8 });
    for resized in [(0, 4), (70_000, 4)] {
        assert!(
            PixelPass::new(Geometry { resized, ..Geometry::whole(16, 8) }, Finish::plain(Dtype::U8)).is_err()
        );
    }
}

#[test]
fn a_slot_that_is_short_or_folds_onto_itself_is_refused() {
    let picture = picture();
    let refused = error(&picture.view(), Geometry::whole(16, 8), 383);
    assert_eq!(refused, PassError::SlotShort { have_bytes: 383, need_bytes: 384 });
    let mut pass = PixelPass::new(Geometry::whole(16, 8), Finish::plain(Dtype::U8)).unwrap();
    let mut data = vec![0; 10_000];
    for (channel_stride, row_stride, column_stride) in [(1, 16, 3), (0, 48, 3), (1, 48, 1), (127, 16, 1)] {
        let mut out = OutSlot { data: &mut data, channel_stride, row_stride, column_stride };
        let refused = pass.run(&picture.view(), &mut out, &mut Scratch::new());
        assert_eq!(refused, Err(PassError::SlotOverlaps { channel_stride, row_stride, column_stride }));
    }
    let mut out = OutSlot { data: &mut data, channel_stride: usize::MAX, row_stride: 16, column_stride: 1 };
    let refused = pass.run(&picture.view(), &mut out, &mut Scratch::new());
    assert_eq!(refused, Err(PassError::SlotShort { have_bytes: 10_000, need_bytes: u64::MAX }));
}

/// What compiling this says.
fn refused(geometry: Geometry, finish: Finish) -> PassError {
    PixelPass::new(geometry, finish).unwrap_err()
}

fn plain() -> Finish {
    Finish::plain(Dtype::U8)
}

#[test]
fn sizes_without_pixels_or_beyond_16_bits_are_refused() {
    let whole = Geometry::whole(16, 8);
    let canvas = |width, height| Place::Canvas { size: (width, height), x: 0, y: 0 };
    for (geometry, what, width, height) in [
        (Geometry { grid: (0, 1), ..whole }, "grid", 0, 1),
        (Geometry { resized: (16, 0), ..whole }, "resized", 16, 0),
        (Geometry { place: canvas(0, 8), ..whole }, "output", 0, 8),
        (Geometry { crop: Rect::sized(0, 8), ..whole }, "crop", 0, 8),
        (Geometry { window: Rect::sized(16, 0), place: canvas(16, 8), ..whole }, "window", 16, 0),
    ] {
        assert_eq!(refused(geometry, plain()), PassError::Empty { what, width, height });
    }
    for (geometry, what, width, height) in [
        (Geometry { grid: (1, 65_536), ..whole }, "grid", 1, 65_536),
        (Geometry { resized: (u32::MAX, 8), ..whole }, "resized", u32::MAX, 8),
        (Geometry { place: canvas(16, 65_536), ..whole }, "output", 16, 65_536),
    ] {
        assert_eq!(refused(geometry, plain()), PassError::TooLarge { what, width, height });
    }
}

#[test]
fn a_fractional_crop_must_lie_in_the_picture_of_that_many_units() {
    let picture = picture();
    let geometry = |x| Geometry {
        grid: (10, 3),
        crop: Rect { x, y: 0, width: 20, height: 24 },
        ..Geometry::whole(16, 8)
    };
    let mut data = vec![0; 384];
    let mut run = |x| {
        let mut pass = PixelPass::new(geometry(x), plain()).unwrap();
        pass.run(&picture.view(), &mut OutSlot::hwc(&mut data, 16), &mut Scratch::new())
    };
    assert_eq!(run(140), Ok(()));
    let rect = Rect { x: 141, y: 0, width: 20, height: 24 };
    assert_eq!(run(141), Err(PassError::RectOutside { what: "crop", rect, width: 160, height: 24 }));
}

#[test]
fn a_window_beside_its_canvas_is_refused() {
    let place = Place::Canvas { size: (20, 8), x: 5, y: 0 };
    let rect = Rect { x: 5, y: 0, width: 16, height: 8 };
    assert_eq!(
        refused(Geometry { place, ..Geometry::whole(16, 8) }, plain()),
        PassError::RectOutside { what: "canvas", rect, width: 20, height: 8 }
    );
}

#[test]
fn affine_maps_that_lead_too_far_are_refused() {
    let whole = Geometry::whole(16, 8);
    let warp = |to_x, to_y| {
        let place = Place::Warp(Warp { size: (4, 4), to_x, to_y, interpolation: Interpolation::Bilinear });
        PixelPass::new(Geometry { place, ..whole }, plain()).map(|_| ())
    };
    let near = [0, 0, (1 << 61) - 1];
    assert_eq!(warp(near, near.map(|v| -v)), Ok(()));
    for to in [[0, 0, 1 << 61], [0, 0, -1 << 61], [1, -1, near[2]], [i64::MAX; 3], [i64::MIN, 0, 0]] {
        assert_eq!(warp(to, near), Err(PassError::WarpTooFar { to }));
        assert_eq!(warp(near, to), Err(PassError::WarpTooFar { to }));
    }
}

#[test]
fn colors_that_are_not_numbers_are_refused() {
    let whole = Geometry::whole(16, 8);
    let infinite = f64::INFINITY;
    let mut map = ColorMap::IDENTITY;
    map.mean[2][1] = infinite;
    let fill = Fill::constant([0.0, -infinite, 0.0]);
    for (finish, value) in
        [(Finish { color: map, ..plain() }, infinite), (Finish { fill, ..plain() }, -infinite)]
    {
        assert_eq!(refused(whole, finish), PassError::BadColor { value });
    }
    let nan = ColorMap { offset: [f64::NAN; 3], ..ColorMap::IDENTITY };
    assert!(matches!(refused(whole, Finish { color: nan, ..plain() }), PassError::BadColor { .. }));
}

#[test]
fn color_maps_that_multiply_by_thousands_are_refused_once_the_frame_is_known() {
    let picture = picture();
    let run = |gain: f64| {
        let color = ColorMap::linear(ColorMap::IDENTITY.matrix.map(|row| row.map(|one| one * gain)));
        let mut pass = PixelPass::new(Geometry::whole(16, 8), Finish { color, ..plain() }).unwrap();
        let mut data = vec![7; 384];
        let done = pass.run(&picture.view(), &mut OutSlot::hwc(&mut data, 16), &mut Scratch::new());
        assert!(
            done.is_ok() || data.iter().all(|&byte| byte == 7),
            "nothing may be written before a refusal"
        );
        done
    };
    assert_eq!(run(9_000.0), Ok(()));
    let Err(PassError::ColorTooStrong { gain }) = run(20_000.0) else { panic!("not refused") };
    assert!(gain > 20_000.0 && gain < 80_000.0);
}

#[test]
fn masks_outside_the_output_or_beyond_their_limit_are_refused() {
    let place = Place::Canvas { size: (30, 10), x: 0, y: 0 };
    let geometry = Geometry { place, ..Geometry::whole(16, 8) };
    let run = |area| {
        let masks = vec![Mask { area, paint: Paint::Noise(1) }];
        PixelPass::new(geometry, Finish { masks, ..plain() }).map(|_| ())
    };
    assert_eq!(run(Area::Hole(Rect { x: 20, y: 0, width: 10, height: 10 })), Ok(()));
    let rect = Rect { x: 20, y: 1, width: 10, height: 10 };
    let outside = PassError::RectOutside { what: "mask", rect, width: 30, height: 10 };
    assert_eq!(run(Area::Hole(rect)), Err(outside));
    let empty = PassError::Empty { what: "mask", width: 0, height: 1 };
    assert_eq!(run(Area::Hole(Rect::sized(0, 1))), Err(empty));
    let limit = (1 << 32) + 1;
    let grid = Grid { step_x: [0; 2], step_y: [0; 2], start: [0; 2], limit };
    assert_eq!(run(Area::Grid(grid)), Err(PassError::BadGrid { limit }));
}

#[test]
fn elements_and_normalisation_need_a_float_dtype() {
    let whole = Geometry::whole(16, 8);
    let paint = Paint::Element([0.0; 3]);
    let masks = vec![Mask { area: Area::Hole(Rect::sized(1, 1)), paint }];
    assert_eq!(refused(whole, Finish { masks, ..plain() }), PassError::ElementNeedsFloat);
    let normalize = Normalize { mean: [0.0; 3], std: [1.0; 3] };
    assert_eq!(refused(whole, plain().normalized(normalize)), PassError::NormalizeNeedsFloat);
    for dtype in [Dtype::F16, Dtype::BF16, Dtype::F32] {
        let normalize = Normalize { mean: [f32::NAN; 3], ..normalize };
        let refused = refused(whole, Finish::plain(dtype).normalized(normalize));
        assert!(matches!(refused, PassError::BadNormalize { channel: 0, .. }));
    }
}
