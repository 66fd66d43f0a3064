//! Tracks whether a server is available, for all requests of the process. While it is not, one
//! request at a time is repeated until the server answers, and all others wait.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use futures_util::future::{Either, select};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::{sleep_until, timeout_at};

use super::backend::RemoteObject;

/// Concurrent requests per host, so that one that stalls does not delay others: enough for several
/// workers with several pieces each, few enough to bound memory.
const MAX_REQUESTS_PER_HOST: usize = 24;
/// Maximum pause before the second attempt; doubled for each further one.
const INITIAL_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(4);
/// Longest pause that a server may request by `Retry-After`.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);
/// Interval between log messages about an outage that lasts.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// A server, as host and port or as a bucket.
pub(super) struct Host {
    name: Arc<str>,
    permits: Semaphore,
    /// Held by the request that is repeated during an outage.
    probe: Semaphore,
    /// Notified at the end of an outage.
    available: Notify,
    state: Mutex<HostState>,
}

#[derive(Default)]
struct HostState {
    /// Number of requests that the server has answered.
    answers: u64,
    /// The object whose bytes arrived last.
    last_object: Option<RemoteObject>,
    outage: Option<Outage>,
}

/// A time in which the server answers no request.
struct Outage {
    since: Instant,
    reason: String,
    failures: u32,
    next_attempt: Instant,
    logged_at: Instant,
}

/// Whether a request may be sent.
pub(super) enum Admission<'a> {
    /// The server is available.
    Send,
    /// It is not; this request finds out whether it is available again.
    Probe(SemaphorePermit<'a>),
    /// It has been unavailable for too long: for how long, and why.
    TimedOut(Duration, String),
}

impl Host {
    pub(super) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            permits: Semaphore::new(MAX_REQUESTS_PER_HOST),
            probe: Semaphore::new(1),
            available: Notify::new(),
            state: Mutex::default(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether requests must wait for the end of an outage.
    pub(crate) fn is_unavailable(&self) -> bool {
        self.state().outage.is_some()
    }

    /// Waits until fewer than the maximum number of requests are in flight.
    pub(super) async fn permit(&self) -> Option<SemaphorePermit<'_>> {
        self.permits.acquire().await.ok() // never closed
    }

    /// Number of requests answered so far: if it grows, the server is available.
    pub(super) fn answers(&self) -> u64 {
        self.state().answers
    }

    /// The object whose bytes arrived last, with which the server can be tested.
    pub(crate) fn last_object(&self) -> Option<RemoteObject> {
        self.state().last_object.clone()
    }

    /// Waits during an outage until it ends or this request may probe the server. After an outage
    /// of `timeout` requests fail, except for one attempt at a time.
    pub(crate) async fn admit(&self, timeout: Duration) -> Admission<'_> {
        loop {
            let mut available = pin!(self.available.notified());
            available.as_mut().enable(); // before the state is read, so that no notification is missed
            let now = Instant::now();
            let deadline = match &self.state().outage {
                None => return Admission::Send,
                Some(outage) => {
                    // A timeout beyond the range of the clock never ends: its deadline is always
                    // ahead.
                    let deadline = outage
                        .since
                        .checked_add(timeout)
                        .unwrap_or(now + timeout.min(LOG_INTERVAL));
                    if now >= deadline {
                        return match self.probe.try_acquire() {
                            Ok(permit) if now >= outage.next_attempt => Admission::Probe(permit),
                            _ => Admission::TimedOut(now - outage.since, outage.reason.clone()),
                        };
                    }
                    deadline
                }
            };
            let turn = pin!(self.probe_turn());
            let admitted = timeout_at(deadline.into(), select(available, turn)).await;
            if let Ok(Either::Right((Some(permit), _))) = admitted
                && self.is_unavailable()
            {
                return Admission::Probe(permit);
            }
        }
    }

    /// Waits until no other request probes the server, and for the pause after the last attempt.
    async fn probe_turn(&self) -> Option<SemaphorePermit<'_>> {
        let permit = self.probe.acquire().await.ok()?;
        let next_attempt = self
            .state()
            .outage
            .as_ref()
            .map(|outage| outage.next_attempt);
        if let Some(next_attempt) = next_attempt {
            sleep_until(next_attempt.into()).await;
        }
        Some(permit)
    }

    /// Records that the server answered a request; `object` if its bytes arrived. Ends an outage.
    pub(crate) fn record_answer(&self, object: Option<&RemoteObject>) {
        let ended = {
            let mut state = self.state();
            state.answers += 1;
            if let Some(object) = object {
                state.last_object = Some(object.clone());
            }
            state.outage.take()
        };
        if let Some(outage) = ended {
            self.available.notify_waiters();
            log::warn!(
                target: LOG_TARGET,
                "{} is available again after {:.1} s",
                self.name,
                outage.since.elapsed().as_secs_f64()
            );
        }
    }

    /// Records that requests have failed since `since`: the server is unavailable from then on.
    /// Returns whether the outage was not known before.
    pub(crate) fn record_outage(
        &self,
        since: Instant,
        reason: &str,
        retry_after: Duration,
    ) -> bool {
        let mut state = self.state();
        if state.outage.is_some() {
            return false;
        }
        let now = Instant::now();
        let next_attempt = now + pause(0, retry_after);
        state.outage = Some(Outage {
            since,
            reason: reason.to_owned(),
            failures: 0,
            next_attempt,
            logged_at: now,
        });
        drop(state);
        log::warn!(
            target: LOG_TARGET,
            "{} is unavailable ({reason}); requests to it wait, and one of them is repeated until it answers",
            self.name
        );
        true
    }

    /// Records that the server is still unavailable.
    pub(crate) fn record_failed_probe(&self, reason: &str, retry_after: Duration) {
        let mut state = self.state();
        let Some(outage) = &mut state.outage else {
            return;
        };
        let now = Instant::now();
        outage.failures += 1;
        outage.next_attempt = now + pause(outage.failures, retry_after);
        reason.clone_into(&mut outage.reason);
        if now - outage.logged_at >= LOG_INTERVAL {
            outage.logged_at = now;
            let lasts = (now - outage.since).as_secs_f64();
            drop(state);
            log::warn!(target: LOG_TARGET, "{} is still unavailable after {lasts:.0} s ({reason})", self.name);
        }
    }

    fn state(&self) -> MutexGuard<'_, HostState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Target of log messages about servers.
const LOG_TARGET: &str = "framespool::remote";

/// Pause after the given number of failures besides the first one: a random part of a limit that
/// doubles with each ("full jitter"), so that requests that failed together are not repeated
/// together.
pub(super) fn pause(failures: u32, retry_after: Duration) -> Duration {
    let nanos = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |d| d.subsec_nanos());
    let limit = INITIAL_BACKOFF
        .saturating_mul(1 << failures.min(16))
        .min(MAX_BACKOFF);
    limit
        .mul_f64(f64::from(nanos / 100 % 10_000) / 10_000.0)
        .max(retry_after.min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use std::future::{Future, ready};

    use futures_util::FutureExt;

    use super::*;

    /// Longer than any test can last.
    const NEVER: Duration = Duration::from_secs(1 << 30);

    #[test]
    fn pauses_grow_to_a_limit_and_respect_the_server() {
        for failures in [0, 3, 40] {
            let limit = INITIAL_BACKOFF
                .mul_f64(f64::from(1u32 << failures.min(6)))
                .min(MAX_BACKOFF);
            assert!((0..50).all(|_| pause(failures, Duration::ZERO) <= limit));
        }
        assert_eq!(pause(0, Duration::from_secs(7)), Duration::from_secs(7));
        assert_eq!(pause(0, Duration::from_secs(7000)), MAX_RETRY_AFTER);
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
    }

    /// Sets when the server may be tested next.
    fn set_next_attempt(host: &Host, at: Instant) {
        host.state().outage.as_mut().unwrap().next_attempt = at;
    }

    /// Runs a request for admission up to its first wait; `None` if it waits.
    fn poll_once<'a>(
        request: &mut (impl Future<Output = Admission<'a>> + Unpin),
    ) -> Option<Admission<'a>> {
        match select(request, ready(())).now_or_never() {
            Some(Either::Left((admission, _))) => Some(admission),
            _ => None,
        }
    }

    // `Duration::MAX`: an outage that is waited for without a limit.
    #[test]
    fn one_request_probes_while_others_wait() {
        let host = Host::new("h:80".into());
        runtime().block_on(async {
            assert!(host.record_outage(Instant::now(), "refused", Duration::ZERO));
            assert!(!host.record_outage(Instant::now(), "refused", Duration::ZERO));
            let Admission::Probe(permit) = host.admit(Duration::MAX).await else {
                panic!()
            };
            let mut waiting: Vec<_> = (0..8)
                .map(|_| Box::pin(host.admit(Duration::MAX)))
                .collect();
            for request in &mut waiting {
                assert!(poll_once(request).is_none());
            }
            host.record_answer(None);
            for request in &mut waiting {
                assert!(
                    matches!(poll_once(request), Some(Admission::Send)),
                    "it is notified"
                );
            }
            drop(permit);
            assert!(matches!(host.admit(Duration::ZERO).await, Admission::Send));
        });
    }

    #[test]
    fn the_next_probe_waits_for_the_pause() {
        let host = Host::new("h:80".into());
        runtime().block_on(async {
            let begun = Instant::now();
            host.record_outage(begun, "refused", Duration::from_secs(20));
            assert!(
                host.state().outage.as_ref().unwrap().next_attempt
                    >= begun + Duration::from_secs(20)
            );
            set_next_attempt(&host, begun + NEVER);
            let mut request = Box::pin(host.admit(Duration::MAX));
            assert!(poll_once(&mut request).is_none());
            drop(request); // gives its turn to the next one
            set_next_attempt(&host, begun);
            assert!(matches!(
                host.admit(Duration::MAX).await,
                Admission::Probe(_)
            ));
        });
    }

    #[test]
    fn after_a_long_outage_one_request_at_a_time_is_admitted() {
        let host = Host::new("h:80".into());
        runtime().block_on(async {
            let begun = Instant::now();
            host.record_outage(begun, "refused", Duration::ZERO);
            set_next_attempt(&host, begun);
            // An outage of any length is too long: none of these requests waits.
            let admit =
                || poll_once(&mut Box::pin(host.admit(Duration::ZERO))).expect("an answer at once");
            let Admission::Probe(permit) = admit() else {
                panic!()
            };
            assert!(matches!(admit(), Admission::TimedOut(_, reason) if reason == "refused"));
            let failed = Instant::now();
            host.record_failed_probe("reset", Duration::from_secs(20));
            assert!(
                host.state().outage.as_ref().unwrap().next_attempt
                    >= failed + Duration::from_secs(20)
            );
            set_next_attempt(&host, failed + NEVER);
            drop(permit);
            for _ in 0..100 {
                assert!(matches!(admit(), Admission::TimedOut(_, reason) if reason == "reset"));
            }
        });
    }
}
