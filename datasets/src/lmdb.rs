//! Reads LMDB files: `data.mdb`, or a file of any name (`subdir=False`).
//! Produces the byte range of the value of each key, in key order, and its label.
//! Neither maps, writes nor locks a file, and reads only committed transactions.

mod btree;
mod caffe;
mod file;
mod page;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use framespool::error::{Error, Result};
use framespool::limits::Limits;
use framespool::source::{ArchiveMember, check_interrupt, display_name};

use crate::NO_LABEL;
use crate::archive::{ArchiveListing, ArchiveSample, ErrorPolicy, SampleLocation, read_files};
use crate::column_value::{Value, shortened};
use crate::webdataset::{MAX_JSON_BYTES, MAX_LABEL_BYTES, label_from_json, label_from_text};
use btree::{ItemData, TreeItem, integer_key, traverse};
use file::{LmdbFile, Tree};

/// Name of the column that holds the keys.
const KEY_COLUMN: &str = "key";
/// Number of names that an error message lists.
const MAX_LISTED_NAMES: usize = 8;

/// Which database is read, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LmdbOptions {
    /// Name of a named database inside the file; `None` is the unnamed one.
    pub database: Option<String>,
    /// The layout of the values.
    pub layout: LmdbLayout,
    /// Also check the first overflow page of each long value, which takes one read per value.
    pub check: bool,
}

/// The layout of the values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LmdbLayout {
    /// The value of each key that matches this pattern (`{}` matches any text) is a video or an
    /// image.
    Plain {
        /// The key pattern.
        key: String,
        /// Where labels are stored.
        label: Option<LabelKeys>,
    },
    /// A value is a Caffe `Datum`, which includes the label.
    Caffe,
}

/// Labels that are stored under separate keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelKeys {
    /// The key pattern of the labels; `{}` has the value that it has in the key of the video or
    /// image.
    pub key: String,
    /// If empty, the label is a number as text; otherwise it is in JSON under this path of names.
    pub names: Vec<String>,
}

/// Reads files.
///
/// - The column `key` holds the keys: as text, or as hexadecimal digits if any key is not UTF-8, or
///   as numbers in a database with integer keys.
/// - Keys such as `__len__` and keys that match the label pattern belong to no entry.
///
/// # Errors
/// `Malformed` or `Truncated` for a damaged file, with the offset; `Unsupported` for another
/// format, and for keys with several values; `Argument` for a database that does not exist, and for
/// an entry whose label is missing or not a number. With `Skip` these are counted: a damaged page
/// loses its own entries and those below it.
pub fn lmdb(
    files: &[PathBuf],
    options: &LmdbOptions,
    on_error: ErrorPolicy,
    threads: u32,
) -> Result<ArchiveListing> {
    let (keys, labels) = match &options.layout {
        LmdbLayout::Caffe => (KeyPattern::any(), None),
        LmdbLayout::Plain { key, label } => {
            let keys = KeyPattern::parse("key", key)?;
            let labels = label
                .as_ref()
                .map(|label| KeyPattern::parse("label", &label.key))
                .transpose()?;
            if labels.as_ref() == Some(&keys) {
                return Err(Error::Argument(format!(
                    "key and label must differ, got '{key}' for both"
                )));
            }
            (keys, labels)
        }
    };
    let nothing = match &options.layout {
        LmdbLayout::Caffe => "looked for values that are a Datum of Caffe".to_owned(),
        LmdbLayout::Plain { key, .. } => format!("looked for keys like '{key}'"),
    };
    read_files(files, threads, &nothing, |path| {
        let mut reader = LmdbReader {
            path,
            options,
            keys: &keys,
            labels: labels.as_ref(),
            on_error,
            found: ArchiveListing::default(),
        };
        if let Err(error) = reader.read() {
            reader.found.handle_error(error, on_error)?;
        }
        Ok(reader.found)
    })
}

/// A key pattern: a prefix, any text, and a suffix.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyPattern {
    prefix: String,
    suffix: String,
}

impl KeyPattern {
    fn any() -> Self {
        Self {
            prefix: String::new(),
            suffix: String::new(),
        }
    }

    fn parse(name: &str, text: &str) -> Result<Self> {
        match text.split_once("{}") {
            Some((before, behind)) if !behind.contains("{}") => Ok(Self {
                prefix: before.to_owned(),
                suffix: behind.to_owned(),
            }),
            _ => Err(Error::Argument(format!(
                "{name} must contain {{}} once, where keys differ, as in 'image-{{}}', got '{}'",
                shortened(text)
            ))),
        }
    }

    /// The part of a matching key that `{}` matches.
    fn captured<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        key.strip_prefix(self.prefix.as_bytes())?
            .strip_suffix(self.suffix.as_bytes())
    }
}

struct LmdbReader<'a> {
    path: &'a Arc<Path>,
    options: &'a LmdbOptions,
    keys: &'a KeyPattern,
    labels: Option<&'a KeyPattern>,
    on_error: ErrorPolicy,
    found: ArchiveListing,
}

impl LmdbReader<'_> {
    fn read(&mut self) -> Result<()> {
        let mut file = LmdbFile::open(self.path)?;
        let tree = self.tree(&mut file)?;
        let (on_error, found) = (self.on_error, &mut self.found);
        let items = traverse(&mut file, &tree, self.options.check, |error| {
            found.handle_error(error, on_error)
        })?;
        let values = || {
            items
                .iter()
                .filter(|item| matches!(item.data, ItemData::Value { .. }))
        };
        if values().next().is_none() && self.options.database.is_none() {
            let names: Vec<_> = items
                .iter()
                .map(|item| String::from_utf8_lossy(&item.key))
                .collect();
            if !names.is_empty() {
                return Err(Error::Argument(format!(
                    "{} contains only named databases; give one as database=: {}",
                    display_name(self.path),
                    quoted_names(&names)
                )));
            }
        }
        let key_format = KeyFormat::detect(&tree, &items);
        let label_items: HashMap<&[u8], &TreeItem> = match self.labels {
            None => HashMap::new(),
            Some(pattern) => values()
                .filter_map(|item| Some((pattern.captured(&item.key)?, item)))
                .collect(),
        };
        for item in values() {
            check_interrupt()?;
            let Some(id) = self.keys.captured(&item.key) else {
                continue;
            };
            if self
                .labels
                .is_some_and(|labels| labels.captured(&item.key).is_some())
                || is_metadata_key(&item.key)
            {
                continue;
            }
            match self.sample(
                &mut file,
                item,
                key_format.format(&item.key),
                label_items.get(id).copied(),
            ) {
                Ok(sample) => self.found.samples.push(sample),
                Err(error) => self.found.handle_error(error, self.on_error)?,
            }
        }
        Ok(())
    }

    /// The tree of the selected database.
    fn tree(&self, file: &mut LmdbFile) -> Result<Tree> {
        let main = file.main;
        let Some(name) = &self.options.database else {
            return Ok(main);
        };
        let items = traverse(file, &main, false, Err)?;
        let Some(item) = items.iter().find(|item| item.key == name.as_bytes()) else {
            let names: Vec<_> = items
                .iter()
                .filter(|item| matches!(item.data, ItemData::Tree(_)))
                .map(|item| String::from_utf8_lossy(&item.key))
                .collect();
            let there = match names.is_empty() {
                true => "it has no named database".to_owned(),
                false => format!("it has {}", quoted_names(&names)),
            };
            return Err(Error::Argument(format!(
                "{} has no database '{}'; {there}",
                display_name(self.path),
                shortened(name)
            )));
        };
        match &item.data {
            ItemData::Tree(bytes) => Tree::parse(bytes, file.end).map_err(|reason| {
                file.reader
                    .malformed(0, format!("database '{name}': {reason}"))
            }),
            ItemData::Value { .. } => Err(Error::Argument(format!(
                "{}: '{}' is a key with a value, not a database",
                display_name(self.path),
                shortened(name)
            ))),
        }
    }

    /// Converts a key with its value into an entry.
    fn sample(
        &self,
        file: &mut LmdbFile,
        item: &TreeItem,
        key: Value,
        label: Option<&TreeItem>,
    ) -> Result<ArchiveSample> {
        let name = match &key {
            Value::Text(text) => text.clone(),
            other => other.shown(),
        };
        let wrong = |reason: String| {
            Error::Argument(format!(
                "{}, key '{}': {reason}; on_error=\"skip\" skips such entries",
                display_name(self.path),
                shortened(&name)
            ))
        };
        let ItemData::Value { offset, len } = item.data else {
            return Err(wrong("is a database".to_owned()));
        };
        let (offset, len, label) = match &self.options.layout {
            LmdbLayout::Caffe => {
                caffe::datum(&mut file.reader, (offset, offset + len))?.map_err(wrong)?
            }
            LmdbLayout::Plain { label: None, .. } => (offset, len, NO_LABEL),
            LmdbLayout::Plain {
                label: Some(label_keys),
                ..
            } => {
                let Some(TreeItem {
                    key,
                    data:
                        ItemData::Value {
                            offset: at,
                            len: long,
                        },
                }) = label
                else {
                    return Err(wrong(format!(
                        "there is no label under a key like '{}'; give label=None if there are no labels",
                        label_keys.key
                    )));
                };
                let (what, max_bytes) = match label_keys.names.is_empty() {
                    true => ("bytes of a label", MAX_LABEL_BYTES),
                    false => ("bytes of a label's JSON", MAX_JSON_BYTES),
                };
                let long = Limits::check(&file.reader.site(*at), what, *long, max_bytes)?;
                let content = file.reader.get(*at, long as usize)?;
                let read = match label_keys.names.is_empty() {
                    true => label_from_text(content),
                    false => label_from_json(content, &label_keys.names),
                };
                let shown = String::from_utf8_lossy(key);
                (
                    offset,
                    len,
                    read.map_err(|reason| wrong(format!("{} {reason}", shortened(&shown))))?,
                )
            }
        };
        let member = ArchiveMember {
            file: self.path.clone(),
            offset,
            len,
            name: Some(name.into()),
        };
        let column_values = vec![(KEY_COLUMN.to_owned(), key)];
        Ok(ArchiveSample {
            column_values,
            ..ArchiveSample::new(SampleLocation::Member(member), label)
        })
    }
}

/// Whether a key describes the whole database, such as `__len__` or `__keys__`. Such values are
/// usually pickles, which are never read; the keys are in the tree anyway.
fn is_metadata_key(key: &[u8]) -> bool {
    key.len() >= 4 && key.starts_with(b"__") && key.ends_with(b"__")
}

/// How keys are shown. All keys of a database are shown in the same way.
enum KeyFormat {
    Text,
    Hex,
    Integer,
}

impl KeyFormat {
    fn detect(tree: &Tree, items: &[TreeItem]) -> Self {
        match items {
            _ if tree.has_integer_keys() => KeyFormat::Integer,
            _ if items
                .iter()
                .all(|item| std::str::from_utf8(&item.key).is_ok()) =>
            {
                KeyFormat::Text
            }
            _ => KeyFormat::Hex,
        }
    }

    /// The value of the column `key` for a key.
    fn format(&self, key: &[u8]) -> Value {
        match (self, integer_key(key)) {
            (KeyFormat::Integer, Some(number)) => {
                i64::try_from(number).map_or(Value::Unsigned(number), Value::Integer)
            }
            (KeyFormat::Text, _) => Value::Text(String::from_utf8_lossy(key).into_owned()),
            _ => Value::Text(key.iter().map(|byte| format!("{byte:02x}")).collect()),
        }
    }
}

/// The first few names, for error messages.
fn quoted_names(names: &[impl AsRef<str>]) -> String {
    let shown: Vec<String> = names
        .iter()
        .take(MAX_LISTED_NAMES)
        .map(|name| format!("'{}'", shortened(name.as_ref())))
        .collect();
    let more = names.len().saturating_sub(MAX_LISTED_NAMES);
    match more {
        0 => shown.join(", "),
        _ => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests;
