//! Orders the CUDA streams that write a range of device memory, relative to each other and to
//! earlier and later readers. The writers of a clip wait for each other on their streams. The host
//! waits for readers of the previous content, which may be on a stream of the consumer that is
//! blocked for a long time.

use std::sync::Arc;

use framespool_nvdec::cuda::{Event, Stream};

use super::pool::wait_for_events;
use crate::error::Result;

/// The streams that write one clip, in the order of their first writes.
#[derive(Default)]
pub struct StreamOrder {
    /// Events to wait for before the first write: reads and writes of the previous content of this
    /// memory.
    before: Vec<Event>,
    last: Option<Arc<Stream>>,
}

impl StreamOrder {
    pub(super) fn new(before: Vec<Event>) -> Self {
        Self { before, last: None }
    }

    /// Orders the work that a stream enqueues from now on after all earlier writes of the clip, and
    /// after all uses of the memory for its previous content.
    ///
    /// The stream itself never waits for a consumer. NVDEC converts pictures on the same stream,
    /// and may reuse a surface as soon as it is unmapped, even if the conversion has not run yet.
    pub fn begin(&mut self, stream: &Arc<Stream>) -> Result<()> {
        match &self.last {
            Some(last) if Arc::ptr_eq(last, stream) => return Ok(()),
            Some(last) => stream.wait(&last.record()?)?,
            None => self
                .before
                .iter()
                .try_for_each(|event| event.synchronize())?,
        }
        self.last = Some(stream.clone());
        Ok(())
    }

    /// Waits for all uses of host memory for its previous content, before the first write.
    pub(super) fn wait_on_host(&mut self) -> Result<()> {
        wait_for_events(&self.before)?;
        self.before.clear();
        Ok(())
    }

    /// Returns the event after which all writes are complete; `None` if there were no writes. If
    /// the event cannot be recorded, the last stream is kept, so that a later call can record it.
    pub(super) fn end(&mut self) -> Result<Option<Event>> {
        let event = self.last.as_ref().map(|last| last.record()).transpose()?;
        self.last = None;
        Ok(event)
    }
}

/// A writable range of device memory.
pub struct DeviceSliceMut<'a> {
    /// Address of the first byte.
    pub address: u64,
    /// Number of bytes.
    pub len: usize,
    pub(super) stream_order: &'a mut StreamOrder,
}

impl DeviceSliceMut<'_> {
    /// See [`StreamOrder::begin`]. Call it before anything that writes here is enqueued.
    pub fn begin(&mut self, stream: &Arc<Stream>) -> Result<()> {
        self.stream_order.begin(stream)
    }
}

/// The memory that a clip is written to.
pub enum OutputMut<'a> {
    /// Host memory.
    Host(&'a mut [u8]),
    /// Device memory.
    Device(DeviceSliceMut<'a>),
}
