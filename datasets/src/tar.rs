//! Iterates over the members of a tar file: POSIX ustar and pax, GNU long names, and the pre-POSIX
//! format. Reads headers and skips contents. A header is used only if its checksum and its lengths
//! are valid.

mod header;
mod pax;

use std::path::Path;

use framespool::error::{Error, Result, Site};
use framespool::limits::Limits;
use framespool::source::display_name;

use crate::range_reader::RangeReader;
use header::{BLOCK_BYTES, TarHeader};
use pax::PaxRecords;

/// Maximum length of a name or of a pax header.
const MAX_EXTENDED_HEADER_BYTES: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TarMemberKind {
    /// A file whose bytes are stored here.
    File,
    /// A hard or symbolic link, whose bytes are stored elsewhere.
    Link,
    /// A sparse file, whose bytes are not stored contiguously.
    Sparse,
    /// The continuation of a file that begins in another archive.
    Continued,
    /// A directory, a device, or a vendor-specific type.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TarMember {
    /// The name, with invalid UTF-8 replaced.
    pub name: String,
    /// Offset of its header; of the first one if it has several.
    pub header: u64,
    /// Offset of its bytes.
    pub offset: u64,
    /// Number of its bytes.
    pub len: u64,
    pub kind: TarMemberKind,
}

/// A tar file that is being read.
pub(crate) struct TarReader {
    reader: RangeReader,
    /// Offset of the next header; `None` after the last one.
    next: Option<u64>,
}

impl TarReader {
    /// # Errors
    /// `Unsupported` for a compressed file, `Truncated` for an empty file, and the errors of
    /// opening it.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let mut reader = RangeReader::open(path)?;
        let head = reader.len().min(6) as usize;
        if let Some((format, command)) = compression_format(reader.get(0, head)?) {
            return Err(Error::Unsupported {
                site: Site::file(&display_name(path)),
                what: format!(
                    "a tar compressed with {format}, whose members cannot be read in place (unpack it \
                     first: {command}),"
                ),
            });
        }
        Ok(Self {
            reader,
            next: Some(0),
        })
    }

    /// Length of the file.
    pub(crate) fn len(&self) -> u64 {
        self.reader.len()
    }

    /// Compares a member listed in an index file with its header, and fails unless offset and
    /// length match.
    pub(crate) fn check(&mut self, member: &TarMember) -> Result<()> {
        let at = member
            .offset
            .checked_sub(BLOCK_BYTES)
            .filter(|at| at % BLOCK_BYTES == 0);
        let header = match at.map(|at| self.header(at)) {
            Some(Err(Error::Malformed { .. })) | None => None,
            Some(header) => header?,
        };
        // If the length does not fit its field, the header has 0 there, and an earlier header has
        // the length.
        let fits = header.is_some_and(|header| {
            matches!(header.kind, 0 | b'0' | b'7') && [0, member.len].contains(&header.len)
        });
        match fits {
            true => Ok(()),
            false => Err(self.reader.malformed(
                member.offset,
                format!(
                    "is not a file of {} bytes, which its index states for '{}'; create the index again",
                    member.len, member.name
                ),
            )),
        }
    }

    /// An offset in the file, for error messages.
    pub(crate) fn site(&self, offset: u64) -> Site {
        self.reader.site(offset)
    }

    /// The next member; `None` after the last one.
    ///
    /// # Errors
    /// `Malformed` or `Truncated`, with the offset. After an error there are no further members.
    pub(crate) fn next(&mut self) -> Result<Option<TarMember>> {
        let Some(at) = self.next.take() else {
            return Ok(None);
        };
        let member = self.member_at(at)?;
        self.next = member.as_ref().map(|(_, next)| *next);
        Ok(member.map(|(member, _)| member))
    }

    /// The bytes of a member, if there are at most `cap`.
    pub(crate) fn content(
        &mut self,
        member: &TarMember,
        what: &'static str,
        max_bytes: u64,
    ) -> Result<&[u8]> {
        let len = Limits::check(&self.site(member.header), what, member.len, max_bytes)?;
        self.reader.get(member.offset, len as usize)
    }

    /// The member whose first header is at `first`, and the offset of the next header.
    fn member_at(&mut self, first: u64) -> Result<Option<(TarMember, u64)>> {
        let (mut at, mut records) = (first, PaxRecords::default());
        loop {
            let Some(header) = self.header(at)? else {
                if at != first {
                    return Err(self
                        .reader
                        .malformed(at, "the archive ends after a name, without its member"));
                }
                return Ok(None);
            };
            let mut offset = at + BLOCK_BYTES;
            if header.kind == b'S' {
                offset = self.skip_sparse_map(at, &header)?;
            }
            let len = match header.kind {
                // Links, devices, directories and pipes have no contents, also if their headers
                // give a length.
                b'1'..=b'6' => 0,
                b'x' | b'g' | b'X' | b'L' | b'K' => header.len,
                _ => records.len.unwrap_or(header.len),
            };
            self.reader.check(offset, len)?;
            // No overflow: the end is in the file.
            let next = offset + len.next_multiple_of(BLOCK_BYTES);
            match header.kind {
                b'x' | b'X' | b'g' => {
                    let text = self.record(at, offset, len)?;
                    let read = match header.kind {
                        b'g' => pax::check_global(text),
                        _ => records.read(text),
                    };
                    read.map_err(|reason| self.reader.malformed(at, reason))?;
                }
                b'L' => records.long_name = Some(nul_terminated(self.record(at, offset, len)?)),
                b'K' => {} // link target
                kind => {
                    let sparse = records.sparse || kind == b'S';
                    let name = records.take_name().unwrap_or(header.name);
                    let kind = match kind {
                        _ if sparse => TarMemberKind::Sparse,
                        // Old archives mark directories only by a trailing slash in the name.
                        0 if name.ends_with('/') => TarMemberKind::Other,
                        0 | b'0' | b'7' => TarMemberKind::File,
                        b'1' | b'2' => TarMemberKind::Link,
                        b'M' => TarMemberKind::Continued,
                        _ => TarMemberKind::Other,
                    };
                    let member = TarMember {
                        name,
                        header: first,
                        offset,
                        len,
                        kind,
                    };
                    return Ok(Some((member, next)));
                }
            }
            at = next;
        }
    }

    /// The header at an offset; `None` at the end of the archive.
    fn header(&mut self, at: u64) -> Result<Option<TarHeader>> {
        let block = self.reader.read_array(at)?;
        if block == [0; BLOCK_BYTES as usize] {
            self.check_end(at)?;
            return Ok(None);
        }
        let header =
            TarHeader::parse(&block).map_err(|reason| self.reader.malformed(at, reason))?;
        Ok(Some(header))
    }

    /// Checks that only zeros follow the end mark, as far as archives are usually padded. Otherwise
    /// an archive that was appended to this one would be lost without notice.
    fn check_end(&mut self, at: u64) -> Result<()> {
        const MAX_PADDING_BYTES: u64 = 64 << 10;
        let behind = MAX_PADDING_BYTES.min(self.reader.len() - at);
        if let Some(stray) = self
            .reader
            .get(at, behind as usize)?
            .iter()
            .position(|&byte| byte != 0)
        {
            let offset = at + stray as u64 / BLOCK_BYTES * BLOCK_BYTES;
            return Err(self.reader.malformed(
                offset,
                format!("there is data after the end of the archive at byte {at}, such as another archive"),
            ));
        }
        Ok(())
    }

    /// The contents of an extension header, which describes the next header: a name, or pax
    /// records.
    fn record(&mut self, at: u64, offset: u64, len: u64) -> Result<&[u8]> {
        let site = self.reader.site(at);
        let len = Limits::check(
            &site,
            "bytes of a name or of a pax header",
            len,
            MAX_EXTENDED_HEADER_BYTES,
        )?;
        self.reader.get(offset, len as usize)
    }

    /// Offset of the data of a GNU sparse member, after the blocks that continue its sparse map.
    fn skip_sparse_map(&mut self, at: u64, header: &TarHeader) -> Result<u64> {
        let (mut offset, mut more) = (at + BLOCK_BYTES, header.sparse_map_continues);
        while more {
            let block: [u8; BLOCK_BYTES as usize] = self.reader.read_array(offset)?;
            more = block[504] != 0;
            offset += BLOCK_BYTES;
        }
        Ok(offset)
    }
}

/// The compression format that a file's first bytes identify, and the command that decompresses it.
fn compression_format(head: &[u8]) -> Option<(&'static str, &'static str)> {
    let formats: [(&[u8], _, _); 5] = [
        (b"\x1f\x8b", "gzip", "gunzip"),
        (b"\x28\xb5\x2f\xfd", "zstd", "unzstd"),
        (b"\xfd7zXZ\0", "xz", "unxz"),
        (b"BZh", "bzip2", "bunzip2"),
        (b"\x04\x22\x4d\x18", "lz4", "unlz4"),
    ];
    formats
        .iter()
        .find(|(magic, ..)| head.starts_with(magic))
        .map(|&(_, format, command)| (format, command))
}

/// The text before the first NUL.
fn nul_terminated(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
pub(crate) mod tests;
