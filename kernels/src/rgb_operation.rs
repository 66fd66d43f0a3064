//! Operations on the 8-bit R, G, B codes of a complete frame, which run between two pixel passes:
//! each reads the codes that the pass before it wrote. They are defined in SPEC.md ("Operations on
//! codes"), and the GPU's kernel gives the same bytes.

use std::sync::Arc;

use crate::error::PassError;
use crate::operation_rows::{BLUR_BLOCK, HUE_SECTOR, reflect};
use crate::simd::Backend;

/// Sum of the weights of a blur.
const BLUR_ONE: u32 = 1 << 16;
/// An operation on R, G, B codes.
#[derive(Clone, Debug, PartialEq)]
pub enum RgbOperation {
    /// Replaces each code by the entry of a table, the same for all channels.
    Table(Arc<[u8; 256]>),
    /// Adds an angle to the hue of HSV, in units of 2^-16 of a sixth of the circle; 0 to 6 * 2^16 -
    /// 1.
    Hue(i32),
    /// Stretches the codes of each channel to 0..255.
    Autocontrast,
    /// Equalizes the histogram of each channel.
    Equalize,
    /// Moves each pixel inside the border away from the smoothed frame, or towards it: the value is
    /// how far towards it, in units of 2^-16.
    Sharpness(i32),
    /// Convolves rows and columns with weights that sum to 2^16. The frame is reflected at its
    /// edges, without repeating the edge.
    Blur {
        /// Weights along rows; an odd number.
        columns: Arc<[u32]>,
        /// Weights along columns; an odd number.
        rows: Arc<[u32]>,
    },
}

impl RgbOperation {
    /// Keeps the `bits` highest bits of each code: torchvision's `posterize`.
    pub fn posterize(bits: u32) -> Self {
        let mask = !(0xFF_u32 >> bits.min(8)) as u8;
        Self::table(|code| code & mask)
    }

    /// Inverts codes that are at least `threshold`: torchvision's `solarize`.
    pub fn solarize(threshold: f64) -> Self {
        Self::table(|code| {
            if f64::from(code) >= threshold {
                255 - code
            } else {
                code
            }
        })
    }

    /// Inverts all codes.
    pub fn invert() -> Self {
        Self::table(|code| 255 - code)
    }

    fn table(entry: impl Fn(u8) -> u8) -> Self {
        Self::Table(Arc::new(std::array::from_fn(|code| entry(code as u8))))
    }

    /// Moves the hue by a fraction of the full circle: torchvision's `adjust_hue`.
    pub fn hue(fraction: f64) -> Self {
        let circle = f64::from(6 * HUE_SECTOR);
        Self::Hue((fraction.rem_euclid(1.0) * circle).round() as i32 % (6 * HUE_SECTOR))
    }

    /// Blends with the smoothed frame: torchvision's `adjust_sharpness`, whose factor is 0 for the
    /// smoothed frame, 1 for no change, and at most 100.
    pub fn sharpness(factor: f64) -> Self {
        Self::Sharpness(((1.0 - factor.clamp(0.0, 100.0)) * 65_536.0).round() as i32)
    }

    /// Gaussian blur with kernels of these odd lengths (along rows, along columns): torchvision's
    /// `gaussian_blur`.
    pub fn blur((columns, rows): (u32, u32), sigma: f64) -> Self {
        Self::Blur {
            columns: gaussian(columns, sigma),
            rows: gaussian(rows, sigma),
        }
    }

    /// Checks that the operation can be applied to a frame of this size.
    pub fn check(&self, (width, height): (u32, u32)) -> Result<(), PassError> {
        let Self::Blur { columns, rows } = self else {
            return Ok(());
        };
        let fits = |taps: &[u32], side: u32| taps.len() % 2 == 1 && taps.len() / 2 < side as usize;
        if fits(columns, width) && fits(rows, height) {
            return Ok(());
        }
        Err(PassError::BlurTooLarge {
            kernel: (columns.len(), rows.len()),
            width,
            height,
        })
    }

    /// Applies the operation to the planes R, G, B of a frame, one after another without gaps.
    ///
    /// # Errors
    /// If `codes` is not as long as three planes, or the operation does not fit the frame. `codes`
    /// is unchanged then.
    pub fn apply(
        &self,
        codes: &mut [u8],
        (width, height): (u32, u32),
        scratch: &mut OperationScratch,
    ) -> Result<(), PassError> {
        self.apply_by(Backend::detect(), codes, (width, height), scratch)
    }

    /// [`apply`](Self::apply) on a certain backend.
    pub(crate) fn apply_by(
        &self,
        backend: Backend,
        codes: &mut [u8],
        (width, height): (u32, u32),
        scratch: &mut OperationScratch,
    ) -> Result<(), PassError> {
        self.check((width, height))?;
        let need_bytes = 3 * u64::from(width) * u64::from(height);
        if codes.len() as u64 != need_bytes {
            return Err(PassError::SlotTooShort {
                have_bytes: codes.len(),
                need_bytes,
            });
        }
        let (width, height) = (width as usize, height as usize);
        if width * height == 0 {
            return Ok(());
        }
        if let Self::Hue(shift) = self {
            let (r, rest) = codes.split_at_mut(width * height);
            let (g, b) = rest.split_at_mut(width * height);
            backend.rotate_hue([r, g, b], *shift);
            return Ok(());
        }
        for plane in codes.chunks_exact_mut(width * height) {
            match self {
                Self::Table(table) => look_up(plane, table),
                Self::Hue(_) => {}
                Self::Autocontrast => look_up(plane, &autocontrast_table(&histogram(plane))),
                Self::Equalize => look_up(plane, &equalize_table(&histogram(plane))),
                Self::Sharpness(amount) => {
                    sharpen(backend, plane, (width, height), *amount, scratch)
                }
                Self::Blur { columns, rows } => {
                    blur(backend, plane, (width, height), [columns, rows], scratch)
                }
            }
        }
        Ok(())
    }
}

/// Buffers of [`RgbOperation::apply`]; one per worker.
#[derive(Clone, Debug, Default)]
pub struct OperationScratch {
    rows: Vec<u8>,
    plane: Vec<u16>,
}

impl OperationScratch {
    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.rows.capacity() + 2 * self.plane.capacity()
    }
}

/// The weights of a normal distribution, as torchvision computes them (`_get_gaussian_kernel1d`),
/// rounded so that they sum to 2^16.
fn gaussian(taps: u32, sigma: f64) -> Arc<[u32]> {
    let middle = (f64::from(taps) - 1.0) / 2.0;
    let raw: Vec<f64> = (0..taps)
        .map(|tap| (-0.5 * ((f64::from(tap) - middle) / sigma).powi(2)).exp())
        .collect();
    let total: f64 = raw.iter().sum();
    let mut sum = 0.0;
    let mut before = 0;
    let rounded = raw.iter().map(|weight| {
        sum += weight;
        let up_to = (sum / total * f64::from(BLUR_ONE)).round() as u32;
        let weight = up_to - before;
        before = up_to;
        weight
    });
    rounded.collect()
}

fn look_up(plane: &mut [u8], table: &[u8; 256]) {
    for code in plane {
        *code = table[usize::from(*code)];
    }
}

fn histogram(plane: &[u8]) -> [u32; 256] {
    // Several counters per code, so that equal neighbors do not wait for each other.
    let mut counts = [[0u32; 256]; 4];
    for codes in plane.chunks(4) {
        for (counts, &code) in counts.iter_mut().zip(codes) {
            counts[usize::from(code)] += 1;
        }
    }
    std::array::from_fn(|code| counts.iter().map(|counts| counts[code]).sum())
}

/// torchvision's `autocontrast`: the lowest code becomes 0, the highest 255.
fn autocontrast_table(counts: &[u32; 256]) -> [u8; 256] {
    let low = counts.iter().position(|&count| count > 0).unwrap_or(0) as u32;
    let high = counts.iter().rposition(|&count| count > 0).unwrap_or(0) as u32;
    std::array::from_fn(|code| {
        let code = code as u32;
        if low >= high {
            return code as u8;
        }
        ((code.clamp(low, high) - low) * 255 / (high - low)) as u8
    })
}

/// torchvision's and PIL's `equalize`.
fn equalize_table(counts: &[u32; 256]) -> [u8; 256] {
    let all: u32 = counts.iter().sum();
    let highest = counts
        .iter()
        .rposition(|&count| count > 0)
        .map_or(0, |code| counts[code]);
    let step = (all - highest) / 255;
    let mut below = 0;
    std::array::from_fn(|code| {
        if step == 0 {
            return code as u8;
        }
        let entry = (below + step / 2) / step;
        below += counts[code];
        entry.min(255) as u8
    })
}

fn sharpen(
    backend: Backend,
    plane: &mut [u8],
    (width, height): (usize, usize),
    amount: i32,
    scratch: &mut OperationScratch,
) {
    if width <= 2 || height <= 2 {
        return;
    }
    // The rows above and here, as they were.
    scratch.rows.clear();
    scratch.rows.extend_from_slice(&plane[..2 * width]);
    for y in 1..height - 1 {
        let (rows, below) = plane[y * width..].split_at_mut(width);
        let (above, here) = scratch.rows.split_at(width);
        backend.sharpen_row(
            &mut rows[1..width - 1],
            [above, here, &below[..width]],
            amount,
        );
        scratch.rows.copy_within(width.., 0);
        scratch.rows[width..].copy_from_slice(&below[..width]);
    }
}

fn blur(
    backend: Backend,
    plane: &mut [u8],
    (width, height): (usize, usize),
    [columns, rows]: [&[u32]; 2],
    scratch: &mut OperationScratch,
) {
    let (before, above) = ((columns.len() / 2) as isize, rows.len() / 2);
    let padded = width.next_multiple_of(BLUR_BLOCK) + columns.len();
    scratch.rows.clear();
    scratch.rows.resize(padded, 0);
    scratch.plane.resize(width * height, 0);
    for (row, out) in plane
        .chunks_exact(width)
        .zip(scratch.plane.chunks_exact_mut(width))
    {
        for side in 0..before {
            scratch.rows[side as usize] = row[reflect(side - before, width)];
            scratch.rows[before as usize + width + side as usize] =
                row[reflect(width as isize + side, width)];
        }
        scratch.rows[before as usize..][..width].copy_from_slice(row);
        backend.blur_row(out, &scratch.rows, columns);
    }
    for (y, out) in plane.chunks_exact_mut(width).enumerate() {
        backend.blur_column(
            out,
            &scratch.plane,
            (y as isize - above as isize, height),
            rows,
        );
    }
}

#[cfg(test)]
mod tests;
