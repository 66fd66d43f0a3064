//! Collects statistics of the workers and the consumer, which show what limits the loader's speed.

mod counters;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::decode::{DecodeStats, DecodeTimes};
use crate::error::Error;
use crate::source::TrafficCounters;
use crate::sync::{Mutex, PoisonError};
use crate::transforms::DeviceReport;

pub use counters::{COUNTERS, Counter, Merge, Stats, Value};

/// Maximum number of videos whose failures are recorded; of any further failures, only the kinds
/// are counted.
const MAX_FAILURES: usize = 1 << 16;

/// Maximum number of failures that wait to be logged; any further ones are only counted.
const MAX_UNLOGGED: usize = 1 << 10;

/// Maximum number of distinct fallback reasons: some contain packet numbers, so there may be many.
const MAX_REASONS: usize = 64;

/// The failures of one video.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The video's number in the dataset.
    pub video_id: u32,
    /// Its first error.
    pub error: Error,
    /// Clips that could not be made because of it.
    pub clips: u64,
}

/// Failures since the last call of the function from `Loader::unlogged_failures`, in their order.
#[derive(Clone, Debug, Default)]
pub struct UnloggedFailures {
    /// The error of each.
    pub errors: Vec<Error>,
    /// Number of failures that are not among them because there were too many.
    pub omitted: u64,
}

/// Collects the statistics of the workers and the consumer.
#[derive(Debug, Default)]
pub struct StatsCollector {
    stats: Mutex<Stats>,
    failures: Mutex<BTreeMap<u32, Failure>>,
    unlogged: Mutex<UnloggedFailures>,
    remote: Arc<TrafficCounters>,
}

impl StatsCollector {
    /// The counters of the bytes that sources fetch for this loader.
    pub(super) fn remote(&self) -> &Arc<TrafficCounters> {
        &self.remote
    }

    /// Updates the statistics.
    pub(super) fn add(&self, change: impl FnOnce(&mut Stats)) {
        change(&mut self.stats.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Whether the consumer has received a batch.
    pub(super) fn has_delivered(&self) -> bool {
        self.stats
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .batches
            > 0
    }

    /// Records the failure of a video, or of one of its clips if `clip`.
    pub(super) fn failure(&self, video_id: u32, error: &Error, clip: bool) {
        self.add(|s| *s.errors.entry(error.kind().to_owned()).or_default() += 1);
        {
            let mut unlogged = self.unlogged.lock().unwrap_or_else(PoisonError::into_inner);
            if unlogged.errors.len() < MAX_UNLOGGED {
                unlogged.errors.push(error.clone());
            } else {
                unlogged.omitted += 1;
            }
        }
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() < MAX_FAILURES || failures.contains_key(&video_id) {
            let new = || Failure {
                video_id,
                error: error.clone(),
                clips: 0,
            };
            failures.entry(video_id).or_insert_with(new).clips += u64::from(clip);
        }
    }

    /// The recorded failures, by video.
    pub fn failures(&self) -> Vec<Failure> {
        self.failures
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .cloned()
            .collect()
    }

    /// Takes the failures since the last call.
    pub fn take_unlogged(&self) -> UnloggedFailures {
        std::mem::take(&mut *self.unlogged.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records a fallback to the CPU with its reason.
    pub(super) fn record_cpu_fallback(&self, reason: &str) {
        self.add(|s| count_reason(&mut s.cpu_fallbacks, reason));
    }

    /// Records that data is copied to a GPU in a slower way, with the reason.
    pub(super) fn record_upload_fallback(&self, reason: &str) {
        self.add(|s| count_reason(&mut s.upload_fallbacks, reason));
    }

    /// Records that a clip was not copied between the disk cache and a GPU, and is decoded.
    pub(super) fn record_stored_clip_fallback(&self, error: &Error) {
        self.record_upload_fallback(&format!("clips of the disk cache are not copied: {error}"));
    }

    /// Records what an executor reports about the device, except the number of decoded images.
    pub(super) fn record_fallbacks(&self, report: &DeviceReport) {
        report
            .cpu_fallbacks
            .iter()
            .for_each(|reason| self.record_cpu_fallback(reason));
        report
            .upload_fallbacks
            .iter()
            .for_each(|reason| self.record_upload_fallback(reason));
    }

    pub(super) fn busy(&self, time: Duration) {
        self.add(|s| s.worker_busy_seconds += time.as_secs_f64());
    }

    pub(super) fn idle(&self, time: Duration, blocked: bool) {
        self.add(|s| match blocked {
            true => s.worker_blocked_seconds += time.as_secs_f64(),
            false => s.worker_idle_seconds += time.as_secs_f64(),
        });
    }

    pub(super) fn work(&self, work: &WorkCounts) {
        let (counts, times) = (work.counts, work.times);
        self.add(|s| {
            s.frames_decoded += counts.frames_decoded;
            s.frames_used += counts.frames_used;
            s.packets_skipped += counts.packets_skipped;
            s.decode_ranges += counts.decode_ranges;
            s.decode_ranges_repeated += counts.ranges_repeated;
            s.decoders_opened += counts.decoders_opened;
            s.late_decode_statuses += counts.late_decode_statuses;
            s.frames_decoded_by_gpu += work.decoded_by_gpu;
            s.frames_decoded_by_fallback += work.decoded_by_fallback;
            s.reading_seconds += times.reading.as_secs_f64();
            s.decoding_seconds += times.decoding.as_secs_f64();
            s.transform_seconds += times.transforming.as_secs_f64();
            s.bytes_read += work.bytes_read;
        });
    }

    /// Returns a snapshot of the statistics, without those of the caches.
    pub fn read(&self) -> Stats {
        let counted = self
            .stats
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let remote = self.remote.read();
        Stats {
            remote_requests: remote.requests,
            remote_bytes: remote.bytes,
            remote_retries: remote.retries,
            remote_cache_hits: remote.cache_hits,
            remote_outages: remote.outages,
            ..counted
        }
    }
}

fn count_reason(reasons: &mut BTreeMap<String, u64>, reason: &str) {
    let full = reasons.len() >= MAX_REASONS && !reasons.contains_key(reason);
    let reason = if full { "other reasons" } else { reason };
    *reasons.entry(reason.to_owned()).or_default() += 1;
}

/// Counts of the work since they were last added to the statistics.
#[derive(Default)]
pub(super) struct WorkCounts {
    pub counts: DecodeStats,
    pub times: DecodeTimes,
    pub bytes_read: u64,
    /// Of the decoded frames, those that the GPU decoded.
    pub decoded_by_gpu: u64,
    /// Of the decoded frames, those that the CPU decoded in place of the GPU.
    pub decoded_by_fallback: u64,
}
