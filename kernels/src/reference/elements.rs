//! Steps 6 and 7 of SPEC.md: the bytes of every element, from 8-bit or 16-bit colors and an output
//! spec. It uses no fused multiply-add, half-precision library or table.

use super::Image;
use crate::output_spec::{MaskFill, MaskRegion, OutputSpec};
use crate::types::Channels;
use crate::write::Dtype;

/// The bytes of element `(y * width + x) * channels + channel`, in native order.
pub fn elements(image: &Image, spec: &OutputSpec) -> Vec<Vec<u8>> {
    each(image, spec, element_of_u8)
}

/// The same for 16-bit colors.
pub(crate) fn elements_u16(image: &Image<u16>, spec: &OutputSpec) -> Vec<Vec<u8>> {
    each(image, spec, element_of_u16)
}

fn each<Code: Copy>(
    image: &Image<Code>,
    spec: &OutputSpec,
    element_of_color: impl Fn(&OutputSpec, usize, Code) -> Vec<u8>,
) -> Vec<Vec<u8>> {
    let channels = match spec.channels {
        Channels::Three => 3,
        Channels::One => 1,
    };
    let mut all = Vec::new();
    for y in 0..image.height {
        for x in 0..image.width {
            for channel in 0..channels {
                let mut element = element_of_color(spec, channel, image.at(x, y)[channel]);
                for mask in spec.masks.iter().filter(|mask| contains(mask.region, x, y)) {
                    element = match mask.fill {
                        MaskFill::CodeValue(codes) => element_of_u8(spec, channel, codes[channel]),
                        MaskFill::Element(values) => bytes(spec.dtype, values[channel]),
                        MaskFill::Noise(key) => {
                            let pixel = u64::from(y) * u64::from(image.width) + u64::from(x);
                            noise_element(spec.dtype, key, 3 * pixel + channel as u64)
                        }
                    };
                }
                all.push(element);
            }
        }
    }
    all
}

fn contains(region: MaskRegion, x: u32, y: u32) -> bool {
    match region {
        MaskRegion::Rect(rect) => {
            (rect.x..rect.x + rect.width).contains(&x)
                && (rect.y..rect.y + rect.height).contains(&y)
        }
        MaskRegion::Grid(grid) => {
            let phase = |step: [u32; 2], start: u32| {
                let sum = u128::from(step[0]) * u128::from(x)
                    + u128::from(step[1]) * u128::from(y)
                    + u128::from(start);
                sum % (1 << 32)
            };
            let limit = u128::from(grid.limit);
            phase(grid.step_x, grid.start[0]) < limit && phase(grid.step_y, grid.start[1]) < limit
        }
    }
}

fn noise_element(dtype: Dtype, key: u64, n: u64) -> Vec<u8> {
    let wrap = |value: u128| value % (1 << 64);
    let mut h = wrap(u128::from(key) + wrap((u128::from(n) + 1) * 0x9E37_79B9_7F4A_7C15));
    h = wrap((h ^ (h >> 30)) * 0xBF58_476D_1CE4_E5B9);
    h = wrap((h ^ (h >> 27)) * 0x94D0_49BB_1331_11EB);
    h ^= h >> 31;
    match dtype {
        Dtype::U8 => return vec![(h % 256) as u8],
        Dtype::U16 => return ((h % 65_536) as u16).to_ne_bytes().to_vec(),
        _ => {}
    }
    let words: i64 = (0..4).map(|word| (h >> (16 * word) & 0xFFFF) as i64).sum();
    bytes(dtype, (words - 131_070) as f32 * (1.0f64 / 37_837.2) as f32)
}

fn element_of_u8(spec: &OutputSpec, channel: usize, code: u8) -> Vec<u8> {
    match spec.dtype {
        Dtype::U8 => return vec![code],
        Dtype::U16 => return (u16::from(code) * 257).to_ne_bytes().to_vec(),
        _ => {}
    }
    let (mean, std) = match spec.normalize {
        None => (0.0, 1.0),
        Some(normalize) => (
            f64::from(normalize.mean[channel]),
            f64::from(normalize.std[channel]),
        ),
    };
    let (scale, bias) = ((1.0 / (255.0 * std)) as f32, (-mean / std) as f32);
    bytes(spec.dtype, fused(u16::from(code), scale, bias))
}

fn element_of_u16(spec: &OutputSpec, channel: usize, code: u16) -> Vec<u8> {
    if spec.dtype == Dtype::U16 {
        return code.to_ne_bytes().to_vec();
    }
    let (mean, std) = match spec.normalize {
        None => (0.0, 1.0),
        Some(normalize) => (
            f64::from(normalize.mean[channel]),
            f64::from(normalize.std[channel]),
        ),
    };
    let (scale, bias) = ((1.0 / (65_535.0 * std)) as f32, (-mean / std) as f32);
    bytes(spec.dtype, fused(code, scale, bias))
}

/// `code * scale + bias`, rounded once.
fn fused(code: u16, scale: f32, bias: f32) -> f32 {
    // The product of 16 by 24 bits is exact in f64. The rounding error of the sum is also computed
    // exactly (Knuth's two-sum). Forcing the last bit to be odd then prevents the second rounding,
    // which has 29 bits fewer, from seeing a false tie.
    let (product, bias) = (f64::from(code) * f64::from(scale), f64::from(bias));
    let sum = product + bias;
    let part = sum - product;
    let lost = (product - (sum - part)) + (bias - part);
    if lost == 0.0 || sum.to_bits() % 2 == 1 || lost.is_nan() {
        return sum as f32;
    }
    let away = (lost > 0.0) == (sum > 0.0);
    f64::from_bits(if away {
        sum.to_bits() + 1
    } else {
        sum.to_bits() - 1
    }) as f32
}

fn bytes(dtype: Dtype, value: f32) -> Vec<u8> {
    match dtype {
        Dtype::U8 | Dtype::U16 => {
            unreachable!("elements other than code values need a float dtype")
        }
        Dtype::F16 => nearest(value, 10, 15).to_ne_bytes().to_vec(),
        Dtype::BF16 => nearest(value, 7, 127).to_ne_bytes().to_vec(),
        Dtype::F32 => value.to_ne_bytes().to_vec(),
    }
}

/// The nearest number of a 16-bit format with this many fraction bits and this exponent bias; ties
/// to even.
fn nearest(value: f32, fraction_bits: u32, bias: i32) -> u16 {
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let exponent_bits = 15 - fraction_bits;
    let infinity = ((1u16 << exponent_bits) - 1) << fraction_bits;
    if value.is_nan() {
        // Quiet, and as much of the payload as fits.
        let payload = (value.to_bits() >> (23 - fraction_bits)) as u16 & ((1 << fraction_bits) - 1);
        return sign | infinity | (1 << (fraction_bits - 1)) | payload;
    }
    let distance = f64::from(value.abs());
    // Codes without sign increase with their value, and infinity is where the next power of two
    // would be.
    let says = |code: u16| {
        let (exponent, fraction) = (
            i32::from(code >> fraction_bits),
            code & ((1 << fraction_bits) - 1),
        );
        let (exponent, hidden) = if exponent == 0 {
            (1, 0)
        } else {
            (exponent, 1 << fraction_bits)
        };
        f64::from(hidden + fraction) * 2f64.powi(exponent - bias - fraction_bits as i32)
    };
    let (mut low, mut high) = (0, infinity);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if says(middle) <= distance {
            low = middle;
        } else {
            high = middle;
        }
    }
    let (down, up) = (distance - says(low), says(high) - distance);
    let nearer = if down < up || (down == up && low % 2 == 0) {
        low
    } else {
        high
    };
    sign | nearer
}
