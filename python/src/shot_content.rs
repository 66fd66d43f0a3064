//! Measures how much the content of a frame differs from that of the frame before, for hard cuts.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::OrRaise;
use crate::tensor::Tensor;

/// Returns, for each frame but the first, the sum of absolute differences of hue, saturation and
/// value over all pixels. `frames` is a uint8 tensor (T, 3, H, W), RGB.
#[pyfunction]
pub(crate) fn content_differences(
    py: Python<'_>,
    frames: &Bound<'_, Tensor>,
) -> PyResult<Vec<u64>> {
    let tensor = frames.get();
    let &[count, 3, height, width] = tensor.dims() else {
        return Err(PyValueError::new_err("frames must be (T, 3, H, W)"));
    };
    let differences = py.detach(|| {
        let bytes = tensor.bytes()?;
        let pixels = height * width;
        let mut last = vec![0; 3 * pixels];
        let mut planes = vec![0; 3 * pixels];
        let mut differences = Vec::with_capacity(count);
        for (number, rgb) in bytes.chunks_exact((3 * pixels).max(1)).enumerate() {
            to_hsv(rgb, &mut planes, pixels);
            if number > 0 {
                differences.push(sum_of_differences(&planes, &last));
            }
            std::mem::swap(&mut planes, &mut last);
        }
        Ok(differences)
    });
    differences.or_raise(py)
}

/// Writes the planes of hue, saturation and value, on the scale of OpenCV for 8 bits: hue is in
/// steps of 2 degrees, from 0 to 179.
fn to_hsv(rgb: &[u8], planes: &mut [u8], pixels: usize) {
    let (red, rest) = rgb.split_at(pixels);
    let (green, blue) = rest.split_at(pixels);
    let (hue, rest) = planes.split_at_mut(pixels);
    let (saturation, value) = rest.split_at_mut(pixels);
    let inputs = red.iter().zip(green).zip(blue);
    let outputs = hue.iter_mut().zip(saturation).zip(value);
    for (((&r, &g), &b), ((hue, saturation), value)) in inputs.zip(outputs) {
        let largest = r.max(g).max(b);
        let spread = largest - r.min(g).min(b);
        *value = largest;
        *saturation = rounded(255.0 * f32::from(spread) / f32::from(largest.max(1)));
        // Red, green and blue are 60 steps apart; a color is between the two nearest of them.
        let (plus, minus, base) = if largest == r {
            (g, b, 0.0)
        } else if largest == g {
            (b, r, 60.0)
        } else {
            (r, g, 120.0)
        };
        let offset = 30.0 * (f32::from(plus) - f32::from(minus)) / f32::from(spread.max(1));
        let angle = base + offset;
        *hue = rounded(angle + if angle < -0.5 { 180.0 } else { 0.0 });
    }
}

/// Rounds a number of at least -0.5. The conversion to an integer of 32 bits, unlike one of 8 bits,
/// is an instruction for several numbers at once.
fn rounded(number: f32) -> u8 {
    (number + 0.5) as i32 as u8
}

fn sum_of_differences(left: &[u8], right: &[u8]) -> u64 {
    // A block fits into 32 bits, for which there are vector instructions.
    let blocks = left.chunks(1 << 16).zip(right.chunks(1 << 16));
    blocks
        .map(|(left, right)| {
            let pairs = left.iter().zip(right);
            u64::from(pairs.map(|(&l, &r)| u32::from(l.abs_diff(r))).sum::<u32>())
        })
        .sum()
}
