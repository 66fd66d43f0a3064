//! Exposes URL parsing and response handling to tests/fuzz, one request at a time and without retries.
//! Public for that crate only, and not part of the stable interface.

use std::ops::Range;
use std::sync::Arc;

use super::address::Named;
use super::fetch::{Ask, Version};
use super::net::net;
use super::store::{Store, Tallies};
use crate::error::Result;
use crate::source::caller::Tally;

static TALLY: Tally = Tally::new();

/// Name of a URL in messages, its key on disk, and the server that is asked.
///
/// # Errors
/// Those of opening it.
pub fn named(url: &str) -> Result<[Arc<str>; 3]> {
    let named = Named::parse(url)?;
    Ok([named.name, named.key, named.host])
}

/// Creates the store of a URL without a request, as opening it does before the first request.
///
/// # Errors
/// Those of opening it.
pub fn store(url: &str) -> Result<()> {
    Store::open(&net()?.client, &Named::parse(url)?.address).map(drop)
}

/// A version of a file: its length and its tag.
pub type State = (u64, Arc<str>);

/// The received bytes with the file's version; `None` for "not modified"; or the error message, and whether
/// the request would be repeated.
pub type Came = std::result::Result<Option<(Vec<u8>, State)>, (String, bool)>;

/// Requests a range of a file once. `known` is the version that it must have, `unless` a version of which no
/// bytes are needed.
///
/// # Errors
/// Those of parsing the URL and creating its store.
pub fn ask(url: &str, range: Range<u64>, known: Option<State>, unless: Option<State>) -> Result<Came> {
    let net = net()?;
    let named = Arc::new(Named::parse(url)?);
    let store = Store::open(&net.client, &named.address)?;
    let version = |state: Option<State>| state.map(|(len, tag)| Version { len, tag });
    let (version, unless) = (version(known), version(unless));
    let ask = Ask { named, store, range, version, unless, tallies: Tallies(&TALLY, None) };
    let came = net.runtime.block_on(ask.once());
    Ok(came.map(|came| came.map(|(bytes, version)| (bytes.to_vec(), (version.len, version.tag)))))
}
