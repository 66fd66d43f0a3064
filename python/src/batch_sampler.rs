//! Python class for the batch sampler: returns the clip numbers of each batch and measures how well a shuffle
//! mixes videos. It releases the GIL while it computes or measures an order.

use framespool::batch_sampler::shuffle_quality::{measure_shuffle, ShuffleStats};
use framespool::batch_sampler::{
    self, BatchSamplerConfig, ClipOrder, LastBatchPolicy, MixConfig, SampledClip, Shuffle,
};
use framespool::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::OrRaise;

/// Keyword arguments of the batch sampler; the Python package has validated them.
#[derive(FromPyObject)]
pub struct BatchSamplerArgs {
    #[pyo3(item)]
    num_clips: u64,
    #[pyo3(item)]
    batch_size: u32,
    #[pyo3(item)]
    shuffle: Option<String>,
    #[pyo3(item)]
    initial_fill: u32,
    #[pyo3(item)]
    order: String,
    #[pyo3(item)]
    shard_id: u32,
    #[pyo3(item)]
    num_shards: u32,
    #[pyo3(item)]
    seed: u64,
    #[pyo3(item)]
    last_batch: String,
    #[pyo3(item)]
    stick_to_shard: bool,
    #[pyo3(item)]
    worker_id: u32,
    #[pyo3(item)]
    num_workers: u32,
    #[pyo3(item)]
    mix: Option<MixArgs>,
}

/// Sizes, weights, replacement, and the number of clips of an epoch.
type MixArgs = (Vec<u64>, Vec<f64>, bool, Option<u64>);

/// Returns the value that a keyword such as `order="dali"` stands for, or an error that lists the valid
/// words.
pub fn parse_choice<T: Copy>(name: &str, value: &str, words: &[(&str, T)]) -> Result<T> {
    let known = || words.iter().map(|(word, _)| format!("{word:?}")).collect::<Vec<_>>().join(", ");
    let found = words.iter().find(|(word, _)| *word == value).map(|(_, meaning)| *meaning);
    found.ok_or_else(|| Error::Argument(format!("{name} must be one of {}, got {value:?}", known())))
}

/// Returns the engine's configuration of a batch sampler.
pub fn config(s: BatchSamplerArgs) -> Result<BatchSamplerConfig> {
    let buffer = Shuffle::Buffer { initial_fill: s.initial_fill };
    let clip_orders =
        [("framespool", ClipOrder::Framespool), ("torch", ClipOrder::Torch), ("dali", ClipOrder::Dali)];
    let policies = [
        ("partial", LastBatchPolicy::Partial),
        ("drop", LastBatchPolicy::Drop),
        ("fill", LastBatchPolicy::Fill),
    ];
    Ok(BatchSamplerConfig {
        num_clips: s.num_clips,
        clip_order: parse_choice("order", &s.order, &clip_orders)?,
        shuffle: match &s.shuffle {
            None => Shuffle::Off,
            Some(shuffle) => {
                parse_choice("shuffle", shuffle, &[("full", Shuffle::Full), ("buffer", buffer)])?
            }
        },
        seed: s.seed,
        shard_id: s.shard_id,
        num_shards: s.num_shards,
        stick_to_shard: s.stick_to_shard,
        worker_id: s.worker_id,
        num_workers: s.num_workers,
        batch_size: s.batch_size,
        last_batch: parse_choice("last_batch", &s.last_batch, &policies)?,
        mix: s.mix.map(|(sizes, weights, replacement, epoch_clips)| MixConfig {
            sizes,
            weights,
            replacement,
            epoch_clips,
        }),
    })
}

#[pyclass(module = "framespool._framespool", frozen)]
pub struct BatchSampler(batch_sampler::BatchSampler);

#[pymethods]
impl BatchSampler {
    #[new]
    fn new(py: Python<'_>, settings: BatchSamplerArgs) -> PyResult<Self> {
        py.detach(|| Ok(Self(batch_sampler::BatchSampler::new(config(settings)?)?))).or_raise(py)
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.0.len_batches()).unwrap_or(usize::MAX)
    }

    #[getter]
    fn num_slots(&self) -> u64 {
        self.0.num_samples()
    }

    fn batch(&self, py: Python<'_>, batch: u64, epoch: u64) -> Vec<u64> {
        self.slots(py, batch, epoch).iter().map(|slot| slot.clip).collect()
    }

    fn padding(&self, py: Python<'_>, batch: u64, epoch: u64) -> Vec<bool> {
        self.slots(py, batch, epoch).iter().map(|slot| slot.padding).collect()
    }

    fn visits(&self, py: Python<'_>, batch: u64, epoch: u64) -> Vec<u32> {
        self.slots(py, batch, epoch).iter().map(|slot| slot.occurrence).collect()
    }

    /// Measures how well the batches mix videos. `ends` holds, for each video, the number of its last clip
    /// plus 1; if it is empty, every video has `each` clips.
    fn quality<'py>(
        &self,
        py: Python<'py>,
        ends: Vec<u64>,
        each: u64,
        epoch: u64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let video_of = |clip: u64| match &ends[..] {
            [] => clip / each.max(1),
            ends => ends.partition_point(|&end| end <= clip) as u64,
        };
        let quality = py.detach(|| measure_shuffle(&self.0, epoch, &video_of)).or_raise(py)?;
        let dict = shuffle_stats(py, quality.measured)?;
        dict.set_item("full", shuffle_stats(py, quality.full)?)?;
        Ok(dict)
    }
}

impl BatchSampler {
    fn slots(&self, py: Python<'_>, batch: u64, epoch: u64) -> Vec<SampledClip> {
        py.detach(|| self.0.batch(epoch, batch))
    }
}

fn shuffle_stats(py: Python<'_>, shuffle_stats: ShuffleStats) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("mean_clips", shuffle_stats.mean_clips)?;
    dict.set_item("median_clips", shuffle_stats.median_clips)?;
    dict.set_item("max_clips", shuffle_stats.max_clips)?;
    dict.set_item("mean_share", shuffle_stats.mean_share)?;
    dict.set_item("median_share", shuffle_stats.median_share)?;
    dict.set_item("max_share", shuffle_stats.max_share)?;
    dict.set_item("videos_per_batch", shuffle_stats.videos_per_batch)?;
    Ok(dict)
}
