//! In: who writes to a stretch of device memory, and on which streams.
//! Out: the waits that keep writers, earlier readers and later ones in order.
//! Never: waits on the host.

use std::sync::Arc;

use framespool_nvdec::cuda::{Event, Stream};

use crate::error::Result;

/// The streams that write one clip, in the order in which they came to it.
#[derive(Default)]
pub struct Tracks {
    /// What must be over before the first write: readers and writers of what lay here before.
    before: Vec<Event>,
    last: Option<Arc<Stream>>,
}

impl Tracks {
    pub(super) fn new(before: Vec<Event>) -> Self {
        Self { before, last: None }
    }

    /// What a stream enqueues from here on comes after everything that was written before, and after whoever used the
    /// memory for something else.
    pub fn begin(&mut self, stream: &Arc<Stream>) -> Result<()> {
        match &self.last {
            Some(last) if Arc::ptr_eq(last, stream) => return Ok(()),
            Some(last) => stream.wait(&last.record()?)?,
            None => self.before.iter().try_for_each(|event| stream.wait(event))?,
        }
        self.last = Some(stream.clone());
        Ok(())
    }

    /// The event after which all that was written is there; `None` where nothing was. Where it cannot be had, what was written is
    /// still owed one.
    pub(super) fn end(&mut self) -> Result<Option<Event>> {
        let event = self.last.as_ref().map(|last| last.record()).transpose()?;
        self.last = None;
        Ok(event)
    }
}

/// A stretch of device memory, to be written.
pub struct Spot<'a> {
    /// Its first byte.
    pub address: u64,
    /// Bytes.
    pub len: usize,
    pub(super) tracks: &'a mut Tracks,
}

impl Spot<'_> {
    /// See [`Tracks::begin`]; to be called before anything is enqueued that writes here.
    pub fn begin(&mut self, stream: &Arc<Stream>) -> Result<()> {
        self.tracks.begin(stream)
    }
}

/// Where a clip is written.
pub enum Target<'a> {
    /// Host memory.
    Host(&'a mut [u8]),
    /// Device memory.
    Device(Spot<'a>),
}
