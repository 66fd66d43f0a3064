//! In: rows of 15-bit components at output resolution, what their code values mean, and the change of colors asked for.
//! Out: rows of 8-bit R, G, B.
//! Never: rounds before this point; the components still carry the fraction that resampling left.

use crate::error::PassError;
use crate::finish::{product, ColorMap, Fill};

/// Which luma and chroma make which color.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Matrix {
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
    /// Green and orange differences in place of Cb and Cr: no luma weights.
    YCgCo,
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
pub struct Color {
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

impl Ink {
    /// Components that the planes hold.
    pub fn components(self) -> usize {
        match self {
            Self::Gray => 1,
            Self::Yuv | Self::Rgb => 3,
        }
    }

    /// The components in the places where colors look for them.
    pub fn spread(self, components: [i16; 3]) -> [i16; 3] {
        match self {
            Self::Gray => [components[0]; 3],
            Self::Yuv | Self::Rgb => components,
        }
    }
}

/// Components carry 15 bits whatever the depth of the source: code value times 2^(15 - depth).
pub(crate) const COMPONENT_BITS: u32 = 15;
/// Most fraction bits of a coefficient: the largest without a color map (2.14) still fits 16 bits.
const COEFFICIENT_BITS: u32 = 13;
/// Zero of chroma.
const CHROMA_ZERO: i16 = 1 << (COMPONENT_BITS - 1);
/// Full cover of a pixel by the picture.
pub(crate) const COVERED: i32 = 1 << 14;
/// Bias and fill stay within this, so that sums stay within 32 bits.
const FARTHEST: i64 = (1 << 30) - (1 << 20);

/// Components to colors, in integers (CONTRACT.md, step 5): the source's matrix and the color map in one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Coefficients {
    pub ink: Ink,
    /// No color map, and a matrix of luma weights if any: most coefficients are zero or equal.
    plain: bool,
    /// Colors are made in 16 bits.
    pub wide: bool,
    factors: [[i16; 3]; 3],
    zero: [i16; 3],
    shift: u32,
    pub bias: Affine,
    pub fill: Affine,
}

/// A color that may depend on the mean of the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Affine {
    pub constant: [i64; 3],
    pub of_mean: [[i64; 3]; 3],
}

/// Coefficients with what the mean of one frame's window decides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FrameColors {
    pub ink: Ink,
    pub plain: bool,
    pub wide: bool,
    pub factors: [[i16; 3]; 3],
    pub zero: [i16; 3],
    pub shift: u32,
    pub bias: [i32; 3],
    pub fill: [i32; 3],
}

impl Matrix {
    /// All but those whose planes are R, G, B.
    pub const ALL_YUV: [Self; 6] =
        [Self::Bt601, Self::Bt709, Self::Bt2020Ncl, Self::Fcc, Self::Smpte240m, Self::YCgCo];

    /// Kr and Kb; `None` for matrices that are not made of them.
    pub(crate) const fn luma_weights(self) -> Option<(f64, f64)> {
        match self {
            Self::Bt601 => Some((0.299, 0.114)),
            Self::Bt709 => Some((0.2126, 0.0722)),
            Self::Bt2020Ncl => Some((0.2627, 0.0593)),
            Self::Fcc => Some((0.30, 0.11)),
            Self::Smpte240m => Some((0.212, 0.087)),
            Self::YCgCo | Self::Rgb => None,
        }
    }
}

/// The base matrix of a source format, in 8-bit code values per 128 units of component, and the components of black.
fn base(color: Color, depth_bits: u8, ink: Ink) -> ([[f64; 3]; 3], [i16; 3]) {
    let code_values = f64::from(1u32 << depth_bits);
    // Full range maps 2^depth - 1 to 255; a component is in units of 2^depth / 256.
    let full = 255.0 / 256.0 * code_values / (code_values - 1.0);
    let (black, luma, chroma) = match color.range {
        Range::Limited => (16 << (COMPONENT_BITS - 8), 255.0 / 219.0, 255.0 / 224.0),
        Range::Full => (0, full, full),
    };
    match ink {
        Ink::Gray => ([[luma, 0.0, 0.0]; 3], [black; 3]),
        Ink::Rgb => ([[luma, 0.0, 0.0], [0.0, luma, 0.0], [0.0, 0.0, luma]], [black; 3]),
        Ink::Yuv => {
            let zero = [black, CHROMA_ZERO, CHROMA_ZERO];
            let Some((kr, kb)) = color.matrix.luma_weights() else {
                // H.273 makes YCgCo of R, G, B that have the range already: differences are as large as they were.
                return ([[luma, -luma, luma], [luma, luma, 0.0], [luma, -luma, -luma]], zero);
            };
            let kg = 1.0 - kr - kb;
            let rows = [
                [luma, 0.0, chroma * 2.0 * (1.0 - kr)],
                [luma, -chroma * 2.0 * (1.0 - kb) * kb / kg, -chroma * 2.0 * (1.0 - kr) * kr / kg],
                [luma, chroma * 2.0 * (1.0 - kb), 0.0],
            ];
            (rows, zero)
        }
    }
}

fn fixed(value: f64, bits: u32) -> i64 {
    (value * f64::from(1u32 << bits)).round() as i64
}

impl Coefficients {
    pub fn new(
        color: Color,
        depth_bits: u8,
        ink: Ink,
        wide: bool,
        map: &ColorMap,
        fill: &Fill,
    ) -> Result<Self, PassError> {
        let (base, zero) = base(color, depth_bits, ink);
        let matrix = product(&map.matrix, &base);
        let fits = |bits: u32| {
            matrix.iter().all(|row| {
                row.iter().map(|&v| fixed(v, bits).saturating_abs()).fold(0, i64::saturating_add) <= 32_767
            })
        };
        let Some(bits) = (0..=COEFFICIENT_BITS).rev().find(|&bits| fits(bits)) else {
            let gain = matrix.iter().map(|row| row.iter().map(|v| v.abs()).sum()).fold(0.0, f64::max);
            return Err(PassError::ColorTooStrong { gain });
        };
        let shift = bits + COMPONENT_BITS - 8;
        let affine = |constant: [f64; 3], of_mean: &[[f64; 3]; 3]| Affine {
            constant: constant.map(|v| fixed(v, shift)),
            of_mean: product(of_mean, &base).map(|row| row.map(|v| fixed(v, bits))),
        };
        Ok(Self {
            ink,
            wide,
            plain: *map == ColorMap::IDENTITY && !(ink == Ink::Yuv && color.matrix == Matrix::YCgCo),
            factors: matrix.map(|row| row.map(|v| fixed(v, bits) as i16)),
            zero,
            shift,
            bias: affine(map.offset, &map.mean),
            fill: affine(fill.base, &fill.mean),
        })
    }

    /// For a frame whose window has this mean.
    pub fn with_mean(&self, mean: [i16; 3]) -> FrameColors {
        let at = |affine: &Affine| {
            [0, 1, 2].map(|r| {
                let of_mean = (0..3).map(|k| {
                    i128::from(affine.of_mean[r][k])
                        * i128::from(i32::from(mean[k]) - i32::from(self.zero[k]))
                });
                let sum = i128::from(affine.constant[r]) + of_mean.sum::<i128>();
                sum.clamp(i128::from(-FARTHEST), i128::from(FARTHEST)) as i32
            })
        };
        FrameColors {
            ink: self.ink,
            plain: self.plain,
            wide: self.wide,
            factors: self.factors,
            zero: self.zero,
            shift: self.shift,
            bias: at(&self.bias),
            fill: at(&self.fill),
        }
    }

    /// For frames whose mean nothing depends on.
    pub fn without_mean(&self) -> FrameColors {
        self.with_mean(self.zero)
    }
}

impl FrameColors {
    /// The factors that are not zero without a color map: luma, V to R, U to G, V to G, U to B.
    pub fn plain_factors(&self) -> [i16; 5] {
        let [[luma, _, v_to_r], [_, u_to_g, v_to_g], [_, u_to_b, _]] = self.factors;
        [luma, v_to_r, u_to_g, v_to_g, u_to_b]
    }

    /// The components that change nothing: what lies outside the window.
    pub fn zero(&self) -> [i16; 3] {
        self.zero
    }

    /// The color where there is no picture.
    pub fn fill(&self) -> [u8; 3] {
        self.fill.map(|value| self.narrowed(value + self.half()))
    }

    /// The same in 16 bits.
    pub fn wide_fill(&self) -> [u16; 3] {
        self.fill.map(|value| self.widened(value))
    }

    /// A pixel that the picture covers in part (of [`COVERED`]).
    pub fn mixed(&self, components: [i16; 3], cover: i32) -> [u8; 3] {
        self.covered(components, cover).map(|value| self.narrowed(value + self.half()))
    }

    /// The same in 16 bits.
    pub fn wide_mixed(&self, components: [i16; 3], cover: i32) -> [u16; 3] {
        self.covered(components, cover).map(|value| self.widened(value))
    }

    fn covered(&self, components: [i16; 3], cover: i32) -> [i32; 3] {
        [0, 1, 2].map(|r| {
            let cover = i64::from(cover);
            let (bias, fill) = (i64::from(self.bias[r]), i64::from(self.fill[r]));
            let open = i64::from(COVERED) - cover;
            let ground = (bias * cover + fill * open + i64::from(COVERED / 2)) >> 14;
            self.sum(r, components) + ground as i32
        })
    }

    /// Pixel i of samples whose chroma is half as wide.
    #[inline(always)]
    fn full_pixel(&self, yuv: [&[u8]; 3], i: usize) -> [u8; 3] {
        let component = |sample: u8| i16::from(sample) << (COMPONENT_BITS - 8);
        let c = [component(yuv[0][i]), component(yuv[1][i / 2]), component(yuv[2][i / 2])];
        [0, 1, 2].map(|k| self.narrowed(self.sum(k, c) + self.half()))
    }

    #[inline(always)]
    fn half(&self) -> i32 {
        1 << (self.shift - 1)
    }

    #[inline(always)]
    fn narrowed(&self, sum: i32) -> u8 {
        (sum >> self.shift).clamp(0, 255) as u8
    }

    /// In 16 bits: 255 becomes 65535.
    #[inline(always)]
    fn widened(&self, sum: i32) -> u16 {
        ((257 * i64::from(sum) + i64::from(self.half())) >> self.shift).clamp(0, 65_535) as u16
    }

    #[inline(always)]
    fn sum(&self, r: usize, components: [i16; 3]) -> i32 {
        // In 16 bits on purpose (components less their zero fit): a 16 by 16 bit product is one cheap instruction.
        let term =
            |k: usize| i32::from(components[k].wrapping_sub(self.zero[k])) * i32::from(self.factors[r][k]);
        term(0) + term(1) + term(2)
    }
}

/// Converts a row of three components by the full matrix.
#[inline(always)]
pub(crate) fn mix_row(rgb: [&mut [u8]; 3], components: [&[i16]; 3], colors: &FrameColors) {
    let [r, g, b] = rgb;
    let length = components[0].len();
    let [c0, c1, c2] = components.map(|row| &row[..length]);
    let (r, g, b) = (&mut r[..length], &mut g[..length], &mut b[..length]);
    let ground = colors.bias.map(|bias| bias + colors.half());
    for i in 0..length {
        let c = [c0[i], c1[i], c2[i]];
        r[i] = colors.narrowed(colors.sum(0, c) + ground[0]);
        g[i] = colors.narrowed(colors.sum(1, c) + ground[1]);
        b[i] = colors.narrowed(colors.sum(2, c) + ground[2]);
    }
}

/// [`mix_row`] in 16 bits.
#[inline(always)]
pub(crate) fn wide_row(rgb: [&mut [u16]; 3], components: [&[i16]; 3], colors: &FrameColors) {
    let length = components[0].len();
    let [c0, c1, c2] = components.map(|row| &row[..length]);
    for (r, out) in rgb.into_iter().enumerate() {
        let out = &mut out[..length];
        for i in 0..length {
            out[i] = colors.widened(colors.sum(r, [c0[i], c1[i], c2[i]]) + colors.bias[r]);
        }
    }
}

/// [`mix_row`] for Y, U, V without a color map: one luma product, no U in red, no V in blue.
#[inline(always)]
pub(crate) fn yuv_row(rgb: [&mut [u8]; 3], yuv: [&[i16]; 3], colors: &FrameColors) {
    let [r, g, b] = rgb;
    let length = yuv[0].len();
    let [y, u, v] = yuv.map(|row| &row[..length]);
    let (r, g, b) = (&mut r[..length], &mut g[..length], &mut b[..length]);
    let [[luma, _, v_to_r], [_, u_to_g, v_to_g], [_, u_to_b, _]] = colors.factors;
    let product = |value: i16, factor: i16| i32::from(value) * i32::from(factor);
    let narrow = |sum: i32| (sum >> PLAIN_SHIFT).clamp(0, 255) as u8;
    for i in 0..length {
        let light = product(y[i].wrapping_sub(colors.zero[0]), luma) + (1 << (PLAIN_SHIFT - 1));
        let (u, v) = (u[i].wrapping_sub(CHROMA_ZERO), v[i].wrapping_sub(CHROMA_ZERO));
        r[i] = narrow(light + product(v, v_to_r));
        g[i] = narrow(light + product(u, u_to_g) + product(v, v_to_g));
        b[i] = narrow(light + product(u, u_to_b));
    }
}

/// [`yuv_row`] from the samples of an 8-bit picture at its own size, whose chroma is half as wide: neither needs resampling.
#[inline(always)]
pub(crate) fn full_row(rgb: [&mut [u8]; 3], yuv: [&[u8]; 3], colors: &FrameColors) {
    full_row_from(0, rgb, yuv, colors);
}

/// [`full_row`] from a pixel on.
#[inline(always)]
pub(crate) fn full_row_from(first: usize, rgb: [&mut [u8]; 3], yuv: [&[u8]; 3], colors: &FrameColors) {
    let [r, g, b] = rgb;
    for i in first..yuv[0].len() {
        [r[i], g[i], b[i]] = colors.full_pixel(yuv, i);
    }
}

/// [`full_row`] to R, G, B side by side.
#[inline(always)]
pub(crate) fn full_packed(out: &mut [u8], yuv: [&[u8]; 3], colors: &FrameColors) {
    full_packed_from(0, out, yuv, colors);
}

/// [`full_packed`] from a pixel on.
#[inline(always)]
pub(crate) fn full_packed_from(first: usize, out: &mut [u8], yuv: [&[u8]; 3], colors: &FrameColors) {
    for i in first..yuv[0].len() {
        out[3 * i..][..3].copy_from_slice(&colors.full_pixel(yuv, i));
    }
}

/// Shift without a color map.
const PLAIN_SHIFT: u32 = COMPONENT_BITS - 8 + COEFFICIENT_BITS;

/// Converts a row of a component that is a color already, without a color map: only the range is undone.
#[inline(always)]
pub(crate) fn single_row(out: &mut [u8], values: &[i16], colors: &FrameColors) {
    let luma = colors.factors[0][0];
    for (out, &value) in out.iter_mut().zip(values) {
        let sum = i32::from(value.wrapping_sub(colors.zero[0])) * i32::from(luma) + (1 << (PLAIN_SHIFT - 1));
        *out = (sum >> PLAIN_SHIFT).clamp(0, 255) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rgb(color: Color, depth_bits: u8, map: &ColorMap, yuv: [i16; 3]) -> [u8; 3] {
        let c = Coefficients::new(color, depth_bits, Ink::Yuv, false, map, &Fill::default()).unwrap();
        let frame = c.without_mean();
        let mut out = [[0u8; 1]; 3];
        let [r, g, b] = &mut out;
        mix_row([r, g, b], yuv.each_ref().map(std::slice::from_ref), &frame);
        let mixed = out.map(|[v]| v);
        assert_eq!(mixed, frame.mixed(yuv, COVERED));
        if frame.plain {
            let [r, g, b] = &mut out;
            yuv_row([r, g, b], yuv.each_ref().map(std::slice::from_ref), &frame);
            assert_eq!(mixed, out.map(|[v]| v));
        }
        mixed
    }

    const NEUTRAL: i16 = CHROMA_ZERO;

    #[test]
    fn limited_black_and_white_are_0_and_255_at_every_depth() {
        for matrix in Matrix::ALL_YUV {
            for depth in 8..=16 {
                let limited = Color { matrix, range: Range::Limited };
                assert_eq!(rgb(limited, depth, &ColorMap::IDENTITY, [16 << 7, NEUTRAL, NEUTRAL]), [0; 3]);
                assert_eq!(rgb(limited, depth, &ColorMap::IDENTITY, [235 << 7, NEUTRAL, NEUTRAL]), [255; 3]);
            }
        }
    }

    #[test]
    fn full_range_8_bit_gray_is_itself() {
        let full = Color { matrix: Matrix::Bt709, range: Range::Full };
        for value in 0..=255u8 {
            let yuv = [i16::from(value) << 7, NEUTRAL, NEUTRAL];
            assert_eq!(rgb(full, 8, &ColorMap::IDENTITY, yuv), [value; 3]);
        }
    }

    #[test]
    fn extreme_components_and_maps_do_not_overflow() {
        let strong = |gain: f64, offset: f64| ColorMap {
            matrix: [[gain, -gain, gain], [0.1, gain, 0.0], [0.0, 0.0, -gain]],
            mean: [[gain; 3]; 3],
            offset: [offset, -offset, 0.0],
        };
        let maps = [ColorMap::IDENTITY, strong(1.0, 300.0), strong(40.0, 1e12), strong(500.0, -1e300)];
        for matrix in Matrix::ALL_YUV {
            for range in [Range::Limited, Range::Full] {
                for map in &maps {
                    for y in [0, i16::MAX] {
                        for (u, v) in [(0, 0), (0, i16::MAX), (i16::MAX, 0), (i16::MAX, i16::MAX)] {
                            rgb(Color { matrix, range }, 8, map, [y, u, v]); // debug builds trap on overflow
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_map_beyond_16_bits_is_refused() {
        let map = ColorMap::linear([[20_000.0; 3]; 3]);
        let full = Color { matrix: Matrix::Bt709, range: Range::Full };
        let refused = Coefficients::new(full, 8, Ink::Yuv, false, &map, &Fill::default());
        assert!(matches!(refused, Err(PassError::ColorTooStrong { .. })));
    }

    #[test]
    fn fill_is_exactly_its_color_and_mixes_by_cover() {
        let full = Color { matrix: Matrix::Bt709, range: Range::Full };
        for value in 0..=255u8 {
            let fill = Fill::constant([f64::from(value); 3]);
            let c = Coefficients::new(full, 8, Ink::Yuv, false, &ColorMap::IDENTITY, &fill)
                .unwrap()
                .without_mean();
            assert_eq!(c.fill(), [value; 3]);
            assert_eq!(c.mixed(c.zero(), 0), [value; 3]);
            assert_eq!(c.mixed(c.zero(), COVERED / 2), [value.div_ceil(2); 3]);
        }
    }
}
