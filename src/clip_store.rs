//! Keeps finished clips on a local disk until the epoch in which they are due.
//! No result depends on it: a clip that is missing, damaged or cannot be written is decoded.
//!
//! A key is a digest of everything that determines the bytes of a clip. Clips are appended to
//! segment files, grouped by the epoch in which they are due, so that deleting files frees the
//! clips of past epochs. All processes of a machine share a folder: each writes segments and a log
//! of its own, and reads the logs of the others.

mod folder;
mod log;
mod segment;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::hash::{BuildHasherDefault, Hasher};
use std::io::{ErrorKind, Result as IoResult};
use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;

use serde::Deserialize;

use crate::error::{Error, Result};
use folder::{SegmentName, Writer};
pub use folder::{StoredRun, prune, stored_runs};
use log::{LogEntry, LogReader};
use segment::Header;
pub use segment::record_bytes;

/// In place of an epoch: the clip is the same in every epoch.
pub(crate) const EVERY_EPOCH: u64 = u64::MAX;

/// Maximum size of a segment. A smaller store has smaller segments, because segments are evicted
/// whole.
const MAX_SEGMENT_BYTES: u64 = 256 << 20;
const SEGMENTS_PER_STORE: u64 = 64;

/// Each process that writes this part of the limit looks how much the others have written
/// meanwhile.
const LOOKS_PER_STORE: u64 = 64;

/// Places for which memory is requested at once: 1 GiB.
const MAX_RESERVED_PLACES: u64 = 1 << 26;

/// Maximum number of segments that are open for reading.
const OPEN_SEGMENTS: NonZeroUsize = NonZeroUsize::new(64).expect("above 0");

/// Minimum interval between two reads of the logs of other processes because of a missing clip.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// Where clips are stored, and how many.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClipStoreConfig {
    /// Folder on a local disk.
    pub folder: PathBuf,
    /// Maximum size of all clips in the folder, also of other processes.
    pub bytes: u64,
    /// Number of epochs for which a video is decoded at once.
    pub epochs: u32,
}

/// What a store did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoreCounts {
    /// Clips written.
    pub stored: u64,
    pub bytes_written: u64,
    /// Clips read.
    pub read: u64,
    pub bytes_read: u64,
    /// Clips that could not be read, or had another checksum.
    pub damaged: u64,
    /// Clips that were not written: the store or the disk is full, writing failed, or they were not
    /// copied from a GPU.
    pub not_stored: u64,
    /// Clips that were deleted before they were due.
    pub evicted: u64,
}

/// Clips on disk.
pub(crate) struct ClipStore {
    config: ClipStoreConfig,
    writer: Writer,
    state: Mutex<State>,
    open_files: Mutex<LruCache<u32, Arc<File>>>,
    /// Clips that are due in this epoch or later are not written any more until the next epoch
    /// begins.
    full_from: AtomicU64,
    /// An error has ended all writing.
    failed: AtomicBool,
    counts: Mutex<StoreCounts>,
}

/// The position of a clip.
#[derive(Clone, Copy, Debug)]
struct Place {
    segment: u32,
    /// In units of [`segment::ALIGN`].
    offset: u32,
}

/// A segment of any process.
struct Segment {
    /// `None` once it is deleted.
    path: Option<PathBuf>,
    due: u64,
    clips: u64,
    bytes: u64,
    is_own: bool,
}

struct OpenSegment {
    segment: u32,
    file: Arc<File>,
    /// Its length, with the clips that are being written.
    end: u64,
}

/// Hashes a key: it is a digest already.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|&byte| self.0 = self.0.rotate_left(8) ^ u64::from(byte));
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

#[derive(Default)]
struct State {
    /// By the low half of the key; the record has the complete one.
    places: HashMap<u64, Place, BuildHasherDefault<KeyHasher>>,
    segments: Vec<Segment>,
    /// Segments that this process appends to, by the epoch in which their clips are due.
    open: BTreeMap<u64, OpenSegment>,
    /// Logs of other processes.
    logs: HashMap<PathBuf, (LogReader, HashMap<u32, u32>)>,
    refreshed: Option<Instant>,
    /// Bytes of all segments in the folder, as far as this process knows.
    used: u64,
    /// Bytes that this process has written since it looked at the other ones.
    written_since: u64,
    /// Bytes that are reserved and not written yet, which the files do not show.
    unwritten: u64,
    epoch: u64,
    next_number: u32,
}

/// A clip that was found.
pub(crate) struct StoredClip {
    file: Arc<File>,
    header: Header,
    /// Position of its bytes in the file.
    start: u64,
}

impl StoredClip {
    /// The numbers that were stored with it.
    pub(crate) fn tag(&self) -> [u32; 4] {
        self.header.tag
    }

    /// Its length in bytes.
    pub(crate) fn num_bytes(&self) -> u64 {
        self.header.len
    }
}

impl ClipStore {
    /// Opens the part of a folder that belongs to `run`, a number of its own for each combination
    /// of dataset, sampling, transforms and seed: epochs of different runs are unrelated. Deletes
    /// what other runs left long ago.
    ///
    /// # Errors
    /// `Argument` if the folder cannot be created or written.
    pub(crate) fn open(config: ClipStoreConfig, run: u64) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::Argument(format!(
                "the folder {} for clips cannot be used: {error}; name a folder on a local disk that this user may write",
                config.folder.display()
            ))
        };
        let writer = Writer::create(&config.folder, run).map_err(failed)?;
        folder::remove_leftovers(&config.folder, writer.run_folder());
        let mut state = State {
            used: folder::used_bytes(&config.folder),
            ..State::default()
        };
        state.read_logs(&writer);
        Ok(Self {
            config,
            writer,
            state: Mutex::new(state),
            open_files: Mutex::new(LruCache::new(OPEN_SEGMENTS)),
            full_from: AtomicU64::new(EVERY_EPOCH),
            failed: AtomicBool::new(false),
            counts: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, change: impl FnOnce(&mut StoreCounts)) {
        change(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// What the store did so far.
    pub(crate) fn counts(&self) -> StoreCounts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Deletes the clips of epochs before this one.
    pub(crate) fn begin_epoch(&self, epoch: u64) {
        let mut state = self.lock();
        state.epoch = epoch;
        state.open.retain(|&due, _| due >= epoch);
        state.read_logs(&self.writer);
        state.delete_segments(|segment| segment.due < epoch);
        self.close_deleted(&state);
        folder::remove_past(self.writer.run_folder(), self.writer.folder(), epoch);
        state.used = folder::used_bytes(&self.config.folder) + state.unwritten;
        self.full_from.store(EVERY_EPOCH, Ordering::Relaxed);
    }

    /// Whether the store has a clip, as far as this process knows.
    pub(crate) fn contains(&self, key: u128) -> bool {
        self.lock().places.contains_key(&(key as u64))
    }

    /// Whether a clip that is due in this epoch would be written.
    pub(crate) fn has_room(&self, due: u64) -> bool {
        !self.failed.load(Ordering::Relaxed)
            && due_order(due) < self.full_from.load(Ordering::Relaxed)
    }

    /// Finds a clip.
    pub(crate) fn find(&self, key: u128) -> Option<StoredClip> {
        let place = {
            let mut state = self.lock();
            if !state.places.contains_key(&(key as u64))
                && state
                    .refreshed
                    .is_none_or(|last| last.elapsed() > REFRESH_INTERVAL)
            {
                state.read_logs(&self.writer);
            }
            *state.places.get(&(key as u64))?
        };
        let start = u64::from(place.offset) * segment::ALIGN;
        let found = self.file(place.segment).and_then(|file| {
            let header = Header::read(&file, start)?;
            Some(StoredClip {
                file,
                header,
                start: start + segment::HEADER_BYTES,
            })
        });
        match found {
            Some(found) if found.header.key == key => Some(found),
            Some(_) => None, // another clip whose key has the same low half
            None => {
                self.forget(key);
                None
            }
        }
    }

    /// Reads the bytes of a clip; false if they are damaged. `to` has the length of the clip.
    pub(crate) fn read(&self, clip: &StoredClip, to: &mut [u8]) -> bool {
        let intact = to.len() as u64 == clip.header.len
            && clip.header.read_bytes(&clip.file, clip.start, to);
        if intact {
            self.count(|counts| {
                counts.read += 1;
                counts.bytes_read += to.len() as u64;
            });
        } else {
            self.forget(clip.header.key);
        }
        intact
    }

    /// Does not use this clip any more.
    fn forget(&self, key: u128) {
        if self.lock().places.remove(&(key as u64)).is_some() {
            self.count(|counts| counts.damaged += 1);
        }
    }

    /// Returns a segment, opened for reading.
    fn file(&self, segment: u32) -> Option<Arc<File>> {
        let mut files = self
            .open_files
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = files.get(&segment) {
            return Some(file.clone());
        }
        drop(files); // opening may be slow: not under the lock
        let path = self.lock().segments.get(segment as usize)?.path.clone()?;
        let file = Arc::new(File::open(path).ok()?);
        let state = self.lock();
        // It may have been deleted meanwhile: see `close_deleted`.
        state.segments[segment as usize].path.as_ref()?;
        files = self
            .open_files
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        files.put(segment, file.clone());
        Some(file)
    }

    /// Closes segments that this or another process has deleted: their disk space is free only then.
    fn close_deleted(&self, state: &State) {
        let mut files = self
            .open_files
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_deleted = |segment: u32, file: &File| {
            state.segments[segment as usize].path.is_none()
                || file.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
        };
        let deleted: Vec<u32> = files
            .iter()
            .filter(|(segment, file)| is_deleted(**segment, file))
            .map(|(segment, _)| *segment)
            .collect();
        for segment in deleted {
            files.pop(&segment);
        }
    }

    /// Stores a clip that is due in an epoch, or in [`EVERY_EPOCH`]. Returns false if it is not
    /// stored.
    pub(crate) fn put(&self, key: u128, due: u64, tag: [u32; 4], bytes: &[u8]) -> bool {
        let header = Header::new(key, tag, bytes);
        let stored = self.has_room(due) && self.append(due, &header, bytes);
        self.count(|counts| match stored {
            true => {
                counts.stored += 1;
                counts.bytes_written += bytes.len() as u64;
            }
            false => counts.not_stored += 1,
        });
        stored
    }

    /// Counts a clip that was made for the store and cannot be passed to it.
    pub(crate) fn count_not_stored(&self) {
        self.count(|counts| counts.not_stored += 1);
    }

    fn append(&self, due: u64, header: &Header, bytes: &[u8]) -> bool {
        let length = segment::record_bytes(bytes.len() as u64);
        let Some((segment, number, file, at)) = self.reserve(due, length) else {
            return false;
        };
        // Concurrent writers have reserved disjoint ranges, so the lock is not held.
        let written = header.write(&file, at, bytes).and_then(|()| {
            let offset = (at / segment::ALIGN) as u32;
            self.writer.log(&LogEntry {
                key: header.key,
                due,
                segment: number,
                offset,
            })?;
            Ok(Place { segment, offset })
        });
        let mut state = self.lock();
        state.unwritten -= length;
        match written {
            Ok(place) => {
                if due >= state.epoch && state.segments[segment as usize].path.is_some() {
                    state.segments[segment as usize].clips += 1;
                    state.places.insert(header.key as u64, place);
                }
                true
            }
            Err(error) => {
                drop(state);
                self.writing_failed(due, &error);
                false
            }
        }
    }

    /// Reserves bytes at the end of the segment for clips that are due in this epoch.
    fn reserve(&self, due: u64, length: u64) -> Option<(u32, u32, Arc<File>, u64)> {
        let segment_bytes = (self.config.bytes / SEGMENTS_PER_STORE).min(MAX_SEGMENT_BYTES);
        let mut state = self.lock();
        if !self.make_room(&mut state, due, length) {
            self.full_from.fetch_min(due_order(due), Ordering::Relaxed);
            return None;
        }
        if state
            .open
            .get(&due)
            .is_none_or(|open| open.end > 0 && open.end + length > segment_bytes)
        {
            let number = state.next_number;
            state.next_number += 1;
            let path = self
                .writer
                .folder()
                .join(SegmentName { number, due }.to_string());
            let file = match folder::create_file(&path) {
                Ok(file) => Arc::new(file),
                Err(error) => {
                    drop(state);
                    self.writing_failed(due, &error);
                    return None;
                }
            };
            let segment = state.add_segment(path, due, true);
            state.open.insert(
                due,
                OpenSegment {
                    segment,
                    file,
                    end: 0,
                },
            );
        }
        let open = state.open.get_mut(&due)?;
        let (segment, file, at) = (open.segment, open.file.clone(), open.end);
        open.end += length;
        state.used += length;
        state.written_since += length;
        let known = &mut state.segments[segment as usize];
        known.bytes += length;
        let number = SegmentName::parse(known.path.as_deref()?)?.number;
        state.unwritten += length;
        Some((segment, number, file, at))
    }

    /// Makes room for a clip: deletes what dead processes of other runs left, then segments of this
    /// process whose clips are due later. Returns false if there is not enough.
    fn make_room(&self, state: &mut State, due: u64, length: u64) -> bool {
        if length > self.config.bytes {
            return false; // deleting everything would not help
        }
        let has_room = state.used + length <= self.config.bytes;
        if has_room && state.written_since < self.config.bytes / LOOKS_PER_STORE {
            return true;
        }
        state.used = folder::used_bytes(&self.config.folder) + state.unwritten;
        state.written_since = 0;
        while state.used + length > self.config.bytes {
            if let Some(freed) =
                folder::remove_oldest_run(&self.config.folder, self.writer.run_folder())
            {
                state.used = state.used.saturating_sub(freed);
                continue;
            }
            let later = |(_, segment): &(usize, &Segment)| {
                segment.is_own && segment.path.is_some() && due_order(segment.due) > due_order(due)
            };
            let last = state
                .segments
                .iter()
                .enumerate()
                .filter(later)
                .max_by_key(|(_, s)| due_order(s.due));
            let Some((
                at,
                &Segment {
                    due: last,
                    bytes,
                    clips,
                    ..
                },
            )) = last
            else {
                return false;
            };
            state.open.remove(&last);
            let mut number = 0..;
            state.delete_segments(|_| number.next() == Some(at));
            self.close_deleted(state);
            state.used = state.used.saturating_sub(bytes);
            self.count(|counts| counts.evicted += clips);
        }
        true
    }

    /// A full disk ends writing until the next epoch frees space, any other error for good.
    fn writing_failed(&self, due: u64, error: &std::io::Error) {
        if matches!(
            error.kind(),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded
        ) {
            if self.full_from.fetch_min(due_order(due), Ordering::Relaxed) == EVERY_EPOCH {
                ::log::warn!(
                    "the disk of {} is full; clips are decoded again",
                    self.config.folder.display()
                );
            }
        } else if !self.failed.swap(true, Ordering::Relaxed) {
            ::log::warn!(
                "clips cannot be written to {}: {error}; they are decoded again",
                self.config.folder.display()
            );
        }
    }
}

/// The order in which clips are kept: those of every epoch first.
fn due_order(due: u64) -> u64 {
    if due == EVERY_EPOCH {
        0
    } else {
        due.saturating_add(1)
    }
}

impl State {
    fn add_segment(&mut self, path: PathBuf, due: u64, is_own: bool) -> u32 {
        self.segments.push(Segment {
            path: Some(path),
            due,
            clips: 0,
            bytes: 0,
            is_own,
        });
        (self.segments.len() - 1) as u32
    }

    /// Discards the places of the clips of segments, and deletes the segments of this process.
    fn delete_segments(&mut self, mut is_obsolete: impl FnMut(&Segment) -> bool) {
        let mut any = false;
        for segment in &mut self.segments {
            let chosen = is_obsolete(segment);
            if let Some(path) = segment.path.take_if(|_| chosen) {
                if segment.is_own {
                    let _ = std::fs::remove_file(path); // the user may have deleted it
                }
                any = true;
            }
        }
        if any {
            let segments = &self.segments;
            self.places
                .retain(|_, place| segments[place.segment as usize].path.is_some());
        }
    }

    /// Reads what other processes have stored since the last call.
    fn read_logs(&mut self, writer: &Writer) {
        self.refreshed = Some(Instant::now());
        let folders: Vec<PathBuf> = folder::writers(writer.run_folder()).collect();
        self.logs.retain(|folder, _| folders.contains(folder));
        for other in folders
            .into_iter()
            .filter(|folder| folder != writer.folder())
        {
            let (mut log, mut numbers) = self.logs.remove(&other).unwrap_or_default();
            // The length is not trusted with more memory than that of a large store.
            self.places
                .reserve(log.num_new(&other).min(MAX_RESERVED_PLACES) as usize);
            let _: IoResult<()> = log.read_new(&other, |entry| {
                if entry.due < self.epoch {
                    return;
                }
                let segment = *numbers.entry(entry.segment).or_insert_with(|| {
                    let name = SegmentName {
                        number: entry.segment,
                        due: entry.due,
                    };
                    self.segments.push(Segment {
                        path: Some(other.join(name.to_string())),
                        due: entry.due,
                        clips: 0,
                        bytes: 0,
                        is_own: false,
                    });
                    (self.segments.len() - 1) as u32
                });
                if self.segments[segment as usize].path.is_some() {
                    self.places.insert(
                        entry.key as u64,
                        Place {
                            segment,
                            offset: entry.offset,
                        },
                    );
                }
            });
            self.logs.insert(other, (log, numbers));
        }
    }
}
