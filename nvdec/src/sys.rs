//! In: cuviddec.h and nvcuvid.h of API 11.1, as `tests/bindings.rs` turned them into Rust.
//! Out: types and constants of NVDEC's C interface, their layout asserted.
//! Never: functions: they are looked up at run time, see [`crate::api`].
#![allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals)]
#![allow(clippy::all, clippy::undocumented_unsafe_blocks, unsafe_code, unused)]

mod bindings;

pub use bindings::*;

// The layout on x86-64 and aarch64 Linux, the same in API 11.1 and 13.0. bindgen asserts what it computed; this is what a C compiler
// said of the headers.
#[cfg(target_pointer_width = "64")]
const _: () = {
    use core::mem::{align_of, offset_of, size_of};

    assert!(size_of::<CUVIDDECODECAPS>() == 88);
    assert!(offset_of!(CUVIDDECODECAPS, eCodecType) == 0);
    assert!(offset_of!(CUVIDDECODECAPS, eChromaFormat) == 4);
    assert!(offset_of!(CUVIDDECODECAPS, nBitDepthMinus8) == 8);
    assert!(offset_of!(CUVIDDECODECAPS, bIsSupported) == 24);
    assert!(offset_of!(CUVIDDECODECAPS, nNumNVDECs) == 25);
    assert!(offset_of!(CUVIDDECODECAPS, nOutputFormatMask) == 26);
    assert!(offset_of!(CUVIDDECODECAPS, nMaxWidth) == 28);
    assert!(offset_of!(CUVIDDECODECAPS, nMaxHeight) == 32);
    assert!(offset_of!(CUVIDDECODECAPS, nMaxMBCount) == 36);
    assert!(offset_of!(CUVIDDECODECAPS, nMinWidth) == 40);
    assert!(offset_of!(CUVIDDECODECAPS, nMinHeight) == 42);

    assert!(size_of::<CUVIDDECODECREATEINFO>() == 176);
    assert!(offset_of!(CUVIDDECODECREATEINFO, display_area) == 80);
    assert!(offset_of!(CUVIDDECODECREATEINFO, ulTargetWidth) == 96);
    assert!(offset_of!(CUVIDDECODECREATEINFO, vidLock) == 120);
    assert!(offset_of!(CUVIDDECODECREATEINFO, target_rect) == 128);
    assert!(offset_of!(CUVIDDECODECREATEINFO, enableHistogram) == 136);

    assert!(size_of::<CUVIDRECONFIGUREDECODERINFO>() == 128);
    assert!(offset_of!(CUVIDRECONFIGUREDECODERINFO, display_area) == 68);
    assert!(size_of::<CUVIDGETDECODESTATUS>() == 192);
    assert!(offset_of!(CUVIDGETDECODESTATUS, decodeStatus) == 0);

    assert!(size_of::<CUVIDPICPARAMS>() == 4280);
    assert!(offset_of!(CUVIDPICPARAMS, CurrPicIdx) == 8);
    assert!(offset_of!(CUVIDPICPARAMS, pBitstreamData) == 32);
    assert!(offset_of!(CUVIDPICPARAMS, ref_pic_flag) == 56);
    assert!(offset_of!(CUVIDPICPARAMS, intra_pic_flag) == 60);
    assert!(offset_of!(CUVIDPICPARAMS, CodecSpecific) == 184);

    assert!(size_of::<CUVIDPROCPARAMS>() == 264);
    assert!(offset_of!(CUVIDPROCPARAMS, output_stream) == 56);
    assert!(offset_of!(CUVIDPROCPARAMS, histogram_dptr) == 248);

    assert!(size_of::<CUVIDPARSERPARAMS>() == 136);
    assert!(offset_of!(CUVIDPARSERPARAMS, pUserData) == 40);
    assert!(offset_of!(CUVIDPARSERPARAMS, pExtVideoInfo) == 128);

    assert!(size_of::<CUVIDSOURCEDATAPACKET>() == 32);
    assert!(offset_of!(CUVIDSOURCEDATAPACKET, timestamp) == 24);
    assert!(size_of::<CUVIDPARSERDISPINFO>() == 24);
    assert!(offset_of!(CUVIDPARSERDISPINFO, timestamp) == 16);

    assert!(size_of::<CUVIDEOFORMAT>() == 64);
    assert!(offset_of!(CUVIDEOFORMAT, min_num_decode_surfaces) == 15);
    assert!(offset_of!(CUVIDEOFORMAT, display_area) == 24);
    assert!(offset_of!(CUVIDEOFORMAT, seqhdr_data_length) == 60);
    assert!(size_of::<CUVIDEOFORMATEX>() == 1088);
    assert!(align_of::<CUVIDPICPARAMS>() == 8);
};
