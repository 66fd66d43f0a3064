//! In: who reads on this thread: how it learns that it should stop, and where its traffic is counted.
//! Out: both, for sources that wait for somebody else's machine.
//! Never: asked by sources that answer at once.

use std::cell::RefCell;
use std::ops::AddAssign;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use crate::error::Result;

/// What reading by URL took. Zero throughout where nothing is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteCounts {
    /// Requests that were sent, repeated ones included; what a redirection costs besides is not known here.
    pub requests: u64,
    /// Bytes of files that came with the answers.
    pub bytes: u64,
    /// Requests that repeated one that failed.
    pub retries: u64,
    /// Reads that were answered from memory.
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

/// Where traffic is counted, by several threads at once.
#[derive(Debug, Default)]
pub struct Tally {
    requests: AtomicU64,
    bytes: AtomicU64,
    retries: AtomicU64,
    cache_hits: AtomicU64,
}

impl Tally {
    /// For a static.
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

    /// The counts now.
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
    watch: Rc<dyn Fn() -> Result<()>>,
    tally: Option<Arc<Tally>>,
}

crate::sync::thread_local! {
    static CALLER: RefCell<Option<Caller>> = const { RefCell::new(None) };
}

/// While it lives, sources on this thread know their caller; then the one before it again.
#[must_use = "the caller is known only while this lives"]
pub struct Calling {
    before: Option<Caller>,
    /// Belongs to its thread.
    _here: std::marker::PhantomData<Rc<()>>,
}

/// Makes a caller known to what is read on this thread. `watch` is called while a source waits, several times a second, and ends the
/// waiting by an error; `tally`, if there is one, gets the traffic.
pub fn calling(watch: impl Fn() -> Result<()> + 'static, tally: Option<&Arc<Tally>>) -> Calling {
    let caller = Caller { watch: Rc::new(watch), tally: tally.cloned() };
    let before = CALLER.with(|slot| slot.borrow_mut().replace(caller));
    Calling { before, _here: std::marker::PhantomData }
}

impl Drop for Calling {
    fn drop(&mut self) {
        let before = self.before.take();
        // At the end of a thread the slot may be gone already.
        let _ = CALLER.try_with(|slot| *slot.borrow_mut() = before);
    }
}

/// Whether the caller still wants an answer.
#[cfg_attr(not(feature = "remote"), allow(dead_code, reason = "nothing waits"))]
pub(super) fn check() -> Result<()> {
    // Taken out first: the check itself may read something.
    let caller = CALLER.with(|slot| slot.borrow().clone());
    caller.map_or(Ok(()), |caller| (caller.watch)())
}

/// Where the caller's traffic is counted.
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
