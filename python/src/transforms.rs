//! Converts transforms, dtype and layout from the Python package to the engine's transform pipeline.
//! It sets no defaults: the Python package passes all arguments and validates a user's values first.

use std::collections::BTreeMap;
use std::sync::Arc;

use framespool::error::Site;
use framespool::transforms::transform::{
    Affine, AugmentationPolicy, CropPositions, EraseFill, Flip, Padding, PolicyKind, Size,
    Step as EngineStep, Target, Transform, UniformRange,
};
use framespool::transforms::{Dtype, Layout, Normalize, TransformPipeline};
use framespool::{Error, Result};
use framespool_kernels::{ColorRange, Filter, Interpolation, MatrixCoefficients, RgbOperation, MAX_SIDE};
use pyo3::prelude::*;

use crate::errors::to_python;

/// One transform: its name, its arguments, and whether its random parameters are drawn for each frame
/// separately.
pub type TransformArgs = (String, BTreeMap<String, TransformValue>, bool);

/// An argument of a transform.
#[derive(Clone, Debug, PartialEq, FromPyObject)]
pub enum TransformValue {
    Number(f64),
    Str(String),
    Numbers(Vec<f64>),
    Lists(Vec<Vec<TransformArgs>>),
}

/// Returns the pipeline for a list of transforms.
pub fn pipeline(
    py: Python<'_>,
    transforms: &[TransformArgs],
    dtype: &str,
    layout: &str,
) -> PyResult<TransformPipeline> {
    build(transforms, dtype, layout).map_err(|error| to_python(py, &error))
}

fn build(transforms: &[TransformArgs], dtype: &str, layout: &str) -> Result<TransformPipeline> {
    let dtype = match dtype {
        "uint8" => Dtype::U8,
        "uint16" => Dtype::U16,
        "float16" => Dtype::F16,
        "bfloat16" => Dtype::BF16,
        "float32" => Dtype::F32,
        other => {
            let known = "\"uint8\", \"uint16\", \"float16\", \"bfloat16\" or \"float32\"";
            return Err(Error::Argument(format!("dtype must be {known}, got {other:?}")));
        }
    };
    let layout = match layout {
        "NTHWC" => Layout::Nthwc,
        "NTCHW" => Layout::Ntchw,
        "NCTHW" => Layout::Ncthw,
        other => {
            return Err(Error::Argument(format!(
                "layout must be \"NTHWC\", \"NTCHW\" or \"NCTHW\", got {other:?}"
            )))
        }
    };
    TransformPipeline::new(steps(transforms)?, dtype, layout)
}

/// Converts transforms to the engine's.
pub fn steps(transforms: &[TransformArgs]) -> Result<Vec<EngineStep>> {
    transforms.iter().map(step).collect()
}

fn step((name, arguments, per_frame): &TransformArgs) -> Result<EngineStep> {
    let remaining = arguments.iter().map(|(name, value)| (name.as_str(), value)).collect();
    let mut a = ArgumentReader { transform: name, remaining };
    let transform = transform(&mut a)?;
    a.expect_consumed()?;
    Ok(EngineStep { transform, per_frame: *per_frame })
}

fn transform(a: &mut ArgumentReader<'_>) -> Result<Transform> {
    Ok(match a.transform {
        "AssumeColor" => Transform::AssumeColor { matrix: a.matrix()?, range: a.range()? },
        "ToneMap" => {
            let ([target_peak], [source_peak]) = (a.numbers("target_peak")?, a.numbers("source_peak")?);
            Transform::ToneMap { source_peak, target_peak }
        }
        "Resize" => Transform::Resize {
            target: a.target()?,
            filter: a.filter()?,
            display_aspect: a.flag("display_aspect")?,
        },
        "SmartResize" => Transform::Resize {
            target: a.multiple()?,
            filter: a.filter()?,
            display_aspect: a.flag("display_aspect")?,
        },
        "CenterCrop" => Transform::CenterCrop(a.size()?),
        "RandomCrop" => Transform::RandomCrop {
            size: a.size()?,
            padding: a.padding()?,
            pad_if_needed: a.flag("pad_if_needed")?,
            fill: a.fill()?,
        },
        "RandomResizedCrop" => Transform::RandomResizedCrop {
            size: a.size()?,
            scale: a.span("scale")?,
            ratio: a.span("ratio")?,
            filter: a.filter()?,
            display_aspect: a.flag("display_aspect")?,
        },
        "RandomShortestSize" => Transform::RandomShortestSize {
            sizes: a
                .some_numbers("min_size")?
                .into_iter()
                .map(|side| a.whole("min_size", 1, side))
                .collect::<Result<_>>()?,
            longest: a.max_size()?,
            filter: a.filter()?,
            display_aspect: a.flag("display_aspect")?,
        },
        "MultiScaleCrop" => Transform::MultiScaleCrop {
            size: a.size()?,
            scales: a.some_numbers("scales")?,
            max_distort: a.numbers("max_distort").and_then(|[n]| a.whole("max_distort", 0, n))?,
            positions: match (a.flag("fix_crop")?, a.flag("more_fix_crop")?) {
                (false, _) => CropPositions::Any,
                (true, false) => CropPositions::Five,
                (true, true) => CropPositions::Thirteen,
            },
            filter: a.filter()?,
            display_aspect: a.flag("display_aspect")?,
        },
        "FiveCrop" => Transform::FiveCrop(a.size()?),
        "ThreeCrop" => Transform::ThreeCrop(a.size()?),
        "RandomHorizontalFlip" => Transform::RandomFlip { flip: Flip::Horizontal, p: a.probability()? },
        "RandomVerticalFlip" => Transform::RandomFlip { flip: Flip::Vertical, p: a.probability()? },
        "RandomRotation" => Transform::RandomAffine {
            affine: Affine {
                degrees: a.span("degrees")?,
                translate: (0.0, 0.0),
                scale: UniformRange::only(1.0),
                shear_x: UniformRange::only(0.0),
                shear_y: UniformRange::only(0.0),
                center: a.center()?,
                expand: a.flag("expand")?,
                interpolation: a.interpolation()?,
                fill: a.fill()?,
            },
            rotation: true,
        },
        "RandomAffine" => {
            let [x_low, x_high, y_low, y_high] = a.numbers("shear")?;
            Transform::RandomAffine {
                affine: Affine {
                    degrees: a.span("degrees")?,
                    translate: a.numbers("translate").map(|[x, y]| (x, y))?,
                    scale: a.span("scale")?,
                    shear_x: a.ordered("shear", x_low, x_high)?,
                    shear_y: a.ordered("shear", y_low, y_high)?,
                    center: a.center()?,
                    expand: false,
                    interpolation: a.interpolation()?,
                    fill: a.fill()?,
                },
                rotation: false,
            }
        }
        "Pad" => Transform::Pad { padding: a.padding()?, fill: a.fill()? },
        "Letterbox" => Transform::Letterbox {
            size: a.size()?,
            filter: a.filter()?,
            fill: a.fill()?,
            display_aspect: a.flag("display_aspect")?,
        },
        "ColorJitter" => Transform::ColorJitter {
            brightness: a.optional("brightness", ArgumentReader::span)?,
            contrast: a.optional("contrast", ArgumentReader::span)?,
            saturation: a.optional("saturation", ArgumentReader::span)?,
            hue: a.optional("hue", ArgumentReader::span)?,
        },
        "RandomPhotometricDistort" => Transform::RandomPhotometricDistort {
            brightness: a.span("brightness")?,
            contrast: a.span("contrast")?,
            saturation: a.span("saturation")?,
            hue: a.span("hue")?,
            p: a.probability()?,
        },
        "ColorTwist" => Transform::ColorTwist {
            brightness: a.span("brightness")?,
            contrast: a.span("contrast")?,
            saturation: a.span("saturation")?,
            hue: a.span("hue")?,
        },
        "RandomGrayscale" => Transform::RandomGrayscale { p: a.probability()? },
        "RandomPosterize" => {
            let [bits] = a.numbers("bits")?;
            a.operation("RandomPosterize", RgbOperation::posterize(bits as u32))?
        }
        "RandomSolarize" => {
            let [threshold] = a.numbers("threshold")?;
            a.operation("RandomSolarize", RgbOperation::solarize(threshold))?
        }
        "RandomAdjustSharpness" => {
            let [factor] = a.numbers("sharpness_factor")?;
            a.operation("RandomAdjustSharpness", RgbOperation::sharpness(factor))?
        }
        "RandomInvert" => a.operation("RandomInvert", RgbOperation::invert())?,
        "RandomAutocontrast" => a.operation("RandomAutocontrast", RgbOperation::Autocontrast)?,
        "RandomEqualize" => a.operation("RandomEqualize", RgbOperation::Equalize)?,
        "GaussianBlur" => {
            let [width, height] = a.numbers("kernel_size")?;
            let side = |side| a.whole("kernel_size", 1, side);
            Transform::GaussianBlur {
                kernel: Size { width: side(width)?, height: side(height)? },
                sigma: a.span("sigma")?,
            }
        }
        "RandAugment" => {
            let ([num_ops], [magnitude]) = (a.numbers("num_ops")?, a.numbers("magnitude")?);
            let num_ops = a.whole("num_ops", 0, num_ops)?;
            let magnitude = a.whole("magnitude", 0, magnitude)?;
            a.policy(PolicyKind::RandAugment { num_ops, magnitude })?
        }
        "TrivialAugmentWide" => a.policy(PolicyKind::TrivialAugmentWide)?,
        "RandomErasing" => Transform::RandomErasing {
            p: a.probability()?,
            scale: a.span("scale")?,
            ratio: a.span("ratio")?,
            cover: a.erase_fill("value")?,
            count: a.count()?,
        },
        "Cutout" => Transform::Cutout {
            size: a.size()?,
            count: a.count()?,
            p: a.probability()?,
            cover: a.erase_fill("fill")?,
        },
        "GridMask" => Transform::GridMask {
            tile: a.span("tile")?,
            ratio: a.span("ratio")?,
            degrees: a.span("degrees")?,
            shift: (a.span("shift_x")?, a.span("shift_y")?),
            p: a.probability()?,
            cover: a.erase_fill("fill")?,
        },
        "Normalize" => Transform::Normalize(Normalize {
            mean: a.numbers("mean")?.map(|v: f64| v as f32),
            std: a.numbers("std")?.map(|v: f64| v as f32),
        }),
        "RandomApply" => Transform::RandomApply {
            steps: a.lists("transforms")?.into_iter().flatten().collect(),
            p: a.probability()?,
        },
        "RandomChoice" => {
            let (weights, lists) = (a.list("p")?, a.lists("transforms")?);
            if weights.len() != lists.len() || weights.iter().any(|weight| *weight < 0.0) {
                return Err(a.internal_error(format!("weights {weights:?} of {} lists", lists.len())));
            }
            Transform::RandomChoice { choices: weights.into_iter().zip(lists).collect() }
        }
        _ => return Err(a.internal_error("unknown transform")),
    })
}

/// The arguments of one transform that have not been read yet.
struct ArgumentReader<'a> {
    transform: &'a str,
    remaining: BTreeMap<&'a str, &'a TransformValue>,
}

impl<'a> ArgumentReader<'a> {
    /// Returns an internal error: the Python package and this module disagree, which is never a user's
    /// mistake.
    fn internal_error(&self, reason: impl Into<String>) -> Error {
        let site = Site::file(&Arc::from(format!("transform {}", self.transform)));
        Error::Internal { site, reason: reason.into() }
    }

    fn argument_error(&self, name: &str, expected: &str, got: impl std::fmt::Debug) -> Error {
        Error::Argument(format!("{}: {name} must be {expected}, got {got:?}", self.transform))
    }

    fn expect_consumed(&self) -> Result<()> {
        match self.remaining.keys().next() {
            Some(name) => Err(self.internal_error(format!("unknown argument {name}"))),
            None => Ok(()),
        }
    }

    fn take(&mut self, name: &str) -> Result<&'a TransformValue> {
        let found = self.remaining.remove(name);
        found.ok_or_else(|| self.internal_error(format!("argument {name} is missing")))
    }

    /// Reads an argument; `None` if it was not given.
    fn optional<'n, T>(
        &mut self,
        name: &'n str,
        read: impl Fn(&mut Self, &'n str) -> Result<T>,
    ) -> Result<Option<T>> {
        if !self.remaining.contains_key(name) {
            return Ok(None);
        }
        read(self, name).map(Some)
    }

    fn list(&mut self, name: &str) -> Result<Vec<f64>> {
        let numbers = match self.take(name)? {
            TransformValue::Number(number) => vec![*number],
            TransformValue::Numbers(numbers) => numbers.clone(),
            TransformValue::Str(word) => {
                let reason = format!("argument {name} is {word:?} instead of numbers");
                return Err(self.internal_error(reason));
            }
            TransformValue::Lists(_) => {
                return Err(self.internal_error(format!("argument {name} has lists instead of numbers")));
            }
        };
        match numbers.iter().find(|n| !n.is_finite()) {
            Some(number) => Err(self.argument_error(name, "finite", number)),
            None => Ok(numbers),
        }
    }

    /// Reads lists of transforms.
    fn lists(&mut self, name: &str) -> Result<Vec<Vec<EngineStep>>> {
        match self.take(name)? {
            TransformValue::Lists(lists) => lists.iter().map(|list| steps(list)).collect(),
            _ => Err(self.internal_error(format!("argument {name} has no lists of transforms"))),
        }
    }

    /// Reads at least one number.
    fn some_numbers(&mut self, name: &str) -> Result<Vec<f64>> {
        let numbers = self.list(name)?;
        if numbers.is_empty() {
            return Err(self.internal_error(format!("argument {name} is empty")));
        }
        Ok(numbers)
    }

    fn numbers<const N: usize>(&mut self, name: &str) -> Result<[f64; N]> {
        let numbers = self.list(name)?;
        numbers.try_into().map_err(|other: Vec<f64>| {
            self.internal_error(format!("argument {name} has {} numbers, not {N}", other.len()))
        })
    }

    fn word(&mut self, name: &str) -> Result<String> {
        match self.take(name)?.clone() {
            TransformValue::Str(word) => Ok(word),
            other => Err(self.internal_error(format!("argument {name} is {other:?} instead of a word"))),
        }
    }

    fn whole(&self, name: &str, least: u32, number: f64) -> Result<u32> {
        if number.fract() == 0.0 && (f64::from(least)..=f64::from(MAX_SIDE)).contains(&number) {
            return Ok(number as u32);
        }
        Err(self.argument_error(name, &format!("an int from {least} to {MAX_SIDE}"), number))
    }

    fn flag(&mut self, name: &str) -> Result<bool> {
        match self.numbers(name)? {
            [0.0] => Ok(false),
            [1.0] => Ok(true),
            [other] => Err(self.internal_error(format!("argument {name} is {other} instead of 0 or 1"))),
        }
    }

    fn ordered(&self, name: &str, low: f64, high: f64) -> Result<UniformRange> {
        if low > high {
            return Err(self.argument_error(name, "(low, high) with low <= high", (low, high)));
        }
        Ok(UniformRange::new(low, high))
    }

    fn span(&mut self, name: &str) -> Result<UniformRange> {
        let [low, high] = self.numbers(name)?;
        self.ordered(name, low, high)
    }

    fn probability(&mut self) -> Result<f64> {
        match self.numbers("p")? {
            [p] if (0.0..=1.0).contains(&p) => Ok(p),
            [p] => Err(self.argument_error("p", "from 0 to 1", p)),
        }
    }

    fn operation(&mut self, name: &'static str, operation: RgbOperation) -> Result<Transform> {
        Ok(Transform::RandomOperation { name, operation, p: self.probability()? })
    }

    fn policy(&mut self, kind: PolicyKind) -> Result<Transform> {
        let [bins] = self.numbers("num_magnitude_bins")?;
        Ok(Transform::AugmentationPolicy(AugmentationPolicy {
            kind,
            bins: self.whole("num_magnitude_bins", 2, bins)?,
            interpolation: self.interpolation()?,
            fill: self.fill()?,
        }))
    }

    fn count(&mut self) -> Result<u32> {
        let [count] = self.numbers("count")?;
        self.whole("count", 1, count)
    }

    fn size(&mut self) -> Result<Size> {
        let [height, width] = self.numbers("size")?;
        Ok(Size { height: self.whole("size", 1, height)?, width: self.whole("size", 1, width)? })
    }

    fn target(&mut self) -> Result<Target> {
        let (side, fit) = (self.word("side")?, self.word("fit")?);
        let longest = self.max_size()?;
        let sides = self.list("size")?;
        let sides = sides.iter().map(|&n| self.whole("size", 1, n)).collect::<Result<Vec<_>>>()?;
        match (side.as_str(), fit.as_str(), &sides[..], longest) {
            ("shorter", "exact", &[height, width], None) => Ok(Target::Exact(Size { height, width })),
            ("shorter", "cover", &[height, width], None) => Ok(Target::Cover(Size { height, width })),
            ("shorter", "exact", &[size], longest) => Ok(Target::Shorter { size, longest }),
            ("longer", "exact", &[size], None) => Ok(Target::Longer(size)),
            other => Err(self.internal_error(format!("unknown target: {other:?}"))),
        }
    }

    fn max_size(&mut self) -> Result<Option<u32>> {
        let longest = self.optional("max_size", Self::numbers::<1>)?;
        longest.map(|[most]| self.whole("max_size", 1, most)).transpose()
    }

    fn multiple(&mut self) -> Result<Target> {
        let [factor] = self.numbers("factor")?;
        let ([min_pixels], [max_pixels]) = (self.numbers("min_pixels")?, self.numbers("max_pixels")?);
        let total_pixels = self.optional("total_pixels", Self::numbers::<1>)?;
        Ok(Target::Multiple {
            factor: self.whole("factor", 1, factor)?,
            min_pixels: min_pixels as u64,
            max_pixels: max_pixels as u64,
            total_pixels: total_pixels.map(|[total]| total as u64),
        })
    }

    fn padding(&mut self) -> Result<Padding> {
        let sides: [f64; 4] = self.numbers("padding")?;
        let side = |n: usize| self.whole("padding", 0, sides[n]);
        Ok(Padding { left: side(0)?, top: side(1)?, right: side(2)?, bottom: side(3)? })
    }

    fn fill(&mut self) -> Result<[f64; 3]> {
        let fill: [f64; 3] = self.numbers("fill")?;
        match fill.iter().find(|v| !(0.0..=255.0).contains(*v)) {
            Some(value) => Err(self.argument_error("fill", "from 0 to 255", value)),
            None => Ok(fill),
        }
    }

    /// Reads a fill value. Its valid range depends on its position among the transforms, so the pipeline
    /// checks the range.
    fn erase_fill(&mut self, name: &str) -> Result<EraseFill> {
        match self.remaining.get(name) {
            Some(TransformValue::Str(_)) => match self.word(name)?.as_str() {
                "random" => Ok(EraseFill::Noise),
                other => {
                    Err(self.internal_error(format!("argument {name} is {other:?} instead of \"random\"")))
                }
            },
            _ => self.numbers(name).map(EraseFill::Value),
        }
    }

    fn center(&mut self) -> Result<Option<(f64, f64)>> {
        Ok(self.optional("center", Self::numbers::<2>)?.map(|[x, y]| (x, y)))
    }

    fn interpolation(&mut self) -> Result<Interpolation> {
        match self.word("interpolation")?.as_str() {
            "nearest" => Ok(Interpolation::Nearest),
            "bilinear" => Ok(Interpolation::Bilinear),
            other => Err(self.internal_error(format!("unknown interpolation: {other:?}"))),
        }
    }

    fn filter(&mut self) -> Result<Filter> {
        let antialias = self.flag("antialias")?;
        match (self.word("interpolation")?.as_str(), antialias) {
            ("nearest", _) => Ok(Filter::Nearest),
            ("bilinear", true) => Ok(Filter::Triangle),
            ("bilinear", false) => Ok(Filter::Bilinear),
            ("bicubic", true) => Ok(Filter::Cubic),
            ("bicubic", false) => Ok(Filter::Bicubic),
            (other, _) => Err(self.internal_error(format!("unknown interpolation: {other:?}"))),
        }
    }

    fn matrix(&mut self) -> Result<Option<MatrixCoefficients>> {
        let word = self.optional("matrix", Self::word)?;
        Ok(match word.as_deref() {
            None => None,
            Some("bt601") => Some(MatrixCoefficients::Bt601),
            Some("bt709") => Some(MatrixCoefficients::Bt709),
            Some("bt2020") => Some(MatrixCoefficients::Bt2020Ncl),
            Some("fcc") => Some(MatrixCoefficients::Fcc),
            Some("smpte240m") => Some(MatrixCoefficients::Smpte240m),
            Some("ycgco") => Some(MatrixCoefficients::YCgCo),
            Some(other) => return Err(self.internal_error(format!("unknown matrix: {other:?}"))),
        })
    }

    fn range(&mut self) -> Result<Option<ColorRange>> {
        let word = self.optional("range", Self::word)?;
        Ok(match word.as_deref() {
            None => None,
            Some("limited") => Some(ColorRange::Limited),
            Some("full") => Some(ColorRange::Full),
            Some(other) => return Err(self.internal_error(format!("unknown range: {other:?}"))),
        })
    }
}
