//! Writes rows of 8-bit or 16-bit R, G, B in stored order to the slot, with dtype, normalization
//! and layout. For 8-bit colors a dtype is a table of 256 elements per channel, so all dtypes are
//! exact and share one writer.

mod factors;

pub(crate) use factors::{ColorFactors, LaneFactors};
use half::{bf16, f16};

use crate::error::PassError;
use crate::types::{Channels, OutputStrides};

/// Type of the elements of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// 0 to 255.
    U8,
    /// 0 to 1, or normalized; IEEE half precision. Native byte order, like the other floats.
    F16,
    /// As `F16`, with the exponent of `F32` and 8 bits of significand.
    BF16,
    /// As `F16`, in single precision.
    F32,
    /// 0 to 65535; 65535 is white for every depth of the source. Native byte order.
    U16,
}

/// `(value - mean) / std` on values from 0 to 1, per channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalize {
    /// R, G, B.
    pub mean: [f32; 3],
    /// R, G, B.
    pub std: [f32; 3],
}

/// The destination of a frame: the bytes from its element (0, 0, 0), and its strides in elements.
#[derive(Debug)]
pub struct OutputSlot<'a> {
    /// At least up to the end of the last element.
    pub data: &'a mut [u8],
    pub channel_stride: usize,
    pub row_stride: usize,
    pub column_stride: usize,
}

impl Dtype {
    /// Size of an element in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::F16 | Self::BF16 | Self::U16 => 2,
            Self::F32 => 4,
        }
    }

    /// Whether elements are integers.
    pub const fn is_integer(self) -> bool {
        matches!(self, Self::U8 | Self::U16)
    }

    /// Whether elements of frames of this depth are computed from 16-bit colors rather than from
    /// 8-bit ones. The result of tone mapping has 15 bits.
    pub(crate) const fn uses_16_bit(self, depth_bits: u8) -> bool {
        match self {
            Self::U8 => false,
            Self::U16 => true,
            Self::F16 | Self::BF16 | Self::F32 => depth_bits > 8,
        }
    }
}

impl Normalize {
    /// Scale and bias of a channel: an element is `fma(code_value, scale, bias)`.
    pub(crate) fn scale_and_bias(normalize: Option<Self>, channel: usize) -> (f32, f32) {
        let (mean, std) = normalize.map_or((0.0, 1.0), |n| {
            (f64::from(n.mean[channel]), f64::from(n.std[channel]))
        });
        ((1.0 / (255.0 * std)) as f32, (-mean / std) as f32)
    }

    /// The same for 16-bit colors.
    pub(crate) fn scale_and_bias_u16(normalize: Option<Self>, channel: usize) -> (f32, f32) {
        let std = normalize.map_or(1.0, |n| f64::from(n.std[channel]));
        (
            (1.0 / (65_535.0 * std)) as f32,
            Self::scale_and_bias(normalize, channel).1,
        )
    }

    fn check(&self) -> Result<(), PassError> {
        for channel in 0..3 {
            let (mean, std) = (self.mean[channel], self.std[channel]);
            let (scale, bias) = Self::scale_and_bias(Some(*self), channel);
            let is_valid = mean.is_finite() && std.is_finite() && std > 0.0;
            if !(is_valid && (255.0 * scale).is_finite() && bias.is_finite()) {
                return Err(PassError::InvalidNormalize { channel, mean, std });
            }
        }
        Ok(())
    }
}

impl<'a> OutputSlot<'a> {
    /// Channels last, rows of `width` pixels: a frame of NTHWC.
    pub fn hwc(data: &'a mut [u8], width: usize) -> Self {
        Self {
            data,
            channel_stride: 1,
            row_stride: width.saturating_mul(3),
            column_stride: 3,
        }
    }

    /// Channels first: a frame of NTCHW.
    pub fn chw(data: &'a mut [u8], width: usize, height: usize) -> Self {
        Self {
            data,
            channel_stride: width.saturating_mul(height),
            row_stride: width,
            column_stride: 1,
        }
    }

    /// The same addresses, with unused strides (of single rows, columns, channels) set to 1.
    pub(crate) fn with_unit_strides(
        &mut self,
        (width, height): (u32, u32),
        channels: Channels,
    ) -> OutputSlot<'_> {
        let stride = |stride: usize, length: usize| if length > 1 { stride } else { 1 };
        OutputSlot {
            channel_stride: stride(self.channel_stride, channels.count()),
            row_stride: stride(self.row_stride, height as usize),
            column_stride: stride(self.column_stride, width as usize),
            data: self.data,
        }
    }

    /// Checks that every element of a frame of this size has its own address inside `data`.
    pub(crate) fn check(
        &self,
        (width, height): (u32, u32),
        channels: Channels,
        dtype: Dtype,
    ) -> Result<(), PassError> {
        let need = self.required_bytes((width, height), channels, dtype)?;
        if need > self.data.len() as u128 {
            let need_bytes = u64::try_from(need).unwrap_or(u64::MAX);
            return Err(PassError::SlotTooShort {
                have_bytes: self.data.len(),
                need_bytes,
            });
        }
        Ok(())
    }

    /// Bytes up to the end of the last element, if no elements overlap.
    pub(crate) fn required_bytes(
        &self,
        (width, height): (u32, u32),
        channels: Channels,
        dtype: Dtype,
    ) -> Result<u128, PassError> {
        let mut axes = [
            (self.channel_stride, channels.count()),
            (self.row_stride, height as usize),
            (self.column_stride, width as usize),
        ];
        axes.sort_unstable();
        let mut last = 0u128;
        for (stride, length) in axes.into_iter().filter(|&(_, length)| length > 1) {
            if stride as u128 <= last {
                let Self {
                    channel_stride,
                    row_stride,
                    column_stride,
                    ..
                } = *self;
                return Err(PassError::SlotOverlaps {
                    channel_stride,
                    row_stride,
                    column_stride,
                });
            }
            last += stride as u128 * (length as u128 - 1);
        }
        Ok((last + 1) * dtype.bytes() as u128)
    }
}

/// Bytes of a frame, or of a clip that is expanded, from which its elements are stored past the
/// caches: a copy of this size would evict what the caches of a core hold, and every line would be
/// read before it is overwritten.
pub(crate) const STREAMING_BYTES: usize = 8 << 20;

/// The element of every code value of every channel.
type ElementTable<const BYTES: usize> = Box<[[[u8; BYTES]; 256]; 3]>;

/// A dtype with its normalisation.
#[derive(Clone, Debug)]
pub(crate) struct ElementWriter {
    dtype: Dtype,
    narrow: ColorFactors,
    /// For 16-bit colors.
    wide: ColorFactors,
    tables: ElementTables,
}

#[derive(Clone, Debug)]
enum ElementTables {
    U8,
    Bytes2(ElementTable<2>),
    Bytes4(ElementTable<4>),
}

/// One element's bytes; the dtype determines how many are used.
pub(crate) type Element = [u8; 4];

/// Standard deviation of the sum of four uniform 16-bit words, and their mean.
const NOISE_SCALE: f32 = 1.0 / 37_837.2;
const NOISE_SUM_MEAN: i32 = 131_070;

impl ElementWriter {
    pub(crate) fn new(dtype: Dtype, normalize: Option<Normalize>) -> Result<Self, PassError> {
        if let Some(normalize) = normalize {
            normalize.check()?;
            if dtype.is_integer() {
                return Err(PassError::NormalizeNeedsFloat);
            }
        }
        let tables = match dtype {
            Dtype::U8 => ElementTables::U8,
            Dtype::F16 => ElementTables::Bytes2(build_element_table(normalize, |value| {
                f16::from_f32(value).to_ne_bytes()
            })),
            Dtype::BF16 => ElementTables::Bytes2(build_element_table(normalize, |value| {
                bf16::from_f32(value).to_ne_bytes()
            })),
            Dtype::F32 => ElementTables::Bytes4(build_element_table(normalize, f32::to_ne_bytes)),
            Dtype::U16 => {
                let element_of_u8 = |code: usize| (257 * code as u16).to_ne_bytes();
                ElementTables::Bytes2(Box::new([std::array::from_fn(element_of_u8); 3]))
            }
        };
        let narrow = ColorFactors::new(|channel| Normalize::scale_and_bias(normalize, channel));
        let wide = ColorFactors::new(|channel| Normalize::scale_and_bias_u16(normalize, channel));
        Ok(Self {
            dtype,
            narrow,
            wide,
            tables,
        })
    }

    pub(crate) fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Scale and bias of the elements of a channel's 16-bit colors.
    pub(crate) fn scale_and_bias_u16(&self, channel: usize) -> (f32, f32) {
        self.wide.of_channel(channel)
    }

    /// The element of a code value.
    pub(crate) fn element_of_u8(&self, channel: usize, code: u8) -> Element {
        match &self.tables {
            ElementTables::U8 => [code, 0, 0, 0],
            ElementTables::Bytes2(table) => {
                let [a, b] = table[channel][usize::from(code)];
                [a, b, 0, 0]
            }
            ElementTables::Bytes4(table) => table[channel][usize::from(code)],
        }
    }

    /// The element of a 16-bit color.
    #[inline(always)]
    pub(crate) fn element_of_u16(&self, channel: usize, code: u16) -> Element {
        if self.dtype == Dtype::U16 {
            let [a, b] = code.to_ne_bytes();
            return [a, b, 0, 0];
        }
        let (scale, bias) = self.wide.of_channel(channel);
        self.element_of_f32(f32::from(code).mul_add(scale, bias))
    }

    /// Writes row j of 16-bit colors.
    #[inline(always)]
    pub(crate) fn write_row_u16(
        &self,
        rgb: [&[u16]; 3],
        channels: Channels,
        slot: &mut OutputSlot<'_>,
        strides: OutputStrides,
        j: usize,
    ) {
        let bytes = self.dtype.bytes();
        let first = strides.origin + j as isize * strides.step_j;
        for (channel, row) in rgb.into_iter().enumerate().take(channels.count()) {
            let first = first + (channel * slot.channel_stride) as isize;
            for (i, &code) in row.iter().enumerate() {
                let at = (first + i as isize * strides.step_i) as usize * bytes;
                slot.data[at..at + bytes]
                    .copy_from_slice(&self.element_of_u16(channel, code)[..bytes]);
            }
        }
    }

    /// The element of a number in the units of the result.
    pub(crate) fn element_of_f32(&self, value: f32) -> Element {
        let two = |[a, b]: [u8; 2]| [a, b, 0, 0];
        match self.dtype {
            Dtype::U8 => [value.round_ties_even().clamp(0.0, 255.0) as u8, 0, 0, 0],
            Dtype::U16 => two((value.round_ties_even().clamp(0.0, 65_535.0) as u16).to_ne_bytes()),
            Dtype::F16 => two(f16::from_f32(value).to_ne_bytes()),
            Dtype::BF16 => two(bf16::from_f32(value).to_ne_bytes()),
            Dtype::F32 => value.to_ne_bytes(),
        }
    }

    /// The element of 64 random bits.
    pub(crate) fn noise_element(&self, random: u64) -> Element {
        match self.dtype {
            Dtype::U8 => return [random as u8, 0, 0, 0],
            Dtype::U16 => {
                let [a, b] = (random as u16).to_ne_bytes();
                return [a, b, 0, 0];
            }
            Dtype::F16 | Dtype::BF16 | Dtype::F32 => {}
        }
        let sum: i32 = (0..4)
            .map(|word| (random >> (16 * word) & 0xFFFF) as i32)
            .sum();
        self.element_of_f32((sum - NOISE_SUM_MEAN) as f32 * NOISE_SCALE)
    }

    /// Writes one element `count` times, `step` elements apart, starting at element `at`.
    #[inline]
    pub(crate) fn repeat(
        &self,
        element: Element,
        slot: &mut OutputSlot<'_>,
        at: usize,
        step: usize,
        count: usize,
    ) {
        let [a, b, ..] = element;
        match self.dtype {
            Dtype::U8 => repeat([a], slot.data, at, step, count),
            Dtype::F16 | Dtype::BF16 | Dtype::U16 => repeat([a, b], slot.data, at, step, count),
            Dtype::F32 => repeat(element, slot.data, at, step, count),
        }
    }

    /// The factors of 8-bit colors, or of 16-bit ones if `wide`.
    pub(crate) fn factors(&self, wide: bool) -> &ColorFactors {
        if wide { &self.wide } else { &self.narrow }
    }

    /// Writes the elements of consecutive 8-bit codes. They are of channel `first`, or of three
    /// `channels` in turn beginning with `first`. `_streaming`: past the caches, on backends that
    /// can.
    #[inline(always)]
    pub(crate) fn write_codes(
        &self,
        codes: &[u8],
        (first, channels): (usize, usize),
        out: &mut [u8],
        _streaming: bool,
    ) {
        let cycle = if channels == 1 {
            [first; 3]
        } else {
            [0, 1, 2].map(|i| (first + i) % 3)
        };
        match &self.tables {
            ElementTables::U8 => out.copy_from_slice(codes),
            ElementTables::Bytes2(tables) => {
                look_up(codes, cycle.map(|channel| &tables[channel]), out)
            }
            ElementTables::Bytes4(tables) => {
                look_up(codes, cycle.map(|channel| &tables[channel]), out)
            }
        }
    }

    /// Writes row j; reverses `rgb` in place when the slot runs backwards.
    #[inline(always)]
    pub(crate) fn write_row(
        &self,
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
        let (origin, step) = (strides.origin + j as isize * strides.step_j, strides.step_i);
        let rgb = rgb.map(|row| &*row);
        let rgb = &rgb[..channels.count()];
        let (origin, step) = (origin as usize, step as usize);
        match &self.tables {
            ElementTables::U8 => write_elements(rgb, slot, origin, step, |_, value| [value]),
            ElementTables::Bytes2(table) => {
                write_elements(rgb, slot, origin, step, |channel, value| {
                    table[channel][usize::from(value)]
                })
            }
            ElementTables::Bytes4(table) => {
                write_elements(rgb, slot, origin, step, |channel, value| {
                    table[channel][usize::from(value)]
                })
            }
        }
    }
}

/// Number of rows that are transposed together.
pub(crate) const TRANSPOSE_ROWS: usize = 16;

/// Rows of a frame that is written column by column: `rows` rows of `width` pixels each, planar.
pub(crate) struct TransposeTile<'a> {
    pub rgb: [&'a mut [u8]; 3],
    pub width: usize,
    pub rows: usize,
}

impl ElementWriter {
    /// Writes rows `j..j + tile.rows`.
    #[inline(always)]
    pub(crate) fn write_transposed(
        &self,
        tile: TransposeTile<'_>,
        channels: Channels,
        slot: &mut OutputSlot<'_>,
        strides: OutputStrides,
        j: usize,
    ) {
        let [r, g, b] = tile.rgb;
        for row in 0..tile.rows {
            let part = row * tile.width..(row + 1) * tile.width;
            let rgb = [&mut r[part.clone()], &mut g[part.clone()], &mut b[part]];
            self.write_row(rgb, channels, slot, strides, j + row);
        }
    }
}

fn repeat<const BYTES: usize>(
    element: [u8; BYTES],
    data: &mut [u8],
    at: usize,
    step: usize,
    count: usize,
) {
    if count == 0 {
        return;
    }
    let data = &mut data[at * BYTES..][..((count - 1) * step + 1) * BYTES];
    for place in data.chunks_mut(step * BYTES) {
        place[..BYTES].copy_from_slice(&element);
    }
}

fn build_element_table<const BYTES: usize>(
    normalize: Option<Normalize>,
    bytes: impl Fn(f32) -> [u8; BYTES],
) -> ElementTable<BYTES> {
    let mut table = Box::new([[[0; BYTES]; 256]; 3]);
    for (channel, values) in table.iter_mut().enumerate() {
        let (scale, bias) = Normalize::scale_and_bias(normalize, channel);
        for (value, element) in values.iter_mut().enumerate() {
            *element = bytes((value as f32).mul_add(scale, bias));
        }
    }
    table
}

/// Writes the element of each code from the tables in turn.
#[inline(always)]
fn look_up<const BYTES: usize>(codes: &[u8], tables: [&[[u8; BYTES]; 256]; 3], out: &mut [u8]) {
    let (elements, _) = out.as_chunks_mut::<BYTES>();
    for (codes, elements) in codes.chunks(3).zip(elements.chunks_mut(3)) {
        for ((element, &code), table) in elements.iter_mut().zip(codes).zip(tables) {
            *element = table[usize::from(code)];
        }
    }
}

#[inline(always)]
fn write_elements<const BYTES: usize>(
    rgb: &[&[u8]],
    slot: &mut OutputSlot<'_>,
    origin: usize,
    step: usize,
    element: impl Fn(usize, u8) -> [u8; BYTES],
) {
    let length = rgb[0].len();
    if let (&[r, g, b], 1, 3) = (rgb, slot.channel_stride, step) {
        let [r, g, b] = [r, g, b].map(|row| &row[..length]);
        let out = &mut slot.data[origin * BYTES..][..length * 3 * BYTES];
        for (i, pixel) in out.chunks_exact_mut(3 * BYTES).enumerate() {
            pixel[..BYTES].copy_from_slice(&element(0, r[i]));
            pixel[BYTES..2 * BYTES].copy_from_slice(&element(1, g[i]));
            pixel[2 * BYTES..].copy_from_slice(&element(2, b[i]));
        }
        return;
    }
    for (channel, &row) in rgb.iter().enumerate() {
        let out = &mut slot.data[(origin + channel * slot.channel_stride) * BYTES..];
        if step == 1 {
            for (out, &value) in out.chunks_exact_mut(BYTES).zip(row) {
                out.copy_from_slice(&element(channel, value));
            }
        } else {
            for (i, &value) in row.iter().enumerate() {
                out[i * step * BYTES..][..BYTES].copy_from_slice(&element(channel, value));
            }
        }
    }
}

#[cfg(test)]
mod tests;
