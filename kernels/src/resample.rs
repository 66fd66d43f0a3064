//! Filters rows of samples to rows of 15-bit components, with the weights of one output position
//! (vertical) or of all (horizontal). Instructions are not chosen here; `simd` compiles these
//! functions once per backend.

use crate::colorimetry::COMPONENT_BITS;
use crate::weights::{AxisTable, Repeat, WEIGHT_BITS, overshoots};

/// The sample layout of a plane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SampleFormat {
    pub depth_bits: u8,
    pub shift: u8,
}

/// A component of 15 bits. `CLAMP`: sums with negative weights exceed 0 and 32767, and 16-bit white
/// rounds up to 2^15.
#[inline(always)]
fn narrow<const CLAMP: bool>(sum: i32) -> i16 {
    if CLAMP {
        // In this order, both steps are one instruction.
        (sum.clamp(i32::from(i16::MIN), i32::from(i16::MAX)) as i16).max(0)
    } else {
        sum as i16
    }
}

/// Columns whose sums stay in registers during the loop over taps.
const COLUMN_GROUP: usize = 32;

/// One row of the vertical pass: `dst[i]` is the weighted sum of `src[i]`, `src[i + stride]`, ...
/// `_ahead`: rows after these that will be needed next, for implementations that prefetch them.
#[inline(always)]
pub(crate) fn filter_vertical_u8(
    dst: &mut [i16],
    src: &[u8],
    stride: usize,
    weights: &[i16],
    _ahead: usize,
) {
    if weights.len() == 1 {
        // A single weight is one.
        for (dst, &sample) in dst.iter_mut().zip(src) {
            *dst = i16::from(sample) << (COMPONENT_BITS - 8);
        }
    } else if overshoots(weights) {
        filter_vertical_u8_by::<true>(dst, src, stride, weights);
    } else {
        filter_vertical_u8_by::<false>(dst, src, stride, weights);
    }
}

#[inline(always)]
fn filter_vertical_u8_by<const CLAMP: bool>(
    dst: &mut [i16],
    src: &[u8],
    stride: usize,
    weights: &[i16],
) {
    const SHIFT: u32 = WEIGHT_BITS + 8 - COMPONENT_BITS;
    let whole = dst.len() / COLUMN_GROUP * COLUMN_GROUP;
    let (groups, rest) = dst.split_at_mut(whole);
    for (group, dst) in groups.chunks_exact_mut(COLUMN_GROUP).enumerate() {
        let mut sums = [1i32 << (SHIFT - 1); COLUMN_GROUP];
        for (row, &weight) in weights.iter().enumerate() {
            let samples: &[u8; COLUMN_GROUP] = src[row * stride + group * COLUMN_GROUP..]
                [..COLUMN_GROUP]
                .try_into()
                .expect("COLUMN_GROUP long");
            for i in 0..COLUMN_GROUP {
                sums[i] += i32::from(i16::from(samples[i])) * i32::from(weight);
            }
        }
        for i in 0..COLUMN_GROUP {
            dst[i] = narrow::<CLAMP>(sums[i] >> SHIFT);
        }
    }
    for (i, dst) in rest.iter_mut().enumerate() {
        let mut sum = 1i32 << (SHIFT - 1);
        for (row, &weight) in weights.iter().enumerate() {
            sum += i32::from(src[row * stride + whole + i]) * i32::from(weight);
        }
        *dst = narrow::<CLAMP>(sum >> SHIFT);
    }
}

/// [`filter_vertical_u8`] for little-endian words of 9 to 16 bits.
#[inline(always)]
pub(crate) fn filter_vertical_u16(
    dst: &mut [i16],
    src: &[u8],
    stride_bytes: usize,
    weights: &[i16],
    format: SampleFormat,
) {
    let shift = WEIGHT_BITS + u32::from(format.depth_bits) - COMPONENT_BITS;
    let word_shift = u32::from(format.shift);
    // Words may exceed the depth (damaged streams): they count as white, so sums stay bounded.
    let white = (u32::from(u16::MAX) >> (16 - u32::from(format.depth_bits))) as u16;
    let sample = |word: [u8; 2]| i32::from((u16::from_le_bytes(word) >> word_shift).min(white));
    let narrow = |sum: i32| narrow::<true>(sum >> shift);
    let half = 1i32 << (shift - 1);
    let whole = dst.len() / COLUMN_GROUP * COLUMN_GROUP;
    let (groups, rest) = dst.split_at_mut(whole);
    for (group, dst) in groups.chunks_exact_mut(COLUMN_GROUP).enumerate() {
        let mut sums = [half; COLUMN_GROUP];
        for (row, &weight) in weights.iter().enumerate() {
            let bytes = &src[row * stride_bytes + group * COLUMN_GROUP * 2..][..COLUMN_GROUP * 2];
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum += sample([bytes[2 * i], bytes[2 * i + 1]]) * i32::from(weight);
            }
        }
        for (dst, sum) in dst.iter_mut().zip(sums) {
            *dst = narrow(sum);
        }
    }
    for (i, dst) in rest.iter_mut().enumerate() {
        let mut sum = half;
        for (row, &weight) in weights.iter().enumerate() {
            let at = row * stride_bytes + (whole + i) * 2;
            sum += sample([src[at], src[at + 1]]) * i32::from(weight);
        }
        *dst = narrow(sum);
    }
}

/// Extracts one component of a row of several: every `step`-th value from `offset`.
#[inline(always)]
pub(crate) fn extract_component(dst: &mut [i16], src: &[i16], step: usize, offset: usize) {
    match step {
        2 => extract_component_by::<2>(dst, src, offset),
        3 => extract_component_by::<3>(dst, src, offset),
        4 => extract_component_by::<4>(dst, src, offset),
        _ => {
            for (dst, values) in dst.iter_mut().zip(src.chunks_exact(step)) {
                *dst = values[offset];
            }
        }
    }
}

#[inline(always)]
fn extract_component_by<const STEP: usize>(dst: &mut [i16], src: &[i16], offset: usize) {
    assert!(offset < STEP);
    for (dst, values) in dst.iter_mut().zip(src.chunks_exact(STEP)) {
        *dst = values[offset];
    }
}

/// The horizontal pass of one row. `src[0]` is sample `table.first`, and `table.taps` values beyond
/// the span are readable.
#[inline(always)]
pub(crate) fn filter_horizontal(dst: &mut [i16], src: &[i16], table: &AxisTable) {
    if let Some(repeat) = table.repeat {
        return repeat_samples(dst, src, repeat, table.first);
    }
    if table.overshoots {
        filter_horizontal_any::<true>(dst, src, table);
    } else {
        filter_horizontal_any::<false>(dst, src, table);
    }
}

#[inline(always)]
fn filter_horizontal_any<const CLAMP: bool>(dst: &mut [i16], src: &[i16], table: &AxisTable) {
    match table.taps {
        8 => filter_horizontal_by::<8, CLAMP>(dst, src, table),
        16 => filter_horizontal_by::<16, CLAMP>(dst, src, table),
        24 => filter_horizontal_by::<24, CLAMP>(dst, src, table),
        32 => filter_horizontal_by::<32, CLAMP>(dst, src, table),
        taps => {
            for ((dst, &start), weights) in dst
                .iter_mut()
                .zip(&table.starts)
                .zip(table.weights.chunks_exact(taps))
            {
                let values = &src[(start - table.first) as usize..][..taps];
                let mut sum = 1i32 << (WEIGHT_BITS - 1);
                for (values, weights) in values.chunks_exact(8).zip(weights.chunks_exact(8)) {
                    sum += dot::<8>(values, weights);
                }
                *dst = narrow::<CLAMP>(sum >> WEIGHT_BITS);
            }
        }
    }
}

#[inline(always)]
fn filter_horizontal_by<const TAPS: usize, const CLAMP: bool>(
    dst: &mut [i16],
    src: &[i16],
    table: &AxisTable,
) {
    for ((dst, &start), weights) in dst
        .iter_mut()
        .zip(&table.starts)
        .zip(table.weights.chunks_exact(TAPS))
    {
        let values = &src[(start - table.first) as usize..][..TAPS];
        let sum = (1i32 << (WEIGHT_BITS - 1)) + dot::<TAPS>(values, weights);
        *dst = narrow::<CLAMP>(sum >> WEIGHT_BITS);
    }
}

#[inline(always)]
fn dot<const TAPS: usize>(values: &[i16], weights: &[i16]) -> i32 {
    let values: &[i16; TAPS] = values.try_into().expect("TAPS long");
    let weights: &[i16; TAPS] = weights.try_into().expect("TAPS long");
    (0..TAPS)
        .map(|i| i32::from(values[i]) * i32::from(weights[i]))
        .sum()
}

#[inline(always)]
fn repeat_samples(dst: &mut [i16], src: &[i16], repeat: Repeat, first: u32) {
    match repeat.log2 {
        0 => dst.copy_from_slice(&src[..dst.len()]),
        1 => {
            // The crop may start on the second pixel of a sample.
            let (head, body) = dst.split_at_mut(((repeat.first_luma & 1) as usize).min(dst.len()));
            head.fill(src[0]);
            let src = &src[head.len()..];
            let pairs_len = body.len() / 2;
            let mut pairs = body.chunks_exact_mut(2);
            for (pair, &value) in pairs.by_ref().zip(src) {
                pair.fill(value);
            }
            if let [last] = pairs.into_remainder() {
                *last = src[pairs_len];
            }
        }
        log2 => {
            for (luma, dst) in (repeat.first_luma..).zip(dst) {
                *dst = src[((luma >> log2) - first) as usize];
            }
        }
    }
}
