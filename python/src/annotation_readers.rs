//! Python functions that list datasets from folders, list files and annotation files. They return
//! samples, class names, columns and notes on skipped samples, and do not open any video.

use std::ffi::OsString;
use std::path::PathBuf;

use framespool::Error;
use framespool_datasets::{
    self as datasets, AnnotationColumn, AnnotationOptions, Column, DaliUnit, Dataset,
    ImageSequencePattern, Sample, SampleKeys, SegmentBounds, TableDescription, Value,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use pythonize::depythonize;

use crate::errors::OrRaise;
use crate::interrupt::run_interruptible;
use crate::sample_table::{SampleTable, build_table};

/// `(pattern, first, count, fps)`.
type FrameListTuple = (String, u32, Option<u32>, (u32, u32));
/// Samples, class names, columns, and notes on skipped samples.
type FilteredReaderResult<'py> = (SampleTable, Vec<String>, Bound<'py, PyDict>, Vec<String>);

fn filtered_result<'py>(
    py: Python<'py>,
    dataset: framespool::Result<Dataset>,
) -> PyResult<FilteredReaderResult<'py>> {
    let Dataset {
        samples,
        classes,
        columns,
        notes,
    } = dataset.or_raise(py)?;
    Ok((
        build_table(py, samples)?,
        classes,
        columns_to_dict(py, columns)?,
        notes,
    ))
}

/// Converts columns to a dict of lists by column name.
///
/// The garbage collector is off meanwhile: all objects are used, and it would search those of a
/// million rows again and again, which takes up to a third of the time.
pub(crate) fn columns_to_dict(py: Python<'_>, columns: Vec<Column>) -> PyResult<Bound<'_, PyDict>> {
    let gc = py.import("gc")?;
    let is_enabled = gc.call_method0("isenabled")?.is_truthy()?;
    gc.call_method0("disable")?;
    let table = column_lists(py, columns);
    if is_enabled {
        gc.call_method0("enable")?;
    }
    table
}

fn column_lists(py: Python<'_>, columns: Vec<Column>) -> PyResult<Bound<'_, PyDict>> {
    let table = PyDict::new(py);
    for Column { name, values } in columns {
        // Rows with the same text one after another, such as the segments of a video, share one
        // string.
        let (mut last, mut shared) = (Value::Null, py.None().into_bound(py));
        let mut to_python = |value: Value| {
            if !matches!(value, Value::Text(_)) || value != last {
                shared = json_to_python(py, &value)?;
                last = value;
            }
            Ok(shared.clone())
        };
        let values = values
            .into_iter()
            .map(&mut to_python)
            .collect::<PyResult<Vec<_>>>()?;
        table.set_item(name, PyList::new(py, values)?)?;
    }
    Ok(table)
}

fn frame_list((pattern, first, count, fps): FrameListTuple) -> ImageSequencePattern {
    ImageSequencePattern {
        pattern,
        first,
        count,
        fps,
    }
}

/// Converts a value to the object that Python's json module would return.
fn json_to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(flag) => flag.into_pyobject(py)?.to_owned().into_any(),
        Value::Integer(number) => number.into_pyobject(py)?.into_any(),
        Value::Unsigned(number) => number.into_pyobject(py)?.into_any(),
        Value::Float(number) => number.into_pyobject(py)?.into_any(),
        Value::Text(text) => text.into_pyobject(py)?.into_any(),
        Value::List(items) => {
            let items = items
                .iter()
                .map(|item| json_to_python(py, item))
                .collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, items)?.into_any()
        }
        Value::Map(items) => {
            let map = PyDict::new(py);
            for (name, item) in items {
                map.set_item(name, json_to_python(py, item)?)?;
            }
            map.into_any()
        }
    })
}

#[pyfunction]
pub(crate) fn read_folder(
    py: Python<'_>,
    root: PathBuf,
    extensions: Option<Vec<String>>,
) -> PyResult<(SampleTable, Vec<String>)> {
    let dataset = py
        .detach(|| datasets::folder(&root, extensions.as_deref()))
        .or_raise(py)?;
    Ok((build_table(py, dataset.samples)?, dataset.classes))
}

/// Reads annotation files by a description (`framespool/datasets/_annotation_table.py`).
#[pyfunction]
pub(crate) fn read_annotation_table<'py>(
    py: Python<'py>,
    files: Vec<PathBuf>,
    root: Option<PathBuf>,
    description: &Bound<'py, PyAny>,
) -> PyResult<FilteredReaderResult<'py>> {
    let description: TableDescription = depythonize(description)
        .map_err(|error| Error::Argument(format!("description of an annotation table: {error}")))
        .or_raise(py)?;
    filtered_result(
        py,
        py.detach(|| datasets::annotation_table(&files, root.as_deref(), &description)),
    )
}

#[pyfunction]
pub(crate) fn read_annotation_file(
    py: Python<'_>,
    path: PathBuf,
    root: Option<PathBuf>,
    columns: Vec<String>,
    delimiter: Option<String>,
    extension: Option<String>,
    frames: FrameListTuple,
) -> PyResult<FilteredReaderResult<'_>> {
    let read = || {
        let columns: Vec<_> = columns
            .iter()
            .map(|name| AnnotationColumn::parse(name))
            .collect::<framespool::Result<_>>()?;
        let options = AnnotationOptions {
            root: root.as_deref(),
            columns: &columns,
            delimiter: delimiter.as_deref(),
            extension: extension.as_deref(),
            frames: Some(&frame_list(frames)),
        };
        datasets::annotation_file(&path, &options)
    };
    filtered_result(py, py.detach(read))
}

/// Lists the samples of a file list of DALI's video readers. `rounding` is (whether to round the
/// start up, whether to round the end up, fps), for seconds that are converted to frames.
#[pyfunction]
pub(crate) fn read_dali_file_list(
    py: Python<'_>,
    path: PathBuf,
    root: Option<PathBuf>,
    rounding: Option<(bool, bool, (u32, u32))>,
) -> PyResult<FilteredReaderResult<'_>> {
    let unit = match rounding {
        None => DaliUnit::Seconds,
        Some((start_up, end_up, fps)) => DaliUnit::Rounded {
            start_up,
            end_up,
            fps,
        },
    };
    filtered_result(
        py,
        py.detach(|| datasets::dali_file_list(&path, root.as_deref(), unit)),
    )
}

/// Path, label, and the segment as (start, end) in frames; negative numbers count from the end of
/// the video.
type FrameRangeRow = (OsString, i64, Option<(i64, Option<i64>)>);

/// Lists the samples of a DALI file list whose segments are in frames: samples, class names, and
/// notes.
#[pyfunction]
pub(crate) fn read_dali_frames(
    py: Python<'_>,
    path: PathBuf,
    root: Option<PathBuf>,
) -> PyResult<(Vec<FrameRangeRow>, Vec<String>, Vec<String>)> {
    let read = || datasets::dali_file_list(&path, root.as_deref(), DaliUnit::Frames);
    let Dataset {
        samples,
        classes,
        notes,
        ..
    } = py.detach(read).or_raise(py)?;
    let to_row = |sample: Sample| {
        let part = match sample.segment {
            Some(SegmentBounds::Frames { start, end }) => Some((start, end)),
            Some(SegmentBounds::Seconds { .. }) | None => None,
        };
        (sample.path.into_os_string(), sample.label, part)
    };
    Ok((samples.into_iter().map(to_row).collect(), classes, notes))
}

/// Lists the samples of a JSON Lines file. `keys` are the keys of the source, the label, the start
/// and the end, `classes` the names of the labels in their order, by default sorted.
#[pyfunction]
pub(crate) fn read_json_lines(
    py: Python<'_>,
    path: PathBuf,
    root: Option<PathBuf>,
    keys: (String, String, String, String),
    in_frames: bool,
    classes: Option<Vec<String>>,
) -> PyResult<FilteredReaderResult<'_>> {
    let (source, label, start, end) = keys;
    let keys = SampleKeys {
        source,
        label: Some(label),
        start,
        end,
        in_frames,
    };
    filtered_result(
        py,
        py.detach(|| datasets::json_lines(&path, root.as_deref(), &keys, classes.as_deref())),
    )
}

/// Lists the episodes of a LeRobot dataset. `camera` is the feature of a camera; `None` selects the
/// only one. `episodes` are episode numbers; `None` selects all.
#[pyfunction]
pub(crate) fn read_lerobot(
    py: Python<'_>,
    root: PathBuf,
    camera: Option<String>,
    episodes: Option<Vec<i64>>,
) -> PyResult<FilteredReaderResult<'_>> {
    let read = || datasets::lerobot(&root, camera.as_deref(), episodes.as_deref());
    let dataset = run_interruptible(py, read)?;
    filtered_result(py, Ok(dataset))
}

/// The numbers of each feature, and the first numbers and counts of the rows.
type TableRows<'py> = (Vec<Bound<'py, PyBytes>>, Vec<(i64, i64)>);

/// Reads features of frames of a LeRobot dataset: the numbers of each, row after row, and which
/// rows these are, as first numbers and counts. `features` are names, dtypes and numbers of values
/// per row; `episodes` limits what is read by URL.
#[pyfunction]
pub(crate) fn read_lerobot_tables<'py>(
    py: Python<'py>,
    root: PathBuf,
    features: Vec<(String, String, usize)>,
    episodes: Option<Vec<i64>>,
) -> PyResult<TableRows<'py>> {
    let kind = |(name, dtype, width): (String, String, usize)| {
        let kind =
            number_type(&dtype).map_err(|reason| Error::Argument(format!("{name} {reason}")))?;
        Ok((name, kind, width))
    };
    let features = features
        .into_iter()
        .map(kind)
        .collect::<framespool::Result<Vec<_>>>()
        .or_raise(py)?;
    let read = || datasets::lerobot_tables(&root, &features, episodes.as_deref());
    let found = run_interruptible(py, read)?;
    let columns = found.columns.iter();
    Ok((
        columns.map(|bytes| PyBytes::new(py, bytes)).collect(),
        found.runs,
    ))
}

/// Reads a text file at a path or URL as a whole.
#[pyfunction]
pub(crate) fn read_text(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    run_interruptible(py, || datasets::read_text(&path))
}

fn number_type(dtype: &str) -> framespool::Result<datasets::NumberType> {
    match dtype {
        "float32" => Ok(datasets::NumberType::Float32),
        "float64" => Ok(datasets::NumberType::Float64),
        "int64" => Ok(datasets::NumberType::Int64),
        "bool" => Ok(datasets::NumberType::Bool),
        other => Err(Error::Argument(format!("has numbers of type {other}"))),
    }
}

/// Minimum, maximum, mean, standard deviation and quantiles of one value over all rows.
type Statistics = (f64, f64, f64, f64, Vec<f64>);

/// Statistics of each of the `width` numbers in the rows of a feature.
#[pyfunction]
pub(crate) fn row_statistics(
    py: Python<'_>,
    data: &[u8],
    dtype: &str,
    width: usize,
    quantiles: Vec<f64>,
) -> PyResult<Vec<Statistics>> {
    let work = || datasets::statistics(data, number_type(dtype)?, width, &quantiles);
    let found = py.detach(work).or_raise(py)?.into_iter();
    Ok(found
        .map(|each| {
            let ((min, max), (mean, std)) = (each.range, each.mean_std);
            (min, max, mean, std, each.quantiles)
        })
        .collect())
}

/// The rows of a feature as `factor * (number - offset) / divisor - shift`; `scales` are the offset
/// and the divisor of each number of a row.
#[pyfunction]
pub(crate) fn normalized_rows<'py>(
    py: Python<'py>,
    data: &[u8],
    dtype: &str,
    scales: Vec<(f64, f64)>,
    factor: f64,
    shift: f64,
) -> PyResult<Bound<'py, PyBytes>> {
    let work = || {
        let mut rows = data.to_vec();
        datasets::normalize(&mut rows, number_type(dtype)?, &scales, factor, shift)?;
        Ok(rows)
    };
    let rows = py.detach(work).or_raise(py)?;
    Ok(PyBytes::new(py, &rows))
}
