//! Runs queued work that a caller waits for, and other work in an adversarial order.
//! An operation never runs before those that must precede it.

use crate::call_log::{
    Code, ILLEGAL_ADDRESS, behavior, lose_context, lost_context_code, violation,
};

use super::DriverState;
use super::race::StreamId;
use super::streams::{Failure, Stream};

impl DriverState {
    fn is_complete(&self, stream: StreamId, op_index: u64) -> bool {
        // A destroyed stream that has no work left is removed.
        self.streams
            .get(&stream)
            .is_none_or(|s| s.executed >= op_index)
    }

    /// The stream whose head must run for this one's head to run: itself, if nothing blocks it.
    fn runnable_stream(&self, mut id: StreamId) -> StreamId {
        while let Some(head) = self.streams.get(&id).and_then(|s| s.queue.front()) {
            match head
                .after
                .iter()
                .find(|(stream, op_index)| !self.is_complete(*stream, *op_index))
            {
                Some((blocker, _)) => id = *blocker,
                None => break,
            }
        }
        id
    }

    fn run_head(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let Some(operation) = stream.queue.pop_front() else {
            return;
        };
        stream.executed = operation.op_index;
        if stream.destroyed && stream.queue.is_empty() {
            self.streams.remove(&id);
        }
        self.operations_run += 1;
        if lost_context_code() != 0 {
            return;
        }
        let label = operation.label;
        for access in &operation.accesses {
            if self
                .memory
                .check(
                    access.from,
                    access.bytes,
                    &format!("{label} ran after its memory was freed"),
                )
                .is_err()
            {
                lose_context(ILLEGAL_ADDRESS);
                return;
            }
        }
        match (operation.work)() {
            Ok(()) if !label.starts_with("kernel") => {}
            Ok(()) => {
                if self.memory.check_fences(&label) {
                    lose_context(ILLEGAL_ADDRESS);
                }
            }
            Err(Failure::Fault(address)) => {
                violation(format!(
                    "{label}: illegal address {}",
                    self.memory.describe(address)
                ));
                self.memory.restore_fences(); // the faulting write broke the fence, which is not a second finding
                lose_context(ILLEGAL_ADDRESS);
            }
            Err(Failure::Refused(why)) => {
                violation(format!("{label}: {why}"));
                lose_context(719);
            }
        }
    }

    /// The next operation of any stream, if one can run.
    pub fn run_any(&mut self) {
        let busy: Vec<StreamId> = self
            .streams
            .iter()
            .filter(|(_, s)| !s.queue.is_empty())
            .map(|(&id, _)| id)
            .collect();
        if !busy.is_empty() {
            let at = self.choose(busy.len() as u64) as usize;
            self.run_head(self.runnable_stream(busy[at]));
        }
    }

    /// Runs until this operation is complete; other operations may run too.
    pub fn run_until(&mut self, id: StreamId, op_index: u64) {
        // Lazy: only what is waited for. Otherwise other work runs first, sometimes or nearly
        // always.
        let others = if behavior("lazy") {
            0
        } else {
            [1, 4, 15][self.choose(3) as usize]
        };
        while !self.is_complete(id, op_index) {
            if others > 0 && self.choose(16) < others {
                self.run_any();
            } else {
                self.run_head(self.runnable_stream(id));
            }
        }
    }

    /// Runs the operations that touch this range, except those that wait for a stream to which no
    /// picture is mapped.
    pub fn run_decoder_work(&mut self, base: usize, bytes: usize) {
        let touching = |s: &Stream| {
            s.queue
                .iter()
                .rfind(|o| o.touches(base, bytes))
                .map(|o| o.op_index)
        };
        let pending: Vec<(StreamId, u64)> = self
            .streams
            .iter()
            .filter_map(|(&id, s)| Some((id, touching(s)?)))
            .collect();
        for (id, op_index) in pending {
            while !self.is_complete(id, op_index) {
                let runnable = self.runnable_stream(id);
                if !self.streams.get(&runnable).is_some_and(|s| s.decodes) {
                    break;
                }
                self.run_head(runnable);
            }
        }
    }

    /// Waits for all work enqueued in the stream so far; the host knows it is complete from now on.
    pub fn synchronize(&mut self, id: StreamId) -> Result<(), Code> {
        let Some(stream) = self.streams.get(&id) else {
            return Ok(());
        };
        let (op_index, waits) = (stream.submitted, stream.waits.clone());
        self.run_until(id, op_index);
        for (other, op_index) in waits {
            self.run_until(other, op_index);
        }
        if let Some(stream) = self.streams.get(&id) {
            let clock = stream.clock.clone();
            self.host.join(&clock);
        }
        context_result()
    }

    pub fn synchronize_device(&mut self, device: usize) -> Result<(), Code> {
        let mut ids: Vec<StreamId> = self
            .streams
            .iter()
            .filter(|(_, s)| s.device == device)
            .map(|(&id, _)| id)
            .collect();
        while !ids.is_empty() {
            let at = self.choose(ids.len() as u64) as usize;
            self.synchronize(ids.swap_remove(at))?;
        }
        context_result()
    }

    /// A query rather than a wait: sometimes work runs, so that a polling caller finally succeeds.
    pub fn query(&mut self, id: StreamId, op_index: u64) -> bool {
        if self.is_complete(id, op_index) {
            return true;
        }
        let num_queries = self.streams.get_mut(&id).map_or(0, |s| {
            s.num_queries += 1;
            s.num_queries
        });
        for _ in 0..self.choose(3).max(u64::from(num_queries.is_multiple_of(4))) {
            if !self.is_complete(id, op_index) {
                self.run_head(self.runnable_stream(id));
            }
        }
        if num_queries % 8 == 7 {
            self.run_until(id, op_index); // time passes between questions
        }
        self.is_complete(id, op_index)
    }
}

fn context_result() -> Result<(), Code> {
    match lost_context_code() {
        0 => Ok(()),
        code => Err(code),
    }
}
