//! Presents a folder of numbered images as one source in which the files follow one another.
//! No file is kept open: a clip needs a few out of hundreds.

mod file_names;

use std::cmp::Ordering;
use std::ffi::OsString;
use std::fs::Metadata;
use std::io::ErrorKind;
use std::mem::size_of;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use xxhash_rust::xxh3::Xxh3;

use super::{ByteSource, FileSource, Identity};
use crate::error::{Error, Result, Site};
use file_names::{list_images, numbered_names};

/// Selects the files of a folder that are the frames of a video.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ImageSequence {
    pub folder: PathBuf,
    /// File name of a frame, with `{}`, `{:05}`, `%d` or `%05d` for its number. Without a pattern
    /// all images of the folder are frames, sorted by name with numbers inside names compared by
    /// value.
    pub pattern: Option<String>,
    /// Number of the first frame; without a pattern, the number of images to skip.
    pub first: u32,
    /// Number of frames; if not given, the frames end at the first number without a file.
    pub count: Option<u32>,
    /// Frames per second: numerator, denominator.
    pub fps: (u32, u32),
}

/// File extensions of images where no pattern is given.
pub const IMAGE_EXTENSIONS: [&str; 7] = ["jpg", "jpeg", "jpe", "jfif", "png", "webp", "avif"];

/// Maximum number of frames of a folder: nine hours at 30 frames per second.
const MAX_FRAMES: u32 = 1_000_000;

/// Minimum age of a folder's last change for its timestamps to be trusted: file systems store time
/// in steps, the coarsest in use of two seconds.
const MIN_STABLE_AGE: Duration = Duration::from_secs(3);

/// The files of a folder, concatenated.
pub struct ImageSequenceSource {
    name: Arc<str>,
    folder: PathBuf,
    /// Names inside the folder.
    files: Vec<OsString>,
    /// Offset of each file, followed by the total length.
    offsets: Vec<u64>,
    identity: Identity,
    /// Stamp of the folder before its files were listed; `None` where it cannot show whether the
    /// list is still valid.
    stamp: Option<DirectoryStamp>,
    /// A file was found to be missing or to have another length than when it was listed.
    changed: AtomicBool,
}

/// Identifies a state of a folder: device, inode, and mtime and ctime with their nanoseconds.
type DirectoryStamp = (u64, u64, [(i64, i64); 2]);

fn stamp(metadata: &Metadata) -> DirectoryStamp {
    let times = [
        (metadata.mtime(), metadata.mtime_nsec()),
        (metadata.ctime(), metadata.ctime_nsec()),
    ];
    (metadata.dev(), metadata.ino(), times)
}

impl ImageSequenceSource {
    /// Finds the files, without opening them.
    ///
    /// # Errors
    /// `NotFound` for a missing folder or frame, and for a dangling link; `Argument` for a pattern
    /// without a number, and for numbers that are too large; `Malformed` where there is no frame;
    /// `Io` for an entry that is not a file.
    pub fn open(frames: &ImageSequence) -> Result<Self> {
        // Read before the folder's times, so that a later change counts as recent.
        Self::open_at(frames, SystemTime::now())
    }

    /// Opens it as [`Self::open`] does at this time.
    fn open_at(frames: &ImageSequence, now: SystemTime) -> Result<Self> {
        let name: Arc<str> = frames.folder.to_string_lossy().into();
        let site = Site::file(&name);
        let metadata = std::fs::metadata(&frames.folder).map_err(|e| Error::io(&site, e))?;
        if !metadata.is_dir() {
            return Err(invalid_input(
                &site,
                "is a file; give the folder that holds the frames",
            ));
        }
        // Read before the files are listed, so that a change during the listing is detected later.
        let now = now
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let stamp =
            is_stable(metadata.mtime().max(metadata.ctime()), now).then(|| stamp(&metadata));
        let mut found = match &frames.pattern {
            Some(pattern) => Self::collect(
                frames,
                name,
                &metadata,
                numbered_names(frames, pattern)?,
                true,
            )?,
            None => Self::collect(
                frames,
                name,
                &metadata,
                list_images(frames, &site)?.into_iter(),
                false,
            )?,
        };
        // An empty file is probably still being written, which does not change the folder's
        // timestamps.
        found.stamp = stamp.filter(|_| found.file_spans().all(|(_, len)| len > 0));
        Ok(found)
    }

    /// Collects the files one by one. `ends`: a missing file ends the list, unless the count is
    /// given.
    fn collect(
        frames: &ImageSequence,
        name: Arc<str>,
        metadata: &Metadata,
        candidates: impl Iterator<Item = OsString>,
        ends: bool,
    ) -> Result<Self> {
        let (mut files, mut offsets, mut end, mut state) =
            (Vec::new(), Vec::new(), 0u64, Xxh3::new());
        for file in candidates {
            let path = frames.folder.join(&file);
            let site = || Site::file(&path.to_string_lossy().into());
            let meta = match std::fs::metadata(&path) {
                Ok(meta) => meta,
                Err(e) => {
                    // A dangling link exists, so it is not a missing file.
                    let missing = e.kind() == ErrorKind::NotFound
                        && std::fs::symlink_metadata(&path).is_err();
                    if missing && ends && frames.count.is_none() {
                        break;
                    }
                    return Err(Error::io(&site(), e));
                }
            };
            if !meta.is_file() {
                let what = if meta.is_dir() {
                    "a directory"
                } else {
                    "not a regular file"
                };
                return Err(invalid_input(
                    &site(),
                    format!("is {what}, but has the name of a frame; move it elsewhere"),
                ));
            }
            if files.len() == MAX_FRAMES as usize {
                return Err(too_many(&format!(
                    "'{name}' contains more than {MAX_FRAMES} frames"
                )));
            }
            offsets.push(end);
            end = end.saturating_add(meta.len());
            for number in [
                meta.ino() as i64,
                meta.len() as i64,
                meta.mtime(),
                meta.mtime_nsec(),
            ] {
                state.update(&number.to_le_bytes());
            }
            files.push(file);
        }
        offsets.push(end);
        if files.is_empty() {
            let what = match &frames.pattern {
                Some(pattern) => format!("no file '{pattern}' with the number {}", frames.first),
                None => format!("no file that ends in {}", IMAGE_EXTENSIONS.join(", ")),
            };
            let reason = format!("an image sequence without frames: {what}");
            return Err(Error::malformed(&Site::file(&name), reason));
        }
        if frames
            .count
            .is_some_and(|count| files.len() < count as usize)
        {
            let (found, count, first) =
                (files.len(), frames.count.unwrap_or_default(), frames.first);
            let reason = format!("{found} frames from index {first} on, expected {count}");
            return Err(Error::malformed(&Site::file(&name), reason));
        }
        // A folder's own timestamps show only changes of names; the digest covers the files.
        let identity = Identity::File {
            device: metadata.dev(),
            inode: metadata.ino(),
            len: end,
            mtime_ns: i128::from(state.digest()),
            ctime_ns: 0,
            start: 0,
        };
        let folder = frames.folder.clone();
        Ok(Self {
            name,
            folder,
            files,
            offsets,
            identity,
            stamp: None,
            changed: AtomicBool::new(false),
        })
    }

    /// Whether no file was added, removed or renamed since the files were listed, according to the
    /// folder's timestamps: one system call, where listing takes one per file. Files changed in
    /// place are detected when they are read; from then on the list is not current any more.
    pub(crate) fn is_current(&self) -> bool {
        let now = || {
            std::fs::metadata(&self.folder)
                .ok()
                .map(|metadata| stamp(&metadata))
        };
        !self.changed.load(Relaxed) && self.stamp.is_some() && now() == self.stamp
    }

    /// Memory use in bytes.
    pub fn memory_bytes(&self) -> usize {
        let each = size_of::<OsString>() + size_of::<u64>();
        self.files
            .iter()
            .map(|file| file.capacity() + each)
            .sum::<usize>()
            + size_of::<Self>()
    }

    /// Offset and length of each file.
    pub fn file_spans(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.offsets
            .windows(2)
            .map(|pair| (pair[0], pair[1] - pair[0]))
    }

    /// Number of the file that holds a byte. Several files begin at the same offset where some are
    /// empty; the last of them is returned.
    fn file_index_at(&self, offset: u64) -> usize {
        self.offsets.partition_point(|&begin| begin <= offset) - 1
    }

    /// Path of one file of the folder.
    pub(crate) fn file_path(&self, number: usize) -> Option<PathBuf> {
        self.files.get(number).map(|file| self.folder.join(file))
    }

    /// Opens a file, which must have the length that it had when it was listed.
    fn open_file(&self, path: &Path, offset: u64, len: u64) -> Result<FileSource> {
        let file = FileSource::open(path).inspect_err(|_| self.changed.store(true, Relaxed))?;
        let site = Site::file(file.name());
        let now = file.len();
        if now != len {
            self.changed.store(true, Relaxed);
        }
        match now.cmp(&len) {
            Ordering::Less => Err(Error::Truncated {
                site,
                offset,
                end: len,
                len: now,
            }),
            Ordering::Equal => Ok(file),
            Ordering::Greater => Err(invalid_input(
                &site,
                format!(
                    "file size changed from {len} to {now} bytes since the folder was listed; open the folder again"
                ),
            )),
        }
    }
}

/// Whether a change in the second `last` is so old that another change would have another
/// timestamp.
fn is_stable(last: i64, now: Duration) -> bool {
    u64::try_from(last).is_ok_and(|last| now.saturating_sub(MIN_STABLE_AGE).as_secs() > last)
}

/// An error for an entry that exists, but is not what is needed.
fn invalid_input(site: &Site, reason: impl Into<String>) -> Error {
    Error::io(
        site,
        std::io::Error::new(ErrorKind::InvalidInput, reason.into()),
    )
}

fn too_many(what: &str) -> Error {
    Error::Argument(format!(
        "{what}; at most {MAX_FRAMES} are possible, so give a count, and the rest as another image sequence"
    ))
}

impl ByteSource for ImageSequenceSource {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn name_of_file(&self, number: usize) -> Arc<str> {
        self.file_path(number)
            .map_or(self.name.clone(), |path| path.to_string_lossy().into())
    }

    fn len(&self) -> u64 {
        self.offsets.last().copied().unwrap_or(0)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let number = self.file_index_at(at);
            let Some(path) = self.file_path(number) else {
                break;
            };
            let (begin, end) = (self.offsets[number], self.offsets[number + 1]);
            let within = at - begin;
            let file = self.open_file(&path, within, end - begin)?;
            let most = (end - at).min((buffer.len() - done) as u64) as usize;
            let read = file.read_at(within, &mut buffer[done..done + most])?;
            if read < most {
                self.changed.store(true, Relaxed);
                let (site, end) = (Site::file(file.name()), within + most as u64);
                return Err(Error::Truncated {
                    site,
                    offset: within,
                    end,
                    len: within + read as u64,
                });
            }
            done += read;
        }
        Ok(done)
    }

    fn identity(&self) -> Identity {
        self.identity.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder for one test, deleted when dropped.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str, files: &[(&str, &[u8])]) -> Self {
            let path =
                std::env::temp_dir().join(format!("framespool-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).unwrap();
            for (file, bytes) in files {
                std::fs::write(path.join(file), bytes).unwrap();
            }
            Self(path)
        }

        fn frames(&self, pattern: Option<&str>) -> ImageSequence {
            let first = u32::from(pattern.is_some());
            let pattern = pattern.map(str::to_owned);
            ImageSequence {
                folder: self.0.clone(),
                pattern,
                first,
                count: None,
                fps: (30, 1),
            }
        }

        /// Sizes of the frames.
        fn sizes(&self, pattern: Option<&str>) -> Vec<u64> {
            ImageSequenceSource::open(&self.frames(pattern))
                .unwrap()
                .file_spans()
                .map(|part| part.1)
                .collect()
        }

        /// The error of opening it.
        fn error(&self, pattern: Option<&str>) -> Error {
            ImageSequenceSource::open(&self.frames(pattern))
                .map(|_| ())
                .unwrap_err()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn numbers_are_bounded_before_any_lookup() {
        let folder = Folder::new("bounds", &[("1.jpg", b"a"), ("4294967295.jpg", b"bc")]);
        let open = |first, count| {
            let frames = ImageSequence {
                first,
                count,
                ..folder.frames(Some("{}.jpg"))
            };
            ImageSequenceSource::open(&frames).map(|source| source.file_spans().count())
        };
        for (first, count) in [
            (1, u32::MAX),
            (1, MAX_FRAMES + 1),
            (u32::MAX, 2),
            (u32::MAX - 5, 7),
            (1, 0),
        ] {
            assert!(
                matches!(open(first, Some(count)), Err(Error::Argument(_))),
                "{first}, {count}"
            );
        }
        // The largest number has a file, and none can follow it.
        assert_eq!(open(u32::MAX, Some(1)).unwrap(), 1);
        assert_eq!(open(u32::MAX, None).unwrap(), 1);
        // With a count of one million and the second file missing, the error comes at once.
        let missing = open(1, Some(MAX_FRAMES)).unwrap_err();
        assert!(
            matches!(&missing, Error::NotFound { site } if site.file.ends_with("/2.jpg")),
            "{missing}"
        );
    }

    #[test]
    fn non_frames_are_skipped_or_named() {
        let folder = Folder::new(
            "odd",
            &[
                ("1.jpg", b"a"),
                ("2.jpg", b"bc"),
                ("._1.jpg", b"x"),
                ("a.txt", b""),
            ],
        );
        std::fs::create_dir(folder.0.join("3.jpg")).unwrap();
        assert_eq!(folder.sizes(None), [1, 2]);
        let directory = folder.error(Some("{}.jpg")).to_string();
        assert!(directory.contains("3.jpg: is a directory"), "{directory}");
        std::fs::remove_dir(folder.0.join("3.jpg")).unwrap();
        assert_eq!(folder.sizes(Some("{}.jpg")), [1, 2]);
        // A link to a frame is a frame; a dangling link is an error, not the end of the frames.
        std::os::unix::fs::symlink("2.jpg", folder.0.join("3.jpg")).unwrap();
        assert_eq!(folder.sizes(None), [1, 2, 2]);
        assert_eq!(folder.sizes(Some("{}.jpg")), [1, 2, 2]);
        std::os::unix::fs::symlink("gone", folder.0.join("4.jpg")).unwrap();
        for pattern in [None, Some("{}.jpg")] {
            let error = folder.error(pattern);
            assert!(
                matches!(&error, Error::NotFound { site } if site.file.ends_with("/4.jpg")),
                "{error}"
            );
        }
        // A link to itself is an I/O error, not a missing file.
        std::fs::remove_file(folder.0.join("4.jpg")).unwrap();
        std::os::unix::fs::symlink("4.jpg", folder.0.join("4.jpg")).unwrap();
        for pattern in [None, Some("{}.jpg")] {
            let error = folder.error(pattern);
            assert!(
                matches!(&error, Error::Io { site, .. } if site.file.ends_with("/4.jpg")),
                "{error}"
            );
        }
        let file = ImageSequence {
            folder: folder.0.join("1.jpg"),
            ..folder.frames(None)
        };
        let error = ImageSequenceSource::open(&file)
            .map(|_| ())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("is a file; give the folder that holds the frames"),
            "{error}"
        );
    }

    #[test]
    fn listing_is_valid_until_the_folder_changes() {
        let folder = Folder::new("kept", &[("1.jpg", b"abc"), ("2.jpg", b"defg")]);
        let open = || {
            // Any change sets the current time, which differs, however coarse the times of the file
            // system are.
            let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
            std::fs::File::open(&folder.0)
                .unwrap()
                .set_modified(long_ago)
                .unwrap();
            let changed = SystemTime::UNIX_EPOCH
                + Duration::from_secs(std::fs::metadata(&folder.0).unwrap().ctime().unsigned_abs());
            let open_after =
                |age| ImageSequenceSource::open_at(&folder.frames(None), changed + age).unwrap();
            assert!(
                !open_after(MIN_STABLE_AGE).is_current(),
                "its times are not trusted yet"
            );
            let source = open_after(MIN_STABLE_AGE + Duration::from_secs(1));
            assert!(source.is_current());
            source
        };
        let source = open();
        std::fs::write(folder.0.join("3.jpg"), b"more").unwrap();
        assert!(!source.is_current(), "a file was added");
        let source = open();
        std::fs::remove_file(folder.0.join("3.jpg")).unwrap();
        assert!(!source.is_current(), "a file was removed");
        for (bytes, reason) in [
            (&b"longer"[..], "since the folder was listed"),
            (b"no", "truncated"),
        ] {
            std::fs::write(folder.0.join("1.jpg"), b"abc").unwrap();
            let source = open();
            std::fs::write(folder.0.join("1.jpg"), bytes).unwrap();
            assert!(
                source.is_current(),
                "the folder's times do not show changes of its files"
            );
            assert_eq!(
                source.read_at(3, &mut [0; 4]).unwrap(),
                4,
                "the other file is unchanged"
            );
            let error = source.read_at(0, &mut [0; 3]).unwrap_err().to_string();
            assert!(error.contains("1.jpg") && error.contains(reason), "{error}");
            assert!(
                !source.is_current(),
                "once noticed, the files are listed again"
            );
        }
    }

    #[test]
    fn times_are_trusted_once_another_change_would_show() {
        assert!(is_stable(100, Duration::from_secs(104)));
        for (last, now) in [(100, 103), (100, 100), (100, 90), (-5, 100), (0, 0)] {
            assert!(
                !is_stable(last, Duration::from_secs(now)),
                "{last} at {now}"
            );
        }
    }

    #[test]
    fn files_are_concatenated() {
        let [one, two, three, five] = [1, 2, 3, 5].map(|number| format!("img_{number:05}.jpg"));
        let files: [(&str, &[u8]); 4] = [
            (&one, b"abc"),
            (&two, b""),
            (&three, b"defg"),
            (&five, b"lost"),
        ];
        let folder = Folder::new("lie", &files);
        let frames = folder.frames(Some("img_{:05}.jpg"));
        let source = ImageSequenceSource::open(&frames).unwrap();
        assert_eq!(
            source.file_spans().collect::<Vec<_>>(),
            [(0, 3), (3, 0), (3, 4)]
        );
        let mut buffer = [0; 9];
        assert_eq!(source.read_at(2, &mut buffer).unwrap(), 5);
        assert_eq!(&buffer[..5], b"cdefg");
        assert_eq!(source.read_at(99, &mut buffer).unwrap(), 0);
        // The empty file has the number of its packet, though it has no bytes.
        assert!(
            source.name_of_file(1).ends_with(&two),
            "{}",
            source.name_of_file(1)
        );
        assert!(source.stamp.is_none());
        // A number that is missing within the count is an error; without a pattern there are no
        // gaps.
        let all = ImageSequence {
            pattern: None,
            first: 0,
            ..frames.clone()
        };
        assert_eq!(
            ImageSequenceSource::open(&all)
                .unwrap()
                .file_spans()
                .count(),
            4
        );
        let enough = ImageSequence {
            count: Some(2),
            ..all.clone()
        };
        assert_eq!(
            ImageSequenceSource::open(&enough)
                .unwrap()
                .file_spans()
                .count(),
            2
        );
        assert!(matches!(
            ImageSequenceSource::open(&ImageSequence {
                count: Some(99),
                ..all
            }),
            Err(Error::Malformed { .. })
        ));
        let promised = ImageSequence {
            count: Some(4),
            ..frames
        };
        assert!(matches!(
            ImageSequenceSource::open(&promised),
            Err(Error::NotFound { .. })
        ));
    }
}
