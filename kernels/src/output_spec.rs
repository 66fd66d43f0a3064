//! Describes what follows resampling: color map, fill, masks, normalization and dtype
//! (`OutputSpec`). It is independent of frames and sizes.

use crate::error::PassError;
use crate::tone_map::ToneMap;
use crate::types::{Channels, Matrix3, Rect, product};
use crate::write::{Dtype, Normalize};

/// A color map in RGB code values 0 to 255: `matrix * rgb + mean * (mean RGB of the window) +
/// offset`.
///
/// Brightness, contrast, saturation, hue and gray are all of this form and compose by
/// [`then`](Self::then). The mean is that of one frame's window (the resized picture without fill),
/// before the change. Values are clamped once, at the end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColorMap {
    /// Rows give R, G, B.
    pub matrix: [[f64; 3]; 3],
    /// Weight of the mean RGB that is added.
    pub mean: [[f64; 3]; 3],
    /// Constant part in code values.
    pub offset: [f64; 3],
}

/// The fill color outside the frame, in code values: `base + mean * (mean RGB of the window)`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fill {
    /// Constant part.
    pub base: [f64; 3],
    /// Weight of the mean RGB; not zero only if a color map with a mean is applied to fill.
    pub mean: [[f64; 3]; 3],
}

/// The value of a masked pixel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MaskFill {
    /// R, G, B from 0 to 255, normalized like the frame.
    CodeValue([u8; 3]),
    /// Elements of the output. Float dtypes only.
    Element([f32; 3]),
    /// Noise that depends only on key, position and channel: near-normal with mean 0 and standard
    /// deviation 1 for float dtypes, uniform code values for `u8` and `u16`.
    Noise(u64),
}

/// Which pixels of the output are masked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MaskRegion {
    /// A rectangle.
    Rect(Rect),
    /// The squares of a grid.
    Grid(MaskGrid),
}

/// A grid of squares defined by two phases, which wrap like 32-bit integers; a pixel is masked if
/// both are below `limit`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaskGrid {
    /// Change of the first phase per column and per row.
    pub step_x: [u32; 2],
    /// Change of the second phase per column and per row.
    pub step_y: [u32; 2],
    /// Phases of pixel (0, 0).
    pub start: [u32; 2],
    /// 0 masks nothing, 2^32 everything.
    pub limit: u64,
}

/// A mask and its fill.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mask {
    /// The masked pixels.
    pub region: MaskRegion,
    /// Their value.
    pub fill: MaskFill,
}

/// All steps after geometry.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputSpec {
    /// Tone mapping of high dynamic range video, before any other color change. Float elements keep
    /// more than 8 bits.
    pub tone: Option<ToneMap>,
    /// Color map.
    pub color: ColorMap,
    /// Color outside the frame, final: the color map is not applied to it.
    pub fill: Fill,
    /// Masks; later ones overwrite earlier ones.
    pub masks: Vec<Mask>,
    /// Normalization of float elements.
    pub normalize: Option<Normalize>,
    /// Type of the elements.
    pub dtype: Dtype,
    /// Channels written.
    pub channels: Channels,
}

const ZERO: Matrix3 = [[0.0; 3]; 3];
const ONE: Matrix3 = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];

fn sum(a: &Matrix3, b: &Matrix3) -> Matrix3 {
    [0, 1, 2].map(|r| [0, 1, 2].map(|k| a[r][k] + b[r][k]))
}

fn apply(a: &Matrix3, v: &[f64; 3]) -> [f64; 3] {
    [0, 1, 2].map(|r| a[r][0] * v[0] + a[r][1] * v[1] + a[r][2] * v[2])
}

impl Default for ColorMap {
    fn default() -> Self {
        Self::IDENTITY
    }
}

impl ColorMap {
    pub const IDENTITY: Self = Self {
        matrix: ONE,
        mean: ZERO,
        offset: [0.0; 3],
    };

    /// A linear change without offset.
    pub const fn linear(matrix: [[f64; 3]; 3]) -> Self {
        Self {
            matrix,
            mean: ZERO,
            offset: [0.0; 3],
        }
    }

    /// Combines this map with `next`. The mean that `next` uses is the mean after this map.
    pub fn then(&self, next: &Self) -> Self {
        // With m the mean before: x -> A x + D m + o, so the mean becomes (A + D) m + o.
        let mean_map = sum(&self.matrix, &self.mean);
        let mean = sum(
            &product(&next.matrix, &self.mean),
            &product(&next.mean, &mean_map),
        );
        let moved = apply(&sum(&next.matrix, &next.mean), &self.offset);
        let offset = [0, 1, 2].map(|r| moved[r] + next.offset[r]);
        Self {
            matrix: product(&next.matrix, &self.matrix),
            mean,
            offset,
        }
    }

    /// This map, with its mean computed before instead of after `earlier`.
    pub fn after_mean_of(&self, earlier: &Self) -> Self {
        let moved = apply(&self.mean, &earlier.offset);
        Self {
            matrix: self.matrix,
            mean: product(&self.mean, &sum(&earlier.matrix, &earlier.mean)),
            offset: [0, 1, 2].map(|r| moved[r] + self.offset[r]),
        }
    }

    /// The result of applying this map to an existing fill.
    pub fn apply_to_fill(&self, fill: &Fill) -> Fill {
        let base = apply(&self.matrix, &fill.base);
        Fill {
            base: [0, 1, 2].map(|r| base[r] + self.offset[r]),
            mean: sum(&product(&self.matrix, &fill.mean), &self.mean),
        }
    }

    /// Whether the map depends on the mean of the window.
    pub fn needs_mean(&self) -> bool {
        self.mean != ZERO
    }

    fn check(&self) -> Result<(), PassError> {
        check_numbers(
            self.matrix
                .iter()
                .chain(&self.mean)
                .flatten()
                .chain(&self.offset),
        )
    }
}

/// Larger numbers of a color map are meaningless; below this limit, sums fit in 64 bits.
const MAX_COLOR_VALUE: f64 = 1e6;

fn check_numbers<'a>(all: impl IntoIterator<Item = &'a f64>) -> Result<(), PassError> {
    match all
        .into_iter()
        .copied()
        .find(|value| !value.is_finite() || value.abs() > MAX_COLOR_VALUE)
    {
        Some(value) => Err(PassError::InvalidColorValue { value }),
        None => Ok(()),
    }
}

impl Fill {
    /// A constant color.
    pub const fn constant(base: [f64; 3]) -> Self {
        Self { base, mean: ZERO }
    }

    fn needs_mean(&self) -> bool {
        self.mean != ZERO
    }
}

impl OutputSpec {
    /// Elements of this type, with all other steps at their defaults.
    pub fn new(dtype: Dtype) -> Self {
        Self {
            tone: None,
            color: ColorMap::IDENTITY,
            fill: Fill::default(),
            masks: Vec::new(),
            normalize: None,
            dtype,
            channels: Channels::Three,
        }
    }

    /// The same with this normalization.
    pub fn normalized(self, normalize: Normalize) -> Self {
        Self {
            normalize: Some(normalize),
            ..self
        }
    }

    /// Whether the mean of each frame's window must be known before its colors can be computed.
    pub(crate) fn needs_mean(&self) -> bool {
        self.color.needs_mean() || self.fill.needs_mean()
    }

    /// Checks everything that does not depend on a frame, for an output of this size.
    pub(crate) fn check(&self, size: (u32, u32)) -> Result<(), PassError> {
        if let Some(tone) = &self.tone {
            tone.tables()?;
        }
        self.color.check()?;
        check_numbers(self.fill.mean.iter().flatten().chain(&self.fill.base))?;
        for mask in &self.masks {
            match mask.region {
                MaskRegion::Rect(rect) => rect.check_inside("mask", size)?,
                MaskRegion::Grid(grid) if grid.limit > 1 << 32 => {
                    return Err(PassError::InvalidMaskGrid { limit: grid.limit });
                }
                MaskRegion::Grid(_) => {}
            }
            if matches!(mask.fill, MaskFill::Element(_)) && self.dtype.is_integer() {
                return Err(PassError::MaskElementNeedsFloat);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(map: &ColorMap, rgb: [f64; 3], mean: [f64; 3]) -> [f64; 3] {
        let (a, b) = (apply(&map.matrix, &rgb), apply(&map.mean, &mean));
        [0, 1, 2].map(|r| a[r] + b[r] + map.offset[r])
    }

    #[test]
    fn combined_maps_equal_their_sequence() {
        let gray = [[0.3, 0.6, 0.1]; 3];
        let contrast = ColorMap {
            matrix: [[1.5, 0.0, 0.0], [0.0, 1.5, 0.0], [0.0, 0.0, 1.5]],
            mean: gray.map(|row| row.map(|v| -0.5 * v)),
            offset: [0.0; 3],
        };
        let tint = ColorMap {
            matrix: [[0.5, 0.2, 0.0], [0.0, 1.0, 0.1], [0.3, 0.0, 1.0]],
            mean: ZERO,
            offset: [3.0, -4.0, 5.0],
        };
        let (rgb, mean) = ([10.0, 200.0, 30.0], [90.0, 100.0, 120.0]);
        for (first, second) in [(contrast, tint), (tint, contrast), (contrast, contrast)] {
            let mean_after = run(&first, mean, mean); // the mean of a map is the map of the mean
            let expected = run(&second, run(&first, rgb, mean), mean_after);
            let got = run(&first.then(&second), rgb, mean);
            assert!(
                got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9),
                "{got:?} {expected:?}"
            );
            let fill = first.then(&second).apply_to_fill(&Fill::constant(rgb));
            let got = apply(&fill.mean, &mean);
            assert!((0..3).all(|r| (got[r] + fill.base[r] - expected[r]).abs() < 1e-9));
            // Fill that is added between the two maps is changed only by the second, but the mean
            // is changed by both.
            let fill = second
                .after_mean_of(&first)
                .apply_to_fill(&Fill::constant(rgb));
            let (got, expected) = (apply(&fill.mean, &mean), run(&second, rgb, mean_after));
            assert!((0..3).all(|r| (got[r] + fill.base[r] - expected[r]).abs() < 1e-9));
        }
    }
}
