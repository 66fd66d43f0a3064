//! Python class for a video: opens it from a path, bytes or a file object, reports its properties,
//! and decodes frames to tensors. It releases the GIL while it decodes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use framespool::Error;
use framespool::audio::AudioFormat;
use framespool::decode::PacketReader;
use framespool::gpu::Gpu;
use framespool::index::cache::index_of;
use framespool::index::image;
use framespool::limits::Limits;
use framespool::loader::DecoderBackend;
use framespool::rng::RngKey;
use framespool::source::{self, ImageSequence, ImageSequenceSource, MemorySource};
use framespool::transforms::{DeinterlaceMethod, TransformPipeline};
use framespool::units::PresentationIndex;
use framespool::video::{ClipDecoder, DecodedFrame, FrameStream, Video as Engine};
use pyo3::prelude::*;

use crate::audio::FileAudio;
use crate::batch_sampler::parse_choice;
use crate::element_type::ElementType;
use crate::errors::{OrRaise, check_same_process, warn_hdr};
use crate::file_object::FileObject;
use crate::index_cache::{IndexCacheArg, IndexCacheHandle};
use crate::interrupt::{or_raise_pending, run_interruptible};
use crate::sources::{Source, SourceCache, VideoSource};
use crate::tensor::Tensor;
use crate::transforms::{Steps, parse_deinterlace, pipeline};

/// Parses the name of a decoder backend.
pub(crate) fn parse_decoder(decoder: &str) -> framespool::Result<DecoderBackend> {
    let choices = [
        ("auto", DecoderBackend::Auto),
        ("cpu", DecoderBackend::Cpu),
        ("nvdec", DecoderBackend::Nvdec),
        ("nvjpeg", DecoderBackend::Nvjpeg),
    ];
    parse_choice("decoder", decoder, &choices)
}

#[pyclass(module = "framespool._framespool", frozen)]
pub struct Video {
    engine: Engine,
    /// Threads that decode the frames of one call.
    threads: u32,
    /// The GPU that receives the frames; `None` for the host.
    gpu: Option<Arc<Gpu>>,
    decoder: DecoderBackend,
    /// The GPU that decodes frames for the host, with [`DecoderBackend::Nvdec`].
    decode_device: u32,
    /// Whether HDR video is converted without a warning.
    ignores_hdr: bool,
    /// How interlaced video is deinterlaced, if it is.
    deinterlace: Option<DeinterlaceMethod>,
    /// The clip decoder of the last call, reused while the transform pipeline stays the same.
    clip_decoder: Mutex<Option<ClipDecoder>>,
    /// The packet reader of the last call, which keeps the demuxer open for containers that need
    /// one.
    reader: Mutex<Option<PacketReader>>,
    audio: FileAudio,
    owner_pid: u32,
}

/// Decoded and transformed frames of one video.
#[pyclass(module = "framespool._framespool", frozen)]
pub struct Clip {
    frames: Py<Tensor>,
    indices: Vec<u32>,
    pts_seconds: Vec<f64>,
    duration_seconds: Vec<f64>,
}

#[pymethods]
impl Clip {
    #[getter]
    fn frames(&self, py: Python<'_>) -> Py<Tensor> {
        self.frames.clone_ref(py)
    }

    #[getter]
    fn indices(&self) -> Vec<u32> {
        self.indices.clone()
    }

    #[getter]
    fn pts_seconds(&self) -> Vec<f64> {
        self.pts_seconds.clone()
    }

    #[getter]
    fn duration_seconds(&self) -> Vec<f64> {
        self.duration_seconds.clone()
    }
}

/// Iterates over all frames of a video, in presentation order.
#[pyclass(module = "framespool._framespool", frozen)]
pub struct FrameIterator {
    /// `None` once the end or an error has been reached.
    stream: Mutex<Option<FrameStream>>,
    /// A frame that was decoded when a signal handler raised an exception; the next call returns
    /// it.
    undelivered: Mutex<Option<DecodedFrame>>,
    owner_pid: u32,
}

#[pymethods]
impl FrameIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Tensor>> {
        check_same_process(py, "iterator over a Video", self.owner_pid)?;
        let next = run_interruptible(py, || {
            if let Some(kept) = self
                .undelivered
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take()
            {
                return Ok(Some(kept));
            }
            let mut held = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(stream) = held.as_mut() else {
                return Ok(None);
            };
            let next = stream.next().transpose();
            // If only the wait was interrupted, the next call continues it.
            if !matches!(next, Ok(Some(_)) | Err(Error::Interrupted)) {
                *held = None;
            }
            next
        });
        let picture = next?;
        // Checks signals before returning the frame: a signal that arrived with it would otherwise
        // raise after the frame was returned, and the frame would be lost.
        if let Err(raised) = py.check_signals().and_then(|()| warn_hdr(py)) {
            *self
                .undelivered
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = picture;
            return Err(raised);
        }
        // The buffer is a clip of one frame; drops its time dimension.
        Ok(picture.map(|(buffer, shape)| {
            Tensor::from_buffer(
                buffer,
                shape.dims()[1..].to_vec(),
                ElementType::from(shape.dtype),
            )
        }))
    }
}

impl Drop for FrameIterator {
    fn drop(&mut self) {
        let stream = self
            .stream
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        // Dropping waits for the decoding thread.
        Python::try_attach(|py| py.detach(|| drop(stream)));
    }
}

impl Video {
    fn check_process(&self, py: Python<'_>) -> PyResult<()> {
        check_same_process(py, "Video", self.owner_pid)
    }

    fn check_audio(&self, py: Python<'_>) -> PyResult<()> {
        self.check_process(py)?;
        let index = self.engine.index();
        if !index.info.params.codec.is_image {
            return Ok(());
        }
        let (site, reason) = (index.site.clone(), "it has images only".into());
        Err(Error::NoAudio { site, reason }).or_raise(py)
    }

    fn new_clip_decoder(&self, pipeline: TransformPipeline) -> framespool::Result<ClipDecoder> {
        let clip_decoder = ClipDecoder::with_gpu(pipeline, self.threads, self.gpu.clone());
        match (self.decoder, &self.gpu) {
            (DecoderBackend::Cpu | DecoderBackend::Nvjpeg, _) | (DecoderBackend::Auto, None) => {
                Ok(clip_decoder)
            }
            (DecoderBackend::Nvdec, None) => {
                clip_decoder.with_nvdec(&Gpu::open(self.decode_device)?)
            }
            (DecoderBackend::Nvdec, Some(gpu)) => clip_decoder.with_nvdec(gpu),
            // A GPU without a usable decoder can still receive frames that the CPU decodes.
            (DecoderBackend::Auto, Some(gpu)) => {
                let plain = ClipDecoder::with_gpu(
                    clip_decoder.pipeline().clone(),
                    self.threads,
                    self.gpu.clone(),
                );
                clip_decoder.with_nvdec(gpu).or(Ok(plain))
            }
        }
    }

    /// The pipeline with the options of this video.
    fn configured(&self, pipeline: TransformPipeline) -> TransformPipeline {
        pipeline
            .ignoring_hdr(self.ignores_hdr)
            .deinterlacing(self.deinterlace)
    }

    fn decode_clip(
        &self,
        py: Python<'_>,
        frames: framespool::Result<Vec<PresentationIndex>>,
        pipeline: TransformPipeline,
        seed: u64,
    ) -> PyResult<Py<Clip>> {
        let frames = &frames.or_raise(py)?[..];
        let pipeline = self.configured(pipeline);
        let made = run_interruptible(py, || {
            let kept = self
                .clip_decoder
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            let kept = kept.filter(|b| *b.pipeline() == pipeline);
            let mut clip_decoder = kept.map_or_else(|| self.new_clip_decoder(pipeline), Ok)?;
            let kept = self
                .reader
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            let mut reader = kept.unwrap_or_else(|| self.engine.reader());
            let mut output = clip_decoder.output();
            let done = clip_decoder.decode_clip(
                &mut reader,
                frames,
                RngKey {
                    seed,
                    epoch: 0,
                    clip: 0,
                    occurrence: 0,
                },
                &mut output,
            );
            if done.is_ok() {
                *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = Some(reader);
            }
            *self
                .clip_decoder
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = Some(clip_decoder);
            done.and_then(|()| output.into_clip())
        });
        let Some((buffer, shape)) = made? else {
            return Err(Error::Argument(
                "no frames requested; give at least one frame index".into(),
            ))
            .or_raise(py);
        };
        warn_hdr(py)?;
        let index = self.engine.index();
        let tensor = Tensor::from_buffer(
            buffer,
            shape.dims().to_vec(),
            ElementType::from(shape.dtype),
        );
        Py::new(
            py,
            Clip {
                frames: Py::new(py, tensor)?,
                indices: frames.iter().map(|f| f.0).collect(),
                pts_seconds: frames.iter().map(|&f| index.pts_seconds(f)).collect(),
                duration_seconds: frames.iter().map(|&f| index.duration_seconds(f)).collect(),
            },
        )
    }
}

#[pymethods]
impl Video {
    #[new]
    #[pyo3(signature = (source, name, threads, index, device, decoder, stream=None, ignores_hdr=false, deinterlace="weave", decode_device=0))]
    #[allow(clippy::too_many_arguments)] // one for each argument of the Python function
    fn new(
        py: Python<'_>,
        source: VideoSource,
        name: &str,
        threads: u32,
        index: IndexCacheArg,
        device: Option<u32>,
        decoder: &str,
        stream: Option<u32>,
        ignores_hdr: bool,
        deinterlace: &str,
        decode_device: u32,
    ) -> PyResult<Self> {
        let decoder = parse_decoder(decoder).or_raise(py)?;
        let deinterlace = parse_deinterlace(deinterlace).or_raise(py)?;
        let source = match source {
            VideoSource::Stored(source) => Ok(source),
            VideoSource::Object(object) => Err(or_raise_pending(py, FileObject::open(py, object))?),
        };
        let mut cache = IndexCacheHandle::default();
        let mut stored_path = None;
        let opened = run_interruptible(py, || {
            let gpu = device.map(Gpu::open).transpose()?;
            let source = match source {
                Ok(source) => source,
                Err(object) => {
                    return Ok((Engine::open_stream(Arc::new(object), stream)?, gpu));
                }
            };
            let engine = match source {
                Source::Path(path) => {
                    cache = IndexCacheHandle::open(&index);
                    let source = source::open(&path)?;
                    let (index, _) = index_of(cache.store.as_deref(), &path, &source, stream)?;
                    stored_path = Some(path);
                    Engine::with_index(source, index)
                }
                Source::ImageSequence(frames) => {
                    let frames = ImageSequence::from(frames);
                    let source = Arc::new(ImageSequenceSource::open(&frames)?);
                    let index =
                        image::index_image_sequence(&source, frames.fps, &Limits::default())?;
                    index.check_stream(stream)?;
                    Engine::with_index(source, Arc::new(index))
                }
                Source::Member(member) => {
                    let member = SourceCache::default().member(member);
                    Engine::open_stream(Arc::new(member.open()?), stream)?
                }
                Source::Cell(cell) => {
                    Engine::open_stream(SourceCache::default().cell(cell).open()?, stream)?
                }
                Source::Bytes(bytes) => {
                    Engine::open_stream(Arc::new(MemorySource::new(name, bytes)), stream)?
                }
            };
            Ok((engine, gpu))
        });
        let (engine, gpu) = opened?;
        cache.log_error(py)?;
        let (clip_decoder, reader) = (Mutex::new(None), Mutex::new(None));
        Ok(Self {
            audio: FileAudio::new(engine.source().clone(), stored_path, cache),
            engine,
            threads,
            gpu,
            decoder,
            ignores_hdr,
            deinterlace,
            decode_device,
            clip_decoder,
            reader,
            owner_pid: std::process::id(),
        })
    }

    /// Returns the samples of a time span, (C, S) float32, their rate, and the time of the first.
    fn audio(
        &self,
        py: Python<'_>,
        start: Option<f64>,
        seconds: Option<f64>,
        sample_rate: Option<u32>,
        channels: Option<u32>,
        stream: Option<u32>,
    ) -> PyResult<(Tensor, u32, f64)> {
        self.check_audio(py)?;
        let format = AudioFormat {
            sample_rate,
            channels,
        };
        self.audio.read(py, (start, seconds), format, stream)
    }

    /// Returns stream, codec, sample rate, channels, begin and end in seconds of the audio.
    fn audio_info(
        &self,
        py: Python<'_>,
        stream: Option<u32>,
    ) -> PyResult<(u32, String, u32, u32, f64, f64)> {
        self.check_audio(py)?;
        self.audio.info(py, stream)
    }

    fn __len__(&self) -> usize {
        self.engine.index().frames.len()
    }

    /// Returns the properties of the video by name.
    fn info(&self, py: Python<'_>) -> PyResult<HashMap<&'static str, Py<PyAny>>> {
        let index = self.engine.index();
        let info = &index.info;
        let (width, height) = info.shown_size();
        let display_size = info.display().display_size((width, height));
        let keyframes: Vec<u32> = index.key_frames().into_iter().map(|f| f.0).collect();
        let mut values: HashMap<&'static str, Py<PyAny>> = HashMap::new();
        let mut put = |name, value: Bound<'_, PyAny>| values.insert(name, value.unbind());
        put(
            "path",
            index.site.file.to_string().into_pyobject(py)?.into_any(),
        );
        put(
            "container",
            index.container.clone().into_pyobject(py)?.into_any(),
        );
        put(
            "codec",
            info.params.codec.name.clone().into_pyobject(py)?.into_any(),
        );
        put(
            "num_frames",
            index.num_frames().into_pyobject(py)?.into_any(),
        );
        put("width", width.into_pyobject(py)?.into_any());
        put("height", height.into_pyobject(py)?.into_any());
        put(
            "average_fps",
            index.average_fps().into_pyobject(py)?.into_any(),
        );
        put(
            "begin_seconds",
            index.begin_seconds().into_pyobject(py)?.into_any(),
        );
        put(
            "end_seconds",
            index.end_seconds().into_pyobject(py)?.into_any(),
        );
        put(
            "rotation",
            info.orientation.degrees_cw().into_pyobject(py)?.into_any(),
        );
        put(
            "mirrored",
            pyo3::types::PyBool::new(py, info.orientation.mirror)
                .to_owned()
                .into_any(),
        );
        put(
            "time_base",
            (info.time_base.num(), info.time_base.den())
                .into_pyobject(py)?
                .into_any(),
        );
        put(
            "sample_aspect",
            info.sample_aspect.into_pyobject(py)?.into_any(),
        );
        put(
            "display_width",
            display_size.0.into_pyobject(py)?.into_any(),
        );
        put(
            "display_height",
            display_size.1.into_pyobject(py)?.into_any(),
        );
        put("keyframes", keyframes.into_pyobject(py)?.into_any());
        put(
            "damaged_units",
            index.damaged_units.into_pyobject(py)?.into_any(),
        );
        put("stream", info.stream.into_pyobject(py)?.into_any());
        let listed = index.streams.iter().map(|stream| {
            let size = (stream.width, stream.height);
            (
                stream.kind.name(),
                stream.codec.clone(),
                size,
                stream.num_frames,
                stream.is_default,
            )
        });
        put(
            "streams",
            listed.collect::<Vec<_>>().into_pyobject(py)?.into_any(),
        );
        put(
            "num_packets",
            index.packets.len().into_pyobject(py)?.into_any(),
        );
        put(
            "direct",
            pyo3::types::PyBool::new(py, index.direct)
                .to_owned()
                .into_any(),
        );
        Ok(values)
    }

    /// Returns primaries, transfer function and matrix as numbered by ITU-T H.273, and whether the
    /// range is full if the video states it. Decodes the first frame.
    fn color(&self, py: Python<'_>) -> PyResult<(u8, u8, u8, Option<bool>)> {
        self.check_process(py)?;
        let tags = run_interruptible(py, || self.engine.color())?;
        Ok((tags.primaries, tags.transfer, tags.matrix, tags.full_range))
    }

    /// Returns the same by FFmpeg's names, `None` where the video states nothing, and "PQ" or "HLG"
    /// for these transfer functions.
    #[expect(clippy::type_complexity, reason = "four names")]
    fn color_names(
        &self,
        py: Python<'_>,
    ) -> PyResult<(
        Option<String>,
        Option<String>,
        Option<String>,
        Option<&'static str>,
        Option<&'static str>,
    )> {
        self.check_process(py)?;
        let tags = run_interruptible(py, || self.engine.color())?;
        let range = tags
            .full_range
            .map(|full| if full { "full" } else { "limited" });
        Ok((
            tags.primaries_name(),
            tags.transfer_name(),
            tags.matrix_name(),
            range,
            tags.hdr_name(),
        ))
    }

    /// Returns the properties in the container's headers by name; libavformat opens the source
    /// again.
    fn header(&self, py: Python<'_>) -> PyResult<HashMap<&'static str, Py<PyAny>>> {
        self.check_process(py)?;
        let header = run_interruptible(py, || self.engine.header())?;
        let mut values: HashMap<&'static str, Py<PyAny>> = HashMap::new();
        let mut put = |name, value: Bound<'_, PyAny>| values.insert(name, value.unbind());
        put(
            "duration_seconds",
            header.duration_seconds.into_pyobject(py)?.into_any(),
        );
        put(
            "start_seconds",
            header.start_seconds.into_pyobject(py)?.into_any(),
        );
        put("bit_rate", header.bit_rate.into_pyobject(py)?.into_any());
        put(
            "num_frames",
            header.num_frames.into_pyobject(py)?.into_any(),
        );
        put(
            "frame_rate",
            header.frame_rate.into_pyobject(py)?.into_any(),
        );
        put(
            "sample_aspect",
            header.sample_aspect.into_pyobject(py)?.into_any(),
        );
        put(
            "pixel_format",
            header.pixel_format.into_pyobject(py)?.into_any(),
        );
        put(
            "field_order",
            header.field_order.into_pyobject(py)?.into_any(),
        );
        put("bit_depth", header.bit_depth.into_pyobject(py)?.into_any());
        put(
            "color_primaries",
            header.color_primaries.into_pyobject(py)?.into_any(),
        );
        put(
            "color_transfer",
            header.color_transfer.into_pyobject(py)?.into_any(),
        );
        put(
            "color_space",
            header.color_space.into_pyobject(py)?.into_any(),
        );
        Ok(values)
    }

    /// Returns why frames of this video were decoded on the CPU instead of the GPU, if any were so
    /// far.
    fn cpu_fallback(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.check_process(py)?;
        let clip_decoder = self
            .clip_decoder
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let reason = clip_decoder
            .as_ref()
            .and_then(|decoder| decoder.cpu_fallback.as_ref());
        Ok(reason.map(ToString::to_string))
    }

    /// Returns properties found by scanning the packets, by name, and the cost of decoding such a
    /// clip.
    fn analyze_access(
        &self,
        py: Python<'_>,
        frames: u32,
        stride: u32,
    ) -> PyResult<HashMap<&'static str, Py<PyAny>>> {
        self.check_process(py)?;
        let probe = run_interruptible(py, || self.engine.access_cost(frames, stride))?;
        let mut values: HashMap<&'static str, Py<PyAny>> = HashMap::new();
        let mut put = |name, value: Bound<'_, PyAny>| values.insert(name, value.unbind());
        put("skippable", probe.disposable.into_pyobject(py)?.into_any());
        put("reordered", probe.reordered.into_pyobject(py)?.into_any());
        put("gop_packets", probe.gop_sizes.into_pyobject(py)?.into_any());
        put(
            "packet_bytes",
            probe.packet_bytes.into_pyobject(py)?.into_any(),
        );
        put(
            "nvdec",
            probe.nvdec.clone().ok().into_pyobject(py)?.into_any(),
        );
        put(
            "nvdec_reason",
            probe.nvdec.err().into_pyobject(py)?.into_any(),
        );
        put("clip", probe.clip.into_pyobject(py)?.into_any());
        Ok(values)
    }

    /// Returns NVDEC's name of the codec, or why the CPU decodes the video.
    fn nvdec(&self) -> (Option<String>, Option<String>) {
        match self.engine.nvdec() {
            Ok(codec) => (Some(codec), None),
            Err(reason) => (None, Some(reason)),
        }
    }

    /// Returns the presentation time of every frame, in seconds.
    fn all_pts_seconds(&self) -> Vec<f64> {
        let index = self.engine.index();
        (0..index.num_frames())
            .map(|i| index.pts_seconds(PresentationIndex(i)))
            .collect()
    }

    /// Returns an iterator over all frames; `layout` is that of a batch of clips, of which a frame
    /// has the last three dimensions.
    fn iterate(&self, py: Python<'_>, layout: &str) -> PyResult<FrameIterator> {
        self.check_process(py)?;
        let pipeline = self.configured(pipeline(py, Steps::default(), "uint8", layout)?);
        let start = || FrameStream::start(&self.engine, self.new_clip_decoder(pipeline)?);
        let stream = py.detach(start).or_raise(py)?;
        let (stream, undelivered) = (Mutex::new(Some(stream)), Mutex::new(None));
        Ok(FrameIterator {
            stream,
            undelivered,
            owner_pid: self.owner_pid,
        })
    }

    fn frames(
        &self,
        py: Python<'_>,
        indices: Vec<i64>,
        steps: Steps,
        dtype: &str,
        layout: &str,
        seed: u64,
    ) -> PyResult<Py<Clip>> {
        self.check_process(py)?;
        let index = self.engine.index();
        let frames = indices.iter().map(|&i| index.resolve(i)).collect();
        self.decode_clip(py, frames, pipeline(py, steps, dtype, layout)?, seed)
    }

    fn frames_at(
        &self,
        py: Python<'_>,
        seconds: Vec<f64>,
        steps: Steps,
        dtype: &str,
        layout: &str,
        seed: u64,
    ) -> PyResult<Py<Clip>> {
        self.check_process(py)?;
        let index = self.engine.index();
        let frames = seconds.iter().map(|&s| index.frame_at(s)).collect();
        self.decode_clip(py, frames, pipeline(py, steps, dtype, layout)?, seed)
    }
}
