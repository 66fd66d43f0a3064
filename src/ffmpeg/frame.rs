//! Wraps an owned `AVFrame`: its planes as byte slices, with the properties needed to read them.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::ptr::{self, NonNull};

use ffmpeg_sys_next as ffi;

use crate::media::ColorTags;
use crate::units::DecodeIndex;

/// How a pixel format lays out its components.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PixelLayout {
    /// FFmpeg's name, such as "yuv420p10le".
    pub name: String,
    /// Bits per component.
    pub depth: u8,
    /// Chroma is stored at 1/2^n of the width.
    pub log2_chroma_w: u8,
    /// Chroma is stored at 1/2^n of the height.
    pub log2_chroma_h: u8,
    /// Components are R, G, B rather than Y, U, V.
    pub rgb: bool,
    /// An 8-bit index into a palette in plane 1.
    pub palette: bool,
    /// Layouts that the kernels do not read: big-endian, bit-packed, float, XYZ, Bayer, hardware.
    pub exotic: bool,
    /// Y' U V (or R G B), then alpha where there is one.
    pub components: Vec<Component>,
}

/// Where one component is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Component {
    /// Plane number.
    pub plane: usize,
    /// Bytes from one sample to the next.
    pub step: usize,
    /// Bytes before the first sample.
    pub offset: usize,
    /// Bits to shift right to get the value.
    pub shift: u8,
}

/// An owned `AVFrame`.
pub struct Frame(NonNull<ffi::AVFrame>);

// SAFETY: a frame is data with reference-counted buffers, not tied to a thread.
unsafe impl Send for Frame {}

impl Default for Frame {
    fn default() -> Self {
        Self::new()
    }
}

impl Frame {
    /// An empty frame.
    pub fn new() -> Self {
        // SAFETY: no arguments; null means out of memory.
        Self(
            NonNull::new(unsafe { ffi::av_frame_alloc() })
                .expect("out of memory for a frame header"),
        )
    }

    pub(super) fn raw(&mut self) -> *mut ffi::AVFrame {
        self.0.as_ptr()
    }

    fn get(&self) -> &ffi::AVFrame {
        // SAFETY: owned, valid, borrowed for as long as `self`.
        unsafe { self.0.as_ref() }
    }

    /// The packet that it was decoded from. `by_time`: the decoder passes the tag on in the
    /// timestamp (see `Packet::set_packet_index`).
    pub fn packet_index(&self, by_time: bool) -> Option<DecodeIndex> {
        if by_time {
            return u32::try_from(self.get().pts).ok().map(DecodeIndex);
        }
        let number = self.get().opaque.addr();
        number
            .checked_sub(1)
            .and_then(|n| u32::try_from(n).ok())
            .map(DecodeIndex)
    }

    /// Width in pixels, cropping applied.
    pub fn width(&self) -> u32 {
        u32::try_from(self.get().width).unwrap_or(0)
    }

    /// Height in pixels, cropping applied.
    pub fn height(&self) -> u32 {
        u32::try_from(self.get().height).unwrap_or(0)
    }

    /// Whether the picture refers to no other.
    pub(crate) fn is_intra(&self) -> bool {
        // SAFETY: an enum field of a live frame, read as an integer.
        let kind = unsafe { ptr::addr_of!(self.get().pict_type).cast::<u32>().read() };
        kind == ffi::AVPictureType::AV_PICTURE_TYPE_I as u32
            || self.get().flags & ffi::AV_FRAME_FLAG_KEY != 0
    }

    /// Whether it has the lines of two fields, which may show two times.
    pub fn is_interlaced(&self) -> bool {
        self.get().flags & ffi::AV_FRAME_FLAG_INTERLACED != 0
    }

    /// Why this picture may differ from what the encoder made, if the decoder reported damage.
    pub fn damage(&self) -> Option<&'static str> {
        let frame = self.get();
        let flags = frame.decode_error_flags;
        if flags & ffi::FF_DECODE_ERROR_MISSING_REFERENCE != 0 {
            Some("a reference picture is missing")
        } else if flags
            & (ffi::FF_DECODE_ERROR_CONCEALMENT_ACTIVE | ffi::FF_DECODE_ERROR_DECODE_SLICES)
            != 0
        {
            Some("parts of it could not be decoded")
        } else if flags != 0 {
            Some("its bitstream is invalid")
        } else if frame.flags & ffi::AV_FRAME_FLAG_CORRUPT != 0 {
            Some("the decoder marks it as corrupt")
        } else {
            None
        }
    }

    /// Color description of the stream or, where that is unspecified, of the container.
    pub fn color(&self) -> ColorTags {
        let frame = self.get();
        // SAFETY: enum fields of a live frame, read as integers.
        let (primaries, transfer, matrix, range) = unsafe {
            (
                ptr::addr_of!(frame.color_primaries).cast::<u32>().read(),
                ptr::addr_of!(frame.color_trc).cast::<u32>().read(),
                ptr::addr_of!(frame.colorspace).cast::<u32>().read(),
                ptr::addr_of!(frame.color_range).cast::<u32>().read(),
            )
        };
        let full_range = match range {
            1 => Some(false),
            2 => Some(true),
            // The "yuvj" formats imply full range.
            _ => self
                .layout()
                .filter(|l| l.name.starts_with("yuvj"))
                .map(|_| true),
        };
        ColorTags {
            primaries: primaries as u8,
            transfer: transfer as u8,
            matrix: matrix as u8,
            full_range,
        }
    }

    fn descriptor(&self) -> Option<&'static ffi::AVPixFmtDescriptor> {
        // SAFETY: any number is allowed; descriptors are static.
        unsafe {
            let get: unsafe extern "C" fn(i32) -> *const ffi::AVPixFmtDescriptor =
                std::mem::transmute(
                    ffi::av_pix_fmt_desc_get
                        as unsafe extern "C" fn(
                            ffi::AVPixelFormat,
                        )
                            -> *const ffi::AVPixFmtDescriptor,
                );
            get(self.get().format).as_ref()
        }
    }

    /// Bits of a sample; 8 for a format this FFmpeg does not know.
    pub fn depth_bits(&self) -> u8 {
        self.descriptor()
            .and_then(|d| u8::try_from(d.comp[0].depth).ok())
            .unwrap_or(8)
    }

    /// Layout of the pixel format; `None` for a format this FFmpeg does not know.
    pub fn layout(&self) -> Option<PixelLayout> {
        let d = self.descriptor()?;
        let flag = |bit: i32| d.flags & bit as u64 != 0;
        let depth = u8::try_from(d.comp[0].depth).ok()?;
        let component = |c: &ffi::AVComponentDescriptor| {
            Some(Component {
                plane: usize::try_from(c.plane).ok()?,
                step: usize::try_from(c.step).ok()?,
                offset: usize::try_from(c.offset).ok()?,
                shift: u8::try_from(c.shift).ok()?,
            })
        };
        let count = usize::from(d.nb_components).min(4);
        // Alpha may have another depth; color components of different depths are not supported.
        let uneven = d.comp[..count.min(3)]
            .iter()
            .any(|c| c.depth != d.comp[0].depth);
        Some(PixelLayout {
            // SAFETY: static NUL-terminated name.
            name: unsafe { CStr::from_ptr(d.name) }
                .to_string_lossy()
                .into_owned(),
            depth,
            log2_chroma_w: d.log2_chroma_w,
            log2_chroma_h: d.log2_chroma_h,
            rgb: flag(ffi::AV_PIX_FMT_FLAG_RGB),
            palette: flag(ffi::AV_PIX_FMT_FLAG_PAL),
            exotic: flag(ffi::AV_PIX_FMT_FLAG_BITSTREAM)
                || flag(ffi::AV_PIX_FMT_FLAG_HWACCEL)
                || flag(ffi::AV_PIX_FMT_FLAG_FLOAT)
                || flag(ffi::AV_PIX_FMT_FLAG_BAYER)
                || flag(ffi::AV_PIX_FMT_FLAG_XYZ)
                || (flag(ffi::AV_PIX_FMT_FLAG_BE) && depth > 8)
                || uneven,
            components: d.comp[..count]
                .iter()
                .map(component)
                .collect::<Option<_>>()?,
        })
    }

    /// Number of planes that hold data.
    pub fn planes(&self) -> usize {
        self.get()
            .data
            .iter()
            .take(4)
            .take_while(|p| !p.is_null())
            .count()
    }

    /// Rows of a plane: fewer than the height for subsampled chroma.
    fn plane_rows(&self, plane: usize, d: &ffi::AVPixFmtDescriptor) -> usize {
        let height = self.height() as usize;
        let shift = if plane == 1 || plane == 2 {
            d.log2_chroma_h
        } else {
            0
        };
        height.div_ceil(1 << shift)
    }

    /// Bytes of a row that hold pixels.
    fn row_bytes(&self, plane: usize) -> usize {
        // SAFETY: format and width are those of a live frame; av_image_get_linesize checks them.
        let bytes = unsafe {
            let get: unsafe extern "C" fn(i32, i32, i32) -> i32 = std::mem::transmute(
                ffi::av_image_get_linesize
                    as unsafe extern "C" fn(ffi::AVPixelFormat, i32, i32) -> i32,
            );
            get(self.get().format, self.get().width, plane as i32)
        };
        usize::try_from(bytes).unwrap_or(0)
    }

    /// A plane, from its first pixel to its last, and the distance of its rows in bytes. `None` for
    /// planes that do not exist or are stored bottom-up.
    pub fn plane(&self, plane: usize) -> Option<(&[u8], usize)> {
        let d = self.descriptor()?;
        let frame = self.get();
        let data = *frame.data.get(plane).filter(|p| !p.is_null())?;
        if d.flags & ffi::AV_PIX_FMT_FLAG_PAL as u64 != 0 && plane == 1 {
            // SAFETY: a palette is always 256 entries of four bytes.
            return Some((unsafe { std::slice::from_raw_parts(data, 1024) }, 1024));
        }
        let stride = usize::try_from(frame.linesize[plane]).ok()?;
        let (rows, row_bytes) = (self.plane_rows(plane, d), self.row_bytes(plane));
        if rows == 0 || row_bytes == 0 || stride < row_bytes {
            return None;
        }
        // SAFETY: libavcodec allocates at least `rows` rows of `stride` bytes, the last one at
        // least its pixels.
        Some((
            unsafe { std::slice::from_raw_parts(data, stride * (rows - 1) + row_bytes) },
            stride,
        ))
    }

    /// Passes the pixels of all planes to `each_row`, row by row without padding, as FFmpeg's
    /// rawvideo stores them. Frame hashes are computed from them.
    pub fn raw_planes(&self, mut each_row: impl FnMut(&[u8])) {
        let Some(d) = self.descriptor() else { return };
        for plane in 0..self.planes() {
            let Some((data, stride)) = self.plane(plane) else {
                continue;
            };
            if d.flags & ffi::AV_PIX_FMT_FLAG_PAL as u64 != 0 && plane == 1 {
                each_row(data);
                continue;
            }
            let row_bytes = self.row_bytes(plane);
            for row in data.chunks(stride) {
                each_row(&row[..row_bytes.min(row.len())]);
            }
        }
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        let mut raw = self.0.as_ptr();
        // SAFETY: owned, freed once.
        unsafe { ffi::av_frame_free(&mut raw) };
    }
}
