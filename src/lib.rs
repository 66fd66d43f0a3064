//! Decodes videos and images into shuffled batches of clips for training: the engine of the Python
//! package `framespool`. Its API follows that package and is not stable.
//!
//! # Where to start
//!
//! - [`video::Video`] is an opened video with its index; [`video::ClipDecoder`] decodes any of its
//!   frames, in any order, and applies a [`transforms::TransformPipeline`].
//! - [`loader::Loader`] delivers the batches of an epoch. It takes a [`loader::LoaderConfig`]: a
//!   dataset ([`dataset::SampleTable`]), a clip sampler, transforms and the order.
//! - [`batch_sampler::BatchSampler`] is that order alone: the clips of any batch of any epoch.
//!
//! # How a call flows
//!
//! [`source`] gives bytes, [`demux`] gives packets, and [`index`] derives the frames in presentation
//! order. [`decode`] decodes from a random access point to the last requested frame, and
//! [`transforms`] writes each frame once, into its slot of a [`batch`]. ARCHITECTURE.md has the
//! threads, the owners of memory, and the modules that each module may use.
//!
//! # What always holds
//!
//! - Frame *i* is the *i*-th in presentation order; a damaged frame is an error, never an
//!   approximation.
//! - Pixels, random parameters and the order of clips do not depend on threads or devices, nor on the
//!   size of a cache, from which only the block of a grouped shuffle is derived, once.
//! - Input never causes a panic. A number from a file passes [`limits::Limits`] before it sizes an
//!   allocation, and an error names the file, the reason and the next step.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//!
//! use framespool::rng::RngKey;
//! use framespool::source::MemorySource;
//! use framespool::transforms::transform::Transform;
//! use framespool::transforms::{Dtype, Layout, TransformPipeline};
//! use framespool::units::PresentationIndex;
//! use framespool::video::{ClipDecoder, Video};
//!
//! // A GIF of 1 x 1 pixel: the palette, a red frame and a blue one, each shown for 0.1 seconds.
//! let mut file = b"GIF89a\x01\0\x01\0\x80\0\0\xff\0\0\0\0\xff".to_vec();
//! for code in [0x44, 0x4c] {
//!     file.extend(b"!\xf9\x04\0\x0a\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02");
//!     file.extend([code, 1, 0]);
//! }
//! file.push(b';');
//!
//! let video = Video::open(Arc::new(MemorySource::new("a.gif", file)))?;
//! assert_eq!(video.index().num_frames(), 2);
//! assert_eq!(video.index().frame_at(0.15)?, PresentationIndex(1));
//!
//! let steps: Vec<Transform> = Vec::new();
//! let pipeline = TransformPipeline::new(steps, Dtype::U8, Layout::Nthwc)?;
//! let mut decoder = ClipDecoder::new(pipeline);
//! let mut output = decoder.output();
//! let frames = [1, 0, 1].map(PresentationIndex);
//! let key = RngKey { seed: 0, epoch: 0, clip: 0, occurrence: 0 }; // of random transforms
//! decoder.decode_clip(&mut video.reader(), &frames, key, &mut output)?;
//!
//! let (clip, shape) = output.into_clip()?.expect("three frames were written");
//! assert_eq!((shape.frames, shape.height, shape.width), (3, 1, 1));
//! assert_eq!(clip.bytes(), Some(&[0, 0, 255, 255, 0, 0, 0, 0, 255][..]));
//! # Ok::<(), framespool::Error>(())
//! ```

#![warn(unreachable_pub)]

pub mod audio;
pub mod batch;
pub mod batch_sampler;
pub mod clip_sampler;
pub mod clip_store;
pub mod codecs;
pub mod containers;
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
