//! Decodes image files in parallel and returns each as a clip of one frame, or its error, in the
//! same order. An error in one file does not affect the results of the others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, Thread};
use std::time::Duration;

use super::{ClipDecoder, DecodedFrame, Video};
use crate::dataset::MediaLocation;
use crate::error::{Error, Result, Site};
use crate::index::image;
use crate::limits::Limits;
use crate::rng::RngKey;
use crate::source::{check_interrupt, stop_scope};
use crate::transforms::TransformPipeline;
use crate::units::PresentationIndex;

/// Interval at which a caller that waits for helper threads checks for an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Counts a helper thread as busy until it ends, also by a panic, and then wakes the caller.
struct BusyGuard<'a>(&'a AtomicUsize, &'a Thread);

impl Drop for BusyGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
        self.1.unpark();
    }
}

/// Decodes images on `threads` threads, including the caller's. Image *i* draws its random
/// parameters as clip *i* of this seed.
///
/// # Errors
/// That of an interrupt. An error in an image is the element of the result at its position.
pub fn decode_image_batch(
    files: &[MediaLocation],
    pipeline: &TransformPipeline,
    seed: u64,
    threads: u32,
) -> Result<Vec<Result<DecodedFrame>>> {
    let next = AtomicUsize::new(0);
    let stop = Arc::new(AtomicBool::new(false));
    let made: Vec<Mutex<Option<Result<DecodedFrame>>>> =
        files.iter().map(|_| Mutex::new(None)).collect();
    let decode_one = |clip_decoder: &mut ClipDecoder, at: usize| -> Result<DecodedFrame> {
        let file = &files[at];
        let source = file.open()?;
        let index = Arc::new(image::index_file(&*source, &Limits::default())?);
        let key = RngKey {
            seed,
            epoch: 0,
            clip: at as u64,
            occurrence: 0,
        };
        let mut output = clip_decoder.output();
        let mut reader = Video::with_index(source, index).reader();
        clip_decoder.decode_clip(&mut reader, &[PresentationIndex(0)], key, &mut output)?;
        output
            .into_clip()?
            .ok_or_else(|| Error::malformed(&Site::file(&file.name()), "no image"))
    };
    // Works until no images are left, or the caller of the thread interrupts it.
    let work = || -> Result<()> {
        let mut clip_decoder = ClipDecoder::new(pipeline.clone());
        loop {
            check_interrupt()?;
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(place) = made.get(at) else {
                return Ok(());
            };
            let picture = catch_unwind(AssertUnwindSafe(|| decode_one(&mut clip_decoder, at)))
                .unwrap_or_else(|_| {
                    clip_decoder = ClipDecoder::new(pipeline.clone());
                    let site = Site::file(&files[at].name());
                    Err(Error::Internal {
                        site,
                        reason: "a panic while decoding".into(),
                    })
                });
            if matches!(picture, Err(Error::Interrupted)) {
                // A signal is reported only once: the thread that receives it while it waits ends
                // the work.
                return Err(Error::Interrupted);
            }
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(picture);
        }
    };
    let (busy, caller) = (AtomicUsize::new(0), std::thread::current());
    let helpers = threads
        .min(u32::try_from(files.len()).unwrap_or(u32::MAX))
        .saturating_sub(1);
    std::thread::scope(|scope| {
        for helper in 0..helpers {
            let named = Builder::new().name(format!("stills-{helper}"));
            let help = || {
                let _busy = BusyGuard(&busy, &caller);
                let _scope = stop_scope(&stop, None);
                work()
            };
            busy.fetch_add(1, Ordering::AcqRel);
            if named.spawn_scoped(scope, help).is_err() {
                busy.fetch_sub(1, Ordering::AcqRel);
                break; // the helpers that have started do the work
            }
        }
        // The end of the scope joins the helpers, which may wait for a slow server, without checking
        // for an interrupt.
        let all = work().and_then(|()| {
            while busy.load(Ordering::Acquire) > 0 {
                check_interrupt()?;
                std::thread::park_timeout(POLL_INTERVAL);
            }
            Ok(())
        });
        all.inspect_err(|_| stop.store(true, Ordering::Relaxed))
    })?;
    let taken = |place: Mutex<Option<Result<DecodedFrame>>>| {
        place
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .unwrap_or(Err(Error::Interrupted))
    };
    Ok(made.into_iter().map(taken).collect())
}
