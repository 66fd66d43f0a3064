//! Holds the runtime, client, block cache and list of known files of a process, created when first needed.
//! A forked child creates its own: threads do not survive fork(), and may have held locks when it happened.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use once_cell::race::OnceBox;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use super::address::Named;
use super::cache::Cache;
use super::fetch::Version;
use super::store::{client, Store};
use crate::error::{Error, Result};

/// Concurrent requests per host, so that one that stalls does not delay others: enough for several workers
/// with several pieces each, few enough to bound memory.
const REQUESTS: usize = 24;
/// Default budget of the block cache in bytes.
const CACHE_BYTES: u64 = 256 << 20;
/// Environment variable that sets the budget.
const CACHE_VARIABLE: &str = "FRAMESPOOL_REMOTE_CACHE";
/// Maximum number of remembered files. Beyond it all are forgotten, which costs one request per file when it
/// is opened again.
const MAX_KNOWN: usize = 1 << 18;

/// Number of hosts at which those without pending requests are forgotten.
const MAX_HOSTS: usize = 1 << 10;

/// State of a process for reading by URL.
pub(super) struct Net {
    pub runtime: Runtime,
    pub client: reqwest::Client,
    pub cache: Cache,
    slots: Mutex<HashMap<Arc<str>, Arc<Semaphore>>>,
    known: Mutex<HashMap<Asked, Acquaintance>>,
    ids: AtomicU64,
}

/// A file that was requested before.
pub(super) struct Known {
    /// Its number in the cache; another version of the file has another number.
    pub id: u64,
    pub version: Version,
    pub store: Store,
    /// When its server last confirmed the version.
    pub seen: Mutex<Instant>,
}

/// A URL's key and the account: a server may return another file to each account.
type Asked = (Arc<str>, u64);

/// What is known of one URL, if anything; the lock lets one thread at a time request it.
type Acquaintance = Arc<Mutex<Option<Arc<Known>>>>;

struct Node {
    process: u32,
    net: Result<Net, String>,
    next: OnceBox<Node>,
}

/// The state of the first process, followed by those of its forked descendants.
///
/// No thread waits here for another one: a thread that creates a state while another one forks does not exist
/// in the child to finish it.
static FIRST: OnceBox<Node> = OnceBox::new();

/// The state of this process.
///
/// # Errors
/// `Argument` where threads or the client cannot be created, or the budget is not a number.
pub(super) fn net() -> Result<&'static Net> {
    let process = std::process::id();
    let mut place = &FIRST;
    loop {
        match place.get() {
            Some(node) if node.process == process => {
                return node.net.as_ref().map_err(|reason| Error::Argument(reason.clone()));
            }
            Some(node) => place = &node.next,
            // Another thread may do the same; only one of the states is used.
            None => {
                if let Err(spare) = place.set(Box::new(Node::new())) {
                    spare.give_up();
                }
            }
        }
    }
}

impl Node {
    fn new() -> Self {
        Self { process: std::process::id(), net: Net::new(), next: OnceBox::new() }
    }

    /// Shuts down an unused state, without waiting.
    fn give_up(self) {
        if let Ok(net) = self.net {
            net.runtime.shutdown_background();
        }
    }
}

impl Net {
    fn new() -> Result<Self, String> {
        let budget = match std::env::var(CACHE_VARIABLE) {
            Ok(text) => parse_bytes(&text).ok_or_else(|| {
                format!("{CACHE_VARIABLE} is {text:?}; give a number of bytes, or one with KiB, MiB or GiB")
            })?,
            Err(_) => CACHE_BYTES,
        };
        let number = AtomicU64::new(0);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name_fn(move || format!("fsp-net-{}", number.fetch_add(1, Relaxed)))
            .enable_all()
            .build()
            .map_err(|error| {
                format!("threads for reading by URL cannot be started: {error}; raise the process limit")
            })?;
        Ok(Self {
            runtime,
            client: client()?,
            cache: Cache::new(budget),
            slots: Mutex::default(),
            known: Mutex::default(),
            ids: AtomicU64::new(0),
        })
    }

    /// The entry of a URL, which one thread at a time fills.
    pub fn known(&self, named: &Named) -> Acquaintance {
        let asked = (named.key.clone(), named.account);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_KNOWN && !known.contains_key(&asked) {
            known.clear();
        }
        known.entry(asked).or_default().clone()
    }

    /// Forgets a URL: the next open asks the server.
    pub fn forget(&self, named: &Named) {
        let asked = (named.key.clone(), named.account);
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&asked);
    }

    /// The semaphore that limits concurrent requests to a host.
    pub fn slots(&self, host: &Arc<str>) -> Arc<Semaphore> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= MAX_HOSTS {
            slots.retain(|_, slots| Arc::strong_count(slots) > 1);
        }
        slots.entry(host.clone()).or_insert_with(|| Arc::new(Semaphore::new(REQUESTS))).clone()
    }

    /// A new number for a file.
    pub fn next_id(&self) -> u64 {
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
        for (text, bytes) in
            [("0", 0), ("4096", 4096), ("64MiB", 64 << 20), (" 1 GiB ", 1 << 30), ("8k", 8192)]
        {
            assert_eq!(parse_bytes(text), Some(bytes), "{text}");
        }
        for text in ["", "MiB", "1.5GiB", "-1", "10 parsecs", "99999999999999GiB"] {
            assert_eq!(parse_bytes(text), None, "{text}");
        }
    }
}
