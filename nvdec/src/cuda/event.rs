//! Wraps CUDA events: points in a stream that other streams or the host can wait for.

use std::sync::Arc;

use super::Device;
use super::result::{self, RawEvent, RawStream};
use crate::{Error, Result};

/// An event recorded in a stream. Clones share the event.
#[derive(Clone)]
pub struct Event(Arc<EventInner>);

struct EventInner {
    device: Arc<Device>,
    raw: RawEvent,
}

impl Device {
    /// Makes a stream of other code (1 and 2 are CUDA's two default streams) wait for an event,
    /// without blocking here.
    pub fn wait_on_external(&self, raw: u64, event: &Event) -> Result<()> {
        self.with_current(|| {
            result::stream_wait(self.driver(), RawStream::external(raw), event.raw())
        })
    }

    /// Records an event after everything enqueued so far on a stream of other code.
    ///
    /// # Errors
    /// [`Error::Misuse`] if a graph captures the stream: the event would become a part of the
    /// graph, and no wait for it would be possible.
    pub fn record_on_external(self: &Arc<Self>, raw: u64) -> Result<Event> {
        let stream = RawStream::external(raw);
        if self.with_current(|| result::stream_is_capturing(self.driver(), stream))? {
            return Err(Error::Misuse("an event on a stream that a graph captures"));
        }
        Event::record(self, stream)
    }
}

impl Event {
    pub(super) fn record(device: &Arc<Device>, stream: RawStream) -> Result<Event> {
        device.with_current(|| {
            let raw = result::event_create(device.driver())?;
            // Owned before it is recorded, so that it is destroyed if recording fails.
            let event = Event(Arc::new(EventInner {
                device: device.clone(),
                raw,
            }));
            result::event_record(device.driver(), raw, stream)?;
            Ok(event)
        })
    }

    pub(super) fn raw(&self) -> RawEvent {
        self.0.raw
    }

    /// Whether all work before the event is done.
    pub fn is_complete(&self) -> Result<bool> {
        self.0
            .device
            .with_current(|| result::event_query(self.0.device.driver(), self.0.raw))
    }

    /// Blocks until all work before the event is done.
    pub fn synchronize(&self) -> Result<()> {
        self.0
            .device
            .with_current(|| result::event_synchronize(self.0.device.driver(), self.0.raw))
    }
}

impl Drop for EventInner {
    fn drop(&mut self) {
        self.device
            .clean_up(|driver| result::event_destroy(driver, self.raw));
    }
}
