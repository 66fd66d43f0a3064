//! Implements streams: creation, waits, queries and ordering of their queues. Use of a destroyed
//! handle is a violation.
#![allow(unsafe_code, non_snake_case)]

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::{driver, write};
use crate::call_log::{Code, INVALID_HANDLE, INVALID_VALUE, NOT_READY, refuse};
use crate::driver_state::race::StreamId;
use crate::driver_state::streams::Stream;
use crate::driver_state::{CONTEXT_BASE, current, driver_state};

/// The stream that a graph captures; 0 if there is none.
pub static CAPTURING: AtomicU64 = AtomicU64::new(0);

fn create(out: *mut usize, flags: u32, priority: i32, call: &str) -> Result<(), Code> {
    let device = current(call)?;
    if flags > 1 {
        return refuse(INVALID_VALUE, format!("{call} with flags {flags:#x}"));
    }
    let mut driver_state = driver_state();
    let id = driver_state.handle();
    let mut stream = Stream::new(device, flags == 0);
    stream.priority = priority.clamp(-5, 0);
    driver_state.streams.insert(id as StreamId, stream);
    write(out, id, "stream")
}

driver! {
    fn cuStreamCreate(out: *mut usize, flags: u32) { create(out, flags, 0, "cuStreamCreate") }
    fn cuStreamCreateWithPriority(out: *mut usize, flags: u32, priority: i32) {
        create(out, flags, priority, "cuStreamCreateWithPriority")
    }
    fn cuStreamDestroy_v2(raw: usize) {
        let device = current("cuStreamDestroy_v2")?;
        if raw <= 2 {
            return refuse(INVALID_HANDLE, "cuStreamDestroy of a default stream".into());
        }
        let mut driver_state = driver_state();
        let id = driver_state.stream(raw, device, "cuStreamDestroy_v2")?;
        if let Some(stream) = driver_state.streams.get_mut(&id) {
            stream.destroyed = true; // work already in it still runs
            if stream.queue.is_empty() {
                driver_state.streams.remove(&id);
            }
        }
        Ok(())
    }
    fn cuStreamSynchronize(raw: usize) {
        let device = current("cuStreamSynchronize")?;
        let mut driver_state = driver_state();
        let id = driver_state.stream(raw, device, "cuStreamSynchronize")?;
        driver_state.synchronize(id)
    }
    fn cuStreamQuery(raw: usize) {
        let device = current("cuStreamQuery")?;
        let mut driver_state = driver_state();
        let id = driver_state.stream(raw, device, "cuStreamQuery")?;
        let op_index = driver_state.streams.get(&id).map_or(0, |s| s.submitted);
        if driver_state.query(id, op_index) { driver_state.synchronize(id) } else { Err(NOT_READY) }
    }
    fn cuStreamWaitEvent(raw: usize, event: usize, flags: u32) {
        let device = current("cuStreamWaitEvent")?;
        let _ = flags;
        let mut driver_state = driver_state();
        let id = driver_state.stream(raw, device, "cuStreamWaitEvent")?;
        let Some(event) = driver_state.events.get(&event) else {
            return refuse(INVALID_HANDLE, format!("cuStreamWaitEvent: {event:#x} is no live event"));
        };
        if let Some((other, op_index, clock)) = event.recorded.clone() {
            driver_state.wait(id, (other, op_index, &clock));
        }
        Ok(())
    }
    fn cuStreamIsCapturing(raw: usize, status: *mut u32) {
        let device = current("cuStreamIsCapturing")?;
        let id = { driver_state().stream(raw, device, "cuStreamIsCapturing")? };
        write(status, u32::from(CAPTURING.load(Relaxed) == id), "status")
    }
    fn cuStreamGetCtx(raw: usize, context: *mut usize) {
        let device = current("cuStreamGetCtx")?;
        let id = { driver_state().stream(raw, device, "cuStreamGetCtx")? };
        let device = driver_state().streams.get(&id).map_or(device, |s| s.device);
        write(context, CONTEXT_BASE + device * 0x1000, "context")
    }
    fn cuStreamGetPriority(raw: usize, priority: *mut i32) {
        let device = current("cuStreamGetPriority")?;
        let id = { driver_state().stream(raw, device, "cuStreamGetPriority")? };
        let value = driver_state().streams.get(&id).map_or(0, |s| s.priority);
        write(priority, value, "priority")
    }
    fn cuStreamGetFlags(raw: usize, flags: *mut u32) {
        let device = current("cuStreamGetFlags")?;
        let id = { driver_state().stream(raw, device, "cuStreamGetFlags")? };
        let blocking = driver_state().streams.get(&id).is_none_or(|s| s.blocking);
        write(flags, u32::from(!blocking), "flags")
    }
}
