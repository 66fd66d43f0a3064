//! Arguments of the loader, as Python passes them, and the engine's configuration made from them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use framespool::clip_sampler::video_timing::SegmentRange;
use framespool::clip_store::ClipStoreConfig;
use framespool::dataset::{MediaLocation, Sample};
use framespool::loader::{Collate, GpuConfig, LoaderConfig, Mixture, OnError};
use framespool::source::MemorySource;
use framespool::{Error, Result};
use pyo3::prelude::*;

use crate::batch_sampler::{self, parse_choice};
use crate::clip_sampler::SamplerArg;
use crate::errors::OrRaise;
use crate::index_cache::{IndexCacheArg, IndexCacheHandle};
use crate::sample_table::SampleTable;
use crate::sources::{Source, SourceCache};
use crate::transforms::{pipeline, Steps};
use crate::video::{parse_decoder, parse_deinterlace};

/// Keyword arguments of the loader other than dataset, clip sampler and transforms.
#[derive(FromPyObject)]
pub struct LoaderArgs {
    #[pyo3(item)]
    order: batch_sampler::BatchSamplerArgs,
    #[pyo3(item)]
    mixture: Option<MixtureArgs>,
    #[pyo3(item)]
    pub on_error: String,
    /// Seconds for which an unavailable server is waited for.
    #[pyo3(item)]
    outage_timeout: Option<f64>,
    #[pyo3(item)]
    num_threads: i64,
    #[pyo3(item)]
    prefetch_batches: i64,
    #[pyo3(item)]
    memory_budget: u64,
    #[pyo3(item)]
    device_memory_budget: Option<u64>,
    /// Folder, bytes and epochs of the clips on disk.
    #[pyo3(item)]
    disk_cache: Option<(PathBuf, u64, u32)>,
    #[pyo3(item)]
    lookahead_clips: i64,
    #[pyo3(item)]
    dtype: String,
    #[pyo3(item)]
    layout: String,
    #[pyo3(item)]
    pub index: IndexCacheArg,
    #[pyo3(item)]
    device: Option<u32>,
    #[pyo3(item)]
    decoder: String,
    #[pyo3(item)]
    nvdec_threads: Option<u32>,
    /// Whether HDR video is converted without a warning.
    #[pyo3(item)]
    ignores_hdr: bool,
    /// How interlaced video is deinterlaced.
    #[pyo3(item)]
    deinterlace: String,
    /// Whether the samples are image files.
    #[pyo3(item)]
    pub images: bool,
    /// Whether the clips of a video stay together.
    #[pyo3(item)]
    group_clips: bool,
    /// The stream of every file to decode; `None` selects the default one.
    #[pyo3(item)]
    stream: Option<u32>,
    /// Whether image files are decoded completely, to the RGB that their decoder outputs.
    #[pyo3(item)]
    exact: bool,
    #[pyo3(item)]
    pub collate: String,
    /// If given, images are label maps, and pixels outside of an image get this label.
    #[pyo3(item)]
    label_fill: Option<u8>,
}

/// A sample of a dataset: a video, or `framespool.datasets.VideoSegment`.
#[derive(FromPyObject)]
pub enum SampleArg {
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
    /// Returns the location of the sample, and the segment of it to use. The Python package has validated the
    /// numbers.
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
            SampleArg::Segment { source, start_seconds: None, end_seconds: None, start_frame, end_frame } => {
                (
                    source,
                    SegmentRange::Frames(frame(start_frame.unwrap_or(0))?, end_frame.map(frame).transpose()?),
                )
            }
            SampleArg::Segment { source, start_seconds, end_seconds, .. } => {
                (source, SegmentRange::Seconds(start_seconds.unwrap_or(f64::NEG_INFINITY), end_seconds))
            }
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
pub enum DatasetArg {
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
        let items = list.into_iter().enumerate().map(|(number, (entry, label))| {
            let (place, extent) = entry.into_location(number, &mut sources)?;
            Ok(Sample { location: place, label, extent })
        });
        items.collect::<Result<framespool::dataset::SampleTable>>().map(Arc::new)
    }
}

/// `framespool.datasets.MixtureDataset`.
#[derive(FromPyObject)]
pub struct MixtureArgs {
    lengths: Vec<u32>,
    weights: Vec<f64>,
    replacement: bool,
    epoch_clips: Option<u64>,
}

/// Converts the arguments to the engine's configuration.
pub fn config(
    py: Python<'_>,
    dataset: DatasetArg,
    rule: &SamplerArg,
    steps: Steps,
    s: LoaderArgs,
    index: &IndexCacheHandle,
) -> PyResult<LoaderConfig> {
    let pipeline = pipeline(py, steps, &s.dtype, &s.layout)?;
    let deinterlace = parse_deinterlace(&s.deinterlace).or_raise(py)?;
    let pipeline = pipeline.ignoring_hdr(s.ignores_hdr).deinterlacing(deinterlace);
    let pipeline = if s.exact { pipeline.exactly() } else { pipeline };
    let pipeline = s.label_fill.map_or_else(|| pipeline.clone(), |fill| pipeline.for_labels(fill));
    let words = || -> Result<LoaderConfig> {
        let number = |name: &str, value: i64| {
            u32::try_from(value)
                .map_err(|_| Error::Argument(format!("{name} must be from 0 to {}, got {value}", u32::MAX)))
        };
        Ok(LoaderConfig {
            samples: dataset.entries()?,
            images: s.images,
            group_clips: s.group_clips,
            stream: s.stream,
            sampling: rule.sampler.clone(),
            order: batch_sampler::config(s.order)?,
            mixture: s.mixture.map(|m| Mixture {
                items: m.lengths,
                weights: m.weights,
                replacement: m.replacement,
                epoch_clips: m.epoch_clips,
            }),
            on_error: parse_choice(
                "on_error",
                &s.on_error,
                &[("raise", OnError::Raise), ("skip", OnError::Skip), ("replace", OnError::Replace)],
            )?,
            outage_timeout: s
                .outage_timeout
                .map(Duration::try_from_secs_f64)
                .transpose()
                .map_err(|error| Error::Argument(format!("on_outage must be a time in seconds: {error}")))?,
            pipeline,
            collate: parse_choice(
                "collate",
                &s.collate,
                &[
                    ("auto", Collate::List),
                    ("list", Collate::List),
                    ("stack", Collate::Stack),
                    ("pad", Collate::Pad(s.label_fill.unwrap_or(0))),
                ],
            )?,
            threads: number("num_threads", s.num_threads)?,
            prefetch_batches: number("prefetch_batches", s.prefetch_batches)?,
            memory_budget: s.memory_budget,
            device_memory_budget: s.device_memory_budget,
            lookahead_clips: number("lookahead_clips", s.lookahead_clips)?,
            clip_store: s.disk_cache.map(|(folder, bytes, epochs)| ClipStoreConfig { folder, bytes, epochs }),
            index: index.store.clone(),
            gpu: GpuConfig {
                device: s.device,
                decoder: parse_decoder(&s.decoder)?,
                nvdec_threads: s.nvdec_threads,
            },
        })
    };
    words().or_raise(py)
}
