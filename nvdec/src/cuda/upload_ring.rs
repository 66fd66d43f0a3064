//! Copies bytes to a device from a ring of page-locked memory: the host writes one segment while
//! the other is copied. The host waits only if the device is a whole segment behind.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;

use super::result;
use super::{Event, HostMemory, Stream};
use crate::{Error, Result};

/// Bytes of a segment, unless one upload needs more.
const MIN_SEGMENT_BYTES: usize = 1 << 20;

const SEGMENTS: usize = 2;

/// Alignment of the bytes of an upload, for stores of 64 bytes.
const ALIGN: usize = 64;

/// Page-locked memory whose content one stream copies to its device.
pub struct UploadRing {
    stream: Arc<Stream>,
    /// Empty until the first upload; all of one size.
    segments: Vec<Segment>,
    current: usize,
    /// The part of the current segment that copies may be reading; what follows is free.
    used: usize,
    /// The bytes that were reserved last.
    reserved: Range<usize>,
}

struct Segment {
    memory: HostMemory,
    /// After the copies that read the segment when it was last full.
    read: Option<Event>,
}

impl UploadRing {
    /// Creates a ring without memory, whose copies run in `stream`.
    pub fn new(stream: Arc<Stream>) -> UploadRing {
        UploadRing {
            stream,
            segments: Vec::new(),
            current: 0,
            used: 0,
            reserved: 0..0,
        }
    }

    /// Bytes of page-locked memory.
    pub fn bytes(&self) -> usize {
        self.segments
            .iter()
            .map(|segment| segment.memory.len())
            .sum()
    }

    /// Returns `bytes` bytes that no copy reads, with unspecified content, for the next calls of
    /// [`UploadRing::upload`]. Waits if the device has not read the oldest segment yet.
    ///
    /// # Errors
    /// [`Error::NotPageLocked`] if the driver does not provide so much memory.
    pub fn reserve(&mut self, bytes: usize) -> Result<&mut [u8]> {
        if self
            .segments
            .first()
            .is_none_or(|segment| segment.memory.len() < bytes)
        {
            self.grow(bytes)?;
        }
        let mut start = self.used.next_multiple_of(ALIGN);
        if start
            .checked_add(bytes)
            .is_none_or(|end| end > self.segments[self.current].memory.len())
        {
            self.advance()?;
            start = 0;
        }
        self.reserved = start..start + bytes;
        let base = self.segments[self.current].memory.start();
        // SAFETY: the range is within the segment, as was just ensured, and initialized. No copy
        // reads it: copies read only what was reserved before, which ends at `used`, and `advance`
        // has waited for those of the last round. The ring is borrowed exclusively.
        Ok(unsafe { std::slice::from_raw_parts_mut(base.add(start), bytes) })
    }

    /// Enqueues a copy of a part of the bytes that were reserved last to the address `to` of the
    /// device. The bytes are not reserved again before the copy is done.
    ///
    /// # Errors
    /// [`Error::Misuse`] if the part is outside of these bytes.
    pub fn upload(&mut self, to: u64, part: Range<usize>) -> Result<()> {
        let (first, end) = (
            self.reserved.start.checked_add(part.start),
            self.reserved.start.checked_add(part.end),
        );
        let (Some(first), Some(end)) = (first, end.filter(|&end| end <= self.reserved.end)) else {
            return Err(Error::Misuse("an upload of bytes that were not reserved"));
        };
        if first >= end {
            return Ok(());
        }
        self.used = self.reserved.end;
        let device = self.stream.device();
        let base = self.segments[self.current].memory.start();
        // SAFETY: `first..end` is within the segment, since it is within the reserved bytes. The
        // segment is neither reserved again nor freed before an event or the stream shows that the
        // copy is done (`advance`, `grow`, `drop`).
        device.with_current(|| unsafe {
            result::copy_from_locked(
                device.driver(),
                self.stream.raw_handle(),
                to,
                base.add(first),
                end - first,
            )
        })
    }

    /// Makes the next segment the current one, once the copies that read it are done.
    fn advance(&mut self) -> Result<()> {
        if self.used > 0 {
            self.segments[self.current].read = Some(self.stream.record()?);
        }
        let next = (self.current + 1) % self.segments.len();
        if let Some(read) = &self.segments[next].read
            && !read.is_complete()?
        {
            read.synchronize()?;
        }
        self.segments[next].read = None;
        (self.current, self.used) = (next, 0);
        Ok(())
    }

    /// Replaces the segments by larger ones.
    fn grow(&mut self, bytes: usize) -> Result<()> {
        self.wait()?;
        self.segments.clear();
        let len = bytes.max(MIN_SEGMENT_BYTES);
        let device = self.stream.device();
        let made: Result<Vec<Segment>> = (0..SEGMENTS)
            .map(|_| {
                Ok(Segment {
                    memory: device.allocate_host(len)?,
                    read: None,
                })
            })
            .collect();
        self.segments = made?;
        (self.current, self.used, self.reserved) = (0, 0, 0..0);
        Ok(())
    }

    /// Waits for all copies.
    fn wait(&self) -> Result<()> {
        match self.segments.is_empty() {
            true => Ok(()),
            false => self.stream.synchronize(),
        }
    }
}

impl Drop for UploadRing {
    fn drop(&mut self) {
        // The segments are freed next. If the device does not respond, it copies nothing any more.
        let _ = self.wait();
    }
}
