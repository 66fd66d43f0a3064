//! Prints a table of milliseconds per frame (best of several rounds, one thread) for common uses of
//! the pixel pass. Arguments filter the lines of the table (`avx2 nv12`). Frames are synthetic. To
//! count instructions in an emulator, `ROUNDS` sets the number of rounds, and `SCALE` divides the
//! sides of all frames. Compare runs on one machine only.

use std::time::Instant;

use framespool_kernels::*;

/// Frames are written into a clip of this length in turn, so that full frames are not in the caches
/// when they are written.
const CLIP_FRAMES: usize = 16;

struct Case {
    name: &'static str,
    geometry: Geometry,
    spec: OutputSpec,
    channels_last: bool,
    /// The pass is compiled for every frame, as for clips of one frame with random crops.
    compiled: bool,
}

/// A rotation by some degrees about the center of a square frame.
fn turned_by(side: u32, degrees: f64, interpolation: Interpolation) -> Placement {
    let (sin, cos) = degrees.to_radians().sin_cos();
    let middle = (f64::from(side) - 1.0) / 2.0;
    let unit = f64::from(1u32 << WARP_FRACTION_BITS);
    let fixed =
        |a: f64, b: f64| [a, b, middle - (a + b) * middle].map(|v| (v * unit).round() as i64);
    Placement::Warp(Warp {
        size: (side, side),
        to_x: fixed(cos, -sin),
        to_y: fixed(sin, cos),
        interpolation,
    })
}

fn number_from_env(name: &str, default: u32) -> u32 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (scale, rounds) = (
        number_from_env("SCALE", 1),
        number_from_env("ROUNDS", 48) as usize,
    );
    let clip_frames = CLIP_FRAMES.min(rounds);
    let scaled = |x: u32, y: u32, width: u32, height: u32| Rect {
        x: x / scale,
        y: y / scale,
        width: width / scale,
        height: height / scale,
    };
    let (width, height) = (1920 / scale, 1080 / scale);
    let whole = Geometry::identity(width, height);
    let resized = (455 / scale, 256 / scale);
    let small = Geometry {
        resized,
        window: scaled(115, 16, 224, 224),
        ..whole
    };
    let turned = Orientation {
        mirror: false,
        quarter_turns_cw: 1,
    };
    let whole_turned = Geometry {
        orientation: turned,
        ..Geometry::identity(height, width)
    };
    let all = Geometry {
        resized,
        window: scaled(0, 0, 455, 256),
        ..whole
    };
    let case = |name, geometry, dtype, channels_last| Case {
        name,
        geometry,
        spec: OutputSpec::new(dtype),
        channels_last,
        compiled: false,
    };
    let side = 224 / scale;
    let square = Geometry {
        resized: (side, side),
        window: Rect::from_size(side, side),
        ..whole
    };
    let part = Geometry {
        crop: scaled(301, 203, 1111, 777),
        ..square
    };
    let augmented = |geometry: Geometry, interpolation| Case {
        name: match interpolation {
            Interpolation::Nearest => "crop, turn (nearest), jitter, grid",
            Interpolation::Bilinear => "crop, turn (bilinear), jitter, grid",
        },
        geometry: Geometry {
            placement: turned_by(side, 11.0, interpolation),
            flip_horizontal: true,
            ..geometry
        },
        spec: OutputSpec {
            color: ColorMap {
                matrix: [[1.1, 0.1, -0.1], [0.0, 0.9, 0.05], [0.1, -0.1, 1.2]],
                mean: [[0.03, 0.06, 0.01]; 3],
                offset: [3.0; 3],
            },
            masks: vec![Mask {
                region: MaskRegion::Grid(MaskGrid {
                    // Squares of 28 pixels, rotated by 17 degrees.
                    step_x: [73_345_000, 22_424_000_u32.wrapping_neg()],
                    step_y: [22_424_000, 73_345_000],
                    start: [5, 77],
                    limit: 1 << 31,
                }),
                fill: MaskFill::CodeValue([0; 3]),
            }],
            ..OutputSpec::new(Dtype::F32)
        },
        channels_last: false,
        compiled: true,
    };
    let cases = [
        case("resize 224x224, f32 CHW", square, Dtype::F32, false),
        case("crop to 224x224, f32 CHW", part, Dtype::F32, false),
        Case {
            compiled: true,
            ..case(
                "crop to 224x224, f32 CHW, compiled",
                part,
                Dtype::F32,
                false,
            )
        },
        case(
            "bicubic to 224x224, f32 CHW",
            Geometry {
                filter: Filter::Cubic,
                ..part
            },
            Dtype::F32,
            false,
        ),
        Case {
            compiled: true,
            ..case(
                "bicubic to 224x224, compiled",
                Geometry {
                    filter: Filter::Cubic,
                    ..part
                },
                Dtype::F32,
                false,
            )
        },
        augmented(part, Interpolation::Nearest),
        augmented(part, Interpolation::Bilinear),
        case("resize 256, crop 224, u8 HWC", small, Dtype::U8, true),
        case("resize 256, crop 224, u8 CHW", small, Dtype::U8, false),
        case("resize 256, crop 224, f32 CHW", small, Dtype::F32, false),
        case("resize 256 (455x256), u8 CHW", all, Dtype::U8, false),
        case("full size, u8 HWC", whole, Dtype::U8, true),
        case("full size, u8 CHW", whole, Dtype::U8, false),
        case("full size, f32 CHW", whole, Dtype::F32, false),
        case("full size, f32 HWC", whole, Dtype::F32, true),
        case("full size, f16 CHW", whole, Dtype::F16, false),
        case("full size, bf16 HWC", whole, Dtype::BF16, true),
        case(
            "full size, flipped, u8 HWC",
            Geometry {
                flip_horizontal: true,
                ..whole
            },
            Dtype::U8,
            true,
        ),
        case(
            "full size, quarter turn, u8 HWC",
            whole_turned,
            Dtype::U8,
            true,
        ),
        case(
            "full size, quarter turn, u8 CHW",
            whole_turned,
            Dtype::U8,
            false,
        ),
    ];
    let bytes: Vec<u8> = (0..width as usize * height as usize * 2)
        .map(|i| ((i * 2_654_435_761) >> 11) as u8)
        .collect();
    let plane = |stride_bytes: usize| Plane {
        data: &bytes,
        stride_bytes,
    };
    let w = width as usize;
    let yuv = Planes::Yuv {
        planes: [plane(w), plane(w / 2), plane(w / 2)],
        log2_chroma_w: 1,
        log2_chroma_h: 1,
    };
    let nv12 = Planes::SemiPlanar {
        luma: plane(w),
        chroma: plane(w),
        log2_chroma_w: 1,
        log2_chroma_h: 1,
    };
    let wide: Vec<u8> = bytes
        .chunks_exact(2)
        .flat_map(|p| [p[0], p[1] & 3])
        .chain(bytes.iter().copied())
        .collect();
    let plane = |stride_bytes: usize| Plane {
        data: &wide,
        stride_bytes,
    };
    let yuv10 = Planes::Yuv {
        planes: [plane(2 * w), plane(w), plane(w)],
        log2_chroma_w: 1,
        log2_chroma_h: 1,
    };
    let sources = [
        ("i420", 8, yuv),
        ("nv12", 8, nv12),
        ("i420 10 bit", 10, yuv10),
    ];
    for (name, size) in [("u8", 1), ("f16, bf16", 2), ("f32", 4)] {
        let copied = vec![1u8; 3 * w * height as usize * size];
        let mut clip = vec![1u8; copied.len() * clip_frames];
        let mut best = f64::INFINITY;
        for n in 0..rounds {
            let start = Instant::now();
            let frame = &mut clip[n % clip_frames * copied.len()..][..copied.len()];
            std::hint::black_box(frame).copy_from_slice(std::hint::black_box(&copied));
            best = best.min(start.elapsed().as_secs_f64());
        }
        println!(
            "{:57} {:8.3}",
            format!("memcpy of a full frame, {name}"),
            best * 1e3
        );
    }
    println!(
        "{width}x{height}, ms per frame ({} is the default backend)",
        backend_name()
    );
    for backend in Backend::available() {
        for (source, depth_bits, planes) in sources {
            for Case {
                name,
                geometry,
                spec,
                channels_last,
                compiled,
            } in &cases
            {
                let label = format!("{:9} {source:12} {name:34}", backend.name());
                if !words.iter().all(|word| label.contains(word.as_str())) {
                    continue;
                }
                let color = Colorimetry {
                    matrix: MatrixCoefficients::Bt709,
                    range: ColorRange::Limited,
                };
                let frame = FrameView {
                    width,
                    height,
                    depth_bits,
                    shift: 0,
                    planes,
                    color,
                };
                let compile = || {
                    PixelPass::new(*geometry, spec.clone())
                        .expect("a valid geometry")
                        .with_backend(backend)
                };
                let mut pass = compile();
                let (w, h) = pass.output_size();
                let (w, h) = (w as usize, h as usize);
                let frame_bytes = w * h * 3 * spec.dtype.bytes();
                // Batches begin at a cache line.
                let mut clip = vec![1u8; frame_bytes * clip_frames + 64];
                let start_of_line = clip.as_ptr().align_offset(64);
                let clip = &mut clip[start_of_line..];
                let mut scratch = Scratch::new();
                let mut best = f64::INFINITY;
                for n in 0..rounds {
                    let start = Instant::now();
                    let data = &mut clip[n % clip_frames * frame_bytes..][..frame_bytes];
                    if *compiled {
                        pass = compile();
                    }
                    let mut out = if *channels_last {
                        OutputSlot::hwc(data, w)
                    } else {
                        OutputSlot::chw(data, w, h)
                    };
                    pass.run(&frame, &mut out, &mut scratch)
                        .expect("a valid frame");
                    best = best.min(start.elapsed().as_secs_f64());
                }
                println!("{label} {:8.3}", best * 1e3);
            }
        }
    }
}
