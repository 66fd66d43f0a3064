//! Exports tensor memory as a DLPack capsule, legacy or versioned (DLPack 1.0), that keeps its
//! owner alive. The deleter never calls Python: a consumer may call it on any thread, without the
//! GIL.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::sync::{Arc, OnceLock};

use framespool::batch::BatchBuffer;
use libloading::os::unix::{Library, RTLD_LAZY};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// `kDLCPU`.
pub(crate) const CPU: i32 = 1;
/// `kDLCUDA`.
pub(crate) const CUDA: i32 = 2;

#[repr(C)]
struct DlDevice {
    device_type: i32,
    device_id: i32,
}

/// A DLPack element type, `DLDataType`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DlDataType {
    /// 0 signed integer, 1 unsigned integer, 2 IEEE float, 4 bfloat16, 6 bool.
    pub code: u8,
    /// Bits of one element.
    pub bits: u8,
    /// The number of lanes; always 1.
    pub lanes: u16,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: DlDevice,
    ndim: i32,
    dtype: DlDataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct DlManagedTensor {
    tensor: DlTensor,
    manager: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlManagedTensor)>,
}

#[repr(C)]
struct DlManagedTensorVersioned {
    major: u32,
    minor: u32,
    manager: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlManagedTensorVersioned)>,
    flags: u64,
    tensor: DlTensor,
}

const FLAG_IS_COPIED: u64 = 2;

/// CUDA's legacy default stream, which all threads share.
pub(crate) const LEGACY_DEFAULT_STREAM: u64 = 1;

/// CUDA's per-thread default stream.
const PER_THREAD_DEFAULT_STREAM: u64 = 2;

/// Returns whether a stream of a consumer can be used when the memory is released: the memory may
/// be released on another thread, whose per-thread stream is not the one that was named, and the
/// handle of a stream that has been destroyed by then may belong to another stream.
///
/// PyTorch and XLA (JAX) never destroy the streams that they create; `of_pytorch` is the
/// `torch.cuda.Stream` that the handle may be from. XLA's streams cannot be recognized. Any other
/// stream belongs to a library about which nothing is known.
pub(crate) fn stream_outlives_tensors(of_pytorch: &Bound<'_, PyAny>, stream: u64) -> bool {
    if stream <= PER_THREAD_DEFAULT_STREAM {
        return stream == LEGACY_DEFAULT_STREAM;
    }
    let number = |name| of_pytorch.getattr(name).and_then(|n| n.extract::<i64>());
    // The id of a `torch.cuda.ExternalStream`, which another library has created, is its handle.
    let is_own = match (number("cuda_stream"), number("stream_id")) {
        (Ok(handle), Ok(id)) => handle as u64 == stream && id != handle,
        _ => false,
    };
    is_own
        || modules(of_pytorch.py())
            .and_then(|all| all.contains("jax"))
            .unwrap_or(false)
}

fn modules(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("sys")?.getattr("modules")
}

/// Returns PyTorch's current stream of this thread on a GPU, as a `torch.cuda.Stream`; None if
/// PyTorch for CUDA is not loaded or not initialized, which this does not do.
fn current_pytorch_stream(py: Python<'_>, ordinal: u32) -> Bound<'_, PyAny> {
    let torch = modules(py).and_then(|all| all.get_item("torch")?.getattr("cuda"));
    let stream = torch.and_then(
        |cuda| match cuda.call_method0("is_initialized")?.extract()? {
            true => cuda.call_method1("current_stream", (ordinal,)),
            false => Ok(py.None().into_bound(py)),
        },
    );
    stream.unwrap_or_else(|_| py.None().into_bound(py))
}

/// What a capsule keeps alive: the memory, and the shape and strides that the consumer reads
/// through pointers.
struct ManagerContext {
    memory: Arc<BatchBuffer>,
    shape: Vec<i64>,
    strides: Vec<i64>,
    /// The stream on which the consumer reads, if it is still valid when the consumer releases the
    /// memory.
    stream: Option<u64>,
}

impl Drop for ManagerContext {
    fn drop(&mut self) {
        record_release(&self.memory, self.stream);
    }
}

/// Records that a consumer has released memory. The work that it enqueued may still run: on the
/// stream on which it took the memory, and on PyTorch's current stream, to which a prefetcher hands
/// over what it takes on a stream of its own. The memory is not written again before that work
/// ends.
pub(crate) fn record_release(memory: &BatchBuffer, taken_on: Option<u64>) {
    let Some(device) = memory.device() else {
        return;
    };
    let Some(taken_on) = taken_on else {
        // The stream is unknown, so all work enqueued on any stream counts.
        return memory.mark_unsynchronized();
    };
    let current = pytorch_stream(device.ordinal()).filter(|&stream| stream != taken_on);
    for stream in [Some(taken_on), current].into_iter().flatten() {
        match device.record_on_external(stream) {
            Ok(event) => memory.add_reader_event(event),
            Err(_) => memory.mark_unsynchronized(),
        }
    }
}

/// Returns PyTorch's current stream of this thread on a GPU; `None` if PyTorch for CUDA is not
/// loaded. It is asked through its C interface, which needs neither Python nor its lock, and which
/// initializes nothing on the GPU.
fn pytorch_stream(ordinal: u32) -> Option<u64> {
    type CurrentStream = unsafe extern "C" fn(i32, *mut *mut c_void) -> i32;
    const RTLD_NOLOAD: i32 = 4;
    static CURRENT_STREAM: OnceLock<CurrentStream> = OnceLock::new();
    let current_stream = match CURRENT_STREAM.get() {
        Some(known) => *known,
        None => {
            // SAFETY: with RTLD_NOLOAD no initializers run; PyTorch has loaded the library before.
            let library =
                unsafe { Library::open(Some("libtorch_cuda.so"), RTLD_NOLOAD | RTLD_LAZY) };
            let library = library.ok()?;
            // SAFETY: the type is the one in PyTorch's torch/csrc/inductor/aoti_torch/c/shim.h.
            let found = unsafe { library.get(b"aoti_torch_get_current_cuda_stream\0") };
            let found = found.ok().map(|function| *function)?;
            std::mem::forget(library); // stays open, since the function is kept
            *CURRENT_STREAM.get_or_init(|| found)
        }
    };
    let mut stream = std::ptr::null_mut();
    // SAFETY: the out-parameter outlives the call.
    let code = unsafe { current_stream(ordinal as i32, &mut stream) };
    (code == 0).then(|| (stream.addr() as u64).max(LEGACY_DEFAULT_STREAM))
}

const CAPSULE_NAME: &CStr = c"dltensor";
const CAPSULE_NAME_VERSIONED: &CStr = c"dltensor_versioned";

/// Memory to export to a consumer.
pub(crate) struct Export {
    /// The memory.
    pub memory: Arc<BatchBuffer>,
    /// First byte within the memory.
    pub offset: usize,
    /// Lengths of the dimensions.
    pub shape: Vec<i64>,
    /// Elements from one index to the next in each dimension.
    pub strides: Vec<i64>,
    /// Element type.
    pub dtype: DlDataType,
    /// Whether the memory is a copy made for this consumer.
    pub copied: bool,
    /// The consumer's stream, for memory on a GPU; `None` if it named none.
    pub stream: Option<u64>,
}

impl Export {
    fn tensor(self, py: Python<'_>) -> (DlTensor, *mut c_void) {
        let data = self
            .memory
            .pointer()
            .wrapping_add(self.offset)
            .cast::<c_void>();
        let ndim = self.shape.len() as i32;
        let ordinal = self.memory.device().map(|device| device.ordinal() as i32);
        let stream = self.stream.filter(|&stream| {
            ordinal.is_some_and(|ordinal| {
                let current = current_pytorch_stream(py, ordinal as u32);
                stream_outlives_tensors(&current, stream)
            })
        });
        let (shape, strides) = (self.shape, self.strides);
        let mut keep = Box::new(ManagerContext {
            memory: self.memory,
            shape,
            strides,
            stream,
        });
        let (shape, strides) = (keep.shape.as_mut_ptr(), keep.strides.as_mut_ptr());
        let device = match ordinal {
            Some(device_id) => DlDevice {
                device_type: CUDA,
                device_id,
            },
            None => DlDevice {
                device_type: CPU,
                device_id: 0,
            },
        };
        let tensor = DlTensor {
            data,
            device,
            ndim,
            dtype: self.dtype,
            shape,
            strides,
            byte_offset: 0,
        };
        (tensor, Box::into_raw(keep).cast::<c_void>())
    }

    /// A `dltensor` capsule.
    pub(crate) fn legacy(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (tensor, manager) = self.tensor(py);
        let managed = Box::into_raw(Box::new(DlManagedTensor {
            tensor,
            manager,
            deleter: Some(delete_legacy),
        }));
        // SAFETY: the name is static, the destructor matches the pointer's type.
        let capsule =
            unsafe { ffi::PyCapsule_New(managed.cast(), CAPSULE_NAME.as_ptr(), Some(drop_legacy)) };
        if capsule.is_null() {
            // SAFETY: no other code has the pointer.
            unsafe { delete_legacy(managed) };
        }
        // SAFETY: a new reference, or null with an exception set.
        unsafe { Bound::from_owned_ptr_or_err(py, capsule) }.map(Bound::unbind)
    }

    /// A `dltensor_versioned` capsule.
    pub(crate) fn versioned(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let flags = if self.copied { FLAG_IS_COPIED } else { 0 };
        let (tensor, manager) = self.tensor(py);
        let deleter: Option<unsafe extern "C" fn(*mut DlManagedTensorVersioned)> =
            Some(delete_versioned);
        let managed = Box::into_raw(Box::new(DlManagedTensorVersioned {
            major: 1,
            minor: 0,
            manager,
            deleter,
            flags,
            tensor,
        }));
        // SAFETY: the name is static, the destructor matches the pointer's type.
        let capsule = unsafe {
            ffi::PyCapsule_New(
                managed.cast(),
                CAPSULE_NAME_VERSIONED.as_ptr(),
                Some(drop_versioned),
            )
        };
        if capsule.is_null() {
            // SAFETY: no other code has the pointer.
            unsafe { delete_versioned(managed) };
        }
        // SAFETY: a new reference, or null with an exception set.
        unsafe { Bound::from_owned_ptr_or_err(py, capsule) }.map(Bound::unbind)
    }
}

unsafe extern "C" fn delete_legacy(managed: *mut DlManagedTensor) {
    // SAFETY: made by Box::into_raw in `legacy`; consumers call this once.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.manager.cast::<ManagerContext>()));
    }
}

unsafe extern "C" fn delete_versioned(managed: *mut DlManagedTensorVersioned) {
    // SAFETY: made by Box::into_raw in `versioned`; consumers call this once.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.manager.cast::<ManagerContext>()));
    }
}

/// Destructor of a capsule. A consumer renames the capsule that it takes ("used_…") and then owns
/// the pointer; a capsule with its original name still owns it.
unsafe extern "C" fn drop_legacy(capsule: *mut ffi::PyObject) {
    // SAFETY: called by Python with the capsule; the name decides who owns the pointer.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, CAPSULE_NAME.as_ptr()) == 1 {
            delete_legacy(ffi::PyCapsule_GetPointer(capsule, CAPSULE_NAME.as_ptr()).cast());
        }
    }
}

unsafe extern "C" fn drop_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: as above.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, CAPSULE_NAME_VERSIONED.as_ptr()) == 1 {
            delete_versioned(
                ffi::PyCapsule_GetPointer(capsule, CAPSULE_NAME_VERSIONED.as_ptr()).cast(),
            );
        }
    }
}

/// Parses a consumer's stream by the rules of the Python array API, for a tensor on the device
/// `ordinal` or on the host; `None` if no stream has to wait.
pub(crate) fn consumer_stream(
    ordinal: Option<u32>,
    stream: Option<Bound<'_, PyAny>>,
    to_host: bool,
) -> PyResult<Option<u64>> {
    let Some(stream) = stream else {
        return Ok(ordinal.filter(|_| !to_host).map(|_| LEGACY_DEFAULT_STREAM));
    };
    if ordinal.is_none() {
        return Err(PyBufferError::new_err(
            "a CPU tensor has no stream; pass stream=None",
        ));
    }
    match stream.extract::<i64>() {
        Ok(-1) => Ok(None),
        Ok(number) if number > 0 => Ok(Some(number as u64)),
        _ => Err(PyBufferError::new_err(format!(
            "stream must be -1 (no waiting), 1 (the default stream), 2 (the thread's) or a CUstream, got {}",
            stream.repr()?
        ))),
    }
}

/// Parses the argument of `record_stream`: the GPU of the stream, if the object names one, and the
/// stream's handle.
pub(crate) fn recorded_stream(stream: &Bound<'_, PyAny>) -> PyResult<(Option<u32>, u64)> {
    let handle = if let Ok(handle) = stream.getattr("cuda_stream") {
        handle.extract::<u64>()
    } else if let Ok(protocol) = stream.call_method0("__cuda_stream__") {
        protocol.extract::<(u64, u64)>().map(|(_, handle)| handle)
    } else {
        stream.extract::<u64>()
    };
    let Ok(handle) = handle else {
        let wrong = framespool::Error::Argument(format!(
            "stream must be a torch.cuda.Stream, an object with __cuda_stream__ or the handle of a CUDA stream, got {}",
            stream.repr()?
        ));
        return Err(crate::errors::to_python(stream.py(), &wrong));
    };
    let gpu = stream.getattr("device_index").and_then(|gpu| gpu.extract());
    Ok((gpu.ok(), handle.max(LEGACY_DEFAULT_STREAM)))
}
