//! Delivers batches of clips in a deterministic order, made by worker threads behind bounded
//! queues. The batches do not depend on which worker makes a clip. A bad file, a panic or a slow
//! worker neither changes the order nor blocks the caller forever.

mod backends;
mod budget;
mod byte_lru;
pub mod catalog;
mod collate;
mod config;
mod content_keys;
mod cost_estimate;
mod decode_task;
mod decoder_pool;
mod epoch;
mod known_clips;
mod lookahead;
mod own_batches;
mod pace;
mod scheduler;
mod shuffle_report;
#[cfg(all(test, feature = "model"))]
mod shuttle_tests;
mod single_clip;
pub mod stats;
mod stored_clips;
mod worker;

use std::sync::Arc;

use framespool_nvdec::cuda::Device;

use crate::audio::AudioWindow;
use crate::batch::{BatchBuffer, MemoryPool};
use crate::batch_sampler::GroupedConfig;
use crate::batch_sampler::grouped_shuffle::VideoClips;
use crate::batch_sampler::{BatchSampler, BatchSamplerConfig, SampledClip, Shuffle};
use crate::error::{Error, Result};
use crate::source::check_interrupt;
use crate::sync::{Mutex, PoisonError};
use crate::transforms::{ClipShape, Map, SampledParams, explain};

pub use backends::{DecoderBackend, GpuConfig};
use catalog::VideoCatalog;
use catalog::audio_windows::WindowRequest;
pub use collate::Collate;
pub use config::{
    AudioOptions, ClipView, LOOK_AHEAD, LoaderConfig, LoaderOptions, MEMORY_BUDGET, Mixture,
    OnError,
};
pub use cost_estimate::DiskCacheCost;
use epoch::{Epoch, EpochContext};
use known_clips::KnownClips;
pub use shuffle_report::{CostEstimate, LargeCachedClips, ShuffleMixing};
use stats::{Failure, Stats, StatsCollector, UnloggedFailures};
use stored_clips::StoredClips;
use worker::WorkerPool;

/// Maximum of `num_threads`: more than any machine has cores.
const MAX_THREADS: u32 = 4096;

/// Maximum number of clips in the open batches. No training job needs the queues and the memory
/// that a larger number takes.
const MAX_CLIPS_IN_FLIGHT: u64 = 1 << 20;

/// Metadata of one clip.
#[derive(Clone, Debug, PartialEq)]
pub struct ClipMetadata {
    /// Number of the clip in the dataset.
    pub clip_id: u64,
    /// Number of the clip that the order requested; differs from `clip_id` if this clip replaces
    /// one that cannot be made.
    pub requested_id: u64,
    /// Which of the deliveries of the clip in this epoch it is, for random numbers: see
    /// [`RngKey::occurrence`](crate::rng::RngKey::occurrence).
    pub occurrence: u64,
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
    /// Index of the first frame of the sample within its video: 0, unless the sample is a segment.
    pub first_frame: u32,
    /// Number of frames of the sample.
    pub num_frames: u32,
    /// Frames per second of the video, on average.
    pub average_fps: f64,
    /// Duration of the sample in seconds.
    pub duration_seconds: f64,
    /// For each view, the affine map from the displayed frame to the first frame of the result; see
    /// [`maps_to_output`](crate::transforms::maps_to_output).
    pub geometry: Vec<Map>,
    /// Whether the clip only fills a batch or equalizes the number of clips among ranks.
    pub padding: bool,
    /// Digest of everything that determines the frames of the clip; `None` for a file whose content
    /// could change without a sign of it.
    pub content_key: Option<u128>,
    /// Whether the batch has its frames: see [`Loader::set_known_clips`].
    pub has_frames: bool,
    /// Its audio, if the loader delivers audio.
    pub audio: Option<Arc<AudioWindow>>,
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
    /// See [`ClipMetadata::content_key`].
    pub content_key: Option<u128>,
    /// Time of the first sample of a window of audio.
    pub begin_seconds: Option<f64>,
}

/// Pixels of a batch.
pub enum BatchData {
    /// All clips have this shape and are stored contiguously, one after another.
    Dense(BatchBuffer, ClipShape),
    /// As `Dense`, with clips that are padded to this shape; their own shapes.
    Padded(BatchBuffer, ClipShape, Vec<ClipShape>),
    /// Clips differ in size.
    Ragged(Vec<(BatchBuffer, ClipShape)>),
}

/// A grouped shuffle leaves a fifth of the clip cache free: idle workers make the clips that are
/// due next.
const WORK_AHEAD_SHARE: u64 = 5;

/// In dataset order the clip cache has no other use: idle workers make clips ahead in half of it.
const WORK_AHEAD_SHARE_IN_ORDER: u64 = 2;

/// Up to this number of workers, the open batches have enough work for all of them.
const MAX_WORKERS_WITHOUT_WORK_AHEAD: u32 = 2;

/// One batch.
pub struct Batch {
    /// The pixels of the clips of each view.
    pub data: Vec<BatchData>,
    /// Metadata of the clips of all views, in the order of the batch sampler. Those of one view that
    /// have frames are in the order of its pixels; see [`Loader::clips_of_views`].
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
    /// Whether [`Self::take_large_cached_clips`] has reported them.
    large_clips_reported: bool,
    /// Pool of batch buffers, reused from epoch to epoch.
    pool: Arc<MemoryPool>,
    passes: u64,
    /// The number of the current pass, and the next batch that it delivers.
    progress: Arc<Mutex<(u64, u64)>>,
    owner_pid: u32,
}

/// The metadata of a clip, and its pixels if they are in a buffer of their own; or the error that
/// prevented the clip.
type ClipOutcome = Result<(ClipMetadata, Option<(BatchBuffer, ClipShape)>)>;

impl Loader {
    /// Checks the configuration and starts the workers. If the number of clips depends on the
    /// lengths of the videos, all threads first index all videos, until the caller of this thread
    /// interrupts it.
    pub fn start(config: LoaderConfig) -> Result<Self> {
        Self::start_with_progress(config, &|_, _| check_interrupt())
    }

    /// As [`Self::start`], but `progress` stops the indexing with its error. It is given the number
    /// of samples whose video is indexed and the number of all samples. The last call, if any, has
    /// two equal numbers.
    pub fn start_with_progress(
        config: LoaderConfig,
        progress: &dyn Fn(usize, usize) -> Result<()>,
    ) -> Result<Self> {
        if config.samples.is_empty() {
            return Err(Error::Argument(
                "the dataset is empty; give at least one file".into(),
            ));
        }
        if u32::try_from(config.samples.len()).is_err() {
            return Err(Error::Argument(format!(
                "{} videos; at most {} are possible",
                config.samples.len(),
                u32::MAX
            )));
        }
        if config.options.num_threads == 0 {
            return Err(Error::Argument(
                "num_threads must be at least 1, got 0; omit it to use all cores".into(),
            ));
        }
        if config.options.num_threads > MAX_THREADS {
            return Err(Error::Argument(format!(
                "num_threads must be at most {MAX_THREADS}, got {}; more than there are cores gain nothing",
                config.options.num_threads
            )));
        }
        if config.max_clips_in_flight() > MAX_CLIPS_IN_FLIGHT {
            return Err(Error::Argument(format!(
                "prefetch_batches={} of batch_size={} are {} clips in flight, more than \
                 {MAX_CLIPS_IN_FLIGHT}; use smaller numbers",
                config.options.prefetch_batches,
                config.order.batch_size,
                config.max_clips_in_flight()
            )));
        }
        for view in &config.views {
            if let Some(frames) = view.clip_sampler.sequence_length() {
                view.pipeline.check_frames(frames as usize)?;
            }
        }
        let stats = Arc::new(StatsCollector::default());
        let config = Arc::new(config);
        let catalog = VideoCatalog::new(&config)?;
        let catalog = Arc::new(catalog.count_clips(
            config.options.num_threads,
            config.options.on_error,
            &stats,
            progress,
        )?);
        if catalog.clips.num_clips() == 0 {
            return Err(catalog.no_clips_error());
        }
        let grouped = matches!(config.order.shuffle, Shuffle::Grouped(_));
        let needs_videos = grouped || config.order.num_nodes > 1;
        let clips_per_group = config.clips_per_group()?;
        let mut order = BatchSamplerConfig {
            num_clips: catalog.clips.num_clips() / u64::from(clips_per_group),
            clips_per_group,
            mix: config
                .mixture
                .as_ref()
                .map(|mixture| catalog.clips.mix(mixture))
                .transpose()?,
            video_clips: match &config.order.weights {
                // Each sample has a weight of its own, even if it is a part of a file.
                Some(_) => Some(catalog.clips.sample_clips()),
                // A group is never divided, so each video is one unit.
                None if config.options.group_clips => needs_videos.then(|| VideoClips::Equal {
                    videos: config.samples.len() as u64,
                    clips: 1,
                }),
                None => needs_videos.then(|| catalog.clips.video_clips(config.mixture.as_ref())),
            },
            ..config.order.clone()
        };
        if let Shuffle::Grouped(options) = &mut order.shuffle {
            options.cached_clips = config.cached_clips();
        }
        let order = BatchSampler::new(order)?;
        let stored = StoredClips::open(&config, &catalog.content_keys)?;
        let workers = WorkerPool::start(&config, catalog.clone(), stored, stats.clone())?;
        // Blocks for the open batches, and for the one or two batches that the consumer holds.
        let output_device = workers
            .scheduler
            .decoders
            .backends()
            .output_device
            .as_ref()
            .map(|gpu| gpu.device().clone());
        let pool = MemoryPool::on(
            output_device,
            config.options.prefetch_batches.saturating_add(3) as usize,
        );
        Ok(Self {
            config,
            order,
            catalog,
            stats,
            workers,
            epoch: None,
            large_clips_reported: false,
            pool,
            passes: 0,
            progress: Arc::default(),
            owner_pid: std::process::id(),
        })
    }

    /// Batches per epoch.
    pub fn len_batches(&self) -> u64 {
        self.order.len_batches()
    }

    /// Clips of each group; `None` if clips are not grouped by video.
    pub fn clips_per_group(&self) -> Option<u32> {
        self.config
            .options
            .group_clips
            .then(|| self.order.config().clips_per_group)
    }

    /// The number of clips of a video in each view; `None` if there is one view.
    pub fn clips_of_views(&self) -> Option<Vec<u64>> {
        let views = &self.config.views;
        (views.len() > 1).then(|| views.iter().map(ClipView::num_clips).collect())
    }

    /// Clips in the whole dataset.
    pub fn num_clips(&self) -> u64 {
        self.catalog.clips.num_clips()
    }

    /// The parameters of the grouped shuffle; `None` if the clips are not grouped.
    pub fn grouped(&self) -> Option<GroupedConfig> {
        self.order.grouped()
    }

    /// Uses these parameters for the grouped shuffle, such as those of a checkpoint. Ends the
    /// current pass.
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
        options.fix(grouped);
        self.order = BatchSampler::new(order)?;
        Ok(())
    }

    /// Delivers these clips without frames from now on, and decodes nothing for them. `halves`: the
    /// first 8 bytes of their content keys, as little-endian numbers. Ends the current pass. Has no
    /// effect on loaders with `group_clips`.
    pub fn set_known_clips(&mut self, halves: Vec<i64>) -> Result<()> {
        self.stop_epoch()?;
        *self
            .workers
            .scheduler
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = KnownClips::new(halves);
        Ok(())
    }

    /// Begins a pass over an epoch at the given batch and drops the batches of the previous pass.
    /// Returns the number of the pass, which [`Self::next_batch`] takes.
    pub fn start_epoch(&mut self, epoch: u64, first_batch: u64) -> Result<u64> {
        self.start_pass(epoch, first_batch, None)
    }

    fn start_pass(
        &mut self,
        epoch: u64,
        first_batch: u64,
        batches: Option<Arc<[Vec<SampledClip>]>>,
    ) -> Result<u64> {
        self.check_process()?;
        self.passes += 1;
        let pass = self.passes;
        let requests = self.config.cache_budget() / self.config.cached_clip_bytes().max(1);
        let workers = self
            .config
            .num_workers(self.workers.scheduler.decoders.backends());
        // The clips of open batches are often of one or two videos, which keep only as many workers
        // busy. Each image is a file of its own. A consumer that wants nothing made ahead sets
        // `prefetch_batches` to 0.
        let ahead_in_order = workers > MAX_WORKERS_WITHOUT_WORK_AHEAD
            && !self.config.options.images
            && self.config.options.prefetch_batches > 0;
        let work_ahead = match self.config.order.shuffle {
            Shuffle::Grouped(_) => requests / WORK_AHEAD_SHARE,
            Shuffle::Off if ahead_in_order => requests / WORK_AHEAD_SHARE_IN_ORDER,
            _ => 0,
        };
        if let Some(stored) = &self.workers.scheduler.stored {
            stored.store.begin_epoch(epoch);
        }
        let max_work_ahead = requests / WORK_AHEAD_SHARE_IN_ORDER;
        let same_shape = self.config.clip_shapes().is_some();
        let siblings = self.order.lookahead_clips();
        self.workers.scheduler.start_epoch(
            (pass, epoch),
            same_shape,
            (work_ahead, max_work_ahead),
            siblings,
        );
        self.epoch = Some(Epoch::new(
            pass,
            (epoch, first_batch),
            self.pool.clone(),
            batches,
        ));
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = (pass, first_batch);
        Ok(pass)
    }

    /// Page-locks batches that are allocated from now on, with the driver of this GPU, so that
    /// copies of them to a GPU are asynchronous. Unless `required`, a failure only counts in the
    /// statistics. Batches whose clips differ in shape are not page-locked.
    ///
    /// # Errors
    /// `Gpu` if page-locking is required and there is no such GPU.
    pub fn page_lock(&self, ordinal: u32, required: bool) -> Result<()> {
        self.check_process()?;
        if self.config.options.gpu.device.is_some() {
            return Ok(());
        }
        match Device::open(ordinal) {
            Ok(device) => self.pool.page_lock(device, required),
            Err(error) if required => return Err(error.into()),
            Err(error) => self
                .stats
                .record_upload_fallback(&format!("batches are not page-locked: {error}")),
        }
        Ok(())
    }

    /// Ends the current pass and all work on it.
    pub fn stop_epoch(&mut self) -> Result<()> {
        self.check_process()?;
        self.epoch = None;
        self.workers.scheduler.stop_epoch();
        Ok(())
    }

    /// Returns the next batch of a pass; `None` at the end of the pass, or if another pass has
    /// begun since. The caller can interrupt the wait every 50 ms.
    ///
    /// If the memory for `prefetch_batches` batches is not available, fewer batches are made ahead.
    ///
    /// # Errors
    /// In place of a batch: the error of one of its clips (see [`OnError`]), or of the GPU that
    /// makes it. If there is no memory for even one batch, no batch is lost: the next call tries
    /// the same batch again.
    pub fn next_batch(&mut self, pass: u64) -> Result<Option<Batch>> {
        self.check_process()?;
        let Some(epoch) = self.epoch.as_mut().filter(|e| e.pass() == pass) else {
            return Ok(None);
        };
        let context = EpochContext {
            config: &self.config,
            order: &self.order,
            catalog: &self.catalog,
            scheduler: &self.workers.scheduler,
            stats: &self.stats,
        };
        let batch = epoch.next_batch(&context);
        if let Some(reason) = self.pool.take_page_lock_failure() {
            self.stats.record_upload_fallback(&reason);
        }
        self.progress
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .1 = epoch.next_delivered();
        batch
    }

    /// Describes a delivery of a clip without decoding it: its frames, and the random transform
    /// parameters of its frame `t`. Of `slot`, the clip and which of its deliveries in the epoch it
    /// is matter.
    pub fn describe_clip(
        &self,
        epoch: u64,
        sampled: SampledClip,
        t: u32,
    ) -> Result<ClipDescription> {
        self.check_process()?;
        let clip = sampled.clip;
        self.check_clip(clip)?;
        if self.config.options.windows().is_some() {
            return self.describe_window(epoch, sampled);
        }
        let (video_id, number) = self.catalog.clips.locate(clip);
        let view = self.config.view_of(number);
        let video = self.catalog.open(video_id, &self.stats)?;
        let index = video.index();
        let seed = self.config.order.seed;
        let key = sampled.transform_key(seed, epoch, clip);
        let sample = self
            .catalog
            .sample(index, sampled.sampling_key(seed, epoch, clip))?;
        if t as usize >= sample.indices.len() {
            return Err(Error::Argument(format!(
                "frame {t} does not exist: the clip has {} frames, numbered from 0",
                sample.indices.len()
            )));
        }
        let params = &index.info.params;
        let drawn = explain(
            &self.config.views[view].pipeline,
            (params.width, params.height),
            index.info.display(),
            key,
            (t, sample.indices.len()),
        )
        .map_err(|e| e.into_clip_error(&index.site))?;
        Ok(ClipDescription {
            file: index.site.file.to_string(),
            video_id,
            label: self.catalog.label(video_id),
            content_key: self
                .catalog
                .content_keys
                .key(view, &video.identity(), &sample, key),
            indices: sample.indices,
            sampled_params: drawn,
            begin_seconds: None,
        })
    }

    fn describe_window(&self, epoch: u64, sampled: SampledClip) -> Result<ClipDescription> {
        let (file, _) = self.catalog.clips.locate(sampled.clip);
        let request = WindowRequest {
            sampled,
            clip: sampled.clip,
            seed: self.config.order.seed,
            epoch,
        };
        Ok(ClipDescription {
            file: self.catalog.site(file).file.to_string(),
            video_id: file,
            label: self.catalog.label(file),
            indices: Vec::new(),
            sampled_params: Vec::new(),
            content_key: None,
            begin_seconds: Some(self.catalog.window_begin(request, &self.stats)?),
        })
    }

    fn check_clip(&self, clip: u64) -> Result<()> {
        if clip >= self.num_clips() {
            return Err(Error::Argument(format!(
                "clip {clip} does not exist: the dataset has {} clips, numbered from 0",
                self.num_clips()
            )));
        }
        Ok(())
    }

    /// Returns a function that reads the current statistics. It may be called from any thread, also
    /// while [`Self::next_batch`] waits.
    pub fn counter(&self) -> impl Fn() -> Stats + Send + Sync + 'static {
        let scheduler = &self.workers.scheduler;
        let (stats, budget, stored) = (
            self.stats.clone(),
            scheduler.budget.clone(),
            scheduler.stored.clone(),
        );
        move || {
            let disk = stored
                .as_ref()
                .map(|stored| stored.counts())
                .unwrap_or_default();
            Stats {
                memory_budget: budget.bytes(),
                clip_cache_peak_bytes: budget.peak(),
                disk_clips_stored: disk.stored,
                disk_clips_read: disk.read,
                disk_clips_damaged: disk.damaged,
                disk_clips_not_stored: disk.not_stored,
                disk_clips_evicted: disk.evicted,
                disk_bytes_written: disk.bytes_written,
                disk_bytes_read: disk.bytes_read,
                ..stats.read()
            }
        }
    }

    /// Returns a function that reads the failures so far, by video. It may be called like
    /// [`Self::counter`]'s.
    pub fn failures(&self) -> impl Fn() -> Vec<Failure> + Send + Sync + 'static {
        let stats = self.stats.clone();
        move || stats.failures()
    }

    /// Returns a function that takes the failures since its last call, for a log. It may be called
    /// like [`Self::counter`]'s.
    pub fn unlogged_failures(&self) -> impl Fn() -> UnloggedFailures + Send + Sync + 'static {
        let stats = self.stats.clone();
        move || stats.take_unlogged()
    }

    /// Returns a function that reads the number of the current pass and the next batch that it
    /// delivers. It may be called like [`Self::counter`]'s.
    pub fn progress(&self) -> impl Fn() -> (u64, u64) + Send + Sync + 'static {
        let progress = self.progress.clone();
        move || *progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an error in a forked process: threads do not survive a fork, so waiting for them
    /// would never end.
    fn check_process(&self) -> Result<()> {
        let current_pid = std::process::id();
        if current_pid != self.owner_pid {
            return Err(Error::Forked {
                what: self.config.options.class_name(),
                owner_pid: self.owner_pid,
                current_pid,
            });
        }
        Ok(())
    }
}
