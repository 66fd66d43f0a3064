//! Python functions that list datasets from folders, list files and annotation files.
//! They return samples, class names, columns and notes on skipped samples, and do not open any video.

use std::ffi::OsString;
use std::path::PathBuf;

use framespool::Error;
use framespool_datasets::{
    self as datasets, AnnotationColumn, AnnotationOptions, AvaOptions, Column, DaliUnit, Dataset,
    EpicKitchensOptions, ImageSequencePattern, MissingFilePolicy, NumberedVideos, Sample, SampleKeys,
    SegmentBounds, Value,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::batch_sampler::parse_choice;
use crate::errors::OrRaise;
use crate::interrupt::{interrupt, or_raise_pending};
use crate::sample_table::{build_table, SampleTable};

/// `(pattern, first, count, fps)`.
type FrameListTuple = (String, u32, Option<u32>, (u32, u32));
/// Samples, class names, columns, and notes on skipped samples.
type FilteredReaderResult<'py> = (SampleTable, Vec<String>, Bound<'py, PyDict>, Vec<String>);

fn filtered_result<'py>(
    py: Python<'py>,
    dataset: framespool::Result<Dataset>,
) -> PyResult<FilteredReaderResult<'py>> {
    let Dataset { samples, classes, columns, notes } = dataset.or_raise(py)?;
    Ok((build_table(py, samples)?, classes, columns_to_dict(py, columns)?, notes))
}

/// Converts columns to a dict of lists by column name.
pub fn columns_to_dict(py: Python<'_>, columns: Vec<Column>) -> PyResult<Bound<'_, PyDict>> {
    let table = PyDict::new(py);
    for Column { name, values } in columns {
        let values =
            values.into_iter().map(|value| json_to_python(py, value)).collect::<PyResult<Vec<_>>>()?;
        table.set_item(name, PyList::new(py, values)?)?;
    }
    Ok(table)
}

fn frame_list((pattern, first, count, fps): FrameListTuple) -> ImageSequencePattern {
    ImageSequencePattern { pattern, first, count, fps }
}

/// Parses the keyword `missing`.
fn parse_missing_policy(word_given: &str) -> framespool::Result<MissingFilePolicy> {
    parse_choice(
        "missing",
        word_given,
        &[("error", MissingFilePolicy::Error), ("skip", MissingFilePolicy::Skip)],
    )
}

/// Files with an extension, or folders of frames.
fn numbered_files(extension: Option<String>, frames: Option<FrameListTuple>) -> NumberedVideos {
    match (frames, extension) {
        (Some(frames), _) => NumberedVideos::Folders(frame_list(frames)),
        (None, extension) => NumberedVideos::Files(extension.unwrap_or_default()),
    }
}

/// Converts a value to the object that Python's json module would return.
fn json_to_python(py: Python<'_>, value: Value) -> PyResult<Bound<'_, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(flag) => flag.into_pyobject(py)?.to_owned().into_any(),
        Value::Integer(number) => number.into_pyobject(py)?.into_any(),
        Value::Unsigned(number) => number.into_pyobject(py)?.into_any(),
        Value::Float(number) => number.into_pyobject(py)?.into_any(),
        Value::Text(text) => text.into_pyobject(py)?.into_any(),
        Value::List(items) => {
            let items =
                items.into_iter().map(|item| json_to_python(py, item)).collect::<PyResult<Vec<_>>>()?;
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
pub fn read_folder(
    py: Python<'_>,
    root: PathBuf,
    extensions: Option<Vec<String>>,
) -> PyResult<(SampleTable, Vec<String>)> {
    let dataset = py.detach(|| datasets::folder(&root, extensions.as_deref())).or_raise(py)?;
    Ok((build_table(py, dataset.samples)?, dataset.classes))
}

#[pyfunction]
pub fn read_annotation_file(
    py: Python<'_>,
    path: PathBuf,
    root: Option<PathBuf>,
    columns: Vec<String>,
    delimiter: Option<String>,
    extension: Option<String>,
    frames: FrameListTuple,
) -> PyResult<FilteredReaderResult<'_>> {
    let read = || {
        let columns: Vec<_> =
            columns.iter().map(|name| AnnotationColumn::parse(name)).collect::<framespool::Result<_>>()?;
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

#[pyfunction]
pub fn read_kinetics<'py>(
    py: Python<'py>,
    annotations: PathBuf,
    root: PathBuf,
    extension: String,
    split: Option<String>,
    classes: Option<Vec<String>>,
    missing: &str,
) -> PyResult<FilteredReaderResult<'py>> {
    let missing = self::parse_missing_policy(missing).or_raise(py)?;
    let read =
        || datasets::kinetics(&annotations, &root, &extension, split.as_deref(), classes.as_deref(), missing);
    filtered_result(py, py.detach(read))
}

#[pyfunction]
pub fn read_ucf101(
    py: Python<'_>,
    annotations: PathBuf,
    root: PathBuf,
    split: u32,
    train: bool,
) -> PyResult<FilteredReaderResult<'_>> {
    filtered_result(py, py.detach(|| datasets::ucf101(&annotations, &root, split, train)))
}

#[pyfunction]
pub fn read_hmdb51(
    py: Python<'_>,
    annotations: PathBuf,
    root: PathBuf,
    split: u32,
    train: bool,
) -> PyResult<FilteredReaderResult<'_>> {
    filtered_result(py, py.detach(|| datasets::hmdb51(&annotations, &root, split, train)))
}

/// Lists the samples of a file list of DALI's video readers. `rounding` is (whether to round the start up,
/// whether to round the end up, fps), for seconds that are converted to frames.
#[pyfunction]
pub fn read_dali_file_list(
    py: Python<'_>,
    path: PathBuf,
    root: Option<PathBuf>,
    rounding: Option<(bool, bool, (u32, u32))>,
) -> PyResult<FilteredReaderResult<'_>> {
    let unit = match rounding {
        None => DaliUnit::Seconds,
        Some((start_up, end_up, fps)) => DaliUnit::Rounded { start_up, end_up, fps },
    };
    filtered_result(py, py.detach(|| datasets::dali_file_list(&path, root.as_deref(), unit)))
}

/// Path, label, and the segment as (start, end) in frames; negative numbers count from the end of the video.
type FrameRangeRow = (OsString, i64, Option<(i64, Option<i64>)>);

/// Lists the samples of a DALI file list whose segments are in frames: samples, class names, and notes.
#[pyfunction]
pub fn read_dali_frames(
    py: Python<'_>,
    path: PathBuf,
    root: Option<PathBuf>,
) -> PyResult<(Vec<FrameRangeRow>, Vec<String>, Vec<String>)> {
    let read = || datasets::dali_file_list(&path, root.as_deref(), DaliUnit::Frames);
    let Dataset { samples, classes, notes, .. } = py.detach(read).or_raise(py)?;
    let to_row = |sample: Sample| {
        let part = match sample.segment {
            Some(SegmentBounds::Frames { start, end }) => Some((start, end)),
            Some(SegmentBounds::Seconds { .. }) | None => None,
        };
        (sample.path.into_os_string(), sample.label, part)
    };
    Ok((samples.into_iter().map(to_row).collect(), classes, notes))
}

#[pyfunction]
pub fn read_something_something(
    py: Python<'_>,
    annotations: PathBuf,
    labels: PathBuf,
    root: PathBuf,
    extension: Option<String>,
    frames: Option<FrameListTuple>,
) -> PyResult<FilteredReaderResult<'_>> {
    let videos = numbered_files(extension, frames);
    filtered_result(py, py.detach(|| datasets::something_something(&annotations, &labels, &root, &videos)))
}

#[pyfunction]
pub fn read_jester(
    py: Python<'_>,
    list: PathBuf,
    labels: PathBuf,
    root: PathBuf,
    extension: Option<String>,
    frames: Option<FrameListTuple>,
) -> PyResult<FilteredReaderResult<'_>> {
    let videos = numbered_files(extension, frames);
    filtered_result(py, py.detach(|| datasets::jester(&list, &labels, &root, &videos)))
}

/// Lists the samples of a JSON Lines file. `keys` are the keys of the source, the label, the start and the
/// end, `classes` the names of the labels in their order, by default sorted.
#[pyfunction]
pub fn read_json_lines(
    py: Python<'_>,
    path: PathBuf,
    root: Option<PathBuf>,
    keys: (String, String, String, String),
    in_frames: bool,
    classes: Option<Vec<String>>,
) -> PyResult<FilteredReaderResult<'_>> {
    let (source, label, start, end) = keys;
    let keys = SampleKeys { source, label, start, end, in_frames };
    filtered_result(py, py.detach(|| datasets::json_lines(&path, root.as_deref(), &keys, classes.as_deref())))
}

/// Lists the episodes of a LeRobot dataset. `camera` is the feature of a camera; `None` selects the only one.
/// `episodes` are episode numbers; `None` selects all.
#[pyfunction]
pub fn read_lerobot(
    py: Python<'_>,
    root: PathBuf,
    camera: Option<String>,
    episodes: Option<Vec<i64>>,
) -> PyResult<FilteredReaderResult<'_>> {
    let read = || datasets::lerobot(&root, camera.as_deref(), episodes.as_deref(), &interrupt());
    let dataset = or_raise_pending(py, py.detach(read))?;
    filtered_result(py, Ok(dataset))
}

/// Reads features of all frames of a LeRobot dataset: the numbers of each, row after row. `features` are names, dtypes
/// and numbers of values per row.
#[pyfunction]
pub fn read_lerobot_tables<'py>(
    py: Python<'py>,
    root: PathBuf,
    features: Vec<(String, String, usize)>,
) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let kind = |(name, dtype, width): (String, String, usize)| {
        let kind = match dtype.as_str() {
            "float32" => datasets::NumberType::Float32,
            "float64" => datasets::NumberType::Float64,
            "int64" => datasets::NumberType::Int64,
            "bool" => datasets::NumberType::Bool,
            other => return Err(Error::Argument(format!("{name} has numbers of type {other}"))),
        };
        Ok((name, kind, width))
    };
    let features = features.into_iter().map(kind).collect::<framespool::Result<Vec<_>>>().or_raise(py)?;
    let read = || datasets::lerobot_tables(&root, &features, &interrupt());
    let found = or_raise_pending(py, py.detach(read))?;
    Ok(found.iter().map(|bytes| PyBytes::new(py, bytes)).collect())
}

#[pyfunction]
#[allow(clippy::too_many_arguments)] // one for each keyword of the Python function
pub fn read_epic_kitchens(
    py: Python<'_>,
    annotations: PathBuf,
    root: PathBuf,
    file: String,
    label: Option<String>,
    classes: Option<PathBuf>,
    in_frames: bool,
    frames: Option<FrameListTuple>,
) -> PyResult<FilteredReaderResult<'_>> {
    let frames = frames.map(frame_list);
    let how = EpicKitchensOptions {
        root: &root,
        file: &file,
        label: label.as_deref(),
        classes: classes.as_deref(),
        in_frames,
        frames: frames.as_ref(),
    };
    filtered_result(py, py.detach(|| datasets::epic_kitchens(&annotations, &how)))
}

#[pyfunction]
pub fn read_activitynet<'py>(
    py: Python<'py>,
    annotations: PathBuf,
    root: PathBuf,
    subset: Option<String>,
    file: String,
    classes: Option<Vec<String>>,
    missing: &str,
) -> PyResult<FilteredReaderResult<'py>> {
    let missing = self::parse_missing_policy(missing).or_raise(py)?;
    let read =
        || datasets::activitynet(&annotations, &root, subset.as_deref(), &file, classes.as_deref(), missing);
    filtered_result(py, py.detach(read))
}

#[pyfunction]
pub fn read_ava<'py>(
    py: Python<'py>,
    annotations: PathBuf,
    root: PathBuf,
    file: String,
    span_seconds: f64,
    begin_seconds: f64,
    missing: &str,
) -> PyResult<FilteredReaderResult<'py>> {
    let missing = self::parse_missing_policy(missing).or_raise(py)?;
    let how = AvaOptions { root: &root, file: &file, span_seconds, begin_seconds, missing };
    filtered_result(py, py.detach(|| datasets::ava(&annotations, &how)))
}
