//! In: JPEG files whose pixels go to a device.
//! Out: their planes there, decoded by nvJPEG, and the easel in whose stream they are good.
//! Never: fails because of a file or a missing library: it says why the CPU is to do it.

use std::sync::Arc;

use framespool_kernels::{Colour, DeviceFrame, DevicePlane, DevicePlanes, Matrix, Range};
use framespool_nvdec::jpeg::JpegDecoder;
use framespool_nvdec::Error;

use super::easel::Easel;
use super::view::Assumed;
use crate::decode::StillPicture;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::still::Format;

/// What nvJPEG did for a painter since it was asked last.
#[derive(Debug, Default)]
pub struct JpegReport {
    /// Pictures that it decoded.
    pub decoded: u64,
    /// Why it left others to the CPU, one reason for each.
    pub left_to_cpu: Vec<String>,
}

/// A painter's nvJPEG.
#[derive(Default)]
pub(super) enum Nvjpeg {
    /// The CPU decodes.
    #[default]
    Off,
    /// It is used from the first picture on.
    Wanted,
    /// In use.
    Ready(Box<JpegLane>),
}

/// A decoder with the easel that paints in its stream.
pub(super) struct JpegLane {
    decoder: JpegDecoder,
    pub easel: Easel,
}

impl Nvjpeg {
    /// Takes the decoder for one picture, made where there is none yet; it comes back by `self = Ready(lane)`.
    ///
    /// # Errors
    /// `Gpu` where it cannot be made: the CPU's samples are others, and a worker's are to be those of its neighbours.
    pub fn take(&mut self, gpu: &Arc<Gpu>) -> Result<Option<Box<JpegLane>>> {
        if matches!(self, Self::Wanted) {
            let decoder = JpegDecoder::new(gpu.device())?;
            let easel = Easel::new(gpu.clone(), decoder.stream().clone());
            *self = Self::Ready(Box::new(JpegLane { decoder, easel }));
        }
        Ok(match std::mem::take(self) {
            Self::Ready(lane) => Some(lane),
            Self::Off | Self::Wanted => None,
        })
    }
}

impl JpegLane {
    /// Begins to decode a picture. What is enqueued in the easel's stream before the next call sees it whole. The inner error says why
    /// the CPU is to decode it.
    ///
    /// # Errors
    /// `Gpu` where the device is lost, `Forked`.
    pub fn decode(
        &mut self,
        still: &StillPicture<'_>,
        assumed: Assumed,
    ) -> Result<Result<DeviceFrame, String>> {
        if still.header().format != Format::Jpeg {
            return Ok(Err("PNG: the GPU has no decoder for it".into()));
        }
        let planes = match self.decoder.decode(still.bytes()) {
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
            Some((log2_chroma_w, log2_chroma_h)) => {
                DevicePlanes::Yuv { planes: [plane(0), plane(1), plane(2)], log2_chroma_w, log2_chroma_h }
            }
        };
        let colour = Colour {
            matrix: assumed.matrix.unwrap_or(Matrix::Bt601),
            range: assumed.range.unwrap_or(Range::Full),
        };
        let (width, height) = (planes.width, planes.height);
        if (width, height) != still.size() {
            return Ok(Err(format!("nvJPEG found {width}x{height} pixels, the header {:?}", still.size())));
        }
        Ok(Ok(DeviceFrame { width, height, depth_bits: 8, shift: 0, planes: layout, colour }))
    }
}
