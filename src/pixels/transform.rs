//! In: nothing. Out: the words for what a user may ask of a picture, with torchvision's meanings.
//! A range of numbers is drawn from uniformly; equal ends mean a constant.
//! Never: draws or computes.

use framespool_kernels::{Filter, Interpolation, Matrix, Normalize, Range};

/// Both ends of numbers to draw from, uniformly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Least.
    pub low: f64,
    /// Most.
    pub high: f64,
}

impl Span {
    /// Always this number.
    pub const fn only(value: f64) -> Self {
        Self { low: value, high: value }
    }

    /// Between these.
    pub const fn new(low: f64, high: f64) -> Self {
        Self { low, high }
    }

    /// Whether there is anything to draw.
    pub fn is_random(&self) -> bool {
        self.low != self.high
    }
}

/// A size in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Rows.
    pub height: u32,
    /// Columns.
    pub width: u32,
}

/// What a resize aims at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The shorter side becomes this many pixels, the longer one `size * longer / shorter` cut down to an integer, unless that
    /// were more than `longest`: then it is `longest`, and the shorter one follows.
    Shorter {
        /// Pixels.
        size: u32,
        /// Most pixels of the longer side.
        longest: Option<u32>,
    },
    /// The longer side becomes this many pixels, the shorter one in proportion.
    Longer(u32),
    /// Exactly this size.
    Exact(Size),
}

/// Pixels added at each side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

/// An axis to mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flip {
    /// Left and right change places.
    Horizontal,
    /// Top and bottom change places.
    Vertical,
}

/// Numbers of an affine map, applied about the centre: shear, scale, rotation, translation.
#[derive(Clone, Debug, PartialEq)]
pub struct Affine {
    /// Rotation in degrees, clockwise as shown.
    pub degrees: Span,
    /// Largest translation as a part of width and height.
    pub translate: (f64, f64),
    /// Magnification.
    pub scale: Span,
    /// Shear parallel to the x axis in degrees.
    pub shear_x: Span,
    /// Shear parallel to the y axis in degrees.
    pub shear_y: Span,
    /// Column and row about which all this happens; the centre of the picture if `None`.
    pub center: Option<(f64, f64)>,
    /// The picture grows so that all of it can be seen. Only without translation, shear and `center`.
    pub expand: bool,
    /// How to read between pixels.
    pub interpolation: Interpolation,
    /// R, G, B from 0 to 255 where there is no picture.
    pub fill: [f64; 3],
}

/// What is painted over masked pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cover {
    /// R, G, B: code values 0 to 255 before `Normalize`, elements of the result after it.
    Value([f64; 3]),
    /// Noise.
    Noise,
}

/// One thing to do to a picture.
#[derive(Clone, Debug, PartialEq)]
pub enum Transform {
    /// What the stream's code values mean, whatever it says itself.
    AssumeColour {
        /// YUV to RGB; the stream's if `None`.
        matrix: Option<Matrix>,
        /// Black and white; the stream's if `None`.
        range: Option<Range>,
    },
    /// Video of high dynamic range becomes video of standard dynamic range; other pictures stay as they are.
    ToneMap {
        /// Luminance in cd/m2 that the brightest of the source has.
        source_peak: f64,
        /// Luminance in cd/m2 that becomes white.
        target_peak: f64,
    },
    /// To another size.
    Resize {
        /// Which.
        target: Target,
        /// The resampling kernel.
        filter: Filter,
    },
    /// The middle; black is added where the picture is smaller.
    CenterCrop(Size),
    /// A place that is drawn.
    RandomCrop {
        /// What is kept.
        size: Size,
        /// Added before.
        padding: Padding,
        /// Pads where the picture is smaller than `size`; otherwise that is an error.
        pad_if_needed: bool,
        /// R, G, B of what is added.
        fill: [f64; 3],
    },
    /// A part whose area and shape are drawn, resized.
    RandomResizedCrop {
        /// To this size.
        size: Size,
        /// Share of the picture's area.
        scale: Span,
        /// Width over height, drawn uniformly in its logarithm.
        ratio: Span,
        /// The resampling kernel.
        filter: Filter,
    },
    /// Five views: corners (top left, top right, bottom left, bottom right) and middle.
    FiveCrop(Size),
    /// Three views along the longer side: its start, its middle, its end.
    ThreeCrop(Size),
    /// Mirrors with probability `p`.
    RandomFlip {
        /// Which way.
        flip: Flip,
        /// Probability.
        p: f64,
    },
    /// Rotation, scale, shear, translation. `rotation` counts `degrees` counter-clockwise and names itself so.
    RandomAffine {
        /// The numbers.
        affine: Affine,
        /// It is a rotation only, as torchvision's `RandomRotation`.
        rotation: bool,
    },
    /// Adds pixels at the sides.
    Pad {
        /// How many.
        padding: Padding,
        /// R, G, B.
        fill: [f64; 3],
    },
    /// Resizes to fit inside a size, and pads evenly to it.
    Letterbox {
        /// The result's size.
        size: Size,
        /// The resampling kernel.
        filter: Filter,
        /// R, G, B.
        fill: [f64; 3],
    },
    /// Brightness, contrast (about the mean gray of each frame), saturation and hue in an order that is drawn: torchvision.
    ColorJitter {
        /// Factor.
        brightness: Option<Span>,
        /// Factor.
        contrast: Option<Span>,
        /// Factor.
        saturation: Option<Span>,
        /// Part of the full circle.
        hue: Option<Span>,
    },
    /// Hue, saturation, contrast (about 128), brightness, in this order: DALI.
    ColorTwist {
        /// Factor.
        brightness: Span,
        /// Factor.
        contrast: Span,
        /// Factor.
        saturation: Span,
        /// Degrees.
        hue: Span,
    },
    /// Gray with probability `p`.
    RandomGrayscale {
        /// Probability.
        p: f64,
    },
    /// Rectangles of random area and shape are covered: torchvision's, with a count.
    RandomErasing {
        /// Probability that anything is covered.
        p: f64,
        /// Share of the picture's area.
        scale: Span,
        /// Height over width, drawn uniformly in its logarithm.
        ratio: Span,
        /// By what.
        cover: Cover,
        /// Rectangles.
        count: u32,
    },
    /// Rectangles of one size, whose centres are drawn, are covered; they may reach over the edge.
    Cutout {
        /// Of each.
        size: Size,
        /// Rectangles.
        count: u32,
        /// Probability that anything is covered.
        p: f64,
        /// By what.
        cover: Cover,
    },
    /// The squares of a grid are covered: DALI's `grid_mask`.
    GridMask {
        /// Pixels from square to square.
        tile: Span,
        /// Side of a square, as a part of `tile`.
        ratio: Span,
        /// Degrees by which the grid is turned.
        degrees: Span,
        /// Shift of the grid along its own axes, as a part of `tile`.
        shift: (Span, Span),
        /// Probability that anything is covered.
        p: f64,
        /// By what.
        cover: Cover,
    },
    /// `(value / 255 - mean) / std` per channel; needs a float dtype.
    Normalize(Normalize),
}

/// A transform and how often its numbers are drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What to do.
    pub transform: Transform,
    /// Anew for each frame, instead of once per clip.
    pub per_frame: bool,
}

impl From<Transform> for Step {
    fn from(transform: Transform) -> Self {
        Self { transform, per_frame: false }
    }
}

impl Transform {
    /// Its name in Python.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AssumeColour { .. } => "AssumeColor",
            Self::ToneMap { .. } => "ToneMap",
            Self::Resize { .. } => "Resize",
            Self::CenterCrop(_) => "CenterCrop",
            Self::RandomCrop { .. } => "RandomCrop",
            Self::RandomResizedCrop { .. } => "RandomResizedCrop",
            Self::FiveCrop(_) => "FiveCrop",
            Self::ThreeCrop(_) => "ThreeCrop",
            Self::RandomFlip { flip: Flip::Horizontal, .. } => "RandomHorizontalFlip",
            Self::RandomFlip { flip: Flip::Vertical, .. } => "RandomVerticalFlip",
            Self::RandomAffine { rotation: true, .. } => "RandomRotation",
            Self::RandomAffine { rotation: false, .. } => "RandomAffine",
            Self::Pad { .. } => "Pad",
            Self::Letterbox { .. } => "Letterbox",
            Self::ColorJitter { .. } => "ColorJitter",
            Self::ColorTwist { .. } => "ColorTwist",
            Self::RandomGrayscale { .. } => "RandomGrayscale",
            Self::RandomErasing { .. } => "RandomErasing",
            Self::Cutout { .. } => "Cutout",
            Self::GridMask { .. } => "GridMask",
            Self::Normalize(_) => "Normalize",
        }
    }

    /// Views of the picture that come out.
    pub fn views(&self) -> usize {
        match self {
            Self::FiveCrop(_) => 5,
            Self::ThreeCrop(_) => 3,
            _ => 1,
        }
    }

    /// Whether its numbers depend on the clip.
    pub fn is_random(&self) -> bool {
        let chance = |p: f64| p > 0.0 && p < 1.0;
        match self {
            Self::RandomFlip { p, .. } | Self::RandomGrayscale { p } => chance(*p),
            Self::RandomCrop { .. }
            | Self::RandomResizedCrop { .. }
            | Self::RandomAffine { .. }
            | Self::ColorJitter { .. }
            | Self::ColorTwist { .. }
            | Self::RandomErasing { .. }
            | Self::Cutout { .. }
            | Self::GridMask { .. } => true,
            _ => false,
        }
    }

    /// Whether it changes colours.
    pub fn changes_colours(&self) -> bool {
        matches!(self, Self::ColorJitter { .. } | Self::ColorTwist { .. } | Self::RandomGrayscale { .. })
    }

    /// The colour with which it fills what it opens, if it always may.
    pub fn fill(&self) -> Option<[f64; 3]> {
        match self {
            Self::Pad { fill, .. } | Self::Letterbox { fill, .. } => Some(*fill),
            Self::RandomAffine { affine, .. } => Some(affine.fill),
            Self::RandomCrop { fill, padding, pad_if_needed, .. } => {
                (*pad_if_needed || *padding != Padding::default()).then_some(*fill)
            }
            _ => None,
        }
    }

    /// By what it covers pixels.
    pub fn cover(&self) -> Option<Cover> {
        match self {
            Self::RandomErasing { cover, .. } | Self::Cutout { cover, .. } | Self::GridMask { cover, .. } => {
                Some(*cover)
            }
            _ => None,
        }
    }

    /// Whether it covers pixels.
    pub fn is_mask(&self) -> bool {
        self.cover().is_some()
    }
}
