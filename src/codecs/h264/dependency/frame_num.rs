//! Follows the frame numbers of H.264 pictures, which show that reference pictures are missing.

use super::H264DependencyParser;
use crate::codecs::nal::{BitReader, split_nal_units};

/// What the slice headers of a packet say about its first picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct H264Picture {
    frame_num: u32,
    frame_num_bits: u32,
    is_idr: bool,
    is_reference: bool,
    is_intra: bool,
    may_have_gaps: bool,
    /// The packet contains slices of this one picture only, and it is a frame.
    is_single_frame: bool,
}

impl H264DependencyParser {
    /// The first picture of a packet; `None` if its headers are not understood.
    fn picture(&mut self, data: &[u8]) -> Option<H264Picture> {
        let units = split_nal_units(self.framing, data);
        for unit in &units {
            self.insert_if_parameter_set(unit);
        }
        let mut picture: Option<H264Picture> = None;
        for unit in units
            .into_iter()
            .filter(|unit| matches!(unit[0] & 31, 1 | 2 | 5))
        {
            let (first_mb, slice) = self.slice(unit)?;
            match &mut picture {
                None => picture = Some(slice),
                Some(picture) => picture.is_single_frame &= first_mb != 0 && slice.is_single_frame,
            }
        }
        picture
    }

    /// The first macroblock of a slice, and its picture as far as this slice describes it.
    fn slice(&self, unit: &[u8]) -> Option<(u32, H264Picture)> {
        let mut bits = BitReader::new(unit.get(1..)?);
        let first_mb = bits.ue()?;
        let slice_type = bits.ue()?;
        let sequence = self.sps_by_id.get(self.sps_id_by_pps.get(&bits.ue()?)?)?;
        bits.skip(if sequence.separate_planes { 2 } else { 0 })?;
        let frame_num = bits.take(sequence.frame_num_bits)?;
        let is_field = !sequence.frames_only && bits.bit()? == 1;
        let picture = H264Picture {
            frame_num,
            frame_num_bits: sequence.frame_num_bits,
            is_idr: unit[0] & 31 == 5,
            is_reference: unit[0] >> 5 & 3 != 0,
            is_intra: matches!(slice_type % 5, 2 | 4),
            may_have_gaps: sequence.gaps,
            is_single_frame: !is_field,
        };
        Some((first_mb, picture))
    }
}

/// Follows the frame numbers of the packets of a decode range.
pub(crate) struct FrameNumTracker {
    parser: H264DependencyParser,
    /// Frame number of the last reference picture, if it is known.
    last_reference: Option<u32>,
}

impl FrameNumTracker {
    pub(crate) fn new(extradata: &[u8]) -> Self {
        Self {
            parser: H264DependencyParser::new(extradata, false),
            last_reference: None,
        }
    }

    /// Records the next packet. Returns whether it is exactly one frame.
    ///
    /// # Errors
    /// The reason, if reference pictures before it are missing or occur twice: its frame number is
    /// not one more than that of the last reference picture, and the stream does not allow gaps
    /// (H.264 7.4.3). Pictures that are not predicted may repeat a number. After a memory
    /// management operation 5, which is not parsed, this is also reported.
    pub(crate) fn push(&mut self, packet: &[u8], is_second_field: bool) -> Result<bool, String> {
        let Some(picture) = self.parser.picture(packet) else {
            self.last_reference = None;
            return Ok(false);
        };
        let number = picture.frame_num;
        if let Some(last) = self
            .last_reference
            .filter(|_| !picture.is_idr && !is_second_field)
        {
            let is_next = number == (last + 1) % (1 << picture.frame_num_bits);
            let repeats = number == last && (picture.is_intra || !picture.is_reference);
            if !is_next && !repeats && !picture.may_have_gaps {
                return Err(format!(
                    "frame number {number} follows {last}: reference pictures are missing or occur twice"
                ));
            }
        }
        if picture.is_reference {
            self.last_reference = Some(number);
        }
        Ok(picture.is_single_frame)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{PLAIN, Says, sequence_set, slice};
    use super::*;
    use crate::codecs::nal::test_headers::{bits, ue};

    /// A reference picture with a frame number: the NAL unit's header byte and the slice type, then
    /// the header.
    fn numbered(head: u8, slice_type: u32, frame_num: u32, field: bool) -> Vec<u8> {
        let field = if field { "11" } else { "01" };
        let number = format!("{frame_num:04b}");
        let body = bits(&[&ue(0), &ue(slice_type), &ue(0), &number, field, "11111111"].concat());
        [&[0, 0, 1, head], &body[..]].concat()
    }

    #[test]
    fn missing_reference_pictures_show_in_frame_numbers() {
        const IDR: (u8, u32) = (0x65, 2);
        const P: (u8, u32) = (0x41, 0);
        const B: (u8, u32) = (0x01, 1);
        let follow = |says: Says, pictures: &[((u8, u32), u32)]| -> Result<(), String> {
            let mut tracker = FrameNumTracker::new(&sequence_set(says));
            pictures.iter().try_for_each(|&((head, kind), number)| {
                tracker
                    .push(&numbered(head, kind, number, false), false)
                    .map(|single| assert!(single))
            })
        };
        let fields = Says {
            frames_only: false,
            ..PLAIN
        };
        // The number returns to 0 after 15; pictures that are not references do not count.
        follow(
            fields,
            &[(IDR, 0), (P, 1), (B, 2), (B, 2), (P, 2), (IDR, 0)],
        )
        .unwrap();
        follow(fields, &[(P, 15), (P, 0), (P, 1)]).unwrap();
        follow(fields, &[(IDR, 0), (P, 1), ((0x41, 2), 1)]).unwrap(); // intra, repeats a number
        let error = follow(fields, &[(IDR, 0), (P, 1), (P, 3)]).unwrap_err();
        assert!(error.contains("3 follows 1"), "{error}");
        follow(fields, &[(IDR, 0), (P, 1), (P, 1)]).unwrap_err();
        follow(
            Says {
                gaps: true,
                ..fields
            },
            &[(IDR, 0), (P, 3)],
        )
        .unwrap();
    }

    #[test]
    fn packet_of_one_frame_is_recognized_where_fields_are_possible() {
        let mut tracker = FrameNumTracker::new(&sequence_set(Says {
            frames_only: false,
            ..PLAIN
        }));
        let single = |tracker: &mut FrameNumTracker, packet: &[Vec<u8>]| {
            tracker.push(&packet.concat(), false)
        };
        assert_eq!(
            single(
                &mut tracker,
                &[numbered(0x65, 2, 0, false), slice(7, 0x41, false)]
            ),
            Ok(true)
        );
        assert_eq!(
            single(&mut tracker, &[numbered(0x41, 0, 1, true)]),
            Ok(false)
        );
        assert_eq!(
            single(
                &mut tracker,
                &[numbered(0x41, 0, 2, false), numbered(0x41, 0, 3, false)]
            ),
            Ok(false),
            "two frames"
        );
        assert_eq!(
            single(&mut tracker, &[vec![0, 0, 1, 0x41]]),
            Ok(false),
            "a header that ends early"
        );
    }
}
