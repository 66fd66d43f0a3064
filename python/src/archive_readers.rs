//! Python functions that list the videos or images in WebDataset, TFRecord, RecordIO and LMDB
//! files. They report the location and label of each sample, and which samples were skipped and
//! why. They do not decode videos, and they release the GIL while they read the files.

use std::path::PathBuf;

use framespool::Error;
use framespool::clip_sampler::video_timing::SegmentRange;
use framespool::dataset::MediaLocation;
use framespool::dataset::Sample;
use framespool::source::MemorySource;
use framespool_datasets as datasets;
use framespool_datasets::{
    ArchiveListing, ArchiveSample, CellReader, ErrorPolicy, LabelKeys, LabelSource, LmdbLayout,
    LmdbOptions, SampleLocation, TfRecordOptions,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::annotation_readers::columns_to_dict;
use crate::batch_sampler::parse_choice;
use crate::errors::OrRaise;
use crate::interrupt::run_interruptible;
use crate::sample_table::SampleTable;

/// Samples; their columns; the number of samples skipped; the reasons for the first of these.
type ArchiveReaderResult<'py> = (SampleTable, Bound<'py, PyDict>, u64, Vec<String>);

pub(crate) fn parse_on_error(name: &str) -> framespool::Result<ErrorPolicy> {
    parse_choice(
        "on_error",
        name,
        &[("raise", ErrorPolicy::Raise), ("skip", ErrorPolicy::Skip)],
    )
}

/// Converts the location of the sample with this number.
pub(crate) fn media_location(
    number: usize,
    location: SampleLocation,
    tables: &CellReader,
) -> MediaLocation {
    match location {
        SampleLocation::Path(path) => MediaLocation::Path(path),
        SampleLocation::Member(member) => MediaLocation::ArchiveMember(member),
        SampleLocation::Memory(bytes) => {
            MediaLocation::Memory(MemorySource::new(format!("dataset[{number}]"), bytes))
        }
        SampleLocation::TableCell { file, column, row } => {
            MediaLocation::External(tables.cell(&file, column, row))
        }
    }
}

fn reader_result(py: Python<'_>, mut packed: ArchiveListing) -> PyResult<ArchiveReaderResult<'_>> {
    let columns = py.detach(|| packed.take_columns()).or_raise(py)?;
    let columns = columns_to_dict(py, columns)?;
    let (entries, skipped) = (packed.samples, packed.skipped);
    let tables = CellReader::default();
    let item = |(number, entry): (usize, ArchiveSample)| Sample {
        location: media_location(number, entry.location, &tables),
        label: entry.label,
        extent: SegmentRange::Full,
    };
    let entries =
        py.detach(|| SampleTable::from_samples(entries.into_iter().enumerate().map(item)));
    let reasons = packed.errors.iter().map(Error::to_string).collect();
    Ok((entries, columns, skipped, reasons))
}

/// Lists the samples of WebDataset shards. `label` is the extension of the member that holds the
/// label and, if that member is JSON, the nested keys that lead to the label.
#[pyfunction]
#[pyo3(signature = (shards, indices, video, label, columns, on_error, threads))]
#[allow(clippy::too_many_arguments)] // one for each keyword of the Python function
pub(crate) fn read_webdataset<'py>(
    py: Python<'py>,
    shards: Vec<PathBuf>,
    indices: Option<Vec<PathBuf>>,
    video: Vec<String>,
    label: Option<(String, Vec<String>)>,
    columns: Vec<String>,
    on_error: &str,
    threads: u32,
) -> PyResult<ArchiveReaderResult<'py>> {
    let label = match label {
        None => LabelSource::Unlabeled,
        Some((extension, names)) if names.is_empty() => LabelSource::Text(extension),
        Some((extension, names)) => LabelSource::Json(extension, names),
    };
    let read = || {
        datasets::webdataset(
            &shards,
            indices.as_deref(),
            &video,
            &label,
            &columns,
            parse_on_error(on_error)?,
            threads,
        )
    };
    let packed = run_interruptible(py, read)?;
    reader_result(py, packed)
}

/// Lists the records of TFRecord files. `source` and `label` are names of features. `check`
/// verifies the checksums of the data too, not only those of the framing.
#[pyfunction]
#[pyo3(signature = (files, source, label, check, on_error, threads))]
pub(crate) fn read_tfrecord<'py>(
    py: Python<'py>,
    files: Vec<PathBuf>,
    source: String,
    label: Option<String>,
    check: bool,
    on_error: &str,
    threads: u32,
) -> PyResult<ArchiveReaderResult<'py>> {
    let wanted = TfRecordOptions {
        source,
        label,
        check,
    };
    let read = || datasets::tfrecord(&files, &wanted, parse_on_error(on_error)?, threads);
    let packed = run_interruptible(py, read)?;
    reader_result(py, packed)
}

/// Lists the records of an MXNet RecordIO file. `index` is its index file, if there is one.
#[pyfunction]
#[pyo3(signature = (file, index, on_error))]
pub(crate) fn read_recordio<'py>(
    py: Python<'py>,
    file: PathBuf,
    index: Option<PathBuf>,
    on_error: &str,
) -> PyResult<ArchiveReaderResult<'py>> {
    let read = || datasets::recordio(&file, index.as_deref(), parse_on_error(on_error)?);
    let packed = run_interruptible(py, read)?;
    reader_result(py, packed)
}

/// Lists the values of LMDB databases. `key` is the pattern of the keys of values, or `None` if the
/// values are Caffe `Datum` messages. `label` is the pattern of the keys of labels and, if labels
/// are JSON, the nested keys that lead to the label. `check` also checks the overflow pages of long
/// values.
#[pyfunction]
#[pyo3(signature = (files, database, key, label, check, on_error, threads))]
#[allow(clippy::too_many_arguments)] // one for each keyword of the Python function
pub(crate) fn read_lmdb<'py>(
    py: Python<'py>,
    files: Vec<PathBuf>,
    database: Option<String>,
    key: Option<String>,
    label: Option<(String, Vec<String>)>,
    check: bool,
    on_error: &str,
    threads: u32,
) -> PyResult<ArchiveReaderResult<'py>> {
    let label = label.map(|(key, names)| LabelKeys { key, names });
    let layout = key.map_or(LmdbLayout::Caffe, |key| LmdbLayout::Plain { key, label });
    let how = LmdbOptions {
        database,
        layout,
        check,
    };
    let read = || datasets::lmdb(&files, &how, parse_on_error(on_error)?, threads);
    let packed = run_interruptible(py, read)?;
    reader_result(py, packed)
}
