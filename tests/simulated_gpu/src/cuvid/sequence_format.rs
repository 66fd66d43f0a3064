//! Computes the format that a parser announces and the properties of a decoder, from a codec
//! context that has just decoded a picture and from that picture's headers. Container metadata is
//! not used.
#![allow(unsafe_code)]

use ffmpeg_sys_next as ffi;

use super::abi::{AV1, Format, H264, HEVC, Rect, VP8};
use super::picture_context::PictureFormat;
use super::picture_splitter::CodedPicture;
use crate::call_log::behavior_is_set;

/// cudaVideoChromaFormat (0 monochrome, 1 4:2:0, 2 4:2:2, 3 4:4:4) and bits of a pixel format.
pub fn chroma_and_depth(format: i32) -> Option<(i32, u32)> {
    // SAFETY: the number goes through the C type; the result is a static descriptor or null.
    let descriptor = unsafe {
        let get: unsafe extern "C" fn(i32) -> *const ffi::AVPixFmtDescriptor = std::mem::transmute(
            ffi::av_pix_fmt_desc_get
                as unsafe extern "C" fn(ffi::AVPixelFormat) -> *const ffi::AVPixFmtDescriptor,
        );
        get(format).as_ref()
    }?;
    let chroma = match (
        descriptor.nb_components,
        descriptor.log2_chroma_w,
        descriptor.log2_chroma_h,
    ) {
        (1, ..) => 0,
        (_, 1, 1) => 1,
        (_, 1, 0) => 2,
        (_, 0, 0) => 3,
        _ => return None,
    };
    Some((chroma, descriptor.comp[0].depth as u32))
}

fn round_up(n: i32, to: u32) -> u32 {
    (n.max(0) as u32).div_ceil(to) * to
}

pub fn describe(
    codec: i32,
    context: &ffi::AVCodecContext,
    coded: &CodedPicture,
) -> Option<(Format, PictureFormat)> {
    // SAFETY: a C enum, read as its number: libavcodec may know formats that the bindings do not.
    let number = |at: *const u8| unsafe { at.cast::<i32>().read() };
    let (chroma, depth) = chroma_and_depth(number((&raw const context.pix_fmt).cast()))?;
    let sps = coded.sps.unwrap_or_default();
    let (width, height, area, surfaces) = match codec {
        H264 | HEVC => {
            let block = if codec == HEVC && behavior_is_set("hevc_padded") {
                32
            } else {
                2
            };
            let (width, height) = (
                round_up(context.coded_width, block),
                round_up(context.coded_height, block),
            );
            let (left, top) = (sps.crop_left as i32, sps.crop_top as i32);
            let (right, bottom) = (left + context.width, top + context.height);
            (
                width,
                height,
                Rect {
                    left,
                    top,
                    right,
                    bottom,
                },
                sps.surfaces.clamp(4, 30),
            )
        }
        _ => {
            let block = if codec == VP8 { 16 } else { 8 };
            let area = Rect {
                left: 0,
                top: 0,
                right: context.width,
                bottom: context.height,
            };
            (
                round_up(context.width, block),
                round_up(context.height, block),
                area,
                if codec == VP8 { 7 } else { 12 },
            )
        }
    };
    // For the other codecs, some NVIDIA parsers are known to leave all of this at 0.
    let has_signal = codec == H264 || codec == HEVC;
    let signaled = |tag: i32| if has_signal { tag as u8 } else { 0 };
    let full = has_signal && number((&raw const context.color_range).cast()) == 2;
    let rate = if sps.rate[1] > 0 { sps.rate } else { [0, 0] };
    let format = Format {
        codec,
        frame_rate: rate,
        progressive_sequence: u8::from(codec != H264 || sps.frames_only),
        luma_depth_minus8: depth.saturating_sub(8) as u8,
        chroma_depth_minus8: depth.saturating_sub(8) as u8,
        min_decode_surfaces: surfaces as u8,
        coded_width: width,
        coded_height: height,
        display_area: area,
        chroma,
        bitrate: 0,
        aspect: [area.right - area.left, area.bottom - area.top],
        signal: 5 | u8::from(full) << 3,
        primaries: signaled(number((&raw const context.color_primaries).cast())),
        transfer: signaled(number((&raw const context.color_trc).cast())),
        matrix: signaled(number((&raw const context.colorspace).cast())),
        header_bytes: if codec == AV1 {
            0
        } else {
            coded.headers.len() as u32
        },
    };
    Some((
        format,
        PictureFormat {
            codec,
            width,
            height,
            chroma,
            depth,
        },
    ))
}
