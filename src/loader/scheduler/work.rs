//! What the scheduler gives to workers, and what they return.

use std::sync::Arc;

use super::super::ClipOutcome;
use super::super::budget::{MemoryBudget, MemoryReservation};
use super::super::lookahead::{CachedClip, SequenceNumber};
use super::super::pace::WorkerKind;
use crate::batch::{BatchBuffer, BufferBuilder, ClipSlot};
use crate::batch_sampler::SampledClip;
use crate::transforms::ClipShape;
use crate::units::DecodeIndex;

/// Identifies a clip request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct RequestId {
    pub pass: u64,
    pub seq: SequenceNumber,
    pub clip: u64,
}

/// A clip request that a worker processes.
pub(in super::super) struct ClipRequest {
    pub seq: SequenceNumber,
    pub sampled: SampledClip,
    /// Its clip slot in the batch buffer, if its batch is open and all clips have the same shape.
    pub slot: Option<ClipSlot>,
    /// Whether its batch is open. A due clip is always made, at any cost.
    pub is_due: bool,
    /// The decode ranges of the clip; empty until a plan has computed them.
    pub spans: Vec<(DecodeIndex, DecodeIndex)>,
}

/// Clip requests of one video, earliest deadline first.
pub(in super::super) struct VideoRequests {
    pub pass: u64,
    pub epoch: u64,
    pub video: u32,
    pub requests: Vec<ClipRequest>,
    /// Whether an attempt to make the clip together with others, or on the GPU, failed.
    pub unshared: bool,
    /// The kind of worker that makes the clips, if that is decided.
    pub fixed_kind: Option<WorkerKind>,
}

/// What the scheduler needs to know of a decode task that a worker has suspended.
pub(in super::super) trait SuspendedTask: Send {
    /// The pass to which its clips belong.
    fn pass(&self) -> u64;
    /// The item that identifies the file of its video.
    fn video(&self) -> u32;
    /// The kind of worker that runs it.
    fn kind(&self) -> WorkerKind;
    /// The smallest sequence number among its unfinished clips.
    fn earliest_request(&self) -> SequenceNumber;
    /// Reserves the memory of the decoder that it holds, if any; `false` if the budget has not
    /// enough left.
    fn reserve_memory(&mut self, budget: &Arc<MemoryBudget>) -> bool;
    /// Whether it holds a decoder, whose memory is reserved.
    fn holds_decoder(&self) -> bool;
    /// Releases that memory: a worker resumes the task.
    fn release_memory(&mut self);
    /// The requests for its unfinished clips.
    fn requests(&self) -> Vec<RequestId>;
}

/// One unit of work for a worker.
pub(in super::super) enum Work<T> {
    /// Plan a decode task and run it.
    Decode(VideoRequests),
    /// Resume a suspended decode task.
    Resume(Box<T>),
    /// Copy a cached clip into its batch buffer or, if clips differ in shape, into a buffer in the
    /// output format.
    CopyCached {
        pass: u64,
        seq: SequenceNumber,
        cached: Box<CachedClip>,
        slot: Option<ClipSlot>,
    },
}

impl<T: SuspendedTask> Work<T> {
    /// The clip requests of this work.
    pub(crate) fn requests(&self) -> Vec<RequestId> {
        match self {
            Work::Decode(group) => {
                let id = |request: &ClipRequest| RequestId {
                    pass: group.pass,
                    seq: request.seq,
                    clip: request.sampled.clip,
                };
                group.requests.iter().map(id).collect()
            }
            Work::Resume(task) => task.requests(),
            Work::CopyCached {
                pass, seq, cached, ..
            } => {
                vec![RequestId {
                    pass: *pass,
                    seq: *seq,
                    clip: cached.metadata.clip_id,
                }]
            }
        }
    }
}

/// Location of the pixels of a finished clip.
pub(in super::super) enum ClipData {
    /// In the batch buffer.
    InBatch,
    /// In a buffer of their own.
    Owned(BatchBuffer, ClipShape, Option<MemoryReservation>),
}

/// A batch that is being filled.
pub(in super::super) struct PendingBatch {
    pub first: SequenceNumber,
    pub memory: Vec<BufferBuilder>,
    pub clips: Vec<Option<ClipOutcome>>,
    pub clips_remaining: usize,
}
