//! Reads Arrow IPC files and streams whose rows are videos or images, given as path, URI or bytes.
//! Produces one entry per row, in the order of files and rows, and further columns.
//! Listing does not read the bytes of videos and images.

mod batch;
mod layout;
mod messages;
mod values;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use framespool::error::Result;
use framespool::limits::Limits;
use framespool::source;

use crate::packed::{OnError, Packed, Watch};
use crate::tabular::{names_in_features, read_tables, Rows, TableColumns, FEATURES, MAX_ROWS};
use batch::Batches;
use messages::Messages;

/// Reads files: the entries, and the names of their labels.
///
/// - A text column as source has paths or `file:` URIs. A column of bytes, or a struct with a field `bytes`,
///   has the videos or images themselves, each a [`Member`](framespool::source::Member) of the file.
/// - Labels are integers or names, as in [`json_lines`](crate::json_lines()). The names of integer labels
///   come from the feature description that the library `datasets` writes.
///
/// # Errors
/// `Malformed`, `Truncated` or `Limit` for a damaged file, with the offset; `Unsupported` for a compressed
/// one, and for requested columns of other types; `Argument` for a column that is missing or has another
/// type, and for a row, with its number. With `Skip` rows, record batches and files are counted and left out.
pub fn arrow(
    files: &[PathBuf],
    how: &TableColumns,
    on_error: OnError,
    threads: u32,
    interrupt: Watch,
) -> Result<(Packed, Vec<String>)> {
    let read = |path: &Arc<Path>, go_on: Watch, found: &mut Packed| read(path, how, on_error, go_on, found);
    read_tables(files, how, on_error, threads, interrupt, read, class_names)
}

fn read(
    path: &Arc<Path>,
    how: &TableColumns,
    on_error: OnError,
    go_on: Watch,
    found: &mut Packed,
) -> Result<()> {
    let (mut messages, schema) = Messages::of(source::open(path)?)?;
    let (bytes, wanted) = how.chosen(path, &values::top(&schema))?;
    let rows = Rows::new(path, how, &wanted, on_error);
    let name = bytes.as_ref().map(|column| Arc::from(column.path()));
    let mut batches = Batches::new(&schema);
    let mut first = 0;
    while let Some(message) = messages.next()? {
        go_on()?;
        if let Err(error) = batches.learn(&messages, &message, &wanted) {
            found.fail(error, on_error)?;
            continue;
        }
        let Some(count) = batches.rows(&messages, &message)? else { continue };
        Limits::check(&messages.site(message.at), "rows of a file", first + count, MAX_ROWS)?;
        let mut take = || -> Result<()> {
            let batch = batches.open(&messages, &message)?;
            let spots = bytes.as_ref().map(|column| batch.spots(column)).transpose()?;
            let columns = wanted.iter().map(|column| batch.values(column)).collect::<Result<Vec<_>>>()?;
            let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
            for row in 0..count {
                go_on()?;
                let values = columns.iter_mut().filter_map(Iterator::next).collect();
                let spot = spots.as_ref().map(|spots| spots.get(row as usize).copied());
                rows.take(first + row, values, name.as_ref().zip(spot), found)?;
            }
            Ok(())
        };
        if let Err(error) = take() {
            found.fail(error, on_error)?;
        }
        first += count;
    }
    Ok(())
}

/// Names of the labels in a column, if the file has them in the form that the library `datasets` writes.
fn class_names(path: &Path, label: &str) -> Vec<String> {
    let Ok((_, schema)) = source::open(path).and_then(Messages::of) else { return Vec::new() };
    schema.metadata().get(FEATURES).map(|text| names_in_features(text, label)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
