//! Exact windows of a file's audio.
//!
//! Sample *n* of a stream does not depend on what is read before it: a decoder whose output depends
//! on the packets before it always starts at the same ones (see [`restart`]), and each resampled sample
//! depends on its position alone (see [`resample`]).

mod mix;
mod reader;
mod resample;
mod restart;

use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;

use crate::error::{Result, Site};
use crate::index::audio::AudioIndex;
use crate::limits::Limits;
use crate::source::ByteSource;

pub use reader::AudioReader;

/// The format in which samples are returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AudioFormat {
    /// Samples per second; `None` for the rate of the stream.
    pub sample_rate: Option<u32>,
    /// Number of channels; `None` for those of the stream.
    pub channels: Option<u32>,
}

/// A window of samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AudioWindow {
    /// Samples of one channel after the other; 0 where the file has no audio.
    pub samples: Vec<f32>,
    /// Number of channels.
    pub channels: u32,
    /// Samples per second of each channel.
    pub sample_rate: u32,
    /// Time of the first sample, on the file's clock.
    pub begin_seconds: f64,
    /// The samples of a channel for which the file has audio, ascending.
    pub valid: Vec<Range<usize>>,
}

impl AudioWindow {
    /// Number of samples of a channel.
    pub fn len(&self) -> usize {
        self.samples.len() / (self.channels as usize).max(1)
    }

    /// Whether it has no samples.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Silence, for a file without audio.
    ///
    /// # Errors
    /// `Limit` if it is too long.
    pub(crate) fn silence(site: &Site, seconds: f64, format: AudioFormat) -> Result<Self> {
        let (channels, rate) = (
            format.channels.unwrap_or(1),
            format.sample_rate.unwrap_or(0),
        );
        let len = samples_in(seconds, rate);
        check_window(site, len, channels)?;
        Ok(Self {
            samples: vec![0.0; len as usize * channels as usize],
            channels,
            sample_rate: rate,
            begin_seconds: 0.0,
            valid: Vec::new(),
        })
    }
}

/// Maximum number of samples of a window, over all channels: 1 GiB.
const MAX_WINDOW_SAMPLES: u64 = 1 << 28;

/// Number of samples of a channel in this time.
pub(crate) fn samples_in(seconds: f64, rate: u32) -> u64 {
    (seconds * f64::from(rate)).round().max(0.0) as u64
}

/// Checks the size of a window, which may come from the times in a file.
pub(crate) fn check_window(site: &Site, len: u64, channels: u32) -> Result<()> {
    let what = "number of audio samples of a window";
    let samples = len.saturating_mul(channels.into());
    Limits::check(site, what, samples, MAX_WINDOW_SAMPLES).map(drop)
}

/// An opened file with audio: its bytes and its index.
#[derive(Clone)]
pub struct AudioTrack {
    source: Arc<dyn ByteSource>,
    index: Arc<AudioIndex>,
}

impl AudioTrack {
    /// Creates a track with an index that was built from the same source.
    pub fn new(source: Arc<dyn ByteSource>, index: Arc<AudioIndex>) -> Self {
        Self { source, index }
    }

    /// Its index.
    pub fn index(&self) -> &Arc<AudioIndex> {
        &self.index
    }

    /// Creates a reader.
    pub fn reader(&self) -> AudioReader {
        AudioReader::new(self.source.clone(), self.index.clone())
    }
}
