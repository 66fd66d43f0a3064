//! Python class for the loader: starts the engine's loader from a dataset, a clip sampler,
//! transforms and settings. It returns batches as tensors, and statistics, and releases the GIL
//! while it waits for a batch.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use framespool::loader::stats::{Failure, Stats, UnloggedFailures};
use framespool::loader::{self, BatchData, Collate, LoaderOptions, OnError};
use framespool::{Error, Result};
use pyo3::exceptions::{PyRuntimeError, PyUserWarning};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::audio::put_audio;
use crate::batch_sampler::{self};
use crate::clip_sampler::{Callable, SamplerArg, with_cause};
use crate::counters::stats_to_dict;
use crate::element_type::ElementType;
use crate::errors::{check_same_process, warn_hdr};
use crate::images::params_to_python;
use crate::index_cache::{IndexCacheHandle, index_progress, log};
use crate::interrupt::run_interruptible;
use crate::loader_args::{DatasetArg, LoaderSpec, config};
use crate::log_records::emit_log_records;
use crate::tensor::Tensor;
use crate::transforms::Steps;
use framespool::batch_sampler::GroupedConfig;
use framespool::batch_sampler::SampledClip;

/// Clip, occurrence, repeat, whether it is padding.
type SlotTuple = (u64, u32, u32, bool);

fn sampled_clip((clip, occurrence, repeat, padding): SlotTuple) -> SampledClip {
    SampledClip {
        clip,
        occurrence,
        repeat,
        padding,
    }
}

/// Maximum number of files whose names are kept to log one warning for each.
const MAX_WARNED_FILES: usize = 1 << 16;

/// Video number, file, kind of error, error message, number of clips.
type FailureTuple = (u32, Option<String>, &'static str, String, u64);

#[pyclass(module = "framespool._framespool", frozen)]
pub struct Loader {
    /// `None` only while the object is being dropped.
    loader: Mutex<Option<loader::Loader>>,
    /// The Python functions that the clip samplers call, for the garbage collector.
    functions: Vec<Callable>,
    // Outside of the lock, so that they can be called while another thread waits for a batch.
    counter: Box<dyn Fn() -> Stats + Send + Sync>,
    failures: Box<dyn Fn() -> Vec<Failure> + Send + Sync>,
    unlogged_failures: Box<dyn Fn() -> UnloggedFailures + Send + Sync>,
    /// Names of the files whose failures were logged as warnings.
    warned_files: Mutex<HashSet<Arc<str>>>,
    on_error: OnError,
    progress: Box<dyn Fn() -> (u64, u64) + Send + Sync>,
    index: IndexCacheHandle,
    len_batches: u64,
    num_clips: u64,
    clips_per_group: Option<u32>,
    /// Clips of a video in each view, if there are several.
    clips_of_views: Option<Vec<u64>>,
    collate: Collate,
    /// The class of the loader in Python.
    class_name: &'static str,
    owner_pid: u32,
}

impl Loader {
    fn check_process(&self, py: Python<'_>) -> PyResult<()> {
        check_same_process(py, self.class_name, self.owner_pid)
    }

    /// Runs `work` on the loader without the GIL. If a signal interrupts it, raises the signal
    /// handler's exception.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut loader::Loader) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.check_process(py)?;
        emit_log_records(py)?;
        let Ok(mut guard) = self.loader.try_lock() else {
            return Err(PyRuntimeError::new_err(
                "the loader is in use by another thread; give each thread its own loader",
            ));
        };
        // The guard itself must not be sent to another thread; a reference to the loader can be.
        let Some(loader) = guard.as_mut() else {
            return Err(PyRuntimeError::new_err(
                "the loader no longer exists; create another one",
            ));
        };
        run_interruptible(py, || work(loader))
    }
}

impl Loader {
    fn warn_large_cached_clips(&self, py: Python<'_>) -> PyResult<()> {
        let Some(found) = self.with(py, |loader| Ok(loader.take_large_cached_clips()))? else {
            return Ok(());
        };
        let text = format!(
            "videos have more than 8 bits: a clip takes {} bytes in the clip cache instead of {}, so the cache holds fewer \
             clips than the grouped shuffle expects, and videos are decoded again; use GroupedShuffle(block_size={}) on all \
             ranks, or dtype=\"uint8\"",
            found.bytes, found.expected_bytes, found.block_size
        );
        py.import("warnings")?
            .call_method1("warn", (text, py.get_type::<PyUserWarning>(), 3))?;
        Ok(())
    }
}

impl Loader {
    /// Logs the failures since the last call, on the thread that takes batches or statistics:
    /// workers do not call Python's logging. With `on_error="raise"` the errors are raised instead.
    fn log_failures(&self, py: Python<'_>) -> PyResult<()> {
        let UnloggedFailures { errors, omitted } = (self.unlogged_failures)();
        if errors.is_empty() || self.on_error == OnError::Raise {
            return Ok(());
        }
        let mut warned = self
            .warned_files
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut is_new = |error: &Error| match error.site() {
            Some(site) if warned.len() < MAX_WARNED_FILES => warned.insert(site.file.clone()),
            Some(site) => !warned.contains(&site.file),
            None => true,
        };
        let entries: Vec<_> = errors
            .iter()
            .map(|e| (e.to_string(), e.kind(), is_new(e)))
            .collect();
        drop(warned);
        log(
            py,
            "loader_failures",
            (self.on_error == OnError::Replace, entries, omitted),
        )
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        let loader = self
            .loader
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        // Dropping waits for the workers, which may be waiting for the GIL.
        Python::try_attach(|py| py.detach(|| drop(loader)));
    }
}

/// Returns the number of CPU cores that this process may use, by its affinity mask and its cgroup's
/// CPU quota.
#[pyfunction]
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// See [`Loader::estimate_cost`].
type CostTuple = ((f64, f64, f64, f64), f64, Vec<(u32, f64, f64, u64)>);

#[pymethods]
impl Loader {
    #[new]
    #[pyo3(signature = (dataset, clip_sampler, steps, settings, progress=None))]
    fn new(
        py: Python<'_>,
        dataset: DatasetArg,
        clip_sampler: SamplerArg,
        steps: Steps,
        settings: LoaderSpec,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let index = py.detach(|| IndexCacheHandle::open(&settings.index));
        index.log_error(py)?;
        let &LoaderOptions {
            on_error, collate, ..
        } = &settings.options;
        let class_name = settings.options.class_name();
        let others = settings.more_views.iter();
        let others = others.filter_map(|(sampler, ..)| sampler.as_ref());
        let functions = std::iter::once(&clip_sampler)
            .chain(others)
            .filter_map(|sampler| sampler.function.clone())
            .collect();
        let config = config(py, dataset, &clip_sampler, steps, settings, &index)?;
        let start = || match &progress {
            Some(progress) => {
                loader::Loader::start_with_progress(config, &index_progress(progress))
            }
            None => loader::Loader::start(config),
        };
        let loader = run_interruptible(py, start)?;
        let (len_batches, num_clips) = (loader.len_batches(), loader.num_clips());
        let clips_per_group = loader.clips_per_group();
        let clips_of_views = loader.clips_of_views();
        let counter = Box::new(loader.counter());
        let failures = Box::new(loader.failures());
        let unlogged_failures = Box::new(loader.unlogged_failures());
        let progress = Box::new(loader.progress());
        let loader = Mutex::new(Some(loader));
        let owner_pid = std::process::id();
        let made = Self {
            loader,
            functions,
            counter,
            failures,
            unlogged_failures,
            warned_files: Mutex::default(),
            on_error,
            progress,
            index,
            len_batches,
            num_clips,
            clips_per_group,
            clips_of_views,
            collate,
            class_name,
            owner_pid,
        };
        made.log_failures(py)?;
        Ok(made)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.functions
            .iter()
            .try_for_each(|callable| visit.call(&*callable.0))
    }

    fn __len__(&self) -> usize {
        self.len_batches as usize
    }

    #[getter]
    fn num_clips(&self) -> u64 {
        self.num_clips
    }

    /// The parameters of the grouped shuffle; `None` if the clips are not grouped.
    #[getter]
    fn grouped(&self, py: Python<'_>) -> PyResult<Option<batch_sampler::GroupedArgs>> {
        self.with(py, |loader| {
            Ok(loader.grouped().map(batch_sampler::grouped_args))
        })
    }

    /// The mixing of a grouped shuffle, whether it is poor, and the memory budget that gives 0.9
    /// then; `None` if the clips are not grouped.
    fn shuffle_mixing(&self, py: Python<'_>) -> PyResult<Option<(f64, bool, Option<u64>)>> {
        let found = self.with(py, |loader| loader.shuffle_mixing())?;
        Ok(found.map(|found| (found.mixing, found.is_poor, found.memory_budget)))
    }

    /// Estimated packets per clip: each clip by itself, full shuffle, grouped shuffle; and the
    /// mixing of the latter. Then the frames decoded per clip, and for each disk cache its epochs,
    /// both frames per clip, and the bytes on disk.
    fn estimate_cost(&self, py: Python<'_>) -> PyResult<CostTuple> {
        let found = self.with(py, |loader| loader.estimate_cost())?;
        let disk_caches = found.disk_caches.iter().map(|disk| {
            (
                disk.epochs,
                disk.frames_per_clip,
                disk.first_epoch_frames_per_clip,
                disk.disk_bytes,
            )
        });
        Ok((
            (found.single, found.full, found.grouped, found.mixing),
            found.frames_per_clip,
            disk_caches.collect(),
        ))
    }

    /// Mean length of the groups of pictures if a disk cache would save decoding; see the engine.
    fn gop_without_disk_cache(&self, py: Python<'_>, is_random: bool) -> PyResult<Option<f64>> {
        self.with(py, |loader| Ok(loader.gop_without_disk_cache(is_random)))
    }

    /// Uses these parameters for the grouped shuffle. Ends the current pass.
    fn set_grouped(
        &self,
        py: Python<'_>,
        num_streams: u32,
        block_size: u64,
        max_chunk: u32,
    ) -> PyResult<()> {
        self.with(py, |loader| {
            loader.set_grouped(GroupedConfig {
                num_streams,
                block_size,
                max_chunk,
            })
        })
    }

    /// Page-locks batches from now on, with the driver of this GPU.
    fn page_lock(&self, py: Python<'_>, gpu: u32, required: bool) -> PyResult<()> {
        self.with(py, |loader| loader.page_lock(gpu, required))
    }

    fn start_epoch(&self, py: Python<'_>, epoch: u64, first_batch: u64) -> PyResult<u64> {
        self.with(py, |loader| loader.start_epoch(epoch, first_batch))
    }

    /// Begins a pass over these batches: for each clip its number, occurrence, repeat, and whether
    /// it is padding.
    fn start_batches(
        &self,
        py: Python<'_>,
        epoch: u64,
        first_batch: u64,
        batches: Vec<Vec<SlotTuple>>,
    ) -> PyResult<u64> {
        let batches: Arc<[Vec<SampledClip>]> = batches
            .into_iter()
            .map(|batch| batch.into_iter().map(sampled_clip).collect())
            .collect();
        self.with(py, |loader| {
            loader.start_batches(epoch, first_batch, batches)
        })
    }

    /// The number and the occurrence of each clip of an epoch, in the order of all ranks.
    fn clips_in_order(&self, py: Python<'_>, epoch: u64) -> PyResult<Vec<(u64, u32)>> {
        let clips = self.with(py, |loader| loader.clips_in_order(epoch))?;
        Ok(clips
            .into_iter()
            .map(|slot| (slot.clip, slot.occurrence))
            .collect())
    }

    /// The number of the sample of each clip.
    fn samples_of(&self, py: Python<'_>, clips: Vec<u64>) -> PyResult<Vec<u32>> {
        self.with(py, |loader| loader.samples_of(&clips))
    }

    /// (frames, height, width) of clips; zeros where the file of a clip fails and `on_error` does
    /// not raise.
    fn clip_shapes(
        &self,
        py: Python<'_>,
        epoch: u64,
        clips: Vec<SlotTuple>,
    ) -> PyResult<Vec<(u32, u32, u32)>> {
        let clips: Vec<_> = clips.into_iter().map(sampled_clip).collect();
        with_cause(py, || {
            self.with(py, |loader| loader.clip_shapes(epoch, &clips))
        })
    }

    /// Delivers clips without frames from now on, and ends the current pass. `halves`: the first 8
    /// bytes of each content key, one after another.
    fn set_known_clips(&self, py: Python<'_>, halves: &[u8]) -> PyResult<()> {
        let halves = halves
            .as_chunks::<8>()
            .0
            .iter()
            .map(|half| i64::from_le_bytes(*half))
            .collect();
        self.with(py, |loader| loader.set_known_clips(halves))
    }

    /// Ends the current pass.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, loader::Loader::stop_epoch)
    }

    fn next_batch<'py>(&self, py: Python<'py>, pass: u64) -> PyResult<Option<Bound<'py, PyDict>>> {
        let next = self.with(py, |loader| loader.next_batch(pass));
        self.log_failures(py)?;
        match next? {
            Some(batch) => {
                warn_hdr(py)?;
                self.warn_large_cached_clips(py)?;
                let group = self.clips_per_group.map(|clips| clips as usize);
                let Some(counts) = &self.clips_of_views else {
                    return batch_to_dict(py, batch, group, self.collate).map(Some);
                };
                // Those of the first view have the names of the fields; the others with their number.
                let all = PyDict::new(py);
                for (view, (batch, clips)) in split_views(batch, counts).enumerate() {
                    let dict = batch_to_dict(py, batch, Some(clips), self.collate)?;
                    for (name, value) in dict {
                        let name: String = name.extract()?;
                        match view {
                            0 => all.set_item(name, value)?,
                            _ => all.set_item(format!("{view}.{name}"), value)?,
                        }
                    }
                }
                Ok(Some(all))
            }
            None => {
                self.index.log_error(py)?;
                Ok(None)
            }
        }
    }

    /// Returns what the loader determines about a delivery of a clip: its video, its frames, and
    /// the random parameters of the transforms for its frame `t`.
    fn describe_clip<'py>(
        &self,
        py: Python<'py>,
        epoch: u64,
        clip: u64,
        t: u32,
        repeat: u32,
        occurrence: u32,
    ) -> PyResult<Bound<'py, PyDict>> {
        let slot = sampled_clip((clip, occurrence, repeat, false));
        let explain = || self.with(py, |loader| loader.describe_clip(epoch, slot, t));
        let explained = with_cause(py, explain)?;
        let dict = PyDict::new(py);
        dict.set_item("path", explained.file)?;
        dict.set_item("video_id", explained.video_id)?;
        dict.set_item("label", explained.label)?;
        dict.set_item("indices", explained.indices)?;
        dict.set_item(
            "transforms",
            params_to_python(py, explained.sampled_params)?,
        )?;
        let content_key = explained
            .content_key
            .map(|key| PyBytes::new(py, &key.to_be_bytes()));
        dict.set_item("content_key", content_key)?;
        if let Some(begin) = explained.begin_seconds {
            dict.set_item("start_seconds", begin)?;
        }
        Ok(dict)
    }

    /// Returns the number of the batch that a pass delivers next; `None` if another pass has begun
    /// since.
    fn next_batch_index(&self, py: Python<'_>, pass: u64) -> PyResult<Option<u64>> {
        self.check_process(py)?;
        let (under_way, next) = (self.progress)();
        Ok((under_way == pass).then_some(next))
    }

    /// Returns the errors so far, one per video.
    fn failures(&self, py: Python<'_>) -> PyResult<Vec<FailureTuple>> {
        self.check_process(py)?;
        let fields = |failure: Failure| {
            let Failure {
                video_id,
                error,
                clips,
            } = failure;
            let file = error.site().map(|site| site.file.to_string());
            (video_id, file, error.kind(), error.to_string(), clips)
        };
        Ok((self.failures)().into_iter().map(fields).collect())
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.check_process(py)?;
        self.log_failures(py)?;
        self.index.log_error(py)?;
        let stats = Stats {
            index_cache_error: self.index.unavailable_reason(),
            ..(self.counter)()
        };
        stats_to_dict(py, stats)
    }
}

/// Returns a value per frame, in rows of `t`; rows of shorter clips are padded with `filling`.
fn padded_rows<'a, T: Copy + 'a>(
    clips: &'a [loader::ClipMetadata],
    t: usize,
    of: fn(&loader::ClipMetadata) -> &Vec<T>,
    filling: T,
) -> impl Iterator<Item = T> + 'a {
    let row = move |clip| {
        of(clip)
            .iter()
            .copied()
            .chain(std::iter::repeat(filling))
            .take(t)
    };
    clips.iter().flat_map(row)
}

/// Splits a batch of several views into one for each view, with the number of clips that a video
/// has in it.
fn split_views(
    batch: loader::Batch,
    counts: &[u64],
) -> impl Iterator<Item = (loader::Batch, usize)> {
    let per_video = counts.iter().sum::<u64>() as usize;
    let number_ends = counts.iter().scan(0, |end, &count| {
        *end += count as usize;
        Some(*end)
    });
    let number_ends: Vec<usize> = number_ends.collect();
    let mut clips: Vec<Vec<loader::ClipMetadata>> = counts.iter().map(|_| Vec::new()).collect();
    for (position, clip) in batch.clips.into_iter().enumerate() {
        clips[number_ends.partition_point(|&end| end <= position % per_video)].push(clip);
    }
    let of_view = |((data, clips), &count): ((BatchData, Vec<loader::ClipMetadata>), &u64)| {
        let data = vec![data];
        (loader::Batch { data, clips }, count as usize)
    };
    let views: Vec<_> = batch
        .data
        .into_iter()
        .zip(clips)
        .zip(counts)
        .map(of_view)
        .collect();
    views.into_iter()
}

/// Converts a batch of one view to a dict of tensors, named like the fields of `framespool.Batch`. If the
/// `group` clips of a video stay together, they are a second dimension; what is about videos has
/// one value for all of them.
fn batch_to_dict<'py>(
    py: Python<'py>,
    batch: loader::Batch,
    group: Option<usize>,
    collate: Collate,
) -> PyResult<Bound<'py, PyDict>> {
    let clips = batch.clips;
    let n = clips.len();
    let by_clip = group.map_or_else(|| vec![n], |group| vec![n / group, group]);
    let group = group.unwrap_or(1);
    let shaped = |rest: &[usize]| [&by_clip[..], rest].concat();
    // If the clips differ in length, the rows of the shorter ones are padded.
    let t = clips.iter().map(|c| c.indices.len()).max().unwrap_or(0);
    let dict = PyDict::new(py);
    let put = |name: &str, tensor: Tensor| dict.set_item(name, Py::new(py, tensor)?);
    let each = |f: fn(&loader::ClipMetadata) -> i64| {
        Tensor::copied(
            clips.iter().map(|c| f(c).to_ne_bytes()),
            shaped(&[]),
            ElementType::I64,
        )
    };
    let videos = || clips.iter().step_by(group);
    let each_video = |f: fn(&loader::ClipMetadata) -> i64| {
        Tensor::copied(
            videos().map(|c| f(c).to_ne_bytes()),
            vec![n / group],
            ElementType::I64,
        )
    };
    put("labels", each_video(|c| c.label))?;
    put("video_ids", each_video(|c| i64::from(c.video_id)))?;
    put("clip_ids", each(|c| c.clip_id as i64))?;
    put("requested_ids", each(|c| c.requested_id as i64))?;
    put("occurrences", each(|c| c.occurrence as i64))?;
    put("view_ids", each(|c| c.view_id as i64))?;
    put(
        "padding",
        Tensor::copied(
            videos().map(|c| [u8::from(c.padding)]),
            vec![n / group],
            ElementType::Bool,
        ),
    )?;
    let indices: Vec<_> = padded_rows(&clips, t, |c| &c.indices, -1)
        .map(i64::to_ne_bytes)
        .collect();
    put(
        "indices",
        Tensor::copied(indices.into_iter(), shaped(&[t]), ElementType::I64),
    )?;
    let times: Vec<_> = padded_rows(&clips, t, |c| &c.pts_seconds, f64::NAN)
        .map(f64::to_ne_bytes)
        .collect();
    put(
        "pts_seconds",
        Tensor::copied(times.into_iter(), shaped(&[t]), ElementType::F64),
    )?;
    let keys = clips
        .iter()
        .map(|c| c.content_key.unwrap_or(0).to_be_bytes());
    put(
        "has_frames",
        Tensor::copied(
            clips.iter().map(|c| [u8::from(c.has_frames)]),
            shaped(&[]),
            ElementType::Bool,
        ),
    )?;
    put(
        "content_keys",
        Tensor::copied(keys, shaped(&[16]), ElementType::U8),
    )?;
    let mask: Vec<_> = padded_rows(&clips, t, |c| &c.mask, false)
        .map(|m| [u8::from(m)])
        .collect();
    put(
        "mask",
        Tensor::copied(mask.into_iter(), shaped(&[t]), ElementType::Bool),
    )?;
    let sizes: Vec<_> = videos()
        .flat_map(|c| [c.size.1, c.size.0])
        .map(i64::from)
        .collect();
    put(
        "sizes",
        Tensor::copied(
            sizes.into_iter().map(i64::to_ne_bytes),
            vec![n / group, 2],
            ElementType::I64,
        ),
    )?;
    let seconds_of_video = |f: fn(&loader::ClipMetadata) -> f64| {
        Tensor::copied(
            videos().map(|c| f(c).to_ne_bytes()),
            vec![n / group],
            ElementType::F64,
        )
    };
    put("video.num_frames", each_video(|c| i64::from(c.num_frames)))?;
    put("video.average_fps", seconds_of_video(|c| c.average_fps))?;
    put(
        "video.duration_seconds",
        seconds_of_video(|c| c.duration_seconds),
    )?;
    put(
        "video.first_frame",
        each_video(|c| i64::from(c.first_frame)),
    )?;
    let views = clips.iter().map(|c| c.geometry.len()).max().unwrap_or(1);
    let unknown = [[f64::NAN; 3]; 2];
    let map = |c: &loader::ClipMetadata, view| c.geometry.get(view).copied().unwrap_or(unknown);
    let maps = clips
        .iter()
        .flat_map(|c| (0..views).map(move |view| map(c, view)));
    let maps: Vec<_> = maps
        .flat_map(|m| m.concat())
        .map(f64::to_ne_bytes)
        .collect();
    let dims = if views > 1 {
        shaped(&[views, 2, 3])
    } else {
        shaped(&[2, 3])
    };
    put(
        "geometry",
        Tensor::copied(maps.into_iter(), dims, ElementType::F64),
    )?;
    put_audio(py, &dict, &clips, &by_clip)?;
    let Some(data) = batch.data.into_iter().next() else {
        return Ok(dict);
    };
    let (buffer, shape, own_shapes) = match data {
        BatchData::Dense(buffer, shape) => (buffer, shape, Vec::new()),
        BatchData::Padded(buffer, shape, own_shapes) => (buffer, shape, own_shapes),
        BatchData::Ragged(each) => {
            let tensors = each.into_iter().map(|(buffer, shape)| {
                Py::new(
                    py,
                    Tensor::from_buffer(
                        buffer,
                        shape.dims().to_vec(),
                        ElementType::from(shape.dtype),
                    ),
                )
            });
            dict.set_item("frames", tensors.collect::<PyResult<Vec<_>>>()?)?;
            return Ok(dict);
        }
    };
    if matches!(collate, Collate::Pad(_)) {
        let of_clip = |at: usize| own_shapes.get(at).unwrap_or(&shape);
        let sizes: Vec<_> = (0..n)
            .flat_map(|at| [of_clip(at).height, of_clip(at).width])
            .collect();
        let sizes = sizes.into_iter().map(|side| (side as i64).to_ne_bytes());
        put(
            "unpadded_sizes",
            Tensor::copied(sizes, shaped(&[2]), ElementType::I64),
        )?;
    }
    // Grouped clips all have frames.
    let with_frames = clips.iter().filter(|c| c.has_frames).count();
    let rows = if with_frames < n {
        vec![with_frames]
    } else {
        by_clip.clone()
    };
    let frames = Tensor::from_buffer(
        buffer,
        [&rows[..], &shape.dims()].concat(),
        ElementType::from(shape.dtype),
    );
    if collate == Collate::List {
        dict.set_item("frames", frames.entries())?;
    } else {
        dict.set_item("frames", Py::new(py, frames)?)?;
    }
    Ok(dict)
}
