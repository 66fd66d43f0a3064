//! Reads URLs of web servers and of objects in buckets by range requests, through a block cache
//! shared by the process. All bytes of a source belong to one version of the file. No temporary
//! files are written.
#![allow(
    clippy::single_range_in_vec_init,
    reason = "lists of ranges, of which there is often one"
)]

mod address;
mod aws_profile;
mod backend;
mod block_cache;
mod bucket;
mod client;
mod credential_process;
mod environment;
pub mod fuzzing;
mod host;
mod http_service;
mod hugging_face;
mod parsed_url;
mod ranged_get;
mod readahead;
mod redirect;

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Result, Site};
use crate::source::interrupt::{self, RemoteStats, TrafficCounters};
use crate::source::{ByteSource, Identity};
use backend::RemoteObject;
use block_cache::{BLOCK_BYTES, BlockFetch, Lookup, blocks_of};
use client::{CachedMetadata, RemoteClient, remote_client};
use http_service::RequestTraffic;
use parsed_url::ParsedUrl;
use ranged_get::{RangeRequest, RangeResponse, Version, outage_timeout_from_env};
use readahead::Readahead;

/// Bytes that the first request fetches together with the file's length: for many videos all their
/// tables.
const FIRST_REQUEST_BYTES: u64 = 2 * BLOCK_BYTES;
/// Files up to this length are fetched whole as soon as more than their first bytes are read.
const MAX_SMALL_FILE_BYTES: u64 = 1 << 20;
/// Maximum gap in blocks that is fetched to join two ranges into one request. The first bytes of
/// keyframes are a group of pictures apart: with a larger gap, indexing a long video of low bit
/// rate would fetch all of it.
const MAX_BRIDGED_BLOCKS: u64 = 2;
/// How long a file state reported by a server is trusted where the caller does not set `again`.
const METADATA_TTL: Duration = Duration::from_secs(5);
/// Interval at which a waiting thread checks whether its caller requested an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

static PROCESS_TRAFFIC: TrafficCounters = TrafficCounters::new();

/// Traffic of this process from reading by URL so far.
pub(crate) fn process_traffic() -> RemoteStats {
    PROCESS_TRAFFIC.read()
}

/// A file on a server.
pub(crate) struct RemoteSource {
    parsed_url: Arc<ParsedUrl>,
    metadata: Arc<CachedMetadata>,
    client: &'static RemoteClient,
    owner_pid: u32,
    /// How long an outage of the server is waited for.
    outage_timeout: Duration,
    access_pattern: Mutex<AccessPattern>,
}

/// Announced and observed reads.
#[derive(Default)]
struct AccessPattern {
    readahead: Readahead,
    /// Announced ranges, sorted by offset; reads inside them need no read-ahead.
    announced: Vec<Range<u64>>,
}

impl RemoteSource {
    /// Opens `url`. The first time this takes one request, which also fetches the start of the
    /// file. `again`: for files that are opened repeatedly; a known file needs no request, because
    /// everything fetched later is compared with the known version.
    ///
    /// # Errors
    /// `NotFound`; `Io` with the reason where the server cannot be read; `Argument` and
    /// `Unsupported` for invalid and unsupported URLs.
    pub(super) fn open(url: &str, trust_cached: bool) -> Result<Self> {
        let parsed_url = Arc::new(ParsedUrl::parse(url)?);
        let outage_timeout =
            interrupt::outage_timeout().map_or_else(outage_timeout_from_env, Ok)?;
        let client = remote_client()?;
        let url_state = client.url_state(&parsed_url);
        let mut url_state = loop {
            match url_state.try_lock() {
                Ok(url_state) => break url_state,
                Err(std::sync::TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                Err(std::sync::TryLockError::WouldBlock) => {
                    // Another thread is requesting the same file.
                    std::thread::sleep(Duration::from_millis(5));
                    interrupt::check_interrupt()?;
                }
            }
        };
        let fresh = |metadata: &&Arc<CachedMetadata>| {
            trust_cached || lock(&metadata.confirmed_at).elapsed() < METADATA_TTL
        };
        let metadata = match url_state.as_ref().filter(fresh) {
            Some(metadata) => metadata.clone(),
            None => {
                let metadata =
                    request_metadata(client, &parsed_url, url_state.clone(), outage_timeout)?;
                *url_state = Some(metadata.clone());
                metadata
            }
        };
        drop(url_state);
        Ok(Self {
            parsed_url,
            metadata,
            client,
            owner_pid: std::process::id(),
            outage_timeout,
            access_pattern: Mutex::default(),
        })
    }

    fn site(&self) -> Site {
        Site::file(&self.parsed_url.name)
    }

    fn check_process(&self) -> Result<()> {
        let current_pid = std::process::id();
        match self.owner_pid == current_pid {
            true => Ok(()),
            false => Err(Error::Forked {
                what: "a source read by URL",
                owner_pid: self.owner_pid,
                current_pid,
            }),
        }
    }

    /// Requests what is missing of these blocks; returns the pieces being fetched because of it.
    fn request_blocks(&self, blocks: &[Range<u64>], gap: u64) -> Vec<Arc<BlockFetch>> {
        let fetches = self.client.cache.claim(self.metadata.id, blocks, gap);
        for fetch in &fetches {
            let (client, parsed_url, metadata) =
                (self.client, self.parsed_url.clone(), self.metadata.clone());
            let request = RangeRequest {
                parsed_url: parsed_url.clone(),
                object: metadata.object.clone(),
                range: fetch.start()..(fetch.blocks.end * BLOCK_BYTES).min(metadata.version.len),
                version: Some(metadata.version.clone()),
                if_none_match: None,
                traffic: request_traffic(),
                outage_timeout: self.outage_timeout,
            };
            let mut guard = FetchGuard {
                client,
                fetch: Some(fetch.clone()),
                site: self.site(),
            };
            self.client.runtime.spawn(async move {
                let response = request
                    .send_with_retries(&client.host(&request.parsed_url.host))
                    .await;
                match &response {
                    Ok(_) => *lock(&metadata.confirmed_at) = Instant::now(),
                    // After any error, the next open asks the server first.
                    Err(_) => client.forget(&parsed_url),
                }
                guard.complete(response.and_then(|response| {
                    match response {
                        RangeResponse::Received(bytes, _) => Ok(bytes),
                        RangeResponse::NotModified => Err(Error::Internal {
                            site: Site::file(&parsed_url.name),
                            reason:
                                "the server answered 304 Not Modified to an unconditional request"
                                    .into(),
                        }),
                    }
                }));
            });
        }
        fetches
    }

    /// The whole file where it is small; otherwise the given range.
    fn whole_if_small(&self, range: Range<u64>) -> Range<u64> {
        match self.metadata.version.len {
            len if len <= MAX_SMALL_FILE_BYTES => 0..len,
            _ => range,
        }
    }

    /// Requests the missing blocks of a read, and those that are likely to be read next. Returns
    /// the pieces it requested.
    fn request_for_read(&self, read: &Range<u64>) -> Vec<Arc<BlockFetch>> {
        let len = self.metadata.version.len;
        let area = {
            let mut access_pattern = lock(&self.access_pattern);
            let at = access_pattern
                .announced
                .partition_point(|range| range.end <= read.start);
            match access_pattern
                .announced
                .get(at)
                .is_some_and(|range| range.start <= read.start)
            {
                true => read.clone(),
                false => access_pattern.readahead.record_read(read, len),
            }
        };
        let area = self.whole_if_small(area);
        let (id, need, area) = (self.metadata.id, blocks_of(read), blocks_of(&area));
        let is_missing = |block| self.client.cache.is_missing(id, block);
        if need.clone().any(is_missing) {
            self.request_blocks(&[area], 0)
        } else if area.end > need.end && is_missing(need.end + (area.end - 1 - need.end) / 2) {
            // Requested early enough to arrive in time, and in pieces large enough to be worth a
            // request.
            self.request_blocks(&[need.end..area.end], 0)
        } else {
            Vec::new()
        }
    }
}

impl ByteSource for RemoteSource {
    fn name(&self) -> &Arc<str> {
        &self.parsed_url.name
    }

    fn len(&self) -> u64 {
        self.metadata.version.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.check_process()?;
        let end = offset.saturating_add(buffer.len() as u64).min(self.len());
        if offset >= end {
            return Ok(0);
        }
        let read = offset..end;
        // Kept, because a cache that is too small may evict these blocks before they are looked up.
        let mut sent = self.request_for_read(&read);
        let (mut at, mut waited) = (offset, false);
        while at < end {
            let block = at / BLOCK_BYTES;
            let found = match sent.iter().find(|fetch| fetch.blocks.contains(&block)) {
                Some(fetch) => Lookup::InFlight(fetch.clone()),
                None => self.client.cache.lookup(self.metadata.id, block),
            };
            let (start, bytes) = match found {
                Lookup::Cached(bytes) => (block * BLOCK_BYTES, bytes),
                Lookup::InFlight(fetch) => {
                    waited = true;
                    (fetch.start(), wait_for_fetch(&fetch)?)
                }
                Lookup::Missing => {
                    sent = self.request_blocks(&[block..blocks_of(&read).end], 0);
                    continue;
                }
            };
            let held = bytes.get((at - start) as usize..).unwrap_or_default();
            let take = held.len().min((end - at) as usize);
            if take == 0 {
                let reason = "a block is shorter than expected from the file size".to_owned();
                return Err(Error::Internal {
                    site: self.site(),
                    reason,
                });
            }
            let to = (at - offset) as usize;
            buffer[to..to + take].copy_from_slice(&held[..take]);
            at += take as u64;
        }
        if !waited {
            request_traffic().add(RemoteStats {
                cache_hits: 1,
                ..RemoteStats::default()
            });
        }
        Ok((end - offset) as usize)
    }

    fn identity(&self) -> Identity {
        let Version { len, tag } = self.metadata.version.clone();
        Identity::Remote {
            url: self.parsed_url.key.clone(),
            len,
            tag,
            start: 0,
        }
    }

    fn prefetch(&self, ranges: &mut dyn Iterator<Item = Range<u64>>) {
        if self.check_process().is_err() {
            return; // the read reports the error
        }
        // Prefetched data must not evict data that is needed now.
        let mut left = self.client.cache.budget() / 4;
        let mut blocks: Vec<Range<u64>> = Vec::new();
        let mut announced: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            let range = range.start.min(self.len())..range.end.min(self.len());
            let len = range.end.saturating_sub(range.start);
            if len == 0 {
                continue;
            }
            let Some(rest) = left.checked_sub(len) else {
                break;
            };
            left = rest;
            blocks.push(blocks_of(&self.whole_if_small(range.clone())));
            announced.push(range);
        }
        blocks.sort_by_key(|range| range.start);
        announced.sort_by_key(|range| range.start);
        self.request_blocks(&blocks, MAX_BRIDGED_BLOCKS);
        lock(&self.access_pattern).announced = announced;
    }
}

/// A piece being fetched. However its task ends, the threads that wait for it are notified.
struct FetchGuard {
    client: &'static RemoteClient,
    fetch: Option<Arc<BlockFetch>>,
    site: Site,
}

impl FetchGuard {
    fn complete(&mut self, outcome: Result<bytes::Bytes>) {
        if let Some(fetch) = self.fetch.take() {
            self.client.cache.complete(&fetch, outcome);
        }
    }
}

impl Drop for FetchGuard {
    fn drop(&mut self) {
        let reason = "a request was canceled".to_owned();
        self.complete(Err(Error::Internal {
            site: self.site.clone(),
            reason,
        }));
    }
}

/// Requests a file's length, version and first bytes. `before`: what was known of it.
fn request_metadata(
    client: &'static RemoteClient,
    parsed_url: &Arc<ParsedUrl>,
    before: Option<Arc<CachedMetadata>>,
    outage_timeout: Duration,
) -> Result<Arc<CachedMetadata>> {
    let object = RemoteObject::open(&client.http, parsed_url)?;
    let request = RangeRequest {
        parsed_url: parsed_url.clone(),
        object: object.clone(),
        range: 0..FIRST_REQUEST_BYTES,
        version: None,
        if_none_match: before.as_ref().map(|metadata| metadata.version.clone()),
        traffic: request_traffic(),
        outage_timeout,
    };
    let (sender, receiver) = crossbeam_channel::bounded(1);
    client.runtime.spawn(async move {
        let _ = sender.send(
            request
                .send_with_retries(&client.host(&request.parsed_url.host))
                .await,
        );
    });
    let response = loop {
        match receiver.recv_timeout(POLL_INTERVAL) {
            Ok(response) => break response?,
            Err(crossbeam_channel::RecvTimeoutError::Timeout) => interrupt::check_interrupt()?,
            Err(crossbeam_channel::RecvTimeoutError::Disconnected) => {
                let reason = "a request was canceled".to_owned();
                return Err(Error::Internal {
                    site: Site::file(&parsed_url.name),
                    reason,
                });
            }
        }
    };
    let confirmed_at = Mutex::new(Instant::now());
    // Cached blocks stay valid, but the store is replaced: the server accepted the current
    // credentials of this caller.
    let same = |metadata: Arc<CachedMetadata>, object, confirmed_at| {
        Ok(Arc::new(CachedMetadata {
            id: metadata.id,
            version: metadata.version.clone(),
            object,
            confirmed_at,
        }))
    };
    match (response, before) {
        (RangeResponse::Received(_, version), Some(metadata))
            if metadata.version == version && !version.tag.is_empty() =>
        {
            same(metadata, object, confirmed_at)
        }
        (RangeResponse::Received(bytes, version), _) => {
            let id = client.next_id();
            for fetch in client
                .cache
                .claim(id, &[blocks_of(&(0..bytes.len() as u64))], 0)
            {
                client.cache.complete(&fetch, Ok(bytes.clone()));
            }
            Ok(Arc::new(CachedMetadata {
                id,
                version,
                object,
                confirmed_at,
            }))
        }
        (RangeResponse::NotModified, Some(metadata)) => same(metadata, object, confirmed_at),
        (RangeResponse::NotModified, None) => Err(Error::Internal {
            site: Site::file(&parsed_url.name),
            reason: "the server answered 304 Not Modified to an unconditional request".into(),
        }),
    }
}

fn request_traffic() -> RequestTraffic {
    RequestTraffic(&PROCESS_TRAFFIC, interrupt::traffic())
}

/// Waits for a piece, unless the caller requests an interrupt. The request continues, since others
/// may need it.
fn wait_for_fetch(fetch: &BlockFetch) -> Result<bytes::Bytes> {
    loop {
        if let Some(outcome) = fetch.wait(POLL_INTERVAL) {
            return outcome;
        }
        interrupt::check_interrupt()?;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
