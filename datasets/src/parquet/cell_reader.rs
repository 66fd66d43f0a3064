//! Reads one cell of a byte-array column of a Parquet file, whose page has to be decoded.
//! Decoded pages are cached up to a budget, since adjacent rows are usually read one after another.
//! Keeps no file open between reads, and detects a file that has changed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use framespool::dataset::SourceOpener;
use framespool::error::{Error, Result};
use framespool::source::{ByteSource, Identity, MemorySource, display_name, reopen};
use parquet::column::page::Page;
use parquet::data_type::ByteArray;
use parquet::file::metadata::ParquetMetaData;

use super::column_chunk::{ColumnChunk, column_index};
use super::file::{ChunkSource, ParquetFile};
use super::page_scan::PageLocation;
use crate::columnar::MAX_ROWS;
use crate::range_reader::RangeReader;

/// Size limit of the cached pages, in bytes.
const MAX_CACHED_BYTES: usize = 256 << 20;

/// The files whose cells are read, and their cached pages.
#[derive(Default)]
pub struct CellReader {
    files: Mutex<HashMap<PathBuf, Arc<ParquetTable>>>,
    pages: Arc<PageCache>,
}

/// A file and its cached metadata.
struct ParquetTable {
    path: Arc<Path>,
    cached: Mutex<Option<Arc<CachedMetadata>>>,
    pages: Arc<PageCache>,
}

/// The metadata of one version of a file.
struct CachedMetadata {
    identity: Identity,
    metadata: Arc<ParquetMetaData>,
    /// By row group and column.
    chunks: Mutex<HashMap<(usize, usize), Arc<ColumnChunk>>>,
}

impl CellReader {
    /// An opener for the bytes in a row of a column, which is given as its path of names.
    pub fn cell(&self, file: &Path, column: Arc<str>, row: u64) -> Arc<dyn SourceOpener> {
        let mut files = lock(&self.files);
        let table = files.entry(file.to_owned()).or_insert_with(|| {
            Arc::new(ParquetTable {
                path: file.into(),
                cached: Mutex::default(),
                pages: self.pages.clone(),
            })
        });
        Arc::new(CellOpener {
            table: table.clone(),
            column,
            row,
        })
    }
}

impl ParquetTable {
    /// The cached metadata if the file is unchanged, otherwise the metadata read again.
    fn metadata(&self, source: Arc<dyn ByteSource>) -> Result<(ParquetFile, Arc<CachedMetadata>)> {
        let mut cached = lock(&self.cached);
        if let Some(cached) = cached
            .as_ref()
            .filter(|cached| cached.identity == source.identity())
        {
            let file = ParquetFile {
                chunk_source: ChunkSource(source),
                metadata: cached.metadata.clone(),
            };
            return Ok((file, cached.clone()));
        }
        let file = ParquetFile::read(source)?;
        let (identity, metadata) = (file.identity(), file.metadata.clone());
        let state = Arc::new(CachedMetadata {
            identity,
            metadata,
            chunks: Mutex::default(),
        });
        *cached = Some(state.clone());
        Ok((file, state))
    }
}

impl CachedMetadata {
    fn chunk(&self, file: &ParquetFile, group: usize, column: usize) -> Result<Arc<ColumnChunk>> {
        if let Some(chunk) = lock(&self.chunks).get(&(group, column)) {
            return Ok(chunk.clone());
        }
        // Uses the file that is already open: the path may refer to another file by now.
        let mut reader = RangeReader::new(file.chunk_source.0.clone());
        let chunk = ColumnChunk::open(file, &mut reader, group, column)?;
        Ok(lock(&self.chunks)
            .entry((group, column))
            .or_insert(Arc::new(chunk))
            .clone())
    }
}

struct CellOpener {
    table: Arc<ParquetTable>,
    column: Arc<str>,
    row: u64,
}

impl SourceOpener for CellOpener {
    fn name(&self) -> Arc<str> {
        format!(
            "{}!{}[{}]",
            display_name(&self.table.path),
            self.column,
            self.row
        )
        .into()
    }

    fn open(&self) -> Result<Arc<dyn ByteSource>> {
        let (file, cached) = self.table.metadata(reopen(&self.table.path)?)?;
        let file = &file;
        let column = column_index(file, &self.column)?;
        let (mut row, mut found) = (self.row, None);
        for (number, group) in file.metadata().row_groups().iter().enumerate() {
            let rows = u64::try_from(group.num_rows()).unwrap_or(0);
            if row < rows {
                found = Some(number);
                break;
            }
            row -= rows;
        }
        let gone = || {
            Error::malformed(
                &file.site(0),
                format!("row {} no longer exists; list the dataset again", self.row),
            )
        };
        let chunk = cached.chunk(file, found.ok_or_else(gone)?, column)?;
        let (page, row) = chunk.page_of(row).ok_or_else(gone)?;
        let decode_page = |page: &PageLocation| {
            self.table
                .pages
                .get(&cached.identity, page.header_offset, || {
                    chunk.decompress(file, page)
                })
        };
        let mut pages = chunk
            .dictionary
            .as_ref()
            .map(decode_page)
            .transpose()?
            .into_iter()
            .collect::<Vec<_>>();
        pages.push(decode_page(page)?);
        let bytes = chunk.value(file, page, pages, row)?;
        let bytes = bytes.ok_or_else(|| {
            let reason = format!("row {} has no value in column '{}'", self.row, self.column);
            Error::malformed(&file.site(page.header_offset), reason)
        })?;
        let name = self.name();
        let mut identity = cached.identity.clone();
        if let Identity::File { len, start, .. } | Identity::Remote { len, start, .. } =
            &mut identity
        {
            (*len, *start) = (bytes.len() as u64, cell_id(column, self.row));
        }
        Ok(Arc::new(CellSource {
            bytes: MemorySource::new(name, PageSlice(bytes)),
            identity,
        }))
    }
}

/// A value that serves as the offset of a cell in its identity. It differs for all cells of a file,
/// and from the offset of any range stored in the file: rows are fewer than [`MAX_ROWS`], and
/// columns fewer than a footer has bytes.
fn cell_id(column: usize, row: u64) -> u64 {
    const ROWS: u32 = 64 - MAX_ROWS.leading_zeros();
    1 << 63 | (column as u64) << ROWS | row
}

/// Bytes as the crate stores them: a slice of a page, which it keeps alive.
struct PageSlice(ByteArray);

impl AsRef<[u8]> for PageSlice {
    fn as_ref(&self) -> &[u8] {
        self.0.data()
    }
}

/// The bytes of a cell. Their identity does not depend on where they are decoded to, and neither
/// does their video index.
struct CellSource {
    bytes: MemorySource,
    identity: Identity,
}

impl ByteSource for CellSource {
    fn name(&self) -> &Arc<str> {
        self.bytes.name()
    }

    fn len(&self) -> u64 {
        self.bytes.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.bytes.read_at(offset, buffer)
    }

    fn identity(&self) -> Identity {
        self.identity.clone()
    }
}

/// Decoded pages, the most recently used one last.
#[derive(Default)]
struct PageCache(Mutex<Vec<(PageKey, Arc<PageSlot>)>>);

/// Identity of a file, and offset of a page.
type PageKey = (Identity, u64);
/// A page, once the first thread that needs it has decoded it.
type PageSlot = Mutex<Option<Page>>;

impl PageCache {
    fn get(
        &self,
        identity: &Identity,
        head: u64,
        decompress: impl FnOnce() -> Result<Page>,
    ) -> Result<Page> {
        let key = (identity.clone(), head);
        let slot = {
            let mut entries = lock(&self.0);
            let slot = match entries.iter().position(|(at, _)| *at == key) {
                Some(position) => entries.remove(position).1,
                None => Arc::default(),
            };
            entries.push((key, slot.clone()));
            slot
        };
        let page = {
            let mut page = lock(&slot);
            match &*page {
                Some(page) => return Ok(page.clone()),
                None => page.insert(decompress()?).clone(),
            }
        };
        self.evict();
        Ok(page)
    }

    /// Drops the least recently used pages until the others are within the budget. The last page is
    /// always kept.
    fn evict(&self) {
        let mut entries = lock(&self.0);
        let mut bytes = 0;
        let fits = entries.iter().rev().take_while(|(_, slot)| {
            // The size of a page that is being decoded is unknown; the thread that decodes it calls
            // `evict` afterwards.
            let more = slot
                .try_lock()
                .ok()
                .and_then(|page| page.as_ref().map(|page| page.buffer().len()));
            let first = bytes == 0;
            bytes += more.unwrap_or(0);
            first || bytes <= MAX_CACHED_BYTES
        });
        let gone = entries.len() - fits.count();
        entries.drain(..gone);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
