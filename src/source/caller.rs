//! Sets the caller of reads on this thread: how it interrupts them, and where their traffic is counted.
//! Used by sources that wait for a server; local sources ignore it.

use std::cell::RefCell;
use std::ops::AddAssign;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use crate::error::Result;

/// Traffic from reading by URL. All zero where nothing is read by URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteCounts {
    /// Requests that were sent, including retries; additional requests of a redirection are not counted.
    pub requests: u64,
    /// Bytes of files that were received.
    pub bytes: u64,
    /// Requests that repeated a failed one.
    pub retries: u64,
    /// Reads that were served from memory.
    pub cache_hits: u64,
}

impl AddAssign for RemoteCounts {
    fn add_assign(&mut self, more: Self) {
        self.requests += more.requests;
        self.bytes += more.bytes;
        self.retries += more.retries;
        self.cache_hits += more.cache_hits;
    }
}

/// Traffic counters, shared by several threads.
#[derive(Debug, Default)]
pub struct Tally {
    requests: AtomicU64,
    bytes: AtomicU64,
    retries: AtomicU64,
    cache_hits: AtomicU64,
}

impl Tally {
    /// A constructor for statics.
    pub const fn new() -> Self {
        Self {
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            cache_hits: AtomicU64::new(0),
        }
    }

    /// Adds to the counts.
    pub fn add(&self, more: RemoteCounts) {
        self.requests.fetch_add(more.requests, Relaxed);
        self.bytes.fetch_add(more.bytes, Relaxed);
        self.retries.fetch_add(more.retries, Relaxed);
        self.cache_hits.fetch_add(more.cache_hits, Relaxed);
    }

    /// The current counts.
    pub fn read(&self) -> RemoteCounts {
        RemoteCounts {
            requests: self.requests.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            retries: self.retries.load(Relaxed),
            cache_hits: self.cache_hits.load(Relaxed),
        }
    }
}

#[derive(Clone)]
struct Caller {
    interrupt: Rc<dyn Fn() -> Result<()>>,
    tally: Option<Arc<Tally>>,
}

crate::sync::thread_local! {
    static CALLER: RefCell<Option<Caller>> = const { RefCell::new(None) };
}

/// Guard that keeps a caller set on this thread; dropping it restores the previous one.
#[must_use = "the caller is known only while this lives"]
pub struct Calling {
    before: Option<Caller>,
    /// Makes the guard `!Send`: it belongs to its thread.
    _here: std::marker::PhantomData<Rc<()>>,
}

/// Sets the caller of reads on this thread. `interrupt` is called several times per second while a source
/// waits, and stops the wait by returning an error; `tally`, if given, counts the traffic.
pub fn calling(interrupt: impl Fn() -> Result<()> + 'static, tally: Option<&Arc<Tally>>) -> Calling {
    let caller = Caller { interrupt: Rc::new(interrupt), tally: tally.cloned() };
    let before = CALLER.with(|slot| slot.borrow_mut().replace(caller));
    Calling { before, _here: std::marker::PhantomData }
}

impl Drop for Calling {
    fn drop(&mut self) {
        let before = self.before.take();
        // At the end of a thread the thread-local may already be destroyed.
        let _ = CALLER.try_with(|slot| *slot.borrow_mut() = before);
    }
}

/// Returns an error if the caller requested an interrupt.
#[cfg_attr(not(feature = "remote"), allow(dead_code, reason = "nothing waits"))]
pub(super) fn check() -> Result<()> {
    // Cloned first: the check itself may read something.
    let caller = CALLER.with(|slot| slot.borrow().clone());
    caller.map_or(Ok(()), |caller| (caller.interrupt)())
}

/// Traffic counters of the caller.
#[cfg_attr(not(feature = "remote"), allow(dead_code, reason = "nothing is counted"))]
pub(super) fn tally() -> Option<Arc<Tally>> {
    CALLER.with(|slot| slot.borrow().as_ref().and_then(|caller| caller.tally.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn a_caller_is_known_while_it_calls_and_then_the_one_before_it_is() {
        let (outer, inner) = (Arc::new(Tally::new()), Arc::new(Tally::new()));
        let count = |requests| {
            tally().expect("a caller").add(RemoteCounts { requests, ..RemoteCounts::default() });
        };
        assert!(tally().is_none() && check().is_ok());
        let first = calling(|| Ok(()), Some(&outer));
        count(1);
        {
            let _second = calling(|| Err(Error::Interrupted), Some(&inner));
            count(10);
            assert!(matches!(check(), Err(Error::Interrupted)));
        }
        count(2);
        assert!(check().is_ok());
        drop(first);
        assert!(tally().is_none());
        assert_eq!((outer.read().requests, inner.read().requests), (3, 10));
    }
}
