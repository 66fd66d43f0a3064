//! Opens a Parquet file and parses its footer with the `parquet` crate.
//! Every size is checked before the crate uses it, and a panic in the crate becomes an error.

use std::io::BufReader;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use framespool::error::{Error, Location, Result, Site};
use framespool::limits::{Limits, resize};
use framespool::source::{self, ByteSource, Identity};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};

use crate::columnar::MAX_ROWS;
use crate::range_reader::SourceReader;

/// The magic numbers at the end of a file, which follow the length of the footer.
const MAGIC: [u8; 4] = *b"PAR1";
const ENCRYPTED: [u8; 4] = *b"PARE";
const TRAILER_BYTES: u64 = 8;

/// A source from which the crate reads, with positioned reads.
#[derive(Clone)]
pub(crate) struct ChunkSource(pub Arc<dyn ByteSource>);

impl Length for ChunkSource {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl ChunkReader for ChunkSource {
    type T = BufReader<SourceReader>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        Ok(BufReader::new(SourceReader::new(self.0.clone(), start)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let site = Site::file(self.0.name()).with(Location::Byte(start));
        let end = start.saturating_add(length as u64);
        if end > self.0.len() {
            let error = Error::Truncated {
                site,
                offset: start,
                end,
                len: self.0.len(),
            };
            return Err(ParquetError::External(Box::new(error)));
        }
        let mut bytes = Vec::new();
        resize(&site, &mut bytes, length)
            .map_err(|error| ParquetError::External(Box::new(error)))?;
        let read = self.0.read_exact_at(&site, start, &mut bytes);
        read.map_err(|error| ParquetError::External(Box::new(error)))?;
        Ok(bytes.into())
    }
}

/// An open Parquet file with its parsed footer.
pub(crate) struct ParquetFile {
    pub chunk_source: ChunkSource,
    pub metadata: Arc<ParquetMetaData>,
}

impl ParquetFile {
    /// # Errors
    /// `Malformed`, `Truncated` or `Limit` with the offset, `Unsupported` for an encrypted file.
    pub(super) fn open(path: &Path) -> Result<Self> {
        Self::read(source::open(path)?)
    }

    /// Like [`Self::open`], for a source that is already open.
    pub(super) fn read(source: Arc<dyn ByteSource>) -> Result<Self> {
        let chunk_source = ChunkSource(source.clone());
        let trailer_at = source.len().saturating_sub(TRAILER_BYTES);
        let site = Site::file(source.name()).with(Location::Byte(trailer_at));
        let mut trailer = [0; TRAILER_BYTES as usize];
        source.read_exact_at(&site, trailer_at, &mut trailer)?;
        let [a, b, c, d, magic @ ..] = trailer;
        match magic {
            MAGIC => {}
            ENCRYPTED => {
                return Err(Error::Unsupported {
                    site,
                    what: "an encrypted Parquet file".to_owned(),
                });
            }
            _ => {
                let reason = "does not end like a Parquet file: it is not one, or it is truncated";
                return Err(Error::malformed(&site, reason));
            }
        }
        let footer = u64::from(u32::from_le_bytes([a, b, c, d]));
        Limits::check(
            &site,
            "bytes of a footer",
            footer,
            Limits::default().header_bytes,
        )?;
        if footer > trailer_at {
            return Err(Error::malformed(
                &site,
                format!("a footer of {footer} bytes in a file of {}", source.len()),
            ));
        }
        let metadata = catch_panic(&site, || {
            ParquetMetaDataReader::new().parse_and_finish(&chunk_source)
        })?;
        let file = Self {
            chunk_source,
            metadata: Arc::new(metadata),
        };
        file.check_rows(&site)?;
        Ok(file)
    }

    pub(super) fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }

    pub(super) fn identity(&self) -> Identity {
        self.chunk_source.0.identity()
    }

    /// An offset in the file, for error messages.
    pub(super) fn site(&self, offset: u64) -> Site {
        Site::file(self.chunk_source.0.name()).with(Location::Byte(offset))
    }

    fn check_rows(&self, site: &Site) -> Result<()> {
        let mut rows = 0u64;
        for group in self.metadata().row_groups() {
            let more = u64::try_from(group.num_rows());
            rows = more.map_or(u64::MAX, |more| rows.saturating_add(more));
            for chunk in group.columns() {
                let begin = chunk
                    .dictionary_page_offset()
                    .unwrap_or(chunk.data_page_offset());
                let end = begin.checked_add(chunk.compressed_size());
                let inside = end
                    .and_then(|end| u64::try_from(end).ok())
                    .is_some_and(|end| end <= self.chunk_source.0.len());
                // Checked before the crate does, which treats a negative number as a bug of its own
                // and panics.
                if begin < 0 || chunk.compressed_size() < 0 || !inside {
                    let reason = format!(
                        "column '{}' is at byte {begin}, {} bytes long, in a file of {}",
                        chunk.column_path(),
                        chunk.compressed_size(),
                        self.chunk_source.0.len()
                    );
                    return Err(Error::malformed(site, reason));
                }
            }
        }
        Limits::check(site, "rows of a file", rows, MAX_ROWS).map(drop)
    }

    /// Returns an error if a column uses a compression codec that this build does not support.
    pub(crate) fn check_codec(&self, chunk: &ColumnChunkMetaData) -> Result<()> {
        match chunk.compression() {
            Compression::UNCOMPRESSED
            | Compression::SNAPPY
            | Compression::GZIP(_)
            | Compression::ZSTD(_)
            | Compression::LZ4
            | Compression::LZ4_RAW => Ok(()),
            other => Err(Error::Unsupported {
                site: self.site(chunk.byte_range().0),
                what: format!(
                    "column '{}' compressed with {other} (write it with zstd)",
                    chunk.column_path()
                ),
            }),
        }
    }
}

/// Calls the crate and converts its errors. The crate panics on some damage, which becomes an error
/// too.
pub(crate) fn catch_panic<T>(
    site: &Site,
    work: impl FnOnce() -> parquet::errors::Result<T>,
) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.map_err(|error| convert_error(site, error)),
        Err(_) => Err(Error::malformed(site, "contains invalid Parquet data")),
    }
}

/// Converts an error of the crate.
fn convert_error(site: &Site, error: ParquetError) -> Error {
    match error {
        ParquetError::External(inner) => {
            let own = inner.downcast_ref::<Error>().cloned();
            let read = || {
                inner
                    .downcast_ref::<std::io::Error>()?
                    .get_ref()?
                    .downcast_ref::<Error>()
                    .cloned()
            };
            own.or_else(read)
                .unwrap_or_else(|| Error::malformed(site, inner.to_string()))
        }
        ParquetError::NYI(what) => Error::Unsupported {
            site: site.clone(),
            what: format!("Parquet: {what}"),
        },
        ParquetError::General(reason) | ParquetError::EOF(reason) => Error::malformed(site, reason),
        other => Error::malformed(site, other.to_string()),
    }
}
