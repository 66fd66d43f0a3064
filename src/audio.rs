//! Sound of a file: an index of the audio packets by sample number, and exact windows of samples.
//!
//! A position counts samples of the stream from its first audible one, after the encoder's delay.
//! Sample *n* is the same whatever is read before it: a decoder whose output depends on the packets
//! before it always starts at the same ones (see [`restart`]), and each resampled sample depends on
//! its position alone (see [`resample`]).

mod build;
mod mix;
mod packet_samples;
mod reader;
mod resample;
mod restart;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use serde::Deserialize;

use crate::error::{Result, Site};
use crate::index::cache::IndexCache;
use crate::limits::Limits;
use crate::media::AudioParams;
use crate::source::ByteSource;

pub(crate) use crate::ffmpeg::audio_decoder::{MAX_CHANNELS, MAX_SAMPLE_RATE};
pub use build::build;
pub use reader::AudioReader;

/// Returns the index of audio stream `stream` of a file, or of the best one: from the index cache,
/// with the path from which `source` was opened, or else built and then cached.
///
/// # Errors
/// Those of [`build`].
pub fn index_of(
    store: Option<(&IndexCache, &Path)>,
    source: &Arc<dyn ByteSource>,
    stream: Option<u32>,
) -> Result<Arc<AudioIndex>> {
    let since = SystemTime::now();
    let stored = store.and_then(|(store, path)| store.get_audio(path, &**source, stream));
    if let Some(index) = stored {
        return Ok(index);
    }
    let index = Arc::new(build(source, stream, &Limits::default())?);
    if let Some((store, path)) = store {
        store.put_audio(path, &**source, stream, since, &index);
    }
    Ok(index)
}

/// Entry of the table of audio packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AudioPacket {
    /// Offset of the payload in the source; its presentation time in ticks, unless
    /// [`AudioIndex::direct`].
    pub place: i64,
    /// Position of its first sample that is kept.
    pub position: i64,
    /// Payload length in bytes.
    pub size: u32,
    /// Number of its samples that are kept.
    pub kept: u32,
    /// Number of samples before these, which are not.
    pub skipped: u32,
}

/// Everything about the sound of a file except the payload.
#[derive(Clone, Debug, PartialEq)]
pub struct AudioIndex {
    /// Name of the source, for error messages.
    pub site: Site,
    /// Index of the stream among all streams of the file.
    pub stream: u32,
    /// Parameters of the stream; rate and channels are those that the decoder returns.
    pub params: AudioParams,
    /// Time of position 0, on the file's clock.
    pub begin_seconds: f64,
    /// Position after the last sample.
    pub len: i64,
    /// Packets in decode order. Positions do not decrease.
    pub packets: Vec<AudioPacket>,
    /// Packets can be read from the source at their offset; otherwise only libavformat can read
    /// them.
    pub direct: bool,
}

impl AudioIndex {
    /// Time after the last sample, on the file's clock.
    pub fn end_seconds(&self) -> f64 {
        self.begin_seconds + self.len as f64 / f64::from(self.params.sample_rate)
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.packets.len() * size_of::<AudioPacket>()
            + self.params.extradata.len()
    }

    /// The packets whose kept samples overlap these positions.
    fn packets_of(&self, positions: &Range<i64>) -> Range<usize> {
        let end_of = |packet: &AudioPacket| packet.position + i64::from(packet.kept);
        let first = self
            .packets
            .partition_point(|packet| end_of(packet) <= positions.start);
        let end = self
            .packets
            .partition_point(|packet| packet.position < positions.end);
        first..end.max(first)
    }
}

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
    /// Samples of one channel after the other; 0 where the file has no sound.
    pub samples: Vec<f32>,
    /// Number of channels.
    pub channels: u32,
    /// Samples per second of each channel.
    pub sample_rate: u32,
    /// Time of the first sample, on the file's clock.
    pub begin_seconds: f64,
    /// The samples of a channel for which the file has sound, ascending.
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

    /// Silence without sound in the file.
    pub fn silence(len: usize, format: AudioFormat) -> Self {
        let channels = format.channels.unwrap_or(1);
        Self {
            samples: vec![0.0; len * channels as usize],
            channels,
            sample_rate: format.sample_rate.unwrap_or(0),
            begin_seconds: 0.0,
            valid: Vec::new(),
        }
    }
}

/// An opened file with sound: its bytes and its index.
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
