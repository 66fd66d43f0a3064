//! In: tickets in order, and lanes that ask for work.
//! Out: for each lane the most urgent thing to do, together with whatever can be done on the same way.
//! Never: lets work for a later batch come before work for an earlier one that somebody could do.

mod decoders;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::budget::{Budget, Reserved};
use super::errand::Errand;
use super::road::Road;
use super::stats::Meter;
use super::window::{HeldClip, Position, State, Window};
use super::{ClipFacts, Outcome, SpoolConfig};
use crate::batch::{Lent, Part, Pool, Slab};
use crate::decode::{FrameDecoder, StillReader};
use crate::error::{Error, Result};
use crate::order::Slot;
use crate::pixels::ClipShape;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Errands that may be parked at a time, unless there are many lanes: each holds a file open and perhaps a decoder.
const PARKED: usize = 8;

/// Blocks of device memory that are kept for clips to come: getting fresh ones makes the whole device wait.
const WAITING_KEPT: usize = 64;

/// "Nothing is urgent."
const NOTHING: Position = Position::MAX;

/// A ticket that a lane has in hand.
pub(super) struct Ticket {
    pub position: Position,
    pub slot: Slot,
    /// Its place in its batch's memory, if that is open and clips are all alike.
    pub part: Option<Part>,
    /// Its batch is open: it is worth making whatever it costs.
    pub due: bool,
}

/// Tickets of one video, the most urgent first.
pub(super) struct Group {
    pub generation: u64,
    pub epoch: u64,
    pub video: u32,
    pub tickets: Vec<Ticket>,
    /// Making it together with others, or by the GPU, failed.
    pub alone: bool,
}

/// Something to do.
pub(super) enum Job {
    /// Plan and decode.
    Start(Group),
    /// Go on decoding.
    Resume(Box<Errand>),
    /// Copy a held clip into its batch.
    Place { generation: u64, position: Position, held: Box<HeldClip>, part: Part },
}

impl Job {
    /// (generation, position, clip) of all tickets that it is about.
    pub fn tickets(&self) -> Vec<(u64, Position, u64)> {
        match self {
            Job::Start(g) => g.tickets.iter().map(|t| (g.generation, t.position, t.slot.clip)).collect(),
            Job::Resume(errand) => errand.tickets(),
            Job::Place { generation, position, held, .. } => {
                vec![(*generation, *position, held.facts.clip_id)]
            }
        }
    }
}

/// What became of a clip's pixels.
pub(super) enum Pixels {
    /// They are in the batch.
    InBatch,
    /// They have memory of their own.
    Own(Slab, ClipShape, Option<Reserved>),
}

/// A batch that is being filled.
pub(super) struct OpenBatch {
    first: Position,
    pub memory: Option<Lent>,
    pub clips: Vec<Option<Outcome>>,
    missing: usize,
}

struct Pass {
    generation: u64,
    epoch: u64,
    window: Window,
    open: VecDeque<OpenBatch>,
    /// Position behind the last open batch.
    open_end: Position,
    /// Tickets of batches that are not open are left alone.
    blind: bool,
    /// All clips are alike: batches have memory of their own.
    even: bool,
}

#[derive(Default)]
struct Desks {
    closed: bool,
    pass: Option<Pass>,
    /// Left in the middle.
    #[expect(clippy::vec_box, reason = "they go from hand to hand")]
    parked: Vec<Box<Errand>>,
    /// Decoders that nobody uses, most recently used last.
    decoders: Vec<FrameDecoder>,
    /// The same for files that are pictures.
    #[expect(clippy::vec_box, reason = "they go from hand to hand")]
    stills: Vec<Box<StillReader>>,
}

/// Where lanes and the consumer meet.
pub(super) struct Desk {
    state: Mutex<Desks>,
    /// There may be work.
    work: Condvar,
    /// The first batch may be whole.
    whole: Condvar,
    /// The most urgent ticket that somebody could work on; read by lanes between packets.
    urgent: AtomicU64,
    /// Passes up to this one are over.
    forgotten: AtomicU64,
    pub budget: Arc<Budget>,
    pub road: Arc<Road>,
    /// Memory of clips that wait, where they do so on a device.
    pub waiting: Arc<Pool>,
    meter: Arc<Meter>,
    threads: usize,
    /// Threads of one decoder.
    frame_threads: u32,
    /// Nobody looks beyond the open batches.
    blind: bool,
}

impl Desk {
    pub fn new(config: &SpoolConfig, road: Arc<Road>, meter: Arc<Meter>) -> Self {
        let home = road.home.as_ref().map(|gpu| gpu.device().clone());
        Self {
            state: Mutex::default(),
            work: Condvar::new(),
            whole: Condvar::new(),
            urgent: AtomicU64::new(NOTHING),
            forgotten: AtomicU64::new(0),
            budget: Budget::new(config.memory_budget),
            waiting: Pool::on(home.clone(), if home.is_some() { WAITING_KEPT } else { 0 }),
            meter,
            threads: (config.threads + road.lanes()) as usize,
            road,
            frame_threads: config.frame_threads(),
            blind: config.look_ahead == 0,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Desks> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Recomputes what is urgent and wakes who may care. Call after every change.
    fn changed(&self, state: &Desks) {
        let urgent = state.most_urgent().map_or(NOTHING, |(position, _)| position);
        self.urgent.store(urgent, Ordering::Release);
        if urgent != NOTHING || !state.parked.is_empty() {
            self.work.notify_all();
        }
        if state.pass.as_ref().and_then(|p| p.open.front()).is_some_and(|b| b.missing == 0) {
            self.whole.notify_all();
        }
    }

    // ---- the consumer's side

    /// Begins a pass; what belongs to an earlier one is given up.
    pub fn begin(&self, generation: u64, epoch: u64, even: bool) {
        let mut state = self.lock();
        let pass = Pass {
            generation,
            epoch,
            window: Window::default(),
            open: VecDeque::new(),
            open_end: 0,
            even,
            blind: self.blind,
        };
        state.pass = Some(pass);
        state.parked.clear();
        self.forgotten.fetch_max(generation - 1, Ordering::AcqRel);
        self.changed(&state);
    }

    /// Ends the pass under way.
    pub fn end(&self) {
        let mut state = self.lock();
        if let Some(pass) = state.pass.take() {
            self.forgotten.fetch_max(pass.generation, Ordering::AcqRel);
        }
        state.parked.clear();
        self.changed(&state);
    }

    /// Ends everything: lanes that ask for work are sent home.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.pass = None;
        state.parked.clear();
        state.decoders.clear();
        state.stills.clear();
        self.road.close();
        self.forgotten.store(u64::MAX, Ordering::Release);
        self.work.notify_all();
        self.whole.notify_all();
    }

    /// # Errors
    /// `Interrupted` once a pass is over: nobody waits for what is made for it.
    pub fn check(&self, generation: u64) -> Result<()> {
        match self.forgotten.load(Ordering::Acquire) >= generation {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    }

    /// Tickets that are visible beyond the open batches.
    pub fn ahead(&self) -> u64 {
        self.lock().pass.as_ref().map_or(0, |p| p.window.end() - p.open_end)
    }

    /// Makes more tickets visible.
    pub fn supply(&self, tickets: impl Iterator<Item = (Slot, u32)>) {
        if let Some(pass) = &mut self.lock().pass {
            tickets.for_each(|(slot, video)| pass.window.push(slot, video));
        }
    }

    /// Opens the next batch, of the first `clips` tickets that are not in one: they are due now.
    pub fn open(&self, clips: usize, memory: Option<(Lent, Vec<Part>)>) {
        let mut guard = self.lock();
        let Some(pass) = &mut guard.pass else { return };
        let first = pass.open_end;
        pass.open_end += clips as u64;
        let (memory, parts) = memory.map_or((None, Vec::new()), |(lent, parts)| (Some(lent), parts));
        let outcomes = (0..clips).map(|_| None).collect();
        pass.open.push_back(OpenBatch { first, memory, clips: outcomes, missing: clips });
        let mut parts = parts.into_iter();
        for position in first..pass.open_end {
            pass.window.keep(position);
            let part = parts.next();
            let Some(entry) = pass.window.get(position) else { continue };
            entry.part = part;
            if !pass.even && matches!(entry.state, State::Held(_)) {
                if let State::Held(held) = std::mem::replace(&mut entry.state, State::Done) {
                    pass.put(position, Ok((held.facts, Some((held.slab, held.shape)))));
                    self.meter.add(|s| s.clip_store_hits += 1);
                }
            }
        }
        self.changed(&guard);
    }

    /// Open batches that were not taken yet.
    pub fn open_batches(&self) -> usize {
        self.lock().pass.as_ref().map_or(0, |p| p.open.len())
    }

    /// The first open batch, if it becomes whole within `patience`.
    pub fn take_whole(&self, patience: Duration) -> Option<OpenBatch> {
        let is_whole = |state: &Desks| {
            state.pass.as_ref().and_then(|p| p.open.front()).is_some_and(|front| front.missing == 0)
        };
        let mut state = self.lock();
        if !is_whole(&state) {
            let waited = self.whole.wait_timeout(state, patience);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if !is_whole(&state) {
            return None;
        }
        let pass = state.pass.as_mut()?;
        let batch = pass.open.pop_front()?;
        batch.clips.iter().for_each(|_| pass.window.pop());
        Some(batch)
    }

    // ---- the lanes' side

    /// The most urgent ticket that somebody could work on.
    pub fn urgent(&self) -> Position {
        self.urgent.load(Ordering::Acquire)
    }

    /// Waits for something to do; `None` when the spool is closed.
    pub fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(job) = state.choose() {
                self.changed(&state);
                return Some(job);
            }
            let blocked = state.pass.as_ref().is_some_and(Pass::waits_for_consumer);
            let begun = Instant::now();
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            self.meter.idle(begun.elapsed(), blocked);
        }
    }

    /// Whether one more errand may be parked.
    pub fn has_room_to_park(&self) -> bool {
        self.lock().parked.len() < PARKED.max(2 * self.threads)
    }

    /// Takes bytes out of the budget for a clip that is due at `due`, if need be from clips that are due later.
    pub fn reserve(&self, bytes: usize, due: Position) -> Option<Reserved> {
        if bytes as u64 > self.budget.bytes() {
            return None; // whatever is given up for it
        }
        loop {
            if let Some(reserved) = self.budget.reserve(bytes) {
                return Some(reserved);
            }
            let mut state = self.lock();
            if !state.pass.as_mut()?.window.give_up_later_than(due) {
                return None;
            }
            self.meter.add(|s| s.clips_given_up += 1);
        }
    }

    /// A clip was made.
    pub fn made(&self, generation: u64, position: Position, facts: ClipFacts, pixels: Pixels) {
        self.settle(generation, |pass| match pixels {
            Pixels::InBatch => pass.put(position, Ok((facts, None))),
            Pixels::Own(slab, shape, _) if !pass.even && position < pass.open_end => {
                pass.put(position, Ok((facts, Some((slab, shape)))));
            }
            Pixels::Own(slab, shape, reserved) => {
                pass.window.hold(position, HeldClip { facts, slab, shape, reserved });
                if position < pass.open_end {
                    pass.window.keep(position);
                }
            }
        });
    }

    /// A clip cannot be made. One that is not due is tried again when it is.
    pub fn failed(&self, generation: u64, position: Position, error: Error) {
        self.settle(generation, |pass| {
            let due = position < pass.open_end;
            let Some(entry) = pass.window.get(position) else { return };
            match entry.state {
                State::InHand if due => pass.put(position, Err(error)),
                State::InHand => (entry.state, entry.alone) = (State::Waiting, true),
                _ => {}
            }
        });
    }

    /// Tickets that a lane does not want after all. `alone`: making them together with others failed.
    pub fn give_back(&self, generation: u64, tickets: Vec<Ticket>, alone: bool) {
        if tickets.is_empty() {
            return;
        }
        self.settle(generation, |pass| {
            for ticket in tickets {
                if let Some(entry) = pass.window.get(ticket.position) {
                    entry.state = State::Waiting;
                    entry.alone |= alone;
                    entry.part = entry.part.take().or(ticket.part);
                }
            }
        });
    }

    fn settle(&self, generation: u64, change: impl FnOnce(&mut Pass)) {
        let mut state = self.lock();
        if let Some(pass) = state.pass.as_mut().filter(|p| p.generation == generation) {
            change(pass);
            self.changed(&state);
        }
    }

    /// Keeps an errand for whoever has time for it.
    pub fn park(&self, errand: Box<Errand>) {
        let mut state = self.lock();
        if state.pass.as_ref().is_some_and(|p| p.generation == errand.generation()) {
            state.parked.push(errand);
            self.changed(&state);
        }
    }
}

impl Desks {
    /// The first ticket of an open batch that somebody could work on, and the parked errand that has it in hand.
    fn most_urgent(&self) -> Option<(Position, Option<usize>)> {
        let pass = self.pass.as_ref()?;
        let ready =
            |(_, e): &(Position, &super::window::Entry)| matches!(e.state, State::Waiting | State::Held(_));
        let waiting = pass.window.until(pass.open_end).find(ready).map(|(position, _)| (position, None));
        let parked = self.parked.iter().enumerate().map(|(i, e)| (e.due(), Some(i)));
        let parked = parked.filter(|(due, _)| *due < pass.open_end).min();
        waiting.into_iter().chain(parked).min()
    }

    fn choose(&mut self) -> Option<Job> {
        let Some((position, parked)) = self.most_urgent() else {
            // Nothing is due: go on with what was left in the middle, the most urgent first.
            let next = self.parked.iter().enumerate().min_by_key(|(_, e)| e.due()).map(|(i, _)| i)?;
            return Some(Job::Resume(self.parked.swap_remove(next)));
        };
        if let Some(at) = parked {
            return Some(Job::Resume(self.parked.swap_remove(at)));
        }
        let pass = self.pass.as_mut()?;
        let (generation, epoch, open_end) = (pass.generation, pass.epoch, pass.open_end);
        let entry = pass.window.get(position)?;
        if matches!(entry.state, State::Held(_)) {
            let part = entry.part.take()?;
            let State::Held(held) = std::mem::replace(&mut entry.state, State::InHand) else { return None };
            return Some(Job::Place { generation, position, held, part });
        }
        let (video, alone) = (entry.video, entry.alone);
        let mut positions = if alone { vec![position] } else { pass.window.siblings(video) };
        if pass.blind {
            // A batch's tickets are there a moment before it is open; who does not look ahead must not see them then.
            positions.retain(|&sibling| sibling < open_end);
        }
        let take = |position: Position| {
            let entry = pass.window.get(position)?;
            entry.state = State::InHand;
            let part = entry.part.take();
            Some(Ticket { position, slot: entry.slot, part, due: position < open_end })
        };
        let tickets = positions.into_iter().filter_map(take).collect();
        Some(Job::Start(Group { generation, epoch, video, tickets, alone }))
    }
}

impl Pass {
    /// Puts a clip, or the reason why there is none, into its open batch.
    fn put(&mut self, position: Position, outcome: Outcome) {
        if let Some(entry) = self.window.get(position) {
            entry.state = State::Done;
            entry.part = None;
        }
        let batch = self.open.iter_mut().rfind(|b| b.first <= position);
        if let Some(batch) = batch {
            let place = batch.clips.get_mut((position - batch.first) as usize);
            if let Some(place) = place.filter(|p| p.is_none()) {
                *place = Some(outcome);
                batch.missing -= 1;
            }
        }
    }

    /// Whether lanes could do more if the consumer took what there is.
    fn waits_for_consumer(&self) -> bool {
        self.window.end() > self.open_end && self.open.front().is_some_and(|b| b.missing == 0)
    }
}
