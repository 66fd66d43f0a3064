//! Fetches a range of bytes of one version of a remote file, with retries and time limits.
//! Returns exactly these bytes or an error; never mixes versions, and puts no secrets into errors.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use object_store::{GetOptions, GetRange, ObjectStore};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::address::{Address, Named};
use super::store::{root_cause, Seen, Store, Tallies};
use crate::error::{Error, Place, Result, Site};
use crate::source::caller::RemoteCounts;

/// Attempts for one range without progress, including the first one.
const ATTEMPTS: u32 = 5;
/// Time without progress after which no further attempt is made; waiting for a request slot does not count.
const TOTAL: Duration = Duration::from_secs(30);
/// Time limit for the first byte of a response, and between its parts.
const SILENCE: Duration = Duration::from_secs(10);
/// Number of bytes that count as progress and reset attempts and time. With fewer, a server that sends very
/// slowly could prolong a fetch without end.
const PROGRESS: usize = 64 << 10;
/// Time limit of an attempt, plus one second per `SLOWEST` bytes of the response.
const ATTEMPT: Duration = Duration::from_secs(30);
const SLOWEST: u64 = 64 << 10;
/// Pause before the second attempt; doubled for each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// A version of a file, as its server reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    /// Length in bytes.
    pub len: u64,
    /// ETag, or the time of the last modification; empty if the server sends neither.
    pub tag: Arc<str>,
}

/// A request for a range of bytes.
pub(super) struct Ask {
    pub named: Arc<Named>,
    pub store: Store,
    pub range: Range<u64>,
    /// The version that the bytes must have; `None` where it is not known yet, and the file may be shorter
    /// than the range.
    pub version: Option<Version>,
    /// If the file still has this version, `Unchanged` is returned instead of bytes.
    pub unless: Option<Version>,
    pub tallies: Tallies,
}

/// A successful response.
pub(super) enum Answer {
    /// The bytes, and the file's version.
    Came(Bytes, Version),
    /// The file still has the version of `unless`.
    Unchanged,
}

/// Why an attempt failed.
enum Fault {
    /// Another attempt may succeed, after at least this time.
    Passing(String, Duration),
    Lasting(Error),
}

impl Ask {
    /// Repeats the request until the bytes are complete, or another attempt is pointless.
    pub async fn answer(&self, slots: &Semaphore) -> Result<Answer> {
        let mut state = State { got: BytesMut::new(), version: self.version.clone(), last: None };
        let (mut pause, mut attempt, mut spent, mut held) = (FIRST_PAUSE, 0, Duration::ZERO, 0);
        loop {
            // The semaphore is never closed.
            let slot = slots.acquire().await;
            let begun = Instant::now();
            let tried = self.attempt(&mut state).await;
            drop(slot);
            (attempt, spent) = (attempt + 1, spent + begun.elapsed());
            if state.got.len() >= held + PROGRESS {
                held = state.got.len();
                (pause, attempt) = (FIRST_PAUSE, 1);
                spent = state.last.map_or(Duration::ZERO, |last| last.elapsed());
            }
            let (reason, wait) = match tried {
                Ok(Some(version)) => return Ok(Answer::Came(state.got.freeze(), version)),
                Ok(None) => return Ok(Answer::Unchanged),
                Err(Fault::Lasting(error)) => return Err(error),
                Err(Fault::Passing(reason, wait)) => (reason, wait),
            };
            let wait = wait.min(LONGEST_PAUSE).max(jittered(pause));
            if attempt >= ATTEMPTS || spent + wait > TOTAL {
                let spent = spent.as_secs_f64();
                let times = if attempt == 1 { "once".into() } else { format!("{attempt} times") };
                return Err(self.failed(&format!(
                    "{reason}; asked {times} in {spent:.1} s; see whether the server can be reached and try again, or skip the file"
                )));
            }
            tokio::time::sleep(wait).await;
            spent += wait;
            self.tallies.add(RemoteCounts { retries: 1, ..RemoteCounts::default() });
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Makes one request without retries, for tests/fuzz: returns the response, or the error and whether it
    /// would be retried.
    pub async fn once(&self) -> Result<Option<(Bytes, Version)>, (String, bool)> {
        let mut state = State { got: BytesMut::new(), version: self.version.clone(), last: None };
        match self.attempt(&mut state).await {
            Ok(version) => Ok(version.map(|version| (state.got.freeze(), version))),
            Err(Fault::Passing(reason, _)) => Err((reason, true)),
            Err(Fault::Lasting(error)) => Err((error.to_string(), false)),
        }
    }

    /// Makes one request; the bytes received are kept in `state`, so that the next attempt does not request
    /// them again.
    async fn attempt(&self, state: &mut State) -> Result<Option<Version>, Fault> {
        let seen = Seen::new(&self.tallies);
        let start = self.range.start + state.got.len() as u64;
        let mut options =
            GetOptions { range: Some(GetRange::Bounded(start..self.range.end)), ..GetOptions::default() };
        options.extensions.insert(seen.clone());
        options.if_none_match = self.unless.as_ref().filter(|v| is_etag(&v.tag)).map(|v| v.tag.to_string());
        let asked = timeout(SILENCE, self.store.objects.get_opts(&self.store.path, options)).await;
        let silent = || Fault::Passing(format!("no answer within {} s", SILENCE.as_secs()), Duration::ZERO);
        let result = match asked.map_err(|_| silent())? {
            Ok(result) => result,
            Err(object_store::Error::NotModified { .. }) => return Ok(None),
            Err(error) => return self.refused(&seen, start, error),
        };
        let version = version_of(&result.meta);
        if i64::try_from(version.len).is_err() {
            let reason = format!(
                "the server says that the file has {} bytes, which none has; leave it out",
                version.len
            );
            return Err(Fault::Lasting(self.failed(&reason)));
        }
        if let Some(expected) = state.version.as_ref().filter(|expected| **expected != version) {
            return Err(Fault::Lasting(self.changed(expected, &version)));
        }
        state.version = Some(version.clone());
        let promised = result.range.end - result.range.start;
        let whole = state.got.len() as u64 + promised;
        // At most the requested length: the store checked it against the file's length.
        state.got.reserve(promised as usize);
        let mut parts = result.into_stream();
        let (begun, most) = (Instant::now(), ATTEMPT + Duration::from_secs(promised / SLOWEST));
        loop {
            let left = most.saturating_sub(begun.elapsed());
            let part = match timeout(SILENCE.min(left), parts.next()).await {
                Ok(Some(Ok(part))) => part,
                // Anything after the last byte is ignored, including an error.
                _ if state.got.len() as u64 == whole => break,
                Ok(Some(Err(error))) => {
                    return Err(Fault::Passing(
                        format!("the answer broke off ({})", self.named.scrub(&root_cause(&error))),
                        Duration::ZERO,
                    ))
                }
                Ok(None) => break,
                Err(_) if begun.elapsed() >= most => {
                    let reason = format!("the answer was not there after {} s", most.as_secs());
                    return Err(Fault::Passing(reason, Duration::ZERO));
                }
                Err(_) => {
                    let reason = format!("the answer stopped for {} s", SILENCE.as_secs());
                    return Err(Fault::Passing(reason, Duration::ZERO));
                }
            };
            self.tallies.add(RemoteCounts { bytes: part.len() as u64, ..RemoteCounts::default() });
            if state.got.len() + part.len() > whole as usize {
                return Err(Fault::Lasting(
                    self.failed("the server sends more bytes than it says; leave the file out"),
                ));
            }
            state.got.extend_from_slice(&part);
            state.last = Some(Instant::now());
        }
        match state.got.len() as u64 == whole {
            true => Ok(Some(version)),
            false => Err(Fault::Passing("the answer ended too early".into(), Duration::ZERO)),
        }
    }

    /// Interprets a response without bytes.
    fn refused(&self, seen: &Seen, start: u64, error: object_store::Error) -> Result<Option<Version>, Fault> {
        let lasting = |text: &str| Err(Fault::Lasting(self.failed(text)));
        let first = start == 0 && self.version.is_none();
        match (seen.status(), &error) {
            (Some(304), _) => Ok(None),
            // An empty file has no byte 0; servers answer with 416, or with 200 and no bytes.
            (Some(416), _) if first && !seen.has_bytes() => Ok(Some(Version { len: 0, tag: "".into() })),
            (Some(200), _) if first && seen.length() == 0 => Ok(Some(Version { len: 0, tag: "".into() })),
            (Some(416), _) if first => lasting(
                "the server has bytes of the file, and says that the first ones cannot be had: it cannot do ranges; use one that can, or download the file",
            ),
            (Some(416), _) => lasting("the file is shorter now than when it was opened; open it again"),
            (Some(404 | 410), _) | (_, object_store::Error::NotFound { .. }) => {
                Err(Fault::Lasting(Error::NotFound { site: self.site() }))
            }
            (Some(status @ (401 | 403)), _) => {
                lasting(&format!("refused with status {status}{}; {}", code_of(&error), self.credentials()))
            }
            (Some(status @ (301 | 307 | 400)), _) if seen.region().is_some() => lasting(&format!(
                "status {status}: the bucket is in region {0}; set AWS_REGION={0}",
                seen.region().unwrap_or_default()
            )),
            (Some(200), _) => lasting(
                "the server answers a request for a range with the whole file: it cannot do ranges; use one that can (nginx, Apache, S3), or download the file",
            ),
            (Some(206), _) => lasting(&format!(
                "the server answers with other bytes than those asked for ({}); use one that can do ranges, or download the file",
                self.named.scrub(&root_cause(&error))
            )),
            (Some(status @ (408 | 425 | 429 | 500..)), _) => {
                let reason = format!("status {status}{}", code_of(&error));
                Err(Fault::Passing(reason, seen.retry_after()))
            }
            (Some(status), _) => lasting(&format!("status {status}{}; check the URL", code_of(&error))),
            (None, _) => {
                let reason = format!("no answer ({})", self.named.scrub(&root_cause(&error)));
                Err(Fault::Passing(reason, Duration::ZERO))
            }
        }
    }

    fn credentials(&self) -> &'static str {
        match &self.named.address {
            Address::Bucket { .. } => {
                "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for temporary ones, AWS_SESSION_TOKEN (`aws configure export-credentials --format env` writes them), or AWS_EC2_METADATA_DISABLED=false for the role of the machine; without any, buckets are read as anybody may"
            }
            Address::Web { .. } => {
                "put name and password into the URL (https://name:password@host/…), or ask for a new one if it is signed: it may have expired"
            }
        }
    }

    fn changed(&self, was: &Version, is: &Version) -> Error {
        let tell = |v: &Version| match v.tag.is_empty() {
            true => format!("{} bytes", v.len),
            false => format!("{} bytes, {}", v.len, v.tag),
        };
        self.failed(&format!(
            "the file on the server was replaced after it was opened ({} then, {} now); open it again, and let files be while they are read",
            tell(was),
            tell(is)
        ))
    }

    fn site(&self) -> Site {
        Site::file(&self.named.name)
    }

    fn failed(&self, reason: &str) -> Error {
        let Range { start, end } = self.range;
        let reason = format!("bytes {start}..{end} could not be read: {reason}");
        Error::Io { site: self.site().with(Place::Whole), source: Arc::new(std::io::Error::other(reason)) }
    }
}

struct State {
    got: BytesMut,
    version: Option<Version>,
    /// When the last byte arrived.
    last: Option<Instant>,
}

fn version_of(meta: &object_store::ObjectMeta) -> Version {
    let modified = || match meta.last_modified.timestamp() {
        0 => String::new(),
        _ => format!("last modified {}", meta.last_modified.to_rfc3339()),
    };
    Version { len: meta.size, tag: meta.e_tag.clone().unwrap_or_else(modified).into() }
}

/// Whether a tag is an ETag, which a server accepts for comparison.
fn is_etag(tag: &str) -> bool {
    tag.ends_with('"')
}

/// The error code in S3's response, such as " (SlowDown)".
fn code_of(error: &object_store::Error) -> String {
    let text = std::iter::successors(Some(error as &dyn std::error::Error), |e| e.source())
        .map(ToString::to_string)
        .find(|text| text.contains("<Code>"))
        .unwrap_or_default();
    let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    let is_word =
        |code: &str| !code.is_empty() && code.len() < 64 && code.chars().all(|c| c.is_ascii_alphanumeric());
    code.filter(|(code, _)| is_word(code)).map_or_else(String::new, |(code, _)| format!(" ({code})"))
}

/// Half of the pause to all of it, so that requests that failed together are not repeated together.
fn jittered(pause: Duration) -> Duration {
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.subsec_nanos());
    pause.mul_f64(0.5 + f64::from(nanos / 1000 % 1000) / 2000.0)
}
