//! In: a device's number.
//! Out: its primary context, the one that torch, CuPy and JAX use too, and what can be made in it.
//! Never: releases the context, or leaves it current on a thread that had another one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::calls::{self, Context, RawStream};
use super::driver::Driver;
use super::{Event, Memory, Module, Stream};
use crate::{Error, Result};

/// One GPU and its primary context. There is one value per ordinal and process, and it lives as long as the process.
pub struct Device {
    driver: &'static Driver,
    context: Context,
    ordinal: u32,
    name: String,
    uuid: [u8; 16],
    pci_bus_id: String,
    driver_version: u32,
    compute_capability: (u32, u32),
    reads_host_pages: bool,
}

impl Device {
    /// Opens a device, or gives the one that was opened before.
    ///
    /// # Errors
    /// [`Error::NoDriver`] without a driver or a device of that number; [`Error::Forked`] in a forked child.
    pub fn open(ordinal: u32) -> Result<Arc<Device>> {
        static OPEN: Mutex<BTreeMap<u32, Arc<Device>>> = Mutex::new(BTreeMap::new());
        let driver = Driver::get()?;
        let count = calls::device_count(driver)?;
        if ordinal >= count {
            let reason =
                format!("there is no cuda:{ordinal}, the driver has {count} device(s), counted from 0");
            return Err(Error::NoDriver { reason });
        }
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = open.get(&ordinal) {
            return Ok(device.clone());
        }
        let handle = calls::device_get(driver, ordinal)?;
        let attribute = |attribute| calls::device_attribute(driver, attribute, handle);
        let (major, minor) = calls::COMPUTE_CAPABILITY;
        let device = Arc::new(Device {
            driver,
            context: calls::primary_context_retain(driver, handle)?,
            ordinal,
            name: calls::device_name(driver, handle)?,
            uuid: calls::device_uuid(driver, handle)?,
            pci_bus_id: calls::device_pci_bus_id(driver, handle)?,
            driver_version: calls::driver_version(driver)?,
            compute_capability: (attribute(major)?, attribute(minor)?),
            // Older drivers do not know the questions, and no such machine.
            reads_host_pages: [calls::PAGEABLE_MEMORY_ACCESS, calls::PAGEABLE_MEMORY_USES_HOST_PAGE_TABLES]
                .into_iter()
                .any(|which| attribute(which).unwrap_or(0) != 0),
        });
        open.insert(ordinal, device.clone());
        Ok(device)
    }

    /// Its number among the visible ones.
    pub fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// Its name, such as "NVIDIA H200".
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its UUID, the same in every process.
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Its place on the bus, such as "0000:3B:00.0".
    pub fn pci_bus_id(&self) -> &str {
        &self.pci_bus_id
    }

    /// The CUDA version of the driver, 12040 for 12.4.
    pub fn driver_version(&self) -> u32 {
        self.driver_version
    }

    /// Major and minor compute capability, (9, 0) for Hopper.
    pub fn compute_capability(&self) -> (u32, u32) {
        self.compute_capability
    }

    /// Free and all memory, in bytes.
    pub fn memory(&self) -> Result<(u64, u64)> {
        self.with_current(|| calls::memory_info(self.driver))
    }

    /// Makes the context current on this thread, and leaves it so: for threads of our own, whose calls are then cheaper.
    ///
    /// The thread is relaxed too: a graph that another one captures meanwhile (`torch.cuda.graph`) is not spoilt by its calls.
    pub fn make_current(&self) -> Result<()> {
        self.driver.check_process()?;
        calls::exchange_capture_mode(self.driver, calls::RELAXED)?;
        match calls::context_current(self.driver)? == self.context {
            true => Ok(()),
            false => calls::context_set_current(self.driver, self.context),
        }
    }

    /// Runs `work` with the context current and the thread relaxed about captures, and gives the thread back what it had.
    ///
    /// The thread may be Python's: CUDA's runtime takes the current context for the current device, so one that stayed behind
    /// would move the next tensor of torch to another GPU.
    pub fn with_current<T, E: From<Error>>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let _back = self.enter()?;
        work()
    }

    /// As [`Device::with_current`], until the value is dropped.
    pub(crate) fn enter(&self) -> Result<Entered> {
        self.driver.check_process()?;
        // Asked each time: what this thread did last says nothing, since others change the current context too.
        let before = calls::context_current(self.driver)?;
        let before = (before != self.context).then_some(before);
        if before.is_some() {
            calls::context_set_current(self.driver, self.context)?;
        }
        let mut entered = Entered { driver: self.driver, before, mode: None };
        let mode = calls::exchange_capture_mode(self.driver, calls::RELAXED)?;
        entered.mode = (mode != calls::RELAXED).then_some(mode);
        Ok(entered)
    }

    /// A stream of our own: independent of the default one, of the lowest priority.
    pub fn stream(self: &Arc<Self>) -> Result<Arc<Stream>> {
        self.with_current(|| Ok(Arc::new(Stream::new(self.clone(), calls::stream_create(self.driver)?))))
    }

    /// Memory of this device, not cleared. No bytes are one byte.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] where there is not enough.
    pub fn allocate(self: &Arc<Self>, bytes: usize) -> Result<Memory> {
        let address = self.with_current(|| calls::memory_allocate(self.driver, bytes.max(1)));
        let address = address.map_err(|error| match error {
            Error::OutOfMemory { .. } => {
                Error::OutOfMemory { what: format!("a block on cuda:{}", self.ordinal), bytes: bytes as u64 }
            }
            other => other,
        })?;
        Ok(Memory::new(self.clone(), address, bytes))
    }

    /// Kernels from PTX.
    ///
    /// # Errors
    /// [`Error::Load`] with the compiler's log.
    pub fn load(self: &Arc<Self>, ptx: &str) -> Result<Arc<Module>> {
        self.with_current(|| Ok(Arc::new(Module::new(self.clone(), calls::module_load(self.driver, ptx)?))))
    }

    /// Waits for everything on this device that this process has enqueued.
    pub fn synchronize(&self) -> Result<()> {
        self.with_current(|| calls::context_synchronize(self.driver))
    }

    /// Makes a stream of somebody else (1 and 2 are CUDA's two default ones) wait for an event, without waiting here.
    pub fn wait_on_foreign(&self, raw: u64, event: &Event) -> Result<()> {
        self.with_current(|| calls::stream_wait(self.driver, RawStream::foreign(raw), event.raw()))
    }

    /// An event after everything that a stream of somebody else was given so far.
    pub fn record_on_foreign(self: &Arc<Self>, raw: u64) -> Result<Event> {
        Event::record(self, RawStream::foreign(raw))
    }

    pub(super) fn driver(&self) -> &'static Driver {
        self.driver
    }

    /// Whether the device reads pageable memory of the host by itself, so that copies from it may run late.
    pub(super) fn reads_host_pages(&self) -> bool {
        self.reads_host_pages
    }

    /// The place of destructors: runs `work` unless CUDA cannot be called any more, and keeps silent about failures, which a
    /// destructor cannot report. A forked child calls nothing: the handles are its parent's.
    pub(super) fn clean_up(&self, work: impl FnOnce(&Driver) -> Result<()>) {
        if let Ok(_back) = self.enter() {
            let _ = work(self.driver);
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cuda:{} ({})", self.ordinal, self.name)
    }
}

/// The context is current; the drop gives the thread back what it had.
pub(crate) struct Entered {
    driver: &'static Driver,
    before: Option<Context>,
    /// How the thread took captures before, where that was otherwise.
    mode: Option<u32>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(mode) = self.mode {
            // It fails only where the driver is shutting down.
            let _ = calls::exchange_capture_mode(self.driver, mode);
        }
        if let Some(before) = self.before {
            // It fails only where that context is gone meanwhile, or ours is lost: the next call says so.
            let _ = calls::context_set_current(self.driver, before);
        }
    }
}
