//! Converts the engine's errors to Python exceptions, one class per kind (see
//! `framespool/errors.py`). The exception keeps the file, and the packet or frame number, of the
//! error.

use std::sync::Arc;

use framespool::Error;
use framespool::error::{Location, Site};
use pyo3::prelude::*;
use serde::de::DeserializeOwned;

/// The Python exception for an engine error.
pub(crate) fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    build(py, error).unwrap_or_else(|failed| failed)
}

fn build(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    // For an interrupt, raises the signal handler's own exception (KeyboardInterrupt); for an error
    // in a user's function that ends the program, raises that function's exception.
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
    let value = classes
        .get_item(error.kind())?
        .call1((error.to_string(),))?;
    if let Some(site) = error.site() {
        value.setattr("file", &*site.file)?;
        match site.location {
            Location::Packet(packet, _) => value.setattr("packet", packet)?,
            Location::Frame(frame) => value.setattr("frame", frame)?,
            Location::Box(..) | Location::Byte(_) | Location::WholeFile => {}
        }
    }
    Ok(PyErr::from_value(value))
}

/// Returns an error if `what`, created in process `owner_pid`, is used in a forked child. Call this
/// before taking any lock: a thread of the parent may have held it at the fork, and the child would
/// wait for it forever.
pub(crate) fn check_same_process(
    py: Python<'_>,
    what: &'static str,
    owner_pid: u32,
) -> PyResult<()> {
    let current_pid = std::process::id();
    if current_pid == owner_pid {
        return Ok(());
    }
    Err(to_python(
        py,
        &Error::Forked {
            what,
            owner_pid,
            current_pid,
        },
    ))
}

/// Issues the pending warning about HDR video, if there is one.
///
/// # Errors
/// The exception that Python's warning filters turn the warning into.
pub(crate) fn warn_hdr(py: Python<'_>) -> PyResult<()> {
    let Some(text) = framespool::transforms::take_hdr_warning() else {
        return Ok(());
    };
    let class = py.import("framespool.errors")?.getattr("HdrWarning")?;
    py.import("warnings")?
        .call_method1("warn", (text, class, 2))?;
    Ok(())
}

/// Converts the error of an engine result to a Python exception.
pub(crate) trait OrRaise<T> {
    /// Returns the value, or the Python exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for framespool::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| to_python(py, &error))
    }
}

/// Reads a specification from the Python package, which has checked its values.
pub(crate) fn read_spec<T: DeserializeOwned>(
    what: &'static str,
    spec: &Bound<'_, PyAny>,
) -> PyResult<T> {
    pythonize::depythonize(spec).map_err(|error| {
        // The Python package and the engine disagree, which is never a user's mistake.
        let site = Site::file(&Arc::from(what));
        to_python(
            spec.py(),
            &Error::Internal {
                site,
                reason: error.to_string(),
            },
        )
    })
}
