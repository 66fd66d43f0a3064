//! A cache with a limit on its bytes that evicts the least recently used entries.

use std::hash::Hash;

use lru::LruCache;

/// Values with their sizes in bytes, which are fixed while they are in the cache.
pub(super) struct ByteLru<K: Hash + Eq, V> {
    entries: LruCache<K, (V, usize)>,
    bytes: usize,
    max_bytes: usize,
}

impl<K: Hash + Eq, V: Clone> ByteLru<K, V> {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            entries: LruCache::unbounded(),
            bytes: 0,
            max_bytes,
        }
    }

    /// Returns a value, which becomes the most recently used one.
    pub(super) fn get(&mut self, key: &K) -> Option<V> {
        self.entries.get(key).map(|(value, _)| value.clone())
    }

    /// The entries, the most recently used one first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, (value, _))| (key, value))
    }

    /// Inserts a value of `bytes` bytes. A value larger than the cache is not kept.
    pub(super) fn insert(&mut self, key: K, value: V, bytes: usize) {
        if let Some((_, old)) = self.entries.pop(&key) {
            self.bytes -= old;
        }
        if bytes > self.max_bytes {
            return;
        }
        while self.bytes + bytes > self.max_bytes {
            let Some((_, (_, old))) = self.entries.pop_lru() else {
                break;
            };
            self.bytes -= old;
        }
        self.bytes += bytes;
        self.entries.push(key, (value, bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_entry_is_evicted_first() {
        let mut cache = ByteLru::new(10);
        [(1, 4), (2, 3), (3, 3)]
            .into_iter()
            .for_each(|(key, bytes)| cache.insert(key, key * 10, bytes));
        assert_eq!(cache.get(&1), Some(10)); // 2 is now the oldest
        cache.insert(4, 40, 2);
        assert_eq!(
            [1, 2, 3, 4].map(|key| cache.get(&key)),
            [Some(10), None, Some(30), Some(40)]
        );
        // Two entries give way to a large one; the sizes of all are counted once.
        cache.insert(5, 50, 7);
        assert_eq!(
            [1, 3, 4, 5].map(|key| cache.get(&key)),
            [None, None, Some(40), Some(50)]
        );
        cache.insert(5, 51, 3);
        cache.insert(6, 60, 5);
        assert_eq!(
            ([4, 5, 6].map(|key| cache.get(&key)), cache.bytes),
            ([Some(40), Some(51), Some(60)], 10)
        );
    }

    #[test]
    fn value_larger_than_the_cache_is_not_kept() {
        let mut cache = ByteLru::new(10);
        cache.insert("a", 1, 10);
        cache.insert("b", 2, 11);
        assert_eq!(
            (cache.get(&"a"), cache.get(&"b"), cache.bytes),
            (Some(1), None, 10)
        );
        cache.insert("a", 3, 11);
        assert_eq!((cache.get(&"a"), cache.bytes), (None, 0));
    }
}
