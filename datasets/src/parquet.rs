//! In: Parquet files whose rows are videos or pictures: by path or URI, or as their bytes.
//! Out: one entry for each row, in the order of the files and of their rows, and other columns.
//! Never: reads or unpacks bytes of videos and pictures when it lists them.

mod cell;
mod checked;
mod column;
mod delta;
mod file;
mod head;
mod pages;
mod plain;
mod rows;
mod schema;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use framespool::error::{Error, Result};
use framespool::limits::reserve;
use framespool::source::name_of;
use parquet::basic::Compression;

pub use cell::Tables;

use crate::blocks::Blocks;
use crate::packed::{OnError, Packed, Watch};
use crate::tabular::{find, read_tables, Named, Rows, Spot, TableColumns};
use crate::value::{shortened, Value};
use column::Chunk;
use file::ParquetFile;
use schema::top;

/// Reads files: entries, and the names of their labels.
///
/// - A source that is text is a path or a `file:` URI. One of bytes, or a group with a field `bytes`, is the video or picture
///   itself: where the column is not compressed and not encoded, a [`Member`] of its file, else [`Stored::Cell`].
/// - Labels are whole numbers or names, as in [`json_lines`](crate::json_lines()); names of numbers are taken from what the
///   library `datasets` writes of its features.
///
/// # Errors
/// `Malformed`, `Truncated` or `Limit` for a damaged file, with the byte; `Unsupported` for an encrypted one and some
/// compressions; `Argument` for a column that is missing or holds something else, and for a row, with its number. With `Skip`
/// rows, groups of rows and files are counted and left out.
pub fn parquet(
    files: &[PathBuf],
    how: &TableColumns,
    on_error: OnError,
    threads: u32,
    watch: Watch,
) -> Result<(Packed, Vec<String>)> {
    let read = |path: &Arc<Path>, go_on: Watch, found: &mut Packed| read(path, how, on_error, go_on, found);
    read_tables(files, how, on_error, threads, watch, read, schema::class_names)
}

/// Calls `take` with the number of each row of a file and its values: of columns that must be there, then of others, which are
/// missing where they are not. What `take` finds wrong becomes an error that names the row.
pub(crate) fn for_each_row(
    path: &Path,
    needed: &[String],
    others: &[String],
    go_on: Watch,
    mut take: impl FnMut(u64, Vec<Value>) -> Result<(), String>,
) -> Result<()> {
    let file = ParquetFile::open(path)?;
    let mut blocks = Blocks::of(file.disk.0.clone());
    let columns = top(&file);
    let (mut wanted, mut places) = (Vec::new(), Vec::new());
    for (number, name) in needed.iter().chain(others).enumerate() {
        let column = find(&columns, name);
        if column.is_none() && number < needed.len() {
            return Err(Error::Argument(format!("{} has no column '{}'", name_of(path), shortened(name))));
        }
        places.push(column.map(|column| {
            wanted.push(column);
            wanted.len() - 1
        }));
    }
    let mut first = 0;
    for group in 0..file.metadata().num_row_groups() {
        rows::read(&file, &mut blocks, group, &wanted, go_on, |row, values| {
            let value = |place: &Option<usize>| place.and_then(|place| values.get(place)).cloned();
            let all = places.iter().map(|place| value(place).unwrap_or(Value::Missing)).collect();
            let row = first + row;
            take(row, all)
                .map_err(|reason| Error::Argument(format!("{}, row {row}: {reason}", name_of(path))))
        })?;
        first += u64::try_from(file.metadata().row_group(group).num_rows()).unwrap_or(0);
    }
    Ok(())
}

fn read(
    path: &Arc<Path>,
    how: &TableColumns,
    on_error: OnError,
    go_on: Watch,
    found: &mut Packed,
) -> Result<()> {
    let file = ParquetFile::open(path)?;
    let mut blocks = Blocks::of(file.disk.0.clone());
    let (bytes, wanted) = how.chosen(path, &top(&file))?;
    let rows = Rows::new(path, how, &wanted, on_error);
    let mut first = 0;
    for group in 0..file.metadata().num_row_groups() {
        let mut read = || -> Result<()> {
            let spots = match &bytes {
                Some(column) => {
                    Some((Arc::from(column.path()), spots(&file, &mut blocks, group, column, go_on)?))
                }
                None => None,
            };
            rows::read(&file, &mut blocks, group, &wanted, go_on, |row, values| {
                let spot = spots.as_ref().map(|(column, spots)| (column, spots.get(row as usize).copied()));
                rows.take(first + row, values, spot, found)
            })
        };
        if let Err(error) = read() {
            found.fail(error, on_error)?;
        }
        first += u64::try_from(file.metadata().row_group(group).num_rows()).unwrap_or(0);
    }
    Ok(())
}

/// Where the values of a column lie, of a group's rows.
fn spots(
    file: &ParquetFile,
    blocks: &mut Blocks,
    group: usize,
    column: &Named,
    go_on: Watch,
) -> Result<Vec<Spot>> {
    let number = column::number_of(file, &column.path())?;
    // First, since a column of lists has another number of values than of rows.
    if file.metadata().row_group(group).column(number).column_descr().max_rep_level() > 0 {
        return Err(Error::Argument(format!(
            "{}: column '{}' has lists; a column with one video or picture for each row is wanted as source=",
            file.disk.0.name(),
            column.name
        )));
    }
    let chunk = Chunk::open(file, blocks, group, number, go_on)?;
    let deepest = chunk.meta.column_descr().max_def_level();
    let plain = chunk.meta.compression() == Compression::UNCOMPRESSED;
    let mut spots = Vec::new();
    for (first, page) in &chunk.values {
        go_on()?;
        let places = if plain { plain::places(blocks, page, deepest)? } else { None };
        match places {
            Some(places) => {
                spots.extend(places.into_iter().map(|place| match place {
                    Some((offset, len)) => Spot::Lies(offset, len),
                    None => Spot::Nowhere,
                }));
            }
            None => {
                let rows = (first + page.count()) as usize;
                let more = rows.saturating_sub(spots.len());
                reserve(&blocks.site(page.head), &mut spots, more)?;
                spots.resize(rows, Spot::Packed);
            }
        }
    }
    Ok(spots)
}

#[cfg(test)]
mod tests;
