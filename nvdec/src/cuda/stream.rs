//! Wraps CUDA streams: copies, fills and kernel launches that run asynchronously and in order.
//! Only `synchronize`, `download` and some uploads block.

use std::sync::Arc;

use super::result::{self, RawStream};
use super::{Device, Event, Function};
use crate::Result;
use crate::switches::Mechanism;

/// `CU_DEVICE_ATTRIBUTE_MAX_PITCH` of all GPUs so far: the driver refuses larger ones.
const MAX_PITCH_BYTES: usize = i32::MAX as usize;

/// A queue of work on one device.
pub struct Stream {
    device: Arc<Device>,
    raw: RawStream,
}

impl Device {
    /// Creates a stream that is independent of the default stream and has the least priority, or the
    /// greatest if [`Mechanism::LeastPriority`] is turned off.
    pub fn create_stream(self: &Arc<Self>) -> Result<Arc<Stream>> {
        self.with_current(|| {
            Ok(Arc::new(Stream {
                device: self.clone(),
                raw: result::stream_create(self.driver(), Mechanism::LeastPriority.is_enabled())?,
            }))
        })
    }
}

impl Stream {
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The driver's handle for it, a `CUstream`.
    pub fn raw(&self) -> u64 {
        self.raw.to_raw()
    }

    pub(super) fn raw_handle(&self) -> RawStream {
        self.raw
    }

    /// Records an event after everything enqueued so far.
    pub fn record(&self) -> Result<Event> {
        Event::record(&self.device, self.raw)
    }

    /// Makes later work of this stream wait for the event, without blocking the caller.
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.device
            .with_current(|| result::stream_wait(self.device.driver(), self.raw, event.raw()))
    }

    /// Blocks until everything enqueued so far is done.
    pub fn synchronize(&self) -> Result<()> {
        self.device
            .with_current(|| result::stream_synchronize(self.device.driver(), self.raw))
    }

    /// Enqueues a copy to the device from pageable host memory; `from` may be reused when this
    /// returns.
    ///
    /// Must not be used with page-locked memory, which is read after the return: see
    /// [`super::UploadRing`].
    pub fn upload(&self, to: u64, from: &[u8]) -> Result<()> {
        if from.is_empty() {
            return Ok(());
        }
        self.device.with_current(|| {
            result::copy_to_device(self.device.driver(), self.raw, to, from)?;
            match self.device.reads_host_pages() {
                true => result::stream_synchronize(self.device.driver(), self.raw),
                false => Ok(()),
            }
        })
    }

    /// Copies to the host after everything enqueued so far, and blocks until the copy is done.
    pub fn download(&self, to: &mut [u8], from: u64) -> Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        self.device
            .with_current(|| result::copy_to_host(self.device.driver(), self.raw, to, from))
    }

    /// Enqueues a copy within the device.
    pub fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.device.with_current(|| {
            result::copy_on_device(self.device.driver(), self.raw, to, from, bytes)
        })
    }

    /// Enqueues a copy of rows that are next to each other, to rows that are `pitch` bytes apart.
    /// Rows that are too far apart for one call of the driver are copied one by one.
    pub fn copy_rows(
        &self,
        to: u64,
        pitch: usize,
        from: u64,
        row_bytes: usize,
        rows: usize,
    ) -> Result<()> {
        if row_bytes == 0 || rows == 0 {
            return Ok(());
        }
        if pitch.max(row_bytes) > MAX_PITCH_BYTES {
            return (0..rows as u64).try_for_each(|row| {
                let (to, from) = (to + row * pitch as u64, from + row * row_bytes as u64);
                self.copy(to, from, row_bytes)
            });
        }
        self.device.with_current(|| {
            result::copy_rows(
                self.device.driver(),
                self.raw,
                (to, pitch),
                (from, row_bytes),
                rows,
            )
        })
    }

    /// Enqueues a fill of memory with one byte value.
    pub fn fill(&self, to: u64, byte: u8, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.device
            .with_current(|| result::fill(self.device.driver(), self.raw, to, byte, bytes))
    }

    /// Enqueues a kernel whose only parameter, passed by value, is a struct with the bytes `args`.
    pub fn launch(
        &self,
        function: &Function,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
        args: &[u8],
    ) -> Result<()> {
        let (driver, function) = (self.device.driver(), function.raw());
        self.device.with_current(|| {
            result::launch(driver, self.raw, function, grid, block, shared_bytes, args)
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Work that is already enqueued still runs.
        self.device
            .clean_up(|driver| result::stream_destroy(driver, self.raw));
    }
}
