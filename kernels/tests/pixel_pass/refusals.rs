//! In: frames, geometries and slots that contradict themselves.
//! Out: the typed error that says so, and an untouched slot.
//! Never: a panic.

use framespool_kernels::*;
use proptest::prelude::*;

use crate::support::{Format, Picture};

fn picture() -> Picture {
    Picture::new(Format { padding_bytes: 0, ..Format::i420(16, 8) }, |_, _, _| 100)
}

fn error(frame: &FrameView<'_>, geometry: Geometry, slot_bytes: usize) -> PassError {
    let mut data = vec![7; slot_bytes];
    let mut pass = PixelPass::new(geometry, Dtype::U8, None).unwrap();
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
    let rgb = Colour { matrix: Matrix::Rgb, range: Range::Full };
    assert_eq!(error(&FrameView { colour: rgb, ..view }, whole, 384), PassError::MatrixNeedsRgbPlanes);
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
    let refused = PixelPass::new(Geometry { window, ..Geometry::whole(16, 8) }, Dtype::U8, None).unwrap_err();
    assert_eq!(refused, PassError::RectOutside { what: "window", rect: window, width: 16, height: 8 });
    for resized in [(0, 4), (70_000, 4)] {
        assert!(PixelPass::new(Geometry { resized, ..Geometry::whole(16, 8) }, Dtype::U8, None).is_err());
    }
}

#[test]
fn a_slot_that_is_short_or_folds_onto_itself_is_refused() {
    let picture = picture();
    let refused = error(&picture.view(), Geometry::whole(16, 8), 383);
    assert_eq!(refused, PassError::SlotShort { have_bytes: 383, need_bytes: 384 });
    let mut pass = PixelPass::new(Geometry::whole(16, 8), Dtype::U8, None).unwrap();
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

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(debug_assertions) { 400 } else { 3000 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_request_panics(
        size in (0u32..40, 0u32..40),
        depth_bits in 0u8..20,
        shift in 0u8..20,
        bytes in 0usize..3000,
        strides in (0usize..100, 0usize..100),
        log2 in (0u8..4, 0u8..4),
        kind in 0usize..5,
        crop in (0u32..20, 0u32..20, 0u32..40, 0u32..40),
        resized in (0u32..40, 0u32..40),
        window in (0u32..10, 0u32..10, 0u32..40, 0u32..40),
        slot in (0usize..2000, 0usize..200, 0usize..20, 0usize..10_000),
    ) {
        let data = vec![200u8; bytes];
        let luma = Plane { data: &data, stride_bytes: strides.0 };
        let chroma = Plane { data: &data, stride_bytes: strides.1 };
        let (log2_chroma_w, log2_chroma_h) = log2;
        let planes = match kind {
            0 => Planes::Gray(luma),
            1 => Planes::Yuv { planes: [luma, chroma, chroma], log2_chroma_w, log2_chroma_h },
            2 => Planes::SemiPlanar { luma, chroma, log2_chroma_w, log2_chroma_h },
            3 => Planes::PlanarRgb([luma, luma, chroma]),
            _ => Planes::PackedRgb { plane: luma, pixel_bytes: log2_chroma_w + 1, offsets: [0, 1, log2_chroma_h] },
        };
        let colour = Colour { matrix: Matrix::Bt601, range: Range::Limited };
        let frame = FrameView { width: size.0, height: size.1, depth_bits, shift, planes, colour };
        let rect = |(x, y, width, height)| Rect { x, y, width, height };
        let geometry = Geometry {
            orientation: Orientation { mirror: bytes % 2 == 0, quarter_turns_cw: shift },
            crop: rect(crop),
            resized,
            window: rect(window),
            ..Geometry::whole(1, 1)
        };
        if let Ok(mut pass) = PixelPass::new(geometry, Dtype::U8, None) {
            let mut data = vec![0; slot.3];
            let mut out = OutSlot { data: &mut data, channel_stride: slot.0, row_stride: slot.1, column_stride: slot.2 };
            if let Err(refused) = pass.run(&frame, &mut out, &mut Scratch::new()) {
                prop_assert!(!refused.to_string().is_empty());
            }
        }
    }
}
