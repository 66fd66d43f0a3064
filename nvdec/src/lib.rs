//! Decodes video (NVDEC) and JPEG (nvJPEG) to device memory, ordered on CUDA streams.
//! Driver libraries are opened at run time and never linked; no panic unwinds into C.

pub mod api;
pub mod caps;
pub mod cuda;
mod error;
pub mod format;
pub mod jpeg;
mod parser;
pub mod pool;
pub mod raw;
pub mod session;
pub mod sys;

pub use error::{Error, Result};
