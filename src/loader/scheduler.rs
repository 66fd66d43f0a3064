//! Schedules clip requests among the worker threads. Workers take the clip request with the earliest
//! deadline that is available, together with the requests of the same video that can share its
//! decoding. Next to NVDEC, CPU workers take later ones, see `pace`.

#[cfg(test)]
mod simulation;
mod state;
#[cfg(test)]
mod tests;
mod work;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::backends::DecoderBackends;
use super::budget::{MemoryBudget, MemoryReservation};
use super::decoder_pool::DecoderPool;
use super::known_clips::KnownClips;
use super::lookahead::{CachedClip, LookaheadWindow, RequestEntry, RequestState, SequenceNumber};
use super::pace::{Cost, Pace, TaskProgress, WorkerKind};
use super::stats::StatsCollector;
use super::stored_clips::StoredClips;
use super::{ClipMetadata, LoaderConfig};
use crate::batch::{BufferBuilder, ClipSlot, MemoryPool};
use crate::batch_sampler::SampledClip;
use crate::error::{Error, Result};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use crate::transforms::Dtype;

use state::{EpochState, NO_DEADLINE, SchedulerState};

pub(super) use work::{
    ClipData, ClipRequest, PendingBatch, RequestId, SuspendedTask, VideoRequests, Work,
};

/// Maximum number of suspended tasks, unless there are many workers: each holds an open file and
/// possibly a decoder.
const MAX_SUSPENDED: usize = 8;

/// Free device memory blocks kept for further cached clips, because allocating device memory stalls
/// the whole device.
const MAX_FREE_CACHE_BLOCKS: usize = 64;

/// Idle workers make clips ahead of their turn while more than this part of the memory budget is
/// free.
const MIN_FREE_SHARE: u64 = 8;

/// Clips of later epochs are made while less than this part of the memory budget is in use.
pub(super) const LATER_EPOCHS_SHARE: u64 = 2;

/// The pass of tasks that make only clips of later epochs: they outlive the current pass.
pub(super) const ANY_PASS: u64 = u64::MAX;

/// Why memory for a clip cannot be reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryShortage {
    /// Suspended tasks hold decoders, whose memory is free once their decode ranges end.
    SuspendedDecoder,
    /// All cached clips are due earlier.
    CachedClips,
}

/// The state that the workers and the consumer share.
pub(super) struct Scheduler<T> {
    state: Mutex<SchedulerState<T>>,
    /// Signals the workers of each kind that work may be available.
    work: [Condvar; 2],
    /// Signals the consumer that the first open batch may be complete.
    complete: Condvar,
    /// For each kind of worker, the sequence number of the earliest due request that it can take;
    /// workers read it between packets.
    earliest_deadline: [AtomicU64; 2],
    /// NVDEC workers are idle, and the consumer waits for clips before this sequence number, which
    /// CPU workers make. 0 if that is not so.
    wanted_by_nvdec: AtomicU64,
    /// Passes up to and including this number have ended.
    forgotten: AtomicU64,
    /// Cached clips, in the memory where batches are placed.
    pub budget: Arc<MemoryBudget>,
    /// Decoders of suspended tasks, in host memory. The same budget if cached clips are there too.
    pub decoder_budget: Arc<MemoryBudget>,
    pub decoders: DecoderPool,
    /// Clips on disk, if they are kept there.
    pub stored: Option<Arc<StoredClips>>,
    /// Clips that are delivered without frames.
    pub known: Mutex<KnownClips>,
    /// Pool of the buffers of clips outside batch buffers; it keeps free blocks only on a device.
    pub cache_pool: Arc<MemoryPool>,
    stats: Arc<StatsCollector>,
    workers: usize,
    /// Whether workers of both kinds share the requests.
    pub has_both_kinds: bool,
    /// Whether workers ignore the requests of batches that are not open.
    lookahead_disabled: bool,
    /// Whether the clips are windows of audio, which share no work.
    makes_windows: bool,
    /// The element type of cached clips that have another one than the output.
    cached_dtype: Option<Dtype>,
    /// Whether a worker has decoded frames of more than 8 bits: cached clips may then need the
    /// memory of output elements instead of 8-bit codes.
    pub has_high_bit_depth: AtomicBool,
}

impl<T: SuspendedTask> Scheduler<T> {
    pub(super) fn new(
        config: &LoaderConfig,
        backends: Arc<DecoderBackends>,
        stored: Option<Arc<StoredClips>>,
        stats: Arc<StatsCollector>,
    ) -> Self {
        let by_cpu = config.num_workers(&backends) - backends.workers();
        // NVDEC decodes no images.
        let has_both = by_cpu > 0 && backends.workers() > 0 && !config.options.images;
        let pace = has_both.then(|| Pace::new(by_cpu, backends.workers()));
        Self::with_pace(config, backends, stored, stats, pace)
    }

    fn with_pace(
        config: &LoaderConfig,
        backends: Arc<DecoderBackends>,
        stored: Option<Arc<StoredClips>>,
        stats: Arc<StatsCollector>,
        pace: Option<Pace>,
    ) -> Self {
        let output_device = backends
            .output_device
            .as_ref()
            .map(|gpu| gpu.device().clone());
        let budget = MemoryBudget::new(config.cache_budget());
        let decoder_budget = match output_device {
            Some(_) => MemoryBudget::new(config.options.memory_budget),
            None => budget.clone(),
        };
        Self {
            makes_windows: config.options.windows().is_some(),
            has_both_kinds: pace.is_some(),
            state: Mutex::new(SchedulerState {
                closed: false,
                epoch_state: None,
                suspended: Vec::new(),
                pace,
                idle: [0; 2],
            }),
            work: [Condvar::new(), Condvar::new()],
            complete: Condvar::new(),
            earliest_deadline: [AtomicU64::new(NO_DEADLINE), AtomicU64::new(NO_DEADLINE)],
            wanted_by_nvdec: AtomicU64::new(0),
            forgotten: AtomicU64::new(0),
            budget,
            decoder_budget,
            stored,
            known: Mutex::default(),
            cache_pool: MemoryPool::on(
                output_device.clone(),
                if output_device.is_some() {
                    MAX_FREE_CACHE_BLOCKS
                } else {
                    0
                },
            ),
            workers: config.num_workers(&backends) as usize,
            decoders: DecoderPool::new(config, backends, stats.clone()),
            stats,
            lookahead_disabled: config.options.lookahead_clips == 0,
            // It matters if clips differ in shape, as those of several views never do.
            cached_dtype: config.views[0]
                .cached_format()
                .map(|(pipeline, _)| pipeline.dtype),
            has_high_bit_depth: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, SchedulerState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Recomputes the earliest deadlines and wakes the waiting threads that the change concerns.
    /// Call it after every change.
    fn notify(&self, state: &SchedulerState<T>) {
        for kind in [WorkerKind::Cpu, WorkerKind::Nvdec] {
            let earliest = state
                .earliest_request(kind)
                .map_or(NO_DEADLINE, |(seq, _)| seq);
            self.earliest_deadline[kind as usize].store(earliest, Ordering::Release);
            if state.idle[kind as usize] > 0
                && (earliest != NO_DEADLINE
                    || state.suspended_for(kind).next().is_some()
                    || state.next_ahead(kind, self.has_room()).is_some())
            {
                self.work[kind as usize].notify_all();
            }
        }
        let front = state.epoch_state.as_ref().and_then(|p| p.open.front());
        if front.is_some_and(|b| b.clips_remaining == 0) {
            self.complete.notify_all();
        }
        self.update_wanted(state);
    }

    /// Asks CPU workers for the clips of the first open batch while NVDEC workers are idle.
    fn update_wanted(&self, state: &SchedulerState<T>) {
        let front = state.epoch_state.as_ref().and_then(|p| p.open.front());
        let wanted = front
            .filter(|b| {
                state.pace.is_some()
                    && state.idle[WorkerKind::Nvdec as usize] > 0
                    && b.clips_remaining > 0
            })
            .map_or(0, |b| b.first + b.clips.len() as u64);
        self.wanted_by_nvdec.store(wanted, Ordering::Release);
    }

    // ---- methods for the consumer

    /// Begins a pass and drops the work of earlier passes. `work_ahead`: number of requests after
    /// the open batches that idle workers take, while the clip cache has room, and its maximum if
    /// CPU workers work next to NVDEC. `siblings`: number of requests after one among which are all
    /// that share its decoding.
    pub(super) fn start_epoch(
        &self,
        (pass, epoch): (u64, u64),
        same_shape: bool,
        (work_ahead, max_work_ahead): (u64, u64),
        siblings: u64,
    ) {
        // What belongs to passes before is gone, with its memory, before the new pass has requests.
        self.stop_epoch();
        self.forgotten.fetch_max(pass - 1, Ordering::AcqRel);
        let mut state = self.lock();
        state.epoch_state = Some(EpochState {
            pass,
            epoch,
            lookahead: LookaheadWindow::default(),
            open: VecDeque::new(),
            open_end: 0,
            same_shape,
            lookahead_disabled: self.lookahead_disabled,
            work_ahead: if self.lookahead_disabled {
                0
            } else {
                work_ahead
            },
            max_work_ahead: if self.lookahead_disabled {
                0
            } else {
                max_work_ahead
            },
            work_ahead_failed: false,
            siblings,
            all_visible: false,
        });
        self.notify(&state);
    }

    /// Ends the current pass.
    pub(super) fn stop_epoch(&self) {
        let mut state = self.lock();
        let before = state.epoch_state.take();
        if let Some(epoch_state) = &before {
            self.forgotten.fetch_max(epoch_state.pass, Ordering::AcqRel);
        }
        let ended = state
            .suspended
            .extract_if(.., |task| task.pass() != ANY_PASS)
            .collect::<Vec<_>>();
        self.notify(&state);
        drop(state);
        drop((before, ended)); // closing files and decoders is slow: not under the lock
    }

    /// Closes the scheduler: [`Self::next`] returns `None` from then on, so that the workers exit.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let before = state.epoch_state.take();
        let suspended = std::mem::take(&mut state.suspended);
        self.forgotten.store(u64::MAX, Ordering::Release);
        self.work.iter().for_each(Condvar::notify_all);
        self.complete.notify_all();
        drop(state);
        drop((before, suspended)); // closing files and decoders is slow: not under the lock
        self.decoders.close();
    }

    /// # Errors
    /// `Interrupted` once the pass has ended, because its clips are no longer needed.
    pub(super) fn check(&self, pass: u64) -> Result<()> {
        match self.forgotten.load(Ordering::Acquire) >= pass {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    }

    /// Number of visible clip requests after the open batches.
    pub(super) fn lookahead_len(&self) -> u64 {
        self.lock()
            .epoch_state
            .as_ref()
            .map_or(0, |p| p.lookahead.end() - p.open_end)
    }

    /// Adds clip requests to the lookahead window. `is_last`: no other requests follow in this
    /// pass.
    pub(super) fn enqueue(
        &self,
        requests: impl Iterator<Item = (SampledClip, u32)>,
        is_last: bool,
    ) {
        if let Some(epoch_state) = &mut self.lock().epoch_state {
            let unshared = self.makes_windows;
            requests
                .for_each(|(sampled, video)| epoch_state.lookahead.push(sampled, video, unshared));
            epoch_state.all_visible = is_last;
        }
    }

    /// Whether the memory budget has room for clips ahead of their turn.
    fn has_room(&self) -> bool {
        self.budget.bytes() - self.budget.used() > self.budget.bytes() / MIN_FREE_SHARE
    }

    /// Opens the next batch, which consists of the first `clips` requests that are in no batch yet.
    /// They become due. `memory`: the buffers of all views and the clip slots; none if clips differ in
    /// shape.
    pub(super) fn open(&self, clips: usize, (memory, slots): (Vec<BufferBuilder>, Vec<ClipSlot>)) {
        let mut guard = self.lock();
        let Some(epoch_state) = &mut guard.epoch_state else {
            return;
        };
        let first = epoch_state.open_end;
        epoch_state.open_end += clips as u64;
        epoch_state.work_ahead_failed = false;
        let outcomes = (0..clips).map(|_| None).collect();
        epoch_state.open.push_back(PendingBatch {
            first,
            memory,
            clips: outcomes,
            clips_remaining: clips,
        });
        let mut slots = slots.into_iter();
        for seq in first..epoch_state.open_end {
            epoch_state.lookahead.pin(seq);
            let slot = slots.next();
            let Some(entry) = epoch_state.lookahead.get(seq) else {
                continue;
            };
            entry.slot = slot;
            let same_shape = epoch_state.same_shape;
            if let Some(cached) = (!same_shape)
                .then(|| entry.take_finished(self.cached_dtype))
                .flatten()
            {
                epoch_state.store_outcome(
                    seq,
                    Ok((cached.metadata, Some((cached.buffer, cached.shape)))),
                );
                self.stats.add(|s| s.clip_cache_hits += 1);
            }
        }
        self.notify(&guard);
    }

    /// Number of open batches that the consumer has not taken yet.
    pub(super) fn open_batches(&self) -> usize {
        self.lock().epoch_state.as_ref().map_or(0, |p| p.open.len())
    }

    /// Takes the first open batch if it is complete within `timeout`.
    pub(super) fn take_complete_batch(&self, timeout: Duration) -> Option<PendingBatch> {
        let is_whole = |state: &SchedulerState<T>| {
            state
                .epoch_state
                .as_ref()
                .and_then(|p| p.open.front())
                .is_some_and(|front| front.clips_remaining == 0)
        };
        let mut state = self.lock();
        if !is_whole(&state) {
            let waited = self.complete.wait_timeout(state, timeout);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if !is_whole(&state) {
            return None;
        }
        let epoch_state = state.epoch_state.as_mut()?;
        let batch = epoch_state.open.pop_front()?;
        batch.clips.iter().for_each(|_| epoch_state.lookahead.pop());
        Some(batch)
    }

    // ---- methods for the workers

    /// Sequence number of the earliest due request that a worker of this kind can take.
    pub(super) fn earliest_deadline(&self, kind: WorkerKind) -> SequenceNumber {
        self.earliest_deadline[kind as usize].load(Ordering::Acquire)
    }

    /// Whether a CPU worker should leave its clips, of which the first is due at `due`, to an idle
    /// NVDEC worker, which makes them sooner.
    pub(super) fn is_wanted_by_nvdec(
        &self,
        due: SequenceNumber,
        progress: impl FnOnce() -> TaskProgress,
    ) -> bool {
        if due >= self.wanted_by_nvdec.load(Ordering::Acquire) {
            return false;
        }
        let progress = progress();
        let state = self.lock();
        let pace = state.pace.as_ref();
        pace.is_some_and(|pace| pace.is_worth_moving(&progress))
    }

    /// Records work that a decoder on this kind of device has done.
    pub(super) fn record_work(&self, kind: WorkerKind, cost: Cost, busy: Duration) {
        if !self.has_both_kinds {
            return;
        }
        if let Some(pace) = &mut self.lock().pace {
            pace.record_work(kind, cost, busy);
        }
    }

    /// Records the cost of a planned task. Returns whether a CPU worker finishes a clip at `due`
    /// before NVDEC would, if that clip costs `first`.
    pub(super) fn record_task(
        &self,
        (cost, clips): (Cost, usize),
        (due, first): (SequenceNumber, Cost),
    ) -> bool {
        if !self.has_both_kinds {
            return true;
        }
        let mut state = self.lock();
        let Some(pace) = &mut state.pace else {
            return true;
        };
        pace.record_task(cost, clips);
        let lead = pace.lead(Some(first));
        state
            .epoch_state
            .as_ref()
            .is_some_and(|p| p.pending_before(due) >= lead)
    }

    /// Waits for work; `None` once the loader is closed.
    pub(super) fn next(&self, kind: WorkerKind) -> Option<Work<T>> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(work) = self.take(&mut state, kind) {
                return Some(work);
            }
            let blocked = state
                .epoch_state
                .as_ref()
                .is_some_and(EpochState::waits_for_consumer);
            let begun = Instant::now();
            state.idle[kind as usize] += 1;
            self.update_wanted(&state);
            state = self.work[kind as usize]
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.idle[kind as usize] -= 1;
            self.update_wanted(&state);
            self.stats.idle(begun.elapsed(), blocked);
        }
    }

    fn take(&self, state: &mut SchedulerState<T>, kind: WorkerKind) -> Option<Work<T>> {
        let work = state.pick_work(kind, self.has_room())?;
        self.notify(state);
        Some(work)
    }

    /// Whether one more task may be suspended.
    pub(super) fn can_suspend_another(&self) -> bool {
        self.lock().suspended.len() < MAX_SUSPENDED.max(2 * self.workers)
    }

    /// Reserves bytes of the memory budget for the clip at sequence number `due`. If necessary,
    /// evicts cached clips that are due later, but none while a suspended task holds a decoder in
    /// the same budget.
    pub(super) fn reserve(
        &self,
        bytes: usize,
        due: SequenceNumber,
    ) -> std::result::Result<MemoryReservation, MemoryShortage> {
        if bytes as u64 > self.budget.bytes() {
            return Err(MemoryShortage::CachedClips); // no eviction frees enough
        }
        if let Some(reserved) = self.budget.reserve(bytes) {
            return Ok(reserved);
        }
        let mut state = self.lock();
        loop {
            // Resumed tasks release the memory of their decoders under the lock.
            if let Some(reserved) = self.budget.reserve(bytes) {
                return Ok(reserved);
            }
            if self.decoders_share_budget()
                && state.suspended.iter().any(|task| task.holds_decoder())
            {
                return Err(MemoryShortage::SuspendedDecoder);
            }
            let lookahead = state.epoch_state.as_mut().map(|p| &mut p.lookahead);
            if !lookahead.is_some_and(|lookahead| lookahead.evict_due_after(due)) {
                return Err(MemoryShortage::CachedClips);
            }
            self.stats.add(|s| s.clips_evicted += 1);
        }
    }

    /// Whether suspended decoders and cached clips take memory from each other.
    fn decoders_share_budget(&self) -> bool {
        Arc::ptr_eq(&self.budget, &self.decoder_budget)
    }

    /// Takes the suspended task with the earliest deadline among those that hold a decoder.
    pub(super) fn take_task_with_decoder(&self) -> Option<Box<T>> {
        let mut state = self.lock();
        let holding = state
            .suspended
            .iter()
            .enumerate()
            .filter(|(_, task)| task.holds_decoder());
        let (at, _) = holding.min_by_key(|(_, task)| task.earliest_request())?;
        let task = state.resume(at);
        self.notify(&state);
        Some(task)
    }

    /// Reserves bytes of the memory budget for a clip of a later epoch, unless too much is in use:
    /// clips of this epoch need memory, too.
    pub(super) fn reserve_ahead(&self, bytes: usize) -> Option<MemoryReservation> {
        let fits = self.budget.used().saturating_add(bytes as u64)
            <= self.budget.bytes() / LATER_EPOCHS_SHARE;
        fits.then(|| self.budget.reserve(bytes)).flatten()
    }

    /// Records a finished clip.
    pub(super) fn complete_clip(
        &self,
        pass: u64,
        seq: SequenceNumber,
        metadata: ClipMetadata,
        data: ClipData,
    ) {
        self.update(pass, |epoch_state| {
            let was_evicted = epoch_state
                .lookahead
                .get(seq)
                .is_some_and(|entry| std::mem::take(&mut entry.evicted));
            if was_evicted {
                self.stats.add(|s| s.clips_decoded_again += 1);
            }
            match data {
                ClipData::InBatch => epoch_state.store_outcome(seq, Ok((metadata, None))),
                ClipData::Owned(buffer, shape, _)
                    if !epoch_state.same_shape
                        && seq < epoch_state.open_end
                        && self.cached_dtype != Some(shape.dtype) =>
                {
                    epoch_state.store_outcome(seq, Ok((metadata, Some((buffer, shape)))));
                }
                ClipData::Owned(buffer, shape, reserved) => {
                    if self.cached_dtype.is_some_and(|dtype| dtype != shape.dtype) {
                        self.stats.add(|s| s.clips_cached_over_8_bits += 1);
                    }
                    epoch_state.lookahead.cache(
                        seq,
                        CachedClip {
                            metadata,
                            buffer,
                            shape,
                            reserved,
                        },
                    );
                    if seq < epoch_state.open_end {
                        epoch_state.lookahead.pin(seq);
                    }
                }
            }
        });
    }

    /// Records that a clip cannot be made. A clip that is not due is tried again, alone, once it is
    /// due.
    pub(super) fn fail_clip(&self, pass: u64, seq: SequenceNumber, error: Error) {
        self.update(pass, |epoch_state| {
            let due = seq < epoch_state.open_end;
            let Some(entry) = epoch_state.lookahead.get(seq) else {
                return;
            };
            match entry.state {
                RequestState::InProgress if due => epoch_state.store_outcome(seq, Err(error)),
                RequestState::InProgress => {
                    (entry.state, entry.unshared) = (RequestState::Pending, true);
                    entry.stored = false;
                }
                _ => {}
            }
        });
    }

    /// Requeues clip requests that a worker did not process, to be decoded. `unshared`: making them
    /// together with others failed.
    pub(super) fn requeue(&self, pass: u64, requests: Vec<ClipRequest>, unshared: bool) {
        self.requeue_with(pass, requests, |entry| entry.unshared |= unshared);
    }

    /// Requeues clip requests for the workers of one kind.
    pub(super) fn requeue_for(&self, kind: WorkerKind, pass: u64, requests: Vec<ClipRequest>) {
        self.requeue_with(pass, requests, |entry| entry.kind = Some(kind));
    }

    fn requeue_with(
        &self,
        pass: u64,
        requests: Vec<ClipRequest>,
        change: impl Fn(&mut RequestEntry),
    ) {
        if requests.is_empty() {
            return;
        }
        self.update(pass, |epoch_state| {
            for request in requests {
                if let Some(entry) = epoch_state.lookahead.get(request.seq) {
                    // If it was on disk, the store did not have it when a worker looked.
                    (entry.state, entry.stored) = (RequestState::Pending, false);
                    entry.spans = request.spans;
                    entry.slot = entry.slot.take().or(request.slot);
                    change(entry);
                }
            }
        });
    }

    /// Requeues clip requests whose clips are on disk: they are read when they are due.
    pub(super) fn requeue_stored(&self, pass: u64, requests: Vec<ClipRequest>) {
        self.update(pass, |epoch_state| {
            for request in requests {
                if let Some(entry) = epoch_state.lookahead.get(request.seq) {
                    (entry.state, entry.stored) = (RequestState::Pending, true);
                    entry.slot = entry.slot.take().or(request.slot);
                }
            }
        });
    }

    /// Requeues clip requests that were taken ahead of their turn and cannot be made now. No others
    /// are taken until the next batch is opened.
    pub(super) fn requeue_ahead(&self, pass: u64, requests: Vec<ClipRequest>) {
        self.update(pass, |epoch_state| epoch_state.work_ahead_failed = true);
        self.requeue(pass, requests, false);
    }

    fn update(&self, pass: u64, change: impl FnOnce(&mut EpochState)) {
        let mut state = self.lock();
        if let Some(epoch_state) = state.epoch_state.as_mut().filter(|p| p.pass == pass) {
            change(epoch_state);
            self.notify(&state);
        }
    }

    /// Takes a suspended task that makes only clips of later epochs from this video.
    pub(super) fn take_ahead_task(&self, video: u32) -> Option<Box<T>> {
        let mut state = self.lock();
        let is_ahead = |task: &T| task.pass() == ANY_PASS && task.video() == video;
        let at = state.suspended.iter().position(|task| is_ahead(task))?;
        Some(state.resume(at))
    }

    /// Keeps the clip slot of a request whose clip a suspended task makes.
    pub(super) fn keep_slot(&self, pass: u64, request: ClipRequest) {
        self.update(pass, |epoch_state| {
            if let Some(entry) = epoch_state.lookahead.get(request.seq) {
                entry.slot = entry.slot.take().or(request.slot);
            }
        });
    }

    /// Suspends a task until a worker resumes it. Returns the task if the memory budget has no room
    /// for its decoder.
    pub(super) fn suspend(&self, mut task: Box<T>) -> Option<Box<T>> {
        let mut state = self.lock();
        let pass = task.pass();
        let is_current = state.epoch_state.as_ref().is_some_and(|p| p.pass == pass);
        if state.closed || !is_current && pass != ANY_PASS {
            return None;
        }
        // Under the lock: `reserve` must find the task that holds the memory that it lacks.
        if !task.reserve_memory(&self.decoder_budget) {
            return Some(task);
        }
        state.suspended.push(task);
        self.notify(&state);
        None
    }
}
