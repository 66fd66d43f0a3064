//! In: pictures in device memory, passes compiled for them, and places for the result on either side.
//! Out: the kernels' launches in one stream, with their tables where the kernels find them.
//! Never: waits for the device, but where the result is wanted on the host.

use std::sync::Arc;

use framespool_kernels as kernels;
use framespool_nvdec::cuda::{Memory, Stream};
use kernels::{DeviceExpand, DeviceFormat, DeviceFrame, DevicePass, DeviceSlot};

use super::painter::PassId;
use super::shape::ClipShape;
use crate::error::{Error, Result, Site};
use crate::gpu::Gpu;

/// Room for tables, unless one pass needs more: those of some hundred clips.
const RING_BYTES: usize = 4 << 20;

/// Tables begin at multiples of this.
const ALIGN: usize = 256;

/// Device memory and one stream, with which surfaces become pixels. One user at a time.
pub struct Easel {
    gpu: Arc<Gpu>,
    stream: Arc<Stream>,
    ring: Option<Memory>,
    /// Where the next tables go.
    next: usize,
    /// Most recently uploaded last.
    uploaded: Vec<Uploaded>,
    scratch: Option<Memory>,
    /// A picture on its way between the two sides.
    pub(super) staging: Vec<u8>,
    pub(super) crossing: Option<Memory>,
}

/// A pass whose tables lie in the ring.
struct Uploaded {
    id: PassId,
    format: DeviceFormat,
    pass: DevicePass,
    at: usize,
}

impl Easel {
    /// With this stream: for surfaces, the one that they are mapped on.
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

    /// The stream that everything is enqueued in.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Enqueues one frame's way through a pass into a slot.
    pub(super) fn run(
        &mut self,
        site: &Site,
        id: PassId,
        pass: &kernels::PixelPass,
        frame: &DeviceFrame,
        slot: DeviceSlot,
    ) -> Result<()> {
        let refused = |e: kernels::PassError| Error::Unsupported { site: site.clone(), what: e.to_string() };
        let format = frame.format();
        let known = self.uploaded.iter().position(|u| u.id == id && u.format == format);
        let place = match known {
            Some(place) => place,
            None => {
                let compiled = pass.for_device(&format).map_err(refused)?;
                self.upload(id, format, compiled)?
            }
        };
        let scratch_bytes = self.uploaded[place].pass.scratch_bytes();
        let scratch = room(&self.gpu, &self.stream, &mut self.scratch, scratch_bytes)?;
        let Uploaded { pass, at, .. } = &self.uploaded[place];
        let tables = self.ring.as_ref().map_or(0, Memory::address) + *at as u64;
        for launch in pass.launches(frame, tables, scratch, slot).map_err(refused)? {
            self.gpu.launch(&self.stream, &launch)?;
        }
        Ok(())
    }

    /// Enqueues what turns a clip of this shape that lies at `codes` as codes into its elements at `out`.
    ///
    /// # Errors
    /// `Gpu` where the device does not take the order.
    pub fn expand(&mut self, expand: &DeviceExpand, shape: &ClipShape, codes: u64, out: u64) -> Result<()> {
        let at = self.make_room(expand.tables().len())?;
        let address = self.ring.as_ref().map_or(0, Memory::address) + at as u64;
        self.stream.upload(address, expand.tables())?;
        self.gpu.launch(&self.stream, &shape.expand_on_device(expand, codes, address, out)?)
    }

    /// Puts tables into the ring, over those that were put there first. All who read the ring are in one stream, so nobody
    /// is overtaken.
    fn upload(&mut self, id: PassId, format: DeviceFormat, pass: DevicePass) -> Result<usize> {
        let at = self.make_room(pass.tables().len())?;
        let address = self.ring.as_ref().map_or(0, Memory::address) + at as u64;
        self.stream.upload(address, pass.tables())?;
        self.uploaded.push(Uploaded { id, format, pass, at });
        Ok(self.uploaded.len() - 1)
    }

    /// Where in the ring the next `bytes` bytes go; whose tables lay there is forgotten.
    fn make_room(&mut self, bytes: usize) -> Result<usize> {
        let len = bytes.next_multiple_of(ALIGN).max(ALIGN);
        if self.ring.as_ref().is_none_or(|ring| ring.len() < len) {
            self.uploaded.clear();
            self.next = 0;
            room(&self.gpu, &self.stream, &mut self.ring, len.max(RING_BYTES))?;
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

    /// Device memory of at least this many bytes, for a picture on its way to the host.
    pub(super) fn cross(&mut self, bytes: usize) -> Result<u64> {
        room(&self.gpu, &self.stream, &mut self.crossing, bytes)
    }
}

/// The address of memory of at least `bytes`; what was there before may be given up.
fn room(gpu: &Gpu, stream: &Stream, memory: &mut Option<Memory>, bytes: usize) -> Result<u64> {
    if bytes == 0 {
        return Ok(0);
    }
    if memory.as_ref().is_none_or(|have| have.len() < bytes) {
        if memory.is_some() {
            stream.synchronize()?; // kernels under way read what is about to be freed
        }
        *memory = None;
        *memory = Some(gpu.device().allocate(bytes)?);
    }
    Ok(memory.as_ref().map_or(0, Memory::address))
}

impl Drop for Easel {
    fn drop(&mut self) {
        // As above; where the device does not answer there is nothing to be kept from harm.
        let _ = self.stream.synchronize();
    }
}
