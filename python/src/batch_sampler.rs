//! Python class for the batch sampler: returns the clip numbers of each batch and measures how well
//! a shuffle mixes videos. It releases the GIL while it computes or measures an order.

use framespool::batch_sampler::GroupedConfig;
use framespool::batch_sampler::grouped_shuffle::VideoClips;
use framespool::batch_sampler::shuffle_quality::{ShuffleStats, measure_shuffle};
use framespool::batch_sampler::{self, SampledClip};
use framespool::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{OrRaise, read_spec};

/// Returns the value that a keyword such as `dtype="uint8"` stands for, or an error that lists the
/// valid words.
pub(crate) fn parse_choice<T: Copy>(name: &str, value: &str, words: &[(&str, T)]) -> Result<T> {
    let known = || {
        words
            .iter()
            .map(|(word, _)| format!("{word:?}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let found = words
        .iter()
        .find(|(word, _)| *word == value)
        .map(|(_, meaning)| *meaning);
    found
        .ok_or_else(|| Error::Argument(format!("{name} must be one of {}, got {value:?}", known())))
}

/// The parameters of a grouped shuffle: `num_streams`, `shuffle_block_size` and `max_chunk`.
pub(crate) type GroupedArgs = (u32, u64, u32);

/// Converts the parameters of a grouped shuffle for Python.
pub(crate) fn grouped_args(grouped: GroupedConfig) -> GroupedArgs {
    (grouped.num_streams, grouped.block_size, grouped.max_chunk)
}

#[pyclass(module = "framespool._framespool", frozen)]
pub struct BatchSampler(batch_sampler::BatchSampler);

#[pymethods]
impl BatchSampler {
    #[new]
    fn new(py: Python<'_>, settings: &Bound<'_, PyAny>) -> PyResult<Self> {
        let config = read_spec("the options of the batch sampler", settings)?;
        py.detach(|| Ok(Self(batch_sampler::BatchSampler::new(config)?)))
            .or_raise(py)
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.0.len_batches()).unwrap_or(usize::MAX)
    }

    #[getter]
    fn grouped(&self) -> Option<GroupedArgs> {
        self.0.grouped().map(grouped_args)
    }

    #[getter]
    fn num_slots(&self) -> u64 {
        self.0.num_samples()
    }

    fn batch(&self, py: Python<'_>, batch: u64, epoch: u64) -> Vec<u64> {
        self.slots(py, batch, epoch)
            .iter()
            .map(|slot| slot.clip)
            .collect()
    }

    fn padding(&self, py: Python<'_>, batch: u64, epoch: u64) -> Vec<bool> {
        self.slots(py, batch, epoch)
            .iter()
            .map(|slot| slot.padding)
            .collect()
    }

    fn visits(&self, py: Python<'_>, batch: u64, epoch: u64) -> Vec<u32> {
        self.slots(py, batch, epoch)
            .iter()
            .map(|slot| slot.occurrence)
            .collect()
    }

    /// Measures how well the batches mix videos. `video_clips` defaults to that of a grouped
    /// shuffle, else 1.
    #[pyo3(signature = (video_clips, epoch))]
    fn quality<'py>(
        &self,
        py: Python<'py>,
        video_clips: Option<&Bound<'py, PyAny>>,
        epoch: u64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let config = self.0.config();
        let given = video_clips
            .map(|clips| read_spec("the clips of each video", clips))
            .transpose()?;
        let measure = || {
            let clips = given.or_else(|| config.video_clips.clone());
            let single = VideoClips::Equal {
                videos: config.num_clips,
                clips: 1,
            };
            measure_shuffle(&self.0, epoch, &clips.unwrap_or(single))
        };
        let quality = py.detach(measure).or_raise(py)?;
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
    // A mix has no distances.
    let distance = |distance: f64| (!distance.is_nan()).then_some(distance);
    dict.set_item("mean_clips", distance(shuffle_stats.mean_clips))?;
    dict.set_item("median_clips", distance(shuffle_stats.median_clips))?;
    dict.set_item(
        "max_clips",
        distance(shuffle_stats.max_clips).map(|clips| clips as u64),
    )?;
    dict.set_item("mean_share", distance(shuffle_stats.mean_share))?;
    dict.set_item("median_share", distance(shuffle_stats.median_share))?;
    dict.set_item("max_share", distance(shuffle_stats.max_share))?;
    dict.set_item("videos_per_batch", shuffle_stats.videos_per_batch)?;
    dict.set_item("repeats_per_batch", shuffle_stats.repeats_per_batch)?;
    dict.set_item("median_gap_batches", shuffle_stats.median_gap_batches)?;
    dict.set_item("mixing", shuffle_stats.mixing)?;
    Ok(dict)
}
