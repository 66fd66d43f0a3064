//! In: pictures' files and a recipe.
//! Out: each as a clip of one picture, or what is wrong with it, in the same order.
//! Never: lets one file's failure touch another's result.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, Thread};
use std::time::Duration;

use super::{Picture, Video, Workbench};
use crate::error::{Error, Result, Site};
use crate::index::still;
use crate::limits::Limits;
use crate::order::rng::Key;
use crate::pixels::Recipe;
use crate::source::{calling, Place};
use crate::units::DisplayIndex;

/// How often a caller who waits for helpers looks up.
const LOOK_UP: Duration = Duration::from_millis(20);

/// Counts a helper until it ends, however that comes, and tells the caller.
struct Busy<'a>(&'a AtomicUsize, &'a Thread);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
        self.1.unpark();
    }
}

/// Decodes pictures on some threads, the caller's among them; picture *i* draws its random numbers as clip *i* of this seed. `watch` is called
/// meanwhile and stops it by an error.
///
/// # Errors
/// What `watch` reports; what is wrong with a picture stands in its place.
pub fn decode_stills(
    files: &[Place],
    recipe: &Recipe,
    seed: u64,
    threads: u32,
    watch: &dyn Fn() -> Result<()>,
) -> Result<Vec<Result<Picture>>> {
    let next = AtomicUsize::new(0);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = || if stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) };
    let made: Vec<Mutex<Option<Result<Picture>>>> = files.iter().map(|_| Mutex::new(None)).collect();
    let one = |bench: &mut Workbench, at: usize| -> Result<Picture> {
        let file = &files[at];
        let source = file.open()?;
        let index = Arc::new(still::of_file(&*source, &Limits::default())?);
        let key = Key { seed, epoch: 0, clip: at as u64, visit: 0 };
        let mut canvas = bench.canvas();
        let mut reader = Video::with_index(source, index).reader();
        bench.make(&mut reader, &[DisplayIndex(0)], key, &mut canvas, &stopped)?;
        canvas.into_clip()?.ok_or_else(|| Error::malformed(&Site::file(&file.name()), "no picture"))
    };
    // Until there are no more pictures, or `go_on` says stop.
    let work = |go_on: &dyn Fn() -> Result<()>| -> Result<()> {
        let mut bench = Workbench::new(recipe.clone());
        loop {
            go_on()?;
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(place) = made.get(at) else { return Ok(()) };
            let picture = catch_unwind(AssertUnwindSafe(|| one(&mut bench, at))).unwrap_or_else(|_| {
                bench = Workbench::new(recipe.clone());
                let site = Site::file(&files[at].name());
                Err(Error::Internal { site, reason: "a panic while decoding".into() })
            });
            if matches!(picture, Err(Error::Interrupted)) {
                // A signal is told of once: whoever heard of it while waiting ends the work.
                return Err(Error::Interrupted);
            }
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(picture);
        }
    };
    let (busy, caller) = (AtomicUsize::new(0), std::thread::current());
    let helpers = threads.min(u32::try_from(files.len()).unwrap_or(u32::MAX)).saturating_sub(1);
    std::thread::scope(|scope| {
        for helper in 0..helpers {
            let named = Builder::new().name(format!("stills-{helper}"));
            let flag = stop.clone();
            let wanted = move || if flag.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) };
            let help = || {
                let _busy = Busy(&busy, &caller);
                let _calling = calling(wanted, None);
                work(&stopped)
            };
            busy.fetch_add(1, Ordering::AcqRel);
            if named.spawn_scoped(scope, help).is_err() {
                busy.fetch_sub(1, Ordering::AcqRel);
                break; // those that there are do it too
            }
        }
        // The scope's end waits for the helpers, who may be at a slow server, without asking the caller.
        let all = work(watch).and_then(|()| {
            while busy.load(Ordering::Acquire) > 0 {
                watch()?;
                std::thread::park_timeout(LOOK_UP);
            }
            Ok(())
        });
        all.inspect_err(|_| stop.store(true, Ordering::Relaxed))
    })?;
    let taken = |place: Mutex<Option<Result<Picture>>>| {
        place.into_inner().unwrap_or_else(PoisonError::into_inner).unwrap_or(Err(Error::Interrupted))
    };
    Ok(made.into_iter().map(taken).collect())
}
