//! The state of all simulated devices, behind one lock. It never calls back into the program under
//! test.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock};

pub mod memory;
pub mod race;
mod scheduling;
pub mod streams;

use crate::call_log::{
    Code, INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE, NOT_INITIALIZED, refuse, seed,
    splitmix64, variable,
};
use memory::{AllocationKind, Memory};
use race::{StreamId, VectorClock};
use streams::Stream;

/// Handles are numbers outside any memory, never reused: dereferencing one faults, and a stale one
/// is recognized.
pub const CONTEXT_BASE: usize = 0x0C00_0000_0000_1000;
const LEGACY_BASE: StreamId = 0x0A00_0000_0000_0000;

#[derive(Default)]
pub struct Device {
    /// Times the primary context was retained.
    pub retained: u32,
    pub context_flags: u32,
}

pub struct Event {
    pub device: usize,
    pub timed: bool,
    pub recorded: Option<(StreamId, u64, VectorClock)>,
}

pub struct Module {
    pub device: usize,
    pub text: String,
}

pub struct Function {
    pub module: usize,
    pub name: String,
    pub shared_limit_bytes: u32,
}

pub struct DriverState {
    pub initialised: bool,
    pub devices: Vec<Device>,
    pub memory: Memory,
    pub streams: BTreeMap<StreamId, Stream>,
    pub events: BTreeMap<usize, Event>,
    pub modules: BTreeMap<usize, Module>,
    pub functions: BTreeMap<usize, Function>,
    /// What the program under test knows to be complete. One for all its threads, because
    /// communication between them is not visible here.
    pub host: VectorClock,
    pub operations_run: u64,
    next: usize,
    random: u64,
}

/// Counts for the report and for tests.
pub struct ObjectCounts {
    pub live: Vec<(&'static str, u64)>,
    pub memory_bytes: u64,
    pub memory_peak_bytes: u64,
    pub operations_run: u64,
    pub operations_waiting: u64,
}

static DRIVER_STATE: OnceLock<Mutex<DriverState>> = OnceLock::new();

thread_local! {
    /// This thread's stack of contexts; the last is current. A device's number stands for its
    /// primary context.
    static CONTEXTS: RefCell<Vec<Option<usize>>> = const { RefCell::new(Vec::new()) };
    static OWN_STREAMS: RefCell<BTreeMap<usize, StreamId>> = const { RefCell::new(BTreeMap::new()) };
}

pub fn driver_state() -> MutexGuard<'static, DriverState> {
    DRIVER_STATE
        .get_or_init(|| Mutex::new(DriverState::from_environment()))
        .lock()
        .unwrap_or_else(|e| e.into_inner())
}

/// The device whose context is current on this thread.
pub fn current(call: &str) -> Result<usize, Code> {
    if !driver_state().initialised {
        return refuse(NOT_INITIALIZED, format!("{call} before cuInit"));
    }
    let top = peek();
    match top {
        Some(device) if driver_state().devices[device].retained > 0 => Ok(device),
        Some(device) => refuse(
            INVALID_CONTEXT,
            format!("{call}: the primary context of device {device} was released"),
        ),
        None => refuse(
            INVALID_CONTEXT,
            format!("{call} on a thread without a current context"),
        ),
    }
}

pub fn peek() -> Option<usize> {
    CONTEXTS
        .try_with(|stack| stack.borrow().last().copied().flatten())
        .ok()
        .flatten()
}

pub fn set_current(device: Option<usize>) {
    let _ = CONTEXTS.try_with(|stack| {
        let mut stack = stack.borrow_mut();
        stack.pop();
        stack.push(device);
    });
}

pub fn push_current(device: Option<usize>) {
    let _ = CONTEXTS.try_with(|stack| stack.borrow_mut().push(device));
}

pub fn pop_current() -> Option<Option<usize>> {
    CONTEXTS
        .try_with(|stack| stack.borrow_mut().pop())
        .ok()
        .flatten()
}

impl DriverState {
    fn from_environment() -> DriverState {
        let count = variable("DEVICES")
            .and_then(|n| n.parse().ok())
            .unwrap_or(1usize);
        let limit_bytes = variable("MEMORY")
            .and_then(|n| n.parse().ok())
            .unwrap_or(8 << 30);
        DriverState {
            initialised: false,
            devices: (0..count).map(|_| Device::default()).collect(),
            memory: Memory::new(limit_bytes),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            host: VectorClock::default(),
            operations_run: 0,
            next: 0,
            random: splitmix64(seed()),
        }
    }

    /// A fresh handle. The number is no address of anything.
    pub fn handle(&mut self) -> usize {
        self.next += 1;
        0x0B00_0000_0000_0000 + self.next * 16
    }

    pub fn restart_random(&mut self) {
        self.random = splitmix64(seed());
    }

    /// A number below `n`, chosen by the seed.
    pub fn choose(&mut self, n: u64) -> u64 {
        self.random = splitmix64(self.random);
        if n == 0 { 0 } else { (self.random >> 11) % n }
    }

    pub fn device_of_context(&self, context: usize, call: &str) -> Result<Option<usize>, Code> {
        if context == 0 {
            return Ok(None);
        }
        let device = context.wrapping_sub(CONTEXT_BASE) / 0x1000;
        if context < CONTEXT_BASE || !context.is_multiple_of(0x1000) || device >= self.devices.len()
        {
            return refuse(
                INVALID_CONTEXT,
                format!("{call}: {context:#x} is no context"),
            );
        }
        Ok(Some(device))
    }

    /// The stream of a raw handle in this context: 0 and 1 the legacy default one, 2 the thread's
    /// own.
    pub fn stream(&mut self, raw: usize, device: usize, call: &str) -> Result<StreamId, Code> {
        match raw {
            0 | 1 => {
                let id = LEGACY_BASE + device as u64;
                self.streams
                    .entry(id)
                    .or_insert_with(|| Stream::new(device, true));
                Ok(id)
            }
            2 => {
                let known = OWN_STREAMS.with(|own| own.borrow().get(&device).copied());
                if let Some(id) = known {
                    return Ok(id);
                }
                let id = self.handle() as StreamId;
                self.streams.insert(id, Stream::new(device, true));
                OWN_STREAMS.with(|own| own.borrow_mut().insert(device, id));
                Ok(id)
            }
            raw => match self.streams.get(&(raw as StreamId)) {
                Some(stream) if stream.destroyed => refuse(
                    INVALID_HANDLE,
                    format!("{call} on stream {raw:#x}, which was destroyed"),
                ),
                Some(stream) if stream.device != device => refuse(
                    INVALID_HANDLE,
                    format!("{call} on a stream of another device than the current context's"),
                ),
                Some(_) => Ok(raw as StreamId),
                None => refuse(INVALID_HANDLE, format!("{call}: {raw:#x} is no stream")),
            },
        }
    }

    pub fn is_legacy(id: StreamId) -> bool {
        (LEGACY_BASE..LEGACY_BASE + 0x1000).contains(&id)
    }

    /// Checks that the range is in one live allocation, and if it is a decoder's output surface, in
    /// a mapped one.
    pub fn usable(&self, address: usize, bytes: usize, call: &str) -> Result<(), Code> {
        self.memory.check(address, bytes, call)?;
        match self.memory.find(address).map(|a| a.kind) {
            Some(AllocationKind::Surface { mapped: false, .. }) if bytes > 0 => {
                let location = self.memory.describe(address);
                refuse(INVALID_VALUE, format!("{call}: touches {location}"))
            }
            _ => Ok(()),
        }
    }

    pub fn object_counts(&self) -> ObjectCounts {
        let count = |kind: fn(&AllocationKind) -> bool| {
            self.memory.live().filter(|a| kind(&a.kind)).count() as u64
        };
        let streams = self
            .streams
            .iter()
            .filter(|(id, s)| !s.destroyed && !DriverState::is_legacy(**id))
            .count() as u64;
        ObjectCounts {
            live: vec![
                (
                    "contexts",
                    self.devices.iter().filter(|d| d.retained > 0).count() as u64,
                ),
                ("allocations", count(|k| *k == AllocationKind::Device)),
                (
                    "pinned",
                    count(|k| matches!(k, AllocationKind::Pinned | AllocationKind::Registered)),
                ),
                (
                    "mapped",
                    count(|k| matches!(k, AllocationKind::Surface { mapped: true, .. })),
                ),
                ("streams", streams),
                ("events", self.events.len() as u64),
                ("modules", self.modules.len() as u64),
            ],
            memory_bytes: self.memory.used(),
            memory_peak_bytes: self.memory.peak_bytes,
            operations_run: self.operations_run,
            operations_waiting: self.streams.values().map(|s| s.queue.len() as u64).sum(),
        }
    }
}
