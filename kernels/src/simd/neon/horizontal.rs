//! The horizontal pass of sixteen filtered rows of a component. No instruction adds across a
//! register: sixteen rows are side by side, so one tap of all of them is four multiplications.

use std::arch::aarch64::*;

use super::vertical::{multiply_add, narrow};
use super::{load_i16, load_i16_half, store_i16};
use crate::simd::BLOCK_ROWS;
use crate::weights::{AxisTable, WEIGHT_BITS};

/// Converts filtered rows (`stride` apart, a multiple of 16) to columns: sample k of all rows, then
/// sample k + 1 of all rows.
#[target_feature(enable = "neon")]
pub(in crate::simd) fn transpose_rows(columns: &mut [i16], rows: &[i16], stride: usize) {
    let (rows, _) = rows.as_chunks::<8>();
    let blocks = stride / 8;
    let rows: [&[[i16; 8]]; BLOCK_ROWS] = std::array::from_fn(|r| &rows[r * blocks..][..blocks]);
    let (columns, _) = columns.as_chunks_mut::<8>();
    for (block, columns) in columns.as_chunks_mut::<BLOCK_ROWS>().0[..blocks]
        .iter_mut()
        .enumerate()
    {
        for half in 0..2 {
            let mut lines = [vdupq_n_s16(0); 8];
            for r in 0..8 {
                lines[r] = load_i16(&rows[8 * half + r][block]);
            }
            let lines = transpose_8x8(lines);
            for k in 0..8 {
                store_i16(&mut columns[2 * k + half], lines[k]);
            }
        }
    }
}

/// Transposes eight rows of eight words: interleaving row k with row k + 4 three times exchanges
/// rows and columns.
#[inline]
#[target_feature(enable = "neon")]
fn transpose_8x8(mut lines: [int16x8_t; 8]) -> [int16x8_t; 8] {
    for _ in 0..3 {
        let before = lines;
        for k in 0..4 {
            lines[2 * k] = vzip1q_s16(before[k], before[k + 4]);
            lines[2 * k + 1] = vzip2q_s16(before[k], before[k + 4]);
        }
    }
    lines
}

/// The horizontal pass of sixteen rows: `rows` are `stride` apart, a multiple of 8 that is at least
/// the number of positions.
#[target_feature(enable = "neon")]
pub(in crate::simd) fn filter_horizontal(
    rows: &mut [i16],
    stride: usize,
    columns: &[i16],
    table: &AxisTable,
) {
    if table.overshoots {
        filter_horizontal_by::<true>(rows, stride, columns, table);
    } else {
        filter_horizontal_by::<false>(rows, stride, columns, table);
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn filter_horizontal_by<const CLAMP: bool>(
    rows: &mut [i16],
    stride: usize,
    columns: &[i16],
    table: &AxisTable,
) {
    let count = table.starts.len();
    for at in (0..count).step_by(8) {
        let (mut upper, mut lower) = ([vdupq_n_s16(0); 8], [vdupq_n_s16(0); 8]);
        for k in 0..8.min(count - at) {
            [upper[k], lower[k]] = filter_position::<CLAMP>(columns, table, at + k);
        }
        for (half, lines) in [transpose_8x8(upper), transpose_8x8(lower)]
            .into_iter()
            .enumerate()
        {
            for (r, line) in lines.into_iter().enumerate() {
                let to = &mut rows[(8 * half + r) * stride + at..][..8];
                store_i16(to.try_into().expect("8 long"), line);
            }
        }
    }
}

/// One position of the upper and of the lower eight rows.
#[inline]
#[target_feature(enable = "neon")]
fn filter_position<const CLAMP: bool>(
    columns: &[i16],
    table: &AxisTable,
    position: usize,
) -> [int16x8_t; 2] {
    let (start, weights) = table.taps_at(position);
    let first = (start - table.first as usize) * BLOCK_ROWS;
    let (columns, _) = columns[first..][..weights.len() * BLOCK_ROWS].as_chunks::<BLOCK_ROWS>();
    let mut sums = [vdupq_n_s32(1 << (WEIGHT_BITS - 1)); 4];
    let (columns, rest_columns) = columns.as_chunks::<4>();
    let (weights, rest_weights) = weights.as_chunks::<4>();
    for (columns, weights) in columns.iter().zip(weights) {
        let weights = load_i16_half(weights);
        sums = multiply_add_lane::<0>(sums, &columns[0], weights);
        sums = multiply_add_lane::<1>(sums, &columns[1], weights);
        sums = multiply_add_lane::<2>(sums, &columns[2], weights);
        sums = multiply_add_lane::<3>(sums, &columns[3], weights);
    }
    for (column, &weight) in rest_columns.iter().zip(rest_weights) {
        let [upper, lower] = load_column(column);
        sums = multiply_add(sums, upper, lower, weight);
    }
    const SHIFT: i32 = WEIGHT_BITS as i32;
    [
        narrow::<CLAMP, SHIFT>(sums[0], sums[1]),
        narrow::<CLAMP, SHIFT>(sums[2], sums[3]),
    ]
}

/// [`multiply_add`] with one of four weights.
#[inline]
#[target_feature(enable = "neon")]
fn multiply_add_lane<const LANE: i32>(
    [a, b, c, d]: [int32x4_t; 4],
    column: &[i16; BLOCK_ROWS],
    weights: int16x4_t,
) -> [int32x4_t; 4] {
    let [upper, lower] = load_column(column);
    [
        vmlal_lane_s16::<LANE>(a, vget_low_s16(upper), weights),
        vmlal_high_lane_s16::<LANE>(b, upper, weights),
        vmlal_lane_s16::<LANE>(c, vget_low_s16(lower), weights),
        vmlal_high_lane_s16::<LANE>(d, lower, weights),
    ]
}

/// A sample of the upper and of the lower eight rows.
#[inline]
#[target_feature(enable = "neon")]
fn load_column(column: &[i16; BLOCK_ROWS]) -> [int16x8_t; 2] {
    let (upper, lower) = column.split_at(8);
    [
        load_i16(upper.try_into().expect("8 long")),
        load_i16(lower.try_into().expect("8 long")),
    ]
}
