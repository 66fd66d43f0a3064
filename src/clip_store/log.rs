//! The log of a process: the key and the position of each clip that it has stored.

use std::fs::File;
use std::io::{Read, Result, Seek, SeekFrom, Write};
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

/// Name of the log in the folder of a process.
pub(crate) const LOG_NAME: &str = "log";

/// Length of an entry in the file.
const ENTRY_BYTES: usize = 40;

/// Entries read at a time.
const ENTRIES_PER_READ: usize = 4096;

/// One stored clip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogEntry {
    pub key: u128,
    pub due: u64,
    /// Number of the segment.
    pub segment: u32,
    /// Position in the segment, in units of [`ALIGN`](super::segment::ALIGN).
    pub offset: u32,
}

impl LogEntry {
    fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut out = [0; ENTRY_BYTES];
        out[..16].copy_from_slice(&self.key.to_le_bytes());
        out[16..24].copy_from_slice(&self.due.to_le_bytes());
        out[24..28].copy_from_slice(&self.segment.to_le_bytes());
        out[28..32].copy_from_slice(&self.offset.to_le_bytes());
        let sum = xxh3_64(&out[..32]);
        out[32..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (content, sum) = bytes.split_at_checked(32)?;
        if u64::from_le_bytes(sum.try_into().ok()?) != xxh3_64(content) {
            return None;
        }
        Some(Self {
            key: u128::from_le_bytes(content[..16].try_into().ok()?),
            due: u64::from_le_bytes(content[16..24].try_into().ok()?),
            segment: u32::from_le_bytes(content[24..28].try_into().ok()?),
            offset: u32::from_le_bytes(content[28..].try_into().ok()?),
        })
    }
}

/// Appends to the log of this process.
pub(crate) struct LogWriter {
    file: File,
    /// Its length in bytes.
    len: u64,
}

impl LogWriter {
    pub(super) fn new(file: File) -> Self {
        Self { file, len: 0 }
    }

    pub(super) fn append(&mut self, entry: &LogEntry) -> Result<()> {
        if let Err(error) = self.file.write_all(&entry.encode()) {
            self.undo_partial()?;
            return Err(error);
        }
        self.len += ENTRY_BYTES as u64;
        Ok(())
    }

    /// Removes a part of an entry, such as a full disk has taken: it would end the log for its
    /// readers.
    pub(crate) fn undo_partial(&mut self) -> Result<()> {
        self.file.set_len(self.len)
    }
}

/// Reads the log of another process, from where it stopped the last time.
#[derive(Default)]
pub(crate) struct LogReader {
    position: u64,
}

impl LogReader {
    /// The number of entries that are not read yet, at most.
    pub(crate) fn num_new(&self, folder: &Path) -> u64 {
        let len = std::fs::metadata(folder.join(LOG_NAME)).map_or(0, |metadata| metadata.len());
        len.saturating_sub(self.position) / ENTRY_BYTES as u64
    }

    /// Calls `take` for each new entry. A damaged entry, such as a cut last one, ends the log for
    /// good: the positions after it are unknown.
    pub(crate) fn read_new(&mut self, folder: &Path, mut take: impl FnMut(LogEntry)) -> Result<()> {
        let mut file = File::open(folder.join(LOG_NAME))?;
        file.seek(SeekFrom::Start(self.position))?;
        let mut bytes = vec![0; ENTRY_BYTES * ENTRIES_PER_READ];
        loop {
            let mut filled = 0;
            while filled < bytes.len() {
                match file.read(&mut bytes[filled..])? {
                    0 => break,
                    more => filled += more,
                }
            }
            for entry in bytes[..filled].chunks_exact(ENTRY_BYTES) {
                let Some(entry) = LogEntry::decode(entry) else {
                    return Ok(());
                };
                self.position += ENTRY_BYTES as u64;
                take(entry);
            }
            if filled < bytes.len() {
                return Ok(());
            }
        }
    }
}
