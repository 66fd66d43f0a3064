//! Runs the worker threads, which take work from the scheduler and make clips.
//! A panic in a worker becomes an error of the affected clips.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use super::backends::{DecoderBackend, DecoderBackends};
use super::catalog::VideoCatalog;
use super::decode_task::{
    self, DecodeTask, MAX_PACKETS_PER_TASK, MAX_PACKETS_PER_TASK_IN_ORDER, Progress, TaskContext,
    TaskParams, TaskPlan, ViewTransforms,
};
use super::lookahead::CachedClip;
use super::pace::WorkerKind;
use super::scheduler::{
    ClipData, ClipRequest, RequestId, Scheduler, SuspendedTask, VideoRequests, Work,
};
use super::single_clip::SingleClipDecoder;
use super::stats::StatsCollector;
use super::stored_clips::StoredClips;
use super::{ClipMetadata, ClipView, LoaderConfig, MAX_WORKERS_WITHOUT_WORK_AHEAD};
use crate::batch::{ClipSlot, MemoryPool, OutputMut};
use crate::batch_sampler::{SampledClip, Shuffle};
use crate::clip_sampler::ClipIndices;
use crate::error::{Error, Result};
use crate::rng::RngKey;
use crate::source::{InterruptScope, interrupt_scope};
use crate::sync::PoisonError;
use crate::sync::thread::{self, Builder, JoinHandle};
use crate::transforms::{ClipShape, ElementLut, TransformExecutor};
use crate::video::{ClipOutput, LazyClipOutput, Video};

/// All workers.
pub(super) struct WorkerPool {
    pub scheduler: Arc<Scheduler<DecodeTask>>,
    threads: Vec<JoinHandle<()>>,
    owner_pid: u32,
}

impl WorkerPool {
    pub(super) fn start(
        config: &Arc<LoaderConfig>,
        catalog: Arc<VideoCatalog>,
        stored: Option<Arc<StoredClips>>,
        stats: Arc<StatsCollector>,
    ) -> Result<Self> {
        let gpu = config.options.gpu;
        let backends = Arc::new(DecoderBackends::open(gpu, &stats)?);
        stats.add(|s| s.nvdec_threads = backends.workers().into());
        let scheduler = Arc::new(Scheduler::new(
            config,
            backends.clone(),
            stored,
            stats.clone(),
        ));
        let mut workers = Self {
            scheduler: scheduler.clone(),
            threads: Vec::new(),
            owner_pid: std::process::id(),
        };
        // CPU workers run in addition to GPU workers unless the configuration excludes them.
        let by_cpu = config.num_workers(&backends) - backends.workers();
        for n in 0..by_cpu + backends.workers() {
            let kind = match n < backends.workers() {
                true => WorkerKind::Nvdec,
                false => WorkerKind::Cpu,
            };
            let worker = Worker {
                // Separate from the executor of `single_clip`, so that a clip made alone does not
                // replace the transforms compiled for a task.
                views: view_transforms(config, &backends),
                kind,
                backends: backends.clone(),
                codes: Vec::new(),
                single_clip: SingleClipDecoder::new(
                    config,
                    &catalog,
                    &stats,
                    &backends,
                    kind == WorkerKind::Nvdec,
                ),
                config: config.clone(),
                catalog: catalog.clone(),
                stats: stats.clone(),
                scheduler: scheduler.clone(),
            };
            let thread = Builder::new()
                .name(format!(
                    "fsp-{}-{n}",
                    match kind {
                        WorkerKind::Nvdec => "nvdec",
                        WorkerKind::Cpu => "worker",
                    }
                ))
                .spawn(move || worker.work());
            workers.threads.push(thread.map_err(|e| {
                let threads = by_cpu + backends.workers();
                Error::Argument(format!(
                    "thread {n} of {threads} cannot be started: {e}; use fewer"
                ))
            })?);
        }
        Ok(workers)
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        if std::process::id() != self.owner_pid {
            // A forked child process has the handles but not the threads: joining them would never
            // return.
            std::mem::forget(std::mem::take(&mut self.threads));
            return;
        }
        self.scheduler.close();
        let own = thread::current().id();
        for thread in self.threads.drain(..) {
            // If a worker's own work drops the loader, that worker is not joined; it exits when
            // this work is done.
            if thread.thread().id() != own {
                let _ = thread.join();
            }
        }
        // Perhaps the last use of this library in the process: nothing would return the memory
        // later.
        MemoryPool::trim_host_memory();
    }
}

/// The nice value of CPU workers next to NVDEC.
const NICE_NEXT_TO_NVDEC: i32 = 5;

struct Worker {
    views: Vec<ViewTransforms>,
    kind: WorkerKind,
    backends: Arc<DecoderBackends>,
    /// The codes of a clip that is read from disk.
    codes: Vec<u8>,
    single_clip: SingleClipDecoder,
    config: Arc<LoaderConfig>,
    catalog: Arc<VideoCatalog>,
    stats: Arc<StatsCollector>,
    scheduler: Arc<Scheduler<DecodeTask>>,
}

fn view_transforms(config: &LoaderConfig, backends: &DecoderBackends) -> Vec<ViewTransforms> {
    let by_nvjpeg = config.options.gpu.decoder == DecoderBackend::Nvjpeg;
    let executor = |pipeline| {
        let executor = TransformExecutor::on(pipeline, backends.output_device.clone());
        if by_nvjpeg {
            executor.by_nvjpeg()
        } else {
            executor
        }
    };
    let of_view = |view: &ClipView| {
        let (cached, expand) = view.cached_format().unzip();
        ViewTransforms {
            batch: executor(view.pipeline.clone()),
            cached: cached.map(executor),
            expand_on_device: expand.as_ref().map(ElementLut::for_device),
            expand,
            shape: view.clip_shape(),
            pads_with_zeros: view.clip_sampler.pads_with_zeros(),
        }
    };
    config.views.iter().map(of_view).collect()
}

impl Worker {
    fn work(mut self) {
        if let Some(gpu) = self.backends.gpu() {
            // Makes the CUDA context current for the thread, so that calls need not switch it. If
            // this fails, those calls report the error.
            let _ = gpu.device().make_current();
        }
        if self.kind == WorkerKind::Cpu && self.scheduler.has_both_kinds {
            // The threads that feed NVDEC and those of the training come first. On Linux, no
            // process means this thread; if it fails, the thread only competes with them.
            #[cfg(target_os = "linux")]
            let _ = rustix::process::setpriority_process(None, NICE_NEXT_TO_NVDEC);
        }
        while let Some(work) = self.scheduler.next(self.kind) {
            let begun = Instant::now();
            let in_flight = work.requests();
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.execute(work))) {
                self.views = view_transforms(&self.config, &self.backends);
                self.single_clip = SingleClipDecoder::new(
                    &self.config,
                    &self.catalog,
                    &self.stats,
                    &self.backends,
                    self.kind == WorkerKind::Nvdec,
                );
                for RequestId { pass, seq, clip } in in_flight {
                    self.scheduler
                        .fail_clip(pass, seq, self.internal_error(clip, &*panic));
                }
            }
            self.stats.busy(begun.elapsed());
        }
    }

    /// Registers the pass as the caller of sources on this thread, so that sources that wait for a
    /// server stop once the pass has ended.
    fn interrupt_scope(&self, pass: u64) -> InterruptScope {
        let scheduler = self.scheduler.clone();
        interrupt_scope(move || scheduler.check(pass), Some(self.stats.remote()))
            .outage_timeout(self.config.options.outage_timeout)
    }

    fn execute(&mut self, work: Work<DecodeTask>) {
        match work {
            Work::CopyCached {
                pass,
                seq,
                cached,
                slot,
            } => self.copy_cached(pass, seq, *cached, slot),
            Work::Decode(group) => {
                let _scope = self.interrupt_scope(group.pass);
                self.start_task(group);
            }
            Work::Resume(task) => {
                let _scope = self.interrupt_scope(task.pass());
                self.run_task(task);
            }
        }
    }

    fn internal_error(&self, clip: u64, panic: &(dyn Any + Send)) -> Error {
        let site = self.catalog.site(self.catalog.clips.locate(clip).0);
        Error::of_panic(site, panic)
    }

    /// Copies a cached clip into its batch buffer; without a clip slot, into a buffer of its own in
    /// the output format.
    fn copy_cached(&mut self, pass: u64, seq: u64, cached: CachedClip, slot: Option<ClipSlot>) {
        // Drops the clip slot before the report: the batch buffer freezes only without live slots.
        match self.copy_to_output(&cached, slot) {
            Ok(data) => {
                self.stats.add(|s| s.clip_cache_hits += 1);
                self.scheduler
                    .complete_clip(pass, seq, cached.metadata, data);
            }
            Err(error) => self.scheduler.fail_clip(pass, seq, error),
        }
    }

    fn copy_to_output(&mut self, cached: &CachedClip, slot: Option<ClipSlot>) -> Result<ClipData> {
        let view = &self.views[self.config.view_of(cached.metadata.view_id)];
        let has_shape = view.shape.is_some();
        let shape = ClipShape {
            dtype: view.pipeline().dtype,
            ..cached.shape
        };
        if let Some(mut slot) = slot {
            self.write_cached(cached, &shape, slot.target()?)?;
            slot.record_write()?;
            return Ok(ClipData::InBatch);
        }
        if has_shape {
            let site = self.catalog.site(cached.metadata.video_id);
            return Err(Error::Internal {
                site,
                reason: "a cached clip of an open batch has no slot".into(),
            });
        }
        let mut output = LazyClipOutput::from_pool(self.scheduler.cache_pool.clone());
        self.write_cached(cached, &shape, output.target(&shape)?)?;
        let (buffer, shape) = output.into_clip()?.expect("its memory was requested above");
        Ok(ClipData::Owned(buffer, shape, None))
    }

    /// Writes a cached clip to `target` in the output format, whose shape is `shape`.
    fn write_cached(
        &mut self,
        cached: &CachedClip,
        shape: &ClipShape,
        target: OutputMut<'_>,
    ) -> Result<()> {
        let kept = cached.buffer.len();
        let size_mismatch = || Error::Internal {
            site: self.catalog.site(cached.metadata.video_id),
            reason: format!("a cached clip has {kept} bytes, but its slot has a different size"),
        };
        // A clip may be cached in the output format, for example because its frames have more than
        // 8 bits.
        let view = &mut self.views[self.config.view_of(cached.metadata.view_id)];
        let is_codes = cached.shape.dtype != shape.dtype;
        let fits = |len: usize| cached.shape.bytes() == Some(kept) && shape.bytes() == Some(len);
        match (target, cached.buffer.bytes()) {
            (OutputMut::Host(bytes), Some(kept)) if fits(bytes.len()) => match &view.expand {
                Some(expand) if is_codes => shape.expand(expand, kept, bytes),
                _ => bytes.copy_from_slice(kept),
            },
            (OutputMut::Device(mut slice), None) if fits(slice.len) => {
                let cuda = view.batch.cuda()?;
                let stream = cuda.stream().clone();
                slice.begin(&stream)?;
                cached
                    .buffer
                    .written()
                    .iter()
                    .try_for_each(|event| stream.wait(event))?;
                match &view.expand_on_device {
                    Some(expand) if is_codes => {
                        cuda.expand(expand, shape, cached.buffer.address(), slice.address)?;
                    }
                    _ => stream.copy(slice.address, cached.buffer.address(), kept)?,
                }
                cached.buffer.add_reader_event(stream.record()?);
            }
            _ => return Err(size_mismatch()),
        }
        Ok(())
    }

    /// Plans a decode task for the clip requests of one video and runs it.
    fn start_task(&mut self, group: VideoRequests) {
        let (pass, epoch) = (group.pass, group.epoch);
        let delivered = self.deliver_known(group);
        let Some(group) = delivered.and_then(|group| self.deliver_stored(group)) else {
            return;
        };
        let Some(group) = self.give_to_kind(group) else {
            return;
        };
        // A task can be suspended or moved, and copies of cached clips may be due meanwhile.
        let has_nvdec = self.kind == WorkerKind::Nvdec || self.scheduler.has_both_kinds;
        let alone = group.unshared || (!has_nvdec && self.scheduler.stored.is_none());
        if group.requests.len() == 1 && group.requests[0].is_due && alone {
            // No other clip shares the decoding: make the clip without a task.
            return group
                .requests
                .into_iter()
                .for_each(|t| self.decode_single_clip(pass, epoch, t));
        }
        let task_params = TaskParams {
            catalog: &self.catalog,
            seed: self.config.order.seed,
            config: &self.config,
            max_packets: match self.config.order.shuffle {
                Shuffle::Off
                    if self.config.num_workers(&self.backends) > MAX_WORKERS_WITHOUT_WORK_AHEAD =>
                {
                    MAX_PACKETS_PER_TASK_IN_ORDER
                }
                _ => MAX_PACKETS_PER_TASK,
            },
            kind: self.kind,
        };
        let ahead = group.requests.iter().all(|request| !request.is_due);
        let is_by_pace = self.kind == WorkerKind::Cpu && group.fixed_kind.is_none();
        let scheduler = self.scheduler.clone();
        let views = &mut self.views[..];
        let begun = Instant::now();
        let task_plan = decode_task::plan(group, &task_params, views, &scheduler, &self.stats);
        self.stats
            .add(|s| s.planning_seconds += begun.elapsed().as_secs_f64());
        let Ok(TaskPlan {
            task,
            returned,
            unshared,
            failed,
            needs_memory,
        }) = task_plan
        else {
            return;
        };
        if needs_memory {
            // The requests are planned again when a decode range of a suspended task has ended.
            let task = scheduler.take_task_with_decoder();
            scheduler.requeue(pass, returned, false);
            for request in unshared {
                self.decode_single_clip(pass, epoch, request);
            }
            if let Some(mut task) = task {
                task.finishes_range = true;
                let _scope = self.interrupt_scope(task.pass());
                self.run_task(task);
            }
            return;
        }
        if ahead && task.is_none() && !failed {
            return scheduler.requeue_ahead(pass, returned);
        }
        let task = task.and_then(|task| {
            let (cost, first) = task.costs();
            let due = task.earliest_request();
            let in_time = scheduler.record_task((cost, task.num_requests()), (due, first));
            if in_time || !is_by_pace {
                return Some(task);
            }
            // It is more expensive than most: the batch would wait for it.
            scheduler.requeue_for(WorkerKind::Nvdec, pass, task.into_requests());
            None
        });
        // Clips of a file that cannot be opened are made alone, when they are due, which reports
        // the error.
        scheduler.requeue(pass, returned, failed);
        for request in unshared {
            self.decode_single_clip(pass, epoch, request);
        }
        if let Some(task) = task {
            self.run_task(task);
        }
    }

    /// Opens a video; `None` if that fails, which the plan of a task reports.
    fn opened(&self, video: u32) -> Option<Video> {
        catch_unwind(AssertUnwindSafe(|| self.catalog.open(video, &self.stats)))
            .ok()?
            .ok()
    }

    /// If workers of both kinds share the requests, leaves those to the other kind that only it
    /// makes: CPU workers make what NVDEC does not decode. Files of codecs whose damage NVDEC does
    /// not report are made by one kind, so that their frames do not depend on who takes them.
    /// Returns the requests that remain, if any.
    fn give_to_kind(&self, mut group: VideoRequests) -> Option<VideoRequests> {
        if group.unshared || !self.scheduler.has_both_kinds {
            return Some(group);
        }
        // Any worker takes a clip that is on disk, so this one may be of the other kind.
        if group.fixed_kind.is_none() {
            let Some(video) = self.opened(group.video) else {
                return Some(group);
            };
            group.fixed_kind = self.backends.fixed_kind(video.index(), &self.stats);
        }
        match group.fixed_kind {
            Some(kind) if kind != self.kind => {
                self.scheduler.requeue_for(kind, group.pass, group.requests);
                None
            }
            _ => Some(group),
        }
    }

    /// Delivers the clips that are due and whose frames the consumer does not need. Returns the
    /// requests that remain, unless there are none.
    fn deliver_known(&mut self, mut group: VideoRequests) -> Option<VideoRequests> {
        let scheduler = self.scheduler.clone();
        let known = scheduler
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        // Several views are groups.
        const VIEW: usize = 0;
        // A group is made as a whole, since another video replaces it as a whole.
        if known.is_empty() || self.config.options.group_clips {
            return Some(group);
        }
        let Some(video) = self.opened(group.video) else {
            return Some(group);
        };
        let (pass, seed) = (group.pass, self.config.order.seed);
        let (mut remaining, mut later) = (Vec::new(), Vec::new());
        for mut request in std::mem::take(&mut group.requests) {
            let sampled = request.sampled;
            let key = sampled.transform_key(seed, group.epoch, sampled.clip);
            let sampling_key = sampled.sampling_key(seed, group.epoch, sampled.clip);
            let sample = catch_unwind(AssertUnwindSafe(|| {
                self.catalog.sample(video.index(), sampling_key)
            }));
            let keys = &self.catalog.content_keys;
            let found = sample
                .ok()
                .and_then(std::result::Result::ok)
                .filter(|sample| {
                    keys.key(VIEW, &video.identity(), sample, key)
                        .is_some_and(|digest| known.contains(digest))
                });
            let Some(sample) = found else {
                remaining.push(request);
                continue;
            };
            if !request.is_due {
                later.push(request);
                continue;
            }
            let metadata = self.metadata_of(&video, sampled, sample, (VIEW, key));
            let Ok(audio) = self.catalog.audio_of(&metadata, key, &self.stats) else {
                remaining.push(request);
                continue;
            };
            let metadata = ClipMetadata {
                has_frames: false,
                audio,
                ..metadata
            };
            drop(request.slot.take()); // before the report: the batch buffer freezes only without live slots
            scheduler.complete_clip(pass, request.seq, metadata, ClipData::InBatch);
        }
        scheduler.requeue_stored(pass, later);
        (!remaining.is_empty()).then(|| VideoRequests {
            requests: remaining,
            ..group
        })
    }

    /// Delivers the clips that are on disk and due. Returns the requests that remain, unless there
    /// are none.
    fn deliver_stored(&mut self, mut group: VideoRequests) -> Option<VideoRequests> {
        let Some(stored) = self.scheduler.stored.clone() else {
            return Some(group);
        };
        let pass = group.pass;
        let scheduler = self.scheduler.clone();
        let Some(video) = self.opened(group.video) else {
            return Some(group);
        };
        let (identity, index) = (video.identity(), video.index());
        let (catalog, seed) = (self.catalog.clone(), self.config.order.seed);
        let sample = |sampled: SampledClip, epoch| {
            let key = sampled.sampling_key(seed, epoch, sampled.clip);
            catch_unwind(AssertUnwindSafe(|| catalog.sample(index, key)))
                .ok()?
                .ok()
        };
        if let Some(first) = group.requests.first()
            && let Err(error) =
                stored.check_sampler(group.epoch, |epoch| sample(first.sampled, epoch))
        {
            let failed = |request: &ClipRequest| (pass, request.seq);
            let failed: Vec<_> = group.requests.iter().map(failed).collect();
            drop(group); // before the report: the batch buffer freezes only without live slots
            failed
                .into_iter()
                .for_each(|(pass, seq)| scheduler.fail_clip(pass, seq, error.clone()));
            return None;
        }
        if group.unshared {
            return Some(group);
        }
        // A task of an earlier epoch may be about to make some of the clips.
        let mut task = None;
        let mut has_asked = false;
        let (mut remaining, mut later) = (Vec::new(), Vec::new());
        for mut request in std::mem::take(&mut group.requests) {
            let sampled = request.sampled;
            let key = sampled.transform_key(seed, group.epoch, sampled.clip);
            let sample = sample(sampled, group.epoch);
            let view = self.config.view_of(catalog.clips.locate(sampled.clip).1);
            let found = sample.and_then(|sample| {
                let digest = catalog.content_keys.key(view, &identity, &sample, key)?;
                Some((digest, sample))
            });
            let Some((digest, sample)) = found else {
                remaining.push(request);
                continue;
            };
            if !request.is_due && stored.store.contains(digest) {
                later.push(request);
                continue;
            }
            if let Some(data) = request
                .is_due
                .then(|| self.read_stored(&stored, (digest, view), &mut request))
                .flatten()
            {
                let mut metadata = self.metadata_of(&video, sampled, sample, (view, key));
                match catalog.audio_of(&metadata, key, &self.stats) {
                    Ok(audio) => metadata.audio = audio,
                    Err(_) => {
                        remaining.push(request);
                        continue;
                    }
                }
                drop(request.slot.take()); // before the report: the batch buffer freezes only without live slots
                scheduler.complete_clip(pass, request.seq, metadata, data);
                continue;
            }
            if !std::mem::replace(&mut has_asked, true) {
                task = scheduler.take_ahead_task(group.video);
            }
            let adopted = task.as_mut().is_some_and(|task| {
                let metadata = self.metadata_of(&video, sampled, sample, (view, key));
                task.adopt((pass, group.epoch), digest, &request, (key, metadata))
            });
            if adopted {
                scheduler.keep_slot(pass, request);
            } else {
                remaining.push(request);
            }
        }
        scheduler.requeue_stored(pass, later);
        if let Some(task) = task {
            self.run_task(task);
        }
        (!remaining.is_empty()).then(|| VideoRequests {
            requests: remaining,
            ..group
        })
    }

    /// What a requested clip is, without its audio.
    fn metadata_of(
        &self,
        video: &Video,
        sampled: SampledClip,
        sample: ClipIndices,
        (view, key): (usize, RngKey),
    ) -> ClipMetadata {
        let transforms = (view, &self.config.views[view].pipeline, key);
        decode_task::metadata(
            video,
            &self.catalog,
            sampled,
            sampled.clip,
            sample,
            transforms,
        )
    }

    /// Reads a clip from the store into its clip slot or a buffer of its own, in the output format.
    /// `None` if the store does not have it.
    fn read_stored(
        &mut self,
        stored: &StoredClips,
        (digest, view): (u128, usize),
        request: &mut ClipRequest,
    ) -> Option<ClipData> {
        let clip = stored.store.find(digest)?;
        let view = &mut self.views[view];
        let kept = StoredClips::shape(&clip, view.pipeline())?;
        let shape = ClipShape {
            dtype: view.pipeline().dtype,
            ..kept
        };
        let mut buffer = LazyClipOutput::from_pool(self.scheduler.cache_pool.clone());
        let target = match (&mut request.slot, view.shape) {
            (Some(slot), Some(expected)) if expected == shape => slot.target().ok()?,
            (None, None) => buffer.target(&shape).ok()?,
            _ => return None,
        };
        let is_codes = kept.dtype != shape.dtype;
        match target {
            OutputMut::Host(bytes) if !is_codes => stored.store.read(&clip, bytes).then_some(())?,
            OutputMut::Host(bytes) => {
                self.codes.resize(clip.num_bytes() as usize, 0);
                stored.store.read(&clip, &mut self.codes).then_some(())?;
                shape.expand(view.expand.as_ref()?, &self.codes, bytes);
            }
            OutputMut::Device(slice) => {
                let expand = if is_codes {
                    Some(view.expand_on_device.as_ref()?)
                } else {
                    None
                };
                let site = self
                    .catalog
                    .site(self.catalog.clips.locate(request.sampled.clip).0);
                let read = |bytes: &mut [u8]| stored.store.read(&clip, bytes);
                let executor = &mut view.batch;
                let is_read = executor.upload_clip(&site, (&kept, expand), &shape, slice, read);
                self.stats.record_fallbacks(&executor.take_report());
                let failed = |error| self.stats.record_stored_clip_fallback(&error);
                is_read.map_err(failed).ok()?.then_some(())?;
            }
        }
        let data = match &mut request.slot {
            Some(slot) => slot.record_write().map(|()| Some(ClipData::InBatch)),
            None => {
                let clip = buffer.into_clip();
                clip.map(|clip| clip.map(|(buffer, shape)| ClipData::Owned(buffer, shape, None)))
            }
        };
        data.map_err(|error| self.stats.record_stored_clip_fallback(&error))
            .ok()?
    }

    fn run_task(&mut self, mut task: Box<DecodeTask>) {
        let (pass, epoch) = (task.pass(), task.epoch());
        let left = loop {
            let views = &mut self.views[..];
            let progress = catch_unwind(AssertUnwindSafe(|| {
                let context = TaskContext::new(views, &self.scheduler, &self.catalog, &self.stats);
                task.run(context)
            }));
            match progress {
                Ok(Ok(Progress::Preempted)) => {
                    let Some(unsuspended) = self.scheduler.suspend(task) else {
                        return;
                    };
                    task = unsuspended;
                    task.finishes_range = true;
                }
                Ok(Ok(Progress::MovedTo(kind))) => {
                    let requests = task.into_requests();
                    if kind == WorkerKind::Nvdec {
                        self.stats
                            .add(|s| s.clips_moved_to_nvdec += requests.len() as u64);
                    }
                    return self.scheduler.requeue_for(kind, pass, requests);
                }
                Ok(Ok(Progress::Done)) => {
                    return self.catalog.files.recycle_reader(task.into_reader());
                }
                Ok(Err(Error::Interrupted)) => return,
                // Making each clip alone reports the error.
                Ok(Err(_)) | Err(_) => {
                    self.views = view_transforms(&self.config, &self.backends);
                    break task.into_requests();
                }
            }
        };
        let (due, later): (Vec<_>, Vec<_>) = left.into_iter().partition(|t| t.is_due);
        self.scheduler.requeue(pass, later, true);
        due.into_iter()
            .for_each(|t| self.decode_single_clip(pass, epoch, t));
    }

    /// Makes one clip without sharing its decoding, or its replacement.
    fn decode_single_clip(&mut self, pass: u64, epoch: u64, mut request: ClipRequest) {
        let _scope = self.interrupt_scope(pass);
        let made = catch_unwind(AssertUnwindSafe(|| {
            self.single_clip.make(epoch, &mut request)
        }));
        self.single_clip.count_work();
        let ClipRequest {
            seq, sampled, slot, ..
        } = request;
        drop(slot); // before the report: the batch buffer freezes only without live slots
        match made {
            Ok(Ok((metadata, None))) => {
                self.scheduler
                    .complete_clip(pass, seq, metadata, ClipData::InBatch)
            }
            Ok(Ok((metadata, Some((buffer, shape))))) => {
                self.scheduler.complete_clip(
                    pass,
                    seq,
                    metadata,
                    ClipData::Owned(buffer, shape, None),
                );
            }
            Ok(Err(error)) => self.scheduler.fail_clip(pass, seq, error),
            Err(panic) => {
                self.single_clip = SingleClipDecoder::new(
                    &self.config,
                    &self.catalog,
                    &self.stats,
                    &self.backends,
                    self.kind == WorkerKind::Nvdec,
                );
                self.scheduler
                    .fail_clip(pass, seq, self.internal_error(sampled.clip, &*panic));
            }
        }
    }
}
