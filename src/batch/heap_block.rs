//! One block of pageable host memory, from the allocator or, if it is large, from the system.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Alignment for AVX-512 stores and for a GPU's copy engine.
pub(super) const ALIGN: usize = 64;

/// Memory of the allocator or, if it is large, of the system.
pub(super) struct HeapBlock {
    /// The address as allocated.
    base: NonNull<u8>,
    len: usize,
}

/// Blocks of at least this size come from the system and are reused: the allocator of the C library
/// would keep them in its heaps when they are freed, or return them to the system each time.
const MIN_MAPPED_BYTES: usize = 128 << 10;

// SAFETY: plain memory with a single owner.
unsafe impl Send for HeapBlock {}
// SAFETY: shared references to a block give no access to its memory (see BatchBuffer and ClipSlot).
unsafe impl Sync for HeapBlock {}

impl HeapBlock {
    /// The size of the block for `len` bytes, at most an eighth larger: sizes are rounded so that
    /// results of different sizes can use the same blocks. `None` if it overflows.
    pub(super) fn size_class(len: usize) -> Option<usize> {
        if !Self::is_reusable(len) {
            return Some(len);
        }
        len.checked_next_multiple_of((1 << len.ilog2()) / 8)
    }

    /// Whether free blocks of this size are kept for reuse.
    pub(super) fn is_reusable(len: usize) -> bool {
        len >= MIN_MAPPED_BYTES
    }

    /// Allocates a block of zeros. Returns `None` if there is not enough memory.
    pub(super) fn new(len: usize) -> Option<Self> {
        let base = if Self::is_reusable(len) {
            let (access, kind) = (
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            );
            // SAFETY: a new mapping at an address that the system chooses; nothing else refers to
            // it.
            let base = unsafe { libc::mmap(std::ptr::null_mut(), len, access, kind, -1, 0) };
            if base == libc::MAP_FAILED {
                return None;
            }
            base.cast()
        } else {
            // SAFETY: the layout's size is at least ALIGN, not zero.
            unsafe { alloc_zeroed(Self::layout(len)?) }
        };
        NonNull::new(base).map(|base| Self { base, len })
    }

    /// Leaves room to start at a multiple of ALIGN. The layout does not request that alignment,
    /// because the allocator would then write zeros into fresh pages, which are zero already.
    fn layout(len: usize) -> Option<Layout> {
        Layout::from_size_align(len.checked_add(ALIGN)?, 1).ok()
    }

    pub(super) fn start(&self) -> *mut u8 {
        let base = self.base.as_ptr();
        base.wrapping_add(base.addr().wrapping_neg() % ALIGN) // mappings start at a page
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn fill(&mut self, value: u8) {
        // SAFETY: the block has `len` bytes from `start`, and is borrowed exclusively.
        unsafe { std::ptr::write_bytes(self.start(), value, self.len) };
    }
}

impl Drop for HeapBlock {
    fn drop(&mut self) {
        if Self::is_reusable(self.len) {
            // SAFETY: mapped in `new` with the same length, unmapped once.
            unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
            return;
        }
        let layout = Self::layout(self.len).expect("as when it was allocated");
        // SAFETY: allocated in `new` with the same layout, freed once.
        unsafe { dealloc(self.base.as_ptr(), layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_classes_are_at_most_an_eighth_larger() {
        for len in [
            MIN_MAPPED_BYTES,
            MIN_MAPPED_BYTES + 1,
            1 << 20,
            (1 << 20) + 1,
            99_532_800,
            (1 << 40) - 1,
        ] {
            let class = HeapBlock::size_class(len).unwrap();
            assert!(
                class >= len && class - len < len / 8 && class.is_multiple_of(4096),
                "{len}: {class}"
            );
            assert_eq!(HeapBlock::size_class(class), Some(class));
        }
        assert_eq!(
            (
                HeapBlock::size_class(100),
                HeapBlock::size_class(usize::MAX)
            ),
            (Some(100), None)
        );
    }
}
