//! Tests the division of memory between suspended decoders and clips, and which workers take clips
//! that were on disk.

use std::sync::Arc;

use super::simulation::{PASS, config};
use super::*;

/// A suspended task whose decoder takes the whole memory budget.
struct Holding {
    scheduler: Arc<Scheduler<Holding>>,
    memory: Option<MemoryReservation>,
}

impl SuspendedTask for Holding {
    fn pass(&self) -> u64 {
        PASS
    }

    fn video(&self) -> u32 {
        0
    }

    fn kind(&self) -> WorkerKind {
        WorkerKind::Cpu
    }

    fn earliest_request(&self) -> SequenceNumber {
        0
    }

    fn reserve_memory(&mut self, budget: &Arc<MemoryBudget>) -> bool {
        // Otherwise a plan on another thread could find neither memory nor the task that holds it,
        // and leave clips for a second decoding.
        assert!(
            self.scheduler.state.try_lock().is_err(),
            "reserves while others see no suspended task"
        );
        self.memory = budget.reserve(budget.bytes() as usize);
        self.memory.is_some()
    }

    fn holds_decoder(&self) -> bool {
        self.memory.is_some()
    }

    fn release_memory(&mut self) {
        self.memory = None;
    }

    fn requests(&self) -> Vec<RequestId> {
        Vec::new()
    }
}

#[test]
fn a_plan_that_lacks_memory_finds_the_task_that_holds_it() {
    let stats = Arc::new(StatsCollector::default());
    let scheduler = Scheduler::with_pace(&config(1), Arc::default(), None, stats, None);
    let scheduler = Arc::new(scheduler);
    scheduler.start_epoch((PASS, 0), true, (0, 0), 0);
    let task = || {
        Box::new(Holding {
            scheduler: scheduler.clone(),
            memory: None,
        })
    };
    assert!(scheduler.suspend(task()).is_none());
    assert_eq!(
        scheduler.reserve(1, 0).err(),
        Some(MemoryShortage::SuspendedDecoder)
    );
    let resumed = scheduler.take_task_with_decoder().expect("it is suspended");
    assert!(!resumed.holds_decoder());
    // Without memory for its decoder, the task is returned and goes on.
    let clip = scheduler.reserve(1, 0).expect("the decoder's is free");
    assert!(scheduler.suspend(resumed).is_some());
    drop(clip);
    assert!(scheduler.suspend(task()).is_none());
    scheduler.close(); // drops the suspended task, which holds the scheduler
}

#[test]
fn a_clip_that_cannot_be_read_from_disk_is_for_its_kind_of_worker() {
    let stats = Arc::new(StatsCollector::default());
    let pace = Some(Pace::new(1, 1));
    let scheduler = Scheduler::<Holding>::with_pace(&config(1), Arc::default(), None, stats, pace);
    let take = |kind| match scheduler.take(&mut scheduler.lock(), kind) {
        Some(Work::Decode(group)) => group.requests,
        _ => Vec::new(),
    };
    let sampled = SampledClip {
        clip: 0,
        occurrence: 0,
        repeat: 0,
        padding: false,
    };
    scheduler.start_epoch((PASS, 0), true, (0, 0), 0);
    scheduler.enqueue([(sampled, 0)].into_iter(), true);
    scheduler.open(1, (Vec::new(), Vec::new()));
    scheduler.requeue_stored(PASS, take(WorkerKind::Nvdec));
    let unreadable = take(WorkerKind::Cpu); // any worker reads it
    assert_eq!(unreadable.len(), 1);
    scheduler.requeue_for(WorkerKind::Nvdec, PASS, unreadable);
    assert!(take(WorkerKind::Cpu).is_empty());
    assert_eq!(take(WorkerKind::Nvdec).len(), 1);
}
