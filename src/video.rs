//! Decodes frames of one video by number, transforms them and writes them in the requested order.
//! Each group of pictures is decoded in one pass. No frames are cached.

mod access_cost;
mod clip_output;
mod color;
mod decoder;
mod image_batch;
mod range_decoder;
mod stream;
mod stream_header;

use std::collections::HashMap;
use std::sync::Arc;

use framespool_nvdec::caps;

use crate::batch::MemoryPool;
use crate::decode::PacketReader;
use crate::decode::plan::{self, DecodeRange};
use crate::decode::{DecodeStats, DecodeTimes, ImageReader, SoftwareDecoder};
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::index::{VideoIndex, build_stream};
use crate::limits::Limits;
use crate::rng::RngKey;
use crate::source::{ByteSource, Identity};
use crate::transforms::{DeviceReport, InputFrame, TransformExecutor, TransformPipeline};
use crate::units::{DecodeIndex, PresentationIndex};

pub use access_cost::AccessCost;
pub(crate) use clip_output::write_frame;
pub use clip_output::{ClipOutput, LazyClipOutput};
pub use decoder::{AnyDecoder, NvdecDecoder};
pub use image_batch::decode_image_batch;
pub(crate) use range_decoder::{DecoderProvider, RangeDecoder, RangeStep};
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

    /// Its bytes.
    pub fn source(&self) -> &Arc<dyn ByteSource> {
        &self.source
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

/// Blocks of device memory that a worker keeps: a new allocation makes the whole device wait.
const MAX_POOLED_BLOCKS: usize = 4;

/// Makes one clip after another; reuses its decoders and its transform executor.
pub struct ClipDecoder {
    decoders: OwnDecoders,
    executor: TransformExecutor,
    /// Memory for the clips.
    pool: Arc<MemoryPool>,
    /// Bytes that finished clips have read from their sources.
    pub bytes_read: u64,
    /// The reason for the most recent fallback to the CPU.
    pub cpu_fallback: Option<Error>,
}

/// The decoders of a clip decoder that are not in use.
#[derive(Default)]
struct OwnDecoders {
    software: Option<SoftwareDecoder>,
    images: Option<Box<ImageReader>>,
    nvdec: Option<Box<NvdecDecoder>>,
    /// Whether there is a decoder of the GPU, also while it is in use.
    prefers_gpu: bool,
    /// Threads of the decoder on the CPU.
    threads: u32,
    by_cpu: (DecodeStats, DecodeTimes),
    by_nvdec: (DecodeStats, DecodeTimes),
    /// The reason for the last fallback to the CPU.
    fallback: Option<Error>,
}

impl DecoderProvider for OwnDecoders {
    fn prefers_gpu(&self) -> bool {
        self.prefers_gpu
    }

    fn acquire(&mut self, index: &Arc<VideoIndex>, on_gpu: bool) -> AnyDecoder {
        if index.info.params.codec.is_image {
            return AnyDecoder::Image(self.images.take().unwrap_or_default());
        }
        if let Some(met_by_another) = index.cpu_only.get().filter(|_| self.prefers_gpu) {
            self.fallback.get_or_insert_with(|| met_by_another.clone());
        }
        match self.nvdec.take_if(|_| on_gpu) {
            Some(decoder) => AnyDecoder::Hardware(decoder),
            None => AnyDecoder::Software(
                self.software
                    .take()
                    .unwrap_or_else(|| SoftwareDecoder::with_threads(self.threads)),
            ),
        }
    }

    fn release(&mut self, mut decoder: AnyDecoder, _is_fallback: bool) {
        decoder.stop();
        let (stats, times) = decoder.take_stats();
        let work = match decoder {
            AnyDecoder::Hardware(_) => &mut self.by_nvdec,
            _ => &mut self.by_cpu,
        };
        work.0 += stats;
        work.1 += times;
        match decoder {
            AnyDecoder::Software(decoder) => self.software = Some(decoder),
            AnyDecoder::Image(reader) => self.images = Some(reader),
            AnyDecoder::Hardware(decoder) => self.nvdec = Some(decoder),
        }
    }

    fn keeps_gpu_decoder(&self, _: &VideoIndex) -> bool {
        true
    }

    fn record_fallback(&mut self, _: &VideoIndex, error: &Error, _: bool) {
        self.fallback = Some(error.clone());
    }
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
            decoders: OwnDecoders {
                threads,
                ..OwnDecoders::default()
            },
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
    pub fn with_nvdec(mut self, gpu: &Arc<Gpu>) -> Result<Self> {
        caps::engines(gpu.device())?;
        self.decoders.nvdec = Some(Box::new(NvdecDecoder::new(gpu)?));
        self.decoders.prefers_gpu = true;
        Ok(self)
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
        std::mem::take(&mut self.decoders.by_cpu)
    }

    /// Returns the work of the GPU decoder since the last call.
    pub fn take_nvdec_stats(&mut self) -> (DecodeStats, DecodeTimes) {
        std::mem::take(&mut self.decoders.by_nvdec)
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
        let mut shape = None;
        for range in plan::plan_decode_ranges(&index, frames) {
            self.run(reader, range, &mut |executor, packet, picture| {
                let times = positions.get(&packet).map_or(&[][..], Vec::as_slice);
                times.iter().try_for_each(|&t| {
                    let source = (&*index, frames[t]);
                    let place = (t, frames.len());
                    write_frame(executor, picture, source, place, &mut shape, output)
                })
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
            decoders,
            executor,
            cpu_fallback,
            ..
        } = self;
        executor.pipeline().prepare(reader)?;
        let mut decoder = RangeDecoder::default();
        let done = decoder.run(reader, range, decoders, &mut |packet, mut picture| {
            on_frame(executor, packet, &mut picture)
        });
        decoder.release(decoders);
        *cpu_fallback = decoders.fallback.take().or(cpu_fallback.take());
        done
    }
}
