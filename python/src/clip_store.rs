//! Python functions that list and delete what disk caches have stored in a folder.

use std::path::{Path, PathBuf};
use std::time::Duration;

use framespool::Error;
use framespool::clip_store::{StoredRun, prune, stored_runs};
use framespool::error::Site;
use pyo3::prelude::*;

use crate::errors::OrRaise;

/// Name, bytes, clips, first and last epoch in which clips are due, whether it has clips of every
/// epoch, and the seconds since its last use (`None` while a process uses it).
type RunTuple = (String, u64, u64, Option<(u64, u64)>, bool, Option<f64>);

/// The runs in the folder of a disk cache.
#[pyfunction]
pub(crate) fn clip_store_runs(py: Python<'_>, folder: PathBuf) -> PyResult<Vec<RunTuple>> {
    let runs = py
        .detach(|| stored_runs(&folder))
        .map_err(|error| failed(&folder, error))
        .or_raise(py)?;
    Ok(runs.into_iter().map(run_tuple).collect())
}

/// Deletes the runs that no process has used for some seconds. Returns them, each with the error
/// that prevented it.
#[pyfunction]
pub(crate) fn prune_clip_store(
    py: Python<'_>,
    folder: PathBuf,
    unused_seconds: u64,
) -> PyResult<Vec<(RunTuple, Option<String>)>> {
    let pruned = py.detach(|| prune(&folder, Duration::from_secs(unused_seconds)));
    let runs = pruned
        .map_err(|error| failed(&folder, error))
        .or_raise(py)?;
    Ok(runs
        .into_iter()
        .map(|(run, error)| (run_tuple(run), error.map(|error| error.to_string())))
        .collect())
}

fn failed(folder: &Path, error: std::io::Error) -> Error {
    Error::io(&Site::file(&folder.to_string_lossy().into()), error)
}

fn run_tuple(run: StoredRun) -> RunTuple {
    let unused = run.unused_since.map(|time| time.as_secs_f64());
    (
        run.name,
        run.bytes,
        run.clips,
        run.epochs,
        run.has_clips_of_every_epoch,
        unused,
    )
}
