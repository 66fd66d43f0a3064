//! Finds the page that contains a given row of a column, decodes it, and returns the row's value.
//! The page headers of a column chunk are read once, when a row of its group is first needed.

use framespool::error::{Error, Result};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::metadata::ColumnChunkMetaData;

use super::file::{ParquetFile, catch_panic};
use super::page_reader::CheckedPageReader;
use super::page_scan::{PageContents, PageLocation, scan_pages};
use crate::range_reader::RangeReader;

/// Number of rows that are skipped at a time.
const SKIP_ROWS: usize = 4096;

/// The pages of a column in a row group.
pub(crate) struct ColumnChunk {
    pub meta: ColumnChunkMetaData,
    /// Pages with values, each with the number of its first row in the group.
    pub values: Vec<(u64, PageLocation)>,
    pub dictionary: Option<PageLocation>,
}

impl ColumnChunk {
    /// # Errors
    /// `Malformed` if the pages do not have exactly one value per row of the group.
    pub(super) fn open(
        file: &ParquetFile,
        reader: &mut RangeReader,
        group: usize,
        column: usize,
    ) -> Result<Self> {
        let group = file.metadata().row_group(group);
        let meta = group.column(column).clone();
        file.check_codec(&meta)?;
        let (begin, len) = meta.byte_range();
        let (mut first, mut values, mut dictionary) = (0u64, Vec::new(), None);
        for page in scan_pages(reader, (begin, begin + len))? {
            match page.contents {
                PageContents::Dictionary => dictionary = Some(page),
                PageContents::Values { count, .. } => {
                    values.push((first, page));
                    first = first.saturating_add(count);
                }
                PageContents::Other => {}
            }
        }
        let rows = u64::try_from(group.num_rows()).unwrap_or(0);
        if first != rows {
            let reason = format!(
                "column '{}' has {first} values for {rows} rows",
                meta.column_path()
            );
            return Err(reader.malformed(begin, reason));
        }
        Ok(Self {
            meta,
            values,
            dictionary,
        })
    }

    /// The page that contains a row of the group, and the number of the row within the page.
    pub(crate) fn page_of(&self, row: u64) -> Option<(&PageLocation, u64)> {
        let behind = self.values.partition_point(|(first, _)| *first <= row);
        let (first, page) = self.values.get(behind.checked_sub(1)?)?;
        Some((page, row - first))
    }

    /// Decompresses a page.
    pub(crate) fn decompress(&self, file: &ParquetFile, page: &PageLocation) -> Result<Page> {
        let site = file.site(page.header_offset);
        catch_panic(&site, || {
            // The crate reads a column from its start, so it gets metadata of a column that
            // consists of this page.
            let whole = page.data_offset + page.compressed_size - page.header_offset;
            let only = ColumnChunkMetaData::builder(self.meta.column_descr_ptr())
                .set_compression_codec(self.meta.compression_codec())
                .set_data_page_offset(page.header_offset as i64)
                .set_total_compressed_size(whole as i64)
                .build()?;
            CheckedPageReader::open(file, &only, std::slice::from_ref(page))?
                .get_next_page()?
                .ok_or_else(|| parquet::errors::ParquetError::EOF("a page without content".into()))
        })
    }

    /// The value of a row in a page; `None` if it is missing.
    pub(super) fn value(
        &self,
        file: &ParquetFile,
        at: &PageLocation,
        decoded_pages: Vec<Page>,
        row: u64,
    ) -> Result<Option<ByteArray>> {
        catch_panic(&file.site(at.header_offset), || {
            let pages = Box::new(DecodedPages(decoded_pages.into_iter()));
            let mut reader =
                ColumnReaderImpl::<ByteArrayType>::new(self.meta.column_descr_ptr(), pages);
            // In steps: some encodings decode skipped values too, and keep those of one step in
            // memory.
            for first in (0..row).step_by(SKIP_ROWS) {
                reader.skip_records(SKIP_ROWS.min((row - first) as usize))?;
            }
            let (mut levels, mut values) = (Vec::new(), Vec::<ByteArray>::new());
            reader.read_records(1, Some(&mut levels), None, &mut values)?;
            Ok(values.pop())
        })
    }
}

/// Decompressed pages as a page reader for the crate.
struct DecodedPages(std::vec::IntoIter<Page>);

impl Iterator for DecodedPages {
    type Item = parquet::errors::Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(Ok)
    }
}

impl PageReader for DecodedPages {
    fn get_next_page(&mut self) -> parquet::errors::Result<Option<Page>> {
        Ok(self.0.next())
    }

    fn peek_next_page(&mut self) -> parquet::errors::Result<Option<PageMetadata>> {
        Ok(self.0.as_slice().first().map(|page| PageMetadata {
            num_rows: None,
            num_levels: page.is_data_page().then(|| page.num_values() as usize),
            is_dict: page.is_dictionary_page(),
        }))
    }

    fn skip_next_page(&mut self) -> parquet::errors::Result<()> {
        self.0.next();
        Ok(())
    }
}

/// The index of the column with this path of names.
pub(crate) fn column_index(file: &ParquetFile, path: &str) -> Result<usize> {
    let schema = file.metadata().file_metadata().schema_descr();
    let mut found =
        (0..schema.num_columns()).filter(|&number| schema.column(number).path().string() == path);
    let first = found.next().ok_or_else(|| {
        Error::malformed(
            &file.site(0),
            format!("column '{path}' no longer exists; list the dataset again"),
        )
    })?;
    match found.next() {
        None => Ok(first),
        Some(_) => Err(Error::Argument(format!(
            "{} has two columns '{path}', one with dots in its name and one in a group; rename one of them",
            file.site(0).file
        ))),
    }
}
