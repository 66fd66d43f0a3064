//! Defines the crate's error type. Each variant contains the values that disagree.
//! It contains no file name; the caller knows it.

use std::fmt;

use crate::types::Rect;

/// Why a pixel pass could not be compiled or run. The slot is unchanged when it is returned.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum PassError {
    /// A rectangle or size without any pixel.
    Empty {
        /// Which one: `frame`, `crop`, `grid`, `resized`, `window`, `output`, `mask`.
        what: &'static str,
        width: u32,
        height: u32,
    },
    /// A side longer than [`MAX_SIDE`](crate::MAX_SIDE).
    TooLarge {
        /// Which one: `frame`, `grid`, `resized`, `output`.
        what: &'static str,
        width: u32,
        height: u32,
    },
    /// A rectangle that exceeds its frame.
    RectOutOfBounds {
        /// Which one: `crop`, `window`, `canvas`, `mask`.
        what: &'static str,
        /// The rectangle.
        rect: Rect,
        /// Width of the frame that must contain it.
        width: u32,
        /// Height of the frame that must contain it.
        height: u32,
    },
    /// Normalization was requested with an integer dtype.
    NormalizeNeedsFloat,
    /// A mean that is not finite, or a std that is not finite and above zero, or so small that
    /// elements are not finite.
    InvalidNormalize {
        /// Channel, 0 to 2.
        channel: usize,
        mean: f32,
        std: f32,
    },
    /// A window that is too large to be held completely, which a warp or its mean requires.
    WindowTooLarge { width: usize, height: usize },
    /// A warp whose positions are too far from the frame to be represented.
    WarpOutOfRange {
        /// The coefficients of one axis.
        to: [i64; 3],
    },
    /// A color map or fill with a number that is not finite or exceeds a million.
    InvalidColorValue {
        /// The number.
        value: f64,
    },
    /// A color map that multiplies colors by thousands.
    ColorGainTooLarge {
        /// Its largest row sum, in output levels per level.
        gain: f64,
    },
    /// A tone mapping whose peak is out of bounds.
    InvalidPeak {
        /// In cd/m2.
        peak: f64,
    },
    /// A tone mapping whose primaries do not span a color space.
    InvalidPrimaries {
        /// x and y of red, green and blue.
        primaries: [[f64; 2]; 3],
    },
    /// A grid mask whose limit is above 2^32.
    InvalidMaskGrid { limit: u64 },
    /// An element mask was requested with an integer dtype.
    MaskElementNeedsFloat,
    /// Samples of this depth and bit position are not supported in this plane arrangement.
    UnsupportedDepth {
        /// Bits per sample.
        depth_bits: u8,
        /// Number of bits by which samples are shifted up in their word.
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
    /// The color matrix is RGB, but the planes are YUV.
    MatrixNeedsRgbPlanes,
    /// Rows that overlap.
    StrideTooShort {
        /// Plane, 0 to 2.
        plane: usize,
        /// Row stride in bytes.
        stride_bytes: usize,
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
    /// Slot strides with which two elements could share an address.
    SlotOverlaps {
        /// Channel stride in elements.
        channel_stride: usize,
        /// Row stride in elements.
        row_stride: usize,
        /// Column stride in elements.
        column_stride: usize,
    },
    /// A frame of another format than that for which a device pass was prepared.
    FormatMismatch,
    /// A blur whose kernel reaches beyond the opposite edge of the frame.
    BlurTooLarge {
        /// Lengths of the kernel along rows and along columns.
        kernel: (usize, usize),
        /// Width of the frame.
        width: u32,
        /// Height of the frame.
        height: u32,
    },
    /// Device memory that kernels cannot access in complete words.
    Misaligned {
        /// Which: `tables`, `scratch`, `slot`, `out`.
        what: &'static str,
        address: u64,
        /// The required alignment in bytes.
        alignment: usize,
    },
}

impl fmt::Display for PassError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Empty {
                what,
                width,
                height,
            } => write!(
                f,
                "{what} is {width}x{height}: it must have at least one pixel"
            ),
            Self::TooLarge {
                what,
                width,
                height,
            } => {
                write!(
                    f,
                    "{what} is {width}x{height}: a side may be at most {} pixels",
                    crate::MAX_SIDE
                )
            }
            Self::RectOutOfBounds {
                what,
                rect,
                width,
                height,
            } => write!(
                f,
                "{what} {}x{} at ({}, {}) exceeds its frame of {width}x{height}",
                rect.width, rect.height, rect.x, rect.y
            ),
            Self::NormalizeNeedsFloat => {
                write!(f, "normalize requires a float dtype, got an integer dtype")
            }
            Self::InvalidNormalize { channel, mean, std } => write!(
                f,
                "normalize of channel {channel} has mean {mean} and std {std}: both must be finite and std above 0, and so must 1 / std"
            ),
            Self::WindowTooLarge { width, height } => write!(
                f,
                "the resized frame of {width}x{height} is too large for an affine map or a mean; \
                 resize it to at most {} pixels",
                crate::types::MAX_WINDOW_PIXELS
            ),
            Self::WarpOutOfRange { to } => write!(
                f,
                "the affine map {to:?} (in 1/2^28 pixel) leads too far from the frame; use less scale or translation"
            ),
            Self::InvalidColorValue { value } => write!(
                f,
                "a color map contains {value}: at most 1000000 is supported"
            ),
            Self::ColorGainTooLarge { gain } => {
                write!(
                    f,
                    "a color map multiplies by {gain:.0}: at most a few thousand is supported"
                )
            }
            Self::InvalidPeak { peak } => {
                let (least, most) = crate::types::TONE_MAP_PEAKS;
                write!(
                    f,
                    "the tone mapping peak is {peak} cd/m2: it must be from {least} to {most}"
                )
            }
            Self::InvalidPrimaries { primaries } => {
                write!(f, "primaries {primaries:?} do not span a color space")
            }
            Self::InvalidMaskGrid { limit } => write!(
                f,
                "the limit of a grid mask is {limit}: at most 2^32 is supported"
            ),
            Self::MaskElementNeedsFloat => {
                write!(
                    f,
                    "a mask of normalized values requires a float dtype, got an integer dtype; use code values"
                )
            }
            Self::UnsupportedDepth { depth_bits, shift } => write!(
                f,
                "samples of {depth_bits} bits shifted up by {shift} are not supported here: \
                 8 bits unshifted, or (not packed RGB) 9 to 16 bits within 16"
            ),
            Self::UnsupportedSubsampling {
                log2_chroma_w,
                log2_chroma_h,
            } => write!(
                f,
                "chroma subsampling 2^{log2_chroma_w} x 2^{log2_chroma_h} is not supported: at most 2^2 each way"
            ),
            Self::InvalidPacking {
                pixel_bytes,
                offsets,
            } => {
                write!(
                    f,
                    "channel offsets {offsets:?} are outside a pixel of {pixel_bytes} bytes"
                )
            }
            Self::MatrixNeedsRgbPlanes => {
                write!(
                    f,
                    "the color matrix is RGB, but the planes are YUV: use a YUV matrix or pass RGB planes"
                )
            }
            Self::StrideTooShort {
                plane,
                stride_bytes,
                row_bytes,
            } => {
                write!(
                    f,
                    "plane {plane} has rows of {row_bytes} bytes but a stride of {stride_bytes}"
                )
            }
            Self::PlaneTooShort {
                plane,
                have_bytes,
                need_bytes,
            } => {
                write!(
                    f,
                    "plane {plane} needs {need_bytes} bytes, got {have_bytes}"
                )
            }
            Self::SlotTooShort {
                have_bytes,
                need_bytes,
            } => {
                write!(f, "the slot needs {need_bytes} bytes, got {have_bytes}")
            }
            Self::SlotOverlaps {
                channel_stride,
                row_stride,
                column_stride,
            } => write!(
                f,
                "slot strides (channel {channel_stride}, row {row_stride}, column {column_stride}) \
                 let two elements share an address"
            ),
            Self::FormatMismatch => {
                write!(
                    f,
                    "the frame's size, plane arrangement, depth or color differs from this pass's; prepare a pass for it"
                )
            }
            Self::BlurTooLarge {
                kernel: (across, down),
                width,
                height,
            } => write!(
                f,
                "a blur kernel of {across}x{down} does not fit a frame of {width}x{height}; kernel lengths must be odd and less \
                 than twice the side"
            ),
            Self::Misaligned {
                what,
                address,
                alignment,
            } => {
                write!(
                    f,
                    "{what} is at {address:#x} in device memory; the address must be a multiple of {alignment}"
                )
            }
        }
    }
}

impl std::error::Error for PassError {}
