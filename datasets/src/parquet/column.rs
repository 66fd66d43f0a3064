//! Finds the page that contains a given row of a column, decodes it, and returns the row's value.
//! The page headers of a column chunk are read once, when a row of its group is first needed.

use framespool::error::{Error, Result};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::metadata::ColumnChunkMetaData;

use super::checked::Checked;
use super::file::{guarded, ParquetFile};
use super::pages::{pages, Holds, PageAt};
use crate::blocks::Blocks;
use crate::packed::Watch;

/// Number of rows that are skipped at a time.
const STEP: usize = 4096;

/// The pages of a column in a row group.
pub struct Chunk {
    pub meta: ColumnChunkMetaData,
    /// Pages with values, each with the number of its first row in the group.
    pub values: Vec<(u64, PageAt)>,
    pub dictionary: Option<PageAt>,
}

impl Chunk {
    /// # Errors
    /// `Malformed` if the pages do not have exactly one value per row of the group.
    pub fn open(
        file: &ParquetFile,
        blocks: &mut Blocks,
        group: usize,
        column: usize,
        go_on: Watch,
    ) -> Result<Self> {
        let group = file.metadata().row_group(group);
        let meta = group.column(column).clone();
        file.check_codec(&meta)?;
        let (begin, len) = meta.byte_range();
        let (mut first, mut values, mut dictionary) = (0u64, Vec::new(), None);
        for page in pages(blocks, (begin, begin + len), go_on)? {
            match page.holds {
                Holds::Dictionary => dictionary = Some(page),
                Holds::Values { count, .. } => {
                    values.push((first, page));
                    first = first.saturating_add(count);
                }
                Holds::Other => {}
            }
        }
        let rows = u64::try_from(group.num_rows()).unwrap_or(0);
        if first != rows {
            let reason = format!("column '{}' has {first} values for {rows} rows", meta.column_path());
            return Err(blocks.damaged(begin, reason));
        }
        Ok(Self { meta, values, dictionary })
    }

    /// The page that contains a row of the group, and the number of the row within the page.
    pub fn page_of(&self, row: u64) -> Option<(&PageAt, u64)> {
        let behind = self.values.partition_point(|(first, _)| *first <= row);
        let (first, page) = self.values.get(behind.checked_sub(1)?)?;
        Some((page, row - first))
    }

    /// Decompresses a page.
    pub fn unpack(&self, file: &ParquetFile, page: &PageAt) -> Result<Page> {
        let site = file.site(page.head);
        guarded(&site, || {
            // The crate reads a column from its start, so it gets metadata of a column that consists of this
            // page.
            let whole = page.data + page.stored - page.head;
            let only = ColumnChunkMetaData::builder(self.meta.column_descr_ptr())
                .set_compression_codec(self.meta.compression_codec())
                .set_data_page_offset(page.head as i64)
                .set_total_compressed_size(whole as i64)
                .build()?;
            Checked::open(file, &only, std::slice::from_ref(page))?
                .get_next_page()?
                .ok_or_else(|| parquet::errors::ParquetError::EOF("a page without content".into()))
        })
    }

    /// The value of a row in a page; `None` if it is missing.
    pub fn value(
        &self,
        file: &ParquetFile,
        at: &PageAt,
        unpacked: Vec<Page>,
        row: u64,
    ) -> Result<Option<ByteArray>> {
        guarded(&file.site(at.head), || {
            let pages = Box::new(Unpacked(unpacked.into_iter()));
            let mut reader = ColumnReaderImpl::<ByteArrayType>::new(self.meta.column_descr_ptr(), pages);
            // In steps: some encodings decode skipped values too, and keep those of one step in memory.
            for first in (0..row).step_by(STEP) {
                reader.skip_records(STEP.min((row - first) as usize))?;
            }
            let (mut levels, mut values) = (Vec::new(), Vec::<ByteArray>::new());
            reader.read_records(1, Some(&mut levels), None, &mut values)?;
            Ok(values.pop())
        })
    }
}

/// Decompressed pages as a page reader for the crate.
struct Unpacked(std::vec::IntoIter<Page>);

impl Iterator for Unpacked {
    type Item = parquet::errors::Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(Ok)
    }
}

impl PageReader for Unpacked {
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
pub fn number_of(file: &ParquetFile, path: &str) -> Result<usize> {
    let schema = file.metadata().file_metadata().schema_descr();
    let mut found = (0..schema.num_columns()).filter(|&number| schema.column(number).path().string() == path);
    let first = found.next().ok_or_else(|| {
        Error::malformed(&file.site(0), format!("has no column '{path}' any more; list the dataset anew"))
    })?;
    match found.next() {
        None => Ok(first),
        Some(_) => Err(Error::Argument(format!(
            "{} has two columns '{path}', one whose name has the dots and one in a group; write one of them with \
             another name",
            file.site(0).file
        ))),
    }
}
