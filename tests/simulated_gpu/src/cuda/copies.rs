//! Implements copies and fills as operations that know which ranges they read and write. Bytes are
//! read from pageable memory at the call, and from pinned memory when the copy runs. Every address
//! is checked against live memory.
#![allow(unsafe_code, non_snake_case)]

use super::{driver, read, slice};
use crate::call_log::{Code, INVALID_VALUE, behavior_is_set, refuse};
use crate::driver_state::memory::AllocationKind;
use crate::driver_state::race::{AccessKind, MemoryAccess};
use crate::driver_state::streams::Work;
use crate::driver_state::{DriverState, current, driver_state};

fn move_bytes(to: usize, from: usize, bytes: usize) {
    // SAFETY: both ranges were checked when the copy was enqueued, and live device memory again
    // when it ran. The caller keeps host ranges valid, as with the real driver. They may overlap.
    unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
}

pub fn fill_bytes(to: usize, byte: u8, bytes: usize) {
    // SAFETY: the range was checked when the fill was enqueued and is checked again before it runs.
    unsafe { std::ptr::write_bytes(to as *mut u8, byte, bytes) };
}

pub fn memory_access(from: usize, bytes: usize, kind: AccessKind) -> MemoryAccess {
    MemoryAccess { from, bytes, kind }
}

fn pinned(driver_state: &DriverState, address: usize, bytes: usize) -> bool {
    driver_state.memory.find(address).is_some_and(|a| {
        matches!(a.kind, AllocationKind::Pinned | AllocationKind::Registered)
            && address + bytes <= a.base + a.bytes
    })
}

/// Host to device. A copy on the default stream (`waits`) first waits for that stream, and pinned
/// bytes are copied when it returns.
fn upload(
    to: usize,
    from: *const u8,
    bytes: usize,
    stream: usize,
    waits: bool,
    call: &str,
) -> Result<(), Code> {
    let device = current(call)?;
    let mut driver_state = driver_state();
    let id = driver_state.stream(stream, device, call)?;
    driver_state.usable(to, bytes, call)?;
    if bytes == 0 {
        return Ok(());
    }
    if from.is_null() {
        return refuse(INVALID_VALUE, format!("{call} from a null pointer"));
    }
    if waits {
        driver_state.synchronize(id)?;
    }
    let label = format!("{call} of {bytes} bytes");
    let mut accesses = vec![memory_access(to, bytes, AccessKind::Write)];
    if pinned(&driver_state, from as usize, bytes) {
        accesses.push(memory_access(from as usize, bytes, AccessKind::Read));
        let from = from as usize;
        let work: Work = Box::new(move || {
            move_bytes(to, from, bytes);
            Ok(())
        });
        driver_state.submit(id, label, accesses, work)?;
        if waits {
            driver_state.synchronize(id)
        } else {
            Ok(())
        }
    } else {
        let kept = slice(from, bytes, call)?.to_vec();
        let work: Work = Box::new(move || {
            move_bytes(to, kept.as_ptr() as usize, kept.len());
            Ok(())
        });
        driver_state.submit(id, label, accesses, work)?;
        if behavior_is_set("pageable_waits") {
            driver_state.synchronize(id)
        } else {
            Ok(())
        }
    }
}

/// Device to host. A copy to pageable memory is complete when the call returns; one to pinned
/// memory later, unless on the default stream.
fn download(
    to: *mut u8,
    from: usize,
    bytes: usize,
    stream: usize,
    waits: bool,
    call: &str,
) -> Result<(), Code> {
    let device = current(call)?;
    let mut driver_state = driver_state();
    let id = driver_state.stream(stream, device, call)?;
    driver_state.usable(from, bytes, call)?;
    if bytes == 0 {
        return Ok(());
    }
    if to.is_null() {
        return refuse(INVALID_VALUE, format!("{call} to a null pointer"));
    }
    let to = to as usize;
    let late = pinned(&driver_state, to, bytes);
    let mut accesses = vec![memory_access(from, bytes, AccessKind::Read)];
    if late {
        accesses.push(memory_access(to, bytes, AccessKind::Write));
    }
    let work: Work = Box::new(move || {
        move_bytes(to, from, bytes);
        Ok(())
    });
    driver_state.submit(id, format!("{call} of {bytes} bytes"), accesses, work)?;
    if waits || !late {
        driver_state.synchronize(id)
    } else {
        Ok(())
    }
}

fn copy(to: usize, from: usize, bytes: usize, stream: usize, call: &str) -> Result<(), Code> {
    let device = current(call)?;
    let mut driver_state = driver_state();
    let id = driver_state.stream(stream, device, call)?;
    driver_state.usable(to, bytes, call)?;
    driver_state.usable(from, bytes, call)?;
    if bytes == 0 {
        return Ok(());
    }
    let accesses = vec![
        memory_access(to, bytes, AccessKind::Write),
        memory_access(from, bytes, AccessKind::Read),
    ];
    let work: Work = Box::new(move || {
        move_bytes(to, from, bytes);
        Ok(())
    });
    driver_state
        .submit(id, format!("{call} of {bytes} bytes"), accesses, work)
        .map(drop)
}

fn fill(to: usize, byte: u8, bytes: usize, stream: usize, call: &str) -> Result<(), Code> {
    let device = current(call)?;
    let mut driver_state = driver_state();
    let id = driver_state.stream(stream, device, call)?;
    driver_state.usable(to, bytes, call)?;
    if bytes == 0 {
        return Ok(());
    }
    let work: Work = Box::new(move || {
        fill_bytes(to, byte, bytes);
        Ok(())
    });
    driver_state
        .submit(
            id,
            format!("{call} of {bytes} bytes"),
            vec![memory_access(to, bytes, AccessKind::Write)],
            work,
        )
        .map(drop)
}

/// CUDA_MEMCPY2D.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Copy2D {
    source_x_bytes: usize,
    source_y: usize,
    source_type: u32,
    source_host: usize,
    source_device: usize,
    source_array: usize,
    source_pitch: usize,
    target_x_bytes: usize,
    target_y: usize,
    target_type: u32,
    target_host: usize,
    target_device: usize,
    target_array: usize,
    target_pitch: usize,
    width_bytes: usize,
    height: usize,
}

const _: () = assert!(size_of::<Copy2D>() == 128);

fn copy_2d(parameters: *const Copy2D, stream: usize, waits: bool, call: &str) -> Result<(), Code> {
    let device = current(call)?;
    let p = read(parameters, call)?;
    let mut driver_state = driver_state();
    let id = driver_state.stream(stream, device, call)?;
    let (host, dev, unified) = (1, 2, 4);
    let end = |kind: u32, on_host: usize, on_device: usize, x: usize, y: usize, pitch: usize| {
        match kind {
            k if k == host => Ok((on_host + y * pitch + x, pitch, true)),
            k if k == dev || k == unified => Ok((on_device + y * pitch + x, pitch, false)),
            _ => refuse(
                INVALID_VALUE,
                format!("{call}: memory type {kind}; only host, device and unified are simulated"),
            ),
        }
    };
    let source = end(
        p.source_type,
        p.source_host,
        p.source_device,
        p.source_x_bytes,
        p.source_y,
        p.source_pitch,
    )?;
    let target = end(
        p.target_type,
        p.target_host,
        p.target_device,
        p.target_x_bytes,
        p.target_y,
        p.target_pitch,
    )?;
    if p.width_bytes == 0 || p.height == 0 {
        return Ok(());
    }
    const MAX_PITCH: usize = i32::MAX as usize; // CU_DEVICE_ATTRIBUTE_MAX_PITCH
    if source.1.max(target.1) > MAX_PITCH {
        return refuse(
            INVALID_VALUE,
            format!("{call}: a pitch of more than {MAX_PITCH} bytes"),
        );
    }
    if p.height > 1 && (source.1 < p.width_bytes || target.1 < p.width_bytes) {
        return refuse(
            INVALID_VALUE,
            format!(
                "{call}: a pitch less than the width of {} bytes",
                p.width_bytes
            ),
        );
    }
    let mut accesses = Vec::new();
    for ((start, pitch, on_host), access) in
        [(source, AccessKind::Read), (target, AccessKind::Write)]
    {
        if on_host && !pinned(&driver_state, start, 1) {
            continue;
        }
        for row in 0..p.height {
            driver_state.usable(start + row * pitch, p.width_bytes, call)?;
            accesses.push(memory_access(start + row * pitch, p.width_bytes, access));
        }
    }
    let kept: Vec<u8> = if source.2 && !pinned(&driver_state, source.0, 1) {
        slice(
            source.0 as *const u8,
            (p.height - 1) * source.1 + p.width_bytes,
            call,
        )?
        .to_vec()
    } else {
        Vec::new()
    };
    let into_pageable = target.2 && !pinned(&driver_state, target.0, 1);
    let waits = waits || into_pageable || (!kept.is_empty() && behavior_is_set("pageable_waits"));
    let work: Work = Box::new(move || {
        let start = if kept.is_empty() {
            source.0
        } else {
            kept.as_ptr() as usize
        };
        for row in 0..p.height {
            move_bytes(
                target.0 + row * target.1,
                start + row * source.1,
                p.width_bytes,
            );
        }
        Ok(())
    });
    driver_state.submit(
        id,
        format!("{call} of {} rows of {} bytes", p.height, p.width_bytes),
        accesses,
        work,
    )?;
    if waits {
        driver_state.synchronize(id)
    } else {
        Ok(())
    }
}

driver! {
    fn cuMemcpyHtoD_v2(to: usize, from: *const u8, bytes: usize) { upload(to, from, bytes, 0, true, "cuMemcpyHtoD_v2") }
    fn cuMemcpyHtoDAsync_v2(to: usize, from: *const u8, bytes: usize, stream: usize) {
        upload(to, from, bytes, stream, false, "cuMemcpyHtoDAsync_v2")
    }
    fn cuMemcpyDtoH_v2(to: *mut u8, from: usize, bytes: usize) { download(to, from, bytes, 0, true, "cuMemcpyDtoH_v2") }
    fn cuMemcpyDtoHAsync_v2(to: *mut u8, from: usize, bytes: usize, stream: usize) {
        download(to, from, bytes, stream, false, "cuMemcpyDtoHAsync_v2")
    }
    fn cuMemcpyDtoD_v2(to: usize, from: usize, bytes: usize) { copy(to, from, bytes, 0, "cuMemcpyDtoD_v2") }
    fn cuMemcpyDtoDAsync_v2(to: usize, from: usize, bytes: usize, stream: usize) {
        copy(to, from, bytes, stream, "cuMemcpyDtoDAsync_v2")
    }
    fn cuMemcpy2D_v2(parameters: *const Copy2D) { copy_2d(parameters, 0, true, "cuMemcpy2D_v2") }
    fn cuMemcpy2DAsync_v2(parameters: *const Copy2D, stream: usize) { copy_2d(parameters, stream, false, "cuMemcpy2DAsync_v2") }
    fn cuMemsetD8_v2(to: usize, byte: u8, bytes: usize) { fill(to, byte, bytes, 0, "cuMemsetD8_v2") }
    fn cuMemsetD8Async(to: usize, byte: u8, bytes: usize, stream: usize) { fill(to, byte, bytes, stream, "cuMemsetD8Async") }
}
