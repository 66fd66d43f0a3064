//! In: the engine's errors.
//! Out: Python exceptions, one class per kind (see `framespool/errors.py`).
//! Never: loses the file or the place.

use framespool::error::Place;
use framespool::Error;
use pyo3::prelude::*;

/// The Python exception for an engine error.
pub fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    build(py, error).unwrap_or_else(|failed| failed)
}

fn build(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    // A signal handler's own exception (KeyboardInterrupt), and what ended a function of the user's, is what the caller wants to see.
    match error {
        Error::Interrupted => py.check_signals()?,
        Error::Callback { raised, .. } => {
            if let Some(raised) = raised.downcast_ref::<PyErr>() {
                return Ok(raised.clone_ref(py));
            }
        }
        _ => {}
    }
    let classes = py.import("framespool.errors")?.getattr("BY_KIND")?;
    let value = classes.get_item(error.kind())?.call1((error.to_string(),))?;
    if let Some(site) = error.site() {
        value.setattr("file", &*site.file)?;
        match site.place {
            Place::Packet(packet, _) => value.setattr("packet", packet)?,
            Place::Frame(frame) => value.setattr("frame", frame)?,
            Place::Box(..) | Place::Byte(_) | Place::Whole => {}
        }
    }
    Ok(PyErr::from_value(value))
}

/// Asks that `what`, made in process `made_in`, is not used in a fork's child: before any lock, which a thread of the parent may have
/// held when it forked.
pub fn same_process(py: Python<'_>, what: &'static str, made_in: u32) -> PyResult<()> {
    let used_in = std::process::id();
    if used_in == made_in {
        return Ok(());
    }
    Err(to_python(py, &Error::Forked { what, made_in, used_in }))
}

/// Gives the caller the warning of video of high dynamic range that is due, if one is.
///
/// # Errors
/// What Python's filters make of the warning.
pub fn warn_of_hdr(py: Python<'_>) -> PyResult<()> {
    let Some(text) = framespool::pixels::take_hdr_warning() else { return Ok(()) };
    let class = py.import("framespool.errors")?.getattr("HdrWarning")?;
    py.import("warnings")?.call_method1("warn", (text, class, 2))?;
    Ok(())
}

/// Adds the conversion to the engine's results.
pub trait OrRaise<T> {
    /// The value, or the Python exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for framespool::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| to_python(py, &error))
    }
}
