//! Reads Parquet files whose rows are videos or images, given as path, URI or bytes.
//! Produces one sample per row, in the order of files and rows, and further columns.
//! Listing neither reads nor decompresses the bytes of videos and images.

mod cell_reader;
mod column_chunk;
mod delta_encoding;
mod file;
mod page_header;
mod page_reader;
mod page_scan;
mod plain_encoding;
mod rows;
mod schema;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use framespool::error::{Error, Result};
use framespool::limits::reserve;
use framespool::source::{check_interrupt, display_name};
use parquet::basic::Compression;

pub use cell_reader::CellReader;

use crate::archive::{ArchiveListing, ErrorPolicy};
use crate::column_value::{Value, shortened};
use crate::columnar::{
    CellLocation, RowConverter, TableColumn, TableOptions, find_column, read_tables,
};
use crate::range_reader::RangeReader;
use column_chunk::ColumnChunk;
use file::ParquetFile;
use schema::top_level_columns;

/// Reads files: the samples, and the names of their labels.
///
/// - A text column as source has paths or `file:` URIs. A column of bytes, or a group with a field
///   `bytes`, has the videos or images themselves: a
///   [`SampleLocation::Member`](crate::SampleLocation::Member) of the file if the column is neither
///   compressed nor encoded, else a [`SampleLocation::TableCell`](crate::SampleLocation::TableCell).
/// - Labels are integers or names, as in [`json_lines`](crate::json_lines()). The names of integer
///   labels come from the feature description that the library `datasets` writes.
///
/// # Errors
/// `Malformed`, `Truncated` or `Limit` for a damaged file, with the offset; `Unsupported` for an
/// encrypted one and some compression codecs; `Argument` for a column that is missing or has
/// another type, and for a row, with its number. With `Skip` rows, row groups and files are counted
/// and skipped.
pub fn parquet(
    files: &[PathBuf],
    options: &TableOptions,
    on_error: ErrorPolicy,
    threads: u32,
) -> Result<(ArchiveListing, Vec<String>)> {
    read_tables(files, options, on_error, threads, |path, found, names| {
        read(path, options, on_error, found, names)
    })
}

/// Calls `take` with the number of each row of a file and its values: first those of the columns
/// that must exist, then those of the optional columns, which are missing where the file lacks
/// them. An error from `take` becomes an error that names the row.
pub(crate) fn for_each_row(
    path: &Path,
    needed: &[String],
    others: &[String],
    mut take: impl FnMut(u64, Vec<Value>) -> Result<(), String>,
) -> Result<()> {
    let file = ParquetFile::open(path)?;
    let mut reader = RangeReader::new(file.chunk_source.0.clone());
    let columns = top_level_columns(&file);
    let (mut wanted, mut positions) = (Vec::new(), Vec::new());
    for (number, name) in needed.iter().chain(others).enumerate() {
        let column = find_column(&columns, name);
        if column.is_none() && number < needed.len() {
            return Err(Error::Argument(format!(
                "{} has no column '{}'",
                display_name(path),
                shortened(name)
            )));
        }
        positions.push(column.map(|column| {
            wanted.push(column);
            wanted.len() - 1
        }));
    }
    let mut first = 0;
    for group in 0..file.metadata().num_row_groups() {
        rows::read(&file, &mut reader, group, &wanted, |row, values| {
            let value = |position: &Option<usize>| {
                position.and_then(|position| values.get(position)).cloned()
            };
            let all = positions
                .iter()
                .map(|position| value(position).unwrap_or(Value::Null))
                .collect();
            let row = first + row;
            take(row, all).map_err(|reason| {
                Error::Argument(format!("{}, row {row}: {reason}", display_name(path)))
            })
        })?;
        first += u64::try_from(file.metadata().row_group(group).num_rows()).unwrap_or(0);
    }
    Ok(())
}

fn read(
    path: &Arc<Path>,
    options: &TableOptions,
    on_error: ErrorPolicy,
    found: &mut ArchiveListing,
    names: &mut Vec<String>,
) -> Result<()> {
    let file = ParquetFile::open(path)?;
    *names = schema::class_names(&file, options.keys.label.as_deref().unwrap_or_default());
    let mut reader = RangeReader::new(file.chunk_source.0.clone());
    let (bytes, wanted) = options.select(path, &top_level_columns(&file))?;
    let converter = RowConverter::new(path, options, &wanted, on_error);
    let mut first = 0;
    for group in 0..file.metadata().num_row_groups() {
        let mut read = || -> Result<()> {
            let cell_locations = match &bytes {
                Some(column) => Some((
                    Arc::from(column.path()),
                    cell_locations(&file, &mut reader, group, column)?,
                )),
                None => None,
            };
            rows::read(&file, &mut reader, group, &wanted, |row, values| {
                let cell = cell_locations.as_ref().map(|(column, cell_locations)| {
                    (column, cell_locations.get(row as usize).copied())
                });
                converter.push_row(first + row, values, cell, found)
            })
        };
        if let Err(error) = read() {
            found.handle_error(error, on_error)?;
        }
        first += u64::try_from(file.metadata().row_group(group).num_rows()).unwrap_or(0);
    }
    Ok(())
}

/// Where the values of a column are stored, for the rows of a group.
fn cell_locations(
    file: &ParquetFile,
    reader: &mut RangeReader,
    group: usize,
    column: &TableColumn,
) -> Result<Vec<CellLocation>> {
    let number = column_chunk::column_index(file, &column.path())?;
    // Checked first, since a column of lists has a different number of values than rows.
    if file
        .metadata()
        .row_group(group)
        .column(number)
        .column_descr()
        .max_rep_level()
        > 0
    {
        return Err(Error::Argument(format!(
            "{}: column '{}' contains lists; source= must be a column with one video or image per row",
            file.chunk_source.0.name(),
            column.name
        )));
    }
    let chunk = ColumnChunk::open(file, reader, group, number)?;
    let max_def_level = chunk.meta.column_descr().max_def_level();
    let plain = chunk.meta.compression() == Compression::UNCOMPRESSED;
    let mut cell_locations = Vec::new();
    for (first, page) in &chunk.values {
        check_interrupt()?;
        let ranges = if plain {
            plain_encoding::value_ranges(reader, page, max_def_level)?
        } else {
            None
        };
        match ranges {
            Some(ranges) => {
                cell_locations.extend(ranges.into_iter().map(|range| match range {
                    Some((offset, len)) => CellLocation::Range(offset, len),
                    None => CellLocation::Null,
                }));
            }
            None => {
                let rows = (first + page.count()) as usize;
                let more = rows.saturating_sub(cell_locations.len());
                reserve(&reader.site(page.header_offset), &mut cell_locations, more)?;
                cell_locations.resize(rows, CellLocation::Encoded);
            }
        }
    }
    Ok(cell_locations)
}

#[cfg(test)]
mod tests;
