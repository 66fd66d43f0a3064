//! Reads LMDB files: `data.mdb`, or a file of any name (`subdir=False`).
//! Produces the byte range of the value of each key, in key order, and its label.
//! Neither maps, writes nor locks a file, and reads only committed transactions.

mod caffe;
mod file;
mod page;
mod walk;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use framespool::error::{Error, Result};
use framespool::limits::Limits;
use framespool::source::{name_of, Member};

use crate::packed::{read_all, OnError, Packed, PackedEntry, Stored, Watch};
use crate::value::{shortened, Value};
use crate::webdataset::{from_json, from_text, LONGEST_JSON, LONGEST_LABEL};
use crate::NO_LABEL;
use file::{LmdbFile, Tree};
use walk::{integer, walk, Found, Item};

/// Name of the column that holds the keys.
const KEY: &str = "key";
/// Number of names that an error message lists.
const SHOWN: usize = 8;

/// Which database is read, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lmdb {
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
    /// The value of each key that matches this pattern (`{}` matches any text) is a video or an image.
    Plain {
        /// The key pattern.
        key: String,
        /// Where labels are stored.
        label: Option<Beside>,
    },
    /// A value is a Caffe `Datum`, which includes the label.
    Caffe,
}

/// Labels that are stored under separate keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beside {
    /// The key pattern of the labels; `{}` has the value that it has in the key of the video or image.
    pub key: String,
    /// If empty, the label is a number as text; otherwise it is in JSON under this path of names.
    pub names: Vec<String>,
}

/// Reads files.
///
/// - The column `key` holds the keys: as text, or as hexadecimal digits if any key is not UTF-8, or as
///   numbers in a database with integer keys.
/// - Keys such as `__len__` and keys that match the label pattern belong to no entry.
///
/// # Errors
/// `Malformed` or `Truncated` for a damaged file, with the offset; `Unsupported` for another format, and for
/// keys with several values; `Argument` for a database that does not exist, and for an entry whose label is
/// missing or not a number. With `Skip` these are counted: a damaged page loses its own entries and those
/// below it.
pub fn lmdb(
    files: &[PathBuf],
    how: &Lmdb,
    on_error: OnError,
    threads: u32,
    interrupt: Watch,
) -> Result<Packed> {
    let (keys, labels) = match &how.layout {
        LmdbLayout::Caffe => (Pattern::any(), None),
        LmdbLayout::Plain { key, label } => {
            let keys = Pattern::parse("key", key)?;
            let labels = label.as_ref().map(|label| Pattern::parse("label", &label.key)).transpose()?;
            if labels.as_ref() == Some(&keys) {
                return Err(Error::Argument(format!("key and label must differ, got '{key}' for both")));
            }
            (keys, labels)
        }
    };
    let nothing = match &how.layout {
        LmdbLayout::Caffe => "looked for values that are a Datum of Caffe".to_owned(),
        LmdbLayout::Plain { key, .. } => format!("looked for keys like '{key}'"),
    };
    read_all(files, threads, interrupt, &nothing, |path, go_on| {
        let mut reader =
            Reader { path, how, keys: &keys, labels: labels.as_ref(), on_error, found: Packed::default() };
        if let Err(error) = reader.read(go_on) {
            reader.found.fail(error, on_error)?;
        }
        Ok(reader.found)
    })
}

/// A key pattern: a prefix, any text, and a suffix.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    before: String,
    behind: String,
}

impl Pattern {
    fn any() -> Self {
        Self { before: String::new(), behind: String::new() }
    }

    fn parse(name: &str, text: &str) -> Result<Self> {
        match text.split_once("{}") {
            Some((before, behind)) if !behind.contains("{}") => {
                Ok(Self { before: before.to_owned(), behind: behind.to_owned() })
            }
            _ => Err(Error::Argument(format!(
                "{name} must have {{}} once, where keys differ, as in 'image-{{}}', got '{}'",
                shortened(text)
            ))),
        }
    }

    /// The part of a matching key that `{}` matches.
    fn part<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        key.strip_prefix(self.before.as_bytes())?.strip_suffix(self.behind.as_bytes())
    }
}

struct Reader<'a> {
    path: &'a Arc<Path>,
    how: &'a Lmdb,
    keys: &'a Pattern,
    labels: Option<&'a Pattern>,
    on_error: OnError,
    found: Packed,
}

impl Reader<'_> {
    fn read(&mut self, go_on: Watch) -> Result<()> {
        let mut file = LmdbFile::open(self.path)?;
        let tree = self.tree(&mut file, go_on)?;
        let (on_error, found) = (self.on_error, &mut self.found);
        let items = walk(&mut file, &tree, self.how.check, go_on, |error| found.fail(error, on_error))?;
        let values = || items.iter().filter(|item| matches!(item.found, Found::Value { .. }));
        if values().next().is_none() && self.how.database.is_none() {
            let names: Vec<_> = items.iter().map(|item| String::from_utf8_lossy(&item.key)).collect();
            if !names.is_empty() {
                return Err(Error::Argument(format!(
                    "{} has nothing but databases with names; give one as database=: {}",
                    name_of(self.path),
                    listed(&names)
                )));
            }
        }
        let shown = Keys::all(&tree, &items);
        let beside: HashMap<&[u8], &Item> = match self.labels {
            None => HashMap::new(),
            Some(pattern) => values().filter_map(|item| Some((pattern.part(&item.key)?, item))).collect(),
        };
        for item in values() {
            go_on()?;
            let Some(part) = self.keys.part(&item.key) else { continue };
            if self.labels.is_some_and(|labels| labels.part(&item.key).is_some()) || of_the_whole(&item.key) {
                continue;
            }
            match self.entry(&mut file, item, shown.of(&item.key), beside.get(part).copied()) {
                Ok(entry) => self.found.entries.push(entry),
                Err(error) => self.found.fail(error, self.on_error)?,
            }
        }
        Ok(())
    }

    /// The tree of the selected database.
    fn tree(&self, file: &mut LmdbFile, go_on: Watch) -> Result<Tree> {
        let main = file.main;
        let Some(name) = &self.how.database else { return Ok(main) };
        let items = walk(file, &main, false, go_on, Err)?;
        let Some(item) = items.iter().find(|item| item.key == name.as_bytes()) else {
            let names: Vec<_> = items
                .iter()
                .filter(|item| matches!(item.found, Found::Tree(_)))
                .map(|item| String::from_utf8_lossy(&item.key))
                .collect();
            let there = match names.is_empty() {
                true => "it has none with a name".to_owned(),
                false => format!("it has {}", listed(&names)),
            };
            return Err(Error::Argument(format!(
                "{} has no database '{}'; {there}",
                name_of(self.path),
                shortened(name)
            )));
        };
        match &item.found {
            Found::Tree(bytes) => Tree::parse(bytes, file.end)
                .map_err(|reason| file.blocks.damaged(0, format!("database '{name}': {reason}"))),
            Found::Value { .. } => Err(Error::Argument(format!(
                "{}: '{}' is a key with a value, not a database",
                name_of(self.path),
                shortened(name)
            ))),
        }
    }

    /// Converts a key with its value into an entry.
    fn entry(
        &self,
        file: &mut LmdbFile,
        item: &Item,
        key: Value,
        label: Option<&Item>,
    ) -> Result<PackedEntry> {
        let name = match &key {
            Value::Text(text) => text.clone(),
            other => other.shown(),
        };
        let wrong = |reason: String| {
            Error::Argument(format!(
                "{}, key '{}': {reason}; on_error=\"skip\" leaves out such entries",
                name_of(self.path),
                shortened(&name)
            ))
        };
        let Found::Value { offset, len } = item.found else { return Err(wrong("is a database".to_owned())) };
        let (offset, len, label) = match &self.how.layout {
            LmdbLayout::Caffe => caffe::datum(&mut file.blocks, (offset, offset + len))?.map_err(wrong)?,
            LmdbLayout::Plain { label: None, .. } => (offset, len, NO_LABEL),
            LmdbLayout::Plain { label: Some(beside), .. } => {
                let Some(Item { key, found: Found::Value { offset: at, len: long } }) = label else {
                    return Err(wrong(format!(
                        "there is no label, as a key like '{}'; give label=None if there are none",
                        beside.key
                    )));
                };
                let (what, cap) = match beside.names.is_empty() {
                    true => ("bytes of a label", LONGEST_LABEL),
                    false => ("bytes of a label's JSON", LONGEST_JSON),
                };
                let long = Limits::check(&file.blocks.site(*at), what, *long, cap)?;
                let content = file.blocks.get(*at, long as usize)?;
                let read = match beside.names.is_empty() {
                    true => from_text(content),
                    false => from_json(content, &beside.names),
                };
                let shown = String::from_utf8_lossy(key);
                (offset, len, read.map_err(|reason| wrong(format!("{} {reason}", shortened(&shown))))?)
            }
        };
        let member = Member { file: self.path.clone(), offset, len, name: Some(name.into()) };
        let facts = vec![(KEY.to_owned(), key)];
        Ok(PackedEntry { facts, ..PackedEntry::new(Stored::Member(member), label) })
    }
}

/// Whether a key describes the whole database, such as `__len__` or `__keys__`. Such values are usually
/// pickles, which are never read; the keys are in the tree anyway.
fn of_the_whole(key: &[u8]) -> bool {
    key.len() >= 4 && key.starts_with(b"__") && key.ends_with(b"__")
}

/// How keys are shown. All keys of a database are shown in the same way.
enum Keys {
    Text,
    Digits,
    Integer,
}

impl Keys {
    fn all(tree: &Tree, items: &[Item]) -> Self {
        match items {
            _ if tree.has_integer_keys() => Keys::Integer,
            _ if items.iter().all(|item| std::str::from_utf8(&item.key).is_ok()) => Keys::Text,
            _ => Keys::Digits,
        }
    }

    /// The value of the column `key` for a key.
    fn of(&self, key: &[u8]) -> Value {
        match (self, integer(key)) {
            (Keys::Integer, Some(number)) => {
                i64::try_from(number).map_or(Value::Large(number), Value::Integer)
            }
            (Keys::Text, _) => Value::Text(String::from_utf8_lossy(key).into_owned()),
            _ => Value::Text(key.iter().map(|byte| format!("{byte:02x}")).collect()),
        }
    }
}

/// The first few names, for error messages.
fn listed(names: &[impl AsRef<str>]) -> String {
    let shown: Vec<String> =
        names.iter().take(SHOWN).map(|name| format!("'{}'", shortened(name.as_ref()))).collect();
    let more = names.len().saturating_sub(SHOWN);
    match more {
        0 => shown.join(", "),
        _ => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests;
