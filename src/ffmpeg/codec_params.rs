//! Codec parameters of a stream, and libav's names of codecs, colors and errors.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};
use std::ptr;

use ffmpeg_sys_next as ffi;

use crate::error::{Result, Site};
use crate::limits::Limits;
use crate::media::{Codec, CodecParams, ColorTags, DisplayOrientation};

/// libav's text for an error code.
pub(super) fn error_text(code: c_int) -> String {
    let mut text = [0 as libc::c_char; 128];
    // SAFETY: the buffer's true length is given and the result is NUL-terminated.
    unsafe {
        ffi::av_strerror(code, text.as_mut_ptr(), text.len());
        CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned()
    }
}

/// A libavutil function that maps a number of type `T` to its name.
pub(super) type NameBy<T> = unsafe extern "C" fn(T) -> *const libc::c_char;
/// The same, for any integer.
pub(super) type NameOf = NameBy<c_int>;

/// The name that `get` returns for a number, if any.
pub(super) fn named(number: c_int, get: NameOf) -> Option<String> {
    // SAFETY: `get` takes any number and returns a static NUL-terminated string or null.
    unsafe {
        get(number)
            .as_ref()
            .map(|name| CStr::from_ptr(name).to_string_lossy().into_owned())
    }
}

/// libav's name for a codec number, "unknown" for numbers it does not know.
pub(crate) fn codec_name(id: u32) -> String {
    // SAFETY: avcodec_get_name accepts any number and returns a static string. The number goes
    // through the C type without becoming a Rust enum value first.
    unsafe {
        let get: unsafe extern "C" fn(u32) -> *const libc::c_char = std::mem::transmute(
            ffi::avcodec_get_name as unsafe extern "C" fn(ffi::AVCodecID) -> *const libc::c_char,
        );
        CStr::from_ptr(get(id)).to_string_lossy().into_owned()
    }
}

/// libav's number for a codec name.
pub(crate) fn codec_id(name: &str) -> Option<u32> {
    let name = std::ffi::CString::new(name).ok()?;
    // SAFETY: a NUL-terminated name; the result is a static descriptor or null.
    unsafe {
        let descriptor = ffi::avcodec_descriptor_get_by_name(name.as_ptr()).as_ref()?;
        Some(ptr::addr_of!(descriptor.id).cast::<u32>().read())
    }
}

/// A stream's codec and its configuration.
pub(super) fn codec_with_extradata(
    site: &Site,
    par: &ffi::AVCodecParameters,
    limits: &Limits,
) -> Result<(Codec, Vec<u8>)> {
    // SAFETY: a field of live parameters, read as an integer.
    let id = unsafe { ptr::addr_of!(par.codec_id).cast::<u32>().read() };
    let len = u64::try_from(par.extradata_size).unwrap_or(0);
    Limits::check(
        site,
        "codec configuration size",
        len,
        limits.extradata_bytes,
    )?;
    let extradata = if par.extradata.is_null() || len == 0 {
        Vec::new()
    } else {
        // SAFETY: libav keeps `extradata_size` readable bytes at `extradata`.
        unsafe { std::slice::from_raw_parts(par.extradata, len as usize) }.to_vec()
    };
    Ok((Codec::of_stream(id, codec_name(id)), extradata))
}

/// The parameters of a stream's codec.
pub(super) fn codec_params(
    site: &Site,
    par: &ffi::AVCodecParameters,
    limits: &Limits,
) -> Result<CodecParams> {
    // SAFETY: plain integer fields of live parameters, read as integers.
    let (primaries, transfer, matrix, range) = unsafe {
        (
            ptr::addr_of!(par.color_primaries).cast::<u32>().read(),
            ptr::addr_of!(par.color_trc).cast::<u32>().read(),
            ptr::addr_of!(par.color_space).cast::<u32>().read(),
            ptr::addr_of!(par.color_range).cast::<u32>().read(),
        )
    };
    let (codec, extradata) = codec_with_extradata(site, par, limits)?;
    let (width, height) = (
        u32::try_from(par.width).unwrap_or(0),
        u32::try_from(par.height).unwrap_or(0),
    );
    Limits::check(
        site,
        "picture area",
        u64::from(width) * u64::from(height),
        limits.picture_samples,
    )?;
    Ok(CodecParams {
        codec,
        tag: par.codec_tag,
        extradata,
        width,
        height,
        bits_per_coded_sample: par.bits_per_coded_sample,
        color: ColorTags {
            primaries: primaries as u8,
            transfer: transfer as u8,
            matrix: matrix as u8,
            full_range: match range {
                1 => Some(false),
                2 => Some(true),
                _ => None,
            },
        },
        reorder: None,
    })
}

/// The orientation that a stream's display matrix states.
pub(super) fn display_orientation(par: &ffi::AVCodecParameters) -> DisplayOrientation {
    // SAFETY: live parameters; the returned entry, if any, belongs to them.
    let entry = unsafe {
        ffi::av_packet_side_data_get(
            par.coded_side_data,
            par.nb_coded_side_data,
            ffi::AVPacketSideDataType::AV_PKT_DATA_DISPLAYMATRIX,
        )
        .as_ref()
    };
    let Some(entry) = entry.filter(|e| e.size >= 36 && !e.data.is_null()) else {
        return DisplayOrientation::default();
    };
    let cell = |i: usize| {
        // SAFETY: nine native-endian i32, size checked above; possibly unaligned.
        f64::from(unsafe { entry.data.cast::<i32>().add(i).read_unaligned() })
    };
    // Rows of the matrix are x and y: (x', y') = (x, y) * [a b; c d].
    DisplayOrientation::from_matrix(cell(0), cell(1), cell(3), cell(4))
}
