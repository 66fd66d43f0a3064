//! The corpus: where it is, what its manifest and recorded frames say. Tests skip by name where it is missing.
#![allow(dead_code)]

pub mod index;
pub mod sparing;
pub mod spools;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use framespool::source::{ByteSource, FileSource};
use md5::{Digest, Md5};

/// The corpus folder, or `None` (with a line that says so) where there is none.
pub fn corpus() -> Option<PathBuf> {
    let place = std::env::var_os("FRAMESPOOL_CORPUS").map(PathBuf::from);
    let place = place.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/corpus"));
    if place.join("manifest.json").is_file() {
        return Some(place);
    }
    assert!(std::env::var_os("CI").is_none(), "CI must have the corpus at {}", place.display());
    eprintln!("SKIPPED: no corpus at {}; set FRAMESPOOL_CORPUS", place.display());
    None
}

/// One file of the manifest.
pub struct Entry {
    pub root: PathBuf,
    pub path: String,
    pub facts: serde_json::Value,
}

impl Entry {
    pub fn source(&self) -> framespool::Result<Arc<dyn ByteSource>> {
        Ok(Arc::new(FileSource::open(&self.root.join(&self.path))?))
    }

    pub fn is_corrupt(&self) -> bool {
        self.path.contains("/corrupt/")
    }

    pub fn has_hashes(&self) -> bool {
        self.hash_file().is_file()
    }

    fn hash_file(&self) -> PathBuf {
        self.root.join("frames").join(format!("{}.txt", self.path))
    }

    /// (pts, first 16 hex digits of the md5 of the raw planes) of each frame, in presentation order as recorded.
    pub fn hashes(&self) -> Vec<(i64, String)> {
        let text = std::fs::read_to_string(self.hash_file()).expect("recorded frames");
        text.lines()
            .map(|line| {
                let (pts, hash) = line.split_once(' ').expect("two columns");
                (pts.parse().unwrap_or(i64::MIN), hash.to_owned())
            })
            .collect()
    }

    pub fn codec(&self) -> &str {
        self.facts["codec"].as_str().unwrap_or("")
    }
}

/// All videos of the corpus, or none where it is missing.
pub fn videos() -> Vec<Entry> {
    entries("video/")
}

/// The corpus's images.
pub fn images() -> Vec<Entry> {
    entries("images/")
}

fn entries(folder: &str) -> Vec<Entry> {
    let Some(root) = corpus() else { return Vec::new() };
    let text = std::fs::read_to_string(root.join("manifest.json")).expect("manifest");
    let manifest: serde_json::Value = serde_json::from_str(&text).expect("manifest is JSON");
    manifest["files"]
        .as_array()
        .expect("files")
        .iter()
        .filter(|f| f["path"].as_str().is_some_and(|p| p.starts_with(folder)))
        .map(|f| Entry { root: root.clone(), path: f["path"].as_str().unwrap().to_owned(), facts: f.clone() })
        .collect()
}

/// Hash of a decoded frame, as the corpus records it.
pub fn hash(frame: &framespool::ffmpeg::Frame) -> String {
    let mut md5 = Md5::new();
    frame.raw_planes(|row| md5.update(row));
    hex(md5)
}

/// Short hash of bytes.
pub fn digest(bytes: &[u8]) -> String {
    hex(Md5::new_with_prefix(bytes))
}

fn hex(md5: Md5) -> String {
    md5.finalize().iter().take(8).map(|b| format!("{b:02x}")).collect()
}
