//! Reads published dataset formats (folders, lists, archives, tables) into a [`Dataset`] or a
//! [`ArchiveListing`].
//!
//! # Where to start
//!
//! - [`folder`], [`annotation_file`], [`json_lines`] and [`dali_file_list`] list files, and return a
//!   [`Dataset`]: a [`Sample`] (path, label, segment) for each video, and further [`Column`]s.
//! - [`annotation_table`] reads the annotations of a published dataset from a description of its
//!   columns, and [`lerobot`] the episodes of a robot dataset.
//! - [`webdataset`], [`tfrecord`], [`recordio`] and [`lmdb`] list the members of archives, and return
//!   an [`ArchiveListing`]: where the bytes of each video are inside of an archive.
//! - [`parquet`] and [`arrow`] do the same for tables with a column of bytes.
//!
//! # How a call flows
//!
//! A reader reads the list, index or headers, in parallel if there are several archives, and sorts
//! what it found. Each description of a video becomes one entry of the result; the loader opens the
//! video much later, by the path or the range of bytes.
//!
//! # What always holds
//!
//! - The order of samples is the same on every machine: names are compared byte by byte.
//! - No video is opened, and every sample that is skipped is counted, with its reason.
//! - Damage is reported with the file and the line or offset, and never causes a panic.
//!
//! # Example
//!
//! ```
//! let root = std::env::temp_dir().join(format!("framespool-example-{}", std::process::id()));
//! for (class, file) in [("jump", "b.mp4"), ("jump", "a.mp4"), ("clap", "c.mp4")] {
//!     std::fs::create_dir_all(root.join(class))?;
//!     std::fs::write(root.join(class).join(file), "")?;
//! }
//! let dataset = framespool_datasets::folder(&root, None)?;
//! std::fs::remove_dir_all(&root)?;
//!
//! assert_eq!(dataset.classes, ["clap", "jump"]);
//! let labels: Vec<i64> = dataset.samples.iter().map(|sample| sample.label).collect();
//! assert_eq!(labels, [0, 1, 1]);
//! assert!(dataset.samples[1].path.ends_with("jump/a.mp4"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(unreachable_pub)]

mod annotation_file;
mod annotation_table;
mod archive;
mod arrow;
mod classes;
mod column_value;
mod columnar;
mod dali_file_list;
mod file_lookup;
mod folder;
mod json_lines;
mod lerobot;
mod lines;
mod lmdb;
mod parquet;
mod path_pattern;
mod protobuf;
mod range_reader;
mod recordio;
mod tar;
mod tfrecord;
mod webdataset;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

pub use annotation_file::{AnnotationColumn, AnnotationOptions, annotation_file};
pub use annotation_table::{TableDescription, annotation_table};
pub use archive::{ArchiveListing, ArchiveSample, ErrorPolicy, SampleLocation};
pub use arrow::arrow;
pub use column_value::{Column, Value};
pub use columnar::TableOptions;
pub use dali_file_list::{DaliUnit, dali_file_list};
pub use folder::folder;
pub use json_lines::{SampleKeys, json_lines};
pub use lerobot::{
    NumberType, Statistics, TableColumns, lerobot, lerobot_tables, normalize, statistics,
};
pub use lines::read_text;
pub use lmdb::{LabelKeys, LmdbLayout, LmdbOptions, lmdb};
pub use parquet::{CellReader, parquet};
pub use recordio::recordio;
pub use tfrecord::{TfRecordOptions, tfrecord};
pub use webdataset::{LabelSource, webdataset};

/// The label of a video that has none.
pub const NO_LABEL: i64 = -1;

/// The extensions that count as videos unless the caller gives others.
pub static VIDEO_EXTENSIONS: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| framespool::containers::video_extensions().collect());

/// One video of a dataset, or a segment of one.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The path of the video.
    pub path: PathBuf,
    /// The label, or [`NO_LABEL`].
    pub label: i64,
    /// The name of the label, where the dataset gives one.
    pub label_name: Option<String>,
    /// The segment of the video that the sample covers; `None` is the whole video.
    pub segment: Option<SegmentBounds>,
    /// Set if the path is a folder of images: the images that are the frames.
    pub image_sequence: Option<ImageSequencePattern>,
}

impl Sample {
    /// A whole video.
    pub fn new(path: PathBuf, label: i64) -> Self {
        Self {
            path,
            label,
            label_name: None,
            segment: None,
            image_sequence: None,
        }
    }
}

/// A half-open segment of a video, `start..end`. A missing bound is the start or the end of the
/// video.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SegmentBounds {
    /// In frames, from 0. A negative number counts from the end of the video: -1 is the last frame.
    Frames {
        /// The first frame.
        start: i64,
        /// One past the last frame.
        end: Option<i64>,
    },
    /// In seconds of presentation time.
    Seconds {
        /// Includes frames whose presentation time is at least this.
        start: Option<f64>,
        /// Excludes frames whose presentation time is at least this.
        end: Option<f64>,
    },
}

/// Which images of a folder are the frames of a video.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageSequencePattern {
    /// File name of a frame, with `{}`, `{:05}`, `%d` or `%05d` for the frame number.
    pub pattern: String,
    /// Number of the first frame.
    pub first: u32,
    /// Number of frames. `None` counts up to the first number that has no file.
    pub count: Option<u32>,
    /// Frames per second: numerator, denominator.
    pub fps: (u32, u32),
}

/// A list of videos with their labels and other values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dataset {
    /// The videos, in the order of the dataset.
    pub samples: Vec<Sample>,
    /// `classes[label]` is the name of the label; empty where the dataset does not name its labels.
    pub classes: Vec<String>,
    /// Further values that the dataset gives for its videos. Each column is as long as `samples`.
    pub columns: Vec<Column>,
    /// What was skipped, and why: shown to the user.
    pub notes: Vec<String>,
}

/// Whether a file name ends in a dot and one of the extensions, in upper or lower case.
fn has_extension(path: &Path, extensions: &[impl AsRef<str>]) -> bool {
    let Some(name) = path.file_name().map(|name| name.as_encoded_bytes()) else {
        return false;
    };
    extensions.iter().any(|extension| {
        let extension = extension.as_ref().as_bytes();
        let Some(dot) = name.len().checked_sub(extension.len() + 1) else {
            return false;
        };
        name[dot] == b'.' && name[dot + 1..].eq_ignore_ascii_case(extension)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A temporary folder for one test, removed on drop.
    pub(crate) struct TempFolder(pub PathBuf);

    impl TempFolder {
        pub(crate) fn new() -> Self {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let unique = format!(
                "{}-{}",
                std::process::id(),
                COUNT.fetch_add(1, Ordering::Relaxed)
            );
            let path = std::env::temp_dir().join(format!("framespool-datasets-{unique}"));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        /// Writes a file and creates its parent folders.
        pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
            let path = self.0.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, content).unwrap();
            path
        }
    }

    impl Drop for TempFolder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn extensions_match_whole_and_in_any_case() {
        for (name, matches) in [
            ("a.MP4", true),
            ("a.b.mp4", true),
            ("amp4", false),
            ("a.xmp4", false),
            ("mp4", false),
            ("", false),
        ] {
            assert_eq!(has_extension(Path::new(name), &["mp4"]), matches, "{name}");
        }
    }
}
