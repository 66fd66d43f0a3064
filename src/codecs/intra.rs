//! Codecs without temporal prediction and without state between packets, because their decoders in
//! libavcodec are known to reset with every packet.

use super::codec::Codec;
use crate::media::CodecParams;

/// ProRes, DNxHD, and others.
pub(crate) struct IndependentPictures;

impl Codec for IndependentPictures {
    fn packets_are_independent(&self, _params: &CodecParams) -> bool {
        true
    }
}

/// Uncompressed pictures.
pub(crate) struct RawVideo;

impl Codec for RawVideo {
    /// With up to 8 bits, pictures may use a palette that an earlier packet has.
    fn packets_are_independent(&self, params: &CodecParams) -> bool {
        params.bits_per_coded_sample > 8
    }
}
