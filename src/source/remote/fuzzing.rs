//! In: URLs, and what a server answers. Out: what this module makes of them, one request at a time, for tests/fuzz.
//! Public for that crate only, and no part of what this library promises.
//! Never: asks twice: the pauses between attempts are not what is looked at.

use std::ops::Range;
use std::sync::Arc;

use super::address::Named;
use super::fetch::{Ask, Version};
use super::net::net;
use super::store::{Store, Tallies};
use crate::error::Result;
use crate::source::caller::Tally;

static TALLY: Tally = Tally::new();

/// What a URL is called in messages and on disk, and who is asked.
///
/// # Errors
/// Those of opening it.
pub fn named(url: &str) -> Result<[Arc<str>; 3]> {
    let named = Named::parse(url)?;
    Ok([named.name, named.key, named.host])
}

/// Where a URL leads, without a request; the same as opening it, up to the first one.
///
/// # Errors
/// Those of opening it.
pub fn store(url: &str) -> Result<()> {
    Store::open(&net()?.client, &Named::parse(url)?.address).map(drop)
}

/// A state of a file: its length and its tag.
pub type State = (u64, Arc<str>);

/// The bytes that came, with the file's state; `None` for "as it was"; or why not, and whether it would be asked again.
pub type Came = std::result::Result<Option<(Vec<u8>, State)>, (String, bool)>;

/// Asks for a range of a file once. `known` is the state that it must have, `unless` one of which nothing is wanted.
///
/// # Errors
/// Where it cannot be asked at all.
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
