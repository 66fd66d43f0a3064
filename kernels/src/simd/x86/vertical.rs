//! The vertical pass with x86 intrinsics. Rows are processed in pairs: one instruction multiplies
//! two interleaved rows by two weights.

use std::arch::x86_64::*;

use super::{load_u8, narrow, store_i16, weight_pair};
use crate::resample::{self, SampleFormat};
use crate::weights::{WEIGHT_BITS, overshoots};

/// [`resample::filter_vertical_u8`] with rows in pairs, so that one instruction multiplies and adds
/// both.
#[target_feature(enable = "avx2")]
pub(in crate::simd) fn filter_vertical_u8(
    dst: &mut [i16],
    src: &[u8],
    stride: usize,
    weights: &[i16],
    ahead: usize,
) {
    if weights.len() == 1 {
        resample::filter_vertical_u8(dst, src, stride, weights, ahead);
    } else if overshoots(weights) {
        filter_vertical_u8_by::<true>(dst, src, stride, weights, ahead);
    } else {
        filter_vertical_u8_by::<false>(dst, src, stride, weights, ahead);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn filter_vertical_u8_by<const CLAMP: bool>(
    dst: &mut [i16],
    src: &[u8],
    stride: usize,
    weights: &[i16],
    ahead: usize,
) {
    const SHIFT: i32 = WEIGHT_BITS as i32 - 7;
    let whole = dst.len() / 32 * 32;
    let (groups, rest) = dst.split_at_mut(whole);
    let zero = _mm256_setzero_si256();
    let half = _mm256_set1_epi32(1 << (SHIFT - 1));
    for group in 0..whole / 32 {
        let dst: &mut [i16; 32] = (&mut groups[group * 32..][..32])
            .try_into()
            .expect("32 long");
        if group % 2 == 0 {
            prefetch(src, weights.len() * stride + group * 32, stride, ahead);
        }
        let (mut s0, mut s1, mut s2, mut s3) = (half, half, half, half);
        let mut row = 0;
        while row < weights.len() {
            let at = row * stride + group * 32;
            let a = load_u8(src[at..][..32].try_into().expect("32 long"));
            let (b, pair) = if row + 1 < weights.len() {
                let below = src[at + stride..][..32].try_into().expect("32 long");
                (load_u8(below), weight_pair(weights[row], weights[row + 1]))
            } else {
                (zero, weight_pair(weights[row], 0))
            };
            let (low, high) = (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b));
            s0 = _mm256_add_epi32(s0, _mm256_madd_epi16(_mm256_unpacklo_epi8(low, zero), pair));
            s1 = _mm256_add_epi32(s1, _mm256_madd_epi16(_mm256_unpackhi_epi8(low, zero), pair));
            s2 = _mm256_add_epi32(
                s2,
                _mm256_madd_epi16(_mm256_unpacklo_epi8(high, zero), pair),
            );
            s3 = _mm256_add_epi32(
                s3,
                _mm256_madd_epi16(_mm256_unpackhi_epi8(high, zero), pair),
            );
            row += 2;
        }
        // Unpacking works on halves of the register: columns 0-7 and 16-23 are together, 8-15 and
        // 24-31.
        let even = narrow::<CLAMP>(
            _mm256_srai_epi32::<SHIFT>(s0),
            _mm256_srai_epi32::<SHIFT>(s1),
        );
        let odd = narrow::<CLAMP>(
            _mm256_srai_epi32::<SHIFT>(s2),
            _mm256_srai_epi32::<SHIFT>(s3),
        );
        let (first, second) = dst.split_at_mut(16);
        store_i16(
            first.try_into().expect("16 long"),
            _mm256_permute2x128_si256::<0x20>(even, odd),
        );
        store_i16(
            second.try_into().expect("16 long"),
            _mm256_permute2x128_si256::<0x31>(even, odd),
        );
    }
    if !rest.is_empty() {
        resample::filter_vertical_u8(rest, &src[whole..], stride, weights, ahead);
    }
}

/// Prefetches the first cache lines of rows `at`, `at + stride`, ... Each row is a separate memory
/// range, too short for the hardware prefetcher to detect a pattern.
#[inline]
#[target_feature(enable = "avx2")]
fn prefetch(src: &[u8], at: usize, stride: usize, rows: usize) {
    for row in 0..rows {
        let line = src.as_ptr().wrapping_add(at + row * stride);
        #[allow(unused_unsafe)] // newer compilers declare the next function safe
        // SAFETY: a prefetch has no effect on memory, for any address.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(line.cast())
        };
    }
}

/// [`filter_vertical_u8`], 64 columns at a time: one permutation forms words of both rows, one
/// instruction multiplies and adds.
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")]
pub(in crate::simd) fn filter_vertical_u8_avx512(
    dst: &mut [i16],
    src: &[u8],
    stride: usize,
    weights: &[i16],
    ahead: usize,
) {
    if weights.len() == 1 {
        resample::filter_vertical_u8(dst, src, stride, weights, ahead);
    } else if overshoots(weights) {
        filter_vertical_u8_avx512_by::<true>(dst, src, stride, weights, ahead);
    } else {
        filter_vertical_u8_avx512_by::<false>(dst, src, stride, weights, ahead);
    }
}

#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")]
fn filter_vertical_u8_avx512_by<const CLAMP: bool>(
    dst: &mut [i16],
    src: &[u8],
    stride: usize,
    weights: &[i16],
    ahead: usize,
) {
    const SHIFT: u32 = WEIGHT_BITS - 7;
    let half = _mm512_set1_epi32(1 << (SHIFT - 1));
    // Words (a, b) of 16 columns: bytes i of a and i of b, with zeros between.
    const INTERLEAVE_MASK: u64 = 0x5555_5555_5555_5555;
    let first = load_512(&INTERLEAVE_INDICES);
    let step = _mm512_set1_epi8(16);
    let (second, third) = (
        _mm512_add_epi8(first, step),
        _mm512_add_epi8(_mm512_add_epi8(first, step), step),
    );
    let fourth = _mm512_add_epi8(third, step);
    let length = dst.len();
    for left in (0..length).step_by(64) {
        let columns = (length - left).min(64);
        let mask = u64::MAX >> (64 - columns);
        prefetch(src, weights.len() * stride + left, stride, ahead);
        let (mut s0, mut s1, mut s2, mut s3) = (half, half, half, half);
        let mut row = 0;
        while row < weights.len() {
            let at = row * stride + left;
            let a = load_masked(&src[at..][..columns], mask);
            let (b, pair) = if row + 1 < weights.len() {
                let below = load_masked(&src[at + stride..][..columns], mask);
                (below, weight_pair_512(weights[row], weights[row + 1]))
            } else {
                (_mm512_setzero_si512(), weight_pair_512(weights[row], 0))
            };
            s0 = _mm512_dpwssd_epi32(
                s0,
                _mm512_maskz_permutex2var_epi8(INTERLEAVE_MASK, a, first, b),
                pair,
            );
            s1 = _mm512_dpwssd_epi32(
                s1,
                _mm512_maskz_permutex2var_epi8(INTERLEAVE_MASK, a, second, b),
                pair,
            );
            s2 = _mm512_dpwssd_epi32(
                s2,
                _mm512_maskz_permutex2var_epi8(INTERLEAVE_MASK, a, third, b),
                pair,
            );
            s3 = _mm512_dpwssd_epi32(
                s3,
                _mm512_maskz_permutex2var_epi8(INTERLEAVE_MASK, a, fourth, b),
                pair,
            );
            row += 2;
        }
        let low = narrow_512::<CLAMP>(
            _mm512_srai_epi32::<SHIFT>(s0),
            _mm512_srai_epi32::<SHIFT>(s1),
        );
        let high = narrow_512::<CLAMP>(
            _mm512_srai_epi32::<SHIFT>(s2),
            _mm512_srai_epi32::<SHIFT>(s3),
        );
        let dst = &mut dst[left..][..columns];
        store_masked(dst, low, mask as u32);
        if columns > 32 {
            store_masked(&mut dst[32..], high, (mask >> 32) as u32);
        }
    }
}

/// The source of the bytes of 16 columns' words: column i of the first row, zero, column i of the
/// second, zero.
static INTERLEAVE_INDICES: [u8; 64] = {
    let mut places = [0; 64];
    let mut column = 0;
    while column < 16 {
        places[4 * column] = column as u8;
        places[4 * column + 2] = 64 + column as u8;
        column += 1;
    }
    places
};

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn weight_pair_512(first: i16, second: i16) -> __m512i {
    _mm512_set1_epi32(i32::from(first) & 0xFFFF | i32::from(second) << 16)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_512(from: &[u8; 64]) -> __m512i {
    // SAFETY: 64 bytes are readable, and the load has no alignment.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

/// The bytes that `mask` selects, as many as there are.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_masked(from: &[u8], mask: u64) -> __m512i {
    debug_assert!(from.len() as u32 == 64 - mask.leading_zeros());
    // SAFETY: the mask selects only bytes of the slice, and no others are accessed.
    unsafe { _mm512_maskz_loadu_epi8(mask, from.as_ptr().cast()) }
}

/// Sums of 16 columns each, as words of 32. `CLAMP`: clamped to 0..32767.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn narrow_512<const CLAMP: bool>(low: __m512i, high: __m512i) -> __m512i {
    let join = |low, high| _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
    if CLAMP {
        let words = join(_mm512_cvtsepi32_epi16(low), _mm512_cvtsepi32_epi16(high));
        _mm512_max_epi16(words, _mm512_setzero_si512())
    } else {
        join(_mm512_cvtepi32_epi16(low), _mm512_cvtepi32_epi16(high))
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn store_masked(to: &mut [i16], value: __m512i, mask: u32) {
    debug_assert!(to.len().min(32) as u32 == 32 - mask.leading_zeros());
    // SAFETY: the mask selects only words of the slice, and no others are accessed.
    unsafe { _mm512_mask_storeu_epi16(to.as_mut_ptr(), mask, value) };
}

/// [`resample::filter_vertical_u16`], as [`filter_vertical_u8`].
#[target_feature(enable = "avx2")]
pub(in crate::simd) fn filter_vertical_u16(
    dst: &mut [i16],
    src: &[u8],
    stride_bytes: usize,
    weights: &[i16],
    format: SampleFormat,
) {
    if overshoots(weights) {
        filter_vertical_u16_by::<true>(dst, src, stride_bytes, weights, format);
    } else {
        filter_vertical_u16_by::<false>(dst, src, stride_bytes, weights, format);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn filter_vertical_u16_by<const CLAMP: bool>(
    dst: &mut [i16],
    src: &[u8],
    stride_bytes: usize,
    weights: &[i16],
    format: SampleFormat,
) {
    // 16-bit samples do not fit signed words.
    let whole = if format.depth_bits < 16 {
        dst.len() / 16 * 16
    } else {
        0
    };
    let (groups, rest) = dst.split_at_mut(whole);
    if !rest.is_empty() {
        resample::filter_vertical_u16(rest, &src[2 * whole..], stride_bytes, weights, format);
    }
    let shift = WEIGHT_BITS as i32 + i32::from(format.depth_bits) - 15;
    let (half, down) = (
        _mm256_set1_epi32(1 << (shift - 1)),
        _mm_cvtsi32_si128(shift),
    );
    let word_down = _mm_cvtsi32_si128(i32::from(format.shift));
    let white = _mm256_set1_epi16(((1u32 << format.depth_bits) - 1) as i16);
    for group in 0..whole / 16 {
        let (mut low, mut high) = (half, half);
        let mut row = 0;
        while row < weights.len() {
            let at = row * stride_bytes + group * 32;
            let a = load_u8(src[at..][..32].try_into().expect("32 long"));
            let a = _mm256_min_epu16(_mm256_srl_epi16(a, word_down), white);
            let (b, pair) = if row + 1 < weights.len() {
                let b = load_u8(src[at + stride_bytes..][..32].try_into().expect("32 long"));
                let b = _mm256_min_epu16(_mm256_srl_epi16(b, word_down), white);
                (b, weight_pair(weights[row], weights[row + 1]))
            } else {
                (_mm256_setzero_si256(), weight_pair(weights[row], 0))
            };
            low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), pair));
            high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), pair));
            row += 2;
        }
        // Unpacking and packing both work on halves of the register, so the order is preserved.
        let packed = narrow::<CLAMP>(_mm256_sra_epi32(low, down), _mm256_sra_epi32(high, down));
        store_i16(
            (&mut groups[group * 16..][..16])
                .try_into()
                .expect("16 long"),
            packed,
        );
    }
}
