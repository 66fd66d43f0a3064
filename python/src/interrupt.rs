//! Stops long work on Ctrl-C: checks of Python's signals while the GIL is released, and the
//! exception that follows.

use std::time::{Duration, Instant};

use framespool::{Error, source};
use pyo3::prelude::*;

use crate::errors::OrRaise;
use crate::log_records::emit_log_records;

/// The interval between checks for signals while the GIL is released.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Returns a check that stops long work on Ctrl-C. Call it often; at intervals it checks Python's
/// signals, and passes log records of other threads on.
fn interrupt() -> impl Fn() -> framespool::Result<()> {
    let last = std::cell::Cell::new(Instant::now());
    move || {
        if last.get().elapsed() < POLL_INTERVAL {
            return Ok(());
        }
        last.set(Instant::now());
        Python::attach(|py| emit_log_records(py).and_then(|()| py.check_signals())).map_err(
            |raised| {
                Python::attach(|py| raised.restore(py));
                Error::Interrupted
            },
        )
    }
}

/// Runs `work` without the GIL; Ctrl-C stops it. All work of the engine that may take long runs
/// here.
pub(crate) fn run_interruptible<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> framespool::Result<T> + Send,
) -> PyResult<T> {
    let result = py.detach(|| {
        let _scope = source::interrupt_scope(interrupt(), None);
        work()
    });
    or_raise_pending(py, result)
}

/// Returns the result, or raises the exception of a signal handler that interrupted the work.
pub(crate) fn or_raise_pending<T>(py: Python<'_>, result: framespool::Result<T>) -> PyResult<T> {
    if matches!(result, Err(Error::Interrupted))
        && let Some(raised) = PyErr::take(py)
    {
        return Err(raised);
    }
    result.or_raise(py)
}
