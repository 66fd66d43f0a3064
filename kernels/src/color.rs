//! Converts rows of 15-bit components to rows of 8-bit or 16-bit R, G, B, with an optional color
//! map. Components still have the fraction bits of resampling; colors are rounded to the output
//! depth only here.

use crate::colorimetry::{
    COMPONENT_BITS, ColorRange, Colorimetry, ComponentModel, MatrixCoefficients,
};
use crate::error::PassError;
use crate::output_spec::{ColorMap, Fill};
use crate::types::product;

/// Maximum number of fraction bits of a coefficient: the largest one without a color map (2.14)
/// still fits in 16 bits.
const COEFFICIENT_BITS: u32 = 13;
/// Chroma of gray.
const CHROMA_ZERO: i16 = 1 << (COMPONENT_BITS - 1);
/// Full coverage of a pixel by the frame.
pub(crate) const FULL_COVERAGE: i32 = 1 << 14;
/// Bias and fill stay within this, so that sums stay within 32 bits.
const MAX_BIAS: i64 = (1 << 30) - (1 << 20);

/// Integer conversion of components to colors (SPEC.md, step 5): the source's matrix and the color
/// map combined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ColorCoefficients {
    pub model: ComponentModel,
    /// No color map, and a matrix of luma weights if any: most coefficients are zero or equal.
    sparse: bool,
    /// Colors have 16 bits.
    pub use_u16: bool,
    factors: [[i16; 3]; 3],
    zero: [i16; 3],
    shift: u32,
    pub bias: MeanDependentColor,
    pub fill: MeanDependentColor,
}

/// A color that may depend on the mean of the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MeanDependentColor {
    pub constant: [i64; 3],
    pub mean_factors: [[i64; 3]; 3],
}

/// ColorCoefficients with the values that depend on the mean of one frame's window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FrameCoefficients {
    pub model: ComponentModel,
    pub sparse: bool,
    pub use_u16: bool,
    pub factors: [[i16; 3]; 3],
    pub zero: [i16; 3],
    pub shift: u32,
    pub bias: [i32; 3],
    pub fill: [i32; 3],
}

/// The base matrix of a source format, in 8-bit code values per 128 units of component, and the
/// components of black.
fn base_matrix(
    color: Colorimetry,
    depth_bits: u8,
    model: ComponentModel,
) -> ([[f64; 3]; 3], [i16; 3]) {
    let code_values = f64::from(1u32 << depth_bits);
    // Full range maps 2^depth - 1 to 255; a component is in units of 2^depth / 256.
    let full = 255.0 / 256.0 * code_values / (code_values - 1.0);
    let (black, luma, chroma) = match color.range {
        ColorRange::Limited => (16 << (COMPONENT_BITS - 8), 255.0 / 219.0, 255.0 / 224.0),
        ColorRange::Full => (0, full, full),
    };
    match model {
        ComponentModel::Gray => ([[luma, 0.0, 0.0]; 3], [black; 3]),
        ComponentModel::Rgb => (
            [[luma, 0.0, 0.0], [0.0, luma, 0.0], [0.0, 0.0, luma]],
            [black; 3],
        ),
        ComponentModel::Yuv if color.matrix == MatrixCoefficients::Luma => {
            ([[luma, 0.0, 0.0]; 3], [black, CHROMA_ZERO, CHROMA_ZERO])
        }
        ComponentModel::Yuv => {
            let zero = [black, CHROMA_ZERO, CHROMA_ZERO];
            let Some((kr, kb)) = color.matrix.luma_weights() else {
                // H.273 computes YCgCo from R, G, B that already have the range, so differences are
                // not scaled.
                return (
                    [[luma, -luma, luma], [luma, luma, 0.0], [luma, -luma, -luma]],
                    zero,
                );
            };
            let kg = 1.0 - kr - kb;
            let rows = [
                [luma, 0.0, chroma * 2.0 * (1.0 - kr)],
                [
                    luma,
                    -chroma * 2.0 * (1.0 - kb) * kb / kg,
                    -chroma * 2.0 * (1.0 - kr) * kr / kg,
                ],
                [luma, chroma * 2.0 * (1.0 - kb), 0.0],
            ];
            (rows, zero)
        }
    }
}

fn to_fixed_point(value: f64, bits: u32) -> i64 {
    (value * f64::from(1u32 << bits)).round() as i64
}

impl ColorCoefficients {
    pub(crate) fn new(
        color: Colorimetry,
        depth_bits: u8,
        model: ComponentModel,
        use_u16: bool,
        map: &ColorMap,
        fill: &Fill,
    ) -> Result<Self, PassError> {
        let (base, zero) = base_matrix(color, depth_bits, model);
        let matrix = product(&map.matrix, &base);
        let fits = |bits: u32| {
            matrix.iter().all(|row| {
                row.iter()
                    .map(|&v| to_fixed_point(v, bits).saturating_abs())
                    .fold(0, i64::saturating_add)
                    <= 32_767
            })
        };
        let Some(bits) = (0..=COEFFICIENT_BITS).rev().find(|&bits| fits(bits)) else {
            let gain = matrix
                .iter()
                .map(|row| row.iter().map(|v| v.abs()).sum())
                .fold(0.0, f64::max);
            return Err(PassError::ColorGainTooLarge { gain });
        };
        let shift = bits + COMPONENT_BITS - 8;
        let affine = |constant: [f64; 3], mean_factors: &[[f64; 3]; 3]| MeanDependentColor {
            constant: constant.map(|v| to_fixed_point(v, shift)),
            mean_factors: product(mean_factors, &base)
                .map(|row| row.map(|v| to_fixed_point(v, bits))),
        };
        Ok(Self {
            model,
            use_u16,
            sparse: *map == ColorMap::IDENTITY
                && !(model == ComponentModel::Yuv && color.matrix == MatrixCoefficients::YCgCo),
            factors: matrix.map(|row| row.map(|v| to_fixed_point(v, bits) as i16)),
            zero,
            shift,
            bias: affine(map.offset, &map.mean),
            fill: affine(fill.base, &fill.mean),
        })
    }

    /// Coefficients for a frame whose window has this mean.
    pub(crate) fn with_mean(&self, mean: [i16; 3]) -> FrameCoefficients {
        let at = |affine: &MeanDependentColor| {
            [0, 1, 2].map(|r| {
                let mean_factors = (0..3).map(|k| {
                    i128::from(affine.mean_factors[r][k])
                        * i128::from(i32::from(mean[k]) - i32::from(self.zero[k]))
                });
                let sum = i128::from(affine.constant[r]) + mean_factors.sum::<i128>();
                sum.clamp(i128::from(-MAX_BIAS), i128::from(MAX_BIAS)) as i32
            })
        };
        FrameCoefficients {
            model: self.model,
            sparse: self.sparse,
            use_u16: self.use_u16,
            factors: self.factors,
            zero: self.zero,
            shift: self.shift,
            bias: at(&self.bias),
            fill: at(&self.fill),
        }
    }

    /// Coefficients that do not depend on the mean.
    pub(crate) fn without_mean(&self) -> FrameCoefficients {
        self.with_mean(self.zero)
    }
}

impl FrameCoefficients {
    /// The factors that are not zero without a color map: luma, V to R, U to G, V to G, U to B.
    pub(crate) fn sparse_factors(&self) -> [i16; 5] {
        let [[luma, _, v_to_r], [_, u_to_g, v_to_g], [_, u_to_b, _]] = self.factors;
        [luma, v_to_r, u_to_g, v_to_g, u_to_b]
    }

    /// The neutral components, used outside the window.
    pub(crate) fn zero(&self) -> [i16; 3] {
        self.zero
    }

    /// The fill color.
    pub(crate) fn fill(&self) -> [u8; 3] {
        self.fill.map(|value| self.to_u8(value + self.half()))
    }

    /// The same in 16 bits.
    pub(crate) fn fill_u16(&self) -> [u16; 3] {
        self.fill.map(|value| self.to_u16(value))
    }

    /// A pixel that the frame covers in part (of [`FULL_COVERAGE`]).
    pub(crate) fn blend_pixel(&self, components: [i16; 3], coverage: i32) -> [u8; 3] {
        self.blend_coverage(components, coverage)
            .map(|value| self.to_u8(value + self.half()))
    }

    /// The same in 16 bits.
    pub(crate) fn blend_pixel_u16(&self, components: [i16; 3], coverage: i32) -> [u16; 3] {
        self.blend_coverage(components, coverage)
            .map(|value| self.to_u16(value))
    }

    fn blend_coverage(&self, components: [i16; 3], coverage: i32) -> [i32; 3] {
        [0, 1, 2].map(|r| {
            let coverage = i64::from(coverage);
            let (bias, fill) = (i64::from(self.bias[r]), i64::from(self.fill[r]));
            let open = i64::from(FULL_COVERAGE) - coverage;
            let ground = (bias * coverage + fill * open + i64::from(FULL_COVERAGE / 2)) >> 14;
            self.sum(r, components) + ground as i32
        })
    }

    /// Pixel i of samples whose chroma has half the width.
    #[inline(always)]
    fn unscaled_pixel(&self, yuv: [&[u8]; 3], i: usize) -> [u8; 3] {
        let component = |sample: u8| i16::from(sample) << (COMPONENT_BITS - 8);
        let c = [
            component(yuv[0][i]),
            component(yuv[1][i / 2]),
            component(yuv[2][i / 2]),
        ];
        [0, 1, 2].map(|k| self.to_u8(self.sum(k, c) + self.half()))
    }

    #[inline(always)]
    fn half(&self) -> i32 {
        1 << (self.shift - 1)
    }

    #[inline(always)]
    fn to_u8(self, sum: i32) -> u8 {
        (sum >> self.shift).clamp(0, 255) as u8
    }

    /// In 16 bits: 255 becomes 65535.
    #[inline(always)]
    fn to_u16(self, sum: i32) -> u16 {
        ((257 * i64::from(sum) + i64::from(self.half())) >> self.shift).clamp(0, 65_535) as u16
    }

    #[inline(always)]
    fn sum(&self, r: usize, components: [i16; 3]) -> i32 {
        // Intentionally 16 bits (components minus their zero fit): a 16 by 16 bit product is one
        // cheap instruction.
        let term = |k: usize| {
            i32::from(components[k].wrapping_sub(self.zero[k])) * i32::from(self.factors[r][k])
        };
        term(0) + term(1) + term(2)
    }
}

/// Converts a row of three components by the full matrix.
#[inline(always)]
pub(crate) fn matrix_row(rgb: [&mut [u8]; 3], components: [&[i16]; 3], colors: &FrameCoefficients) {
    let [r, g, b] = rgb;
    let length = components[0].len();
    let [c0, c1, c2] = components.map(|row| &row[..length]);
    let (r, g, b) = (&mut r[..length], &mut g[..length], &mut b[..length]);
    let ground = colors.bias.map(|bias| bias + colors.half());
    for i in 0..length {
        let c = [c0[i], c1[i], c2[i]];
        r[i] = colors.to_u8(colors.sum(0, c) + ground[0]);
        g[i] = colors.to_u8(colors.sum(1, c) + ground[1]);
        b[i] = colors.to_u8(colors.sum(2, c) + ground[2]);
    }
}

/// [`matrix_row`] in 16 bits.
#[inline(always)]
pub(crate) fn matrix_row_u16(
    rgb: [&mut [u16]; 3],
    components: [&[i16]; 3],
    colors: &FrameCoefficients,
) {
    let length = components[0].len();
    let [c0, c1, c2] = components.map(|row| &row[..length]);
    for (r, out) in rgb.into_iter().enumerate() {
        let out = &mut out[..length];
        for i in 0..length {
            out[i] = colors.to_u16(colors.sum(r, [c0[i], c1[i], c2[i]]) + colors.bias[r]);
        }
    }
}

/// [`matrix_row`] for Y, U, V without a color map: one luma product, no U in red, no V in blue.
#[inline(always)]
pub(crate) fn yuv_row(rgb: [&mut [u8]; 3], yuv: [&[i16]; 3], colors: &FrameCoefficients) {
    let [r, g, b] = rgb;
    let length = yuv[0].len();
    let [y, u, v] = yuv.map(|row| &row[..length]);
    let (r, g, b) = (&mut r[..length], &mut g[..length], &mut b[..length]);
    let [[luma, _, v_to_r], [_, u_to_g, v_to_g], [_, u_to_b, _]] = colors.factors;
    let product = |value: i16, factor: i16| i32::from(value) * i32::from(factor);
    let narrow = |sum: i32| (sum >> SPARSE_SHIFT).clamp(0, 255) as u8;
    for i in 0..length {
        let light = product(y[i].wrapping_sub(colors.zero[0]), luma) + (1 << (SPARSE_SHIFT - 1));
        let (u, v) = (
            u[i].wrapping_sub(CHROMA_ZERO),
            v[i].wrapping_sub(CHROMA_ZERO),
        );
        r[i] = narrow(light + product(v, v_to_r));
        g[i] = narrow(light + product(u, u_to_g) + product(v, v_to_g));
        b[i] = narrow(light + product(u, u_to_b));
    }
}

/// [`yuv_row`] from the samples of an 8-bit frame at its own size, whose chroma has half the width:
/// no resampling is needed.
#[inline(always)]
pub(crate) fn unscaled_row(rgb: [&mut [u8]; 3], yuv: [&[u8]; 3], colors: &FrameCoefficients) {
    unscaled_row_from(0, rgb, yuv, colors);
}

/// [`unscaled_row`] starting at a pixel.
#[inline(always)]
pub(crate) fn unscaled_row_from(
    first: usize,
    rgb: [&mut [u8]; 3],
    yuv: [&[u8]; 3],
    colors: &FrameCoefficients,
) {
    let [r, g, b] = rgb;
    for i in first..yuv[0].len() {
        [r[i], g[i], b[i]] = colors.unscaled_pixel(yuv, i);
    }
}

/// [`unscaled_row`] to interleaved R, G, B.
#[inline(always)]
pub(crate) fn unscaled_packed(
    out: &mut [u8],
    yuv: [&[u8]; 3],
    colors: &FrameCoefficients,
    _streaming: bool,
) {
    unscaled_packed_from(0, out, yuv, colors);
}

/// [`unscaled_packed`] starting at a pixel.
#[inline(always)]
pub(crate) fn unscaled_packed_from(
    first: usize,
    out: &mut [u8],
    yuv: [&[u8]; 3],
    colors: &FrameCoefficients,
) {
    for i in first..yuv[0].len() {
        out[3 * i..][..3].copy_from_slice(&colors.unscaled_pixel(yuv, i));
    }
}

/// Shift without a color map.
const SPARSE_SHIFT: u32 = COMPONENT_BITS - 8 + COEFFICIENT_BITS;

/// Converts a row of a component that is already a color, without a color map: only the range is
/// converted.
#[inline(always)]
pub(crate) fn expand_range_row(out: &mut [u8], values: &[i16], colors: &FrameCoefficients) {
    let luma = colors.factors[0][0];
    for (out, &value) in out.iter_mut().zip(values) {
        let sum = i32::from(value.wrapping_sub(colors.zero[0])) * i32::from(luma)
            + (1 << (SPARSE_SHIFT - 1));
        *out = (sum >> SPARSE_SHIFT).clamp(0, 255) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rgb(color: Colorimetry, depth_bits: u8, map: &ColorMap, yuv: [i16; 3]) -> [u8; 3] {
        let c = ColorCoefficients::new(
            color,
            depth_bits,
            ComponentModel::Yuv,
            false,
            map,
            &Fill::default(),
        )
        .unwrap();
        let frame = c.without_mean();
        let mut out = [[0u8; 1]; 3];
        let [r, g, b] = &mut out;
        matrix_row([r, g, b], yuv.each_ref().map(std::slice::from_ref), &frame);
        let mixed = out.map(|[v]| v);
        assert_eq!(mixed, frame.blend_pixel(yuv, FULL_COVERAGE));
        if frame.sparse {
            let [r, g, b] = &mut out;
            yuv_row([r, g, b], yuv.each_ref().map(std::slice::from_ref), &frame);
            assert_eq!(mixed, out.map(|[v]| v));
        }
        mixed
    }

    const NEUTRAL: i16 = CHROMA_ZERO;

    #[test]
    fn limited_black_and_white_are_0_and_255_at_every_depth() {
        for matrix in MatrixCoefficients::ALL_YUV {
            for depth in 8..=16 {
                let limited = Colorimetry {
                    matrix,
                    range: ColorRange::Limited,
                };
                assert_eq!(
                    rgb(
                        limited,
                        depth,
                        &ColorMap::IDENTITY,
                        [16 << 7, NEUTRAL, NEUTRAL]
                    ),
                    [0; 3]
                );
                assert_eq!(
                    rgb(
                        limited,
                        depth,
                        &ColorMap::IDENTITY,
                        [235 << 7, NEUTRAL, NEUTRAL]
                    ),
                    [255; 3]
                );
            }
        }
    }

    #[test]
    fn full_range_8_bit_gray_is_itself() {
        let full = Colorimetry {
            matrix: MatrixCoefficients::Bt709,
            range: ColorRange::Full,
        };
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
        let maps = [
            ColorMap::IDENTITY,
            strong(1.0, 300.0),
            strong(40.0, 1e12),
            strong(500.0, -1e300),
        ];
        for matrix in MatrixCoefficients::ALL_YUV {
            for range in [ColorRange::Limited, ColorRange::Full] {
                for map in &maps {
                    for y in [0, i16::MAX] {
                        for (u, v) in [(0, 0), (0, i16::MAX), (i16::MAX, 0), (i16::MAX, i16::MAX)] {
                            rgb(Colorimetry { matrix, range }, 8, map, [y, u, v]);
                            // debug builds trap on overflow
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_map_beyond_16_bits_is_refused() {
        let map = ColorMap::linear([[20_000.0; 3]; 3]);
        let full = Colorimetry {
            matrix: MatrixCoefficients::Bt709,
            range: ColorRange::Full,
        };
        let refused =
            ColorCoefficients::new(full, 8, ComponentModel::Yuv, false, &map, &Fill::default());
        assert!(matches!(refused, Err(PassError::ColorGainTooLarge { .. })));
    }

    #[test]
    fn fill_is_exactly_its_color_and_mixes_by_cover() {
        let full = Colorimetry {
            matrix: MatrixCoefficients::Bt709,
            range: ColorRange::Full,
        };
        for value in 0..=255u8 {
            let fill = Fill::constant([f64::from(value); 3]);
            let c = ColorCoefficients::new(
                full,
                8,
                ComponentModel::Yuv,
                false,
                &ColorMap::IDENTITY,
                &fill,
            )
            .unwrap()
            .without_mean();
            assert_eq!(c.fill(), [value; 3]);
            assert_eq!(c.blend_pixel(c.zero(), 0), [value; 3]);
            assert_eq!(
                c.blend_pixel(c.zero(), FULL_COVERAGE / 2),
                [value.div_ceil(2); 3]
            );
        }
    }
}
