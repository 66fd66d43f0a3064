//! In: what a video's sequence header says, as the parser reports it.
//! Out: codec, sampling, depth, sizes and colour in words of our own.
//! Never: a value that was not checked against the others.

use crate::sys;
use crate::{Error, Result};

/// A codec whose decoding is defined to the bit. Others (MPEG-2, MPEG-4, VC-1, JPEG) leave their transforms open, so the GPU's
/// pictures would differ from the CPU's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Codec {
    /// H.264, Annex B.
    H264,
    /// HEVC, Annex B.
    Hevc,
    /// VP8.
    Vp8,
    /// VP9, superframes whole.
    Vp9,
    /// AV1, low-overhead OBUs.
    Av1,
}

impl Codec {
    /// Its name in messages.
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
    pub fn number(self) -> sys::cudaVideoCodec {
        match self {
            Codec::H264 => sys::cudaVideoCodec_H264,
            Codec::Hevc => sys::cudaVideoCodec_HEVC,
            Codec::Vp8 => sys::cudaVideoCodec_VP8,
            Codec::Vp9 => sys::cudaVideoCodec_VP9,
            Codec::Av1 => sys::cudaVideoCodec_AV1,
        }
    }

    /// Whether pictures may be shown in another order than they are decoded, so that the parser's timestamps tell them apart. The
    /// other codecs show in coding order, and their timestamps are wrong around hidden frames.
    pub fn reorders(self) -> bool {
        matches!(self, Codec::H264 | Codec::Hevc)
    }
}

/// How often chroma was sampled.
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
    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Chroma::Gray => "4:0:0",
            Chroma::C420 => "4:2:0",
            Chroma::C422 => "4:2:2",
            Chroma::C444 => "4:4:4",
        }
    }

    /// Its number in the C interface.
    pub fn number(self) -> sys::cudaVideoChromaFormat {
        match self {
            Chroma::Gray => sys::cudaVideoChromaFormat_Monochrome,
            Chroma::C420 => sys::cudaVideoChromaFormat_420,
            Chroma::C422 => sys::cudaVideoChromaFormat_422,
            Chroma::C444 => sys::cudaVideoChromaFormat_444,
        }
    }
}

/// How a decoder lays a picture out, always at the stream's own depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Layout {
    /// 8 bit, luma, then chroma in pairs.
    Nv12,
    /// 16 bit with the sample in the upper bits, luma, then chroma in pairs.
    P016,
    /// 8 bit, three planes of one size.
    Yuv444,
    /// 16 bit with the sample in the upper bits, three planes of one size.
    Yuv444P16,
    /// As `Nv12` with as many chroma rows as luma rows.
    Nv16,
    /// As `P016` with as many chroma rows as luma rows.
    P216,
}

impl Layout {
    /// The layout that keeps every bit.
    pub fn of(chroma: Chroma, depth_bits: u8) -> Layout {
        match (chroma, depth_bits > 8) {
            (Chroma::Gray | Chroma::C420, false) => Layout::Nv12,
            (Chroma::Gray | Chroma::C420, true) => Layout::P016,
            (Chroma::C422, false) => Layout::Nv16,
            (Chroma::C422, true) => Layout::P216,
            (Chroma::C444, false) => Layout::Yuv444,
            (Chroma::C444, true) => Layout::Yuv444P16,
        }
    }

    /// Its number in the C interface, and its bit in the mask of layouts that a GPU can write.
    pub fn number(self) -> sys::cudaVideoSurfaceFormat {
        match self {
            Layout::Nv12 => sys::cudaVideoSurfaceFormat_NV12,
            Layout::P016 => sys::cudaVideoSurfaceFormat_P016,
            Layout::Yuv444 => sys::cudaVideoSurfaceFormat_YUV444,
            Layout::Yuv444P16 => sys::cudaVideoSurfaceFormat_YUV444_16Bit,
            // Later than the header of API 11.1.
            Layout::Nv16 => 4,
            Layout::P216 => 5,
        }
    }

    /// Bytes of a picture of one pixel, in halves: luma and chroma together.
    pub(crate) fn half_bytes_per_pixel(self) -> u64 {
        match self {
            Layout::Nv12 => 3,
            Layout::Nv16 => 4,
            Layout::P016 | Layout::Yuv444 => 6,
            Layout::P216 => 8,
            Layout::Yuv444P16 => 12,
        }
    }
}

/// A rectangle of samples; `right` and `bottom` are outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rect4 {
    /// First column.
    pub left: u32,
    /// First row.
    pub top: u32,
    /// Column after the last.
    pub right: u32,
    /// Row after the last.
    pub bottom: u32,
}

/// What a decoder must be made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamFormat {
    /// The codec.
    pub codec: Codec,
    /// Sampling of chroma.
    pub chroma: Chroma,
    /// Depth of every plane, 8 to 16.
    pub depth_bits: u8,
    /// Width and height of the coded picture, rounded up to even numbers.
    pub coded_size: (u32, u32),
    /// How many pictures the stream needs at a time; 0 is unknown.
    pub min_surfaces: u32,
}

impl StreamFormat {
    /// "H.264 4:2:0 10 bit".
    pub fn name(&self) -> String {
        format!("{} {} {} bit", self.codec.name(), self.chroma.name(), self.depth_bits)
    }

    /// How its pictures are laid out.
    pub fn layout(&self) -> Layout {
        Layout::of(self.chroma, self.depth_bits)
    }
}

/// What a sequence header says of the pictures that a decoder need not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// What the decoder was made for.
    pub format: StreamFormat,
    /// The part that is shown.
    pub display: Rect4,
    /// Whether the sequence has frames only.
    pub progressive: bool,
    /// Matrix coefficients, as numbered in H.273; 2 is unspecified.
    pub matrix: u8,
    /// Colour primaries, as numbered in H.273.
    pub primaries: u8,
    /// Transfer characteristics, as numbered in H.273.
    pub transfer: u8,
    /// Whether samples use their full range. The parser does not tell "limited" from "unsaid": both are `false`.
    pub full_range: bool,
}

impl Facts {
    /// Reads what the parser reports, for a stream of which the codec is known.
    pub(crate) fn read(codec: Codec, format: &sys::CUVIDEOFORMAT) -> Result<Facts> {
        let refuse = |reason: String| Err(Error::Unsupported { reason });
        if format.codec != codec.number() {
            let number = format.codec;
            return refuse(format!("the parser for {} found codec number {number}", codec.name()));
        }
        let chroma = match format.chroma_format {
            sys::cudaVideoChromaFormat_Monochrome => Chroma::Gray,
            sys::cudaVideoChromaFormat_420 => Chroma::C420,
            sys::cudaVideoChromaFormat_422 => Chroma::C422,
            sys::cudaVideoChromaFormat_444 => Chroma::C444,
            other => return refuse(format!("the parser found chroma format {other}, which is not known")),
        };
        let (luma, colour) = (format.bit_depth_luma_minus8, format.bit_depth_chroma_minus8);
        if luma > 8 || (luma != colour && chroma != Chroma::Gray) {
            let (luma, colour) = (u16::from(luma) + 8, u16::from(colour) + 8);
            return refuse(format!("{} with {luma} bit luma and {colour} bit chroma", codec.name()));
        }
        let (width, height) = (format.coded_width, format.coded_height);
        let area = &format.display_area;
        let inside = |low: i32, high: i32, size: u32| 0 <= low && low < high && high as u32 <= size;
        if width > i16::MAX as u32 || height > i16::MAX as u32 {
            return refuse(format!("a picture of {width}x{height}"));
        }
        if !inside(area.left, area.right, width) || !inside(area.top, area.bottom, height) {
            let (left, top, right, bottom) = (area.left, area.top, area.right, area.bottom);
            return refuse(format!(
                "a coded picture of {width}x{height} of which columns {left} to {right}, rows {top} to {bottom} are shown"
            ));
        }
        let colour = &format.video_signal_description;
        Ok(Facts {
            format: StreamFormat {
                codec,
                chroma,
                depth_bits: luma + 8,
                // An odd target would be an invalid value, and an even one for an odd source a scaling.
                coded_size: (width.next_multiple_of(2), height.next_multiple_of(2)),
                min_surfaces: format.min_num_decode_surfaces.into(),
            },
            display: Rect4 {
                left: area.left as u32,
                top: area.top as u32,
                right: area.right as u32,
                bottom: area.bottom as u32,
            },
            progressive: format.progressive_sequence != 0,
            matrix: colour.matrix_coefficients,
            primaries: colour.color_primaries,
            transfer: colour.transfer_characteristics,
            full_range: colour.video_full_range_flag() != 0,
        })
    }
}
