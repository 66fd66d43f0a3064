//! Compiles the requested transforms and applies them to decoded frames, into a clip slot of a
//! batch buffer. Formats, orientations, transforms and random draws become one pass, which the
//! `kernels` crate executes.

mod color_matrix;
mod compile;
mod cuda_executor;
mod dct_scale;
mod executor;
mod geometry_builder;
mod hdr;
mod nvdec_frame;
mod nvjpeg;
mod params;
mod pass_id;
mod shape;
mod stages;
pub mod transform;

pub use compile::SampledParams;
pub use cuda_executor::CudaExecutor;
pub use executor::{InputFrame, TransformExecutor, explain, maps_to_output, output_size};
pub use framespool_kernels::{
    Channels, DeinterlaceMethod, DeviceLut, Dtype, ElementLut, Filter, Normalize,
};
pub use hdr::take_hdr_warning;
pub use nvjpeg::DeviceReport;
pub use params::Map;
pub use shape::{ClipShape, Layout};

use crate::decode::PacketReader;
use crate::error::{Error, Result};
use crate::ffmpeg::frame_view::ColorOverride;
use framespool_kernels::TONE_MAP_PEAKS;
use transform::{EraseFill, Step, Target, Transform, count_steps};

/// What to make of each frame. Validated once, on construction.
#[derive(Clone, Debug, PartialEq)]
pub struct TransformPipeline {
    steps: Vec<Step>,
    normalize: Option<Normalize>,
    assumed: ColorOverride,
    /// Peak luminance in cd/m2 of the source and of the target, if tone mapping is enabled.
    tone: Option<(f64, f64)>,
    channels: Channels,
    /// The frame is a label map, with this label outside of it.
    label_fill: Option<u8>,
    /// Image files are decoded completely, to the RGB that their own decoder outputs.
    exact: bool,
    /// HDR video may be converted as if it were SDR, without a warning.
    ignores_hdr: bool,
    /// How interlaced video is deinterlaced, if it is.
    deinterlace: Option<DeinterlaceMethod>,
    /// Length of the view dimension of the result; 0 if it has none.
    views: usize,
    /// Element type of the result.
    pub dtype: Dtype,
    /// Order of dimensions of the result.
    pub layout: Layout,
}

impl TransformPipeline {
    /// # Errors
    /// `Argument` if the steps cannot be applied in this order (geometry or color after a mask or
    /// `Normalize`), for two transforms that make views, and for a `Normalize` without a float
    /// dtype or with a zero std.
    pub fn new<S: Into<Step>>(steps: Vec<S>, dtype: Dtype, layout: Layout) -> Result<Self> {
        let steps: Vec<Step> = steps.into_iter().map(S::into).collect();
        let (count, most) = (count_steps(&steps), crate::rng::MAX_STEPS);
        if count > most {
            return Err(Error::Argument(format!(
                "{count} transforms; at most {most} are possible"
            )));
        }
        let mut pipeline = Self {
            steps: Vec::new(),
            normalize: None,
            assumed: ColorOverride::default(),
            tone: None,
            channels: Channels::Three,
            label_fill: None,
            exact: false,
            ignores_hdr: false,
            deinterlace: None,
            views: 0,
            dtype,
            layout,
        };
        let mut earlier = Earlier::default();
        for step in &steps {
            pipeline.check(&step.transform, &mut earlier)?;
        }
        pipeline.steps = steps;
        let grows = |s: &Step| {
            s.per_frame && matches!(s.transform, Transform::RandomRotation { expand: true, .. })
        };
        if pipeline.steps.iter().any(|step| step.any(&grows)) && pipeline.fixed_size().is_none() {
            return Err(Error::Argument(
                "RandomRotation(expand=True, per_frame=True) makes frames of different sizes; put Resize((height, width)) after it".into(),
            ));
        }
        Ok(pipeline)
    }

    /// Returns the same geometry, with the same random draws, for a label map: one channel of `u8`,
    /// nearest-neighbor sampling, no color transforms, no masks, and `fill` outside of the frame.
    pub fn for_labels(&self, fill: u8) -> Self {
        let label_fill = Some(fill);
        let assumed = ColorOverride::default(); // applies to colors; labels have none
        let plain = Self {
            normalize: None,
            tone: None,
            channels: Channels::One,
            dtype: Dtype::U8,
            ignores_hdr: true,
            ..self.clone()
        };
        Self {
            label_fill,
            assumed,
            ..plain
        }
    }

    /// Decodes image files completely, to the RGB that their decoder outputs, as other libraries
    /// do, instead of only as much of their planes as the result needs.
    pub fn exactly(self) -> Self {
        Self {
            exact: true,
            ..self
        }
    }

    /// `ignore`: HDR video is converted on purpose as if it were SDR, without a warning.
    pub fn ignoring_hdr(self, ignore: bool) -> Self {
        Self {
            ignores_hdr: ignore,
            ..self
        }
    }

    /// Deinterlaces the frames of interlaced video before everything else; `None` leaves both
    /// fields as they are.
    pub fn deinterlacing(self, deinterlace: Option<DeinterlaceMethod>) -> Self {
        Self {
            deinterlace,
            ..self
        }
    }

    /// Reads what the frames of this reader's video are deinterlaced by, if they are.
    ///
    /// # Errors
    /// Any error from reading.
    pub fn prepare(&self, reader: &mut PacketReader) -> Result<()> {
        self.deinterlace
            .map_or(Ok(()), |_| reader.load_first_field())
    }

    /// Returns the pipeline that outputs the same pixels as 8-bit codes, which take half or a
    /// quarter of the memory, and the `ElementLut` that converts codes to elements. `None` if the
    /// elements are not a function of the codes (masks, 16-bit results), or not larger than the
    /// codes. For frames of more than 8 bits, the elements contain more than the codes: such clips
    /// cannot be kept as codes.
    pub fn as_codes(&self) -> Option<(Self, ElementLut)> {
        // The output of tone mapping has more than 8 bits.
        if self.dtype.is_integer()
            || self.tone.is_some()
            || self
                .steps
                .iter()
                .any(|step| step.any(&|step| step.transform.is_mask()))
        {
            return None;
        }
        let expand = ElementLut::new(self.dtype, self.normalize).ok()?;
        Some((
            Self {
                normalize: None,
                dtype: Dtype::U8,
                ..self.clone()
            },
            expand,
        ))
    }

    /// Checks and records a transform that follows others, and those in its lists.
    fn check(&mut self, transform: &Transform, earlier: &mut Earlier) -> Result<()> {
        self.take(transform, earlier.mask)?;
        if let (Transform::ToneMap { .. }, Some(name)) = (transform, earlier.colored) {
            return Err(Error::Argument(format!(
                "ToneMap follows {name}, which changes colors; put {name} after it"
            )));
        }
        if transform.changes_colors() {
            earlier.colored = Some(transform.name());
        }
        if transform.is_mask() {
            earlier.mask = Some(transform.name());
        }
        let before = *earlier;
        for (_, steps) in transform.choices() {
            let mut inside = before;
            for Step {
                transform: inner, ..
            } in steps
            {
                let applies_to_all = matches!(
                    inner,
                    Transform::Normalize(_)
                        | Transform::AssumeColor { .. }
                        | Transform::ToneMap { .. }
                );
                if applies_to_all || inner.views() > 1 {
                    let (inner, outer) = (inner.name(), transform.name());
                    return Err(Error::Argument(format!(
                        "{inner} cannot be inside {outer}, since it must apply to all clips; put it into the list itself"
                    )));
                }
                self.check(inner, &mut inside)?;
            }
            earlier.mask = earlier.mask.or(inside.mask);
            earlier.colored = earlier.colored.or(inside.colored);
        }
        Ok(())
    }

    /// Checks and records a transform; `mask` names an earlier one that covers pixels.
    fn take(&mut self, transform: &Transform, mask: Option<&str>) -> Result<()> {
        let name = transform.name();
        match transform {
            Transform::Normalize(n) => {
                if self.normalize.is_some() {
                    return Err(Error::Argument(
                        "two Normalize in one list; combine them into one".into(),
                    ));
                }
                if self.dtype.is_integer() {
                    let name = if self.dtype == Dtype::U8 {
                        "uint8"
                    } else {
                        "uint16"
                    };
                    return Err(Error::Argument(format!(
                        "Normalize(mean={:?}, std={:?}) needs a float dtype, got \"{name}\"; use dtype=\"float32\"",
                        n.mean, n.std
                    )));
                }
                let finite = n.std.iter().chain(&n.mean).all(|v| v.is_finite());
                if !finite || n.std.iter().any(|&v| v <= 0.0) {
                    return Err(Error::Argument(format!(
                        "Normalize(mean={:?}, std={:?}): values must be finite and std above 0",
                        n.mean, n.std
                    )));
                }
                self.normalize = Some(*n);
            }
            Transform::AssumeColor { matrix, range } => {
                self.assumed = ColorOverride {
                    matrix: *matrix,
                    range: *range,
                }
            }
            Transform::ToneMap {
                source_peak,
                target_peak,
            } => {
                if self.tone.is_some() {
                    return Err(Error::Argument("two ToneMap in one list; use one".into()));
                }
                let (least, most) = TONE_MAP_PEAKS;
                for (name, peak) in [("source_peak", *source_peak), ("target_peak", *target_peak)] {
                    if !(least..=most).contains(&peak) {
                        return Err(Error::Argument(format!(
                            "ToneMap: {name} must be from {least} to {most} cd/m2, got {peak}"
                        )));
                    }
                }
                self.tone = Some((*source_peak, *target_peak));
            }
            _ if transform.is_mask() => {
                let codes = 0.0..=255.0;
                if let Some(EraseFill::Value(value)) =
                    transform.cover().filter(|_| self.normalize.is_none())
                    && !value.iter().all(|v| codes.contains(v))
                {
                    return Err(Error::Argument(format!(
                        "{name} fills with {value:?}; before Normalize values must be from 0 to 255"
                    )));
                }
            }
            // What is in their lists is checked by itself.
            Transform::RandomApply { .. } | Transform::RandomChoice { .. } => {}
            _ if self.normalize.is_some() => {
                return Err(Error::Argument(format!(
                    "{name} follows Normalize; put Normalize after it"
                )));
            }
            _ => {
                if let Some(mask) = mask {
                    return Err(Error::Argument(format!(
                        "{name} follows {mask}, which erases pixels; put {mask} after it"
                    )));
                }
            }
        }
        if transform.views() > 1 {
            if self.views > 0 {
                return Err(Error::Argument(format!(
                    "{name} follows another multi-crop transform; use one of FiveCrop and ThreeCrop"
                )));
            }
            self.views = transform.views();
        }
        Ok(())
    }

    /// Whether different clips get different random parameters.
    pub fn is_random(&self) -> bool {
        self.steps
            .iter()
            .any(|step| step.any(&|step| step.transform.is_random()))
    }

    /// Whether the RGB bytes of an upright frame are the result without any change.
    fn is_plain(&self) -> bool {
        let bytes = self.dtype == Dtype::U8
            && self.layout == Layout::Nthwc
            && self.channels == Channels::Three;
        bytes && self.steps.is_empty()
    }

    /// Whether the result of a frame depends on the number of frames of its clip.
    fn depends_on_length(&self) -> bool {
        let by_length = |target: &Target| {
            matches!(
                target,
                Target::Multiple {
                    total_pixels: Some(_),
                    ..
                }
            )
        };
        let depends = |step: &Step| matches!(&step.transform, Transform::Resize { target, .. } if by_length(target));
        self.steps.iter().any(|step| step.any(&depends))
    }

    fn is_per_frame(&self) -> bool {
        self.steps
            .iter()
            .any(|step| step.any(&|step| step.per_frame && step.transform.is_random()))
    }

    /// # Errors
    /// `Argument` for a clip with too many frames for random parameters of their own.
    pub fn check_frames(&self, frames: usize) -> Result<()> {
        if self.is_per_frame() && frames > crate::rng::MAX_FRAMES {
            let most = crate::rng::MAX_FRAMES;
            return Err(Error::Argument(format!(
                "per_frame=True for clips of {frames} frames; at most {most} are possible"
            )));
        }
        Ok(())
    }

    /// The shape of a clip of `frames` frames of this (width, height).
    pub fn shape(&self, frames: usize, (width, height): (u32, u32)) -> ClipShape {
        let Self {
            dtype,
            layout,
            channels,
            views,
            ..
        } = *self;
        ClipShape {
            views,
            frames,
            width: width as usize,
            height: height as usize,
            channels,
            layout,
            dtype,
        }
    }

    /// (width, height) of the result if it is the same for every input frame.
    pub fn fixed_size(&self) -> Option<(u32, u32)> {
        fixed_after(&self.steps, None)
    }
}

/// What transforms before one may have done, as the names of those that did it.
#[derive(Clone, Copy, Default)]
struct Earlier {
    /// Covered pixels.
    mask: Option<&'static str>,
    /// Changed colors.
    colored: Option<&'static str>,
}

/// (width, height) after these steps if it is the same for every frame; `fixed` before them.
fn fixed_after(steps: &[Step], mut fixed: Option<(u32, u32)>) -> Option<(u32, u32)> {
    for step in steps {
        fixed = match &step.transform {
            Transform::Resize {
                target: Target::Exact(size),
                ..
            }
            | Transform::CenterCrop { size }
            | Transform::RandomCrop { size, .. }
            | Transform::RandomResizedCrop { size, .. }
            | Transform::MultiScaleCrop { size, .. }
            | Transform::FiveCrop { size }
            | Transform::ThreeCrop { size }
            | Transform::Letterbox { size, .. } => Some((size.width, size.height)),
            Transform::ResizeToNearest { sizes, .. } => match &sizes[..] {
                [size] => Some((size.width, size.height)),
                _ => None,
            },
            Transform::Resize { .. } | Transform::RandomShortestSize { .. } => None,
            // A rotation of a square by 90 degrees would keep its size, but angles are random.
            Transform::RandomRotation { expand: true, .. } => None,
            Transform::Pad { padding, .. } => fixed.and_then(|(w, h)| {
                let side = |length: u32, before: u32, after: u32| {
                    length.checked_add(before)?.checked_add(after)
                };
                side(w, padding.left, padding.right).zip(side(h, padding.top, padding.bottom))
            }),
            Transform::RandomApply { .. } | Transform::RandomChoice { .. } => {
                let choices = step.transform.choices();
                let mut sizes = choices
                    .iter()
                    .filter(|(weight, _)| *weight > 0.0)
                    .map(|(_, steps)| fixed_after(steps, fixed));
                let first = sizes.next().flatten();
                first.filter(|_| sizes.all(|size| size == first))
            }
            _ => fixed,
        };
    }
    fixed
}

#[cfg(test)]
mod tests {
    use super::*;
    use transform::Size;

    fn pipeline(transforms: Vec<Transform>, dtype: Dtype) -> Result<TransformPipeline> {
        TransformPipeline::new(transforms, dtype, Layout::Nthwc)
    }

    fn normalize() -> Transform {
        Transform::Normalize(Normalize {
            mean: [0.5; 3],
            std: [0.5; 3],
        })
    }

    fn cutout() -> Transform {
        let size = Size {
            height: 8,
            width: 8,
        };
        Transform::Cutout {
            size,
            count: 1,
            p: 1.0,
            cover: EraseFill::Value([0.0; 3]),
        }
    }

    fn flip() -> Transform {
        Transform::RandomHorizontalFlip { p: 0.5 }
    }

    #[test]
    fn order_that_is_not_supported_is_rejected() {
        assert!(pipeline(vec![normalize()], Dtype::U8).is_err());
        assert!(pipeline(vec![normalize(), flip()], Dtype::F32).is_err());
        assert!(pipeline(vec![cutout(), flip()], Dtype::F32).is_err());
        assert!(pipeline(vec![flip(), cutout(), normalize(), cutout()], Dtype::F32).is_ok());
        let three = || Transform::ThreeCrop {
            size: Size {
                height: 4,
                width: 4,
            },
        };
        assert!(pipeline(vec![three(), three()], Dtype::U8).is_err());
    }

    #[test]
    fn last_fixing_transform_fixes_the_size() {
        let crop = || Transform::CenterCrop {
            size: Size {
                height: 4,
                width: 6,
            },
        };
        assert_eq!(
            pipeline(vec![flip()], Dtype::U8).unwrap().fixed_size(),
            None
        );
        assert_eq!(
            pipeline(vec![crop(), flip()], Dtype::U8)
                .unwrap()
                .fixed_size(),
            Some((6, 4))
        );
        let padding = transform::Padding {
            left: 1,
            top: 2,
            right: 3,
            bottom: 4,
        };
        let pad = Transform::Pad {
            padding,
            fill: [0.0; 3],
        };
        assert_eq!(
            pipeline(vec![crop(), pad], Dtype::U8).unwrap().fixed_size(),
            Some((10, 10))
        );
    }

    #[test]
    fn display_aspect_changes_only_the_geometry_of_the_one_pass() {
        use crate::media::{DisplayGeometry, DisplayOrientation};
        use crate::rng::RngKey;
        use compile::FrameRef;
        let resize = |target, display_aspect| Transform::Resize {
            target,
            filter: Filter::Triangle,
            display_aspect,
        };
        let shorter = |on| {
            resize(
                Target::Shorter {
                    size: 128,
                    longest: None,
                },
                on,
            )
        };
        let letterbox = |display_aspect| Transform::Letterbox {
            size: Size {
                height: 90,
                width: 90,
            },
            filter: Filter::Triangle,
            fill: [0.0; 3],
            display_aspect,
        };
        let part = |display_aspect| Transform::RandomResizedCrop {
            size: Size {
                height: 64,
                width: 64,
            },
            scale: transform::UniformRange::new(0.1, 0.5),
            ratio: transform::UniformRange::new(0.75, 1.25),
            filter: Filter::Triangle,
            display_aspect,
        };
        for quarter_turns_cw in 0..4 {
            let orientation = DisplayOrientation {
                mirror: quarter_turns_cw == 3,
                quarter_turns_cw,
            };
            let geometry = |first: Transform, second: Transform, sample_aspect| {
                let subject = FrameRef {
                    size: (720, 576),
                    display: DisplayGeometry {
                        orientation,
                        sample_aspect,
                    },
                    key: RngKey {
                        seed: 1,
                        epoch: 2,
                        clip: 3,
                        occurrence: 0,
                    },
                    t: 0,
                    frames: 1,
                    view: 0,
                    tone: None,
                };
                let stages = pipeline(vec![first, second], Dtype::U8)
                    .unwrap()
                    .compile(&subject, None)
                    .unwrap();
                assert_eq!(stages.len(), 1);
                stages[0].geometry
            };
            let nothing = || Transform::RandomVerticalFlip { p: 0.0 };
            let size = if orientation.swaps_sides() {
                (576, 1024)
            } else {
                (1024, 576)
            };
            let display_size = || {
                resize(
                    Target::Exact(Size {
                        height: size.1,
                        width: size.0,
                    }),
                    false,
                )
            };
            let aspect = Some((64, 45));
            for of in [&shorter as &dyn Fn(bool) -> Transform, &letterbox, &part] {
                let explicit = geometry(display_size(), of(false), aspect);
                assert_eq!(geometry(nothing(), of(true), aspect), explicit);
                assert_ne!(geometry(nothing(), of(false), aspect), explicit);
                assert_eq!(
                    geometry(nothing(), of(true), None),
                    geometry(nothing(), of(false), None)
                );
            }
        }
    }

    fn apply(transforms: Vec<Transform>, p: f64) -> Transform {
        Transform::RandomApply {
            steps: transforms.into_iter().map(Step::from).collect(),
            p,
        }
    }

    fn one_of(lists: Vec<Vec<Transform>>) -> Transform {
        let steps = |list: Vec<Transform>| list.into_iter().map(Step::from).collect();
        Transform::RandomChoice {
            choices: lists.into_iter().map(|list| (1.0, steps(list))).collect(),
        }
    }

    fn center_crop(height: u32, width: u32) -> Transform {
        Transform::CenterCrop {
            size: Size { height, width },
        }
    }

    #[test]
    fn what_is_inside_a_list_follows_the_rules_of_its_place() {
        let refused = |transforms| pipeline(transforms, Dtype::F32).unwrap_err().to_string();
        for inner in [
            normalize(),
            Transform::ThreeCrop {
                size: Size {
                    height: 4,
                    width: 4,
                },
            },
        ] {
            let message = refused(vec![apply(vec![one_of(vec![vec![inner]])], 0.5)]);
            assert!(
                message.contains("cannot be inside RandomChoice"),
                "{message}"
            );
        }
        assert!(
            refused(vec![apply(vec![cutout()], 0.5), flip()])
                .contains("RandomHorizontalFlip follows Cutout")
        );
        assert!(refused(vec![normalize(), apply(vec![flip()], 0.5)]).contains("follows Normalize"));
        assert!(pipeline(vec![one_of(vec![vec![cutout()], vec![flip()]])], Dtype::F32).is_ok());
        let masked = pipeline(vec![apply(vec![cutout()], 0.5)], Dtype::F32).unwrap();
        assert!(
            masked.as_codes().is_none(),
            "masks are not a function of codes"
        );
        let deep = (0..crate::rng::MAX_STEPS).fold(flip(), |inner, _| apply(vec![inner], 0.5));
        assert!(refused(vec![deep]).contains("257 transforms"));
    }

    #[test]
    fn size_is_fixed_if_all_lists_end_in_it() {
        let fixed = |transforms| pipeline(transforms, Dtype::U8).unwrap().fixed_size();
        let choice = || {
            one_of(vec![
                vec![flip(), center_crop(4, 6)],
                vec![center_crop(9, 9), center_crop(4, 6)],
            ])
        };
        assert_eq!(fixed(vec![choice()]), Some((6, 4)));
        assert_eq!(
            fixed(vec![one_of(vec![vec![center_crop(4, 6)], vec![]])]),
            None
        );
        assert_eq!(
            fixed(vec![
                center_crop(4, 6),
                one_of(vec![vec![center_crop(4, 6)], vec![]])
            ]),
            Some((6, 4))
        );
        assert_eq!(
            fixed(vec![center_crop(4, 6), apply(vec![center_crop(2, 2)], 0.5)]),
            None
        );
        assert_eq!(
            fixed(vec![center_crop(4, 6), apply(vec![center_crop(2, 2)], 1.0)]),
            Some((2, 2))
        );
        assert_eq!(
            fixed(vec![center_crop(4, 6), apply(vec![flip()], 0.5)]),
            Some((6, 4))
        );
    }

    #[test]
    fn each_transform_in_a_list_draws_its_own_numbers() {
        use crate::media::DisplayGeometry;
        use crate::rng::RngKey;
        let crop = || Transform::RandomCrop {
            size: Size {
                height: 4,
                width: 4,
            },
            padding: transform::Padding::default(),
            pad_if_needed: false,
            fill: [0.0; 3],
        };
        let drawn = |transforms: Vec<Transform>, clip| {
            let key = RngKey {
                seed: 1,
                epoch: 2,
                clip,
                occurrence: 0,
            };
            let pipeline = pipeline(transforms, Dtype::U8).unwrap();
            explain(
                &pipeline,
                (5000, 4000),
                DisplayGeometry::default(),
                key,
                (0, 1),
            )
            .unwrap()
        };
        let mut applied = 0;
        for clip in 0..200 {
            let listed = drawn(
                vec![one_of(vec![vec![flip()], vec![crop(), flip()]]), crop()],
                clip,
            );
            let (choice, inner) = (listed[0].numbers[0].1[0], listed[0].steps.clone().unwrap());
            assert_eq!(inner.len(), 1 + choice as usize);
            // The places are: the choice, flip, crop, flip, crop.
            let flat = drawn(vec![flip(), flip(), crop(), flip()], clip);
            match inner.as_slice() {
                [one] => assert_eq!(one, &flat[1]),
                [first, second] => {
                    assert_eq!((first, second.name), (&flat[2], "RandomHorizontalFlip"))
                }
                _ => unreachable!(),
            }
            let either = drawn(vec![apply(vec![flip(), crop(), flip()], 0.3)], clip);
            applied += u32::from(
                either[0]
                    .steps
                    .as_ref()
                    .is_some_and(|inner| !inner.is_empty()),
            );
            assert_eq!(
                either[0].numbers[0].1[0] == 1.0,
                either[0].steps.as_ref().unwrap().len() == 3
            );
        }
        assert!((40..80).contains(&applied), "{applied} of 200 with p = 0.3");
    }

    #[test]
    fn frame_without_pixels_is_an_error() {
        use crate::media::DisplayGeometry;
        use crate::rng::RngKey;
        let key = RngKey {
            seed: 1,
            epoch: 2,
            clip: 3,
            occurrence: 0,
        };
        let pipeline =
            TransformPipeline::new(Vec::<Transform>::new(), Dtype::U8, Layout::Nthwc).unwrap();
        for size in [(8192, 0), (0, 16)] {
            let error =
                explain(&pipeline, size, DisplayGeometry::default(), key, (0, 1)).unwrap_err();
            assert!(error.to_string().contains("no pixels"), "{error}");
        }
    }

    #[test]
    fn params_depend_only_on_the_clip() {
        use crate::media::DisplayGeometry;
        use crate::rng::RngKey;
        let jitter = Transform::RandomAffine(transform::Affine {
            degrees: transform::UniformRange::new(-10.0, 10.0),
            translate: (0.1, 0.1),
            scale: transform::UniformRange::only(1.0),
            shear: [0.0; 4],
            center: None,
            interpolation: framespool_kernels::Interpolation::Bilinear,
            fill: [0.0; 3],
        });
        let steps = |per_frame| {
            vec![Step {
                transform: jitter.clone(),
                per_frame,
            }]
        };
        let key = RngKey {
            seed: 1,
            epoch: 2,
            clip: 3,
            occurrence: 0,
        };
        let drawn = |per_frame, key, t| {
            let pipeline =
                TransformPipeline::new(steps(per_frame), Dtype::U8, Layout::Nthwc).unwrap();
            explain(
                &pipeline,
                (100, 50),
                DisplayGeometry::default(),
                key,
                (t, 20),
            )
            .unwrap()
        };
        assert_eq!(drawn(false, key, 0), drawn(false, key, 7));
        assert_ne!(drawn(true, key, 0), drawn(true, key, 7));
        assert_eq!(drawn(true, key, 0), drawn(false, key, 0));
        assert_ne!(
            drawn(false, key, 0),
            drawn(false, RngKey { clip: 4, ..key }, 0)
        );
        assert_ne!(
            drawn(false, key, 0),
            drawn(false, RngKey { epoch: 3, ..key }, 0)
        );
    }
}
