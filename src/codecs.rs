//! What framespool knows of each codec: a file per codec, and the registry. Bitstreams are parsed up
//! to the slice and frame headers, without decoding. Knows no container and no index; a packet that
//! is damaged or not understood is reported as such.

pub(crate) mod av1;
mod cinepak;
pub(crate) mod codec;
pub(crate) mod configuration;
pub mod disposable;
mod gif;
pub(crate) mod h264;
pub mod header_parser;
pub(crate) mod hevc;
mod image_file;
mod intra;
mod mjpeg;
mod mpeg12;
mod mpeg4;
mod msmpeg4;
pub(crate) mod nal;
pub(crate) mod parameter_sets;
pub mod picture_info;
pub mod references;
pub(crate) mod sample_aspect;
mod theora;
mod vc1;
pub(crate) mod vp8;
pub(crate) mod vp9;
mod vvc;

use codec::{Codec, SampleEntry};
pub(crate) use codec::{ConfigurationBox, OrderRule, Reordering};

use crate::media;

/// Codecs by FFmpeg's name.
const REGISTRY: &[(&str, &dyn Codec)] = &[
    ("h264", &h264::H264),
    ("hevc", &hevc::Hevc),
    ("vvc", &vvc::Vvc),
    ("vp8", &vp8::Vp8),
    ("vp9", &vp9::Vp9),
    ("av1", &av1::Av1),
    ("mpeg1video", &mpeg12::Mpeg12 { is_mpeg2: false }),
    ("mpeg2video", &mpeg12::Mpeg12 { is_mpeg2: true }),
    ("mpeg4", &mpeg4::Mpeg4),
    ("msmpeg4v1", &msmpeg4::MsMpeg4V1),
    ("vc1", &vc1::Vc1 { is_advanced: true }),
    ("wmv3", &vc1::Vc1 { is_advanced: false }),
    ("theora", &theora::Theora),
    ("mjpeg", &mjpeg::Mjpeg),
    ("gif", &gif::Gif),
    ("cinepak", &cinepak::Cinepak),
    ("prores", &intra::IndependentPictures),
    ("dnxhd", &intra::IndependentPictures),
    ("v210", &intra::IndependentPictures),
    ("utvideo", &intra::IndependentPictures),
    ("jpeg2000", &intra::IndependentPictures),
    ("rawvideo", &intra::RawVideo),
];

/// Every codec that is not in the registry.
struct Unknown;

impl Codec for Unknown {}

/// The codec with FFmpeg's name `name`.
pub(crate) fn by_name(name: &str) -> &'static dyn Codec {
    let known = REGISTRY.iter().find(|(known, _)| *known == name);
    known.map_or(&Unknown, |(_, codec)| *codec)
}

/// The codec of a stream or an image.
pub(crate) fn of(codec: &media::Codec) -> &'static dyn Codec {
    match codec.is_image {
        true => &image_file::ImageFile,
        false => by_name(&codec.name),
    }
}

/// FFmpeg's name of the codec of a sample entry, and the entry; `None` for those left to
/// libavformat.
pub(crate) fn by_sample_entry(kind: [u8; 4]) -> Option<(&'static str, &'static SampleEntry)> {
    REGISTRY.iter().find_map(|(name, codec)| {
        let mut entries = codec.sample_entries().iter();
        Some((*name, entries.find(|entry| entry.kind == kind)?))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn registry_has_no_ambiguous_entry() {
        let mut names = HashSet::new();
        let mut tags = HashSet::new();
        for (name, codec) in REGISTRY {
            assert!(names.insert(name), "{name}");
            for entry in codec.sample_entries() {
                assert!(tags.insert(entry.kind), "{name}");
            }
        }
    }
}
