//! Parses HEVC slice segment headers (ITU-T H.265 7.3.6.1) up to the picture order count and the references.

use super::sets::{reference_set, ReferenceSet, Sets};
use crate::index::nal::Bits;

/// Fields of a slice segment header.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::index) struct Head {
    /// Number of bits of the transmitted order count (`slice_pic_order_cnt_lsb`), which is in `order`.
    pub order_bits: u32,
    pub order: u32,
    pub references: ReferenceSet,
    /// It also refers to long-term pictures.
    pub long_term: bool,
    /// `no_output_of_prior_pics_flag`: pictures not yet shown are dropped (random access points only).
    pub drops_prior: bool,
}

/// Whether a picture is an IDR picture, by its NAL unit type.
pub(in crate::index) fn is_idr(kind: u8) -> bool {
    kind == 19 || kind == 20
}

/// Parses the header of a picture's first slice. Returns `None` if it is damaged or refers to unknown
/// parameter sets.
pub(in crate::index) fn head(unit: &[u8], sets: &Sets) -> Option<Head> {
    let kind = unit.first()? >> 1 & 63;
    let mut bits = Bits::new(unit.get(2..)?);
    if bits.bit()? == 0 {
        return None;
    }
    let drops_prior = (16..=23).contains(&kind) && bits.bit()? == 1;
    let (sequence, picture) = sets.of(bits.ue()?)?;
    let order_bits = sequence.order_bits;
    let mut head = Head { order_bits, order: 0, references: Vec::new(), long_term: false, drops_prior };
    if is_idr(kind) {
        return Some(head);
    }
    bits.skip(picture.extra_bits)?;
    bits.ue()?; // slice_type
    bits.skip(u32::from(picture.output_flag) + 2 * u32::from(sequence.separate_planes))?;
    head.order = bits.take(order_bits)?;
    let known = &sequence.reference_sets;
    head.references = if bits.bit()? == 0 {
        reference_set(&mut bits, known, true)?
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
    use super::super::by_hand::{picture_set, sequence, set, slice};
    use super::*;
    use crate::index::roles::by_hand::ue;

    fn read(unit: &[u8], long: bool) -> Option<Head> {
        let known =
            [set(true, &[(1, true)], &[]), set(false, &[(2, true)], &[]), set(false, &[], &[(1, true)])];
        let mut sets = Sets::default();
        sets.note(&sequence(&[&known[0], &known[1], &known[2]], long));
        sets.note(&picture_set(2));
        head(unit, &sets)
    }

    fn plain(order: u32, references: ReferenceSet) -> Option<Head> {
        Some(Head { order_bits: 4, order, references, long_term: false, drops_prior: false })
    }

    #[test]
    fn references_come_from_the_sequence_or_from_the_slice() {
        assert_eq!(read(&slice(1, 0, 5, "1 01"), false), plain(5, vec![(-2, true)]));
        assert_eq!(read(&slice(1, 0, 5, "1 10"), false), plain(5, vec![(1, true)]));
        assert_eq!(read(&slice(1, 0, 5, "1 11"), false), None, "the fourth of three");
        let own = ["0", &set(false, &[(1, true), (4, false)], &[(3, true)])].concat();
        assert_eq!(read(&slice(0, 2, 7, &own), false), plain(7, vec![(-1, true), (-4, false), (3, true)]));
    }

    #[test]
    fn random_access_points_have_a_bit_more_and_idr_pictures_no_references() {
        assert_eq!(read(&slice(19, 0, 0, ""), false), plain(0, vec![]));
        assert_eq!(read(&slice(21, 0, 9, "1 00"), false), plain(9, vec![(-1, true)]));
        let mut drops = slice(19, 0, 0, "");
        drops[2] |= 0x40;
        assert!(read(&drops, false).expect("read").drops_prior);
    }

    #[test]
    fn long_term_references_are_seen() {
        let none = ["1 00", &ue(0)].concat();
        assert_eq!(read(&slice(1, 0, 5, &none), true), plain(5, vec![(-1, true)]));
        let one = ["1 00", &ue(1), "0000 1 0"].concat();
        assert!(read(&slice(1, 0, 5, &one), true).expect("read").long_term);
    }

    #[test]
    fn slices_of_unknown_sets_later_slices_and_cut_ones_are_not_read() {
        assert_eq!(head(&slice(1, 0, 5, "1 00"), &Sets::default()), None);
        let mut later = slice(1, 0, 5, "1 00");
        later[2] &= 0x7f;
        assert_eq!(read(&later, false), None);
        assert_eq!(read(&slice(1, 0, 5, "1 00")[..3], false), None);
    }
}
