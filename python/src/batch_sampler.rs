//! Python class for the batch sampler: returns the clip numbers of each batch and measures how well a shuffle
//! mixes videos. It releases the GIL while it computes or measures an order.

use framespool::batch_sampler::grouped_shuffle::{GroupedConfig, GroupedOptions, VideoClips};
use framespool::batch_sampler::shuffle_quality::{measure_shuffle, ShuffleStats};
use framespool::batch_sampler::{
    self, BatchSamplerConfig, ClipOrder, LastBatchPolicy, MixConfig, SampledClip, Shuffle, WeightConfig,
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
    repeats: u32,
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
    num_nodes: u32,
    #[pyo3(item)]
    worker_id: u32,
    #[pyo3(item)]
    num_workers: u32,
    #[pyo3(item)]
    mix: Option<MixArgs>,
    #[pyo3(item)]
    weights: Option<WeightArgs>,
    #[pyo3(item)]
    shuffle_block_size: Option<u64>,
    #[pyo3(item)]
    num_streams: Option<u32>,
    #[pyo3(item)]
    max_chunk: u32,
    /// Clips of each video, or the same number for all; a loader counts them itself.
    #[pyo3(item)]
    clips_per_video: Option<ClipsPerVideo>,
}

#[derive(FromPyObject)]
enum ClipsPerVideo {
    Same(u64),
    Each(Vec<u64>),
}

impl ClipsPerVideo {
    fn into_video_clips(self, num_clips: u64) -> Result<VideoClips> {
        match self {
            Self::Same(0) => Err(Error::Argument("clips_per_video must be at least 1, got 0".into())),
            Self::Same(clips) if num_clips.is_multiple_of(clips) => {
                Ok(VideoClips::Equal { videos: num_clips / clips, clips })
            }
            Self::Same(clips) => Err(Error::Argument(format!(
                "num_clips={num_clips} must be a multiple of clips_per_video={clips}; give the number of each video"
            ))),
            Self::Each(counts) => {
                let mut sum = 0_u64;
                let ends = counts.into_iter().map(|count| {
                    sum = sum.saturating_add(count);
                    sum
                });
                Ok(VideoClips::Offsets(std::iter::once(0).chain(ends.collect::<Vec<_>>()).collect()))
            }
        }
    }
}

/// Weights of the videos, replacement, and the number of clips of an epoch.
type WeightArgs = (Vec<f64>, bool, Option<u64>);

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
                let grouped = Shuffle::Grouped(GroupedOptions {
                    num_streams: s.num_streams,
                    block_size: s.shuffle_block_size,
                    max_chunk: s.max_chunk,
                    ..GroupedOptions::default()
                });
                let shuffles = [("full", Shuffle::Full), ("buffer", buffer), ("grouped", grouped)];
                parse_choice("shuffle", shuffle, &shuffles)?
            }
        },
        seed: s.seed,
        shard_id: s.shard_id,
        num_shards: s.num_shards,
        stick_to_shard: s.stick_to_shard,
        num_nodes: s.num_nodes,
        worker_id: s.worker_id,
        num_workers: s.num_workers,
        batch_size: s.batch_size,
        repeats: s.repeats,
        clips_per_group: 1,
        last_batch: parse_choice("last_batch", &s.last_batch, &policies)?,
        mix: s.mix.map(|(sizes, weights, replacement, epoch_clips)| MixConfig {
            sizes,
            weights,
            replacement,
            epoch_clips,
        }),
        weights: s.weights.map(|(weights, replacement, epoch_clips)| WeightConfig {
            weights: weights.into(),
            replacement,
            epoch_clips,
        }),
        video_clips: s.clips_per_video.map(|clips| clips.into_video_clips(s.num_clips)).transpose()?,
    })
}

/// The parameters of a grouped shuffle: `num_streams`, `shuffle_block_size` and `max_chunk`.
pub type GroupedArgs = (u32, u64, u32);

/// Converts the parameters of a grouped shuffle for Python.
pub fn grouped_args(grouped: GroupedConfig) -> GroupedArgs {
    (grouped.num_streams, grouped.block_size, grouped.max_chunk)
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
    fn grouped(&self) -> Option<GroupedArgs> {
        self.0.grouped().map(grouped_args)
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

    /// Measures how well the batches mix videos. `clips_per_video` defaults to that of a grouped shuffle, else 1.
    #[pyo3(signature = (clips_per_video, epoch))]
    fn quality<'py>(
        &self,
        py: Python<'py>,
        clips_per_video: Option<ClipsPerVideo>,
        epoch: u64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let config = self.0.config();
        let measure = || {
            let given = clips_per_video.map(|clips| clips.into_video_clips(config.num_clips)).transpose()?;
            let clips = given.or_else(|| config.video_clips.clone());
            let single = VideoClips::Equal { videos: config.num_clips, clips: 1 };
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
    dict.set_item("max_clips", distance(shuffle_stats.max_clips).map(|clips| clips as u64))?;
    dict.set_item("mean_share", distance(shuffle_stats.mean_share))?;
    dict.set_item("median_share", distance(shuffle_stats.median_share))?;
    dict.set_item("max_share", distance(shuffle_stats.max_share))?;
    dict.set_item("videos_per_batch", shuffle_stats.videos_per_batch)?;
    dict.set_item("repeats_per_batch", shuffle_stats.repeats_per_batch)?;
    dict.set_item("median_gap_batches", shuffle_stats.median_gap_batches)?;
    dict.set_item("mixing", shuffle_stats.mixing)?;
    Ok(dict)
}
