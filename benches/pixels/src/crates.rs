//! Pixels from fast_image_resize and yuv, in the three usual orders of combining these crates.
//!
//! No buffer or resizer is created per frame.

use std::ops::Range;

use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use yuv::{YuvPlanarImage, YuvRange, YuvStandardMatrix};

use crate::inputs::{Inputs, MEAN, STD};
use crate::{BoxError, Adapter};

const SIDE: usize = 224;
/// Shorter side 256 of 1920x1080, and torchvision's center crop of it.
const RESIZED: (usize, usize) = (455, 256);
const CORNER: (usize, usize) = (116, 16);

#[derive(Clone, Copy, Default, PartialEq)]
enum Case {
    #[default]
    Direct,
    /// Resize the complete frame, then crop: the usual code.
    Crop,
    /// Resize only the region of the source that the crop shows.
    Box,
}

impl Case {
    fn parse(name: &str) -> Result<Self, BoxError> {
        match name {
            "direct" => Ok(Self::Direct),
            "crop" => Ok(Self::Crop),
            "box" => Ok(Self::Box),
            _ => Err(format!("no case {name}").into()),
        }
    }

    fn resized(self) -> (usize, usize) {
        match self {
            Self::Crop => RESIZED,
            Self::Direct | Self::Box => (SIDE, SIDE),
        }
    }

    /// The triangle filter, widened when shrinking, over a plane of this size.
    fn options(self, (width, height): (usize, usize)) -> ResizeOptions {
        let options =
            ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear)).use_alpha(false);
        if self != Self::Box {
            return options;
        }
        let (x_scale, y_scale) = (width as f64 / RESIZED.0 as f64, height as f64 / RESIZED.1 as f64);
        let (x, y) = (CORNER.0 as f64 * x_scale, CORNER.1 as f64 * y_scale);
        options.crop(x, y, SIDE as f64 * x_scale, SIDE as f64 * y_scale)
    }
}

/// The center of a packed image, as normalized planes.
fn normalize(rgb: &[u8], case: Case, out: &mut [u8]) {
    let (width, (x, y)) = (case.resized().0, if case == Case::Crop { CORNER } else { (0, 0) });
    for (c, plane) in out.chunks_exact_mut(SIDE * SIDE * 4).enumerate() {
        let (scale, bias) = (1.0 / (255.0 * STD[c]), -MEAN[c] / STD[c]);
        for (j, row) in plane.chunks_exact_mut(SIDE * 4).enumerate() {
            let pixels = rgb[((y + j) * width + x) * 3..][..SIDE * 3].chunks_exact(3);
            for (element, pixel) in row.chunks_exact_mut(4).zip(pixels) {
                let value = f32::from(pixel[c]) * scale + bias;
                element.copy_from_slice(&value.to_ne_bytes());
            }
        }
    }
}

fn planar<'a>([y, u, v]: [&'a [u8]; 3], width: usize, height: usize, log2: u32) -> YuvPlanarImage<'a, u8> {
    let (width, height) = (width as u32, height as u32);
    let chroma = width >> log2;
    YuvPlanarImage {
        y_plane: y,
        y_stride: width,
        u_plane: u,
        u_stride: chroma,
        v_plane: v,
        v_stride: chroma,
        width,
        height,
    }
}

/// fast_image_resize on each plane, then yuv on the small image.
pub struct FirPlanes {
    inputs: Inputs,
    resizer: Resizer,
    case: Case,
    small: [Image<'static>; 3],
    rgb: Vec<u8>,
}

impl FirPlanes {
    pub fn new(inputs: Inputs) -> Self {
        let small = [(); 3].map(|()| Image::new(1, 1, PixelType::U8));
        Self { inputs, resizer: Resizer::new(), case: Case::default(), small, rgb: Vec::new() }
    }
}

impl Adapter for FirPlanes {
    fn version(&self) -> String {
        format!("fast_image_resize ({:?}), then yuv", self.resizer.cpu_extensions())
    }

    fn prepare(&mut self, case: &str, _clips: Range<usize>) -> Result<usize, BoxError> {
        self.case = Case::parse(case)?;
        let (width, height) = self.case.resized();
        self.small = [(); 3].map(|()| Image::new(width as u32, height as u32, PixelType::U8));
        self.rgb.resize(width * height * 3, 0);
        Ok(SIDE * SIDE * 3 * 4)
    }

    fn frame(&mut self, index: usize, out: &mut [u8]) -> Result<(), BoxError> {
        let (width, height) = (self.inputs.width, self.inputs.height);
        let halves = [0, 1, 1];
        for ((data, small), log2) in self.inputs.planes(index).into_iter().zip(&mut self.small).zip(halves) {
            let (width, height) = (width >> log2, height >> log2);
            let plane = ImageRef::new(width as u32, height as u32, data, PixelType::U8)?;
            self.resizer.resize(&plane, small, &self.case.options((width, height)))?;
        }
        let (width, height) = self.case.resized();
        let small = planar(self.small.each_ref().map(|image| image.buffer()), width, height, 0);
        let stride = width as u32 * 3;
        yuv::yuv444_to_rgb(&small, &mut self.rgb, stride, YuvRange::Limited, YuvStandardMatrix::Bt709)?;
        normalize(&self.rgb, self.case, out);
        Ok(())
    }
}

/// yuv at full size, then fast_image_resize on RGB.
pub struct YuvFir {
    inputs: Inputs,
    resizer: Resizer,
    case: Case,
    full: Vec<u8>,
    small: Image<'static>,
}

impl YuvFir {
    pub fn new(inputs: Inputs) -> Self {
        let full = vec![0; inputs.width * inputs.height * 3];
        let small = Image::new(1, 1, PixelType::U8x3);
        Self { inputs, resizer: Resizer::new(), case: Case::default(), full, small }
    }
}

impl Adapter for YuvFir {
    fn version(&self) -> String {
        format!("yuv, then fast_image_resize ({:?}) on RGB", self.resizer.cpu_extensions())
    }

    fn prepare(&mut self, case: &str, _clips: Range<usize>) -> Result<usize, BoxError> {
        self.case = Case::parse(case)?;
        let (width, height) = self.case.resized();
        self.small = Image::new(width as u32, height as u32, PixelType::U8x3);
        Ok(SIDE * SIDE * 3 * 4)
    }

    fn frame(&mut self, index: usize, out: &mut [u8]) -> Result<(), BoxError> {
        let (width, height) = (self.inputs.width, self.inputs.height);
        convert(&self.inputs, index, &mut self.full)?;
        let full = ImageRef::new(width as u32, height as u32, &self.full, PixelType::U8x3)?;
        self.resizer.resize(&full, &mut self.small, &self.case.options((width, height)))?;
        normalize(self.small.buffer(), self.case, out);
        Ok(())
    }
}

/// yuv at full size.
pub struct Yuv {
    inputs: Inputs,
}

impl Yuv {
    pub fn new(inputs: Inputs) -> Self {
        Self { inputs }
    }
}

impl Adapter for Yuv {
    fn version(&self) -> String {
        "yuv420_to_rgb".into()
    }

    fn prepare(&mut self, case: &str, _clips: Range<usize>) -> Result<usize, BoxError> {
        match case {
            "full" => Ok(self.inputs.width * self.inputs.height * 3),
            _ => Err(format!("no case {case}").into()),
        }
    }

    fn frame(&mut self, index: usize, out: &mut [u8]) -> Result<(), BoxError> {
        convert(&self.inputs, index, out)
    }
}

fn convert(inputs: &Inputs, index: usize, out: &mut [u8]) -> Result<(), BoxError> {
    let image = planar(inputs.planes(index), inputs.width, inputs.height, 1);
    let stride = inputs.width as u32 * 3;
    yuv::yuv420_to_rgb(&image, out, stride, YuvRange::Limited, YuvStandardMatrix::Bt709)?;
    Ok(())
}
