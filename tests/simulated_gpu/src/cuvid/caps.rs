//! Capabilities of an H200-like engine by codec, chroma format and depth, limited to
//! FRAMESPOOL_SIMULATED_CODECS.

use super::abi::{AV1, Caps, H264, HEVC, NV12, P016, VP8, VP9, YUV444, YUV444_16};
use crate::call_log::variable;

const NAMES: [(&str, i32); 5] = [
    ("h264", H264),
    ("hevc", HEVC),
    ("vp8", VP8),
    ("vp9", VP9),
    ("av1", AV1),
];

fn is_listed(codec: i32) -> bool {
    let list = variable("CODECS").unwrap_or_else(|| "h264,hevc,vp8,vp9".into());
    let mut names = list.split(',').map(str::trim);
    names.any(|name| NAMES.iter().any(|&(n, c)| n == name && c == codec))
}

pub fn engines() -> u8 {
    variable("ENGINES")
        .and_then(|n| n.parse().ok())
        .unwrap_or(7)
}

/// Fills in the results; the query fields stay.
pub fn fill(caps: &mut Caps) {
    let depth = caps.depth_minus8;
    // cudaVideoChromaFormat: 0 monochrome, 1 4:2:0, 2 4:2:2, 3 4:4:4.
    let known = match (caps.codec, caps.chroma) {
        (H264 | VP8, 1) => depth == 0,
        (H264, 0) => depth == 0,
        (HEVC, 0 | 1 | 3) => matches!(depth, 0 | 2 | 4),
        (VP9, 1) => matches!(depth, 0 | 2 | 4),
        (AV1, 0 | 1) => matches!(depth, 0 | 2),
        _ => false,
    };
    let supported = known && is_listed(caps.codec) && engines() > 0;
    caps.supported = u8::from(supported);
    (
        caps.engines,
        caps.output_formats,
        caps.max_width,
        caps.max_height,
        caps.max_macroblocks,
    ) = (0, 0, 0, 0, 0);
    (caps.min_width, caps.min_height) = (0, 0);
    if !supported {
        return;
    }
    caps.engines = engines();
    let formats: &[i32] = match (caps.chroma, depth) {
        (3, 0) => &[YUV444],
        (3, _) => &[YUV444, YUV444_16],
        (_, 0) => &[NV12],
        _ => &[NV12, P016],
    };
    caps.output_formats = formats.iter().map(|f| 1u16 << f).sum();
    let (side, macroblocks, least) = match caps.codec {
        H264 => (4096, 65536, (48, 16)),
        VP8 => (4096, 65536, (48, 16)),
        HEVC => (8192, 262_144, (144, 144)),
        _ => (8192, 262_144, (128, 128)),
    };
    (caps.max_width, caps.max_height, caps.max_macroblocks) = (side, side, macroblocks);
    (caps.min_width, caps.min_height) = least;
}

/// Why such a decoder cannot be created; `None` if it can.
pub fn unsupported_reason(
    codec: i32,
    chroma: i32,
    depth_minus8: u32,
    size: (u32, u32),
    output: i32,
) -> Option<String> {
    let mut caps = Caps {
        codec,
        chroma,
        depth_minus8,
        reserved1: [0; 3],
        supported: 0,
        engines: 0,
        output_formats: 0,
        max_width: 0,
        max_height: 0,
        max_macroblocks: 0,
        min_width: 0,
        min_height: 0,
        histogram: 0,
        counter_depth: 0,
        max_bins: 0,
        reserved3: [0; 10],
    };
    fill(&mut caps);
    let (width, height) = size;
    if caps.supported == 0 {
        return Some(format!(
            "codec {codec}, chroma {chroma}, {} bits is not supported",
            depth_minus8 + 8
        ));
    }
    if width > caps.max_width
        || height > caps.max_height
        || width / 16 * (height / 16) > caps.max_macroblocks
    {
        return Some(format!("{width}x{height} is larger than the caps allow"));
    }
    if width < u32::from(caps.min_width) || height < u32::from(caps.min_height) {
        return Some(format!("{width}x{height} is smaller than the caps allow"));
    }
    if !(0..16).contains(&output) || caps.output_formats >> output & 1 == 0 {
        return Some(format!(
            "output format {output} is not in the caps' mask {:#x}",
            caps.output_formats
        ));
    }
    None
}
