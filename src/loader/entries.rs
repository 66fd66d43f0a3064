//! Stores the videos of a dataset in a few immutable tables, without opening them.
//! Strings that neighboring entries share are stored once, so that ten million entries take less than 100
//! bytes each.

mod flat;
mod texts;

use std::collections::HashMap;
use std::mem::size_of;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::clip_sampler::video_timing::Extent;
use crate::source::{ByteSource, FrameFolder, Member, Place};
pub use flat::Flat;
use texts::Texts;

/// One video of a dataset.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its location.
    pub place: Place,
    /// The label of a video.
    pub label: i64,
    /// The part of the video that the entry consists of.
    pub extent: Extent,
}

/// The meaning of an entry's head and tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    /// Head: a folder with its trailing slash. Tail: a file name in it.
    Path,
    /// Head: an archive. Tail: a member's name.
    Named,
    /// Head: an archive. The tail is empty.
    Nameless,
    /// The head is an index into `others`.
    Other,
}

/// Videos with their labels, in order.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    kinds: Vec<Kind>,
    heads: Vec<u32>,
    labels: Vec<i64>,
    tails: Texts,
    /// The heads: folders and archives.
    shared: Texts,
    /// Offset and length of archive members; empty if no entry is a member, otherwise one per entry.
    spans: Vec<(u64, u64)>,
    /// One per entry; empty if all entries are whole videos.
    extents: Vec<Extent>,
    /// Places that are neither files nor archive members.
    others: Vec<Place>,
}

/// Builds [`Entries`].
#[derive(Default)]
pub struct EntriesBuilder {
    made: Entries,
    /// The index of each shared string.
    known: HashMap<Box<[u8]>, u32>,
    last: u32,
}

impl EntriesBuilder {
    /// Adds a video.
    pub fn push(&mut self, item: Item) {
        let (kind, head, span) = match item.place {
            Place::Path(path) => {
                let path = path.into_os_string().into_vec();
                let name = path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
                self.made.tails.push(&path[name..]);
                (Kind::Path, self.share(&path[..name]), None)
            }
            Place::Member(Member { file, offset, len, name }) => {
                self.made.tails.push(name.as_deref().unwrap_or_default().as_bytes());
                let kind = if name.is_some() { Kind::Named } else { Kind::Nameless };
                (kind, self.share(file.as_os_str().as_bytes()), Some((offset, len)))
            }
            other => {
                self.made.tails.push(&[]);
                self.made.others.push(other);
                (Kind::Other, self.made.others.len() as u32 - 1, None)
            }
        };
        let made = &mut self.made;
        if span.is_some() && made.spans.is_empty() {
            made.spans.resize(made.kinds.len(), (0, 0));
        }
        if span.is_some() || !made.spans.is_empty() {
            made.spans.push(span.unwrap_or_default());
        }
        if item.extent != Extent::Whole && made.extents.is_empty() {
            made.extents.resize(made.kinds.len(), Extent::Whole);
        }
        if item.extent != Extent::Whole || !made.extents.is_empty() {
            made.extents.push(item.extent);
        }
        made.kinds.push(kind);
        made.heads.push(head);
        made.labels.push(item.label);
    }

    /// Returns the index of a string that other entries may share; it is mostly the previous entry's string.
    fn share(&mut self, text: &[u8]) -> u32 {
        let shared = &mut self.made.shared;
        if !shared.is_empty() && shared.get(self.last as usize) == text {
            return self.last;
        }
        self.last = match self.known.get(text) {
            Some(&number) => number,
            None => {
                shared.push(text);
                let number = shared.len() as u32 - 1;
                self.known.insert(text.into(), number);
                number
            }
        };
        self.last
    }

    /// Returns the entries, without spare capacity.
    pub fn finish(self) -> Entries {
        let mut made = self.made;
        made.kinds.shrink_to_fit();
        made.heads.shrink_to_fit();
        made.labels.shrink_to_fit();
        made.tails.shrink_to_fit();
        made.shared.shrink_to_fit();
        made.spans.shrink_to_fit();
        made.extents.shrink_to_fit();
        made
    }
}

impl FromIterator<Item> for Entries {
    fn from_iter<I: IntoIterator<Item = Item>>(items: I) -> Self {
        let mut builder = EntriesBuilder::default();
        items.into_iter().for_each(|item| builder.push(item));
        builder.finish()
    }
}

impl From<Vec<Item>> for Entries {
    fn from(items: Vec<Item>) -> Self {
        items.into_iter().collect()
    }
}

impl Entries {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// The location of a video.
    ///
    /// # Panics
    /// If `number` is not less than [`Self::len`]. The methods below may panic likewise.
    pub fn place(&self, number: usize) -> Place {
        let (head, tail) = (self.heads[number] as usize, self.tails.get(number));
        let member = |name| {
            let (offset, len) = self.spans[number];
            let file: Arc<Path> = Path::new(std::ffi::OsStr::from_bytes(self.shared.get(head))).into();
            Place::Member(Member { file, offset, len, name })
        };
        match self.kinds[number] {
            Kind::Path => {
                let path = [self.shared.get(head), tail].concat();
                Place::Path(PathBuf::from(std::ffi::OsString::from_vec(path)))
            }
            Kind::Named => member(Some(String::from_utf8_lossy(tail).into())),
            Kind::Nameless => member(None),
            Kind::Other => self.others[head].clone(),
        }
    }

    /// Its label.
    pub fn label(&self, number: usize) -> i64 {
        self.labels[number]
    }

    /// All labels.
    pub fn labels(&self) -> &[i64] {
        &self.labels
    }

    /// The part of the video that the entry consists of.
    pub fn extent(&self, number: usize) -> Extent {
        self.extents.get(number).copied().unwrap_or_default()
    }

    /// One entry with all its fields.
    pub fn item(&self, number: usize) -> Item {
        Item { place: self.place(number), label: self.label(number), extent: self.extent(number) }
    }

    /// All entries in order.
    pub fn iter(&self) -> impl Iterator<Item = Item> + '_ {
        (0..self.len()).map(|number| self.item(number))
    }

    /// Whether every entry is a whole file.
    pub fn are_files(&self) -> bool {
        self.extents.is_empty() && self.kinds.iter().all(|&kind| kind == Kind::Path)
    }

    /// Whether every entry is a whole file, archive member or byte buffer: neither a part nor a folder of
    /// frames.
    pub fn are_whole(&self) -> bool {
        self.extents.is_empty() && !self.others.iter().any(|place| matches!(place, Place::Frames(_)))
    }

    /// The path of an entry that is a file, as two parts to concatenate; otherwise `None`.
    pub fn path_of(&self, number: usize) -> Option<(&[u8], &[u8])> {
        let parts = || (self.shared.get(self.heads[number] as usize), self.tails.get(number));
        (self.kinds[number] == Kind::Path).then(parts)
    }

    /// For each entry, the first entry of the same file. `None` if all entries are whole videos; these are
    /// not compared.
    pub fn shared_files(&self) -> Option<Vec<u32>> {
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

    /// The key that identifies an entry's file; `None` for bytes in memory.
    fn file_key(&self, number: usize) -> Option<FileKey<'_>> {
        let head = self.heads[number];
        Some(match self.kinds[number] {
            Kind::Path => FileKey::Path(head, self.tails.get(number)),
            // Member names do not identify a member: they serve only messages.
            Kind::Named | Kind::Nameless => FileKey::Member(head, self.spans[number]),
            Kind::Other => match &self.others[head as usize] {
                Place::Frames(frames) => FileKey::Frames(frames),
                Place::Opened(opener) => FileKey::Opened(opener.name()),
                Place::Memory(_) | Place::Path(_) | Place::Member(_) => return None,
            },
        })
    }

    /// Bytes that the tables take, without the data that `others` refer to.
    pub fn memory_bytes(&self) -> usize {
        self.kinds.capacity() * size_of::<Kind>()
            + self.heads.capacity() * size_of::<u32>()
            + self.labels.capacity() * size_of::<i64>()
            + self.spans.capacity() * size_of::<(u64, u64)>()
            + self.extents.capacity() * size_of::<Extent>()
            + self.others.capacity() * size_of::<Place>()
            + self.tails.memory_bytes()
            + self.shared.memory_bytes()
    }
}

/// Identifies a file within the dataset.
#[derive(PartialEq, Eq, Hash)]
enum FileKey<'a> {
    /// Folder and name.
    Path(u32, &'a [u8]),
    /// Archive, offset and length.
    Member(u32, (u64, u64)),
    Frames(&'a FrameFolder),
    Opened(Arc<str>),
}

impl PartialEq for Entries {
    /// Compares videos, parts and labels in order. Bytes in memory are compared by content; names of archive
    /// members are ignored.
    fn eq(&self, other: &Self) -> bool {
        let extents = |number| self.extent(number) == other.extent(number);
        let places = |number| same_place(&self.place(number), &other.place(number));
        self.labels == other.labels && (0..self.len()).all(|number| extents(number) && places(number))
    }
}

fn same_place(one: &Place, other: &Place) -> bool {
    match (one, other) {
        (Place::Path(one), Place::Path(other)) => one == other,
        (Place::Member(one), Place::Member(other)) => {
            (&one.file, one.offset, one.len) == (&other.file, other.offset, other.len)
        }
        (Place::Frames(one), Place::Frames(other)) => one == other,
        (Place::Opened(one), Place::Opened(other)) => one.name() == other.name(),
        (Place::Memory(one), Place::Memory(other)) => {
            one.identity() == other.identity() || one.as_bytes() == other.as_bytes()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::MemorySource;

    fn path(path: &str, label: i64) -> Item {
        Item { place: Place::Path(path.into()), label, extent: Extent::Whole }
    }

    fn member(file: &str, offset: u64, name: Option<&str>) -> Item {
        let place = Member { file: Path::new(file).into(), offset, len: 9, name: name.map(Into::into) };
        Item { place: Place::Member(place), label: 0, extent: Extent::Whole }
    }

    #[test]
    fn entries_come_back_as_they_were_given() {
        let frames = FrameFolder { folder: "/f".into(), pattern: None, first: 0, count: None, fps: (30, 1) };
        let odd = PathBuf::from(std::ffi::OsString::from_vec(b"/v/\xff\xfe.mp4".to_vec()));
        let items = vec![
            path("/videos/a/1.mp4", 3),
            path("relative.mp4", -1),
            path("/videos/a/2.mp4", i64::MIN),
            Item { place: Place::Path(odd), label: 1, extent: Extent::Seconds(1.5, None) },
            path("/", 0),
            path("", 0),
            path("/videos/a//2.mp4", 0),
            member("/s/0.tar", 512, Some("a/b.mp4")),
            member("/s/0.tar", u64::MAX, None),
            member("/s/0.tar", 0, Some("")),
            Item { place: Place::Frames(Arc::new(frames)), label: 0, extent: Extent::Frames(3, Some(5)) },
            Item {
                place: Place::Memory(MemorySource::new("m", vec![1, 2])),
                label: 0,
                extent: Extent::Whole,
            },
            path("/videos/a/1.mp4", 3),
        ];
        let entries = Entries::from(items.clone());
        assert_eq!(entries.len(), items.len());
        for (number, item) in items.iter().enumerate() {
            let back = entries.item(number);
            assert_eq!((back.label, back.extent), (item.label, item.extent), "{number}");
            assert!(same_place(&back.place, &item.place), "{number}: {:?}, {:?}", back.place, item.place);
            assert_eq!(back.place.name(), item.place.name(), "{number}");
        }
        assert_eq!(entries, entries.iter().collect());
        assert_ne!(entries, entries.iter().skip(1).collect());
        assert_ne!(entries, entries.iter().map(|item| Item { extent: Extent::Whole, ..item }).collect());
        // Parts of one file are recognized; bytes in memory never are.
        let files = entries.shared_files().expect("there are parts");
        assert_eq!(files, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0]);
        assert_eq!(Entries::from(vec![path("a", 0)]).shared_files(), None);
    }

    #[test]
    fn a_video_takes_less_than_a_hundred_bytes() {
        // The layout of Kinetics: one folder per class; file names of a video id and a range of seconds.
        let named = |n: u32| {
            format!("/data/kinetics700/train/class number {:03}/vid{n:08}_000010_000020.mp4", n / 500)
        };
        let n = 200_000;
        let files: Entries = (0..n).map(|i| path(&named(i), i64::from(i / 500))).collect();
        let parts =
            (0..n).map(|i| Item { extent: Extent::Seconds(f64::from(i), Some(0.5)), ..path(&named(i), 0) });
        let parts: Entries = parts.collect();
        let members: Entries = (0..n)
            .map(|i| member(&format!("/data/train-{:06}.tar", i / 1000), 0, Some(&format!("{i:09}.mp4"))))
            .collect();
        // Each video in a folder of its own.
        let alone: Entries = (0..n).map(|i| path(&format!("/data/set/videos/{i:08}/video.mp4"), 0)).collect();
        for (what, entries) in [("files", files), ("parts", parts), ("members", members), ("alone", alone)] {
            let each = entries.memory_bytes() as f64 / f64::from(n);
            println!("{what}: {each:.1} bytes each");
            assert!(each < 100.0, "{what}: {each}");
        }
    }
}
