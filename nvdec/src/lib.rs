//! In: access units of a video, in decode order.
//! Out: the wanted pictures as device memory, each on a CUDA stream, for as long as a callback runs.
//! Never: links a driver library, lets a panic cross C, or knows what pictures are for.

pub mod api;
pub mod caps;
pub mod cuda;
mod error;
pub mod format;
mod parser;
pub mod pool;
pub mod raw;
pub mod session;
pub mod sys;

pub use error::{Error, Result};
