//! framespool: decode once, deliver shuffled.
//!
//! The folders follow the flow, so read them in this order:
//! `source → demux → index → sampling → order → plan → decode → pixels → batch → spool`,
//! with the words (`error`, `units`, `media`, `limits`) and the codec libraries (`ffmpeg`, `still`) underneath.

pub mod batch;
pub mod decode;
pub mod demux;
pub mod error;
pub mod ffmpeg;
pub mod gpu;
pub mod index;
pub mod limits;
pub mod media;
pub mod order;
pub mod pixels;
pub mod plan;
pub mod sampling;
pub mod source;
pub mod spool;
pub mod still;
mod sync;
pub mod units;
pub mod video;

pub use error::{Error, Result};
