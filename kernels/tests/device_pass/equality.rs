//! Compares the kernels with the integer reference byte for byte, gaps included, on the random
//! requests of the CPU tests.

use framespool_kernels::*;
use proptest::prelude::*;

use crate::host::{UNTOUCHED, run};
use crate::strategies::{canvased, filters, formats, placed, warped, whole};
use crate::strategies_output::{colors, layouts, output_specs};
use crate::support::{Format, TestFrame, config, gray, noise};

/// The bytes of a slot with these strides, as the reference computes them.
fn expected(
    frame: &FrameView<'_>,
    geometry: &Geometry,
    spec: &OutputSpec,
    strides: [usize; 3],
) -> (usize, Result<Vec<u8>, PassError>) {
    let (width, height) = geometry.output_size();
    let lengths = [spec.channels.count(), height as usize, width as usize];
    let bytes = spec.dtype.bytes();
    let at = |place: [usize; 3]| {
        place
            .iter()
            .zip(strides)
            .map(|(at, stride)| at * stride)
            .sum::<usize>()
    };
    let length = (at(lengths.map(|length| length - 1)) + 1) * bytes;
    let slot = reference::expected_elements(frame, geometry, spec).map(|elements| {
        let mut slot = vec![UNTOUCHED; length];
        let mut elements = elements.into_iter();
        for y in 0..lengths[1] {
            for x in 0..lengths[2] {
                for channel in 0..lengths[0] {
                    let start = at([channel, y, x]) * bytes;
                    slot[start..start + bytes].copy_from_slice(&elements.next().unwrap());
                }
            }
        }
        slot
    });
    (length, slot)
}

/// Same bytes, or the same error.
fn equal(
    frame: &FrameView<'_>,
    geometry: &Geometry,
    spec: &OutputSpec,
    strides: [usize; 3],
    lead: usize,
) -> Result<(), TestCaseError> {
    let (bytes, expected) = expected(frame, geometry, spec, strides);
    let pass = PixelPass::new(*geometry, spec.clone()).unwrap();
    let got = run(&pass, frame, strides, bytes, lead);
    if let (Ok(got), Ok(expected)) = (&got, &expected) {
        let wrong = got
            .iter()
            .zip(expected)
            .position(|(got, expected)| got != expected);
        prop_assert!(wrong.is_none(), "byte {:?} of {}", wrong, bytes);
    }
    prop_assert_eq!(got.is_ok(), expected.is_ok());
    prop_assert_eq!(got.err(), expected.err());
    Ok(())
}

/// Channels last, without gaps.
fn packed(geometry: &Geometry) -> [usize; 3] {
    [1, 3 * geometry.output_size().0 as usize, 3]
}

/// Plane addresses that are multiples of 16, multiples of 4, and unaligned.
fn leads() -> BoxedStrategy<usize> {
    prop_oneof![3 => Just(0), 1 => Just(4), 1 => 0usize..16].boxed()
}

proptest! {
    #![proptest_config(config(800))]

    #[test]
    fn kernels_equal_the_integer_reference(
        (format, geometry) in formats().prop_flat_map(whole),
        seed in any::<u64>(),
        lead in leads(),
    ) {
        equal(&noise(format, seed).view(), &geometry, &OutputSpec::new(Dtype::U8), packed(&geometry), lead)?;
    }

    #[test]
    fn kernels_equal_the_reference_with_colors_and_canvas(
        (format, geometry) in formats().prop_flat_map(canvased),
        spec in colors(),
        seed in any::<u64>(),
        lead in leads(),
    ) {
        equal(&noise(format, seed).view(), &geometry, &spec, packed(&geometry), lead)?;
    }

    #[test]
    fn kernels_equal_the_reference_with_affine_maps(
        (format, geometry) in formats().prop_flat_map(warped),
        spec in colors(),
        plain in any::<bool>(),
        seed in any::<u64>(),
        lead in leads(),
    ) {
        let spec = if plain { OutputSpec { fill: spec.fill, ..OutputSpec::new(Dtype::U8) } } else { spec };
        equal(&noise(format, seed).view(), &geometry, &spec, packed(&geometry), lead)?;
    }

    #[test]
    fn every_layout_dtype_and_mask_equals_the_reference(
        ((format, geometry), spec) in formats().prop_flat_map(placed)
            .prop_flat_map(|case| (Just(case), output_specs(case.1.output_size()))),
        layout in layouts(),
        seed in any::<u64>(),
        lead in leads(),
    ) {
        let (width, height) = geometry.output_size();
        let strides = layout.strides([spec.channels.count(), height as usize, width as usize]);
        equal(&noise(format, seed).view(), &geometry, &spec, strides, lead)?;
    }
}

proptest! {
    #![proptest_config(config(150))]

    /// More columns than a block keeps at a time: horizontal sums continue from chunk to chunk.
    #[test]
    fn kernels_equal_the_reference_on_long_sides(
        length in prop_oneof![1u32..3000, 3000u32..20_000, 60_000u32..=65_535],
        grid in prop_oneof![1u32..20, 60_000u32..=65_535],
        (start, end) in prop_oneof![Just((0.0, 0.999_999)), (0.0f64..1.0, 0.0f64..1.0)],
        resized in prop_oneof![Just(1), 2u32..10, 1u32..=65_535],
        (first, count) in (0.0f64..1.0, 1u32..40),
        filter in filters(),
        (mirror, quarter_turns_cw, tall) in (any::<bool>(), 0u8..4, any::<bool>()),
        format in formats(),
        seed in any::<u64>(),
        lead in leads(),
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
        equal(&noise(format, seed).view(), &geometry, &OutputSpec::new(Dtype::U8), packed(&geometry), lead)?;
    }
}

#[test]
fn kernels_equal_the_reference_on_large_windows() {
    // Several tiles each way, the last ones cut; all samples nearly white.
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
        equal(&picture.view(), &geometry, &spec, packed(&geometry), 0).unwrap();
    }
}

#[test]
fn kernels_equal_the_reference_on_wide_frames() {
    // Chunks in two dimensions at the same time: many rows, many columns, several tiles.
    use crate::support::PlaneLayout::{Gray, PackedRgb, Planar, PlanarRgb, SemiPlanar};
    let arrangements = [
        Gray,
        Planar,
        SemiPlanar,
        PlanarRgb,
        PackedRgb(3),
        PackedRgb(6),
    ];
    for (n, plane_layout) in arrangements.into_iter().enumerate() {
        for depth_bits in [8, 10]
            .into_iter()
            .filter(|&d| d == 8 || !matches!(plane_layout, PackedRgb(_)))
        {
            let format = Format {
                plane_layout,
                depth_bits,
                padding_bytes: 2,
                ..Format::i420(5001, 37)
            };
            let geometry = Geometry {
                crop: Rect {
                    x: 3,
                    y: 1,
                    width: 4990,
                    height: 35,
                },
                resized: (70, 19),
                window: Rect {
                    x: 1,
                    y: 0,
                    width: 67,
                    height: 19,
                },
                placement: Placement::Canvas {
                    size: (80, 30),
                    x: 5,
                    y: 7,
                },
                flip_horizontal: n % 2 == 1,
                ..Geometry::identity(1, 1)
            };
            let spec = OutputSpec {
                fill: Fill::constant([9.0, 99.0, 199.0]),
                ..OutputSpec::new(Dtype::F16)
            };
            equal(
                &noise(format, 7).view(),
                &geometry,
                &spec,
                packed(&geometry),
                4 * n,
            )
            .unwrap();
        }
    }
}

#[test]
fn kernels_equal_the_reference_with_partial_coverage() {
    // One strong row leaves the others 7 bits of fraction, so that rounding by coverage is visible.
    let matrix = [[0.0; 3], [0.0; 3], [30_000.0, 0.0, 0.0]];
    let fill = Fill::constant([1.0, 2.0, 3.0]);
    let spec = OutputSpec {
        color: ColorMap::linear(matrix),
        fill,
        ..OutputSpec::new(Dtype::U8)
    };
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
    equal(
        &gray(1, 1, &[0]).view(),
        &geometry,
        &spec,
        packed(&geometry),
        0,
    )
    .unwrap();
}

#[test]
fn complete_tiles_equal_the_reference_in_every_layout() {
    // With four codes stored at a time, and with strides or addresses that prevent it.
    for (width, height) in [(64, 24), (72, 27), (70, 24)] {
        let picture = noise(
            Format {
                padding_bytes: 0,
                ..Format::i420(width, height)
            },
            3,
        );
        for (channels, quarter_turns_cw, flip_horizontal) in [
            (Channels::Three, 0, false),
            (Channels::Three, 0, true),
            (Channels::Three, 1, false),
            (Channels::One, 0, false),
            (Channels::One, 2, true),
        ] {
            let orientation = Orientation {
                mirror: false,
                quarter_turns_cw,
            };
            let size = if quarter_turns_cw == 1 {
                (height, width)
            } else {
                (width, height)
            };
            let geometry = Geometry {
                orientation,
                flip_horizontal,
                ..Geometry::identity(size.0, size.1)
            };
            let spec = OutputSpec {
                channels,
                ..OutputSpec::new(Dtype::U8)
            };
            let (w, h) = (size.0 as usize, size.1 as usize);
            for gap in [0, 1, 4] {
                let by_channel = [w * h + 4 * h + gap, w + 4, 1];
                let padded = [(w + gap) * h, w + gap, 1];
                let together = [1, 3 * w + gap, 3];
                for (strides, lead) in [
                    (by_channel, 0),
                    (padded, 0),
                    (together, 0),
                    (together, 1),
                    (padded, 2),
                ] {
                    equal(&picture.view(), &geometry, &spec, strides, lead).unwrap();
                }
            }
        }
    }
}

#[test]
fn grid_masks_phases_strictly_below_its_limit() {
    let geometry = Geometry {
        resized: (40, 12),
        window: Rect::from_size(40, 12),
        ..Geometry::identity(1, 1)
    };
    for limit in [0, 3, (1 << 32) - 1, 1 << 32] {
        // Phases are column and row, less one.
        let grid = MaskGrid {
            step_x: [1, 0],
            step_y: [0, 1],
            start: [u32::MAX; 2],
            limit,
        };
        let masks = vec![Mask {
            region: MaskRegion::Grid(grid),
            fill: MaskFill::CodeValue([1, 2, 3]),
        }];
        let spec = OutputSpec {
            masks,
            ..OutputSpec::new(Dtype::U8)
        };
        equal(
            &gray(1, 1, &[99]).view(),
            &geometry,
            &spec,
            packed(&geometry),
            0,
        )
        .unwrap();
    }
}

#[test]
fn noise_equals_the_reference_in_every_dtype() {
    // Ties of rounding to 16 bits are one number in thousands.
    let place = Placement::Canvas {
        size: (700, 500),
        x: 3,
        y: 3,
    };
    let geometry = Geometry {
        placement: place,
        ..Geometry::identity(1, 1)
    };
    for (key, dtype) in [Dtype::U8, Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::U16]
        .into_iter()
        .enumerate()
    {
        let masks = vec![Mask {
            region: MaskRegion::Rect(Rect::from_size(700, 500)),
            fill: MaskFill::Noise(key as u64),
        }];
        let spec = OutputSpec {
            masks,
            ..OutputSpec::new(dtype)
        };
        equal(
            &gray(1, 1, &[0]).view(),
            &geometry,
            &spec,
            packed(&geometry),
            0,
        )
        .unwrap();
    }
}

/// A sanity check, not a measurement of GPU performance.
#[test]
#[ignore = "prints a time"]
fn sixteen_frames_of_a_training_clip() {
    let format = Format {
        plane_layout: crate::support::PlaneLayout::SemiPlanar,
        padding_bytes: 128,
        ..Format::i420(1920, 1080)
    };
    let picture = noise(format, 1);
    let geometry = Geometry {
        crop: Rect {
            x: 420,
            y: 0,
            width: 1080,
            height: 1080,
        },
        resized: (224, 224),
        window: Rect::from_size(224, 224),
        ..Geometry::identity(1, 1)
    };
    let pass = PixelPass::new(geometry, OutputSpec::new(Dtype::U8)).unwrap();
    let began = std::time::Instant::now();
    for _ in 0..16 {
        run(&pass, &picture.view(), packed(&geometry), 224 * 224 * 3, 0).unwrap();
    }
    println!("{:.0} ms", began.elapsed().as_secs_f64() * 1e3);
}
