//! Runs a target on one input with limits on memory and CPU time, and returns the failure as text,
//! if any. Panics count even if they are caught. Memory is limited at allocation. A hang is not
//! stopped here; the caller needs a watchdog or a time limit.

use std::alloc::System;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use cap::Cap;

use crate::Target;

/// Counts Rust's allocations, and fails those beyond the target's limit, which ends the process.
#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

/// Whether a target is running.
static IS_RUNNING: AtomicBool = AtomicBool::new(false);

/// The message of the first panic since the last query.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Starts recording panics; once per process.
pub fn begin() {
    std::panic::set_hook(Box::new(note));
}

fn note(info: &PanicHookInfo<'_>) {
    let place = info
        .location()
        .map_or_else(String::new, ToString::to_string);
    // The Parquet and Arrow crates panic on some damage, in their own code or in that of `bytes`;
    // readers convert this to errors.
    if ["/parquet-", "/arrow-", "/bytes-"]
        .iter()
        .any(|name| place.contains(name))
    {
        return;
    }
    let payload = info.payload();
    let owned = || payload.downcast_ref::<String>().map(String::as_str);
    let said = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(owned)
        .unwrap_or("(no text)");
    if !IS_RUNNING.load(Ordering::Relaxed) {
        eprintln!("panic outside of any target, at {place}: {said}");
    }
    let mut panic = PANIC.lock().unwrap_or_else(PoisonError::into_inner);
    panic.get_or_insert_with(|| format!("panic at {place}: {said}"));
}

/// Runs a target on an input.
///
/// # Errors
/// The failure.
pub fn run(target: &Target, input: &[u8]) -> Result<(), String> {
    if target.resident_bytes.is_some() {
        reset_peak();
    }
    let begun = Instant::now();
    // A limit below the current use would be an error, so the current use is added.
    let _ = MEMORY.set_limit(MEMORY.allocated().saturating_add(target.memory_bytes));
    IS_RUNNING.store(true, Ordering::Relaxed);
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let slow = begun.elapsed().as_secs() >= target.seconds && outcome.is_ok();
    // Measured again by the process's own CPU time: the machine may be busy with other work.
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
        return Err("a panic without a location".into());
    }
    if let Some(took) = took.filter(|&took| took >= target.seconds as f64) {
        return Err(format!("took {took:.1} s, more than {} s", target.seconds));
    }
    match target.resident_bytes.zip(peak()) {
        Some((most, peak)) if peak > most => Err(format!(
            "{} MiB resident at the peak, more than {} MiB",
            peak >> 20,
            most >> 20
        )),
        _ => Ok(()),
    }
}

/// Peak resident memory since [`reset_peak`], including C's; `None` if the system does not report
/// it.
fn peak() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(
        line.trim()
            .strip_suffix("kB")?
            .trim()
            .parse::<usize>()
            .ok()?
            << 10,
    )
}

/// CPU time of this process; `None` if the system does not report it.
pub fn processor_seconds() -> Option<f64> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // After the name, which may contain any character: the eleventh field and the next.
    let fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11).take(2);
    fields
        .map(|ticks| ticks.parse::<f64>().ok())
        .sum::<Option<f64>>()
        .map(|ticks| ticks / TICKS_PER_SECOND)
}

fn reset_peak() {
    // If the peak cannot be reset, that of the whole process is compared: stricter, never less
    // strict.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}
