//! In: what a JPEG decoder asks of nvJPEG and of CUDA.
//! Out: their calls, with states and memory that clean up after themselves.
//! Never: waits for the stream but where the name says so, or shares a state.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::nvjpeg::{Backend, Instance, Nvjpeg, RawJpegStream, RawState};
use super::plane_layout::ImageInfo;
use super::sys::Image;
use crate::cuda::{Device, Event, Memory, Stream};
use crate::{Error, Result};

/// The side of the machine. In tests a fake stands in.
pub(crate) trait NvjpegDriver {
    /// What one decoding needs, of one backend.
    type DecodeState;
    /// A block of device memory.
    type Memory;
    /// A mark in the stream.
    type Event;

    /// Whether there is such a backend.
    fn has_backend(&mut self, backend: Backend) -> Result<bool>;
    /// Whether the hardware takes this file.
    fn hardware_supports(&mut self, file: &[u8]) -> Result<bool>;
    fn image_info(&mut self, backend: Backend, file: &[u8]) -> Result<ImageInfo>;
    fn state(&mut self, backend: Backend) -> Result<Self::DecodeState>;
    fn allocate(&mut self, bytes: usize) -> Result<Self::Memory>;
    /// Address and length.
    fn address_and_len(memory: &Self::Memory) -> (u64, usize);
    /// Starts decoding. The caller, [`super::decoder::DecoderCore`] alone, keeps to this: state, file and planes are nobody else's, as the host
    /// knows, and are neither changed nor freed before the host has waited for the stream, or a mark in it, after this call.
    fn decode(
        &mut self,
        state: &mut Self::DecodeState,
        file: &[u8],
        is_gray: bool,
        image: &Image,
    ) -> Result<()>;
    /// A mark behind all that the stream was given.
    fn record_event(&mut self) -> Result<Self::Event>;
    /// Waits here until all before the mark is over.
    fn wait(&mut self, event: &Self::Event) -> Result<()>;
    /// Waits here for all that the stream was given.
    fn synchronize(&mut self) -> Result<()>;
}

/// The instances of a device: made when first asked for, and kept. A backend that the device lacks is remembered with the reason.
struct Instances {
    device: Arc<Device>,
    created: Mutex<BTreeMap<Backend, Result<Instance, String>>>,
}

impl Instances {
    fn of(device: &Arc<Device>) -> Arc<Instances> {
        // In a static, which is never dropped: instances are left to the driver at the end.
        static ALL: Mutex<BTreeMap<u32, Arc<Instances>>> = Mutex::new(BTreeMap::new());
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || Arc::new(Instances { device: device.clone(), created: Mutex::default() });
        all.entry(device.ordinal()).or_insert_with(make).clone()
    }

    fn get(&self, nvjpeg: &Nvjpeg, backend: Backend) -> Result<Instance> {
        let mut created = self.created.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = created.get(&backend) {
            return known.clone().map_err(|reason| Error::Unsupported { reason });
        }
        let fresh = match self.device.with_current(|| nvjpeg.create(backend)) {
            Ok(instance) => Ok(instance),
            Err(error) if error.is_out_of_memory() || error.is_lost() => return Err(error),
            // Whatever it says: a device without JPEG engines, a container without the driver's libraries for them.
            Err(error) => Err(format!("nvJPEG has no {backend:?} backend on {:?} ({error})", self.device)),
        };
        created.insert(backend, fresh.clone());
        fresh.map_err(|reason| Error::Unsupported { reason })
    }
}

/// nvJPEG on a device, with a stream.
pub(crate) struct CudaNvjpeg {
    nvjpeg: &'static Nvjpeg,
    device: Arc<Device>,
    instances: Arc<Instances>,
    stream: Arc<Stream>,
    jpeg_stream: Option<JpegStream>,
}

/// What one decoding needs. Dropped when its work is over.
pub(crate) struct DecodeState {
    nvjpeg: &'static Nvjpeg,
    device: Arc<Device>,
    instance: Instance,
    raw: RawState,
    /// For which output it is ready; hardware only.
    batch_is_gray: Option<bool>,
}

struct JpegStream {
    nvjpeg: &'static Nvjpeg,
    device: Arc<Device>,
    raw: RawJpegStream,
}

impl CudaNvjpeg {
    pub fn new(device: &Arc<Device>) -> Result<CudaNvjpeg> {
        let nvjpeg = Nvjpeg::get()?;
        let (instances, stream) = (Instances::of(device), device.create_stream()?);
        Ok(CudaNvjpeg { nvjpeg, device: device.clone(), instances, stream, jpeg_stream: None })
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

impl NvjpegDriver for CudaNvjpeg {
    type DecodeState = DecodeState;
    type Memory = Memory;
    type Event = Event;

    fn has_backend(&mut self, backend: Backend) -> Result<bool> {
        match self.instances.get(self.nvjpeg, backend) {
            Ok(_) => Ok(true),
            Err(Error::Unsupported { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn hardware_supports(&mut self, file: &[u8]) -> Result<bool> {
        let (nvjpeg, device) = (self.nvjpeg, &self.device);
        let instance = self.instances.get(nvjpeg, Backend::Hardware)?;
        let known = self.jpeg_stream.take();
        device.with_current(|| {
            let mut jpeg_stream = match known {
                Some(jpeg_stream) => jpeg_stream,
                None => {
                    JpegStream { nvjpeg, device: device.clone(), raw: nvjpeg.create_jpeg_stream(instance)? }
                }
            };
            let supported = nvjpeg.supports(instance, &mut jpeg_stream.raw, file)?;
            // Kept only where all went well: a header object that failed is made anew.
            self.jpeg_stream = Some(jpeg_stream);
            Ok(supported)
        })
    }

    fn image_info(&mut self, backend: Backend, file: &[u8]) -> Result<ImageInfo> {
        let instance = self.instances.get(self.nvjpeg, backend)?;
        self.device.with_current(|| self.nvjpeg.image_info(instance, file))
    }

    fn state(&mut self, backend: Backend) -> Result<DecodeState> {
        let instance = self.instances.get(self.nvjpeg, backend)?;
        let raw = self.device.with_current(|| self.nvjpeg.create_state(instance))?;
        Ok(DecodeState {
            nvjpeg: self.nvjpeg,
            device: self.device.clone(),
            instance,
            raw,
            batch_is_gray: None,
        })
    }

    fn allocate(&mut self, bytes: usize) -> Result<Memory> {
        self.device.allocate(bytes)
    }

    fn address_and_len(memory: &Memory) -> (u64, usize) {
        (memory.address(), memory.len())
    }

    fn decode(&mut self, state: &mut DecodeState, file: &[u8], is_gray: bool, image: &Image) -> Result<()> {
        let DecodeState { nvjpeg, instance, raw, batch_is_gray, .. } = state;
        let outcome = self.device.with_current(|| {
            if instance.backend == Backend::Hardware && *batch_is_gray != Some(is_gray) {
                nvjpeg.initialize_batched(*instance, raw, is_gray)?;
                *batch_is_gray = Some(is_gray);
            }
            // SAFETY: by the trait's contract, which `DecoderCore` keeps (its `wait_until_idle` comes before any use of a set, its `drop` before the end
            // of one); the stream lives as long as this value.
            unsafe { nvjpeg.decode(*instance, raw, file, is_gray, image, self.stream.raw()) }
        });
        match outcome {
            // The library does not pass on what CUDA said; a context that is lost says so again.
            Err(Error::Nvjpeg { call, status, name }) => {
                self.synchronize().and(Err(Error::Nvjpeg { call, status, name }))
            }
            other => other,
        }
    }

    fn record_event(&mut self) -> Result<Event> {
        self.stream.record()
    }

    fn wait(&mut self, event: &Event) -> Result<()> {
        event.synchronize()
    }

    fn synchronize(&mut self) -> Result<()> {
        self.stream.synchronize()
    }
}

impl Drop for DecodeState {
    fn drop(&mut self) {
        // A forked child calls nothing; other failures cannot be told to anybody here.
        if let Ok(_guard) = self.device.enter() {
            let _ = self.nvjpeg.destroy_state(&mut self.raw);
        }
    }
}

impl Drop for JpegStream {
    fn drop(&mut self) {
        if let Ok(_guard) = self.device.enter() {
            let _ = self.nvjpeg.destroy_jpeg_stream(&mut self.raw);
        }
    }
}
