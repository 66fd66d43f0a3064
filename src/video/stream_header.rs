//! Reads what the container states about a video, only on request: neither indexing nor decoding
//! needs it.

use super::Video;
use crate::error::Result;
use crate::ffmpeg::Demuxer;
use crate::media::StreamHeader;

impl Video {
    /// Returns what the container's headers and first packets state about the stream. libavformat
    /// opens the source once more and probes it, as players do. Nothing is stated about image
    /// files.
    ///
    /// # Errors
    /// Any error from reading, and errors for containers that libavformat does not support.
    pub fn header(&self) -> Result<StreamHeader> {
        if self.index.info.params.codec.is_image {
            return Ok(StreamHeader::default());
        }
        Ok(Demuxer::open(self.source.clone(), true, Some(self.index.info.stream))?.header())
    }
}
