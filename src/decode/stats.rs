//! Counters and times of decoding; they never influence it.
//! The counters do not depend on timing or on the load of the machine; the times do.

use std::time::Duration;

/// Counts of work done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeStats {
    /// Pictures sent to decoders (two fields of one picture count once).
    pub pictures_decoded: u64,
    /// Pictures skipped because they are not wanted and no wanted picture depends on them.
    pub pictures_skipped: u64,
    /// Frames delivered.
    pub pictures_delivered: u64,
    /// Decode ranges begun.
    pub runs: u64,
    /// Decode ranges restarted with every picture, because the decoder reported an error.
    pub ranges_repeated: u64,
    /// Decoders opened.
    pub decoders_opened: u64,
}

impl DecodeStats {
    /// Returns the work done since an earlier snapshot.
    pub fn since(self, before: DecodeStats) -> DecodeStats {
        DecodeStats {
            pictures_decoded: self.pictures_decoded.saturating_sub(before.pictures_decoded),
            pictures_skipped: self.pictures_skipped.saturating_sub(before.pictures_skipped),
            pictures_delivered: self.pictures_delivered.saturating_sub(before.pictures_delivered),
            runs: self.runs.saturating_sub(before.runs),
            ranges_repeated: self.ranges_repeated.saturating_sub(before.ranges_repeated),
            decoders_opened: self.decoders_opened.saturating_sub(before.decoders_opened),
        }
    }
}

impl std::ops::AddAssign for DecodeStats {
    fn add_assign(&mut self, more: DecodeStats) {
        self.pictures_decoded += more.pictures_decoded;
        self.pictures_skipped += more.pictures_skipped;
        self.pictures_delivered += more.pictures_delivered;
        self.runs += more.runs;
        self.ranges_repeated += more.ranges_repeated;
        self.decoders_opened += more.decoders_opened;
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
