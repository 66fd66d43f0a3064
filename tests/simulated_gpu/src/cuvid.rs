//! Exports the NVCUVID API under its C names, with parsers and decoders based on libavcodec. This
//! FFmpeg is linked into this library alone, so no decoder is shared with the program under test.
#![allow(unsafe_code, non_snake_case)]

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

pub mod abi;
mod bit_reader;
mod caps;
pub mod codec;
mod convert;
mod decoder;
mod headers;
mod obu;
mod parser;
mod picture_context;
mod picture_splitter;
mod sequence_format;
mod surface_indices;

use crate::call_log::{Code, INVALID_HANDLE, OUT_OF_MEMORY, behavior_is_set, refuse};
use crate::cuda::{driver, read, write};
use crate::driver_state::{current, driver_state};
use decoder::Decoder;
use parser::Parser;

type Table<T> = Mutex<BTreeMap<usize, Arc<Mutex<Option<T>>>>>;

static PARSERS: Table<Parser> = Mutex::new(BTreeMap::new());
static DECODERS: Table<Decoder> = Mutex::new(BTreeMap::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// Runs `call` on the object. Concurrent calls, or a call from the object's own callback, are
/// errors; they do not wait.
fn with<T, R>(
    table: &Table<T>,
    handle: usize,
    name: &str,
    call: impl FnOnce(&mut Option<T>) -> Result<R, Code>,
) -> Result<R, Code> {
    let Some(object) = lock(table).get(&handle).cloned() else {
        return refuse(
            INVALID_HANDLE,
            format!("{name}: {handle:#x} is no such object"),
        );
    };
    let Ok(mut object) = object.try_lock() else {
        return refuse(
            INVALID_HANDLE,
            format!("{name} while another call on the same object is running"),
        );
    };
    call(&mut object)
}

fn decoder<R>(
    handle: usize,
    name: &str,
    call: impl FnOnce(&mut Decoder) -> Result<R, Code>,
) -> Result<R, Code> {
    current(name)?;
    with(&DECODERS, handle, name, |decoder| {
        decoder.as_mut().map_or(Err(INVALID_HANDLE), call)
    })
}

/// Live objects, for the report.
pub fn object_counts() -> Vec<(&'static str, u64)> {
    vec![
        ("parsers", lock(&PARSERS).len() as u64),
        ("decoders", lock(&DECODERS).len() as u64),
    ]
}

/// cuvidCtxLock*: held by one thread, which may lock it recursively.
#[derive(Default)]
struct ContextLock {
    holder: Mutex<(Option<std::thread::ThreadId>, u32)>,
    free: Condvar,
}

static LOCKS: Mutex<BTreeMap<usize, Arc<ContextLock>>> = Mutex::new(BTreeMap::new());

fn context_lock(handle: usize, name: &str) -> Result<Arc<ContextLock>, Code> {
    match lock(&LOCKS).get(&handle) {
        Some(found) => Ok(found.clone()),
        None => refuse(
            INVALID_HANDLE,
            format!("{name}: {handle:#x} is no live lock"),
        ),
    }
}

/// Applies the behaviors that concern the creation of a decoder.
fn delay_or_fail_creation() -> Result<(), Code> {
    static CREATED: Mutex<u64> = Mutex::new(0);
    const TIME: Duration = Duration::from_millis(30);
    let mut created = lock(&CREATED);
    *created += 1;
    if behavior_is_set("slow_create") {
        std::thread::sleep(TIME); // with the lock: one decoder after another
    }
    match created.is_multiple_of(3) && behavior_is_set("failing_create") {
        true => Err(OUT_OF_MEMORY),
        false => Ok(()),
    }
}

driver! {
    fn cuvidGetDecoderCaps(caps: *mut abi::Caps) {
        current("cuvidGetDecoderCaps")?;
        let mut answer = read(caps, "caps")?;
        caps::fill(&mut answer);
        write(caps, answer, "caps")
    }
    fn cuvidCreateVideoParser(out: *mut usize, params: *const abi::ParserParams) {
        let params = read(params, "parser parameters")?;
        let id = driver_state().handle();
        let parser = Parser::new(id, params)?;
        lock(&PARSERS).insert(id, Arc::new(Mutex::new(Some(parser))));
        write(out, id, "parser")
    }
    fn cuvidParseVideoData(handle: usize, packet: *const abi::Packet) {
        let packet = read(packet, "packet")?;
        with(&PARSERS, handle, "cuvidParseVideoData", |p| p.as_mut().map_or(Err(INVALID_HANDLE), |p| p.parse(&packet)))
    }
    fn cuvidDestroyVideoParser(handle: usize) {
        let parser = with(&PARSERS, handle, "cuvidDestroyVideoParser", |p| Ok(p.take()))?;
        lock(&PARSERS).remove(&handle);
        drop(parser);
        Ok(())
    }
    fn cuvidCreateDecoder(out: *mut usize, info: *const abi::CreateInfo) {
        let device = current("cuvidCreateDecoder")?;
        let info = read(info, "decoder parameters")?;
        delay_or_fail_creation()?;
        let id = driver_state().handle();
        let decoder = Decoder::new(id, device, info)?;
        lock(&DECODERS).insert(id, Arc::new(Mutex::new(Some(decoder))));
        write(out, id, "decoder")
    }
    fn cuvidDestroyDecoder(handle: usize) {
        current("cuvidDestroyDecoder")?;
        let decoder = with(&DECODERS, handle, "cuvidDestroyDecoder", |d| Ok(d.take()))?;
        lock(&DECODERS).remove(&handle);
        if let Some(decoder) = decoder {
            decoder.destroy();
        }
        Ok(())
    }
    fn cuvidDecodePicture(handle: usize, params: *const abi::PicParams) {
        let params = read(params, "picture parameters")?;
        decoder(handle, "cuvidDecodePicture", |d| d.decode(&params))
    }
    fn cuvidGetDecodeStatus(handle: usize, index: i32, out: *mut abi::DecodeStatus) {
        let status = decoder(handle, "cuvidGetDecodeStatus", |d| d.status(index))?;
        write(out, status, "status")
    }
    fn cuvidReconfigureDecoder(handle: usize, info: *const abi::ReconfigureInfo) {
        let info = read(info, "decoder parameters")?;
        decoder(handle, "cuvidReconfigureDecoder", |d| d.reconfigure(&info))
    }
    fn cuvidMapVideoFrame64(handle: usize, index: i32, address: *mut u64, pitch: *mut u32, params: *const abi::ProcParams) {
        let params = read(params, "map parameters")?;
        let (mapped, bytes) = decoder(handle, "cuvidMapVideoFrame64", |d| d.map(index, &params))?;
        write(address, mapped, "address")?;
        write(pitch, bytes, "pitch")
    }
    fn cuvidUnmapVideoFrame64(handle: usize, address: u64) {
        decoder(handle, "cuvidUnmapVideoFrame64", |d| d.unmap(address))
    }
    fn cuvidMapVideoFrame(handle: usize, index: i32, address: *mut u32, pitch: *mut u32, params: *const abi::ProcParams) {
        let _ = (handle, index, address, pitch, params);
        refuse(crate::call_log::MAP_FAILED, "cuvidMapVideoFrame: its addresses have 32 bits; use cuvidMapVideoFrame64".into())
    }
    fn cuvidUnmapVideoFrame(handle: usize, address: u32) {
        let _ = (handle, address);
        refuse(crate::call_log::MAP_FAILED, "cuvidUnmapVideoFrame: its addresses have 32 bits".into())
    }
    fn cuvidCtxLockCreate(out: *mut usize, context: usize) {
        driver_state().device_of_context(context, "cuvidCtxLockCreate")?;
        let id = driver_state().handle();
        lock(&LOCKS).insert(id, Arc::default());
        write(out, id, "lock")
    }
    fn cuvidCtxLockDestroy(handle: usize) {
        context_lock(handle, "cuvidCtxLockDestroy")?;
        lock(&LOCKS).remove(&handle);
        Ok(())
    }
    fn cuvidCtxLock(handle: usize, flags: u32) {
        let _ = flags;
        let context_lock = context_lock(handle, "cuvidCtxLock")?;
        let me = std::thread::current().id();
        let mut holder = lock(&context_lock.holder);
        while holder.0.is_some_and(|other| other != me) {
            holder = context_lock.free.wait(holder).unwrap_or_else(|e| e.into_inner());
        }
        *holder = (Some(me), holder.1 + 1);
        Ok(())
    }
    fn cuvidCtxUnlock(handle: usize, flags: u32) {
        let _ = flags;
        let context_lock = context_lock(handle, "cuvidCtxUnlock")?;
        let mut holder = lock(&context_lock.holder);
        if holder.0 != Some(std::thread::current().id()) {
            return refuse(INVALID_HANDLE, "cuvidCtxUnlock by a thread that does not hold the lock".into());
        }
        holder.1 -= 1;
        if holder.1 == 0 {
            holder.0 = None;
            context_lock.free.notify_one();
        }
        Ok(())
    }
}
