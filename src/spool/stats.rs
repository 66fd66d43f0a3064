//! In: what happens in lanes and at the consumer.
//! Out: counts that say why the loader is as fast as it is.
//! Never: influences anything.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::decode::Counts;
use crate::error::Error;

/// A reading of the counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Batches handed over.
    pub batches: u64,
    /// Clips handed over.
    pub clips: u64,
    /// Frames handed over, repeats counted.
    pub frames: u64,
    /// Work of the decoders.
    pub decoding: Counts,
    /// Bytes read from sources by lanes.
    pub bytes_read: u64,
    /// Videos indexed (again, if their index had to make room).
    pub videos_indexed: u64,
    /// Videos whose index was found in the store.
    pub index_hits: u64,
    /// Videos that could not be indexed when the dataset was surveyed.
    pub videos_failed: u64,
    /// Clips left out because of `on_error="skip"`.
    pub clips_skipped: u64,
    /// Clips that another one took the place of, because of `on_error="replace"`.
    pub clips_replaced: u64,
    /// Errors by kind, also those that a policy passed over.
    pub errors: BTreeMap<&'static str, u64>,
    /// Seconds that lanes spent making clips, summed over lanes.
    pub lane_busy_seconds: f64,
    /// Seconds that the consumer waited for batches: large means the loader is the bottleneck.
    pub consumer_wait_seconds: f64,
}

/// Where lanes and the consumer count.
#[derive(Debug, Default)]
pub struct Meter(Mutex<Stats>);

impl Meter {
    /// Adds to the counts.
    pub(super) fn add(&self, change: impl FnOnce(&mut Stats)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn error(&self, error: &Error) {
        self.add(|s| *s.errors.entry(error.kind()).or_default() += 1);
    }

    pub(super) fn busy(&self, time: Duration, work: Counts, bytes_read: u64) {
        self.add(|s| {
            s.lane_busy_seconds += time.as_secs_f64();
            s.bytes_read += bytes_read;
            s.decoding.packets_fed += work.packets_fed;
            s.decoding.frames_delivered += work.frames_delivered;
            s.decoding.runs += work.runs;
            s.decoding.decoders_opened += work.decoders_opened;
        });
    }

    /// The counts now.
    pub fn read(&self) -> Stats {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
