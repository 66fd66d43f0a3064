//! In: a folder or a list file.
//! Out: (path, label) pairs and class names.
//! Never: opens a video.

use std::path::PathBuf;

use framespool_datasets as datasets;
use pyo3::prelude::*;

use crate::errors::OrRaise;

type Listing = (Vec<(PathBuf, i64)>, Vec<String>);

fn listing(dataset: datasets::Dataset) -> Listing {
    (dataset.entries.into_iter().map(|e| (e.path, e.label)).collect(), dataset.classes)
}

/// Videos of a folder, of a list file, or the one video, and the folder that they start from.
#[pyfunction]
pub fn find_videos(py: Python<'_>, place: PathBuf) -> PyResult<(Vec<PathBuf>, PathBuf)> {
    py.detach(|| datasets::find_videos(&place)).or_raise(py)
}

#[pyfunction]
pub fn read_folder(py: Python<'_>, root: PathBuf, extensions: Option<Vec<String>>) -> PyResult<Listing> {
    py.detach(|| datasets::folder(&root, extensions.as_deref())).or_raise(py).map(listing)
}

#[pyfunction]
pub fn read_file_list(
    py: Python<'_>,
    path: PathBuf,
    root: Option<PathBuf>,
    delimiter: Option<String>,
) -> PyResult<Listing> {
    py.detach(|| datasets::file_list(&path, root.as_deref(), delimiter.as_deref())).or_raise(py).map(listing)
}
