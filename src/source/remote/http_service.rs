//! The HTTP client with which object stores send their requests. It follows redirects, and records
//! the metadata of each response for the code that sent the request.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService,
};
use reqwest::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, HeaderMap, HeaderValue, RETRY_AFTER,
};

use super::redirect::{MAX_REDIRECTS, redirected};
use crate::source::interrupt::{RemoteStats, TrafficCounters};

/// Metadata of the response to one request; attached to the request.
#[derive(Clone, Debug, Default)]
pub(super) struct ResponseInfo(Arc<ResponseFields>);

#[derive(Debug, Default)]
struct ResponseFields {
    traffic: Option<RequestTraffic>,
    /// HTTP status; 0: no response.
    status: AtomicU16,
    /// Seconds to wait before the next request; 0: not sent.
    retry_after: AtomicU64,
    /// Length of the response; `u64::MAX`: not sent.
    length: AtomicU64,
    /// Whether a response without bytes states that the file has some: `Content-Range: bytes
    /// */1234`.
    has_bytes: AtomicBool,
    region: Mutex<Option<String>>,
}

/// Traffic counters of one fetch: those of the process, and those of the caller if there are any.
#[derive(Clone, Debug)]
pub(super) struct RequestTraffic(
    pub &'static TrafficCounters,
    pub Option<Arc<TrafficCounters>>,
);

impl RequestTraffic {
    pub(super) fn add(&self, more: RemoteStats) {
        self.0.add(more);
        if let Some(own) = &self.1 {
            own.add(more);
        }
    }
}

impl ResponseInfo {
    pub(super) fn new(traffic: &RequestTraffic) -> Self {
        Self(Arc::new(ResponseFields {
            traffic: Some(traffic.clone()),
            ..ResponseFields::default()
        }))
    }

    pub(super) fn status(&self) -> Option<u16> {
        Some(self.0.status.load(Relaxed)).filter(|&status| status > 0)
    }

    pub(crate) fn retry_after(&self) -> Duration {
        Duration::from_secs(self.0.retry_after.load(Relaxed))
    }

    pub(super) fn length(&self) -> u64 {
        self.0.length.load(Relaxed)
    }

    pub(crate) fn has_bytes(&self) -> bool {
        self.0.has_bytes.load(Relaxed)
    }

    /// Region of the bucket, if the response names it.
    pub(super) fn region(&self) -> Option<String> {
        self.0
            .region
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn record_request(&self) {
        if let Some(traffic) = &self.0.traffic {
            traffic.add(RemoteStats {
                requests: 1,
                ..RemoteStats::default()
            });
        }
    }

    fn record_response(&self, status: u16, headers: &HeaderMap) {
        let number = |name| {
            headers
                .get(name)
                .and_then(|v: &HeaderValue| v.to_str().ok()?.trim().parse::<u64>().ok())
        };
        self.0.status.store(status, Relaxed);
        self.0
            .retry_after
            .store(number(RETRY_AFTER).unwrap_or(0), Relaxed);
        self.0
            .length
            .store(number(CONTENT_LENGTH).unwrap_or(u64::MAX), Relaxed);
        let range = headers
            .get(CONTENT_RANGE)
            .and_then(|v| v.to_str().ok()?.rsplit_once('/'));
        self.0
            .has_bytes
            .store(range.is_some_and(|(_, len)| len.trim() != "0"), Relaxed);
        let region = headers
            .get("x-amz-bucket-region")
            .and_then(|v| v.to_str().ok());
        *self.0.region.lock().unwrap_or_else(PoisonError::into_inner) = region.map(str::to_owned);
    }
}

/// The shared client, with the authorization of one file.
#[derive(Clone, Debug)]
pub(super) struct Service {
    pub client: reqwest::Client,
    pub authorization: Option<HeaderValue>,
    /// Set when a response refuses the credentials.
    pub is_rejected: Arc<AtomicBool>,
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        // Requests for credentials carry no `ResponseInfo`.
        let response_info = request.extensions().get::<ResponseInfo>().cloned();
        if let Some(value) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, value.clone());
        }
        if let Some(response_info) = &response_info {
            response_info.record_request();
        }
        let mut redirects_left = MAX_REDIRECTS;
        let response = loop {
            // Only requests without a body, which excludes those for credentials, are redirected.
            let may_redirect = redirects_left > 0 && request.method().is_safe();
            let copy = may_redirect.then(|| request.clone());
            let mut response = HttpService::call(&self.client, request).await?;
            if response.status().as_u16() == 206 && !response.headers().contains_key(CONTENT_LENGTH)
            {
                // In chunked encoding a response states only its range; the received bytes are
                // compared with it.
                let length = range_length(response.headers()).unwrap_or(0);
                response.headers_mut().insert(CONTENT_LENGTH, length.into());
            }
            match copy.and_then(|copy| redirected(copy, &response)) {
                Some(next) => (request, redirects_left) = (next, redirects_left - 1),
                None => break response,
            }
        };
        // S3 reports an expired token with 400.
        if matches!(response.status().as_u16(), 400 | 401 | 403) {
            self.is_rejected.store(true, Relaxed);
        }
        if let Some(response_info) = &response_info {
            response_info.record_response(response.status().as_u16(), response.headers());
        }
        Ok(response)
    }
}

/// Number of bytes that a `Content-Range` header announces, as in `bytes 0-99/1234`.
fn range_length(headers: &HeaderMap) -> Option<u64> {
    let range = headers
        .get(CONTENT_RANGE)?
        .to_str()
        .ok()?
        .trim()
        .strip_prefix("bytes ")?;
    let (first, last) = range.split_once('/')?.0.split_once('-')?;
    last.parse::<u64>()
        .ok()?
        .checked_sub(first.parse().ok()?)?
        .checked_add(1)
}

/// Gives the stores of object_store the shared client.
#[derive(Debug)]
pub(super) struct Connector(pub Service);

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.0.clone()))
    }
}

/// Innermost cause of an error: the outer ones repeat URLs.
pub(super) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
