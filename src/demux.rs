//! Reads the properties of a video stream and of each packet, in decode order, without decoding.
//! MP4/MOV files are read from their sample tables ([`mp4`]), other files by one pass of
//! libavformat ([`libavformat`]).

pub(crate) mod libavformat;
pub mod mp4;

use crate::error::{Error, Site};
use crate::media::{StreamInfo, StreamSummary};

/// Container metadata of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketInfo {
    /// Offset of the payload in the source; `None` where the payload is not contiguous.
    pub offset: Option<u64>,
    /// Payload length in bytes.
    pub size: u32,
    /// Presentation time in ticks, edit list applied.
    pub pts: Option<i64>,
    /// Decoding time in ticks, edit list applied.
    pub dts: Option<i64>,
    /// Duration in ticks, 0 if unknown.
    pub duration: i64,
    /// The container marks it as a keyframe.
    pub key: bool,
    /// To be decoded but not shown.
    pub discard: bool,
    /// A part of its payload is missing.
    pub corrupt: bool,
    /// If the demuxer's mark of damage may mean this packet or another one: a part is missing within
    /// this one.
    pub cut: bool,
    /// Data before it could not be read: a picture that it refers to may be missing.
    pub after_gap: bool,
}

/// One video stream with all its packets.
#[derive(Clone, Debug)]
pub struct Track {
    /// Container name, such as "mov,mp4" or "matroska,webm".
    pub container: String,
    /// Properties of the stream.
    pub info: StreamInfo,
    /// All streams of the container, by index.
    pub streams: Vec<StreamSummary>,
    /// Packets in decode order.
    pub packets: Vec<PacketInfo>,
    /// Number of damaged units of the container that were skipped, and of packets of which a part
    /// is missing.
    pub damaged_units: u32,
}

/// Whether files of this container, by the name in their [`Track`], were read from their sample
/// tables, without libavformat.
pub(crate) fn is_read_from_sample_tables(container: &str) -> bool {
    container == mp4::CONTAINER
}

/// An error for a file whose video is encrypted in this way.
pub(crate) fn encrypted(site: &Site, scheme: &str) -> Error {
    Error::Unsupported {
        site: site.clone(),
        what: format!("encrypted video (scheme {scheme})"),
    }
}
