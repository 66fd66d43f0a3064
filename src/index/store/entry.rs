//! Defines a cache entry (key, file state, fingerprint, encoded index) and when it is valid for a source.
//! A checksum also covers the key, so that a damaged database returns the right entry or none.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use xxhash_rust::xxh3::{xxh3_64, Xxh3};

use super::bytes::{put_bytes, put_number, put_signed, Reader};
use super::coding::FORMAT;
use crate::error::Result;
use crate::source::{ByteSource, Identity};

/// Number of bytes at each end of a file that its fingerprint covers.
const PRINT_BYTES: u64 = 4096;
/// Maximum length of a key.
const KEY_BYTES: u64 = 1 << 16;
/// Separates the path from the stream index in a key; neither paths nor URLs contain it.
const STREAM: u8 = 0;

/// State of a file to which an index belongs. Device and inode are not included: device numbers differ
/// between machines that share a file system, and inodes are reused after deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Length in bytes.
    pub len: u64,
    /// Modification time, nanoseconds since 1970; any user can set it.
    pub mtime_ns: i64,
    /// Change time of the inode, nanoseconds since 1970; users cannot set it.
    pub ctime_ns: i64,
}

impl Stamp {
    /// Returns `None` for a source that is not a whole file. A remote file is identified by its tag: a hash
    /// of it replaces the modification time, and no clock tick has to pass. A remote file without a tag could
    /// change unnoticed, so it has no stamp.
    pub fn of(identity: &Identity) -> Option<Self> {
        if let Identity::Remote { len, tag, start: 0, .. } = identity {
            return (!tag.is_empty()).then(|| Self {
                len: *len,
                mtime_ns: xxh3_64(tag.as_bytes()) as i64,
                ctime_ns: 0,
            });
        }
        let &Identity::File { len, mtime_ns, ctime_ns, start: 0, .. } = identity else { return None };
        Some(Self { len, mtime_ns: i64::try_from(mtime_ns).ok()?, ctime_ns: i64::try_from(ctime_ns).ok()? })
    }

    /// Returns how long after a given moment another change to the file might still leave its change time
    /// unchanged: file systems update times every few milliseconds, those with whole-second times every two
    /// seconds. Returns `None` if a change would already be visible.
    pub fn settles_in(&self, moment_ns: i64) -> Option<Duration> {
        let tick_ns = if self.ctime_ns % 1_000_000_000 == 0 { 2_000_000_000 } else { 20_000_000 };
        let left_ns = tick_ns - moment_ns.saturating_sub(self.ctime_ns).max(0);
        u64::try_from(left_ns).ok().filter(|&left| left > 0).map(Duration::from_nanos)
    }
}

/// An encoded index with its key and the state of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Key of the entry, see [`key_of`].
    pub key: &'a [u8],
    /// State of the file that was indexed.
    pub stamp: Stamp,
    /// When reading began, nanoseconds since 1970.
    pub read_ns: i64,
    /// See [`fingerprint`].
    pub print: u64,
    /// Version of the FFmpeg whose libavformat read the file; empty if libavformat was not used.
    pub ffmpeg: &'a str,
    /// The encoded index, see `coding`.
    pub index: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Encodes the entry.
    pub fn seal(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        out.extend([0; 8]);
        put_bytes(&mut out, self.key);
        put_number(&mut out, self.stamp.len);
        put_signed(&mut out, self.stamp.mtime_ns);
        put_signed(&mut out, self.stamp.ctime_ns);
        put_signed(&mut out, self.read_ns);
        out.extend(self.print.to_le_bytes());
        put_bytes(&mut out, self.ffmpeg.as_bytes());
        out.extend(self.index);
        let sum = xxh3_64(&out[9..]);
        out[1..9].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Decodes an entry; `None` if it is damaged or has another format.
    pub fn unseal(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        if reader.byte()? != FORMAT || reader.fixed()? != xxh3_64(reader.rest()) {
            return None;
        }
        Some(Self {
            key: reader.bytes(KEY_BYTES)?,
            stamp: Stamp { len: reader.number()?, mtime_ns: reader.signed()?, ctime_ns: reader.signed()? },
            read_ns: reader.signed()?,
            print: reader.fixed()?,
            ffmpeg: reader.text(64)?,
            index: reader.rest(),
        })
    }

    /// Whether this entry is valid for the current state of `source`.
    ///
    /// If length and modification time are equal but the change time differs, the file was renamed, changed
    /// owner, is a copy with preserved times, or is another file that was given these times. The fingerprint
    /// distinguishes these cases.
    pub fn fits(&self, stamp: &Stamp, source: &dyn ByteSource) -> bool {
        (self.stamp.len, self.stamp.mtime_ns) == (stamp.len, stamp.mtime_ns)
            && self.stamp.settles_in(self.read_ns).is_none()
            && (self.ffmpeg.is_empty() || self.ffmpeg == crate::ffmpeg::version())
            && (self.stamp.ctime_ns == stamp.ctime_ns
                || fingerprint(source).is_ok_and(|print| print == self.print))
    }
}

/// Primary key of an entry in the database.
pub fn id_of(key: &[u8]) -> i64 {
    xxh3_64(key) as i64
}

/// Hashes a file's length, beginning and end, where containers store their tables, to identify its content
/// without reading all of it. For a remote file the tag suffices, without a request for the end.
pub fn fingerprint(source: &dyn ByteSource) -> Result<u64> {
    if let Identity::Remote { tag, .. } = source.identity() {
        return Ok(xxh3_64(tag.as_bytes()));
    }
    let mut hash = Xxh3::new();
    hash.update(&source.len().to_le_bytes());
    let mut buffer = [0; PRINT_BYTES as usize];
    for at in [0, source.len().saturating_sub(PRINT_BYTES)] {
        let got = source.read_at(at, &mut buffer)?;
        hash.update(&buffer[..got]);
    }
    Ok(hash.digest())
}

/// Returns the key of an index: the absolute path, or the URL without its secrets, then the stream if one was
/// requested, so that indices of several streams of a file are cached separately.
pub fn key_of(path: &Path, source: &dyn ByteSource, stream: Option<u32>) -> Option<Vec<u8>> {
    let mut key = match source.identity() {
        Identity::Remote { url, .. } => url.as_bytes().to_vec(),
        _ => std::path::absolute(path).ok()?.into_os_string().into_encoded_bytes(),
    };
    if let Some(stream) = stream {
        key.push(STREAM);
        key.extend(stream.to_le_bytes());
    }
    Some(key)
}

/// Returns the path or URL in a key.
pub fn path_of(key: &[u8]) -> &[u8] {
    key.split(|&byte| byte == STREAM).next().unwrap_or(key)
}

/// Converts a time to nanoseconds since 1970.
pub fn since_1970(time: SystemTime) -> i64 {
    let ns = |d: Duration| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX);
    time.duration_since(UNIX_EPOCH).map_or_else(|before| -ns(before.duration()), ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::MemorySource;

    const DAY_NS: i64 = 86_400_000_000_000;

    fn entry() -> Entry<'static> {
        let stamp = Stamp { len: 3, mtime_ns: 42, ctime_ns: 123_456_789 };
        let print = fingerprint(&MemorySource::new("m", b"abc")).unwrap();
        Entry { key: b"/data/a.mp4", stamp, read_ns: DAY_NS, print, ffmpeg: "", index: b"index" }
    }

    #[test]
    fn one_flipped_bit_anywhere_unseals_nothing() {
        let sealed = entry().seal();
        assert_eq!(Entry::unseal(&sealed), Some(entry()));
        for bit in 0..8 * sealed.len() {
            let mut damaged = sealed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Entry::unseal(&damaged), None, "bit {bit}");
        }
        assert!((0..sealed.len()).all(|len| Entry::unseal(&sealed[..len]).is_none()));
    }

    #[test]
    fn streams_of_a_file_have_keys_of_their_own_that_name_the_file() {
        let file = MemorySource::new("m", b"abc");
        let key = |stream| key_of(Path::new("/data/a.mp4"), &file, stream).unwrap();
        let keys = [None, Some(0), Some(1), Some(256), Some(u32::MAX)].map(key);
        for (n, key) in keys.iter().enumerate() {
            assert_eq!(path_of(key), b"/data/a.mp4");
            assert!(keys[..n].iter().all(|other| other != key && id_of(other) != id_of(key)));
        }
    }

    #[test]
    fn a_file_on_a_server_is_told_by_length_and_tag() {
        let identity = |len, tag: &str, start| Identity::Remote {
            url: "https://h/a".into(),
            len,
            tag: tag.into(),
            start,
        };
        let stamp = |tag| Stamp::of(&identity(3, tag, 0));
        assert_eq!(stamp("\"x\""), stamp("\"x\""));
        assert!(stamp("\"x\"").is_some() && stamp("\"x\"") != stamp("\"y\""));
        assert!(stamp("").is_none(), "it could change unnoticed");
        assert!(Stamp::of(&identity(3, "\"x\"", 1)).is_none(), "a part");
        assert_eq!(stamp("t").unwrap().settles_in(DAY_NS), None);
    }

    #[test]
    fn another_length_time_or_ffmpeg_does_not_fit_and_a_later_change_only_with_the_same_ends() {
        let (same, other) = (MemorySource::new("m", b"abc"), MemorySource::new("m", b"abd"));
        let (entry, stamp) = (entry(), entry().stamp);
        assert!(entry.fits(&stamp, &other)); // the content is not compared
        assert!(!entry.fits(&Stamp { len: 4, ..stamp }, &same));
        assert!(!entry.fits(&Stamp { mtime_ns: 1, ..stamp }, &same));
        assert!(entry.fits(&Stamp { ctime_ns: 1, ..stamp }, &same));
        assert!(!entry.fits(&Stamp { ctime_ns: 1, ..stamp }, &other));
        assert!(!Entry { ffmpeg: "0.1", ..entry }.fits(&stamp, &same));
        assert!(Entry { ffmpeg: &crate::ffmpeg::version(), ..entry }.fits(&stamp, &same));
    }

    #[test]
    fn an_index_read_within_the_tick_of_the_files_last_change_is_not_believed() {
        let is_believed = |stamp: Stamp, after_ns| {
            let entry = Entry { stamp, read_ns: stamp.ctime_ns + after_ns, ..entry() };
            entry.fits(&stamp, &MemorySource::new("m", b"abc"))
        };
        let (fine, whole_seconds) = (entry().stamp, Stamp { ctime_ns: DAY_NS, ..entry().stamp });
        assert!([-DAY_NS, 0, 19_999_999].iter().all(|&after_ns| !is_believed(fine, after_ns)));
        assert!(is_believed(fine, 20_000_000));
        assert!(!is_believed(whole_seconds, 1_999_999_999) && is_believed(whole_seconds, 2_000_000_000));
        assert_eq!(fine.settles_in(fine.ctime_ns + 5_000_000), Some(Duration::from_millis(15)));
    }
}
