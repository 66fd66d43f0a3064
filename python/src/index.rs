//! In: where a user wants indices to be kept.
//! Out: the store there, or why there is none.
//! Never: lets the default place stop anybody: without it, indices are built anew.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use framespool::error::Site;
use framespool::index::store::{default_place, Access, Progress, Store, Travelled};
use framespool::Error;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::OrRaise;
use crate::video::{raise_own, watch, LOOK_UP};

/// `False`: nowhere. `None` or `True`: at the default place. Else a folder.
#[derive(FromPyObject)]
pub enum Wanted {
    Flag(bool),
    Place(Option<PathBuf>),
}

/// Where indices are kept, if anywhere.
#[derive(Clone, Default)]
pub struct Kept {
    /// The store.
    pub store: Option<Arc<Store>>,
    /// Why there is none at the default place.
    pub why_not: Option<String>,
}

/// Stores stay open until Python ends, so that one video after the other finds them open.
static OPENED: Mutex<Vec<Arc<Store>>> = Mutex::new(Vec::new());

impl Kept {
    /// Opens what is wanted.
    pub fn open(wanted: &Wanted) -> framespool::Result<Self> {
        match wanted {
            Wanted::Flag(false) => Ok(Self::default()),
            Wanted::Place(Some(place)) => Ok(Self { store: Some(open(place.clone())?), why_not: None }),
            Wanted::Flag(true) | Wanted::Place(None) => Ok(match default_place().map(open) {
                None => Self::default(),
                Some(Ok(store)) => Self { store: Some(store), why_not: None },
                Some(Err(error)) => Self { store: None, why_not: Some(error.to_string()) },
            }),
        }
    }

    /// What keeps indices from being kept.
    pub fn trouble(&self) -> Option<String> {
        self.store.as_ref().map_or_else(|| self.why_not.clone(), |store| store.trouble())
    }
}

fn open(place: PathBuf) -> framespool::Result<Arc<Store>> {
    let store = Store::open(&place, Access::Write)?;
    // A thread that a fork left behind in the parent may hold the lock for ever: then go without.
    if let Ok(mut opened) = OPENED.try_lock() {
        if !opened.iter().any(|known| Arc::ptr_eq(known, &store)) {
            opened.retain(|known| known.is_in_place());
            opened.push(store.clone());
        }
    }
    Ok(store)
}

/// Waits until indices that were built are written, a few seconds at most.
#[pyfunction]
pub fn flush_index(py: Python<'_>) {
    py.detach(|| {
        let opened = OPENED.try_lock().map(|opened| opened.clone()).unwrap_or_default();
        for store in opened {
            store.flush(Duration::from_secs(5));
        }
    });
}

/// The store, for those who fill it ahead of time.
#[pyclass(module = "framespool._framespool", frozen)]
pub struct Index(Arc<Store>);

#[pymethods]
impl Index {
    #[new]
    fn new(py: Python<'_>, place: Option<PathBuf>) -> PyResult<Self> {
        let nowhere = || {
            Error::Argument("there is no place for the index: FRAMESPOOL_INDEX is \"off\"; name one".into())
        };
        py.detach(|| open(place.or_else(default_place).ok_or_else(nowhere)?)).or_raise(py).map(Self)
    }

    #[getter]
    fn file(&self) -> &Path {
        self.0.file()
    }

    #[getter]
    fn trouble(&self) -> Option<String> {
        self.0.trouble()
    }

    #[getter]
    fn lost(&self) -> u64 {
        self.0.lost()
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let flush = || {
            let watch = watch();
            while !self.0.flush(LOOK_UP) {
                watch()?;
            }
            Ok(())
        };
        raise_own(py, py.detach(flush))
    }

    fn fill<'py>(
        &self,
        py: Python<'py>,
        paths: Vec<PathBuf>,
        stream: Option<u32>,
        threads: u32,
        check: bool,
        progress: Py<PyAny>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let fill = || {
            let last = std::cell::Cell::new(None::<Instant>);
            self.0.fill(&paths, stream, threads, check, &|now| {
                if now.done < now.total && last.get().is_some_and(|last| last.elapsed() < LOOK_UP) {
                    return Ok(());
                }
                last.set(Some(Instant::now()));
                tell(&progress, now)
            })
        };
        let filled = raise_own(py, py.detach(fill))?;
        let dict = PyDict::new(py);
        dict.set_item("found", filled.found)?;
        dict.set_item("indexed", filled.built)?;
        dict.set_item("frames", filled.frames)?;
        dict.set_item("wrong", filled.wrong)?;
        let failed = filled.failed.into_iter().map(|(path, error)| (path, error.kind(), error.to_string()));
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
    ) -> PyResult<Left> {
        let export = || {
            let failed = |e| Error::io(&Site::file(&file.to_string_lossy().into()), e);
            let mut out = BufWriter::new(File::create(&file).map_err(failed)?);
            let done = self.0.export(&root, &paths, stream, &mut out, &watch())?;
            out.flush().map_err(failed)?;
            Ok(left(done))
        };
        raise_own(py, py.detach(export))
    }

    fn import_(&self, py: Python<'_>, file: PathBuf, root: PathBuf) -> PyResult<Left> {
        let import = || {
            let name = file.to_string_lossy();
            let opened = File::open(&file).map_err(|e| Error::io(&Site::file(&(&*name).into()), e))?;
            self.0.import(&root, &mut BufReader::new(opened), &name, &watch()).map(left)
        };
        raise_own(py, py.detach(import))
    }

    fn prune(&self, py: Python<'_>, root: PathBuf) -> PyResult<u64> {
        py.detach(|| self.0.prune(&root)).or_raise(py)
    }
}

/// Tells Python how far it is; what it raises, or a signal, stops the work.
fn tell(progress: &Py<PyAny>, now: &Progress) -> framespool::Result<()> {
    Python::attach(|py| {
        let told = progress.call1(py, (now.done, now.failed, now.total));
        told.and_then(|_| py.check_signals()).map_err(|raised| {
            raised.restore(py);
            Error::Interrupted
        })
    })
}

/// Entries that travelled; what was left, and why.
type Left = (u64, Vec<(PathBuf, String)>);

fn left(done: Travelled) -> Left {
    (done.entries, done.left)
}
