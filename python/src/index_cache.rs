//! Python class for the index cache, and the store that a video or loader uses for its video
//! indices. If the cache cannot be opened, indices are built again instead of failing, and the
//! reason is logged.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use framespool::Error;
use framespool::error::Site;
use framespool::index::cache::{AccessMode, IndexCache, Progress, TransferReport, default_dir};
use framespool::media::StreamKind;
use framespool::source::{as_url, check_interrupt, display_name};
use pyo3::call::PyCallArgs;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::OrRaise;
use crate::interrupt::{POLL_INTERVAL, run_interruptible};
use crate::log_records::report_exception;

/// The keyword `index`. `False`: no cache. `None` or `True`: the cache at the default path.
/// Otherwise a folder.
#[derive(FromPyObject)]
pub(crate) enum IndexCacheArg {
    Flag(bool),
    Path(Option<PathBuf>),
}

/// The store for video indices, if there is one.
#[derive(Clone, Default)]
pub(crate) struct IndexCacheHandle {
    /// The store.
    pub store: Option<Arc<IndexCache>>,
    /// The folder, if one was selected.
    place: Option<PathBuf>,
    /// Why there is no store in that folder.
    open_error: Option<String>,
}

/// Stores stay open until Python exits, so that videos opened one after another share them.
static OPEN_CACHES: Mutex<Vec<Arc<IndexCache>>> = Mutex::new(Vec::new());

impl IndexCacheHandle {
    /// Opens the store that the keyword selects.
    pub(crate) fn open(wanted: &IndexCacheArg) -> Self {
        let place = match wanted {
            IndexCacheArg::Flag(false) => None,
            IndexCacheArg::Path(Some(place)) => Some(place.clone()),
            IndexCacheArg::Flag(true) | IndexCacheArg::Path(None) => default_dir(),
        };
        match place.clone().map(open) {
            None => Self::default(),
            Some(Ok(store)) => Self {
                store: Some(store),
                place,
                open_error: None,
            },
            Some(Err(error)) => Self {
                store: None,
                place,
                open_error: Some(error.to_string()),
            },
        }
    }

    /// Returns why indices are not cached.
    pub(crate) fn unavailable_reason(&self) -> Option<String> {
        self.store
            .as_ref()
            .map_or_else(|| self.open_error.clone(), |store| store.last_error())
    }

    /// Logs why indices are not cached, if they are not.
    pub(crate) fn log_error(&self, py: Python<'_>) -> PyResult<()> {
        let (Some(place), Some(reason)) = (&self.place, self.unavailable_reason()) else {
            return Ok(());
        };
        log(py, "index_cache_error", (place, reason))
    }
}

/// Calls a function of `framespool._common.logs`. An exception of a user's log handler is reported,
/// but does not lose a batch.
pub(crate) fn log<'py>(
    py: Python<'py>,
    function: &str,
    args: impl PyCallArgs<'py>,
) -> PyResult<()> {
    report_exception(
        py,
        py.import("framespool._common.logs")
            .and_then(|logs| logs.call_method1(function, args)),
    )
}

fn open(place: PathBuf) -> framespool::Result<Arc<IndexCache>> {
    let store = IndexCache::open(&place, AccessMode::Write)?;
    // In a forked child, the lock may be held forever by a thread that exists only in the parent.
    // In that case the store is not added to the list.
    if let Ok(mut opened) = OPEN_CACHES.try_lock()
        && !opened.iter().any(|known| Arc::ptr_eq(known, &store))
    {
        opened.retain(|known| known.is_same_file());
        opened.push(store.clone());
    }
    Ok(store)
}

/// Waits until the indices built so far are written, up to this many seconds per store.
#[pyfunction]
#[pyo3(signature = (seconds = None))]
pub(crate) fn flush_index(py: Python<'_>, seconds: Option<u64>) {
    let at_most = seconds.map_or(Duration::MAX, Duration::from_secs);
    py.detach(|| {
        let opened = OPEN_CACHES
            .try_lock()
            .map(|opened| opened.clone())
            .unwrap_or_default();
        for store in opened {
            store.flush(at_most);
        }
    });
}

/// The index cache, for filling it ahead of time.
#[pyclass(module = "framespool._framespool", frozen)]
pub struct Index(Arc<IndexCache>);

#[pymethods]
impl Index {
    #[new]
    fn new(py: Python<'_>, place: Option<PathBuf>) -> PyResult<Self> {
        let nowhere = || {
            Error::Argument(
                "there is no path for the index cache: FRAMESPOOL_INDEX is \"off\"; give a path"
                    .into(),
            )
        };
        py.detach(|| open(place.or_else(default_dir).ok_or_else(nowhere)?))
            .or_raise(py)
            .map(Self)
    }

    #[getter]
    fn file(&self) -> &Path {
        self.0.file()
    }

    #[getter]
    fn last_error(&self) -> Option<String> {
        self.0.last_error()
    }

    #[getter]
    fn lost(&self) -> u64 {
        self.0.dropped_writes()
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let flush = || {
            while !self.0.flush(POLL_INTERVAL) {
                check_interrupt()?;
            }
            Ok(())
        };
        run_interruptible(py, flush)
    }

    fn fill<'py>(
        &self,
        py: Python<'py>,
        paths: Vec<PathBuf>,
        stream: (Option<u32>, bool),
        threads: u32,
        check: bool,
        progress: Py<PyAny>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let fill = || {
            let report = throttled(&progress);
            let (stream, audio) = stream;
            let kind = match audio {
                true => StreamKind::Audio,
                false => StreamKind::Video,
            };
            self.0
                .prebuild(&paths, (kind, stream), threads, check, &report)
        };
        let filled = run_interruptible(py, fill)?;
        let dict = PyDict::new(py);
        dict.set_item("found", filled.found)?;
        dict.set_item("indexed", filled.built)?;
        dict.set_item("frames", filled.frames)?;
        dict.set_item(
            "wrong",
            filled.mismatched.into_iter().map(shown).collect::<Vec<_>>(),
        )?;
        let failed = filled
            .failed
            .into_iter()
            .map(|(path, error)| (shown(path), error.kind(), error.to_string()));
        dict.set_item("failed", failed.collect::<Vec<_>>())?;
        Ok(dict)
    }

    fn export(
        &self,
        py: Python<'_>,
        file: PathBuf,
        root: PathBuf,
        paths: Vec<PathBuf>,
        stream: Option<u32>,
    ) -> PyResult<TransferResult> {
        let export = || {
            let failed = |e| Error::io(&Site::file(&file.to_string_lossy().into()), e);
            let mut out = BufWriter::new(File::create(&file).map_err(failed)?);
            let done = self.0.export(&root, &paths, stream, &mut out)?;
            out.flush().map_err(failed)?;
            Ok(transfer_result(done))
        };
        run_interruptible(py, export)
    }

    fn import_(&self, py: Python<'_>, file: PathBuf, root: PathBuf) -> PyResult<TransferResult> {
        let import = || {
            let name = file.to_string_lossy();
            let opened =
                File::open(&file).map_err(|e| Error::io(&Site::file(&(&*name).into()), e))?;
            self.0
                .import(&root, &mut BufReader::new(opened), &name)
                .map(transfer_result)
        };
        run_interruptible(py, import)
    }

    fn prune(&self, py: Python<'_>, root: Option<PathBuf>) -> PyResult<u64> {
        py.detach(|| self.0.prune(root.as_deref())).or_raise(py)
    }

    fn shrink(&self, py: Python<'_>, max_bytes: Option<u64>) -> PyResult<u64> {
        py.detach(|| self.0.shrink(max_bytes)).or_raise(py)
    }

    fn paths(&self, py: Python<'_>, root: PathBuf) -> PyResult<Vec<OsString>> {
        let paths = py.detach(|| self.0.paths(&root)).or_raise(py)?;
        Ok(paths.into_iter().map(PathBuf::into_os_string).collect())
    }

    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let summary = py.detach(|| self.0.summary()).or_raise(py)?;
        let dict = PyDict::new(py);
        dict.set_item("entries", summary.entries)?;
        dict.set_item("bytes", summary.used_bytes)?;
        dict.set_item("max_bytes", summary.max_bytes)?;
        dict.set_item("oldest_day", summary.oldest_day)?;
        Ok(dict)
    }
}

/// Calls `progress` with the counts so far, at intervals and at the end.
fn throttled(progress: &Py<PyAny>) -> impl Fn(&Progress) -> framespool::Result<()> + '_ {
    let last = std::cell::Cell::new(None::<Instant>);
    move |now| {
        if now.done < now.total
            && last
                .get()
                .is_some_and(|last| last.elapsed() < POLL_INTERVAL)
        {
            return Ok(());
        }
        last.set(Some(Instant::now()));
        report_progress(progress, now)
    }
}

/// The same for the indexing of a new loader, which reports the numbers of finished and of all
/// samples.
pub(crate) fn index_progress(
    progress: &Py<PyAny>,
) -> impl Fn(usize, usize) -> framespool::Result<()> + '_ {
    let report = throttled(progress);
    move |done, total| {
        report(&Progress {
            done,
            failed: 0,
            total,
        })
    }
}

/// Calls `progress` with the counts so far; an exception that it raises, or a signal, stops the
/// work.
fn report_progress(progress: &Py<PyAny>, now: &Progress) -> framespool::Result<()> {
    Python::attach(|py| {
        let returned = progress.call1(py, (now.done, now.failed, now.total));
        returned.and_then(|_| py.check_signals()).map_err(|raised| {
            raised.restore(py);
            Error::Interrupted
        })
    })
}

/// The number of entries exported or imported; the paths skipped, with reasons.
type TransferResult = (u64, Vec<(OsString, String)>);

fn transfer_result(done: TransferReport) -> TransferResult {
    (
        done.entries,
        done.skipped
            .into_iter()
            .map(|(path, why)| (shown(path), why))
            .collect(),
    )
}

/// The path as a string, of a URL what is no secret: `pathlib` would change its slashes.
fn shown(path: PathBuf) -> OsString {
    match as_url(&path) {
        Some(_) => display_name(&path).to_string().into(),
        None => path.into_os_string(),
    }
}
