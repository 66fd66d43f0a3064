//! In: a dataset, rules and numbers from Python.
//! Out: batches as tensors, and the counts.
//! Never: holds the GIL while waiting for a batch.

use std::sync::{Arc, Mutex};

use framespool::order::{LastBatch, Shuffle};
use framespool::source::MemorySource;
use framespool::spool::library::{Item, Place};
use framespool::spool::stats::Meter;
use framespool::spool::{self, OnError, Pixels, SpoolConfig};
use framespool::{Error, Result};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::OrRaise;
use crate::images::drawn;
use crate::index::{Kept, Wanted};
use crate::recipe::{recipe, Step};
use crate::sampling::{sampling, Rule};
use crate::tensor::{Element, Tensor};
use crate::video::{raise_own, watch, Source};

/// Keywords of the loader that are plain numbers and words.
#[derive(FromPyObject)]
pub struct Settings {
    #[pyo3(item)]
    batch_size: i64,
    #[pyo3(item)]
    shuffle: bool,
    #[pyo3(item)]
    seed: u64,
    #[pyo3(item)]
    shard_id: i64,
    #[pyo3(item)]
    num_shards: i64,
    #[pyo3(item)]
    last_batch: String,
    #[pyo3(item)]
    on_error: String,
    #[pyo3(item)]
    num_threads: i64,
    #[pyo3(item)]
    prefetch: i64,
    #[pyo3(item)]
    dtype: String,
    #[pyo3(item)]
    layout: String,
    #[pyo3(item)]
    index: Wanted,
}

#[pyclass(module = "framespool._framespool", frozen)]
pub struct Spool {
    spool: Mutex<spool::Spool>,
    // Outside the lock, so that they can be asked for while another thread waits for a batch.
    meter: Arc<Meter>,
    index: Kept,
    len_batches: u64,
    num_clips: u64,
}

fn config(
    py: Python<'_>,
    dataset: Vec<(Source, i64)>,
    rule: &Rule,
    steps: &[Step],
    s: &Settings,
    index: &Kept,
) -> PyResult<SpoolConfig> {
    let recipe = recipe(py, steps, &s.dtype, &s.layout)?;
    let words = || -> Result<SpoolConfig> {
        let number = |name: &str, value: i64| {
            u32::try_from(value)
                .map_err(|_| Error::Argument(format!("{name} must be from 0 to {}, got {value}", u32::MAX)))
        };
        let items = dataset.into_iter().enumerate().map(|(i, (source, label))| {
            let place = match source {
                Source::Path(path) => Place::Path(path),
                Source::Bytes(bytes) => Place::Memory(MemorySource::new(format!("dataset[{i}]"), bytes)),
            };
            Item { place, label }
        });
        Ok(SpoolConfig {
            items: items.collect(),
            sampling: sampling(rule)?,
            batch_size: number("batch_size", s.batch_size)?,
            shuffle: if s.shuffle { Shuffle::Full } else { Shuffle::Off },
            seed: s.seed,
            shard_id: number("shard_id", s.shard_id)?,
            num_shards: number("num_shards", s.num_shards)?,
            last_batch: match s.last_batch.as_str() {
                "partial" => LastBatch::Partial,
                "drop" => LastBatch::Drop,
                "fill" => LastBatch::Fill,
                other => {
                    return Err(Error::Argument(format!(
                        "last_batch must be \"partial\", \"drop\" or \"fill\", got {other:?}"
                    )))
                }
            },
            on_error: match s.on_error.as_str() {
                "raise" => OnError::Raise,
                "skip" => OnError::Skip,
                "replace" => OnError::Replace,
                other => {
                    return Err(Error::Argument(format!(
                        "on_error must be \"raise\", \"skip\" or \"replace\", got {other:?}"
                    )))
                }
            },
            recipe,
            threads: number("num_threads", s.num_threads)?,
            prefetch: number("prefetch", s.prefetch)?,
            index: index.store.clone(),
        })
    };
    words().or_raise(py)
}

impl Spool {
    /// Runs `work` on the spool without the GIL; an interrupt raises what its handler raised.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut spool::Spool) -> Result<T> + Send,
    ) -> PyResult<T> {
        let Ok(mut guard) = self.spool.try_lock() else {
            return Err(PyRuntimeError::new_err(
                "the loader is in use by another thread; give each thread a loader of its own",
            ));
        };
        let spool: &mut spool::Spool = &mut guard; // the guard itself must stay on this thread
        raise_own(py, py.detach(|| work(spool)))
    }
}

#[pymethods]
impl Spool {
    #[new]
    fn new(
        py: Python<'_>,
        dataset: Vec<(Source, i64)>,
        rule: Rule,
        steps: Vec<Step>,
        settings: Settings,
    ) -> PyResult<Self> {
        let index = py.detach(|| Kept::open(&settings.index)).or_raise(py)?;
        let config = config(py, dataset, &rule, &steps, &settings, &index)?;
        let spool = raise_own(py, py.detach(|| spool::Spool::start(config, &watch())))?;
        let (meter, len_batches, num_clips) = (spool.meter(), spool.len_batches(), spool.num_clips());
        Ok(Self { spool: Mutex::new(spool), meter, index, len_batches, num_clips })
    }

    fn __len__(&self) -> usize {
        self.len_batches as usize
    }

    #[getter]
    fn num_clips(&self) -> u64 {
        self.num_clips
    }

    fn begin(&self, py: Python<'_>, epoch: u64) -> PyResult<u64> {
        self.with(py, |spool| spool.begin(epoch))
    }

    fn next_batch<'py>(&self, py: Python<'py>, pass: u64) -> PyResult<Option<Bound<'py, PyDict>>> {
        match self.with(py, |spool| spool.next_batch(pass, &watch()))? {
            Some(batch) => hand_over(py, batch).map(Some),
            None => Ok(None),
        }
    }

    /// What is decided about a clip: its video, its frames, and what the transforms draw for frame `t` of it.
    fn explain<'py>(&self, py: Python<'py>, epoch: u64, clip: u64, t: u32) -> PyResult<Bound<'py, PyDict>> {
        let explained = self.with(py, |spool| spool.explain(epoch, clip, t, &watch()))?;
        let dict = PyDict::new(py);
        dict.set_item("path", explained.file)?;
        dict.set_item("video_id", explained.video_id)?;
        dict.set_item("label", explained.label)?;
        dict.set_item("indices", explained.indices)?;
        dict.set_item("transforms", drawn(py, explained.drawn)?)?;
        Ok(dict)
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.meter.read();
        let dict = PyDict::new(py);
        dict.set_item("batches", stats.batches)?;
        dict.set_item("clips", stats.clips)?;
        dict.set_item("frames", stats.frames)?;
        dict.set_item("packets_decoded", stats.decoding.packets_fed)?;
        dict.set_item("frames_decoded_and_used", stats.decoding.frames_delivered)?;
        let per_frame = stats.decoding.packets_fed as f64 / (stats.frames.max(1)) as f64;
        dict.set_item("packets_decoded_per_frame", per_frame)?;
        dict.set_item("runs", stats.decoding.runs)?;
        dict.set_item("decoders_opened", stats.decoding.decoders_opened)?;
        dict.set_item("bytes_read", stats.bytes_read)?;
        dict.set_item("videos_indexed", stats.videos_indexed)?;
        dict.set_item("index_hits", stats.index_hits)?;
        dict.set_item("index_trouble", self.index.trouble())?;
        dict.set_item("videos_failed", stats.videos_failed)?;
        dict.set_item("clips_skipped", stats.clips_skipped)?;
        dict.set_item("clips_replaced", stats.clips_replaced)?;
        dict.set_item("errors", stats.errors)?;
        dict.set_item("lane_busy_seconds", stats.lane_busy_seconds)?;
        dict.set_item("consumer_wait_seconds", stats.consumer_wait_seconds)?;
        Ok(dict)
    }
}

/// A batch as a dict of tensors, by the names of `framespool.Batch`.
fn hand_over(py: Python<'_>, batch: spool::Batch) -> PyResult<Bound<'_, PyDict>> {
    let clips = batch.clips;
    let n = clips.len();
    let t = clips.first().map_or(0, |c| c.indices.len());
    let dict = PyDict::new(py);
    let put = |name: &str, tensor: Tensor| dict.set_item(name, Py::new(py, tensor)?);
    let each = |f: fn(&spool::ClipFacts) -> i64| {
        Tensor::copied(clips.iter().map(|c| f(c).to_ne_bytes()), vec![n], Element::I64)
    };
    put("labels", each(|c| c.label))?;
    put("video_ids", each(|c| i64::from(c.video_id)))?;
    put("clip_ids", each(|c| c.clip_id as i64))?;
    put("padding", Tensor::copied(clips.iter().map(|c| [u8::from(c.padding)]), vec![n], Element::Bool))?;
    let indices: Vec<_> = clips.iter().flat_map(|c| &c.indices).map(|i| i.to_ne_bytes()).collect();
    put("indices", Tensor::copied(indices.into_iter(), vec![n, t], Element::I64))?;
    let times: Vec<_> = clips.iter().flat_map(|c| &c.pts_seconds).map(|s| s.to_ne_bytes()).collect();
    put("pts_seconds", Tensor::copied(times.into_iter(), vec![n, t], Element::F64))?;
    let mask: Vec<_> = clips.iter().flat_map(|c| &c.mask).map(|&m| [u8::from(m)]).collect();
    put("mask", Tensor::copied(mask.into_iter(), vec![n, t], Element::Bool))?;
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
