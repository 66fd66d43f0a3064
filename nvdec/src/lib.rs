//! Decodes video (NVDEC) and JPEG (nvJPEG) to device memory, ordered on CUDA streams.
//! Driver libraries are opened at run time and never linked; no panic unwinds into C.

pub mod caps;
pub mod cuda;
pub mod cuvid;
mod error;
pub mod format;
pub mod jpeg;
mod parser;
pub mod pool;
pub mod session;
pub mod switches;
pub mod sys;
pub mod throughput;

pub use error::{Error, Result};
