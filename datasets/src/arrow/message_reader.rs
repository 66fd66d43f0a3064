//! Reads the schema of an Arrow IPC file or stream, and its messages in order with the ranges of
//! their bodies. A stream begins with the schema; a file ends with a footer of the schema and the
//! messages' offsets. Bodies are read only on request. Lengths are checked before use.

use std::sync::Arc;

use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::MetadataVersion;
use arrow_ipc::convert::MessageBuffer;
use arrow_schema::Schema;
use framespool::error::{Error, Location, Result, Site};
use framespool::limits::Limits;
use framespool::source::ByteSource;

use super::values::catch_panic;

/// The magic number at both ends of a file; a stream has none.
const MAGIC: &[u8; 6] = b"ARROW1";
/// Bytes at the end of a file: the length of the footer, and the magic number.
const TRAILER_BYTES: u64 = 10;
/// The continuation marker before the length of a message, since Arrow 0.15.
const CONTINUATION: u32 = u32::MAX;

/// An iterator over the messages of a file or stream.
pub(crate) struct MessageReader {
    source: Arc<dyn ByteSource>,
    next: NextMessage,
}

/// Where the next message is stored.
enum NextMessage {
    /// At this offset, unless the stream ends there.
    At(u64),
    /// At the offsets in the footer.
    Footer(std::vec::IntoIter<u64>),
}

/// One message.
pub(super) struct Message {
    /// Offset of its first byte.
    pub at: u64,
    pub header: MessageBuffer,
    /// Offset and length of its body.
    pub body: (u64, u64),
}

impl MessageReader {
    /// The messages of a file or stream, and its schema.
    pub(super) fn open(source: Arc<dyn ByteSource>) -> Result<(Self, Schema)> {
        let mut messages = Self {
            source,
            next: NextMessage::At(0),
        };
        let mut begin = [0; 8];
        let site = messages.site(0);
        messages.source.read_exact_at(&site, 0, &mut begin)?;
        if begin.starts_with(MAGIC) {
            let schema = messages.read_footer()?;
            return Ok((messages, schema));
        }
        let [a, b, c, d, ..] = begin;
        if !matches!(
            u32::from_le_bytes([a, b, c, d]),
            CONTINUATION | 1..=0xff_ffff
        ) {
            return Err(Error::malformed(
                &site,
                "does not start like an Arrow file or stream",
            ));
        }
        let message = messages.next()?;
        let schema = message
            .as_ref()
            .and_then(|message| message.header.as_ref().header_as_schema());
        let schema =
            schema.ok_or_else(|| Error::malformed(&site, "does not start with a schema"))?;
        let schema = read_schema(&site, schema)?;
        Ok((messages, schema))
    }

    /// Reads the footer of a file.
    fn read_footer(&mut self) -> Result<Schema> {
        let trailer_at = self.source.len().saturating_sub(TRAILER_BYTES);
        let site = self.site(trailer_at);
        let mut trailer = [0; TRAILER_BYTES as usize];
        self.source.read_exact_at(&site, trailer_at, &mut trailer)?;
        let [a, b, c, d, mark @ ..] = trailer;
        let len = u64::from(u32::from_le_bytes([a, b, c, d]));
        let begin = trailer_at.checked_sub(len).filter(|_| mark == *MAGIC);
        let begin = begin.ok_or_else(|| {
            Error::malformed(&site, "does not end like an Arrow file: it is truncated")
        })?;
        let site = self.site(begin);
        Limits::check(
            &site,
            "bytes of the footer",
            len,
            Limits::default().header_bytes,
        )?;
        let bytes = self.bytes(begin, len)?;
        let list = arrow_ipc::root_as_footer(&bytes)
            .map_err(|error| Error::malformed(&site, format!("an invalid footer: {error}")))?;
        // Dictionaries are read before the record batches that use them.
        let blocks = list
            .dictionaries()
            .into_iter()
            .chain(list.recordBatches())
            .flatten();
        let offsets: Vec<u64> = blocks
            .map(|block| u64::try_from(block.offset()).unwrap_or(u64::MAX))
            .collect();
        let schema = list
            .schema()
            .ok_or_else(|| Error::malformed(&site, "has no schema"))?;
        self.next = NextMessage::Footer(offsets.into_iter());
        read_schema(&site, schema)
    }

    /// The next message; `None` after the last one.
    pub(super) fn next(&mut self) -> Result<Option<Message>> {
        let at = match &mut self.next {
            NextMessage::At(at) if *at == self.source.len() => return Ok(None), // a stream may end without a marker
            NextMessage::At(at) => *at,
            NextMessage::Footer(offsets) => match offsets.next() {
                Some(at) => at,
                None => return Ok(None),
            },
        };
        let (mut header_at, mut len) = (at.saturating_add(4), self.number(at)?);
        if len == CONTINUATION {
            (header_at, len) = (at + 8, self.number(at + 4)?);
        }
        if len == 0 {
            self.next = NextMessage::At(self.source.len());
            return Ok(None);
        }
        let site = self.site(at);
        Limits::check(
            &site,
            "bytes of a message header",
            len.into(),
            Limits::default().header_bytes,
        )?;
        let header = self.bytes(header_at, len.into())?;
        let header = MessageBuffer::try_new(header)
            .map_err(|error| Error::malformed(&site, format!("an invalid message: {error}")))?;
        let body_len = header.as_ref().bodyLength();
        let body = (
            header_at + u64::from(len),
            u64::try_from(body_len).unwrap_or(u64::MAX),
        );
        self.check(body.0, body.1)?;
        if header.as_ref().version() < MetadataVersion::V4 {
            return Err(Error::Unsupported {
                site,
                what: "Arrow before version 0.8".to_owned(),
            });
        }
        if let NextMessage::At(at) = &mut self.next {
            *at = body.0 + body.1;
        }
        Ok(Some(Message { at, header, body }))
    }

    /// Reads a range of the file into memory that is aligned for any type.
    pub(super) fn bytes(&self, offset: u64, len: u64) -> Result<Buffer> {
        self.check(offset, len)?;
        let mut bytes = MutableBuffer::from_len_zeroed(len as usize);
        self.source
            .read_exact_at(&self.site(offset), offset, bytes.as_slice_mut())?;
        Ok(bytes.into())
    }

    /// An offset in the file, for error messages.
    pub(super) fn site(&self, offset: u64) -> Site {
        Site::file(self.source.name()).with(Location::Byte(offset))
    }

    fn number(&self, offset: u64) -> Result<u32> {
        let mut bytes = [0; 4];
        self.check(offset, 4)?;
        self.source
            .read_exact_at(&self.site(offset), offset, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn check(&self, offset: u64, len: u64) -> Result<()> {
        let end = offset.saturating_add(len);
        if end > self.source.len() {
            return Err(Error::Truncated {
                site: self.site(offset),
                offset,
                end,
                len: self.source.len(),
            });
        }
        Ok(())
    }
}

fn read_schema(site: &Site, schema: arrow_ipc::Schema) -> Result<Schema> {
    if !schema.endianness().equals_to_target_endianness() {
        let what = "big-endian data".to_owned();
        return Err(Error::Unsupported {
            site: site.clone(),
            what,
        });
    }
    catch_panic(site, || arrow_ipc::convert::try_fb_to_schema(schema))
}
