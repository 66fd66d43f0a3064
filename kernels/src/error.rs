//! In: the facts of a request that cannot be met.
//! Out: one typed error that says both sides of the disagreement.
//! Never: carries a file name (the caller knows it) or stands for a panic.

use std::fmt;

use crate::geometry::Rect;

/// Why a pixel pass could not be compiled or run. Nothing has been written when it is returned.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum PassError {
    /// A rectangle or size without any pixel.
    Empty {
        /// Which one: `frame`, `crop`, `grid`, `resized`, `window`, `output`, `mask`.
        what: &'static str,
        /// Its width.
        width: u32,
        /// Its height.
        height: u32,
    },
    /// A side longer than [`MAX_SIDE`](crate::MAX_SIDE).
    TooLarge {
        /// Which one: `frame`, `grid`, `resized`, `output`.
        what: &'static str,
        /// Its width.
        width: u32,
        /// Its height.
        height: u32,
    },
    /// A rectangle that does not lie in its picture.
    RectOutOfBounds {
        /// Which one: `crop`, `window`, `canvas`, `mask`.
        what: &'static str,
        /// The rectangle.
        rect: Rect,
        /// Width of the picture it must lie in.
        width: u32,
        /// Height of the picture it must lie in.
        height: u32,
    },
    /// Normalisation was asked for with an integer dtype.
    NormalizeNeedsFloat,
    /// A mean that is not finite, or a std that is not finite and above zero, or so small that elements are not finite.
    InvalidNormalize {
        /// Channel, 0 to 2.
        channel: usize,
        /// Its mean.
        mean: f32,
        /// Its std.
        std: f32,
    },
    /// A window that would have to be kept whole, for a warp or for its mean, and is too large for that.
    WindowTooLarge {
        /// Its width.
        width: usize,
        /// Its height.
        height: usize,
    },
    /// A warp that leads further from the picture than positions can say.
    WarpOutOfRange {
        /// The coefficients of one axis.
        to: [i64; 3],
    },
    /// A color map or fill with a number that is not finite or beyond a million.
    InvalidColorValue {
        /// The number.
        value: f64,
    },
    /// A color map that multiplies colors by thousands.
    ColorGainTooLarge {
        /// Its largest row sum, in output levels per level.
        gain: f64,
    },
    /// A tone mapping with a peak that is beyond the bounds.
    InvalidPeak {
        /// In cd/m2.
        peak: f64,
    },
    /// A tone mapping of primaries that span no colors.
    InvalidPrimaries {
        /// x and y of red, green and blue.
        primaries: [[f64; 2]; 3],
    },
    /// A grid mask whose limit is above 2^32.
    InvalidMaskGrid {
        /// The limit.
        limit: u64,
    },
    /// A mask of elements was asked for with an integer dtype.
    MaskElementNeedsFloat,
    /// Samples of this depth and position inside their word are not supported in this arrangement of planes.
    UnsupportedDepth {
        /// Bits per sample.
        depth_bits: u8,
        /// How far the samples are shifted up in their word.
        shift: u8,
    },
    /// Chroma smaller than a quarter per side.
    UnsupportedSubsampling {
        /// log2 of the horizontal ratio.
        log2_chroma_w: u8,
        /// log2 of the vertical ratio.
        log2_chroma_h: u8,
    },
    /// Channel offsets that are not inside the pixel.
    InvalidPacking {
        /// Bytes per pixel.
        pixel_bytes: u8,
        /// Offsets of R, G, B.
        offsets: [u8; 3],
    },
    /// The color says "already RGB", the planes are YUV.
    MatrixNeedsRgbPlanes,
    /// Rows that overlap.
    StrideTooShort {
        /// Plane, 0 to 2.
        plane: usize,
        /// Distance of rows.
        stride_bytes: usize,
        /// Bytes in a row.
        row_bytes: usize,
    },
    /// A plane that ends before its last pixel.
    PlaneTooShort {
        /// Plane, 0 to 2.
        plane: usize,
        /// Bytes given.
        have_bytes: usize,
        /// Bytes needed.
        need_bytes: u64,
    },
    /// A slot that ends before its last element.
    SlotTooShort {
        /// Bytes given.
        have_bytes: usize,
        /// Bytes needed; `u64::MAX` when the strides overflow.
        need_bytes: u64,
    },
    /// Slot strides under which two elements could share a place.
    SlotOverlaps {
        /// Channel stride in elements.
        channel_stride: usize,
        /// Row stride in elements.
        row_stride: usize,
        /// Column stride in elements.
        column_stride: usize,
    },
    /// A frame of another kind than a pass for a GPU was made for.
    FormatMismatch,
    /// Device memory that kernels could not read or write in whole words.
    Misaligned {
        /// Which: `tables`, `scratch`, `slot`, `out`.
        what: &'static str,
        /// Where it is.
        address: u64,
        /// What its address must be a multiple of.
        alignment: usize,
    },
}

impl fmt::Display for PassError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Empty { what, width, height } => write!(f, "{what} is {width}x{height}: it has no pixels"),
            Self::TooLarge { what, width, height } => {
                write!(f, "{what} is {width}x{height}: a side may be at most {} pixels", crate::MAX_SIDE)
            }
            Self::RectOutOfBounds { what, rect, width, height } => write!(
                f,
                "{what} {}x{} at ({}, {}) does not lie in its picture of {width}x{height}",
                rect.width, rect.height, rect.x, rect.y
            ),
            Self::NormalizeNeedsFloat => write!(f, "normalize needs a float dtype, the dtype is an integer"),
            Self::InvalidNormalize { channel, mean, std } => write!(
                f,
                "normalize of channel {channel} has mean {mean} and std {std}: both must be finite and std above 0, and so must 1 / std"
            ),
            Self::WindowTooLarge { width, height } => write!(
                f,
                "the resized picture of {width}x{height} is too large to be turned or to take its mean; \
                 resize it to at most {} pixels",
                crate::pixel_pass::MAX_WINDOW_PIXELS
            ),
            Self::WarpOutOfRange { to } => write!(
                f,
                "the affine map {to:?} (in 1/2^28 pixel) leads too far from the picture; use less scale or translation"
            ),
            Self::InvalidColorValue { value } => write!(f, "a color change holds {value}: at most a million is possible"),
            Self::ColorGainTooLarge { gain } => {
                write!(f, "a color change multiplies by {gain:.0}: at most a few thousand is possible")
            }
            Self::InvalidPeak { peak } => {
                let (least, most) = crate::ToneMap::PEAKS;
                write!(f, "a peak of tone mapping is {peak} cd/m2: it must be from {least} to {most}")
            }
            Self::InvalidPrimaries { primaries } => {
                write!(f, "primaries at {primaries:?} span no colors to map from")
            }
            Self::InvalidMaskGrid { limit } => write!(f, "the limit of a grid mask is {limit}, above 2^32"),
            Self::MaskElementNeedsFloat => {
                write!(f, "a mask of normalised values needs a float dtype, the dtype is an integer; give it code values")
            }
            Self::UnsupportedDepth { depth_bits, shift } => write!(
                f,
                "samples of {depth_bits} bits shifted up by {shift} are not supported here: \
                 8 bits unshifted, or (not packed RGB) 9 to 16 bits within 16"
            ),
            Self::UnsupportedSubsampling { log2_chroma_w, log2_chroma_h } => write!(
                f,
                "chroma subsampling 2^{log2_chroma_w} x 2^{log2_chroma_h} is not supported: at most 2^2 each way"
            ),
            Self::InvalidPacking { pixel_bytes, offsets } => {
                write!(f, "channel offsets {offsets:?} do not lie inside a pixel of {pixel_bytes} bytes")
            }
            Self::MatrixNeedsRgbPlanes => {
                write!(f, "the color matrix says RGB, the planes are YUV: name the YUV matrix or pass RGB planes")
            }
            Self::StrideTooShort { plane, stride_bytes, row_bytes } => {
                write!(f, "plane {plane} has rows of {row_bytes} bytes but a stride of {stride_bytes}")
            }
            Self::PlaneTooShort { plane, have_bytes, need_bytes } => {
                write!(f, "plane {plane} needs {need_bytes} bytes, got {have_bytes}")
            }
            Self::SlotTooShort { have_bytes, need_bytes } => {
                write!(f, "the slot needs {need_bytes} bytes, got {have_bytes}")
            }
            Self::SlotOverlaps { channel_stride, row_stride, column_stride } => write!(
                f,
                "slot strides (channel {channel_stride}, row {row_stride}, column {column_stride}) \
                 let two elements share a place"
            ),
            Self::FormatMismatch => {
                write!(f, "the frame is of another size, arrangement, depth or color than this pass was made for; make one for it")
            }
            Self::Misaligned { what, address, alignment } => {
                write!(f, "{what} lies at {address:#x} in device memory, which must be a multiple of {alignment}")
            }
        }
    }
}

impl std::error::Error for PassError {}
