//! Opens libcuda.so.1 at run time and loads the complete table of functions, or fails.
//! The only functions called here are `cuInit` and the two that describe error codes.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys::{
    CUDA_MEMCPY2D, CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUmodule, CUstream,
};
use libloading::Library;

use crate::error::{is_sticky, unavailable, with_cause};
use crate::{Error, Result};

// Only cudarc's types are used, not its functions: those panic where the library or one of its
// symbols is missing, look for `libcuda.so` (a toolkit's stub) before `libcuda.so.1`, and return a
// Rust enum, which must never hold the code of a newer driver.
macro_rules! table {
    ($($field:ident = $symbol:literal : fn($($argument:ty),*);)*) => {
        /// The functions of libcuda that this crate calls.
        pub(crate) struct FunctionTable { $(pub $field: unsafe extern "C" fn($($argument),*) -> c_int,)* }

        impl FunctionTable {
            fn load(library: &'static Library) -> Result<FunctionTable, String> {
                Ok(FunctionTable { $($field: {
                    // SAFETY: the type is that of the driver API's documentation for this symbol;
                    // the library is never closed.
                    let symbol = unsafe { library.get::<unsafe extern "C" fn($($argument),*) -> c_int>($symbol) };
                    *symbol.map_err(|error| format!("libcuda.so.1 lacks a function ({}); install a newer driver", with_cause(&error)))?
                },)* })
            }
        }
    };
}

table! {
    init = b"cuInit\0": fn(c_uint);
    driver_version = b"cuDriverGetVersion\0": fn(*mut c_int);
    error_name = b"cuGetErrorName\0": fn(c_int, *mut *const c_char);
    error_string = b"cuGetErrorString\0": fn(c_int, *mut *const c_char);
    device_get = b"cuDeviceGet\0": fn(*mut CUdevice, c_int);
    device_count = b"cuDeviceGetCount\0": fn(*mut c_int);
    device_name = b"cuDeviceGetName\0": fn(*mut c_char, c_int, CUdevice);
    device_attribute = b"cuDeviceGetAttribute\0": fn(*mut c_int, c_int, CUdevice);
    device_uuid = b"cuDeviceGetUuid\0": fn(*mut [u8; 16], CUdevice);
    device_uuid_v2 = b"cuDeviceGetUuid_v2\0": fn(*mut [u8; 16], CUdevice);
    device_pci_bus_id = b"cuDeviceGetPCIBusId\0": fn(*mut c_char, c_int, CUdevice);
    primary_context_retain = b"cuDevicePrimaryCtxRetain\0": fn(*mut CUcontext, CUdevice);
    primary_context_state = b"cuDevicePrimaryCtxGetState\0": fn(CUdevice, *mut c_uint, *mut c_int);
    context_set_current = b"cuCtxSetCurrent\0": fn(CUcontext);
    context_get_current = b"cuCtxGetCurrent\0": fn(*mut CUcontext);
    context_synchronize = b"cuCtxSynchronize\0": fn();
    exchange_capture_mode = b"cuThreadExchangeStreamCaptureMode\0": fn(*mut c_uint);
    context_priority_range = b"cuCtxGetStreamPriorityRange\0": fn(*mut c_int, *mut c_int);
    stream_create = b"cuStreamCreateWithPriority\0": fn(*mut CUstream, c_uint, c_int);
    stream_destroy = b"cuStreamDestroy_v2\0": fn(CUstream);
    stream_synchronize = b"cuStreamSynchronize\0": fn(CUstream);
    stream_is_capturing = b"cuStreamIsCapturing\0": fn(CUstream, *mut c_uint);
    stream_wait_event = b"cuStreamWaitEvent\0": fn(CUstream, CUevent, c_uint);
    event_create = b"cuEventCreate\0": fn(*mut CUevent, c_uint);
    event_record = b"cuEventRecord\0": fn(CUevent, CUstream);
    event_query = b"cuEventQuery\0": fn(CUevent);
    event_synchronize = b"cuEventSynchronize\0": fn(CUevent);
    event_destroy = b"cuEventDestroy_v2\0": fn(CUevent);
    memory_info = b"cuMemGetInfo_v2\0": fn(*mut usize, *mut usize);
    memory_allocate = b"cuMemAlloc_v2\0": fn(*mut CUdeviceptr, usize);
    memory_free = b"cuMemFree_v2\0": fn(CUdeviceptr);
    host_memory_allocate = b"cuMemHostAlloc\0": fn(*mut *mut c_void, usize, c_uint);
    host_memory_free = b"cuMemFreeHost\0": fn(*mut c_void);
    copy_to_device = b"cuMemcpyHtoDAsync_v2\0": fn(CUdeviceptr, *const c_void, usize, CUstream);
    copy_to_host = b"cuMemcpyDtoHAsync_v2\0": fn(*mut c_void, CUdeviceptr, usize, CUstream);
    copy_on_device = b"cuMemcpyDtoDAsync_v2\0": fn(CUdeviceptr, CUdeviceptr, usize, CUstream);
    copy_rows = b"cuMemcpy2DAsync_v2\0": fn(*const CUDA_MEMCPY2D, CUstream);
    fill = b"cuMemsetD8Async\0": fn(CUdeviceptr, u8, usize, CUstream);
    module_load = b"cuModuleLoadDataEx\0": fn(*mut CUmodule, *const c_void, c_uint, *mut c_int, *mut *mut c_void);
    module_unload = b"cuModuleUnload\0": fn(CUmodule);
    module_function = b"cuModuleGetFunction\0": fn(*mut CUfunction, CUmodule, *const c_char);
    launch = b"cuLaunchKernel\0": fn(
        CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void, *mut *mut c_void
    );
}

/// The driver, opened and initialized, and the process that did so.
pub(crate) struct Driver {
    pub(super) table: FunctionTable,
    pid: u32,
}

impl Driver {
    /// Returns the driver of this process. It is opened and initialized once, and the result, also
    /// a failure, is kept.
    pub(crate) fn get() -> Result<&'static Driver> {
        static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();
        let driver = DRIVER.get_or_init(Driver::open).as_ref();
        let driver = driver.map_err(|reason| Error::NoDriver {
            reason: reason.clone(),
        })?;
        driver.check_process()?;
        Ok(driver)
    }

    /// Fails in a process that was forked after CUDA was initialized.
    pub(crate) fn check_process(&self) -> Result<()> {
        match std::process::id() {
            child if child != self.pid => Err(Error::Forked {
                parent: self.pid,
                child,
            }),
            _ => Ok(()),
        }
    }

    fn open() -> Result<Driver, String> {
        let mut reason = String::new();
        let names = ["libcuda.so.1", "libcuda.so"];
        let library = names.iter().find_map(|name| {
            // SAFETY: the initializers of NVIDIA's library may be run by dlopen at any time.
            unsafe { Library::new(*name) }
                .map_err(|error| reason = format!("{reason}{name}: {}. ", with_cause(&error)))
                .ok()
        });
        let library = library.ok_or_else(|| reason.trim_end().trim_end_matches('.').to_owned())?;
        // Never closed: the driver has its own threads and exit handlers.
        let table = FunctionTable::load(Box::leak(Box::new(library)))?;
        let driver = Driver {
            table,
            pid: std::process::id(),
        };
        // SAFETY: cuInit takes a reserved zero, and may be called from any thread, any number of
        // times.
        match unsafe { (driver.table.init)(0) } {
            0 => Ok(driver),
            code => Err(driver.failure("cuInit", code)),
        }
    }

    /// What a call returned, and what helps if the code says that the device is not available.
    fn failure(&self, call: &str, code: i32) -> String {
        let (name, description) = (self.name(code), self.description(code));
        let hint = unavailable(code).map_or(String::new(), |hint| format!(" ({hint})"));
        format!("{call} returned {code} {name}: {description}{hint}")
    }

    /// The driver's name for a code, such as `CUDA_ERROR_INVALID_VALUE`.
    pub(crate) fn name(&self, code: i32) -> String {
        self.describe(code, self.table.error_name)
    }

    /// The driver's description of a code.
    pub(crate) fn description(&self, code: i32) -> String {
        self.describe(code, self.table.error_string)
    }

    fn describe(
        &self,
        code: i32,
        function: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int,
    ) -> String {
        let mut text = std::ptr::null();
        // SAFETY: both functions of this type accept any number, and set the out-parameter to a
        // static string or to null.
        if unsafe { function(code, &mut text) } != 0 || text.is_null() {
            return "(a code that this driver does not know)".to_owned();
        }
        // SAFETY: not null, and a static C string by the driver's contract.
        unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned()
    }

    /// Returns an error unless `code` is 0. Callers that allocate add the details to an
    /// out-of-memory error.
    pub(crate) fn check(&self, call: &'static str, code: i32) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let name = self.name(code);
        Err(if is_sticky(code) {
            Error::ContextLost { call, code, name }
        } else if unavailable(code).is_some() {
            Error::NoDriver {
                reason: self.failure(call, code),
            }
        } else if code == 2 {
            Error::OutOfMemory {
                what: call.to_owned(),
                bytes: 0,
            }
        } else {
            Error::Call {
                call,
                code,
                name,
                text: self.description(code),
            }
        })
    }
}
