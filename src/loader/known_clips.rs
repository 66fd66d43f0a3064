//! Clips whose frames the consumer does not need, because it has stored what it made of them.

use std::sync::Arc;

/// Such clips by the first halves of their content keys, as [`half_of`] returns them. A clip with
/// the same half as one of them passes for it, so the consumer must be able to make it again.
#[derive(Clone, Default)]
pub(super) struct KnownClips {
    sorted: Arc<[i64]>,
}

impl KnownClips {
    pub(super) fn new(mut halves: Vec<i64>) -> Self {
        halves.sort_unstable();
        Self {
            sorted: halves.into(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    pub(super) fn contains(&self, content_key: u128) -> bool {
        self.sorted.binary_search(&half_of(content_key)).is_ok()
    }
}

/// The first 8 bytes of a content key, as the consumer gets it, in the order of its index.
fn half_of(content_key: u128) -> i64 {
    ((content_key >> 64) as u64).swap_bytes() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clips_are_known_by_the_first_eight_bytes() {
        let key = |first: u8| u128::from_be_bytes([first; 16]);
        let known = KnownClips::new(
            [9, 200, 3]
                .map(|first| i64::from_le_bytes([first; 8]))
                .to_vec(),
        );
        let found: Vec<_> = (0..=255)
            .filter(|&first| known.contains(key(first)))
            .collect();
        assert_eq!(found, [3, 9, 200]);
        let order = u128::from_be_bytes([1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(half_of(order), i64::from_le_bytes([1, 2, 3, 4, 5, 6, 7, 8]));
        assert!(!known.is_empty() && KnownClips::default().is_empty());
        assert!(!KnownClips::default().contains(key(3)));
    }
}
