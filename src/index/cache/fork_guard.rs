//! Tracks the use of SQLite across fork(): connections and file locks belong to the process that
//! opened them. A forked child may open connections of its own only if no thread of its parent was
//! inside SQLite at the fork; otherwise SQLite's mutexes would stay locked in the child forever.
//! Nothing here blocks.

use std::sync::atomic::{AtomicU32, Ordering};

/// Process that opened the caches; 0 before the first one.
static OWNER_PID: AtomicU32 = AtomicU32::new(0);
/// Number of threads inside SQLite or the list of caches. A child inherits its parent's number at
/// the fork.
static THREADS_INSIDE: AtomicU32 = AtomicU32::new(0);

/// Guard held while the database is used.
pub(super) struct ForkGuard(());

impl Drop for ForkGuard {
    fn drop(&mut self) {
        THREADS_INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Enters a cache that process `owner_pid` opened; returns `None` in its children.
pub(super) fn enter(owner_pid: u32) -> Option<ForkGuard> {
    (owner_pid == std::process::id()).then(|| {
        THREADS_INSIDE.fetch_add(1, Ordering::SeqCst);
        ForkGuard(())
    })
}

/// Enters to open caches in this process; returns `None` in a child forked while a thread of its
/// parent was inside.
pub(super) fn enter_to_open() -> Option<ForkGuard> {
    let this = std::process::id();
    let owner = OWNER_PID.load(Ordering::SeqCst);
    if owner != this {
        // Another thread of this child may have become the owner in between.
        if THREADS_INSIDE.load(Ordering::SeqCst) > 0 && OWNER_PID.load(Ordering::SeqCst) != this {
            return None;
        }
        let _ = OWNER_PID.compare_exchange(owner, this, Ordering::SeqCst, Ordering::SeqCst);
    }
    enter(this)
}
