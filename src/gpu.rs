//! Opens GPUs and loads the kernels, once per device for all loaders of the process. Needs no
//! driver to be imported; without one, [`Gpu::open`] returns an error that names the cause.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use framespool_kernels as kernels;
use framespool_nvdec::cuda::{self, Device, Function, Stream};

use crate::error::{Error, Result};

impl From<framespool_nvdec::Error> for Error {
    fn from(error: framespool_nvdec::Error) -> Self {
        match error {
            framespool_nvdec::Error::Forked { parent, child } => Error::Forked {
                what: "GPU",
                owner_pid: parent,
                current_pid: child,
            },
            other => Error::Gpu {
                lost: other.is_lost(),
                reason: other.to_string(),
            },
        }
    }
}

/// Names of the kernels that convert pixels.
const KERNELS: [&str; 6] = [
    "framespool_pixels",
    "framespool_window",
    "framespool_finish",
    "framespool_expand",
    "framespool_rgb_operation",
    "framespool_deinterlace",
];

/// A GPU with the kernels loaded.
pub struct Gpu {
    device: Arc<Device>,
    functions: HashMap<&'static str, Function>,
}

/// Number of GPUs; 0 without a driver.
pub fn device_count() -> u32 {
    cuda::device_count().unwrap_or(0)
}

/// Why no GPU is available, if none is.
pub fn unavailable_reason() -> Option<String> {
    cuda::device_count().err().map(|e| e.to_string())
}

impl Gpu {
    /// Opens a GPU, or returns the instance that was opened before.
    ///
    /// # Errors
    /// `Gpu` without a driver or a device of this number, and where the driver rejects the kernels;
    /// `Forked`.
    pub fn open(ordinal: u32) -> Result<Arc<Self>> {
        // Never dropped: at process exit the driver may be unloaded before this static is.
        static OPEN: Mutex<BTreeMap<u32, Arc<Gpu>>> = Mutex::new(BTreeMap::new());
        let device = Device::open(ordinal)?;
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gpu) = open.get(&ordinal) {
            return Ok(gpu.clone());
        }
        let module = device.load_module(kernels::PTX)?;
        let mut functions = HashMap::new();
        for name in KERNELS {
            functions.insert(name, module.function(name)?);
        }
        let gpu = Arc::new(Self { device, functions });
        open.insert(ordinal, gpu.clone());
        Ok(gpu)
    }

    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Its number.
    pub fn ordinal(&self) -> u32 {
        self.device.ordinal()
    }

    /// Enqueues one launch, after clearing the memory range that it requires to be zero.
    pub fn launch(&self, stream: &Stream, launch: &kernels::Launch) -> Result<()> {
        if let Some((address, bytes)) = launch.clear {
            stream.fill(address, 0, bytes)?;
        }
        let function = self
            .functions
            .get(launch.kernel)
            .ok_or_else(|| Error::Gpu {
                reason: format!("no kernel is named {}", launch.kernel),
                lost: false,
            })?;
        Ok(stream.launch(
            function,
            launch.grid,
            launch.block,
            launch.shared_bytes,
            &launch.args,
        )?)
    }
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.device.fmt(f)
    }
}
