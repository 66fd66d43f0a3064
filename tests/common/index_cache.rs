//! Helpers for the tests of the index cache: many names for a few videos, their indices, and what a
//! store returns.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::ops::Deref;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use framespool::index::cache::IndexCache;
use framespool::index::{VideoIndex, build};
use framespool::limits::Limits;
use framespool::source::{ByteSource, FileSource};

/// A wait for the writer thread that ends only when everything is written.
pub const UNLIMITED: Duration = Duration::MAX;

/// SplitMix64, a pseudorandom generator with a fixed sequence.
pub struct TestRng(pub u64);

impl TestRng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn next_below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// A folder of one test in this process; a test that fails keeps it.
pub struct TestFolder(PathBuf);

/// Creates an empty folder for one test.
pub fn folder(name: &str) -> TestFolder {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("index_cache")
        .join(format!("{name}-{}", std::process::id()));
    remove(&folder);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    TestFolder(folder)
}

/// Removes a folder, even if a test made it read-only.
fn remove(folder: &Path) {
    let _ = std::fs::set_permissions(folder, PermissionsExt::from_mode(0o700));
    let _ = std::fs::remove_dir_all(folder);
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            remove(self);
        }
    }
}

impl Deref for TestFolder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for TestFolder {
    fn as_ref(&self) -> &Path {
        self
    }
}

pub fn database(place: &Path) -> PathBuf {
    place.join("framespool-index.sqlite3")
}

pub fn open(path: &Path) -> Arc<dyn ByteSource> {
    Arc::new(FileSource::open(path).expect("a video"))
}

/// Returns when a file was last changed.
pub fn changed_at(path: &Path) -> SystemTime {
    let meta = std::fs::metadata(path).expect("a file");
    SystemTime::UNIX_EPOCH + Duration::new(meta.ctime() as u64, meta.ctime_nsec() as u32)
}

/// Waits until an index of a file that was just written is trusted, see `stable_after` in
/// src/index/cache/record.rs.
pub fn wait_until_trusted(path: &Path) {
    let changed = changed_at(path);
    let has_whole_seconds = changed
        .duration_since(SystemTime::UNIX_EPOCH)
        .is_ok_and(|time| time.subsec_nanos() == 0);
    let tick = Duration::from_millis(if has_whole_seconds { 2000 } else { 20 });
    while SystemTime::now() < changed + tick {
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn build_index(path: &Path) -> Arc<VideoIndex> {
    Arc::new(build(&open(path), &Limits::default()).expect("an index"))
}

/// Creates `count` symbolic links to small videos below `folder`. Each name is an entry of its own
/// in the store; the contents do not matter here.
pub fn symlinks(folder: &Path, count: usize) -> Vec<PathBuf> {
    let small = |e: &super::Entry| e.path.starts_with("video/action/") && e.path.ends_with(".mp4");
    let all = super::entries(super::media(), "video/action/");
    let files: Vec<PathBuf> = all
        .iter()
        .filter(|e| small(e))
        .map(|e| e.root.join(&e.path))
        .collect();
    let make = |(n, file): (usize, &PathBuf)| {
        let link = folder.join(format!("video_{n:04}.mp4"));
        std::os::unix::fs::symlink(file, &link).expect("a link");
        link
    };
    files
        .iter()
        .cycle()
        .take(count)
        .enumerate()
        .map(make)
        .collect()
}

/// Builds the indices of all links, once per file.
pub fn expected(links: &[PathBuf]) -> BTreeMap<PathBuf, Arc<VideoIndex>> {
    let mut built: BTreeMap<PathBuf, Arc<VideoIndex>> = BTreeMap::new();
    let mut each = BTreeMap::new();
    for link in links {
        let file = link.canonicalize().expect("a link to a file");
        let index = built
            .entry(file)
            .or_insert_with(|| build_index(link))
            .clone();
        let index = VideoIndex {
            site: current_site(link),
            ..(*index).clone()
        };
        each.insert(link.clone(), Arc::new(index));
    }
    each
}

pub fn current_site(path: &Path) -> framespool::error::Site {
    framespool::error::Site::file(&path.to_string_lossy().into())
}

/// Stores the indices as if the files were read in the year 2100: entries contain the time, which is
/// thus the same in every run.
pub fn put_all(store: &IndexCache, indices: &BTreeMap<PathBuf, Arc<VideoIndex>>) {
    let since = SystemTime::UNIX_EPOCH + Duration::from_secs(4_102_444_800);
    for (path, index) in indices {
        store.put_blocking(path, &*open(path), None, since, index);
    }
    assert!(store.flush(UNLIMITED));
}

/// Returns how many of the indices are stored; panics if a stored one differs.
pub fn count_stored(store: &IndexCache, indices: &BTreeMap<PathBuf, Arc<VideoIndex>>) -> usize {
    let found = |(path, index): (&PathBuf, &Arc<VideoIndex>)| {
        let found = store.get(path, &*open(path), None)?;
        assert_eq!(
            found,
            *index,
            "{}: another index than a fresh one",
            path.display()
        );
        Some(())
    };
    indices.iter().filter_map(found).count()
}
