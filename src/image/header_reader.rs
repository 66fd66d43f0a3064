//! Reads bytes near the start of a source through a buffered window, up to the limit on headers.

use crate::error::{Error, Result, Site};
use crate::limits::Limits;
use crate::source::ByteSource;

/// Most headers with their thumbnails and profiles fit into one or two windows.
const BUFFER_BYTES: usize = 16 << 10;

/// A window that moves over the start of a source.
pub(super) struct HeaderReader<'a> {
    source: &'a dyn ByteSource,
    site: Site,
    cap: u64,
    buffer: Vec<u8>,
    start: u64,
}

impl<'a> HeaderReader<'a> {
    pub(super) fn new(source: &'a dyn ByteSource, limits: &Limits) -> Self {
        let site = Site::file(source.name());
        Self {
            source,
            site,
            cap: limits.header_bytes,
            buffer: Vec::new(),
            start: 0,
        }
    }

    pub(super) fn site(&self) -> &Site {
        &self.site
    }

    /// Number of bytes of the whole source.
    pub(crate) fn source_len(&self) -> u64 {
        self.source.len()
    }

    /// `len` bytes from `offset` on, or as many as there are. `len` is at most that of a segment,
    /// 64 KiB.
    pub(crate) fn read_up_to(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        let inside = |this: &Self| {
            let at = usize::try_from(offset.checked_sub(this.start)?).ok()?;
            (at.checked_add(len)? <= this.buffer.len()).then_some(at)
        };
        if inside(self).is_none() {
            Limits::check(
                &self.site,
                "the length of the header",
                offset.saturating_add(len as u64),
                self.cap,
            )?;
            self.buffer.resize(BUFFER_BYTES.max(len), 0);
            let read = self.source.read_at(offset, &mut self.buffer)?;
            self.buffer.truncate(read);
            self.start = offset;
        }
        let at = inside(self).unwrap_or(0);
        Ok(&self.buffer[at..(at + len).min(self.buffer.len())])
    }

    /// Exactly `len` bytes from `offset` on.
    pub(crate) fn read_exact(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        if self.read_up_to(offset, len)?.len() < len {
            let end = offset.saturating_add(len as u64);
            return Err(Error::Truncated {
                site: self.site.clone(),
                offset,
                end,
                len: self.source.len(),
            });
        }
        self.read_up_to(offset, len)
    }

    /// A big-endian number of `N` bytes.
    pub(crate) fn read_be<const N: usize>(&mut self, offset: u64) -> Result<u32> {
        Ok(self
            .read_exact(offset, N)?
            .iter()
            .fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::MemorySource;

    #[test]
    fn reads_equal_the_source_across_windows() {
        let bytes: Vec<u8> = (0..3 * BUFFER_BYTES + 5)
            .map(|n| (n * 7 / 8) as u8)
            .collect();
        let source = MemorySource::new("m", bytes.clone());
        let mut head = HeaderReader::new(&source, &Limits::default());
        for offset in
            (0..bytes.len())
                .step_by(1021)
                .chain([0, BUFFER_BYTES - 1, 7, 2 * BUFFER_BYTES])
        {
            for len in [1, 2, 4096, 40_000] {
                let want = &bytes[offset..(offset + len).min(bytes.len())];
                assert_eq!(head.read_up_to(offset as u64, len).unwrap(), want);
            }
        }
        assert_eq!(
            head.read_be::<2>(0).unwrap(),
            u32::from(bytes[0]) << 8 | u32::from(bytes[1])
        );
        let err = head.read_exact(bytes.len() as u64 - 1, 2).unwrap_err();
        assert!(matches!(err, Error::Truncated { .. }), "{err}");
        assert!(head.read_up_to(u64::MAX, 1).is_err());
    }
}
