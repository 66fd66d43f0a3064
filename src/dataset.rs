//! Stores the videos of a dataset in a few immutable tables, without opening them. Strings that
//! neighboring samples share are stored once, so that ten million samples take less than 100 bytes
//! each.

mod location;
mod serialized;
mod string_arena;

use std::collections::HashMap;
use std::mem::size_of;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::clip_sampler::video_timing::SegmentRange;
use crate::source::{ArchiveMember, ByteSource, ImageSequence};
pub use location::{MediaLocation, SourceOpener};
pub use serialized::SerializedTable;
use string_arena::StringArena;

/// One video of a dataset.
#[derive(Clone, Debug)]
pub struct Sample {
    pub location: MediaLocation,
    /// The label of a video.
    pub label: i64,
    /// The segment of the video that the sample consists of.
    pub extent: SegmentRange,
}

/// The meaning of a sample's prefix and suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum LocationKind {
    /// Prefix: a folder with its trailing slash. Suffix: a file name in it.
    Path,
    /// Prefix: an archive. Suffix: a member's name.
    Named,
    /// Prefix: an archive. The suffix is empty.
    Nameless,
    /// The prefix id is an index into `other_locations`.
    Other,
}

/// Videos with their labels, in order.
#[derive(Clone, Debug, Default)]
pub struct SampleTable {
    kinds: Vec<LocationKind>,
    prefix_ids: Vec<u32>,
    labels: Vec<i64>,
    suffixes: StringArena,
    /// Folders and archives.
    prefixes: StringArena,
    /// Offset and length of archive members; empty if no sample is a member, otherwise one per
    /// sample.
    byte_ranges: Vec<(u64, u64)>,
    /// One per sample; empty if all samples are whole videos.
    extents: Vec<SegmentRange>,
    /// Locations that are neither files nor archive members.
    other_locations: Vec<MediaLocation>,
}

/// Builds [`SampleTable`].
#[derive(Default)]
pub struct SampleTableBuilder {
    table: SampleTable,
    /// The index of each shared string.
    known: HashMap<Box<[u8]>, u32>,
    last: u32,
}

impl SampleTableBuilder {
    /// Adds a video.
    pub fn push(&mut self, sample: Sample) {
        let (kind, head, byte_range) = match sample.location {
            MediaLocation::Path(path) => {
                let path = path.into_os_string().into_vec();
                let name = path
                    .iter()
                    .rposition(|&byte| byte == b'/')
                    .map_or(0, |slash| slash + 1);
                self.table.suffixes.push(&path[name..]);
                (LocationKind::Path, self.prefix_id(&path[..name]), None)
            }
            MediaLocation::ArchiveMember(ArchiveMember {
                file,
                offset,
                len,
                name,
            }) => {
                self.table
                    .suffixes
                    .push(name.as_deref().unwrap_or_default().as_bytes());
                let kind = if name.is_some() {
                    LocationKind::Named
                } else {
                    LocationKind::Nameless
                };
                (
                    kind,
                    self.prefix_id(file.as_os_str().as_bytes()),
                    Some((offset, len)),
                )
            }
            other => {
                self.table.suffixes.push(&[]);
                self.table.other_locations.push(other);
                (
                    LocationKind::Other,
                    self.table.other_locations.len() as u32 - 1,
                    None,
                )
            }
        };
        let table = &mut self.table;
        if byte_range.is_some() && table.byte_ranges.is_empty() {
            table.byte_ranges.resize(table.kinds.len(), (0, 0));
        }
        if byte_range.is_some() || !table.byte_ranges.is_empty() {
            table.byte_ranges.push(byte_range.unwrap_or_default());
        }
        if sample.extent != SegmentRange::Full && table.extents.is_empty() {
            table.extents.resize(table.kinds.len(), SegmentRange::Full);
        }
        if sample.extent != SegmentRange::Full || !table.extents.is_empty() {
            table.extents.push(sample.extent);
        }
        table.kinds.push(kind);
        table.prefix_ids.push(head);
        table.labels.push(sample.label);
    }

    /// Returns the index of a string that other samples may share; it is mostly the previous
    /// sample's string.
    fn prefix_id(&mut self, text: &[u8]) -> u32 {
        let prefixes = &mut self.table.prefixes;
        if !prefixes.is_empty() && prefixes.get(self.last as usize) == text {
            return self.last;
        }
        self.last = match self.known.get(text) {
            Some(&number) => number,
            None => {
                prefixes.push(text);
                let number = prefixes.len() as u32 - 1;
                self.known.insert(text.into(), number);
                number
            }
        };
        self.last
    }

    /// Returns the samples, without spare capacity.
    pub fn finish(self) -> SampleTable {
        let mut table = self.table;
        table.kinds.shrink_to_fit();
        table.prefix_ids.shrink_to_fit();
        table.labels.shrink_to_fit();
        table.suffixes.shrink_to_fit();
        table.prefixes.shrink_to_fit();
        table.byte_ranges.shrink_to_fit();
        table.extents.shrink_to_fit();
        table
    }
}

impl FromIterator<Sample> for SampleTable {
    fn from_iter<I: IntoIterator<Item = Sample>>(samples: I) -> Self {
        let mut builder = SampleTableBuilder::default();
        samples.into_iter().for_each(|sample| builder.push(sample));
        builder.finish()
    }
}

impl From<Vec<Sample>> for SampleTable {
    fn from(samples: Vec<Sample>) -> Self {
        samples.into_iter().collect()
    }
}

impl SampleTable {
    /// Number of samples.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// The location of a video.
    ///
    /// # Panics
    /// If `number` is not less than [`Self::len`]. The methods below may panic likewise.
    pub fn location(&self, number: usize) -> MediaLocation {
        let (head, tail) = (self.prefix_ids[number] as usize, self.suffixes.get(number));
        let member = |name| {
            let (offset, len) = self.byte_ranges[number];
            let file: Arc<Path> =
                Path::new(std::ffi::OsStr::from_bytes(self.prefixes.get(head))).into();
            MediaLocation::ArchiveMember(ArchiveMember {
                file,
                offset,
                len,
                name,
            })
        };
        match self.kinds[number] {
            LocationKind::Path => {
                let path = [self.prefixes.get(head), tail].concat();
                MediaLocation::Path(PathBuf::from(std::ffi::OsString::from_vec(path)))
            }
            LocationKind::Named => member(Some(String::from_utf8_lossy(tail).into())),
            LocationKind::Nameless => member(None),
            LocationKind::Other => self.other_locations[head].clone(),
        }
    }

    pub fn label(&self, number: usize) -> i64 {
        self.labels[number]
    }

    /// All labels.
    pub fn labels(&self) -> &[i64] {
        &self.labels
    }

    /// The same samples with their labels replaced: label `l` becomes `numbers[l]`; a label that is
    /// no index of `numbers` is kept.
    #[must_use]
    pub fn relabeled(&self, numbers: &[i64]) -> Self {
        let mut table = self.clone();
        for label in &mut table.labels {
            let number = usize::try_from(*label)
                .ok()
                .and_then(|label| numbers.get(label));
            *label = number.copied().unwrap_or(*label);
        }
        table
    }

    /// The segment of the video that the sample consists of.
    pub fn extent(&self, number: usize) -> SegmentRange {
        self.extents.get(number).copied().unwrap_or_default()
    }

    /// One sample with all its fields.
    pub fn sample(&self, number: usize) -> Sample {
        Sample {
            location: self.location(number),
            label: self.label(number),
            extent: self.extent(number),
        }
    }

    /// All samples in order.
    pub fn iter(&self) -> impl Iterator<Item = Sample> + '_ {
        (0..self.len()).map(|number| self.sample(number))
    }

    /// Whether every sample is a whole file.
    pub fn are_whole_files(&self) -> bool {
        self.extents.is_empty() && self.kinds.iter().all(|&kind| kind == LocationKind::Path)
    }

    /// Whether every sample is a whole file, archive member or byte buffer: neither a segment nor a
    /// folder of frames.
    pub fn are_whole_videos(&self) -> bool {
        self.extents.is_empty()
            && !self
                .other_locations
                .iter()
                .any(|location| matches!(location, MediaLocation::ImageSequence(_)))
    }

    /// The path of a sample that is a file, as two parts to concatenate; otherwise `None`.
    pub fn path_of(&self, number: usize) -> Option<(&[u8], &[u8])> {
        let parts = || {
            (
                self.prefixes.get(self.prefix_ids[number] as usize),
                self.suffixes.get(number),
            )
        };
        (self.kinds[number] == LocationKind::Path).then(parts)
    }

    /// For each sample, the first sample of the same file. `None` if all samples are whole videos;
    /// these are not compared.
    pub fn first_sample_of_file(&self) -> Option<Vec<u32>> {
        if self.extents.is_empty() {
            return None;
        }
        let mut first = HashMap::new();
        let files = (0..self.len()).map(|number| match self.file_key(number) {
            Some(key) => *first.entry(key).or_insert(number as u32),
            None => number as u32,
        });
        Some(files.collect())
    }

    /// The key that identifies a sample's file; `None` for bytes in memory.
    fn file_key(&self, number: usize) -> Option<FileKey<'_>> {
        let head = self.prefix_ids[number];
        Some(match self.kinds[number] {
            LocationKind::Path => FileKey::Path(head, self.suffixes.get(number)),
            // Member names do not identify a member: they serve only messages.
            LocationKind::Named | LocationKind::Nameless => {
                FileKey::Member(head, self.byte_ranges[number])
            }
            LocationKind::Other => match &self.other_locations[head as usize] {
                MediaLocation::ImageSequence(frames) => FileKey::Frames(frames),
                MediaLocation::External(opener) => FileKey::Opened(opener.name()),
                MediaLocation::Memory(_)
                | MediaLocation::Path(_)
                | MediaLocation::ArchiveMember(_) => return None,
            },
        })
    }

    /// Bytes that the tables take, without the data that `others` refer to.
    pub fn memory_bytes(&self) -> usize {
        self.kinds.capacity() * size_of::<LocationKind>()
            + self.prefix_ids.capacity() * size_of::<u32>()
            + self.labels.capacity() * size_of::<i64>()
            + self.byte_ranges.capacity() * size_of::<(u64, u64)>()
            + self.extents.capacity() * size_of::<SegmentRange>()
            + self.other_locations.capacity() * size_of::<MediaLocation>()
            + self.suffixes.memory_bytes()
            + self.prefixes.memory_bytes()
    }
}

/// Identifies a file within the dataset.
#[derive(PartialEq, Eq, Hash)]
enum FileKey<'a> {
    /// Folder and name.
    Path(u32, &'a [u8]),
    /// Archive, offset and length.
    Member(u32, (u64, u64)),
    Frames(&'a ImageSequence),
    Opened(Arc<str>),
}

impl PartialEq for SampleTable {
    /// Compares videos, segments and labels in order. Bytes in memory are compared by content;
    /// names of archive members are ignored.
    fn eq(&self, other: &Self) -> bool {
        let extents = |number| self.extent(number) == other.extent(number);
        let locations = |number| same_location(&self.location(number), &other.location(number));
        self.labels == other.labels
            && (0..self.len()).all(|number| extents(number) && locations(number))
    }
}

fn same_location(one: &MediaLocation, other: &MediaLocation) -> bool {
    match (one, other) {
        (MediaLocation::Path(one), MediaLocation::Path(other)) => one == other,
        (MediaLocation::ArchiveMember(one), MediaLocation::ArchiveMember(other)) => {
            (&one.file, one.offset, one.len) == (&other.file, other.offset, other.len)
        }
        (MediaLocation::ImageSequence(one), MediaLocation::ImageSequence(other)) => one == other,
        (MediaLocation::External(one), MediaLocation::External(other)) => {
            one.name() == other.name()
        }
        (MediaLocation::Memory(one), MediaLocation::Memory(other)) => {
            one.identity() == other.identity() || one.as_bytes() == other.as_bytes()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::MemorySource;

    fn path(path: &str, label: i64) -> Sample {
        Sample {
            location: MediaLocation::Path(path.into()),
            label,
            extent: SegmentRange::Full,
        }
    }

    fn member(file: &str, offset: u64, name: Option<&str>) -> Sample {
        let location = ArchiveMember {
            file: Path::new(file).into(),
            offset,
            len: 9,
            name: name.map(Into::into),
        };
        Sample {
            location: MediaLocation::ArchiveMember(location),
            label: 0,
            extent: SegmentRange::Full,
        }
    }

    #[test]
    fn samples_are_returned_unchanged() {
        let frames = ImageSequence {
            folder: "/f".into(),
            pattern: None,
            first: 0,
            count: None,
            fps: (30, 1),
        };
        let odd = PathBuf::from(std::ffi::OsString::from_vec(b"/v/\xff\xfe.mp4".to_vec()));
        let samples = vec![
            path("/videos/a/1.mp4", 3),
            path("relative.mp4", -1),
            path("/videos/a/2.mp4", i64::MIN),
            Sample {
                location: MediaLocation::Path(odd),
                label: 1,
                extent: SegmentRange::Seconds(1.5, None),
            },
            path("/", 0),
            path("", 0),
            path("/videos/a//2.mp4", 0),
            member("/s/0.tar", 512, Some("a/b.mp4")),
            member("/s/0.tar", u64::MAX, None),
            member("/s/0.tar", 0, Some("")),
            Sample {
                location: MediaLocation::ImageSequence(Arc::new(frames)),
                label: 0,
                extent: SegmentRange::Frames(3, Some(5)),
            },
            Sample {
                location: MediaLocation::Memory(MemorySource::new("m", vec![1, 2])),
                label: 0,
                extent: SegmentRange::Full,
            },
            path("/videos/a/1.mp4", 3),
        ];
        let entries = SampleTable::from(samples.clone());
        assert_eq!(entries.len(), samples.len());
        for (number, sample) in samples.iter().enumerate() {
            let back = entries.sample(number);
            assert_eq!(
                (back.label, back.extent),
                (sample.label, sample.extent),
                "{number}"
            );
            assert!(
                same_location(&back.location, &sample.location),
                "{number}: {:?}, {:?}",
                back.location,
                sample.location
            );
            assert_eq!(back.location.name(), sample.location.name(), "{number}");
        }
        assert_eq!(entries, entries.iter().collect());
        assert_ne!(entries, entries.iter().skip(1).collect());
        assert_ne!(
            entries,
            entries
                .iter()
                .map(|sample| Sample {
                    extent: SegmentRange::Full,
                    ..sample
                })
                .collect()
        );
        // Only labels with a number change.
        let labels: Vec<i64> = samples
            .iter()
            .map(|sample| if sample.label == 0 { 7 } else { sample.label })
            .collect();
        assert_eq!(entries.relabeled(&[7]).labels(), labels);
        // Parts of one file are recognized; bytes in memory never are.
        let files = entries.first_sample_of_file().expect("there are parts");
        assert_eq!(files, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0]);
        assert_eq!(
            SampleTable::from(vec![path("a", 0)]).first_sample_of_file(),
            None
        );
    }

    #[test]
    fn a_video_takes_less_than_a_hundred_bytes() {
        // The layout of Kinetics: one folder per class; file names of a video id and a range of
        // seconds.
        let named = |n: u32| {
            format!(
                "/data/kinetics700/train/class number {:03}/vid{n:08}_000010_000020.mp4",
                n / 500
            )
        };
        let n = 200_000;
        let files: SampleTable = (0..n)
            .map(|i| path(&named(i), i64::from(i / 500)))
            .collect();
        let parts = (0..n).map(|i| Sample {
            extent: SegmentRange::Seconds(f64::from(i), Some(0.5)),
            ..path(&named(i), 0)
        });
        let parts: SampleTable = parts.collect();
        let members: SampleTable = (0..n)
            .map(|i| {
                member(
                    &format!("/data/train-{:06}.tar", i / 1000),
                    0,
                    Some(&format!("{i:09}.mp4")),
                )
            })
            .collect();
        // Each video in a folder of its own.
        let alone: SampleTable = (0..n)
            .map(|i| path(&format!("/data/set/videos/{i:08}/video.mp4"), 0))
            .collect();
        for (what, entries) in [
            ("files", files),
            ("parts", parts),
            ("members", members),
            ("alone", alone),
        ] {
            let each = entries.memory_bytes() as f64 / f64::from(n);
            println!("{what}: {each:.1} bytes each");
            assert!(each < 100.0, "{what}: {each}");
        }
    }
}
