//! Counters and times of decoding; they never influence it.
//! The counters do not depend on timing or on the load of the machine; the times do.

use std::time::Duration;

/// Counts of work done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeStats {
    /// Pictures sent to decoders (two fields of one picture count once).
    pub frames_decoded: u64,
    /// Pictures skipped because they are not wanted and no wanted picture depends on them.
    pub packets_skipped: u64,
    /// Requested frames that decoders returned: each once, also if several clips contain it.
    pub frames_used: u64,
    /// Decode ranges begun.
    pub decode_ranges: u64,
    /// Decode ranges restarted with every picture, because the decoder reported an error.
    pub ranges_repeated: u64,
    /// Decoders opened.
    pub decoders_opened: u64,
    /// Pictures whose decode status NVDEC reported only after they were mapped for it, or not at
    /// all.
    pub late_decode_statuses: u64,
}

impl DecodeStats {
    /// Returns the work done since an earlier snapshot.
    pub fn since(self, before: DecodeStats) -> DecodeStats {
        DecodeStats {
            frames_decoded: self.frames_decoded.saturating_sub(before.frames_decoded),
            packets_skipped: self.packets_skipped.saturating_sub(before.packets_skipped),
            frames_used: self.frames_used.saturating_sub(before.frames_used),
            decode_ranges: self.decode_ranges.saturating_sub(before.decode_ranges),
            ranges_repeated: self.ranges_repeated.saturating_sub(before.ranges_repeated),
            decoders_opened: self.decoders_opened.saturating_sub(before.decoders_opened),
            late_decode_statuses: self
                .late_decode_statuses
                .saturating_sub(before.late_decode_statuses),
        }
    }
}

impl std::ops::AddAssign for DecodeStats {
    fn add_assign(&mut self, more: DecodeStats) {
        self.frames_decoded += more.frames_decoded;
        self.packets_skipped += more.packets_skipped;
        self.frames_used += more.frames_used;
        self.decode_ranges += more.decode_ranges;
        self.ranges_repeated += more.ranges_repeated;
        self.decoders_opened += more.decoders_opened;
        self.late_decode_statuses += more.late_decode_statuses;
    }
}

/// Time spent, by stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeTimes {
    /// Reading packets and parsing their headers.
    pub reading: Duration,
    /// In the decoder.
    pub decoding: Duration,
    /// In the consumer of the frames.
    pub transforming: Duration,
}

impl DecodeTimes {
    /// Returns the time spent since an earlier snapshot.
    pub fn since(self, before: DecodeTimes) -> DecodeTimes {
        DecodeTimes {
            reading: self.reading.saturating_sub(before.reading),
            decoding: self.decoding.saturating_sub(before.decoding),
            transforming: self.transforming.saturating_sub(before.transforming),
        }
    }
}

impl std::ops::AddAssign for DecodeTimes {
    fn add_assign(&mut self, more: DecodeTimes) {
        self.reading += more.reading;
        self.decoding += more.decoding;
        self.transforming += more.transforming;
    }
}
