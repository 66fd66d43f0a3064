//! In: rows of 15-bit components at output resolution, and what their code values mean.
//! Out: rows of 8-bit R, G, B.
//! Never: rounds before this point; the components still carry the fraction that resampling left.

/// Which luma and chroma make which colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Matrix {
    /// Kr = 0.299, Kb = 0.114.
    Bt601,
    /// Kr = 0.2126, Kb = 0.0722.
    Bt709,
    /// Kr = 0.2627, Kb = 0.0593, non-constant luminance.
    Bt2020Ncl,
    /// The planes are R, G, B already.
    Rgb,
}

/// Which code values are black and white.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Range {
    /// Black 16, white 235, chroma 16 to 240, times 2^(depth - 8).
    Limited,
    /// All code values.
    Full,
}

/// What code values mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Colour {
    /// YUV to RGB.
    pub matrix: Matrix,
    /// Black and white.
    pub range: Range,
}

/// What the components of a picture are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    Gray,
    Yuv,
    Rgb,
}

/// Components carry 15 bits whatever the depth of the source: code value times 2^(15 - depth).
pub(crate) const COMPONENT_BITS: u32 = 15;
/// Coefficients are in units of 1 / 2^13: the largest (2.14) still fits 16 bits.
const COEFFICIENT_BITS: u32 = 13;
/// 7 fraction bits of a component seen as an 8-bit value, and those of the coefficient.
const OUTPUT_SHIFT: u32 = COMPONENT_BITS - 8 + COEFFICIENT_BITS;
/// Zero of chroma.
const CHROMA_ZERO: i16 = 1 << (COMPONENT_BITS - 1);

/// The integer colour matrix of one source format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Coefficients {
    pub black: i16,
    pub luma: i16,
    pub v_to_r: i16,
    pub u_to_g: i16,
    pub v_to_g: i16,
    pub u_to_b: i16,
}

impl Matrix {
    /// Kr and Kb; RGB has none.
    pub(crate) const fn luma_weights(self) -> (f64, f64) {
        match self {
            Self::Bt601 => (0.299, 0.114),
            Self::Bt709 => (0.2126, 0.0722),
            Self::Bt2020Ncl => (0.2627, 0.0593),
            Self::Rgb => (0.0, 0.0),
        }
    }
}

impl Coefficients {
    pub fn new(colour: Colour, depth_bits: u8) -> Self {
        let (kr, kb) = colour.matrix.luma_weights();
        let kg = 1.0 - kr - kb;
        let code_values = f64::from(1u32 << depth_bits);
        let (black, luma, chroma) = match colour.range {
            Range::Limited => (16 << (COMPONENT_BITS - 8), 255.0 / 219.0, 255.0 / 224.0),
            // Full range maps 2^depth - 1 to 255; a component is in units of 2^depth / 256.
            Range::Full => (
                0,
                255.0 / 256.0 * code_values / (code_values - 1.0),
                255.0 / 256.0 * code_values / (code_values - 1.0),
            ),
        };
        let fixed = |value: f64| (value * f64::from(1 << COEFFICIENT_BITS)).round() as i16;
        Self {
            black,
            luma: fixed(luma),
            v_to_r: fixed(chroma * 2.0 * (1.0 - kr)),
            u_to_g: fixed(-chroma * 2.0 * (1.0 - kb) * kb / kg),
            v_to_g: fixed(-chroma * 2.0 * (1.0 - kr) * kr / kg),
            u_to_b: fixed(chroma * 2.0 * (1.0 - kb)),
        }
    }

    #[inline(always)]
    fn scaled_luma(self, y: i16) -> i32 {
        // In 16 bits on purpose (0..=32767 less at most 2048 fits): a 16 by 16 bit product is one cheap instruction.
        i32::from(y.wrapping_sub(self.black)) * i32::from(self.luma) + (1 << (OUTPUT_SHIFT - 1))
    }

    /// The matrix on one pixel.
    #[inline(always)]
    pub fn rgb(self, y: i16, u: i16, v: i16) -> [u8; 3] {
        let luma = self.scaled_luma(y);
        let u = u.wrapping_sub(CHROMA_ZERO);
        let v = v.wrapping_sub(CHROMA_ZERO);
        let product = |value: i16, coefficient: i16| i32::from(value) * i32::from(coefficient);
        [
            to_u8(luma + product(v, self.v_to_r)),
            to_u8(luma + product(u, self.u_to_g) + product(v, self.v_to_g)),
            to_u8(luma + product(u, self.u_to_b)),
        ]
    }

    /// One component that is a colour already: only the range is undone.
    #[inline(always)]
    pub fn single(self, value: i16) -> u8 {
        to_u8(self.scaled_luma(value))
    }
}

#[inline(always)]
fn to_u8(sum: i32) -> u8 {
    (sum >> OUTPUT_SHIFT).clamp(0, 255) as u8
}

/// Converts a row of Y, U, V.
#[inline(always)]
pub(crate) fn yuv_row(rgb: [&mut [u8]; 3], yuv: [&[i16]; 3], coefficients: Coefficients) {
    let [r, g, b] = rgb;
    let [y, u, v] = yuv;
    let length = y.len();
    let (u, v) = (&u[..length], &v[..length]);
    let (r, g, b) = (&mut r[..length], &mut g[..length], &mut b[..length]);
    for i in 0..length {
        [r[i], g[i], b[i]] = coefficients.rgb(y[i], u[i], v[i]);
    }
}

/// Converts a row of a component that is a colour already.
#[inline(always)]
pub(crate) fn single_row(out: &mut [u8], values: &[i16], coefficients: Coefficients) {
    for (out, &value) in out.iter_mut().zip(values) {
        *out = coefficients.single(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limited_black_and_white_are_0_and_255_at_every_depth() {
        for matrix in [Matrix::Bt601, Matrix::Bt709, Matrix::Bt2020Ncl] {
            for depth in 8..=16 {
                let c = Coefficients::new(Colour { matrix, range: Range::Limited }, depth);
                assert_eq!(c.rgb(16 << 7, CHROMA_ZERO, CHROMA_ZERO), [0; 3]);
                assert_eq!(c.rgb(235 << 7, CHROMA_ZERO, CHROMA_ZERO), [255; 3]);
            }
        }
    }

    #[test]
    fn full_range_8_bit_gray_is_itself() {
        let c = Coefficients::new(Colour { matrix: Matrix::Bt709, range: Range::Full }, 8);
        for value in 0..=255u8 {
            assert_eq!(c.rgb(i16::from(value) << 7, CHROMA_ZERO, CHROMA_ZERO), [value; 3]);
        }
    }

    #[test]
    fn extreme_components_do_not_overflow() {
        for matrix in [Matrix::Bt601, Matrix::Bt709, Matrix::Bt2020Ncl] {
            for range in [Range::Limited, Range::Full] {
                let c = Coefficients::new(Colour { matrix, range }, 8);
                for y in [0, i16::MAX] {
                    for (u, v) in [(0, 0), (0, i16::MAX), (i16::MAX, 0), (i16::MAX, i16::MAX)] {
                        c.rgb(y, u, v); // debug builds trap on overflow
                    }
                }
            }
        }
    }
}
