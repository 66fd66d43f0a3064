//! Records every call of an exported function and every misuse: counts, injected faults,
//! violations, notes, and seeded choices. It never takes another lock of this crate while it holds
//! its own.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

mod fault;
pub mod report;

use fault::Fault;

/// A CUresult. 0 is success.
pub type Code = i32;

pub const INVALID_VALUE: Code = 1;
pub const OUT_OF_MEMORY: Code = 2;
pub const NOT_INITIALIZED: Code = 3;
pub const DEINITIALIZED: Code = 4;
pub const NO_DEVICE: Code = 100;
pub const INVALID_DEVICE: Code = 101;
pub const INVALID_CONTEXT: Code = 201;
pub const MAP_FAILED: Code = 205;
pub const INVALID_PTX: Code = 218;
pub const INVALID_SOURCE: Code = 300;
pub const INVALID_HANDLE: Code = 400;
pub const NOT_FOUND: Code = 500;
pub const NOT_READY: Code = 600;
pub const ILLEGAL_ADDRESS: Code = 700;
pub const NOT_SUPPORTED: Code = 801;
pub const CAPTURE_UNSUPPORTED: Code = 900;
pub const UNKNOWN: Code = 999;

/// Maximum number of violations kept: one mistake in a loop repeats the same text.
const MAX_VIOLATIONS: usize = 2000;

/// Behaviors of inconvenient drivers. Each is enabled only by name, or by
/// FRAMESPOOL_SIMULATED_MODES, which combines them.
pub const MODES: [&str; 9] = [
    "held_overwritten",
    "status_after_map",
    "pageable_waits",
    "more_surfaces",
    "hevc_padded",
    "timestamp_queue",
    "slow_create",
    "failing_create",
    "busy_map",
];

/// Errors after which the process's context is lost: every later call returns the same code.
const STICKY: [Code; 8] = [700, 702, 710, 714, 715, 716, 717, 719];

#[derive(Default)]
pub struct CallLog {
    calls: BTreeMap<&'static str, u64>,
    faults: Vec<Fault>,
    violations: Vec<String>,
    notes: Vec<String>,
    behaviors: BTreeMap<String, bool>,
    /// Those of the environment, which another seed does not reset.
    permanent_behaviors: BTreeMap<String, bool>,
    /// Seed of a combination of `MODES`; 0 for none.
    modes: u64,
}

static CALL_LOG: OnceLock<Mutex<CallLog>> = OnceLock::new();
static SEED: AtomicU64 = AtomicU64::new(0);
/// The process that made the first call. Another process is a child of `fork`, in which CUDA does
/// not work.
static OWNER_PID: AtomicU32 = AtomicU32::new(0);
static LOST_CONTEXT_CODE: AtomicI32 = AtomicI32::new(0);
static HAS_EXITED: AtomicBool = AtomicBool::new(false);

pub fn variable(name: &str) -> Option<String> {
    std::env::var(format!("FRAMESPOOL_SIMULATED_{name}"))
        .ok()
        .filter(|v| !v.is_empty())
}

fn from_environment() -> Mutex<CallLog> {
    SEED.store(
        variable("SEED").and_then(|s| s.parse().ok()).unwrap_or(0),
        Ordering::Relaxed,
    );
    let mut call_log = CallLog::default();
    call_log.set_behaviors(&variable("BEHAVIORS").unwrap_or_default());
    call_log.permanent_behaviors = call_log.behaviors.clone();
    call_log.modes = variable("MODES").and_then(|s| s.parse().ok()).unwrap_or(0);
    if let Some(text) = variable("FAULT") {
        call_log.set_faults(&text);
    }
    report::at_exit();
    Mutex::new(call_log)
}

pub fn call_log() -> MutexGuard<'static, CallLog> {
    CALL_LOG
        .get_or_init(from_environment)
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Wraps every exported function of the drivers.
pub fn api_call(name: &'static str, call: impl FnOnce() -> Result<(), Code>) -> Code {
    api_call_with(name, |code| code, call)
}

/// Like `api_call`, for a library with its own codes: `translate` converts the codes that are
/// generated here. The call's own result and injected faults already have the library's codes.
pub fn api_call_with(
    name: &'static str,
    translate: fn(Code) -> Code,
    call: impl FnOnce() -> Result<(), Code>,
) -> Code {
    let pid = std::process::id();
    match OWNER_PID.compare_exchange(0, pid, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => (),
        Err(owner) if owner == pid => (),
        // A forked child; its copy of our locks may be held by a thread that it does not have.
        Err(_) => return translate(NOT_INITIALIZED),
    }
    if HAS_EXITED.load(Ordering::Relaxed) {
        return translate(DEINITIALIZED);
    }
    if let Some(code) = call_log().count(name) {
        lose_context_if_sticky(code);
        return code;
    }
    let lost_context_code = LOST_CONTEXT_CODE.load(Ordering::Relaxed);
    if lost_context_code != 0 && !name.starts_with("cuGetError") {
        return translate(lost_context_code);
    }
    if crate::cuda::is_forbidden(name) {
        violation(format!("{name} while another thread captures a graph"));
        return translate(CAPTURE_UNSUPPORTED);
    }
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => {
            lose_context_if_sticky(code);
            code
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no text");
            violation(format!("{name}: the simulated GPU itself panicked: {text}"));
            translate(UNKNOWN)
        }
    }
}

fn lose_context_if_sticky(code: Code) {
    if STICKY.contains(&code) {
        LOST_CONTEXT_CODE.store(code, Ordering::Relaxed);
    }
}

/// The context is lost, as after an illegal address in a kernel.
pub fn lose_context(code: Code) {
    LOST_CONTEXT_CODE.store(code, Ordering::Relaxed);
}

pub fn lost_context_code() -> Code {
    LOST_CONTEXT_CODE.load(Ordering::Relaxed)
}

/// Records a misuse. A real driver would fail, or fail to detect it.
pub fn violation(text: String) {
    if variable("LOUD").is_some() {
        eprintln!("simulated GPU: {text}");
    }
    let mut call_log = call_log();
    if call_log.violations.len() < MAX_VIOLATIONS {
        call_log.violations.push(text);
    }
}

/// Records a misuse for which the call fails too.
pub fn refuse<T>(code: Code, text: String) -> Result<T, Code> {
    violation(text);
    Err(code)
}

/// Records a call that is legal, but suspicious.
pub fn note(text: String) {
    let mut call_log = call_log();
    if call_log.notes.len() < 1000 {
        call_log.notes.push(text);
    }
}

pub fn splitmix64(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

pub fn seed() -> u64 {
    drop(call_log()); // the environment has been read
    SEED.load(Ordering::Relaxed)
}

/// A behavior that is enabled only by name, or one of `MODES`.
pub fn behavior_is_set(name: &str) -> bool {
    let (set, modes) = {
        let call_log = call_log();
        (call_log.behaviors.get(name).copied(), call_log.modes)
    };
    // Another seed is another combination, so that a program that tries several seeds runs under
    // several combinations.
    let seed = splitmix64(modes) ^ SEED.load(Ordering::Relaxed);
    set.unwrap_or(modes != 0 && MODES.contains(&name) && chosen(name, seed))
}

/// A yes/no choice of the driver's unspecified behavior: by the seed, or set by name.
pub fn behavior(name: &str) -> bool {
    if let Some(&set) = call_log().behaviors.get(name) {
        return set;
    }
    match (name, SEED.load(Ordering::Relaxed)) {
        ("lazy", 0) => return true, // the simple case: nothing runs before it is waited for
        ("early" | "oldest_index", 0) => return false,
        _ => (),
    }
    chosen(name, SEED.load(Ordering::Relaxed))
}

fn chosen(name: &str, seed: u64) -> bool {
    let name = name
        .bytes()
        .fold(0u64, |hash, b| splitmix64(hash ^ u64::from(b)));
    splitmix64(name ^ seed) & 1 == 1
}

impl CallLog {
    /// The fault injected for this call, if any.
    fn count(&mut self, name: &'static str) -> Option<Code> {
        let count = self.calls.entry(name).or_insert(0);
        *count += 1;
        let count = *count;
        self.faults
            .iter()
            .find(|fault| fault.matches(name, count))
            .map(|fault| fault.code)
    }

    pub fn set_faults(&mut self, text: &str) {
        self.faults.clear();
        for part in text
            .split([',', ';'])
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            match Fault::parse(part) {
                Some(fault) => self.faults.push(fault),
                None => self.violations.push(format!(
                    "fault {part:?} is invalid; write function:call=code, e.g. cuvidCreateDecoder:3=2 or cuMemAlloc_v2:1+=2"
                )),
            }
        }
    }

    pub fn set_behaviors(&mut self, text: &str) {
        for part in text
            .split([',', ';'])
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let (name, value) = part.split_once('=').unwrap_or((part, "1"));
            self.behaviors.insert(name.to_owned(), value != "0");
        }
    }

    pub fn calls_of(&self, name: &str) -> u64 {
        self.calls.get(name).copied().unwrap_or(0)
    }

    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Resets to the state of a new process: no counts, violations or faults, and the context is
    /// not lost.
    pub fn reset(&mut self) {
        *self = CallLog {
            behaviors: std::mem::take(&mut self.behaviors),
            permanent_behaviors: std::mem::take(&mut self.permanent_behaviors),
            modes: self.modes,
            ..CallLog::default()
        };
        LOST_CONTEXT_CODE.store(0, Ordering::Relaxed);
    }

    pub fn reset_counts(&mut self) {
        self.calls.clear();
    }

    pub fn set_seed(&mut self, seed: u64) {
        SEED.store(seed, Ordering::Relaxed);
        self.behaviors = self.permanent_behaviors.clone();
    }
}
