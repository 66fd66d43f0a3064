//! Runs a target on seeds and on random changes of them, for a number of inputs or seconds, up to
//! the first failure. The same seeds and count give the same inputs on any machine. Coverage is not
//! used; `guided` uses it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use framespool::rng::{Purpose, RngKey};

use crate::mutate::mutate;
use crate::{Target, resource_limits};

/// An input hangs if it uses this much CPU time, more than any target permits.
const HANG_PROCESSOR_SECONDS: f64 = 120.0;
/// It also hangs if the process uses next to no CPU time in so many successive seconds: it waits
/// for something that does not come. A thread that a busy machine runs now and then uses more.
const HANG_IDLE_SECONDS: u32 = 120;
const IDLE_PROCESSOR_SECONDS: f64 = 0.02;

/// The extent of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunLimits {
    /// Number of inputs in addition to the seeds.
    pub inputs: u64,
    /// Maximum duration, if shorter.
    pub at_most: Option<Duration>,
    /// Start of the random sequence.
    pub seed: u64,
}

/// The statistics of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunSummary {
    /// Number of inputs that were run, including seeds.
    pub inputs: u64,
    /// Number of seeds among them.
    pub seeds: usize,
    /// Duration.
    pub took: Duration,
}

/// Runs the seeds, then changed ones.
///
/// # Errors
/// The failure, and the file that contains the input, in `keep`.
pub fn run(
    target: &Target,
    seeds: &[Vec<u8>],
    amount: RunLimits,
    keep: &Path,
) -> Result<RunSummary, String> {
    let begun = Instant::now();
    // If the process dies, its input is in this file.
    let current = keep.join(format!("{}.running", target.name));
    let file = File::create(&current).map_err(|error| format!("{}: {error}", current.display()))?;
    let mut done = 0;
    let mut one = |input: &[u8]| {
        let written = file
            .set_len(input.len() as u64)
            .and_then(|()| file.write_all_at(input, 0));
        written.map_err(|error| format!("{}: {error}", current.display()))?;
        CURRENT_INPUT.store(done + 1, Ordering::Relaxed);
        done += 1;
        resource_limits::run(target, input).map_err(|reason| {
            let kept = keep.join(format!("{}-{done}", target.name));
            let place = std::fs::write(&kept, input).map_or(&current, |()| &kept);
            format!(
                "{}: {reason}\n  the input is {}",
                target.name,
                place.display()
            )
        })
    };
    for seed in seeds {
        one(seed)?;
    }
    let nothing = [Vec::new()];
    let from = if seeds.is_empty() {
        &nothing[..]
    } else {
        seeds
    };
    for number in 0..amount.inputs {
        if amount.at_most.is_some_and(|most| begun.elapsed() >= most) {
            break;
        }
        let mut rng = RngKey {
            seed: amount.seed,
            epoch: 0,
            clip: number,
            occurrence: 0,
        }
        .rng(Purpose::Sampling);
        let mut input = from[rng.next_below(from.len() as u64) as usize].clone();
        mutate(&mut input, from, target.longest, &mut rng);
        one(&input)?;
    }
    CURRENT_INPUT.store(0, Ordering::Relaxed);
    let _ = std::fs::remove_file(&current);
    Ok(RunSummary {
        inputs: done,
        seeds: seeds.len(),
        took: begun.elapsed(),
    })
}

/// Number of the input that is running; 0 for none.
static CURRENT_INPUT: AtomicU64 = AtomicU64::new(0);

/// Ends the process if one input takes too long, because nothing else can stop it. Its input stays
/// in the folder passed to [`run`].
///
/// # Errors
/// If no thread can be created.
pub fn watch_for_hangs(keep: PathBuf) -> Result<(), String> {
    let look = move || {
        let (mut last, mut at_begin, mut before, mut idle) = (0, 0.0, 0.0, 0);
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let now = CURRENT_INPUT.load(Ordering::Relaxed);
            let used = resource_limits::processor_seconds().unwrap_or(0.0);
            if now != last || now == 0 {
                (last, at_begin, before, idle) = (now, used, used, 0);
                continue;
            }
            idle = if used - before < IDLE_PROCESSOR_SECONDS {
                idle + 1
            } else {
                0
            };
            before = used;
            if used - at_begin > HANG_PROCESSOR_SECONDS || idle > HANG_IDLE_SECONDS {
                eprintln!("hangs: the input is in {}, as *.running", keep.display());
                std::process::abort();
            }
        }
    };
    let named = std::thread::Builder::new()
        .name("watchdog".into())
        .spawn(look);
    named
        .map(drop)
        .map_err(|error| format!("the watchdog thread could not be created: {error}"))
}
