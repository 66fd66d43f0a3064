//! In: calls about streams.
//! Out: queues of the world, waited for, asked about, put in order.
//! Never: lets a handle be used after its end without saying so.
#![allow(unsafe_code, non_snake_case)]

use super::{driver, write};
use crate::ledger::{refuse, Code, INVALID_HANDLE, INVALID_VALUE, NOT_READY};
use crate::world::race::StreamId;
use crate::world::streams::Stream;
use crate::world::{current, world, CONTEXT_BASE};

fn create(out: *mut usize, flags: u32, priority: i32, call: &str) -> Result<(), Code> {
    let device = current(call)?;
    if flags > 1 {
        return refuse(INVALID_VALUE, format!("{call} with flags {flags:#x}"));
    }
    let mut world = world();
    let id = world.handle();
    let mut stream = Stream::new(device, flags == 0);
    stream.priority = priority.clamp(-5, 0);
    world.streams.insert(id as StreamId, stream);
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
        let mut world = world();
        let id = world.stream(raw, device, "cuStreamDestroy_v2")?;
        if let Some(stream) = world.streams.get_mut(&id) {
            stream.destroyed = true; // what is in it still runs, some time
            if stream.queue.is_empty() {
                world.streams.remove(&id);
            }
        }
        Ok(())
    }
    fn cuStreamSynchronize(raw: usize) {
        let device = current("cuStreamSynchronize")?;
        let mut world = world();
        let id = world.stream(raw, device, "cuStreamSynchronize")?;
        world.synchronize(id)
    }
    fn cuStreamQuery(raw: usize) {
        let device = current("cuStreamQuery")?;
        let mut world = world();
        let id = world.stream(raw, device, "cuStreamQuery")?;
        let place = world.streams.get(&id).map_or(0, |s| s.submitted);
        if world.ask(id, place) { world.synchronize(id) } else { Err(NOT_READY) }
    }
    fn cuStreamWaitEvent(raw: usize, event: usize, flags: u32) {
        let device = current("cuStreamWaitEvent")?;
        let _ = flags;
        let mut world = world();
        let id = world.stream(raw, device, "cuStreamWaitEvent")?;
        let Some(event) = world.events.get(&event) else {
            return refuse(INVALID_HANDLE, format!("cuStreamWaitEvent: {event:#x} is no event (any more)"));
        };
        if let Some((other, place, clock)) = event.recorded.clone() {
            world.wait(id, (other, place, &clock));
        }
        Ok(())
    }
    fn cuStreamGetCtx(raw: usize, context: *mut usize) {
        let device = current("cuStreamGetCtx")?;
        let id = { world().stream(raw, device, "cuStreamGetCtx")? };
        let device = world().streams.get(&id).map_or(device, |s| s.device);
        write(context, CONTEXT_BASE + device * 0x1000, "context")
    }
    fn cuStreamGetPriority(raw: usize, priority: *mut i32) {
        let device = current("cuStreamGetPriority")?;
        let id = { world().stream(raw, device, "cuStreamGetPriority")? };
        let value = world().streams.get(&id).map_or(0, |s| s.priority);
        write(priority, value, "priority")
    }
    fn cuStreamGetFlags(raw: usize, flags: *mut u32) {
        let device = current("cuStreamGetFlags")?;
        let id = { world().stream(raw, device, "cuStreamGetFlags")? };
        let blocking = world().streams.get(&id).is_none_or(|s| s.blocking);
        write(flags, u32::from(!blocking), "flags")
    }
}
