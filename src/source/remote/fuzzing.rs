//! Exposes URL parsing and response handling to tests/fuzz, one request at a time and without
//! retries. Public for that crate only, and not part of the stable interface.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::backend::RemoteObject;
use super::client::remote_client;
use super::http_service::RequestTraffic;
use super::parsed_url::ParsedUrl;
use super::ranged_get::{RangeRequest, Version};
use crate::error::Result;
use crate::source::interrupt::TrafficCounters;

static TRAFFIC: TrafficCounters = TrafficCounters::new();

/// Name of a URL in messages, its key on disk, and the server that is asked.
///
/// # Errors
/// Those of opening it.
pub fn parse_url(url: &str) -> Result<[Arc<str>; 3]> {
    let parsed_url = ParsedUrl::parse(url)?;
    Ok([parsed_url.name, parsed_url.key, parsed_url.host])
}

/// Creates the store of a URL without a request, as opening it does before the first request.
///
/// # Errors
/// Those of opening it.
pub fn open_object(url: &str) -> Result<()> {
    RemoteObject::open(&remote_client()?.http, &ParsedUrl::parse(url)?).map(drop)
}

/// A version of a file: its length and its tag.
pub(crate) type VersionTuple = (u64, Arc<str>);

/// The received bytes with the file's version; `None` for "not modified"; or the error message, and
/// whether the request would be repeated.
pub(crate) type RequestOutcome =
    std::result::Result<Option<(Vec<u8>, VersionTuple)>, (String, bool)>;

/// Requests a range of a file once. `known` is the version that it must have, `if_none_match` a
/// version of which no bytes are needed.
///
/// # Errors
/// Those of parsing the URL and creating its store.
pub fn request_once(
    url: &str,
    range: Range<u64>,
    known: Option<VersionTuple>,
    if_none_match: Option<VersionTuple>,
) -> Result<RequestOutcome> {
    let client = remote_client()?;
    let parsed_url = Arc::new(ParsedUrl::parse(url)?);
    let object = RemoteObject::open(&client.http, &parsed_url)?;
    let version = |state: Option<VersionTuple>| state.map(|(len, tag)| Version { len, tag });
    let (version, if_none_match) = (version(known), version(if_none_match));
    let request = RangeRequest {
        parsed_url,
        object,
        range,
        version,
        if_none_match,
        traffic: RequestTraffic(&TRAFFIC, None),
        outage_timeout: Duration::ZERO,
    };
    let outcome = client.runtime.block_on(request.send_once());
    Ok(outcome.map(|outcome| {
        outcome.map(|(bytes, version)| (bytes.to_vec(), (version.len, version.tag)))
    }))
}
