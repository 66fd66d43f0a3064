//! Divides the requests among NVDEC and CPU workers by how fast each decodes. NVDEC workers take
//! the earliest deadline. A CPU worker, which takes several times as long for a clip, takes the
//! first request that it finishes before NVDEC would: an earlier one would hold up its batch.

use std::time::Duration;

/// A kind of worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkerKind {
    /// Decodes on the CPU.
    Cpu,
    /// Decodes on NVDEC what NVDEC can decode.
    Nvdec,
}

/// How much decoding a clip or a task takes: macroblocks of the pictures in its decode ranges.
pub(super) type Cost = u64;

/// Macroblocks of a 1080p picture.
const FULL_HD: f64 = 8160.0;

/// Pictures per second that one worker is assumed to decode until its rate is known: half an NVDEC
/// engine, which two workers share, and one core.
const ASSUMED_PICTURES_PER_SECOND: [f64; 2] = [150.0, 350.0];

/// Seconds of work that count as much as what was assumed before.
const ASSUMED_SECONDS: f64 = 0.5;

/// Seconds of work after which what was learned before counts about half.
const MEMORY_SECONDS: f64 = 20.0;

/// Number of clips after which the mean cost before counts about half.
const MEMORY_CLIPS: f64 = 256.0;

/// How much longer than expected a CPU worker may take for a clip: costs are estimates.
const MARGIN: f64 = 1.25;

/// A CPU worker moves a clip to idle NVDEC workers if it would take this many times as long.
const MIN_GAIN: f64 = 2.0;

/// How far a CPU worker is with a task.
pub(super) struct TaskProgress {
    /// What it has done of late, and in which time.
    pub done: Cost,
    pub busy: Duration,
    /// What remains to be done.
    pub remaining: Cost,
    /// What it costs to make the unfinished clips again.
    pub whole: Cost,
}

/// A ratio of two sums in which what is old counts less.
struct Ratio {
    sum: f64,
    weight: f64,
    memory: f64,
}

impl Ratio {
    fn new(value: f64, weight: f64, memory: f64) -> Self {
        Self {
            sum: value * weight,
            weight,
            memory,
        }
    }

    fn add(&mut self, sum: f64, weight: f64) {
        let kept = self.memory / (self.memory + weight);
        self.sum = self.sum * kept + sum;
        self.weight = self.weight * kept + weight;
    }

    fn value(&self) -> f64 {
        self.sum / self.weight
    }
}

/// What is known of the speed of the workers.
pub(super) struct Pace {
    workers: [u32; 2],
    /// Cost per second of one busy worker of each kind.
    rates: [Ratio; 2],
    /// Cost of one clip.
    clip_cost: Ratio,
}

impl Pace {
    pub(super) fn new(cpu_workers: u32, nvdec_workers: u32) -> Self {
        let assumed = |rate: f64| Ratio::new(rate * FULL_HD, ASSUMED_SECONDS, MEMORY_SECONDS);
        Self {
            workers: [cpu_workers, nvdec_workers],
            rates: ASSUMED_PICTURES_PER_SECOND.map(assumed),
            clip_cost: Ratio::new(64.0 * FULL_HD, 0.1, MEMORY_CLIPS),
        }
    }

    /// Records work that a worker of this kind has done.
    pub(super) fn record_work(&mut self, kind: WorkerKind, cost: Cost, busy: Duration) {
        if cost > 0 && !busy.is_zero() {
            self.rates[kind as usize].add(cost as f64, busy.as_secs_f64());
        }
    }

    /// Records the cost of a task that makes this many clips.
    pub(super) fn record_task(&mut self, cost: Cost, clips: usize) {
        self.clip_cost.add(cost as f64, clips as f64);
    }

    /// The number of pending requests before one with which a CPU worker finishes it before NVDEC
    /// would. `cost`: that of the request, if it is known.
    pub(super) fn lead(&self, cost: Option<Cost>) -> u64 {
        let relative = cost.map_or(1.0, |cost| cost as f64 / self.clip_cost.value());
        // In clips that all NVDEC workers make: the time of the CPU worker for the clip, less that
        // of one NVDEC worker.
        let workers = f64::from(self.workers[WorkerKind::Nvdec as usize]);
        let slower = self.rate(WorkerKind::Nvdec) / self.rate(WorkerKind::Cpu);
        let lead = relative * workers * (MARGIN * slower - 1.0);
        lead.max(1.0).ceil() as u64
    }

    /// Number of requests after the open batches that keep all workers busy.
    pub(super) fn work_ahead(&self) -> u64 {
        self.lead(None) * 3 / 2 + 2 * u64::from(self.workers.iter().sum::<u32>())
    }

    /// Whether an idle NVDEC worker would have made the clips of a CPU worker long before it.
    pub(super) fn is_worth_moving(&self, task: &TaskProgress) -> bool {
        // Its own speed counts more and more: other processes may use its core.
        let before = self.rate(WorkerKind::Cpu) * ASSUMED_SECONDS;
        let cpu = (before + task.done as f64) / (ASSUMED_SECONDS + task.busy.as_secs_f64());
        let nvdec = self.rate(WorkerKind::Nvdec);
        task.remaining as f64 / cpu > MIN_GAIN * task.whole as f64 / nvdec
    }

    fn rate(&self, kind: WorkerKind) -> f64 {
        self.rates[kind as usize].value()
    }
}
