//! In: a number of bytes.
//! Out: that much memory of a device, freed at the drop.
//! Never: reads or writes it.

use std::sync::Arc;

use super::calls;
use super::Device;

/// A block of device memory.
pub struct Memory {
    device: Arc<Device>,
    address: u64,
    bytes: usize,
}

impl Memory {
    pub(super) fn new(device: Arc<Device>, address: u64, bytes: usize) -> Memory {
        Memory { device, address, bytes }
    }

    /// The device that it lies on.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Where it begins, aligned to 256 bytes.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// How many bytes were asked for.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether no bytes were asked for.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // cuMemFree waits for the work that uses the memory.
        self.device.clean_up(|driver| calls::memory_free(driver, self.address));
    }
}
