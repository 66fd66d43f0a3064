//! In: a dataset, a sampling rule, an order and a recipe. Out: whole batches of clips, in order.
//! The running machine: order → tickets → lanes → batches. Lanes are named threads behind bounded queues; which lane
//! makes a clip decides nothing about the result.
//! Never: lets a bad file, a panic or a slow lane change the order, or hang the caller.

mod alone;
mod budget;
mod desk;
pub mod entries;
mod epoch;
mod errand;
mod lane;
pub mod library;
#[cfg(all(test, feature = "model"))]
mod model;
mod road;
pub mod stats;
mod window;

use std::sync::Arc;

use crate::batch::{Pool, Slab};
use crate::error::{Error, Result};
use crate::index::store::Store;
use crate::order::rng::Key;
use crate::order::{Order, OrderConfig};
use crate::pixels::{explain, ClipShape, Drawn, Expand, Recipe};
use crate::sampling::Sampling;
use crate::sync::{Mutex, PoisonError};

use entries::Entries;
use epoch::{Epoch, Tools};
use lane::Lanes;
use library::Library;
pub use road::DecoderChoice;
use stats::{Failure, Meter, Stats};

/// What happens when a clip cannot be made because of its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The error is raised in place of the batch that the clip belongs to; the batches after it still come. Not so where there
    /// is no memory for a batch, which is no file's fault: see [`Spool::next_batch`].
    #[default]
    Raise,
    /// The clip is left out: its batch is shorter.
    Skip,
    /// Another clip takes its place, chosen by (seed, epoch, clip, attempt).
    Replace,
}

/// Datasets that lie one after another among the items, and are mixed by weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixture {
    /// Number of items of each.
    pub items: Vec<u32>,
    /// Share of each in the epoch, in any unit.
    pub weights: Vec<f64>,
    /// Whether a clip may come again before all others of its dataset have come.
    pub replacement: bool,
    /// Clips of one epoch; as many as there are in all if not given.
    pub epoch_clips: Option<u64>,
}

/// Which part of the work is a GPU's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuConfig {
    /// The GPU in whose memory batches land; host memory if not given.
    pub device: Option<u32>,
    /// Who decodes.
    pub decoder: DecoderChoice,
    /// Threads that decode by the GPU; three for each of its engines if not given, fewer where memory is short.
    pub lanes: Option<u32>,
}

/// What a spool is made of.
#[derive(Clone)]
pub struct SpoolConfig {
    /// Videos with their labels, or pictures.
    pub entries: Arc<Entries>,
    /// Whether files are pictures (JPEG, PNG): clips of one frame.
    pub of_pictures: bool,
    /// Index of the stream that is read of every file, among all its streams; `None` for the best one of each.
    pub stream: Option<u32>,
    /// Rule that makes clips out of videos.
    pub sampling: Sampling,
    /// Order of clips. How many there are, and the mix, are filled in once the videos are known.
    pub order: OrderConfig,
    /// Datasets that are mixed by weight.
    pub mixture: Option<Mixture>,
    /// What becomes of clips that cannot be made.
    pub on_error: OnError,
    /// What to make of each frame.
    pub recipe: Recipe,
    /// Worker threads, each with a single-threaded decoder.
    pub threads: u32,
    /// Batches that are made ahead of the one being waited for.
    pub prefetch: u32,
    /// Bytes for clips that are made before their turn, because their pictures came by.
    pub memory_budget: u64,
    /// Tickets beyond the batches that are being filled that are looked at for such clips.
    pub look_ahead: u32,
    /// Where indices are kept on disk.
    pub index: Option<Arc<Store>>,
    /// Which part of the work is a GPU's.
    pub gpu: GpuConfig,
}

/// What `memory_budget` is unless the user says otherwise: 2 GiB.
pub const MEMORY_BUDGET: u64 = 2 << 30;

/// What `look_ahead` is unless the user says otherwise: more clips than a usual budget keeps.
pub const LOOK_AHEAD: u32 = 1 << 16;

impl SpoolConfig {
    /// The shape of all clips, if sampling and transforms make them alike.
    fn clip_shape(&self) -> Option<ClipShape> {
        let size = self.recipe.fixed_size()?;
        Some(self.recipe.shape(self.sampling.sequence_length()? as usize, size))
    }

    /// How clips wait that are made before their turn, if not as they are delivered: as codes.
    fn kept_as(&self) -> Option<(Recipe, Expand)> {
        let plain = self.clip_shape().is_some() && !self.sampling.leaves_blank() && self.gpu.device.is_none();
        self.recipe.as_codes().filter(|_| plain)
    }

    /// Threads of one decoder: one where there are clips enough to keep every lane busy, else the lanes' threads between
    /// them.
    fn frame_threads(&self) -> u32 {
        let clips = self.clips_under_way().clamp(1, u64::from(u32::MAX)) as u32;
        (self.threads / clips).max(1)
    }

    /// Clips that may be made or waiting at one time.
    fn clips_under_way(&self) -> u64 {
        (u64::from(self.prefetch) + 1) * u64::from(self.order.batch_size)
    }
}

/// More than any machine has cores.
const MOST_THREADS: u32 = 4096;

/// Most clips that may be under way: beyond this, queues and memory are asked for that no training job means.
const MOST_UNDER_WAY: u64 = 1 << 20;

/// One clip's facts.
#[derive(Clone, Debug, PartialEq)]
pub struct ClipFacts {
    /// Number of the clip in the dataset.
    pub clip_id: u64,
    /// Number of the clip that the order asked for: another one where this stands in for a clip that cannot be made.
    pub requested_id: u64,
    /// Number of the video in the dataset.
    pub video_id: u32,
    /// Which clip of its video it is, from 0.
    pub view_id: u64,
    /// The video's label.
    pub label: i64,
    /// Display index of each frame.
    pub indices: Vec<i64>,
    /// Presentation time of each frame in seconds.
    pub pts_seconds: Vec<f64>,
    /// Whether each frame is real (not standing in for one past the end).
    pub mask: Vec<bool>,
    /// (width, height) of the video's pictures as shown, by its index.
    pub size: (u32, u32),
    /// The clip only fills a batch or makes ranks equal.
    pub padding: bool,
}

/// See [`Spool::explain`].
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// The video's name.
    pub file: String,
    /// Its number in the dataset.
    pub video_id: u32,
    /// Its label.
    pub label: i64,
    /// Display index of each frame.
    pub indices: Vec<u32>,
    /// What each transform drew.
    pub drawn: Vec<Drawn>,
}

/// Pixels of a batch.
pub enum Pixels {
    /// All clips have this shape and lie one after another.
    Even(Slab, ClipShape),
    /// Clips differ in size.
    Ragged(Vec<(Slab, ClipShape)>),
}

/// One batch.
pub struct Batch {
    /// The pixels.
    pub pixels: Pixels,
    /// The clips' facts, in the order of the pixels.
    pub clips: Vec<ClipFacts>,
}

/// The running machine.
pub struct Spool {
    config: Arc<SpoolConfig>,
    order: Order,
    library: Arc<Library>,
    meter: Arc<Meter>,
    lanes: Lanes,
    epoch: Option<Epoch>,
    /// Memory of batches, reused from epoch to epoch.
    pool: Arc<Pool>,
    generations: u64,
    /// The pass under way, and the batch that it delivers next.
    progress: Arc<Mutex<(u64, u64)>>,
    made_in: u32,
}

/// A clip's facts, and its pixels where they have memory of their own; or the reason why there is no clip.
type Outcome = Result<(ClipFacts, Option<(Slab, ClipShape)>)>;

impl Spool {
    /// Checks everything and starts the lanes. Where the number of clips depends on the videos' lengths, all videos
    /// are indexed first, by all threads; `watch` is called meanwhile and stops it by an error.
    pub fn start(config: SpoolConfig, watch: &dyn Fn() -> Result<()>) -> Result<Self> {
        if config.entries.is_empty() {
            return Err(Error::Argument("the dataset is empty; give at least one file".into()));
        }
        if u32::try_from(config.entries.len()).is_err() {
            return Err(Error::Argument(format!(
                "{} videos; at most {} are possible",
                config.entries.len(),
                u32::MAX
            )));
        }
        if config.threads == 0 {
            return Err(Error::Argument(
                "num_threads must be at least 1, got 0; leave it out to use all cores".into(),
            ));
        }
        if config.threads > MOST_THREADS {
            return Err(Error::Argument(format!(
                "num_threads must be at most {MOST_THREADS}, got {}; more than there are cores gain nothing",
                config.threads
            )));
        }
        if config.clips_under_way() > MOST_UNDER_WAY {
            return Err(Error::Argument(format!(
                "prefetch={} batches of batch_size={} are {} clips under way, more than {MOST_UNDER_WAY}; use smaller numbers",
                config.prefetch, config.order.batch_size, config.clips_under_way()
            )));
        }
        if let Some(frames) = config.sampling.sequence_length() {
            config.recipe.check_frames(frames as usize)?;
        }
        let meter = Arc::new(Meter::default());
        let config = Arc::new(config);
        let (entries, sampling) = (config.entries.clone(), config.sampling.clone());
        let library =
            Library::new(entries, sampling, config.of_pictures, config.stream, config.index.clone());
        let library = Arc::new(library.survey(config.threads, config.on_error, &meter, watch)?);
        if library.num_clips() == 0 {
            return Err(Error::Argument(format!(
                "no video yields a clip: the longest has {} frames, a clip needs {}; use a shorter sequence_length or stride, or a pad mode",
                library.longest(),
                config.sampling.needs()
            )));
        }
        let order = Order::new(OrderConfig {
            num_clips: library.num_clips(),
            mix: config.mixture.as_ref().map(|mixture| library.mix(mixture)).transpose()?,
            ..config.order.clone()
        })?;
        let lanes = Lanes::start(&config, library.clone(), meter.clone())?;
        // What is under way, and the batch or two that the consumer holds.
        let home = lanes.desk.road.home.as_ref().map(|gpu| gpu.device().clone());
        let pool = Pool::on(home, config.prefetch.saturating_add(3) as usize);
        Ok(Self {
            config,
            order,
            library,
            meter,
            lanes,
            epoch: None,
            pool,
            generations: 0,
            progress: Arc::default(),
            made_in: std::process::id(),
        })
    }

    /// Batches per epoch.
    pub fn len_batches(&self) -> u64 {
        self.order.len_batches()
    }

    /// Clips in the whole dataset.
    pub fn num_clips(&self) -> u64 {
        self.library.num_clips()
    }

    /// Begins an epoch at one of its batches; batches of an epoch that is under way are forgotten. Returns the pass's
    /// number, by which its batches are asked for.
    pub fn begin(&mut self, epoch: u64, first_batch: u64) -> Result<u64> {
        self.check_process()?;
        self.generations += 1;
        let generation = self.generations;
        self.lanes.desk.begin(generation, epoch, self.config.clip_shape().is_some());
        self.epoch = Some(Epoch::new(generation, (epoch, first_batch), self.pool.clone()));
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = (generation, first_batch);
        Ok(generation)
    }

    /// Ends the pass under way, and all work on it.
    pub fn rest(&mut self) -> Result<()> {
        self.check_process()?;
        self.epoch = None;
        self.lanes.desk.end();
        Ok(())
    }

    /// The next batch of a pass; `None` at its end, and when another pass has begun since. `watch` is called every
    /// 50 ms while waiting.
    ///
    /// Where memory for fewer batches than `prefetch` asks for can be had, fewer are made ahead.
    ///
    /// # Errors
    /// In place of a batch, what is wrong with one of its clips (see [`OnError`]), or with the GPU that makes it. Where there is no memory
    /// for even one batch, no batch is lost: the next call asks for the same one again.
    pub fn next_batch(&mut self, pass: u64, watch: &dyn Fn() -> Result<()>) -> Result<Option<Batch>> {
        self.check_process()?;
        let Some(epoch) = self.epoch.as_mut().filter(|e| e.generation() == pass) else { return Ok(None) };
        let tools = Tools {
            config: &self.config,
            order: &self.order,
            library: &self.library,
            desk: &self.lanes.desk,
            meter: &self.meter,
        };
        let batch = epoch.next_batch(&tools, watch);
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).1 = epoch.next_delivered();
        batch
    }

    /// What is decided about a clip before anything is decoded: its frames, and what the transforms draw for its frame `t`.
    pub fn explain(
        &self,
        epoch: u64,
        clip: u64,
        t: u32,
        watch: &dyn Fn() -> Result<()>,
    ) -> Result<Explained> {
        self.check_process()?;
        if clip >= self.num_clips() {
            return Err(Error::Argument(format!(
                "clip {clip} does not exist: the dataset has {} clips, numbered from 0",
                self.num_clips()
            )));
        }
        let (video_id, _) = self.library.locate(clip);
        let video = self.library.open(video_id, &self.meter, watch)?;
        let index = video.index();
        let key = Key { seed: self.config.order.seed, epoch, clip, visit: 0 };
        let sample = self.library.sample(index, key)?;
        if t as usize >= sample.indices.len() {
            return Err(Error::Argument(format!(
                "frame {t} does not exist: the clip has {} frames, numbered from 0",
                sample.indices.len()
            )));
        }
        let params = &index.info.params;
        let drawn = explain(&self.config.recipe, (params.width, params.height), index.info.turn, key, t)
            .map_err(|e| e.of_video(&index.site))?;
        Ok(Explained {
            file: index.site.file.to_string(),
            video_id,
            label: self.library.label(video_id),
            indices: sample.indices,
            drawn,
        })
    }

    /// The counts now, from any thread, also while a batch is waited for.
    pub fn counter(&self) -> impl Fn() -> Stats + Send + Sync + 'static {
        let (meter, budget) = (self.meter.clone(), self.lanes.desk.budget.clone());
        move || Stats { memory_budget: budget.bytes(), clip_store_peak_bytes: budget.peak(), ..meter.read() }
    }

    /// What failed so far, by video; asked like the counts.
    pub fn failures(&self) -> impl Fn() -> Vec<Failure> + Send + Sync + 'static {
        let meter = self.meter.clone();
        move || meter.failures()
    }

    /// Where a pass is: its number, and the batch that it delivers next; asked like the counts.
    pub fn progress(&self) -> impl Fn() -> (u64, u64) + Send + Sync + 'static {
        let progress = self.progress.clone();
        move || *progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Threads do not survive a fork; say so instead of waiting for them for ever.
    fn check_process(&self) -> Result<()> {
        let used_in = std::process::id();
        if used_in != self.made_in {
            let what = if self.config.of_pictures { "ImageLoader" } else { "ClipLoader" };
            return Err(Error::Forked { what, made_in: self.made_in, used_in });
        }
        Ok(())
    }
}
