//! In: requests at the end of what numbers can say.
//! Out: a refusal, or the answer that smaller numbers would have.
//! Never: an overflow, or a result that depends on the machine.

use framespool_kernels::*;

use crate::support::{gray, noise, run_finished, Arrangement, Format};

#[test]
fn a_color_map_whose_product_with_the_source_matrix_overflows_is_refused() {
    let color = ColorMap::linear([[f64::MAX, -f64::MAX, 0.0]; 3]);
    let finish = Finish { color, ..Finish::plain(Dtype::U8) };
    let picture = noise(Format { arrangement: Arrangement::Gray, ..Format::i420(4, 4) }, 1);
    let whole = Geometry::whole(4, 4);
    assert!(oracle::twin(&picture.view(), &whole, &finish).is_err());
    let got = run_finished(&picture.view(), &whole, &finish, Backend::detect());
    assert!(matches!(got, Err(PassError::ColorTooStrong { .. } | PassError::BadColor { .. })), "{got:?}");
}

#[test]
fn numbers_beyond_a_million_are_refused() {
    for beyond in [1.1e6, 1e25, f64::INFINITY] {
        let map = ColorMap { offset: [beyond; 3], ..ColorMap::IDENTITY };
        let fill = Fill { base: [0.0; 3], mean: [[-beyond; 3]; 3] };
        for finish in
            [Finish { color: map, ..Finish::plain(Dtype::U8) }, Finish { fill, ..Finish::plain(Dtype::U8) }]
        {
            let refused = PixelPass::new(Geometry::whole(2, 2), finish).unwrap_err();
            assert!(matches!(refused, PassError::BadColor { .. }), "{refused}");
        }
    }
}

#[test]
fn a_window_that_would_fill_the_memory_is_refused_where_it_has_to_be_kept() {
    let geometry =
        Geometry { resized: (60_000, 60_000), window: Rect::sized(60_000, 60_000), ..Geometry::whole(2, 2) };
    let warp = Warp { size: (1, 1), to_x: [0; 3], to_y: [0; 3], interpolation: Interpolation::Nearest };
    let geometry = Geometry { place: Place::Warp(warp), ..geometry };
    let mut pass = PixelPass::new(geometry, Finish::plain(Dtype::U8)).unwrap();
    let refused =
        pass.run(&gray(2, 2, &[1; 4]).view(), &mut OutSlot::hwc(&mut [0; 3], 1), &mut Scratch::new());
    assert_eq!(refused, Err(PassError::WindowTooLarge { width: 60_000, height: 60_000 }));
}

#[test]
fn a_std_so_small_that_black_is_no_number_is_refused() {
    let normalize = Normalize { mean: [0.0; 3], std: [1e-42; 3] };
    let finish = Finish::plain(Dtype::F32).normalized(normalize);
    assert!(PixelPass::new(Geometry::whole(2, 2), finish).is_err());
}

/// A column of one pixel, whose column stride therefore means nothing.
fn run_column(column_stride: usize, geometry: Geometry) -> Vec<u8> {
    let mut data = vec![0; 6];
    let mut out = OutSlot { data: &mut data, channel_stride: 1, row_stride: 3, column_stride };
    let mut pass = PixelPass::new(geometry, Finish::plain(Dtype::U8)).unwrap();
    pass.run(&gray(1, 2, &[50, 60]).view(), &mut out, &mut Scratch::new()).unwrap();
    data
}

#[test]
fn strides_of_single_elements_may_be_anything() {
    let flipped = Geometry { flip_horizontal: true, ..Geometry::whole(1, 2) };
    for geometry in [Geometry::whole(1, 2), flipped] {
        for stride in [0, 7, usize::MAX, isize::MAX as usize, 1 << 63] {
            assert_eq!(run_column(stride, geometry), [50, 50, 50, 60, 60, 60]);
        }
    }
}

#[test]
fn strides_of_single_elements_are_never_multiplied() {
    let place = Place::Canvas { size: (1, 2), x: 0, y: 0 };
    assert_eq!(run_column(usize::MAX, Geometry { place, ..Geometry::whole(1, 2) }), [50, 50, 50, 60, 60, 60]);
}

#[test]
fn a_bad_window_is_called_a_window() {
    for (window, what) in [(Rect::sized(0, 4), "window"), (Rect::sized(70_000, 4), "window")] {
        let refused = PixelPass::new(Geometry { window, ..Geometry::whole(4, 4) }, Finish::plain(Dtype::U8))
            .unwrap_err();
        assert!(refused.to_string().starts_with(what), "{refused}");
    }
}
