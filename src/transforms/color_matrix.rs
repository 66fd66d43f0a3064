//! Computes the kernels' color map from the factors of a color transform.
//! Values are not clamped or rounded between color transforms; the pass does that once, at the end.

use framespool_kernels::ColorMap;

/// Luma weights of torchvision and PIL: those of BT.601, truncated to four digits.
const GRAY: [f64; 3] = [0.2989, 0.587, 0.114];

fn scaled(factor: f64) -> [[f64; 3]; 3] {
    [[factor, 0.0, 0.0], [0.0, factor, 0.0], [0.0, 0.0, factor]]
}

/// `factor * rgb`.
pub(super) fn brightness(factor: f64) -> ColorMap {
    ColorMap::linear(scaled(factor))
}

/// `factor * rgb + (1 - factor) * mean gray of the frame`: torchvision's `adjust_contrast`.
pub(super) fn contrast(factor: f64) -> ColorMap {
    ColorMap {
        mean: [GRAY.map(|w| w * (1.0 - factor)); 3],
        ..ColorMap::linear(scaled(factor))
    }
}

/// `factor * (rgb - 128) + 128`, as DALI's `color_twist`.
pub(crate) fn contrast_about_middle(factor: f64) -> ColorMap {
    ColorMap {
        offset: [128.0 * (1.0 - factor); 3],
        ..ColorMap::linear(scaled(factor))
    }
}

/// `factor * rgb + (1 - factor) * gray`: torchvision's `adjust_saturation`.
pub(super) fn saturation(factor: f64) -> ColorMap {
    let mut matrix = scaled(factor);
    for row in &mut matrix {
        for (value, weight) in row.iter_mut().zip(GRAY) {
            *value += (1.0 - factor) * weight;
        }
    }
    ColorMap::linear(matrix)
}

/// Sets all three channels to gray.
pub(crate) fn grayscale() -> ColorMap {
    ColorMap::linear([GRAY; 3])
}

/// DALI's hue and saturation: rotates I and Q of YIQ by `degrees` and multiplies them by
/// `saturation` (NTSC's matrix as DALI rounds it; its inverse is computed).
pub(crate) fn yiq(degrees: f64, saturation: f64) -> ColorMap {
    const TO_YIQ: [[f64; 3]; 3] = [
        [0.299, 0.587, 0.114],
        [0.596, -0.274, -0.321],
        [0.211, -0.523, 0.311],
    ];
    let (sin, cos) = degrees.to_radians().sin_cos();
    let turn = [
        [1.0, 0.0, 0.0],
        [0.0, cos * saturation, sin * saturation],
        [0.0, -sin * saturation, cos * saturation],
    ];
    let steps = [TO_YIQ, turn, inverse(&TO_YIQ)].map(ColorMap::linear);
    steps[0].then(&steps[1]).then(&steps[2])
}

/// Inverts a matrix by cofactors.
fn inverse(m: &[[f64; 3]; 3]) -> [[f64; 3]; 3] {
    let minor = |r: usize, c: usize| {
        let (r0, r1, c0, c1) = ((r + 1) % 3, (r + 2) % 3, (c + 1) % 3, (c + 2) % 3);
        m[r0][c0] * m[r1][c1] - m[r0][c1] * m[r1][c0]
    };
    let determinant: f64 = (0..3).map(|c| m[0][c] * minor(0, c)).sum();
    [0, 1, 2].map(|r| [0, 1, 2].map(|c| minor(c, r) / determinant))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(map: &ColorMap, rgb: [f64; 3]) -> [f64; 3] {
        [0, 1, 2].map(|r| {
            map.offset[r]
                + (0..3)
                    .map(|k| (map.matrix[r][k] + map.mean[r][k]) * rgb[k])
                    .sum::<f64>()
        })
    }

    fn near(a: [f64; 3], b: [f64; 3]) {
        // NTSC's matrix has three digits.
        assert!(
            a.iter().zip(b).all(|(a, b)| (a - b).abs() < 0.5),
            "{a:?} {b:?}"
        );
    }

    #[test]
    fn a_third_of_the_circle_makes_red_green() {
        near(of(&yiq(0.0, 1.0), [200.0, 30.0, 10.0]), [200.0, 30.0, 10.0]);
        let turned = of(&yiq(120.0, 1.0), [200.0, 0.0, 0.0]);
        assert!(turned[1] > turned[0] && turned[1] > turned[2], "{turned:?}");
    }

    #[test]
    fn gray_stays_gray_in_every_change_of_color() {
        for map in [yiq(40.0, 1.7), saturation(0.3), grayscale(), contrast(1.8)] {
            near(of(&map, [90.0; 3]), [90.0; 3]); // contrast: a uniform frame equals its own mean
        }
    }

    #[test]
    fn no_saturation_is_gray() {
        near(of(&saturation(0.0), [255.0, 0.0, 0.0]), [76.2; 3]);
        near(of(&yiq(0.0, 0.0), [255.0, 0.0, 0.0]), [76.2; 3]);
    }
}
