//! Parses a packet's headers to find random access points and shown pictures, because container key
//! flags are unreliable. Reads no further than the first slice; for most codecs the first bytes of
//! the packet suffice.

use super::codec::{PacketFlags, PictureParser};
use super::picture_info::{PictureInfo, RandomAccessPoint};
use crate::media::CodecParams;

/// Parses the packet headers of one stream and keeps the state that later headers depend on.
pub struct HeaderParser {
    parser: Box<dyn PictureParser>,
    /// A packet was parsed.
    begun: bool,
}

impl HeaderParser {
    /// For a stream with this codec and configuration.
    pub fn new(params: &CodecParams) -> Self {
        let mut parser = super::of(&params.codec).picture_parser();
        parser.set_extradata(&params.extradata);
        Self {
            parser,
            begun: false,
        }
    }

    /// The packets from here on belong to this configuration.
    pub fn set_extradata(&mut self, extradata: &[u8]) {
        self.parser.set_extradata(extradata);
    }

    /// Parses one packet. `container_key` is the container's key flag, trusted for codecs that are
    /// not parsed here.
    pub fn parse(&mut self, data: &[u8], container_key: bool) -> PictureInfo {
        let is_first = !std::mem::replace(&mut self.begun, true);
        // Like FFmpeg's command-line tool, which sends no empty packet to a decoder: the previous
        // picture stays on screen.
        if data.is_empty() {
            return PictureInfo {
                shown: false,
                ..PictureInfo::default()
            };
        }
        let flags = PacketFlags {
            container_key,
            is_first,
        };
        let picture = self.parser.parse(data, flags);
        match picture.is_damaged && container_key {
            // Frames that are decoded from it cause an error, but are not missing.
            true => PictureInfo {
                random_access: RandomAccessPoint::Open,
                ..picture
            },
            false => picture,
        }
    }

    /// Returns what decoding depends on of the first packet, wherever it starts: headers in the
    /// stream's framing.
    pub fn first_packet_headers(&self, first: &[u8]) -> Vec<u8> {
        self.parser.first_packet_headers(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_packet_shows_nothing_and_is_no_keyframe() {
        for name in [
            "h264",
            "hevc",
            "vvc",
            "vp8",
            "vp9",
            "av1",
            "mpeg4",
            "mpeg2video",
            "theora",
        ] {
            let params = CodecParams::synthetic(name, &[]);
            let look = HeaderParser::new(&params).parse(&[], true);
            assert_eq!(
                look,
                PictureInfo {
                    shown: false,
                    ..PictureInfo::default()
                },
                "{name}"
            );
        }
    }

    #[test]
    fn damaged_headers_are_no_keyframes_and_no_panic() {
        for name in [
            "h264",
            "hevc",
            "vvc",
            "vp8",
            "vp9",
            "av1",
            "mpeg4",
            "mpeg2video",
        ] {
            for data in [
                &[][..],
                &[0xff; 7],
                &[0; 9],
                &[0, 0, 1],
                &[0, 0, 1, 6, 255, 255, 255],
                &[0, 0, 1, 0xb6],
            ] {
                HeaderParser::new(&CodecParams::synthetic(name, &[1, 2, 3])).parse(data, false);
            }
        }
    }
}
