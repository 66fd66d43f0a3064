//! Determines from a packet's payload whether other pictures can depend on its picture. A picture
//! counts as disposable only if libavcodec decodes the others to the same bytes without it. A
//! packet that is damaged, unusual or not understood is reported as needed.

use super::codec::PacketDependencyParser;
pub use super::picture_info::Dependency;
use crate::media::CodecParams;

/// Determines the [`Dependency`] of one stream's packets and keeps the parameter sets that later
/// headers depend on.
pub struct DependencyParser {
    /// `None` if no packet can be omitted.
    parser: Option<Box<dyn PacketDependencyParser>>,
}

impl DependencyParser {
    /// For a stream with this codec and configuration (avcC, hvcC, av1C, start codes or OBUs).
    pub fn new(params: &CodecParams) -> Self {
        Self {
            parser: super::of(&params.codec).dependency_parser(params),
        }
    }

    /// Highest temporal layer declared so far; 0 for codecs without layers.
    pub fn highest_layer(&self) -> u8 {
        self.parser
            .as_ref()
            .map_or(0, |parser| parser.highest_layer())
    }

    /// Whether any packet of this stream can be omitted, so that parsing its packets is worthwhile.
    pub fn may_have_disposable(&self) -> bool {
        self.parser
            .as_ref()
            .is_some_and(|parser| parser.may_have_disposable())
    }

    /// Returns the dependency of one packet, given its whole payload, and records its in-band
    /// parameter sets.
    pub fn parse(&mut self, data: &[u8]) -> Dependency {
        let parser = self.parser.as_mut();
        parser
            .and_then(|parser| parser.parse(data))
            .unwrap_or(Dependency::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stateful_codecs_are_never_disposable() {
        for name in [
            "vp8", "vp9", "mpeg4", "ffv1", "vc1", "theora", "gif", "cinepak", "png",
        ] {
            let mut parser = DependencyParser::new(&CodecParams::synthetic(name, &[]));
            assert!(!parser.may_have_disposable(), "{name}");
            assert_eq!(
                parser.parse(&[0, 0, 1, 0xb6, 0x80, 0, 0]),
                Dependency::Unknown,
                "{name}"
            );
        }
    }

    #[test]
    fn raw_frames_are_independent_without_palette() {
        assert_eq!(
            DependencyParser::new(&CodecParams::synthetic("rawvideo", &[])).parse(&[1, 2, 3]),
            Dependency::Disposable { layer: 0 }
        );
        let palette = CodecParams {
            bits_per_coded_sample: 8,
            ..CodecParams::synthetic("rawvideo", &[])
        };
        assert!(!DependencyParser::new(&palette).may_have_disposable());
    }

    proptest! {
        #[test]
        fn damaged_data_never_panics(
            name in prop::sample::select(vec!["h264", "hevc", "vvc", "av1", "mpeg2video", "mpeg1video", "mjpeg"]),
            extradata in prop::collection::vec(prop::num::u8::ANY, 0..64),
            packets in prop::collection::vec(prop::collection::vec(prop::num::u8::ANY, 0..64), 0..4),
        ) {
            let mut parser = DependencyParser::new(&CodecParams::synthetic(name, &extradata));
            for packet in packets {
                let started = [&[0, 0, 1], &packet[..]].concat();
                parser.parse(&packet);
                parser.parse(&started);
                parser.highest_layer();
            }
        }
    }
}
