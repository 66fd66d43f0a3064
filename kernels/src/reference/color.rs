//! Step 5 of SPEC.md: converts components and coverage to 8-bit or 16-bit colors, in 128 bits
//! throughout.

use super::{components, is_yuv};
use crate::colorimetry::{ColorRange, MatrixCoefficients};
use crate::error::PassError;
use crate::frame::FrameView;
use crate::output_spec::OutputSpec;

type Matrix3 = [[f64; 3]; 3];

/// The values that the contract computes once per source format.
pub(super) struct ColorTransform {
    /// The components of black.
    pub zero: [i64; 3],
    /// F.
    factors: [[i128; 3]; 3],
    shift: u32,
    bias: MeanDependentColor,
    fill: MeanDependentColor,
}

/// A constant and the weight of the mean that is added to it.
struct MeanDependentColor {
    constant: [i128; 3],
    mean_factors: [[i128; 3]; 3],
}

impl ColorTransform {
    pub(super) fn new(frame: &FrameView<'_>, spec: &OutputSpec) -> Result<Self, PassError> {
        if spec.tone.is_some() {
            // R, G, B of 15 bits; 32767 is white.
            let full = 255.0 / 256.0 * 32_768.0 / 32_767.0;
            let base = [[full, 0.0, 0.0], [0.0, full, 0.0], [0.0, 0.0, full]];
            return Self::of_base(&base, [0; 3], spec);
        }
        let (base, zero) = base(frame);
        Self::of_base(&base, zero, spec)
    }

    fn of_base(base: &Matrix3, zero: [i64; 3], spec: &OutputSpec) -> Result<Self, PassError> {
        let a = product(&spec.color.matrix, base);
        let small = |p: &u32| {
            a.iter().all(|row| {
                row.iter()
                    .map(|v| (v * power(*p)).round().abs())
                    .sum::<f64>()
                    <= 32_767.0
            })
        };
        let Some(p) = (0..=13).rev().find(small) else {
            let gains = a.iter().map(|row| row.iter().map(|v| v.abs()).sum());
            return Err(PassError::ColorGainTooLarge {
                gain: gains.fold(0.0, f64::max),
            });
        };
        let mean_dependent = |constant: [f64; 3], mean: &Matrix3| MeanDependentColor {
            constant: constant.map(|v| to_fixed_point(v, p + 7)),
            mean_factors: product(mean, base).map(|row| row.map(|v| to_fixed_point(v, p))),
        };
        Ok(Self {
            zero,
            factors: a.map(|row| row.map(|v| to_fixed_point(v, p))),
            shift: p + 7,
            bias: mean_dependent(spec.color.offset, &spec.color.mean),
            fill: mean_dependent(spec.fill.base, &spec.fill.mean),
        })
    }

    pub(super) fn color(&self, values: [i64; 3], coverage: i64, mean: [i64; 3]) -> [u8; 3] {
        self.value(values, coverage, mean)
            .map(|value| ((value + (1 << (self.shift - 1))) >> self.shift).clamp(0, 255) as u8)
    }

    /// 65535 where `color` has 255.
    pub(crate) fn color_u16(&self, values: [i64; 3], coverage: i64, mean: [i64; 3]) -> [u16; 3] {
        self.value(values, coverage, mean).map(|value| {
            ((value * 257 + (1 << (self.shift - 1))) >> self.shift).clamp(0, 65_535) as u16
        })
    }

    fn value(&self, values: [i64; 3], coverage: i64, mean: [i64; 3]) -> [i128; 3] {
        let coverage = i128::from(coverage);
        [0, 1, 2].map(|r| {
            let row: i128 = (0..3)
                .map(|k| self.factors[r][k] * i128::from(values[k] - self.zero[k]))
                .sum();
            let (bias, fill) = (self.at(&self.bias, r, mean), self.at(&self.fill, r, mean));
            row + ((bias * coverage + fill * (16_384 - coverage) + 8192) >> 14)
        })
    }

    fn at(&self, mean_dependent: &MeanDependentColor, r: usize, mean: [i64; 3]) -> i128 {
        let mean_factors =
            (0..3).map(|k| mean_dependent.mean_factors[r][k] * i128::from(mean[k] - self.zero[k]));
        let limit = (1 << 30) - (1 << 20);
        (mean_dependent.constant[r] + mean_factors.sum::<i128>()).clamp(-limit, limit)
    }
}

fn power(p: u32) -> f64 {
    2f64.powi(p as i32)
}

/// Rounds ties away from zero. Values far beyond any color are clamped, so that 128 bits hold every
/// sum.
fn to_fixed_point(value: f64, p: u32) -> i128 {
    (value * power(p)).round().clamp(-1e30, 1e30) as i128
}

fn product(a: &Matrix3, b: &Matrix3) -> Matrix3 {
    let mut result = [[0.0; 3]; 3];
    for r in 0..3 {
        for k in 0..3 {
            result[r][k] = a[r][0] * b[0][k] + a[r][1] * b[1][k] + a[r][2] * b[2][k];
        }
    }
    result
}

/// B and z. The columns of components that a gray frame lacks are zero.
fn base(frame: &FrameView<'_>) -> (Matrix3, [i64; 3]) {
    let codes = 2f64.powi(i32::from(frame.depth_bits));
    let full = 255.0 / 256.0 * codes / (codes - 1.0);
    let (black, l, c) = match frame.color.range {
        ColorRange::Limited => (2048, 255.0 / 219.0, 255.0 / 224.0),
        ColorRange::Full => (0, full, full),
    };
    if is_yuv(frame) && frame.color.matrix == MatrixCoefficients::YCgCo {
        (
            [[l, -l, l], [l, l, 0.0], [l, -l, -l]],
            [black, 16_384, 16_384],
        )
    } else if is_yuv(frame) && frame.color.matrix == MatrixCoefficients::Luma {
        ([[l, 0.0, 0.0]; 3], [black, 16_384, 16_384])
    } else if is_yuv(frame) {
        let (kr, kb): (f64, f64) = match frame.color.matrix {
            MatrixCoefficients::Bt601 => (0.299, 0.114),
            MatrixCoefficients::Bt709 => (0.2126, 0.0722),
            MatrixCoefficients::Bt2020Ncl => (0.2627, 0.0593),
            MatrixCoefficients::Fcc => (0.3, 0.11),
            MatrixCoefficients::Smpte240m => (0.212, 0.087),
            MatrixCoefficients::YCgCo | MatrixCoefficients::Luma | MatrixCoefficients::Rgb => {
                (0.0, 0.0)
            }
        };
        let kg = 1.0 - kr - kb;
        let rows = [
            [l, 0.0, 2.0 * c * (1.0 - kr)],
            [
                l,
                -2.0 * c * (1.0 - kb) * kb / kg,
                -2.0 * c * (1.0 - kr) * kr / kg,
            ],
            [l, 2.0 * c * (1.0 - kb), 0.0],
        ];
        (rows, [black, 16_384, 16_384])
    } else if components(frame) == 1 {
        ([[l, 0.0, 0.0]; 3], [black, 0, 0])
    } else {
        ([[l, 0.0, 0.0], [0.0, l, 0.0], [0.0, 0.0, l]], [black; 3])
    }
}
