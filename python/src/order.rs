//! In: the words and numbers of an order, as the Python package checked them.
//! Out: clip numbers batch by batch, and how well they are mixed.
//! Never: holds the GIL while an order is replayed or measured.

use framespool::order::quality::{quality, Mixing};
use framespool::order::{self, Kind, LastBatch, Mix, OrderConfig, Shuffle, Slot};
use framespool::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::OrRaise;

/// Keywords of an order.
#[derive(FromPyObject)]
pub struct Settings {
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
    mix: Option<MixSettings>,
}

/// Sizes, weights, replacement and clips of an epoch.
type MixSettings = (Vec<u64>, Vec<f64>, bool, Option<u64>);

/// What one of some words means.
pub fn word<T: Copy>(name: &str, value: &str, words: &[(&str, T)]) -> Result<T> {
    let known = || words.iter().map(|(word, _)| format!("{word:?}")).collect::<Vec<_>>().join(", ");
    let found = words.iter().find(|(word, _)| *word == value).map(|(_, meaning)| *meaning);
    found.ok_or_else(|| Error::Argument(format!("{name} must be one of {}, got {value:?}", known())))
}

/// The engine's configuration of an order.
pub fn config(s: Settings) -> Result<OrderConfig> {
    let buffer = Shuffle::Buffer { initial_fill: s.initial_fill };
    let kinds = [("framespool", Kind::Framespool), ("torch", Kind::Torch), ("dali", Kind::Dali)];
    let policies = [("partial", LastBatch::Partial), ("drop", LastBatch::Drop), ("fill", LastBatch::Fill)];
    Ok(OrderConfig {
        num_clips: s.num_clips,
        kind: word("order", &s.order, &kinds)?,
        shuffle: match &s.shuffle {
            None => Shuffle::Off,
            Some(shuffle) => word("shuffle", shuffle, &[("full", Shuffle::Full), ("buffer", buffer)])?,
        },
        seed: s.seed,
        shard_id: s.shard_id,
        num_shards: s.num_shards,
        stick_to_shard: s.stick_to_shard,
        worker_id: s.worker_id,
        num_workers: s.num_workers,
        batch_size: s.batch_size,
        last_batch: word("last_batch", &s.last_batch, &policies)?,
        mix: s.mix.map(|(sizes, weights, replacement, epoch_clips)| Mix {
            sizes,
            weights,
            replacement,
            epoch_clips,
        }),
    })
}

#[pyclass(module = "framespool._framespool", frozen)]
pub struct Order(order::Order);

#[pymethods]
impl Order {
    #[new]
    fn new(py: Python<'_>, settings: Settings) -> PyResult<Self> {
        py.detach(|| Ok(Self(order::Order::new(config(settings)?)?))).or_raise(py)
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.0.len_batches()).unwrap_or(usize::MAX)
    }

    #[getter]
    fn num_slots(&self) -> u64 {
        self.0.len_slots()
    }

    fn batch(&self, py: Python<'_>, batch: u64, epoch: u64) -> Vec<u64> {
        self.slots(py, batch, epoch).iter().map(|slot| slot.clip).collect()
    }

    fn padding(&self, py: Python<'_>, batch: u64, epoch: u64) -> Vec<bool> {
        self.slots(py, batch, epoch).iter().map(|slot| slot.padding).collect()
    }

    fn visits(&self, py: Python<'_>, batch: u64, epoch: u64) -> Vec<u32> {
        self.slots(py, batch, epoch).iter().map(|slot| slot.visit).collect()
    }

    /// `ends`: the clip after the last one of each video; or one number, the clips of every video.
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
        let found = py.detach(|| quality(&self.0, epoch, &video_of)).or_raise(py)?;
        let dict = mixing(py, found.own)?;
        dict.set_item("full", mixing(py, found.full)?)?;
        Ok(dict)
    }
}

impl Order {
    fn slots(&self, py: Python<'_>, batch: u64, epoch: u64) -> Vec<Slot> {
        py.detach(|| self.0.batch(epoch, batch))
    }
}

fn mixing(py: Python<'_>, mixing: Mixing) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("mean_clips", mixing.mean_clips)?;
    dict.set_item("median_clips", mixing.median_clips)?;
    dict.set_item("most_clips", mixing.most_clips)?;
    dict.set_item("mean_share", mixing.mean_share)?;
    dict.set_item("median_share", mixing.median_share)?;
    dict.set_item("most_share", mixing.most_share)?;
    dict.set_item("videos_per_batch", mixing.videos_per_batch)?;
    Ok(dict)
}
