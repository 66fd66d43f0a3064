//! In: what decoders do.
//! Out: counts that do not depend on the machine's mood, and times that do.
//! Never: influences anything.

use std::time::Duration;

/// Counts of work done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pictures given to decoders (two fields of one picture count once).
    pub pictures_decoded: u64,
    /// Pictures on the way that nobody wanted and no wanted one depends on: not decoded.
    pub pictures_skipped: u64,
    /// Pictures handed on.
    pub pictures_delivered: u64,
    /// Decoding passes.
    pub runs: u64,
    /// Decoding passes that were begun again with every picture, because the decoder complained.
    pub runs_repeated: u64,
    /// Decoders opened.
    pub decoders_opened: u64,
}

impl Counts {
    /// What was done since an earlier reading.
    pub fn since(self, before: Counts) -> Counts {
        Counts {
            pictures_decoded: self.pictures_decoded.saturating_sub(before.pictures_decoded),
            pictures_skipped: self.pictures_skipped.saturating_sub(before.pictures_skipped),
            pictures_delivered: self.pictures_delivered.saturating_sub(before.pictures_delivered),
            runs: self.runs.saturating_sub(before.runs),
            runs_repeated: self.runs_repeated.saturating_sub(before.runs_repeated),
            decoders_opened: self.decoders_opened.saturating_sub(before.decoders_opened),
        }
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, more: Counts) {
        self.pictures_decoded += more.pictures_decoded;
        self.pictures_skipped += more.pictures_skipped;
        self.pictures_delivered += more.pictures_delivered;
        self.runs += more.runs;
        self.runs_repeated += more.runs_repeated;
        self.decoders_opened += more.decoders_opened;
    }
}

/// Where the time went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Fetching packets and looking at their headers.
    pub reading: Duration,
    /// In the decoder.
    pub decoding: Duration,
    /// In whatever is done with the frames.
    pub painting: Duration,
}

impl Times {
    /// What was spent since an earlier reading.
    pub fn since(self, before: Times) -> Times {
        Times {
            reading: self.reading.saturating_sub(before.reading),
            decoding: self.decoding.saturating_sub(before.decoding),
            painting: self.painting.saturating_sub(before.painting),
        }
    }
}

impl std::ops::AddAssign for Times {
    fn add_assign(&mut self, more: Times) {
        self.reading += more.reading;
        self.decoding += more.decoding;
        self.painting += more.painting;
    }
}
