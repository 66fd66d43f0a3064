//! Determines from a packet's payload whether other pictures can depend on its picture. A picture
//! counts as disposable only if libavcodec decodes the others to the same bytes without it. A
//! packet that is damaged, unusual or not understood is reported as needed.

use super::av1::dependency::Av1DependencyParser;
use super::h264::dependency::{self as h264, H264DependencyParser};
use super::hevc::dependency::HevcDependencyParser;
use super::intra::{MjpegDependencyParser, packets_are_independent};
use super::mpeg12;
pub use super::picture_info::Dependency;
use crate::media::{CodecKind, CodecParams};

/// Determines the [`Dependency`] of one stream's packets and keeps the parameter sets that later
/// headers depend on.
pub struct DependencyParser {
    parser: CodecDependencyParser,
}

enum CodecDependencyParser {
    H264(H264DependencyParser),
    Hevc(HevcDependencyParser),
    Av1(Av1DependencyParser),
    Mpeg12 {
        mpeg2: bool,
    },
    Intra,
    Jpeg(MjpegDependencyParser),
    /// VP8, VP9: entropy coder state, segmentation and filter levels carry over even from frames
    /// without references to them. MPEG-4 part 2: see `mpeg4`. Headers of other codecs are not
    /// parsed here.
    NeverDisposable,
}

impl DependencyParser {
    /// For a stream with this codec and configuration (avcC, hvcC, av1C, start codes or OBUs).
    pub fn new(params: &CodecParams) -> Self {
        let extradata = &params.extradata;
        let parser = match params.codec.kind {
            CodecKind::H264 => CodecDependencyParser::H264(H264DependencyParser::new(
                extradata,
                params.reorder.is_some(),
            )),
            CodecKind::Hevc => CodecDependencyParser::Hevc(HevcDependencyParser::new(extradata)),
            CodecKind::Av1 => CodecDependencyParser::Av1(Av1DependencyParser::new(extradata)),
            CodecKind::Mpeg12 => CodecDependencyParser::Mpeg12 {
                mpeg2: params.codec.name == "mpeg2video",
            },
            CodecKind::Other if params.codec.name == "mjpeg" => {
                CodecDependencyParser::Jpeg(MjpegDependencyParser::default())
            }
            CodecKind::Other if packets_are_independent(params) => CodecDependencyParser::Intra,
            CodecKind::Vp8
            | CodecKind::Vp9
            | CodecKind::Mpeg4
            | CodecKind::Vc1
            | CodecKind::Image
            | CodecKind::Other => CodecDependencyParser::NeverDisposable,
        };
        Self { parser }
    }

    /// Highest temporal layer declared so far; 0 for codecs without layers.
    pub fn highest_layer(&self) -> u8 {
        match &self.parser {
            CodecDependencyParser::Hevc(parser) => parser.highest_layer(),
            _ => 0,
        }
    }

    /// Whether any packet of this stream can be omitted, so that parsing its packets is worthwhile.
    pub fn may_have_disposable(&self) -> bool {
        match &self.parser {
            CodecDependencyParser::H264(parser) => parser.may_have_disposable(),
            CodecDependencyParser::NeverDisposable => false,
            _ => true,
        }
    }

    /// Returns the dependency of one packet, given its whole payload, and records its in-band
    /// parameter sets.
    pub fn parse(&mut self, data: &[u8]) -> Dependency {
        let dependency = match &mut self.parser {
            CodecDependencyParser::H264(parser) => parser.parse(data),
            CodecDependencyParser::Hevc(parser) => parser.parse(data),
            CodecDependencyParser::Av1(parser) => parser.parse(data),
            CodecDependencyParser::Mpeg12 { mpeg2 } => mpeg12::dependency(*mpeg2, data),
            CodecDependencyParser::Jpeg(parser) => parser.parse(data),
            CodecDependencyParser::Intra if !data.is_empty() => {
                Some(Dependency::Disposable { layer: 0 })
            }
            CodecDependencyParser::Intra | CodecDependencyParser::NeverDisposable => None,
        };
        dependency.unwrap_or(Dependency::Unknown)
    }
}

/// Whether the stream declares its reorder depth to a decoder (see [`CodecParams::reorder`]).
pub(crate) fn declares_reorder_depth(params: &CodecParams) -> bool {
    params.codec.kind != CodecKind::H264
        || H264DependencyParser::new(&params.extradata, false).declares_reorder_depth()
}

/// Whether all sequences in an H.264 configuration, or else in a stream's first packet, exclude
/// fields.
pub(crate) fn declares_frames_only(extradata: &[u8], first: &[u8]) -> bool {
    let mut parser = H264DependencyParser::new(extradata, false);
    parser.parse(first);
    parser.declares_frames_only()
}

/// Whether an HEVC configuration declares that presentation order equals decode order.
pub(crate) fn excludes_reordering(extradata: &[u8]) -> bool {
    super::hevc::excludes_reordering(extradata)
}

/// Whether a NAL unit is an SPS with a crop offset on the left or top.
pub(crate) fn sps_crops_left_or_top(hevc: bool, unit: &[u8]) -> bool {
    match hevc {
        true => super::hevc::sps_crops_left_or_top(unit),
        false => h264::sps_crops_left_or_top(unit),
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
            name in prop::sample::select(vec!["h264", "hevc", "av1", "mpeg2video", "mpeg1video", "mjpeg"]),
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
