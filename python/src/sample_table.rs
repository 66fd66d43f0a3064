//! Python class for a table of dataset samples, built by a reader or from a Python list. The
//! loaders use the table directly, without a Python object per sample. It does not open any file.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use framespool::Error;
use framespool::clip_sampler::video_timing::SegmentRange;
use framespool::dataset::MediaLocation;
use framespool::dataset::{self as engine, Sample, SampleTableBuilder, SerializedTable};
use framespool::source::{ArchiveMember, ImageSequence, MemorySource, without_signature};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::errors::OrRaise;

/// A table of videos with their labels and segments.
#[pyclass(module = "framespool._framespool", frozen)]
pub struct SampleTable(pub Arc<engine::SampleTable>);

/// `(pattern, first, count, fps)`.
pub(crate) type ImageSequenceTuple = (Option<String>, u32, Option<u32>, (u32, u32));
/// First byte, length and name of a member of an archive.
type ByteRange = (u64, u64, Option<String>);
/// Unit ("frames" or "seconds"), start and end of a segment.
pub(crate) type SegmentTuple<'py> = (&'static str, Bound<'py, PyAny>, Bound<'py, PyAny>);
/// Path or bytes, label, segment, image sequence, and byte range of an archive member.
type SampleRow<'py> = (
    Bound<'py, PyAny>,
    i64,
    Option<SegmentTuple<'py>>,
    Option<ImageSequenceTuple>,
    Option<ByteRange>,
);
/// A location other than a path, for pickle: a folder with its frames, or bytes.
type PickledLocation<'py> = (Bound<'py, PyAny>, Option<ImageSequenceTuple>);

impl SampleTable {
    pub fn from_samples(items: impl IntoIterator<Item = Sample>) -> Self {
        Self(Arc::new(items.into_iter().collect()))
    }
}

/// Returns the unit, start and end of a segment; `None` for the whole video.
pub(crate) fn segment_to_python<'py>(
    py: Python<'py>,
    extent: SegmentRange,
) -> PyResult<Option<SegmentTuple<'py>>> {
    let frames = |start: u32, end: Option<u32>| {
        Ok((
            "frames",
            start.into_pyobject(py)?.into_any(),
            end.into_pyobject(py)?.into_any(),
        ))
    };
    let seconds = |start: f64, end: Option<f64>| {
        let start = Some(start).filter(|start| *start != f64::NEG_INFINITY);
        Ok((
            "seconds",
            start.into_pyobject(py)?.into_any(),
            end.into_pyobject(py)?.into_any(),
        ))
    };
    match extent {
        SegmentRange::Full => Ok(None),
        SegmentRange::Frames(start, end) => frames(start, end).map(Some),
        SegmentRange::Seconds(start, end) => seconds(start, end).map(Some),
    }
}

fn image_sequence_tuple(frames: &ImageSequence) -> ImageSequenceTuple {
    (
        frames.pattern.clone(),
        frames.first,
        frames.count,
        frames.fps,
    )
}

fn image_sequence_location(
    folder: PathBuf,
    (pattern, first, count, fps): ImageSequenceTuple,
) -> MediaLocation {
    MediaLocation::ImageSequence(Arc::new(ImageSequence {
        folder,
        pattern,
        first,
        count,
        fps,
    }))
}

#[pymethods]
impl SampleTable {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// Returns a sample: path or bytes; label; segment; image sequence; first byte, length and name
    /// of an archive member. Raises `IndexError`.
    fn row<'py>(&self, py: Python<'py>, number: usize) -> PyResult<SampleRow<'py>> {
        if number >= self.0.len() {
            return Err(PyIndexError::new_err(format!(
                "sample {number} of {}",
                self.0.len()
            )));
        }
        let Sample {
            location: place,
            label,
            extent,
        } = self.0.sample(number);
        let part = segment_to_python(py, extent)?;
        Ok(match place {
            MediaLocation::Path(path) => (
                path.into_os_string().into_pyobject(py)?.into_any(),
                label,
                part,
                None,
                None,
            ),
            MediaLocation::ArchiveMember(ArchiveMember {
                file,
                offset,
                len,
                name,
            }) => {
                let span = (offset, len, name.map(String::from));
                (
                    file.as_os_str().into_pyobject(py)?.into_any(),
                    label,
                    part,
                    None,
                    Some(span),
                )
            }
            MediaLocation::Memory(memory) => (
                PyBytes::new(py, memory.as_bytes()).into_any(),
                label,
                part,
                None,
                None,
            ),
            MediaLocation::ImageSequence(frames) => {
                let path = frames.folder.as_os_str().into_pyobject(py)?.into_any();
                (path, label, part, Some(image_sequence_tuple(&frames)), None)
            }
            MediaLocation::External(opener) => (
                opener.name().into_pyobject(py)?.into_any(),
                label,
                part,
                None,
                None,
            ),
        })
    }

    /// Returns a table of the samples with these numbers, in this order.
    fn take(&self, py: Python<'_>, numbers: Vec<usize>) -> PyResult<Self> {
        if let Some(beyond) = numbers.iter().find(|&&number| number >= self.0.len()) {
            return Err(PyIndexError::new_err(format!(
                "sample {beyond} of {}",
                self.0.len()
            )));
        }
        Ok(py
            .detach(|| Self::from_samples(numbers.into_iter().map(|number| self.0.sample(number)))))
    }

    /// Returns a table of the samples of several tables, one table after another.
    #[staticmethod]
    fn joined(py: Python<'_>, tables: Vec<Py<SampleTable>>) -> Self {
        py.detach(|| {
            let mut builder = SampleTableBuilder::default();
            tables
                .iter()
                .for_each(|table| table.get().0.iter().for_each(|item| builder.push(item)));
            Self(Arc::new(builder.finish()))
        })
    }

    /// Returns a table with label `l` replaced by `numbers[l]`; labels that are no index of
    /// `numbers` are kept.
    fn relabeled(&self, py: Python<'_>, numbers: Vec<i64>) -> Self {
        py.detach(|| Self(Arc::new(self.0.relabeled(&numbers))))
    }

    fn __eq__(&self, py: Python<'_>, other: &Self) -> bool {
        py.detach(|| Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0)
    }

    /// Returns all labels as 64-bit integers in native byte order.
    fn labels<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let bytes: Vec<u8> = self
            .0
            .labels()
            .iter()
            .flat_map(|label| label.to_ne_bytes())
            .collect();
        PyBytes::new(py, &bytes)
    }

    /// Returns all paths, one per line, relative to their deepest common folder, URLs without
    /// signatures; `None` if any sample is not a whole file.
    fn names<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        py.detach(|| self.0.are_whole_files().then(|| names(&self.0)))
            .map(|names| PyBytes::new(py, &names))
    }

    /// Whether no sample is a segment of a video or an image sequence.
    #[getter]
    fn are_whole(&self) -> bool {
        self.0.are_whole_videos()
    }

    /// The memory that the table occupies, in bytes.
    #[getter]
    fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }

    /// Supports pickle: reduces the table to byte strings.
    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let flat = py.detach(|| self.0.serialize());
        let other = |place: &MediaLocation| -> PyResult<PickledLocation<'py>> {
            Ok(match place {
                MediaLocation::ImageSequence(frames) => (
                    frames.folder.as_os_str().into_pyobject(py)?.into_any(),
                    Some(image_sequence_tuple(frames)),
                ),
                MediaLocation::Memory(memory) => {
                    (PyBytes::new(py, memory.as_bytes()).into_any(), None)
                }
                other => {
                    let name = other.name();
                    return Err(PyValueError::new_err(format!(
                        "{name} cannot be sent to another process"
                    )));
                }
            })
        };
        let others = flat
            .other_locations
            .iter()
            .map(other)
            .collect::<PyResult<Vec<_>>>()?;
        let bytes = |bytes: &[u8]| PyBytes::new(py, bytes);
        let (suffixes, prefixes) = (&flat.suffixes, &flat.prefixes);
        let state = (
            (
                bytes(&flat.kinds),
                bytes(&flat.prefix_ids),
                bytes(&flat.labels),
            ),
            (
                bytes(&suffixes.0),
                bytes(&suffixes.1),
                bytes(&prefixes.0),
                bytes(&prefixes.1),
            ),
            (bytes(&flat.byte_ranges), bytes(&flat.extents)),
            others,
        );
        let rebuild = py.get_type::<Self>().getattr("rebuilt")?;
        Ok((rebuild, state.into_pyobject(py)?))
    }

    /// Rebuilds a table from the state that `__reduce__` returns. Raises `ValueError` for any other
    /// value.
    #[staticmethod]
    fn rebuilt(
        numbers: (Vec<u8>, Vec<u8>, Vec<u8>),
        texts: (Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>),
        parts: (Vec<u8>, Vec<u8>),
        others: Vec<PickledLocation<'_>>,
    ) -> PyResult<Self> {
        let (kinds, prefix_ids, labels) = numbers;
        let (suffixes, tail_ends, shared, shared_ends) = texts;
        let (spans, extents) = parts;
        let other =
            |(number, (source, frames)): (usize, PickledLocation<'_>)| -> PyResult<MediaLocation> {
                Ok(match frames {
                    Some(frames) => image_sequence_location(source.extract()?, frames),
                    None => MediaLocation::Memory(MemorySource::new(
                        format!("bytes[{number}]"),
                        source.extract::<Vec<u8>>()?,
                    )),
                })
            };
        let others = others
            .into_iter()
            .enumerate()
            .map(other)
            .collect::<PyResult<_>>()?;
        let flat = SerializedTable {
            kinds,
            prefix_ids,
            labels,
            suffixes: (suffixes, tail_ends),
            prefixes: (shared, shared_ends),
            byte_ranges: spans,
            extents,
            other_locations: others,
        };
        let made = engine::SampleTable::deserialize(flat);
        let made =
            made.ok_or_else(|| PyValueError::new_err("the sample tables do not match each other"))?;
        Ok(Self(Arc::new(made)))
    }
}

/// Returns the paths relative to their common folder, which is
/// `os.path.dirname(os.path.commonprefix(paths))`.
fn names(entries: &engine::SampleTable) -> Vec<u8> {
    let path = |number| {
        let path = entries
            .path_of(number)
            .map(|(folder, name)| [folder, name].concat())
            .unwrap_or_default();
        match std::str::from_utf8(&path).map(without_signature) {
            Ok(Cow::Owned(shortened)) => shortened.into_bytes(),
            _ => path,
        }
    };
    let mut common = if entries.is_empty() {
        Vec::new()
    } else {
        path(0)
    };
    for number in 1..entries.len() {
        let other = path(number);
        let same = common
            .iter()
            .zip(&other)
            .take_while(|(a, b)| a == b)
            .count();
        common.truncate(same);
    }
    let slash = common
        .iter()
        .rposition(|&byte| byte == b'/')
        .map_or(0, |at| at + 1);
    let head = &common[..slash];
    let begin = head
        .iter()
        .rposition(|&byte| byte != b'/')
        .map_or(head.len(), |last| last + 1);
    let mut names = Vec::new();
    for number in 0..entries.len() {
        if number > 0 {
            names.push(b'\n');
        }
        let path = path(number);
        let rest = &path[begin..];
        let first = rest
            .iter()
            .position(|&byte| byte != b'/')
            .unwrap_or(rest.len());
        names.extend_from_slice(&rest[first..]);
    }
    names
}

/// Converts the bounds of a dataset sample to a segment of the video at `path`.
///
/// # Errors
/// `Argument` if the bounds are not a valid segment of any video.
pub(crate) fn segment_range(
    path: &OsStr,
    bounds: framespool_datasets::SegmentBounds,
) -> framespool::Result<SegmentRange> {
    let invalid = |reason: String| {
        let path = String::from_utf8_lossy(path.as_bytes());
        Err(Error::Argument(format!(
            "{path}: {reason}; correct the list"
        )))
    };
    match bounds {
        framespool_datasets::SegmentBounds::Frames { start, end } => {
            let frame = |number: i64| u32::try_from(number).ok();
            match (frame(start), end.map(frame)) {
                (Some(start), None) => Ok(SegmentRange::Frames(start, None)),
                (Some(start), Some(Some(end))) if start < end => {
                    Ok(SegmentRange::Frames(start, Some(end)))
                }
                _ => {
                    let end = end.map_or_else(String::new, |end| format!(" and ends before {end}"));
                    invalid(format!(
                        "no segment of a video starts at frame {start}{end}"
                    ))
                }
            }
        }
        framespool_datasets::SegmentBounds::Seconds { start, end } => match end {
            Some(end) if start.is_some_and(|start| end <= start) => {
                let start = start.unwrap_or_default(); // it has a start: that is not before its end
                invalid(format!(
                    "no segment of a video starts at second {start} and ends at {end}"
                ))
            }
            end => Ok(SegmentRange::Seconds(
                start.unwrap_or(f64::NEG_INFINITY),
                end,
            )),
        },
    }
}

/// Builds a table from the samples of a dataset list.
pub(crate) fn build_table(
    py: Python<'_>,
    found: Vec<framespool_datasets::Sample>,
) -> PyResult<SampleTable> {
    let table = || -> framespool::Result<SampleTable> {
        let mut builder = SampleTableBuilder::default();
        for framespool_datasets::Sample {
            path,
            label,
            segment,
            image_sequence,
            ..
        } in found
        {
            let extent = segment
                .map(|bounds| segment_range(path.as_os_str(), bounds))
                .transpose()?
                .unwrap_or_default();
            let place = match image_sequence {
                Some(framespool_datasets::ImageSequencePattern {
                    pattern,
                    first,
                    count,
                    fps,
                }) => image_sequence_location(path, (Some(pattern), first, count, fps)),
                None => MediaLocation::Path(path),
            };
            builder.push(Sample {
                location: place,
                label,
                extent,
            });
        }
        Ok(SampleTable(Arc::new(builder.finish())))
    };
    py.detach(table).or_raise(py)
}
