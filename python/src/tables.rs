//! In: files whose rows are videos or pictures.
//! Out: where each of them is, its label and its part, columns, and what was left out and why.
//! Never: reads a video, or holds the GIL while listing.

use std::path::PathBuf;

use framespool::source::Member;
use framespool::Error;
use framespool_datasets as datasets;
use framespool_datasets::{Keys, Stored, TableColumns};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::archives::policy;
use crate::datasets::{part_of, table, Part};
use crate::errors::OrRaise;
use crate::video::{raise_own, watch};

/// Where an entry is (a path; a file with first byte, length and name; a file with column and row; or bytes), its label and
/// its part.
type Row<'py> = (Bound<'py, PyAny>, i64, Option<Part<'py>>);
/// Entries; names of labels; columns; how many were left out; why, of the first ones.
type Listing<'py> = (Vec<Row<'py>>, Vec<String>, Bound<'py, PyDict>, u64, Vec<String>);

/// `keys`: of the source, the label, the start and the end. `columns`: other ones, by default all plain ones.
#[pyfunction]
#[pyo3(signature = (files, keys, in_frames, columns, root, on_error, threads))]
#[allow(clippy::too_many_arguments)] // one for each keyword of the Python function
pub fn read_parquet<'py>(
    py: Python<'py>,
    files: Vec<PathBuf>,
    keys: (String, String, String, String),
    in_frames: bool,
    columns: Option<Vec<String>>,
    root: Option<PathBuf>,
    on_error: &str,
    threads: u32,
) -> PyResult<Listing<'py>> {
    let (source, label, start, end) = keys;
    let keys = Keys { source, label, start, end, in_frames };
    let how = TableColumns { keys, others: columns, root };
    let read = || datasets::parquet(&files, &how, policy(on_error)?, threads, &watch());
    let (mut packed, classes) = raise_own(py, py.detach(read))?;
    let columns = table(py, packed.take_columns().or_raise(py)?)?;
    let (mut rows, mut at) = (Vec::with_capacity(packed.entries.len()), 0);
    for entry in packed.entries {
        // Entries come in the order of the files, whose paths Python has already.
        let mut number = |file: &std::path::Path| {
            while files.get(at).is_some_and(|path| path != file) {
                at += 1;
            }
            at
        };
        let source = match entry.stored {
            Stored::Path(path) => path.into_os_string().into_pyobject(py)?.into_any(),
            Stored::Member(Member { file, offset, len, name }) => {
                (number(&file), offset, len, name.map(String::from)).into_pyobject(py)?.into_any()
            }
            Stored::Cell { file, column, row } => {
                (number(&file), &*column, row).into_pyobject(py)?.into_any()
            }
            Stored::Joined(bytes) => PyBytes::new(py, &bytes).into_any(),
        };
        rows.push((source, entry.label, entry.part.map(|bounds| part_of(py, bounds)).transpose()?));
    }
    let reasons = packed.reasons.iter().map(Error::to_string).collect();
    Ok((rows, classes, columns, packed.left_out, reasons))
}
