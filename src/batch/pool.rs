//! Allocates blocks of host or device memory and reuses free blocks of a suitable size, its own
//! ones first. Host memory that it does not keep goes to the free blocks of the process
//! (`host_cache.rs`). A block that a device reads or writes is reused only with the events of its
//! last writes and reads.

use std::sync::Arc;

use framespool_nvdec::cuda::{self, Device, Event, HostMemory, Memory};
use framespool_nvdec::pool::DecoderPool;

use super::heap_block::HeapBlock;
use super::host_cache::HOST_CACHE;
use crate::error::{Error, Result};
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// A block of memory with one owner at a time.
pub(super) enum Block {
    Host(HostBlock),
    Device(DeviceBlock),
}

/// Host memory.
pub(super) enum HostBlock {
    Pageable(HeapBlock),
    PageLocked(PageLockedBlock),
}

/// Memory that devices copy from after the call that enqueues the copy has returned.
pub(super) struct PageLockedBlock {
    /// Present until Drop.
    memory: Option<HostMemory>,
    /// The copies of earlier contents that may still run.
    pending_events: Vec<Event>,
    /// Earlier contents may have been copied on streams that are not known: nothing less than a
    /// wait for all devices shows the end of such copies.
    is_untracked: bool,
}

/// Device memory, with the events of its last writes and reads.
pub(super) struct DeviceBlock {
    pub memory: Memory,
    pub pending_events: Vec<Event>,
}

impl PageLockedBlock {
    fn memory(&self) -> &HostMemory {
        self.memory.as_ref().expect("present until Drop")
    }

    /// Waits for the copies of earlier contents.
    ///
    /// # Errors
    /// That of the driver, which waits for no device while a graph is captured: copies may still
    /// run.
    fn wait(&mut self) -> Result<()> {
        wait_for_events(&self.pending_events)?;
        self.pending_events.clear();
        if self.is_untracked {
            // Every device can copy from page-locked memory, not only the one that locked it.
            unless_lost(cuda::synchronize_all())?;
            self.is_untracked = false;
        }
        Ok(())
    }
}

impl Drop for PageLockedBlock {
    fn drop(&mut self) {
        if self.wait().is_err() {
            std::mem::forget(self.memory.take()); // a copy may still read it
        }
    }
}

/// Waits on the host for these events.
pub(super) fn wait_for_events(events: &[Event]) -> Result<()> {
    events
        .iter()
        .try_for_each(|event| unless_lost(event.synchronize()))
}

/// The error of a wait, unless the device is lost: it then copies nothing any more.
fn unless_lost(waited: framespool_nvdec::Result<()>) -> Result<()> {
    match waited {
        Err(error) if !error.is_lost() => Err(error.into()),
        _ => Ok(()),
    }
}

impl HostBlock {
    pub(super) fn start(&self) -> *mut u8 {
        match self {
            HostBlock::Pageable(block) => block.start(),
            HostBlock::PageLocked(block) => block.memory().start(),
        }
    }

    /// Waits for the copies of earlier contents: the bytes may be written then.
    ///
    /// # Errors
    /// That of the driver: copies may still run.
    pub(super) fn wait(&mut self) -> Result<()> {
        match self {
            HostBlock::Pageable(_) => Ok(()),
            HostBlock::PageLocked(block) => block.wait(),
        }
    }
}

impl Block {
    fn len(&self) -> usize {
        match self {
            Block::Host(HostBlock::Pageable(block)) => block.len(),
            Block::Host(HostBlock::PageLocked(block)) => block.memory().len(),
            Block::Device(block) => block.memory.len(),
        }
    }

    /// The uses of earlier contents that may still run.
    pub(crate) fn pending_events(&self) -> &[Event] {
        match self {
            Block::Host(HostBlock::Pageable(_)) => &[],
            Block::Host(HostBlock::PageLocked(block)) => &block.pending_events,
            Block::Device(block) => &block.pending_events,
        }
    }

    /// The device of the events; `None` for memory that no device uses.
    pub(crate) fn event_device(&self) -> Option<&Arc<Device>> {
        match self {
            Block::Host(HostBlock::Pageable(_)) => None,
            Block::Host(HostBlock::PageLocked(block)) => Some(block.memory().device()),
            Block::Device(block) => Some(block.memory.device()),
        }
    }

    pub(crate) fn pending_events_mut(&mut self) -> Option<&mut Vec<Event>> {
        match self {
            Block::Host(HostBlock::Pageable(_)) => None,
            Block::Host(HostBlock::PageLocked(block)) => Some(&mut block.pending_events),
            Block::Device(block) => Some(&mut block.pending_events),
        }
    }

    /// Records that the contents may have been copied on streams that are not known.
    pub(crate) fn mark_untracked(&mut self) {
        if let Block::Host(HostBlock::PageLocked(block)) = self {
            block.is_untracked = true;
        }
    }

    /// Waits for copies on streams that are not known, before the memory is used again.
    ///
    /// # Errors
    /// That of the driver: copies may still run.
    fn wait_for_untracked(&mut self) -> Result<()> {
        match self {
            Block::Host(HostBlock::PageLocked(block)) if block.is_untracked => block.wait(),
            _ => Ok(()),
        }
    }

    fn is_page_locked(&self) -> bool {
        matches!(self, Block::Host(HostBlock::PageLocked(_)))
    }

    fn is_idle(&self) -> bool {
        let is_untracked =
            matches!(self, Block::Host(HostBlock::PageLocked(block)) if block.is_untracked);
        !is_untracked
            && self
                .pending_events()
                .iter()
                .all(|event| event.is_complete().unwrap_or(false))
    }
}

/// Keeps free blocks for reuse: each batch mostly needs the size of the previous one, and first
/// access to fresh pages is slow.
#[derive(Default)]
pub struct MemoryPool {
    free: Mutex<Vec<Block>>,
    max_free: usize,
    device: Option<Arc<Device>>,
    page_lock: Mutex<PageLock>,
}

/// Whether a pool of host memory page-locks its blocks.
#[derive(Default)]
enum PageLock {
    #[default]
    Off,
    /// With the driver of this device. If that fails, the pool reports it, and continues without.
    Preferred(Arc<Device>),
    /// The same, but a failure is an error.
    Required(Arc<Device>),
    /// The reason of a failure that has not been reported yet.
    Failed(String),
}

impl MemoryPool {
    /// Creates a pool of host memory that keeps at most `max_free` free blocks.
    pub fn new(max_free: usize) -> Arc<Self> {
        Self::on(None, max_free)
    }

    /// Creates a pool of the memory of `device`, or of host memory if `None`.
    pub fn on(device: Option<Arc<Device>>, max_free: usize) -> Arc<Self> {
        Arc::new(Self {
            max_free,
            device,
            ..Self::default()
        })
    }

    /// The device that holds the memory; `None` for host memory.
    pub fn device(&self) -> Option<&Arc<Device>> {
        self.device.as_ref()
    }

    /// Page-locks host memory that is allocated from now on, so that copies from it to a device are
    /// asynchronous. If `required`, a failure is an error of the allocation.
    pub fn page_lock(&self, device: Arc<Device>, required: bool) {
        *self
            .page_lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = if required {
            PageLock::Required(device)
        } else {
            PageLock::Preferred(device)
        };
    }

    /// Returns why memory is no longer page-locked, once.
    pub(crate) fn take_page_lock_failure(&self) -> Option<String> {
        let mut page_lock = self
            .page_lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match std::mem::take(&mut *page_lock) {
            PageLock::Failed(reason) => Some(reason),
            other => {
                *page_lock = other;
                None
            }
        }
    }

    /// The device whose driver page-locks new blocks, and whether a failure is an error.
    fn page_lock_device(&self) -> Option<(Arc<Device>, bool)> {
        match &*self
            .page_lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
        {
            PageLock::Preferred(device) => Some((device.clone(), false)),
            PageLock::Required(device) => Some((device.clone(), true)),
            PageLock::Off | PageLock::Failed(_) => None,
        }
    }

    /// Page-locked memory; `None` if the pool is to use other memory.
    fn page_locked(&self, len: usize) -> Result<Option<Block>> {
        let Some((device, required)) = self.page_lock_device() else {
            return Ok(None);
        };
        match device.allocate_host(len) {
            Ok(memory) => Ok(Some(Block::Host(HostBlock::PageLocked(PageLockedBlock {
                memory: Some(memory),
                pending_events: Vec::new(),
                is_untracked: false,
            })))),
            Err(error) if required => Err(error.into()),
            Err(error) => {
                *self
                    .page_lock
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner) =
                    PageLock::Failed(format!("batches are not page-locked: {error}"));
                Ok(None)
            }
        }
    }

    /// The memory that a buffer of `len` bytes may take: its block may be larger and used before.
    pub(crate) fn block_bytes(&self, len: usize) -> usize {
        if self.device.is_some() {
            return len;
        }
        HeapBlock::size_class(len).unwrap_or(len)
    }

    /// Returns the free host memory of the process to the system.
    pub(crate) fn trim_host_memory() {
        HOST_CACHE.clear();
    }

    /// # Errors
    /// `Argument` if the host is out of memory, `Gpu` if the device is, or if memory that must be
    /// page-locked is not.
    pub(super) fn allocate(&self, len: usize) -> Result<Block> {
        let page_locked = self.page_lock_device().is_some();
        let mut free = self.lock();
        // The last batch of an epoch may be smaller than the others; it can reuse a larger block.
        // Blocks from before page-locking was requested are not used again.
        let fits = |b: &Block| {
            b.len() >= len
                && b.len() <= len.saturating_mul(16)
                && (b.is_page_locked() || !page_locked)
        };
        // An idle block first, because the writers of any other block wait for its readers.
        let idle = free.iter().position(|b| fits(b) && b.is_idle());
        let may_add = (self.device.is_some() || page_locked) && free.len() < self.max_free;
        let found = idle.or_else(|| free.iter().position(fits).filter(|_| !may_add));
        let found = found.map(|at| free.swap_remove(at));
        drop(free); // waiting is slow: not under the lock
        if let Some(mut block) = found {
            match block.wait_for_untracked() {
                Ok(()) => return Ok(block),
                // It stays free until a later wait succeeds, and a new block is used.
                Err(_) => self.lock().push(block),
            }
        }
        let Some(device) = &self.device else {
            let short = || {
                Error::Argument(format!(
                    "no memory for {len} bytes; use a smaller batch_size or clips"
                ))
            };
            if let Some(block) = self.page_locked(len)? {
                return Ok(block);
            }
            return HOST_CACHE
                .allocate(len)
                .map(|block| Block::Host(HostBlock::Pageable(block)))
                .ok_or_else(short);
        };
        let memory = match device.allocate(len) {
            Err(error) if error.is_out_of_memory() => {
                let mut free = self.lock();
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
        Ok(Block::Device(DeviceBlock {
            memory: memory?,
            pending_events: Vec::new(),
        }))
    }

    pub(super) fn release(&self, block: Block) {
        let mut free = self.lock();
        free.push(block);
        while free.len() > self.max_free {
            // Frees the oldest block: if sizes have changed, it has the size that is no longer
            // requested.
            let mut oldest = free.remove(0);
            drop(free); // waiting is slow, and so is freeing device memory: not under the lock
            if let Block::Host(block) = &mut oldest
                && block.wait().is_err()
            {
                return self.lock().push(oldest); // until a later wait succeeds
            }
            match oldest {
                Block::Host(HostBlock::Pageable(block)) => HOST_CACHE.release(block),
                other => drop(other),
            }
            free = self.lock();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Block>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(len: usize) -> Block {
        Block::Host(HostBlock::Pageable(HeapBlock::new(len).unwrap()))
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
        [10, 20, 30]
            .into_iter()
            .for_each(|len| pool.release(block(len)));
        let kept: Vec<usize> = pool.free.lock().unwrap().iter().map(Block::len).collect();
        assert_eq!(kept, [20, 30]);
    }
}
