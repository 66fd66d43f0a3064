//! In: random formats, geometries, dtypes and layouts.
//! Out: the pass equals the integer twin byte for byte on every backend.
//! Never: allows a tolerance.

use framespool_kernels::*;
use proptest::prelude::*;

use crate::support::{hash, run_u8, Arrangement, Format, Picture};

fn formats() -> impl Strategy<Value = Format> {
    let arrangement = prop_oneof![
        Just(Arrangement::Gray),
        Just(Arrangement::Planar),
        Just(Arrangement::Planar),
        Just(Arrangement::SemiPlanar),
        Just(Arrangement::PlanarRgb),
        (3u8..=6).prop_map(Arrangement::PackedRgb),
    ];
    let matrix = prop_oneof![Just(Matrix::Bt601), Just(Matrix::Bt709), Just(Matrix::Bt2020Ncl)];
    let depth = prop_oneof![3 => Just(8u8), 1 => Just(10u8), 1 => Just(12u8), 1 => 9u8..=16];
    let range = prop_oneof![Just(Range::Limited), Just(Range::Full)];
    (1u32..80, 1u32..60, arrangement, (0u8..=2, 0u8..=2), depth, 0u8..=8, 0usize..40, matrix, range).prop_map(
        |(width, height, arrangement, log2_chroma, depth, shift, padding, matrix, range)| {
            let depth_bits = if matches!(arrangement, Arrangement::PackedRgb(_)) { 8 } else { depth };
            let shift = if depth_bits == 8 { 0 } else { shift.min(16 - depth_bits) };
            let padding_bytes = if depth_bits == 8 { padding } else { padding & !1 };
            let colour = Colour { matrix, range };
            Format { width, height, arrangement, log2_chroma, depth_bits, shift, padding_bytes, colour }
        },
    )
}

fn rect(width: u32, height: u32) -> impl Strategy<Value = Rect> {
    let part = |side: u32| (0..side).prop_flat_map(move |start| (Just(start), 1..=side - start));
    (part(width), part(height)).prop_map(|((x, width), (y, height))| Rect { x, y, width, height })
}

fn geometries(width: u32, height: u32) -> impl Strategy<Value = Geometry> {
    let orientation = (any::<bool>(), 0u8..=5)
        .prop_map(|(mirror, quarter_turns_cw)| Orientation { mirror, quarter_turns_cw });
    orientation.prop_flat_map(move |orientation| {
        let (width, height) =
            if orientation.quarter_turns_cw % 2 == 1 { (height, width) } else { (width, height) };
        let crop = prop_oneof![Just(Rect::sized(width, height)), rect(width, height)];
        crop.prop_flat_map(move |crop| {
            let side = |length: u32| prop_oneof![2 => Just(length), 1 => 1u32..=length, 1 => 1u32..120];
            (side(crop.width), side(crop.height)).prop_flat_map(move |resized| {
                let window = prop_oneof![Just(Rect::sized(resized.0, resized.1)), rect(resized.0, resized.1)];
                (window, any::<bool>(), any::<bool>()).prop_map(
                    move |(window, flip_horizontal, flip_vertical)| Geometry {
                        orientation,
                        crop,
                        resized,
                        window,
                        flip_horizontal,
                        flip_vertical,
                        ..Geometry::whole(1, 1)
                    },
                )
            })
        })
    })
}

fn cases() -> impl Strategy<Value = (Format, Geometry, u64)> {
    formats().prop_flat_map(|format| (Just(format), geometries(format.width, format.height), any::<u64>()))
}

fn noise(format: Format, seed: u64) -> Picture {
    // Extremes as often as not: sums must survive all black and all white.
    let white = (1u64 << format.depth_bits) - 1;
    Picture::new(format, |component, column, row| {
        let random = hash(seed, component as u64, u64::from(column), u64::from(row));
        (match random >> 60 {
            0..=3 => 0,
            4..=7 => white,
            _ => random & white,
        }) as u32
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(debug_assertions) { 400 } else { 1500 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_backend_equals_the_integer_twin((format, geometry, seed) in cases()) {
        let picture = noise(format, seed);
        let expected = oracle::twin(&picture.view(), &geometry).unwrap();
        for backend in Backend::available() {
            prop_assert_eq!(&run_u8(&picture.view(), geometry, backend), &expected, "{}", backend.name());
        }
    }

    #[test]
    fn every_layout_and_dtype_holds_the_same_values(
        (format, geometry, seed) in cases(),
        gap in 0usize..5,
        layout in 0usize..4,
        float in any::<bool>(),
    ) {
        let picture = noise(format, seed);
        let expected = oracle::twin(&picture.view(), &geometry).unwrap();
        let (width, height) = (expected.width as usize, expected.height as usize);
        let (channel_stride, row_stride, column_stride) = match layout {
            0 => (1, width * 3 + gap, 3),
            1 => (width * height + gap, width, 1),
            2 => (1, width * (3 + gap), 3 + gap),
            _ => ((width + gap) * height, 1, height),
        };
        let normalize = Normalize { mean: [0.4, 0.5, 0.0], std: [0.2, 1.0, 0.3] };
        let dtype = if float { Dtype::F32 } else { Dtype::U8 };
        let elements = 2 * channel_stride + (height - 1) * row_stride + (width - 1) * column_stride + 1;
        let untouched = 0xEE;
        for backend in Backend::available() {
            let mut data = vec![untouched; elements * dtype.bytes()];
            let mut out = OutSlot { data: &mut data, channel_stride, row_stride, column_stride };
            let mut pass = PixelPass::new(geometry, dtype, float.then_some(normalize)).unwrap().with_backend(backend);
            pass.run(&picture.view(), &mut out, &mut Scratch::new()).unwrap();
            let mut written = vec![false; elements];
            for y in 0..height {
                for x in 0..width {
                    for channel in 0..3 {
                        let at = channel * channel_stride + y * row_stride + x * column_stride;
                        written[at] = true;
                        let value = expected.at(x as u32, y as u32)[channel];
                        if float {
                            let got = f32::from_ne_bytes(data[at * 4..][..4].try_into().unwrap());
                            let (scale, bias) = Normalize::scale_and_bias(Some(normalize), channel);
                            prop_assert_eq!(got.to_bits(), f32::from(value).mul_add(scale, bias).to_bits());
                        } else {
                            prop_assert_eq!(data[at], value);
                        }
                    }
                }
            }
            for (at, _) in written.iter().enumerate().filter(|(_, written)| !**written) {
                let bytes = &data[at * dtype.bytes()..][..dtype.bytes()];
                prop_assert!(bytes.iter().all(|&byte| byte == untouched), "gap element {} was written", at);
            }
        }
    }
}
