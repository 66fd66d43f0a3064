//! In: every call of an exported function; every misuse that the rest of the crate sees.
//! Out: counts, faults put in on purpose, the lists of violations and notes, seeded choices.
//! Never: takes another lock of this crate while it holds its own.

use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
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

/// More of them are not kept: one mistake in a loop says nothing new.
const VIOLATIONS: usize = 2000;

/// Errors after which the process' context is gone: every later call says the same.
const STICKY: [Code; 8] = [700, 702, 710, 714, 715, 716, 717, 719];

#[derive(Default)]
pub struct Ledger {
    calls: BTreeMap<&'static str, u64>,
    faults: Vec<Fault>,
    violations: Vec<String>,
    notes: Vec<String>,
    moods: BTreeMap<String, bool>,
}

static LEDGER: OnceLock<Mutex<Ledger>> = OnceLock::new();
static SEED: AtomicU64 = AtomicU64::new(0);
/// The process that called first; another one is a child of `fork`, in which CUDA does not work.
static OWNER: AtomicU32 = AtomicU32::new(0);
static LOST: AtomicI32 = AtomicI32::new(0);
static OVER: AtomicBool = AtomicBool::new(false);

pub fn variable(name: &str) -> Option<String> {
    std::env::var(format!("FRAMESPOOL_SIMULATED_{name}")).ok().filter(|v| !v.is_empty())
}

fn from_environment() -> Mutex<Ledger> {
    SEED.store(variable("SEED").and_then(|s| s.parse().ok()).unwrap_or(0), Ordering::Relaxed);
    let mut ledger = Ledger::default();
    ledger.set_moods(&variable("MOODS").unwrap_or_default());
    if let Some(text) = variable("FAULT") {
        ledger.set_faults(&text);
    }
    report::at_exit();
    Mutex::new(ledger)
}

pub fn ledger() -> MutexGuard<'static, Ledger> {
    LEDGER.get_or_init(from_environment).lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Every exported function of the drivers goes through here.
pub fn entry(name: &'static str, call: impl FnOnce() -> Result<(), Code>) -> Code {
    entry_of(name, |code| code, call)
}

/// As `entry`, for a library with codes of its own: `translate` puts into them what is said for it here. What the call itself answers
/// and faults made on purpose are in its codes already.
pub fn entry_of(
    name: &'static str,
    translate: fn(Code) -> Code,
    call: impl FnOnce() -> Result<(), Code>,
) -> Code {
    let pid = std::process::id();
    match OWNER.compare_exchange(0, pid, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => (),
        Err(owner) if owner == pid => (),
        // A forked child; its copy of our locks may be held by a thread that it does not have.
        Err(_) => return translate(NOT_INITIALIZED),
    }
    if OVER.load(Ordering::Relaxed) {
        return translate(DEINITIALIZED);
    }
    if let Some(code) = ledger().count(name) {
        lose_if_sticky(code);
        return code;
    }
    let lost = LOST.load(Ordering::Relaxed);
    if lost != 0 && !name.starts_with("cuGetError") {
        return translate(lost);
    }
    if crate::cuda::is_forbidden(name) {
        violation(format!("{name} while another thread captures a graph"));
        return translate(CAPTURE_UNSUPPORTED);
    }
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => {
            lose_if_sticky(code);
            code
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
            violation(format!("{name}: the simulated GPU itself panicked: {text}"));
            translate(UNKNOWN)
        }
    }
}

fn lose_if_sticky(code: Code) {
    if STICKY.contains(&code) {
        LOST.store(code, Ordering::Relaxed);
    }
}

/// The context is gone, as after an illegal address in a kernel.
pub fn lose(code: Code) {
    LOST.store(code, Ordering::Relaxed);
}

pub fn lost() -> Code {
    LOST.load(Ordering::Relaxed)
}

/// Misuse: a driver would fail, or worse, would not.
pub fn violation(text: String) {
    if variable("LOUD").is_some() {
        eprintln!("simulated GPU: {text}");
    }
    let mut ledger = ledger();
    if ledger.violations.len() < VIOLATIONS {
        ledger.violations.push(text);
    }
}

/// Misuse for which the call fails too.
pub fn refuse<T>(code: Code, text: String) -> Result<T, Code> {
    violation(text);
    Err(code)
}

/// Legal, but worth a look.
pub fn note(text: String) {
    let mut ledger = ledger();
    if ledger.notes.len() < 1000 {
        ledger.notes.push(text);
    }
}

pub fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

pub fn seed() -> u64 {
    drop(ledger()); // the environment has been read
    SEED.load(Ordering::Relaxed)
}

/// A mood that is never on by itself.
pub fn mood_set(name: &str) -> bool {
    ledger().moods.get(name).copied().unwrap_or(false)
}

/// One yes or no of the driver's unspecified behaviour: the seed's choice, or the one set by name.
pub fn mood(name: &str) -> bool {
    if let Some(&set) = ledger().moods.get(name) {
        return set;
    }
    match (name, SEED.load(Ordering::Relaxed)) {
        ("lazy", 0) => return true, // the plain case: nothing runs before somebody waits for it
        ("early" | "oldest_index", 0) => return false,
        _ => (),
    }
    let name = name.bytes().fold(0u64, |hash, b| mix(hash ^ u64::from(b)));
    mix(name ^ SEED.load(Ordering::Relaxed)) & 1 == 1
}

impl Ledger {
    /// The fault that was ordered for this call, if one was.
    fn count(&mut self, name: &'static str) -> Option<Code> {
        let count = self.calls.entry(name).or_insert(0);
        *count += 1;
        let count = *count;
        self.faults.iter().find(|fault| fault.hits(name, count)).map(|fault| fault.code)
    }

    pub fn set_faults(&mut self, text: &str) {
        self.faults.clear();
        for part in text.split([',', ';']).map(str::trim).filter(|part| !part.is_empty()) {
            match Fault::parse(part) {
                Some(fault) => self.faults.push(fault),
                None => self.violations.push(format!(
                    "fault {part:?} is not understood; write function:call=code, e.g. cuvidCreateDecoder:3=2 or cuMemAlloc_v2:1+=2"
                )),
            }
        }
    }

    pub fn set_moods(&mut self, text: &str) {
        for part in text.split([',', ';']).map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, "1"));
            self.moods.insert(name.to_owned(), value != "0");
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

    /// As at the start of a process: counts, violations and faults gone, a lost context found again.
    pub fn reset(&mut self) {
        *self = Ledger { moods: std::mem::take(&mut self.moods), ..Ledger::default() };
        LOST.store(0, Ordering::Relaxed);
    }

    pub fn reset_counts(&mut self) {
        self.calls.clear();
    }

    pub fn set_seed(&mut self, seed: u64) {
        SEED.store(seed, Ordering::Relaxed);
        self.moods.clear();
    }
}
