//! Keeps free blocks of host memory for the whole process, so that results reuse pages that the
//! system has provided already: the first access to each fresh page costs a page fault and the
//! clearing of the page. There is no thread that trims: each request and each release returns
//! blocks to the system that were free for long.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, OnceLock, TryLockError};
use std::time::{Duration, Instant};

use super::heap_block::HeapBlock;

/// Free bytes that are kept at most: a quarter of the default of `memory_budget`.
const MAX_FREE_BYTES: usize = 512 << 20;

/// Blocks that were free for this long are returned to the system.
const MAX_IDLE: Duration = Duration::from_secs(10);

/// Interval between searches for such blocks.
const TRIM_INTERVAL: Duration = Duration::from_secs(1);

/// Attempts to lock the cache. The lock is held for well under a microsecond.
const MAX_LOCK_ATTEMPTS: usize = 100;

/// The value of `FRAMESPOOL_POISON`, a number from 0 to 255 that fills memory before a decoder or
/// the transforms write to it: results must not change.
pub(crate) fn poison() -> Option<u8> {
    static POISON: OnceLock<Option<u8>> = OnceLock::new();
    *POISON.get_or_init(|| std::env::var("FRAMESPOOL_POISON").ok()?.parse().ok())
}

/// The free blocks of the process.
pub(super) static HOST_CACHE: HostCache = HostCache {
    free: Mutex::new(FreeBlocks::new()),
};

/// Free blocks that all threads share. The lock is the standard library's, also in the model tests:
/// shuttle's exists only during a test, and a thread never yields while it holds this one.
pub(super) struct HostCache {
    free: Mutex<FreeBlocks>,
}

impl HostCache {
    /// Returns a block of at least `len` bytes with unspecified, initialized content; `None` if
    /// there is not enough memory.
    pub(super) fn allocate(&self, len: usize) -> Option<HeapBlock> {
        let len = HeapBlock::size_class(len)?;
        let mut block = self
            .take(len, Instant::now())
            .or_else(|| HeapBlock::new(len))
            .or_else(|| {
                self.clear();
                HeapBlock::new(len)
            })?;
        // Tests notice a result of which not all bytes were written.
        if let Some(value) = poison().or(cfg!(debug_assertions).then_some(0xa5)) {
            block.fill(value);
        }
        Some(block)
    }

    fn take(&self, len: usize, now: Instant) -> Option<HeapBlock> {
        let mut free = self.lock()?;
        // Small requests return old blocks too: there may be no others for a long time.
        let expired = free.trim(now);
        let found = free.take(len);
        drop(free);
        drop(expired); // not under the lock
        found
    }

    /// Keeps a block for reuse, or frees it.
    pub(super) fn release(&self, block: HeapBlock) {
        self.keep(block, Instant::now());
    }

    fn keep(&self, block: HeapBlock, now: Instant) {
        if !HeapBlock::is_reusable(block.len()) {
            return;
        }
        if let Some(mut free) = self.lock() {
            let freed = free.insert(block, now);
            drop(free);
            drop(freed); // not under the lock
        }
    }

    /// Returns all free blocks to the system.
    pub(super) fn clear(&self) {
        let free = self
            .lock()
            .map(|mut free| std::mem::replace(&mut *free, FreeBlocks::new()));
        drop(free); // not under the lock
    }

    /// Never waits for long: after a fork, the child has the lock but not the thread that may have
    /// held it. Without the lock, blocks are allocated and freed.
    fn lock(&self) -> Option<MutexGuard<'_, FreeBlocks>> {
        for _ in 0..MAX_LOCK_ATTEMPTS {
            match self.free.try_lock() {
                Ok(free) => return Some(free),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        }
        None
    }
}

/// Free blocks by size class; within a class, the one that was released last is reused first.
struct FreeBlocks {
    classes: BTreeMap<usize, VecDeque<(Instant, HeapBlock)>>,
    bytes: usize,
    trimmed: Option<Instant>,
}

impl FreeBlocks {
    const fn new() -> Self {
        Self {
            classes: BTreeMap::new(),
            bytes: 0,
            trimmed: None,
        }
    }

    fn take(&mut self, len: usize) -> Option<HeapBlock> {
        let (_, block) = self.classes.get_mut(&len)?.pop_back()?;
        self.bytes -= len;
        Some(block)
    }

    /// Adds a block. Returns the blocks that are to be freed, the oldest ones.
    fn insert(&mut self, block: HeapBlock, now: Instant) -> Vec<HeapBlock> {
        self.bytes += block.len();
        self.classes
            .entry(block.len())
            .or_default()
            .push_back((now, block));
        let mut freed = self.trim(now);
        while self.bytes > MAX_FREE_BYTES {
            let oldest = self
                .classes
                .iter()
                .filter_map(|(&len, blocks)| Some((blocks.front()?.0, len)))
                .min();
            let Some((_, len)) = oldest else { break };
            freed.extend(self.pop_oldest(len));
        }
        freed
    }

    /// Removes the blocks that were free for long.
    fn trim(&mut self, now: Instant) -> Vec<HeapBlock> {
        let since = |then: Instant| now.saturating_duration_since(then);
        if self.trimmed.is_some_and(|then| since(then) < TRIM_INTERVAL) {
            return Vec::new();
        }
        self.trimmed = Some(now);
        let mut expired = Vec::new();
        for len in self.classes.keys().copied().collect::<Vec<_>>() {
            let is_expired = |blocks: &VecDeque<(Instant, HeapBlock)>| {
                blocks
                    .front()
                    .is_some_and(|&(released, _)| since(released) >= MAX_IDLE)
            };
            while self.classes.get(&len).is_some_and(is_expired) {
                expired.extend(self.pop_oldest(len));
            }
        }
        self.classes.retain(|_, blocks| !blocks.is_empty());
        expired
    }

    fn pop_oldest(&mut self, len: usize) -> Option<HeapBlock> {
        let (_, block) = self.classes.get_mut(&len)?.pop_front()?;
        self.bytes -= len;
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn block(len: usize) -> HeapBlock {
        HeapBlock::new(len).unwrap()
    }

    #[test]
    fn the_block_released_last_is_reused_first_within_its_class() {
        let (mut free, now) = (FreeBlocks::new(), Instant::now());
        let (first, last) = (block(MIB), block(MIB));
        let start = last.start();
        assert!(free.insert(first, now).is_empty() && free.insert(last, now).is_empty());
        assert!(free.take(2 * MIB).is_none());
        assert_eq!((free.take(MIB).unwrap().start(), free.bytes), (start, MIB));
    }

    #[test]
    fn free_bytes_are_bounded_and_the_oldest_blocks_are_freed() {
        let (mut free, start) = (FreeBlocks::new(), Instant::now());
        let lens = [MAX_FREE_BYTES / 2, MAX_FREE_BYTES / 4, MAX_FREE_BYTES / 2];
        let freed = |(n, len): (u32, usize)| -> Vec<usize> {
            let released = start + Duration::from_millis(u64::from(n));
            free.insert(block(len), released)
                .iter()
                .map(HeapBlock::len)
                .collect()
        };
        let freed: Vec<_> = (0..).zip(lens).map(freed).collect();
        assert_eq!(freed, [vec![], vec![], vec![lens[0]]]);
        assert_eq!(free.bytes, lens[1] + lens[2]);
        let larger_than_all =
            free.insert(block(MAX_FREE_BYTES + MIB), start + Duration::from_secs(1));
        assert_eq!((larger_than_all.len(), free.bytes), (3, 0));
    }

    #[test]
    fn blocks_that_were_free_for_long_are_freed() {
        let (mut free, start) = (FreeBlocks::new(), Instant::now());
        free.insert(block(MIB), start);
        free.insert(block(MIB), start + MAX_IDLE / 2);
        assert!(free.trim(start + MAX_IDLE - TRIM_INTERVAL).is_empty());
        assert_eq!((free.trim(start + MAX_IDLE).len(), free.bytes), (1, MIB));
        assert_eq!((free.trim(start + 2 * MAX_IDLE).len(), free.bytes), (1, 0));
        assert!(free.classes.is_empty());
    }

    #[test]
    fn a_released_block_is_reused_for_its_size_class() {
        let cache = HostCache {
            free: Mutex::new(FreeBlocks::new()),
        };
        let released = cache.allocate(MIB - 1000).unwrap();
        let (start, now) = (released.start(), Instant::now());
        assert_eq!(released.len(), MIB);
        cache.keep(released, now);
        assert!(
            cache
                .take(HeapBlock::size_class(MIB + 1).unwrap(), now)
                .is_none()
        );
        let taken = cache.take(MIB, now).unwrap();
        assert_eq!((taken.start(), taken.len()), (start, MIB));
        cache.release(taken);
        assert_eq!(cache.lock().unwrap().bytes, MIB);
        cache.clear();
        assert_eq!(cache.lock().unwrap().bytes, 0);
        assert!(cache.allocate(1000).is_some() && cache.allocate(usize::MAX).is_none());
    }

    #[test]
    fn a_lock_that_stays_held_costs_only_the_reuse() {
        let cache = HostCache {
            free: Mutex::new(FreeBlocks::new()),
        };
        let held = cache.lock();
        cache.release(cache.allocate(MIB).unwrap());
        cache.clear();
        assert_eq!(held.unwrap().bytes, 0);
    }
}
