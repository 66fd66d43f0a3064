//! The structs of cuviddec.h and nvcuvid.h (identical in API 11.1 and 13.0) in Rust, with sizes and
//! offsets asserted. They are declared independently of the crate under test, so that an error in
//! one declaration is detected.

use std::ffi::c_void;

pub const H264: i32 = 4;
/// Not in the caps: cuvid's own JPEG decoding is separate. Used for nvJPEG.
pub const JPEG: i32 = 5;
pub const HEVC: i32 = 8;
pub const VP8: i32 = 9;
pub const VP9: i32 = 10;
pub const AV1: i32 = 11;

pub const END_OF_STREAM: u64 = 1;
pub const TIMESTAMP: u64 = 2;
pub const DISCONTINUITY: u64 = 4;
pub const END_OF_PICTURE: u64 = 8;
pub const NOTIFY_EOS: u64 = 16;

pub const NV12: i32 = 0;
pub const P016: i32 = 1;
pub const YUV444: i32 = 2;
pub const YUV444_16: i32 = 3;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Caps {
    pub codec: i32,
    pub chroma: i32,
    pub depth_minus8: u32,
    pub reserved1: [u32; 3],
    pub supported: u8,
    pub engines: u8,
    pub output_formats: u16,
    pub max_width: u32,
    pub max_height: u32,
    pub max_macroblocks: u32,
    pub min_width: u16,
    pub min_height: u16,
    pub histogram: u8,
    pub counter_depth: u8,
    pub max_bins: u16,
    pub reserved3: [u32; 10],
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShortRect {
    pub left: i16,
    pub top: i16,
    pub right: i16,
    pub bottom: i16,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct CreateInfo {
    pub width: u64,
    pub height: u64,
    pub decode_surfaces: u64,
    pub codec: i32,
    pub chroma: i32,
    pub flags: u64,
    pub depth_minus8: u64,
    pub intra_only: u64,
    pub max_width: u64,
    pub max_height: u64,
    pub reserved1: u64,
    pub display_area: ShortRect,
    pub output_format: i32,
    pub deinterlace: i32,
    pub target_width: u64,
    pub target_height: u64,
    pub output_surfaces: u64,
    pub lock: usize,
    pub target_rect: ShortRect,
    pub histogram: u64,
    pub reserved2: [u64; 4],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ReconfigureInfo {
    pub width: u32,
    pub height: u32,
    pub target_width: u32,
    pub target_height: u32,
    pub decode_surfaces: u32,
    pub reserved1: [u32; 12],
    pub display_area: ShortRect,
    pub target_rect: ShortRect,
    pub reserved2: [u32; 11],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PicParams {
    pub width_mbs: i32,
    pub height_mbs: i32,
    pub index: i32,
    pub field: i32,
    pub bottom_field: i32,
    pub second_field: i32,
    pub bytes: u32,
    pub bitstream: *const u8,
    pub slices: u32,
    pub slice_offsets: *const u32,
    pub reference: i32,
    pub intra: i32,
    pub reserved: [u32; 30],
    pub codec_specific: [u32; 1024],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ProcParams {
    pub progressive_frame: i32,
    pub second_field: i32,
    pub top_field_first: i32,
    pub unpaired_field: i32,
    pub reserved_flags: u32,
    pub reserved_zero: u32,
    pub raw_input: u64,
    pub raw_input_pitch: u32,
    pub raw_input_format: u32,
    pub raw_output: u64,
    pub raw_output_pitch: u32,
    pub reserved1: u32,
    pub output_stream: usize,
    pub reserved: [u32; 46],
    pub histogram: usize,
    pub reserved2: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DecodeStatus {
    pub status: i32,
    pub reserved: [u32; 31],
    pub reserved_pointers: [usize; 8],
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rect {
    pub left: i32,
    pub top: i32,
    pub right: i32,
    pub bottom: i32,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Format {
    pub codec: i32,
    pub frame_rate: [u32; 2],
    pub progressive_sequence: u8,
    pub luma_depth_minus8: u8,
    pub chroma_depth_minus8: u8,
    pub min_decode_surfaces: u8,
    pub coded_width: u32,
    pub coded_height: u32,
    pub display_area: Rect,
    pub chroma: i32,
    pub bitrate: u32,
    pub aspect: [i32; 2],
    /// Bits 0..3 video format, bit 3 full range.
    pub signal: u8,
    pub primaries: u8,
    pub transfer: u8,
    pub matrix: u8,
    pub header_bytes: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Packet {
    pub flags: u64,
    pub bytes: u64,
    pub payload: *const u8,
    pub timestamp: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DisplayInfo {
    pub index: i32,
    pub progressive_frame: i32,
    pub top_field_first: i32,
    pub repeat_first_field: i32,
    pub timestamp: i64,
}

pub type SequenceCallback = unsafe extern "C" fn(*mut c_void, *mut Format) -> i32;
pub type DecodeCallback = unsafe extern "C" fn(*mut c_void, *mut PicParams) -> i32;
pub type DisplayCallback = unsafe extern "C" fn(*mut c_void, *mut DisplayInfo) -> i32;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ParserParams {
    pub codec: i32,
    pub decode_surfaces: u32,
    pub clock_rate: u32,
    pub error_threshold: u32,
    pub display_delay: u32,
    pub annex_b: u32,
    pub reserved1: [u32; 4],
    pub user: *mut c_void,
    pub sequence: Option<SequenceCallback>,
    pub decode: Option<DecodeCallback>,
    pub display: Option<DisplayCallback>,
    pub operating_point: usize,
    pub reserved2: [usize; 6],
    pub ext: usize,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::offset_of;

    assert!(
        size_of::<Caps>() == 88
            && offset_of!(Caps, supported) == 24
            && offset_of!(Caps, min_height) == 42
    );
    assert!(size_of::<CreateInfo>() == 176 && offset_of!(CreateInfo, display_area) == 80);
    assert!(offset_of!(CreateInfo, target_width) == 96 && offset_of!(CreateInfo, lock) == 120);
    assert!(offset_of!(CreateInfo, target_rect) == 128 && offset_of!(CreateInfo, histogram) == 136);
    assert!(size_of::<ReconfigureInfo>() == 128 && offset_of!(ReconfigureInfo, display_area) == 68);
    assert!(size_of::<PicParams>() == 4280 && offset_of!(PicParams, index) == 8);
    assert!(offset_of!(PicParams, bitstream) == 32 && offset_of!(PicParams, reference) == 56);
    assert!(offset_of!(PicParams, intra) == 60 && offset_of!(PicParams, codec_specific) == 184);
    assert!(size_of::<ProcParams>() == 264 && offset_of!(ProcParams, output_stream) == 56);
    assert!(offset_of!(ProcParams, histogram) == 248 && size_of::<DecodeStatus>() == 192);
    assert!(size_of::<Format>() == 64 && offset_of!(Format, min_decode_surfaces) == 15);
    assert!(offset_of!(Format, display_area) == 24 && offset_of!(Format, header_bytes) == 60);
    assert!(size_of::<Packet>() == 32 && offset_of!(Packet, timestamp) == 24);
    assert!(size_of::<DisplayInfo>() == 24 && offset_of!(DisplayInfo, timestamp) == 16);
    assert!(size_of::<ParserParams>() == 136 && offset_of!(ParserParams, user) == 40);
    assert!(offset_of!(ParserParams, ext) == 128);
};
