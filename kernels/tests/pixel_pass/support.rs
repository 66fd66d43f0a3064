//! Owned frames with padded rows, runs of the pass into 8-bit images, and the number of proptest
//! cases.

use framespool_kernels::reference::Image;
use framespool_kernels::*;
use proptest::prelude::ProptestConfig;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaneLayout {
    Gray,
    Planar,
    SemiPlanar,
    PlanarRgb,
    PackedRgb(u8),
}

#[derive(Clone, Copy, Debug)]
pub struct Format {
    pub width: u32,
    pub height: u32,
    pub plane_layout: PlaneLayout,
    pub log2_chroma: (u8, u8),
    pub depth_bits: u8,
    pub shift: u8,
    pub padding_bytes: usize,
    pub color: Colorimetry,
}

impl Format {
    pub fn i420(width: u32, height: u32) -> Self {
        Self {
            width,
            height,
            plane_layout: PlaneLayout::Planar,
            log2_chroma: (1, 1),
            depth_bits: 8,
            shift: 0,
            padding_bytes: 3,
            color: Colorimetry {
                matrix: MatrixCoefficients::Bt709,
                range: ColorRange::Limited,
            },
        }
    }

    /// Number of components in the planes.
    pub fn components(&self) -> usize {
        if self.plane_layout == PlaneLayout::Gray {
            1
        } else {
            3
        }
    }
}

pub struct TestFrame {
    pub format: Format,
    planes: Vec<(Vec<u8>, usize)>,
}

impl TestFrame {
    /// `sample(component, column, row)` gives code values in the component's own resolution.
    pub fn new(format: Format, mut sample: impl FnMut(usize, u32, u32) -> u32) -> Self {
        let chroma = (
            format.width.div_ceil(1 << format.log2_chroma.0),
            format.height.div_ceil(1 << format.log2_chroma.1),
        );
        let luma = (format.width, format.height);
        let mut plane = |(columns, rows): (u32, u32), components: &[Option<usize>]| {
            let mut data = Vec::new();
            let mut stride = 0;
            for row in 0..rows {
                let start = data.len();
                for column in 0..columns {
                    for component in components {
                        let value =
                            component.map_or(99, |component| sample(component, column, row));
                        match format.depth_bits {
                            8 => data.push(value as u8),
                            _ => data
                                .extend_from_slice(&((value as u16) << format.shift).to_le_bytes()),
                        }
                    }
                }
                // The last row has no padding: decoders may end a buffer there.
                if row + 1 < rows {
                    data.extend((0..format.padding_bytes).map(|i| 0xA5 ^ i as u8));
                }
                if row == 0 {
                    stride = data.len() - start;
                }
            }
            (data, stride)
        };
        let planes = match format.plane_layout {
            PlaneLayout::Gray => vec![plane(luma, &[Some(0)])],
            PlaneLayout::Planar => {
                vec![
                    plane(luma, &[Some(0)]),
                    plane(chroma, &[Some(1)]),
                    plane(chroma, &[Some(2)]),
                ]
            }
            PlaneLayout::SemiPlanar => {
                vec![plane(luma, &[Some(0)]), plane(chroma, &[Some(1), Some(2)])]
            }
            PlaneLayout::PlanarRgb => (0..3)
                .map(|component| plane(luma, &[Some(component)]))
                .collect(),
            PlaneLayout::PackedRgb(3) => vec![plane(luma, &[Some(2), Some(1), Some(0)])],
            PlaneLayout::PackedRgb(bytes) => {
                let mut components = vec![None, Some(0), Some(1), Some(2)];
                components.resize(usize::from(bytes), None);
                vec![plane(luma, &components)]
            }
        };
        Self { format, planes }
    }

    pub fn view(&self) -> FrameView<'_> {
        let Format {
            width,
            height,
            depth_bits,
            shift,
            color,
            log2_chroma,
            ..
        } = self.format;
        let plane = |index: usize| Plane {
            data: &self.planes[index].0,
            stride_bytes: self.planes[index].1,
        };
        let (log2_chroma_w, log2_chroma_h) = log2_chroma;
        let planes = match self.format.plane_layout {
            PlaneLayout::Gray => Planes::Gray(plane(0)),
            PlaneLayout::Planar => Planes::Yuv {
                planes: [plane(0), plane(1), plane(2)],
                log2_chroma_w,
                log2_chroma_h,
            },
            PlaneLayout::SemiPlanar => Planes::SemiPlanar {
                luma: plane(0),
                chroma: plane(1),
                log2_chroma_w,
                log2_chroma_h,
            },
            PlaneLayout::PlanarRgb => Planes::PlanarRgb([plane(0), plane(1), plane(2)]),
            PlaneLayout::PackedRgb(3) => Planes::PackedRgb {
                plane: plane(0),
                pixel_bytes: 3,
                offsets: [2, 1, 0],
            },
            PlaneLayout::PackedRgb(pixel_bytes) => Planes::PackedRgb {
                plane: plane(0),
                pixel_bytes,
                offsets: [1, 2, 3],
            },
        };
        FrameView {
            width,
            height,
            depth_bits,
            shift,
            planes,
            color,
        }
    }
}

/// The pass on one backend, 8-bit and channels last.
pub fn run_with_spec(
    frame: &FrameView<'_>,
    geometry: &Geometry,
    spec: &OutputSpec,
    backend: Backend,
) -> Result<Image, PassError> {
    let mut pass = PixelPass::new(*geometry, spec.clone())?.with_backend(backend);
    let (width, height) = pass.output_size();
    let mut data = vec![0; width as usize * height as usize * 3];
    pass.run(
        frame,
        &mut OutputSlot::hwc(&mut data, width as usize),
        &mut Scratch::new(),
    )?;
    Ok(Image {
        width,
        height,
        pixels: data.chunks_exact(3).map(|p| [p[0], p[1], p[2]]).collect(),
    })
}

/// [`run_with_spec`] with unchanged colors.
pub fn run_u8(frame: &FrameView<'_>, geometry: Geometry, backend: Backend) -> Image {
    run_with_spec(frame, &geometry, &OutputSpec::new(Dtype::U8), backend).unwrap()
}

/// A gray full-range frame with the listed pixels.
pub fn gray(width: u32, height: u32, values: &[u8]) -> TestFrame {
    let color = Colorimetry {
        matrix: MatrixCoefficients::Bt709,
        range: ColorRange::Full,
    };
    let format = Format {
        plane_layout: PlaneLayout::Gray,
        color,
        ..Format::i420(width, height)
    };
    TestFrame::new(format, |_, column, row| {
        u32::from(values[(row * width + column) as usize])
    })
}

/// The red (or gray) values of the output.
pub fn red(picture: &TestFrame, geometry: Geometry) -> Vec<u8> {
    red_with_spec(picture, geometry, &OutputSpec::new(Dtype::U8))
}

/// [`red`] with other colors.
pub fn red_with_spec(picture: &TestFrame, geometry: Geometry, spec: &OutputSpec) -> Vec<u8> {
    let image = run_with_spec(&picture.view(), &geometry, spec, Backend::detect()).unwrap();
    image.pixels.iter().map(|pixel| pixel[0]).collect()
}

/// Noise in every sample, half of it extremes: sums must survive all black and all white.
pub fn noise(format: Format, seed: u64) -> TestFrame {
    let white = (1u64 << format.depth_bits) - 1;
    TestFrame::new(format, |component, column, row| {
        let random = hash(seed, component as u64, u64::from(column), u64::from(row));
        (match random >> 60 {
            0..=3 => 0,
            4..=7 => white,
            _ => random & white,
        }) as u32
    })
}

/// The number of cases, unless the environment sets it (`PROPTEST_CASES`).
pub fn config(cases: u32) -> ProptestConfig {
    let all = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() {
        all.cases
    } else {
        cases
    };
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..all
    }
}

/// Repeatable noise.
pub fn hash(seed: u64, a: u64, b: u64, c: u64) -> u64 {
    let mut x = seed
        ^ a.wrapping_mul(0x9E37_79B9_7F4A_7C15)
        ^ b.wrapping_mul(0xC2B2_AE3D_27D4_EB4F)
        ^ c.wrapping_mul(0x1656_67B1_9E37_79F9);
    for _ in 0..2 {
        x = (x ^ (x >> 31)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    }
    x ^ (x >> 32)
}
