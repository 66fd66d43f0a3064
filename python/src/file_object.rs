//! A source that reads from a Python file object by calling `seek` and `read` with the GIL held.
//! Small reads are served from a few cached blocks: a call costs more than reading most packets.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use framespool::dataset::SourceOpener;
use framespool::error::Site;
use framespool::source::{ByteSource, Identity, display_name};
use framespool::{Error, Result};
use pyo3::exceptions::{PyKeyboardInterrupt, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::sync::MutexExt;

const BLOCK_BYTES: u64 = 64 << 10;
/// Limits the cache to 2 MiB per file.
const MAX_BLOCKS: usize = 32;

/// A Python file object opened for reading in binary mode.
pub(crate) struct FileObject {
    name: Arc<str>,
    object: Py<PyAny>,
    len: u64,
    /// Held from `seek` to `read`, because the object has only one file position. A thread waits
    /// for it without the GIL, which the calls need.
    calls: Mutex<()>,
    /// Cached blocks with their numbers, most recently used last. This lock is not held while
    /// Python runs.
    blocks: Mutex<VecDeque<(u64, Arc<[u8]>)>>,
}

impl FileObject {
    /// Opens a file object; its length is the result of `seek(0, 2)`.
    ///
    /// # Errors
    /// `Io` with the exception that the object raised.
    pub(crate) fn open(py: Python<'_>, object: Py<PyAny>) -> Result<Self> {
        let bound = object.bind(py);
        let name = name_of(bound);
        let len = bound
            .call_method1("seek", (0, 2))
            .and_then(|end| match end.is_none() {
                // Some objects return `None` from `seek`.
                true => bound.call_method0("tell")?.extract::<u64>(),
                false => end.extract::<u64>(),
            });
        let len = len.map_err(|raised| error(py, &name, "seek(0, 2), for its length", raised))?;
        Ok(Self {
            name,
            object,
            len,
            calls: Mutex::default(),
            blocks: Mutex::default(),
        })
    }

    /// Fills `buffer` from `offset` with as many calls of `read` as needed; returns fewer bytes
    /// only at the end.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        Python::try_attach(|py| {
            let _calls = self
                .calls
                .lock_py_attached(py)
                .unwrap_or_else(PoisonError::into_inner);
            self.call(py, offset, buffer).map_err(|raised| {
                error(py, &self.name, &format!("reading at byte {offset}"), raised)
            })
        })
        .unwrap_or_else(|| Err(Error::io(&Site::file(&self.name), interpreter_ended())))
    }

    fn call(&self, py: Python<'_>, offset: u64, buffer: &mut [u8]) -> PyResult<usize> {
        let object = self.object.bind(py);
        object.call_method1("seek", (offset, 0))?;
        let mut done = 0;
        while done < buffer.len() {
            let left = buffer.len() - done;
            let read = object.call_method1("read", (left,))?;
            let bytes: PyBackedBytes = match read.extract() {
                Ok(bytes) => bytes,
                // Accepts other bytes-like objects; `str` and `None` are errors.
                Err(_) => py
                    .get_type::<pyo3::types::PyMemoryView>()
                    .call1((&read,))
                    .and_then(|view| view.call_method0("tobytes"))
                    .map_err(|_| {
                        let kind = read.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string());
                        PyTypeError::new_err(format!(
                            "read({left}) returned {kind}, not bytes; open the file in binary reading mode, \"rb\""
                        ))
                    })?
                    .extract()?,
            };
            if bytes.is_empty() {
                break;
            }
            if bytes.len() > left {
                let got = bytes.len();
                return Err(PyValueError::new_err(format!(
                    "read({left}) returned {got} bytes, more than requested"
                )));
            }
            buffer[done..done + bytes.len()].copy_from_slice(&bytes);
            done += bytes.len();
        }
        Ok(done)
    }

    /// Returns a block of the file; the last block may be shorter.
    fn block(&self, number: u64) -> Result<Arc<[u8]>> {
        let blocks = || self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut blocks = blocks();
            if let Some(place) = blocks.iter().position(|(held, _)| *held == number) {
                let found = blocks.remove(place).expect("just found");
                blocks.push_back(found.clone());
                return Ok(found.1);
            }
        }
        let start = number * BLOCK_BYTES;
        let mut bytes = vec![0; BLOCK_BYTES.min(self.len.saturating_sub(start)) as usize];
        let got = self.read(start, &mut bytes)?;
        bytes.truncate(got);
        let bytes: Arc<[u8]> = bytes.into();
        let mut blocks = blocks();
        if blocks.len() == MAX_BLOCKS {
            blocks.pop_front();
        }
        blocks.push_back((number, bytes.clone()));
        Ok(bytes)
    }
}

impl ByteSource for FileObject {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let want = (buffer.len() as u64).min(self.len.saturating_sub(offset)) as usize;
        let buffer = &mut buffer[..want];
        if buffer.len() as u64 >= BLOCK_BYTES {
            return self.read(offset, buffer);
        }
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let block = self.block(at / BLOCK_BYTES)?;
            let inside = (at % BLOCK_BYTES) as usize;
            let Some(rest) = block.get(inside..).filter(|rest| !rest.is_empty()) else {
                break;
            };
            let take = rest.len().min(buffer.len() - done);
            buffer[done..done + take].copy_from_slice(&rest[..take]);
            done += take;
        }
        Ok(done)
    }

    fn identity(&self) -> Identity {
        Identity::Memory(self.object.as_ptr() as usize, self.len as usize)
    }
}

/// Opens a file object when it is first read.
pub(crate) struct FileObjectOpener {
    name: Arc<str>,
    object: Py<PyAny>,
}

impl FileObjectOpener {
    pub(crate) fn new(py: Python<'_>, object: Py<PyAny>) -> Self {
        Self {
            name: name_of(object.bind(py)),
            object,
        }
    }
}

impl SourceOpener for FileObjectOpener {
    fn name(&self) -> Arc<str> {
        self.name.clone()
    }

    fn open(&self) -> Result<Arc<dyn ByteSource>> {
        let opened = Python::try_attach(|py| FileObject::open(py, self.object.clone_ref(py)));
        Ok(Arc::new(opened.unwrap_or_else(|| {
            Err(Error::io(&Site::file(&self.name), interpreter_ended()))
        })?))
    }
}

/// Name of a file object for messages: its address, as files of fsspec have it, its path or its
/// name.
fn name_of(object: &Bound<'_, PyAny>) -> Arc<str> {
    let attribute = |name: &&str| object.getattr(*name).ok()?.extract::<String>().ok();
    match ["full_name", "path", "name"].iter().find_map(attribute) {
        Some(name) => format!("file object {:?}", display_name(Path::new(&name))).into(),
        None => "file object".into(),
    }
}

fn interpreter_ended() -> std::io::Error {
    std::io::Error::other("the Python interpreter is shutting down")
}

/// Converts an exception that the object raised. A Ctrl-C during its code is not an error of the
/// file: the KeyboardInterrupt stays set, and the waiting caller raises it.
fn error(py: Python<'_>, name: &Arc<str>, doing: &str, raised: PyErr) -> Error {
    if raised.is_instance_of::<PyKeyboardInterrupt>(py) {
        raised.restore(py);
        return Error::Interrupted;
    }
    Error::io(
        &Site::file(name),
        std::io::Error::other(format!("{doing}: {raised}")),
    )
}
