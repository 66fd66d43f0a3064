//! Selects the columns of a table and converts its rows into samples, for all table formats.
//! A row is a video or an image, given as path, URI or bytes. Reads no file itself.

mod table_column;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use framespool::error::{Error, Result};
use framespool::source::{ArchiveMember, display_name};

pub(crate) use table_column::{ColumnKind, TableColumn, find_column};

use crate::NO_LABEL;
use crate::archive::{ArchiveListing, ArchiveSample, ErrorPolicy, SampleLocation, read_files};
use crate::classes::Classes;
use crate::column_value::{MAX_COLUMNS, Value, shortened};
use crate::json_lines::{SampleKeys, local_path};
use crate::lines::{resolve_path, root_of};

/// Default names of columns, which are used if they exist.
const DEFAULT_COLUMNS: [&str; 3] = ["label", "start", "end"];
/// The field with the bytes in a source column that is a group, and the field with the name next to
/// it.
const BYTES_FIELD: &str = "bytes";
const PATH_FIELD: &str = "path";
/// The metadata key under which the library `datasets` stores its feature description.
pub(crate) const FEATURES_KEY: &str = "huggingface";
/// Maximum number of rows of a file: a page of a few bytes may encode billions.
pub(crate) const MAX_ROWS: u64 = 50_000_000;

/// Which columns have which role.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// Source, label, start and end. A name with dots refers to a field of a group.
    pub keys: SampleKeys,
    /// Names of the labels in their order. `None` sorts the names that occur.
    pub classes: Option<Vec<String>>,
    /// Further columns to read. `None` reads all that have one number, bool or text per row.
    pub others: Option<Vec<String>>,
    /// Base of relative paths. `None` is the folder of the file.
    pub root: Option<PathBuf>,
}

/// Where the value of a row is stored.
#[derive(Clone, Copy)]
pub(crate) enum CellLocation {
    /// In the file: offset and length.
    Range(u64, u64),
    /// In a page that has to be decoded.
    Encoded,
    /// The row has no value.
    Null,
}

/// What labels a file has.
struct FileLabels {
    num_samples: usize,
    has_numbers: bool,
    has_names: bool,
    /// The names of its integer labels, if the file states them.
    class_names: Vec<String>,
}

/// Reads files of one format: `read` appends the samples of a file, and the names that the file
/// states for integer labels.
pub(crate) fn read_tables(
    files: &[PathBuf],
    options: &TableOptions,
    on_error: ErrorPolicy,
    threads: u32,
    read: impl Fn(&Arc<Path>, &mut ArchiveListing, &mut Vec<String>) -> Result<()> + Sync,
) -> Result<(ArchiveListing, Vec<String>)> {
    options.keys.check()?;
    let nothing = format!(
        "looked for rows with something in column '{}'",
        options.keys.source
    );
    let labels = Mutex::new(HashMap::new());
    let mut packed = read_files(files, threads, &nothing, |path| {
        let (mut found, mut class_names) = (ArchiveListing::default(), Vec::new());
        if let Err(error) = read(path, &mut found, &mut class_names) {
            found.handle_error(error, on_error)?;
        }
        let has_numbers = found
            .samples
            .iter()
            .any(|sample| sample.label_name.is_none() && sample.label != NO_LABEL);
        let has_names = found
            .samples
            .iter()
            .any(|sample| sample.label_name.is_some());
        let of_file = FileLabels {
            num_samples: found.samples.len(),
            has_numbers,
            has_names,
            class_names,
        };
        labels
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(path.clone(), of_file);
        Ok(found)
    })?;
    let labels = labels.into_inner().unwrap_or_else(PoisonError::into_inner);
    let in_order: Vec<(&Path, &FileLabels)> = files
        .iter()
        .filter_map(|file| Some((file.as_path(), labels.get(file.as_path())?)))
        .collect();
    let first = |is: fn(&FileLabels) -> bool| in_order.iter().find(|(_, labels)| is(labels));
    if let (Some((numbers, _)), Some((names, _))) = (
        first(|labels| labels.has_numbers),
        first(|labels| labels.has_names),
    ) {
        return Err(Error::Argument(format!(
            "labels are numbers in {} and names in {}: '{}' must be one kind in all files",
            display_name(numbers),
            display_name(names),
            options.keys.label.as_deref().unwrap_or_default()
        )));
    }
    let names = packed
        .samples
        .iter()
        .filter_map(|sample| sample.label_name.as_deref());
    let classes = Classes::given_or(options.classes.as_deref(), names)?;
    for sample in &mut packed.samples {
        if let Some(name) = sample.label_name.as_deref() {
            sample.label = classes.label(name).map_err(Error::Argument)?;
        }
    }
    let label = options.keys.label.as_deref().unwrap_or_default();
    let named = match first(|labels| labels.has_names) {
        Some(_) => classes.names,
        None => match common_class_names(&in_order, label) {
            Err(_) if options.classes.is_some() => {
                renumber(&mut packed.samples, &in_order, &classes)?;
                Vec::new()
            }
            names => names?,
        },
    };
    Ok((packed, named))
}

/// The names of integer labels that the files state. Files that state none are read as the others.
fn common_class_names(files: &[(&Path, &FileLabels)], label: &str) -> Result<Vec<String>> {
    let mut stated = files
        .iter()
        .filter(|(_, labels)| !labels.class_names.is_empty());
    let Some((file, labels)) = stated.next() else {
        return Ok(Vec::new());
    };
    let names = &labels.class_names;
    if let Some((other, labels)) = stated.find(|(_, labels)| labels.class_names != *names) {
        return Err(Error::Argument(format!(
            "the classes of '{label}' are {} in {} and {} in {}: give classes=, or read these files apart, and join \
             the datasets with +, which joins classes by their names",
            shortened(&names.join(", ")),
            display_name(file),
            shortened(&labels.class_names.join(", ")),
            display_name(other)
        )));
    }
    Ok(names.clone())
}

/// Numbers integer labels by the given classes, where files state different names for them.
fn renumber(
    samples: &mut [ArchiveSample],
    files: &[(&Path, &FileLabels)],
    classes: &Classes,
) -> Result<()> {
    let mut left = samples.iter_mut();
    for (file, labels) in files {
        for sample in left.by_ref().take(labels.num_samples) {
            if sample.label == NO_LABEL {
                continue;
            }
            let name = usize::try_from(sample.label)
                .ok()
                .and_then(|label| labels.class_names.get(label));
            let label = match name {
                Some(name) => classes.label(name),
                None => Err(format!(
                    "the file states no name of label {}, and the other files have different names; read these \
                     files apart",
                    sample.label
                )),
            };
            sample.label = label
                .map_err(|reason| Error::Argument(format!("{}: {reason}", display_name(file))))?;
        }
    }
    Ok(())
}

/// Names of the labels of a column, from the feature description of the library `datasets`.
pub(crate) fn class_names_from_features(text: &str, label: &str) -> Vec<String> {
    let names = || -> Option<Vec<String>> {
        let said: Value = serde_json::from_str(text).ok()?;
        let Value::List(names) = said
            .get("info")?
            .get("features")?
            .get(label)?
            .get("names")?
        else {
            return None;
        };
        let text = |name: &Value| {
            if let Value::Text(name) = name {
                Some(name.clone())
            } else {
                None
            }
        };
        names.iter().map(text).collect()
    };
    names().unwrap_or_default()
}

impl TableOptions {
    /// The column of bytes, if the source is one, and the columns whose values are read for each
    /// row.
    pub(crate) fn select(
        &self,
        path: &Path,
        columns: &[TableColumn],
    ) -> Result<(Option<TableColumn>, Vec<TableColumn>)> {
        let known = || {
            columns
                .iter()
                .map(|column| column.name.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let named = |what: &str, name: &str| {
            find_column(columns, name).ok_or_else(|| {
                Error::Argument(format!(
                    "{} has no column '{}' to use as the {what}; it has {}",
                    display_name(path),
                    shortened(name),
                    shortened(&known())
                ))
            })
        };
        let source = named("source", &self.keys.source)?;
        let bytes = match source.is_bytes() {
            true => Some(source.clone()),
            false => source.field(BYTES_FIELD).filter(TableColumn::is_bytes),
        };
        if bytes.is_none() && !source.is_text() {
            let hint = match source.field(PATH_FIELD) {
                Some(path) => format!("; did you mean its field '{}'?", path.name),
                None => String::new(),
            };
            return Err(Error::Argument(format!(
                "{}: column '{}' contains neither text nor bytes, one value per row{hint}; give the column \
                 of videos or images as source=",
                display_name(path),
                source.name
            )));
        }
        let mut wanted: Vec<TableColumn> = Vec::new();
        if bytes.is_none() {
            wanted.push(source.clone());
        }
        let label = self.keys.label.as_ref();
        let roles = [label, Some(&self.keys.start), Some(&self.keys.end)];
        let roles = roles.into_iter().zip(DEFAULT_COLUMNS);
        for (name, usual) in roles.filter_map(|(name, usual)| Some((name?, usual))) {
            match find_column(columns, name) {
                Some(column) if label == Some(name) => {
                    if let Some(kind) = column.type_without_labels() {
                        return Err(Error::Argument(format!(
                            "{}: column '{name}' of type {kind} has no labels; convert it to integers or text, give \
                             the column of labels as label=, or label=None if there are none",
                            display_name(path)
                        )));
                    }
                    wanted.push(column);
                }
                Some(column) => wanted.push(column),
                None if name == usual => {}
                None => wanted.push(named(usual, name)?),
            }
        }
        match &self.others {
            Some(names) => {
                for name in names {
                    let column = named("column", name)?;
                    if column.has_bytes() {
                        let text = format!(
                            "{}: column '{name}' contains bytes, such as those of videos or images; omit it from \
                             columns=, or name its other fields",
                            display_name(path)
                        );
                        return Err(Error::Argument(text));
                    }
                    wanted.push(column);
                }
            }
            None => wanted.extend(columns.iter().filter(|column| column.is_scalar()).cloned()),
        }
        if let Some(column) = wanted.iter().find(|column| column.is_in_list) {
            return Err(Error::Argument(format!(
                "{}: '{}' is in a list, so a row has no single value of it; name the column '{}'",
                display_name(path),
                column.name,
                column.path_names[0]
            )));
        }
        let mut names = std::collections::HashSet::new();
        wanted.retain(|column| names.insert(column.name.clone()));
        if wanted.len() > MAX_COLUMNS && self.others.is_none() {
            return Err(Error::Argument(format!(
                "{} has {} columns of numbers, booleans and text, and a dataset has at most {MAX_COLUMNS}; \
                 select some with columns=",
                display_name(path),
                wanted.len()
            )));
        }
        Ok((bytes, wanted))
    }
}

/// Converts the rows of a file into samples.
pub(crate) struct RowConverter<'a> {
    path: &'a Arc<Path>,
    options: &'a TableOptions,
    wanted: &'a [TableColumn],
    root: &'a Path,
    classes: Option<Classes>,
    on_error: ErrorPolicy,
}

impl<'a> RowConverter<'a> {
    pub(crate) fn new(
        path: &'a Arc<Path>,
        options: &'a TableOptions,
        wanted: &'a [TableColumn],
        on_error: ErrorPolicy,
    ) -> Self {
        let classes = options.classes.clone().map(Classes::numbered);
        Self {
            path,
            options,
            wanted,
            root: root_of(path, options.root.as_deref()),
            classes,
            on_error,
        }
    }

    /// Appends a row with its values of the wanted columns. `cell` is the column of bytes, and
    /// where the bytes of the row are stored.
    pub(crate) fn push_row(
        &self,
        row: u64,
        values: Vec<Value>,
        cell: Option<(&Arc<str>, Option<CellLocation>)>,
        found: &mut ArchiveListing,
    ) -> Result<()> {
        let items = self
            .wanted
            .iter()
            .map(|column| column.name.clone())
            .zip(values)
            .collect();
        let made = self.sample(row, Value::Map(items), cell).map_err(|reason| {
            Error::Argument(format!(
                "{}, row {row}: {reason}; on_error=\"skip\" skips such rows",
                display_name(self.path)
            ))
        });
        match made {
            Ok(sample) => {
                found.samples.push(sample);
                Ok(())
            }
            Err(error) => found.handle_error(error, self.on_error),
        }
    }

    /// Converts a row into a sample.
    fn sample(
        &self,
        row: u64,
        object: Value,
        cell: Option<(&Arc<str>, Option<CellLocation>)>,
    ) -> Result<ArchiveSample, String> {
        let keys = &self.options.keys;
        let location = match cell {
            None => match object.get(&keys.source) {
                Some(Value::Text(text)) if !text.is_empty() => {
                    SampleLocation::Path(resolve_path(self.root, &*local_path(text)?))
                }
                other => {
                    let shown = other.map_or("missing".to_owned(), Value::shown);
                    return Err(format!(
                        "\"{}\" is {shown}, expected the path of a video",
                        keys.source
                    ));
                }
            },
            Some((column, Some(CellLocation::Range(offset, len)))) => {
                let name = Some(format!("{column}[{row}]").into());
                SampleLocation::Member(ArchiveMember {
                    file: self.path.clone(),
                    offset,
                    len,
                    name,
                })
            }
            Some((column, Some(CellLocation::Encoded))) => SampleLocation::TableCell {
                file: self.path.clone(),
                column: column.clone(),
                row,
            },
            Some((column, _)) => return Err(format!("column '{column}' has no value")),
        };
        let (label, label_name) = keys.label(&object)?;
        if let (Some(classes), Some(name)) = (&self.classes, &label_name) {
            classes.label(name)?;
        }
        let segment = keys.segment(&object)?;
        let mut column_values = Vec::new();
        if let Value::Map(items) = object {
            for (name, value) in items {
                if keys.is_column(&name, &value)? {
                    column_values.push((name, value));
                }
            }
        }
        Ok(ArchiveSample {
            label_name,
            segment,
            column_values,
            ..ArchiveSample::new(location, label)
        })
    }
}
