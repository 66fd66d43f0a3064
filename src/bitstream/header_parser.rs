//! Parses a packet's headers to find random access points and shown pictures, because container key
//! flags are unreliable. Reads no further than the first slice; for most codecs the first bytes of
//! the packet suffice.

use super::mpeg4::VopTracker;
use super::nal::Framing;
use super::picture_info::{PictureInfo, RandomAccessPoint};
use super::vc1::Vc1Sequence;
use super::{av1, h264, hevc, mpeg12, vp8, vp9};
use crate::media::CodecKind;

/// Parses the packet headers of one stream and keeps the state that later headers depend on.
pub struct HeaderParser {
    kind: CodecKind,
    framing: Framing,
    mpeg4: VopTracker,
    vc1: Option<Vc1Sequence>,
}

impl HeaderParser {
    /// For a stream with this codec and configuration.
    pub fn new(kind: CodecKind, extradata: &[u8]) -> Self {
        let mut parser = Self {
            kind,
            framing: Framing::AnnexB,
            mpeg4: VopTracker::default(),
            vc1: None,
        };
        parser.set_extradata(extradata);
        parser
    }

    /// The packets from here on belong to this configuration.
    pub fn set_extradata(&mut self, extradata: &[u8]) {
        self.framing = Framing::detect(self.kind == CodecKind::Hevc, extradata);
        self.mpeg4.parse_vol(extradata);
        self.vc1 = Vc1Sequence::parse(extradata).filter(|_| self.kind == CodecKind::Vc1);
    }

    /// The stream's codec.
    pub fn kind(&self) -> CodecKind {
        self.kind
    }

    /// Parses one packet. `container_key` is the container's key flag, trusted for codecs that are
    /// not parsed here.
    pub fn parse(&mut self, data: &[u8], container_key: bool) -> PictureInfo {
        // Like FFmpeg's command-line tool, which sends no empty packet to a decoder: the previous
        // picture stays on screen.
        if data.is_empty() {
            return PictureInfo {
                shown: false,
                ..PictureInfo::default()
            };
        }
        let picture = self.parse_headers(data, container_key);
        match picture.is_damaged && container_key {
            // Frames that are decoded from it cause an error, but are not missing.
            true => PictureInfo {
                random_access: RandomAccessPoint::Open,
                ..picture
            },
            false => picture,
        }
    }

    fn parse_headers(&mut self, data: &[u8], container_key: bool) -> PictureInfo {
        let random_access = if container_key {
            RandomAccessPoint::Open
        } else {
            RandomAccessPoint::None
        };
        match self.kind {
            CodecKind::H264 => h264::picture_info(self.framing, data),
            CodecKind::Hevc => hevc::picture_info(self.framing, data),
            CodecKind::Vp8 => vp8::picture_info(data),
            CodecKind::Vp9 => vp9::picture_info(data),
            CodecKind::Av1 => av1::picture_info(data, container_key),
            CodecKind::Mpeg4 => self.mpeg4.parse(data),
            CodecKind::Mpeg12 => mpeg12::picture_info(data),
            CodecKind::Vc1 => PictureInfo {
                random_access,
                is_b_picture: self
                    .vc1
                    .and_then(|sequence| sequence.is_b_picture(data))
                    .unwrap_or(false),
                ..PictureInfo::default()
            },
            // Leading pictures are possible, so `Open` is the safe choice.
            CodecKind::Other | CodecKind::Image => PictureInfo {
                random_access,
                ..PictureInfo::default()
            },
        }
    }

    /// Whether picture headers give the type of each picture.
    pub fn knows_picture_types(&self) -> bool {
        match self.kind {
            CodecKind::Mpeg4 | CodecKind::Mpeg12 => true,
            CodecKind::Vc1 => self.vc1.is_some(),
            _ => false,
        }
    }

    /// Returns x264's user data SEI message from the first packet of an H.264 stream, in the
    /// stream's framing. libavcodec's workarounds for old x264 versions depend on it, wherever
    /// decoding starts.
    pub fn x264_sei(&self, first: &[u8]) -> Vec<u8> {
        if self.kind != CodecKind::H264 {
            return Vec::new();
        }
        h264::x264_sei(self.framing, first)
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
            "vp8",
            "vp9",
            "av1",
            "mpeg4",
            "mpeg2video",
            "theora",
        ] {
            let look = HeaderParser::new(CodecKind::from_name(name), &[]).parse(&[], true);
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
        for kind in [
            CodecKind::H264,
            CodecKind::Hevc,
            CodecKind::Vp8,
            CodecKind::Vp9,
            CodecKind::Av1,
            CodecKind::Mpeg4,
            CodecKind::Mpeg12,
        ] {
            for data in [
                &[][..],
                &[0xff; 7],
                &[0; 9],
                &[0, 0, 1],
                &[0, 0, 1, 6, 255, 255, 255],
                &[0, 0, 1, 0xb6],
            ] {
                HeaderParser::new(kind, &[1, 2, 3]).parse(data, false);
            }
        }
    }
}
