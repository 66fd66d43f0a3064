//! Arguments of transforms on a small frame: the same pixels each time, in a clip of the predicted
//! size, or an error. Pixel values are not checked; tests/engine/color.rs and the kernels'
//! reference tests do that.

use framespool::error::Site;
use framespool::media::{DisplayGeometry, DisplayOrientation};
use framespool::rng::RngKey;
use framespool::transforms::transform::{
    Affine, CropPositions, EraseFill, Padding, Size, Step, Target as Aim, Transform, UniformRange,
};
use framespool::transforms::{
    Dtype, Filter, Layout, Normalize, TransformExecutor, TransformPipeline, explain,
};
use framespool_kernels::{
    ColorRange, Colorimetry, FrameView, Interpolation, MatrixCoefficients, Plane, Planes,
};

use super::{MIB, Target, USUAL, check_error};
use crate::fuzz_input::FuzzInput;

pub const TRANSFORMS: Target = Target {
    name: "transforms",
    about: "transform arguments, compiled and applied",
    seeds: |_| {
        (0..64u8)
            .map(|n| {
                (0..60u8)
                    .map(|at| at.wrapping_mul(31).wrapping_add(n.wrapping_mul(7)))
                    .collect()
            })
            .collect()
    },
    run,
    longest: 400,
    // A warp keeps numbers for each row that it reads: up to 65535 rows, magnified 16 times, on
    // request.
    memory_bytes: 1024 * MIB,
    replayed: 5000,
    ..USUAL
};

/// Maximum size in bytes of a clip that is written.
const MAX_OUTPUT_BYTES: usize = 1 << 20;
const FILTERS: [Filter; 5] = [
    Filter::Triangle,
    Filter::Cubic,
    Filter::Bilinear,
    Filter::Bicubic,
    Filter::Nearest,
];

fn run(input: &[u8]) {
    let mut case = FuzzInput::new(input);
    let Some((pipeline, size, display)) = asked(&mut case) else {
        return;
    };
    let key = RngKey {
        seed: case.long(),
        epoch: 0,
        clip: case.long(),
        occurrence: 0,
    };
    let pipeline = match case.next_below(4) {
        0 => pipeline.for_labels(case.byte()),
        1 => pipeline.as_codes().map_or(pipeline, |(codes, _)| codes),
        _ => pipeline,
    };
    let mut executor = TransformExecutor::new(pipeline.clone());
    executor.begin(key, 2);
    let explained = check_error(explain(&pipeline, size, display, key, (0, 2)));
    let Ok(made) = check_error(executor.size_of(size, display)) else {
        return;
    };
    assert!(
        explained.is_ok(),
        "a size, but no explanation: {:?}",
        explained.err()
    );
    assert!(
        pipeline.fixed_size().is_none_or(|fixed| fixed == made),
        "predicted {:?}, got {made:?}",
        pipeline.fixed_size()
    );
    let shape = executor.shape(2, made);
    let Some(bytes) = shape.bytes().filter(|&bytes| bytes <= MAX_OUTPUT_BYTES) else {
        return;
    };
    assert_eq!(
        shape.dims().iter().product::<usize>() * pipeline.dtype.bytes(),
        bytes
    );
    let planes = picture(size);
    let view = view(size, &planes);
    let site = Site::file(&"fuzzed".into());
    let apply = |executor: &mut TransformExecutor, filling: u8| {
        let mut clip = vec![filling; bytes];
        for t in 0..2 {
            check_error(executor.apply_to_view(&site, &view, display, &shape, &mut clip, (t, t)))?;
        }
        Ok::<_, framespool::Error>(clip)
    };
    let first = apply(&mut executor, 0);
    drop(executor); // its scratch memory counts against the limit of the second run
    let mut fresh = TransformExecutor::new(pipeline);
    fresh.begin(key, 2);
    // On memory with other content, so that unwritten bytes differ.
    match (first, apply(&mut fresh, 0xff)) {
        (Ok(first), Ok(second)) => assert_eq!(first, second, "different pixels the second time"),
        (first, second) => assert_eq!(first.is_ok(), second.is_ok(), "only one of two runs failed"),
    }
}

/// A pipeline, and a frame's size, orientation and shape of pixels.
fn asked(case: &mut FuzzInput<'_>) -> Option<(TransformPipeline, (u32, u32), DisplayGeometry)> {
    let dtype = case.one_of(&[Dtype::U8, Dtype::F32, Dtype::F16, Dtype::BF16]);
    let layout = case.one_of(&[Layout::Nthwc, Layout::Ntchw, Layout::Ncthw]);
    let size = (
        1 + u32::from(case.byte() % 70),
        1 + u32::from(case.byte() % 70),
    );
    let orientation = DisplayOrientation {
        mirror: case.flag(),
        quarter_turns_cw: case.byte() % 4,
    };
    let steps = case.some(4, |case| Step {
        transform: transform(case),
        per_frame: case.flag(),
    });
    let sample_aspect = case.maybe(|case| (side(case, 0), side(case, 0)));
    let display = DisplayGeometry {
        orientation,
        sample_aspect,
    };
    Some((
        check_error(TransformPipeline::new(steps, dtype, layout)).ok()?,
        size,
        display,
    ))
}

fn picture((width, height): (u32, u32)) -> [Vec<u8>; 3] {
    let plane =
        |columns: u32, rows: u32| (0..columns * rows).map(|n| ((n * 97) >> 2) as u8).collect();
    let (columns, rows) = (width.div_ceil(2), height.div_ceil(2));
    [
        plane(width, height),
        plane(columns, rows),
        plane(columns, rows),
    ]
}

fn view((width, height): (u32, u32), [y, u, v]: &[Vec<u8>; 3]) -> FrameView<'_> {
    let plane = |data, stride_bytes: u32| Plane {
        data,
        stride_bytes: stride_bytes as usize,
    };
    let chroma = width.div_ceil(2);
    FrameView {
        width,
        height,
        depth_bits: 8,
        shift: 0,
        planes: Planes::Yuv {
            planes: [plane(y, width), plane(u, chroma), plane(v, chroma)],
            log2_chroma_w: 1,
            log2_chroma_h: 1,
        },
        color: Colorimetry {
            matrix: MatrixCoefficients::Bt709,
            range: ColorRange::Limited,
        },
    }
}

/// Maximum side that the Python constructors accept; larger values do not reach this code.
const MAX_SIDE: u32 = 65535;

fn side(c: &mut FuzzInput<'_>, least: u32) -> u32 {
    c.count().clamp(least, MAX_SIDE)
}

fn size(c: &mut FuzzInput<'_>) -> Size {
    Size {
        height: side(c, 1),
        width: side(c, 1),
    }
}

/// A finite number in this range.
fn within(c: &mut FuzzInput<'_>, least: f64, most: f64) -> f64 {
    let number = c.number();
    if number.is_nan() {
        least
    } else {
        number.clamp(least, most)
    }
}

fn span(c: &mut FuzzInput<'_>, least: f64, most: f64) -> UniformRange {
    let (one, other) = (within(c, least, most), within(c, least, most));
    UniformRange::new(one.min(other), one.max(other))
}

/// A positive finite number of any size.
fn positive(c: &mut FuzzInput<'_>) -> UniformRange {
    span(c, 5e-324, f64::MAX)
}

fn factor(c: &mut FuzzInput<'_>) -> UniformRange {
    span(c, 0.0, 20.0)
}

fn angle(c: &mut FuzzInput<'_>) -> UniformRange {
    span(c, -1e6, 1e6)
}

fn part(c: &mut FuzzInput<'_>) -> f64 {
    within(c, 0.0, 1.0)
}

fn three(c: &mut FuzzInput<'_>, least: f64, most: f64) -> [f64; 3] {
    [
        within(c, least, most),
        within(c, least, most),
        within(c, least, most),
    ]
}

fn fill(c: &mut FuzzInput<'_>) -> [f64; 3] {
    match c.flag() {
        true => [0.0; 3],
        false => three(c, 0.0, 255.0),
    }
}

fn padding(c: &mut FuzzInput<'_>) -> Padding {
    Padding {
        left: side(c, 0),
        top: side(c, 0),
        right: side(c, 0),
        bottom: side(c, 0),
    }
}

fn cover(c: &mut FuzzInput<'_>) -> EraseFill {
    match c.flag() {
        true => EraseFill::Noise,
        false => EraseFill::Value(three(c, f64::MIN, f64::MAX)),
    }
}

fn transform(c: &mut FuzzInput<'_>) -> Transform {
    let filter = c.one_of(&FILTERS);
    match c.next_below(24) {
        0 => Transform::AssumeColor {
            matrix: c.maybe(|c| {
                c.one_of(&[
                    MatrixCoefficients::Bt601,
                    MatrixCoefficients::Bt709,
                    MatrixCoefficients::Bt2020Ncl,
                    MatrixCoefficients::Smpte240m,
                    MatrixCoefficients::YCgCo,
                    MatrixCoefficients::Luma,
                    MatrixCoefficients::Rgb,
                ])
            }),
            range: c.maybe(|c| c.one_of(&[ColorRange::Limited, ColorRange::Full])),
        },
        1 | 2 => {
            let target = match c.next_below(5) {
                0 => Aim::Shorter {
                    size: side(c, 1),
                    longest: c.maybe(|c| side(c, 1)),
                },
                1 => Aim::Longer(side(c, 1)),
                2 => {
                    let min_pixels = u64::from(side(c, 1)) * u64::from(side(c, 1));
                    Aim::Multiple {
                        factor: side(c, 1),
                        min_pixels,
                        max_pixels: min_pixels + u64::from(side(c, 1)) * u64::from(side(c, 1)),
                        total_pixels: c.maybe(|c| u64::from(side(c, 1)) * u64::from(side(c, 1))),
                    }
                }
                3 => Aim::Cover(size(c)),
                _ => Aim::Exact(size(c)),
            };
            Transform::Resize {
                target,
                filter,
                display_aspect: true,
            }
        }
        3 => Transform::CenterCrop { size: size(c) },
        4 => Transform::RandomCrop {
            size: size(c),
            padding: padding(c),
            pad_if_needed: c.flag(),
            fill: fill(c),
        },
        5 => Transform::RandomResizedCrop {
            size: size(c),
            scale: positive(c),
            ratio: positive(c),
            filter,
            display_aspect: true,
        },
        6 => Transform::FiveCrop { size: size(c) },
        7 => Transform::ThreeCrop { size: size(c) },
        8 => match c.flag() {
            true => Transform::RandomHorizontalFlip { p: part(c) },
            false => Transform::RandomVerticalFlip { p: part(c) },
        },
        9 => affine(c),
        10 => rotation(c),
        11 => Transform::Pad {
            padding: padding(c),
            fill: fill(c),
        },
        12 => Transform::Letterbox {
            size: size(c),
            filter,
            fill: fill(c),
            display_aspect: true,
        },
        13 => Transform::ColorJitter {
            brightness: c.maybe(factor),
            contrast: c.maybe(factor),
            saturation: c.maybe(factor),
            hue: c.maybe(|c| span(c, -0.5, 0.5)),
        },
        14 => Transform::ColorTwist {
            brightness: factor(c),
            contrast: factor(c),
            saturation: factor(c),
            hue: angle(c),
        },
        15 => Transform::RandomGrayscale { p: part(c) },
        16 => Transform::RandomErasing {
            p: part(c),
            scale: span(c, 0.0, 1.0),
            ratio: positive(c),
            cover: cover(c),
            // As many as requested are drawn.
            count: side(c, 1).min(100),
        },
        17 => Transform::Cutout {
            size: size(c),
            count: side(c, 1).min(100),
            p: part(c),
            cover: cover(c),
        },
        18 => Transform::GridMask {
            tile: span(c, 1.0, MAX_SIDE.into()),
            ratio: span(c, 0.0, 1.0),
            degrees: angle(c),
            shift_x: angle(c),
            shift_y: angle(c),
            p: part(c),
            cover: cover(c),
        },
        19 => Transform::RandomShortestSize {
            sizes: (0..=c.next_below(3)).map(|_| side(c, 1)).collect(),
            longest: c.maybe(|c| side(c, 1)),
            filter,
            display_aspect: true,
        },
        20 => Transform::MultiScaleCrop {
            size: size(c),
            scales: (0..=c.next_below(3)).map(|_| part(c)).collect(),
            max_distort: c.next_below(3) as u32,
            positions: c.one_of(&[
                CropPositions::Five,
                CropPositions::Thirteen,
                CropPositions::Any,
            ]),
            filter,
            display_aspect: true,
        },
        21 => Transform::RandomPhotometricDistort {
            brightness: factor(c),
            contrast: factor(c),
            saturation: factor(c),
            // A shift of hue takes seconds if steps before it make a frame of the largest size.
            hue: c
                .maybe(|c| span(c, -0.5, 0.5))
                .unwrap_or(UniformRange::only(0.0)),
            p: part(c),
        },
        22 => {
            let list = |c: &mut FuzzInput<'_>| -> Vec<Step> {
                (0..c.next_below(3))
                    .map(|_| Step {
                        transform: transform(c),
                        per_frame: c.flag(),
                    })
                    .collect()
            };
            match c.flag() {
                true => Transform::RandomApply {
                    steps: list(c),
                    p: part(c),
                },
                false => {
                    let first = (1.0, list(c));
                    let others = (0..c.next_below(3)).map(|_| (part(c), list(c)));
                    Transform::RandomChoice {
                        choices: std::iter::once(first).chain(others).collect(),
                    }
                }
            }
        }
        _ => {
            let numbers = |c: &mut FuzzInput<'_>| {
                let wide = f64::from(f32::MAX);
                three(c, -wide, wide).map(|number| number as f32)
            };
            Transform::Normalize(Normalize {
                mean: numbers(c),
                std: numbers(c),
            })
        }
    }
}

fn center(c: &mut FuzzInput<'_>) -> Option<(f64, f64)> {
    let far = f64::from(MAX_SIDE) * 1e9;
    c.maybe(|c| (within(c, -far, far), within(c, -far, far)))
}

fn rotation(c: &mut FuzzInput<'_>) -> Transform {
    Transform::RandomRotation {
        degrees: angle(c),
        interpolation: c.one_of(&[Interpolation::Nearest, Interpolation::Bilinear]),
        expand: c.flag(),
        center: center(c),
        fill: fill(c),
    }
}

fn affine(c: &mut FuzzInput<'_>) -> Transform {
    let shears = if c.flag() {
        [UniformRange::only(0.0); 2]
    } else {
        [angle(c), angle(c)]
    };
    Transform::RandomAffine(Affine {
        degrees: angle(c),
        translate: (part(c), part(c)),
        scale: if c.flag() {
            UniformRange::only(1.0)
        } else {
            span(c, 1e-3, 1e3)
        },
        shear: [shears[0].low, shears[0].high, shears[1].low, shears[1].high],
        center: center(c),
        interpolation: c.one_of(&[Interpolation::Nearest, Interpolation::Bilinear]),
        fill: fill(c),
    })
}
