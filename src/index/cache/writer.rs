//! Writes new indices to the database on one named thread, many per transaction.
//! The queue is bounded: an index that does not fit within a short time is not cached.
//! Errors are recorded in [`CacheErrors`] and never returned to the decoding threads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use rusqlite::Connection;

use super::record::{self, CacheRecord, FileSignature, is_missing, record_id, today};
use super::{audio_codec, codec, database, fork_guard};
use crate::index::VideoIndex;
use crate::index::audio::AudioIndex;

/// Capacity of the queue.
const MAX_QUEUED: usize = 256;
/// How long threads that build indices wait while the queue is full: less than writing a batch
/// takes.
const MAX_QUEUE_WAIT: Duration = Duration::from_millis(100);
/// How long a transaction waits for the next index, and for all of them: its cost on disk is almost
/// the same for one as for many. Processes that are killed lose the indices of this time.
const MAX_IDLE_WAIT: Duration = Duration::from_millis(100);
const MAX_BATCH_WAIT: Duration = Duration::from_secs(1);
/// Size of a transaction: readers wait while it is written.
const MAX_BATCH_BYTES: usize = 4 << 20;
/// Maximum number of entries whose use is recorded at once.
const MAX_TOUCHED: usize = 1 << 20;
/// How long the search for entries of missing files may take when the database is too large.
const MAX_SEARCH: Duration = Duration::from_secs(2);
/// Number of resets after which a damaged database is left as it is, because something keeps
/// damaging it.
const MAX_RESETS: u32 = 3;
/// Maximum number of checks that find no damage; each reads the whole database.
const MAX_CHECKS: u32 = 16;

/// Errors that occurred in the background.
#[derive(Debug, Default)]
pub(super) struct CacheErrors(Mutex<(Option<String>, u64)>);

impl CacheErrors {
    /// Records the latest error, and how many indices were not cached because of it.
    pub(super) fn record(&self, what: String, lost: usize) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *known = (Some(what), known.1 + lost as u64);
    }

    /// Counts indices that were not cached.
    pub(super) fn add_dropped(&self, lost: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1 += lost as u64;
    }

    /// Returns the latest error and the number of indices not cached.
    pub(super) fn read(&self) -> (Option<String>, u64) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// An index to be cached.
pub(super) struct PendingWrite {
    /// Key of the entry, see [`super::record::record_key`].
    pub key: Vec<u8>,
    /// State of the file that was indexed.
    pub signature: FileSignature,
    /// When reading began, nanoseconds since 1970.
    pub read_ns: i64,
    /// See [`super::record::content_hash`].
    pub content_hash: u64,
    /// The index.
    pub index: StoredIndex,
}

/// An index of either kind.
pub(super) enum StoredIndex {
    Video(Arc<VideoIndex>),
    Audio(Arc<AudioIndex>),
}

/// Version of the FFmpeg whose libavformat an index comes from; empty if the sample tables
/// sufficed.
pub(super) fn ffmpeg_version_of(index: &VideoIndex) -> String {
    match crate::demux::is_read_from_sample_tables(&index.container) {
        true => String::new(),
        false => crate::ffmpeg::version(),
    }
}

impl PendingWrite {
    fn encode(&self) -> Option<(i64, Vec<u8>)> {
        let (bytes, ffmpeg) = match &self.index {
            StoredIndex::Video(index) => (codec::encode(index)?, ffmpeg_version_of(index)),
            StoredIndex::Audio(index) => (audio_codec::encode(index)?, crate::ffmpeg::version()),
        };
        let entry = CacheRecord {
            key: &self.key,
            signature: self.signature,
            read_ns: self.read_ns,
            content_hash: self.content_hash,
            ffmpeg: &ffmpeg,
            index: &bytes,
        };
        Some((record_id(&self.key), entry.encode()))
    }
}

enum Message {
    Write(Box<PendingWrite>),
    Remove(Vec<i64>),
    /// A reader found that the file is damaged.
    Repair,
    /// Answered when everything queued before it is written.
    Flush(Sender<()>),
}

/// The writer thread and its queue.
pub(super) struct Writer {
    queue: Option<Sender<Message>>,
    thread: Option<JoinHandle<()>>,
    /// Entries used since the last transaction that are not marked as used today.
    touched: Arc<Mutex<BTreeSet<i64>>>,
    /// The last wait timed out: later calls do not wait until an index was queued again.
    stuck: AtomicBool,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(
        file: PathBuf,
        connection: Connection,
        errors: Arc<CacheErrors>,
        max_bytes: u64,
    ) -> std::io::Result<Self> {
        let (queue, messages) = bounded(MAX_QUEUED);
        let owner_pid = std::process::id();
        let touched: Arc<Mutex<BTreeSet<i64>>> = Arc::default();
        let thread_state = WriterThread {
            file,
            connection,
            errors,
            owner_pid,
            max_bytes,
            touched: touched.clone(),
            resets: 0,
            checks: 0,
        };
        let thread = std::thread::Builder::new().name("index-writer".into());
        let thread = thread.spawn(move || thread_state.run(&messages))?;
        Ok(Self {
            queue: Some(queue),
            thread: Some(thread),
            touched,
            stuck: AtomicBool::new(false),
        })
    }

    /// Marks an entry as used today with the next transaction.
    pub(super) fn touch(&self, id: i64) {
        let mut touched = self.touched.lock().unwrap_or_else(PoisonError::into_inner);
        if touched.len() < MAX_TOUCHED {
            touched.insert(id);
        }
    }

    /// Queues an index, waiting without limit if `wait` is set and for a short time otherwise.
    /// Returns whether it was queued.
    pub(super) fn write(&self, new: PendingWrite, wait: bool) -> bool {
        let Some(queue) = &self.queue else {
            return false;
        };
        let message = Message::Write(Box::new(new));
        if wait {
            return queue.send(message).is_ok();
        }
        let timeout = if self.stuck.load(Ordering::Relaxed) {
            Duration::ZERO
        } else {
            MAX_QUEUE_WAIT
        };
        let queued = queue.send_timeout(message, timeout).is_ok();
        self.stuck.store(!queued, Ordering::Relaxed);
        queued
    }

    /// Queues the removal of entries.
    pub(super) fn remove(&self, ids: Vec<i64>) {
        let _ = self
            .queue
            .as_ref()
            .map(|queue| queue.send(Message::Remove(ids)));
    }

    /// Queues a check of the database, which empties it if it is damaged; with `wait`, also if the
    /// queue is full.
    pub(super) fn repair(&self, wait: bool) {
        let Some(queue) = &self.queue else { return };
        if wait {
            let _ = queue.send(Message::Repair);
        } else {
            // If the queue is full, the writer is active and will find the damage itself.
            let _ = queue.try_send(Message::Repair);
        }
    }

    /// Whether the thread has ended, as after a panic: nothing will be written.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits up to `at_most` until everything queued is written; returns whether it is.
    pub(super) fn flush(&self, at_most: Duration) -> bool {
        let Some(queue) = &self.queue else {
            return true;
        };
        let (done, wait) = bounded(1);
        let flush = Message::Flush(done);
        match Instant::now().checked_add(at_most) {
            Some(deadline) => {
                queue.send_deadline(flush, deadline).is_ok() && wait.recv_deadline(deadline).is_ok()
            }
            // Beyond the range of the clock, such as `Duration::MAX`: without a limit.
            None => queue.send(flush).is_ok() && wait.recv().is_ok(),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None; // the thread writes what is queued, then ends
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct WriterThread {
    file: PathBuf,
    connection: Connection,
    errors: Arc<CacheErrors>,
    owner_pid: u32,
    max_bytes: u64,
    touched: Arc<Mutex<BTreeSet<i64>>>,
    resets: u32,
    checks: u32,
}

impl WriterThread {
    fn run(mut self, messages: &Receiver<Message>) {
        let mut next = messages.recv().ok();
        while let Some(message) = next.take() {
            match message {
                Message::Write(new) => {
                    let (mut records, mut bytes) = (BTreeMap::new(), 0); // the latest of each key
                    let deadline = Instant::now() + MAX_BATCH_WAIT;
                    let mut pending = Some(new);
                    while let Some(new) = pending.take() {
                        match new.encode() {
                            Some((id, value)) => {
                                bytes += value.len();
                                records.insert(id, value);
                            }
                            None => self.errors.add_dropped(1),
                        }
                        if bytes < MAX_BATCH_BYTES {
                            match messages
                                .recv_deadline(deadline.min(Instant::now() + MAX_IDLE_WAIT))
                            {
                                Ok(Message::Write(new)) => pending = Some(new),
                                Ok(other) => next = Some(other),
                                Err(_) => {}
                            }
                        }
                    }
                    self.write(records.len(), &|connection| {
                        database::put(connection, &records, today())
                    });
                    self.write_touched();
                    self.limit_size();
                }
                Message::Remove(ids) => {
                    self.write(0, &|connection| database::remove(connection, &ids))
                }
                Message::Repair => self.repair(),
                Message::Flush(done) => {
                    self.write_touched();
                    let _ = done.send(());
                }
            }
            if next.is_none() {
                next = messages.recv().ok();
            }
        }
        self.write_touched();
        // Closing the connection also uses SQLite.
        let guard = fork_guard::enter(self.owner_pid);
        drop(self);
        drop(guard);
    }

    fn write(&mut self, entries: usize, work: &dyn Fn(&mut Connection) -> rusqlite::Result<()>) {
        for _ in 0..2 {
            let Some(guard) = fork_guard::enter(self.owner_pid) else {
                return;
            };
            let done = work(&mut self.connection);
            drop(guard);
            match done {
                Ok(()) => return,
                Err(error) if database::is_damage(&error) && self.resets < MAX_RESETS => {
                    self.repair()
                }
                Err(error) => {
                    return self
                        .errors
                        .record(format!("{}: {error}", self.file.display()), entries);
                }
            }
        }
        self.errors.record(
            format!(
                "{}: damaged, and emptying it did not repair it",
                self.file.display()
            ),
            entries,
        );
    }

    fn write_touched(&mut self) {
        let touched =
            std::mem::take(&mut *self.touched.lock().unwrap_or_else(PoisonError::into_inner));
        if !touched.is_empty() {
            self.write(0, &|connection| {
                database::touch(connection, &touched, today())
            });
        }
    }

    /// If the database is larger than its limit, removes entries of missing files, then those that
    /// have not been used for the longest time, until a tenth is free.
    fn limit_size(&mut self) {
        let max_bytes = self.max_bytes;
        self.write(0, &move |connection| {
            if database::used_bytes(connection)? <= max_bytes {
                return Ok(());
            }
            let (mut gone, deadline) = (Vec::new(), Instant::now() + MAX_SEARCH);
            database::each(connection, |id, value| {
                if record::path_of(value).is_some_and(is_missing) {
                    gone.push(id);
                }
                Instant::now() < deadline
            })?;
            database::remove(connection, &gone)?;
            database::remove_least_recently_used(connection, max_bytes / 10 * 9).map(drop)
        });
    }

    fn repair(&mut self) {
        if self.resets == MAX_RESETS || self.checks == MAX_CHECKS {
            return;
        }
        let Some(_guard) = fork_guard::enter(self.owner_pid) else {
            return;
        };
        let file = self.file.display();
        match database::reset(&self.file) {
            Ok(true) => {
                self.resets += 1;
                let what =
                    format!("{file}: was damaged and has been emptied; videos are indexed again");
                self.errors.record(what, 0);
            }
            // Another process or an earlier message has already repaired it.
            Ok(false) => self.checks += 1,
            Err(error) => {
                self.checks += 1;
                self.errors.record(
                    format!("{file}: damaged, and emptying it failed: {error}"),
                    0,
                );
            }
        }
        // The old connection's cached state of the file may be invalid.
        match database::writer(&self.file) {
            Ok(connection) => self.connection = connection,
            Err(error) => self.errors.record(format!("{file}: {error}"), 0),
        }
    }
}
