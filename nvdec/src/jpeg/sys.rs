//! The constants and the one struct of nvjpeg.h that decoding needs, with its layout asserted. From
//! version 12.4.0.76 (PyPI `nvidia-nvjpeg-cu12`); these parts are the same in 11.9.0.86 and
//! 13.3.2.43. Functions are looked up at run time, see `nvjpeg`. `tests/nvjpeg_header.rs` compares
//! this file with a header.

use std::ffi::c_int;

/// Maximum number of planes, `NVJPEG_MAX_COMPONENT`.
pub const MAX_COMPONENT: usize = 4;

/// `nvjpegStatus_t`.
pub mod status {
    use super::c_int;

    /// `NVJPEG_STATUS_SUCCESS`
    pub const SUCCESS: c_int = 0;
    /// `NVJPEG_STATUS_NOT_INITIALIZED`
    pub const NOT_INITIALIZED: c_int = 1;
    /// `NVJPEG_STATUS_INVALID_PARAMETER`
    pub const INVALID_PARAMETER: c_int = 2;
    /// `NVJPEG_STATUS_BAD_JPEG`
    pub const BAD_JPEG: c_int = 3;
    /// `NVJPEG_STATUS_JPEG_NOT_SUPPORTED`
    pub const JPEG_NOT_SUPPORTED: c_int = 4;
    /// `NVJPEG_STATUS_ALLOCATOR_FAILURE`
    pub const ALLOCATOR_FAILURE: c_int = 5;
    /// `NVJPEG_STATUS_EXECUTION_FAILED`
    pub const EXECUTION_FAILED: c_int = 6;
    /// `NVJPEG_STATUS_ARCH_MISMATCH`
    pub const ARCH_MISMATCH: c_int = 7;
    /// `NVJPEG_STATUS_INTERNAL_ERROR`
    pub const INTERNAL_ERROR: c_int = 8;
    /// `NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED`
    pub const IMPLEMENTATION_NOT_SUPPORTED: c_int = 9;
    /// `NVJPEG_STATUS_INCOMPLETE_BITSTREAM`
    pub const INCOMPLETE_BITSTREAM: c_int = 10;

    /// Returns a status and its name in the header.
    pub fn name(status: c_int) -> &'static str {
        match status {
            SUCCESS => "NVJPEG_STATUS_SUCCESS",
            NOT_INITIALIZED => "NVJPEG_STATUS_NOT_INITIALIZED",
            INVALID_PARAMETER => "NVJPEG_STATUS_INVALID_PARAMETER",
            BAD_JPEG => "NVJPEG_STATUS_BAD_JPEG",
            JPEG_NOT_SUPPORTED => "NVJPEG_STATUS_JPEG_NOT_SUPPORTED",
            ALLOCATOR_FAILURE => "NVJPEG_STATUS_ALLOCATOR_FAILURE",
            EXECUTION_FAILED => "NVJPEG_STATUS_EXECUTION_FAILED",
            ARCH_MISMATCH => "NVJPEG_STATUS_ARCH_MISMATCH",
            INTERNAL_ERROR => "NVJPEG_STATUS_INTERNAL_ERROR",
            IMPLEMENTATION_NOT_SUPPORTED => "NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED",
            INCOMPLETE_BITSTREAM => "NVJPEG_STATUS_INCOMPLETE_BITSTREAM",
            _ => "a status newer than this program",
        }
    }
}

/// `nvjpegBackend_t`.
pub mod backend {
    use super::c_int;

    /// `NVJPEG_BACKEND_HYBRID`: Huffman decoding on the CPU.
    pub const HYBRID: c_int = 1;
    /// `NVJPEG_BACKEND_GPU_HYBRID`: Huffman decoding with the GPU's help.
    pub const GPU_HYBRID: c_int = 2;
    /// `NVJPEG_BACKEND_HARDWARE`: the JPEG engines; baseline files of one scan, not 4:1:1 or 4:1:0.
    pub const HARDWARE: c_int = 3;
}

/// `nvjpegOutputFormat_t`.
pub mod output {
    use super::c_int;

    /// `NVJPEG_OUTPUT_YUV`: three planes, as stored.
    pub const YUV: c_int = 1;
    /// `NVJPEG_OUTPUT_Y`: luma alone.
    pub const Y: c_int = 2;
}

/// `nvjpegChromaSubsampling_t`.
pub mod subsampling {
    use super::c_int;

    /// `NVJPEG_CSS_444`
    pub const S444: c_int = 0;
    /// `NVJPEG_CSS_422`
    pub const S422: c_int = 1;
    /// `NVJPEG_CSS_420`
    pub const S420: c_int = 2;
    /// `NVJPEG_CSS_440`
    pub const S440: c_int = 3;
    /// `NVJPEG_CSS_411`
    pub const S411: c_int = 4;
    /// `NVJPEG_CSS_410`
    pub const S410: c_int = 5;
    /// `NVJPEG_CSS_GRAY`
    pub const GRAY: c_int = 6;
}

/// `NVJPEG_FLAGS_DEFAULT`.
pub const FLAGS_DEFAULT: u32 = 0;

/// `nvjpegImage_t`: the planes to write.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Device addresses.
    pub channel: [u64; MAX_COMPONENT],
    /// Bytes from one row to the next.
    pub pitch: [usize; MAX_COMPONENT],
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::{align_of, offset_of, size_of};

    assert!(size_of::<Image>() == 64);
    assert!(align_of::<Image>() == 8);
    assert!(offset_of!(Image, channel) == 0);
    assert!(offset_of!(Image, pitch) == 32);
};
