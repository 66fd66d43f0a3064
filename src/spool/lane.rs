//! In: work from the desk.
//! Out: clips, from as many threads as there are lanes.
//! Never: decides order; a lane's panic becomes an error of its clip.

use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Instant;

use super::alone::Alone;
use super::desk::{Desk, Group, Job, Pixels, Ticket};
use super::errand::{self, Errand, Painters, Planned, Progress, Rules};
use super::library::Library;
use super::road::{DecoderChoice, Road};
use super::stats::Meter;
use super::window::HeldClip;
use super::SpoolConfig;
use crate::batch::{Part, Target};
use crate::error::{Error, Result};
use crate::pixels::{ClipShape, DeviceExpand, Expand, Painter};
use crate::source::{calling, Calling};
use crate::sync::thread::{self, Builder, JoinHandle};

/// All lanes.
pub(super) struct Lanes {
    pub desk: Arc<Desk>,
    threads: Vec<JoinHandle<()>>,
    made_in: u32,
}

impl Lanes {
    pub fn start(config: &Arc<SpoolConfig>, library: Arc<Library>, meter: Arc<Meter>) -> Result<Self> {
        let gpu = config.gpu;
        let road = Arc::new(Road::open(gpu.device, gpu.decoder, gpu.lanes, &meter)?);
        meter.add(|s| s.nvdec_lanes = road.lanes());
        let desk = Arc::new(Desk::new(config, road.clone(), meter.clone()));
        let mut lanes = Self { desk: desk.clone(), threads: Vec::new(), made_in: std::process::id() };
        // Lanes of the CPU beside the GPU's only where that was not ruled out.
        let by_cpu = if gpu.decoder == DecoderChoice::Nvdec { 0 } else { config.threads };
        for n in 0..by_cpu + road.lanes() {
            let by_gpu = n < road.lanes();
            let lane = Lane {
                // Two of them, so that a clip made by itself never disturbs what is compiled for an errand.
                painters: painters(config, &road, by_gpu),
                by_gpu,
                road: road.clone(),
                expand: config.kept_as().map(|(_, expand)| expand),
                expand_on_device: config.kept_as().map(|(_, expand)| expand.for_device()),
                alone: Alone::new(config, &library, &meter, &road),
                shape: config.clip_shape(),
                kept_shape: config.kept_as().map_or(config.clip_shape(), |(recipe, _)| {
                    config.clip_shape().map(|shape| ClipShape { dtype: recipe.dtype, ..shape })
                }),
                config: config.clone(),
                library: library.clone(),
                meter: meter.clone(),
                desk: desk.clone(),
            };
            let thread = Builder::new()
                .name(format!("spool-{}-{n}", if by_gpu { "nvdec" } else { "lane" }))
                .spawn(move || lane.work());
            lanes.threads.push(thread.map_err(|e| {
                let threads = by_cpu + road.lanes();
                Error::Argument(format!("thread {n} of {threads} cannot be started: {e}; use fewer"))
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
        let own = thread::current().id();
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
    /// It is one of those that decode by the GPU.
    by_gpu: bool,
    road: Arc<Road>,
    /// Makes elements of clips that waited as codes.
    expand: Option<Expand>,
    expand_on_device: Option<DeviceExpand>,
    alone: Alone,
    shape: Option<ClipShape>,
    kept_shape: Option<ClipShape>,
    config: Arc<SpoolConfig>,
    library: Arc<Library>,
    meter: Arc<Meter>,
    desk: Arc<Desk>,
}

fn painters(config: &SpoolConfig, road: &Road, by_gpu: bool) -> Painters {
    let by_nvjpeg = config.gpu.decoder == DecoderChoice::Nvjpeg;
    let painter = |recipe| {
        let painter = Painter::on(recipe, road.home.clone());
        if by_nvjpeg {
            painter.by_nvjpeg()
        } else {
            painter
        }
    };
    let kept = config.kept_as().map(|(recipe, _)| painter(recipe));
    Painters { batch: painter(config.recipe.clone()), kept, met_deep: false, by_gpu }
}

impl Lane {
    fn work(mut self) {
        if let Some(gpu) = self.road.gpu() {
            // Calls find it so, and need not change it back and forth. Should it fail, they say so themselves.
            let _ = gpu.device().make_current();
        }
        while let Some(job) = self.desk.next() {
            let begun = Instant::now();
            let hostages = job.tickets();
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.do_job(job))) {
                self.painters = painters(&self.config, &self.road, self.by_gpu);
                self.alone = Alone::new(&self.config, &self.library, &self.meter, &self.road);
                for (generation, position, clip) in hostages {
                    self.desk.failed(generation, position, self.internal(clip, &*panic));
                }
            }
            self.meter.busy(begun.elapsed());
        }
    }

    /// Sources that wait for a server learn from this when nobody waits for the lane any more.
    fn calling(&self, generation: u64) -> Calling {
        let desk = self.desk.clone();
        calling(move || desk.check(generation), Some(self.meter.remote()))
    }

    fn do_job(&mut self, job: Job) {
        match job {
            Job::Place { generation, position, held, part } => self.place(generation, position, *held, part),
            Job::Start(group) => {
                let _calling = self.calling(group.generation);
                self.start(group);
            }
            Job::Resume(mut errand) => {
                let _calling = self.calling(errand.generation());
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
        let placed = self.place_bytes(&held, &mut part);
        drop(part); // before it is told: the batch is whole when all parts are back
        match placed {
            Ok(()) => {
                self.meter.add(|s| s.clip_store_hits += 1);
                self.desk.made(generation, position, held.facts, Pixels::InBatch);
            }
            Err(error) => self.desk.failed(generation, position, error),
        }
    }

    fn place_bytes(&mut self, held: &HeldClip, part: &mut Part) -> Result<()> {
        let kept = held.slab.len();
        let misfit = || Error::Internal {
            site: self.library.site(held.facts.video_id),
            reason: format!("a clip of {kept} bytes was kept for a place of another size"),
        };
        let bytes_of = |shape: Option<ClipShape>| shape.and_then(|s| s.bytes());
        let (have, need) = (bytes_of(self.kept_shape), bytes_of(self.shape));
        match (part.target(), held.slab.bytes()) {
            // It waited as elements, having pictures of more than 8 bits.
            (Target::Host(bytes), Some(kept)) if kept.len() == bytes.len() => bytes.copy_from_slice(kept),
            (Target::Host(bytes), Some(kept)) if have == Some(kept.len()) && need == Some(bytes.len()) => {
                match (&self.expand, self.shape) {
                    (Some(expand), Some(shape)) => shape.expand(expand, kept, bytes),
                    _ => bytes.copy_from_slice(kept),
                }
            }
            (Target::Device(mut spot), None) if have == Some(kept) && need == Some(spot.len) => {
                let easel = self.painters.batch.easel()?;
                let stream = easel.stream().clone();
                spot.begin(&stream)?;
                held.slab.written().iter().try_for_each(|event| stream.wait(event))?;
                match (&self.expand_on_device, self.shape) {
                    (Some(expand), Some(shape)) => {
                        easel.expand(expand, &shape, held.slab.address(), spot.address)?;
                    }
                    _ => stream.copy(spot.address, held.slab.address(), kept)?,
                }
                held.slab.read_until(stream.record()?);
            }
            _ => return Err(misfit()),
        }
        part.settle()
    }

    /// Plans what one video has for all who wait for it, and begins with it.
    fn start(&mut self, group: Group) {
        let (generation, epoch) = (group.generation, group.epoch);
        if group.tickets.len() == 1 && group.tickets[0].due && (group.alone || !self.by_gpu) {
            // Nobody to share with: the plain road.
            return group.tickets.into_iter().for_each(|t| self.make_alone(generation, epoch, t));
        }
        let rules = Rules {
            library: &self.library,
            seed: self.config.order.seed,
            leaves_blank: self.config.sampling.leaves_blank(),
            shape: self.shape,
            kept_shape: if self.painters.met_deep { self.shape } else { self.kept_shape },
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
                self.painters = painters(&self.config, &self.road, self.by_gpu);
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
                self.alone = Alone::new(&self.config, &self.library, &self.meter, &self.road);
                self.desk.failed(generation, position, self.internal(slot.clip, &*panic));
            }
        }
    }
}
