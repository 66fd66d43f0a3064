//! Defines a cache entry (key, file state, fingerprint, encoded index) and when it is valid for a
//! source. A checksum also covers the key, so that a damaged database returns the right entry or
//! none.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::codec::FORMAT;
use super::varint::{VarintReader, write_bytes, write_signed_varint, write_varint};
use crate::error::Result;
use crate::source::{ByteSource, Identity, as_url};

/// Number of bytes at each end of a file that its fingerprint covers.
const HASHED_BYTES: u64 = 4096;
/// Maximum length of a key.
const MAX_KEY_BYTES: u64 = 1 << 16;
/// Separates the path from the stream index in a key; neither paths nor URLs contain it.
const STREAM_SEPARATOR: u8 = 0;
/// Follows it in the key of an audio index, which is thus of another length than that of a video
/// stream.
const AUDIO_MARK: u8 = b'a';

/// State of a file to which an index belongs. Device and inode are not included: device numbers
/// differ between machines that share a file system, and inodes are reused after deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileSignature {
    /// Length in bytes.
    pub len: u64,
    /// Modification time, nanoseconds since 1970; any user can set it.
    pub mtime_ns: i64,
    /// Change time of the inode, nanoseconds since 1970; users cannot set it.
    pub ctime_ns: i64,
}

impl FileSignature {
    /// Returns `None` for a source that is not a whole file. A remote file is identified by its
    /// tag: a hash of it replaces the modification time, and no clock tick has to pass. A remote
    /// file without a tag could change unnoticed, so it has no stamp.
    pub(super) fn of(identity: &Identity) -> Option<Self> {
        if let Identity::Remote {
            len, tag, start: 0, ..
        } = identity
        {
            return (!tag.is_empty()).then(|| Self {
                len: *len,
                mtime_ns: xxh3_64(tag.as_bytes()) as i64,
                ctime_ns: 0,
            });
        }
        let &Identity::File {
            len,
            mtime_ns,
            ctime_ns,
            start: 0,
            ..
        } = identity
        else {
            return None;
        };
        Some(Self {
            len,
            mtime_ns: i64::try_from(mtime_ns).ok()?,
            ctime_ns: i64::try_from(ctime_ns).ok()?,
        })
    }

    /// Returns how long after a given moment another change to the file might still leave its
    /// change time unchanged: file systems update times every few milliseconds, those with
    /// whole-second times every two seconds. Returns `None` if a change would already be visible.
    pub(super) fn stable_after(&self, moment_ns: i64) -> Option<Duration> {
        let tick_ns = if self.ctime_ns % 1_000_000_000 == 0 {
            2_000_000_000
        } else {
            20_000_000
        };
        let left_ns = tick_ns - moment_ns.saturating_sub(self.ctime_ns).max(0);
        u64::try_from(left_ns)
            .ok()
            .filter(|&left| left > 0)
            .map(Duration::from_nanos)
    }
}

/// An encoded index with its key and the state of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CacheRecord<'a> {
    /// Key of the entry, see [`record_key`].
    pub key: &'a [u8],
    /// State of the file that was indexed.
    pub signature: FileSignature,
    /// When reading began, nanoseconds since 1970.
    pub read_ns: i64,
    /// See [`content_hash`].
    pub content_hash: u64,
    /// Version of the FFmpeg whose libavformat read the file; empty if libavformat was not used.
    pub ffmpeg: &'a str,
    /// The encoded index, see `codec`.
    pub index: &'a [u8],
}

impl<'a> CacheRecord<'a> {
    /// Encodes the entry.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        out.extend([0; 8]);
        write_bytes(&mut out, self.key);
        write_varint(&mut out, self.signature.len);
        write_signed_varint(&mut out, self.signature.mtime_ns);
        write_signed_varint(&mut out, self.signature.ctime_ns);
        write_signed_varint(&mut out, self.read_ns);
        out.extend(self.content_hash.to_le_bytes());
        write_bytes(&mut out, self.ffmpeg.as_bytes());
        out.extend(self.index);
        let sum = xxh3_64(&out[9..]);
        out[1..9].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Decodes an entry; `None` if it is damaged or has another format.
    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = VarintReader::new(bytes);
        if reader.byte()? != FORMAT || reader.u64_le()? != xxh3_64(reader.rest()) {
            return None;
        }
        Some(Self {
            key: reader.bytes(MAX_KEY_BYTES)?,
            signature: FileSignature {
                len: reader.varint()?,
                mtime_ns: reader.signed_varint()?,
                ctime_ns: reader.signed_varint()?,
            },
            read_ns: reader.signed_varint()?,
            content_hash: reader.u64_le()?,
            ffmpeg: reader.text(64)?,
            index: reader.rest(),
        })
    }

    /// Whether this entry is valid for the current state of `source`.
    ///
    /// If length and modification time are equal but the change time differs, the file was renamed,
    /// changed owner, is a copy with preserved times, or is another file that was given these
    /// times. The fingerprint distinguishes these cases.
    pub(super) fn is_valid_for(&self, signature: &FileSignature, source: &dyn ByteSource) -> bool {
        (self.signature.len, self.signature.mtime_ns) == (signature.len, signature.mtime_ns)
            && self.signature.stable_after(self.read_ns).is_none()
            && (self.ffmpeg.is_empty() || self.ffmpeg == crate::ffmpeg::version())
            && (self.signature.ctime_ns == signature.ctime_ns
                || content_hash(source).is_ok_and(|content_hash| content_hash == self.content_hash))
    }
}

/// Primary key of an entry in the database.
pub(super) fn record_id(key: &[u8]) -> i64 {
    xxh3_64(key) as i64
}

/// Hashes a file's length, beginning and end, where containers store their tables, to identify its
/// content without reading all of it. For a remote file the tag suffices, without a request for the
/// end.
pub(super) fn content_hash(source: &dyn ByteSource) -> Result<u64> {
    if let Identity::Remote { tag, .. } = source.identity() {
        return Ok(xxh3_64(tag.as_bytes()));
    }
    let mut hash = Xxh3::new();
    hash.update(&source.len().to_le_bytes());
    let mut buffer = [0; HASHED_BYTES as usize];
    for at in [0, source.len().saturating_sub(HASHED_BYTES)] {
        let got = source.read_at(at, &mut buffer)?;
        hash.update(&buffer[..got]);
    }
    Ok(hash.digest())
}

/// Returns the key of an index: the absolute path, or the URL without its secrets, then the stream
/// if one was requested, so that indices of several streams of a file are cached separately.
pub(super) fn record_key(
    path: &Path,
    source: &dyn ByteSource,
    stream: Option<u32>,
) -> Option<Vec<u8>> {
    let mut key = match source.identity() {
        Identity::Remote { url, .. } => url.as_bytes().to_vec(),
        _ => std::path::absolute(path)
            .ok()?
            .into_os_string()
            .into_encoded_bytes(),
    };
    if let Some(stream) = stream {
        key.push(STREAM_SEPARATOR);
        key.extend(stream.to_le_bytes());
    }
    Some(key)
}

/// Returns the key of an audio index: that of a video index, and the audio stream, if one was
/// requested.
pub(super) fn audio_record_key(
    path: &Path,
    source: &dyn ByteSource,
    stream: Option<u32>,
) -> Option<Vec<u8>> {
    let mut key = record_key(path, source, None)?;
    key.extend([STREAM_SEPARATOR, AUDIO_MARK]);
    key.extend(stream.map(u32::to_le_bytes).into_iter().flatten());
    Some(key)
}

/// Returns the path or URL in a key.
pub(super) fn path_in_key(key: &[u8]) -> &[u8] {
    key.split(|&byte| byte == STREAM_SEPARATOR)
        .next()
        .unwrap_or(key)
}

/// Returns the path or URL of an encoded entry, whose other parts are not checked.
pub(super) fn path_of(encoded: &[u8]) -> Option<&Path> {
    let mut reader = VarintReader::new(encoded);
    if reader.byte()? != FORMAT {
        return None;
    }
    reader.u64_le()?;
    Some(Path::new(OsStr::from_bytes(path_in_key(
        reader.bytes(MAX_KEY_BYTES)?,
    ))))
}

/// Whether a local file was removed. If its folder is missing too, its file system may not be
/// mounted.
pub(super) fn is_missing(path: &Path) -> bool {
    as_url(path).is_none()
        && matches!(path.try_exists(), Ok(false))
        && path
            .parent()
            .is_some_and(|folder| matches!(folder.try_exists(), Ok(true)))
}

/// Days since 1970.
pub(super) fn today() -> i64 {
    unix_nanos(SystemTime::now()) / 86_400_000_000_000
}

/// Converts a time to nanoseconds since 1970.
pub(super) fn unix_nanos(time: SystemTime) -> i64 {
    let ns = |d: Duration| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX);
    time.duration_since(UNIX_EPOCH)
        .map_or_else(|before| -ns(before.duration()), ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::MemorySource;

    const DAY_NS: i64 = 86_400_000_000_000;

    fn entry() -> CacheRecord<'static> {
        let signature = FileSignature {
            len: 3,
            mtime_ns: 42,
            ctime_ns: 123_456_789,
        };
        let content_hash = content_hash(&MemorySource::new("m", b"abc")).unwrap();
        CacheRecord {
            key: b"/data/a.mp4",
            signature,
            read_ns: DAY_NS,
            content_hash,
            ffmpeg: "",
            index: b"index",
        }
    }

    #[test]
    fn any_flipped_bit_is_rejected() {
        let encoded = entry().encode();
        assert_eq!(CacheRecord::decode(&encoded), Some(entry()));
        for bit in 0..8 * encoded.len() {
            let mut damaged = encoded.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(CacheRecord::decode(&damaged), None, "bit {bit}");
        }
        assert!((0..encoded.len()).all(|len| CacheRecord::decode(&encoded[..len]).is_none()));
    }

    #[test]
    fn streams_of_a_file_have_distinct_keys() {
        let file = MemorySource::new("m", b"abc");
        let key = |stream| record_key(Path::new("/data/a.mp4"), &file, stream).unwrap();
        let keys = [None, Some(0), Some(1), Some(256), Some(u32::MAX)].map(key);
        for (n, key) in keys.iter().enumerate() {
            assert_eq!(path_in_key(key), b"/data/a.mp4");
            assert!(
                keys[..n]
                    .iter()
                    .all(|other| other != key && record_id(other) != record_id(key))
            );
        }
        let audio =
            |stream| audio_record_key(Path::new("/data/a.mp4"), &file, stream).expect("a key");
        let audio_keys = [None, Some(0), Some(97)].map(audio);
        for (n, key) in audio_keys.iter().enumerate() {
            assert_eq!(path_in_key(key), b"/data/a.mp4");
            assert!(!keys.contains(key) && !audio_keys[..n].contains(key));
        }
    }

    #[test]
    fn remote_file_is_identified_by_length_and_etag() {
        let identity = |len, tag: &str, start| Identity::Remote {
            url: "https://h/a".into(),
            len,
            tag: tag.into(),
            start,
        };
        let signature = |tag| FileSignature::of(&identity(3, tag, 0));
        assert_eq!(signature("\"x\""), signature("\"x\""));
        assert!(signature("\"x\"").is_some() && signature("\"x\"") != signature("\"y\""));
        assert!(signature("").is_none(), "it could change unnoticed");
        assert!(
            FileSignature::of(&identity(3, "\"x\"", 1)).is_none(),
            "a part"
        );
        assert_eq!(signature("t").unwrap().stable_after(DAY_NS), None);
    }

    #[test]
    fn changed_signature_does_not_match() {
        let (same, other) = (
            MemorySource::new("m", b"abc"),
            MemorySource::new("m", b"abd"),
        );
        let (entry, signature) = (entry(), entry().signature);
        assert!(entry.is_valid_for(&signature, &other)); // the content is not compared
        assert!(!entry.is_valid_for(
            &FileSignature {
                len: 4,
                ..signature
            },
            &same
        ));
        assert!(!entry.is_valid_for(
            &FileSignature {
                mtime_ns: 1,
                ..signature
            },
            &same
        ));
        assert!(entry.is_valid_for(
            &FileSignature {
                ctime_ns: 1,
                ..signature
            },
            &same
        ));
        assert!(!entry.is_valid_for(
            &FileSignature {
                ctime_ns: 1,
                ..signature
            },
            &other
        ));
        assert!(
            !CacheRecord {
                ffmpeg: "0.1",
                ..entry
            }
            .is_valid_for(&signature, &same)
        );
        assert!(
            CacheRecord {
                ffmpeg: &crate::ffmpeg::version(),
                ..entry
            }
            .is_valid_for(&signature, &same)
        );
    }

    #[test]
    fn recently_changed_file_is_not_trusted() {
        let is_trusted = |signature: FileSignature, after_ns| {
            let entry = CacheRecord {
                signature,
                read_ns: signature.ctime_ns + after_ns,
                ..entry()
            };
            entry.is_valid_for(&signature, &MemorySource::new("m", b"abc"))
        };
        let (fine, whole_seconds) = (
            entry().signature,
            FileSignature {
                ctime_ns: DAY_NS,
                ..entry().signature
            },
        );
        assert!(
            [-DAY_NS, 0, 19_999_999]
                .iter()
                .all(|&after_ns| !is_trusted(fine, after_ns))
        );
        assert!(is_trusted(fine, 20_000_000));
        assert!(
            !is_trusted(whole_seconds, 1_999_999_999) && is_trusted(whole_seconds, 2_000_000_000)
        );
        assert_eq!(
            fine.stable_after(fine.ctime_ns + 5_000_000),
            Some(Duration::from_millis(15))
        );
    }
}
