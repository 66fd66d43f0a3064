//! Decodes video (NVDEC) and JPEG (nvJPEG) to device memory, ordered on CUDA streams.
//!
//! # Where to start
//!
//! - [`cuda::Device`] is a GPU; it creates streams and memory.
//! - [`caps::query`] reports what the GPU decodes.
//! - [`session::Session`] decodes one stream of packets after another; each picture is a
//!   [`session::Surface`] in device memory.
//! - [`jpeg::JpegDecoder`] decodes JPEG files.
//!
//! # How a call flows
//!
//! [`session::Session::feed`] takes an [`session::AccessUnit`]: the bytes of a picture, and whether
//! it is wanted. NVIDIA's parser reads it and calls back; the session takes a decoder from the pool
//! of the device ([`pool::DecoderPool`]), decodes, and maps each wanted picture. The caller's
//! function enqueues work that reads the surface on [`session::Session::stream`]. The surface is
//! unmapped on that stream too, so that no thread waits for the GPU. `examples/decode_h264.rs` is a
//! whole program.
//!
//! # What always holds
//!
//! - Driver libraries are opened at run time and never linked. Without them, each function that
//!   needs one returns an error with the reason.
//! - No panic unwinds into C, and a forked child calls no driver ([`Error::Forked`]).
//! - A thread has its own CUDA context again when a function returns, except after
//!   [`cuda::Device::make_current`].
//! - A picture that the GPU reports as damaged is an error, never a surface.
//!
//! # Example
//!
//! ```
//! use framespool_nvdec::cuda::Device;
//! use framespool_nvdec::session::{Chroma, Codec};
//! use framespool_nvdec::{Error, caps};
//!
//! match Device::open(0) {
//!     Ok(device) => {
//!         let caps = caps::query(&device, Codec::H264, Chroma::C420, 8)?;
//!         println!("{}: H.264 up to {:?}", device.name(), caps.max_size);
//!     }
//!     Err(Error::NoDriver { reason }) => println!("no GPU: {reason}"),
//!     Err(error) => return Err(error),
//! }
//! # Ok::<(), Error>(())
//! ```

#![warn(unreachable_pub)]

pub mod caps;
pub mod cuda;
mod cuvid;
mod error;
pub mod format;
pub mod jpeg;
mod parser;
pub mod pool;
pub mod session;
pub mod switches;
mod sys;
pub mod throughput;

pub use error::{Error, Result};
