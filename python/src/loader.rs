//! In: a dataset, rules and numbers from Python.
//! Out: batches as tensors, and the counts.
//! Never: holds the GIL while waiting for a batch.

use std::sync::{Arc, Mutex, PoisonError};

use framespool::sampling::footage::Extent;
use framespool::source::MemorySource;
use framespool::source::Place;
use framespool::spool::entries::Item;
use framespool::spool::stats::{Failure, Stats};
use framespool::spool::{self, GpuConfig, Mixture, OnError, Pixels, SpoolConfig};
use framespool::{Error, Result};
use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::entries::Entries;
use crate::errors::{same_process, warn_of_hdr, OrRaise};
use crate::images::drawn;
use crate::index::{Kept, Wanted};
use crate::order::{self, word};
use crate::recipe::{recipe, Step};
use crate::sampling::{sampling, with_cause, Callable, Rule};
use crate::tensor::{Element, Tensor};
use crate::video::{calling, choice, raise_own, watch, Archives, Source};

/// Keywords of the loader that are plain numbers and words.
#[derive(FromPyObject)]
pub struct Settings {
    #[pyo3(item)]
    order: order::Settings,
    #[pyo3(item)]
    mixture: Option<Mixed>,
    #[pyo3(item)]
    on_error: String,
    #[pyo3(item)]
    num_threads: i64,
    #[pyo3(item)]
    prefetch: i64,
    #[pyo3(item)]
    memory_budget: u64,
    #[pyo3(item)]
    look_ahead: i64,
    #[pyo3(item)]
    dtype: String,
    #[pyo3(item)]
    layout: String,
    #[pyo3(item)]
    index: Wanted,
    #[pyo3(item)]
    device: Option<u32>,
    #[pyo3(item)]
    decoder: String,
    #[pyo3(item)]
    nvdec_lanes: Option<u32>,
    /// Video of high dynamic range is converted without a warning.
    #[pyo3(item)]
    ignores_hdr: bool,
    /// Entries are pictures' files.
    #[pyo3(item)]
    of_pictures: bool,
    /// Which stream of every file.
    #[pyo3(item)]
    stream: Option<u32>,
    /// Pictures' files are decoded whole, by their own decoder's colours.
    #[pyo3(item)]
    exact: bool,
    /// Pictures are maps of labels, with this label outside.
    #[pyo3(item)]
    label_fill: Option<u8>,
}

/// An entry of a dataset: a video, or `framespool.datasets.Part`.
#[derive(FromPyObject)]
pub enum Entry {
    #[pyo3(transparent)]
    Whole(Source),
    Part {
        source: Source,
        start_frame: Option<i64>,
        end_frame: Option<i64>,
        start_seconds: Option<f64>,
        end_seconds: Option<f64>,
    },
}

impl Entry {
    /// Where it is, and which part of it is meant. The Python package has checked the numbers.
    fn into_place(self, number: usize, archives: &mut Archives) -> Result<(Place, Extent)> {
        let frame = |value: i64| {
            u32::try_from(value).map_err(|_| {
                Error::Argument(format!(
                    "dataset entry {number}: frames are from 0 to {}, got {value}",
                    u32::MAX
                ))
            })
        };
        let (source, extent) = match self {
            Entry::Whole(source) => (source, Extent::Whole),
            Entry::Part { source, start_seconds: None, end_seconds: None, start_frame, end_frame } => {
                (source, Extent::Frames(frame(start_frame.unwrap_or(0))?, end_frame.map(frame).transpose()?))
            }
            Entry::Part { source, start_seconds, end_seconds, .. } => {
                (source, Extent::Seconds(start_seconds.unwrap_or(f64::NEG_INFINITY), end_seconds))
            }
        };
        let place = match source {
            Source::Path(path) => Place::Path(path),
            Source::Member(member) => Place::Member(archives.member(member)),
            Source::Cell(cell) => Place::Opened(archives.cell(cell)),
            Source::Frames(frames) => Place::Frames(Arc::new(frames.into())),
            Source::Bytes(bytes) => Place::Memory(MemorySource::new(format!("dataset[{number}]"), bytes)),
        };
        Ok((place, extent))
    }
}

/// A dataset: a table that a reader made, or a list of what a user wrote.
#[derive(FromPyObject)]
pub enum Videos {
    Table(Py<Entries>),
    List(Vec<(Entry, i64)>),
}

impl Videos {
    fn entries(self) -> Result<Arc<spool::entries::Entries>> {
        let list = match self {
            Videos::Table(table) => return Ok(table.get().0.clone()),
            Videos::List(list) => list,
        };
        let mut archives = Archives::default();
        let items = list.into_iter().enumerate().map(|(number, (entry, label))| {
            let (place, extent) = entry.into_place(number, &mut archives)?;
            Ok(Item { place, label, extent })
        });
        items.collect::<Result<spool::entries::Entries>>().map(Arc::new)
    }
}

/// `framespool.datasets.Mixture`.
#[derive(FromPyObject)]
pub struct Mixed {
    lengths: Vec<u32>,
    weights: Vec<f64>,
    replacement: bool,
    epoch_clips: Option<u64>,
}

/// Video, file, kind of error, message, clips.
type FailureFacts = (u32, Option<String>, &'static str, String, u64);

#[pyclass(module = "framespool._framespool", frozen)]
pub struct Spool {
    /// `None` while it is being dropped.
    spool: Mutex<Option<spool::Spool>>,
    /// What the sampling calls, for the garbage collector.
    callables: Vec<Callable>,
    // Outside the lock, so that they can be asked for while another thread waits for a batch.
    counter: Box<dyn Fn() -> Stats + Send + Sync>,
    failures: Box<dyn Fn() -> Vec<Failure> + Send + Sync>,
    progress: Box<dyn Fn() -> (u64, u64) + Send + Sync>,
    index: Kept,
    len_batches: u64,
    num_clips: u64,
    of_pictures: bool,
    made_in: u32,
}

fn config(
    py: Python<'_>,
    dataset: Videos,
    rule: &Rule,
    steps: &[Step],
    s: Settings,
    index: &Kept,
) -> PyResult<SpoolConfig> {
    let recipe = recipe(py, steps, &s.dtype, &s.layout)?;
    let recipe = recipe.ignoring_hdr(s.ignores_hdr);
    let recipe = if s.exact { recipe.exactly() } else { recipe };
    let recipe = s.label_fill.map_or_else(|| recipe.clone(), |fill| recipe.for_labels(fill));
    let words = || -> Result<SpoolConfig> {
        let number = |name: &str, value: i64| {
            u32::try_from(value)
                .map_err(|_| Error::Argument(format!("{name} must be from 0 to {}, got {value}", u32::MAX)))
        };
        Ok(SpoolConfig {
            entries: dataset.entries()?,
            of_pictures: s.of_pictures,
            stream: s.stream,
            sampling: sampling(rule)?,
            order: order::config(s.order)?,
            mixture: s.mixture.map(|m| Mixture {
                items: m.lengths,
                weights: m.weights,
                replacement: m.replacement,
                epoch_clips: m.epoch_clips,
            }),
            on_error: word(
                "on_error",
                &s.on_error,
                &[("raise", OnError::Raise), ("skip", OnError::Skip), ("replace", OnError::Replace)],
            )?,
            recipe,
            threads: number("num_threads", s.num_threads)?,
            prefetch: number("prefetch", s.prefetch)?,
            memory_budget: s.memory_budget,
            look_ahead: number("look_ahead", s.look_ahead)?,
            index: index.store.clone(),
            gpu: GpuConfig { device: s.device, decoder: choice(&s.decoder)?, lanes: s.nvdec_lanes },
        })
    };
    words().or_raise(py)
}

impl Spool {
    fn check_process(&self, py: Python<'_>) -> PyResult<()> {
        same_process(py, if self.of_pictures { "ImageLoader" } else { "ClipLoader" }, self.made_in)
    }

    /// Runs `work` on the spool without the GIL; an interrupt raises what its handler raised.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut spool::Spool) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.check_process(py)?;
        let Ok(mut guard) = self.spool.try_lock() else {
            return Err(PyRuntimeError::new_err(
                "the loader is in use by another thread; give each thread a loader of its own",
            ));
        };
        // The guard itself must stay on this thread.
        let Some(spool) = guard.as_mut() else {
            return Err(PyRuntimeError::new_err("the loader is gone; make another one"));
        };
        let done = py.detach(|| {
            let _calling = calling();
            work(spool)
        });
        raise_own(py, done)
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        let spool = self.spool.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // Dropping waits for the lanes, which may wait for the GIL.
        Python::try_attach(|py| py.detach(|| drop(spool)));
    }
}

/// Cores that this process may use: its affinity, and the quota of its control group.
#[pyfunction]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[pymethods]
impl Spool {
    #[new]
    fn new(
        py: Python<'_>,
        dataset: Videos,
        rule: Rule,
        steps: Vec<Step>,
        settings: Settings,
    ) -> PyResult<Self> {
        let index = py.detach(|| Kept::open(&settings.index)).or_raise(py)?;
        let of_pictures = settings.of_pictures;
        let config = config(py, dataset, &rule, &steps, settings, &index)?;
        let spool = raise_own(py, py.detach(|| spool::Spool::start(config, &watch())))?;
        let (len_batches, num_clips) = (spool.len_batches(), spool.num_clips());
        let counter = Box::new(spool.counter());
        let failures = Box::new(spool.failures());
        let progress = Box::new(spool.progress());
        let callables = rule.callables().cloned().collect();
        let spool = Mutex::new(Some(spool));
        let made_in = std::process::id();
        Ok(Self {
            spool,
            callables,
            counter,
            failures,
            progress,
            index,
            len_batches,
            num_clips,
            of_pictures,
            made_in,
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.callables.iter().try_for_each(|callable| visit.call(&*callable.0))
    }

    fn __len__(&self) -> usize {
        self.len_batches as usize
    }

    #[getter]
    fn num_clips(&self) -> u64 {
        self.num_clips
    }

    fn begin(&self, py: Python<'_>, epoch: u64, first_batch: u64) -> PyResult<u64> {
        self.with(py, |spool| spool.begin(epoch, first_batch))
    }

    /// Ends the pass under way.
    fn rest(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, spool::Spool::rest)
    }

    fn next_batch<'py>(&self, py: Python<'py>, pass: u64) -> PyResult<Option<Bound<'py, PyDict>>> {
        match self.with(py, |spool| spool.next_batch(pass, &watch()))? {
            Some(batch) => {
                warn_of_hdr(py)?;
                hand_over(py, batch).map(Some)
            }
            None => Ok(None),
        }
    }

    /// What is decided about a clip: its video, its frames, and what the transforms draw for frame `t` of it.
    fn explain<'py>(&self, py: Python<'py>, epoch: u64, clip: u64, t: u32) -> PyResult<Bound<'py, PyDict>> {
        let explain = || self.with(py, |spool| spool.explain(epoch, clip, t, &watch()));
        let explained = with_cause(py, explain)?;
        let dict = PyDict::new(py);
        dict.set_item("path", explained.file)?;
        dict.set_item("video_id", explained.video_id)?;
        dict.set_item("label", explained.label)?;
        dict.set_item("indices", explained.indices)?;
        dict.set_item("transforms", drawn(py, explained.drawn)?)?;
        Ok(dict)
    }

    /// The batch that a pass delivers next; `None` where another pass has begun since.
    fn next_number(&self, py: Python<'_>, pass: u64) -> PyResult<Option<u64>> {
        self.check_process(py)?;
        let (under_way, next) = (self.progress)();
        Ok((under_way == pass).then_some(next))
    }

    /// What failed so far, for each video.
    fn failures(&self, py: Python<'_>) -> PyResult<Vec<FailureFacts>> {
        self.check_process(py)?;
        let told = |failure: Failure| {
            let Failure { video_id, error, clips } = failure;
            let file = error.site().map(|site| site.file.to_string());
            (video_id, file, error.kind(), error.to_string(), clips)
        };
        Ok((self.failures)().into_iter().map(told).collect())
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.check_process(py)?;
        let stats = (self.counter)();
        let (decoding, times) = (stats.decoding, stats.times);
        let dict = PyDict::new(py);
        dict.set_item("batches", stats.batches)?;
        dict.set_item("clips", stats.clips)?;
        dict.set_item("frames", stats.frames)?;
        dict.set_item("pictures_decoded", decoding.pictures_decoded)?;
        dict.set_item("pictures_skipped", decoding.pictures_skipped)?;
        dict.set_item("pictures_delivered", decoding.pictures_delivered)?;
        let per_frame = decoding.pictures_decoded as f64 / (stats.frames.max(1)) as f64;
        dict.set_item("pictures_decoded_per_frame", per_frame)?;
        dict.set_item("runs", decoding.runs)?;
        dict.set_item("runs_repeated", decoding.runs_repeated)?;
        dict.set_item("gops_shared", stats.gops_shared)?;
        dict.set_item("decoders_opened", decoding.decoders_opened)?;
        dict.set_item("clip_store_hits", stats.clip_store_hits)?;
        dict.set_item("clips_given_up", stats.clips_given_up)?;
        dict.set_item("clip_store_peak_bytes", stats.clip_store_peak_bytes)?;
        dict.set_item("memory_budget", stats.memory_budget)?;
        dict.set_item("bytes_read", stats.bytes_read)?;
        let remote = stats.remote;
        dict.set_item("remote_requests", remote.requests)?;
        dict.set_item("remote_bytes", remote.bytes)?;
        dict.set_item("remote_retries", remote.retries)?;
        dict.set_item("remote_cache_hits", remote.cache_hits)?;
        dict.set_item("nvdec_lanes", stats.nvdec_lanes)?;
        dict.set_item("pictures_decoded_by_gpu", stats.pictures_decoded_by_gpu)?;
        dict.set_item("left_to_cpu", stats.left_to_cpu)?;
        dict.set_item("videos_indexed", stats.videos_indexed)?;
        dict.set_item("index_hits", stats.index_hits)?;
        dict.set_item("index_trouble", self.index.trouble())?;
        dict.set_item("videos_failed", stats.videos_failed)?;
        dict.set_item("clips_skipped", stats.clips_skipped)?;
        dict.set_item("clips_replaced", stats.clips_replaced)?;
        dict.set_item("errors", stats.errors)?;
        dict.set_item("planning_seconds", stats.planning_seconds)?;
        dict.set_item("reading_seconds", times.reading.as_secs_f64())?;
        dict.set_item("decoding_seconds", times.decoding.as_secs_f64())?;
        dict.set_item("painting_seconds", times.painting.as_secs_f64())?;
        dict.set_item("lane_busy_seconds", stats.lane_busy_seconds)?;
        dict.set_item("lane_starved_seconds", stats.lane_starved_seconds)?;
        dict.set_item("lane_blocked_seconds", stats.lane_blocked_seconds)?;
        dict.set_item("consumer_wait_seconds", stats.consumer_wait_seconds)?;
        Ok(dict)
    }
}

/// Facts of each frame of each clip, as rows of `t`.
fn filled<'a, T: Copy + 'a>(
    clips: &'a [spool::ClipFacts],
    t: usize,
    of: fn(&spool::ClipFacts) -> &Vec<T>,
    filling: T,
) -> impl Iterator<Item = T> + 'a {
    let row = move |clip| of(clip).iter().copied().chain(std::iter::repeat(filling)).take(t);
    clips.iter().flat_map(row)
}

/// A batch as a dict of tensors, by the names of `framespool.Batch`.
fn hand_over(py: Python<'_>, batch: spool::Batch) -> PyResult<Bound<'_, PyDict>> {
    let clips = batch.clips;
    let n = clips.len();
    // Where clips differ in length, the rows of the shorter ones are filled up.
    let t = clips.iter().map(|c| c.indices.len()).max().unwrap_or(0);
    let dict = PyDict::new(py);
    let put = |name: &str, tensor: Tensor| dict.set_item(name, Py::new(py, tensor)?);
    let each = |f: fn(&spool::ClipFacts) -> i64| {
        Tensor::copied(clips.iter().map(|c| f(c).to_ne_bytes()), vec![n], Element::I64)
    };
    put("labels", each(|c| c.label))?;
    put("video_ids", each(|c| i64::from(c.video_id)))?;
    put("clip_ids", each(|c| c.clip_id as i64))?;
    put("requested_ids", each(|c| c.requested_id as i64))?;
    put("view_ids", each(|c| c.view_id as i64))?;
    put("padding", Tensor::copied(clips.iter().map(|c| [u8::from(c.padding)]), vec![n], Element::Bool))?;
    let indices: Vec<_> = filled(&clips, t, |c| &c.indices, -1).map(i64::to_ne_bytes).collect();
    put("indices", Tensor::copied(indices.into_iter(), vec![n, t], Element::I64))?;
    let times: Vec<_> = filled(&clips, t, |c| &c.pts_seconds, f64::NAN).map(f64::to_ne_bytes).collect();
    put("pts_seconds", Tensor::copied(times.into_iter(), vec![n, t], Element::F64))?;
    let mask: Vec<_> = filled(&clips, t, |c| &c.mask, false).map(|m| [u8::from(m)]).collect();
    put("mask", Tensor::copied(mask.into_iter(), vec![n, t], Element::Bool))?;
    let sizes: Vec<_> = clips.iter().flat_map(|c| [c.size.1, c.size.0]).map(i64::from).collect();
    put("sizes", Tensor::copied(sizes.into_iter().map(i64::to_ne_bytes), vec![n, 2], Element::I64))?;
    match batch.pixels {
        Pixels::Even(slab, shape) => {
            let dims = [&[n], &shape.dims()[..]].concat();
            dict.set_item("frames", Py::new(py, Tensor::of(slab, dims, Element::from(shape.dtype)))?)?;
        }
        Pixels::Ragged(each) => {
            let tensors = each.into_iter().map(|(slab, shape)| {
                Py::new(py, Tensor::of(slab, shape.dims().to_vec(), Element::from(shape.dtype)))
            });
            dict.set_item("frames", tensors.collect::<PyResult<Vec<_>>>()?)?;
        }
    }
    Ok(dict)
}
