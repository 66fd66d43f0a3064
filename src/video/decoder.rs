//! A common interface to the decoders of video on the CPU and the GPU and of image files.

use std::sync::Arc;

use crate::codecs;
use crate::decode::PacketReader;
use crate::decode::plan::DecodeRange;
use crate::decode::{
    DecodeStats, DecodeTimes, HardwareDecoder, ImageReader, SoftwareDecoder, Step,
};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::index::VideoIndex;
use crate::media::{CodecParams, ColorTags};
use crate::transforms::{CudaExecutor, InputFrame};
use crate::units::DecodeIndex;

/// A GPU decoder with the CUDA executor that transforms its surfaces.
pub struct NvdecDecoder {
    decoder: HardwareDecoder,
    cuda: CudaExecutor,
    container: ColorTags,
    /// A permit of the owner that counts the open sessions.
    #[expect(dead_code, reason = "held for its Drop")]
    permit: Option<Arc<()>>,
}

impl NvdecDecoder {
    /// # Errors
    /// `Gpu` if the device lacks what decoding requires.
    pub fn new(gpu: &Arc<Gpu>) -> Result<Self> {
        let decoder = HardwareDecoder::new(gpu.device())?;
        let cuda = CudaExecutor::new(gpu.clone(), decoder.stream().clone());
        Ok(Self {
            decoder,
            cuda,
            container: ColorTags::default(),
            permit: None,
        })
    }

    /// Holds this permit until the decoder is dropped.
    pub fn with_permit(self, permit: Arc<()>) -> Self {
        Self {
            permit: Some(permit),
            ..self
        }
    }
}

/// The color description of the container, as far as libavcodec uses it: for HEVC, VP8, VP9 and
/// AV1, only the stream counts, even where it leaves the description unspecified.
fn container(params: &CodecParams) -> ColorTags {
    match codecs::of(&params.codec).uses_container_color() {
        true => params.color,
        false => ColorTags::default(),
    }
}

/// A decoder of any kind.
#[expect(
    clippy::large_enum_variant,
    reason = "few values, moved between threads"
)]
pub enum AnyDecoder {
    /// libavcodec.
    Software(SoftwareDecoder),
    /// NVDEC.
    Hardware(Box<NvdecDecoder>),
    /// For image files.
    Image(Box<ImageReader>),
}

impl AnyDecoder {
    /// Whether it decodes on the GPU.
    pub fn is_hardware(&self) -> bool {
        matches!(self, Self::Hardware(_))
    }

    /// Begins a decode range; a range in progress is abandoned.
    ///
    /// # Errors
    /// `Unsupported` for a stream that it does not decode.
    pub fn begin(&mut self, index: &Arc<VideoIndex>, range: DecodeRange) -> Result<()> {
        match self {
            Self::Software(decoder) => decoder.begin(index, range),
            Self::Image(reader) => {
                reader.begin(index, range);
                Ok(())
            }
            Self::Hardware(worker) => {
                worker.container = container(&index.info.params);
                worker.decoder.begin(index, range)
            }
        }
    }

    /// Processes one packet of the decode range.
    ///
    /// # Errors
    /// Any error from reading, decoding or `on_frame`.
    pub fn step(
        &mut self,
        reader: &mut PacketReader,
        on_frame: &mut dyn FnMut(DecodeIndex, InputFrame<'_>) -> Result<()>,
    ) -> Result<Step> {
        match self {
            Self::Software(decoder) => decoder.step(reader, &mut |at, frame| {
                on_frame(at, InputFrame::Cpu(frame))
            }),
            Self::Image(images) => images.step(reader, &mut |at, picture| {
                on_frame(at, InputFrame::Image(picture))
            }),
            Self::Hardware(worker) => {
                let NvdecDecoder {
                    decoder,
                    cuda,
                    container,
                    ..
                } = &mut **worker;
                decoder.step(reader, &mut |at, surface| {
                    on_frame(
                        at,
                        InputFrame::Nvdec {
                            surface,
                            container: *container,
                            cuda,
                        },
                    )
                })
            }
        }
    }

    /// With the GPU's decoder: the packets whose frames have not been delivered, of the decode range
    /// in progress or of the one that failed last. `None` with any other decoder.
    pub fn missing_on_gpu(&self) -> Option<Vec<DecodeIndex>> {
        match self {
            Self::Hardware(worker) => Some(worker.decoder.missing()),
            _ => None,
        }
    }

    /// Whether only the end of a decode range shows that no frame was mistaken for another: a GPU
    /// decoder identifies the pictures of VP8, VP9 and AV1 by counting them, and may notice late
    /// that one is missing.
    pub fn verifies_at_end(&self) -> bool {
        matches!(self, Self::Hardware(worker) if worker.decoder.identifies_by_count())
    }

    /// Abandons the decode range in progress, if any.
    pub fn stop(&mut self) {
        match self {
            Self::Software(decoder) => decoder.stop(),
            Self::Image(reader) => reader.stop(),
            Self::Hardware(worker) => worker.decoder.stop(),
        }
    }

    /// Returns the work done since the last call.
    pub fn take_stats(&mut self) -> (DecodeStats, DecodeTimes) {
        let (stats, times) = match self {
            Self::Software(decoder) => (&mut decoder.stats, &mut decoder.times),
            Self::Image(reader) => (&mut reader.stats, &mut reader.times),
            Self::Hardware(worker) => (&mut worker.decoder.stats, &mut worker.decoder.times),
        };
        (std::mem::take(stats), std::mem::take(times))
    }
}
