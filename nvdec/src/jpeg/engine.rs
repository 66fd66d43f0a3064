//! In: what a JPEG decoder asks of nvJPEG and of CUDA.
//! Out: their calls, with states and memory that clean up after themselves.
//! Never: waits for the stream but where the name says so, or shares a state.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::api::{Backend, Instance, Nvjpeg, RawHeader, RawState};
use super::layout::Info;
use super::sys::Image;
use crate::cuda::{Device, Event, Memory, Stream};
use crate::{Error, Result};

/// The side of the machine. In tests a fake stands in.
pub(crate) trait Engine {
    /// What one decoding needs, of one backend.
    type State;
    /// A block of device memory.
    type Memory;
    /// A mark in the stream.
    type Mark;

    /// Whether there is such a backend.
    fn has(&mut self, backend: Backend) -> Result<bool>;
    /// Whether the hardware takes this file.
    fn suits(&mut self, file: &[u8]) -> Result<bool>;
    fn info(&mut self, backend: Backend, file: &[u8]) -> Result<Info>;
    fn state(&mut self, backend: Backend) -> Result<Self::State>;
    fn allocate(&mut self, bytes: usize) -> Result<Self::Memory>;
    /// Address and length.
    fn place(memory: &Self::Memory) -> (u64, usize);
    /// Starts decoding. The caller, [`super::decoder::Core`] alone, keeps to this: state, file and planes are nobody else's, as the host
    /// knows, and are neither changed nor freed before the host has waited for the stream, or a mark in it, after this call.
    fn decode(&mut self, state: &mut Self::State, file: &[u8], is_gray: bool, image: &Image) -> Result<()>;
    /// A mark behind all that the stream was given.
    fn mark(&mut self) -> Result<Self::Mark>;
    /// Waits here until all before the mark is over.
    fn wait(&mut self, mark: &Self::Mark) -> Result<()>;
    /// Waits here for all that the stream was given.
    fn settle(&mut self) -> Result<()>;
}

/// The instances of a device: made when first asked for, and kept. A backend that the device lacks is remembered with the reason.
struct Instances {
    device: Arc<Device>,
    made: Mutex<BTreeMap<Backend, Result<Instance, String>>>,
}

impl Instances {
    fn of(device: &Arc<Device>) -> Arc<Instances> {
        // In a static, which is never dropped: instances are left to the driver at the end.
        static ALL: Mutex<BTreeMap<u32, Arc<Instances>>> = Mutex::new(BTreeMap::new());
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || Arc::new(Instances { device: device.clone(), made: Mutex::default() });
        all.entry(device.ordinal()).or_insert_with(make).clone()
    }

    fn get(&self, nvjpeg: &Nvjpeg, backend: Backend) -> Result<Instance> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = made.get(&backend) {
            return known.clone().map_err(|reason| Error::Unsupported { reason });
        }
        let fresh = match self.device.with_current(|| nvjpeg.create(backend)) {
            Ok(instance) => Ok(instance),
            Err(error) if error.is_out_of_memory() || error.is_lost() => return Err(error),
            // Whatever it says: a device without JPEG engines, a container without the driver's libraries for them.
            Err(error) => Err(format!("nvJPEG has no {backend:?} backend on {:?} ({error})", self.device)),
        };
        made.insert(backend, fresh.clone());
        fresh.map_err(|reason| Error::Unsupported { reason })
    }
}

/// nvJPEG on a device, with a stream.
pub(crate) struct Real {
    nvjpeg: &'static Nvjpeg,
    device: Arc<Device>,
    instances: Arc<Instances>,
    stream: Arc<Stream>,
    header: Option<Header>,
}

/// What one decoding needs. Dropped when its work is over.
pub(crate) struct State {
    nvjpeg: &'static Nvjpeg,
    device: Arc<Device>,
    instance: Instance,
    raw: RawState,
    /// For which output it is ready; hardware only.
    ready_for_gray: Option<bool>,
}

struct Header {
    nvjpeg: &'static Nvjpeg,
    device: Arc<Device>,
    raw: RawHeader,
}

impl Real {
    pub fn new(device: &Arc<Device>) -> Result<Real> {
        let nvjpeg = Nvjpeg::get()?;
        let (instances, stream) = (Instances::of(device), device.stream()?);
        Ok(Real { nvjpeg, device: device.clone(), instances, stream, header: None })
    }

    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// How many JPEG engines there are: 0 without the hardware backend.
    pub fn engines(&self) -> Result<u32> {
        match self.instances.get(self.nvjpeg, Backend::Hardware) {
            Ok(instance) => self.device.with_current(|| self.nvjpeg.engines(instance)),
            Err(Error::Unsupported { .. }) => Ok(0),
            Err(error) => Err(error),
        }
    }
}

impl Engine for Real {
    type State = State;
    type Memory = Memory;
    type Mark = Event;

    fn has(&mut self, backend: Backend) -> Result<bool> {
        match self.instances.get(self.nvjpeg, backend) {
            Ok(_) => Ok(true),
            Err(Error::Unsupported { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn suits(&mut self, file: &[u8]) -> Result<bool> {
        let (nvjpeg, device) = (self.nvjpeg, &self.device);
        let instance = self.instances.get(nvjpeg, Backend::Hardware)?;
        let known = self.header.take();
        device.with_current(|| {
            let mut header = match known {
                Some(header) => header,
                None => Header { nvjpeg, device: device.clone(), raw: nvjpeg.create_header(instance)? },
            };
            let suits = nvjpeg.takes(instance, &mut header.raw, file)?;
            // Kept only where all went well: a header object that failed is made anew.
            self.header = Some(header);
            Ok(suits)
        })
    }

    fn info(&mut self, backend: Backend, file: &[u8]) -> Result<Info> {
        let instance = self.instances.get(self.nvjpeg, backend)?;
        self.device.with_current(|| self.nvjpeg.info(instance, file))
    }

    fn state(&mut self, backend: Backend) -> Result<State> {
        let instance = self.instances.get(self.nvjpeg, backend)?;
        let raw = self.device.with_current(|| self.nvjpeg.create_state(instance))?;
        Ok(State { nvjpeg: self.nvjpeg, device: self.device.clone(), instance, raw, ready_for_gray: None })
    }

    fn allocate(&mut self, bytes: usize) -> Result<Memory> {
        self.device.allocate(bytes)
    }

    fn place(memory: &Memory) -> (u64, usize) {
        (memory.address(), memory.len())
    }

    fn decode(&mut self, state: &mut State, file: &[u8], is_gray: bool, image: &Image) -> Result<()> {
        let State { nvjpeg, instance, raw, ready_for_gray, .. } = state;
        let outcome = self.device.with_current(|| {
            if instance.backend == Backend::Hardware && *ready_for_gray != Some(is_gray) {
                nvjpeg.begin_batches(*instance, raw, is_gray)?;
                *ready_for_gray = Some(is_gray);
            }
            // SAFETY: by the trait's contract, which `Core` keeps (its `wait_for` comes before any use of a set, its `drop` before the end
            // of one); the stream lives as long as this value.
            unsafe { nvjpeg.decode(*instance, raw, file, is_gray, image, self.stream.raw()) }
        });
        match outcome {
            // The library does not pass on what CUDA said; a context that is lost says so again.
            Err(Error::Jpeg { call, status, name }) => {
                self.settle().and(Err(Error::Jpeg { call, status, name }))
            }
            other => other,
        }
    }

    fn mark(&mut self) -> Result<Event> {
        self.stream.record()
    }

    fn wait(&mut self, mark: &Event) -> Result<()> {
        mark.synchronize()
    }

    fn settle(&mut self) -> Result<()> {
        self.stream.synchronize()
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // A forked child calls nothing; other failures cannot be told to anybody here.
        if let Ok(_entered) = self.device.enter() {
            let _ = self.nvjpeg.destroy_state(&mut self.raw);
        }
    }
}

impl Drop for Header {
    fn drop(&mut self) {
        if let Ok(_entered) = self.device.enter() {
            let _ = self.nvjpeg.destroy_header(&mut self.raw);
        }
    }
}
