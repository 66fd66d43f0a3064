//! In: the number and size of a batch's clips.
//! Out: one aligned block, lent out in parts, handed over whole.
//! Never: two owners of one byte: a part is lent once, and the block is readable only when all parts are back.
#![allow(unsafe_code)]

use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

/// Good for AVX-512 stores and for a GPU's copy engine.
const ALIGN: usize = 64;

/// A block of memory that belongs to one owner at a time.
struct Block {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: plain memory with a single owner.
unsafe impl Send for Block {}
// SAFETY: shared references to a block hand out no access by themselves (see Slab and Part).
unsafe impl Sync for Block {}

impl Block {
    /// `None` when memory is short.
    fn new(len: usize) -> Option<Self> {
        // SAFETY: the layout's size is at least ALIGN, not zero.
        let start = unsafe { alloc_zeroed(Self::layout(len)) };
        NonNull::new(start).map(|start| Self { start, len })
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len.max(ALIGN), ALIGN).expect("a block shorter than isize::MAX")
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout, freed once.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.len)) };
    }
}

/// Keeps blocks for reuse: a batch's memory is the same size as the last one's, and fresh pages are slow to touch.
#[derive(Default)]
pub struct Pool {
    free: Mutex<Vec<Block>>,
    most: usize,
}

impl Pool {
    /// Keeps at most `most` blocks that nobody uses.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { free: Mutex::new(Vec::new()), most })
    }

    fn take(&self, len: usize) -> Option<Block> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        // An epoch's last batch may be smaller than the others; it need not have memory of its own.
        let fits = |b: &Block| b.len >= len && b.len <= len.saturating_mul(16);
        match free.iter().position(fits) {
            Some(at) => Some(free.swap_remove(at)),
            None => {
                drop(free);
                Block::new(len)
            }
        }
    }

    fn give(&self, block: Block) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(block);
        if free.len() > self.most {
            free.remove(0); // the oldest: if sizes have changed, it is of the size that is not asked for any more
        }
    }
}

/// The memory of one batch.
pub struct Slab {
    block: Option<Block>,
    pool: Arc<Pool>,
    used: usize,
}

impl Slab {
    /// Memory for `clips` clips of `clip_bytes` bytes each, and its parts. Content is unspecified (of an earlier
    /// batch): every part must be filled. `None` if there is not that much memory.
    pub fn lend(pool: &Arc<Pool>, clips: usize, clip_bytes: usize) -> Option<(Lent, Vec<Part>)> {
        let len = clips.checked_mul(clip_bytes).filter(|&n| n <= isize::MAX as usize - ALIGN)?;
        let slab = Arc::new(Slab { block: Some(pool.take(len)?), pool: pool.clone(), used: len });
        let parts = (0..clips)
            .map(|i| Part { slab: slab.clone(), offset: i * clip_bytes, len: clip_bytes })
            .collect();
        Some((Lent(slab), parts))
    }

    fn start(&self) -> *mut u8 {
        self.block.as_ref().expect("present until Drop").start.as_ptr()
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: a `Slab` by itself exists only after `Lent::collect` proved that all parts are gone.
        unsafe { std::slice::from_raw_parts(self.start(), self.used) }
    }

    /// The bytes, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.used) }
    }

    /// Where the bytes lie, for hand-over through DLPack.
    pub fn address(&self) -> *mut u8 {
        self.start()
    }

    /// Keeps only the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.used = self.used.min(len);
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.pool.give(block);
        }
    }
}

/// A slab whose parts are out.
pub struct Lent(Arc<Slab>);

impl Lent {
    /// The slab, if all parts have been dropped; else itself again.
    pub fn collect(self) -> Result<Slab, Self> {
        Arc::try_unwrap(self.0).map_err(Lent)
    }
}

/// One clip's bytes, owned by whoever writes them.
pub struct Part {
    slab: Arc<Slab>,
    offset: usize,
    len: usize,
}

impl Part {
    /// The bytes to fill.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: parts of a slab do not overlap and each exists once (`lend` makes them, nothing clones them); the
        // slab itself gives no access while a part is alive.
        unsafe { std::slice::from_raw_parts_mut(self.slab.start().add(self.offset), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_written_by_several_threads_and_collected_whole() {
        let pool = Pool::new(2);
        let (lent, parts) = Slab::lend(&pool, 4, 10).unwrap();
        std::thread::scope(|scope| {
            for (i, mut part) in parts.into_iter().enumerate() {
                scope.spawn(move || part.bytes_mut().fill(i as u8));
            }
        });
        let slab = lent.collect().ok().unwrap();
        assert_eq!(slab.bytes().chunks(10).map(|c| c[9]).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(slab.address() as usize % ALIGN, 0);
    }

    #[test]
    fn a_slab_is_not_readable_while_a_part_is_out() {
        let (lent, mut parts) = Slab::lend(&Pool::new(1), 2, 1).unwrap();
        parts.truncate(1);
        let lent = lent.collect().err().expect("a part is still out");
        drop(parts);
        assert!(lent.collect().is_ok());
    }

    #[test]
    fn memory_is_reused_and_absurd_sizes_are_refused() {
        let pool = Pool::new(1);
        let slab = |bytes| {
            let (lent, parts) = Slab::lend(&pool, 1, bytes).unwrap();
            drop(parts);
            lent.collect().ok().unwrap()
        };
        let first = slab(1000);
        let address = first.address() as usize;
        drop(first);
        assert_eq!(slab(1000).address() as usize, address);
        assert!(Slab::lend(&pool, usize::MAX, 2).is_none());
        assert!(Slab::lend(&pool, 1 << 20, 1 << 40).is_none());
    }
}
