//! Holds the runtime, client, block cache and list of known files of a process, created when first
//! needed. A forked child creates its own: threads do not survive fork(), and may have held locks
//! when it happened.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use once_cell::race::OnceBox;
use tokio::runtime::Runtime;

use super::backend::{HttpStores, RemoteObject};
use super::block_cache::BlockCache;
use super::host::Host;
use super::parsed_url::ParsedUrl;
use super::ranged_get::Version;
use crate::error::{Error, Result};

/// Default budget of the block cache in bytes.
const DEFAULT_CACHE_BYTES: u64 = 256 << 20;
/// Environment variable that sets the budget.
const CACHE_BYTES_VARIABLE: &str = "FRAMESPOOL_REMOTE_CACHE";
/// Maximum number of remembered files. Beyond it all are forgotten, which costs one request per
/// file when it is opened again.
const MAX_URL_STATES: usize = 1 << 18;

/// Number of hosts at which those without pending requests are forgotten.
const MAX_HOSTS: usize = 1 << 10;

/// State of a process for reading by URL.
pub(super) struct RemoteClient {
    pub runtime: Runtime,
    pub http: HttpStores,
    pub cache: BlockCache,
    hosts: Mutex<HashMap<Arc<str>, Arc<Host>>>,
    url_states: Mutex<HashMap<UrlKey, UrlState>>,
    ids: AtomicU64,
}

/// A file that was requested before.
pub(super) struct CachedMetadata {
    /// Its number in the cache; another version of the file has another number.
    pub id: u64,
    pub version: Version,
    pub object: RemoteObject,
    /// When its server last confirmed the version.
    pub confirmed_at: Mutex<Instant>,
}

/// A URL's key and the account: a server may return another file to each account.
type UrlKey = (Arc<str>, u64);

/// What is known of one URL, if anything; the lock lets one thread at a time request it.
type UrlState = Arc<Mutex<Option<Arc<CachedMetadata>>>>;

struct Node {
    process: u32,
    client: Result<RemoteClient, String>,
    next: OnceBox<Node>,
}

/// The state of the first process, followed by those of its forked descendants.
///
/// No thread waits here for another one: a thread that creates a state while another one forks does
/// not exist in the child to finish it.
static FIRST_PROCESS: OnceBox<Node> = OnceBox::new();

/// The state of this process.
///
/// # Errors
/// `Argument` where threads or the client cannot be created, or the budget is not a number.
pub(super) fn remote_client() -> Result<&'static RemoteClient> {
    let process = std::process::id();
    let mut slot = &FIRST_PROCESS;
    loop {
        match slot.get() {
            Some(node) if node.process == process => {
                return node
                    .client
                    .as_ref()
                    .map_err(|reason| Error::Argument(reason.clone()));
            }
            Some(node) => slot = &node.next,
            // Another thread may do the same; only one of the states is used.
            None => {
                if let Err(unused) = slot.set(Box::new(Node::new())) {
                    unused.discard();
                }
            }
        }
    }
}

impl Node {
    fn new() -> Self {
        Self {
            process: std::process::id(),
            client: RemoteClient::new(),
            next: OnceBox::new(),
        }
    }

    /// Shuts down an unused state, without waiting.
    fn discard(self) {
        if let Ok(client) = self.client {
            client.runtime.shutdown_background();
        }
    }
}

impl RemoteClient {
    fn new() -> Result<Self, String> {
        let budget = match std::env::var(CACHE_BYTES_VARIABLE) {
            Ok(text) => parse_bytes(&text).ok_or_else(|| {
                format!(
                    "{CACHE_BYTES_VARIABLE} is {text:?}; give a number of bytes, or one with KiB, MiB or GiB"
                )
            })?,
            Err(_) => DEFAULT_CACHE_BYTES,
        };
        let number = AtomicU64::new(0);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name_fn(move || format!("fsp-net-{}", number.fetch_add(1, Relaxed)))
            .enable_all()
            .build()
            .map_err(|error| {
                format!(
                    "threads for reading by URL cannot be started: {error}; raise the process limit"
                )
            })?;
        Ok(Self {
            runtime,
            http: HttpStores::new()?,
            cache: BlockCache::new(budget),
            hosts: Mutex::default(),
            url_states: Mutex::default(),
            ids: AtomicU64::new(0),
        })
    }

    /// The entry of a URL, which one thread at a time fills.
    pub(crate) fn url_state(&self, parsed_url: &ParsedUrl) -> UrlState {
        let key = (parsed_url.key.clone(), parsed_url.account);
        let mut url_states = self
            .url_states
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if url_states.len() >= MAX_URL_STATES && !url_states.contains_key(&key) {
            url_states.clear();
        }
        url_states.entry(key).or_default().clone()
    }

    /// Discards the state of a URL: the next open asks the server.
    pub(crate) fn forget(&self, parsed_url: &ParsedUrl) {
        let key = (parsed_url.key.clone(), parsed_url.account);
        self.url_states
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&key);
    }

    /// The state of a host.
    pub(super) fn host(&self, name: &Arc<str>) -> Arc<Host> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() >= MAX_HOSTS {
            hosts.retain(|_, host| Arc::strong_count(host) > 1);
        }
        hosts
            .entry(name.clone())
            .or_insert_with(|| Arc::new(Host::new(name.clone())))
            .clone()
    }

    /// A new number for a file.
    pub(crate) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Relaxed)
    }
}

/// Parses `268435456`, `256MiB` or `1 GiB`.
fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kib" | "k" => 1 << 10,
        "mib" | "m" => 1 << 20,
        "gib" | "g" => 1 << 30,
        _ => return None,
    };
    digits.trim_end().parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_numbers_with_units() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64MiB", 64 << 20),
            (" 1 GiB ", 1 << 30),
            ("8k", 8192),
        ] {
            assert_eq!(parse_bytes(text), Some(bytes), "{text}");
        }
        for text in ["", "MiB", "1.5GiB", "-1", "10 parsecs", "99999999999999GiB"] {
            assert_eq!(parse_bytes(text), None, "{text}");
        }
    }
}
