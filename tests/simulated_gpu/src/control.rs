//! In: calls of a test that has this library open.
//! Out: faults, seed and moods set; counts, violations and live objects told.
//! Never: counted itself.
#![allow(unsafe_code)]

use std::ffi::{c_char, CString};
use std::sync::Mutex;

use crate::cuda::text;
use crate::ledger::{ledger, report};
use crate::world::world;

/// Texts handed out stay valid for the life of the process.
fn lasting(text: &str) -> *const c_char {
    static KEPT: Mutex<Vec<CString>> = Mutex::new(Vec::new());
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    let mut kept = KEPT.lock().unwrap_or_else(|e| e.into_inner());
    let at = kept.iter().position(|k| *k == text).unwrap_or_else(|| {
        kept.push(text);
        kept.len() - 1
    });
    kept[at].as_ptr()
}

fn given(name: *const c_char) -> String {
    if name.is_null() {
        String::new()
    } else {
        text(name, "a control function's text").unwrap_or_default()
    }
}

/// Counts of calls start again at 0, and with them what faults count by.
#[no_mangle]
pub extern "C" fn simulated_gpu_reset_counts() {
    ledger().reset_counts();
}

/// Everything but memory, streams and decoders as at the start: no counts, violations, notes, faults; a lost context is back.
#[no_mangle]
pub extern "C" fn simulated_gpu_reset() {
    ledger().reset();
    let mut world = world();
    world.memory.peak_bytes = world.memory.used();
}

/// As FRAMESPOOL_SIMULATED_FAULT; an empty text takes all faults away. Calls are counted from the start or the last reset.
#[no_mangle]
pub extern "C" fn simulated_gpu_set_fault(fault: *const c_char) {
    let fault = given(fault);
    ledger().set_faults(&fault);
}

/// As FRAMESPOOL_SIMULATED_SEED; moods set by name are forgotten.
#[no_mangle]
pub extern "C" fn simulated_gpu_set_seed(seed: u64) {
    ledger().set_seed(seed);
    world().restart_random();
}

/// As FRAMESPOOL_SIMULATED_MOODS: `name=0,name=1`.
#[no_mangle]
pub extern "C" fn simulated_gpu_set_moods(moods: *const c_char) {
    let moods = given(moods);
    ledger().set_moods(&moods);
}

/// As FRAMESPOOL_SIMULATED_MEMORY.
#[no_mangle]
pub extern "C" fn simulated_gpu_set_memory(bytes: u64) {
    world().memory.limit_bytes = bytes;
}

#[no_mangle]
pub extern "C" fn simulated_gpu_violations() -> u64 {
    ledger().violations().len() as u64
}

/// Null behind the last.
#[no_mangle]
pub extern "C" fn simulated_gpu_violation_text(at: u64) -> *const c_char {
    let found = ledger().violations().get(at as usize).cloned();
    found.map_or(std::ptr::null(), |found| lasting(&found))
}

#[no_mangle]
pub extern "C" fn simulated_gpu_notes() -> u64 {
    ledger().notes().len() as u64
}

/// Null behind the last.
#[no_mangle]
pub extern "C" fn simulated_gpu_note_text(at: u64) -> *const c_char {
    let found = ledger().notes().get(at as usize).cloned();
    found.map_or(std::ptr::null(), |found| lasting(&found))
}

/// How often a function was called since the start or the last reset.
#[no_mangle]
pub extern "C" fn simulated_gpu_calls(function: *const c_char) -> u64 {
    let function = given(function);
    ledger().calls_of(&function)
}

/// Of `contexts`, `allocations`, `pinned`, `mapped`, `streams`, `events`, `modules`, `decoders`, `parsers`, `jpeg_instances`, `jpeg_states`,
/// `jpeg_headers`; null or empty: all but contexts and nvJPEG's instances, which are as lasting.
#[no_mangle]
pub extern "C" fn simulated_gpu_live_objects(kind: *const c_char) -> u64 {
    let kind = given(kind);
    let mut live = world().census().live;
    live.extend(crate::cuvid::census());
    live.extend(crate::nvjpeg::census());
    let lasting = ["contexts", "jpeg_instances"];
    let counts = |name: &str| if kind.is_empty() { !lasting.contains(&name) } else { name == kind };
    live.iter().filter(|(name, _)| counts(name)).map(|(_, count)| count).sum()
}

#[no_mangle]
pub extern "C" fn simulated_gpu_memory_bytes() -> u64 {
    world().memory.used()
}

#[no_mangle]
pub extern "C" fn simulated_gpu_memory_peak_bytes() -> u64 {
    world().memory.peak_bytes
}

/// Operations that were submitted and have not run.
#[no_mangle]
pub extern "C" fn simulated_gpu_operations_waiting() -> u64 {
    world().census().operations_waiting
}

/// The whole report, as it is written at exit.
#[no_mangle]
pub extern "C" fn simulated_gpu_report() -> *const c_char {
    lasting(&report::text())
}
