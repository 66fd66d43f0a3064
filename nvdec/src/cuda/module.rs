//! Wraps loaded modules and their kernels. A function keeps its module loaded.

use std::ffi::CString;
use std::sync::Arc;

use super::Device;
use super::result::{self, RawFunction, RawModule};
use crate::{Error, Result};

/// A loaded module.
pub struct Module {
    device: Arc<Device>,
    raw: RawModule,
}

impl Device {
    /// Loads kernels from PTX.
    ///
    /// # Errors
    /// [`Error::ModuleLoad`] with the compiler's log.
    pub fn load_module(self: &Arc<Self>, ptx: &str) -> Result<Arc<Module>> {
        self.with_current(|| {
            Ok(Arc::new(Module {
                device: self.clone(),
                raw: result::module_load(self.driver(), ptx)?,
            }))
        })
    }
}

impl Module {
    /// Returns the kernel of this name.
    pub fn function(self: &Arc<Self>, name: &str) -> Result<Function> {
        let text =
            CString::new(name).map_err(|_| Error::Misuse("a kernel's name contains a NUL byte"))?;
        let raw = self
            .device
            .with_current(|| result::module_function(self.device.driver(), self.raw, &text));
        let raw = raw.map_err(|error| match error {
            Error::Call {
                call,
                code,
                name: code_name,
                text,
            } => Error::Call {
                call,
                code,
                name: code_name,
                text: format!("kernel {name}: {text}"),
            },
            other => other,
        })?;
        Ok(Function {
            _module: self.clone(),
            raw,
        })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        self.device
            .clean_up(|driver| result::module_unload(driver, self.raw));
    }
}

/// A kernel.
#[derive(Clone)]
pub struct Function {
    _module: Arc<Module>,
    raw: RawFunction,
}

impl Function {
    pub(super) fn raw(&self) -> RawFunction {
        self.raw
    }
}
