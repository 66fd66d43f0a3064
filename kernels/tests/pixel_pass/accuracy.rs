//! Checks the documented distance from the exact result, on smooth frames with noise, in gamut, in
//! many formats.

use framespool_kernels::reference::Image;
use framespool_kernels::*;

use crate::support::{Format, PlaneLayout, TestFrame, hash, run_u8};

/// A frame of waves and noise, generated in RGB so that it is in gamut like frames of a camera,
/// then encoded.
fn natural_frame(format: Format, seed: u64) -> TestFrame {
    drawn(format, seed, 1.0)
}

/// [`natural_frame`] with less contrast: repeated chroma does not leave RGB either.
pub fn low_contrast_frame(format: Format, seed: u64) -> TestFrame {
    drawn(format, seed, 0.4)
}

fn drawn(format: Format, seed: u64, contrast: f64) -> TestFrame {
    let (kr, kb) = match format.color.matrix {
        MatrixCoefficients::Bt601 => (0.299, 0.114),
        MatrixCoefficients::Bt709 => (0.2126, 0.0722),
        MatrixCoefficients::Fcc => (0.3, 0.11),
        MatrixCoefficients::Smpte240m => (0.212, 0.087),
        _ => (0.2627, 0.0593),
    };
    let codes = 2f64.powi(i32::from(format.depth_bits));
    let (black, luma_span, chroma_span) = match format.color.range {
        ColorRange::Limited => (codes / 16.0, codes * 219.0 / 256.0, codes * 224.0 / 256.0),
        ColorRange::Full => (0.0, codes - 1.0, codes - 1.0),
    };
    let is_rgb = matches!(
        format.plane_layout,
        PlaneLayout::PlanarRgb | PlaneLayout::PackedRgb(_)
    );
    TestFrame::new(format, |component, column, row| {
        let (w, h) = if component == 0 || is_rgb {
            (0, 0)
        } else {
            format.log2_chroma
        };
        let (x, y) = (f64::from(column << w), f64::from(row << h));
        let rgb = [0, 1, 2].map(|c| {
            let wave = (x / (17.0 + 5.0 * c as f64) + seed as f64).sin()
                * (y / (13.0 + 3.0 * c as f64)).cos();
            let noise = (hash(seed, c, u64::from(column << w), u64::from(row << h)) % 1000) as f64
                / 1000.0
                - 0.5;
            0.5 + contrast * (0.3 * wave + 0.2 * noise)
        });
        let y = kr * rgb[0] + (1.0 - kr - kb) * rgb[1] + kb * rgb[2];
        let [red, green, blue] = rgb;
        let ordinary = |component: usize, y: f64| match component {
            _ if is_rgb => black + luma_span * rgb[component],
            0 => black + luma_span * y,
            1 => codes / 2.0 + chroma_span * (blue - y) / 2.0 / (1.0 - kb),
            _ => codes / 2.0 + chroma_span * (red - y) / 2.0 / (1.0 - kr),
        };
        let value = match component {
            _ if is_rgb || format.color.matrix != MatrixCoefficients::YCgCo => {
                ordinary(component, y)
            }
            0 => black + luma_span * (0.5 * green + 0.25 * (red + blue)),
            1 => codes / 2.0 + luma_span * (0.5 * green - 0.25 * (red + blue)),
            _ => codes / 2.0 + luma_span * 0.5 * (red - blue),
        };
        value.round().clamp(0.0, codes - 1.0) as u32
    })
}

pub fn formats(width: u32, height: u32) -> Vec<Format> {
    let mut all = Vec::new();
    for plane_layout in [
        PlaneLayout::Gray,
        PlaneLayout::Planar,
        PlaneLayout::SemiPlanar,
        PlaneLayout::PlanarRgb,
        PlaneLayout::PackedRgb(4),
    ] {
        for depth_bits in [8, 10, 12, 16] {
            if matches!(plane_layout, PlaneLayout::PackedRgb(_)) && depth_bits > 8 {
                continue;
            }
            for matrix in MatrixCoefficients::ALL_YUV {
                for range in [ColorRange::Limited, ColorRange::Full] {
                    for log2_chroma in [(1, 1), (1, 0), (0, 0), (2, 0)] {
                        let color = Colorimetry { matrix, range };
                        all.push(Format {
                            plane_layout,
                            depth_bits,
                            log2_chroma,
                            color,
                            padding_bytes: 2,
                            ..Format::i420(width, height)
                        });
                    }
                }
            }
        }
    }
    all
}

#[derive(Debug)]
pub struct Distance {
    pub max: u8,
    pub within_2: f64,
    pub mean: f64,
}

pub fn distance(a: &Image, b: &Image) -> Distance {
    assert_eq!((a.width, a.height), (b.width, b.height));
    let all: Vec<u8> = a
        .pixels
        .iter()
        .flatten()
        .zip(b.pixels.iter().flatten())
        .map(|(a, b)| a.abs_diff(*b))
        .collect();
    let count = all.len() as f64;
    Distance {
        max: all.iter().copied().max().unwrap_or(0),
        within_2: all.iter().filter(|&&d| d <= 2).count() as f64 / count,
        mean: all.iter().map(|&d| f64::from(d)).sum::<f64>() / count,
    }
}

#[test]
fn full_size_is_within_1_of_the_exact_formula() {
    for (seed, format) in formats(67, 41).into_iter().enumerate() {
        let picture = natural_frame(format, seed as u64);
        let exact = reference::exact_full_size(&picture.view()).unwrap();
        let got = run_u8(
            &picture.view(),
            Geometry::identity(67, 41),
            Backend::detect(),
        );
        assert!(distance(&got, &exact).max <= 1, "{format:?}");
    }
}

#[test]
fn full_size_is_within_1_for_all_8_bit_codes() {
    // Also out of gamut: 32 x 32 x 32 of them in one 4:4:4 frame.
    for matrix in MatrixCoefficients::ALL_YUV {
        for range in [ColorRange::Limited, ColorRange::Full] {
            for depth_bits in [8, 10, 12, 16] {
                let color = Colorimetry { matrix, range };
                let format = Format {
                    log2_chroma: (0, 0),
                    depth_bits,
                    color,
                    padding_bytes: 0,
                    ..Format::i420(256, 128)
                };
                let top = (1 << depth_bits) - 1;
                let picture = TestFrame::new(format, |component, column, row| {
                    let index = row * 256 + column;
                    (index >> (5 * component) & 31) * top / 31
                });
                let exact = reference::exact_full_size(&picture.view()).unwrap();
                let got = run_u8(
                    &picture.view(),
                    Geometry::identity(256, 128),
                    Backend::detect(),
                );
                assert!(distance(&got, &exact).max <= 1, "{format:?}");
            }
        }
    }
}

#[test]
fn every_size_is_near_the_antialiased_rgb_resize() {
    // Chroma is folded as repeated, so the bound for halves and smaller applies to every size.
    let (width, height) = (201, 123);
    // Every 7th format covers every arrangement, depth, matrix, range and subsampling: the
    // reference is slow in debug builds.
    for (seed, format) in formats(width, height).into_iter().step_by(7).enumerate() {
        let picture = natural_frame(format, seed as u64);
        for resized in [
            (100, 61),
            (67, 41),
            (31, 20),
            (5, 3),
            (150, 100),
            (201, 60),
            (230, 150),
        ] {
            let geometry = Geometry {
                crop: Rect {
                    x: 3,
                    y: 1,
                    width: width - 5,
                    height: height - 2,
                },
                resized,
                window: Rect::from_size(resized.0, resized.1),
                orientation: Orientation {
                    mirror: seed % 2 == 1,
                    quarter_turns_cw: 0,
                },
                ..Geometry::identity(width, height)
            };
            let exact =
                reference::exact(&picture.view(), &geometry, &OutputSpec::new(Dtype::U8)).unwrap();
            let d = distance(
                &run_u8(&picture.view(), geometry, Backend::detect()),
                &exact,
            );
            assert!(
                d.within_2 >= 0.99 && d.mean < 0.5,
                "{format:?} {resized:?}: {} {} {}",
                d.within_2,
                d.mean,
                d.max
            );
        }
    }
}

#[test]
fn rotated_frames_are_near_the_exact_result() {
    let picture = natural_frame(Format::i420(150, 90), 7);
    for mirror in [false, true] {
        for quarter_turns_cw in 0..4 {
            let orientation = Orientation {
                mirror,
                quarter_turns_cw,
            };
            let (width, height) = if quarter_turns_cw % 2 == 1 {
                (90, 150)
            } else {
                (150, 90)
            };
            let geometry = Geometry {
                orientation,
                crop: Rect {
                    x: 1,
                    y: 2,
                    width: width - 4,
                    height: height - 3,
                },
                resized: (width / 3, height / 2),
                window: Rect {
                    x: 5,
                    y: 1,
                    width: 20,
                    height: 19,
                },
                flip_horizontal: mirror,
                flip_vertical: quarter_turns_cw > 1,
                ..Geometry::identity(width, height)
            };
            let exact =
                reference::exact(&picture.view(), &geometry, &OutputSpec::new(Dtype::U8)).unwrap();
            let d = distance(
                &run_u8(&picture.view(), geometry, Backend::detect()),
                &exact,
            );
            assert!(
                d.within_2 >= 0.99 && d.mean < 0.5,
                "{orientation:?}: {} {}",
                d.within_2,
                d.mean
            );
        }
    }
}
