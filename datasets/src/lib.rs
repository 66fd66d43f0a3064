//! In: folders, lists and archives, as datasets are published. Out: [`Dataset`] or [`Packed`]: which videos there are, and their labels.
//! One file per format, one function per file; the order of entries is the same on every machine.
//! Never: opens a video, or leaves out an entry without saying so.

mod blocks;
mod file_list;
mod find;
mod folder;
mod packed;
mod recordio;
mod tar;
mod tfrecord;
mod webdataset;

use std::path::{Path, PathBuf};

pub use file_list::file_list;
pub use find::find_videos;
pub use folder::folder;
pub use packed::{OnError, Packed, PackedEntry, Stored, Watch};
pub use recordio::recordio;
pub use tfrecord::{tfrecord, Features};
pub use webdataset::{webdataset, LabelIn};

/// The label of a video that has none.
pub const NO_LABEL: i64 = -1;

/// What is taken for a video unless extensions are given.
pub const VIDEO_EXTENSIONS: [&str; 22] = [
    "mp4", "m4v", "mov", "mkv", "webm", "avi", "ts", "mts", "m2ts", "mpg", "mpeg", "flv", "wmv", "3gp",
    "ogv", "ivf", "h264", "264", "265", "hevc", "h265", "obu",
];

/// One video of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it is.
    pub path: PathBuf,
    /// Its label, [`NO_LABEL`] if it has none.
    pub label: i64,
    /// What the label means, where the dataset says so.
    pub label_name: Option<String>,
}

/// A list of videos.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dataset {
    /// The videos, in the order of the dataset.
    pub entries: Vec<Entry>,
    /// `classes[label]` is the name of the label; empty where the dataset does not name its labels.
    pub classes: Vec<String>,
}

/// Whether a file name ends in a dot and one of the extensions, in upper or lower case.
fn has_extension(path: &Path, extensions: &[impl AsRef<str>]) -> bool {
    let Some(name) = path.file_name().map(|name| name.as_encoded_bytes()) else { return false };
    extensions.iter().any(|extension| {
        let extension = extension.as_ref().as_bytes();
        let Some(dot) = name.len().checked_sub(extension.len() + 1) else { return false };
        name[dot] == b'.' && name[dot + 1..].eq_ignore_ascii_case(extension)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A folder of its own for one test, removed afterwards.
    pub(crate) struct TempFolder(pub PathBuf);

    impl TempFolder {
        pub fn new() -> Self {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let unique = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(format!("framespool-datasets-{unique}"));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        /// Writes a file, with the folders above it.
        pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
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
