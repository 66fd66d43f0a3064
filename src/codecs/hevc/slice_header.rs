//! Parses HEVC slice segment headers (ITU-T H.265 7.3.6.1) up to the picture order count and the
//! references.

use super::parameter_sets::{ParameterSets, ReferenceSet, parse_reference_set};
use crate::codecs::nal::BitReader;

/// Fields of a slice segment header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SliceHeader {
    /// Number of bits of the transmitted order count (`slice_pic_order_cnt_lsb`), which is in
    /// `poc_lsb`.
    pub poc_lsb_bits: u32,
    pub poc_lsb: u32,
    pub references: ReferenceSet,
    /// It also refers to long-term pictures.
    pub long_term: bool,
    /// `no_output_of_prior_pics_flag`: pictures not yet shown are dropped (random access points
    /// only).
    pub no_output_of_prior_pics: bool,
}

/// Whether a picture is an IDR picture, by its NAL unit type.
pub(crate) fn is_idr(kind: u8) -> bool {
    kind == 19 || kind == 20
}

/// Parses the header of a picture's first slice. Returns `None` if it is damaged or refers to
/// unknown parameter sets.
pub(crate) fn parse_slice_header(unit: &[u8], sets: &ParameterSets) -> Option<SliceHeader> {
    let kind = unit.first()? >> 1 & 63;
    let mut bits = BitReader::new(unit.get(2..)?);
    if bits.bit()? == 0 {
        return None;
    }
    let no_output_of_prior_pics = (16..=23).contains(&kind) && bits.bit()? == 1;
    let (sequence, picture) = sets.for_slice(bits.ue()?)?;
    let poc_lsb_bits = sequence.poc_lsb_bits;
    let mut head = SliceHeader {
        poc_lsb_bits,
        poc_lsb: 0,
        references: Vec::new(),
        long_term: false,
        no_output_of_prior_pics,
    };
    if is_idr(kind) {
        return Some(head);
    }
    bits.skip(picture.extra_slice_header_bits)?;
    bits.ue()?; // slice_type
    bits.skip(
        u32::from(picture.output_flag_present) + 2 * u32::from(sequence.separate_color_planes),
    )?;
    head.poc_lsb = bits.take(poc_lsb_bits)?;
    let known = &sequence.reference_sets;
    head.references = if bits.bit()? == 0 {
        parse_reference_set(&mut bits, known, true)?
    } else {
        // Ceil(Log2(number of sets)) bits.
        let place = bits.take(usize::BITS - known.len().checked_sub(1)?.leading_zeros())?;
        known.get(place as usize)?.clone()
    };
    if sequence.long_term {
        let listed = sequence.long_term_listed && bits.ue()? > 0;
        head.long_term = bits.ue()? > 0 || listed;
    }
    Some(head)
}

#[cfg(test)]
mod tests {
    use super::super::test_headers::{picture_set, sequence, set, slice};
    use super::*;
    use crate::codecs::nal::test_headers::ue;

    fn read(unit: &[u8], long: bool) -> Option<SliceHeader> {
        let known = [
            set(true, &[(1, true)], &[]),
            set(false, &[(2, true)], &[]),
            set(false, &[], &[(1, true)]),
        ];
        let mut sets = ParameterSets::default();
        sets.insert(&sequence(&[&known[0], &known[1], &known[2]], long));
        sets.insert(&picture_set(2));
        parse_slice_header(unit, &sets)
    }

    fn plain(poc_lsb: u32, references: ReferenceSet) -> Option<SliceHeader> {
        Some(SliceHeader {
            poc_lsb_bits: 4,
            poc_lsb,
            references,
            long_term: false,
            no_output_of_prior_pics: false,
        })
    }

    #[test]
    fn references_come_from_the_sps_or_the_slice() {
        assert_eq!(
            read(&slice(1, 0, 5, "1 01"), false),
            plain(5, vec![(-2, true)])
        );
        assert_eq!(
            read(&slice(1, 0, 5, "1 10"), false),
            plain(5, vec![(1, true)])
        );
        assert_eq!(
            read(&slice(1, 0, 5, "1 11"), false),
            None,
            "the fourth of three"
        );
        let own = ["0", &set(false, &[(1, true), (4, false)], &[(3, true)])].concat();
        assert_eq!(
            read(&slice(0, 2, 7, &own), false),
            plain(7, vec![(-1, true), (-4, false), (3, true)])
        );
    }

    #[test]
    fn irap_and_idr_slice_headers() {
        assert_eq!(read(&slice(19, 0, 0, ""), false), plain(0, vec![]));
        assert_eq!(
            read(&slice(21, 0, 9, "1 00"), false),
            plain(9, vec![(-1, true)])
        );
        let mut drops = slice(19, 0, 0, "");
        drops[2] |= 0x40;
        assert!(read(&drops, false).expect("read").no_output_of_prior_pics);
    }

    #[test]
    fn long_term_references_are_parsed() {
        let none = ["1 00", &ue(0)].concat();
        assert_eq!(
            read(&slice(1, 0, 5, &none), true),
            plain(5, vec![(-1, true)])
        );
        let one = ["1 00", &ue(1), "0000 1 0"].concat();
        assert!(read(&slice(1, 0, 5, &one), true).expect("read").long_term);
    }

    #[test]
    fn unusable_slice_headers_are_not_read() {
        assert_eq!(
            parse_slice_header(&slice(1, 0, 5, "1 00"), &ParameterSets::default()),
            None
        );
        let mut later = slice(1, 0, 5, "1 00");
        later[2] &= 0x7f;
        assert_eq!(read(&later, false), None);
        assert_eq!(read(&slice(1, 0, 5, "1 00")[..3], false), None);
    }
}
