//! Counts the clips of a dataset whose clip sampler yields more of them for longer videos: all videos
//! are indexed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::VideoCatalog;
use crate::clip_sampler::VideoTiming;
use crate::error::{Error, Result};
use crate::loader::OnError;
use crate::loader::stats::StatsCollector;
use crate::source::stop_scope;

/// Number of frames and of clips of a sample; of samples and of windows of its audio.
type Length = (u64, u64);

/// Errors of files that an error about all of them repeats.
const MAX_NAMED_ERRORS: usize = 3;

/// What counting found, for the error if there is no clip.
#[derive(Default)]
pub(super) struct Counted {
    /// Frames, or samples of audio, of the longest sample of the dataset.
    longest: u64,
    /// Number of samples whose files could not be indexed, and the first errors.
    num_failed: usize,
    first_errors: Vec<String>,
}

impl VideoCatalog {
    /// Determines the number of clips; indexes all videos if necessary. Meanwhile `progress` is
    /// called with the number of finished and of all samples; its error stops the indexing.
    pub(in crate::loader) fn count_clips(
        mut self,
        threads: u32,
        on_error: OnError,
        stats: &StatsCollector,
        progress: &dyn Fn(usize, usize) -> Result<()>,
    ) -> Result<Self> {
        if self.clips.num_clips() > 0 {
            return Ok(self);
        }
        let next = AtomicUsize::new(0);
        let done = AtomicUsize::new(0);
        let outage_timeout = self.outage_timeout;
        let stop = Arc::new(AtomicBool::new(false));
        let lengths: Vec<Mutex<Option<Result<Length>>>> =
            (0..self.samples.len()).map(|_| Mutex::new(None)).collect();
        let counted = std::thread::scope(|scope| {
            for worker in 0..threads {
                let work = || loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(slot) = lengths.get(at) else { return };
                    let open = || self.length_of(at as u32, stats);
                    let length = catch_unwind(AssertUnwindSafe(open)).unwrap_or_else(|_| {
                        Err(Error::Internal {
                            site: self.site(at as u32),
                            reason: "a panic while indexing".into(),
                        })
                    });
                    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(length);
                    done.fetch_add(1, Ordering::Release);
                };
                let stop = &stop;
                let work = move || {
                    let _scope =
                        stop_scope(stop, Some(stats.remote())).outage_timeout(outage_timeout);
                    work();
                };
                let name = format!("fsp-count-clips-{worker}");
                if std::thread::Builder::new()
                    .name(name)
                    .spawn_scoped(scope, work)
                    .is_err()
                    && worker == 0
                {
                    return Err(Error::Argument(
                        "no thread can be started; raise the process limit".into(),
                    ));
                }
            }
            loop {
                let finished = done.load(Ordering::Acquire);
                if let Err(reason) = progress(finished, lengths.len()) {
                    stop.store(true, Ordering::Relaxed);
                    next.store(lengths.len(), Ordering::Relaxed);
                    return Err(reason);
                }
                if finished == lengths.len() {
                    return Ok(());
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        counted?;
        let mut total = 0u64;
        let mut up_to = Vec::with_capacity(lengths.len());
        let found = &mut self.counted;
        for (sample, length) in (0..).zip(lengths) {
            let length = length.into_inner().unwrap_or_else(PoisonError::into_inner);
            match length.unwrap_or(Ok((0, 0))) {
                Ok((frames, clips)) => {
                    found.longest = found.longest.max(frames);
                    total += clips;
                }
                Err(error) if on_error == OnError::Raise || !error.is_file_error() => {
                    return Err(error);
                }
                Err(error) => {
                    stats.failure(sample, &error, false);
                    stats.add(|s| s.videos_failed += 1);
                    found.num_failed += 1;
                    if found.first_errors.len() < MAX_NAMED_ERRORS {
                        found.first_errors.push(error.to_string());
                    }
                }
            }
            up_to.push(total);
        }
        self.clips.set_up_to(up_to);
        Ok(self)
    }

    fn length_of(&self, sample: u32, stats: &StatsCollector) -> Result<Length> {
        if self.makes_windows() {
            return self.count_windows(sample, stats);
        }
        let video = self.open(sample, stats)?;
        let part = self.part(sample, video.index());
        let clips = self.clip_sampler_of(sample).num_clips(&part);
        Ok((part.num_frames().into(), clips))
    }

    /// Why there is no clip: the errors of the files, and the length of those that were indexed.
    pub(in crate::loader) fn no_clips_error(&self) -> Error {
        let (failed, all) = (self.counted.num_failed, self.samples.len());
        let (files, clip) = match self.makes_windows() {
            true => ("files", "no file yields a window of audio"),
            false => ("videos", "no video yields a clip"),
        };
        let mut reason = format!("{clip}: ");
        if failed > 0 {
            let more = failed - self.counted.first_errors.len();
            let more = if more > 0 {
                format!("; and {more} more")
            } else {
                String::new()
            };
            let errors = self.counted.first_errors.join("; ");
            reason += &format!("{failed} of {all} {files} cannot be read ({errors}{more})");
        }
        if failed < all {
            let others = if failed > 0 {
                ", and the longest of the others"
            } else {
                "the longest"
            };
            let longest = self.counted.longest;
            reason += &match self.window_seconds(longest) {
                Some((longest, window)) => format!(
                    "{others} has {longest:.3} s, a window {window} s; use fewer seconds, or another padding"
                ),
                None => format!(
                    "{others} has {longest} frames, a clip needs {}; use a shorter sequence_length or stride, or a pad mode",
                    self.clip_sampler.min_length_hint()
                ),
            };
        }
        Error::Argument(reason)
    }
}
