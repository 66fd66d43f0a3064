//! In: a tensor's memory and its owner. Out: a DLPack capsule, legacy or versioned, that keeps the owner alive.
//! Layout from the DLPack specification, version 1.0.
//! Never: touches Python when a consumer lets go, which may happen on any thread without the GIL.
#![allow(unsafe_code)]

use std::ffi::{c_void, CStr};
use std::sync::Arc;

use framespool::batch::Slab;
use pyo3::ffi;
use pyo3::prelude::*;

/// `kDLCPU`.
pub const CPU: i32 = 1;
/// `kDLCUDA`.
pub const CUDA: i32 = 2;

#[repr(C)]
struct DlDevice {
    device_type: i32,
    device_id: i32,
}

/// Element type as DLPack says it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DlDataType {
    /// 0 signed, 1 unsigned, 2 float, 6 bool.
    pub code: u8,
    /// Bits of one element.
    pub bits: u8,
    /// Always 1.
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
struct Managed {
    tensor: DlTensor,
    manager: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct ManagedVersioned {
    major: u32,
    minor: u32,
    manager: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: DlTensor,
}

const IS_COPIED: u64 = 2;

/// CUDA's default stream that is the same for all threads.
const DEFAULT: u64 = 1;

/// CUDA's default stream of the thread that asks.
const PER_THREAD: u64 = 2;

/// Whether a consumer's stream can be expected to live on: PyTorch and XLA (JAX) keep all that they ever made. Where neither is
/// loaded it is somebody else's, of whom nobody knows.
fn streams_last(py: Python<'_>) -> bool {
    let modules = py.import("sys").and_then(|sys| sys.getattr("modules"));
    let loaded = |modules: Bound<'_, PyAny>| Ok(modules.contains("torch")? || modules.contains("jax")?);
    modules.and_then(loaded).unwrap_or(false)
}

/// What a capsule keeps alive: the memory, and the shape that the consumer reads through a pointer.
struct Keep {
    memory: Arc<Slab>,
    shape: Vec<i64>,
    strides: Vec<i64>,
    /// The stream on which the consumer reads, where it can be known again when it lets go.
    stream: Option<u64>,
}

impl Drop for Keep {
    fn drop(&mut self) {
        // The consumer has let go, but what it enqueued may still run: the memory is not written again before that is over.
        let Some(device) = self.memory.device() else { return };
        let event = self.stream.and_then(|stream| device.record_on_foreign(stream).ok());
        match event {
            Some(event) => self.memory.read_until(event),
            // Nobody knows where it reads: then all that was enqueued anywhere counts.
            None => self.memory.read_anywhere(),
        }
    }
}

const LEGACY: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";

/// What is handed over.
pub struct Export {
    /// The memory.
    pub memory: Arc<Slab>,
    /// First byte within the memory.
    pub offset: usize,
    /// Lengths of the dimensions.
    pub shape: Vec<i64>,
    /// Element type.
    pub dtype: DlDataType,
    /// The memory is a copy made for this consumer.
    pub copied: bool,
    /// The consumer's stream, for memory on a GPU; `None` where it named none.
    pub stream: Option<u64>,
}

impl Export {
    fn tensor(self, py: Python<'_>) -> (DlTensor, *mut c_void) {
        let mut strides = vec![1i64; self.shape.len()];
        for i in (1..self.shape.len()).rev() {
            strides[i - 1] = strides[i] * self.shape[i].max(1);
        }
        let data = self.memory.pointer().wrapping_add(self.offset).cast::<c_void>();
        let ndim = self.shape.len() as i32;
        let ordinal = self.memory.device().map(|device| device.ordinal() as i32);
        // Whoever lets go may be another thread, whose own stream is not the one that was meant; and a stream that was destroyed by then
        // may not be asked, since its number may be another's.
        let lasts = |stream| stream == DEFAULT || (stream != PER_THREAD && streams_last(py));
        let stream = self.stream.filter(|&stream| ordinal.is_some() && lasts(stream));
        let mut keep = Box::new(Keep { memory: self.memory, shape: self.shape, strides, stream });
        let (shape, strides) = (keep.shape.as_mut_ptr(), keep.strides.as_mut_ptr());
        let device = match ordinal {
            Some(device_id) => DlDevice { device_type: CUDA, device_id },
            None => DlDevice { device_type: CPU, device_id: 0 },
        };
        let tensor = DlTensor { data, device, ndim, dtype: self.dtype, shape, strides, byte_offset: 0 };
        (tensor, Box::into_raw(keep).cast::<c_void>())
    }

    /// A `dltensor` capsule.
    pub fn legacy(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (tensor, manager) = self.tensor(py);
        let managed = Box::into_raw(Box::new(Managed { tensor, manager, deleter: Some(delete_legacy) }));
        // SAFETY: the name is static, the destructor matches the pointer's type.
        let capsule = unsafe { ffi::PyCapsule_New(managed.cast(), LEGACY.as_ptr(), Some(drop_legacy)) };
        if capsule.is_null() {
            // SAFETY: nobody else has the pointer.
            unsafe { delete_legacy(managed) };
        }
        // SAFETY: a new reference, or null with an exception set.
        unsafe { Bound::from_owned_ptr_or_err(py, capsule) }.map(Bound::unbind)
    }

    /// A `dltensor_versioned` capsule.
    pub fn versioned(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let flags = if self.copied { IS_COPIED } else { 0 };
        let (tensor, manager) = self.tensor(py);
        let deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)> = Some(delete_versioned);
        let managed =
            Box::into_raw(Box::new(ManagedVersioned { major: 1, minor: 0, manager, deleter, flags, tensor }));
        // SAFETY: the name is static, the destructor matches the pointer's type.
        let capsule = unsafe { ffi::PyCapsule_New(managed.cast(), VERSIONED.as_ptr(), Some(drop_versioned)) };
        if capsule.is_null() {
            // SAFETY: nobody else has the pointer.
            unsafe { delete_versioned(managed) };
        }
        // SAFETY: a new reference, or null with an exception set.
        unsafe { Bound::from_owned_ptr_or_err(py, capsule) }.map(Bound::unbind)
    }
}

unsafe extern "C" fn delete_legacy(managed: *mut Managed) {
    // SAFETY: made by Box::into_raw in `legacy`; consumers call this once.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.manager.cast::<Keep>()));
    }
}

unsafe extern "C" fn delete_versioned(managed: *mut ManagedVersioned) {
    // SAFETY: made by Box::into_raw in `versioned`; consumers call this once.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.manager.cast::<Keep>()));
    }
}

/// A capsule that was consumed has been renamed ("used_…") and belongs to its consumer; any other is still ours.
unsafe extern "C" fn drop_legacy(capsule: *mut ffi::PyObject) {
    // SAFETY: called by Python with the capsule; the name decides who owns the pointer.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, LEGACY.as_ptr()) == 1 {
            delete_legacy(ffi::PyCapsule_GetPointer(capsule, LEGACY.as_ptr()).cast());
        }
    }
}

unsafe extern "C" fn drop_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: as above.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) == 1 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        }
    }
}
