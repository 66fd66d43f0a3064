//! Delivers batches of clips in a deterministic order, made by worker threads behind bounded queues.
//! The batches do not depend on which worker makes a clip. A bad file, a panic or a slow worker neither
//! changes the order nor blocks the caller forever.

mod backends;
mod budget;
pub mod catalog;
mod decode_task;
mod epoch;
mod lookahead;
mod scheduler;
#[cfg(all(test, feature = "model"))]
mod shuttle_tests;
mod single_clip;
pub mod stats;
mod worker;

use std::sync::Arc;

use crate::batch::{BatchBuffer, MemoryPool};
use crate::batch_sampler::grouped_shuffle::GroupedConfig;
use crate::batch_sampler::rng::RngKey;
use crate::batch_sampler::{BatchSampler, BatchSamplerConfig, Shuffle};
use crate::clip_sampler::ClipSamplerRef;
use crate::error::{Error, Result};
use crate::index::cache::IndexCache;
use crate::sync::{Mutex, PoisonError};
use crate::transforms::{explain, ClipShape, ElementLut, SampledParams, TransformPipeline};

use crate::dataset::SampleTable;
pub use backends::DecoderBackend;
use catalog::VideoCatalog;
use epoch::{Epoch, EpochContext};
use stats::{Failure, Stats, StatsCollector};
use worker::WorkerPool;

/// What happens when a clip cannot be made because of an error in its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Raises the error in place of the batch that contains the clip; later batches are still delivered. A
    /// failed batch allocation is handled differently, because no file causes it: see [`Loader::next_batch`].
    #[default]
    Raise,
    /// Leaves the clip out: its batch is shorter.
    Skip,
    /// Replaces the clip with another one, chosen by (seed, epoch, clip, attempt).
    Replace,
}

/// Datasets that are concatenated in the list of items and mixed by weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixture {
    /// Number of items in each dataset.
    pub items: Vec<u32>,
    /// Share of each dataset in the epoch, in any unit.
    pub weights: Vec<f64>,
    /// Whether a clip may repeat before all other clips of its dataset have been delivered.
    pub replacement: bool,
    /// Number of clips per epoch; by default the number of clips in all datasets together.
    pub epoch_clips: Option<u64>,
}

/// Selects the work that runs on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuConfig {
    /// The GPU whose memory holds the batches; host memory if `None`.
    pub device: Option<u32>,
    /// The decoder backend.
    pub decoder: DecoderBackend,
    /// Worker threads that decode on the GPU. Default: three per NVDEC engine, fewer if device memory is
    /// short.
    pub nvdec_threads: Option<u32>,
}

/// Configuration of a [`Loader`].
#[derive(Clone)]
pub struct LoaderConfig {
    /// Videos or images, with their labels.
    pub samples: Arc<SampleTable>,
    /// Whether the files are images (JPEG, PNG): each clip has one frame.
    pub images: bool,
    /// Index of the stream to read in each file, counted among all streams; `None` selects the best stream of
    /// each file.
    pub stream: Option<u32>,
    /// Clip sampler: selects the frames of each clip.
    pub sampling: ClipSamplerRef,
    /// Order of the clips. The loader fills in the number of clips and the mix once it has indexed the
    /// videos.
    pub order: BatchSamplerConfig,
    /// Datasets that are mixed by weight.
    pub mixture: Option<Mixture>,
    /// What happens to clips that cannot be made.
    pub on_error: OnError,
    /// Transforms for each frame.
    pub pipeline: TransformPipeline,
    /// Number of worker threads, each with its own decoder.
    pub threads: u32,
    /// Number of batches made ahead of the one that the consumer waits for.
    pub prefetch_batches: u32,
    /// Bytes for cached clips: clips finished before their turn, because their frames were decoded for other
    /// clips.
    pub memory_budget: u64,
    /// Number of clip requests after the open batches that are considered for the clip cache.
    pub lookahead_clips: u32,
    /// Store of video indices on disk.
    pub index: Option<Arc<IndexCache>>,
    /// Selects the work that runs on a GPU.
    pub gpu: GpuConfig,
}

/// Default of `memory_budget`: 2 GiB.
pub const MEMORY_BUDGET: u64 = 2 << 30;

/// Default of `lookahead_clips`: more clips than a usual memory budget holds.
pub const LOOK_AHEAD: u32 = 1 << 16;

impl LoaderConfig {
    /// The shape of all clips, if the sampling and the transforms give every clip the same shape.
    fn clip_shape(&self) -> Option<ClipShape> {
        let size = self.pipeline.fixed_size()?;
        Some(self.pipeline.shape(self.sampling.sequence_length()? as usize, size))
    }

    /// The pipeline that produces cached clips as 8-bit codes, and the expansion of those codes into output
    /// elements. `None` if cached clips have the output format.
    fn cached_format(&self) -> Option<(TransformPipeline, ElementLut)> {
        let plain =
            self.clip_shape().is_some() && !self.sampling.pads_with_zeros() && self.gpu.device.is_none();
        self.pipeline.as_codes().filter(|_| plain)
    }

    /// Bytes of a cached clip; of 224 x 224 RGB frames in 8 bits if the size varies.
    fn cached_clip_bytes(&self) -> u64 {
        let frames = self.sampling.sequence_length().unwrap_or(16) as usize;
        let pipeline = self.cached_format().map(|(pipeline, _)| pipeline);
        let shape = pipeline.as_ref().unwrap_or(&self.pipeline);
        let shape = shape.fixed_size().map(|size| shape.shape(frames, size));
        shape.and_then(|shape| shape.bytes()).unwrap_or(frames * 3 * 224 * 224) as u64
    }

    /// Threads per decoder: one if there are enough clips in progress to keep every worker busy, otherwise
    /// the worker threads divided among those clips.
    fn frame_threads(&self) -> u32 {
        let clips = self.max_clips_in_flight().clamp(1, u64::from(u32::MAX)) as u32;
        (self.threads / clips).max(1)
    }

    /// Maximum number of clips in the open batches at one time.
    fn max_clips_in_flight(&self) -> u64 {
        (u64::from(self.prefetch_batches) + 1) * u64::from(self.order.batch_size)
    }
}

/// Maximum of `num_threads`: more than any machine has cores.
const MAX_THREADS: u32 = 4096;

/// Maximum number of clips in the open batches. No training job needs the queues and the memory that a larger
/// number takes.
const MAX_CLIPS_IN_FLIGHT: u64 = 1 << 20;

/// Metadata of one clip.
#[derive(Clone, Debug, PartialEq)]
pub struct ClipMetadata {
    /// Number of the clip in the dataset.
    pub clip_id: u64,
    /// Number of the clip that the order requested; differs from `clip_id` if this clip replaces one that
    /// cannot be made.
    pub requested_id: u64,
    /// Number of the video in the dataset.
    pub video_id: u32,
    /// Number of the clip within its video, from 0.
    pub view_id: u64,
    /// The video's label.
    pub label: i64,
    /// Presentation index of each frame.
    pub indices: Vec<i64>,
    /// Presentation time of each frame in seconds.
    pub pts_seconds: Vec<f64>,
    /// Whether each frame is a real frame of the video, rather than padding past its end.
    pub mask: Vec<bool>,
    /// (width, height) of the video's frames as displayed, from the video's index.
    pub size: (u32, u32),
    /// Whether the clip only fills a batch or equalizes the number of clips among ranks.
    pub padding: bool,
}

/// See [`Loader::describe_clip`].
#[derive(Clone, Debug, PartialEq)]
pub struct ClipDescription {
    /// The video's name.
    pub file: String,
    /// Its number in the dataset.
    pub video_id: u32,
    /// Its label.
    pub label: i64,
    /// Presentation index of each frame.
    pub indices: Vec<u32>,
    /// The random parameters of each transform.
    pub sampled_params: Vec<SampledParams>,
}

/// Pixels of a batch.
pub enum BatchData {
    /// All clips have this shape and are stored contiguously, one after another.
    Dense(BatchBuffer, ClipShape),
    /// Clips differ in size.
    Ragged(Vec<(BatchBuffer, ClipShape)>),
}

/// One batch.
pub struct Batch {
    /// The pixels.
    pub data: BatchData,
    /// Metadata of the clips, in the order of the pixels.
    pub clips: Vec<ClipMetadata>,
}

/// Runs the scheduler and the workers, and delivers batches.
pub struct Loader {
    config: Arc<LoaderConfig>,
    order: BatchSampler,
    catalog: Arc<VideoCatalog>,
    stats: Arc<StatsCollector>,
    workers: WorkerPool,
    epoch: Option<Epoch>,
    /// Pool of batch buffers, reused from epoch to epoch.
    pool: Arc<MemoryPool>,
    iterations: u64,
    /// The number of the current pass, and the next batch that it delivers.
    progress: Arc<Mutex<(u64, u64)>>,
    owner_pid: u32,
}

/// The metadata of a clip, and its pixels if they are in a buffer of their own; or the error that prevented
/// the clip.
type ClipOutcome = Result<(ClipMetadata, Option<(BatchBuffer, ClipShape)>)>;

impl Loader {
    /// Checks the configuration and starts the workers. If the number of clips depends on the lengths of the
    /// videos, all threads first index all videos; meanwhile `interrupt` is called repeatedly, and its error
    /// stops the indexing.
    pub fn start(config: LoaderConfig, interrupt: &dyn Fn() -> Result<()>) -> Result<Self> {
        if config.samples.is_empty() {
            return Err(Error::Argument("the dataset is empty; give at least one file".into()));
        }
        if u32::try_from(config.samples.len()).is_err() {
            return Err(Error::Argument(format!(
                "{} videos; at most {} are possible",
                config.samples.len(),
                u32::MAX
            )));
        }
        if config.threads == 0 {
            return Err(Error::Argument(
                "num_threads must be at least 1, got 0; leave it out to use all cores".into(),
            ));
        }
        if config.threads > MAX_THREADS {
            return Err(Error::Argument(format!(
                "num_threads must be at most {MAX_THREADS}, got {}; more than there are cores gain nothing",
                config.threads
            )));
        }
        if config.max_clips_in_flight() > MAX_CLIPS_IN_FLIGHT {
            return Err(Error::Argument(format!(
                "prefetch_batches={} of batch_size={} are {} clips in flight, more than \
                 {MAX_CLIPS_IN_FLIGHT}; use smaller numbers",
                config.prefetch_batches,
                config.order.batch_size,
                config.max_clips_in_flight()
            )));
        }
        if let Some(frames) = config.sampling.sequence_length() {
            config.pipeline.check_frames(frames as usize)?;
        }
        let stats = Arc::new(StatsCollector::default());
        let config = Arc::new(config);
        let (samples, sampling) = (config.samples.clone(), config.sampling.clone());
        let catalog =
            VideoCatalog::new(samples, sampling, config.images, config.stream, config.index.clone());
        let catalog = Arc::new(catalog.count_clips(config.threads, config.on_error, &stats, interrupt)?);
        if catalog.num_clips() == 0 {
            return Err(Error::Argument(format!(
                "no video yields a clip: the longest has {} frames, a clip needs {}; use a shorter sequence_length or stride, or a pad mode",
                catalog.longest(),
                config.sampling.min_length_hint()
            )));
        }
        let grouped = matches!(config.order.shuffle, Shuffle::Grouped(_));
        let mut order = BatchSamplerConfig {
            num_clips: catalog.num_clips(),
            mix: config.mixture.as_ref().map(|mixture| catalog.mix(mixture)).transpose()?,
            video_clips: grouped.then(|| catalog.video_clips()),
            ..config.order.clone()
        };
        if let Shuffle::Grouped(options) = &mut order.shuffle {
            options.cached_clips = config.memory_budget / config.cached_clip_bytes().max(1);
        }
        let order = BatchSampler::new(order)?;
        let workers = WorkerPool::start(&config, catalog.clone(), stats.clone())?;
        // Blocks for the open batches, and for the one or two batches that the consumer holds.
        let output_device = workers.scheduler.backends.output_device.as_ref().map(|gpu| gpu.device().clone());
        let pool = MemoryPool::on(output_device, config.prefetch_batches.saturating_add(3) as usize);
        Ok(Self {
            config,
            order,
            catalog,
            stats,
            workers,
            epoch: None,
            pool,
            iterations: 0,
            progress: Arc::default(),
            owner_pid: std::process::id(),
        })
    }

    /// Batches per epoch.
    pub fn len_batches(&self) -> u64 {
        self.order.len_batches()
    }

    /// Clips in the whole dataset.
    pub fn num_clips(&self) -> u64 {
        self.catalog.num_clips()
    }

    /// The parameters of the grouped shuffle; `None` if the clips are not grouped.
    pub fn grouped(&self) -> Option<GroupedConfig> {
        self.order.grouped()
    }

    /// Uses these parameters for the grouped shuffle, such as those of a checkpoint. Ends the current pass.
    ///
    /// # Errors
    /// `Argument` if the loader does not group its clips, or for invalid parameters.
    pub fn set_grouped(&mut self, grouped: GroupedConfig) -> Result<()> {
        self.stop_epoch()?;
        let mut order = self.order.config().clone();
        let Shuffle::Grouped(options) = &mut order.shuffle else {
            return Err(Error::Argument(
                "the loader has no grouped shuffle; create it with shuffle=\"grouped\"".into(),
            ));
        };
        options.num_streams = Some(grouped.num_streams);
        options.block_size = Some(grouped.block_size);
        options.max_chunk = grouped.max_chunk;
        self.order = BatchSampler::new(order)?;
        Ok(())
    }

    /// Begins a pass over an epoch at the given batch and drops the batches of the previous pass. Returns the
    /// number of the pass, which [`Self::next_batch`] takes.
    pub fn start_epoch(&mut self, epoch: u64, first_batch: u64) -> Result<u64> {
        self.check_process()?;
        self.iterations += 1;
        let iteration = self.iterations;
        self.workers.scheduler.start_epoch(iteration, epoch, self.config.clip_shape().is_some());
        self.epoch = Some(Epoch::new(iteration, (epoch, first_batch), self.pool.clone()));
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = (iteration, first_batch);
        Ok(iteration)
    }

    /// Ends the current pass and all work on it.
    pub fn stop_epoch(&mut self) -> Result<()> {
        self.check_process()?;
        self.epoch = None;
        self.workers.scheduler.stop_epoch();
        Ok(())
    }

    /// Returns the next batch of a pass; `None` at the end of the pass, or if another pass has begun since.
    /// `interrupt` is called every 50 ms during the wait.
    ///
    /// If the memory for `prefetch_batches` batches is not available, fewer batches are made ahead.
    ///
    /// # Errors
    /// In place of a batch: the error of one of its clips (see [`OnError`]), or of the GPU that makes it. If
    /// there is no memory for even one batch, no batch is lost: the next call tries the same batch again.
    pub fn next_batch(
        &mut self,
        iteration: u64,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<Option<Batch>> {
        self.check_process()?;
        let Some(epoch) = self.epoch.as_mut().filter(|e| e.iteration() == iteration) else { return Ok(None) };
        let context = EpochContext {
            config: &self.config,
            order: &self.order,
            catalog: &self.catalog,
            scheduler: &self.workers.scheduler,
            stats: &self.stats,
        };
        let batch = epoch.next_batch(&context, interrupt);
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).1 = epoch.next_delivered();
        batch
    }

    /// Describes a clip without decoding it: its frames, and the random transform parameters of its frame
    /// `t`.
    pub fn describe_clip(
        &self,
        epoch: u64,
        clip: u64,
        t: u32,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<ClipDescription> {
        self.check_process()?;
        if clip >= self.num_clips() {
            return Err(Error::Argument(format!(
                "clip {clip} does not exist: the dataset has {} clips, numbered from 0",
                self.num_clips()
            )));
        }
        let (video_id, _) = self.catalog.locate(clip);
        let video = self.catalog.open(video_id, &self.stats, interrupt)?;
        let index = video.index();
        let key = RngKey { seed: self.config.order.seed, epoch, clip, occurrence: 0 };
        let sample = self.catalog.sample(index, key)?;
        if t as usize >= sample.indices.len() {
            return Err(Error::Argument(format!(
                "frame {t} does not exist: the clip has {} frames, numbered from 0",
                sample.indices.len()
            )));
        }
        let params = &index.info.params;
        let drawn =
            explain(&self.config.pipeline, (params.width, params.height), index.info.orientation, key, t)
                .map_err(|e| e.into_clip_error(&index.site))?;
        Ok(ClipDescription {
            file: index.site.file.to_string(),
            video_id,
            label: self.catalog.label(video_id),
            indices: sample.indices,
            sampled_params: drawn,
        })
    }

    /// Returns a function that reads the current statistics. It may be called from any thread, also while
    /// [`Self::next_batch`] waits.
    pub fn counter(&self) -> impl Fn() -> Stats + Send + Sync + 'static {
        let (stats, budget) = (self.stats.clone(), self.workers.scheduler.budget.clone());
        move || Stats { memory_budget: budget.bytes(), clip_cache_peak_bytes: budget.peak(), ..stats.read() }
    }

    /// Returns a function that reads the failures so far, by video. It may be called like
    /// [`Self::counter`]'s.
    pub fn failures(&self) -> impl Fn() -> Vec<Failure> + Send + Sync + 'static {
        let stats = self.stats.clone();
        move || stats.failures()
    }

    /// Returns a function that reads the number of the current pass and the next batch that it delivers. It
    /// may be called like [`Self::counter`]'s.
    pub fn progress(&self) -> impl Fn() -> (u64, u64) + Send + Sync + 'static {
        let progress = self.progress.clone();
        move || *progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an error in a forked process: threads do not survive a fork, so waiting for them would never
    /// end.
    fn check_process(&self) -> Result<()> {
        let current_pid = std::process::id();
        if current_pid != self.owner_pid {
            let what = if self.config.images { "ImageLoader" } else { "ClipLoader" };
            return Err(Error::Forked { what, owner_pid: self.owner_pid, current_pid });
        }
        Ok(())
    }
}
