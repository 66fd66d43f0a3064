//! Converts the sequence format that the parser reports to codec, chroma format, bit depth, sizes
//! and color. Only values that are consistent with each other are accepted.

use crate::sys;
use crate::{Error, Result};

/// A codec whose decoding process is bit-exact. MPEG-2, MPEG-4 and JPEG do not define their inverse
/// transform exactly, so the GPU's pictures would differ from the CPU's. VC-1 was not tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Codec {
    /// H.264, Annex B.
    H264,
    /// HEVC, Annex B.
    Hevc,
    Vp8,
    /// VP9, with complete superframes.
    Vp9,
    /// AV1, low-overhead OBUs.
    Av1,
}

impl Codec {
    /// Its name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Codec::H264 => "H.264",
            Codec::Hevc => "HEVC",
            Codec::Vp8 => "VP8",
            Codec::Vp9 => "VP9",
            Codec::Av1 => "AV1",
        }
    }

    /// Its number in the C interface.
    pub(crate) fn to_raw(self) -> sys::cudaVideoCodec {
        match self {
            Codec::H264 => sys::cudaVideoCodec_H264,
            Codec::Hevc => sys::cudaVideoCodec_HEVC,
            Codec::Vp8 => sys::cudaVideoCodec_VP8,
            Codec::Vp9 => sys::cudaVideoCodec_VP9,
            Codec::Av1 => sys::cudaVideoCodec_AV1,
        }
    }

    /// Whether display order may differ from decode order, so that pictures are identified by the
    /// parser's timestamps. The other codecs display in coding order, and their timestamps are
    /// wrong around hidden frames.
    pub fn reorders(self) -> bool {
        matches!(self, Codec::H264 | Codec::Hevc)
    }
}

/// Chroma subsampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Chroma {
    /// No chroma.
    Gray,
    /// 4:2:0.
    C420,
    /// 4:2:2.
    C422,
    /// 4:4:4.
    C444,
}

impl Chroma {
    /// Its name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Chroma::Gray => "4:0:0",
            Chroma::C420 => "4:2:0",
            Chroma::C422 => "4:2:2",
            Chroma::C444 => "4:4:4",
        }
    }

    /// Its number in the C interface.
    pub(crate) fn to_raw(self) -> sys::cudaVideoChromaFormat {
        match self {
            Chroma::Gray => sys::cudaVideoChromaFormat_Monochrome,
            Chroma::C420 => sys::cudaVideoChromaFormat_420,
            Chroma::C422 => sys::cudaVideoChromaFormat_422,
            Chroma::C444 => sys::cudaVideoChromaFormat_444,
        }
    }
}

/// Memory layout of a decoded picture, always at the stream's own bit depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SurfaceFormat {
    /// 8 bit: a luma plane, then a plane of interleaved chroma.
    Nv12,
    /// 16 bit with the sample in the upper bits: a luma plane, then a plane of interleaved chroma.
    P016,
    /// 8 bit: three planes of the same size.
    Yuv444,
    /// 16 bit with the sample in the upper bits: three planes of the same size.
    Yuv444P16,
    /// Like `Nv12`, with as many chroma rows as luma rows.
    Nv16,
    /// Like `P016`, with as many chroma rows as luma rows.
    P216,
}

impl SurfaceFormat {
    /// The layout that preserves every bit.
    pub fn of(chroma: Chroma, depth_bits: u8) -> SurfaceFormat {
        match (chroma, depth_bits > 8) {
            (Chroma::Gray | Chroma::C420, false) => SurfaceFormat::Nv12,
            (Chroma::Gray | Chroma::C420, true) => SurfaceFormat::P016,
            (Chroma::C422, false) => SurfaceFormat::Nv16,
            (Chroma::C422, true) => SurfaceFormat::P216,
            (Chroma::C444, false) => SurfaceFormat::Yuv444,
            (Chroma::C444, true) => SurfaceFormat::Yuv444P16,
        }
    }

    /// Its number in the C interface, which is also its bit in the mask of layouts that a GPU
    /// supports.
    pub(crate) fn to_raw(self) -> sys::cudaVideoSurfaceFormat {
        match self {
            SurfaceFormat::Nv12 => sys::cudaVideoSurfaceFormat_NV12,
            SurfaceFormat::P016 => sys::cudaVideoSurfaceFormat_P016,
            SurfaceFormat::Yuv444 => sys::cudaVideoSurfaceFormat_YUV444,
            SurfaceFormat::Yuv444P16 => sys::cudaVideoSurfaceFormat_YUV444_16Bit,
            // Newer than the header of API 11.1.
            SurfaceFormat::Nv16 => 4,
            SurfaceFormat::P216 => 5,
        }
    }

    /// Bytes per pixel of luma and chroma together, times two.
    pub(crate) fn half_bytes_per_pixel(self) -> u64 {
        match self {
            SurfaceFormat::Nv12 => 3,
            SurfaceFormat::Nv16 => 4,
            SurfaceFormat::P016 | SurfaceFormat::Yuv444 => 6,
            SurfaceFormat::P216 => 8,
            SurfaceFormat::Yuv444P16 => 12,
        }
    }
}

/// A rectangle of samples; `right` and `bottom` are exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rect {
    /// First column.
    pub left: u32,
    /// First row.
    pub top: u32,
    /// Column after the last.
    pub right: u32,
    /// Row after the last.
    pub bottom: u32,
}

/// The stream properties that determine a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamFormat {
    pub codec: Codec,
    /// Chroma subsampling.
    pub chroma: Chroma,
    /// Bit depth of every plane, 8 to 16.
    pub depth_bits: u8,
    /// Width and height of the coded picture, rounded up to even numbers.
    pub coded_size: (u32, u32),
    /// How many surfaces the stream needs at a time; 0 means unknown.
    pub min_surfaces: u32,
}

impl StreamFormat {
    /// A description such as "H.264 4:2:0 10 bit".
    pub fn name(&self) -> String {
        format!(
            "{} {} {} bit",
            self.codec.name(),
            self.chroma.name(),
            self.depth_bits
        )
    }

    /// The memory layout of its pictures.
    pub fn surface_format(&self) -> SurfaceFormat {
        SurfaceFormat::of(self.chroma, self.depth_bits)
    }
}

/// The format of a sequence, including properties that the decoder does not depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequenceInfo {
    /// The properties that determine the decoder.
    pub format: StreamFormat,
    /// The displayed region.
    pub display_area: Rect,
    /// Matrix coefficients, as numbered in H.273; 2 is unspecified.
    pub matrix: u8,
    /// Color primaries, as numbered in H.273.
    pub primaries: u8,
    /// Transfer characteristics, as numbered in H.273.
    pub transfer: u8,
    /// Whether samples use their full range. The parser does not distinguish limited range from
    /// unspecified: both are `false`.
    pub full_range: bool,
}

impl SequenceInfo {
    /// Converts the format that the parser reports, for a stream whose codec is known.
    pub(crate) fn from_cuvid(codec: Codec, format: &sys::CUVIDEOFORMAT) -> Result<SequenceInfo> {
        let refuse = |reason: String| Err(Error::Unsupported { reason });
        if format.codec != codec.to_raw() {
            let number = format.codec;
            return refuse(format!(
                "the parser for {} reported codec number {number}",
                codec.name()
            ));
        }
        let chroma = match format.chroma_format {
            sys::cudaVideoChromaFormat_Monochrome => Chroma::Gray,
            sys::cudaVideoChromaFormat_420 => Chroma::C420,
            sys::cudaVideoChromaFormat_422 => Chroma::C422,
            sys::cudaVideoChromaFormat_444 => Chroma::C444,
            other => {
                return refuse(format!(
                    "the parser reported the unknown chroma format {other}"
                ));
            }
        };
        let (luma, color) = (format.bit_depth_luma_minus8, format.bit_depth_chroma_minus8);
        if luma > 8 || (luma != color && chroma != Chroma::Gray) {
            let (luma, color) = (u16::from(luma) + 8, u16::from(color) + 8);
            return refuse(format!(
                "{} with {luma} bit luma and {color} bit chroma",
                codec.name()
            ));
        }
        let (width, height) = (format.coded_width, format.coded_height);
        let area = &format.display_area;
        let inside = |low: i32, high: i32, size: u32| 0 <= low && low < high && high as u32 <= size;
        if width > i16::MAX as u32 || height > i16::MAX as u32 {
            return refuse(format!("the frame size {width}x{height} is not supported"));
        }
        if !inside(area.left, area.right, width) || !inside(area.top, area.bottom, height) {
            let (left, top, right, bottom) = (area.left, area.top, area.right, area.bottom);
            return refuse(format!(
                "the display area (columns {left} to {right}, rows {top} to {bottom}) does not fit the coded size {width}x{height}"
            ));
        }
        let color = &format.video_signal_description;
        Ok(SequenceInfo {
            format: StreamFormat {
                codec,
                chroma,
                depth_bits: luma + 8,
                // An odd target size is rejected by the driver, and rounding only the target up
                // would scale the picture.
                coded_size: (width.next_multiple_of(2), height.next_multiple_of(2)),
                min_surfaces: format.min_num_decode_surfaces.into(),
            },
            display_area: Rect {
                left: area.left as u32,
                top: area.top as u32,
                right: area.right as u32,
                bottom: area.bottom as u32,
            },
            matrix: color.matrix_coefficients,
            primaries: color.color_primaries,
            transfer: color.transfer_characteristics,
            full_range: color.video_full_range_flag() != 0,
        })
    }
}
