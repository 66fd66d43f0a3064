//! Launches the kernels of compiled passes on device frames in one CUDA stream, and uploads the
//! tables that they read. Waits for the device only before it frees memory.

use std::sync::Arc;

use framespool_kernels as kernels;
use framespool_nvdec::cuda::{Memory, Stream};
use kernels::{
    Deinterlace, DeviceFormat, DeviceFrame, DeviceLut, DeviceOperation, DevicePass, DeviceSlot,
};

use super::compile::CompiledStage;
use super::pass_id::PassId;
use super::shape::ClipShape;
use crate::error::{Error, Result, Site};
use crate::gpu::Gpu;

/// Size of the ring of tables, unless one pass needs more: enough for the tables of about a hundred
/// clips.
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
    /// Codes between the stages of a frame.
    codes: Option<Memory>,
    /// Planes of a deinterlaced frame.
    deinterlaced: Option<Memory>,
    /// Buffers for a frame in transfer between host and device: this one on the host, `crossing` on
    /// the device.
    pub(super) staging: Vec<u8>,
    pub(super) crossing: Option<Memory>,
}

/// A pass whose tables, and those of the operations after it, are in the ring.
struct Uploaded {
    id: PassId,
    format: DeviceFormat,
    pass: DevicePass,
    /// Each with the offset of its tables behind `at`.
    operations: Vec<(DeviceOperation, usize)>,
    at: usize,
    bytes: usize,
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
            codes: None,
            deinterlaced: None,
            staging: Vec::new(),
            crossing: None,
        }
    }

    /// The stream in which all work is enqueued.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Returns the addresses of three buffers of this many bytes, for the codes between the stages
    /// of a frame.
    pub(super) fn code_buffers(&mut self, bytes: usize) -> Result<[u64; 3]> {
        let bytes = bytes.next_multiple_of(ALIGN);
        let first = ensure_capacity(&self.gpu, &self.stream, &mut self.codes, 3 * bytes)?;
        Ok([0, 1, 2].map(|number| first + (number * bytes) as u64))
    }

    /// Enqueues the deinterlacing of a frame, if it is required, and returns the frame to
    /// transform.
    pub(super) fn deinterlace(
        &mut self,
        site: &Site,
        frame: DeviceFrame,
        deinterlace: Option<Deinterlace>,
    ) -> Result<DeviceFrame> {
        let Some(deinterlace) = deinterlace else {
            return Ok(frame);
        };
        let unsupported = |e: kernels::PassError| Error::Unsupported {
            site: site.clone(),
            what: e.to_string(),
        };
        let bytes = Deinterlace::memory_bytes(&frame).map_err(unsupported)?;
        let memory = ensure_capacity(&self.gpu, &self.stream, &mut self.deinterlaced, bytes)?;
        let (frame, launches) = deinterlace.launches(&frame, memory).map_err(unsupported)?;
        launches
            .iter()
            .try_for_each(|launch| self.gpu.launch(&self.stream, launch))?;
        Ok(frame)
    }

    /// Enqueues a stage that transforms one frame and writes it to a slot. If the stage has
    /// operations, the slot is one of the code buffers and `other` is a free one. Returns the
    /// address of the result, which is one of the two.
    pub(super) fn run(
        &mut self,
        site: &Site,
        id: PassId,
        stage: &CompiledStage,
        frame: &DeviceFrame,
        slot: DeviceSlot,
        other: u64,
    ) -> Result<u64> {
        let unsupported = |e: kernels::PassError| Error::Unsupported {
            site: site.clone(),
            what: e.to_string(),
        };
        let format = frame.format();
        let known = self
            .uploaded
            .iter()
            .position(|u| u.id == id && u.format == format);
        let pass_index = match known {
            Some(pass_index) => pass_index,
            None => {
                let pass = stage.pass.for_device(&format).map_err(unsupported)?;
                let size = stage.pass.output_size();
                let operations = stage
                    .operations
                    .iter()
                    .map(|operation| operation.for_device(size));
                let operations = operations
                    .collect::<Result<Vec<_>, _>>()
                    .map_err(unsupported)?;
                self.upload(id, format, pass, operations)?
            }
        };
        let Uploaded {
            pass, operations, ..
        } = &self.uploaded[pass_index];
        let scratch_of_operations = operations
            .iter()
            .map(|(operation, _)| operation.scratch_bytes());
        let scratch_bytes = scratch_of_operations.fold(pass.scratch_bytes(), usize::max);
        let scratch = ensure_capacity(&self.gpu, &self.stream, &mut self.scratch, scratch_bytes)?;
        let Uploaded {
            pass,
            operations,
            at,
            ..
        } = &self.uploaded[pass_index];
        let tables = self.ring.as_ref().map_or(0, Memory::address) + *at as u64;
        for launch in pass
            .launches(frame, tables, scratch, slot)
            .map_err(unsupported)?
        {
            self.gpu.launch(&self.stream, &launch)?;
        }
        let (mut codes, mut free) = (slot.address, other);
        for (operation, offset) in operations {
            let tables = tables + *offset as u64;
            for launch in operation
                .launches(codes, free, tables, scratch)
                .map_err(unsupported)?
            {
                self.gpu.launch(&self.stream, &launch)?;
            }
            std::mem::swap(&mut codes, &mut free);
        }
        Ok(codes)
    }

    /// Enqueues the conversion of a clip of this shape from codes at `codes` to elements at `out`.
    ///
    /// # Errors
    /// `Gpu` if the device does not accept the upload or the launch.
    pub fn expand(
        &mut self,
        expand: &DeviceLut,
        shape: &ClipShape,
        codes: u64,
        out: u64,
    ) -> Result<()> {
        let at = self.reserve_ring(expand.tables().len())?;
        let address = self.ring.as_ref().map_or(0, Memory::address) + at as u64;
        self.stream.upload(address, expand.tables())?;
        self.gpu.launch(
            &self.stream,
            &shape.expand_on_device(expand, codes, address, out)?,
        )
    }

    /// Uploads tables into the ring, over the oldest ones. All readers of the ring are in the same
    /// stream, so tables are not overwritten before they have been read.
    fn upload(
        &mut self,
        id: PassId,
        format: DeviceFormat,
        pass: DevicePass,
        operations: Vec<DeviceOperation>,
    ) -> Result<usize> {
        let mut tables = std::borrow::Cow::from(pass.tables());
        let mut placed = Vec::with_capacity(operations.len());
        for operation in operations {
            let offset = tables.len().next_multiple_of(ALIGN);
            tables.to_mut().resize(offset, 0);
            tables.to_mut().extend_from_slice(operation.tables());
            placed.push((operation, offset));
        }
        let (tables, bytes) = (&*tables, tables.len());
        let at = self.reserve_ring(bytes)?;
        let address = self.ring.as_ref().map_or(0, Memory::address) + at as u64;
        self.stream.upload(address, tables)?;
        let operations = placed;
        self.uploaded.push(Uploaded {
            id,
            format,
            pass,
            operations,
            at,
            bytes,
        });
        Ok(self.uploaded.len() - 1)
    }

    /// Returns the offset in the ring of the next `bytes` bytes; passes whose tables were there are
    /// forgotten.
    fn reserve_ring(&mut self, bytes: usize) -> Result<usize> {
        let len = bytes.next_multiple_of(ALIGN).max(ALIGN);
        if self.ring.as_ref().is_none_or(|ring| ring.len() < len) {
            self.uploaded.clear();
            self.next = 0;
            ensure_capacity(
                &self.gpu,
                &self.stream,
                &mut self.ring,
                len.max(MIN_RING_BYTES),
            )?;
        }
        let ring = self.ring.as_ref().expect("made above");
        if self.next + len > ring.len() {
            self.next = 0;
        }
        let at = self.next;
        let end = |u: &Uploaded| u.at + u.bytes.next_multiple_of(ALIGN).max(ALIGN);
        self.uploaded.retain(|u| end(u) <= at || u.at >= at + len);
        self.next = at + len;
        Ok(at)
    }

    /// Returns device memory of at least this many bytes, for a frame or a clip in transfer between
    /// host and device.
    pub(super) fn crossing_buffer(&mut self, bytes: usize) -> Result<u64> {
        ensure_capacity(&self.gpu, &self.stream, &mut self.crossing, bytes)
    }
}

/// Returns the address of memory of at least `bytes` bytes; its earlier contents may be lost.
fn ensure_capacity(
    gpu: &Gpu,
    stream: &Stream,
    memory: &mut Option<Memory>,
    bytes: usize,
) -> Result<u64> {
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
        // As in `ensure_capacity`; if the device does not respond, there is nothing left to
        // protect.
        let _ = self.stream.synchronize();
    }
}
