//! What a video's container states about it: read when somebody asks, since neither index nor decoding needs it.

use super::Video;
use crate::error::Result;
use crate::ffmpeg::Demuxer;
use crate::media::{CodecKind, StreamHeader};

impl Video {
    /// What the container's headers and first packets state about the stream. libavformat opens the source once more and probes it, as
    /// players do. Nothing is stated of files that are pictures.
    ///
    /// # Errors
    /// Those of reading and of containers that libavformat does not understand.
    pub fn header(&self) -> Result<StreamHeader> {
        if self.index.info.params.codec.kind == CodecKind::Still {
            return Ok(StreamHeader::default());
        }
        Ok(Demuxer::open(self.source.clone(), true, Some(self.index.info.stream))?.header())
    }
}
