//! Fetches a range of bytes of one version of a remote file, with retries and time limits.
//! Returns exactly these bytes or an error; never mixes versions, and puts no secrets into errors.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use object_store::{GetOptions, GetRange, ObjectStore};
use tokio::time::timeout;

use super::address::Address;
use super::backend::RemoteObject;
use super::host::{Admission, Host, pause};
use super::http_service::{RequestTraffic, ResponseInfo, root_cause};
use super::parsed_url::ParsedUrl;
use crate::error::{Error, Location, Result, Site};
use crate::source::interrupt::RemoteStats;

/// Attempts for one range without progress, including the first one.
const MAX_ATTEMPTS: u32 = 5;
/// Time without progress after which no further attempt is made; waiting for a request slot does
/// not count.
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for the first byte of a response, and between its parts.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of bytes that count as progress and reset attempts and time. With fewer, a server that
/// sends very slowly could prolong a fetch without end.
const MIN_PROGRESS_BYTES: usize = 64 << 10;
/// Time limit of an attempt, plus one second per `MIN_BYTES_PER_SECOND` bytes of the response.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);
const MIN_BYTES_PER_SECOND: u64 = 64 << 10;
/// How long an outage of a server is waited for, unless the caller or the environment says
/// otherwise.
const OUTAGE_TIMEOUT: Duration = Duration::from_secs(120);
/// Environment variable that sets it, in seconds.
const OUTAGE_TIMEOUT_VARIABLE: &str = "FRAMESPOOL_REMOTE_TIMEOUT";

/// A version of a file, as its server reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    /// Length in bytes.
    pub len: u64,
    /// ETag, or the time of the last modification; empty if the server sends neither.
    pub tag: Arc<str>,
}

/// A request for a range of bytes.
pub(super) struct RangeRequest {
    pub parsed_url: Arc<ParsedUrl>,
    pub object: RemoteObject,
    pub range: Range<u64>,
    /// The version that the bytes must have; `None` where it is not known yet, and the file may be
    /// shorter than the range.
    pub version: Option<Version>,
    /// If the file still has this version, `NotModified` is returned instead of bytes.
    pub if_none_match: Option<Version>,
    pub traffic: RequestTraffic,
    /// How long an outage of the server is waited for.
    pub outage_timeout: Duration,
}

/// A successful response.
pub(super) enum RangeResponse {
    /// The bytes, and the file's version.
    Received(Bytes, Version),
    /// The file still has the version of `if_none_match`.
    NotModified,
}

/// Why an attempt failed.
enum AttemptError {
    /// Another attempt may succeed.
    Transient(TransientError),
    Permanent(Error),
}

struct TransientError {
    reason: String,
    /// Minimum pause before the next attempt.
    retry_after: Duration,
    /// Whether the server may be available, and only fail for this file.
    may_concern_file: bool,
}

impl AttemptError {
    /// An incomplete response.
    fn incomplete(reason: impl Into<String>) -> Self {
        let (reason, retry_after) = (reason.into(), Duration::ZERO);
        Self::Transient(TransientError {
            reason,
            retry_after,
            may_concern_file: true,
        })
    }
}

/// How long an outage is waited for, from the environment.
///
/// # Errors
/// `Argument` if the variable is not a number of seconds.
pub(super) fn outage_timeout_from_env() -> Result<Duration> {
    match std::env::var(OUTAGE_TIMEOUT_VARIABLE) {
        Ok(text) => text.trim().parse().ok().and_then(|secs| Duration::try_from_secs_f64(secs).ok()).ok_or_else(|| {
            Error::Argument(format!(
                "{OUTAGE_TIMEOUT_VARIABLE} is {text:?}; give the number of seconds for which an outage of a server is waited for"
            ))
        }),
        Err(_) => Ok(OUTAGE_TIMEOUT),
    }
}

impl RangeRequest {
    /// Repeats the request until the bytes are complete, the file is at fault, or an outage of the
    /// server has lasted too long.
    pub(crate) async fn send_with_retries(&self, host: &Host) -> Result<RangeResponse> {
        let mut progress = RangeProgress {
            received: BytesMut::new(),
            version: self.version.clone(),
            last_byte_at: None,
        };
        let (mut held, mut sent) = (0, 0u32);
        let mut tries = Tries::new(host);
        loop {
            let probe = match host.admit(self.outage_timeout).await {
                Admission::Send => None,
                Admission::Probe(permit) => Some(permit),
                Admission::TimedOut(lasted, reason) => {
                    return Err(self.unavailable(host, lasted, &reason));
                }
            };
            let permit = host.permit().await;
            if probe.is_none() && host.is_unavailable() {
                continue; // since this request was admitted
            }
            if sent > 0 {
                self.traffic.add(RemoteStats {
                    retries: 1,
                    ..RemoteStats::default()
                });
            }
            sent += 1;
            let begun = Instant::now();
            let outcome = self.attempt(&mut progress).await;
            drop(permit);
            let failure = match outcome {
                Ok(version) => {
                    host.record_answer(Some(&self.object));
                    return Ok(version.map_or(RangeResponse::NotModified, |version| {
                        RangeResponse::Received(progress.received.freeze(), version)
                    }));
                }
                Err(AttemptError::Permanent(error)) => {
                    host.record_answer(None);
                    return Err(error);
                }
                Err(AttemptError::Transient(failure)) => failure,
            };
            if progress.received.len() >= held + MIN_PROGRESS_BYTES {
                held = progress.received.len();
                tries = Tries {
                    began: progress.last_byte_at.unwrap_or(begun),
                    ..Tries::new(host)
                };
            }
            if probe.is_some() {
                host.record_failed_probe(&failure.reason, failure.retry_after);
                continue;
            }
            tries.attempts += 1;
            tries.spent += begun.elapsed();
            let wait = pause(tries.attempts - 1, failure.retry_after);
            if tries.attempts >= MAX_ATTEMPTS || tries.spent + wait > RETRY_TIMEOUT {
                let answered = host.answers() > tries.answers_before;
                if failure.may_concern_file && (answered || self.answers_otherwise(host).await) {
                    return Err(self.failed(&failure.reason, &tries));
                }
                if !answered {
                    if host.record_outage(tries.began, &failure.reason, failure.retry_after) {
                        self.traffic.add(RemoteStats {
                            outages: 1,
                            ..RemoteStats::default()
                        });
                    }
                    continue;
                }
                // The server answers others: it limits the rate of requests, or one of several
                // machines is down.
                if tries.began.elapsed() > self.outage_timeout {
                    return Err(self.unavailable(host, tries.began.elapsed(), &failure.reason));
                }
            }
            tokio::time::sleep(wait).await;
            tries.spent += wait;
        }
    }

    /// Whether the server answers a request for one byte of the object that it sent last.
    async fn answers_otherwise(&self, host: &Host) -> bool {
        let Some(object) = host.last_object() else {
            return false;
        };
        let response = ResponseInfo::new(&self.traffic);
        let mut options = GetOptions {
            range: Some(GetRange::Bounded(0..1)),
            ..GetOptions::default()
        };
        options.extensions.insert(response.clone());
        let answered = timeout(READ_TIMEOUT, object.store.get_opts(&object.path, options)).await;
        // Any answer about the file will do, such as one that a signature has expired.
        answered.is_ok()
            && response
                .status()
                .is_some_and(|status| status < 500 && !is_overload(status))
    }

    /// Makes one request without retries, for tests/fuzz: returns the response, or the error and
    /// whether it would be retried.
    pub(crate) async fn send_once(&self) -> Result<Option<(Bytes, Version)>, (String, bool)> {
        let mut progress = RangeProgress {
            received: BytesMut::new(),
            version: self.version.clone(),
            last_byte_at: None,
        };
        match self.attempt(&mut progress).await {
            Ok(version) => Ok(version.map(|version| (progress.received.freeze(), version))),
            Err(AttemptError::Transient(failure)) => Err((failure.reason, true)),
            Err(AttemptError::Permanent(error)) => Err((error.to_string(), false)),
        }
    }

    /// Makes one request; the bytes received are kept in `progress`, so that the next attempt does
    /// not request them again.
    async fn attempt(&self, progress: &mut RangeProgress) -> Result<Option<Version>, AttemptError> {
        let response = ResponseInfo::new(&self.traffic);
        let start = self.range.start + progress.received.len() as u64;
        let mut options = GetOptions {
            range: Some(GetRange::Bounded(start..self.range.end)),
            ..GetOptions::default()
        };
        options.extensions.insert(response.clone());
        options.if_none_match = self
            .if_none_match
            .as_ref()
            .filter(|v| is_etag(&v.tag))
            .map(|v| v.tag.to_string());
        let asked = timeout(
            READ_TIMEOUT,
            self.object.store.get_opts(&self.object.path, options),
        )
        .await;
        let silent =
            || AttemptError::incomplete(format!("no response within {} s", READ_TIMEOUT.as_secs()));
        let result = match asked.map_err(|_| silent())? {
            Ok(result) => result,
            Err(object_store::Error::NotModified { .. }) => return Ok(None),
            Err(error) => return self.interpret_error(&response, start, error),
        };
        let version = version_of(&result.meta);
        if i64::try_from(version.len).is_err() {
            let reason = format!(
                "the server reports an impossible file size of {} bytes; leave the file out",
                version.len
            );
            return Err(AttemptError::Permanent(self.error_of(&reason)));
        }
        if let Some(expected) = progress
            .version
            .as_ref()
            .filter(|expected| **expected != version)
        {
            return Err(AttemptError::Permanent(
                self.version_changed(expected, &version),
            ));
        }
        progress.version = Some(version.clone());
        let promised = result.range.end - result.range.start;
        let whole = progress.received.len() as u64 + promised;
        // At most the requested length: the store checked it against the file's length.
        progress.received.reserve(promised as usize);
        let mut parts = result.into_stream();
        let (begun, time_limit) = (
            Instant::now(),
            ATTEMPT_TIMEOUT + Duration::from_secs(promised / MIN_BYTES_PER_SECOND),
        );
        loop {
            let left = time_limit.saturating_sub(begun.elapsed());
            let part = match timeout(READ_TIMEOUT.min(left), parts.next()).await {
                Ok(Some(Ok(part))) => part,
                // Anything after the last byte is ignored, including an error.
                _ if progress.received.len() as u64 == whole => break,
                Ok(Some(Err(error))) => {
                    let cause = self.parsed_url.scrub(&root_cause(&error));
                    return Err(AttemptError::incomplete(format!(
                        "the response broke off ({cause})"
                    )));
                }
                Ok(None) => break,
                Err(_) if begun.elapsed() >= time_limit => {
                    let reason = format!(
                        "the response did not arrive within {} s",
                        time_limit.as_secs()
                    );
                    return Err(AttemptError::incomplete(reason));
                }
                Err(_) => {
                    let reason = format!("the response stalled for {} s", READ_TIMEOUT.as_secs());
                    return Err(AttemptError::incomplete(reason));
                }
            };
            self.traffic.add(RemoteStats {
                bytes: part.len() as u64,
                ..RemoteStats::default()
            });
            if progress.received.len() + part.len() > whole as usize {
                return Err(AttemptError::Permanent(self.error_of(
                    "the server sends more bytes than it announces; leave the file out",
                )));
            }
            progress.received.extend_from_slice(&part);
            progress.last_byte_at = Some(Instant::now());
        }
        match progress.received.len() as u64 == whole {
            true => Ok(Some(version)),
            false => Err(AttemptError::incomplete("the response ended too early")),
        }
    }

    /// Interprets a response without bytes.
    fn interpret_error(
        &self,
        response: &ResponseInfo,
        start: u64,
        error: object_store::Error,
    ) -> Result<Option<Version>, AttemptError> {
        let lasting = |text: &str| Err(AttemptError::Permanent(self.error_of(text)));
        let first = start == 0 && self.version.is_none();
        match (response.status(), &error) {
            (Some(304), _) => Ok(None),
            // An empty file has no byte 0; servers answer with 416, or with 200 and no bytes.
            (Some(416), _) if first && !response.has_bytes() => Ok(Some(Version {
                len: 0,
                tag: "".into(),
            })),
            (Some(200), _) if first && response.length() == 0 => Ok(Some(Version {
                len: 0,
                tag: "".into(),
            })),
            (Some(416), _) if first => lasting(
                "the server has the file but rejects a request for its first bytes: it does not support \
                 ranges; use one that does, or download the file",
            ),
            (Some(416), _) => lasting("the file is shorter than when it was opened; open it again"),
            (Some(404 | 410), _) | (_, object_store::Error::NotFound { .. }) => {
                Err(AttemptError::Permanent(Error::NotFound {
                    site: self.site(),
                }))
            }
            (None, object_store::Error::Unauthenticated { .. }) => lasting(&root_cause(&error)),
            (Some(status), _)
                if matches!(status, 401 | 403) || is_expired_token(status, &error) =>
            {
                lasting(&format!(
                    "refused with status {status}{}; {}",
                    s3_error_code(&error),
                    self.credentials_hint()
                ))
            }
            (Some(status @ (301 | 307 | 400)), _) if response.region().is_some() => {
                lasting(&format!(
                    "status {status}: the bucket is in region {0}; set AWS_REGION={0}",
                    response.region().unwrap_or_default()
                ))
            }
            (Some(status @ 300..=399), _) => lasting(&format!(
                "status {status}: the server redirects too often, or to no http:// or https:// URL; check the URL"
            )),
            (Some(200), _) => lasting(
                "the server answers a range request with the entire file: it does not support ranges; use \
                 one that does (nginx, Apache, S3), or download the file",
            ),
            (Some(206), _) => lasting(&format!(
                "the server returns a different range than requested ({}); use one that supports ranges, or \
                 download the file",
                self.parsed_url.scrub(&root_cause(&error))
            )),
            (Some(status @ (408 | 425 | 429 | 500..)), _) => {
                Err(AttemptError::Transient(TransientError {
                    reason: format!("status {status}{}", s3_error_code(&error)),
                    retry_after: response.retry_after(),
                    may_concern_file: !is_overload(status),
                }))
            }
            (Some(status), _) => lasting(&format!(
                "status {status}{}; check the URL",
                s3_error_code(&error)
            )),
            (None, _) => {
                let reason = format!(
                    "no response ({})",
                    self.parsed_url.scrub(&root_cause(&error))
                );
                let retry_after = Duration::ZERO;
                Err(AttemptError::Transient(TransientError {
                    reason,
                    retry_after,
                    may_concern_file: false,
                }))
            }
        }
    }

    fn credentials_hint(&self) -> &'static str {
        match &self.parsed_url.address {
            Address::Bucket { cloud, .. } => cloud.credentials_hint(),
            Address::Web { .. } => {
                "put name and password into the URL (https://name:password@host/…), or request a new one if it is signed: it may have expired"
            }
        }
    }

    fn version_changed(&self, was: &Version, is: &Version) -> Error {
        let describe = |v: &Version| match v.tag.is_empty() {
            true => format!("{} bytes", v.len),
            false => format!("{} bytes, {}", v.len, v.tag),
        };
        self.error_of(&format!(
            "the file on the server was replaced after it was opened ({} then, {} now); open it again, and \
             do not change files while they are read",
            describe(was),
            describe(is)
        ))
    }

    fn site(&self) -> Site {
        Site::file(&self.parsed_url.name)
    }

    /// The file cannot be read, although the server is available.
    fn failed(&self, reason: &str, tries: &Tries) -> Error {
        let times = if tries.attempts == 1 {
            "once".into()
        } else {
            format!("{} times", tries.attempts)
        };
        self.error_of(&format!(
            "{reason}; requested {times} in {:.1} s, while the server answers other requests; try again, or skip the file",
            tries.spent.as_secs_f64()
        ))
    }

    fn unavailable(&self, host: &Host, lasted: Duration, reason: &str) -> Error {
        Error::Unavailable {
            site: self.site(),
            reason: format!(
                "{} has been unavailable for {:.1} s: {reason}",
                host.name(),
                lasted.as_secs_f64()
            ),
        }
    }

    fn error_of(&self, reason: &str) -> Error {
        let Range { start, end } = self.range;
        let reason = format!("bytes {start}..{end} could not be read: {reason}");
        Error::Io {
            site: self.site().with(Location::WholeFile),
            source: Arc::new(std::io::Error::other(reason)),
        }
    }
}

/// Attempts since the last progress.
struct Tries {
    attempts: u32,
    began: Instant,
    /// Time in attempts and pauses, without waiting for other requests.
    spent: Duration,
    /// Number of requests that the server had answered before.
    answers_before: u64,
}

impl Tries {
    fn new(host: &Host) -> Self {
        Self {
            attempts: 0,
            began: Instant::now(),
            spent: Duration::ZERO,
            answers_before: host.answers(),
        }
    }
}

struct RangeProgress {
    received: BytesMut,
    version: Option<Version>,
    /// When the last byte arrived.
    last_byte_at: Option<Instant>,
}

fn version_of(meta: &object_store::ObjectMeta) -> Version {
    let modified = || match meta.last_modified.timestamp() {
        0 => String::new(),
        _ => format!("last modified {}", meta.last_modified.to_rfc3339()),
    };
    Version {
        len: meta.size,
        tag: meta.e_tag.clone().unwrap_or_else(modified).into(),
    }
}

/// Whether a tag is an ETag, which a server accepts for comparison.
fn is_etag(tag: &str) -> bool {
    tag.ends_with('"')
}

/// Whether S3 refuses a token because it has expired, which it does not report as 403.
fn is_expired_token(status: u16, error: &object_store::Error) -> bool {
    status == 400 && s3_error_code(error) == " (ExpiredToken)"
}

/// The error code in S3's response, such as " (SlowDown)".
fn s3_error_code(error: &object_store::Error) -> String {
    let text = std::iter::successors(Some(error as &dyn std::error::Error), |e| e.source())
        .map(ToString::to_string)
        .find(|text| text.contains("<Code>"))
        .unwrap_or_default();
    let code = text
        .split_once("<Code>")
        .and_then(|(_, rest)| rest.split_once("</Code>"));
    let is_word = |code: &str| {
        !code.is_empty() && code.len() < 64 && code.chars().all(|c| c.is_ascii_alphanumeric())
    };
    code.filter(|(code, _)| is_word(code))
        .map_or_else(String::new, |(code, _)| format!(" ({code})"))
}

/// Whether a status says that the server, not the file, is the reason.
fn is_overload(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 502 | 503 | 504)
}
