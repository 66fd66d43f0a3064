//! Reads short ranges of a file through a window, so that nearby ranges take one read.
//! A range outside the file is an error with its offset. Callers must limit the length of a range.

use std::path::Path;
use std::sync::Arc;

use framespool::error::{Error, Location, Result, Site};
use framespool::limits::resize;
use framespool::source::{self, ByteSource};

/// Size of the window: headers of small adjacent members come with one read, and what is read in
/// vain before a large member costs no more than the read itself.
const MIN_READ_BYTES: u64 = 16 << 10;

/// A file from which short ranges are read.
pub(crate) struct RangeReader {
    source: Arc<dyn ByteSource>,
    /// The bytes that were read last, from `cached_offset` on.
    cached: Vec<u8>,
    cached_offset: u64,
}

impl RangeReader {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Ok(Self::new(source::open(path)?))
    }

    /// Wraps a source that is already open.
    pub(crate) fn new(source: Arc<dyn ByteSource>) -> Self {
        Self {
            source,
            cached: Vec::new(),
            cached_offset: 0,
        }
    }

    /// Length of the file.
    pub(crate) fn len(&self) -> u64 {
        self.source.len()
    }

    /// An offset in the file, for error messages.
    pub(crate) fn site(&self, offset: u64) -> Site {
        Site::file(self.source.name()).with(Location::Byte(offset))
    }

    /// The error for damage at an offset.
    pub(crate) fn malformed(&self, offset: u64, reason: impl Into<String>) -> Error {
        Error::malformed(&self.site(offset), reason)
    }

    /// An error if the file ends before `offset + len`.
    pub(crate) fn check(&self, offset: u64, len: u64) -> Result<()> {
        let end = offset.saturating_add(len);
        if end > self.len() {
            return Err(Error::Truncated {
                site: self.site(offset),
                offset,
                end,
                len: self.len(),
            });
        }
        Ok(())
    }

    /// Bytes `offset..offset + len`.
    pub(crate) fn get(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        self.check(offset, len as u64)?;
        let held = offset
            .checked_sub(self.cached_offset)
            .filter(|from| from + len as u64 <= self.cached.len() as u64);
        let from = match held {
            Some(from) => from as usize,
            None => {
                // Taken out, so that a failed read does not leave a window with other contents.
                let mut cached = std::mem::take(&mut self.cached);
                let wanted = MIN_READ_BYTES.max(len as u64).min(self.len() - offset);
                resize(&self.site(offset), &mut cached, wanted as usize)?;
                cached.truncate(wanted as usize);
                let got = self.source.read_at(offset, &mut cached)?;
                cached.truncate(got);
                if got < len {
                    // The file has become shorter since it was opened.
                    let end = offset + len as u64;
                    return Err(Error::Truncated {
                        site: self.site(offset),
                        offset,
                        end,
                        len: offset + got as u64,
                    });
                }
                (self.cached, self.cached_offset) = (cached, offset);
                0
            }
        };
        Ok(&self.cached[from..from + len])
    }

    /// The `N` bytes from `offset` on.
    pub(crate) fn read_array<const N: usize>(&mut self, offset: u64) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.get(offset, N)?);
        Ok(array)
    }
}

/// A sequential reader over a source.
pub(crate) struct SourceReader {
    source: Arc<dyn ByteSource>,
    at: u64,
}

impl SourceReader {
    pub(crate) fn new(source: Arc<dyn ByteSource>, at: u64) -> Self {
        Self { source, at }
    }
}

impl std::io::Read for SourceReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self
            .source
            .read_at(self.at, buffer)
            .map_err(std::io::Error::other)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Converts an error of a [`SourceReader`] back into an [`Error`].
pub(crate) fn from_io_error(site: &Site, error: std::io::Error) -> Error {
    match error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Error>())
    {
        Some(own) => own.clone(),
        None => Error::io(site, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::TempFolder;

    #[test]
    fn any_range_equals_the_file() {
        let bytes: Vec<u8> = (0..100_000u32).map(|i| ((i * 7919) >> 5) as u8).collect();
        let root = TempFolder::new();
        let mut reader = RangeReader::open(&root.write("x", &bytes)).unwrap();
        for (offset, len) in [
            (0, 10),
            (5, 5),
            (16_380, 8),
            (16_380, 70_000),
            (99_999, 1),
            (100_000, 0),
            (0, 100_000),
            (3, 0),
        ] {
            assert_eq!(
                reader.get(offset as u64, len).unwrap(),
                &bytes[offset..offset + len],
                "{offset} {len}"
            );
        }
        assert_eq!(reader.read_array::<4>(50).unwrap(), bytes[50..54]);
        for (offset, len) in [(99_999, 2), (100_001, 0), (u64::MAX, 1)] {
            let error = reader.get(offset, len).unwrap_err();
            assert!(matches!(error, Error::Truncated { .. }), "{error}");
            assert!(
                error
                    .to_string()
                    .contains(&format!("x, byte {offset}: needs bytes")),
                "{error}"
            );
        }
    }

    #[test]
    fn shrunk_file_is_truncated_at_its_new_end() {
        let root = TempFolder::new();
        let path = root.write("x", vec![1; 50_000]);
        let mut reader = RangeReader::open(&path).unwrap();
        assert!(reader.get(0, 4).is_ok());
        std::fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(20_010)
            .unwrap();
        let error = reader.get(20_000, 100).unwrap_err();
        assert!(
            matches!(error, Error::Truncated { len: 20_010, .. }),
            "{error}"
        );
        assert!(reader.get(20_000, 10).is_ok());
    }
}
