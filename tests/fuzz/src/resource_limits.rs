//! In: a target and one input. Out: what went wrong with it, in words, if anything.
//! Panics count wherever they are caught, memory is capped while it is asked for, and time is the process's own.
//! Never: stops by itself what hangs; whoever runs targets has a watchdog or a time limit for that.

use std::alloc::System;
use std::panic::{catch_unwind, AssertUnwindSafe, PanicHookInfo};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use cap::Cap;

use crate::Target;

/// Counts what Rust asks for, and refuses what is beyond the bound of the target: then the process ends.
#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

/// Whether a target is being run.
static IS_RUNNING: AtomicBool = AtomicBool::new(false);

/// What the first panic said since it was asked last.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Begins to take note of panics; once per process.
pub fn begin() {
    std::panic::set_hook(Box::new(note));
}

fn note(info: &PanicHookInfo<'_>) {
    let place = info.location().map_or_else(String::new, ToString::to_string);
    // The crates of Parquet and Arrow give up on some damage by a panic, their own or that of the bytes they cut, which readers make errors of.
    if ["/parquet-", "/arrow-", "/bytes-"].iter().any(|name| place.contains(name)) {
        return;
    }
    let payload = info.payload();
    let owned = || payload.downcast_ref::<String>().map(String::as_str);
    let said = payload.downcast_ref::<&str>().copied().or_else(owned).unwrap_or("(no text)");
    if !IS_RUNNING.load(Ordering::Relaxed) {
        eprintln!("panic outside of any target, at {place}: {said}");
    }
    let mut panic = PANIC.lock().unwrap_or_else(PoisonError::into_inner);
    panic.get_or_insert_with(|| format!("panic at {place}: {said}"));
}

/// Runs a target on an input.
///
/// # Errors
/// What went wrong.
pub fn run(target: &Target, input: &[u8]) -> Result<(), String> {
    if target.resident_bytes.is_some() {
        reset_peak();
    }
    let begun = Instant::now();
    // A limit below what is held would be an error, and there is none above it.
    let _ = MEMORY.set_limit(MEMORY.allocated().saturating_add(target.memory_bytes));
    IS_RUNNING.store(true, Ordering::Relaxed);
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let slow = begun.elapsed().as_secs() >= target.seconds && outcome.is_ok();
    // Once more, by what the process itself takes: the machine may be busy with others.
    let took = slow.then(processor_seconds).flatten().and_then(|before| {
        (target.run)(input);
        Some(processor_seconds()? - before)
    });
    let _ = MEMORY.set_limit(usize::MAX);
    IS_RUNNING.store(false, Ordering::Relaxed);
    if let Some(panic) = PANIC.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(panic);
    }
    if outcome.is_err() {
        return Err("a panic without a place".into());
    }
    if let Some(took) = took.filter(|&took| took >= target.seconds as f64) {
        return Err(format!("took {took:.1} s, and may take {} s", target.seconds));
    }
    match target.resident_bytes.zip(peak()) {
        Some((most, peak)) if peak > most => {
            Err(format!("{} MiB resident at the most, more than {} MiB", peak >> 20, most >> 20))
        }
        _ => Ok(()),
    }
}

/// Most memory that was resident since [`reset_peak`], C's too; `None` where the system does not say.
fn peak() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()? << 10)
}

/// What this process has taken of processors; `None` where the system does not say.
fn processor_seconds() -> Option<f64> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name, which may hold anything: the eleventh field and the next.
    let fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11).take(2);
    fields.map(|ticks| ticks.parse::<f64>().ok()).sum::<Option<f64>>().map(|ticks| ticks / TICKS_PER_SECOND)
}

fn reset_peak() {
    // Where it cannot be forgotten, the peak of the process is held against the bound: stricter, never laxer.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}
