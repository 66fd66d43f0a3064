//! Implements allocation, free and memory queries. Memory is fenced; a free first runs all pending
//! work, as a driver does.
#![allow(unsafe_code, non_snake_case)]

use std::ffi::c_void;

use super::{driver, read, write};
use crate::call_log::{Code, INVALID_VALUE, NOT_SUPPORTED, note, refuse};
use crate::driver_state::memory::AllocationKind;
use crate::driver_state::{CONTEXT_BASE, current, driver_state};

fn allocate(out: *mut usize, bytes: usize, kind: AllocationKind, call: &str) -> Result<(), Code> {
    let device = current(call)?;
    let address = driver_state().memory.allocate(bytes, kind, device)?;
    write(out, address, "address")
}

fn free(address: usize, pinned: bool, call: &str) -> Result<(), Code> {
    let device = current(call)?;
    if address == 0 {
        return Ok(()); // as free(NULL)
    }
    let mut driver_state = driver_state();
    let (kind, waiting) = match driver_state.memory.find(address) {
        Some(a) => (Some(a.kind), driver_state.pending_access(a.base, a.bytes)),
        None => (None, None),
    };
    match kind {
        Some(AllocationKind::Pinned | AllocationKind::Registered) if !pinned => {
            return refuse(
                INVALID_VALUE,
                format!("{call} of pinned memory at {address:#x}"),
            );
        }
        Some(AllocationKind::Device) if pinned => {
            return refuse(
                INVALID_VALUE,
                format!("{call} of device memory at {address:#x}"),
            );
        }
        Some(AllocationKind::Surface { .. }) => {
            return refuse(
                INVALID_VALUE,
                format!("{call} of a decoder's surface at {address:#x}"),
            );
        }
        _ => (),
    }
    if let Some(label) = waiting {
        note(format!(
            "{call} of {address:#x} while {label} was waiting to run on it: the free waits for the device"
        ));
    }
    driver_state.synchronize_device(device)?;
    driver_state.memory.free(address, call)
}

fn attribute(which: i32, address: usize, out: *mut c_void) -> Result<(), Code> {
    let (base, bytes, kind, device) = {
        let driver_state = driver_state();
        match driver_state.memory.find(address) {
            Some(a) => (a.base, a.bytes, a.kind, a.device),
            None => return Err(INVALID_VALUE), // any other pointer of the process: no misuse to ask
        }
    };
    let host = matches!(kind, AllocationKind::Pinned | AllocationKind::Registered);
    match which {
        1 => write(out.cast(), CONTEXT_BASE + device * 0x1000, "context"),
        2 => write(out.cast(), if host { 1u32 } else { 2 }, "memory type"),
        3 => write(out.cast(), address, "device pointer"),
        4 if host => write(out.cast(), address, "host pointer"),
        7 => write(out.cast(), base as u64, "buffer id"),
        6 | 8 => write(out.cast(), 0u32, "flag"),
        9 => write(out.cast(), device as i32, "ordinal"),
        11 => write(out.cast(), base, "start"),
        12 => write(out.cast(), bytes, "size"),
        _ => Err(NOT_SUPPORTED),
    }
}

driver! {
    fn cuMemAlloc_v2(address: *mut usize, bytes: usize) { allocate(address, bytes, AllocationKind::Device, "cuMemAlloc_v2") }
    fn cuMemFree_v2(address: usize) { free(address, false, "cuMemFree_v2") }
    fn cuMemAllocHost_v2(address: *mut usize, bytes: usize) { allocate(address, bytes, AllocationKind::Pinned, "cuMemAllocHost_v2") }
    fn cuMemHostAlloc(address: *mut usize, bytes: usize, flags: u32) {
        let _ = flags;
        allocate(address, bytes, AllocationKind::Pinned, "cuMemHostAlloc")
    }
    fn cuMemFreeHost(address: usize) { free(address, true, "cuMemFreeHost") }
    fn cuMemHostRegister_v2(address: usize, bytes: usize, flags: u32) {
        let device = current("cuMemHostRegister_v2")?;
        let _ = flags;
        driver_state().memory.register(address, bytes, device)
    }
    fn cuMemHostUnregister(address: usize) { free(address, true, "cuMemHostUnregister") }
    fn cuMemHostGetDevicePointer_v2(out: *mut usize, host: usize, flags: u32) {
        current("cuMemHostGetDevicePointer_v2")?;
        let _ = flags;
        driver_state().memory.check(host, 1, "cuMemHostGetDevicePointer_v2")?;
        write(out, host, "device pointer")
    }
    fn cuMemGetAddressRange_v2(base: *mut usize, bytes: *mut usize, address: usize) {
        current("cuMemGetAddressRange_v2")?;
        driver_state().memory.check(address, 1, "cuMemGetAddressRange_v2")?;
        let found = driver_state().memory.find(address).map(|a| (a.base, a.bytes));
        let (start, size) = found.ok_or(INVALID_VALUE)?;
        if !base.is_null() {
            write(base, start, "base")?;
        }
        if !bytes.is_null() {
            write(bytes, size, "bytes")?;
        }
        Ok(())
    }
    fn cuPointerGetAttribute(out: *mut c_void, which: i32, address: usize) { attribute(which, address, out) }
    fn cuPointerGetAttributes(count: u32, which: *const i32, out: *const *mut c_void, address: usize) {
        for at in 0..count as usize {
            let (which, out) = (read(which.wrapping_add(at), "attribute")?, read(out.wrapping_add(at), "result")?);
            if attribute(which, address, out).is_err() && matches!(which, 1 | 2 | 3 | 4 | 11 | 12) {
                // Unknown pointers are no error here: their answers are zeros.
                if which == 2 { write(out.cast(), 0u32, "zero")? } else { write(out.cast(), 0usize, "zero")? }
            }
        }
        Ok(())
    }
}
