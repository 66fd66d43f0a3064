//! Collects statistics of the workers and the consumer, which show what limits the loader's speed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::clip_store::StoreCounts;
use crate::decode::{DecodeStats, DecodeTimes};
use crate::error::Error;
use crate::source::{RemoteStats, TrafficCounters};
use crate::sync::{Mutex, PoisonError};
use crate::transforms::DeviceReport;

/// A snapshot of the statistics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Batches delivered.
    pub batches: u64,
    /// Clips delivered.
    pub clips: u64,
    /// Frames delivered, repeated frames included.
    pub frames: u64,
    /// Counts of the decoders.
    pub decoding: DecodeStats,
    /// Bytes read from sources by workers.
    pub bytes_read: u64,
    /// Counts of reads by URL.
    pub remote: RemoteStats,
    /// Decode ranges that served more than one clip.
    pub gops_shared: u64,
    /// Clips that were delivered from the clip cache.
    pub clip_cache_hits: u64,
    /// Clips that were evicted from the clip cache for clips that are due earlier.
    pub clips_evicted: u64,
    /// Evicted clips that were made again.
    pub clips_decoded_again: u64,
    /// Clips of videos with more than 8 bits that were cached as output elements instead of 8-bit codes.
    pub clips_cached_over_8_bits: u64,
    /// What the store of clips on disk did.
    pub disk: StoreCounts,
    /// Size of the memory budget for clips outside the open batches.
    pub memory_budget: u64,
    /// The largest number of bytes reserved from the memory budget at one time.
    pub clip_cache_peak_bytes: u64,
    /// Threads that decode on the GPU; 0 if it does not decode.
    pub nvdec_threads: u32,
    /// Of the frames given to decoders, those given to hardware decoders.
    pub frames_decoded_by_gpu: u64,
    /// Of the frames given to decoders, those that the CPU decoded because the GPU could not.
    pub frames_decoded_by_fallback: u64,
    /// Reasons of fallbacks to the CPU, and the number of each.
    pub cpu_fallbacks: BTreeMap<String, u64>,
    /// Reasons for copying frames to a GPU from pageable memory or as elements, and for batches in pageable memory
    /// although page-locked memory was requested; with the number of each.
    pub upload_fallbacks: BTreeMap<String, u64>,
    /// Videos indexed, including those indexed again after their index was evicted.
    pub videos_indexed: u64,
    /// Videos whose index was found in the index cache.
    pub index_hits: u64,
    /// Videos that could not be indexed when the clips were counted.
    pub videos_failed: u64,
    /// Clips skipped because of `on_error="skip"`.
    pub clips_skipped: u64,
    /// Clips replaced by another one because of `on_error="replace"`.
    pub clips_replaced: u64,
    /// Errors by kind, including those of clips that were skipped or replaced.
    pub errors: BTreeMap<&'static str, u64>,
    /// Seconds that workers spent on opening videos, including their indices, and on planning.
    pub planning_seconds: f64,
    /// Time that workers spent on reading packets, on decoding and on pixels.
    pub times: DecodeTimes,
    /// Seconds that workers spent making clips, summed over workers.
    pub worker_busy_seconds: f64,
    /// Seconds that workers were idle because other workers processed all available requests.
    pub worker_idle_seconds: f64,
    /// Seconds that workers were idle because the consumer had not taken complete batches.
    pub worker_blocked_seconds: f64,
    /// Seconds that the consumer waited for batches. If large, the loader is the bottleneck.
    pub consumer_wait_seconds: f64,
}

/// Maximum number of videos whose failures are recorded; of any further failures, only the kinds are counted.
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
        self.stats.lock().unwrap_or_else(PoisonError::into_inner).batches > 0
    }

    /// Records the failure of a video, or of one of its clips if `clip`.
    pub(super) fn failure(&self, video_id: u32, error: &Error, clip: bool) {
        self.add(|s| *s.errors.entry(error.kind()).or_default() += 1);
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
            let new = || Failure { video_id, error: error.clone(), clips: 0 };
            failures.entry(video_id).or_insert_with(new).clips += u64::from(clip);
        }
    }

    /// The recorded failures, by video.
    pub fn failures(&self) -> Vec<Failure> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
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
        report.cpu_fallbacks.iter().for_each(|reason| self.record_cpu_fallback(reason));
        report.upload_fallbacks.iter().for_each(|reason| self.record_upload_fallback(reason));
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
        self.add(|s| {
            s.decoding += work.counts;
            s.frames_decoded_by_gpu += work.decoded_by_gpu;
            s.frames_decoded_by_fallback += work.decoded_by_fallback;
            s.times += work.times;
            s.bytes_read += work.bytes_read;
        });
    }

    /// Returns a snapshot of the statistics.
    pub fn read(&self) -> Stats {
        let counted = self.stats.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Stats { remote: self.remote.read(), ..counted }
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
