//! In: work from the desk.
//! Out: clips, from as many threads as there are lanes.
//! Never: decides order; a lane's panic becomes an error of its clip.

use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use super::alone::Alone;
use super::desk::{Desk, Group, Job, Pixels, Ticket};
use super::errand::{self, Errand, Painters, Planned, Progress, Rules};
use super::library::Library;
use super::stats::Meter;
use super::window::HeldClip;
use super::SpoolConfig;
use crate::batch::Part;
use crate::error::{Error, Result};
use crate::pixels::{ClipShape, Expand, Painter};

/// All lanes.
pub(super) struct Lanes {
    pub desk: Arc<Desk>,
    threads: Vec<JoinHandle<()>>,
    made_in: u32,
}

impl Lanes {
    pub fn start(config: &Arc<SpoolConfig>, library: Arc<Library>, meter: Arc<Meter>) -> Result<Self> {
        let desk = Arc::new(Desk::new(config, meter.clone()));
        let mut lanes = Self { desk: desk.clone(), threads: Vec::new(), made_in: std::process::id() };
        for n in 0..config.threads {
            let lane = Lane {
                // Two of them, so that a clip made by itself never disturbs what is compiled for an errand.
                painters: painters(config),
                expand: config.kept_as().map(|(_, expand)| expand),
                alone: Alone::new(config, &library, &meter),
                shape: config.clip_shape(),
                kept_shape: config.kept_as().map_or(config.clip_shape(), |(recipe, _)| {
                    config.clip_shape().map(|shape| ClipShape { dtype: recipe.dtype, ..shape })
                }),
                config: config.clone(),
                library: library.clone(),
                meter: meter.clone(),
                desk: desk.clone(),
            };
            let thread = Builder::new().name(format!("spool-lane-{n}")).spawn(move || lane.work());
            lanes.threads.push(thread.map_err(|e| {
                Error::Argument(format!("thread {n} of {} cannot be started: {e}; use fewer", config.threads))
            })?);
        }
        Ok(lanes)
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        if std::process::id() != self.made_in {
            // A fork's child has the handles but not the threads: joining them would wait for ever.
            std::mem::forget(std::mem::take(&mut self.threads));
            return;
        }
        self.desk.close();
        let own = std::thread::current().id();
        for thread in self.threads.drain(..) {
            // A lane whose own work lets go of the spool ends by itself, when that work is done.
            if thread.thread().id() != own {
                let _ = thread.join();
            }
        }
    }
}

struct Lane {
    painters: Painters,
    /// Makes elements of clips that waited as codes.
    expand: Option<Expand>,
    alone: Alone,
    shape: Option<ClipShape>,
    kept_shape: Option<ClipShape>,
    config: Arc<SpoolConfig>,
    library: Arc<Library>,
    meter: Arc<Meter>,
    desk: Arc<Desk>,
}

fn painters(config: &SpoolConfig) -> Painters {
    let batch = Painter::new(config.recipe.clone());
    Painters { batch, kept: config.kept_as().map(|(recipe, _)| Painter::new(recipe)) }
}

impl Lane {
    fn work(mut self) {
        while let Some(job) = self.desk.next() {
            let begun = Instant::now();
            let hostages = job.tickets();
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.do_job(job))) {
                self.painters = painters(&self.config);
                self.alone = Alone::new(&self.config, &self.library, &self.meter);
                for (generation, position, clip) in hostages {
                    self.desk.failed(generation, position, self.internal(clip, &*panic));
                }
            }
            self.meter.busy(begun.elapsed());
        }
    }

    fn do_job(&mut self, job: Job) {
        match job {
            Job::Place { generation, position, held, part } => self.place(generation, position, *held, part),
            Job::Start(group) => self.start(group),
            Job::Resume(mut errand) => {
                errand.parked = None;
                self.go_on(errand);
            }
        }
    }

    fn internal(&self, clip: u64, panic: &(dyn Any + Send)) -> Error {
        let said = panic.downcast_ref::<&str>().map(ToString::to_string);
        let reason = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Error::Internal { site: self.library.site(self.library.locate(clip).0), reason }
    }

    /// Copies a held clip into its batch.
    fn place(&mut self, generation: u64, position: u64, held: HeldClip, mut part: Part) {
        let bytes = part.bytes_mut();
        let kept = held.slab.bytes();
        let bytes_of = |shape: Option<ClipShape>| shape.and_then(|s| s.bytes());
        let fits = bytes_of(self.shape) == Some(bytes.len()) && bytes_of(self.kept_shape) == Some(kept.len());
        match (&self.expand, self.shape) {
            _ if !fits => {}
            (Some(expand), Some(shape)) => shape.expand(expand, kept, bytes),
            _ => bytes.copy_from_slice(kept),
        }
        drop(part); // before it is told: the batch is whole when all parts are back
        if fits {
            self.meter.add(|s| s.clip_store_hits += 1);
            self.desk.made(generation, position, held.facts, Pixels::InBatch);
        } else {
            let reason = format!("a clip of {} bytes was kept for a place of another size", kept.len());
            let site = self.library.site(held.facts.video_id);
            self.desk.failed(generation, position, Error::Internal { site, reason });
        }
    }

    /// Plans what one video has for all who wait for it, and begins with it.
    fn start(&mut self, group: Group) {
        let (generation, epoch) = (group.generation, group.epoch);
        if group.tickets.len() == 1 && group.tickets[0].due {
            // Nobody to share with: the plain road.
            return group.tickets.into_iter().for_each(|t| self.make_alone(generation, epoch, t));
        }
        let rules = Rules {
            library: &self.library,
            seed: self.config.order.seed,
            leaves_blank: self.config.sampling.leaves_blank(),
            shape: self.shape,
            kept_shape: self.kept_shape,
        };
        let desk = self.desk.clone();
        let watch = || desk.check(generation);
        let painter = &mut self.painters.batch;
        let begun = Instant::now();
        let planned = errand::plan(group, &rules, painter, &desk, &self.meter, &watch);
        self.meter.add(|s| s.planning_seconds += begun.elapsed().as_secs_f64());
        let Ok(Planned { errand, returned, alone }) = planned else { return };
        desk.give_back(generation, returned, false);
        for ticket in alone {
            self.make_alone(generation, epoch, ticket);
        }
        if let Some(errand) = errand {
            self.go_on(errand);
        }
    }

    fn go_on(&mut self, mut errand: Box<Errand>) {
        let (generation, epoch) = (errand.generation(), errand.epoch());
        let tools = &mut self.painters;
        let advanced = catch_unwind(AssertUnwindSafe(|| errand.advance(tools, &self.desk, &self.meter)));
        let left = match advanced {
            Ok(Ok(Progress::Preempted)) => return self.desk.park(errand),
            Ok(Ok(Progress::Done)) => return self.library.keep_reader(errand.into_reader()),
            Ok(Err(Error::Interrupted)) => return,
            // Each clip by itself will say what is wrong.
            Ok(Err(_)) | Err(_) => {
                self.painters = painters(&self.config);
                errand.into_tickets()
            }
        };
        let (due, later): (Vec<_>, Vec<_>) = left.into_iter().partition(|t| t.due);
        self.desk.give_back(generation, later, true);
        due.into_iter().for_each(|t| self.make_alone(generation, epoch, t));
    }

    /// Makes one clip that shares nothing with others, or the clip that takes its place.
    fn make_alone(&mut self, generation: u64, epoch: u64, mut ticket: Ticket) {
        let desk = self.desk.clone();
        let watch = || desk.check(generation);
        let made = catch_unwind(AssertUnwindSafe(|| self.alone.make(epoch, &mut ticket, &watch)));
        self.alone.count_work();
        let Ticket { position, slot, part, .. } = ticket;
        drop(part); // before it is told: the batch is whole when all parts are back
        match made {
            Ok(Ok((facts, None))) => self.desk.made(generation, position, facts, Pixels::InBatch),
            Ok(Ok((facts, Some((slab, shape))))) => {
                self.desk.made(generation, position, facts, Pixels::Own(slab, shape, None));
            }
            Ok(Err(error)) => self.desk.failed(generation, position, error),
            Err(panic) => {
                self.alone = Alone::new(&self.config, &self.library, &self.meter);
                self.desk.failed(generation, position, self.internal(slot.clip, &*panic));
            }
        }
    }
}
