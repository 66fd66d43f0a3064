//! Sources of videos and images, as Python passes them: paths, bytes, file objects, members, cells
//! and image sequences.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use framespool::dataset::SourceOpener;
use framespool::source::{self, ArchiveMember, ImageSequence};
use framespool_datasets::CellReader;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyString;

/// Returns the name of a path in messages and files: the path itself; of a URL, what is no secret.
#[pyfunction]
pub(crate) fn display_name(path: PathBuf) -> String {
    source::display_name(&path).to_string()
}

/// A path, bytes, or `framespool.datasets.ArchiveMember`, `TableCell` or `ImageSequence`.
#[derive(FromPyObject)]
pub(crate) enum Source {
    Bytes(PyBackedBytes),
    Path(PathBuf),
    Member(MemberArgs),
    Cell(CellArgs),
    ImageSequence(ImageSequenceArgs),
}

/// A source from which a video can be opened, or an image decoded.
#[derive(FromPyObject)]
pub(crate) enum VideoSource {
    Stored(Source),
    /// A file object; the Python package has checked that it has `read` and `seek`.
    Object(Py<PyAny>),
}

/// `framespool.datasets.TableCell`; the Python package has validated the number.
#[derive(FromPyObject)]
pub(crate) struct CellArgs {
    file: PathBuf,
    column: String,
    row: u64,
}

/// `framespool.datasets.ArchiveMember`; the Python package has validated the numbers.
#[derive(FromPyObject)]
pub(crate) struct MemberArgs {
    file: PathBuf,
    offset_bytes: u64,
    num_bytes: u64,
    name: Option<OsString>,
}

/// Archives and tables, stored once each, however many members and cells refer to them.
#[derive(Default)]
pub(crate) struct SourceCache {
    paths: HashSet<Arc<Path>>,
    tables: CellReader,
}

impl SourceCache {
    /// Converts a member to the engine's type.
    pub(crate) fn member(&mut self, args: MemberArgs) -> ArchiveMember {
        let MemberArgs {
            file,
            offset_bytes: offset,
            num_bytes: len,
            name,
        } = args;
        let file = self.paths.get(file.as_path()).cloned().unwrap_or_else(|| {
            let file: Arc<Path> = file.into();
            self.paths.insert(file.clone());
            file
        });
        ArchiveMember {
            file,
            offset,
            len,
            name: name.map(|name| name.to_string_lossy().into()),
        }
    }

    /// Converts a cell to the engine's type.
    pub(crate) fn cell(&self, args: CellArgs) -> Arc<dyn SourceOpener> {
        self.tables.cell(&args.file, args.column.into(), args.row)
    }
}

/// `framespool.datasets.ImageSequence`; the Python package has validated the numbers.
#[derive(FromPyObject)]
pub struct ImageSequenceArgs {
    folder: PathBuf,
    pattern: Option<String>,
    first: u32,
    count: Option<u32>,
    #[pyo3(attribute("_fps"))]
    fps: (u32, u32),
}

impl From<ImageSequenceArgs> for ImageSequence {
    fn from(frames: ImageSequenceArgs) -> Self {
        let ImageSequenceArgs {
            folder,
            pattern,
            first,
            count,
            fps,
        } = frames;
        Self {
            folder,
            pattern,
            first,
            count,
            fps,
        }
    }
}

/// Returns a URL without the parameters of its signature, and other text unchanged.
#[pyfunction]
pub(crate) fn without_signature(url: Bound<'_, PyString>) -> Bound<'_, PyString> {
    match url.to_str().map(source::without_signature) {
        Ok(Cow::Owned(shortened)) => PyString::new(url.py(), &shortened),
        // A path that is not UTF-8 is no URL.
        _ => url,
    }
}

/// Returns the counters of this process for reading from URLs.
///
/// Returns: dict[str, int]: `remote_requests` (including retries, excluding redirects),
/// `remote_bytes` (file bytes received), `remote_retries` (requests that repeated a failed one),
/// `remote_cache_hits` (reads served from the block cache) and `remote_outages` (times in which a
/// server answered no request).
///
/// Example:
///     >>> import framespool as fsp
///     >>> sorted(fsp.tools.remote_stats())
///     ['remote_bytes', 'remote_cache_hits', 'remote_outages', 'remote_requests', 'remote_retries']
#[pyfunction]
pub(crate) fn remote_stats() -> HashMap<&'static str, u64> {
    let total = source::remote_stats();
    HashMap::from([
        ("remote_requests", total.requests),
        ("remote_bytes", total.bytes),
        ("remote_retries", total.retries),
        ("remote_cache_hits", total.cache_hits),
        ("remote_outages", total.outages),
    ])
}
