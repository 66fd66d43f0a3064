//! Exports the nvJPEG API under its C names: instances, states and headers; images are decoded by
//! libavcodec. The hardware backend's writes do not wait for the caller's stream, as on an H100.
#![allow(unsafe_code, non_snake_case)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

mod jpeg_file;
mod state;

use crate::call_log::{Code, api_call_with, refuse, variable};
use crate::cuda::{read, slice, write};
use crate::driver_state::{current, driver_state};
use jpeg_file::Header;
use state::State;

/// nvjpegStatus_t, declared independently of the crate under test.
pub const INVALID_PARAMETER: Code = 2;
pub const BAD_JPEG: Code = 3;
pub const JPEG_NOT_SUPPORTED: Code = 4;
pub const ALLOCATOR_FAILURE: Code = 5;
pub const EXECUTION_FAILED: Code = 6;
pub const ARCH_MISMATCH: Code = 7;

/// nvjpegBackend_t.
pub const HYBRID: i32 = 1;
pub const GPU_HYBRID: i32 = 2;
pub const HARDWARE: i32 = 3;

/// nvjpegOutputFormat_t.
pub const YUV: i32 = 1;
pub const Y: i32 = 2;

/// nvjpegImage_t.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Image {
    pub channel: [usize; 4],
    pub pitch: [usize; 4],
}

const _: () = assert!(size_of::<Image>() == 64 && std::mem::offset_of!(Image, pitch) == 32);

#[derive(Clone, Copy)]
pub struct Instance {
    pub device: usize,
    pub backend: i32,
}

type Table<T> = Mutex<BTreeMap<usize, Arc<Mutex<T>>>>;

static INSTANCES: Mutex<BTreeMap<usize, Instance>> = Mutex::new(BTreeMap::new());
static STATES: Table<State> = Mutex::new(BTreeMap::new());
static HEADERS: Table<Option<Header>> = Mutex::new(BTreeMap::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// Converts CUDA error codes to nvJPEG's.
pub fn to_nvjpeg_status(code: Code) -> Code {
    match code {
        crate::call_log::OUT_OF_MEMORY => ALLOCATOR_FAILURE,
        _ => EXECUTION_FAILED,
    }
}

fn instance(handle: usize, call: &str) -> Result<Instance, Code> {
    let found = lock(&INSTANCES).get(&handle).copied();
    let Some(instance) = found else {
        return refuse(
            INVALID_PARAMETER,
            format!("{call}: {handle:#x} is no instance of nvJPEG"),
        );
    };
    let device = current(call).map_err(to_nvjpeg_status)?;
    if device != instance.device {
        return refuse(
            INVALID_PARAMETER,
            format!("{call} with another device current than the instance's"),
        );
    }
    Ok(instance)
}

/// Runs `call` on the object. Concurrent calls are errors; they do not wait.
fn with<T, R>(
    table: &Table<T>,
    handle: usize,
    name: &str,
    call: impl FnOnce(&mut T) -> Result<R, Code>,
) -> Result<R, Code> {
    let Some(object) = lock(table).get(&handle).cloned() else {
        return refuse(
            INVALID_PARAMETER,
            format!("{name}: {handle:#x} is no such object"),
        );
    };
    let Ok(mut object) = object.try_lock() else {
        return refuse(
            INVALID_PARAMETER,
            format!(
                "{name} while another call on the same object is running: one thread at a time"
            ),
        );
    };
    call(&mut object)
}

fn insert<T>(table: &Table<T>, object: T, out: *mut usize, name: &str) -> Result<(), Code> {
    let id = driver_state().handle();
    lock(table).insert(id, Arc::new(Mutex::new(object)));
    write(out, id, name).map_err(|_| INVALID_PARAMETER)
}

/// Live objects, for the report.
pub fn object_counts() -> Vec<(&'static str, u64)> {
    vec![
        ("jpeg_instances", lock(&INSTANCES).len() as u64),
        ("jpeg_states", lock(&STATES).len() as u64),
        ("jpeg_headers", lock(&HEADERS).len() as u64),
    ]
}

fn engines() -> u32 {
    variable("JPEG_ENGINES")
        .and_then(|n| n.parse().ok())
        .unwrap_or(7)
}

macro_rules! library {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: $type),*) -> i32 {
            api_call_with(stringify!($name), to_nvjpeg_status, move || $body)
        }
    )*};
}

library! {
    fn nvjpegGetProperty(which: i32, value: *mut i32) {
        let version = [12, 4, 0].get(which as usize).copied().ok_or(INVALID_PARAMETER)?;
        write(value, version, "value").map_err(|_| INVALID_PARAMETER)
    }
    fn nvjpegCreateEx(backend: i32, device_allocator: usize, pinned_allocator: usize, flags: u32, out: *mut usize) {
        let device = current("nvjpegCreateEx").map_err(to_nvjpeg_status)?;
        if device_allocator != 0 || pinned_allocator != 0 || flags != 0 {
            return refuse(INVALID_PARAMETER, "nvjpegCreateEx with allocators or flags, which are not simulated".into());
        }
        match backend {
            HARDWARE if engines() == 0 => return Err(ARCH_MISMATCH),
            HYBRID | GPU_HYBRID | HARDWARE => (),
            other => return refuse(INVALID_PARAMETER, format!("nvjpegCreateEx with backend {other}")),
        }
        let id = driver_state().handle();
        lock(&INSTANCES).insert(id, Instance { device, backend });
        write(out, id, "instance").map_err(|_| INVALID_PARAMETER)
    }
    fn nvjpegDestroy(handle: usize) {
        let instance = instance(handle, "nvjpegDestroy")?;
        let of_it = lock(&STATES).values().filter(|state| state.try_lock().is_ok_and(|s| s.instance == handle)).count();
        if of_it > 0 {
            return refuse(INVALID_PARAMETER, format!("nvjpegDestroy while {of_it} of its states are alive"));
        }
        let _ = instance;
        lock(&INSTANCES).remove(&handle);
        Ok(())
    }
    fn nvjpegGetHardwareDecoderInfo(handle: usize, count: *mut u32, cores: *mut u32) {
        let instance = instance(handle, "nvjpegGetHardwareDecoderInfo")?;
        let count_here = if instance.backend == HARDWARE { engines() } else { 0 };
        write(count, count_here, "engines").and_then(|()| write(cores, 1, "cores")).map_err(|_| INVALID_PARAMETER)
    }
    fn nvjpegGetImageInfo(
        handle: usize, data: *const u8, length: usize, components: *mut i32, subsampling: *mut i32, widths: *mut i32,
        heights: *mut i32,
    ) {
        instance(handle, "nvjpegGetImageInfo")?;
        let header = Header::read(slice(data, length, "file").map_err(|_| INVALID_PARAMETER)?)?;
        let put = || -> Result<(), Code> {
            write(components, header.components as i32, "components")?;
            write(subsampling, header.subsampling(), "subsampling")?;
            for component in 0..4 {
                let (width, height) = header.size_of(component);
                write(widths.wrapping_add(component), width as i32, "widths")?;
                write(heights.wrapping_add(component), height as i32, "heights")?;
            }
            Ok(())
        };
        put().map_err(|_| INVALID_PARAMETER)
    }
    fn nvjpegJpegStateCreate(handle: usize, out: *mut usize) {
        let of = instance(handle, "nvjpegJpegStateCreate")?;
        insert(&STATES, State::new(handle, of)?, out, "state")
    }
    fn nvjpegJpegStateDestroy(state: usize) {
        current("nvjpegJpegStateDestroy").map_err(to_nvjpeg_status)?;
        with(&STATES, state, "nvjpegJpegStateDestroy", |s| { s.destroy(); Ok(()) })?;
        lock(&STATES).remove(&state);
        Ok(())
    }
    fn nvjpegJpegStreamCreate(handle: usize, out: *mut usize) {
        instance(handle, "nvjpegJpegStreamCreate")?;
        insert(&HEADERS, None, out, "header")
    }
    fn nvjpegJpegStreamDestroy(header: usize) {
        with(&HEADERS, header, "nvjpegJpegStreamDestroy", |_| Ok(()))?;
        lock(&HEADERS).remove(&header);
        Ok(())
    }
    fn nvjpegJpegStreamParseHeader(handle: usize, data: *const u8, length: usize, header: usize) {
        instance(handle, "nvjpegJpegStreamParseHeader")?;
        let file = slice(data, length, "file").map_err(|_| INVALID_PARAMETER)?;
        with(&HEADERS, header, "nvjpegJpegStreamParseHeader", |kept| {
            *kept = None;
            *kept = Some(Header::read(file)?);
            Ok(())
        })
    }
    fn nvjpegDecodeBatchedSupported(handle: usize, header: usize, refused: *mut i32) {
        let instance = instance(handle, "nvjpegDecodeBatchedSupported")?;
        let answer = with(&HEADERS, header, "nvjpegDecodeBatchedSupported", |kept| match kept {
            Some(header) => Ok(i32::from(!header.supported_by(instance.backend))),
            None => refuse(INVALID_PARAMETER, "nvjpegDecodeBatchedSupported of an unparsed header".into()),
        })?;
        write(refused, answer, "answer").map_err(|_| INVALID_PARAMETER)
    }
    fn nvjpegDecodeBatchedInitialize(handle: usize, state: usize, batch: i32, threads: i32, format: i32) {
        instance(handle, "nvjpegDecodeBatchedInitialize")?;
        if batch != 1 || threads < 1 || !matches!(format, YUV | Y) {
            return refuse(INVALID_PARAMETER, format!("nvjpegDecodeBatchedInitialize: a batch of {batch}, {threads} threads, format {format}"));
        }
        with(&STATES, state, "nvjpegDecodeBatchedInitialize", |s| s.initialize_batched(handle, format))
    }
    fn nvjpegDecodeBatched(
        handle: usize, state: usize, data: *const *const u8, lengths: *const usize, images: *const Image, stream: usize,
    ) {
        let call = "nvjpegDecodeBatched";
        let instance = instance(handle, call)?;
        let null = |_| INVALID_PARAMETER;
        let (data, length, image) = (
            read(data, "files").map_err(null)?, read(lengths, "lengths").map_err(null)?, read(images, "images").map_err(null)?,
        );
        let file = slice(data, length, "file").map_err(null)?;
        with(&STATES, state, call, |s| {
            let format = s.batch_format(handle)?;
            s.decode(handle, instance, file, format, &image, stream, call)
        })
    }
    fn nvjpegDecode(
        handle: usize, state: usize, data: *const u8, length: usize, format: i32, image: *const Image, stream: usize,
    ) {
        let call = "nvjpegDecode";
        let instance = instance(handle, call)?;
        let image = read(image, "image").map_err(|_| INVALID_PARAMETER)?;
        let file = slice(data, length, "file").map_err(|_| INVALID_PARAMETER)?;
        // By the published measurements, single images are decoded in the stream with every
        // backend.
        let instance = Instance { backend: if instance.backend == HARDWARE { HYBRID } else { instance.backend }, ..instance };
        with(&STATES, state, call, |s| s.decode(handle, instance, file, format, &image, stream, call))
    }
}
