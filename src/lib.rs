//! Decodes videos and images into shuffled batches for training. Modules, in the order of the data flow:
//! `source → demux → index → clip_sampler → dataset → batch_sampler → plan → decode → transforms → batch → loader`.
//! `error`, `units`, `media` and `limits` define shared types; `ffmpeg` and `image` wrap the codec libraries.

pub mod batch;
pub mod batch_sampler;
pub mod bitstream;
pub mod clip_sampler;
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
pub mod source;
mod sync;
pub mod transforms;
pub mod units;
pub mod video;

pub use error::{Error, Result};
