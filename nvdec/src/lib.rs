//! In: access units of a video, in decode order; JPEG files.
//! Out: the wanted pictures as device memory, each on a CUDA stream, for as long as a callback or a borrow lasts.
//! Never: links a driver library, lets a panic cross C, or knows what pictures are for.

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
