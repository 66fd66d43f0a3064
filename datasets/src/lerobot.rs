//! Reads the folder of a LeRobot dataset, version 3, 2.1 or 2.0, as a list of episodes seen by one
//! camera. In version 3 several episodes share a video file, and each sample is a segment of one,
//! bounded by frame times. Opens no video; `tables` reads the states and actions. The folder may be
//! a URL: then `files` states which tables there are, since nothing can be listed.

mod files;
mod statistics;
mod tables;

use std::collections::{HashMap, HashSet};
use std::path::Path;

use framespool::error::{Error, Result};
use framespool::source::{check_interrupt, display_name};

use crate::column_value::{ColumnsBuilder, Value, shortened};
use crate::lines::{for_each_line, json_error, site};
use crate::parquet::for_each_row;
use crate::{Dataset, NO_LABEL, Sample, SegmentBounds};

use files::{Metadata, expand_path, for_each_episode};
pub use statistics::{Statistics, normalize, statistics};
pub use tables::{NumberType, TableColumns, lerobot_tables};

/// Metadata files of a dataset. `_V2` marks those of version 2.
const INFO: &str = "meta/info.json";
const EPISODES: &str = "meta/episodes";
const TASKS: &str = "meta/tasks.parquet";
const EPISODES_V2: &str = "meta/episodes.jsonl";
const TASKS_V2: &str = "meta/tasks.jsonl";
/// The name that pandas gives to an unnamed index column, which holds the task texts.
const PANDAS_INDEX_COLUMN: &str = "__index_level_0__";
/// Upper bound of task numbers, which become labels.
const MAX_TASKS: i64 = 10_000_000;

/// The contents of `info.json` that are needed.
struct Info {
    metadata: Metadata,
    fps: f64,
    /// Path template of the videos: field names in braces, numbers with a format such as `:03d`.
    video_path: String,
    camera: String,
}

/// One episode, as listed in the metadata.
struct Episode {
    index: i64,
    length: i64,
    tasks: Value,
    /// Chunk index, file index, start time and end time of its video, in version 3.
    video_location: Option<(i64, i64, f64, f64)>,
    /// First and end row of the episode in the data tables.
    rows: Option<(i64, i64)>,
    /// Where the metadata lists the episode, for error messages.
    said: String,
}

/// Reads a dataset: all episodes by ascending number, or the given ones in the given order.
///
/// - The camera is a feature of type `video`. It may be omitted if there is only one.
/// - An episode has `length` frames, one every `1 / fps` from its start time. Its segment starts
///   and ends half a frame before these times, so that rounding neither drops a frame nor admits
///   one.
/// - The label is the number of the first task, and the classes are the tasks. The columns are
///   `episode_index`, `length`, `tasks`, `fps`, and, where the metadata has them,
///   `dataset_from_index` and `dataset_to_index`.
///
/// # Errors
/// `Argument` for a camera or an episode that does not exist, and for files that contradict each
/// other, with file and row; `Unsupported` for other versions and for cameras whose images are
/// stored in tables; the errors of reading JSON and Parquet files.
pub fn lerobot(root: &Path, camera: Option<&str>, episodes: Option<&[i64]>) -> Result<Dataset> {
    let info = Info::read(root, camera)?;
    let new = info.metadata.is_v3;
    let names = if new {
        tasks(&root.join(TASKS))?
    } else {
        tasks_v2(&root.join(TASKS_V2))?
    };
    let numbers: HashMap<&str, i64> = names
        .iter()
        .map(|(number, task)| (task.as_str(), *number))
        .collect();
    let mut found = if new {
        info.episodes(root)?
    } else {
        episodes_v2(&root.join(EPISODES_V2))?
    };
    info.metadata.check_count(found.len())?;
    found.sort_by_key(|episode| episode.index);
    if let Some(pair) = found.windows(2).find(|pair| pair[0].index == pair[1].index) {
        return Err(metadata_error(
            &pair[1].said,
            &format!("episode {} appears twice", pair[1].index),
        ));
    }
    if let Some(wanted) = episodes {
        let mut by_index: HashMap<i64, Episode> =
            found.into_iter().map(|one| (one.index, one)).collect();
        let take = |index: &i64| {
            by_index.remove(index).ok_or_else(|| {
                Error::Argument(format!(
                    "{} has no episode {index}, or episodes= names it twice",
                    display_name(root)
                ))
            })
        };
        found = wanted.iter().map(take).collect::<Result<_>>()?;
    }
    if found.is_empty() {
        return Err(Error::Argument(format!(
            "{} has no episodes, or none was requested",
            display_name(root)
        )));
    }
    let (mut dataset, mut columns) = (Dataset::default(), ColumnsBuilder::default());
    for (number, episode) in found.into_iter().enumerate() {
        check_interrupt()?;
        let sample = info
            .sample(root, &episode, &numbers)
            .map_err(|reason| metadata_error(&episode.said, &reason))?;
        dataset.samples.push(sample);
        let rows = episode
            .rows
            .map(|(from, to)| (Value::Integer(from), Value::Integer(to)));
        let column_values = [
            ("episode_index", Some(Value::Integer(episode.index))),
            ("length", Some(Value::Integer(episode.length))),
            ("tasks", Some(episode.tasks)),
            ("fps", Some(Value::Float(info.fps))),
            (
                "dataset_from_index",
                rows.as_ref().map(|rows| rows.0.clone()),
            ),
            ("dataset_to_index", rows.map(|rows| rows.1)),
        ];
        for (name, value) in column_values {
            if let Some(value) = value {
                columns.set(number, name, value).map_err(Error::Argument)?;
            }
        }
    }
    dataset.columns = columns.finish(dataset.samples.len());
    dataset.classes = classes(names);
    Ok(dataset)
}

/// The tasks in the order of their numbers, if the numbers are exactly 0, 1, 2, …; otherwise none.
fn classes(mut tasks: Vec<(i64, String)>) -> Vec<String> {
    tasks.sort();
    let plain = (0..)
        .zip(&tasks)
        .all(|(index, (number, _))| index == *number);
    if plain {
        tasks.into_iter().map(|(_, task)| task).collect()
    } else {
        Vec::new()
    }
}

impl Info {
    /// Reads `info.json`.
    fn read(root: &Path, camera: Option<&str>) -> Result<Self> {
        let (metadata, said) = Metadata::read(root)?;
        let path = &metadata.path;
        let fps = said
            .get("fps")
            .and_then(Value::as_f64)
            .filter(|fps| fps.is_finite() && *fps > 0.0);
        let fps = fps.ok_or_else(|| missing_key(path, "fps", "a number above 0"))?;
        // Checked before `video_path`, since a dataset without video cameras has no `video_path`
        // either.
        let camera = camera_of(path, &said, camera)?;
        let Some(Value::Text(video_path)) = said.get("video_path") else {
            return Err(missing_key(path, "video_path", "a string"));
        };
        Ok(Self {
            fps,
            video_path: video_path.clone(),
            camera,
            metadata,
        })
    }

    /// The episodes of a version 3 dataset.
    fn episodes(&self, root: &Path) -> Result<Vec<Episode>> {
        let of_video = |what: &str| format!("videos/{}/{what}", self.camera);
        let needed = [
            "episode_index".to_owned(),
            "length".to_owned(),
            "tasks".to_owned(),
            of_video("chunk_index"),
            of_video("file_index"),
            of_video("from_timestamp"),
            of_video("to_timestamp"),
        ];
        let more = [
            "dataset_from_index".to_owned(),
            "dataset_to_index".to_owned(),
        ];
        let mut found = Vec::new();
        for_each_episode(root, &self.metadata, &needed, &more, |said, values| {
            let [index, length, tasks, chunk, number, from, to, first, last] = values else {
                return Err("lacks the requested columns".to_owned());
            };
            let seconds = |name: &str, value: &Value| {
                let seconds = value
                    .as_f64()
                    .filter(|number| number.is_finite() && *number >= 0.0);
                seconds.ok_or_else(|| {
                    format!("{name} is {}, expected a time in seconds", value.shown())
                })
            };
            let rows = match (first, last) {
                (Value::Integer(first), Value::Integer(last)) => Some((*first, *last)),
                _ => None,
            };
            found.push(Episode {
                index: whole(&needed[0], index)?,
                length: whole(&needed[1], length)?,
                tasks: tasks.clone(),
                video_location: Some((
                    whole(&needed[3], chunk)?,
                    whole(&needed[4], number)?,
                    seconds(&needed[5], from)?,
                    seconds(&needed[6], to)?,
                )),
                rows,
                said,
            });
            Ok(())
        })?;
        Ok(found)
    }

    /// Converts an episode into a sample.
    fn sample(
        &self,
        root: &Path,
        episode: &Episode,
        tasks: &HashMap<&str, i64>,
    ) -> Result<Sample, String> {
        let label = match &episode.tasks {
            Value::Null => NO_LABEL,
            Value::List(names) => match names.first() {
                None => NO_LABEL,
                Some(Value::Text(task)) => *tasks.get(task.as_str()).ok_or_else(|| {
                    format!(
                        "task '{}' is not one of the dataset's {}",
                        shortened(task),
                        tasks.len()
                    )
                })?,
                Some(other) => {
                    return Err(format!("tasks contains {}, expected text", other.shown()));
                }
            },
            other => {
                return Err(format!(
                    "tasks is {}, expected a list of text",
                    other.shown()
                ));
            }
        };
        let chunk = match episode.video_location {
            Some((chunk, ..)) => chunk,
            None => self.metadata.chunk_of(episode.index),
        };
        let number = |name: &str| match name {
            "chunk_index" | "episode_chunk" => Some(chunk),
            "file_index" => episode.video_location.map(|(_, file, ..)| file),
            "episode_index" => Some(episode.index),
            _ => None,
        };
        let path = expand_path(&self.video_path, &self.camera, number).map_err(|reason| {
            format!(
                "video_path in {} {reason}",
                display_name(&self.metadata.path)
            )
        })?;
        let mut sample = Sample::new(root.join(path), label);
        if let Some((_, _, from, to)) = episode.video_location {
            sample.segment = Some(self.segment(episode.length, from, to)?);
        }
        Ok(sample)
    }

    /// The segment of the file that an episode covers. Its frames have the times `from + i / fps`,
    /// but the metadata and the file round these times differently, so the bounds are halfway
    /// between frames.
    fn segment(&self, length: i64, from: f64, to: f64) -> Result<SegmentBounds, String> {
        let half = 0.5 / self.fps;
        let end = from + length as f64 / self.fps;
        if length < 1 || (end - to).abs() > half {
            return Err(format!(
                "has {length} frames at {} per second, but its video range is {from} to {to} seconds",
                self.fps
            ));
        }
        let start = Some(from - half).filter(|start| *start > 0.0);
        Ok(SegmentBounds::Seconds {
            start,
            end: Some(end - half),
        })
    }
}

/// The name of the selected camera.
fn camera_of(path: &Path, said: &Value, camera: Option<&str>) -> Result<String> {
    let Some(Value::Map(features)) = said.get("features") else {
        return Err(missing_key(path, "features", "an object"));
    };
    let kind = |feature: &Value| match feature.get("dtype") {
        Some(Value::Text(kind)) => kind.clone(),
        _ => String::new(),
    };
    let cameras: Vec<&str> = features
        .iter()
        .filter(|(_, feature)| kind(feature) == "video")
        .map(|(name, _)| name.as_str())
        .collect();
    let listed = || match cameras.is_empty() {
        true => "it has none".to_owned(),
        false => format!("it has {}", cameras.join(", ")),
    };
    let named = |reason: String| Error::Argument(format!("{}: {reason}", display_name(path)));
    match (camera, &cameras[..]) {
        (Some(name), _) if cameras.contains(&name) => Ok(name.to_owned()),
        (Some(name), _)
            if features
                .iter()
                .any(|(other, f)| other == name && kind(f) == "image") =>
        {
            Err(Error::Unsupported {
                site: site(path),
                what: format!(
                    "camera '{name}', whose images are in the dataset's tables (read these with datasets.parquet),"
                ),
            })
        }
        (Some(name), _) => Err(named(format!(
            "no camera '{}'; {}",
            shortened(name),
            listed()
        ))),
        (None, [one]) => Ok((*one).to_owned()),
        (None, _) => Err(named(format!("give one camera as camera=; {}", listed()))),
    }
}

/// Numbers and texts of the tasks, version 3.
fn tasks(path: &Path) -> Result<Vec<(i64, String)>> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    let names = ["task".to_owned(), PANDAS_INDEX_COLUMN.to_owned()];
    for_each_row(path, &["task_index".to_owned()], &names, |_, values| {
        let [number, named, unnamed] = &values[..] else {
            return Err("has no tasks".to_owned());
        };
        let task = if *named == Value::Null {
            unnamed
        } else {
            named
        };
        found.push(task_of(number, task, &mut seen)?);
        Ok(())
    })?;
    Ok(found)
}

/// Numbers and texts of the tasks, version 2.
fn tasks_v2(path: &Path) -> Result<Vec<(i64, String)>> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for_each_line(path, false, |_, text| {
        let said: Value = serde_json::from_str(text).map_err(|error| json_error(&error))?;
        let get = |name| said.get(name).unwrap_or(&Value::Null);
        found.push(task_of(get("task_index"), get("task"), &mut seen)?);
        Ok(())
    })?;
    Ok(found)
}

fn task_of(number: &Value, task: &Value, seen: &mut HashSet<i64>) -> Result<(i64, String), String> {
    match (number, task) {
        (Value::Integer(number), Value::Text(task)) if (0..MAX_TASKS).contains(number) => {
            match seen.insert(*number) {
                true => Ok((*number, task.clone())),
                false => Err(format!("task_index {number} appears twice")),
            }
        }
        _ => Err(format!(
            "expected a task with a number, got {} with {}",
            task.shown(),
            number.shown()
        )),
    }
}

/// The episodes of a version 2 dataset.
fn episodes_v2(path: &Path) -> Result<Vec<Episode>> {
    let mut found = Vec::new();
    for_each_line(path, false, |line, text| {
        let said: Value = serde_json::from_str(text).map_err(|error| json_error(&error))?;
        let number = |name: &str| match said.get(name) {
            Some(value) => whole(name, value),
            None => Err(format!("{name} is missing, expected an integer")),
        };
        found.push(Episode {
            index: number("episode_index")?,
            length: number("length")?,
            tasks: said.get("tasks").cloned().unwrap_or(Value::Null),
            video_location: None,
            rows: None,
            said: format!("{}, line {line}", display_name(path)),
        });
        Ok(())
    })?;
    Ok(found)
}

/// A number that is an integer of at least 0.
fn whole(name: &str, value: &Value) -> Result<i64, String> {
    match value {
        Value::Integer(number) if *number >= 0 => Ok(*number),
        other => Err(format!("{name} is {}, expected an integer", other.shown())),
    }
}

fn metadata_error(said: &str, reason: &str) -> Error {
    Error::Argument(format!("{said}: {reason}"))
}

fn missing_key(path: &Path, name: &str, kind: &str) -> Error {
    Error::Argument(format!(
        "{}: \"{name}\" must be {kind}; this is not a LeRobot dataset, or it is damaged",
        display_name(path)
    ))
}

#[cfg(test)]
mod tests;
