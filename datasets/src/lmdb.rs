//! In: files of LMDB: `data.mdb`, or a file by any name (`subdir=False`).
//! Out: where the value of each key lies, in the order of the keys, and its label.
//! Never: maps a file, writes to it, takes its lock, or looks at what a transaction has not finished.

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

/// The column of the keys.
const KEY: &str = "key";
/// Names that an error repeats.
const SHOWN: usize = 8;

/// Which database is read, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lmdb {
    /// Name of one inside the file; the one without a name if not given.
    pub database: Option<String>,
    /// What values are.
    pub layout: LmdbLayout,
    /// The pages of long values are looked at too, one read for each.
    pub check: bool,
}

/// What values are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LmdbLayout {
    /// The value of each key that looks like this (`{}` stands for any text) is a video or a picture.
    Plain {
        /// What keys look like.
        key: String,
        /// Where labels are.
        label: Option<Beside>,
    },
    /// A value is a `Datum` of Caffe, with its label in it.
    Caffe,
}

/// Labels under keys of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beside {
    /// What these keys look like; `{}` stands for what it stands for in the key of the video or picture.
    pub key: String,
    /// The label is a number in text, or, with names, lies in JSON under them.
    pub names: Vec<String>,
}

/// Reads files.
///
/// - Keys are the column `key`: text, or as hexadecimal digits if one of them is not UTF-8; numbers in a database of numbers.
/// - Keys like `__len__` and those that look like a label's belong to no entry.
///
/// # Errors
/// `Malformed` or `Truncated` for a damaged file, with the byte; `Unsupported` for another format, and for keys with several
/// values; `Argument` for a database that is not there, and for an entry whose label is missing or no number. With
/// `Skip` they are counted: damage to a page loses what lies on it and below it.
pub fn lmdb(files: &[PathBuf], how: &Lmdb, on_error: OnError, threads: u32, watch: Watch) -> Result<Packed> {
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
    read_all(files, threads, watch, &nothing, |path, go_on| {
        let mut reader =
            Reader { path, how, keys: &keys, labels: labels.as_ref(), on_error, found: Packed::default() };
        if let Err(error) = reader.read(go_on) {
            reader.found.fail(error, on_error)?;
        }
        Ok(reader.found)
    })
}

/// What keys look like: a text before, any text, and a text behind.
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

    /// What stands for `{}` in a key that looks like this.
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

    /// The tree that is meant.
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

    /// What a key with its value is as an entry.
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

/// Whether a key says something of the whole database: `__len__`, `__keys__`. What such values hold is mostly a pickle, which is
/// never read; the keys are in the tree.
fn of_the_whole(key: &[u8]) -> bool {
    key.len() >= 4 && key.starts_with(b"__") && key.ends_with(b"__")
}

/// How keys are shown: all of a database in one way.
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

    /// A key, as it is shown.
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

/// First few of some names.
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
