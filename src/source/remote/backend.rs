//! Creates object stores for range requests, all through one HTTP client. Sends no requests itself.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use object_store::http::HttpBuilder;
use object_store::path::Path as ObjectPath;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use super::address::{Address, Cloud};
use super::environment::settings_hash;
use super::http_service::{Connector, Service, root_cause};
use super::parsed_url::ParsedUrl;
use crate::error::{Error, Result, Site};

/// Time limit for a connection to be established.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the store of a bucket is reused, with the credentials that it obtained.
const STORE_TTL: Duration = Duration::from_secs(300);
/// Maximum number of stores that are kept.
const MAX_STORES: usize = 1 << 10;
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
    pub(super) fn new() -> Result<Self, String> {
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
    pub(super) fn open(http: &HttpStores, parsed_url: &ParsedUrl) -> Result<Self> {
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
