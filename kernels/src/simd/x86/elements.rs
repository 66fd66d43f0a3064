//! Elements of consecutive 8-bit codes, computed by vectors instead of looked up, and stored past
//! the caches on request.

#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{INTERLEAVED_PIXELS, load_i32};
use crate::types::{Channels, OutputStrides};
use crate::write::{Dtype, ElementWriter, LaneFactors, OutputSlot};

const VECTOR_BYTES: usize = 32;
const LINE_BYTES: usize = 64;

/// [`ElementWriter::write_codes`].
#[target_feature(enable = "avx2,fma,f16c")]
pub(in crate::simd) fn write_codes(
    writer: &ElementWriter,
    codes: &[u8],
    channels: (usize, usize),
    out: &mut [u8],
    streaming: bool,
) {
    if codes.len() < block_length(writer.dtype()) {
        writer.write_codes(codes, channels, out, streaming);
    } else if streaming && has_whole_lines(out) {
        write_blocks::<u8, true>(writer, codes, channels, out);
    } else {
        write_blocks::<u8, false>(writer, codes, channels, out);
    }
}

/// [`ElementWriter::write_row_u16`], with consecutive elements of floats computed by vectors.
#[target_feature(enable = "avx2,fma,f16c")]
pub(in crate::simd) fn write_row_u16(
    writer: &ElementWriter,
    rgb: [&[u16]; 3],
    channels: Channels,
    slot: &mut OutputSlot<'_>,
    strides: OutputStrides,
    j: usize,
) {
    let length = rgb[0].len();
    let (size, block) = (writer.dtype().bytes(), block_length(writer.dtype()));
    let is_packed = channels == Channels::Three && slot.channel_stride == 1 && strides.step_i == 3;
    let is_float = !writer.dtype().is_integer();
    let consecutive = is_float && length >= block && (is_packed || strides.step_i == 1);
    let Some(origin) = strides.forward(j, length).filter(|_| consecutive) else {
        return writer.write_row_u16(rgb, channels, slot, strides, j);
    };
    let write = |codes: &[u16], channels, out: &mut [u8]| {
        if strides.streaming && has_whole_lines(out) {
            write_blocks::<u16, true>(writer, codes, channels, out);
        } else {
            write_blocks::<u16, false>(writer, codes, channels, out);
        }
    };
    if !is_packed {
        for (channel, row) in rgb.into_iter().enumerate().take(channels.count()) {
            let out =
                &mut slot.data[(origin + channel * slot.channel_stride) * size..][..length * size];
            write(row, (channel, 1), out);
        }
        return;
    }
    let mut codes = [0; 3 * INTERLEAVED_PIXELS];
    let mut first = 0;
    while first < length {
        // The last part is not shorter than a block, because it begins earlier.
        let begin = first.min(length.saturating_sub(INTERLEAVED_PIXELS));
        let count = (length - begin).min(INTERLEAVED_PIXELS);
        let codes = &mut codes[..3 * count];
        let rows = rgb.map(|row| &row[begin..begin + count]);
        for (i, pixel) in codes.as_chunks_mut().0.iter_mut().enumerate() {
            *pixel = rows.map(|row| row[i]);
        }
        write(
            codes,
            (0, 3),
            &mut slot.data[(origin + 3 * begin) * size..][..3 * count * size],
        );
        first = begin + count;
    }
}

/// Elements of a block of three vectors.
fn block_length(dtype: Dtype) -> usize {
    3 * VECTOR_BYTES / dtype.bytes()
}

/// Whether the bytes are whole cache lines. Streaming stores to a part of a line take longer than
/// they save.
pub(super) fn has_whole_lines(out: &[u8]) -> bool {
    out.len().is_multiple_of(LINE_BYTES) && out.as_ptr().addr().is_multiple_of(LINE_BYTES)
}

/// Writes the elements of at least a block of codes, `u8` or `u16`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn write_blocks<Code: Copy + Into<i32>, const STREAMING: bool>(
    writer: &ElementWriter,
    codes: &[Code],
    (first, channels): (usize, usize),
    out: &mut [u8],
) {
    let (dtype, size, block) = (
        writer.dtype(),
        writer.dtype().bytes(),
        block_length(writer.dtype()),
    );
    let whole = codes.len() / block * block;
    let colors = writer.factors(size_of::<Code>() == 2);
    let factors = colors.of_consecutive(first, channels);
    convert_blocks::<Code, STREAMING>(dtype, factors, &codes[..whole], &mut out[..whole * size]);
    if whole < codes.len() {
        // The last block ends with the codes and writes some elements twice.
        let last = codes.len() - block;
        let first = if channels == 1 { first } else { first + last };
        let factors = colors.of_consecutive(first, channels);
        convert_blocks::<Code, STREAMING>(dtype, factors, &codes[last..], &mut out[last * size..]);
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn convert_blocks<Code: Copy + Into<i32>, const STREAMING: bool>(
    dtype: Dtype,
    factors: [&LaneFactors; 3],
    codes: &[Code],
    out: &mut [u8],
) {
    let (out, _) = out.as_chunks_mut::<VECTOR_BYTES>();
    // Integers have no factors: U8 equals the code, and U16 is 257 times the code.
    match dtype {
        Dtype::U8 => {
            for (codes, out) in codes.as_chunks::<32>().0.iter().zip(out) {
                let [low, high] = [0, 16].map(|at| packed_u16(&codes[at..]));
                let codes =
                    _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi16(low, high));
                store::<STREAMING>(out, codes);
            }
        }
        Dtype::U16 => {
            for (codes, out) in codes.as_chunks::<16>().0.iter().zip(out) {
                let codes = packed_u16(codes);
                store::<STREAMING>(out, _mm256_or_si256(codes, _mm256_slli_epi16::<8>(codes)));
            }
        }
        Dtype::F32 => {
            let blocks = codes
                .as_chunks::<24>()
                .0
                .iter()
                .zip(out.as_chunks_mut::<3>().0);
            for (codes, out) in blocks {
                for ((codes, out), factors) in codes.as_chunks().0.iter().zip(out).zip(factors) {
                    store::<STREAMING>(out, _mm256_castps_si256(values(codes, factors)));
                }
            }
        }
        Dtype::F16 => {
            let blocks = codes
                .as_chunks::<48>()
                .0
                .iter()
                .zip(out.as_chunks_mut::<3>().0);
            for (codes, out) in blocks {
                for ((codes, out), factors) in
                    codes.as_chunks().0.iter().zip(out).zip(pairs(factors))
                {
                    let (low, high) = values_of_16(codes, factors);
                    let low = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(low);
                    let high = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(high);
                    store::<STREAMING>(out, _mm256_set_m128i(high, low));
                }
            }
        }
        Dtype::BF16 => {
            let blocks = codes
                .as_chunks::<48>()
                .0
                .iter()
                .zip(out.as_chunks_mut::<3>().0);
            for (codes, out) in blocks {
                for ((codes, out), factors) in
                    codes.as_chunks().0.iter().zip(out).zip(pairs(factors))
                {
                    let (low, high) = values_of_16(codes, factors);
                    let packed = _mm256_packus_epi32(round_to_bf16(low), round_to_bf16(high));
                    store::<STREAMING>(out, _mm256_permute4x64_epi64::<0b11_01_10_00>(packed));
                }
            }
        }
    }
}

/// The factors of 48 codes, in pairs.
fn pairs([first, second, third]: [&LaneFactors; 3]) -> [[&LaneFactors; 2]; 3] {
    [[first, second], [third, first], [second, third]]
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn values_of_16<Code: Copy + Into<i32>>(
    codes: &[Code; 16],
    [low, high]: [&LaneFactors; 2],
) -> (__m256, __m256) {
    let (first, second) = codes.split_at(8);
    (
        values(first.try_into().expect("8 long"), low),
        values(second.try_into().expect("8 long"), high),
    )
}

/// `code * scale + bias`, rounded once.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn values<Code: Copy + Into<i32>>(codes: &[Code; 8], factors: &LaneFactors) -> __m256 {
    let (scale, bias) = (load_f32(&factors.scale), load_f32(&factors.bias));
    _mm256_fmadd_ps(
        _mm256_cvtepi32_ps(load_i32(&codes.map(Into::into))),
        scale,
        bias,
    )
}

/// 16 codes as 16-bit words.
#[inline]
#[target_feature(enable = "avx2")]
fn packed_u16<Code: Copy + Into<i32>>(codes: &[Code]) -> __m256i {
    let words: [u16; 16] = std::array::from_fn(|i| codes[i].into() as u16);
    // SAFETY: 32 bytes are readable, and the load has no alignment.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

/// The upper 16 bits of each number after rounding to nearest even. Values are not NaN.
#[inline]
#[target_feature(enable = "avx2")]
fn round_to_bf16(values: __m256) -> __m256i {
    let bits = _mm256_castps_si256(values);
    let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
    _mm256_srli_epi32::<16>(_mm256_add_epi32(
        bits,
        _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)),
    ))
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_f32(from: &[f32; 8]) -> __m256 {
    // SAFETY: 32 bytes are readable, and the load has no alignment.
    unsafe { _mm256_loadu_ps(from.as_ptr()) }
}

/// `STREAMING`: `to` must be aligned, or the store is an ordinary one.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store<const STREAMING: bool>(to: &mut [u8; VECTOR_BYTES], value: __m256i) {
    let to = to.as_mut_ptr().cast::<__m256i>();
    if STREAMING && to.is_aligned() {
        // SAFETY: 32 bytes are writable and aligned. `Backend::fence` orders the store before other
        // threads read the frame.
        unsafe { _mm256_stream_si256(to, value) }
    } else {
        // SAFETY: 32 bytes are writable, and the store has no alignment.
        unsafe { _mm256_storeu_si256(to, value) }
    }
}
