//! Converts samples to byte tables and back, so that they can be sent to another process.
//! Tables that are inconsistent with each other are rejected.

use super::string_arena::StringArena;
use super::{LocationKind, SampleTable};
use crate::clip_sampler::video_timing::SegmentRange;
use crate::dataset::MediaLocation;

/// The tables of samples as bytes; numbers are little-endian.
#[derive(Clone, Debug, Default)]
pub struct SerializedTable {
    /// The kind of each sample: one byte.
    pub kinds: Vec<u8>,
    /// The index of each sample's prefix or other location: 32 bits.
    pub prefix_ids: Vec<u8>,
    /// The label of each sample: 64 bits.
    pub labels: Vec<u8>,
    /// The strings of the samples, and the end of each.
    pub suffixes: (Vec<u8>, Vec<u8>),
    /// The strings that samples share, and the end of each.
    pub prefixes: (Vec<u8>, Vec<u8>),
    /// Two numbers per sample, or empty.
    pub byte_ranges: Vec<u8>,
    /// Three numbers per sample, or empty.
    pub extents: Vec<u8>,
    /// Locations that are not stored as strings, unchanged.
    pub other_locations: Vec<MediaLocation>,
}

impl SampleTable {
    /// Converts the samples to bytes.
    pub fn serialize(&self) -> SerializedTable {
        SerializedTable {
            kinds: self.kinds.iter().map(|&kind| kind as u8).collect(),
            prefix_ids: self
                .prefix_ids
                .iter()
                .flat_map(|head| head.to_le_bytes())
                .collect(),
            labels: self
                .labels
                .iter()
                .flat_map(|label| label.to_le_bytes())
                .collect(),
            suffixes: self.suffixes.serialize(),
            prefixes: self.prefixes.serialize(),
            byte_ranges: bytes_of(
                self.byte_ranges
                    .iter()
                    .flat_map(|&(offset, len)| [offset, len]),
            ),
            extents: bytes_of(self.extents.iter().flat_map(|&extent| numbers_of(extent))),
            other_locations: self.other_locations.clone(),
        }
    }

    /// Builds samples from the result of [`SampleTable::serialize`]; `None` if the tables are
    /// inconsistent with each other.
    pub fn deserialize(serialized: SerializedTable) -> Option<Self> {
        let byte_ranges = words(&serialized.byte_ranges)?;
        let extents = words(&serialized.extents)?;
        let mut table = Self {
            kinds: serialized
                .kinds
                .into_iter()
                .map(kind_of)
                .collect::<Option<_>>()?,
            prefix_ids: numbers(&serialized.prefix_ids, u32::from_le_bytes)?,
            labels: numbers(&serialized.labels, i64::from_le_bytes)?,
            suffixes: StringArena::deserialize(serialized.suffixes)?,
            prefixes: StringArena::deserialize(serialized.prefixes)?,
            byte_ranges: byte_ranges
                .chunks(2)
                .map(|two| Some((two[0], *two.get(1)?)))
                .collect::<Option<_>>()?,
            extents: extents.chunks(3).map(extent_of).collect::<Option<_>>()?,
            other_locations: serialized.other_locations,
        };
        let n = table.kinds.len();
        let all = |len: usize| len == n;
        let fits = all(table.prefix_ids.len())
            && all(table.labels.len())
            && all(table.suffixes.len())
            && (table.byte_ranges.is_empty() || all(table.byte_ranges.len()))
            && (table.extents.is_empty() || all(table.extents.len()))
            && table
                .kinds
                .iter()
                .zip(&table.prefix_ids)
                .all(|(kind, &head)| match kind {
                    LocationKind::Other => (head as usize) < table.other_locations.len(),
                    LocationKind::Path => (head as usize) < table.prefixes.len(),
                    LocationKind::Named | LocationKind::Nameless => {
                        (head as usize) < table.prefixes.len() && !table.byte_ranges.is_empty()
                    }
                });
        if table
            .extents
            .iter()
            .all(|&extent| extent == SegmentRange::Full)
        {
            table.extents = Vec::new(); // as `SampleTableBuilder` leaves it
        }
        fits.then_some(table)
    }
}

impl StringArena {
    fn serialize(&self) -> (Vec<u8>, Vec<u8>) {
        (self.bytes.clone(), bytes_of(self.ends.iter().copied()))
    }

    fn deserialize((bytes, ends): (Vec<u8>, Vec<u8>)) -> Option<Self> {
        let ends = words(&ends)?;
        let fits = ends.is_sorted() && ends.last().copied().unwrap_or(0) == bytes.len() as u64;
        fits.then_some(Self { bytes, ends })
    }
}

fn kind_of(number: u8) -> Option<LocationKind> {
    [
        LocationKind::Path,
        LocationKind::Named,
        LocationKind::Nameless,
        LocationKind::Other,
    ]
    .into_iter()
    .find(|&kind| kind as u8 == number)
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

/// Encodes a segment as three numbers: its unit and whether it has an end, its start, its end.
fn numbers_of(extent: SegmentRange) -> [u64; 3] {
    match extent {
        SegmentRange::Full => [0, 0, 0],
        SegmentRange::Frames(start, None) => [1, start.into(), 0],
        SegmentRange::Frames(start, Some(end)) => [2, start.into(), end.into()],
        SegmentRange::Seconds(start, None) => [3, start.to_bits(), 0],
        SegmentRange::Seconds(start, Some(end)) => [4, start.to_bits(), end.to_bits()],
    }
}

fn extent_of(numbers: &[u64]) -> Option<SegmentRange> {
    let &[unit, start, end] = numbers else {
        return None;
    };
    let frame = |number: u64| u32::try_from(number).ok();
    let second = |bits: u64| Some(f64::from_bits(bits)).filter(|seconds| !seconds.is_nan());
    Some(match unit {
        0 => SegmentRange::Full,
        1 => SegmentRange::Frames(frame(start)?, None),
        2 => SegmentRange::Frames(frame(start)?, Some(frame(end)?)),
        3 => SegmentRange::Seconds(second(start)?, None),
        4 => SegmentRange::Seconds(second(start)?, Some(second(end)?)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Sample;
    use super::*;
    use crate::source::{ArchiveMember, MemorySource};

    fn some() -> SampleTable {
        let member = ArchiveMember {
            file: Path::new("/a.tar").into(),
            offset: 7,
            len: 8,
            name: Some("n".into()),
        };
        let extents = [
            SegmentRange::Full,
            SegmentRange::Frames(3, None),
            SegmentRange::Seconds(f64::NEG_INFINITY, Some(2.5)),
            SegmentRange::Frames(0, Some(9)),
            SegmentRange::Seconds(1.0, None),
        ];
        let locations = [
            MediaLocation::Path("/a/b.mp4".into()),
            MediaLocation::ArchiveMember(member),
            MediaLocation::Memory(MemorySource::new("m", vec![1])),
        ];
        let each = extents.iter().flat_map(|&extent| {
            locations
                .iter()
                .map(move |location| (extent, location.clone()))
        });
        each.enumerate()
            .map(|(n, (extent, location))| Sample {
                location,
                label: n as i64 - 3,
                extent,
            })
            .collect()
    }

    #[test]
    fn samples_survive_a_round_trip() {
        for entries in [
            some(),
            SampleTable::default(),
            some().iter().take(1).collect(),
        ] {
            let back = SampleTable::deserialize(entries.serialize()).expect("fits");
            assert_eq!(back, entries);
            assert!(
                back.iter()
                    .zip(entries.iter())
                    .all(|(a, b)| a.location.name() == b.location.name())
            );
        }
    }

    #[test]
    fn full_segments_are_stored_as_files() {
        let complete = |path: &str| Sample {
            location: MediaLocation::Path(path.into()),
            label: 0,
            extent: SegmentRange::Full,
        };
        let entries: SampleTable = ["/a.mp4", "/b.mp4"].map(complete).into_iter().collect();
        let mut serialized = entries.serialize();
        serialized.extents = vec![0; 2 * 3 * 8];
        let back = SampleTable::deserialize(serialized).expect("fits");
        assert!(back.are_whole_files() && back.are_whole_videos() && back == entries);
        let mut serialized = entries.serialize();
        serialized.extents = vec![0; 3 * 8];
        assert!(
            SampleTable::deserialize(serialized).is_none(),
            "one part for two files"
        );
    }

    #[test]
    fn mismatched_pieces_are_rejected() {
        let refused = |change: fn(&mut SerializedTable)| {
            let mut serialized = some().serialize();
            change(&mut serialized);
            SampleTable::deserialize(serialized).is_none()
        };
        assert!(!refused(|_| ()));
        assert!(refused(|serialized| serialized.kinds[0] = 9));
        assert!(refused(|serialized| serialized.kinds.truncate(3)));
        assert!(refused(|serialized| serialized.prefix_ids.truncate(6)));
        assert!(refused(|serialized| serialized.prefix_ids[0] = 200));
        assert!(refused(|serialized| serialized.labels.truncate(8)));
        assert!(refused(|serialized| serialized.suffixes.0.push(0)));
        assert!(refused(|serialized| serialized.suffixes.1[0] = 255));
        assert!(refused(|serialized| drop(serialized.suffixes.1.drain(..8))));
        assert!(refused(|serialized| serialized.byte_ranges.clear()));
        assert!(refused(|serialized| serialized.byte_ranges.truncate(8)));
        assert!(refused(|serialized| serialized.extents.truncate(24)));
        assert!(refused(|serialized| serialized.extents[0] = 5));
        assert!(refused(|serialized| serialized.other_locations.clear()));
    }
}
