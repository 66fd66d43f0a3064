//! Sets the caller of the work on this thread: how it interrupts indexing, decoding and waiting for
//! a server, and where the traffic of its reads is counted.

use std::cell::RefCell;
use std::ops::AddAssign;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::error::{Error, Result};

/// Traffic from reading by URL. All zero where nothing is read by URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteStats {
    /// Requests that were sent, including retries; additional requests of a redirection are not
    /// counted.
    pub requests: u64,
    /// Bytes of files that were received.
    pub bytes: u64,
    /// Requests that repeated a failed one.
    pub retries: u64,
    /// Reads that were served from memory.
    pub cache_hits: u64,
    /// Outages of servers: times in which a server answered no request.
    pub outages: u64,
}

impl AddAssign for RemoteStats {
    fn add_assign(&mut self, more: Self) {
        self.requests += more.requests;
        self.bytes += more.bytes;
        self.retries += more.retries;
        self.cache_hits += more.cache_hits;
        self.outages += more.outages;
    }
}

/// Traffic counters, shared by several threads.
#[derive(Debug, Default)]
pub struct TrafficCounters {
    requests: AtomicU64,
    bytes: AtomicU64,
    retries: AtomicU64,
    cache_hits: AtomicU64,
    outages: AtomicU64,
}

impl TrafficCounters {
    /// A constructor for statics.
    pub const fn new() -> Self {
        Self {
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            cache_hits: AtomicU64::new(0),
            outages: AtomicU64::new(0),
        }
    }

    /// Adds to the counts.
    pub fn add(&self, more: RemoteStats) {
        self.requests.fetch_add(more.requests, Relaxed);
        self.bytes.fetch_add(more.bytes, Relaxed);
        self.retries.fetch_add(more.retries, Relaxed);
        self.cache_hits.fetch_add(more.cache_hits, Relaxed);
        self.outages.fetch_add(more.outages, Relaxed);
    }

    /// The current counts.
    pub fn read(&self) -> RemoteStats {
        RemoteStats {
            requests: self.requests.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            retries: self.retries.load(Relaxed),
            cache_hits: self.cache_hits.load(Relaxed),
            outages: self.outages.load(Relaxed),
        }
    }
}

#[derive(Clone)]
struct ReadContext {
    interrupt: Rc<dyn Fn() -> Result<()>>,
    traffic: Option<Arc<TrafficCounters>>,
    outage_timeout: Option<Duration>,
}

crate::sync::thread_local! {
    static READ_CONTEXT: RefCell<Option<ReadContext>> = const { RefCell::new(None) };
}

/// Guard that keeps a caller set on this thread; dropping it restores the previous one.
#[must_use = "the caller is known only while this lives"]
pub struct InterruptScope {
    before: Option<ReadContext>,
    /// Makes the guard `!Send`: it belongs to its thread.
    _not_send: std::marker::PhantomData<Rc<()>>,
}

/// Sets the caller of reads on this thread. `interrupt` is called several times per second while a
/// source waits, and stops the wait by returning an error; `traffic`, if given, counts the traffic.
pub fn interrupt_scope(
    interrupt: impl Fn() -> Result<()> + 'static,
    traffic: Option<&Arc<TrafficCounters>>,
) -> InterruptScope {
    let context = ReadContext {
        interrupt: Rc::new(interrupt),
        traffic: traffic.cloned(),
        outage_timeout: None,
    };
    let before = READ_CONTEXT.with(|slot| slot.borrow_mut().replace(context));
    InterruptScope {
        before,
        _not_send: std::marker::PhantomData,
    }
}

impl InterruptScope {
    /// Sets how long the sources that this caller opens wait for an unavailable server; `None`
    /// keeps the default.
    pub fn outage_timeout(self, timeout: Option<Duration>) -> Self {
        READ_CONTEXT.with(|slot| {
            if let Some(context) = slot.borrow_mut().as_mut() {
                context.outage_timeout = timeout;
            }
        });
        self
    }
}

impl Drop for InterruptScope {
    fn drop(&mut self) {
        let before = self.before.take();
        // At the end of a thread the thread-local may already be destroyed.
        let _ = READ_CONTEXT.try_with(|slot| *slot.borrow_mut() = before);
    }
}

/// Like [`interrupt_scope`], with a flag that stops the work of several threads.
pub fn stop_scope(
    stop: &Arc<AtomicBool>,
    traffic: Option<&Arc<TrafficCounters>>,
) -> InterruptScope {
    let stop = stop.clone();
    let check_stopped = move || match stop.load(Relaxed) {
        true => Err(Error::Interrupted),
        false => Ok(()),
    };
    interrupt_scope(check_stopped, traffic)
}

/// Like [`interrupt_scope`], with the traffic counters and the time-out of the present caller.
pub fn inner_interrupt_scope(interrupt: impl Fn() -> Result<()> + 'static) -> InterruptScope {
    let scope = interrupt_scope(interrupt, None);
    if let Some(before) = &scope.before {
        let (traffic, outage_timeout) = (before.traffic.clone(), before.outage_timeout);
        READ_CONTEXT.with(|slot| {
            if let Some(context) = slot.borrow_mut().as_mut() {
                (context.traffic, context.outage_timeout) = (traffic, outage_timeout);
            }
        });
    }
    scope
}

/// Long work calls this several times per second.
///
/// # Errors
/// The error of the caller of this thread if it requests an interrupt. A thread without a caller is
/// never interrupted.
pub fn check_interrupt() -> Result<()> {
    // Cloned first: the check itself may read something.
    let context = READ_CONTEXT.with(|slot| slot.borrow().clone());
    context.map_or(Ok(()), |context| (context.interrupt)())
}

/// Traffic counters of the caller.
#[cfg_attr(
    not(feature = "remote"),
    allow(dead_code, reason = "nothing is counted")
)]
pub(super) fn traffic() -> Option<Arc<TrafficCounters>> {
    READ_CONTEXT.with(|slot| {
        slot.borrow()
            .as_ref()
            .and_then(|context| context.traffic.clone())
    })
}

/// How long the caller waits for an unavailable server, if it has set that.
#[cfg_attr(not(feature = "remote"), allow(dead_code, reason = "nothing waits"))]
pub(super) fn outage_timeout() -> Option<Duration> {
    READ_CONTEXT.with(|slot| {
        slot.borrow()
            .as_ref()
            .and_then(|context| context.outage_timeout)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_callers_are_restored() {
        let (outer, inner) = (
            Arc::new(TrafficCounters::new()),
            Arc::new(TrafficCounters::new()),
        );
        let count = |requests| {
            traffic().expect("a caller").add(RemoteStats {
                requests,
                ..RemoteStats::default()
            });
        };
        assert!(traffic().is_none() && check_interrupt().is_ok());
        let first = interrupt_scope(|| Ok(()), Some(&outer));
        count(1);
        {
            let _second = interrupt_scope(|| Err(Error::Interrupted), Some(&inner));
            count(10);
            assert!(matches!(check_interrupt(), Err(Error::Interrupted)));
        }
        count(2);
        assert!(check_interrupt().is_ok());
        drop(first);
        assert!(traffic().is_none());
        assert_eq!((outer.read().requests, inner.read().requests), (3, 10));
    }
}
