//! Caches blocks of remote files, and groups missing blocks into as few requests as is sensible.
//! Keeps at most its budget of bytes, evicting the least recently used block first; makes no requests.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use crate::error::Result;

/// Bytes of a block. On average half a block is fetched in vain at either end of a range, and most of one
/// where only the first bytes of a keyframe are read. Requests are joined across blocks, so larger blocks
/// would save none.
pub(super) const BLOCK: u64 = 64 << 10;
/// Blocks of the longest piece that one request fetches: long enough that the time to the first byte matters
/// little, short enough that a long range is spread over several connections.
pub(super) const PIECE: u64 = (4 << 20) / BLOCK;

/// Indices of the blocks that hold these bytes.
pub(super) fn blocks_of(bytes: &Range<u64>) -> Range<u64> {
    match bytes.is_empty() {
        true => 0..0,
        false => bytes.start / BLOCK..bytes.end.div_ceil(BLOCK),
    }
}

/// Adjacent blocks that one request fetches.
#[derive(Debug)]
pub(super) struct Piece {
    /// Number of the file.
    pub file: u64,
    /// Indices of the blocks.
    pub blocks: Range<u64>,
    outcome: Mutex<Option<Result<Bytes>>>,
    told: Condvar,
}

impl Piece {
    fn new(file: u64, blocks: Range<u64>) -> Arc<Self> {
        Arc::new(Self { file, blocks, outcome: Mutex::new(None), told: Condvar::new() })
    }

    /// Offset of the first byte.
    pub fn start(&self) -> u64 {
        self.blocks.start * BLOCK
    }

    /// Waits up to `at_most` for the result; `None` if it is not there by then.
    pub fn wait(&self, at_most: Duration) -> Option<Result<Bytes>> {
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.told.wait_timeout_while(outcome, at_most, |outcome| outcome.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    fn tell(&self, outcome: Result<Bytes>) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.told.notify_all();
    }
}

type Key = (u64, u64);

enum Slot {
    Here { bytes: Bytes, used: u64 },
    Coming(Arc<Piece>),
}

/// Result of a block lookup.
pub(super) enum Found {
    /// Its bytes.
    Here(Bytes),
    /// Being fetched as a part of this piece.
    Coming(Arc<Piece>),
    /// Neither cached nor being fetched.
    Missing,
}

#[derive(Default)]
struct Blocks {
    slots: HashMap<Key, Slot>,
    by_age: BTreeMap<u64, Key>,
    clock: u64,
    bytes: u64,
}

/// A cache of blocks of files.
pub(super) struct Cache {
    budget: u64,
    blocks: Mutex<Blocks>,
}

impl Cache {
    /// A cache that keeps up to `budget` bytes.
    pub fn new(budget: u64) -> Self {
        Self { budget, blocks: Mutex::default() }
    }

    /// Number of bytes that it may keep.
    pub fn budget(&self) -> u64 {
        self.budget
    }

    fn lock(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks up one block, and makes it the most recently used one.
    pub fn find(&self, file: u64, block: u64) -> Found {
        let blocks = &mut *self.lock();
        match blocks.slots.get_mut(&(file, block)) {
            Some(Slot::Here { bytes, used }) => {
                blocks.clock += 1;
                blocks.by_age.remove(used);
                blocks.by_age.insert(blocks.clock, (file, block));
                *used = blocks.clock;
                Found::Here(bytes.clone())
            }
            Some(Slot::Coming(piece)) => Found::Coming(piece.clone()),
            None => Found::Missing,
        }
    }

    /// Whether a block is neither cached nor being fetched.
    pub fn lacks(&self, file: u64, block: u64) -> bool {
        !self.lock().slots.contains_key(&(file, block))
    }

    /// Marks what is missing of these blocks as being fetched. The caller must fetch the returned pieces and
    /// [`settle`](Self::settle) them. A piece spans gaps of up to `gap` blocks that were not requested.
    pub fn claim(&self, file: u64, wanted: &[Range<u64>], gap: u64) -> Vec<Arc<Piece>> {
        let blocks = &mut *self.lock();
        let mut pieces: Vec<Range<u64>> = Vec::new();
        for block in wanted.iter().cloned().flatten() {
            if blocks.slots.contains_key(&(file, block)) {
                continue;
            }
            match pieces.last_mut() {
                Some(last) if block < last.end => {}
                Some(last) if block - last.end <= gap && block - last.start < PIECE => last.end = block + 1,
                _ => pieces.push(block..block + 1),
            }
        }
        let pieces: Vec<Arc<Piece>> = pieces.into_iter().map(|range| Piece::new(file, range)).collect();
        for piece in &pieces {
            for block in piece.blocks.clone() {
                blocks.slots.entry((file, block)).or_insert_with(|| Slot::Coming(piece.clone()));
            }
        }
        pieces
    }

    /// Ends the fetch of a piece: caches its blocks, unless it failed, and notifies the threads that wait for
    /// it.
    pub fn settle(&self, piece: &Arc<Piece>, outcome: Result<Bytes>) {
        {
            let blocks = &mut *self.lock();
            for (at, block) in piece.blocks.clone().enumerate() {
                let key = (piece.file, block);
                if !matches!(blocks.slots.get(&key), Some(Slot::Coming(other)) if Arc::ptr_eq(other, piece)) {
                    continue;
                }
                blocks.slots.remove(&key);
                let Ok(bytes) = &outcome else { continue };
                let from = (at as u64 * BLOCK).min(bytes.len() as u64) as usize;
                let to = bytes.len().min(from + BLOCK as usize);
                // A copy: a slice would keep the whole piece in memory after its other blocks are evicted.
                blocks.keep(key, Bytes::copy_from_slice(&bytes[from..to]));
            }
            blocks.shrink(self.budget);
        }
        piece.tell(outcome);
    }

    /// Number of bytes that are kept.
    #[cfg(test)]
    fn bytes(&self) -> u64 {
        self.lock().bytes
    }
}

impl Blocks {
    fn keep(&mut self, key: Key, bytes: Bytes) {
        self.clock += 1;
        self.bytes += bytes.len() as u64;
        self.by_age.insert(self.clock, key);
        self.slots.insert(key, Slot::Here { bytes, used: self.clock });
    }

    fn shrink(&mut self, budget: u64) {
        while self.bytes > budget {
            let Some((_, key)) = self.by_age.pop_first() else { return };
            if let Some(Slot::Here { bytes, .. }) = self.slots.remove(&key) {
                self.bytes -= bytes.len() as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    fn claimed(cache: &Cache, wanted: &[Range<u64>], gap: u64) -> Vec<Range<u64>> {
        cache.claim(1, wanted, gap).iter().map(|piece| piece.blocks.clone()).collect()
    }

    fn fill(cache: &Cache, file: u64, blocks: Range<u64>) {
        for piece in cache.claim(file, &[blocks], 0) {
            let len = (piece.blocks.end - piece.blocks.start) * BLOCK;
            cache.settle(&piece, Ok(vec![file as u8; len as usize].into()));
        }
    }

    #[test]
    fn neighbours_make_one_piece_and_nothing_is_claimed_twice() {
        let cache = Cache::new(1 << 30);
        assert_eq!(claimed(&cache, &[0..3, 3..5], 0), vec![0..5]);
        assert_eq!(claimed(&cache, &[2..7], 0), vec![5..7]);
        assert_eq!(claimed(&cache, &[0..7], 0), vec![]);
        // Up to two blocks in between are fetched too.
        assert_eq!(claimed(&cache, &[10..11, 13..14, 17..18], 2), vec![10..14, 17..18]);
        assert_eq!(claimed(&cache, &[11..13], 2), vec![]);
        let long = 100..100 + 2 * PIECE + 1;
        let parts = [100..100 + PIECE, 100 + PIECE..100 + 2 * PIECE, 100 + 2 * PIECE..long.end];
        assert_eq!(claimed(&cache, std::slice::from_ref(&long), 4), parts);
    }

    #[test]
    fn the_block_that_was_used_longest_ago_makes_room() {
        let cache = Cache::new(3 * BLOCK);
        fill(&cache, 1, 0..3);
        assert!(matches!(cache.find(1, 0), Found::Here(bytes) if bytes[..] == [1; BLOCK as usize]));
        fill(&cache, 2, 9..10);
        assert_eq!(cache.bytes(), 3 * BLOCK);
        assert!(matches!(cache.find(1, 1), Found::Missing), "the oldest goes");
        for (file, block) in [(1, 0), (1, 2), (2, 9)] {
            assert!(matches!(cache.find(file, block), Found::Here(_)), "{file} {block}");
        }
        // A piece larger than the budget still reaches the threads that wait for it.
        let piece = cache.claim(3, &[0..8], 0).remove(0);
        cache.settle(&piece, Ok(vec![3; 8 * BLOCK as usize].into()));
        assert_eq!(piece.wait(Duration::ZERO).unwrap().unwrap().len() as u64, 8 * BLOCK);
        assert_eq!(cache.bytes(), 3 * BLOCK);
    }

    #[test]
    fn a_piece_that_failed_is_told_and_can_be_claimed_again() {
        let cache = Cache::new(1 << 30);
        let piece = cache.claim(1, &[0..2], 0).remove(0);
        assert!(matches!(cache.find(1, 1), Found::Coming(other) if Arc::ptr_eq(&other, &piece)));
        assert!(piece.wait(Duration::from_millis(1)).is_none());
        cache.settle(&piece, Err(Error::Interrupted));
        assert!(matches!(piece.wait(Duration::ZERO), Some(Err(Error::Interrupted))));
        assert!(cache.lacks(1, 0));
        assert_eq!(claimed(&cache, &[0..2], 0), vec![0..2]);
    }

    #[test]
    fn the_last_block_of_a_file_is_as_long_as_the_file() {
        let cache = Cache::new(1 << 30);
        let piece = cache.claim(1, &[blocks_of(&(0..BLOCK + 10))], 0).remove(0);
        cache.settle(&piece, Ok(vec![7; BLOCK as usize + 10].into()));
        assert!(matches!(cache.find(1, 1), Found::Here(bytes) if bytes.len() == 10));
        assert_eq!(blocks_of(&(5..5)), 0..0);
    }
}
