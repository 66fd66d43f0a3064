//! Wraps each driver call in a function that returns a `Result`.
//! Owns nothing and does not make a context current; [`super::Device`] does.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::{NonNull, null, null_mut};

use cudarc::driver::sys::{
    CUDA_MEMCPY2D, CUcontext, CUevent, CUfunction, CUmemorytype, CUmodule, CUstream,
};

use super::driver::Driver;
use crate::{Error, Result};

macro_rules! handle {
    ($($(#[$doc:meta])* $name:ident($raw:ty);)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(super) struct $name($raw);

        // SAFETY: an opaque handle of the driver, whose API may be called from any thread; it is
        // not dereferenced here.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}
    )* };
}

handle! {
    /// A context. Those retained here are primary contexts and never released.
    Context(CUcontext);
    /// A stream, created here or by other code.
    RawStream(CUstream);
    /// An event; destroyed once, by [`super::Event`].
    RawEvent(CUevent);
    /// A module; unloaded once, by [`super::Module`].
    RawModule(CUmodule);
    /// A function of a module that [`super::Function`] keeps loaded.
    RawFunction(CUfunction);
}

impl RawStream {
    /// A stream created by other code, by its handle; 1 and 2 are the two default streams.
    pub(super) fn external(raw: u64) -> RawStream {
        RawStream(raw as usize as CUstream)
    }

    pub(crate) fn to_raw(self) -> u64 {
        self.0 as usize as u64
    }
}

/// Attributes of a device, as numbered in `CUdevice_attribute`.
pub(super) const COMPUTE_CAPABILITY: (c_int, c_int) = (75, 76);
pub(super) const PAGEABLE_MEMORY_ACCESS: c_int = 88;
pub(super) const PAGEABLE_MEMORY_USES_HOST_PAGE_TABLES: c_int = 100;

/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
pub(super) const CAPTURE_MODE_RELAXED: c_uint = 2;

/// Sets how this thread's calls interact with stream captures in progress, and returns the previous
/// mode.
pub(super) fn exchange_capture_mode(driver: &Driver, mut mode: c_uint) -> Result<c_uint> {
    // SAFETY: the value outlives the call, which reads and replaces it.
    driver.check("cuThreadExchangeStreamCaptureMode", unsafe {
        (driver.table.exchange_capture_mode)(&mut mode)
    })?;
    Ok(mode)
}

pub(super) fn driver_version(driver: &Driver) -> Result<u32> {
    let mut version = 0;
    // SAFETY: the out-parameter outlives the call.
    driver.check("cuDriverGetVersion", unsafe {
        (driver.table.driver_version)(&mut version)
    })?;
    Ok(version as u32)
}

pub(super) fn device_count(driver: &Driver) -> Result<u32> {
    let mut count = 0;
    // SAFETY: the out-parameter outlives the call.
    driver.check("cuDeviceGetCount", unsafe {
        (driver.table.device_count)(&mut count)
    })?;
    match count {
        ..=0 => Err(Error::NoDriver {
            reason: "the driver has no device (is CUDA_VISIBLE_DEVICES set to nothing?)".to_owned(),
        }),
        _ => Ok(count as u32),
    }
}

pub(super) fn device_get(driver: &Driver, ordinal: u32) -> Result<c_int> {
    let mut device = 0;
    // SAFETY: the out-parameter outlives the call; the driver returns an error code for a wrong
    // ordinal.
    driver.check("cuDeviceGet", unsafe {
        (driver.table.device_get)(&mut device, ordinal as c_int)
    })?;
    Ok(device)
}

pub(super) fn device_name(driver: &Driver, device: c_int) -> Result<String> {
    let mut name = [0u8; 256];
    let start = name.as_mut_ptr().cast::<c_char>();
    // SAFETY: at most the given length is written, one byte less than the buffer, so a NUL remains.
    driver.check("cuDeviceGetName", unsafe {
        (driver.table.device_name)(start, 255, device)
    })?;
    Ok(until_nul(&name))
}

pub(super) fn device_pci_bus_id(driver: &Driver, device: c_int) -> Result<String> {
    let mut id = [0u8; 64];
    let start = id.as_mut_ptr().cast::<c_char>();
    // SAFETY: as for the name.
    driver.check("cuDeviceGetPCIBusId", unsafe {
        (driver.table.device_pci_bus_id)(start, 63, device)
    })?;
    Ok(until_nul(&id))
}

/// The UUIDs of the GPU and of the device. They differ if the device is an instance of a GPU in MIG
/// mode.
pub(super) fn device_uuids(driver: &Driver, device: c_int) -> Result<[[u8; 16]; 2]> {
    let [mut gpu, mut own] = [[0; 16]; 2];
    // SAFETY: the out-parameter is a CUuuid, sixteen bytes, and outlives the call.
    driver.check("cuDeviceGetUuid", unsafe {
        (driver.table.device_uuid)(&mut gpu, device)
    })?;
    // SAFETY: as above.
    driver.check("cuDeviceGetUuid_v2", unsafe {
        (driver.table.device_uuid_v2)(&mut own, device)
    })?;
    Ok([gpu, own])
}

pub(super) fn device_attribute(driver: &Driver, attribute: c_int, device: c_int) -> Result<u32> {
    let mut value = 0;
    // SAFETY: the out-parameter outlives the call.
    driver.check("cuDeviceGetAttribute", unsafe {
        (driver.table.device_attribute)(&mut value, attribute, device)
    })?;
    Ok(value.max(0) as u32)
}

pub(super) fn primary_context_retain(driver: &Driver, device: c_int) -> Result<Context> {
    let mut context = null_mut();
    // SAFETY: the out-parameter outlives the call. The context is never released, so the handle
    // stays valid.
    driver.check("cuDevicePrimaryCtxRetain", unsafe {
        (driver.table.primary_context_retain)(&mut context, device)
    })?;
    Ok(Context(context))
}

/// Whether this process uses the device's primary context.
pub(super) fn primary_context_is_active(driver: &Driver, device: c_int) -> Result<bool> {
    let (mut flags, mut active) = (0, 0);
    // SAFETY: the out-parameters outlive the call.
    driver.check("cuDevicePrimaryCtxGetState", unsafe {
        (driver.table.primary_context_state)(device, &mut flags, &mut active)
    })?;
    Ok(active != 0)
}

pub(super) fn context_current(driver: &Driver) -> Result<Context> {
    let mut context = null_mut();
    // SAFETY: the out-parameter outlives the call.
    driver.check("cuCtxGetCurrent", unsafe {
        (driver.table.context_get_current)(&mut context)
    })?;
    Ok(Context(context))
}

/// Makes current a context retained here, or a context (or none) that was current before.
pub(super) fn context_set_current(driver: &Driver, context: Context) -> Result<()> {
    // SAFETY: the context is a primary one that is never released, or was current on this thread
    // just before.
    driver.check("cuCtxSetCurrent", unsafe {
        (driver.table.context_set_current)(context.0)
    })
}

pub(super) fn context_synchronize(driver: &Driver) -> Result<()> {
    // SAFETY: acts on the current context and takes no arguments.
    driver.check("cuCtxSynchronize", unsafe {
        (driver.table.context_synchronize)()
    })
}

/// Creates a stream that does not synchronize with the default stream, of the least or the
/// greatest priority available.
pub(super) fn stream_create(driver: &Driver, least_priority: bool) -> Result<RawStream> {
    const NON_BLOCKING: c_uint = 1;
    let (mut least, mut greatest, mut stream) = (0, 0, null_mut());
    // SAFETY: both out-parameters outlive the call.
    driver.check("cuCtxGetStreamPriorityRange", unsafe {
        (driver.table.context_priority_range)(&mut least, &mut greatest)
    })?;
    let priority = if least_priority { least } else { greatest };
    // SAFETY: the out-parameter outlives the call.
    let code = unsafe { (driver.table.stream_create)(&mut stream, NON_BLOCKING, priority) };
    driver.check("cuStreamCreateWithPriority", code)?;
    Ok(RawStream(stream))
}

pub(super) fn stream_destroy(driver: &Driver, stream: RawStream) -> Result<()> {
    // SAFETY: called from the Drop of the only owner.
    driver.check("cuStreamDestroy", unsafe {
        (driver.table.stream_destroy)(stream.0)
    })
}

pub(super) fn stream_synchronize(driver: &Driver, stream: RawStream) -> Result<()> {
    // SAFETY: the caller holds the owner of the stream.
    driver.check("cuStreamSynchronize", unsafe {
        (driver.table.stream_synchronize)(stream.0)
    })
}

pub(super) fn stream_wait(driver: &Driver, stream: RawStream, event: RawEvent) -> Result<()> {
    // SAFETY: the caller holds the event's owner; the stream is one of ours and alive, or a foreign
    // one that the caller guarantees to be valid during this call.
    driver.check("cuStreamWaitEvent", unsafe {
        (driver.table.stream_wait_event)(stream.0, event.0, 0)
    })
}

/// Whether the stream's work is being captured in a graph.
pub(super) fn stream_is_capturing(driver: &Driver, stream: RawStream) -> Result<bool> {
    let mut status = 0;
    // SAFETY: as for stream_wait; the out-parameter outlives the call.
    driver.check("cuStreamIsCapturing", unsafe {
        (driver.table.stream_is_capturing)(stream.0, &mut status)
    })?;
    Ok(status != 0)
}

pub(super) fn event_create(driver: &Driver) -> Result<RawEvent> {
    // A host that waits for the event sleeps instead of polling.
    const BLOCKING_SYNC: c_uint = 1;
    const DISABLE_TIMING: c_uint = 2;
    let mut event = null_mut();
    // SAFETY: the out-parameter outlives the call.
    driver.check("cuEventCreate", unsafe {
        (driver.table.event_create)(&mut event, BLOCKING_SYNC | DISABLE_TIMING)
    })?;
    Ok(RawEvent(event))
}

pub(super) fn event_record(driver: &Driver, event: RawEvent, stream: RawStream) -> Result<()> {
    // SAFETY: as for stream_wait.
    driver.check("cuEventRecord", unsafe {
        (driver.table.event_record)(event.0, stream.0)
    })
}

/// Whether all work before the event is done.
pub(super) fn event_query(driver: &Driver, event: RawEvent) -> Result<bool> {
    const NOT_READY: c_int = 600;
    // SAFETY: the caller holds the event's owner.
    match unsafe { (driver.table.event_query)(event.0) } {
        NOT_READY => Ok(false),
        code => driver.check("cuEventQuery", code).map(|()| true),
    }
}

pub(super) fn event_synchronize(driver: &Driver, event: RawEvent) -> Result<()> {
    // SAFETY: the caller holds the event's owner.
    driver.check("cuEventSynchronize", unsafe {
        (driver.table.event_synchronize)(event.0)
    })
}

pub(super) fn event_destroy(driver: &Driver, event: RawEvent) -> Result<()> {
    // SAFETY: called from the Drop of the only owner. Waits that are already enqueued on it remain
    // valid.
    driver.check("cuEventDestroy", unsafe {
        (driver.table.event_destroy)(event.0)
    })
}

/// Free and total memory of the current context's device, in bytes.
pub(super) fn memory_info(driver: &Driver) -> Result<(u64, u64)> {
    let (mut free, mut total) = (0, 0);
    // SAFETY: both out-parameters outlive the call.
    driver.check("cuMemGetInfo", unsafe {
        (driver.table.memory_info)(&mut free, &mut total)
    })?;
    Ok((free as u64, total as u64))
}

pub(super) fn memory_allocate(driver: &Driver, bytes: usize) -> Result<u64> {
    let mut address = 0;
    // SAFETY: the out-parameter outlives the call.
    let code = unsafe { (driver.table.memory_allocate)(&mut address, bytes) };
    driver.check("cuMemAlloc", code)?;
    Ok(address)
}

pub(super) fn memory_free(driver: &Driver, address: u64) -> Result<()> {
    // SAFETY: called from the Drop of the only owner.
    driver.check("cuMemFree", unsafe { (driver.table.memory_free)(address) })
}

/// Page-locked host memory, for the contexts of all devices.
pub(super) fn host_memory_allocate(driver: &Driver, bytes: usize) -> Result<NonNull<u8>> {
    const PORTABLE: c_uint = 1;
    let mut start = null_mut();
    // SAFETY: the out-parameter outlives the call.
    let code = unsafe { (driver.table.host_memory_allocate)(&mut start, bytes, PORTABLE) };
    driver.check("cuMemHostAlloc", code)?;
    NonNull::new(start.cast()).ok_or(Error::Misuse("cuMemHostAlloc returned no memory"))
}

pub(super) fn host_memory_free(driver: &Driver, start: NonNull<u8>) -> Result<()> {
    // SAFETY: called from the Drop of the only owner.
    driver.check("cuMemFreeHost", unsafe {
        (driver.table.host_memory_free)(start.as_ptr().cast())
    })
}

// Below, addresses of device memory are plain numbers: the driver checks copies and fills against
// its own allocations, and the GPU faults (an error, not undefined behavior of the host) if a
// kernel accesses other memory.

pub(super) fn copy_to_device(
    driver: &Driver,
    stream: RawStream,
    to: u64,
    from: &[u8],
) -> Result<()> {
    // SAFETY: `from` is readable for its length. It is pageable memory, which is staged before the
    // call returns; where the device reads the host's pages itself, Stream::upload waits.
    driver.check("cuMemcpyHtoDAsync", unsafe {
        (driver.table.copy_to_device)(to, from.as_ptr().cast(), from.len(), stream.0)
    })
}

/// Enqueues a copy from page-locked memory, which is read after this returns.
///
/// # Safety
/// `from` is the start of `bytes` readable bytes, which are neither written nor freed before the
/// copy is done.
pub(super) unsafe fn copy_from_locked(
    driver: &Driver,
    stream: RawStream,
    to: u64,
    from: *const u8,
    bytes: usize,
) -> Result<()> {
    // SAFETY: by the contract of this function.
    driver.check("cuMemcpyHtoDAsync", unsafe {
        (driver.table.copy_to_device)(to, from.cast(), bytes, stream.0)
    })
}

/// Copies to the host and waits: when this returns, nothing writes to `to` any more.
pub(super) fn copy_to_host(
    driver: &Driver,
    stream: RawStream,
    to: &mut [u8],
    from: u64,
) -> Result<()> {
    // SAFETY: `to` is writable for its length and borrowed until the wait on the stream below; if
    // that wait fails, the context is broken and performs no more copies.
    let copied = driver.check("cuMemcpyDtoHAsync", unsafe {
        (driver.table.copy_to_host)(to.as_mut_ptr().cast(), from, to.len(), stream.0)
    });
    let waited = stream_synchronize(driver, stream);
    copied.and(waited)
}

pub(super) fn copy_on_device(
    driver: &Driver,
    stream: RawStream,
    to: u64,
    from: u64,
    bytes: usize,
) -> Result<()> {
    // SAFETY: no host memory is involved.
    driver.check("cuMemcpyDtoDAsync", unsafe {
        (driver.table.copy_on_device)(to, from, bytes, stream.0)
    })
}

/// Enqueues a copy of rows that are next to each other, to rows that are `pitch` bytes apart.
pub(super) fn copy_rows(
    driver: &Driver,
    stream: RawStream,
    (to, pitch): (u64, usize),
    (from, row_bytes): (u64, usize),
    rows: usize,
) -> Result<()> {
    let copy = CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        srcHost: null(),
        srcDevice: from,
        srcArray: null_mut(),
        srcPitch: row_bytes,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstHost: null_mut(),
        dstDevice: to,
        dstArray: null_mut(),
        dstPitch: pitch,
        WidthInBytes: row_bytes,
        Height: rows,
    };
    // SAFETY: the parameters are read before the call returns; no host memory is involved.
    driver.check("cuMemcpy2DAsync", unsafe {
        (driver.table.copy_rows)(&raw const copy, stream.0)
    })
}

pub(super) fn fill(
    driver: &Driver,
    stream: RawStream,
    to: u64,
    byte: u8,
    bytes: usize,
) -> Result<()> {
    // SAFETY: no host memory is involved.
    driver.check("cuMemsetD8Async", unsafe {
        (driver.table.fill)(to, byte, bytes, stream.0)
    })
}

/// Loads PTX. If the driver rejects it, the error contains the compiler's log.
pub(super) fn module_load(driver: &Driver, ptx: &str) -> Result<RawModule> {
    const ERROR_LOG: c_int = 5; // CU_JIT_ERROR_LOG_BUFFER
    const ERROR_LOG_BYTES: c_int = 6; // CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
    let ptx = CString::new(ptx).map_err(|_| Error::Misuse("PTX contains a NUL byte"))?;
    let mut log = vec![0u8; 8192];
    let mut module = null_mut();
    let mut options = [ERROR_LOG, ERROR_LOG_BYTES];
    // The API passes the size as a pointer value; one byte is reserved for a NUL.
    let mut values = [
        log.as_mut_ptr().cast::<c_void>(),
        (log.len() - 1) as *mut c_void,
    ];
    // SAFETY: the PTX ends with a NUL; the log is writable for the given size; options and values
    // have two entries each.
    let code = unsafe {
        (driver.table.module_load)(
            &mut module,
            ptx.as_ptr().cast(),
            2,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    match driver.check("cuModuleLoadDataEx", code) {
        Ok(()) => Ok(RawModule(module)),
        Err(Error::Call { code, name, .. }) => {
            let log = until_nul(&log).trim().to_owned();
            Err(Error::ModuleLoad {
                driver_version: driver_version(driver).unwrap_or(0),
                code,
                name,
                log,
            })
        }
        Err(other) => Err(other),
    }
}

pub(super) fn module_unload(driver: &Driver, module: RawModule) -> Result<()> {
    // SAFETY: called from the Drop of the only owner, which functions keep alive.
    driver.check("cuModuleUnload", unsafe {
        (driver.table.module_unload)(module.0)
    })
}

pub(super) fn module_function(
    driver: &Driver,
    module: RawModule,
    name: &CStr,
) -> Result<RawFunction> {
    let mut function = null_mut();
    // SAFETY: the module is alive, the name ends with a NUL, the out-parameter outlives the call.
    driver.check("cuModuleGetFunction", unsafe {
        (driver.table.module_function)(&mut function, module.0, name.as_ptr())
    })?;
    Ok(RawFunction(function))
}

/// Sixteen bytes with the strictest alignment that a kernel parameter needs.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct Aligned([u8; 16]);

/// Launches a kernel whose only parameter is a struct of these bytes.
pub(super) fn launch(
    driver: &Driver,
    stream: RawStream,
    function: RawFunction,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    argument: &[u8],
) -> Result<()> {
    let mut copy = vec![Aligned([0; 16]); argument.len().div_ceil(16).max(1)];
    for (aligned, bytes) in copy.iter_mut().zip(argument.chunks(16)) {
        aligned.0[..bytes.len()].copy_from_slice(bytes);
    }
    let mut parameters = [copy.as_mut_ptr().cast::<c_void>()];
    let ([gx, gy, gz], [bx, by, bz]) = (grid, block);
    // SAFETY: the function is alive; its one parameter is read from `copy` within the call. The
    // caller guarantees that the bytes are the kernel's struct; a wrong struct reads zeros of the
    // padding or faults on the device, as any wrong address would.
    let code = unsafe {
        let parameters = parameters.as_mut_ptr();
        let null = null::<*mut c_void>().cast_mut();
        (driver.table.launch)(
            function.0,
            gx,
            gy,
            gz,
            bx,
            by,
            bz,
            shared_bytes,
            stream.0,
            parameters,
            null,
        )
    };
    driver.check("cuLaunchKernel", code)
}

fn until_nul(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
