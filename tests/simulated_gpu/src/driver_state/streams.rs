//! Queues of operations: each knows which operations must precede it, and races are detected when
//! it is enqueued. `scheduling` runs them.

use std::collections::VecDeque;

use crate::call_log::{Code, behavior, violation};
use crate::cuda::fill_bytes;

use super::DriverState;
use super::race::{AccessKind, MemoryAccess, StreamId, VectorClock, record};

/// Maximum depth of a queue before its oldest work runs: a driver blocks there.
const MAX_QUEUE_DEPTH: usize = 1024;

/// The samples of an overwritten surface.
const OVERWRITTEN: u8 = 0xA5;

/// The result of an operation: done, or the address at which it faulted.
pub type Outcome = Result<(), Failure>;

pub enum Failure {
    Fault(usize),
    Refused(String),
}

pub type Work = Box<dyn FnOnce() -> Outcome + Send>;

pub struct Operation {
    pub label: String,
    pub op_index: u64,
    /// Operations of other streams that precede it: stream, index.
    pub after: Vec<(StreamId, u64)>,
    pub accesses: Vec<MemoryAccess>,
    pub work: Work,
}

impl Operation {
    pub fn touches(&self, base: usize, bytes: usize) -> bool {
        self.accesses
            .iter()
            .any(|a| a.from < base + bytes && base < a.from + a.bytes)
    }
}

pub struct Stream {
    pub device: usize,
    /// Whether it waits for the legacy default stream, and that one for it.
    pub blocking: bool,
    /// Whether a decoded picture was mapped to it.
    pub decodes: bool,
    pub priority: i32,
    pub destroyed: bool,
    pub queue: VecDeque<Operation>,
    pub submitted: u64,
    pub executed: u64,
    pub clock: VectorClock,
    /// Waits added since the last operation.
    pub waits: Vec<(StreamId, u64)>,
    /// Queries in a row that were answered "not yet".
    pub num_queries: u32,
}

impl Stream {
    pub fn new(device: usize, blocking: bool) -> Stream {
        Stream {
            device,
            blocking,
            decodes: false,
            priority: 0,
            destroyed: false,
            queue: VecDeque::new(),
            submitted: 0,
            executed: 0,
            clock: VectorClock::default(),
            waits: Vec::new(),
            num_queries: 0,
        }
    }
}

impl DriverState {
    /// Operations that must precede the next one of this stream by the default stream's rules.
    fn default_stream_rules(&self, id: StreamId) -> Vec<(StreamId, u64, VectorClock)> {
        let Some(stream) = self.streams.get(&id) else {
            return Vec::new();
        };
        let others = self.streams.iter().filter(|&(&other, s)| {
            other != id
                && s.device == stream.device
                && s.blocking
                && stream.blocking
                && s.submitted > 0
                && (DriverState::is_legacy(id) || DriverState::is_legacy(other))
        });
        others
            .map(|(&other, s)| (other, s.submitted, s.clock.clone()))
            .collect()
    }

    /// Enqueues an operation and returns its index.
    pub fn submit(
        &mut self,
        id: StreamId,
        label: String,
        accesses: Vec<MemoryAccess>,
        work: Work,
    ) -> Result<u64, Code> {
        let rules = self.default_stream_rules(id);
        let Some(stream) = self.streams.get_mut(&id) else {
            return Err(crate::call_log::INVALID_HANDLE);
        };
        stream.submitted += 1;
        let op_index = stream.submitted;
        let mut after = std::mem::take(&mut stream.waits);
        stream.clock.join(&self.host);
        for (other, submitted, clock) in rules {
            after.push((other, submitted));
            stream.clock.join(&clock);
        }
        stream.clock.advance(id, op_index);
        let clock = stream.clock.clone();
        for access in &accesses {
            let Some(allocation) = self.memory.find_mut(access.from) else {
                continue;
            };
            if let Some(conflict) = record(
                &mut allocation.past,
                access,
                (id, op_index, &label),
                &clock,
                &self.host,
            ) {
                let location = self.memory.describe(access.from);
                violation(format!(
                    "race at {location}: {label} (operation {op_index} of stream {id:#x}) and {conflict}, whose order is not defined"
                ));
            }
        }
        let Some(stream) = self.streams.get_mut(&id) else {
            return Err(crate::call_log::INVALID_HANDLE);
        };
        stream.queue.push_back(Operation {
            label,
            op_index,
            after,
            accesses,
            work,
        });
        let full = stream.queue.len() > MAX_QUEUE_DEPTH;
        if full {
            self.run_until(id, op_index - MAX_QUEUE_DEPTH as u64 / 2);
        } else if behavior("early") && self.choose(4) == 0 {
            self.run_any();
        }
        Ok(op_index)
    }

    /// Makes later operations of the stream wait for that one.
    pub fn wait(&mut self, id: StreamId, (other, op_index, clock): (StreamId, u64, &VectorClock)) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.clock.join(clock);
            if other != id {
                stream.waits.push((other, op_index));
            }
        }
    }

    /// An operation that touches this range and has not run yet.
    pub fn pending_access(&self, base: usize, bytes: usize) -> Option<String> {
        let mut waiting = self.streams.values().flat_map(|s| &s.queue);
        waiting
            .find(|o| o.touches(base, bytes))
            .map(|o| o.label.clone())
    }

    /// Writes a pattern over this range before each operation that reads it and has not run yet.
    pub fn overwrite_before_reads(&mut self, base: usize, bytes: usize) {
        for operation in self.streams.values_mut().flat_map(|s| &mut s.queue) {
            let writes = operation
                .accesses
                .iter()
                .any(|a| a.kind == AccessKind::Write && a.from == base);
            if writes || !operation.touches(base, bytes) {
                continue;
            }
            let work = std::mem::replace(&mut operation.work, Box::new(|| Ok(())));
            operation.work = Box::new(move || {
                fill_bytes(base, OVERWRITTEN, bytes);
                work()
            });
        }
    }
}
