//! Decodes one video and writes its frames into several requested clips. Each frame of a decode
//! range is decoded once for all clips, each clip is delivered as soon as it is complete, and a
//! task can be suspended between any two packets.

mod frames;
mod plan;

use crate::source::{check_interrupt, inner_interrupt_scope};
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use super::ClipMetadata;
use super::budget::MemoryReservation;
use super::lookahead::SequenceNumber;
use super::scheduler::ANY_ITERATION;
use super::scheduler::{ClipData, ClipRequest, Scheduler, SuspendedTask};
use super::stats::{StatsCollector, WorkCounts};
use super::stored_clips::{StoredClips, Ticket};
use crate::batch_sampler::SampledClip;
use crate::decode::PacketReader;
use crate::decode::Step;
use crate::decode::plan::DecodeRange;
use crate::error::{Error, Result, Site};
use crate::index::VideoIndex;
use crate::rng::RngKey;
use crate::sync::atomic::Ordering;
use crate::transforms::{ClipShape, TransformExecutor};
use crate::units::DecodeIndex;
use crate::video::{AnyDecoder, ClipOutput, LazyClipOutput};

pub(super) use frames::{SlotOutput, fill_padding};
pub(super) use plan::{
    MAX_PACKETS_PER_TASK, MAX_PACKETS_PER_TASK_IN_ORDER, PacketRangeSet, TaskParams, TaskPlan,
    metadata, plan,
};

/// The transform executors of one worker.
pub(super) struct TransformExecutors {
    /// Writes clips in the output format.
    pub batch: TransformExecutor,
    /// Writes cached clips, if these have another format than the output.
    pub cached: Option<TransformExecutor>,
    /// Whether the worker decodes on the GPU.
    pub on_gpu: bool,
}

/// Where the frames of a clip are written.
pub(super) enum ClipDestination {
    /// Into its clip slot of the batch buffer.
    BatchSlot(SlotOutput),
    /// Into a buffer of its own, for the clip cache or for a batch of clips that differ in shape.
    Cache(LazyClipOutput, Option<MemoryReservation>),
}

impl ClipDestination {
    /// # Errors
    /// `Argument` if the clip is larger than its reservation: its frames do not have the size that
    /// the container states.
    fn check_reservation(&self, shape: &ClipShape) -> Result<()> {
        match self {
            ClipDestination::Cache(_, Some(cached))
                if shape.bytes().is_none_or(|b| b as u64 > cached.bytes()) =>
            {
                Err(Error::Argument(
                    "larger than what was reserved for it".into(),
                ))
            }
            _ => Ok(()),
        }
    }

    fn output(&mut self) -> &mut dyn ClipOutput {
        match self {
            ClipDestination::BatchSlot(output) => output,
            ClipDestination::Cache(output, _) => output,
        }
    }
}

/// A clip that is being made.
pub(super) struct Clip {
    /// `MAX` without a request: the clip is of a later epoch.
    pub seq: SequenceNumber,
    pub slot: SampledClip,
    pub due: bool,
    pub key: RngKey,
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
        let buffer_slot = match self.destination {
            ClipDestination::BatchSlot(output) => Some(output.buffer_slot),
            ClipDestination::Cache(..) => None,
        };
        ClipRequest {
            seq: self.seq,
            slot: self.slot,
            buffer_slot,
            due: self.due,
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
}

/// Decodes clips of one video; holds the decoder and its position.
pub(super) struct DecodeTask {
    iteration: u64,
    epoch: u64,
    /// The item that identifies the file.
    video: u32,
    index: Arc<VideoIndex>,
    reader: PacketReader,
    /// The reader's byte count when it was last added to the statistics.
    bytes_counted: u64,
    decoder: Option<AnyDecoder>,
    /// The GPU confused frames of this video, so it decodes none of it any more.
    cpu_only: bool,
    /// A CPU decoder is used in place of one of the GPU.
    is_fallback: bool,
    /// Decode ranges that have not begun, earliest deadline first.
    ranges: VecDeque<DecodeRange>,
    /// The decode range that the decoder is in.
    current: Option<DecodeRange>,
    clips: Vec<Option<Clip>>,
    /// For each packet, the frames that it yields: (clip, position in the clip).
    wanted: HashMap<DecodeIndex, Vec<(usize, usize)>>,
    /// Whether frames past the end of the video are filled with zeros.
    pads_with_zeros: bool,
    /// Reservation for its decoder's memory while the task is suspended.
    suspended: Option<MemoryReservation>,
    /// Whether the current decode range is finished before the task is suspended again: cached
    /// clips need the memory of its decoder.
    pub finishes_range: bool,
}

impl SuspendedTask for DecodeTask {
    fn iteration(&self) -> u64 {
        match self.due() {
            SequenceNumber::MAX => ANY_ITERATION,
            _ => self.iteration,
        }
    }

    fn due(&self) -> SequenceNumber {
        self.clips
            .iter()
            .flatten()
            .map(|c| c.seq)
            .min()
            .unwrap_or(SequenceNumber::MAX)
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

    fn requests(&self) -> Vec<(u64, SequenceNumber, u64)> {
        let requested = self
            .clips
            .iter()
            .flatten()
            .filter(|clip| clip.is_requested());
        requested
            .map(|c| (self.iteration, c.seq, c.slot.clip))
            .collect()
    }
}

impl DecodeTask {
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Gives a request to a clip that was of a later epoch: the epoch has begun, and the task has
    /// not made the clip yet. Returns whether there is such a clip.
    pub fn adopt(
        &mut self,
        (iteration, epoch): (u64, u64),
        key: u128,
        request: &ClipRequest,
    ) -> bool {
        let has_key = |clip: &&mut Clip| clip.ticket.is_some_and(|ticket| ticket.key == key);
        let mut waiting = self
            .clips
            .iter_mut()
            .flatten()
            .filter(|clip| !clip.is_requested());
        let Some(clip) = waiting.find(has_key) else {
            return false;
        };
        (clip.seq, clip.slot, clip.due) = (request.seq, request.slot, request.due);
        clip.metadata.padding = request.slot.padding;
        (self.iteration, self.epoch) = (iteration, epoch);
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

    /// Returns the reader once the task is done.
    pub fn into_reader(self) -> PacketReader {
        self.reader
    }

    /// Returns all unfinished clips as clip requests, for use when the task cannot continue.
    pub fn into_requests(self) -> Vec<ClipRequest> {
        self.clips
            .into_iter()
            .flatten()
            .filter(|clip| clip.is_requested())
            .map(Clip::into_request)
            .collect()
    }

    /// Estimates the memory of a decoder for this video: its reference frames and the frames that
    /// wait for output.
    pub fn decoder_bytes(&self) -> usize {
        const FRAMES_HELD: usize = 20;
        let params = &self.index.info.params;
        params.width as usize * params.height as usize * 2 * FRAMES_HELD
    }

    /// Decodes until the task is done, or until a clip request with an earlier deadline is
    /// available and `can_suspend` returns true.
    pub fn run(
        &mut self,
        executors: &mut TransformExecutors,
        scheduler: &Arc<Scheduler<DecodeTask>>,
        stats: &StatsCollector,
    ) -> Result<Progress> {
        self.bytes_counted = self.reader.bytes_read();
        let mut work = WorkCounts::default();
        let progress = self.run_inner(executors, scheduler, stats, &mut work);
        self.count(&mut work, executors, stats);
        if !matches!(progress, Ok(Progress::Preempted)) {
            self.decoder
                .take()
                .into_iter()
                .for_each(|d| scheduler.recycle_decoder(d));
        }
        progress
    }

    /// Adds the work done since the last call to the statistics.
    fn count(
        &mut self,
        work: &mut WorkCounts,
        executors: &mut TransformExecutors,
        stats: &StatsCollector,
    ) {
        let read = self.reader.bytes_read();
        work.bytes_read += read.saturating_sub(self.bytes_counted);
        self.bytes_counted = read;
        if let Some(decoder) = &mut self.decoder {
            work.take(decoder, self.is_fallback);
        }
        let report = executors.batch.take_report();
        work.decoded_by_gpu += report.decoded;
        stats.record_fallbacks(&report);
        if let Some(cached) = &mut executors.cached {
            stats.record_fallbacks(&cached.take_report());
        }
        stats.work(&std::mem::take(work));
    }

    fn run_inner(
        &mut self,
        executors: &mut TransformExecutors,
        scheduler: &Arc<Scheduler<DecodeTask>>,
        stats: &StatsCollector,
        work: &mut WorkCounts,
    ) -> Result<Progress> {
        let mut due = self.due();
        let needed_by = Rc::new(Cell::new(self.iteration()));
        let _scope = {
            let (scheduler, needed_by) = (scheduler.clone(), needed_by.clone());
            inner_interrupt_scope(move || scheduler.check(needed_by.get()))
        };
        loop {
            // Clips of later epochs are needed after the end of the pass, too.
            needed_by.set(if due == SequenceNumber::MAX {
                ANY_ITERATION
            } else {
                self.iteration
            });
            check_interrupt()?;
            if scheduler.earliest_deadline() < due && self.can_suspend(scheduler) {
                if self.current.is_none()
                    && let Some(mut decoder) = self.decoder.take()
                {
                    work.take(&mut decoder, self.is_fallback);
                    scheduler.recycle_decoder(decoder);
                }
                return Ok(Progress::Preempted);
            }
            if self.current.is_none() {
                match self.next_range(executors, scheduler, stats) {
                    Ok(true) => {}
                    Ok(false) => return Ok(Progress::Done),
                    Err(error) => {
                        self.fail_range(error, scheduler)?;
                        due = self.due();
                        continue;
                    }
                }
            }
            let Self {
                decoder,
                reader,
                index,
                clips,
                wanted,
                ..
            } = self;
            let decoder = decoder.as_mut().expect("set when the decode pass started");
            let mut written = Vec::new();
            let step = decoder.step(reader, &mut |packet, mut picture| {
                let targets = &wanted[&packet];
                if executors.cached.is_some() && picture.is_deep() {
                    scheduler.has_high_bit_depth.store(true, Ordering::Relaxed);
                }
                written.extend(frames::apply_transforms(
                    executors,
                    index,
                    clips,
                    targets,
                    &mut picture,
                ));
                Ok(())
            });
            // Frames of a step in which the GPU notices damage, or that it confused frames, are not
            // used.
            if matches!(step, Err(Error::Decode { .. } | Error::Internal { .. }))
                && decoder.is_hardware()
            {
                written.clear();
            }
            let finished = self.record_frames(written, executors, scheduler, stats, work);
            match step {
                Ok(Step::More) => {}
                Ok(Step::Done) => self.current = None,
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => {
                    if let Err(error) = self.fall_back_to_cpu(error, scheduler, stats, work) {
                        self.fail_range(error, scheduler)?;
                    }
                }
            }
            if self.current.is_none() {
                self.deliver_finished(executors, scheduler, stats, work);
            }
            if finished || self.current.is_none() {
                due = self.due();
            }
        }
    }

    /// Returns whether the task can be suspended. Suspended tasks hold open files, so their number
    /// is limited. A task suspended within a decode range also holds a decoder, whose memory must
    /// fit into the budget.
    fn can_suspend(&mut self, scheduler: &Scheduler<DecodeTask>) -> bool {
        self.finishes_range &= self.current.is_some();
        if self.finishes_range || !scheduler.can_suspend_another() {
            return false;
        }
        if self.current.is_none() || self.suspended.is_some() {
            return true;
        }
        self.suspended = scheduler.decoder_budget.reserve(self.decoder_bytes());
        self.suspended.is_some()
    }

    /// Begins the next decode range that an unfinished clip needs. Returns false if there is none.
    fn next_range(
        &mut self,
        executors: &TransformExecutors,
        scheduler: &Scheduler<DecodeTask>,
        stats: &StatsCollector,
    ) -> Result<bool> {
        while let Some(mut range) = self.ranges.pop_front() {
            let (clips, wanted) = (&self.clips, &self.wanted);
            let targets = |at: &DecodeIndex| {
                wanted[at]
                    .iter()
                    .map(|w| w.0)
                    .filter(|&c| clips[c].is_some())
            };
            range.wanted.retain(|at| targets(at).next().is_some());
            let Some(&last) = range.wanted.last() else {
                continue;
            };
            let mut clips: Vec<usize> = range.wanted.iter().flat_map(targets).collect();
            clips.sort_unstable();
            clips.dedup();
            if clips.len() > 1 {
                stats.add(|s| s.gops_shared += 1);
            }
            let ends = range
                .wanted
                .iter()
                .map(|&at| self.index.last_packet_of_picture(at))
                .max();
            range.end = ends.unwrap_or(last);
            let index = &self.index;
            let on_gpu = executors.on_gpu && !self.cpu_only;
            if self.decoder.is_none() {
                let decoder = scheduler.decoder(index, on_gpu);
                self.is_fallback =
                    self.cpu_only || (on_gpu && matches!(decoder, AnyDecoder::Software(_)));
                self.decoder = Some(decoder);
            }
            let decoder = self.decoder.as_mut().expect("set above");
            self.current = Some(range.clone());
            executors.batch.pipeline().prepare(&mut self.reader)?;
            match decoder.begin(index, range.clone()) {
                Err(error @ (Error::Unsupported { .. } | Error::Gpu { lost: false, .. }))
                    if decoder.is_hardware() =>
                {
                    scheduler
                        .backends
                        .record_cpu_fallback(index, &error, false, stats);
                    self.decoder
                        .take()
                        .into_iter()
                        .for_each(|d| scheduler.recycle_decoder(d));
                    self.is_fallback = true;
                    self.decoder
                        .insert(scheduler.decoder(index, false))
                        .begin(index, range)?;
                }
                begun => begun?,
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Falls back to the CPU for the rest of a decode range that the GPU could not decode. Returns
    /// any other error.
    fn fall_back_to_cpu(
        &mut self,
        error: Error,
        scheduler: &Scheduler<DecodeTask>,
        stats: &StatsCollector,
        work: &mut WorkCounts,
    ) -> Result<()> {
        let left = self
            .decoder
            .as_ref()
            .and_then(|decoder| decoder.remaining_for_cpu(&error));
        let on_gpu = self.decoder.as_ref().is_some_and(AnyDecoder::is_hardware);
        if left.is_some()
            || (on_gpu && matches!(error, Error::Decode { .. } | Error::Internal { .. }))
        {
            scheduler
                .backends
                .record_cpu_fallback(&self.index, &error, true, stats);
        }
        if on_gpu && matches!(error, Error::Internal { .. }) {
            self.cpu_only = true;
            if let Some(mut decoder) = self.decoder.take() {
                work.take(&mut decoder, self.is_fallback);
                scheduler.recycle_decoder(decoder);
            }
        }
        let (Some(left), Some(range)) = (left, &mut self.current) else {
            return Err(error);
        };
        if let Some(mut decoder) = self.decoder.take() {
            work.take(&mut decoder, self.is_fallback);
            scheduler.recycle_decoder(decoder);
        }
        self.is_fallback = true;
        *range = DecodeRange::remaining(range, left, &self.index);
        self.decoder
            .insert(scheduler.decoder(&self.index, false))
            .begin(&self.index, range.clone())
    }

    /// Handles an error in the current decode range. Unfinished clips with frames in the range are
    /// requeued to be made alone, so that their outcome does not depend on the clips that shared
    /// the range, and no batch waits for them forever.
    fn fail_range(&mut self, error: Error, scheduler: &Scheduler<DecodeTask>) -> Result<()> {
        if matches!(error, Error::Interrupted) {
            return Err(error);
        }
        let Some(range) = self.current.take() else {
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
        scheduler.requeue(self.iteration, failed, true);
        Ok(())
    }

    /// Counts the written frames and delivers complete clips. Returns whether a clip became
    /// complete or failed.
    fn record_frames(
        &mut self,
        written: Vec<(usize, Result<()>)>,
        executors: &mut TransformExecutors,
        scheduler: &Scheduler<DecodeTask>,
        stats: &StatsCollector,
        work: &mut WorkCounts,
    ) -> bool {
        let on_gpu = self.decoder.as_ref().is_some_and(AnyDecoder::is_hardware);
        let verifies_at_end = self
            .decoder
            .as_ref()
            .is_some_and(AnyDecoder::verifies_at_end);
        let mut changed = false;
        let mut complete = Vec::new();
        for (number, result) in written {
            let slot = &mut self.clips[number];
            let Some(clip) = slot else { continue };
            if let Err(error) = result {
                if on_gpu && matches!(error, Error::Unsupported { .. }) {
                    scheduler
                        .backends
                        .record_cpu_fallback(&self.index, &error, true, stats);
                }
                let failed = slot
                    .take()
                    .filter(|clip| clip.is_requested())
                    .map(Clip::into_request);
                scheduler.requeue(self.iteration, failed.into_iter().collect(), true);
                changed = true;
                continue;
            }
            clip.frames_remaining -= 1;
            if clip.frames_remaining == 0 && !verifies_at_end {
                changed = true;
                complete.push(number);
            }
        }
        self.finish(complete, executors, scheduler, stats, work);
        changed
    }

    /// Delivers the complete clips that waited for the end of the decode range.
    fn deliver_finished(
        &mut self,
        executors: &mut TransformExecutors,
        scheduler: &Scheduler<DecodeTask>,
        stats: &StatsCollector,
        work: &mut WorkCounts,
    ) {
        let is_whole = |&at: &usize| {
            self.clips[at]
                .as_ref()
                .is_some_and(|clip| clip.frames_remaining == 0)
        };
        let complete = (0..self.clips.len()).filter(is_whole).collect();
        self.finish(complete, executors, scheduler, stats, work);
    }

    /// Delivers complete clips. Updates the statistics first, because they must include a batch's
    /// work by the time the batch can be taken.
    fn finish(
        &mut self,
        complete: Vec<usize>,
        executors: &mut TransformExecutors,
        scheduler: &Scheduler<DecodeTask>,
        stats: &StatsCollector,
        work: &mut WorkCounts,
    ) {
        if !complete.is_empty() {
            self.count(work, executors, stats);
        }
        // Clips for the store first: with the report of a clip its epoch may end, and the next one
        // requests them.
        let is_requested = |&at: &usize| self.clips[at].as_ref().is_some_and(Clip::is_requested);
        let (requested, stored): (Vec<usize>, Vec<usize>) =
            complete.into_iter().partition(is_requested);
        for at in stored.into_iter().chain(requested) {
            if let Some(clip) = self.clips[at].take() {
                finish(
                    clip,
                    self.pads_with_zeros,
                    (&self.index.site, self.iteration),
                    executors,
                    scheduler,
                    stats,
                );
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
fn finish(
    mut clip: Clip,
    pads_with_zeros: bool,
    (site, iteration): (&Site, u64),
    executors: &mut TransformExecutors,
    scheduler: &Scheduler<DecodeTask>,
    stats: &StatsCollector,
) {
    let seq = clip.seq;
    let mask = &clip.metadata.mask;
    let padded = if pads_with_zeros {
        fill_padding(clip.destination.output(), mask, &mut executors.batch)
    } else {
        Ok(())
    };
    let pixels = padded.and_then(|()| match clip.destination {
        ClipDestination::BatchSlot(mut output) => {
            let write_recorded = output.buffer_slot.record_write();
            drop(output); // before the report: the batch buffer freezes only without live slots
            write_recorded.map(|()| Some(ClipData::InBatch))
        }
        ClipDestination::Cache(output, reserved) => Ok(output
            .into_clip()?
            .map(|(buffer, shape)| ClipData::Owned(buffer, shape, reserved))),
    });
    if let Some(ticket) = clip.ticket {
        if let Some(stored) = &scheduler.stored
            && let Err(error) = store(stored, ticket, &pixels, site, &mut executors.batch)
        {
            stored.store.count_not_stored();
            stats.record_stored_clip_fallback(&error);
        }
        if seq == SequenceNumber::MAX {
            return;
        }
    }
    match pixels {
        Ok(Some(pixels)) => scheduler.complete_clip(iteration, seq, clip.metadata, pixels),
        Ok(None) => {} // a clip without frames: the clip sampler yields none
        Err(error) => scheduler.fail_clip(iteration, seq, error),
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
