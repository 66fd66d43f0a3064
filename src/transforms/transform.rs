//! Defines the transforms that a user can request, with torchvision's semantics, and reads them
//! with serde. Parameters given as a range are drawn uniformly; equal ends mean a constant. The
//! Python package checks values.

use framespool_kernels::{
    ColorRange, Filter, Interpolation, MatrixCoefficients, Normalize, RgbOperation,
};
use serde::{Deserialize, Deserializer};

/// The range of numbers from which one is drawn uniformly; read from (low, high).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(from = "(f64, f64)")]
pub struct UniformRange {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl UniformRange {
    /// Always this number.
    pub const fn only(value: f64) -> Self {
        Self {
            low: value,
            high: value,
        }
    }

    /// Between these numbers.
    pub const fn new(low: f64, high: f64) -> Self {
        Self { low, high }
    }

    /// Whether the number is random.
    pub fn is_random(&self) -> bool {
        self.low != self.high
    }
}

impl From<(f64, f64)> for UniformRange {
    fn from((low, high): (f64, f64)) -> Self {
        Self { low, high }
    }
}

/// A size in pixels; read from (height, width).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "(u32, u32)")]
pub struct Size {
    /// Rows.
    pub height: u32,
    /// Columns.
    pub width: u32,
}

impl From<(u32, u32)> for Size {
    fn from((height, width): (u32, u32)) -> Self {
        Self { height, width }
    }
}

/// Target size of a resize.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Target {
    /// The shorter side becomes `size` pixels, the longer one `size * longer / shorter`, truncated
    /// to an integer. If that is more than `longest`, the longer side becomes `longest`, and the
    /// shorter one follows.
    Shorter {
        /// Pixels.
        size: u32,
        /// Maximum length of the longer side in pixels.
        #[serde(deserialize_with = "Option::deserialize")]
        longest: Option<u32>,
    },
    /// The longer side becomes this many pixels, the shorter one in proportion.
    Longer(u32),
    /// Exactly this size.
    Exact(Size),
    /// The smallest frame of the same shape that covers this size.
    Cover(Size),
    /// Sides that are multiples of `factor`, of about the frame's ratio, with a number of pixels
    /// within limits.
    Multiple {
        /// In pixels.
        factor: u32,
        /// Least number of pixels of a frame.
        min_pixels: u64,
        /// Largest number of pixels of a frame.
        max_pixels: u64,
        /// Half of the largest number of pixels of all frames of a clip, as models take two frames
        /// at a time. Not below 1.05 times `min_pixels` per frame.
        #[serde(deserialize_with = "Option::deserialize")]
        total_pixels: Option<u64>,
    },
}

/// Pixels added at each side; read from (left, top, right, bottom).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "(u32, u32, u32, u32)")]
pub struct Padding {
    /// Columns on the left.
    pub left: u32,
    /// Rows at the top.
    pub top: u32,
    /// Columns on the right.
    pub right: u32,
    /// Rows at the bottom.
    pub bottom: u32,
}

impl From<(u32, u32, u32, u32)> for Padding {
    fn from((left, top, right, bottom): (u32, u32, u32, u32)) -> Self {
        Self {
            left,
            top,
            right,
            bottom,
        }
    }
}

/// An axis to mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flip {
    /// Swaps left and right.
    Horizontal,
    /// Swaps top and bottom.
    Vertical,
}

/// Parameters of an affine map, applied about the center: shear, scale, rotation, translation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Affine {
    /// Rotation in degrees, clockwise as displayed.
    pub degrees: UniformRange,
    /// Largest translation as a fraction of width and height.
    pub translate: (f64, f64),
    /// Magnification.
    pub scale: UniformRange,
    /// Shear in degrees: lower and upper end parallel to the x axis, then parallel to the y axis.
    pub shear: [f64; 4],
    /// Column and row of the center of the map; the center of the frame if `None`.
    #[serde(deserialize_with = "Option::deserialize")]
    pub center: Option<(f64, f64)>,
    /// Interpolation between pixels.
    #[serde(with = "InterpolationName")]
    pub interpolation: Interpolation,
    /// R, G, B from 0 to 255 for the area outside of the frame.
    pub fill: [f64; 3],
}

/// What covers masked pixels; read from three numbers or "random".
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum EraseFill {
    /// R, G, B: code values 0 to 255 before `Normalize`, elements of the result after it.
    Value([f64; 3]),
    #[serde(deserialize_with = "random")]
    Noise,
}

/// What becomes of a frame whose shape is not that of its new size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fit {
    /// It covers the size; what is too much on both sides is removed.
    Cover,
    /// It covers the size; the position of the remaining part is drawn.
    RandomCover,
    /// It fits inside the size, with added pixels on both sides.
    Letterbox,
    /// It is stretched.
    Stretch,
}

/// Positions of which [`Transform::MultiScaleCrop`] draws one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum CropPositions {
    /// The corners and the center.
    Five,
    /// Also the middles of the edges, and the centers of the quarters.
    Thirteen,
    /// All.
    Any,
}

#[derive(Deserialize)]
#[serde(remote = "Interpolation", rename_all = "lowercase")]
enum InterpolationName {
    Nearest,
    Bilinear,
}

#[derive(Deserialize)]
#[serde(remote = "MatrixCoefficients", rename_all = "lowercase")]
enum MatrixName {
    Bt601,
    Bt709,
    #[serde(rename = "bt2020")]
    Bt2020Ncl,
    Fcc,
    Smpte240m,
    YCgCo,
    Luma,
}

#[derive(Deserialize)]
#[serde(remote = "ColorRange", rename_all = "lowercase")]
enum RangeName {
    Limited,
    Full,
}

#[derive(Deserialize)]
#[serde(remote = "Normalize", deny_unknown_fields)]
struct NormalizeFields {
    mean: [f32; 3],
    std: [f32; 3],
}

fn matrix<'de, D: Deserializer<'de>>(from: D) -> Result<Option<MatrixCoefficients>, D::Error> {
    #[derive(Deserialize)]
    struct Named(#[serde(with = "MatrixName")] MatrixCoefficients);
    Ok(Option::deserialize(from)?.map(|Named(matrix)| matrix))
}

fn range<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ColorRange>, D::Error> {
    #[derive(Deserialize)]
    struct Named(#[serde(with = "RangeName")] ColorRange);
    Ok(Option::deserialize(from)?.map(|Named(range)| range))
}

/// Reads (interpolation, antialias).
fn filter<'de, D: Deserializer<'de>>(from: D) -> Result<Filter, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Name {
        Nearest,
        Bilinear,
        Bicubic,
    }
    Ok(match Deserialize::deserialize(from)? {
        (Name::Nearest, _) => Filter::Nearest,
        (Name::Bilinear, true) => Filter::Triangle,
        (Name::Bilinear, false) => Filter::Bilinear,
        (Name::Bicubic, true) => Filter::Cubic,
        (Name::Bicubic, false) => Filter::Bicubic,
    })
}

fn random<'de, D: Deserializer<'de>>(from: D) -> Result<(), D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Name {
        Random,
    }
    Name::deserialize(from).map(|Name::Random| ())
}

/// One transform of a frame. Variants and fields are those of the classes in
/// `framespool.transforms`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Transform {
    /// Overrides the interpretation of code values that the stream states.
    AssumeColor {
        /// Matrix from YUV to RGB; the stream's if `None`.
        #[serde(deserialize_with = "matrix")]
        matrix: Option<MatrixCoefficients>,
        /// Code values of black and white; the stream's if `None`.
        #[serde(deserialize_with = "range")]
        range: Option<ColorRange>,
    },
    /// Converts HDR video to SDR video; other frames are not changed.
    ToneMap {
        /// Luminance in cd/m2 of the brightest value of the source.
        source_peak: f64,
        /// Luminance in cd/m2 that becomes white.
        target_peak: f64,
    },
    /// Resizes the frame.
    Resize {
        /// The new size.
        target: Target,
        /// The resampling kernel.
        #[serde(deserialize_with = "filter")]
        filter: Filter,
        /// Computes the new size from the display size.
        display_aspect: bool,
    },
    /// Crops the center; adds black where the frame is smaller.
    CenterCrop {
        /// Size of the crop.
        size: Size,
    },
    /// Crops at a random position.
    RandomCrop {
        /// Size of the crop.
        size: Size,
        /// Padding that is added before.
        padding: Padding,
        /// Pads where the frame is smaller than `size`; otherwise that is an error.
        pad_if_needed: bool,
        /// R, G, B of the padding.
        fill: [f64; 3],
    },
    /// Crops a part of random area and aspect ratio, and resizes it.
    RandomResizedCrop {
        /// Size after the resize.
        size: Size,
        /// Fraction of the frame's area.
        scale: UniformRange,
        /// Width over height, drawn uniformly in its logarithm.
        ratio: UniformRange,
        /// The resampling kernel.
        #[serde(deserialize_with = "filter")]
        filter: Filter,
        /// Crops a part of the frame of display size.
        display_aspect: bool,
    },
    /// Resizes the shorter side to a length drawn from a list.
    RandomShortestSize {
        /// Lengths in pixels; at least one.
        #[serde(rename = "min_size")]
        sizes: Vec<u32>,
        /// Maximum length of the longer side in pixels.
        #[serde(rename = "max_size", deserialize_with = "Option::deserialize")]
        longest: Option<u32>,
        /// The resampling kernel.
        #[serde(deserialize_with = "filter")]
        filter: Filter,
        /// Computes the new size from the display size.
        display_aspect: bool,
    },
    /// Crops a part whose sides are products of the shorter side with one of several scales each,
    /// and resizes it.
    MultiScaleCrop {
        /// Size after the resize.
        size: Size,
        /// Scales, 0 to 1; at least one.
        scales: Vec<f64>,
        /// Largest difference of the positions of both sides' scales in the list.
        max_distort: u32,
        /// Where the part may be.
        positions: CropPositions,
        /// The resampling kernel.
        #[serde(deserialize_with = "filter")]
        filter: Filter,
        /// Crops a part of the frame of display size.
        display_aspect: bool,
    },
    /// Five views: corners (top left, top right, bottom left, bottom right) and center.
    FiveCrop {
        /// Size of the crop.
        size: Size,
    },
    /// Three views along the longer side: start, center, end.
    ThreeCrop {
        /// Size of the crop.
        size: Size,
    },
    /// Swaps left and right with probability `p`.
    RandomHorizontalFlip {
        /// Probability.
        p: f64,
    },
    /// Swaps top and bottom with probability `p`.
    RandomVerticalFlip {
        /// Probability.
        p: f64,
    },
    /// Rotates.
    RandomRotation {
        /// Degrees, counterclockwise as displayed.
        degrees: UniformRange,
        /// Interpolation between pixels.
        #[serde(with = "InterpolationName")]
        interpolation: Interpolation,
        /// Enlarges the frame so that all of it stays visible. Only without `center`.
        expand: bool,
        /// Column and row of the center of the rotation; the center of the frame if `None`.
        #[serde(deserialize_with = "Option::deserialize")]
        center: Option<(f64, f64)>,
        /// R, G, B from 0 to 255 for the area outside of the frame.
        fill: [f64; 3],
    },
    /// Rotation, scale, shear, translation.
    RandomAffine(Affine),
    /// Adds pixels on the sides.
    Pad {
        /// Number of pixels on each side.
        padding: Padding,
        /// R, G, B.
        fill: [f64; 3],
    },
    /// Resizes to the one of several sizes whose shape is nearest to that of the frame.
    ResizeToNearest {
        /// At least one.
        sizes: Vec<Size>,
        /// What becomes of the difference of the shapes.
        fit: Fit,
        /// R, G, B of what is added.
        fill: [f64; 3],
        /// The resampling kernel.
        #[serde(deserialize_with = "filter")]
        filter: Filter,
        /// Fits the frame of display size.
        display_aspect: bool,
    },
    /// Resizes to fit inside a size, and pads evenly to it.
    Letterbox {
        /// Size of the result.
        size: Size,
        /// The resampling kernel.
        #[serde(deserialize_with = "filter")]
        filter: Filter,
        /// Fits the frame of display size.
        display_aspect: bool,
        /// R, G, B.
        fill: [f64; 3],
    },
    /// Brightness, contrast (about the mean gray of each frame), saturation and hue in random
    /// order: torchvision's.
    ColorJitter {
        /// Factor.
        #[serde(deserialize_with = "Option::deserialize")]
        brightness: Option<UniformRange>,
        /// Factor.
        #[serde(deserialize_with = "Option::deserialize")]
        contrast: Option<UniformRange>,
        /// Factor.
        #[serde(deserialize_with = "Option::deserialize")]
        saturation: Option<UniformRange>,
        /// Fraction of the full circle.
        #[serde(deserialize_with = "Option::deserialize")]
        hue: Option<UniformRange>,
    },
    /// Brightness, contrast, saturation, hue and the order of the channels, each with a
    /// probability: torchvision's.
    RandomPhotometricDistort {
        /// Factor.
        brightness: UniformRange,
        /// Factor.
        contrast: UniformRange,
        /// Factor.
        saturation: UniformRange,
        /// Fraction of the full circle.
        hue: UniformRange,
        /// Probability of each change.
        p: f64,
    },
    /// Hue, saturation, contrast (about 128), brightness, in this order: DALI's.
    ColorTwist {
        /// Factor.
        brightness: UniformRange,
        /// Factor.
        contrast: UniformRange,
        /// Factor.
        saturation: UniformRange,
        /// Degrees.
        hue: UniformRange,
    },
    /// Converts to gray with probability `p`.
    RandomGrayscale {
        /// Probability.
        p: f64,
    },
    /// Keeps the highest bits of each code with probability `p`.
    RandomPosterize {
        /// Number of bits.
        bits: u32,
        /// Probability.
        p: f64,
    },
    /// Inverts codes that are at least a threshold with probability `p`.
    RandomSolarize {
        threshold: f64,
        /// Probability.
        p: f64,
    },
    /// Blends with the smoothed frame with probability `p`.
    RandomAdjustSharpness {
        /// 0 for the smoothed frame, 1 for no change.
        sharpness_factor: f64,
        /// Probability.
        p: f64,
    },
    /// Inverts all codes with probability `p`.
    RandomInvert {
        /// Probability.
        p: f64,
    },
    /// Stretches the codes of each channel to 0..255 with probability `p`.
    RandomAutocontrast {
        /// Probability.
        p: f64,
    },
    /// Equalizes the histogram of each channel with probability `p`.
    RandomEqualize {
        /// Probability.
        p: f64,
    },
    /// Blurs the frame.
    GaussianBlur {
        /// Width and height of the kernel in pixels; odd numbers.
        kernel_size: (u32, u32),
        /// Standard deviation in pixels.
        sigma: UniformRange,
    },
    /// Applies operations of one magnitude, drawn from a list: torchvision's.
    RandAugment {
        /// Number of operations.
        num_ops: u32,
        /// Number of the magnitude, below `num_magnitude_bins`.
        magnitude: u32,
        /// Number of magnitudes, at least 2.
        num_magnitude_bins: u32,
        /// Interpolation of operations that move pixels.
        #[serde(with = "InterpolationName")]
        interpolation: Interpolation,
        /// R, G, B from 0 to 255 for the area outside of the frame.
        fill: [f64; 3],
    },
    /// Applies one operation of a random magnitude, drawn from a list: torchvision's.
    TrivialAugmentWide {
        /// Number of magnitudes, at least 2.
        num_magnitude_bins: u32,
        /// Interpolation of operations that move pixels.
        #[serde(with = "InterpolationName")]
        interpolation: Interpolation,
        /// R, G, B from 0 to 255 for the area outside of the frame.
        fill: [f64; 3],
    },
    /// Covers rectangles of random area and aspect ratio: torchvision's, with a count.
    RandomErasing {
        /// Probability that anything is covered.
        p: f64,
        /// Fraction of the frame's area.
        scale: UniformRange,
        /// Height over width, drawn uniformly in its logarithm.
        ratio: UniformRange,
        /// What covers them.
        #[serde(rename = "value")]
        cover: EraseFill,
        /// Number of rectangles.
        count: u32,
    },
    /// Covers rectangles of one size with random centers; they may extend beyond the edge.
    Cutout {
        /// Size of each rectangle.
        size: Size,
        /// Number of rectangles.
        count: u32,
        /// Probability that anything is covered.
        p: f64,
        /// What covers them.
        #[serde(rename = "fill")]
        cover: EraseFill,
    },
    /// Covers the squares of a grid: DALI's `grid_mask`.
    GridMask {
        /// Distance from square to square in pixels.
        tile: UniformRange,
        /// Side of a square, as a fraction of `tile`.
        ratio: UniformRange,
        /// Rotation of the grid in degrees.
        degrees: UniformRange,
        /// Shift of the grid along its own x axis, as a fraction of `tile`.
        shift_x: UniformRange,
        /// The same along its y axis.
        shift_y: UniformRange,
        /// Probability that anything is covered.
        p: f64,
        /// What covers the squares.
        #[serde(rename = "fill")]
        cover: EraseFill,
    },
    /// `(value / 255 - mean) / std` per channel; needs a float dtype.
    Normalize(#[serde(with = "NormalizeFields")] Normalize),
    /// Applies all of a list with probability `p`.
    RandomApply {
        /// The list.
        steps: Vec<Step>,
        /// Probability.
        p: f64,
    },
    /// Applies one of several lists.
    RandomChoice {
        /// The lists, each with its weight: not negative, and at least one above 0.
        choices: Vec<(f64, Vec<Step>)>,
    },
}

/// A transform, and whether its parameters are drawn per clip or per frame.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub transform: Transform,
    /// Draws the parameters for each frame, instead of once per clip.
    pub per_frame: bool,
}

impl Step {
    /// Whether a condition holds for the step or for one in its lists that may be applied.
    pub fn any(&self, condition: &dyn Fn(&Self) -> bool) -> bool {
        let choices = self.transform.choices();
        let mut inner = choices
            .iter()
            .filter(|(weight, _)| *weight > 0.0)
            .flat_map(|(_, steps)| steps.iter());
        condition(self) || inner.any(|step| step.any(condition))
    }

    /// Number of steps, with those in its lists.
    pub fn count(&self) -> usize {
        let lists = match &self.transform {
            Transform::RandomApply { steps, .. } => count_steps(steps),
            Transform::RandomChoice { choices } => {
                choices.iter().map(|(_, steps)| count_steps(steps)).sum()
            }
            _ => 0,
        };
        1 + lists
    }
}

/// Number of steps, with those in their lists.
pub(crate) fn count_steps(steps: &[Step]) -> usize {
    steps.iter().map(Step::count).sum()
}

impl From<Transform> for Step {
    fn from(transform: Transform) -> Self {
        Self {
            transform,
            per_frame: false,
        }
    }
}

impl Transform {
    /// Its name in Python.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AssumeColor { .. } => "AssumeColor",
            Self::ToneMap { .. } => "ToneMap",
            Self::Resize { .. } => "Resize",
            Self::CenterCrop { .. } => "CenterCrop",
            Self::RandomCrop { .. } => "RandomCrop",
            Self::RandomResizedCrop { .. } => "RandomResizedCrop",
            Self::RandomShortestSize { .. } => "RandomShortestSize",
            Self::MultiScaleCrop { .. } => "MultiScaleCrop",
            Self::FiveCrop { .. } => "FiveCrop",
            Self::ThreeCrop { .. } => "ThreeCrop",
            Self::RandomHorizontalFlip { .. } => "RandomHorizontalFlip",
            Self::RandomVerticalFlip { .. } => "RandomVerticalFlip",
            Self::RandomRotation { .. } => "RandomRotation",
            Self::RandomAffine(_) => "RandomAffine",
            Self::Pad { .. } => "Pad",
            Self::ResizeToNearest { .. } => "ResizeToNearest",
            Self::Letterbox { .. } => "Letterbox",
            Self::ColorJitter { .. } => "ColorJitter",
            Self::RandomPhotometricDistort { .. } => "RandomPhotometricDistort",
            Self::ColorTwist { .. } => "ColorTwist",
            Self::RandomGrayscale { .. } => "RandomGrayscale",
            Self::RandomPosterize { .. } => "RandomPosterize",
            Self::RandomSolarize { .. } => "RandomSolarize",
            Self::RandomAdjustSharpness { .. } => "RandomAdjustSharpness",
            Self::RandomInvert { .. } => "RandomInvert",
            Self::RandomAutocontrast { .. } => "RandomAutocontrast",
            Self::RandomEqualize { .. } => "RandomEqualize",
            Self::GaussianBlur { .. } => "GaussianBlur",
            Self::RandAugment { .. } => "RandAugment",
            Self::TrivialAugmentWide { .. } => "TrivialAugmentWide",
            Self::RandomErasing { .. } => "RandomErasing",
            Self::Cutout { .. } => "Cutout",
            Self::GridMask { .. } => "GridMask",
            Self::Normalize(_) => "Normalize",
            Self::RandomApply { .. } => "RandomApply",
            Self::RandomChoice { .. } => "RandomChoice",
        }
    }

    /// The lists of which a [`RandomApply`](Self::RandomApply) or
    /// [`RandomChoice`](Self::RandomChoice) applies one, with their weights; none for other
    /// transforms.
    pub fn choices(&self) -> Vec<(f64, &[Step])> {
        match self {
            Self::RandomApply { steps, p } => vec![(*p, steps), (1.0 - p, &[])],
            Self::RandomChoice { choices } => choices
                .iter()
                .map(|(weight, steps)| (*weight, &steps[..]))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Number of views that it makes.
    pub fn views(&self) -> usize {
        match self {
            Self::FiveCrop { .. } => 5,
            Self::ThreeCrop { .. } => 3,
            _ => 1,
        }
    }

    /// Whether its own parameters depend on the clip; those in its lists may do so too.
    pub fn is_random(&self) -> bool {
        let chance = |p: f64| p > 0.0 && p < 1.0;
        match self {
            Self::RandomHorizontalFlip { p }
            | Self::RandomVerticalFlip { p }
            | Self::RandomGrayscale { p } => chance(*p),
            Self::GaussianBlur { sigma, .. } => sigma.is_random(),
            Self::RandomShortestSize { sizes, .. } => sizes.len() > 1,
            Self::ResizeToNearest { fit, .. } => *fit == Fit::RandomCover,
            Self::RandomApply { .. } | Self::RandomChoice { .. } => {
                self.choices()
                    .iter()
                    .filter(|(weight, _)| *weight > 0.0)
                    .count()
                    > 1
            }
            Self::RandomCrop { .. }
            | Self::RandomResizedCrop { .. }
            | Self::MultiScaleCrop { .. }
            | Self::RandomRotation { .. }
            | Self::RandomAffine(_)
            | Self::ColorJitter { .. }
            | Self::RandomPhotometricDistort { .. }
            | Self::ColorTwist { .. }
            | Self::RandAugment { .. }
            | Self::TrivialAugmentWide { .. }
            | Self::RandomErasing { .. }
            | Self::Cutout { .. }
            | Self::GridMask { .. } => true,
            _ => self.operation().is_some_and(|(_, p)| chance(p)),
        }
    }

    /// Whether it changes colors.
    pub(crate) fn changes_colors(&self) -> bool {
        matches!(
            self,
            Self::ColorJitter { .. }
                | Self::RandomPhotometricDistort { .. }
                | Self::ColorTwist { .. }
                | Self::RandomGrayscale { .. }
                | Self::GaussianBlur { .. }
                | Self::RandAugment { .. }
                | Self::TrivialAugmentWide { .. }
        ) || self.operation().is_some()
    }

    /// The operation on codes that it applies with a probability, and the probability; `None` for
    /// other transforms.
    pub fn operation(&self) -> Option<(RgbOperation, f64)> {
        Some(match *self {
            Self::RandomPosterize { bits, p } => (RgbOperation::posterize(bits), p),
            Self::RandomSolarize { threshold, p } => (RgbOperation::solarize(threshold), p),
            Self::RandomAdjustSharpness {
                sharpness_factor,
                p,
            } => (RgbOperation::sharpness(sharpness_factor), p),
            Self::RandomInvert { p } => (RgbOperation::invert(), p),
            Self::RandomAutocontrast { p } => (RgbOperation::Autocontrast, p),
            Self::RandomEqualize { p } => (RgbOperation::Equalize, p),
            _ => return None,
        })
    }

    /// What covers the pixels, if it covers any.
    pub fn cover(&self) -> Option<EraseFill> {
        match self {
            Self::RandomErasing { cover, .. }
            | Self::Cutout { cover, .. }
            | Self::GridMask { cover, .. } => Some(*cover),
            _ => None,
        }
    }

    /// Whether it covers pixels.
    pub(crate) fn is_mask(&self) -> bool {
        self.cover().is_some()
    }
}
