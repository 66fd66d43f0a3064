//! Exports control functions for tests: they set faults, seed and behaviors, and return counts,
//! violations and live objects. Calls of these functions are not counted.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CString, c_char};
use std::sync::Mutex;

use crate::call_log::{MODES, behavior_is_set, call_log, report};
use crate::cuda::text;
use crate::driver_state::driver_state;

/// Returned texts stay valid for the life of the process.
fn static_text(text: &str) -> *const c_char {
    static KEPT: Mutex<Vec<CString>> = Mutex::new(Vec::new());
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    let mut kept = KEPT.lock().unwrap_or_else(|e| e.into_inner());
    let at = kept.iter().position(|k| *k == text).unwrap_or_else(|| {
        kept.push(text);
        kept.len() - 1
    });
    kept[at].as_ptr()
}

fn argument_text(name: *const c_char) -> String {
    if name.is_null() {
        String::new()
    } else {
        text(name, "a control function's text").unwrap_or_default()
    }
}

/// Resets call counts to 0, and with them the counters of faults.
#[unsafe(no_mangle)]
pub extern "C" fn simulated_gpu_reset_counts() {
    call_log().reset_counts();
}

/// Resets everything except memory, streams and decoders: counts, violations, notes, faults, and a
/// lost context.
#[unsafe(no_mangle)]
pub extern "C" fn simulated_gpu_reset() {
    call_log().reset();
    let mut driver_state = driver_state();
    driver_state.memory.peak_bytes = driver_state.memory.used();
}

/// Like FRAMESPOOL_SIMULATED_FAULT; an empty text removes all faults. Calls are counted from the
/// start or the last reset.
#[unsafe(no_mangle)]
pub extern "C" fn simulated_gpu_set_fault(fault: *const c_char) {
    let fault = argument_text(fault);
    call_log().set_faults(&fault);
}

/// Like FRAMESPOOL_SIMULATED_SEED; behaviors set by name are reset to those of the environment.
#[unsafe(no_mangle)]
pub extern "C" fn simulated_gpu_set_seed(seed: u64) {
    call_log().set_seed(seed);
    driver_state().restart_random();
}

/// Like FRAMESPOOL_SIMULATED_BEHAVIORS: `name=0,name=1`.
#[unsafe(no_mangle)]
pub extern "C" fn simulated_gpu_set_behaviors(behaviors: *const c_char) {
    let behaviors = argument_text(behaviors);
    call_log().set_behaviors(&behaviors);
}

/// Whether a behavior that needs a name is enabled: 0 or 1.
#[unsafe(no_mangle)]
pub extern "C" fn simulated_gpu_behavior(name: *const c_char) -> u64 {
    let name = argument_text(name);
    u64::from(behavior_is_set(&name))
}

/// The names that FRAMESPOOL_SIMULATED_MODES combines, separated by commas.
#[unsafe(no_mangle)]
pub extern "C" fn simulated_gpu_modes() -> *const c_char {
    static_text(&MODES.join(","))
}

/// Like FRAMESPOOL_SIMULATED_MEMORY.
#[unsafe(no_mangle)]
pub extern "C" fn simulated_gpu_set_memory(bytes: u64) {
    driver_state().memory.limit_bytes = bytes;
}

#[unsafe(no_mangle)]
pub extern "C" fn simulated_gpu_violations() -> u64 {
    call_log().violations().len() as u64
}

/// Returns null after the last one.
#[unsafe(no_mangle)]
pub extern "C" fn simulated_gpu_violation_text(at: u64) -> *const c_char {
    let found = call_log().violations().get(at as usize).cloned();
    found.map_or(std::ptr::null(), |found| static_text(&found))
}

#[unsafe(no_mangle)]
pub extern "C" fn simulated_gpu_notes() -> u64 {
    call_log().notes().len() as u64
}

/// Returns null after the last one.
#[unsafe(no_mangle)]
pub extern "C" fn simulated_gpu_note_text(at: u64) -> *const c_char {
    let found = call_log().notes().get(at as usize).cloned();
    found.map_or(std::ptr::null(), |found| static_text(&found))
}

/// Number of calls of a function since the start or the last reset.
#[unsafe(no_mangle)]
pub extern "C" fn simulated_gpu_calls(function: *const c_char) -> u64 {
    let function = argument_text(function);
    call_log().calls_of(&function)
}

/// Number of live objects of `contexts`, `allocations`, `pinned`, `mapped`, `streams`, `events`,
/// `modules`, `decoders`, `parsers`, `jpeg_instances`, `jpeg_states`, `jpeg_headers`; null or
/// empty: all except contexts and nvJPEG's instances, which are permanent.
#[unsafe(no_mangle)]
pub extern "C" fn simulated_gpu_live_objects(kind: *const c_char) -> u64 {
    let kind = argument_text(kind);
    let mut live = driver_state().object_counts().live;
    live.extend(crate::cuvid::object_counts());
    live.extend(crate::nvjpeg::object_counts());
    let permanent = ["contexts", "jpeg_instances"];
    let counts = |name: &str| {
        if kind.is_empty() {
            !permanent.contains(&name)
        } else {
            name == kind
        }
    };
    live.iter()
        .filter(|(name, _)| counts(name))
        .map(|(_, count)| count)
        .sum()
}

#[unsafe(no_mangle)]
pub extern "C" fn simulated_gpu_memory_bytes() -> u64 {
    driver_state().memory.used()
}

#[unsafe(no_mangle)]
pub extern "C" fn simulated_gpu_memory_peak_bytes() -> u64 {
    driver_state().memory.peak_bytes
}

/// Operations that were enqueued and have not run.
#[unsafe(no_mangle)]
pub extern "C" fn simulated_gpu_operations_waiting() -> u64 {
    driver_state().object_counts().operations_waiting
}

/// The complete report, as written at exit.
#[unsafe(no_mangle)]
pub extern "C" fn simulated_gpu_report() -> *const c_char {
    static_text(&report::text())
}

thread_local! {
    /// The current stream of a simulated PyTorch.
    static PYTORCH_STREAM: Cell<usize> = const { Cell::new(0) };
}

/// Sets what `aoti_torch_get_current_cuda_stream` returns on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn simulated_gpu_set_pytorch_stream(stream: usize) {
    PYTORCH_STREAM.set(stream);
}

/// Makes a graph capture a stream; 0 ends the capture.
#[unsafe(no_mangle)]
pub extern "C" fn simulated_gpu_set_capturing(stream: u64) {
    crate::cuda::CAPTURING.store(stream, std::sync::atomic::Ordering::Relaxed);
}

/// As in libtorch_cuda.so, whose name `build.sh` gives this library, too.
#[unsafe(no_mangle)]
pub extern "C" fn aoti_torch_get_current_cuda_stream(_ordinal: i32, stream: *mut usize) -> i32 {
    crate::cuda::write(stream, PYTORCH_STREAM.get(), "stream").map_or(1, |()| 0)
}
