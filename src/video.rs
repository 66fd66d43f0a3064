//! Decodes frames of one video by number, transforms them and writes them in the requested order.
//! Each group of pictures is decoded in one pass. No frames are cached.

mod access_cost;
mod color;
mod decoder;
mod image_batch;
mod stream;
mod stream_header;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::batch::{BatchBuffer, BufferBuilder, ClipSlot, MemoryPool, OutputMut};
use crate::decode::PacketReader;
use crate::decode::plan::{self, DecodeRange};
use crate::decode::{DecodeStats, DecodeTimes, EncodedImage, ImageReader, SoftwareDecoder, Step};
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::index::{VideoIndex, build_stream};
use crate::limits::Limits;
use crate::rng::RngKey;
use crate::source::{ByteSource, Identity};
use crate::transforms::{
    ClipShape, DeviceReport, InputFrame, TransformExecutor, TransformPipeline,
};
use crate::units::{DecodeIndex, PresentationIndex};

pub use access_cost::AccessCost;
pub use decoder::{AnyDecoder, NvdecDecoder};
pub use image_batch::decode_image_batch;
pub use stream::{DecodedFrame, FrameStream};

/// An opened video: its bytes and its index.
#[derive(Clone)]
pub struct Video {
    source: Arc<dyn ByteSource>,
    index: Arc<VideoIndex>,
}

impl Video {
    /// Indexes the best video stream of a source, until the caller of this thread interrupts it
    /// (see [`interrupt_scope`](crate::source::interrupt_scope)).
    pub fn open(source: Arc<dyn ByteSource>) -> Result<Self> {
        Self::open_stream(source, None)
    }

    /// Like [`open`](Self::open), for the stream with index `stream` if that is given.
    pub fn open_stream(source: Arc<dyn ByteSource>, stream: Option<u32>) -> Result<Self> {
        let index = Arc::new(build_stream(&source, stream, &Limits::default())?);
        Ok(Self { source, index })
    }

    /// Creates a video with an index that was built earlier from the same source.
    pub fn with_index(source: Arc<dyn ByteSource>, index: Arc<VideoIndex>) -> Self {
        Self { source, index }
    }

    /// Its index.
    pub fn index(&self) -> &Arc<VideoIndex> {
        &self.index
    }

    /// The identity of its file.
    pub fn identity(&self) -> Identity {
        self.source.identity()
    }

    /// Creates a packet reader for this video.
    pub fn reader(&self) -> PacketReader {
        PacketReader::new(self.source.clone(), self.index.clone())
    }
}

/// Destination of the bytes of a clip.
pub trait ClipOutput {
    /// Returns the clip slot for this shape. Called once per frame, always with the same shape.
    fn target(&mut self, shape: &ClipShape) -> Result<OutputMut<'_>>;
    /// The shape, once it is known.
    fn shape(&self) -> Option<ClipShape>;
}

/// A clip buffer that is allocated when the first frame determines its size.
pub struct LazyClipOutput {
    pool: Arc<MemoryPool>,
    made: Option<(BufferBuilder, ClipSlot, ClipShape)>,
}

impl Default for LazyClipOutput {
    fn default() -> Self {
        Self::from_pool(MemoryPool::new(0))
    }
}

impl LazyClipOutput {
    /// Allocates from this pool.
    pub fn from_pool(pool: Arc<MemoryPool>) -> Self {
        Self { pool, made: None }
    }

    /// Returns the clip, if any frame was written.
    ///
    /// # Errors
    /// `Gpu` if the device has failed meanwhile.
    pub fn into_clip(self) -> Result<Option<(BatchBuffer, ClipShape)>> {
        let Some((builder, mut part, shape)) = self.made else {
            return Ok(None);
        };
        part.record_write()?;
        drop(part);
        Ok(Some((
            builder.freeze().ok().expect("its clip slot was dropped"),
            shape,
        )))
    }
}

impl ClipOutput for LazyClipOutput {
    fn target(&mut self, shape: &ClipShape) -> Result<OutputMut<'_>> {
        if self.made.is_none() {
            let too_large = || {
                Error::Argument(format!(
                    "a clip of {shape} does not fit into memory; request fewer frames or smaller ones"
                ))
            };
            let bytes = shape.bytes().ok_or_else(too_large)?;
            let builder =
                BatchBuffer::allocate(&self.pool, 1, bytes).map_err(|error| match error {
                    Error::Argument(_) => too_large(),
                    other => other,
                });
            let (builder, mut parts) = builder?;
            let part = parts.pop().expect("one clip has one clip slot");
            self.made = Some((builder, part, *shape));
        }
        let (_, part, _) = self.made.as_mut().expect("just made");
        Ok(part.target())
    }

    fn shape(&self) -> Option<ClipShape> {
        self.made.as_ref().map(|(.., shape)| *shape)
    }
}

/// Blocks of device memory that a worker keeps: a new allocation makes the whole device wait.
const MAX_POOLED_BLOCKS: usize = 4;

/// The state with which one worker makes clips: decoders and a transform executor, all reused.
pub struct ClipDecoder {
    /// The decoder on the CPU.
    decoder: SoftwareDecoder,
    /// Reads image files.
    image_reader: ImageReader,
    /// The GPU decoder, which is tried first.
    hardware: Option<AnyDecoder>,
    executor: TransformExecutor,
    /// Memory for the clips.
    pool: Arc<MemoryPool>,
    /// Bytes that finished clips have read from their sources.
    pub bytes_read: u64,
    /// The reason for the most recent fallback to the CPU.
    pub cpu_fallback: Option<Error>,
}

impl ClipDecoder {
    /// Creates a clip decoder for a transform pipeline.
    pub fn new(pipeline: TransformPipeline) -> Self {
        Self::with_threads(pipeline, 1)
    }

    /// Creates a clip decoder for a transform pipeline, with several threads for each clip.
    pub fn with_threads(pipeline: TransformPipeline, threads: u32) -> Self {
        Self::with_gpu(pipeline, threads, None)
    }

    /// Creates a clip decoder that decodes on the CPU. Its results go to the memory of `gpu` where
    /// the output is there.
    pub fn with_gpu(pipeline: TransformPipeline, threads: u32, gpu: Option<Arc<Gpu>>) -> Self {
        Self {
            decoder: SoftwareDecoder::with_threads(threads),
            image_reader: ImageReader::default(),
            hardware: None,
            pool: MemoryPool::on(
                gpu.as_ref().map(|gpu| gpu.device().clone()),
                if gpu.is_some() { MAX_POOLED_BLOCKS } else { 0 },
            ),
            executor: TransformExecutor::on(pipeline, gpu),
            bytes_read: 0,
            cpu_fallback: None,
        }
    }

    /// Decodes on the GPU where that is possible.
    ///
    /// # Errors
    /// `Gpu` if the device lacks what decoding requires.
    pub fn with_nvdec(self, gpu: &Arc<Gpu>) -> Result<Self> {
        let worker = NvdecDecoder::new(gpu)?;
        Ok(Self {
            hardware: Some(AnyDecoder::Hardware(Box::new(worker))),
            ..self
        })
    }

    /// Decodes JPEG files with nvJPEG.
    pub fn by_nvjpeg(self) -> Self {
        Self {
            executor: self.executor.by_nvjpeg(),
            ..self
        }
    }

    /// Returns what happened on the device since the last call.
    pub fn take_report(&mut self) -> DeviceReport {
        self.executor.take_report()
    }

    /// Returns the work of the CPU decoders since the last call.
    pub fn take_stats(&mut self) -> (DecodeStats, DecodeTimes) {
        let mut stats = std::mem::take(&mut self.decoder.stats);
        let mut times = std::mem::take(&mut self.decoder.times);
        stats += std::mem::take(&mut self.image_reader.stats);
        times += std::mem::take(&mut self.image_reader.times);
        (stats, times)
    }

    /// Returns the work of the GPU decoder since the last call.
    pub fn take_nvdec_stats(&mut self) -> (DecodeStats, DecodeTimes) {
        self.hardware
            .as_mut()
            .map(AnyDecoder::take_stats)
            .unwrap_or_default()
    }

    /// Creates an output in the memory where the results go.
    pub fn output(&self) -> LazyClipOutput {
        LazyClipOutput::from_pool(self.pool.clone())
    }

    /// The transform pipeline.
    pub fn pipeline(&self) -> &TransformPipeline {
        self.executor.pipeline()
    }

    /// Decodes `frames` (any order, duplicates allowed), transforms them and writes them as frames
    /// 0, 1, … of a clip. Random parameters are drawn with `key`.
    pub fn decode_clip(
        &mut self,
        reader: &mut PacketReader,
        frames: &[PresentationIndex],
        key: RngKey,
        output: &mut dyn ClipOutput,
    ) -> Result<()> {
        self.pipeline().check_frames(frames.len())?;
        self.executor.begin(key, frames.len());
        let index = reader.index().clone();
        let mut positions: HashMap<DecodeIndex, Vec<usize>> = HashMap::with_capacity(frames.len());
        for (t, frame) in frames.iter().enumerate() {
            positions
                .entry(index.frames[frame.as_usize()].packet)
                .or_default()
                .push(t);
        }
        let before = reader.bytes_read();
        let display = index.info.display();
        let mut shape: Option<ClipShape> = None;
        for range in plan::plan_decode_ranges(&index, frames) {
            self.run(reader, range, &mut |executor, packet, picture| {
                let times = positions.get(&packet).map_or(&[][..], Vec::as_slice);
                let shape = match shape {
                    Some(shape) => shape,
                    None => {
                        let size = executor
                            .size_of_frame(picture, display)
                            .map_err(|e| e.into_clip_error(&index.site))?;
                        *shape.insert(executor.shape(frames.len(), size))
                    }
                };
                for &t in times {
                    executor.apply(
                        &index.site_of(frames[t]),
                        picture,
                        &index,
                        &shape,
                        output.target(&shape)?,
                        t,
                    )?;
                }
                Ok(())
            })?;
        }
        self.bytes_read += reader.bytes_read() - before;
        Ok(())
    }

    /// Decodes one decode range, on the GPU as far as possible.
    fn run(
        &mut self,
        reader: &mut PacketReader,
        range: DecodeRange,
        on_frame: &mut dyn FnMut(
            &mut TransformExecutor,
            DecodeIndex,
            &mut InputFrame<'_>,
        ) -> Result<()>,
    ) -> Result<()> {
        let Self {
            decoder,
            image_reader,
            hardware,
            executor,
            cpu_fallback,
            ..
        } = self;
        executor.pipeline().prepare(reader)?;
        if reader.index().info.params.codec.is_image {
            image_reader.begin(&reader.index().clone(), range);
            let mut taken = |packet, picture: EncodedImage<'_>| {
                on_frame(executor, packet, &mut InputFrame::Image(picture))
            };
            while image_reader.step(reader, &mut taken)? == Step::More {}
            return Ok(());
        }
        let left = match hardware {
            Some(hardware) => {
                let mut taken =
                    |packet, mut picture: InputFrame<'_>| on_frame(executor, packet, &mut picture);
                try_nvdec(hardware, reader, range, &mut taken, cpu_fallback)?
            }
            None => Some(range),
        };
        let Some(range) = left else { return Ok(()) };
        let index = reader.index().clone();
        let mut missing: BTreeSet<DecodeIndex> = range.wanted.iter().copied().collect();
        let done = decoder.run(reader, &range, |packet, frame| {
            missing.remove(&packet);
            on_frame(executor, packet, &mut InputFrame::Cpu(frame))
        });
        if !matches!(done, Err(Error::Decode { .. })) || range.wanted.len() == 1 {
            return done;
        }
        // A frame that does not depend on the damaged picture is delivered when it is requested
        // alone. Decode each missing frame alone, so that a frame is delivered or refused however
        // it is requested.
        let frames = index
            .frames
            .iter()
            .enumerate()
            .filter(|(_, frame)| missing.contains(&frame.packet));
        for (number, _) in frames {
            for range in plan::plan_decode_ranges(&index, &[PresentationIndex(number as u32)]) {
                decoder.run(reader, &range, |packet, frame| {
                    on_frame(executor, packet, &mut InputFrame::Cpu(frame))
                })?;
            }
        }
        Ok(())
    }
}

/// Decodes a range on the GPU. Returns the part of it that falls back to the CPU, if any.
fn try_nvdec(
    hardware: &mut AnyDecoder,
    reader: &mut PacketReader,
    range: DecodeRange,
    on_frame: &mut dyn FnMut(DecodeIndex, InputFrame<'_>) -> Result<()>,
    reason: &mut Option<Error>,
) -> Result<Option<DecodeRange>> {
    let index = reader.index().clone();
    if let Err(error) = hardware.begin(&index, range.clone()) {
        return match error {
            Error::Unsupported { .. } | Error::Gpu { lost: false, .. } => {
                *reason = Some(error);
                Ok(Some(range))
            }
            other => Err(other),
        };
    }
    loop {
        match hardware.step(reader, on_frame) {
            Ok(Step::More) => {}
            Ok(Step::Done) => return Ok(None),
            Err(error) => {
                let left = hardware.remaining_for_cpu(&error);
                hardware.stop();
                let rest = match (left, &error) {
                    (Some(wanted), _) => DecodeRange::remaining(&range, wanted, &index),
                    // Frames that were already written may not be trusted either.
                    (None, Error::Decode { .. } | Error::Internal { .. }) => range,
                    (None, _) => return Err(error),
                };
                *reason = Some(error);
                return Ok(Some(rest));
            }
        }
    }
}
