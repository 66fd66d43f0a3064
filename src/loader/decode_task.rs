//! Decodes one video and writes its frames into several requested clips. Each frame of a decode
//! range is decoded once for all clips, each clip is delivered as soon as it is complete, and a
//! task can be suspended between any two packets.

mod frames;
mod plan;

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use super::ClipMetadata;
use super::budget::{MemoryBudget, MemoryReservation};
use super::catalog::VideoCatalog;
use super::decoder_pool::DecoderPool;
use super::lookahead::SequenceNumber;
use super::pace::{Cost, TaskProgress, WorkerKind};
use super::scheduler::{ANY_PASS, ClipData, ClipRequest, RequestId, Scheduler, SuspendedTask};
use super::stats::{StatsCollector, WorkCounts};
use super::stored_clips::{StoredClips, Ticket};
use crate::batch::OutputMut;
use crate::batch_sampler::SampledClip;
use crate::decode::PacketReader;
use crate::decode::plan::DecodeRange;
use crate::error::{Error, Result, Site};
use crate::index::VideoIndex;
use crate::rng::RngKey;
use crate::source::{check_interrupt, inner_interrupt_scope};
use crate::sync::atomic::Ordering;
use crate::transforms::{
    ClipShape, DeviceLut, Dtype, ElementLut, TransformExecutor, TransformPipeline,
};
use crate::units::DecodeIndex;
use crate::video::{
    AnyDecoder, ClipOutput, DecoderProvider, LazyClipOutput, RangeDecoder, RangeStep,
};

pub(super) use frames::{SlotOutput, fill_padding};
pub(super) use plan::{
    MAX_PACKETS_PER_TASK, MAX_PACKETS_PER_TASK_IN_ORDER, PacketRangeSet, TaskParams, TaskPlan,
    metadata, plan,
};

/// What makes the clips of one view, on one worker.
pub(super) struct ViewTransforms {
    /// Writes clips in the output format.
    pub batch: TransformExecutor,
    /// Writes cached clips, if these have another format than the output.
    pub cached: Option<TransformExecutor>,
    /// Expands clips cached as 8-bit codes into output elements.
    pub expand: Option<ElementLut>,
    pub expand_on_device: Option<DeviceLut>,
    /// The shape of all clips, if they have the same shape.
    pub shape: Option<ClipShape>,
    /// Whether frames past the end of the video are filled with zeros.
    pub pads_with_zeros: bool,
}

impl ViewTransforms {
    pub(super) fn pipeline(&self) -> &TransformPipeline {
        self.batch.pipeline()
    }

    /// The element type of cached clips, if it is not that of the output.
    pub(super) fn cached_dtype(&self) -> Option<Dtype> {
        Some(self.cached.as_ref()?.pipeline().dtype)
    }
}

/// What a worker lends to the task that it runs.
pub(super) struct TaskContext<'a> {
    pub views: &'a mut [ViewTransforms],
    pub scheduler: &'a Arc<Scheduler<DecodeTask>>,
    catalog: &'a VideoCatalog,
    decoders: CountedDecoders<'a>,
    pace: PaceCounter,
}

/// The work of a task since its last report to the scheduler.
struct PaceCounter {
    kind: WorkerKind,
    packets: u64,
    begun: Instant,
}

impl<'a> TaskContext<'a> {
    pub(super) fn new(
        views: &'a mut [ViewTransforms],
        scheduler: &'a Arc<Scheduler<DecodeTask>>,
        catalog: &'a VideoCatalog,
        stats: &'a StatsCollector,
    ) -> Self {
        let decoders = CountedDecoders {
            pool: &scheduler.decoders,
            stats,
            prefers_gpu: false,
            replaces_nvdec: false,
            work: WorkCounts::default(),
        };
        Self {
            views,
            scheduler,
            catalog,
            decoders,
            pace: PaceCounter {
                kind: WorkerKind::Cpu,
                packets: 0,
                begun: Instant::now(),
            },
        }
    }

    fn stats(&self) -> &'a StatsCollector {
        self.decoders.stats
    }
}

/// The decoders of the loader, with the work that they have done for a task and that is not in the
/// statistics yet.
struct CountedDecoders<'a> {
    pool: &'a DecoderPool,
    stats: &'a StatsCollector,
    prefers_gpu: bool,
    /// Whether the CPU decodes what NVDEC cannot decode.
    replaces_nvdec: bool,
    work: WorkCounts,
}

impl DecoderProvider for CountedDecoders<'_> {
    fn prefers_gpu(&self) -> bool {
        self.prefers_gpu
    }

    fn acquire(&mut self, index: &Arc<VideoIndex>, on_gpu: bool) -> AnyDecoder {
        self.pool.acquire(index, on_gpu)
    }

    fn release(&mut self, mut decoder: AnyDecoder, is_fallback: bool) {
        self.work
            .take(&mut decoder, is_fallback || self.replaces_nvdec);
        self.pool.release(decoder);
    }

    fn keeps_gpu_decoder(&self, index: &VideoIndex) -> bool {
        !self.pool.backends().has_failed(index)
    }

    fn record_fallback(&mut self, index: &VideoIndex, error: &Error, began: bool) {
        self.pool
            .backends()
            .record_cpu_fallback(index, error, began, self.stats);
    }
}

/// Where the frames of a clip are written.
pub(super) enum ClipDestination {
    /// Into its clip slot of the batch buffer.
    BatchSlot(SlotOutput),
    /// Into a buffer of its own, for the clip cache or for a batch of clips that differ in shape.
    Cache(LazyClipOutput, Option<MemoryReservation>),
}

impl ClipOutput for ClipDestination {
    /// # Errors
    /// `Argument` if the clip is larger than its reservation: its frames do not have the size that
    /// the container states.
    fn target(&mut self, shape: &ClipShape) -> Result<OutputMut<'_>> {
        match self {
            Self::BatchSlot(output) => output.target(shape),
            Self::Cache(_, Some(reserved))
                if shape.bytes().is_none_or(|b| b as u64 > reserved.bytes()) =>
            {
                Err(Error::Argument(
                    "larger than what was reserved for it".into(),
                ))
            }
            Self::Cache(output, _) => output.target(shape),
        }
    }

    fn shape(&self) -> Option<ClipShape> {
        match self {
            Self::BatchSlot(output) => output.shape(),
            Self::Cache(output, _) => output.shape(),
        }
    }
}

/// A clip that is being made.
pub(super) struct Clip {
    /// `MAX` without a request: the clip is of a later epoch.
    pub seq: SequenceNumber,
    pub sampled: SampledClip,
    pub is_due: bool,
    pub key: RngKey,
    /// Number of its view.
    pub view: usize,
    pub metadata: ClipMetadata,
    pub destination: ClipDestination,
    /// Where the clip is stored, if it was of a later epoch when its task was planned.
    ticket: Option<Ticket>,
    shape: Option<ClipShape>,
    /// Number of frames that are not written yet.
    frames_remaining: usize,
    /// Packets that its frames are decoded from.
    packets: Vec<DecodeIndex>,
}

impl Clip {
    fn is_requested(&self) -> bool {
        self.seq != SequenceNumber::MAX
    }

    fn into_request(self) -> ClipRequest {
        let slot = match self.destination {
            ClipDestination::BatchSlot(output) => Some(output.slot),
            ClipDestination::Cache(..) => None,
        };
        ClipRequest {
            seq: self.seq,
            sampled: self.sampled,
            slot,
            is_due: self.is_due,
            spans: Vec::new(),
        }
    }
}

/// The outcome of running a task.
pub(super) enum Progress {
    /// No decode range is left.
    Done,
    /// Another clip request has an earlier deadline.
    Preempted,
    /// Workers of this kind have to make the clips: NVDEC makes them sooner and the consumer waits,
    /// or NVDEC does not decode them.
    MovedTo(WorkerKind),
}

/// Decodes clips of one video; holds the decoder and its position.
pub(super) struct DecodeTask {
    pass: u64,
    epoch: u64,
    /// The item that identifies the file.
    video: u32,
    kind: WorkerKind,
    /// The kind of worker to which the task was given because the other one cannot make its clips.
    fixed_kind: Option<WorkerKind>,
    index: Arc<VideoIndex>,
    reader: PacketReader,
    /// The reader's byte count when it was last added to the statistics.
    bytes_counted: u64,
    /// Decodes the current range.
    decoder: RangeDecoder,
    /// Packets of the current range, and how many of them are left.
    range_packets: (u64, u64),
    /// Decode ranges that have not begun, earliest deadline first.
    ranges: VecDeque<DecodeRange>,
    clips: Vec<Option<Clip>>,
    /// For each packet, the frames that it yields: (clip, position in the clip).
    wanted: HashMap<DecodeIndex, Vec<(usize, usize)>>,
    /// Reservation for its decoder's memory while the task is suspended.
    suspended: Option<MemoryReservation>,
    /// Whether the current decode range is finished before the task is suspended again: cached
    /// clips need the memory of its decoder.
    pub finishes_range: bool,
}

impl SuspendedTask for DecodeTask {
    fn pass(&self) -> u64 {
        match self.earliest_request() {
            SequenceNumber::MAX => ANY_PASS,
            _ => self.pass,
        }
    }

    fn earliest_request(&self) -> SequenceNumber {
        self.clips
            .iter()
            .flatten()
            .map(|c| c.seq)
            .min()
            .unwrap_or(SequenceNumber::MAX)
    }

    fn reserve_memory(&mut self, budget: &Arc<MemoryBudget>) -> bool {
        if !self.decoder.is_in_range() {
            return true;
        }
        self.suspended = budget.reserve(self.decoder_bytes());
        self.suspended.is_some()
    }

    fn holds_decoder(&self) -> bool {
        self.suspended.is_some()
    }

    fn release_memory(&mut self) {
        self.suspended = None;
    }

    fn video(&self) -> u32 {
        self.video
    }

    fn kind(&self) -> WorkerKind {
        self.kind
    }

    fn requests(&self) -> Vec<RequestId> {
        let requested = self
            .clips
            .iter()
            .flatten()
            .filter(|clip| clip.is_requested());
        let id = |clip: &Clip| RequestId {
            pass: self.pass,
            seq: clip.seq,
            clip: clip.sampled.clip,
        };
        requested.map(id).collect()
    }
}

impl DecodeTask {
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Gives a request to a clip that was of a later epoch: the epoch has begun, and the task has
    /// not made the clip yet. The clip may have been planned for another request whose frames are
    /// the same, such as one of an overlapping segment: all but its frames is that of the request.
    /// Returns whether there is such a clip.
    pub(super) fn adopt(
        &mut self,
        (pass, epoch): (u64, u64),
        digest: u128,
        request: &ClipRequest,
        (key, metadata): (RngKey, ClipMetadata),
    ) -> bool {
        let has_key = |clip: &&mut Clip| clip.ticket.is_some_and(|ticket| ticket.key == digest);
        let mut waiting = self
            .clips
            .iter_mut()
            .flatten()
            .filter(|clip| !clip.is_requested());
        let Some(clip) = waiting.find(has_key) else {
            return false;
        };
        (clip.seq, clip.sampled, clip.is_due) = (request.seq, request.sampled, request.is_due);
        (clip.key, clip.metadata) = (key, metadata);
        (self.pass, self.epoch) = (pass, epoch);
        // The ranges that this clip needs come first.
        let needed = &clip.packets;
        let (first, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.ranges)
            .into_iter()
            .partition(|range| {
                range
                    .wanted
                    .iter()
                    .any(|at| needed.binary_search(at).is_ok())
            });
        self.ranges = first.into_iter().chain(later).collect();
        true
    }

    /// Whether a CPU worker makes clips that NVDEC could make.
    fn may_move_to_nvdec(&self, scheduler: &Scheduler<Self>) -> bool {
        scheduler.has_both_kinds && self.kind == WorkerKind::Cpu && self.fixed_kind.is_none()
    }

    /// Whether NVDEC does not decode the range that has just begun, so that CPU workers are for it.
    fn is_left_to_cpu(&self, scheduler: &Scheduler<Self>) -> bool {
        scheduler.has_both_kinds && self.kind == WorkerKind::Nvdec && !self.decoder.is_on_gpu()
    }

    /// What a number of packets costs.
    fn cost(&self, packets: u64) -> Cost {
        let params = &self.index.info.params;
        packets * u64::from(params.width.div_ceil(16)) * u64::from(params.height.div_ceil(16))
    }

    /// What the task costs, and what its first clip costs, before it has begun.
    pub(super) fn costs(&self) -> (Cost, Cost) {
        let due = self.earliest_request();
        let first = self.clips.iter().flatten().find(|clip| clip.seq == due);
        let is_needed = |range: &&DecodeRange| {
            let is_wanted = |at| range.wanted.binary_search(at).is_ok();
            first.is_some_and(|clip| clip.packets.iter().any(is_wanted))
        };
        let packets = |range: &DecodeRange| u64::from(range.packets());
        let whole = self.ranges.iter().map(packets).sum();
        let first = self.ranges.iter().filter(is_needed).map(packets).sum();
        (self.cost(whole), self.cost(first))
    }

    /// Number of clips that batches of this pass wait for.
    pub(super) fn num_requests(&self) -> usize {
        self.clips
            .iter()
            .flatten()
            .filter(|c| c.is_requested())
            .count()
    }

    /// How far the task is, for the decision whether NVDEC makes its clips sooner. `done`: what it
    /// has done since its last report.
    fn progress(&self, done: &PaceCounter) -> TaskProgress {
        let later: u64 = self.ranges.iter().map(|r| u64::from(r.packets())).sum();
        let (whole, left) = self.range_packets;
        TaskProgress {
            done: self.cost(done.packets),
            busy: done.begun.elapsed(),
            remaining: self.cost(left + later),
            whole: self.cost(whole + later),
        }
    }

    /// Returns the reader once the task is done.
    pub(super) fn into_reader(self) -> PacketReader {
        self.reader
    }

    /// Returns all unfinished clips as clip requests, for use when the task cannot continue.
    pub(super) fn into_requests(self) -> Vec<ClipRequest> {
        self.clips
            .into_iter()
            .flatten()
            .filter(|clip| clip.is_requested())
            .map(Clip::into_request)
            .collect()
    }

    /// Estimates the memory of a decoder for this video: its reference frames and the frames that
    /// wait for output.
    pub(super) fn decoder_bytes(&self) -> usize {
        const FRAMES_HELD: usize = 20;
        let params = &self.index.info.params;
        params.width as usize * params.height as usize * 2 * FRAMES_HELD
    }

    /// Decodes until the task is done, or until a clip request with an earlier deadline is available
    /// and `can_suspend` returns true.
    pub(super) fn run(&mut self, mut context: TaskContext<'_>) -> Result<Progress> {
        let context = &mut context;
        context.decoders.prefers_gpu = self.kind == WorkerKind::Nvdec;
        context.decoders.replaces_nvdec = context.scheduler.has_both_kinds
            && self.fixed_kind == Some(WorkerKind::Cpu)
            && !self.index.info.params.codec.is_image;
        self.bytes_counted = self.reader.bytes_read();
        let progress = self.run_inner(context);
        if !matches!(progress, Ok(Progress::Preempted)) {
            self.decoder.release(&mut context.decoders);
        }
        self.count(context);
        progress
    }

    /// Adds the work done since the last call to the statistics.
    fn count(&mut self, context: &mut TaskContext<'_>) {
        let stats = context.stats();
        let replaces_nvdec = context.decoders.replaces_nvdec;
        let work = &mut context.decoders.work;
        let read = self.reader.bytes_read();
        work.bytes_read += read.saturating_sub(self.bytes_counted);
        self.bytes_counted = read;
        if let Some((decoder, is_fallback)) = self.decoder.decoder() {
            work.take(decoder, is_fallback || replaces_nvdec);
        }
        for view in context.views.iter_mut() {
            let report = view.batch.take_report();
            work.decoded_by_gpu += report.decoded;
            stats.record_fallbacks(&report);
            if let Some(cached) = &mut view.cached {
                stats.record_fallbacks(&cached.take_report());
            }
        }
        stats.work(&std::mem::take(work));
        let PaceCounter { kind, packets, .. } = context.pace;
        let begun = std::mem::replace(&mut context.pace.begun, Instant::now());
        context.pace.packets = 0;
        context
            .scheduler
            .record_work(kind, self.cost(packets), begun.elapsed());
    }

    fn run_inner(&mut self, context: &mut TaskContext<'_>) -> Result<Progress> {
        let scheduler = context.scheduler;
        let mut due = self.earliest_request();
        let needed_by = Rc::new(Cell::new(self.pass()));
        let _scope = {
            let (scheduler, needed_by) = (scheduler.clone(), needed_by.clone());
            inner_interrupt_scope(move || scheduler.check(needed_by.get()))
        };
        loop {
            // Clips of later epochs are needed after the end of the pass, too.
            needed_by.set(match due {
                SequenceNumber::MAX => ANY_PASS,
                _ => self.pass,
            });
            check_interrupt()?;
            if scheduler.earliest_deadline(self.kind) < due && self.can_suspend(scheduler) {
                if !self.decoder.is_in_range() {
                    self.decoder.release(&mut context.decoders);
                }
                return Ok(Progress::Preempted);
            }
            if self.may_move_to_nvdec(scheduler)
                && scheduler.is_wanted_by_nvdec(due, || self.progress(&context.pace))
            {
                return Ok(Progress::MovedTo(WorkerKind::Nvdec));
            }
            if !self.decoder.is_in_range() {
                match self.next_range(context) {
                    Ok(true) if self.is_left_to_cpu(scheduler) => {
                        return Ok(Progress::MovedTo(WorkerKind::Cpu));
                    }
                    Ok(true) => {}
                    Ok(false) => return Ok(Progress::Done),
                    Err(error) => {
                        self.fail_range(error, scheduler)?;
                        due = self.earliest_request();
                        continue;
                    }
                }
            }
            // A step may replace the decoder of the frames that it writes.
            let (on_gpu, verifies_at_end) =
                (self.decoder.is_on_gpu(), self.decoder.verifies_at_end());
            context.pace.kind = match on_gpu {
                true => WorkerKind::Nvdec,
                false => WorkerKind::Cpu,
            };
            context.pace.packets += 1;
            self.range_packets.1 = self.range_packets.1.saturating_sub(1);
            let mut written = Vec::new();
            let step = self.step(context, &mut written);
            if matches!(step, Ok(RangeStep::Distrusted(_))) {
                written.clear();
            }
            let finished = self.record_frames(written, (on_gpu, verifies_at_end), context);
            match step {
                Ok(RangeStep::More | RangeStep::Done) => {}
                Err(error) | Ok(RangeStep::Distrusted(error)) => {
                    self.fail_range(error, scheduler)?;
                }
            }
            if !self.decoder.is_in_range() {
                self.deliver_finished(context);
            }
            if finished || !self.decoder.is_in_range() {
                due = self.earliest_request();
            }
        }
    }

    /// Processes one packet of the current range; appends the outcome of each frame that is written
    /// to a clip.
    fn step(
        &mut self,
        context: &mut TaskContext<'_>,
        written: &mut Vec<(usize, Result<()>)>,
    ) -> Result<RangeStep> {
        let Self {
            decoder,
            reader,
            index,
            clips,
            wanted,
            ..
        } = self;
        let TaskContext {
            views,
            scheduler,
            decoders,
            ..
        } = context;
        decoder.step(reader, decoders, &mut |packet, mut picture| {
            if picture.is_deep() && views.iter().any(|view| view.cached.is_some()) {
                scheduler.has_high_bit_depth.store(true, Ordering::Relaxed);
            }
            let targets = &wanted[&packet];
            written.extend(frames::apply_transforms(
                views,
                index,
                clips,
                targets,
                &mut picture,
            ));
            Ok(())
        })
    }

    /// Returns whether the task can be suspended. Suspended tasks hold open files, so their number
    /// is limited. A task suspended within a decode range also holds a decoder, whose memory must
    /// fit into the budget when it is suspended.
    fn can_suspend(&mut self, scheduler: &Scheduler<DecodeTask>) -> bool {
        self.finishes_range &= self.decoder.is_in_range();
        if self.finishes_range || !scheduler.can_suspend_another() {
            return false;
        }
        !self.decoder.is_in_range() || scheduler.decoder_budget.has_room(self.decoder_bytes())
    }

    /// Begins the next decode range that an unfinished clip needs. Returns false if there is none.
    fn next_range(&mut self, context: &mut TaskContext<'_>) -> Result<bool> {
        while let Some(mut range) = self.ranges.pop_front() {
            let (clips, wanted) = (&self.clips, &self.wanted);
            let targets = |at: &DecodeIndex| {
                let clips_of_frame = wanted[at].iter().map(|&(number, _)| number);
                clips_of_frame.filter(|&number| clips[number].is_some())
            };
            range.wanted.retain(|at| targets(at).next().is_some());
            if range.wanted.is_empty() {
                continue;
            }
            let mut sharing: Vec<usize> = range.wanted.iter().flat_map(targets).collect();
            sharing.sort_unstable();
            sharing.dedup();
            if sharing.len() > 1 {
                context.stats().add(|s| s.gops_shared += 1);
            }
            let wanted = std::mem::take(&mut range.wanted);
            let range = DecodeRange::remaining(&range, wanted, &self.index);
            self.range_packets = (range.packets().into(), range.packets().into());
            self.decoder
                .begin(&self.index, range, &mut context.decoders)?;
            let mut views = context.views.iter();
            views.try_for_each(|view| view.pipeline().prepare(&mut self.reader))?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Handles an error in the current decode range. Unfinished clips with frames in the range are
    /// requeued to be made alone, so that their outcome does not depend on the clips that shared
    /// the range, and no batch waits for them forever.
    fn fail_range(&mut self, error: Error, scheduler: &Scheduler<DecodeTask>) -> Result<()> {
        if matches!(error, Error::Interrupted) {
            return Err(error);
        }
        let Some(range) = self.decoder.take_range() else {
            return Err(error);
        };
        let mut failed = Vec::new();
        for clip in &mut self.clips {
            let needs_range = |c: &Clip| {
                c.packets
                    .iter()
                    .any(|at| range.wanted.binary_search(at).is_ok())
            };
            if let Some(clip) = clip.take_if(|c| needs_range(c)) {
                failed.extend(clip.is_requested().then(|| clip.into_request()));
            }
        }
        scheduler.requeue(self.pass, failed, true);
        Ok(())
    }

    /// Counts the written frames and delivers complete clips. Returns whether a clip became
    /// complete or failed.
    fn record_frames(
        &mut self,
        written: Vec<(usize, Result<()>)>,
        (on_gpu, verifies_at_end): (bool, bool),
        context: &mut TaskContext<'_>,
    ) -> bool {
        let mut changed = false;
        let mut complete = Vec::new();
        for (number, result) in written {
            let entry = &mut self.clips[number];
            let Some(clip) = entry else { continue };
            if let Err(error) = result {
                if on_gpu && matches!(error, Error::Unsupported { .. }) {
                    context.decoders.record_fallback(&self.index, &error, true);
                }
                let failed = entry
                    .take()
                    .filter(|clip| clip.is_requested())
                    .map(Clip::into_request);
                context
                    .scheduler
                    .requeue(self.pass, failed.into_iter().collect(), true);
                changed = true;
                continue;
            }
            clip.frames_remaining -= 1;
            if clip.frames_remaining == 0 && !verifies_at_end {
                changed = true;
                complete.push(number);
            }
        }
        self.finish(complete, context);
        changed
    }

    /// Delivers the complete clips that waited for the end of the decode range.
    fn deliver_finished(&mut self, context: &mut TaskContext<'_>) {
        let is_whole = |&at: &usize| {
            self.clips[at]
                .as_ref()
                .is_some_and(|clip| clip.frames_remaining == 0)
        };
        let complete = (0..self.clips.len()).filter(is_whole).collect();
        self.finish(complete, context);
    }

    /// Delivers complete clips. Updates the statistics first, because they must include a batch's
    /// work by the time the batch can be taken.
    fn finish(&mut self, complete: Vec<usize>, context: &mut TaskContext<'_>) {
        if !complete.is_empty() {
            self.count(context);
        }
        // Clips for the store first: with the report of a clip its epoch may end, and the next one
        // requests them.
        let is_requested = |&at: &usize| self.clips[at].as_ref().is_some_and(Clip::is_requested);
        let (requested, stored): (Vec<usize>, Vec<usize>) =
            complete.into_iter().partition(is_requested);
        for at in stored.into_iter().chain(requested) {
            let Some(clip) = self.clips[at].take() else {
                continue;
            };
            let seq = clip.seq;
            let finish = || finish(clip, (&self.index.site, self.pass), context);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(finish)) {
                // The task no longer has the clip, so nothing else would end its request.
                let error = Error::of_panic(self.index.site.clone(), &*panic);
                context.scheduler.fail_clip(self.pass, seq, error);
                resume_unwind(panic);
            }
        }
    }
}

impl WorkCounts {
    fn take(&mut self, decoder: &mut AnyDecoder, is_fallback: bool) {
        let (counts, times) = decoder.take_stats();
        match decoder.is_hardware() {
            true => self.decoded_by_gpu += counts.frames_decoded,
            false if is_fallback => self.decoded_by_fallback += counts.frames_decoded,
            false => {}
        }
        self.counts += counts;
        self.times += times;
    }
}

/// Delivers one complete clip.
fn finish(mut clip: Clip, (site, pass): (&Site, u64), context: &mut TaskContext<'_>) {
    let (scheduler, stats) = (context.scheduler, context.stats());
    let view = &mut context.views[clip.view];
    let executor = &mut view.batch;
    let seq = clip.seq;
    if clip.is_requested() {
        match context.catalog.audio_of(&clip.metadata, clip.key, stats) {
            Ok(audio) => clip.metadata.audio = audio,
            // Making it alone reports the error, or replaces the clip.
            Err(_) => return scheduler.requeue(pass, vec![clip.into_request()], true),
        }
    }
    let mask = &clip.metadata.mask;
    let padded = if view.pads_with_zeros {
        fill_padding(&mut clip.destination, mask, executor)
    } else {
        Ok(())
    };
    let pixels = padded.and_then(|()| match clip.destination {
        ClipDestination::BatchSlot(mut output) => {
            let write_recorded = output.slot.record_write();
            drop(output); // before the report: the batch buffer freezes only without live slots
            write_recorded.map(|()| Some(ClipData::InBatch))
        }
        ClipDestination::Cache(output, reserved) => Ok(output
            .into_clip()?
            .map(|(buffer, shape)| ClipData::Owned(buffer, shape, reserved))),
    });
    if let Some(ticket) = clip.ticket {
        if let Some(stored) = &scheduler.stored
            && let Err(error) = store(stored, ticket, &pixels, site, executor)
        {
            stored.store.count_not_stored();
            stats.record_stored_clip_fallback(&error);
        }
        if seq == SequenceNumber::MAX {
            return;
        }
    }
    match pixels {
        Ok(Some(pixels)) => scheduler.complete_clip(pass, seq, clip.metadata, pixels),
        Ok(None) => {} // a clip without frames: the clip sampler yields none
        Err(error) => scheduler.fail_clip(pass, seq, error),
    }
}

/// Stores a clip of a later epoch.
///
/// # Errors
/// `Gpu` if the clip cannot be copied from the device.
fn store(
    stored: &StoredClips,
    ticket: Ticket,
    pixels: &Result<Option<ClipData>>,
    site: &Site,
    executor: &mut TransformExecutor,
) -> Result<()> {
    let Some(ClipData::Owned(buffer, shape, _)) = pixels.as_ref().map_err(Error::clone)? else {
        return Ok(());
    };
    let put = |bytes: &[u8]| stored.put(ticket, shape, bytes);
    match buffer.bytes() {
        Some(bytes) => put(bytes),
        // The worker waits for the copy. It is short, since nothing of the clip is left to decode,
        // and other workers use the decoders meanwhile. The clip's memory is free afterwards.
        None => executor.download_clip(site, buffer, put)?,
    }
    Ok(())
}
