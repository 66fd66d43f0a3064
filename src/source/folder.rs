//! In: a folder of numbered pictures.
//! Out: one source in which the files lie one after another, and where each begins.
//! Never: keeps a file open: a clip needs a few of hundreds.

use std::cmp::Ordering;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use super::{ByteSource, FileSource, Identity};
use crate::error::{Error, Result, Site};

/// Which files of a folder are the frames of a video.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FrameFolder {
    /// The folder.
    pub folder: PathBuf,
    /// Name of a frame's file, with `{}`, `{:05}`, `%d` or `%05d` in place of its number. Without one all pictures of the folder
    /// are frames, in the order of their names, numbers inside which count as numbers.
    pub pattern: Option<String>,
    /// Number of the first frame.
    pub first: u32,
    /// Number of frames; up to the first number that has no file if not given.
    pub count: Option<u32>,
    /// Frames per second: numerator, denominator.
    pub fps: (u32, u32),
}

/// What is taken for a picture where no pattern is given.
pub const PICTURE_EXTENSIONS: [&str; 5] = ["jpg", "jpeg", "jpe", "jfif", "png"];

/// Most frames of a folder: nine hours at 30 frames a second.
const MOST: u32 = 1_000_000;

/// The files of a folder, one after another.
pub struct FolderSource {
    name: Arc<str>,
    files: Vec<PathBuf>,
    /// Where each begins, and after the last one where it ends.
    begins: Vec<u64>,
    identity: Identity,
}

impl FolderSource {
    /// Finds the files, without opening them.
    ///
    /// # Errors
    /// `NotFound` for a missing folder or frame, `Argument` for a pattern without a number, `NoVideo` where there is no frame.
    pub fn open(frames: &FrameFolder) -> Result<Self> {
        let name: Arc<str> = frames.folder.to_string_lossy().into();
        let site = Site::file(&name);
        let about = std::fs::metadata(&frames.folder).map_err(|e| Error::io(&site, e))?;
        let files = match &frames.pattern {
            Some(pattern) => numbered(frames, pattern)?,
            None => listed(frames, &site)?,
        };
        let mut begins = Vec::with_capacity(files.len() + 1);
        let mut state = Xxh3::new();
        let mut end = 0u64;
        let mut kept = Vec::with_capacity(files.len());
        for file in files {
            let meta = match std::fs::metadata(&file) {
                Ok(meta) if meta.is_file() => meta,
                Err(e) if e.kind() == std::io::ErrorKind::NotFound && frames.count.is_none() => break,
                Err(e) => return Err(Error::io(&Site::file(&file.to_string_lossy().into()), e)),
                Ok(_) => continue,
            };
            begins.push(end);
            end = end.saturating_add(meta.len());
            for number in [meta.ino() as i64, meta.len() as i64, meta.mtime(), meta.mtime_nsec()] {
                state.update(&number.to_le_bytes());
            }
            kept.push(file);
        }
        begins.push(end);
        if kept.is_empty() {
            let what = match &frames.pattern {
                Some(pattern) => format!("no file '{pattern}' with the number {}", frames.first),
                None => format!("no file that ends in {}", PICTURE_EXTENSIONS.join(", ")),
            };
            return Err(Error::malformed(&site, format!("a folder of frames without frames: {what}")));
        }
        // A folder's own times say only that names changed; what is in the files is in the digest.
        let identity = Identity::File {
            device: about.dev(),
            inode: about.ino(),
            len: end,
            mtime_ns: i128::from(state.digest()),
            ctime_ns: 0,
            start: 0,
        };
        Ok(Self { name, files: kept, begins, identity })
    }

    /// Where each file begins, and its length in bytes.
    pub fn parts(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.begins.windows(2).map(|pair| (pair[0], pair[1] - pair[0]))
    }

    /// Number of the file that holds a byte. Empty files begin where the next one does: the last of them has it.
    fn number_at(&self, offset: u64) -> usize {
        self.begins.partition_point(|&begin| begin <= offset) - 1
    }

    /// A file of the folder by itself.
    pub fn file(&self, number: usize) -> Option<&Path> {
        self.files.get(number).map(PathBuf::as_path)
    }
}

impl ByteSource for FolderSource {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn name_at(&self, offset: u64) -> Arc<str> {
        self.files.get(self.number_at(offset)).map_or(self.name.clone(), |path| path.to_string_lossy().into())
    }

    fn len(&self) -> u64 {
        self.begins.last().copied().unwrap_or(0)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let number = self.number_at(at);
            let Some(path) = self.files.get(number) else { break };
            let file = FileSource::open(path)?;
            let within = at - self.begins[number];
            let most = (self.begins[number + 1] - at).min((buffer.len() - done) as u64) as usize;
            let read = file.read_at(within, &mut buffer[done..done + most])?;
            if read < most {
                let end = within + most as u64;
                let site = Site::file(file.name());
                return Err(Error::Truncated { site, offset: within, end, len: file.len() });
            }
            done += read;
        }
        Ok(done)
    }

    fn identity(&self) -> Identity {
        self.identity.clone()
    }
}

/// Files by number; the caller stops at the first that is missing.
fn numbered(frames: &FrameFolder, pattern: &str) -> Result<Vec<PathBuf>> {
    let (before, width, after) = split(pattern).ok_or_else(|| {
        Error::Argument(format!(
            "pattern '{pattern}' must hold one number: '{{:05}}', '{{}}', '%05d' or '%d', as in 'img_{{:05}}.jpg'"
        ))
    })?;
    let name = |number: u32| frames.folder.join(format!("{before}{number:0width$}{after}"));
    let many = frames.count.unwrap_or(MOST).min(u32::MAX - frames.first);
    if many > MOST {
        return Err(Error::Argument(format!("{many} frames in a folder; at most {MOST} are possible")));
    }
    match frames.count {
        Some(count) => Ok((0..count).map(|n| name(frames.first + n)).collect()),
        // One question to the system for each file, and one for the first that is missing.
        None => Ok((0..many).map(|n| name(frames.first + n)).take_while(|path| path.exists()).collect()),
    }
}

/// What stands before the number, its width, and what stands after it.
fn split(pattern: &str) -> Option<(&str, usize, &str)> {
    let (before, width, after) = match pattern.split_once('{') {
        Some((before, rest)) => {
            let (inside, after) = rest.split_once('}')?;
            (
                before,
                inside.strip_prefix(':').or_else(|| inside.is_empty().then_some(""))?.trim_end_matches('d'),
                after,
            )
        }
        None => {
            let (before, rest) = pattern.split_once('%')?;
            let (width, after) = rest.split_once('d')?;
            (before, width, after)
        }
    };
    let width = if width.is_empty() { 0 } else { width.parse().ok().filter(|&w| w <= 20)? };
    let one = !after.contains(['{', '%']) && !before.contains('/') && !after.contains('/');
    one.then_some((before, width, after))
}

/// All pictures of a folder, by name.
fn listed(frames: &FrameFolder, site: &Site) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&frames.folder).map_err(|e| Error::io(site, e))? {
        let path = entry.map_err(|e| Error::io(site, e))?.path();
        let extension = path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
        if extension.is_some_and(|e| PICTURE_EXTENSIONS.contains(&e.as_str())) {
            files.push(path);
        }
    }
    let bytes = |path: &PathBuf| path.file_name().map(|n| n.as_encoded_bytes().to_vec()).unwrap_or_default();
    files.sort_by_cached_key(|path| Natural(bytes(path)));
    let skip = frames.first as usize;
    let many = frames.count.map_or(usize::MAX, |count| count as usize);
    Ok(files.into_iter().skip(skip).take(many).collect())
}

/// A name that is compared with its numbers as numbers: `img_9` before `img_10`.
#[derive(PartialEq, Eq)]
struct Natural(Vec<u8>);

impl Ord for Natural {
    fn cmp(&self, other: &Self) -> Ordering {
        let (mut a, mut b) = (&self.0[..], &other.0[..]);
        loop {
            let digits = |s: &[u8]| s.iter().take_while(|c| c.is_ascii_digit()).count();
            let (m, n) = (digits(a), digits(b));
            if m > 0 && n > 0 {
                let value = |s: &[u8]| s.iter().skip_while(|&&c| c == b'0').copied().collect::<Vec<u8>>();
                let (x, y) = (value(&a[..m]), value(&b[..n]));
                // Of two numbers without leading zeros the longer one is the larger one.
                match x.len().cmp(&y.len()).then_with(|| x.cmp(&y)) {
                    Ordering::Equal => (a, b) = (&a[m..], &b[n..]),
                    unequal => return unequal,
                }
            } else {
                match (a.split_first(), b.split_first()) {
                    (Some((x, c)), Some((y, d))) if x == y => (a, b) = (c, d),
                    // Names that differ in leading zeros only are told apart by them.
                    (None, None) => return self.0.cmp(&other.0),
                    (x, y) => return x.map(|x| x.0).cmp(&y.map(|y| y.0)),
                }
            }
        }
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_hold_one_number() {
        assert_eq!(split("img_{:05}.jpg"), Some(("img_", 5, ".jpg")));
        assert_eq!(split("img_{:05d}.jpg"), Some(("img_", 5, ".jpg")));
        assert_eq!(split("{}.png"), Some(("", 0, ".png")));
        assert_eq!(split("f%06d"), Some(("f", 6, "")));
        assert_eq!(split("%d.jpg"), Some(("", 0, ".jpg")));
        for wrong in ["img.jpg", "a{x}.jpg", "{}{}", "%s", "{:99}", "a/{}.jpg", "{", "%d%d"] {
            assert_eq!(split(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn names_sort_by_their_numbers() {
        let mut names = ["b1", "a10", "a9", "a09", "a", "a9b2", "a9b10", "a1x"];
        names.sort_by_cached_key(|n| Natural(n.as_bytes().to_vec()));
        assert_eq!(names, ["a", "a1x", "a09", "a9", "a9b2", "a9b10", "a10", "b1"]);
    }

    #[test]
    fn files_lie_one_after_another() {
        let folder = std::env::temp_dir().join(format!("framespool-folder-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (number, bytes) in [(1, &b"abc"[..]), (2, b""), (3, b"defg"), (5, b"lost")] {
            std::fs::write(folder.join(format!("img_{number:05}.jpg")), bytes).unwrap();
        }
        let frames = FrameFolder {
            folder: folder.clone(),
            pattern: Some("img_{:05}.jpg".into()),
            first: 1,
            count: None,
            fps: (30, 1),
        };
        let source = FolderSource::open(&frames).unwrap();
        assert_eq!(source.parts().collect::<Vec<_>>(), [(0, 3), (3, 0), (3, 4)]);
        let mut buffer = [0; 9];
        assert_eq!(source.read_at(2, &mut buffer).unwrap(), 5);
        assert_eq!(&buffer[..5], b"cdefg");
        assert_eq!(source.read_at(99, &mut buffer).unwrap(), 0);
        // A number that is missing where it was promised is an error; without a pattern there are no gaps.
        let promised = FrameFolder { count: Some(4), ..frames.clone() };
        assert!(matches!(FolderSource::open(&promised), Err(Error::NotFound { .. })));
        let all = FrameFolder { pattern: None, first: 0, ..frames };
        assert_eq!(FolderSource::open(&all).unwrap().parts().count(), 4);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
