//! In: what happens in lanes and at the consumer.
//! Out: counts that say why the loader is as fast as it is.
//! Never: influences anything.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::errand::Work;
use crate::decode::{Counts, Times};
use crate::error::Error;
use crate::source::{RemoteCounts, Tally};
use crate::sync::{Mutex, PoisonError};

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
    /// What reading by URL took.
    pub remote: RemoteCounts,
    /// Decoding passes that served more than one clip.
    pub gops_shared: u64,
    /// Clips that were made before their turn and kept until it came.
    pub clip_store_hits: u64,
    /// Clips that were made, kept, and given up for ones that are due earlier.
    pub clips_given_up: u64,
    /// Bytes that may be kept beside the batches that are being filled.
    pub memory_budget: u64,
    /// Most bytes that were kept at one time.
    pub clip_store_peak_bytes: u64,
    /// Threads that decode by the GPU; 0 where it does not decode.
    pub nvdec_lanes: u32,
    /// Pictures among those given to decoders that were given to the GPU's.
    pub pictures_decoded_by_gpu: u64,
    /// Why the GPU left work to the CPU, and how often.
    pub left_to_cpu: BTreeMap<String, u64>,
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
    /// Seconds that lanes spent on opening videos, with their indices, and on planning.
    pub planning_seconds: f64,
    /// Time that lanes spent on fetching packets, in decoders, on pixels.
    pub times: Times,
    /// Seconds that lanes spent making clips, summed over lanes.
    pub lane_busy_seconds: f64,
    /// Seconds that lanes had nothing to do because everything was in other hands.
    pub lane_starved_seconds: f64,
    /// Seconds that lanes had nothing to do because the consumer had not taken what was ready.
    pub lane_blocked_seconds: f64,
    /// Seconds that the consumer waited for batches: large means the loader is the bottleneck.
    pub consumer_wait_seconds: f64,
}

/// Videos whose failures are told apart; of any beyond, only the kinds are counted.
const MOST_FAILURES: usize = 1 << 16;

/// Reasons that are told apart: some name packets, of which there may be many.
const MOST_REASONS: usize = 64;

/// What failed of one video.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The video's number in the dataset.
    pub video_id: u32,
    /// Its first error.
    pub error: Error,
    /// Clips that could not be made because of it.
    pub clips: u64,
}

/// Where lanes and the consumer count.
#[derive(Debug, Default)]
pub struct Meter {
    stats: Mutex<Stats>,
    failures: Mutex<BTreeMap<u32, Failure>>,
    remote: Arc<Tally>,
}

impl Meter {
    /// Where sources count what they fetch for this loader.
    pub(super) fn remote(&self) -> &Arc<Tally> {
        &self.remote
    }

    /// Adds to the counts.
    pub(super) fn add(&self, change: impl FnOnce(&mut Stats)) {
        change(&mut self.stats.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// A video failed: as a whole, or one of its clips.
    pub(super) fn failure(&self, video_id: u32, error: &Error, clip: bool) {
        self.add(|s| *s.errors.entry(error.kind()).or_default() += 1);
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() < MOST_FAILURES || failures.contains_key(&video_id) {
            let new = || Failure { video_id, error: error.clone(), clips: 0 };
            failures.entry(video_id).or_insert_with(new).clips += u64::from(clip);
        }
    }

    /// What failed, by video.
    pub fn failures(&self) -> Vec<Failure> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The GPU left work to the CPU for this reason.
    pub(super) fn left_to_cpu(&self, reason: &str) {
        self.add(|s| {
            let full = s.left_to_cpu.len() >= MOST_REASONS && !s.left_to_cpu.contains_key(reason);
            let reason = if full { "other reasons" } else { reason };
            *s.left_to_cpu.entry(reason.to_owned()).or_default() += 1;
        });
    }

    pub(super) fn busy(&self, time: Duration) {
        self.add(|s| s.lane_busy_seconds += time.as_secs_f64());
    }

    pub(super) fn idle(&self, time: Duration, blocked: bool) {
        self.add(|s| match blocked {
            true => s.lane_blocked_seconds += time.as_secs_f64(),
            false => s.lane_starved_seconds += time.as_secs_f64(),
        });
    }

    pub(super) fn work(&self, work: &Work) {
        self.add(|s| {
            s.decoding += work.counts;
            s.pictures_decoded_by_gpu += work.decoded_by_gpu;
            s.times += work.times;
            s.bytes_read += work.bytes_read;
        });
    }

    /// The counts now.
    pub fn read(&self) -> Stats {
        let counted = self.stats.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Stats { remote: self.remote.read(), ..counted }
    }
}
