//! Wraps the crate's page reader and checks each decompressed page before its values are decoded.
//! The crate allocates for as many values as a page header names, and gzip output of any size; here
//! both are bounded.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use framespool::error::{Error, Result, Site};
use parquet::basic::{Compression, Encoding, Type as Physical};
use parquet::bloom_filter::Sbbf;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::properties::ReaderProperties;
use parquet::file::reader::RowGroupReader;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::record::reader::RowIter;
use parquet::schema::types::{ColumnDescPtr, Type};

use super::delta_encoding::Lengths;
use super::file::{ChunkSource, ParquetFile};
use super::page_scan::{MAX_PAGE_BYTES, PageContents, PageLocation};
use crate::columnar::MAX_ROWS;

/// Maximum expansion factor of LZ4.
const MAX_LZ4_EXPANSION: u64 = 255;

/// The pages of a column, or some of them.
pub(crate) struct CheckedPageReader {
    pages: SerializedPageReader<ChunkSource>,
    column: ColumnDescPtr,
    /// Uncompressed sizes of the remaining pages according to their headers, if gzip is
    /// decompressed here.
    gzip: Option<VecDeque<u64>>,
    site: Site,
}

impl CheckedPageReader {
    /// `pages` are the parsed page headers.
    pub(super) fn open(
        file: &ParquetFile,
        chunk: &ColumnChunkMetaData,
        pages: &[PageLocation],
    ) -> parquet::errors::Result<Self> {
        let listed_pages = || {
            pages
                .iter()
                .filter(|page| page.contents != PageContents::Other)
        };
        let gzip = matches!(chunk.compression(), Compression::GZIP(_));
        let gzip = gzip.then(|| listed_pages().map(|page| page.uncompressed_size).collect());
        let plain;
        let mut read = chunk;
        if gzip.is_some() {
            plain = chunk
                .clone()
                .into_builder()
                .set_compression(Compression::UNCOMPRESSED)
                .build()?;
            read = &plain;
        }
        // The crate decompresses the old, framed LZ4 variant without a bound; pages this small stay
        // within ours.
        let legacy_lz4 =
            listed_pages().all(|page| page.compressed_size <= MAX_PAGE_BYTES / MAX_LZ4_EXPANSION);
        let properties = Arc::new(
            ReaderProperties::builder()
                .set_backward_compatible_lz4(legacy_lz4)
                .build(),
        );
        let chunk_source = Arc::new(file.chunk_source.clone());
        Ok(Self {
            pages: SerializedPageReader::new_with_properties(
                chunk_source,
                read,
                0,
                None,
                properties,
            )?,
            column: chunk.column_descr_ptr(),
            gzip,
            site: file.site(chunk.byte_range().0),
        })
    }

    fn check(&mut self, page: Page) -> Result<Page> {
        let declared_size = self
            .gzip
            .as_mut()
            .map(|sizes| sizes.pop_front().unwrap_or(0));
        let damaged = |reason: String| Error::malformed(&self.site, reason);
        let page = match declared_size {
            Some(declared_size) => decompress_gzip(page, declared_size).map_err(damaged)?,
            None => page,
        };
        let named = |reason| {
            format!(
                "column '{}' has a page with {reason}",
                self.column.path().string()
            )
        };
        check_page(&page, &self.column).map_err(|reason| damaged(named(reason)))?;
        Ok(page)
    }
}

impl Iterator for CheckedPageReader {
    type Item = parquet::errors::Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CheckedPageReader {
    fn get_next_page(&mut self) -> parquet::errors::Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        let own = |error| ParquetError::External(Box::new(error));
        page.map(|page| self.check(page).map_err(own)).transpose()
    }

    fn peek_next_page(&mut self) -> parquet::errors::Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> parquet::errors::Result<()> {
        self.gzip.as_mut().map(VecDeque::pop_front);
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> parquet::errors::Result<bool> {
        self.pages.at_record_boundary()
    }
}

/// A row group whose columns are read through [`CheckedPageReader`].
pub(crate) struct CheckedRowGroup<'a> {
    pub file: &'a ParquetFile,
    pub meta: &'a RowGroupMetaData,
    /// The page headers of each column.
    pub pages: Vec<Vec<PageLocation>>,
}

impl RowGroupReader for CheckedRowGroup<'_> {
    fn metadata(&self) -> &RowGroupMetaData {
        self.meta
    }

    fn num_columns(&self) -> usize {
        self.meta.num_columns()
    }

    fn get_column_page_reader(
        &self,
        number: usize,
    ) -> parquet::errors::Result<Box<dyn PageReader>> {
        let pages = self.pages.get(number).map_or(&[][..], |pages| pages);
        Ok(Box::new(CheckedPageReader::open(
            self.file,
            self.meta.column(number),
            pages,
        )?))
    }

    fn get_column_bloom_filter(&self, _: usize) -> Option<&Sbbf> {
        None
    }

    fn get_row_iter(&self, projection: Option<Type>) -> parquet::errors::Result<RowIter<'_>> {
        RowIter::from_row_group(projection, self)
    }
}

/// Decompresses a gzip page to at most `most` bytes.
fn decompress_gzip(mut page: Page, max_bytes: u64) -> Result<Page, String> {
    let unzip = |buf: Bytes, levels: u32| {
        let levels = levels as usize;
        if levels > buf.len() {
            return Err("a page whose levels go beyond its end".to_owned());
        }
        let mut bytes = buf[..levels].to_vec();
        if levels < buf.len() {
            let written = MultiGzDecoder::new(&buf[levels..])
                .take(max_bytes + 1)
                .read_to_end(&mut bytes);
            written.map_err(|error| format!("a page that gzip cannot decompress: {error}"))?;
        }
        match bytes.len() as u64 > max_bytes {
            true => Err(format!(
                "a page that gzip decompresses to more than {max_bytes} bytes"
            )),
            false => Ok(Bytes::from(bytes)),
        }
    };
    let (buf, levels) = match &mut page {
        Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. } => (buf, 0),
        Page::DataPageV2 {
            is_compressed: false,
            ..
        } => return Ok(page),
        Page::DataPageV2 {
            buf,
            def_levels_byte_len,
            rep_levels_byte_len,
            ..
        } => (
            buf,
            def_levels_byte_len.saturating_add(*rep_levels_byte_len),
        ),
    };
    *buf = unzip(std::mem::take(buf), levels)?;
    Ok(page)
}

/// Returns an error if the crate would allocate for more values than the bytes of the page can
/// contain.
fn check_page(page: &Page, column: &ColumnDescPtr) -> Result<(), String> {
    if let Page::DictionaryPage {
        buf, num_values, ..
    } = page
    {
        let min_value_bytes = match column.physical_type() {
            Physical::BOOLEAN => 1,
            Physical::INT32 | Physical::FLOAT | Physical::BYTE_ARRAY => 4,
            Physical::INT64 | Physical::DOUBLE => 8,
            Physical::INT96 => 12,
            Physical::FIXED_LEN_BYTE_ARRAY => {
                u64::try_from(column.type_length()).unwrap_or(0).max(1)
            }
        };
        return match u64::from(*num_values).saturating_mul(min_value_bytes) > buf.len() as u64 {
            true => Err(format!(
                "a dictionary of {num_values} values in {} bytes",
                buf.len()
            )),
            false => Ok(()),
        };
    }
    let encoding = page.encoding();
    if !matches!(
        encoding,
        Encoding::DELTA_LENGTH_BYTE_ARRAY | Encoding::DELTA_BYTE_ARRAY
    ) {
        return Ok(());
    }
    let count = u64::from(page.num_values());
    if count > MAX_ROWS {
        return Err(format!("{count} values, more than the limit of {MAX_ROWS}"));
    }
    let bytes = page_values(page, column)?;
    let mut before = Lengths {
        count,
        sum: 0,
        end: 0,
    };
    if encoding == Encoding::DELTA_BYTE_ARRAY {
        before = Lengths::read(bytes, count)?;
    }
    let rest = &bytes[before.end..];
    let lengths = Lengths::read(rest, before.count)?;
    let held = (rest.len() - lengths.end) as u64;
    if encoding == Encoding::DELTA_BYTE_ARRAY && lengths.count != before.count {
        return Err(format!(
            "{} prefix lengths for {} values",
            before.count, lengths.count
        ));
    }
    if lengths.sum > held {
        return Err(format!("values of {} bytes in {held}", lengths.sum));
    }
    // The shared prefixes of DELTA_BYTE_ARRAY are stored once and copied for each value.
    let whole = before.sum + lengths.sum;
    if whole > MAX_PAGE_BYTES {
        return Err(format!(
            "values of {whole} bytes, more than the limit of {MAX_PAGE_BYTES}"
        ));
    }
    Ok(())
}

/// The bytes of a page after its levels.
fn page_values<'a>(page: &'a Page, column: &ColumnDescPtr) -> Result<&'a [u8], String> {
    let short = || "levels that go beyond its end".to_owned();
    match page {
        Page::DataPage {
            buf,
            num_values,
            def_level_encoding,
            rep_level_encoding,
            ..
        } => {
            let mut rest = &buf[..];
            for (max_level, encoding) in [
                (column.max_rep_level(), rep_level_encoding),
                (column.max_def_level(), def_level_encoding),
            ] {
                if max_level == 0 {
                    continue;
                }
                let len = match encoding {
                    Encoding::RLE => {
                        let len = rest
                            .split_off(..4)
                            .and_then(|len| len.try_into().ok())
                            .ok_or_else(short)?;
                        u64::from(u32::from_le_bytes(len))
                    }
                    // The only other encoding is BIT_PACKED.
                    _ => (u64::from(*num_values) * u64::from(16 - max_level.leading_zeros()))
                        .div_ceil(8),
                };
                rest = usize::try_from(len)
                    .ok()
                    .and_then(|len| rest.get(len..))
                    .ok_or_else(short)?;
            }
            Ok(rest)
        }
        Page::DataPageV2 {
            buf,
            def_levels_byte_len,
            rep_levels_byte_len,
            ..
        } => {
            let levels = def_levels_byte_len.saturating_add(*rep_levels_byte_len) as usize;
            buf.get(levels..).ok_or_else(short)
        }
        Page::DictionaryPage { buf, .. } => Ok(buf),
    }
}

#[cfg(test)]
mod tests;
