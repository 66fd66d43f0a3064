//! Launches the kernels of compiled passes on device frames in one CUDA stream, and uploads the tables that
//! they read.
//! Waits for the device only before it frees memory.

use std::sync::Arc;

use framespool_kernels as kernels;
use framespool_nvdec::cuda::{Memory, Stream};
use kernels::{DeviceFormat, DeviceFrame, DeviceLut, DevicePass, DeviceSlot};

use super::pass_id::PassId;
use super::shape::ClipShape;
use crate::error::{Error, Result, Site};
use crate::gpu::Gpu;

/// Size of the ring of tables, unless one pass needs more: enough for the tables of about a hundred clips.
const MIN_RING_BYTES: usize = 4 << 20;

/// Alignment of tables in bytes.
const ALIGN: usize = 256;

/// Device memory and one stream with which frames are transformed. One user at a time.
pub struct CudaExecutor {
    gpu: Arc<Gpu>,
    stream: Arc<Stream>,
    ring: Option<Memory>,
    /// Offset at which the next tables are stored.
    next: usize,
    /// Most recently uploaded last.
    uploaded: Vec<Uploaded>,
    scratch: Option<Memory>,
    /// Buffers for a frame in transfer between host and device: this one on the host, `crossing` on the
    /// device.
    pub(super) staging: Vec<u8>,
    pub(super) crossing: Option<Memory>,
}

/// A pass whose tables are in the ring.
struct Uploaded {
    id: PassId,
    format: DeviceFormat,
    pass: DevicePass,
    at: usize,
}

impl CudaExecutor {
    /// Uses this stream: for surfaces, the one on which they are mapped.
    pub fn new(gpu: Arc<Gpu>, stream: Arc<Stream>) -> Self {
        Self {
            gpu,
            stream,
            ring: None,
            next: 0,
            uploaded: Vec::new(),
            scratch: None,
            staging: Vec::new(),
            crossing: None,
        }
    }

    /// The stream in which all work is enqueued.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Enqueues a pass that transforms one frame and writes it to a slot.
    pub(super) fn run(
        &mut self,
        site: &Site,
        id: PassId,
        pass: &kernels::PixelPass,
        frame: &DeviceFrame,
        slot: DeviceSlot,
    ) -> Result<()> {
        let unsupported =
            |e: kernels::PassError| Error::Unsupported { site: site.clone(), what: e.to_string() };
        let format = frame.format();
        let known = self.uploaded.iter().position(|u| u.id == id && u.format == format);
        let pass_index = match known {
            Some(pass_index) => pass_index,
            None => {
                let compiled = pass.for_device(&format).map_err(unsupported)?;
                self.upload(id, format, compiled)?
            }
        };
        let scratch_bytes = self.uploaded[pass_index].pass.scratch_bytes();
        let scratch = ensure_capacity(&self.gpu, &self.stream, &mut self.scratch, scratch_bytes)?;
        let Uploaded { pass, at, .. } = &self.uploaded[pass_index];
        let tables = self.ring.as_ref().map_or(0, Memory::address) + *at as u64;
        for launch in pass.launches(frame, tables, scratch, slot).map_err(unsupported)? {
            self.gpu.launch(&self.stream, &launch)?;
        }
        Ok(())
    }

    /// Enqueues the conversion of a clip of this shape from codes at `codes` to elements at `out`.
    ///
    /// # Errors
    /// `Gpu` if the device does not accept the upload or the launch.
    pub fn expand(&mut self, expand: &DeviceLut, shape: &ClipShape, codes: u64, out: u64) -> Result<()> {
        let at = self.reserve_ring(expand.tables().len())?;
        let address = self.ring.as_ref().map_or(0, Memory::address) + at as u64;
        self.stream.upload(address, expand.tables())?;
        self.gpu.launch(&self.stream, &shape.expand_on_device(expand, codes, address, out)?)
    }

    /// Uploads tables into the ring, over the oldest ones. All readers of the ring are in the same stream, so
    /// tables are not overwritten before they have been read.
    fn upload(&mut self, id: PassId, format: DeviceFormat, pass: DevicePass) -> Result<usize> {
        let at = self.reserve_ring(pass.tables().len())?;
        let address = self.ring.as_ref().map_or(0, Memory::address) + at as u64;
        self.stream.upload(address, pass.tables())?;
        self.uploaded.push(Uploaded { id, format, pass, at });
        Ok(self.uploaded.len() - 1)
    }

    /// Returns the offset in the ring of the next `bytes` bytes; passes whose tables were there are
    /// forgotten.
    fn reserve_ring(&mut self, bytes: usize) -> Result<usize> {
        let len = bytes.next_multiple_of(ALIGN).max(ALIGN);
        if self.ring.as_ref().is_none_or(|ring| ring.len() < len) {
            self.uploaded.clear();
            self.next = 0;
            ensure_capacity(&self.gpu, &self.stream, &mut self.ring, len.max(MIN_RING_BYTES))?;
        }
        let ring = self.ring.as_ref().expect("made above");
        if self.next + len > ring.len() {
            self.next = 0;
        }
        let at = self.next;
        let end = |u: &Uploaded| u.at + u.pass.tables().len().next_multiple_of(ALIGN).max(ALIGN);
        self.uploaded.retain(|u| end(u) <= at || u.at >= at + len);
        self.next = at + len;
        Ok(at)
    }

    /// Returns device memory of at least this many bytes, for a frame in transfer to the host.
    pub(super) fn crossing_buffer(&mut self, bytes: usize) -> Result<u64> {
        ensure_capacity(&self.gpu, &self.stream, &mut self.crossing, bytes)
    }
}

/// Returns the address of memory of at least `bytes` bytes; its earlier contents may be lost.
fn ensure_capacity(gpu: &Gpu, stream: &Stream, memory: &mut Option<Memory>, bytes: usize) -> Result<u64> {
    if bytes == 0 {
        return Ok(0);
    }
    if memory.as_ref().is_none_or(|have| have.len() < bytes) {
        if memory.is_some() {
            stream.synchronize()?; // enqueued kernels read what is about to be freed
        }
        *memory = None;
        *memory = Some(gpu.device().allocate(bytes)?);
    }
    Ok(memory.as_ref().map_or(0, Memory::address))
}

impl Drop for CudaExecutor {
    fn drop(&mut self) {
        // As in `ensure_capacity`; if the device does not respond, there is nothing left to protect.
        let _ = self.stream.synchronize();
    }
}
