//! Stores byte strings in one buffer, with one end offset each.
//! Equal strings are not deduplicated.

use std::mem::size_of;

/// Concatenated byte strings.
#[derive(Clone, Debug, Default)]
pub(super) struct StringArena {
    pub(super) bytes: Vec<u8>,
    /// The end of each string in `bytes`.
    pub(super) ends: Vec<u64>,
}

impl StringArena {
    pub(super) fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len() as u64);
    }

    pub(super) fn get(&self, number: usize) -> &[u8] {
        let begin = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[begin as usize..self.ends[number] as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<u64>()
    }
}
