//! Opens the shared library as the loader finds it, for one test at a time, and reads its
//! violations. The crates under test are not used: these tests check the simulated driver itself.
#![allow(unsafe_code, dead_code)]

use std::ffi::{CStr, CString, c_char};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock};

use libloading::Library;

pub mod demux;
pub mod player;

pub type Code = i32;

pub fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder: PathBuf = std::env::current_exe().unwrap().parent().unwrap().into();
        // SAFETY: the library's initializers are those of the C library and FFmpeg.
        unsafe { Library::new(folder.join("libsimulated_gpu.so")) }
            .expect("cargo builds the library for its tests")
    })
}

/// Calls a function by its name with these arguments; returns the CUresult.
#[macro_export]
macro_rules! call {
    ($name:ident($($argument:expr => $type:ty),* $(,)?)) => {{
        // SAFETY: the types are those of the C declaration; pointers outlive the call.
        unsafe {
            let f = $crate::common::library()
                .get::<unsafe extern "C" fn($($type),*) -> i32>(concat!(stringify!($name), "\0").as_bytes())
                .expect(stringify!($name));
            f($($argument),*)
        }
    }};
}

/// The control functions.
pub fn control<T: Copy>(name: &str) -> T {
    // SAFETY: callers pass the type of the declaration.
    unsafe { *library().get::<T>(name.as_bytes()).expect(name) }
}

/// Resets the state and gives exclusive use until the guard is dropped.
pub fn exclusive(behaviors: &str) -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(|e| e.into_inner());
    control::<extern "C" fn()>("simulated_gpu_reset")();
    control::<extern "C" fn(u64)>("simulated_gpu_set_seed")(0);
    set_behaviors(behaviors);
    guard
}

pub fn set_behaviors(behaviors: &str) {
    let behaviors = CString::new(behaviors).unwrap();
    control::<extern "C" fn(*const c_char)>("simulated_gpu_set_behaviors")(behaviors.as_ptr());
}

pub fn set_fault(fault: &str) {
    let fault = CString::new(fault).unwrap();
    control::<extern "C" fn(*const c_char)>("simulated_gpu_set_fault")(fault.as_ptr());
}

pub fn set_memory(bytes: u64) {
    control::<extern "C" fn(u64)>("simulated_gpu_set_memory")(bytes);
}

pub fn live(kind: &str) -> u64 {
    let kind = CString::new(kind).unwrap();
    control::<extern "C" fn(*const c_char) -> u64>("simulated_gpu_live_objects")(kind.as_ptr())
}

fn texts(count: &str, text: &str) -> Vec<String> {
    let count = control::<extern "C" fn() -> u64>(count)();
    let text = control::<extern "C" fn(u64) -> *const c_char>(text);
    let owned = |n| {
        // SAFETY: texts are C strings that are never freed.
        let text = unsafe { CStr::from_ptr(text(n)) };
        text.to_string_lossy().into_owned()
    };
    (0..count).map(owned).collect()
}

pub fn violations() -> Vec<String> {
    texts("simulated_gpu_violations", "simulated_gpu_violation_text")
}

pub fn notes() -> Vec<String> {
    texts("simulated_gpu_notes", "simulated_gpu_note_text")
}

/// Asserts that exactly one violation was recorded and contains this text, then clears it.
#[track_caller]
pub fn assert_violation(of: &str) {
    let all = violations();
    assert!(
        all.len() == 1 && all[0].contains(of),
        "expected one violation with {of:?}, got {all:#?}"
    );
    control::<extern "C" fn()>("simulated_gpu_reset")();
}

#[track_caller]
pub fn assert_no_violations() {
    assert_eq!(violations(), Vec::<String>::new());
}

/// The primary context of device 0, current on this thread.
pub fn context() -> usize {
    let mut context = 0usize;
    assert_eq!(call!(cuInit(0 => u32)), 0);
    assert_eq!(
        call!(cuDevicePrimaryCtxRetain(&mut context => *mut usize, 0 => i32)),
        0
    );
    assert_eq!(call!(cuCtxSetCurrent(context => usize)), 0);
    context
}

pub fn stream() -> usize {
    let mut stream = 0usize;
    assert_eq!(
        call!(cuStreamCreateWithPriority(&mut stream => *mut usize, 1 => u32, 0 => i32)),
        0
    );
    stream
}

pub fn allocate(bytes: usize) -> usize {
    let mut address = 0usize;
    assert_eq!(
        call!(cuMemAlloc_v2(&mut address => *mut usize, bytes => usize)),
        0
    );
    address
}
