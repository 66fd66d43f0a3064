//! Reads Arrow IPC files and streams whose rows are videos or images, given as path, URI or bytes.
//! Produces one sample per row, in the order of files and rows, and further columns.
//! Listing does not read the bytes of videos and images.

mod batch;
mod layout;
mod message_reader;
mod values;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use framespool::error::Result;
use framespool::limits::Limits;
use framespool::source;
use framespool::source::check_interrupt;

use crate::archive::{ArchiveListing, ErrorPolicy};
use crate::columnar::{
    FEATURES_KEY, MAX_ROWS, RowConverter, TableOptions, class_names_from_features, read_tables,
};
use batch::BatchReader;
use message_reader::MessageReader;

/// Reads files: the samples, and the names of their labels.
///
/// - A text column as source has paths or `file:` URIs. A column of bytes, or a struct with a field
///   `bytes`, has the videos or images themselves, each a
///   [`ArchiveMember`](framespool::source::ArchiveMember) of the file.
/// - Labels are integers or names, as in [`json_lines`](crate::json_lines()). The names of integer
///   labels come from the feature description that the library `datasets` writes.
///
/// # Errors
/// `Malformed`, `Truncated` or `Limit` for a damaged file, with the offset; `Unsupported` for a
/// compressed one, and for requested columns of other types; `Argument` for a column that is
/// missing or has another type, and for a row, with its number. With `Skip` rows, record batches
/// and files are counted and skipped.
pub fn arrow(
    files: &[PathBuf],
    options: &TableOptions,
    on_error: ErrorPolicy,
    threads: u32,
) -> Result<(ArchiveListing, Vec<String>)> {
    read_tables(files, options, on_error, threads, |path, found, names| {
        read(path, options, on_error, found, names)
    })
}

fn read(
    path: &Arc<Path>,
    options: &TableOptions,
    on_error: ErrorPolicy,
    found: &mut ArchiveListing,
    names: &mut Vec<String>,
) -> Result<()> {
    let (mut messages, schema) = MessageReader::open(source::open(path)?)?;
    if let Some(text) = schema.metadata().get(FEATURES_KEY) {
        *names = class_names_from_features(text, options.keys.label.as_deref().unwrap_or_default());
    }
    let (bytes, wanted) = options.select(path, &values::top_level_columns(&schema))?;
    let converter = RowConverter::new(path, options, &wanted, on_error);
    let name = bytes.as_ref().map(|column| Arc::from(column.path()));
    let mut batches = BatchReader::new(&schema);
    let mut first = 0;
    while let Some(message) = messages.next()? {
        check_interrupt()?;
        if let Err(error) = batches.store_dictionary(&messages, &message, &wanted) {
            found.handle_error(error, on_error)?;
            continue;
        }
        let Some(count) = batches.rows(&messages, &message)? else {
            continue;
        };
        Limits::check(
            &messages.site(message.at),
            "rows of a file",
            first + count,
            MAX_ROWS,
        )?;
        let mut take = || -> Result<()> {
            let batch = batches.open(&messages, &message)?;
            let cell_locations = bytes
                .as_ref()
                .map(|column| batch.cell_locations(column))
                .transpose()?;
            let columns = wanted
                .iter()
                .map(|column| batch.values(column))
                .collect::<Result<Vec<_>>>()?;
            let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
            for row in 0..count {
                check_interrupt()?;
                let values = columns.iter_mut().filter_map(Iterator::next).collect();
                let cell = cell_locations
                    .as_ref()
                    .map(|cell_locations| cell_locations.get(row as usize).copied());
                converter.push_row(first + row, values, name.as_ref().zip(cell), found)?;
            }
            Ok(())
        };
        if let Err(error) = take() {
            found.handle_error(error, on_error)?;
        }
        first += count;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
