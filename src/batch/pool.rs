//! Allocates blocks of host or device memory and reuses free blocks of a suitable size.
//! A device block is reused only with the events of its last writes and reads.
#![allow(unsafe_code)]

use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::ptr::NonNull;
use std::sync::Arc;

use framespool_nvdec::cuda::{Device, Event, Memory};
use framespool_nvdec::pool::DecoderPool;

use crate::error::{Error, Result};
use crate::sync::{Mutex, PoisonError};

/// Alignment for AVX-512 stores and for a GPU's copy engine.
pub(super) const ALIGN: usize = 64;

/// A block of memory with one owner at a time.
pub(super) enum Block {
    Host(HostBlock),
    Device(DeviceBlock),
}

/// Host memory.
pub(super) struct HostBlock {
    /// The address as allocated.
    base: NonNull<u8>,
    len: usize,
}

/// Device memory, with the events of its last writes and reads.
pub(super) struct DeviceBlock {
    pub memory: Memory,
    pub pending_events: Vec<Event>,
}

// SAFETY: plain memory with a single owner.
unsafe impl Send for HostBlock {}
// SAFETY: shared references to a block give no access to its memory (see BatchBuffer and ClipSlot).
unsafe impl Sync for HostBlock {}

impl HostBlock {
    /// Returns `None` if there is not enough memory.
    fn new(len: usize) -> Option<Self> {
        // SAFETY: the layout's size is at least ALIGN, not zero.
        let base = unsafe { alloc_zeroed(Self::layout(len)?) };
        NonNull::new(base).map(|base| Self { base, len })
    }

    /// Leaves room to start at a multiple of ALIGN. The layout does not request that alignment, because the
    /// allocator would then write zeros into fresh pages, which are zero already.
    fn layout(len: usize) -> Option<Layout> {
        Layout::from_size_align(len.checked_add(ALIGN)?, 1).ok()
    }

    pub fn start(&self) -> *mut u8 {
        let base = self.base.as_ptr();
        base.wrapping_add(base.addr().wrapping_neg() % ALIGN)
    }
}

impl Drop for HostBlock {
    fn drop(&mut self) {
        let layout = Self::layout(self.len).expect("as when it was allocated");
        // SAFETY: allocated in `new` with the same layout, freed once.
        unsafe { dealloc(self.base.as_ptr(), layout) };
    }
}

impl Block {
    fn len(&self) -> usize {
        match self {
            Block::Host(block) => block.len,
            Block::Device(block) => block.memory.len(),
        }
    }
}

/// Keeps free blocks for reuse: each batch mostly needs the size of the previous one, and first access to
/// fresh pages is slow.
#[derive(Default)]
pub struct MemoryPool {
    free: Mutex<Vec<Block>>,
    max_free: usize,
    device: Option<Arc<Device>>,
}

impl MemoryPool {
    /// Creates a pool of host memory that keeps at most `max_free` free blocks.
    pub fn new(max_free: usize) -> Arc<Self> {
        Self::on(None, max_free)
    }

    /// Creates a pool of the memory of `device`, or of host memory if `None`.
    pub fn on(device: Option<Arc<Device>>, max_free: usize) -> Arc<Self> {
        Arc::new(Self { free: Mutex::new(Vec::new()), max_free, device })
    }

    /// The device that holds the memory; `None` for host memory.
    pub fn device(&self) -> Option<&Arc<Device>> {
        self.device.as_ref()
    }

    /// # Errors
    /// `Argument` if the host is out of memory, `Gpu` if the device is.
    pub(super) fn allocate(&self, len: usize) -> Result<Block> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        // The last batch of an epoch may be smaller than the others; it can reuse a larger block.
        let fits = |b: &Block| b.len() >= len && b.len() <= len.saturating_mul(16);
        let is_idle = |b: &Block| match b {
            Block::Host(_) => true,
            Block::Device(b) => b.pending_events.iter().all(|event| event.is_complete().unwrap_or(false)),
        };
        // An idle block first, because the writers of any other block wait for its readers.
        let idle = free.iter().position(|b| fits(b) && is_idle(b));
        let may_add = self.device.is_some() && free.len() < self.max_free;
        if let Some(at) = idle.or_else(|| free.iter().position(fits).filter(|_| !may_add)) {
            return Ok(free.swap_remove(at));
        }
        drop(free);
        let Some(device) = &self.device else {
            let short =
                || Error::Argument(format!("no memory for {len} bytes; use a smaller batch_size or clips"));
            return HostBlock::new(len).map(Block::Host).ok_or_else(short);
        };
        let memory = match device.allocate(len) {
            Err(error) if error.is_out_of_memory() => {
                let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
                // Better a block whose readers must be waited for than none.
                if let Some(at) = free.iter().position(fits) {
                    return Ok(free.swap_remove(at));
                }
                // The free blocks of this pool do not have a suitable size, so they are freed.
                let unsuitable = std::mem::take(&mut *free);
                drop(free);
                drop(unsuitable); // not under the lock
                device.allocate(len)
            }
            other => other,
        };
        let memory = memory.or_else(|error| {
            // Idle decoders are closed; they can be created again.
            let idle = || DecoderPool::for_device(device).map_or(0, |decoders| decoders.clear());
            if !error.is_out_of_memory() || idle() == 0 {
                return Err(error);
            }
            device.allocate(len)
        });
        Ok(Block::Device(DeviceBlock { memory: memory?, pending_events: Vec::new() }))
    }

    pub(super) fn release(&self, block: Block) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(block);
        if free.len() > self.max_free {
            // Frees the oldest block: if sizes have changed, it has the size that is no longer requested.
            let oldest = free.remove(0);
            drop(free); // freeing device memory waits for the device: not under the lock
            drop(oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(len: usize) -> Block {
        Block::Host(HostBlock::new(len).unwrap())
    }

    #[test]
    fn block_is_reused_if_at_least_a_sixteenth_is_used() {
        let taken = |len| {
            let pool = MemoryPool::new(1);
            pool.release(block(1600));
            pool.allocate(len).unwrap().len()
        };
        assert_eq!([1601, 1600, 100, 99].map(taken), [1601, 1600, 1600, 99]);
    }

    #[test]
    fn full_pool_frees_its_oldest_block() {
        let pool = MemoryPool::new(2);
        [10, 20, 30].into_iter().for_each(|len| pool.release(block(len)));
        let kept: Vec<usize> = pool.free.lock().unwrap().iter().map(Block::len).collect();
        assert_eq!(kept, [20, 30]);
    }
}
