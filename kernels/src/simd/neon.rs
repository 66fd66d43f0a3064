//! The row functions with NEON intrinsics, where the compiler's own vectors are slower. Values equal the plain functions.
//! No access is outside the given slices. Sums are exact in 32 bits, so their order does not matter.

#![allow(unsafe_code)]

pub(super) mod elements;
pub(super) mod horizontal;
pub(super) mod vertical;

use std::arch::aarch64::*;
use std::arch::asm;

use crate::color::{self, FrameCoefficients};
use crate::types::{Channels, OutputStrides};
use crate::warp::{self, WarpRow, WindowPlanes};
use crate::write::{Dtype, ElementWriter, OutputSlot, TransposeTile, TRANSPOSE_ROWS};

#[inline]
#[target_feature(enable = "neon")]
fn load_u8(from: &[u8; 16]) -> uint8x16_t {
    // SAFETY: 16 bytes are readable, and the load has no alignment.
    unsafe { vld1q_u8(from.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
fn load_u8_half(from: &[u8; 8]) -> uint8x8_t {
    // SAFETY: 8 bytes are readable, and the load has no alignment.
    unsafe { vld1_u8(from.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
fn load_u16(from: &[u16; 8]) -> uint16x8_t {
    // SAFETY: 16 bytes are readable.
    unsafe { vld1q_u16(from.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
fn load_i16(from: &[i16; 8]) -> int16x8_t {
    // SAFETY: 16 bytes are readable.
    unsafe { vld1q_s16(from.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
fn load_i16_half(from: &[i16; 4]) -> int16x4_t {
    // SAFETY: 8 bytes are readable.
    unsafe { vld1_s16(from.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
fn load_f32(from: &[f32; 8]) -> [float32x4_t; 2] {
    // SAFETY: 32 bytes are readable.
    unsafe { [vld1q_f32(from.as_ptr()), vld1q_f32(from[4..].as_ptr())] }
}

#[inline]
#[target_feature(enable = "neon")]
fn store_bytes(to: &mut [u8; 16], value: uint8x16_t) {
    // SAFETY: 16 bytes are writable, and the store has no alignment.
    unsafe { vst1q_u8(to.as_mut_ptr(), value) }
}

#[inline]
#[target_feature(enable = "neon")]
fn store_i16(to: &mut [i16; 8], value: int16x8_t) {
    // SAFETY: 16 bytes are writable.
    unsafe { vst1q_s16(to.as_mut_ptr(), value) }
}

/// Interleaves sixteen R, G, B.
#[inline]
#[target_feature(enable = "neon")]
fn store_packed(to: &mut [u8; 48], [r, g, b]: [uint8x16_t; 3]) {
    // SAFETY: 48 bytes are writable, and the store has no alignment.
    unsafe { vst3q_u8(to.as_mut_ptr(), uint8x16x3_t(r, g, b)) }
}

/// Half precision, rounded to nearest even. The intrinsics of these instructions need a newer compiler.
#[inline]
#[target_feature(enable = "neon")]
fn round_to_f16(low: float32x4_t, high: float32x4_t) -> uint16x8_t {
    let packed: uint16x8_t;
    // SAFETY: the instructions access only these registers, and every AArch64 processor has them.
    unsafe {
        asm!(
            "fcvtn {packed:v}.4h, {low:v}.4s",
            "fcvtn2 {packed:v}.8h, {high:v}.4s",
            packed = out(vreg) packed,
            low = in(vreg) low,
            high = in(vreg) high,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    packed
}

/// The factors of [`unscaled_row`], each broadcast to every lane.
struct BroadcastFactors {
    luma: i16,
    v_to_r: i16,
    u_to_g: i16,
    v_to_g: i16,
    u_to_b: i16,
    /// Of R, G, B: the products of the zeros, and half for rounding.
    bias: [int32x4_t; 3],
}

/// Samples are multiplied by 8 and factors have 13 bits of fraction, so the result is the upper half of a sum.
const SAMPLE_SHIFT: i32 = 3;

impl BroadcastFactors {
    #[inline]
    #[target_feature(enable = "neon")]
    fn new(colors: &FrameCoefficients) -> Self {
        let [luma, v_to_r, u_to_g, v_to_g, u_to_b] = colors.sparse_factors();
        // Components are samples times 128, and the zeros of 8-bit samples are multiples of that.
        let [luma_zero, chroma_zero, _] = colors.zero().map(|zero| i32::from(zero) >> (7 - SAMPLE_SHIFT));
        let bias = |chroma: i32| vdupq_n_s32((1 << 15) - luma_zero * i32::from(luma) - chroma_zero * chroma);
        let bias =
            [bias(i32::from(v_to_r)), bias(i32::from(u_to_g) + i32::from(v_to_g)), bias(i32::from(u_to_b))];
        Self { luma, v_to_r, u_to_g, v_to_g, u_to_b, bias }
    }
}

/// A row of 8-bit Y, U, V whose chroma has half the width, directly to R, G, B: equals filtering, repeating and
/// [`yuv_row`](crate::color::yuv_row), without the intermediate rows.
#[target_feature(enable = "neon")]
pub(super) fn unscaled_row(rgb: [&mut [u8]; 3], yuv: [&[u8]; 3], colors: &FrameCoefficients) {
    let [r, g, b] = rgb;
    let [y, u, v] = yuv;
    let whole = y.len().min(2 * u.len()).min(2 * v.len()) / 16 * 16;
    let f = BroadcastFactors::new(colors);
    for at in (0..whole).step_by(16) {
        let y: &[u8; 16] = y[at..][..16].try_into().expect("16 long");
        let u: &[u8; 8] = u[at / 2..][..8].try_into().expect("8 long");
        let v: &[u8; 8] = v[at / 2..][..8].try_into().expect("8 long");
        let [red, green, blue] = unscaled_group(y, u, v, &f);
        store_bytes((&mut r[at..][..16]).try_into().expect("16 long"), red);
        store_bytes((&mut g[at..][..16]).try_into().expect("16 long"), green);
        store_bytes((&mut b[at..][..16]).try_into().expect("16 long"), blue);
    }
    color::unscaled_row_from(whole, [r, g, b], yuv, colors);
}

/// [`unscaled_row`] directly to interleaved R, G, B.
#[target_feature(enable = "neon")]
pub(super) fn unscaled_packed(out: &mut [u8], yuv: [&[u8]; 3], colors: &FrameCoefficients, _streaming: bool) {
    let [y, u, v] = yuv;
    let whole = y.len().min(2 * u.len()).min(2 * v.len()) / 16 * 16;
    let f = BroadcastFactors::new(colors);
    for at in (0..whole).step_by(16) {
        let y: &[u8; 16] = y[at..][..16].try_into().expect("16 long");
        let u: &[u8; 8] = u[at / 2..][..8].try_into().expect("8 long");
        let v: &[u8; 8] = v[at / 2..][..8].try_into().expect("8 long");
        let out = (&mut out[3 * at..][..48]).try_into().expect("48 long");
        store_packed(out, unscaled_group(y, u, v, &f));
    }
    color::unscaled_packed_from(whole, out, yuv, colors);
}

/// 16 pixels of [`unscaled_row`].
#[inline]
#[target_feature(enable = "neon")]
fn unscaled_group(y: &[u8; 16], u: &[u8; 8], v: &[u8; 8], f: &BroadcastFactors) -> [uint8x16_t; 3] {
    let y = load_u8(y);
    let y = [
        vreinterpretq_s16_u16(vshll_n_u8::<SAMPLE_SHIFT>(vget_low_u8(y))),
        vreinterpretq_s16_u16(vshll_high_n_u8::<SAMPLE_SHIFT>(y)),
    ];
    let u = vreinterpretq_s16_u16(vshll_n_u8::<SAMPLE_SHIFT>(load_u8_half(u)));
    let v = vreinterpretq_s16_u16(vshll_n_u8::<SAMPLE_SHIFT>(load_u8_half(v)));
    let [r, g, b] = f.bias;
    let red = [vmlal_n_s16(r, vget_low_s16(v), f.v_to_r), vmlal_high_n_s16(r, v, f.v_to_r)];
    let green = [
        vmlal_n_s16(vmlal_n_s16(g, vget_low_s16(u), f.u_to_g), vget_low_s16(v), f.v_to_g),
        vmlal_high_n_s16(vmlal_high_n_s16(g, u, f.u_to_g), v, f.v_to_g),
    ];
    let blue = [vmlal_n_s16(b, vget_low_s16(u), f.u_to_b), vmlal_high_n_s16(b, u, f.u_to_b)];
    [unscaled_channel(y, red, f.luma), unscaled_channel(y, green, f.luma), unscaled_channel(y, blue, f.luma)]
}

/// One channel of [`unscaled_group`]: the contributions of eight chroma samples, each repeated, plus luma, rounded and clamped.
#[inline]
#[target_feature(enable = "neon")]
fn unscaled_channel([y0, y1]: [int16x8_t; 2], [first, second]: [int32x4_t; 2], luma: i16) -> uint8x16_t {
    let a = vmlal_n_s16(vzip1q_s32(first, first), vget_low_s16(y0), luma);
    let b = vmlal_high_n_s16(vzip2q_s32(first, first), y0, luma);
    let c = vmlal_n_s16(vzip1q_s32(second, second), vget_low_s16(y1), luma);
    let d = vmlal_high_n_s16(vzip2q_s32(second, second), y1, luma);
    vqmovun_high_s16(vqmovun_s16(upper_halves(a, b)), upper_halves(c, d))
}

/// The upper 16 bits of each word.
#[inline]
#[target_feature(enable = "neon")]
fn upper_halves(low: int32x4_t, high: int32x4_t) -> int16x8_t {
    vuzp2q_s16(vreinterpretq_s16_s32(low), vreinterpretq_s16_s32(high))
}

/// Interleaves R, G, B rows.
#[inline]
#[target_feature(enable = "neon")]
fn interleave(out: &mut [u8], rgb: [&[u8]; 3]) {
    let (out, _) = out.as_chunks_mut::<3>();
    for (i, pixel) in out.iter_mut().enumerate() {
        *pixel = rgb.map(|row| row[i]);
    }
}

/// [`warp::bilinear_row`](crate::warp::bilinear_row), eight pixels at a time.
#[target_feature(enable = "neon")]
pub(super) fn bilinear_row(
    mut out: [&mut [i16]; 3],
    window: &WindowPlanes<'_>,
    line: &WarpRow,
    first: usize,
    components: usize,
) {
    let samples = window.width * window.height;
    let planes = &window.planes[..components];
    let fits = planes.iter().all(|plane| plane.len() >= samples);
    let whole = if fits { out[0].len() / 8 * 8 } else { 0 };
    let rest = out.each_mut().map(|row| &mut row[whole..]);
    warp::bilinear_row(rest, window, line, first + whole, components);
    let (mut x, mut y) = line.at(first);
    for at in (0..whole).step_by(8) {
        let mut offsets = [0; 8];
        let (mut across, mut down) = ([[0i16; 8]; 2], [0i16; 8]);
        for i in 0..8 {
            let (column, row, f, g) = warp::split(x, y);
            assert!(column + 1 < window.width && row + 1 < window.height, "inside the window");
            offsets[i] = row * window.width + column;
            across[i / 4][2 * (i % 4)] = 16_384 - f as i16;
            across[i / 4][2 * (i % 4) + 1] = f as i16;
            down[i] = g as i16;
            x += line.dx;
            y += line.dy;
        }
        let (across, g) = ([load_i16(&across[0]), load_i16(&across[1])], load_i16(&down));
        let upper = vsubq_s16(vdupq_n_s16(16_384), g);
        for (out, plane) in out.iter_mut().zip(planes) {
            // SAFETY: the assertion above keeps all four neighbors of each pixel inside `samples`, which the plane has.
            let (above, below) =
                unsafe { (gather_pairs(plane, &offsets), gather_pairs(&plane[window.width..], &offsets)) };
            let (above, below) = (lerp_pairs(above, across), lerp_pairs(below, across));
            let low = vmull_s16(vget_low_s16(above), vget_low_s16(upper));
            let low = vmlal_s16(low, vget_low_s16(below), vget_low_s16(g));
            let high = vmlal_high_s16(vmull_high_s16(above, upper), below, g);
            let packed = vrshrn_high_n_s32::<14>(vrshrn_n_s32::<14>(low), high);
            store_i16((&mut out[at..][..8]).try_into().expect("8 long"), packed);
        }
    }
}

/// Eight pairs of neighbors.
///
/// # Safety
/// The values at the offsets and the next ones are inside the plane.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn gather_pairs(plane: &[i16], offsets: &[usize; 8]) -> [int16x8_t; 2] {
    let mut pairs = [0i32; 8];
    for (pair, &offset) in pairs.iter_mut().zip(offsets) {
        // SAFETY: the caller's promise.
        *pair = unsafe { plane.as_ptr().add(offset).cast::<i32>().read_unaligned() };
    }
    // SAFETY: 32 bytes are readable.
    let [low, high] = unsafe { [vld1q_s32(pairs.as_ptr()), vld1q_s32(pairs[4..].as_ptr())] };
    [vreinterpretq_s16_s32(low), vreinterpretq_s16_s32(high)]
}

/// Pairs of neighbors times pairs of 14-bit weights.
#[inline]
#[target_feature(enable = "neon")]
fn lerp_pairs(pairs: [int16x8_t; 2], weights: [int16x8_t; 2]) -> int16x8_t {
    let mut sums = [vdupq_n_s32(0); 2];
    for i in 0..2 {
        let first = vmull_s16(vget_low_s16(pairs[i]), vget_low_s16(weights[i]));
        sums[i] = vpaddq_s32(first, vmull_high_s16(pairs[i], weights[i]));
    }
    vrshrn_high_n_s32::<14>(vrshrn_n_s32::<14>(sums[0]), sums[1])
}

/// [`ElementWriter::write_transposed`], in blocks of 16 by 16 that are transposed in registers if elements are single bytes.
#[target_feature(enable = "neon")]
pub(super) fn write_transposed(
    writer: &ElementWriter,
    tile: TransposeTile<'_>,
    channels: Channels,
    slot: &mut OutputSlot<'_>,
    strides: OutputStrides,
    j: usize,
) {
    let packed = slot.channel_stride == 1 && strides.step_j.unsigned_abs() == 3;
    let apart = strides.step_j.unsigned_abs() == 1;
    let blocks = tile.width / TRANSPOSE_ROWS;
    if writer.dtype() != Dtype::U8
        || channels != Channels::Three
        || tile.rows != TRANSPOSE_ROWS
        || blocks == 0
        || !(packed || apart)
    {
        return writer.write_transposed(tile, channels, slot, strides, j);
    }
    // The offset of the row that comes first in the slot.
    let backwards = strides.step_j < 0;
    let first_row = if backwards { j + TRANSPOSE_ROWS - 1 } else { j };
    let origin = strides.origin + first_row as isize * strides.step_j;
    let width = tile.width;
    for block in 0..=blocks {
        // The last block ends at the frame's edge and writes some columns twice.
        let left = (block * TRANSPOSE_ROWS).min(width - TRANSPOSE_ROWS);
        let [r, g, b] = &tile.rgb;
        let r = transpose_16x16(&r[left..], width, backwards);
        let g = transpose_16x16(&g[left..], width, backwards);
        let b = transpose_16x16(&b[left..], width, backwards);
        for i in 0..TRANSPOSE_ROWS {
            let at = (origin + (left + i) as isize * strides.step_i) as usize;
            if packed {
                let out = (&mut slot.data[at..][..48]).try_into().expect("48 long");
                store_packed(out, [r[i], g[i], b[i]]);
            } else {
                let far = slot.channel_stride;
                store_bytes((&mut slot.data[at..][..16]).try_into().expect("16 long"), r[i]);
                store_bytes((&mut slot.data[at + far..][..16]).try_into().expect("16 long"), g[i]);
                store_bytes((&mut slot.data[at + 2 * far..][..16]).try_into().expect("16 long"), b[i]);
            }
        }
    }
}

/// 16 rows of 16 bytes as 16 columns, from top to bottom or from bottom to top.
#[inline]
#[target_feature(enable = "neon")]
fn transpose_16x16(rows: &[u8], stride: usize, backwards: bool) -> [uint8x16_t; 16] {
    let mut block = [vdupq_n_u8(0); 16];
    for (row, to) in block.iter_mut().enumerate() {
        let row = if backwards { 15 - row } else { row };
        *to = load_u8(rows[row * stride..][..16].try_into().expect("16 long"));
    }
    // Interleaving row k with row k + 8 four times exchanges rows and columns.
    for _ in 0..4 {
        let before = block;
        for k in 0..8 {
            block[2 * k] = vzip1q_u8(before[k], before[k + 8]);
            block[2 * k + 1] = vzip2q_u8(before[k], before[k + 8]);
        }
    }
    block
}
