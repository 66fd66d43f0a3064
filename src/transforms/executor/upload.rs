//! Copies frames that the CPU transforms to the device: from page-locked memory, without waiting
//! for the copy, and as 8-bit codes if the device can make the same elements of them. Without
//! page-locked memory, or without memory for codes, the frames are copied as they can be. Clips
//! that are kept on disk are copied in both directions, through the same memory.

use framespool_nvdec::cuda::{Memory, Stream, UploadRing};
use framespool_nvdec::switches::Mechanism;
use std::sync::Arc;

use super::{TransformExecutor, check_fits_slot};
use crate::batch::{BatchBuffer, DeviceSliceMut};
use crate::error::{Error, Result, Site};
use crate::gpu::Gpu;
use crate::limits::resize;
use crate::transforms::{ClipShape, DeviceLut};

/// The memory and the codes pass with which one executor copies frames and clips.
pub(super) struct Uploader {
    gpu: Arc<Gpu>,
    stream: Arc<Stream>,
    staging: Staging,
    codes: Option<Codes>,
}

/// Where a frame or a clip is written before it is copied, or after it.
enum Staging {
    PageLocked(UploadRing),
    /// The driver copies the bytes before the call returns.
    Pageable(Vec<u8>),
}

/// Makes frames as 8-bit codes, which the device converts to elements.
struct Codes {
    encoder: TransformExecutor,
    lut: DeviceLut,
    /// The tables of `lut` and the codes of a frame, on the device.
    tables: Option<Memory>,
    frame: Option<Memory>,
}

impl TransformExecutor {
    /// Transforms a frame on the host and uploads the result to the device, as frame `t` of a clip.
    /// `apply` writes the frame as the only one of a clip, with the executor that it is given.
    pub(super) fn apply_and_upload(
        &mut self,
        site: &Site,
        is_deep: bool,
        shape: &ClipShape,
        (slice, t): (DeviceSliceMut<'_>, usize),
        apply: impl FnOnce(&mut Self, &ClipShape, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let mut uploader = self.take_uploader()?;
        let uploaded = uploader.upload(self, site, is_deep, shape, (slice, t), apply);
        self.uploader = Some(uploader);
        uploaded
    }

    /// Copies a clip from the device to host memory, waits until it is there, and calls `take` with
    /// its bytes.
    ///
    /// # Errors
    /// `Gpu` if the driver does not copy it.
    pub(crate) fn download_clip(
        &mut self,
        site: &Site,
        clip: &BatchBuffer,
        take: impl FnOnce(&[u8]),
    ) -> Result<()> {
        let downloaded = self.take_uploader().and_then(|mut uploader| {
            uploader.download(self, site, clip, take)?;
            self.uploader = Some(uploader);
            Ok(())
        });
        if downloaded.is_err() {
            // The copy may still run. Its target is dropped, which waits for it, and its source is
            // not used again.
            clip.mark_unsynchronized();
        }
        downloaded
    }

    /// Fills a clip of this shape on the device with a clip of the shape `stored`, which `read`
    /// writes to host memory. With `expand`, the bytes of that are codes. Returns false if `read`
    /// does.
    ///
    /// # Errors
    /// `Gpu` if the driver does not copy it; `Internal` if it does not fit.
    pub(crate) fn upload_clip(
        &mut self,
        site: &Site,
        (stored, expand): (&ClipShape, Option<&DeviceLut>),
        shape: &ClipShape,
        slice: DeviceSliceMut<'_>,
        read: impl FnOnce(&mut [u8]) -> bool,
    ) -> Result<bool> {
        let mut uploader = self.take_uploader()?;
        let uploaded = uploader.upload_clip(self, site, (stored, expand), shape, slice, read);
        self.uploader = Some(uploader);
        uploaded
    }

    fn take_uploader(&mut self) -> Result<Box<Uploader>> {
        match self.uploader.take() {
            Some(uploader) => Ok(uploader),
            None => Ok(Box::new(self.new_uploader()?)),
        }
    }

    fn new_uploader(&mut self) -> Result<Uploader> {
        let stream = self.cuda()?.stream().clone();
        let no_gpu =
            || Error::Argument("the output is on a device, but the executor has no GPU".into());
        let gpu = self.gpu.clone().ok_or_else(no_gpu)?;
        let staging = match Mechanism::LockedUpload.is_enabled() {
            true => Staging::PageLocked(UploadRing::new(stream.clone())),
            false => Staging::Pageable(Vec::new()),
        };
        let codes = self
            .pipeline
            .as_codes()
            .filter(|_| Mechanism::CodeUpload.is_enabled());
        let codes = codes.map(|(pipeline, lut)| Codes {
            encoder: TransformExecutor::new(pipeline),
            lut: lut.for_device(),
            tables: None,
            frame: None,
        });
        Ok(Uploader {
            gpu,
            stream,
            staging,
            codes,
        })
    }
}

impl Uploader {
    fn upload(
        &mut self,
        executor: &mut TransformExecutor,
        site: &Site,
        is_deep: bool,
        shape: &ClipShape,
        (mut slice, t): (DeviceSliceMut<'_>, usize),
        apply: impl FnOnce(&mut TransformExecutor, &ClipShape, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        // 8-bit codes cannot hold the elements of a frame of more than 8 bits.
        let as_codes = !is_deep && self.prepare_codes(executor, shape)?;
        let codes = self.codes.as_mut().filter(|_| as_codes);
        let dtype = codes
            .as_ref()
            .map_or(shape.dtype, |codes| codes.encoder.pipeline.dtype);
        let frame = ClipShape {
            frames: 1,
            dtype,
            ..*shape
        };
        let bytes = frame.bytes().unwrap_or(0);
        self.staging.prepare(site, bytes, executor)?;
        let staged = self.staging.reserve(bytes)?;
        match codes {
            Some(Codes {
                encoder,
                lut,
                tables: Some(tables),
                frame: Some(on_device),
            }) => {
                (encoder.key, encoder.frames) = (executor.key, executor.frames);
                apply(encoder, &frame, staged)?;
                check_fits_slot(site, shape, slice.len)?;
                slice.begin(&self.stream)?;
                self.staging
                    .upload(&self.stream, on_device.address(), 0..bytes)?;
                let (codes, tables) = (on_device.address(), tables.address());
                let launches =
                    shape.expand_frame_on_device(lut, codes, tables, slice.address, t)?;
                launches
                    .iter()
                    .try_for_each(|launch| self.gpu.launch(&self.stream, launch))
            }
            _ => {
                apply(executor, &frame, staged)?;
                check_fits_slot(site, shape, slice.len)?;
                slice.begin(&self.stream)?;
                let ranges = frame.frame_ranges(0).into_iter().zip(shape.frame_ranges(t));
                for ((from, len), (to, _)) in ranges {
                    self.staging.upload(
                        &self.stream,
                        slice.address + to as u64,
                        from..from + len,
                    )?;
                }
                Ok(())
            }
        }
    }

    /// The stream of the copy waits for the events of the clip's writes, and no other stream waits
    /// for the copy.
    fn download(
        &mut self,
        executor: &mut TransformExecutor,
        site: &Site,
        clip: &BatchBuffer,
        take: impl FnOnce(&[u8]),
    ) -> Result<()> {
        self.staging.prepare(site, clip.len(), executor)?;
        clip.written()
            .iter()
            .try_for_each(|event| self.stream.wait(event))?;
        let staged = self.staging.reserve(clip.len())?;
        self.stream.download(staged, clip.address())?;
        take(staged);
        Ok(())
    }

    fn upload_clip(
        &mut self,
        executor: &mut TransformExecutor,
        site: &Site,
        (stored, expand): (&ClipShape, Option<&DeviceLut>),
        shape: &ClipShape,
        mut slice: DeviceSliceMut<'_>,
        read: impl FnOnce(&mut [u8]) -> bool,
    ) -> Result<bool> {
        check_fits_slot(
            site,
            if expand.is_some() { shape } else { stored },
            slice.len,
        )?;
        let bytes = stored.bytes().unwrap_or(0);
        self.staging.prepare(site, bytes, executor)?;
        if !read(self.staging.reserve(bytes)?) {
            return Ok(false);
        }
        let Some(expand) = expand else {
            slice.begin(&self.stream)?;
            self.staging.upload(&self.stream, slice.address, 0..bytes)?;
            return Ok(true);
        };
        // The stream of the executor is that of the copies, so the codes of the clip before are
        // read by then.
        let cuda = executor.cuda()?;
        let codes = cuda.crossing_buffer(bytes)?;
        slice.begin(&self.stream)?;
        self.staging.upload(&self.stream, codes, 0..bytes)?;
        cuda.expand(expand, shape, codes, slice.address)?;
        Ok(true)
    }

    /// Allocates what the codes pass needs on the device. Returns whether the frame can be made as
    /// codes.
    fn prepare_codes(
        &mut self,
        executor: &mut TransformExecutor,
        shape: &ClipShape,
    ) -> Result<bool> {
        let Some(codes) = &mut self.codes else {
            return Ok(false);
        };
        let frame = ClipShape {
            frames: 1,
            dtype: codes.encoder.pipeline.dtype,
            ..*shape
        };
        match codes.prepare(&self.stream, frame.bytes().unwrap_or(0)) {
            Ok(()) => Ok(true),
            Err(error) if error.is_out_of_memory() => {
                self.codes = None;
                executor
                    .report
                    .upload_fallbacks
                    .push(format!("frames are copied as elements: {error}"));
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Codes {
    fn prepare(&mut self, stream: &Arc<Stream>, bytes: usize) -> framespool_nvdec::Result<()> {
        if self.tables.is_none() {
            let tables = stream.device().allocate(self.lut.tables().len())?;
            stream.upload(tables.address(), self.lut.tables())?;
            self.tables = Some(tables);
        }
        if self.frame.as_ref().is_none_or(|frame| frame.len() < bytes) {
            if self.frame.is_some() {
                stream.synchronize()?; // enqueued kernels read what is about to be freed
            }
            self.frame = None;
            self.frame = Some(stream.device().allocate(bytes)?);
        }
        Ok(())
    }
}

impl Staging {
    /// Makes room for `bytes` bytes: in pageable memory from now on, if they cannot be page-locked.
    fn prepare(
        &mut self,
        site: &Site,
        bytes: usize,
        executor: &mut TransformExecutor,
    ) -> Result<()> {
        if let Staging::PageLocked(ring) = self {
            match ring.reserve(bytes) {
                Ok(_) => return Ok(()),
                Err(error) if error.is_lost() => return Err(error.into()),
                Err(error) => {
                    let note = format!("frames are copied from pageable memory: {error}");
                    executor.report.upload_fallbacks.push(note);
                    *self = Staging::Pageable(Vec::new());
                }
            }
        }
        if let Staging::Pageable(staging) = self {
            resize(site, staging, bytes)?;
            staging.truncate(bytes);
        }
        Ok(())
    }

    /// The bytes for which room was made; no copy reads them.
    fn reserve(&mut self, bytes: usize) -> Result<&mut [u8]> {
        match self {
            Staging::PageLocked(ring) => Ok(ring.reserve(bytes)?),
            Staging::Pageable(staging) => Ok(staging),
        }
    }

    /// Enqueues the copy of a part of the bytes to the address `to` of the device.
    fn upload(&mut self, stream: &Stream, to: u64, part: std::ops::Range<usize>) -> Result<()> {
        match self {
            Staging::PageLocked(ring) => Ok(ring.upload(to, part)?),
            Staging::Pageable(staging) => Ok(stream.upload(to, &staging[part])?),
        }
    }
}
