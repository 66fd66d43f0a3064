//! The test media: their location, their manifest and their recorded frames. `make test` generates
//! them with `tests/media/make.py`. A second corpus of the same layout at FRAMESPOOL_CORPUS is
//! optional: tests over all files read it too, tests of one file never do.
#![allow(dead_code)]

pub mod frame_dependency;
pub mod index_cache;
pub mod loaders;
pub mod mp4;
pub mod sei;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use framespool::source::{ByteSource, FileSource};
use md5::{Digest, Md5};

/// Returns the folder of the generated media.
pub fn media() -> PathBuf {
    let folder = std::env::var_os("FRAMESPOOL_MEDIA").map(PathBuf::from);
    let folder =
        folder.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target/media"));
    assert!(
        folder.join("manifest.json").is_file(),
        "no test media at {}: run scripts/setup.sh tests, which makes them",
        folder.display()
    );
    folder
}

/// Returns the folder of the second corpus, if FRAMESPOOL_CORPUS is set.
pub fn corpus() -> Option<PathBuf> {
    let folder = std::env::var_os("FRAMESPOOL_CORPUS")
        .filter(|name| !name.is_empty())
        .map(PathBuf::from)?;
    assert!(
        folder.join("manifest.json").is_file(),
        "FRAMESPOOL_CORPUS is {}, which holds no manifest.json; correct or unset it",
        folder.display()
    );
    Some(folder)
}

/// One file of the manifest.
pub struct Entry {
    pub root: PathBuf,
    pub path: String,
    pub properties: serde_json::Value,
}

impl Entry {
    pub fn source(&self) -> framespool::Result<Arc<dyn ByteSource>> {
        Ok(Arc::new(FileSource::open(&self.root.join(&self.path))?))
    }

    pub fn is_corrupt(&self) -> bool {
        self.path.contains("/corrupt/")
    }

    /// Returns whether libavcodec decodes the damage of this file to wrong pixels without an error:
    /// VP8, VP9 and AV1 have no redundancy, so a flipped bit may stay undetected, and a gap in
    /// H.264's `frame_num` is concealed. The pixels of such a frame depend on the state of the
    /// decoder.
    pub fn damage_is_unreported(&self) -> bool {
        let of_any_tier = ["bitflip_vp9.webm", "bitflip_av1.webm"];
        let generated = ["bitflip_vp8.webm", "bitflip_av1.mp4", "lost_idr.264"];
        self.path
            .strip_prefix("video/corrupt/derived/")
            .is_some_and(|name| {
                of_any_tier.contains(&name) || generated.contains(&name) && !self.in_corpus()
            })
    }

    /// Whether its frames are recorded and correct. Those of `p_lost.264` were recorded with a
    /// decoder that replaces missing reference pictures without an error.
    pub fn has_hashes(&self) -> bool {
        self.hash_file().is_file() && self.path != "video/corrupt/p_lost.264"
    }

    fn hash_file(&self) -> PathBuf {
        self.root.join("frames").join(format!("{}.txt", self.path))
    }

    /// Returns (pts, first 16 hex digits of the MD5 of the raw planes) of each frame, in
    /// presentation order as recorded.
    pub fn hashes(&self) -> Vec<(i64, String)> {
        let text = std::fs::read_to_string(self.hash_file()).expect("recorded frames");
        text.lines()
            .map(|line| {
                let (pts, hash) = line.split_once(' ').expect("two columns");
                (pts.parse().unwrap_or(i64::MIN), hash.to_owned())
            })
            .collect()
    }

    /// Returns whether the file belongs to the second corpus.
    pub fn in_corpus(&self) -> bool {
        corpus().is_some_and(|root| root == self.root)
    }

    pub fn codec(&self) -> &str {
        self.properties["codec"].as_str().unwrap_or("")
    }
}

/// Returns all videos: the generated media, then the second corpus.
pub fn videos() -> Vec<Entry> {
    both_tiers("video/")
}

/// Returns all images: the generated media, then the second corpus.
pub fn images() -> Vec<Entry> {
    both_tiers("images/")
}

/// Returns one generated file.
pub fn named(path: &str) -> Entry {
    let found = entries(media(), path)
        .into_iter()
        .find(|entry| entry.path == path);
    found.unwrap_or_else(|| panic!("{path} is not among the test media: add it to tests/media"))
}

fn both_tiers(folder: &str) -> Vec<Entry> {
    [Some(media()), corpus()]
        .into_iter()
        .flatten()
        .flat_map(|root| entries(root, folder))
        .collect()
}

/// Returns the files of a manifest whose path begins with `prefix`.
pub fn entries(root: PathBuf, prefix: &str) -> Vec<Entry> {
    let text = std::fs::read_to_string(root.join("manifest.json")).expect("manifest");
    let manifest: serde_json::Value = serde_json::from_str(&text).expect("manifest is JSON");
    manifest["files"]
        .as_array()
        .expect("files")
        .iter()
        .filter(|f| f["path"].as_str().is_some_and(|p| p.starts_with(prefix)))
        .map(|f| Entry {
            root: root.clone(),
            path: f["path"].as_str().unwrap().to_owned(),
            properties: f.clone(),
        })
        .collect()
}

/// Hashes a decoded frame in the format of the records in `frames/`.
pub fn hash(frame: &framespool::ffmpeg::Frame) -> String {
    let mut md5 = Md5::new();
    frame.raw_planes(|row| md5.update(row));
    hex(md5)
}

/// Hashes bytes in the same format.
pub fn digest(bytes: &[u8]) -> String {
    hex(Md5::new_with_prefix(bytes))
}

fn hex(md5: Md5) -> String {
    md5.finalize()
        .iter()
        .take(8)
        .map(|b| format!("{b:02x}"))
        .collect()
}
