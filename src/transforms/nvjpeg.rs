//! Decodes JPEG files on the device with nvJPEG, and holds the CUDA executor in whose stream the
//! planes are valid. A file that nvJPEG cannot decode is not an error: the reason for the fallback
//! to the CPU is returned.

use std::sync::Arc;

use framespool_kernels::{
    ColorRange, Colorimetry, DeviceFrame, DevicePlane, DevicePlanes, MatrixCoefficients,
};
use framespool_nvdec::Error;
use framespool_nvdec::jpeg::JpegDecoder;

use super::cuda_executor::CudaExecutor;
use crate::decode::EncodedImage;
use crate::error::Result;
use crate::ffmpeg::frame_view::ColorOverride;
use crate::gpu::Gpu;
use crate::image::ImageFormat;

/// What an executor did with a device since the last report, in addition to the passes.
#[derive(Debug, Default)]
pub struct DeviceReport {
    /// Images that nvJPEG decoded.
    pub decoded: u64,
    /// Reasons for a fallback to the CPU, one per image.
    pub cpu_fallbacks: Vec<String>,
    /// Why frames are copied from pageable memory, or as elements, from now on.
    pub upload_fallbacks: Vec<String>,
}

/// The nvJPEG state of an executor.
#[derive(Default)]
pub(super) enum Nvjpeg {
    /// The CPU decodes.
    #[default]
    Off,
    /// Enabled; the decoder is created for the first image.
    Wanted,
    /// In use.
    Ready(Box<NvjpegWorker>),
}

/// An nvJPEG decoder with the CUDA executor that transforms its output in its stream.
pub(super) struct NvjpegWorker {
    decoder: JpegDecoder,
    pub cuda: CudaExecutor,
}

impl Nvjpeg {
    /// Takes the decoder for one image, created if there is none yet; the caller returns it by
    /// `self = Ready(worker)`.
    ///
    /// # Errors
    /// `Gpu` if it cannot be created: the CPU's samples differ, and all workers must produce the
    /// same ones.
    pub(super) fn take(&mut self, gpu: &Arc<Gpu>) -> Result<Option<Box<NvjpegWorker>>> {
        if matches!(self, Self::Wanted) {
            let decoder = JpegDecoder::new(gpu.device())?;
            let cuda = CudaExecutor::new(gpu.clone(), decoder.stream().clone());
            *self = Self::Ready(Box::new(NvjpegWorker { decoder, cuda }));
        }
        Ok(match std::mem::take(self) {
            Self::Ready(worker) => Some(worker),
            Self::Off | Self::Wanted => None,
        })
    }
}

impl NvjpegWorker {
    /// Starts decoding an image. Work that is enqueued in the CUDA executor's stream before the
    /// next call reads the complete image. The inner error is the reason for a fallback to the CPU.
    ///
    /// # Errors
    /// `Gpu` if the device is lost; `Forked` in a forked process.
    pub(super) fn decode(
        &mut self,
        image: &EncodedImage<'_>,
        assumed: ColorOverride,
    ) -> Result<Result<DeviceFrame, String>> {
        let format = image.header().format;
        if format != ImageFormat::Jpeg {
            return Ok(Err(format!(
                "{}, which nvJPEG does not decode",
                format.name()
            )));
        }
        let planes = match self.decoder.decode(image.bytes()) {
            Ok(planes) => planes,
            Err(error) if error.is_lost() => return Err(error.into()),
            Err(Error::Unsupported { reason }) => return Ok(Err(reason)),
            Err(error) => return Ok(Err(error.to_string())),
        };
        let plane = |n: usize| DevicePlane {
            address: planes.planes[n].address,
            stride_bytes: planes.planes[n].pitch_bytes,
        };
        let layout = match planes.log2_chroma {
            None => DevicePlanes::Gray(plane(0)),
            Some((log2_chroma_w, log2_chroma_h)) => DevicePlanes::Yuv {
                planes: [plane(0), plane(1), plane(2)],
                log2_chroma_w,
                log2_chroma_h,
            },
        };
        let color = Colorimetry {
            matrix: assumed.matrix.unwrap_or(MatrixCoefficients::Bt601),
            range: assumed.range.unwrap_or(ColorRange::Full),
        };
        let (width, height) = (planes.width, planes.height);
        if (width, height) != image.size() {
            return Ok(Err(format!(
                "nvJPEG reports {width}x{height} pixels, the header {:?}",
                image.size()
            )));
        }
        Ok(Ok(DeviceFrame {
            width,
            height,
            depth_bits: 8,
            shift: 0,
            planes: layout,
            color,
        }))
    }
}
