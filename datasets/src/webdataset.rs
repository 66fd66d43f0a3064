//! Reads WebDataset shards: tars in which consecutive members with the same name up to the first
//! dot are a sample. Produces one dataset sample per WebDataset sample, with the byte range of its
//! video or image and its label. Reads no video.

mod index;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use framespool::error::{Error, Result};
use framespool::source::{ArchiveMember, check_interrupt, display_name};

use crate::NO_LABEL;
use crate::archive::{ArchiveListing, ArchiveSample, ErrorPolicy, SampleLocation, read_files};
use crate::column_value::{Value, shortened};
use crate::tar::{TarMember, TarMemberKind, TarReader};

/// Maximum length of a label, and of a JSON member.
pub(crate) const MAX_LABEL_BYTES: u64 = 4096;
pub(crate) const MAX_JSON_BYTES: u64 = 64 << 20;
/// Maximum length of any other member that becomes a value of a column.
const MAX_TEXT_BYTES: u64 = 1 << 20;
/// Name of the column that holds the sample keys.
const KEY_COLUMN: &str = "__key__";

/// Where the label of a sample is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelSource {
    /// Samples have no label.
    Unlabeled,
    /// The member with this extension contains a number as text.
    Text(String),
    /// The member with this extension is JSON and has the label under this path of names.
    Json(String, Vec<String>),
}

/// Reads shards.
///
/// - The key of a sample is the member name up to the first dot of its last path component; the
///   rest is the extension, which is compared without regard to case. Names such as `__meta__` and
///   hidden files belong to no sample.
/// - The column `__key__` holds the keys. A member whose extension is in `columns` becomes columns:
///   a JSON object gives one for each of its names, any other member gives one with its text.
/// - Of the members of a sample, the video or image is the one whose extension comes first in
///   `extensions`.
/// - If `indices` is given, it has one index file per shard, as written by
///   [`wds2idx`](https://docs.nvidia.com/deeplearning/dali/). The members then come from the index
///   file, and only the tar headers of the first and the last member are compared with it.
/// - A sample without a video or image is an error if it has a label, and skipped if it has none. A
///   sample without a label is an error unless `label` is [`LabelSource::Unlabeled`].
/// # Errors
/// `Argument` for a sample that lacks something; `Malformed`, `Truncated` or `Unsupported` for a
/// shard that is damaged or compressed, each with the shard and the key or byte offset. With `Skip`
/// these are counted, and the intact samples are the result.
#[allow(clippy::too_many_arguments)] // one for each keyword of the Python function
pub fn webdataset(
    shards: &[PathBuf],
    indices: Option<&[PathBuf]>,
    extensions: &[String],
    label: &LabelSource,
    columns: &[String],
    on_error: ErrorPolicy,
    threads: u32,
) -> Result<ArchiveListing> {
    let lower = |text: &String| text.trim_start_matches('.').to_ascii_lowercase();
    let extensions: Vec<String> = extensions.iter().map(lower).collect();
    if extensions.is_empty() || extensions.iter().any(String::is_empty) {
        return Err(Error::Argument(format!(
            "video must name at least one extension and none may be empty, got {extensions:?}"
        )));
    }
    let label = match label {
        LabelSource::Unlabeled => LabelSource::Unlabeled,
        LabelSource::Text(extension) => LabelSource::Text(lower(extension)),
        LabelSource::Json(extension, names) => LabelSource::Json(lower(extension), names.clone()),
    };
    let columns: Vec<String> = columns.iter().map(lower).collect();
    if let Some(indices) = indices.filter(|indices| indices.len() != shards.len()) {
        return Err(Error::Argument(format!(
            "{} indices for {} shards; give one for each",
            indices.len(),
            shards.len()
        )));
    }
    let listed: HashMap<&Path, &Path> = shards
        .iter()
        .zip(indices.unwrap_or_default())
        .map(|(shard, index)| (&**shard, &**index))
        .collect();
    let nothing = format!("looked for members ending in .{}", extensions.join(" ."));
    read_files(shards, threads, &nothing, |path| {
        let mut shard = ShardReader {
            path,
            index: listed.get(&**path).copied(),
            extensions: &extensions,
            label: &label,
            columns: &columns,
            on_error,
            found: ArchiveListing::default(),
        };
        shard.read()?;
        Ok(shard.found)
    })
}

struct ShardReader<'a> {
    path: &'a Arc<Path>,
    index: Option<&'a Path>,
    extensions: &'a [String],
    label: &'a LabelSource,
    columns: &'a [String],
    on_error: ErrorPolicy,
    found: ArchiveListing,
}

/// The members that share a key, reduced to what a dataset sample needs.
struct SampleBuilder {
    key: String,
    /// The best video or image member so far, and the index of its extension in the list.
    video: Option<(usize, TarMember)>,
    label: Option<Result<i64, String>>,
    /// Values for the columns, or why they cannot be read.
    column_values: Result<Vec<(String, Value)>, String>,
    /// An extension that occurs twice, if any.
    duplicate_extension: Option<String>,
}

impl SampleBuilder {
    fn new(key: &str) -> Self {
        let column_values = vec![(KEY_COLUMN.to_owned(), Value::Text(key.to_owned()))];
        Self {
            key: key.to_owned(),
            video: None,
            label: None,
            column_values: Ok(column_values),
            duplicate_extension: None,
        }
    }
}

impl ShardReader<'_> {
    fn read(&mut self) -> Result<()> {
        let opened = TarReader::open(self.path)
            .and_then(|mut tar| Ok((self.indexed_members(&mut tar)?, tar)));
        let (mut listed, mut tar) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.found.handle_error(error, self.on_error),
        };
        let mut sample: Option<SampleBuilder> = None;
        loop {
            check_interrupt()?;
            let member = match listed
                .as_mut()
                .map_or_else(|| tar.next(), |listed| Ok(listed.next()))
            {
                Ok(Some(member)) => member,
                Ok(None) => break,
                Err(error) => {
                    // The sample read so far is either complete or reported by `finish`.
                    self.found.handle_error(error, self.on_error)?;
                    break;
                }
            };
            let Some((key, extension)) = split_key(&member.name) else {
                continue;
            };
            if sample.as_ref().is_none_or(|sample| sample.key != key) {
                let next = SampleBuilder::new(key);
                if let Some(done) = sample.replace(next) {
                    self.finish(done)?;
                }
            }
            let Some(sample) = sample.as_mut() else {
                continue;
            };
            self.add_member(sample, &mut tar, member, &extension)?;
        }
        sample.map_or(Ok(()), |sample| self.finish(sample))
    }

    /// The members listed in the index file of the shard, if there is one.
    fn indexed_members(
        &self,
        tar: &mut TarReader,
    ) -> Result<Option<std::vec::IntoIter<TarMember>>> {
        let Some(index) = self.index else {
            return Ok(None);
        };
        let members = index::members(index, tar.len())?;
        for member in members.first().into_iter().chain(members.last()) {
            tar.check(member)?;
        }
        Ok(Some(members.into_iter()))
    }

    /// Adds a member to its sample.
    fn add_member(
        &mut self,
        sample: &mut SampleBuilder,
        tar: &mut TarReader,
        member: TarMember,
        extension: &str,
    ) -> Result<()> {
        if member.kind == TarMemberKind::Other {
            return Ok(());
        }
        let is_label = match self.label {
            LabelSource::Unlabeled => false,
            LabelSource::Text(wanted) | LabelSource::Json(wanted, _) => wanted == extension,
        };
        if is_label
            && sample
                .label
                .replace(self.read_label(tar, &member)?)
                .is_some()
        {
            sample.duplicate_extension = Some(extension.to_owned());
        }
        if self.columns.iter().any(|wanted| wanted == extension) {
            let read = self.read_columns(tar, &member, extension)?;
            sample.column_values = match (
                std::mem::replace(&mut sample.column_values, Ok(Vec::new())),
                read,
            ) {
                (Err(reason), _) | (_, Err(reason)) => Err(reason),
                (Ok(mut column_values), Ok(more)) => {
                    match more
                        .iter()
                        .find(|(name, _)| column_values.iter().any(|(known, _)| known == name))
                    {
                        Some((name, _)) => Err(format!("has column '{}' twice", shortened(name))),
                        None => {
                            column_values.extend(more);
                            Ok(column_values)
                        }
                    }
                }
            };
        }
        let Some(rank) = self
            .extensions
            .iter()
            .position(|wanted| wanted == extension)
        else {
            return Ok(());
        };
        match &sample.video {
            Some((before, _)) if *before == rank => {
                sample.duplicate_extension = Some(extension.to_owned())
            }
            Some((before, _)) if *before < rank => {}
            _ => sample.video = Some((rank, member)),
        }
        Ok(())
    }

    /// The column values in a member, or why they cannot be used. An error in the archive itself is
    /// the outer `Err`.
    fn read_columns(
        &self,
        tar: &mut TarReader,
        member: &TarMember,
        extension: &str,
    ) -> Result<Result<Vec<(String, Value)>, String>> {
        let is_json = extension == "json" || extension.ends_with(".json");
        let (what, max_bytes) = match is_json {
            true => ("bytes of a sample's JSON", MAX_JSON_BYTES),
            false => ("bytes of a column's text", MAX_TEXT_BYTES),
        };
        Ok(content(tar, member, what, max_bytes)?.and_then(|content| {
            let column_values = if is_json {
                json_columns(content)
            } else {
                text_column(content, extension)
            };
            column_values.map_err(|reason| format!("{} {reason}", member.name))
        }))
    }

    /// The label in a member, or why it cannot be used. An error in the archive itself is the outer
    /// `Err`.
    fn read_label(&self, tar: &mut TarReader, member: &TarMember) -> Result<Result<i64, String>> {
        let (what, max_bytes) = match self.label {
            LabelSource::Json(..) => ("bytes of a sample's JSON", MAX_JSON_BYTES),
            _ => ("bytes of a label", MAX_LABEL_BYTES),
        };
        Ok(content(tar, member, what, max_bytes)?.and_then(|content| {
            let label = match self.label {
                LabelSource::Json(_, names) => label_from_json(content, names),
                _ => label_from_text(content),
            };
            label.map_err(|reason| format!("{} {reason}", member.name))
        }))
    }

    /// Converts a WebDataset sample into a dataset sample.
    fn finish(&mut self, sample: SampleBuilder) -> Result<()> {
        let SampleBuilder {
            key,
            video,
            label,
            column_values,
            duplicate_extension,
        } = sample;
        let wrong = |reason: String| {
            Error::Argument(format!(
                "{}, key '{key}': {reason}; on_error=\"skip\" skips such samples",
                display_name(self.path)
            ))
        };
        let looked_for = || format!("of .{}", self.extensions.join(" ."));
        let made = match (video, label) {
            (None, None) => return Ok(()), // has none of the wanted members
            _ if duplicate_extension.is_some() => Err(wrong(format!(
                "has two members .{}",
                duplicate_extension.unwrap_or_default()
            ))),
            (None, Some(_)) => Err(wrong(format!(
                "has a label but no video or image ({})",
                looked_for()
            ))),
            (Some(_), None) if *self.label != LabelSource::Unlabeled => Err(wrong(format!(
                "has no label ({}); give label=None if there are no labels",
                match self.label {
                    LabelSource::Text(extension) | LabelSource::Json(extension, _) =>
                        format!(".{extension}"),
                    LabelSource::Unlabeled => String::new(),
                }
            ))),
            (Some(_), Some(Err(reason))) => Err(wrong(reason)),
            (Some((_, member)), label) => match (unreadable_reason(&member), column_values) {
                (Some(reason), _) | (None, Err(reason)) => Err(wrong(reason)),
                (None, Ok(column_values)) => Ok((
                    member,
                    label.and_then(Result::ok).unwrap_or(NO_LABEL),
                    column_values,
                )),
            },
        };
        match made {
            Ok((
                TarMember {
                    name, offset, len, ..
                },
                label,
                column_values,
            )) => {
                let member = ArchiveMember {
                    file: self.path.clone(),
                    offset,
                    len,
                    name: Some(name.into()),
                };
                let sample = ArchiveSample::new(SampleLocation::Member(member), label);
                self.found.samples.push(ArchiveSample {
                    column_values,
                    ..sample
                });
                Ok(())
            }
            Err(error) => self.found.handle_error(error, self.on_error),
        }
    }
}

/// Splits a member name into key and lower-case extension; `None` for a member that belongs to no
/// sample.
fn split_key(name: &str) -> Option<(&str, String)> {
    let first = name.split('/').next().unwrap_or_default();
    let is_shard_metadata = first.len() >= 4 && first.starts_with("__") && first.ends_with("__");
    let begin = name.rfind('/').map_or(0, |slash| slash + 1);
    let dot = begin + name[begin..].find('.')?;
    (!is_shard_metadata && dot > begin)
        .then(|| (&name[..dot], name[dot + 1..].to_ascii_lowercase()))
}

/// Why the bytes of a member cannot be read from its range in the archive.
fn unreadable_reason(member: &TarMember) -> Option<String> {
    let how = match member.kind {
        TarMemberKind::File | TarMemberKind::Other => return None,
        TarMemberKind::Link => {
            "is a link (pack the files themselves: tar --dereference --hard-dereference)"
        }
        TarMemberKind::Sparse => "is a sparse file (pack it without --sparse)",
        TarMemberKind::Continued => {
            "continues from another archive (pack it without --multi-volume)"
        }
    };
    Some(format!("{} {how}", member.name))
}

/// The bytes of a member, or why they are not available. An error in the archive itself is the
/// outer `Err`.
fn content<'a>(
    tar: &'a mut TarReader,
    member: &TarMember,
    what: &'static str,
    max_bytes: u64,
) -> Result<Result<&'a [u8], String>> {
    if let Some(reason) = unreadable_reason(member) {
        return Ok(Err(reason));
    }
    match tar.content(member, what, max_bytes) {
        Ok(content) => Ok(Ok(content)),
        Err(error @ Error::Limit { .. }) => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

fn json_columns(content: &[u8]) -> Result<Vec<(String, Value)>, String> {
    match serde_json::from_slice(content) {
        Ok(Value::Map(items)) => Ok(items),
        Ok(other) => Err(format!("must be an object, got {}", other.shown())),
        Err(error) => Err(format!("is not JSON: {error}")),
    }
}

fn text_column(content: &[u8], extension: &str) -> Result<Vec<(String, Value)>, String> {
    let text = std::str::from_utf8(content)
        .map_err(|_| "is not UTF-8 text; omit it from columns".to_owned())?;
    Ok(vec![(extension.to_owned(), Value::Text(text.to_owned()))])
}

/// Parses text as an integer.
pub(crate) fn label_from_text(content: &[u8]) -> Result<i64, String> {
    let text = String::from_utf8_lossy(content);
    let text = text.trim();
    text.parse()
        .map_err(|_| format!("must be an integer, got '{}'", shortened(text)))
}

/// The integer in a JSON text under this path of names.
pub(crate) fn label_from_json(content: &[u8], names: &[String]) -> Result<i64, String> {
    let json: Value =
        serde_json::from_slice(content).map_err(|error| format!("is not JSON: {error}"))?;
    let mut value = &json;
    for name in names {
        value = value
            .get(name)
            .ok_or_else(|| format!("has no {}", names.join(".")))?;
    }
    let number = match value {
        Value::Text(text) => text.trim().parse().ok(),
        Value::Integer(number) => Some(*number),
        _ => None,
    };
    number.ok_or_else(|| {
        format!(
            "must have an integer for {}, got {}",
            names.join("."),
            value.shown()
        )
    })
}

#[cfg(test)]
mod tests;
