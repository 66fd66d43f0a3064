//! Implements the lookup of error texts by code, and of functions by name.
#![allow(unsafe_code, non_snake_case)]

use std::ffi::{CStr, CString, c_char, c_void};

use super::{driver, write};
use crate::call_log::{Code, INVALID_VALUE, NOT_FOUND};

const NAMES: [(Code, &CStr, &CStr); 23] = [
    (0, c"CUDA_SUCCESS", c"no error"),
    (1, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
    (2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
    (3, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error"),
    (4, c"CUDA_ERROR_DEINITIALIZED", c"driver shutting down"),
    (
        100,
        c"CUDA_ERROR_NO_DEVICE",
        c"no CUDA-capable device is detected",
    ),
    (101, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
    (
        201,
        c"CUDA_ERROR_INVALID_CONTEXT",
        c"invalid device context",
    ),
    (
        205,
        c"CUDA_ERROR_MAP_FAILED",
        c"mapping of buffer object failed",
    ),
    (
        206,
        c"CUDA_ERROR_UNMAP_FAILED",
        c"unmapping of buffer object failed",
    ),
    (
        209,
        c"CUDA_ERROR_NO_BINARY_FOR_GPU",
        c"no kernel image is available for execution on the device",
    ),
    (
        218,
        c"CUDA_ERROR_INVALID_PTX",
        c"a PTX JIT compilation failed",
    ),
    (
        222,
        c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        c"the provided PTX was compiled with an unsupported toolchain.",
    ),
    (
        300,
        c"CUDA_ERROR_INVALID_SOURCE",
        c"device kernel image is invalid",
    ),
    (
        400,
        c"CUDA_ERROR_INVALID_HANDLE",
        c"invalid resource handle",
    ),
    (500, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
    (600, c"CUDA_ERROR_NOT_READY", c"device not ready"),
    (
        700,
        c"CUDA_ERROR_ILLEGAL_ADDRESS",
        c"an illegal memory access was encountered",
    ),
    (
        701,
        c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
        c"too many resources requested for launch",
    ),
    (
        702,
        c"CUDA_ERROR_LAUNCH_TIMEOUT",
        c"the launch timed out and was terminated",
    ),
    (
        719,
        c"CUDA_ERROR_LAUNCH_FAILED",
        c"unspecified launch failure",
    ),
    (801, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported"),
    (999, c"CUDA_ERROR_UNKNOWN", c"unknown error"),
];

fn row(code: Code) -> Option<&'static (Code, &'static CStr, &'static CStr)> {
    NAMES.iter().find(|row| row.0 == code)
}

driver! {
    fn cuGetErrorName(code: i32, out: *mut *const c_char) {
        match row(code) {
            Some(row) => write(out, row.1.as_ptr(), "name"),
            None => { write(out, std::ptr::null(), "name")?; Err(INVALID_VALUE) }
        }
    }
    fn cuGetErrorString(code: i32, out: *mut *const c_char) {
        match row(code) {
            Some(row) => write(out, row.2.as_ptr(), "text"),
            None => { write(out, std::ptr::null(), "text")?; Err(INVALID_VALUE) }
        }
    }
}

/// The newest version of a function that this library exports.
pub fn find(name: &str, out: *mut usize) -> Result<(), Code> {
    let here: *const c_void = row as fn(Code) -> _ as *const c_void;
    let mut found: *mut c_void = std::ptr::null_mut();
    // SAFETY: `dladdr` fills the struct for an address of this library. The name in it lives as
    // long as the library, which `dlopen` with NOLOAD only finds again (one more reference,
    // intentionally: it is never unloaded).
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(here, &mut info) != 0 && !info.dli_fname.is_null() {
            let library = libc::dlopen(info.dli_fname, libc::RTLD_NOLOAD | libc::RTLD_LAZY);
            for version in ["_v2", ""] {
                let Ok(symbol) = CString::new(format!("{name}{version}")) else {
                    continue;
                };
                if found.is_null() && !library.is_null() {
                    found = libc::dlsym(library, symbol.as_ptr());
                }
            }
        }
    }
    write(out, found as usize, "address")?;
    if found.is_null() {
        Err(NOT_FOUND)
    } else {
        Ok(())
    }
}
