//! The horizontal pass of sixteen filtered rows of a component. No instruction adds across a
//! register: sixteen rows are side by side, so one instruction computes the same tap of all of
//! them.

use std::arch::x86_64::*;

use super::{load_i16, narrow, store_i16};
use crate::simd::BLOCK_ROWS;
use crate::weights::{AxisTable, WEIGHT_BITS};

/// Values of one pair of neighbors in all rows.
const PAIR: usize = 2 * BLOCK_ROWS;

/// Converts filtered rows (`stride` apart, a multiple of 16) to pairs of neighbors: pair k of all
/// rows, then pair k + 1 of all rows. The last pairs may contain values after the rows' ends, whose
/// weights are zero.
#[target_feature(enable = "avx2")]
pub(in crate::simd) fn interleave_pairs(pairs: &mut [i16], rows: &[i16], stride: usize) {
    for (block, pairs) in pairs.chunks_exact_mut(8 * PAIR).enumerate() {
        for half in 0..2 {
            let mut lines = [_mm256_setzero_si256(); 8];
            for (r, line) in lines.iter_mut().enumerate() {
                let at = (8 * half + r) * stride + 16 * block;
                *line = load_i16(rows[at..][..16].try_into().expect("16 long"));
            }
            let lines = transpose_8x8(lines);
            for (k, line) in lines.into_iter().enumerate() {
                store_i16(
                    (&mut pairs[k * PAIR + 16 * half..][..16])
                        .try_into()
                        .expect("16 long"),
                    line,
                );
            }
        }
    }
}

/// Transposes eight rows of eight 32-bit words.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose_8x8(rows: [__m256i; 8]) -> [__m256i; 8] {
    let [a, b, c, d, e, f, g, h] = rows;
    let (ab0, ab1) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    let (cd0, cd1) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
    let (ef0, ef1) = (_mm256_unpacklo_epi32(e, f), _mm256_unpackhi_epi32(e, f));
    let (gh0, gh1) = (_mm256_unpacklo_epi32(g, h), _mm256_unpackhi_epi32(g, h));
    // Columns 0 and 4, 1 and 5, ... of the upper and of the lower four rows.
    let (u0, u1) = (
        _mm256_unpacklo_epi64(ab0, cd0),
        _mm256_unpackhi_epi64(ab0, cd0),
    );
    let (u2, u3) = (
        _mm256_unpacklo_epi64(ab1, cd1),
        _mm256_unpackhi_epi64(ab1, cd1),
    );
    let (l0, l1) = (
        _mm256_unpacklo_epi64(ef0, gh0),
        _mm256_unpackhi_epi64(ef0, gh0),
    );
    let (l2, l3) = (
        _mm256_unpacklo_epi64(ef1, gh1),
        _mm256_unpackhi_epi64(ef1, gh1),
    );
    [
        _mm256_permute2x128_si256::<0x20>(u0, l0),
        _mm256_permute2x128_si256::<0x20>(u1, l1),
        _mm256_permute2x128_si256::<0x20>(u2, l2),
        _mm256_permute2x128_si256::<0x20>(u3, l3),
        _mm256_permute2x128_si256::<0x31>(u0, l0),
        _mm256_permute2x128_si256::<0x31>(u1, l1),
        _mm256_permute2x128_si256::<0x31>(u2, l2),
        _mm256_permute2x128_si256::<0x31>(u3, l3),
    ]
}

/// The horizontal pass of sixteen rows: `rows` are `stride` apart, a multiple of 8 that is at least
/// the number of positions.
#[target_feature(enable = "avx2")]
pub(in crate::simd) fn filter_horizontal(
    rows: &mut [i16],
    stride: usize,
    pairs: &[i16],
    table: &AxisTable,
) {
    if table.overshoots {
        filter_horizontal_by::<true>(rows, stride, pairs, table);
    } else {
        filter_horizontal_by::<false>(rows, stride, pairs, table);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn filter_horizontal_by<const CLAMP: bool>(
    rows: &mut [i16],
    stride: usize,
    pairs: &[i16],
    table: &AxisTable,
) {
    let count = table.starts.len();
    for at in (0..count).step_by(8) {
        let mut columns = [_mm256_setzero_si256(); 8];
        for (k, column) in columns.iter_mut().enumerate().take(count - at) {
            *column = filter_position::<CLAMP>(pairs, table, at + k);
        }
        store_transposed(&mut rows[at..], stride, columns);
    }
}

/// [`filter_horizontal`], with multiplication and addition in one instruction.
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(in crate::simd) fn filter_horizontal_avx512(
    rows: &mut [i16],
    stride: usize,
    pairs: &[i16],
    table: &AxisTable,
) {
    if table.overshoots {
        filter_horizontal_avx512_by::<true>(rows, stride, pairs, table);
    } else {
        filter_horizontal_avx512_by::<false>(rows, stride, pairs, table);
    }
}

#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,avx512vnni")]
fn filter_horizontal_avx512_by<const CLAMP: bool>(
    rows: &mut [i16],
    stride: usize,
    pairs: &[i16],
    table: &AxisTable,
) {
    let count = table.starts.len();
    for at in (0..count).step_by(8) {
        let mut columns = [_mm256_setzero_si256(); 8];
        for (k, column) in columns.iter_mut().enumerate().take(count - at) {
            *column = filter_position_avx512::<CLAMP>(pairs, table, at + k);
        }
        store_transposed(&mut rows[at..], stride, columns);
    }
}

/// One position of sixteen rows.
#[inline]
#[target_feature(enable = "avx2")]
fn filter_position<const CLAMP: bool>(pairs: &[i16], table: &AxisTable, at: usize) -> __m256i {
    let (start, weights) = table.pairs_at(at);
    let pairs = &pairs[start * PAIR..][..weights.len() * PAIR];
    let half = _mm256_set1_epi32(1 << (WEIGHT_BITS - 1));
    let (mut upper, mut lower) = (half, half);
    for (pair, &weight) in pairs.chunks_exact(PAIR).zip(weights) {
        let weight = _mm256_set1_epi32(weight);
        let (a, b) = pair.split_at(16);
        let a = load_i16(a.try_into().expect("16 long"));
        let b = load_i16(b.try_into().expect("16 long"));
        upper = _mm256_add_epi32(upper, _mm256_madd_epi16(a, weight));
        lower = _mm256_add_epi32(lower, _mm256_madd_epi16(b, weight));
    }
    const SHIFT: i32 = WEIGHT_BITS as i32;
    let packed = narrow::<CLAMP>(
        _mm256_srai_epi32::<SHIFT>(upper),
        _mm256_srai_epi32::<SHIFT>(lower),
    );
    // Packing works on halves: rows 0-3, 8-11, 4-7, 12-15.
    _mm256_permute4x64_epi64::<0b1101_1000>(packed)
}

/// [`filter_position`] with `vpdpwssd`.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,avx512vnni")]
fn filter_position_avx512<const CLAMP: bool>(
    pairs: &[i16],
    table: &AxisTable,
    at: usize,
) -> __m256i {
    let (start, weights) = table.pairs_at(at);
    let pairs = &pairs[start * PAIR..][..weights.len() * PAIR];
    let mut even = _mm512_set1_epi32(1 << (WEIGHT_BITS - 1));
    let mut odd = _mm512_setzero_si512();
    let mut both = pairs.chunks_exact(2 * PAIR).zip(weights.chunks_exact(2));
    for (pair, weight) in &mut both {
        let (a, b) = pair.split_at(PAIR);
        even = _mm512_dpwssd_epi32(
            even,
            load_pair(a.try_into().expect("32 long")),
            _mm512_set1_epi32(weight[0]),
        );
        odd = _mm512_dpwssd_epi32(
            odd,
            load_pair(b.try_into().expect("32 long")),
            _mm512_set1_epi32(weight[1]),
        );
    }
    if weights.len() % 2 == 1 {
        let last: &[i16; PAIR] = pairs[pairs.len() - PAIR..].try_into().expect("32 long");
        even = _mm512_dpwssd_epi32(
            even,
            load_pair(last),
            _mm512_set1_epi32(weights[weights.len() - 1]),
        );
    }
    let sum = _mm512_srai_epi32::<{ WEIGHT_BITS }>(_mm512_add_epi32(even, odd));
    if CLAMP {
        _mm256_max_epi16(_mm512_cvtsepi32_epi16(sum), _mm256_setzero_si256())
    } else {
        _mm512_cvtepi32_epi16(sum)
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_pair(from: &[i16; PAIR]) -> __m512i {
    // SAFETY: 64 bytes are readable, and the load has no alignment.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

/// Transposes eight columns of sixteen rows into the rows.
#[inline]
#[target_feature(enable = "avx2")]
fn store_transposed(rows: &mut [i16], stride: usize, columns: [__m256i; 8]) {
    // Interleaving column k with column k + 4 three times transposes both halves, of eight rows
    // each.
    let mut lines = columns;
    for _ in 0..3 {
        let before = lines;
        for k in 0..4 {
            lines[2 * k] = _mm256_unpacklo_epi16(before[k], before[k + 4]);
            lines[2 * k + 1] = _mm256_unpackhi_epi16(before[k], before[k + 4]);
        }
    }
    for (r, line) in lines.into_iter().enumerate() {
        store_half(
            (&mut rows[r * stride..][..8]).try_into().expect("8 long"),
            _mm256_castsi256_si128(line),
        );
        let below = _mm256_extracti128_si256::<1>(line);
        store_half(
            (&mut rows[(r + 8) * stride..][..8])
                .try_into()
                .expect("8 long"),
            below,
        );
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_half(to: &mut [i16; 8], value: __m128i) {
    // SAFETY: 16 bytes are writable, and the store has no alignment.
    unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), value) }
}
