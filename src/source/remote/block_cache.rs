//! Caches blocks of remote files, and groups missing blocks into as few requests as is sensible.
//! Keeps at most its budget of bytes, evicting the least recently used block first; makes no
//! requests.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use crate::error::Result;

/// Bytes of a block. On average half a block is fetched in vain at either end of a range, and most
/// of one where only the first bytes of a keyframe are read. Requests are joined across blocks, so
/// larger blocks would save none.
pub(super) const BLOCK_BYTES: u64 = 64 << 10;
/// Blocks of the longest piece that one request fetches: long enough that the time to the first
/// byte matters little, short enough that a long range is spread over several connections.
pub(super) const MAX_FETCH_BLOCKS: u64 = (4 << 20) / BLOCK_BYTES;

/// Indices of the blocks that hold these bytes.
pub(super) fn blocks_of(bytes: &Range<u64>) -> Range<u64> {
    match bytes.is_empty() {
        true => 0..0,
        false => bytes.start / BLOCK_BYTES..bytes.end.div_ceil(BLOCK_BYTES),
    }
}

/// Adjacent blocks that one request fetches.
#[derive(Debug)]
pub(super) struct BlockFetch {
    /// Number of the file.
    pub file: u64,
    /// Indices of the blocks.
    pub blocks: Range<u64>,
    outcome: Mutex<Option<Result<Bytes>>>,
    completed: Condvar,
}

impl BlockFetch {
    fn new(file: u64, blocks: Range<u64>) -> Arc<Self> {
        Arc::new(Self {
            file,
            blocks,
            outcome: Mutex::new(None),
            completed: Condvar::new(),
        })
    }

    /// Offset of the first byte.
    pub(super) fn start(&self) -> u64 {
        self.blocks.start * BLOCK_BYTES
    }

    /// Waits up to `at_most` for the result; `None` if it is not there by then.
    pub(super) fn wait(&self, at_most: Duration) -> Option<Result<Bytes>> {
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .completed
            .wait_timeout_while(outcome, at_most, |outcome| outcome.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    fn set_outcome(&self, outcome: Result<Bytes>) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.completed.notify_all();
    }
}

type BlockKey = (u64, u64);

enum BlockState {
    Cached { bytes: Bytes, used: u64 },
    InFlight(Arc<BlockFetch>),
}

/// Result of a block lookup.
pub(super) enum Lookup {
    /// Its bytes.
    Cached(Bytes),
    /// Being fetched as a part of this piece.
    InFlight(Arc<BlockFetch>),
    /// Neither cached nor being fetched.
    Missing,
}

#[derive(Default)]
struct BlockMap {
    slots: HashMap<BlockKey, BlockState>,
    by_last_use: BTreeMap<u64, BlockKey>,
    clock: u64,
    bytes: u64,
}

/// A cache of blocks of files.
pub(super) struct BlockCache {
    budget: u64,
    blocks: Mutex<BlockMap>,
}

impl BlockCache {
    /// A cache that keeps up to `budget` bytes.
    pub(super) fn new(budget: u64) -> Self {
        Self {
            budget,
            blocks: Mutex::default(),
        }
    }

    /// Number of bytes that it may keep.
    pub(super) fn budget(&self) -> u64 {
        self.budget
    }

    fn lock(&self) -> MutexGuard<'_, BlockMap> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks up one block, and makes it the most recently used one.
    pub(super) fn lookup(&self, file: u64, block: u64) -> Lookup {
        let blocks = &mut *self.lock();
        match blocks.slots.get_mut(&(file, block)) {
            Some(BlockState::Cached { bytes, used }) => {
                blocks.clock += 1;
                blocks.by_last_use.remove(used);
                blocks.by_last_use.insert(blocks.clock, (file, block));
                *used = blocks.clock;
                Lookup::Cached(bytes.clone())
            }
            Some(BlockState::InFlight(fetch)) => Lookup::InFlight(fetch.clone()),
            None => Lookup::Missing,
        }
    }

    /// Whether a block is neither cached nor being fetched.
    pub(super) fn is_missing(&self, file: u64, block: u64) -> bool {
        !self.lock().slots.contains_key(&(file, block))
    }

    /// Marks what is missing of these blocks as being fetched. The caller must fetch the returned
    /// pieces and [`complete`](Self::complete) them. A piece spans gaps of up to `gap` blocks that
    /// were not requested.
    pub(super) fn claim(&self, file: u64, wanted: &[Range<u64>], gap: u64) -> Vec<Arc<BlockFetch>> {
        let blocks = &mut *self.lock();
        let mut fetches: Vec<Range<u64>> = Vec::new();
        for block in wanted.iter().cloned().flatten() {
            if blocks.slots.contains_key(&(file, block)) {
                continue;
            }
            match fetches.last_mut() {
                Some(last) if block < last.end => {}
                Some(last) if block - last.end <= gap && block - last.start < MAX_FETCH_BLOCKS => {
                    last.end = block + 1
                }
                _ => fetches.push(block..block + 1),
            }
        }
        let fetches: Vec<Arc<BlockFetch>> = fetches
            .into_iter()
            .map(|range| BlockFetch::new(file, range))
            .collect();
        for fetch in &fetches {
            for block in fetch.blocks.clone() {
                blocks
                    .slots
                    .entry((file, block))
                    .or_insert_with(|| BlockState::InFlight(fetch.clone()));
            }
        }
        fetches
    }

    /// Ends the fetch of a piece: caches its blocks, unless it failed, and notifies the threads
    /// that wait for it.
    pub(super) fn complete(&self, fetch: &Arc<BlockFetch>, outcome: Result<Bytes>) {
        {
            let blocks = &mut *self.lock();
            for (at, block) in fetch.blocks.clone().enumerate() {
                let key = (fetch.file, block);
                if !matches!(blocks.slots.get(&key), Some(BlockState::InFlight(other)) if Arc::ptr_eq(other, fetch))
                {
                    continue;
                }
                blocks.slots.remove(&key);
                let Ok(bytes) = &outcome else { continue };
                let from = (at as u64 * BLOCK_BYTES).min(bytes.len() as u64) as usize;
                let to = bytes.len().min(from + BLOCK_BYTES as usize);
                // A copy: a slice would keep the whole piece in memory after its other blocks are
                // evicted.
                blocks.insert(key, Bytes::copy_from_slice(&bytes[from..to]));
            }
            blocks.evict_to_fit(self.budget);
        }
        fetch.set_outcome(outcome);
    }

    /// Number of bytes that are kept.
    #[cfg(test)]
    fn bytes(&self) -> u64 {
        self.lock().bytes
    }
}

impl BlockMap {
    fn insert(&mut self, key: BlockKey, bytes: Bytes) {
        self.clock += 1;
        self.bytes += bytes.len() as u64;
        self.by_last_use.insert(self.clock, key);
        self.slots.insert(
            key,
            BlockState::Cached {
                bytes,
                used: self.clock,
            },
        );
    }

    fn evict_to_fit(&mut self, budget: u64) {
        while self.bytes > budget {
            let Some((_, key)) = self.by_last_use.pop_first() else {
                return;
            };
            if let Some(BlockState::Cached { bytes, .. }) = self.slots.remove(&key) {
                self.bytes -= bytes.len() as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    fn claimed(cache: &BlockCache, wanted: &[Range<u64>], gap: u64) -> Vec<Range<u64>> {
        cache
            .claim(1, wanted, gap)
            .iter()
            .map(|fetch| fetch.blocks.clone())
            .collect()
    }

    fn fill(cache: &BlockCache, file: u64, blocks: Range<u64>) {
        for fetch in cache.claim(file, &[blocks], 0) {
            let len = (fetch.blocks.end - fetch.blocks.start) * BLOCK_BYTES;
            cache.complete(&fetch, Ok(vec![file as u8; len as usize].into()));
        }
    }

    #[test]
    fn adjacent_blocks_are_merged_and_claimed_once() {
        let cache = BlockCache::new(1 << 30);
        assert_eq!(claimed(&cache, &[0..3, 3..5], 0), vec![0..5]);
        assert_eq!(claimed(&cache, &[2..7], 0), vec![5..7]);
        assert_eq!(claimed(&cache, &[0..7], 0), vec![]);
        // Up to two blocks in between are fetched too.
        assert_eq!(
            claimed(&cache, &[10..11, 13..14, 17..18], 2),
            vec![10..14, 17..18]
        );
        assert_eq!(claimed(&cache, &[11..13], 2), vec![]);
        let long = 100..100 + 2 * MAX_FETCH_BLOCKS + 1;
        let parts = [
            100..100 + MAX_FETCH_BLOCKS,
            100 + MAX_FETCH_BLOCKS..100 + 2 * MAX_FETCH_BLOCKS,
            100 + 2 * MAX_FETCH_BLOCKS..long.end,
        ];
        assert_eq!(claimed(&cache, std::slice::from_ref(&long), 4), parts);
    }

    #[test]
    fn least_recently_used_block_is_evicted() {
        let cache = BlockCache::new(3 * BLOCK_BYTES);
        fill(&cache, 1, 0..3);
        assert!(
            matches!(cache.lookup(1, 0), Lookup::Cached(bytes) if bytes[..] == [1; BLOCK_BYTES as usize])
        );
        fill(&cache, 2, 9..10);
        assert_eq!(cache.bytes(), 3 * BLOCK_BYTES);
        assert!(
            matches!(cache.lookup(1, 1), Lookup::Missing),
            "the oldest goes"
        );
        for (file, block) in [(1, 0), (1, 2), (2, 9)] {
            assert!(
                matches!(cache.lookup(file, block), Lookup::Cached(_)),
                "{file} {block}"
            );
        }
        // A piece larger than the budget still reaches the threads that wait for it.
        let fetch = cache.claim(3, &[0..8], 0).remove(0);
        cache.complete(&fetch, Ok(vec![3; 8 * BLOCK_BYTES as usize].into()));
        assert_eq!(
            fetch.wait(Duration::ZERO).unwrap().unwrap().len() as u64,
            8 * BLOCK_BYTES
        );
        assert_eq!(cache.bytes(), 3 * BLOCK_BYTES);
    }

    #[test]
    fn failed_range_is_reported_and_claimable_again() {
        let cache = BlockCache::new(1 << 30);
        let fetch = cache.claim(1, &[0..2], 0).remove(0);
        assert!(
            matches!(cache.lookup(1, 1), Lookup::InFlight(other) if Arc::ptr_eq(&other, &fetch))
        );
        assert!(fetch.wait(Duration::from_millis(1)).is_none());
        cache.complete(&fetch, Err(Error::Interrupted));
        assert!(matches!(
            fetch.wait(Duration::ZERO),
            Some(Err(Error::Interrupted))
        ));
        assert!(cache.is_missing(1, 0));
        assert_eq!(claimed(&cache, &[0..2], 0), vec![0..2]);
    }

    #[test]
    fn the_last_block_of_a_file_is_as_long_as_the_file() {
        let cache = BlockCache::new(1 << 30);
        let fetch = cache
            .claim(1, &[blocks_of(&(0..BLOCK_BYTES + 10))], 0)
            .remove(0);
        cache.complete(&fetch, Ok(vec![7; BLOCK_BYTES as usize + 10].into()));
        assert!(matches!(cache.lookup(1, 1), Lookup::Cached(bytes) if bytes.len() == 10));
        assert_eq!(blocks_of(&(5..5)), 0..0);
    }
}
