//! Wraps a decoder of the driver, which is destroyed when dropped.
//! It never scales, crops or deinterlaces: pictures are output as they were coded.
#![allow(unsafe_code)]

use std::sync::Arc;

use super::shape::{Shape, OUTPUT_SURFACES};
use super::shelf::Make;
use crate::api::{Cuvid, RawDecoder};
use crate::cuda::{Device, Event, Stream};
use crate::sys;
use crate::{Error, Result};

/// Creates decoders for a device.
pub(crate) struct Maker {
    cuvid: &'static Cuvid,
    device: Arc<Device>,
}

/// A decoder of the driver. It may be used from any thread, but by one thread at a time.
pub(crate) struct Decoder {
    cuvid: &'static Cuvid,
    device: Arc<Device>,
    raw: RawDecoder,
    /// Recorded after the last reader of its pictures, while it is unused.
    last_use: Option<Event>,
    /// The stream on which its pictures are read, while it is in use.
    reader: Option<Arc<Stream>>,
    /// Address of the mapped picture.
    mapped: Option<u64>,
}

impl Maker {
    pub fn new(device: &Arc<Device>) -> Result<Maker> {
        Ok(Maker { cuvid: Cuvid::get()?, device: device.clone() })
    }
}

impl Make for Maker {
    type Decoder = Decoder;

    fn create(&self, shape: &Shape) -> Result<Decoder> {
        let format = &shape.format;
        let ((width, height), (max_width, max_height)) = (format.coded_size, shape.max_size);
        // Source and target are the whole coded picture. The display region is applied by our kernels, so the
        // decoder holds no crop that could become outdated. Sizes are below 32768, as format.rs checked.
        let (right, bottom) = (width as i16, height as i16);
        let mut info = sys::CUVIDDECODECREATEINFO {
            ulWidth: width.into(),
            ulHeight: height.into(),
            ulNumDecodeSurfaces: shape.surfaces.into(),
            CodecType: format.codec.number(),
            ChromaFormat: format.chroma.number(),
            ulCreationFlags: sys::cudaVideoCreate_Default.into(),
            bitDepthMinus8: u64::from(format.depth_bits) - 8,
            ulMaxWidth: max_width.into(),
            ulMaxHeight: max_height.into(),
            OutputFormat: format.layout().number(),
            DeinterlaceMode: sys::cudaVideoDeinterlaceMode_Weave,
            ulTargetWidth: width.into(),
            ulTargetHeight: height.into(),
            ulNumOutputSurfaces: OUTPUT_SURFACES.into(),
            ..Default::default()
        };
        (info.display_area.right, info.display_area.bottom) = (right, bottom);
        (info.target_rect.right, info.target_rect.bottom) = (right, bottom);
        let raw = self.device.with_current(|| self.cuvid.create_decoder(&mut info));
        let raw = raw.map_err(|error| match error {
            // The driver does not always support what the capabilities report; 801 is
            // CUDA_ERROR_NOT_SUPPORTED.
            Error::Call { code: 801, .. } => {
                Error::Unsupported { reason: format!("the driver makes no decoder for {}", shape.name()) }
            }
            other => other,
        })?;
        Ok(Decoder {
            cuvid: self.cuvid,
            device: self.device.clone(),
            raw,
            last_use: None,
            reader: None,
            mapped: None,
        })
    }

    fn reconfigure(&self, decoder: &mut Decoder, shape: &Shape) -> Result<()> {
        let (width, height) = shape.format.coded_size;
        let (right, bottom) = (width as i16, height as i16);
        let mut info = sys::CUVIDRECONFIGUREDECODERINFO {
            ulWidth: width,
            ulHeight: height,
            ulTargetWidth: width,
            ulTargetHeight: height,
            ulNumDecodeSurfaces: shape.surfaces,
            ..Default::default()
        };
        (info.display_area.right, info.display_area.bottom) = (right, bottom);
        (info.target_rect.right, info.target_rect.bottom) = (right, bottom);
        self.device.with_current(|| {
            decoder.settle()?;
            self.cuvid.reconfigure_decoder(decoder.raw, &mut info)
        })
    }
}

impl Decoder {
    /// Begins a use: its pictures will be read on `stream`, after the readers of its previous user.
    pub fn adopt(&mut self, stream: &Arc<Stream>) -> Result<()> {
        self.reader = Some(stream.clone());
        match self.last_use.take() {
            Some(event) => stream.wait(&event),
            None => Ok(()),
        }
    }

    /// Ends a use. The last reader of its pictures must be enqueued already.
    pub fn release(&mut self) -> Result<()> {
        if let Some(stream) = &self.reader {
            self.last_use = Some(stream.record()?);
            self.reader = None;
        }
        Ok(())
    }

    /// Enqueues a picture for decoding.
    /// |
    /// # Safety
    /// `picture` must be what the parser passed to the decode callback that is running.
    pub unsafe fn decode(&mut self, picture: &mut sys::CUVIDPICPARAMS) -> Result<()> {
        // SAFETY: by this function's contract.
        unsafe { self.cuvid.decode_picture(self.raw, picture) }
    }

    /// Waits until a picture is decoded, and enqueues its conversion on `stream`. Returns address and pitch.
    pub fn map(&mut self, index: i32, how: &MapHow, stream: &Stream) -> Result<(u64, usize)> {
        let mut parameters = sys::CUVIDPROCPARAMS {
            progressive_frame: how.progressive.into(),
            top_field_first: how.top_field_first.into(),
            unpaired_field: how.unpaired_field.into(),
            output_stream: stream.raw() as usize as sys::CUstream,
            ..Default::default()
        };
        let (address, pitch_bytes) = self.cuvid.map_frame(self.raw, index, &mut parameters)?;
        self.mapped = Some(address);
        Ok((address, pitch_bytes))
    }

    /// Ends a mapping; its readers must be enqueued on the stream that the picture was mapped for.
    pub fn unmap(&mut self, address: u64) -> Result<()> {
        self.cuvid.unmap_frame(self.raw, address)?;
        self.mapped = None;
        Ok(())
    }

    pub fn status(&mut self, index: i32) -> Result<u32> {
        self.cuvid.decode_status(self.raw, index)
    }

    /// Blocks until the last reader is done.
    fn settle(&mut self) -> Result<()> {
        if let Some(event) = self.last_use.take() {
            event.synchronize()?;
        }
        self.reader.as_ref().map_or(Ok(()), |stream| stream.synchronize())
    }
}

/// What a mapping needs to know about a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MapHow {
    pub progressive: bool,
    pub top_field_first: bool,
    pub unpaired_field: bool,
}

impl Drop for Decoder {
    fn drop(&mut self) {
        // A forked child calls nothing; other errors cannot be reported from a destructor.
        if let Ok(_entered) = self.device.enter() {
            let _ = self.settle();
            if let Some(address) = self.mapped {
                let _ = self.cuvid.unmap_frame(self.raw, address);
            }
            let _ = self.cuvid.destroy_decoder(self.raw);
        }
    }
}
