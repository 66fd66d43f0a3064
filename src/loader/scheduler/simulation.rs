//! Runs the scheduler under a virtual clock with the speeds of several machines: how many clips per
//! second are delivered if NVDEC and the CPU share the requests, compared with either alone.

use std::sync::Arc;
use std::time::Duration;

use super::super::lookahead::tests::cached_clip;
use super::super::{ClipView, Collate, GpuConfig, LoaderOptions, OnError};
use super::*;
use crate::batch_sampler::BatchSamplerConfig;
use crate::clip_sampler::{ClipIndices, ClipSampler, RandomSource, VideoTiming};
use crate::dataset::{Sample, SampleTable};
use crate::rng::{Purpose, Rng, RngKey};
use crate::transforms::transform::Transform;
use crate::transforms::{Layout, TransformPipeline};

/// Cost of a mean clip: 93 pictures of 1080p, as 16 frames of stride 4 take from groups of 150
/// pictures.
const CLIP_COST: f64 = 93.0 * 8160.0;

/// Batches that are made ahead of the one that the consumer waits for.
const PREFETCH: usize = 2;

/// Clips of an epoch, of which the first quarter is not measured.
const CLIPS: u64 = 1280;

pub(super) const PASS: u64 = 1;

/// A machine: NVDEC engines with the clips per second of all of them together, and CPU workers with
/// the seconds that one takes for a clip.
#[derive(Clone, Copy)]
struct Machine {
    name: &'static str,
    engines: u32,
    nvdec_rate: f64,
    cpu_workers: u32,
    cpu_seconds: f64,
}

/// Clips of H.264, groups of 150 to 250 pictures. Of the H200, NVDEC's rate and the CPU's are
/// measured (`benches/record`); of the others they are scaled by engines and clock.
const MACHINES: [Machine; 6] = [
    machine("H200, 16 busy vCPU", 7, 49.0, 14, 0.9),
    machine("H200, 13 fast cores", 7, 49.0, 13, 0.51),
    machine("L4, 8 vCPU", 4, 31.0, 6, 0.9),
    machine("A10, 8 vCPU", 2, 15.4, 6, 0.9),
    machine("T4, 8 vCPU", 2, 13.6, 6, 1.1),
    machine("RTX 4090, 16 fast cores", 1, 9.3, 14, 0.4),
];

/// Those that differ most.
const DIFFERENT: [Machine; 3] = [MACHINES[0], MACHINES[3], MACHINES[5]];

const fn machine(
    name: &'static str,
    engines: u32,
    nvdec_rate: f64,
    cpu_workers: u32,
    cpu_seconds: f64,
) -> Machine {
    Machine {
        name,
        engines,
        nvdec_rate,
        cpu_workers,
        cpu_seconds,
    }
}

/// How requests are divided.
#[derive(Clone, Copy, PartialEq)]
enum Division {
    NvdecAlone,
    CpuAlone,
    /// Every worker takes the earliest deadline.
    ByDeadline,
    ByPace,
}

/// What makes it hard to divide the requests.
#[derive(Clone, Copy)]
struct Conditions {
    /// The number of requests after the open batches for whose clips there is memory.
    max_work_ahead: u64,
    /// Of so many clips, one is of a video in 4K, which costs four times as much.
    expensive_one_in: u64,
    /// After this number of clips, the CPU is ten times as slow: others use it.
    cpu_is_slow_after: u64,
}

const EASY: Conditions = Conditions {
    max_work_ahead: 400,
    expensive_one_in: CLIPS,
    cpu_is_slow_after: CLIPS,
};

#[derive(Debug)]
struct OneClip;

impl ClipSampler for OneClip {
    fn num_clips(&self, _: &dyn VideoTiming) -> u64 {
        1
    }

    fn fixed_num_clips(&self) -> Option<u64> {
        Some(1)
    }

    fn sequence_length(&self) -> Option<u32> {
        Some(1)
    }

    fn clip(&self, _: &dyn VideoTiming, _: u64, _: &mut dyn RandomSource) -> Result<ClipIndices> {
        Ok(ClipIndices::unpadded(vec![0]))
    }

    fn min_length_hint(&self) -> String {
        "1 frame".into()
    }
}

pub(super) fn config(batch_size: u32) -> LoaderConfig {
    LoaderConfig {
        samples: Arc::new(SampleTable::from(Vec::<Sample>::new())),
        views: vec![ClipView::new(
            Arc::new(OneClip),
            TransformPipeline::new(Vec::<Transform>::new(), Dtype::U8, Layout::Nthwc).unwrap(),
        )],
        order: BatchSamplerConfig {
            batch_size,
            ..BatchSamplerConfig::default()
        },
        mixture: None,
        index: None,
        options: LoaderOptions {
            group_clips: false,
            images: false,
            stream: None,
            on_error: OnError::Raise,
            outage_timeout: None,
            collate: Collate::default(),
            num_threads: 1,
            prefetch_batches: PREFETCH as u32,
            memory_budget: 1 << 30,
            device_memory_budget: None,
            lookahead_clips: 1 << 16,
            clip_store: None,
            gpu: GpuConfig::default(),
            audio: None,
        },
    }
}

/// A clip that a worker makes.
struct Task {
    kind: WorkerKind,
    fixed_kind: Option<WorkerKind>,
    seq: SequenceNumber,
    request: Option<ClipRequest>,
    cost: f64,
    remaining: f64,
}

impl SuspendedTask for Task {
    fn pass(&self) -> u64 {
        PASS
    }

    fn video(&self) -> u32 {
        self.seq as u32
    }

    fn kind(&self) -> WorkerKind {
        self.kind
    }

    fn earliest_request(&self) -> SequenceNumber {
        self.seq
    }

    fn reserve_memory(&mut self, _: &Arc<MemoryBudget>) -> bool {
        true
    }

    fn holds_decoder(&self) -> bool {
        false
    }

    fn release_memory(&mut self) {}

    fn requests(&self) -> Vec<RequestId> {
        Vec::new()
    }
}

struct Worker {
    kind: WorkerKind,
    task: Option<Box<Task>>,
    busy_since: f64,
}

struct Simulation {
    machine: Machine,
    conditions: Conditions,
    scheduler: Scheduler<Task>,
    workers: Vec<Worker>,
    rng: Rng,
    costs: Vec<f64>,
    clock: f64,
    /// Clips that each kind of worker has made, and those that were moved.
    made: [u64; 2],
    moved: u64,
}

impl Simulation {
    fn new(machine: Machine, division: Division, batch_size: u32, conditions: Conditions) -> Self {
        let by_cpu = match division {
            Division::NvdecAlone => 0,
            _ => machine.cpu_workers,
        };
        let by_nvdec = match division {
            Division::CpuAlone => 0,
            _ => 2 * machine.engines,
        };
        let pace = (division == Division::ByPace).then(|| Pace::new(by_cpu, by_nvdec));
        let (config, stats) = (config(batch_size), Arc::new(StatsCollector::default()));
        let scheduler = Scheduler::with_pace(&config, Arc::default(), None, stats, pace);
        let kinds = std::iter::repeat_n(WorkerKind::Nvdec, by_nvdec as usize)
            .chain(std::iter::repeat_n(WorkerKind::Cpu, by_cpu as usize));
        let mut rng = RngKey {
            seed: 1,
            epoch: 0,
            clip: 0,
            occurrence: 0,
        }
        .rng(Purpose::Sampling);
        let costs = (1..=CLIPS)
            .map(|clip| match clip % conditions.expensive_one_in {
                0 => 4.0 * CLIP_COST * log_normal(&mut rng),
                _ => CLIP_COST * log_normal(&mut rng),
            })
            .collect();
        Self {
            machine,
            conditions,
            scheduler,
            workers: kinds
                .map(|kind| Worker {
                    kind,
                    task: None,
                    busy_since: 0.0,
                })
                .collect(),
            rng,
            costs,
            clock: 0.0,
            made: [0; 2],
            moved: 0,
        }
    }

    /// Delivers an epoch to a consumer that takes batches at once. Returns the clips per second
    /// after the first quarter.
    fn run(&mut self, batch_size: u64) -> f64 {
        let max_work_ahead = self.conditions.max_work_ahead;
        self.scheduler
            .start_epoch((PASS, 0), true, (0, max_work_ahead), 0);
        let request = |clip| {
            let sampled = SampledClip {
                clip,
                occurrence: 0,
                repeat: 0,
                padding: false,
            };
            (sampled, clip as u32)
        };
        self.scheduler.enqueue((0..CLIPS).map(request), true);
        let (mut opened, mut delivered) = (0, 0);
        let (first, batches) = (CLIPS / batch_size / 4, CLIPS / batch_size);
        let mut begun = 0.0;
        loop {
            while opened < batches && self.scheduler.open_batches() <= PREFETCH {
                self.scheduler
                    .open(batch_size as usize, (Vec::new(), Vec::new()));
                opened += 1;
            }
            self.give_work();
            if self.scheduler.take_complete_batch(Duration::ZERO).is_some() {
                delivered += 1;
                if delivered == self.conditions.cpu_is_slow_after / batch_size {
                    self.machine.cpu_seconds *= 10.0;
                }
                if delivered == first {
                    begun = self.clock;
                }
                if delivered == batches {
                    return ((batches - first) * batch_size) as f64 / (self.clock - begun);
                }
                continue;
            }
            if self.move_to_nvdec() {
                continue;
            }
            self.advance();
        }
    }

    /// Gives work to idle workers, in an order drawn at random, and suspends tasks for earlier ones.
    fn give_work(&mut self) {
        loop {
            let offset = self.rng.next_below(self.workers.len() as u64) as usize;
            let (mut changed, mut has_none) = (false, [false; 2]);
            for n in 0..self.workers.len() {
                let at = (n + offset) % self.workers.len();
                let kind = self.workers[at].kind as usize;
                if has_none[kind] && self.workers[at].task.is_none() {
                    continue;
                }
                let given = self.give_work_to(at);
                match given {
                    true => (changed, has_none) = (true, [false; 2]),
                    false => has_none[kind] |= self.workers[at].task.is_none(),
                }
            }
            if !changed {
                break;
            }
        }
        let is_idle = |w: &&Worker| w.kind == WorkerKind::Nvdec && w.task.is_none();
        let idle = self.workers.iter().filter(is_idle).count();
        let mut state = self.scheduler.lock();
        state.idle[WorkerKind::Nvdec as usize] = idle;
        self.scheduler.update_wanted(&state);
    }

    fn give_work_to(&mut self, at: usize) -> bool {
        let kind = self.workers[at].kind;
        if let Some(task) = &self.workers[at].task {
            if self.scheduler.earliest_deadline(kind) >= task.seq {
                return false;
            }
            self.record_work(at);
            let task = self.workers[at].task.take().unwrap();
            self.scheduler.suspend(task);
        }
        let work = {
            let mut state = self.scheduler.lock();
            self.scheduler.take(&mut state, kind)
        };
        match work {
            None => return false,
            Some(Work::CopyCached { seq, .. }) => self.complete(seq, true),
            Some(Work::Resume(task)) => self.begin(at, task),
            Some(Work::Decode(mut group)) => {
                let request = group.requests.remove(0);
                let cost = self.costs[request.seq as usize];
                let due = request.seq;
                let in_time = self
                    .scheduler
                    .record_task((cost as u64, 1), (due, cost as u64));
                if !in_time && kind == WorkerKind::Cpu && group.fixed_kind.is_none() {
                    self.scheduler
                        .requeue_for(WorkerKind::Nvdec, PASS, vec![request]);
                } else {
                    let task = Task {
                        kind,
                        fixed_kind: group.fixed_kind,
                        seq: due,
                        request: Some(request),
                        cost,
                        remaining: cost,
                    };
                    self.begin(at, Box::new(task));
                }
            }
        }
        true
    }

    fn begin(&mut self, at: usize, task: Box<Task>) {
        self.workers[at].task = Some(task);
        self.workers[at].busy_since = self.clock;
    }

    fn complete(&self, seq: SequenceNumber, is_due: bool) {
        let clip = cached_clip();
        let data = match is_due {
            true => ClipData::InBatch,
            false => ClipData::Owned(clip.buffer, clip.shape, None),
        };
        self.scheduler.complete_clip(PASS, seq, clip.metadata, data);
    }

    /// Leaves clips of CPU workers that the consumer waits for to idle NVDEC workers.
    fn move_to_nvdec(&mut self) -> bool {
        let mut any = false;
        for at in 0..self.workers.len() {
            let Some(task) = &self.workers[at].task else {
                continue;
            };
            let busy = self.clock - self.workers[at].busy_since;
            let done = (task.cost - task.remaining).min(busy * self.rate(task.kind));
            let progress = TaskProgress {
                done: done as u64,
                busy: Duration::from_secs_f64(busy),
                remaining: task.remaining as u64,
                whole: task.cost as u64,
            };
            if task.kind == WorkerKind::Cpu
                && task.fixed_kind.is_none()
                && self.scheduler.is_wanted_by_nvdec(task.seq, || progress)
            {
                self.record_work(at);
                let mut task = self.workers[at].task.take().unwrap();
                let requests = task.request.take().into_iter().collect();
                self.scheduler
                    .requeue_for(WorkerKind::Nvdec, PASS, requests);
                self.moved += 1;
                any = true;
            }
        }
        any
    }

    /// The cost per second that a worker does now.
    fn rate(&self, kind: WorkerKind) -> f64 {
        match kind {
            WorkerKind::Cpu => CLIP_COST / self.machine.cpu_seconds,
            WorkerKind::Nvdec => {
                let is_busy = |w: &&Worker| w.kind == WorkerKind::Nvdec && w.task.is_some();
                let busy = self.workers.iter().filter(is_busy).count();
                let engines = f64::from(self.machine.engines);
                let engine = CLIP_COST * self.machine.nvdec_rate / engines;
                engine * (engines / busy as f64).min(1.0)
            }
        }
    }

    /// Advances the clock until a worker is done.
    fn advance(&mut self) {
        let rates = [WorkerKind::Cpu, WorkerKind::Nvdec].map(|kind| self.rate(kind));
        let left = |w: &Worker| Some(w.task.as_ref()?.remaining / rates[w.kind as usize]);
        let step = self.workers.iter().filter_map(left).min_by(f64::total_cmp);
        let step = step.expect("a worker has work");
        self.clock += step;
        for at in 0..self.workers.len() {
            let worker = &mut self.workers[at];
            let Some(task) = &mut worker.task else {
                continue;
            };
            task.remaining -= rates[worker.kind as usize] * step;
            if task.remaining > 1e-6 * task.cost {
                continue;
            }
            self.made[worker.kind as usize] += 1;
            self.record_work(at);
            let task = self.workers[at].task.take().unwrap();
            self.complete(task.seq, task.request.is_some_and(|r| r.is_due));
        }
    }

    /// Reports to the scheduler what a worker has done since it began or resumed its task.
    fn record_work(&mut self, at: usize) {
        let worker = &self.workers[at];
        let Some(task) = &worker.task else { return };
        let busy = Duration::from_secs_f64(self.clock - worker.busy_since);
        // Of a resumed task, the time is only a part.
        let cost = (task.cost - task.remaining).min(busy.as_secs_f64() * self.rate(worker.kind));
        self.scheduler.record_work(worker.kind, cost as u64, busy);
    }
}

/// A number with mean 1 and the spread of clips of real files.
fn log_normal(rng: &mut Rng) -> f64 {
    const SPREAD: f64 = 0.35;
    let (radius, angle) = (1.0 - rng.next_f64(), rng.next_f64());
    let normal = (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos();
    (SPREAD * normal - SPREAD * SPREAD / 2.0).exp().max(0.15)
}

/// Clips per second, and how many of them were moved.
fn rate(
    machine: Machine,
    division: Division,
    batch_size: u32,
    conditions: Conditions,
) -> (f64, u64) {
    let mut simulation = Simulation::new(machine, division, batch_size, conditions);
    let rate = simulation.run(u64::from(batch_size));
    (rate, simulation.moved)
}

/// Prints and checks the rates of all machines: `check` is given the machine, and the rates of
/// NVDEC alone, of the CPU alone, by deadline and by pace.
fn compare(
    machines: &[Machine],
    conditions: Conditions,
    check: impl Fn(Machine, u32, [f64; 4], u64),
) {
    println!("clips/s               batch  NVDEC    CPU  by deadline  by pace  moved");
    for &machine in machines {
        for batch_size in [4, 8, 16, 32, 64] {
            let divisions = [
                Division::NvdecAlone,
                Division::CpuAlone,
                Division::ByDeadline,
                Division::ByPace,
            ];
            let rates = divisions.map(|division| rate(machine, division, batch_size, conditions));
            let [nvdec, cpu, deadline, (pace, moved)] = rates;
            println!(
                "{:24} {batch_size:2} {:6.1} {:6.1} {:12.1} {pace:8.1} {moved:6}",
                machine.name, nvdec.0, cpu.0, deadline.0
            );
            check(
                machine,
                batch_size,
                [nvdec.0, cpu.0, deadline.0, pace],
                moved,
            );
        }
    }
}

#[test]
fn nvdec_and_cpu_together_are_faster_than_either() {
    compare(
        &MACHINES,
        EASY,
        |machine, batch_size, [nvdec, cpu, deadline, pace], _| {
            let case = format!("{}, batch size {batch_size}", machine.name);
            assert!(pace >= 0.97 * nvdec.max(cpu), "{case}");
            assert!(pace >= 0.97 * deadline, "{case}");
            if machine.name.starts_with("H200") {
                assert!(pace >= 1.3 * nvdec, "{case}");
                // The reason for all this.
                assert!(batch_size > 8 || deadline < 0.7 * nvdec, "{case}");
            }
        },
    );
}

#[test]
fn without_memory_for_clips_ahead_the_cpu_does_not_slow_nvdec() {
    let conditions = Conditions {
        max_work_ahead: 0,
        ..EASY
    };
    compare(
        &DIFFERENT,
        conditions,
        |machine, batch_size, [nvdec, _, _, pace], _| {
            let case = format!("{}, batch size {batch_size}", machine.name);
            assert!(pace >= 0.97 * nvdec, "{case}");
        },
    );
}

#[test]
fn expensive_clips_are_left_to_nvdec() {
    let conditions = Conditions {
        expensive_one_in: 8,
        ..EASY
    };
    compare(
        &DIFFERENT,
        conditions,
        |machine, batch_size, [nvdec, cpu, _, pace], _| {
            let case = format!("{}, batch size {batch_size}", machine.name);
            assert!(pace >= 0.97 * nvdec.max(cpu), "{case}");
        },
    );
}

#[test]
fn clips_of_a_slow_cpu_are_moved() {
    let conditions = Conditions {
        max_work_ahead: 64,
        cpu_is_slow_after: CLIPS / 2,
        ..EASY
    };
    compare(
        &DIFFERENT,
        conditions,
        |machine, batch_size, [nvdec, _, _, pace], moved| {
            let case = format!("{}, batch size {batch_size}", machine.name);
            assert!(pace >= 0.97 * nvdec, "{case}");
            // Elsewhere other clips are made meanwhile.
            assert!(
                moved > 0 || !machine.name.starts_with("H200") || batch_size > 8,
                "{case}"
            );
        },
    );
}
