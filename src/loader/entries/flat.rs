//! Converts entries to byte tables and back, so that they can be sent to another process.
//! Tables that are inconsistent with each other are rejected.

use super::texts::Texts;
use super::{Entries, Kind};
use crate::clip_sampler::video_timing::Extent;
use crate::source::Place;

/// The tables of entries as bytes; numbers are little-endian.
#[derive(Clone, Debug, Default)]
pub struct Flat {
    /// The kind of each entry: one byte.
    pub kinds: Vec<u8>,
    /// The index of each entry's shared string or place: 32 bits.
    pub heads: Vec<u8>,
    /// The label of each entry: 64 bits.
    pub labels: Vec<u8>,
    /// The strings of the entries, and the end of each.
    pub tails: (Vec<u8>, Vec<u8>),
    /// The strings that entries share, and the end of each.
    pub shared: (Vec<u8>, Vec<u8>),
    /// Two numbers per entry, or empty.
    pub spans: Vec<u8>,
    /// Three numbers per entry, or empty.
    pub extents: Vec<u8>,
    /// Places that are not stored as strings, unchanged.
    pub others: Vec<Place>,
}

impl Entries {
    /// Converts the entries to bytes.
    pub fn to_flat(&self) -> Flat {
        Flat {
            kinds: self.kinds.iter().map(|&kind| kind as u8).collect(),
            heads: self.heads.iter().flat_map(|head| head.to_le_bytes()).collect(),
            labels: self.labels.iter().flat_map(|label| label.to_le_bytes()).collect(),
            tails: self.tails.to_flat(),
            shared: self.shared.to_flat(),
            spans: bytes_of(self.spans.iter().flat_map(|&(offset, len)| [offset, len])),
            extents: bytes_of(self.extents.iter().flat_map(|&extent| numbers_of(extent))),
            others: self.others.clone(),
        }
    }

    /// Builds entries from the result of [`Entries::to_flat`]; `None` if the tables are inconsistent with
    /// each other.
    pub fn from_flat(flat: Flat) -> Option<Self> {
        let spans = words(&flat.spans)?;
        let extents = words(&flat.extents)?;
        let mut made = Self {
            kinds: flat.kinds.into_iter().map(kind_of).collect::<Option<_>>()?,
            heads: numbers(&flat.heads, u32::from_le_bytes)?,
            labels: numbers(&flat.labels, i64::from_le_bytes)?,
            tails: Texts::from_flat(flat.tails)?,
            shared: Texts::from_flat(flat.shared)?,
            spans: spans.chunks(2).map(|two| Some((two[0], *two.get(1)?))).collect::<Option<_>>()?,
            extents: extents.chunks(3).map(extent_of).collect::<Option<_>>()?,
            others: flat.others,
        };
        let n = made.kinds.len();
        let all = |len: usize| len == n;
        let fits = all(made.heads.len())
            && all(made.labels.len())
            && all(made.tails.len())
            && (made.spans.is_empty() || all(made.spans.len()))
            && (made.extents.is_empty() || all(made.extents.len()))
            && made.kinds.iter().zip(&made.heads).all(|(kind, &head)| match kind {
                Kind::Other => (head as usize) < made.others.len(),
                Kind::Path => (head as usize) < made.shared.len(),
                Kind::Named | Kind::Nameless => (head as usize) < made.shared.len() && !made.spans.is_empty(),
            });
        if made.extents.iter().all(|&extent| extent == Extent::Whole) {
            made.extents = Vec::new(); // as `EntriesBuilder` leaves it
        }
        fits.then_some(made)
    }
}

impl Texts {
    fn to_flat(&self) -> (Vec<u8>, Vec<u8>) {
        (self.bytes.clone(), bytes_of(self.ends.iter().copied()))
    }

    fn from_flat((bytes, ends): (Vec<u8>, Vec<u8>)) -> Option<Self> {
        let ends = words(&ends)?;
        let fits = ends.is_sorted() && ends.last().copied().unwrap_or(0) == bytes.len() as u64;
        fits.then_some(Self { bytes, ends })
    }
}

fn kind_of(number: u8) -> Option<Kind> {
    [Kind::Path, Kind::Named, Kind::Nameless, Kind::Other].into_iter().find(|&kind| kind as u8 == number)
}

fn bytes_of(words: impl Iterator<Item = u64>) -> Vec<u8> {
    words.flat_map(u64::to_le_bytes).collect()
}

fn words(bytes: &[u8]) -> Option<Vec<u64>> {
    numbers(bytes, u64::from_le_bytes)
}

fn numbers<const N: usize, T>(bytes: &[u8], of: fn([u8; N]) -> T) -> Option<Vec<T>> {
    let complete = bytes.chunks(N).map(|chunk| chunk.try_into().ok().map(of));
    complete.collect()
}

/// Encodes a part as three numbers: its unit and whether it has an end, its start, its end.
fn numbers_of(extent: Extent) -> [u64; 3] {
    match extent {
        Extent::Whole => [0, 0, 0],
        Extent::Frames(start, None) => [1, start.into(), 0],
        Extent::Frames(start, Some(end)) => [2, start.into(), end.into()],
        Extent::Seconds(start, None) => [3, start.to_bits(), 0],
        Extent::Seconds(start, Some(end)) => [4, start.to_bits(), end.to_bits()],
    }
}

fn extent_of(numbers: &[u64]) -> Option<Extent> {
    let &[unit, start, end] = numbers else { return None };
    let frame = |number: u64| u32::try_from(number).ok();
    let second = |bits: u64| Some(f64::from_bits(bits)).filter(|seconds| !seconds.is_nan());
    Some(match unit {
        0 => Extent::Whole,
        1 => Extent::Frames(frame(start)?, None),
        2 => Extent::Frames(frame(start)?, Some(frame(end)?)),
        3 => Extent::Seconds(second(start)?, None),
        4 => Extent::Seconds(second(start)?, Some(second(end)?)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Item;
    use super::*;
    use crate::source::{Member, MemorySource};

    fn some() -> Entries {
        let member = Member { file: Path::new("/a.tar").into(), offset: 7, len: 8, name: Some("n".into()) };
        let extents = [
            Extent::Whole,
            Extent::Frames(3, None),
            Extent::Seconds(f64::NEG_INFINITY, Some(2.5)),
            Extent::Frames(0, Some(9)),
            Extent::Seconds(1.0, None),
        ];
        let places = [
            Place::Path("/a/b.mp4".into()),
            Place::Member(member),
            Place::Memory(MemorySource::new("m", vec![1])),
        ];
        let each = extents.iter().flat_map(|&extent| places.iter().map(move |place| (extent, place.clone())));
        each.enumerate().map(|(n, (extent, place))| Item { place, label: n as i64 - 3, extent }).collect()
    }

    #[test]
    fn entries_survive_the_way_there_and_back() {
        for entries in [some(), Entries::default(), some().iter().take(1).collect()] {
            let back = Entries::from_flat(entries.to_flat()).expect("fits");
            assert_eq!(back, entries);
            assert!(back.iter().zip(entries.iter()).all(|(a, b)| a.place.name() == b.place.name()));
        }
    }

    #[test]
    fn parts_that_are_all_of_their_files_are_none() {
        let complete = |path: &str| Item { place: Place::Path(path.into()), label: 0, extent: Extent::Whole };
        let entries: Entries = ["/a.mp4", "/b.mp4"].map(complete).into_iter().collect();
        let mut flat = entries.to_flat();
        flat.extents = vec![0; 2 * 3 * 8];
        let back = Entries::from_flat(flat).expect("fits");
        assert!(back.are_files() && back.are_whole() && back == entries);
        let mut flat = entries.to_flat();
        flat.extents = vec![0; 3 * 8];
        assert!(Entries::from_flat(flat).is_none(), "one part for two files");
    }

    #[test]
    fn pieces_that_do_not_fit_are_refused() {
        let refused = |change: fn(&mut Flat)| {
            let mut flat = some().to_flat();
            change(&mut flat);
            Entries::from_flat(flat).is_none()
        };
        assert!(!refused(|_| ()));
        assert!(refused(|flat| flat.kinds[0] = 9));
        assert!(refused(|flat| flat.kinds.truncate(3)));
        assert!(refused(|flat| flat.heads.truncate(6)));
        assert!(refused(|flat| flat.heads[0] = 200));
        assert!(refused(|flat| flat.labels.truncate(8)));
        assert!(refused(|flat| flat.tails.0.push(0)));
        assert!(refused(|flat| flat.tails.1[0] = 255));
        assert!(refused(|flat| drop(flat.tails.1.drain(..8))));
        assert!(refused(|flat| flat.spans.clear()));
        assert!(refused(|flat| flat.spans.truncate(8)));
        assert!(refused(|flat| flat.extents.truncate(24)));
        assert!(refused(|flat| flat.extents[0] = 5));
        assert!(refused(|flat| flat.others.clear()));
    }
}
