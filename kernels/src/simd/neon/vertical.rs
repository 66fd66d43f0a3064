//! The vertical pass with NEON intrinsics. Sums stay in registers during the loop over taps, and
//! the last columns of a row are computed by a group that ends with it, so few rows have columns
//! that are computed one by one.

use std::arch::aarch64::*;

use super::{load_u8, store_i16};
use crate::resample::{self, SampleFormat};
use crate::weights::{WEIGHT_BITS, overshoots};

/// Columns of a vector of bytes. Groups have one or several of them.
const COLUMNS: usize = 16;

/// [`resample::filter_vertical_u8`], 64 columns at a time.
#[target_feature(enable = "neon")]
pub(in crate::simd) fn filter_vertical_u8(
    dst: &mut [i16],
    src: &[u8],
    stride: usize,
    weights: &[i16],
    ahead: usize,
) {
    if weights.len() == 1 || dst.len() < COLUMNS {
        resample::filter_vertical_u8(dst, src, stride, weights, ahead);
    } else if overshoots(weights) {
        filter_vertical_u8_by::<true>(dst, src, stride, weights);
    } else {
        filter_vertical_u8_by::<false>(dst, src, stride, weights);
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn filter_vertical_u8_by<const CLAMP: bool>(
    dst: &mut [i16],
    src: &[u8],
    stride: usize,
    weights: &[i16],
) {
    let mut at = 0;
    while at + 4 * COLUMNS <= dst.len() {
        filter_columns_u8::<4, CLAMP>(&mut dst[at..], &src[at..], stride, weights);
        at += 4 * COLUMNS;
    }
    while at < dst.len() {
        // The last group ends with the row and writes some columns twice.
        let first = at.min(dst.len() - COLUMNS);
        filter_columns_u8::<1, CLAMP>(&mut dst[first..], &src[first..], stride, weights);
        at += COLUMNS;
    }
}

/// The first `16 * VECTORS` columns.
#[inline]
#[target_feature(enable = "neon")]
fn filter_columns_u8<const VECTORS: usize, const CLAMP: bool>(
    dst: &mut [i16],
    src: &[u8],
    stride: usize,
    weights: &[i16],
) {
    const SHIFT: i32 = WEIGHT_BITS as i32 - 7;
    let mut sums = [[vdupq_n_s32(1 << (SHIFT - 1)); 4]; VECTORS];
    for (row, &weight) in weights.iter().enumerate() {
        let (samples, _) = src[row * stride..][..VECTORS * COLUMNS].as_chunks::<COLUMNS>();
        for n in 0..VECTORS {
            let samples = load_u8(&samples[n]);
            let low = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(samples)));
            let high = vreinterpretq_s16_u16(vmovl_high_u8(samples));
            sums[n] = multiply_add(sums[n], low, high, weight);
        }
    }
    let (dst, _) = dst[..VECTORS * COLUMNS].as_chunks_mut::<8>();
    for n in 0..VECTORS {
        let [a, b, c, d] = sums[n];
        store_i16(&mut dst[2 * n], narrow::<CLAMP, SHIFT>(a, b));
        store_i16(&mut dst[2 * n + 1], narrow::<CLAMP, SHIFT>(c, d));
    }
}

/// The sums of sixteen columns after one more tap.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn multiply_add(
    [a, b, c, d]: [int32x4_t; 4],
    low: int16x8_t,
    high: int16x8_t,
    weight: i16,
) -> [int32x4_t; 4] {
    [
        vmlal_n_s16(a, vget_low_s16(low), weight),
        vmlal_high_n_s16(b, low, weight),
        vmlal_n_s16(c, vget_low_s16(high), weight),
        vmlal_high_n_s16(d, high, weight),
    ]
}

/// Components of sums. `CLAMP`: clamped to 0..32767.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn narrow<const CLAMP: bool, const SHIFT: i32>(
    low: int32x4_t,
    high: int32x4_t,
) -> int16x8_t {
    if CLAMP {
        let packed = vqshrn_high_n_s32::<SHIFT>(vqshrn_n_s32::<SHIFT>(low), high);
        vmaxq_s16(packed, vdupq_n_s16(0))
    } else {
        vshrn_high_n_s32::<SHIFT>(vshrn_n_s32::<SHIFT>(low), high)
    }
}

/// [`resample::filter_vertical_u16`], 32 columns at a time.
#[target_feature(enable = "neon")]
pub(in crate::simd) fn filter_vertical_u16(
    dst: &mut [i16],
    src: &[u8],
    stride_bytes: usize,
    weights: &[i16],
    format: SampleFormat,
) {
    // 16-bit samples do not fit signed words.
    if format.depth_bits == 16 || dst.len() < COLUMNS {
        return resample::filter_vertical_u16(dst, src, stride_bytes, weights, format);
    }
    let mut at = 0;
    while at + 2 * COLUMNS <= dst.len() {
        filter_columns_u16::<2>(
            &mut dst[at..],
            &src[2 * at..],
            stride_bytes,
            weights,
            format,
        );
        at += 2 * COLUMNS;
    }
    while at < dst.len() {
        // The last group ends with the row and writes some columns twice.
        let first = at.min(dst.len() - COLUMNS);
        filter_columns_u16::<1>(
            &mut dst[first..],
            &src[2 * first..],
            stride_bytes,
            weights,
            format,
        );
        at += COLUMNS;
    }
}

/// The first `16 * VECTORS` columns.
#[inline]
#[target_feature(enable = "neon")]
fn filter_columns_u16<const VECTORS: usize>(
    dst: &mut [i16],
    src: &[u8],
    stride_bytes: usize,
    weights: &[i16],
    format: SampleFormat,
) {
    let shift = WEIGHT_BITS as i32 + i32::from(format.depth_bits) - 15;
    let word_shift = vdupq_n_s16(-i16::from(format.shift));
    let white = vdupq_n_u16((1 << format.depth_bits) - 1);
    let mut sums = [[vdupq_n_s32(1 << (shift - 1)); 4]; VECTORS];
    for (row, &weight) in weights.iter().enumerate() {
        let (words, _) = src[row * stride_bytes..][..2 * VECTORS * COLUMNS].as_chunks::<16>();
        for n in 0..VECTORS {
            let low = vshlq_u16(vreinterpretq_u16_u8(load_u8(&words[2 * n])), word_shift);
            let high = vshlq_u16(vreinterpretq_u16_u8(load_u8(&words[2 * n + 1])), word_shift);
            let (low, high) = (vminq_u16(low, white), vminq_u16(high, white));
            let (low, high) = (vreinterpretq_s16_u16(low), vreinterpretq_s16_u16(high));
            sums[n] = multiply_add(sums[n], low, high, weight);
        }
    }
    let down = vdupq_n_s32(-shift);
    let (dst, _) = dst[..VECTORS * COLUMNS].as_chunks_mut::<8>();
    for n in 0..VECTORS {
        for half in 0..2 {
            let (a, b) = (
                vshlq_s32(sums[n][2 * half], down),
                vshlq_s32(sums[n][2 * half + 1], down),
            );
            let packed = vqmovn_high_s32(vqmovn_s32(a), b);
            store_i16(&mut dst[2 * n + half], vmaxq_s16(packed, vdupq_n_s16(0)));
        }
    }
}
