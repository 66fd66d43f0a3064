//! In: videos' paths and identities. Out: their indices, if they were built before, by whichever process.
//! One SQLite file in a folder, shared by all processes of a machine. It is a cache: whatever does not fit (the file's length or
//! time, the format, a checksum) counts as not there, and is built again.
//! Never: fails a video. Only opening a place can be an error; trouble after that is remembered and told.

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

/// Connections that are kept for the next who look something up.
const KEPT_READERS: usize = 16;

/// Indices of videos, kept on disk.
pub struct Store {
    file: PathBuf,
    access: Access,
    /// Device and inode of the database's file when it was opened.
    opened: Option<(u64, u64)>,
    made_in: u32,
    readers: Mutex<Vec<Connection>>,
    /// `None` where nothing is to be written.
    writer: Option<Writer>,
    trouble: Arc<Trouble>,
}

impl Store {
    /// The index of the video at `path`, of the stream that was asked for, if it is kept and `source`, opened from there, is
    /// still as it was.
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

    /// Keeps the index of the video at `path`, of the stream that was asked for, built from `source`, which was opened at
    /// `read_since`. Writing is another thread's work; if too many are waiting for it, and still do after a moment, the index is
    /// not kept.
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

    /// The same, but waits as long as it takes.
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

    /// What went wrong since the store was opened, if anything did.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.read().0
    }

    /// Indices that could not be kept since the store was opened.
    pub fn lost(&self) -> u64 {
        self.trouble.read().1
    }

    /// Whether the database's file is still where it was opened: not removed, not replaced.
    pub fn is_in_place(&self) -> bool {
        self.opened.is_some() && self.opened == open::identity(&self.file)
    }

    /// The database's file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Waits until what was put is written, at most so long; returns whether it is.
    pub fn flush(&self, at_most: Duration) -> bool {
        self.made_in != std::process::id() || self.writer.as_ref().is_none_or(|w| w.flush(at_most))
    }

    /// Looks something up with a connection of its own.
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
                self.writer = None; // waits for it
            }
            // In a child: connections are the parent's, and the thread does not exist.
            None => {
                std::mem::forget(std::mem::take(&mut self.readers));
                std::mem::forget(self.writer.take());
            }
        }
    }
}

/// The index of the video at `path`, which `source` was just opened from, of its stream `stream` or of the best one: kept, or else
/// built, and then kept. Says also whether it was kept.
pub fn index_of(
    store: Option<&Store>,
    path: &Path,
    source: &Arc<dyn ByteSource>,
    stream: Option<u32>,
    watch: &dyn Fn() -> Result<()>,
) -> Result<(Arc<VideoIndex>, bool)> {
    let since = SystemTime::now();
    if let Some(index) = store.and_then(|store| store.get(path, &**source, stream)) {
        return Ok((index, true));
    }
    let index = Arc::new(build_stream(source, stream, &Limits::default(), watch)?);
    if let Some(store) = store {
        store.put(path, &**source, stream, since, &index);
    }
    Ok((index, false))
}
