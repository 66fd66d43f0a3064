//! In: files that hold many videos or pictures.
//! Out: where each of them lies, its label, and what was left out and why.
//! Never: reads a video, or holds the GIL while listing.

use std::path::PathBuf;

use framespool::sampling::footage::Extent;
use framespool::source::{MemorySource, Place};
use framespool::spool::entries::Item;
use framespool::Error;
use framespool_datasets as datasets;
use framespool_datasets::{
    Beside, Features, LabelIn, Lmdb, LmdbLayout, OnError, Packed, PackedEntry, Stored, Tables,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::datasets::table;
use crate::entries::Entries;
use crate::errors::OrRaise;
use crate::order::word;
use crate::video::{called, raise_own, watch};

/// Entries; their columns; how many were left out; why, of the first ones.
type Listing<'py> = (Entries, Bound<'py, PyDict>, u64, Vec<String>);

pub fn policy(name: &str) -> framespool::Result<OnError> {
    word("on_error", name, &[("raise", OnError::Raise), ("skip", OnError::Skip)])
}

/// Where an entry with this number is.
pub fn place(number: usize, stored: Stored, tables: &Tables) -> Place {
    match stored {
        Stored::Path(path) => Place::Path(path),
        Stored::Member(member) => Place::Member(member),
        Stored::Joined(bytes) => Place::Memory(MemorySource::new(format!("dataset[{number}]"), bytes)),
        Stored::Cell { file, column, row } => Place::Opened(tables.cell(&file, column, row)),
    }
}

fn listing(py: Python<'_>, mut packed: Packed) -> PyResult<Listing<'_>> {
    let columns = py.detach(|| packed.take_columns()).or_raise(py)?;
    let columns = table(py, columns)?;
    let (entries, left_out) = (packed.entries, packed.left_out);
    let tables = Tables::default();
    let item = |(number, entry): (usize, PackedEntry)| Item {
        place: place(number, entry.stored, &tables),
        label: entry.label,
        extent: Extent::Whole,
    };
    let entries = py.detach(|| Entries::of(entries.into_iter().enumerate().map(item)));
    let reasons = packed.reasons.iter().map(Error::to_string).collect();
    Ok((entries, columns, left_out, reasons))
}

/// `label`: the extension of a member, and names in its JSON, if it is one.
#[pyfunction]
#[pyo3(signature = (shards, indices, video, label, columns, on_error, threads))]
#[allow(clippy::too_many_arguments)] // one for each keyword of the Python function
pub fn read_webdataset<'py>(
    py: Python<'py>,
    shards: Vec<PathBuf>,
    indices: Option<Vec<PathBuf>>,
    video: Vec<String>,
    label: Option<(String, Vec<String>)>,
    columns: Vec<String>,
    on_error: &str,
    threads: u32,
) -> PyResult<Listing<'py>> {
    let label = match label {
        None => LabelIn::Nothing,
        Some((extension, names)) if names.is_empty() => LabelIn::Text(extension),
        Some((extension, names)) => LabelIn::Json(extension, names),
    };
    let read = || {
        datasets::webdataset(
            &shards,
            indices.as_deref(),
            &video,
            &label,
            &columns,
            policy(on_error)?,
            threads,
            &watch(),
        )
    };
    let packed = raise_own(py, py.detach(called(read)))?;
    listing(py, packed)
}

/// `source`, `label`: names of features. `check`: data is held against its checksums.
#[pyfunction]
#[pyo3(signature = (files, source, label, check, on_error, threads))]
pub fn read_tfrecord<'py>(
    py: Python<'py>,
    files: Vec<PathBuf>,
    source: String,
    label: Option<String>,
    check: bool,
    on_error: &str,
    threads: u32,
) -> PyResult<Listing<'py>> {
    let wanted = Features { source, label, check };
    let read = || datasets::tfrecord(&files, &wanted, policy(on_error)?, threads, &watch());
    let packed = raise_own(py, py.detach(called(read)))?;
    listing(py, packed)
}

/// `index`: the list of records, if there is one.
#[pyfunction]
#[pyo3(signature = (file, index, on_error))]
pub fn read_recordio<'py>(
    py: Python<'py>,
    file: PathBuf,
    index: Option<PathBuf>,
    on_error: &str,
) -> PyResult<Listing<'py>> {
    let read = || datasets::recordio(&file, index.as_deref(), policy(on_error)?, &watch());
    let packed = raise_own(py, py.detach(called(read)))?;
    listing(py, packed)
}

/// `key`: what keys of values look like, or none where values are Datums of Caffe. `label`: what keys of labels look like, and names
/// in their JSON, if it is one. `check`: the pages of long values are looked at.
#[pyfunction]
#[pyo3(signature = (files, database, key, label, check, on_error, threads))]
#[allow(clippy::too_many_arguments)] // one for each keyword of the Python function
pub fn read_lmdb<'py>(
    py: Python<'py>,
    files: Vec<PathBuf>,
    database: Option<String>,
    key: Option<String>,
    label: Option<(String, Vec<String>)>,
    check: bool,
    on_error: &str,
    threads: u32,
) -> PyResult<Listing<'py>> {
    let label = label.map(|(key, names)| Beside { key, names });
    let layout = key.map_or(LmdbLayout::Caffe, |key| LmdbLayout::Plain { key, label });
    let how = Lmdb { database, layout, check };
    let read = || datasets::lmdb(&files, &how, policy(on_error)?, threads, &watch());
    let packed = raise_own(py, py.detach(called(read)))?;
    listing(py, packed)
}
