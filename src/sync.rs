//! In: nothing. Out: locks, atomic numbers and threads for `batch` and `spool`: the standard library's.
//! With the feature `model` they are shuttle's, whose scheduler chooses who runs next at each of them (`spool/model.rs`).
//! Never: anything of its own, so that what is modelled is what runs.

#[cfg(feature = "model")]
pub(crate) use shuttle::{
    sync::{atomic, Condvar, Mutex, MutexGuard, PoisonError},
    thread, thread_local,
};
#[cfg(not(feature = "model"))]
pub(crate) use std::{
    sync::{atomic, Condvar, Mutex, MutexGuard, PoisonError},
    thread, thread_local,
};

/// A place between two things that others may see, where shuttle sees nothing: it does not follow the counts of an `Arc`.
#[inline]
pub(crate) fn others_may_run() {
    #[cfg(feature = "model")]
    thread::yield_now();
}
