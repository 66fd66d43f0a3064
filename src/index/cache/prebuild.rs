//! Fills the index cache for a list of files, or checks the cached indices, on named threads.
//! A file that cannot be indexed is reported and does not stop the others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::record::FileSignature;
use super::{IndexCache, build_stream, record};
use crate::error::{Error, Result, Site};
use crate::index::audio;
use crate::limits::Limits;
use crate::media::StreamKind;
use crate::source::{ByteSource, check_interrupt, display_name, open, stop_scope};

/// Interval at which the caller's thread checks the progress.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Progress of [`IndexCache::prebuild`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Files processed.
    pub done: usize,
    /// Files processed that failed.
    pub failed: usize,
    /// All files.
    pub total: usize,
}

/// Result of [`IndexCache::prebuild`].
#[derive(Debug, Default)]
pub struct PrebuildReport {
    /// Files whose index was cached (and correct, if that was checked).
    pub found: u64,
    /// Files whose index was built and cached.
    pub built: u64,
    /// Total number of video frames of these files; 0 for their audio.
    pub frames: u64,
    /// Files whose cached index differed from the one built now, which replaced it.
    pub mismatched: Vec<PathBuf>,
    /// Files that cannot be indexed.
    pub failed: Vec<(PathBuf, Error)>,
}

enum Outcome {
    Found,
    Built,
    Mismatched,
}

impl IndexCache {
    /// Ensures that the indices of `paths` are cached: of their video or, by `kind`, of their audio,
    /// for stream `stream` or the best one of each. With `check`, the database is verified first, and cached indices are built again and
    /// compared. `on_progress` is called regularly; an error from it stops the work, and the indices
    /// built until then stay cached.
    pub fn prebuild(
        &self,
        paths: &[PathBuf],
        (kind, stream): (StreamKind, Option<u32>),
        threads: u32,
        check: bool,
        on_progress: &dyn Fn(&Progress) -> Result<()>,
    ) -> Result<PrebuildReport> {
        if let Some(writer) = self.writer.as_ref().filter(|_| check) {
            writer.repair(true);
            while !self.flush(POLL_INTERVAL) {
                if writer.has_ended() {
                    let site = Site::file(&display_name(&self.file));
                    let reason = "the thread that writes the index cache has ended".to_owned();
                    return Err(Error::Internal { site, reason });
                }
                on_progress(&Progress {
                    total: paths.len(),
                    ..Progress::default()
                })?;
            }
        }
        let (next, done, failed) = (
            AtomicUsize::new(0),
            AtomicUsize::new(0),
            AtomicUsize::new(0),
        );
        let stop = Arc::new(AtomicBool::new(false));
        let report = Mutex::new(PrebuildReport::default());
        let take = |path: &PathBuf| {
            let one = || match kind {
                StreamKind::Audio => self.process_audio(path, stream, check),
                _ => self.process_video(path, stream, check),
            };
            let outcome = catch_unwind(AssertUnwindSafe(one)).unwrap_or_else(|_| {
                let site = Site::file(&display_name(path));
                Err(Error::Internal {
                    site,
                    reason: "a panic while indexing".into(),
                })
            });
            let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
            match outcome {
                Ok((outcome, frames)) => {
                    report.frames += u64::from(frames);
                    match outcome {
                        Outcome::Found => report.found += 1,
                        Outcome::Built => report.built += 1,
                        Outcome::Mismatched => report.mismatched.push(path.clone()),
                    }
                }
                Err(error) => {
                    failed.fetch_add(1, Ordering::Relaxed);
                    report.failed.push((path.clone(), error));
                }
            }
        };
        let progress = || Progress {
            done: done.load(Ordering::Acquire),
            failed: failed.load(Ordering::Relaxed),
            total: paths.len(),
        };
        std::thread::scope(|scope| {
            for worker in 0..threads.max(1) {
                let (next, done, take, stop) = (&next, &done, &take, &stop);
                let work = move || {
                    let _scope = stop_scope(stop, None);
                    while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
                        take(path);
                        done.fetch_add(1, Ordering::Release);
                    }
                };
                let thread = std::thread::Builder::new().name(format!("index-fill-{worker}"));
                if thread.spawn_scoped(scope, work).is_err() && worker == 0 {
                    return Err(Error::Argument(
                        "no thread can be started; raise the process limit".into(),
                    ));
                }
            }
            while progress().done < paths.len() {
                if let Err(reason) = on_progress(&progress()) {
                    stop.store(true, Ordering::Relaxed);
                    next.store(paths.len(), Ordering::Relaxed);
                    return Err(reason);
                }
                std::thread::sleep(
                    POLL_INTERVAL.min(Duration::from_millis(2 + progress().done as u64)),
                );
            }
            on_progress(&progress())
        })?;
        let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Threads finish in any order; the reports are sorted.
        report.mismatched.sort();
        report.failed.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(report)
    }

    fn process_video(
        &self,
        path: &Path,
        stream: Option<u32>,
        check: bool,
    ) -> Result<(Outcome, u32)> {
        check_interrupt()?;
        let (source, since) = open_settled(path)?;
        let kept = self.get(path, &*source, stream);
        let build = || build_stream(&source, stream, &Limits::default());
        let (outcome, index) = refresh(kept, check, build)?;
        if !matches!(outcome, Outcome::Found) {
            self.put_blocking(path, &*source, stream, since, &index);
        }
        Ok((outcome, index.num_frames()))
    }

    fn process_audio(
        &self,
        path: &Path,
        stream: Option<u32>,
        check: bool,
    ) -> Result<(Outcome, u32)> {
        check_interrupt()?;
        let (source, since) = open_settled(path)?;
        let kept = self.get_audio(path, &*source, stream);
        let build = || audio::build(&source, stream, &Limits::default());
        let (outcome, index) = refresh(kept, check, build)?;
        if !matches!(outcome, Outcome::Found) {
            self.put_audio(path, &*source, stream, since, &index, true);
        }
        Ok((outcome, 0))
    }
}

/// The cached index, or the one built now if there is none or `check` is set.
fn refresh<I: PartialEq>(
    kept: Option<Arc<I>>,
    check: bool,
    build: impl FnOnce() -> Result<I>,
) -> Result<(Outcome, Arc<I>)> {
    let kept = match kept {
        Some(kept) if !check => return Ok((Outcome::Found, kept)),
        kept => kept,
    };
    let built = Arc::new(build()?);
    let outcome = match kept {
        Some(kept) if kept == built => Outcome::Found,
        Some(_) => Outcome::Mismatched,
        None => Outcome::Built,
    };
    Ok((outcome, built))
}

/// Opens a file and waits until its last change is old enough for its index to be trusted: see
/// [`FileSignature::stable_after`].
fn open_settled(path: &Path) -> Result<(Arc<dyn ByteSource>, SystemTime)> {
    let mut tries = 0;
    loop {
        let since = SystemTime::now();
        let source = open(path)?;
        let young = FileSignature::of(&source.identity())
            .and_then(|signature| signature.stable_after(record::unix_nanos(since)));
        match young.filter(|_| tries < 3) {
            // Opened again, because it may have changed in the meantime.
            Some(wait) => std::thread::sleep(wait),
            None => return Ok((source, since)),
        }
        tries += 1;
    }
}
