//! The audio index: the packets of a file's audio by sample number.
//!
//! A position counts samples of the stream from its first audible one, after the encoder's delay.

mod build;
mod packet_samples;

use std::ops::Range;

use crate::error::Site;
use crate::media::AudioParams;

pub use build::build;

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

/// Everything about the audio of a file except the payload.
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
    pub(crate) fn packets_of(&self, positions: &Range<i64>) -> Range<usize> {
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
