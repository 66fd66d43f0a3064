//! Reads https://, http:// and s3:// URLs by range requests, through a block cache shared by the process.
//! All bytes of a source belong to one version of the file. No temporary files are written.
#![allow(clippy::single_range_in_vec_init, reason = "lists of ranges, of which there is often one")]

mod address;
mod ahead;
mod cache;
mod fetch;
pub mod fuzzing;
mod net;
mod store;

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Result, Site};
use crate::source::caller::{self, RemoteCounts, Tally};
use crate::source::{ByteSource, Identity};
use address::Named;
use ahead::Ahead;
use cache::{blocks_of, Found, Piece, BLOCK};
use fetch::{Answer, Ask, Version};
use net::{net, Known, Net};
use store::{Store, Tallies};

/// Bytes that the first request fetches together with the file's length: for many videos all their tables.
const HEAD: u64 = 2 * BLOCK;
/// Files up to this length are fetched whole as soon as more than their first bytes are read.
const SMALL: u64 = 1 << 20;
/// Maximum gap in blocks that is fetched to join two ranges into one request. The first bytes of keyframes
/// are a group of pictures apart: with a larger gap, indexing a long video of low bit rate would fetch all of
/// it.
const GAP: u64 = 2;
/// How long a file state reported by a server is trusted where the caller does not set `again`.
const FRESH: Duration = Duration::from_secs(5);
/// How often a waiting thread checks whether its caller requested an interrupt.
const LOOK_UP: Duration = Duration::from_millis(50);

static TOTAL: Tally = Tally::new();

/// Traffic of this process from reading by URL so far.
pub fn total() -> RemoteCounts {
    TOTAL.read()
}

/// A file on a server.
pub struct RemoteSource {
    named: Arc<Named>,
    known: Arc<Known>,
    net: &'static Net,
    made_in: u32,
    reader: Mutex<Reader>,
}

/// Announced and observed reads.
#[derive(Default)]
struct Reader {
    ahead: Ahead,
    /// Announced ranges, sorted by offset; reads inside them need no read-ahead.
    announced: Vec<Range<u64>>,
}

impl RemoteSource {
    /// Opens `url`. The first time this takes one request, which also fetches the start of the file. `again`:
    /// for files that are opened repeatedly; a known file needs no request, because everything fetched later
    /// is compared with the known version.
    ///
    /// # Errors
    /// `NotFound`; `Io` with the reason where the server cannot be read; `Argument` and `Unsupported` for
    /// invalid and unsupported URLs.
    pub fn open(url: &str, again: bool) -> Result<Self> {
        let named = Arc::new(Named::parse(url)?);
        let net = net()?;
        let place = net.known(&named);
        let mut place = loop {
            match place.try_lock() {
                Ok(place) => break place,
                Err(std::sync::TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                Err(std::sync::TryLockError::WouldBlock) => {
                    // Another thread is requesting the same file.
                    std::thread::sleep(Duration::from_millis(5));
                    caller::check()?;
                }
            }
        };
        let fresh = |known: &&Arc<Known>| again || lock(&known.seen).elapsed() < FRESH;
        let known = match place.as_ref().filter(fresh) {
            Some(known) => known.clone(),
            None => {
                let known = meet(net, &named, place.clone())?;
                *place = Some(known.clone());
                known
            }
        };
        drop(place);
        Ok(Self { named, known, net, made_in: std::process::id(), reader: Mutex::default() })
    }

    fn site(&self) -> Site {
        Site::file(&self.named.name)
    }

    fn check_process(&self) -> Result<()> {
        let used_in = std::process::id();
        match self.made_in == used_in {
            true => Ok(()),
            false => Err(Error::Forked { what: "a source read by URL", made_in: self.made_in, used_in }),
        }
    }

    /// Requests what is missing of these blocks; returns the pieces being fetched because of it.
    fn send_for(&self, blocks: &[Range<u64>], gap: u64) -> Vec<Arc<Piece>> {
        let pieces = self.net.cache.claim(self.known.id, blocks, gap);
        for piece in &pieces {
            let (net, named, known) = (self.net, self.named.clone(), self.known.clone());
            let ask = Ask {
                named: named.clone(),
                store: known.store.clone(),
                range: piece.start()..(piece.blocks.end * BLOCK).min(known.version.len),
                version: Some(known.version.clone()),
                unless: None,
                tallies: tallies(),
            };
            let mut errand = Errand { net, piece: Some(piece.clone()), site: self.site() };
            self.net.runtime.spawn(async move {
                let answer = ask.answer(&net.slots(&ask.named.host)).await;
                match &answer {
                    Ok(_) => *lock(&known.seen) = Instant::now(),
                    // After any error, the next open asks the server first.
                    Err(_) => net.forget(&named),
                }
                errand.settle(answer.and_then(|answer| match answer {
                    Answer::Came(bytes, _) => Ok(bytes),
                    Answer::Unchanged => Err(Error::Internal {
                        site: Site::file(&named.name),
                        reason: "a server said that nothing changed, which it was not asked".into(),
                    }),
                }));
            });
        }
        pieces
    }

    /// The whole file where it is small; otherwise the given range.
    fn widened(&self, range: Range<u64>) -> Range<u64> {
        match self.known.version.len {
            len if len <= SMALL => 0..len,
            _ => range,
        }
    }

    /// Requests the missing blocks of a read, and those that are likely to be read next. Returns the pieces
    /// it requested.
    fn prepare(&self, read: &Range<u64>) -> Vec<Arc<Piece>> {
        let len = self.known.version.len;
        let area = {
            let mut reader = lock(&self.reader);
            let at = reader.announced.partition_point(|range| range.end <= read.start);
            match reader.announced.get(at).is_some_and(|range| range.start <= read.start) {
                true => read.clone(),
                false => reader.ahead.read(read, len),
            }
        };
        let area = self.widened(area);
        let (id, need, area) = (self.known.id, blocks_of(read), blocks_of(&area));
        let lacks = |block| self.net.cache.lacks(id, block);
        if need.clone().any(lacks) {
            self.send_for(&[area], 0)
        } else if area.end > need.end && lacks(need.end + (area.end - 1 - need.end) / 2) {
            // Requested early enough to arrive in time, and in pieces large enough to be worth a request.
            self.send_for(&[need.end..area.end], 0)
        } else {
            Vec::new()
        }
    }
}

impl ByteSource for RemoteSource {
    fn name(&self) -> &Arc<str> {
        &self.named.name
    }

    fn len(&self) -> u64 {
        self.known.version.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.check_process()?;
        let end = offset.saturating_add(buffer.len() as u64).min(self.len());
        if offset >= end {
            return Ok(0);
        }
        let read = offset..end;
        // Kept, because a cache that is too small may evict these blocks before they are looked up.
        let mut sent = self.prepare(&read);
        let (mut at, mut waited) = (offset, false);
        while at < end {
            let block = at / BLOCK;
            let found = match sent.iter().find(|piece| piece.blocks.contains(&block)) {
                Some(piece) => Found::Coming(piece.clone()),
                None => self.net.cache.find(self.known.id, block),
            };
            let (start, bytes) = match found {
                Found::Here(bytes) => (block * BLOCK, bytes),
                Found::Coming(piece) => {
                    waited = true;
                    (piece.start(), wait_for(&piece)?)
                }
                Found::Missing => {
                    sent = self.send_for(&[block..blocks_of(&read).end], 0);
                    continue;
                }
            };
            let held = bytes.get((at - start) as usize..).unwrap_or_default();
            let take = held.len().min((end - at) as usize);
            if take == 0 {
                let reason = "a block is shorter than the file says".to_owned();
                return Err(Error::Internal { site: self.site(), reason });
            }
            let to = (at - offset) as usize;
            buffer[to..to + take].copy_from_slice(&held[..take]);
            at += take as u64;
        }
        if !waited {
            tallies().add(RemoteCounts { cache_hits: 1, ..RemoteCounts::default() });
        }
        Ok((end - offset) as usize)
    }

    fn identity(&self) -> Identity {
        let Version { len, tag } = self.known.version.clone();
        Identity::Remote { url: self.named.key.clone(), len, tag, start: 0 }
    }

    fn will_read(&self, ranges: &mut dyn Iterator<Item = Range<u64>>) {
        if self.check_process().is_err() {
            return; // the read reports the error
        }
        // Prefetched data must not evict data that is needed now.
        let mut left = self.net.cache.budget() / 4;
        let mut blocks: Vec<Range<u64>> = Vec::new();
        let mut announced: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            let range = range.start.min(self.len())..range.end.min(self.len());
            let len = range.end.saturating_sub(range.start);
            if len == 0 {
                continue;
            }
            let Some(rest) = left.checked_sub(len) else { break };
            left = rest;
            blocks.push(blocks_of(&self.widened(range.clone())));
            announced.push(range);
        }
        blocks.sort_by_key(|range| range.start);
        announced.sort_by_key(|range| range.start);
        self.send_for(&blocks, GAP);
        lock(&self.reader).announced = announced;
    }
}

/// A piece being fetched. However its task ends, the threads that wait for it are notified.
struct Errand {
    net: &'static Net,
    piece: Option<Arc<Piece>>,
    site: Site,
}

impl Errand {
    fn settle(&mut self, outcome: Result<bytes::Bytes>) {
        if let Some(piece) = self.piece.take() {
            self.net.cache.settle(&piece, outcome);
        }
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        let reason = "a request was given up".to_owned();
        self.settle(Err(Error::Internal { site: self.site.clone(), reason }));
    }
}

/// Requests a file's length, version and first bytes. `before`: what was known of it.
fn meet(net: &'static Net, named: &Arc<Named>, before: Option<Arc<Known>>) -> Result<Arc<Known>> {
    let store = Store::open(&net.client, &named.address)?;
    let ask = Ask {
        named: named.clone(),
        store: store.clone(),
        range: 0..HEAD,
        version: None,
        unless: before.as_ref().map(|known| known.version.clone()),
        tallies: tallies(),
    };
    let (tell, told) = crossbeam_channel::bounded(1);
    net.runtime.spawn(async move {
        let _ = tell.send(ask.answer(&net.slots(&ask.named.host)).await);
    });
    let answer = loop {
        match told.recv_timeout(LOOK_UP) {
            Ok(answer) => break answer?,
            Err(crossbeam_channel::RecvTimeoutError::Timeout) => caller::check()?,
            Err(crossbeam_channel::RecvTimeoutError::Disconnected) => {
                let reason = "a request was given up".to_owned();
                return Err(Error::Internal { site: Site::file(&named.name), reason });
            }
        }
    };
    let seen = Mutex::new(Instant::now());
    // Cached blocks stay valid, but the store is replaced: the server accepted the current credentials of
    // this caller.
    let same = |known: Arc<Known>, store, seen| {
        Ok(Arc::new(Known { id: known.id, version: known.version.clone(), store, seen }))
    };
    match (answer, before) {
        (Answer::Came(_, version), Some(known)) if known.version == version && !version.tag.is_empty() => {
            same(known, store, seen)
        }
        (Answer::Came(bytes, version), _) => {
            let id = net.next_id();
            for piece in net.cache.claim(id, &[blocks_of(&(0..bytes.len() as u64))], 0) {
                net.cache.settle(&piece, Ok(bytes.clone()));
            }
            Ok(Arc::new(Known { id, version, store, seen }))
        }
        (Answer::Unchanged, Some(known)) => same(known, store, seen),
        (Answer::Unchanged, None) => Err(Error::Internal {
            site: Site::file(&named.name),
            reason: "a server said that nothing changed, which it was not asked".into(),
        }),
    }
}

fn tallies() -> Tallies {
    Tallies(&TOTAL, caller::tally())
}

/// Waits for a piece, unless the caller requests an interrupt. The request continues, since others may need
/// it.
fn wait_for(piece: &Piece) -> Result<bytes::Bytes> {
    loop {
        if let Some(outcome) = piece.wait(LOOK_UP) {
            return outcome;
        }
        caller::check()?;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
