//! The files of a LeRobot dataset. A folder on a disk is listed. By URL nothing can be listed, so
//! the metadata state the files: a file that they state and that is missing is an error.

use std::path::{Path, PathBuf};

use framespool::error::{Error, Result};
use framespool::source::{as_url, check_interrupt, display_name};

use super::{EPISODES, INFO, missing_key};
use crate::column_value::{Value, shortened};
use crate::lines::{read_json, site};
use crate::parquet::for_each_row;

/// Files of a folder `chunk-…`, where `info.json` does not state them.
const FILES_PER_CHUNK: i64 = 1000;

/// What `info.json` states about the files.
pub(super) struct Metadata {
    /// Path of `info.json`.
    pub(super) path: PathBuf,
    /// Version 3: episodes share files.
    pub(super) is_v3: bool,
    /// In version 3 files per folder, in version 2 episodes per folder.
    chunks_size: Option<i64>,
    total_episodes: Option<i64>,
    /// Path template of the tables of states and actions.
    pub(super) data_path: Option<String>,
}

impl Metadata {
    /// Reads `info.json`; also returns all of its contents.
    pub(super) fn read(root: &Path) -> Result<(Self, Value)> {
        let path = root.join(INFO);
        let said = read_json(&path)?;
        let version = match said.get("codebase_version") {
            Some(Value::Text(version)) => version.as_str(),
            _ => return Err(missing_key(&path, "codebase_version", "a string")),
        };
        let is_v3 = match version {
            _ if version.starts_with("v3.") => true,
            "v2.0" | "v2.1" => false,
            other => {
                return Err(Error::Unsupported {
                    site: site(&path),
                    what: format!(
                        "a LeRobot dataset of version '{}' (convert it to v3.0 with lerobot's own script)",
                        shortened(other)
                    ),
                });
            }
        };
        let above_zero = |name: &str| match said.get(name) {
            Some(Value::Integer(number)) if *number > 0 => Some(*number),
            _ => None,
        };
        let metadata = Self {
            is_v3,
            chunks_size: above_zero("chunks_size"),
            total_episodes: above_zero("total_episodes"),
            data_path: match said.get("data_path") {
                Some(Value::Text(template)) => Some(template.clone()),
                _ => None,
            },
            path,
        };
        if !is_v3 && metadata.chunks_size.is_none() {
            return Err(metadata.missing("chunks_size", "an integer above 0"));
        }
        Ok((metadata, said))
    }

    /// The error for a key of `info.json` that is missing.
    pub(super) fn missing(&self, name: &str, kind: &str) -> Error {
        missing_key(&self.path, name, kind)
    }

    /// The folder of an episode in version 2.
    pub(super) fn chunk_of(&self, episode: i64) -> i64 {
        episode / self.chunks_size.unwrap_or(FILES_PER_CHUNK)
    }

    /// An error if the dataset states more episodes than were found.
    pub(super) fn check_count(&self, found: usize) -> Result<()> {
        match self.total_episodes {
            Some(total) if usize::try_from(total).unwrap_or(usize::MAX) > found => {
                Err(Error::Argument(format!(
                    "{}: \"total_episodes\" is {total}, but the metadata lists {found}; download all files, or \
                     correct the number",
                    display_name(&self.path)
                )))
            }
            _ => Ok(()),
        }
    }
}

/// Calls `take` with each row of the tables of episodes in version 3: where it is, for error
/// messages, and its values as [`for_each_row`] passes them.
pub(super) fn for_each_episode(
    root: &Path,
    metadata: &Metadata,
    needed: &[String],
    more: &[String],
    mut take: impl FnMut(String, &[Value]) -> Result<(), String>,
) -> Result<()> {
    let folder = root.join(EPISODES);
    let mut rows = 0;
    let mut read = |file: &Path| {
        for_each_row(file, needed, more, |row, values| {
            rows += 1;
            take(format!("{}, row {row}", display_name(file)), &values)
        })
        .map(|()| rows)
    };
    if as_url(root).is_none() {
        for file in parquet_files_below(&folder)? {
            read(&file)?;
        }
        return Ok(());
    }
    let total = metadata
        .total_episodes
        .ok_or_else(|| metadata.missing("total_episodes", "an integer above 0"))?;
    let (mut chunk, mut number, mut found) = (0i64, 0i64, 0);
    while found < total {
        check_interrupt()?;
        let file = folder.join(format!("chunk-{chunk:03}/file-{number:03}.parquet"));
        let before = found;
        found = read(&file)?;
        if found == before {
            return Err(Error::Argument(format!(
                "{} has no rows, but info.json states {total} episodes and {found} were found before it",
                display_name(&file)
            )));
        }
        number += 1;
        if number == metadata.chunks_size.unwrap_or(FILES_PER_CHUNK) {
            (chunk, number) = (chunk + 1, 0);
        }
    }
    Ok(())
}

/// Fills in `{video_key}` and the numbers of a path template: `{file_index:03d}` has at least three
/// digits.
pub(super) fn expand_path(
    template: &str,
    camera: &str,
    number: impl Fn(&str) -> Option<i64>,
) -> Result<String, String> {
    let (mut path, mut rest) = (String::new(), template);
    while let Some((before, behind)) = rest.split_once('{') {
        let (field, after) = behind
            .split_once('}')
            .ok_or_else(|| format!("'{template}' has a {{ without a }}"))?;
        let (name, format) = field.split_once(':').unwrap_or((field, ""));
        path += before;
        if name == "video_key" && format.is_empty() {
            path += camera;
        } else {
            let digits = format
                .strip_suffix('d')
                .unwrap_or(format)
                .trim_start_matches('0');
            let width = if digits.is_empty() {
                Some(0)
            } else {
                digits.parse().ok().filter(|width| *width < 20)
            };
            let unknown = || format!("'{template}' has the unknown field '{{{field}}}'");
            let (number, width) = number(name).zip(width).ok_or_else(unknown)?;
            path += &format!("{number:0width$}");
        }
        rest = after;
    }
    let path = path + rest;
    let above = Path::new(&path)
        .components()
        .any(|part| !matches!(part, std::path::Component::Normal(_)));
    if path.is_empty() || above {
        return Err(format!(
            "'{}' does not lead to a file below the dataset's folder",
            shortened(&path)
        ));
    }
    Ok(path)
}

/// The Parquet files in the direct subfolders of a folder, in the order of their names.
pub(super) fn parquet_files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let list = |folder: &Path| -> Result<Vec<PathBuf>> {
        let io_error = |error| Error::io(&site(folder), error);
        let children = std::fs::read_dir(folder).map_err(io_error)?;
        let mut paths = children
            .map(|child| child.map(|child| child.path()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(io_error)?;
        paths.sort();
        Ok(paths)
    };
    let mut found = Vec::new();
    for chunk in list(folder)?.into_iter().filter(|path| path.is_dir()) {
        found.extend(
            list(&chunk)?
                .into_iter()
                .filter(|path| path.extension().is_some_and(|end| end == "parquet")),
        );
    }
    match found.is_empty() {
        true => Err(Error::Argument(format!(
            "{} has no files chunk-*/file-*.parquet",
            display_name(folder)
        ))),
        false => Ok(found),
    }
}
