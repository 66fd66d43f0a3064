//! Owns page-locked host memory, which devices copy from and to without the driver's own staging
//! buffer.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;

use super::Device;
use super::result;
use crate::{Error, Result};

/// A block of page-locked host memory. Copies from it run after the call that enqueues them has
/// returned.
pub struct HostMemory {
    device: Arc<Device>,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: plain memory with a single owner; the driver may free it on any thread.
unsafe impl Send for HostMemory {}
// SAFETY: a shared reference gives no access to the bytes.
unsafe impl Sync for HostMemory {}

impl Device {
    /// Allocates page-locked host memory, of zeros. For 0 bytes, one byte is allocated.
    ///
    /// # Errors
    /// [`Error::NotPageLocked`] if so much memory cannot be page-locked.
    pub fn allocate_host(self: &Arc<Self>, bytes: usize) -> Result<HostMemory> {
        HostMemory::allocate(self, bytes).map_err(|error| match error {
            // Not the device's memory, which this error is about.
            Error::OutOfMemory { .. } => Error::NotPageLocked {
                bytes: bytes as u64,
            },
            other => other,
        })
    }
}

impl HostMemory {
    fn allocate(device: &Arc<Device>, bytes: usize) -> Result<HostMemory> {
        let start =
            device.with_current(|| result::host_memory_allocate(device.driver(), bytes.max(1)))?;
        let memory = HostMemory {
            device: device.clone(),
            start,
            bytes,
        };
        // SAFETY: the block was just allocated with at least this size and has no other user. The
        // bytes must be initialized before anybody refers to them.
        unsafe { memory.start.as_ptr().write_bytes(0, bytes) };
        Ok(memory)
    }

    /// The device whose context it was allocated in.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The first byte, aligned to a page.
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// How many bytes were requested.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether zero bytes were requested.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // The owner has waited for the copies from and to it.
        self.device
            .clean_up(|driver| result::host_memory_free(driver, self.start));
    }
}
