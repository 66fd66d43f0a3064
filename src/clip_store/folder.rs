//! The folder of a store: `FOLDER/framespool-clips-1/RUN/PROCESS/`, with the files `lock` (locked
//! while the process runs), `log` and the segments, `NUMBER-EPOCH.clips`. Only what is below
//! `framespool-clips-1` is ever deleted, and never a folder whose process is alive.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::EVERY_EPOCH;
use super::log::{LOG_NAME, LogEntry, LogReader, LogWriter};

const STORE_NAME: &str = "framespool-clips-1";
const LOCK_NAME: &str = "lock";
const EXTENSION: &str = "clips";

/// Runs of which nothing was written for this time are deleted.
const MAX_AGE: Duration = Duration::from_secs(14 * 24 * 3600);

/// A new folder may not have its lock file yet.
const MIN_AGE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentName {
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
    pub(super) fn parse(path: &Path) -> Option<Self> {
        let name = path
            .file_name()?
            .to_str()?
            .strip_suffix(EXTENSION)?
            .strip_suffix('.')?;
        let (number, due) = name.split_once('-')?;
        let due = if due == "every" {
            EVERY_EPOCH
        } else {
            due.parse().ok()?
        };
        Some(Self {
            number: number.parse().ok()?,
            due,
        })
    }
}

/// The folder of this process.
pub(crate) struct Writer {
    run: PathBuf,
    folder: PathBuf,
    log: Mutex<LogWriter>,
    /// Locked until this is dropped or the process ends, however it ends.
    lock: File,
    owner_pid: u32,
}

impl Writer {
    pub(super) fn create(folder: &Path, run: u64) -> Result<Self> {
        let run = folder.join(STORE_NAME).join(format!("{run:016x}"));
        create_folder(&run)?;
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default()
            .as_nanos();
        // The clock may return the same time twice.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = run.join(format!("{}-{now:x}{count:08x}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&folder)?;
        let lock = create_file(&folder.join(LOCK_NAME))?;
        lock.lock()?;
        let log = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(folder.join(LOG_NAME))?;
        let log = Mutex::new(LogWriter::new(log));
        Ok(Self {
            run,
            folder,
            log,
            lock,
            owner_pid: std::process::id(),
        })
    }

    pub(crate) fn run_folder(&self) -> &Path {
        &self.run
    }

    /// The folder of this process.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn log(&self, entry: &LogEntry) -> Result<()> {
        self.log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .append(entry)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A forked child process may drop it, while its parent uses the folder.
        if self.owner_pid != std::process::id() {
            return;
        }
        if segments(&self.folder).next().is_none() {
            let _ = fs::remove_dir_all(&self.folder);
            let _ = fs::remove_dir(&self.run); // fails while other processes have folders there
        }
        // Closing the file unlocks it only when no forked child process has it open any more.
        let _ = self.lock.unlock();
    }
}

fn create_folder(path: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Creates a file that only this user may read.
pub(crate) fn create_file(path: &Path) -> Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
}

/// The folders of the processes of a run.
pub(super) fn writers(run: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let is_writer = |name: &str| {
        name.split_once('-')
            .is_some_and(|(pid, time)| pid.parse::<u32>().is_ok() && is_hex(time))
    };
    folders(run, is_writer)
}

fn runs(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    folders(&folder.join(STORE_NAME), |name| {
        name.len() == 16 && is_hex(name)
    })
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The folders in a folder with such names: nothing else is ever deleted, nor what a link refers
/// to.
fn folders<F: Fn(&str) -> bool>(
    folder: &Path,
    is_own: F,
) -> impl Iterator<Item = PathBuf> + use<F> {
    entries(folder).filter(move |path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(&is_own)
            && fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
    })
}

fn segments(writer: &Path) -> impl Iterator<Item = (PathBuf, SegmentName)> + use<> {
    entries(writer).filter_map(|path| SegmentName::parse(&path).map(|name| (path, name)))
}

fn file_bytes(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// Bytes of all segments in a folder.
pub(super) fn used_bytes(folder: &Path) -> u64 {
    runs(folder).map(|run| run_bytes(&run)).sum()
}

fn run_bytes(run: &Path) -> u64 {
    writers(run)
        .flat_map(|writer| segments(&writer).map(|(path, _)| file_bytes(&path)))
        .sum()
}

/// Whether the process of a folder has ended.
fn is_dead(writer: &Path) -> bool {
    match File::open(writer.join(LOCK_NAME)) {
        Ok(lock) => {
            let is_locked = matches!(lock.try_lock(), Err(TryLockError::WouldBlock));
            let _ = lock.unlock(); // a child process that is forked now keeps the file open
            !is_locked
        }
        Err(_) => age(writer).is_some_and(|age| age > MIN_AGE),
    }
}

/// Time since a file or a folder was changed.
fn age(path: &Path) -> Option<Duration> {
    SystemTime::now()
        .duration_since(fs::metadata(path).ok()?.modified().ok()?)
        .ok()
}

/// Time since the last change in the folder of a run; `None` if one of its processes is alive.
fn dead_since(run: &Path) -> Option<Duration> {
    let folders: Vec<_> = writers(run).collect();
    if !folders.iter().all(|folder| is_dead(folder)) {
        return None;
    }
    let files = folders
        .iter()
        .flat_map(|folder| entries(folder).filter_map(|path| age(&path)));
    files.chain(age(run)).min()
}

/// The clips that the loaders of one configuration and seed have stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRun {
    /// Name of its folder.
    pub name: String,
    /// Bytes of its clips.
    pub bytes: u64,
    /// Number of its clips.
    pub clips: u64,
    /// The first and the last epoch in which clips are due; `None` if none depends on the epoch.
    pub epochs: Option<(u64, u64)>,
    /// Whether it has clips that are the same in every epoch.
    pub has_clips_of_every_epoch: bool,
    /// Time since the last change; `None` while a process uses it.
    pub unused_since: Option<Duration>,
}

/// The runs in a folder, in the order of their names.
///
/// # Errors
/// Any error from reading the folder itself.
pub fn stored_runs(folder: &Path) -> Result<Vec<StoredRun>> {
    fs::read_dir(folder)?;
    let mut found: Vec<StoredRun> = runs(folder).map(|run| describe(&run)).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn describe(run: &Path) -> StoredRun {
    let mut found = StoredRun {
        name: run
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        bytes: 0,
        clips: 0,
        epochs: None,
        has_clips_of_every_epoch: false,
        unused_since: dead_since(run),
    };
    for writer in writers(run) {
        // Before the sizes: a writer logs a clip after it has written the bytes, so the files of a run
        // that is in use have at least the bytes of the clips that are counted.
        let mut clips = HashMap::new();
        let count = |entry: LogEntry| *clips.entry(entry.segment).or_insert(0) += 1;
        let _ = LogReader::default().read_new(&writer, count);
        for (path, SegmentName { number, due }) in segments(&writer) {
            found.bytes += file_bytes(&path);
            // A log names clips of deleted segments, too.
            found.clips += clips.get(&number).copied().unwrap_or(0);
            match (due, found.epochs) {
                (EVERY_EPOCH, _) => found.has_clips_of_every_epoch = true,
                (due, epochs) => {
                    let (first, last) = epochs.unwrap_or((due, due));
                    found.epochs = Some((first.min(due), last.max(due)));
                }
            }
        }
    }
    found
}

/// Deletes the runs that no process has used for this time. Returns them, each with the error that
/// prevented it.
///
/// # Errors
/// Any error from reading the folder itself.
pub fn prune(folder: &Path, unused_for: Duration) -> Result<Vec<(StoredRun, Option<Error>)>> {
    let mut old = stored_runs(folder)?;
    old.retain(|run| run.unused_since.is_some_and(|time| time >= unused_for));
    let delete = |run: StoredRun| {
        let failed = delete_run(&folder.join(STORE_NAME).join(&run.name)).err();
        (run, failed)
    };
    Ok(old.into_iter().map(delete).collect())
}

/// Deletes what dead processes of a run have written, and the run if nothing else is in it.
fn delete_run(run: &Path) -> Result<()> {
    for writer in writers(run) {
        // Locked until it is deleted, so that another process which looks at it waits for nothing.
        let lock = File::open(writer.join(LOCK_NAME)).ok();
        if lock
            .as_ref()
            .is_some_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
        {
            continue;
        }
        for (path, _) in segments(&writer) {
            remove_if_present(&path)?;
        }
        for name in [LOG_NAME, LOCK_NAME] {
            remove_if_present(&writer.join(name))?;
        }
        fs::remove_dir(&writer)?;
    }
    match fs::remove_dir(run) {
        // A process may have begun to use it.
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn remove_if_present(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Deletes runs that ended long ago.
pub(crate) fn remove_leftovers(folder: &Path, own: &Path) {
    for run in runs(folder).filter(|run| run != own) {
        if dead_since(&run).is_some_and(|age| age > MAX_AGE) {
            let _ = fs::remove_dir_all(&run);
        }
    }
}

/// Deletes the run that ended first. Returns the bytes that it had; `None` if all other runs are
/// alive.
pub(crate) fn remove_oldest_run(folder: &Path, own: &Path) -> Option<u64> {
    let others = runs(folder).filter(|run| run != own);
    let oldest = others
        .filter_map(|run| Some((dead_since(&run)?, run)))
        .max_by_key(|(age, _)| *age)?
        .1;
    let bytes = run_bytes(&oldest);
    fs::remove_dir_all(&oldest).ok()?;
    Some(bytes)
}

/// Deletes the segments of epochs before this one, of this process and of dead ones, and the
/// folders of dead processes that are empty then. Another process that is alive may still be in an
/// earlier epoch.
pub(crate) fn remove_past(run: &Path, own: &Path, epoch: u64) {
    for writer in writers(run).filter(|writer| writer == own || is_dead(writer)) {
        let mut is_empty = true;
        for (path, name) in segments(&writer) {
            is_empty &= name.due < epoch && fs::remove_file(&path).is_ok();
        }
        if is_empty && writer != own {
            let _ = fs::remove_dir_all(&writer);
        }
    }
}
