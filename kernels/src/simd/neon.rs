//! The row functions with NEON intrinsics, where the compiler's own vectors are slower. Values
//! equal the plain functions. No access is outside the given slices. Sums are exact in 32 bits, so
//! their order does not matter.

#![allow(unsafe_code)]

pub(super) mod elements;
pub(super) mod horizontal;
pub(super) mod vertical;

use std::arch::aarch64::*;
use std::arch::asm;

use crate::color::{self, FrameCoefficients};
use crate::types::{Channels, OutputStrides};
use crate::warp::{self, WarpRow, WindowPlanes};
use crate::write::{Dtype, ElementWriter, OutputSlot, TRANSPOSE_ROWS, TransposeTile};

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

/// A color of 8 or 16 bits.
trait Code: Copy {
    fn load(from: &[Self; 8]) -> uint16x8_t;
}

impl Code for u8 {
    #[inline(always)]
    fn load(from: &[Self; 8]) -> uint16x8_t {
        // SAFETY: every AArch64 processor has NEON.
        unsafe { vmovl_u8(load_u8_half(from)) }
    }
}

impl Code for u16 {
    #[inline(always)]
    fn load(from: &[Self; 8]) -> uint16x8_t {
        // SAFETY: every AArch64 processor has NEON, and 16 bytes are readable.
        unsafe { vld1q_u16(from.as_ptr()) }
    }
}

/// Half precision, rounded to nearest even. The intrinsics of these instructions need a newer
/// compiler.
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

/// The factors of [`unscaled_row`], and the sample of black.
struct SampleFactors {
    zero: uint8x8_t,
    luma: i16,
    v_to_r: i16,
    u_to_g: i16,
    v_to_g: i16,
    u_to_b: i16,
}

impl SampleFactors {
    #[inline]
    #[target_feature(enable = "neon")]
    fn new(colors: &FrameCoefficients) -> Self {
        let [luma, v_to_r, u_to_g, v_to_g, u_to_b] = colors.sparse_factors();
        // Components of 8-bit samples are samples times 128.
        Self {
            zero: vdup_n_u8((colors.zero()[0] >> 7) as u8),
            luma,
            v_to_r,
            u_to_g,
            v_to_g,
            u_to_b,
        }
    }
}

/// A row of 8-bit Y, U, V whose chroma has half the width, directly to R, G, B: equals filtering,
/// repeating and [`yuv_row`](crate::color::yuv_row), without the intermediate rows.
#[target_feature(enable = "neon")]
pub(super) fn unscaled_row(rgb: [&mut [u8]; 3], yuv: [&[u8]; 3], colors: &FrameCoefficients) {
    let [r, g, b] = rgb;
    let groups = whole_groups(yuv);
    let y = &yuv[0].as_chunks::<16>().0[..groups];
    let [u, v] = [yuv[1], yuv[2]].map(|samples| &samples.as_chunks::<8>().0[..groups]);
    let f = SampleFactors::new(colors);
    let red = &mut r.as_chunks_mut::<16>().0[..groups];
    let green = &mut g.as_chunks_mut::<16>().0[..groups];
    let blue = &mut b.as_chunks_mut::<16>().0[..groups];
    for i in 0..groups {
        let colors = unscaled_group(&y[i], &u[i], &v[i], &f);
        store_bytes(&mut red[i], colors[0]);
        store_bytes(&mut green[i], colors[1]);
        store_bytes(&mut blue[i], colors[2]);
    }
    color::unscaled_row_from(16 * groups, [r, g, b], yuv, colors);
}

/// [`unscaled_row`] directly to interleaved R, G, B.
#[target_feature(enable = "neon")]
pub(super) fn unscaled_packed(
    out: &mut [u8],
    yuv: [&[u8]; 3],
    colors: &FrameCoefficients,
    _streaming: bool,
) {
    let groups = whole_groups(yuv);
    let y = &yuv[0].as_chunks::<16>().0[..groups];
    let [u, v] = [yuv[1], yuv[2]].map(|samples| &samples.as_chunks::<8>().0[..groups]);
    let f = SampleFactors::new(colors);
    let packed = &mut out.as_chunks_mut::<48>().0[..groups];
    for i in 0..groups {
        store_packed(&mut packed[i], unscaled_group(&y[i], &u[i], &v[i], &f));
    }
    color::unscaled_packed_from(16 * groups, out, yuv, colors);
}

/// The number of whole groups of 16 pixels.
fn whole_groups([y, u, v]: [&[u8]; 3]) -> usize {
    (y.len() / 16).min(u.len() / 8).min(v.len() / 8)
}

/// 16 pixels of [`unscaled_row`].
#[inline]
#[target_feature(enable = "neon")]
fn unscaled_group(y: &[u8; 16], u: &[u8; 8], v: &[u8; 8], f: &SampleFactors) -> [uint8x16_t; 3] {
    let y = load_u8(y);
    let (y0, y1) = (
        difference(vget_low_u8(y), f.zero),
        difference(vget_high_u8(y), f.zero),
    );
    let (u, v) = (load_u8_half(u), load_u8_half(v));
    let (u, v) = (difference(u, vdup_n_u8(128)), difference(v, vdup_n_u8(128)));
    let light = [
        vmull_n_s16(vget_low_s16(y0), f.luma),
        vmull_high_n_s16(y0, f.luma),
        vmull_n_s16(vget_low_s16(y1), f.luma),
        vmull_high_n_s16(y1, f.luma),
    ];
    let red = [
        vmull_n_s16(vget_low_s16(v), f.v_to_r),
        vmull_high_n_s16(v, f.v_to_r),
    ];
    let green = [
        vmull_n_s16(vget_low_s16(u), f.u_to_g),
        vmull_high_n_s16(u, f.u_to_g),
    ];
    let green = [
        vmlal_n_s16(green[0], vget_low_s16(v), f.v_to_g),
        vmlal_high_n_s16(green[1], v, f.v_to_g),
    ];
    let blue = [
        vmull_n_s16(vget_low_s16(u), f.u_to_b),
        vmull_high_n_s16(u, f.u_to_b),
    ];
    [
        unscaled_channel(&light, red),
        unscaled_channel(&light, green),
        unscaled_channel(&light, blue),
    ]
}

/// Samples minus their zero, times 8: as factors have 13 bits of fraction, results are the upper
/// halves of sums of products.
#[inline]
#[target_feature(enable = "neon")]
fn difference(samples: uint8x8_t, zero: uint8x8_t) -> int16x8_t {
    vshlq_n_s16::<3>(vreinterpretq_s16_u16(vsubl_u8(samples, zero)))
}

/// One channel of [`unscaled_group`]: luma plus the contributions of eight chroma samples, each
/// repeated, rounded and clamped.
#[inline]
#[target_feature(enable = "neon")]
fn unscaled_channel(light: &[int32x4_t; 4], [first, second]: [int32x4_t; 2]) -> uint8x16_t {
    let low = vraddhn_s32(light[0], vzip1q_s32(first, first));
    let low = vraddhn_high_s32(low, light[1], vzip2q_s32(first, first));
    let high = vraddhn_s32(light[2], vzip1q_s32(second, second));
    let high = vraddhn_high_s32(high, light[3], vzip2q_s32(second, second));
    vqmovun_high_s16(vqmovun_s16(low), high)
}

/// Interleaves R, G, B rows.
#[inline]
#[target_feature(enable = "neon")]
fn interleave(out: &mut [u8], rgb: [&[u8]; 3]) {
    let groups = out.len() / 48;
    let [r, g, b] = rgb.map(|row| &row.as_chunks::<16>().0[..groups]);
    for (i, out) in out.as_chunks_mut::<48>().0.iter_mut().enumerate() {
        store_packed(out, [load_u8(&r[i]), load_u8(&g[i]), load_u8(&b[i])]);
    }
    for (i, pixel) in out
        .as_chunks_mut::<3>()
        .0
        .iter_mut()
        .enumerate()
        .skip(16 * groups)
    {
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
            assert!(
                column + 1 < window.width && row + 1 < window.height,
                "inside the window"
            );
            offsets[i] = row * window.width + column;
            across[i / 4][2 * (i % 4)] = 16_384 - f as i16;
            across[i / 4][2 * (i % 4) + 1] = f as i16;
            down[i] = g as i16;
            x += line.dx;
            y += line.dy;
        }
        let (across, g) = (
            [load_i16(&across[0]), load_i16(&across[1])],
            load_i16(&down),
        );
        let upper = vsubq_s16(vdupq_n_s16(16_384), g);
        for (out, plane) in out.iter_mut().zip(planes) {
            // SAFETY: the assertion above keeps all four neighbors of each pixel inside `samples`,
            // which the plane has.
            let (above, below) = unsafe {
                (
                    gather_pairs(plane, &offsets),
                    gather_pairs(&plane[window.width..], &offsets),
                )
            };
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

/// [`ElementWriter::write_transposed`], in blocks of 16 by 16 that are transposed in registers if
/// elements are single bytes.
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
                store_bytes(
                    (&mut slot.data[at..][..16]).try_into().expect("16 long"),
                    r[i],
                );
                store_bytes(
                    (&mut slot.data[at + far..][..16])
                        .try_into()
                        .expect("16 long"),
                    g[i],
                );
                store_bytes(
                    (&mut slot.data[at + 2 * far..][..16])
                        .try_into()
                        .expect("16 long"),
                    b[i],
                );
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
