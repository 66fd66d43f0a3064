//! Converts packets to the access units that hardware parsers expect: start codes, in-band
//! parameter sets, temporal units with their delimiter. Rejects streams that a hardware decoder may
//! decode differently from the bit-exact result of the standard.

use framespool_nvdec::session::Codec;

use crate::codecs::av1::{self, config_obus, obu_type, parse_obus, parse_sequence_end};
use crate::codecs::nal::config_nal_units;
use crate::codecs::nal::{Framing, NalSyntax, has_forbidden_bytes, split_nal_units};
use crate::codecs::picture_info::SequenceColor;
use crate::codecs::{self, h264::H264, hevc::Hevc, vp8, vp9};
use crate::index::VideoIndex;
use crate::media::ColorTags;
use crate::units::DecodeIndex;

/// Converts the packets of one stream to access units.
#[derive(Debug)]
pub struct BitstreamFilter {
    /// Codec of the stream.
    pub codec: Codec,
    /// Parameter sets, which are sent first.
    pub headers: Vec<u8>,
    framing: Framing,
    /// Each packet is exactly one frame: never a field, never several frames.
    is_single_frame: bool,
    /// Color in the configuration, for codecs whose parsers do not report it.
    pub color: Option<ColorTags>,
}

/// Properties of an access unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessUnitInfo {
    /// It is exactly one frame.
    pub is_single_frame: bool,
    /// Number of pictures that it shows.
    pub num_shown: u8,
    /// Color signaled from this unit on, for codecs whose parsers do not report it.
    pub color: Option<ColorTags>,
    /// It signals a display size other than the coded size.
    pub is_resized: bool,
    /// Why NVDEC must not be given the pictures of an SPS in it.
    pub excluded: Option<&'static str>,
    /// It contains bytes that no encoder writes.
    pub is_damaged: bool,
    /// Property for which the range falls back to the CPU.
    pub unreported: Option<&'static str>,
}

impl AccessUnitInfo {
    fn of(is_single_frame: bool, num_shown: u8, color_info: Option<SequenceColor>) -> Self {
        let is_resized = color_info.is_some_and(|info| info.is_resized);
        Self {
            is_single_frame,
            num_shown,
            color: color_info.map(|color_info| color_info.color),
            is_resized,
            excluded: None,
            is_damaged: false,
            unreported: None,
        }
    }
}

const FILM_GRAIN: &str = "av1 with film grain, which decoders add in different ways";

/// What the index of a file shows that NVDEC must not be given, although it decodes other files with
/// the same parameters. Asked before the first range, so that a file is not decoded by both.
pub fn nvdec_exclusion(index: &VideoIndex) -> Option<&'static str> {
    let codec = codecs::of(&index.info.params.codec).nvdec();
    let shows_again =
        codec == Ok(Codec::Vp9) && index.packets.iter().any(|packet| packet.shows_again());
    shows_again.then_some(SHOWN_AGAIN)
}

/// NVIDIA's parser makes no callback for them, as seen with driver 580 on an H200.
const SHOWN_AGAIN: &str = "VP9 with frames that are shown again is not decoded by this GPU";

const START_CODE: [u8; 4] = [0, 0, 0, 1];

impl BitstreamFilter {
    /// For decode ranges that start at this packet.
    ///
    /// # Errors
    /// The reason why this stream falls back to the CPU.
    pub fn new(index: &VideoIndex, start: DecodeIndex) -> Result<Self, String> {
        let params = &index.params_at(start);
        let known = codecs::of(&params.codec);
        let codec = known
            .nvdec()
            .map_err(|reason| format!("{}: {reason}", params.codec.name))?;
        let extradata = &params.extradata;
        let (framing, headers) = match codec {
            Codec::H264 => parameter_sets(&H264, extradata)?,
            Codec::Hevc => parameter_sets(&Hevc, extradata)?,
            Codec::Av1 => {
                // Without a configuration, the packets have the sequence header.
                if let Some(reason) = av1_exclusion(config_obus(extradata)) {
                    return Err(reason.to_owned());
                }
                (Framing::AnnexB, config_obus(extradata).to_vec())
            }
            Codec::Vp8 | Codec::Vp9 => (Framing::AnnexB, Vec::new()),
        };
        let fields = known.may_have_field_packets(extradata, &[]);
        // A parameter set that changes within the stream may introduce fields.
        let is_single_frame = !fields && !index.changes_parameters;
        let color = match codec {
            Codec::Av1 => {
                av1::sequence_color(config_obus(extradata)).map(|color_info| color_info.color)
            }
            _ => None,
        };
        Ok(Self {
            codec,
            headers,
            framing,
            is_single_frame,
            color,
        })
    }

    fn filter_units(
        &self,
        syntax: &dyn NalSyntax,
        packet: &[u8],
        out: &mut Vec<u8>,
    ) -> AccessUnitInfo {
        let (mut excluded, mut is_damaged) = (None, false);
        for unit in split_nal_units(self.framing, packet) {
            excluded = excluded.or_else(|| syntax.sps_nvdec_exclusion(unit));
            // Only of slices: some encoders do not escape their own messages.
            is_damaged |= syntax.is_slice(unit) && has_forbidden_bytes(unit);
            out.extend_from_slice(&START_CODE);
            out.extend_from_slice(unit);
        }
        AccessUnitInfo {
            excluded,
            is_damaged,
            ..AccessUnitInfo::of(self.is_single_frame, 1, None)
        }
    }

    /// Writes a packet as an access unit into `out`.
    pub fn filter_packet(&self, packet: &[u8], out: &mut Vec<u8>) -> AccessUnitInfo {
        out.clear();
        match self.codec {
            Codec::H264 => self.filter_units(&H264, packet, out),
            Codec::Hevc => self.filter_units(&Hevc, packet, out),
            Codec::Vp8 => {
                out.extend_from_slice(packet);
                // Bit 4 of the frame tag (RFC 6386, 9.1).
                let num_shown = u8::from(packet.first().is_some_and(|tag| tag & 0x10 != 0));
                AccessUnitInfo::of(true, num_shown, vp8::sequence_color(packet))
            }
            Codec::Vp9 => {
                out.extend_from_slice(packet);
                let frames = split_superframe(packet);
                let num_shown = frames
                    .iter()
                    .filter(|frame| is_vp9_frame_shown(frame))
                    .count();
                let color_info = frames.iter().find_map(|frame| vp9::sequence_color(frame));
                let unreported = frames.iter().find_map(|frame| vp9_unreported(frame));
                let info = AccessUnitInfo::of(frames.len() == 1, num_shown as u8, color_info);
                AccessUnitInfo { unreported, ..info }
            }
            Codec::Av1 => {
                let units = parse_obus(packet).unwrap_or_default();
                // MP4 and Matroska omit temporal delimiters, by which a parser finds the beginning
                // of a unit.
                if units.first().map(|unit| unit.kind) != Some(obu_type::TEMPORAL_DELIMITER) {
                    out.extend_from_slice(&[obu_type::TEMPORAL_DELIMITER << 3 | 2, 0]);
                }
                out.extend_from_slice(packet);
                AccessUnitInfo {
                    excluded: av1_exclusion(packet),
                    ..AccessUnitInfo::of(
                        av1::is_single_new_frame(&units),
                        1,
                        av1::sequence_color(packet),
                    )
                }
            }
        }
    }
}

/// The framing of a stream of NAL units, and the parameter sets of its configuration with start
/// codes.
fn parameter_sets(syntax: &dyn NalSyntax, extradata: &[u8]) -> Result<(Framing, Vec<u8>), String> {
    let framing = Framing::detect(syntax, extradata);
    let mut sets = config_nal_units(syntax, framing, extradata);
    sets.retain(|set| !syntax.is_of_higher_layer(set));
    if let Some(reason) = sets.iter().find_map(|set| syntax.sps_nvdec_exclusion(set)) {
        return Err(reason.into());
    }
    let with_start_code = |set: &&[u8]| [&START_CODE[..], set].concat();
    Ok((framing, sets.iter().flat_map(with_start_code).collect()))
}

/// The frames of a VP9 packet (VP9 specification, annex B).
fn split_superframe(packet: &[u8]) -> Vec<&[u8]> {
    let is_single_frame = || vec![packet];
    let Some(&marker) = packet.last().filter(|&&b| b & 0xe0 == 0xc0) else {
        return is_single_frame();
    };
    let (bytes, frames) = (
        usize::from(marker >> 3 & 3) + 1,
        usize::from(marker & 7) + 1,
    );
    let Some(at) = packet.len().checked_sub(2 + bytes * frames) else {
        return is_single_frame();
    };
    if packet[at] != marker {
        return is_single_frame();
    }
    let mut rest = &packet[..at];
    let mut out = Vec::new();
    for size in packet[at + 1..packet.len() - 1].chunks(bytes) {
        let size = size
            .iter()
            .rev()
            .fold(0usize, |sum, &b| sum << 8 | usize::from(b));
        let Some((frame, tail)) = rest.split_at_checked(size) else {
            return is_single_frame();
        };
        if size > 0 {
            out.push(frame);
        }
        rest = tail;
    }
    out
}

/// Bit `at` of the header of a VP9 frame, counted from `show_existing_frame` (6.2): marker and
/// profile come first, with a reserved bit for profile 3.
fn vp9_header_bit(frame: &[u8], at: usize) -> bool {
    let is_profile_3 = frame.first().is_some_and(|first| first >> 4 & 3 == 3);
    let at = at + if is_profile_3 { 5 } else { 4 };
    frame
        .get(at / 8)
        .is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1)
}

/// Whether a VP9 frame is shown: `show_existing_frame` or, after `frame_type`, `show_frame`.
fn is_vp9_frame_shown(frame: &[u8]) -> bool {
    vp9_header_bit(frame, 0) || vp9_header_bit(frame, 2)
}

/// What is in a VP9 frame that NVIDIA's parser does not report at all, as seen with driver 580 on
/// an H200.
fn vp9_unreported(frame: &[u8]) -> Option<&'static str> {
    if vp9_header_bit(frame, 0) {
        return Some("VP9 with frames that are shown again");
    }
    // The lower bit of the profile: profiles 1 and 3 have 4:2:2, 4:4:0 or 4:4:4.
    frame
        .first()
        .is_some_and(|first| first >> 5 & 1 == 1)
        .then_some("VP9 with chroma other than 4:2:0")
}

/// If a temporal unit or configuration has a sequence header: why NVDEC must not be given its
/// pictures.
fn av1_exclusion(unit: &[u8]) -> Option<&'static str> {
    let list = parse_obus(unit)?;
    let header = list
        .iter()
        .find(|obu| obu.kind == obu_type::SEQUENCE_HEADER)?;
    match parse_sequence_end(header.payload) {
        Some(end) if end.film_grain => Some(FILM_GRAIN),
        Some(_) => None,
        None => Some("av1 with a sequence header that does not show whether there is film grain"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn superframe_counts_only_shown_frames() {
        // Profile 0: marker 10, profile 00, show_existing 0, key 0, show_frame 0 or 1.
        let (hidden, shown, again) = ([0b1000_0000u8, 1, 2], [0b1000_0010u8, 3], [0b1000_1000u8]);
        let marker = 0xc0 | 2; // three frames, sizes of one byte
        let index = [marker, 3, 2, 1, marker];
        let packet = [&hidden[..], &shown, &again, &index].concat();
        assert_eq!(split_superframe(&packet), [&hidden[..], &shown, &again]);
        let num_shown: Vec<bool> = split_superframe(&packet)
            .into_iter()
            .map(is_vp9_frame_shown)
            .collect();
        assert_eq!(num_shown, [false, true, true]);
        assert_eq!(split_superframe(&shown), [&shown]);
        assert!(
            is_vp9_frame_shown(&[0b1011_0001]) && !is_vp9_frame_shown(&[0b1011_0010]),
            "profile 3 has a reserved bit"
        );
        assert_eq!(vp9_unreported(&shown), None);
        assert!(vp9_unreported(&again).is_some_and(|what| what.contains("again")));
        assert!(
            vp9_unreported(&[0b1010_0010]).is_some_and(|what| what.contains("4:2:0")),
            "profile 1"
        );
    }

    #[test]
    fn superframe_sizes_are_little_endian() {
        let frame = [7; 258];
        let marker = 0xc0 | 1 << 3 | 1; // two frames, sizes of two bytes
        let packet = [&frame[..], &[marker, 0, 0, 2, 1, marker]].concat();
        assert_eq!(split_superframe(&packet), [&frame[..]]);
    }

    #[test]
    fn invalid_superframe_is_one_frame() {
        for lie in [
            vec![0xc1u8],
            vec![0xc0, 9, 0xc0],
            vec![1, 0xc9, 0xff, 0xff, 0xff, 0xff, 0xc9],
        ] {
            assert_eq!(split_superframe(&lie), [&lie[..]]);
        }
    }

    #[test]
    fn length_prefixed_units_get_start_codes() {
        let index = {
            let mut index = VideoIndex::synthetic(&[(0, true, true)]);
            index.info.params =
                crate::media::CodecParams::synthetic("h264", &[1, 100, 0, 31, 0xff, 0xe0, 0]);
            index
        };
        let filter = BitstreamFilter::new(&index, DecodeIndex(0)).unwrap();
        let mut out = Vec::new();
        let shape = filter.filter_packet(&[0, 0, 0, 2, 0x65, 9, 0, 0, 0, 1, 0x41], &mut out);
        assert_eq!(out, [0, 0, 0, 1, 0x65, 9, 0, 0, 0, 1, 0x41]);
        assert_eq!(
            shape,
            AccessUnitInfo::of(false, 1, None),
            "nothing says that there are no fields"
        );
    }

    #[test]
    fn codecs_without_exact_output_use_the_cpu() {
        let mut index = VideoIndex::synthetic(&[(0, true, true)]);
        for name in ["mpeg4", "mpeg2video", "vc1", "mjpeg"] {
            index.info.params = crate::media::CodecParams::synthetic(name, &[]);
            assert!(
                BitstreamFilter::new(&index, DecodeIndex(0))
                    .unwrap_err()
                    .contains(name)
            );
        }
    }
}
