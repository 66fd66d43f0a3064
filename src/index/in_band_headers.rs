//! Data in the packets of a stream that a decoder needs when it starts at a later packet.

use crate::bitstream::header_parser::HeaderParser;
use crate::bitstream::parameter_set_tracker::ParameterSetTracker;
use crate::bitstream::picture_info::RandomAccessPoint;
use crate::bitstream::sample_aspect::sample_aspect;
use crate::error::{Error, Result, Site};
use crate::media::{CodecKind, StreamInfo};

/// Data from earlier packets that a decoder starting later in the stream needs.
#[derive(Default)]
pub(super) struct InBandHeaders {
    pub sets: Option<ParameterSetTracker>,
    /// The x264 user data SEI message of the first packet.
    x264_sei: Vec<u8>,
    pub headers: Vec<(u32, Vec<u8>)>,
    /// Width of a pixel divided by its height, if the codec configuration or the first packet states it.
    pub sample_aspect: Option<(u32, u32)>,
}

impl InBandHeaders {
    pub fn new(header_parser: &HeaderParser, info: &StreamInfo, first: &[u8]) -> Self {
        let sets = ParameterSetTracker::new(info.params.codec.kind, &info.params.extradata);
        let sample_aspect = sample_aspect(&info.params, first);
        Self { sets, x264_sei: header_parser.x264_sei(first), headers: Vec::new(), sample_aspect }
    }

    /// Records packet `at`, of which `data` may be only the first bytes.
    pub fn observe(&mut self, at: u32, start: RandomAccessPoint, data: &[u8]) {
        if at > 0 && start != RandomAccessPoint::None {
            let sets = self.sets.as_ref().map_or_else(Vec::new, ParameterSetTracker::not_in_config);
            let preamble = [&sets[..], &self.x264_sei].concat();
            if self.headers.last().map_or(!preamble.is_empty(), |last| last.1 != preamble) {
                self.headers.push((at, preamble));
            }
        }
        if let Some(sets) = &mut self.sets {
            sets.observe(data);
        }
    }

    /// Whether the parameter sets seen so far include every kind that a slice requires.
    pub fn is_complete(&self) -> bool {
        self.sets.as_ref().is_none_or(ParameterSetTracker::is_complete)
    }

    /// # Errors
    /// `Malformed` if neither the container nor any packet holds the headers without which no picture can be
    /// decoded.
    pub fn check(&self, site: &Site, info: &StreamInfo) -> Result<()> {
        let unsized_ = info.params.width == 0 || info.params.height == 0;
        let lacks = match info.params.codec.kind {
            CodecKind::H264 | CodecKind::Hevc if !self.is_complete() => "parameter sets (SPS and PPS)",
            CodecKind::Mpeg12 if unsized_ => "sequence header",
            CodecKind::Mpeg4 if unsized_ => "video object layer header",
            _ => return Ok(()),
        };
        let reason = format!(
            "its {} stream has no {lacks}, neither in the container nor in a packet, so no frame can be \
             decoded; create the file again from its source, including its start",
            info.params.codec.name
        );
        Err(Error::malformed(site, reason))
    }
}
