//! Exposes the encoding of cache entries to tests/fuzz without a database. Not part of the public
//! API.

use super::codec;
use super::record::{CacheRecord, FileSignature};
use crate::error::Site;
use crate::index::VideoIndex;
use crate::limits::Limits;

/// Encodes an index; `None` for one that cannot be cached.
pub fn encode_index(index: &VideoIndex) -> Option<Vec<u8>> {
    codec::encode(index)
}

/// Decodes an index, which is named "stored".
pub fn decode_index(bytes: &[u8], limits: &Limits) -> Option<VideoIndex> {
    codec::decode(bytes, Site::file(&"stored".into()), limits)
}

/// Wraps an encoded index in a database entry.
pub fn encode_record(index: &[u8]) -> Vec<u8> {
    let signature = FileSignature {
        len: 7,
        mtime_ns: 8,
        ctime_ns: 9,
    };
    CacheRecord {
        key: b"/a.mp4",
        signature,
        read_ns: 10,
        content_hash: 11,
        ffmpeg: "9.0.1",
        index,
    }
    .encode()
}

/// Decodes an entry and encodes it again; with `fix_checksum`, its checksum is corrected first.
/// `None` if it is invalid.
pub fn reencode_record(bytes: &[u8], fix_checksum: bool) -> Option<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    if fix_checksum {
        let sum = xxhash_rust::xxh3::xxh3_64(bytes.get(9..)?);
        bytes[0] = codec::FORMAT;
        bytes[1..9].copy_from_slice(&sum.to_le_bytes());
    }
    CacheRecord::decode(&bytes).map(|entry| entry.encode())
}
