//! The row functions with x86 intrinsics, where the compiler does not find them itself. Values
//! equal the plain functions. No access is outside the given slices. Sums are exact in 32 bits, so
//! their order does not matter.

#![allow(unsafe_code)]

pub(super) mod elements;
pub(super) mod horizontal;
pub(super) mod vertical;

use std::arch::x86_64::*;

use crate::color::{self, FrameCoefficients};
use crate::types::{Channels, OutputStrides};
use crate::warp::{self, WarpRow, WindowPlanes};
use crate::write::{Dtype, ElementWriter, OutputSlot, TRANSPOSE_ROWS, TransposeTile};

#[inline]
#[target_feature(enable = "avx2")]
fn load_u8(from: &[u8; 32]) -> __m256i {
    // SAFETY: 32 bytes are readable, and the load has no alignment.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_i16(to: &mut [i16; 16], value: __m256i) {
    // SAFETY: 32 bytes are writable, and the store has no alignment.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), value) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_u8(to: &mut [u8; 32], value: __m256i) {
    // SAFETY: 32 bytes are writable, and the store has no alignment.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), value) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_i16(from: &[i16; 16]) -> __m256i {
    // SAFETY: 32 bytes are readable, and the load has no alignment.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

/// Two weights interleaved, repeated to fill the register: for products of two interleaved rows.
#[inline]
#[target_feature(enable = "avx2")]
fn weight_pair(first: i16, second: i16) -> __m256i {
    _mm256_set1_epi32(i32::from(first) & 0xFFFF | i32::from(second) << 16)
}

/// Two registers of sums as 16-bit words, at most 32767: in each half those of `low` come first.
/// `CLAMP`: at least 0.
#[inline]
#[target_feature(enable = "avx2")]
fn narrow<const CLAMP: bool>(low: __m256i, high: __m256i) -> __m256i {
    let packed = _mm256_packs_epi32(low, high);
    if CLAMP {
        _mm256_max_epi16(packed, _mm256_setzero_si256())
    } else {
        packed
    }
}

/// The factors of [`unscaled_row`], each broadcast to every lane.
struct BroadcastFactors {
    zero: __m256i,
    luma: __m256i,
    v_to_r: __m256i,
    uv_to_g: __m256i,
    u_to_b: __m256i,
}

impl BroadcastFactors {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(colors: &FrameCoefficients) -> Self {
        let [luma, v_to_r, u_to_g, v_to_g, u_to_b] = colors.sparse_factors();
        Self {
            zero: _mm256_set1_epi16(colors.zero()[0]),
            luma: weight_pair(luma, 0),
            v_to_r: weight_pair(0, v_to_r),
            uv_to_g: weight_pair(u_to_g, v_to_g),
            u_to_b: weight_pair(u_to_b, 0),
        }
    }
}

/// A row of 8-bit Y, U, V whose chroma has half the width, directly to R, G, B: equals filtering,
/// repeating and [`yuv_row`](crate::color::yuv_row), without the intermediate rows.
#[target_feature(enable = "avx2")]
pub(super) fn unscaled_row(rgb: [&mut [u8]; 3], yuv: [&[u8]; 3], colors: &FrameCoefficients) {
    let [r, g, b] = rgb;
    let [y, u, v] = yuv;
    let whole = y.len().min(2 * u.len()).min(2 * v.len()) / 32 * 32;
    let f = BroadcastFactors::new(colors);
    color::unscaled_row_from(whole, [&mut *r, &mut *g, &mut *b], yuv, colors);
    for at in (0..whole).step_by(32) {
        let y = load_u8(y[at..][..32].try_into().expect("32 long"));
        let u16s: &[u8; 16] = u[at / 2..][..16].try_into().expect("16 long");
        let v16s: &[u8; 16] = v[at / 2..][..16].try_into().expect("16 long");
        let [red, green, blue] = unscaled_group(y, u16s, v16s, &f);
        store_u8((&mut r[at..][..32]).try_into().expect("32 long"), red);
        store_u8((&mut g[at..][..32]).try_into().expect("32 long"), green);
        store_u8((&mut b[at..][..32]).try_into().expect("32 long"), blue);
    }
}

/// [`unscaled_row`] directly to interleaved R, G, B.
#[target_feature(enable = "avx2")]
pub(super) fn unscaled_packed(
    out: &mut [u8],
    yuv: [&[u8]; 3],
    colors: &FrameCoefficients,
    streaming: bool,
) {
    if streaming && elements::has_whole_lines(out) {
        unscaled_packed_blocks::<true>(out, yuv, colors);
    } else {
        unscaled_packed_blocks::<false>(out, yuv, colors);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn unscaled_packed_blocks<const STREAMING: bool>(
    out: &mut [u8],
    yuv: [&[u8]; 3],
    colors: &FrameCoefficients,
) {
    let [y, u, v] = yuv;
    let whole = y.len().min(2 * u.len()).min(2 * v.len()) / 32 * 32;
    let f = BroadcastFactors::new(colors);
    for at in (0..whole).step_by(32) {
        let y = load_u8(y[at..][..32].try_into().expect("32 long"));
        let u16s: &[u8; 16] = u[at / 2..][..16].try_into().expect("16 long");
        let v16s: &[u8; 16] = v[at / 2..][..16].try_into().expect("16 long");
        let [red, green, blue] = unscaled_group(y, u16s, v16s, &f);
        let out = (&mut out[3 * at..][..96]).try_into().expect("96 long");
        store_packed::<STREAMING>(out, red, green, blue);
    }
    color::unscaled_packed_from(whole, out, yuv, colors);
}

/// 32 pixels of [`unscaled_row`].
#[inline]
#[target_feature(enable = "avx2")]
fn unscaled_group(y: __m256i, u: &[u8; 16], v: &[u8; 16], f: &BroadcastFactors) -> [__m256i; 3] {
    let nothing = _mm256_setzero_si256();
    let (u, v) = (chroma(u), chroma(v));
    // (u, v) pairs of samples 0-3 | 8-11 and 4-7 | 12-15.
    let (first, second) = (_mm256_unpacklo_epi16(u, v), _mm256_unpackhi_epi16(u, v));
    // Luma of 16 pixels as (y, 0) pairs, in the order of the chroma: each 32-bit lane meets its
    // chroma twice. Pixels 0-7 | 16-23 belong to chroma 0-3 | 8-11, pixels 8-15 | 24-31 to 4-7 |
    // 12-15.
    let even = _mm256_sub_epi16(
        _mm256_slli_epi16::<7>(_mm256_unpacklo_epi8(y, nothing)),
        f.zero,
    );
    let odd = _mm256_sub_epi16(
        _mm256_slli_epi16::<7>(_mm256_unpackhi_epi8(y, nothing)),
        f.zero,
    );
    let light = [
        _mm256_madd_epi16(_mm256_unpacklo_epi16(even, nothing), f.luma),
        _mm256_madd_epi16(_mm256_unpackhi_epi16(even, nothing), f.luma),
        _mm256_madd_epi16(_mm256_unpacklo_epi16(odd, nothing), f.luma),
        _mm256_madd_epi16(_mm256_unpackhi_epi16(odd, nothing), f.luma),
    ];
    [
        unscaled_channel(&light, first, second, f.v_to_r),
        unscaled_channel(&light, first, second, f.uv_to_g),
        unscaled_channel(&light, first, second, f.u_to_b),
    ]
}

/// Chroma components minus their zero: (sample - 128) * 128.
#[inline]
#[target_feature(enable = "avx2")]
fn chroma(samples: &[u8; 16]) -> __m256i {
    // SAFETY: 16 bytes are readable, and the load has no alignment.
    let samples = unsafe { _mm_loadu_si128(samples.as_ptr().cast()) };
    _mm256_slli_epi16::<7>(_mm256_sub_epi16(
        _mm256_cvtepu8_epi16(samples),
        _mm256_set1_epi16(128),
    ))
}

/// One channel of [`unscaled_group`]: luma plus the contribution of (u, v) pairs, rounded and
/// clamped.
#[inline]
#[target_feature(enable = "avx2")]
fn unscaled_channel(
    light: &[__m256i; 4],
    first: __m256i,
    second: __m256i,
    factors: __m256i,
) -> __m256i {
    let half = _mm256_set1_epi32(1 << 19);
    let first = _mm256_add_epi32(_mm256_madd_epi16(first, factors), half);
    let second = _mm256_add_epi32(_mm256_madd_epi16(second, factors), half);
    // Chroma 0, 0, 1, 1 and 2, 2, 3, 3 of each half.
    let a = _mm256_add_epi32(light[0], _mm256_unpacklo_epi32(first, first));
    let b = _mm256_add_epi32(light[1], _mm256_unpackhi_epi32(first, first));
    let c = _mm256_add_epi32(light[2], _mm256_unpacklo_epi32(second, second));
    let d = _mm256_add_epi32(light[3], _mm256_unpackhi_epi32(second, second));
    _mm256_packus_epi16(
        _mm256_packs_epi32(_mm256_srai_epi32::<20>(a), _mm256_srai_epi32::<20>(b)),
        _mm256_packs_epi32(_mm256_srai_epi32::<20>(c), _mm256_srai_epi32::<20>(d)),
    )
}

/// Interleaves R, G, B rows.
#[target_feature(enable = "avx2")]
fn interleave(out: &mut [u8], rgb: [&[u8]; 3]) {
    let [r, g, b] = rgb;
    let whole = r.len() / 32 * 32;
    for at in (0..whole).step_by(32) {
        let r = load_u8(r[at..][..32].try_into().expect("32 long"));
        let g = load_u8(g[at..][..32].try_into().expect("32 long"));
        let b = load_u8(b[at..][..32].try_into().expect("32 long"));
        store_packed::<false>(
            (&mut out[3 * at..][..96]).try_into().expect("96 long"),
            r,
            g,
            b,
        );
    }
    for i in whole..r.len() {
        out[3 * i..][..3].copy_from_slice(&rgb.map(|row| row[i]));
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_packed<const STREAMING: bool>(out: &mut [u8; 96], r: __m256i, g: __m256i, b: __m256i) {
    let (first, rest) = out.split_at_mut(32);
    let (second, third) = rest.split_at_mut(32);
    // Each contains a third of pixels 0-15 in its low half and of 16-31 in its high half.
    let (x, y, z) = (
        interleave_third(r, g, b, 0),
        interleave_third(r, g, b, 1),
        interleave_third(r, g, b, 2),
    );
    elements::store::<STREAMING>(
        first.try_into().expect("32 long"),
        _mm256_permute2x128_si256::<0x20>(x, y),
    );
    elements::store::<STREAMING>(
        second.try_into().expect("32 long"),
        _mm256_permute2x128_si256::<0x30>(z, x),
    );
    elements::store::<STREAMING>(
        third.try_into().expect("32 long"),
        _mm256_permute2x128_si256::<0x31>(y, z),
    );
}

/// For each 16 bytes of three times 16 pixels, the positions of the bytes of R, G, B; -1 gives
/// zero.
#[rustfmt::skip]
static INTERLEAVE_SHUFFLES: [[[i8; 16]; 3]; 3] = [
    [
        [0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5],
        [-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1],
        [-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1],
    ],
    [
        [-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1],
        [5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10],
        [-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1],
    ],
    [
        [-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1],
        [-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1],
        [10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15],
    ],
];

/// The `part`th 16 bytes of each half's 16 pixels.
#[inline]
#[target_feature(enable = "avx2")]
fn interleave_third(r: __m256i, g: __m256i, b: __m256i, part: usize) -> __m256i {
    let [red, green, blue] = &INTERLEAVE_SHUFFLES[part];
    let red = _mm256_shuffle_epi8(r, load_shuffle(red));
    let green = _mm256_shuffle_epi8(g, load_shuffle(green));
    let blue = _mm256_shuffle_epi8(b, load_shuffle(blue));
    _mm256_or_si256(_mm256_or_si256(red, green), blue)
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_shuffle(shuffle: &[i8; 16]) -> __m256i {
    // SAFETY: 16 bytes are readable, and the load has no alignment.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(shuffle.as_ptr().cast()) })
}

/// [`warp::bilinear_row`](crate::warp::bilinear_row), eight pixels at a time.
#[target_feature(enable = "avx2")]
pub(super) fn bilinear_row(
    mut out: [&mut [i16]; 3],
    window: &WindowPlanes<'_>,
    line: &WarpRow,
    first: usize,
    components: usize,
) {
    let samples = window.width * window.height;
    let planes = &window.planes[..components];
    // Gathers take 32-bit offsets of two neighbors, 16 bits each.
    let fits = samples <= i32::MAX as usize && planes.iter().all(|plane| plane.len() >= samples);
    let whole = if fits { out[0].len() / 8 * 8 } else { 0 };
    let rest = out.each_mut().map(|row| &mut row[whole..]);
    warp::bilinear_row(rest, window, line, first + whole, components);
    let (mut x, mut y) = line.at(first);
    for at in (0..whole).step_by(8) {
        let mut offsets = [0i32; 8];
        let mut across = [0i32; 8];
        let mut down = [0i32; 8];
        for i in 0..8 {
            let (column, row, f, g) = crate::warp::split(x, y);
            assert!(
                column + 1 < window.width && row + 1 < window.height,
                "inside the window"
            );
            offsets[i] = (row * window.width + column) as i32;
            across[i] = (16_384 - f) | f << 16;
            down[i] = (16_384 - g) | g << 16;
            x += line.dx;
            y += line.dy;
        }
        let (offsets, across, down) = (load_i32(&offsets), load_i32(&across), load_i32(&down));
        let below = _mm256_add_epi32(offsets, _mm256_set1_epi32(window.width as i32));
        for (out, plane) in out.iter_mut().zip(planes) {
            // SAFETY: the assertion above keeps all four neighbors of each pixel inside `samples`,
            // which holds the plane; two 16-bit neighbors are the 32 bits that are gathered.
            let (above, below) = unsafe {
                (
                    _mm256_i32gather_epi32::<2>(plane.as_ptr().cast(), offsets),
                    _mm256_i32gather_epi32::<2>(plane.as_ptr().cast(), below),
                )
            };
            let (above, below) = (lerp_pairs(above, across), lerp_pairs(below, across));
            // Components are 15 bits, so both fit one 32-bit lane.
            let sums = lerp_pairs(_mm256_or_si256(above, _mm256_slli_epi32::<16>(below)), down);
            let packed = _mm256_permute4x64_epi64::<0b1000>(_mm256_packs_epi32(sums, sums));
            let out: &mut [i16; 8] = (&mut out[at..][..8]).try_into().expect("8 long");
            // SAFETY: 16 bytes are writable, and the store has no alignment.
            unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), _mm256_castsi256_si128(packed)) };
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_i32(from: &[i32; 8]) -> __m256i {
    // SAFETY: 32 bytes are readable, and the load has no alignment.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

/// Pairs of neighbors times pairs of 14-bit weights.
#[inline]
#[target_feature(enable = "avx2")]
fn lerp_pairs(pairs: __m256i, weights: __m256i) -> __m256i {
    _mm256_srai_epi32::<14>(_mm256_add_epi32(
        _mm256_madd_epi16(pairs, weights),
        _mm256_set1_epi32(1 << 13),
    ))
}

/// Pixels that [`write_row`] interleaves at a time: a multiple of 32 whose elements fill whole
/// vectors for all dtypes.
const INTERLEAVED_PIXELS: usize = 256;

/// [`ElementWriter::write_row`], with consecutive elements computed instead of looked up, and R, G,
/// B interleaved by shuffles.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn write_row(
    writer: &ElementWriter,
    mut rgb: [&mut [u8]; 3],
    channels: Channels,
    slot: &mut OutputSlot<'_>,
    strides: OutputStrides,
    j: usize,
) {
    let length = rgb[0].len();
    let packed = channels == Channels::Three && slot.channel_stride == 1;
    if writer.dtype() == Dtype::U8 && !strides.streaming {
        return match strides.forward(j, length) {
            Some(origin) if packed && strides.step_i == 3 => {
                interleave(&mut slot.data[origin..][..3 * length], rgb.map(|row| &*row))
            }
            // The compiler's own vectors are as fast for these.
            _ => writer.write_row(rgb, channels, slot, strides, j),
        };
    }
    let strides = if strides.step_i < 0 {
        strides.reversed(&mut rgb)
    } else {
        strides
    };
    let Some(origin) = strides.forward(j, length) else {
        return writer.write_row(rgb, channels, slot, strides, j);
    };
    let (size, streaming) = (writer.dtype().bytes(), strides.streaming);
    match strides.step_i {
        3 if packed => {
            let rgb = rgb.map(|row| &*row);
            let out = &mut slot.data[origin * size..][..3 * length * size];
            let mut codes = [0; 3 * INTERLEAVED_PIXELS];
            for (part, out) in out.chunks_mut(3 * INTERLEAVED_PIXELS * size).enumerate() {
                let first = part * INTERLEAVED_PIXELS;
                let last = length.min(first + INTERLEAVED_PIXELS);
                let codes = &mut codes[..3 * (last - first)];
                interleave(codes, rgb.map(|row| &row[first..last]));
                elements::write_codes(writer, codes, (0, 3), out, streaming);
            }
        }
        1 => {
            for (channel, row) in rgb.into_iter().enumerate().take(channels.count()) {
                let first = (origin + channel * slot.channel_stride) * size;
                let out = &mut slot.data[first..][..length * size];
                elements::write_codes(writer, row, (channel, 1), out, streaming);
            }
        }
        _ => writer.write_row(rgb, channels, slot, strides, j),
    }
}

/// [`ElementWriter::write_transposed`], in blocks of 16 by 16 that are transposed in registers if
/// elements are single bytes.
#[target_feature(enable = "avx2,fma")]
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
                let out: &mut [u8; 48] = (&mut slot.data[at..][..48]).try_into().expect("48 long");
                let (wide_r, wide_g, wide_b) = (
                    _mm256_castsi128_si256(r[i]),
                    _mm256_castsi128_si256(g[i]),
                    _mm256_castsi128_si256(b[i]),
                );
                for part in 0..3 {
                    let out: &mut [u8; 16] =
                        (&mut out[16 * part..][..16]).try_into().expect("16 long");
                    store_u8_half(
                        out,
                        _mm256_castsi256_si128(interleave_third(wide_r, wide_g, wide_b, part)),
                    );
                }
            } else {
                let far = slot.channel_stride;
                store_u8_half(
                    (&mut slot.data[at..][..16]).try_into().expect("16 long"),
                    r[i],
                );
                store_u8_half(
                    (&mut slot.data[at + far..][..16])
                        .try_into()
                        .expect("16 long"),
                    g[i],
                );
                store_u8_half(
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
#[target_feature(enable = "avx2")]
fn transpose_16x16(rows: &[u8], stride: usize, backwards: bool) -> [__m128i; 16] {
    let mut block = [_mm_setzero_si128(); 16];
    for (row, to) in block.iter_mut().enumerate() {
        let row = if backwards { 15 - row } else { row };
        let from: &[u8; 16] = rows[row * stride..][..16].try_into().expect("16 long");
        // SAFETY: 16 bytes are readable, and the load has no alignment.
        *to = unsafe { _mm_loadu_si128(from.as_ptr().cast()) };
    }
    // Interleaving row k with row k + 8 four times exchanges rows and columns.
    for _ in 0..4 {
        let before = block;
        for k in 0..8 {
            block[2 * k] = _mm_unpacklo_epi8(before[k], before[k + 8]);
            block[2 * k + 1] = _mm_unpackhi_epi8(before[k], before[k + 8]);
        }
    }
    block
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_u8_half(to: &mut [u8; 16], value: __m128i) {
    // SAFETY: 16 bytes are writable, and the store has no alignment.
    unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), value) }
}
