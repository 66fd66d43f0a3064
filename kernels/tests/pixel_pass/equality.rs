//! Compares the pass with the integer reference byte for byte on every backend, with random
//! formats, geometries, colors, masks, dtypes and layouts.

use framespool_kernels::*;
use proptest::prelude::*;

use crate::strategies::{canvased, filters, formats, placed, warped, whole};
use crate::strategies_output::{colors, layouts, output_specs};
use crate::support::{Format, TestFrame, config, gray, noise, run_with_spec};

/// Same pixels, or the same error.
fn equal(
    format: Format,
    geometry: Geometry,
    spec: &OutputSpec,
    seed: u64,
) -> Result<(), TestCaseError> {
    let picture = noise(format, seed);
    let expected = reference::integer(&picture.view(), &geometry, spec);
    for backend in Backend::available() {
        let got = run_with_spec(&picture.view(), &geometry, spec, backend);
        prop_assert_eq!(&got, &expected, "{}", backend.name());
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(600))]

    #[test]
    fn every_backend_equals_the_integer_reference(
        (format, geometry) in formats().prop_flat_map(whole),
        seed in any::<u64>(),
    ) {
        equal(format, geometry, &OutputSpec::new(Dtype::U8), seed)?;
    }

    #[test]
    fn backends_equal_the_reference_with_colors_and_canvas(
        (format, geometry) in formats().prop_flat_map(canvased),
        spec in colors(),
        seed in any::<u64>(),
    ) {
        equal(format, geometry, &spec, seed)?;
    }

    #[test]
    fn backends_equal_the_reference_with_affine_maps(
        (format, geometry) in formats().prop_flat_map(warped),
        spec in colors(),
        plain in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let spec = if plain { OutputSpec { fill: spec.fill, ..OutputSpec::new(Dtype::U8) } } else { spec };
        equal(format, geometry, &spec, seed)?;
    }

    #[test]
    fn every_layout_dtype_and_mask_equals_the_reference(
        ((format, geometry), spec) in formats().prop_flat_map(placed)
            .prop_flat_map(|case| (Just(case), output_specs(case.1.output_size()))),
        layout in layouts(),
        seed in any::<u64>(),
    ) {
        let picture = noise(format, seed);
        let expected = reference::expected_elements(&picture.view(), &geometry, &spec);
        let (width, height) = geometry.output_size();
        let lengths = [spec.channels.count(), height as usize, width as usize];
        let [channel_stride, row_stride, column_stride] = layout.strides(lengths);
        let at = |channel: usize, y: usize, x: usize| {
            channel * channel_stride + y * row_stride + x * column_stride
        };
        let length = at(lengths[0] - 1, lengths[1] - 1, lengths[2] - 1) + 1;
        let (bytes, untouched) = (spec.dtype.bytes(), 0xEE);
        for backend in Backend::available() {
            let mut data = vec![untouched; length * bytes];
            let mut out = OutputSlot { data: &mut data, channel_stride, row_stride, column_stride };
            let mut pass = PixelPass::new(geometry, spec.clone()).unwrap().with_backend(backend);
            let done = pass.run(&picture.view(), &mut out, &mut Scratch::new());
            let mut whole = vec![untouched; length * bytes];
            match &expected {
                Ok(elements) => {
                    prop_assert_eq!(done, Ok(()));
                    let mut elements = elements.iter();
                    for y in 0..lengths[1] {
                        for x in 0..lengths[2] {
                            for channel in 0..lengths[0] {
                                let start = at(channel, y, x) * bytes;
                                whole[start..start + bytes].copy_from_slice(elements.next().unwrap());
                            }
                        }
                    }
                }
                Err(refused) => prop_assert_eq!(done, Err(*refused)),
            }
            // Gaps are unchanged too.
            let wrong = data.iter().zip(&whole).position(|(got, expected)| got != expected);
            prop_assert!(wrong.is_none(), "{}: byte {:?}", backend.name(), wrong);
        }
    }
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn results_do_not_depend_on_earlier_frames(
        before in formats().prop_flat_map(placed),
        (format, geometry) in formats().prop_flat_map(placed),
        other in formats(),
        output_specs in [colors(), colors()],
        seed in any::<u64>(),
    ) {
        // The same size, but other planes, depth and color.
        let other = Format { width: format.width, height: format.height, ..other };
        let mut scratch = Scratch::new();
        let mut run = |pass: &mut PixelPass, format: Format| {
            let (width, height) = pass.output_size();
            let mut data = vec![0; width as usize * height as usize * 3];
            let picture = noise(format, seed);
            let done = pass.run(&picture.view(), &mut OutputSlot::hwc(&mut data, width as usize), &mut scratch);
            let expected = reference::integer(&picture.view(), pass.geometry(), pass.output_spec());
            (done.map(|()| data), expected.map(|image| image.pixels.concat()))
        };
        for backend in Backend::available() {
            let mut earlier = PixelPass::new(before.1, output_specs[0].clone()).unwrap().with_backend(backend);
            let mut pass = PixelPass::new(geometry, output_specs[1].clone()).unwrap().with_backend(backend);
            let (got, expected) = run(&mut earlier, before.0);
            prop_assert_eq!(got, expected, "{}", backend.name());
            for format in [format, other, format] {
                let (got, expected) = run(&mut pass, format);
                prop_assert_eq!(got, expected, "{}", backend.name());
            }
        }
    }
}

proptest! {
    #![proptest_config(config(80))]

    /// Where weights are largest: sums of 64 bits and more.
    #[test]
    fn backends_equal_the_reference_on_long_sides(
        length in prop_oneof![1u32..3000, 60_000u32..=65_535],
        grid in prop_oneof![1u32..20, 60_000u32..=65_535],
        (start, end) in prop_oneof![Just((0.0, 0.999_999)), (0.0f64..1.0, 0.0f64..1.0)],
        resized in prop_oneof![Just(1), 2u32..10, 1u32..=65_535],
        (first, count) in (0.0f64..1.0, 1u32..20),
        filter in filters(),
        (mirror, quarter_turns_cw, tall) in (any::<bool>(), 0u8..4, any::<bool>()),
        format in formats(),
        seed in any::<u64>(),
    ) {
        let fine = length * grid;
        let part = |share: f64| (share * f64::from(fine)) as u32;
        let (start, end) = (part(start).min(part(end)), part(start).max(part(end)) + 1);
        let first = (first * f64::from(resized)) as u32;
        let window = (first, count.min(resized - first));
        let size = if tall { (1, length) } else { (length, 1) };
        let format = Format { width: size.0, height: size.1, padding_bytes: 0, ..format };
        let turned = tall != (quarter_turns_cw % 2 == 1);
        let pick = |along: u32, across: u32| if turned { (across, along) } else { (along, across) };
        let ((x, y), (width, height)) = (pick(start, 0), pick(end - start, 1));
        let (corner, sides) = (pick(window.0, 0), pick(window.1, 1));
        let geometry = Geometry {
            orientation: Orientation { mirror, quarter_turns_cw },
            crop: Rect { x, y, width, height },
            crop_subpixels: pick(grid, 1),
            resized: pick(resized, 1),
            window: Rect { x: corner.0, y: corner.1, width: sides.0, height: sides.1 },
            filter,
            ..Geometry::identity(1, 1)
        };
        equal(format, geometry, &OutputSpec::new(Dtype::U8), seed)?;
    }
}

#[test]
fn backends_equal_the_reference_on_large_windows() {
    // More pixels than a 32-bit sum can hold, all of them nearly white.
    let format = Format {
        depth_bits: 16,
        padding_bytes: 0,
        ..Format::i420(400, 300)
    };
    let picture = TestFrame::new(format, |component, column, row| {
        65_535 - (component as u32 + column * row) % 7
    });
    let contrast = ColorMap {
        mean: [[0.2, 0.3, 0.1]; 3],
        ..ColorMap::linear([[0.2, 0.1, 0.3]; 3])
    };
    let spec = OutputSpec {
        color: contrast,
        ..OutputSpec::new(Dtype::U8)
    };
    let (slow, fast) = (1 << (WARP_FRACTION_BITS - 3), 3 << WARP_FRACTION_BITS);
    let (to_x, to_y) = ([fast, slow, 0], [-slow, fast / 2, 0]);
    let warp = Warp {
        size: (150, 250),
        to_x,
        to_y,
        interpolation: Interpolation::Bilinear,
    };
    for place in [Placement::Identity, Placement::Warp(warp)] {
        let geometry = Geometry {
            placement: place,
            ..Geometry::identity(400, 300)
        };
        let expected = reference::integer(&picture.view(), &geometry, &spec);
        for backend in Backend::available() {
            assert_eq!(
                run_with_spec(&picture.view(), &geometry, &spec, backend),
                expected
            );
        }
    }
}

#[test]
fn backends_equal_the_reference_with_partial_coverage() {
    // One strong row leaves the others 7 bits of fraction, so that rounding by coverage is visible.
    // The edge is crossed in steps of 1/1024.
    let matrix = [[0.0; 3], [0.0; 3], [30_000.0, 0.0, 0.0]];
    let fill = Fill::constant([1.0, 2.0, 3.0]);
    let spec = OutputSpec {
        color: ColorMap::linear(matrix),
        fill,
        ..OutputSpec::new(Dtype::U8)
    };
    let picture = gray(1, 1, &[0]);
    let to_x = [1 << (WARP_FRACTION_BITS - 10), 0, 0];
    let warp = Warp {
        size: (1024, 1),
        to_x,
        to_y: [0; 3],
        interpolation: Interpolation::Bilinear,
    };
    let geometry = Geometry {
        placement: Placement::Warp(warp),
        ..Geometry::identity(1, 1)
    };
    let expected = reference::integer(&picture.view(), &geometry, &spec).unwrap();
    assert_eq!(
        expected.pixels[507..510]
            .iter()
            .map(|pixel| pixel[0])
            .collect::<Vec<_>>(),
        [0, 1, 1]
    );
    for backend in Backend::available() {
        assert_eq!(
            run_with_spec(&picture.view(), &geometry, &spec, backend).as_ref(),
            Ok(&expected)
        );
    }
}

/// Long rows have whole vectors and a rest; frames of several MB are stored past the caches if
/// their rows are whole cache lines.
#[test]
fn large_frames_equal_the_portable_backend() {
    let normalize = Normalize {
        mean: [0.485, 0.456, 0.406],
        std: [0.229, 0.224, 0.225],
    };
    let sizes = [
        (1920, 734, 8),
        (1920, 734, 10),
        (1921, 738, 8),
        (1921, 738, 10),
        (331, 7, 8),
        (331, 7, 10),
    ];
    let large = (3840, 2160, 8);
    let cases = sizes
        .into_iter()
        .flat_map(|size| {
            [Dtype::U16, Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::U8].map(|dtype| (size, dtype))
        })
        .chain([(large, Dtype::U8)]);
    for ((width, height, depth_bits), dtype) in cases {
        let picture = noise(
            Format {
                depth_bits,
                ..Format::i420(width, height)
            },
            u64::from(width),
        );
        let normalize = (!dtype.is_integer()).then_some(normalize);
        let spec = OutputSpec {
            normalize,
            ..OutputSpec::new(dtype)
        };
        let bytes = 3 * width as usize * height as usize * dtype.bytes();
        for (flip_horizontal, channels_last) in [(false, true), (false, false), (true, true)] {
            let geometry = Geometry {
                flip_horizontal,
                ..Geometry::identity(width, height)
            };
            let run = |backend: Backend, offset: usize| {
                let mut data = vec![0xEE; bytes + 128];
                let begin = data.as_ptr().align_offset(64) + offset;
                let slot = &mut data[begin..begin + bytes];
                let mut out = match channels_last {
                    true => OutputSlot::hwc(slot, width as usize),
                    false => OutputSlot::chw(slot, width as usize, height as usize),
                };
                let mut pass = PixelPass::new(geometry, spec.clone())
                    .unwrap()
                    .with_backend(backend);
                pass.run(&picture.view(), &mut out, &mut Scratch::new())
                    .unwrap();
                assert!(
                    data[..begin]
                        .iter()
                        .chain(&data[begin + bytes..])
                        .all(|&byte| byte == 0xEE)
                );
                data[begin..begin + bytes].to_vec()
            };
            let expected = run(Backend::portable(), 0);
            for backend in Backend::available().into_iter().skip(1) {
                for offset in [0, 4].into_iter().take(if flip_horizontal { 1 } else { 2 }) {
                    let equal = run(backend, offset) == expected;
                    let case = (
                        width,
                        depth_bits,
                        dtype,
                        flip_horizontal,
                        channels_last,
                        offset,
                    );
                    assert!(equal, "{}: {case:?}", backend.name());
                }
            }
        }
    }
}
