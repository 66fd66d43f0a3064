//! Lets engine threads call Python functions safely: the interpreter waits for running calls before
//! it exits. Also passes the exception of a call to the code that requested it on the same thread.
//! No lock is held while a thread waits for the interpreter.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use pyo3::prelude::*;

static ACTIVE_CALLS: AtomicUsize = AtomicUsize::new(0);
static EXITING: AtomicBool = AtomicBool::new(false);

/// The interval at which the interpreter's exit checks whether all calls have ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Permission to call Python, until it is dropped. The interpreter's exit waits for it.
pub(super) struct CallGuard(());

impl CallGuard {
    /// Returns `None` once the interpreter is about to exit: a thread that waits for the GIL then
    /// never returns.
    pub(super) fn get() -> Option<Self> {
        ACTIVE_CALLS.fetch_add(1, Ordering::SeqCst);
        let guard = Self(());
        (!EXITING.load(Ordering::SeqCst)).then_some(guard)
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        ACTIVE_CALLS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Makes the interpreter's exit wait for running calls and prevent new ones.
pub(super) fn register_exit_hook(py: Python<'_>) -> PyResult<()> {
    /// The process that registered last: a forked child registers for itself. The GIL is held here,
    /// so no other thread registers at the same time.
    static REGISTERED: AtomicU32 = AtomicU32::new(0);
    let own = std::process::id();
    if REGISTERED.load(Ordering::SeqCst) == own {
        return Ok(());
    }
    let close = wrap_pyfunction!(close_calls, py)?;
    py.import("atexit")?
        .call_method1("register", (close, own))?;
    if REGISTERED.swap(own, Ordering::SeqCst) != 0 {
        // Calls that ran at the fork are on threads that this child does not have.
        ACTIVE_CALLS.store(0, Ordering::SeqCst);
    }
    Ok(())
}

#[pyfunction]
fn close_calls(py: Python<'_>, owner_pid: u32) -> PyResult<()> {
    if std::process::id() != owner_pid {
        return Ok(()); // a forked child has none of the threads
    }
    EXITING.store(true, Ordering::SeqCst);
    while ACTIVE_CALLS.load(Ordering::SeqCst) > 0 {
        py.detach(|| std::thread::sleep(POLL_INTERVAL));
        py.check_signals()?;
    }
    Ok(())
}

thread_local! {
    /// The exception of the last call on this thread; the outer `None` if no code requested it.
    static LAST_EXCEPTION: RefCell<Option<Option<PyErr>>> = const { RefCell::new(None) };
}

/// Records the exception of a call, for [`with_cause`] on the same thread.
pub(super) fn record_exception(raised: PyErr) {
    LAST_EXCEPTION.with_borrow_mut(|slot| {
        if let Some(slot) = slot {
            *slot = Some(raised);
        }
    });
}

/// Runs `work`, which may call Python functions on this thread. If `work` fails, its exception gets
/// the last exception that such a function raised as its cause.
pub(crate) fn with_cause<T>(py: Python<'_>, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let outer = LAST_EXCEPTION.replace(Some(None));
    let result = work();
    let raised = LAST_EXCEPTION.replace(outer).flatten();
    match (result, raised) {
        (Err(error), Some(raised)) => {
            error.set_cause(py, Some(raised));
            Err(error)
        }
        (result, _) => result,
    }
}
