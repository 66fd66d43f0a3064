//! Wraps a decoder of the driver, which is destroyed when dropped.
//! It never scales, crops or deinterlaces: pictures are output as they were coded.
#![allow(unsafe_code)]

use std::sync::Arc;

use super::decoder_cache::DecoderFactory;
use super::decoder_config::{DecoderConfig, OUTPUT_SURFACES};
use crate::cuda::{Device, Event, Stream};
use crate::cuvid::{Cuvid, RawDecoder};
use crate::sys;
use crate::{Error, Result};

/// Creates decoders for a device.
pub(crate) struct CuvidFactory {
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
    reader_stream: Option<Arc<Stream>>,
    /// Address of the mapped picture.
    mapped: Option<u64>,
}

impl CuvidFactory {
    pub(crate) fn new(device: &Arc<Device>) -> Result<CuvidFactory> {
        Ok(CuvidFactory {
            cuvid: Cuvid::get()?,
            device: device.clone(),
        })
    }
}

impl DecoderFactory for CuvidFactory {
    type Decoder = Decoder;

    fn create(&self, config: &DecoderConfig) -> Result<Decoder> {
        let format = &config.format;
        let ((width, height), (max_width, max_height)) = (format.coded_size, config.max_size);
        // Source and target are the whole coded picture. The display region is applied by our
        // kernels, so the decoder holds no crop that could become outdated. Sizes are below 32768,
        // as format.rs checked.
        let (right, bottom) = (width as i16, height as i16);
        let mut info = sys::CUVIDDECODECREATEINFO {
            ulWidth: width.into(),
            ulHeight: height.into(),
            ulNumDecodeSurfaces: config.surfaces.into(),
            CodecType: format.codec.to_raw(),
            ChromaFormat: format.chroma.to_raw(),
            ulCreationFlags: sys::cudaVideoCreate_Default.into(),
            bitDepthMinus8: u64::from(format.depth_bits) - 8,
            ulMaxWidth: max_width.into(),
            ulMaxHeight: max_height.into(),
            OutputFormat: format.surface_format().to_raw(),
            DeinterlaceMode: sys::cudaVideoDeinterlaceMode_Weave,
            ulTargetWidth: width.into(),
            ulTargetHeight: height.into(),
            ulNumOutputSurfaces: OUTPUT_SURFACES.into(),
            ..Default::default()
        };
        (info.display_area.right, info.display_area.bottom) = (right, bottom);
        (info.target_rect.right, info.target_rect.bottom) = (right, bottom);
        let raw = self
            .device
            .with_current(|| self.cuvid.create_decoder(&mut info));
        let raw = raw.map_err(|error| match error {
            // The driver does not always support what the capabilities report; 801 is
            // CUDA_ERROR_NOT_SUPPORTED.
            Error::Call { code: 801, .. } => Error::Unsupported {
                reason: format!("the driver cannot create a decoder for {}", config.name()),
            },
            other => other,
        })?;
        Ok(Decoder {
            cuvid: self.cuvid,
            device: self.device.clone(),
            raw,
            last_use: None,
            reader_stream: None,
            mapped: None,
        })
    }

    fn reconfigure(&self, decoder: &mut Decoder, config: &DecoderConfig) -> Result<()> {
        let (width, height) = config.format.coded_size;
        let (right, bottom) = (width as i16, height as i16);
        let mut info = sys::CUVIDRECONFIGUREDECODERINFO {
            ulWidth: width,
            ulHeight: height,
            ulTargetWidth: width,
            ulTargetHeight: height,
            ulNumDecodeSurfaces: config.surfaces,
            ..Default::default()
        };
        (info.display_area.right, info.display_area.bottom) = (right, bottom);
        (info.target_rect.right, info.target_rect.bottom) = (right, bottom);
        self.device.with_current(|| {
            decoder.wait_for_readers()?;
            self.cuvid.reconfigure_decoder(decoder.raw, &mut info)
        })
    }
}

impl Decoder {
    /// Starts a use: its pictures will be read on `stream`, after the readers of its previous user.
    pub(crate) fn begin_use(&mut self, stream: &Arc<Stream>) -> Result<()> {
        self.reader_stream = Some(stream.clone());
        match self.last_use.take() {
            Some(event) => stream.wait(&event),
            None => Ok(()),
        }
    }

    /// Ends a use. The last reader of its pictures must be enqueued already.
    pub(crate) fn end_use(&mut self) -> Result<()> {
        if let Some(stream) = &self.reader_stream {
            self.last_use = Some(stream.record()?);
            self.reader_stream = None;
        }
        Ok(())
    }

    /// Enqueues a picture for decoding.
    ///
    /// # Safety
    /// `picture` must be what the parser passed to the decode callback that is running.
    pub(crate) unsafe fn decode(&mut self, picture: &mut sys::CUVIDPICPARAMS) -> Result<()> {
        // SAFETY: by this function's contract.
        unsafe { self.cuvid.decode_picture(self.raw, picture) }
    }

    /// Waits until a picture is decoded, and enqueues its conversion on `stream`. Returns address
    /// and pitch.
    pub(crate) fn map(&mut self, index: i32, stream: &Stream) -> Result<(u64, usize)> {
        let mut parameters = sys::CUVIDPROCPARAMS {
            // Also for interlaced pictures: their fields stay interleaved, and no driver
            // deinterlaces them.
            progressive_frame: 1,
            output_stream: stream.raw() as usize as sys::CUstream,
            ..Default::default()
        };
        let (address, pitch_bytes) = self.cuvid.map_frame(self.raw, index, &mut parameters)?;
        self.mapped = Some(address);
        Ok((address, pitch_bytes))
    }

    /// Ends a mapping; its readers must be enqueued on the stream that the picture was mapped for.
    pub(crate) fn unmap(&mut self, address: u64) -> Result<()> {
        self.cuvid.unmap_frame(self.raw, address)?;
        self.mapped = None;
        Ok(())
    }

    pub(crate) fn status(&mut self, index: i32) -> Result<u32> {
        self.cuvid.decode_status(self.raw, index)
    }

    /// Blocks until the last reader is done.
    fn wait_for_readers(&mut self) -> Result<()> {
        if let Some(event) = self.last_use.take() {
            event.synchronize()?;
        }
        self.reader_stream
            .as_ref()
            .map_or(Ok(()), |stream| stream.synchronize())
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        // A forked child calls nothing; other errors cannot be reported from a destructor.
        if let Ok(_guard) = self.device.enter() {
            let _ = self.wait_for_readers();
            if let Some(address) = self.mapped {
                let _ = self.cuvid.unmap_frame(self.raw, address);
            }
            let _ = self.cuvid.destroy_decoder(self.raw);
        }
    }
}
