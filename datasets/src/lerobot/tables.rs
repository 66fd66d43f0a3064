//! The tables of a LeRobot dataset: states, actions and other numbers of each frame.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use framespool::error::{Error, Result};
use framespool::source::{as_url, display_name};

use super::files::{Metadata, expand_path, for_each_episode, parquet_files_below};
use super::{EPISODES_V2, episodes_v2, whole};
use crate::archive::read_each;
use crate::column_value::Value;
use crate::parquet::for_each_row;

/// Folder of the tables.
const DATA: &str = "data";
/// Files that are read at the same time: by URL most of the time is waiting.
const REMOTE_THREADS: u32 = 16;

/// Maximum index of the first row of a file: the sum with the number of rows does not overflow.
const MAX_FIRST_ROW: i64 = i64::MAX / 2;

/// Type of the numbers of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberType {
    /// 32-bit floating point.
    Float32,
    /// 64-bit floating point.
    Float64,
    /// 64-bit integers.
    Int64,
    /// Bytes that are 0 or 1.
    Bool,
}

impl NumberType {
    /// Appends a number; the reason if the value is none of this type.
    fn push(self, value: &Value, bytes: &mut Vec<u8>) -> Result<(), String> {
        let wrong = || format!("is {}", value.shown());
        match (self, value) {
            (Self::Float32, value) => {
                bytes.extend((value.as_f64().ok_or_else(wrong)? as f32).to_ne_bytes())
            }
            (Self::Float64, value) => bytes.extend(value.as_f64().ok_or_else(wrong)?.to_ne_bytes()),
            (Self::Int64, Value::Integer(number)) => bytes.extend(number.to_ne_bytes()),
            (Self::Bool, Value::Bool(set)) => bytes.push(u8::from(*set)),
            _ => return Err(wrong()),
        }
        Ok(())
    }

    /// Appends all numbers of nested lists; returns how many there are.
    fn push_all(self, value: &Value, bytes: &mut Vec<u8>) -> Result<usize, String> {
        match value {
            Value::List(values) => values.iter().map(|value| self.push_all(value, bytes)).sum(),
            single => self.push(single, bytes).map(|()| 1),
        }
    }
}

/// Numbers of frames.
#[derive(Debug, Default)]
pub struct TableColumns {
    /// For each feature its numbers, row after row.
    pub columns: Vec<Vec<u8>>,
    /// What these rows are: first number and count of rows with consecutive values of `index`.
    pub runs: Vec<(i64, i64)>,
}

/// The rows of one file.
struct FileRows {
    first: i64,
    count: i64,
    columns: Vec<Vec<u8>>,
}

/// Reads features of frames from the tables under `data`. From a disk these are all frames, and
/// the column `index` must count from 0; by URL the tables of the given episodes are read, or of
/// all. `features` are names, types and numbers of values per row.
///
/// # Errors
/// `Argument` for a row that does not have what `features` states, with file and row, and for rows
/// that are missing; the errors of reading Parquet files.
pub fn lerobot_tables(
    root: &Path,
    features: &[(String, NumberType, usize)],
    episodes: Option<&[i64]>,
) -> Result<TableColumns> {
    let stated = match as_url(root) {
        Some(_) => Some(stated_files(root, episodes)?),
        None => None,
    };
    let (files, expected): (Vec<PathBuf>, Vec<Option<Range<i64>>>) = match stated {
        Some(files) => files
            .into_iter()
            .map(|(file, rows)| (file, Some(rows)))
            .unzip(),
        None => parquet_files_below(&root.join(DATA))?
            .into_iter()
            .map(|file| (file, None))
            .unzip(),
    };
    let threads = match as_url(root) {
        Some(_) => REMOTE_THREADS,
        None => 1,
    };
    let mut needed: Vec<String> = features.iter().map(|(name, ..)| name.clone()).collect();
    needed.push("index".to_owned());
    let read = |file: &std::sync::Arc<Path>| read_file(file, &needed, features);
    let mut all = TableColumns {
        columns: vec![Vec::new(); features.len()],
        runs: Vec::new(),
    };
    let parts = read_each(&files, threads, read)?;
    for ((file, rows), part) in files.iter().zip(expected).zip(parts) {
        let next = all.runs.last().map_or(0, |(first, count)| first + count);
        match rows {
            Some(rows) if part.first > rows.start || part.first + part.count < rows.end => {
                return Err(Error::Argument(format!(
                    "{} has the rows {} to {}, but the metadata says that its episodes have {} to {}: it is not \
                     complete",
                    display_name(file),
                    part.first,
                    part.first + part.count,
                    rows.start,
                    rows.end
                )));
            }
            None if part.count > 0 && part.first != next => {
                return Err(Error::Argument(format!(
                    "{}, row 0: {}",
                    display_name(file),
                    not_next(&part.first.to_string(), next)
                )));
            }
            _ => {}
        }
        match all.runs.last_mut() {
            Some((_, count)) if part.first == next => *count += part.count,
            _ => all.runs.push((part.first, part.count)),
        }
        for (column, more) in all.columns.iter_mut().zip(part.columns) {
            column.extend(more);
        }
    }
    Ok(all)
}

fn read_file(
    file: &Path,
    needed: &[String],
    features: &[(String, NumberType, usize)],
) -> Result<FileRows> {
    let mut part = FileRows {
        first: 0,
        count: 0,
        columns: vec![Vec::new(); features.len()],
    };
    for_each_row(file, needed, &[], |row, values| {
        match values.last() {
            Some(Value::Integer(index)) if row == 0 && (0..=MAX_FIRST_ROW).contains(index) => {
                part.first = *index;
            }
            Some(Value::Integer(index)) if *index == part.first + part.count => {}
            other => {
                let index = other.map_or_else(String::new, Value::shown);
                return Err(not_next(&index, part.first + part.count));
            }
        }
        part.count += 1;
        for (((name, kind, width), value), bytes) in
            features.iter().zip(&values).zip(&mut part.columns)
        {
            let count = kind
                .push_all(value, bytes)
                .map_err(|reason| format!("{name} {reason}"))?;
            if count != *width {
                return Err(format!(
                    "{name} has {count} numbers, info.json says {width}"
                ));
            }
        }
        Ok(())
    })?;
    Ok(part)
}

fn not_next(index: &str, expected: i64) -> String {
    format!("index is {index}, expected {expected}: files are missing or not in order")
}

/// The tables that the metadata states for these episodes, in the order of their rows, and the
/// range of rows that the episodes have in each.
fn stated_files(root: &Path, episodes: Option<&[i64]>) -> Result<Vec<(PathBuf, Range<i64>)>> {
    let (metadata, _) = Metadata::read(root)?;
    let Some(template) = &metadata.data_path else {
        return Err(metadata.missing("data_path", "a string"));
    };
    let wanted: Option<HashSet<i64>> = episodes.map(|list| list.iter().copied().collect());
    let is_wanted = |episode: i64| wanted.as_ref().is_none_or(|set| set.contains(&episode));
    // By chunk, and by file in version 3, by episode in version 2.
    let mut ranges: BTreeMap<(i64, i64), Range<i64>> = BTreeMap::new();
    if metadata.is_v3 {
        let needed = [
            "episode_index",
            "data/chunk_index",
            "data/file_index",
            "dataset_from_index",
            "dataset_to_index",
        ]
        .map(str::to_owned);
        for_each_episode(root, &metadata, &needed, &[], |_, values| {
            let mut numbers = [0; 5];
            for ((number, name), value) in numbers.iter_mut().zip(&needed).zip(values) {
                *number = whole(name, value)?;
            }
            let [episode, chunk, file, from, to] = numbers;
            if is_wanted(episode) {
                let rows = ranges.entry((chunk, file)).or_insert(from..to);
                *rows = rows.start.min(from)..rows.end.max(to);
            }
            Ok(())
        })?;
    } else {
        let mut found = episodes_v2(&root.join(EPISODES_V2))?;
        found.sort_by_key(|episode| episode.index);
        let mut from = 0i64;
        for episode in found {
            let to = from.saturating_add(episode.length);
            if is_wanted(episode.index) {
                ranges.insert((metadata.chunk_of(episode.index), episode.index), from..to);
            }
            from = to;
        }
    }
    let located = |((chunk, number), rows): ((i64, i64), Range<i64>)| {
        let value = |name: &str| match name {
            "chunk_index" | "episode_chunk" => Some(chunk),
            "file_index" | "episode_index" => Some(number),
            _ => None,
        };
        let path = expand_path(template, "", value).map_err(|reason| {
            let info = display_name(&metadata.path);
            Error::Argument(format!("data_path in {info} {reason}"))
        })?;
        Ok((root.join(path), rows))
    };
    let mut files = ranges
        .into_iter()
        .map(located)
        .collect::<Result<Vec<_>>>()?;
    files.sort_by_key(|(_, rows)| rows.start);
    Ok(files)
}
