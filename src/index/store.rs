//! Index cache: one SQLite file per folder, shared by all processes of a machine.
//! Entries that do not match (file length or times, format, checksum) count as missing and are rebuilt.
//! After opening, database errors are recorded (see [`Store::trouble`]) and affect no video.

mod bytes;
mod coding;
mod column;
mod database;
mod entry;
mod fill;
#[doc(hidden)]
pub mod fuzzing;
mod open;
mod process;
mod travel;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rusqlite::Connection;

use super::{build_stream, VideoIndex};
use crate::error::{Result, Site};
use crate::limits::Limits;
use crate::source::ByteSource;
use entry::{fingerprint, id_of, key_of, since_1970, Entry, Stamp};
use writer::{New, Trouble, Writer};

pub use coding::FORMAT;
pub use database::Access;
pub use fill::{Filled, Progress};
pub use open::default_place;
pub use travel::Travelled;

/// Maximum number of idle reader connections that are kept.
const KEPT_READERS: usize = 16;

/// Cache of video indices on disk.
pub struct Store {
    file: PathBuf,
    access: Access,
    /// Device and inode of the database file when it was opened.
    opened: Option<(u64, u64)>,
    made_in: u32,
    readers: Mutex<Vec<Connection>>,
    /// `None` if the cache is read-only.
    writer: Option<Writer>,
    trouble: Arc<Trouble>,
}

impl Store {
    /// Returns the cached index of the video at `path`, for the requested stream, if `source`, opened from
    /// that path, has not changed since.
    pub fn get(&self, path: &Path, source: &dyn ByteSource, stream: Option<u32>) -> Option<Arc<VideoIndex>> {
        let _inside = process::enter(self.made_in)?;
        let stamp = Stamp::of(&source.identity())?;
        let key = &key_of(path, source, stream)?[..];
        let admit = |bytes: &[u8]| {
            let entry = Entry::unseal(bytes).filter(|e| e.key == key && e.fits(&stamp, source))?;
            coding::decode(entry.index, Site::file(source.name()), &Limits::default().within(source.len()))
        };
        self.read(|connection| database::get(connection, id_of(key), admit))??.map(Arc::new)
    }

    /// Caches the index of the video at `path`, for the requested stream, built from `source`, which was
    /// opened at `read_since`. Another thread writes it; if its queue is full and stays full for a short
    /// time, the index is not cached.
    pub fn put(
        &self,
        path: &Path,
        source: &dyn ByteSource,
        stream: Option<u32>,
        read_since: SystemTime,
        index: &Arc<VideoIndex>,
    ) {
        self.keep(path, source, stream, read_since, index, false);
    }

    /// Like [`Store::put`], but waits as long as necessary.
    pub fn put_patiently(
        &self,
        path: &Path,
        source: &dyn ByteSource,
        stream: Option<u32>,
        read_since: SystemTime,
        index: &Arc<VideoIndex>,
    ) {
        self.keep(path, source, stream, read_since, index, true);
    }

    fn keep(
        &self,
        path: &Path,
        source: &dyn ByteSource,
        stream: Option<u32>,
        since: SystemTime,
        index: &Arc<VideoIndex>,
        wait: bool,
    ) {
        let Some(writer) = self.writer.as_ref().filter(|_| self.made_in == std::process::id()) else {
            return;
        };
        let Some(stamp) = Stamp::of(&source.identity()) else { return };
        let (Some(key), Ok(print)) = (key_of(path, source, stream), fingerprint(source)) else { return };
        let new = New { key, stamp, read_ns: since_1970(since), print, index: index.clone() };
        if !writer.keep(new, wait) {
            self.trouble.lose(1);
        }
    }

    /// Returns the latest error since the cache was opened.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.read().0
    }

    /// Number of indices that could not be cached since the cache was opened.
    pub fn lost(&self) -> u64 {
        self.trouble.read().1
    }

    /// Whether the database file is still the one that was opened: neither removed nor replaced.
    pub fn is_in_place(&self) -> bool {
        self.opened.is_some() && self.opened == open::identity(&self.file)
    }

    /// Path of the database file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Waits up to `at_most` until everything queued is written; returns whether it is.
    pub fn flush(&self, at_most: Duration) -> bool {
        self.made_in != std::process::id() || self.writer.as_ref().is_none_or(|w| w.flush(at_most))
    }

    /// Runs a query on a connection that no other thread uses.
    fn read<T>(&self, look: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Option<T> {
        let kept = || self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let held = kept().pop();
        let connection = held.map_or_else(|| database::reader(&self.file, self.access), Ok);
        match connection.and_then(|c| Ok((look(&c)?, c))) {
            Ok((found, connection)) => {
                let mut kept = kept();
                if kept.len() < KEPT_READERS {
                    kept.push(connection);
                }
                Some(found)
            }
            Err(error) if database::is_busy(&error) => None,
            Err(error) => {
                match &self.writer {
                    Some(writer) if database::is_damage(&error) => writer.repair(false),
                    _ => self.trouble.note(format!("{}: {error}", self.file.display()), 0),
                }
                None
            }
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        match process::enter(self.made_in) {
            Some(inside) => {
                self.readers.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
                drop(inside);
                self.writer = None; // waits for the thread
            }
            // In a forked child the connections are the parent's and the thread does not exist.
            None => {
                std::mem::forget(std::mem::take(&mut self.readers));
                std::mem::forget(self.writer.take());
            }
        }
    }
}

/// Returns the index of stream `stream`, or of the best one, of the video at `path`, which `source` was just
/// opened from: from the cache, or else built and then cached. Also returns whether it came from the cache.
pub fn index_of(
    store: Option<&Store>,
    path: &Path,
    source: &Arc<dyn ByteSource>,
    stream: Option<u32>,
    interrupt: &dyn Fn() -> Result<()>,
) -> Result<(Arc<VideoIndex>, bool)> {
    let since = SystemTime::now();
    if let Some(index) = store.and_then(|store| store.get(path, &**source, stream)) {
        return Ok((index, true));
    }
    let index = Arc::new(build_stream(source, stream, &Limits::default(), interrupt)?);
    if let Some(store) = store {
        store.put(path, &**source, stream, since, &index);
    }
    Ok((index, false))
}
