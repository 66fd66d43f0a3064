//! In: a process. Out: its one runtime, client, cache of blocks and list of known files; made when first needed, anew after a fork.
//! Threads of a runtime do not survive fork(), and its locks may be held by some of them: a child leaves its parent's alone.
//! Never: ends before the process does.

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

/// Requests at a time to one host, so that one that stalls does not hold up others: enough for some lanes with several pieces each, few enough to bound memory.
const REQUESTS: usize = 24;
/// Bytes of files that are kept, unless the environment says otherwise.
const CACHE_BYTES: u64 = 256 << 20;
/// The variable by which it does.
const CACHE_VARIABLE: &str = "FRAMESPOOL_REMOTE_CACHE";
/// Files that are remembered. Beyond, all are forgotten, which costs a request for each one that is met again.
const MOST_KNOWN: usize = 1 << 18;

/// Hosts beyond which those whom nobody asks are forgotten.
const MOST_HOSTS: usize = 1 << 10;

/// What a process has for reading by URL.
pub(super) struct Net {
    pub runtime: Runtime,
    pub client: reqwest::Client,
    pub cache: Cache,
    slots: Mutex<HashMap<Arc<str>, Arc<Semaphore>>>,
    known: Mutex<HashMap<Asked, Acquaintance>>,
    ids: AtomicU64,
}

/// A file that was asked for before.
pub(super) struct Known {
    /// Its number in the cache; another state of the file has another one.
    pub id: u64,
    pub version: Version,
    pub store: Store,
    /// When its server last said that it is so.
    pub seen: Mutex<Instant>,
}

/// A URL's key, and who asks: a server may show each of them another file.
type Asked = (Arc<str>, u64);

/// What is known of one URL, if anything is; one thread at a time finds out.
type Acquaintance = Arc<Mutex<Option<Arc<Known>>>>;

struct Node {
    process: u32,
    net: Result<Net, String>,
    next: OnceBox<Node>,
}

/// The net of the first process, and behind it those of children of children.
///
/// Nobody waits here for somebody else: a thread that is making one while another forks is not there in the child to finish it.
static FIRST: OnceBox<Node> = OnceBox::new();

/// This process's own.
///
/// # Errors
/// `Argument` where threads or the client cannot be had, or the budget is no number.
pub(super) fn net() -> Result<&'static Net> {
    let process = std::process::id();
    let mut place = &FIRST;
    loop {
        match place.get() {
            Some(node) if node.process == process => {
                return node.net.as_ref().map_err(|reason| Error::Argument(reason.clone()));
            }
            Some(node) => place = &node.next,
            // Another thread may be doing the same; one of them is used.
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

    /// Ends what nobody used, without waiting.
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
            .thread_name_fn(move || format!("spool-net-{}", number.fetch_add(1, Relaxed)))
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

    /// What is known of a URL: a place that one thread at a time fills.
    pub fn known(&self, named: &Named) -> Acquaintance {
        let asked = (named.key.clone(), named.account);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_KNOWN && !known.contains_key(&asked) {
            known.clear();
        }
        known.entry(asked).or_default().clone()
    }

    /// What was known of a URL is not so: the next who opens it asks.
    pub fn forget(&self, named: &Named) {
        let asked = (named.key.clone(), named.account);
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&asked);
    }

    /// Leave to ask a host, for so many at a time.
    pub fn slots(&self, host: &Arc<str>) -> Arc<Semaphore> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= MOST_HOSTS {
            slots.retain(|_, slots| Arc::strong_count(slots) > 1);
        }
        slots.entry(host.clone()).or_insert_with(|| Arc::new(Semaphore::new(REQUESTS))).clone()
    }

    /// A number for a file.
    pub fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Relaxed)
    }
}

/// `268435456`, `256MiB`, `1 GiB`.
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
