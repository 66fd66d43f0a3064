//! Selects the columns of a table and converts its rows into entries, for all table formats.
//! A row is a video or an image, given as path, URI or bytes. Reads no file itself.

mod named;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use framespool::error::{Error, Result};
use framespool::source::{name_of, Member};

pub(crate) use named::{find, Kind, Named};

use crate::classes::Classes;
use crate::file_list::{below, root_of};
use crate::json_lines::{local, Keys};
use crate::packed::{read_all, OnError, Packed, PackedEntry, Stored, Watch};
use crate::value::{shortened, Value, MAX_COLUMNS};
use crate::NO_LABEL;

/// Default names of columns, which are used if they exist.
const DEFAULTS: [&str; 3] = ["label", "start", "end"];
/// The field with the bytes in a source column that is a group, and the field with the name next to it.
const BYTES: &str = "bytes";
const PATH: &str = "path";
/// The metadata key under which the library `datasets` stores its feature description.
pub(crate) const FEATURES: &str = "huggingface";
/// Maximum number of rows of a file: a page of a few bytes may encode billions.
pub(crate) const MAX_ROWS: u64 = 50_000_000;

/// Which columns have which role.
#[derive(Clone, Debug)]
pub struct TableColumns {
    /// Source, label, start and end. A name with dots refers to a field of a group.
    pub keys: Keys,
    /// Further columns to read. `None` reads all that have one number, bool or text per row.
    pub others: Option<Vec<String>>,
    /// Base of relative paths. `None` is the folder of the file.
    pub root: Option<PathBuf>,
}

/// Where the value of a row is stored.
#[derive(Clone, Copy)]
pub(crate) enum Spot {
    /// In the file: offset and length.
    Lies(u64, u64),
    /// In a page that has to be decoded.
    Packed,
    /// The row has no value.
    Nowhere,
}

/// Reads files of one format: `read` appends the entries of a file, and `class_names` returns the names that
/// a file has for the integer labels of a column.
pub(crate) fn read_tables(
    files: &[PathBuf],
    how: &TableColumns,
    on_error: OnError,
    threads: u32,
    interrupt: Watch,
    read: impl Fn(&Arc<Path>, Watch, &mut Packed) -> Result<()> + Sync,
    class_names: impl Fn(&Path, &str) -> Vec<String>,
) -> Result<(Packed, Vec<String>)> {
    how.keys.check()?;
    let nothing = format!("looked for rows with something in column '{}'", how.keys.source);
    // For each file: whether it has integer labels, and whether it has named labels.
    let kinds = Mutex::new(HashMap::new());
    let mut packed = read_all(files, threads, interrupt, &nothing, |path, go_on| {
        let mut found = Packed::default();
        if let Err(error) = read(path, go_on, &mut found) {
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
        (true, Some(first)) => class_names(first, &how.keys.label),
        _ => classes.names,
    };
    Ok((packed, named))
}

/// Names of the labels of a column, from the feature description of the library `datasets`.
pub(crate) fn names_in_features(text: &str, label: &str) -> Vec<String> {
    let names = || -> Option<Vec<String>> {
        let said: Value = serde_json::from_str(text).ok()?;
        let Value::List(names) = said.get("info")?.get("features")?.get(label)?.get("names")? else {
            return None;
        };
        let text = |name: &Value| if let Value::Text(name) = name { Some(name.clone()) } else { None };
        names.iter().map(text).collect()
    };
    names().unwrap_or_default()
}

impl TableColumns {
    /// The column of bytes, if the source is one, and the columns whose values are read for each row.
    pub(crate) fn chosen(&self, path: &Path, columns: &[Named]) -> Result<(Option<Named>, Vec<Named>)> {
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
        if wanted.len() > MAX_COLUMNS && self.others.is_none() {
            return Err(Error::Argument(format!(
                "{} has {} columns of numbers, flags and text, and a dataset has at most {MAX_COLUMNS}; name those that are \
                 wanted as columns=",
                name_of(path),
                wanted.len()
            )));
        }
        Ok((bytes, wanted))
    }
}

/// Converts the rows of a file into entries.
pub(crate) struct Rows<'a> {
    path: &'a Arc<Path>,
    how: &'a TableColumns,
    wanted: &'a [Named],
    root: &'a Path,
    on_error: OnError,
}

impl<'a> Rows<'a> {
    pub fn new(path: &'a Arc<Path>, how: &'a TableColumns, wanted: &'a [Named], on_error: OnError) -> Self {
        Self { path, how, wanted, root: root_of(path, how.root.as_deref()), on_error }
    }

    /// Appends a row with its values of the wanted columns. `spot` is the column of bytes, and where the
    /// bytes of the row are stored.
    pub fn take(
        &self,
        row: u64,
        values: Vec<Value>,
        spot: Option<(&Arc<str>, Option<Spot>)>,
        found: &mut Packed,
    ) -> Result<()> {
        let items = self.wanted.iter().map(|column| column.name.clone()).zip(values).collect();
        let made = self.entry(row, Value::Map(items), spot).map_err(|reason| {
            Error::Argument(format!(
                "{}, row {row}: {reason}; on_error=\"skip\" leaves out such rows",
                name_of(self.path)
            ))
        });
        match made {
            Ok(entry) => {
                found.entries.push(entry);
                Ok(())
            }
            Err(error) => found.fail(error, self.on_error),
        }
    }

    /// Converts a row into an entry.
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
