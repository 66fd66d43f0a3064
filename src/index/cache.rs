//! Index cache: one SQLite file per folder, shared by all processes of a machine. Entries that do
//! not match (file length or times, format, checksum) count as missing and are rebuilt. After
//! opening, database errors are recorded (see [`IndexCache::last_error`]) and affect no video.

mod audio_codec;
mod codec;
mod database;
mod delta_column;
mod export;
mod fork_guard;
#[doc(hidden)]
pub mod fuzz_api;
mod open;
mod prebuild;
mod record;
mod size;
mod varint;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rusqlite::Connection;

use super::audio::AudioIndex;
use super::{VideoIndex, build_stream};
use crate::error::{Result, Site};
use crate::limits::Limits;
use crate::source::ByteSource;
use record::{
    CacheRecord, FileSignature, audio_record_key, content_hash, record_id, record_key, today,
    unix_nanos,
};
use writer::{CacheErrors, PendingWrite, StoredIndex, Writer};

pub use codec::FORMAT;
pub use database::AccessMode;
pub use export::TransferReport;
pub use open::default_dir;
pub use prebuild::{PrebuildReport, Progress};
pub use size::CacheSummary;

/// Maximum number of idle reader connections that are kept.
const MAX_IDLE_READERS: usize = 16;

/// Cache of video indices on disk.
pub struct IndexCache {
    file: PathBuf,
    access: AccessMode,
    /// Device and inode of the database file when it was opened.
    file_id: Option<(u64, u64)>,
    owner_pid: u32,
    readers: Mutex<Vec<Connection>>,
    /// `None` if the cache is read-only.
    writer: Option<Writer>,
    errors: Arc<CacheErrors>,
}

impl IndexCache {
    /// Returns the cached index of the video at `path`, for the requested stream, if `source`,
    /// opened from that path, has not changed since.
    pub fn get(
        &self,
        path: &Path,
        source: &dyn ByteSource,
        stream: Option<u32>,
    ) -> Option<Arc<VideoIndex>> {
        let decode = |bytes: &[u8]| {
            let limits = Limits::default().for_file_len(source.len());
            codec::decode(bytes, Site::file(source.name()), &limits)
        };
        self.find(&record_key(path, source, stream)?, source, decode)
            .map(Arc::new)
    }

    /// Returns the cached index of the audio of the file at `path`, for the requested audio stream,
    /// under the same conditions as [`Self::get`].
    pub fn get_audio(
        &self,
        path: &Path,
        source: &dyn ByteSource,
        stream: Option<u32>,
    ) -> Option<Arc<AudioIndex>> {
        let decode = |bytes: &[u8]| {
            let limits = Limits::default().for_file_len(source.len());
            audio_codec::decode(bytes, Site::file(source.name()), &limits)
        };
        self.find(&audio_record_key(path, source, stream)?, source, decode)
            .map(Arc::new)
    }

    /// Returns the decoded index of the entry with this key, if it is valid for `source`.
    fn find<I>(
        &self,
        key: &[u8],
        source: &dyn ByteSource,
        decode: impl Fn(&[u8]) -> Option<I>,
    ) -> Option<I> {
        let _guard = fork_guard::enter(self.owner_pid)?;
        let signature = FileSignature::of(&source.identity())?;
        let admit = |bytes: &[u8], day: i64| {
            let entry = CacheRecord::decode(bytes)
                .filter(|e| e.key == key && e.is_valid_for(&signature, source))?;
            Some((decode(entry.index)?, day))
        };
        let id = record_id(key);
        let (index, day) = self.read(|connection| database::get(connection, id, admit))???;
        // At most one write per entry and day.
        if let Some(writer) = self.writer.as_ref().filter(|_| day < today()) {
            writer.touch(id);
        }
        Some(index)
    }

    /// Caches the index of the video at `path`, for the requested stream, built from `source`,
    /// which was opened at `read_since`. Another thread writes it; if its queue is full and stays
    /// full for a short time, the index is not cached.
    pub fn put(
        &self,
        path: &Path,
        source: &dyn ByteSource,
        stream: Option<u32>,
        read_since: SystemTime,
        index: &Arc<VideoIndex>,
    ) {
        let index = StoredIndex::Video(index.clone());
        self.enqueue(
            record_key(path, source, stream),
            source,
            read_since,
            index,
            false,
        );
    }

    /// Like [`IndexCache::put`], for the index of an audio stream. With `wait`, waits as long as
    /// necessary.
    pub fn put_audio(
        &self,
        path: &Path,
        source: &dyn ByteSource,
        stream: Option<u32>,
        read_since: SystemTime,
        index: &Arc<AudioIndex>,
        wait: bool,
    ) {
        let index = StoredIndex::Audio(index.clone());
        self.enqueue(
            audio_record_key(path, source, stream),
            source,
            read_since,
            index,
            wait,
        );
    }

    /// Like [`IndexCache::put`], but waits as long as necessary.
    pub fn put_blocking(
        &self,
        path: &Path,
        source: &dyn ByteSource,
        stream: Option<u32>,
        read_since: SystemTime,
        index: &Arc<VideoIndex>,
    ) {
        let index = StoredIndex::Video(index.clone());
        self.enqueue(
            record_key(path, source, stream),
            source,
            read_since,
            index,
            true,
        );
    }

    fn enqueue(
        &self,
        key: Option<Vec<u8>>,
        source: &dyn ByteSource,
        since: SystemTime,
        index: StoredIndex,
        wait: bool,
    ) {
        let Some(writer) = self
            .writer
            .as_ref()
            .filter(|_| self.owner_pid == std::process::id())
        else {
            return;
        };
        let Some(signature) = FileSignature::of(&source.identity()) else {
            return;
        };
        let (Some(key), Ok(content_hash)) = (key, content_hash(source)) else {
            return;
        };
        let new = PendingWrite {
            key,
            signature,
            read_ns: unix_nanos(since),
            content_hash,
            index,
        };
        if !writer.write(new, wait) {
            self.errors.add_dropped(1);
        }
    }

    /// Returns the latest error since the cache was opened.
    pub fn last_error(&self) -> Option<String> {
        self.errors.read().0
    }

    /// Number of indices that could not be cached since the cache was opened.
    pub fn dropped_writes(&self) -> u64 {
        self.errors.read().1
    }

    /// Whether the database file is still the one that was opened: neither removed nor replaced.
    pub fn is_same_file(&self) -> bool {
        self.file_id.is_some() && self.file_id == open::file_id(&self.file)
    }

    /// Path of the database file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Waits up to `at_most` until everything queued is written; returns whether it is.
    pub fn flush(&self, at_most: Duration) -> bool {
        self.owner_pid != std::process::id()
            || self.writer.as_ref().is_none_or(|w| w.flush(at_most))
    }

    /// Runs a query on a connection that no other thread uses.
    fn read<T>(&self, look: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Option<T> {
        let kept = || self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let held = kept().pop();
        let connection = held.map_or_else(|| database::reader(&self.file, self.access), Ok);
        match connection.and_then(|c| Ok((look(&c)?, c))) {
            Ok((found, connection)) => {
                let mut kept = kept();
                if kept.len() < MAX_IDLE_READERS {
                    kept.push(connection);
                }
                Some(found)
            }
            Err(error) if database::is_busy(&error) => None,
            Err(error) => {
                match &self.writer {
                    Some(writer) if database::is_damage(&error) => writer.repair(false),
                    _ => self
                        .errors
                        .record(format!("{}: {error}", self.file.display()), 0),
                }
                None
            }
        }
    }
}

impl Drop for IndexCache {
    fn drop(&mut self) {
        match fork_guard::enter(self.owner_pid) {
            Some(guard) => {
                self.readers
                    .get_mut()
                    .unwrap_or_else(PoisonError::into_inner)
                    .clear();
                drop(guard);
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

/// Returns the index of stream `stream`, or of the best one, of the video at `path`, which `source`
/// was just opened from: from the cache, or else built and then cached. Also returns whether it
/// came from the cache.
pub fn index_of(
    store: Option<&IndexCache>,
    path: &Path,
    source: &Arc<dyn ByteSource>,
    stream: Option<u32>,
) -> Result<(Arc<VideoIndex>, bool)> {
    let since = SystemTime::now();
    if let Some(index) = store.and_then(|store| store.get(path, &**source, stream)) {
        return Ok((index, true));
    }
    let index = Arc::new(build_stream(source, stream, &Limits::default())?);
    if let Some(store) = store {
        store.put(path, &**source, stream, since, &index);
    }
    Ok((index, false))
}

/// Returns the index of audio stream `stream` of a file, or of the best one: from the index cache,
/// with the path from which `source` was opened, or else built and then cached. Also returns whether
/// it was cached.
///
/// # Errors
/// Those of [`build`](super::audio::build).
pub fn audio_index_of(
    store: Option<(&IndexCache, &Path)>,
    source: &Arc<dyn ByteSource>,
    stream: Option<u32>,
) -> Result<(Arc<AudioIndex>, bool)> {
    let since = SystemTime::now();
    let stored = store.and_then(|(store, path)| store.get_audio(path, &**source, stream));
    if let Some(index) = stored {
        return Ok((index, true));
    }
    let index = Arc::new(super::audio::build(source, stream, &Limits::default())?);
    if let Some((store, path)) = store {
        store.put_audio(path, &**source, stream, since, &index, false);
    }
    Ok((index, false))
}
