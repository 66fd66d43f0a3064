//! The records of a segment file: a header with checksums, and the bytes of a clip.

use std::fs::File;
use std::io::Result;
use std::os::unix::fs::FileExt;

use xxhash_rust::xxh3::xxh3_64;

/// Records begin at multiples of this.
pub(super) const ALIGN: u64 = 64;

/// Length of a header.
pub(super) const HEADER_BYTES: u64 = 64;

/// Identifies the format of a record.
const MAGIC: [u8; 8] = *b"fspclip1";

/// Space that a clip takes.
pub fn record_bytes(len: u64) -> u64 {
    (HEADER_BYTES + len).next_multiple_of(ALIGN)
}

/// What precedes the bytes of a clip.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Header {
    pub key: u128,
    pub tag: [u32; 4],
    pub len: u64,
    sum: u64,
}

impl Header {
    pub(super) fn new(key: u128, tag: [u32; 4], bytes: &[u8]) -> Self {
        Self {
            key,
            tag,
            len: bytes.len() as u64,
            sum: xxh3_64(bytes),
        }
    }

    fn encode(&self) -> [u8; HEADER_BYTES as usize] {
        let mut out = [0; HEADER_BYTES as usize];
        out[..8].copy_from_slice(&MAGIC);
        out[8..24].copy_from_slice(&self.key.to_le_bytes());
        for (to, value) in out[24..40].chunks_exact_mut(4).zip(self.tag) {
            to.copy_from_slice(&value.to_le_bytes());
        }
        out[40..48].copy_from_slice(&self.len.to_le_bytes());
        out[48..56].copy_from_slice(&self.sum.to_le_bytes());
        let sum = xxh3_64(&out[..56]);
        out[56..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8; HEADER_BYTES as usize]) -> Option<Self> {
        let u64_at = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let u32_at = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        if bytes[..8] != MAGIC || u64_at(56)? != xxh3_64(&bytes[..56]) {
            return None;
        }
        Some(Self {
            key: u128::from_le_bytes(bytes[8..24].try_into().ok()?),
            tag: [u32_at(24)?, u32_at(28)?, u32_at(32)?, u32_at(36)?],
            len: u64_at(40)?,
            sum: u64_at(48)?,
        })
    }

    /// Reads the header at `start`; `None` if it is damaged or truncated.
    pub(super) fn read(file: &File, start: u64) -> Option<Self> {
        let mut bytes = [0; HEADER_BYTES as usize];
        file.read_exact_at(&mut bytes, start).ok()?;
        Self::decode(&bytes)
    }

    /// Reads the bytes of the clip, which begin at `start`; false if they are damaged or truncated.
    pub(crate) fn read_bytes(&self, file: &File, start: u64, to: &mut [u8]) -> bool {
        file.read_exact_at(to, start).is_ok() && xxh3_64(to) == self.sum
    }

    /// Writes the record at `start`; the header last, so that an incomplete record has none.
    pub(super) fn write(&self, file: &File, start: u64, bytes: &[u8]) -> Result<()> {
        file.write_all_at(bytes, start + HEADER_BYTES)?;
        file.write_all_at(&self.encode(), start)
    }
}
