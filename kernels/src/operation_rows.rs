//! The row functions of the operations on R, G, B codes. `simd` compiles them for each instruction
//! set.

/// A sixth of the color circle.
pub(crate) const HUE_SECTOR: i32 = 1 << 16;
/// Number of pixels whose sums are computed together.
pub(crate) const BLUR_BLOCK: usize = 64;

/// Position in `0..length` of a position up to `length - 1` outside, reflected at the edge.
pub(crate) fn reflect(position: isize, length: usize) -> usize {
    let last = length as isize - 1;
    let inside = position.abs();
    (if inside > last {
        2 * last - inside
    } else {
        inside
    }) as usize
}

/// One row of [`RgbOperation::Sharpness`](crate::RgbOperation::Sharpness), without its first and last pixel.
#[inline(always)]
pub(crate) fn sharpen_row(out: &mut [u8], rows: [&[u8]; 3], amount: i32) {
    let length = out.len();
    let [above, here, below] = rows.map(|row| &row[..length + 2]);
    for (i, out) in out.iter_mut().enumerate() {
        let sum = |row: &[u8]| u32::from(row[i]) + u32::from(row[i + 1]) + u32::from(row[i + 2]);
        let code = i32::from(here[i + 1]);
        // The center counts five times. A sum is at most 13 * 255, for which this product rounds as
        // a division by 13.
        let sum = sum(above) + sum(here) + sum(below) + 4 * code as u32;
        let smooth = (((sum + 6) * 80_660) >> 20) as i32;
        *out = ((code * 65_536 + amount * (smooth - code)) >> 16).clamp(0, 255) as u8;
    }
}

/// A row of codes, padded at both ends, to 16 bits.
#[inline(always)]
pub(crate) fn blur_row(out: &mut [u16], padded: &[u8], weights: &[u32]) {
    for (block, out) in out.chunks_mut(BLUR_BLOCK).enumerate() {
        let mut sums = [1u32 << 7; BLUR_BLOCK];
        for (tap, &weight) in weights.iter().enumerate() {
            let codes = &padded[block * BLUR_BLOCK + tap..][..BLUR_BLOCK];
            for (sum, &code) in sums.iter_mut().zip(codes) {
                *sum += weight * u32::from(code);
            }
        }
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = (sum >> 8) as u16;
        }
    }
}

/// A row of codes from the 16-bit rows of a plane, starting at row `first` of `height`.
#[inline(always)]
pub(crate) fn blur_column(
    out: &mut [u8],
    plane: &[u16],
    (first, height): (isize, usize),
    weights: &[u32],
) {
    let width = out.len();
    for (block, out) in out.chunks_mut(BLUR_BLOCK).enumerate() {
        let mut sums = [1u32 << 23; BLUR_BLOCK];
        for (tap, &weight) in weights.iter().enumerate() {
            let row = reflect(first + tap as isize, height);
            let values = &plane[row * width + block * BLUR_BLOCK..][..out.len()];
            for (sum, &value) in sums.iter_mut().zip(values) {
                *sum += weight * u32::from(value);
            }
        }
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = (sum >> 24) as u8;
        }
    }
}

/// Adds an angle to the hue of every pixel. The quotient is a division of two `f32`, which is
/// rounded in the same way everywhere.
#[inline(always)]
pub(crate) fn rotate_hue(rgb: [&mut [u8]; 3], shift: i32) {
    let [r, g, b] = rgb;
    for ((r, g), b) in r.iter_mut().zip(g.iter_mut()).zip(b.iter_mut()) {
        let (red, green, blue) = (i32::from(*r), i32::from(*g), i32::from(*b));
        let value = red.max(green).max(blue);
        let chroma = value - red.min(green).min(blue);
        let (sector, difference) = if value == red {
            (0, green - blue)
        } else if value == green {
            (2, blue - red)
        } else {
            (4, red - green)
        };
        let part = (difference * HUE_SECTOR) as f32 / chroma.max(1) as f32;
        let hue = sector * HUE_SECTOR + part as i32 + shift;
        // A channel is below the highest one by the chroma times a trapezoid of the hue, which is
        // shifted for each channel.
        let channel = |offset: i32| {
            let turned = hue + offset * HUE_SECTOR;
            let turned = if turned >= 12 * HUE_SECTOR {
                turned - 12 * HUE_SECTOR
            } else if turned >= 6 * HUE_SECTOR {
                turned - 6 * HUE_SECTOR
            } else {
                turned
            };
            let below = turned.min(4 * HUE_SECTOR - turned).clamp(0, HUE_SECTOR);
            (value - ((chroma * below + HUE_SECTOR / 2) >> 16)) as u8
        };
        (*r, *g, *b) = (channel(5), channel(3), channel(1));
    }
}
