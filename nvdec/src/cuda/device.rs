//! Opens a device's primary context, which is shared with torch, CuPy and JAX. The context is
//! never released, and a thread that had another context current gets that one back. What is
//! created on a device (memory, streams, events, modules) has its own file.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::driver::Driver;
use super::result::{self, Context};
use crate::{Error, Result, switches};

/// One GPU and its primary context. There is one value per ordinal and process, which lives as long
/// as the process.
pub struct Device {
    driver: &'static Driver,
    context: Context,
    ordinal: u32,
    name: String,
    uuid: String,
    pci_bus_id: String,
    driver_version: u32,
    compute_capability: (u32, u32),
    reads_host_pages: bool,
}

impl Device {
    /// Opens a device, or returns the one that was opened before.
    ///
    /// # Errors
    /// [`Error::NoDriver`] without a driver or a device of that ordinal; [`Error::Forked`] in a
    /// forked child; [`Error::Unsupported`] if `FRAMESPOOL_GPU_DISABLE` is wrong.
    pub fn open(ordinal: u32) -> Result<Arc<Device>> {
        static OPEN: Mutex<BTreeMap<u32, Arc<Device>>> = Mutex::new(BTreeMap::new());
        let driver = Driver::get()?;
        switches::check()?;
        let count = result::device_count(driver)?;
        if ordinal >= count {
            let reason = format!(
                "there is no cuda:{ordinal}, the driver has {count} device(s), counted from 0"
            );
            return Err(Error::NoDriver { reason });
        }
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = open.get(&ordinal) {
            return Ok(device.clone());
        }
        let handle = result::device_get(driver, ordinal)?;
        let attribute = |attribute| result::device_attribute(driver, attribute, handle);
        let (major, minor) = result::COMPUTE_CAPABILITY;
        let device = Arc::new(Device {
            driver,
            context: result::primary_context_retain(driver, handle)?,
            ordinal,
            name: result::device_name(driver, handle)?,
            uuid: format_uuid(result::device_uuids(driver, handle)?),
            pci_bus_id: result::device_pci_bus_id(driver, handle)?,
            driver_version: result::driver_version(driver)?,
            compute_capability: (attribute(major)?, attribute(minor)?),
            // Older drivers do not know these attributes, and do not run on machines that have the
            // feature.
            reads_host_pages: [
                result::PAGEABLE_MEMORY_ACCESS,
                result::PAGEABLE_MEMORY_USES_HOST_PAGE_TABLES,
            ]
            .into_iter()
            .any(|which| attribute(which).unwrap_or(0) != 0),
        });
        open.insert(ordinal, device.clone());
        Ok(device)
    }

    /// Its ordinal among the visible devices.
    pub fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// Its name, such as "NVIDIA H200".
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its UUID as nvidia-smi writes it, the same in every process: of the GPU or, in MIG mode, of
    /// the instance.
    pub fn uuid(&self) -> &str {
        &self.uuid
    }

    /// Its PCI bus id, such as "0000:3B:00.0".
    pub fn pci_bus_id(&self) -> &str {
        &self.pci_bus_id
    }

    /// The CUDA version of the driver, such as 12040 for 12.4.
    pub fn driver_version(&self) -> u32 {
        self.driver_version
    }

    /// Major and minor compute capability, such as (9, 0) for Hopper.
    pub fn compute_capability(&self) -> (u32, u32) {
        self.compute_capability
    }

    /// Free and total memory, in bytes.
    pub fn memory_info(&self) -> Result<(u64, u64)> {
        self.with_current(|| result::memory_info(self.driver))
    }

    /// Makes the context current on this thread permanently. Meant for our own threads, whose calls
    /// are then cheaper.
    ///
    /// Also sets the relaxed capture mode: this thread's calls do not invalidate a graph that
    /// another thread is capturing (`torch.cuda.graph`).
    pub fn make_current(&self) -> Result<()> {
        self.driver.check_process()?;
        result::exchange_capture_mode(self.driver, result::CAPTURE_MODE_RELAXED)?;
        match result::context_current(self.driver)? == self.context {
            true => Ok(()),
            false => result::context_set_current(self.driver, self.context),
        }
    }

    /// Runs `work` with the context current and the relaxed capture mode set, then restores the
    /// thread's previous state.
    ///
    /// The thread may be a Python thread: the CUDA runtime derives the current device from the
    /// current context, so a context that remained current would move the next torch tensor to
    /// another GPU.
    pub fn with_current<T, E: From<Error>>(
        &self,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let _guard = self.enter()?;
        work()
    }

    /// Like [`Device::with_current`], until the value is dropped.
    pub(crate) fn enter(&self) -> Result<ContextGuard> {
        self.driver.check_process()?;
        // Queried each time, because other code changes the current context too.
        let before = result::context_current(self.driver)?;
        let before = (before != self.context).then_some(before);
        if before.is_some() {
            result::context_set_current(self.driver, self.context)?;
        }
        let mut entered = ContextGuard {
            driver: self.driver,
            before,
            mode: None,
        };
        let mode = result::exchange_capture_mode(self.driver, result::CAPTURE_MODE_RELAXED)?;
        entered.mode = (mode != result::CAPTURE_MODE_RELAXED).then_some(mode);
        Ok(entered)
    }

    /// Waits for all work that this process has enqueued on this device.
    pub fn synchronize(&self) -> Result<()> {
        self.with_current(|| result::context_synchronize(self.driver))
    }

    pub(super) fn driver(&self) -> &'static Driver {
        self.driver
    }

    /// Whether the device reads pageable host memory directly, so that copies from it may read it
    /// after the call.
    pub(super) fn reads_host_pages(&self) -> bool {
        self.reads_host_pages
    }

    /// For destructors: runs `work` unless CUDA can no longer be called, and ignores errors, which
    /// a destructor cannot report. A forked child calls nothing, because the handles belong to its
    /// parent.
    pub(super) fn clean_up(&self, work: impl FnOnce(&Driver) -> Result<()>) {
        if let Ok(_guard) = self.enter() {
            let _ = work(self.driver);
        }
    }
}

/// Formats the UUID of a device; see [`result::device_uuids`].
fn format_uuid([gpu, own]: [[u8; 16]; 2]) -> String {
    let prefix = if own == gpu { "GPU" } else { "MIG" };
    let hex = own.map(|byte| format!("{byte:02x}"));
    let parts = [&hex[..4], &hex[4..6], &hex[6..8], &hex[8..10], &hex[10..]];
    format!("{prefix}-{}", parts.map(|part| part.concat()).join("-"))
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cuda:{} ({})", self.ordinal, self.name)
    }
}

/// Guard during which the context is current; its drop restores the thread's previous state.
pub(crate) struct ContextGuard {
    driver: &'static Driver,
    before: Option<Context>,
    /// The thread's previous capture mode, if it was different.
    mode: Option<u32>,
}

impl Drop for ContextGuard {
    fn drop(&mut self) {
        if let Some(mode) = self.mode {
            // Fails only if the driver is shutting down.
            let _ = result::exchange_capture_mode(self.driver, mode);
        }
        if let Some(before) = self.before {
            // Fails only if that context was destroyed meanwhile, or ours is lost; the next call
            // reports that.
            let _ = result::context_set_current(self.driver, before);
        }
    }
}
