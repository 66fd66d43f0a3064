//! Declares the counters of a loader, each once: its name, its meaning, and how the values of
//! several engines merge. The fields of [`Stats`] follow from it, and `stats()` in Python with its
//! documentation.

use std::collections::BTreeMap;

/// A counter of a loader.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    /// What it is about, for lists of counters.
    pub group: &'static str,
    /// Its name, which has the unit unless it counts.
    pub name: &'static str,
    /// One sentence.
    pub meaning: &'static str,
    /// How values of several engines merge.
    pub merge: Merge,
}

/// How the values of several engines merge: of workers on Ray, of several cameras, or of images and
/// their masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// They are added; counts by reason, for each reason.
    Sum,
    /// The largest value counts: a limit or a peak.
    Max,
    /// The first value counts: all engines work on the same batches, or report the same.
    First,
}

/// The value of a counter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number of things, or of bytes.
    Count(u64),
    /// A duration.
    Seconds(f64),
    /// Counts by reason or kind.
    ByReason(BTreeMap<String, u64>),
    /// A text, if there is one.
    Text(Option<String>),
}

macro_rules! value_from {
    ($($variant:ident($type:ty)),*) => {
        $(impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$variant(value)
            }
        })*
    };
}

value_from!(
    Count(u64),
    Seconds(f64),
    ByReason(BTreeMap<String, u64>),
    Text(Option<String>)
);

macro_rules! counters {
    ($($group:literal { $($name:ident: $type:ty, $merge:ident, $meaning:literal;)* })*) => {
        /// A snapshot of the counters of a loader.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Stats {
            $($(#[doc = $meaning] pub $name: $type,)*)*
        }

        /// All counters, in the order of [`Stats::into_values`].
        pub const COUNTERS: &[Counter] = &[
            $($(Counter {
                group: $group,
                name: stringify!($name),
                meaning: $meaning,
                merge: Merge::$merge,
            },)*)*
        ];

        impl Stats {
            /// The values, in the order of [`COUNTERS`].
            pub fn into_values(self) -> Vec<Value> {
                vec![$($(self.$name.into(),)*)*]
            }
        }
    };
}

counters! {
    "Delivered" {
        batches: u64, First, "Batches delivered.";
        clips: u64, First, "Clips delivered.";
        frames: u64, Sum, "Frames of delivered clips, with repeated frames and padding.";
    }
    "Decoding" {
        frames_decoded: u64, Sum,
            "Frames decoded, with those that no clip contains and those of clips made ahead.";
        frames_used: u64, Sum, "Frames decoded that clips contain, each once for all clips that share a decode.";
        packets_skipped: u64, Sum, "Packets not decoded, since no requested frame depends on them.";
        decode_ranges: u64, Sum, "Ranges of packets decoded.";
        decode_ranges_repeated: u64, Sum, "Ranges decoded again after an error, on one thread or without skipping.";
        gops_shared: u64, Sum, "Ranges that served several clips.";
        decoders_opened: u64, Sum, "Decoders opened.";
    }
    "Clip cache" {
        clip_cache_hits: u64, Sum, "Clips taken from the cache.";
        clips_evicted: u64, Sum, "Clips evicted for clips with an earlier deadline.";
        clips_decoded_again: u64, Sum, "Evicted clips that were made again.";
        clips_cached_over_8_bits: u64, Sum, "Clips of more than 8 bits that were cached as output elements.";
        clip_cache_peak_bytes: u64, Max, "Largest size of the cache.";
        memory_budget: u64, Max, "Limit of the cache in bytes.";
    }
    "Disk cache" {
        disk_clips_stored: u64, Sum, "Clips written.";
        disk_clips_read: u64, Sum, "Clips read.";
        disk_clips_damaged: u64, Sum, "Clips that could not be read, and were decoded.";
        disk_clips_not_stored: u64, Sum,
            "Clips made but not written: the cache or the disk is full, or a copy from the GPU failed.";
        disk_clips_evicted: u64, Sum, "Clips deleted before their epoch, for clips of earlier epochs.";
        disk_bytes_written: u64, Sum, "Bytes of clips written.";
        disk_bytes_read: u64, Sum, "Bytes of clips read.";
    }
    "Files" {
        bytes_read: u64, Sum, "Bytes read from files.";
        videos_indexed: u64, Sum, "Videos whose index was not in the index cache.";
        index_hits: u64, Sum, "Videos whose index was in the index cache.";
        index_cache_error: Option<String>, First, "Why indexes cannot be stored, or `None`.";
        videos_failed: u64, Sum, "Videos that could not be indexed when clips were counted.";
    }
    "URLs" {
        remote_requests: u64, Sum, "Requests, with repeated ones.";
        remote_bytes: u64, Sum, "Bytes received.";
        remote_retries: u64, Sum, "Requests that repeat a failed one.";
        remote_cache_hits: u64, Sum, "Reads served from memory.";
        remote_outages: u64, Sum, "Times in which a server was unavailable.";
    }
    "Errors" {
        errors: BTreeMap<String, u64>, Sum, "Errors of each kind, also those of clips that were skipped or replaced.";
        clips_skipped: u64, Sum, "Clips omitted because of `on_error=\"skip\"`.";
        clips_replaced: u64, Sum, "Clips replaced because of `on_error=\"replace\"`.";
    }
    "Time of all workers together" {
        planning_seconds: f64, Sum, "Opening files, reading indexes and planning.";
        reading_seconds: f64, Sum, "Reading packets.";
        decoding_seconds: f64, Sum, "Decoding.";
        transform_seconds: f64, Sum, "Transforms.";
        worker_busy_seconds: f64, Sum, "With work, of which the four above are parts.";
        worker_idle_seconds: f64, Sum, "Without available work.";
        worker_blocked_seconds: f64, Sum, "All batches were ready, and the training loop took none.";
    }
    "Time of the consumer" {
        consumer_wait_seconds: f64, Sum, "The training loop waited; if it is large, loading is the bottleneck.";
    }
    "GPU" {
        nvdec_threads: u64, Max, "Threads that decode on NVDEC; 0 without it.";
        frames_decoded_by_gpu: u64, Sum, "Part of `frames_decoded`.";
        frames_decoded_by_fallback: u64, Sum,
            "Part of `frames_decoded`: what the CPU decoded because the GPU could not.";
        clips_moved_to_nvdec: u64, Sum,
            "Clips that the CPU had begun and NVDEC made, because the training loop waited for them.";
        late_decode_statuses: u64, Sum,
            "Pictures that were mapped only for their decode status, or whose status is unknown.";
        cpu_fallbacks: BTreeMap<String, u64>, Sum,
            "Reasons for decoding on the CPU instead of NVDEC or nvJPEG, with the count of each.";
        upload_fallbacks: BTreeMap<String, u64>, Sum,
            "Reasons for slower copies to the GPU, and for clips that the disk cache could not copy from or to it, with \
             the count of each.";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_counter_and_its_value() {
        let names: std::collections::BTreeSet<_> =
            COUNTERS.iter().map(|counter| counter.name).collect();
        assert_eq!(names.len(), COUNTERS.len());
        let stats = Stats {
            remote_outages: 7,
            reading_seconds: 0.5,
            ..Stats::default()
        };
        let values: BTreeMap<_, _> = COUNTERS
            .iter()
            .map(|c| c.name)
            .zip(stats.into_values())
            .collect();
        assert_eq!(values.len(), COUNTERS.len());
        assert_eq!(values["remote_outages"], Value::Count(7));
        assert_eq!(values["reading_seconds"], Value::Seconds(0.5));
        assert_eq!(values["batches"], Value::Count(0));
    }
}
