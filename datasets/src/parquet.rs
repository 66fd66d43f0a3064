//! Reads Parquet files whose rows are videos or images, given as path, URI or bytes.
//! Produces one entry per row, in the order of files and rows, and further columns.
//! Listing neither reads nor decompresses the bytes of videos and images.

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

/// Reads files: the entries, and the names of their labels.
///
/// - A text column as source has paths or `file:` URIs. A column of bytes, or a group with a field `bytes`,
///   has the videos or images themselves: a [`Stored::Member`](crate::Stored::Member) of the file if the
///   column is neither compressed nor encoded, else a [`Stored::Cell`](crate::Stored::Cell).
/// - Labels are integers or names, as in [`json_lines`](crate::json_lines()). The names of integer labels
///   come from the feature description that the library `datasets` writes.
///
/// # Errors
/// `Malformed`, `Truncated` or `Limit` for a damaged file, with the offset; `Unsupported` for an encrypted
/// one and some compression codecs; `Argument` for a column that is missing or has another type, and for a
/// row, with its number. With `Skip` rows, row groups and files are counted and left out.
pub fn parquet(
    files: &[PathBuf],
    how: &TableColumns,
    on_error: OnError,
    threads: u32,
    interrupt: Watch,
) -> Result<(Packed, Vec<String>)> {
    let read = |path: &Arc<Path>, go_on: Watch, found: &mut Packed| read(path, how, on_error, go_on, found);
    read_tables(files, how, on_error, threads, interrupt, read, schema::class_names)
}

/// Calls `take` with the number of each row of a file and its values: first those of the columns that must
/// exist, then those of the optional columns, which are missing where the file lacks them. An error from
/// `take` becomes an error that names the row.
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

/// Where the values of a column are stored, for the rows of a group.
fn spots(
    file: &ParquetFile,
    blocks: &mut Blocks,
    group: usize,
    column: &Named,
    go_on: Watch,
) -> Result<Vec<Spot>> {
    let number = column::number_of(file, &column.path())?;
    // Checked first, since a column of lists has a different number of values than rows.
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
