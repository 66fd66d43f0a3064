//! Decodes videos and images into shuffled batches of clips for training. ARCHITECTURE.md has the
//! data flow and the table of modules, with the modules that each of them may use.

pub mod batch;
pub mod batch_sampler;
pub mod clip_sampler;
pub mod clip_store;
pub mod codecs;
pub mod dataset;
pub mod decode;
pub mod demux;
pub mod error;
pub mod ffmpeg;
pub mod gpu;
pub mod image;
pub mod index;
pub mod limits;
pub mod loader;
pub mod media;
pub mod rng;
pub mod source;
mod sync;
pub mod transforms;
pub mod units;
pub mod video;

pub use error::{Error, Result};
