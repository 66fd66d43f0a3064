//! Owns an allocation of device memory, which is freed when dropped.

use std::sync::Arc;

use super::Device;
use super::result;

/// A block of device memory.
pub struct Memory {
    device: Arc<Device>,
    address: u64,
    bytes: usize,
}

impl Memory {
    pub(super) fn new(device: Arc<Device>, address: u64, bytes: usize) -> Memory {
        Memory {
            device,
            address,
            bytes,
        }
    }

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
