//! What the scheduler knows, and which request a worker takes next.

use std::collections::VecDeque;

use super::super::ClipOutcome;
use super::super::lookahead::{LookaheadWindow, RequestEntry, RequestState, SequenceNumber};
use super::super::pace::{Pace, WorkerKind};
use super::work::{ClipRequest, PendingBatch, SuspendedTask, VideoRequests, Work};

/// Value of `earliest_deadline` if no due request is available.
pub(super) const NO_DEADLINE: SequenceNumber = SequenceNumber::MAX;

pub(super) struct EpochState {
    pub pass: u64,
    pub epoch: u64,
    pub lookahead: LookaheadWindow,
    pub open: VecDeque<PendingBatch>,
    /// Sequence number just after the last open batch.
    pub open_end: SequenceNumber,
    /// Whether workers ignore the requests of batches that are not open.
    pub lookahead_disabled: bool,
    /// Whether all clips have the same shape, so that each batch has one batch buffer.
    pub same_shape: bool,
    /// Number of requests after the open batches that idle workers take.
    pub work_ahead: u64,
    /// The maximum of that number where it follows from the pace of the workers.
    pub max_work_ahead: u64,
    /// Whether no such request could be made; cleared when the next batch is opened.
    pub work_ahead_failed: bool,
    /// Number of requests after one among which are all that share its decoding.
    pub siblings: u64,
    /// Whether the last request of the pass is visible.
    pub all_visible: bool,
}

pub(super) struct SchedulerState<T> {
    pub closed: bool,
    pub epoch_state: Option<EpochState>,
    /// Suspended decode tasks.
    pub suspended: Vec<Box<T>>,
    /// How fast the workers are, if there are workers of both kinds. Otherwise every worker takes
    /// every request.
    pub pace: Option<Pace>,
    /// Number of workers of each kind that wait for work.
    pub idle: [usize; 2],
}

impl<T: SuspendedTask> SchedulerState<T> {
    /// Whether workers of this kind take a request: one for no kind is for NVDEC.
    pub(super) fn is_for(&self, kind: WorkerKind) -> impl Fn(&RequestEntry) -> bool + use<T> {
        let has_both = self.pace.is_some();
        move |entry| !has_both || entry.stored || entry.kind.unwrap_or(WorkerKind::Nvdec) == kind
    }

    /// The suspended tasks that workers of this kind resume.
    pub(super) fn suspended_for(
        &self,
        kind: WorkerKind,
    ) -> impl Iterator<Item = (SequenceNumber, usize)> {
        let has_both = self.pace.is_some();
        let tasks = self.suspended.iter().enumerate();
        tasks
            .filter(move |(_, task)| !has_both || task.kind() == kind)
            .map(|(at, task)| (task.earliest_request(), at))
    }

    /// The earliest request of an open batch that a worker can take, and the index of the suspended
    /// task that contains it, if any.
    pub(super) fn earliest_request(
        &self,
        kind: WorkerKind,
    ) -> Option<(SequenceNumber, Option<usize>)> {
        let epoch_state = self.epoch_state.as_ref()?;
        let is_for = self.is_for(kind);
        let ready = |(_, e): &(SequenceNumber, &RequestEntry)| match e.state {
            RequestState::Pending => is_for(e),
            RequestState::Cached(_) => true,
            _ => false,
        };
        let waiting = epoch_state
            .lookahead
            .until(epoch_state.open_end)
            .find(ready)
            .map(|(seq, _)| (seq, None));
        let suspended = self
            .suspended_for(kind)
            .filter(|(due, _)| *due < epoch_state.open_end)
            .min()
            .map(|(due, at)| (due, Some(at)));
        waiting.into_iter().chain(suspended).min()
    }

    /// The request that a worker takes if none is due for it: one after the open batches; next to
    /// NVDEC, for a CPU worker the first one that it finishes before NVDEC would.
    pub(super) fn next_ahead(&self, kind: WorkerKind, has_room: bool) -> Option<SequenceNumber> {
        let epoch_state = self.epoch_state.as_ref()?;
        let until = match has_room {
            true => epoch_state.ahead_until(self.pace.as_ref()),
            false => epoch_state.open_end,
        };
        let lookahead = &epoch_state.lookahead;
        let is_for = self.is_for(kind);
        let ahead = lookahead
            .pending(epoch_state.open_end..until)
            .find(|(_, entry)| is_for(entry))
            .map(|(seq, _)| seq);
        let (Some(pace), WorkerKind::Cpu) = (&self.pace, kind) else {
            return ahead;
        };
        // Requests of a video are made together, so its first one decides.
        let is_nvdec = self.is_for(WorkerKind::Nvdec);
        let later = lookahead
            .pending(lookahead.first()..until)
            .filter(|(_, entry)| is_nvdec(entry))
            .skip(usize::try_from(pace.lead(None)).unwrap_or(usize::MAX))
            .find(|(seq, entry)| {
                entry.kind.is_none() && lookahead.pending_of(entry.video).next() == Some(*seq)
            })
            .map(|(seq, _)| seq);
        ahead.into_iter().chain(later).min()
    }

    /// Removes a suspended task, which the caller runs.
    pub(super) fn resume(&mut self, at: usize) -> Box<T> {
        let mut task = self.suspended.swap_remove(at);
        task.release_memory();
        task
    }

    /// `has_room`: whether the memory budget has room for clips ahead of their turn.
    pub(super) fn pick_work(&mut self, kind: WorkerKind, has_room: bool) -> Option<Work<T>> {
        let (seq, suspended) = self.earliest_request(kind).or_else(|| {
            // No request is due: resume the suspended task with the earliest deadline, or work
            // ahead. Clips of later epochs are last.
            let next = self
                .suspended_for(kind)
                .min()
                .map(|(due, at)| (due, Some(at)));
            let ahead = || self.next_ahead(kind, has_room).map(|seq| (seq, None));
            match next {
                Some((NO_DEADLINE, _)) => ahead().or(next),
                Some(_) => next,
                None => ahead(),
            }
        })?;
        if let Some(at) = suspended {
            return Some(Work::Resume(self.resume(at)));
        }
        let epoch_state = self.epoch_state.as_mut()?;
        let (pass, epoch, open_end) = (epoch_state.pass, epoch_state.epoch, epoch_state.open_end);
        let entry = epoch_state.lookahead.get(seq)?;
        if matches!(entry.state, RequestState::Cached(_)) {
            let slot = entry.slot.take();
            let RequestState::Cached(cached) =
                std::mem::replace(&mut entry.state, RequestState::InProgress)
            else {
                return None;
            };
            return Some(Work::CopyCached {
                pass,
                seq,
                cached,
                slot,
            });
        }
        let (video, unshared, fixed_kind) = (entry.video, entry.unshared, entry.kind);
        let mut seqs = if unshared || entry.stored {
            vec![seq]
        } else {
            let is_taken = |entry: &RequestEntry| match kind {
                WorkerKind::Cpu => entry.kind == fixed_kind,
                WorkerKind::Nvdec => entry.kind != Some(WorkerKind::Cpu),
            };
            epoch_state.lookahead.pending_for_video(video, is_taken)
        };
        if epoch_state.lookahead_disabled {
            // The requests of a batch become visible shortly before the batch is opened. Without
            // lookahead, a worker must not take them that early.
            seqs.retain(|&sibling| sibling < open_end);
        }
        let take = |seq: SequenceNumber| {
            let entry = epoch_state.lookahead.get(seq)?;
            entry.state = RequestState::InProgress;
            let slot = entry.slot.take();
            let spans = std::mem::take(&mut entry.spans);
            Some(ClipRequest {
                seq,
                sampled: entry.sampled,
                slot,
                is_due: seq < open_end,
                spans,
            })
        };
        let requests = seqs.into_iter().filter_map(take).collect();
        Some(Work::Decode(VideoRequests {
            pass,
            epoch,
            video,
            requests,
            unshared,
            fixed_kind,
        }))
    }
}

impl EpochState {
    /// Stores a clip, or the error that prevented it, in its open batch.
    pub(super) fn store_outcome(&mut self, seq: SequenceNumber, outcome: ClipOutcome) {
        if let Some(entry) = self.lookahead.get(seq) {
            entry.state = RequestState::Done;
            entry.slot = None;
        }
        let batch = self.open.iter_mut().rfind(|b| b.first <= seq);
        if let Some(batch) = batch {
            let outcome_slot = batch.clips.get_mut((seq - batch.first) as usize);
            if let Some(outcome_slot) = outcome_slot.filter(|p| p.is_none()) {
                *outcome_slot = Some(outcome);
                batch.clips_remaining -= 1;
            }
        }
    }

    /// The end of the requests after the open batches that idle workers take: with each of them, all
    /// requests that share its decoding are visible, so that they are taken together.
    pub(super) fn ahead_until(&self, pace: Option<&Pace>) -> SequenceNumber {
        let by_pace = pace.map_or(0, |pace| pace.work_ahead().min(self.max_work_ahead));
        let most = match self.work_ahead_failed {
            true => 0,
            false => self.work_ahead.max(by_pace),
        };
        let with_siblings = match self.all_visible {
            true => SequenceNumber::MAX,
            false => self.lookahead.end().saturating_sub(self.siblings),
        };
        let until = self.open_end.saturating_add(most).min(with_siblings);
        until.max(self.open_end)
    }

    /// Number of pending requests before this one that NVDEC makes.
    pub(super) fn pending_before(&self, seq: SequenceNumber) -> u64 {
        let pending = self.lookahead.pending(self.lookahead.first()..seq);
        pending
            .filter(|(_, entry)| entry.kind != Some(WorkerKind::Cpu))
            .count() as u64
    }

    /// Whether the workers would have more work if the consumer took the complete first batch.
    pub(super) fn waits_for_consumer(&self) -> bool {
        self.lookahead.end() > self.open_end
            && self.open.front().is_some_and(|b| b.clips_remaining == 0)
    }
}
