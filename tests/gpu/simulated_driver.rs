//! Controls the simulated GPU: injects faults, selects behaviors, and reports live objects and API
//! violations.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};

use framespool::gpu::Gpu;
use framespool_nvdec::pool::DecoderPool;

/// The control functions of `tests/simulated_gpu`.
pub struct SimulatedGpu {
    library: *mut libc::c_void,
}

impl SimulatedGpu {
    /// Returns `None` (and prints a line) if the driver is a real one.
    pub fn open() -> Option<Self> {
        // SAFETY: the name is NUL-terminated; RTLD_NOLOAD only finds a library that is loaded
        // already.
        let library =
            unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        let this = Self { library };
        if library.is_null() || this.find(c"simulated_gpu_reset").is_null() {
            eprintln!("SKIPPED: faults need the simulated GPU (tests/simulated_gpu/build.sh)");
            return None;
        }
        this.reset();
        this.set_memory_bytes(64 << 30); // a failed test may have left little memory
        Some(this)
    }

    fn find(&self, name: &CStr) -> *mut libc::c_void {
        // SAFETY: the library is open and the name is NUL-terminated.
        unsafe { libc::dlsym(self.library, name.as_ptr()) }
    }

    /// # Safety
    /// `F` must be the function's type.
    unsafe fn function<F: Copy>(&self, name: &CStr) -> F {
        let found = self.find(name);
        assert!(!found.is_null(), "no function {name:?}");
        assert_eq!(size_of::<F>(), size_of::<*mut libc::c_void>());
        // SAFETY: converts a function's address to a function pointer of the same size; the caller
        // guarantees the type.
        unsafe { std::mem::transmute_copy(&found) }
    }

    fn number(&self, name: &CStr, text: Option<&str>) -> u64 {
        let text = text.map(|t| CString::new(t).expect("no zero inside"));
        match text {
            // SAFETY: the types are those of `control.rs`.
            Some(text) => unsafe {
                self.function::<extern "C" fn(*const c_char) -> u64>(name)(text.as_ptr())
            },
            // SAFETY: as above.
            None => unsafe { self.function::<extern "C" fn() -> u64>(name)() },
        }
    }

    /// Clears faults, call counts and violations.
    pub fn reset(&self) {
        // SAFETY: the type is that of `control.rs`.
        unsafe { self.function::<extern "C" fn()>(c"simulated_gpu_reset")() }
    }

    /// Sets a fault, "function:n=code" for the n-th call or "function:n+=code" for it and all later
    /// ones; empty for none.
    pub fn set_fault(&self, fault: &str) {
        let fault = CString::new(fault).expect("no zero inside");
        // SAFETY: the type is that of `control.rs`.
        unsafe {
            self.function::<extern "C" fn(*const c_char)>(c"simulated_gpu_set_fault")(
                fault.as_ptr(),
            )
        }
    }

    /// Selects another order of the work that events leave unordered.
    pub fn set_seed(&self, seed: u64) {
        // SAFETY: the type is that of `control.rs`.
        unsafe { self.function::<extern "C" fn(u64)>(c"simulated_gpu_set_seed")(seed) }
    }

    /// Sets optional behaviors by name: `name=0,name=1`.
    pub fn set_behaviors(&self, behaviors: &str) {
        let behaviors = CString::new(behaviors).expect("no zero inside");
        // SAFETY: the type is that of `control.rs`.
        unsafe {
            self.function::<extern "C" fn(*const c_char)>(c"simulated_gpu_set_behaviors")(
                behaviors.as_ptr(),
            )
        }
    }

    /// Whether a mode of `tests/simulated_gpu` is enabled, whether by its name or by a combination.
    pub fn behavior(&self, name: &str) -> bool {
        self.number(c"simulated_gpu_behavior", Some(name)) != 0
    }

    /// Sets the size of the device memory.
    #[allow(dead_code)]
    pub fn set_memory_bytes(&self, bytes: u64) {
        // SAFETY: the type is that of `control.rs`.
        unsafe { self.function::<extern "C" fn(u64)>(c"simulated_gpu_set_memory")(bytes) }
    }

    /// Returns the number of calls of a function since the last reset.
    pub fn calls(&self, function: &str) -> u64 {
        self.number(c"simulated_gpu_calls", Some(function))
    }

    /// Sets the numbers of calls to 0.
    pub fn reset_counts(&self) {
        // SAFETY: the type is that of `control.rs`.
        unsafe { self.function::<extern "C" fn()>(c"simulated_gpu_reset_counts")() }
    }

    /// Returns the number of calls of every function that was called since the last reset.
    pub fn all_calls(&self) -> Vec<(String, u64)> {
        // SAFETY: the type is that of `control.rs`; the text is never freed.
        let report = unsafe {
            let report =
                self.function::<extern "C" fn() -> *const c_char>(c"simulated_gpu_report")();
            CStr::from_ptr(report).to_string_lossy()
        };
        let calls = report
            .lines()
            .find_map(|line| line.trim().strip_prefix("\"calls\": {"));
        let calls = calls
            .expect("the report has calls")
            .trim_end_matches("},")
            .split(", ");
        let call = |text: &str| {
            let (function, count) = text.split_once(": ")?;
            Some((function.trim_matches('"').to_owned(), count.parse().ok()?))
        };
        calls.filter_map(call).collect()
    }

    /// Returns the number of live objects of a kind, such as `allocations`, `streams` or `events`.
    pub fn live(&self, kind: &str) -> u64 {
        self.number(c"simulated_gpu_live_objects", Some(kind))
    }

    /// Returns the bytes of device memory in use.
    pub fn memory_bytes(&self) -> u64 {
        self.number(c"simulated_gpu_memory_bytes", None)
    }

    /// Asserts that no call violated the rules of the driver API.
    pub fn assert_clean(&self, what: &str) {
        let count = self.number(c"simulated_gpu_violations", None);
        let text = |at: u64| {
            // SAFETY: the type is that of `control.rs`; the text is never freed.
            unsafe {
                let found = self.function::<extern "C" fn(u64) -> *const c_char>(
                    c"simulated_gpu_violation_text",
                )(at);
                if found.is_null() {
                    String::new()
                } else {
                    CStr::from_ptr(found).to_string_lossy().into_owned()
                }
            }
        };
        let texts: Vec<String> = (0..count.min(5)).map(text).collect();
        assert!(count == 0, "{what}: {count} violations: {texts:#?}");
    }

    /// Returns the numbers of live objects after the process's decoder pool was emptied.
    pub fn live_objects(&self, gpu: &Gpu) -> Vec<(&'static str, u64)> {
        DecoderPool::for_device(gpu.device())
            .expect("there are engines")
            .clear();
        let kinds = [
            "streams",
            "events",
            "mapped",
            "parsers",
            "decoders",
            "allocations",
        ];
        kinds.map(|kind| (kind, self.live(kind))).to_vec()
    }

    /// Returns the numbers of live nvJPEG objects, except instances, which exist until the process
    /// ends.
    #[allow(dead_code)]
    pub fn live_jpeg_objects(&self) -> Vec<(&'static str, u64)> {
        ["jpeg_states", "jpeg_headers"]
            .map(|kind| (kind, self.live(kind)))
            .to_vec()
    }
}
