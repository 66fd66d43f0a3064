//! In: bytes as they could stand in the database. Out: what the store makes of them, for tests/fuzz.
//! Public for that crate only, and no part of what this library promises.
//! Never: opens a database.

use super::coding;
use super::entry::{Entry, Stamp};
use crate::error::Site;
use crate::index::VideoIndex;
use crate::limits::Limits;

/// An index, written down; `None` for one that is not stored.
pub fn written(index: &VideoIndex) -> Option<Vec<u8>> {
    coding::encode(index)
}

/// An index that was written down; its name is "stored".
pub fn read(bytes: &[u8], limits: &Limits) -> Option<VideoIndex> {
    coding::decode(bytes, Site::file(&"stored".into()), limits)
}

/// An index's bytes as an entry of the database.
pub fn sealed(index: &[u8]) -> Vec<u8> {
    let stamp = Stamp { len: 7, mtime_ns: 8, ctime_ns: 9 };
    Entry { key: b"/a.mp4", stamp, read_ns: 10, print: 11, ffmpeg: "9.0.1", index }.seal()
}

/// An entry read and sealed again; with `believed`, its checksum counts as right. `None` where it is none.
pub fn resealed(bytes: &[u8], believed: bool) -> Option<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    if believed {
        let sum = xxhash_rust::xxh3::xxh3_64(bytes.get(9..)?);
        bytes[0] = coding::FORMAT;
        bytes[1..9].copy_from_slice(&sum.to_le_bytes());
    }
    Entry::unseal(&bytes).map(|entry| entry.seal())
}
