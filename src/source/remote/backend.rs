//! Creates object stores for range requests, all through one client that records response metadata.
//! Neither repeats requests nor interprets responses.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService,
};
use object_store::http::HttpBuilder;
use object_store::path::Path as ObjectPath;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use reqwest::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, HeaderMap, HeaderValue, RETRY_AFTER,
};
use xxhash_rust::xxh3::Xxh3;

use super::bucket::Cloud;
use super::parsed_url::{Address, ParsedUrl};
use super::redirect::{MAX_REDIRECTS, redirected};
use crate::error::{Error, Result, Site};
use crate::source::interrupt::{RemoteStats, TrafficCounters};

/// Time limit for a connection to be established.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the store of a bucket is reused, with the credentials that it obtained.
const STORE_TTL: Duration = Duration::from_secs(300);
/// Maximum number of stores that are kept.
const MAX_STORES: usize = 1 << 10;
/// Prefixes of the environment variables that a store depends on.
const SETTINGS: [&str; 8] = [
    "AWS_",
    "AZURE_",
    "AZURITE_",
    "GOOGLE_",
    "HOME",
    "IDENTITY_",
    "MSI_",
    "SERVICE_ACCOUNT",
];

/// The object store and path of one file.
#[derive(Clone, Debug)]
pub(super) struct RemoteObject {
    pub store: Arc<dyn ObjectStore>,
    pub path: ObjectPath,
}

/// The HTTP client that all files share, with its connections, and the stores of buckets.
pub(super) struct HttpStores {
    client: reqwest::Client,
    stores: Mutex<HashMap<StoreKey, CachedStore>>,
}

/// A bucket, and a hash of the settings in the environment.
type StoreKey = (Cloud, String, u64);

/// The store of a bucket: files share it, so that not each one requests a token.
struct CachedStore {
    store: Arc<dyn ObjectStore>,
    created_at: Instant,
    is_rejected: Arc<AtomicBool>,
}

impl HttpStores {
    /// # Errors
    /// The reason if the client cannot be created.
    pub fn new() -> Result<Self, String> {
        // One provider of cryptography per process; a second call fails because the same one is
        // already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(Duration::from_secs(30))
            // With HTTP/2 all ranges of a server would share one connection and its flow control
            // window.
            .http1_only()
            // `Service` follows redirects.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("framespool/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| {
                format!("the HTTP client cannot be created: {}", root_cause(&error))
            })?;
        Ok(Self {
            client,
            stores: Mutex::default(),
        })
    }

    /// The store of a bucket. A new one is created if the settings differ, or the service refused
    /// its credentials.
    fn bucket(&self, cloud: Cloud, bucket: &str) -> Result<Arc<dyn ObjectStore>, String> {
        let key = (cloud, bucket.to_owned(), settings_hash());
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.retain(|_, cached| {
            cached.created_at.elapsed() < STORE_TTL && !cached.is_rejected.load(Relaxed)
        });
        if let Some(cached) = stores.get(&key) {
            return Ok(cached.store.clone());
        }
        let is_rejected = Arc::new(AtomicBool::new(false));
        let service = Service {
            client: self.client.clone(),
            authorization: None,
            is_rejected: is_rejected.clone(),
        };
        let store = cloud.open(bucket, Connector(service), no_retries())?;
        if stores.len() >= MAX_STORES {
            stores.clear();
        }
        stores.insert(
            key,
            CachedStore {
                store: store.clone(),
                created_at: Instant::now(),
                is_rejected,
            },
        );
        Ok(store)
    }
}

/// A hash of the environment variables on which stores depend.
fn settings_hash() -> u64 {
    let mut hash = Xxh3::new();
    for (name, value) in std::env::vars_os() {
        let name = name.as_encoded_bytes();
        if SETTINGS
            .iter()
            .any(|prefix| name.starts_with(prefix.as_bytes()))
        {
            for part in [name, value.as_encoded_bytes()] {
                hash.update(&part.len().to_le_bytes());
                hash.update(part);
            }
        }
    }
    hash.digest()
}

/// `ranged_get` repeats requests.
fn no_retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: 0,
        retry_timeout: Duration::from_secs(60),
    }
}

impl RemoteObject {
    /// Opens the store of a URL, without a request.
    ///
    /// # Errors
    /// `Argument` where the settings for its service are invalid, `Unsupported` for keys that would
    /// be changed.
    pub fn open(http: &HttpStores, parsed_url: &ParsedUrl) -> Result<Self> {
        match &parsed_url.address {
            Address::Web { url, authorization } => {
                let connector = Connector(Service {
                    client: http.client.clone(),
                    authorization: authorization.clone(),
                    is_rejected: Arc::default(),
                });
                let store = HttpBuilder::new()
                    .with_url(url.as_str())
                    .with_client_options(ClientOptions::new().with_allow_http(true))
                    .with_http_connector(connector)
                    .with_retry(no_retries())
                    .build();
                let store = store.map_err(|error| Error::Argument(root_cause(&error)))?;
                // The store's base is the whole URL, so that it is requested exactly as written.
                Ok(Self {
                    store: Arc::new(store),
                    path: ObjectPath::default(),
                })
            }
            Address::Bucket { cloud, bucket, key } => {
                let name = &parsed_url.name;
                // A key that `ObjectPath` normalizes would name another object.
                let path = ObjectPath::parse(key).ok().filter(|path| path.as_ref() == key).ok_or_else(|| {
                    let what = "a key with an empty part (`//`, a slash at an end), `.` or `..`, or a control character; copy the object to another key";
                    Error::Unsupported { site: Site::file(name), what: what.into() }
                })?;
                let store = http.bucket(*cloud, bucket);
                let store = store.map_err(|reason| Error::Argument(format!("{name}: {reason}")))?;
                Ok(Self { store, path })
            }
        }
    }
}

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
    pub fn add(&self, more: RemoteStats) {
        self.0.add(more);
        if let Some(own) = &self.1 {
            own.add(more);
        }
    }
}

impl ResponseInfo {
    pub fn new(traffic: &RequestTraffic) -> Self {
        Self(Arc::new(ResponseFields {
            traffic: Some(traffic.clone()),
            ..ResponseFields::default()
        }))
    }

    pub fn status(&self) -> Option<u16> {
        Some(self.0.status.load(Relaxed)).filter(|&status| status > 0)
    }

    pub fn retry_after(&self) -> Duration {
        Duration::from_secs(self.0.retry_after.load(Relaxed))
    }

    pub fn length(&self) -> u64 {
        self.0.length.load(Relaxed)
    }

    pub fn has_bytes(&self) -> bool {
        self.0.has_bytes.load(Relaxed)
    }

    /// Region of the bucket, if the response names it.
    pub fn region(&self) -> Option<String> {
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
struct Service {
    client: reqwest::Client,
    authorization: Option<HeaderValue>,
    /// Set when a response refuses the credentials.
    is_rejected: Arc<AtomicBool>,
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
pub(super) struct Connector(Service);

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
