//! Collects the inputs that a target starts with: the test media, the additional corpus, the output
//! of seeds.py, and earlier failures. Corpus files are copied only into memory.

use std::path::{Path, PathBuf};

use framespool_datasets::folder;

use crate::Target;

/// The sources of inputs.
#[derive(Debug)]
pub struct Seeds {
    /// The generated media, then the additional corpus.
    roots: Vec<PathBuf>,
    written: Option<PathBuf>,
    found: PathBuf,
}

impl Seeds {
    /// The test media at FRAMESPOOL_MEDIA or target/media, the corpus at FRAMESPOOL_CORPUS if set,
    /// and files at FRAMESPOOL_FUZZ_SEEDS.
    pub fn find() -> Self {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let media = named("FRAMESPOOL_MEDIA").unwrap_or_else(|| here.join("../../target/media"));
        let no_media = "run scripts/setup.sh tests, which makes the test media";
        let corpus =
            named("FRAMESPOOL_CORPUS").map(|corpus| (corpus, "correct or unset FRAMESPOOL_CORPUS"));
        let with_manifest = |(root, next): (PathBuf, &str)| {
            assert!(
                root.join("manifest.json").is_file(),
                "no manifest.json in {}: {next}",
                root.display()
            );
            root
        };
        let roots = [Some((media, no_media)), corpus]
            .into_iter()
            .flatten()
            .map(with_manifest)
            .collect();
        Self {
            roots,
            written: named("FRAMESPOOL_FUZZ_SEEDS"),
            found: here.join("found"),
        }
    }

    /// All inputs of a target: its own, those of seeds.py, and earlier failures.
    pub fn of(&self, target: &Target) -> Vec<Vec<u8>> {
        let mut all = (target.seeds)(self);
        for bytes in self
            .written
            .iter()
            .flat_map(|written| contents(&written.join(target.name)))
        {
            // Options are at the front: add some of each kind.
            let kinds = if target.options == 0 { 1 } else { 32 };
            all.extend(
                (0..kinds).map(|option| [&vec![option; target.options][..], &bytes].concat()),
            );
        }
        all.extend(self.known(target));
        all.retain(|input| input.len() <= target.longest);
        all.sort_by_key(Vec::len);
        all.dedup();
        all
    }

    /// Inputs that failed earlier in this target and are fixed.
    pub fn known(&self, target: &Target) -> Vec<Vec<u8>> {
        contents(&self.found.join(target.name))
    }

    /// Videos up to a length, the smallest of each folder first.
    pub fn videos(&self, most_bytes: u64, most: usize) -> Vec<Vec<u8>> {
        let videos = |root: &PathBuf| {
            let found = folder(root.join("video"), None)
                .into_iter()
                .flat_map(|found| found.samples);
            smallest(found.map(|entry| entry.path), most_bytes, most)
        };
        self.roots.iter().flat_map(videos).collect()
    }

    /// Files with audio up to a length.
    pub fn audio(&self, most_bytes: u64, most: usize) -> Vec<Vec<u8>> {
        let audio = |root: &PathBuf| {
            let entries = std::fs::read_dir(root.join("video").join("audio"));
            let paths = entries
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.path());
            smallest(paths, most_bytes, most)
        };
        self.roots.iter().flat_map(audio).collect()
    }

    /// Images up to a length, the smallest of each folder first.
    pub fn pictures(&self, most_bytes: u64, most: usize) -> Vec<Vec<u8>> {
        let extensions = ["jpg", "jpeg", "png"].map(str::to_owned);
        let pictures = |root: &PathBuf| {
            let folders = ["classes", "corrupt", "odd"].map(|name| root.join("images").join(name));
            let found = folders
                .into_iter()
                .filter_map(|f| folder(f, Some(&extensions)).ok());
            smallest(
                found
                    .flat_map(|found| found.samples)
                    .map(|entry| entry.path),
                most_bytes,
                most,
            )
        };
        self.roots.iter().flat_map(pictures).collect()
    }
}

/// The folder in a variable, unless it is empty.
fn named(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable)
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from)
}

/// The contents of the smallest of some files.
fn smallest(paths: impl Iterator<Item = PathBuf>, most_bytes: u64, most: usize) -> Vec<Vec<u8>> {
    let len = |path: &PathBuf| std::fs::metadata(path).map_or(u64::MAX, |about| about.len());
    let mut all: Vec<(u64, PathBuf)> = paths.map(|path| (len(&path), path)).collect();
    all.retain(|(len, _)| *len <= most_bytes);
    all.sort();
    all.truncate(most);
    all.into_iter()
        .filter_map(|(_, path)| std::fs::read(path).ok())
        .collect()
}

/// The contents of the files of a folder, sorted by name.
fn contents(folder: &Path) -> Vec<Vec<u8>> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    paths.sort();
    paths
        .iter()
        .filter_map(|path| std::fs::read(path).ok())
        .collect()
}
