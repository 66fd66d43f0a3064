//! Determines from a packet's payload whether other pictures can depend on its picture.
//! A picture counts as disposable only if libavcodec decodes the others to the same bytes without it.
//! A packet that is damaged, unusual or not understood is reported as needed.

mod av1;
mod h264;
mod hevc;
mod intra;
mod mpeg;

pub(super) use intra::{stands_alone, JpegTables};

use crate::media::{CodecKind, CodecParams};

/// Whether other pictures may depend on a packet's picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Later pictures of its own and higher layers may refer to it.
    Reference {
        /// Temporal layer; 0 for codecs without layers.
        layer: u8,
    },
    /// Only pictures of higher layers may refer to it.
    Leaf {
        /// Temporal layer; 0 for codecs without layers.
        layer: u8,
    },
    /// Omitting it could change others in ways the headers do not show; it must always be decoded.
    Needed,
}

/// Determines the roles of one stream's packets and keeps the parameter sets that later headers depend on.
pub struct Roles {
    reader: Reader,
}

enum Reader {
    H264(h264::Reader),
    Hevc(hevc::Reader),
    Av1(av1::Reader),
    Mpeg12 {
        mpeg2: bool,
    },
    Intra,
    Jpeg(intra::Jpeg),
    /// VP8, VP9: entropy coder state, segmentation and filter levels carry over even from frames without
    /// references to them. MPEG-4 part 2: see `mpeg`. Headers of other codecs are not parsed here.
    Never,
}

impl Roles {
    /// For a stream with this codec and configuration (avcC, hvcC, av1C, start codes or OBUs).
    pub fn new(params: &CodecParams) -> Self {
        let extradata = &params.extradata;
        let reader = match params.codec.kind {
            CodecKind::H264 => Reader::H264(h264::Reader::new(extradata, params.reorder.is_some())),
            CodecKind::Hevc => Reader::Hevc(hevc::Reader::new(extradata)),
            CodecKind::Av1 => Reader::Av1(av1::Reader::new(extradata)),
            CodecKind::Mpeg12 => Reader::Mpeg12 { mpeg2: params.codec.name == "mpeg2video" },
            CodecKind::Other if params.codec.name == "mjpeg" => Reader::Jpeg(intra::Jpeg::default()),
            CodecKind::Other if stands_alone(params) => Reader::Intra,
            CodecKind::Vp8 | CodecKind::Vp9 | CodecKind::Mpeg4 | CodecKind::Still | CodecKind::Other => {
                Reader::Never
            }
        };
        Self { reader }
    }

    /// Highest temporal layer declared so far; 0 for codecs without layers.
    pub fn highest_layer(&self) -> u8 {
        match &self.reader {
            Reader::Hevc(reader) => reader.highest_layer(),
            _ => 0,
        }
    }

    /// Whether any packet of this stream can be omitted, so that parsing its packets is worthwhile.
    pub fn can_drop(&self) -> bool {
        match &self.reader {
            Reader::H264(reader) => reader.can_drop(),
            Reader::Never => false,
            _ => true,
        }
    }

    /// Returns the role of one packet, given its whole payload, and records its in-band parameter sets.
    pub fn role(&mut self, data: &[u8]) -> Role {
        let role = match &mut self.reader {
            Reader::H264(reader) => reader.role(data),
            Reader::Hevc(reader) => reader.role(data),
            Reader::Av1(reader) => reader.role(data),
            Reader::Mpeg12 { mpeg2 } => mpeg::role(*mpeg2, data),
            Reader::Jpeg(reader) => reader.role(data),
            Reader::Intra if !data.is_empty() => Some(Role::Leaf { layer: 0 }),
            Reader::Intra | Reader::Never => None,
        };
        role.unwrap_or(Role::Needed)
    }
}

/// Whether the stream declares its reorder depth to a decoder (see [`CodecParams::reorder`]).
pub(super) fn declares_order(params: &CodecParams) -> bool {
    params.codec.kind != CodecKind::H264 || h264::Reader::new(&params.extradata, false).declares_order()
}

/// Whether all sequences in an H.264 configuration, or else in a stream's first packet, exclude fields.
pub(super) fn declares_frames_only(extradata: &[u8], first: &[u8]) -> bool {
    let mut reader = h264::Reader::new(extradata, false);
    reader.role(first);
    reader.declares_frames_only()
}

/// Whether a NAL unit is an SPS with a crop offset on the left or top.
pub(super) fn sequence_crops_its_begin(hevc: bool, unit: &[u8]) -> bool {
    match hevc {
        true => super::hevc::set_crops_its_begin(unit),
        false => h264::set_crops_its_begin(unit),
    }
}

/// Builds headers for tests from bit strings.
#[cfg(test)]
pub(super) mod by_hand {
    /// Converts a bit string such as "1 010" to bytes, padded with zeros; blanks are ignored.
    pub fn bits(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_digit).map(|b| b - b'0').collect();
        digits
            .chunks(8)
            .map(|c| c.iter().enumerate().fold(0, |byte, (i, bit)| byte | bit << (7 - i)))
            .collect()
    }

    /// Exp-Golomb code, as a bit string.
    pub fn ue(number: u32) -> String {
        let code = format!("{:b}", number + 1);
        "0".repeat(code.len() - 1) + &code
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn codecs_that_carry_state_over_are_never_droppable() {
        for name in ["vp8", "vp9", "mpeg4", "ffv1", "vc1", "theora", "gif", "cinepak", "png"] {
            let mut roles = Roles::new(&CodecParams::sketch(name, &[]));
            assert!(!roles.can_drop(), "{name}");
            assert_eq!(roles.role(&[0, 0, 1, 0xb6, 0x80, 0, 0]), Role::Needed, "{name}");
        }
    }

    #[test]
    fn pictures_of_raw_video_stand_alone_unless_a_palette_is_handed_on() {
        assert_eq!(
            Roles::new(&CodecParams::sketch("rawvideo", &[])).role(&[1, 2, 3]),
            Role::Leaf { layer: 0 }
        );
        let palette = CodecParams { bits_per_coded_sample: 8, ..CodecParams::sketch("rawvideo", &[]) };
        assert!(!Roles::new(&palette).can_drop());
    }

    proptest! {
        #[test]
        fn damaged_data_never_panics(
            name in prop::sample::select(vec!["h264", "hevc", "av1", "mpeg2video", "mpeg1video", "mjpeg"]),
            extradata in prop::collection::vec(prop::num::u8::ANY, 0..64),
            packets in prop::collection::vec(prop::collection::vec(prop::num::u8::ANY, 0..64), 0..4),
        ) {
            let mut roles = Roles::new(&CodecParams::sketch(name, &extradata));
            for packet in packets {
                let started = [&[0, 0, 1], &packet[..]].concat();
                roles.role(&packet);
                roles.role(&started);
                roles.highest_layer();
            }
        }
    }
}
