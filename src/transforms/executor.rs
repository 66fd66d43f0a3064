//! Transforms decoded frames and writes them to the clip slot, for every view, on the host or on a
//! device. Compiled passes are cached, and the parameters drawn for a clip are always the same.

mod deinterlace;
mod image;
mod upload;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use framespool_kernels as kernels;
use framespool_nvdec::session::Surface;
use kernels::FrameView;

use super::TransformPipeline;
use super::compile::{FrameRef, SampledParams, Stage};
use super::cuda_executor::CudaExecutor;
use super::dct_scale;
use super::hdr;
use super::nvdec_frame;
use super::nvjpeg::{DeviceReport, Nvjpeg};
use super::params::Map;
use super::pass_id::{CompileKey, PassId};
use super::shape::ClipShape;
use super::stages::{CompiledView, StageScratch};
use crate::batch::OutputMut;
use crate::decode::EncodedImage;
use crate::error::{Error, Result, Site};
use crate::ffmpeg::Frame;
use crate::gpu::Gpu;
use crate::image::DctScale;
use crate::index::VideoIndex;
use crate::limits::resize;
use crate::media::{ColorTags, DisplayGeometry};
use crate::rng::RngKey;

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
    pub(crate) fn is_deep(&self) -> bool {
        match self {
            InputFrame::Cpu(frame) => frame.depth_bits() > 8,
            InputFrame::Image(image) => image.header().sample_bits > 8,
            InputFrame::Nvdec { surface, .. } => surface.depth_bits > 8,
        }
    }

    /// The color description of the stream or, if it has none, of the container; `None` for image
    /// files and where it is unknown which of the two applies.
    fn color(&self) -> Option<ColorTags> {
        match self {
            InputFrame::Cpu(frame) => Some(frame.color()),
            InputFrame::Image(_) => None,
            InputFrame::Nvdec {
                surface, container, ..
            } => nvdec_frame::tags(surface, *container),
        }
    }

    /// Whether the decoder reports that it has the lines of two fields, which may show two times.
    fn is_interlaced(&self) -> bool {
        match self {
            InputFrame::Cpu(frame) => frame.is_interlaced(),
            InputFrame::Image(_) => false,
            InputFrame::Nvdec { surface, .. } => surface.is_interlaced,
        }
    }

    /// (width, height) of the displayed part.
    pub fn size(&self) -> (u32, u32) {
        match self {
            InputFrame::Cpu(frame) => (frame.width(), frame.height()),
            InputFrame::Image(image) => image.size(),
            InputFrame::Nvdec { surface, .. } => nvdec_frame::size(surface),
        }
    }
}

/// Compiled passes and scratch memory of one worker.
pub struct TransformExecutor {
    /// Distinguishes its passes from those of other executors.
    executor_id: u64,
    pipeline: TransformPipeline,
    key: RngKey,
    /// Number of frames of the clip, where the result depends on it; otherwise 0.
    frames: usize,
    /// How the current frame is tone-mapped.
    tone: Option<kernels::ToneMap>,
    /// Most recently used last. Few: one per recent frame size, or clip.
    compiled_cache: Vec<CompiledTransforms>,
    scratch: StageScratch,
    /// Planes of a deinterlaced frame.
    deinterlaced: Vec<u8>,
    gpu: Option<Arc<Gpu>>,
    /// Uploads host frames to the device; created for the first one that goes there.
    cuda: Option<CudaExecutor>,
    uploader: Option<Box<upload::Uploader>>,
    /// Decodes JPEG files on the device.
    nvjpeg: Nvjpeg,
    report: DeviceReport,
}

/// What was compiled for one frame.
struct CompiledTransforms {
    key: CompileKey,
    /// How much smaller the image is decoded.
    scale: DctScale,
    views: Vec<CompiledView>,
}

const MAX_COMPILED: usize = 256;

impl TransformExecutor {
    /// Creates an executor for a transform pipeline, whose results stay on the host.
    pub fn new(pipeline: TransformPipeline) -> Self {
        Self::on(pipeline, None)
    }

    /// Creates an executor whose results may also go to this GPU.
    pub fn on(pipeline: TransformPipeline, gpu: Option<Arc<Gpu>>) -> Self {
        static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);
        let key = RngKey {
            seed: 0,
            epoch: 0,
            clip: 0,
            occurrence: 0,
        };
        let executor_id = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let scratch = StageScratch::default();
        let (nvjpeg, report) = (Nvjpeg::Off, DeviceReport::default());
        let compiled_cache = Vec::new();
        Self {
            executor_id,
            pipeline,
            key,
            frames: 0,
            tone: None,
            compiled_cache,
            scratch,
            deinterlaced: Vec::new(),
            gpu,
            cuda: None,
            uploader: None,
            nvjpeg,
            report,
        }
    }

    /// Uses nvJPEG for JPEG files whose results go to the device. Its samples are close to the
    /// CPU's, not identical.
    pub(crate) fn by_nvjpeg(self) -> Self {
        Self {
            nvjpeg: Nvjpeg::Wanted,
            ..self
        }
    }

    /// Returns what happened on the device since the last call.
    pub fn take_report(&mut self) -> DeviceReport {
        std::mem::take(&mut self.report)
    }

    /// The CUDA executor with which this worker uploads frames to the device.
    ///
    /// # Errors
    /// `Gpu` if no stream can be created on the device; `Argument` for an executor without a
    /// device.
    pub fn cuda(&mut self) -> Result<&mut CudaExecutor> {
        if self.cuda.is_none() {
            let no_gpu =
                || Error::Argument("the output is on a device, but the executor has no GPU".into());
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

    /// Sets the clip whose random parameters are used from now on, and its number of frames.
    pub fn begin(&mut self, key: RngKey, frames: usize) {
        if self.pipeline.is_random() {
            self.key = key;
        }
        if self.pipeline.depends_on_length() {
            self.frames = frames;
        }
    }

    /// (width, height) of the result for a frame of this stored size.
    pub fn size_of(&mut self, size: (u32, u32), display: DisplayGeometry) -> Result<(u32, u32)> {
        Ok(self.compiled(size, display, 0, false)?.views[0].output_size())
    }

    /// (width, height) of the result for this frame or image.
    ///
    /// # Errors
    /// `Argument` for a size to which the transforms cannot be applied.
    pub(crate) fn size_of_frame(
        &mut self,
        input: &InputFrame<'_>,
        display: DisplayGeometry,
    ) -> Result<(u32, u32)> {
        let may_scale = matches!(input, InputFrame::Image(image) if self.may_scale(image));
        Ok(self.compiled(input.size(), display, 0, may_scale)?.views[0].output_size())
    }

    /// The shape of a clip of `frames` frames of this (width, height).
    pub fn shape(&self, frames: usize, (width, height): (u32, u32)) -> ClipShape {
        self.pipeline.shape(frames, (width, height))
    }

    /// Bytes of scratch memory.
    pub fn scratch_bytes(&self) -> usize {
        self.scratch.bytes() + self.deinterlaced.len()
    }

    /// Transforms a frame of this video and writes it as frame `t` of a clip.
    /// [`TransformPipeline::prepare`] was called for a reader of the video.
    pub fn apply(
        &mut self,
        site: &Site,
        input: &mut InputFrame<'_>,
        index: &VideoIndex,
        shape: &ClipShape,
        target: OutputMut<'_>,
        t: usize,
    ) -> Result<()> {
        let assumed = self.pipeline.assumed;
        let tags = index.color_of_frame(input.color().unwrap_or_default());
        self.tone = hdr::tone(site, tags, self.pipeline.tone)?;
        if !self.pipeline.ignores_hdr && self.pipeline.tone.is_none() {
            hdr::note(site, tags);
        }
        let is_deep = input.is_deep();
        let deinterlace = self.deinterlace(index, input);
        let display = index.info.display();
        match (input, target) {
            (InputFrame::Cpu(frame), OutputMut::Host(clip)) => {
                self.apply_to_frame(site, frame, deinterlace, display, shape, clip, (t, t))
            }
            (InputFrame::Cpu(frame), OutputMut::Device(slice)) => self.apply_and_upload(
                site,
                is_deep,
                shape,
                (slice, t),
                |executor, single_frame, staging| {
                    let at = (t, 0);
                    executor.apply_to_frame(
                        site,
                        frame,
                        deinterlace,
                        display,
                        single_frame,
                        staging,
                        at,
                    )
                },
            ),
            (InputFrame::Image(image), OutputMut::Host(clip)) => {
                self.apply_to_image(site, image, display, shape, clip, (t, t))
            }
            (InputFrame::Image(image), OutputMut::Device(slice)) => {
                let left = self.apply_by_nvjpeg(site, image, display, shape, slice, t)?;
                let Some(slice) = left else { return Ok(()) };
                self.apply_and_upload(
                    site,
                    is_deep,
                    shape,
                    (slice, t),
                    |executor, single_frame, staging| {
                        executor.apply_to_image(site, image, display, single_frame, staging, (t, 0))
                    },
                )
            }
            (
                InputFrame::Nvdec {
                    surface,
                    container,
                    cuda,
                },
                OutputMut::Device(mut slice),
            ) => {
                check_fits_slot(site, shape, slice.len)?;
                slice.begin(cuda.stream())?;
                let frame = nvdec_frame::frame(site, surface, *container, assumed)?;
                let frame = cuda.deinterlace(site, frame, deinterlace)?;
                self.launch(site, &frame, cuda, display, shape, slice.address, (t, t))
            }
            (
                InputFrame::Nvdec {
                    surface,
                    container,
                    cuda,
                },
                OutputMut::Host(clip),
            ) => {
                let frame = nvdec_frame::frame(site, surface, *container, assumed)?;
                let frame = cuda.deinterlace(site, frame, deinterlace)?;
                let single_frame = ClipShape {
                    frames: 1,
                    ..*shape
                };
                let bytes = single_frame.bytes().unwrap_or(0);
                let address = cuda.crossing_buffer(bytes)?;
                self.launch(site, &frame, cuda, display, &single_frame, address, (t, 0))?;
                let mut staging = std::mem::take(&mut cuda.staging);
                resize(site, &mut staging, bytes)?;
                staging.truncate(bytes);
                let fetched = cuda.stream().download(&mut staging, address);
                for ((from, len), (to, _)) in single_frame
                    .frame_ranges(0)
                    .into_iter()
                    .zip(shape.frame_ranges(t))
                {
                    clip[to..to + len].copy_from_slice(&staging[from..from + len]);
                }
                cuda.staging = staging;
                Ok(fetched?)
            }
        }
    }

    /// Enqueues the passes that make frame `t` of a clip from a device frame, and write it as frame
    /// `out_index` of the clip at `address`.
    #[expect(clippy::too_many_arguments, reason = "where from, by what, where to")]
    fn launch(
        &mut self,
        site: &Site,
        frame: &kernels::DeviceFrame,
        cuda: &mut CudaExecutor,
        display: DisplayGeometry,
        shape: &ClipShape,
        address: u64,
        (t, out_index): (usize, usize),
    ) -> Result<()> {
        let executor = self.executor_id;
        let compiled = self.compiled((frame.width, frame.height), display, t, false)?;
        for (view, stages) in compiled.views.iter().enumerate() {
            check_size(site, stages.output_size(), shape)?;
            let slot = shape.device_slot(address, view, out_index);
            let id = PassId {
                executor,
                compiled: compiled.key,
                view,
                stage: 0,
            };
            stages.launch(site, id, frame, slot, cuda)?;
        }
        Ok(())
    }

    /// Transforms planes in host memory as frame `t` of a clip, and writes the result at the
    /// position of frame `out_index`.
    pub fn apply_to_view(
        &mut self,
        site: &Site,
        view: &FrameView<'_>,
        display: DisplayGeometry,
        shape: &ClipShape,
        clip: &mut [u8],
        (t, out_index): (usize, usize),
    ) -> Result<()> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let compiled = self.compiled((view.width, view.height), display, t, false);
        let result = compiled
            .and_then(|compiled| compiled.run(site, view, shape, clip, out_index, &mut scratch));
        self.scratch = scratch;
        result
    }

    /// Whether frame `t` of clip `a` and frame `u` of clip `b`, made from the same decoded frame,
    /// have the same pixels. Each is given with the clip's number of frames.
    ///
    /// # Errors
    /// Any error that transforming them would report.
    pub(crate) fn same_params(
        &mut self,
        size: (u32, u32),
        display: DisplayGeometry,
        (a, t, length_of_a): (RngKey, usize, usize),
        (b, u, length_of_b): (RngKey, usize, usize),
    ) -> Result<bool> {
        let same_length = length_of_a == length_of_b || !self.pipeline.depends_on_length();
        if !self.pipeline.is_random() && same_length {
            return Ok(true);
        }
        self.begin(a, length_of_a);
        let first = self.compiled(size, display, t, false)?.views.clone();
        self.begin(b, length_of_b);
        let second = &self.compiled(size, display, u, false)?.views;
        Ok(first
            .iter()
            .zip(second.iter())
            .all(|(one, other)| one.has_same_output(other)))
    }

    /// Returns the compiled views for a frame, and moves them to the end of the list.
    fn compiled(
        &mut self,
        size: (u32, u32),
        display: DisplayGeometry,
        t: usize,
        may_scale: bool,
    ) -> Result<&mut CompiledTransforms> {
        let t = if self.pipeline.is_per_frame() {
            t as u32
        } else {
            0
        };
        let (key, tone, frames) = (self.key, self.tone, self.frames);
        let compile_key = CompileKey {
            size,
            display,
            key,
            t,
            frames,
            tone,
            may_scale,
        };
        match self
            .compiled_cache
            .iter()
            .position(|cached| cached.key == compile_key)
        {
            Some(at) => {
                let compiled = self.compiled_cache.remove(at);
                self.compiled_cache.push(compiled);
            }
            None => {
                let draw = |view| {
                    let subject = FrameRef {
                        size,
                        display,
                        key,
                        t,
                        frames,
                        view,
                        tone,
                    };
                    self.pipeline.compile(&subject, None)
                };
                let drawn = (0..self.pipeline.views.max(1))
                    .map(draw)
                    .collect::<Result<Vec<_>>>()?;
                let geometries = drawn.iter().map(|stages| &stages[0].geometry);
                let scale = if may_scale {
                    dct_scale::scale_for(geometries)
                } else {
                    DctScale::Full
                };
                let compile = |stages: Vec<Stage>| {
                    let geometry = stages[0].geometry;
                    let smaller = match scale {
                        DctScale::Full => Some(geometry),
                        less => dct_scale::geometry_at_scale(&geometry, size, less.divisor()),
                    };
                    let too_fine = || {
                        let kernels::Rect { width, height, .. } = geometry.crop;
                        let (across, down) = geometry.crop_subpixels;
                        Error::Argument(format!(
                            "a crop of {width}/{across} x {height}/{down} pixels is too fine; crop a larger part"
                        ))
                    };
                    let fits = smaller.ok_or_else(too_fine)?;
                    CompiledView::new(stages, fits).map_err(|e| Error::Argument(e.to_string()))
                };
                let views = drawn.into_iter().map(compile).collect::<Result<Vec<_>>>()?;
                if self.compiled_cache.len() == MAX_COMPILED {
                    self.compiled_cache.remove(0);
                }
                self.compiled_cache.push(CompiledTransforms {
                    key: compile_key,
                    scale,
                    views,
                });
            }
        }
        Ok(self.compiled_cache.last_mut().expect("just pushed"))
    }
}

impl CompiledTransforms {
    /// Transforms a frame to all views, and writes the results as frame `out_index` of a clip.
    fn run(
        &mut self,
        site: &Site,
        view: &FrameView<'_>,
        shape: &ClipShape,
        clip: &mut [u8],
        out_index: usize,
        scratch: &mut StageScratch,
    ) -> Result<()> {
        for (view_index, stages) in self.views.iter_mut().enumerate() {
            check_size(site, stages.output_size(), shape)?;
            stages.run(
                site,
                view,
                &mut shape.slot(clip, view_index, out_index),
                scratch,
            )?;
        }
        Ok(())
    }
}

/// The only check that a clip fits into the memory that the kernels write.
fn check_fits_slot(site: &Site, shape: &ClipShape, len: usize) -> Result<()> {
    if shape.bytes().is_some_and(|bytes| bytes <= len) {
        return Ok(());
    }
    let reason = format!("a clip of {shape} has {len} bytes of device memory");
    Err(Error::Internal {
        site: site.clone(),
        reason,
    })
}

fn check_size(site: &Site, size: (u32, u32), shape: &ClipShape) -> Result<()> {
    if size == (shape.width as u32, shape.height as u32) {
        return Ok(());
    }
    let what = format!(
        "a frame size that changes inside a clip (from {}x{} to {}x{} after the transforms; add Resize((h, \
         w)) to make them equal)",
        shape.width, shape.height, size.0, size.1
    );
    Err(Error::Unsupported {
        site: site.clone(),
        what,
    })
}

/// Returns what a transform pipeline draws for frame `t` of a clip, for a frame of this stored
/// size.
pub fn explain(
    pipeline: &TransformPipeline,
    size: (u32, u32),
    display: DisplayGeometry,
    key: RngKey,
    (t, frames): (u32, usize),
) -> Result<Vec<SampledParams>> {
    if t as usize >= crate::rng::MAX_FRAMES {
        return Err(Error::Argument(format!(
            "frame {t}: clips of at most {} frames are possible",
            crate::rng::MAX_FRAMES
        )));
    }
    let mut sampled = Vec::new();
    pipeline.compile(
        &FrameRef {
            size,
            display,
            key,
            t,
            frames,
            view: 0,
            tone: None,
        },
        Some(&mut sampled),
    )?;
    Ok(sampled)
}

/// Returns the (width, height) of the frames that a transform pipeline makes of a clip with frames
/// of this stored size.
///
/// # Errors
/// As applying the pipeline to the frame.
pub fn output_size(
    pipeline: &TransformPipeline,
    size: (u32, u32),
    display: DisplayGeometry,
    (key, frames): (RngKey, usize),
) -> Result<(u32, u32)> {
    pipeline.size_of_output(&FrameRef {
        size,
        display,
        key,
        t: 0,
        frames,
        view: 0,
        tone: None,
    })
}

/// Returns, for each view of a clip, the affine map from the displayed frame of this stored size to
/// the first frame of the result. Pixels are unit squares: the center of the first one is at (0.5,
/// 0.5).
///
/// # Errors
/// As applying the pipeline to the frame.
pub fn maps_to_output(
    pipeline: &TransformPipeline,
    size: (u32, u32),
    display: DisplayGeometry,
    (key, frames): (RngKey, usize),
) -> Result<Vec<Map>> {
    let of = |view| {
        pipeline.map_to_output(&FrameRef {
            size,
            display,
            key,
            t: 0,
            frames,
            view,
            tone: None,
        })
    };
    (0..pipeline.views.max(1)).map(of).collect()
}
