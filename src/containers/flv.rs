//! Reads the encryption that an FLV tag declares.

use crate::error::Result;
use crate::source::ByteSource;

/// Encryption of the video tag at `at`.
pub(super) fn packet_encryption(source: &dyn ByteSource, at: u64) -> Result<Option<&'static str>> {
    const VIDEO_TAG: u8 = 9;
    const FILTER: u8 = 0x20;
    let mut head = [0];
    let is_filtered = source.read_at(at, &mut head)? == 1 && head[0] & 0x3f == FILTER | VIDEO_TAG;
    Ok(is_filtered.then_some("FLV encryption filter"))
}
