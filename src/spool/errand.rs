//! In: one video and the clips that are wanted of it, near and far ones.
//! Out: those clips, each as soon as its last frame is painted, with every picture on the way decoded once.
//! Never: finishes what something more urgent should come before: it can be left between any two packets.

mod group;
mod paint;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::budget::Reserved;
use super::desk::{Desk, Pixels, Ticket};
use super::stats::Meter;
use super::window::Position;
use super::ClipFacts;
use crate::decode::{Counts, Step, Times};
use crate::demux::read::PacketReader;
use crate::error::{Error, Result};
use crate::index::VideoIndex;
use crate::order::rng::Key;
use crate::order::Slot;
use crate::pixels::{ClipShape, Painter};
use crate::plan::Run;
use crate::units::DecodeIndex;
use crate::video::{AnyDecoder, Canvas, GrowingCanvas};

pub(super) use group::{facts, plan, Planned, Rules};
pub(super) use paint::{blank, PartCanvas};

/// What paints for one lane.
pub(super) struct Painters {
    /// Straight into batches.
    pub batch: Painter,
    /// Clips that wait, where they do so in another form.
    pub kept: Option<Painter>,
    /// Pictures of more than 8 bits have been met: clips that wait may need the room of their elements.
    pub met_deep: bool,
    /// The lane is one of those that decode by the GPU.
    pub by_gpu: bool,
}

/// Where a clip is painted.
pub(super) enum Place {
    /// In its batch.
    Batch(PartCanvas),
    /// In memory of its own, until its turn comes.
    Own(GrowingCanvas, Option<Reserved>),
}

impl Place {
    /// # Errors
    /// `Argument` where a clip turns out larger than what was reserved for it: its pictures are not of the size that the
    /// container states.
    fn check_room(&self, shape: &ClipShape) -> Result<()> {
        match self {
            Place::Own(_, Some(kept)) if shape.bytes().is_none_or(|b| b as u64 > kept.bytes()) => {
                Err(Error::Argument("larger than what was reserved for it".into()))
            }
            _ => Ok(()),
        }
    }

    fn canvas(&mut self) -> &mut dyn Canvas {
        match self {
            Place::Batch(canvas) => canvas,
            Place::Own(canvas, _) => canvas,
        }
    }
}

/// A clip in the making.
pub(super) struct Clip {
    pub position: Position,
    pub slot: Slot,
    pub due: bool,
    pub key: Key,
    pub facts: ClipFacts,
    pub place: Place,
    shape: Option<ClipShape>,
    /// Frames that are not painted yet.
    missing: usize,
    /// Packets that its frames come from.
    packets: Vec<DecodeIndex>,
}

impl Clip {
    fn into_ticket(self) -> Ticket {
        let part = match self.place {
            Place::Batch(canvas) => Some(canvas.part),
            Place::Own(..) => None,
        };
        Ticket { position: self.position, slot: self.slot, part, due: self.due }
    }
}

/// How far an errand came.
pub(super) enum Progress {
    /// All is done that could be done.
    Done,
    /// Something else is more urgent.
    Preempted,
}

/// One video's clips in the making, with the decoder in the middle of it.
pub(super) struct Errand {
    generation: u64,
    epoch: u64,
    index: Arc<VideoIndex>,
    reader: PacketReader,
    /// What the reader had read when its bytes were counted last.
    bytes_counted: u64,
    decoder: Option<AnyDecoder>,
    /// Runs to come, the most urgent first.
    runs: VecDeque<Run>,
    /// The run that the decoder is in.
    current: Option<Run>,
    clips: Vec<Option<Clip>>,
    /// Whose frames a packet makes: (clip, place in the clip).
    wanted: HashMap<DecodeIndex, Vec<(usize, usize)>>,
    /// Blank frames that only stand in for ones past the end.
    blank: bool,
    /// Memory that its decoder takes while it is parked.
    pub parked: Option<Reserved>,
}

/// Work done by one errand since it was last asked.
#[derive(Default)]
pub(super) struct Work {
    pub counts: Counts,
    pub times: Times,
    pub bytes_read: u64,
    /// Pictures among those decoded that the GPU decoded.
    pub decoded_by_gpu: u64,
}

impl Errand {
    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The most urgent position among its clips.
    pub fn due(&self) -> Position {
        self.clips.iter().flatten().map(|c| c.position).min().unwrap_or(Position::MAX)
    }

    /// (generation, position, clip) of all its tickets.
    pub fn tickets(&self) -> Vec<(u64, Position, u64)> {
        self.clips.iter().flatten().map(|c| (self.generation, c.position, c.slot.clip)).collect()
    }

    /// Its reader, when all is done.
    pub fn into_reader(self) -> PacketReader {
        self.reader
    }

    /// All clips that are not made yet, as tickets, for when nothing else can be done with it.
    pub fn into_tickets(self) -> Vec<Ticket> {
        self.clips.into_iter().flatten().map(Clip::into_ticket).collect()
    }

    /// Memory that a decoder of this video takes, roughly: its reference pictures and those that wait to be shown.
    pub fn decoder_bytes(&self) -> usize {
        const PICTURES: usize = 20;
        let params = &self.index.info.params;
        params.width as usize * params.height as usize * 2 * PICTURES
    }

    /// Decodes and paints until all is done, or something more urgent comes up and `may_leave` allows to leave.
    pub fn advance(&mut self, painters: &mut Painters, desk: &Desk, meter: &Meter) -> Result<Progress> {
        self.bytes_counted = self.reader.bytes_read();
        let mut work = Work::default();
        let progress = self.advance_inner(painters, desk, meter, &mut work);
        self.count(&mut work, painters, meter);
        if !matches!(progress, Ok(Progress::Preempted)) {
            self.decoder.take().into_iter().for_each(|d| desk.keep_decoder(d));
        }
        progress
    }

    /// Counts the work done since it was counted last.
    fn count(&mut self, work: &mut Work, painters: &mut Painters, meter: &Meter) {
        let read = self.reader.bytes_read();
        work.bytes_read += read.saturating_sub(self.bytes_counted);
        self.bytes_counted = read;
        if let Some(decoder) = &mut self.decoder {
            work.take(decoder);
        }
        let report = painters.batch.take_report();
        work.decoded_by_gpu += report.decoded;
        report.left_to_cpu.iter().for_each(|reason| meter.left_to_cpu(reason));
        meter.work(&std::mem::take(work));
    }

    fn advance_inner(
        &mut self,
        painters: &mut Painters,
        desk: &Desk,
        meter: &Meter,
        work: &mut Work,
    ) -> Result<Progress> {
        let generation = self.generation;
        let watch = || desk.check(generation);
        let mut due = self.due();
        loop {
            watch()?;
            if desk.urgent() < due && self.may_leave(desk) {
                if self.current.is_none() {
                    if let Some(mut decoder) = self.decoder.take() {
                        work.take(&mut decoder);
                        desk.keep_decoder(decoder);
                    }
                }
                return Ok(Progress::Preempted);
            }
            if self.current.is_none() {
                match self.next_run(desk, meter, painters.by_gpu) {
                    Ok(true) => {}
                    Ok(false) => return Ok(Progress::Done),
                    Err(error) => {
                        self.run_failed(error, desk)?;
                        due = self.due();
                        continue;
                    }
                }
            }
            let Self { decoder, reader, index, clips, wanted, .. } = self;
            let decoder = decoder.as_mut().expect("given when the run began");
            let mut painted = Vec::new();
            let step = decoder.step(reader, &watch, &mut |packet, mut picture| {
                painted.extend(paint::paint(painters, index, clips, &wanted[&packet], &mut picture));
                Ok(())
            });
            let finished = self.settle(painted, painters, desk, meter, work);
            match step {
                Ok(Step::More) => {}
                Ok(Step::Done) => self.current = None,
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => {
                    if let Err(error) = self.go_on_by_cpu(error, desk, meter, work) {
                        self.run_failed(error, desk)?;
                    }
                }
            }
            if self.current.is_none() {
                self.hand_over(painters, desk, meter, work);
            }
            if finished || self.current.is_none() {
                due = self.due();
            }
        }
    }

    /// Parked errands hold open files, so there may be few; and where one is left in the middle of a run a decoder,
    /// whose memory must fit into the budget.
    fn may_leave(&mut self, desk: &Desk) -> bool {
        if !desk.has_room_to_park() {
            return false;
        }
        if self.current.is_none() || self.parked.is_some() {
            return true;
        }
        self.parked = desk.budget.reserve(self.decoder_bytes());
        self.parked.is_some()
    }

    /// Begins the next run that somebody still wants. False if there is none.
    fn next_run(&mut self, desk: &Desk, meter: &Meter, by_gpu: bool) -> Result<bool> {
        while let Some(mut run) = self.runs.pop_front() {
            let (clips, wanted) = (&self.clips, &self.wanted);
            let takers = |at: &DecodeIndex| wanted[at].iter().map(|w| w.0).filter(|&c| clips[c].is_some());
            run.wanted.retain(|at| takers(at).next().is_some());
            let Some(&last) = run.wanted.last() else { continue };
            let mut clips: Vec<usize> = run.wanted.iter().flat_map(takers).collect();
            clips.sort_unstable();
            clips.dedup();
            if clips.len() > 1 {
                meter.add(|s| s.gops_shared += 1);
            }
            let ends = run.wanted.iter().map(|&at| self.index.last_part_of(at)).max();
            run.end = ends.unwrap_or(last);
            let index = &self.index;
            let decoder = self.decoder.get_or_insert_with(|| desk.decoder(&index.info.params, by_gpu));
            self.current = Some(run.clone());
            match decoder.begin(index, run.clone()) {
                Err(error @ (Error::Unsupported { .. } | Error::Gpu { lost: false, .. }))
                    if decoder.is_hardware() =>
                {
                    desk.road.left_to_cpu(&index.info.params, &error, meter);
                    self.decoder.take().into_iter().for_each(|d| desk.keep_decoder(d));
                    self.decoder.insert(desk.decoder(&index.info.params, false)).begin(index, run)?;
                }
                begun => begun?,
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Where the GPU gave a run up, the CPU does what is left of it. Any other error comes back.
    fn go_on_by_cpu(&mut self, error: Error, desk: &Desk, meter: &Meter, work: &mut Work) -> Result<()> {
        let params = &self.index.info.params;
        let left = self.decoder.as_ref().and_then(|decoder| decoder.left_to_cpu(&error));
        let by_gpu = self.decoder.as_ref().is_some_and(AnyDecoder::is_hardware);
        if left.is_some() || (by_gpu && matches!(error, Error::Decode { .. } | Error::Internal { .. })) {
            desk.road.left_to_cpu(params, &error, meter);
        }
        if by_gpu && matches!(error, Error::Internal { .. }) {
            // It mistook pictures of this stream for each other: the runs to come are not for it either.
            if let Some(mut decoder) = self.decoder.take() {
                work.take(&mut decoder);
                desk.keep_decoder(decoder);
            }
        }
        let (Some(left), Some(run)) = (left, &mut self.current) else { return Err(error) };
        if let Some(mut decoder) = self.decoder.take() {
            work.take(&mut decoder);
            desk.keep_decoder(decoder);
        }
        *run = Run::rest_of(run, left, &self.index);
        self.decoder.insert(desk.decoder(params, false)).begin(&self.index, run.clone())
    }

    /// The run that was under way came to nothing further: the clips that it still owed frames to are made by
    /// themselves, so that what becomes of them does not depend on which others were near, and nobody waits for it.
    fn run_failed(&mut self, error: Error, desk: &Desk) -> Result<()> {
        if matches!(error, Error::Interrupted) {
            return Err(error);
        }
        let Some(run) = self.current.take() else { return Err(error) };
        let mut failed = Vec::new();
        for clip in &mut self.clips {
            let owes = |c: &Clip| c.packets.iter().any(|at| run.wanted.binary_search(at).is_ok());
            if let Some(clip) = clip.take_if(|c| owes(c)) {
                failed.push(clip.into_ticket());
            }
        }
        desk.give_back(self.generation, failed, true);
        Ok(())
    }

    /// Counts painted frames and hands over the clips that are whole. Returns whether one was, or one was lost.
    fn settle(
        &mut self,
        painted: Vec<(usize, Result<()>)>,
        painters: &mut Painters,
        desk: &Desk,
        meter: &Meter,
        work: &mut Work,
    ) -> bool {
        let by_gpu = self.decoder.as_ref().is_some_and(AnyDecoder::is_hardware);
        let vouches_late = self.decoder.as_ref().is_some_and(AnyDecoder::vouches_late);
        let mut changed = false;
        let mut whole = Vec::new();
        for (number, result) in painted {
            let slot = &mut self.clips[number];
            let Some(clip) = slot else { continue };
            if let Err(error) = result {
                if by_gpu && matches!(error, Error::Unsupported { .. }) {
                    desk.road.left_to_cpu(&self.index.info.params, &error, meter);
                }
                let failed = slot.take().map(Clip::into_ticket);
                desk.give_back(self.generation, failed.into_iter().collect(), true);
                changed = true;
                continue;
            }
            clip.missing -= 1;
            if clip.missing == 0 && !vouches_late {
                changed = true;
                whole.push(number);
            }
        }
        self.finish(whole, painters, desk, meter, work);
        changed
    }

    /// Hands over the clips that are whole and waited for the end of the run.
    fn hand_over(&mut self, painters: &mut Painters, desk: &Desk, meter: &Meter, work: &mut Work) {
        let is_whole = |&at: &usize| self.clips[at].as_ref().is_some_and(|clip| clip.missing == 0);
        let whole = (0..self.clips.len()).filter(is_whole).collect();
        self.finish(whole, painters, desk, meter, work);
    }

    /// Counts first: once a batch can be taken, what it took must be in the counts.
    fn finish(
        &mut self,
        whole: Vec<usize>,
        painters: &mut Painters,
        desk: &Desk,
        meter: &Meter,
        work: &mut Work,
    ) {
        if !whole.is_empty() {
            self.count(work, painters, meter);
        }
        for at in whole {
            if let Some(clip) = self.clips[at].take() {
                finish(clip, self.blank, self.generation, painters, desk);
            }
        }
    }
}

impl Work {
    fn take(&mut self, decoder: &mut AnyDecoder) {
        let (counts, times) = decoder.take_work();
        self.decoded_by_gpu += if decoder.is_hardware() { counts.pictures_decoded } else { 0 };
        self.counts += counts;
        self.times += times;
    }
}

/// Hands a whole clip over.
fn finish(mut clip: Clip, blanks: bool, generation: u64, painters: &mut Painters, desk: &Desk) {
    let position = clip.position;
    let mask = &clip.facts.mask;
    let blanked = if blanks { blank(clip.place.canvas(), mask, &mut painters.batch) } else { Ok(()) };
    let pixels = blanked.and_then(|()| match clip.place {
        Place::Batch(mut canvas) => {
            let settled = canvas.part.settle();
            drop(canvas); // before it is told: the batch is whole when all parts are back
            settled.map(|()| Some(Pixels::InBatch))
        }
        Place::Own(canvas, reserved) => {
            Ok(canvas.into_clip()?.map(|(slab, shape)| Pixels::Own(slab, shape, reserved)))
        }
    });
    match pixels {
        Ok(Some(pixels)) => desk.made(generation, position, clip.facts, pixels),
        Ok(None) => {} // a clip without frames: sampling makes none
        Err(error) => desk.failed(generation, position, error),
    }
}
