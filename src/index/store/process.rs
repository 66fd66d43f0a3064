//! In: threads about to use the database, and forks. Out: leave to go on, in the process that may.
//! SQLite's connections and file locks belong to the process that opened them. A child made by fork() opens its own, which is
//! sound only if no thread of the parent was inside SQLite at that moment: its locks would stay taken in the child for ever.
//! Never: waits.

use std::sync::atomic::{AtomicU32, Ordering};

/// Process that opened the stores; 0 before the first one.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// Threads inside the database or the list of stores. A child gets the number of its parent at the moment of the fork.
static INSIDE: AtomicU32 = AtomicU32::new(0);

/// Held while the database is used.
pub struct Inside(());

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Leave to use a store made in process `made_in`: `None` in its children.
pub fn enter(made_in: u32) -> Option<Inside> {
    (made_in == std::process::id()).then(|| {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        Inside(())
    })
}

/// Leave to open stores in this process: `None` in a child that was forked while a thread of its parent was inside.
pub fn enter_to_open() -> Option<Inside> {
    let this = std::process::id();
    let owner = OWNER.load(Ordering::SeqCst);
    if owner != this {
        // Another thread of this child may have passed here in between.
        if INSIDE.load(Ordering::SeqCst) > 0 && OWNER.load(Ordering::SeqCst) != this {
            return None;
        }
        let _ = OWNER.compare_exchange(owner, this, Ordering::SeqCst, Ordering::SeqCst);
    }
    enter(this)
}
