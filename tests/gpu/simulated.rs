//! The simulated GPU, from the inside: its faults and moods, and what it complains of.
#![allow(unsafe_code)]

use std::ffi::{c_char, CStr, CString};

use framespool::gpu::Gpu;
use framespool_nvdec::pool::DecoderPool;

/// Control functions of `tests/simulated_gpu`.
pub struct Simulated {
    library: *mut libc::c_void,
}

impl Simulated {
    /// `None` (with a line that says so) where the driver is a real one.
    pub fn open() -> Option<Self> {
        // SAFETY: a name with its zero; nothing is loaded that is not loaded already.
        let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        let this = Self { library };
        if library.is_null() || this.find(c"simulated_gpu_reset").is_null() {
            eprintln!("SKIPPED: faults need the simulated GPU (tests/simulated_gpu/folder.sh)");
            return None;
        }
        this.reset();
        this.set_memory(64 << 30); // a test that failed may have left little
        Some(this)
    }

    fn find(&self, name: &CStr) -> *mut libc::c_void {
        // SAFETY: an open library and a name with its zero.
        unsafe { libc::dlsym(self.library, name.as_ptr()) }
    }

    /// # Safety
    /// `F` must be the function's type.
    unsafe fn function<F: Copy>(&self, name: &CStr) -> F {
        let found = self.find(name);
        assert!(!found.is_null(), "no function {name:?}");
        assert_eq!(size_of::<F>(), size_of::<*mut libc::c_void>());
        // SAFETY: a function's address as a function pointer of the same size; the caller answers for the type.
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

    /// No faults, counts and complaints from here on.
    pub fn reset(&self) {
        // SAFETY: the type is that of `control.rs`.
        unsafe { self.function::<extern "C" fn()>(c"simulated_gpu_reset")() }
    }

    /// "function:n=code" or "function:n+=code"; empty for none.
    pub fn set_fault(&self, fault: &str) {
        let fault = CString::new(fault).expect("no zero inside");
        // SAFETY: the type is that of `control.rs`.
        unsafe { self.function::<extern "C" fn(*const c_char)>(c"simulated_gpu_set_fault")(fault.as_ptr()) }
    }

    /// Another order of what events leave open.
    pub fn set_seed(&self, seed: u64) {
        // SAFETY: the type is that of `control.rs`.
        unsafe { self.function::<extern "C" fn(u64)>(c"simulated_gpu_set_seed")(seed) }
    }

    /// Choices by their names: `name=0,name=1`.
    pub fn set_moods(&self, moods: &str) {
        let moods = CString::new(moods).expect("no zero inside");
        // SAFETY: the type is that of `control.rs`.
        unsafe { self.function::<extern "C" fn(*const c_char)>(c"simulated_gpu_set_moods")(moods.as_ptr()) }
    }

    /// How much memory there is.
    #[allow(dead_code)]
    pub fn set_memory(&self, bytes: u64) {
        // SAFETY: the type is that of `control.rs`.
        unsafe { self.function::<extern "C" fn(u64)>(c"simulated_gpu_set_memory")(bytes) }
    }

    /// Calls of a function since the last reset.
    pub fn calls(&self, function: &str) -> u64 {
        self.number(c"simulated_gpu_calls", Some(function))
    }

    /// How many of `allocations`, `streams`, `events` and others there are.
    pub fn live(&self, kind: &str) -> u64 {
        self.number(c"simulated_gpu_live_objects", Some(kind))
    }

    /// Bytes of memory that are used.
    pub fn memory_bytes(&self) -> u64 {
        self.number(c"simulated_gpu_memory_bytes", None)
    }

    /// Nothing was done that a driver forbids.
    pub fn assert_clean(&self, what: &str) {
        let count = self.number(c"simulated_gpu_violations", None);
        let text = |at: u64| {
            // SAFETY: the type is that of `control.rs`; the text lasts.
            unsafe {
                let found =
                    self.function::<extern "C" fn(u64) -> *const c_char>(c"simulated_gpu_violation_text")(at);
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

    /// What is live once the process's pool of decoders is empty.
    pub fn left(&self, gpu: &Gpu) -> Vec<(&'static str, u64)> {
        DecoderPool::of(gpu.device()).expect("there are engines").clear();
        let kinds = ["streams", "events", "mapped", "parsers", "decoders", "allocations"];
        kinds.map(|kind| (kind, self.live(kind))).to_vec()
    }

    /// What of nvJPEG's is live, but for its instances, which last.
    #[allow(dead_code)]
    pub fn left_of_jpeg(&self) -> Vec<(&'static str, u64)> {
        ["jpeg_states", "jpeg_headers"].map(|kind| (kind, self.live(kind))).to_vec()
    }
}
