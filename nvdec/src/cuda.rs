//! Wraps the CUDA driver API: devices, streams, events, memory and kernels, which are released when
//! dropped. libcuda is opened at run time; a missing library is an error, and nothing is called in
//! a forked child.

mod device;
mod driver;
mod event;
mod host_memory;
mod memory;
mod module;
mod result;
mod stream;
mod upload_ring;

pub use device::Device;
pub use event::Event;
pub use host_memory::HostMemory;
pub use memory::Memory;
pub use module::{Function, Module};
pub use stream::Stream;
pub use upload_ring::UploadRing;

pub(crate) use driver::Driver;

use crate::Result;

/// How many CUDA devices there are.
///
/// # Errors
/// [`crate::Error::NoDriver`] if libcuda.so.1 cannot be opened or reports no device.
pub fn device_count() -> Result<u32> {
    result::device_count(Driver::get()?)
}

/// Waits for all work that this process has enqueued, on every device that it uses.
pub fn synchronize_all() -> Result<()> {
    let driver = Driver::get()?;
    for ordinal in 0..result::device_count(driver)? {
        let device = result::device_get(driver, ordinal)?;
        // Opening an unused device would create its context.
        if result::primary_context_is_active(driver, device)? {
            Device::open(ordinal)?.synchronize()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn a_missing_driver_or_device_is_an_error_not_a_panic() {
        match (device_count(), Device::open(4096)) {
            (Ok(devices), Err(Error::NoDriver { reason })) => {
                assert!(
                    devices > 0 && reason.contains("4096"),
                    "{devices} devices, {reason}"
                )
            }
            (Err(Error::NoDriver { reason }), Err(Error::NoDriver { reason: again })) => {
                assert!(!reason.is_empty());
                assert_eq!(reason, again, "it is opened once, and the result is cached");
            }
            (count, open) => panic!("{count:?}, {open:?}"),
        }
    }
}
