//! In: the corpus, what seeds.py wrote, and what was found before.
//! Out: the inputs from which a target begins.
//! Never: copies a file of the corpus anywhere but into memory.

use std::path::{Path, PathBuf};

use framespool_datasets::find_videos;

use crate::Target;

/// Where inputs come from.
#[derive(Debug)]
pub struct Seeds {
    corpus: Option<PathBuf>,
    written: Option<PathBuf>,
    found: PathBuf,
}

impl Seeds {
    /// The corpus at FRAMESPOOL_CORPUS or beside the repository, and files at FRAMESPOOL_FUZZ_SEEDS.
    pub fn find() -> Self {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let corpus = std::env::var_os("FRAMESPOOL_CORPUS").map(PathBuf::from);
        let corpus = corpus.unwrap_or_else(|| here.join("../../../shared/corpus"));
        let corpus = corpus.join("manifest.json").is_file().then_some(corpus);
        if corpus.is_none() {
            eprintln!("no corpus: targets that need real videos and pictures begin with nothing; set FRAMESPOOL_CORPUS");
        }
        let written = std::env::var_os("FRAMESPOOL_FUZZ_SEEDS").map(PathBuf::from);
        Self { corpus, written, found: here.join("found") }
    }

    /// All inputs of a target: its own, those that were written for it, and what was found before.
    pub fn of(&self, target: &Target) -> Vec<Vec<u8>> {
        let mut all = (target.seeds)(self);
        for bytes in self.written.iter().flat_map(|written| contents(&written.join(target.name))) {
            // Options are read from the front: some of each kind.
            let kinds = if target.options == 0 { 1 } else { 32 };
            all.extend((0..kinds).map(|option| [&vec![option; target.options][..], &bytes].concat()));
        }
        all.extend(self.known(target));
        all.retain(|input| input.len() <= target.longest);
        all.sort_by_key(Vec::len);
        all.dedup();
        all
    }

    /// What was found in this target before, and was mended.
    pub fn known(&self, target: &Target) -> Vec<Vec<u8>> {
        contents(&self.found.join(target.name))
    }

    /// Videos of the corpus up to a length, the smallest first.
    pub fn videos(&self, most_bytes: u64, most: usize) -> Vec<Vec<u8>> {
        let folder = self.corpus.iter().map(|corpus| corpus.join("video"));
        let paths = folder.filter_map(|folder| find_videos(folder).ok()).flat_map(|(paths, _)| paths);
        smallest(paths, most_bytes, most)
    }

    /// Pictures of the corpus up to a length, the smallest first.
    pub fn pictures(&self, most_bytes: u64, most: usize) -> Vec<Vec<u8>> {
        let folder = self.corpus.iter().map(|corpus| corpus.join("images"));
        let extensions = ["jpg", "jpeg", "png"].map(str::to_owned);
        let folders = folder.flat_map(|images| ["classes", "corrupt", "odd"].map(|name| images.join(name)));
        let found = folders.filter_map(|folder| framespool_datasets::folder(folder, Some(&extensions)).ok());
        smallest(found.flat_map(|found| found.entries).map(|entry| entry.path), most_bytes, most)
    }
}

/// What the smallest of some files hold.
fn smallest(paths: impl Iterator<Item = PathBuf>, most_bytes: u64, most: usize) -> Vec<Vec<u8>> {
    let len = |path: &PathBuf| std::fs::metadata(path).map_or(u64::MAX, |about| about.len());
    let mut all: Vec<(u64, PathBuf)> = paths.map(|path| (len(&path), path)).collect();
    all.retain(|(len, _)| *len <= most_bytes);
    all.sort();
    all.truncate(most);
    all.into_iter().filter_map(|(_, path)| std::fs::read(path).ok()).collect()
}

/// What the files of a folder hold, in the order of their names.
fn contents(folder: &Path) -> Vec<Vec<u8>> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths.iter().filter_map(|path| std::fs::read(path).ok()).collect()
}
