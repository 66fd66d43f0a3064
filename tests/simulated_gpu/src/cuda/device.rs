//! Implements device queries: a driver of version 13.0 and the configured number of H200-like
//! devices. No context is needed.
#![allow(unsafe_code, non_snake_case)]

use std::ffi::c_char;

use super::{driver, write};
use crate::call_log::{
    Code, INVALID_DEVICE, INVALID_VALUE, NO_DEVICE, NOT_INITIALIZED, behavior_is_set, refuse,
};
use crate::driver_state::driver_state;

const DRIVER_VERSION: i32 = 13000;
const NAME: &str = "Simulated H200";

/// The ordinal, if cuInit was called and the device exists.
pub fn device(ordinal: i32, call: &str) -> Result<usize, Code> {
    let driver_state = driver_state();
    if !driver_state.initialised {
        return refuse(NOT_INITIALIZED, format!("{call} before cuInit"));
    }
    match usize::try_from(ordinal) {
        Ok(n) if n < driver_state.devices.len() => Ok(n),
        _ => Err(INVALID_DEVICE),
    }
}

fn put_text(to: *mut c_char, room: i32, text: &str) -> Result<(), Code> {
    let room = usize::try_from(room).unwrap_or(0);
    for (at, &byte) in text
        .as_bytes()
        .iter()
        .take(room.saturating_sub(1))
        .chain(&[0])
        .enumerate()
    {
        write(to.wrapping_add(at), byte as c_char, "a text")?;
    }
    Ok(())
}

fn uuid_of(ordinal: i32) -> [u8; 16] {
    let mut uuid = *b"simulated GPU  0";
    uuid[15] += ordinal as u8;
    uuid
}

fn attribute(attribute: i32) -> i32 {
    match attribute {
        1..=3 => 1024,               // threads per block, block x and y
        4 => 64,                     // block z
        5 => i32::MAX,               // grid x
        6 | 7 => 65535,              // grid y and z
        8 => 48 << 10,               // shared memory per block
        9 => 64 << 10,               // constant memory
        10 => 32,                    // warp
        12 => 65536,                 // registers per block
        13 => 1_980_000,             // clock, kHz
        14 => 512,                   // texture alignment
        16 => 132,                   // multiprocessors
        31 | 34 | 41 | 83 | 91 => 1, // concurrent kernels, unified addressing, managed memory, host register
        33 => 4,                     // PCI bus
        39 => 2048,                  // threads per multiprocessor
        40 => 2,                     // copy engines
        75 => 9,                     // compute capability
        76 => 0,
        78 => 1,       // stream priorities
        81 => 233_472, // shared memory per multiprocessor
        97 => 232_448, // shared memory per block, opt-in
        115 => 1,      // memory pools
        _ => 0,
    }
}

driver! {
    fn cuInit(flags: u32) {
        let mut driver_state = driver_state();
        if flags != 0 {
            drop(driver_state);
            return refuse(INVALID_VALUE, "cuInit with flags, which must be 0".into());
        }
        if driver_state.devices.is_empty() {
            return Err(NO_DEVICE);
        }
        driver_state.initialised = true;
        Ok(())
    }
    fn cuDriverGetVersion(version: *mut i32) { write(version, DRIVER_VERSION, "version") }
    fn cuDeviceGetCount(count: *mut i32) {
        if !driver_state().initialised {
            return refuse(NOT_INITIALIZED, "cuDeviceGetCount before cuInit".into());
        }
        let devices = driver_state().devices.len() as i32;
        write(count, devices, "count")
    }
    fn cuDeviceGet(out: *mut i32, ordinal: i32) {
        device(ordinal, "cuDeviceGet")?;
        write(out, ordinal, "device")
    }
    fn cuDeviceGetName(name: *mut c_char, room: i32, ordinal: i32) {
        device(ordinal, "cuDeviceGetName")?;
        put_text(name, room, NAME)
    }
    fn cuDeviceGetUuid(uuid: *mut [u8; 16], ordinal: i32) {
        device(ordinal, "cuDeviceGetUuid")?;
        write(uuid, uuid_of(ordinal), "uuid")
    }
    fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], ordinal: i32) {
        device(ordinal, "cuDeviceGetUuid_v2")?;
        let mut instance = uuid_of(ordinal);
        if behavior_is_set("mig") {
            instance[0] = b'm';
        }
        write(uuid, instance, "uuid")
    }
    fn cuDeviceGetPCIBusId(id: *mut c_char, room: i32, ordinal: i32) {
        device(ordinal, "cuDeviceGetPCIBusId")?;
        put_text(id, room, &format!("0000:{:02X}:00.0", 4 + ordinal))
    }
    fn cuDeviceGetByPCIBusId(out: *mut i32, id: *const c_char) {
        let id = super::text(id, "a PCI bus id")?;
        let count = driver_state().devices.len() as i32;
        let found = (0..count).find(|n| id.eq_ignore_ascii_case(&format!("0000:{:02X}:00.0", 4 + n)));
        write(out, found.ok_or(INVALID_DEVICE)?, "device")
    }
    fn cuDeviceGetAttribute(value: *mut i32, which: i32, ordinal: i32) {
        device(ordinal, "cuDeviceGetAttribute")?;
        write(value, attribute(which), "value")
    }
    fn cuDeviceTotalMem_v2(bytes: *mut usize, ordinal: i32) {
        device(ordinal, "cuDeviceTotalMem_v2")?;
        let limit = driver_state().memory.limit_bytes as usize;
        write(bytes, limit, "bytes")
    }
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        crate::driver_state::current("cuMemGetInfo_v2")?;
        let driver_state = driver_state();
        let (limit, used) = (driver_state.memory.limit_bytes as usize, driver_state.memory.used() as usize);
        write(free, limit - used.min(limit), "free")?;
        write(total, limit, "total")
    }
    fn cuGetProcAddress(name: *const c_char, out: *mut usize, version: i32, flags: u64) {
        let _ = (version, flags);
        super::error_names::find(&super::text(name, "a name")?, out)
    }
    fn cuGetProcAddress_v2(name: *const c_char, out: *mut usize, version: i32, flags: u64, status: *mut i32) {
        let _ = (version, flags);
        let name = super::text(name, "a name")?;
        let found = super::error_names::find(&name, out);
        if !status.is_null() {
            write(status, i32::from(found.is_err()), "status")?;
        }
        found
    }
    fn cuDeviceCanAccessPeer(can: *mut i32, one: i32, other: i32) {
        device(one, "cuDeviceCanAccessPeer")?;
        device(other, "cuDeviceCanAccessPeer")?;
        write(can, 0, "can")
    }
}
