//! Compares operations with their definitions, on every backend.

use super::*;
use crate::operation_rows::rotate_hue;

fn apply(operation: &RgbOperation, codes: &[u8], size: (u32, u32)) -> Vec<u8> {
    let mut out = codes.to_vec();
    operation
        .apply(&mut out, size, &mut OperationScratch::default())
        .unwrap();
    for backend in Backend::available() {
        let mut other = codes.to_vec();
        operation
            .apply_by(backend, &mut other, size, &mut OperationScratch::default())
            .unwrap();
        assert_eq!(out, other, "{}", backend.name());
    }
    out
}

/// Reproducible codes.
fn noise(count: usize) -> Vec<u8> {
    (0..count as u64)
        .map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 37) as u8)
        .collect()
}

#[test]
fn hue_shift_of_0_changes_no_color_and_a_third_rotates_channels() {
    for red in (0..=255u8).step_by(3) {
        for green in 0..=255u8 {
            for blue in (0..=255u8).step_by(5) {
                let color = [red, green, blue];
                assert_eq!(apply_pixel(0, color), color);
                assert_eq!(apply_pixel(2 * HUE_SECTOR, color), [blue, red, green]);
                assert_eq!(apply_pixel(4 * HUE_SECTOR, color), [green, blue, red]);
            }
        }
    }
}

fn apply_pixel(shift: i32, [r, g, b]: [u8; 3]) -> [u8; 3] {
    let (mut r, mut g, mut b) = ([r], [g], [b]);
    rotate_hue([&mut r, &mut g, &mut b], shift);
    [r[0], g[0], b[0]]
}

#[test]
fn hue_is_within_one_code_of_hsv_in_f64() {
    for fraction in [-0.5, -0.23, 0.02, 0.1, 0.31, 0.5] {
        let RgbOperation::Hue(shift) = RgbOperation::hue(fraction) else {
            unreachable!()
        };
        for seed in 0..4000u64 {
            let color = [seed * 7 % 256, seed * 31 % 256, seed * 101 % 256].map(|v| v as u8);
            let expected = hsv_shift(color.map(f64::from), fraction);
            let got = apply_pixel(shift, color).map(f64::from);
            assert!(
                (0..3).all(|c| (got[c] - expected[c]).abs() < 0.51),
                "{color:?} {got:?} {expected:?}"
            );
        }
    }
}

/// Hue in HSV, in the textbook form with six cases.
fn hsv_shift([r, g, b]: [f64; 3], fraction: f64) -> [f64; 3] {
    let value = r.max(g).max(b);
    let chroma = value - r.min(g).min(b);
    if chroma == 0.0 {
        return [r, g, b];
    }
    let hue = if value == r {
        (g - b) / chroma
    } else if value == g {
        2.0 + (b - r) / chroma
    } else {
        4.0 + (r - g) / chroma
    };
    let hue = (hue + 6.0 * fraction).rem_euclid(6.0);
    let f = hue.fract();
    let (p, q, t) = (
        value - chroma,
        value - chroma * f,
        value - chroma * (1.0 - f),
    );
    match hue.floor() as u32 % 6 {
        0 => [value, t, p],
        1 => [q, value, p],
        2 => [p, value, t],
        3 => [p, q, value],
        4 => [t, p, value],
        _ => [value, p, q],
    }
}

#[test]
fn blur_is_within_one_code_of_the_convolution_in_f64() {
    let (width, height) = (71usize, 13usize);
    let codes = noise(3 * width * height);
    for ((kw, kh), sigma) in [
        ((5u32, 3u32), 1.3),
        ((23, 9), 2.0),
        ((1, 1), 0.5),
        ((3, 25), 0.1),
    ] {
        let got = apply(
            &RgbOperation::blur((kw, kh), sigma),
            &codes,
            (width as u32, height as u32),
        );
        let weight = |offset: isize| (-0.5 * (offset as f64 / sigma).powi(2)).exp();
        let (rx, ry) = ((kw / 2) as isize, (kh / 2) as isize);
        let total: f64 = (-ry..=ry).map(weight).sum::<f64>() * (-rx..=rx).map(weight).sum::<f64>();
        for (plane, out) in codes.chunks(width * height).zip(got.chunks(width * height)) {
            for y in 0..height as isize {
                for x in 0..width as isize {
                    let mut sum = 0.0;
                    for dy in -ry..=ry {
                        for dx in -rx..=rx {
                            let at = reflect(y + dy, height) * width + reflect(x + dx, width);
                            sum += weight(dy) * weight(dx) * f64::from(plane[at]);
                        }
                    }
                    let out = f64::from(out[y as usize * width + x as usize]);
                    assert!((out - sum / total).abs() < 0.52, "{out} {}", sum / total);
                }
            }
        }
    }
}

#[test]
fn blur_that_exceeds_the_frame_is_refused() {
    let mut codes = vec![0; 3 * 4 * 4];
    let blur = RgbOperation::blur((9, 3), 1.0);
    let refused = blur
        .apply(&mut codes, (4, 4), &mut OperationScratch::default())
        .unwrap_err();
    assert_eq!(
        refused,
        PassError::BlurTooLarge {
            kernel: (9, 3),
            width: 4,
            height: 4
        }
    );
    assert!(RgbOperation::blur((7, 3), 1.0).check((4, 4)).is_ok());
}

#[test]
fn sharpness_equals_its_definition() {
    let (width, height) = (67usize, 9usize);
    let codes = noise(3 * width * height);
    for factor in [0.0, 0.3, 1.0, 1.9, 7.0] {
        let got = apply(
            &RgbOperation::sharpness(factor),
            &codes,
            (width as u32, height as u32),
        );
        let amount = ((1.0 - factor) * 65_536.0f64).round() as i64;
        for (plane, out) in codes.chunks(width * height).zip(got.chunks(width * height)) {
            for (place, &out) in out.iter().enumerate() {
                let (x, y) = (place % width, place / width);
                let code = i64::from(plane[place]);
                let inside = x > 0 && y > 0 && x + 1 < width && y + 1 < height;
                let expected = if inside {
                    let around: i64 = (0..9)
                        .map(|k| i64::from(plane[place + k % 3 - 1 + k / 3 * width - width]))
                        .sum();
                    // Rounded to nearest; 13 is odd, so there are no ties.
                    let smooth = (2 * (around + 4 * code) + 13) / 26;
                    (((code << 16) + amount * (smooth - code)) >> 16).clamp(0, 255)
                } else {
                    code
                };
                assert_eq!(i64::from(out), expected, "{factor} {x} {y}");
            }
        }
    }
}

#[test]
fn tables_equal_their_definitions() {
    let codes: Vec<u8> = (0..=255).cycle().take(3 * 16 * 16).collect();
    let map = |operation, code: usize| apply(&operation, &codes, (16, 16))[code];
    assert_eq!(map(RgbOperation::posterize(3), 0b1011_1111), 0b1010_0000);
    assert_eq!(
        (
            map(RgbOperation::posterize(8), 201),
            map(RgbOperation::posterize(0), 201)
        ),
        (201, 0)
    );
    assert_eq!(
        (
            map(RgbOperation::solarize(128.0), 127),
            map(RgbOperation::solarize(128.0), 128)
        ),
        (127, 127)
    );
    assert_eq!(map(RgbOperation::invert(), 3), 252);
}

#[test]
fn autocontrast_and_equalize_use_each_channel_alone() {
    let mut codes = vec![100; 3 * 256];
    for (n, code) in codes.iter_mut().enumerate().take(512) {
        *code = if n < 256 {
            50 + (n % 101) as u8
        } else {
            (n % 256) as u8
        };
    }
    let stretched = apply(&RgbOperation::Autocontrast, &codes, (16, 16));
    assert_eq!((stretched[0], stretched[100], stretched[1]), (0, 255, 2));
    assert_eq!(stretched[256..], codes[256..]);
    // 255 of 256 codes below the highest: a step of one, so a uniform channel is unchanged; so is a
    // constant one.
    assert_eq!(
        apply(&RgbOperation::Equalize, &codes, (16, 16))[256..],
        codes[256..]
    );
    // 1024 pixels of 10, 20 and 30, 512 of them of 30: a step of 2, and 0, 300 and 512 pixels
    // below.
    let mut codes = vec![30; 3 * 1024];
    codes[..300].fill(10);
    codes[300..512].fill(20);
    let equalized = apply(&RgbOperation::Equalize, &codes, (32, 32));
    assert_eq!(
        (equalized[0], equalized[300], equalized[512]),
        (0, 150, 255)
    );
}
