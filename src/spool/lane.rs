//! In: tickets.
//! Out: clips, painted into their places, from as many threads as there are lanes.
//! Never: decides order; a lane's panic becomes an error of its clip.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use crossbeam_channel::{bounded, Receiver, Sender};

use super::library::Library;
use super::stats::Meter;
use super::{ClipFacts, OnError, SpoolConfig};
use crate::batch::{Part, Slab};
use crate::error::{Error, Result};
use crate::order::rng::{purpose, Key};
use crate::order::Slot;
use crate::pixels::ClipShape;
use crate::sampling::{Pad, Sampling};
use crate::units::DisplayIndex;
use crate::video::{Canvas, GrowingCanvas, Workbench};

/// One clip to be made.
pub(super) struct Ticket {
    pub generation: u64,
    pub epoch: u64,
    pub batch: u64,
    pub place: usize,
    pub slot: Slot,
    /// Its place in the batch's memory; `None` where clips differ in size.
    pub part: Option<(Part, ClipShape)>,
}

/// A clip's facts, and its pixels where they have memory of their own; or the reason why there is no clip.
pub(super) type Outcome = Result<(ClipFacts, Option<(Slab, ClipShape)>)>;

/// One clip that was made, or the reason why not.
pub(super) struct Made {
    pub generation: u64,
    pub batch: u64,
    pub place: usize,
    pub result: Outcome,
}

/// Replacements tried for one clip before its error is raised after all.
const ATTEMPTS: u64 = 64;

/// All lanes and the queues to and from them.
pub(super) struct Lanes {
    tickets: Option<Sender<Ticket>>,
    /// The lanes' end of the queue, to take back tickets that are not worth making any more.
    waiting: Receiver<Ticket>,
    pub made: Receiver<Made>,
    threads: Vec<JoinHandle<()>>,
    /// Tickets of this generation and older ones are not worth making any more.
    forgotten: Arc<AtomicU64>,
    generations: u64,
    made_in: u32,
}

impl Lanes {
    pub fn start(config: &SpoolConfig, library: Arc<Library>, meter: Arc<Meter>) -> Result<Self> {
        // Room for all tickets of all batches that can be under way, so that the consumer never blocks on sending.
        let under_way = config.clips_under_way() as usize;
        let (tickets, inbox) = bounded::<Ticket>(under_way);
        let (outbox, made) = bounded::<Made>(under_way);
        let forgotten = Arc::new(AtomicU64::new(0));
        let threads = (0..config.threads)
            .map(|n| {
                let lane = Lane {
                    bench: Workbench::new(config.recipe.clone()),
                    library: library.clone(),
                    meter: meter.clone(),
                    sampling: config.sampling.clone(),
                    seed: config.seed,
                    on_error: config.on_error,
                    forgotten: forgotten.clone(),
                };
                let (inbox, outbox) = (inbox.clone(), outbox.clone());
                Builder::new()
                    .name(format!("spool-lane-{n}"))
                    .spawn(move || lane.work(&inbox, &outbox))
                    .map_err(|e| {
                        Error::Argument(format!(
                            "thread {n} of {} cannot be started: {e}; use fewer",
                            config.threads
                        ))
                    })
            })
            .collect::<Result<Vec<_>>>()?;
        let made_in = std::process::id();
        Ok(Self { tickets: Some(tickets), waiting: inbox, made, threads, forgotten, generations: 0, made_in })
    }

    pub fn next_generation(&mut self) -> u64 {
        self.generations += 1;
        self.generations
    }

    /// Stops work on everything up to this generation.
    pub fn forget(&self, generation: u64) {
        self.forgotten.fetch_max(generation, Ordering::Relaxed);
        // Nobody but the caller sends, so after this the queue has room for a whole new epoch's start.
        while self.waiting.try_recv().is_ok() {}
    }

    pub fn send(&self, ticket: Ticket) -> Result<(), Ticket> {
        let Some(tickets) = &self.tickets else { return Err(ticket) };
        tickets.try_send(ticket).map_err(|e| e.into_inner())
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        if std::process::id() != self.made_in {
            // A fork's child has the handles but not the threads: joining them would wait for ever.
            std::mem::forget(std::mem::take(&mut self.threads));
            return;
        }
        self.forget(u64::MAX);
        self.tickets = None; // the end is a closed queue
        for thread in self.threads.drain(..) {
            while !thread.is_finished() {
                // A lane may be blocked on handing over a clip that nobody wants any more.
                let _ = self.made.recv_timeout(std::time::Duration::from_millis(5));
            }
            let _ = thread.join();
        }
    }
}

struct Lane {
    bench: Workbench,
    library: Arc<Library>,
    meter: Arc<Meter>,
    sampling: Sampling,
    seed: u64,
    on_error: OnError,
    forgotten: Arc<AtomicU64>,
}

impl Lane {
    fn work(mut self, inbox: &Receiver<Ticket>, outbox: &Sender<Made>) {
        for mut ticket in inbox {
            let begun = Instant::now();
            let (counts, bytes) = (self.bench.decoder.counts, self.bench.bytes_read);
            let outcome = catch_unwind(AssertUnwindSafe(|| self.make(&mut ticket)));
            let result = outcome.unwrap_or_else(|panic| {
                self.bench = Workbench::new(self.bench.recipe().clone());
                let said = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
                let reason = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
                Err(Error::Internal {
                    site: self.library.site(self.library.locate(ticket.slot.clip).0),
                    reason,
                })
            });
            let now = self.bench.decoder.counts;
            let work = now.since(counts);
            self.meter.busy(begun.elapsed(), work, self.bench.bytes_read.saturating_sub(bytes));
            let Ticket { generation, batch, place, part, .. } = ticket;
            drop(part); // before the result is told: the batch is whole when all parts are back
            if outbox.send(Made { generation, batch, place, result }).is_err() {
                return;
            }
        }
    }

    fn make(&mut self, ticket: &mut Ticket) -> Outcome {
        let mut clip = ticket.slot.clip;
        let mut replacements = Key { seed: self.seed, epoch: ticket.epoch, clip }.rng(purpose::REPLACEMENT);
        for attempt in 0.. {
            match self.make_clip(ticket, clip) {
                Err(error) if error.blames_file() => {
                    self.meter.error(&error);
                    if self.on_error != OnError::Replace || attempt == ATTEMPTS {
                        return Err(error);
                    }
                }
                done => {
                    if done.is_ok() && attempt > 0 {
                        self.meter.add(|s| s.clips_replaced += 1);
                    }
                    return done;
                }
            }
            clip = replacements.below(self.library.num_clips());
        }
        unreachable!("the loop ends by returning")
    }

    fn make_clip(&mut self, ticket: &mut Ticket, clip_id: u64) -> Outcome {
        let (generation, forgotten) = (ticket.generation, &self.forgotten);
        let watch = || match forgotten.load(Ordering::Relaxed) >= generation {
            true => Err(Error::Interrupted),
            false => Ok(()),
        };
        watch()?;
        let (video_id, clip_in_video) = self.library.locate(clip_id);
        let video = self.library.open(video_id, &self.meter, &watch)?;
        let index = video.index().clone();
        let key = Key { seed: self.seed, epoch: ticket.epoch, clip: clip_id };
        let mut rng = key.rng(purpose::SAMPLING);
        let sample = self.sampling.frames(index.num_frames(), clip_in_video, &mut rng);
        let sample = sample.map_err(|e| e.of_video(&index.site))?;
        let frames: Vec<DisplayIndex> = sample.indices.iter().map(|&i| DisplayIndex(i)).collect();
        let mut growing = GrowingCanvas::default();
        let mut fixed = ticket.part.as_mut().map(|(part, shape)| PartCanvas { part, shape: *shape });
        let canvas: &mut dyn Canvas = match &mut fixed {
            Some(fixed) => fixed,
            None => &mut growing,
        };
        self.bench.make(&mut video.reader(), &frames, key, canvas, &watch)?;
        if matches!(&self.sampling, Sampling::Windows(rule) if rule.pad() == Pad::Constant) {
            blank(canvas, &sample.mask)?;
        }
        let facts = ClipFacts {
            clip_id,
            video_id,
            label: self.library.label(video_id),
            indices: sample.indices.iter().map(|&i| i64::from(i)).collect(),
            pts_seconds: frames.iter().map(|&f| index.pts_seconds(f)).collect(),
            mask: sample.mask,
            padding: ticket.slot.padding,
        };
        Ok((facts, growing.into_clip()))
    }
}

/// Fills the frames that are not real with zeros.
fn blank(canvas: &mut dyn Canvas, mask: &[bool]) -> Result<()> {
    if mask.iter().all(|&real| real) {
        return Ok(());
    }
    let shape = canvas.shape();
    let Some(shape) = shape else { return Ok(()) };
    let bytes = canvas.bytes(&shape)?;
    for t in (0..mask.len()).filter(|&t| !mask[t]) {
        for (start, len) in shape.frame_stretches(t) {
            bytes[start..start + len].fill(0);
        }
    }
    Ok(())
}

/// A clip's place in a batch of even clips.
struct PartCanvas<'a> {
    part: &'a mut Part,
    shape: ClipShape,
}

impl Canvas for PartCanvas<'_> {
    fn bytes(&mut self, shape: &ClipShape) -> Result<&mut [u8]> {
        if *shape != self.shape {
            return Err(Error::Argument(format!(
                "a clip came out as {}x{} where the transforms promise {}x{}",
                shape.width, shape.height, self.shape.width, self.shape.height
            )));
        }
        Ok(self.part.bytes_mut())
    }

    fn shape(&self) -> Option<ClipShape> {
        Some(self.shape)
    }
}
