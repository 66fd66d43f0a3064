//! Implements events: positions in streams that can be waited for. Elapsed times are meaningless.
#![allow(unsafe_code, non_snake_case)]

use std::sync::atomic::Ordering::Relaxed;

use super::streams::CAPTURING;
use super::{driver, write};
use crate::call_log::{Code, INVALID_HANDLE, NOT_READY, refuse};
use crate::driver_state::race::{StreamId, VectorClock};
use crate::driver_state::{Event, current, driver_state};

fn recorded(event: usize, call: &str) -> Result<Option<(StreamId, u64, VectorClock)>, Code> {
    match driver_state().events.get(&event) {
        Some(event) => Ok(event.recorded.clone()),
        None => refuse(
            INVALID_HANDLE,
            format!("{call}: {event:#x} is no live event"),
        ),
    }
}

driver! {
    fn cuEventCreate(out: *mut usize, flags: u32) {
        let device = current("cuEventCreate")?;
        let mut driver_state = driver_state();
        let id = driver_state.handle();
        driver_state.events.insert(id, Event { device, timed: flags & 2 == 0, recorded: None });
        write(out, id, "event")
    }
    fn cuEventRecord(event: usize, raw: usize) {
        let device = current("cuEventRecord")?;
        recorded(event, "cuEventRecord")?;
        let mut driver_state = driver_state();
        let id = driver_state.stream(raw, device, "cuEventRecord")?;
        if CAPTURING.load(Relaxed) == id {
            return refuse(INVALID_HANDLE, "cuEventRecord on a stream that a graph captures".into());
        }
        if driver_state.events.get(&event).is_some_and(|e| e.device != device) {
            return refuse(INVALID_HANDLE, "cuEventRecord of an event of another device".into());
        }
        let op_index = driver_state.submit(id, "event".into(), Vec::new(), Box::new(|| Ok(())))?;
        let clock = driver_state.streams.get(&id).map(|s| s.clock.clone()).unwrap_or_default();
        if let Some(event) = driver_state.events.get_mut(&event) {
            event.recorded = Some((id, op_index, clock));
        }
        Ok(())
    }
    fn cuEventQuery(event: usize) {
        let Some((stream, op_index, clock)) = recorded(event, "cuEventQuery")? else { return Ok(()) };
        let mut driver_state = driver_state();
        if !driver_state.query(stream, op_index) {
            return Err(NOT_READY);
        }
        driver_state.host.join(&clock);
        Ok(())
    }
    fn cuEventSynchronize(event: usize) {
        let Some((stream, op_index, clock)) = recorded(event, "cuEventSynchronize")? else { return Ok(()) };
        let mut driver_state = driver_state();
        driver_state.run_until(stream, op_index);
        driver_state.host.join(&clock);
        match crate::call_log::lost_context_code() { 0 => Ok(()), code => Err(code) }
    }
    fn cuEventDestroy_v2(event: usize) {
        recorded(event, "cuEventDestroy")?;
        driver_state().events.remove(&event);
        Ok(())
    }
    fn cuEventElapsedTime(milliseconds: *mut f32, from: usize, to: usize) {
        let (Some(a), Some(b)) = (recorded(from, "cuEventElapsedTime")?, recorded(to, "cuEventElapsedTime")?) else {
            return refuse(INVALID_HANDLE, "cuEventElapsedTime of an event that was never recorded".into());
        };
        let mut driver_state = driver_state();
        if [from, to].iter().any(|e| driver_state.events.get(e).is_none_or(|e| !e.timed)) {
            return refuse(INVALID_HANDLE, "cuEventElapsedTime of an event without timing".into());
        }
        if !driver_state.query(a.0, a.1) || !driver_state.query(b.0, b.1) {
            return Err(NOT_READY);
        }
        write(milliseconds, b.1.saturating_sub(a.1) as f32 * 0.001, "time")
    }
    fn cuEventElapsedTime_v2(milliseconds: *mut f32, from: usize, to: usize) {
        match cuEventElapsedTime(milliseconds, from, to) { 0 => Ok(()), code => Err(code) }
    }
}
