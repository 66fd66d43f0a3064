//! Compiles a transform pipeline for one frame and view to stages: usually one, a geometry and an
//! output spec. Reports the random parameters on request. The random draws of one transform do not
//! depend on those of another.

mod choices;
mod crops;
mod jitter;
mod masks;
mod policy;

use framespool_kernels::{
    Channels, ColorMap, Dtype, Fill, Filter, Geometry, Interpolation, MAX_SIDE, Mask, MaskRegion,
    Orientation, OutputSpec, PassError, PixelPass, RgbOperation, ToneMap,
};

use super::TransformPipeline;
use super::color_matrix;
use super::geometry_builder::GeometryBuilder;
use super::params::{
    IDENTITY, Map, after, expanded, grid, inverse_affine, multi_scale_part, nearest_in_shape,
    part_of, resized, uniform,
};
use super::transform::{Affine, Fit, Flip, Padding, Size, Step, Target, Transform, UniformRange};
use crate::error::{Error, Result};
use crate::media::DisplayGeometry;
use crate::rng::{Rng, RngKey};
use policy::{Policy, PolicyKind};

/// Parameters drawn for one transform.
#[derive(Clone, Debug, PartialEq)]
pub struct SampledParams {
    /// Name of the transform.
    pub name: &'static str,
    /// Values by name.
    pub numbers: Vec<(&'static str, Vec<f64>)>,
    /// Those of the applied transforms, for a transform that applies one of several lists.
    pub steps: Option<Vec<SampledParams>>,
}

/// The frame and clip for which a plan is compiled.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameRef {
    /// (width, height) as stored.
    pub size: (u32, u32),
    pub display: DisplayGeometry,
    pub key: RngKey,
    /// Index of the frame in its clip; affects only parameters that are drawn per frame.
    pub t: u32,
    /// Number of frames of the clip; affects only a resize to a total number of pixels.
    pub frames: usize,
    pub view: usize,
    /// How the frame is tone-mapped.
    pub tone: Option<ToneMap>,
}

/// A pixel pass, and operations on the codes that it writes. The next stage reads these codes.
pub(super) struct Stage {
    pub geometry: Geometry,
    pub spec: OutputSpec,
    pub operations: Vec<RgbOperation>,
}

/// A pass and the operations on the codes that it writes; the last stage has none.
#[derive(Clone, Debug)]
pub(super) struct CompiledStage {
    pub pass: PixelPass,
    pub operations: Vec<RgbOperation>,
}

impl Stage {
    /// Compiles the pass for this geometry.
    ///
    /// # Errors
    /// If the kernels refuse the geometry or the output.
    pub(super) fn compile(self, geometry: Geometry) -> Result<CompiledStage, PassError> {
        Ok(CompiledStage {
            pass: PixelPass::new(geometry, self.spec)?,
            operations: self.operations,
        })
    }
}

impl TransformPipeline {
    /// Compiles the transforms for one frame to one or more stages; appends the drawn parameters to
    /// `sampled`.
    pub(super) fn compile(
        &self,
        subject: &FrameRef,
        sampled: Option<&mut Vec<SampledParams>>,
    ) -> Result<Vec<Stage>> {
        let (mut walk, drawn) = self.walk(subject)?;
        if let Some(sampled) = sampled {
            sampled.extend(drawn);
        }
        walk.end_operations();
        let masks = std::mem::take(&mut walk.masks);
        walk.end_stage();
        let last = walk.stages.last_mut().expect("just ended");
        last.spec = OutputSpec {
            masks,
            normalize: self.normalize,
            dtype: self.dtype,
            ..last.spec.clone()
        };
        walk.stages[0].spec.tone = subject.tone;
        Ok(walk.stages)
    }

    /// Returns the map from the displayed frame to the result, for pixels that are unit squares.
    pub(super) fn map_to_output(&self, subject: &FrameRef) -> Result<Map> {
        let (walk, _) = self.walk(subject)?;
        Ok(after(&walk.draft.to_output(), &walk.map))
    }

    /// Returns the (width, height) of the result.
    pub(super) fn size_of_output(&self, subject: &FrameRef) -> Result<(u32, u32)> {
        Ok(self.walk(subject)?.0.draft.size())
    }

    /// Applies the steps one by one. Returns also what was drawn for each.
    fn walk(&self, subject: &FrameRef) -> Result<(Compiler, Vec<SampledParams>)> {
        let orientation = subject.display.orientation;
        let (width, height) = subject.size;
        if width == 0 || height == 0 {
            // As some containers state it, before a decoder knows the size.
            return Err(Error::Argument(format!(
                "a frame of {width}x{height} has no pixels"
            )));
        }
        let size = if orientation.swaps_sides() {
            (height, width)
        } else {
            (width, height)
        };
        let orientation = Orientation {
            mirror: orientation.mirror,
            quarter_turns_cw: orientation.quarter_turns_cw,
        };
        let mut walk = Compiler {
            key: subject.key,
            t: subject.t,
            stages: Vec::new(),
            map: IDENTITY,
            operations: Vec::new(),
            channels: self.channels,
            draft: GeometryBuilder::new(size, orientation),
            display: subject.display,
            color: ColorMap::IDENTITY,
            fill: Fill::default(),
            filled: false,
            masks: Vec::new(),
            label: self.label_fill,
            view: subject.view,
            frames: subject.frames,
            normalized: false,
        };
        let sampled = walk.steps(&self.steps, 0)?;
        Ok((walk, sampled))
    }
}

struct Compiler {
    key: RngKey,
    /// Index of the frame in its clip.
    t: u32,
    /// The stages before this one.
    stages: Vec<Stage>,
    /// From the displayed frame to the frame that this stage reads.
    map: Map,
    draft: GeometryBuilder,
    /// The shape of the current frame's pixels.
    display: DisplayGeometry,
    color: ColorMap,
    fill: Fill,
    /// An earlier step has filled pixels, so that another color would change them.
    filled: bool,
    /// What follows the pass of this stage. A later step that changes pixels needs another stage.
    operations: Vec<RgbOperation>,
    channels: Channels,
    masks: Vec<Mask>,
    /// The frame is a label map, with this label outside: only geometry applies, and values are
    /// never blended.
    label: Option<u8>,
    view: usize,
    /// Number of frames of the clip.
    frames: usize,
    normalized: bool,
}

type Numbers = Vec<(&'static str, Vec<f64>)>;

impl Compiler {
    /// Applies steps, the first of which has this place among all steps. Returns what was drawn for
    /// each.
    fn steps(&mut self, steps: &[Step], mut place: usize) -> Result<Vec<SampledParams>> {
        let mut sampled = Vec::with_capacity(steps.len());
        for step in steps {
            // Each place has its own random stream, so that the number of draws of one transform
            // does not change the parameters of the others.
            let frame = if step.per_frame { self.t } else { 0 };
            let mut rng = self.key.transform_rng(place, frame as usize);
            let mut numbers = Vec::new();
            let inner = self.choose(&step.transform, place + 1, &mut rng, &mut numbers)?;
            if inner.is_none() {
                self.step(&step.transform, &mut rng, &mut numbers)?;
            }
            sampled.push(SampledParams {
                name: step.transform.name(),
                numbers,
                steps: inner,
            });
            place += step.count();
        }
        Ok(sampled)
    }

    fn step(&mut self, transform: &Transform, rng: &mut Rng, sampled: &mut Numbers) -> Result<()> {
        let mut record = |name: &'static str, values: &[f64]| sampled.push((name, values.to_vec()));
        match transform {
            Transform::AssumeColor { .. } | Transform::ToneMap { .. } => {}
            Transform::Normalize(_) => self.normalized = true,
            // Applied by `choose`.
            Transform::RandomApply { .. } | Transform::RandomChoice { .. } => {}
            Transform::Resize {
                target,
                filter,
                display_aspect,
            } => {
                match target {
                    _ if !display_aspect => {}
                    // The result has this size for every frame.
                    Target::Exact(_) => self.display.sample_aspect = None,
                    _ => self.square_pixels(*filter)?,
                }
                let size = resized(*target, self.draft.size(), self.frames)?;
                self.resize(size, *filter);
            }
            Transform::CenterCrop { size } => self.center_crop(*size),
            Transform::RandomCrop {
                size,
                padding,
                pad_if_needed,
                fill,
            } => {
                let (top, left) = self.random_crop(*size, *padding, *pad_if_needed, *fill, rng)?;
                record("top", &[top]);
                record("left", &[left]);
            }
            Transform::RandomResizedCrop {
                size,
                scale,
                ratio,
                filter,
                display_aspect,
            } => {
                if *display_aspect {
                    self.square_pixels(*filter)?;
                }
                let part = part_of(self.draft.size(), *scale, *ratio, rng);
                self.resized_crop(part, *size, *filter, &mut record);
            }
            Transform::MultiScaleCrop {
                size,
                scales,
                max_distort,
                positions,
                filter,
                display_aspect,
            } => {
                if *display_aspect {
                    self.square_pixels(*filter)?;
                }
                let part = multi_scale_part(
                    self.draft.size(),
                    *size,
                    scales,
                    *max_distort,
                    *positions,
                    rng,
                );
                self.resized_crop(part, *size, *filter, &mut record);
            }
            Transform::RandomShortestSize {
                sizes,
                longest,
                filter,
                display_aspect,
            } => {
                if *display_aspect {
                    self.square_pixels(*filter)?;
                }
                let size = sizes[rng.next_below(sizes.len() as u64) as usize];
                let (width, height) = self.draft.size();
                let (short, long) = (u64::from(width.min(height)), u64::from(width.max(height)));
                let target = match longest {
                    Some(longest) if u64::from(*longest) * short < u64::from(size) * long => {
                        Target::Longer(*longest)
                    }
                    _ => Target::Shorter {
                        size,
                        longest: None,
                    },
                };
                let to = resized(target, (width, height), self.frames)?;
                self.resize(to, *filter);
                record("size", &[f64::from(size)]);
            }
            Transform::ResizeToNearest {
                sizes,
                fit,
                fill,
                filter,
                display_aspect,
            } => {
                if *display_aspect {
                    self.square_pixels(*filter)?;
                }
                let size = nearest_in_shape(self.draft.size(), sizes)?;
                let cover = || resized(Target::Cover(size), self.draft.size(), self.frames);
                match fit {
                    Fit::Cover => {
                        self.resize(cover()?, *filter);
                        self.center_crop(size);
                    }
                    Fit::RandomCover => {
                        self.resize(cover()?, *filter);
                        let none = Padding::default();
                        let (top, left) = self.random_crop(size, none, false, *fill, rng)?;
                        record("top", &[top]);
                        record("left", &[left]);
                    }
                    Fit::Letterbox => self.letterbox(size, *filter, *fill)?,
                    Fit::Stretch => {
                        self.resize((size.width, size.height), *filter);
                        self.display.sample_aspect = None;
                    }
                }
                record("size", &[f64::from(size.height), f64::from(size.width)]);
            }
            Transform::FiveCrop { size } => self.five_crop(*size)?,
            Transform::ThreeCrop { size } => self.three_crop(*size)?,
            Transform::RandomHorizontalFlip { p } => {
                self.flip(Flip::Horizontal, *p, rng, &mut record)
            }
            Transform::RandomVerticalFlip { p } => self.flip(Flip::Vertical, *p, rng, &mut record),
            Transform::RandomRotation {
                degrees,
                interpolation,
                expand,
                center,
                fill,
            } => {
                let degrees = uniform(*degrees, rng);
                record("degrees", &[degrees]);
                self.rotate(degrees, *expand, *center, *interpolation, *fill);
            }
            Transform::RandomAffine(affine) => self.affine(affine, rng, &mut record),
            Transform::Pad { padding, fill } => self.pad(*padding, *fill)?,
            Transform::Letterbox {
                size,
                filter,
                fill,
                display_aspect,
            } => {
                if *display_aspect {
                    self.square_pixels(*filter)?;
                }
                self.letterbox(*size, *filter, *fill)?;
            }
            Transform::ColorJitter {
                brightness,
                contrast,
                saturation,
                hue,
            } => {
                self.jitter(
                    [*brightness, *contrast, *saturation, *hue],
                    rng,
                    &mut record,
                );
            }
            Transform::RandomPhotometricDistort {
                brightness,
                contrast,
                saturation,
                hue,
                p,
            } => {
                self.distort(
                    [*brightness, *contrast, *saturation, *hue],
                    *p,
                    rng,
                    &mut record,
                );
            }
            Transform::ColorTwist {
                brightness,
                contrast,
                saturation,
                hue,
            } => {
                let [b, c, s, h] =
                    [brightness, contrast, saturation, hue].map(|span| uniform(*span, rng));
                self.change(&color_matrix::yiq(h, s));
                self.change(&color_matrix::contrast_about_middle(c));
                self.change(&color_matrix::brightness(b));
                for (name, value) in [
                    ("brightness", b),
                    ("contrast", c),
                    ("saturation", s),
                    ("hue", h),
                ] {
                    record(name, &[value]);
                }
            }
            Transform::RandomGrayscale { p } => {
                let applied = rng.next_f64() < *p;
                if applied {
                    self.change(&color_matrix::grayscale());
                }
                record("applied", &[f64::from(u8::from(applied))]);
            }
            Transform::RandomPosterize { .. }
            | Transform::RandomSolarize { .. }
            | Transform::RandomAdjustSharpness { .. }
            | Transform::RandomInvert { .. }
            | Transform::RandomAutocontrast { .. }
            | Transform::RandomEqualize { .. } => {
                let drawn = rng.next_f64();
                let operation = transform.operation().filter(|(_, p)| drawn < *p);
                record("applied", &[f64::from(u8::from(operation.is_some()))]);
                if let Some((operation, _)) = operation {
                    self.operate(operation);
                }
            }
            Transform::GaussianBlur { kernel_size, sigma } => {
                let sigma = uniform(*sigma, rng);
                let blur = RgbOperation::blur(*kernel_size, sigma);
                blur.check(self.draft.size())
                    .map_err(|e| Error::Argument(format!("GaussianBlur: {e}")))?;
                self.operate(blur);
                record("sigma", &[sigma]);
            }
            Transform::RandAugment {
                num_ops,
                magnitude,
                num_magnitude_bins,
                interpolation,
                fill,
            } => {
                let kind = PolicyKind::RandAugment {
                    num_ops: *num_ops,
                    magnitude: *magnitude,
                };
                let policy = Policy {
                    kind,
                    bins: *num_magnitude_bins,
                    interpolation: *interpolation,
                    fill: *fill,
                };
                self.augment(&policy, rng, &mut record);
            }
            Transform::TrivialAugmentWide {
                num_magnitude_bins,
                interpolation,
                fill,
            } => {
                let kind = PolicyKind::TrivialAugmentWide;
                let policy = Policy {
                    kind,
                    bins: *num_magnitude_bins,
                    interpolation: *interpolation,
                    fill: *fill,
                };
                self.augment(&policy, rng, &mut record);
            }
            Transform::RandomErasing {
                p,
                scale,
                ratio,
                cover,
                count,
            } => {
                let holes = self.erase(*p, *scale, *ratio, *cover, *count, rng);
                record("holes", &holes);
            }
            Transform::Cutout {
                size,
                count,
                p,
                cover,
            } => {
                let holes = self.cutout(*size, *count, *p, *cover, rng);
                record("holes", &holes);
            }
            Transform::GridMask {
                tile,
                ratio,
                degrees,
                shift_x,
                shift_y,
                p,
                cover,
            } => {
                let applied = rng.next_f64() < *p;
                let [tile, ratio, degrees] = [tile, ratio, degrees].map(|span| uniform(*span, rng));
                let (shift_x, shift_y) = (uniform(*shift_x, rng), uniform(*shift_y, rng));
                if applied && self.label.is_none() {
                    let area = MaskRegion::Grid(grid(tile, ratio, degrees, (shift_x, shift_y)));
                    let fill = self.mask_fill(*cover, rng);
                    self.masks.push(Mask { region: area, fill });
                }
                record("applied", &[f64::from(u8::from(applied))]);
                record("tile", &[tile]);
                record("ratio", &[ratio]);
                record("degrees", &[degrees]);
                record("shift", &[shift_x, shift_y]);
            }
        }
        Ok(())
    }

    /// Ends the stage: what follows reads the codes that its pass writes and its operations change.
    fn end_stage(&mut self) {
        let size = self.draft.size();
        let draft = GeometryBuilder::new(size, Orientation::default());
        let draft = std::mem::replace(&mut self.draft, draft);
        self.map = after(&draft.to_output(), &self.map);
        let spec = OutputSpec {
            color: self.color,
            fill: self.fill,
            channels: self.channels,
            ..OutputSpec::new(Dtype::U8)
        };
        let geometry = draft.finish(spec.color.needs_mean());
        self.stages.push(Stage {
            geometry,
            spec,
            operations: std::mem::take(&mut self.operations),
        });
        (self.color, self.fill, self.filled) = (ColorMap::IDENTITY, Fill::default(), false);
    }

    /// Ends the stage if it has operations: called before every step that changes or moves pixels.
    fn end_operations(&mut self) {
        if !self.operations.is_empty() {
            self.end_stage();
        }
    }

    /// Adds an operation on codes. Labels are not codes.
    fn operate(&mut self, operation: RgbOperation) {
        if self.label.is_none() {
            self.operations.push(operation);
        }
    }

    fn resize(&mut self, (width, height): (u32, u32), filter: Filter) {
        if (width, height) != self.draft.size() {
            self.end_operations();
            let filter = if self.label.is_some() {
                Filter::Nearest
            } else {
                filter
            };
            self.draft.resize(width, height, filter);
        }
    }

    /// Resizes the frame to its display size, after which its pixels are square. This resize and
    /// the next one become one, from the source frame.
    fn square_pixels(&mut self, filter: Filter) -> Result<()> {
        let size = self.draft.size();
        let (width, height) = self.display.display_size(size);
        let Some((num, den)) = self.display.sample_aspect.take() else {
            return Ok(());
        };
        let side = |length: u64| {
            u32::try_from(length)
                .ok()
                .filter(|&length| length <= MAX_SIDE)
        };
        let Some(to) = side(width).zip(side(height)) else {
            return Err(Error::Argument(format!(
                "display_aspect=True makes {width}x{height} of a frame of {}x{}, whose sample aspect ratio is {num}:{den}: a \
                 side may be at most {MAX_SIDE} pixels; use display_aspect=False",
                size.0, size.1
            )));
        };
        self.resize(to, filter);
        Ok(())
    }

    fn crop(&mut self, x: i64, y: i64, size: Size) {
        self.end_operations();
        if !self.draft.may_crop(x, y, size) {
            self.end_stage();
        }
        self.draft.crop(x, y, size);
    }

    /// Prepares a step that shows the area outside of the frame, in this color. One stage has one
    /// fill, and cannot show what an earlier step has removed as fill.
    fn fill_outside(&mut self, fill: [f64; 3]) {
        self.end_operations();
        let new = Fill::constant(self.label.map_or(fill, |label| [f64::from(label); 3]));
        if !self.draft.may_grow() || (self.filled && new != self.fill) {
            self.end_stage();
        }
        (self.fill, self.filled) = (new, true);
    }

    fn change(&mut self, map: &ColorMap) {
        if self.label.is_some() {
            return;
        }
        self.end_operations();
        // Pixels that are already filled change color with the frame.
        self.fill = map.after_mean_of(&self.color).apply_to_fill(&self.fill);
        self.color = self.color.then(map);
    }

    fn pad(&mut self, padding: Padding, fill: [f64; 3]) -> Result<()> {
        if padding != Padding::default() {
            self.fill_outside(fill);
            self.draft.pad(padding)?;
        }
        Ok(())
    }

    fn flip(
        &mut self,
        flip: Flip,
        p: f64,
        rng: &mut Rng,
        record: &mut dyn FnMut(&'static str, &[f64]),
    ) {
        let applied = rng.next_f64() < p;
        if applied {
            self.end_operations();
            self.draft.flip(flip);
        }
        record("applied", &[f64::from(u8::from(applied))]);
    }

    /// torchvision's `rotate`, counterclockwise.
    fn rotate(
        &mut self,
        degrees: f64,
        expand: bool,
        center: Option<(f64, f64)>,
        interpolation: Interpolation,
        fill: [f64; 3],
    ) {
        let mut size = self.draft.size();
        let (w, h) = (f64::from(size.0), f64::from(size.1));
        let center = center.unwrap_or((w / 2.0, h / 2.0));
        let mut back = inverse_affine(-degrees, 1.0, (0.0, 0.0), (0.0, 0.0), center);
        if expand {
            size = expanded(&back, (w, h));
            // Moves the old center to the middle of the new frame.
            let (left, top) = ((f64::from(size.0) - w) / 2.0, (f64::from(size.1) - h) / 2.0);
            for row in &mut back {
                row[2] -= row[0] * left + row[1] * top;
            }
        }
        self.warp(&back, size, interpolation, fill);
    }

    /// torchvision's `affine`.
    fn affine(
        &mut self,
        affine: &Affine,
        rng: &mut Rng,
        record: &mut dyn FnMut(&'static str, &[f64]),
    ) {
        let size = self.draft.size();
        let (w, h) = (f64::from(size.0), f64::from(size.1));
        let degrees = uniform(affine.degrees, rng);
        let (across, down) = (affine.translate.0 * w, affine.translate.1 * h);
        let shift = (
            uniform(UniformRange::new(-across, across), rng).round(),
            uniform(UniformRange::new(-down, down), rng).round(),
        );
        let scale = uniform(affine.scale, rng);
        let [x_low, x_high, y_low, y_high] = affine.shear;
        let shear = (
            uniform(UniformRange::new(x_low, x_high), rng),
            uniform(UniformRange::new(y_low, y_high), rng),
        );
        record("degrees", &[degrees]);
        record("translate_x", &[shift.0]);
        record("translate_y", &[shift.1]);
        record("scale", &[scale]);
        record("shear_x", &[shear.0]);
        record("shear_y", &[shear.1]);
        let center = affine.center.unwrap_or((w / 2.0, h / 2.0));
        let back = inverse_affine(degrees, scale, shear, shift, center);
        self.warp(&back, size, affine.interpolation, affine.fill);
    }

    fn warp(&mut self, back: &Map, size: (u32, u32), interpolation: Interpolation, fill: [f64; 3]) {
        self.fill_outside(fill);
        let interpolation = if self.label.is_some() {
            Interpolation::Nearest
        } else {
            interpolation
        };
        self.draft.warp(back, size, interpolation);
    }
}
