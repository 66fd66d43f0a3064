//! Transforms decoded frames and writes them to the clip slot, for every view, on the host or on a device.
//! Compiled passes are cached, and the parameters drawn for a clip are always the same.

mod image;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use framespool_kernels as kernels;
use framespool_nvdec::session::Surface;
use kernels::FrameView;

use super::compile::{FrameRef, SampledParams};
use super::cuda_executor::CudaExecutor;
use super::dct_scale;
use super::frame_view::with_view;
use super::hdr;
use super::nvdec_frame;
use super::nvjpeg::{JpegReport, Nvjpeg};
use super::shape::ClipShape;
use super::TransformPipeline;
use crate::batch::{DeviceSliceMut, OutputMut};
use crate::batch_sampler::rng::Key;
use crate::decode::EncodedImage;
use crate::error::{Error, Result, Site};
use crate::ffmpeg::Frame;
use crate::gpu::Gpu;
use crate::limits::resize;
use crate::media::{ColorTags, DisplayOrientation};
use crate::still::Shrink;

/// A frame or an encoded image, on the host or on a device.
pub enum InputFrame<'a> {
    /// A decoded frame on the host.
    Cpu(&'a Frame),
    /// An image file, of which only as much is decoded as the result needs.
    Image(EncodedImage<'a>),
    /// A decoded frame on a device.
    Nvdec {
        /// The output of the hardware decoder.
        surface: &'a Surface,
        /// The color description of the container.
        container: ColorTags,
        /// The executor that transforms it: its stream is the stream of the surface.
        cuda: &'a mut CudaExecutor,
    },
}

impl InputFrame<'_> {
    /// Whether its samples have more than 8 bits.
    pub fn is_deep(&self) -> bool {
        match self {
            InputFrame::Cpu(frame) => frame.depth_bits() > 8,
            InputFrame::Image(still) => still.header().sample_bits > 8,
            InputFrame::Nvdec { surface, .. } => surface.depth_bits > 8,
        }
    }

    /// The color description of the stream or, if it has none, of the container; `None` for image files
    /// and where it is unknown which of the two applies.
    fn color(&self) -> Option<ColorTags> {
        match self {
            InputFrame::Cpu(frame) => Some(frame.color()),
            InputFrame::Image(_) => None,
            InputFrame::Nvdec { surface, container, .. } => nvdec_frame::tags(surface, *container),
        }
    }

    /// (width, height) of the displayed part.
    pub fn size(&self) -> (u32, u32) {
        match self {
            InputFrame::Cpu(frame) => (frame.width(), frame.height()),
            InputFrame::Image(still) => still.size(),
            InputFrame::Nvdec { surface, .. } => nvdec_frame::size(surface),
        }
    }
}

/// Compiled passes and scratch memory of one worker.
pub struct TransformExecutor {
    /// Distinguishes its passes from those of other executors.
    number: u64,
    pipeline: TransformPipeline,
    key: Key,
    /// How the current frame is tone-mapped.
    tone: Option<kernels::ToneMap>,
    /// Most recently used last. Few: one per recent frame size, or clip.
    plans: Vec<Plan>,
    scratch: kernels::Scratch,
    gpu: Option<Arc<Gpu>>,
    /// Uploads host frames to the device; created for the first one that goes there.
    cuda: Option<CudaExecutor>,
    /// Decodes JPEG files on the device.
    nvjpeg: Nvjpeg,
    report: JpegReport,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct PlanKey {
    size: (u32, u32),
    turn: DisplayOrientation,
    key: Key,
    t: u32,
    tone: Option<kernels::ToneMap>,
    /// The decoder may output a smaller image.
    shrinks: bool,
}

/// What was compiled for one frame.
struct Plan {
    key: PlanKey,
    /// How much smaller the image is decoded.
    shrink: Shrink,
    /// One for each view.
    passes: Vec<kernels::PixelPass>,
}

/// Identifies one pass among those of all executors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PassId {
    executor: u64,
    plan: PlanKey,
    view: usize,
}

const PLANS_KEPT: usize = 256;

impl TransformExecutor {
    /// Creates an executor for a transform pipeline, whose results stay on the host.
    pub fn new(pipeline: TransformPipeline) -> Self {
        Self::on(pipeline, None)
    }

    /// Creates an executor whose results may also go to this GPU.
    pub fn on(pipeline: TransformPipeline, gpu: Option<Arc<Gpu>>) -> Self {
        static PAINTERS: AtomicU64 = AtomicU64::new(0);
        let key = Key { seed: 0, epoch: 0, clip: 0, occurrence: 0 };
        let number = PAINTERS.fetch_add(1, Ordering::Relaxed);
        let scratch = kernels::Scratch::new();
        let (nvjpeg, report) = (Nvjpeg::Off, JpegReport::default());
        let plans = Vec::new();
        Self { number, pipeline, key, tone: None, plans, scratch, gpu, cuda: None, nvjpeg, report }
    }

    /// Uses nvJPEG for JPEG files whose results go to the device. Its samples are close to the CPU's, not
    /// identical.
    pub fn by_nvjpeg(self) -> Self {
        Self { nvjpeg: Nvjpeg::Wanted, ..self }
    }

    /// Returns what nvJPEG did since the last call.
    pub fn take_report(&mut self) -> JpegReport {
        std::mem::take(&mut self.report)
    }

    /// The CUDA executor with which this worker uploads frames to the device.
    ///
    /// # Errors
    /// `Gpu` if no stream can be created on the device; `Argument` for an executor without a device.
    pub fn cuda(&mut self) -> Result<&mut CudaExecutor> {
        if self.cuda.is_none() {
            let no_gpu = || Error::Argument("a place on a device for a painter that has none".into());
            let gpu = self.gpu.clone().ok_or_else(no_gpu)?;
            let stream = gpu.device().create_stream()?;
            self.cuda = Some(CudaExecutor::new(gpu, stream));
        }
        Ok(self.cuda.as_mut().expect("made above"))
    }

    /// The transform pipeline.
    pub fn pipeline(&self) -> &TransformPipeline {
        &self.pipeline
    }

    /// Sets the clip whose random parameters are used from now on.
    pub fn begin(&mut self, key: Key) {
        if self.pipeline.is_random() {
            self.key = key;
        }
    }

    /// (width, height) of the result for a frame of this stored size.
    pub fn size_of(&mut self, size: (u32, u32), turn: DisplayOrientation) -> Result<(u32, u32)> {
        Ok(self.plan(size, turn, 0, false)?.passes[0].output_size())
    }

    /// (width, height) of the result for this frame or image.
    ///
    /// # Errors
    /// `Argument` for a size to which the transforms cannot be applied.
    pub fn size_of_picture(
        &mut self,
        picture: &InputFrame<'_>,
        turn: DisplayOrientation,
    ) -> Result<(u32, u32)> {
        let shrinks = matches!(picture, InputFrame::Image(still) if self.shrinks(still));
        Ok(self.plan(picture.size(), turn, 0, shrinks)?.passes[0].output_size())
    }

    /// The shape of a clip of `frames` frames of this (width, height).
    pub fn shape(&self, frames: usize, (width, height): (u32, u32)) -> ClipShape {
        self.pipeline.shape(frames, (width, height))
    }

    /// Bytes of scratch memory.
    pub fn scratch_bytes(&self) -> usize {
        self.scratch.bytes()
    }

    /// Transforms a frame and writes it as frame `t` of a clip.
    pub fn paint(
        &mut self,
        site: &Site,
        picture: &mut InputFrame<'_>,
        turn: DisplayOrientation,
        shape: &ClipShape,
        target: OutputMut<'_>,
        t: usize,
    ) -> Result<()> {
        let assumed = self.pipeline.assumed;
        let tags = picture.color().unwrap_or_default();
        self.tone = hdr::tone(site, tags, self.pipeline.tone)?;
        if !self.pipeline.ignores_hdr && self.pipeline.tone.is_none() {
            hdr::note(site, tags);
        }
        match (picture, target) {
            (InputFrame::Cpu(frame), OutputMut::Host(clip)) => {
                with_view(site, frame, assumed, |view| self.paint_view(site, view, turn, shape, clip, (t, t)))
            }
            (InputFrame::Cpu(frame), OutputMut::Device(spot)) => {
                self.bring(site, shape, spot, t, |executor, alone, staging| {
                    with_view(site, frame, assumed, |view| {
                        executor.paint_view(site, view, turn, alone, staging, (t, 0))
                    })
                })
            }
            (InputFrame::Image(still), OutputMut::Host(clip)) => {
                self.paint_still(site, still, turn, shape, clip, (t, t))
            }
            (InputFrame::Image(still), OutputMut::Device(spot)) => {
                let left = self.paint_by_nvjpeg(site, still, turn, shape, spot, t)?;
                let Some(spot) = left else { return Ok(()) };
                self.bring(site, shape, spot, t, |executor, alone, staging| {
                    executor.paint_still(site, still, turn, alone, staging, (t, 0))
                })
            }
            (InputFrame::Nvdec { surface, container, cuda }, OutputMut::Device(mut spot)) => {
                check_room(site, shape, spot.len)?;
                spot.begin(cuda.stream())?;
                let frame = nvdec_frame::frame(site, surface, *container, assumed)?;
                self.launch(site, &frame, cuda, turn, shape, spot.address, (t, t))
            }
            (InputFrame::Nvdec { surface, container, cuda }, OutputMut::Host(clip)) => {
                let frame = nvdec_frame::frame(site, surface, *container, assumed)?;
                let alone = ClipShape { frames: 1, ..*shape };
                let bytes = alone.bytes().unwrap_or(0);
                let address = cuda.cross(bytes)?;
                self.launch(site, &frame, cuda, turn, &alone, address, (t, 0))?;
                let mut staging = std::mem::take(&mut cuda.staging);
                resize(site, &mut staging, bytes)?;
                staging.truncate(bytes);
                let fetched = cuda.stream().download(&mut staging, address);
                for ((from, len), (to, _)) in
                    alone.frame_stretches(0).into_iter().zip(shape.frame_stretches(t))
                {
                    clip[to..to + len].copy_from_slice(&staging[from..from + len]);
                }
                cuda.staging = staging;
                Ok(fetched?)
            }
        }
    }

    /// Transforms a frame on the host and uploads the result to the device.
    fn bring(
        &mut self,
        site: &Site,
        shape: &ClipShape,
        mut spot: DeviceSliceMut<'_>,
        t: usize,
        paint: impl FnOnce(&mut Self, &ClipShape, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let alone = ClipShape { frames: 1, ..*shape };
        let cuda = self.cuda()?;
        let stream = cuda.stream().clone();
        let mut staging = std::mem::take(&mut cuda.staging);
        let bytes = alone.bytes().unwrap_or(0);
        resize(site, &mut staging, bytes)?;
        staging.truncate(bytes);
        let painted = paint(self, &alone, &mut staging);
        let brought = painted.and_then(|()| {
            check_room(site, shape, spot.len)?;
            spot.begin(&stream)?;
            for ((from, len), (to, _)) in alone.frame_stretches(0).into_iter().zip(shape.frame_stretches(t)) {
                stream.upload(spot.address + to as u64, &staging[from..from + len])?;
            }
            Ok(())
        });
        if let Some(cuda) = &mut self.cuda {
            cuda.staging = staging;
        }
        brought
    }

    /// Enqueues the passes that make frame `t` of a clip from a device frame, and write it as frame `place`
    /// of the clip at `address`.
    #[expect(clippy::too_many_arguments, reason = "where from, by what, where to")]
    fn launch(
        &mut self,
        site: &Site,
        frame: &kernels::DeviceFrame,
        cuda: &mut CudaExecutor,
        turn: DisplayOrientation,
        shape: &ClipShape,
        address: u64,
        (t, place): (usize, usize),
    ) -> Result<()> {
        let executor = self.number;
        let plan = self.plan((frame.width, frame.height), turn, t, false)?;
        for (view, pass) in plan.passes.iter().enumerate() {
            check_size(site, pass.output_size(), shape)?;
            let slot = shape.device_slot(address, view, place);
            cuda.run(site, PassId { executor, plan: plan.key, view }, pass, frame, slot)?;
        }
        Ok(())
    }

    /// Transforms planes in host memory as frame `t` of a clip, and writes the result at the position of
    /// frame `place`.
    pub fn paint_view(
        &mut self,
        site: &Site,
        view: &FrameView<'_>,
        turn: DisplayOrientation,
        shape: &ClipShape,
        clip: &mut [u8],
        (t, place): (usize, usize),
    ) -> Result<()> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let plan = self.plan((view.width, view.height), turn, t, false);
        let painted = plan.and_then(|plan| plan.run(site, view, shape, clip, place, &mut scratch));
        self.scratch = scratch;
        painted
    }

    /// Whether frame `t` of clip `a` and frame `u` of clip `b`, made from the same decoded frame, have the
    /// same pixels.
    ///
    /// # Errors
    /// Any error that transforming them would report.
    pub fn same_params(
        &mut self,
        size: (u32, u32),
        turn: DisplayOrientation,
        (a, t): (Key, usize),
        (b, u): (Key, usize),
    ) -> Result<bool> {
        if !self.pipeline.is_random() {
            return Ok(true);
        }
        self.begin(a);
        let first = self.plan(size, turn, t, false)?.passes.clone();
        self.begin(b);
        let second = &self.plan(size, turn, u, false)?.passes;
        Ok(first.iter().zip(second.iter()).all(|(one, other)| one.has_same_output(other)))
    }

    /// Returns the passes for a frame, one per view, and moves them to the end of the list.
    fn plan(
        &mut self,
        size: (u32, u32),
        turn: DisplayOrientation,
        t: usize,
        shrinks: bool,
    ) -> Result<&mut Plan> {
        let t = if self.pipeline.is_per_frame() { t as u32 } else { 0 };
        let wanted = PlanKey { size, turn, key: self.key, t, tone: self.tone, shrinks };
        match self.plans.iter().position(|known| known.key == wanted) {
            Some(at) => {
                let plan = self.plans.remove(at);
                self.plans.push(plan);
            }
            None => {
                let draw = |view| {
                    self.pipeline
                        .plan(&FrameRef { size, turn, key: self.key, t, view, tone: self.tone }, None)
                };
                let drawn = (0..self.pipeline.views.max(1)).map(draw).collect::<Result<Vec<_>>>()?;
                let geometries = drawn.iter().map(|(geometry, _)| geometry);
                let shrink = if shrinks { dct_scale::enough(geometries) } else { Shrink::Whole };
                let compile = |(geometry, finish): (kernels::Geometry, kernels::OutputSpec)| {
                    let smaller = match shrink {
                        Shrink::Whole => Some(geometry),
                        less => dct_scale::in_smaller(&geometry, size, less.divisor()),
                    };
                    let too_fine = || {
                        let kernels::Rect { width, height, .. } = geometry.crop;
                        let (across, down) = geometry.crop_subpixels;
                        Error::Argument(format!(
                            "a crop of {width}/{across} x {height}/{down} pixels is too fine; crop a larger part"
                        ))
                    };
                    let fits = smaller.ok_or_else(too_fine)?;
                    kernels::PixelPass::new(fits, finish).map_err(|e| Error::Argument(e.to_string()))
                };
                let passes = drawn.into_iter().map(compile).collect::<Result<Vec<_>>>()?;
                if self.plans.len() == PLANS_KEPT {
                    self.plans.remove(0);
                }
                self.plans.push(Plan { key: wanted, shrink, passes });
            }
        }
        Ok(self.plans.last_mut().expect("just pushed"))
    }
}

impl Plan {
    /// Runs the passes of all views of a frame, and writes the results as frame `place` of a clip.
    fn run(
        &mut self,
        site: &Site,
        view: &FrameView<'_>,
        shape: &ClipShape,
        clip: &mut [u8],
        place: usize,
        scratch: &mut kernels::Scratch,
    ) -> Result<()> {
        for (number, pass) in self.passes.iter_mut().enumerate() {
            check_size(site, pass.output_size(), shape)?;
            pass.run(view, &mut shape.slot(clip, number, place), scratch)
                .map_err(|e| Error::Unsupported { site: site.clone(), what: e.to_string() })?;
        }
        Ok(())
    }
}

/// The only check that a clip fits into the memory that the kernels write.
fn check_room(site: &Site, shape: &ClipShape, len: usize) -> Result<()> {
    if shape.bytes().is_some_and(|bytes| bytes <= len) {
        return Ok(());
    }
    let reason = format!("a clip of {shape} was given {len} bytes of the device");
    Err(Error::Internal { site: site.clone(), reason })
}

fn check_size(site: &Site, size: (u32, u32), shape: &ClipShape) -> Result<()> {
    if size == (shape.width as u32, shape.height as u32) {
        return Ok(());
    }
    let what = format!(
        "a picture size that changes inside a clip (from {}x{} to {}x{} after the transforms; add Resize((h, w)) to make them equal)",
        shape.width, shape.height, size.0, size.1
    );
    Err(Error::Unsupported { site: site.clone(), what })
}

/// Returns what a transform pipeline draws for frame `t` of a clip, for a frame of this stored size.
pub fn explain(
    pipeline: &TransformPipeline,
    size: (u32, u32),
    turn: DisplayOrientation,
    key: Key,
    t: u32,
) -> Result<Vec<SampledParams>> {
    if t as usize >= super::compile::MAX_FRAMES {
        return Err(Error::Argument(format!(
            "frame {t}: clips of at most {} frames are possible",
            super::compile::MAX_FRAMES
        )));
    }
    let mut told = Vec::new();
    pipeline.plan(&FrameRef { size, turn, key, t, view: 0, tone: None }, Some(&mut told))?;
    Ok(told)
}
