//! What the scheduler gives to workers, and what they return.

use super::super::budget::MemoryReservation;
use super::super::decode_task::DecodeTask;
use super::super::lookahead::{CachedClip, SequenceNumber};
use crate::batch::{BatchBuffer, ClipSlot};
use crate::batch_sampler::SampledClip;
use crate::transforms::ClipShape;

/// A clip request that a worker processes.
pub(in super::super) struct ClipRequest {
    pub seq: SequenceNumber,
    pub slot: SampledClip,
    /// Its clip slot in the batch buffer, if its batch is open and all clips have the same shape.
    pub buffer_slot: Option<ClipSlot>,
    /// Whether its batch is open. A due clip is always made, whatever it costs.
    pub due: bool,
}

/// Clip requests of one video, earliest deadline first.
pub(in super::super) struct VideoRequests {
    pub iteration: u64,
    pub epoch: u64,
    pub video: u32,
    pub requests: Vec<ClipRequest>,
    /// Whether an attempt to make the clip together with others, or on the GPU, failed.
    pub unshared: bool,
}

/// One unit of work for a worker.
pub(in super::super) enum Work {
    /// Plan a decode task and run it.
    Decode(VideoRequests),
    /// Resume a suspended decode task.
    Resume(Box<DecodeTask>),
    /// Copy a cached clip into its batch buffer.
    CopyCached { iteration: u64, seq: SequenceNumber, cached: Box<CachedClip>, buffer_slot: ClipSlot },
}

impl Work {
    /// (iteration, sequence number, clip) of each clip request in this work.
    pub fn requests(&self) -> Vec<(u64, SequenceNumber, u64)> {
        match self {
            Work::Decode(g) => g.requests.iter().map(|t| (g.iteration, t.seq, t.slot.clip)).collect(),
            Work::Resume(task) => task.requests(),
            Work::CopyCached { iteration, seq, cached, .. } => {
                vec![(*iteration, *seq, cached.metadata.clip_id)]
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
