//! MPEG-1 and MPEG-2: random access points, and packets that hold one B picture, coded as a frame,
//! and nothing that affects later packets. B pictures are never references; only quantizer matrices
//! sent with one would stay in force.

use framespool_nvdec::session;

use super::codec::{Codec, INEXACT, OrderRule, PacketDependencyParser, PacketFlags, PictureParser};
use super::configuration::{
    ConfigurationTracker, StartCodeTracker, Syntax, Unit, holds_configuration,
};
use super::nal::{BitReader, find_start_code, holds_only_headers};
use super::picture_info::{Dependency, FieldInfo, PictureInfo, RandomAccessPoint};
use crate::media::CodecParams;

pub(crate) struct Mpeg12 {
    pub is_mpeg2: bool,
}

/// Sequence header and the extensions that follow it (ISO/IEC 13818-2 6.2.2).
static CONFIGURATION: Syntax = Syntax {
    unit: |code, previous| match code {
        0xb3 => Unit::Header(0),
        0xb5 if previous.is_some() => Unit::Header(1),
        0x00..=0xaf | 0xb8 => Unit::Picture,
        _ => Unit::Other,
    },
    required: &[0],
    accumulates: false,
    ignored_if_present: None,
};

impl Codec for Mpeg12 {
    fn picture_parser(&self) -> Box<dyn PictureParser> {
        Box::new(|data: &[u8], _: PacketFlags| picture_info(data))
    }

    fn parses_random_access_points(&self) -> bool {
        true
    }

    fn configuration_tracker(&self, extradata: &[u8]) -> Option<Box<dyn ConfigurationTracker>> {
        Some(Box::new(StartCodeTracker::new(&CONFIGURATION, extradata)))
    }

    fn replaces_configuration(&self, data: &[u8]) -> bool {
        holds_configuration(&CONFIGURATION, data)
    }

    fn required_headers(&self) -> Option<&'static str> {
        Some("sequence header")
    }

    fn order_rule(&self, _extradata: &[u8]) -> OrderRule {
        OrderRule::PictureTypes
    }

    fn dependency_parser(&self, _params: &CodecParams) -> Option<Box<dyn PacketDependencyParser>> {
        Some(Box::new(PictureTypes {
            is_mpeg2: self.is_mpeg2,
        }))
    }

    fn is_reset_at_sync(&self, _params: &CodecParams) -> bool {
        true
    }

    fn detects_truncated_pictures(&self) -> bool {
        true
    }

    fn writes_every_block(&self) -> bool {
        true
    }

    fn leaves_missing_fields_unwritten(&self) -> bool {
        self.is_mpeg2
    }

    fn missing_part(&self, data: &[u8], height: &mut u32) -> Option<String> {
        self.is_mpeg2
            .then(|| missing_field_row(data, height))
            .flatten()
            .map(|row| format!("row {row} of macroblocks of a field has no slice"))
    }

    /// The shape of pixels; a flag that is copied to the frame.
    fn harmless_messages(&self) -> &'static [&'static str] {
        match self.is_mpeg2 {
            true => &[
                "aspect ratio has forbidden ",
                "interlaced frame in progressive sequence, ignoring",
            ],
            false => &["aspect ratio has forbidden "],
        }
    }

    fn nvdec(&self) -> Result<session::Codec, &'static str> {
        Err(INEXACT)
    }
}

struct PictureTypes {
    is_mpeg2: bool,
}

impl PacketDependencyParser for PictureTypes {
    fn parse(&mut self, data: &[u8]) -> Option<Dependency> {
        dependency(self.is_mpeg2, data)
    }
}

/// Reads a packet's picture from its sequence, group and picture headers (ISO/IEC 13818-2 6.2.2 to
/// 6.2.3).
fn picture_info(data: &[u8]) -> PictureInfo {
    const INTRA: u8 = 1;
    const BIDIRECTIONAL: u8 = 3;
    const CLOSED: u8 = 0x40;
    const BROKEN: u8 = 0x20;
    let Some(picture) = find_start_code(data, 0..=0) else {
        let has_slices = find_start_code(data, 0x01..=0xaf).is_some();
        return match holds_only_headers(data) && !has_slices {
            true => PictureInfo {
                shown: false,
                ..PictureInfo::default()
            },
            false => PictureInfo::damaged(),
        };
    };
    let kind = data.get(picture + 1).map_or(0, |b| b >> 3 & 7);
    // Sequence and group headers precede the picture that they begin with.
    let before = &data[..picture];
    let sequence = find_start_code(before, 0xb3..=0xb3).is_some();
    // 25 bits of time code, then the two flags.
    let group = find_start_code(before, 0xb8..=0xb8)
        .and_then(|at| before.get(at + 3))
        .copied()
        .unwrap_or(0);
    let random_access = match (sequence, kind == INTRA) {
        (true, true) if group & CLOSED != 0 => RandomAccessPoint::Closed,
        (true, true) => RandomAccessPoint::Open,
        (false, true) => RandomAccessPoint::Inexact,
        _ => RandomAccessPoint::None,
    };
    let (field, has_fields) = fields(&data[picture..]);
    PictureInfo {
        random_access,
        is_b_picture: kind == BIDIRECTIONAL,
        is_broken_link: kind == INTRA && group & (CLOSED | BROKEN) == BROKEN,
        field,
        has_fields,
        ..PictureInfo::default()
    }
}

/// The field picture with this header, unless the packet holds the other field too; and whether it is
/// a field picture.
fn fields(picture: &[u8]) -> (Option<FieldInfo>, bool) {
    const BOTTOM: u8 = 2;
    const FIELDS: std::ops::RangeInclusive<u8> = 1..=2;
    let Some((structure, extension)) = picture_structure(picture) else {
        return (None, false);
    };
    if !FIELDS.contains(&structure) {
        return (None, false);
    }
    let &[high, low, ..] = picture else {
        return (None, true);
    };
    let is_alone = find_start_code(extension, 0..=0).is_none();
    let field = FieldInfo {
        is_bottom: structure == BOTTOM,
        frame_number: u32::from(high) << 2 | u32::from(low >> 6),
    };
    (is_alone.then_some(field), true)
}

/// `picture_structure` of the coding extension, and the data from the extension on.
fn picture_structure(picture: &[u8]) -> Option<(u8, &[u8])> {
    const CODING_EXTENSION: u8 = 8;
    // It directly follows the picture header (6.2.2.1), before any slice.
    let extension = &picture[find_start_code(picture, 0x00..=0xff)?.checked_sub(1)?..];
    match *extension {
        [0xb5, first, _, third, ..] if first >> 4 == CODING_EXTENSION => {
            Some((third & 3, extension))
        }
        _ => None,
    }
}

/// The first row of macroblocks of a field picture in which no slice begins (ISO/IEC 13818-2 6.2.4
/// and 6.3.16). libavcodec conceals and reports rows that are missing from frame pictures only.
fn missing_field_row(data: &[u8], height: &mut u32) -> Option<usize> {
    const CODING_EXTENSION: u8 = 8;
    const FIELDS: std::ops::RangeInclusive<u8> = 1..=2;
    // Of larger pictures, further bits of the row are in the slice header.
    const MAX_HEIGHT: u32 = 2800;
    let missing = |seen: &[bool]| seen.iter().position(|&seen| !seen);
    // The rows of the field so far, from its header on.
    let mut field: Option<Vec<bool>> = None;
    let mut at = 0;
    while let Some(code_at) = find_start_code(&data[at..], 0x00..=0xff) {
        at += code_at;
        let code = data[at - 1];
        match (code, &data[at..]) {
            (0x00, _) => {
                if let Some(row) = field.take().as_deref().and_then(missing) {
                    return Some(row);
                }
            }
            (0xb3, &[_, middle, low, ..]) => {
                *height = u32::from(middle & 15) << 8 | u32::from(low);
            }
            (0xb5, &[first, _, third, ..]) if first >> 4 == CODING_EXTENSION => {
                // A packet has one frame picture, or fields.
                if !FIELDS.contains(&(third & 3)) || !(1..=MAX_HEIGHT).contains(height) {
                    return None;
                }
                field = Some(vec![false; height.div_ceil(32) as usize]);
            }
            (0x01..=0xaf, _) => {
                let seen = field.as_mut()?.get_mut(usize::from(code) - 1)?;
                *seen = true;
            }
            _ => {}
        }
    }
    missing(field.as_deref()?)
}

/// Whether a packet's picture is a reference; `None` if it is not understood.
fn dependency(mpeg2: bool, data: &[u8]) -> Option<Dependency> {
    const BIDIRECTIONAL: u32 = 3;
    const CODING_EXTENSION: u32 = 8;
    const FRAME: u32 = 3;
    let (mut pictures, mut described) = (0, false);
    let mut at = 0;
    while let Some(found) = data.get(at..)?.windows(3).position(|w| w == [0, 0, 1]) {
        at += found + 3;
        let (&code, body) = data.get(at..)?.split_first()?;
        let mut bits = BitReader::plain(body);
        match code {
            0x00 => {
                bits.skip(10)?;
                let kind = bits.take(3)?;
                if kind == 1 || kind == 2 {
                    return Some(Dependency::Reference { layer: 0 });
                }
                pictures += 1;
                if kind != BIDIRECTIONAL || pictures > 1 {
                    return None;
                }
            }
            0xb5 if pictures == 0 => return None,
            0xb5 => match bits.take(4)? {
                CODING_EXTENSION => {
                    bits.skip(16 + 2)?;
                    if bits.take(2)? != FRAME {
                        return None;
                    }
                    described = true;
                }
                // Display and copyright extensions do not affect decoding; matrices and scalability
                // do.
                4 | 7 => {}
                _ => return None,
            },
            // Slices and user data.
            0x01..=0xaf if pictures == 1 => {}
            0xb2 => {}
            _ => return None,
        }
    }
    (pictures == 1 && described == mpeg2).then_some(Dependency::Disposable { layer: 0 })
}

#[cfg(test)]
mod tests {
    use super::super::nal::test_headers::bits;
    use super::*;

    /// A picture header of the given type (1 I, 2 P, 3 B), a coding extension and a slice.
    fn picture(kind: u8, structure: u8) -> Vec<u8> {
        let head = bits(&format!("0000000001 {kind:03b} 1111111111111111 000"));
        let extension = bits(&format!(
            "1000 1111111111111111 00 {structure:02b} 000000000"
        ));
        [
            &[0, 0, 1, 0],
            &head[..],
            &[0, 0, 1, 0xb5],
            &extension,
            &[0, 0, 1, 1, 0x55],
        ]
        .concat()
    }

    const DISPOSABLE: Option<Dependency> = Some(Dependency::Disposable { layer: 0 });
    const REFERENCE: Option<Dependency> = Some(Dependency::Reference { layer: 0 });

    #[test]
    fn single_frame_b_picture_is_disposable() {
        assert_eq!(dependency(true, &picture(3, 3)), DISPOSABLE);
        assert_eq!(dependency(true, &picture(1, 3)), REFERENCE);
        assert_eq!(dependency(true, &picture(2, 3)), REFERENCE);
        let mpeg1 = [
            &[0, 0, 1, 0][..],
            &bits("0000000001 011 1111111111111111 000"),
            &[0, 0, 1, 1, 5],
        ]
        .concat();
        assert_eq!(dependency(false, &mpeg1), DISPOSABLE);
        assert_eq!(
            dependency(true, &mpeg1),
            None,
            "an MPEG-2 picture that does not say whether it is a frame"
        );
    }

    #[test]
    fn fields_and_persistent_state_are_not_disposable() {
        assert_eq!(dependency(true, &picture(3, 1)), None, "a field");
        assert_eq!(
            dependency(true, &[picture(3, 3), picture(3, 3)].concat()),
            None,
            "two pictures"
        );
        let matrices = [0, 0, 1, 0xb5, 0x30, 0];
        assert_eq!(
            dependency(true, &[&picture(3, 3)[..], &matrices].concat()),
            None,
            "matrices"
        );
        for code in [0xb3, 0xb4, 0xb7, 0xb8] {
            assert_eq!(
                dependency(true, &[&[0, 0, 1, code, 0, 0], &picture(3, 3)[..]].concat()),
                None,
                "{code:x}"
            );
        }
        assert_eq!(dependency(true, &picture(3, 3)[..5]), None, "cut");
    }

    #[test]
    fn packet_of_one_field_is_recognized() {
        let field = |structure: u8| picture_info(&picture(2, structure)).field;
        assert_eq!(
            (field(3), field(0)),
            (None, None),
            "a frame, and a reserved value"
        );
        let (top, bottom) = (field(1).expect("top"), field(2).expect("bottom"));
        assert_eq!((top.is_bottom, bottom.is_bottom), (false, true));
        assert!(
            top.is_completed_by(bottom) && bottom.is_completed_by(top) && !top.is_completed_by(top)
        );
        let both = [picture(2, 1), picture(2, 2)].concat();
        assert_eq!(picture_info(&both).field, None, "both fields");
        let mut other = picture(2, 2);
        other[4] ^= 1; // temporal_reference
        assert!(
            !top.is_completed_by(picture_info(&other).field.expect("bottom")),
            "of another frame"
        );
        assert_eq!(
            picture_info(&[0, 0, 1, 0, 0, 8, 0, 0, 0, 0, 1, 1, 5]).field,
            None,
            "MPEG-1"
        );
    }

    #[test]
    fn packet_without_a_picture_header_is_damaged() {
        assert_eq!(picture_info(&[0; 40]), PictureInfo::damaged());
        assert_eq!(
            picture_info(&[0, 0, 1, 5, 0x55, 0x66]),
            PictureInfo::damaged(),
            "a slice"
        );
        assert_eq!(
            picture_info(&[0, 0, 1, 0xb7]),
            PictureInfo {
                shown: false,
                ..PictureInfo::default()
            }
        );
    }

    #[test]
    fn mpeg_gop_header_has_closed_gop_flag() {
        let look = |flags: u8, kind: u8| {
            let group = [0, 0, 1, 0xb3, 1, 2, 0, 0, 1, 0xb8, 0, 8, 0, flags];
            picture_info(&[&group[..], &[0, 0, 1, 0, 0, kind << 3, 0, 0]].concat())
        };
        assert_eq!(
            (look(0, 1).random_access, look(0, 1).is_broken_link),
            (RandomAccessPoint::Open, false)
        );
        assert_eq!(
            (look(0x40, 1).random_access, look(0x40, 1).is_broken_link),
            (RandomAccessPoint::Closed, false)
        );
        assert_eq!(
            (look(0x20, 1).random_access, look(0x20, 1).is_broken_link),
            (RandomAccessPoint::Open, true)
        );
        assert_eq!(
            (look(0x60, 1).random_access, look(0x60, 1).is_broken_link),
            (RandomAccessPoint::Closed, false),
            "nothing is missing"
        );
        assert_eq!(
            look(0x40, 2).random_access,
            RandomAccessPoint::None,
            "a P picture"
        );
        assert_eq!(
            picture_info(&[0, 0, 1, 0xb8, 0, 8, 0, 0x40, 0, 0, 1, 0, 0, 8, 0]).random_access,
            RandomAccessPoint::Inexact,
            "no sequence"
        );
        assert_eq!(
            picture_info(&[0, 0, 1, 0xb3, 0, 0, 1, 0xb8]).random_access,
            RandomAccessPoint::None,
            "cut"
        );
    }
}
