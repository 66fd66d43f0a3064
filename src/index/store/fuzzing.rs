//! Exposes the encoding of cache entries to tests/fuzz without a database. Not part of the public API.

use super::coding;
use super::entry::{Entry, Stamp};
use crate::error::Site;
use crate::index::VideoIndex;
use crate::limits::Limits;

/// Encodes an index; `None` for one that cannot be cached.
pub fn written(index: &VideoIndex) -> Option<Vec<u8>> {
    coding::encode(index)
}

/// Decodes an index, which is named "stored".
pub fn read(bytes: &[u8], limits: &Limits) -> Option<VideoIndex> {
    coding::decode(bytes, Site::file(&"stored".into()), limits)
}

/// Wraps an encoded index in a database entry.
pub fn sealed(index: &[u8]) -> Vec<u8> {
    let stamp = Stamp { len: 7, mtime_ns: 8, ctime_ns: 9 };
    Entry { key: b"/a.mp4", stamp, read_ns: 10, print: 11, ffmpeg: "9.0.1", index }.seal()
}

/// Decodes an entry and encodes it again; with `believed`, its checksum is corrected first. `None` if it is
/// invalid.
pub fn resealed(bytes: &[u8], believed: bool) -> Option<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    if believed {
        let sum = xxhash_rust::xxh3::xxh3_64(bytes.get(9..)?);
        bytes[0] = coding::FORMAT;
        bytes[1..9].copy_from_slice(&sum.to_le_bytes());
    }
    Entry::unseal(&bytes).map(|entry| entry.seal())
}
