//! In: work for a device.
//! Out: a queue in which it runs in order, later.
//! Never: waits for it, except where the name says so.

use std::sync::Arc;

use super::calls::{self, RawStream};
use super::{Device, Event, Function};
use crate::Result;

/// A queue of work on one device.
pub struct Stream {
    device: Arc<Device>,
    raw: RawStream,
}

impl Stream {
    pub(super) fn new(device: Arc<Device>, raw: RawStream) -> Stream {
        Stream { device, raw }
    }

    /// The device that it belongs to.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The driver's number for it, a `CUstream`.
    pub fn raw(&self) -> u64 {
        self.raw.number()
    }

    /// An event after everything enqueued so far.
    pub fn record(&self) -> Result<Event> {
        Event::record(&self.device, self.raw)
    }

    /// Later work of this stream waits for the event; the caller does not.
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.device.with_current(|| calls::stream_wait(self.device.driver(), self.raw, event.raw()))
    }

    /// Waits here until everything enqueued so far is done.
    pub fn synchronize(&self) -> Result<()> {
        self.device.with_current(|| calls::stream_synchronize(self.device.driver(), self.raw))
    }

    /// Enqueues a copy to the device from ordinary (pageable) memory; `from` may be reused at return.
    ///
    /// Memory that CUDA pinned must not be given: the driver would read it later.
    pub fn upload(&self, to: u64, from: &[u8]) -> Result<()> {
        if from.is_empty() {
            return Ok(());
        }
        self.device.with_current(|| {
            calls::copy_to_device(self.device.driver(), self.raw, to, from)?;
            match self.device.reads_host_pages() {
                true => calls::stream_synchronize(self.device.driver(), self.raw),
                false => Ok(()),
            }
        })
    }

    /// Copies to the host, after everything enqueued so far; the bytes are there at return.
    pub fn download(&self, to: &mut [u8], from: u64) -> Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        self.device.with_current(|| calls::copy_to_host(self.device.driver(), self.raw, to, from))
    }

    /// Enqueues a copy within the device.
    pub fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.device.with_current(|| calls::copy_on_device(self.device.driver(), self.raw, to, from, bytes))
    }

    /// Enqueues filling memory with one byte.
    pub fn fill(&self, to: u64, byte: u8, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.device.with_current(|| calls::fill(self.device.driver(), self.raw, to, byte, bytes))
    }

    /// Enqueues a kernel whose one parameter, by value, is a struct of the bytes `args`.
    pub fn launch(
        &self,
        function: &Function,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
        args: &[u8],
    ) -> Result<()> {
        let (driver, function) = (self.device.driver(), function.raw());
        self.device
            .with_current(|| calls::launch(driver, self.raw, function, grid, block, shared_bytes, args))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // What is enqueued still runs.
        self.device.clean_up(|driver| calls::stream_destroy(driver, self.raw));
    }
}
