//! Allocates a batch buffer as one aligned block of host or device memory, divided into clip slots.
//! Each clip slot exists once, and the block is readable only after all its slots are dropped.
#![allow(unsafe_code)]

use std::sync::Arc;

use framespool_nvdec::cuda::{Device, Event, Stream};

use super::heap_block::ALIGN;
use super::pool::{Block, MemoryPool};
use super::stream_order::{DeviceSliceMut, OutputMut, StreamOrder};
use crate::error::{Error, Result};
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// CUDA's default stream, which all threads share.
const LEGACY_DEFAULT_STREAM: u64 = 1;

/// The memory of one batch.
pub struct BatchBuffer {
    block: Option<Block>,
    pool: Arc<MemoryPool>,
    used: usize,
    /// On a device: the events that mark the end of the writes, and those that mark the end of
    /// reads. In page-locked memory: the latter.
    events: Mutex<Box<Events>>,
}

#[derive(Default)]
struct Events {
    written: Vec<Event>,
    read: Vec<Event>,
    /// External streams that read the buffer, with their devices. Their work enqueued until the
    /// buffer is dropped counts as reads.
    readers: Vec<(Arc<Device>, u64)>,
    /// Whether some work on the buffer could not be marked by an event, so that its end is unknown.
    unsynchronized: bool,
}

impl BatchBuffer {
    /// Allocates memory for `clips` clips of `clip_bytes` bytes each, and its clip slots. The
    /// content is unspecified (left from an earlier batch): every slot must be filled.
    ///
    /// # Errors
    /// `Argument` if the host has not enough memory, `Gpu` if the device has not.
    pub fn allocate(
        pool: &Arc<MemoryPool>,
        clips: usize,
        clip_bytes: usize,
    ) -> Result<(BufferBuilder, Vec<ClipSlot>)> {
        let len = clips
            .checked_mul(clip_bytes)
            .filter(|&n| n <= isize::MAX as usize - ALIGN);
        let len = len.ok_or_else(|| {
            Error::Argument(format!(
                "{clips} clips of {clip_bytes} bytes do not fit into memory"
            ))
        })?;
        let block = pool.allocate(len)?;
        let before = block.pending_events().to_vec();
        let buffer = Arc::new(BatchBuffer {
            block: Some(block),
            pool: pool.clone(),
            used: len,
            events: Mutex::default(),
        });
        let slots = (0..clips)
            .map(|i| ClipSlot {
                buffer: buffer.clone(),
                offset: i * clip_bytes,
                len: clip_bytes,
                stream_order: StreamOrder::new(before.clone()),
            })
            .collect();
        Ok((BufferBuilder(buffer), slots))
    }

    fn block(&self) -> &Block {
        self.block.as_ref().expect("present until Drop")
    }

    /// The device that holds the memory; `None` for host memory.
    pub fn device(&self) -> Option<&Arc<Device>> {
        match self.block() {
            Block::Host(_) => None,
            Block::Device(block) => Some(block.memory.device()),
        }
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether the buffer has no bytes.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The bytes; `None` for device memory.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self.block() {
            Block::Host(block) => {
                // SAFETY: a `BatchBuffer` by itself exists only after `BufferBuilder::freeze`
                // proved that all clip slots are gone.
                Some(unsafe { std::slice::from_raw_parts(block.start(), self.used) })
            }
            Block::Device(_) => None,
        }
    }

    /// The bytes, mutable; `None` for device memory.
    ///
    /// # Errors
    /// `Gpu` if the driver does not show the end of the copies of earlier contents.
    pub(crate) fn bytes_mut(&mut self) -> Result<Option<&mut [u8]>> {
        match self.block.as_mut().expect("present until Drop") {
            Block::Host(block) => {
                block.wait()?;
                // SAFETY: as above, and `self` is borrowed exclusively. No copy reads the bytes:
                // those of earlier contents are done, and the content has no other user yet.
                Ok(Some(unsafe {
                    std::slice::from_raw_parts_mut(block.start(), self.used)
                }))
            }
            Block::Device(_) => Ok(None),
        }
    }

    /// The address of the bytes, on the host or on the device.
    pub fn address(&self) -> u64 {
        match self.block() {
            Block::Host(block) => block.start().addr() as u64,
            Block::Device(block) => block.memory.address(),
        }
    }

    /// The address of the bytes as a pointer, for export through DLPack.
    pub fn pointer(&self) -> *mut u8 {
        match self.block() {
            Block::Host(block) => block.start(),
            Block::Device(block) => {
                std::ptr::without_provenance_mut(block.memory.address() as usize)
            }
        }
    }

    /// Keeps only the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.used = self.used.min(len);
    }

    fn events(&self) -> MutexGuard<'_, Box<Events>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The events after which the content is written; empty for host memory.
    pub fn written(&self) -> Vec<Event> {
        self.events().written.clone()
    }

    /// Enqueues work on the whole buffer on a stream: after all earlier reads and writes, also those
    /// of the previous content, which a slot without a clip still has, and before all users that
    /// call [`Self::written`] from now on.
    pub(crate) fn modify_on_stream(
        &mut self,
        stream: &Stream,
        work: impl FnOnce(u64, &Stream) -> Result<()>,
    ) -> Result<()> {
        let (written, read) = {
            let events = self.events();
            (events.written.clone(), events.read.clone())
        };
        let earlier = self.block().pending_events().iter();
        earlier
            .chain(&written)
            .chain(&read)
            .try_for_each(|event| stream.wait(event))?;
        let recorded = work(self.address(), stream).and_then(|()| Ok(stream.record()?));
        let mut events = self.events();
        events.unsynchronized |= recorded.is_err();
        events.written = vec![recorded?];
        Ok(())
    }

    /// The device that holds the memory or that page-locked it; `None` for memory that no device
    /// reads or writes.
    pub fn event_device(&self) -> Option<&Arc<Device>> {
        self.block().event_device()
    }

    /// Whether the bytes are in page-locked host memory, from which devices copy while the caller
    /// continues.
    pub fn is_page_locked(&self) -> bool {
        matches!(self.block(), Block::Host(_)) && self.block().event_device().is_some()
    }

    /// Records a read that ends at this event: the memory is not written again before the event.
    pub fn add_reader_event(&self, event: Event) {
        self.events().read.push(event);
    }

    /// Records a read whose end is unknown. Memory of a device is not reused at all: it is freed
    /// instead, and freeing waits for all work that uses it. Memory of the host is reused once all
    /// devices are idle.
    pub fn mark_unsynchronized(&self) {
        self.events().unsynchronized = true;
    }

    /// Records a read on an external stream of a device: the memory is not written again before
    /// the work that the stream has received by the time the buffer is dropped. The stream must
    /// exist until then.
    pub fn record_stream(&self, device: &Arc<Device>, stream: u64) {
        let mut events = self.events();
        let is_same =
            |(known, raw): &(Arc<Device>, u64)| Arc::ptr_eq(known, device) && *raw == stream;
        if !events.readers.iter().any(is_same) {
            events.readers.push((device.clone(), stream));
        }
    }

    /// Copies a range of bytes to the host, from host or device memory; waits until it is written.
    ///
    /// # Errors
    /// `Gpu` if the device memory cannot be read.
    pub fn copy_to_host(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        match self.block() {
            Block::Host(_) => {
                to.copy_from_slice(&self.bytes().unwrap_or_default()[offset..][..to.len()])
            }
            Block::Device(block) => {
                let stream = block.memory.device().create_stream()?;
                self.written()
                    .iter()
                    .try_for_each(|event| stream.wait(event))?;
                stream.download(to, block.memory.address() + offset as u64)?;
            }
        }
        Ok(())
    }
}

impl Drop for BatchBuffer {
    fn drop(&mut self) {
        let Some(mut block) = self.block.take() else {
            return;
        };
        if let Some(device) = block.event_device().cloned() {
            let Events {
                written,
                mut read,
                mut readers,
                mut unsynchronized,
            } = std::mem::take(&mut **self.events());
            if matches!(block, Block::Host(_)) {
                // A copy from page-locked memory that was not recorded is usually on this stream.
                readers.push((device, LEGACY_DEFAULT_STREAM));
            }
            if read.is_empty() {
                // The user may have copied the batch without `to()`, on any stream.
                block.mark_untracked();
            }
            for (device, stream) in readers {
                match device.record_on_external(stream) {
                    Ok(event) => read.push(event),
                    Err(_) => unsynchronized = true,
                }
            }
            match &block {
                Block::Device(_) if unsynchronized => return, // freeing it waits for all work that uses it
                _ if unsynchronized => block.mark_untracked(),
                _ => {}
            }
            // The events of before this content was written still count: a clip slot may not have
            // been written.
            if let Some(pending_events) = block.pending_events_mut() {
                pending_events.extend(written.into_iter().chain(read));
                pending_events.retain(|event| !event.is_complete().unwrap_or(false));
            }
        }
        self.pool.release(block);
    }
}

/// A batch buffer whose clip slots may still exist.
pub struct BufferBuilder(Arc<BatchBuffer>);

impl BufferBuilder {
    /// Returns the buffer if all clip slots are dropped; otherwise returns the builder.
    pub fn freeze(self) -> Result<BatchBuffer, Self> {
        Arc::try_unwrap(self.0).map_err(BufferBuilder)
    }
}

/// The bytes of one clip in a batch buffer, owned by their writer.
pub struct ClipSlot {
    buffer: Arc<BatchBuffer>,
    offset: usize,
    len: usize,
    stream_order: StreamOrder,
}

impl ClipSlot {
    /// The bytes to fill.
    ///
    /// # Errors
    /// `Gpu` if the driver does not show the end of the copies of earlier contents.
    pub fn target(&mut self) -> Result<OutputMut<'_>> {
        Ok(match self.buffer.block() {
            Block::Host(block) => {
                self.stream_order.wait_on_host()?;
                // SAFETY: the clip slots of a buffer do not overlap and each exists once
                // (`BatchBuffer::allocate` makes them, nothing clones them); the buffer itself
                // gives no access while a clip slot is alive. The copies of earlier contents are
                // done.
                OutputMut::Host(unsafe {
                    std::slice::from_raw_parts_mut(block.start().add(self.offset), self.len)
                })
            }
            Block::Device(block) => OutputMut::Device(DeviceSliceMut {
                address: block.memory.address() + self.offset as u64,
                len: self.len,
                stream_order: &mut self.stream_order,
            }),
        })
    }

    /// Ends the writes: readers of the buffer wait for the writes that are enqueued.
    ///
    /// # Errors
    /// `Gpu` if the device does not respond: the content is then unreliable.
    pub fn record_write(&mut self) -> Result<()> {
        if let Some(event) = self.stream_order.end()? {
            self.buffer.events().written.push(event);
        }
        Ok(())
    }
}

impl Drop for ClipSlot {
    fn drop(&mut self) {
        crate::sync::yield_point();
        // A clip slot may be dropped in the middle of its writes: these must end before the memory
        // is reused.
        if self.record_write().is_err() {
            self.buffer.events().unsynchronized = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(buffer_slot: &mut ClipSlot, value: u8) {
        let OutputMut::Host(bytes) = buffer_slot.target().unwrap() else {
            panic!("host memory was requested")
        };
        bytes.fill(value);
    }

    #[test]
    fn clip_slots_are_written_by_several_threads() {
        let pool = MemoryPool::new(2);
        let (builder, slots) = BatchBuffer::allocate(&pool, 4, 10).unwrap();
        std::thread::scope(|scope| {
            for (i, mut buffer_slot) in slots.into_iter().enumerate() {
                scope.spawn(move || fill(&mut buffer_slot, i as u8));
            }
        });
        let buffer = builder.freeze().ok().unwrap();
        assert_eq!(
            buffer
                .bytes()
                .unwrap()
                .chunks(10)
                .map(|c| c[9])
                .collect::<Vec<_>>(),
            [0, 1, 2, 3]
        );
        assert_eq!(buffer.address() as usize % ALIGN, 0);
    }

    #[test]
    fn a_buffer_is_not_readable_while_a_slot_is_out() {
        let (builder, mut slots) = BatchBuffer::allocate(&MemoryPool::new(1), 2, 1).unwrap();
        slots.truncate(1);
        let builder = builder.freeze().err().expect("a part is still out");
        drop(slots);
        assert!(builder.freeze().is_ok());
    }

    #[test]
    fn a_truncated_buffer_shows_only_its_first_bytes() {
        let (builder, slots) = BatchBuffer::allocate(&MemoryPool::new(1), 3, 2).unwrap();
        slots
            .into_iter()
            .enumerate()
            .for_each(|(i, mut buffer_slot)| fill(&mut buffer_slot, i as u8 + 1));
        let mut buffer = builder.freeze().ok().unwrap();
        buffer.truncate(9); // more than the buffer holds
        assert_eq!((buffer.len(), buffer.is_empty()), (6, false));
        buffer.truncate(4);
        buffer.bytes_mut().unwrap().unwrap()[3] = 7;
        assert_eq!(buffer.bytes().unwrap(), [1, 1, 2, 7]);
        assert_eq!(buffer.pointer().addr() as u64, buffer.address());
        let mut copied = [0; 2];
        buffer.copy_to_host(2, &mut copied).unwrap();
        assert_eq!(copied, [2, 7]);
        buffer.truncate(0);
        assert_eq!((buffer.len(), buffer.is_empty()), (0, true));
    }

    #[test]
    fn memory_is_reused_and_absurd_sizes_are_rejected() {
        let pool = MemoryPool::new(1);
        let buffer = |bytes| {
            let (builder, slots) = BatchBuffer::allocate(&pool, 1, bytes).unwrap();
            drop(slots);
            builder.freeze().ok().unwrap()
        };
        let first = buffer(1000);
        let address = first.address() as usize;
        drop(first);
        assert_eq!(buffer(1000).address() as usize, address);
        assert!(BatchBuffer::allocate(&pool, usize::MAX, 2).is_err());
        // Miri aborts if an allocation fails.
        assert!(cfg!(miri) || BatchBuffer::allocate(&pool, 1 << 20, 1 << 40).is_err());
    }
}
