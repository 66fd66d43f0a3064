//! Implements the operations that a JPEG decoder needs, with nvJPEG and CUDA. States and memory are
//! released when dropped. Only functions whose name says so wait for the stream.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::nvjpeg::{Backend, Instance, Nvjpeg, RawJpegStream, RawState};
use super::plane_layout::ImageInfo;
use super::sys::Image;
use crate::cuda::{Device, Event, Memory, Stream};
use crate::switches::Mechanism;
use crate::{Error, Result};

/// The operations of the device and the library. Tests use a fake.
pub(crate) trait NvjpegDriver {
    /// State of one decoding operation, for one backend.
    type DecodeState;
    /// A block of device memory.
    type Memory;
    /// An event in the stream.
    type Event;

    /// Whether the backend is available.
    fn has_backend(&mut self, backend: Backend) -> Result<bool>;
    /// Whether the hardware supports this file.
    fn hardware_supports(&mut self, file: &[u8]) -> Result<bool>;
    fn image_info(&mut self, backend: Backend, file: &[u8]) -> Result<ImageInfo>;
    fn state(&mut self, backend: Backend) -> Result<Self::DecodeState>;
    fn allocate(&mut self, bytes: usize) -> Result<Self::Memory>;
    /// Address and length.
    fn address_and_len(memory: &Self::Memory) -> (u64, usize);
    /// Starts decoding. The only caller, [`super::decoder::DecoderCore`], guarantees: the host
    /// knows that state, file and planes have no other user, and they are neither changed nor freed
    /// before the host has waited for the stream, or for an event in it, after this call.
    fn decode(
        &mut self,
        state: &mut Self::DecodeState,
        file: &[u8],
        is_gray: bool,
        image: &Image,
    ) -> Result<()>;
    /// Records an event after all work enqueued so far.
    fn record_event(&mut self) -> Result<Self::Event>;
    /// Blocks until all work before the event is done.
    fn wait(&mut self, event: &Self::Event) -> Result<()>;
    /// Blocks until all work in the stream is done.
    fn synchronize(&mut self) -> Result<()>;
}

/// The instances of a device, created on first use and cached. For an unavailable backend, the
/// reason is cached.
struct Instances {
    device: Arc<Device>,
    created: Mutex<BTreeMap<Backend, Result<Instance, String>>>,
}

impl Instances {
    fn of(device: &Arc<Device>) -> Arc<Instances> {
        // Stored in a static, which is never dropped: at process exit, instances are left to the
        // driver.
        static ALL: Mutex<BTreeMap<u32, Arc<Instances>>> = Mutex::new(BTreeMap::new());
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || {
            Arc::new(Instances {
                device: device.clone(),
                created: Mutex::default(),
            })
        };
        all.entry(device.ordinal()).or_insert_with(make).clone()
    }

    fn get(&self, nvjpeg: &Nvjpeg, backend: Backend) -> Result<Instance> {
        if backend == Backend::Hardware && !Mechanism::NvjpegHardware.is_enabled() {
            let reason = "FRAMESPOOL_GPU_DISABLE turns nvJPEG's hardware backend off".to_owned();
            return Err(Error::Unsupported { reason });
        }
        let mut created = self.created.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = created.get(&backend) {
            return known
                .clone()
                .map_err(|reason| Error::Unsupported { reason });
        }
        let fresh = match self.device.with_current(|| nvjpeg.create(backend)) {
            Ok(instance) => Ok(instance),
            Err(error) if error.is_out_of_memory() || error.is_lost() => return Err(error),
            // Any error: a device without JPEG engines, or a container without the driver's
            // libraries for them.
            Err(error) => Err(format!(
                "nvJPEG has no {backend:?} backend on {:?} ({error})",
                self.device
            )),
        };
        created.insert(backend, fresh.clone());
        fresh.map_err(|reason| Error::Unsupported { reason })
    }
}

/// nvJPEG on a device, with its stream.
pub(crate) struct CudaNvjpeg {
    nvjpeg: &'static Nvjpeg,
    device: Arc<Device>,
    instances: Arc<Instances>,
    stream: Arc<Stream>,
    jpeg_stream: Option<JpegStream>,
}

/// State of one decoding operation. Dropped when its work is done.
pub(crate) struct DecodeState {
    nvjpeg: &'static Nvjpeg,
    device: Arc<Device>,
    instance: Instance,
    raw: RawState,
    /// The output that it is prepared for; hardware only.
    batch_is_gray: Option<bool>,
}

struct JpegStream {
    nvjpeg: &'static Nvjpeg,
    device: Arc<Device>,
    raw: RawJpegStream,
}

impl CudaNvjpeg {
    pub(super) fn new(device: &Arc<Device>) -> Result<CudaNvjpeg> {
        let nvjpeg = Nvjpeg::get()?;
        let (instances, stream) = (Instances::of(device), device.create_stream()?);
        Ok(CudaNvjpeg {
            nvjpeg,
            device: device.clone(),
            instances,
            stream,
            jpeg_stream: None,
        })
    }

    pub(super) fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// How many JPEG engines there are; 0 without the hardware backend.
    pub(super) fn engines(&self) -> Result<u32> {
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
                None => JpegStream {
                    nvjpeg,
                    device: device.clone(),
                    raw: nvjpeg.create_jpeg_stream(instance)?,
                },
            };
            let supported = nvjpeg.supports(instance, &mut jpeg_stream.raw, file)?;
            // Kept only after success: a header object that failed is replaced.
            self.jpeg_stream = Some(jpeg_stream);
            Ok(supported)
        })
    }

    fn image_info(&mut self, backend: Backend, file: &[u8]) -> Result<ImageInfo> {
        let instance = self.instances.get(self.nvjpeg, backend)?;
        self.device
            .with_current(|| self.nvjpeg.image_info(instance, file))
    }

    fn state(&mut self, backend: Backend) -> Result<DecodeState> {
        let instance = self.instances.get(self.nvjpeg, backend)?;
        let raw = self
            .device
            .with_current(|| self.nvjpeg.create_state(instance))?;
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

    fn decode(
        &mut self,
        state: &mut DecodeState,
        file: &[u8],
        is_gray: bool,
        image: &Image,
    ) -> Result<()> {
        let DecodeState {
            nvjpeg,
            instance,
            raw,
            batch_is_gray,
            ..
        } = state;
        let outcome = self.device.with_current(|| {
            if instance.backend == Backend::Hardware && *batch_is_gray != Some(is_gray) {
                nvjpeg.initialize_batched(*instance, raw, is_gray)?;
                *batch_is_gray = Some(is_gray);
            }
            // SAFETY: by the trait's contract, which `DecoderCore` keeps: its `wait_until_idle`
            // runs before any use of a set, its `drop` before the end of one. The stream lives as
            // long as this value.
            unsafe { nvjpeg.decode(*instance, raw, file, is_gray, image, self.stream.raw()) }
        });
        match outcome {
            // The library does not pass on CUDA's error. If the context is lost, this call reports
            // it again.
            Err(Error::Nvjpeg { call, status, name }) => self
                .synchronize()
                .and(Err(Error::Nvjpeg { call, status, name })),
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
        // A forked child calls nothing; other failures cannot be reported from a destructor.
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
