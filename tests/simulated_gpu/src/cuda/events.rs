//! In: calls about events.
//! Out: places in streams that can be waited for.
//! Never: a time that means anything.
#![allow(unsafe_code, non_snake_case)]

use super::{driver, write};
use crate::ledger::{refuse, Code, INVALID_HANDLE, NOT_READY};
use crate::world::race::{Clock, StreamId};
use crate::world::{current, world, Event};

fn recorded(event: usize, call: &str) -> Result<Option<(StreamId, u64, Clock)>, Code> {
    match world().events.get(&event) {
        Some(event) => Ok(event.recorded.clone()),
        None => refuse(INVALID_HANDLE, format!("{call}: {event:#x} is no event (any more)")),
    }
}

driver! {
    fn cuEventCreate(out: *mut usize, flags: u32) {
        let device = current("cuEventCreate")?;
        let mut world = world();
        let id = world.handle();
        world.events.insert(id, Event { device, timed: flags & 2 == 0, recorded: None });
        write(out, id, "event")
    }
    fn cuEventRecord(event: usize, raw: usize) {
        let device = current("cuEventRecord")?;
        recorded(event, "cuEventRecord")?;
        let mut world = world();
        let id = world.stream(raw, device, "cuEventRecord")?;
        if world.events.get(&event).is_some_and(|e| e.device != device) {
            return refuse(INVALID_HANDLE, "cuEventRecord of an event of another device".into());
        }
        let place = world.submit(id, "event".into(), Vec::new(), Box::new(|| Ok(())))?;
        let clock = world.streams.get(&id).map(|s| s.clock.clone()).unwrap_or_default();
        if let Some(event) = world.events.get_mut(&event) {
            event.recorded = Some((id, place, clock));
        }
        Ok(())
    }
    fn cuEventQuery(event: usize) {
        let Some((stream, place, clock)) = recorded(event, "cuEventQuery")? else { return Ok(()) };
        let mut world = world();
        if !world.ask(stream, place) {
            return Err(NOT_READY);
        }
        world.host.join(&clock);
        Ok(())
    }
    fn cuEventSynchronize(event: usize) {
        let Some((stream, place, clock)) = recorded(event, "cuEventSynchronize")? else { return Ok(()) };
        let mut world = world();
        world.force(stream, place);
        world.host.join(&clock);
        match crate::ledger::lost() { 0 => Ok(()), code => Err(code) }
    }
    fn cuEventDestroy_v2(event: usize) {
        recorded(event, "cuEventDestroy")?;
        world().events.remove(&event);
        Ok(())
    }
    fn cuEventElapsedTime(milliseconds: *mut f32, from: usize, to: usize) {
        let (Some(a), Some(b)) = (recorded(from, "cuEventElapsedTime")?, recorded(to, "cuEventElapsedTime")?) else {
            return refuse(INVALID_HANDLE, "cuEventElapsedTime of an event that was never recorded".into());
        };
        let mut world = world();
        if [from, to].iter().any(|e| world.events.get(e).is_none_or(|e| !e.timed)) {
            return refuse(INVALID_HANDLE, "cuEventElapsedTime of an event without timing".into());
        }
        if !world.ask(a.0, a.1) || !world.ask(b.0, b.1) {
            return Err(NOT_READY);
        }
        write(milliseconds, b.1.saturating_sub(a.1) as f32 * 0.001, "time")
    }
    fn cuEventElapsedTime_v2(milliseconds: *mut f32, from: usize, to: usize) {
        match cuEventElapsedTime(milliseconds, from, to) { 0 => Ok(()), code => Err(code) }
    }
}
