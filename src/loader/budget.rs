//! Tracks reservations of bytes against a fixed memory budget.
//! The reservations of all threads together never exceed the budget.

use std::sync::Arc;

use crate::sync::atomic::{AtomicU64, Ordering};

/// A budget of bytes that all workers share.
#[derive(Debug)]
pub(super) struct MemoryBudget {
    bytes: u64,
    used: AtomicU64,
    peak: AtomicU64,
}

impl MemoryBudget {
    pub(super) fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            bytes,
            used: AtomicU64::new(0),
            peak: AtomicU64::new(0),
        })
    }

    /// Reserves `bytes` until the reservation is dropped; `None` if the budget has not enough left.
    pub(super) fn reserve(self: &Arc<Self>, bytes: usize) -> Option<MemoryReservation> {
        let bytes = bytes as u64;
        let fits = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= self.bytes);
        let before = self
            .used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, fits)
            .ok()?;
        self.peak.fetch_max(before + bytes, Ordering::AcqRel);
        Some(MemoryReservation {
            budget: self.clone(),
            bytes,
        })
    }

    /// Whether it has `bytes` left now.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        bytes as u64 <= self.bytes - self.used()
    }

    /// The largest number of bytes reserved at one time.
    pub(super) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Acquire)
    }

    /// The size of the budget.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes reserved now.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Acquire)
    }
}

/// Bytes reserved from a budget; dropping it releases them.
#[derive(Debug)]
pub(super) struct MemoryReservation {
    budget: Arc<MemoryBudget>,
    bytes: u64,
}

impl MemoryReservation {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_reservations_free_the_budget() {
        let budget = MemoryBudget::new(10);
        let first = budget.reserve(7).unwrap();
        assert!(budget.reserve(4).is_none());
        let second = budget.reserve(3).unwrap();
        drop(first);
        assert_eq!((budget.used(), budget.peak(), second.bytes()), (3, 10, 3));
        assert!(budget.reserve(7).is_some() && budget.reserve(usize::MAX).is_none());
    }

    #[test]
    fn many_threads_never_exceed_the_budget() {
        let budget = MemoryBudget::new(100);
        std::thread::scope(|scope| {
            for n in 1..8usize {
                let budget = &budget;
                scope.spawn(move || (0..2000).for_each(|_| drop(budget.reserve(n * 7))));
            }
        });
        assert!(budget.peak() <= 100 && budget.used() == 0);
    }
}
