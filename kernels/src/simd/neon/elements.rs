//! Elements of consecutive 8-bit or 16-bit codes, computed by vectors instead of looked up.

use std::arch::aarch64::*;

use super::{Code, interleave, load_f32, round_to_f16, store_bytes};
use crate::types::{Channels, OutputStrides};
use crate::write::{Dtype, ElementWriter, LaneFactors, OutputSlot};

/// Codes that are converted together: a multiple of the three channels and of the eight codes of a
/// vector.
const BLOCK: usize = 24;

/// Pixels that are interleaved at a time: a multiple of 16 whose codes fill whole blocks.
const INTERLEAVED_PIXELS: usize = 256;

/// [`ElementWriter::write_codes`].
#[target_feature(enable = "neon")]
pub(in crate::simd) fn write_codes(
    writer: &ElementWriter,
    codes: &[u8],
    channels: (usize, usize),
    out: &mut [u8],
    streaming: bool,
) {
    if writer.dtype() == Dtype::U8 || codes.len() < BLOCK {
        writer.write_codes(codes, channels, out, streaming);
    } else {
        write_blocks(writer, codes, channels, out);
    }
}

/// [`ElementWriter::write_row`], with consecutive elements computed instead of looked up.
#[target_feature(enable = "neon")]
pub(in crate::simd) fn write_row(
    writer: &ElementWriter,
    mut rgb: [&mut [u8]; 3],
    channels: Channels,
    slot: &mut OutputSlot<'_>,
    strides: OutputStrides,
    j: usize,
) {
    let strides = if strides.step_i < 0 {
        strides.reversed(&mut rgb)
    } else {
        strides
    };
    let (length, size) = (rgb[0].len(), writer.dtype().bytes());
    let is_packed = channels == Channels::Three && slot.channel_stride == 1 && strides.step_i == 3;
    let Some(origin) = strides
        .forward(j, length)
        .filter(|_| is_packed || strides.step_i == 1)
    else {
        return writer.write_row(rgb, channels, slot, strides, j);
    };
    if is_packed && writer.dtype() == Dtype::U8 {
        return interleave(&mut slot.data[origin..][..3 * length], rgb.map(|row| &*row));
    }
    if !is_packed {
        for (channel, row) in rgb.into_iter().enumerate().take(channels.count()) {
            let out =
                &mut slot.data[(origin + channel * slot.channel_stride) * size..][..length * size];
            write_codes(writer, row, (channel, 1), out, false);
        }
        return;
    }
    let out = &mut slot.data[origin * size..][..3 * length * size];
    let mut codes = [0; 3 * INTERLEAVED_PIXELS];
    for (part, out) in out.chunks_mut(3 * INTERLEAVED_PIXELS * size).enumerate() {
        let first = part * INTERLEAVED_PIXELS;
        let last = length.min(first + INTERLEAVED_PIXELS);
        let codes = &mut codes[..3 * (last - first)];
        interleave(codes, rgb.each_ref().map(|row| &row[first..last]));
        write_codes(writer, codes, (0, 3), out, false);
    }
}

/// [`ElementWriter::write_row_u16`], with consecutive elements of floats computed by vectors.
#[target_feature(enable = "neon")]
pub(in crate::simd) fn write_row_u16(
    writer: &ElementWriter,
    rgb: [&[u16]; 3],
    channels: Channels,
    slot: &mut OutputSlot<'_>,
    strides: OutputStrides,
    j: usize,
) {
    let (length, size) = (rgb[0].len(), writer.dtype().bytes());
    let is_packed = channels == Channels::Three && slot.channel_stride == 1 && strides.step_i == 3;
    let is_float = !writer.dtype().is_integer();
    let consecutive = is_float && length >= BLOCK && (is_packed || strides.step_i == 1);
    let Some(origin) = strides.forward(j, length).filter(|_| consecutive) else {
        return writer.write_row_u16(rgb, channels, slot, strides, j);
    };
    if !is_packed {
        for (channel, row) in rgb.into_iter().enumerate().take(channels.count()) {
            let out =
                &mut slot.data[(origin + channel * slot.channel_stride) * size..][..length * size];
            write_blocks(writer, row, (channel, 1), out);
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
        write_blocks(
            writer,
            codes,
            (0, 3),
            &mut slot.data[(origin + 3 * begin) * size..][..3 * count * size],
        );
        first = begin + count;
    }
}

/// Writes the elements of at least a block of codes, `u8` or `u16`.
#[inline]
#[target_feature(enable = "neon")]
fn write_blocks<C: Code>(
    writer: &ElementWriter,
    codes: &[C],
    (first, channels): (usize, usize),
    out: &mut [u8],
) {
    let (dtype, size) = (writer.dtype(), writer.dtype().bytes());
    let whole = codes.len() / BLOCK * BLOCK;
    let colors = writer.factors(size_of::<C>() == 2);
    let factors = colors.of_consecutive(first, channels);
    convert_blocks(dtype, factors, &codes[..whole], &mut out[..whole * size]);
    if whole < codes.len() {
        // The last block ends with the codes and writes some elements twice.
        let last = codes.len() - BLOCK;
        let first = if channels == 1 { first } else { first + last };
        let factors = colors.of_consecutive(first, channels);
        convert_blocks(dtype, factors, &codes[last..], &mut out[last * size..]);
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn convert_blocks<C: Code>(dtype: Dtype, factors: [&LaneFactors; 3], codes: &[C], out: &mut [u8]) {
    let (out, _) = out.as_chunks_mut::<16>();
    let factors = [
        VectorFactors::new(factors[0]),
        VectorFactors::new(factors[1]),
        VectorFactors::new(factors[2]),
    ];
    let blocks = codes.as_chunks::<8>().0.as_chunks::<3>().0.iter();
    match dtype {
        Dtype::F32 => {
            for (codes, out) in blocks.zip(out.as_chunks_mut::<6>().0) {
                for n in 0..3 {
                    let (low, high) = values(&codes[n], &factors[n]);
                    store_bytes(&mut out[2 * n], vreinterpretq_u8_f32(low));
                    store_bytes(&mut out[2 * n + 1], vreinterpretq_u8_f32(high));
                }
            }
        }
        Dtype::F16 => {
            for (codes, out) in blocks.zip(out.as_chunks_mut::<3>().0) {
                for n in 0..3 {
                    let (low, high) = values(&codes[n], &factors[n]);
                    store_bytes(&mut out[n], vreinterpretq_u8_u16(round_to_f16(low, high)));
                }
            }
        }
        Dtype::BF16 => {
            for (codes, out) in blocks.zip(out.as_chunks_mut::<3>().0) {
                for n in 0..3 {
                    let (low, high) = values(&codes[n], &factors[n]);
                    store_bytes(&mut out[n], vreinterpretq_u8_u16(round_to_bf16(low, high)));
                }
            }
        }
        Dtype::U16 => {
            for (codes, out) in blocks.zip(out.as_chunks_mut::<3>().0) {
                for n in 0..3 {
                    let codes = C::load(&codes[n]);
                    // 257 times the code.
                    store_bytes(
                        &mut out[n],
                        vreinterpretq_u8_u16(vsliq_n_u16::<8>(codes, codes)),
                    );
                }
            }
        }
        Dtype::U8 => unreachable!("copied"),
    }
}

/// Scales and biases of eight codes.
struct VectorFactors {
    scale: [float32x4_t; 2],
    bias: [float32x4_t; 2],
}

impl VectorFactors {
    #[inline]
    #[target_feature(enable = "neon")]
    fn new(factors: &LaneFactors) -> Self {
        Self {
            scale: load_f32(&factors.scale),
            bias: load_f32(&factors.bias),
        }
    }
}

/// `code * scale + bias`, rounded once.
#[inline]
#[target_feature(enable = "neon")]
fn values<C: Code>(codes: &[C; 8], factors: &VectorFactors) -> (float32x4_t, float32x4_t) {
    let codes = C::load(codes);
    let low = vcvtq_f32_u32(vmovl_u16(vget_low_u16(codes)));
    let high = vcvtq_f32_u32(vmovl_high_u16(codes));
    let VectorFactors { scale, bias } = factors;
    (
        vfmaq_f32(bias[0], low, scale[0]),
        vfmaq_f32(bias[1], high, scale[1]),
    )
}

/// The upper 16 bits of each number after rounding to nearest even. Values are not NaN.
#[inline]
#[target_feature(enable = "neon")]
fn round_to_bf16(low: float32x4_t, high: float32x4_t) -> uint16x8_t {
    let (low, high) = (vreinterpretq_u32_f32(low), vreinterpretq_u32_f32(high));
    vaddhn_high_u32(vaddhn_u32(low, rounding(low)), high, rounding(high))
}

/// 0x7FFF, plus one if the lowest of the upper 16 bits is set.
#[inline]
#[target_feature(enable = "neon")]
fn rounding(bits: uint32x4_t) -> uint32x4_t {
    vsraq_n_u32::<31>(vdupq_n_u32(0x7FFF), vshlq_n_u32::<15>(bits))
}
