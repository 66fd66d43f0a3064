//! The files that inputs.py wrote: frames, and the augmentation of each clip.
//!
//! Nothing is decoded.

use std::path::Path;

use crate::BoxError;

/// Frames of a clip, which share an augmentation.
pub const CLIP: usize = 16;
/// The frames whose results are compared with the reference.
pub const CHECKED_FRAMES: [usize; 4] = [0, 5, 10, 15];

pub const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
pub const STD: [f32; 3] = [0.229, 0.224, 0.225];

/// Planes of 8-bit YUV 4:2:0 without padding, BT.709, limited range.
pub struct Inputs {
    pub width: usize,
    pub height: usize,
    pub frames: Vec<Vec<u8>>,
    pub clips: Vec<Augmentation>,
}

/// The augmentation of a clip, with the names of inputs.py.
pub struct Augmentation {
    /// Left, top, width, height.
    pub crop: [u32; 4],
    pub flip: bool,
    pub color: [[f64; 3]; 3],
    pub contrast: f64,
    pub cos: f64,
    pub sin: f64,
    /// Cycles per column, per row, and at (0, 0), of each phase.
    pub grid: [[f64; 3]; 2],
    pub grid_ratio: f64,
}

impl Inputs {
    pub fn read(folder: &Path, width: usize, height: usize) -> Result<Self, BoxError> {
        let bytes = std::fs::read(folder.join("frames.yuv"))?;
        let frames = bytes.chunks_exact(width * height * 3 / 2).map(<[u8]>::to_vec).collect();
        let clips = std::fs::read_to_string(folder.join("clips.txt"))?
            .lines()
            .map(Augmentation::parse)
            .collect::<Result<_, _>>()?;
        Ok(Self { width, height, frames, clips })
    }

    /// Y, U, V.
    pub fn planes(&self, index: usize) -> [&[u8]; 3] {
        let frame = &self.frames[index];
        let luma = self.width * self.height;
        let (y, chroma) = frame.split_at(luma);
        let (u, v) = chroma.split_at(luma / 4);
        [y, u, v]
    }
}

impl Augmentation {
    fn parse(line: &str) -> Result<Self, BoxError> {
        let numbers = line.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        let numbers: [f64; 24] =
            numbers.try_into().map_err(|got: Vec<f64>| format!("{} numbers for a clip", got.len()))?;
        let [left, top, width, height, flip, contrast, cos, sin, grid_ratio, rest @ ..] = numbers;
        let row = |r: usize| [rest[3 * r], rest[3 * r + 1], rest[3 * r + 2]];
        Ok(Self {
            crop: [left, top, width, height].map(|value| value as u32),
            flip: flip != 0.0,
            color: [row(0), row(1), row(2)],
            contrast,
            cos,
            sin,
            grid: [row(3), row(4)],
            grid_ratio,
        })
    }
}
