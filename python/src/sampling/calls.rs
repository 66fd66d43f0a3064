//! In: calls of Python functions from threads of the engine.
//! Out: leave to make them, as long as the interpreter lives; what they raised, for whoever asked on the same thread.
//! Never: keeps a lock while it waits for the interpreter.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use pyo3::prelude::*;

static RUNNING: AtomicUsize = AtomicUsize::new(0);
static CLOSED: AtomicBool = AtomicBool::new(false);

/// How often the end of the interpreter looks whether calls are over.
const LOOK_UP: Duration = Duration::from_millis(5);

/// Leave to call, until it is dropped. The interpreter's end waits for it.
pub struct Leave(());

impl Leave {
    /// `None` once the interpreter is about to end: a thread that waits for it then never comes back.
    pub fn get() -> Option<Self> {
        RUNNING.fetch_add(1, Ordering::SeqCst);
        let leave = Self(());
        (!CLOSED.load(Ordering::SeqCst)).then_some(leave)
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// From now on the interpreter's end waits for calls under way, and lets no new ones begin.
pub fn end_with_interpreter(py: Python<'_>) -> PyResult<()> {
    /// The process that registered last: a fork's child registers for itself. The interpreter is held, so nobody does so meanwhile.
    static REGISTERED: AtomicU32 = AtomicU32::new(0);
    let own = std::process::id();
    if REGISTERED.load(Ordering::SeqCst) == own {
        return Ok(());
    }
    let close = wrap_pyfunction!(close_calls, py)?;
    py.import("atexit")?.call_method1("register", (close, own))?;
    if REGISTERED.swap(own, Ordering::SeqCst) != 0 {
        // Calls that were under way when it was forked are on threads that it does not have.
        RUNNING.store(0, Ordering::SeqCst);
    }
    Ok(())
}

#[pyfunction]
fn close_calls(py: Python<'_>, made_in: u32) -> PyResult<()> {
    if std::process::id() != made_in {
        return Ok(()); // a fork's child has none of the threads
    }
    CLOSED.store(true, Ordering::SeqCst);
    while RUNNING.load(Ordering::SeqCst) > 0 {
        py.detach(|| std::thread::sleep(LOOK_UP));
        py.check_signals()?;
    }
    Ok(())
}

thread_local! {
    /// What the last call on this thread raised; the outer `None` where nobody asks.
    static RAISED: RefCell<Option<Option<PyErr>>> = const { RefCell::new(None) };
}

/// Keeps what a call raised, for [`with_cause`] on the same thread.
pub fn note(raised: PyErr) {
    RAISED.with_borrow_mut(|slot| {
        if let Some(slot) = slot {
            *slot = Some(raised);
        }
    });
}

/// Does `work`, which may call Python functions on this thread: its error gets what they raised as its cause.
pub fn with_cause<T>(py: Python<'_>, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let outer = RAISED.replace(Some(None));
    let result = work();
    let raised = RAISED.replace(outer).flatten();
    match (result, raised) {
        (Err(error), Some(raised)) => {
            error.set_cause(py, Some(raised));
            Err(error)
        }
        (result, _) => result,
    }
}
