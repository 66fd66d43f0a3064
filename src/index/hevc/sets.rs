//! Parses the fields of HEVC parameter sets that are needed to read slice headers up to their references
//! (ITU-T H.265 7.3.2.2, 7.3.2.3, 7.3.4, 7.3.7).

use std::collections::BTreeMap;

use crate::index::nal::Bits;
use crate::index::params::sequence_number;

/// A short-term reference picture set: distances in picture order count, first those before in order of
/// distance, then those after; and whether the picture itself may refer to each.
pub(in crate::index) type ReferenceSet = Vec<(i32, bool)>;

/// Maximum number of pictures in a set (7.4.8, A.4.2).
const MAX: u32 = 16;

/// All parameter sets seen so far.
#[derive(Debug, Default)]
pub(in crate::index) struct Sets {
    sequences: BTreeMap<u32, Sequence>,
    pictures: BTreeMap<u32, Picture>,
}

/// Fields of a sequence parameter set.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::index) struct Sequence {
    pub separate_planes: bool,
    /// It has a crop offset on the left or top.
    pub crops_its_begin: bool,
    /// Number of bits of the order count in a slice header.
    pub order_bits: u32,
    pub reference_sets: Vec<ReferenceSet>,
    pub long_term: bool,
    /// It lists long-term pictures that slices may select by index.
    pub long_term_listed: bool,
}

/// Fields of a picture parameter set.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::index) struct Picture {
    sequence: u32,
    pub output_flag: bool,
    pub extra_bits: u32,
}

impl Sets {
    /// Records a NAL unit. A set that cannot be parsed is unknown from then on.
    pub fn note(&mut self, unit: &[u8]) {
        let Some((head, body)) = unit.split_at_checked(2) else { return };
        match head[0] >> 1 & 63 {
            33 => {
                let mut bits = Bits::new(body);
                let Some(number) = sequence_number(&mut bits) else { return self.sequences.clear() };
                let layers = u32::from(body[0] >> 1 & 7);
                match sequence(&mut bits, layers) {
                    Some(sequence) => drop(self.sequences.insert(number, sequence)),
                    None => drop(self.sequences.remove(&number)),
                }
            }
            34 => {
                let mut bits = Bits::new(body);
                let Some(number) = bits.ue() else { return self.pictures.clear() };
                match picture(&mut bits) {
                    Some(picture) => drop(self.pictures.insert(number, picture)),
                    None => drop(self.pictures.remove(&number)),
                }
            }
            _ => {}
        }
    }

    /// Whether a known SPS has a crop offset on the left or top.
    pub fn crops_its_begin(&self) -> bool {
        self.sequences.values().any(|s| s.crops_its_begin)
    }

    /// Returns the sets that a slice with this `slice_pic_parameter_set_id` refers to.
    pub fn of(&self, number: u32) -> Option<(&Sequence, &Picture)> {
        let picture = self.pictures.get(&number)?;
        Some((self.sequences.get(&picture.sequence)?, picture))
    }
}

fn picture(bits: &mut Bits) -> Option<Picture> {
    let sequence = bits.ue()?;
    bits.bit()?; // dependent_slice_segments_enabled_flag
    Some(Picture { sequence, output_flag: bits.bit()? == 1, extra_bits: bits.take(3)? })
}

/// Parses an SPS after `sps_seq_parameter_set_id`, for a sequence with `layers + 1` temporal layers.
fn sequence(bits: &mut Bits, layers: u32) -> Option<Sequence> {
    let separate_planes = bits.ue()? == 3 && bits.bit()? == 1;
    numbers(bits, 2)?; // size
    let mut crops_its_begin = false;
    if bits.bit()? == 1 {
        // The conformance window.
        let [left, _right, top, _bottom] = [bits.ue()?, bits.ue()?, bits.ue()?, bits.ue()?];
        crops_its_begin = (left, top) != (0, 0);
    }
    numbers(bits, 2)?; // depths
    let order_bits = bits.ue()? + 4;
    if order_bits > 16 {
        return None;
    }
    let described = if bits.bit()? == 1 { layers + 1 } else { 1 };
    numbers(bits, 3 * described)?; // buffers
    numbers(bits, 6)?; // block sizes and depths
    if bits.bit()? == 1 && bits.bit()? == 1 {
        scaling_lists(bits)?;
    }
    bits.skip(2)?;
    if bits.bit()? == 1 {
        bits.skip(4 + 4)?; // PCM
        numbers(bits, 2)?;
        bits.bit()?;
    }
    let mut reference_sets = Vec::new();
    let count = bits.ue()?;
    if count > 64 {
        return None;
    }
    for _ in 0..count {
        reference_sets.push(reference_set(bits, &reference_sets, false)?);
    }
    let long_term = bits.bit()? == 1;
    let long_term_listed = long_term && bits.ue()? > 0;
    Some(Sequence {
        separate_planes,
        crops_its_begin,
        order_bits,
        reference_sets,
        long_term,
        long_term_listed,
    })
}

/// Skips `n` Exp-Golomb numbers.
fn numbers(bits: &mut Bits, n: u32) -> Option<()> {
    (0..n).try_for_each(|_| bits.ue().map(drop))
}

fn scaling_lists(bits: &mut Bits) -> Option<()> {
    for size in 0..4u32 {
        for _ in 0..if size == 3 { 2 } else { 6 } {
            if bits.bit()? == 0 {
                bits.ue()?; // copied from another list
            } else {
                let level = u32::from(size > 1);
                numbers(bits, level + (1 << (4 + 2 * size)).min(64))?;
            }
        }
    }
    Some(())
}

/// Parses `st_ref_pic_set`: the one after those `known`, or a slice's own.
pub(in crate::index) fn reference_set(
    bits: &mut Bits,
    known: &[ReferenceSet],
    in_slice: bool,
) -> Option<ReferenceSet> {
    if !known.is_empty() && bits.bit()? == 1 {
        return predicted_set(bits, known, in_slice);
    }
    let (before, after) = (bits.ue()?, bits.ue()?);
    if before > MAX || after > MAX {
        return None;
    }
    let mut out = Vec::new();
    for (count, sign) in [(before, -1), (after, 1)] {
        let mut distance = 0i32;
        for _ in 0..count {
            distance = distance.checked_add(i32::try_from(bits.ue()?).ok()?)?.checked_add(1)?;
            out.push((sign * distance, bits.bit()? == 1));
        }
    }
    (out.len() <= MAX as usize).then_some(out)
}

/// Parses a set that is predicted from another one (7-61, 7-62).
fn predicted_set(bits: &mut Bits, known: &[ReferenceSet], in_slice: bool) -> Option<ReferenceSet> {
    let back = if in_slice { bits.ue()?.checked_add(1)? as usize } else { 1 };
    let from = &known[known.len().checked_sub(back)?];
    let negative = bits.bit()? == 1;
    let distance = i32::try_from(bits.ue()?).ok()?.checked_add(1)?;
    let moved = if negative { -distance } else { distance };
    let mut out = Vec::new();
    for distance in from.iter().map(|entry| entry.0).chain([0]) {
        let used = bits.bit()? == 1;
        let kept = used || bits.bit()? == 1;
        let distance = distance.checked_add(moved)?;
        if kept && distance != 0 {
            out.push((distance, used));
        }
    }
    out.sort_by_key(|&(distance, _)| (distance > 0, distance.unsigned_abs()));
    (out.len() <= MAX as usize).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::super::by_hand::{picture_set, sequence as by_hand, set};
    use super::*;
    use crate::index::roles::by_hand::{bits, ue};

    fn read(reference_sets: &[&str]) -> Option<Vec<ReferenceSet>> {
        let mut sets = Sets::default();
        sets.note(&by_hand(reference_sets, true));
        sets.note(&picture_set(2));
        let (sequence, picture) = sets.of(0)?;
        assert_eq!((sequence.order_bits, sequence.long_term, sequence.separate_planes), (4, true, false));
        assert_eq!((picture.extra_bits, picture.output_flag), (2, true));
        Some(sequence.reference_sets.clone())
    }

    #[test]
    fn sets_behind_scaling_lists_are_found() {
        let first = set(true, &[(1, true), (3, false)], &[(2, true)]);
        let second = set(false, &[(8, true)], &[]);
        let expected = [vec![(-1, true), (-3, false), (2, true)], vec![(-8, true)]];
        assert_eq!(read(&[&first, &second]).expect("read"), expected);
        assert!(read(&[]).expect("read").is_empty());
    }

    #[test]
    fn a_set_may_be_another_one_moved() {
        let first = set(true, &[(1, true), (3, true)], &[(2, true)]);
        // Shifted by -1: -2, -4, 1 and -1 itself; of these -4 is kept for other pictures only, 1 is dropped.
        let moved = ["1 1", &ue(0), "1", "0 1", "0 0", "1"].concat();
        let expected = vec![(-1, true), (-2, true), (-4, false)];
        assert_eq!(read(&[&first, &moved]).expect("read")[1], expected);
        // Shifted by 1, an entry at the picture itself is dropped. In a slice, predicted from the set before
        // the last.
        let known = [vec![(-1, true), (-3, true)], vec![]];
        let data = bits(&["1", &ue(1), "0", &ue(0), "1 1 1"].concat());
        assert_eq!(reference_set(&mut Bits::new(&data), &known, true), Some(vec![(-2, true), (1, true)]));
    }

    #[test]
    fn what_is_out_of_bounds_is_not_read() {
        assert_eq!(read(&[&set(true, &(1..=17).map(|n| (n, true)).collect::<Vec<_>>(), &[])]), None);
        let beyond = bits(&["1", &ue(5), "0", &ue(0), "1"].concat());
        assert_eq!(reference_set(&mut Bits::new(&beyond), &[vec![]], true), None);
        assert_eq!(reference_set(&mut Bits::new(&[0, 0]), &[], false), None);
    }
}
