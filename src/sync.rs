//! Re-exports locks, atomics and threads: the standard library's, or shuttle's with the feature
//! `model`. Shuttle's scheduler chooses the thread that runs next at each of them
//! (`loader/shuttle_tests.rs`). Defines nothing but [`yield_point`], so that the modeled code is
//! the code that runs.

#[cfg(feature = "model")]
pub(crate) use shuttle::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError, atomic},
    thread, thread_local,
};
#[cfg(not(feature = "model"))]
pub(crate) use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError, atomic},
    thread, thread_local,
};

/// A scheduling point between two effects that other threads may see and shuttle does not track,
/// such as the counts of an `Arc`.
#[inline]
pub(crate) fn yield_point() {
    #[cfg(feature = "model")]
    thread::yield_now();
}
