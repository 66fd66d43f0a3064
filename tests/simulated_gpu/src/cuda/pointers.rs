//! Reads and writes values through raw pointers of C calls; a null pointer is an error. No pointer
//! is kept.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};

use crate::call_log::{Code, INVALID_VALUE, refuse};

/// Writes an out-parameter.
pub fn write<T>(to: *mut T, value: T, name: &str) -> Result<(), Code> {
    if to.is_null() {
        return refuse(
            INVALID_VALUE,
            format!("{name}: a null pointer for a result"),
        );
    }
    // SAFETY: an out-parameter of a C call; its validity is the caller's responsibility, as with
    // the real driver.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// Reads a struct that a C call points at.
pub fn read<T: Copy>(from: *const T, name: &str) -> Result<T, Code> {
    if from.is_null() {
        return refuse(
            INVALID_VALUE,
            format!("{name}: a null pointer for a parameter"),
        );
    }
    // SAFETY: an in-parameter of a C call; its validity is the caller's responsibility, as with the
    // real driver.
    Ok(unsafe { from.read_unaligned() })
}

/// Bytes at a pointer of a C call. Valid during the call.
pub fn slice<'a>(from: *const u8, bytes: usize, name: &str) -> Result<&'a [u8], Code> {
    if from.is_null() && bytes > 0 {
        return refuse(
            INVALID_VALUE,
            format!("{name}: a null pointer to {bytes} bytes"),
        );
    }
    if bytes == 0 {
        return Ok(&[]);
    }
    // SAFETY: as above; the slice is used within the call only.
    Ok(unsafe { std::slice::from_raw_parts(from, bytes) })
}

/// A C string.
pub fn text(from: *const c_char, name: &str) -> Result<String, Code> {
    if from.is_null() {
        return refuse(INVALID_VALUE, format!("{name}: a null pointer for a text"));
    }
    // SAFETY: a C string of the caller's.
    Ok(unsafe { CStr::from_ptr(from) }
        .to_string_lossy()
        .into_owned())
}
