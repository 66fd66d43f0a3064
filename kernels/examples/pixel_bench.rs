//! In: nothing; the pictures are made up.
//! Out: a table of milliseconds per frame (best of several rounds, one thread) for the usual ways to use the pass.
//! Never: judges; compare runs on one machine only.

use std::time::Instant;

use framespool_kernels::*;

struct Case {
    name: &'static str,
    geometry: Geometry,
    dtype: Dtype,
    channels_last: bool,
}

fn main() {
    let (width, height) = (1920u32, 1080u32);
    let whole = Geometry::whole(width, height);
    let small =
        Geometry { resized: (455, 256), window: Rect { x: 115, y: 16, width: 224, height: 224 }, ..whole };
    let turned = Orientation { mirror: false, quarter_turns_cw: 1 };
    let whole_turned = Geometry { orientation: turned, ..Geometry::whole(height, width) };
    let all = Geometry { resized: (455, 256), window: Rect::sized(455, 256), ..whole };
    let case = |name, geometry, dtype, channels_last| Case { name, geometry, dtype, channels_last };
    let cases = [
        case("resize 256, crop 224, u8 HWC", small, Dtype::U8, true),
        case("resize 256, crop 224, u8 CHW", small, Dtype::U8, false),
        case("resize 256, crop 224, f32 CHW", small, Dtype::F32, false),
        case("resize 256 (455x256), u8 CHW", all, Dtype::U8, false),
        case("full size, u8 HWC", whole, Dtype::U8, true),
        case("full size, u8 CHW", whole, Dtype::U8, false),
        case("full size, f32 CHW", whole, Dtype::F32, false),
        case("full size, flipped, u8 HWC", Geometry { flip_horizontal: true, ..whole }, Dtype::U8, true),
        case("full size, quarter turn, u8 HWC", whole_turned, Dtype::U8, true),
        case("full size, quarter turn, u8 CHW", whole_turned, Dtype::U8, false),
    ];
    let bytes: Vec<u8> =
        (0..width as usize * height as usize * 2).map(|i| ((i * 2_654_435_761) >> 11) as u8).collect();
    let plane = |stride_bytes: usize| Plane { data: &bytes, stride_bytes };
    let w = width as usize;
    let yuv =
        Planes::Yuv { planes: [plane(w), plane(w / 2), plane(w / 2)], log2_chroma_w: 1, log2_chroma_h: 1 };
    let nv12 = Planes::SemiPlanar { luma: plane(w), chroma: plane(w), log2_chroma_w: 1, log2_chroma_h: 1 };
    let wide: Vec<u8> =
        bytes.chunks_exact(2).flat_map(|p| [p[0], p[1] & 3]).chain(bytes.iter().copied()).collect();
    let plane = |stride_bytes: usize| Plane { data: &wide, stride_bytes };
    let yuv10 =
        Planes::Yuv { planes: [plane(2 * w), plane(w), plane(w)], log2_chroma_w: 1, log2_chroma_h: 1 };
    let sources = [("i420", 8, yuv), ("nv12", 8, nv12), ("i420 10 bit", 10, yuv10)];
    println!("1920x1080, ms per frame ({} is the default backend)", backend_name());
    for backend in Backend::available() {
        for (source, depth_bits, planes) in sources {
            for Case { name, geometry, dtype, channels_last } in &cases {
                let colour = Colour { matrix: Matrix::Bt709, range: Range::Limited };
                let frame = FrameView { width, height, depth_bits, shift: 0, planes, colour };
                let mut pass =
                    PixelPass::new(*geometry, *dtype, None).expect("a fair geometry").with_backend(backend);
                let (w, h) = pass.output_size();
                let (w, h) = (w as usize, h as usize);
                let mut data = vec![0; w * h * 3 * dtype.bytes()];
                let mut scratch = Scratch::new();
                let mut best = f64::INFINITY;
                for _ in 0..12 {
                    let start = Instant::now();
                    let mut out = if *channels_last {
                        OutSlot::hwc(&mut data, w)
                    } else {
                        OutSlot::chw(&mut data, w, h)
                    };
                    pass.run(&frame, &mut out, &mut scratch).expect("a fair frame");
                    best = best.min(start.elapsed().as_secs_f64());
                }
                println!("{:9} {source:12} {name:34} {:8.3}", backend.name(), best * 1e3);
            }
        }
    }
}
