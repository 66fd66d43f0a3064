//! The meaning of a frame's code values: matrix, range and components.

/// How R, G and B follow from the components of a YUV format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MatrixCoefficients {
    /// Kr = 0.299, Kb = 0.114.
    Bt601,
    /// Kr = 0.2126, Kb = 0.0722.
    Bt709,
    /// Kr = 0.2627, Kb = 0.0593, non-constant luminance.
    Bt2020Ncl,
    /// Kr = 0.30, Kb = 0.11: United States FCC Title 47.
    Fcc,
    /// Kr = 0.212, Kb = 0.087.
    Smpte240m,
    /// Green and orange differences instead of Cb and Cr: no luma weights.
    YCgCo,
    /// R, G and B are luma, for planes that hold no colors, such as depth maps.
    Luma,
    /// The planes are R, G, B.
    Rgb,
}

/// The code values of black and white.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColorRange {
    /// Black 16, white 235, chroma 16 to 240, times 2^(depth - 8).
    Limited,
    /// All code values.
    Full,
}

/// The meaning of code values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Colorimetry {
    /// The YUV to RGB matrix.
    pub matrix: MatrixCoefficients,
    /// The range of black to white.
    pub range: ColorRange,
}

/// The components of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComponentModel {
    Gray,
    Yuv,
    Rgb,
}

impl ComponentModel {
    /// Number of components in the planes.
    pub(crate) fn components(self) -> usize {
        match self {
            Self::Gray => 1,
            Self::Yuv | Self::Rgb => 3,
        }
    }

    /// The components in the order that the color conversion expects.
    pub(crate) fn broadcast_gray(self, components: [i16; 3]) -> [i16; 3] {
        match self {
            Self::Gray => [components[0]; 3],
            Self::Yuv | Self::Rgb => components,
        }
    }
}

impl MatrixCoefficients {
    /// All matrices except that of R, G, B planes.
    pub const ALL_YUV: [Self; 7] = [
        Self::Bt601,
        Self::Bt709,
        Self::Bt2020Ncl,
        Self::Fcc,
        Self::Smpte240m,
        Self::YCgCo,
        Self::Luma,
    ];

    /// Kr and Kb; `None` for matrices that are not defined by them.
    pub(crate) const fn luma_weights(self) -> Option<(f64, f64)> {
        match self {
            Self::Bt601 => Some((0.299, 0.114)),
            Self::Bt709 => Some((0.2126, 0.0722)),
            Self::Bt2020Ncl => Some((0.2627, 0.0593)),
            Self::Fcc => Some((0.30, 0.11)),
            Self::Smpte240m => Some((0.212, 0.087)),
            Self::YCgCo | Self::Luma | Self::Rgb => None,
        }
    }
}

/// Components have 15 bits for every depth of the source: code value times 2^(15 - depth).
pub(crate) const COMPONENT_BITS: u32 = 15;
