//! Compiles a transform pipeline for one frame and view to a geometry and an output spec. Reports the random
//! parameters on request.
//! The random draws of one transform do not depend on those of another.

use framespool_kernels::{
    ColorMap, Fill, Filter, Geometry, Interpolation, Mask, MaskFill, MaskRegion, Orientation, OutputSpec,
    Rect, ToneMap,
};

use super::color_matrix;
use super::geometry_builder::GeometryBuilder;
use super::params::{center, expanded, grid, inverse_affine, log_uniform, part_of, resized, uniform, Map};
use super::transform::{Affine, EraseFill, Padding, Size, Transform, UniformRange};
use super::TransformPipeline;
use crate::batch_sampler::rng::{purpose, Rng, RngKey};
use crate::error::{Error, Result};
use crate::media::DisplayOrientation;

/// Parameters drawn for one transform: the name of the transform, and values by name.
pub type SampledParams = (&'static str, Vec<(&'static str, Vec<f64>)>);

/// The frame and clip for which a plan is compiled.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameRef {
    /// (width, height) as stored.
    pub size: (u32, u32),
    pub orientation: DisplayOrientation,
    pub key: RngKey,
    /// Index of the frame in its clip; affects only parameters that are drawn per frame.
    pub t: u32,
    pub view: usize,
    /// How the frame is tone-mapped.
    pub tone: Option<ToneMap>,
}

/// Number of frames of a clip that have distinct random streams.
pub(super) const MAX_FRAMES: usize = 1 << 20;
/// Number of transforms that have distinct random streams.
pub(super) const MAX_STEPS: usize = 1 << 8;

impl TransformPipeline {
    /// Compiles the transforms for one frame; appends the drawn parameters to `sampled`.
    pub(super) fn compile(
        &self,
        subject: &FrameRef,
        sampled: Option<&mut Vec<SampledParams>>,
    ) -> Result<(Geometry, OutputSpec)> {
        let walk = self.walk(subject, sampled)?;
        let finish = OutputSpec {
            tone: subject.tone,
            color: walk.color,
            fill: walk.fill,
            masks: walk.masks,
            normalize: self.normalize,
            dtype: self.dtype,
            channels: self.channels,
        };
        let needs_mean = finish.color.needs_mean();
        Ok((walk.draft.finish(needs_mean), finish))
    }

    /// Returns the map from the displayed frame to the result, for pixels that are unit squares.
    pub(super) fn map_to_output(&self, subject: &FrameRef) -> Result<Map> {
        Ok(self.walk(subject, None)?.draft.to_output())
    }

    /// Applies the steps one by one.
    fn walk(&self, subject: &FrameRef, mut sampled: Option<&mut Vec<SampledParams>>) -> Result<Compiler> {
        let orientation = subject.orientation;
        let (width, height) = subject.size;
        let size = if orientation.swaps_sides() { (height, width) } else { (width, height) };
        let orientation =
            Orientation { mirror: orientation.mirror, quarter_turns_cw: orientation.quarter_turns_cw };
        let mut walk = Compiler {
            draft: GeometryBuilder::new(size, orientation),
            color: ColorMap::IDENTITY,
            fill: Fill::default(),
            filled: false,
            masks: Vec::new(),
            label: self.label_fill,
            view: subject.view,
            normalized: false,
        };
        for (place, step) in self.steps.iter().enumerate() {
            // Each position in the list has its own random stream, so that the number of draws of one
            // transform does not change the parameters of the others.
            let frame = if step.per_frame { subject.t } else { 0 };
            let stream = purpose::TRANSFORMS + ((place as u32) << 4) + (frame << 12);
            let mut rng = subject.key.rng(stream);
            let mut numbers = Vec::new();
            walk.step(&step.transform, &mut rng, &mut numbers)?;
            if let Some(sampled) = &mut sampled {
                sampled.push((step.transform.name(), numbers));
            }
        }
        Ok(walk)
    }
}

struct Compiler {
    draft: GeometryBuilder,
    color: ColorMap,
    fill: Fill,
    /// An earlier step has filled pixels, so that another color would change them.
    filled: bool,
    masks: Vec<Mask>,
    /// The frame is a label map, with this label outside: only geometry applies, and values are never
    /// blended.
    label: Option<u8>,
    view: usize,
    normalized: bool,
}

type Numbers = Vec<(&'static str, Vec<f64>)>;

impl Compiler {
    fn step(&mut self, transform: &Transform, rng: &mut Rng, sampled: &mut Numbers) -> Result<()> {
        let mut record = |name: &'static str, values: &[f64]| sampled.push((name, values.to_vec()));
        match transform {
            Transform::AssumeColor { .. } | Transform::ToneMap { .. } => {}
            Transform::Normalize(_) => self.normalized = true,
            Transform::Resize { target, filter } => {
                let (width, height) = resized(*target, self.draft.size())?;
                self.draft.resize(width, height, self.filter(*filter));
            }
            Transform::CenterCrop(size) => self.center_crop(*size)?,
            Transform::RandomCrop { size, padding, pad_if_needed, fill } => {
                let (top, left) = self.random_crop(*size, *padding, *pad_if_needed, *fill, rng)?;
                record("top", &[top]);
                record("left", &[left]);
            }
            Transform::RandomResizedCrop { size, scale, ratio, filter } => {
                let part = part_of(self.draft.size(), *scale, *ratio, rng);
                let Rect { x, y, width, height } = part;
                self.draft.crop(i64::from(x), i64::from(y), Size { height, width })?;
                self.draft.resize(size.width, size.height, self.filter(*filter));
                for (name, value) in [("top", y), ("left", x), ("height", height), ("width", width)] {
                    record(name, &[f64::from(value)]);
                }
            }
            Transform::FiveCrop(size) => self.five_crop(*size)?,
            Transform::ThreeCrop(size) => self.three_crop(*size)?,
            Transform::RandomFlip { flip, p } => {
                let applied = rng.next_f64() < *p;
                if applied {
                    self.draft.flip(*flip);
                }
                record("applied", &[f64::from(u8::from(applied))]);
            }
            Transform::RandomAffine { affine, rotation } => {
                self.affine(affine, *rotation, rng, &mut record)?
            }
            Transform::Pad { padding, fill } => self.pad(*padding, *fill)?,
            Transform::Letterbox { size, filter, fill } => self.letterbox(*size, *filter, *fill)?,
            Transform::ColorJitter { brightness, contrast, saturation, hue } => {
                self.jitter([*brightness, *contrast, *saturation, *hue], rng, &mut record);
            }
            Transform::ColorTwist { brightness, contrast, saturation, hue } => {
                let [b, c, s, h] = [brightness, contrast, saturation, hue].map(|span| uniform(*span, rng));
                self.change(&color_matrix::yiq(h, s));
                self.change(&color_matrix::contrast_about_middle(c));
                self.change(&color_matrix::brightness(b));
                for (name, value) in [("brightness", b), ("contrast", c), ("saturation", s), ("hue", h)] {
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
            Transform::RandomErasing { p, scale, ratio, cover, count } => {
                let holes = self.erase(*p, *scale, *ratio, *cover, *count, rng);
                record("holes", &holes);
            }
            Transform::Cutout { size, count, p, cover } => {
                let holes = self.cutout(*size, *count, *p, *cover, rng);
                record("holes", &holes);
            }
            Transform::GridMask { tile, ratio, degrees, shift, p, cover } => {
                let applied = rng.next_f64() < *p;
                let [tile, ratio, degrees] = [tile, ratio, degrees].map(|span| uniform(*span, rng));
                let (shift_x, shift_y) = (uniform(shift.0, rng), uniform(shift.1, rng));
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

    fn filter(&self, filter: Filter) -> Filter {
        if self.label.is_some() {
            Filter::Nearest
        } else {
            filter
        }
    }

    fn change(&mut self, map: &ColorMap) {
        if self.label.is_some() {
            return;
        }
        // Pixels that are already filled change color with the frame.
        self.fill = map.after_mean_of(&self.color).apply_to_fill(&self.fill);
        self.color = self.color.then(map);
    }

    fn pad(&mut self, padding: Padding, fill: [f64; 3]) -> Result<()> {
        if padding != Padding::default() {
            self.draft.pad(padding)?;
            self.fill_with(fill)?;
        }
        Ok(())
    }

    /// # Errors
    /// `Argument` if an earlier step has filled with another color.
    fn fill_with(&mut self, fill: [f64; 3]) -> Result<()> {
        let new = Fill::constant(self.label.map_or(fill, |label| [f64::from(label); 3]));
        if self.filled && new != self.fill {
            return Err(Error::Argument(format!(
                "a step fills with {fill:?} where an earlier one filled with {:?}, or colors changed between them; \
                 one pass has one fill: give all of them the same, and put changes of color last",
                self.fill.base
            )));
        }
        (self.fill, self.filled) = (new, true);
        Ok(())
    }

    /// torchvision's `center_crop`: adds black where the frame is smaller; otherwise rounds the corner half
    /// to even.
    fn center_crop(&mut self, size: Size) -> Result<()> {
        let (width, height) = self.draft.size();
        if size.width > width || size.height > height {
            self.fill_with([0.0; 3])?;
        }
        let start = |length: u32, wanted: u32| match wanted > length {
            true => -i64::from((wanted - length) / 2),
            false => i64::from(center(length - wanted)),
        };
        self.draft.crop(start(width, size.width), start(height, size.height), size)
    }

    /// torchvision's `RandomCrop`. Returns (top, left) in the padded frame.
    fn random_crop(
        &mut self,
        size: Size,
        padding: Padding,
        pad_if_needed: bool,
        fill: [f64; 3],
        rng: &mut Rng,
    ) -> Result<(f64, f64)> {
        self.pad(padding, fill)?;
        let (width, height) = self.draft.size();
        let (across, down) = (size.width.saturating_sub(width), size.height.saturating_sub(height));
        if (across, down) != (0, 0) {
            if !pad_if_needed {
                return Err(Error::Argument(format!(
                    "RandomCrop(({}, {})) is larger than the frame of {height} rows and {width} columns; \
                     put Resize before it or use pad_if_needed=True",
                    size.height, size.width
                )));
            }
            self.pad(Padding { left: across, right: across, top: down, bottom: down }, fill)?;
        }
        let (width, height) = self.draft.size();
        let top = rng.next_below(u64::from(height - size.height) + 1);
        let left = rng.next_below(u64::from(width - size.width) + 1);
        self.draft.crop(left as i64, top as i64, size)?;
        Ok((top as f64, left as f64))
    }

    fn five_crop(&mut self, size: Size) -> Result<()> {
        self.check_fits("FiveCrop", size)?;
        let (width, height) = self.draft.size();
        let (right, bottom) = (i64::from(width - size.width), i64::from(height - size.height));
        match self.view {
            0 => self.draft.crop(0, 0, size),
            1 => self.draft.crop(right, 0, size),
            2 => self.draft.crop(0, bottom, size),
            3 => self.draft.crop(right, bottom, size),
            _ => self.center_crop(size),
        }
    }

    fn three_crop(&mut self, size: Size) -> Result<()> {
        self.check_fits("ThreeCrop", size)?;
        let (width, height) = self.draft.size();
        let (across, down) = (width - size.width, height - size.height);
        let along = |spare: u32| match self.view {
            0 => 0,
            1 => i64::from(center(spare)),
            _ => i64::from(spare),
        };
        let middle = |spare: u32| i64::from(center(spare));
        let (x, y) =
            if height > width { (middle(across), along(down)) } else { (along(across), middle(down)) };
        self.draft.crop(x, y, size)
    }

    fn check_fits(&self, name: &str, size: Size) -> Result<()> {
        let (width, height) = self.draft.size();
        if size.width <= width && size.height <= height {
            return Ok(());
        }
        Err(Error::Argument(format!(
            "{name}(({}, {})) is larger than the frame of {height} rows and {width} columns; put Resize before it",
            size.height, size.width
        )))
    }

    fn letterbox(&mut self, size: Size, filter: Filter, fill: [f64; 3]) -> Result<()> {
        let (width, height) = self.draft.size();
        // The side that fits more tightly determines the scale; the other side follows, rounded.
        let follow = |side: u32, to: u32, from: u32| {
            ((u64::from(side) * u64::from(to) * 2 + u64::from(from)) / (2 * u64::from(from))).max(1) as u32
        };
        let wide = u64::from(width) * u64::from(size.height) >= u64::from(height) * u64::from(size.width);
        let (w, h) = if wide {
            (size.width, follow(height, size.width, width).min(size.height))
        } else {
            (follow(width, size.height, height).min(size.width), size.height)
        };
        self.draft.resize(w, h, self.filter(filter));
        let (across, down) = (size.width - w, size.height - h);
        let (left, top) = (across / 2, down / 2);
        self.pad(Padding { left, top, right: across - left, bottom: down - top }, fill)
    }

    /// torchvision's `affine`, or its `rotate`, whose angle has the opposite sign.
    fn affine(
        &mut self,
        affine: &Affine,
        rotation: bool,
        rng: &mut Rng,
        record: &mut dyn FnMut(&'static str, &[f64]),
    ) -> Result<()> {
        let (width, height) = self.draft.size();
        let (w, h) = (f64::from(width), f64::from(height));
        let degrees = uniform(affine.degrees, rng);
        record("degrees", &[degrees]);
        let mut shift = (0.0, 0.0);
        let (mut scale, mut shear) = (1.0, (0.0, 0.0));
        if !rotation {
            let (across, down) = (affine.translate.0 * w, affine.translate.1 * h);
            shift = (
                uniform(UniformRange::new(-across, across), rng).round(),
                uniform(UniformRange::new(-down, down), rng).round(),
            );
            scale = uniform(affine.scale, rng);
            shear = (uniform(affine.shear_x, rng), uniform(affine.shear_y, rng));
            record("translate_x", &[shift.0]);
            record("translate_y", &[shift.1]);
            record("scale", &[scale]);
            record("shear_x", &[shear.0]);
            record("shear_y", &[shear.1]);
        }
        let clockwise = if rotation { -degrees } else { degrees };
        let center = affine.center.unwrap_or((w / 2.0, h / 2.0));
        let mut back = inverse_affine(clockwise, scale, shear, shift, center);
        let mut size = (width, height);
        if affine.expand {
            size = expanded(&back, (w, h));
            // Moves the old center to the middle of the new frame.
            let (left, top) = ((f64::from(size.0) - w) / 2.0, (f64::from(size.1) - h) / 2.0);
            for row in &mut back {
                row[2] -= row[0] * left + row[1] * top;
            }
        }
        let interpolation = if self.label.is_some() { Interpolation::Nearest } else { affine.interpolation };
        self.draft.warp(&back, size, interpolation)?;
        self.fill_with(affine.fill)
    }

    /// torchvision's `ColorJitter`: the order and the factors are drawn.
    fn jitter(
        &mut self,
        [brightness, contrast, saturation, hue]: [Option<UniformRange>; 4],
        rng: &mut Rng,
        record: &mut dyn FnMut(&'static str, &[f64]),
    ) {
        let mut order = [0usize, 1, 2, 3];
        for i in (1..4).rev() {
            order.swap(i, rng.next_below(i as u64 + 1) as usize);
        }
        record("order", &order.map(|i| i as f64));
        // Always draws four numbers, so that disabling one factor does not change the others.
        let neutral = [1.0, 1.0, 1.0, 0.0];
        let spans = [brightness, contrast, saturation, hue];
        let factors = [0, 1, 2, 3].map(|i| uniform(spans[i].unwrap_or(UniformRange::only(neutral[i])), rng));
        for i in order {
            if spans[i].is_none() {
                continue;
            }
            let map = [
                color_matrix::brightness,
                color_matrix::contrast,
                color_matrix::saturation,
                color_matrix::hue,
            ][i](factors[i]);
            self.change(&map);
        }
        for (name, factor) in ["brightness", "contrast", "saturation", "hue"].into_iter().zip(factors) {
            record(name, &[factor]);
        }
    }

    /// torchvision's `RandomErasing`, `count` times. Returns (top, left, height, width) of each hole.
    fn erase(
        &mut self,
        p: f64,
        scale: UniformRange,
        ratio: UniformRange,
        cover: EraseFill,
        count: u32,
        rng: &mut Rng,
    ) -> Vec<f64> {
        let mut holes = Vec::new();
        if rng.next_f64() >= p {
            return holes;
        }
        let (width, height) = self.draft.size();
        let area = f64::from(width) * f64::from(height);
        for _ in 0..count {
            let found = (0..10).find_map(|_| {
                let target = area * uniform(scale, rng);
                let aspect = log_uniform(ratio, rng);
                let h = (target * aspect).sqrt().round_ties_even();
                let w = (target / aspect).sqrt().round_ties_even();
                (h < f64::from(height) && w < f64::from(width) && h >= 1.0 && w >= 1.0)
                    .then_some((w as u32, h as u32))
            });
            let Some((w, h)) = found else { continue };
            let y = rng.next_below(u64::from(height - h) + 1) as u32;
            let x = rng.next_below(u64::from(width - w) + 1) as u32;
            self.hole(Rect { x, y, width: w, height: h }, cover, rng);
            holes.extend([y, x, h, w].map(f64::from));
        }
        holes
    }

    /// Covers rectangles about random centers, clipped at the edges (DeVries and Taylor, "Improved
    /// Regularization of Convolutional Neural Networks with Cutout", 2017). Returns (top, left, height,
    /// width) of each.
    fn cutout(&mut self, size: Size, count: u32, p: f64, cover: EraseFill, rng: &mut Rng) -> Vec<f64> {
        let mut holes = Vec::new();
        if rng.next_f64() >= p {
            return holes;
        }
        let (width, height) = self.draft.size();
        for _ in 0..count {
            let (y, x) = (rng.next_below(u64::from(height)) as i64, rng.next_below(u64::from(width)) as i64);
            let cut = |center: i64, side: u32, length: u32| {
                let start = (center - i64::from(side / 2)).max(0);
                let end = (center - i64::from(side / 2) + i64::from(side)).min(i64::from(length));
                (start as u32, (end - start).max(0) as u32)
            };
            let ((top, h), (left, w)) = (cut(y, size.height, height), cut(x, size.width, width));
            self.hole(Rect { x: left, y: top, width: w, height: h }, cover, rng);
            holes.extend([top, left, h, w].map(f64::from));
        }
        holes
    }

    fn hole(&mut self, rect: Rect, cover: EraseFill, rng: &mut Rng) {
        let fill = self.mask_fill(cover, rng);
        if self.label.is_none() && rect.width > 0 && rect.height > 0 {
            self.masks.push(Mask { region: MaskRegion::Rect(rect), fill });
        }
    }

    fn mask_fill(&self, cover: EraseFill, rng: &mut Rng) -> MaskFill {
        match cover {
            EraseFill::Noise => MaskFill::Noise(rng.next_u64()),
            EraseFill::Value(value) if self.normalized => MaskFill::Element(value.map(|v| v as f32)),
            EraseFill::Value(value) => MaskFill::CodeValue(value.map(|v| v.round().clamp(0.0, 255.0) as u8)),
        }
    }
}
