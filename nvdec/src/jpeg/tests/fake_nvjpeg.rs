//! A fake of nvJPEG and its device: decoding starts at the call, and readers end when they are
//! waited for. It records every access to a resource that is still in use as a violation.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::super::header::JpegHeader;
use super::super::nvjpeg::Backend;
use super::super::nvjpeg_driver::NvjpegDriver;
use super::super::plane_layout::ImageInfo;
use super::super::sys::Image;
use super::image_info_of;
use crate::{Error, Result};

#[derive(Default)]
pub(crate) struct FakeDevice {
    backends: Vec<Backend>,
    /// Operations enqueued in the stream, and those that the host knows to be complete.
    enqueued: u64,
    completed: u64,
    /// Blocks and states, each with the last operation that uses it.
    used: BTreeMap<u64, u64>,
    next: u64,
    calls: u64,
    pub waits: Vec<u64>,
    pub hardware_queries: u32,
    pub states_made: u32,
    pub allocated: Vec<usize>,
    pub live_bytes: usize,
    pub violations: Vec<String>,
    /// The hardware does not support the file.
    pub hardware_refuses: bool,
    /// Decoding with this backend fails.
    pub failing: Option<(Backend, Error)>,
    pub out_of_memory: bool,
    /// This call, counted from 0, fails.
    pub fails_at: Option<u64>,
}

#[derive(Clone)]
pub(crate) struct FakeNvjpeg(Rc<RefCell<FakeDevice>>);

pub(crate) struct FakeDecodeState {
    number: u64,
    backend: Backend,
    device: FakeNvjpeg,
}

pub(crate) struct FakeMemory {
    address: u64,
    bytes: usize,
    device: FakeNvjpeg,
}

impl FakeDevice {
    fn check_unused(&mut self, what: &str, thing: u64) {
        if self
            .used
            .get(&thing)
            .is_some_and(|&last| last > self.completed)
        {
            self.violations
                .push(format!("{what} {thing:#x}, which is still in use"));
        }
    }

    fn call(&mut self) -> Result<()> {
        self.calls += 1;
        match self.fails_at == Some(self.calls - 1) {
            true => Err(Error::Nvjpeg {
                call: "a call",
                status: 6,
                name: "NVJPEG_STATUS_EXECUTION_FAILED",
            }),
            false => Ok(()),
        }
    }
}

impl FakeNvjpeg {
    pub(super) fn new(backends: &[Backend]) -> FakeNvjpeg {
        let device = FakeDevice {
            backends: backends.to_vec(),
            next: 1 << 20,
            ..FakeDevice::default()
        };
        FakeNvjpeg(Rc::new(RefCell::new(device)))
    }

    pub(super) fn with<T>(&self, access: impl FnOnce(&mut FakeDevice) -> T) -> T {
        access(&mut self.0.borrow_mut())
    }

    /// Enqueues a reader of the planes at this address.
    pub(super) fn read(&self, address: u64) {
        self.with(|device| {
            device.enqueued += 1;
            let enqueued = device.enqueued;
            device.used.insert(address, enqueued);
        });
    }

    pub(super) fn waits(&self) -> Vec<u64> {
        self.with(|device| device.waits.clone())
    }

    pub(crate) fn hardware_queries(&self) -> u32 {
        self.with(|device| device.hardware_queries)
    }

    #[track_caller]
    pub(super) fn assert_no_violations(&self) {
        assert_eq!(
            self.with(|device| device.violations.clone()),
            Vec::<String>::new()
        );
    }
}

impl NvjpegDriver for FakeNvjpeg {
    type DecodeState = FakeDecodeState;
    type Memory = FakeMemory;
    type Event = u64;

    fn has_backend(&mut self, backend: Backend) -> Result<bool> {
        self.with(|device| device.call().map(|()| device.backends.contains(&backend)))
    }

    fn hardware_supports(&mut self, _file: &[u8]) -> Result<bool> {
        self.with(|device| {
            device.hardware_queries += 1;
            device.call().map(|()| !device.hardware_refuses)
        })
    }

    fn image_info(&mut self, _backend: Backend, file: &[u8]) -> Result<ImageInfo> {
        self.with(FakeDevice::call)?;
        Ok(image_info_of(&JpegHeader::parse(file)?))
    }

    fn state(&mut self, backend: Backend) -> Result<FakeDecodeState> {
        self.with(|device| {
            device.call()?;
            (device.next, device.states_made) = (device.next + 1, device.states_made + 1);
            Ok(FakeDecodeState {
                number: device.next,
                backend,
                device: self.clone(),
            })
        })
    }

    fn allocate(&mut self, bytes: usize) -> Result<FakeMemory> {
        self.with(|device| {
            device.call()?;
            if device.out_of_memory {
                return Err(Error::OutOfMemory {
                    what: "planes".into(),
                    bytes: bytes as u64,
                });
            }
            device.allocated.push(bytes);
            device.live_bytes += bytes;
            let address = device.next.next_multiple_of(256);
            device.next = address + bytes as u64;
            Ok(FakeMemory {
                address,
                bytes,
                device: self.clone(),
            })
        })
    }

    fn address_and_len(memory: &FakeMemory) -> (u64, usize) {
        (memory.address, memory.bytes)
    }

    fn decode(
        &mut self,
        state: &mut FakeDecodeState,
        file: &[u8],
        is_gray: bool,
        image: &Image,
    ) -> Result<()> {
        let header = JpegHeader::parse(file)?;
        assert_eq!(is_gray, header.components == 1);
        assert_eq!(image.channel[1] == 0, is_gray);
        self.with(|device| {
            // Writing starts now, also if the stream has work; a failure may follow.
            device.check_unused("decoded into", image.channel[0]);
            device.check_unused("decoded with state", state.number);
            device.enqueued += 1;
            let enqueued = device.enqueued;
            device
                .used
                .extend([(image.channel[0], enqueued), (state.number, enqueued)]);
            device.call()?;
            match &device.failing {
                Some((backend, error)) if *backend == state.backend => Err(error.clone()),
                _ => Ok(()),
            }
        })
    }

    fn record_event(&mut self) -> Result<u64> {
        self.with(|device| device.call().map(|()| device.enqueued))
    }

    fn wait(&mut self, event: &u64) -> Result<()> {
        self.with(|device| {
            device.call()?;
            device.waits.push(*event);
            device.completed = device.completed.max(*event);
            Ok(())
        })
    }

    fn synchronize(&mut self) -> Result<()> {
        self.with(|device| {
            device.completed = device.enqueued; // a failure is reported by a device on which nothing runs any more
            device.call()
        })
    }
}

impl Drop for FakeDecodeState {
    fn drop(&mut self) {
        self.device
            .with(|device| device.check_unused("destroyed state", self.number));
    }
}

impl Drop for FakeMemory {
    fn drop(&mut self) {
        self.device.with(|device| {
            device.check_unused("freed", self.address);
            device.live_bytes -= self.bytes;
        });
    }
}
