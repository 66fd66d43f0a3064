//! Decides how much to read ahead, from the sequence of reads of one reader.
//! Sequential reads get a growing window, random access none.

use std::ops::Range;

use super::block_cache::BLOCK_BYTES;

/// Maximum number of bytes to read ahead of a sequential reader.
const MAX_WINDOW_BYTES: u64 = 8 << 20;
/// Maximum step forward that still counts as sequential: boxes and clusters that are skipped.
const MAX_FORWARD_SKIP: u64 = 256 << 10;
/// How far behind its foremost offset a reader may read again without counting as random access.
const MAX_BACKWARD_SKIP: u64 = 16 << 20;
/// A read this close to the end of a file is extended to the end: tables are stored there, and more
/// of them will be read.
const TAIL_BYTES: u64 = 256 << 10;

/// State of one reader.
#[derive(Debug, Default)]
pub(super) struct Readahead {
    /// End of the foremost read since the last jump.
    foremost: u64,
    /// Bytes to fetch beyond it.
    window: u64,
}

impl Readahead {
    /// Records a read; returns the bytes to fetch, which begin with it.
    pub(crate) fn record_read(&mut self, read: &Range<u64>, len: u64) -> Range<u64> {
        if read.start > self.foremost.saturating_add(MAX_FORWARD_SKIP)
            || read.start.saturating_add(MAX_BACKWARD_SKIP) < self.foremost
        {
            (self.foremost, self.window) = (read.end, 0);
        } else if read.end > self.foremost {
            let passed = read.end - self.foremost;
            self.foremost = read.end;
            // Doubled for each block, not for each read: small reads do not indicate sequential
            // access.
            if passed >= BLOCK_BYTES || read.end % BLOCK_BYTES < passed {
                self.window = (self.window * 2).clamp(BLOCK_BYTES, MAX_WINDOW_BYTES);
            }
        }
        let end = match len - read.end.min(len) {
            left if left <= TAIL_BYTES => len,
            _ if read.end == self.foremost => (read.end + self.window).min(len),
            _ => read.end.min(len),
        };
        read.start..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn sequential_reads_grow_and_random_reads_do_not() {
        let mut readahead = Readahead::default();
        let mut beyond = Vec::new();
        for n in 0..12 {
            let read = n * BLOCK_BYTES..(n + 1) * BLOCK_BYTES;
            beyond.push(readahead.record_read(&read, GIB).end - read.end);
        }
        assert!(
            beyond.is_sorted() && beyond[0] <= BLOCK_BYTES && beyond[11] == MAX_WINDOW_BYTES,
            "{beyond:?}"
        );
        // A small step back changes nothing.
        assert_eq!(
            readahead.record_read(&(5 * BLOCK_BYTES..5 * BLOCK_BYTES + 9), GIB),
            5 * BLOCK_BYTES..5 * BLOCK_BYTES + 9
        );
        assert_eq!(
            readahead
                .record_read(&(12 * BLOCK_BYTES..13 * BLOCK_BYTES), GIB)
                .end,
            13 * BLOCK_BYTES + MAX_WINDOW_BYTES
        );
        assert_eq!(
            readahead.record_read(&(GIB / 2..GIB / 2 + 16), GIB),
            GIB / 2..GIB / 2 + 16
        );
        assert_eq!(readahead.record_read(&(100..116), GIB), 100..116);
    }

    #[test]
    fn tail_is_read_at_once() {
        let mut readahead = Readahead::default();
        assert_eq!(
            readahead.record_read(&(GIB - 70_000..GIB - 69_984), GIB),
            GIB - 70_000..GIB
        );
        assert_eq!(readahead.record_read(&(0..16), 1000), 0..1000);
        assert_eq!(readahead.record_read(&(0..16), 0).end, 0);
    }

    #[test]
    fn small_reads_in_one_block_do_not_grow_readahead() {
        let mut readahead = Readahead::default();
        let ends: Vec<u64> = (0..100)
            .map(|n| readahead.record_read(&(n * 16..n * 16 + 16), GIB).end)
            .collect();
        assert!(
            ends.iter().all(|&end| end <= 1600 + BLOCK_BYTES),
            "{ends:?}"
        );
    }
}
