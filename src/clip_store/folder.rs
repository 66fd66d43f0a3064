//! The folder of a store: `FOLDER/framespool-clips-1/RUN/PROCESS/`, with the files `lock` (locked
//! while the process runs), `log` and the segments, `NUMBER-EPOCH.clips`. Only what is below
//! `framespool-clips-1` is ever deleted, and never a folder whose process is alive.
//!
//! Processes create and delete folders at the same time. So a process locks its lock before its
//! folder gets its name, and the folder of a run is deleted only if it is empty.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
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

/// Ends the names of folders that are not complete yet.
const NEW_EXTENSION: &str = ".new";

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
        let root = folder.join(STORE_NAME);
        let run = root.join(format!("{run:016x}"));
        create_folder(&root)?;
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default()
            .as_nanos();
        // The clock may return the same time twice.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{now:x}{count:08x}", std::process::id());
        let new = root.join(format!("{name}{NEW_EXTENSION}"));
        DirBuilder::new().mode(0o700).create(&new)?;
        let lock = create_file(&new.join(LOCK_NAME))?;
        lock.lock()?;
        let log = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(new.join(LOG_NAME))?;
        let log = Mutex::new(LogWriter::new(log));
        let folder = run.join(name);
        loop {
            match DirBuilder::new().mode(0o700).create(&run) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            match fs::rename(&new, &folder) {
                // Another process has deleted the empty folder of the run.
                Err(error)
                    if error.kind() == ErrorKind::NotFound && new.exists() && !run.is_symlink() => {
                }
                renamed => break renamed?,
            }
        }
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

/// The lock of the folder of a process that has ended, locked as long as this lives; `None` if the
/// deletion of the folder has begun.
struct DeadWriter(Option<File>);

impl DeadWriter {
    /// `None` if the process is alive, and after any error that leaves this open, such as too many
    /// open files.
    fn lock(writer: &Path) -> Option<Self> {
        match File::open(writer.join(LOCK_NAME)) {
            Ok(lock) => lock.try_lock().is_ok().then_some(Self(Some(lock))),
            Err(error) if error.kind() == ErrorKind::NotFound => Some(Self(None)),
            Err(_) => None,
        }
    }
}

impl Drop for DeadWriter {
    fn drop(&mut self) {
        // A child process that is forked now keeps the file open.
        let _ = self.0.as_ref().map(File::unlock);
    }
}

/// Whether the process of a folder has ended.
fn is_dead(writer: &Path) -> bool {
    DeadWriter::lock(writer).is_some()
}

/// Time since a file or a folder was changed. The clock may have been set back since then.
fn age(path: &Path) -> Option<Duration> {
    let modified = fs::metadata(path).ok()?.modified().ok()?;
    Some(
        SystemTime::now()
            .duration_since(modified)
            .unwrap_or_default(),
    )
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
        let Some(_lock) = DeadWriter::lock(&writer) else {
            continue;
        };
        for (path, _) in segments(&writer) {
            remove_if_present(&path)?;
        }
        for name in [LOG_NAME, LOCK_NAME] {
            remove_if_present(&writer.join(name))?;
        }
        match fs::remove_dir(&writer) {
            // Another process deletes the run, too.
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
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
            let _ = delete_run(&run);
        }
    }
    // Of processes that were killed while they created their folder.
    for new in folders(&folder.join(STORE_NAME), |name| {
        name.ends_with(NEW_EXTENSION)
    }) {
        if is_dead(&new) && age(&new).is_some_and(|age| age > MAX_AGE) {
            let _ = fs::remove_dir_all(&new);
        }
    }
}

/// Deletes the run that ended first. Returns the bytes that this freed; `None` if no other run can
/// be deleted.
pub(crate) fn remove_oldest_run(folder: &Path, own: &Path) -> Option<u64> {
    let others = runs(folder).filter(|run| run != own);
    let mut dead: Vec<_> = others
        .filter_map(|run| Some((dead_since(&run)?, run)))
        .collect();
    dead.sort_by_key(|(age, _)| Reverse(*age));
    dead.iter().find_map(|(_, run)| {
        let before = run_bytes(run);
        let _ = delete_run(run);
        Some(before.saturating_sub(run_bytes(run))).filter(|&freed| freed > 0)
    })
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
