//! The folder of a store: `FOLDER/framespool-clips-1/RUN/PROCESS/`, with the files `lock` (locked while the process
//! runs), `log` and the segments, `NUMBER-EPOCH.clips`.
//! Only what is below `framespool-clips-1` is ever deleted, and never a folder whose process is alive.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::Result;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::log::{LogEntry, LOG_NAME};
use super::EVERY_EPOCH;

const STORE_NAME: &str = "framespool-clips-1";
const LOCK_NAME: &str = "lock";
const EXTENSION: &str = "clips";

/// Runs of which nothing was written for this time are deleted.
const MAX_AGE: Duration = Duration::from_secs(14 * 24 * 3600);

/// A new folder may not have its lock file yet.
const MIN_AGE: Duration = Duration::from_secs(60);

/// The name of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentName {
    pub number: u32,
    pub due: u64,
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.due {
            EVERY_EPOCH => write!(f, "{:06}-every.{EXTENSION}", self.number),
            due => write!(f, "{:06}-{due}.{EXTENSION}", self.number),
        }
    }
}

impl SegmentName {
    pub fn parse(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.strip_suffix(EXTENSION)?.strip_suffix('.')?;
        let (number, due) = name.split_once('-')?;
        let due = if due == "every" { EVERY_EPOCH } else { due.parse().ok()? };
        Some(Self { number: number.parse().ok()?, due })
    }
}

/// The folder of this process.
pub struct Writer {
    run: PathBuf,
    folder: PathBuf,
    log: File,
    /// Locked until the process ends, however it ends.
    _lock: File,
    owner_pid: u32,
}

impl Writer {
    pub fn create(folder: &Path, run: u64) -> Result<Self> {
        let run = folder.join(STORE_NAME).join(format!("{run:016x}"));
        create_folder(&run)?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let folder = run.join(format!("{}-{now:x}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&folder)?;
        let lock = create_file(&folder.join(LOCK_NAME))?;
        lock.lock()?;
        let log = OpenOptions::new().append(true).create_new(true).mode(0o600).open(folder.join(LOG_NAME))?;
        Ok(Self { run, folder, log, _lock: lock, owner_pid: std::process::id() })
    }

    /// The folder of the run.
    pub fn run_folder(&self) -> &Path {
        &self.run
    }

    /// The folder of this process.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn log(&self, entry: &LogEntry) -> Result<()> {
        entry.append(&self.log)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A forked child process may drop it, while its parent uses the folder.
        if self.owner_pid == std::process::id() && segments(&self.folder).next().is_none() {
            let _ = fs::remove_dir_all(&self.folder);
            let _ = fs::remove_dir(&self.run); // fails while other processes have folders there
        }
    }
}

fn create_folder(path: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Creates a file that only this user may read.
pub fn create_file(path: &Path) -> Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// The folders of the processes of a run.
pub fn writers(run: &Path) -> impl Iterator<Item = PathBuf> {
    entries(run).filter(|path| path.is_dir())
}

fn runs(folder: &Path) -> impl Iterator<Item = PathBuf> {
    entries(&folder.join(STORE_NAME)).filter(|path| path.is_dir())
}

fn segments(writer: &Path) -> impl Iterator<Item = (PathBuf, SegmentName)> {
    entries(writer).filter_map(|path| SegmentName::parse(&path).map(|name| (path, name)))
}

fn file_bytes(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// Bytes of all segments in a folder.
pub fn used_bytes(folder: &Path) -> u64 {
    runs(folder).map(|run| run_bytes(&run)).sum()
}

fn run_bytes(run: &Path) -> u64 {
    writers(run).flat_map(|writer| segments(&writer).map(|(path, _)| file_bytes(&path))).sum()
}

/// Whether the process of a folder has ended.
fn is_dead(writer: &Path) -> bool {
    match File::open(writer.join(LOCK_NAME)) {
        Ok(lock) => !matches!(lock.try_lock(), Err(TryLockError::WouldBlock)),
        Err(_) => age(writer).is_some_and(|age| age > MIN_AGE),
    }
}

/// Time since a file or a folder was changed.
fn age(path: &Path) -> Option<Duration> {
    SystemTime::now().duration_since(fs::metadata(path).ok()?.modified().ok()?).ok()
}

/// Time since the last change in the folder of a run; `None` if one of its processes is alive.
fn dead_since(run: &Path) -> Option<Duration> {
    let folders: Vec<_> = writers(run).collect();
    if !folders.iter().all(|folder| is_dead(folder)) {
        return None;
    }
    let files = folders.iter().flat_map(|folder| entries(folder).filter_map(|path| age(&path)));
    files.chain(age(run)).min()
}

/// Deletes runs that ended long ago.
pub fn remove_leftovers(folder: &Path, own: &Path) {
    for run in runs(folder).filter(|run| run != own) {
        if dead_since(&run).is_some_and(|age| age > MAX_AGE) {
            let _ = fs::remove_dir_all(&run);
        }
    }
}

/// Deletes the run that ended first. Returns the bytes that it had; `None` if all other runs are alive.
pub fn remove_oldest_run(folder: &Path, own: &Path) -> Option<u64> {
    let others = runs(folder).filter(|run| run != own);
    let oldest = others.filter_map(|run| Some((dead_since(&run)?, run))).max_by_key(|(age, _)| *age)?.1;
    let bytes = run_bytes(&oldest);
    fs::remove_dir_all(&oldest).ok()?;
    Some(bytes)
}

/// Deletes the segments of epochs before this one, also those that are in no log because their process was killed, and
/// the folders of dead processes that are empty then.
pub fn remove_past(run: &Path, own: &Path, epoch: u64) {
    for writer in writers(run) {
        let mut is_empty = true;
        for (path, name) in segments(&writer) {
            is_empty &= name.due < epoch && fs::remove_file(&path).is_ok();
        }
        if is_empty && writer != own && is_dead(&writer) {
            let _ = fs::remove_dir_all(&writer);
        }
    }
}
