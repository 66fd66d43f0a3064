//! The dataset and the options of a loader, as Python passes them, and the engine's configuration
//! made from them.

use std::sync::Arc;

use framespool::batch_sampler::BatchSamplerConfig;
use framespool::clip_sampler::video_timing::SegmentRange;
use framespool::dataset::{MediaLocation, Sample};
use framespool::loader::{ClipView, LoaderConfig, LoaderOptions, Mixture};
use framespool::source::MemorySource;
use framespool::{Error, Result};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::clip_sampler::SamplerArg;
use crate::errors::{OrRaise, read_spec};
use crate::index_cache::{IndexCacheArg, IndexCacheHandle};
use crate::sample_table::SampleTable;
use crate::sources::{Source, SourceCache};
use crate::transforms::{FrameSpec, Steps};

/// A view: its clip sampler, the number of the view within whose clips its own are, and its
/// transforms. Without a clip sampler it has the frames of that view.
pub(crate) type ViewArg = (Option<SamplerArg>, Option<usize>, Steps);

/// Everything about a loader that is a plain value; the Python package has the defaults and the
/// checks.
pub(crate) struct LoaderSpec {
    order: BatchSamplerConfig,
    mixture: Option<Mixture>,
    frames: FrameSpec,
    /// The views after the first one.
    pub more_views: Vec<ViewArg>,
    pub index: IndexCacheArg,
    pub options: LoaderOptions,
}

impl FromPyObject<'_, '_> for LoaderSpec {
    type Error = PyErr;

    fn extract(spec: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        Ok(Self {
            order: read_spec("the order of a loader", &spec.get_item("order")?)?,
            mixture: read_spec("the mixture of a loader", &spec.get_item("mixture")?)?,
            frames: read_spec("the frames of a loader", &spec.get_item("frames")?)?,
            more_views: spec.get_item("more_views")?.extract()?,
            index: spec.get_item("index")?.extract()?, // a path, which need not be Unicode
            options: read_spec("the options of a loader", &spec.get_item("options")?)?,
        })
    }
}

/// A sample of a dataset: a video, or `framespool.datasets.VideoSegment`.
#[derive(FromPyObject)]
pub(crate) enum SampleArg {
    #[pyo3(transparent)]
    Video(Source),
    Segment {
        source: Source,
        start_frame: Option<i64>,
        end_frame: Option<i64>,
        start_seconds: Option<f64>,
        end_seconds: Option<f64>,
    },
}

impl SampleArg {
    /// Returns the location of the sample, and the segment of it to use. The Python package has
    /// validated the numbers.
    fn into_location(
        self,
        number: usize,
        sources: &mut SourceCache,
    ) -> Result<(MediaLocation, SegmentRange)> {
        let frame = |value: i64| {
            u32::try_from(value).map_err(|_| {
                Error::Argument(format!(
                    "dataset sample {number}: frames must be from 0 to {}, got {value}",
                    u32::MAX
                ))
            })
        };
        let (source, extent) = match self {
            SampleArg::Video(source) => (source, SegmentRange::Full),
            SampleArg::Segment {
                source,
                start_seconds: None,
                end_seconds: None,
                start_frame,
                end_frame,
            } => (
                source,
                SegmentRange::Frames(
                    frame(start_frame.unwrap_or(0))?,
                    end_frame.map(frame).transpose()?,
                ),
            ),
            SampleArg::Segment {
                source,
                start_seconds,
                end_seconds,
                ..
            } => (
                source,
                SegmentRange::Seconds(start_seconds.unwrap_or(f64::NEG_INFINITY), end_seconds),
            ),
        };
        let place = match source {
            Source::Path(path) => MediaLocation::Path(path),
            Source::Member(member) => MediaLocation::ArchiveMember(sources.member(member)),
            Source::Cell(cell) => MediaLocation::External(sources.cell(cell)),
            Source::ImageSequence(frames) => MediaLocation::ImageSequence(Arc::new(frames.into())),
            Source::Bytes(bytes) => {
                MediaLocation::Memory(MemorySource::new(format!("dataset[{number}]"), bytes))
            }
        };
        Ok((place, extent))
    }
}

/// A dataset: a table from a reader, or a list that a user wrote.
#[derive(FromPyObject)]
pub(crate) enum DatasetArg {
    Table(Py<SampleTable>),
    List(Vec<(SampleArg, i64)>),
}

impl DatasetArg {
    fn entries(self) -> Result<Arc<framespool::dataset::SampleTable>> {
        let list = match self {
            DatasetArg::Table(table) => return Ok(table.get().0.clone()),
            DatasetArg::List(list) => list,
        };
        let mut sources = SourceCache::default();
        let items = list
            .into_iter()
            .enumerate()
            .map(|(number, (entry, label))| {
                let (place, extent) = entry.into_location(number, &mut sources)?;
                Ok(Sample {
                    location: place,
                    label,
                    extent,
                })
            });
        items
            .collect::<Result<framespool::dataset::SampleTable>>()
            .map(Arc::new)
    }
}

/// Returns the engine's configuration.
pub(crate) fn config(
    py: Python<'_>,
    dataset: DatasetArg,
    clip_sampler: &SamplerArg,
    steps: Steps,
    spec: LoaderSpec,
    index: &IndexCacheHandle,
) -> PyResult<LoaderConfig> {
    let mut views = vec![ClipView::new(
        clip_sampler.sampler.clone(),
        spec.frames.pipeline(py, steps)?,
    )];
    for (clip_sampler, within, steps) in spec.more_views {
        let other = within.and_then(|other| views.get(other));
        let clip_sampler = match (clip_sampler, other) {
            (Some(own), _) => own.sampler,
            (None, Some(other)) => other.clip_sampler.clone(),
            (None, None) => {
                return Err(PyValueError::new_err(
                    "a view without a clip sampler is within an earlier one",
                ));
            }
        };
        views.push(ClipView {
            clip_sampler,
            within,
            pipeline: spec.frames.pipeline(py, steps)?,
        });
    }
    Ok(LoaderConfig {
        views,
        samples: dataset.entries().or_raise(py)?,
        order: spec.order,
        mixture: spec.mixture,
        index: index.store.clone(),
        options: spec.options,
    })
}
