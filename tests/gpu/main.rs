//! Tests of the GPU decoders, on the simulated driver that `tests/simulated_gpu/build.sh` builds or
//! on a real one. They are a program of their own because injected faults affect the driver of the
//! whole process.

#[path = "../common/mod.rs"]
mod common;
mod jpeg;
mod simulated_driver;
mod video;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lets only one test run at a time, because tests count the objects that the driver holds.
fn exclusive() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}
