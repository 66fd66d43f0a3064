//! Owns an allocation of device memory, which is freed when dropped.

use std::sync::Arc;

use super::Device;
use super::result;
use crate::{Error, Result};

/// A block of device memory.
pub struct Memory {
    device: Arc<Device>,
    address: u64,
    bytes: usize,
}

impl Device {
    /// Allocates uninitialized memory on this device. For 0 bytes, one byte is allocated.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if there is not enough.
    pub fn allocate(self: &Arc<Self>, bytes: usize) -> Result<Memory> {
        let address = self.with_current(|| result::memory_allocate(self.driver(), bytes.max(1)));
        let address = address.map_err(|error| match error {
            Error::OutOfMemory { .. } => Error::OutOfMemory {
                what: format!("a block on cuda:{}", self.ordinal()),
                bytes: bytes as u64,
            },
            other => other,
        })?;
        Ok(Memory {
            device: self.clone(),
            address,
            bytes,
        })
    }
}

impl Memory {
    /// The device that it is allocated on.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Its address, aligned to 256 bytes.
    pub fn address(&self) -> u64 {
        self.address
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

impl Drop for Memory {
    fn drop(&mut self) {
        // cuMemFree waits for the work that uses the memory.
        self.device
            .clean_up(|driver| result::memory_free(driver, self.address));
    }
}
