//! Checks colors, masks and dtypes on frames small enough to read.

use framespool_kernels::*;

use crate::support::{Format, TestFrame, gray, noise, red_with_spec};

const LUMA: [f64; 3] = [0.299, 0.587, 0.114];

fn identity_times(gain: f64) -> [[f64; 3]; 3] {
    ColorMap::IDENTITY
        .matrix
        .map(|row| row.map(|one| one * gain))
}

fn colored(color: ColorMap) -> OutputSpec {
    OutputSpec {
        color,
        ..OutputSpec::new(Dtype::U8)
    }
}

/// Contrast about the mean gray of the window.
fn contrast(gain: f64) -> OutputSpec {
    let mean = [LUMA.map(|weight| (1.0 - gain) * weight); 3];
    colored(ColorMap {
        matrix: identity_times(gain),
        mean,
        offset: [0.0; 3],
    })
}

fn masked(masks: &[(MaskRegion, MaskFill)], dtype: Dtype) -> OutputSpec {
    let masks = masks
        .iter()
        .map(|&(region, fill)| Mask { region, fill })
        .collect();
    OutputSpec {
        masks,
        ..OutputSpec::new(dtype)
    }
}

/// All bytes of the output, channels last or the one channel.
fn bytes(picture: &TestFrame, geometry: Geometry, spec: &OutputSpec) -> Vec<u8> {
    let mut pass = PixelPass::new(geometry, spec.clone()).unwrap();
    let (width, height) = pass.output_size();
    let channels = spec.channels.count();
    let mut data = vec![0; width as usize * height as usize * channels * spec.dtype.bytes()];
    let row_stride = width as usize * channels;
    let mut out = OutputSlot {
        data: &mut data,
        channel_stride: 1,
        row_stride,
        column_stride: channels,
    };
    pass.run(&picture.view(), &mut out, &mut Scratch::new())
        .unwrap();
    data
}

#[test]
fn contrast_leaves_a_flat_frame_unchanged() {
    for value in 0..=255 {
        for gain in [0.0, 0.5, 1.0, 1.5, 2.0] {
            let got = red_with_spec(
                &gray(4, 2, &[value; 8]),
                Geometry::identity(4, 2),
                &contrast(gain),
            );
            assert_eq!(got, [value; 8], "{gain}");
        }
    }
}

#[test]
fn contrast_doubles_the_distance_from_the_mean() {
    let got = red_with_spec(
        &gray(4, 1, &[90, 110, 100, 100]),
        Geometry::identity(4, 1),
        &contrast(2.0),
    );
    assert_eq!(got, [80, 120, 100, 100]);
}

#[test]
fn the_mean_is_that_of_the_window_without_fill() {
    let window = Rect {
        x: 0,
        y: 0,
        width: 2,
        height: 1,
    };
    let place = Placement::Canvas {
        size: (3, 1),
        x: 0,
        y: 0,
    };
    let geometry = Geometry {
        window,
        placement: place,
        ..Geometry::identity(3, 1)
    };
    let spec = OutputSpec {
        fill: Fill::constant([7.0; 3]),
        ..contrast(0.0)
    };
    assert_eq!(
        red_with_spec(&gray(3, 1, &[50, 70, 255]), geometry, &spec),
        [60, 60, 7]
    );
}

#[test]
fn brightness_adds_and_inversion_mirrors() {
    let picture = gray(4, 1, &[0, 1, 100, 255]);
    let run = |map: ColorMap| red_with_spec(&picture, Geometry::identity(4, 1), &colored(map));
    assert_eq!(
        run(ColorMap {
            offset: [10.0; 3],
            ..ColorMap::IDENTITY
        }),
        [10, 11, 110, 255]
    );
    let inverse = ColorMap {
        offset: [255.0; 3],
        ..ColorMap::linear(identity_times(-1.0))
    };
    assert_eq!(run(inverse), [255, 254, 155, 0]);
}

#[test]
fn colors_are_clamped_once_at_the_end() {
    // Doubled and halved in one map: values above 127 are preserved.
    let twice = ColorMap::linear(identity_times(2.0));
    let there_and_back = twice.then(&ColorMap::linear(identity_times(0.5)));
    let got = red_with_spec(
        &gray(2, 1, &[100, 250]),
        Geometry::identity(2, 1),
        &colored(there_and_back),
    );
    assert_eq!(got, [100, 250]);
}

#[test]
fn fill_is_final_unless_it_is_given_a_mean() {
    let place = Placement::Canvas {
        size: (2, 1),
        x: 0,
        y: 0,
    };
    let geometry = Geometry {
        placement: place,
        ..Geometry::identity(1, 1)
    };
    let bright = colored(ColorMap {
        offset: [50.0; 3],
        ..ColorMap::IDENTITY
    });
    let run = |fill| {
        red_with_spec(
            &gray(1, 1, &[80]),
            geometry,
            &OutputSpec {
                fill,
                ..bright.clone()
            },
        )
    };
    assert_eq!(run(Fill::constant([20.0; 3])), [130, 20]);
    assert_eq!(
        run(Fill {
            base: [1.0; 3],
            mean: [LUMA; 3]
        }),
        [130, 81]
    );
}

#[test]
fn one_channel_is_the_first_of_three() {
    let picture = noise(Format::i420(9, 5), 2);
    for dtype in [Dtype::U8, Dtype::F16, Dtype::F32] {
        let three = OutputSpec {
            color: ColorMap::linear([LUMA; 3]),
            ..OutputSpec::new(dtype)
        };
        let one = OutputSpec {
            channels: Channels::One,
            ..three.clone()
        };
        let all = bytes(&picture, Geometry::identity(9, 5), &three);
        let firsts: Vec<u8> = all
            .chunks(3 * dtype.bytes())
            .flat_map(|pixel| &pixel[..dtype.bytes()])
            .copied()
            .collect();
        assert_eq!(bytes(&picture, Geometry::identity(9, 5), &one), firsts);
    }
}

#[test]
fn grid_limits_0_and_2_to_32_mask_nothing_and_all() {
    let picture = gray(5, 3, &[100; 15]);
    for (limit, expected) in [(0, 100), (1 << 32, 7)] {
        let grid = MaskGrid {
            step_x: [u32::MAX, 3],
            step_y: [1 << 31, 12345],
            start: [u32::MAX, 0],
            limit,
        };
        let spec = masked(
            &[(MaskRegion::Grid(grid), MaskFill::CodeValue([7; 3]))],
            Dtype::U8,
        );
        assert_eq!(
            red_with_spec(&picture, Geometry::identity(5, 3), &spec),
            [expected; 15]
        );
    }
}

#[test]
fn a_grid_masks_squares() {
    // Period of four pixels, half of it masked, started one pixel early.
    let quarter = 1 << 30;
    let grid = MaskGrid {
        step_x: [quarter, 0],
        step_y: [0, quarter],
        start: [quarter, 0],
        limit: 2 * u64::from(quarter),
    };
    let spec = masked(
        &[(MaskRegion::Grid(grid), MaskFill::CodeValue([0; 3]))],
        Dtype::U8,
    );
    let expected = [
        0, 9, 9, 0, 0, 9, //
        0, 9, 9, 0, 0, 9, //
        9, 9, 9, 9, 9, 9, //
    ];
    assert_eq!(
        red_with_spec(&gray(6, 3, &[9; 18]), Geometry::identity(6, 3), &spec),
        expected
    );
}

#[test]
fn later_masks_overwrite_earlier_ones_and_fill() {
    let hole = |x, width| {
        MaskRegion::Rect(Rect {
            x,
            y: 0,
            width,
            height: 1,
        })
    };
    let spec = masked(
        &[
            (hole(1, 3), MaskFill::CodeValue([1; 3])),
            (hole(3, 2), MaskFill::CodeValue([2; 3])),
        ],
        Dtype::U8,
    );
    let place = Placement::Canvas {
        size: (6, 1),
        x: 0,
        y: 0,
    };
    let geometry = Geometry {
        placement: place,
        ..Geometry::identity(3, 1)
    };
    assert_eq!(
        red_with_spec(&gray(3, 1, &[9; 3]), geometry, &spec),
        [9, 1, 1, 2, 2, 0]
    );
}

#[test]
fn mask_codes_are_normalized_and_elements_are_not() {
    let normalize = Normalize {
        mean: [0.5; 3],
        std: [0.25; 3],
    };
    let hole = |x| {
        MaskRegion::Rect(Rect {
            x,
            y: 0,
            width: 1,
            height: 1,
        })
    };
    let masks = [
        (hole(1), MaskFill::CodeValue([51; 3])),
        (hole(2), MaskFill::Element([51.0; 3])),
    ];
    let data = bytes(
        &gray(3, 1, &[51; 3]),
        Geometry::identity(3, 1),
        &masked(&masks, Dtype::F32).normalized(normalize),
    );
    let values: Vec<f32> = data
        .chunks(4)
        .map(|b| f32::from_ne_bytes(b.try_into().unwrap()))
        .collect();
    assert!((values[0] + 1.2).abs() < 1e-6);
    assert_eq!(values[0], values[3]);
    assert_eq!(values[6], 51.0);
}

#[test]
fn noise_depends_on_key_place_and_channel_only() {
    let everything = MaskRegion::Rect(Rect::from_size(8, 6));
    let grid = MaskGrid {
        step_x: [0; 2],
        step_y: [0; 2],
        start: [0; 2],
        limit: 1 << 32,
    };
    for dtype in [Dtype::U8, Dtype::BF16, Dtype::F32] {
        let run = |seed, region, key| {
            let spec = masked(&[(region, MaskFill::Noise(key))], dtype);
            bytes(
                &noise(Format::i420(8, 6), seed),
                Geometry::identity(8, 6),
                &spec,
            )
        };
        let one = run(1, everything, 5);
        assert_eq!(one, run(2, everything, 5));
        assert_eq!(one, run(1, MaskRegion::Grid(grid), 5));
        assert_ne!(one, run(1, everything, 6));
        let elements: Vec<_> = one.chunks(dtype.bytes()).collect();
        assert!(
            elements
                .windows(3)
                .filter(|w| w[0] == w[1] && w[1] == w[2])
                .count()
                < 3,
            "channels differ"
        );
    }
}

/// This value as an element of a 16-bit dtype.
fn narrowed(dtype: Dtype, value: f32) -> u16 {
    let spec = masked(
        &[(
            MaskRegion::Rect(Rect::from_size(1, 1)),
            MaskFill::Element([value; 3]),
        )],
        dtype,
    );
    let data = bytes(&gray(1, 1, &[0]), Geometry::identity(1, 1), &spec);
    u16::from_ne_bytes([data[0], data[1]])
}

#[test]
fn f16_rounds_to_nearest_even() {
    let two = |exponent: i32| 2f32.powi(exponent);
    for (value, bits) in [
        (0.0, 0x0000),
        (1.0, 0x3C00),
        (1.0 + two(-11), 0x3C00),       // midway: even
        (1.0 + 3.0 * two(-11), 0x3C02), // midway: even
        (1.0 + two(-11) + two(-23), 0x3C01),
        (65_504.0, 0x7BFF),
        (65_519.996, 0x7BFF),
        (65_520.0, 0x7C00), // midway to 2^16
        (f32::MAX, 0x7C00),
        (two(-24), 0x0001),
        (two(-25), 0x0000), // midway to the smallest
        (two(-25) + two(-40), 0x0001),
        (two(-14) - two(-25), 0x0400),
        (1e-40, 0x0000),
    ] {
        assert_eq!(narrowed(Dtype::F16, value), bits, "{value:e}");
        assert_eq!(narrowed(Dtype::F16, -value), bits | 0x8000, "-{value:e}");
    }
}

#[test]
fn bf16_rounds_to_nearest_even() {
    let two = |exponent: i32| 2f32.powi(exponent);
    for (value, bits) in [
        (0.0, 0x0000),
        (1.0, 0x3F80),
        (1.0 + two(-8), 0x3F80),       // midway: even
        (1.0 + 3.0 * two(-8), 0x3F82), // midway: even
        (1.0 + two(-8) + two(-23), 0x3F81),
        (f32::MAX, 0x7F80),
        (f32::INFINITY, 0x7F80),
        (f32::from_bits(0x8000), 0x0000), // midway to the smallest
        (f32::from_bits(0x8001), 0x0001),
    ] {
        assert_eq!(narrowed(Dtype::BF16, value), bits, "{value:e}");
        assert_eq!(narrowed(Dtype::BF16, -value), bits | 0x8000, "-{value:e}");
    }
}

#[test]
fn f16_and_bf16_are_f32_rounded_once_more() {
    let values: Vec<u8> = (0..=255).collect();
    let normalize = Normalize {
        mean: [0.485, 0.456, 0.406],
        std: [0.229, 0.224, 0.225],
    };
    let run = |dtype| {
        bytes(
            &gray(256, 1, &values),
            Geometry::identity(256, 1),
            &OutputSpec::new(dtype).normalized(normalize),
        )
    };
    let wide = run(Dtype::F32);
    for (dtype, digits) in [(Dtype::F16, 11), (Dtype::BF16, 8)] {
        for (narrow, wide) in run(dtype).chunks(2).zip(wide.chunks(4)) {
            let exact = f32::from_ne_bytes(wide.try_into().unwrap());
            assert_eq!(
                u16::from_ne_bytes([narrow[0], narrow[1]]),
                narrowed(dtype, exact)
            );
            // Normal numbers: the significand has this many digits, so the error is at most half a
            // unit of the last one.
            let bits = u32::from(u16::from_ne_bytes([narrow[0], narrow[1]]));
            let near = match dtype {
                Dtype::BF16 => f32::from_bits(bits << 16),
                _ => {
                    f32::from_bits((bits & 0x8000) << 16 | ((bits & 0x7FFF) << 13)) * 2f32.powi(112)
                }
            };
            assert!(
                (near - exact).abs() <= exact.abs() * 2f32.powi(-digits),
                "{near} {exact}"
            );
        }
    }
}
