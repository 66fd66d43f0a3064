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

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use framespool::error::{Error, Result};
use framespool::source::{name_of, Member};
use parquet::basic::Compression;

pub use cell::Tables;

use crate::blocks::Blocks;
use crate::classes::Classes;
use crate::file_list::{below, root_of};
use crate::json_lines::{local, Keys};
use crate::packed::{read_all, OnError, Packed, PackedEntry, Stored, Watch};
use crate::value::{shortened, Value, MOST_COLUMNS};
use crate::NO_LABEL;
use column::Chunk;
use file::ParquetFile;
use schema::{find, top, Named};

/// Names that stand for a column where there is one.
const DEFAULTS: [&str; 3] = ["label", "start", "end"];
/// The field of a column that holds bytes where the column is a group, and the one beside it that holds a name.
const BYTES: &str = "bytes";
const PATH: &str = "path";

/// Which columns say what.
#[derive(Clone, Debug)]
pub struct TableColumns {
    /// Source, label, start and end; a name with dots is a field of a group.
    pub keys: Keys,
    /// Other columns that are wanted; all that have one number, flag or text for a row if not given.
    pub others: Option<Vec<String>>,
    /// What relative paths start from; the folder of their file if not given.
    pub root: Option<PathBuf>,
}

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
    how.keys.check()?;
    let nothing = format!("looked for rows with something in column '{}'", how.keys.source);
    // Of each file: whether it has labels that are numbers, and such that are names.
    let kinds = Mutex::new(HashMap::new());
    let mut packed = read_all(files, threads, watch, &nothing, |path, go_on| {
        let mut found = Packed::default();
        if let Err(error) = read(path, how, on_error, go_on, &mut found) {
            found.fail(error, on_error)?;
        }
        let numbers = found.entries.iter().any(|entry| entry.label_name.is_none() && entry.label != NO_LABEL);
        let names = found.entries.iter().any(|entry| entry.label_name.is_some());
        kinds.lock().unwrap_or_else(PoisonError::into_inner).insert(path.clone(), (numbers, names));
        Ok(found)
    })?;
    let kinds = kinds.into_inner().unwrap_or_else(PoisonError::into_inner);
    let first =
        |of: fn(&(bool, bool)) -> bool| files.iter().find(|file| kinds.get(file.as_path()).is_some_and(of));
    if let (Some(numbers), Some(names)) = (first(|kind| kind.0), first(|kind| kind.1)) {
        return Err(Error::Argument(format!(
            "labels are numbers in {} and names in {}: '{}' must be one kind in all files",
            numbers.display(),
            names.display(),
            how.keys.label
        )));
    }
    let names = packed.entries.iter().filter_map(|entry| entry.label_name.as_deref());
    let classes = Classes::sorted(names);
    for entry in &mut packed.entries {
        if let Some(name) = entry.label_name.as_deref() {
            entry.label = classes.label(name).map_err(Error::Argument)?;
        }
    }
    let named = match (classes.names.is_empty(), files.first()) {
        (true, Some(first)) => schema::class_names(first, &how.keys.label),
        _ => classes.names,
    };
    Ok((packed, named))
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
    let mut blocks = Blocks::open(path)?;
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

/// Where the value of a row lies.
#[derive(Clone, Copy)]
enum Spot {
    Lies(u64, u64),
    Packed,
    Nowhere,
}

fn read(
    path: &Arc<Path>,
    how: &TableColumns,
    on_error: OnError,
    go_on: Watch,
    found: &mut Packed,
) -> Result<()> {
    let file = ParquetFile::open(path)?;
    let mut blocks = Blocks::open(path)?;
    let columns = top(&file);
    let (bytes, wanted) = how.chosen(path, &columns)?;
    let reader =
        Rows { path, how, bytes: bytes.as_ref(), wanted: &wanted, root: root_of(path, how.root.as_deref()) };
    let mut first = 0;
    for group in 0..file.metadata().num_row_groups() {
        let read = reader.group(&file, &mut blocks, (group, first), on_error, go_on, found);
        if let Err(error) = read {
            found.fail(error, on_error)?;
        }
        first += u64::try_from(file.metadata().row_group(group).num_rows()).unwrap_or(0);
    }
    Ok(())
}

impl TableColumns {
    /// The column of bytes, if the source is one, and those of which each row's value is read.
    fn chosen(&self, path: &Path, columns: &[Named]) -> Result<(Option<Named>, Vec<Named>)> {
        let known = || columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ");
        let named = |what: &str, name: &str| {
            find(columns, name).ok_or_else(|| {
                Error::Argument(format!(
                    "{} has no column '{}', which is to be the {what}; it has {}",
                    name_of(path),
                    shortened(name),
                    shortened(&known())
                ))
            })
        };
        let source = named("source", &self.keys.source)?;
        let bytes = match source.is_bytes() {
            true => Some(source.clone()),
            false => source.field(BYTES).filter(Named::is_bytes),
        };
        if bytes.is_none() && !source.is_text() {
            let beside = match source.field(PATH) {
                Some(path) => format!("; its field '{}' may be meant", path.name),
                None => String::new(),
            };
            return Err(Error::Argument(format!(
                "{}: column '{}' holds neither text nor bytes, one for each row{beside}; give the column of videos or \
                 pictures as source=",
                name_of(path),
                source.name
            )));
        }
        let mut wanted: Vec<Named> = Vec::new();
        if bytes.is_none() {
            wanted.push(source.clone());
        }
        for (name, usual) in [&self.keys.label, &self.keys.start, &self.keys.end].into_iter().zip(DEFAULTS) {
            match find(columns, name) {
                Some(column) => wanted.push(column),
                None if name == usual => {}
                None => wanted.push(named(usual, name)?),
            }
        }
        match &self.others {
            Some(names) => {
                for name in names {
                    let column = named("column", name)?;
                    if bytes.as_ref().is_some_and(|bytes| column.leads_to(bytes)) {
                        let text = format!(
                            "{}: column '{name}' is that of the videos or pictures; leave it out of columns=",
                            name_of(path)
                        );
                        return Err(Error::Argument(text));
                    }
                    wanted.push(column);
                }
            }
            None => wanted.extend(columns.iter().filter(|column| column.is_plain()).cloned()),
        }
        let mut names = std::collections::HashSet::new();
        wanted.retain(|column| names.insert(column.name.clone()));
        if wanted.len() > MOST_COLUMNS && self.others.is_none() {
            return Err(Error::Argument(format!(
                "{} has {} columns of numbers, flags and text, and a dataset has at most {MOST_COLUMNS}; name those that are \
                 wanted as columns=",
                path.display(),
                wanted.len()
            )));
        }
        Ok((bytes, wanted))
    }
}

/// How the rows of a file are read.
struct Rows<'a> {
    path: &'a Arc<Path>,
    how: &'a TableColumns,
    bytes: Option<&'a Named>,
    wanted: &'a [Named],
    root: &'a Path,
}

impl Rows<'_> {
    /// The rows of a group, the first of which has this number in the file.
    fn group(
        &self,
        file: &ParquetFile,
        blocks: &mut Blocks,
        (group, first): (usize, u64),
        on_error: OnError,
        go_on: Watch,
        found: &mut Packed,
    ) -> Result<()> {
        let spots = match self.bytes {
            Some(column) => Some((Arc::from(column.path()), self.spots(file, blocks, group, column, go_on)?)),
            None => None,
        };
        rows::read(file, blocks, group, self.wanted, go_on, |row, values| {
            let items = self.wanted.iter().map(|column| column.name.clone()).zip(values).collect();
            let spot = spots.as_ref().map(|(column, spots)| (column, spots.get(row as usize).copied()));
            let made = self.entry(first + row, Value::Map(items), spot).map_err(|reason| {
                Error::Argument(format!(
                    "{}, row {}: {reason}; on_error=\"skip\" leaves out such rows",
                    name_of(self.path),
                    first + row
                ))
            });
            match made {
                Ok(entry) => {
                    found.entries.push(entry);
                    Ok(())
                }
                Err(error) => found.fail(error, on_error),
            }
        })
    }

    /// Where the values of a group's rows lie.
    fn spots(
        &self,
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
                name_of(self.path),
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
                None => spots.resize((first + page.count()) as usize, Spot::Packed),
            }
        }
        Ok(spots)
    }

    /// What a row is as an entry.
    fn entry(
        &self,
        row: u64,
        object: Value,
        spot: Option<(&Arc<str>, Option<Spot>)>,
    ) -> Result<PackedEntry, String> {
        let keys = &self.how.keys;
        let stored = match spot {
            None => match object.get(&keys.source) {
                Some(Value::Text(text)) if !text.is_empty() => Stored::Path(below(self.root, &*local(text)?)),
                other => {
                    let shown = other.map_or("missing".to_owned(), Value::shown);
                    return Err(format!("\"{}\" is {shown}, the path of a video is wanted", keys.source));
                }
            },
            Some((column, Some(Spot::Lies(offset, len)))) => {
                let name = Some(format!("{column}[{row}]").into());
                Stored::Member(Member { file: self.path.clone(), offset, len, name })
            }
            Some((column, Some(Spot::Packed))) => {
                Stored::Cell { file: self.path.clone(), column: column.clone(), row }
            }
            Some((column, _)) => return Err(format!("there is nothing in column '{column}'")),
        };
        let (label, label_name) = keys.label(&object)?;
        let part = keys.part(&object)?;
        let mut facts = Vec::new();
        if let Value::Map(items) = object {
            for (name, value) in items {
                if keys.is_column(&name, &value)? {
                    facts.push((name, value));
                }
            }
        }
        Ok(PackedEntry { label_name, part, facts, ..PackedEntry::new(stored, label) })
    }
}

#[cfg(test)]
mod tests;
