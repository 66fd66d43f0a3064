//! Reads packet headers with a libavcodec parser, without decoding and without splitting or joining
//! packets.
#![allow(unsafe_code)]

use std::ptr::{self, NonNull};

use ffmpeg_sys_next as ffi;

use super::decoder::alloc_context;
use crate::error::Result;
use crate::error::Site;
use crate::media::CodecParams;

/// Header fields of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedPicture {
    /// Picture order count (H.264, HEVC): presentation order within one coded video sequence.
    pub picture_order_count: i32,
    /// Coded as a single field rather than a frame.
    pub is_field: bool,
    /// A bottom field (when `is_field`).
    pub is_bottom: bool,
}

/// A libavcodec parser with its codec context.
pub struct Parser {
    parser: NonNull<ffi::AVCodecParserContext>,
    context: NonNull<ffi::AVCodecContext>,
}

// SAFETY: used through `&mut self` only; nothing in it is tied to a thread.
unsafe impl Send for Parser {}

impl Parser {
    /// `None` for codecs without a parser.
    pub fn open(site: &Site, params: &CodecParams) -> Result<Option<Self>> {
        // Through a pointer, because the parameter is an enum in FFmpeg 9 and an integer in FFmpeg
        // 8.
        let init = ffi::av_parser_init as *const ();
        // SAFETY: C's enum is an integer of 32 bits; any number is allowed, null means no parser.
        let parser = unsafe {
            let init: unsafe extern "C" fn(u32) -> *mut ffi::AVCodecParserContext =
                std::mem::transmute(init);
            init(params.codec.id)
        };
        let Some(parser) = NonNull::new(parser) else {
            return Ok(None);
        };
        // SAFETY: just created, not shared.
        unsafe { (*parser.as_ptr()).flags |= ffi::PARSER_FLAG_COMPLETE_FRAMES };
        let Some(context) = alloc_context(site, params, ptr::null())? else {
            // SAFETY: created above, closed once.
            unsafe { ffi::av_parser_close(parser.as_ptr()) };
            return Ok(None);
        };
        Ok(Some(Self { parser, context }))
    }

    /// Reads the headers of one complete packet. `padded` must end in 64 zero bytes beyond its
    /// `len` payload bytes.
    pub fn parse(&mut self, padded: &[u8], len: usize) -> ParsedPicture {
        let len = len.min(
            padded
                .len()
                .saturating_sub(ffi::AV_INPUT_BUFFER_PADDING_SIZE as usize),
        );
        let (mut out, mut out_len) = (ptr::null_mut(), 0);
        // SAFETY: both contexts are live and ours; the input has the padding that parsers read
        // into.
        unsafe {
            ffi::av_parser_parse2(
                self.parser.as_ptr(),
                self.context.as_ptr(),
                &mut out,
                &mut out_len,
                padded.as_ptr(),
                len as libc::c_int,
                ffi::AV_NOPTS_VALUE,
                ffi::AV_NOPTS_VALUE,
                -1,
            );
        }
        // SAFETY: live; the enum field is read as an integer.
        let (order, structure) = unsafe {
            let parser = self.parser.as_ref();
            (
                parser.output_picture_number,
                ptr::addr_of!(parser.picture_structure).cast::<u32>().read(),
            )
        };
        use ffi::AVPictureStructure as S;
        let (top, bottom) = (
            S::AV_PICTURE_STRUCTURE_TOP_FIELD as u32,
            S::AV_PICTURE_STRUCTURE_BOTTOM_FIELD as u32,
        );
        ParsedPicture {
            picture_order_count: order,
            is_field: structure == top || structure == bottom,
            is_bottom: structure == bottom,
        }
    }
}

impl Drop for Parser {
    fn drop(&mut self) {
        let mut context = self.context.as_ptr();
        // SAFETY: both are owned and freed once.
        unsafe {
            ffi::av_parser_close(self.parser.as_ptr());
            ffi::avcodec_free_context(&mut context);
        }
    }
}
