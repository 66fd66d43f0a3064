//! Python function that lists the videos or images in the rows of Parquet and Arrow files. It
//! reports the location, label and segment of each sample, other columns, and which samples were
//! skipped and why. It does not decode videos, and it releases the GIL while it reads the files.

use std::path::PathBuf;

use framespool::Error;
use framespool::dataset::Sample;
use framespool::source::ArchiveMember;
use framespool_datasets as datasets;
use framespool_datasets::{ArchiveSample, CellReader, SampleKeys, SampleLocation, TableOptions};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::annotation_readers::columns_to_dict;
use crate::archive_readers::{media_location, parse_on_error};
use crate::errors::OrRaise;
use crate::interrupt::run_interruptible;
use crate::sample_table::{SampleTable, SegmentTuple, segment_range, segment_to_python};

/// The location of a sample, its label and its segment. A location is a path; (file number, first
/// byte, length, name); (file number, column, row); or bytes.
type SampleRow<'py> = (Bound<'py, PyAny>, i64, Option<SegmentTuple<'py>>);
/// Samples as a table or, if any is a cell, as rows; names of labels; columns; the number of
/// samples omitted; the reasons for the first of these.
type ColumnarReaderResult<'py> = (
    Option<SampleTable>,
    Vec<SampleRow<'py>>,
    Vec<String>,
    Bound<'py, PyDict>,
    u64,
    Vec<String>,
);

/// Lists the rows of Parquet or Arrow files. `kind` is "parquet" or "arrow". `keys` are the columns
/// of the source, the label, the start and the end. `columns` are other columns to return, by
/// default all with scalar values. `classes` are the names of the labels in their order, by default
/// sorted.
#[pyfunction]
#[pyo3(signature = (kind, files, keys, in_frames, classes, columns, root, on_error, threads))]
#[allow(clippy::too_many_arguments)] // one for each keyword of the Python function
pub(crate) fn read_tables<'py>(
    py: Python<'py>,
    kind: &str,
    files: Vec<PathBuf>,
    keys: (String, Option<String>, String, String),
    in_frames: bool,
    classes: Option<Vec<String>>,
    columns: Option<Vec<String>>,
    root: Option<PathBuf>,
    on_error: &str,
    threads: u32,
) -> PyResult<ColumnarReaderResult<'py>> {
    let (source, label, start, end) = keys;
    let keys = SampleKeys {
        source,
        label,
        start,
        end,
        in_frames,
    };
    let how = TableOptions {
        keys,
        classes,
        others: columns,
        root,
    };
    let read = || {
        let on_error = parse_on_error(on_error)?;
        match kind {
            "parquet" => datasets::parquet(&files, &how, on_error, threads),
            "arrow" => datasets::arrow(&files, &how, on_error, threads),
            other => Err(Error::Argument(format!(
                "a table is \"parquet\" or \"arrow\", got \"{other}\""
            ))),
        }
    };
    let (mut packed, classes) = run_interruptible(py, read)?;
    let columns = py.detach(|| packed.take_columns()).or_raise(py)?;
    let columns = columns_to_dict(py, columns)?;
    let reasons = packed.errors.iter().map(Error::to_string).collect();
    let (skipped, entries) = (packed.skipped, packed.samples);
    // A table of samples with cells cannot be pickled, so cells are returned as Python values.
    if !entries
        .iter()
        .any(|entry| matches!(entry.location, SampleLocation::TableCell { .. }))
    {
        let tables = CellReader::default();
        let item = |(number, entry): (usize, ArchiveSample)| -> framespool::Result<Sample> {
            let part = entry
                .segment
                .map(|bounds| segment_range("".as_ref(), bounds))
                .transpose()?;
            let place = media_location(number, entry.location, &tables);
            Ok(Sample {
                location: place,
                label: entry.label,
                extent: part.unwrap_or_default(),
            })
        };
        let items = || {
            entries
                .into_iter()
                .enumerate()
                .map(item)
                .collect::<framespool::Result<Vec<_>>>()
        };
        let made = py
            .detach(|| items().map(SampleTable::from_samples))
            .or_raise(py)?;
        return Ok((Some(made), Vec::new(), classes, columns, skipped, reasons));
    }
    let (mut rows, mut at) = (Vec::with_capacity(entries.len()), 0);
    for entry in entries {
        // Samples are in the order of the files, so a file number replaces the path, which Python
        // already has.
        let mut number = |file: &std::path::Path| {
            while files.get(at).is_some_and(|path| path != file) {
                at += 1;
            }
            at
        };
        let source = match entry.location {
            SampleLocation::Path(path) => path.into_os_string().into_pyobject(py)?.into_any(),
            SampleLocation::Member(ArchiveMember {
                file,
                offset,
                len,
                name,
            }) => (number(&file), offset, len, name.map(String::from))
                .into_pyobject(py)?
                .into_any(),
            SampleLocation::TableCell { file, column, row } => {
                (number(&file), &*column, row).into_pyobject(py)?.into_any()
            }
            SampleLocation::Memory(bytes) => PyBytes::new(py, &bytes).into_any(),
        };
        let part = entry
            .segment
            .map(|bounds| segment_range("".as_ref(), bounds))
            .transpose()
            .or_raise(py)?;
        rows.push((
            source,
            entry.label,
            segment_to_python(py, part.unwrap_or_default())?,
        ));
    }
    Ok((None, rows, classes, columns, skipped, reasons))
}
