//! Implements context calls: one primary context per device, current on a thread or not.
//! Other contexts cannot be created, because sharing memory with torch requires the primary one.
#![allow(unsafe_code, non_snake_case)]

use super::device::device;
use std::cell::Cell;

use super::{driver, read, write};
use crate::call_log::{INVALID_CONTEXT, INVALID_VALUE, behavior_is_set, refuse};
use crate::driver_state::{
    CONTEXT_BASE, current, driver_state, peek, pop_current, push_current, set_current,
};

fn handle(device: Option<usize>) -> usize {
    device.map_or(0, |d| CONTEXT_BASE + d * 0x1000)
}

thread_local! {
    /// How this thread's calls interact with captures of other threads, as numbered in
    /// `CUstreamCaptureMode`.
    static CAPTURE_MODE: Cell<i32> = const { Cell::new(0) };
}

/// Calls that a capture in mode "global" forbids to all threads that are not relaxed, and that
/// invalidate it; one always invalidates it.
pub fn is_forbidden(call: &str) -> bool {
    const UNSAFE: [&str; 9] = [
        "cuEventQuery",
        "cuEventSynchronize",
        "cuStreamSynchronize",
        "cuMemAlloc_v2",
        "cuMemFree_v2",
        "cuModuleLoadDataEx",
        "cuModuleUnload",
        "cuvidCreateDecoder",
        "cuvidDestroyDecoder",
    ];
    const RELAXED: i32 = 2;
    let spoils =
        call == "cuCtxSynchronize" || (UNSAFE.contains(&call) && CAPTURE_MODE.get() != RELAXED);
    spoils && behavior_is_set("captured")
}

driver! {
    fn cuThreadExchangeStreamCaptureMode(mode: *mut i32) {
        let wanted = read(mode, "mode")?;
        if !(0..=2).contains(&wanted) {
            return refuse(INVALID_VALUE, format!("cuThreadExchangeStreamCaptureMode: {wanted} is not a mode"));
        }
        write(mode, CAPTURE_MODE.replace(wanted), "mode")
    }
    fn cuDevicePrimaryCtxRetain(context: *mut usize, ordinal: i32) {
        let device = device(ordinal, "cuDevicePrimaryCtxRetain")?;
        driver_state().devices[device].retained += 1;
        write(context, handle(Some(device)), "context")
    }
    fn cuDevicePrimaryCtxRelease_v2(ordinal: i32) {
        let device = device(ordinal, "cuDevicePrimaryCtxRelease")?;
        let mut driver_state = driver_state();
        if driver_state.devices[device].retained == 0 {
            return refuse(INVALID_CONTEXT, "more cuDevicePrimaryCtxRelease calls than retains".into());
        }
        driver_state.devices[device].retained -= 1;
        Ok(())
    }
    fn cuDevicePrimaryCtxGetState(ordinal: i32, flags: *mut u32, active: *mut i32) {
        let device = device(ordinal, "cuDevicePrimaryCtxGetState")?;
        let (context_flags, retained) = { let w = driver_state(); (w.devices[device].context_flags, w.devices[device].retained) };
        write(flags, context_flags, "flags")?;
        write(active, i32::from(retained > 0), "active")
    }
    fn cuDevicePrimaryCtxSetFlags_v2(ordinal: i32, flags: u32) {
        let device = device(ordinal, "cuDevicePrimaryCtxSetFlags")?;
        driver_state().devices[device].context_flags = flags;
        Ok(())
    }
    fn cuCtxSetCurrent(context: usize) {
        let device = driver_state().device_of_context(context, "cuCtxSetCurrent")?;
        set_current(device);
        Ok(())
    }
    fn cuCtxGetCurrent(context: *mut usize) { write(context, handle(peek()), "context") }
    fn cuCtxPushCurrent_v2(context: usize) {
        let device = driver_state().device_of_context(context, "cuCtxPushCurrent")?;
        push_current(device);
        Ok(())
    }
    fn cuCtxPopCurrent_v2(context: *mut usize) {
        match pop_current() {
            Some(device) if context.is_null() => { let _ = device; Ok(()) }
            Some(device) => write(context, handle(device), "context"),
            None => refuse(INVALID_CONTEXT, "cuCtxPopCurrent on an empty stack".into()),
        }
    }
    fn cuCtxGetDevice(out: *mut i32) { write(out, current("cuCtxGetDevice")? as i32, "device") }
    fn cuCtxSynchronize() {
        let device = current("cuCtxSynchronize")?;
        driver_state().synchronize_device(device)
    }
    fn cuCtxGetStreamPriorityRange(least: *mut i32, greatest: *mut i32) {
        current("cuCtxGetStreamPriorityRange")?;
        if !least.is_null() {
            write(least, 0, "least")?;
        }
        if !greatest.is_null() {
            write(greatest, -5, "greatest")?;
        }
        Ok(())
    }
    fn cuCtxGetFlags(flags: *mut u32) {
        let device = current("cuCtxGetFlags")?;
        let value = driver_state().devices[device].context_flags;
        write(flags, value, "flags")
    }
    fn cuCtxGetApiVersion(context: usize, version: *mut u32) {
        driver_state().device_of_context(context, "cuCtxGetApiVersion")?;
        write(version, 3020, "version")
    }
    fn cuCtxGetLimit(value: *mut usize, limit: i32) {
        current("cuCtxGetLimit")?;
        let _ = limit;
        write(value, 1024, "value")
    }
}
