//! Detects races: two operations on the same bytes, one of them a write, whose order is not
//! defined. The check happens when work is enqueued, so the operations need not collide in time.

use std::collections::BTreeMap;

pub type StreamId = u64;

/// For each stream, the operation up to which everything is known to be complete.
#[derive(Clone, Default, Debug)]
pub struct VectorClock(BTreeMap<StreamId, u64>);

impl VectorClock {
    pub fn join(&mut self, other: &VectorClock) {
        for (&stream, &op_index) in &other.0 {
            self.advance(stream, op_index);
        }
    }

    pub fn advance(&mut self, stream: StreamId, op_index: u64) {
        let known = self.0.entry(stream).or_insert(0);
        *known = (*known).max(op_index);
    }

    pub fn includes(&self, stream: StreamId, op_index: u64) -> bool {
        self.0.get(&stream).is_some_and(|&known| known >= op_index)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessKind {
    Read,
    Write,
    /// A kernel was given the address: it may read or write there.
    Unknown,
}

impl AccessKind {
    fn conflicts_with(self, other: AccessKind) -> bool {
        self == AccessKind::Write && other != self || other == AccessKind::Write
    }
}

/// The range that an operation accesses.
#[derive(Clone, Debug)]
pub struct MemoryAccess {
    pub from: usize,
    pub bytes: usize,
    pub kind: AccessKind,
}

pub struct AccessRecord {
    from: usize,
    to: usize,
    kind: AccessKind,
    stream: StreamId,
    op_index: u64,
    label: String,
}

/// Records the access in the allocation's history; returns the label of an earlier one that it
/// races with, if any.
pub fn record(
    past: &mut Vec<AccessRecord>,
    access: &MemoryAccess,
    (stream, op_index, label): (StreamId, u64, &str),
    clock: &VectorClock,
    host: &VectorClock,
) -> Option<String> {
    past.retain(|p| !host.includes(p.stream, p.op_index));
    let (from, to) = (access.from, access.from + access.bytes);
    let conflict = past.iter().find(|p| {
        p.from < to
            && from < p.to
            && p.kind.conflicts_with(access.kind)
            && !clock.includes(p.stream, p.op_index)
    });
    let conflict = conflict.map(|p| {
        format!(
            "{} (operation {} of stream {})",
            p.label, p.op_index, p.stream
        )
    });
    // Work after the same stream's later operation is also after this one, so one entry per range
    // is enough.
    let same =
        |p: &&mut AccessRecord| (p.from, p.to, p.kind, p.stream) == (from, to, access.kind, stream);
    match past.iter_mut().find(same) {
        Some(earlier) => {
            earlier.op_index = op_index;
            label.clone_into(&mut earlier.label);
        }
        None => past.push(AccessRecord {
            from,
            to,
            kind: access.kind,
            stream,
            op_index,
            label: label.to_owned(),
        }),
    }
    conflict
}
