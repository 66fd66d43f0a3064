//! In: a range of bytes of a file on a server.
//! Out: exactly these bytes, of the file as it was when it was opened, however often it takes to ask; or an error that says why not.
//! Never: waits without an end, hands out a mixture of two files, or says a secret aloud.

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

/// Requests for one range without progress, the first one included.
const ATTEMPTS: u32 = 5;
/// After so much time without progress no further attempt is made; waiting for a slot is not counted.
const TOTAL: Duration = Duration::from_secs(30);
/// Until the first byte of an answer, and between its parts.
const SILENCE: Duration = Duration::from_secs(10);
/// So many bytes are progress: attempts and time are counted anew. Fewer would let a server that trickles go on for ever.
const PROGRESS: usize = 64 << 10;
/// An attempt may last so long, and a second more for each so many bytes that were promised.
const ATTEMPT: Duration = Duration::from_secs(30);
const SLOWEST: u64 = 64 << 10;
/// Before the second attempt; doubled for each one after.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// A state of a file, as its server tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    /// Length in bytes.
    pub len: u64,
    /// ETag, else the time of the last change; empty if the server says neither.
    pub tag: Arc<str>,
}

/// What is asked for.
pub(super) struct Ask {
    pub named: Arc<Named>,
    pub store: Store,
    pub range: Range<u64>,
    /// The state that the bytes must be of; `None` where nothing is known yet, and the file may be shorter than the range.
    pub version: Option<Version>,
    /// Nothing but "it is still as it was" is wanted, if it is.
    pub unless: Option<Version>,
    pub tallies: Tallies,
}

/// What came.
pub(super) enum Answer {
    /// The bytes, and the file's state.
    Came(Bytes, Version),
    /// It is as it was.
    Unchanged,
}

/// Why an attempt came to nothing.
enum Fault {
    /// Another attempt may do better.
    Passing(String, Duration),
    Lasting(Error),
}

impl Ask {
    /// Asks until the bytes are there, or it is of no use.
    pub async fn answer(&self, slots: &Semaphore) -> Result<Answer> {
        let mut state = State { got: BytesMut::new(), version: self.version.clone(), last: None };
        let (mut pause, mut attempt, mut spent, mut held) = (FIRST_PAUSE, 0, Duration::ZERO, 0);
        loop {
            // Never closed.
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

    /// One request and no more, for tests/fuzz: what came, or why not and whether it would be asked again.
    pub async fn once(&self) -> Result<Option<(Bytes, Version)>, (String, bool)> {
        let mut state = State { got: BytesMut::new(), version: self.version.clone(), last: None };
        match self.attempt(&mut state).await {
            Ok(version) => Ok(version.map(|version| (state.got.freeze(), version))),
            Err(Fault::Passing(reason, _)) => Err((reason, true)),
            Err(Fault::Lasting(error)) => Err((error.to_string(), false)),
        }
    }

    /// One request; what it brings is kept in `state`, so that the next one need not ask for it again.
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
        // No more than was asked for is promised: the store checked it against the file's length.
        state.got.reserve(promised as usize);
        let mut parts = result.into_stream();
        let (begun, most) = (Instant::now(), ATTEMPT + Duration::from_secs(promised / SLOWEST));
        loop {
            let left = most.saturating_sub(begun.elapsed());
            let part = match timeout(SILENCE.min(left), parts.next()).await {
                Ok(Some(Ok(part))) => part,
                // What comes, or does not, behind the last byte is of no interest.
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

    /// What an answer without bytes means.
    fn refused(&self, seen: &Seen, start: u64, error: object_store::Error) -> Result<Option<Version>, Fault> {
        let lasting = |text: &str| Err(Fault::Lasting(self.failed(text)));
        let first = start == 0 && self.version.is_none();
        match (seen.status(), &error) {
            (Some(304), _) => Ok(None),
            // An empty file has no byte 0, which servers say in two ways.
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
    /// When the last byte came.
    last: Option<Instant>,
}

fn version_of(meta: &object_store::ObjectMeta) -> Version {
    let modified = || match meta.last_modified.timestamp() {
        0 => String::new(),
        _ => format!("last modified {}", meta.last_modified.to_rfc3339()),
    };
    Version { len: meta.size, tag: meta.e_tag.clone().unwrap_or_else(modified).into() }
}

/// Whether a tag is one that a server would know again.
fn is_etag(tag: &str) -> bool {
    tag.ends_with('"')
}

/// The code in S3's answer, such as " (SlowDown)".
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

/// Half of it to all of it, so that those who failed together do not ask again together.
fn jittered(pause: Duration) -> Duration {
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.subsec_nanos());
    pause.mul_f64(0.5 + f64::from(nanos / 1000 % 1000) / 2000.0)
}
