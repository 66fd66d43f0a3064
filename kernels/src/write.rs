//! In: one row of 8-bit R, G, B in stored order, and where its pixels go in the slot.
//! Out: the elements of the batch: dtype, normalisation and layout applied.
//! Never: computes; a dtype is a table from code value to bytes, so all dtypes are exact and share one writer.

use crate::error::PassError;
use crate::geometry::Placement;

/// Type of the elements of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dtype {
    /// 0 to 255.
    U8,
    /// 0 to 1, or normalised. Native byte order.
    F32,
}

/// `(value - mean) / std` on values from 0 to 1, per channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalize {
    /// R, G, B.
    pub mean: [f32; 3],
    /// R, G, B.
    pub std: [f32; 3],
}

/// Where a picture goes: the bytes from its element (0, 0, 0) on, and its strides in elements.
#[derive(Debug)]
pub struct OutSlot<'a> {
    /// At least up to the end of the last element.
    pub data: &'a mut [u8],
    /// Distance of R, G, B.
    pub channel_stride: usize,
    /// Distance of rows.
    pub row_stride: usize,
    /// Distance of columns.
    pub column_stride: usize,
}

impl Dtype {
    /// Bytes of an element.
    pub const fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::F32 => 4,
        }
    }
}

impl Normalize {
    /// Scale and bias of a channel: an element is `fma(code_value, scale, bias)`.
    pub fn scale_and_bias(normalize: Option<Self>, channel: usize) -> (f32, f32) {
        let (mean, std) =
            normalize.map_or((0.0, 1.0), |n| (f64::from(n.mean[channel]), f64::from(n.std[channel])));
        ((1.0 / (255.0 * std)) as f32, (-mean / std) as f32)
    }

    fn check(&self) -> Result<(), PassError> {
        for channel in 0..3 {
            let (mean, std) = (self.mean[channel], self.std[channel]);
            if !(mean.is_finite() && std.is_finite() && std > 0.0) {
                return Err(PassError::BadNormalize { channel, mean, std });
            }
        }
        Ok(())
    }
}

impl<'a> OutSlot<'a> {
    /// Channels last, rows of `width` pixels: a frame of NTHWC.
    pub fn hwc(data: &'a mut [u8], width: usize) -> Self {
        Self { data, channel_stride: 1, row_stride: width.saturating_mul(3), column_stride: 3 }
    }

    /// Channels first: a frame of NTCHW.
    pub fn chw(data: &'a mut [u8], width: usize, height: usize) -> Self {
        Self { data, channel_stride: width.saturating_mul(height), row_stride: width, column_stride: 1 }
    }

    /// Every element of a picture of this size has its own place inside `data`.
    pub(crate) fn check(&self, width: u32, height: u32, dtype: Dtype) -> Result<(), PassError> {
        let mut axes = [
            (self.channel_stride, 3),
            (self.row_stride, height as usize),
            (self.column_stride, width as usize),
        ];
        axes.sort_unstable();
        let mut last = 0u128;
        for (stride, length) in axes.into_iter().filter(|&(_, length)| length > 1) {
            if stride as u128 <= last {
                let Self { channel_stride, row_stride, column_stride, .. } = *self;
                return Err(PassError::SlotOverlaps { channel_stride, row_stride, column_stride });
            }
            last += stride as u128 * (length as u128 - 1);
        }
        let need = (last + 1) * dtype.bytes() as u128;
        if need > self.data.len() as u128 {
            let need_bytes = u64::try_from(need).unwrap_or(u64::MAX);
            return Err(PassError::SlotShort { have_bytes: self.data.len(), need_bytes });
        }
        Ok(())
    }
}

/// Bytes of every code value of every channel.
type Table<const BYTES: usize> = Box<[[[u8; BYTES]; 256]; 3]>;

/// A dtype with its normalisation.
#[derive(Clone, Debug)]
pub(crate) enum Writer {
    U8,
    Bytes4(Table<4>),
}

impl Writer {
    pub fn new(dtype: Dtype, normalize: Option<Normalize>) -> Result<Self, PassError> {
        if let Some(normalize) = normalize {
            normalize.check()?;
        }
        match dtype {
            Dtype::U8 if normalize.is_some() => Err(PassError::NormalizeNeedsFloat),
            Dtype::U8 => Ok(Self::U8),
            Dtype::F32 => {
                let mut table = Box::new([[[0; 4]; 256]; 3]);
                for (channel, values) in table.iter_mut().enumerate() {
                    let (scale, bias) = Normalize::scale_and_bias(normalize, channel);
                    for (value, bytes) in values.iter_mut().enumerate() {
                        *bytes = (value as f32).mul_add(scale, bias).to_ne_bytes();
                    }
                }
                Ok(Self::Bytes4(table))
            }
        }
    }

    /// Writes row j; reverses `rgb` in place when the slot runs backwards.
    #[inline(always)]
    pub fn row(&self, rgb: [&mut [u8]; 3], slot: &mut OutSlot<'_>, placement: Placement, j: usize) {
        let length = rgb[0].len() as isize;
        let mut origin = placement.origin + j as isize * placement.step_j;
        let mut step = placement.step_i;
        let [r, g, b] = rgb;
        if step < 0 {
            origin += (length - 1) * step;
            step = -step;
            r.reverse();
            g.reverse();
            b.reverse();
        }
        let rgb = [&*r, &*g, &*b];
        let (origin, step) = (origin as usize, step as usize);
        match self {
            Self::U8 => put(rgb, slot, origin, step, |_, value| [value]),
            Self::Bytes4(table) => {
                put(rgb, slot, origin, step, |channel, value| table[channel][usize::from(value)])
            }
        }
    }
}

#[inline(always)]
fn put<const BYTES: usize>(
    rgb: [&[u8]; 3],
    slot: &mut OutSlot<'_>,
    origin: usize,
    step: usize,
    element: impl Fn(usize, u8) -> [u8; BYTES],
) {
    let length = rgb[0].len();
    if slot.channel_stride == 1 && step == 3 {
        let [r, g, b] = rgb.map(|row| &row[..length]);
        let out = &mut slot.data[origin * BYTES..][..length * 3 * BYTES];
        for (i, pixel) in out.chunks_exact_mut(3 * BYTES).enumerate() {
            pixel[..BYTES].copy_from_slice(&element(0, r[i]));
            pixel[BYTES..2 * BYTES].copy_from_slice(&element(1, g[i]));
            pixel[2 * BYTES..].copy_from_slice(&element(2, b[i]));
        }
        return;
    }
    for (channel, row) in rgb.into_iter().enumerate() {
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
mod tests {
    use super::*;

    #[test]
    fn float_without_normalize_runs_from_0_to_1() {
        let Ok(Writer::Bytes4(table)) = Writer::new(Dtype::F32, None) else { panic!("f32 has a table") };
        assert_eq!(f32::from_ne_bytes(table[0][0]), 0.0);
        assert_eq!(f32::from_ne_bytes(table[2][255]), 1.0);
    }

    #[test]
    fn normalize_is_one_fused_multiply_add() {
        let n = Normalize { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] };
        let Ok(Writer::Bytes4(table)) = Writer::new(Dtype::F32, Some(n)) else { panic!("f32 has a table") };
        for value in 0..256 {
            let exact = (value as f64 / 255.0 - 0.456) / 0.224;
            assert!((f64::from(f32::from_ne_bytes(table[1][value])) - exact).abs() < 1e-6);
        }
    }

    #[test]
    fn a_zero_std_and_a_normalized_u8_are_refused() {
        let n = Normalize { mean: [0.0; 3], std: [1.0, 0.0, 1.0] };
        assert_eq!(
            Writer::new(Dtype::F32, Some(n)).err(),
            Some(PassError::BadNormalize { channel: 1, mean: 0.0, std: 0.0 })
        );
        let n = Normalize { mean: [0.0; 3], std: [1.0; 3] };
        assert_eq!(Writer::new(Dtype::U8, Some(n)).err(), Some(PassError::NormalizeNeedsFloat));
    }
}
